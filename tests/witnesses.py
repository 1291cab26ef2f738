"""Independent optima of tiny populations: what tests compare confmax with, written from definitions."""

import itertools

import numpy as np
from scipy import fft, stats
from scipy.optimize import linprog, minimize_scalar

from benchmarks.harness import solve
from confmax.confusion import Confusion

TIES = 1e-12
DRAWS, STEPS = 300, np.linspace(0.0, 1.0, 17)


# --- draws ------------------------------------------------------------------------------------------------------------


def serial_failures(values, lags=64, level=1e-6):
    """Return how many of the serial correlations of values (n,) at lags 1 to ``lags`` differ from zero at a level."""
    n = len(values)
    x = values - np.mean(values)
    if not x.any():
        return lags
    size = fft.next_fast_len(n + lags)
    power = np.abs(fft.rfft(x, size)) ** 2
    correlation = fft.irfft(power, size)[1 : lags + 1] / float(x @ x)
    # the sum over n - lag pairs of products of independent numbers; its mean is -1 / n
    z = (correlation + 1.0 / n) * n / np.sqrt(n - np.arange(1, lags + 1))
    return int((np.abs(z) > stats.norm.isf(level / 2)).sum())


# --- means of scores of classes ---------------------------------------------------------------------------------------


def tiny_scores(seed, K=3):
    """Return probabilities (n, K) and weights (n,) of up to 5 rows, with ties, zeros and repeated rows."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    P = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 3.0])), n)
    if seed % 2:
        P = np.round(P * 4) + (0.0 if seed % 4 == 1 else 0.25)
        P[P.sum(axis=1) == 0.0] = 1.0
        P /= P.sum(axis=1, keepdims=True)
    if seed % 3 == 0:
        P[0] = np.eye(K)[seed % K]
    if seed % 5 == 0:
        P[-1] = P[0]
    if np.count_nonzero(P.sum(axis=0)) < 2:
        P[0] = 1.0 / K
    return P, rng.integers(1, 4, n).astype(float)


def most_found(metric, P, weight, seed):
    """Return the most of a metric over all rules, draws between pairs of them, and random mixtures."""
    n, K = P.shape
    rules = np.indices((K,) * n).reshape(n, -1).T
    decided = np.eye(K)[rules]
    w = weight / weight.sum()
    diagonal, columns = np.einsum("n,nk,ank->ak", w, P, decided), np.einsum("n,ank->ak", w, decided)
    hull = Confusion(w @ P, diagonal, columns)
    values = metric.values(hull)
    rng = np.random.default_rng(seed)
    # draws between the best rules and all others, and between random pairs
    best = np.argsort(-values)[:20]
    all_others = np.stack(np.meshgrid(best, np.arange(len(rules))), axis=-1).reshape(-1, 2)
    pairs = np.concatenate([all_others, rng.integers(len(rules), size=(DRAWS, 2))])
    along = hull[pairs[:, 0]].along(hull[pairs[:, 1]], np.broadcast_to(STEPS, (len(pairs), len(STEPS))))
    mixed = [hull.mix(rng.dirichlet(np.full(len(rules), 1.0 / len(rules)))) for _ in range(DRAWS)]
    return float(max(values.max(), metric.values(along).max(), metric.values(Confusion.stack(mixed)).max()))


# --- the best mixture of two classes ----------------------------------------------------------------------------------

MEANS = ["min_recall", "g_mean", "h_mean", "q_mean"]


def small_table(seed):
    """Return P (n, 2), y and weights of 3 to 8 rows: ties in two of three tables, sure rows in some."""
    rng = np.random.default_rng([13, seed])
    n = int(rng.integers(3, 9))
    p = rng.random(n)
    if seed % 3:
        p = np.round(p * 4) / 4
    y = (rng.random(n) < 0.5).astype(int)
    y[:2] = 0, 1
    if 0.0 < p.sum() < n:
        return np.column_stack([1 - p, p]), y, rng.integers(1, 4, n).astype(float)
    return small_table(seed + 10**6)


def mean_of(name, recalls):
    """Return a metric at two recalls, by its definition."""
    low, high = min(recalls), max(recalls)
    if name == "min_recall":
        return low
    if name == "g_mean":
        return np.sqrt(max(low, 0.0) * high)
    if name == "h_mean":
        return 2 * low * high / (low + high) if low > 0 else 0.0
    return 1 - np.sqrt(((1 - low) ** 2 + (1 - high) ** 2) / 2)


def recalls_of(P, y, weight, share, *, all_rules):
    """Return the recalls (A, 2) of all thresholds on p, or of all rules that decide equal rows alike."""
    truth = (share * P + (1 - share) * np.eye(2)[y]) * (weight / weight.sum())[:, None]
    levels, which = np.unique(P[:, 1], return_inverse=True)
    if all_rules:
        rules = itertools.product([0, 1], repeat=len(levels))
        decisions = [np.array(rule)[which] for rule in rules]
    else:
        decisions = [(P[:, 1] >= level).astype(int) for level in [*levels, np.inf]]
    return np.array([[truth[d == k, k].sum() for k in (0, 1)] for d in decisions]) / truth.sum(axis=0)


def corners_of(recalls):
    """Return the points that no other point dominates: between two of them lies the best mixture."""
    kept = [a for a in recalls if not any((b >= a).all() and (b > a).any() for b in recalls)]
    return np.unique(np.round(kept, 15), axis=0)


def best_by_definition(name, P, y, weight, share, *, all_rules=False):
    """Return the largest value of a metric over all mixtures."""
    recalls = recalls_of(P, y, weight, share, all_rules=all_rules)
    if name == "min_recall":
        n = len(recalls)
        bounds, above = [(0, None)] * n + [(None, None)], np.hstack([-recalls.T, np.ones((2, 1))])
        one = [np.append(np.ones(n), 0.0)]
        return -linprog(np.append(np.zeros(n), -1.0), above, np.zeros(2), one, [1.0], bounds).fun
    corners = corners_of(recalls)
    best = max(mean_of(name, corner) for corner in corners)
    for a, b in itertools.combinations(corners, 2):
        settings = {"bounds": (0, 1), "method": "bounded", "options": {"xatol": 1e-12}}
        inside = minimize_scalar(lambda t, a=a, b=b: -mean_of(name, (1 - t) * a + t * b), **settings)
        best = max(best, -inside.fun)
    return best


# --- a question about one class, against all thresholds and their mixtures --------------------------------------------

TINY_METRICS = [f"{name}[{{k}}]" for name in ("recall", "precision", "f1", "specificity", "jaccard", "f_beta", "rate")]
TINY_LIMITS = (
    "precision[{k}] >= {v}",
    "recall[{k}] >= {v}",
    "rate[{k}] <= {v}",
    "fpr[{k}] <= {v}",
    "f1[{k}] >= {v}",
    "rate[{k}] >= {v}",
    "specificity[{k}] >= {v}",
)


def tiny_question(seed):
    """Return probabilities (n, K), labels or None, a class, a metric and limits."""
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(3, 5)), int(rng.integers(4, 16))
    P = rng.dirichlet(np.full(K, rng.choice([0.4, 1.0, 3.0])), n)
    if seed % 3 == 0:
        P = np.round(P * 4)
        P[P.sum(axis=1) == 0] = 1.0
        P /= P.sum(axis=1, keepdims=True)
    y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1) if seed % 2 else None
    k = int(rng.integers(K))
    limits = []
    for _ in range(int(rng.integers(1, 3))):
        limits.append(str(rng.choice(TINY_LIMITS)).format(k=k, v=round(float(rng.uniform(0.1, 0.9)), 2)))
    return P, y, k, str(rng.choice(TINY_METRICS)).format(k=k), limits


def points(P, y, k):
    """Return hits, decided shares and the size of class k for all thresholds on p of k, from never to always."""
    p, truth = P[:, k], P[:, k] if y is None else (y == k).astype(float)
    corners = [(0.0, 0.0)]
    corners += [(truth[p >= cut].mean() * (p >= cut).mean(), (p >= cut).mean()) for cut in np.unique(p)[::-1]]
    return np.array(corners), truth.mean()


def read(metric, hits, decided, prior):
    """Return a quantity as numerator and denominator."""
    return {
        "recall": (hits, prior),
        "precision": (hits, decided),
        "f1": (2 * hits, decided + prior),
        "f_beta": (2 * hits, decided + prior),
        "jaccard": (hits, decided + prior - hits),
        "rate": (decided, 1.0),
        "fpr": (decided - hits, 1 - prior),
        "specificity": (1 - prior - decided + hits, 1 - prior),
    }[metric.split("[")[0]]


def value_of(text, hits, decided, prior):
    """Return a quantity; a precision of no row is zero."""
    N, D = read(text, hits, decided, prior)
    return np.where(D > TIES, N / np.where(D > TIES, D, 1.0), 0.0)


def slack(limit, hits, decided, prior):
    """Return by how much a limit is kept."""
    text, sense, number = limit.rsplit(" ", 2)
    return (value_of(text, hits, decided, prior) - float(number)) * (1 if sense == ">=" else -1)


def best_threshold(metric, limits, corners, prior):
    """Return the best value of all thresholds that keep the limits, minus infinity if none does."""
    hits, decided = corners.T
    kept = np.all([slack(limit, hits, decided, prior) >= -TIES for limit in limits], axis=0)
    return float(np.where(kept, value_of(metric, hits, decided, prior), -np.inf).max())


def best_mixture(metric, limits, corners, prior):
    """Return the best value of all mixtures of thresholds, by a program for a ratio (Charnes and Cooper)."""
    hits, decided = corners.T
    N, D = read(metric, hits, decided, prior)
    N, D = np.broadcast_to(N, hits.shape), np.broadcast_to(D, hits.shape)
    rows = []
    for limit in limits:
        text, sense, number = limit.rsplit(" ", 2)
        top, bottom = (np.broadcast_to(part, hits.shape) for part in read(text, hits, decided, prior))
        rows.append((float(number) * bottom - top) * (1 if sense == ">=" else -1))
    program = linprog(-N, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=D[None], b_eq=[1.0], method="highs")
    return -program.fun if program.status == 0 else -np.inf


def judged(seed):
    """Return how `confmax` answers a tiny question: "right", "infeasible", "refused", or what is wrong."""
    P, y, k, metric, limits = tiny_question(seed)
    K = P.shape[1]
    settings = {"confusion": "model" if y is None else "labels", "calibration": None, "classes": range(K)}
    try:
        solution = solve(metric, P, y, constraints=limits, on_infeasible="closest", **settings)
    except ValueError:
        return "refused"
    corners, prior = points(P, y, k)
    best = best_threshold(metric, limits, corners, prior)
    if not solution.feasible:
        return "infeasible" if not np.isfinite(best) else f"no rule was met, best threshold {best}"
    decided = solution.rule.predict_index(P) == k
    reached = np.array([[(decided * (P[:, k] if y is None else y == k)).mean(), decided.mean()]])
    value = best_threshold(metric, limits, reached, prior)
    # argmax may keep limits that no threshold keeps
    if value < best - 1e-9 or abs(value - solution.value) > 1e-9:
        return f"value {solution.value}, counted {value}, best threshold {best}"
    drawn = best_mixture(metric, limits, corners, prior)
    if y is None and not -1e-9 <= solution.upper_bound - drawn <= 1e-6:
        return f"bound {solution.upper_bound}, best mixture {drawn}"
    return "right"
