"""Limits on several labels per row: beside enumeration of all thresholds, bounds, and rows that tuned nothing."""

import itertools
import pickle
import re

import numpy as np
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

import confmax
from confmax import constraints as c
from confmax.confusion import Confusion
from confmax.metrics import labels as label_metrics
from confmax.tables.decisions import ANY
from tests.cli_helpers import document, run

pytestmark = pytest.mark.filterwarnings("ignore:no row of y")
MEANS = [name for name in label_metrics.names(ANY) if not name.startswith("micro")]
NAMES = ["a", "b", "c"]
PLAIN = {"decisions": "any", "calibration": None, "classes": NAMES}
# functions of how often a label is true, decided and true, and decided, written apart from the library's
QUANTITIES = {
    "recall": lambda r, t, q: t / r,
    "precision": lambda r, t, q: t / q if q else 0.0,
    "specificity": lambda r, t, q: (1 - r - q + t) / (1 - r),
    "fpr": lambda r, t, q: (q - t) / (1 - r),
    "npv": lambda r, t, q: (1 - r - q + t) / (1 - q) if q < 1 else 0.0,
    "rate": lambda r, t, q: q,
    "f1": lambda r, t, q: 2 * t / (r + q),
}


def drawn(n=8, L=3, seed=0, digits=1):
    rng = np.random.default_rng(seed)
    P = rng.beta(0.7, 1.5, (n, L)).round(digits)
    Y = (rng.random((n, L)) < P).astype(int)
    Y[:2] = [[1] * L, [0] * L]
    return P, Y


def every_rule(P, S):
    """Return the statistics of all choices of one threshold for each label."""
    cuts = [[column > t for t in (*np.unique(column), -1.0)] for column in P.T]
    for decided in itertools.product(*cuts):
        D = np.stack(decided, axis=1)
        yield Confusion(S.mean(axis=0), (S * D).mean(axis=0), D.mean(axis=0))


def on_label(name, k):
    """Return the function of statistics that a limit on label ``k`` reads."""
    return lambda S: QUANTITIES[name](S.rows[k], S.diagonal[k], S.columns[k])


def best(name, P, S, *kept):
    """Return the largest value of all thresholds that keep limits, and how many keep them."""
    metric = label_metrics.get(name)
    values = [float(metric.values(one)) for one in every_rule(P, S) if all(limit(one) for limit in kept)]
    return max(values, default=None)


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("estimate", ["model", "labels"])
def test_within_limits_on_labels_no_thresholds_are_better(name, estimate):
    P, Y = drawn(7)
    recall, rate = on_label("recall", 1), on_label("rate", 2)
    expected = best(
        name, P, P if estimate == "model" else Y, lambda S: recall(S) >= 0.8 - 1e-12, lambda S: rate(S) <= 0.3
    )
    limits = ["recall[b] >= 0.8", c.rate("c") <= 0.3]
    found = confmax.maximize(name, P, Y, confusion=estimate, constraints=limits, **PLAIN)
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert found.feasible
    assert abs(found.gap) <= 1e-12
    assert "proved: no thresholds, one for each label, within the limits have a higher" in found.guarantee


@pytest.mark.parametrize(
    "text",
    [
        *("recall[a] >= 0.7", "recall[a] <= 0.4", "precision[a] >= 0.6", "specificity[a] >= 0.9", "fpr[a] <= 0.1"),
        "npv[a] >= 0.8",
        "rate[a] >= 0.5",
        "f1[a] >= 0.3",
        "f1[a] <= 0.3",
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_every_quantity_of_a_label_is_limited_exactly(text, seed):
    P, Y = drawn(7, seed=seed)
    name, sign, number = text.replace("[a]", "").split()
    read, side = on_label(name, 0), 1 if sign == ">=" else -1
    expected = best("macro_f1", P, Y, lambda S: side * (read(S) - float(number)) >= -1e-12)
    found = confmax.maximize("macro_f1", P, Y, confusion="labels", constraints=text, on_infeasible="closest", **PLAIN)
    (outcome,) = found.constraints
    S = found.statistics
    assert outcome.value == pytest.approx(read(S), abs=1e-12)
    assert outcome.slack == pytest.approx(side * (read(S) - float(number)), abs=1e-12)
    assert found.feasible == (expected is not None)
    if expected is not None:
        assert found.value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", MEANS)
def test_budgets_are_kept_and_bounded(name):
    """The best of all thresholds lies between the value and the bound, and mostly is the value."""
    equal = 0
    for seed in range(6):
        P, Y = drawn(7, seed=seed)
        S = P if seed % 2 else Y
        expected = best(
            name,
            P,
            S,
            lambda S: S.columns.sum() <= 0.7 + 1e-12,
            lambda S: S.columns[0] - S.columns[1] >= -0.2 - 1e-12,
        )
        found = confmax.maximize(
            name,
            P,
            Y,
            confusion="model" if seed % 2 else "labels",
            constraints=["labels_per_row <= 0.7", "rate[a] - rate[b] >= -0.2"],
            on_infeasible="closest",
            **PLAIN,
        )
        assert found.feasible
        assert found.value <= expected + 1e-12
        assert expected <= found.upper_bound + 1e-12
        equal += found.value >= expected - 1e-12
    assert equal >= 3


MICRO = ["micro_f1", "micro_jaccard", "micro_precision", "micro_recall"]


@pytest.mark.parametrize("name", MICRO)
@pytest.mark.parametrize("estimate", ["model", "labels"])
def test_a_ratio_of_sums_has_the_best_thresholds_of_all_labels_within_limits(name, estimate):
    P, Y = drawn(9)
    S = P if estimate == "model" else Y
    metric = label_metrics.get(name)
    best = 0.0
    for cut in itertools.product(*((-1.0, *np.unique(p)) for p in P.T)):
        D = np.array(cut) < P
        one = Confusion(S.mean(axis=0), (S * D).mean(axis=0), D.mean(axis=0))
        if on_label("recall", 1)(one) >= 0.7 - 1e-12 and one.columns.sum() <= 1.5:
            best = max(best, float(metric.values(one)))
    limits = ["recall[b] >= 0.7", "labels_per_row <= 1.5"]
    found = confmax.maximize(name, P, Y, confusion=estimate, constraints=limits, **PLAIN)
    assert found.feasible
    # a linear program leaves one label between two cuts, and one decision of nine rows is much
    assert best - 0.03 <= found.value <= best + 1e-12
    assert best <= found.upper_bound + 1e-12
    with pytest.raises(confmax.Infeasible, match="labels_per_row <= 0"):
        confmax.maximize(name, P, Y, constraints=["labels_per_row <= 0.1", "recall[b] >= 0.7"], **PLAIN)


@pytest.mark.parametrize("name", ["micro_f1", "micro_jaccard"])
def test_labels_without_limits_have_one_threshold_unless_an_estimate_is_named(name):
    P, Y = drawn(60)
    limits = ["recall[b] >= 0.7", "labels_per_row <= 2"]
    metric = label_metrics.get(name)
    share = 20.0 / (20.0 + Y.sum(axis=0))
    S = share * P + (1.0 - share) * Y
    best = 0.0
    for t, own in itertools.product((-1.0, *np.unique(P)), repeat=2):
        D = np.where(np.arange(3) == 1, own, t) < P
        one = Confusion(S.mean(axis=0), (S * D).mean(axis=0), D.mean(axis=0))
        if on_label("recall", 1)(one) >= 0.7 - 1e-12 and one.columns.sum() <= 2.0:
            best = max(best, float(metric.values(one)))
    found = confmax.maximize(name, P, Y, constraints=limits, **PLAIN)
    assert found.mode == "blend"
    assert found.rule.thresholds[0] == found.rule.thresholds[2]
    assert best - 1e-3 <= found.value <= best + 1e-12
    named = confmax.maximize(name, P, Y, constraints=limits, confusion="blend", **PLAIN)
    assert named.value >= found.value - 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_the_rule_that_is_drawn_towards_others_keeps_its_limits(seed):
    rng = np.random.default_rng(seed)
    n, L = int(rng.integers(150, 400)), int(rng.integers(2, 6))
    P, Y = drawn(n, L, seed=seed, digits=3)
    Y[:, 0] &= rng.random(n) < 0.3
    P = P.astype(np.float32 if seed % 2 else np.float64)
    name = ["macro_f1", "g_mean", "micro_f1", "macro_jaccard"][seed % 4]
    recall = float(rng.choice([0.6, 0.8, 0.95]))
    limits = [f"recall[0] >= {recall}", f"labels_per_row <= {1.2 + 0.2 * L}", "rate[1] + 2 rate[0] <= 2.4"]
    if name == "micro_f1":
        # one threshold for all labels leaves no room for these
        limits[1:] = [f"labels_per_row <= {L}", "rate[1] + 2 rate[0] <= 3"]
    weight = rng.integers(1, 4, n)
    free = confmax.maximize(name, P, Y, decisions="any", sample_weight=weight)
    found = confmax.maximize(name, P, Y, decisions="any", sample_weight=weight, constraints=limits)
    assert found.feasible
    assert found.value <= found.upper_bound <= free.upper_bound + 1e-9
    # the limits are those of the decisions, on the labels as on the estimate
    w = weight / weight.sum()
    D = found.predict(P)
    on_labels = [w @ (Y[:, 0] * D[:, 0]) / (w @ Y[:, 0]), (w @ D).sum(), w @ D[:, 1] + 2 * w @ D[:, 0]]
    assert [one.label_value for one in found.constraints] == pytest.approx(on_labels, abs=1e-6)
    # limits that cost nothing change nothing
    loose = ["recall[0] >= 0", f"labels_per_row <= {L}"]
    same = confmax.maximize(name, P, Y, decisions="any", sample_weight=weight, constraints=loose)
    if name == "micro_f1":
        # the common threshold is searched again beside that of the label
        assert same.value >= free.value - 1e-9
    else:
        assert same.rule.thresholds.tolist() == free.rule.thresholds.tolist()
        assert same.value == pytest.approx(free.value, abs=1e-9)


def test_the_price_is_what_a_larger_budget_is_worth():
    P, _ = drawn(3000, 4, seed=1, digits=8)
    values = {}
    for budget in (0.5, 0.51):
        found = confmax.maximize("macro_f1", P, decisions="any", constraints=c.labels_per_row() <= budget)
        assert found.constraints[0].value == pytest.approx(budget, abs=1e-3)
        assert found.gap <= 1e-3
        values[budget] = found
    price = values[0.5].constraints[0].price
    assert price == pytest.approx((values[0.51].value - values[0.5].value) / 0.01, rel=0.1)
    loose = confmax.maximize("macro_f1", P, decisions="any", constraints="labels_per_row <= 3.9")
    assert loose.constraints[0].price == 0.0


def test_a_floor_on_the_recall_of_a_label_holds_on_rows_that_did_not_tune():
    """As many entries right as possible, but a recall of label 0 of at least 0.8."""
    X, Y = make_multilabel_classification(1200, 10, n_classes=5, n_labels=2, random_state=3)
    model = OneVsRestClassifier(LogisticRegression(max_iter=200))
    P = cross_val_predict(model, X, Y, method="predict_proba", cv=3)
    half = slice(0, 600), slice(600, None)
    free = confmax.maximize("hamming", P[half[0]], Y[half[0]], decisions="any")
    found = confmax.maximize("hamming", P[half[0]], Y[half[0]], decisions="any", constraints="recall[0] >= 0.8")

    def recall(solution):
        D = solution.predict(P[half[1]])[:, 0]
        return D[Y[half[1]][:, 0] == 1].mean()

    assert recall(free) < 0.75
    assert recall(found) == pytest.approx(0.8, abs=0.06)
    assert found.rule.thresholds[1:].tolist() == free.rule.thresholds[1:].tolist()
    # the estimator tunes within the same limits
    tuned = confmax.MetricMultilabelCV(model, metric="hamming", constraints="recall[0] >= 0.8", cv=3).fit(X, Y)
    assert tuned.solution_.constraints[0].kept
    assert tuned.rule_.constraints == ("recall[0] >= 0.8",)
    limits = ["precision[0] >= 0.999", "recall[0] >= 0.9"]
    with pytest.raises(confmax.Infeasible, match="no threshold of the label 0 keeps"):
        tuned.set_params(constraints=limits).fit(X, Y)


def test_a_precision_of_few_rows_is_not_kept_by_chance():
    rng = np.random.default_rng(2)
    P = rng.uniform(0.0, 0.4, (300, 2))
    Y = (rng.random(P.shape) < P).astype(int)
    # the three surest rows happen to have the label, which the model expects of four in ten
    Y[np.argsort(-P[:, 0])[:3], 0] = 1
    given = {"decisions": "any", "calibration": None, "constraints": "precision[0] >= 0.8"}
    assert confmax.maximize("macro_f1", P, Y, confusion="labels", **given).feasible
    with pytest.raises(
        confmax.Infeasible, match=r"no threshold of the label 0 keeps precision\[0\] >= 0.8: on the ble"
    ):
        confmax.maximize("macro_f1", P, Y, **given)


def test_what_no_rule_keeps_is_said_with_the_value_reached():
    P, Y = drawn(40, digits=2)
    with pytest.raises(confmax.Infeasible) as raised:
        confmax.maximize("macro_f1", P, constraints=["recall[a] >= 0.9", "labels_per_row <= 0.2"], **PLAIN)
    error = pickle.loads(pickle.dumps(raised.value))
    least = min(S.columns[0] for S in every_rule(P[:, :1], P[:, :1]) if S.diagonal[0] >= 0.9 * S.rows[0])
    assert str(error) == (
        f"no thresholds keep recall[a] >= 0.9, labels_per_row <= 0.2: on the model's estimate, labels_per_row is at "
        f"least {least:.3g} within the other limits; loosen one of them, or pass on_infeasible='closest' for the rule "
        f"that misses them least"
    )
    closest = error.closest
    assert [one.kept for one in closest.constraints] == [True, False]
    assert closest.constraints[1].value == pytest.approx(least)
    assert closest.upper_bound is None
    assert "misses the limits least" in closest.guarantee
    found = confmax.maximize(
        "macro_f1", P, Y, constraints=["precision[b] >= 0.99", "recall[b] >= 0.9"], on_infeasible="closest", **PLAIN
    )
    assert found.infeasibility.startswith("no threshold of the label 'b' keeps precision[b] >= 0.99, recall[b] >= 0.9")


def test_the_limits_are_printed_and_saved_with_the_rule(tmp_path):
    P, Y = drawn(60, digits=2)
    found = confmax.maximize("macro_f1", P, Y, constraints=["recall[a] >= 90 %", "labels_per_row <= 1"], **PLAIN)
    for text in (repr(found), found._repr_html_().replace("&gt;", ">").replace("&lt;", "<")):
        assert "recall[a] >= 0.9" in text
        assert "price" in text
        assert ("(misses a constraint)" in text) == bool(found.missed_by)
    found.rule.save(tmp_path / "rule.json")
    again = confmax.LabelRule.load(tmp_path / "rule.json")
    assert again.constraints == ("recall[a] >= 0.9", "labels_per_row <= 1")
    assert again == found.rule
    assert "tuned within recall[a] >= 0.9, labels_per_row <= 1" in repr(again)


def test_metrics_without_an_end_of_their_own_are_maximised_within_limits():
    P, Y = drawn(60, digits=2)
    found = confmax.maximize("macro_recall", P, Y, constraints="labels_per_row <= 1", **PLAIN)
    assert found.constraints[0].value <= 1.0
    assert found.value > 0.5
    with pytest.raises(ValueError, match="macro_recall cannot be maximised"):
        confmax.maximize("macro_recall", P, Y, **PLAIN)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"decisions": 2, "constraints": "labels_per_row <= 2"},
            "decisions=2 gives every row so many labels: labels_per_row cannot be limited",
        ),
        ({"constraints": "tags_per_row <= 2"}, r"no metric 'tags_per_row'; did you mean labels_per_row\?"),
        (
            {"constraints": "magnitude <= 2"},
            r"and coverage, fpr and rate can be limited, of several labels also labels_per_",
        ),
        ({"confidence": 0.9}, "confidence is of one class for every row"),
        ({"constraints": "recall[d] >= 0.8"}, r"cannot be used: there is no label 'd'; labels are a, b, c"),
        ({"constraints": "rate[not a] <= 0.8"}, r"there is no label 'not a'; add the rates of labels"),
        ({"constraints": "recall[a] + recall[b] >= 0.9"}, "rates can be added, .* limit each in a text of its own"),
        ({"constraints": "recall[a] + recall[b] >= 1.4"}, "no single quantity; rates can be added"),
        ({"constraints": "recall[a] >= 0.9, recall[b] >= 0.8"}, "write every constraint as a text of its own"),
        ({"constraints": "accuracy >= 0.8"}, "accuracy is of no label; limit one label"),
        ({"constraints": "recall >= 0.8"}, "recall is of no label; limit one label"),
        ({"constraints": "coverage[a] >= 0.8"}, r"coverage\[a\] is of no label"),
        ({"constraints": "min(recall[a] | group) >= 0.8"}, "rules of several labels know no groups"),
        ({"metric": lambda r, t, q: t.sum()}, "limits of several labels need a mean over labels"),
        ({"on_infeasible": "never"}, "on_infeasible is 'raise' or 'closest'"),
    ],
)
def test_what_cannot_be_limited_is_refused(change, sentence):
    P, Y = drawn()
    given = {"metric": "macro_f1", "proba": P, "y": Y, "constraints": "recall[a] >= 0.5", **PLAIN, **change}
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(**given)


def test_labels_that_no_row_or_every_row_has():
    P, Y = drawn(30)
    Y[:, 2] = 0
    with pytest.raises(ValueError, match=r"no row has the label c, so recall\[c\] is 0 for every rule"):
        confmax.maximize("macro_f1", P, Y, constraints="recall[c] >= 0.5", **PLAIN)
    found = confmax.maximize("macro_f1", P, Y, constraints=["rate[c] <= 0.1", "labels_per_row <= 0.8"], **PLAIN)
    assert found.feasible
    Y[:, 2] = 1
    with pytest.raises(ValueError, match=r"every row has the label c, so specificity\[c\] is 0"):
        confmax.maximize("macro_f1", P, Y, confusion="labels", constraints="specificity[c] >= 0.5", **PLAIN)


def test_labels_per_row_is_no_limit_of_one_class_per_row():
    with pytest.raises(ValueError, match=r"every row has one class; pass decisions='any'"):
        confmax.maximize("accuracy", [[0.2, 0.8], [0.6, 0.4]], constraints="labels_per_row <= 1")


@pytest.mark.usefixtures("inside")
def test_the_command_line_takes_limits():
    P, Y = drawn(80, digits=3)
    heads = ",".join([*NAMES, *(f"p_{name}" for name in NAMES)])
    np.savetxt("t.csv", np.hstack([Y, P]), delimiter=",", header=heads, comments="", fmt="%.3f")
    command = ("tune", "t.csv", "--decisions", "any", "--labels", "a,b,c", "--metric", "macro_f1")
    found = document(*command, "--subject-to", "recall[a] >= 0.8", "--subject-to", "labels_per_row <= 1.5")
    given = {"decisions": "any", "classes": NAMES, "constraints": ["recall[a] >= 0.8", "labels_per_row <= 1.5"]}
    solution = confmax.maximize("macro_f1", P, Y, **given)
    assert found["tuned"] == pytest.approx(solution.value)
    assert [one["value"] for one in found["constraints"]] == pytest.approx([o.value for o in solution.constraints])
    assert found["missed_by"] == list(solution.missed_by)
    assert found["rule"]["constraints"] == given["constraints"]
    # protected thresholds have room within the limit, which then has no price
    assert "price: by how much" not in run(*command, "--subject-to", "labels_per_row <= 0.4")[0]
    shown = run(*command, "--subject-to", "labels_per_row <= 0.4", "--shrinkage", "no")[0]
    assert "labels_per_row <= 0.4" in shown
    assert "price: by how much macro_f1 rises" in shown
    _, refused = run(*command, "--subject-to", "labels_per_row <= 0.01", "--subject-to", "recall[a] >= 0.9", code=3)
    assert "labels_per_row is at least" in refused


def test_all_rows_decided_leave_none_beside_rounding():
    """Ten weights of one tenth do not quite add up to one, and nothing is left of the rows that do not get a label."""
    P, Y = np.linspace(0.05, 0.95, 20).reshape(10, 2), np.eye(10, 2, dtype=int)
    found = confmax.maximize(
        "balanced_accuracy", P, Y, decisions="any", constraints="npv[1] <= 0.1", confusion="labels"
    )
    assert found.constraints[0].value == 0.0
    assert found.upper_bound is not None


def test_a_model_of_many_different_probabilities_needs_few_corners():
    """Nearly every row is a corner of the curves of a model; the bound is met as if all of them were in the program."""
    P = np.random.default_rng(0).beta(0.5, 3, (5000, 4))
    limits = ["labels_per_row <= 0.4", "rate[1] + rate[2] >= 0.25"]
    found = confmax.maximize("macro_f1", P, decisions="any", constraints=limits)
    assert found.feasible
    assert 0.0 <= found.gap <= 1e-6


def test_ceilings_that_contradict_each_other_end_soon():
    P, Y = drawn(110, 6, seed=4, digits=4)
    limits = ["labels_per_row <= 1.02", "labels_per_row >= 5.76", "rate[1] + 2 rate[2] >= 0.27"]
    given = {"decisions": "any", "confusion": "labels", "on_infeasible": "closest"}
    found = confmax.maximize("mcc", P.astype(np.float32), Y, constraints=limits, **given)
    assert "no thresholds keep labels_per_row <= 1.02, labels_per_row >= 5.76" in found.infeasibility
    assert 1.0 < found.constraints[0].value < 5.77


def test_a_simple_rule_that_keeps_a_precision_by_chance_takes_no_place():
    rng = np.random.default_rng(2)
    P = rng.uniform(0.0, 0.4, (300, 2))
    Y = (rng.random(P.shape) < P).astype(int)
    # four rows above one half have the label, which the model expects of six in ten
    P[:4, 0], Y[:4, 0] = 0.6, 1
    found = confmax.maximize(
        "macro_precision",
        P,
        Y,
        decisions="any",
        calibration=None,
        constraints="precision[0] >= 0.7",
        on_infeasible="closest",
    )
    assert found.infeasibility.startswith("no threshold of the label 0 keeps precision[0] >= 0.7")
    assert found.upper_bound is None


def test_a_limit_that_no_text_holds_is_kept_and_left_out_of_the_rule_with_a_warning():
    P, Y = drawn(60, digits=2)
    limits = [c.rate("a | u") + c.rate("b") <= 0.4, c.recall("c") >= 0.5]
    given = {"classes": ["a | u", "b", "c"], "constraints": limits}
    for decisions in ("any", 2):
        with pytest.warns(UserWarning, match=r"rate\[a \| u\] \+ rate\[b\] <= 0.4 cannot be read back from a text"):
            found = confmax.maximize("hamming", P, Y, decisions=decisions, on_infeasible="closest", **given)
        assert found.rule.constraints == ("recall[c] >= 0.5",) and len(found.constraints) == 2
    with pytest.warns(UserWarning, match="the rule keeps it here, but does not hold it"):
        one = confmax.maximize("accuracy", P / P.sum(axis=1)[:, None], constraints=limits[:1], classes=given["classes"])
    assert one.rule.constraints == () and one.feasible


@pytest.mark.parametrize("thresholds", [5.0, None, "a", [], [np.nan], [[0.1, 0.2]]])
def test_thresholds_that_are_no_list_of_numbers_are_refused(thresholds):
    with pytest.raises(ValueError, match="thresholds is a list of numbers, one for each label; got"):
        confmax.LabelRule.from_thresholds(thresholds)
    with pytest.raises(ValueError, match="there are 2 thresholds, and classes names 1 labels"):
        confmax.LabelRule.from_thresholds([0.1, 0.2], classes=["a"])


@pytest.mark.parametrize("limit", ["specificity[0] >= 0.5", "npv[0] >= 0.5", "rate[0] <= 0.1"])
def test_a_label_that_is_never_decided_keeps_what_that_keeps(limit):
    P, Y = drawn(30)
    Y[:, 0] = 0
    with pytest.warns(UserWarning, match="no row of y has the label 0"):
        found = confmax.maximize("macro_f1", P, Y, decisions="any", constraints=limit)
    assert found.feasible and found.upper_bound >= found.value


def test_what_is_reached_knows_the_least_number_of_rows():
    """Labels of few rows keep a precision by chance: the sentence says what few rows reach, and what enough rows do."""
    rng = np.random.default_rng(4)
    P = rng.beta(0.6, 4.0, (400, 3))
    Y = (rng.random((400, 3)) < P**1.3).astype(int)
    given = {"decisions": "any", "calibration": None, "constraints": "precision[2] >= 0.7"}
    with pytest.raises(confmax.Infeasible) as told:
        confmax.maximize("macro_f1", P, Y, **given)
    few, enough = (float(number) for number in re.findall(r"at most ([\d.]+\d)", str(told.value)))
    assert "on 1 row," in str(told.value) and "the model or 7 rows" in str(told.value)
    # by counting all thresholds of the label, on any blend
    order = np.argsort(-P[:, 2])
    ranks = np.arange(1, 401)
    shares = [np.cumsum(column[order]) / ranks for column in (Y[:, 2], P[:, 2])]
    low, high = np.minimum(*shares), np.maximum(*shares)
    assert low.max() <= few + 5e-4 and few <= high.max() + 5e-4
    assert low[6:].max() <= enough + 5e-4 and enough <= high[6:].max() + 5e-4 and enough < few
    # and the proof is one of such thresholds
    found = confmax.maximize("macro_f1", P, Y, **{**given, "constraints": "precision[2] >= 0.4"})
    assert found.shown_by == 3 and "the model or 3 rows show a precision" in found.guarantee
    on_labels = confmax.maximize(
        "macro_f1", P, Y, **given | {"confusion": "labels", "constraints": "precision[2] >= 0.4"}
    )
    assert on_labels.shown_by == 1 and "rows show" not in on_labels.guarantee
