"""Everyday inputs: one score column, prefixes, separators, decimal commas, standard input and output."""

import csv
import functools
import importlib
import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import confmax as library
from tests.cli_helpers import document, refusal, run, run_process, shell

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csvs = importlib.import_module("confmax.cli.csvs")
scores = importlib.import_module("confmax.cli.columns")
joined = importlib.import_module("confmax.cli.texts").joined

DRAW = np.random.default_rng(3)
YES = DRAW.integers(1, 64, 120) / 64  # one minus it is exact, so that all forms hold the same numbers
TRUTH = np.where(DRAW.random(120) < YES, "yes", "no")
pytestmark = pytest.mark.usefixtures("inside")


def written(name="t.csv", sep=",", decimal=".", quoted="", **columns):
    """Write columns as CSV, numbers with a decimal mark, names between quotes if there are any."""
    lines = [sep.join(f"{quoted}{key}{quoted}" for key in columns)]
    for row in zip(*columns.values(), strict=True):
        cells = [str(float(cell)).replace(".", decimal) if isinstance(cell, float) else str(cell) for cell in row]
        lines.append(sep.join(cells))
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def two(names=("no", "yes"), **more):
    return {
        "id": [f"{k:03d}" for k in range(120)],
        names[0]: (1 - YES).tolist(),
        names[1]: YES.tolist(),
        "y": TRUTH.tolist(),
        **more,
    }


def one(name):
    return {"id": [f"{k:03d}" for k in range(120)], name: YES.tolist(), "y": TRUTH.tolist()}


def as_parquet(columns):
    pq.write_table(pa.table(columns), "t.parquet")
    return "t.parquet"


FORMS = {
    "comma": lambda: [written(**two())],
    "semicolon": lambda: [written(sep=";", **two())],
    "decimal comma": lambda: [written(sep=";", decimal=",", **two())],
    "tab": lambda: [written(sep="\t", **two())],
    "tab and decimal comma": lambda: [written(sep="\t", decimal=",", **two())],
    "another mark": lambda: [written(sep="|", **two()), "--sep", "|"],
    "quoted names": lambda: [written(sep=";", quoted='"', **two())],
    "spaces in the header": lambda: [written(**{f" {key}": cells for key, cells in two().items()})],
    "spaces in the labels": lambda: [written(**two(y=[f" {name}" for name in TRUTH]))],
    "prefixes": lambda: [written(**two(("p_no", "p_yes")))],
    "proba prefixes": lambda: [written(sep=";", **two(("proba_no", "proba_yes")))],
    "score": lambda: [written(**one("s")), "--score", "s"],
    "score with semicolons": lambda: [written(sep=";", decimal=",", **one("s")), "--score", "s"],
    "score in Parquet": lambda: [as_parquet(one("s")), "--score", "s"],
    "Parquet": lambda: [as_parquet(two(("p_no", "p_yes")))],
    "named score": lambda: [written(**one("p_yes"))],
}
TUNE = ("--label", "y", "--metric", "f1", "--positive", "yes")


def rule_and_decisions(form):
    """Return the text of the rule that is tuned on a form of the table, and what it decides there."""
    file, *more = FORMS[form]()
    run("tune", file, *more, *TUNE, "-o", "r.json")
    run("apply", "r.json", file, *more, *(["--positive", "yes"] if form == "named score" else []), "-o", "o.parquet")
    return Path("r.json").read_text(), pq.read_table("o.parquet")["decision"].to_pylist()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("form", FORMS)
def test_the_same_answer_in_every_form(form):
    P = np.column_stack([1 - YES, YES])
    rule = library.maximize("f1", P, TRUTH, classes=["no", "yes"]).rule
    assert rule_and_decisions(form) == (rule.to_json(), rule.predict(P).tolist())


def save_rule(**weights):
    """Save a rule of two classes, or of the weights by class."""
    weights = weights or {"no": 1.0, "yes": 1.5}
    rule = library.DecisionRule.from_weights(list(weights.values()), classes=list(weights))
    library.DecisionRule(rule.gains, rule.weights, rule.class_names, "accuracy", 0).save("r.json")


COMMANDS = {
    "tune": ("tune", "{}", *TUNE),
    "score": ("score", "{}", "--label", "y", "--positive", "yes", "--replicates", "0"),
    "compare": ("compare", "{}", "--label", "y", "--positive", "yes", "--metric", "f1", "--replicates", "0"),
    "report": ("report", "r.json", "{}", "--label", "y", "--positive", "yes", "--replicates", "0"),
    "apply": ("apply", "r.json", "{}", "-o", "o.csv"),
}


@functools.cache
def plain_document(command):
    """Return what a command says of the table with commas."""
    written("plain.csv", **two())
    return document(*(word.format("plain.csv") for word in COMMANDS[command]))


@pytest.mark.parametrize("form", ["comma", "decimal comma", "another mark", "prefixes", "score", "named score"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reads_every_form(command, form):
    if command == "report" and find_spec("vl_convert") is None:
        pytest.skip("vl-convert-python is not installed")
    save_rule()
    reference = dict(plain_document(command))
    file, *more = FORMS[form]()
    more += ["--positive", "yes"] * (command == "apply" and form in ("score", "named score"))
    found = document(*(word.format(file) for word in COMMANDS[command]), *more)
    for key in ("file", "columns"):
        reference.pop(key, None), found.pop(key, None)
    assert found == reference


# --- one score column ------------------------------------------------------------------------------------------------


def test_a_score_is_read_as_what_is_said():
    written(**one("s"))
    found = document("tune", "t.csv", "--score", "s", "--label", "y", "--positive", "no", "--metric", "accuracy")
    assert (found["classes"], found["columns"]) == (["yes", "no"], ["1 - s", "s"])
    assert found["argmax"] < 0.5  # the score is that of yes
    found = document("tune", "t.csv", "--score", "s", "--classes", "no,yes", "--metric", "g_mean")
    assert (found["classes"], found["columns"]) == (["no", "yes"], ["1 - s", "s"])
    written("n.csv", **one("P(yes)"))
    found = document("tune", "n.csv", "--score", "P(yes)", "--label", "y", "--metric", "f1")
    assert (found["classes"], found["columns"]) == (["no", "yes"], ["1 - P(yes)", "P(yes)"])


def test_a_rule_keeps_its_order_whatever_is_positive():
    """Ties go to the last class of the rule, also if the score is that of the first one."""
    save_rule(yes=1.0, no=1.0)
    written(s=[0.5, 0.75, 0.25])
    run("apply", "r.json", "t.csv", "--score", "s", "--positive", "yes", "-o", "o.csv")
    assert Path("o.csv").read_text() == "s,decision\n0.5,no\n0.75,yes\n0.25,no\n"


def test_a_rule_for_the_positive_class_says_whose_the_score_is():
    rule = library.DecisionRule.from_weights([1.0, 1.0], classes=["ham", "spam"])
    written(s=[0.875, 0.25])
    for metric, known in (("f1", True), ("f_beta(beta=2.0)", True), ("g_mean", False), ("", False)):
        library.DecisionRule(rule.gains, rule.weights, rule.class_names, metric, 0).save("r.json")
        _, stderr = run("apply", "r.json", "t.csv", "--score", "s", "-o", "o.csv", code=0 if known else 2)
        assert stderr == "" if known else "say it with --positive ham or --positive spam" in stderr
        assert not known or Path("o.csv").read_text() == "s,decision\n0.875,spam\n0.25,ham\n"


def test_a_column_that_is_taken_without_score_is_told():
    _, stderr = run("tune", written(**one("p_yes")), *TUNE)
    assert stderr == (
        "warning: column 'p_yes' was taken as the probability of yes, and the rest as that of the other class; --score "
        "p_yes says so without this warning\n"
    )


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
    renamed = {"p_no": "p_yes", "p_yes": "q_no"}
    unlike = {renamed.get(name, name): cells for name, cells in numbered.items()}
    assert "columns taken: row, p_yes, q_no, every numeric column" in refusal("tune", written(**unlike), *more)


@pytest.mark.parametrize("more", [{}, {"row": list(range(5, 125))}, {"row": [1000.5] * 120}])
def test_a_table_with_the_column_of_one_class_asks_for_score(more):
    half = {"p_yes": YES.tolist(), "y": TRUTH.tolist(), **more}
    said = refusal("tune", written(**half), "--label", "y", "--metric", "macro_f1")
    assert said == "error: t.csv has a column for the class yes (p_yes) and none for no; give --score p_yes\n"
    save_rule()
    assert refusal("apply", "r.json", "t.csv", "-o", "o.csv") == said
    run("apply", "r.json", "t.csv", "-o", "o.csv", "--score", "p_yes")


def test_a_column_without_a_name_is_spoken_of():
    Path("t.csv").write_text(",a,b,y\n0,.5,.5,a\n1,.5,.5,c\n2,.5,.5,b\n")
    said = refusal("tune", "t.csv", "--label", "y", "--metric", "accuracy")
    assert "(it has (without a name), a, b, y)" in said
    assert joined(["", "a"]) == "(without a name), a"


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


SCORE = ("--score", "s")
REFUSED = {
    "outside 0 to 1": (
        {"s": [0.5, 1.5], "y": ["no", "yes"]}, (*SCORE, "--positive", "yes"),
        "row 1 of score column 's' of t.csv is 1.5, which is not between 0 and 1; give probabilities: divide "
        "percentages by 100, turn log-odds x into 1 / (1 + exp(-x))",
    ),
    "negative": ({"s": [-0.5, 0.5], "y": ["no", "yes"]}, (*SCORE, "--positive", "yes"), "row 0 of score column 's'"),
    "nan": ({"s": ["nan", 0.5], "y": ["no", "yes"]}, (*SCORE, "--positive", "yes"), "is empty; drop such rows"),
    "three classes": (
        {"s": [0.5] * 3, "y": list("abc")}, (*SCORE, "--positive", "a"),
        "--score is for two classes and there are 3 (a, b, c); give one column of probabilities per class",
    ),
    "one class": (
        {"s": [0.5] * 3, "y": ["no"] * 3}, (*SCORE, "--positive", "no"),
        "only the class no is known here; name both with --classes, the negative first",
    ),
    "of which class": (
        {"s": [0.5] * 2, "y": ["no", "yes"]}, SCORE,
        "nothing says which class column 's' is the probability of; say it with --positive no or --positive yes",
    ),
    "another class": (
        {"s": [0.5] * 2, "y": ["no", "yes"]}, (*SCORE, "--positive", "maybe"),
        "--positive maybe is none of the classes (no, yes); name one of them",
    ),
    "two things said": (
        {"p_yes": [0.5] * 2, "y": ["no", "yes"]}, ("--score", "p_yes", "--positive", "no"),
        "column 'p_yes' is named like the class yes and --positive says no; give --positive yes, or rename the column",
    ),
    "columns too": (
        {"s": [0.5] * 2, "y": ["no", "yes"]}, (*SCORE, "--columns", "s"),
        "--score and --columns both say where the probabilities are; leave one of them out",
    ),
    "no such column": ({"s": [0.5] * 2, "y": ["no", "yes"]}, ("--score", "z"), "(it has s, y); correct --score"),
    "nothing said of one column": (
        {"s": [0.5] * 2, "y": ["no", "yes"]}, (), "one column of probabilities (s); at least two are needed, one per "
        "class; for two classes you can name a single column with --score",
    ),
    "several named alike": (
        {"p_yes": [0.5] * 2, "yes_2": [0.4] * 2, "y": ["no", "yes"]}, ("--positive", "yes"), "--score a single column",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_scores_that_are_refused(case):
    columns, more, sentence = REFUSED[case]
    assert sentence in refusal("tune", written(**columns), "--label", "y", "--metric", "accuracy", *more)


def test_scores_are_not_read_in_parts():
    as_parquet(one("s"))
    arguments = ("tune", "t.parquet", *TUNE, "--in-parts", "yes")
    whole = "--score is for files that are read whole and t.parquet is read in parts; name one file with"
    assert whole in refusal(*arguments, "--score", "s")
    assert "--sep is for files that are read whole" in refusal(*arguments, "--sep", ";")


# --- separators ------------------------------------------------------------------------------------------------------


def sniffed(text, extra=b""):
    return csvs.sniffed(csvs.Source(Path("t.csv"), text.encode() + extra))


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
    ],
)  # fmt: skip
def test_separators_are_sniffed(text, mark):
    assert sniffed(text) == mark


def test_a_long_cell_does_not_hinder_sniffing():
    assert sniffed("a;b\n1;2\n", b"x" * 200_000 + b";2\n") == ";"


def tuning(name, *more):
    """Return the sentence with which a tuning for accuracy is refused."""
    return refusal("tune", name, "--metric", "accuracy", *more)


def test_two_separators_that_fit_are_refused_until_one_is_said():
    Path("t.csv").write_text("no;1,yes;2\n" + "0;0.5,0.5;0\n" * 3)
    sentence = "error: the cells of t.csv may be separated by commas or by semicolons; say which with --sep\n"
    assert tuning("t.csv") == sentence
    assert "no column of probabilities" in tuning("t.csv", "--sep", ",")


@pytest.mark.parametrize("said, mark", [("tab", "\t"), ("\\t", "\t"), ("\t", "\t"), ("semicolon", ";"), (";", ";")])
def test_names_of_separators(said, mark):
    file = written(sep=mark, **two())
    assert document("tune", file, *TUNE, "--sep", said)["columns"] == ["no", "yes"]


@pytest.mark.parametrize("said", [";;", '"', "a", "", "tabs", "\n", "é"])
def test_what_is_no_separator(said):
    said = refusal("tune", written(**two()), *TUNE, "--sep", said)
    assert "is not one mark between cells, such as ';', or comma, semicolon or tab" in said


@pytest.mark.parametrize(
    "file, more, sentence",
    [
        (lambda: written(**two()), ("--sep", ";"), "t.csv seems to separate its columns with commas; leave --sep out"),
        (lambda: written(sep="|", **two()), (), "t.csv seems to separate its columns with '|'; give --sep '|'"),
        (lambda: as_parquet(two()), ("--sep", ";"), "--sep is for CSV files and t.parquet is none; leave --sep out"),
    ],
    ids=["another", "not said", "Parquet"],
)
def test_a_separator_that_is_not_there(file, more, sentence):
    assert refusal("tune", file(), *TUNE, *more) == f"error: {sentence}\n"


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
    assert table[" no"].to_pylist() == [0.25, 0.5]
    assert table["yes"].to_pylist() == [0.75, 0.5]
    as_parquet(two())
    run("apply", "r.json", "t.parquet", "-o", "o.csv")
    assert Path("o.csv").read_text().startswith("id,no,yes,y,decision\n")


@pytest.mark.parametrize("name", ["t.tsv", "t.txt", "T.TSV"])
def test_text_of_other_names_is_csv(name):
    """Read as CSV, and written so: a file that is named for tabs has tabs, whatever the input has."""
    reference = rule_and_decisions("comma")[1]
    written(name, sep="\t", **two())
    run("apply", "r.json", name, "-o", "o.txt")
    run("apply", "r.json", "o.txt", "-o", "again.csv", code=2)  # it has decisions already
    run("apply", "r.json", written("c.csv", **two()), "-o", "o.tsv")
    for out in ("o.txt", "o.tsv"):
        lines = [line.split("\t") for line in Path(out).read_text().splitlines()]
        assert lines[0][-1] == "decision" and [line[-1] for line in lines[1:]] == reference


@pytest.mark.parametrize(
    "text, more, sentence",
    [
        (
            "no;yes;w\n0.25;0.75;1,000\n0.5;0.5;2\n", ("--weight", "w"),
            "row 0 of column 'w' of t.csv holds '1,000', which is not a number; write numbers with a decimal",
        ),
        ('no,yes,w\n1,0,"1,000"\n0,1,2\n', ("--weight", "w"), "holds '1,000'"),
        ("0,5;0,5\n0,25;0,75\n", (), "holds numbers, not column names"),
        ("a, a,b\n.5,.5,0\n", (), "two columns named 'a'"),
    ],
    ids=["thousands", "thousands in quotes", "no header", "names that differ in spaces"],
)  # fmt: skip
def test_texts_that_are_no_table(text, more, sentence):
    """A comma is a decimal mark where cells are not separated by commas and no number has a point."""
    Path("t.csv").write_text(text)
    assert sentence in tuning("t.csv", *more)


def test_numbered_labels_with_decimal_commas():
    written(sep=";", decimal=",", **two(("0", "1"), y=[float(name == "yes") for name in TRUTH]))
    found = document("tune", "t.csv", "--label", "y", "--metric", "f1")
    assert (found["classes"], found["columns"]) == ([0, 1], ["0", "1"])


def test_costs_with_semicolons_and_decimal_commas():
    written(**two())
    Path("a.csv").write_text(",no,yes\nno,0,1.5\nyes,2.5,0\n")
    Path("b.csv").write_text(";no;yes\nno;0;1,5\nyes;2,5;0\n")
    plain, spread = (document("tune", "t.csv", "--label", "y", "--costs", name)["rule"] for name in ("a.csv", "b.csv"))
    assert plain == spread


# --- standard input and output ---------------------------------------------------------------------------------------


def text_of(form):
    file, *more = FORMS[form]()
    return Path(file).read_text(), more


@pytest.mark.parametrize("form", ["decimal comma", "score"])
def test_standard_input_is_read_and_standard_output_holds_data_only(form):
    text, more = text_of(form)
    tuned = run_process("tune", "-", *more, *TUNE, "-o", "-", input=text)
    assert tuned.returncode == 0
    run("tune", "t.csv", *more, *TUNE, "-o", "r.json")
    assert tuned.stdout == Path("r.json").read_text()
    assert "file       standard input, 120 rows" in tuned.stderr and "DecisionRule for f1" in tuned.stderr
    decided = run_process("apply", "r.json", "-", *more, "-o", "-", input=text)
    run("apply", "r.json", "t.csv", *more, "-o", "o.csv")
    assert decided.stdout == Path("o.csv").read_text()
    assert "written" in decided.stderr
    assert not Path("-").exists()


def test_a_pipeline():
    """confmax reads what confmax writes, between the commands of a shell."""
    written(**two())
    stdout, stderr = shell(
        f"set -o pipefail; {{0}} tune t.csv {' '.join(TUNE)} -o r.json >tuned.txt && "
        "cat t.csv | {0} apply r.json - -o - 2>/dev/null | {0} score - --label y --metric accuracy "
        "--columns no,yes --replicates 0 --json"
    )
    assert stderr == "" and json.loads(stdout)["file"] == "standard input"


@pytest.mark.parametrize("command", ["export", "report", "page"])
def test_other_results_on_standard_output(command):
    if command in ("report", "page") and find_spec("vl_convert") is None:
        pytest.skip("vl-convert-python is not installed")
    written(**two())
    save_rule(no=1.0, yes=1.0)
    arguments = {
        "export": ("export", "r.json", "--to", "python", "-o", "-"),
        "report": ("report", "r.json", "t.csv", "--label", "y", "--metric", "g_mean", "--replicates", "0", "-o", "-"),
        "page": ("tune", "t.csv", *TUNE, "--report", "-"),
    }[command]
    done = run_process(*arguments)
    assert done.returncode == 0 and "/dev/stdout" in done.stderr
    start, end = (
        ("# tuned for accuracy; decisions", "    return best\n")
        if command == "export"
        else ("<!doctype html>", "</html>\n")
    )
    assert done.stdout.lower().startswith(start) and done.stdout.endswith(end)


def test_a_page_about_standard_input():
    if find_spec("vl_convert") is None:
        pytest.skip("vl-convert-python is not installed")
    text, _ = text_of("comma")
    done = run_process("tune", "-", *TUNE, "--report", "page.html", input=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert "standard input" in Path("page.html").read_text()


@pytest.mark.parametrize("arguments", [("tune", "t.csv", *TUNE), ("apply", "r.json", "t.csv"), ("demo",)])
def test_two_results_on_one_stream_are_refused(arguments):
    written(**two())
    save_rule()
    said = refusal(*arguments, "-o", "-", "--json")
    assert said.startswith("error: two results cannot both go to standard output; name a file for one")


def test_decisions_go_to_devices_as_csv():
    save_rule(no=1.0, yes=1.0)
    written(**two())
    run("apply", "r.json", "t.csv", "-o", "/dev/null")
    run("apply", "r.json", "t.csv", "-o", "o.csv")
    for name in ("/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"):
        if os.path.exists(name):
            assert run_process("apply", "r.json", "t.csv", "-o", name).stdout == Path("o.csv").read_text()


def test_a_pipe_is_read_as_csv():
    """As in `confmax tune <(zcat t.csv.gz)`, whose name has no extension."""
    written(**two())
    stdout, _ = shell(f"{{}} tune <(cat t.csv) {' '.join(TUNE)} --json")
    assert json.loads(stdout)["rule"] == document("tune", "t.csv", *TUNE)["rule"]


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


def test_closed_streams():
    written(**two())
    tuning = f"{{}} tune t.csv {' '.join(TUNE)}"
    closed = "error: standard output is closed, so results would be lost; redirect it to a file or to /dev/null\n"
    assert shell("{} metrics >&-", 2) == ("", closed)
    for line in ("tune none.csv --metric f1 >&- 2>&-", "tune none.csv --metric f1 2>&-", "tuna 2>&-", "tune 2>&-"):
        assert shell(f"{{}} {line}", 2) == ("", "")
    assert json.loads(shell(f"{tuning} --json 2>&-")[0])["rows"] == 120
    assert "standard input is closed; name a file" in shell("{} tune - --metric f1 <&-", 2)[1]
    assert shell(f"{tuning} <&-")[1] == ""


def test_a_file_that_is_too_large_for_standard_output_is_named():
    _, stderr = shell("trap '' XFSZ; ulimit -f 1; {} metrics --json >out", 2)
    assert stderr == "error: standard output cannot be written (File too large); redirect it to another place\n"


# --- long names ------------------------------------------------------------------------------------------------------


def test_a_long_name_is_not_printed_whole():
    long = "z" * 100_000
    columns = two()
    columns["y"][4] = long
    written(**columns)
    save_rule(no=1.0, yes=1.0)
    for arguments in (
        ("tune", "t.csv", *TUNE),
        ("score", "t.csv", "--label", "y", "--classes", "no,yes"),
        ("tune", "t.csv", "--label", long[:50_000], "--metric", "f1"),
        ("apply", "r.json", "t.csv", "-o", "o.csv", "--key", long[:50_000]),
        ("tune", "t.csv", "--label", "y " * 20_000, "--metric", "f1"),
    ):
        said = refusal(*arguments)
        assert len(said) < 2500 and ("zzz ... zzz" in said or "y y" in said)
    two_long = {"no": (1 - YES).tolist(), long[:100_000]: YES.tolist()}
    stdout, _ = run("tune", written(**two_long), "--metric", "g_mean")
    assert len(stdout.split("DecisionRule")[0]) < 1000


def test_repeated_parameters():
    arguments = ("tune", written(**two()), *TUNE[:2], "--metric", "f_beta", "--positive", "yes")
    said = refusal(*arguments, "--param", "beta=1", "--param", "beta=2")
    assert "beta is given twice; give each parameter once" in said


# --- folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["apply", "score", "compare", "report"])
def test_folders_and_patterns_are_for_tune(command):
    if command == "report" and find_spec("vl_convert") is None:
        pytest.skip("vl-convert-python is not installed")
    save_rule()
    Path("parts").mkdir()
    pq.write_table(pa.table(two()), "parts/1.parquet")
    for name, what in (("parts", "a directory"), ("parts/*.parquet", "a pattern")):
        said = refusal(*(word.format(name) for word in COMMANDS[command]))
        assert said.startswith(f"error: {name} is {what}, and only 'confmax tune' reads ")
        assert said.endswith("; name one file\n")
    assert run(*(word.format("parts/1.parquet") for word in COMMANDS[command]))[1] == ""


@pytest.mark.parametrize("more", [(), ("--in-parts", "yes"), ("--in-parts", "no")])
def test_a_folder_that_is_not_there(more):
    said = refusal("tune", "missing", *TUNE, *more)
    assert said == "error: there is no file missing; check the name and the folder\n"
