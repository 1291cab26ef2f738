"""Which column of a file is what: probabilities, labels and weights, matched to the classes.

The columns of probabilities are those that were named, else the ones named like the classes, else the only
two-dimensional array, else every numeric column but label and weight, in file order.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confmax.cli.csvs import as_names
from confmax.cli.score_columns import class_of_score, is_named_like, pair_of_scores, place_of_positive
from confmax.cli.tables import Frame, no_column
from confmax.cli.texts import joined
from confmax.errors import InputError, extended
from confmax.rule import DecisionRule
from confmax.tables import checked_probabilities
from confmax.tables.arrays import absent_classes
from confmax.tables.columns import Found, assignment, find, first_repeated, in_names, is_numbered, refuse_part
from confmax.tables.labels import MARKS
from confmax.tables.normalize import normalized
from confmax.tables.partitioned import is_opened
from confmax.tables.partitioned.arrow import is_text

NUMERIC = "every numeric column"
SOME_ROWS = 50  # of each of some twenty parts of a file, that show which columns can be probabilities
ONE = "a single column with --score"
IN_ORDER = "name the columns of the classes in their order with --columns"
PREFIX = re.compile(r"(p|pr|prob|probs|proba|probability)[_. (]", re.IGNORECASE)  # of columns of probabilities


@dataclass(frozen=True)
class TableOptions:
    """What the command line says about a file; empty where it says nothing."""

    label: str | None = None
    weight: str | None = None
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    positive: str | None = None
    key: str | None = None
    score: str | None = None
    sep: str | None = None
    group: str | None = None
    normalize: bool = False
    # of rows with several labels: columns of 0 and 1, or the mark between the names in the column of labels
    label_columns: tuple[str, ...] = ()
    separator: str | None = None
    # whether cells of the label column may be empty, where the class of a row is not known
    some_labels: bool = False


# options of what a file's columns mean that tuning takes
_OTHERS = ("key", "group", "label_columns", "separator", "some_labels")
TABLE_OPTIONS = tuple(option.name for option in fields(TableOptions) if option.name not in _OTHERS)


@dataclass(frozen=True, eq=False)
class FileRows:
    """A file's rows as the library takes them, and which columns they come from.

    ``proba`` (n, K) are checked probabilities, columns in the order of ``classes``, or a table opened by
    `open_table`; ``labels`` and ``group`` (n,) are names; ``labels`` of rows with several are 0 and 1 (n, L), and None
    where ``options.some_labels`` allows a class that is not known.
    ``columns`` are those that the classes are read from, ``block`` the two-dimensional array (NPZ), or the column
    of lists, that holds all of them, and ``order`` the place of each class's column among those that were chosen.
    ``order_known`` says that the order of the classes was given, or is that of numbers, and ``notes`` what the
    reader should be warned of. ``frame`` holds all columns; None if it is read in parts.
    """

    path: Path
    options: TableOptions
    classes: tuple[Any, ...]
    columns: tuple[str, ...]
    block: str | None
    order: tuple[int, ...]
    order_known: bool
    notes: tuple[str, ...] = ()
    n_rows: int = 0
    proba: Any = None
    labels: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None
    group: Sequence[Any] | NDArray[Any] | None = None
    frame: Frame | None = None

    @property
    def is_in_parts(self) -> bool:
        """Whether the rows are in an opened table."""
        return is_opened(self.proba)

    @property
    def columns_called_otherwise(self) -> tuple[str, ...]:
        """The columns, if every class has one and they are not called like the classes; else ()."""
        # one column of scores stands for two classes, and a block for all
        of_each = self.block is None and (self.frame is None or set(self.columns) <= set(self.frame.columns))
        return self.columns if of_each and self.columns != tuple(map(str, self.classes)) else ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The rows as arguments of functions of the library."""
        return {"proba": self.proba, "y": self.labels, "sample_weight": self.weight, "group": self.group}

    def decided_by(
        self, rule: DecisionRule, keys: NDArray[Any] | None, at_most: Mapping[Any, int] | None = None
    ) -> NDArray[np.int64]:
        """Return what a rule decides (n,) for the rows, of which it draws by ``keys`` (n,), within limits by class."""
        return rule.predict_index(self.proba, keys=keys, group=self.group, at_most=at_most)

    def in_order(self, classes: tuple[Any, ...]) -> FileRows:
        """Return the rows with their classes in another order."""
        if classes == self.classes:
            return self
        place = {name: k for k, name in enumerate(self.classes)}
        order = [place[name] for name in classes]
        columns = tuple(self.columns[k] for k in order)
        if self.frame is None:
            found = self.proba.with_columns([(self.proba.order or range(len(order)))[k] for k in order])
        else:
            found = np.ascontiguousarray(self.proba[:, order])
        return replace(self, proba=found, classes=classes, columns=columns)


@dataclass(frozen=True)
class Place:
    """Where the probabilities are: names of columns, or one block; how that was decided, and what to warn of.

    ``left_out`` are further numeric columns.
    """

    names: tuple[str, ...]
    block: str | None
    how: str
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def aligned_columns(
    head: Frame, options: TableOptions, distinct: Sequence[Any], rule_classes: Sequence[Any] = ()
) -> FileRows:
    """Return the columns of a file of which only the first rows and the distinct labels are known, without its rows.

    ``rule_classes`` are as for `read_rows`.
    """
    for what in ("label", "weight", "group", "key"):
        name = getattr(options, what)
        if name is not None:
            existing(name, head, f"--{what}")
    wanted = class_order(options, rule_classes, distinct)
    place = _choose(head, options, wanted or distinct, None, of_rule=bool(rule_classes))
    stated = bool(options.classes) or not rule_classes
    return _aligned(head, place, _class_names(place, wanted, distinct, options.label, stated=stated), wanted, options)


def read_rows(
    frame: Frame, options: TableOptions, rule_classes: Sequence[Any] = (), rule_positive: Any = None
) -> FileRows:
    """Return probabilities, labels and weights of a file.

    ``rule_classes`` are those of a rule that is to be applied, and must be found. ``rule_positive`` is the positive
    one, if the rule was tuned for a metric of it: a column of scores is its probability.
    """
    try:
        return _read_rows(frame, options, rule_classes, rule_positive)
    except ValueError as error:
        hint = _several_labels(frame, options)
        raise extended(error, after=hint) if hint else error from None


def _several_labels(frame: Frame, options: TableOptions) -> str:
    """Return how to read a label column whose cells look like several names each, where a command can do so."""
    context = click.get_current_context(silent=True)
    takes = {option.name for option in context.command.params} if context is not None else set()
    column = None if options.label is None else frame.columns.get(options.label)
    if column is None or "decisions" not in takes or not is_text(column.type):
        return ""
    cells = column.unique().to_pylist()
    marks = [mark for mark in MARKS if any(mark in (cell or "") for cell in cells)]
    if not marks:
        return ""
    return (
        f" (cells of {options.label!r} hold {marks[0]!r}; for several labels per row give --decisions any --separator "
        f"{shlex.quote(marks[0])})"
    )


def _read_rows(frame: Frame, options: TableOptions, rule_classes: Sequence[Any], rule_positive: Any) -> FileRows:
    """Return the rows of a file, as `read_rows` does."""
    labels = None
    if options.label is not None:
        existing(options.label, frame, "--label")
        labels = None if options.some_labels else frame.names_in(options.label, "label column")
    distinct = [] if labels is None else np.unique(labels).tolist()
    # the classes come from --classes, else from the rule, else from the labels, else from the names of the columns
    wanted = class_order(options, rule_classes, distinct)
    known = wanted or distinct
    score = _score_column(frame, options, known)
    if score is not None:
        k = class_of_score(score, options.positive, known, wanted[-1] if options.classes else rule_positive)
        names, proba, notes = pair_of_scores(frame, score, known, k, named=options.score is not None)
        place = Place(names, None, "named", notes)
        # without --classes and a rule, the class of the scores is the positive one
        positive = options.positive if wanted else str(known[k])
        rows = _aligned(frame, place, (known, ()), wanted, replace(options, positive=positive))
    else:
        place = _choose(frame, options, known, labels, bool(rule_classes))
        proba = _probabilities(frame, place)
        stated = bool(options.classes) or not rule_classes
        found = _class_names(place, wanted, distinct, options.label, stated=stated)
        rows = _aligned(frame, place, found, wanted, options)
    # a name stands for its column, whatever the order
    unnamed = distinct if place.how == NUMERIC and not wanted else ()
    taken = np.ascontiguousarray(proba[:, rows.order])
    proba, note = _checked(taken, frame, place, rows.columns, options.normalize, unnamed)
    rows = replace(rows, notes=(*rows.notes, note)) if note else rows
    coded = None if labels is None else _as_classes(labels, rows.classes, frame, options.label)
    if options.label is not None and options.some_labels:
        coded = _known_classes(rows.classes, frame, options.label)
    weight = read_if_named(frame.numbers, options.weight, frame, "--weight")
    group = read_if_named(lambda name: frame.names_in(name, "group column"), options.group, frame, "--group")
    for name, part in ((options.label, coded), (options.weight, weight), (options.group, group)):
        if part is not None and len(part) != len(proba):
            raise ValueError(
                f"{name} of {frame.path} has {len(part)} rows and the probabilities have {len(proba)}; name the table "
                f"with --columns"
            )
    return replace(
        rows, options=options, n_rows=len(proba), proba=proba, labels=coded, weight=weight, group=group, frame=frame
    )


def _aligned(
    frame: Frame,
    place: Place,
    found: tuple[Sequence[Any], tuple[str, ...]],
    wanted: Sequence[Any],
    options: TableOptions,
) -> FileRows:
    """Return the classes in order, with the column of each; ``found`` are the columns' classes, and what to warn of."""
    names, notes = found
    order = list(range(len(names)))
    if wanted:
        # names of several types, such as 0 and "a", are texts among the names of columns
        own = {str(name): k for k, name in enumerate(names)}
        order = [own[str(name)] for name in wanted]
        known_as = dict(zip(order, wanted, strict=True))
        names = [known_as.get(k, name) for k, name in enumerate(names)]
    elif not any(isinstance(name, str) for name in names):
        # metrics of distances between classes need 1, 2, 10, wherever the columns stand
        order.sort(key=lambda k: names[k])
    if options.positive is not None:
        last = place_of_positive(options.positive, names)
        order.sort(key=lambda k: k == last)
    classes = tuple(names[k] for k in order)
    known = bool(options.classes or options.positive) or not any(isinstance(name, str) for name in classes)
    columns = tuple(place.names[k] for k in order)
    return FileRows(frame.path, options, classes, columns, place.block, tuple(order), known, (*place.notes, *notes))


def _score_column(frame: Frame, options: TableOptions, classes: Sequence[Any]) -> str | None:
    """Return the column of scores that --score names, or that its name and --positive make plain; else None."""
    if options.score is not None:
        if options.columns:
            raise ValueError("--score and --columns both say where the probabilities are; leave one of them out")
        return existing(options.score, frame, "--score")
    if options.columns or options.positive is None or frame.blocks or len(classes) != 2:
        return None
    taken = (options.label, options.weight, options.key, options.group)
    numeric = [name for name in frame.columns if name not in taken and frame.is_numeric(name)]
    named = [column for column in numeric if any(is_named_like(column, name) for name in classes)]
    return named[0] if len(named) == 1 and is_named_like(named[0], options.positive) else None


# --- which columns ---------------------------------------------------------------------------------------------------


def read_if_named(read: Callable[[str], Any], name: str | None, frame: Frame, option: str) -> Any:
    """Return what ``read`` makes of the column that an ``option`` names, which is `existing`; None if it names none."""
    return None if name is None else read(existing(name, frame, option))


def existing(name: str, frame: Frame, option: str) -> str:
    """Return the name of a column that an ``option`` gives, or refuse one that the file does not have."""
    if name not in frame.columns:
        raise no_column(name, frame, option)
    return name


def refuse_twice(names: Sequence[str], option: str, what: str) -> None:
    """Refuse an ``option`` that names a column, or ``what`` it names, twice."""
    repeated = first_repeated(names)
    if repeated is not None:
        raise ValueError(f"{option} names {repeated!r} twice; name each {what} once")


def class_order(options: TableOptions, rule_classes: Sequence[Any], distinct: Sequence[Any]) -> list[Any]:
    """Return the classes in the order that was asked for, with the types of the rule or the labels; else nothing."""
    refuse_twice(options.classes, "--classes", "class")
    if not options.classes:
        return list(rule_classes)
    known = rule_classes or distinct
    found = find(options.classes, known, affix=False)
    if rule_classes and (found.places is None or len(known) != len(options.classes)):
        raise ValueError(f"the rule's classes are {joined(rule_classes)}; got --classes {','.join(options.classes)}")
    if found.places is None:
        return list(options.classes)
    own = dict(zip(found.places, known, strict=True))
    # classes that nothing else knows are numbers if all are, and those beside known names are text as these are
    is_text = bool(known) and all(isinstance(name, str) for name in known)
    typed = options.classes if is_text else as_names(options.classes).tolist()
    return [own.get(k, name) for k, name in enumerate(typed)]


def _choose(
    frame: Frame, options: TableOptions, classes: Sequence[Any], labels: NDArray[Any] | None, of_rule: bool
) -> Place:
    """Return where the probabilities are."""
    if options.columns:
        return named_columns(frame, options.columns)
    # an NPZ file may hold the arrays of two samples: those of the labels' length belong to them
    n = None if labels is None else len(labels)
    taken = (options.label, options.weight, options.key, options.group)
    free = [name for name in frame.columns if name not in taken and n in (None, len(frame.columns[name]))]
    texts = set(map(str, classes))
    # a column that is called like a class holds its probabilities; a cell that is no number is refused with its row
    numeric = [name for name in free if name in texts or frame.is_numeric(name)]
    found = find(numeric, classes, whole=False)
    if classes and found.places is not None:
        of_labels = not (options.classes or of_rule)
        return _named_like(frame, numeric, found, options, of_labels=of_labels)
    blocks = {
        name: block
        for name, block in frame.blocks.items()
        if n in (None, len(block)) and (not of_rule or block.shape[1] == len(classes))
    }
    if len(blocks) > 1:
        shapes = ", ".join(f"{name} {block.shape}" for name, block in blocks.items())
        raise ValueError(f"{frame.path} holds several tables of probabilities ({shapes}); choose with --columns NAME")
    if blocks:
        return named_columns(frame, tuple(blocks))
    # from here on no choice is certain: whatever may be meant otherwise is refused with the option that says it
    if found.own and found.twice is None:
        way_out = f"it, or {IN_ORDER}" + (f", or {ONE}" if len(classes) == 2 else "")
        raise no_column(str(found.missing[0]), frame, way_out)
    refuse_part(found, numeric, IN_ORDER, of=str(frame.path), of_two=IN_ORDER)
    if len(classes) == 2:
        named = [(column, name) for column in numeric for name in classes if is_named_like(column, name)]
        # columns that do not sum to one are no table: the one that is named like a class may be alone
        if len(named) == 1 and abs(sum(float(frame.numbers(column)[0]) for column in numeric) - 1) > 0.01:
            column, name = named[0]
            other = next(each for each in classes if each != name)
            raise ValueError(
                f"{frame.path} has a column for the class {name} ({column}) and none for {other}; give --score "
                f"{shlex.quote(column)}"
            )
    return _numeric(frame, numeric, list(map(str, classes)) if of_rule else ())


def _named_like(frame: Frame, numeric: Sequence[str], found: Found, options: TableOptions, *, of_labels: bool) -> Place:
    """Return the columns that are named like the classes.

    Classes that are known ``of_labels`` alone may not be all: with the columns of those that no row has, rows sum to
    one.
    """
    places = found.places or ()
    named = tuple(numeric[k] for k in sorted(places))
    # beside p_a and p_b a class that no row has is p_c
    has_affix = any(found.names[k] != numeric[k] for k in places)
    others = [
        name
        for k, (name, short) in enumerate(zip(numeric, found.names, strict=True))
        if k not in places and not (has_affix and short in ("", name))
    ]
    further = _further(frame, named, others, normalize=options.normalize) if of_labels and others else ()
    names = tuple(name for name in numeric if name in (*named, *further))
    what, them = ("s {} were taken as classes", "them") if len(further) > 1 else (" {} was taken as a class", "it")
    sums = "have the same sum" if options.normalize else "sum to one"
    note = (
        f"the column{what.format(joined(further))} that no row of {options.label!r} has, because rows {sums} only with "
        f"{them}; --columns and --classes choose others"
    )
    left_out = tuple(name for name in numeric if name not in names)
    return Place(names, None, "named like the classes", (note,) if further else (), left_out)


def _further(frame: Frame, named: Sequence[str], others: Sequence[str], *, normalize: bool) -> tuple[str, ...]:
    """Return those of ``others`` with which the rows sum to one, or to be normalized to one number, as they do not now.

    Columns of other lengths, or with cells that are no numbers, are none.
    """
    n = len(frame.columns[named[0]])
    if not n:
        return ()
    # what some rows, of all parts of the file, show to be no class is not read whole
    starts = range(0, n, max(n // 20, SOME_ROWS))
    some = {
        name: pa.chunked_array([part for k in starts for part in column.slice(k, SOME_ROWS).chunks], column.type)
        for name, column in frame.columns.items()
        if name in (*named, *others)
    }
    for part in (replace(frame, columns=some), frame):
        values = {}
        for name in (*named, *others):
            try:
                values[name] = part.numbers(name).astype(np.float64)
            except ValueError:
                if name in named:  # which is refused where it is read
                    return ()
        others = absent_classes(np.sum([values.pop(name) for name in named], axis=0), values, normalize=normalize)
        if not others:
            break
    return tuple(others)


def named_columns(frame: Frame, columns: tuple[str, ...]) -> Place:
    """Return the place that --columns names."""
    block = frame.block(columns[0]) if len(columns) == 1 else None
    if block is not None:
        return Place(tuple(f"{columns[0]}[:, {k}]" for k in range(block.shape[1])), columns[0], "named")
    for name in columns:
        existing(name, frame, "--columns")
    refuse_twice(columns, "--columns", "column")
    return Place(columns, None, "named")


def _numeric(frame: Frame, numeric: Sequence[str], rule_classes: Sequence[str]) -> Place:
    """Return every numeric column; for a rule of numbered classes as many as it has classes."""
    if rule_classes and not as_names(rule_classes).dtype.kind == "i":
        raise ValueError(
            f"{frame.path} has no columns of the rule's classes {joined(rule_classes)} (it has "
            f"{joined([*frame.columns])}); name the columns in this order with --columns"
            + (f", or {ONE}" if len(rule_classes) == 2 else "")
        )
    if rule_classes and len(numeric) != len(rule_classes):
        # an identifier or a count beside the probabilities is whole in every row
        fractions = [name for name in numeric if not frame.is_whole(name)]
        if len(fractions) != len(rule_classes):
            raise ValueError(
                f"the rule has {len(rule_classes)} classes and {frame.path} has {len(numeric)} numeric columns "
                f"({joined(numeric)}); name those of the classes in their order with --columns"
            )
        numeric = fractions
    # columns p_a, p_b, p_c beside a column of ages: the prefix says which are probabilities
    prefixes = [found[0] for name in numeric if (found := PREFIX.match(name))]
    if len(set(prefixes)) == 1 and 1 < len(prefixes) < len(numeric) and not rule_classes:
        kept = tuple(name for name in numeric if name.startswith(prefixes[0]))
        left_out = [name for name in numeric if name not in kept]
        note = (
            f"the columns that begin with {prefixes[0]!r} were taken as probabilities ({joined(kept)}), and the other "
            f"numeric columns were left out ({joined(left_out)}); --columns sets the columns"
        )
        return Place(kept, None, f"every column that begins with {prefixes[0]!r}", (note,))
    return Place(tuple(numeric), None, NUMERIC)


# --- what they mean --------------------------------------------------------------------------------------------------


def _probabilities(frame: Frame, place: Place) -> NDArray[Any]:
    """Return the columns side by side (n, K)."""
    if place.block is not None:
        return np.asarray(frame.block(place.block))
    if len(place.names) < 2:
        found = f"one column of probabilities ({place.names[0]})" if place.names else "no column of probabilities"
        raise ValueError(
            f"{frame.path} has {found}; at least two are needed, one per class; for two classes you can name {ONE}"
        )
    parts = [frame.numbers(name) for name in place.names]
    if len({len(part) for part in parts}) > 1:
        sizes = joined([f"{name} {len(part)}" for name, part in zip(place.names, parts, strict=True)])
        raise ValueError(f"the columns of {frame.path} differ in length ({sizes}); choose with --columns")
    return np.column_stack(parts)


def _class_names(
    place: Place, wanted: Sequence[Any], distinct: Sequence[Any], label: str | None, *, stated: bool = True
) -> tuple[list[Any], tuple[str, ...]]:
    """Return the class of every column, and what to warn of; ``stated``: the wanted order is that of the columns."""
    K = len(place.names)
    known = wanted or distinct
    if wanted and len(wanted) != K:
        raise ValueError(
            f"there are {len(wanted)} classes ({joined(wanted)}) and {K} columns of probabilities "
            f"({joined(place.names)}); name the columns in the order of the classes with --columns"
        )
    if not known:
        return (list(range(K)) if place.block is not None else as_names(place.names).tolist()), ()
    found = find(place.names, known)
    if found.places is not None:
        own = {at: known[k] for k, at in found.own}
        named = [own.get(k, name) for k, name in enumerate(found.names)]
        # some names come from the classes, others from the columns: if their types differ, the columns' spelling counts
        mixed = len({isinstance(name, str) for name in named}) > 1
        return (as_names(found.names).tolist() if mixed else named), ()
    by_hand = place.how == "named" or is_numbered(place.names)
    # where columns and classes are both named by the caller, their places decide, whatever they are called
    if not (wanted and by_hand):
        way_out = f"{IN_ORDER} and --classes"
        refuse_part(found, place.names, way_out, of="the file", of_two=way_out)
    if wanted:
        classes = wanted
        is_certain = stated or by_hand
        what = "the rule's classes"
        option = "--columns"
    else:
        # labels 0 and 2 of three columns leave out the class 1
        counted = all(isinstance(name, int) and not isinstance(name, bool) and 0 <= name < K for name in distinct)
        if len(distinct) != K and not counted:
            raise ValueError(
                f"column {label!r} holds {len(distinct)} labels ({joined(distinct)}) and there are {K} columns of "
                f"probabilities ({joined(place.names)}); name the classes in column order with --classes, or the "
                f"columns with --columns" + (f", or {ONE}" if len(distinct) == 2 else "")
            )
        classes = distinct if len(distinct) == K else range(K)
        is_certain = by_hand and not isinstance(classes[0], str)
        what = "sorted labels"
        option = "--classes"
    pairs = assignment(place.names, classes)
    note = f"no column is named like a class: {what} were assigned to the columns in order ({pairs}); {option} sets it"
    return list(classes), () if is_certain else (note,)


def _known_classes(classes: Sequence[Any], frame: Frame, label: str) -> NDArray[Any]:
    """Return the class names (n,) in the label column, None where it is empty."""
    given, rows = frame.names_where_given(label, "label column")
    found = np.full(len(frame.columns[label]), None, dtype=object)
    if len(rows):
        found[rows] = _as_classes(given, classes, frame, label, rows)
    return found


def _as_classes(
    labels: NDArray[Any],
    classes: Sequence[Any],
    frame: Frame,
    label: str | None,
    rows: NDArray[np.intp] | None = None,
) -> NDArray[Any]:
    """Return labels as class names, matched as they are written; ``rows`` (n,) are their places in the file."""
    # names are matched once per class, not once per row
    seen, inverse = np.unique(labels, return_inverse=True)
    found = find([str(name) for name in classes], seen.tolist(), affix=False)
    own = dict(found.own)
    codes = np.array([own.get(k, -1) for k in range(len(seen))])[inverse.reshape(-1)]
    if (codes < 0).any():
        first = int(np.argmax(codes < 0))
        row = first if rows is None else int(rows[first])
        raise ValueError(
            f"row {row} of label column {label!r} of {frame.path} holds {labels[first].item()!r}, which is none of the "
            f"classes ({joined(classes)}); name all classes with --classes"
        )
    return np.array(classes)[codes]


def _checked(
    proba: NDArray[Any], frame: Frame, place: Place, names: Sequence[str], normalize: bool, unnamed: Sequence[Any]
) -> tuple[NDArray[Any], str]:
    """Return the probabilities as they were read, or divided by their sums, after the library's check; and a note.

    No column is named like the labels that are ``unnamed``.
    """
    note = ""
    try:
        if normalize:
            proba, note = normalized(proba)
        checked = checked_probabilities(proba)
    except ValueError as error:
        marked = in_names(extended(error), names, unnamed, of="").sentence.marked
        if place.how != "named":
            one = ", --score a single column" if len(names) == 2 else ""
            left_out = f"; left out: {joined(place.left_out)}" if place.left_out else ""
            marked += (
                f" (columns taken: {joined(names)}, {place.how}{left_out}; --columns and --classes choose others{one})"
            )
        raise InputError(f"{frame.path}: {marked}") from None
    # folds are made of what was read: a division of rows by their sums is left to the library, as in Python
    note = note.replace("of proba ", f"of {frame.path} ")
    if note and place.left_out:
        note += f"; numeric columns left out: {joined(place.left_out)}"
    return (proba if proba.dtype in (np.float32, np.float64) else checked), note
