"""`confmax tune --report` and `confmax report`: pages, what they say they are, and what is refused."""

import re
import sys

import pytest

from tests.cli_helpers import CLASSES, HPC, document, run, run_process, small

pytest.importorskip("vl_convert")


def told(path):
    """Return the text of a page, without scripts and tags."""
    text = re.sub(r"<(script|style).*?</\1>", " ", path.read_text(), flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """What `tune --report` wrote for the bundled table."""
    folder = tmp_path_factory.mktemp("tuned")
    names = ",".join(CLASSES)
    given = ["tune", HPC, "--label", "obs", "--columns", names, "--classes", names, "--metric", "g_mean",
             "-o", folder / "rule.json", "--report", folder / "page.html"]  # fmt: skip
    return folder, run(*given)[0], given


def test_tune_writes_the_rule_and_a_cross_fitted_page(tuned):
    folder, stdout, _ = tuned
    assert "Report written to" in stdout and "cross-fitted" in stdout
    text = told(folder / "page.html")
    assert "cross-fitted in 5 folds: each row is decided by a rule that was tuned on the other folds" in text
    assert "confmax report · hpc_cv.csv" in text and "3,467 rows" in text
    # the same metric by the rules of five folds
    assert "G-mean: the tuned rule is better than argmax" in text
    assert re.search(r"G-mean, tuned rule 0\.5[78]\d \[\S+ \S+\] argmax 0\.487 \[", text)
    assert f"confmax tune {HPC} --label obs --metric g_mean --classes VF,F,M,L --columns VF,F,M,L" in text
    assert not [each for each in folder.iterdir() if each.name.startswith(".")]


def test_the_rule_is_that_of_all_rows(tuned, tmp_path):
    folder, _, given = tuned
    run(*given[:-4], "-o", tmp_path / "rule.json")
    assert (tmp_path / "rule.json").read_bytes() == (folder / "rule.json").read_bytes()


def test_the_page_is_the_same_again(tuned):
    folder, _, given = tuned
    first = (folder / "page.html").read_bytes()
    run(*given)
    assert (folder / "page.html").read_bytes() == first


def test_report_judges_a_saved_rule(tuned, tmp_path):
    folder, _, _ = tuned
    page = tmp_path / "judged.html"
    found = document("report", folder / "rule.json", HPC, "--label", "obs", "-o", page, "--second", "macro_f1",
                     "--replicates", "99")  # fmt: skip
    assert found == {"rule_file": str(folder / "rule.json"), "file": str(HPC), "rows": 3467, "report_file": str(page)}
    text = told(page)
    assert "on the 3,467 rows that the rule was tuned on" in text and "99 bootstrap replicates" in text
    assert "G-mean against macro F1" in text and "A saved rule holds no proof" in text
    assert "quadratic kappa" not in text  # the order of names is not known


def test_another_metric_with_its_parameter(tmp_path):
    path = small(tmp_path)
    run("tune", path, "--label", "y", "--metric", "g_mean", "-o", tmp_path / "rule.json")
    stdout, _ = run("report", tmp_path / "rule.json", path, "--label", "y", "--weight", "w", "--metric", "macro_f_beta",
                    "--param", "beta=2", "-o", tmp_path / "page.html")  # fmt: skip
    assert "60 rows" in stdout
    assert "macro F-beta (beta=2.0)" in told(tmp_path / "page.html").replace("Macro", "macro")


def test_what_cannot_be_done_is_refused_before_anything_is_written(tmp_path):
    path = small(tmp_path)
    tune = ["tune", path, "--metric", "g_mean", "-o", tmp_path / "rule.json"]
    _, stderr = run(*tune, "--report", tmp_path / "page.html", code=2)
    assert "--report counts labels; give --label" in stderr
    _, stderr = run(*tune, "--label", "y", "--report", tmp_path / "rule.json", code=2)
    assert "both name" in stderr
    _, stderr = run(*tune, "--label", "y", "--report", tmp_path / "no" / "page.html", code=2)
    assert "page.html" in stderr and "Traceback" not in stderr
    _, stderr = run(*tune, "--label", "y", "--report", tmp_path / "page.html", "--second", "nothing", code=2)
    assert "nothing" in stderr
    assert not (tmp_path / "rule.json").exists() and not (tmp_path / "page.html").exists()
    run(*tune, "--label", "y")
    _, stderr = run("report", tmp_path / "rule.json", path, "--label", "y", "-o", tmp_path / "rule.json", code=2)
    assert "is the input file" in stderr
    _, stderr = run("report", tmp_path / "rule.json", path, "--label", "y", "--param", "beta=2", code=2)
    assert "--param belongs to --metric" in stderr


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


def test_costs_and_their_rule(tmp_path):
    path, costs = small(tmp_path), tmp_path / "costs.csv"
    costs.write_text("a,b,c,later\n0,1,4,0.5\n1,0,1,0.5\n4,1,0,0.5\n")
    run(
        "tune", path, "--label", "y", "--costs", costs, "-o", tmp_path / "rule.json", "--report", tmp_path / "page.html"
    )
    text = told(tmp_path / "page.html")
    assert "mean gain, tuned rule −" in text
    assert "later" in text  # the decision that is no class
    _, stderr = run("report", tmp_path / "rule.json", path, "--label", "y", "-o", tmp_path / "other.html", code=2)
    assert "tuned for costs, which a rule does not store; pass --metric NAME, what to evaluate it by" in stderr
    _, stderr = run("report", tmp_path / "rule.json", path, "--label", "y", "--metric", "linear", code=2)
    assert "a report has no table of costs for --metric linear" in stderr


def test_a_rule_that_abstains_is_matched_by_name_in_any_order(tmp_path):
    path, costs, rule = small(tmp_path), tmp_path / "costs.csv", tmp_path / "rule.json"
    costs.write_text("a,b,c,later\n0,1,4,0.5\n1,0,1,0.5\n4,1,0,0.5\n")
    run("tune", path, "--label", "y", "--costs", costs, "-o", rule)
    found = []
    for order in ("a,b,c", "c,b,a"):
        page = tmp_path / "page.html"
        run("report", rule, path, "--label", "y", "--metric", "accuracy", "--classes", order, "-o", page)
        found.append(re.search(r"accuracy, tuned rule (\S+)", told(page))[1])
        values = document("score", path, "--label", "y", "--rule", rule, "--metric", "accuracy", "--classes", order)
        found.append(values["values"][0]["rule"])
    assert found[:2] == found[2:]


def test_when_the_page_fails_the_rule_is_said_to_be_there(tmp_path):
    path = small(tmp_path)
    _, stderr = run("tune", path, "--label", "y", "--metric", "g_mean", "-o", tmp_path / "rule.json",
                    "--report", tmp_path / "page.html", "--second", "linear_kappa", code=2)  # fmt: skip
    assert "the rule is written to" in stderr and "the report is not: linear_kappa depends on the order" in stderr
    assert "if the columns are in order, say so with --classes A,B,C" in stderr
    assert (tmp_path / "rule.json").exists() and not (tmp_path / "page.html").exists()
