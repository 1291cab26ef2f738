"""Which pairs of classes a calibration moves most: by its matrix, on rows, and in words."""

import itertools

import numpy as np
import pytest

import confmax
from confmax.calibration import MatrixScaling
from confmax.calibration.pairs import moves, pulls
from confmax.calibration.words import pulled


def by_matrix(W, K=3, b=0.0):
    rule = confmax.DecisionRule.from_weights(np.ones(K), classes=list("abcdefgh"[:K]))
    calibrator = MatrixScaling(W, np.eye(K)[0] * b)
    return confmax.DecisionRule(rule.gains, rule.weights, rule.class_names, calibrator=calibrator)


@pytest.mark.parametrize("K", [3, 4, 7])
def test_pulls_are_what_ten_times_a_probability_does_to_odds(K):
    """Of every pair: the odds against the mean of the other scores, before and after."""
    draw = np.random.default_rng(K)
    W = np.eye(K) + draw.normal(0.0, 0.2, (K, K))
    p, powers = draw.dirichlet(np.ones(K)), {}
    for given, moved in itertools.permutations(range(K), 2):
        others = [k for k in range(K) if k not in (given, moved)]
        more = np.where(np.arange(K) == given, 10 * p, p)
        before, after = (z[moved] - z[others].mean() for z in (W @ np.log(p), W @ np.log(more)))
        powers[given, moved] = (after - before) / np.log(10)
    found = pulls(W)
    assert len(found) == 3
    for given, moved, power in found:
        assert power == pytest.approx(powers[given, moved], abs=1e-12)
    sizes = sorted((max(power, 0) if K == 3 else abs(power) for power in powers.values()), reverse=True)
    assert [abs(power) for *_, power in found] == pytest.approx(sizes[:3])
    # a constant in a column changes no calibrated probability
    same = pulls(W + draw.normal(size=K))
    assert [each[:2] for each in same] == [each[:2] for each in found]


def test_matrices_that_pull_nothing():
    assert pulls(np.array([[1.0, 0.5], [0.2, 1.0]])) == []
    assert pulls(np.diag([0.5, 1.0, 2.0])) == pulls(np.eye(5) + 0.3) == []
    assert pulled(by_matrix(np.eye(3))) == []
    assert pulled(confmax.DecisionRule.from_weights([1, 2, 3])) == []


def test_moves_are_counted_as_by_hand():
    draw = np.random.default_rng(0)
    P, Q = (draw.dirichlet(np.ones(4), 300) for _ in range(2))
    P[:3], P[3:6] = 0.25, [0.4, 0.1, 0.4, 0.1]  # ties go to the largest index
    labels, weight = draw.integers(0, 4, 300), draw.random(300)
    top, sizes = 3 - np.argmax(P[:, ::-1], axis=1), {}
    for given, moved in itertools.permutations(range(4), 2):
        rows = top == given
        means = [np.average(each[rows], weights=weight[rows]) for each in (P[:, moved], Q[:, moved], labels == moved)]
        sizes[given, moved] = (abs(means[1] - means[0]) * weight[rows].sum(), means)
    expected = sorted(sizes.items(), key=lambda item: -item[1][0])[:3]
    found = moves(P, Q, labels, weight)
    assert [tuple(each[:2]) for each in found] == [pair for pair, _ in expected]
    for each, (_, (_, means)) in zip(found, expected, strict=True):
        assert list(each[2:]) == pytest.approx(means)
    assert moves(P, P, labels, weight) == []
    assert moves(P, P + 1e-5, labels, weight) == []


def test_words_of_a_matrix():
    W = np.eye(3)
    W[0, 1] = 0.2
    said = pulled(by_matrix(W))
    assert said == [
        "the calibration takes p(b) as evidence for a: ten times as much multiplies the odds of a against c by 1.58"
    ]
    # as the calibrator itself says
    rows = by_matrix(W).calibrator.transform([[0.03, 0.01, 0.02], [0.03, 0.1, 0.02]])
    odds = rows[:, 0] / rows[:, 2]
    assert f"{odds[1] / odds[0]:.3g}" == "1.58"
    W = np.eye(5)
    W[0, 1] = -0.2
    assert pulled(by_matrix(W, 5))[0] == (
        "the calibration takes p(b) as evidence against a: ten times as much multiplies the odds of a against the "
        "other classes by 0.631"
    )
