"""Limits that compare two groups by their names, against programs over all decisions and limits on differences."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import confmax
from confmax import constraints as c
from confmax.constraints import grammar
from confmax.constraints.across import Limit, Pairs
from confmax.constraints.binding import judged
from confmax.constraints.two_groups import TwoGroups
from confmax.oracle import make_table
from confmax.tables.groups import Groups
from tests.cli_helpers import document


class FirstAndLast(Pairs):
    """A kind of limit that the package does not know: the value in the first group minus that in the last."""

    words: ClassVar = {"first_minus_last": ""}
    range = TwoGroups.range
    weights = TwoGroups.weights

    def value(self, values, vacuous, limit):
        return values[..., 0] - values[..., -1]

    def pairs(self, n_groups):
        return [(0, n_groups - 1)]


NAMES = ("recall", "fpr", "specificity", "rate", "accuracy", "balanced_accuracy")
NUMBERS = (0.0, 0.0, 0.02, -0.02, 0.1, -0.1, -0.3)
EXACT = 1e-9


def tiny(seed):
    """Return distinct rows, repeated, their groups, and limits ``(name, class, a, b, sense, number)``."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 4))
    G = int(rng.integers(2, 4))
    distinct = rng.dirichlet(np.ones(K), int(rng.integers(2, 7))).round(2)
    distinct[:, -1] = 1.0 - distinct[:, :-1].sum(axis=1)
    P = distinct[rng.integers(0, len(distinct), 24)]
    group = np.arange(24) % G
    limits = []
    for _ in range(int(rng.integers(1, 3))):
        name = str(rng.choice(NAMES))
        a, b = rng.permutation(G)[:2].tolist()
        sense = str(rng.choice([">=", "<="]))
        limits.append((name, int(rng.integers(K)), a, b, sense, float(rng.choice(NUMBERS))))
    return P, group, limits


def text_of(name, k, a, b, sense, number):
    label = "" if name in ("accuracy", "balanced_accuracy") else k
    more = f"{'+' if number >= 0 else '-'} {abs(number)}"
    return f"{name}[{label} | {'abc'[a]}] {sense} {name}[{label} | {'abc'[b]}] {more}"


def function(P, rows, name, k):
    """Return what each decision of each row (n, K) adds to a quantity of the rows in a mask."""
    found = np.zeros_like(P)
    here = P * rows[:, None]
    others = rows - here[:, k]
    if name == "recall":
        found[:, k] = here[:, k] / here[:, k].sum()
    elif name == "rate":
        found[:, k] = rows / rows.sum()
    elif name == "fpr":
        found[:, k] = others / others.sum()
    elif name == "specificity":
        found = np.repeat((others / others.sum())[:, None], P.shape[1], axis=1)
        found[:, k] = 0.0
    elif name == "accuracy":
        found = here / rows.sum()
    else:
        found = here / here.sum(axis=0) / P.shape[1]
    return found


def best(P, group, limits, metric):
    """Return the largest value over the mixtures of decisions of every distinct row in every group, None if none."""
    cells, owner = np.unique(np.column_stack([P, group]), axis=0, return_inverse=True)
    n = len(cells)
    K = P.shape[1]

    def of_cells(f):
        return np.array([f[owner.ravel() == cell].sum(axis=0) for cell in range(n)]).ravel()

    rows = []
    numbers = []
    for name, k, a, b, sense, number in limits:
        difference = function(P, group == a, name, k) - function(P, group == b, name, k)
        sign = -1.0 if sense == ">=" else 1.0
        rows.append(sign * of_cells(difference))
        numbers.append(sign * number)
    every = np.ones(len(P), dtype=bool)
    objective = -of_cells(function(P, every, *metric))
    one_each = np.kron(np.eye(n), np.ones(K))
    tolerances = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(objective, np.array(rows), numbers, one_each, np.ones(n), method="highs", options=tolerances)
    return -found.fun if found.status == 0 else None


def check(seed):
    P, group, limits = tiny(seed)
    metric = [("accuracy", 0), ("balanced_accuracy", 0), ("recall", 1)][seed % 3]
    expected = best(P, group, limits, metric)
    settings = {"constraints": [text_of(*one) for one in limits], "group": np.array(list("abc"))[group]}
    settings |= {"randomized": True, "tol": 1e-7}
    name = "recall[1]" if metric[0] == "recall" else metric[0]
    if expected is None:
        with pytest.raises((confmax.Infeasible, ValueError), match=r"no rule|contradict"):
            confmax.maximize(name, P, **settings)
        return "infeasible"
    found = confmax.maximize(name, P, **settings)
    assert found.value == pytest.approx(expected, abs=1e-6)
    assert found.upper_bound >= expected - EXACT
    D = found.rule.decision_probabilities(P, group=settings["group"])
    for one, (name, k, a, b, sense, number) in zip(found.constraints, limits, strict=True):
        in_groups = [float((function(P, group == g, name, k) * D).sum()) for g in range(group.max() + 1)]
        assert [part.value for part in one.by_group] == pytest.approx(in_groups, abs=1e-9)
        assert one.value == pytest.approx(in_groups[a] - in_groups[b], abs=1e-9)
        assert (one.value - number) * (1 if sense == ">=" else -1) >= -1e-12
    return "kept"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(5))
def test_tiny_tables_against_a_program_over_their_distinct_rows(seed):
    check(seed)


def labelled(n=400, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(2, 0.8), n)
    y = np.where(rng.random(n) < P[:, 1], "yes", "no")
    return P, y, np.where(rng.random(n) < 0.25 + 0.5 * P[:, 1], "men", "women")


@pytest.mark.parametrize(("name", "number"), [("recall", 0.0), ("fpr", 0.02), ("rate", 0.1)])
def test_both_directions_are_a_difference(name, number):
    P, _, group = labelled(200)
    quantity = c.quantity(name, "yes")
    settings = {"classes": ["no", "yes"], "group": group, "randomized": True, "tol": 1e-7}
    signed = quantity.difference("women", "men")
    both = confmax.maximize("accuracy", P, constraints=[signed >= -number, signed <= number], **settings)
    other = confmax.maximize("accuracy", P, constraints=quantity.difference() <= number, **settings)
    assert both.value == pytest.approx(other.value, abs=1e-6)
    # the price of the difference is that of the direction that costs something
    assert sum(one.price for one in both.constraints) == pytest.approx(other.constraints[0].price, abs=1e-4)
    assert max(abs(one.value) for one in both.constraints) <= number + 1e-12


@pytest.mark.parametrize(
    "text",
    [
        "recall[VF | women] >= recall[VF | men] - 0.02",
        "recall[VF|women]≥recall[VF|men]-2 %",
        "recall[VF | women] + 0.02 >= recall[VF | men]",
    ],
)
def test_texts_and_objects_are_the_same_limits(text):
    one = c.recall("VF").difference("women", "men") >= -0.02
    assert c.parse(text) == one and one.text == "recall[VF | women] >= recall[VF | men] - 0.02"


@pytest.mark.parametrize("label", ["VF", "a|b", "a | b]", "x] >= rate[x | y", "5 %", "[", "] - 0.1", "(1)", None])
def test_names_are_read_back(label):
    for group in ("women", "age >= 60", "60-70", "x]", "5 %", 3):
        quantity = c.rate(label).difference(group, "other")
        for one in (quantity >= 0, quantity >= -0.02, quantity <= 0.01):
            assert c.parse(one.text) == one


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("recall[a | x] >= recall[a | x]", "group 'x' stands on both sides"),
        ("recall[a | x] >= recall[b | y]", r"compares recall\[a\] with recall\[b\]"),
        ("recall[a | x] >= fpr[a | y]", r"compares recall\[a\] with fpr\[a\]"),
        ("recall[a | x] >= recall[a]", "one side names no group"),
        ("recall[a] >= recall[a | x]", "one side names no group"),
        ("recall[a | ] >= recall[a | x]", "names two groups"),
        ("recall[a | x] > recall[a | y]", "groups are compared by >= or <="),
        ("recall[a | x] >= recall[a | y] * 0.8", "NUMBER may follow a group"),
        ("recall[a | x] >= recall[a | y] - 2", "lies between -1 and 1"),
        ("precision[a | x] >= precision[a | y]", "the denominator of precision"),
    ],
)
def test_texts_that_state_no_limit(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        c.parse(text)


def test_objects_that_state_no_limit():
    for names, sentence in ((("a",), "or none"), (("a", "a"), "both sides"), (("a|b", "c"), "without '|'")):
        with pytest.raises(ValueError, match=sentence):
            c.recall("VF").difference(*names)


@pytest.mark.parametrize(
    ("limits", "group", "sentence"),
    [
        ("recall[yes | women] >= recall[yes | old]", True, "there is no group 'old'; the groups are men, women"),
        ("recall[yes | women] >= recall[yes | men]", False, "there are none; pass group="),
        (
            ["rate[yes | women] >= rate[yes | men] + 0.2", "rate[yes | women] <= rate[yes | men] + 0.1"],
            True,
            "contradict each other",
        ),
        (
            ["rate[yes | women] >= rate[yes | men] + 0.2", "rate <= 0.05"],
            True,
            r"no rule .* keeps rate\[yes \| women\] >= rate\[yes \| men\] \+ 0.2, rate\[yes\] <= 0.05",
        ),
    ],
)
def test_limits_that_no_rule_keeps(limits, group, sentence):
    P, _, names = labelled(100)
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("accuracy", P, classes=["no", "yes"], constraints=limits, group=names if group else None)


def test_rows_that_tuned_nothing_test_both_groups():
    limit = "recall[yes | women] >= recall[yes | men] - 0.5"
    P, y, group = labelled(300)
    settings = {"confusion": "model", "calibration": None, "randomized": True}
    found = confmax.maximize("accuracy", P, y, constraints=limit, group=group, confidence=0.9, **settings)
    (one,) = found.constraints
    assert one.assured and one.text == limit and {part.group for part in one.by_group} == {"men", "women"}


def test_shares_of_both_groups_show_the_limit():
    kind = TwoGroups("women", "men").placed((1, 0))
    assert kind.passes(Limit(-0.1, True), [0.5, 0.5], [2000, 2000], 0.9)
    assert not kind.passes(Limit(-0.1, True), [0.6, 0.5], [2000, 2000], 0.9)
    assert kind.passes(Limit(0.1, False), [0.6, 0.5], [2000, 2000], 0.9)
    # both signs leave the same room, below zero too, and a third group says nothing
    floor, _ = kind.tightened(Limit(0.0, True), [50, 100, 1], 1.0)
    assert 0.0 < floor == pytest.approx(-kind.tightened(Limit(0.0, False), [50, 100, 1], 1.0)[0])


def test_rows_without_one_of_the_groups_judge_nothing():
    P, y, group = labelled()
    table = make_table(P, y).with_groups(Groups.of(group, len(y)))
    kept, absent = judged("rate[yes | women] >= rate[yes | old]", table)
    assert kept is None and absent == ("rate[yes | women] >= rate[yes | old]",)


def test_a_group_that_is_better_stays_so():
    P, _, group = labelled()
    limit = "recall[yes | men] >= recall[yes | women] - 0.02"
    settings = {"classes": ["no", "yes"], "group": group, "randomized": True}
    free = confmax.maximize("accuracy", P, classes=["no", "yes"])
    found = confmax.maximize("accuracy", P, constraints=limit, **settings)
    assert found.constraints[0].slack > 0.02 and found.constraints[0].price == 0.0
    assert found.value == pytest.approx(free.value, abs=1e-6)


def test_commands_take_the_limit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    P, y, group = labelled()
    pd.DataFrame(P, columns=["no", "yes"]).assign(truth=y, sex=group).to_csv("t.csv", index=False)
    limit = "recall[yes | women] >= recall[yes | men] + 2 %"
    tune = ("tune", "t.csv", "--label", "truth", "--metric", "accuracy", "--group", "sex", "-o", "rule.json")
    found = document(*tune, "--subject-to", limit)
    (one,) = found["constraints"]
    assert one["value"] == pytest.approx(one["by_group"]["women"]["value"] - one["by_group"]["men"]["value"])
    scored = document(
        "score", "t.csv", "--label", "truth", "--rule", "rule.json", "--group", "sex", "--replicates", "0"
    )
    (again,) = scored["constraints"]
    assert again["text"] == "recall[yes | women] >= recall[yes | men] + 0.02"
    assert again["value"] == pytest.approx(one["on_labels"])


def test_a_kind_of_limit_is_one_class_and_its_name_among_the_kinds(monkeypatch):
    monkeypatch.setattr(grammar, "KINDS", (*grammar.KINDS, FirstAndLast))
    P, y, group = labelled()
    known = confmax.maximize(
        "accuracy", P, y, constraints="recall[yes | men] >= recall[yes | women] - 0.02", group=group
    )
    text = "first_minus_last(recall[yes] | group) >= -0.02"
    for limit in (text, c.recall("yes").on(FirstAndLast()) >= -0.02):
        found = confmax.maximize("accuracy", P, y, constraints=limit, group=group)
        assert found.value == pytest.approx(known.value, abs=EXACT) and found.constraints[0].text == text
        assert found.constraints[0].value == pytest.approx(known.constraints[0].value, abs=EXACT)
        assert found.constraints[0].price == pytest.approx(known.constraints[0].price, abs=EXACT)
