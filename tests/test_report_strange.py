"""Reports of strange input: what is said stays true, what cannot be said is refused before anything is written."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as reference

import confmax
from confmax.confusion import Gains
from confmax.evaluate.applicable import applicable
from confmax.evaluate.evidence import cross_fitted
from confmax.evaluate.figures import metric_name
from confmax.oracle import make_table
from confmax.page.charts import charts
from confmax.page.sections import certificate
from confmax.page.words import class_sentence, fold_range, how_it_decides, outside_folds, price, probability, threshold
from confmax.rule import DecisionRule
from tests.report_helpers import cross_fit, judge, sample, shown

COST = [[0, 1, 4, 0.5], [1, 0, 1, 0.5], [4, 1, 0, 0.5]]


@pytest.fixture(scope="module")
def abstaining():
    P, y = sample(500)
    return confmax.maximize(confmax.metrics.get("linear", cost=COST), P, y)


def written(path, *given, **more):
    pytest.importorskip("vl_convert")
    confmax.report.write(path, *given, **more)
    text = re.sub(r"<(script|style).*?</\1>", " ", path.read_text(), flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_an_abstaining_rule_says_how_often_it_abstains(abstaining):
    P, y = sample(400, seed=4)
    found = judge(abstaining, P, y, confmax.metrics.get("linear", cost=COST), replicates=0)
    share = np.mean(abstaining.rule.predict(P) == 3)
    assert f"It decides 3, which is not a class, for {100 * share:.1f} % of rows." in (how_it_decides(found))
    expected = -np.mean(np.array(COST)[y, abstaining.rule.predict(P)])
    assert found.main.tuned.value == pytest.approx(expected)
    # the trade-off counts the same costs, and passes through the rule
    assert found.trade.tuned[20] == pytest.approx(expected)


@pytest.mark.parametrize("given", [{"second": "macro_f1"}, {"metric": "cohen_kappa"}])
def test_metrics_that_an_abstaining_rule_has_not_are_refused(abstaining, tmp_path, given):
    pytest.importorskip("vl_convert")
    with pytest.raises(ValueError, match="is not defined for this rule, which decides between 4 things for 3 classes"):
        confmax.report.write(tmp_path / "page.html", abstaining, *sample(300, seed=4), **given)
    assert not list(tmp_path.iterdir())


def test_what_is_proved_is_told_of_the_metric_that_it_was_proved_for():
    P, y = sample(400)
    proved = confmax.maximize("g_mean", P, y, confusion="model", calibration=None)
    found = judge(proved, *sample(400, seed=5), metric="macro_f1", replicates=0)
    assert "reaches a G-mean above" in certificate(found) and "macro" not in certificate(found)
    axis = charts(found)["convergence"].spec["layer"][0]["encoding"]["y"]["title"]
    assert axis == "G-mean"


def test_without_replicates_nothing_is_said_of_chance(tmp_path):
    P, y = sample(300)
    rule = DecisionRule.from_weights([1.0, 2.0, 3.0])
    found = judge(rule, P, y, replicates=0)
    assert price(found) == ""
    text = written(tmp_path / "page.html", rule, P, y, metric="macro_f1", n_replicates=0)
    assert "chance explains" not in text and "could be noise" not in text and "Bars are intervals" not in text
    assert "% intervals" not in text and "More rows would show" not in text and "more than 20 classes" not in text


def test_a_rule_that_is_argmax_has_no_price_and_no_way(tmp_path):
    P, y = sample(300)
    rule = DecisionRule.from_weights([1.0, 1.0, 1.0])
    assert "trade" not in charts(judge(rule, P, y, replicates=99))
    text = written(tmp_path / "page.html", rule, P, y, metric="macro_f1", n_replicates=99)
    assert "No decision changes." in text and "as argmax does" in text and "0.00000" not in text
    assert "1.000 of the probability" not in text


def test_a_metric_over_the_present_classes_stands_once():
    P, y = sample(300, 4)
    y = np.where(y == 3, 0, y)
    with pytest.warns(UserWarning, match="divides by class sizes"):
        found = _without_the_last(P, y)
    names = [metric_name(row.name) for row in found.metrics]
    assert names[0] == "smallest recall (3 classes)" and "smallest recall" not in names
    decisions, shares, *_ = found.evidence.decided
    recalls = shares @ [reference.recall_score(y, line, labels=[0, 1, 2], average=None) for line in decisions]
    assert found.main.tuned.value == pytest.approx(recalls.min())
    others = applicable(found.evidence.table, confmax.metrics.get("macro_f1"), confmax.metrics.get("accuracy"),
                       order_known=True)  # fmt: skip
    assert "min_recall" in others


def _without_the_last(P, y):
    def tune(kept, kind):
        return confmax.maximize("min_recall", P[kept], y[kept], classes=(0, 1, 2, 3), **kind)

    solution = tune(slice(None), {})
    return shown(cross_fitted(make_table(P, y, None, (0, 1, 2, 3)).head, solution, tune, n_folds=3, seed=0))


def test_matrices_of_many_classes_of_which_few_are_there():
    P, _ = sample(300, 60)
    y = 50 + np.arange(300) % 2
    found = judge(DecisionRule.from_weights(np.ones(60)), P, y, replicates=0)
    assert {50, 51} <= set(found.change.shown())
    assert np.isfinite(found.change.limits()).all() and found.change.limits()[0] > 0
    charts(found)


def test_a_threshold_outside_the_range_of_the_folds_is_named():
    found = cross_fit("macro_f1", *sample(300), replicates=0)
    row = found.classes[1]
    assert "outside" not in outside_folds(replace(found, classes=(replace(row, folds=(0.0, 1.0)),) * 3))
    folds = [(0.0, 1e-9), (0.0, 1.0), (0.0, 1.0)]
    moved = tuple(replace(row, name=f"class {k}", folds=span) for k, span in enumerate(folds))
    assert outside_folds(replace(found, classes=moved)).endswith("lies outside this range for class 0.")


def test_thresholds_in_words():
    assert [probability(value) for value in (0.2, 0.9999, 0.99999987, 1.0, 0.0002)] == (
        ["0.200", "0.9999", "0.9999999", "1.000", "0.0002"]
    )
    assert [threshold(value) for value in (0.0, 0.31, np.inf)] == ["always", "0.310", "never"]
    P, y = sample(300, 2)
    never = judge(DecisionRule.from_weights([1.0, 0.0], [0.0, -1.0]), P, y, replicates=0)
    assert class_sentence(never, 0) == "0 is always decided, whatever its probability."
    assert class_sentence(never, 1) == "1 is never decided, whatever its probability."
    late = judge(DecisionRule.from_weights([1.0, 3e-4]), P, y, replicates=0)
    assert (
        class_sentence(late, 1) == "1 is decided when its probability exceeds 0.9997 (argmax: 0.500), and 0 otherwise."
    )
    folded = cross_fit("f1", P, y)
    assert all(" to " in fold_range(folded, row) or row.folds[0] == row.folds[1] for row in folded.classes)


def test_a_place_is_checked_before_any_work(tmp_path):
    pytest.importorskip("vl_convert")
    P, y = sample(60)
    rule = DecisionRule.from_weights([1.0, 2.0, 3.0])
    for path, message in ((tmp_path, "is a directory"), (tmp_path / "no" / "page.html", "does not exist")):
        with pytest.raises(ValueError, match=message):
            confmax.report.write(path, rule, "not a table", y, metric="macro_f1")
        with pytest.raises(ValueError, match=message):
            confmax.report.write_cross_fitted(path, "macro_f1", P, y)
    assert not list(tmp_path.iterdir())


def test_an_order_that_nobody_gave_is_asked_for(tmp_path):
    pytest.importorskip("vl_convert")
    P, y = sample(300)
    names, page = np.array(["low", "high", "mid"]), tmp_path / "page.html"
    with pytest.raises(ValueError, match="quadratic_kappa depends on the order of the classes and these have names"):
        confmax.report.write_cross_fitted(page, "quadratic_kappa", P, names[y])
    rule = DecisionRule.from_weights([1.0, 2.0, 3.0], classes=sorted(names))
    for given in ({"metric": "quadratic_kappa"}, {"metric": "macro_f1", "second": "linear_kappa"}):
        with pytest.raises(ValueError, match="kappa depends on the order of the classes"):
            confmax.report.write(page, rule, P, names[y], **given)
    with pytest.raises(ValueError, match="f1 is a metric of two classes"):
        confmax.report.write(page, rule, P, names[y], metric="macro_f1", second="f1")
    assert not page.exists()
    confmax.report.write(page, rule, P, names[y], metric="quadratic_kappa", order_known=True, n_replicates=0)
    classes = ["low", "mid", "high"]
    confmax.report.write_cross_fitted(page, "quadratic_kappa", P, np.array(classes)[y], classes=classes, n_replicates=0)


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")  # labels without any relation to them
def test_rows_that_no_fold_can_tell_apart():
    P = np.eye(3)[np.arange(90) % 3]
    with pytest.raises(ValueError, match="all rows of a class hold the same probabilities, in some order"):
        cross_fit("macro_f1", P, np.arange(90) // 30)


def test_one_of_two_classes_that_is_decided_only_up_to_some_probability():
    """A third decision is the best one where the second class is sure."""
    costs = np.array([[1.0, 0.2, -4.0], [-1.0, 0.4, 1.0]])
    rule = DecisionRule(Gains.from_matrix(costs), np.ones(1), ("a", "b", "ask"))
    P, y = sample(400, 2, seed=2)
    found = judge(rule, P, np.array(["a", "b"])[y], "accuracy", replicates=0)
    low, high = found.classes[1].between
    for p, decided in ((low, True), (high, True), (low - 0.001, False), (high + 0.001, False)):
        assert (rule.predict_index(np.array([[1 - p, p]]))[0] == 1) == decided
    assert f"b is decided when its probability lies between {low:.3f} and {high:.3f}" in class_sentence(found, 1)
    assert "thresholds" not in charts(found)
