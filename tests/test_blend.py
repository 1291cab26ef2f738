"""The share of the model in a blend: what it should be where the truth is known, and a blend from end to end."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

import confmax
from confmax import metrics
from confmax.calibration import choose, families
from confmax.calibration.blend import _differences, model_share, shares_of_groups
from confmax.calibration.choice import held_out
from confmax.oracle import make_table
from confmax.tables.groups import Groups
from tests.helpers import confusion_of, labels_drawn


def tables(n, K, bend, seeds):
    """Labels follow p, the table shows ``softmax(bend log p)``: calibrated for a bend of one."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        P = rng.dirichlet(np.ones(K), n)
        yield make_table(softmax(np.log(P) * bend, axis=1), labels_drawn(P, rng), None, range(K))


def test_a_calibrated_model_is_trusted_and_a_bad_one_is_not():
    good = [model_share(table) for table in tables(400, 4, 1.0, range(40))]
    bad = [model_share(table) for table in tables(400, 4, 3.0, range(40))]
    assert np.mean(good) > 0.75
    assert np.mean(bad) < 0.25


@pytest.mark.parametrize(("K", "levels"), [(3, False), (2, False), (2, True)])
def test_the_variance_is_that_of_the_difference(K, levels):
    """Labels drawn again and again from the same probabilities: V is the mean square of D."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([3.0, 1.0, 1.0][:K], 600)
    weight = rng.random(600) + 0.5
    squares, variances = [], []
    for _ in range(400):
        D, V = _differences(make_table(P, labels_drawn(P, rng), weight, range(K)).head, levels=levels)
        squares.append(D**2)
        variances.append(V)
    np.testing.assert_allclose(np.mean(squares, axis=0), np.mean(variances, axis=0), rtol=0.25)


def test_the_whole_order_of_two_classes_is_compared():
    """Above .4 the model says .4: argmax, and p over the class sizes, see next to nothing of it."""
    rng = np.random.default_rng(1)
    p = rng.beta(1, 3, 4000)
    q = np.where(p > 0.4, 0.4 + 0.01 * p, p)
    y = (rng.random(4000) < p).astype(int)
    assert model_share(make_table(np.c_[1 - q, q], y)) < 0.2
    assert model_share(make_table(np.c_[1 - p, p], y)) > 0.5


def test_a_group_that_contradicts_the_model_is_not_believed():
    """In one of three groups half of the expected rows are true: recalls agree there, levels do not."""
    rng = np.random.default_rng(2)
    p = rng.beta(2, 2, 1500)
    group = rng.integers(0, 3, 1500)
    y = (rng.random(1500) < np.where(group == 2, p / 2, p)).astype(int)
    table = make_table(np.c_[1 - p, p], y)
    shares = shares_of_groups(table.with_groups(Groups.of(group, 1500)))
    assert shares[:2].min() > 0.4
    assert shares[2] < 0.1


def test_a_sample_speaks_for_all_rows(monkeypatch):
    """The bias is measured on a tenth of the rows, the variance is that of all of them."""
    table = next(tables(20_000, 3, 1.3, [0]))
    tenth = make_table(table.head.proba[::10], table.head.labels[::10], None, range(3))
    assert model_share(tenth) > 3 * model_share(table)
    assert model_share(tenth, 0.1) == pytest.approx(model_share(table), abs=0.05)
    monkeypatch.setattr(families, "CHOICE_CELLS", 6000)
    honest = held_out(table, choose(table, "temperature"))
    assert honest.n_rows == honest.head.raw.n_rows
    assert 1800 < honest.n_rows < 2200


def test_rounding_decides_nothing():
    """Every row alike: no rule's recall can differ from the model's, whatever the order of the rows."""
    P, y = np.full((50, 3), 1 / 3), np.random.default_rng(0).integers(0, 3, 50)
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(50)
        assert model_share(make_table(P, y[order], None, range(3))) == 1.0


def test_held_out_rows_are_calibrated_without_themselves():
    rng = np.random.default_rng(4)
    P = rng.dirichlet(np.ones(3), 300)
    y = labels_drawn(softmax(2 * np.log(P), axis=1), rng)
    table = make_table(P, y)
    for kind in ("temperature", "vector"):
        found = choose(table, kind)
        honest, fold = held_out(table, found), families.labelled(table, 0).folds()
        assert sorted(set(fold)) == [0, 1, 2, 3, 4]
        k = 2
        other = y.copy()
        other[fold == k] = (other[fold == k] + 1) % 3  # labels of a fold do not move its own rows ...
        moved = make_table(P, other)
        moved, same_fold = held_out(moved, found), families.labelled(moved, 0).folds()
        mine = fold == k
        if (same_fold[mine] == k).all() and (same_fold[~mine] == fold[~mine]).all():
            np.testing.assert_allclose(moved.head.proba[mine], honest.head.proba[mine], rtol=1e-6)
        assert not np.allclose(honest.head.proba, table.calibrated(found.calibrator).head.proba, rtol=1e-6)
        # ... and are near what all rows together give
        assert np.abs(honest.head.proba - table.calibrated(found.calibrator).head.proba).max() < 0.15


@pytest.mark.parametrize(
    ("name", "kind"), [("g_mean", None), ("macro_f1", "auto"), ("quadratic_kappa", "vector"), ("min_recall", "auto")]
)
def test_the_value_is_that_of_the_average_confusion(name, kind):
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(3), 250)
    y = labels_drawn(softmax(1.6 * np.log(P), axis=1), rng)
    solution = confmax.maximize(name, P, y, confusion="blend", calibration=kind, randomized=False)
    share = solution.model_share
    assert solution.mode == "blend"
    assert 0 < share <= 1
    assert share < 1 or kind is not None
    assert (solution.gap is None) == (share < 1)
    decisions = solution.rule.predict(P)
    table = make_table(P, y)
    truth = P if solution.calibration is None else table.calibrated(solution.calibration.calibrator).head.proba
    C = [confusion_of(each / 250, decisions, 3) for each in (truth, np.eye(3)[y])]
    metric = metrics.get(name)
    assert solution.value == pytest.approx(metric.value(share * C[0] + (1 - share) * C[1]), abs=1e-9)
    assert solution.label_value == pytest.approx(metric.value(C[1]), abs=1e-9)
    assert solution.value >= max(solution.baselines.values()) - 1e-12
    assert f"blend, {share:.0%} model" in repr(solution)


def test_a_blend_needs_labels():
    with pytest.raises(ValueError, match="confusion='blend' needs y, the true classes; pass y, or use confusion='mod"):
        confmax.maximize("g_mean", [[0.5, 0.5]], confusion="blend")


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")
def test_a_calibration_that_is_used_again_knows_the_share_of_the_model():
    rng = np.random.default_rng(8)
    P = rng.dirichlet(np.ones(3), 400)
    y = labels_drawn(softmax(1.5 * np.log(P), axis=1), rng)
    first = confmax.maximize("macro_f1", P, y, random_state=1)
    alone = confmax.maximize("g_mean", P, y, random_state=1)
    again = confmax.maximize("g_mean", P, y, random_state=1, calibration=first.calibration)
    assert again.model_share == alone.model_share == first.model_share
    assert again.rule == alone.rule
    # other rows, weights, and another calibrator have shares of their own
    part = confmax.maximize("g_mean", P[:200], y[:200], random_state=1, calibration=first.calibration)
    weighted = confmax.maximize(
        "g_mean", P, y, sample_weight=1.0 + (y == 0), random_state=1, calibration=first.calibration
    )
    assert part.model_share != first.model_share != weighted.model_share
    # the same contents in another order of the columns, and under other names
    for columns, names in (([2, 1, 0], [0, 1, 2]), ([0, 1, 2], [1, 0, 2])):
        given = {"classes": names, "random_state": 1}
        reused, fresh = (
            confmax.maximize("macro_f1", P[:, columns], y, calibration=each, **given)
            for each in (first.calibration, replace(first.calibration))
        )
        assert reused.model_share == fresh.model_share < first.model_share
    assert len(first.calibration.shares) == 5
    assert replace(first.calibration, calibrator=None).shares == {}
