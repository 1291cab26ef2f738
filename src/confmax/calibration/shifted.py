"""Calibrations for other class shares: every probability is multiplied by the ratio of new to old shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confmax.calibration.calibrators import MatrixScaling, Scaling, VectorScaling
from confmax.calibration.scaling import FLOOR
from confmax.confusion import Array
from confmax.tables.kinds import scaled

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

    It undoes this shift, and then does what ``calibrator`` does, None for nothing. An object that is not confmax's
    cannot be told so: a ValueError.

    Examples
    --------
    >>> raised(None, np.array([0.5, 0.5]), np.array([0.2, 0.8])).transform([[0.5, 0.5]])
    array([[0.8, 0.2]])
    """
    offsets = _offsets(source, target)
    if calibrator is not None and not isinstance(calibrator, Scaling):
        raise ValueError(
            f"the calibration {type(calibrator).__name__} of this rule reads probabilities that no shift has changed; "
            f"pass those of the model before the correction, without proba_shifted"
        )
    W = np.ones(len(offsets)) if calibrator is None else calibrator.parameters(len(offsets))[0]
    return _with_offsets(before_shift(calibrator), -(W @ offsets if W.ndim == 2 else W * offsets))


def _offsets(source: Array, target: Array) -> Array:
    """Return the logarithms (K,) of the ratios of ``target`` to ``source`` shares (K,), within `MOST`."""
    ratio = np.divide(target, source, out=np.ones_like(source), where=source > 0.0)
    return np.clip(np.log(np.maximum(ratio, np.exp(-MOST))), -MOST, MOST)


def _with_offsets(calibrator: Any, offsets: Array) -> Any:
    """Return a calibrator whose logarithms of probabilities are larger by ``offsets`` (K,)."""
    K = len(offsets)
    if calibrator is None:
        return VectorScaling(np.ones(K), offsets)
    if not isinstance(calibrator, Scaling):
        return Reweighted(calibrator, offsets)
    if isinstance(calibrator, MatrixScaling):
        return replace(calibrator, b=calibrator.b + offsets, kept=None)
    a, b = calibrator.parameters(K)
    return VectorScaling(a, b + offsets, calibrator.floor)


def before_shift(calibrator: Any) -> Any:
    """Return the calibrator whose probabilities a shift multiplies: one that calibrates all classes."""
    return calibrator.keeping(None) if isinstance(calibrator, Scaling) else calibrator


@dataclass(frozen=True, eq=False)
class Reweighted:
    """An object that calibrates, and what the logarithms of its probabilities are raised by: ``offsets`` (K,).

    Files and exports refuse it, as they refuse the object itself.
    """

    calibrator: Any
    offsets: Array

    def transform(self, proba: ArrayLike) -> Any:
        """Return the probabilities (n, K) of ``proba`` (n, K) under the other class shares."""
        powers = np.ones(len(self.offsets))
        return scaled(
            self.calibrator.transform(proba), lambda _: (powers, self.offsets), FLOOR, identity=False, kept=None
        )
