"""Every share of rows of the catalogue, new rows included: counts, limits by enumeration, confidence, abstaining."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.metrics import precision_score

import confmax
from confmax import constraints as c
from confmax.confusion import Confusion
from confmax.metrics import catalogue
from confmax.metrics.shares import ALL_ROWS, DECIDED, METRICS, RIGHT, TRUE, Share, ShareParts
from tests.helpers import all_deterministic_confusions, labels_from_counts
from tests.test_limits_on_labels import labelled

SHARES = [pytest.param(metric, id=metric.name) for metric in METRICS]


def counted(metric, true, decided):
    """Return the counts that a share is made of, from rows that are of its class and rows that are decided as it."""
    masks = {
        "right": true & decided,
        "decided": decided,
        "true": true,
        "others_decided": ~decided,
        "others_true": ~true,
        "all_rows": np.ones(len(true)),
    }
    of, hits, misses = (
        None if part is None else sum(getattr(part, name) * mask.sum() for name, mask in masks.items())
        for part in (metric.formula.of, metric.formula.hits, metric.formula.misses)
    )
    return (of - misses if hits is None else hits), of


def test_npv_is_the_precision_of_the_complement():
    rng = np.random.default_rng(0)
    for k in range(3):
        counts = rng.integers(0, 9, (3, 3))
        y, decided = labels_from_counts(counts)
        expected = precision_score(y != k, decided != k)
        assert confmax.metrics.get(f"npv[{k}]").value(counts) == pytest.approx(expected, abs=1e-15)
    assert confmax.metrics.get("npv").value([[0, 4], [0, 5]]) == 0.0


def test_npv_is_not_defined_where_rows_are_neither_decided_as_the_class_nor_as_another():
    cost = confmax.metrics.get("linear", cost=[[0, 1, 0.3], [1, 0, 0.3]])
    P = np.random.default_rng(1).dirichlet([1, 1], 100)
    with pytest.raises(ValueError, match=r"not defined for 3 decisions between 2 classes; pass abstain= if the last"):
        confmax.maximize(cost, P, constraints="npv[1] >= 0.85")
    with pytest.raises(ValueError, match=r"npv speaks of the rows that are decided as other classes"):
        confmax.metrics.get("npv[1]").value([[1, 10, 10], [0, 30, 10]])
    solution = confmax.maximize(cost, P, abstain=True, constraints="npv[1] >= 0.95", confusion="model", randomized=True)
    assert solution.constraints[0].slack >= -1e-12 and 0.0 <= solution.gap < 1e-3


@pytest.mark.parametrize("metric", SHARES)
def test_a_limit_is_a_share_of_its_own_rows(metric):
    """Values on the labels, and their exact intervals, are those of counts."""
    P, y = labelled()
    solution = confmax.maximize("accuracy", P, y, constraints=f"{metric.name}[1] >= 0.05", calibration=None)
    (outcome,) = solution.constraints
    met, of = counted(metric, y == 1, solution.predict(P) == 1)
    exact = binomtest(round(met), round(of)).proportion_ci(method="exact")
    assert outcome.label_rows == of and outcome.label_value == pytest.approx(met / of, abs=1e-12)
    assert outcome.label_interval == pytest.approx((exact.low, exact.high), abs=1e-12)


@pytest.mark.parametrize(("K", "sense"), [(2, "<="), (3, ">=")])
@pytest.mark.parametrize("metric", SHARES)
def test_limits_on_tiny_tables_are_those_of_enumeration(metric, K, sense):
    """No rule within the limit beats the bound; a single rule that is returned keeps the limit."""
    placed = catalogue.quantity(metric.name, label=K - 1).numbered(K)
    for seed in range(2):
        P = np.random.default_rng([seed, K]).dirichlet(np.ones(K), 6 if K == 2 else 5)
        every = Confusion.from_matrix(all_deterministic_confusions(P))
        values = placed.values(every)
        limit = float(np.quantile(values, 0.7 if sense == ">=" else 0.3)).__round__(3)
        one = c.parse(f"{metric.name}[{K - 1}] {sense} {limit}")
        kept = values >= limit if sense == ">=" else values <= limit
        best = every.diagonal.sum(-1)[kept].max()
        solution = confmax.maximize("accuracy", P, constraints=one, randomized=True, confusion="model")
        assert best - 1e-6 <= solution.value <= solution.upper_bound + 1e-12
        assert solution.gap <= 1e-6 and solution.constraints[0].slack >= -1e-12


@pytest.mark.parametrize("metric", SHARES)
def test_a_limit_where_rules_abstain(metric):
    """It speaks of the rows that are decided, or of all rows where the metric does."""
    P, y = labelled(300, 3)
    limits = [f"{metric.name}[1] >= 0.1", "coverage >= 0.7"]
    solution = confmax.maximize("accuracy", P, y, abstain=True, constraints=limits, calibration=None)
    decided = solution.predict(P)
    read = np.ones(len(y), dtype=bool) if metric.of_all_rows else decided != -1
    assert read.mean() >= 0.69 and (decided == -1).any()
    met, of = counted(metric, (y == 1)[read], (decided == 1)[read])
    assert solution.constraints[0].label_value == pytest.approx(met / of, abs=1e-12)


def test_the_floor_of_a_denominator_counts_the_rows_of_other_classes():
    """Every row may be decided as the class, also where the share reads no other class."""
    left = Share(of=ALL_ROWS - DECIDED, misses=TRUE - RIGHT)
    assert ShareParts(left)(np.array([0.3])).floor.tolist() == [0.0]


@pytest.mark.parametrize("metric", SHARES)
def test_a_limit_with_a_confidence(metric):
    """It is tested on rows, and a limit that nearly every rule keeps is assured."""
    P, y = labelled(200, 2)
    solution = confmax.maximize(
        "accuracy", P, y, constraints=f"{metric.name}[1] >= 0.01", calibration=None, confidence=0.9
    )
    (outcome,) = solution.constraints
    assert outcome.assured and outcome.label_rows > 0


@pytest.mark.parametrize("metric", SHARES)
def test_a_limit_on_the_command_line(metric, tmp_path):
    """The rule is tuned within the limit, and score reads it from the file of the rule."""
    from tests.cli_helpers import run

    P, y = labelled(200, 3)
    frame = pd.DataFrame(P, columns=list("abc")).assign(truth=np.array(list("abc"))[y])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    text = f"{metric.name}[b] >= 0.1"
    rule = tmp_path / "rule.json"
    arguments = (tmp_path / "rows.csv", "--label", "truth")
    run("tune", *arguments, "--metric", "accuracy", "--subject-to", text, "-o", rule)
    scored = json.loads(run("score", *arguments, "--rule", rule, "--replicates", "0", "--json")[0])
    (limit,) = scored["constraints"]
    decided = confmax.DecisionRule.load(rule).predict(frame[list("abc")])
    met, of = counted(metric, y == 1, decided == "b")
    assert limit["text"] == text and limit["value"] == pytest.approx(met / of, abs=1e-12)
