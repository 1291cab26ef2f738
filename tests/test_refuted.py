"""Limits and bounds that the labels of the tuning rows refute: nothing calls them kept or proved."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

import confmax
from confmax.constraints.across import Difference, Limit
from confmax.constraints.proportions import refutes
from confmax.optimize.given import GivenRule
from confmax.page.sections import certificate, summary
from tests.cli_helpers import document, run

GIVEN = {"confusion": "model", "calibration": None}


def two_classes(n, seed=0):
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-1.2 * rng.normal(size=n)))
    return np.c_[1 - p, p], (rng.random(n) < p).astype(int), rng


def groups(n=1200, seed=7):
    """Return rows of three groups, in the last of which nothing is positive, whatever the model says."""
    P, y, rng = two_classes(n, seed)
    g = rng.choice(["a", "b", "c"], n)
    y[g == "c"] = 0
    return P, y, g


@pytest.mark.parametrize("is_floor", [True, False])
@pytest.mark.parametrize("limit", [0.05, 0.6, 0.95])
def test_the_exact_test_is_that_of_scipy(is_floor, limit):
    for n in (1, 7, 40):
        side = "less" if is_floor else "greater"
        wanted = [stats.binomtest(k, n, limit, alternative=side).pvalue < 0.05 for k in range(n + 1)]
        assert [refutes(k / n, n, limit, is_floor=is_floor) for k in range(n + 1)] == wanted


def test_the_ends_of_the_test():
    assert not refutes(1.0, 50, 1.0, is_floor=True) and refutes(0.98, 50, 1.0, is_floor=True)
    assert not refutes(0.0, 50, 0.0, is_floor=False) and refutes(0.02, 50, 0.0, is_floor=False)
    # no row refutes anything
    assert not refutes(0.0, 0, 0.9, is_floor=True)


def test_a_group_that_its_labels_refute():
    P, y, g = groups()
    given = {"constraints": "min(precision[1] | group) >= 0.6", "group": g, "confusion": "model"}
    with pytest.warns(UserWarning, match=r"labels refute min\(precision\[1\] \| group\) >= 0.6 .*confusion='labels'"):
        solution = confmax.maximize("accuracy", P, y, **given)
    (outcome,) = solution.constraints
    decided = solution.predict(P, group=g) == 1
    rows = {name: (int((decided & (y == 1) & (g == name)).sum()), int((decided & (g == name)).sum())) for name in "abc"}
    assert [stats.binom.cdf(*rows[name], 0.6) < 0.05 for name in "abc"] == [False, False, True]
    assert outcome.refuted_by == (f"precision[1 | c] is {rows['c'][0]} of {rows['c'][1]} rows",)
    assert outcome.slack >= 0 and outcome.kept_on_estimate and not outcome.kept
    assert solution.feasible_on_estimate and not solution.feasible and solution.infeasibility is None
    assert outcome.refuted_by[0] in solution.guarantee and "confidence=0.9" in solution.guarantee
    for text in (solution.guarantee, repr(solution), solution._repr_html_()):
        assert "no rule" not in text and "precision[1 | c] is" in text
    assert "no guarantee" in repr(solution)


def test_a_difference_that_labels_refute():
    P, y, rng = two_classes(1500)
    g = rng.choice(["a", "b", "c"], 1500)
    y = np.where(g == "b", rng.integers(2, size=1500), y)
    with pytest.warns(UserWarning, match="labels refute"):
        found = confmax.maximize("accuracy", P, y, constraints="difference(accuracy | group) <= 0.05", group=g, **GIVEN)
    (outcome,) = found.constraints
    right = found.predict(P, group=g) == y
    share = {name: right[g == name].mean() for name in "abc"}
    ends = {name: stats.binomtest(int(right[g == name].sum()), int((g == name).sum())) for name in "abc"}
    ends = {name: end.proportion_ci(0.9) for name, end in ends.items()}
    apart = set()
    for one, other in itertools.permutations("abc", 2):
        room = np.hypot(share[one] - ends[one].low, ends[other].high - share[other])
        apart |= {one, other} if share[one] - share[other] - room > 0.05 else set()
    assert {text[text.index("]") - 1] for text in outcome.refuted_by} == apart != set()
    # bounds that lie further apart than the limit refute it the more
    assert ends["a"].low - ends["b"].high > 0.05 and {"a", "b"} <= apart


@pytest.mark.parametrize("number", [0.0, 0.1])
def test_pairs_are_refuted_as_often_as_the_test_says(number):
    """Of two proportions that differ by the limit itself, at most one sample of 20 refutes it, and not far fewer."""
    first, n = 0.5, (40, 60)
    chances = [
        stats.binom.pmf(np.arange(size + 1), size, p) for size, p in zip(n, (first, first - number), strict=True)
    ]
    limit = Limit(number, is_floor=False)
    refuted = [
        [a / 40 > b / 60 and bool(Difference().refuted(limit, [a / 40, b / 60], n)) for b in range(61)]
        for a in range(41)
    ]
    assert 0.02 < np.outer(*chances)[np.array(refuted)].sum() < 0.05


def test_a_class_refutes_a_floor_on_the_smallest_recall():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([2.0, 2.0, 2.0], 600)
    y = (rng.random((600, 1)) > P.cumsum(axis=1)[:, :2]).sum(axis=1)
    y[rng.random(600) < 0.15] = 2
    names = np.array(["x", "y", "z"])
    with pytest.warns(UserWarning, match=r"labels refute min_recall >= 0.5 .*recall\[z\] is"):
        found = confmax.maximize("accuracy", P, names[y], constraints="min_recall >= 0.5", randomized=False, **GIVEN)
    right = [int((found.predict(P)[y == k] == names[k]).sum()) for k in range(3)]
    refuted = [stats.binom.cdf(right[k], (y == k).sum(), 0.5) < 0.05 for k in range(3)]
    assert refuted == [False, False, True]
    assert found.constraints[0].refuted_by == (f"recall[z] is {right[2]} of {(y == 2).sum()} rows",)


def test_weights_that_differ_and_other_quantities_are_not_tested():
    P, y, g = groups()
    given = {"constraints": "min(precision[1] | group) >= 0.6", "group": g}
    weighted = confmax.maximize("accuracy", P, y, sample_weight=1.0 + (np.arange(len(y)) % 2), **given)
    assert weighted.feasible and not weighted.constraints[0].refuted_by
    f1 = confmax.maximize("accuracy", P, y, constraints="min(f1[1] | group) >= 0.3", group=g, **GIVEN)
    assert f1.constraints[0].by_group[2].label_value == 0.0 and f1.feasible


def test_labels_per_row_that_refute_a_limit():
    rng = np.random.default_rng(0)
    P = rng.random((300, 2))
    Y = (rng.random((300, 2)) < P * [1.0, 0.2]).astype(int)
    given = {"decisions": "any", "classes": ["sea", "sun"], "constraints": "precision[sun] >= 0.7"}
    with pytest.warns(UserWarning, match=r"labels refute precision\[sun\] >= 0.7 .*stricter limit") as told:
        found = confmax.maximize("macro_f1", P, Y, **given, **GIVEN)
    decided = found.predict(P)[:, 1] == 1
    hits = int(Y[decided, 1].sum())
    assert stats.binom.cdf(hits, decided.sum(), 0.7) < 0.05
    assert found.constraints[0].refuted_by == (f"precision[sun] is {hits} of {decided.sum()} rows",)
    # rules of several labels know no confidence
    assert not found.feasible and "confidence" not in str(told[0].message)
    assert "proved" not in found.guarantee and "refuted by the labels" in repr(found)


def test_out_of_fold_labels_refute():
    """The groups look alike to the model, and the last one has no positive row."""
    P, y, g = groups(900)
    X = np.log(P[:, 1:] / P[:, :1])
    given = {"metric": "accuracy", "constraints": "min(precision[1] | group) >= 0.6", "fold_rules": False, "cv": 3}
    given["confusion"] = "model"
    with pytest.warns(UserWarning, match=r"labels refute .*precision\[1 \| c\] is 0 of"):
        model = confmax.MetricClassifierCV(LogisticRegression(), **given).fit(X, y, group=g)
    assert model.solution_.feasible_on_estimate and not model.solution_.feasible


def test_rows_in_parts_refute_as_those_in_memory(tmp_path):
    P, y, _ = two_classes(400)
    y[(P[:, 1] > 0.7) & (np.arange(400) % 2 == 0)] = 0
    frame = pd.DataFrame({"0": P[:, 0], "1": P[:, 1], "y": y.astype(str)})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    given = {**GIVEN, "constraints": "precision[1] >= 0.6"}
    table = confmax.open_table(str(tmp_path / "t.parquet"), columns=["0", "1"], label="y")
    with pytest.warns(UserWarning, match="labels refute"):
        parts, memory = (confmax.maximize("accuracy", *rows, **given) for rows in ([table], [P, y.astype(str)]))
    assert parts.constraints[0].refuted_by == memory.constraints[0].refuted_by != ()
    assert not parts.feasible


def test_a_page_says_it():
    P, y, g = groups(600)
    limit = "min(precision[1] | group) >= 0.6"
    with pytest.warns(UserWarning, match="labels refute"):
        limited = confmax.maximize("accuracy", P, y, constraints=limit, group=g, confusion="model")
    limits = SimpleNamespace(rows=(limited.constraints,), absent=(), reached=True)
    figures = SimpleNamespace(limits=limits, evidence=SimpleNamespace(solution=limited))
    said = f"({limited.constraints[0].value:.4g} on the estimate that tuned the rule, but precision[1 | c]"
    assert said in summary(figures) and said in certificate(figures) and "no rule" not in certificate(figures)


@pytest.mark.usefixtures("inside")
def test_the_command_says_it_and_ends_with_3():
    P, y, g = groups(600)
    pd.DataFrame({"0": P[:, 0], "1": P[:, 1], "y": y, "g": g}).to_csv("t.csv", index=False)
    command = ("tune", "t.csv", "--label", "y", "--group", "g", "--metric", "accuracy", "--columns", "0,1")
    command = (*command, "--confusion", "model", "--subject-to", "min(precision[1] | group) >= 0.6")
    shown, warned = run(*command, "-o", "r.json", code=3)
    assert "refuted" in shown and "--confusion labels" in warned and "precision[1 | c]" in warned
    assert confmax.DecisionRule.load("r.json").groups == ("a", "b", "c")
    found = document(*command, code=3)
    assert found["constraints"][0]["kept"] is False and "precision[1 | c]" in found["constraints"][0]["refuted_by"][0]
    kept = document(*command[:-1], "min(accuracy | group) >= 0.1")["constraints"][0]
    assert kept["kept"] is True and kept["refuted_by"] == []


# --- the bound of the model ------------------------------------------------------------------------------------------


def squeezed(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 6, n)
    q = 1 / (1 + np.exp(-(0.6 * np.log(p / (1 - p)) - 0.8)))
    return np.c_[1 - q, q], (rng.random(n) < p).astype(int), p


@pytest.mark.parametrize("metric", ["recall[1]", "f1[1]"])
def test_a_bound_that_labels_refute_is_not_said(metric):
    P, y, p = squeezed()
    given = {"constraints": "rate[1] <= 0.05", "calibration": None}
    solution = confmax.maximize(metric, P, y, **given)
    decided = solution.predict(P) == 1
    hits, bound = int(y[decided].sum()), solution.model_upper_bound
    if metric == "recall[1]":
        assert stats.binom.sf(hits - 1, y.sum(), bound) < 0.05
    value = hits / y.sum() if metric == "recall[1]" else 2 * hits / (y.sum() + decided.sum())
    assert value > bound
    assert "the labels say more than the model allows" in solution.guarantee and f"{value:.4g}" in solution.guarantee
    for text in (solution.guarantee, repr(solution), solution._repr_html_()):
        assert "exceeds" not in text and f"{bound:.4g}" not in text
    # of the true probabilities it is said
    right = confmax.maximize(metric, np.c_[1 - p, p], y, **given)
    assert "no rule that keeps the constraints exceeds" in right.guarantee


def test_few_labels_refute_no_bound():
    """Four rows that are all right, of a model that says .8: the value is one, and says next to nothing."""
    P = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8]])
    found = confmax.maximize("f1[1]", P, [0, 0, 1, 1], **GIVEN)
    assert found.label_value == 1.0 > found.model_upper_bound and "proved" in found.guarantee


# --- what else is said ------------------------------------------------------------------------------------------------


def test_no_label_was_used():
    P, y, _ = two_classes(60)
    Q = np.random.default_rng(0).random((60, 2))
    told = "no label was used"
    assert told in confmax.maximize("macro_f1", P).guarantee
    assert told in confmax.maximize("macro_f1", Q, decisions="any").guarantee
    assert told not in confmax.maximize("macro_f1", P, y, **GIVEN).guarantee
    assert told not in confmax.maximize("macro_f1", P, y).adapt(P, priors=[0.3, 0.7]).guarantee


def test_a_limit_with_slack_has_no_price():
    """Ten distinct probabilities: the best single threshold keeps a ceiling by many rows, the best draw just does."""
    p = np.repeat(np.arange(1, 11) / 11, 40)
    given = {"constraints": "rate[1] <= 0.35", "confusion": "model", "calibration": None}
    single = confmax.maximize("f1[1]", np.c_[1 - p, p], randomized=False, **given).constraints[0]
    assert single.slack == pytest.approx(0.05) and single.price == 0.0 and not single.binding
    # loosened by less than the next step, it allows the same rules
    loosened = {**given, "constraints": "rate[1] <= 0.39"}
    values = [confmax.maximize("f1[1]", np.c_[1 - p, p], randomized=False, **each).value for each in (given, loosened)]
    assert values[0] == pytest.approx(values[1], abs=1e-12)
    drawn = confmax.maximize("f1[1]", np.c_[1 - p, p], randomized=True, **given).constraints[0]
    assert drawn.slack == pytest.approx(0.0, abs=1e-6) and drawn.binding


def test_standard_errors_are_those_of_new_samples():
    """Of tables drawn from the same law, the value of one rule varies as much as its standard error says."""
    rule = confmax.DecisionRule.from_weights([1.0, 2.0])
    values, errors = [], []
    for seed in range(60):
        P, y, _ = two_classes(300, seed)
        decided = rule.predict(P)
        values.append(f1_score(y, decided))
        found = confmax.maximize("f1[1]", P, y, solver=GivenRule(rule.gains), randomized=False, **GIVEN)
        assert found.label_value == pytest.approx(values[-1])
        errors.append(found.label_error)
    assert np.std(values) == pytest.approx(np.mean(errors), rel=0.3)


def test_a_bound_that_several_labels_refute_is_not_said():
    rng = np.random.default_rng(0)
    L = rng.random((400, 3))
    sure = (rng.random((400, 3)) < L).astype(int)
    plain = {"decisions": ("at_most", 2), **GIVEN}
    right = confmax.maximize("macro_f1", L, sure, **plain)
    assert "proved" in right.guarantee
    # the labels are one where the probability is above a half, which the model only guesses
    found = confmax.maximize("macro_f1", L, (L > 0.5).astype(int), **plain)
    assert found.label_value > found.model_upper_bound + 2 * found.label_error > found.model_upper_bound
    assert "the labels say more than the model allows: macro_f1 is" in found.guarantee
