"""What a report says of a rule that leaves rows undecided: its numbers against counts by hand, its words, its page."""

import functools
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.metrics import f1_score

import confmax
from confmax.confusion import Gains
from confmax.evaluate.evidence import evidence_of
from confmax.evaluate.figures import figures
from confmax.evaluate.verdict import Difference, LimitScore, verdict
from confmax.metrics import get
from confmax.oracle import make_table
from confmax.page import coverage_words, words
from confmax.page.writing import page
from tests.report_helpers import judge, sample

pytest.importorskip("vl_convert")
FLOOR = ("coverage >= 0.7",)


@functools.cache
def tuned(metric="macro_f1", constraints=FLOOR, **more):
    P, y = sample(900)
    settings = {"constraints": constraints, "abstain": True, "classes": range(3), "randomized": False} | more
    return confmax.maximize(metric, P, y, **settings)


judged = partial(judge, metric=None)


def macro_f1(y, decided, weight=None):
    return f1_score(y, decided, labels=range(3), average="macro", sample_weight=weight, zero_division=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_their_definitions(weighted):
    P, y = sample(700, seed=1)
    weight = np.random.default_rng(0).integers(1, 4, 700) * 1.0 if weighted else np.ones(700)
    solution = tuned(calibration=None)
    shown = judged(solution, P, y, weight=weight if weighted else None)
    found, decided = shown.undecided, solution.predict(P)
    kept = decided >= 0
    expected = macro_f1(y[kept], decided[kept], weight[kept])
    assert found.rule.value == pytest.approx(expected) == shown.main.tuned.value
    assert found.everywhere.value == pytest.approx(macro_f1(y, P.argmax(axis=1), weight))
    whole, *classes = found.shares
    assert whole.rule.value == pytest.approx(np.average(~kept, weights=weight)) == pytest.approx(whole.chow.value)
    for k, one in enumerate(classes):
        assert one.rule.value == pytest.approx(np.average(~kept[y == k], weights=weight[y == k]))
        assert one.rule.low <= one.rule.value <= one.rule.high
    assert found.point == pytest.approx((1 - whole.rule.value, 1 - expected))
    if not weighted:
        first = np.argsort(-P.max(axis=1))[: kept.sum()]
        assert found.chow.value == pytest.approx(macro_f1(y[first], P[first].argmax(axis=1)))
        assert classes[2].chow.value == pytest.approx(1 - np.isin(np.flatnonzero(y == 2), first).mean())
        assert found.minus.value == pytest.approx(found.rule.value - found.chow.value)
    # parts of the page that speak of single classes, and the matrix with its column for the undecided
    part = shown.classes[1].after["precision"].value
    assert part == pytest.approx(np.average(y[decided == 1] == 1, weights=weight[decided == 1]))
    assert shown.change.after.shape == (3, 4)
    assert shown.change.after[:, 3] == pytest.approx([weight[(y == k) & ~kept].sum() for k in range(3)])
    assert shown.trade is None and shown.curve is None


def test_the_curves_are_those_of_a_frontier():
    """Without other limits the path is that of rules tuned on the probabilities of these rows."""
    P, y = sample(400, seed=1)
    found = judged(tuned("f1[1]", calibration=None, confusion="model"), P, y).undecided
    settings = {"classes": range(3), "confusion": "model", "calibration": None, "randomized": True, "abstain": True}
    path = confmax.frontier("f1[1]", "coverage >=", P, y, levels=[0.5, 0.75, 1.0], **settings).on_labels
    for coverage, ours, chow in zip(path.levels, path.values, path.chow.values, strict=True):
        assert found.path.value_at(coverage) == pytest.approx(ours, abs=5e-3)
        assert found.curve.value_at(coverage) == pytest.approx(chow)
    assert found.over == (0.5, 1.0)


def test_the_accuracy_is_chows_and_costs_and_coverage_are_read_by_it():
    P, y = sample(600, seed=2)
    found = judged(tuned("accuracy", calibration=None), P, y)
    assert abs(found.undecided.minus.value) < 1e-12
    assert "decides as Chow's rule does" in words.headline(found) or "as good as" in words.headline(found)
    assert found.verdict.instead == "Chow's rule" and words.verdict(found)[0] == "unclear"
    cost = np.hstack([1.0 - np.eye(3), np.full((3, 1), 0.3)])
    priced = tuned(get("linear", cost=cost), ())
    for solution in (tuned("coverage", ("accuracy >= 0.7",)), priced):
        shown = judged(solution, P, y)
        decided = solution.predict(P)
        kept = decided >= 0
        assert shown.undecided.label == "accuracy"
        assert shown.undecided.rule.value == pytest.approx((decided == y)[kept].mean())
        # the verdict is by what the rule was tuned for
        assert shown.verdict.metric == repr(solution.metric) and "ccuracy" not in words.headline(shown)
    price = np.append(1.0 - np.eye(3), np.full((3, 1), 0.3), axis=1)
    assert shown.verdict.value.value == pytest.approx(-price[y, decided].mean())
    assert [one.name for one in shown.verdict.rivals] == ["argmax", "p/prior"]
    assert shown.verdict.rivals[0].value.value == pytest.approx(-price[y, P.argmax(1)].mean())


def test_chows_rule_that_misses_a_limit_does_not_compare():
    P, y = sample(700, seed=1)
    limits = (*FLOOR, "coverage[1] >= 0.01", "recall[1] >= 0.65")
    shown = judged(tuned("accuracy", limits, calibration=None), P, y)
    chow, prior = shown.verdict.rivals
    assert (chow.name, prior.name) == ("Chow's rule", "p/prior on as many rows")
    verdict = replace(shown.verdict, missed=(), rivals=(chow._replace(missed=("recall[1] >= 0.65",)), prior))
    text = " ".join(words.of_others(replace(verdict, of=prior.name)))
    assert "misses recall[1] >= 0.65, so these values alone do not compare" in text
    assert shown.limits.free is None and shown.limits.change is None and shown.limits.reached


def test_words_say_what_the_difference_to_chow_says():
    P, y = sample(700, seed=1)
    shown = judged(tuned(calibration=None), P, y)
    found = shown.verdict
    ends = {"better": (0.02, 0.01, 0.03), "worse": (-0.02, -0.03, -0.01), "too few rows": (0.02, -0.01, 0.05)}
    for said, minus in ends.items():
        rivals = [(it.name, it.value, Difference(*minus, 1.0), ())
                  for it in found.rivals]  # fmt: skip
        one = replace(shown, verdict=verdict(found.metric, found.value, rivals))
        assert said in words.headline(one)
        kind, text = words.verdict(one)
        assert kind == (said if said in ("better", "worse") else "unclear")
        assert "Chow's rule" in text and "keeps its limits" in text
    assert "of the rows undecided" in coverage_words.left(shown.undecided)
    missed = LimitScore("coverage >= 0.7", 0.1, 0.05, 0.2, -0.6, False)
    worse = replace(shown, verdict=verdict(found.metric, found.value, rivals, [missed]))
    assert "misses coverage >= 0.7" in words.headline(worse)
    assert words.verdict(worse)[0] == "worse"


def text_of(html):
    return " ".join(
        re.sub(r"<[^>]*>", " ", re.sub(r"<script.*?</script>|<style.*?</style>", "", html, flags=re.S)).split()
    )


def test_a_page_shows_what_is_left_and_leaves_out_what_makes_no_sense():
    P, y = sample(500, seed=1)
    made = {"source": "rows", "version": "0", "settings": [], "again": "again", "rule": "{}"}
    for solution in (tuned("accuracy"), tuned("macro_f1", (*FLOOR, "coverage[2] >= 0.5"))):
        text = text_of(page(judged(solution, P, y), made))
        assert "Share left undecided" in text and "The curves as tables" in text
        assert "no line of rules leads from one to the other" in text
        assert "shows neither a rule without limits nor a line over one limit" in text
        assert "of rows undecided: its decision is then -1" in text and "argmax, on all rows" in text
    plain = confmax.maximize("macro_f1", *sample(300), classes=range(3), randomized=False)
    assert "undecided" not in text_of(page(judged(plain, P, y), made))


def test_of_two_classes_both_thresholds_are_told():
    P, y = sample(600, 2)
    solution = confmax.maximize("accuracy", P, y, abstain=True, constraints=FLOOR, randomized=False)
    evidence = evidence_of(make_table(P, y, None, (0, 1)).head, solution.metric, solution.rule, solution)
    shown = figures(evidence, get("f1"), order_known=True, n_replicates=39, level=0.9, seed=0)
    both = words.class_sentences(shown)
    assert len(both) == 2 and not any("otherwise" in sentence for sentence in both)


def test_written_reports(tmp_path):
    """Finished and cross-fitted; a rule of whole matrices, by its own metric and by another."""
    P, y = sample(500, seed=1)
    solution = tuned()
    solution.report(tmp_path / "a.html", P, y, n_replicates=39)
    confmax.report.write(tmp_path / "b.html", solution.rule, P, y, metric="balanced_accuracy", n_replicates=39)
    confmax.report.write_cross_fitted(
        tmp_path / "c.html", "macro_f1", P, y, n_replicates=39, folds=2, abstain=True, constraints=FLOOR
    )
    for name, metric in (("a", "Macro F1"), ("b", "Balanced accuracy"), ("c", "Macro F1")):
        text = text_of((tmp_path / f"{name}.html").read_text())
        assert f"{metric} of what is decided" in text and "risk-coverage curve" in text.lower()


def test_a_rule_that_leaves_every_row_has_no_section():
    P, y = sample(300, seed=1)
    solution = tuned()
    gains = solution.rule.gains.matrices().copy()
    gains[:, :, -1] = gains.max() + 1.0
    nothing = replace(solution.rule, gains=Gains.from_matrix(gains))
    assert (nothing.predict(P) == -1).all()
    assert judged(nothing, P, y, metric="macro_f1").undecided is None
