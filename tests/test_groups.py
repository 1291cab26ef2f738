"""Groups that a rule knows: limits of groups, rules with gains for each, and the layout of groups side by side."""

import numpy as np
import pandas as pd
import pytest

import confmax
from confmax import constraints as c
from confmax.confusion import Confusion, Gains, Layout
from confmax.constraints.across import Difference, Ratio
from confmax.metrics import catalogue
from confmax.metrics.decided import of_decided
from confmax.metrics.views import view
from confmax.oracle import make_oracle, make_table
from confmax.tables.groups import Groups
from tests.helpers import population
from tests.test_abstaining import program


def random_groups(rng, n, G):
    group = rng.integers(0, G, n)
    group[:G] = np.arange(G)
    return group


# --- side by side -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("further", [0, 1])
@pytest.mark.parametrize("full", [False, True])
def test_one_scan_decides_every_group_by_its_gains(full, further):
    rng = np.random.default_rng(full)
    G, K, n, B = 3, 4, 60, 5
    P, y, group = rng.dirichlet(np.ones(K), n), rng.integers(0, K, n), random_groups(rng, n, G)
    weight = rng.random(n)
    layout = Layout(G, K, further)
    table = make_table(P, y, weight).with_groups(Groups.of(group, n)).side_by_side(further)
    parts = [
        Gains.from_matrix(rng.normal(size=(B, K, K + further))) if full
        else Gains(rng.random((B, K)), 0.1 * rng.normal(size=(B, K + further)))
        for _ in range(G)
    ]  # fmt: skip
    gains = layout.beside(parts)
    for g in range(G):
        np.testing.assert_array_equal(layout.gains_of(gains, g).matrices(), parts[g].matrices())
    for mode in ("model", "labels"):
        S = make_oracle(table, mode).maximize(gains, matrix=True)
        total = layout.total(S)
        expected = np.zeros((B, K, K + further))
        for g in range(G):
            rows = group == g
            decisions = make_table(P[rows]).head.decide(parts[g])
            truth = P[rows] if mode == "model" else np.eye(K)[y[rows]]
            for b in range(B):
                np.add.at(expected[b].T, decisions[b], truth * weight[rows, None])
            seen_here = layout.of_block(S, g)
            np.testing.assert_allclose(seen_here.rows, (truth * weight[rows, None]).sum(0) / weight[rows].sum())
            np.testing.assert_allclose(seen_here.matrix.sum(axis=(1, 2)), 1.0)
        np.testing.assert_allclose(total.matrix, expected / weight.sum(), atol=1e-12)
        np.testing.assert_allclose(total.columns, total.matrix.sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(total.diagonal, np.diagonal(total.matrix, axis1=1, axis2=2), atol=1e-12)


@pytest.mark.parametrize("name", ["accuracy", "g_mean", "macro_f1", "cohen_kappa", "min_recall", "quadratic_kappa"])
@pytest.mark.parametrize("group", [None, 1])
def test_metrics_of_groups_and_their_derivatives(name, group):
    rng = np.random.default_rng(len(name))
    layout = Layout(2, 3)
    C = np.zeros((6, 6))
    C[:3, :3], C[3:, 3:] = rng.dirichlet(np.ones(9), 2).reshape(2, 3, 3) * [[[0.3]], [[0.7]]]
    metric = view(confmax.metrics.get(name), layout, group)
    alone = C[:3, :3] + C[3:, 3:] if group is None else C[3:, 3:] / 0.7
    S = Confusion.from_matrix(C)
    assert float(metric.values(S)) == pytest.approx(confmax.metrics.get(name).value(alone))
    first = metric.at(S)
    G = metric.gains(first).matrices()[0]
    for _ in range(5):
        # rows go from one decision to another in their group
        move = np.zeros((6, 6))
        i, (j, k) = rng.integers(0, 6), rng.permutation(3)[:2]
        move[i, 3 * (i // 3) + j], move[i, 3 * (i // 3) + k] = 1e-7, -1e-7
        rise = float(metric.values(Confusion.from_matrix(C + move)) - metric.values(Confusion.from_matrix(C - move)))
        assert (G * move).sum() * 2 == pytest.approx(rise, abs=1e-12)
    functions = metric.as_functions(S.rows, 6)
    if functions is not None and metric.structure.name == "linear":
        assert functions.values(S)[0] == pytest.approx(float(metric.values(S)))
    ratios = metric.as_ratios(S.rows, 6)
    if ratios is not None and name != "quadratic_kappa":
        assert ratios.weights @ ratios.values(S) == pytest.approx(float(metric.values(S)))


# --- the best rules ---------------------------------------------------------------------------------------------------


def of_rows(P, M, group, g, k):
    """Return what decisions of the rows of group g add to the recall and to the rate of class k there."""
    mine = group == g
    recall, rate = np.zeros((len(P), M)), np.zeros((len(P), M))
    recall[mine, k], rate[mine, k] = P[mine, k] / P[mine, k].sum(), 1 / mine.sum()
    return recall, rate


@pytest.mark.parametrize("seed", [1, 2, 6, 8])
def test_tiny_tables_against_a_program_over_their_rows(seed):
    rng = np.random.default_rng(seed)
    K, n, G = int(rng.integers(2, 4)), int(rng.integers(8, 24)), int(rng.integers(2, 4))
    P, group = population(seed, n, K)[0], random_groups(rng, n, G)
    M = K + seed % 2
    ones, hits = np.full((n, M), 1 / n), np.hstack([P / n, np.zeros((n, M - K))])
    low, floor = rng.uniform(0.01, 0.2), rng.uniform(0.3, 0.8)
    pairs = [(a, b) for a in range(G) for b in range(G) if a != b]
    recalls, rates = zip(*(of_rows(P, M, group, g, 1) for g in range(G)), strict=True)
    if M == K:
        chance = ones * P.mean(axis=0)
        cases = [
            ("accuracy", [f"difference(recall[1] | group) <= {low}"], hits, ones,
             [low * ones - recalls[a] + recalls[b] for a, b in pairs]),
            ("accuracy", [f"min(recall[1] | group) >= {floor}"], hits, ones, [one - floor * ones for one in recalls]),
            ("cohen_kappa", [f"ratio(rate[1] | group) >= {floor}"], hits - chance, ones - chance,
             [rates[a] - floor * rates[b] for a, b in pairs]),
        ]  # fmt: skip
    else:
        decided = ones * (np.arange(M) < K)
        cases = [
            ("accuracy", [f"min(coverage | group) >= {floor}"], hits, decided,
             [decided * (group == g)[:, None] * n / (group == g).sum() - floor * ones for g in range(G)]),
            ("coverage", [f"min(accuracy | group) >= {floor}"], decided, ones,
             [(hits - floor * decided) * (group == g)[:, None] for g in range(G)]),
        ]  # fmt: skip
    for metric, limits, top, bottom, rows in cases:
        expected = program(top, bottom, rows)
        settings = {"constraints": limits, "group": group, "abstain": M > K}
        if expected is None:
            with pytest.raises(confmax.Infeasible):
                confmax.maximize(metric, P, **settings)
            continue
        found = confmax.maximize(metric, P, randomized=True, **settings)
        assert found.value == pytest.approx(expected, abs=1e-6)
        assert found.upper_bound >= expected - 1e-9
        assert all(one.slack >= 0 for one in found.constraints)
        # the rule is the truth
        D = found.rule.decision_probabilities(P, group=group)
        np.testing.assert_allclose((P[:, :, None] * D[:, None]).mean(axis=0), found.confusion, atol=1e-12)


def labelled(n, K, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.7), n)
    y = (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return P, y, np.where(rng.random(n) < 0.2 + 0.6 * P[:, 0], "a", "b")


@pytest.mark.parametrize("metric", ["g_mean", "min_recall"])
def test_groups_by_other_names_change_nothing(metric):
    P, _, group = labelled(400, 3)
    limit = "difference(rate[1] | group) <= 0.02"
    found = confmax.maximize(metric, P, constraints=limit, group=group, randomized=True)
    other = confmax.maximize(metric, P, constraints=limit, group=np.where(group == "a", "z", "b"), randomized=True)
    assert found.value == pytest.approx(other.value, abs=2e-6)
    assert found.constraints[0].value <= 0.02 + 1e-12


# --- what a person gives and gets -------------------------------------------------------------------------------------


def test_predictions_need_the_group_of_every_row():
    P, y, group = labelled(300, 2)
    found = confmax.maximize("accuracy", P, y, constraints="min(recall[1] | group) >= 0.8", group=group)
    rule = found.rule
    assert rule.groups == ("a", "b") and rule.n_classes == 2 and rule.n_decisions == 2
    decided = rule.predict(P, group=group)
    for name in "ab":
        np.testing.assert_array_equal(decided[group == name], rule.of_group(name).predict(P[group == name]))
    frame = pd.DataFrame(P, columns=["0", "1"])
    np.testing.assert_array_equal(rule.predict(frame, group=pd.Series(group)), decided)
    np.testing.assert_array_equal(found.predict(P, group=group), decided)
    for call, sentence in [
        (lambda: rule.predict(P), "pass group=, the group of every row"),
        (lambda: rule.predict(P, group=["c"] * 300), "row 0 has the group 'c', which the rule does not know"),
        (lambda: rule.predict(P, group=group[:5]), "one name per row of proba: 300 rows"),
        (lambda: rule.predict(P, group=[None, *group[1:]]), "row 0 of group is missing"),
        (lambda: rule.of_group("a").predict(P, group=group), "leave group out"),
        (lambda: rule.of_group("x"), "its groups are a, b"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_a_list_may_hold_groups_of_several_types():
    """NumPy makes texts of all entries, which name other groups."""
    P, y, _ = labelled(300, 2)
    group = ["a", 1] * 150
    rule = confmax.maximize("accuracy", P, y, constraints="min(recall[1] | group) >= 0.8", group=group).rule
    assert rule.groups == (1, "a")
    np.testing.assert_array_equal(rule.predict(P, group=group), rule.predict(P, group=np.array(group, dtype=object)))


def test_draws_in_groups_are_those_of_their_rules():
    P, _, group = labelled(500, 3)
    with pytest.warns(UserWarning, match="equal recalls of several classes"):
        found = confmax.maximize(
            "accuracy", P, constraints=[f"difference(recall[{k}] | group) <= 0.001" for k in range(3)], group=group,
            randomized=True,
        )  # fmt: skip
    assert found.rule.is_randomized
    keys = np.arange(500)
    decided = found.rule.predict(P, group=group, keys=keys)
    shares = found.rule.decision_probabilities(P, group=group)
    assert (shares[np.arange(500), decided] > 0).all()
    backward = found.rule.predict(P[::-1], group=group[::-1], keys=keys[::-1])
    np.testing.assert_array_equal(backward[::-1], decided)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"group": ["a", "b"] * 20}, "through constraints that speak of groups, and there are none"),
        ({"group": ["a", "b"] * 20, "constraints": "recall[1] >= 0.5"}, "there are none; add one"),
        ({"constraints": "min(recall[1] | group) >= 0.5"}, "speaks of groups, and there are none; pass group="),
        ({"group": ["a"] * 40, "constraints": "difference(rate[1] | group) <= 0.1"}, "compares groups, and there is"),
        ({"group": ["a", None] * 20, "constraints": "min(recall[1] | group) >= 0.5"}, "row 1 of group is missing"),
        ({"group": range(40), "constraints": "min(recall[1] | group) >= 0.5"}, "has no row of class"),
        ({"group": ["a"] * 39, "constraints": "min(recall[1] | group) >= 0.5"}, "one name per row"),
        ({"group": ["a"] * 20 + ["b"] * 20, "constraints": "min(recall[1] | group) >= 0.5"},
         "group 'a' has no row of class 1"),
        ({"group": ["a", "b"] * 20, "constraints": "difference(recall[1] | group) <= 0.1", "abstain": True},
         "depends on the rule"),
        ({"group": ["a"] * 10 + ["b"] * 30, "constraints": "ratio(rate[1] | group) >= 0.8", "abstain": True},
         "largest if next to nothing is decided"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(settings, sentence):
    P, y = np.tile([[0.9, 0.1], [0.2, 0.8]], (20, 1)), np.repeat([0, 1], 20)
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("accuracy", P, y, **settings)


def test_more_groups_than_rows_can_carry():
    with pytest.raises(ValueError, match="at most 100; join small groups"):
        Groups.of(np.arange(200), 200)


def test_few_rows_of_a_class_in_a_group_are_named():
    P, y, group = labelled(60, 2)
    with pytest.warns(UserWarning, match="hold on new rows by luck"):
        confmax.maximize("accuracy", P, y, constraints="min(recall[1] | group) >= 0.5", group=group)


def test_objects_and_texts_are_the_same_limits():
    assert c.parse("min(recall[VF]|group) >= 70 %") == (c.recall("VF").per_group() >= 0.7)
    assert c.parse("max(fpr[VF] | group) <= 0.1") == (c.fpr("VF").per_group() <= 0.1)
    assert c.parse("difference(rate[VF] | group) <= 0.02") == (c.rate("VF").difference() <= 0.02)
    assert c.parse("ratio(rate[VF] | group) >= 0.8") == (c.rate("VF").ratio() >= 0.8)


# --- limits that hold on new rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit", ["min(recall[1] | group) >= 0.6", "difference(rate[1] | group) <= 0.15", "ratio(rate[1] | group) >= 0.6"]
)
def test_confidence_tests_every_group(limit):
    P, y, group = labelled(3000, 2)
    found = confmax.maximize("accuracy", P, y, constraints=limit, group=group, confidence=0.9)
    (outcome,) = found.constraints
    assert outcome.assured and outcome.slack >= 0
    # the rows that test are others than those that tune, and those of both groups
    rows = sum(part.label_rows for part in outcome.by_group)
    assert rows < (0.6 * (y == 1).sum() if "recall" in limit else 0.6 * 3000)
    assert "with confidence 0.9" in found.guarantee


def test_too_few_rows_of_a_group_assure_nothing():
    P, y, group = labelled(400, 2)
    with pytest.warns(UserWarning, match="not assured with confidence 0.9"):
        found = confmax.maximize(
            "accuracy", P, y, constraints="difference(recall[1] | group) <= 0.01", group=group, confidence=0.9
        )
    assert not found.constraints[0].assured


def test_the_error_of_a_difference_is_shared_by_both_groups():
    """On known proportions a difference that is too large passes in at most a tenth of all samples."""
    rng = np.random.default_rng(0)
    near = (c.rate(1).difference() <= 0.05).stated
    wrong = [Difference().passes(near, rng.binomial(200, [0.5, 0.551]) / 200, [200, 200], 0.9) for _ in range(2000)]
    assert np.mean(wrong) <= 0.1
    assert Difference().passes(near, [0.5, 0.5], [20000, 20000], 0.9)
    strict, loose = ((c.rate(1).ratio() >= limit).stated for limit in (0.99, 0.7))
    assert not Ratio().passes(strict, [0.5, 0.4], [2000, 2000], 0.9)
    assert Ratio().passes(loose, [0.5, 0.45], [2000, 2000], 0.9)


# --- groups that are not known ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 5])
def test_rules_by_the_probabilities_of_groups_against_a_program(seed):
    rng = np.random.default_rng(seed)
    K, n, G = int(rng.integers(2, 4)), int(rng.integers(8, 24)), int(rng.integers(2, 4))
    P, Q = population(seed, n, K)[0], rng.dirichlet(np.ones(G), n)
    ones, hits = np.full((n, K), 1 / n), P / n
    low, floor = rng.uniform(0.01, 0.1), rng.uniform(0.3, 0.7)
    recalls = []
    for g in range(G):
        recalls.append(np.zeros((n, K)))
        recalls[g][:, 1] = Q[:, g] * P[:, 1] / (Q[:, g] @ P[:, 1])
    pairs = [(a, b) for a in range(G) for b in range(G) if a != b]
    chance = ones * P.mean(axis=0)
    cases = [
        ("accuracy", f"difference(recall[1] | group) <= {low}", hits, ones,
         [low * ones - recalls[a] + recalls[b] for a, b in pairs]),
        ("cohen_kappa", f"min(recall[1] | group) >= {floor}", hits - chance, ones - chance,
         [one - floor * ones for one in recalls]),
    ]  # fmt: skip
    for metric, limit, top, bottom, rows in cases:
        expected = program(top, bottom, rows)
        found = confmax.maximize(metric, P, constraints=limit, group_proba=Q, randomized=True)
        assert found.value == pytest.approx(expected, abs=1e-6)
        assert found.upper_bound >= expected - 1e-9
        assert found.constraints[0].slack >= 0
        D = found.rule.decision_probabilities(P, group_proba=Q)
        np.testing.assert_allclose((P[:, :, None] * D[:, None]).mean(axis=0), found.confusion, atol=1e-12)


def test_probabilities_of_zero_and_one_allow_less_than_groups():
    """A rule that knows the groups is at least as good as one that has their probabilities."""
    P, y, group = labelled(300, 3)
    Q = pd.DataFrame({"a": group == "a", "b": group == "b"}).astype(float)
    limit = "difference(rate[1] | group) <= 0.02"
    for settings in ({}, {"y": y, "confusion": "labels", "calibration": None}):
        known = confmax.maximize("accuracy", P, constraints=limit, group=group, randomized=True, **settings)
        shares = confmax.maximize("accuracy", P, constraints=limit, group_proba=Q, randomized=True, **settings)
        if settings:
            assert shares.constraints[0].value <= 0.02 + 1e-12
        else:
            # sure probabilities of groups say as much as groups
            assert shares.value == pytest.approx(known.value, abs=2e-6)
    assert shares.rule.groups == ("a", "b") and not shares.rule.groups_known
    np.testing.assert_array_equal(
        shares.rule.predict(P, group_proba=Q[["b", "a"]], keys=np.arange(300)),
        shares.rule.predict(P, group_proba=Q.to_numpy(), keys=np.arange(300)),
    )


def test_what_rules_by_probabilities_of_groups_refuse():
    P, y, group = labelled(200, 2)
    Q = np.full((200, 2), 0.5)
    limit = "min(recall[1] | group) >= 0.5"
    found = confmax.maximize("accuracy", P, y, constraints=limit, group_proba=Q)
    aware = confmax.maximize("accuracy", P, constraints=limit, group=group)
    for call, sentence in [
        (lambda: confmax.maximize("accuracy", P, constraints=limit, group=group, group_proba=Q), "not both"),
        (lambda: confmax.maximize("accuracy", P, constraints=limit, group_proba=Q[:5]), "200 rows; got 5"),
        (lambda: confmax.maximize("accuracy", P, constraints=limit, group_proba=Q * 0.7), "sum"),
        (lambda: confmax.maximize("accuracy", P, group_proba=Q), "group_proba changes the rule only through"),
        (lambda: confmax.maximize("accuracy", P, y, constraints=limit, group_proba=Q, confidence=0.9), "pass group="),
        (lambda: found.predict(P), "pass group_proba="),
        (lambda: found.predict(P, group=group), "pass group_proba="),
        (lambda: found.predict(P, group_proba=np.full((200, 3), 1 / 3)), "has 3 columns and the rule has 2 groups"),
        (lambda: found.rule.of_group(0), "no group has its own rule"),
        (lambda: aware.predict(P, group_proba=Q), "leave group_proba out"),
        (lambda: aware.rule.of_group("a").predict(P, group_proba=Q), "leave group_proba out"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_what_no_rule_keeps_is_proved():
    P, _, group = labelled(400, 3)
    limits = ["min(recall[1] | group) >= 0.95", "min(recall[0] | group) >= 0.95", "rate[2] >= 0.3"]
    with pytest.raises(confmax.Infeasible, match="no rule on this table keeps") as error:
        confmax.maximize("accuracy", P, constraints=limits, group=group)
    closest = error.value.closest
    assert not closest.feasible and closest.status.name == "INFEASIBLE"
    # the largest share that can be decided as one class under the other limits is named, and is right
    limits = ["min(recall[1] | group) >= 0.5", "min(recall[0] | group) >= 0.5"]
    with pytest.raises(confmax.Infeasible, match=r"rate\[2\] reaches at most 0\.\d+ under the other limits"):
        confmax.maximize("accuracy", P, constraints=[*limits, "rate[2] >= 0.9"], group=group)


# --- scores by group --------------------------------------------------------------------------------------------------


def test_scores_by_group_are_those_of_the_rows_of_each():
    P, y, group = labelled(400, 3)
    rule = confmax.maximize("accuracy", P, y, constraints="min(recall[1] | group) >= 0.6", group=group).rule
    names, settings = ["accuracy", "macro_f1", "recall[1]"], {"n_replicates": 50}
    result = confmax.score(names, P, y, rule, group=group, **settings)
    assert list(result.by_group) == ["a", "b"]
    for name, part in result.by_group.items():
        mine = group == name
        alone = confmax.score(names, P[mine], y[mine], rule.of_group(name), **settings)
        for metric in names:
            estimate = part.estimate("rule", metric)
            assert estimate.value == alone.estimate("rule", metric).value
            assert part.estimate("argmax", metric).value == alone.estimate("argmax", metric).value
            assert estimate.low <= estimate.value <= estimate.high
        # divided by the class sizes of all rows, not by those of the group
        prior = np.bincount(y) / len(y)
        assert part.estimate("p/prior", "accuracy").value == pytest.approx(
            ((P[mine] / prior).argmax(axis=1) == y[mine]).mean()
        )
    decided = rule.predict(P, group=group)
    assert result.estimate("rule", "accuracy").value == pytest.approx((decided == y).mean())
    assert set(result.to_dict()["groups"]) == {"a", "b"} and "Group a:" in repr(result)
    frame = result.to_frame()
    assert frame["group"].isna().sum() == 9 and (frame["group"] == "b").sum() == 9


def test_scores_of_rules_of_groups_need_the_groups():
    P, y, group = labelled(400, 3)
    rule = confmax.maximize("accuracy", P, y, constraints="min(recall[1] | group) >= 0.6", group=group).rule
    with pytest.raises(ValueError, match="pass group=, the group of every row"):
        confmax.score("accuracy", P, y, rule, n_replicates=0)
    with pytest.raises(ValueError, match="one name per row"):
        confmax.score("accuracy", P, y, rule, group=group[:3], n_replicates=0)
    # any rule is scored by group
    plain = confmax.score("accuracy", P, y, group=group, n_replicates=0)
    assert plain.by_group["a"].n_rows == (group == "a").sum()
    with pytest.raises(ValueError, match="does not know"):
        confmax.score("accuracy", P, y, rule, group=np.where(group == "a", "c", group), n_replicates=0)


def test_scores_of_rules_that_do_not_know_the_groups_are_refused_by_name():
    P, y, _ = labelled(300, 2)
    Q = np.full((300, 2), 0.5)
    rule = confmax.maximize("accuracy", P, constraints="min(recall[1] | group) >= 0.5", group_proba=Q).rule
    with pytest.raises(ValueError, match="group_proba"):
        confmax.score("accuracy", P, y, rule, n_replicates=0)
    # what it decides can be scored
    decided = rule.predict(P, group_proba=Q)
    value = confmax.score("accuracy", P, y, decided, n_replicates=0).estimate("rule").value
    assert value == pytest.approx((decided == y).mean())


def test_a_metric_of_what_is_decided_in_a_group():
    layout = Layout(2, 2, 1)
    metric = of_decided(catalogue.quantity("accuracy"), 2)
    C = np.zeros((4, 6))
    C[:2, [0, 1, 4]] = [[0.2, 0.05, 0.05], [0.05, 0.1, 0.05]]
    C[2:, [2, 3, 5]] = [[0.1, 0.1, 0.0], [0.1, 0.1, 0.1]]
    S = Confusion.from_matrix(C)
    assert float(view(metric, layout, 0).values(S)) == pytest.approx(0.3 / 0.4)
    assert float(view(metric, layout).values(S)) == pytest.approx(0.5 / 0.8)


def test_one_group_is_no_group():
    P, y, _ = labelled(400, 3)
    for settings in ({}, {"y": y, "confusion": "labels"}):
        plain = confmax.maximize("accuracy", P, constraints="recall[1] >= 0.8", **settings)
        alone = confmax.maximize(
            "accuracy", P, constraints="min(recall[1] | group) >= 0.8", group=np.zeros(400), **settings
        )
        assert alone.value == pytest.approx(plain.value, abs=1e-6 if not settings else 0.01)
        if not settings:
            np.testing.assert_array_equal(alone.predict(P, group=np.zeros(400)), plain.predict(P))


@pytest.mark.parametrize("K", [2, 3])
def test_a_class_is_limited_beside_groups_of_which_no_class_is(K):
    """The blend has a share of the model for every group."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(K), 600)
    y = (P.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
    group = np.array(["a", "b"])[random_groups(rng, 600, 2)]
    limits = ["recall[1] >= 0.4", "min(accuracy | group) >= 0.3"]
    found = confmax.maximize("accuracy", P, y, group=group, constraints=limits)
    decided = found.predict(P, group=group)
    assert found.feasible and (decided[y == 1] == 1).mean() >= 0.35
    assert min((decided == y)[group == g].mean() for g in "ab") >= 0.3
