"""Tables whose rows stream as Arrow batches, of which nothing is held, as a source of parts.

Batches are cut anew into parts of one size, so that the same rows in the same order give the same parts, and the same
rule byte for byte, whatever they come from. As with files, one thread reads ahead while the part before is scanned.

Nothing but the source itself could see that a later pass reads other rows than the first. So rows are counted and
hashed in every pass, without regard to their order, which a query need not keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confmax.errors import InputError
from confmax.tables.array.kind import ARRAYS
from confmax.tables.arrays import as_float
from confmax.tables.columns import first_repeated, which_label
from confmax.tables.decisions import Decisions
from confmax.tables.fingerprints import GOLDEN, column_factors, mixed
from confmax.tables.kinds import Batch, Beside, LabelledRule, Rule
from confmax.tables.labels import Coded
from confmax.tables.partitioned import arrow, files
from confmax.tables.partitioned.arrow import NamedSource
from confmax.tables.partitioned.batches import ARRAY_CHUNK, LABEL, SPOOL, WEIGHT, Stream, stream_of
from confmax.tables.partitioned.parts import RawPart, RowsRead, refuse_missing
from confmax.tables.partitioned.table import OPENED, ReadInParts, labels_in_parts, partitioned_table
from confmax.tables.table import T, Table


@dataclass(frozen=True, eq=False)
class StreamSource(NamedSource):
    """Rows of a `Stream`, of which nothing is held.

    ``seen`` has the number of rows, and the sum of their hashes by the columns that were read.
    """

    stream: Stream = field(kw_only=True)
    seen: dict[Any, int] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows, which may take a pass over the smallest column."""
        if "rows" not in self.seen:
            count = self.stream.count
            tables = () if count else self.stream.tables([self._smallest()], files.PART_CELLS)
            self.seen["rows"] = count() if count else sum(table.num_rows for table in tables)
        return self.seen["rows"]

    @property
    def may_be_labels(self) -> list[str]:
        """The names of the columns beside the probabilities that may hold labels, by their types."""
        used = (*self.columns, self.weight, self.group)
        return [each.name for each in self.stream.schema if each.name not in used and _may_be_label(each.type)]

    def stored_columns(self, wanted: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the names of all columns; a ValueError if two have the name of one that is ``wanted``, or of any."""
        names = tuple(self.stream.schema.names)
        twice = first_repeated([name for name in names if wanted is None or name in wanted])
        if twice is not None:
            raise ValueError(f"{self.stream.what} has the column {twice!r} twice; give each column its own name")
        return names

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every part while the next one is read; ValueError if rows have changed."""
        done = 0
        content = 0
        held = dict[str, NDArray[Any]]()
        # a count is a pass of its own, and a connection may have one at a time
        told = None if labels_only or self.progress is None else (self.progress, self.n_rows)
        columns = arrow.columns_to_read(self, labels_only=labels_only)
        found = self.stream.tables(columns, self._rows_of_parts())
        try:
            with ThreadPoolExecutor(1, thread_name_prefix="confmax-read") as reader:
                ahead = reader.submit(next, found, None)
                while (table := ahead.result()) is not None:
                    ahead = reader.submit(next, found, None)
                    place = f"rows {done} to {done + table.num_rows - 1} of {self.stream.what}"
                    part = arrow.part_of(self, table, place, held=held, labels_only=labels_only)
                    content += 0 if labels_only else _content(part)
                    yield work(part if self.step is None else self.step(part))
                    done += table.num_rows
                    if told is not None:
                        told[0](done, told[1])
        finally:
            found.close()
        self._compare("rows", done, f"{done:,} rows")
        if not labels_only:
            key = (self.columns, self.order, self.label, self.weight, self.group)
            self._compare(key, content % 2**64, "other rows")

    def _compare(self, key: Any, found: int, shown: str) -> None:
        """Refuse, by a ValueError, what a pass has found if it is not what the first one found."""
        before = self.seen.setdefault(key, found)
        if before != found:
            shown = f"{shown}, and {before:,} before" if key == "rows" else f"{shown} than before"
            raise ValueError(
                f"{self.stream.what} gave {shown}; a run reads the rows several times, so they must be the same each "
                f"time: keep them as they are (a function must start anew, with the same seed), {SPOOL}"
            )

    def _rows_of_parts(self) -> int:
        # columns that are passed through take memory like probabilities
        return max(1, files.PART_CELLS // max(self.n_classes, len(self.beside)))

    def _smallest(self) -> str:
        """Return the name of a column that takes few bytes."""
        import pyarrow as pa

        def bits(name: str) -> int:
            kind = self.stream.schema.field(name).type
            return int(kind.bit_width) if pa.types.is_primitive(kind) else 1 << 20

        return min(arrow.columns_to_read(self), key=bits)


def opened(
    stream: Stream,
    label: Any = None,
    weight: Any = None,
    group: Any = None,
    *,
    columns: Sequence[str] | None = None,
    progress: RowsRead | None = None,
) -> StreamSource:
    """Return the source of a stream; types are checked here, rows in the passes.

    The arguments are those of `open_table`. ValueError if a column is missing, is there twice, or has a wrong type.
    """
    names = stream.schema.names
    if (stream.schema.metadata or {}).items() >= ARRAY_CHUNK.items():
        label = LABEL if label is None and LABEL in names else label
        weight = WEIGHT if weight is None and WEIGHT in names else weight
    label = tuple(label) if isinstance(label, (list, tuple)) else label
    labels = label if isinstance(label, tuple) else (label,)
    for given, argument in (*((one, "label") for one in labels), (weight, "weight"), (group, "group")):
        if given is not None and not isinstance(given, str):
            kind = type(given).__name__
            raise ValueError(
                f"{argument} must be the name of a column of {stream.what}; got {kind}: add it as a column"
            )
    others = {*labels, weight, group}
    chosen = arrow.probability_columns(stream.schema, columns, others, stream.what)
    refuse_missing(stream.what, (*chosen, *labels, weight, group), names)
    for name in (*chosen, *labels, weight, group):
        if name is not None and names.count(name) > 1:
            raise ValueError(f"{stream.what} has {names.count(name)} columns {name!r}; give each column its own name")
    for name, role in (*((one, "label") for one in labels), (group, "group")):
        if name is not None:
            arrow.refuse_label_type(stream.schema.field(name).type, name, stream.what, role)
    beside = {"label": label, "weight": weight, "group": group, "progress": progress, "stated": columns is not None}
    source = StreamSource(chosen, stream=stream, n_classes=len(chosen), names=chosen, **beside)
    if len(chosen) > 1:
        return source
    return replace(source, n_classes=_width_of_lists(source), names=None)


def _width_of_lists(source: StreamSource) -> int:
    """Return how many probabilities each row of the one column of a source holds, by its first row."""
    kind = source.stream.schema.field(source.columns[0]).type
    if hasattr(kind, "list_size"):
        return int(kind.list_size)
    table = source.stream.head(1, source.columns)
    alone = replace(source, label=None, weight=None, group=None)
    return int(np.shape(arrow.part_of(alone, table, f"row 0 of {source.stream.what}", held={}).proba)[1])


# --- what a pass reads -----------------------------------------------------------------------------------------------


def _content(part: RawPart) -> int:
    """Return the sum of a hash of each row, of its probabilities with its label, weight and group."""
    words = ARRAYS.hashes(np.ascontiguousarray(as_float(np.asarray(part.proba))))
    for role, values in enumerate((part.labels, part.weight, part.group)):
        if values is not None:
            # a product with an odd number: that of a row with another row's label is another one. What is added keeps
            # columns apart that have changed their places.
            words *= (_words(values) + column_factors(3)[role]) | np.uint64(1)
    return int(words.sum(dtype=np.uint64))


def _words(values: Any) -> NDArray[np.uint64]:
    """Return a word for each label, list of labels, weight or group (n,), or row of labels (n, L)."""
    if isinstance(values, list):
        values = np.array([hash(one if one is None else tuple(one)) for one in values], dtype=np.int64)
    if isinstance(values, Coded):
        # of their texts, because Python gives -1 and -2 one hash
        return mixed(np.array([hash(repr(one)) for one in values.values], np.int64).view(np.uint64))[values.index]
    if values.ndim == 2:
        return np.asarray(np.ascontiguousarray(values, np.float64).view(np.uint64) @ column_factors(values.shape[1]))
    if values.dtype.kind != "f":
        return np.asarray(values.astype(np.uint64) * np.uint64(GOLDEN))
    # common weights differ in their first bits only, which a product alone would lose
    bits = values.astype(np.float64).view(np.uint64)
    return np.asarray((bits ^ (bits >> np.uint64(32))) * np.uint64(GOLDEN))


# --- as values that are given ----------------------------------------------------------------------------------------


@final
class Streams(ReadInParts):
    """Rows that stream by one of the protocols, whose label is the name of a column."""

    brings_groups = True
    refusal = (
        "rows that are read as a stream are not an array; rule.predict decides them, everything else needs its rows in "
        "memory"
    )

    def apart(
        self, proba: Any, beside: Beside, classes: Sequence[Any] | None, confusion: str
    ) -> tuple[Any, dict[str, Any]]:
        source = _source(proba, beside)
        if confusion != "model" and not source.has_labels and source.may_be_labels:
            raise which_label(source.stream.what, source.may_be_labels, "or pass `confusion='model'` if none is")
        return source, dict.fromkeys(beside)

    def table(self, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        return partitioned_table(_source(proba, beside), classes, stated=stated)

    def label_table(
        self, decisions: Decisions, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool
    ) -> Table:
        return labels_in_parts(_source(proba, beside), decisions, classes, stated=stated)

    def predict_index(self, rule: Rule, proba: Any, beside: Beside) -> NDArray[np.int64]:
        return OPENED.predict_index(rule, *_to_decide(rule, proba, beside))

    def predict_labels(self, rule: LabelledRule, proba: Any, beside: Beside) -> NDArray[np.uint8]:
        return OPENED.predict_labels(rule, *_to_decide(rule, proba, beside))

    def predict_batch(self, batch: Batch, proba: Any, beside: Beside) -> NDArray[np.int64]:
        return OPENED.predict_batch(batch, *_to_decide(batch.rule, proba, beside))


def _may_be_label(kind: Any) -> bool:
    import pyarrow as pa

    inner = kind.value_type if arrow.holds_lists(kind) or pa.types.is_dictionary(kind) else kind
    return arrow.is_text(inner) or pa.types.is_integer(inner) or pa.types.is_boolean(inner)


def _source(proba: Any, beside: Beside) -> StreamSource:
    """Return the source of a stream whose label, weight and group are named ``beside`` it."""
    stream: Any = stream_of(proba)
    for argument, value in beside.items():
        several = argument == "y" and isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        if value is not None and not isinstance(value, str) and not several:
            raise InputError(
                f"`{argument}` must be the name of a column of {stream.what}; got {type(value).__name__}",
                "add it as a column",
            )
    return opened(stream, beside["y"], beside["sample_weight"], beside.get("group"))


def _to_decide(rule: Rule | LabelledRule, proba: Any, beside: Beside) -> tuple[StreamSource, Beside]:
    """Return the source of rows that a rule is to decide, and what is beside them otherwise."""
    if getattr(rule, "groups", ()) and beside.get("group") is None:
        raise InputError("this rule decides by groups", "pass `group=`, the name of the column of groups")
    given = {"y": None, "sample_weight": None, "group": beside.get("group")}
    return _source(proba, given), {**beside, "group": None}


STREAMS = Streams()
