"""What is known about a metric's shape over the confusion matrices with the same row sums, and its refutation.

A structure is an object that carries what it knows: bounds, numerators and denominators, the mean behind a metric of
the recalls. Solvers ask the object, and `confmax.optimize.auto` chooses the solver by its type. For means and minima of
the recalls, an exact answer ``h = max <w, T>`` to any weights bounds the metric, so that gradients of a smoothed metric
give certificates of the metric itself. `tests/test_certificates.py` holds every bound against all rules of small
populations. A random segment of confusion matrices cannot prove a structure; it refutes a wrong one, because structures
are statements about segments.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics.first_order import TINY, safe_ratio
from confmax.metrics.ratios import Ratios, placed

Statistics = Literal["diagonal", "columns", "matrix"]

STEPS = np.linspace(0.0, 1.0, 33)
INSIDE = 1e-6  # recalls at which a tangent of a mean is taken lie so far from zero and one
ROUNDED = 1e-12  # of the largest weight, below zero: it counts as zero
DEPENDENT = 1e-9  # relative error up to which a gain counts as a combination of linear functions


@dataclass(frozen=True)
class PowerMean:
    """The power mean of the recalls T, or (``of_misses``) one minus the power mean of what they miss, ``1 - M(1 - T)``.

    It is an increasing function of ``sum_k phi(T_k)``, where phi is concave and ``phi'(t)`` is ``t^(exponent - 1)``, or
    ``(1 - t)^(exponent - 1)`` of misses. The harmonic mean has the exponent -1, the geometric mean 0; the Q-mean is
    that of misses with the exponent 2. The exponent is below 1, of misses above 1: the mean is then concave, and not
    linear.
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
            return 1.0 - power_mean(1.0 - T, self.exponent)
        if self.exponent > 0.0:
            return power_mean(T, self.exponent)
        # logarithms and negative powers of zero are infinite, and the means are zero there
        alive = np.asarray(T.min(-1) > TINY)
        safe = T if alive.all() else np.where(T > TINY, T, 1.0)
        return np.where(alive, power_mean(safe, self.exponent), 0.0)

    def of_two(self, one: Array, other: Array) -> Array:
        """Return the mean (...) of two recalls (...), of a geometric or harmonic one without logarithms or powers."""
        if self.of_misses or self.exponent not in (0.0, -1.0):
            return self.value(np.stack([one, other], axis=-1))
        both = one * other
        return np.sqrt(both) if self.exponent == 0.0 else safe_ratio(2.0 * both, one + other)

    def partial(self, T: Array) -> Array:
        """Return the derivatives (..., K) of `value`.

        Where there is none: NaN if the slope is infinite (geometric mean at a recall of zero), else a supergradient:
        the mean of those of the recalls that vanish, or zero at the perfect classifier.
        """
        K = T.shape[-1]
        p = self.exponent
        if self.of_misses:
            x = 1.0 - T
            share = safe_ratio(x, power_mean(x, self.exponent)[..., None])
            # a recall may exceed one by rounding
            return np.sign(share) * np.abs(share) ** (p - 1.0) / K
        dead = T <= TINY
        some_dead = dead.any(-1, keepdims=True)
        at_zero = np.nan
        if p < 0.0:
            at_zero = K ** (-1.0 / p) * dead / np.maximum(dead.sum(-1, keepdims=True), 1)
        safe = np.where(dead, 1.0, T)
        return np.where(some_dead, at_zero, (power_mean(safe, self.exponent)[..., None] / safe) ** (1.0 - p) / K)

    def tangent(self, T: Array) -> tuple[Array, Array]:
        """Return recalls near ``T`` (K,) that lie inside of the unit cube, and the derivatives (K,) there."""
        at = np.clip(T, INSIDE, 1.0 - INSIDE)
        return at, self.partial(at)

    def slope(self, T: Array) -> Array:
        """Return ``phi'`` at recalls ``T``."""
        return np.asarray((1.0 - T if self.of_misses else T) ** (self.exponent - 1.0))

    def inverse(self, slopes: Array) -> tuple[Array, float]:
        """Return the recalls, or of misses what they miss, where ``phi'`` is ``slopes``, and the power that this is."""
        power = 1.0 / (self.exponent - 1.0)
        return np.asarray(slopes**power), power

    def bound(self, weights: Array, heights: Array) -> Array:
        """Bound the mean where ``<w, T> <= h``, by the inequality of the two means.

        With 1/p + 1/q = 1: ``K M_q(w) M_p(T) <= <w, T>`` (p < 1, Hoelder's inequality reversed; for p = -1 it is that
        of Cauchy and Schwarz, for p = q = 0 that of the geometric and the arithmetic mean), and of misses
        ``sum w - h <= <w, 1 - T> <= K M_q(w) M_p(1 - T)``.
        """
        K = weights.shape[-1]
        p = self.exponent
        q = p / (p - 1.0)
        if self.of_misses:
            short = np.maximum(0.0, weights.sum(axis=-1) - heights)
            length = K * power_mean(weights, q)
            return np.asarray(1.0 - np.divide(short, length, out=np.zeros(np.shape(short)), where=length > 0))
        positive = weights > 0.0 if p >= 0.0 else weights >= 0.0
        # under a negative weight the other recalls may grow with that of its class, so nothing is bounded
        valid = np.asarray(positive.all(axis=-1) & weights.any(axis=-1))
        return np.where(valid, heights / (K * power_mean(np.where(valid[..., None], weights, 1.0), q)), np.inf)


def power_mean(x: Array, p: float) -> Array:
    """Return ``(mean |x|^p)^(1/p)`` (...) of ``x`` (..., K), the geometric mean for p = 0."""
    K = x.shape[-1]
    if p == 0.0:
        return np.asarray(np.exp(np.log(x).mean(-1)))
    if p < 0.0:
        return np.asarray((K / (x**p).sum(-1)) ** (-1.0 / p))
    return np.asarray((np.abs(x) ** p).sum(-1) ** (1.0 / p) / K ** (1.0 / p))


@dataclass(frozen=True, eq=False)
class DiagonalFunctions:
    """One function per class, ``C[k, k] / scales_k``: the recalls, and their multiples.

    They take K numbers, where K gains would take K^2. ``scales`` (S,) are positive denominators at the given row sums;
    ``classes`` are the columns of the S classes in a table of ``n_classes`` (None: all, in their order).
    """

    scales: Array
    classes: tuple[int, ...] | None = None
    n_classes: int = 0
    constants: ClassVar[None] = None
    statistics: ClassVar[Statistics] = "diagonal"

    def __len__(self) -> int:
        return len(self.scales)

    def values(self, S: Confusion) -> Array:
        """Return the values (..., S) at a batch of confusions (...)."""
        return np.asarray(S.diagonal[..., self._index] / self.scales)

    def combined(self, weights: Array) -> Gains:
        """Return the gains (B) of the sums of the functions with ``weights`` (B, S)."""
        a = np.zeros((len(weights), self.n_classes or len(self.scales)))
        a[:, self._index] = weights / self.scales
        return Gains.reduced(a)

    def weights(self, gains: Gains) -> Array:
        """Return the weights (B, S) whose sums of the functions are ``gains`` (B), which have no offsets."""
        return np.asarray(gains.pair()[0][:, self._index] * self.scales)

    def bounds(self, gains: Gains, heights: Array) -> Array:
        """Return ``heights / sum weights`` (B,): ``min T sum w <= <w, T> <= h``."""
        total = self.weights(gains).sum(axis=-1)
        return np.divide(heights, total, out=np.full(len(total), np.inf), where=total > 0.0)

    def placed(self, classes: tuple[int, ...], n_classes: int, n_decisions: int) -> DiagonalFunctions:
        """Return the same functions, whose classes are ``classes`` of a table of K columns, over the whole table."""
        return replace(self, classes=classes, n_classes=n_classes)

    @property
    def _index(self) -> Any:
        return slice(None) if self.classes is None else list(self.classes)


@dataclass(frozen=True)
class MeanFloor:
    """A floor on a mean of the recalls, which plus one are some ``rows`` of the functions of limits."""

    rows: slice
    mean: PowerMean
    floor: float


@dataclass(frozen=True, eq=False)
class AffineFunctions:
    """Any functions ``<Q_u, C> + constants_u``: S matrices Q_u in ``gains``, and ``constants`` (S,), None for zeros.

    ``parts`` are the same functions, one after another, some of which are reduced; or none. Their values are those of
    the metrics that they come from: in float32 the columns of a matrix do not add up to how often they are decided.
    """

    gains: Gains
    constants: Array | None = None
    parts: tuple[AffineFunctions, ...] = ()

    @property
    def statistics(self) -> Statistics:
        """The whole matrix, if the gains are not reduced."""
        return "columns" if self._is_reduced else "matrix"

    def __len__(self) -> int:
        return len(self.gains)

    def values(self, S: Confusion) -> Array:
        """Return the values (..., S) at a batch of confusions (...)."""
        if self.parts:
            return np.concatenate([part.values(S) for part in self.parts], axis=-1)
        if self._is_reduced:
            a, b = self.gains.pair()
            return np.asarray(S.diagonal @ a.T + S.columns @ b.T + self._constants)
        assert S.matrix is not None
        return np.asarray(np.tensordot(S.matrix, self.gains.matrices(), axes=((-2, -1), (1, 2))) + self._constants)

    def combined(self, weights: Array) -> Gains:
        """Return the gains (B) of the sums of the functions with ``weights`` (B, S)."""
        if self._is_reduced:
            a, b = self.gains.pair()
            return Gains.reduced(weights @ a, weights @ b)
        return Gains.from_matrix(np.tensordot(weights, self.gains.matrices(), axes=1))

    def weights(self, gains: Gains) -> Array:
        """Return the weights (B, S), not negative, whose sums of the functions come nearest to ``gains`` (B)."""
        system, wanted = (each.matrices().reshape(len(each), -1).T for each in (self.gains, gains))
        found = np.linalg.lstsq(system, wanted, rcond=None)[0].T
        below = found.min(axis=1) < -ROUNDED * np.abs(found).max(axis=1)
        found = np.maximum(found, 0.0)
        for k in np.flatnonzero(below):
            # scipy.optimize takes longer to import than confmax
            from scipy.optimize import nnls

            # SciPy 1.12 gives up on some of these systems, and what is near enough serves as well
            with suppress(RuntimeError):
                found[k] = nnls(system, wanted[:, k])[0]
        return found

    def bounds(self, gains: Gains, heights: Array) -> Array:
        """Return upper bounds (B,) as for the recalls; inf for gains that are no sums of the functions."""
        weights = self.weights(gains)
        target = gains.matrices()
        # a gain that is no sum of the functions says nothing of their minimum
        error = np.abs(self.combined(weights).matrices() - target).max(axis=(-2, -1))
        total = weights.sum(axis=-1)
        known = (total > 0.0) & (error <= DEPENDENT * np.abs(target).max(axis=(-2, -1)))
        return np.divide(heights + weights @ self._constants, total, out=np.full(len(total), np.inf), where=known)

    def placed(self, classes: tuple[int, ...], n_classes: int, n_decisions: int) -> AffineFunctions:
        """Return the same functions, whose classes are ``classes`` of a table of K columns, over the whole table."""
        return replace(self, gains=placed(self.gains, classes, n_classes, n_decisions))

    @property
    def _is_reduced(self) -> bool:
        return self.gains.full is None and not self.gains.power

    @property
    def _constants(self) -> Array:
        return np.zeros(len(self.gains)) if self.constants is None else self.constants


# S linear functions of the confusion matrix, whose smallest one is a metric
LinearFunctions = DiagonalFunctions | AffineFunctions


def affine(functions: LinearFunctions | None) -> tuple[Gains, Array]:
    """Return the gains (S) and the constants (S,) of linear functions."""
    assert functions is not None
    gains = functions.combined(np.eye(len(functions)))
    return gains, np.zeros(len(gains)) if functions.constants is None else functions.constants


@dataclass(frozen=True, eq=False)
class Structure:
    """A declared shape. The kinds below are final, and each has the ``name`` by which users declare and read it.

    A structure equals the word that is its name, as a word stood in its place in earlier versions.
    """

    name: ClassVar[str]
    is_linear: ClassVar[bool] = False
    is_ratio: ClassVar[bool] = False  # of affine functions, of a linear one over one
    is_concave: ClassVar[bool] = False
    is_minimum: ClassVar[bool] = False  # of linear functions
    may_draw: ClassVar[bool] = False  # whether a rule that draws can be better than every single rule

    # the parameter of the metric that makes it differentiable everywhere
    smoother: str | None = field(default=None, kw_only=True)
    # whether the conditional gradient follows it by a smoothing that falls from round to round
    hardens: bool = field(default=False, kw_only=True)
    # whether the paper has a schedule for its smoothing (Table 2 and Corollary 13)
    scheduled: bool = field(default=False, kw_only=True)
    # maps row sums (K,) and the metric's parameters to the ratios that it sums, if they are known: the one of a ratio
    # bounds it, and the separate maxima of several bound their sum
    fractions: Callable[..., Ratios] | None = field(default=None, kw_only=True)
    # the mean of the recalls that the metric is: an answer to any gain then bounds it
    recall_mean: PowerMean | None = field(default=None, kw_only=True)
    # maps row sums (K,) to the linear functions of which it is a smooth one (`confmax.metrics.curved`), where it is
    # neither concave nor a sum of ratios
    climb: Callable[..., Any] | None = field(default=None, kw_only=True)

    def smoothed(self) -> Structure:
        """Return the structure of the metric with a positive smoothing parameter."""
        return self

    # a structure holds arrays and functions: two are equal if they know the same, also after pickling
    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.name == other
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Linear(Structure):
    """A linear function: one plug-in step maximises it.

    ``gain`` (K, M) is the matrix of a metric that is a table, and ``is_cost`` says that it is minus a table of costs.
    """

    name: ClassVar[str] = "linear"
    is_linear: ClassVar[bool] = True
    is_ratio: ClassVar[bool] = True
    is_concave: ClassVar[bool] = True

    gain: tuple[tuple[float, ...], ...] | None = None
    is_cost: bool = False


@dataclass(frozen=True, eq=False)
class Ratio(Structure):
    """A ratio of affine functions at fixed row sums: Dinkelbach's method maximises it."""

    name: ClassVar[str] = "ratio"
    is_ratio: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Concave(Structure):
    """A concave function: the gradient at any point bounds it, and the best rule may draw."""

    name: ClassVar[str] = "concave"
    is_concave: ClassVar[bool] = True
    may_draw: ClassVar[bool] = True

    def smoothed(self) -> Structure:
        """Return what holds of a smoothed mean: the bounds and the master problem of the mean itself do not."""
        return replace(self, recall_mean=None)


@dataclass(frozen=True, eq=False)
class MinOfLinear(Structure):
    """The smallest of linear functions: a linear program mixes rules, and its dual is the next gain.

    ``functions`` maps row sums (K,) to the functions: `DiagonalFunctions` for multiples of the recalls, else
    `AffineFunctions`, or plain `Gains`.

    >>> import confmax, numpy as np
    >>> from confmax.metrics.structure import DiagonalFunctions, MinOfLinear
    >>> weights = np.array([1.0, 0.5])
    >>> metric = confmax.metrics.from_function(
    ...     lambda C: np.min(weights * np.diag(C) / C.sum(axis=1)),
    ...     structure=MinOfLinear(lambda priors: DiagonalFunctions(priors / weights)), n_classes=2)
    >>> metric.value([[40, 10], [20, 30]])
    0.3
    """

    name: ClassVar[str] = "concave"
    is_concave: ClassVar[bool] = True
    is_minimum: ClassVar[bool] = True
    may_draw: ClassVar[bool] = True

    functions: Callable[[Array], Gains | LinearFunctions]
    # it has no gradient where two functions are smallest, and the soft minimum has one
    hardens: bool = field(default=True, kw_only=True)

    def at(self, rows: Array) -> LinearFunctions:
        """Return the functions at row sums ``rows`` (K,)."""
        functions = self.functions(rows)
        return AffineFunctions(functions) if isinstance(functions, Gains) else functions

    def smoothed(self) -> Structure:
        """Return what holds of the soft minimum, which is smooth."""
        return Concave(hardens=True, smoother=self.smoother)


@dataclass(frozen=True, eq=False)
class Quasiconvex(Structure):
    """Largest at an end of every segment: some deterministic rule is optimal. ``floor`` names what keeps it finite."""

    name: ClassVar[str] = "quasiconvex"

    floor: str | None = None


@dataclass(frozen=True, eq=False)
class General(Structure):
    """Nothing is known, except for sums of ratios the ratios, and for other functions what they are made of."""

    name: ClassVar[str] = "general"
    may_draw: ClassVar[bool] = True


# the structures that a word declares, which know nothing but their shape
BY_WORD: dict[str, Structure] = {kind.name: kind() for kind in (Linear, Ratio, Concave, Quasiconvex, General)}


def random_rows(rng: np.random.Generator, n_classes: int) -> Array:
    """Return random row sums (K,) that sum to one, none of them tiny."""
    return rng.dirichlet(np.full(n_classes, 2.0)) * 0.9 + 0.1 / n_classes


def random_confusion(rng: np.random.Generator, rows: Array, n_decisions: int) -> Array:
    """Return a random confusion matrix (K, M) with the given row sums, better than chance on average.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the numbers come from.
    rows : ndarray (K,)
        Row sums.
    n_decisions : int
        M.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax.checks import random_confusion
    >>> random_confusion(np.random.default_rng(0), np.array([0.7, 0.3]), 2).sum(axis=1).round(12).tolist()
    [0.7, 0.3]
    """
    K = len(rows)
    spread = rng.dirichlet(np.ones(n_decisions), size=K)
    return (0.6 * spread + 0.4 * np.eye(K, n_decisions)) * rows[:, None]


def refutation(values: Array, structure: str) -> str | None:
    """Return in words how values (33,) at `STEPS` along a segment contradict a structure, None where they do not.

    The segment is ``(1 - t) A + t B``; A and B have the same row sums.

    >>> refutation(STEPS**2, "concave")
    'at 3% of the way it is 0.000976562, below the mean of the values beside it, 0.00195312'
    """
    low = min(values[0], values[-1])
    high = max(values[0], values[-1])
    # 33 values of a function are rounded by more than one of them
    slack = 1e-10 * max(1.0, float(np.abs(values).max()))
    middle = (values[:-2] + values[2:]) / 2
    inner = values[1:-1]
    ends = "both ends"
    beside = "the mean of the values beside it"
    above = (inner - high, "above", np.full(len(inner), high), ends)
    below = (low - inner, "below", np.full(len(inner), low), ends)
    sags = (2 * (middle - inner), "below", middle, beside)
    bulges = (2 * (inner - middle), "above", middle, beside)
    wrong = {"linear": (sags, bulges), "concave": (sags,), "ratio": (above, below), "quasiconvex": (above,)}
    # a linear function over a root has convex sublevel sets for levels that are not negative only, as the MCC
    tested = wrong.get(structure, ()) if structure != "quasiconvex" or low >= 0 else ()
    for excess, side, limits, what in tested:
        if excess.max() > slack:
            # the first place where the contradiction is plain, so that rounding decides nothing in the sentence
            k = int(np.argmax(excess >= 0.5 * excess.max()))
            return f"at {STEPS[k + 1]:.0%} of the way it is {inner[k]:.6g}, {side} {what}, {limits[k]:.6g}"
    return None
