"""The frontier of several labels: beside `maximize` and enumeration, on other rows, and as a command."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

import confmax
from tests.cli_helpers import document, refusal, run
from tests.label_files import table
from tests.test_label_limits import best, drawn, on_label

NAMES = ["a", "b", "c"]
SET = {"classes": NAMES, "decisions": "any"}


def rows(n=300, seed=0):
    draw = np.random.default_rng(seed)
    P = draw.beta(1, 2.5, (n, 3))
    return P, (draw.random(P.shape) < P).astype(int)


@pytest.mark.parametrize("name", ["macro_f1", "hamming", "g_mean"])
@pytest.mark.parametrize("estimate", ["model", "labels"])
def test_no_thresholds_are_better_at_any_level(name, estimate):
    P, Y = drawn(7, seed=3)
    found = confmax.frontier(
        name, "recall[b] >=", P, Y, levels=[0.3, 0.6, 0.9], confusion=estimate, calibration=None, **SET
    )
    recall = on_label("recall", 1)
    S = P if estimate == "model" else Y
    for level, solution in zip(found.levels, found.solutions, strict=True):
        expected = best(name, P, S, lambda S, level=level: recall(S) >= level - 1e-12)
        assert solution.value == pytest.approx(expected, abs=1e-12)
        assert solution.rule.constraints == (f"recall[b] >= {level:g}",) or solution.constraints[-1].value >= level
    assert (found.upper_bounds >= found.values - 1e-12).all()


@pytest.mark.parametrize("limit", ["labels_per_row <=", "rate[a] + 2 rate[b] <=", "precision[c] >=", "rate[a] >="])
@pytest.mark.parametrize("name", ["macro_f1", "micro_f1"])
def test_every_level_is_at_least_as_good_as_that_of_maximize(name, limit):
    P, Y = rows()
    found = confmax.frontier(name, limit, P, Y, levels=5, **SET)
    sign = -1 if limit.endswith("<=") else 1
    assert (np.diff(found.levels) * sign > 0).all() and (np.diff(found.values) <= 1e-12).all()
    for level, value, reached in zip(found.levels, found.values, found.reached, strict=True):
        alone = confmax.maximize(name, P, Y, constraints=f"{limit} {float(level)!r}", on_infeasible="closest", **SET)
        assert value >= alone.value - 1e-12
        assert (reached - level) * sign >= -1e-9
    # where nothing is protected, the loosest level changes nothing; beside limits a label of micro F1 may have its own
    # threshold, which is better
    exact = {**SET, "confusion": "labels"}
    loosest = confmax.frontier(name, limit, P, Y, levels=2, **exact).values[0]
    without = confmax.maximize(name, P, Y, **exact).value
    assert loosest == pytest.approx(without) or (name == "micro_f1" and loosest > without)


def test_the_tightest_level_is_the_best_that_the_other_limits_leave():
    P, Y = drawn(8, seed=1)
    found = confmax.frontier(
        "macro_recall", "precision[b] >=", P, Y, levels=4, confusion="labels", calibration=None,
        constraints="recall[b] >= 0.5", **SET,
    )  # fmt: skip
    recall, precision = on_label("recall", 1), on_label("precision", 1)
    kept = []
    best("hamming", P, Y, lambda S: recall(S) >= 0.5 - 1e-12 and kept.append(precision(S)) is None)
    assert found.levels[-1] == pytest.approx(max(kept), abs=2e-3) and found.reached[-1] <= max(kept) + 1e-12
    assert all(one.constraints[0].kept for one in found.solutions)


def test_on_other_rows_it_is_that_of_scikit_learn():
    P, Y = rows()
    Q, Z = rows(500, seed=1)
    w = np.random.default_rng(2).integers(1, 4, len(Q)).astype(float)
    found = confmax.frontier("macro_f1", "labels_per_row <= 0.9", P, Y, levels=4, **SET)
    assert found.asked == 0.9 and 0.9 in found.levels
    curve = found.on(Q, Z, sample_weight=w)
    for k, rule in enumerate(found.rules):
        H = rule.predict(Q)
        assert curve.values[k] == pytest.approx(f1_score(Z, H, average="macro", sample_weight=w))
        assert curve.reached[k] == pytest.approx(np.average(H.sum(axis=1), weights=w))
        assert curve.intervals[k, 0] <= curve.values[k] <= curve.intervals[k, 1]
    per_row, value = curve.marks["p > 0.5"]
    assert value == pytest.approx(f1_score(Z, Q > 0.5, average="macro", sample_weight=w))
    assert per_row == pytest.approx(np.average((Q > 0.5).sum(axis=1), weights=w))
    assert found.at(0.9).constraints[-1].value <= 0.9
    assert found.on_labels.values == pytest.approx(found.on(P, Y, n_replicates=0).values)
    assert found.values.min() <= found.area() <= found.values.max()
    assert "the best macro_f1 at" in str(found) and "labels_per_row &lt;=" in found._repr_html_()
    # of large tables the rules are judged one by one, on the same replicates
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("confmax.frontiers.result.ENTRIES", 1)
        apart = found.on(Q, Z, sample_weight=w)
    assert (apart.intervals == curve.intervals).all() and apart.marks == curve.marks
    without = confmax.frontier("macro_f1", "recall[b]", P, levels=3, **SET)
    assert without.on_labels is None and (without.upper_bounds >= without.values).all()


def test_of_a_label_that_is_never_decided_the_precision_has_no_value():
    P, Y = rows()
    found = confmax.frontier("hamming", "rate[b] <=", P, Y, levels=[0.0, 0.2], **SET)
    never = confmax.frontier("macro_f1", "precision[b] >=", P, Y, levels=[0.3, 0.5], **SET)
    curve = never.on(np.full((20, 3), 0.01), np.eye(3, dtype=int)[np.arange(20) % 3], n_replicates=0)
    assert np.isnan(curve.reached).all() and found.reached[-1] == 0.0


def test_picture():
    pytest.importorskip("matplotlib")
    P, Y = rows(100)
    found = confmax.frontier("macro_f1", "recall[b]", P, Y, levels=3, **SET)
    axes = found.plot().ax_
    assert (
        axes.get_xlabel() == "recall[b] >=" and "p > 0.5, on the tuning labels" in axes.get_legend_handles_labels()[1]
    )


def test_bad_input_is_one_sentence():
    P, Y = rows(60)
    cases = {
        "there is no label 'x'": ("recall[x]", {}),
        "rules of several labels do not abstain": ("coverage >=", {}),
        "the frontier of 'labels_per_row' has no direction; write 'labels_per_row <=', or >=": ("labels_per_row", {}),
        "decisions=2 gives every row so many labels": ("labels_per_row <=", {"decisions": 2}),
        "group is of one class for every row": ("recall[a]", {"group": Y[:, 0]}),
        "there is no metric 'accuracyy'": ("recall[a]", {"metric": "accuracyy"}),
        "precision.a. >= 0.99": ("recall[a]", {"constraints": ["precision[a] >= 0.99", "recall[a] >= 0.9"]}),
    }
    for sentence, (limit, more) in cases.items():
        given = {"metric": "macro_f1", **SET, "levels": 3, **more}
        with pytest.raises(ValueError, match=sentence):
            confmax.frontier(given.pop("metric"), limit, P, Y, **given)
    with pytest.raises(ValueError, match="shrinkage is of several labels per row"):
        confmax.frontier("accuracy", "recall[1]", P[:, :2] / P[:, :2].sum(1)[:, None], shrinkage=True)


@pytest.mark.usefixtures("inside")
def test_the_command_prints_the_frontier():
    path = table()
    labels = ("--labels", "sea,sun,rain")
    line = ("frontier", path, "--decisions", "any", *labels, "--metric", "macro_f1", "--over", "labels_per_row <= 1.2")
    found = document(*line, "--levels", "4")
    assert (
        found["limit"] == "labels_per_row <="
        and found["asked"] == 1.2
        and found["label_columns"] == labels[1].split(",")
    )
    assert [list(found["marks"])] == [["p > 0.5"]] and len(found["points"]) == 5
    printed = run(*line, "--levels", "4", "--subject-to", "recall[sea] >= 0.2")[0]
    assert "the best macro_f1 at" in printed and "p > 0.5, on the labels" in printed
    assert "--labels is for several labels per row" in refusal("frontier", path, *labels, *line[6:])
    assert "which --abstain is not for" in refusal(*line, "--abstain", "x")


def test_other_rows_that_cannot_judge_a_frontier_are_refused():
    P, Y = rows()
    path = confmax.frontier("macro_f1", "recall[0] >=", P, Y, decisions="any", levels=2)
    with pytest.raises(ValueError, match="read on labels; pass y, the true class of every row"):
        path.on(P, None)
    with pytest.raises(ValueError, match="group is of one class for every row"):
        path.on(P, Y, group=Y[:, 0])
    none = Y.copy()
    none[:, 0] = 0
    with pytest.raises(ValueError, match=r"these rows cannot judge recall\[0\]: no row has its label"):
        path.on(P, none)
