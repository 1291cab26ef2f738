"""Independent witnesses: rules, confusions and optima by enumeration, and labels rebuilt from counts."""

import itertools
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.optimize import linprog

from confmax import kernels, metrics
from confmax.confusion import Confusion

STATISTICS = ("rows", "diagonal", "columns", "matrix")
compiled = pytest.mark.skipif(kernels.native is None, reason="without the compiled module")
CONCAVE = {"g_mean", "h_mean", "q_mean"}  # and min_recall, whose corners stop an ascent


@contextmanager
def by_numpy():
    """Take the NumPy form of every operation, as where there was no compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "native", None)
        yield


def assert_same_statistics(found, expected, rtol=1e-12, atol=1e-15):
    """Assert that two confusions hold the same statistics, to rounding."""
    for name in STATISTICS:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol, err_msg=name)


def labels_drawn(P, rng):
    """Return labels (n,) drawn from the rows of P (n, K)."""
    return (rng.random(len(P))[:, None] > np.cumsum(P, axis=1)).sum(axis=1).clip(0, P.shape[1] - 1)


def simplex_grid(K, steps):
    """Return all rows (n, K) of whole numbers whose sum is ``steps``."""
    counts = [row for row in itertools.product(range(steps + 1), repeat=K - 1) if sum(row) <= steps]
    return np.array([[*row, steps - sum(row)] for row in counts])


def labels_from_counts(counts):
    """Return y_true and y_pred whose confusion matrix is ``counts``."""
    pairs = [(i, j) for i, j in np.ndindex(*np.shape(counts)) for _ in range(counts[i][j])]
    true, decided = zip(*pairs, strict=True)
    return np.array(true), np.array(decided)


def confusion_of(truth, decisions, n_decisions):
    """Return C from per-row truth (n, K), already weighted, and decisions (n,): the definition, row by row."""
    C = np.zeros((truth.shape[1], n_decisions))
    for row, decision in zip(truth, decisions, strict=True):
        C[:, decision] += row
    return C


def all_deterministic_confusions(P, weight=None):
    """Return the confusions (M^n, K, K) of all deterministic rules on a population of n points."""
    n, K = P.shape
    w = np.full(n, 1 / n) if weight is None else np.asarray(weight) / np.sum(weight)
    truth = P * w[:, None]
    return np.array([confusion_of(truth, rule, K) for rule in itertools.product(range(K), repeat=n)])


def population(seed, n, K):
    """A small discrete population: n points with weights; every other one has exact ties."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), n)
    if seed % 2:
        P = np.round(P * 4) + 0.25
        P /= P.sum(1, keepdims=True)
    return P, rng.integers(1, 4, n).astype(float)


def hull_of(P, weight=None):
    """Return the confusions of all deterministic rules as one batch over common row sums.

    Their convex hull is what rules attain on a population with probabilities P (n, K).
    """
    C = all_deterministic_confusions(P, weight)
    return Confusion(C[0].sum(axis=1), np.diagonal(C, axis1=1, axis2=2), C.sum(axis=1), C)


def largest_minimum(values, slack=None):
    """Return the largest minimum of values (n, S) over mixtures of n rules that keep slacks (n, m): a program."""
    n, S = values.shape
    rows = np.hstack([-values.T, np.ones((S, 1))])
    if slack is not None:
        rows = np.vstack([rows, np.hstack([-slack.T, np.zeros((slack.shape[1], 1))])])
    result = linprog(
        np.append(np.zeros(n), -1.0), A_ub=rows, b_ub=np.zeros(len(rows)),
        A_eq=[np.append(np.ones(n), 0.0)], b_eq=[1.0], bounds=[(0, None)] * n + [(None, None)],
    )  # fmt: skip
    return -result.fun


def ascent(metric, hull, w, rounds):
    """Return the most that is reached from a mixture with weights w (B,): if concave, within 1e-6 of the optimum.

    Each round moves weight from the rule in the mixture that the gradient likes least to the rule that it likes most,
    as much as a search on ever finer grids finds best.
    """
    best = -np.inf
    for _ in range(rounds):
        first = metric.at(hull.mix(w))
        best = max(best, float(np.nan_to_num(first.value, nan=-np.inf)))
        gain = metric.gains(first)
        if not gain.is_finite:
            break
        score = gain.dot(hull)
        to, away = int(np.argmax(score)), int(np.argmin(np.where(w > 0, score, np.inf)))
        if score[to] - score @ w <= 1e-6:
            break
        direction = np.zeros(len(w))
        direction[to], direction[away] = 1.0, -1.0
        low, high = 0.0, w[away]
        for _ in range(4):
            steps = np.linspace(low, high, 13)
            values = metric.at(hull.mix(w + steps[:, None] * direction)).value
            k = int(np.argmax(np.nan_to_num(values, nan=-np.inf)))
            low, high = steps[max(k - 1, 0)], steps[min(k + 1, len(steps) - 1)]
        w = w + steps[k] * direction
    return best


def most_over_hull(metric, hull):
    """Return the largest value found over a hull: of the rules, by a linear program, or by ascent from mixtures.

    It is exact for metrics that one rule maximises, the smallest recall, and concave metrics; of others a lower bound.
    """
    best = float(np.nan_to_num(metric.at(hull).value, nan=-np.inf, posinf=np.inf).max())
    # the mixtures where these have at least some value are cut off by lines
    if metric.structure.is_ratio or metric.name == "fowlkes_mallows":
        return best
    if metric.name == "min_recall" and metric.classes is None and not dict(metric.params)["rho"]:
        return max(best, largest_minimum(hull.diagonal / hull.rows))
    # the rules that decide every row alike, in equal parts: every recall is positive, so that slopes are finite
    constant = np.isclose(hull.columns.max(axis=1), hull.rows.sum())
    if metric.name in CONCAVE:
        return max(best, ascent(metric, hull, constant / constant.sum(), 200))
    starts = [constant / constant.sum()]
    rng = np.random.default_rng(0)
    for _ in range(3):
        w = np.zeros(len(hull))
        w[rng.choice(len(hull), 6, replace=False)] = rng.dirichlet(np.ones(6))
        starts.append(w)
    return max(best, *(ascent(metric, hull, w, 30) for w in starts))


def balanced_columns(S):
    """Accuracy less the squared distance of decisions from classes, a concave metric of diagonal and columns."""
    off = S.columns - S.rows
    value = S.diagonal.sum(-1) - 2 * (off**2).sum(-1)
    return metrics.get("accuracy").formula(S)._replace(value=value, columns=-4 * off, rows=np.zeros_like(S.rows))


def entropy_like(C):
    """A concave function of the whole matrix: recalls count, and confusions between classes 0 and 2 hurt twice."""
    T = C / C.sum(axis=1, keepdims=True)
    return np.sqrt(np.diag(T) + 0.05).sum() - (T[0, 2] + T[2, 0]) ** 2


def entropy_gradient(C):
    rows = C.sum(axis=1, keepdims=True)
    T = C / rows
    slope = np.diag(0.5 / np.sqrt(np.diag(T) + 0.05))
    slope[0, 2] = slope[2, 0] = -2 * (T[0, 2] + T[2, 0])
    # the row sums are fixed: their derivative is a constant of each row
    return slope / rows


@contextmanager
def files_of_at_most(size):
    """Let writes beyond ``size`` bytes of a file fail in this process, as on a full disk.

    Python would write the beginning of modules that it compiles, too, and whoever imports them next would fail.
    """
    resource = pytest.importorskip("resource")
    before, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiled
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
