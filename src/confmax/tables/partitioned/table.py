"""Tables whose rows lie in parts, in files or on a cluster: the pass that checks them, and what is given as a table.

A source (`confmax.tables.partitioned.parts`) runs work on the rows of each part. What comes back depends on the number
of classes and gains, never on rows, except for one sample of a bounded size, whose rows are chosen by what is in them.

The sample has the same rows in the same order for any partition. Calibrations are fitted on it and warm starts begin
on it; every reported number includes all rows. Tables that an engine can hold (Dask, Spark) are checked once and held
as arrays. Files are read in every pass, and refused if their time or size has changed since their rows were checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from confmax.errors import InputError
from confmax.tables.columns import SHOWN, arranged, find, order_of, warn, which_label
from confmax.tables.decisions import Decisions, decisions_of
from confmax.tables.frames import FIRST_ROWS, sum_to_one_alone
from confmax.tables.groups import ordered_names
from confmax.tables.kinds import EMPTY, Batch, Beside, Kind, LabelledRule, Rule
from confmax.tables.labels import plain, resolve_classes
from confmax.tables.partitioned import parts
from confmax.tables.partitioned.checking import CheckedSource
from confmax.tables.several import arranged_labels, label_places
from confmax.tables.table import Memory, T, Table

# of the sample, on which calibrations are fitted, too
SAMPLE_CELLS = 1 << 22
SAMPLE_CELLS_UNLABELLED = 1 << 20
MOST_ROWS = 1 << 19  # it has no more rows than this, however few classes there are,
# and no fewer than these, however many
SAMPLE_ROWS = 20_000
ROWS_PER_CLASS = 50


def sample_rows(n_classes: int, *, has_labels: bool, several: bool = False) -> int:
    """Return how many rows the sample of a table has."""
    cells = SAMPLE_CELLS if has_labels else SAMPLE_CELLS_UNLABELLED
    return max(min(cells // n_classes, MOST_ROWS), SAMPLE_ROWS, 0 if several else ROWS_PER_CLASS * n_classes)


def partitioned_table(source: parts.Source, classes: Sequence[Any] | None, *, stated: bool = True) -> Table:
    """Return the parts of a source as one table, which its first pass checks; ``stated`` as for `make_table`.

    ValueError for anything that is no such table; the sentence names the part and its first offending row.
    """
    if source.n_classes < 2:
        raise ValueError(
            "proba must have one column per class, K >= 2 of them; got one column p: for two classes add a column 1 - p"
        )
    # a source of somebody else may not speak of groups
    grouped = getattr(source, "has_groups", False)
    counts, found_groups = parts.counted_beside(source) if source.has_labels or grouped else ({}, [])
    labels = None
    if source.has_labels:
        # an array of objects keeps the types of names, which NumPy would make one
        labels = np.empty(len(counts), dtype=object)
        labels[:] = list(counts)
    if (source.has_labels or grouped) and not (counts or found_groups):
        raise InputError(EMPTY)
    names = ordered_names(found_groups) if grouped else None
    if classes is not None or labels is not None:
        wanted = list(counts) if classes is None else list(classes)
        source = of_classes(source, wanted, labels=classes is None)
        _refuse_further(source, wanted, labels=classes is None)
    found = arranged(source.names, classes, labels, stated=stated)
    if found.order is not None:
        source = source.with_columns(found.order)
    K = source.n_classes
    resolved = resolve_classes(found.classes, labels, K)
    warn(found.note)
    sizes = None if labels is None else np.array([counts.get(plain(name), 0) for name in resolved])
    check = partial(parts.as_table, classes=resolved, groups=names)
    rows = sample_rows(K, has_labels=source.has_labels)
    return _table(CheckedSource(source, check, rows, resolved, sizes=sizes))


def _table(parts: CheckedSource) -> Table:
    """Return the table of ``parts``, which are one in memory where a sample would have all rows."""
    return Table(Memory(parts.sample, parts.names, as_given=False) if parts.fits else parts)


def of_classes(source: Any, classes: Sequence[Any], *, labels: bool = False) -> Any:
    """Return a source with the columns that are named like the ``classes`` alone, if nobody stated its columns.

    Of ``labels``, which need not have every class, this is done only if these columns alone sum to one.
    """
    if getattr(source, "stated", True) or source.names is None or len(source.names) <= len(classes):
        return source
    places = find(source.names, classes, whole=False).places
    if places is None:
        return source
    if labels:
        first = next((rows for rows in source.run(_first_rows) if len(rows)), None)
        if first is None or not sum_to_one_alone(first, places):
            return source
    columns = tuple(source.names[k] for k in sorted(places))
    return replace(source, columns=columns, names=columns, n_classes=len(columns))


def _refuse_further(source: Any, classes: Sequence[Any], *, labels: bool) -> None:
    """Refuse, by a ValueError, columns that nobody stated, if they are more than the classes and named like none.

    Labels that are numbers need not have every class.
    """
    names = source.names
    if getattr(source, "stated", True) or names is None or len(names) <= len(classes):
        return
    found = find(names, classes)
    if found.own or found.twice or (labels and not any(isinstance(one, str) for one in classes)):
        return
    raise ValueError(
        f"the table has {len(names)} columns of floating-point numbers ({', '.join(map(repr, names[:SHOWN]))}) for "
        f"{len(classes)} classes, and none is named like a class; name those of probabilities with columns= of "
        f"open_table, in the order of classes="
    )


def _first_rows(part: parts.RawPart) -> NDArray[Any]:
    """Return some rows of a part, whose memory the next one takes."""
    return np.array(part.proba[:FIRST_ROWS])


def labels_in_parts(source: Any, decisions: Decisions, classes: Sequence[Any] | None, *, stated: bool = True) -> Table:
    """Check all parts of a source of several labels per row in one pass and return them as one table.

    A table that is no larger than a sample is brought into memory. ``stated`` and the ValueErrors as for
    `labels_table`.
    """
    if getattr(source, "has_groups", False):
        raise ValueError("groups are of one class for every row; open a table of several labels without group=")
    source = source if classes is None else of_classes(source, list(classes))
    L = source.n_classes
    decisions_of(decisions.argument, L)
    of_labels = getattr(source, "label_names", None)
    found = arranged_labels(source.names, of_labels, L, classes, stated=stated)
    if found.order is not None:
        source = source.with_columns(found.order)
    order = tuple(range(L)) if found.classes is None else found.classes
    places = None if of_labels is None or len(of_labels) != L else label_places(of_labels, order)
    warn(found.note)
    check = partial(parts.as_label_table, classes=order, decisions=decisions, order=places)
    rows = sample_rows(L, has_labels=source.has_labels, several=True)
    return _table(CheckedSource(source, check, rows, order, decisions))


# --- opened tables, as values that are given -------------------------------------------------------------------------


class ReadInParts(Kind):
    """A kind whose rows are never in one place, so that only a table or a rule can be asked about them."""

    in_memory = False
    refusal: ClassVar[str]

    @final
    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ValueError(self.refusal)

    storage = property(_refuse)
    check = given_hashes = host = floats = decision_probabilities = named = _refuse
    check_labels = label_probabilities = _refuse


@final
class Opened(ReadInParts):
    """A table from `open_table`, or whatever else is a `Source` and says so by ``is_confmax_source``."""

    brings_groups = True
    refusal = (
        "an opened table is not an array of rows; rule.predict(table) decides it, everything else needs its rows "
        "in memory"
    )

    def apart(
        self, proba: Any, beside: Beside, classes: Sequence[Any] | None, confusion: str
    ) -> tuple[Any, dict[str, Any]]:
        others = () if proba.has_labels or confusion not in ("labels", "blend") else getattr(proba, "may_be_labels", ())
        if others:
            raise which_label("the opened table", others, "where you open it", "label")
        return proba, dict(beside)

    def table(self, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        """Return `make_table`; labels, weights and groups are named where the table is opened."""
        if beside["group"] is not None:
            raise ValueError("an opened table brings the group of each row; pass group= to open_table")
        _refuse_beside(beside)
        return partitioned_table(proba, classes, stated=stated)

    def label_table(
        self, decisions: Decisions, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool
    ) -> Table:
        """Return `labels_table`; labels and weights are named where the table is opened."""
        _refuse_beside(beside)
        return labels_in_parts(proba, decisions, classes, stated=stated)

    def predict_index(self, rule: Rule, proba: Any, beside: Beside) -> NDArray[np.int64]:
        """Return the decisions (n,) of a rule, read part by part with the group of each row."""
        source = to_decide(rule, proba, beside)
        found = source.run(partial(_on_part, rule.predict_index, rule))
        return np.concatenate([np.empty(0, np.int64), *(part for part in found if part is not None)])

    def predict_labels(self, rule: LabelledRule, proba: Any, beside: Beside) -> NDArray[np.uint8]:
        """Return which labels a rule gives each row (n, L), read part by part; the decisions of all rows are held."""
        source = to_decide(rule, proba, beside)
        found = source.run(partial(_labels_on_part, rule))
        none = np.empty((0, len(rule.class_names)), np.uint8)
        return np.concatenate([none, *(part for part in found if part is not None)])

    def predict_batch(self, batch: Batch, proba: Any, beside: Beside) -> NDArray[np.int64]:
        """Return the decisions (n,) under the limit of a batch, in one pass: those of all rows are held anyway."""
        source = to_decide(batch.rule, proba, beside)
        found = list(source.run(partial(_on_part, batch.ranked, batch.rule)))
        known = {number: part for number, part in enumerate(found) if part is not None}
        cut = batch.cut(known)
        decided = [batch.decided(part, cut, number) for number, part in known.items()]
        return np.concatenate([np.empty(0, np.int64), *decided])


def _refuse_beside(beside: Beside) -> None:
    if beside["y"] is not None or beside["sample_weight"] is not None:
        raise ValueError("an opened table brings its labels and weights; pass label= and weight= to open_table")


def stored_columns(table: Any, wanted: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """Return the columns of an opened table, of which some are ``wanted``; None of one that cannot pass them on."""
    found: tuple[str, ...] | None = table.stored_columns(wanted) if hasattr(table, "keeping") else None
    return found


def to_decide(rule: Rule | LabelledRule, proba: Any, beside: Beside) -> Any:
    """Return the source of rows that a rule is to decide, columns in the order of its classes."""
    groups = getattr(rule, "groups", ())
    if groups and (beside["group"] is not None or not getattr(proba, "has_groups", False)):
        shown = ", ".join(map(repr, groups[:8]))
        raise ValueError(
            f"this rule decides by groups ({shown}), and an opened table brings the group of each row; pass group= "
            f"to open_table"
        )
    if beside["keys"] is not None:
        raise ValueError("keys are not split into parts; leave them out, or decide arrays part by part")
    proba = of_classes(proba, rule.class_names[: rule.n_classes])
    order = order_of(proba.names, rule.class_names[: rule.n_classes])
    return proba if order is None else proba.with_columns(order)


def _on_part(work: Callable[..., T], rule: Rule, part: parts.RawPart) -> T | None:
    """Return what ``work`` makes of the rows of a part, with their groups for a rule that decides by these."""
    if len(part.proba) == 0:
        return None
    with parts.naming(part.name):
        return work(part.proba, group=part.group if rule.groups else None)


def _labels_on_part(rule: LabelledRule, part: parts.RawPart) -> NDArray[np.uint8] | None:
    if len(part.proba) == 0:
        return None
    with parts.naming(part.name):
        return np.asarray(rule.predict(part.proba))


OPENED = Opened()
