"""What a report says of every class: the rows that it gets, and thresholds only where the rule is one."""

import numpy as np
import pandas as pd
import pytest

import confmax
from confmax import DecisionRule
from confmax.calibration import Temperature
from confmax.confusion import Gains
from confmax.evaluate.thresholds import favours
from confmax.page import words
from confmax.page.charts import charts
from tests.export_helpers import beside, rule
from tests.report_helpers import cross_fit, judge, sample

NAMES = ["VF", "F", "M", "L"]


def test_ranges_are_those_of_rows():
    """The rule of which a report said that it decides L above .906: most of these rows lie below."""
    data = pd.read_csv(confmax.__path__[0] + "/data/hpc_cv.csv")
    P, y = data[NAMES].to_numpy(), data["obs"].to_numpy()
    solution = confmax.maximize("accuracy", P[::2], y[::2], classes=NAMES,
                                constraints=["recall[L] >= 0.6", "rate[L] <= 0.12"])  # fmt: skip
    found = judge(solution, P[1::2], y[1::2], "accuracy", replicates=0)
    decided = solution.rule.predict_index(P[1::2])
    for k, row in enumerate(found.classes):
        sentence = words.class_sentence(found, k)
        p, others = P[1::2][decided == k, k], P[1::2][decided != k, k]
        assert f"where its probability is {p.min():.3f} to {p.max():.3f}; in the other rows it is " in sentence
        assert f"it is {others.min():.3f} to {others.max():.3f}." in sentence
        assert row.threshold is None and "exceeds" not in sentence and "argmax: " not in sentence
    assert found.classes[3].rows.inside[0] < 0.05 and np.mean(P[1::2][decided == 3, 3] < 0.906) > 0.5
    weights = [row.favour[0] for row in found.classes]
    assert min(weights) == 1.0
    assert f"Its calibrated probability counts {weights[3]:.3g} times." in words.class_sentence(found, 3)
    assert "Its calibrated probability counts once." in " ".join(words.class_sentences(found))


def test_a_rule_that_is_a_threshold_says_so():
    P, y = sample(400, 4)
    exported = rule(beside(4, 3, 0.5), Temperature(1.5), NAMES)
    found = judge(exported, P, np.array(NAMES)[y], replicates=0)
    assert [row.threshold for row in found.classes] == [None, None, None, 0.5]
    assert words.class_sentence(found, 3).startswith(
        "L is decided when its calibrated probability is at least 0.500, whatever the others have. It is decided for "
    )
    assert words.class_sentence(found, 0).startswith("VF is decided for ")
    never = judge(rule(beside(4, 3, never=-1.0), names=NAMES), P, np.array(NAMES)[y], replicates=0)
    assert words.class_sentence(never, 3).startswith("L is decided in no row, whatever the others have. It is decided ")
    assert "for none of these rows. Its probability is 0.000 to " in words.class_sentence(never, 3)
    always = judge(rule(beside(4, 3, never=1.0), names=NAMES), P, np.array(NAMES)[y], replicates=0)
    assert "for all of these rows. Its probability is 0.000 to " in words.class_sentence(always, 3)


def test_how_often_a_probability_counts():
    offsets = DecisionRule(Gains.reduced([2.0, 1.0, 4.0], [0.0, -0.5, 0.0]), np.ones(1), ("a", "b", "c"))
    assert favours(offsets) == [(2.0, 0.0), (1.0, -0.5), (4.0, 0.0)]
    P, y = sample(300)
    found = judge(offsets, P, np.array(["a", "b", "c"])[y], replicates=0)
    assert "Its probability counts once, less 0.500." in words.class_sentence(found, 1)
    others = rule(beside(4, 1, 0.5, Gains.reduced([1.0, 5.0, 3.0, 2.0])))
    assert favours(others) == [(1.0, 0.0), None, (pytest.approx(3.0), 0.0), (2.0, 0.0)]
    assert favours(rule(beside(4, 1, 0.5))) == [None] * 4
    assert favours(rule(Gains.from_matrix(np.eye(3)))) == [None] * 3


def test_rows_without_weight_and_draws():
    P, y = sample(300)
    drawn = DecisionRule(Gains.reduced([[1.0, 1.0, 1.0], [1.0, 3.0, 1.0]]), np.array([0.6, 0.4]), ("0", "1", "2"))
    weight = np.where(np.arange(300) < 150, 1.0, 0.0)
    found = judge(drawn, P, y.astype(str), weight=weight, replicates=0)
    hit = (P.argmax(axis=1) == 1)[:150]
    row = found.classes[1]
    assert row.rows.share == pytest.approx(hit.mean()) and row.favour is None
    assert row.rows.inside == (P[:150, 1][hit].min(), P[:150, 1][hit].max())
    assert "A row counts below for the class that is decided at least half of the time." in " ".join(
        words.how_it_decides(found)
    )


def test_folds_are_compared_by_the_share_of_rows():
    P, y = sample(400)
    found = cross_fit("macro_f1", P, y, replicates=0)
    for k, row in enumerate(found.classes):
        shares = [(one.rule.predict_index(P) == k).mean() for one in found.evidence.solutions]
        assert row.folds == (pytest.approx(min(shares)), pytest.approx(max(shares)))
        assert row.level == pytest.approx((found.evidence.rule.predict_index(P) == k).mean())
        assert row.level_plain == pytest.approx((P.argmax(axis=1) == k).mean())
        assert "%" in words.fold_range(found, row)
    assert "share of rows" in words.outside_folds(found) and "threshold" not in words.outside_folds(found)
    assert charts(found)["thresholds"].description.startswith("Share of rows of 3 classes")
