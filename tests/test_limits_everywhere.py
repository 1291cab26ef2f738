"""Constraints in scikit-learn's classifier and on the command line."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import confmax
from confmax import constraints as c
from tests.cli_helpers import run


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


def test_without_limits_the_document_has_none(table):
    document = json.loads(run("tune", table, "--label", "truth", "--metric", "accuracy", "--json")[0])
    assert "constraints" not in document


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
