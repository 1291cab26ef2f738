"""Metrics of the recalls ``T = D / r``: means with their bounds, the smallest one, and linear ones.

A mean of the recalls is added in one place, as a row of `METRICS` that calls `mean_of_recalls`: its formula, the
bound from an answer to any gain and the slopes that its compiled master problem takes follow from its exponent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from confmax.confusion import ABSENT, Array, Confusion
from confmax.metrics.first_order import FirstOrder, Formula, Function, both_recalls, reciprocal, safe_ratio
from confmax.metrics.metric import ZERO_TO_ONE, Metric
from confmax.metrics.shares import ACCURACY
from confmax.metrics.structure import Concave, DiagonalFunctions, Linear, MinOfLinear, PowerMean

Smoothing = Literal["relative", "additive"]
LEAST_STEP = 1e-12  # to which the best step on a segment is found


def _recalls(S: Confusion, rho: float, smoothing: Smoothing, *, numerator_too: bool) -> tuple[Array, Array]:
    """Return the (smoothed) recalls T and dT/dD; dT/dr is ``-T dT/dD`` (relative smoothing: ``-(T-T(0)) dT/dD``)."""
    if rho == 0.0:
        return safe_ratio(S.diagonal, S.rows), reciprocal(S.rows)
    shift = rho if numerator_too else 0.0
    if smoothing == "additive":
        slope = 1.0 / (S.rows + rho)
        return (S.diagonal + shift) * slope, slope
    # relative to each prior rho moves the recall of a rare class as little as that of a common one
    slope = reciprocal(S.rows) / (1.0 + rho)
    return S.diagonal * slope + shift / (1.0 + rho), slope


def _through_recalls(
    S: Confusion,
    mean: Callable[[Array], tuple[Array, Array]],
    rho: float = 0.0,
    smoothing: Smoothing = "relative",
    *,
    numerator_too: bool = True,
) -> FirstOrder:
    """Chain a ``mean`` of the recalls T, value and ``dvalue/dT`` (..., K), through the recalls."""
    T, slope = _recalls(S, rho, smoothing, numerator_too=numerator_too)
    value, by_recall = mean(T)
    moving = T if smoothing == "additive" or rho == 0.0 else S.diagonal * slope
    # an absent class has slope 0 (no smoothing): its gradient is set to zero
    rate = reciprocal(S.rows) if smoothing == "relative" else slope
    return FirstOrder(value, by_recall * slope, np.zeros_like(S.columns), -by_recall * moving * rate)


# --- linear ----------------------------------------------------------------------------------------------------------


def balanced_accuracy(S: Confusion, *, adjusted: bool = False) -> FirstOrder:
    """Mean recall; ``adjusted`` rescales it so that chance is 0: informedness, ``(K mean - 1) / (K - 1)``."""

    def mean(T: Array) -> tuple[Array, Array]:
        # the recalls of a rule that knows nothing sum to one
        chance = float(adjusted)
        n = T.shape[-1] - chance
        return (T.sum(-1) - chance) / n, np.full_like(T, 1.0 / n)

    return _through_recalls(S, mean)


def balanced_of_two(true: Array, hits: Array, decided: Array, *, adjusted: bool = False) -> Array:
    """Return `balanced_accuracy` of two classes by the numbers of the second."""
    rest, own = both_recalls(true, hits, decided)
    return rest + own - 1.0 if adjusted else (rest + own) / 2.0


BALANCED_ACCURACY = Function(balanced_accuracy, balanced_of_two)

# --- means -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeanFormula(Formula):
    """A mean of the recalls as a formula, smoothed by ``rho`` as in the paper's Table 2 or in recall space."""

    mean: PowerMean

    def __call__(self, S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative", **_: Any) -> FirstOrder:

        def mean(T: Array) -> tuple[Array, Array]:
            return self.mean.value(T), self.mean.partial(T)

        return _through_recalls(S, mean, rho, smoothing, numerator_too=not self.mean.of_misses)

    def values(self, S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative", **_: Any) -> Array:
        return self.mean.value(_recalls(S, rho, smoothing, numerator_too=not self.mean.of_misses)[0])

    def folded(self, true: Array, hits: Array, decided: Array, *, rho: float = 0.0, **params: Any) -> Array:
        if rho:
            return super().folded(true, hits, decided, rho=rho, **params)
        return self.mean.of_two(*both_recalls(true, hits, decided))


def mean_of_recalls(
    name: str, mean: PowerMean, description: str = "", *, scheduled: bool = False, **more: Any
) -> Metric:
    """Return the metric of a power mean of the recalls, with ``more`` attributes of it, such as its ``title``.

    If ``scheduled``, `confmax.theory` has its smoothing.

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
        range=ZERO_TO_ONE,
        **more,
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
    value, partial, total = _soft_minimum(T, low, rho)
    return value, partial / total


def _soft_minimum(T: Array, low: Array, rho: float) -> tuple[Array, Array, Array]:
    # differences from the smallest: no exponential overflows, however small rho is
    partial = np.exp((low - T) / rho)
    total = partial.sum(-1, keepdims=True)
    return (low - rho * np.log(total / T.shape[-1]))[..., 0], partial, total


def peak_of_soft_minimum(first: Array, change: Array, rho: float) -> float:
    """Return where the soft minimum of ``first + t change`` (K,), t in [0, 1], is largest.

    It is concave: Newton's steps on its derivative, the mean of ``change`` by the weights of the soft minimum, stay
    between two points at which the signs differ.
    """

    def slopes(t: float) -> tuple[float, float]:
        at = first + t * change
        weights = np.exp((at.min() - at) / rho)
        weights /= weights.sum()
        mean = float(weights @ change)
        return mean, -float(weights @ (change - mean) ** 2) / rho

    low = 0.0
    high = 1.0
    if slopes(low)[0] <= 0.0:
        return low
    if slopes(high)[0] >= 0.0:
        return high
    t = 0.5
    while high - low > LEAST_STEP:
        slope, curvature = slopes(t)
        low, high = (t, high) if slope > 0.0 else (low, t)
        newton = t - slope / curvature if curvature < 0.0 else low
        following = newton if low < newton < high else 0.5 * (low + high)
        if abs(following - t) <= LEAST_STEP:
            return following
        t = following
    return t


@dataclass(frozen=True)
class SmallestFormula(Formula):
    """The smallest recall as a formula, or with ``rho > 0`` its soft minimum."""

    smallest_of: ClassVar[str | None] = "recall"

    def __call__(self, S: Confusion, *, rho: float = 0.0, **_: Any) -> FirstOrder:
        return _through_recalls(S, partial(smallest, rho=rho))

    def values(self, S: Confusion, *, rho: float = 0.0, **_: Any) -> Array:
        # the search on labels compares thousands of single values, and derivatives take twice their time
        T = safe_ratio(S.diagonal, S.rows)
        return T.min(-1) if rho == 0.0 else _soft_minimum(T, T.min(-1, keepdims=True), rho)[0]

    def best_step(self, C: Confusion, V: Confusion, *, rho: float = 0.0, **_: Any) -> float | None:
        """Return the step from ``C`` toward ``V`` at which the derivative of the soft minimum is zero."""
        if rho == 0.0:
            return None
        first, last = (safe_ratio(S.diagonal, S.rows) for S in (C, V))
        return peak_of_soft_minimum(first, last - first, rho)


def recalls_of(rows: Array) -> DiagonalFunctions:
    """Return the recalls as linear functions at row sums ``rows`` (K,)."""
    return DiagonalFunctions(np.where(rows > ABSENT, rows, 1.0))


# --- the catalogue ----------------------------------------------------------------------------------------------------

METRICS = (
    Metric(
        "accuracy",
        ACCURACY,
        Linear(),
        "diagonal",
        description="share of correct decisions",
        range=ZERO_TO_ONE,
        # over all classes of a single-label problem each micro average is the accuracy
        aliases=("f1_micro", "precision_micro", "recall_micro", "recall_weighted"),
        synonyms=(
            *("acc", "exact_match", "exact_match_ratio", "subset_accuracy", "micro_precision", "micro_recall"),
            "weighted_recall",
        ),
    ),
    Metric(
        "balanced_accuracy",
        BALANCED_ACCURACY,
        Linear(),
        "diagonal",
        divides_by_prior=True,
        description="mean recall",
        range=ZERO_TO_ONE,
        aliases=("recall_macro",),
        synonyms=("macro_recall", "mean_recall", "uar", "bacc"),
    ),
    Metric(
        "informedness",
        BALANCED_ACCURACY,
        Linear(),
        "diagonal",
        (("adjusted", True),),
        divides_by_prior=True,
        fixed=("adjusted",),
        range=(-1.0, 1.0),
        description="mean recall, rescaled so that chance is 0 (Youden)",
        synonyms=("youden", "youden_j", "youden_index", "j", "j_statistic", "tss"),
    ),
    mean_of_recalls(
        "h_mean", PowerMean(-1.0), "harmonic mean of the recalls", title="H-mean", scheduled=True, synonyms=("hmean",)
    ),
    mean_of_recalls(
        "q_mean",
        PowerMean(2.0, of_misses=True),
        "one minus the root mean square of 1 - recall",
        title="Q-mean",
        scheduled=True,
    ),
    mean_of_recalls(
        "g_mean",
        PowerMean(0.0),
        "geometric mean of the recalls",
        title="G-mean",
        scheduled=True,
        synonyms=("gmean", "geometric_mean"),
    ),
    Metric(
        "min_recall",
        SmallestFormula(),
        MinOfLinear(recalls_of, smoother="rho"),
        "diagonal",
        (("rho", 0.0),),
        divides_by_prior=True,
        title="smallest recall",
        description="smallest recall",
        synonyms=("worst_recall", "worst_class_recall", "minimum_recall"),
        range=ZERO_TO_ONE,
    ),
)
