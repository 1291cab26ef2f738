"""Rules that decide by groups, on the command line."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, precision_score, recall_score

import confmax
from confmax.confusion import Gains
from confmax.oracle import make_table
from confmax.tables.draws import folds_to_judge
from tests.cli_helpers import document, refusal, run

LIMIT = ("--subject-to", "min(recall[b] | group) >= 0.6")
SCORE = ("score", "t.csv", "--label", "truth")
COMPARE = ("compare", "t.csv", "--label", "truth", "--metric", "accuracy")
TUNE = ("tune", "t.csv", "--label", "truth", "--metric", "accuracy", "--group", "sex")


@pytest.fixture(autouse=True)
def _table(inside):  # noqa: ARG001
    """A folder with a table."""
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
    assert "each group by a rule of its own: men, women" in text


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


def test_tune_writes_a_page_with_groups():
    pytest.importorskip("vl_convert")
    done = document(*TUNE, *LIMIT, "--report", "page.html", "-o", "rule.json")
    with open(done["report_file"]) as file:
        text = file.read()
    assert all(name in text for name in ("men", "women")) and "recall[b] | group" in text


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


@pytest.mark.parametrize("names", [("men", "women"), (1, 2, 3, 5, 8, 13)])
def test_explain_shows_every_group(names):
    G = len(names)
    gains = Gains.reduced(1.0 + np.arange(3 * G), np.zeros(3 * G))
    rule = confmax.DecisionRule(gains, np.ones(1), ("a", "b", "c"), groups=names, constraints=("rate[a] <= 0.5",))
    rule.save("each.json")
    row = ("--proba", "0.5,0.3,0.2")
    every = document("explain", "each.json", *row)["groups"]
    assert list(every) == [str(name) for name in names]
    for name in names:
        alone = document("explain", "each.json", "--group", str(name), *row)
        weights = rule.of_group(name).gains.a[0]
        assert every[str(name)] == alone and alone["parts"][0]["weights"] == (weights / weights.min()).tolist()
    text = " ".join(run("explain", "each.json", *row)[0].split())
    assert text.count("tuned for") == 1 and text.count("within rate[a] <= 0.5") == 1
    shown = names[:4]
    assert text.count("step by step") == text.count("In words") == len(shown)
    assert all(f"Group {name} calibrates" in text for name in shown)
    assert ("... 2 more groups; --group NAME shows one of them" in text) == (G == 6)
    assert ("Group 8" in text) is False


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*TUNE,), "--group changes the rule only through constraints that speak of groups"),
        (("tune", "t.csv", "--label", "truth", "--metric", "accuracy", *LIMIT), "pass --group COL, the group of"),
        ((*TUNE[:-1], "nowhere", *LIMIT), "nowhere"),
        (("apply", "rule.json", "t.csv", "-o", "out.csv"), "give --group, the column of these"),
        (("apply", "rule.json", "t.csv", "-o", "out.csv", "--group", "code"), "which the rule does not know"),
        (("apply", "plain.json", "t.csv", "-o", "out.csv", "--group", "sex"), "leave --group out"),
        (("explain", "blind.json"), "decides all groups alike, by their probabilities"),
        (("explain", "rule.json", "--group", "x"), "its groups are men, women"),
        (("explain", "plain.json", "--group", "x"), "has no group 'x'"),
        (("export", "plain.json", "--to", "sql", "--group", "x"), "leave --group out"),
        (("score", "t.csv", "--label", "truth", "--rule", "rule.json"), "men, women; give --group, the column"),
        ((*SCORE, "--group", "code", "--rule", "rule.json"), "which the rule does not know; its groups are 'men'"),
        ((*SCORE, "--group", "nowhere"), "has no column 'nowhere'"),
        ((*SCORE, "--rule", "blind.json", "--group", "sex"), "by the probabilities of groups, which no file holds"),
        (("report", "rule.json", "t.csv", "--label", "truth"), "men, women; give --group, the column"),
        (("report", "rule.json", "t.csv", "--label", "truth", "--group", "code"), "does not know the group"),
        (("report", "blind.json", "t.csv", "--label", "truth", "--group", "sex"), "which no file holds"),
        ((*COMPARE, "--rule", "rule.json"), "men, women; give --group, the column"),
        ((*COMPARE, "--rule", "rule.json", "--group", "code"), "which the rule does not know; its groups are 'men'"),
        ((*COMPARE, "--rule", "blind.json", "--group", "sex"), "which no file holds"),
        ((*COMPARE, *LIMIT), "speaks of groups; give --group"),
        ((*COMPARE, "--group", "nowhere"), "has no column 'nowhere'"),
    ],
)  # fmt: skip
def test_mistakes_get_a_sentence(arguments, sentence):
    if arguments[0] == "report":
        pytest.importorskip("vl_convert")
    frame = pd.read_csv("t.csv")
    settings = {"classes": list("abc"), "group": frame["sex"], "constraints": "min(recall[b] | group) >= 0.6"}
    confmax.maximize("accuracy", frame[list("abc")], frame["truth"], **settings).rule.save("rule.json")
    confmax.DecisionRule.from_weights([1, 2, 3], classes=list("abc")).save("plain.json")
    replace(confmax.DecisionRule.load("rule.json"), groups_known=False).save("blind.json")
    assert sentence in run(*arguments, code=2)[1]


def test_a_row_without_a_group_is_named(table):
    table["sex"] = table["sex"].mask(table.index == 7)
    table.to_csv("t.csv", index=False)
    said = refusal(*TUNE, *LIMIT)
    assert "row 7" in said and "group" in said


def test_limits_of_groups_are_tested_with_a_confidence():
    limits = (*LIMIT, "--subject-to", "difference(rate[c] | group) <= 0.1")
    text, warned = run(*TUNE, *limits, "--confidence", "0.9", "-o", "rule.json", code=3)
    stdout, _ = run(*TUNE, *limits, "--confidence", "0.9", "--json", code=3)
    least, difference = json.loads(stdout)["constraints"]
    # the test rows of both groups together, of which the class is a part
    assert least["rows_tested"] < difference["rows_tested"] <= 450
    (line,) = (line for line in text.splitlines() if line.startswith("min(recall[b] | group)"))
    assert str(least["rows_tested"]) in line.split()
    assert f"on the {difference['rows_tested']} rows that tuned nothing" in warned


def test_rule_files_say_the_limits_of_groups():
    document(*TUNE, *LIMIT, "-o", "rule.json")
    with open("rule.json") as file:
        assert json.load(file)["constraints"] == ["min(recall[b] | group) >= 0.6"]


# --- score ------------------------------------------------------------------------------------------------------------


def limited(*limits):
    """Save a rule of groups with limits."""
    gains = Gains.reduced([1.0, 2.0, 1.0, 1.0, 1.0, 2.0])
    rule = confmax.DecisionRule(gains, np.ones(1), tuple("abc"), "accuracy", groups=("men", "women"))
    rule = replace(rule, constraints=limits)
    rule.save("rule.json")
    return rule


def test_score_judges_limits_by_the_values_of_groups(table):
    rule = limited(
        "min(recall[b] | group) >= 0.5", "difference(rate[c] | group) <= 0.05", "ratio(rate[c] | group) >= 0.2",
        "max(precision[a] | group) <= 1.0", "accuracy >= 0.3",
    )  # fmt: skip
    stdout, _ = run(*SCORE, "--rule", "rule.json", "--group", "sex", "--metric", "accuracy", "--json", code=3)
    found = json.loads(stdout)
    decided = rule.predict(table[list("abc")], group=table["sex"])
    truth, sex = table["truth"].to_numpy(), table["sex"].to_numpy()
    values = {
        name: (
            recall_score(truth[mine], decided[mine], labels=["b"], average=None)[0],
            (decided[mine] == "c").mean(),
            precision_score(truth[mine], decided[mine], labels=["a"], average=None)[0],
        )
        for name in ("men", "women")
        for mine in [sex == name]
    }
    recalls, rates, precisions = (
        dict(zip(values, column, strict=True)) for column in zip(*values.values(), strict=True)
    )
    expected = [
        (min(recalls.values()), min(recalls.values()) >= 0.5, recalls),
        (abs(rates["men"] - rates["women"]), abs(rates["men"] - rates["women"]) <= 0.05, rates),
        (min(rates.values()) / max(rates.values()), min(rates.values()) / max(rates.values()) >= 0.2, rates),
        (max(precisions.values()), True, precisions),
    ]
    for one, (value, kept, by_group) in zip(found["constraints"], expected, strict=False):
        assert one["value"] == pytest.approx(value) and one["kept"] == kept
        assert {name: part["value"] for name, part in one["by_group"].items()} == pytest.approx(by_group)
        assert all(part["interval"][0] <= part["value"] <= part["interval"][1] for part in one["by_group"].values())
    assert not found["constraints"][1]["kept"]
    assert (
        found["constraints"][-1]["interval"][0]
        < found["constraints"][-1]["value"]
        == pytest.approx(accuracy_score(truth, decided))
    )
    text = run(*SCORE, "--rule", "rule.json", "--group", "sex", "--metric", "accuracy", code=3)[0]
    assert re.search(rf"^  women +{recalls['women']:.4f} \[", text, re.MULTILINE)
    assert f"Group men, {(sex == 'men').sum()} rows" in text


@pytest.mark.parametrize("abstain", [None, "ask"])
def test_score_shows_every_metric_by_group(table, abstain):
    """The values are those of `confmax.score`, and of the rows of a group alone."""
    rule = limited()
    if abstain is not None:
        gains = Gains.reduced([1.0, 2.0, 1.0, 1.0, 1.0, 2.0], [0, 0, 0, 0.9, 0, 0, 0, 0.8])
        rule = replace(rule, gains=gains, class_names=(*"abc", abstain), abstain=abstain)
        rule.save("rule.json")
    names = ("--metric", "macro_f1", "--metric", "recall[b]")
    found = document(*SCORE, "--rule", "rule.json", "--group", "sex", *names, "--replicates", "0")
    expected = confmax.score(["macro_f1", "recall[b]"], table[list("abc")], table["truth"], rule, group=table["sex"],
                             n_replicates=0)  # fmt: skip
    assert list(found["groups"]) == ["men", "women"]
    for name, part in found["groups"].items():
        assert part["rows"] == (table["sex"] == name).sum()
        rows = {row["metric"]: row for row in part["values"]}
        for metric in ("macro_f1", "recall[b]"):
            for one in ("argmax", "rule"):
                assert rows[metric][one] == pytest.approx(expected.by_group[name].estimate(one, metric).value)
    assert "groups" not in document(*SCORE, "--metric", "accuracy")


def test_groups_of_rules_that_decide_all_alike(table):
    confmax.DecisionRule.from_weights([1, 2, 3], classes=list("abc")).save("plain.json")
    found = document(*SCORE, "--columns", "a,b,c", "--rule", "plain.json", "--group", "code", "--metric", "accuracy")
    assert list(found["groups"]) == ["1", "2"]
    mine = (table["code"] == 2).to_numpy()
    decided = confmax.DecisionRule.load("plain.json").predict(table[list("abc")][mine])
    assert found["groups"]["2"]["values"][0]["rule"] == pytest.approx((decided == table["truth"][mine]).mean())


def test_limits_that_a_file_cannot_judge_are_not_missed(table):
    limited("min(recall[b] | group) >= 0.99", "difference(rate[c] | group) <= 0.0", "min(rate[c] | group) >= 0.01")
    lacking = table[(table["sex"] == "men") | (table["truth"] != "b")]
    lacking.to_csv("t.csv", index=False)
    stdout, stderr = run(*SCORE, "--rule", "rule.json", "--group", "sex", "--json", "--metric", "accuracy", code=3)
    kept = {one["text"]: one["kept"] for one in json.loads(stdout)["constraints"]}
    assert kept["min(recall[b] | group) >= 0.99"] is None and not kept["difference(rate[c] | group) <= 0"]
    assert "min(recall[b] | group) >= 0.99 cannot be judged on this file" in stderr
    # one group alone has no difference
    table[table["sex"] == "men"].to_csv("t.csv", index=False)
    stdout, stderr = run(*SCORE, "--rule", "rule.json", "--group", "sex", "--json", "--metric", "accuracy", code=3)
    kept = {one["text"]: one["kept"] for one in json.loads(stdout)["constraints"]}
    assert kept["difference(rate[c] | group) <= 0"] is None and kept["min(recall[b] | group) >= 0.99"] is False


@pytest.mark.parametrize("abstain", [(), ("--abstain", "ask", "--subject-to", "coverage >= 0.8")])
def test_compare_tunes_and_judges_by_the_groups_of_the_rows(table, abstain):
    rule = limited()
    given = (*COMPARE, *LIMIT, *abstain, "--group", "sex", "--rule", "rule.json", "--replicates", "0")
    found = {row["rule"]: row for row in document(*given)["rules"]}
    P, truth, sex = table[list("abc")], table["truth"].to_numpy(), table["sex"].to_numpy()
    limits = ["min(recall[b] | group) >= 0.6", *abstain[3:]]
    folds = folds_to_judge(make_table(P, truth, classes=list("abc")), 5, 0)
    decided = np.empty(len(P), dtype=object)
    for k in range(5):
        mine = folds == k
        one = confmax.maximize(
            "accuracy", P[~mine], truth[~mine], classes=list("abc"), group=sex[~mine], constraints=limits,
            on_infeasible="closest", abstain="ask" if abstain else False,
        )  # fmt: skip
        assert not one.rule.is_randomized
        decided[mine] = one.predict(P[mine], group=sex[mine])
    plain = rule.predict(P, group=sex)
    for name, what in (("for accuracy", decided), ("rule.json", plain)):
        for group, values in found[name]["groups"].items():
            kept = (sex == group) & (what != "ask")
            assert values["accuracy"] == pytest.approx((truth == what)[kept].mean())
            # of a rule that abstains, the recall is that of the rows that it decides
            recall = (what == "b")[kept & (truth == "b")].mean()
            assert found[name]["constraints"][0]["by_group"][group]["value"] == pytest.approx(recall)
        one = found[name]["constraints"][0]
        assert one["value"] == pytest.approx(min(part["value"] for part in one["by_group"].values()))
        assert one["kept"] == (one["value"] >= 0.6)
    if not abstain:
        text = run(*given)[0]
        assert "Values in group men" in text and "min(recall[b] | group) >= 0.6, by group" in text
        assert "--group sex" in text


def test_compare_without_limits_of_groups_tunes_for_all_rows():
    plain, grouped = (document(*COMPARE, *more, "--replicates", "0") for more in ((), ("--group", "sex")))
    assert [row["values"] for row in plain["rules"]] == [row["values"] for row in grouped["rules"]]
    assert "groups" not in plain["rules"][0] and set(grouped["rules"][0]["groups"]) == {"men", "women"}


def test_compare_takes_rules_whose_groups_are_numbers(table):
    gains = Gains.reduced([1.0, 2.0, 1.0, 1.0, 1.0, 2.0])
    rule = confmax.DecisionRule(gains, np.ones(1), tuple("abc"), "accuracy", groups=(1, 2))
    rule.save("rule.json")
    found = document(*COMPARE, "--columns", "a,b,c", "--group", "code", "--rule", "rule.json", "--replicates", "0")
    decided = rule.predict(table[list("abc")], group=table["code"])
    row = next(row for row in found["rules"] if row["rule"] == "rule.json")
    assert row["values"]["accuracy"] == pytest.approx((decided == table["truth"]).mean())


def test_report_shows_the_groups_of_a_column():
    pytest.importorskip("vl_convert")
    limited("min(recall[b] | group) >= 0.5")
    found = document("report", "rule.json", "t.csv", "--label", "truth", "--replicates", "0", "--group", "sex")
    text = Path(found["report_file"]).read_text()
    assert "The rule decides each group by a rule of its own." in text and "--group sex" in text


def test_tune_prints_the_value_of_every_group():
    found = document(*TUNE, *LIMIT)["constraints"][0]
    text = run(*TUNE, *LIMIT)[0]
    for name, part in found["by_group"].items():
        assert re.search(rf"^  {name} +{part['value']:.4f} +{part['on_labels']:.4f}", text, re.MULTILINE)
