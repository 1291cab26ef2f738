"""Tables whose rows lie in parts: in files, in Dask collections, in Spark frames."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from confmax.tables.kinds import Kind, register


def streams_as(values: Any) -> str | None:
    """Return by what the rows of ``values`` stream: "collect_batches", "scanner", ..., "call"; None if they do not."""
    # the type is asked: a column of a frame may have any name
    kind = type(values)
    for protocol in ("collect_batches", "scanner", "__arrow_c_stream__"):
        if hasattr(kind, protocol):
            return protocol
    return "call" if callable(values) and not isinstance(values, type) and not hasattr(kind, "__array__") else None


def is_stream(values: Any) -> bool:
    """Whether ``values`` have rows that stream: by a protocol, and not as a table in memory, which is an array too.

    So are iterators, which are refused.
    """
    return hasattr(values, "__next__") or (not hasattr(values, "__array__") and streams_as(values) is not None)


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


def _of(module: str, name: str) -> Callable[[], Kind]:
    """Return what loads the kind that a module of this folder calls ``name``."""
    return lambda: getattr(import_module(f"{__name__}.{module}"), name)


register("stream", is_stream, _of("streams", "STREAMS"))
register("opened", is_opened, _of("table", "OPENED"))
register("dask", is_dask, _of("dask", "DASK"))
register("spark", is_spark, _of("spark", "SPARK"))
