"""`confmax shift`: a check for schedulers, and rules for other class shares, from files."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import confmax
from tests.cli_helpers import CLASSES, HPC, document, invoked, refusal, run, shell, small

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("inside")
NEW = {"VF": 0.2, "F": 0.3, "M": 0.2, "L": 0.3}
TUNED = ("--tuned-on", "tune.csv", "--tuned-label", "obs")


@pytest.fixture
def months():
    """Write the tuning table, a month like it, and one with the shares `NEW`; return the tables."""
    table = pd.read_csv(HPC)[[*CLASSES, "obs"]]
    tuning, same = table[::2].reset_index(drop=True), table[1::2].reset_index(drop=True)
    chance = same["obs"].map(NEW) / same["obs"].map(same["obs"].value_counts())
    rows = np.random.default_rng(0).choice(len(same), 800, p=chance)
    moved = same.iloc[rows].reset_index(drop=True)
    for name, part in (("tune", tuning), ("same", same), ("moved", moved)):
        part.to_csv(f"{name}.csv", index=False)
    return tuning, same, moved


def tuned(table, metric, path="rule.json", **more):
    solution = confmax.maximize(metric, table[CLASSES].to_numpy(), table["obs"].to_numpy(), classes=CLASSES, **more)
    solution.rule.save(path)
    return solution


def test_a_check_says_what_has_changed_and_exits_with_3(months):
    tuned(months[0], "accuracy", constraints=["rate[L] <= 0.1", "recall[M] >= 0.4"])
    stdout, _ = run("shift", "rule.json", "moved.csv", "--check", code=3)
    assert "VF from 0.51 to 0.2, L from 0.0608 to 0.351" in stdout and "p = " not in stdout
    assert "this is said wrongly of 5 % of the tables in which nothing has changed" in stdout
    assert "the limit rate[L] <= 0.1 is broken: 0.13 (" in stdout
    found = json.loads(invoked("shift", "rule.json", "moved.csv", "--check", "--json").stdout)
    assert [one["class"] for one in found["shares"] if one["moved"]] == ["VF", "L"]
    # a recall cannot be seen without labels
    assert [one["text"] for one in found["limits"]] == ["rate[L] <= 0.1"]
    same = document("shift", "rule.json", "same.csv", "--check")
    assert not same["changed"] and not any(one["moved"] for one in same["shares"])


@pytest.mark.skipif(os.name == "nt", reason="needs bash")
@pytest.mark.parametrize("page", ["shift.md", "command-line.md"])
def test_the_lines_for_a_scheduler_mail_a_change_and_no_error(months, page):
    text = (Path(__file__).parents[1] / "docs" / page).read_text(encoding="utf-8")
    lines = re.search(r"found=\$\(confmax .*\nif .*; fi\n", text)[0].replace("confmax ", "{} ", 1)
    tuned(months[0], "macro_f1")
    mail = "mail() { cat > mail.txt; }\n".replace("{", "{{").replace("}", "}}")
    assert "error: " in shell(mail + lines)[1] and not Path("mail.txt").exists()  # there is no month.csv
    months[2].to_csv("month.csv", index=False)
    shell(mail + lines)
    assert "the class shares of these 800 rows have moved" in Path("mail.txt").read_text(encoding="utf-8").lower()


def test_false_alarms_are_as_rare_as_asked(months):
    tuned(months[0], "macro_f1")
    found = document("shift", "rule.json", "moved.csv", "--check", "--false-alarms", "1e-200")
    assert 1e-200 < min(found["p_values"].values()) < 1e-20 and not found["changed"]


@pytest.mark.parametrize("more", [(), TUNED], ids=["new rows", "tuning rows"])
def test_the_rule_is_that_of_the_library(months, more):
    solution = tuned(months[0], "macro_f1")
    found = document("shift", "rule.json", "moved.csv", *more, "-o", "new.json")
    P = months[2][CLASSES].to_numpy()
    pair = (months[0][CLASSES].to_numpy(), months[0]["obs"].to_numpy()) if more else None
    wanted = solution.adapt(P, tuned_on=pair)
    new = confmax.DecisionRule.load("new.json")
    assert new.predict(P).tolist() == wanted.predict(P).tolist()
    assert found["rows_moved"] == np.count_nonzero(wanted.predict(P) != solution.predict(P)) > 0
    assert found["new"] == pytest.approx(wanted.value) and found["new"] > found["old"] + 0.01
    assert found["estimate"] == ("tuning rows" if more else "these rows")
    assert [one["target"] for one in found["shares"]] == pytest.approx(wanted.shift.priors)
    # what is said to be better is better on the labels of that month
    score = confmax.score("macro_f1", P, months[2]["obs"], rules={"old": solution, "new": new}, n_replicates=0)
    assert score.difference("new", "old").value > 0.02


def test_rows_that_show_no_change_keep_the_rule(months):
    tuned(months[0], "macro_f1")
    stdout, _ = run("shift", "rule.json", "same.csv", "-o", "new.json")
    assert "The rule stays as it is: the rows do not show that anything has changed." in stdout
    assert Path("new.json").read_bytes() == Path("rule.json").read_bytes()


def test_metrics_of_recalls_keep_their_rule(months):
    tuned(months[0], "g_mean")
    found = document("shift", "rule.json", "moved.csv", "--priors", "balanced", "-o", "new.json")
    assert found["why_kept"].startswith("g_mean depends on the recalls alone")
    assert [one["target"] for one in found["shares"]] == [0.25] * 4
    assert Path("new.json").read_bytes() == Path("rule.json").read_bytes()


def test_known_shares_and_costs(months):
    cost = np.array([[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [5, 3, 2, 0.0]])
    solution = tuned(months[0], confmax.metrics.get("linear", cost=cost))
    text = ",".join(f"{name}={share}" for name, share in NEW.items())
    found = document("shift", "rule.json", "moved.csv", "--priors", text, "-o", "new.json")
    P = months[2][CLASSES].to_numpy()
    wanted = solution.rule.shifted(NEW, metric=solution.metric)
    assert confmax.DecisionRule.load("new.json").predict(P).tolist() == wanted.predict(P).tolist()
    assert found["new"] < found["old"]
    # a matrix of unequal powers cannot undo a correction, and what does is no numbers of a file
    said = refusal("shift", "rule.json", "moved.csv", "--priors", text, "--proba-shifted")
    assert "give the probabilities of the model before its correction, without --proba-shifted" in said


def test_the_old_rule_is_shown_within_limits_and_a_small_gain_is_called_one(months):
    solution = tuned(months[0], "accuracy", constraints="rate[L] <= 0.1")
    pair = (months[0][CLASSES].to_numpy(), months[0]["obs"].to_numpy())
    text = ",".join(f"{name}={share}" for name, share in NEW.items())
    stdout, _ = run("shift", "rule.json", "--priors", text, *TUNED)
    found = document("shift", "rule.json", "--priors", text, *TUNED)
    assert f"old rule   {found['old']:.4f}, and misses rate[L] <= 0.1 there" in stdout and found["old_misses"]
    assert found["missed_limits"] == ["rate[L] <= 0.1"]
    assert "hardly better" not in stdout
    # on the rows themselves, with the classes weighted
    weight = (np.array(list(NEW.values())) / months[0]["obs"].value_counts()[CLASSES])[pair[1]].to_numpy()
    share = np.average(solution.predict(pair[0]) == "L", weights=weight)
    assert share > 0.1 and found["old"] == pytest.approx(
        np.average(solution.predict(pair[0]) == pair[1], weights=weight), abs=0.05
    )
    # of several limits those are named that it misses
    solution = tuned(months[0], "accuracy", constraints=["rate[F] <= 0.9", "rate[L] <= 0.1"])
    several = run("shift", "rule.json", "--priors", text, *TUNED)[0]
    assert ", and misses rate[L] <= 0.1 there" in several
    # more jobs are very fast: the limit is kept, and both rules compare
    kept = document("shift", "rule.json", "--priors", "VF=.6,F=.2,M=.15,L=.05", *TUNED)
    assert not kept["old_misses"] and kept["old"] <= kept["new"]
    tuned(months[0], "macro_f1")
    near = ("--priors", "VF=.50,F=.32,M=.12,L=.06", *TUNED)
    stdout, _ = run("shift", "rule.json", *near)
    found = document("shift", "rule.json", *near)
    assert found["why_kept"] is None and found["new"] - found["old"] < 0.002
    assert "On this estimate the new rule is hardly better than the old one." in stdout


def test_known_shares_need_no_new_rows(months):
    text = ",".join(f"{name}={share}" for name, share in NEW.items())
    solution = tuned(months[0], "macro_f1")
    pair = (months[0][CLASSES].to_numpy(), months[0]["obs"].to_numpy())
    stdout, said = run("shift", "rule.json", "--priors", text, *TUNED, "-o", "new.json")
    assert "The class shares are those that you gave." in stdout and "otherwise" not in stdout and said == ""
    wanted = solution.adapt(priors=NEW, tuned_on=pair)
    assert confmax.DecisionRule.load("new.json").predict(pair[0]).tolist() == wanted.predict(pair[0]).tolist()
    found = document("shift", "rule.json", "--priors", text, *TUNED)
    assert found["new"] == pytest.approx(wanted.value) and found["file"] is found["rows_moved"] is None
    said = refusal("shift", "rule.json", "--priors", text)
    assert "for macro_f1 depends on the rows; pass --tuned-on and --tuned-label, labelled rows" in said
    # the rows of the tuning are no new rows
    assert run("shift", "rule.json", "tune.csv", "--priors", text, *TUNED)[1] == ""
    assert "give this table as --tuned-on" in run("shift", "rule.json", "tune.csv", "--priors", text)[1]
    tuned(months[0], "accuracy")
    assert document("shift", "rule.json", "--priors", text)["why_kept"] is None
    tuned(months[0], "g_mean")
    assert document("shift", "rule.json", "--priors", text)["why_kept"].startswith("g_mean depends on the recalls")
    assert "FILE is missing, the table of new rows" in refusal("shift", "rule.json", "--check")
    assert "FILE is missing, the table of new rows" in refusal("shift", "rule.json", *TUNED)
    assert "--weight is a column of FILE" in refusal("shift", "rule.json", "--priors", text, "--weight", "w")


def test_a_correction_of_the_model_is_undone(months):
    solution = tuned(months[0], "macro_f1", calibration=None)
    text = ",".join(f"{name}={share}" for name, share in NEW.items())
    P = months[2][CLASSES].to_numpy()
    corrected = P * np.array(list(NEW.values())) / solution.rule.shares.meant
    corrected /= corrected.sum(axis=1, keepdims=True)
    pd.DataFrame(corrected, columns=CLASSES).to_csv("corrected.csv", index=False)
    run("shift", "rule.json", "corrected.csv", "--priors", text, "--proba-shifted", *TUNED, "-o", "new.json")
    run("shift", "rule.json", "moved.csv", "--priors", text, *TUNED, "-o", "plain.json")
    decided = [confmax.DecisionRule.load(name).predict(Q) for name, Q in (("new.json", corrected), ("plain.json", P))]
    assert np.mean(decided[0] == decided[1]) > 0.995
    _, said = run("shift", "rule.json", "corrected.csv", "--priors", text)
    assert "were the new class shares already" in said or "are the new class shares already" in said


def test_labels_that_are_known_count(months):
    tuned(months[0], "macro_f1")
    month = months[2].assign(obs=months[2]["obs"].where(months[2].index % 8 == 0))
    month.to_csv("part.csv", index=False)
    found = document("shift", "rule.json", "part.csv", "--label", "obs")
    plain = document("shift", "rule.json", "part.csv")
    assert found["labelled"] == 100 and plain["labelled"] == 0

    def width(one):
        return sum(high - low for low, high in (entry["interval"] for entry in one["shares"]))

    assert width(found) < 0.9 * width(plain)
    month.assign(obs=None).to_csv("none.csv", index=False)
    assert document("shift", "rule.json", "none.csv", "--label", "obs")["labelled"] == 0
    month.loc[16, "obs"] = "X"
    month.to_csv("wrong.csv", index=False)
    assert "row 16 of label column 'obs' of wrong.csv holds 'X'" in refusal(
        "shift", "rule.json", "wrong.csv", "--label", "obs"
    )


def test_two_classes_with_one_column_of_scores(months):
    P = months[0][CLASSES].to_numpy()
    pair = np.column_stack([1.0 - P[:, 3], P[:, 3]])
    y = np.where(months[0]["obs"] == "L", "yes", "no")
    confmax.maximize("f1", pair, y, classes=["no", "yes"]).rule.save("rule.json")
    pd.DataFrame({"id": range(800), "p": months[2]["L"]}).to_csv("two.csv", index=False)
    pd.DataFrame({"p": P[:, 3], "y": y}).to_csv("pairs.csv", index=False)
    one = document("shift", "rule.json", "two.csv", "--score", "p", "--priors", "yes=.25")
    assert [entry["target"] for entry in one["shares"]] == [0.75, 0.25]
    found = document("shift", "rule.json", "two.csv", "--score", "p", "--tuned-on", "pairs.csv", "--tuned-label", "y")
    assert [one["class"] for one in found["shares"]] == ["no", "yes"]
    assert found["shares"][1]["shown"] > 0.3 and found["new"] > found["old"]


def test_rows_of_the_tuning_are_recognised(months):
    tuned(months[0], "macro_f1")
    assert "tune.csv holds the rows that the rule was tuned on" in refusal(
        "shift", "rule.json", "tune.csv", "--label", "obs"
    )
    assert "every row of the label column has a class" in refusal("shift", "rule.json", "same.csv", "--label", "obs")
    _, said = run("shift", "rule.json", "tune.csv", "--check")
    assert "very likely the same rows" in said
    # as many rows of another kind are not
    pd.concat([months[1], months[1][:1]]).to_csv("other.csv", index=False)
    assert run("shift", "rule.json", "other.csv", "--check")[1] == ""
    _, other = run("shift", "rule.json", "same.csv", "--tuned-on", "same.csv", "--tuned-label", "obs")
    assert "same.csv holds other rows than the 1,734 that the rule was tuned on" in other


def test_files_without_shares_need_the_tuning_table(months):
    tuned(months[0], "macro_f1")
    old = json.loads(Path("rule.json").read_text())
    del old["shares"]
    Path("old.json").write_text(json.dumps(old))
    assert "does not hold the class shares of its tuning rows" in refusal("shift", "old.json", "moved.csv")
    found = document("shift", "old.json", "moved.csv", *TUNED)
    known = document("shift", "rule.json", "moved.csv", *TUNED)
    assert [one["source"] for one in found["shares"]] == pytest.approx([one["source"] for one in known["shares"]])
    assert found["new"] == pytest.approx(known["new"])
    run("shift", "old.json", "moved.csv", *TUNED, "--priors", "balanced")


def test_limits_out_of_reach_are_an_error(months):
    tuned(months[0], "macro_f1", constraints="accuracy >= 0.7")
    shares = ("--priors", "VF=0.1,F=0.4,M=0.4,L=0.1")
    result = invoked("shift", "rule.json", "moved.csv", *shares, *TUNED, "-o", "new.json")
    assert result.exit_code == 3 and "no rule" in result.stderr and not Path("new.json").exists()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--check", "-o", "x.json"], "--check only tests, and --out is of the new rule"),
        (["--check", "--priors", "balanced"], "--check only tests, and --priors is of the new rule"),
        (["--false-alarms", "0.1"], "--false-alarms is of --check"),
        (["--priors", "balanced", "--label", "y"], "--priors says the class shares, so --label adds nothing"),
        (["--proba-shifted"], "--proba-shifted undoes a known shift; give --priors"),
        (["--tuned-on", "small.csv"], "--tuned-on is a table with true classes, whose column --tuned-label names"),
        (["--tuned-on", "small.csv", "--tuned-label", "z"], "small.csv has no column 'z'"),
        (["--tuned-on", "small.csv", "--tuned-label", "yy"], "(nearest: y); correct --tuned-label"),
        (["--tuned-weight", "w"], "--tuned-weight is a column of --tuned-on; give both"),
        (["--priors", "a"], "'a' is not NAME=SHARE"),
        (["--priors", "a=1,a=0"], "a is given twice"),
        (["--priors", "a=.5,b=.5"], "the class 'c' has no share; pass one share for every class"),
        (["--priors", "a=.5,b=.6,c=.1"], "--priors sum to 1.2, and shares sum to one"),
        (["--priors", "a=.5,b=.6,d=-.1"], "'d' is none of the classes"),
        (["--false-alarms", "2", "--check"], "not in the range"),
        (["-o", "s.json"], "-o s.json is the input file"),
    ],
)
def test_bad_input_is_refused(args, sentence):
    small(Path())
    run("tune", "small.csv", "--label", "y", "--metric", "accuracy", "-o", "s.json")
    assert sentence in refusal("shift", "s.json", "small.csv", *args)


def test_rules_that_are_not_of_one_class_for_all_rows_are_refused():
    path = small(Path())
    table = pd.read_csv(path)
    P, y = table[list("abc")].to_numpy(), table["y"].to_numpy()
    group = np.arange(60) % 2
    limit = "max(rate[a] | group) <= 1"
    confmax.maximize("accuracy", P, y, group=group, constraints=limit).rule.save("g.json")
    assert "decides by groups, whose class shares may change each by itself" in refusal("shift", "g.json", path)
    labels = np.column_stack([y == "a", y == "b"]).astype(int)
    confmax.maximize("macro_f1", P[:, :2], labels, decisions="any").rule.save("l.json")
    said = refusal("shift", "l.json", path)
    assert "confmax shift is for rules of one class per row; in Python LabelSolution.adapt(new_proba)" in said


def test_rules_of_groups_are_checked():
    draw = np.random.default_rng(0)
    p = draw.beta(1, 2, 2000)
    sex = np.where(draw.random(2000) < 0.5, "f", "m")
    frame = pd.DataFrame({"yes": p, "no": 1 - p, "sex": sex, "y": np.where(draw.random(2000) < p, "yes", "no")})
    frame.to_csv("t.csv", index=False)
    limit = "difference(rate[yes] | group) <= 0.02"
    given = ("--label", "y", "--metric", "accuracy", "--subject-to", limit, "--group", "sex", "-o", "r.json")
    run("tune", "t.csv", *given)
    scored = document("score", "t.csv", "--label", "y", "--rule", "r.json", "--group", "sex", "--replicates", 200)
    (one,) = scored["constraints"]
    low, high = one["interval"]
    assert low <= one["value"] <= high
    frame = frame.drop(columns="y")
    frame[1000:].to_csv("same.csv", index=False)
    assert not document("shift", "r.json", "same.csv", "--check", "--group", "sex")["changed"]
    frame["yes"] = np.where(sex == "f", p**2, p)
    frame["no"] = 1 - frame["yes"]
    frame.to_csv("moved.csv", index=False)
    stdout, _ = run("shift", "r.json", "moved.csv", "--check", "--group", "sex", code=3)
    assert f"the limit {limit} is broken" in stdout
    assert "--group" in refusal("shift", "r.json", "moved.csv", "--check")
    assert "--group is of --check" in refusal("shift", "r.json", "moved.csv", "--group", "sex")
    assert "give --check and --group" in refusal("shift", "r.json", "moved.csv")
