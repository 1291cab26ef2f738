"""Which column of a file is what: probabilities, labels and weights, matched to the classes.

The columns of probabilities are those that were named, else the ones named like the classes, else the only
two-dimensional array, else every numeric column but label and weight, in file order.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.cli.csvs import as_names
from confmax.cli.tables import Frame, no_column
from confmax.tables import checked_probabilities
from confmax.tables.columns import assignment, find, is_numbered

__all__ = ["ASKED", "Asked", "Rows", "keys_of", "listed", "placed", "read_rows", "shortened", "wanted"]

LONGEST_NAME = 100  # characters of a name in a list of names
ASKED = ("label", "weight", "columns", "classes", "positive", "score", "sep")  # options of what a file's columns mean
ONE = "a single column with --score"
PREFIX = re.compile(r"(p|pr|prob|probs|proba|probability)[_. (]", re.IGNORECASE)  # of columns of probabilities


@dataclass(frozen=True)
class Asked:
    """What the command line says about a file; empty where it says nothing."""

    label: str | None = None
    weight: str | None = None
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    positive: str | None = None
    key: str | None = None
    score: str | None = None
    sep: str | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """A file's rows as the library takes them.

    Attributes
    ----------
    proba : ndarray (n, K), or a table opened by `open_table`
        Probabilities, columns in the order of ``classes``; an array is checked.
    labels : ndarray (n,) or None
        True classes, as names.
    weight : ndarray (n,) or None
        Sample weights.
    classes : tuple
        Class names.
    columns : tuple of str
        The column that each class was read from.
    block : str or None
        The two-dimensional array that they come from (NPZ).
    order_known : bool
        Whether the order of the classes was given, or is that of numbers.
    notes : tuple of str
        What the reader should be warned of.
    """

    proba: Any
    labels: NDArray[Any] | None
    weight: NDArray[Any] | None
    classes: tuple[Any, ...]
    columns: tuple[str, ...]
    block: str | None
    order_known: bool
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.proba) if isinstance(self.proba, np.ndarray) else int(self.proba.n_rows)

    def in_order(self, classes: tuple[Any, ...]) -> Rows:
        """Return the rows with their classes in another order."""
        if classes == self.classes:
            return self
        order = [self.classes.index(name) for name in classes]
        columns = tuple(self.columns[k] for k in order)
        return replace(self, proba=np.ascontiguousarray(self.proba[:, order]), classes=classes, columns=columns)


@dataclass(frozen=True)
class _Place:
    """Where the probabilities are: names of columns, or one block; how that was decided, and what to warn of."""

    names: tuple[str, ...]
    block: str | None
    how: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placed:
    """Classes in order, the columns that belong to them, whether the order is known, and what to warn of.

    Where one column holds lists it is the ``block``, and ``order`` says which of their places belong to the classes.
    """

    classes: tuple[Any, ...]
    columns: tuple[str, ...]
    order_known: bool
    notes: tuple[str, ...]
    block: str | None = None
    order: tuple[int, ...] = ()


def placed(head: Frame, asked: Asked, distinct: Sequence[Any]) -> Placed:
    """Return the columns of a file of which only the first rows and the distinct labels are known.

    Raises
    ------
    ValueError
        As `read_rows`.
    """
    for name, option in ((asked.label, "--label"), (asked.weight, "--weight")):
        if name is not None:
            _existing(name, head, option)
    order_asked = wanted(asked, (), distinct)
    place = _choose(head, asked, order_asked or distinct, None, of_rule=False)
    names, notes = _class_names(place, len(place.names), order_asked, distinct, asked.label)
    notes = (*place.notes, *notes)
    order = _order(names, order_asked, asked.positive)
    classes = tuple(names[k] for k in order)
    columns = tuple(place.names[k] for k in order)
    return Placed(classes, columns, _order_known(asked, classes), notes, place.block, tuple(order))


def _order_known(asked: Asked, classes: Sequence[Any]) -> bool:
    return bool(asked.classes or asked.positive) or not any(isinstance(name, str) for name in classes)


def read_rows(frame: Frame, asked: Asked, rule_classes: Sequence[Any] = (), rule_positive: Any = None) -> Rows:
    """Return probabilities, labels and weights of a file.

    Parameters
    ----------
    frame : Frame
        The file.
    asked : Asked
        What the command line says.
    rule_classes : sequence
        Classes of the rule that is to be applied: they must be found in the file.
    rule_positive : object or None
        The positive one of them, if the rule was tuned for a metric of it: a column of scores is its probability.

    Raises
    ------
    ValueError
        If a column is missing or ambiguous, the classes cannot be matched, or the probabilities are none.
    """
    labels = None if asked.label is None else frame.names_in(_existing(asked.label, frame, "--label"), "label column")
    distinct = [] if labels is None else np.unique(labels).tolist()
    order_asked = wanted(asked, rule_classes, distinct)
    score = _score_column(frame, asked, order_asked or distinct)
    if score is not None:
        last = order_asked[-1] if asked.classes else rule_positive
        scored = two_columns(frame, score, asked.positive, order_asked or distinct, last)
        place, proba = _Place(scored.columns, None, "named"), scored.proba
        names, notes = list(order_asked or distinct), _score_notes(asked, score, scored.of)
        if not order_asked:
            asked = replace(asked, positive=str(scored.of))
    else:
        place = _choose(frame, asked, order_asked or distinct, labels, bool(rule_classes))
        proba = _probabilities(frame, place)
        stated = bool(asked.classes) or not rule_classes
        names, notes = _class_names(place, proba.shape[1], order_asked, distinct, asked.label, stated=stated)
        notes = (*place.notes, *notes)
    order = _order(names, order_asked, asked.positive)
    # a name stands for its column, whatever the order
    proba = _checked(np.ascontiguousarray(proba[:, order]), frame, place, [place.names[k] for k in order])
    classes = tuple(names[k] for k in order)
    known = _order_known(asked, classes)
    coded = None if labels is None else _as_classes(labels, classes, frame, asked.label)
    weight = None if asked.weight is None else frame.numbers(_existing(asked.weight, frame, "--weight"))
    for name, part in ((asked.label, coded), (asked.weight, weight)):
        if part is not None and len(part) != len(proba):
            raise ValueError(
                f"{name} of {frame.path} has {len(part)} rows and the probabilities have {len(proba)}; name the table "
                f"with --columns"
            )
    return Rows(proba, coded, weight, classes, tuple(place.names[k] for k in order), place.block, known, notes)


def keys_of(frame: Frame, key: str | None) -> NDArray[Any] | None:
    """Return the keys that a randomised rule draws from, None where no column was named."""
    return None if key is None else frame.names_in(_existing(key, frame, "--key"), "key column")


def listed(names: Sequence[Any], most: int = 8) -> str:
    """Return names with commas; of long names the middle is left out, and of many names the later ones."""
    shown = [shortened(str(name), LONGEST_NAME) for name in names[:most]]
    return ", ".join(shown) + (f", ... ({len(names)})" if len(names) > most else "")


def shortened(text: str, most: int) -> str:
    """Return text of at most ``most`` characters, its middle left out where it is longer."""
    if len(text) <= most:
        return text
    end = (most - 5) // 2
    return f"{text[: most - 5 - end]} ... {text[len(text) - end :]}"


def _score_column(frame: Frame, asked: Asked, classes: Sequence[Any]) -> str | None:
    """Return the column of scores that --score names, or that its name and --positive make plain; else None."""
    if asked.score is not None:
        if asked.columns:
            raise ValueError("--score and --columns both say where the probabilities are; leave one of them out")
        return _existing(asked.score, frame, "--score")
    if asked.columns or asked.positive is None or frame.blocks:
        return None
    taken = (asked.label, asked.weight, asked.key)
    numeric = [name for name in frame.columns if name not in taken and frame.is_numeric(name)]
    return implied_score(numeric, classes, asked.positive)


def _score_notes(asked: Asked, score: str, of: Any) -> tuple[str, ...]:
    if asked.score is not None:
        return ()
    return (f"column {score!r} was taken as the probability of {of}, and the rest as that of the other class; --score "
            f"{shlex.quote(score)} says so without this warning",)  # fmt: skip


# --- which columns ---------------------------------------------------------------------------------------------------


def _existing(name: str, frame: Frame, option: str) -> str:
    if name not in frame.columns:
        raise no_column(name, frame, option)
    return name


def wanted(asked: Asked, rule_classes: Sequence[Any], distinct: Sequence[Any]) -> list[Any]:
    """Return the classes in the order that was asked for, with the types of the rule or the labels; else nothing."""
    repeated = next((name for k, name in enumerate(asked.classes) if name in asked.classes[:k]), None)
    if repeated is not None:
        raise ValueError(f"--classes names {repeated!r} twice; name each class once")
    if not asked.classes:
        return list(rule_classes)
    known = rule_classes or distinct
    found = find(asked.classes, known, affix=False) if known else None
    if rule_classes and (found is None or found.places is None or len(known) != len(asked.classes)):
        raise ValueError(f"the rule's classes are {listed(rule_classes)}; got --classes {','.join(asked.classes)}")
    if found is None:
        return as_names(asked.classes).tolist()
    if found.places is None:
        return list(asked.classes)
    own = dict(zip(found.places, known, strict=True))
    text = all(isinstance(name, str) for name in known)
    typed = list(asked.classes) if text else as_names(asked.classes).tolist()
    return [own.get(k, name) for k, name in enumerate(typed)]


def _choose(frame: Frame, asked: Asked, classes: Sequence[Any], labels: NDArray[Any] | None, of_rule: bool) -> _Place:
    """Return where the probabilities are."""
    if asked.columns:
        return _named(frame, asked.columns)
    n = None if labels is None else len(labels)
    taken = (asked.label, asked.weight, asked.key)
    free = [name for name in frame.columns if name not in taken and n in (None, len(frame.columns[name]))]
    if classes and {str(name) for name in classes} <= set(free):
        return _Place(tuple(name for name in free if name in set(map(str, classes))), None, "named like the classes")
    numeric = [name for name in free if frame.is_numeric(name)]
    found = find(numeric, classes, whole=False)
    if classes and found.places is not None:
        return _Place(tuple(numeric[k] for k in sorted(found.places)), None, "named like the classes")
    blocks = {
        name: block
        for name, block in frame.blocks.items()
        if n in (None, len(block)) and (not of_rule or block.shape[1] == len(classes))
    }
    if len(blocks) > 1:
        shapes = ", ".join(f"{name} {block.shape}" for name, block in blocks.items())
        raise ValueError(f"{frame.path} holds several tables of probabilities ({shapes}); choose with --columns NAME")
    if blocks:
        return _named(frame, tuple(blocks))
    if found.twice is not None:
        name, one, other = found.twice
        raise ValueError(
            f"two columns of {frame.path} are named like the class {name} ({one} and {other}); name the columns of the "
            f"classes in their order with --columns"
        )
    missing = [str(name) for name in classes if str(name) not in free]
    missing = list(map(str, found.missing)) if found.own else missing
    if len(missing) < len(classes):
        way_out = "it, or name the columns of the classes in their order with --columns"
        raise no_column(missing[0], frame, way_out + (f", or {ONE}" if len(classes) == 2 else ""))
    if len(classes) == 2:
        _refuse_half(frame, numeric, classes)
    return _numeric(frame, free, list(map(str, classes)) if of_rule else ())


def _refuse_half(frame: Frame, numeric: Sequence[str], classes: Sequence[Any]) -> None:
    """Refuse columns that are no table of probabilities, where one of them is named like one of two classes."""
    named = [(column, name) for column in numeric for name in classes if is_named_like(column, name)]
    if len(named) == 1 and abs(sum(float(frame.numbers(column)[0]) for column in numeric) - 1) > 0.01:
        column, name = named[0]
        other = next(each for each in classes if each != name)
        raise ValueError(
            f"{frame.path} has a column for the class {name} ({column}) and none for {other}; give --score "
            f"{shlex.quote(column)}"
        )


def _named(frame: Frame, columns: tuple[str, ...]) -> _Place:
    """Return the place that --columns names."""
    block = frame.block(columns[0]) if len(columns) == 1 else None
    if block is not None:
        return _Place(tuple(f"{columns[0]}[:, {k}]" for k in range(block.shape[1])), columns[0], "named")
    for k, name in enumerate(columns):
        _existing(name, frame, "--columns")
        if name in columns[:k]:
            raise ValueError(f"--columns names {name!r} twice; name each column once")
    return _Place(columns, None, "named")


def _numeric(frame: Frame, free: Sequence[str], rule_classes: Sequence[str]) -> _Place:
    """Return every numeric column; for a rule of numbered classes as many as it has classes."""
    numeric = [name for name in free if frame.is_numeric(name)]
    if rule_classes and not as_names(rule_classes).dtype.kind == "i":
        raise ValueError(
            f"{frame.path} has no columns of the rule's classes {listed(rule_classes)} (it has "
            f"{listed([*frame.columns])}); name the columns in this order with --columns"
            + (f", or {ONE}" if len(rule_classes) == 2 else "")
        )
    if rule_classes and len(numeric) != len(rule_classes):
        fractions = [name for name in numeric if not frame.is_whole(name)]
        if len(fractions) != len(rule_classes):
            raise ValueError(
                f"the rule has {len(rule_classes)} classes and {frame.path} has {len(numeric)} numeric columns "
                f"({listed(numeric)}); name those of the classes in their order with --columns"
            )
        numeric = fractions
    prefixes = [found[0] for name in numeric if (found := PREFIX.match(name))]
    if len(set(prefixes)) == 1 and 1 < len(prefixes) < len(numeric) and not rule_classes:
        kept = tuple(name for name in numeric if name.startswith(prefixes[0]))
        left_out = [name for name in numeric if name not in kept]
        note = (
            f"the columns that begin with {prefixes[0]!r} were taken as probabilities ({listed(kept)}), and the other "
            f"numeric columns were left out ({listed(left_out)}); --columns sets the columns"
        )
        return _Place(kept, None, f"every column that begins with {prefixes[0]!r}", (note,))
    return _Place(tuple(numeric), None, "every numeric column")


# --- what they mean --------------------------------------------------------------------------------------------------


def _probabilities(frame: Frame, place: _Place) -> NDArray[Any]:
    """Return the columns side by side (n, K)."""
    block = None if place.block is None else frame.block(place.block)
    if block is not None:
        return block
    if len(place.names) < 2:
        found = f"one column of probabilities ({place.names[0]})" if place.names else "no column of probabilities"
        raise ValueError(
            f"{frame.path} has {found}; at least two are needed, one per class; for two classes you can name {ONE}"
        )
    parts = [frame.numbers(name) for name in place.names]
    if len({len(part) for part in parts}) > 1:
        sizes = listed([f"{name} {len(part)}" for name, part in zip(place.names, parts, strict=True)])
        raise ValueError(f"the columns of {frame.path} differ in length ({sizes}); choose with --columns")
    return np.column_stack(parts)


def _class_names(
    place: _Place, K: int, asked: Sequence[Any], distinct: Sequence[Any], label: str | None, *, stated: bool = True
) -> tuple[list[Any], tuple[str, ...]]:
    """Return the class of every column, and what to warn of; ``stated``: the order asked for is that of the columns."""
    known = asked or distinct
    found = find(place.names, known) if known and (not asked or len(asked) == K) else None
    if found is not None and found.places is not None:
        own = dict(zip(found.places, known, strict=True))
        named = [own.get(k, name) for k, name in enumerate(found.names)]
        mixed = len({isinstance(name, str) for name in named}) > 1
        return (as_names(found.names).tolist() if mixed else named), ()
    by_hand = place.how == "named" or is_numbered(place.names)
    if found is not None and (found.own or found.twice) and not (asked and by_hand):
        raise ValueError(
            f"some of the columns {listed(place.names)} are named like classes ({listed(known)}) and some are not; "
            f"name the columns of the classes in their order with --columns and --classes"
        )
    if asked:
        if len(asked) != K:
            raise ValueError(
                f"there are {len(asked)} classes ({listed(asked)}) and {K} columns of probabilities "
                f"({listed(place.names)}); name the columns in the order of the classes with --columns"
            )
        return list(asked), (() if stated or by_hand else (_taken(place, asked, "--columns"),))
    if not distinct:
        return (list(range(K)) if place.block is not None else as_names(place.names).tolist()), ()
    if len(distinct) == K:
        quiet = not isinstance(distinct[0], str) and by_hand
        return list(distinct), (() if quiet else (_taken(place, distinct, "--classes"),))
    if all(isinstance(name, int) and not isinstance(name, bool) and 0 <= name < K for name in distinct):
        return list(range(K)), (() if by_hand else (_taken(place, range(K), "--classes"),))
    raise ValueError(
        f"column {label!r} holds {len(distinct)} labels ({listed(distinct)}) and there are {K} columns of "
        f"probabilities ({listed(place.names)}); name the classes in column order with --classes, or the columns with "
        f"--columns" + (f", or {ONE}" if len(distinct) == 2 else "")
    )


def _taken(place: _Place, classes: Sequence[Any], option: str) -> str:
    """Return the warning that columns were taken by position."""
    what = "sorted labels" if option == "--classes" else "the rule's classes"
    pairs = assignment(place.names, classes)
    return f"no column is named like a class: {what} were assigned to the columns in order ({pairs}); {option} sets it"


def _order(classes: Sequence[Any], asked: Sequence[Any], positive: str | None) -> list[int]:
    """Return the columns in the order of the classes: as asked, numbers by size, the positive class last."""
    order = list(range(len(classes)))
    if asked:
        order = [list(classes).index(name) for name in asked]
    elif not any(isinstance(name, str) for name in classes):
        order.sort(key=lambda k: classes[k])
    if positive is None:
        return order
    if len(classes) != 2:
        raise ValueError(
            f"--positive is for two classes and there are {len(classes)} ({listed(classes)}); give the order of all "
            f"with --classes"
        )
    found = find([str(name) for name in classes], [positive], affix=False)
    if found.places is None:
        raise ValueError(f"--positive {positive} is none of the classes ({listed(classes)}); name one of them")
    place = found.places[0]
    return sorted(order, key=lambda k: k == place)


def _as_classes(labels: NDArray[Any], classes: Sequence[Any], frame: Frame, label: str | None) -> NDArray[Any]:
    """Return labels as class names, matched as they are written."""
    seen, inverse = np.unique(labels, return_inverse=True)
    found = find([str(name) for name in classes], seen.tolist(), affix=False)
    own = dict(enumerate(found.places) if found.places is not None else found.own)
    codes = np.array([own.get(k, -1) for k in range(len(seen))])[inverse.reshape(-1)]
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(
            f"row {row} of label column {label!r} of {frame.path} holds {labels[row].item()!r}, which is none of the "
            f"classes ({listed(classes)}); name all classes with --classes"
        )
    return np.array(classes)[codes]


def _checked(proba: NDArray[Any], frame: Frame, place: _Place, names: Sequence[str]) -> NDArray[Any]:
    """Return the probabilities as they were read, after the library's check; errors name file and column."""
    try:
        checked = checked_probabilities(proba)
    except ValueError as error:
        message = re.sub(r"column (\d+) of proba", lambda found: f"column {names[int(found[1])]!r}", str(error))
        message = message.replace("of proba ", "of the probabilities ").replace("proba ", "the table of probabilities ")
        if place.how != "named":
            one = ", --score a single column" if len(names) == 2 else ""
            message += f" (columns taken: {listed(names)}, {place.how}; --columns and --classes choose others{one})"
        raise ValueError(f"{frame.path}: {message}") from None
    # folds are made of what was read: a division of rows by their sums is left to the library, as in Python
    return proba if proba.dtype in (np.float32, np.float64) else checked


# --- one column of scores for two classes ---
# Which class the column belongs to is never guessed: --positive says it, the name of the column, the order of
# --classes, or a rule that was tuned for a metric of the positive class, which is its second.


def is_named_like(column: str, name: Any) -> bool:
    """Return whether a column is named like a class, on its own or as a word of a name such as ``p_yes``.

    Examples
    --------
    >>> is_named_like("p_yes", "yes"), is_named_like("Yes", "yes"), is_named_like("eyes", "yes")
    (True, True, False)
    """
    if find([column], [name], affix=False).places is not None:
        return True
    around = rf"(^|[^0-9a-z]){re.escape(str(name).strip().casefold())}($|[^0-9a-z])"
    return re.search(around, column.casefold()) is not None


def implied_score(numeric: Sequence[str], classes: Sequence[Any], positive: str) -> str | None:
    """Return the only numeric column that is named like one of two classes, if --positive names this class.

    Parameters
    ----------
    numeric : sequence of str
        Numeric columns that are neither label nor weight.
    classes : sequence
        The classes of the labels, of --classes or of a rule.
    positive : str
        What --positive says.
    """
    if len(classes) != 2:
        return None
    named = [column for column in numeric if any(is_named_like(column, name) for name in classes)]
    return named[0] if len(named) == 1 and is_named_like(named[0], positive) else None


@dataclass(frozen=True)
class Scored:
    """Probabilities (n, 2) from one column of scores, what each of the two columns is, and the class of the scores."""

    proba: NDArray[Any]
    columns: tuple[str, str]
    of: Any


def two_columns(frame: Frame, column: str, positive: str | None, classes: Sequence[Any], last: Any) -> Scored:
    """Return the probabilities of two classes from a column of scores.

    Parameters
    ----------
    frame, column
        The file, and the name of its column.
    positive : str or None
        What --positive says.
    classes : sequence
        The classes, which must be two.
    last : object or None
        The positive class, if --classes or a rule that was tuned for a metric of it says it.

    Raises
    ------
    ValueError
        If there are not two classes, nothing says whose probability it is, or two things say different classes; if a
        score is missing or lies outside 0 to 1.
    """
    if len(classes) != 2:
        raise ValueError(_not_two(classes))
    place = _place(column, positive, classes, last)
    scores = frame.numbers(column)
    bad = ~((scores >= 0) & (scores <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        empty = bool(np.isnan(scores[row]))
        what = "is empty" if empty else f"is {scores[row]:g}, which is not between 0 and 1"
        way_out = "drop such rows" if empty else (
            "give probabilities: divide percentages by 100, turn log-odds x into 1 / (1 + exp(-x))"
        )  # fmt: skip
        raise ValueError(f"row {row} of score column {column!r} of {frame.path} {what}; {way_out}")
    other = 1 - scores
    if place == 0:
        return Scored(np.column_stack([scores, other]), (column, f"1 - {column}"), classes[0])
    return Scored(np.column_stack([other, scores]), (f"1 - {column}", column), classes[1])


def _not_two(classes: Sequence[Any]) -> str:
    shown = ", ".join(str(name)[:100] for name in classes[:8])
    if len(classes) > 2:
        return (
            f"--score is for two classes and there are {len(classes)} ({shown}); give one column of probabilities per "
            f"class"
        )
    known = f"only the class {shown} is known" if classes else "no class is known"
    return f"--score is for two classes and {known} here; name both with --classes, the negative first"


def _place(column: str, positive: str | None, classes: Sequence[Any], last: Any) -> int:
    """Return the place of the class whose probability a column holds."""
    named = [k for k, name in enumerate(classes) if is_named_like(column, name)]
    own = named[0] if len(named) == 1 else None
    if positive is None:
        if own is None and last is None:
            raise ValueError(
                f"nothing says which class column {column!r} is the probability of; say it with --positive "
                f"{classes[0]} or --positive {classes[1]}"
            )
        return own if own is not None else list(classes).index(last)
    place = next(
        (k for k, name in enumerate(classes) if find([positive], [name], affix=False).places is not None), None
    )
    if place is None:
        raise ValueError(f"--positive {positive} is neither class ({classes[0]}, {classes[1]}); name one of them")
    if own not in (None, place):
        raise ValueError(
            f"column {column!r} is named like the class {classes[own]} and --positive says {classes[place]}; give "
            f"--positive {classes[own]}, or rename the column"
        )
    return place
