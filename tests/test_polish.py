"""Cross-validation of the polish: folds by row content, a fair standard error, and the right verdict in clear cases."""

import numpy as np
import pytest

from confmax import metrics
from confmax.checks import random_table
from confmax.confusion import Gains
from confmax.optimize import BayesCG, FrankWolfe, Mixture
from confmax.optimize.polish import _difference, polish, worth_polishing
from confmax.oracle import CountingOracle, Table, make_oracle, make_table
from confmax.tables.folds import stratified_folds


def permuted(table, order):
    weight = None if table.weight is None else table.weight[order]
    return Table(table.proba[order], table.labels[order], weight, table.classes)


@pytest.mark.parametrize("weights", [False, True])
def test_folds_do_not_depend_on_the_order_of_rows(weights):
    table = random_table(np.random.default_rng(0), 203, 4, ties=True, weights=weights)
    order = np.random.default_rng(1).permutation(table.n_rows)
    folds, again = stratified_folds(table, 5, 3), stratified_folds(permuted(table, order), 5, 3)
    for k in range(5):
        mine, theirs = (
            sorted(map(tuple, np.column_stack([t.proba, t.labels])[f == k]))
            for t, f in ((table, folds), (permuted(table, order), again))
        )
        assert mine == theirs
    assert (stratified_folds(table, 5, 4) != folds).any()


def test_folds_are_stratified():
    """No fold has more than its share of a class and a twentieth; a class of few rows is spread evenly."""
    for n, seed in ((500, 2), (60, 3), (41, 4), (12, 5)):
        table = random_table(np.random.default_rng(seed), n, 3)
        folds = stratified_folds(table, 5, 0)
        for k in range(3):
            size = int((table.labels == k).sum())
            counts = np.bincount(folds[table.labels == k], minlength=5)
            assert counts.max() <= -(-size // 5) + size // 20
            if size >= 2:
                assert counts.max() < size


@pytest.mark.parametrize("n", [30, 200, 3000])
def test_a_row_less_or_another_row_moves_few_others(n):
    """Leave out, or change, every one of some rows: of a large class no other row changes its fold."""
    rng = np.random.default_rng(n)
    P, y = rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n)
    folds, moved = stratified_folds(make_table(P, y), 5, 0), []
    for row in rng.choice(n, 30, replace=False):
        kept = np.arange(n) != row
        moved.append((stratified_folds(make_table(P[kept], y[kept]), 5, 0) != folds[kept]).sum())
        other = P.copy()
        other[row] = rng.dirichlet(np.ones(3))
        moved.append((stratified_folds(make_table(other, y), 5, 0) != folds)[kept].sum())
    assert np.mean(moved) <= (0 if n == 3000 else 3)


def test_the_verdict_does_not_depend_on_the_order_of_rows():
    table = random_table(np.random.default_rng(3), 150, 3)
    order = np.random.default_rng(1).permutation(table.n_rows)
    for name in ("macro_f1", "g_mean"):
        one, two = (
            worth_polishing(metrics.get(name), each, FrankWolfe(), seed=5) for each in (table, permuted(table, order))
        )
        assert one.accepted == two.accepted
        np.testing.assert_allclose([one.gain, one.error], [two.gain, two.error], atol=1e-12)


def skewed_table(n, seed):
    """Labels from probabilities of which the table shows a distorted version: offsets and weights of its own help."""
    rng = np.random.default_rng(seed)
    true = rng.dirichlet(np.full(4, 0.5), n)
    y = (rng.random(n)[:, None] > np.cumsum(true, axis=1)).sum(axis=1).clip(0, 3)
    shown = true * [1.0, 0.2, 3.0, 1.0]
    return make_table(shown / shown.sum(axis=1, keepdims=True), y, None, range(4))


def test_a_polish_that_helps_is_accepted_and_one_of_noise_is_not():
    poor = BayesCG(kappa=1e-9)  # one round: hardly more than argmax and p / prior
    verdict = worth_polishing(metrics.get("macro_f1"), skewed_table(1500, 0), poor)
    assert verdict.accepted and verdict.gain > 0.01
    rng = np.random.default_rng(0)
    noise = make_table(rng.dirichlet(np.ones(4), 150), rng.integers(0, 4, 150), None, range(4))
    verdict = worth_polishing(metrics.get("macro_f1"), noise, FrankWolfe())
    assert not verdict.accepted


def test_the_standard_error_is_that_of_drawing_rows_anew():
    table = skewed_table(800, 1)
    rng = np.random.default_rng(0)
    decisions = np.array([np.argmax(table.proba, axis=1), np.argmax(table.proba * [1, 3, 0.5, 1], axis=1)])
    metric = metrics.get("macro_f1")
    assert _difference(metric, table, decisions[[0, 0]], 4, 0) == (0.0, 0.0)
    gain, error = _difference(metric, table, decisions, 4, 0)
    drawn = []
    for _ in range(400):
        rows = rng.integers(0, 800, 800)
        C = np.zeros((2, 4, 4))
        for k in range(2):
            np.add.at(C[k], (table.labels[rows], decisions[k, rows]), 1 / 800)
        drawn.append(metric.value(C[1]) - metric.value(C[0]))
    assert error == pytest.approx(np.std(drawn), rel=0.2)
    assert gain == pytest.approx(np.mean(drawn), abs=4 * error / np.sqrt(400) + 0.002)


def test_a_class_that_a_fold_does_not_hold():
    """Its only row is held out once; the metric is then taken over the others, and the verdict is a number."""
    table = random_table(np.random.default_rng(4), 80, 3)
    labels = np.where(table.labels == 2, 0, table.labels)
    labels[5] = 2
    lonely = Table(table.proba, labels, None, table.classes)
    verdict = worth_polishing(metrics.get("q_mean"), lonely, FrankWolfe())
    assert np.isfinite(verdict.gain)


def test_rules_that_do_not_differ_are_not_polished():
    P = np.full((20, 3), 1 / 3)
    table = make_table(P, [0] * 9 + [1] * 9 + [2] * 2, None, range(3))
    verdict = worth_polishing(metrics.get("g_mean"), table, FrankWolfe())
    assert (verdict.accepted, verdict.gain, verdict.error) == (False, 0.0, 0.0)


def test_two_classes_are_left_alone():
    table = random_table(np.random.default_rng(0), 40, 2)
    assert worth_polishing(metrics.get("f1"), table, FrankWolfe()).n_passes == 0


def test_passes_and_the_polish_itself():
    table = skewed_table(300, 2)
    metric = metrics.get("macro_f1")
    oracle = CountingOracle(make_oracle(table, "labels"))
    start = Gains.reduced(np.ones(4))
    before = Mixture.single(start, oracle.maximize(start)[0])
    better = polish(metric, oracle, before, 4, 500)
    assert len(better.atoms) == 1
    assert metric.at(better.confusion).value > metric.at(before.confusion).value
    assert polish(metric, oracle, better, 4, 500) is better
    assert worth_polishing(metric, table, FrankWolfe()).n_passes > 4
