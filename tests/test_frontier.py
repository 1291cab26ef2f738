"""Frontiers: against programs over all rows, against `maximize` at every level, and on rows that tuned nothing."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

import confmax
from benchmarks import frontier as benchmark
from confmax import constraints as c
from confmax.frontiers.path import read_limit
from tests.cli_helpers import document, refusal, run
from tests.parts_helpers import cut, labelled

NAMES = ["VF", "F", "M", "L"]
MODEL = {"classes": NAMES, "confusion": "model", "calibration": None}


@pytest.fixture(scope="module")
def jobs():
    """Rows of the demo that tune, and those that do not: probabilities and labels."""
    frame = pd.read_csv(files("confmax") / "data" / "hpc_cv.csv")
    first = np.arange(len(frame)) % 2 == 0
    return [(rows[NAMES], rows["obs"]) for rows in (frame[first], frame[~first])]


def test_a_frontier_answers_what_its_curves_answer(jobs):
    """Values between two levels on the estimate, and the plain rules on the labels."""
    (P, y), _ = jobs
    found = confmax.frontier("accuracy", "rate[L] <=", P, y, levels=[0.01, 0.03, 0.05])
    assert found.marks == found.on_labels.marks and set(found.marks) == {"argmax", "p/prior"}
    assert [found.value_at(level) for level in found.levels] == pytest.approx(found.values.tolist(), abs=1e-12)
    assert found.value_at(0.02) == pytest.approx((found.value_at(0.01) + found.value_at(0.03)) / 2, abs=1e-12)
    with pytest.raises(ValueError, match=r"the curve lies between 0.01 and 0.05 of rate\[L\]; got 0.2"):
        found.value_at(0.2)
    assert confmax.frontier("accuracy", "rate[L] <=", P, levels=[0.01, 0.05], **MODEL).marks == {}


# --- the sentence -----------------------------------------------------------------------------------------------------


def test_what_a_precision_costs_in_recall(jobs):
    """Default settings, rows that did not tune: the curve of new rows lies near, above argmax and p/prior."""
    (P, y), (Q, z) = jobs
    found = confmax.frontier("recall[VF]", "precision[VF] >= 0.9", P, y, levels=12)
    assert found.asked == 0.9 and 0.9 in found.levels and (np.diff(found.values) <= 0.0).all()
    new = found.on(Q, z)
    reached = np.isfinite(new.reached)
    # a precision of few rows varies much
    many = np.array([(rule.predict(Q) == "VF").sum() for rule in found.rules]) >= 100
    assert np.abs(new.reached - found.levels)[reached & many].max() < 0.06
    for precision, recall in new.marks.values():
        # the precision of the new rows has an error of .01, which moves the recall by .03
        assert new.value_at(precision) >= recall - 0.05
    # the rule of the asked limit is that of maximize, which decides the other classes, too
    rule = found.at(0.9)
    alone = confmax.maximize("recall[VF]", P, y, constraints="precision[VF] >= 0.9")
    assert rule.value == pytest.approx(alone.value, abs=1e-3)
    assert set(rule.predict(Q)) == set(NAMES) and (rule.predict(Q) == z).mean() > 0.6
    text = str(found)
    assert "recall[VF]" in text and "precision[VF] >=" in text and "on the labels" in text


@pytest.mark.parametrize(
    ("metric", "limit", "more"),
    [
        ("macro_f1", "rate[M] + rate[L] <=", {}),
        ("accuracy", "min_recall >=", {}),
        ("accuracy", "coverage >=", {"abstain": True, "levels": [0.6, 0.8, 1.0]}),
        ("accuracy", "difference(rate[L] | group) <=", {"group": np.arange(1734) % 2, "levels": 4}),
    ],
)
def test_every_level_is_that_of_maximize(jobs, metric, limit, more):
    """On the model: values within the tolerance, bounds above them, a rule that keeps the level."""
    P, _ = jobs[0]
    found = confmax.frontier(metric, limit, P, **MODEL, **{"levels": 5, "tol": 1e-5, **more})
    assert len(found.levels) == len(found.solutions) > 1
    assert (found.upper_bounds >= found.values - 1e-12).all() and (np.diff(found.values) <= 0.0).all()
    settings = {key: value for key, value in more.items() if key != "levels"}
    for level, solution in list(zip(found.levels, found.solutions, strict=True))[1::2]:
        alone = confmax.maximize(metric, P, constraints=f"{limit} {float(level)!r}", **MODEL, **settings)
        assert solution.value == pytest.approx(alone.value, abs=1.2e-3)
        assert solution.upper_bound >= alone.value - 1e-9
        assert solution.constraints[-1].slack >= -1e-9
        rule = confmax.DecisionRule.from_json(solution.rule.to_json())
        assert rule == solution.rule


@pytest.mark.parametrize("seed", range(6))
def test_tiny_populations_against_programs(seed):
    """No value above that of a program at its level, no bound below, none far; monotone, and concave where it must."""
    assert benchmark.verdict(seed) == ("right", 0.0) or benchmark.verdict(seed)[0].startswith("refused")


def test_labels_and_other_rows(jobs):
    """What the rules are worth on labels is what `score` says, with intervals around it."""
    (P, y), (Q, z) = jobs
    found = confmax.frontier("macro_f1", "rate[L] <=", P, y, levels=[0.02, 0.04, 0.06])
    for curve, rows in ((found.on_labels, (P, y)), (found.on(Q, z, n_replicates=50), (Q, z))):
        for k, rule in enumerate(found.rules):
            result = confmax.score(["macro_f1", c.rate("L").metric], *rows, rule, n_replicates=0)
            assert curve.values[k] == pytest.approx(result.estimate("rule", "macro_f1").value)
            assert curve.reached[k] == pytest.approx(rule.decision_probabilities(rows[0])[:, 3].mean())
        assert (curve.intervals[:, 0] <= curve.values).all() and (curve.values <= curve.intervals[:, 1]).all()
        argmax = P.columns[rows[0].to_numpy().argmax(axis=1)]
        assert curve.marks["argmax"][0] == pytest.approx((argmax == "L").mean())
    assert found.area() == pytest.approx(np.mean((found.values[1:] + found.values[:-1]) / 2))
    plain = found.to_dict()
    assert [point["level"] for point in plain["points"]] == [0.06, 0.04, 0.02] and plain["limit"] == "rate[L] <="


def test_a_coverage_has_chows_rule_beside_it(jobs):
    (P, y), (Q, z) = jobs
    found = confmax.frontier("accuracy", "coverage >=", P, y, levels=[0.5, 0.75, 1.0], abstain="ask")
    curve = found.on(Q, z)
    assert found.rules[-1].abstain is None and found.reached[-1] == 1.0
    assert curve.chow.reached.tolist() == [0.5, 0.75, 1.0] and (np.diff(curve.chow.values) < 0.0).all()
    assert abs(curve.area(0.75, 1.0) - curve.chow.area(0.75, 1.0)) < 0.03


def test_a_further_limit_is_kept_at_every_level(jobs):
    P, _ = jobs[0]
    free = confmax.frontier("accuracy", "recall[L] >=", P, **MODEL, levels=[0.5, 0.7])
    within = confmax.frontier(
        "accuracy", "recall[L] >=", P, **MODEL, levels=[0.5, 0.7, 0.99], constraints="rate[L] <= 0.1"
    )
    assert within.levels.tolist() == [0.5, 0.7] and (within.values <= free.values + 1e-9).all()
    assert all(one.constraints[0].value <= 0.1 + 1e-9 for one in within.solutions)
    with pytest.raises(ValueError, match=r"the tightest level is 0\.7"):
        within.at(0.8)
    assert within.at(0.6) is within.solutions[1]


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "text", "asked"),
    [
        ("precision[L] >=", "precision[L] >= 0", None),
        ("precision[L]", "precision[L] >= 0", None),
        ("fpr[L]", "fpr[L] <= 1", None),
        ("rate[L] <= 0.1", "rate[L] <= 1", 0.1),
        ("coverage", "coverage >= 0", None),
        ("rate[not L] ≤", "rate[not L] <= 1", None),
        (c.precision("L"), "precision[L] >= 0", None),
        (c.rate("L") <= 0.2, "rate[L] <= 1", 0.2),
        ("min(recall[L] | group)", "min(recall[L] | group) >= 0", None),
    ],
)
def test_limits_without_a_number(limit, text, asked):
    found, number = read_limit(limit)
    assert found.text == text and number == asked


@pytest.mark.parametrize(
    ("limit", "settings", "sentence"),
    [
        ("rate[L]", {}, "the frontier of 'rate[L]' has no direction; write 'rate[L] <=', or >="),
        ("difference(rate[L] | group)", {}, "has no direction"),
        ("precision[L] >=", {"levels": 1}, "a frontier has 2 to 10,000 levels; got 1"),
        ("precision[L] >=", {"levels": [0.5]}, "got 1; for one level call maximize"),
        ("precision[L] >=", {"levels": [0.5, np.nan]}, "which are finite numbers"),
        ("precision[L] >=", {"levels": "many"}, "levels is how many, or the numbers of the limit; got 'many'"),
        ("precision[L] >=", {"confidence": 0.9}, "choose a level, and pass confidence= to maximize"),
        ("mcc >=", {}, "mcc is neither linear nor a ratio"),
        (3, {}, "a limit is a text such as 'precision[yes] >=', or a quantity; got int"),
        ("precision[x] >=", {}, "names a class that the table does not have"),
    ],
)
def test_bad_input_is_refused(jobs, limit, settings, sentence):
    P, y = jobs[0]
    with pytest.raises(ValueError) as caught:
        confmax.frontier("recall[L]", limit, P, y, **settings)
    assert sentence in str(caught.value)


def test_quantities_that_move_alike_and_metrics_without_a_certificate(jobs):
    P, y = jobs[0]
    with pytest.raises(ValueError, match=r"has the best accuracy already .* take quantities that pull apart"):
        confmax.frontier("accuracy", "accuracy >=", P, **MODEL)
    with pytest.raises(ValueError, match="cannot be maximised under constraints"):
        confmax.frontier("mcc", "rate[L] <=", P, **MODEL)
    found = confmax.frontier("macro_f1", "rate[L] <=", P, y, levels=3, confusion="labels", calibration=None)
    assert np.isnan(found.upper_bounds).all() and "at most" not in str(found)


def test_ends_of_the_levels():
    """Of a table of costs, of ceilings beside further limits, and of a limit that 0/0 keeps."""
    p = np.linspace(0.05, 0.95, 20)
    P = np.column_stack([1 - p, p])
    cost = c.cost([[0, 1], [5, 0]])
    found = confmax.frontier("recall[0]", cost <= 0.45, P, levels=5, confusion="model")
    assert found.limit.sense == "<=" and found.levels[0] > 0.45 in found.levels
    with pytest.raises(
        ValueError, match=r"the frontier of 'cost' has no direction; pass a limit, such as cost\(table\)"
    ):
        confmax.frontier("recall[0]", cost, P, levels=3, confusion="model")
    within = confmax.frontier("accuracy", "rate[1] <=", P, levels=10, constraints="recall[1] >= .6", confusion="model")
    assert len(within.levels) == 10
    three = np.column_stack([p * 0.8, (1 - p) * 0.8, np.full(20, 0.2)])
    vacuous = confmax.frontier("recall[1]", "precision[0] >=", three, levels=[0.1, 0.9], confusion="model")
    assert np.isnan(vacuous.reached[1]) and vacuous.to_dict()["points"][1]["reached"] is None


def test_rows_that_cannot_judge_and_limits_out_of_reach(jobs):
    P, y = jobs[0]
    found = confmax.frontier("recall[L]", "precision[L] >=", P, y, levels=[0.4, 0.5])
    with pytest.raises(ValueError, match=r"these rows cannot judge precision\[L\]"):
        found.on(P[y == "F"], y[y == "F"])
    limits = ["recall[L] >= 0.99", "rate[L] <= 0.01"]
    with pytest.raises(confmax.Infeasible) as caught:
        confmax.frontier("accuracy", "rate[M] <=", P, levels=3, constraints=limits, **MODEL)
    assert "rate[M]" not in str(caught.value) and str(caught.value).endswith("loosen the further limits")
    with pytest.raises(confmax.Infeasible, match="take looser levels"):
        confmax.frontier("accuracy", "precision[L] >=", P, levels=[0.999, 0.9999], constraints="rate[L] >= .1", **MODEL)
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        confmax.frontier("accuracy", "rate[M] <=", P, foo=1)


def test_deciding_all_rows_may_be_as_good_as_leaving_some():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 0.5], 400)
    y = np.array([rng.choice(3, p=p) for p in P])
    found = confmax.frontier("precision[0]", "coverage >=", P, y, levels=[0.5, 1.0], abstain=True, classes=range(3))
    assert found.on_labels is not None and found.reached[-1] == 1.0


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("inside")
def test_the_command(jobs):
    P, y = jobs[0]
    P.assign(obs=y).to_csv("jobs.csv", index=False)
    over = ("--label", "obs", "--classes", "VF,F,M,L", "--metric", "recall[L]", "--over")
    printed = run("frontier", "jobs.csv", *over, "precision[L] >= 0.5", "--levels", "5", "--confusion", "model")[0]
    assert "the best recall[L] at 6 levels of precision[L] >=, expected from the probabilities" in printed
    assert "argmax, on the labels" in printed and "0.5000" in printed
    found = document("frontier", "jobs.csv", *over, "precision[L] >=", "--levels", "0.3,0.5")
    assert [point["level"] for point in found["points"]] == [0.3, 0.5]
    for given, sentence in (
        (("rate[L]",), "has no direction"),
        (("rate[L] <=", "--levels", "x"), "'x' is neither a number of levels nor levels such as 0.7,0.8,0.9"),
        (("rate[L] <=", "--plot", "f.xyz"), "f.xyz has no ending of a picture; name it .png, .svg, .pdf"),
    ):
        assert sentence in refusal("frontier", "jobs.csv", *over, *given)
    many = run("frontier", "jobs.csv", *over, "precision[L] >=", "--levels", "30", "--confusion", "model")[0]
    assert "12 of 30 levels are shown; --json prints all." in many
    limits = ("rate[L] <=", "--levels", "0.1,0.2", "--subject-to", "rate[L] >= 0.5")
    assert "take looser levels, or loosen the further limits" in run("frontier", "jobs.csv", *over, *limits, code=3)[1]


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(("ending", "first"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_the_picture(jobs, ending, first):
    pytest.importorskip("matplotlib")
    P, y = jobs[0]
    P.assign(obs=y).to_csv("jobs.csv", index=False)
    given = ("--label", "obs", "--metric", "recall[L]", "--over", "rate[L] <=", "--levels", "2", "--confusion", "model")
    printed = run("frontier", "jobs.csv", *given, "--plot", f"f{ending}")[0]
    assert f"Picture written to f{ending}." in printed
    assert Path(f"f{ending}").read_bytes().startswith(first)


@pytest.mark.filterwarnings("ignore:the rule never decides:UserWarning")
@pytest.mark.parametrize("K", [2, 3])
def test_few_levels_on_labels_are_searched_like_single_calls(K):
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(K), 50)
    y = np.array([rng.choice(K, p=row) for row in P])
    settings = {"confusion": "labels", "calibration": None}
    metric, limit = ("accuracy", "npv[1] >=") if K == 3 else ("recall[0]", "rate[1] >=")
    found = confmax.frontier(metric, limit, P, y, levels=3, **settings)
    for level, value in zip(found.levels, found.values, strict=True):
        alone = confmax.maximize(
            metric, P, y, constraints=f"{limit} {float(level)!r}", on_infeasible="closest", **settings
        )
        assert not alone.feasible or value >= alone.value - 0.01


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("weighted", [False, True])
def test_rules_are_judged_on_the_labels_of_rows_in_parts(weighted):
    P, y, weight = labelled(3000, 3, sharp=0.8)
    weight = weight if weighted else None
    there = confmax.frontier("macro_f1", "recall[0] >=", cut(P, y, weight, at=(100, 1500)), levels=[0.6, 0.9])
    on = there.on(P, y, sample_weight=weight)
    for name in ("values", "reached", "intervals", "reached_intervals"):
        np.testing.assert_allclose(getattr(there.on_labels, name), getattr(on, name), atol=1e-12)
    assert there.marks.keys() == {"argmax", "p/prior"}
    assert on.values[0] == pytest.approx(f1_score(y, there.rules[0].predict(P), average="macro", sample_weight=weight))


@pytest.mark.usefixtures("small_samples")
def test_a_frontier_of_coverage_in_parts_has_no_curve_of_chow():
    P, y, _ = labelled(3000, 3, sharp=0.8)
    how = {"levels": [0.5, 0.8], "abstain": True}
    here = confmax.frontier("accuracy", "coverage >=", P, y, **how)
    there = confmax.frontier("accuracy", "coverage >=", cut(P, y, at=(100, 1500)), **how)
    assert here.on_labels.chow is not None and there.on_labels.chow is None
    np.testing.assert_allclose(there.on_labels.values, there.on(P, y).values, atol=1e-12)
