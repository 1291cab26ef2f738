"""What notebooks show: well-formed tables of the numbers that the text shows, every name escaped, nothing loaded."""

from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import confmax
from confmax import DecisionRule
from confmax.confusion import Gains
from tests.parts_helpers import labelled

SCRIPT = "<script>alert(1)</script>"
P, Y, _ = labelled(300, 3)


class Reader(HTMLParser):
    """Which elements and attributes a browser would see."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes = set(), set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}


def parsed(shown):
    """Return the form, which is well-formed and holds nothing that runs, or is loaded."""
    page = shown._repr_html_()
    seen = Reader(page)
    assert seen.tags <= {"div", "style", "p", "table", "thead", "tbody", "tr", "th", "td"}
    assert seen.attributes <= {"class"} and "url(" not in page and "color" not in page
    return ElementTree.fromstring(page)


def rows_of(table):
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def lines_of(page):
    return ["".join(line.itertext()) for line in page.iter("p")]


# --- rules -----------------------------------------------------------------------------------------------------------


def test_a_rule():
    rule = DecisionRule(Gains.reduced([2.0, 4.0, 8.0], [0.0, 0.5, -1.0]), np.ones(1), ("a", "b", "c"), "macro_f1")
    page = parsed(rule)
    assert rows_of(page.find("table")) == [
        ["class", "weight", "offset"],
        ["a", "1", "-0.25"],
        ["b", "2", "0"],
        ["c", "4", "-0.75"],
    ]
    assert "DecisionRule for macro_f1" in lines_of(page)[0]


def test_names_of_strangers_are_text():
    names = (SCRIPT, "a & b", "\u202eevil\n", "tuned rule")
    rule = DecisionRule.from_weights([1.0, 2.0, 3.0, 4.0], classes=names)
    page = rule._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page and "a &amp; b" in page and "\u202e" not in page
    assert len(rows_of(parsed(rule).find("table"))) == 5
    # only in a solution a row of this name is bold
    assert 'class="tuned"' not in page


@pytest.mark.parametrize("K", [30, 1000])
def test_long_rules_and_mixtures_are_cut(K):
    rng = np.random.default_rng(0)
    rule = DecisionRule(Gains.reduced(rng.random((6, K)) + 0.1), np.full(6, 1 / 6), tuple(range(K)))
    page = parsed(rule)
    table = rows_of(page.find("table"))
    assert len(table) == 31
    assert table[0] == ["class", *["weight (16.7%)"] * 4]
    left = ["970 more classes"] * (K > 30) + ["2 more rules in the mixture"]
    assert lines_of(page)[-1] == f"and {', '.join(left)}"
    # the rules that are drawn most often are not left out
    drawn = replace(rule, weights=np.array([0.05, 0.1, 0.1, 0.1, 0.25, 0.4]))
    assert rows_of(parsed(drawn).find("table"))[0][1:3] == ["weight (40.0%)", "weight (25.0%)"]


def test_the_gains_of_a_whole_table():
    costs = np.where(np.eye(3) > 0, 1.0, -0.0)  # minus a cost of nothing is a zero with a sign
    rule = DecisionRule(Gains.from_matrix(costs), np.ones(1), ("a", "b", "c"))
    assert rows_of(parsed(rule).find("table")) == [
        ["true class", "a", "b", "c"], ["a", "1", "0", "0"], ["b", "0", "1", "0"], ["c", "0", "0", "1"],
    ]  # fmt: skip
    page = parsed(DecisionRule(Gains.from_matrix(np.eye(40)), np.ones(1), tuple(range(40))))
    assert len(rows_of(page.find("table"))) == 31 and len(rows_of(page.find("table"))[1]) == 13
    assert lines_of(page)[-1] == "and 10 more classes, 28 more decisions"


def test_abstaining_is_a_row():
    rule = DecisionRule(
        Gains.reduced([[1.0, 2.0, 4.0]], [[0.0, 0.0, 0.0, 0.7]]), np.ones(1), ("a", "b", "c", "ask"), abstain="ask"
    )
    page = parsed(rule)
    assert rows_of(page.find("table"))[-1] == ["ask (abstain)", "-", "0"]
    assert rows_of(page.find("table"))[1] == ["a", "1", "-0.7"]


def test_a_row_for_each_group():
    solution = confmax.maximize(
        "macro_f1", P, Y, group=[SCRIPT if k % 2 else "b" for k in range(300)], confusion="model",
        constraints="min(recall[1] | group) >= 0.3", randomized=False,
    )  # fmt: skip
    page = parsed(solution)
    heads, *rows = rows_of(page.findall("table")[-1])
    assert heads == ["group", "decision", "0", "1", "2"]
    assert [row[0] for row in rows] == list(solution.rule.groups)
    for name, row in zip(solution.rule.groups, rows, strict=True):
        alone = rows_of(parsed(solution.rule.of_group(name)).find("table"))[1:]
        assert row[2:] == [", ".join(cells[1:]) for cells in alone]
    limits = rows_of(page.findall("table")[1])
    assert limits[0][-1] == "by group"
    parts = solution.constraints[0].by_group
    assert limits[1][-1] == ", ".join(f"{part.group} {part.value:.4g}" for part in parts)
    assert "<script" not in solution._repr_html_()


def test_groups_of_thresholds_are_sentences():
    two = P[:, :2] / P[:, :2].sum(axis=1, keepdims=True)
    group = [f"g{k % 35}" for k in range(300)]
    rule = confmax.maximize(
        "accuracy", two, group=group, constraints="max(rate[1] | group) <= 0.9", randomized=False
    ).rule
    page = parsed(rule)
    heads, *rows = rows_of(page.find("table"))
    assert heads == ["group", "decision"] and len(rows) == 30
    assert all(line.startswith(("decides 1 if p(1) >= ", "always ")) for _, line in rows)
    assert lines_of(page)[-1] == "and 5 more groups"


# --- solutions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["model", "blend"])
def test_a_solution(mode):
    solution = confmax.maximize("g_mean", P, Y, confusion=mode)
    page = parsed(solution)
    first, second = page.findall("table")
    found = dict(row[:2] for row in rows_of(first)[1:])
    assert found["tuned rule"] == f"{solution.value:.6g}"
    assert found["tuned rule, on the labels"] == f"{solution.label_value:.6g}"
    assert {"argmax", "p/prior"} <= found.keys()
    for name, value in solution.baselines.items():
        assert found[name] == f"{value:.6g}"
    bound = found.get("no rule exceeds")
    assert bound == (None if solution.upper_bound is None else f"{solution.upper_bound:.6g}")
    assert [row.attrib.get("class") for row in first.iter("tr")].count("tuned") == 1
    assert len(rows_of(second)) == 4
    assert solution.guarantee in lines_of(page)


def test_limits_say_what_is_kept():
    limits = ["recall[1] >= 0.9", "precision[1] >= 0.99"]
    given = {"confusion": "model", "on_infeasible": "closest"}
    solution = confmax.maximize("accuracy", P, Y, constraints=limits, **given)
    heads, *rows = rows_of(parsed(solution).findall("table")[1])
    assert heads == ["constraint", "value", "kept", "slack", "price", "decided"]
    share = (solution.predict(P) == 1).mean()
    assert [row[-1] for row in rows] == ["-", f"{100 * share:.3g}% of the rows"]
    assert [row[0] for row in rows] == limits
    assert [row[2] for row in rows] == ["yes" if one.kept else "no" for one in solution.constraints]
    assert "no" in [row[2] for row in rows] and rows[0][4] == "-"
    with pytest.warns(UserWarning, match="the rule never decides 1"):
        never = confmax.maximize("accuracy", P, constraints=["precision[1] >= 0.99", "rate[1] <= 0"], confusion="model")
    assert rows_of(parsed(never).findall("table")[1])[1][2] == "yes, as 0/0"


def test_the_unit_of_prices_is_a_note():
    solution = confmax.maximize("accuracy", P, Y, constraints="rate[1] <= 0.1", confusion="model", randomized=True)
    price = solution.constraints[0].price
    note = (
        f"price: by how much accuracy rises per unit by which the limit is loosened, to first order; with {price:.4g}"
    )
    assert price > 0 and [line for line in lines_of(parsed(solution)) if line.startswith(note)]
    free = confmax.maximize("accuracy", P, Y, constraints="rate[1] <= 1", confusion="model")
    assert "price:" not in free._repr_html_()


def test_limits_say_what_is_assured():
    given = {"constraints": "recall[1] >= 0.2", "confidence": 0.9}
    solution = confmax.maximize("f1[1]", P, Y, **given)
    assert rows_of(parsed(solution).findall("table")[1])[1][2] == "yes, assured"
    with pytest.warns(UserWarning, match="not assured with confidence 0.9"):
        solution = confmax.maximize("f1[1]", P[:40], Y[:40], constraints="precision[1] >= 0.6", confidence=0.9)
    assert rows_of(parsed(solution).findall("table")[1])[1][2] in ("here, not assured", "no")


def test_a_frontier():
    found = confmax.frontier("accuracy", "rate[1] <=", P, levels=np.linspace(0.01, 0.3, 40), confusion="model")
    heads, *rows = rows_of(parsed(found).find("table"))
    title, first, *lines = str(found).splitlines()
    assert lines_of(parsed(found)) == [title, lines[-1]]
    assert [" ".join(row) for row in rows] == [" ".join(line.split()) for line in lines[:-1]]
    assert " ".join(heads) == " ".join(first.split())
