"""Whatever form a table comes in, the answer is the same: marks, prefixes, score columns, standard input, pipes."""

import csv
import importlib
import json
import os
import shlex
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import confmax as library
from tests.cli_helpers import document, refusal, run, run_process, shell

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csvs = importlib.import_module("confmax.cli.csvs")
scores = importlib.import_module("confmax.cli.score_columns")
joined = importlib.import_module("confmax.cli.texts").joined

DRAW = np.random.default_rng(3)
ROWS = 60
YES = DRAW.integers(1, 64, ROWS) / 64  # one minus it is exact, so that all forms hold the same numbers
TRUTH = np.where(DRAW.random(ROWS) < YES, "yes", "no")
pytestmark = pytest.mark.usefixtures("inside")


def written(columns, name="t.csv", sep=",", decimal=".", quoted=""):
    """Write columns as CSV, numbers with a decimal mark, names between quotes if there are any; or as Parquet."""
    if name.endswith(".parquet"):
        pq.write_table(pa.table(columns), name)
        return name
    lines = [sep.join(f"{quoted}{key}{quoted}" for key in columns)]
    for row in zip(*columns.values(), strict=True):
        cells = [str(float(cell)).replace(".", decimal) if isinstance(cell, float) else str(cell) for cell in row]
        lines.append(sep.join(cells))
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def one(name):
    return {"id": [f"{k:03d}" for k in range(ROWS)], name: YES.tolist(), "y": TRUTH.tolist()}


def two(names=("no", "yes"), **more):
    return {names[0]: (1 - YES).tolist(), **one(names[1]), **more}


SPACES = {f" {key}": cells for key, cells in two(y=[f" {name}" for name in TRUTH]).items()}
SEMICOLONS = {"sep": ";", "decimal": ","}
# columns, how they are written, and what else a command is told
FORMS = {
    "comma": (two(), {}, ()),
    "decimal comma": (two(), SEMICOLONS, ()),
    "tab": (two(), {"sep": "\t"}, ()),
    "another mark": (two(), {"sep": "|"}, ("--sep", "|")),
    "quoted names": (two(), {"sep": ";", "quoted": '"'}, ()),
    "spaces": (SPACES, {}, ()),
    "proba prefixes": (two(("proba_no", "proba_yes")), {}, ()),
    "score": (one("s"), SEMICOLONS, ("--score", "s")),
    "score in Parquet": (one("s"), {"name": "t.parquet"}, ("--score", "s")),
    "Parquet": (two(("p_no", "p_yes")), {"name": "t.parquet"}, ()),
    "named score": (one("p_yes"), {}, ("--positive", "yes")),
}
TUNE = ("--label", "y", "--metric", "f1", "--positive", "yes")


def save_rule(metric="accuracy", **weights):
    """Save a rule of two classes, or of the weights by class."""
    weights = weights or {"no": 1.0, "yes": 1.5}
    rule = library.DecisionRule.from_weights(list(weights.values()), classes=list(weights))
    library.DecisionRule(rule.gains, rule.weights, rule.class_names, metric, 0).save("r.json")


def save_table(form):
    """Write a form of the table; return its name and what else a command is told."""
    columns, settings, more = FORMS[form]
    return written(columns, **settings), *more


@pytest.fixture(scope="module")
def expected():
    """The rule of the table as the library tunes it, and what it decides."""
    P = np.column_stack([1 - YES, YES])
    rule = library.maximize("f1", P, TRUTH, classes=["no", "yes"]).rule
    return rule.to_json(), rule.predict(P).tolist()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("form", FORMS)
def test_the_same_answer_in_every_form(expected, form):
    file, *more = save_table(form)
    run("tune", file, *more, *TUNE, "-o", "r.json")
    run("apply", "r.json", file, *more, "-o", "o.parquet")
    # what the columns are called is all that differs
    rule = replace(library.DecisionRule.load("r.json"), columns=())
    assert (rule.to_json(), pq.read_table("o.parquet")["decision"].to_pylist()) == expected


COMMANDS = {
    "score": ("score", "{}", "--label", "y", "--positive", "yes", "--replicates", "0"),
    "compare": ("compare", "{}", "--label", "y", "--positive", "yes", "--metric", "f1", "--replicates", "0"),
    "report": ("report", "r.json", "{}", "--label", "y", "--positive", "yes", "--replicates", "0"),
    "apply": ("apply", "r.json", "{}", "-o", "o.csv"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reads_every_form(command):
    if command == "report" and find_spec("vl_convert") is None:
        pytest.skip("vl-convert-python is not installed")
    save_rule()
    documents = []
    for form in ("comma", "another mark", "named score"):
        file, *more = save_table(form)
        answer = document(*(word.format(file) for word in COMMANDS[command]), *more)
        documents.append({key: value for key, value in answer.items() if key not in ("file", "columns")})
    assert documents[0] == documents[1] == documents[2]


def test_a_frontier_reads_no_folder():
    Path("parts").mkdir()
    for name in ("parts", "parts/*.parquet"):
        said = refusal("frontier", name, "--metric", "accuracy", "--over", "recall[yes] >= 0.5")
        assert said.startswith(f"error: {name} is read in parts, and this command reads one file whole; ")


# --- one score column ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "more", "classes"),
    [
        ("s", "--label y --positive no --metric accuracy", ["yes", "no"]),
        ("s", "--classes no,yes --metric g_mean", ["no", "yes"]),
        ("P(yes)", "--label y --metric f1", ["no", "yes"]),
    ],
)
def test_a_score_is_read_as_what_is_said(column, more, classes):
    answer = document("tune", written(one(column)), "--score", column, *shlex.split(more))
    assert (answer["classes"], answer["columns"]) == (classes, [f"1 - {column}", column])


def test_a_rule_keeps_its_order_whatever_is_positive():
    """Ties go to the last class of the rule, also if the score is that of the first one."""
    save_rule(yes=1.0, no=1.0)
    written({"s": [0.5, 0.75, 0.25]})
    run("apply", "r.json", "t.csv", "--score", "s", "--positive", "yes", "-o", "o.csv")
    assert Path("o.csv").read_text() == "s,decision\n0.5,no\n0.75,yes\n0.25,no\n"


@pytest.mark.parametrize(
    ("metric", "known"), [("f1", True), ("f_beta(beta=2.0)", True), ("g_mean", False), ("", False)]
)
def test_a_rule_for_the_positive_class_says_whose_the_score_is(metric, known):
    save_rule(metric, ham=1.0, spam=1.0)
    arguments = ("apply", "r.json", written({"s": [0.875, 0.25]}), "--score", "s", "-o", "o.csv")
    if known:
        run(*arguments)
        assert Path("o.csv").read_text() == "s,decision\n0.875,spam\n0.25,ham\n"
    else:
        assert "say it with --positive ham or --positive spam" in refusal(*arguments)


def test_a_column_that_is_taken_without_score_is_told():
    _, stderr = run("tune", written(one("p_yes")), *TUNE)
    assert (
        stderr.startswith("warning: column 'p_yes' was taken as the probability of yes") and "--score p_yes" in stderr
    )


def test_columns_with_a_prefix_are_taken_and_the_others_are_told():
    """Without labels nothing but their names tells columns of probabilities from numbers of rows."""
    numbered = {"row": list(range(5, 5 + ROWS)), **two(("p_no", "p_yes"))}
    del numbered["id"]
    more = ("--metric", "macro_f1", "--confusion", "model")
    for columns in (numbered, dict(reversed(numbered.items()))):
        stdout, stderr = run("tune", written(columns), *more, "--json")
        assert json.loads(stdout)["columns"] == [name for name in columns if name.startswith("p_")]
        assert stderr.startswith("warning: the columns that begin with 'p_' were taken") and "left out (row)" in stderr
    renamed = {"p_no": "p_yes", "p_yes": "q_no"}
    unlike = {renamed.get(name, name): cells for name, cells in numbered.items()}
    assert "columns taken: row, p_yes, q_no, every numeric column" in refusal("tune", written(unlike), *more)


@pytest.mark.parametrize("more", [{}, {"row": [1000.5] * ROWS}])
def test_a_table_with_the_column_of_one_class_asks_for_score(more):
    written({"p_yes": YES.tolist(), "y": TRUTH.tolist(), **more})
    said = refusal("tune", "t.csv", "--label", "y", "--metric", "macro_f1")
    assert said == "error: t.csv has a column for the class yes (p_yes) and none for no; give --score p_yes\n"
    save_rule()
    assert refusal("apply", "r.json", "t.csv", "-o", "o.csv") == said
    run("apply", "r.json", "t.csv", "-o", "o.csv", "--score", "p_yes")


@pytest.mark.parametrize(
    "column, name, alike",
    [
        ("yes", "yes", True), ("p_yes", "yes", True), ("Yes.score", "yes", True), ("P(yes)", "yes", True),
        ("score_1", 1, True), ("1.0", 1, True), ("eyes", "yes", False), ("p10", 1, False), ("p_10", 1, False),
        ("p_not_yes", "not yes", False), ("p_a.b", "a.b", True), ("p_axb", "a.b", False),
    ],
)  # fmt: skip
def test_columns_that_are_named_like_a_class(column, name, alike):
    assert scores.is_named_like(column, name) == alike


# the text of a table, what else tune is told, and its answer
REFUSED = [
    ("s,y\n.5,no\n1.5,yes\n", "--score s --positive yes", "row 1 of score column 's' of t.csv is 1.5, which is not"),
    ("s,y\nnan,no\n.5,yes\n", "--score s --positive yes", "is empty; drop such rows"),
    ("s,y\n.5,a\n.5,b\n.5,c\n", "--score s --positive a", "--score is for two classes and there are 3 (a, b, c)"),
    ("s,y\n.5,no\n.5,no\n", "--score s --positive no", "only the class no is known here; name both with --classes"),
    ("s,y\n.5,no\n.5,yes\n", "--score s", "say it with --positive no or --positive yes"),
    ("s,y\n.5,no\n.5,yes\n", "--score s --positive maybe", "--positive maybe is none of the classes (no, yes)"),
    ("p_yes,y\n.5,no\n.5,yes\n", "--score p_yes --positive no", "--positive says no; give --positive yes, or rename"),
    ("s,y\n.5,no\n.5,yes\n", "--score s --columns s", "--score and --columns both say where the probabilities are"),
    ("s,y\n.5,no\n.5,yes\n", "--score z", "(it has s, y); correct --score"),
    ("s,y\n.5,no\n.5,yes\n", "", "for two classes you can name a single column with --score"),
    ("p_yes,yes_2,y\n.5,.4,no\n.5,.4,yes\n", "--positive yes", "--score a single column"),
    (",a,b,y\n0,.5,.5,a\n1,.5,.5,c\n2,.5,.5,b\n", "", "(it has (without a name), a, b, y)"),
    # separators and decimal marks
    ("no;1,yes;2\n" + "0;0.5,0.5;0\n" * 3, "", "may be separated by commas or by semicolons; say which with --sep"),
    ("no,yes,y\n.5,.5,no\n", "--sep ';'", "seems to separate its columns with commas; leave --sep out"),
    ("no|yes|y\n.5|.5|no\n", "", "seems to separate its columns with '|'; give --sep '|'"),
    *(
        ("no,yes,y\n.5,.5,no\n", f"--sep {shlex.quote(mark)}", "is not one mark between cells, such as ';', or comma")
        for mark in (";;", '"', "a", "", "\n", "é")
    ),
    (
        "no;yes;w\n0.25;0.75;1,000\n0.5;0.5;2\n",
        "--weight w",
        "row 0 of column 'w' of t.csv holds '1,000', which is not a num",
    ),
    ('no,yes,w\n1,0,"1,000"\n0,1,2\n', "--weight w", "holds '1,000'"),
    ("0,5;0,5\n0,25;0,75\n", "", "holds numbers, not column names"),
    ("a, a,b\n.5,.5,0\n", "", "two columns named 'a'"),
]


@pytest.mark.parametrize(("text", "more", "sentence"), REFUSED)
def test_tables_that_are_refused(text, more, sentence):
    Path("t.csv").write_text(text)
    label = ("--label", "y") if "y\n" in text else ()
    assert sentence in refusal("tune", "t.csv", *label, "--metric", "accuracy", *shlex.split(more))


def test_settings_of_csv_files_are_not_for_parquet():
    written(one("s"), "t.parquet")
    arguments = ("tune", "t.parquet", *TUNE)
    whole = "--score is for files that are read whole and t.parquet is read in parts; name one file with"
    assert whole in refusal(*arguments, "--in-parts", "yes", "--score", "s")
    assert "--sep is for files that are read whole" in refusal(*arguments, "--in-parts", "yes", "--sep", ";")
    assert "--sep is for CSV files and t.parquet is none; leave --sep out" in refusal(*arguments, "--sep", ";")


# --- separators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, mark",
    [
        ("a,b\n1,2\n", ","), ("a;b\n1;2\n", ";"), ("a\tb\n1\t2\n", "\t"), ("a\n1\n", ","), ("a;b\n", ";"),
        ("a;b\n0,5;0,5\n", ";"),  # decimal commas
        ("a,x;b\n0,5;0,5\n", ";"),
        ("x;1,y;1\n0.5,0.5\n", ","),  # semicolons in names
        ('"p;no","p;yes"\n.5,.5\n', ","), ('"p, no";"p, yes"\n.5;.5\n', ";"),
        ("a,b\n1;2\n", ","), ("a,b,c;d\n1\n", ","),  # nothing fits: the most names
        ("\n\na;b\n1;2\n", ";"),
        ("p,no;p,yes\n0,5;0,5\n", ";"), ('a;"b\nc;d"\n1;2\n', ";"),
        ("a;b\n1;2\n" + "x" * 200_000 + ";2\n", ";"),  # a long cell
    ],
)  # fmt: skip
def test_separators_are_sniffed(text, mark):
    assert csvs.sniffed(csvs.Source(Path("t.csv"), text.encode())) == mark


@pytest.mark.parametrize("said, mark", [("tab", "\t"), ("\\t", "\t"), ("\t", "\t"), ("semicolon", ";"), (";", ";")])
def test_names_of_separators(said, mark):
    file = written(two(), sep=mark)
    assert document("tune", file, *TUNE, "--sep", said)["columns"] == ["no", "yes"]


def test_decisions_keep_the_separator_and_the_cells():
    save_rule(no=1.0, yes=1.0)
    Path("t.csv").write_text('id;" no";yes;"a;b"\n007;0,25;0,75;"x;y"\n008;0,50;,5;1,000\n')
    run("apply", "r.json", "t.csv", "-o", "o.csv")
    with open("o.csv", newline="") as file:
        assert list(csv.reader(file, delimiter=";")) == [
            ["id", " no", "yes", "a;b", "decision"],
            ["007", "0,25", "0,75", "x;y", "yes"],
            ["008", "0,50", ",5", "1,000", "yes"],
        ]
    run("apply", "r.json", "t.csv", "-o", "o.parquet")
    table = pq.read_table("o.parquet")
    assert (table[" no"].to_pylist(), table["yes"].to_pylist()) == ([0.25, 0.5], [0.75, 0.5])
    run("apply", "r.json", written(two(), "t.parquet"), "-o", "o.csv")
    assert Path("o.csv").read_text().startswith("no,id,yes,y,decision\n")


@pytest.mark.parametrize("name", ["t.tsv", "T.TXT"])
def test_text_of_other_names_is_csv(name):
    """Read as CSV, and written so: a file that is named for tabs has tabs, whatever the input has."""
    save_rule()
    run("apply", "r.json", written(two(), name, sep="\t"), "-o", "o.txt")
    assert "has a column 'decision'" in refusal("apply", "r.json", "o.txt", "-o", "again.csv")
    run("apply", "r.json", written(two()), "-o", "o.tsv")
    lines = [[line.split("\t") for line in Path(out).read_text().splitlines()] for out in ("o.txt", "o.tsv")]
    assert lines[0] == lines[1] and lines[0][0][-1] == "decision"


def test_numbered_labels_with_decimal_commas():
    written(two(("0", "1"), y=[float(name == "yes") for name in TRUTH]), **SEMICOLONS)
    answer = document("tune", "t.csv", "--label", "y", "--metric", "f1")
    assert (answer["classes"], answer["columns"]) == ([0, 1], ["0", "1"])


def test_costs_with_semicolons_and_decimal_commas():
    written(two())
    Path("a.csv").write_text(",no,yes\nno,0,1.5\nyes,2.5,0\n")
    Path("b.csv").write_text(";no;yes\nno;0;1,5\nyes;2,5;0\n")
    plain, spread = (document("tune", "t.csv", "--label", "y", "--costs", name)["rule"] for name in ("a.csv", "b.csv"))
    assert plain == spread


# --- standard input and output ---------------------------------------------------------------------------------------


def test_a_pipeline():
    """confmax reads what confmax writes, between the commands of a shell; what is said goes to standard error."""
    written(two())
    stdout, stderr = shell(
        f"set -o pipefail; cat t.csv | {{0}} tune - {' '.join(TUNE)} -o - 2>said.txt >r.json && "
        "{0} apply r.json - -o - <t.csv 2>/dev/null | tee o.csv | {0} score - --label y --metric accuracy "
        "--columns no,yes --replicates 0 --json"
    )
    assert stderr == "" and json.loads(stdout)["file"] == "standard input"
    said = Path("said.txt").read_text()
    assert f"standard input, {ROWS} rows" in said and "DecisionRule for f1" in said
    piped = Path("r.json").read_text(), Path("o.csv").read_text()
    run("tune", "t.csv", *TUNE, "-o", "r.json")
    run("apply", "r.json", "t.csv", "-o", "o.csv")
    assert (Path("r.json").read_text(), Path("o.csv").read_text()) == piped
    assert not Path("-").exists()


@pytest.mark.parametrize(("command", "start"), [("export", "# tuned for accuracy"), ("page", "<!doctype html>")])
def test_other_results_on_standard_output(command, start):
    if command == "page" and find_spec("vl_convert") is None:
        pytest.skip("vl-convert-python is not installed")
    save_rule(no=1.0, yes=1.0)
    exported = ("export", "r.json", "--to", "python", "-o", "-")
    arguments = exported if command == "export" else ("tune", "-", *TUNE, "--report", "-")
    done = run_process(*arguments, input=Path(written(two())).read_text())
    assert done.returncode == 0 and "/dev/stdout" in done.stderr
    assert done.stdout.lower().startswith(start)
    assert command == "export" or "standard input" in done.stdout


@pytest.mark.parametrize("arguments", [("tune", "t.csv", *TUNE), ("apply", "r.json", "t.csv"), ("demo",)])
def test_two_results_on_one_stream_are_refused(arguments):
    written(two())
    save_rule()
    said = refusal(*arguments, "-o", "-", "--json")
    assert said.startswith("error: two results cannot both go to standard output; name a file for one")


def test_streams_have_other_names():
    """As in `confmax apply r.json <(zcat t.csv.gz) -o /dev/stdout`: pipes and devices hold CSV."""
    save_rule(no=1.0, yes=1.0)
    written(two())
    run("apply", "r.json", "t.csv", "-o", "/dev/null")
    run("apply", "r.json", "t.csv", "-o", "o.csv")
    name = "/dev/fd/1" if os.path.exists("/dev/fd/1") else "/dev/stdout"
    assert shell(f"{{}} apply r.json <(cat t.csv) -o {name}")[0] == Path("o.csv").read_text()


@pytest.mark.parametrize(
    "data, sentence",
    [
        (b"", "error: standard input is empty; give a table with column names and rows\n"),
        (b"PAR1xxxx", "error: standard input holds a Parquet file; only CSV is read from a stream: name the file\n"),
        (b"a,b\n", "error: standard input has column names but no rows; give at least one row of probabilities\n"),
        (b"a,b\n.5,x\n", "error: standard input has one column of probabilities (a); at least two are needed"),
    ],
)
def test_what_standard_input_cannot_hold(data, sentence):
    assert refusal("tune", "-", "--metric", "g_mean", data=data).startswith(sentence)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("{} metrics >&-", 2, "standard output is closed, so results would be lost; redirect it to a file"),
        ("{} tune none.csv --metric f1 >&- 2>&-", 2, ""),
        ("{} tuna 2>&-", 2, ""),
        ("{} metrics --json 2>&-", 0, ""),
        ("{} tune - --metric f1 <&-", 2, "standard input is closed; name a file"),
        (
            # Python would keep the beginning of the modules that it compiles
            "unset COVERAGE_PROCESS_CONFIG; export PYTHONDONTWRITEBYTECODE=1; trap '' XFSZ; ulimit -f 1; "
            "{} metrics --json >out",
            2,
            "standard output cannot be written (File too large)",
        ),
    ],
)
def test_closed_and_full_streams(line, code, said):
    stdout, stderr = shell(line, code)
    assert (stdout != "") == (code == 0)
    assert said in stderr if said else stderr == ""


# --- long names ------------------------------------------------------------------------------------------------------


def test_a_long_name_is_not_printed_whole():
    long = "z" * 100_000
    columns = two()
    columns["y"][4] = long
    written(columns)
    save_rule(no=1.0, yes=1.0)
    for arguments in (
        ("tune", "t.csv", *TUNE),
        ("score", "t.csv", "--label", "y", "--classes", "no,yes"),
        ("apply", "r.json", "t.csv", "-o", "o.csv", "--key", long[:50_000]),
        ("tune", "t.csv", "--label", "y " * 20_000, "--metric", "f1"),
    ):
        said = refusal(*arguments)
        assert len(said) < 2500 and ("zzz ... zzz" in said or "y y" in said)
    stdout, _ = run("tune", written({"no": (1 - YES).tolist(), long: YES.tolist()}), "--metric", "g_mean")
    assert len(stdout.split("DecisionRule")[0]) < 1000
    assert joined(["", "a"]) == "(without a name), a"


def test_repeated_parameters():
    arguments = ("tune", written(two()), *TUNE[:2], "--metric", "f_beta", "--positive", "yes")
    said = refusal(*arguments, "--param", "beta=1", "--param", "beta=2")
    assert "beta is given twice; give each parameter once" in said


@pytest.mark.parametrize("more", [(), ("--in-parts", "yes"), ("--in-parts", "no")])
def test_a_folder_that_is_not_there(more):
    said = refusal("tune", "missing", *TUNE, *more)
    assert said == "error: there is no file missing; check the name and the folder\n"
