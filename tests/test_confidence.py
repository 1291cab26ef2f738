"""Limits with a confidence: the split, the tests on rows that tuned nothing, and what is said."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, f1_score

import confmax
from benchmarks import confidence as benchmark
from benchmarks import truth_confidence as truth
from confmax import constraints as c
from confmax.confusion import Confusion
from confmax.constraints import ConstraintOutcome, bind
from confmax.constraints.each_class import Separated
from confmax.constraints.proportions import kept_on_new_rows, rows_needed
from confmax.oracle import make_table
from confmax.solution import Plan, tune
from confmax.solution.confidence import (
    MOST_TESTED,
    STEPS,
    TESTED,
    Searches,
    _is_tested,
    _share_tested,
    _sizes,
    _tightened,
)
from confmax.tables.draws import row_keys
from confmax.tables.groups import Groups
from tests.test_limits_on_labels import labelled


@pytest.mark.parametrize("n", [1, 9, 40])
@pytest.mark.parametrize("limit", [0.1, 0.5, 0.9])
def test_tests_are_those_of_scipy(n, limit):
    for met in range(n + 1):
        for is_floor, side in ((True, "greater"), (False, "less")):
            exact = binomtest(met, n, limit, alternative=side).pvalue <= 0.1
            assert kept_on_new_rows(met / n, n, limit, is_floor=is_floor, confidence=0.9) == exact


def test_limits_that_every_share_keeps_or_that_no_count_shows():
    assert kept_on_new_rows(0.0, 0, 0.0, is_floor=True, confidence=0.9)
    assert kept_on_new_rows(1.0, 5, 1.0, is_floor=False, confidence=0.9)
    assert not kept_on_new_rows(1.0, 1000, 1.0, is_floor=True, confidence=0.9)
    assert not kept_on_new_rows(0.0, 1000, 0.0, is_floor=False, confidence=0.9)
    assert not kept_on_new_rows(1.0, 0, 0.2, is_floor=True, confidence=0.9)


def test_rows_that_are_needed_are_about_enough():
    needed = rows_needed(0.85, 0.8, is_floor=True, confidence=0.9)
    assert 105 <= needed <= 140 and needed == rows_needed(0.15, 0.2, is_floor=False, confidence=0.9)
    assert kept_on_new_rows(0.85, needed, 0.8, is_floor=True, confidence=0.9)
    assert not kept_on_new_rows(0.85, round(0.8 * needed), 0.8, is_floor=True, confidence=0.9)
    assert rows_needed(0.8, 0.8, is_floor=True, confidence=0.9) is None


@pytest.mark.parametrize("margin", [0.0, 1e-15, 1e-9, 1e-7, 1e-6])
def test_a_share_that_just_meets_its_limit_needs_more_rows_than_there_are(margin):
    share = np.nextafter(0.8, 1.0) + margin
    assert rows_needed(share, 0.8, is_floor=True, confidence=0.9) is None
    assert rows_needed(1.0 - share, 0.2, is_floor=False, confidence=0.9) is None
    assert 10**5 < rows_needed(0.8 + 1e-3, 0.8, is_floor=True, confidence=0.9) < 10**6


def test_rows_are_split_by_chance_whatever_their_order():
    P, y = labelled(2000, 3)
    P[1000:] = P[0]
    table, seed = make_table(P, y), 3
    test = _is_tested(table.head, row_keys(table.head), seed)
    # copies are split too, each by its own chance
    assert abs(test[:1000].mean() - 0.5) < 0.06 and abs(test[1000:].mean() - 0.5) < 0.06
    order = np.random.default_rng(0).permutation(2000)
    again = make_table(P[order], y[order]).head
    moved = _is_tested(again, row_keys(again), seed)
    different = (order > 0) & (order < 1000)
    assert (moved[different] == test[order][different]).all()
    for k in range(3):
        assert moved[y[order] == k].sum() == test[y == k].sum()
    assert (_is_tested(table.head, row_keys(table.head), 4) != test).any()


def test_every_class_has_a_row_that_tunes():
    P = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    y = np.r_[np.zeros(57, int), 1, 2, 2]
    table = make_table(P, y).head
    for seed in range(20):
        tuning = ~_is_tested(table, row_keys(table), seed)
        assert set(y[tuning]) == {0, 1, 2}


def test_what_is_said_is_counted_on_rows_that_tuned_nothing():
    P, y = labelled(2000, 3)
    solution = confmax.maximize("accuracy", P, y, constraints=["recall[1] >= 0.6", "rate[2] <= 0.6"], confidence=0.9)
    table = make_table(P, y).head
    test = _is_tested(table, row_keys(table), 0)
    decided = solution.predict(P)
    recall, rate = solution.constraints
    assert recall.label_value == pytest.approx((decided[test & (y == 1)] == 1).mean())
    assert recall.label_rows == (test & (y == 1)).sum() and rate.label_rows == test.sum()
    assert recall.assured and rate.assured and solution.confidence == 0.9 and solution.gap is None
    assert solution.guarantee.startswith("every constraint holds on new rows with confidence 0.9")
    assert solution.label_value == pytest.approx((decided == y)[test].mean())
    # what tuned is the other half: its calibration and rule are those of a call with these rows alone
    assert recall.text == "recall[1] >= 0.6" and recall.limit == 0.6 and recall.slack >= 0.0
    # the rule names the limits that were wanted, not the tightened ones that it was tuned with
    assert solution.rule.constraints == ("recall[1] >= 0.6", "rate[2] <= 0.6")
    order = np.random.default_rng(1).permutation(2000)
    again = confmax.maximize(
        "accuracy", P[order], y[order], constraints=["recall[1] >= 0.6", "rate[2] <= 0.6"], confidence=0.9
    )
    assert (again.predict(P) == decided).mean() > 0.999


def test_labels_of_the_test_rows_change_no_rule_of_the_path():
    """With labels that refute every rule, the safest is returned: the one that they had no part in."""
    P, y = labelled(600, 3)
    table = make_table(P, y).head
    test = _is_tested(table, row_keys(table), 0)
    keys = np.where(test & (y == 1), 0, y)
    with pytest.warns(UserWarning, match="not assured with confidence 0.9: "):
        solution = confmax.maximize(
            "accuracy", P, keys, constraints="recall[1] >= 0.6", confidence=0.9, classes=range(3)
        )
    assert solution.feasible and not solution.constraints[0].assured


def test_a_limit_that_few_rows_cannot_show_says_how_many_would():
    P, y = labelled(24, 3)
    with pytest.warns(UserWarning, match="such rows are needed, and as many more to tune on"):
        solution = confmax.maximize("accuracy", P, y, constraints="recall[2] >= 0.85", confidence=0.95)
    outcome = solution.constraints[0]
    assert outcome.assured is False and outcome.rows_needed > outcome.label_rows
    assert solution.guarantee.startswith("not assured with confidence 0.95: recall[2] >= 0.85 (")


def test_more_rows_test_where_half_of_them_cannot_show_a_limit():
    """Of 28 rows of a class a half cannot show a recall of .88, not even if all are right: 19 rows can."""
    y = np.repeat([0, 1], [200, 28])
    p = np.clip(np.random.default_rng(0).normal(0.15 + 0.7 * y, 0.1), 0.01, 0.99)
    limit = "recall[1] >= 0.88"
    assert not kept_on_new_rows(1.0, 14, 0.88, is_floor=True, confidence=0.9)
    outcome = confmax.maximize("accuracy", np.stack([1 - p, p], axis=1), y, constraints=limit, confidence=0.9,
                               classes=[0, 1]).constraints[0]  # fmt: skip
    assert outcome.assured and outcome.label_rows >= 18
    # enough rows are split in halves, and too few leave a quarter that tunes
    table = make_table(*labelled(2000, 3)).head
    for n, share in ((2000, TESTED), (30, MOST_TESTED)):
        rows = table.take(np.arange(n))
        bound = bind(["recall[1] >= 0.6", "rate[0] <= 0.05"], rows, explicit=True)
        assert _share_tested(bound, rows, 0.9) == share


def test_the_path_goes_to_the_safe_end():
    """A class that the model confuses with another has a recall that only a rule with much room can show."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 160)
    p = np.clip(0.5 + 0.1 * (2 * y - 1) + rng.normal(0, 0.2, 160), 0.01, 0.99)
    found = confmax.maximize("accuracy", np.stack([1 - p, p], axis=1), y, constraints="recall[1] >= 0.93",
                             confidence=0.9, classes=[0, 1])  # fmt: skip
    assert found.constraints[0].assured and found.constraints[0].label_value >= 0.97


def test_limits_that_no_rule_was_met_for_are_an_error():
    P, y = labelled(400, 3)
    with pytest.raises(confmax.Infeasible, match="no rule on this table keeps"):
        confmax.maximize("accuracy", P, y, constraints=["recall[1] >= 0.99", "rate[1] <= 0.02"], confidence=0.9)


@pytest.mark.parametrize("draws", [True, "auto"])
def test_what_is_tested_is_what_predict_decides(draws):
    """Few rows are distinct, and a rule that draws decides equal rows alike."""
    rng = np.random.default_rng(3)
    p1 = np.array([0.1, 0.3, 0.5, 0.8])[rng.choice(4, 300, p=[0.4, 0.3, 0.2, 0.1])]
    P, y = np.stack([1.0 - p1, p1], axis=1), (rng.random(300) < p1).astype(int)
    settings = {"confidence": 0.9, "calibration": None, "randomized": draws, "on_infeasible": "closest"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = confmax.maximize("accuracy", P, y, constraints="recall[1] >= 0.6", **settings)
        decided = found.predict(P)
    assert found.rule.is_randomized <= (draws is True)
    table = make_table(P, y)
    limits = bind(["recall[1] >= 0.6"], table, explicit=True)
    # of a single threshold all rows test
    test = _is_tested(table.head, row_keys(table.head), 0, _share_tested(limits, table, 0.9)) | (draws == "auto")
    assert found.constraints[0].label_value == pytest.approx((decided[test & (y == 1)] == 1).mean())


@pytest.mark.parametrize("limit", ["recall[1] >= 0.6", "recall[0] >= 0.6", "rate[1] <= 0.3"])
@pytest.mark.parametrize("metric", ["accuracy", "f1[0]", "f1[1]", "macro_f1"])
def test_two_classes_are_one_threshold_that_all_rows_test(metric, limit):
    """Of all cuts whose limit passes the exact test, none has a larger value on the labels, whatever is maximised."""
    rng = np.random.default_rng(6)
    p = rng.beta(2, 3, 400)
    y = (rng.random(400) < p).astype(int)
    worth = {
        "accuracy": accuracy_score,
        "f1[0]": partial(f1_score, pos_label=0, zero_division=0.0),
        "f1[1]": partial(f1_score, zero_division=0.0),
        "macro_f1": partial(f1_score, average="macro", zero_division=0.0),
    }[metric]
    found = confmax.maximize(metric, np.c_[1 - p, p], y, constraints=limit, confidence=0.9, calibration=None)
    assert found.tested_on == "all rows" and found.constraints[0].assured and not found.rule.is_randomized
    number, best = float(limit[-3:]), 0.0
    for at in np.append(np.unique(p), 2.0):
        decided = p >= at
        if limit.startswith("rate"):
            passed = stats.binom.cdf(decided.sum(), 400, number) <= 0.1
        else:
            k = int(limit[7])
            passed = stats.binom.sf((decided == y)[y == k].sum() - 1, (y == k).sum(), number) <= 0.1
        best = max(best, worth(y, decided.astype(int)) * passed)
    assert found.label_value == pytest.approx(best, abs=1e-12)
    assert worth(y, found.predict(np.c_[1 - p, p])) == pytest.approx(best, abs=1e-12)


def test_a_sample_of_what_is_tested_and_applied():
    for limit in truth.limits_of(4, 0):
        run = truth.judged(4, 0, 0, limit, "auto")
        assert run.rules == 1 and not (run.assured and run.missed)


def test_a_class_gets_room_by_its_own_number_of_rows():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([3.0, 1.0, 0.3], 4000)
    y = (P.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    table = make_table(P, y)
    apart = Separated.of(bind(["min_recall >= 0.3"], table, explicit=True), table.classes).limits
    sizes = _sizes(apart, table, 1000)
    assert [round(one) for (one,) in sizes] == np.round(np.bincount(y) / 4).astype(int).tolist()
    room = [one.limit - 0.3 for one in _tightened(apart, 1.0, sizes).constraints]
    errors = np.sqrt(0.3 * 0.7 / np.bincount(y) * 4.0)
    assert room == pytest.approx(0.7 * (1.0 - np.exp(-errors / 0.7)), rel=1e-6)


def test_a_group_gets_room_by_its_own_number_of_rows():
    P, y = labelled(1000, 3)
    group = np.array(["a", "b"])[(np.random.default_rng(0).random(1000) < 0.15).astype(int)]
    plan = Plan.checked("accuracy", constraints="min(recall[1] | group) >= 0.5", confidence=0.9)
    table = make_table(P, y).with_groups(Groups.of(group, 1000))
    limits = plan.on(table).limits
    sizes = _sizes(limits, table, 1000)
    (moved,) = _tightened(limits, 2.0, sizes).constraints
    a, b = moved.across.own
    assert 0.5 < a < b == moved.limit < 1.0 and sizes[0][0] > 4 * sizes[0][1]
    values = np.array([a + 0.01, b - 0.01])
    assert moved.across.slack(values, np.zeros(2, bool), moved.stated) == pytest.approx(-0.01)
    outcome = confmax.maximize("accuracy", P, y, constraints="min(recall[1] | group) >= 0.3", group=group,
                               confidence=0.9).constraints[0]  # fmt: skip
    assert outcome.assured and not outcome.blocking


@pytest.mark.parametrize(
    "given, more, message",
    [
        ("recall[1] >= 0.5", {"confidence": 1}, "confidence is a number from 0.5 to below 1"),
        ((), {}, "pass constraints=, or leave it out"),
        ("cohen_kappa >= 0.1", {}, "tests shares of rows, and cohen_kappa is none"),
        ("f1[1] >= 0.1", {}, r"and f1\[1\] is none"),
        (c.cost([[0, 1, 1], [1, 0, 1], [1, 1, 0]]) <= 0.9, {}, "and cost is none"),
        ("g_mean >= 0.1", {}, "and g_mean is none; limit accuracy, coverage, fpr, min_recall, npv"),
        ("recall[1] >= 0.5", {"y": None}, "confidence tests the constraints on labels"),
        ("recall[1] >= 0.5", {"sample_weight": np.arange(1, 121)}, "their weights are not equal"),
    ],
)
def test_what_has_no_confidence_is_refused(given, more, message):
    P, y = labelled(120, 3)
    settings = {"y": y, "confidence": 0.9, "classes": range(3)} | more
    with pytest.raises(ValueError, match=message):
        confmax.maximize("accuracy", P, constraints=given, **settings)


@pytest.mark.parametrize("floor, assured", [(0.4, True), (0.64, False)])
def test_a_floor_on_the_smallest_recall_is_tested_for_each_class(floor, assured):
    P, y = labelled(2000, 3)
    limits = [f"min_recall >= {floor}", "rate[2] <= 0.7"]
    settings = {"confidence": 0.9, "classes": range(3), "on_infeasible": "closest"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if not assured else "error")
        solution = confmax.maximize("accuracy", P, y, constraints=limits, **settings)
    table = make_table(P, y).head
    test = _is_tested(table, row_keys(table), 0, 0.5)
    decided = solution.predict(P)
    sizes = [int((test & (y == k)).sum()) for k in range(3)]
    met = [int((decided[test & (y == k)] == k).sum()) for k in range(3)]
    passed = [binomtest(m, n, floor, alternative="greater").pvalue <= 0.1 for m, n in zip(met, sizes, strict=True)]
    smallest = solution.constraints[0]
    assert len(solution.constraints) == 2 and smallest.text == limits[0] and smallest.limit == floor
    assert smallest.assured == all(passed) == assured
    assert smallest.label_value == pytest.approx(min(m / n for m, n in zip(met, sizes, strict=True)))
    assert smallest.label_rows == sizes[smallest.of_class] and smallest.label_interval is None
    assert solution.rule.constraints == tuple(limits)
    if not assured:
        needs = [
            rows_needed(m / n, floor, is_floor=True, confidence=0.9)
            for m, n, kept in zip(met, sizes, passed, strict=True)
            if not kept
        ]
        assert smallest.rows_needed == (None if None in needs else max(needs))
        assert [one.name for one in smallest.blocking] == [f"class {k}" for k in range(3) if not passed[k]]
        for k, one in (
            (k, next(b for b in smallest.blocking if b.name == f"class {k}")) for k in range(3) if not passed[k]
        ):
            assert (one.label_rows, round(one.label_value * one.label_rows)) == (sizes[k], met[k])
            assert f"class {k}" in solution.guarantee and f"{sizes[k]:,}" in solution.guarantee


def test_limits_of_each_class_are_joined_again():
    """All must pass, and the rows that are needed are those of the class that needs most."""
    table = make_table(*labelled(300, 3))
    limits = bind(["rate[0] <= 0.5", "min_recall >= 0.6"], table, explicit=True)
    apart = Separated.of(limits, table.classes)
    assert apart.limits.texts == ("rate[0] <= 0.5", "recall[0] >= 0.6", "recall[1] >= 0.6", "recall[2] >= 0.6")
    S = Confusion.from_matrix([[0.3, 0.05, 0.05], [0.1, 0.15, 0.05], [0.1, 0.0, 0.2]])
    assert apart.limits.slacks(S)[1:].min() == pytest.approx(limits.slacks(S)[1])
    rate = ConstraintOutcome("rate[0] <= 0.5", 0.5, 0.4, 0.1, 0.4, assured=True)
    recall = ConstraintOutcome("recall[0] >= 0.6", 0.6, 0.75, 0.15, 0.8, 0.1, label_rows=90, assured=True)
    few = replace(recall, value=0.65, slack=0.05, label_value=0.7, label_rows=20, assured=False, rows_needed=40)
    many = replace(few, label_value=0.65, label_rows=30, rows_needed=200)
    first, joined = apart.joined(limits, [rate, recall, few, many])
    assert first is rate and joined.text == "min_recall >= 0.6" and joined.assured is False
    assert (joined.value, joined.slack, joined.label_value) == (0.65, 0.05, 0.65)
    assert (joined.rows_needed, joined.label_rows, joined.of_class) == (200, 30, 2)
    assert joined.price == pytest.approx(0.3)
    assert apart.joined(limits, [rate, recall, replace(few, rows_needed=None), many])[1].rows_needed is None
    good = apart.joined(limits, [rate, recall, replace(few, assured=True), recall])[1]
    assert good.assured and good.rows_needed is None and good.of_class == 1


def test_the_smallest_recall_of_every_group():
    P, y = labelled(1000, 3)
    group = np.array(["a", "b"])[np.random.default_rng(0).integers(0, 2, 1000)]
    limit = "min(min_recall | group) >= 0.3"
    outcome = confmax.maximize("accuracy", P, y, constraints=limit, group=group, confidence=0.9).constraints[0]
    assert outcome.text == limit and outcome.assured
    assert [part.group for part in outcome.by_group] == ["a", "b"]
    assert outcome.label_value == pytest.approx(min(part.label_value for part in outcome.by_group))


@pytest.mark.parametrize("settings", [{}, {"confusion": "labels"}])
def test_searches_start_from_those_before_them(settings):
    """They need fewer passes than searches from nothing, and reach about the same values."""
    P, y = labelled(1500, 3)
    limits = ["recall[1] >= 0.55", "rate[2] <= 0.5"]
    plan = Plan.checked("macro_f1", constraints=limits, prove=False, **settings)
    task = plan.on(make_table(P, y, classes=range(3)))
    searches = Searches(task, 3)
    passes = []
    for room in (0.1, 0.09, 0.08):
        tightened = bind([f"recall[1] >= {0.55 + room}", f"rate[2] <= {0.5 - room}"], task.raw, explicit=True)
        following = searches.following(tightened)
        alone = searches.alone(tightened)
        assert following.solution.feasible and not following.is_out_of_reach
        assert following.solution.value > alone.value - 2e-3
        passes.append((following.solution.n_passes, alone.n_passes))
    (_, *after), (_, *anew) = np.transpose(passes).tolist()
    assert sum(after) < sum(anew)


def test_the_rows_that_test_have_no_part_in_the_path():
    """Rules of the path are the same, whatever the labels of the rows that test say of them."""
    P, y = labelled(900, 3)
    table = make_table(P, y).head
    test = _is_tested(table, row_keys(table), 0)
    rules = []
    for shift in (0, 5):
        labels = y.copy()
        labels[test] = np.roll(y[test], shift)
        task = Plan.checked("accuracy", constraints=["recall[1] >= 0.5", "rate[2] <= 0.6"], confidence=0.9).on(
            make_table(P, labels, classes=range(3))
        )
        parts = task.but(raw=task.raw.rows_where(~test), plan=task.plan.but(prove=False))
        sizes = _sizes(task.limits, parts.raw, int(test.sum()))
        searches = Searches(parts, 3)
        rules.append([searches.following(_tightened(task.limits, step, sizes)).solution.rule for step in (4, 2, 0)])
    for one, other in zip(*rules, strict=True):
        np.testing.assert_array_equal(one.decision_probabilities(P), other.decision_probabilities(P))


def test_progress_counts_the_searches():
    P, y = labelled(600, 3)
    steps = []
    settings = {"constraints": ["recall[1] >= 0.5", "rate[2] <= 0.6"], "confidence": 0.9, "on_infeasible": "closest"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        confmax.maximize("accuracy", P, y, callback=steps.append, **settings)
    numbers = [one.search for one in steps]
    assert numbers == sorted(numbers) and numbers[0] == 1 and 1 < numbers[-1] <= len(STEPS)
    assert {one.n_searches for one in steps} == {len(STEPS)}


@pytest.mark.parametrize("k", range(3, 10))
def test_a_sample_of_what_is_more_than_one_share(k):
    run = benchmark.verdict(benchmark.cases()[k], 0, 0.9)
    assert not run.violated and 0.4 < run.value < 1.0


def test_a_limit_of_groups_is_refused_where_they_are_not_known():
    P, y = labelled(120, 3)
    limits = ["recall[1] >= 0.5", "difference(rate[1] | group) <= 0.1"]
    with pytest.raises(ValueError, match=r"rows of each group for 'difference\(rate\[1\] \| group\) <= 0.1'"):
        confmax.maximize("accuracy", P, y, constraints=limits, confidence=0.9, group_proba=np.full((120, 2), 0.5))


def test_a_sample_of_the_benchmark():
    case = benchmark.cases()[0]
    runs = [benchmark.verdict(case, seed, 0.9) for seed in range(2)]
    assert not any(run.violated for run in runs) and any(run.answered for run in runs)
    assert benchmark.verdict(case, 0, None).value > runs[0].value


def test_rows_that_the_model_was_fitted_on_are_refused():
    P, y = labelled(120, 3)
    raw = make_table(P, y)
    plan = Plan.checked("accuracy", constraints="recall[1] >= 0.5", confidence=0.9)
    with pytest.raises(ValueError, match="rows that neither model nor rule were fitted on"):
        tune(plan.on(raw, out_of_fold=raw))


def test_the_rule_names_the_limits_that_were_wanted():
    """Those that it was tuned with are tightened."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1.0, 1.0, 1.0], 3000)
    y = np.array([rng.choice(3, p=row) for row in P])
    solution = confmax.maximize("accuracy", P, y, constraints="recall[1] >= 0.6", confidence=0.9)
    assert solution.rule.constraints == ("recall[1] >= 0.6",) and solution.constraints[0].assured


@pytest.mark.parametrize("metric, limit", [("recall[1]", "precision[1] >= 0.97"), ("accuracy", "min_recall >= 0.9")])
def test_what_is_out_of_reach_without_a_confidence_is_with_one(metric, limit):
    """The error is the same, and does not speak of limits that nobody wrote."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([3.0, 3.0], 400)
    y = (rng.random(400) < P[:, 1]).astype(int)
    said = []
    for more in ({}, {"confidence": 0.9}):
        with pytest.raises(confmax.Infeasible) as caught:
            # with a confidence a rule is a single one
            confmax.maximize(metric, P, y, constraints=limit, randomized=False, **more)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_a_metric_of_the_whole_matrix_may_be_sure_and_abstain():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), 100)
    y = np.array([rng.choice(4, p=p) for p in P])
    limits = ["accuracy >= 0.5", "coverage >= 0.6"]
    found = confmax.maximize("macro_jaccard", P, y, constraints=limits, abstain=True, confidence=0.6)
    assert found.feasible and found.confidence == 0.6


def test_a_limit_that_is_hardly_met_names_no_number_of_rows():
    """Nobody has a hundred million rows."""
    P, y = labelled(24, 3)
    with pytest.warns(UserWarning, match="not assured"):
        found = confmax.maximize("accuracy", P, y, constraints="recall[2] >= 0.85", confidence=0.95)
    for needed, words in ((1_000_000, "about 1,000,000 such"), (369_054_565, "even a million rows would be too few")):
        (one,) = found.constraints
        told = replace(found, constraints=(replace(one, rows_needed=needed),)).guarantee
        assert words in told and "369" not in told


def test_a_precision_is_sure_beside_a_coverage():
    """The coverage counts what is decided, too, and has no class."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 900)
    y = (P.cumsum(axis=1) > rng.random((900, 1))).argmax(axis=1)
    limits = ["precision[1] >= 0.5", "coverage >= 0.7"]
    found = confmax.maximize("accuracy", P, y, abstain=True, constraints=limits, confidence=0.8)
    assert all(one.assured for one in found.constraints)
    decided = found.predict(P)
    assert (decided != found.rule.abstain).mean() >= 0.7 and (y[decided == 1] == 1).mean() >= 0.5
