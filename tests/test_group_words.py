"""What rules with groups say: the names of the groups, and how each is decided, as its own rule says it."""

import itertools
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import confmax
from confmax import DecisionRule
from confmax.calibration import Temperature
from confmax.calibration.words import (
    SHOWN,
    how,
    in_words,
    numbers,
    one_class,
    plain_words,
    pulled,
    score_of_class,
    weights_alone,
)
from confmax.confusion import Gains, Layout


def rule_of(parts, groups, names, *, weights=(1.0,), **settings):
    K, M = parts[0].n_classes, parts[0].n_decisions
    gains = Layout(len(parts), K, M - K, not settings.get("groups_known", True)).beside(parts)
    abstain = names[-1] if M > K else None
    return DecisionRule(gains, np.array(weights), names, "accuracy", groups=groups, abstain=abstain, **settings)


TWO = rule_of([Gains.reduced([1.0, 1.0]), Gains.reduced([1.0, 3.0])], ("men", "women"), ("no", "yes"))
SEVERAL = rule_of([Gains.reduced([1.0, 2.0, k]) for k in range(1, 7)], tuple("uvwxyz"), ("a", "b", "c"))
ABSTAINING = rule_of(
    [Gains.reduced([1, 1], [0, 0, 0.75]), Gains.reduced([1, 2], [0, 0, 0.75])], ("men", "women"), ("no", "yes", "ask")
)
OFFSETS = rule_of(
    [Gains.reduced([1, 2, 1], [0, 0.5, 0, 0.75]), Gains.reduced([4, 2, 1], [0, 0, 0.25, 0.5])],
    (0, 1), (0, 1, 2, -1),
)  # fmt: skip
FULL = rule_of(
    [Gains.from_matrix(np.diag([1.0, k, 2.0]) - (k > 1) * np.eye(3)[::-1]) for k in (1.0, 3.0)],
    ("m", "w"), ("a", "b", "c"),
)  # fmt: skip
DRAWS = rule_of(
    [Gains.reduced([[1, 1, 2], [1, 2, 1]]), Gains.reduced([[2, 1, 1], [1, 2, 3]])],
    ("m", "w"), ("a", "b", "c"), weights=(0.25, 0.75),
)  # fmt: skip
RULES = {
    "two": TWO, "several": SEVERAL, "abstaining": ABSTAINING, "offsets": OFFSETS, "full": FULL, "draws": DRAWS,
    "calibrated": replace(TWO, calibrator=Temperature(1.5)),
}  # fmt: skip
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def how_lines(rule):
    """Return the lines of a rule without groups that say how it decides."""
    lines = repr(rule).splitlines()
    start = 1 + (rule.calibrator is not None)
    return [line.strip() for line in lines[start:]]


def test_two_groups_of_two_classes():
    assert repr(TWO).splitlines() == [
        "DecisionRule for accuracy: 2 classes, deterministic",
        "  decides each group by a rule of its own: men, women",
        "  group men: decides yes if p(yes) >= 0.5, else no",
        "  group women: decides yes if p(yes) >= 0.25, else no",
    ]
    assert repr(ABSTAINING).splitlines()[2:] == [
        "  group men: decides yes if p(yes) >= 0.75, no if p(yes) < 0.25, else abstains (ask)",
        "  group women: decides yes if p(yes) >= 0.375, no if p(yes) < 0.25, else abstains (ask)",
    ]


@each_rule
def test_each_group_is_described_like_its_own_rule(rule):
    """Its own rule is the witness: `of_group` gives it, and `predict` decides by it."""
    lines = [line.strip() for line in repr(rule).splitlines()]
    start = next(k for k, line in enumerate(lines) if line.startswith("decides each group")) + 1
    assert lines[start - 1].startswith("decides each group by a rule of its own: ")
    expected = []
    for name in rule.groups[:SHOWN]:
        first, *table = how_lines(rule.of_group(name))
        expected += [f"group {name}: {first}", *table]
    left = len(rule.groups) - SHOWN
    assert lines[start:] == [*expected, *([f"... {left} more groups"] if left > 0 else [])]


@each_rule
@pytest.mark.parametrize("known", [True, False])
def test_notebooks_say_the_same(rule, known):
    """A row for each group, with its sentence and the numbers of its classes."""
    rule = replace(rule, groups_known=known)
    page = ElementTree.fromstring(rule._repr_html_())
    head, *rest = [line.strip() for line in repr(rule).splitlines()]
    assert page.find("p").text == head
    rows = [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")][1:]
    assert [row[0] for row in rows] == list(map(str, rule.groups))
    for name, decision, *cells in rows[:SHOWN]:
        start = rest.index(f"group {name}: {decision}") + 1
        block = itertools.takewhile(lambda line: not line.startswith(("group ", "...")), rest[start:])
        words = [line.split() for line in block]
        # shares of a mixture stand above the heads in text and beside the numbers in a table
        lines = [line for line in words if line[0] != "class" and not line[0].endswith("%")]
        numbers = [word for line in lines for word in line[1:] if word != "(abstain)"]
        shown = [word.strip(",") for cell in cells for word in cell.split() if not word.endswith("%:") and word != "|"]
        assert shown == (numbers or ["-"] * len(cells))
    text = "".join(page.itertext())
    assert ("in the columns of classes: weight" in text) == any(len(row) > 2 for row in rows)


@each_rule
def test_no_sentence_and_no_number_reads_the_groups_as_classes(rule):
    for known in (True, False):
        each = replace(rule, groups_known=known)
        assert (
            in_words(each) is plain_words(each) is one_class(each) is weights_alone(each) is numbers(each, 12) is None
        )
        assert each.threshold is None and pulled(each) == []
        with pytest.raises(ValueError, match=r"^Spark's thresholds cannot express a rule with groups, of which each"):
            each.to_spark_thresholds()
    assert how(rule) == "decides each group by a rule of its own"


def test_offsets_that_are_equal_in_every_group_are_none():
    rule = rule_of([Gains.reduced([1, 2, 3], 0.5), Gains.reduced([3, 2, 1], 0.25)], ("m", "w"), ("a", "b", "c"))
    assert score_of_class(rule) == "weight * p"
    assert score_of_class(OFFSETS) == "weight * p + offset"


def test_full_gains_by_the_probabilities_of_groups():
    lines = repr(replace(FULL, groups_known=False)).splitlines()
    assert lines[2:] == [f"  group {name}: 3 scores p @ G, G (3, 3)" for name in "mw"]


def test_names_of_a_stranger_are_one_line():
    rule = rule_of([Gains.reduced([1.0, 1.0])] * 2, ("\x1b[31m\n", "<b>" * 40), ("no", "yes"))
    assert len(repr(rule).splitlines()) == 4
    assert all(line.isprintable() and len(line) < 160 for line in repr(rule).splitlines())
    assert "<b>" not in rule._repr_html_()


def test_a_limit_between_two_groups_is_shown_whole_with_the_values_of_both():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([2.0, 2.0], 80)
    group = np.array(["slim", "heavier"])[np.arange(80) % 2]
    limit = "recall[1 | heavier] >= recall[1 | slim] - 0.02"
    found = confmax.maximize("accuracy", P, constraints=limit, group=group, confusion="model", calibration=None)
    (line,) = (line for line in str(found).splitlines() if line.startswith(f"  {limit}"))
    values = ", ".join(f"{part.group}: {part.value:.4g}" for part in found.constraints[0].by_group)
    assert line.endswith(f"({values})") and "heavier: 0." in values
    assert f"tuned within {limit}" in str(found.rule)
