"""Bad input: exit code 2, one sentence that says what, where and the way out, and nothing left on the disk."""

import json
import re
import warnings

import numpy as np
import pytest

import confmax as library
from tests.cli_helpers import run, small

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    """Relative paths are those of a folder of its own."""
    monkeypatch.chdir(tmp_path)


# --- bad input -------------------------------------------------------------------------------------------------------


def binary(folder, name, data):
    (folder / name).write_bytes(data)
    return name


def archive(folder, **arrays):
    np.savez(folder / "t.npz", **arrays)
    return "t.npz"


def parquet_bytes(folder):
    pq.write_table(pa.table({"a": [0.5], "b": [0.5]}), folder / "other.parquet")
    data = (folder / "other.parquet").read_bytes()
    (folder / "other.parquet").unlink()
    return data


def two_tables(folder):
    P = np.full((4, 2), 0.5)
    return archive(folder, P=P, Q=P, y=np.array([0, 1, 0, 1]))


def rule_file(folder, **changed):
    library.DecisionRule.from_weights([1.0, 2.0, 3.0], classes=list("abc")).save(folder / "r.json")
    content = {**json.loads((folder / "r.json").read_text()), **changed}
    (folder / "r.json").write_text(json.dumps(content))
    return "r.json"


def text(folder, content, name="t.csv"):
    (folder / name).write_text(content)
    return name


def tune_small(folder, *more, metric="macro_f1", **replaced):
    return ["tune", small(folder, **replaced), "--label", "y", "--metric", metric, "-o", "rule.json", *more]


def tune_file(name, *more):
    return ["tune", name, "--metric", "macro_f1", "-o", "rule.json", *more]


def repeated_parquet(folder):
    table = pa.Table.from_arrays([pa.array([0.5]), pa.array([0.5])], names=["a", "a"])
    pq.write_table(table, folder / "t.parquet")
    return "t.parquet"


def folder_named(folder, name):
    (folder / name).mkdir()
    return name


def looped(folder, name):
    """A file that nobody can open, root included."""
    (folder / name).symlink_to(name)
    return name


def npy(folder):
    np.save(folder / "t.npy", np.eye(2))
    (folder / "t.npy").rename(folder / "t.npz")
    return "t.npz"


def uneven(folder):
    return archive(folder, a=np.array([0.5, 1]), b=np.array([0.5]), y=np.arange(5))


def apply_small(folder, out="o.csv", **changed):
    cells = {"id": changed.pop("id")} if "id" in changed else {}
    return ["apply", rule_file(folder, **changed), small(folder, **cells), "-o", out]


def decided(folder):
    return small(folder, w=None, decision="a")


BAD = {
    # what is in the table
    "one column of probabilities": (lambda f: tune_small(f, "--columns", "a"), "one column of probabilities (a)"),
    "rows do not sum to one": (lambda f: tune_small(f, a={7: "0.9999"}), "row 7 of the table of probabilities sums to"),
    "class without rows not named": (lambda f: tune_small(f, y=["a", "b"] * 30), "--classes choose others"),
    "nan": (lambda f: tune_small(f, b={3: "nan"}), "row 3, column 'b'"),
    "infinite": (lambda f: tune_small(f, b={3: "inf"}), "row 3, column 'b'"),
    "negative": (lambda f: tune_small(f, b={3: "-0.1"}, a={3: "0.1"}, c={3: "1"}), "row 3, column 'b'"),
    "not a number": (lambda f: tune_small(f, b={3: "oops"}), "row 3 of column 'b' of"),
    "empty cell": (lambda f: tune_small(f, b={3: ""}), "row 3 of column 'b' of"),
    "unknown label": (lambda f: tune_small(f, "--classes", "a,b,c", y={4: "z"}), "row 4 of label column 'y'"),
    "label without a column": (lambda f: tune_small(f, y={4: "z"}), "no column 'z'"),
    "empty label": (lambda f: tune_small(f, y={5: ""}), "row 5 of label column 'y'"),
    "one class": (lambda f: tune_small(f, "--classes", "a,b,c", y="a"), "at least two classes"),
    "zero weight": (lambda f: tune_small(f, "--weight", "w", w="0"), "the weight column sums to zero"),
    "negative weight": (lambda f: tune_small(f, "--weight", "w", w={2: "-1"}), "row 2 of the weight column"),
    "weight that is text": (lambda f: tune_small(f, "--weight", "id", id="x"), "'x', which is not a number"),
    "columns and classes": (lambda f: tune_small(f, "--classes", "a,b,x,y", "--columns", "a,b,c"), "4 classes"),
    "repeated column asked": (lambda f: tune_small(f, "--columns", "a,b,b"), "--columns names 'b' twice"),
    "repeated class asked": (lambda f: tune_small(f, "--classes", "a,b,b"), "--classes names 'b' twice"),
    "empty name": (lambda f: tune_small(f, "--classes", "a,,b"), "not a list of names"),
    "positive of three": (lambda f: tune_small(f, "--positive", "a"), "--positive is for two classes"),
    "labels do not fit": (lambda f: tune_small(f, "--columns", "a,b"), "--classes"),
    # columns that are not there
    "missing label": (lambda f: tune_small(f, "--weight", "ww"), "no column 'ww' (nearest: w); correct --weight"),
    "missing column": (lambda f: tune_small(f, "--columns", "a,B,c"), "no column 'B' (nearest: b)"),
    "duplicate names": (lambda f: tune_file(text(f, "a,b,a\n.5,.5,1\n")), "two columns named 'a'"),
    "duplicate names in Parquet": (lambda f: tune_file(repeated_parquet(f)), "two columns named 'a'"),
    # the file
    "missing file": (lambda _f: tune_file("none.csv"), "there is no file none.csv"),
    "directory": (lambda f: tune_file(folder_named(f, "d.csv")), "d.csv is a directory"),
    "unreadable": (lambda f: tune_file(looped(f, "loop.csv")), "loop.csv"),
    "empty file": (lambda f: tune_file(text(f, "")), "t.csv is empty"),
    "blank file": (lambda f: tune_file(text(f, "\n\n \n")), "t.csv is empty"),
    "NPZ without rows": (lambda f: tune_file(archive(f, p=np.zeros((0, 3)))), "the table of probabilities is empty"),
    "NPZ without labels": (
        lambda f: tune_file(archive(f, p=np.zeros((0, 3)), y=np.zeros(0, int)), "--label", "y"),
        "label column 'y' of t.npz has no rows; give at least one",
    ),
    "header only": (lambda f: tune_file(text(f, "a,b\n")), "no rows"),
    "no header": (lambda f: tune_file(text(f, "0.5,0.5\n0.1,0.9\n")), "not column names"),
    "bars": (lambda f: tune_file(text(f, "a|b\n.5|.5\n")), "seems to separate its columns with '|'; give --sep '|'"),
    "ragged": (lambda f: tune_file(text(f, "a,b\n.5,.5\n1\n")), "Expected 2 columns, got 1"),
    "open quote": (lambda f: tune_file(text(f, 'a,b\n.5,".5\n1,0\n')), "odd number of quotes"),
    "not UTF-8": (lambda f: tune_file(binary(f, "t.csv", b"a,b\n.5,.5\n1,\xff\n")),
                  "t.csv is not UTF-8 text; save it as UTF-8 (byte 0xff at position 12)"),
    "not UTF-8 in the names": (lambda f: tune_file(binary(f, "t.csv", b"a,\xff\n.5,.5\n")),
                               "t.csv is not UTF-8 text; save it as UTF-8 (byte 0xff at position 2)"),
    "not UTF-8 far below": (
        lambda f: tune_file(binary(f, "t.csv", b"a,b\n" + b".5,.5\n" * 400_000 + b"1,\xfc\n")),
        "save it as UTF-8 (byte 0xfc at position 2400006)",
    ),
    "UTF-16": (lambda f: tune_file(binary(f, "t.csv", "a,b\n1,0\n".encode("utf-16"))), "binary data"),
    "Parquet named CSV": (lambda f: tune_file(binary(f, "t.csv", parquet_bytes(f))), "holds a Parquet file; rename"),
    "gzip named CSV": (lambda f: tune_file(binary(f, "t.csv", b"\x1f\x8b\x08data")), "a gzip archive"),
    "compressed": (
        lambda f: tune_file(binary(f, "t.csv.gz", b"\x1f\x8b\x08data")),
        "unpack it, or pipe it: zcat ",
    ),
    "gzip named TSV": (lambda f: tune_file(binary(f, "t.tsv", b"\x1f\x8b\x08data")), "t.tsv is named .tsv but holds"),
    "text named Parquet": (lambda f: tune_file(text(f, "a,b\n.5,.5\n", "t.parquet")), "holds text; rename"),
    "text named NPZ": (lambda f: tune_file(text(f, "a,b\n.5,.5\n", "t.npz")), "holds text; rename"),
    "npy named NPZ": (lambda f: tune_file(npy(f)), "one NumPy array"),
    "damaged Parquet": (lambda f: tune_file(binary(f, "t.parquet", parquet_bytes(f)[:-9])), "damaged Parquet"),
    "damaged NPZ": (lambda f: tune_file(binary(f, "t.npz", b"PK\x03\x04" + b"x" * 50)), "cannot be read as NPZ"),
    "pickled NPZ": (lambda f: tune_file(archive(f, P=np.array([None, {}]))), "pickled objects"),
    "NPZ without a table": (lambda f: tune_file(archive(f, y=np.arange(3))), "at least two are needed"),
    "NPZ of two tables": (lambda f: tune_file(two_tables(f), "--label", "y"), "P (4, 2), Q (4, 2)"),
    "NPZ of other lengths": (lambda f: tune_file(uneven(f), "--label", "y"), "no column of probabilities"),
    "NPZ column of other length": (lambda f: tune_file(uneven(f), "--columns", "a,b"), "differ in length"),
    "unknown extension": (lambda f: tune_file(text(f, "a", "t.xlsx")), "the extension '.xlsx'"),
    "no extension": (lambda f: tune_file(text(f, "a", "t")), "no extension"),
    # the metric and the settings
    "unknown metric": (lambda f: tune_small(f, metric="macro_f2"), "did you mean macro_f1"),
    "nothing like a metric": (lambda f: tune_small(f, metric="zzzz"), "'confmax metrics' lists them"),
    "no metric": (lambda f: ["tune", small(f)], "give --metric NAME"),
    "binary metric": (lambda f: tune_small(f, "--classes", "a,b,c", metric="f1"), "use macro_f1"),
    "unknown order": (lambda f: tune_small(f, metric="quadratic_kappa"), "--classes"),
    "solver that cannot": (lambda f: tune_small(f, "--solver", "threshold_search"), "two classes"),
    "unknown solver": (lambda f: tune_small(f, "--solver", "magic"), "'magic'; take 'auto', or one of frank"),
    "removed solver": (lambda f: tune_small(f, "--solver", "polished"), "solver 'polished' was removed; use 'auto'"),
    "unknown parameter": (lambda f: tune_small(f, "--param", "beta=2"), "no parameter 'beta'"),
    "parameter without value": (lambda f: tune_small(f, "--param", "beta"), "not key=value"),
    "bad parameter": (lambda f: tune_small(f, "--param", "beta=x", metric="macro_f_beta"), "beta of macro_f_beta"),
    "linear without costs": (lambda f: tune_small(f, metric="linear"), "--costs FILE.csv"),
    "costs without linear": (lambda f: tune_small(f, "--costs", "c.csv"), "--costs is for the metric linear"),
    "missing costs": (lambda f: tune_small(f, "--costs", "c.csv", metric="linear"), "there is no file c.csv"),
    "costs without names": (
        lambda f: ["tune", small(f), "--costs", text(f, "0,1,1\n1,0,1\n1,1,0\n"), "--columns", "a,b,c"],
        "linear depends on the order of the classes",
    ),
    "infinite cost": (
        lambda f: tune_small(f, "--costs", text(f, "a,b,c\n0,1,inf\n1,0,1\n1,1,0\n"), metric="linear"),
        "cost matrix of linear",
    ),
    "labels without label": (lambda f: tune_file(small(f), "--confusion", "labels"), "needs --label"),
    "bad tol": (lambda f: tune_small(f, "--tol", "-1"), "--tol must be finite"),
    "bad passes": (lambda f: tune_small(f, "--max-passes", "0"), "--max-passes is a positive integer, if it is given"),
    "bad seed": (lambda f: tune_small(f, "--seed", "-1"), "--seed is a whole number"),
    "bad choice": (lambda f: tune_small(f, "--confusion", "maybe"), "'maybe'"),
    "unknown option": (lambda f: tune_small(f, "--colums", "a"), "--columns"),
    "unknown command": (lambda _f: ["tuna"], "'confmax --help' tells more"),
    "missing argument": (lambda _f: ["tune"], "FILE"),
    # where it goes
    "missing folder": (lambda f: tune_small(f, "-o", "none/rule.json"), "the folder none does not exist"),
    "folder as output": (lambda f: tune_small(f, "-o", folder_named(f, "d")), "d is a directory"),
    "table as output": (lambda f: tune_small(f, "-o", "small.csv"), "is the input file"),
    "demo into a missing folder": (lambda _f: ["demo", "-o", "none/rule.json"], "the folder none does not exist"),
    "apply to a missing folder": (lambda f: apply_small(f, out="none/o.csv"), "the folder none does not exist"),
    "apply to an unknown format": (lambda f: apply_small(f, out="o.xlsx"), "the extension '.xlsx'"),
    "apply to a compressed file": (lambda f: apply_small(f, out="o.csv.gz"), "-o - | gzip > FILE"),
    "apply without output": (lambda f: apply_small(f)[:3], "-o"),
    # the rule
    "missing rule": (lambda f: ["apply", "no.json", small(f), "-o", "o.csv"], "there is no rule file no.json"),
    "folder as rule": (lambda f: ["apply", folder_named(f, "d"), small(f), "-o", "o.csv"], "d is a directory"),
    "broken rule": (lambda f: ["apply", text(f, "{", "r.json"), small(f), "-o", "o.csv"], "r.json is not a rule"),
    "not a rule": (lambda f: ["apply", text(f, "{}", "r.json"), small(f), "-o", "o.csv"], "r.json is not a rule"),
    "later version": (lambda f: apply_small(f, version=99), "its version is 99"),
    "rule of other classes": (lambda f: apply_small(f, classes=["x", "why", "z"]), "rule's classes x, why, z"),
    "rule of some classes": (lambda f: apply_small(f, classes=["a", "b", "d"]), "no column 'd'"),
    "rule of more classes": (lambda f: ["apply", rule_file(f), two_tables(f), "-o", "o.npz"], "rule's classes"),
    "missing key": (lambda f: [*apply_small(f), "--key", "ide"], "no column 'ide' (nearest: id)"),
    "empty key": (lambda f: [*apply_small(f, id={2: ""}), "--key", "id"], "row 2 of key column 'id'"),
    "decided already": (lambda f: ["apply", rule_file(f), decided(f), "-o", "o.csv"], "has a column 'decision'"),
    "rule scored on other classes": (
        lambda f: ["score", small(f), "--label", "y", "--rule", rule_file(f), "--classes", "a,b,d"],
        "the rule's classes are a, b, c",
    ),
    # score
    "score without label": (lambda f: ["score", small(f)], "--label"),
    "score by an unknown metric": (lambda f: ["score", small(f), "--label", "y", "--metric", "g_men"], "g_mean"),
    "score by linear": (lambda f: ["score", small(f), "--label", "y", "--metric", "linear"], "no table of costs"),
    "score by a binary metric": (lambda f: ["score", small(f), "--label", "y", "--metric", "f1"], "write f1[NAME]"),
    "score without the order": (
        lambda f: ["score", small(f), "--label", "y", "--metric", "linear_kappa"],
        "give the order with --classes",
    ),
    "score with a lone parameter": (lambda f: ["score", small(f), "--label", "y", "--param", "beta=2"], "one --metric"),
}  # fmt: skip


def everything(folder):
    """Names and contents of all that lies in a folder."""
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(tmp_path, name):
    """Exit code 2, one sentence on stderr, nothing on stdout, nothing written."""
    prepare, words = BAD[name]
    args = prepare(tmp_path)
    before = everything(tmp_path)
    stdout, stderr = run(*args, code=2)
    assert everything(tmp_path) == before
    assert stdout == ""
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert stderr.endswith("\n")
    assert "Traceback" not in stderr
    assert words in stderr
    assert ("counted from 0" in stderr) == (re.search(r"row \d+ of", stderr) is not None)
    assert not re.search(r"classes=|sample_weight|\bproba\b|Errno|\by\b has", stderr)


@pytest.mark.parametrize("command", ["tune", "apply", "demo"])
def test_a_full_disk_leaves_no_file(tmp_path, monkeypatch, command):
    """The last step fails: one sentence, and no part of a file."""
    rule = library.DecisionRule.from_weights([1.0, 2.0])
    monkeypatch.setattr("confmax.cli.demo.demonstrate", lambda _progress: (rule, {}))
    args = {"tune": tune_small(tmp_path), "apply": apply_small(tmp_path), "demo": ["demo", "-o", "rule.json"]}[command]
    before = everything(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("confmax.places.os.replace", full)
    _, stderr = run(*args, code=2)
    assert "No space left on device" in stderr
    assert stderr.count("\n") == 1
    assert everything(tmp_path) == before


def test_our_bugs_keep_their_traceback(tmp_path, monkeypatch):
    """Only what a user can mend is a sentence."""

    def bug(*_, **__):
        raise TypeError("ours")

    monkeypatch.setattr("confmax.cli.tune.maximize", bug)
    with pytest.raises(TypeError, match="ours"):
        run(*tune_small(tmp_path))


def test_deprecations_are_not_swallowed(tmp_path, monkeypatch):
    def old(*_, **__):
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    monkeypatch.setattr("confmax.cli.tune.maximize", old)
    with pytest.raises(DeprecationWarning):
        run(*tune_small(tmp_path))


@pytest.mark.parametrize(
    ("command", "tried", "meant"),
    [
        ("tune", "--constraint", "--subject-to"),
        ("tune", "--limits", "--subject-to"),
        ("tune", "--random-state", "--seed"),
        ("tune", "--overwrite", "--force"),
        ("score", "--labels", "--label"),
    ],
)
def test_options_by_other_names(command, tried, meant):
    _, stderr = run(command, tried, "x", code=2)
    assert f"No such option {tried}. Did you mean {meant}?; 'confmax {command} --help' tells more" in stderr
