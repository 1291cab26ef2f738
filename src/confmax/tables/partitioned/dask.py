"""Dask collections: parts are checked and held on the workers; a pass sends gains and brings back sums.

One block of an array, or one partition of a frame, is one part, or several small neighbours are: a task costs
milliseconds in every pass, however few rows it has. The rows of a part stay on the worker that has them, and Dask makes
them anew from their own graph if that worker dies. A rule decides every block where it is, lazily: a block gets
what the rule decides on it as an array, so no decision depends on how the rows are divided. dask is imported by those
who have a collection only.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confmax.kernels.blocks import n_threads, on_threads
from confmax.tables.array.kind import ARRAYS
from confmax.tables.columns import find, order_of
from confmax.tables.decisions import Decisions
from confmax.tables.frames import column_names
from confmax.tables.kinds import Batch, Beside, Kind, LabelledRule, Rule, given_hashes, here
from confmax.tables.labels import vector
from confmax.tables.partitioned import parts
from confmax.tables.partitioned.table import labels_in_parts, partitioned_table
from confmax.tables.several import in_rows
from confmax.tables.table import T, Table

PART_CELLS = 1 << 21  # probabilities up to which small blocks make one part: a core scans them in about a task's cost
LARGE_WORK = 1 << 16  # bytes of work beyond which it is sent to a worker once, not with every part
MESSAGE_BYTES = 4 << 20  # of labels in memory that are sent at once: Dask warns of graphs beyond 10 MB
_EACH = {"keys": "one key", "group": "one group"}  # what lies beside a row, for messages


@dataclass(frozen=True, eq=False)
class DaskSource:
    """Blocks of Dask collections as the parts of a table; rows that were computed are held.

    Of each part, ``blocks`` has the number of its first block, the rows of each block, and lists of delayed objects of
    probabilities, labels, weights and groups: one for each block, or one for all of them, or none. ``held`` is what
    `kept` has made of each part, where the part lies. ``progress`` is called after each pass with the number of rows,
    twice.
    """

    blocks: tuple[tuple[int, list[int], list[Any], list[Any], list[Any], list[Any]], ...]
    n_rows: int
    n_classes: int
    names: tuple[str, ...] | None
    has_labels: bool
    has_groups: bool = False
    label_names: tuple[str, ...] | None = None
    order: tuple[int, ...] | None = None
    held: tuple[Any, ...] | None = None
    progress: parts.RowsRead | None = None

    is_confmax_source = True
    holds = True

    def with_columns(self, order: Sequence[int]) -> DaskSource:
        return replace(self, order=tuple(order))

    def kept(self, step: Callable[[Any], Any]) -> DaskSource:
        """Return the source of what ``step`` makes of each part, computed once and held where the part lies."""
        import dask

        # the raw blocks are let go: Dask remembers how to make them
        return replace(self, blocks=(), held=tuple(dask.persist(*self._tasks(step, join=parts.joined))))

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every part, or block of one, in order; all parts are asked at once."""
        import dask

        found = dask.compute(*self._tasks(work, labels_only=labels_only))
        parts.refuse_first(found)
        if self.progress is not None and not labels_only:
            self.progress(self.n_rows, self.n_rows)
        yield from found if self.held is not None else chain.from_iterable(found)

    def _tasks(self, work: Callable[[Any], Any], *, labels_only: bool = False, join: Callable[..., Any] = list) -> Any:
        """Return one delayed call of ``work`` per part, or of ``join`` of its results for the blocks of the part."""
        from dask import delayed

        # a refusal is a result to Dask, so that the first part of several is named, always
        threads = threads_for(len(self.held or self.blocks))
        task = partial(delayed(limited, pure=False, traverse=False), parts.attempted, threads)
        if self.held is not None:
            return [task(_sent(work), part) for part in self.held]
        task = partial(delayed(limited, pure=False, traverse=False), _on_blocks, threads, _sent(work), join, self.order)
        return [
            task(first, lengths, [len(each) for each in held], *chain(*held))
            for first, lengths, x, y, w, g in self.blocks
            for held in [([], y, [], g) if labels_only else (x, y, w, g)]
        ]


def dask_source(
    proba: Any,
    y: Any,
    sample_weight: Any,
    *,
    group: Any = None,
    columns: Sequence[str] | None = None,
    progress: parts.RowsRead | None = None,
    several: bool = False,
) -> DaskSource:
    """Return the blocks of Dask collections as a source; their rows are computed once and held where they lie.

    Probabilities are an array (n, K), whose chunks may have unknown sizes, or a frame's ``columns``, else its columns
    of floats but those that ``y``, ``sample_weight`` and ``group`` name, else all but these. These three are names of
    columns, collections (n,) in the same partitions, or in memory. ``progress`` is called with the number of rows after
    each pass. Rows with ``several`` labels have a matrix (n, L) of 0 and 1 of each kind, a list of columns, or lists of
    names.
    ValueError if there is no such column, or labels, weights and groups do not lie beside the probabilities.
    """
    names = None
    if is_frame(proba):
        proba, (y, sample_weight, group), names = _of_frame(proba, [y, sample_weight, group], columns)
    elif columns is not None or any(isinstance(each, str) for each in (y, sample_weight, group)):
        raise ValueError(
            "a Dask array has no column names; pass y, sample_weight and group as arrays, and leave columns= out"
        )
    proba = one_column_chunk(proba)
    label_names = None
    if several and y is not None:
        y, label_names = _several(y)
    proba, y, sample_weight, group = _persisted([proba, y, sample_weight, group])
    x = _blocks(proba)
    lengths, K = _shape(proba, x)
    places = parts.together(lengths, PART_CELLS // max(1, K))
    labels = _beside(y, "y", "labels" if several else "one label", lengths, places)
    weights = _beside(sample_weight, "sample_weight", "one weight", lengths, places)
    groups = _beside(group, "group", _EACH["group"], lengths, places)
    first = [place.start for place in places]
    each = [lengths[place] for place in places]
    blocks = tuple(zip(first, each, [x[place] for place in places], labels, weights, groups, strict=True))
    return DaskSource(blocks, sum(lengths), K, names, y is not None, group is not None, label_names, progress=progress)


def _of_frame(frame: Any, beside: list[Any], columns: Sequence[str] | None) -> tuple[Any, list[Any], tuple[str, ...]]:
    """Return the columns of probabilities, what lies ``beside`` them (labels, weights, groups), and their names."""
    there = list(frame.columns)
    named = [name for each in beside for name in _columns_of(each)]
    chosen = list(columns or ())
    if columns is None:
        chosen = [name for name in there if name not in named]
        floats = [name for name in chosen if frame.dtypes[name].kind == "f"]
        chosen = floats if len(floats) >= 2 else chosen
    parts.refuse_missing("the Dask DataFrame", (*named, *chosen), there)
    given = [frame[list(each) if isinstance(each, tuple) else each] if _columns_of(each) else each for each in beside]
    if len(chosen) < 2:
        raise ValueError(f"proba must have shape (n, K) with K >= 2 classes; got the columns {chosen}")
    return frame[chosen], given, tuple(map(str, chosen))


def _columns_of(given: Any) -> list[str]:
    """Return the columns of a frame that are named as what lies beside rows."""
    if isinstance(given, str):
        return [given]
    return list(given) if isinstance(given, tuple) else []


def _several(y: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Return several labels per row as blocks take them, and the names of their columns, None where there are none."""
    if is_frame(y):
        return y, tuple(map(str, y.columns)) if y.ndim == 2 else None
    if _is_array(y):
        return (y.rechunk({1: -1}) if y.ndim == 2 and y.numblocks[1] > 1 else y), None
    return in_rows(y), None if column_names(y) is None else tuple(column_names(y) or ())


def is_frame(values: Any) -> bool:
    """Whether this is a Dask DataFrame or Series, whose blocks are partitions."""
    return hasattr(type(values), "divisions")  # delayed objects have every attribute, their type has not


def _is_array(values: Any) -> bool:
    return hasattr(type(values), "chunks")


def one_column_chunk(proba: Any) -> Any:
    """Return a Dask array (n, K) whose rows are not divided between chunks, a frame as it is; else a ValueError."""
    if is_frame(proba) and proba.ndim == 2:
        return proba
    if not _is_array(proba) or proba.ndim != 2:
        shape = f"an array of shape {proba.shape}" if _is_array(proba) else type(proba).__name__
        raise ValueError(f"proba must be a Dask array (n, K) or a Dask DataFrame of K columns; got {shape}")
    # a rule reads whole rows: columns in several chunks are brought together
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

    if _is_array(proba) and not np.isnan(proba.shape).any():
        return [int(rows) for rows in proba.chunks[0]], int(proba.shape[1])
    shapes = dask.compute(*(dask.delayed(np.shape, pure=False)(block) for block in blocks))
    return [shape[0] for shape in shapes], max(shape[1] for shape in shapes)


def _beside(values: Any, name: str, each: str, lengths: list[int], places: list[slice]) -> list[list[Any]]:
    """Return what lies beside rows as delayed objects for each part: one per block, or one for all of them, or none."""
    if values is None:
        return [[] for _ in places]
    if not (is_frame(values) or _is_array(values)):
        given = values if each == "labels" else vector(values, name, each)
        given = _of_length(given, name, each, sum(lengths))
        return [[part] for part in _divided(given, [sum(lengths[place]) for place in places])]
    blocks = _blocks(_in_chunks(values, name, each, tuple(lengths)) if _is_array(values) else values)
    _refuse_other_partitions(name, len(blocks), len(lengths))
    return [blocks[place] for place in places]


def _in_chunks(values: Any, name: str, each: str, rows: tuple[float, ...]) -> Any:
    """Return a Dask array (n,) in the chunks of ``rows`` of the probabilities, as it is where sizes are unknown."""
    if values.chunks[0] == rows or np.isnan([values.shape[0], sum(rows)]).any():
        return values
    return _of_length(values, name, each, sum(rows)).rechunk({0: rows})


def _of_length(values: Any, name: str, each: str, n: float) -> Any:
    if values.shape[0] != n:
        raise ValueError(f"{name} must hold {each} per row of proba: {n}; got shape {values.shape}")
    return values


def _refuse_other_partitions(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(
            f"{name} has {found} partitions and proba has {expected}; make them equal with repartition() or "
            f"compute_chunk_sizes()"
        )


def _divided(given: Any, lengths: list[int]) -> list[Any]:
    """Return an array in memory as one delayed object per part, held by the workers; every message is small."""
    import dask

    bytes_given = len(pickle.dumps(given, pickle.HIGHEST_PROTOCOL)) if given.dtype.hasobject else given.nbytes
    rows = max(1, len(given) * MESSAGE_BYTES // max(1, bytes_given))
    # one message each: all in one graph would be the large message that Dask warns of
    pieces = [
        dask.delayed(given[low : low + rows], pure=False, traverse=False).persist()
        for low in range(0, len(given), rows)
    ]
    join = dask.delayed(_joined, pure=False, traverse=False)
    # Dask lets go of what it holds if it is passed in a list
    return [
        join(low % rows, high - low, *(pieces[low // rows : -(-high // rows)] or [given[:0]]))
        for low, high in pairwise(np.cumsum([0, *lengths]).tolist())
    ]


def _joined(start: int, n: int, *pieces: Any) -> Any:
    """Return ``n`` entries of the joined pieces, from ``start`` on."""
    return np.concatenate(pieces)[start : start + n]


# --- what runs on a worker -------------------------------------------------------------------------------------------


def _on_blocks(work: Any, join: Any, order: Any, first: int, lengths: list[int], sizes: list[int], *held: Any) -> Any:
    """Return ``join`` of what ``work`` makes of each block of a part, or that the first bad one was refused.

    ``held`` are probabilities, labels, weights and groups, so many of each as ``sizes`` say.
    """
    edges = np.cumsum([0, *sizes]).tolist()
    given = [_by_block(held[low:high], lengths) for low, high in pairwise(edges)]
    blocks = [(None if x is None else _in_order(x, order), *beside) for x, *beside in zip(*given, strict=True)]
    made = (
        work(parts.RawPart(x, y, weight, f"partition {number}", group))
        for number, (x, y, weight, group) in enumerate(blocks, first)
    )
    return parts.attempted(join, made)


def _by_block(held: Sequence[Any], lengths: list[int]) -> Sequence[Any]:
    """Return one entry for each block, where there is one for each, one for all of them, or none."""
    if len(held) == len(lengths):
        return held
    return np.split(held[0], np.cumsum(lengths)[:-1]) if held else [None] * len(lengths)


def _in_order(block: Any, order: tuple[int, ...] | None) -> Any:
    """Return the columns of a block in another order, without their names."""
    values = np.asanyarray(block)  # a mask is kept, and refused with the rows
    return values if order is None else values[:, list(order)]


def limited(work: Callable[..., T], threads: int, *args: Any) -> T:
    """Return ``work(*args)``, run on so many threads; on a worker on its own, shared by the tasks it runs now."""
    # a scheduler of this process never imports distributed, and outside of a task of it there is no worker
    with suppress(KeyError, ValueError):
        worker = sys.modules["distributed"].get_worker()
        # tasks of one worker share its process: without a limit, each of them would take all cores
        threads = worker.state.nthreads // max(1, worker.state.executing_count)
    with on_threads(threads):
        return work(*args)


def threads_for(n_parts: int) -> int:
    """Return how many threads a task has where all parts run side by side on this machine."""
    return max(1, n_threads() // max(1, n_parts))


def _sent(work: Callable[..., Any]) -> Any:
    """Return work as tasks take it: small work goes with every task, large work to each worker once."""
    import cloudpickle
    from dask import delayed

    return work if len(cloudpickle.dumps(work)) <= LARGE_WORK else delayed(work, pure=False, traverse=False)


# --- decisions of a rule, block by block -----------------------------------------------------------------------------


@final
class DaskCollections(Kind):
    """Dask arrays and frames."""

    in_memory = False

    # what needs the rows computes them, as NumPy does with whatever is given as an array
    storage = ARRAYS
    check = ARRAYS.check
    given_hashes = ARRAYS.given_hashes
    host = ARRAYS.host

    def table(self, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        return partitioned_table(dask_source(proba, **beside), classes, stated=stated)

    def label_table(
        self, decisions: Decisions, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool
    ) -> Table:
        y = beside["y"]
        columns = is_frame(proba) and isinstance(y, (list, tuple)) and all(isinstance(name, str) for name in y)
        source = dask_source(proba, tuple(y) if columns else y, beside["sample_weight"], several=True)
        return labels_in_parts(source, decisions, classes, stated=stated)

    def predict_index(self, rule: Rule, proba: Any, beside: Beside) -> Any:
        """Return the decisions of a rule: lazy, int64 (n,)."""
        work = partial(_decisions, rule, _order(rule, proba, beside))
        return _lazily(work, one_column_chunk(proba), beside)

    def predict_batch(self, batch: Batch, proba: Any, beside: Beside) -> Any:
        """Return the decisions under the limit of a batch: lazy, int64 (n,), after a pass that finds the cut now."""
        import dask

        rule = batch.rule
        order = _order(rule, proba, beside)
        rows = one_column_chunk(proba)
        # what is refused of the rows' partitions is refused before any is computed
        _lazily(partial(_decisions, rule, order), rows, beside)
        first = _lazily(partial(_candidates, batch, order), *_as_arrays(rows, beside), dtype=object)
        found = dict(enumerate(dask.compute(*_blocks(first))))
        cut = batch.cut({number: part[0] for number, part in found.items() if len(part)})
        return _lazily(partial(_decided_under, batch, cut, order), rows, beside, numbered=True)

    def decision_probabilities(self, rule: Rule, proba: Any, beside: Beside) -> Any:
        """Return the probability of every decision (n, M): lazy, float64."""
        work = partial(_probabilities, rule, _order(rule, proba, beside))
        names = (*rule.class_names, *range(len(rule.class_names), rule.n_decisions))
        return _lazily(work, one_column_chunk(proba), beside, names=names, dtype=np.float64)

    # labels are checked where their blocks are decided; who asks for the rows computes them
    check_labels = ARRAYS.check_labels

    def predict_labels(self, rule: LabelledRule, proba: Any, beside: Beside) -> Any:
        """Return which labels a rule gives each row (n, L): lazy, uint8."""
        work = partial(_labels, rule, _order(rule, proba, beside))
        return _lazily(work, one_column_chunk(proba), beside, names=rule.class_names, dtype=np.uint8)

    def label_probabilities(self, rule: LabelledRule, proba: Any) -> Any:
        """Return the probability with which a rule gives each row each label (n, L): lazy, float64."""
        work = partial(_probabilities, rule, _order(rule, proba, {}))
        return _lazily(work, one_column_chunk(proba), names=rule.class_names, dtype=np.float64)

    def named(self, names: NDArray[Any], decisions: Any) -> Any:
        return _lazily(partial(_names, names), decisions, dtype=names.dtype)


DASK = DaskCollections()


def _order(rule: Rule | LabelledRule, proba: Any, beside: Beside) -> tuple[int, ...] | None:
    """Return the places of the rule's classes among a frame's columns, where they are not in the same order.

    Names are matched here, once: a block that is decided on a worker has no one to warn.
    """
    others = [name for name in beside.values() if isinstance(name, str)]
    names = [name for name in column_names(proba) or () if name not in others]
    classes = rule.class_names[: rule.n_classes]
    further = len(names) > len(classes)
    places = find(names, classes, whole=False).places if further else None
    return order_of(names or None, classes) if places is None else places


def _decisions(rule: Rule, order: tuple[int, ...] | None, block: Any, **beside: Any) -> NDArray[np.int64]:
    block = _in_order(block, order)
    if rule.is_randomized and "keys" not in beside:
        # what the rule would draw from; it is given, so that the rule warns of no duplicates within one block
        beside["keys"] = given_hashes(block)
    return np.asarray(rule.predict_index(block, **beside))


def _candidates(batch: Batch, order: tuple[int, ...] | None, block: Any, **beside: Any) -> NDArray[Any]:
    """Return what comes back of a block, as the only entry of an array of objects."""
    out = np.empty(1, dtype=object)
    out[0] = batch.candidates(_in_order(block, order), **beside)
    return out


def _decided_under(
    batch: Batch, cut: Any, order: tuple[int, ...] | None, block: Any, *, number: int, **beside: Any
) -> NDArray[np.int64]:
    return batch.decided(batch.ranked(_in_order(block, order), **beside), cut, number)


def _probabilities(rule: Rule | LabelledRule, order: tuple[int, ...] | None, block: Any, **beside: Any) -> NDArray[Any]:
    return np.asarray(rule.decision_probabilities(_in_order(block, order), **beside))


def _labels(rule: LabelledRule, order: tuple[int, ...] | None, block: Any, **beside: Any) -> NDArray[np.uint8]:
    return np.asarray(rule.predict(_in_order(block, order), **beside))


def _names(names: NDArray[Any], block: Any) -> NDArray[Any]:
    return names.take(np.asarray(block))


def _lazily(
    work: Callable[..., Any],
    proba: Any,
    beside: Beside | None = None,
    *,
    names: Sequence[Any] | None = None,
    dtype: Any = np.int64,
    numbered: bool = False,
) -> Any:
    """Return what ``work(block, **beside of the block)`` makes of every block, as a lazy Dask collection.

    ``proba`` is mapped block by block, (m, K) or (m,). ``beside`` are keys and group of every row, by these names: in
    the same partitions, in memory beside chunks of known sizes, or the name of a frame's column that is no probability;
    None is left out. ``numbered`` work gets the ``number`` of the block too. With ``names`` of columns the result is
    (n, M), else (n,): an array with the same chunks, or a frame or series with the same index.
    """
    empty = np.empty(0 if names is None else (0, len(names)), dtype)
    known = {name: values for name, values in (beside or {}).items() if values is not None}
    if is_frame(proba):
        return _over_partitions(work, proba, known, names, empty, numbered=numbered)
    import dask.array as da

    given = [_values_beside(name, values, proba) for name, values in known.items()]
    decide = partial(_decided, work, tuple(known), empty, threads_for(proba.numblocks[0]), numbered)
    # one line of columns becomes another number of them, or none
    chunks = None if names is None else (proba.chunks[0], (len(names),))
    dropped = 1 if names is None and proba.ndim == 2 else None
    return da.map_blocks(
        _on_block, proba, *given, decide=decide, dtype=dtype, meta=empty, chunks=chunks, drop_axis=dropped
    )


def _values_beside(name: str, values: Any, proba: Any) -> Any:
    """Return keys or groups as a Dask array (n, 1) in the chunks of an array of probabilities."""
    import dask.array as da

    rows = proba.chunks[0]
    each = _EACH[name]
    if here(len, values) is not None:
        if np.isnan(proba.shape[0]):
            raise ValueError(f"proba has chunks of unknown sizes; pass {name} as a Dask array in the same chunks")
        values = _of_length(vector(values, name, each), name, each, proba.shape[0])
        return da.from_array(values, chunks=(rows,))[:, None]
    if is_frame(values):
        # strings and other types of pandas alone are objects in an array, of which Dask would warn
        plain = values if isinstance(values.dtype, np.dtype) else values.astype(object)
        values = plain.to_dask_array()
    values = _in_chunks(values, name, each, rows)
    _refuse_other_partitions(name, values.numblocks[0], len(rows))
    # blocks lie beside each other; that their lengths agree is checked where they are
    return da.Array(values.dask, values.name, (rows,), meta=values._meta)[:, None]


def _decided(
    work: Callable[..., Any],
    names: tuple[str, ...],
    empty: NDArray[Any],
    threads: int,
    numbered: bool,
    block: Any,
    beside: Sequence[Any],
    number: int,
) -> Any:
    # a rule refuses a table without rows, and a partition may be one
    if len(block) == 0:
        return empty
    with parts.naming(f"partition {number}"):
        given = dict(zip(names, beside, strict=True))
        return limited(partial(work, **given, **({"number": number} if numbered else {})), threads, block)


def _on_block(block: Any, *beside: Any, decide: Callable[..., Any], block_id: tuple[int, ...] = (0,)) -> Any:
    return decide(block, [values[:, 0] for values in beside], block_id[0])


def _over_partitions(
    work: Callable[..., Any],
    frame: Any,
    beside: dict[str, Any],
    names: Sequence[Any] | None,
    empty: NDArray[Any],
    *,
    numbered: bool,
) -> Any:
    """Return the lazy Series, or frame with columns ``names``, of what ``work`` makes of every partition."""
    import pandas as pd

    frame, given = _columns_apart(frame, beside)
    for name, values in given.items():
        if not is_frame(values):
            raise ValueError(
                f"{name} beside a Dask DataFrame must be a Dask Series in the same partitions, or a column's name"
            )
        _refuse_other_partitions(name, values.npartitions, frame.npartitions)
    # partitions are taken as they lie: Dask would refuse, or divide anew, those of other divisions
    if any(values.divisions != frame.divisions for values in given.values()):
        frame = frame.clear_divisions()
        given = {name: each.clear_divisions() for name, each in given.items()}
    index = frame._meta.index[:0]
    meta = pd.Series(empty, index=index) if names is None else pd.DataFrame(empty, index=index, columns=list(names))
    return frame.map_partitions(
        _on_partition,
        *given.values(),
        meta=meta,
        align_dataframes=False,
        like=meta,
        decide=partial(_decided, work, tuple(given), empty, threads_for(frame.npartitions), numbered),
    )


def _columns_apart(frame: Any, beside: Beside) -> tuple[Any, dict[str, Any]]:
    """Return the columns of a frame that are probabilities, and what is ``beside`` them, columns in place of names."""
    columns = [values for values in beside.values() if isinstance(values, str)]
    parts.refuse_missing("the Dask DataFrame", columns, frame.columns)
    given = {name: frame[values] if isinstance(values, str) else values for name, values in beside.items()}
    return frame[[name for name in frame.columns if name not in columns]] if columns else frame, given


def _as_arrays(proba: Any, beside: Beside) -> tuple[Any, Beside]:
    """Return a frame's columns of probabilities as an array, whose blocks may give any number of rows."""
    if not is_frame(proba):
        return proba, beside
    frame, given = _columns_apart(proba, {name: each for name, each in beside.items() if each is not None})
    return frame.to_dask_array(), given


def _on_partition(frame: Any, *beside: Any, decide: Callable[..., Any], like: Any, partition_info: Any = None) -> Any:
    import pandas as pd

    number = 0 if partition_info is None else partition_info["number"]
    found = decide(frame, [np.asarray(values) for values in beside], number)
    if like.ndim == 1:
        # stated: pandas would give names of one partition another type than those of the next
        return pd.Series(found, index=frame.index, dtype=like.dtype)
    return pd.DataFrame(found, index=frame.index, columns=like.columns)
