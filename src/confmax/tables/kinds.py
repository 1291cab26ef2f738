"""Telling tensors, Dask collections and Spark frames from other input without importing what they belong to."""

from __future__ import annotations

from typing import Any


def is_tensor(values: Any) -> bool:
    """Whether ``values`` are a torch tensor (or of a class derived from it), found out without importing torch."""
    return any(kind.__name__ == "Tensor" and kind.__module__ == "torch" for kind in type(values).__mro__)


def is_dask(values: Any) -> bool:
    """Whether ``values`` are a Dask collection, found out without importing dask."""
    return type(values).__module__.partition(".")[0] in ("dask", "dask_expr")


def is_spark(values: Any) -> bool:
    """Whether ``values`` are a Spark DataFrame, of a classic session or of Spark Connect."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(values).__mro__
    )


def on_host(values: Any) -> Any:
    """Return a tensor ``values`` as an array in host memory, half precision as float32; other input as it is."""
    if not is_tensor(values):
        return values
    plain = values.detach().cpu()
    narrow = plain.is_floating_point() and plain.element_size() < 4
    return (plain.float() if narrow else plain).resolve_conj().resolve_neg().numpy()


def is_source(proba: Any) -> bool:
    """Whether ``proba`` is a table that `open_table` has opened."""
    return getattr(proba, "is_confmax_source", False) is True
