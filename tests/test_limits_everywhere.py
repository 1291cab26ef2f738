"""Constraints in scikit-learn's classifier and on the command line."""

import json
import pickle
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold

import confmax
from confmax import constraints as c
from confmax.metrics.catalogue import limited_names
from confmax.oracle import make_table
from confmax.tables.draws import stratified_folds
from tests.cli_helpers import run
from tests.estimators.helpers import Never


def data(n=600):
    return make_classification(n, n_informative=5, n_classes=3, weights=[0.7, 0.2, 0.1], random_state=0)


@pytest.mark.parametrize("given", ["recall[2] >= 0.8", [c.recall(2) >= 0.8, "rate[0] <= 0.6"]])
def test_the_classifier_keeps_constraints(given):
    X, y = data()
    settings = {"metric": "accuracy", "constraints": given, "confusion": "model", "fold_rules": False}
    model = confmax.MetricClassifierCV(LogisticRegression(), **settings)
    fitted = pickle.loads(pickle.dumps(clone(model).fit(X, y)))
    solution = fitted.solution_
    assert solution.feasible and solution.gap is not None and solution.constraints[0].value >= 0.8
    # without the limit the rarest class is recognised less often
    free = clone(model).set_params(constraints=()).fit(X, y)
    assert (free.predict(X) == 2).sum() < (fitted.predict(X) == 2).sum()


def test_a_positive_class_is_the_one_that_limits_speak_of():
    X, y = make_classification(500, weights=[0.8], random_state=1)
    names = np.array(["yes", "no"])[y]
    settings = {"metric": "accuracy", "constraints": "precision >= 0.95", "pos_label": "no", "fold_rules": False}
    fitted = confmax.MetricClassifierCV(LogisticRegression(), **settings).fit(X, names)
    assert fitted.solution_.constraints[0].text == "precision[no] >= 0.95"


def test_the_classifier_refuses_before_anything_is_fitted_and_says_what_is_impossible():
    X, y = data()
    for wrong, message in (
        ({"constraints": "recall[2] > 0.8"}, "a limit includes its end"),
        ({"constraints": "recall[9] >= 0.8"}, "names a class that the table does not have"),
        ({"on_infeasible": "warn"}, "on_infeasible is"),
    ):
        with pytest.raises(ValueError, match=message):
            confmax.MetricClassifierCV(LogisticRegression(), **wrong).fit(X, y)
    given = {"constraints": ["recall[2] >= 0.99", "rate[2] <= 0.05"], "fold_rules": False, "confusion": "model"}
    with pytest.raises(confmax.Infeasible, match="reaches at most"):
        confmax.MetricClassifierCV(LogisticRegression(), **given).fit(X, y)
    closest = confmax.MetricClassifierCV(LogisticRegression(), on_infeasible="closest", **given).fit(X, y)
    assert not closest.solution_.feasible


@pytest.mark.parametrize(
    ("more", "promised"),
    [({"cv": 0.5, "refit": False}, True), ({"cv": "prefit"}, True), ({"cv": 4}, False),
     ({"cv": 4, "ensemble": True}, False)],
)  # fmt: skip
def test_a_confidence_in_the_classifier_says_which_model_it_is_about(more, promised):
    X, y = data(2000)
    model = LogisticRegression()
    if more["cv"] == "prefit":
        model = model.fit(X[:800], y[:800])
        X, y = X[800:], y[800:]
    settings = {"metric": "accuracy", "constraints": ["recall[2] >= 0.4", "rate[0] <= 0.9"], "fold_rules": False}
    tuned = clone(confmax.MetricClassifierCV(LogisticRegression(), confidence=0.9, **settings, **more))
    assert tuned.get_params()["confidence"] == 0.9
    solution = tuned.set_params(estimator=model).fit(X, y).solution_
    assert solution.confidence == 0.9 and all(one.assured for one in solution.constraints)
    assert ("not about the final model" in solution.guarantee) is not promised
    # the rows that tested are about half of those of the table
    n = {0.5: 1000, "prefit": 1200, 4: 2000}[more["cv"]]
    assert abs(solution.constraints[1].label_rows - n / 2) < 0.1 * n


def test_the_rules_of_the_folds_are_tuned_with_the_same_confidence():
    X, y = data(1000)
    settings = {"metric": "accuracy", "constraints": "recall[2] >= 0.4", "cv": 2}
    sure = confmax.MetricClassifierCV(LogisticRegression(), confidence=0.9, **settings).fit(X, y)
    assert len(sure.fold_rules_) == 2
    # they leave room for chance, as the rule does
    edge = confmax.MetricClassifierCV(LogisticRegression(), **settings).fit(X, y)
    thresholds = [np.append(one.fold_thresholds_[:, 2], one.thresholds_[2]) for one in (sure, edge)]
    assert (thresholds[0] < thresholds[1]).all()


@pytest.mark.parametrize(
    ("settings", "weight", "message"),
    [
        ({}, None, "pass constraints="),
        ({"constraints": "recall[2] >= 0.5", "confidence": 2.0}, None, "confidence is a number from 0.5"),
        ({"constraints": "cohen_kappa >= 0.5"}, None, "cohen_kappa is none"),
        ({"constraints": "recall[2] >= 0.5"}, np.arange(600) + 1.0, "their weights are not equal"),
    ],
)
def test_the_classifier_refuses_a_confidence_before_anything_is_fitted(settings, weight, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        confmax.MetricClassifierCV(Never(), **({"confidence": 0.9} | settings)).fit(X, y, sample_weight=weight)


def test_rows_that_depend_on_each_other_have_no_confidence():
    X, y = data()
    given = {"metric": "accuracy", "constraints": "recall[2] >= 0.3", "confidence": 0.9}
    with pytest.raises(ValueError, match="pass a cv without repetition"):
        confmax.MetricClassifierCV(LogisticRegression(), cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2),
                                   **given).fit(X, y)  # fmt: skip
    # a few distinct rows: the rule is then tuned on those of the final model
    few = (X[:, :1] > 0) * 1.0
    with pytest.raises(ValueError, match=r"pass cv=0\.25 with refit=False, or cv='prefit'"):
        confmax.MetricClassifierCV(LogisticRegression(), **given).fit(few, y)


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.5, 1.0, 2.0], 400).round(6)
    lines = [f"{p[0]:.6f},{p[1]:.6f},{p[2]:.6f},{'abc'[rng.choice(3, p=p / p.sum())]}" for p in P]
    path = tmp_path / "table.csv"
    path.write_text("a,b,c,truth\n" + "\n".join(lines) + "\n")
    return path


def test_tune_keeps_limits(table):
    arguments = ("tune", table, "--label", "truth", "--metric", "accuracy", "--subject-to", "recall[a] >= 0.8")
    arguments += ("--confusion", "model")
    text = run(*arguments, "--subject-to", "rate[c] <= 0.5")[0]
    assert "recall[a] >= 0.8" in text and "price" in text and "rule that keeps the constraints" in text
    document = json.loads(run(*arguments, "--json")[0])
    (limit,) = document["constraints"]
    assert limit["text"] == "recall[a] >= 0.8" and limit["value"] >= 0.8 and limit["kept"] and limit["price"] > 0
    assert document["confusion"] == "model" and "argmax" in document["missed_by"]
    assert "(misses a constraint)" in text


def test_limits_out_of_reach_end_with_exit_code_3(table, tmp_path):
    out = tmp_path / "rule.json"
    arguments = ("tune", table, "--metric", "accuracy", "--subject-to", "recall[a] >= 0.99", "-o", out)
    ended = run(*arguments, "--subject-to", "rate[a] <= 0.05", code=3)
    assert "recall[a] reaches at most" in ended[1] and "--on-infeasible closest" in ended[1]
    assert not out.exists()
    shown = run(*arguments, "--subject-to", "rate[a] <= 0.05", "--on-infeasible", "closest")[0]
    assert "no rule on this table keeps" in shown and out.exists()


@pytest.mark.parametrize(
    ("text", "message"), [("recall[a] > 0.8", "includes its end"), ("recall[z] >= 0.8", "does not have")]
)
def test_limits_that_cannot_be_read_are_mistakes(table, text, message):
    ended = run("tune", table, "--metric", "accuracy", "--subject-to", text, code=2)
    assert message in ended[1]


def test_score_checks_the_limits_of_a_rule(table, tmp_path):
    rule = tmp_path / "rule.json"
    arguments = ("tune", table, "--label", "truth", "--metric", "accuracy", "--confusion", "model", "-o", rule)
    run(*arguments, "--subject-to", "recall[a] >= 0.8")
    assert "within" in run("explain", rule)[0] and "recall[a] >= 0.8" in run("explain", rule)[0]
    kept = confmax.DecisionRule.load(rule)
    for limit, code in (("rate[c] <= 0.99", 0), ("recall[a] >= 0.999", 3)):
        changed = tmp_path / f"{code}.json"
        replace(kept, constraints=(limit,)).save(changed)
        scored = ("score", table, "--label", "truth", "--rule", changed, "--replicates", "40")
        assert limit in run(*scored, code=code)[0]
        (one,) = json.loads(run(*scored, "--json", code=code)[0])["constraints"]
        assert one["kept"] == (code == 0) and one["interval"][0] <= one["value"] <= one["interval"][1]
    # a precision of no decision keeps its floor
    never = confmax.DecisionRule.from_weights([0.0, 1.0, 1.0], [-1.0, 0.0, 0.0], classes=list("abc"))
    replace(never, constraints=("precision[a] >= 0.9",)).save(tmp_path / "never.json")
    assert "no decision" in run("score", table, "--label", "truth", "--rule", tmp_path / "never.json")[0]


def test_a_confidence_says_for_every_limit_whether_it_is_assured(table, tmp_path):
    out = tmp_path / "rule.json"
    arguments = ("tune", table, "--label", "truth", "--metric", "accuracy", "--confidence", "0.99", "-o", out)
    easy, hard = ("--subject-to", "accuracy >= 0.2"), ("--subject-to", "recall[a] >= 0.9")
    found = json.loads(run(*arguments, *easy, "--json")[0])
    (limit,) = found["constraints"]
    assert found["confidence"] == 0.99 and limit["assured"] and limit["rows_needed"] is None
    # about half of the 400 rows test
    assert 150 < limit["rows_tested"] < 250 and limit["on_labels"] == found["tuned_on_labels"]
    # too few rows of the class: the rule is written, and the exit code says so
    out.unlink()
    text, warned = run(*arguments, *easy, *hard, code=3)
    assert out.exists() and "not assured with confidence 0.99: recall[a] >= 0.9 (" in warned
    lines = text.splitlines()
    header, first, second = lines[next(k for k, line in enumerate(lines) if "assured at" in line) :][:3]
    assert header.endswith("kept  rows tested  assured at 0.99  rows needed")
    first, second = first.split(), second.split()
    assert first[-2:] == ["yes", "-"] and second[-2] == "no"
    document = json.loads(run(*arguments, *easy, *hard, "--json", code=3)[0])
    few = document["constraints"][1]
    assert not few["assured"] and few["rows_needed"] > few["rows_tested"] == int(second[-3])
    assert second[-1] == f"{few['rows_needed']:,}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--confidence", "0.9", "--label", "truth"), "pass --subject-to LIMIT, or leave it out"),
        (("--confidence", "0.9", "--subject-to", "recall[a] >= 0.8"), "give --label"),
        (
            ("--confidence", "1.5", "--label", "truth", "--subject-to", "rate[a] <= 0.8"),
            "--confidence is a number from",
        ),
        (("--confidence", "0.9", "--label", "truth", "--subject-to", "f1[a] >= 0.8"), "leave --confidence out"),
    ],
)
def test_a_confidence_that_cannot_be_had_is_a_mistake(tmp_path, given, message):
    # said before the file is read, which is not even there
    ended = run("tune", tmp_path / "absent.csv", "--metric", "accuracy", *given, code=2)
    assert message in ended[1]


def test_rows_that_are_read_in_parts_have_a_confidence(tmp_path):
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1.0, 1.0], 50)
    y = (rng.random(50) < P[:, 1]).astype(int)
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "y.npy", y)
    arguments = ("--label", tmp_path / "y.npy", "--metric", "accuracy", "--subject-to", "recall[1] >= 0.2", "--json")
    document = json.loads(run("tune", tmp_path / "p.npy", *arguments, "--confidence", "0.9")[0])
    expected = confmax.maximize("accuracy", P, y, constraints="recall[1] >= 0.2", confidence=0.9)
    assert document["tested_on"] == "all rows" and document["constraints"][0]["assured"] is True
    assert document["constraints"][0]["on_labels"] == pytest.approx(expected.constraints[0].label_value)


def test_score_says_which_limit_a_file_cannot_judge_and_judges_the_others(table, tmp_path):
    rule = confmax.DecisionRule.from_weights([1.0, 1.0, 1.0], classes=list("abc"))
    lines = table.read_text().splitlines()
    without = tmp_path / "without.csv"
    without.write_text("\n".join(line for line in lines if not line.endswith(",a")) + "\n")
    for limit, code in (("recall[c] >= 0.01", 0), ("rate[c] <= 0.01", 3)):
        replace(rule, constraints=("recall[a] >= 0.2", "precision[a] >= 0.2", limit)).save(tmp_path / "rule.json")
        scored = ("score", without, "--label", "truth", "--rule", tmp_path / "rule.json", "--replicates", "0")
        text, warned = run(*scored, code=code)
        assert "the limit recall[a] >= 0.2 cannot be judged on this file: no row has the class" in warned
        assert re.search(r"^recall\[a\] >= 0.2 +- +cannot be judged", text, re.MULTILINE)
        told = {one["text"]: one["kept"] for one in json.loads(run(*scored, "--json", code=code)[0])["constraints"]}
        assert told == {limit: code == 0, "recall[a] >= 0.2": None, "precision[a] >= 0.2": None}


def test_the_names_that_are_offered_are_the_quantities_that_can_be_limited():
    found = {True: set(), False: set()}
    limited = {name for names in limited_names() for name in names} - {"coverage"}
    for name in {*confmax.metrics.names(), *limited} - {"linear"}:
        for text in (f"{name}[a] >= 0.5", f"{name} >= 0.5"):
            with suppress(ValueError):
                # of one class, both are a text
                found[c.parse(text).metric.one_class is not None].add(name)
                break
    # which is of one class and of all
    found = {of_one: {*names, "coverage"} for of_one, names in found.items()}
    of_one, of_all = limited_names()
    assert found == {True: set(of_one), False: set(of_all)}


def test_compare_tunes_within_limits_and_judges_every_rule_by_them(table, tmp_path):
    limits = ("--subject-to", "recall[a] >= 0.8", "--subject-to", "precision[b] >= 0.01")
    never = confmax.DecisionRule.from_weights([1.0, 0.0, 1.0], [0.0, -1.0, 0.0], classes=list("abc"))
    never.save(tmp_path / "never.json")
    arguments = (
        "compare",
        table,
        "--label",
        "truth",
        "--metric",
        "accuracy",
        "--rule",
        tmp_path / "never.json",
        *limits,
    )
    found = json.loads(run(*arguments, "--replicates", "40", "--json")[0])
    rules = {row["rule"]: row for row in found["rules"]}
    assert "recall[a] >= 0.8" not in found["metrics"] and set(found["best"]) == set(found["metrics"])
    # by hand: the same folds, a rule tuned without each
    frame = pd.read_csv(table)
    P, y = frame[list("abc")].to_numpy(), frame["truth"].to_numpy()
    folds = stratified_folds(make_table(P, y, classes=list("abc")).head, 5, 0)
    decided = np.empty(len(y), dtype=object)
    for k in range(5):
        part = confmax.maximize("accuracy", P[folds != k], y[folds != k], classes=list("abc"), constraints=limits[1::2])
        decided[folds == k] = part.predict(P[folds == k])
    recall, precision = rules["for accuracy"]["constraints"]
    assert recall["value"] == pytest.approx((decided[y == "a"] == "a").mean())
    assert recall["kept"] == (recall["value"] >= 0.8) and recall["interval"][0] <= recall["value"]
    assert rules["argmax"]["constraints"][0]["value"] < recall["value"]
    assert rules[str(tmp_path / "never.json")]["constraints"][1]["vacuous"] and precision["kept"]
    text = run(*arguments, "--replicates", "0")[0]
    assert "Limits; * is kept on these rows" in text and "--subject-to 'recall[a] >= 0.8'" in text


def test_compare_leaves_out_what_takes_no_limits_and_says_where_a_fold_has_no_rule(table):
    ended = run("compare", table, "--label", "truth", "--metric", "mcc", "--subject-to", "accuracy >= 0.1", code=2)
    assert "mcc" in ended[1] and "rare classes" not in ended[1]
    arguments = ("compare", table, "--label", "truth", "--metric", "accuracy", "--replicates", "0")
    warned = run(*arguments, "--subject-to", "recall[a] >= 0.99", "--subject-to", "rate[a] <= 0.05")[1]
    assert "for accuracy: in 5 of 5 folds no rule was met that keeps all limits" in warned


def test_the_classifier_and_maximize_assure_the_same_limits_on_the_same_rows():
    X, y = data(1500)
    model = LogisticRegression().fit(X[:500], y[:500])
    P, y = model.predict_proba(X[500:]), y[500:]
    given = {"constraints": "recall[2] >= 0.4", "confidence": 0.9}
    tuned = confmax.MetricClassifierCV(model, metric="accuracy", cv="prefit", **given).fit(X[500:], y)
    solution = confmax.maximize("accuracy", P, y, **given)
    assert tuned.solution_.constraints == solution.constraints
    assert (tuned.predict(X[500:]) == solution.predict(P)).all()
