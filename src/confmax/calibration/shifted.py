"""Calibrations for other class shares: every probability is multiplied by the ratio of new to old shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confmax.calibration.calibrators import MatrixScaling, Scaling, VectorScaling
from confmax.calibration.scaling import FLOOR
from confmax.confusion import Array
from confmax.tables.kinds import scaled

ALIKE = 1e-9  # relative difference of powers that is rounding
MOST = 20.0  # nats by which a class is shifted at most


def shifted(calibrator: Any, source: Array, target: Array) -> Any:
    """Return the calibrator for rows with class shares ``target`` (K,), where one for shares ``source`` (K,) is given.

    It multiplies the probabilities that ``calibrator`` makes, None for none, by ``target / source``, and divides rows
    by their sums (Saerens et al. 2002). A scaling of confmax is one again, whose offsets are larger by the logarithms
    of the ratios, which lie within 20 in absolute value. A class that a scaling leaves as it is, is then calibrated
    with the others. Other objects are wrapped in `Reweighted`.

    Examples
    --------
    >>> shifted(None, np.array([0.5, 0.5]), np.array([0.2, 0.8])).transform([[0.8, 0.2]])
    array([[0.5, 0.5]])
    """
    return _with_offsets(calibrator, _offsets(source, target))


def raised(calibrator: Any, source: Array, target: Array) -> Any:
    """Return the calibrator of probabilities that were shifted from ``source`` to ``target`` (K,) before it sees them.

    It undoes this shift, and then does what ``calibrator`` does, None for nothing. A scaling whose powers differ, or an
    object that is not confmax's, is wrapped in `Reweighted`.

    Examples
    --------
    >>> raised(None, np.array([0.5, 0.5]), np.array([0.2, 0.8])).transform([[0.5, 0.5]])
    array([[0.8, 0.2]])
    """
    offsets = _offsets(source, target)
    calibrator = before_shift(calibrator)
    if calibrator is None or isinstance(calibrator, Scaling):
        W = np.ones(len(offsets)) if calibrator is None else calibrator.parameters(len(offsets))[0]
        powers = W if W.ndim == 1 else W.sum(axis=1)
        # rows were divided by their sums, which all classes must read alike
        if np.ptp(powers) <= ALIKE * np.abs(powers).max():
            return _with_offsets(calibrator, -(W @ offsets if W.ndim == 2 else W * offsets))
    return Reweighted(calibrator, np.zeros(len(offsets)), -offsets)


def _offsets(source: Array, target: Array) -> Array:
    """Return the logarithms (K,) of the ratios of ``target`` to ``source`` shares (K,), within `MOST`."""
    ratio = np.divide(target, source, out=np.ones_like(source), where=source > 0.0)
    return np.clip(np.log(np.maximum(ratio, np.exp(-MOST))), -MOST, MOST)


def _with_offsets(calibrator: Any, offsets: Array) -> Any:
    """Return a calibrator whose logarithms of probabilities are larger by ``offsets`` (K,)."""
    K = len(offsets)
    if calibrator is None:
        return VectorScaling(np.ones(K), offsets)
    if isinstance(calibrator, Reweighted):
        return replace(calibrator, after=calibrator.after + offsets)
    if not isinstance(calibrator, Scaling):
        return Reweighted(calibrator, offsets, np.zeros(K))
    if isinstance(calibrator, MatrixScaling):
        return replace(calibrator, b=calibrator.b + offsets, kept=None)
    a, b = calibrator.parameters(K)
    return VectorScaling(a, b + offsets, calibrator.floor)


def before_shift(calibrator: Any) -> Any:
    """Return the calibrator whose probabilities a shift multiplies: one that calibrates all classes."""
    return calibrator.keeping(None) if isinstance(calibrator, Scaling) else calibrator


@dataclass(frozen=True, eq=False)
class Reweighted:
    """A calibrator that no offsets of its own can shift, between two shifts.

    The logarithms of probabilities are raised by ``before`` (K,), rows divided by their sums, calibrated, raised by
    ``after`` (K,), and divided again. Files and exports refuse it.
    """

    calibrator: Any
    after: Array
    before: Array

    def transform(self, proba: ArrayLike) -> Any:
        """Return the probabilities (n, K) of ``proba`` (n, K) under the other class shares."""
        found = self.calibrator.transform(_raised_by(proba, self.before))
        return _raised_by(found, self.after)

    def reordered(self, index: Sequence[int]) -> Reweighted:
        """Return the calibrator for the columns in the order ``index`` (K,)."""
        if not callable(getattr(self.calibrator, "reordered", None)):
            raise ValueError(f"the calibration {type(self.calibrator).__name__} has no reordered(index)")
        order = list(index)
        return Reweighted(self.calibrator.reordered(order), self.after[order], self.before[order])


def _raised_by(proba: Any, offsets: Array) -> Any:
    """Return probabilities whose logarithms are raised by ``offsets`` (K,), rows divided by their sums."""
    powers = np.ones(len(offsets))
    return scaled(proba, lambda _: (powers, offsets), FLOOR, identity=not offsets.any(), kept=None)
