"""Rules that decide by groups, on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

import confmax
from tests.cli_helpers import document, run

LIMIT = ("--subject-to", "min(recall[b] | group) >= 0.6")
TUNE = ("tune", "t.csv", "--label", "truth", "--metric", "accuracy", "--group", "sex")


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    """A folder with a table."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.5, 1.0, 2.0], 600).round(6)
    truth = ["abc"[rng.choice(3, p=p / p.sum())] for p in P]
    sex = np.where(rng.random(600) < 0.2 + 0.6 * P[:, 0], "men", "women")
    frame = pd.DataFrame(P, columns=list("abc")).assign(truth=truth, sex=sex, code=(sex == "men") + 1)
    frame.to_csv("t.csv", index=False)


@pytest.fixture
def table():
    return pd.read_csv("t.csv")


def test_tune_and_apply_decide_every_group_by_its_rule(table):
    found = document(*TUNE, *LIMIT, "-o", "rule.json")
    expected = confmax.maximize(
        "accuracy", table[list("abc")], table["truth"], classes=list("abc"), group=table["sex"],
        constraints="min(recall[b] | group) >= 0.6",
    )  # fmt: skip
    rule = confmax.DecisionRule.load("rule.json")
    assert rule == expected.rule and rule.groups == ("men", "women")
    (one,) = found["constraints"]
    assert set(one["by_group"]) == {"men", "women"}
    assert one["value"] == pytest.approx(min(part["value"] for part in one["by_group"].values()))
    done = document("apply", "rule.json", "t.csv", "-o", "out.csv", "--group", "sex")
    decided = pd.read_csv("out.csv")["decision"].to_numpy()
    np.testing.assert_array_equal(decided, rule.predict(table[list("abc")], group=table["sex"]))
    assert sum(done["decided"].values()) == pytest.approx(1.0)
    text = run(*TUNE, *LIMIT)[0]
    assert "2 groups" in text


def test_groups_that_are_numbers(table):
    arguments = ("tune", "t.csv", "--label", "truth", "--metric", "accuracy", "--columns", "a,b,c", "--group", "code")
    document(*arguments, *LIMIT, "-o", "rule.json")
    document("apply", "rule.json", "t.csv", "-o", "out.csv", "--group", "code")
    rule = confmax.DecisionRule.load("rule.json")
    by_name = [rule.of_group(name) for name in rule.groups]
    assert len(by_name) == 2
    decided = pd.read_csv("out.csv")["decision"].to_numpy()
    for name in rule.groups:
        mine = (table["code"].astype(str) == str(name)).to_numpy()
        np.testing.assert_array_equal(decided[mine], rule.of_group(name).predict(table[list("abc")][mine]))


def test_explain_and_export_name_the_group(table):
    document(*TUNE, *LIMIT, "-o", "rule.json", "--randomized", "no")
    rule = confmax.DecisionRule.load("rule.json")
    men = document("explain", "rule.json", "--group", "men", "--proba", "0.2,0.3,0.5")
    (index,) = rule.of_group("men").predict([[0.2, 0.3, 0.5]])
    assert men["example"]["decision"] == index
    document("export", "rule.json", "--to", "sql", "--group", "sex", "-o", "rule.sql")
    with open("rule.sql") as file:
        assert file.read().startswith('CASE "sex" WHEN')
    document("export", "rule.json", "--to", "python", "-o", "rule.py")
    space = {}
    with open("rule.py") as file:
        exec(file.read(), space)
    row = table.iloc[0]
    assert space["decide"](row[list("abc")].astype(float).tolist(), row["sex"]) == rule.predict_index(
        table[list("abc")][:1], group=table["sex"][:1]
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*TUNE,), "--group changes the rule only through constraints that speak of groups"),
        (("tune", "t.csv", "--label", "truth", "--metric", "accuracy", *LIMIT), "give --group, the column of groups"),
        ((*TUNE[:-1], "nowhere", *LIMIT), "nowhere"),
        ((*TUNE, *LIMIT, "--report", "page.html"), "leave one out"),
        (("apply", "rule.json", "t.csv", "-o", "out.csv"), "give --group, the column of these"),
        (("apply", "rule.json", "t.csv", "-o", "out.csv", "--group", "code"), "which the rule does not know"),
        (("apply", "plain.json", "t.csv", "-o", "out.csv", "--group", "sex"), "leave --group out"),
        (("explain", "rule.json"), "give --group NAME"),
        (("explain", "rule.json", "--group", "x"), "its groups are men, women"),
        (("explain", "plain.json", "--group", "x"), "has no group 'x'"),
        (("export", "plain.json", "--to", "sql", "--group", "x"), "leave --group out"),
        (("score", "t.csv", "--label", "truth", "--rule", "rule.json"), "decides by groups"),
        (("compare", "t.csv", "--label", "truth", "--rule", "rule.json"), "decides by groups"),
    ],
)  # fmt: skip
def test_mistakes_get_a_sentence(arguments, sentence):
    frame = pd.read_csv("t.csv")
    settings = {"classes": list("abc"), "group": frame["sex"], "constraints": "min(recall[b] | group) >= 0.6"}
    confmax.maximize("accuracy", frame[list("abc")], frame["truth"], **settings).rule.save("rule.json")
    confmax.DecisionRule.from_weights([1, 2, 3], classes=list("abc")).save("plain.json")
    assert sentence in run(*arguments, code=2)[1]


def test_a_row_without_a_group_is_named(table):
    table["sex"] = table["sex"].mask(table.index == 7)
    table.to_csv("t.csv", index=False)
    said = run(*TUNE, *LIMIT, code=2)[1]
    assert "row 7" in said and "group" in said


def test_rule_files_say_the_limits_of_groups():
    document(*TUNE, *LIMIT, "-o", "rule.json")
    with open("rule.json") as file:
        assert json.load(file)["constraints"] == ["min(recall[b] | group) >= 0.6"]
