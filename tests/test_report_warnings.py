"""Warnings and verdicts of a report: each where it is true, and not where it is not."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import confmax
from confmax.calibration import MatrixScaling
from confmax.confusion import Gains
from confmax.evaluate.evidence import cross_fitted
from confmax.evaluate.protocols import if_right
from confmax.evaluate.verdict import Difference, as_good, verdict_of
from confmax.evaluate.verdict import verdict as verdict_from
from confmax.oracle import make_table
from confmax.page import cautions as told
from confmax.page.sections import certificate
from confmax.page.words import (
    against,
    basis,
    class_sentence,
    headline,
    how_it_decides,
    number,
    outside_folds,
    price,
    verdict,
)
from confmax.populations import atoms_example
from confmax.rule import DecisionRule
from tests.report_helpers import cross_fit, judge, sample, shown

RULE = DecisionRule.from_weights([1.0, 1.7, 2.9], classes=["a", "b", "c"])
NAMES = np.array(["a", "b", "c"])


def with_differences(figures, *differences):
    """Return figures with other differences to their rivals."""
    both = zip(figures.verdict.rivals, differences, strict=True)
    rivals = [(it.name, it.value, Difference(*minus, 1.0), ()) for it, minus in both]
    return replace(figures, verdict=verdict_from("macro_f1", figures.verdict.value, rivals))


@pytest.fixture(scope="module")
def calm():
    """A rule on many rows of right probabilities, none of them its tuning rows."""
    P, y = sample(4000, sizes=[3, 2, 1.5])
    found = confmax.maximize("macro_f1", P[:2000], NAMES[y[:2000]])
    return judge(found, P[2000:], NAMES[y[2000:]])


def test_nothing_is_warned_of_where_nothing_is_wrong(calm):
    assert told.warnings_of(calm) == ()


def test_tuning_rows():
    P, y = sample(500)
    found = confmax.maximize("macro_f1", P, y)
    assert "rows that the rule was tuned on" in told.seen_rows(judge(found, P, y))
    assert "the 500 rows that the rule was tuned on" in basis(judge(found, P, y))
    assert told.seen_rows(judge(found, *sample(500, seed=1))) == ""


def test_absent_and_rare_classes(calm):
    P, y = sample(300)
    few = NAMES[np.where(y == 2, 0, y)]
    few[:4] = "c"
    found = judge(RULE, P, few)
    assert "c (4)" in told.few_rows(found) and "a (" not in told.few_rows(found)
    assert "Class c is so rare" in told.lost_classes(found)
    few[:4] = "a"
    assert told.absent(judge(RULE, P, few)).startswith("No row has the label c")
    assert told.absent(calm) == told.few_rows(calm) == told.lost_classes(calm) == ""


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")  # there is no relation, which is what is tested
def test_over_fitting():
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(3), 90)
    y = rng.integers(0, 3, 90)  # no relation: what is found on labels is chance
    found = cross_fit("macro_f1", P, y, confusion="labels", calibration=None, solver="coordinate_search")
    assert told.over_fitting(found).startswith(
        "Over-fitting"
    ) and "Expect the value on held-out rows" in told.over_fitting(found)
    assert found.evidence.solution.label_value > found.main.tuned.value + 0.05
    P, y = sample(3000)
    assert told.over_fitting(cross_fit("macro_f1", P, y)) == ""


def test_thresholds_that_vary():
    P, y = sample(60, sizes=[5, 1, 0.15], seed=1)
    y[:3] = 2
    found = cross_fit("min_recall", P, y, confusion="labels", calibration=None)
    assert max(row.spread for row in found.classes) > told.MUCH
    assert "varies between folds" in told.unstable(found)
    P, y = sample(3000)
    assert told.unstable(cross_fit("macro_f1", P, y)) == ""


def test_miscalibration(calm):
    P, y = sample(2000, sharp=3.0)
    assert "are poorly calibrated: the most" in told.miscalibrated(judge(RULE, P, NAMES[y]))
    corrected = confmax.maximize("macro_f1", P[:1000], NAMES[y[:1000]], calibration="temperature")
    assert told.miscalibrated(judge(corrected, P[1000:], NAMES[y[1000:]])) == ""
    assert told.miscalibrated(calm) == ""


def test_draws_that_gain_nothing(calm):
    P, y = sample(800)
    pair = Gains.reduced([[1.0, 1.7, 2.9], [1.0, 1.71, 2.9]])
    found = judge(DecisionRule(pair, np.array([0.5, 0.5]), tuple(NAMES)), P, NAMES[y])
    assert "decides at random with no clear benefit" in told.useless_draws(found)
    assert "draws one of 2 rules" in " ".join(how_it_decides(found))
    # both classes half of the time, of rows that cannot be told apart: only a draw has a smallest recall above zero
    alike, labels = np.full((400, 2), 0.5), np.arange(400) % 2
    coin = DecisionRule(Gains.constant(2, [0, 1]), np.array([0.5, 0.5]), (0, 1))
    assert told.useless_draws(judge(coin, alike, labels, "min_recall")) == ""
    assert told.useless_draws(calm) == ""


def test_copies(calm):
    P, y = sample(100)
    assert "same probabilities as another row (100 rows are distinct)" in told.copies(
        judge(RULE, np.repeat(P, 2, axis=0), NAMES[np.repeat(y, 2)])
    )
    assert told.copies(calm) == ""


def test_d12_equal_rows_are_told_where_they_matter_alone():
    """Trees give equal probabilities to many rows; copies of one case have one label, and draws without keys agree."""
    rng = np.random.default_rng(0)
    for trees in (10, 25, 100):
        P = np.stack([rng.multinomial(trees, p) for p in rng.dirichlet([2.0, 1.0, 1.0], 2000)]) / trees
        y = (P.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
        forest = judge(RULE, P, NAMES[y])
        assert np.mean(np.unique(P, axis=0, return_counts=True)[1]) > 1.2
        assert told.copies(forest) == "" and not any("same prob" in text for text in told.warnings_of(forest))
    # pure leaves, which are sure and wrong in places
    sure = np.eye(3)[rng.integers(0, 3, 600)]
    assert told.copies(judge(RULE, sure, NAMES[np.where(rng.random(600) < 0.9, sure.argmax(axis=1), 0)])) == ""
    # the rows of one class drawn again, as to balance the classes
    P, y = sample(600)
    again = np.concatenate([np.arange(600), np.tile(np.flatnonzero(y == 2), 4)])
    said = told.copies(judge(RULE, P[again], NAMES[y[again]]))
    assert "copies of the same cases" in said and "0 rows have another label" in said and "too narrow" in said
    drawn = DecisionRule(Gains.constant(3, [0, 1]), np.array([0.5, 0.5]), tuple(NAMES))
    said = told.copies(judge(drawn, np.repeat(P, 2, axis=0), NAMES[y[np.repeat(np.arange(600), 2)]]))
    assert "draws once for all rows that are equal" in said and "keys=" in said


def test_a_search_that_ended_early():
    P, y = sample(500)
    rushed = confmax.maximize("g_mean", P, y, confusion="model", solver="frank_wolfe", max_passes=3)
    assert "ended early, and a better rule may exist" in told.unfinished(
        judge(rushed, *sample(500, seed=2), metric="g_mean")
    )
    done = confmax.maximize("g_mean", P, y, confusion="model")
    assert told.unfinished(judge(done, *sample(500, seed=2), metric="g_mean")) == ""


@pytest.mark.parametrize(
    ("minus", "expected"),
    [
        ((0.002, -0.004, 0.008), True),
        ((0.004, -0.002, 0.013), False),  # the middle of the interval decides, not the value
        ((-0.03, -0.08, 0.02), True),
        ((0.002, 0.001, 0.003), False),  # small, and no noise
        ((-0.02, -0.03, -0.01), False),
        ((0.0, 0.0, 0.0), True),
        ((0.002, None, None), False),
        ((0.0, 0.001, 0.003), False),  # an interval of replicates that lack a class
    ],
)
def test_another_rule_is_as_good_iff_the_interval_holds_zero_and_its_middle_is_small(minus, expected):
    assert bool(as_good(Difference(*minus, None))) == expected


def test_the_simplest_rule_that_is_as_good_is_recommended(calm):
    def said(to_argmax, to_prior):
        found = with_differences(calm, to_argmax, to_prior)
        return headline(found), verdict(found)[1], " ".join(against(found))

    better, equal, loose = (0.03, 0.01, 0.05), (0.001, -0.003, 0.006), (0.03, -0.01, 0.07)
    head, first, second = said(better, equal)
    assert head == "Macro F1: p/prior is as good as the tuned rule" and "is better than argmax" in second
    assert "interval that contains zero, and its middle is too small to matter. Use p/prior" in first
    head, first, second = said(equal, equal)
    assert head == "Macro F1: argmax is as good as the tuned rule"
    assert "its middle is too small to matter. Use argmax" in first and "Use p/prior" not in second
    head, first, second = said(loose, better)
    assert (
        "better than p/prior; too few rows to say whether it beats argmax" in head
        and "could be noise" in first
        and "Use" not in first + second
    )


def test_a_kept_rule_that_decides_as_argmax_is_not_blamed_for_the_rules_of_the_folds(calm):
    P, y = sample(400)
    table = make_table(P, y).head

    def tune(kept, kind):
        found = confmax.maximize("macro_f1", P[kept], y[kept], classes=(0, 1, 2))
        weights = [1.0, 1.0, 1.0] if kind is None else [1.0, 30.0, 1.0]
        return replace(found, rule=DecisionRule.from_weights(weights))

    found = shown(cross_fitted(table, tune(slice(None), None), tune, n_folds=5, seed=0))
    assert found.changed == 0 < found.changed_by_folds and found.main.verdict == "worse"
    assert found.changed_by_folds == np.mean((P * [1, 30, 1]).argmax(1) != P.argmax(1))
    assert headline(found) == "Macro F1: tuning found nothing better than argmax"
    kind, sentence = verdict(found)
    assert kind == "unclear" and "The rule that is kept decides as argmax on all rows. Use argmax" in sentence
    share = f"{100 * found.changed_by_folds:.1f} %"
    assert f"The rules of the folds change {share} of the decisions" in sentence
    assert "for 0.0 % of rows" in " ".join(how_it_decides(found)) and f"for {share} of rows" in outside_folds(found)
    assert against(found) == [] and price(found) == ""
    # on other rows the rule may only seem to be argmax; on its tuning rows it is
    plain = judge(DecisionRule.from_weights([1.0, 1.0, 1.0]), P, y)
    assert headline(plain) == "Macro F1: the tuned rule decides as argmax does"
    assert verdict(plain)[1].startswith("The rule decides as argmax does on all these rows. Use argmax")
    seen = replace(plain, evidence=replace(plain.evidence, seen=True))
    assert headline(seen) == "Macro F1: tuning found nothing better than argmax"
    assert calm.changed == calm.changed_by_folds > 0


# --- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minus", "expected"),
    [
        ((0.2, 0.1, 0.3), "better"),
        ((-0.2, -0.3, -0.1), "worse"),
        ((0.2, 0.0, 0.3), "unclear"),
        ((0.0, 0.0, 0.0), "same"),
        ((1e-16, 1e-17, 3e-16), "same"),  # rounding of a mixture's sums
        ((0.0, 0.1, 0.3), "unclear"),  # an interval of replicates that lack a class
        ((-0.1, 0.1, 0.3), "unclear"),
        ((0.1, -0.3, -0.1), "unclear"),
        ((0.01, 0.0, 0.0), "unclear"),
        ((np.nan, 0.1, 0.3), "unknown"),
        ((0.2, None, None), "unknown"),
    ],
)
def test_a_difference_is_beyond_chance_iff_its_interval_excludes_zero_on_its_own_side(minus, expected):
    assert verdict_of(Difference(*minus, None)) == expected


def test_an_interval_that_leaves_the_value_out_is_said_to_be_useless(calm):
    kind, sentence = verdict(with_differences(calm, (0.0, 0.1, 0.3), (0.2, 0.1, 0.3)))
    assert kind == "unclear" and "unusable interval" in sentence and "contains zero" not in sentence
    same = with_differences(calm, (0.2, 0.1, 0.3), (0.0, 0.0, 0.0))
    assert "scores exactly as p/prior does" in verdict(same)[1]


def test_a_rule_that_is_worse_is_called_worse():
    P, y = sample(2000)
    found = judge(DecisionRule.from_weights([1.0, 30.0, 1.0]), P, y)
    kind, sentence = verdict(found)
    assert kind == "worse" and "Do not use the rule as it is. Use" in sentence and found.main.difference.high < 0
    assert headline(found) == "Macro F1: the tuned rule is worse than argmax and p/prior"
    assert {one.kind for one in found.verdict.rivals} == {"worse"} and found.verdict.instead == found.verdict.of
    # of those that are better, the best one is named
    assert found.verdict.of == min(found.verdict.rivals, key=lambda one: one.minus.value).name


def test_a_rule_that_is_better_is_called_better_and_its_price_is_named():
    P, y = sample(3000, sizes=[6, 1, 0.7])
    found = judge(DecisionRule.from_weights([1.0, 4.0, 6.0]), P, y, "g_mean")
    assert (
        verdict(found)[0] == "unclear"
        and "more than chance explains" in " ".join(against(found))
        and headline(found).endswith("p/prior is at least as good as the tuned rule")
    )
    worse = [row.name for row in found.metrics if row.verdict == "worse"]
    assert "accuracy" in worse and "accuracy from" in price(found)
    assert found.main.difference.low > 0


def test_what_the_rule_does_in_words():
    P, y = sample(500)
    rule = DecisionRule.from_weights([1.0, 4.0], classes=["no", "yes"])
    two, labels = P[:, :2] / P[:, :2].sum(1, keepdims=True), np.array(["no", "yes"])[np.minimum(y, 1)]
    found = judge(rule, two, labels)
    # 4 p > 1 - p
    assert (
        class_sentence(found, 1)
        == "yes is decided when its probability exceeds 0.200 (argmax: 0.500), and no otherwise."
    )
    three = judge(RULE, P, NAMES[y])
    largest = int(np.argmax([row.share for row in three.classes]))
    k = 2 if largest != 2 else 0
    ratio = [1.0, 1.7, 2.9][largest] / [1.0, 1.7, 2.9][k]
    assert f"{ratio:.3f} of the probability of {NAMES[largest]} is enough" in class_sentence(three, k)


def test_a_certificate_is_told_only_where_there_is_one():
    P, y = sample(400)
    other = sample(400, seed=5)
    proved = confmax.maximize("g_mean", P, y, confusion="model", calibration=None)
    assert "Proved" in certificate(judge(proved, *other, metric="g_mean"))
    assert f"{proved.upper_bound:.3f}" in certificate(judge(proved, *other, metric="g_mean"))
    found = confmax.maximize("g_mean", P, y, calibration=None)
    assert if_right(found) in certificate(judge(found, *other, metric="g_mean"))
    for mode, metric in (("labels", "g_mean"), ("blend", "mcc"), ("model", "mcc")):
        found = confmax.maximize(metric, P, y, confusion=mode, calibration=None)
        assert "Nothing is proved" in certificate(judge(found, *other, metric=metric))
    assert "A saved rule holds no proof" in certificate(judge(proved.rule, *other, metric="g_mean"))


def test_a_rule_tuned_on_training_rows_shows_both_values():
    rows, new = atoms_example().sample(1000, 0), atoms_example().sample(400, 1)
    clf = confmax.MetricClassifierCV(LogisticRegression(), metric="g_mean").fit(*rows)
    found = clf.solution_
    for X, y in (rows, new):
        figures = judge(found, clf.predict_proba(X), y, "g_mean")
        assert told.tuned_on_training_rows(figures) in told.warnings_of(figures)
        assert told.tuned_on_training_rows(figures).endswith(
            f"Its G-mean there is {number(found.value)}, which is in-sample. With out-of-fold probabilities, on the "
            f"labels, it is {number(found.label_value)}."
        )


def test_a_calibration_is_told_to_its_last_digit():
    P, y = sample(300)
    W = np.eye(3) + 0.1234 * np.eye(3, k=1) - 0.2345 * np.eye(3, k=-1)
    rule = replace(RULE, calibrator=MatrixScaling(W, [0.1, 0.0, -0.2], 0.00031))
    (sentence,) = (text for text in how_it_decides(judge(rule, P, NAMES[y])) if "calibrates" in text)
    assert f"({rule.calibrator}). Pass it the raw" in sentence and "floor 0.00031)" in sentence
