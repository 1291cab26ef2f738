"""How checked rows are held: a *storage* knows one way (an array, a sparse matrix, a tensor).

A part of a table (`confmax.tables.part`) is its rows, labels and weights, and leaves to the storage all that depends on
how rows are held. So kinds are composed, not derived from each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.tables.decisions import Decisions


class Calibrator(Protocol):
    """A map of probabilities (n, K) to probabilities (n, K), row by row."""

    def transform(self, proba: NDArray[Any]) -> ArrayLike:
        """Return the calibrated probabilities (n, K) of ``proba`` (n, K)."""


@dataclass(frozen=True, eq=False)
class Checked:
    """What the check of probabilities gives: rows that sum to one up to rounding, in the form that their storage holds.

    Where the check has computed them: the sum of each column, and the hashes of the rows as they were given
    (`Part.row_hashes`, `Part.unordered_hashes`).
    """

    storage: Storage
    proba: Any
    totals: Array | None = None
    hashes: NDArray[np.uint64] | None = None
    unordered: NDArray[np.uint64] | None = None


class Storage(ABC):
    """One way to hold checked rows; ``proba`` (n, K) are always rows that were checked, and have a ``shape``."""

    backend: ClassVar[str]
    is_truncated: ClassVar[bool] = False

    @abstractmethod
    def scaled(self, proba: Any, W: Array, b: Array, floor: float) -> Any:
        """Return ``softmax(W log(p + floor) + b)`` (n, K), W (K,) or (K, K), in the dtype of ``proba``."""

    @abstractmethod
    def calibrated(self, calibrator: Calibrator, proba: Any) -> Checked:
        """Return what a calibrator makes of the rows, checked in turn."""

    def dtype(self, proba: Any) -> np.dtype[Any]:
        """Return the type that scores are computed in."""
        return np.dtype(proba.dtype)

    @abstractmethod
    def hashes(self, proba: Any, *, ordered: bool = True) -> NDArray[np.uint64]:
        """Return the hash of every row (n,), by the order of the columns or without (`confmax.tables.fingerprints`)."""

    def rows(self, proba: Any, chosen: NDArray[Any]) -> Any:
        """Return the ``chosen`` rows (n,), a mask or indices."""
        return proba[chosen]

    def is_on_host(self, proba: Any) -> bool:
        """Whether the rows are in host memory."""
        return True

    @abstractmethod
    def dense(self, proba: Any, what: str) -> Checked:
        """Return the rows as an array in host memory, which ``what`` needs; ValueError if that would be large."""

    @abstractmethod
    def column_sums(self, proba: Any, weight: Array | None, *, spread: bool) -> Array:
        """Return the sums of ``p`` by class (K,), with ``spread`` of ``p (1 - p)``, by ``weight`` (n,), in float64."""

    @abstractmethod
    def columns(self, proba: Any, classes: Sequence[int]) -> Iterator[tuple[NDArray[Any], Any]]:
        """Yield the probabilities (m,) of each of ``classes`` in host memory, and their rows: m indices, or a slice.

        Probabilities that are left out are zero.
        """

    @abstractmethod
    def probability_of(self, proba: Any, decision: NDArray[Any]) -> NDArray[Any]:
        """Return each row's probability of its ``decision`` (n,), zero for one that is no class."""

    def sums_by_decision(self, proba: Any, weight: Array | None, decision: NDArray[Any], n_decisions: int) -> Array:
        """Return the sums of the rows of every decision (K, M), by ``weight`` (n,), in float64."""
        out = np.zeros((proba.shape[1], n_decisions))
        order = np.argsort(decision, kind="stable")
        made, starts = np.unique(decision[order], return_index=True)
        # of very many decisions only those that are made take a product with their rows
        for j, chosen in zip(made, np.split(order, starts[1:]), strict=True):
            out[:, j] = (np.ones(len(chosen)) if weight is None else weight[chosen]) @ self.rows(proba, chosen)
        return out

    @abstractmethod
    def decide(self, proba: Any, gains: Gains) -> NDArray[Any]:
        """Return the decisions (B, n) of every gain on every row in host memory; ties go to the largest index."""

    def decide_one(self, proba: Any, gains: Gains) -> Any:
        """Return the decisions (n,) of one gain, int64, where the rows are."""
        return self.decide(proba, gains)[0].astype(np.int64, copy=False)

    @abstractmethod
    def drawn(self, proba: Any, gains: Gains, weights: Array, seed: int, keys: Any) -> Any:
        """Return the decision (n,) of every row by the atom that its key draws, int64, where the rows are.

        ``keys`` (n,) are those of `given_hashes`, or words in host memory.
        """

    @abstractmethod
    def probabilities(self, proba: Any, gains: Gains, weights: Array) -> Any:
        """Return the probability of every decision (n, M) under a draw of the gain, where the rows are."""

    @abstractmethod
    def with_entries(self, proba: Any, change: Callable[[NDArray[Any], Any], NDArray[Any]]) -> Any:
        """Return rows (n, L) with other entries, `confmax.tables.several.with_entries`."""

    @abstractmethod
    def decide_labels(self, proba: Any, gains: Gains, decisions: Decisions) -> Any:
        """Return which labels one gain chooses on every row (n, L), 0 or 1, held as the rows are."""

    def searched(self, checked: Checked) -> Checked:
        """Return rows of labels as thresholds are searched on them: in host memory."""
        return checked

    def stacked(self, parts: Sequence[Any]) -> Any:
        """Return rows of several parts as those of one, in their order."""
        return np.concatenate(parts)

    def averaged(self, parts: Sequence[Any], weights: Array) -> Any:
        """Return the sum of ``parts`` (n, L) by their ``weights``, in float64."""
        return sum(part * weight for part, weight in zip(parts, weights, strict=True))

    def as_given(self, proba: Any, found: Any) -> Any:
        """Return what was ``found`` for each entry of given ``proba`` (n, L), in the form in which these came."""
        return found

    @abstractmethod
    def scan(self, part: Any, gains: Gains, share: Any, *, matrix: bool, by: Any) -> Confusion:
        """Return the confusions of all ``gains`` on the rows of a `Part`, times their weight; row sums are left out.

        True is ``share p + (1 - share) 1[y = i]``, with one share of the model or one for each column. The rows are
        decided by the probabilities of ``by``, the part itself or another calibration of it. ``matrix`` asks for whole
        matrices.
        """

    def held(self, part: Any, what: str) -> Any:
        """Return the rows of a `Part` held in this way, which ``what`` needs; ValueError if they would be large."""
        return part.dense(what)
