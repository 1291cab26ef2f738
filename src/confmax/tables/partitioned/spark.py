"""Spark data frames: every partition is checked once, held in the executors, and scanned there in each pass.

Columns leave the frame once, by Arrow; what is held is one checked table per partition, as bytes, in an RDD. A pass
hands these bytes to Python as they are, where columns would be made into Arrow batches again every time. Sums come
back once per partition. What a pass costs is in benchmarks/RESULTS.md, section scale: spark.

A client of Spark Connect has no RDDs: there the frame of these bytes is held, which Spark makes into Arrow batches of
one row per partition in each pass.
"""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self, final

from confmax.kernels.blocks import on_threads
from confmax.tables.columns import find
from confmax.tables.decisions import Decisions
from confmax.tables.kinds import Beside
from confmax.tables.partitioned import parts
from confmax.tables.partitioned.arrow import array_of_lists, holds_lists, labels_of
from confmax.tables.partitioned.table import ReadInParts, labels_in_parts, partitioned_table
from confmax.tables.table import T, Table

# columns of the narrowed frame
PROBA = "p"
LABEL = "y"
LABELS = "ys"
WEIGHT = "w"
GROUP = "g"
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
# of the batches in which partitions come to Python
BATCH_BYTES = 8 << 20
MOST_BATCH_ROWS = 1 << 16
MOST_BYTES = (1 << 31) - (1 << 20)  # of one value in Spark
_PLANNING = threading.Lock()  # held while a setting of the session is another, so that it is always put back


@dataclass(frozen=True, eq=False)
class SparkSource:
    """Rows of a Spark DataFrame, a part per partition; only the columns that are named here are read.

    Probabilities are in several columns, in order, or in one of arrays or ``pyspark.ml`` vectors. So are several labels
    per row, in columns of 0 and 1, or in one of arrays of names. ``seen`` holds what
    runs over the labels and groups alone have found.
    """

    frame: Any
    columns: tuple[str, ...]
    label: str | tuple[str, ...] | None
    weight: str | None
    n_classes: int
    group: str | None = None
    seen: dict[Any, Any] = field(default_factory=dict)

    is_confmax_source = True
    holds = True

    @property
    def names(self) -> tuple[str, ...] | None:
        return self.columns if len(self.columns) > 1 else None

    @property
    def n_rows(self) -> int:
        """Number of rows; counted once, with the labels if there are any."""
        # a count is a job of its own, which reads the frame: a pass over the labels has counted already
        if "rows" not in self.seen:
            self.seen["rows"] = self.frame.count()
        return int(self.seen["rows"])

    @property
    def has_labels(self) -> bool:
        return self.label is not None

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of the columns of labels, where there are several; None for one."""
        return self.label if isinstance(self.label, tuple) else None

    @property
    def has_groups(self) -> bool:
        return self.group is not None

    def with_columns(self, order: Sequence[int]) -> SparkSource:
        return replace(self, columns=tuple(self.columns[k] for k in order))

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every partition that has rows, in their order."""
        if labels_only and work in self.seen:
            yield from self.seen[work]
            return
        found = _made(self._mapped(work, labels_only=labels_only))
        parts.refuse_first(found)
        results = [result for result, _ in found]
        if labels_only:
            # the columns of a frame may be found by its labels, which `make_table` asks for again
            self.seen[work] = results
            self.seen["rows"] = sum(n for _, n in found)
        yield from results

    def kept(self, step: Callable[[Any], Any]) -> Any:
        """Return the source of what ``step`` makes of each partition, held in the executors' memory, or on their disks.

        It is made when it is first used, and let go with the last reference to it.
        """
        made = self._mapped(step, labels_only=False)
        return HeldFrame.of(made) if is_connect(self.frame) else HeldParts.of(made.map(_opened))

    def _mapped(self, work: Callable[[Any], Any], *, labels_only: bool) -> Any:
        """Return the RDD of what ``work`` makes of each partition, whose plan fixes the size of batches; or a frame."""
        refuse_stopped(self.frame)
        chosen = [] if labels_only else [probabilities(self.frame, self.columns).alias(PROBA)]
        if self.label_names is not None:
            chosen.append(probabilities(self.frame, self.label_names).alias(LABELS))
        one = self.label if isinstance(self.label, str) else None
        for name, alias in ((one, LABEL), (self.group, GROUP)):
            if name is not None:
                # decimals are doubles, as `labels_of` makes those of files
                decimal = self.frame.schema[name].dataType.typeName() == "decimal"
                column = self.frame[quoted(name)]
                chosen.append((column.cast("double") if decimal else column).alias(alias))
        if self.weight is not None and not labels_only:
            chosen.append(self.frame[quoted(self.weight)].cast("double").alias(WEIGHT))
        made = self.frame.select(*chosen).mapInArrow(partial(_on_partition, work), "made binary")
        if is_connect(self.frame):
            return made
        # Spark counts a batch by its rows: those of many classes come in smaller ones, and memory stays bounded
        wide = 1 if labels_only else self.n_classes
        with _batches_of(self.frame.sparkSession, min(MOST_BATCH_ROWS, max(1, BATCH_BYTES // (8 * wide)))):
            return made.rdd


@dataclass(frozen=True, eq=False)
class Held:
    """What was made of every partition, where it is held."""

    held: Any

    holds = True
    level: ClassVar[str]

    @classmethod
    def of(cls, made: Any) -> Self:
        """Return the source of an RDD or a frame, which is let go with the last reference to the source."""
        from pyspark import StorageLevel

        source = cls(held := made.persist(getattr(StorageLevel, cls.level)))
        weakref.finalize(source, _let_go, held).atexit = False
        return source


class HeldParts(Held):
    """An RDD of what was made of every partition."""

    # objects of the JVM, which are arrays of bytes: what it serialised itself it would copy in every pass
    level = "MEMORY_AND_DISK_DESER"

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        found = self.held.map(partial(_on_held, work)).collect()
        parts.refuse_first(found)
        yield from found

    def kept(self, step: Callable[[Any], Any]) -> HeldParts:
        return self.of(self.held.map(partial(_on_held, step)))


class HeldFrame(Held):
    """A frame of Spark Connect, which its server holds: what was made of every partition is a row of bytes."""

    level = "MEMORY_AND_DISK"

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        found = _made(self.held.mapInArrow(partial(_on_held_rows, work), "made binary"))
        parts.refuse_first(found)
        yield from found

    def kept(self, step: Callable[[Any], Any]) -> HeldFrame:
        return self.of(self.held.mapInArrow(partial(_on_held_rows, partial(_as_made, step)), "made binary"))


def _made(rows: Any) -> list[Any]:
    """Return what was made of each partition, by its ``rows``, an RDD or a frame."""
    return [pickle.loads(row.made) for row in rows.collect()]


def frame_source(
    frame: Any,
    label: Any,
    weight: Any,
    *,
    group: Any = None,
    columns: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    several: bool | None = None,
) -> SparkSource:
    """Return a Spark DataFrame as a source of parts; its types are checked here, its rows with the first pass.

    Probabilities are in ``columns``, else in the column ``probability`` (arrays or ``pyspark.ml`` vectors), else in the
    columns named like the classes, else in all columns of floating-point numbers but label, weight and group.
    ``several`` says whether rows have several labels; None that nobody has said so yet. ValueError if a column is
    missing or of another type, or the frame has no rows, no partitions or no end.
    """
    refuse_frames(frame)
    labels = tuple(label) if isinstance(label, (list, tuple)) else (label,)
    for given, what in (*((one, "y") for one in labels), (weight, "sample_weight"), (group, "group")):
        if given is not None and not isinstance(given, str):
            raise ValueError(
                f"with a Spark DataFrame of probabilities, {what} must be the name of a column; got "
                f"{type(given).__name__}: add it to the frame as a column"
            )
    kinds = {each.name: each.dataType for each in frame.schema.fields}
    parts.refuse_missing("the Spark DataFrame", (*labels, weight, group), kinds)
    if weight is not None and not is_number(kinds[weight]):
        raise ValueError(f"column {weight!r} holds {kinds[weight].simpleString()}, not numbers; name another as weight")
    for name, what in (*((one, "labels") for one in labels), (group, "groups")):
        held: Any = None if name is None else kinds[name]
        # arrays are the labels of rows that have several
        held = held.elementType if what == "labels" and several is not False and _is_array(held) else held
        if held is not None and not (is_number(held) or held.typeName() in ("string", "boolean")):
            raise ValueError(
                f"column {name!r} holds {kinds[name].simpleString()}; {what} are strings, numbers or booleans"
            )
    label = labels if isinstance(label, (list, tuple)) else label
    source = SparkSource(frame, (), label, weight, 0, group)
    # the columns of several labels name them; an array of names is not searched for them
    several = several or source.label_names is not None or (label is not None and _is_array(kinds[label]))
    known = partial(_known_classes, source, (source.label_names or ()) if several and classes is None else classes)
    chosen = chosen_columns(kinds, columns, {*labels, weight, group}, known)
    source = replace(source, columns=chosen, n_classes=len(chosen))
    if source.names is not None:
        return source
    first = frame.select(probabilities(frame, chosen).alias(PROBA)).where(f"{PROBA} IS NOT NULL").head()
    if first is None:
        raise ValueError(
            f"column {chosen[0]!r} of the Spark DataFrame has no row with probabilities; give at least one"
        )
    return replace(source, n_classes=len(first[PROBA]))


def _is_array(kind: Any) -> bool:
    return kind is not None and bool(kind.typeName() == "array")


def _known_classes(source: SparkSource, classes: Sequence[Any] | None) -> Sequence[Any]:
    """Return the classes, else the distinct labels: columns may be named like them."""
    if classes is not None:
        return classes
    return sorted(parts.distinct_labels(source), key=str) if source.has_labels else []


# --- which columns hold the probabilities ----------------------------------------------------------------------------


def is_connect(frame: Any) -> bool:
    """Whether a frame is one of Spark Connect, whose plans run on a server."""
    return type(frame).__module__.startswith("pyspark.sql.connect")


def refuse_frames(frame: Any) -> None:
    """Refuse frames whose partitions cannot be reached."""
    refuse_stopped(frame)
    if frame.isStreaming:
        raise ValueError("a streaming DataFrame cannot be tuned on; write its rows to a table and pass that")


def refuse_stopped(frame: Any) -> None:
    """Refuse frames of a session that was stopped, about which nothing can be asked."""
    session = frame.sparkSession
    stopped = session.is_stopped if is_connect(frame) else session._sc._jsc is None
    if stopped:
        raise ValueError("the Spark session of this DataFrame was stopped; start a session and make the frame again")


def chosen_columns(
    kinds: dict[str, Any], columns: Sequence[str] | None, others: set[str | None], classes: Callable[[], Sequence[Any]]
) -> tuple[str, ...]:
    """Return the columns of probabilities, in order, or the one that holds all; ValueError if they cannot be told."""
    if columns is not None:
        chosen = parts.stated_columns(columns)
        parts.refuse_missing("the Spark DataFrame", chosen, kinds)
        alone = len(chosen) == 1
        bad = [name for name in chosen if not is_number(kinds[name]) and not (alone and is_list(kinds[name]))]
        if bad:
            raise ValueError(
                f"column {bad[0]!r} holds {kinds[bad[0]].simpleString()}, not probabilities; name columns of numbers, "
                f"or one of arrays or vectors"
            )
    elif "probability" in kinds and is_list(kinds["probability"]):
        return ("probability",)
    else:
        # the classes may be the distinct labels, which take a pass over the frame: it is made only if they are needed
        wanted = classes()
        numbers = [name for name, kind in kinds.items() if is_number(kind) and name not in others]
        places = find(numbers, wanted, whole=False).places if len(wanted) >= 2 else None
        chosen = tuple(numbers[k] for k in places or ()) or tuple(
            name for name in numbers if kinds[name].typeName() in ("float", "double")
        )
    if not chosen or (len(chosen) == 1 and is_number(kinds[chosen[0]])):
        raise ValueError(
            f"the Spark DataFrame has no column 'probability' of arrays or vectors, and {len(chosen)} columns of "
            f"floating-point numbers; name the columns of probabilities with open_table(df, columns=...)"
        )
    return chosen


def probabilities(frame: Any, columns: Sequence[str]) -> Any:
    """Return the column expression of all probabilities of a row, an array of floats or doubles."""
    from pyspark.sql import functions as F

    kinds = {each.name: each.dataType for each in frame.schema.fields}
    if len(columns) > 1:
        kind = "float" if all(kinds[name].typeName() == "float" for name in columns) else "double"
        return F.array(*[frame[quoted(name)].cast(kind) for name in columns])
    whole = frame[quoted(columns[0])]
    held = kinds[columns[0]]
    if held.typeName() == "array":
        # floats stay floats: a rule decides in the type of its table
        return whole if held.elementType.typeName() in ("float", "double") else whole.cast("array<double>")
    from pyspark.ml.functions import vector_to_array

    # vector_to_array fails on a missing vector, without saying in which row
    return F.when(whole.isNotNull(), vector_to_array(whole))


def is_number(kind: Any) -> bool:
    """Whether a Spark type is one of numbers."""
    from pyspark.sql.types import NumericType

    return isinstance(kind, NumericType)


def is_list(kind: Any) -> bool:
    """Whether a Spark type is an array of numbers or a vector of ``pyspark.ml``."""
    return type(kind).__name__ == "VectorUDT" or (kind.typeName() == "array" and is_number(kind.elementType))


def quoted(name: str) -> str:
    """Return a column's name as Spark takes it literally, dots and all."""
    return "`" + name.replace("`", "``") + "`"


# --- what is run in the executors ------------------------------------------------------------------------------------


def _on_partition(work: Callable[[Any], Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the pickled result of ``work`` and the number of rows, of the Arrow batches of one partition."""
    import pyarrow as pa

    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return
    table = pa.Table.from_batches(given)
    # the batches are parts of the table's columns, and would be held beside it
    del given
    with cores_of_task() as number:
        name = f"partition {number}"
        made = parts.attempted(lambda table: (work(_part_of(table, name)), table.num_rows), table)
    text = pickle.dumps(made, pickle.HIGHEST_PROTOCOL)
    if len(text) > MOST_BYTES:
        text = pickle.dumps(
            parts.Refused(
                f"{name} holds {table.num_rows:,} rows in {len(text):,} bytes, more than Spark moves at once; "
                f"repartition the frame into more partitions"
            )
        )
    yield pa.RecordBatch.from_arrays([pa.array([text], pa.binary())], ["made"])


def _part_of(table: Any, name: str) -> parts.RawPart:
    columns = set(table.column_names)
    labels = None
    if LABEL in columns:
        column = table.column(LABEL)
        labels = column.to_pylist() if holds_lists(column.type) else labels_of(column)
    weight = table.column(WEIGHT).to_numpy() if WEIGHT in columns else None
    group = labels_of(table.column(GROUP)) if GROUP in columns else None
    with parts.naming(name):
        labels = array_of_lists(table.column(LABELS)) if LABELS in columns else labels
        proba = array_of_lists(table.column(PROBA)) if PROBA in columns else None
    return parts.RawPart(proba, labels, weight, name, group)


def _opened(row: Any) -> Any:
    # the number of rows is for a pass over the labels alone
    made = pickle.loads(row.made)
    return made if isinstance(made, parts.Refused) else made[0]


def _on_held_rows(work: Callable[[Any], Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the pickled result of ``work`` on what is held of one partition, of its Arrow batches of one row."""
    import pyarrow as pa

    for batch in batches:
        for row in batch.column(0):
            made = pickle.loads(row.as_buffer())
            found = _on_held(work, made if isinstance(made, parts.Refused) else made[0])
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(found)], pa.binary())], ["made"])


def _as_made(step: Callable[[Any], T], part: Any) -> tuple[T, int]:
    """Return what a ``step`` makes of a held part as a partition gives it, with a number of rows that nobody reads."""
    return step(part), 0


def _on_held(work: Callable[[Any], Any], part: Any) -> Any:
    with cores_of_task():
        return parts.attempted(work, part)


@contextmanager
def cores_of_task() -> Iterator[int]:
    """Scan with the cores that Spark has given to this task, beside which others run; give its partition.

    Other tasks use this process afterwards: they find its threads as they were.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    # outside of a task, as in the driver, Spark has given no cores
    if context is None:
        yield 0
        return
    with on_threads(context.cpus()):
        yield context.partitionId()


@contextmanager
def _batches_of(session: Any, rows: int) -> Iterator[None]:
    """Let partitions come to Python in batches of at most so many rows, as long as a plan is being made."""
    # threads of one session share its settings
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


# --- the kind of table -----------------------------------------------------------------------------------------------


@final
class SparkFrames(ReadInParts):
    """Data frames of Spark."""

    refusal = "a Spark DataFrame is decided by Spark: use rule.transform(df), which adds a column of decisions"

    def table(self, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        given = {"group": beside["group"], "classes": classes, "several": False}
        source = frame_source(proba, beside["y"], beside["sample_weight"], **given)
        return partitioned_table(source, classes, stated=stated)

    def label_table(
        self, decisions: Decisions, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool
    ) -> Table:
        source = frame_source(proba, beside["y"], beside["sample_weight"], classes=classes, several=True)
        return labels_in_parts(source, decisions, classes, stated=stated)

    # decisions are a column of the frame: `with_decisions`, `with_labels`
    predict_index = predict_labels = ReadInParts._refuse


SPARK = SparkFrames()
