"""Limits with a confidence on rows in parts: they are split and tested alike, however they are divided."""

from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import confmax
from confmax.oracle import make_table
from confmax.solution import Plan
from confmax.solution.confidence import TESTED, _is_tested, _names_of_rows, _split
from confmax.tables.draws import row_keys
from confmax.tables.groups import Groups
from tests.parts_helpers import cut

N = 480
DIVISIONS = ((200,), (0, 100, 101, 101, 400), (90, 180, 400))


@pytest.fixture
def few(monkeypatch):
    """As if a sample of 120 rows were a small part of a large table."""
    for name, value in (("SAMPLE_CELLS", 120), ("SAMPLE_ROWS", 120), ("ROWS_PER_CLASS", 10)):
        monkeypatch.setattr(f"confmax.tables.partitioned.table.{name}", value)


def repeating(distinct=40, n=N):
    """Return rows (n, 3) of which few are distinct, labels and groups."""
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(3), distinct)[rng.integers(0, distinct, n)]
    y = (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return P, y, np.array(["a", "b"])[(rng.random(n) < 0.3).astype(int)]


def assert_alike(one, decided, other, others):
    """Check that two solutions are one, and decide rows alike; a search may end at one of several rules of one value.

    Which of them it is, the last digits of sums say, and these depend on the order in which parts are added.
    """
    assert (one.guarantee, one.tested_on, one.feasible) == (other.guarantee, other.tested_on, other.feasible)
    assert one.value == pytest.approx(other.value, abs=1e-9)
    for a, b in zip(one.constraints, other.constraints, strict=True):
        assert (a.text, a.label_rows, a.assured, a.blocking) == (b.text, b.label_rows, b.assured, b.blocking)
        assert a.value == pytest.approx(b.value, abs=1e-9)
    if one.tested_on == "all rows":
        np.testing.assert_array_equal(decided, others)
        assert one.label_value == pytest.approx(other.label_value, abs=1e-12)
        assert one.rule.gains.pair()[1] == pytest.approx(other.rule.gains.pair()[1])
    assert np.mean(decided == others) > 0.99


def halves(table, limits):
    """Return which rows tune and which test, in an order that their places have no part in."""
    tuning, side = _split(Plan.checked("accuracy", constraints=limits, confidence=0.9).on(table))
    found = [half.each_row(_names_of_rows, "a test") for half in (tuning.raw, side)]
    return [np.array(each, dtype=object)[:, np.lexsort(each)] for each in found]


@pytest.mark.parametrize("limit", ["recall[1] >= 0.5", "min(recall[1] | group) >= 0.5"])
@pytest.mark.parametrize("distinct", [40, N])
def test_repeated_rows_are_split_alike_however_they_are_divided(limit, distinct):
    """A row's copies are told apart by their number, which counts those of earlier parts."""
    P, y, group = repeating(distinct=distinct)
    by_group = "group" in limit
    here = make_table(P, y).with_groups(Groups.of(group, N) if by_group else None)
    wanted = halves(here, limit)
    assert wanted[0].shape[1] + wanted[1].shape[1] == N and 180 < wanted[1].shape[1] < 300
    order = np.random.default_rng(0).permutation(N)
    moved = [P[order], y[order], group[order]]
    for at in DIVISIONS:
        for rows in ([P, y, group], moved):
            there = make_table(cut(*rows[:2], at=at, group=rows[2] if by_group else None))
            for one, other in zip(halves(there, limit), wanted, strict=True):
                np.testing.assert_array_equal(one, other)
    if distinct == 40:
        tune_side, test_side = (set(map(tuple, half[:2].T)) for half in wanted)
        # copies of nearly every row with the same label are on both sides
        assert len(tune_side & test_side) > 0.6 * len(tune_side | test_side)


# on the model's estimate rows in memory and in parts are searched alike
QUESTIONS = [
    ("accuracy", ["recall[1] >= 0.5", "rate[2] <= 0.5"], "model"),
    ("accuracy", "min_recall >= 0.4", "model"),
    ("accuracy", "min(recall[1] | group) >= 0.2", "model"),
    ("recall[1]", "precision[1] >= 0.6", "auto"),
    ("recall[1]", ["npv[1] >= 0.7", "rate[1] <= 0.6"], "auto"),
]


@cache
def answer(question, at=None):
    """Return the answer to a question on rows in memory, or divided ``at`` some rows, and what it decides for all."""
    metric, limits, confusion = QUESTIONS[question]
    P, y, group = repeating(distinct=N)
    by_group = {"group": group} if "group" in limits else {}
    settings = {"constraints": limits, "confidence": 0.9, "classes": range(3), "confusion": confusion}
    rows = {"proba": P, "y": y, **by_group} if at is None else {"proba": cut(P, y, at=at, **by_group)}
    found = confmax.maximize(metric, **rows, **settings)
    return found, found.predict(P, **by_group)


@pytest.mark.parametrize("at", DIVISIONS)
@pytest.mark.parametrize("question", range(len(QUESTIONS)))
def test_rows_in_parts_are_answered_as_in_memory(question, at):
    """A sample that holds all rows chooses the calibration of all rows."""
    assert_alike(*answer(question, at), *answer(question))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("at", DIVISIONS[1:])
@pytest.mark.parametrize("question", range(len(QUESTIONS)))
def test_a_sample_of_the_rows_says_the_same_of_every_division(question, at):
    """And what is said is counted on rows that tuned nothing, or on all rows."""
    P, y, group = repeating(distinct=N)
    assert make_table(cut(P, y, at=at)).head.n_rows < N / 2
    one, decided = answer.__wrapped__(question, at)
    assert_alike(one, decided, *answer.__wrapped__(question, DIVISIONS[0]))
    table = make_table(P, y).head
    groups = Groups.of(group, N) if "group" in QUESTIONS[question][1] else None
    test = _is_tested(table, row_keys(table, None if groups is None else groups.codes), 0, TESTED, groups)
    test |= one.tested_on == "all rows"
    counted = test if QUESTIONS[question][0] == "accuracy" else test & (y == 1)
    assert one.label_value == pytest.approx((decided == y)[counted].mean())


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("limit", ["recall[1] >= 0.6", "rate[1] <= 0.3"])
def test_all_thresholds_are_tested_in_parts(limit):
    """Of all cuts that pass SciPy's test on all rows the best one is found, though a sample knows few of them."""
    rng = np.random.default_rng(6)
    p = rng.beta(2, 3, 1300)
    y = (rng.random(1300) < p).astype(int)
    P = np.c_[1 - p, p]
    settings = {"constraints": limit, "confidence": 0.9, "calibration": None}
    found = confmax.maximize("accuracy", cut(P, y, at=(1, 500)), **settings)
    number, best = float(limit[-3:]), 0.0
    for at in np.append(np.unique(p), 2.0):
        decided = p >= at
        if limit.startswith("rate"):
            passed = stats.binom.cdf(decided.sum(), 1300, number) <= 0.1
        else:
            passed = stats.binom.sf(decided[y == 1].sum() - 1, (y == 1).sum(), number) <= 0.1
        best = max(best, (decided == y).mean() * passed)
    assert found.constraints[0].assured and found.label_value == pytest.approx(best, abs=1e-12)
    assert (found.predict(P) == y).mean() == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("metric", ["accuracy", "recall[1]"])
def test_rows_of_equal_weight_in_parts_count_and_those_without_do_not(metric):
    P, y, _ = repeating(distinct=N)
    weight = np.where(np.arange(N) % 5 == 0, 0.0, 3.0)
    weight[200:300] = 0.0
    limits = ["recall[1] >= 0.4", "rate[1] <= 0.5"] + ["rate[2] <= 0.5"] * (metric == "accuracy")
    settings = {"constraints": limits, "confidence": 0.9, "classes": range(3), "confusion": "model"}
    if metric == "recall[1]":
        del settings["confusion"]
    here = confmax.maximize(metric, P[weight > 0], y[weight > 0], **settings)
    there = confmax.maximize(metric, cut(P, y, weight, at=(200, 300)), **settings)
    assert_alike(there, there.predict(P), here, here.predict(P))


def test_what_has_no_confidence_in_parts_is_refused(monkeypatch):
    P, y, group = repeating(distinct=N)
    limits = ["recall[1] >= 0.5", "rate[2] <= 0.6"]
    unequal = np.where(np.arange(N) < 400, 1.0, 2.0)
    alone = np.where(np.arange(N) == 7, "c", group)
    twice = cut(np.tile(P, (2, 1)), np.tile(y, 2), at=(N,))
    for source, given, sentence in (
        (cut(P, y, unequal, at=(400,)), limits, "confidence counts rows, and their weights are not equal"),
        (cut(P, at=(400,)), limits, "tests the constraints on labels, and there are none; pass y"),
        (cut(P, y, at=(5, 300), group=alone), "min(rate[1] | group) >= 0.1", "and group 'c' has one row; join it"),
        (twice, limits, "two parts of proba hold the same rows, .* leave copies out, or join small parts"),
    ):
        with pytest.raises(ValueError, match=sentence):
            confmax.maximize("accuracy", source, constraints=given, confidence=0.9, classes=range(3))
    monkeypatch.setattr("confmax.tables.table.MOST_GATHERED", N - 1)
    for given, what in ((limits, "the split of confidence"), ("recall[1] >= 0.5", "the test of every threshold on 1")):
        metric = "accuracy" if given is limits else "recall[1]"
        with pytest.raises(ValueError, match=rf"{what}.* compares all rows .* 480 of them in parts; pass at most 479"):
            confmax.maximize(metric, cut(P, y, at=(9,)), constraints=given, confidence=0.9)
    # rows in memory are in one place
    assert confmax.maximize("recall[1]", P, y, constraints="recall[1] >= 0.5", confidence=0.9).feasible


@pytest.mark.usefixtures("few")
def test_limits_are_violated_in_truth_no_more_often_than_the_level():
    """Of rules in parts that are called assured: a threshold, whose recall on the population is known."""
    p = np.linspace(0.02, 0.98, 97)
    share = np.full(97, 1 / 97)
    missed = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        drawn = rng.choice(p, 300, p=share)
        y = (rng.random(300) < drawn).astype(int)
        source = cut(np.c_[1 - drawn, drawn], y, at=(150,))
        found = confmax.maximize("rate[0]", source, constraints="recall[1] >= 0.7", confidence=0.8, calibration=None)
        decided = found.predict(np.c_[1 - p, p]) == 1
        missed.append((share * p)[decided].sum() / (share * p).sum() < 0.7)
    # 4 of 20 are expected at most; more than 7 have a chance of .03 where the level is exhausted
    assert 1 <= np.sum(missed) <= 7


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("place", ["files", "dask", "stream"])
def test_rows_of_every_place_are_split_and_tested_alike(place, tmp_path):
    """The source holds what is made of its parts, or makes it anew in every pass."""
    P, y, group = repeating(distinct=N)
    at = [0, 200, N]
    if place == "dask":
        da = pytest.importorskip("dask.array")
        rows = [da.from_array(each, chunks=(200, *each.shape[1:])) for each in (P, y)]
        by_group = {"group": da.from_array(group, chunks=200)}
    elif place == "files":
        pd = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        frame = pd.DataFrame(P, columns=list("012")).assign(truth=y, site=group)
        for low, high in pairwise(at):
            frame.iloc[low:high].to_parquet(tmp_path / f"{low}.parquet")
        opened = partial(confmax.open_table, f"{tmp_path}/*.parquet", columns=list("012"), label="truth")
        rows, by_group = [opened()], None
    else:
        # a function of chunks brings no groups
        rows, by_group = [lambda: ((P[low:high], y[low:high]) for low, high in pairwise(at))], {}
    limit = "min(recall[1] | group) >= 0.4" if by_group != {} else "recall[1] >= 0.4"
    there = make_table(opened(group="site")) if by_group is None else make_table(*rows, classes=range(3), **by_group)
    here = make_table(P, y)
    here = here if by_group == {} else here.with_groups(Groups.of(group, N))
    for one, other in zip(halves(there, limit), halves(here, limit), strict=True):
        np.testing.assert_array_equal(one, other)
    metric, limits, confusion = QUESTIONS[3]
    settings = {"constraints": limits, "confidence": 0.9, "classes": range(3), "confusion": confusion}
    found = confmax.maximize(metric, *rows, **settings)
    assert_alike(found, found.predict(P), *answer.__wrapped__(3, (200,)))
