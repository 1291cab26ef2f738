"""Tables of costs: positive, in the unit of the table, in every command and text; held by the rule and its file."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import confmax
from confmax import DecisionRule, metrics
from confmax.metrics.catalogue import metric_of
from tests.cli_helpers import run

CLASSES = ["ok", "fraud"]
COSTS = pd.DataFrame([[25.0, 0.0], [0.0, 400.0]], index=CLASSES, columns=["fraud", "ok"])
KINDS = {
    "square": (COSTS, {}),
    "a check": (COSTS.assign(check=6.0), {}),
    "abstaining": (COSTS.assign(check=6.0), {"abstain": "check"}),
    "within a limit": (COSTS, {"constraints": "rate[fraud] <= 0.02"}),
}


def rows(n, seed):
    draw = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-draw.normal(-4.2, 2.2, n)))
    frame = pd.DataFrame({"fraud": p, "ok": 1 - p})
    return frame, np.where(draw.random(n) < p, "fraud", "ok"), draw.uniform(0.5, 2.0, n)


P, Y, _ = rows(3000, 0)
Q, Z, WEIGHT = rows(2000, 1)


def paid(table, decided, truth=Z, weight=None):
    """The mean of what each decision costs, by the names of the table: an independent count."""
    return float(np.average([table.loc[true, name] for true, name in zip(truth, decided, strict=True)], weights=weight))


def argmax_of(frame):
    return np.array(frame.columns)[frame.to_numpy().argmax(axis=1)]


@pytest.fixture(scope="module", params=KINDS)
def tuned(request):
    table, settings = KINDS[request.param]
    solution = confmax.maximize(metrics.get("linear", cost=table), P, Y, **settings)
    # what a file holds is all that is known
    return table, solution, DecisionRule.from_json(solution.rule.to_json())


def test_the_rule_holds_its_table(tuned):
    table, solution, rule = tuned
    for one in (rule, rule.reordered(("ok", "fraud", *rule.class_names[2:]))):
        assert one.cost_table.of == "costs"
        held = pd.DataFrame(one.cost_table.rows, index=one.class_names[:2], columns=one.class_names)
        assert (held.loc[table.index, table.columns] == table).all(axis=None)
    assert rule == solution.rule != replace(rule, cost_table=None)
    gains = confmax.maximize(metrics.get("linear", gain=-COSTS), P, Y).rule
    assert DecisionRule.from_json(gains.to_json()).cost_table.of == "gains"


def test_costs_of_new_rows_are_counted(tuned):
    """By weights too; the values are minus the costs, the texts and documents the costs themselves."""
    table, _, rule = tuned
    for weight in (None, WEIGHT):
        found = confmax.score(metric_of(rule), Q, Z, rule, sample_weight=weight, n_replicates=200)
        told = found.to_dict()["metrics"]["linear"]
        for name, decided in (("rule", rule.predict(Q)), ("argmax", argmax_of(Q))):
            cost = paid(table, decided, weight=weight)
            assert found.estimate(name).value == pytest.approx(-cost)
            assert told[name]["value"] == pytest.approx(cost)
            assert told[name]["low"] < cost < told[name]["high"]
            assert f"  {cost:.4f}" in str(found) and "-" + f"{cost:.4f}" not in str(found).replace("minus", "")
        minus = told["rule"]["minus"]["argmax"]
        assert minus["value"] == pytest.approx(
            paid(table, rule.predict(Q), weight=weight) - paid(table, argmax_of(Q), weight=weight)
        )
        assert minus["low"] < minus["value"] < minus["high"]
        # cheaper is better
        assert (minus["better"] > 0.5) == (minus["value"] < 0)
    assert "cost of a row" in str(found) and "linear" not in str(found)


def test_solutions_say_the_cost(tuned):
    solution = tuned[1]
    assert solution.cost == -solution.value > 0
    said = str(solution)
    assert f"cost {solution.cost:.6g} a row" in said and f"{-solution.baselines['argmax']:.6g}" in said
    for text in (said, solution._repr_html_(), solution.guarantee):
        assert "linear" not in text and not re.search(r"[-−]\d", text.replace("-of-fold", ""))
    assert "costs less than" in said


@pytest.mark.parametrize("confusion", ["model", "labels"])
def test_the_bound_of_a_cost_is_from_below(confusion):
    solution = confmax.maximize(metrics.get("linear", cost=COSTS), P, Y, confusion=confusion, calibration=None)
    assert "higher" not in solution.guarantee and (confusion == "labels" or "lower cost" in solution.guarantee)


def test_d6_the_further_decision_is_said():
    """Between two probabilities for two classes; else in words, without scores and letters."""
    two = str(confmax.maximize(metrics.get("linear", cost=COSTS.assign(check=6.0)), P, Y).rule)
    assert "decides ok if p(ok) >=" in two and "fraud if p(ok) <" in two and "else check" in two
    R = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    table = pd.DataFrame(1 - np.eye(3), index=list("abc"), columns=list("abc")).assign(person=0.4, robot=0.3)
    metric = metrics.get("linear", cost=table + np.diag([0, 0.1, 0]) @ np.ones((3, 5)))
    rule = confmax.maximize(metric, R, classes=list("abc")).rule
    assert "p @ G" not in str(rule) and "table of costs (3 x 5)" in str(rule)
    assert "person, robot are no classes" in str(rule)


def test_d7_nothing_is_called_linear_or_negative(tuned, tmp_path):
    table, _, rule = tuned
    assert "for costs" in str(rule) and "linear" not in str(rule) + rule._repr_html_()
    frame = pd.DataFrame(Q).assign(truth=Z)
    frame.to_csv(tmp_path / "new.csv", index=False)
    rule.save(tmp_path / "rule.json")
    where = (tmp_path / "new.csv", "--label", "truth")
    more = ("--rule", tmp_path / "rule.json", "--replicates", "100")
    # the new rows miss the limit
    code = 3 if rule.constraints else 0
    shown, told = (
        run("score", *where, *more, code=code),
        json.loads(run("score", *where, *more, "--json", code=code)[0]),
    )
    values = {one["metric"]: one for one in told["values"]}["linear"]
    cost = paid(table, rule.predict(Q))
    assert values["unit"] == "cost of a row" and values["rule"] == pytest.approx(cost)
    assert values["argmax"] == pytest.approx(paid(table, argmax_of(Q)))
    assert f"{cost:.4f}" in shown[0] and f"-{cost:.4f}" not in shown[0]
    told = json.loads(run("compare", *where, *more, "--metric", "linear", "--json")[0])
    by_rule = {one["rule"]: one for one in told["rules"]}
    assert by_rule[str(tmp_path / "rule.json")]["values"]["linear"] == pytest.approx(cost)
    # the best rule is the cheapest
    least = min(one["values"]["linear"] for one in told["rules"])
    assert {by_rule[name]["values"]["linear"] for name in told["best"]["linear"]} == {least}
    told = json.loads(run("explain", tmp_path / "rule.json", "--json")[0])
    assert told["cost_table"] == {"of": "costs", "rows": [list(line) for line in rule.cost_table.rows]}


def test_tune_says_the_cost(tmp_path):
    P.assign(truth=Y).to_csv(tmp_path / "t.csv", index=False)
    COSTS.to_csv(tmp_path / "costs.csv")
    arguments = (
        "tune",
        tmp_path / "t.csv",
        "--label",
        "truth",
        "--costs",
        tmp_path / "costs.csv",
        "-o",
        tmp_path / "r",
    )
    told = json.loads(run(*arguments, "--json")[0])
    solution = confmax.maximize(metrics.get("linear", cost=COSTS), P, Y)
    assert told["unit"] == "cost of a row" and told["tuned"] == pytest.approx(solution.cost)
    assert told["argmax"] == pytest.approx(-solution.baselines["argmax"])
    assert told["tuned_on_labels"] == pytest.approx(paid(COSTS, solution.predict(P), Y))
    assert told["model_upper_bound"] <= told["model_value"]
    shown, _ = run(*arguments)
    assert "cost of a row on the tuning rows" in shown and not re.search(r"\s-\d", shown)


def test_each_rule_is_judged_by_its_own_table(tmp_path):
    P.assign(truth=Y).to_csv(tmp_path / "t.csv", index=False)
    for k in (1, 2):
        confmax.maximize(metrics.get("linear", cost=COSTS * k), P, Y).rule.save(tmp_path / f"{k}.json")
    given = (
        "compare",
        tmp_path / "t.csv",
        "--label",
        "truth",
        *(x for k in (1, 2) for x in ("--rule", tmp_path / f"{k}.json")),
    )
    said = run(*given, "--replicates", "0")[1]
    assert "tables of costs differ" in said and "no rule is tuned for one" in said
    told = json.loads(run(*given, "--replicates", "40", "--json")[0])
    for k in (1, 2):
        path = str(tmp_path / f"{k}.json")
        row = next(one for one in told["rules"] if one["rule"] == path)
        assert row["verdict"]["metric"] == f"linear of {path}" and path in told["units"][f"linear of {path}"]
        cost = paid(COSTS * k, confmax.DecisionRule.load(path).predict(P), Y)
        assert row["verdict"]["value"] == row["values"][f"linear of {path}"] == pytest.approx(cost)


@pytest.mark.parametrize("name", ["cost", "gain"])
def test_b6_a_table_beside_the_metric_is_refused_with_the_way_out(name):
    """A bare TypeError before."""
    table = {name: COSTS}
    for call in (
        lambda: confmax.maximize("linear", P, Y, **table),
        lambda: confmax.maximize(metric="linear", proba=P, y=Y, **table),
        lambda: confmax.frontier("linear", "rate[fraud] <=", P, Y, **table),
        lambda: confmax.score("linear", P, Y, **table),
    ):
        with pytest.raises(
            confmax.InputError, match=rf"{name} is a parameter.*pass metric=confmax.metrics.get\('linear', {name}="
        ):
            call()
    with pytest.raises(confmax.InputError, match=r"beta is a parameter.*get\('f_beta', beta="):
        confmax.maximize("f_beta", P, Y, beta=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'costs'"):
        confmax.maximize("linear", P, Y, costs=COSTS)


@pytest.mark.parametrize("table", [COSTS, COSTS.to_numpy(), COSTS.to_numpy().tolist()], ids=type)
def test_b6_a_table_in_the_place_of_the_metric_is_asked_for_its_kind(table):
    with pytest.raises(
        confmax.InputError, match=r"metric is a table.*costs or gains.*get\('linear', cost=table\).*gain="
    ):
        confmax.maximize(table, P, Y)
    with pytest.raises(ValueError, match="the metric comes first, then proba, then y"):
        confmax.maximize(P, Y, "linear")


def test_frontiers_say_the_cost():
    found = confmax.frontier(metrics.get("linear", cost=COSTS), "rate[fraud] <=", P, Y, levels=3)
    told = found.to_dict()
    assert told["unit"] == "cost of a row" and "linear" not in str(found)
    for point, value, rule in zip(told["points"], found.values, found.rules, strict=True):
        low, high = point["label_interval"]
        assert point["value"] == -value > 0 and point["upper_bound"] <= point["value"] + 1e-9
        assert low < point["label_value"] < high and point["label_value"] == pytest.approx(
            paid(COSTS, rule.predict(P), Y)
        )
    assert told["marks"]["argmax"][1] == pytest.approx(paid(COSTS, argmax_of(P), Y))
    for text in (str(found), found._repr_html_(), str(found.on(Q, Z, n_replicates=50))):
        assert "cost of a row" in text and not re.search(r"\s[-−]\d", text)


def test_the_page_says_the_cost(tuned, tmp_path):
    for package in ("jinja2", "vl_convert"):
        pytest.importorskip(package)
    table, _, rule = tuned
    confmax.report.write(tmp_path / "page.html", rule, Q, Z, n_replicates=99)
    page = re.sub(r"<(script|style|pre).*?</\1>", "", (tmp_path / "page.html").read_text(), flags=re.DOTALL)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    cost, of_argmax = (paid(table, decided) for decided in (rule.predict(Q), argmax_of(Q)))
    shown = [float(one) for one in re.search(r"cost of a row, tuned rule ([\d.]+) .*? argmax ([\d.]+) ", text).groups()]
    assert shown == pytest.approx([cost, of_argmax], abs=1e-3)
    assert "mean gain" not in text and "tuned for costs" in text
    if not rule.constraints:
        # cheaper is better, and the difference says by how much less is paid
        less = re.search(r"better than argmax: the difference \(tuned rule minus argmax\) of −([\d.]+) \[−", text)[1]
        assert float(less) == pytest.approx(of_argmax - cost, abs=1e-3)
