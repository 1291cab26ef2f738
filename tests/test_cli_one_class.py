"""Metrics of one named class on the command line."""

import numpy as np
import pandas as pd
import pytest

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
