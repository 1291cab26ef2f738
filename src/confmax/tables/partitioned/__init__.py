"""Tables whose rows lie in parts: in files, in Dask collections, in Spark frames."""
