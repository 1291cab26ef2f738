"""The command line on files that are read in parts."""

import importlib
import re

import numpy as np
import pytest

import confmax as library
from confmax.cli.columns import TableOptions, read_rows
from confmax.cli.tables import read_frame
from tests.cli_helpers import document, refusal
from tests.parts_helpers import labelled

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
large = importlib.import_module("confmax.cli.in_parts")

NAMES = ("low", "middle", "high")
pytestmark = pytest.mark.usefixtures("inside")


def written(path, n=300, *, size=50, bad=None, seed=0):
    """Write a table with a number and an identifier beside the probabilities, whose order is not that of the names."""
    P, y, w = labelled(n, 3, sharp=0.7, seed=seed)
    if bad is not None:
        P[bad] = np.nan
    columns = {"id": [f"{k}" for k in range(n)], "amount": np.arange(n) * 0.5, "w": w}
    columns |= {name: P[:, k] for name, k in (("high", 2), ("low", 0), ("middle", 1))}
    columns["truth"] = np.array(NAMES)[y]
    pq.write_table(pa.table(columns), path, row_group_size=size)
    return P, np.array(NAMES)[y], w


@pytest.mark.parametrize("metric", ["macro_f1", "quadratic_kappa"])
def test_in_parts_or_whole_the_rule_is_the_same(tmp_path, metric):
    P, y, w = written(tmp_path / "t.parquet")
    options = ("--label", "truth", "--weight", "w", "--metric", metric, "--classes", "low,middle,high")
    told = {}
    for in_parts in ("yes", "no"):
        told[in_parts] = document("tune", "t.parquet", *options, "--in-parts", in_parts, "-o", f"{in_parts}.json")
    assert told["yes"]["tuned"] == pytest.approx(told["no"]["tuned"], abs=1e-9)
    for key in ("rows", "classes", "columns", "label", "weight", "confusion"):
        assert told["yes"][key] == told["no"][key]
    expected = library.maximize(metric, P, y, sample_weight=w, classes=NAMES)
    assert told["yes"]["tuned"] == pytest.approx(expected.value, abs=1e-9)
    rules = [library.DecisionRule.load(f"{name}.json") for name in ("yes", "no")]
    np.testing.assert_array_equal(rules[0].predict(P), rules[1].predict(P))


def test_several_files_are_one_table(tmp_path):
    (tmp_path / "parts").mkdir()
    tables = [written(tmp_path / "parts" / f"{k}.parquet", seed=k) for k in range(3)]
    P, y = np.concatenate([table[0] for table in tables]), np.concatenate([table[1] for table in tables])
    whole = library.maximize("g_mean", P, y, classes=NAMES)
    for name in ("parts", "parts/*.parquet"):
        told = document("tune", name, "--label", "truth", "--metric", "g_mean", "--classes", ",".join(NAMES))
        assert told["rows"] == 900
        assert told["tuned"] == pytest.approx(whole.value, abs=1e-9)


def test_auto_goes_by_the_memory(tmp_path, monkeypatch):
    written(tmp_path / "t.parquet")
    assert not large.is_read_in_parts(tmp_path / "t.parquet", "auto")
    size = large._bytes_in(tmp_path / "t.parquet")
    assert size > 300 * 5 * 8
    monkeypatch.setattr(large, "_memory", lambda: int(size / large.SHARE) - 8)
    assert large.is_read_in_parts(tmp_path / "t.parquet", "auto")
    assert not large.is_read_in_parts(tmp_path / "t.parquet", "no")
    assert not large.is_read_in_parts(tmp_path / "t.csv", "auto")


def test_mapped_arrays(tmp_path):
    P, y, w = labelled(500, 3)
    for name, array in (("p", P), ("y", y), ("w", w)):
        np.save(tmp_path / f"{name}.npy", array)
    told = document("tune", "p.npy", "--label", "y.npy", "--weight", "w.npy", "--metric", "macro_f1")
    assert told["tuned"] == pytest.approx(library.maximize("macro_f1", P, y, sample_weight=w).value, abs=1e-9)
    told = document("tune", "p.npy", "--label", "y.npy", "--metric", "macro_f1", "--classes", "0,1,2")
    assert told["classes"] == [0, 1, 2]


def test_costs(tmp_path):
    written(tmp_path / "t.parquet")
    (tmp_path / "costs.csv").write_text(",low,middle,high,ask\nlow,0,1,5,.3\nmiddle,1,0,2,.3\nhigh,9,3,0,.3\n")
    arguments = ("tune", "t.parquet", "--label", "truth", "--costs", "costs.csv")
    parts, whole = (document(*arguments, *more) for more in (("--in-parts", "yes"), ()))
    assert parts["tuned"] == pytest.approx(whole["tuned"], abs=1e-9)
    assert len(parts["rule"]["classes"]) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("t.txt", "--in-parts", "yes"), "t.txt is neither Parquet, CSV, Feather nor .npy"),
        (("folder", "--in-parts", "no"), "folder can only be read in parts"),
        (("none*.parquet",), "no file matches none*.parquet"),
        (("t.parquet", "--in-parts", "yes", "--label", "lable"), "has no column 'lable'"),
        (
            ("t.parquet", "--in-parts", "yes", "--label", "truth", "--classes", "a,b,c"),
            "name the columns in the order of the classes",
        ),
        (("nan.parquet", "--in-parts", "yes", "--label", "truth"), "row group 3 of nan.parquet: row 7, column "),
        (("cut.parquet", "--in-parts", "yes", "--label", "truth"), "cut.parquet is a damaged Parquet file"),
        (("p.npy", "--positive", "a"), "is an array without names"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_writes_nothing(tmp_path, arguments, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "t.txt").write_text("a,b\n.5,.5\n")
    np.save(tmp_path / "p.npy", np.full((10, 2), 0.5))
    written(tmp_path / "t.parquet")
    written(tmp_path / "nan.parquet", bad=157)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-200])
    (tmp_path / "rule.json").write_text("before")
    assert message in refusal("tune", *arguments, "--metric", "macro_f1", "-o", "rule.json", "--force")
    assert (tmp_path / "rule.json").read_text() == "before"


def test_columns_are_those_of_a_rule(tmp_path):
    """As `read_rows` has them: by name whatever the order, and never by position where names say something else."""
    P, *_ = written(tmp_path / "t.parquet")
    rows = large.rows_in_parts(tmp_path / "t.parquet", TableOptions(label="truth"), rule_classes=NAMES)
    assert rows.classes == rows.columns == NAMES
    (first, *_) = rows.proba.run(lambda part: np.array(part.proba))
    np.testing.assert_array_equal(first, P)
    (first, *_) = rows.in_order(("high", "middle", "low")).proba.run(lambda part: np.array(part.proba))
    np.testing.assert_array_equal(first, P[:, ::-1])
    for strange in (("low", "high", "new"), ("a", "b", "c")):
        with pytest.raises(ValueError, match="--columns") as refused:
            large.rows_in_parts(tmp_path / "t.parquet", TableOptions(), rule_classes=strange)
        with pytest.raises(ValueError) as whole:
            read_rows(read_frame(tmp_path / "t.parquet"), TableOptions(), strange)
        assert str(refused.value) == str(whole.value)


def test_columns_of_an_array_are_those_of_a_rule(tmp_path):
    P, *_ = labelled(500, 3)
    np.save(tmp_path / "p.npy", P)
    rows = large.rows_in_parts(tmp_path / "p.npy", TableOptions(), rule_classes=NAMES)
    assert rows.classes == NAMES
    (first, *_) = rows.in_order(("high", "low", "middle")).proba.run(lambda part: part.proba)
    np.testing.assert_array_equal(first, P[:, [2, 0, 1]])
    with pytest.raises(
        ValueError, match=r"the rule has 2 classes \(no, yes\) and .*p.npy has 3 columns; name an array"
    ):
        large.rows_in_parts(tmp_path / "p.npy", TableOptions(), rule_classes=("no", "yes"))
    with pytest.raises(ValueError, match="leave --columns and --positive out"):
        large.rows_in_parts(tmp_path / "p.npy", TableOptions(columns=("a",)), rule_classes=NAMES)


@pytest.mark.parametrize(
    ("command", "call"),
    [
        (("tune", "--decisions", "any", "--label", "truth", "--metric", "macro_f1"), "confmax.maximize"),
        (("frontier", "--label", "truth", "--metric", "accuracy", "--over", "recall[low] >="), "confmax.frontier"),
    ],
)
def test_what_reads_one_file_names_the_call_that_reads_a_folder(tmp_path, command, call):
    (tmp_path / "days").mkdir()
    written(tmp_path / "days" / "one.parquet")
    message = f"read in parts, and this command reads one file whole; .* pass confmax.open_table\\(...\\) to {call}$"
    assert re.search(message, refusal(command[0], "days", *command[1:]).strip())
