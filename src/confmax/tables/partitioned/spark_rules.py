"""Spark data frames: a rule decides in a column, which the executors make of the probabilities of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from confmax.tables.columns import find, matched, warn
from confmax.tables.kinds import LabelledRule, Rule
from confmax.tables.partitioned import parts
from confmax.tables.partitioned.arrow import array_of_lists
from confmax.tables.partitioned.spark import (
    chosen_columns,
    cores_of_task,
    is_number,
    probabilities,
    quoted,
    refuse_stopped,
)


def with_decisions(
    rule: Rule, frame: Any, output: str, *, columns: Sequence[str] | None, keys: str | None, group: str | None
) -> Any:
    """Return a Spark DataFrame with the column ``output`` of what a rule decides.

    ValueError if a column is missing or of another type, or if there is a group for a rule without groups, or none.
    """
    refuse_stopped(frame)
    _refuse_groups(rule, group)
    kind = _kind(rule.class_names)
    return _with_column(rule, frame, output, columns, {"keys": keys, "group": group}, _OneClass(rule, kind), kind)


def with_labels(
    rule: LabelledRule, frame: Any, output: str, *, columns: Sequence[str] | None, keys: str | None, names: bool
) -> Any:
    """Return a Spark DataFrame with the column ``output`` of the labels that a rule gives, 0 or 1, or their ``names``.

    ValueError if a column is missing or of another type.
    """
    refuse_stopped(frame)
    kind = _kind(rule.class_names) if names else "int"
    return _with_column(rule, frame, output, columns, {"keys": keys}, _Labels(rule, kind, names), f"array<{kind}>")


def _with_column(
    rule: Rule | LabelledRule,
    frame: Any,
    output: str,
    columns: Sequence[str] | None,
    beside: dict[str, str | None],
    work: Any,
    kind: str,
) -> Any:
    """Return a frame with the column ``output`` of a ``kind``, which ``work`` makes of probabilities and ``beside``."""
    from pyspark.sql.pandas import functions

    names = rule.class_names[: rule.n_classes]
    kinds = {each.name: each.dataType for each in frame.schema.fields}
    parts.refuse_missing("the Spark DataFrame", beside.values(), kinds)
    if output in kinds:
        raise ValueError(f"the Spark DataFrame already has a column {output!r}; choose another output, or drop it")
    chosen = chosen_columns(kinds, columns, set(beside.values()), lambda: names)
    note = ""
    if columns is None and is_number(kinds[chosen[0]]):
        # columns of numbers that nobody named: those of the classes, or for numbered classes as many as these
        order, note = matched(chosen, names)
        fits = len(chosen) == len(names)
        if not fits or (names != tuple(range(len(names))) and find(chosen, names).places is None):
            raise ValueError(
                f"the Spark DataFrame has no column 'probability' of arrays or vectors, and no columns of the rule's "
                f"classes {', '.join(map(str, names[:8]))}; name them in this order with columns="
            )
        chosen = chosen if order is None else tuple(chosen[k] for k in order)
    as_udf: Any = functions.arrow_udf  # the stubs know no untyped functions
    given = {name: frame[quoted(column)] for name, column in beside.items() if column is not None}
    decide = as_udf(_decider(work, tuple(given)), kind)
    warn(note)
    return frame.withColumn(output, decide(probabilities(frame, chosen), *given.values()))


def _refuse_groups(rule: Rule, group: str | None) -> None:
    """Refuse a rule that decides by groups without a column of them, and such a column for another rule."""
    if not rule.groups_known:
        raise ValueError(
            "transform reads no probabilities of groups, by which this rule decides; collect the rows and call predict "
            "with group_proba="
        )
    if rule.groups and group is None:
        shown = ", ".join(map(repr, rule.groups[:8]))
        raise ValueError(f"this rule decides by groups ({shown}); pass group=, the name of the column of groups")
    if group is not None and not rule.groups:
        raise ValueError("this rule decides all groups alike; leave group out")


def _kind(names: Sequence[Any]) -> str:
    """Return the type of class names, as Spark and Arrow call it; numbers are doubles, as Spark ML's predictions."""
    if all(isinstance(name, bool) for name in names):
        return "boolean"
    return "double" if all(isinstance(name, (int, float)) for name in names) else "string"


@dataclass(frozen=True)
class _OneClass:
    """What makes the Arrow array of the names of decided classes, of a ``kind``, of probabilities (n, K)."""

    rule: Rule
    kind: str

    def __call__(self, proba: Any, **beside: Any) -> Any:
        import pyarrow as pa

        return _names_of(self.rule, self.kind).take(pa.array(self.rule.predict_index(proba, **beside)))

    def nothing(self) -> Any:
        """Return the array of no rows."""
        return _names_of(self.rule, self.kind).slice(0, 0)


@dataclass(frozen=True)
class _Labels:
    """What makes the Arrow array of the labels that rows get, lists of 0 and 1 or of ``names``, of probabilities."""

    rule: LabelledRule
    kind: str
    names: bool

    def __call__(self, proba: Any, **beside: Any) -> Any:
        import pyarrow as pa

        chosen = self.rule.predict(proba, **beside)
        many = chosen.sum(axis=1, dtype=np.int64) if self.names else np.full(len(chosen), chosen.shape[1])
        ends = pa.array(np.append(0, np.cumsum(many)).astype(np.int32))
        values = pa.array(chosen.ravel().astype(np.int32))
        if self.names:
            values = _names_of(self.rule, self.kind).take(pa.array(np.nonzero(chosen)[1]))
        return pa.ListArray.from_arrays(ends, values)

    def nothing(self) -> Any:
        """Return the array of no rows."""
        return self(np.zeros((1, self.rule.n_classes))).slice(0, 0)


def _names_of(rule: Rule | LabelledRule, kind: str) -> Any:
    """Return the names of a rule as an Arrow array of a ``kind``."""
    import pyarrow as pa

    return pa.array([str(name) if kind == "string" else name for name in rule.class_names], kind)


def _decider(work: Any, beside: tuple[str, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what Spark runs on the Arrow arrays of one partition: probabilities, and ``beside`` keys and groups."""
    import pyarrow as pa

    def decide(batches: Iterator[Any]) -> Iterator[Any]:
        start = 0
        for batch in batches:
            lists, *others = batch if beside else (batch,)
            # a rule refuses a table without rows, and Spark wants an array for every batch
            if len(lists) == 0:
                yield work.nothing()
                continue
            given = {name: each.to_numpy(zero_copy_only=False) for name, each in zip(beside, others, strict=True)}
            with cores_of_task() as number, parts.naming(f"partition {number}, rows counted from its row {start}"):
                found = work(array_of_lists(lists), **given)
            start += len(lists)
            yield found

    # Spark tells the kind of function by its types, and takes no strings
    given: Any = tuple.__class_getitem__((pa.Array,) * (1 + len(beside))) if beside else pa.Array
    decide.__annotations__ = {"batches": Iterator[given], "return": Iterator[pa.Array]}
    return decide
