"""Kappas and MCC where one class has nearly all weight: what rounding hides is not certified."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.confusion import Confusion, Gains
from confmax.oracle import make_oracle, make_table

NAMES = ["cohen_kappa", "linear_kappa", "quadratic_kappa", "mcc"]


def population(seed, low=-13.0, high=-3.0):
    """Rows of 2 to 5 classes, all but one of them of a share between 1e-13 and 1e-3, in any column; some weighted."""
    rng = np.random.default_rng([12, seed])
    K, n = int(rng.integers(2, 6)), int(rng.integers(3, 200))
    share = 10 ** rng.uniform(low, high, K - 1)
    P = rng.dirichlet(np.full(K, 0.5), n)
    P[:, 1:] = P[:, 1:] * share if seed % 2 else rng.random((n, K - 1)) ** 4 * share
    P[:, 0] = 1 - P[:, 1:].sum(axis=1)
    weight = rng.integers(1, 4, n).astype(float)
    if seed % 3 == 0:
        # a few rows of hardly any weight are not sure of the class
        P = np.vstack([P, rng.dirichlet(np.ones(K), 3)])
        weight = np.append(weight, np.full(3, 10 ** rng.uniform(-12, -8)))
    return P[:, rng.permutation(K)], weight


def other_rules(P, weight, seed):
    """Confusions of random weights and offsets, most of them of the sizes that the class shares ask for."""
    rng = np.random.default_rng(seed)
    table = make_table(P, None, weight)
    prior = np.maximum(table.mean_probability(), 1e-300)
    K = P.shape[1]
    scale = 10 ** rng.uniform(-1, 1, (40, K)) / prior ** rng.uniform(0, 1, (40, 1))
    gains = Gains.reduced(scale, rng.normal(size=(40, K)) * 10 ** rng.uniform(-13, 0, (40, 1)))
    return make_oracle(table).maximize(gains, matrix=True)


@pytest.mark.filterwarnings("ignore:of the rows")  # the best rules for such priors
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_no_promise_is_broken(name, dtype):
    for seed in range(25):
        P, weight = population(seed)
        P = P.astype(dtype)
        solution = confmax.maximize(name, P, sample_weight=weight, randomized=bool(seed % 2))
        size = max(1.0, abs(solution.value))
        assert solution.value >= max(solution.baselines.values()) - 1e-12 * size
        assert abs(solution.value) <= 1 + 1e-9
        if solution.upper_bound is None:
            continue
        assert solution.upper_bound >= solution.value
        if solution.status.name == "CONVERGED":
            assert solution.gap - solution.randomization_loss <= 1e-6 + 1e-9
        others = np.nan_to_num(solution.metric.values(other_rules(P, weight, seed)))
        # decisions are exact in the table's type only
        assert solution.upper_bound >= others.max() - max(1e-9, 16 * np.finfo(dtype).eps)


def exact_value(name, C):
    """The metric of a matrix of fractions, in exact arithmetic but for the last root."""
    K, total = len(C), sum(map(sum, C))
    C = [[x / total for x in row] for row in C]
    rows, columns = [sum(row) for row in C], [sum(column) for column in zip(*C, strict=True)]
    power = {"cohen_kappa": 0, "linear_kappa": 1, "quadratic_kappa": 2}.get(name)
    if power is None:
        covered = sum(C[i][i] for i in range(K)) - sum(r * c for r, c in zip(rows, columns, strict=True))
        spread = (1 - sum(c * c for c in columns)) * (1 - sum(r * r for r in rows))
        return float(covered) / math.sqrt(spread) if spread else 0.0
    weight = [[Fraction(abs(i - j) ** power if power else int(i != j)) for j in range(K)] for i in range(K)]
    pairs = list(itertools.product(range(K), repeat=2))
    chance = sum(weight[i][j] * rows[i] * columns[j] for i, j in pairs)
    return float(1 - sum(weight[i][j] * C[i][j] for i, j in pairs) / chance) if chance else 0.0


@pytest.mark.parametrize("name", NAMES)
def test_two_classes_are_exact_however_rare_one_is(name):
    """Counts out of 2^53: what the statistics hold, they hold to the last digit."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        rare = rng.integers(0, 2 ** int(rng.integers(2, 50)), 3)
        counts = [[2**53 - int(rare.sum()), int(rare[0])], [int(rare[1]), int(rare[2])]]
        if rare[1] + rare[2] == 0 or rare[0] + rare[2] == 0:
            continue
        C = np.array(counts, dtype=float) / 2.0**53
        exact = exact_value(name, [[Fraction(x) for x in row] for row in counts])
        for turned in (C, C[::-1, ::-1]):
            assert metrics.get(name).value(turned) == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_values_are_within_what_rounding_allows(name):
    rng = np.random.default_rng(2)
    metric = metrics.get(name)
    for K in (2, 3, 5):
        for _ in range(30):
            C = rng.dirichlet(np.ones(K * K)).reshape(K, K) * 10 ** rng.uniform(-13, -1)
            C[0, 0] = 1 - (C.sum() - C[0, 0])
            S = Confusion.from_matrix(C)
            exact = exact_value(name, [[Fraction(float(x)) for x in row] for row in C])
            assert abs(float(metric.values(S)) - exact) <= float(metric.rounding(S)) + 1e-9


def test_rows_are_told_apart_by_the_probability_that_is_not_one():
    """In float32 the probability of class 1 is 1 in every row; that of class 0 still ranks the rows."""
    p = np.array([1e-12, 5e-11, 2e-11, 9e-11], np.float32)
    P = np.column_stack([p, 1 - p]).astype(np.float32)
    y = np.array([1, 0, 1, 0])
    solution = confmax.maximize("balanced_accuracy", P, y, confusion="labels", calibration=None,
                                solver="threshold_search")  # fmt: skip
    assert solution.value == 1.0
    assert solution.rule.predict(P).tolist() == y.tolist()
