"""`confmax.score` of rules of several labels, and functions of one class for every row, which refuse such rules."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, jaccard_score, precision_score

import confmax
from confmax import LabelRule, metrics
from confmax.confusion import Gains
from confmax.evaluate.label_lines import judge_labels
from confmax.evaluate.label_scores import compare_labels
from confmax.metrics import labels as label_metrics
from confmax.tables.decisions import ANY, decisions_of
from confmax.tables.several import labels_table

NAMES = ("sea", "sun", "rain")


def rows(n=200):
    draw = np.random.default_rng(1)
    P = draw.beta(1, 2, (n, 3))
    return P, (draw.random(P.shape) < P**1.3).astype(int), draw.integers(1, 4, n).astype(float)


RULE = LabelRule.from_thresholds([0.3, 0.4, 0.2], classes=NAMES)
BEST = LabelRule(Gains.reduced([1.0, 2.0, 1.0]), np.ones(1), NAMES, decisions_of(1))


def test_values_are_those_of_scikit_learn_with_weights():
    P, Y, w = rows()
    names = ["macro_f1", "micro_f1", "macro_jaccard", "macro_precision", "balanced_accuracy"]
    found = confmax.score(names, P, Y, RULE, sample_weight=w, n_replicates=0)
    H = RULE.predict(P)
    each = [balanced_accuracy_score(Y[:, k], H[:, k], sample_weight=w) for k in range(3)]
    expected = [
        f1_score(Y, H, average="macro", sample_weight=w),
        f1_score(Y, H, average="micro", sample_weight=w),
        jaccard_score(Y, H, average="macro", sample_weight=w),
        precision_score(Y, H, average="macro", sample_weight=w),
        np.mean(each),
    ]
    assert found.rules == ("p > 0.5", "separate thresholds", "rule")
    assert found.values[:, 2] == pytest.approx(expected)
    assert found.values[0, 0] == pytest.approx(f1_score(Y, P > 0.5, average="macro", sample_weight=w))
    # rows of weight zero are as if they were not there
    some = np.arange(len(P)) < 100
    apart = confmax.score("macro_f1", P, Y, RULE, sample_weight=some * 1.0)
    assert apart.n_rows == 100
    assert (apart.replicates == confmax.score("macro_f1", P[some], Y[some], RULE).replicates).all()


def test_replicates_draw_rows():
    """The spread is that of a bootstrap that evaluates drawn rows one sample at a time."""
    P, Y, _ = rows()
    found = confmax.score("macro_f1", P, Y, RULE, n_replicates=2000).replicates[0]
    draw, H = np.random.default_rng(5), RULE.predict(P)
    own = []
    for _ in range(500):
        k = draw.integers(0, len(P), len(P))
        own.append(f1_score(Y[k], H[k], average="macro"))
    assert found[-1].std() == pytest.approx(np.std(own), rel=0.15)
    assert found[-1].mean() == pytest.approx(np.mean(own), abs=3 * np.std(own) / 500**0.5 + 1e-3)
    minus = confmax.score("macro_f1", P, Y, RULE).difference("rule")
    assert minus == confmax.score("macro_f1", P, Y, RULE).difference("rule", "p > 0.5")
    assert minus.low < minus.value < minus.high


def test_rules_solutions_and_decisions_are_judged_beside_what_they_are_compared_with():
    P, Y, _ = rows()
    solution = confmax.maximize("macro_f1", P, Y, decisions="any")
    given = {"mine": P > 0.4, "best": BEST}
    found = confmax.score("macro_f1", P, Y, solution, rules=given, classes=NAMES, n_replicates=0)
    plain = ("p > 0.5", "top-1", "top-1 of p/prior", "separate thresholds")
    assert found.rules == (*plain, "rule", "mine", "best")
    decided = [solution.predict(P), P > 0.4, BEST.predict(P)]
    assert found.values[0, 4:] == pytest.approx([f1_score(Y, H, average="macro") for H in decided])
    assert set(found.to_dict()["metrics"]["macro_f1"]["mine"]["minus"]) == set(plain)


def test_columns_go_by_name():
    P, Y, _ = rows()
    order = [2, 0, 1]
    frame = pd.DataFrame(P[:, order], columns=[NAMES[k] for k in order])
    truth = pd.DataFrame(Y[:, order], columns=[NAMES[k] for k in order])
    expected = confmax.score("macro_f1", P, Y, RULE, n_replicates=0).values
    assert (confmax.score("macro_f1", frame, truth, RULE, n_replicates=0).values == expected).all()
    named = confmax.score("macro_f1", P[:, order], Y[:, order], RULE, classes=[NAMES[k] for k in order], n_replicates=0)
    assert named.values == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"decides the labels \['sea', 'sun', 'rain'\] and the table has"):
        confmax.score("macro_f1", P, Y, RULE, classes=["a", "b", "c"])


def test_a_rule_that_draws_has_its_expectation():
    P, Y, _ = rows()
    two = Gains.reduced([[1.0] * 3, [1.0] * 3], [[-0.3, -0.4, -0.2], [-0.5] * 3])
    rule = LabelRule(two, np.array([0.25, 0.75]), NAMES)
    hits = confmax.score("hamming", P, Y, rule, n_replicates=0).values[0, [0, -1]]
    parts = [1 - np.abs(Y - H).mean() for H in (RULE.predict(P), P > 0.5)]
    assert hits == pytest.approx([parts[1], 0.25 * parts[0] + 0.75 * parts[1]])


def test_labels_without_rows_are_left_out():
    P, Y, _ = rows()
    Y[:, 1] = 0
    with pytest.warns(UserWarning, match="no row has the label 'sun': metrics leave such labels out"):
        found = confmax.score("macro_f1", P, Y, RULE, n_replicates=0)
    assert found.values[0, -1] == pytest.approx(f1_score(Y[:, [0, 2]], RULE.predict(P)[:, [0, 2]], average="macro"))
    # of a replicate that lacks a label, metrics that divide by how often it is true are means over the others
    Y[:, 1] = np.arange(len(P)) == 0
    table = labels_table(ANY, P, Y, None, NAMES)
    metrics = {"b": label_metrics.resolve("balanced_accuracy", None)}
    judged = judge_labels(table, lambda part: {"rule": RULE.predict(P).astype(float)})
    found = compare_labels(judged, metrics, plain=(), n_replicates=400)
    assert found.absent["sun"] == pytest.approx(np.exp(-1), abs=0.1) and np.isfinite(found.replicates).all()


def test_bad_input_is_one_sentence():
    P, Y, _ = rows()
    single = confmax.DecisionRule.from_weights(np.ones(3), classes=NAMES)
    cases = {
        "one class for every row, and another one several labels": {"rules": {"other": single}},
        "group is of one class for every row": {"group": Y[:, 0]},
        "stratified is of one class for every row": {"stratified": True},
        "pos_label is of one class": {"pos_label": 1},
    }
    for sentence, more in cases.items():
        with pytest.raises(ValueError, match=sentence):
            confmax.score("macro_f1", P, Y, RULE, **more)
    with pytest.raises(ValueError, match="there is no metric 'min_recall' of several labels"):
        confmax.score("min_recall", P, Y, RULE)
    with pytest.raises(ValueError, match="and rows have several labels"):
        confmax.score("macro_f1", P, Y[:, 0], RULE)
    with pytest.raises(ValueError, match="has no parameter gamma"):
        label_metrics.get("macro_f_beta", None, gamma=1)


# --- functions of one class for every row ----------------------------------------------------------------------------

P1 = np.random.default_rng(2).dirichlet(np.ones(3), 60)
Y1 = np.array(NAMES)[P1.argmax(axis=1)]


def displays():
    plotting = confmax.plotting
    ways = {name: getattr(plotting, name) for name in plotting.__all__ if name.endswith("Display")}
    on_rows = {"ConfusionChangeDisplay", "TradeOffDisplay", "ThresholdDisplay", "RiskCoverageDisplay"}
    for name, display in ways.items():
        rows_of = (P1, Y1) if name in on_rows else ()
        if hasattr(display, "from_rule"):
            yield f"{name}.from_rule", lambda given, display=display, more=rows_of: display.from_rule(given, *more)
        if name != "DecisionRegionsDisplay" and hasattr(display, "from_solution"):
            yield (
                f"{name}.from_solution",
                lambda given, display=display, more=rows_of: display.from_solution(given, *more),
            )


OTHERS = {
    "FixedRuleClassifier": lambda given: confmax.FixedRuleClassifier(LogisticRegression(), given).fit(P1, Y1),
    **dict(displays()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_functions_of_one_class_refuse_rules_of_several_labels(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "Display" in name:
        pytest.importorskip("matplotlib")
    P, Y, _ = rows()
    solution = confmax.maximize("macro_f1", P, Y, classes=NAMES, decisions="any")
    for given in (solution, *(() if name.endswith("from_solution") else (RULE,))):
        with pytest.raises(ValueError, match=r"is of one class for every row, and this rule decides several labels"):
            OTHERS[name](given)
    assert not list(tmp_path.iterdir())


# --- limits -----------------------------------------------------------------------------------------------------------


def test_limits_of_the_tuning_are_judged_on_the_rows():
    P, Y, w = rows()
    texts = ("recall[sea] >= 0.99", "labels_per_row <= 2", "precision[rain] >= 0.1", "rate[sea] - 2 rate[sun] <= 0.5")
    rule = LabelRule.from_thresholds([0.3, 0.4, 0.2], classes=NAMES, constraints=texts)
    found = confmax.score("macro_f1", P, Y, rule, rules={"other": RULE}, sample_weight=w)
    assert list(found.limits) == ["rule"] and found.metrics == ("macro_f1",)
    H = rule.predict(P)
    rates = np.average(H, axis=0, weights=w)
    recall = np.average(H[:, 0], weights=w * Y[:, 0])
    values = [recall, rates.sum(), np.average(Y[:, 2], weights=w * H[:, 2]), rates[0] - 2 * rates[1]]
    assert [one.value for one in found.limits["rule"]] == pytest.approx(values)
    slacks = [recall - 0.99, 2 - rates.sum(), values[2] - 0.1, 0.5 - values[3]]
    assert [one.slack for one in found.limits["rule"]] == pytest.approx(slacks)
    assert [one.kept for one in found.limits["rule"]] == [slack >= 0 for slack in slacks]
    assert all(one.low < one.value < one.high for one in found.limits["rule"])
    assert f"recall[sea] >= 0.99: {recall:.4f}" in repr(found) and f"no, missed by {-slacks[0]:.2g}" in repr(found)
    assert found.to_dict()["limits"]["rule"][0]["kept"] is False
    # columns in another order
    order = [2, 0, 1]
    moved = confmax.score(
        "macro_f1", P[:, order], Y[:, order], rule, classes=[NAMES[k] for k in order], sample_weight=w
    )
    assert [one.value for one in moved.limits["rule"]] == pytest.approx(values)


def test_limits_of_labels_without_rows_cannot_be_judged():
    P, Y, _ = rows()
    numbered = LabelRule.from_thresholds([0.3, 0.4, 0.2], constraints=("recall[1] >= 0.5", "rate[1] <= 0.9"))
    Y[:, 1] = 0
    with pytest.warns(UserWarning, match="no row has the label"):
        found = confmax.score("hamming", P, Y, numbered, classes=NAMES, n_replicates=0)
    rate, recall = found.limits["rule"]
    assert (recall.text, recall.value, recall.kept) == ("recall[1] >= 0.5", None, None)
    assert (rate.value, rate.low, rate.kept) == (pytest.approx((P[:, 1] > 0.4).mean()), None, True)
    assert "recall[1] >= 0.5: cannot be judged on these rows" in repr(found)
    # of a replicate that lacks the label, its recall has no value
    Y[0, 1] = 1
    drawn = confmax.score("hamming", P, Y, numbered, classes=NAMES, n_replicates=300).limits["rule"][0]
    assert drawn.low == drawn.value == drawn.high == float(P[0, 1] > 0.4)


def without_rain():
    P, Y, _ = rows()
    Y[:, 2] = 0
    return P, Y, np.roll(Y, 1, axis=1)


@pytest.mark.filterwarnings("ignore:no row")
def test_the_metric_of_a_solution_is_over_the_labels_of_the_rows_that_it_judges():
    P, Y, others = without_rain()
    solution = confmax.maximize("macro_f1", P, Y, classes=NAMES, decisions="any")
    best = f1_score(others, solution.predict(P), average=None)[1:].mean()
    for metric in ("macro_f1", metrics.get("macro_f1"), solution.metric):
        found = confmax.score(metric, P, others, solution, n_replicates=0)
        assert found.metrics == ("macro_f1",) and found.estimate("rule").value == pytest.approx(best)


@pytest.mark.filterwarnings("ignore:no row")
def test_no_sentence_lists_the_labels_that_some_row_has():
    P, Y, _ = without_rain()
    plan = {"classes": NAMES, "decisions": "any", "confusion": "labels"}
    path = confmax.frontier("macro_f1", "labels_per_row <=", P, Y, levels=[1.0, 0.5], **plan)
    limited = confmax.maximize("macro_f1", P, Y, constraints="labels_per_row <= 1", **plan)
    assert path.metric == "macro_f1"
    for one in (path, limited, confmax.maximize("macro_f1", P, Y, **plan)):
        assert "macro_f1" in repr(one) and "(0, 1)" not in repr(one)


def test_the_warning_of_a_label_without_rows_names_what_lacks_it():
    P, Y, _ = without_rain()
    with pytest.warns(UserWarning, match="no row of y has the label 2"):
        confmax.maximize("macro_f1", P, Y, decisions="any")
    with pytest.warns(UserWarning, match="no row of proba has the label 2"):
        confmax.maximize("macro_f1", P * [1, 1, 0], decisions="any")


@pytest.mark.parametrize("metric", [metrics.get("macro_f1").over((0, 1)), metrics.get("g_mean", rho=0.1)], ids=repr)
def test_what_a_metric_of_labels_does_not_take_is_refused(metric):
    P, Y, _ = rows()
    for run in (lambda: confmax.maximize(metric, P, Y, decisions="any"), lambda: confmax.score(metric, P, Y, RULE)):
        with pytest.raises(ValueError, match=f"one class for every row; .* pass '{metric.name}'"):
            run()
    assert label_metrics.resolve(metrics.get("macro_f_beta", beta=2), ANY).name == "macro_f_beta"


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["array", "sparse"])
def test_a_matrix_of_objects_is_one_of_numbers_and_not_of_names(form):
    P, Y, _ = rows()
    given = Y.astype(object)
    plain = confmax.maximize("macro_f1", form(P), Y, decisions="any")
    assert confmax.maximize("macro_f1", form(P), given, decisions="any").rule == plain.rule
    given[3, 1] = pd.NA
    with pytest.raises(ValueError, match="row 3, column 1 of y is nan, and labels are 0 or 1"):
        confmax.maximize("macro_f1", form(P), given, decisions="any")


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (5, "y must be a matrix .*; got 5"),
        ([[["sea"], "sun"]] * 200, r"row 0 of y has the label \['sea'\], which is none"),
    ],
    ids=["number", "list in a list"],
)
def test_labels_of_no_kind_are_refused_in_a_sentence(y, sentence):
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("macro_f1", rows()[0], y, classes=NAMES, decisions="any")
