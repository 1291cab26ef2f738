"""What solutions, rules and reports say of a rule that was adapted to other class shares."""

import re

import numpy as np
import pytest

import confmax
from tests.report_helpers import judge, sample

P, Y = sample(1200)
NAMES = np.array(["a", "b", "c"])


def adapted(**given):
    solution = confmax.maximize("macro_f1", P[:600], NAMES[Y[:600]], calibration=None)
    return solution, solution.adapt(**given)


def test_a_rule_says_for_which_shares_it_is():
    solution, found = adapted(priors={"a": 0.1, "b": 0.2, "c": 0.7}, tuned_on=(P[:600], NAMES[Y[:600]]))
    source = ", ".join(
        f"{name} {old:.3g} -> {new}"
        for name, old, new in zip(NAMES, solution.rule.shares.classes, (0.1, 0.2, 0.7), strict=True)
    )
    line = f"for other class shares than those of its tuning rows: {source}"
    assert line in str(found.rule) and line in repr(found) and line.replace("->", "-&gt;") in found._repr_html_()
    assert "other class shares" not in str(solution.rule) + repr(solution)
    # what the rule from before is worth there stands beside
    assert re.search(r"^  old rule   0\.\d+$", repr(found), re.MULTILINE)
    assert found.baselines["old rule"] < found.value


def test_of_many_classes_those_that_moved_most_are_named():
    shares = confmax.rule.shares.SourceShares(tuple(np.full(20, 0.05)), 100.0)
    target = np.full(20, 0.05)
    target[[3, 17]] = 0.02, 0.08
    rule = confmax.DecisionRule.from_weights(np.ones(20))
    moved = confmax.DecisionRule(
        rule.gains, rule.weights, rule.class_names, "accuracy", 0, shares=shares.shifted(target)
    )
    assert "tuning rows: 3 0.05 -> 0.02, 17 0.05 -> 0.08, 0 0.05 -> 0.05" in str(moved).replace("\n", " ")


def test_a_rule_that_abstains_has_shares_of_its_classes(html):
    settings = {"abstain": "ask", "constraints": "coverage >= 0.8"}
    solution = confmax.maximize("accuracy", P[:600], NAMES[Y[:600]], **settings)
    found = solution.adapt(priors={"a": 0.1, "b": 0.2, "c": 0.7}, tuned_on=(P[:600], NAMES[Y[:600]]))
    assert "Class shares" in html(found, P[600:], NAMES[Y[600:]])


@pytest.fixture
def html():
    pytest.importorskip("vl_convert")
    pytest.importorskip("jinja2")
    from confmax.page.writing import page

    def write(solution, rows, y):
        shown = judge(solution, rows, y, metric="macro_f1", replicates=20)
        made = {"source": "x", "version": "0", "settings": [], "again": "", "rule": shown.evidence.rule.to_json()}
        text = page(shown, made)
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text.split("<main")[1].split("<script")[0]))

    return write


def test_a_report_shows_the_shares_and_what_is_assumed(html):
    often = np.concatenate([np.flatnonzero(Y[600:] == 2)] * 4 + [np.arange(0, 600, 3)]) + 600
    solution, found = adapted(new_proba=P[often])
    assert found.shift.shrinkage > 0.5
    text = html(found, P[often], NAMES[Y[often]])
    shift = found.shift
    assert "rows of a class look as they did when the rule was tuned" in text
    low, high = shift.interval()[2]
    known = f"c {solution.rule.shares.classes[2]:.3f} {shift.priors[2]:.3f} {shift.raw_priors[2]:.3f}"
    line = f"{known} [{low:.3f}, {high:.3f}] {np.mean(Y[often] == 2):.3f}"
    assert line in text
    assert "Class shares" not in html(solution, P[600:], NAMES[Y[600:]])


def test_a_report_says_that_nothing_has_changed_or_that_shares_were_given(html):
    _, same = adapted(new_proba=P[600:])
    assert "So the rule stayed as it was." in html(same, P[600:], NAMES[Y[600:]])
    _, known = adapted(priors="balanced", tuned_on=(P[:600], NAMES[Y[:600]]))
    text = html(known, P[600:], NAMES[Y[600:]])
    assert "The rule was adapted to other class shares that were given." in text and "0.333 –" in text
    assert "The rule was adapted to other class shares. " in html(known.rule, P[600:], NAMES[Y[600:]])
