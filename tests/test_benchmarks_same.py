"""What two states of confmax answer: whatever differs is said, and what must not be lost counts in every mode."""

import numpy as np
import pytest

from benchmarks.same_answers.__main__ import NAMES, calls
from benchmarks.same_answers.answers import Families, compared, differences, document, family_of, flat, run
from benchmarks.same_answers.tables import drawn_labels, files, small_samples
from confmax.tables.decisions import ANY
from confmax.tables.several import labels_table

OLD = {
    "value": 0.5,
    "gap": 0.1,
    "passes": 7,
    "kept": True,
    "missed": 0.0,
    "text": ["macro_f1 = 0.5"],
    "documents": {".rule.a.0": 0.25, ".mode": "blend"},
}


def said(loss=None, **changed):
    return "; ".join(differences(OLD, {**OLD, **changed}, loss))


def test_the_same_answer_has_no_difference():
    assert said() == said(loss=1e-5) == ""
    assert said(value=0.5 + 1e-15, passes=9) == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"value": 0.5001}, "value 0.5 -> 0.5001"),
        ({"text": ["macro_f1 = 0.6"]}, "text: 'macro_f1 = 0.5' -> 'macro_f1 = 0.6'"),
        ({"documents": {".rule.a.0": 0.26, ".mode": "blend"}}, ".rule.a.0: '0.25' -> '0.26'"),
        ({"documents": {".mode": "blend"}}, ".rule.a.0: '0.25' -> 'None'"),
        ({"gap": None}, "gap lost"),
        ({"gap": 0.2}, "gap 0.1 -> 0.2"),
        ({"kept": False}, "the limits are kept no longer"),
        ({"points": [OLD]}, "0 points -> 1"),
        ({"warnings": ["no row has a"]}, "warnings: 'nothing' -> 'no row has a'"),
    ],
)
def test_what_differs_is_said(changed, words):
    assert words in said(**changed)


def test_what_may_differ_where_a_loss_is_allowed():
    assert said(loss=1e-3, value=0.4995, text=["other"], documents={}) == ""
    assert "value lower by 0.002" in said(loss=1e-3, value=0.498)
    assert "gap lost" in said(loss=1e-3, gap=None)
    assert "kept no longer" in said(loss=1e-3, kept=False)
    # the old rule has more than the new bound allows
    assert "a bound below a value" in said(loss=1e-3, value=0.4995, gap=0.0)


def test_sentences_of_errors_are_compared(tmp_path):
    def refused(sentence):
        raise ValueError(sentence)

    old, new, other = (
        run(lambda text=text: refused(text), tmp_path) for text in ("most is 0.5", "most is 0.6", "none")
    )
    assert "error" in differences(old, new, None)[0] and "most is 0.6" in differences(old, new, None)[0]
    assert differences(old, new, 1e-5) == [] and differences(old, other, 1e-5)
    assert differences(old, OLD, None) and differences(OLD, old, 1e-5)


def test_differences_are_counted_by_family(capsys):
    was = {"t first a": OLD, "t first b": OLD, "t second a": OLD, "t second gone": OLD}
    now = [("t first a", OLD), ("t first b", {**OLD, "value": 0.4}), ("t second a", {**OLD, "passes": 9})]
    assert compared(dict(was), now, None, Families()) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("t first b: value 0.5 -> 0.4") and "t second a: passes 7 -> 9" in lines
    assert "t second gone: not called any more" in lines
    assert [(words[0], words[-2]) for words in map(str.split, lines[-3:-1])] == [("first", "1"), ("second", "1")]
    # a family that is lower on average counts, even where no value alone does
    assert compared(dict(was), [(name, {**OLD, "value": 0.4999}) for name in was], 2e-4, Families()) == 2


def test_leaves_are_numbers_and_texts():
    kept = document({"a": np.array([1.0, 2.0]), "passes": 3}, "8 passes, gap 3.1e-16")
    assert kept["documents"] == {".a.0": 1.0, ".a.1": 2.0} and kept["text"] == ["passes, gap 0"]
    assert flat({"none": None, "empty": []}) == {".none": None}


def test_a_small_sample_is_not_all_rows(tmp_path):
    pytest.importorskip("pyarrow")
    data = drawn_labels()[0]
    with small_samples():
        assert not labels_table(ANY, files(data, tmp_path)).held
    assert labels_table(ANY, files(data, tmp_path)).held


def test_names_of_calls_differ(tmp_path):
    names = [name for name, _ in calls(NAMES, None, tmp_path)]
    assert len(names) == len(set(names)) and {*map(family_of, names)} == {*NAMES}
