"""Risk-coverage curves: Chow's rule and rules that abstain, against rows that are sorted and counted by hand."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score

import confmax
from confmax.evaluate.curves import curve_through
from tests.report_helpers import sample

CLASSES = range(3)


def right(y, decided):
    return float(np.mean(y == decided))


SCORES = {
    "accuracy": right,
    "macro_f1": lambda y, d: f1_score(y, d, labels=CLASSES, average="macro", zero_division=0),
    "balanced_accuracy": balanced_accuracy_score,
    "f1[1]": lambda y, d: f1_score(y, d, labels=[1], average="macro", zero_division=0),
}


def path_on(metric, P, y, levels, **settings):
    """Return the frontier over coverages of what the probabilities expect, which is read on labels."""
    settings = {"confusion": "model", "calibration": None, "classes": CLASSES, "abstain": True, **settings}
    return confmax.frontier(metric, "coverage >=", P, y, levels=levels, **settings)


@pytest.mark.parametrize("name", SCORES)
def test_chows_curve_is_that_of_sorted_rows(name):
    P, y = sample(400)
    order = np.argsort(-P.max(axis=1))
    curve = path_on(name, P, y, [0.3, 0.555, 1.0]).on_labels.chow
    np.testing.assert_allclose(curve.reached, [0.3, 0.555, 1.0])
    for count, value in zip((120, 222, 400), curve.values, strict=True):
        kept = order[:count]
        assert value == pytest.approx(SCORES[name](y[kept], P[kept].argmax(axis=1)))


def test_of_rows_that_tie_a_share_is_decided():
    """The mean over all orders of the rows that tie."""
    P = np.array([[0.9, 0.1], [0.3, 0.7], [0.7, 0.3], [0.7, 0.3], [0.4, 0.6]])
    y, correct = [0, 1, 0, 1, 1], np.array([1, 1, 1, 0, 1])
    orders = [(0, *tied, 4) for tied in itertools.permutations([1, 2, 3])]
    curve = path_on("accuracy", P, y, np.arange(1, 6) / 5, classes=range(2)).on_labels.chow
    for count, value in enumerate(curve.values, 1):
        assert value == pytest.approx(np.mean([correct[list(order[:count])].mean() for order in orders]))


def test_weights_count_rows():
    P, y = sample(60)
    weight = np.random.default_rng(1).integers(0, 4, 60)
    again = np.repeat(np.arange(60), weight)
    levels = [0.3, 0.6, 1.0]
    found = path_on("macro_f1", P, y, levels, sample_weight=weight).on_labels.chow
    repeated = path_on("macro_f1", P[again], y[again], levels).on_labels.chow
    np.testing.assert_allclose(found.values, repeated.values, atol=1e-12)


def test_the_area_is_the_mean_of_the_line():
    curve = curve_through("accuracy", "coverage", np.array([0.2, 0.5, 1.0]), np.array([1.0, 0.9, 0.5]))
    x = np.linspace(0.4, 0.9, 20001)
    assert curve.area(0.4, 0.9) == pytest.approx(np.interp(x, curve.reached, curve.values).mean(), abs=1e-4)
    assert curve.area() == pytest.approx((0.3 * 0.95 + 0.5 * 0.7) / 0.8)
    assert curve.area(0.5, 1.0) == pytest.approx(0.7) and curve.value_at(0.75) == pytest.approx(0.7)
    for low, high, sentence in ((0.5, 1.1, "lies between 0.2 and 1"), (0.5, 0.5, "the lower one first")):
        with pytest.raises(ValueError, match=sentence):
            curve.area(low, high)


def test_a_path_holds_the_best_rules_at_its_coverages():
    P, y = sample(500)
    path = path_on("macro_f1", P, y, [0.6, 0.8, 1.0], randomized=True)
    assert [one.rule.constraints for one in path.solutions] == [("coverage >= 0.6",), ("coverage >= 0.8",), ()]
    assert path.rules[-1].abstain is None
    settings = {"confusion": "model", "calibration": None, "randomized": True, "classes": CLASSES}
    alone = confmax.maximize("macro_f1", P, abstain=True, constraints="coverage >= 0.8", **settings)
    assert path.value_at(0.8) == pytest.approx(alone.value, abs=1e-6)


def test_a_path_leaves_out_coverages_at_which_no_rule_keeps_the_limits():
    P, y = sample(500)
    path = path_on("accuracy", P, y, [0.5, 1.0], constraints="precision[0] >= 0.8", abstain="ask", calibration="auto")
    assert path.levels.tolist() == [0.5, 1.0] and path.rules[0].abstain == "ask"
    # one calibration serves all rules
    first, last = path.solutions
    assert first.calibration is not None and first.rule.calibrator == last.rule.calibrator
    strict = path_on("accuracy", P, y, [0.1, 1.0], constraints=["accuracy >= 0.8", "rate[1] >= 0.01"])
    assert strict.levels.tolist() == [0.1]
    with pytest.raises(confmax.Infeasible):
        path_on("accuracy", P, y, [0.99, 1.0], constraints="accuracy >= 0.99")


# --- scores -----------------------------------------------------------------------------------------------------------


def test_scores_of_a_rule_that_abstains_are_of_what_it_decides():
    P, y = sample(500)
    rule = confmax.maximize("macro_f1", P, y, classes=CLASSES, abstain=True, constraints="coverage >= 0.7",
                            randomized=False)  # fmt: skip
    Q, z = sample(400, seed=2)
    names = [*SCORES, "coverage", "coverage[2]", "rate[0]"]
    found = confmax.score(names, Q, z, rule, n_replicates=39)
    decided = rule.predict(Q)
    kept = decided >= 0
    for name, score in SCORES.items():
        assert found.estimate("rule", name).value == pytest.approx(score(z[kept], decided[kept]))
        assert found.estimate("argmax", name).value == pytest.approx(score(z, Q.argmax(axis=1)))
    values = [found.estimate("rule", name).value for name in names[-3:]]
    assert values == pytest.approx([kept.mean(), kept[z == 2].mean(), (decided == 0).mean()])
    assert [found.estimate("argmax", name).value for name in names[-3:-1]] == pytest.approx([1.0, 1.0])
    low, high = found.estimate("rule", "coverage")[1:]
    assert low < kept.mean() < high


def test_a_rule_that_could_abstain_and_does_not_scores_as_one_that_cannot():
    """In every replicate, those without a row of some class included."""
    P, y = sample(40, 4)
    settings = {"classes": range(4), "confusion": "model", "calibration": None, "randomized": False}
    could = confmax.maximize("macro_f1", P, abstain=True, constraints="coverage >= 1", **settings)
    names = ["macro_f1", "balanced_accuracy", "recall[3]", "min_recall", "cohen_kappa", "mcc"]
    rare = np.where(y == 3, 0, y)
    rare[:2] = 3
    same = could.predict(P)
    with pytest.warns(UserWarning, match="replicates"):
        found = confmax.score(names, P, rare, could, rules={"same": same}, n_replicates=99)
    of = dict(zip(found.rules, range(len(found.rules)), strict=True))
    np.testing.assert_allclose(found.replicates[:, of["rule"]], found.replicates[:, of["same"]], atol=1e-12)
    assert np.isnan(found.replicates[2, of["rule"]]).any()
