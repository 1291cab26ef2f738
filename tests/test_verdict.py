"""The verdict on a rule: by what it was tuned for, beside what it competes with, and never for what misses a limit."""

import numpy as np
import pandas as pd
import pytest

import confmax
from benchmarks import truth
from confmax.evaluate.verdict import AS_GOOD, Difference, Estimate, LimitScore, verdict
from confmax.evaluate.words import in_words
from tests.cli_helpers import document, run

BETTER, WORSE = Difference(0.03, 0.01, 0.05, 1.0), Difference(-0.03, -0.05, -0.01, 0.0)
UNCLEAR, GOOD = Difference(0.03, -0.01, 0.07, 0.9), Difference(0.001, -0.003, 0.005, 0.6)
MISSES = ("rate[1] <= 0.1",)


def rows(n, seed):
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-rng.normal(-4.2, 2.2, n)))
    return pd.DataFrame({"fraud": p, "ok": 1 - p}), np.where(rng.random(n) < p, "fraud", "ok")


def of(*rivals, limits=(), **more):
    """The verdict beside rivals, of which each is a difference, and what it misses if it misses something."""
    given = [(name, Estimate(0.5, 0.4, 0.6), *(it if isinstance(it[0], tuple) else (it, ())))
             for name, it in zip("abc", rivals, strict=False)]  # fmt: skip
    return verdict("f1", Estimate(0.5, 0.4, 0.6), given, limits, **more)


@pytest.mark.parametrize(
    ("rivals", "kind", "decides"),
    [
        ((BETTER, BETTER._replace(value=0.02)), "better", "b"),
        ((WORSE, BETTER), "worse", "a"),
        ((BETTER, GOOD), "as good", "b"),
        ((GOOD, GOOD), "as good", "a"),
        ((GOOD, WORSE), "worse", "b"),
        ((UNCLEAR, BETTER), "unclear", "a"),
        # what misses a limit neither beats the rule nor is as good
        (((WORSE, MISSES), BETTER), "better", "b"),
        (((GOOD, MISSES), (WORSE, MISSES)), "alone", None),
        ((Difference(np.nan, None, None, None),), "unknown", None),
        ((), "unknown", None),
    ],
)
def test_the_verdict_follows_from_what_competes(rivals, kind, decides):
    found = of(*rivals)
    assert (found.kind, found.of) == (kind, decides)
    assert found.instead == (decides if kind in ("worse", "as good") else None)
    # a rule that misses a limit is not recommended, and neither is anything else
    lost = of(*rivals, limits=[LimitScore("x", 0.1, 0.0, 0.2, -0.1, kept=False)])
    assert (lost.kind, lost.instead, lost.side) == ("misses", None, "worse")


@pytest.mark.parametrize(
    ("rivals", "words"),
    [
        ((BETTER, (GOOD, MISSES)), "r is better than a; b misses rate[1] <= 0.1, so its value does not compare"),
        ((GOOD, (WORSE, MISSES)), "a is as good as r; b misses rate[1] <= 0.1, so its value does not compare"),
        (((GOOD, MISSES), (WORSE, MISSES)),
         "r keeps its limits on these rows; a and b miss rate[1] <= 0.1, so their values do not compare"),
        (((GOOD, MISSES), (WORSE, ("x",)), BETTER),
         "r is better than c; a misses rate[1] <= 0.1 and b misses x, so their values do not compare"),
        ((BETTER,), "r is better than a"),
    ],
)  # fmt: skip
def test_a_verdict_names_the_limits_that_rivals_miss(rivals, words):
    assert in_words(of(*rivals), "r") == words


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_unit_of_a_cost_changes_no_verdict(unit):
    """Half a per cent of the other's cost is next to nothing, in cents and in millions."""
    value = Estimate(-3.0 * unit, None, None)
    for size, kind in ((0.9, "as good"), (1.1, "unclear")):
        middle = size * AS_GOOD * 3.0 * unit
        minus = Difference(middle, middle - unit, middle + unit, 0.5)
        assert verdict("linear", value, [("argmax", value, minus, ())], relative=True).kind == kind


@pytest.mark.parametrize("seed", range(10))
def test_a_sample_of_verdicts_is_that_of_a_program(seed, monkeypatch):
    pytest.importorskip("vl_convert")
    monkeypatch.setattr(truth, "REPLICATES", 400)
    monkeypatch.setattr(truth, "BAND", 0.76)
    assert truth.judged(seed)[2] == []


@pytest.mark.usefixtures("inside")
def test_no_line_of_the_commands_recommends_what_misses_a_limit():
    """p/prior has a higher recall, and flags five times as many rows as are allowed."""
    P, y = rows(3000, 0)
    limit = "rate[fraud] <= 0.05"
    solution = confmax.maximize("recall[fraud]", P, y, constraints=limit)
    solution.rule.save("rule.json")
    P.assign(truth=rows(3000, 0)[1]).to_csv("t.csv", index=False)
    line = ("score", "t.csv", "--label", "truth", "--rule", "rule.json", "--metric", "accuracy", "--replicates", "99")
    found = document(*line)["verdict"]
    assert found["metric"] == "recall[fraud]" and found["kind"] == "better" and found["instead"] is None
    assert {one["name"]: bool(one["missed"]) for one in found["rivals"]} == {"argmax": False, "p/prior": True}
    said = f"By recall[fraud], the rule is better than argmax; p/prior misses {limit}, so its value does not compare."
    assert said in run(*line)[0]
    several = document("compare", "t.csv", "--label", "truth", "--metric", "recall[fraud]", "--subject-to", limit,
                       "--replicates", "99")  # fmt: skip
    assert "p/prior" not in several["best"]["recall[fraud]"]
    values = {one["rule"]: one["values"]["recall[fraud]"] for one in several["rules"]}
    assert values["p/prior"] == max(values.values())


def test_a_rule_that_abstains_is_compared_on_as_many_rows():
    P, y = rows(3000, 1)
    Q, z = rows(3000, 2)
    solution = confmax.maximize("accuracy", P, y, abstain=True, constraints="coverage >= 0.8")
    found = confmax.score(["accuracy", "coverage"], Q, z, solution, n_replicates=99)
    assert set(found.to_dict()["metrics"]["accuracy"]["rule"]["minus"]) == {"Chow's rule", "p/prior on as many rows"}
    assert found.difference("rule", metric="accuracy") == found.difference("rule", "Chow's rule", "accuracy")
    share = found.estimate("rule", "coverage").value
    assert found.estimate("Chow's rule", "coverage").value == pytest.approx(share)
    assert "minus Chow's rule" in repr(found) and "by accuracy: " in repr(found)
    # two such rules have rivals of their own
    other = confmax.maximize("accuracy", P, y, abstain=True, constraints="coverage >= 0.5").rule
    both = confmax.score("accuracy", Q, z, rules={"a": solution.rule, "b": other}, n_replicates=0)
    assert {"Chow's rule (a)", "Chow's rule (b)"} < set(both.rules)
    assert [one.name for one in both.verdicts["b"].rivals] == ["Chow's rule (b)", "p/prior on as many rows (b)"]


def test_at_most_k_labels_compete_with_thresholds_of_their_own():
    rng = np.random.default_rng(0)
    P = rng.beta(1, 4, (800, 5))
    Y = (rng.random(P.shape) < P).astype(int)
    rule = confmax.maximize("macro_f1", P[:400], Y[:400], decisions=("at_most", 2)).rule
    found = confmax.score("hamming", P[400:], Y[400:], rule, n_replicates=99).verdicts["rule"]
    assert found.metric == "macro_f1"
    assert [one.name for one in found.rivals] == [
        "top-2", "top-2 of p > 0.5", "top-2 of p/prior", "top-2 of separate thresholds",
    ]  # fmt: skip
