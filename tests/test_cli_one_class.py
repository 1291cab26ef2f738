"""Metrics of one named class on the command line."""

import numpy as np
import pandas as pd
import pytest

from confmax.report._metrics import named
from tests.cli_helpers import document, run
from tests.test_one_class import NAMES, ONE_CLASS, WITNESSES, table


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    P, y = table(n=200)
    pd.DataFrame(P, columns=NAMES).assign(truth=y).to_csv("t.csv", index=False)
    P, y = table(n=200, K=2, names=["no", "yes"])
    pd.DataFrame(P, columns=["no", "yes"]).assign(truth=y).to_csv("two.csv", index=False)


@pytest.mark.usefixtures("file")
def test_the_command_line_takes_the_text():
    tuned = document("tune", "t.csv", "--label", "truth", "--metric", "f1[VF]", "-o", "r.json")
    assert tuned["metric"] == "f1[VF]" and tuned["rule"]["metric"] == "f1[VF]"
    again = document("tune", "t.csv", "--label", "truth", "--metric", "f1", "--param", "label=VF")
    assert again["tuned"] == tuned["tuned"]
    scored = document("score", "t.csv", "--label", "truth", "--rule", "r.json", "--metric", "precision[VF]",
                      "--replicates", "0")  # fmt: skip
    assert [entry["metric"] for entry in scored["values"]] == ["precision[VF]"]
    compared = document("compare", "t.csv", "--label", "truth", "--metric", "f1[VF]", "--replicates", "0")
    assert compared["metrics"] == ["f1[VF]", "accuracy"]
    assert (
        "recall[XX] names a class that the table does not have"
        in run("tune", "t.csv", "--label", "truth", "--metric", "recall[XX]", code=2)[1]
    )
    assert "write f1[NAME] for the class NAME" in run("tune", "t.csv", "--label", "truth", "--metric", "f1", code=2)[1]


@pytest.mark.usefixtures("file")
def test_default_lines_of_two_classes():
    """The positive class's precision and recall stand beside its F1; nothing is listed twice."""
    scored = document("score", "two.csv", "--label", "truth", "--positive", "yes", "--replicates", "0")
    found = {entry["metric"]: entry["argmax"] for entry in scored["values"]}
    data = pd.read_csv("two.csv")
    decided = np.where(data["yes"] >= 0.5, "yes", "no")
    for name in ("precision", "recall", "f1"):
        expected = WITNESSES[name](data["truth"], decided, pos_label="yes")
        assert found[name] == pytest.approx(expected, abs=1e-12)
    assert not any(name.startswith(("macro_f_beta", "f_beta")) for name in found)
    without = document("score", "two.csv", "--label", "truth", "--replicates", "0")
    assert "precision" not in {entry["metric"] for entry in without["values"]}
    compared = document("compare", "two.csv", "--label", "truth", "--positive", "yes", "--metric", "f1",
                        "--replicates", "0")  # fmt: skip
    assert compared["metrics"] == ["f1", "precision", "recall", "accuracy"]


def test_metrics_lists_them():
    entries = {entry["name"]: entry for entry in document("metrics")["metrics"]}
    assert [name for name, entry in entries.items() if entry["one_class"]] == sorted(ONE_CLASS)
    lines = [line for line in run("metrics")[0].splitlines() if line.startswith("recall ")]
    assert "two classes, or [NAME]" in lines[0]


# --- rules that were tuned for a metric of one class -----------------------------------------------------------------


def values(*args):
    return {entry["metric"]: entry for entry in document(*args, "--replicates", "0")["values"]}


@pytest.mark.usefixtures("file")
def test_the_tuned_metric_comes_first_and_names_the_positive_class():
    """The class in brackets is the positive one of two, whichever column it has."""
    data = pd.read_csv("two.csv")
    for name in ("yes", "no"):
        run("tune", "two.csv", "--label", "truth", "--metric", f"f1[{name}]", "-o", "r.json")
        found = values("score", "two.csv", "--label", "truth", "--rule", "r.json")
        assert next(iter(found)) == f"f1[{name}]" and "f1" not in found
        decided = np.where(data["yes"] >= 0.5, "yes", "no")
        for metric in ("precision", "recall", f"f1[{name}]"):
            expected = WITNESSES[metric.partition("[")[0]](data["truth"], decided, pos_label=name)
            assert found[metric]["argmax"] == pytest.approx(expected, abs=1e-12)
        assert "Left out" not in run("score", "two.csv", "--label", "truth", "--rule", "r.json")[0]
    said = values("score", "two.csv", "--label", "truth", "--rule", "r.json", "--positive", "yes")
    assert said["f1[no]"]["argmax"] == found["f1[no]"]["argmax"] != said["f1"]["argmax"]


@pytest.mark.usefixtures("file")
def test_the_tuned_metric_comes_first_among_several_classes_and_with_parameters():
    run("tune", "t.csv", "--label", "truth", "--metric", "f_beta[VF]", "--param", "beta=2", "-o", "r.json")
    assert next(iter(values("score", "t.csv", "--label", "truth", "--rule", "r.json"))) == "f_beta[VF](beta=2.0)"
    run("tune", "t.csv", "--label", "truth", "--metric", "g_mean", "-o", "r.json")
    found = list(values("score", "t.csv", "--label", "truth", "--rule", "r.json"))
    assert found[0] == "g_mean" and found.count("g_mean") == 1


@pytest.mark.usefixtures("file")
def test_what_is_left_out_is_told_in_few_lines():
    of_four = run("score", "t.csv", "--label", "truth", "--replicates", "0")[0].splitlines()
    assert [line for line in of_four if line.startswith("Left out")] == [
        "Left out: ams, fowlkes_mallows (for two classes; the file has 4).",
        "Left out: f1, jaccard, precision, recall, specificity (for two classes; the file has 4; for one class write "
        "f1[NAME]).",
        "Left out: linear_kappa, micro_f1, micro_f1_once, quadratic_kappa (the order of the classes is not known; give "
        "it with --classes).",
    ]
    of_two = run("score", "two.csv", "--label", "truth", "--replicates", "0")[0]
    assert "give it with --classes, or name the positive class with --positive)" in of_two


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("command", ["tune", "score", "compare"])
def test_an_unknown_order_offers_the_name_of_the_class(command):
    way_out = "(the negative first), or the positive one with --positive"
    told = run(command, "two.csv", "--label", "truth", "--metric", "f1", code=2)[1]
    assert told.endswith(f"{way_out}, or name the class, as in f1[yes]\n")
    assert run(command, "two.csv", "--label", "truth", "--metric", "ams", code=2)[1].endswith(f"{way_out}\n")


@pytest.mark.usefixtures("file")
def test_a_score_is_of_the_class_in_brackets():
    pd.DataFrame({"s": pd.read_csv("two.csv")["yes"]}).to_csv("s.csv", index=False)
    for name, certain in (("yes", "yes"), ("no", "no")):
        run("tune", "two.csv", "--label", "truth", "--metric", f"f1[{name}]", "--calibration", "none", "-o", "r.json")
        run("apply", "r.json", "s.csv", "--score", "s", "-o", "o.csv")
        decided = pd.read_csv("o.csv")
        assert decided["decision"][decided["s"].idxmax()] == certain


def test_parentheses_in_the_name_of_a_class():
    found = named("f_beta[a (b)](beta=2.0)")
    assert found is not None and found.label == "a (b)" and dict(found.params)["beta"] == 2.0
    assert repr(named("f1(classes=(1, 0))")) == "f1(classes=(1, 0))"
    assert named("linear") is None and named("a function") is None and named("f1[") is None
