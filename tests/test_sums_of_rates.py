"""Limits on sums of rates: texts and objects, where they are placed, and the best rules within them."""

from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

import confmax
from confmax import constraints as c
from confmax.confusion import Confusion, Layout
from confmax.metrics.rates import sum_of_rates
from confmax.metrics.views import view
from confmax.oracle import make_table

NAMES = ["VF", "F", "M", "L"]


@pytest.fixture(scope="module")
def jobs():
    """Rows of the demo that tune, and those that do not: probabilities and labels."""
    frame = pd.read_csv(files("confmax") / "data" / "hpc_cv.csv")
    first = np.arange(len(frame)) % 2 == 0
    return [(rows[NAMES].to_numpy(), rows["obs"].to_numpy()) for rows in (frame[first], frame[~first])]


def bound(texts, names=NAMES, **settings):
    P = np.random.default_rng(0).dirichlet(np.ones(len(names)), 40)
    return c.bind(texts, make_table(P, classes=names), explicit=True, **settings)


def refusal(call, *args, **settings):
    with pytest.raises(ValueError) as caught:
        call(*args, **settings)
    return str(caught.value)


# --- texts and objects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical", "made"),
    [
        ("rate[VF]+rate[F]<=10 %", "rate[VF] + rate[F] <= 0.1", c.rate("VF") + c.rate("F") <= 0.1),
        ("0.3 >= 2*rate[VF] + rate[F]", "2 rate[VF] + rate[F] <= 0.3", 2 * c.rate("VF") + c.rate("F") <= 0.3),
        ("rate[a] - .5rate[b] >= 0", "rate[a] - 0.5 rate[b] >= 0", c.rate("a") - c.rate("b") * 0.5 >= 0),
        ("-rate[a] >= -.1", "-rate[a] >= -0.1", -c.rate("a") >= -0.1),
        ("rate[not normal] <= .1", "rate[not normal] <= 0.1", c.rate("not normal") <= 0.1),
        ("rate[a or b] <= .1", "rate[a or b] <= 0.1", c.rate("a or b") <= 0.1),
        ("rate[1] + rate[2] <= .5", "rate[1] + rate[2] <= 0.5", sum([c.rate(1), c.rate(2)]) <= 0.5),
        (
            "min(rate[a] + rate[b] | group) >= .2",
            "min(rate[a] + rate[b] | group) >= 0.2",
            (c.rate("a") + c.rate("b")).per_group() >= 0.2,
        ),
        (
            "rate[a|x] + 2 rate[b|x] >= rate[a|y] + 2 rate[b|y] - 2 %",
            "rate[a | x] + 2 rate[b | x] >= rate[a | y] + 2 rate[b | y] - 0.02",
            (c.rate("a") + 2 * c.rate("b")).difference("x", "y") >= -0.02,
        ),
    ],
)
def test_texts_and_objects_are_the_same(text, canonical, made):
    read = c.parse(text)
    assert read.text == canonical and read == made and c.parse(canonical) == read


def test_what_cannot_be_added_is_refused():
    assert refusal(c.parse, "rate[a] + rate[a] <= .1") == "rate[a] stands twice in a sum; name a class once"
    for weight in ("0", "1e300"):
        assert "the weight of rate[a] in a sum has a size from 1e-06 to 1e+06" in refusal(
            c.parse, f"{weight} rate[a] + rate[b] <= .1"
        )
    for text in ("ratio(-rate[a] | group) >= .8", "ratio(rate[a] - rate[b] | group) >= .8"):
        assert "may be negative, and a ratio compares numbers that are not" in refusal(c.parse, text)
    assert "the weight of rate[a]" in refusal(lambda: float("inf") * c.rate("a"))
    assert refusal(c.parse, "rate[a] + rate[b] <= 2.5").startswith(
        "rate[a] + rate[b] <= 2.5: rate[a] + rate[b] lies between 0 and 2, and 2.5 does not"
    )
    assert "every row has one class, so the sum lies between 0 and 1" in refusal(bound, "rate[a] + rate[b] <= 1.5")
    assert refusal(lambda: c.rate("a") + c.recall("b")) == (
        "rates of classes can be added, such as rate('a') + rate('b'), and recall[b] is none; limit every quantity by "
        "a constraint of its own"
    )
    assert "rate is none" in refusal(lambda: c.rate() + c.rate("b"))
    assert "add rates first" in refusal(lambda: c.rate("a").per_group() + c.rate("b"))
    assert "are of one group" in refusal(c.parse, "rate[a | x] + rate[b | y] >= rate[a | y] + rate[b | x]")
    for call in (lambda: c.rate("a") + 1, lambda: c.rate("a") - 1, lambda: c.rate("a") * "2"):
        with pytest.raises(TypeError):
            call()


# --- on a table -------------------------------------------------------------------------------------------------------


def test_values_are_those_of_the_columns():
    C = np.random.default_rng(1).dirichlet(np.ones(16)).reshape(4, 4)
    S = Confusion.from_matrix(C)
    _, F, M, L = columns = C.sum(axis=0)
    limits = bound(
        [
            "rate[L] + rate[M] <= .1",
            "2 rate[L] - rate[F] <= .1",
            "rate[not VF] <= .1",
            "rate['l'] <= .1",
            "rate[F or M] <= .2",
        ]
    )
    np.testing.assert_allclose(limits.values(S), [M + L, 2 * L - F, 1 - columns[0], L, F + M])
    np.testing.assert_allclose(limits.slacks(S), [0.1, 0.1, 0.1, 0.1, 0.2] - limits.values(S))
    np.testing.assert_allclose(limits.functions(S.rows, 4).values(S), limits.slacks(S))
    # further decisions are those of no class
    with_undecided = Confusion.from_matrix(np.hstack([C / 2, C.sum(axis=1, keepdims=True) / 2]))
    limits = bound(["rate[not VF] <= .1", "coverage >= .2"], abstains=True)
    np.testing.assert_allclose(limits.values(with_undecided), [(1 - columns[0]) / 2, 0.5])
    # a class whose name begins with "not" is itself
    named = bound("rate[not VF] <= .1", ["VF", "F", "not VF"])
    assert named.constraints[0].metric.classes == (2,)
    # placed again on a table of another order
    again = c.bind(
        bound("rate[L] + 2 rate[F] <= .1").constraints,
        make_table(np.full((4, 3), 1 / 3), classes=["F", "x", "L"]),
        explicit=True,
    )
    assert again.constraints[0].metric.classes == (0, 2) and again.constraints[0].metric.formula.weights == (2.0, 1.0)
    assert again.stored == ("rate[L] + 2 rate[F] <= 0.1",)


def test_of_groups_and_derivatives():
    metric = c.bind(
        "rate[a] - 3 rate[c] <= .5", make_table(np.full((4, 3), 1 / 3), classes=["a", "b", "c"]), explicit=True
    )
    metric = metric.constraints[0].metric
    C = np.random.default_rng(2).dirichlet(np.ones(36)).reshape(6, 6)
    S = Confusion.from_matrix(C)
    inside = S.columns[3:] / S.rows[3:].sum()
    assert float(view(metric, Layout(2, 3), 1).values(S)) == pytest.approx(inside[0] - 3 * inside[2])
    np.testing.assert_allclose(metric.gradient(np.full((3, 3), 1 / 9)), [[1.0, 0.0, -3.0]] * 3)
    assert not metric.formula.is_share and sum_of_rates([(1.0, "a"), (1.0, "b")]).formula.is_share


def test_names_that_a_table_lacks_and_contradictions():
    said = refusal(bound, "rate[VF] + rate[X] <= .1")
    assert "rate[X] names a class that the table does not have; its classes are 'VF', 'F', 'M', 'L'" in said
    assert refusal(bound, "rate[VF] + rate[FF] <= .1").endswith("did you mean rate[F] or rate[VF]?")
    assert "rate[not L] counts a class that another rate of the sum counts" in refusal(
        bound, "rate[VF] + rate[not L] <= .1"
    )
    said = refusal(bound, ["rate[VF] + rate[F] >= .3", "rate[F] + rate[VF] <= .2"])
    assert "rate[VF] + rate[F] >= 0.3 and rate[F] + rate[VF] <= 0.2 contradict each other" in said


# --- the sentence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "flagged"), [("rate[M] + rate[L] <= 0.1", ["M", "L"]), ("rate[not VF] <= 0.4", ["F", "M", "L"])]
)
def test_at_most_so_many_flagged_in_all(jobs, limit, flagged):
    """The best macro F1 within a capacity: kept on new rows within noise, and all classes are decided."""
    (P, y), (Q, z) = jobs
    solution = confmax.maximize("macro_f1", P, y, constraints=limit, classes=NAMES)
    (outcome,) = solution.constraints
    most = outcome.limit
    assert outcome.slack >= 0.0 and outcome.label_interval[0] < most and solution.gap < 0.002
    decided = solution.predict(Q)
    assert np.isin(decided, flagged).mean() <= most + 2 * np.sqrt(most * (1 - most) / len(Q))
    assert set(decided) == set(NAMES)
    assert (decided == z).mean() >= 0.66
    again = confmax.DecisionRule.from_json(solution.rule.to_json())
    assert again == solution.rule and again.constraints == (limit,)


def test_a_sum_is_tested_with_confidence_and_a_weighted_one_is_not(jobs):
    (P, y), (Q, _) = jobs
    solution = confmax.maximize(
        "macro_f1", P, y, constraints="rate[M] + rate[L] <= 0.15", confidence=0.9, classes=NAMES
    )
    assert solution.constraints[0].assured
    assert np.isin(solution.predict(Q), ["M", "L"]).mean() <= 0.15
    said = refusal(
        confmax.maximize, "accuracy", P, y, constraints="2 rate[M] + rate[L] <= 0.15", confidence=0.9, classes=NAMES
    )
    assert "confidence tests shares of rows, and 2 rate[M] + rate[L] is none" in said


def test_a_class_of_a_sum_that_is_never_decided_is_a_surprise(jobs):
    (P, y), _ = jobs
    with pytest.warns(UserWarning, match=r"the rule never decides M, which rate\[M or L\] <= 0\.1 names"):
        confmax.maximize("recall[L]", P, y, constraints="rate[M or L] <= 0.1", classes=NAMES)


def test_one_sum_is_as_good_as_the_rates_that_it_splits_into(jobs):
    """The best of all ways to split a sum has the value within the sum."""
    P = jobs[0][0][:200]
    settings = {"classes": NAMES, "confusion": "model", "randomized": True}
    whole = confmax.maximize("cohen_kappa", P, constraints="rate[M] + rate[L] <= 0.1", **settings)
    rates = whole.confusion.sum(axis=0)
    split = confmax.maximize(
        "cohen_kappa", P, constraints=[f"rate[M] <= {rates[2]}", f"rate[L] <= {rates[3]}"], **settings
    )
    other = confmax.maximize("cohen_kappa", P, constraints=["rate[M] <= 0.05", "rate[L] <= 0.05"], **settings)
    assert whole.value == pytest.approx(split.value, abs=2e-6) and other.value <= whole.value + 1e-6
