"""What a report says of a rule's limits: its numbers against their definitions, its sentences, and its page."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import confmax
from confmax.page import sections, words
from tests.report_helpers import judge, sample

pytest.importorskip("vl_convert")
LIMITS = ("recall[2] >= 0.8", "rate[0] <= 0.5")


def tuned(constraints=LIMITS, metric="accuracy", **more):
    P, y = sample(900)
    return confmax.maximize(metric, P, y, constraints=constraints, **more)


judged = partial(judge, metric="accuracy", second="macro_f1")


@pytest.mark.parametrize("weighted", [False, True])
def test_values_of_limits_are_those_of_their_definitions(weighted):
    P, y = sample(700, seed=1)
    weight = np.random.default_rng(0).integers(1, 4, 700) * 1.0 if weighted else np.ones(700)
    solution = tuned(confusion="model", calibration=None)
    whole = judged(solution, P, y, weight=weight if weighted else None)
    found = whole.limits
    decided = solution.predict(P)
    recall, rate = found.rows
    share = weight / weight.sum()
    assert recall.expected == pytest.approx(share[decided == 2] @ P[decided == 2, 2] / (share @ P[:, 2]))
    assert recall.labels.value == pytest.approx(np.average(decided[y == 2] == 2, weights=weight[y == 2]))
    assert [rate.expected, rate.labels.value] == pytest.approx([share[decided == 0].sum()] * 2)
    assert recall.argmax.value == pytest.approx(np.average(P[y == 2].argmax(1) == 2, weights=weight[y == 2]))
    assert [row.price for row in found.rows] == [one.price for one in solution.constraints]
    slacks = (recall.argmax.value - recall.constraint.limit, rate.constraint.limit - rate.argmax.value)
    assert whole.verdict.rivals[0].missed == tuple(
        row.text for row, one in zip(found.rows, slacks, strict=True) if one < 0
    )


def test_the_rule_without_limits_and_the_line_are_those_of_maximize():
    P, y = sample(700, seed=1)
    solution = tuned(confusion="model", calibration=None)
    found = judged(solution, P, y).limits
    settings = {"confusion": "model", "calibration": None}
    free = confmax.maximize("accuracy", P, **settings, randomized=False)
    decided = free.predict(P)
    assert found.free.value == pytest.approx((decided == y).mean(), abs=3 / 700)
    assert found.given_up.value == pytest.approx(
        ((solution.predict(P) == y) * 1.0 - (decided == y)).mean(), abs=3 / 700
    )
    assert found.moved == pytest.approx((solution.predict(P) != decided).mean(), abs=3 / 700)
    assert found.change.before.sum() == found.change.after.sum() == 700
    curve = found.curve
    assert curve.name == "recall[2]"
    assert curve.marks["best rule without limits"][1] == pytest.approx(free.value, abs=1e-5)
    # a tighter floor never gains, and each point is the best value within the limit
    assert (np.diff(curve.levels) > 0).all() and (np.diff(curve.values) <= 2e-5).all() and 0.8 in curve.levels
    for k in (2, -1):
        limits = [f"recall[2] >= {float(curve.levels[k])!r}", LIMITS[1]]
        best = confmax.maximize("accuracy", P, constraints=limits, randomized=True, **settings)
        assert curve.values[k] == pytest.approx(best.value, abs=5e-5)
        assert curve.bounds[k] >= best.value - 1e-9
    # argmax, p/prior and the tuned rule are expected by the same probabilities, and every point has its rule in words
    x, y = curve.marks["argmax"]
    decided = np.eye(3)[P.argmax(axis=1)]
    assert x == pytest.approx((P * decided)[:, 2].sum() / P[:, 2].sum())
    assert y == pytest.approx((P * decided).sum() / 700)
    assert curve.marks.keys() == {"best rule without limits", "argmax", "p/prior", "tuned rule"}
    assert len(curve.rules) == len(curve.levels) and all("deterministic" in text for text in curve.rules)


def test_a_saved_rule_has_prices_of_these_rows_and_a_metric_without_limits_has_none():
    P, y = sample(700, seed=1)
    solution = tuned()
    found = judged(solution.rule, P, y).limits
    again = confmax.maximize("accuracy", P, constraints=LIMITS, confusion="model", randomized=True)
    calibrated = [row.price for row in found.rows]
    assert calibrated[0] > 0 and calibrated[0] == pytest.approx(again.constraints[0].price, rel=0.2)
    other = judged(solution.rule, P, y, metric="mcc").limits
    assert other.free is None and other.curve is None and len(other.rows) == 2
    assert sections.given_up(judged(solution.rule, P, y, metric="mcc")) == ""


def test_limits_that_are_missed_and_those_that_cannot_be_judged_are_named():
    P, y = sample(700, seed=1)
    rule = replace(tuned().rule, constraints=("recall[2] >= 0.999", "recall[1] >= 0.01"))
    found = judged(rule, P, y)
    assert words.headline(found) == "Accuracy within limits: the tuned rule misses recall[2] >= 0.999 on these rows"
    kind, text = words.verdict(found)
    assert kind == "worse" and "Do not use" not in text and "argmax misses recall[2] >= 0.999" in text
    assert "misses recall[2] >= 0.999" in " ".join(words.against(found))
    assert [sections.outcome(row) for row in found.limits.rows] == ["missed", "kept"]
    kept = y != 1
    absent = judged(rule, P[kept], y[kept])
    assert absent.limits.absent == ("recall[1] >= 0.01",) and len(absent.limits.rows) == 1
    assert "cannot judge recall[1] >= 0.01: no row has the class" in sections.summary(absent)


@pytest.mark.filterwarnings("ignore:not assured:UserWarning")
def test_what_the_tests_of_the_tuning_say_of_a_limit():
    P, y = sample(900)
    solution = tuned(confidence=0.9)
    row = judged(solution, P, y).limits.rows[0]
    n = row.outcome.all_label_rows
    for given, said in (
        ({"assured": None}, "–"),
        ({"assured": True}, f"yes, on {n} rows"),
        ({"assured": False, "rows_needed": 5000}, f"no, on {n} rows; needs 5,000"),
        ({"assured": False, "rows_needed": None}, f"no, on {n} rows; loosen it or test more rows"),
        ({"assured": False, "rows_needed": 10**7}, f"no, on {n} rows; loosen it or test more rows"),
    ):
        assert sections.assured(replace(row, outcome=replace(row.outcome, **given))) == said
    assert sections.assured(replace(row, outcome=None)) == "–"
    assert sections.outcome(replace(row, vacuous=True)) == "no decision"


def test_limits_that_no_rule_keeps_are_told_with_what_is_proved():
    P, y = sample(700, seed=1)
    far = {"constraints": ["recall[2] >= 0.99", "rate[2] <= 0.1"], "on_infeasible": "closest"}
    found = judged(tuned(**far), P, y)
    assert "within 2 limits. No rule keeps all limits on the tuning rows; this one misses them" in sections.summary(
        found
    )
    why = found.evidence.solution.infeasibility
    assert sections.certificate(found).lower() == f"{why.lower()}."
    one = judged(replace(tuned().rule, constraints=("rate[0] <= 0.5",)), P, y)
    told = sections.summary(replace(one, limits=replace(one.limits, reached=False)))
    assert told == (
        "The rule was tuned within one limit. As the probabilities of these rows expect, no rule keeps all limits here."
    )


def test_argmax_that_keeps_the_limits_is_compared_as_ever():
    P, y = sample(700, seed=1)
    found = judged(tuned("recall[2] >= 0.01"), P, y)
    assert "within limits" not in words.headline(found) and "misses" not in words.verdict(found)[1]


def page_of(tmp_path, **more):
    P, y = sample(600)
    confmax.report.write_cross_fitted(tmp_path / "page.html", "accuracy", P, y, n_replicates=99, **more)
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", (tmp_path / "page.html").read_text(), flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


@pytest.mark.filterwarnings("ignore:not assured:UserWarning")
def test_a_page_with_limits_says_what_was_asked_and_tested(tmp_path):
    text = page_of(tmp_path, constraints=LIMITS, confidence=0.9)
    assert "The rule was tuned within 2 limits." in text and "assured at 90 %" in text
    assert "On the rows that tested its limits, the rule that is kept reaches" in text
    assert "Counts: tuned rule minus the best rule without limits" in text and "recall[2] ≥" in text
    assert "Limits of the tuned rule" not in page_of(tmp_path)


def test_a_fold_that_cannot_keep_the_limits_is_no_reason_for_no_report(tmp_path):
    # at the edge of what all rows allow
    P, y = sample(600)
    with pytest.raises(confmax.Infeasible) as far:
        confmax.maximize("accuracy", P, y, constraints=["recall[2] >= 0.97", "rate[2] <= 0.3"], confusion="model",
                         calibration=None)  # fmt: skip
    most = float(re.search(r"reaches at most ([\d.]+)", str(far.value))[1])
    given = {"constraints": [f"recall[2] >= {most - 2e-3}", "rate[2] <= 0.3"], "confusion": "model"}
    text = page_of(tmp_path, calibration=None, **given)
    assert re.search(r"Without folds? [1-5,and ]+ no rule was met that keeps all limits on the other rows", text)
