"""`confmax tune --report` and `confmax report`: pages, what they say they are, and what is refused."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import confmax
from tests.cli_helpers import CLASSES, HPC, document, refusal, run, run_process, small

pytest.importorskip("vl_convert")


def told(path):
    """Return the text of a page, without scripts and tags."""
    text = re.sub(r"<(script|style).*?</\1>", " ", path.read_text(), flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """What `tune --report` wrote for every fifth row of the bundled table, and its arguments up to the report."""
    folder = tmp_path_factory.mktemp("tuned")
    header, *lines = HPC.read_text().splitlines()
    (folder / "hpc.csv").write_text("\n".join([header, *lines[::5]]) + "\n")
    given = ["tune", folder / "hpc.csv", "--label", "obs", "--classes", ",".join(CLASSES), "--columns",
             ",".join(CLASSES), "--metric", "g_mean"]  # fmt: skip
    run(*given, "-o", folder / "rule.json", "--report", folder / "page.html")
    return folder, given


def test_tune_writes_the_rule_of_all_rows_and_a_cross_fitted_page(tuned, tmp_path):
    folder, given = tuned
    text = told(folder / "page.html")
    assert "cross-fitted in 5 folds: each row is decided by a rule that was tuned on the other folds" in text
    assert "confmax report · hpc.csv" in text and "694 rows" in text
    assert f"confmax tune {folder}/hpc.csv --label obs --metric g_mean --classes VF,F,M,L" in text
    assert not [each for each in folder.iterdir() if each.name.startswith(".")]
    run(*given, "-o", tmp_path / "rule.json")
    assert (tmp_path / "rule.json").read_bytes() == (folder / "rule.json").read_bytes()


def test_the_page_is_the_same_again(tmp_path):
    path, page = small(tmp_path), tmp_path / "page.html"
    given = ("tune", path, "--label", "y", "--metric", "g_mean", "--report", page)
    stdout, _ = run(*given)
    assert "Report written to" in stdout and "cross-fitted" in stdout
    first = page.read_bytes()
    run(*given)
    assert page.read_bytes() == first


def test_report_judges_a_saved_rule(tuned, tmp_path):
    folder, _ = tuned
    page = tmp_path / "judged.html"
    answer = document("report", folder / "rule.json", folder / "hpc.csv", "--label", "obs", "-o", page, "--second",
                      "macro_f1", "--replicates", "99")  # fmt: skip
    files = {"rule_file": folder / "rule.json", "file": folder / "hpc.csv", "report_file": page}
    assert answer == {"rows": 694, **{key: str(path) for key, path in files.items()}}
    text = told(page)
    assert "on the 694 rows that the rule was tuned on" in text and "99 bootstrap replicates" in text
    assert "G-mean against macro F1" in text and "A saved rule holds no proof" in text
    assert "quadratic kappa" not in text  # the order of names is not known


def test_another_metric_with_its_parameter(tmp_path):
    path = small(tmp_path)
    run("tune", path, "--label", "y", "--metric", "g_mean", "-o", tmp_path / "rule.json")
    stdout, _ = run("report", tmp_path / "rule.json", path, "--label", "y", "--weight", "w", "--metric", "macro_f_beta",
                    "--param", "beta=2", "-o", tmp_path / "page.html")  # fmt: skip
    assert "60 rows" in stdout
    assert "macro F-beta (beta=2.0)" in told(tmp_path / "page.html").replace("Macro", "macro")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--report page.html", "--report counts labels; give --label"),
        ("--label y --report rule.json", "both name"),
        ("--label y --report no/page.html", "page.html"),
        ("--label y --report page.html --second nothing", "nothing"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(inside, more, words):
    small(inside)
    said = refusal("tune", "small.csv", "--metric", "g_mean", "-o", "rule.json", *more.split())
    assert words in said and [path.name for path in inside.iterdir()] == ["small.csv"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("-o rule.json", "is the input file"),
        ("--param beta=2", "--param belongs to --metric"),
        ("--metric linear", "linear needs a table of costs or gains, which rules hold"),
        ("-o other.html", "'linear', which is not in the catalogue; pass --metric NAME, what to evaluate it by"),
    ],
)
def test_reports_that_are_refused(inside, more, words):
    small(inside)
    rule = confmax.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abc"))
    replace(rule, metric="linear").save("rule.json")
    assert words in refusal("report", "rule.json", "small.csv", "--label", "y", *more.split())


@pytest.mark.parametrize("package", ["vl_convert", "jinja2"])
def test_without_the_extra_one_sentence_tells_how_to_get_it(tmp_path, package):
    code = f"""
import importlib.util as util
found = util.find_spec
util.find_spec = lambda name, *more: None if name == {package!r} else found(name, *more)
from confmax.__main__ import main; main()
"""
    ran = run_process("tune", small(tmp_path), "--label", "y", "--metric", "g_mean", "--report", tmp_path / "page.html",
                      code=code)  # fmt: skip
    assert ran.returncode == 2 and ran.stderr.count("\n") == 1, ran.stderr
    assert "pip install 'confmax[report]'" in ran.stderr
    assert sys.modules["vl_convert"] is not None


def test_costs_and_their_rule(inside):
    """A rule with a further decision is matched by name in any order of classes."""
    small(inside)
    Path("costs.csv").write_text("a,b,c,later\n0,1,4,0.5\n1,0,1,0.5\n4,1,0,0.5\n")
    given = ("small.csv", "--label", "y")
    run("tune", *given, "--costs", "costs.csv", "-o", "rule.json", "--report", "page.html")
    text = told(Path("page.html"))
    assert "cost of a row, tuned rule 0" in text.lower() and "mean gain" not in text and "later" in text
    shown = []
    for order in ("a,b,c", "c,b,a"):
        more = ("--metric", "accuracy", "--classes", order)
        run("report", "rule.json", *given, *more, "-o", "page.html")
        shown.append(re.search(r"accuracy, tuned rule (\S+)", told(Path("page.html")))[1])
        shown.append(document("score", *given, "--rule", "rule.json", *more)["values"][0]["rule"])
    assert shown[:2] == shown[2:]


@pytest.mark.parametrize(
    ("file", "more", "sentence"),
    [
        ("parts", "--metric g_mean", "is read in parts .* leave out --report"),
        ("parts/*.parquet", "--metric g_mean", "is read in parts .* leave out --report"),
        ("small.csv", "--metric g_mean --second linear_kappa", "say so with --classes A,B,C"),
        ("small.csv", "--metric g_mean --second f1", "f1 is a metric of two classes .* use macro_f1"),
        ("small.csv", "--costs costs.csv --second macro_f1", "macro_f1 is not defined .* name a metric of the recalls"),
        ("small.csv", "--metric nothing", "no metric 'nothing'"),
    ],
)
def test_what_no_page_can_show_is_refused_before_the_rule_is_written(inside, monkeypatch, file, more, sentence):
    small(inside)
    Path("parts").mkdir()
    frame = pd.read_csv("small.csv")
    for k in range(2):
        frame[k::2].to_parquet(f"parts/{k}.parquet")
    Path("costs.csv").write_text("a,b,c,later\n0,1,4,0.5\n1,0,1,0.5\n4,1,0,0.5\n")
    monkeypatch.setattr("confmax.cli.tune.maximize", None)  # nothing is tuned
    given = ("tune", file, "--label", "y", *more.split(), "-o", "rule.json", "--report", "page.html")
    assert re.search(sentence, refusal(*given))
    assert not Path("rule.json").exists() and not Path("page.html").exists()


def test_when_the_page_fails_the_rule_is_said_to_be_there(inside):
    """A class of one row cannot be tuned for without the fold that holds it, which is known only then."""
    path = small(inside, y=["c", *["a", "b"] * 30][:60])
    _, stderr = run(
        "tune", path, "--label", "y", "--metric", "recall[c]", "-o", "rule.json", "--report", "page.html", code=2
    )
    assert "the rule is written to rule.json, the report is not: no rule can be tuned" in stderr
    assert Path("rule.json").exists() and not Path("page.html").exists()
