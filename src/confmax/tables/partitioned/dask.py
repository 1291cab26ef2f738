"""Tables in Dask collections: parts are checked and held on the workers; a pass sends gains and brings back sums.

One block of an array, or one partition of a frame, is one part. Its rows stay on the worker that has them, and Dask
makes them anew from their own graph if that worker dies. dask is imported by those who have a collection only.
"""

from __future__ import annotations

import pickle
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numba
import numpy as np

from confmax.tables.labels import vector
from confmax.tables.partitioned.table import Part

LARGE_WORK = 1 << 16  # bytes of work beyond which it is sent to a worker once, not with every part
MESSAGE_BYTES = 4 << 20  # of labels in memory that are sent at once: Dask warns of graphs beyond 10 MB

T = TypeVar("T")
Heard = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class DaskSource:
    """Blocks of Dask collections as the parts of a table.

    Attributes
    ----------
    blocks : tuple of (probabilities, labels or None, weights or None)
        Of each part, delayed objects; rows that were computed are held.
    n_rows, n_classes : int
        Of all parts together.
    names : tuple of str or None
        Names of the columns of a frame.
    has_labels : bool
        Whether there are true classes.
    order : tuple of int or None
        In which order the columns are given on.
    held : tuple of delayed objects or None
        What `kept` has made of each part, where the part lies.
    progress : callable or None
        Called after each pass with the number of rows, twice.
    """

    blocks: tuple[tuple[Any, Any, Any], ...]
    n_rows: int
    n_classes: int
    names: tuple[str, ...] | None
    has_labels: bool
    order: tuple[int, ...] | None = None
    held: tuple[Any, ...] | None = None
    progress: Heard | None = None

    is_confmax_source = True
    holds = True

    def with_columns(self, order: Sequence[int]) -> DaskSource:
        """Return the source with its columns in another order."""
        return replace(self, order=tuple(order))

    def kept(self, step: Callable[[Any], Any]) -> DaskSource:
        """Return the source of what ``step`` makes of each part, computed once and held where the part lies."""
        import dask

        # the raw blocks are let go: Dask remembers how to make them
        return replace(self, blocks=(), held=tuple(dask.persist(*self._tasks(step))))

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every part, in order; all parts are asked at once."""
        import dask

        found = dask.compute(*self._tasks(work, labels_only=labels_only))
        for each in found:
            if isinstance(each, Refused):
                raise ValueError(each.message)
        if self.progress is not None and not labels_only:
            self.progress(self.n_rows, self.n_rows)
        yield from found

    def _tasks(self, work: Callable[[Any], Any], *, labels_only: bool = False) -> list[Any]:
        """Return one delayed call of ``work`` per part."""
        from dask import delayed

        n_parts = len(self.blocks if self.held is None else self.held)
        task = delayed(_attempted, pure=False, traverse=False)
        sent = _sent(work)
        if self.held is not None:
            return [task(sent, threads_for(n_parts), part) for part in self.held]
        part = delayed(_part, pure=False, traverse=False)
        shape = (self.n_classes, self.order)
        return [
            task(sent, threads_for(n_parts), part(f"partition {k}", shape, None if labels_only else x, y, w))
            for k, (x, y, w) in enumerate(self.blocks)
        ]


def dask_source(
    proba: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    columns: Sequence[str] | None = None,
    progress: Heard | None = None,
) -> DaskSource:
    """Return the blocks of Dask collections as a source; their rows are computed once and held where they lie.

    Parameters
    ----------
    proba : Dask array or Dask DataFrame (n, K)
        Probabilities; the sizes of an array's chunks may be unknown. Of a frame, ``columns`` if they are named, else
        all columns but those that ``y`` and ``sample_weight`` name.
    y, sample_weight : Dask array or Series (n,), array-like (n,), str or None
        Labels and weights in the same partitions, in memory, or the name of a column of the frame.
    columns : sequence of str or None
        Columns of probabilities of a frame, in class order.
    progress : callable or None
        Called with the number of rows after each pass.

    Raises
    ------
    ValueError
        If there is no such column, or labels and weights do not lie beside the probabilities.

    Examples
    --------
    >>> import numpy as np, dask.array as da
    >>> from confmax.oracle import make_oracle, make_table
    >>> from confmax.confusion import Gains
    >>> P = da.from_array(np.array([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5]]), chunks=(2, 2))
    >>> make_oracle(make_table(P)).maximize(Gains.reduced([1.0, 1.0])).columns.round(3)
    array([[0.333, 0.667]])
    """
    names = None
    if is_frame(proba):
        proba, y, sample_weight, names = _of_frame(proba, y, sample_weight, columns)
    elif columns is not None or isinstance(y, str) or isinstance(sample_weight, str):
        raise ValueError("a Dask array has no column names; pass y and sample_weight as arrays, and leave columns= out")
    proba = one_column_chunk(proba)
    proba, y, sample_weight = _persisted([proba, y, sample_weight])
    x = _blocks(proba)
    lengths, K = _shape(proba, x)
    labels = _beside(y, "y", "one label", lengths)
    weights = _beside(sample_weight, "sample_weight", "one weight", lengths)
    blocks = tuple(zip(x, labels, weights, strict=True))
    return DaskSource(blocks, sum(lengths), K, names, y is not None, progress=progress)


# --- opening ---------------------------------------------------------------------------------------------------------


def _of_frame(frame: Any, y: Any, weight: Any, columns: Sequence[str] | None) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """Return the columns of probabilities, labels, weights, and the columns' names."""
    there = list(frame.columns)
    named = [each for each in (y, weight) if isinstance(each, str)]
    chosen = [name for name in there if name not in named] if columns is None else list(columns)
    for name in (*named, *chosen):
        if name not in there:
            raise ValueError(f"the Dask DataFrame has no column {name!r}; its columns are {', '.join(map(str, there))}")
    y, weight = (frame[each] if isinstance(each, str) else each for each in (y, weight))
    if len(chosen) < 2:
        raise ValueError(f"proba must have shape (n, K) with K >= 2 classes; got the columns {chosen}")
    return frame[chosen], y, weight, tuple(map(str, chosen))


def is_frame(values: Any) -> bool:
    """Whether this is a Dask DataFrame or Series, whose blocks are partitions."""
    return hasattr(type(values), "divisions")  # delayed objects have every attribute, their type has not


def _is_array(values: Any) -> bool:
    return hasattr(type(values), "chunks")


def one_column_chunk(proba: Any) -> Any:
    """Return a Dask array (n, K) whose rows are not divided between chunks; a frame as it is.

    Raises
    ------
    ValueError
        If it has another number of dimensions, or is no array or frame.
    """
    if is_frame(proba) and proba.ndim == 2:
        return proba
    if not _is_array(proba) or proba.ndim != 2:
        shape = f"an array of shape {proba.shape}" if _is_array(proba) else type(proba).__name__
        raise ValueError(f"proba must be a Dask array (n, K) or a Dask DataFrame of K columns; got {shape}")
    if proba.numblocks[1] == 1:
        return proba
    if np.isnan(proba.shape[1]):
        raise ValueError("the chunks of proba have unknown sizes; call proba.compute_chunk_sizes() first")
    return proba.rechunk({1: -1})


def _persisted(given: list[Any]) -> list[Any]:
    """Return collections held where they lie, others as they are; what arrays, or frames, share is computed once."""
    import dask

    out = list(given)
    for is_held in (is_frame, _is_array):
        places = [k for k, each in enumerate(given) if is_held(each)]
        for k, each in zip(places, dask.persist(*(given[k] for k in places)), strict=True):
            out[k] = each
    return out


def _blocks(collection: Any) -> list[Any]:
    """Return the blocks of an array, or the partitions of a frame or series, as delayed objects."""
    # the optimised graph of what is held would let it go
    return list(np.ravel(np.array(collection.to_delayed(optimize_graph=False), dtype=object)))


def _shape(proba: Any, blocks: list[Any]) -> tuple[list[int], int]:
    """Return the number of rows of each block and the number of columns; what is unknown is asked in one round."""
    import dask

    known = _is_array(proba) and not np.isnan(proba.shape).any()
    if known:
        return [int(rows) for rows in proba.chunks[0]], int(proba.shape[1])
    shapes = dask.compute(*(dask.delayed(np.shape, pure=False)(block) for block in blocks))
    return [shape[0] for shape in shapes], max(shape[1] for shape in shapes)


def _beside(values: Any, name: str, each: str, lengths: list[int]) -> list[Any]:
    """Return labels or weights as one delayed object per part."""
    if values is None:
        return [None] * len(lengths)
    n = sum(lengths)
    if not (is_frame(values) or _is_array(values)):
        given = vector(values, name, each)
        if len(given) != n:
            raise ValueError(f"{name} must hold {each} per row of proba: {n}; got shape {given.shape}")
        return _divided(given, lengths)
    if _is_array(values) and not np.isnan(values.shape[0]) and values.chunks[0] != tuple(lengths):
        if values.shape[0] != n:
            raise ValueError(f"{name} must hold {each} per row of proba: {n}; got shape {values.shape}")
        values = values.rechunk({0: tuple(lengths)})
    blocks = _blocks(values)
    if len(blocks) != len(lengths):
        raise ValueError(
            f"{name} has {len(blocks)} partitions and proba has {len(lengths)}; make them equal with "
            f"repartition() or compute_chunk_sizes()"
        )
    return blocks


def _divided(given: Any, lengths: list[int]) -> list[Any]:
    """Return an array in memory as one delayed object per part, held by the workers; every message is small."""
    import dask

    bytes_given = len(pickle.dumps(given, pickle.HIGHEST_PROTOCOL)) if given.dtype.hasobject else given.nbytes
    rows = max(1, len(given) * MESSAGE_BYTES // max(1, bytes_given))
    edges = np.cumsum([0, *lengths]).tolist()
    cuts = sorted({*edges, *range(0, len(given), rows)})
    sent: dict[int, Any] = {}
    for start in range(0, len(given), rows):
        pieces = list(pairwise(cuts[bisect_left(cuts, start) : bisect_left(cuts, start + rows) + 1]))
        delayed = [dask.delayed(given[low:high], pure=False, traverse=False) for low, high in pieces]
        sent.update(zip((low for low, _ in pieces), dask.persist(*delayed), strict=True))
    # Dask lets go of what it holds if it is passed in a list
    join, empty = dask.delayed(_joined, pure=False, traverse=False), given[:0]
    places = pairwise(bisect_left(cuts, edge) for edge in edges)
    parts = [[sent[low] for low in cuts[first:last]] for first, last in places]
    return [part[0] if len(part) == 1 else join(*part, empty) for part in parts]


def _joined(*pieces: Any) -> Any:
    return np.concatenate(pieces)


# --- what runs on a worker -------------------------------------------------------------------------------------------


def _part(name: str, shape: tuple[int, tuple[int, ...] | None], x: Any, y: Any, weight: Any) -> Part:
    """Return the rows of one block as a part."""
    K, order = shape
    proba = np.empty((0, K)) if x is None else np.asanyarray(x)  # a mask is refused with the rows
    return Part(proba if order is None or x is None else proba[:, order], y, weight, name)


@dataclass(frozen=True)
class Refused:
    """What was wrong with a part: it comes back as a result, so that the first of several is named, always."""

    message: str


def _attempted(work: Callable[[Any], Any], threads: int, part: Any) -> Any:
    """Return what `limited` does, or that the part was refused, now or when it was checked."""
    if isinstance(part, Refused):
        return part
    try:
        return limited(work, threads, part)
    except ValueError as error:
        return Refused(str(error))


def limited(work: Callable[..., T], threads: int, *args: Any) -> T:
    """Return ``work(*args)``, run on the threads that are this task's share."""
    with _share(threads):
        return work(*args)


def threads_for(n_parts: int) -> int:
    """Return how many threads a task has where all parts run side by side on this machine."""
    return max(1, numba.get_num_threads() // max(1, n_parts))


@contextmanager
def _share(threads: int) -> Iterator[None]:
    """Give compiled scans of this thread ``threads`` threads; on a worker, its own, shared by the tasks it runs now."""
    worker = _worker()
    if worker is not None:
        threads = worker.state.nthreads // max(1, worker.state.executing_count)
    before = numba.get_num_threads()
    numba.set_num_threads(max(1, min(threads, numba.config.NUMBA_NUM_THREADS)))  # type: ignore[attr-defined]
    try:
        yield
    finally:
        numba.set_num_threads(before)


def _worker() -> Any:
    """Return the distributed worker that runs this task, None where it is no such task."""
    distributed = sys.modules.get("distributed")
    try:
        return None if distributed is None else distributed.get_worker()
    except ValueError:
        return None


def _sent(work: Callable[..., Any]) -> Any:
    """Return work as tasks take it: small work goes with every task, large work to each worker once."""
    import cloudpickle
    from dask import delayed

    return work if len(cloudpickle.dumps(work)) <= LARGE_WORK else delayed(work, pure=False, traverse=False)
