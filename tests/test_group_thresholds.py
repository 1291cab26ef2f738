"""Two classes within limits on labels: thresholds against enumeration and linear programs."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.metrics import f1_score

import confmax
from confmax.confusion import Gains
from confmax.optimize import Status
from confmax.optimize.group_thresholds import GroupThresholds

# small tables are compared with enumeration, and the library says that they are small
pytestmark = [
    pytest.mark.filterwarnings("ignore:group .* rows of class:UserWarning"),
    pytest.mark.filterwarnings("ignore:the log loss of the probabilities:UserWarning"),
]

LIMITS = {
    "difference": "difference(recall[1] | group) <= 0.02",
    "no difference": "difference(recall[1] | group) <= 0",
    "floor": "min(recall[1] | group) >= 0.7",
    "ratio": "ratio(rate[1] | group) >= 0.9",
    "precision": "min(precision[1] | group) >= 0.6",
    "all rows": "rate[1] <= 0.35",
}


def rows_of(n, seed, by_zero=False):
    """Probabilities with ties, labels that follow them loosely, and two groups."""
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(n), 1 if seed % 2 else 3)
    if by_zero:
        p = 1.0 - 1e-12 * p
    group = rng.integers(0, 2, n)
    group[:2] = 0, 1
    y = (rng.random(n) < 0.2 + 0.5 * p + 0.2 * group).astype(int)
    y[:4] = 0, 0, 1, 1
    group[2:4] = 0, 1
    return np.column_stack([1.0 - p, p]), y, np.array(["a", "b"])[group]


@pytest.fixture
def kept(monkeypatch):
    """The thresholds of runs, with their problems."""
    found, of = [], GroupThresholds.of

    def keep(problem):
        found.append((problem, of(problem)))
        return found[-1][1]

    monkeypatch.setattr(GroupThresholds, "of", keep)
    return found


def tuned(P, y, group, limit, metric="accuracy", **settings):
    grouped = {"group": group} if "group" in limit else {}
    return confmax.maximize(
        metric, P, y, constraints=limit, confusion="labels", calibration=None, **grouped, **settings
    )


def all_rules(P, group):
    """Every single rule: one threshold, or one for each group, as decisions (B, n)."""
    cells = [np.ones(len(P), bool)] if group is None else [group == name for name in np.unique(group)]
    lines = []
    for cell in cells:
        cuts = np.append(np.unique(P[cell, 1]), 2.0)
        lines.append([(P[:, 1] >= cut) & cell for cut in cuts])
    return np.array([np.any(parts, axis=0) for parts in itertools.product(*lines)])


def judged(decided, y, group, limit, metric):
    """Value and slack of decisions (B, n), from their counts."""
    cells = [group == name for name in np.unique(group)]
    hits, right = decided & (y == 1), decided == (y == 1)

    def of(rows):
        with np.errstate(invalid="ignore", divide="ignore"):
            recall = hits[:, rows].sum(1) / (y[rows] == 1).sum()
            precision = hits[:, rows].sum(1) / decided[:, rows].sum(1)
        return {"recall": recall, "rate": decided[:, rows].mean(1), "precision": precision}

    every = of(np.ones(len(y), bool))
    both = {name: np.array([of(cell)[name] for cell in cells]) for name in every}
    slack = {
        "difference": 0.02 - np.ptp(both["recall"], axis=0),
        "no difference": -np.ptp(both["recall"], axis=0),
        "floor": both["recall"].min(0) - 0.7,
        # 0 / 0 keeps a floor on the precision, and a ratio
        "ratio": (both["rate"].min(0) - 0.9 * both["rate"].max(0)),
        "precision": np.nan_to_num(both["precision"], nan=1.0).min(0) - 0.6,
        "all rows": 0.35 - every["rate"],
    }[limit]
    f1 = 2 * hits.sum(1) / np.maximum(decided.sum(1) + (y == 1).sum(), 1)
    other = 2 * (right & ~decided).sum(1) / np.maximum((~decided).sum(1) + (y == 0).sum(), 1)
    return {"accuracy": right.mean(1), "f1": f1, "macro_f1": (f1 + other) / 2}[metric], slack


@pytest.mark.parametrize(
    ("metric", "limit"),
    [*itertools.product(["accuracy", "f1"], LIMITS), ("macro_f1", "difference"), ("macro_f1", "precision")],
)
def test_the_best_single_rule_is_that_of_all_pairs_of_thresholds(limit, metric):
    for seed in range(2):
        P, y, group = rows_of(40, seed)
        found = tuned(P, y, group, LIMITS[limit], metric, randomized=False)
        assert len(found.rule.weights) == 1
        values, slack = judged(all_rules(P, None if limit == "all rows" else group), y, group, limit, metric)
        assert found.value == pytest.approx(values[slack >= -1e-12].max(), abs=1e-12), seed


def root_recalls(C):
    return np.sqrt(np.diagonal(C) / C.sum(axis=1)).mean()


def slope_of_roots(C):
    with np.errstate(divide="ignore"):
        return np.diag(0.5 / np.sqrt(np.diagonal(C) * C.sum(axis=1)) / len(C))


def program(P, y, group, limit):
    """The largest accuracy of all rules that draw between the thresholds of each group, by a linear program."""
    n, parts = len(y), []
    for name in np.unique(group):
        cell = group == name
        cuts = np.append(np.unique(P[cell, 1]), 2.0)
        above = P[cell, 1] >= cuts[:, None]
        positive = y[cell] == 1
        parts.append(((above == positive).sum(1) / n, (above & positive).sum(1) / positive.sum(), above.mean(1)))
    right, recall, rate = (np.concatenate(part) for part in zip(*parts, strict=True))
    first = np.arange(len(right)) < len(parts[0][0])
    sign = np.where(first, 1.0, -1.0)
    A, b = {
        "difference": ([sign * recall, -sign * recall], [0.02, 0.02]),
        "no difference": ([sign * recall, -sign * recall], [0.0, 0.0]),
        "floor": ([-recall * first, -recall * ~first], [-0.7, -0.7]),
        "ratio": ([rate * np.where(first, 0.9, -1.0), rate * np.where(first, -1.0, 0.9)], [0.0, 0.0]),
    }[limit]
    found = linprog(-right, A_ub=A, b_ub=b, A_eq=[first, ~first], b_eq=[1.0, 1.0])
    return -found.fun


@pytest.mark.parametrize("limit", ["difference", "no difference", "floor", "ratio"])
def test_rules_that_draw_reach_the_program_over_thresholds(limit):
    for seed in range(2):
        P, y, group = rows_of(120, seed)
        found = tuned(P, y, group, LIMITS[limit], randomized=True)
        # where the limits leave no room, prices need not close the gap
        assert found.feasible and (found.status is Status.OPTIMAL or limit == "no difference")
        assert found.value == pytest.approx(program(P, y, group, limit), abs=2e-6), seed
        # the program knows nothing of draws of all groups at once: these are what is evaluated
        chances = found.rule.decision_probabilities(P, group=group)[:, 1]
        assert np.where(y == 1, chances, 1 - chances).mean() == pytest.approx(found.value, abs=1e-9)


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("seed", [0, 1, "rare"])
def test_answers_are_the_best_thresholds_for_a_gain(kept, grouped, seed):
    P, y, group = rows_of(60, 3 if seed == "rare" else seed, by_zero=seed == "rare")
    tuned(P, y, group, LIMITS["floor"] if grouped else "recall[1] >= 0.5", randomized=False)
    problem, thresholds = kept[-1]
    rng = np.random.default_rng(0)
    G = 2 if grouped else 1
    for gains in (
        Gains(rng.normal(size=(9, 2 * G)), rng.normal(size=(9, 2 * G))),
        Gains(rng.random((9, 2 * G)), 0.1 * rng.normal(size=(9, 2 * G))),
    ):
        rules, answers = thresholds.answers(gains)
        # the oracle decides by the thresholds that are returned, and counts the same
        again = problem.oracle.maximize(rules)
        np.testing.assert_allclose(answers.diagonal, again.diagonal, atol=1e-12)
        np.testing.assert_allclose(answers.columns, again.columns, atol=1e-12)
        heights, every = gains.dot(answers), []
        for decided in all_rules(P, group if grouped else None):
            height = np.zeros(9)
            for g in range(G):
                cell = group == "ab"[g] if grouped else np.ones(len(y), bool)
                for j in range(2):
                    taken = cell & (decided == bool(j))
                    height += gains.a[:, 2 * g + j] * (taken & (y == j)).mean() + gains.b[:, 2 * g + j] * taken.mean()
            every.append(height)
        np.testing.assert_allclose(heights, np.max(every, axis=0), atol=1e-12)


@pytest.mark.parametrize("metric", ["accuracy", "f1", "g_mean", "min_recall", "macro_f1"])
@pytest.mark.parametrize("limit", ["difference", "floor", "ratio", "precision"])
def test_a_rule_of_three_groups_that_is_called_the_best_is(kept, monkeypatch, limit, metric):
    ends, search = [], GroupThresholds.single

    def single(self, problem, columns, near):
        ends.append(search(self, problem, columns, near))
        return ends[-1]

    monkeypatch.setattr(GroupThresholds, "single", single)
    for seed in range(3):
        P, y, group = rows_of(40, 2 * seed)
        third = np.arange(40) % 3 == 2
        y[third] = (P[third, 1] > np.median(P[third, 1])) ^ (np.arange(third.sum()) % 4 == 0)
        tuned(P, y, np.where(third, "c", group), LIMITS[limit], metric, randomized=False, on_infeasible="closest")
        problem, thresholds = kept[-1]
        places = np.indices([len(part.values) for part in thresholds.parts]).reshape(3, -1)
        missed, values = problem.ranks(thresholds._confusions(list(places)))
        best = values[missed == 0.0].max(initial=-np.inf)
        _, answer, proved = ends[-1]
        # nothing is proved where no mixture keeps the limits, and of a metric that is no concave function
        assert proved == (best > -np.inf and metric != "macro_f1")
        if proved:
            assert problem.rank(answer[0]) == pytest.approx((0.0, best), abs=1e-12), seed


def test_of_rules_that_miss_a_limit_by_the_same_the_better_one_is_the_closest():
    p = np.array([0.21, 0.83, 0.15, 0.51, 0.14, 0.69, 0.84, 0.43, 0.96, 0.83, 0.34, 0.58])
    y, group = np.array([0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]), np.array(list("bbababbaabba"))
    limit = "difference(accuracy | group) <= 0"
    closest = tuned(np.column_stack([1 - p, p]), y, group, limit, randomized=False, on_infeasible="closest")
    # to decide all rows as class 0 misses it by the same 1 / 35, but for rounding, and is right for 5 of 12
    assert not closest.feasible and closest.value == pytest.approx(7 / 12)


def test_where_no_rule_keeps_the_limits_the_closest_is_that_of_all_thresholds():
    P, y, _ = rows_of(60, 2)
    limits = ["recall[1] >= 0.9", "rate[1] <= 0.2"]
    closest = confmax.maximize(
        "accuracy", P, y, constraints=limits, confusion="labels", calibration=None, randomized=False,
        on_infeasible="closest",
    )  # fmt: skip
    decided = all_rules(P, None)
    recall, rate = (decided & (y == 1)).sum(1) / (y == 1).sum(), decided.mean(1)
    missed = np.maximum(0.9 - recall, rate - 0.2)
    assert not closest.feasible and missed.min() > 0.05
    at = {one.text: one.value for one in closest.constraints}
    assert max(0.9 - at[limits[0]], at[limits[1]] - 0.2) == pytest.approx(missed.min(), abs=1e-12)


def test_a_metric_without_a_slope_where_the_limits_lead_is_searched_all_the_same():
    P, y, group = rows_of(40, 2)
    roots = confmax.metrics.from_function(root_recalls, gradient=slope_of_roots, structure="concave", name="roots")
    found = tuned(P, y, group, "max(recall[1] | group) <= 0", roots, randomized=False)
    decided = all_rules(P, group)
    # no row of class 1 may be found, and the root of a recall of zero has a slope without end
    kept = ~(decided & (y == 1)).any(1)
    specificity = (~decided & (y == 0)).sum(1) / (y == 0).sum()
    assert found.feasible and found.value == pytest.approx(np.sqrt(specificity[kept]).max() / 2, abs=1e-12)


def test_more_classes_abstaining_and_unknown_groups_have_no_thresholds(kept):
    P, y, group = rows_of(60, 0)
    tuned(P, y, group, "coverage >= 0.8", randomized=False, abstain=True)
    Q = np.column_stack([0.5 * P, 0.5 * np.ones(60)])
    Q /= Q.sum(1, keepdims=True)
    labels = np.where(np.arange(60) % 3 == 0, 2, y)
    tuned(Q, labels, group, "min(recall[2] | group) >= 0.2", randomized=False)
    shares = np.full((60, 2), 0.5)
    confmax.maximize("accuracy", P, y, group_proba=shares, constraints=LIMITS["floor"], confusion="labels")
    assert [thresholds for _, thresholds in kept] == [None] * len(kept) and kept


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_large_groups_are_searched_near_and_far(monkeypatch, metric):
    from confmax.optimize import group_thresholds

    P, y, group = rows_of(200, 2)
    limit = LIMITS["difference"]
    whole = tuned(P, y, group, limit, metric, randomized=False)
    monkeypatch.setattr(group_thresholds, "CELLS", 2000)
    monkeypatch.setattr(group_thresholds, "BATCH", 300)
    part = tuned(P, y, group, limit, metric, randomized=False)
    assert part.feasible and whole.value >= part.value >= whole.value - 0.01


def test_what_only_climbs_is_not_called_optimal():
    P, y, group = rows_of(200, 2)
    drawn = tuned(P, y, group, LIMITS["all rows"], "macro_f1", randomized=True)
    single = tuned(P, y, group, LIMITS["all rows"], "macro_f1", randomized=False)
    assert drawn.status is Status.STALLED and drawn.value >= single.value - 1e-12
    # without groups all thresholds are compared
    best = max(
        f1_score(y, decided.astype(int), average="macro", zero_division=0)
        for decided in all_rules(P, None)
        if decided.mean() <= 0.35
    )
    assert single.value == pytest.approx(best, abs=1e-12)
