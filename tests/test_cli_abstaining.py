"""Rules that leave rows undecided, on the command line."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

import confmax
from confmax.confusion import Gains
from confmax.tables import make_table
from confmax.tables.draws import stratified_folds
from tests.cli_helpers import document, refusal, run

FLOOR = ("--subject-to", "coverage >= 0.8")


ROWS = 150


@pytest.fixture(autouse=True)
def table(inside):  # noqa: ARG001
    """A folder with a table, and its frame."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.5, 1.0, 2.0], ROWS).round(6)
    truth = ["abc"[rng.choice(3, p=p / p.sum())] for p in P]
    frame = pd.DataFrame(P, columns=list("abc")).assign(truth=truth, w=rng.integers(1, 4, ROWS))
    frame.to_csv("t.csv", index=False)
    return pd.read_csv("t.csv")


def two_classes(abstain="ask"):
    """A rule that decides a class from a probability of 0.7 and 0.8 on."""
    gains = Gains.reduced([[1.0, 1.0]], [[0.1, 0.0, 0.8]])
    return confmax.DecisionRule(gains, np.ones(1), ("no", "yes", abstain), "accuracy", abstain=abstain)


def three_classes(**more):
    gains = Gains.reduced([[1.0, 1.0, 2.0]], [[0.0, 0.1, 0.0, 0.6]])
    return confmax.DecisionRule(gains, np.ones(1), ("a", "b", "c", "ask"), "macro_f1", abstain="ask", **more)


# --- tune -------------------------------------------------------------------------------------------------------------


def test_tune_says_what_is_decided(table):
    arguments = ("tune", "t.csv", "--label", "truth", "--metric", "accuracy", "--abstain", "ask", *FLOOR)
    text = run(*arguments, "--confusion", "model", "-o", "rule.json")[0]
    assert "accuracy of what is decided on the tuning rows" in text
    found = document(*arguments, "--confusion", "model")
    expected = confmax.maximize(
        "accuracy", table[list("abc")], table["truth"], classes=list("abc"), abstain="ask",
        constraints="coverage >= 0.8", confusion="model",
    )  # fmt: skip
    assert confmax.DecisionRule.load("rule.json") == expected.rule
    assert found["tuned"] == expected.value and found["abstain"] == "ask"
    assert found["coverage"] == pytest.approx(float((expected.predict(table[list("abc")]) != "ask").mean()), abs=1e-3)
    assert found["constraints"][0]["text"] == "coverage >= 0.8" and found["constraints"][0]["kept"]
    every = document("tune", "t.csv", "--label", "truth", "--metric", "accuracy")
    assert "abstain" not in every and "coverage" not in every


def test_numbers_have_a_number_for_abstaining(table):
    numbers = dict(zip("abc", range(3), strict=True))
    frame = table.rename(columns={"a": "0", "b": "1", "c": "2"}).assign(truth=table["truth"].map(numbers))
    frame.to_csv("n.csv", index=False)
    arguments = ("--label", "truth", "--metric", "accuracy", *FLOOR, "--columns", "0,1,2", "-o", "rule.json", "--force")
    run("tune", "n.csv", "--abstain", "later", *arguments)
    assert confmax.DecisionRule.load("rule.json").class_names == (0, 1, 2, "later")
    run("tune", "n.csv", "--abstain", "-1", *arguments)
    assert confmax.DecisionRule.load("rule.json").class_names == (0, 1, 2, -1)
    run("apply", "rule.json", "n.csv", "--columns", "0,1,2", "-o", "out.csv")
    assert set(pd.read_csv("out.csv")["decision"]) == {0, 1, 2, -1}
    assert "a class is called 1" in refusal("tune", "n.csv", "--abstain", "1", *arguments)
    # and where rows are read in parts
    np.save("p.npy", table[list("abc")].to_numpy())
    answer = document("tune", "p.npy", "--metric", "accuracy", "--abstain", "-1", *FLOOR)
    assert answer["rule"]["classes"] == [0, 1, 2, -1] and answer["coverage"] >= 0.8 - 1e-9


def test_costs_say_what_abstaining_costs():
    Path("costs.csv").write_text("a,b,c,ask\n0,1,1,.3\n1,0,1,.3\n1,1,0,.3\n")
    arguments = ("tune", "t.csv", "--label", "truth", "--costs", "costs.csv", "--columns", "a,b,c")
    run(*arguments, "--abstain", "ask", "-o", "rule.json")
    assert confmax.DecisionRule.load("rule.json").abstain == "ask"
    assert "names its further decision 'ask'" in refusal(*arguments, "--abstain", "later")


MISTAKES = {
    "no limit": (["--abstain", "ask"], "give --subject-to 'coverage >= 0.8', or another"),
    "no floor": (
        ["--abstain", "ask", "--subject-to", "rate[a] <= 0.5"],
        "set a floor, such as --subject-to 'coverage >= 0.8'",
    ),
    "a class": (["--abstain", "b", *FLOOR], "a class is called 'b'; give abstaining another name, such as --abstain"),
    "empty": (["--abstain", "", *FLOOR], "--abstain is a name for the decision"),
    "above one": (["--abstain", "ask", "--subject-to", "coverage >= 1.5"], "coverage lies between 0 and 1"),
    "without": ([*FLOOR], "this rule decides all rows; pass --abstain NAME, or leave it out"),
    "coverage": (["--metric", "coverage"], "pass --abstain NAME, or maximise another metric"),
    "of all": (
        ["--abstain", "ask", *FLOOR, "--subject-to", "cohen_kappa >= 0.2"],
        "of the rows that are decided, cohen_kappa is neither linear nor a ratio",
    ),
}


@pytest.mark.parametrize(("given", "sentence"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("command", ["tune", "compare"])
def test_what_cannot_be_asked_is_a_mistake(command, given, sentence):
    if command == "compare" and given == ["--abstain", "ask"]:
        sentence = MISTAKES["no floor"][1]
    assert sentence in refusal(command, "t.csv", "--label", "truth", "--metric", "accuracy", *given)


# --- apply and explain ------------------------------------------------------------------------------------------------


def test_apply_counts_the_rows_that_are_left(table):
    three_classes().save("rule.json")
    answer = document("apply", "rule.json", "t.csv", "-o", "out.csv")
    decided = pd.read_csv("out.csv")["decision"]
    assert decided.tolist() == three_classes().predict(table[list("abc")]).tolist()
    left = int((decided == "ask").sum())
    assert 0 < left < ROWS and answer["abstain"] == "ask" and answer["rows_undecided"] == left
    assert answer["decided"]["ask"] == left / ROWS
    confmax.DecisionRule.from_weights([1, 1, 1], classes=list("abc")).save("all.json")
    assert "rows_undecided" not in document("apply", "all.json", "t.csv", "-o", "out.csv")


def test_explain_says_which_rows_are_left(table):
    three_classes().save("rule.json")
    text = run("explain", "rule.json")[0]
    # c by (0.6 - 0) / 2
    assert "a row is left undecided (ask) if p(a) <= 0.600 and p(b) <= 0.500 and p(c) <= 0.300" in text
    answer = document("explain", "rule.json")
    assert answer["abstain"] == "ask" and answer["decisions"] == ["a", "b", "c", "ask"]
    limits = answer["parts"][0]["undecided_up_to"]
    assert limits == pytest.approx({"a": 0.6, "b": 0.5, "c": 0.3})
    # by enumeration
    P = table[list("abc")].to_numpy()
    most = np.array([limits[name] for name in "abc"])
    assert (three_classes().predict(P) == "ask").tolist() == (most >= P).all(axis=1).tolist()


def test_explain_says_it_step_by_step():
    two_classes().save("rule.json")
    answer = document("explain", "rule.json", "--proba", "0.5,0.5")["example"]
    assert answer["decision"] == "ask" and answer["parts"][0]["decision"] == "ask"
    assert len(answer["scored"]) == 2 and len(answer["parts"][0]["scores"]) == 3
    assert "Decided: ask, the largest score (*)" in run("explain", "rule.json", "--proba", "0.5,0.5")[0]


# the gains of abstaining of a rule of two classes, where it leaves a row, in words and in numbers
LEFT = [
    ([[0.1, 0.0, 0.8]], "undecided (ask) if 0.300 <= p(yes) <= 0.800", [0.7, 0.8]),
    ([[0.5, 0.0, 0.4]], "no row is left undecided (ask)", [None, None]),
    ([[0.0, 0.0, 2.0]], "undecided (ask) if 0.000 <= p(yes) <= 1.000", [1.0, 1.0]),
]


@pytest.mark.parametrize(("b", "words", "limits"), LEFT)
def test_explain_of_rules_of_two_classes(b, words, limits):
    rule = replace(two_classes(), gains=Gains.reduced([[1.0, 1.0]], b))
    rule.save("rule.json")
    assert words in run("explain", "rule.json")[0]
    assert list(document("explain", "rule.json")["parts"][0]["undecided_up_to"].values()) == pytest.approx(limits)
    p = (np.arange(100) + 0.5) / 100
    most = [-1.0 if limit is None else limit for limit in limits]
    expected = (1 - p <= most[0]) & (p <= most[1])
    assert (rule.predict(np.column_stack([1 - p, p])) == "ask").tolist() == expected.tolist()


def test_explain_of_parts_and_of_tables_of_gains():
    gains = Gains.reduced([[1.0, 1.0]] * 2, [[0.0, 0.0, 0.7], [0.0, 0.0, 0.9]])
    confmax.DecisionRule(gains, np.array([0.25, 0.75]), ("no", "yes", "ask"), abstain="ask").save("rule.json")
    text = run("explain", "rule.json")[0]
    assert "drawn with probability 25.0%: a row is left undecided (ask) if 0.300 <= p(yes) <= 0.700" in text
    assert "drawn with probability 75.0%: a row is left undecided (ask) if 0.100 <= p(yes) <= 0.900" in text
    full = Gains.from_matrix(np.hstack([np.eye(3), np.full((3, 1), 0.6)])[None])
    confmax.DecisionRule(full, np.ones(1), (*"abc", "ask"), abstain="ask").save("rule.json")
    assert "a row is left undecided (ask) if that has the largest expected gain" in run("explain", "rule.json")[0]


@pytest.mark.parametrize("seed", range(4))
def test_explain_of_any_table_of_gains_of_two_classes(seed):
    rng = np.random.default_rng(seed)
    rule = confmax.DecisionRule(Gains.from_matrix(rng.normal(size=(1, 2, 3))), np.ones(1), (0, 1, -1), abstain=-1)
    rule.save("rule.json")
    limits = document("explain", "rule.json")["parts"][0]["undecided_up_to"]
    p = np.linspace(0.0, 1.0, 2001)
    left = rule.predict(np.column_stack([1 - p, p])) == -1
    if limits["1"] is None:
        assert not left.any()
    else:
        assert (left == ((1 - p <= limits["0"]) & (p <= limits["1"]))).all()


# --- score and compare ------------------------------------------------------------------------------------------------


def test_score_is_of_what_is_decided(table):
    limits = ("coverage >= 0.5", "coverage >= 0.99", "rate[a] <= 0.4", "recall[b] >= 0.01")
    three_classes(constraints=limits).save("rule.json")
    arguments = ("score", "t.csv", "--label", "truth", "--rule", "rule.json", "--replicates", "100", "--weight", "w")
    found = json.loads(run(*arguments, "--json", code=3)[0])
    decided, y = three_classes().predict(table[list("abc")]), table["truth"].to_numpy()
    w = table["w"].to_numpy()
    kept = decided != "ask"
    values = {row["metric"]: row for row in found["values"]}
    assert found["abstain"] == "ask" and found["rows_undecided"] == (~kept).sum()
    assert values["coverage"]["rule"] == pytest.approx(w[kept].sum() / w.sum())
    assert values["coverage"]["argmax"] == pytest.approx(1.0) and values["coverage"]["p_prior"] == pytest.approx(1.0)
    given = {"sample_weight": w[kept], "y_true": y[kept], "y_pred": decided[kept]}
    assert values["accuracy"]["rule"] == pytest.approx(accuracy_score(**given))
    assert values["macro_f1"]["rule"] == pytest.approx(f1_score(**given, average="macro"))
    assert values["balanced_accuracy"]["rule"] == pytest.approx(balanced_accuracy_score(**given))
    # the others decide every row
    plain = table[list("abc")].to_numpy().argmax(axis=1)
    assert values["accuracy"]["argmax"] == pytest.approx(w[np.array(list("abc"))[plain] == y].sum() / w.sum())
    # the bootstrap draws rows, so coverage varies
    low, high = values["coverage"]["intervals"]["rule"]
    assert low < values["coverage"]["rule"] < high
    outcomes = {one["text"]: one for one in found["constraints"]}
    assert [outcomes[text]["kept"] for text in limits] == [True, False, True, True]
    assert outcomes["rate[a] <= 0.4"]["value"] == pytest.approx(w[decided == "a"].sum() / w.sum())
    assert outcomes["rate[a] <= 0.4"]["interval"][0] <= outcomes["rate[a] <= 0.4"]["value"]
    recall = w[(decided == "b") & (y == "b")].sum() / w[kept & (y == "b")].sum()
    assert outcomes["recall[b] >= 0.01"]["value"] == pytest.approx(recall)
    text = run(*arguments, code=3)[0]
    assert f"undecided  {(~kept).sum()} of {ROWS} rows, as ask" in text


def test_the_interval_of_what_is_decided_is_that_of_its_resamples(table):
    """As of a plain bootstrap by hand, up to chance."""
    three_classes().save("rule.json")
    answer = document("score", "t.csv", "--label", "truth", "--rule", "rule.json", "--metric", "accuracy")
    decided = three_classes().predict(table[list("abc")])
    hit = (decided == table["truth"]).to_numpy()
    kept = decided != "ask"
    draws = np.random.default_rng(1).integers(0, ROWS, (4000, ROWS))
    values = (hit & kept)[draws].sum(axis=1) / kept[draws].sum(axis=1)
    (accuracy,) = (row for row in answer["values"] if row["metric"] == "accuracy")
    assert accuracy["intervals"]["rule"] == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.015)


def test_score_leaves_out_what_the_labels_do_not_say(table):
    table[table["truth"] != "a"].to_csv("bc.csv", index=False)
    three_classes(constraints=("recall[a] >= 0.2",)).save("rule.json")
    found = document("score", "bc.csv", "--label", "truth", "--rule", "rule.json", "--metric", "recall[a]",
                     "--metric", "balanced_accuracy", "--replicates", "0")  # fmt: skip
    assert found["skipped"] == [{"metric": "recall[a]", "why": "no row has its class"}]
    assert found["constraints"] == [{"text": "recall[a] >= 0.2", "value": None, "kept": None, "vacuous": False}]
    rows = table[table["truth"] != "a"]
    decided, y = three_classes().predict(rows[list("abc")]), rows["truth"]
    recalls = [(decided[(decided != "ask") & (y == name)] == name).mean() for name in "bc"]
    assert found["values"][1]["rule"] == pytest.approx(np.mean(recalls))


def test_a_rule_that_draws_leaves_an_expected_number_of_rows(table):
    gains = Gains.reduced([[1.0, 1.0, 1.0]] * 2, [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.6]])
    rule = confmax.DecisionRule(gains, np.array([0.25, 0.75]), ("a", "b", "c", "ask"), abstain="ask")
    rule.save("rule.json")
    found = document("score", "t.csv", "--label", "truth", "--rule", "rule.json", "--replicates", "0")
    expected = rule.decision_probabilities(table[list("abc")])[:, 3].sum()
    assert found["rows_undecided"] == pytest.approx(expected)
    assert found["values"][0]["rule"] == pytest.approx(1 - expected / ROWS)


def test_compare_tunes_and_judges_at_the_same_coverage(table, monkeypatch):
    monkeypatch.setattr("confmax.cli.compare.N_FOLDS", 2)
    three_classes().save("rule.json")
    arguments = ("compare", "t.csv", "--label", "truth", "--metric", "accuracy", "--abstain",
                 "later", *FLOOR, "--rule", "rule.json", "--replicates", "0")  # fmt: skip
    found = document(*arguments)
    assert found["abstain"] == "later" and found["metrics"] == ["coverage", "accuracy", "macro_f1"]
    rules = {row["rule"]: row for row in found["rules"]}
    # by hand: the same folds, a rule tuned without each
    P, y = table[list("abc")].to_numpy(), table["truth"].to_numpy()
    folds, decided = stratified_folds(make_table(P, y, classes=list("abc")).head, 2, 0), np.empty(ROWS, dtype=object)
    calibrated = np.empty_like(P)
    for k in range(2):
        part = confmax.maximize("accuracy", P[folds != k], y[folds != k], classes=list("abc"), abstain=True,
                                constraints="coverage >= 0.8", on_infeasible="closest")  # fmt: skip
        assert not part.rule.is_randomized
        decided[folds == k] = part.predict(P[folds == k])
        calibrated[folds == k] = (
            part.rule.calibrator.transform(P[folds == k]) if part.rule.calibrator else P[folds == k]
        )
    area = rules["for accuracy"]["risk_coverage"]
    # the best rules at each coverage are those of the probabilities alone
    settings = {"classes": list("abc"), "confusion": "model", "calibration": None, "abstain": True}
    levels = np.linspace(0.5, 1.0, 41)
    path = confmax.frontier("accuracy", "coverage >=", calibrated, y, levels=levels, **settings).on_labels
    assert (area["metric"], area["from"], area["to"]) == ("accuracy", 0.5, 1.0)
    assert area["chow"] == pytest.approx(1.0 - path.chow.area())
    assert area["best"] == pytest.approx(1.0 - path.area(), abs=2e-3)
    assert "risk_coverage" not in rules["argmax"]
    kept = decided != "abstain"
    assert rules["for accuracy"]["values"]["coverage"] == pytest.approx(kept.mean())
    assert rules["for accuracy"]["values"]["accuracy"] == pytest.approx((decided == y)[kept].mean())
    assert rules["argmax"]["values"]["coverage"] == pytest.approx(1.0) and rules["argmax"]["constraints"][0]["kept"]
    text = run(*arguments)[0]
    assert f"{area['chow']:.4f}      {area['best']:.4f}" in text and "--abstain later" in text.splitlines()[-1]


def test_compare_takes_what_can_be_maximised_so(monkeypatch):
    monkeypatch.setattr("confmax.cli.compare.N_FOLDS", 2)
    monkeypatch.setattr("confmax.cli.compare.SEVERAL", ("balanced_accuracy",))
    arguments = ("compare", "t.csv", "--label", "truth", "--abstain", "ask", "--replicates", "0", *FLOOR)
    rules = [row["rule"] for row in document(*arguments)["rules"]]
    assert rules[-2:] == ["for accuracy", "for balanced_accuracy"]
    assert rules[2:4] == ["Chow's rule (for accuracy)", "p/prior on as many rows (for accuracy)"]
    ordered = ("--metric", "quadratic_kappa", "--classes", "a,b,c")
    assert "quadratic_kappa cannot be maximised" in refusal(*arguments, *ordered)


def test_coverage_is_maximised_within_a_floor_on_what_is_decided():
    arguments = ("tune", "t.csv", "--metric", "coverage", "--abstain", "ask", "--subject-to", "accuracy >= 0.8")
    answer = document(*arguments, "--columns", "a,b,c")
    assert answer["tuned"] == pytest.approx(answer["coverage"]) and answer["constraints"][0]["value"] >= 0.8


def test_compare_without_abstaining_takes_a_rule_that_does():
    three_classes().save("rule.json")
    ask = Gains.from_matrix(np.hstack([np.eye(3), np.full((3, 1), 0.6)])[None])
    confmax.DecisionRule(ask, np.ones(1), ("a", "b", "c", "ambulance")).save("other.json")
    arguments = ("compare", "t.csv", "--label", "truth", "--metric", "accuracy", "--replicates", "0")
    arguments = (*arguments, "--rule", "rule.json")
    found = document(*arguments)
    rules = {row["rule"]: row["values"] for row in found["rules"]}
    assert "abstain" not in found and rules["for accuracy"]["coverage"] == pytest.approx(1.0)
    assert rules["rule.json"]["coverage"] < 1.0
    told = run(*arguments, "--rule", "other.json", code=2)[1]
    assert "the rule other.json has decisions beyond the classes that are not called abstaining" in told
    assert "pass --abstain NAME" in run(*arguments, *FLOOR, code=2)[1]


def test_the_positive_class_of_what_is_decided():
    positive = "no"
    rng = np.random.default_rng(3)
    p = rng.beta(0.6, 1.2, 200).round(5)
    frame = pd.DataFrame({"no": 1 - p, "yes": p, "y": np.where(rng.random(200) < p, "yes", "no")})
    frame.to_csv("two.csv", index=False)
    given = ("two.csv", "--label", "y", "--positive", positive)
    run("tune", *given, "--metric", "f1", "--abstain", "ask", "--subject-to", "coverage >= 0.7", "--randomized", "no",
        "-o", "rule.json")  # fmt: skip
    rule = confmax.DecisionRule.load("rule.json")
    decided = rule.predict(frame[list(rule.class_names[:2])])
    kept = decided != "ask"
    # who leaves --positive out means the class of the rule
    for arguments in (given, given[:3]):
        found = document("score", *arguments, "--rule", "rule.json", "--metric", "f1", "--replicates", "0")
        expected = f1_score(frame["y"][kept], decided[kept], pos_label=positive)
        assert found["values"][1]["rule"] == pytest.approx(expected)
    compared = document("compare", *given, "--metric", "f1", "--rule", "rule.json", "--replicates", "0")
    assert compared["rules"][-1]["values"]["f1"] == pytest.approx(expected)
