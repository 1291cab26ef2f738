"""Dask collections: their blocks are the parts of a table, and a rule decides every block where it is, lazily.

What a block gets is what the rule decides on it as an array, so no decision depends on how the rows are divided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confmax.tables.array.kind import ARRAYS
from confmax.tables.columns import column_names, order_of
from confmax.tables.kinds import Kind, Rule, given_hashes, here
from confmax.tables.labels import vector
from confmax.tables.partitioned.dask import dask_source, is_frame, limited, one_column_chunk, threads_for
from confmax.tables.partitioned.table import partitioned_table
from confmax.tables.table import Checked, Storage, Table


@final
class DaskCollections(Kind):
    """Dask arrays and frames."""

    in_memory = False

    @property
    def storage(self) -> Storage:
        """How rows are held once they are computed."""
        return ARRAYS

    def check(self, proba: Any, *, order: Any = None, hashed: bool = False) -> Checked:
        """Return given probabilities, computed, as checked rows."""
        return ARRAYS.check(proba, order=order, hashed=hashed)

    def given_hashes(self, proba: Any) -> Any:
        """Return the hashes of given rows (n,), computed."""
        return ARRAYS.given_hashes(proba)

    def host(self, values: Any) -> NDArray[Any]:
        """Return values, computed."""
        return np.asarray(values)

    def floats(self, values: Any) -> NDArray[Any]:
        """Return given probabilities, computed."""
        return ARRAYS.floats(values)

    def table(self, proba: Any, y: Any, sample_weight: Any, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        """Return `make_table`."""
        return partitioned_table(dask_source(proba, y, sample_weight), classes, stated=stated)

    def predict_index(self, rule: Rule, proba: Any, keys: Any) -> Any:
        """Return the decisions of a rule: lazy, int64 (n,)."""
        return lazily(partial(_decisions, rule, _order(rule, proba, keys)), one_column_chunk(proba), keys)

    def decision_probabilities(self, rule: Rule, proba: Any) -> Any:
        """Return the probability of every decision (n, M): lazy, float64."""
        names = (*rule.class_names, *range(len(rule.class_names), rule.n_decisions))
        work = partial(_probabilities, rule, _order(rule, proba))
        return lazily(work, one_column_chunk(proba), names=names, dtype=np.float64)

    def named(self, names: NDArray[Any], decisions: Any) -> Any:
        """Return the names (n,) of decisions (n,): lazy."""
        return lazily(partial(_names, names), decisions, dtype=names.dtype)


DASK = DaskCollections()


def _order(rule: Rule, proba: Any, keys: Any = None) -> tuple[int, ...] | None:
    """Return the places of the rule's classes among a frame's columns, where they are not in the same order.

    Names are matched here, once: a block that is decided on a worker has no one to warn.
    """
    names = [name for name in column_names(proba) or () if not (isinstance(keys, str) and name == keys)]
    return order_of(names or None, rule.class_names[: rule.n_classes])


def _in_order(block: Any, order: tuple[int, ...] | None) -> Any:
    """Return the columns of a block in the order of the rule's classes, without their names."""
    values = np.asanyarray(block)
    return values if order is None else values[:, list(order)]


def _decisions(rule: Rule, order: tuple[int, ...] | None, block: Any, keys: Any) -> NDArray[np.int64]:
    if len(block) == 0:
        return np.empty(0, np.int64)
    block = _in_order(block, order)
    if rule.is_randomized and keys is None:
        # what the rule would draw from; given, so that no block is judged by its duplicates
        keys = given_hashes(block)
    return np.asarray(rule.predict_index(block, keys=keys))


def _probabilities(rule: Rule, order: tuple[int, ...] | None, block: Any, _: Any) -> NDArray[Any]:
    if len(block) == 0:
        return np.empty((0, rule.n_decisions))
    return np.asarray(rule.decision_probabilities(_in_order(block, order)))


def _names(names: NDArray[Any], block: Any, _: Any) -> NDArray[Any]:
    return names.take(np.asarray(block))


def lazily(
    work: Callable[..., Any], proba: Any, keys: Any = None, *, names: Sequence[Any] | None = None, dtype: Any = np.int64
) -> Any:
    """Return what ``work(block, keys of the block)`` makes of every block, as a lazy Dask collection.

    Parameters
    ----------
    work : callable
        Takes a block (m, K) or (m,) and its keys (m,) or None; returns an array (m,), or (m, M) where there are names.
    proba : Dask array, DataFrame or Series
        Whatever is to be mapped, block by block.
    keys : Dask array or Series, array-like, str or None
        Of every row, in the same partitions; array-like beside arrays of known chunks only; the name of a frame's
        column that is no probability.
    names : sequence or None
        Names of the result's columns.
    dtype : dtype
        Of the result.

    Returns
    -------
    Dask array (n,) or (n, M) with the same chunks, or a Series or DataFrame with the same index.
    """
    if is_frame(proba):
        return _over_partitions(work, proba, keys, names, dtype)
    import dask.array as da

    given = [] if keys is None else [_keys_beside(keys, proba)]
    shape: dict[str, Any] = {"dtype": dtype, "meta": np.empty((0,) if names is None else (0, 0), dtype)}
    if names is not None:
        shape["chunks"] = (proba.chunks[0], (len(names),))
    elif proba.ndim == 2:
        shape["drop_axis"] = 1
    return da.map_blocks(_on_block, proba, *given, work=work, threads=threads_for(proba.numblocks[0]), **shape)


def _keys_beside(keys: Any, proba: Any) -> Any:
    """Return keys as a Dask array (n, 1) in the chunks of an array of probabilities."""
    import dask.array as da

    rows = proba.chunks[0]
    if here(len, keys) is not None:
        if np.isnan(proba.shape[0]):
            raise ValueError("proba has chunks of unknown sizes; pass keys as a Dask array in the same chunks")
        keys = vector(keys, "keys", "one key")
        if len(keys) != proba.shape[0]:
            raise ValueError(f"keys must hold one key per row of proba: {proba.shape[0]}; got shape {keys.shape}")
        return da.from_array(keys, chunks=(rows,))[:, None]
    if is_frame(keys):
        keys = keys.to_dask_array()
    if keys.chunks[0] != rows and not np.isnan(keys.shape[0]) and not np.isnan(proba.shape[0]):
        if keys.shape[0] != proba.shape[0]:
            raise ValueError(f"keys must hold one key per row of proba: {proba.shape[0]}; got shape {keys.shape}")
        keys = keys.rechunk((rows,))
    if keys.numblocks[0] != len(rows):
        raise ValueError(f"keys has {keys.numblocks[0]} partitions and proba has {len(rows)}; use the same for both")
    # blocks lie beside each other; that their lengths agree is checked where they are
    return da.Array(keys.dask, keys.name, (rows,), meta=keys._meta)[:, None]


def _on_block(
    block: Any, keys: Any = None, *, work: Callable[..., Any], threads: int, block_id: tuple[int, ...] = (0,)
) -> Any:
    return _decided(work, block, None if keys is None else keys[:, 0], threads, block_id[0])


def _decided(work: Callable[..., Any], block: Any, keys: Any, threads: int, number: int) -> Any:
    try:
        return limited(work, threads, block, keys)
    except ValueError as error:
        raise ValueError(f"partition {number}: {error}") from None


def _over_partitions(work: Callable[..., Any], frame: Any, keys: Any, names: Sequence[Any] | None, dtype: Any) -> Any:
    """Return the lazy Series, or frame with columns ``names``, of what ``work`` makes of every partition."""
    import pandas as pd

    if isinstance(keys, str):
        keys, frame = frame[keys], frame[[name for name in frame.columns if name != keys]]
    if keys is not None and not is_frame(keys):
        raise ValueError(
            "keys beside a Dask DataFrame must be a Dask Series in the same partitions, or a column's name"
        )
    if keys is not None and keys.npartitions != frame.npartitions:
        raise ValueError(
            f"keys has {keys.npartitions} partitions and proba has {frame.npartitions}; use the same for both"
        )
    if keys is not None and keys.divisions != frame.divisions:
        frame, keys = frame.clear_divisions(), keys.clear_divisions()
    index = frame._meta.index[:0]
    empty = np.empty(0 if names is None else (0, len(names)), dtype)
    meta = pd.Series(empty, index=index) if names is None else pd.DataFrame(empty, index=index, columns=list(names))
    given = [] if keys is None else [keys]
    return frame.map_partitions(
        _on_partition, *given, meta=meta, align_dataframes=False, work=work, threads=threads_for(frame.npartitions),
        names=names, dtype=meta.dtype if names is None else dtype,
    )  # fmt: skip


def _on_partition(
    frame: Any,
    keys: Any = None,
    *,
    work: Callable[..., Any],
    threads: int,
    names: Sequence[Any] | None,
    dtype: Any,
    partition_info: Any = None,
) -> Any:
    import pandas as pd

    number = 0 if partition_info is None else partition_info["number"]
    found = _decided(work, frame, None if keys is None else np.asarray(keys), threads, number)
    if names is None:
        return pd.Series(found, index=frame.index, dtype=dtype)
    return pd.DataFrame(found, index=frame.index, columns=list(names))
