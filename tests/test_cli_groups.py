"""Rules that decide by groups, on the command line."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import confmax
from confmax.confusion import Gains
from confmax.oracle import make_table
from confmax.tables.draws import folds_to_judge
from tests.cli_helpers import document, refusal, run
from tests.export_helpers import function_of
from tests.test_labels_alone import grouped as contradicted

LIMIT = ("--subject-to", "min(recall[b] | group) >= 0.6")
SCORE = ("score", "t.csv", "--label", "truth")
COMPARE = ("compare", "t.csv", "--label", "truth", "--metric", "accuracy")
TUNE = ("tune", "t.csv", "--label", "truth", "--metric", "accuracy", "--group", "sex")


@pytest.fixture(autouse=True)
def table(inside):  # noqa: ARG001
    """A folder with a table, and its frame."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.5, 1.0, 2.0], 400).round(6)
    truth = ["abc"[rng.choice(3, p=p / p.sum())] for p in P]
    sex = np.where(rng.random(400) < 0.2 + 0.6 * P[:, 0], "men", "women")
    frame = pd.DataFrame(P, columns=list("abc")).assign(truth=truth, sex=sex, code=(sex == "men") + 1)
    frame.to_csv("t.csv", index=False)
    return pd.read_csv("t.csv")


def grouped(*limits, groups=("men", "women"), **more):
    """Save a rule of groups with limits."""
    gains = Gains.reduced([1.0, 2.0, 1.0, 1.0, 1.0, 2.0])
    settings = {"groups": groups, "constraints": limits, **more}
    rule = confmax.DecisionRule(gains, np.ones(1), tuple("abc"), "accuracy", **settings)
    rule.save("rule.json")
    return rule


@pytest.mark.filterwarnings("ignore:group")  # has few rows
@pytest.mark.parametrize("column", ["sex", "code"])
def test_tune_and_apply_decide_every_group_by_its_rule(table, column):
    arguments = (*TUNE[:-1], column, "--columns", "a,b,c", *LIMIT)
    answer = document(*arguments, "-o", "rule.json")
    expected = confmax.maximize(
        "accuracy", table[list("abc")], table["truth"], classes=list("abc"), group=table[column],
        constraints="min(recall[b] | group) >= 0.6",
    )  # fmt: skip
    rule = confmax.DecisionRule.load("rule.json")
    assert rule.groups == tuple(sorted(set(table[column])))
    assert rule.constraints == ("min(recall[b] | group) >= 0.6",)
    (one,) = answer["constraints"]
    assert set(one["by_group"]) == set(map(str, rule.groups))
    assert one["value"] == pytest.approx(min(part["value"] for part in one["by_group"].values()))
    done = document("apply", "rule.json", "t.csv", "-o", "out.csv", "--group", column)
    decided = pd.read_csv("out.csv")["decision"].to_numpy()
    np.testing.assert_array_equal(decided, expected.predict(table[list("abc")], group=table[column]))
    assert sum(done["decided"].values()) == pytest.approx(1.0)
    text = run(*arguments)[0]
    for name, part in one["by_group"].items():
        assert re.search(rf"^  {name} +{part['value']:.4f} +{part['on_labels']:.4f}", text, re.MULTILINE)


def test_pages_show_the_groups_of_a_column():
    pytest.importorskip("vl_convert")
    grouped("min(recall[b] | group) >= 0.5")
    page = Path(document(*TUNE, *LIMIT, "--report", "page.html")["report_file"]).read_text()
    assert all(name in page for name in ("men", "women")) and "recall[b] | group" in page
    answer = document("report", "rule.json", "t.csv", "--label", "truth", "--replicates", "0", "--group", "sex")
    page = Path(answer["report_file"]).read_text()
    assert "The rule decides each group by a rule of its own." in page and "--group sex" in page


def test_exports_take_the_group(table):
    rule = grouped()
    document("export", "rule.json", "--to", "sql", "--group", "sex", "-o", "rule.sql")
    assert Path("rule.sql").read_text().startswith('CASE "sex" WHEN')
    document("export", "rule.json", "--to", "python", "-o", "rule.py")
    decide = function_of(Path("rule.py").read_text(), "decide")
    row = table.iloc[0]
    expected = rule.predict_index(table[list("abc")][:1], group=table["sex"][:1])
    assert decide(row[list("abc")].astype(float).tolist(), row["sex"]) == expected


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
    assert text.count("step by step") == min(G, 4)
    assert ("... 2 more groups; --group NAME shows one of them" in text) == (G == 6)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*TUNE,), "--group changes the rule only through constraints that speak of groups"),
        (("tune", "t.csv", "--label", "truth", "--metric", "accuracy", *LIMIT), "pass --group COL, the group of"),
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
        (("report", "blind.json", "t.csv", "--label", "truth", "--group", "sex"), "which no file holds"),
        ((*COMPARE, "--rule", "rule.json"), "men, women; give --group, the column"),
        ((*COMPARE, "--rule", "blind.json", "--group", "sex"), "which no file holds"),
        ((*COMPARE, *LIMIT), "speaks of groups; give --group"),
    ],
)  # fmt: skip
def test_mistakes_get_a_sentence(arguments, sentence):
    if arguments[0] == "report":
        pytest.importorskip("vl_convert")
    rule = grouped()
    confmax.DecisionRule.from_weights([1, 2, 3], classes=list("abc")).save("plain.json")
    replace(rule, groups_known=False).save("blind.json")
    assert sentence in refusal(*arguments)


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
    assert least["rows_tested"] < difference["rows_tested"] <= 300
    (line,) = (line for line in text.splitlines() if line.startswith("min(recall[b] | group)"))
    assert str(least["rows_tested"]) in line.split()
    assert f"on the {difference['rows_tested']} rows that tuned nothing" in warned


# --- score ------------------------------------------------------------------------------------------------------------


def test_score_judges_limits_by_the_values_of_groups(table):
    limits = (
        "min(recall[b] | group) >= 0.5", "difference(rate[c] | group) <= 0.01", "ratio(rate[c] | group) >= 0.2",
        "max(precision[a] | group) <= 1.0", "accuracy >= 0.3",
    )  # fmt: skip
    rule = grouped(*limits)
    arguments = (*SCORE, "--rule", "rule.json", "--group", "sex", "--metric", "accuracy")
    outcomes = json.loads(run(*arguments, "--json", code=3)[0])["constraints"]
    frame = table.assign(decided=rule.predict(table[list("abc")], group=table["sex"]))
    parts = dict(list(frame.groupby("sex")))

    def by_group(function, **labels):
        return {name: function(part["truth"], part["decided"], **labels) for name, part in parts.items()}

    recalls = by_group(lambda truth, decided: (decided[truth == "b"] == "b").mean())
    rates = by_group(lambda _, decided: (decided == "c").mean())
    precisions = by_group(lambda truth, decided: (truth[decided == "a"] == "a").mean())
    low, high = sorted(rates.values())
    expected = [(min(recalls.values()), recalls), (high - low, rates), (low / high, rates)]
    expected.append((max(precisions.values()), precisions))
    for one, (value, values) in zip(outcomes, expected, strict=False):
        assert one["value"] == pytest.approx(value)
        assert one["kept"] == eval(f"{one['value']} {one['text'].split(') ')[1]}")
        assert {name: part["value"] for name, part in one["by_group"].items()} == pytest.approx(values)
        assert all(part["interval"][0] <= part["value"] <= part["interval"][1] for part in one["by_group"].values())
    assert not outcomes[1]["kept"]
    assert outcomes[-1]["value"] == pytest.approx((frame["truth"] == frame["decided"]).mean())
    text = run(*arguments, code=3)[0]
    assert re.search(rf"^  women +{recalls['women']:.4f} \[", text, re.MULTILINE)
    assert f"Group men, {len(parts['men'])} rows" in text


@pytest.mark.parametrize("abstain", [None, "ask"])
def test_score_shows_every_metric_by_group(table, abstain):
    """The values are those of `confmax.score`, and of the rows of a group alone."""
    rule = grouped()
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
    plain = confmax.DecisionRule.from_weights([1, 2, 3], classes=list("abc"))
    plain.save("plain.json")
    arguments = (*SCORE, "--columns", "a,b,c", "--rule", "plain.json", "--group", "code", "--metric", "accuracy")
    answer = document(*arguments, "--replicates", "0")
    assert list(answer["groups"]) == ["1", "2"]
    mine = (table["code"] == 2).to_numpy()
    hits = plain.predict(table[list("abc")][mine]) == table["truth"][mine]
    assert answer["groups"]["2"]["values"][0]["rule"] == pytest.approx(hits.mean())


def test_limits_that_a_file_cannot_judge_are_not_missed(table):
    grouped("min(recall[b] | group) >= 0.99", "difference(rate[c] | group) <= 0.0", "min(rate[c] | group) >= 0.01")
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


@pytest.mark.filterwarnings("ignore:group")
@pytest.mark.parametrize("abstain", [(), ("--abstain", "ask", "--subject-to", "coverage >= 0.8")])
def test_compare_tunes_and_judges_by_the_groups_of_the_rows(table, monkeypatch, abstain):
    table = table[:120]
    table.to_csv("t.csv", index=False)
    monkeypatch.setattr("confmax.cli.compare.N_FOLDS", 2)
    monkeypatch.setattr("confmax.cli.compare._areas", lambda *_: {})  # which take long, and know no groups
    rule = grouped()
    limit = "min(recall[b] | group) >= 0.3"
    given = (*COMPARE, "--subject-to", limit, *abstain, "--group", "sex", "--rule", "rule.json", "--replicates", "0")
    rules = {row["rule"]: row for row in document(*given)["rules"]}
    P, truth, sex = table[list("abc")], table["truth"].to_numpy(), table["sex"].to_numpy()
    folds = folds_to_judge(make_table(P, truth, classes=list("abc")).head, 2, 0)
    shares = np.zeros((len(P), 4))  # of the classes, and of abstaining
    for k in range(2):
        mine = folds == k
        one = confmax.maximize(
            "accuracy", P[~mine], truth[~mine], classes=list("abc"), group=sex[~mine],
            constraints=[limit, *abstain[3:]], on_infeasible="closest", abstain="ask" if abstain else False,
        ).rule  # fmt: skip
        shares[mine, : one.n_decisions] = one.decision_probabilities(P[mine], group=sex[mine])
    hit = truth[:, None] == list("abc")
    for name, of_rows in (("for accuracy", shares), ("rule.json", rule.decision_probabilities(P, group=sex))):
        classes = of_rows[:, :3]
        outcome = rules[name]["constraints"][0]
        for group, values in rules[name]["groups"].items():
            mine = sex == group
            assert values["accuracy"] == pytest.approx(classes[mine][hit[mine]].sum() / classes[mine].sum())
            # of a rule that abstains, the recall is that of the rows that it decides
            true = classes[mine & (truth == "b")]
            assert outcome["by_group"][group]["value"] == pytest.approx(true[:, 1].sum() / true.sum())
        assert outcome["value"] == pytest.approx(min(part["value"] for part in outcome["by_group"].values()))
        assert outcome["kept"] == (outcome["value"] >= 0.3)
    if not abstain:
        assert "Values in group men" in run(*given)[0]


def test_compare_without_limits_of_groups_tunes_for_all_rows():
    plain, grouped = (document(*COMPARE, *more, "--replicates", "0") for more in ((), ("--group", "sex")))
    assert [row["values"] for row in plain["rules"]] == [row["values"] for row in grouped["rules"]]
    assert "groups" not in plain["rules"][0] and set(grouped["rules"][0]["groups"]) == {"men", "women"}


def test_compare_takes_rules_whose_groups_are_numbers(table):
    rule = grouped(groups=(1, 2))
    arguments = (*COMPARE, "--columns", "a,b,c", "--group", "code", "--rule", "rule.json", "--replicates", "0")
    row = document(*arguments)["rules"][-1]
    decided = rule.predict(table[list("abc")], group=table["code"])
    assert row["values"]["accuracy"] == pytest.approx((decided == table["truth"]).mean())


def test_a_group_without_a_decision_has_no_value_of_zero():
    P, y, group = contradicted(0.5)
    frame = pd.DataFrame({"0": P[:, 0], "1": P[:, 1], "y": y.astype(str), "group": group})
    frame.to_csv("rows.csv", index=False)
    common = ("rows.csv", "--label", "y", "--group", "group", "--metric", "accuracy")
    run("tune", *common, "--subject-to", "min(precision[1] | group) >= 0.6", "-o", "r.json")
    limit = document("score", *common, "--rule", "r.json")["constraints"][0]
    assert limit["by_group"]["c"] == {"value": None} and limit["by_group"]["a"]["value"] > 0.5
    assert re.search(r"^  c +- +no decision$", run("score", *common, "--rule", "r.json")[0], re.MULTILINE)


def test_rows_needed_are_those_of_the_group_that_needs_most():
    P, y, group = contradicted(1.0)
    pd.DataFrame({"0": P[:, 0], "1": P[:, 1], "y": y.astype(str), "group": group}).to_csv("rows.csv", index=False)
    limit = ("--subject-to", "min(precision[1] | group) >= 0.7", "--confidence", "0.99")
    asked = ("tune", "rows.csv", "--label", "y", "--group", "group", "--metric", "accuracy", *limit)
    document_of = document(*asked, code=3)
    (found,) = document_of["constraints"]
    said = [
        int(number.replace(",", "")) for number in re.findall(r"about ([\d,]+) are needed", document_of["guarantee"])
    ]
    assert found["assured"] is False and len(said) == 2 and found["rows_needed"] == max(said)
    assert "see below" in run(*asked, code=3)[0]
