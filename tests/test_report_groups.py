"""Reports of rows in groups: values by group, limits of groups, the rules of groups, and what is refused."""

import functools
import re
from functools import partial

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, recall_score

import confmax
from confmax.evaluate.evidence import tuned_on
from confmax.evaluate.trade_off import trade_off
from confmax.metrics import get
from confmax.oracle import make_table
from confmax.page import sections
from confmax.page.words import number
from confmax.tables.draws import folds_to_judge
from confmax.tables.groups import Groups
from tests.report_helpers import judge, sample

pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")

LIMITS = ("min(recall[1] | group) >= 0.6", "difference(rate[0] | group) <= 0.1", "rate[2] <= 0.7")


def grouped(n=500, seed=0, K=3):
    """Return probabilities, labels and groups of which one has more rows of the first class."""
    P, y = sample(n, K, seed=seed)
    men = np.random.default_rng(seed).random(n) < 0.2 + 0.6 * P[:, 0]
    return P, y, np.where(men, "men", "women")


@functools.cache
def tuned(*limits, **more):
    P, y, group = grouped()
    return confmax.maximize("accuracy", P, y, group=group, constraints=limits or LIMITS, **more)


judged = partial(judge, metric="accuracy", second="macro_f1", replicates=99)


def page(tmp_path, rule, P, y, **more):
    path = tmp_path / "page.html"
    confmax.report.write(path, rule, P, y, n_replicates=49, **more)
    text = re.sub(r"<(script|style).*?</\1>", " ", path.read_text(), flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", text).replace("&gt;", ">").replace("&lt;", "<").split())


@pytest.mark.parametrize("weighted", [False, True])
def test_values_by_group_are_those_of_scikit_learn(weighted):
    solution, (P, y, group) = tuned(), grouped(400, seed=1)
    weight = np.random.default_rng(2).integers(1, 4, len(y)) * 1.0 if weighted else np.ones(len(y))
    found = judged(solution, P, y, group=group, weight=weight if weighted else None)
    decided = solution.rule.predict(P, group=group)
    assert found.main.tuned.value == pytest.approx(accuracy_score(y, decided, sample_weight=weight))
    assert [one.name for one in found.groups] == ["men", "women"]
    for one in found.groups:
        mine = group == one.name
        rows = {row.name: row for row in one.metrics}
        for rule, what in (("tuned", decided), ("argmax", P.argmax(1))):
            kept = {"sample_weight": weight[mine]}
            expected = f1_score(y[mine], what[mine], average="macro", **kept)
            assert getattr(rows["macro_f1"], rule).value == pytest.approx(expected)
            assert getattr(rows["accuracy"], rule).value == pytest.approx(accuracy_score(y[mine], what[mine], **kept))
        assert rows["accuracy"].tuned.low <= rows["accuracy"].tuned.value <= rows["accuracy"].tuned.high
        assert one.share == pytest.approx(weight[mine].sum() / weight.sum())
        assert one.changed == pytest.approx(np.average((decided != P.argmax(1))[mine], weights=weight[mine]))


def test_limits_of_groups_have_the_values_of_the_groups():
    solution, (P, y, group) = tuned(confusion="model", calibration=None), grouped(400, seed=1)
    recall, rate, all_rows = judged(solution, P, y, group=group).limits.rows
    for one, what in (("labels", solution.rule.predict(P, group=group)), ("argmax", P.argmax(1))):
        recalls = [recall_score(y[group == g], what[group == g], labels=[1], average=None)[0]
                   for g in ("men", "women")]  # fmt: skip
        rates = [(what[group == g] == 0).mean() for g in ("men", "women")]
        assert [getattr(part, one).value for part in recall.by_group] == pytest.approx(recalls)
        assert getattr(recall, one).value == pytest.approx(min(recalls))
        assert [getattr(part, one).value for part in rate.by_group] == pytest.approx(rates)
        assert getattr(rate, one).value == pytest.approx(abs(rates[0] - rates[1]))
    decided = solution.rule.predict(P, group=group)
    share = [P[(group == g) & (decided == 1), 1].sum() / P[group == g, 1].sum() for g in ("men", "women")]
    assert [part.expected for part in recall.by_group] == pytest.approx(share)
    assert recall.expected == pytest.approx(min(share))
    assert recall.kept == (recall.labels.value >= 0.6) and rate.kept == (rate.labels.value <= 0.1)
    # each group must keep a floor: the interval of any may hold it, and where one lies below it nothing is unsure
    lows, highs = zip(*((part.labels.low, part.labels.high) for part in recall.by_group), strict=True)
    assert recall.unsure == (
        any(low <= 0.6 <= high for low, high in zip(lows, highs, strict=True)) and min(highs) >= 0.6
    )
    assert rate.unsure == (rate.labels.low <= 0.1 <= rate.labels.high)
    assert not all_rows.by_group and all_rows.labels.low is not None


def test_groups_of_few_rows_are_named_and_one_group_has_no_spread():
    P, y, group = grouped()
    group = np.where(np.arange(500) < 5, "other", group)
    rule = confmax.maximize("accuracy", P, y).rule
    found = judged(rule, P, y, group=group)
    assert "Too few rows of other (5): their values depend on single rows." in sections.compared(found)
    assert sections.which(found).startswith("There are 3 groups: men (")
    _, lines = sections.side_by_side(found)[0]
    tuned_values, plain = ([getattr(row, rule).value for _, row in lines] for rule in ("tuned", "argmax"))
    assert sections.spread(lines, "argmax") == (
        f"largest difference of groups: argmax {number(max(plain) - min(plain))}, "
        f"tuned rule {number(max(tuned_values) - min(tuned_values))}"
    )
    alone = judged(rule, P, y, group=np.full(500, "all"))
    assert sections.which(alone) == "There is one group: all (500 rows). The rule decides all groups alike."
    assert sections.spread(sections.side_by_side(alone)[0][1], "argmax") == ""


def test_the_trade_off_ends_at_the_rule_of_every_group():
    solution, (P, y, group) = tuned(calibration=None), grouped(400, seed=1)
    found = judged(solution, P, y, group=group)
    way = trade_off(found.evidence.parts, (get("accuracy"), get("macro_f1")))
    at = {round(t, 6): value for t, value in zip(way.steps, way.tuned, strict=True)}
    assert at[0.0] == pytest.approx((P.argmax(1) == y).mean())
    assert at[1.0] == pytest.approx((solution.rule.predict(P, group=group) == y).mean())


def test_tuning_rows_are_known_by_their_groups():
    P, y, group = grouped()
    solution, table = tuned(), make_table(P, y)
    assert tuned_on(solution, table.with_groups(Groups.of(group, len(P))))
    swapped = Groups.of(np.where(group == "men", "women", "men"), len(P))
    assert not tuned_on(solution, table.with_groups(swapped))
    assert not tuned_on(solution, table.with_groups(Groups.of(group == "men", len(P))))
    assert not tuned_on(solution, table)


def test_pages_show_groups_for_rules_with_and_without_them(tmp_path):
    P, y, group = grouped(400, seed=1)
    solution = tuned()
    text = page(tmp_path, solution, P, y, group=group)
    sizes = [(group == name).sum() for name in ("men", "women")]
    assert f"There are 2 groups: men ({sizes[0]} rows) and women ({sizes[1]} rows)." in text
    assert "The rule decides each group by a rule of its own." in text and "decided as each class, by group" in text
    assert "The groups of min(recall[1] | group) >= 0.6" in text
    assert re.search(r"difference\(rate\[\d\] \| group\) <= [\d.]+ \S+ \S+ \[\S+, \S+\]", text)
    assert "neither the best rule without limits nor a line over one limit" in text
    assert "confmax.report.write" not in text and "proba, y, group=group)" in text
    plain = page(tmp_path, confmax.DecisionRule.from_weights([1, 2, 3]), P, y, metric="g_mean", group=group)
    assert "The rule decides all groups alike." in plain and "by group" not in plain
    assert "There are 2 groups" not in page(
        tmp_path, confmax.DecisionRule.from_weights([1, 2, 3]), P, y, metric="g_mean"
    )


def test_pages_of_rules_that_abstain_in_groups(tmp_path):
    P, y, group = grouped(400, seed=1)
    solution = tuned("min(recall[1] | group) >= 0.6", "coverage >= 0.8", abstain=True)
    found = judged(solution, P, y, group=group)
    decided = solution.rule.predict_index(P, group=group)
    for one in found.groups:
        mine = (group == one.name) & (decided < 3)
        assert one.metrics[0].tuned.value == pytest.approx((decided == y)[mine].mean())
    assert found.undecided.shares[0].rule.value == pytest.approx((decided == 3).mean())
    assert found.undecided.path is None
    assert "Rows left undecided" in page(tmp_path, solution, P, y, group=group)


def test_names_of_groups_cannot_break_the_page(tmp_path):
    P, y, group = grouped(200, seed=1)
    strange = np.where(group == "men", "<b>men</b>", "women")
    confmax.report.write(tmp_path / "page.html", confmax.DecisionRule.from_weights([1, 2, 3]), P, y, metric="accuracy",
                         group=strange, n_replicates=0)  # fmt: skip
    text = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;men" in text and "<b>men" not in text


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        (None, "this rule decides by groups; pass group=, the group of every row"),
        (["men"], "400 rows"),
        (["tall"] * 400, "the rule does not know the group 'tall'"),
    ],
)
def test_groups_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path, group, sentence):
    P, y, _ = grouped(400, seed=1)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        confmax.report.write(tmp_path / "page.html", tuned(), P, y, group=group)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("decides_by_groups", [False, True])
def test_a_group_without_weight_is_named(tmp_path, decides_by_groups):
    P, y, group = grouped(400, seed=1)
    rule = tuned().rule if decides_by_groups else confmax.DecisionRule.from_weights([1, 2, 3])
    weight, sentence = (group == "men") * 1.0, "all rows of group 'women' have the weight zero"
    with pytest.raises(ValueError, match=f"{sentence}|group 'women' has no weight"):
        confmax.report.write(tmp_path / "page.html", rule, P, y, weight, group=group, metric="accuracy")
    with pytest.raises(ValueError, match=sentence):
        confmax.score("accuracy", P, y, rule, sample_weight=weight, group=group)
    assert not list(tmp_path.iterdir())


def test_rules_by_probabilities_of_groups_are_refused(tmp_path):
    P, y, group = grouped(300)
    shares = np.column_stack([np.where(group == "men", 0.8, 0.3), np.where(group == "men", 0.2, 0.7)])
    solution = confmax.maximize("accuracy", P, y, group_proba=shares, constraints="min(recall[1] | group) >= 0.5")
    with pytest.raises(ValueError, match="decides by the probabilities of groups, which a table does not hold"):
        solution.report(tmp_path / "page.html", P, y)


def test_displays_of_one_rule_refuse_rules_of_groups():
    pytest.importorskip("matplotlib")
    from confmax import plotting

    P, y, _ = grouped(300)
    for display in (plotting.ConfusionChangeDisplay, plotting.TradeOffDisplay, plotting.RiskCoverageDisplay):
        with pytest.raises(ValueError, match=r"this rule decides by groups; show rule\.of_group"):
            display.from_solution(tuned(), P, y)


@pytest.mark.parametrize("limits", [LIMITS])
def test_pages_that_are_cross_fitted_show_groups(tmp_path, limits):
    """The rows of a fold are decided by the rule of their group that was tuned without them."""
    P, y, group = grouped()
    path = tmp_path / "page.html"
    solution = confmax.report.write_cross_fitted(
        path, "accuracy", P, y, group=group, constraints=limits, n_replicates=49, calibration=None
    )
    assert solution.rule.groups == (("men", "women") if limits else ())
    fold = folds_to_judge(make_table(P, y).head, 5, 0)
    decided = np.empty(len(y), dtype=np.int64)
    for k in range(5):
        held = fold == k
        more = {"group": group[~held], "constraints": limits} if limits else {}
        rule = confmax.maximize(
            "accuracy", P[~held], y[~held], classes=range(3), randomized=False, calibration=None, **more
        ).rule
        decided[held] = rule.predict_index(P[held], **({"group": group[held]} if limits else {}))
    text = re.sub(r"<(script|style).*?</\1>", " ", path.read_text(), flags=re.S)
    text = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    assert "write_cross_fitted(" in text and "group=group" in text
    for name in ("men", "women"):
        mine = group == name
        value = accuracy_score(y[mine], decided[mine])
        assert re.search(rf"{value:.4f}".rstrip("0"), text) or f"{value:.3f}" in text, (name, value)


def test_groups_of_pages_that_are_cross_fitted_are_checked(tmp_path):
    P, y, group = grouped()
    for given, sentence in (
        ({"group": group[:7]}, "group must have one name per row of proba: 500 rows"),
        ({"constraints": LIMITS[0]}, "speaks of groups, and there are none"),
    ):
        with pytest.raises(ValueError, match=sentence):
            confmax.report.write_cross_fitted(tmp_path / "page.html", "accuracy", P, y, **given)
    assert not list(tmp_path.iterdir())
