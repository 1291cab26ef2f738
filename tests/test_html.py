"""What notebooks show: well-formed tables of the numbers that the text shows, every name escaped."""

from xml.etree import ElementTree

import numpy as np
import pytest

import confmax
from confmax import DecisionRule
from confmax.confusion import Gains
from tests.parts_helpers import labelled


def parsed(shown):
    return ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")


def rows_of(table):
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def test_a_rule():
    rule = DecisionRule(Gains.reduced([2.0, 4.0, 8.0], [0.0, 0.5, -1.0]), np.ones(1), ("a", "b", "c"), "macro_f1")
    page = parsed(rule)
    assert rows_of(page.find("table")) == [
        ["class", "weight", "offset"],
        ["a", "1", "-0.25"],
        ["b", "2", "0"],
        ["c", "4", "-0.75"],
    ]
    assert "DecisionRule for macro_f1" in page.find("p").text


def test_names_of_strangers_are_text():
    names = ("<script>alert(1)</script>", "a & b", "\u202eevil\n")
    page = DecisionRule.from_weights([1.0, 2.0, 3.0], classes=names)._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page and "a &amp; b" in page and "\u202e" not in page
    assert len(rows_of(parsed(DecisionRule.from_weights([1.0, 2.0, 3.0], classes=names)).find("table"))) == 4


@pytest.mark.parametrize("K", [20, 25])
def test_long_rules_and_mixtures_are_cut(K):
    rng = np.random.default_rng(0)
    rule = DecisionRule(Gains.reduced(rng.random((6, K)) + 0.1), np.full(6, 1 / 6), tuple(range(K)))
    page = parsed(rule)
    table = rows_of(page.find("table"))
    assert len(table) == 21
    assert len(table[0]) == 5
    text = "".join(page.itertext())
    assert ("5 more classes" in text) == (K == 25)
    assert "2 more rules in the mixture" in text
    full = DecisionRule(Gains.from_matrix(np.eye(3)), np.ones(1), (0, 1, 2))
    assert parsed(full).find("table") is None


@pytest.mark.parametrize("mode", ["model", "blend"])
def test_a_solution(mode):
    P, y, _ = labelled(300, 3)
    solution = confmax.maximize("g_mean", P, y, confusion=mode)
    page = parsed(solution)
    first, second = page.findall("table")
    found = dict(row[:2] for row in rows_of(first)[1:])
    assert found["tuned rule"] == f"{solution.value:.6g}"
    assert found["argmax"] == f"{solution.baselines['argmax']:.6g}"
    assert len(rows_of(second)) == 4
    text = "".join(page.itertext())
    assert solution.guarantee in text
