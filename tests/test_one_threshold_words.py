"""Words of rules that decide one class by its probability alone, and the others by numbers of their own."""

import numpy as np
import pytest

from confmax import DecisionRule
from confmax.calibration.words import in_words, numbers
from confmax.confusion import Gains
from confmax.page.words import how_it_decides
from confmax.rule.html import rule_table
from tests.cli_helpers import document, run
from tests.export_helpers import beside, rule, scaling
from tests.report_helpers import judge, sample

NAMES = ["VF", "F", "M", "L"]
WEIGHTS = Gains.reduced([1.0, 9.0, 2.5, 5.0])
OFFSETS = Gains.reduced([1.0, 2.0, 4.0, 1.0], [0.25, 0.0, 0.5, 0.0])
SENTENCE = "decides L if p(L) >= 0.7008, else the largest of weight * p among the others"


def test_repr_has_a_table_of_the_others_alone():
    shown = repr(rule(beside(4, 3, 0.7008, WEIGHTS), names=NAMES)).splitlines()[1:]
    assert [line.split() for line in shown] == [
        SENTENCE.split(), ["class", "weight"], ["VF", "1"], ["F", "9"], ["M", "2.5"],
    ]  # fmt: skip
    shown = repr(rule(beside(4, 3, 0.7008, OFFSETS), scaling(4), NAMES)).splitlines()[2:]
    sentence = "decides L if calibrated p(L) >= 0.7008, else the largest of weight * p + offset among the others"
    assert [line.split() for line in shown] == [
        sentence.split(), ["class", "weight", "offset"], ["VF", "1", "-0.25"], ["F", "2", "-0.5"], ["M", "4", "0"],
    ]  # fmt: skip
    table = rule_table(rule(beside(4, 3, 0.7008, WEIGHTS), names=NAMES))
    assert "<th>F</th><td>9</td>" in table and "<th>L</th>" not in table


@pytest.mark.parametrize(
    ("gains", "sentence", "n_lines"),
    [
        (beside(4, 3, never=-1.0, others=WEIGHTS), "always decides the largest of weight * p among the classes other "
         "than L", 3),
        (beside(4, 3, never=1.0, others=WEIGHTS), "always decides L", None),
        (Gains.constant(4, [1]), "always decides F", None),
        (Gains.reduced([0.0, 0.0, 1.0, 0.0], [0.0, 0.0, -0.3, 0.0]), "decides M if p(M) >= 0.3, else L", None),
    ],
)  # fmt: skip
def test_ends(gains, sentence, n_lines):
    exported = rule(gains, names=NAMES)
    assert repr(exported).splitlines()[1] == f"  {sentence}"
    assert (in_words(exported) is None) == (n_lines is not None)
    table = numbers(exported, 12)
    assert (None if table is None else len(table.names)) == n_lines


def test_draws_have_a_sentence_for_each_rule():
    gains = Gains.concatenate([beside(4, 3, 0.3, WEIGHTS), beside(4, 3, 0.4)])
    shown = repr(DecisionRule(gains, np.array([0.25, 0.75]), tuple(NAMES), "f1[L]")).splitlines()
    assert shown[0] == "DecisionRule for f1[L]: 4 classes, draws between 2 rules"
    assert (
        shown[1] == "  with probability 25.0% decides L if p(L) >= 0.3, else the largest of weight * p among the others"
    )
    assert shown[-1] == "  with probability 75.0% decides L if p(L) >= 0.4, else the most probable other class"
    assert len(shown) == 7 and "e-2" not in "".join(shown)


def test_explain_shows_the_threshold_and_the_scores_of_the_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rule(beside(4, 3, 0.7008, WEIGHTS), names=NAMES).save("r.json")
    stdout, _ = run("explain", "r.json", "--proba", "0.1,0.2,0.3,0.4")
    assert f"{SENTENCE} (argmax: L if it is the most probable class)" in stdout
    assert "e-2" not in stdout and "e+2" not in stdout
    lines = [line.split() for line in stdout.splitlines()]
    assert lines[lines.index(["class", "weight"]) :][:4] == [["class", "weight"], ["VF", "1"], ["F", "9"], ["M", "2.5"]]
    assert ["F", "0.2000", "1.8000*"] in lines and ["L", "0.4000", "-0.3008"] in lines
    assert stdout.splitlines()[-1] == "Decided: F, the largest score of the others (*)"
    stdout, _ = run("explain", "r.json", "--proba", "0.1,0.1,0.0,0.8")
    assert stdout.splitlines()[-1] == "Decided: L, its probability reaches the threshold (*)"
    found = document("explain", "r.json")
    assert found["one_class"] == {"class": "L", "threshold": pytest.approx(0.7008)}
    assert found["parts"][0]["weights"][3] == 1.0


def test_explain_shows_no_tiny_weight_of_the_other_of_two_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rule(beside(2, 1, 0.3), names=["no", "yes"]).save("r.json")
    stdout, _ = run("explain", "r.json")
    assert "decides yes if p(yes) >= 0.3, else no" in stdout and "e-2" not in stdout
    assert document("explain", "r.json")["parts"][0]["weights"] == [0.0, 1.0]


def test_the_report_has_the_sentence():
    P, y = sample(400, 4)
    exported = rule(beside(4, 3, 0.7008, WEIGHTS), names=NAMES)
    found = how_it_decides(judge(exported, P, np.array(NAMES)[y], "macro_f1", replicates=0))
    assert f"It {SENTENCE}." in found
