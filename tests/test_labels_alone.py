"""Limits where the labels contradict the model: labels alone must show that they are kept, by an exact test."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import confmax
from confmax.constraints.across import EveryGroup, Limit, a_little_beyond

LEVEL = 0.1
OF_CUTS = LEVEL / 4  # of a share whose rows are those that a cut decides


def grouped(share, n=1500, seed=3):
    """Return rows of three groups: in the last one a ``share`` of the rows that the model expects are true."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-1.2 * rng.normal(size=n)))
    group = rng.choice(["a", "b", "c"], n, p=[0.45, 0.4, 0.15])
    y = (rng.random(n) < np.where(group == "c", share * p, p)).astype(int)
    return np.c_[1 - p, p], y, group


def passes(hits, n, floor, level=LEVEL):
    """Whether so many hits are less likely than one in ten where the floor is missed by a fifth of a row's variance."""
    return stats.binom.sf(hits - 1, n, floor - 0.2 * floor * (1 - floor)) <= level


def test_a_recall_is_shown_by_the_labels_of_its_group():
    P, y, group = grouped(0.5)
    solution = confmax.maximize("accuracy", P, y, constraints="min(recall[1] | group) >= 0.7", group=group)
    assert solution.feasible and solution.group_shares[2] == 0.0 < min(solution.group_shares[:2])
    decided = solution.predict(P, group=group) == 1
    there = group == "c"
    best = 0.0
    for cut in np.unique(P[there, 1]):
        above = P[there, 1] >= cut
        if passes(int(y[there][above].sum()), y[there].sum(), 0.7):
            best = max(best, (above == y[there]).mean())
    assert passes(int((decided & (y == 1))[there].sum()), y[there].sum(), 0.7)
    assert (decided == y)[there].mean() == best


def test_groups_in_parts_have_the_shares_of_those_in_memory(tmp_path):
    P, y, group = grouped(0.5)
    frame = pd.DataFrame({"0": P[:, 0], "1": P[:, 1], "y": y.astype(str), "group": group})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=400)
    table = confmax.open_table(str(tmp_path / "t.parquet"), columns=["0", "1"], label="y", group="group")
    asked = {"metric": "accuracy", "constraints": "min(recall[1] | group) >= 0.5"}
    memory = confmax.maximize(proba=P, y=y.astype(str), group=group, **asked)
    parts = confmax.maximize(proba=table, **asked)
    assert parts.group_shares == pytest.approx(memory.group_shares) and parts.group_shares[2] == 0.0
    assert parts.model_share == pytest.approx(memory.model_share)


def test_a_group_whose_precision_nothing_shows_is_not_decided():
    P, y, group = grouped(0.2)
    solution = confmax.maximize("accuracy", P, y, constraints="min(precision[1] | group) >= 0.6", group=group)
    decided = solution.predict(P, group=group) == 1
    there = group == "c"
    for cut in np.unique(P[there, 1]):
        above = there & (P[:, 1] >= cut)
        assert not passes(int(y[above].sum()), above.sum(), 0.6, OF_CUTS)
    assert not decided[there].any() and decided[~there].any() and solution.feasible
    parts = solution.constraints[0].by_group
    assert [part.vacuous for part in parts] == [False, False, True] and "c: no decision" in repr(solution)


@pytest.mark.filterwarnings("ignore:group .few. has:UserWarning")
@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("min(recall[1] | group) >= 0.7", 1.0),
        ("max(rate[1] | group) <= 0.1", 0.0),
        ("max(fpr[1] | group) <= 0.1", 0.0),
        ("min(specificity[1] | group) >= 0.9", 1.0),
    ],
)
def test_a_group_that_is_decided_alike_needs_no_test(limit, value):
    """Its labels are too few for any threshold to pass, and all or none of it keeps the limit whatever they are."""
    P, y, _ = grouped(1.0, n=308)
    y[:8] = P[:8, 1] <= 0.5
    group = np.where(np.arange(308) < 8, "few", "many")
    solution = confmax.maximize("accuracy", P, y, constraints=limit, group=group)
    assert solution.group_shares[0] == 0.0 and solution.feasible
    assert solution.constraints[0].by_group[0].value == pytest.approx(value)


def test_a_difference_is_smaller_by_half_a_standard_error():
    P, y, group = grouped(0.5)
    found = confmax.maximize("accuracy", P, y, constraints="difference(fpr[1] | group) <= 0.05", group=group)
    (outcome,) = found.constraints
    values = [one.value for one in outcome.by_group]
    n = ((group == "c") & (y == 0)).sum()
    error = np.sqrt(values[2] * (1 - values[2]) / n)
    assert found.feasible and 0.05 - 0.5 * error - np.ptp(values) == pytest.approx(outcome.slack, abs=1e-9)


@pytest.mark.parametrize(
    ("limit", "maximised"), [("recall[1] >= 0.7", "precision[1]"), ("precision[1] >= 0.5", "recall[1]")]
)
def test_one_class_has_the_best_threshold_on_the_labels(limit, maximised):
    """Every cut is tried: nobody has asked for a test of all rows, which is what a confidence is."""
    rng = np.random.default_rng(5)
    p = rng.beta(1, 2, 900)
    q = np.where(p > 0.3, 0.3 + 0.1 * p, p)
    y = (rng.random(900) < p).astype(int)
    solution = confmax.maximize(maximised, np.c_[1 - q, q], y, constraints=limit, calibration=None)
    assert solution.model_share == 0.0
    floor, best = float(limit[-3:]), -1.0
    for cut in np.unique(q):
        hits, decided = int(y[q >= cut].sum()), int((q >= cut).sum())
        shown, other = (y.sum(), decided) if "recall" in limit else (decided, y.sum())
        if hits / shown >= floor:
            best = max(best, hits / other)
    assert solution.value == pytest.approx(best, abs=1e-12) and solution.feasible


def test_what_passes_is_what_the_binomial_says():
    for limit in (Limit(0.7, True), Limit(0.2, False), Limit(1.0, True), Limit(0.0, False)):
        beyond = a_little_beyond(limit)
        n = np.arange(1, 400)
        perfect = np.full(len(n), float(limit.is_floor))
        found = EveryGroup().beyond_chance(
            limit, perfect[:, None], n[:, None].astype(float), np.zeros((399, 1), bool), LEVEL
        )
        chance = (beyond if limit.is_floor else 1 - beyond) ** n
        assert (np.isinf(found) == (chance <= LEVEL)).all()


@pytest.mark.parametrize("weight", [None, np.ones(1500), np.full(1500, 3e5)], ids=["rows", "ones", "large"])
def test_equal_weights_of_groups_refute_as_rows_do(weight):
    P, y, group = grouped(0.35)
    given = {"constraints": "min(precision[1] | group) >= 0.6", "confusion": "model", "sample_weight": weight}
    with pytest.warns(UserWarning, match="labels refute"):
        (outcome,) = confmax.maximize("accuracy", P, y, group=group, **given).constraints
    assert len(outcome.refuted_by) == 1 and "precision[1 | c] is " in outcome.refuted_by[0] and not outcome.kept


@pytest.mark.parametrize(
    "limits", ["min(min_recall | group) >= 0.5", ["min_recall >= 0.5", "min(accuracy | group) >= 0.3"]]
)
def test_the_smallest_recall_is_refuted_beside_groups(limits):
    P, y, group = grouped(1.0)
    solution = confmax.maximize("accuracy", P, y, constraints=limits, group=group)
    assert solution.feasible
    decided = solution.predict(P, group=group)
    assert min((decided[y == k] == k).mean() for k in (0, 1)) >= 0.5


def test_a_precision_of_a_group_that_is_never_decided_is_assured():
    P, y, group = grouped(0.35)
    given = {"constraints": "min(precision[1] | group) >= 0.5", "confidence": 0.9, "group": group}
    solution = confmax.maximize("accuracy", P, y, **given)
    (outcome,) = solution.constraints
    rows = np.linspace(0.0, 1.0, 101)
    assert not solution.predict(np.c_[1 - rows, rows], group=["c"] * 101).any()
    assert outcome.assured and outcome.price is None and [part.vacuous for part in outcome.by_group][2]


def test_a_group_of_one_row_cannot_be_tested():
    P, y, group = grouped(1.0, n=200)
    group = np.where(np.arange(200) == 0, "alone", group)
    with pytest.raises(ValueError, match="'alone' has one row; join it with another group"):
        confmax.maximize("accuracy", P, y, constraints="max(rate[1] | group) <= 0.5", group=group, confidence=0.9)
