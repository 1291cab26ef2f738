"""Class names and labels: in which order the columns are, and which column a label is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode_labels(labels: NDArray[Any], classes: Sequence[Any], n: int) -> NDArray[np.int64]:
    """Return labels (n,) as column numbers (n,).

    Raises
    ------
    ValueError
        For a wrong length or a label that is no class; the sentence names the first such row.
    """
    if labels.shape != (n,):
        raise ValueError(f"y must have one label per row of proba: {n} labels; got shape {labels.shape}")
    code = {plain(name): k for k, name in enumerate(classes)}
    seen, inverse = np.unique(labels, return_inverse=True) if labels.dtype != object else _unique_objects(labels)
    codes = np.array([code.get(plain(value), -1) for value in seen], dtype=np.int64)[inverse.reshape(-1)]
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        shown = ", ".join(map(repr, map(plain, classes[:8]))) + (", ..." if len(classes) > 8 else "")
        raise ValueError(
            f"row {row} of y holds the label {plain(labels[row])!r}, which is none of the {len(classes)} classes "
            f"({shown}); pass classes= with the names in column order"
        )
    return codes


def class_order(
    classes: Sequence[Any] | None, names: list[str] | None, labels: NDArray[Any] | None
) -> tuple[Any, ...] | None:
    """Return the class order that was given, or that a frame's column names tell."""
    if classes is not None:
        order = tuple(plain(name) for name in np.asarray(classes, dtype=object).reshape(-1))
        if len(set(order)) != len(order):
            raise ValueError("classes names a class twice; give each column its own name")
        return order
    if names is None or labels is None:
        return None
    found = {str(plain(value)): plain(value) for value in _distinct(labels)}
    if set(found) == set(names):
        return tuple(found[name] for name in names)
    return None


def resolve_classes(order: tuple[Any, ...] | None, labels: NDArray[Any] | None, K: int) -> tuple[Any, ...]:
    """Return the K class names in column order: those given, the sorted labels if they are K, or 0..K-1."""
    if order is not None:
        if len(order) != K:
            raise ValueError(f"classes names {len(order)} classes and proba has {K} columns; give one name per column")
        return order
    if labels is None:
        return tuple(range(K))
    distinct = _distinct(labels)
    if len(distinct) == K:
        return tuple(sorted(distinct))
    numbers = [value for value in distinct if isinstance(value, int) and not isinstance(value, bool)]
    if len(numbers) != len(distinct):
        raise ValueError(
            f"y has {len(distinct)} distinct labels and proba has {K} columns, so the columns cannot be matched; pass "
            f"classes= with the {K} names in column order"
        )
    return tuple(range(K))


def _distinct(labels: NDArray[Any]) -> list[Any]:
    """Return the distinct labels as plain Python values; missing ones are refused."""
    seen = np.unique(labels) if labels.dtype != object else _unique_objects(labels)[0]
    names = [plain(value) for value in seen]
    if any(map(_is_missing, names)):
        row = [_is_missing(value) for value in labels.tolist()].index(True)
        raise ValueError(f"row {row} of y has no label; drop such rows, or leave y out")
    if len({isinstance(value, str) for value in names}) > 1:
        raise ValueError("y mixes strings and numbers; give all labels as one type")
    return names


def _unique_objects(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """``numpy.unique`` with inverse for objects that need not be comparable."""
    position: dict[Any, int] = {}
    inverse = np.empty(len(labels), dtype=np.intp)
    for row, value in enumerate(labels.tolist()):
        key = None if _is_missing(value) else value
        inverse[row] = position.setdefault(key, len(position))
    seen = np.empty(len(position), dtype=object)
    seen[:] = list(position)
    return seen, inverse


def _is_missing(value: Any) -> bool:
    """Whether a label is None, NaN or pandas' NA, which differs from itself or refuses to be compared."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def plain(value: Any) -> Any:
    """Return a label as a plain Python value; whole floats become integers."""
    if isinstance(value, np.generic):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value
