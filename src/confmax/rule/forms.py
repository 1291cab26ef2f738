"""The two forms of what a rule decides: an index for every row, or for each label of a row whether the row gets it.

Whatever applies rules, counts what they decide or writes it asks a rule for its `form`, and does not ask which it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from confmax.errors import InputError
from confmax.tables.kinds import calibrated_rows, given_hashes, named

if TYPE_CHECKING:
    from confmax.rule.batch import OneCap


class Form(Protocol):
    """What a rule decides for rows in memory, how it is counted, and the Arrow columns that hold it."""

    def work(self, rule: Any) -> Callable[..., Any]:
        """Return what decides rows of probabilities."""

    def keys(self, rule: Any, proba: Any) -> Any:
        """Return the keys by which a ``rule`` draws for a part of the rows that have none; None for its usual way."""

    def cap(self, rule: Any, at_most: Any) -> OneCap | None:
        """Return the limit on a decision that ``at_most`` means; InputError where there can be none."""

    def named(self, rule: Any, decided: NDArray[Any]) -> NDArray[Any]:
        """Return what `predict` returns of the rows that are ``decided``."""

    def calibrated(self, rule: Any, P: Any) -> Any:
        """Return checked probabilities (n, K) as they are counted."""

    def counted(self, rule: Any, decided: NDArray[Any]) -> NDArray[np.int64]:
        """Return how many rows get each decision (M,)."""

    def cells(self, decided: NDArray[Any], n_classes: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the rows and the classes (m,) that are decided for them."""

    def undecided(self, decided: NDArray[Any], n_classes: int) -> NDArray[np.intp]:
        """Return the rows that get a decision beyond the classes."""

    def added(self, rule: Any, output: str, *, names: bool) -> list[str]:
        """Return the names of the `columns`."""

    def columns(self, rule: Any, output: str, decided: NDArray[Any], *, names: bool) -> dict[str, Any]:
        """Return Arrow columns of what is ``decided``, with ``names`` or with numbers."""


class _OfOneClass:
    """One class for every row: the index (n,) of a decision."""

    def work(self, rule: Any) -> Callable[..., Any]:
        found: Callable[..., Any] = rule.predict_index
        return found

    def keys(self, rule: Any, proba: Any) -> Any:
        # rows of one part are no share of the table, so that nobody warns of duplicates among them
        return given_hashes(proba) if rule.is_randomized else None

    def cap(self, rule: Any, at_most: Any) -> OneCap | None:
        # a tuning limits no batch
        from confmax.rule.batch import caps_of, one_cap

        caps = caps_of(rule, at_most)
        return one_cap(rule, caps) if caps else None

    def named(self, rule: Any, decided: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(named(rule.classes, decided))

    def calibrated(self, rule: Any, P: Any) -> Any:
        return calibrated_rows(getattr(rule.shares, "calibrator", None) or rule.calibrator, P).proba

    def counted(self, rule: Any, decided: NDArray[Any]) -> NDArray[np.int64]:
        return np.bincount(decided, minlength=len(rule.class_names))

    def cells(self, decided: NDArray[Any], n_classes: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        rows = np.flatnonzero(decided < n_classes)
        return rows, decided[rows]

    def undecided(self, decided: NDArray[Any], n_classes: int) -> NDArray[np.intp]:
        return np.flatnonzero(decided >= n_classes)

    def added(self, rule: Any, output: str, *, names: bool) -> list[str]:
        return [output]

    def columns(self, rule: Any, output: str, decided: NDArray[Any], *, names: bool) -> dict[str, Any]:
        import pyarrow as pa

        small = decided.astype(np.min_scalar_type(-len(rule.class_names)))
        if not names:
            return {output: pa.array(small)}
        classes = _of_one_type(rule.classes)
        if classes.dtype.kind != "U":
            return {output: pa.array(classes[decided])}
        return {output: pa.DictionaryArray.from_arrays(pa.array(small), pa.array(classes.tolist(), pa.string()))}


class _OfLabels:
    """Several labels for a row: 0 or 1 for each of them (n, L)."""

    def work(self, rule: Any) -> Callable[..., Any]:
        found: Callable[..., Any] = rule.predict
        return found

    def keys(self, rule: Any, proba: Any) -> Any:
        return None

    def cap(self, rule: Any, at_most: Any) -> OneCap | None:
        raise InputError("this rule decides several labels per row", "leave `at_most` out")

    def named(self, rule: Any, decided: NDArray[Any]) -> NDArray[Any]:
        return decided

    def calibrated(self, rule: Any, P: Any) -> Any:
        maps = rule.calibrator or getattr(rule.shares, "maps", None)
        return P if maps is None else maps.transform(P)

    def counted(self, rule: Any, decided: NDArray[Any]) -> NDArray[np.int64]:
        return np.asarray(decided.sum(axis=0, dtype=np.int64)).ravel()

    def cells(self, decided: NDArray[Any], n_classes: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        rows, columns = decided.nonzero()
        return rows, columns

    def undecided(self, decided: NDArray[Any], n_classes: int) -> NDArray[np.intp]:
        return np.zeros(0, np.intp)

    def added(self, rule: Any, output: str, *, names: bool) -> list[str]:
        return [output] if names else [f"{output}_{name}" for name in rule.class_names]

    def columns(self, rule: Any, output: str, decided: NDArray[Any], *, names: bool) -> dict[str, Any]:
        import pyarrow as pa

        if not names:
            each = zip(self.added(rule, output, names=False), decided.T, strict=True)
            return {name: pa.array(np.ascontiguousarray(column)) for name, column in each}
        ends = np.concatenate([[0], decided.sum(axis=1, dtype=np.int64).cumsum()])
        labels = pa.array(_of_one_type(rule.classes).tolist()).take(pa.array(decided.nonzero()[1]))
        return {output: pa.LargeListArray.from_arrays(pa.array(ends), labels)}


OF_ONE_CLASS, OF_LABELS = _OfOneClass(), _OfLabels()


def _of_one_type(classes: NDArray[Any]) -> NDArray[Any]:
    """Return names of classes of one type, as a column has: those of classes 0, 1 and a decision "abstain" are text."""
    return classes if classes.dtype != object else classes.astype(str)
