"""Tables in Spark data frames: every partition is checked once, held in the executors, and scanned there in each pass.

Columns leave the frame once, by Arrow; what is held is one checked table per partition, as bytes, in an RDD. A pass
hands these bytes to Python as they are, where columns would be made into Arrow batches again every time. Sums come
back once per partition. What a pass costs is in benchmarks/RESULTS.md, section scale: spark.
"""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numba import config, get_num_threads, set_num_threads
from numpy.typing import NDArray

from confmax.tables.partitioned.files import _labels_of
from confmax.tables.partitioned.spark_columns import (
    chosen_columns,
    is_number,
    label_column,
    probabilities,
    quoted,
    refuse_frames,
    refuse_stopped,
    shown,
)
from confmax.tables.partitioned.table import Part, distinct_labels

PROBA, LABEL, WEIGHT = "p", "y", "w"  # columns of the narrowed frame
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_BYTES, MOST_BATCH_ROWS = 8 << 20, 1 << 16  # of the batches in which partitions come to Python
MOST_BYTES = (1 << 31) - (1 << 20)  # of one value in Spark
_PLANNING = threading.Lock()  # held while a setting of the session is another, so that it is always put back

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SparkSource:
    """Rows of a Spark DataFrame, a part per partition.

    Attributes
    ----------
    frame : pyspark.sql.DataFrame
        As it was given; only the columns named here are read.
    columns : tuple of str
        Columns of probabilities, in order; or one of arrays or ``pyspark.ml`` vectors.
    label, weight : str or None
        Columns of true classes and of sample weights.
    n_classes : int
        Number of probabilities of a row.
    names : tuple of str or None
        Names of the columns of probabilities; None where one column holds all.
    seen : dict
        What runs over the labels alone have found.
    """

    frame: Any
    columns: tuple[str, ...]
    label: str | None
    weight: str | None
    n_classes: int
    names: tuple[str, ...] | None = None
    seen: dict[Any, Any] = field(default_factory=dict)

    is_confmax_source = True
    holds = True

    @property
    def n_rows(self) -> int:
        """Number of rows; counted once, with the labels if there are any."""
        if "rows" not in self.seen:
            self.seen["rows"] = self.frame.count()
        return int(self.seen["rows"])

    @property
    def has_labels(self) -> bool:
        """Whether a column of labels was named."""
        return self.label is not None

    def with_columns(self, order: Sequence[int]) -> SparkSource:
        """Return the source with its columns in another order."""
        moved = tuple(self.columns[k] for k in order)
        return replace(self, columns=moved, names=None if self.names is None else moved)

    def narrowed(self, *, labels_only: bool = False) -> Any:
        """Return the frame of probabilities as arrays, labels and weights, as far as they are needed."""
        refuse_stopped(self.frame)
        chosen = [] if labels_only else [probabilities(self.frame, self.columns).alias(PROBA)]
        if self.label is not None:
            chosen.append(label_column(self.frame, self.label).alias(LABEL))
        if self.weight is not None and not labels_only:
            chosen.append(self.frame[quoted(self.weight)].cast("double").alias(WEIGHT))
        return self.frame.select(*chosen)

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every partition that has rows, in their order."""
        if labels_only and work in self.seen:
            yield from self.seen[work]
            return
        rows = self._mapped(work, labels_only=labels_only).collect()
        found = [pickle.loads(row.made) for row in sorted(rows, key=lambda row: row.part)]
        refuse_failures(found)
        if labels_only:
            # the labels are read once, whoever asks
            self.seen[work] = [result for result, _ in found]
            self.seen["rows"] = sum(n for _, n in found)
        yield from (result for result, _ in found)

    def kept(self, step: Callable[[Any], Any]) -> Any:
        """Return the source of what ``step`` makes of each partition, held in the executors' memory, or on their disks.

        It is made when it is first used, and let go with the last reference to it.
        """
        from pyspark import StorageLevel

        made = self._mapped(step, labels_only=False)
        # objects of the JVM, which are arrays of bytes: what it serialised itself it would copy in every pass
        held = made.map(_opened).persist(StorageLevel.MEMORY_AND_DISK_DESER)
        source = HeldParts(held)
        weakref.finalize(source, _let_go, held).atexit = False
        return source

    def _mapped(self, work: Callable[[Any], Any], *, labels_only: bool) -> Any:
        """Return the RDD of what ``work`` makes of each partition; the size of batches is fixed in its plan."""
        narrowed = self.narrowed(labels_only=labels_only)
        wide = 1 if labels_only else self.n_classes
        made = narrowed.mapInArrow(_OnPartition(work), "part int, made binary")
        with _batches_of(self.frame.sparkSession, min(MOST_BATCH_ROWS, max(1, BATCH_BYTES // (8 * wide)))):
            return made.rdd


@dataclass(frozen=True, eq=False)
class HeldParts:
    """What was made of every partition, where it is held."""

    held: Any

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every part, in the order of the partitions."""
        found = self.held.map(_OnHeld(work)).collect()
        refuse_failures(found)
        yield from found


def frame_source(
    frame: Any,
    label: Any = None,
    weight: Any = None,
    *,
    columns: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
) -> SparkSource:
    """Return a Spark DataFrame as a source of parts; its types are checked here, its rows with the first pass.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        With probabilities in the column ``probability`` (arrays or ``pyspark.ml`` vectors), else in the columns named
        like the classes, else in all columns of floating-point numbers but label and weight.
    label, weight : str or None
        Columns of true classes and of sample weights.
    columns : sequence of str or None
        The columns of probabilities, or the one that holds all.
    classes : sequence or None
        Class names, by which columns are found.

    Raises
    ------
    ValueError
        If a column is missing or of another type, or the frame has no rows, no partitions or no end.
    """
    refuse_frames(frame)
    for given, what in ((label, "y"), (weight, "sample_weight")):
        if given is not None and not isinstance(given, str):
            raise ValueError(
                f"with a Spark DataFrame of probabilities, {what} must be the name of a column; got "
                f"{type(given).__name__}: add it to the frame as a column"
            )
    kinds = {each.name: each.dataType for each in frame.schema.fields}
    for name in (label, weight):
        if name is not None and name not in kinds:
            raise ValueError(f"the Spark DataFrame has no column {name!r}; its columns are {shown(kinds)}")
    if weight is not None and not is_number(kinds[weight]):
        raise ValueError(f"column {weight!r} holds {kinds[weight].simpleString()}, not numbers; name another as weight")
    if label is not None and not (is_number(kinds[label]) or kinds[label].typeName() in ("string", "boolean")):
        raise ValueError(
            f"column {label!r} holds {kinds[label].simpleString()}; labels are strings, numbers or booleans"
        )
    source = SparkSource(frame, (), label, weight, 0)
    chosen = chosen_columns(kinds, columns, {label, weight}, classes, lambda: _label_names(source))
    if len(chosen) > 1 or is_number(kinds[chosen[0]]):
        return replace(source, columns=chosen, names=chosen, n_classes=len(chosen))
    from pyspark.sql import functions as F

    source = replace(source, columns=chosen)
    alone = replace(source, label=None, weight=None).narrowed()
    first = alone.where(F.col(PROBA).isNotNull()).select(F.size(PROBA).alias(PROBA)).head()
    if first is None:
        raise ValueError(
            f"column {chosen[0]!r} of the Spark DataFrame has no row with probabilities; give at least one"
        )
    return replace(source, n_classes=int(first[PROBA]))


def _label_names(source: SparkSource) -> list[Any]:
    """Return the distinct labels, which columns may be named like."""
    return sorted(distinct_labels(source), key=str) if source.has_labels else []


# --- what is run in the executors ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """A sentence about bad rows, which takes the place of a result: an exception would be tried again and buried."""

    sentence: str


def refuse_failures(found: Iterable[Any]) -> None:
    """Raise the first failure.

    Raises
    ------
    ValueError
        With the sentence of the first partition that has one.
    """
    for each in found:
        if isinstance(each, Failure):
            raise ValueError(each.sentence)


@dataclass(frozen=True, eq=False)
class _OnPartition:
    """Runs ``work`` on the Arrow batches of one partition; gives back its number and the pickled result and rows."""

    work: Callable[[Any], Any]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return
        table = pa.Table.from_batches(given)
        del given
        try:
            with cores_of_task() as number:
                made: Any = (self.work(_part_of(table, f"partition {number}")), table.num_rows)
        except ValueError as error:
            made = Failure(str(error))
        text = pickle.dumps(made, pickle.HIGHEST_PROTOCOL)
        if len(text) > MOST_BYTES:
            text = pickle.dumps(
                Failure(
                    f"partition {number} holds {table.num_rows:,} rows in {len(text):,} bytes, more than Spark moves "
                    f"at once; repartition the frame into more partitions"
                )
            )
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int32()), pa.array([text], pa.binary())], ["part", "made"]
        )


def _part_of(table: Any, name: str) -> Part:
    columns = set(table.column_names)
    labels = _labels_of(table.column(LABEL)) if LABEL in columns else None
    weight = table.column(WEIGHT).to_numpy() if WEIGHT in columns else None
    proba = np.empty((0, 0))
    if PROBA in columns:
        try:
            proba = array_of_lists(table.column(PROBA))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return Part(proba, labels, weight, name)


def array_of_lists(column: Any) -> NDArray[Any]:
    """Return an Arrow column of lists of K numbers as an array (n, K); a missing number is NaN.

    Raises
    ------
    ValueError
        If a row has no list, or one of another length.
    """
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if whole.null_count:
        row = int(np.argmax(whole.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(f"row {row} of proba has no probabilities; drop such rows")
    lengths = whole.value_lengths().to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise ValueError(
            f"row {row} of proba has {lengths[row]} probabilities and row 0 has {lengths[0]}; give every row one per "
            f"class"
        )
    return np.asarray(whole.flatten().to_numpy(zero_copy_only=False)).reshape(len(whole), -1)


def _opened(row: Any) -> Any:
    made = pickle.loads(row.made)
    return made if isinstance(made, Failure) else made[0]


@dataclass(frozen=True, eq=False)
class _OnHeld:
    work: Callable[[Any], Any]

    def __call__(self, part: Any) -> Any:
        if isinstance(part, Failure):
            return part
        try:
            with cores_of_task():
                return self.work(part)
        except ValueError as error:
            return Failure(str(error))


@contextmanager
def cores_of_task() -> Iterator[int]:
    """Scan with the cores that Spark has given to this task, beside which others run; give its partition.

    Other tasks use this process afterwards: they find its threads as they were.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        yield 0
        return
    before = get_num_threads()
    set_num_threads(max(1, min(context.cpus(), config.NUMBA_NUM_THREADS)))  # type: ignore[attr-defined]
    try:
        yield context.partitionId()
    finally:
        set_num_threads(before)


# --- steps -----------------------------------------------------------------------------------------------------------


@contextmanager
def _batches_of(session: Any, rows: int) -> Iterator[None]:
    """Let partitions come to Python in batches of at most so many rows, as long as a plan is being made."""
    with _PLANNING:
        before = session.conf.get(BATCH_ROWS, None)
        session.conf.set(BATCH_ROWS, str(rows))
        try:
            yield
        finally:
            if before is None:
                session.conf.unset(BATCH_ROWS)
            else:
                session.conf.set(BATCH_ROWS, before)


def _let_go(held: Any) -> None:
    # the session may have been stopped before
    with suppress(Exception):
        held.unpersist()
