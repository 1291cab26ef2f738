"""Bad input: exit code 2, one sentence that says what, where and the way out, and nothing left on the disk."""

import json
import re
import shlex
import sys
import warnings

import numpy as np
import pytest

import confmax as library
from tests.cli_helpers import refusal, run, small

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

# what is replaced in the table of three classes
TABLES = {
    "t": {},
    "sum": {"a": {7: "0.9999"}},
    "ab": {"y": ["a", "b"] * 30, "c": "2"},
    "nan": {"b": {3: "nan"}},
    "oops": {"b": {3: "oops"}},
    "z": {"y": {4: "z"}},
    "unlabelled": {"y": {5: ""}},
    "one": {"y": "a"},
    "weightless": {"w": "0"},
    "negative": {"w": {2: "-1"}},
    "keyless": {"id": {2: ""}},
    "decided": {"w": None, "decision": "a"},
}
GZIP = b"\x1f\x8b\x08data"
CONTENTS = {
    "empty.csv": b"\n \n",
    "header.csv": b"a,b\n",
    "ragged.csv": b"a,b\n.5,.5\n1\n",
    "quote.csv": b'a,b\n.5,".5\n1,0\n',
    "latin.csv": b"a,b\n.5,.5\n1,\xff\n",
    "latin_names.csv": b"a,\xff\n.5,.5\n",
    "latin_below.csv": b"a,b\n" + b".5,.5\n" * 200_000 + b"1,\xfc\n",
    "utf16.csv": "a,b\n1,0\n".encode("utf-16"),
    "gzip.csv": GZIP,
    "gzip.tsv": GZIP,
    "t.csv.gz": GZIP,
    "text.parquet": b"a,b\n.5,.5\n",
    "text.npz": b"a,b\n.5,.5\n",
    "damaged.npz": b"PK\x03\x04" + b"x" * 50,
    "t.xlsx": b"a",
    "t": b"a",
    "costs.csv": b"0,1,1\n1,0,1\n1,1,0\n",
    "infinite.csv": b"a,b,c\n0,1,inf\n1,0,1\n1,1,0\n",
    "broken.json": b"{",
    "empty.json": b"{}",
}
P = np.full((4, 2), 0.5)
ARCHIVES = {
    "no_rows": {"p": np.zeros((0, 3)), "y": np.zeros(0, int)},
    "pickled": {"P": np.array([None, {}])},
    "vector": {"y": np.arange(3)},
    "two": {"P": P, "Q": P, "y": np.array([0, 1, 0, 1])},
    "uneven": {"a": np.array([0.5, 1]), "b": np.array([0.5]), "y": np.arange(5)},
}
RULES = {"r": {}, "later": {"version": 99}, "other": {"classes": ["x", "why", "z"]}, "d": {"classes": ["a", "b", "d"]}}

BAD = {
    "tune --label y --metric macro_f1 -o rule.json {}": {
        # what is in the table
        "t.csv --columns a": "one column of probabilities (a)",
        "sum.csv": "row 7 of the table of probabilities sums to",
        "ab.csv": "--classes choose others",
        "nan.csv": "row 3, column 'b'",
        "oops.csv": "row 3 of column 'b' of",
        "z.csv --classes a,b,c": "row 4 of label column 'y'",
        "z.csv": "no column 'z'",
        "unlabelled.csv": "row 5 of label column 'y'",
        "one.csv --classes a,b,c": "at least two classes",
        "weightless.csv --weight w": "the weight column sums to zero",
        "negative.csv --weight w": "row 2 of the weight column",
        "t.csv --weight y": "which is not a number",
        "t.csv --classes a,b,x,y --columns a,b,c": "4 classes",
        "t.csv --columns a,b,b": "--columns names 'b' twice",
        "t.csv --classes a,b,b": "--classes names 'b' twice",
        "t.csv --classes a,,b": "not a list of names",
        "t.csv --positive a": "--positive is for two classes",
        "t.csv --columns a,b": "--classes",
        "t.csv --weight ww": "no column 'ww' (nearest: w); correct --weight",
        "t.csv --columns a,B,c": "no column 'B' (nearest: b)",
        # the metric and the settings
        "t.csv --metric marco_f1": "did you mean macro_f1",
        "t.csv --metric zzzz": "'confmax metrics' lists them",
        "t.csv --metric f1 --classes a,b,c": "use macro_f1",
        "t.csv --metric quadratic_kappa": "--classes",
        "t.csv --solver threshold_search": "two classes",
        "t.csv --solver magic": "'magic'; take 'auto', or one of frank",
        "t.csv --solver polished": "solver 'polished' was removed; use 'auto'",
        "t.csv --param beta=2": "no parameter 'beta'",
        "t.csv --param beta": "not key=value",
        "t.csv --param beta=x --metric macro_f_beta": "beta of macro_f_beta",
        "t.csv --metric linear": "--costs FILE.csv",
        "t.csv --costs c.csv": "--costs is for the metric linear",
        "t.csv --costs c.csv --metric linear": "there is no file c.csv",
        "t.csv --costs infinite.csv --metric linear": "cost matrix of linear",
        "t.csv --tol -1": "--tol must be finite",
        "t.csv --max-passes 0": "--max-passes is a positive integer, if it is given",
        "t.csv --seed -1": "--seed is a whole number",
        "t.csv --confusion maybe": "'maybe'",
        "t.csv --colums a": "--columns",
        # where it goes
        "t.csv -o none/rule.json": "the folder none does not exist",
        "t.csv -o d": "d is a directory",
        "t.csv -o t.csv": "is the input file",
        # archives
        "no_rows.npz": "label column 'y' of no_rows.npz has no rows; give at least one",
        "two.npz": "P (4, 2), Q (4, 2)",
        "uneven.npz": "no column of probabilities",
    },
    "tune --metric macro_f1 -o rule.json {}": {
        "t.csv --confusion labels": "needs --label",
        "none.csv": "there is no file none.csv",
        "d.csv": "d.csv is a directory",
        "loop.csv": "loop.csv",
        "empty.csv": "empty.csv is empty",
        "no_rows.npz": "the table of probabilities is empty",
        "header.csv": "no rows",
        "ragged.csv": "Expected 2 columns, got 1",
        "quote.csv": "odd number of quotes",
        "latin.csv": "latin.csv is not UTF-8 text; save it as UTF-8 (byte 0xff at position 12)",
        "latin_names.csv": "is not UTF-8 text; save it as UTF-8 (byte 0xff at position 2)",
        "latin_below.csv": "save it as UTF-8 (byte 0xfc at position 1200006)",
        "utf16.csv": "binary data",
        "parquet.csv": "holds a Parquet file; rename",
        "gzip.csv": "a gzip archive",
        "gzip.tsv": "gzip.tsv is named .tsv but holds",
        "t.csv.gz": "unpack it, or pipe it: zcat ",
        "text.parquet": "holds text; rename",
        "text.npz": "holds text; rename",
        "array.npz": "one NumPy array",
        "damaged.parquet": "damaged Parquet",
        "damaged.npz": "cannot be read as NPZ",
        "repeated.parquet": "two columns named 'a'",
        "pickled.npz": "pickled objects",
        "vector.npz": "at least two are needed",
        "uneven.npz --columns a,b": "differ in length",
        "t.xlsx": "the extension '.xlsx'",
        "t": "no extension",
    },
    "apply -o o.csv {}": {
        "r.json t.csv -o none/o.csv": "the folder none does not exist",
        "r.json t.csv -o o.xlsx": "the extension '.xlsx'",
        "r.json t.csv -o o.csv.gz": "-o - | gzip > FILE",
        "no.json t.csv": "there is no rule file no.json",
        "d t.csv": "d is a directory",
        "broken.json t.csv": "broken.json is not a rule",
        "empty.json t.csv": "empty.json is not a rule",
        "later.json t.csv": "its version is 99",
        "other.json t.csv": "rule's classes x, why, z",
        "d.json t.csv": "no column 'd'",
        "r.json t.csv --key ide": "no column 'ide' (nearest: id)",
    },
    "score --label y {}": {
        "t.csv --rule r.json --classes a,b,d": "the rule's classes are a, b, c",
        "t.csv --metric g_men": "g_mean",
        "t.csv --metric linear": "needs a table of costs or gains",
        "t.csv --metric f1": "write f1[NAME]",
        "t.csv --metric linear_kappa": "give the order with --classes",
        "t.csv --param beta=2": "one --metric",
    },
    "{}": {
        "tune t.csv": "give --metric NAME",
        "tune t.csv --costs costs.csv --columns a,b,c": "linear depends on the order of the classes",
        "tuna": "'confmax --help' tells more",
        "tune": "FILE",
        "demo -o none/rule.json": "the folder none does not exist",
        "apply r.json t.csv": "-o",
        "apply r.json two.npz -o o.npz": "rule's classes",
        "apply r.json keyless.csv -o o.csv --key id": "row 2 of key column 'id'",
        "apply r.json decided.csv -o o.csv": "has a column 'decision'",
        "score t.csv": "--label",
        "apply s3://bucket/r.json t.csv -o o.csv": "r.json is not on this machine, where rule files are read",
        "shift r.json t.csv --tuned-on s3://bucket/t.csv --tuned-label y": "is not on this machine, and this table",
        "shift r.json t.csv --tuned-on d --tuned-label y": "d is a directory, and this table is read whole, from one",
        "frontier 't*.parquet' --label y --metric accuracy --over 'recall[a] >='": "is read in parts, and this command",
        # options by other names
        "tune --constraint x": "No such option --constraint. Did you mean --subject-to?; 'confmax tune --help' tells",
        "tune --random-state x": "Did you mean --seed?",
        "tune --pos-label x": "Did you mean --positive?",
        "tune --overwrite x": "Did you mean --force?",
    },
}
LINES = [(form.format(words), said) for form, rows in BAD.items() for words, said in rows.items()]


def everything(folder):
    """Names and contents of all that lies in a folder."""
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of files of which most are wrong, and all that lies in it."""
    folder = tmp_path_factory.mktemp("files")
    for name, replaced in TABLES.items():
        small(folder, f"{name}.csv", **replaced)
    for name, content in CONTENTS.items():
        (folder / name).write_bytes(content)
    for name, arrays in ARCHIVES.items():
        np.savez(folder / f"{name}.npz", **arrays)
    for name, changed in RULES.items():
        rule = library.DecisionRule.from_weights([1.0, 2.0, 3.0], classes=list("abc"))
        (folder / f"{name}.json").write_text(json.dumps({**json.loads(rule.to_json()), **changed}))
    halves = [pa.array([0.5]), pa.array([0.5])]
    pq.write_table(pa.Table.from_arrays(halves, names=["a", "a"]), folder / "repeated.parquet")
    whole = (folder / "repeated.parquet").read_bytes()
    (folder / "parquet.csv").write_bytes(whole)
    (folder / "damaged.parquet").write_bytes(whole[:-9])
    np.save(folder / "array.npy", np.eye(2))
    (folder / "array.npy").rename(folder / "array.npz")
    (folder / "d").mkdir()
    (folder / "d.csv").mkdir()
    (folder / "loop.csv").symlink_to("loop.csv")  # nobody can open it, root included
    return folder, everything(folder)


@pytest.mark.parametrize(("line", "words"), LINES)
def test_bad_input(files, monkeypatch, line, words):
    """Exit code 2, one sentence on stderr, nothing on stdout, nothing written."""
    folder, before = files
    monkeypatch.chdir(folder)
    stderr = refusal(*shlex.split(line))
    assert everything(folder) == before
    assert words in stderr
    assert ("counted from 0" in stderr) == (re.search(r"row \d+ of", stderr) is not None)
    assert not re.search(r"classes=|sample_weight|\bproba\b|Errno|\by\b has", stderr)


TUNE = ("tune", "small.csv", "--label", "y", "--metric", "macro_f1", "-o", "rule.json")


@pytest.mark.parametrize("command", [TUNE, ("apply", "r.json", "small.csv", "-o", "o.csv"), ("demo", "-o", "r2.json")])
def test_a_full_disk_leaves_no_file(inside, monkeypatch, command):
    """The last step fails: one sentence, and no part of a file."""
    small(inside)
    rule = library.DecisionRule.from_weights([1.0, 2.0, 3.0], classes=list("abc"))
    rule.save("r.json")
    monkeypatch.setattr("confmax.cli.demo.demonstrate", lambda _progress: (rule, {}))
    before = everything(inside)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("confmax.places.os.replace", full)
    assert "No space left on device" in refusal(*command)
    assert everything(inside) == before


def bug(*_, **__):
    raise TypeError("ours")


def old(*_, **__):
    warnings.warn("old", DeprecationWarning, stacklevel=1)


@pytest.mark.parametrize(("maximize", "raised"), [(bug, TypeError), (old, DeprecationWarning)])
def test_our_bugs_keep_their_traceback(inside, monkeypatch, maximize, raised):
    """Only what a user can mend is a sentence; deprecations are not swallowed."""
    small(inside)
    monkeypatch.setattr("confmax.cli.tune.maximize", maximize)
    with pytest.raises(raised):
        run(*TUNE)


def test_a_picture_is_refused_before_anything_is_tuned(tmp_path, monkeypatch):
    small(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("confmax.cli.frontier.tuned", None)
    given = ("--label", "y", "--metric", "accuracy", "--over", "recall[a] >=", "--plot", tmp_path / "f.png")
    assert "pip install 'confmax[plot]'" in refusal("frontier", tmp_path / "small.csv", *given)
