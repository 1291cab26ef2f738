"""Which columns the command line takes for probabilities where other numeric columns stand beside them."""

import json

import pytest

from confmax.cli.texts import joined
from tests.cli_helpers import run
from tests.test_cli_inputs import TRUTH, YES, save_rule, two, written


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_columns_with_a_prefix_are_taken_and_the_others_are_told():
    """Without labels nothing but their names tells columns of probabilities from numbers of rows."""
    numbered = {"row": list(range(5, 125)), **two(("p_no", "p_yes"))}
    del numbered["id"]
    more = ("--metric", "macro_f1", "--confusion", "model")
    for columns in (numbered, dict(reversed(numbered.items()))):
        stdout, stderr = run("tune", written(**columns), *more, "--json")
        assert json.loads(stdout)["columns"] == [name for name in columns if name.startswith("p_")]
        assert stderr.startswith("warning: the columns that begin with 'p_' were taken as probabilities (p_")
        assert stderr.endswith("numeric columns were left out (row); --columns sets the columns\n")
    unlike = {("p_yes" if name == "p_no" else "q_no" if name == "p_yes" else name): each
              for name, each in numbered.items()}  # fmt: skip
    assert "columns taken: row, p_yes, q_no, every numeric column" in run("tune", written(**unlike), *more, code=2)[1]


@pytest.mark.parametrize("more", [{}, {"row": list(range(5, 125))}, {"row": [1000.5] * 120}])
def test_a_table_with_the_column_of_one_class_asks_for_score(more):
    half = {"p_yes": YES.tolist(), "y": TRUTH.tolist(), **more}
    _, stderr = run("tune", written(**half), "--label", "y", "--metric", "macro_f1", code=2)
    assert stderr == ("error: t.csv has a column for the class yes (p_yes) and none for no; give --score p_yes\n")
    save_rule()
    assert run("apply", "r.json", "t.csv", "-o", "o.csv", code=2)[1] == stderr
    run("apply", "r.json", "t.csv", "-o", "o.csv", "--score", "p_yes")


def test_a_column_without_a_name_is_spoken_of(tmp_path):
    (tmp_path / "t.csv").write_text(",a,b,y\n0,.5,.5,a\n1,.5,.5,c\n2,.5,.5,b\n")
    said = run("tune", tmp_path / "t.csv", "--label", "y", "--metric", "accuracy", code=2)[1]
    assert "(it has (without a name), a, b, y)" in said


def test_a_column_without_a_name_that_is_left_out_is_shown():
    assert joined(["", "a"]) == "(without a name), a"
