"""Metrics of the recalls ``T = D / r``: means with their bounds, the smallest one, and linear ones.

A mean of the recalls is added in one place, as a row of `METRICS` that calls `mean_of_recalls`: its formula, the
bound from an answer to any gain and the slopes that its compiled master problem takes follow from its exponent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from confmax.confusion import ABSENT, Array, Confusion
from confmax.metrics.first_order import TINY, FirstOrder, Formula, reciprocal, safe_ratio
from confmax.metrics.metric import Metric
from confmax.metrics.structure import Concave, DiagonalFunctions, Linear, MinOfLinear

Smoothing = Literal["relative", "additive"]


def _recalls(S: Confusion, rho: float, smoothing: Smoothing, *, numerator_too: bool) -> tuple[Array, Array]:
    """Return the (smoothed) recalls T and dT/dD; dT/dr is ``-T dT/dD`` (relative smoothing: ``-(T-T(0)) dT/dD``)."""
    if rho == 0.0:
        return safe_ratio(S.diagonal, S.rows), reciprocal(S.rows)
    shift = rho if numerator_too else 0.0
    if smoothing == "additive":
        slope = 1.0 / (S.rows + rho)
        return (S.diagonal + shift) * slope, slope
    slope = reciprocal(S.rows) / (1.0 + rho)
    return S.diagonal * slope + shift / (1.0 + rho), slope


def _through_recalls(
    S: Confusion, value: Array, partial: Array, rho: float, smoothing: Smoothing, *, numerator_too: bool = True
) -> FirstOrder:
    """Chain ``partial = dvalue/dT`` (..., K) through the recalls."""
    T, slope = _recalls(S, rho, smoothing, numerator_too=numerator_too)
    moving = T if smoothing == "additive" or rho == 0.0 else S.diagonal * slope
    # an absent class has slope 0 (no smoothing): its gradient is set to zero
    rate = safe_ratio(np.ones_like(S.rows), S.rows) if smoothing == "relative" else slope
    return FirstOrder(value, partial * slope, np.zeros_like(S.columns), -partial * moving * rate)


# --- linear ----------------------------------------------------------------------------------------------------------


def accuracy(S: Confusion) -> FirstOrder:
    """Sum of the diagonal."""
    zero = np.zeros_like(S.diagonal)
    return FirstOrder(S.diagonal.sum(-1), np.ones_like(S.diagonal), np.zeros_like(S.columns), zero)


def balanced_accuracy(S: Confusion, *, adjusted: bool = False) -> FirstOrder:
    """Mean recall; ``adjusted`` rescales it so that chance is 0: informedness, ``(K mean - 1) / (K - 1)``."""
    T, _ = _recalls(S, 0.0, "relative", numerator_too=True)
    K = T.shape[-1]
    value, partial = T.mean(-1), np.full_like(T, 1.0 / K)
    if adjusted:
        value, partial = (K * value - 1.0) / (K - 1.0), partial * K / (K - 1.0)
    return _through_recalls(S, value, partial, 0.0, "relative")


# --- means -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PowerMean:
    """The power mean of the recalls, or one minus the power mean of what they miss.

    The harmonic mean has the exponent -1, the geometric mean 0; the Q-mean is that ``of_misses`` with the exponent 2.

    Parameters
    ----------
    exponent : float
        Below 1; of misses above 1. The mean is then concave, and not linear.
    of_misses : bool
        Whether it is ``1 - M(1 - T)``.
    """

    exponent: float
    of_misses: bool = False

    def __post_init__(self) -> None:
        """Refuse means that are not strictly concave."""
        if not (self.exponent > 1.0 if self.of_misses else self.exponent < 1.0) or not np.isfinite(self.exponent):
            side = "above 1" if self.of_misses else "below 1"
            raise ValueError(f"the exponent of a concave mean of the recalls is {side}; got {self.exponent!r}")

    def value(self, T: Array) -> Array:
        """Return the mean (...) of recalls ``T`` (..., K); 0 where one vanishes and the exponent is not positive."""
        if self.of_misses:
            return 1.0 - self._mean(1.0 - T)
        if self.exponent > 0.0:
            return self._mean(T)
        alive = np.asarray(T.min(-1) > TINY)
        safe = T if alive.all() else np.where(T > TINY, T, 1.0)
        return np.where(alive, self._mean(safe), 0.0)

    def partial(self, T: Array) -> Array:
        """Return the derivatives (..., K) of `value`.

        Where the mean has no gradient: NaN if its slope is infinite there (geometric mean at a recall of zero), else a
        supergradient: the mean of those of the recalls that vanish, or zero at the perfect classifier.
        """
        K, p = T.shape[-1], self.exponent
        if self.of_misses:
            x = 1.0 - T
            share = safe_ratio(x, self._mean(x)[..., None])
            # a recall may exceed one by rounding
            return np.sign(share) * np.abs(share) ** (p - 1.0) / K
        dead = T <= TINY
        some_dead = dead.any(-1, keepdims=True)
        at_zero = np.nan
        if p < 0.0:
            at_zero = K ** (-1.0 / p) * dead / np.maximum(dead.sum(-1, keepdims=True), 1)
        safe = np.where(dead, 1.0, T)
        return np.where(some_dead, at_zero, (self._mean(safe)[..., None] / safe) ** (1.0 - p) / K)

    def _mean(self, x: Array) -> Array:
        K, p = x.shape[-1], self.exponent
        if p == 0.0:
            return np.asarray(np.exp(np.log(x).mean(-1)))
        if p < 0.0:
            return np.asarray((K / (x**p).sum(-1)) ** (-1.0 / p))
        return np.asarray((np.abs(x) ** p).sum(-1) ** (1.0 / p) / K ** (1.0 / p))

    def bound(self, weights: Array, heights: Array) -> Array:
        """Bound the mean where ``<w, T> <= h``, by the inequality of the two means.

        Geometric: ``K geomean(w) geomean(T) <= <w, T>``. Others, with 1/p + 1/q = 1: ``|w|_q |T|_p <= <w, T>`` (p < 1,
        Hoelder's inequality reversed; for p = -1 it is that of Cauchy and Schwarz), and of misses
        ``sum w - h <= <w, 1 - T> <= |w|_q |1 - T|_p``.
        """
        K, p = weights.shape[-1], self.exponent
        if p == 0.0:
            valid = np.asarray((weights > 0.0).all(axis=-1))
            logs = np.log(np.where(valid[..., None], weights, 1.0))
            return np.where(valid, heights / (K * np.exp(logs.mean(axis=-1))), np.inf)
        q = p / (p - 1.0)
        if self.of_misses:
            short = np.maximum(0.0, weights.sum(axis=-1) - heights)
            length = (np.abs(weights) ** q).sum(axis=-1) ** (1.0 / q) * K ** (1.0 / p)
            return np.asarray(1.0 - np.divide(short, length, out=np.zeros(np.shape(short)), where=length > 0))
        positive = weights > 0.0 if p > 0.0 else weights >= 0.0
        valid = np.asarray(positive.all(axis=-1) & weights.any(axis=-1))
        length = (np.where(valid[..., None], weights, 1.0) ** q).sum(axis=-1) ** (1.0 / q)
        return np.where(valid, heights * K ** (-1.0 / p) / length, np.inf)


@dataclass(frozen=True)
class MeanFormula(Formula):
    """A mean of the recalls as a formula, smoothed by ``rho`` as in the paper's Table 2 or in recall space."""

    mean: PowerMean

    def __call__(self, S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative", **_: Any) -> FirstOrder:
        """Return value and derivatives."""
        T, _slope = _recalls(S, rho, smoothing, numerator_too=not self.mean.of_misses)
        value, partial = self.mean.value(T), self.mean.partial(T)
        return _through_recalls(S, value, partial, rho, smoothing, numerator_too=not self.mean.of_misses)

    def values(self, S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative", **_: Any) -> Array:
        """Return the values alone."""
        return self.mean.value(_recalls(S, rho, smoothing, numerator_too=not self.mean.of_misses)[0])


def mean_of_recalls(
    name: str, mean: PowerMean, description: str = "", *, title: str = "", scheduled: bool = False
) -> Metric:
    """Return the metric of a power mean of the recalls.

    Parameters
    ----------
    name : str
        Name of the metric.
    mean : PowerMean
        The mean.
    description, title : str
        The metric in words, and its name in prose.
    scheduled : bool
        Whether `confmax.theory` has a schedule for its smoothing.

    Examples
    --------
    >>> from confmax.metrics.recalls import PowerMean, mean_of_recalls
    >>> round(mean_of_recalls("cautious_mean", PowerMean(-2.0)).value([[40, 10], [20, 30]]), 6)
    0.678823
    """
    return Metric(
        name,
        MeanFormula(mean),
        Concave(recall_mean=mean, scheduled=scheduled, smoother="rho"),
        "diagonal",
        (("rho", 0.0), ("smoothing", "relative")),
        divides_by_prior=True,
        description=description,
        title=title,
    )


# --- the smallest ----------------------------------------------------------------------------------------------------


def smallest(T: Array, rho: float) -> tuple[Array, Array]:
    """Return the smallest of ``T`` (..., K) with its derivatives; a supergradient where several are smallest.

    With ``rho > 0`` it is the soft minimum ``-rho log mean exp(-T / rho)``, within ``rho log K`` above the smallest.
    """
    low = T.min(-1, keepdims=True)
    if rho == 0.0:
        partial = (low == T).astype(np.float64)
        partial /= partial.sum(-1, keepdims=True)
        return low[..., 0], partial
    partial = np.exp((low - T) / rho)
    total = partial.sum(-1, keepdims=True)
    return (low - rho * np.log(total / T.shape[-1]))[..., 0], partial / total


def min_recall(S: Confusion, *, rho: float = 0.0) -> FirstOrder:
    """Smallest recall, or with ``rho > 0`` its soft minimum."""
    T, _ = _recalls(S, 0.0, "relative", numerator_too=True)
    value, partial = smallest(T, rho)
    return _through_recalls(S, value, partial, 0.0, "relative")


def recalls_of(rows: Array) -> DiagonalFunctions:
    """Return the recalls as linear functions at row sums ``rows`` (K,)."""
    return DiagonalFunctions(np.where(rows > ABSENT, rows, 1.0))


# --- the catalogue ----------------------------------------------------------------------------------------------------

METRICS = (
    Metric("accuracy", accuracy, Linear(), "diagonal", description="share of correct decisions"),
    Metric("balanced_accuracy", balanced_accuracy, Linear(), "diagonal", divides_by_prior=True,
           description="mean recall"),
    Metric("informedness", balanced_accuracy, Linear(), "diagonal", (("adjusted", True),), divides_by_prior=True,
           fixed=("adjusted",), description="mean recall, rescaled so that chance is 0 (Youden)"),
    mean_of_recalls("h_mean", PowerMean(-1.0), "harmonic mean of the recalls", title="H-mean", scheduled=True),
    mean_of_recalls("q_mean", PowerMean(2.0, of_misses=True), "one minus the root mean square of 1 - recall",
                    title="Q-mean", scheduled=True),
    mean_of_recalls("g_mean", PowerMean(0.0), "geometric mean of the recalls", title="G-mean", scheduled=True),
    Metric("min_recall", min_recall, MinOfLinear(recalls_of, smoother="rho"), "diagonal", (("rho", 0.0),),
           divides_by_prior=True, title="smallest recall", description="smallest recall"),
)  # fmt: skip
