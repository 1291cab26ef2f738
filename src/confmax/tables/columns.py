"""Which column is which class: every source of named columns is matched to the classes here, and nowhere else.

Python frames, opened files, Dask, Spark, rules, estimators, tables of costs and the command line all ask this question.
A name belongs to a class if it is the same text in any order; else if it is the same but for case, surrounding spaces,
``1.0`` for ``1`` and ``true`` for 1; else if all columns have one prefix and one suffix around such names (``p_yes``,
``p_no``). Names that fit some of the classes only are refused, as is a class with two columns. Names that fit none are
read by position, with a warning that says which column was taken for which class.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.errors import InputError, Sentence
from confmax.tables.labels import Coded, distinct, plain

WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")
SHOWN = 8  # names in a message


@dataclass(frozen=True)
class Found:
    """Where classes are among names.

    ``places`` holds the place of the name of each class; it is None unless every class has exactly one. ``names`` are
    those that were compared: without a common prefix and suffix, where the classes were found so. ``own`` pairs classes
    that have one name with its place, ``missing`` are the classes without a name, ``twice`` is a class with two names,
    and these.
    """

    places: tuple[int, ...] | None
    names: tuple[str, ...]
    own: tuple[tuple[int, int], ...] = ()
    missing: tuple[Any, ...] = ()
    twice: tuple[Any, str, str] | None = None


@dataclass(frozen=True)
class Columns:
    """How the columns of a table are to be read, and what to warn of.

    ``order`` has the place of each class's column, None for as they are; ``classes`` are None where nobody states them.
    """

    order: tuple[int, ...] | None = None
    classes: tuple[Any, ...] | None = None
    note: str = ""


def in_names(
    error: InputError,
    names: Sequence[str] | None,
    unnamed: Sequence[Any] = (),
    order: Sequence[int] | None = None,
    *,
    of: str = " of `proba`",
) -> InputError:
    """Return an error of the rows of a frame with the ``names`` of its columns for their numbers in this ``order``.

    It begins with the labels that no column is named like, if these are ``unnamed``. ``of`` is what has the columns.
    """
    if names is None or is_numbered(names):
        return error
    own = names if order is None else [names[k] for k in order]
    problem = re.sub(
        r"column (\d+) of `proba`", lambda found: f"column {own[int(found[1])]!r}{of}", error.problem.marked
    )
    if unnamed:
        problem = f"no column is named {' or '.join(map(str, unnamed[:SHOWN]))}, as the labels are, and {problem}"
    return InputError(problem, error.remedy, error.argument)


def which_label(table: str, candidates: Sequence[str], otherwise: str, argument: str = "y") -> InputError:
    """Return the error that nobody has named the label among the columns of a table beside its probabilities."""
    shown = ", ".join(map(repr, candidates[:SHOWN]))
    return InputError(
        f"{table} has columns that are no probabilities ({shown}), and none is named as the label",
        f"which column is the label? name it: `{argument}={candidates[0]!r}`, {otherwise}",
        "y",
    )


def arranged(
    names: Sequence[str] | None,
    classes: Sequence[Any] | None,
    labels: NDArray[Any] | Coded | None,
    *,
    stated: bool = True,
) -> Columns:
    """Return which column of a table is which class, from the ``names`` of its K columns.

    ``classes`` are those in the order that is wanted; without them the labels (n,), as they are given, and without
    these the names say which classes there are. Where the caller has ``stated`` that classes are in the order of the
    columns, names that fit none of them need no warning. ValueError if a class is named twice, or names fit some
    classes only.
    """
    if classes is not None:
        wanted = tuple(plain(name) for name in np.asarray(classes, dtype=object).reshape(-1))
        if len(set(wanted)) != len(wanted):
            raise ValueError("classes names a class twice; give each column its own name")
        order, note = matched(names, wanted, stated=stated)
        return Columns(order, wanted, note)
    if names is None:
        return Columns()
    if labels is None:
        return _named_classes(names)
    return _labelled(names, distinct(labels))


def matched(
    names: Sequence[str] | None, classes: Sequence[Any], *, stated: bool = False
) -> tuple[tuple[int, ...] | None, str]:
    """Return the place of the column of each of K classes, None for as they are, and what to warn of.

    Other than K names are left to the check of the table's shape. Where somebody has ``stated`` that the columns are in
    this order, names must not say otherwise. ValueError if names fit some of the classes only, or a class has two
    columns.
    """
    # a table of another width is refused by its shape, which says more than names that are missing
    if names is None or len(names) != len(classes):
        return None, ""
    found = find(names, classes)
    if found.places is not None:
        return _unless_in_order(found.places), ""
    # numbers that only count the columns name no class; names that stand at their places do not contradict the order
    if is_numbered(names) or (stated and found.twice is None and all(k == place for k, place in found.own)):
        return None, ""
    refuse_part(found, names, "rename the columns, or pass an array whose columns are in the order of the classes")
    return None, "" if stated else _assumed(names, classes)


def order_of(names: Sequence[str] | None, classes: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the places of columns that are `matched` to classes, and warn where their names do not tell them."""
    order, note = matched(names, classes)
    warn(note)
    return order


def find(names: Sequence[str], classes: Sequence[Any], *, whole: bool = True, affix: bool = True) -> Found:
    """Return where classes, plain values, are among names such as those of columns.

    Where ``whole``, all names are of classes, so that a prefix or suffix must be that of all. ``affix`` says whether a
    common prefix and suffix may be left out.

    >>> find(["p_yes", "p_no"], ["no", "yes"]).places
    (1, 0)
    >>> find(["TRUE", "false"], [False, True]).places
    (1, 0)
    """
    # 0 and 1 may be written as truth values, and the other way round
    truth = all(str(plain(name)).casefold() in ("0", "1", "false", "true") for name in classes)
    found = _lookup(names, classes, truth=truth)
    if found.places is not None or not affix or not len(classes) or not len(names):
        return found
    within = [
        _lookup(each, classes, truth=truth) for each in _without_affixes(names, classes, truth=truth, whole=whole)
    ]
    fitting = {each.places: each for each in within if each.places is not None}
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    # beside p_0 and p_1 there may be q_0 and q_1: which of them are meant is not guessed
    if len(fitting) > 1:
        one, other = list(fitting)[:2]
        k = next(k for k, (here, there) in enumerate(zip(one, other, strict=True)) if here != there)
        return Found(None, tuple(names), twice=(classes[k], names[one[k]], names[other[k]]))
    # without a fit, names such as p_a and p_x are still compared behind their prefix, so that a part is refused as one
    if whole and not found.own and found.twice is None:
        partly = _lookup(_stripped(names, *_common(names)), classes, truth=truth)
        found = partly if partly.own or partly.twice else found
    return found


def table_order(
    rows: Sequence[Any] | None,
    columns: Sequence[Any] | None,
    shape: tuple[int, int],
    classes: Sequence[Any],
    *,
    axes: tuple[str, str] = ("index of the table of costs", "header of the table of costs"),
) -> tuple[list[int], list[int]]:
    """Return the rows and the columns of a table (K, M) of gains in the order of the classes, further ones last.

    ``rows`` and ``columns`` name the true classes (K,) and the decisions (M,); an axis without names follows the order
    of the other. ``axes`` are what both are called in the sentence of the ValueError, if one names a class not at all
    or twice.
    """
    inner = lines = list(range(shape[0]))
    if columns is not None:
        inner = _all_classes([str(plain(name)) for name in columns], classes, axes[1])
        lines = [sorted(inner).index(place) for place in inner]
    if rows is not None:
        lines = _all_classes([str(plain(name)) for name in rows], classes, axes[0])
        inner = lines if columns is None else inner
    return lines, [*inner, *(k for k in range(shape[1]) if k not in inner)]


def _all_classes(names: list[str], classes: Sequence[Any], what: str) -> list[int]:
    """Return the place of every class among names of which all are different."""
    found = find(names, classes, whole=False)
    if found.places is None or len(set(names)) < len(names):
        raise ValueError(
            f"the {what} names {', '.join(map(str, names[:SHOWN]))}; it must name each class once: "
            f"{', '.join(map(str, classes[:SHOWN]))}"
        )
    return list(found.places)


def first_repeated(names: Sequence[Any]) -> Any:
    """Return the first name that a later one equals, None if there is none."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def is_numbered(names: Sequence[str]) -> bool:
    """Whether names only count the columns, as pandas', Polars' and Spark's do where nobody gave any."""
    each = range(len(names))
    return list(names) in ([str(k) for k in each], [f"column_{k}" for k in each], [f"_{k + 1}" for k in each])


def warn(note: str) -> None:
    """Warn of a ``note`` that is not empty, at the line that called the library, however deep its call is."""
    if note:
        # the line of the caller's own code says where to look; how deep the library's calls are differs by path
        level = 1
        frame = sys._getframe()
        while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "confmax":
            level = level + 1
            frame = frame.f_back
        warnings.warn(Sentence(note), UserWarning, stacklevel=level)


# --- from labels and names alone -------------------------------------------------------------------------------------


def _labelled(names: Sequence[str], labels: list[Any]) -> Columns:
    """Return the columns whose classes are told by the distinct labels of a table."""
    found = find(names, labels)
    K = len(names)
    if found.places is not None:
        # a class that no row is labelled with has a column too, and the name of this column
        own = {place: labels[k] for k, place in found.own}
        classes = [own[k] if k in own else _like(found.names[k], labels) for k in range(K)]
        repeated = first_repeated(classes)
        if repeated is not None:
            one, other = [names[k] for k in range(K) if classes[k] == repeated][:2]
            raise ValueError(_two_columns(repeated, one, other))
        return _by_size(classes)
    if is_numbered(names):
        return Columns()
    refuse_part(found, names, "rename the columns, or pass classes= with the names in column order")
    counted = all(isinstance(name, int) and not isinstance(name, bool) for name in labels)
    if len(labels) != K and not counted:
        return Columns()  # which is refused with the number of labels
    return Columns(note=_assumed(names, sorted(labels) if len(labels) == K else range(K)))


def _named_classes(names: Sequence[str]) -> Columns:
    """Return the columns of a table without labels: its classes are called like its columns."""
    if is_numbered(names):
        return Columns()
    repeated = first_repeated(names)
    if repeated is not None:
        raise ValueError(_two_columns(repeated, repeated, repeated))
    keys = [_key(name) for name in names]
    counted = all(re.fullmatch(r"-?[0-9]{1,18}", key) for key in keys) and len(set(keys)) == len(keys)
    return _by_size([int(key) for key in keys] if counted else list(names))


def _by_size(classes: list[Any]) -> Columns:
    """Return the columns of ``classes``, numbers in the order of their size, which metrics of an order count in."""
    if any(isinstance(name, str) for name in classes):
        return Columns(classes=tuple(classes))
    order = tuple(sorted(range(len(classes)), key=classes.__getitem__))
    return Columns(_unless_in_order(order), tuple(classes[k] for k in order))


def _unless_in_order(places: tuple[int, ...]) -> tuple[int, ...] | None:
    # a table whose columns stand in order already is not copied
    return None if places == tuple(range(len(places))) else places


def _like(name: str, labels: Sequence[Any]) -> Any:
    """Return the class of a column that no row is labelled with, in the type of the labels."""
    if isinstance(labels[0], str):
        return name
    try:
        return plain(float(name))
    except ValueError:
        raise ValueError(
            f"column {name!r} of proba matches no label and the labels are numbers ({_shown(labels)}); drop it "
            f"if it holds no probabilities, or pass classes= with the names in column order"
        ) from None


# --- comparing names -------------------------------------------------------------------------------------------------


def _lookup(names: Sequence[str], classes: Sequence[Any], *, truth: bool) -> Found:
    """Return where classes are among names that are compared as they are, and where that fails by their keys."""
    exact = _places(names)
    loose = _places([_key(name, truth=truth) for name in names])
    texts = [str(plain(name)) for name in classes]
    keys = [_key(text, truth=truth) for text in texts]
    alone = len(set(keys)) == len(keys)  # else only case tells the classes apart
    hits = [exact.get(text) or (loose.get(key, []) if alone else []) for text, key in zip(texts, keys, strict=True)]
    pairs = list(zip(classes, hits, strict=True))
    twice = next(((name, names[at[0]], names[at[1]]) for name, at in pairs if len(at) > 1), None)
    missing = tuple(name for name, at in pairs if not at)
    own = tuple((k, at[0]) for k, at in enumerate(hits) if len(at) == 1)
    places = tuple(at for _, at in own) if len(own) == len(hits) else None
    return Found(places, tuple(names), own, missing, twice)


def _places(names: Sequence[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        places.setdefault(name, []).append(k)
    return places


def _key(name: str, *, truth: bool = False) -> str:
    """Return a name without what does not tell classes apart: case, spaces around it, ``.0`` behind a whole number."""
    text = name.strip().casefold()
    if truth and text in ("true", "false"):
        return str(int(text == "true"))
    whole = WHOLE.fullmatch(text)
    return whole[1] if whole else text


def _without_affixes(names: Sequence[str], classes: Sequence[Any], *, truth: bool, whole: bool) -> list[list[str]]:
    """Return names without each prefix and suffix that may stand around all classes; other names become empty."""
    # every class tells the same affix; the longest names are within the fewest others
    longest = sorted({str(plain(name)).casefold() for name in classes}, key=len)[-2:]
    pairs = {"0": {"0", "false"}, "false": {"0", "false"}, "1": {"1", "true"}, "true": {"1", "true"}}
    first, *rest = [_around(names, pairs[each] if truth else {each}) for each in longest]
    affixes = [each for each in first if all(each in other for other in rest) and each != ("", "")]
    prefix, suffix = _common(names) if whole else ("", "")
    return [
        _stripped(names, *affix)
        for affix in affixes
        if not whole or (prefix.startswith(affix[0]) and suffix.endswith(affix[1]))
    ]


def _around(names: Sequence[str], spelled: set[str]) -> dict[tuple[str, str], None]:
    """Return what is before and behind a class in each name that one of its spellings is in."""
    affixes: dict[tuple[str, str], None] = {}
    for name in names:
        # folded letters may be more than before, as ss for a sharp s; their places would not be those in the name
        text = name.casefold() if len(name.casefold()) == len(name) else name
        for each in filter(None, spelled):
            # by looking ahead, so that places which overlap are found too, as of aa in aaa
            for found in re.finditer(rf"(?={re.escape(each)}(\.0+)?)", text):
                end = found.start() + len(each)
                for stop in {end, end + len(found[1] or "")}:
                    affixes[name[: found.start()], name[stop:]] = None
    return affixes


def _common(names: Sequence[str]) -> tuple[str, str]:
    """Return the longest prefix and the longest suffix of all names."""
    return commonprefix(names), commonprefix([name[::-1] for name in names])[::-1]  # noqa: RUF071, these are no paths


def _stripped(names: Sequence[str], prefix: str, suffix: str) -> list[str]:
    """Return names without a prefix and a suffix, empty where they do not have both."""
    around = len(prefix) + len(suffix)
    return [
        name[len(prefix) : len(name) - len(suffix)]
        if len(name) > around and name.startswith(prefix) and name.endswith(suffix)
        else ""
        for name in names
    ]


# --- sentences -------------------------------------------------------------------------------------------------------


def refuse_part(
    found: Found, names: Sequence[str], way_out: str, *, of: str = "proba", of_two: str = "drop or rename one of them"
) -> None:
    """Refuse, by a ValueError, names of which some fit classes and some do not, or two fit one.

    ``of`` is what has the columns; ``way_out`` and ``of_two`` say what the user can do about each.
    """
    if found.twice is not None:
        raise ValueError(_two_columns(*found.twice, of, of_two))
    if found.own:
        taken = {place for _, place in found.own}
        others = [name for k, name in enumerate(names) if k not in taken]
        other = f", and no class like the column {_shown(others)}"
        raise ValueError(
            f"some columns of {of} are named like classes and some are not: no column is named like the class "
            f"{_shown(found.missing)}{other if others else ''}; {way_out}"
        )


def _two_columns(
    name: Any, one: str, other: str, of: str = "proba", way_out: str = "drop or rename one of them"
) -> str:
    return f"two columns of {of} are named like the class {name!r} ({one!r} and {other!r}); {way_out}"


def _assumed(names: Sequence[str], classes: Sequence[Any]) -> str:
    return (
        f"no column is named like a class: the columns were taken in their order ({assignment(names, classes)}); pass "
        f"`classes=` with the names in column order, or name the columns like the classes"
    )


def assignment(names: Sequence[str], classes: Sequence[Any]) -> str:
    """Return which column stands for which class, for a person."""
    pairs = [f"{column} = {name}" for column, name in zip(names, classes, strict=True)]
    return ", ".join(pairs[:SHOWN]) + (f", ... ({len(pairs)})" if len(pairs) > SHOWN else "")


def _shown(names: Sequence[Any]) -> str:
    # a column of row numbers often has no name
    shown = [repr(name) if str(name).strip() else "'' (without a name)" for name in names[:SHOWN]]
    return ", ".join(shown) + (f", ... ({len(names)})" if len(names) > SHOWN else "")
