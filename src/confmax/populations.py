"""Populations with known class probabilities, for experiments with the theory.

A population computes ``eta(x)``, draws samples, and lists points with weights that represent it: its atoms if it is
finite, a fixed quasi-random grid if it is continuous. Every solver can run on the table of probabilities at these
points, with the model confusion. The conditional gradient on this table is the paper's Algorithm 3. The value of a
certified solver on it is the optimum from which regrets are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array
from confmax.tables import Table, checked_probabilities, make_table

PER_CLASS = 4096  # quadrature points per class of a continuous population


class Population(Protocol):
    """A distribution of (X, Y) with known class probabilities."""

    @property
    def priors(self) -> Array:
        """Class priors (K,)."""

    @property
    def satisfies_continuity(self) -> bool:
        """Whether eta(X) has a density on the simplex (the paper's Assumption A)."""

    def eta(self, X: ArrayLike) -> Array:
        """Return the class probabilities (n, K) at the points ``X`` (n, d)."""

    def sample(self, n: int, rng: np.random.Generator | int) -> tuple[Array, NDArray[np.int64]]:
        """Draw ``n`` points X (n, d) and their classes y (n,) with a generator or seed ``rng``."""

    def points(self, per_class: int = PER_CLASS) -> tuple[Array, Array]:
        """Return points (N, d) and weights (N,) representing the distribution of X, ``per_class`` per class."""

    def table(self, per_class: int = PER_CLASS) -> Table:
        """Return the table of eta at these points, ``per_class`` points per class, with their weights."""


@dataclass(frozen=True, eq=False)
class FinitePopulation:
    """A population of N points (atoms). All its results are exact.

    Parameters
    ----------
    proba : array-like (N, K)
        Class probabilities of each point.
    weight : array-like (N,) or None
        Probability of each point, in any unit. None means that all are equal.
    features : array-like (N, d) or None
        The points, all different. None means the numbers 0..N-1 as one feature.

    Raises
    ------
    ValueError
        If the shapes do not match, or the numbers are not probabilities.

    Examples
    --------
    >>> from confmax.populations import FinitePopulation
    >>> population = FinitePopulation([[0.9, 0.1], [0.4, 0.6]], weight=[3, 1])
    >>> population.priors.round(3).tolist()
    [0.775, 0.225]
    >>> population.eta([[1], [0]]).tolist()
    [[0.4, 0.6], [0.9, 0.1]]
    """

    proba: Array
    weight: Array
    features: Array

    # atoms have no density
    satisfies_continuity = False

    def __init__(self, proba: ArrayLike, weight: ArrayLike | None = None, features: ArrayLike | None = None) -> None:
        table = make_table(np.asarray(proba, dtype=np.float64), None, weight).head
        n = table.n_rows
        w = table.weights / table.weight_total
        X = np.arange(n, dtype=np.float64)[:, None] if features is None else _points(features)
        if len(X) != n or len(np.unique(X, axis=0)) != n:
            raise ValueError(f"features must hold {n} different points, one per row of proba; got shape {X.shape}")
        object.__setattr__(self, "proba", table.proba)
        object.__setattr__(self, "weight", w)
        object.__setattr__(self, "features", X)

    @property
    def priors(self) -> Array:
        """Class priors (K,), exact."""
        return self.weight @ self.proba

    def eta(self, X: ArrayLike) -> Array:
        """Return the class probabilities (n, K) at points X (n, d), which must be points of the population."""
        # equal numbers have equal hashes, so 0, 0.0 and -0.0 are the same point
        place = {tuple(point): row for row, point in enumerate(self.features.tolist())}
        found = np.array([place.get(tuple(point), -1) for point in _points(X, self.features.shape[1]).tolist()], int)
        if (found < 0).any():
            row = int(np.argmax(found < 0))
            raise ValueError(f"row {row} of X is not a point of the population; `features` holds its points")
        return self.proba[found]

    def sample(self, n: int, rng: np.random.Generator | int) -> tuple[Array, NDArray[np.int64]]:
        """Draw X (n, d) and y (n,) with a generator or a seed."""
        source = np.random.default_rng(rng)
        row = source.choice(len(self.weight), _size(n), p=self.weight)
        P = self.proba[row]
        # scaled by the sum: a row whose sum is below one by rounding must not draw a class beyond the last
        below = P.cumsum(axis=1) < source.random(len(P))[:, None] * P.sum(axis=1, keepdims=True)
        return self.features[row], np.asarray(below[:, :-1].sum(axis=1), dtype=np.int64)

    def points(self, per_class: int = PER_CLASS) -> tuple[Array, Array]:
        """Return all points (N, d) and their probabilities (N,)."""
        return self.features, self.weight

    def table(self, per_class: int = PER_CLASS) -> Table:
        """Return the population itself as a table."""
        return make_table(self.proba, None, self.weight)


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """A population of one Gaussian per class in d dimensions.

    Parameters
    ----------
    priors : array-like (K,)
        Class priors, all positive; they sum to one.
    means : array-like (K, d)
        Mean of each class.
    covariances : array-like (d, d) or (K, d, d) or None
        One covariance for all classes, or one per class. None means the identity, for which logistic regression is well
        specified.

    Raises
    ------
    ValueError
        If the shapes do not match, or a number is out of range.

    Examples
    --------
    >>> from confmax.populations import GaussianMixture
    >>> population = GaussianMixture([0.5, 0.5], [[-1.0], [1.0]])
    >>> population.eta([[0.0]]).tolist(), population.satisfies_continuity
    ([[0.5, 0.5]], True)
    """

    priors: Array
    means: Array
    covariances: Array

    def __init__(self, priors: ArrayLike, means: ArrayLike, covariances: ArrayLike | None = None) -> None:
        mu = _points(means)
        pi = np.asarray(priors, dtype=np.float64)
        K, d = mu.shape
        if K < 2 or pi.shape != (K,) or not (pi > 0).all() or not abs(pi.sum() - 1) <= 1e-9:
            raise ValueError(
                f"priors must be K >= 2 positive numbers that sum to one, one per row of means; got {pi.tolist()} for "
                f"means of shape {mu.shape}"
            )
        S = np.eye(d) if covariances is None else np.asarray(covariances, dtype=np.float64)
        if S.shape not in ((d, d), (K, d, d)) or not np.isfinite(S).all():
            raise ValueError(f"covariances must be finite and of shape {(d, d)} or {(K, d, d)}; got shape {S.shape}")
        S = np.broadcast_to(S, (K, d, d)).copy()
        if not np.allclose(S, S.transpose(0, 2, 1)) or np.linalg.eigvalsh(S).min() <= 0:
            raise ValueError("every covariance must be symmetric with positive eigenvalues")
        object.__setattr__(self, "priors", pi / pi.sum())
        object.__setattr__(self, "means", mu)
        object.__setattr__(self, "covariances", S)

    @property
    def satisfies_continuity(self) -> bool:
        """Whether the paper's Assumption A holds: the log ratios of the classes vary in K - 1 directions.

        The log ratios are polynomials in x. If their derivative has rank K - 1 at one point, it has this rank almost
        everywhere, and eta(X) has a density on the simplex. The assumption fails if there are too few dimensions, or if
        two classes have the same distribution.
        """
        K, d = self.means.shape
        x = self.means.mean(axis=0) + np.sqrt(np.arange(2.0, d + 2.0))  # a point in no special place
        slopes = -np.linalg.solve(self.covariances, (x - self.means)[:, :, None])[:, :, 0]
        return bool(np.linalg.matrix_rank(slopes[1:] - slopes[0]) == K - 1)

    def eta(self, X: ArrayLike) -> Array:
        """Return the class probabilities (n, K) at the points ``X`` (n, d)."""
        asked = _points(X, self.means.shape[1])
        lower = np.linalg.cholesky(self.covariances)
        score = np.empty((len(asked), len(self.priors)))
        for k, (mean, factor) in enumerate(zip(self.means, lower, strict=True)):
            z = np.linalg.solve(factor, (asked - mean).T)
            # in logarithms: far from all means every density would be zero in float64
            score[:, k] = np.log(self.priors[k]) - np.log(np.diag(factor)).sum() - 0.5 * (z * z).sum(axis=0)
        odds = np.exp(score - score.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def sample(self, n: int, rng: np.random.Generator | int) -> tuple[Array, NDArray[np.int64]]:
        """Draw X (n, d) and y (n,) with a generator or a seed."""
        source = np.random.default_rng(rng)
        y = source.choice(len(self.priors), _size(n), p=self.priors)
        z = source.standard_normal((n, self.means.shape[1]))
        lower = np.linalg.cholesky(self.covariances)
        return self.means[y] + np.einsum("nij,nj->ni", lower[y], z), y

    def points(self, per_class: int = PER_CLASS) -> tuple[Array, Array]:
        """Return a fixed quasi-random grid: ``per_class`` Sobol points (a power of two) of every class's Gaussian.

        The points of a class share its prior equally, so the grid covers rare classes as well as frequent ones.
        """
        from scipy.special import ndtri
        from scipy.stats import qmc  # heavy, and needed here only

        if not (isinstance(per_class, (int, np.integer)) and per_class >= 1 and per_class & (per_class - 1) == 0):
            raise ValueError(
                f"per_class must be a power of two, because the grid is a Sobol sequence; got {per_class!r}"
            )
        K, d = self.means.shape
        # the sequence begins at zero, where the quantile is infinite: points move to the middle of their cells
        unit = qmc.Sobol(d, scramble=False).random(per_class) + 0.5 / per_class
        z = ndtri(unit)
        lower = np.linalg.cholesky(self.covariances)
        X = np.concatenate([self.means[k] + z @ lower[k].T for k in range(K)])
        return X, np.repeat(self.priors / per_class, per_class)

    def table(self, per_class: int = PER_CLASS) -> Table:
        """Return eta at the weighted points as a table; sums over it equal integrals up to the grid's error."""
        X, weight = self.points(per_class)
        return make_table(self.eta(X), None, weight)


def population_confusion(
    population: Population, decide: Callable[[Array], ArrayLike], *, per_class: int = PER_CLASS
) -> Array:
    """Return the confusion matrix (K, M) of a rule on a population: ``C[i, j] = E eta_i(X) h_j(X)``.

    This is the paper's ``conf[h, D]`` (Section 2).

    Parameters
    ----------
    population : Population
        The population. The result is exact if it is finite, and otherwise has the error of its grid.
    decide : callable
        Maps points (N, d) to decision probabilities (N, M), for instance
        ``lambda X: rule.decision_probabilities(model.predict_proba(X))``.
    per_class : int
        Grid points per class of a continuous population.

    Raises
    ------
    ValueError
        If ``decide`` does not return one distribution per point.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax.populations import coin, population_confusion
    >>> population_confusion(coin(), lambda X: np.full((len(X), 2), 0.5)).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    X, weight = population.points(per_class)
    h = checked_probabilities(decide(X))
    if len(h) != len(X):
        raise ValueError(f"decide returned {len(h)} rows for {len(X)} points; return one distribution per point")
    return (population.eta(X) * weight[:, None]).T @ h


def eta_error(population: Population, model: Any, *, per_class: int = PER_CLASS) -> float:
    """Return the error of a model's probabilities, ``E |eta_hat(X) - eta(X)|_1``, from 0 to 2.

    The paper's regret bounds depend on this error (Lemma 8, Theorem 10). Pass it to
    `confmax.theory.linear_regret_bound` and the other bounds.

    Parameters
    ----------
    population : Population
        The population, with classes 0..K-1. The result is exact if it is finite, and otherwise has the error of its
        grid.
    model : classifier or callable
        A classifier with ``predict_proba``, or a function from points (N, d) to probabilities (N, K). If the classifier
        has ``classes_``, they must be among 0..K-1; a class that it lacks has probability zero.
    per_class : int
        Grid points per class of a continuous population.

    Raises
    ------
    ValueError
        If the model does not return K probabilities per point, or has other classes.

    Examples
    --------
    >>> from confmax.populations import coin, eta_error
    >>> round(eta_error(coin(), lambda X: [[0.4, 0.6]] * len(X)), 6)
    0.2
    """
    X, weight = population.points(per_class)
    eta = population.eta(X)
    n, K = eta.shape
    predict: Callable[[Array], ArrayLike] = getattr(model, "predict_proba", model)
    given = np.asarray(predict(X), dtype=np.float64)
    classes = np.asarray(getattr(model, "classes_", np.arange(K)))
    if not set(classes.tolist()) <= set(range(K)):
        raise ValueError(f"the population's classes are 0..{K - 1}, but the model has {classes.tolist()[:8]}")
    if given.shape != (n, len(classes)):
        raise ValueError(
            f"the model returned an array of shape {given.shape} for {n} points; return one probability per class, "
            f"shape ({n}, {len(classes)})"
        )
    estimate = np.zeros((n, K))
    # a classifier has no column for a class that it was not fitted on
    estimate[:, classes.astype(np.intp)] = checked_probabilities(given)
    return float(weight @ np.abs(estimate - eta).sum(axis=1) / weight.sum())


def continuous_example() -> GaussianMixture:
    """Return a population of three classes, with priors .6, .3 and .1, that satisfies the paper's Assumption A.

    The classes are unit Gaussians in the plane.

    Examples
    --------
    >>> from confmax.populations import continuous_example
    >>> continuous_example().priors.round(6).tolist()
    [0.6, 0.3, 0.1]
    """
    return GaussianMixture([0.6, 0.3, 0.1], [[0.0, 0.0], [1.5, 0.0], [0.5, 1.5]])


def atoms_example() -> FinitePopulation:
    """Return a population of three classes on three points that violates Assumption A, which Theorem 2 needs.

    The best mixture exceeds the best deterministic rule by .09 in the Q-mean, and by more in the H- and G-mean. The
    points are unit vectors, so that a linear model can learn eta exactly.

    Examples
    --------
    >>> from confmax.populations import atoms_example
    >>> atoms_example().satisfies_continuity
    False
    """
    return FinitePopulation([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.7, 0.1, 0.2]], [0.2, 0.6, 0.2], np.eye(3))


def coin() -> FinitePopulation:
    """Return the population of the paper's remark: one point, ``eta = (1/2, 1/2)``.

    The optimal H-mean is 1/2 and needs a random decision. Every deterministic rule has an H-mean of 0.

    Examples
    --------
    >>> from confmax.populations import coin
    >>> coin().eta([[0]]).tolist()
    [[0.5, 0.5]]
    """
    return FinitePopulation([[0.5, 0.5]])


def _points(X: ArrayLike, width: int | None = None) -> Array:
    """Return points as finite floats (n, d)."""
    found = np.asarray(X, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] == 0 or (width is not None and found.shape[1] != width):
        shape = "(n, d)" if width is None else f"(n, {width})"
        raise ValueError(f"points must have shape {shape}, one point per row; got shape {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError("points must be finite numbers")
    return found


def _size(n: int) -> int:
    if not (isinstance(n, (int, np.integer)) and n >= 1):
        raise ValueError(f"n must be an integer of at least 1; got {n!r}")
    return int(n)
