"""Tables whose rows lie in parts: in files, in Dask collections, in Spark frames."""

from __future__ import annotations

from typing import Any

from confmax.tables.kinds import Kind, register
from confmax.tables.partitioned.batches import is_stream
from confmax.tables.partitioned.spark import SPARK
from confmax.tables.partitioned.streams import STREAMS
from confmax.tables.partitioned.table import OPENED


def is_dask(values: Any) -> bool:
    """Whether ``values`` are a Dask collection."""
    return type(values).__module__.partition(".")[0] in ("dask", "dask_expr")


def is_spark(values: Any) -> bool:
    """Whether ``values`` are a Spark DataFrame, of a classic session or of Spark Connect."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(values).__mro__
    )


def is_opened(values: Any) -> bool:
    """Whether ``values`` are an opened table, whose rows are read part by part."""
    return getattr(values, "is_confmax_source", False) is True


def _dask() -> Kind:
    from confmax.tables.partitioned.dask import DASK

    return DASK


register("stream", is_stream, lambda: STREAMS)
register("opened", is_opened, lambda: OPENED)
register("dask", is_dask, _dask)
register("spark", is_spark, lambda: SPARK)
