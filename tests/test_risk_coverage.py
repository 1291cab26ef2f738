"""Risk-coverage curves: Chow's rule and rules that abstain, against rows that are sorted and counted by hand."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score

import confmax
from tests.report_helpers import sample

pytestmark = pytest.mark.filterwarnings("ignore:(risk_coverage|coverage_path) is deprecated")

CLASSES = range(3)


def right(y, decided):
    return float(np.mean(y == decided))


SCORES = {
    "accuracy": right,
    "macro_f1": lambda y, d: f1_score(y, d, labels=CLASSES, average="macro", zero_division=0),
    "balanced_accuracy": balanced_accuracy_score,
    "f1[1]": lambda y, d: f1_score(y, d, labels=[1], average="macro", zero_division=0),
}


@pytest.mark.parametrize("name", SCORES)
def test_chows_curve_is_that_of_sorted_rows(name):
    P, y = sample(400)
    order = np.argsort(-P.max(axis=1))
    curve = confmax.risk_coverage(name, P, y, coverages=[0.3, 0.555, 1.0], classes=CLASSES)
    np.testing.assert_allclose(curve.coverages, [0.3, 0.555, 1.0])
    for count, loss in zip((120, 222, 400), curve.losses, strict=True):
        kept = order[:count]
        assert loss == pytest.approx(1 - SCORES[name](y[kept], P[kept].argmax(axis=1)))


def test_of_rows_that_tie_a_share_is_decided():
    """The mean over all orders of the rows that tie."""
    P = np.array([[0.9, 0.1], [0.3, 0.7], [0.7, 0.3], [0.7, 0.3], [0.4, 0.6]])
    y, correct = [0, 1, 0, 1, 1], np.array([1, 1, 1, 0, 1])
    orders = [(0, *tied, 4) for tied in itertools.permutations([1, 2, 3])]
    for count in range(1, 6):
        expected = np.mean([correct[list(order[:count])].mean() for order in orders])
        curve = confmax.risk_coverage("accuracy", P, y, coverages=[count / 5])
        assert curve.losses[0] == pytest.approx(1 - expected)


def test_without_labels_the_loss_is_expected():
    P, _ = sample(300)
    sure = np.sort(P.max(axis=1))[::-1]
    curve = confmax.risk_coverage("accuracy", P, coverages=[0.5, 0.9])
    np.testing.assert_allclose(curve.losses, [1 - sure[:150].mean(), 1 - sure[:270].mean()])
    # labels drawn from the probabilities tell the same on average
    rng = np.random.default_rng(3)
    drawn = [(P.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1) for _ in range(300)]
    losses = [confmax.risk_coverage("accuracy", P, y, coverages=[0.5], classes=CLASSES).losses[0] for y in drawn]
    assert np.mean(losses) == pytest.approx(curve.losses[0], abs=4 * np.std(losses) / np.sqrt(300))


def test_weights_count_rows():
    P, y = sample(60)
    weight = np.random.default_rng(1).integers(0, 4, 60)
    again = np.repeat(np.arange(60), weight)
    found = confmax.risk_coverage("macro_f1", P, y, sample_weight=weight, classes=CLASSES)
    repeated = confmax.risk_coverage("macro_f1", P[again], y[again], classes=CLASSES)
    np.testing.assert_allclose(found.losses, repeated.losses, atol=1e-12)


def test_rules_are_points_where_they_are_counted():
    P, _ = sample(600)
    settings = {"classes": CLASSES, "confusion": "model", "calibration": None}
    rules = [
        confmax.maximize("macro_f1", P, abstain=True, constraints=f"coverage >= {least}", randomized=False, **settings)
        for least in (0.9, 0.6)
    ]
    rules.append(confmax.maximize("macro_f1", P, **settings).rule)
    Q, z = sample(500, seed=1)
    curve = confmax.risk_coverage("macro_f1", Q, z, rules)
    for rule, coverage, loss in zip(rules[::-1], curve.coverages[::-1], (*curve.losses[::-1],), strict=False):
        decided = rule.predict(Q)
        kept = decided >= 0
        assert kept.mean() in curve.coverages
        assert curve.loss_at(kept.mean()) == pytest.approx(1 - SCORES["macro_f1"](z[kept], decided[kept]))
        assert coverage > 0 and 0 <= loss <= 1


def test_a_rule_that_draws_is_counted_by_its_shares():
    P, y = sample(200)
    found = confmax.maximize("accuracy", P, abstain=True, constraints="coverage >= 0.7", confusion="model",
                             calibration=None, randomized=True, classes=CLASSES)  # fmt: skip
    D = found.rule.decision_probabilities(P)
    hit = D[np.arange(200), y].sum() / D[:, :3].sum()
    curve = confmax.risk_coverage("accuracy", P, y, [found])
    assert curve.coverages == pytest.approx(D[:, :3].sum() / 200) and curve.losses == pytest.approx(1 - hit)
    expected = confmax.risk_coverage("accuracy", P, rules=[found])
    assert 1 - expected.losses[0] == pytest.approx(found.value)


def test_the_area_is_the_mean_of_the_line():
    curve = confmax.evaluate.RiskCoverage(np.array([0.2, 0.5, 1.0]), np.array([0.0, 0.1, 0.5]), "accuracy")
    x = np.linspace(0.4, 0.9, 20001)
    assert curve.area(0.4, 0.9) == pytest.approx(np.interp(x, curve.coverages, curve.losses).mean(), abs=1e-4)
    assert curve.area() == pytest.approx((0.3 * 0.05 + 0.5 * 0.3) / 0.8)
    assert curve.area(0.5, 1.0) == pytest.approx(0.3) and curve.loss_at(0.75) == pytest.approx(0.3)


def test_a_path_holds_the_best_rules_at_its_coverages():
    P, _ = sample(500)
    settings = {"confusion": "model", "randomized": True, "classes": CLASSES}
    path = confmax.coverage_path("macro_f1", P, coverages=[0.6, 0.8, 1.0], **settings)
    assert [one.rule.constraints for one in path] == [(), ("coverage >= 0.8",), ("coverage >= 0.6",)]
    assert path[0].rule.abstain is None
    assert np.diff([one.value for one in path]).min() >= -1e-6
    alone = confmax.maximize("macro_f1", P, abstain=True, constraints="coverage >= 0.8", **settings)
    assert path[1].value == pytest.approx(alone.value, abs=1e-9)
    chow = confmax.risk_coverage("macro_f1", P)
    ours = confmax.risk_coverage("macro_f1", P, rules=path)
    assert ours.area(0.6, 1.0) <= chow.area(0.6, 1.0) + 1e-9


def test_a_path_leaves_out_coverages_at_which_no_rule_keeps_the_limits():
    P, y = sample(500)
    settings = {"classes": CLASSES, "confusion": "model"}
    path = confmax.coverage_path(
        "accuracy", P, y, coverages=[0.5, 1.0], constraints="precision[0] >= 0.8", abstain="ask", **settings
    )
    strict = confmax.coverage_path(
        "accuracy", P, y, coverages=[0.1, 1.0], constraints=["accuracy >= 0.8", "rate[1] >= 0.01"], **settings
    )
    assert len(path) == 2 and len(strict) == 1 and path[1].rule.abstain == "ask"
    # one calibration serves all rules
    assert path[1].calibration is not None and path[0].rule.calibrator == path[1].rule.calibrator
    with pytest.raises(confmax.Infeasible):
        confmax.coverage_path("accuracy", P, y, coverages=[0.99, 1.0], constraints="accuracy >= 0.99", **settings)


WITH_COST = confmax.metrics.get("linear", cost=np.hstack([1.0 - np.eye(3), np.full((3, 1), 0.4)]))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda P, y: confmax.risk_coverage("rate[1]", P, y), "speaks of all rows"),
        (lambda P, y: confmax.risk_coverage("coverage", P, y), "speaks of all rows"),
        (lambda P, y: confmax.risk_coverage("accuracy", P, y, []), "got an empty one"),
        (lambda P, y: confmax.risk_coverage("accuracy", P, y, [y]), "rules or solutions of maximize; got ndarray"),
        (lambda P, y: confmax.risk_coverage("accuracy", P, y, coverages=[0.0, 1.0]), "above 0 and at most 1"),
        (lambda P, y: confmax.risk_coverage("accuracy", P, y, coverages=[0.5, np.nan]), "above 0 and at most 1"),
        (lambda P, y: confmax.risk_coverage("accuracy", P, y, coverages=[]), "above 0 and at most 1"),
        (lambda P, y: confmax.risk_coverage("accuracy", P, y).area(0.5, 1.1), "lies beyond"),
        (lambda P, y: confmax.risk_coverage("accuracy", P, y).area(0.5, 0.5), "the lower one first"),
        (lambda P, y: confmax.coverage_path("accuracy", P, y, abstain=False), "pass abstain=True or a name"),
        (lambda P, y: confmax.coverage_path("accuracy", P, y, coverages=[1.1]), "at most 1"),
        (lambda P, y: confmax.coverage_path("coverage", P, y), "speaks of all rows"),
        (
            lambda P, y: confmax.risk_coverage("accuracy", P, y, [confmax.maximize(WITH_COST, P)]),
            "does not abstain; tune it with abstain=True",
        ),
    ],
)
def test_what_is_no_curve_is_refused(call, sentence):
    P, y = sample(100)
    with pytest.raises(ValueError, match=sentence):
        call(P, y)


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
