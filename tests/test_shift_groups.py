"""Other rows of rules that decide by groups: their limits are checked without labels."""

from dataclasses import replace

import numpy as np
import pytest

import confmax
from tests.parts_helpers import cut

OF_GROUPS = (
    "difference(rate[1] | group) <= 0.05",
    "ratio(rate[1] | group) >= 0.7",
    "max(rate[1] | group) <= 0.4",
    "rate[1 | w] <= rate[1 | m] + 0.1",
    "rate[1] <= 0.5",
    "min(recall[1] | group) >= 0.3",
)


def rows_of_groups(n, seed, gap=0.0):
    draw = np.random.default_rng(seed)
    group = np.where(draw.random(n) < 0.4, "w", "m")
    p = 1.0 / (1.0 + np.exp(-draw.normal(-1.0 + gap * (group == "w"), 2.0, n)))
    return np.c_[1.0 - p, p], (draw.random(n) < p).astype(int), group


@pytest.fixture(scope="module")
def by_groups():
    P, y, group = rows_of_groups(3000, 0)
    return confmax.maximize("accuracy", P, y, group=group, constraints=list(OF_GROUPS), calibration=None)


def test_limits_of_groups_are_checked_without_labels(by_groups):
    P, _, group = rows_of_groups(1500, 5, gap=2.0)
    found = confmax.shift.detect(P, by_groups, group=group)
    decided = by_groups.rule.predict(P, group=group) == 1
    np.testing.assert_allclose(found.decided, [1.0 - decided.mean(), decided.mean()])
    m, w = (decided[group == name].mean() for name in "mw")
    values = dict(zip(OF_GROUPS, [abs(m - w), min(m, w) / max(m, w), max(m, w), w - m, decided.mean()], strict=False))
    assert {one.text: one.value for one in found.promises} == pytest.approx(values)
    assert all(low <= value <= high for _, value, (low, high), _ in found.promises)
    broken = {one.text for one in found.promises if found.p_values[one.text] < 0.05}
    assert broken == set(OF_GROUPS[:4]) and found.changed
    # weights count as repeated rows, and a group may be absent
    twice = confmax.shift.detect(
        np.r_[P, P], by_groups, group=np.r_[group, group], sample_weight=np.repeat([1.0, 0.0], 1500)
    )
    assert {one.text: one.value for one in twice.promises} == pytest.approx(values)
    alone = confmax.shift.detect(P[group == "w"], by_groups, group=group[group == "w"])
    assert [one.text for one in alone.promises] == [OF_GROUPS[4], OF_GROUPS[2]]


def test_false_alarms_of_rules_of_groups_are_rare(by_groups):
    tables = [rows_of_groups(800, 100 + k) for k in range(60)]
    assert sum(confmax.shift.detect(P, by_groups, group=group).changed for P, _, group in tables) <= 6


def test_groups_of_new_rows_are_known(by_groups):
    P, y, group = rows_of_groups(200, 7)
    for given, sentence in (({}, "pass `?group"), ({"group": group == "w"}, "does not know; its groups are 'm', 'w'")):
        with pytest.raises(ValueError, match=sentence):
            confmax.shift.detect(P, by_groups, **given)
    with pytest.raises(ValueError, match=r"decides all groups alike.*leave `?group"):
        confmax.shift.detect(P, confmax.maximize("accuracy", P, y), group=group)
    with pytest.raises(
        ValueError, match="a rule that decides by groups needs all rows in memory, and these lie in parts"
    ):
        confmax.shift.detect(cut(P, at=(100,)), by_groups, group=group)
    with pytest.raises(ValueError, match=r"which rows are of which group is not known; check a rule .* with group="):
        confmax.shift.detect(P, replace(by_groups.rule, groups_known=False))
    with pytest.raises(ValueError, match="decides by groups, whose shares may change"):
        by_groups.adapt(P)
    with pytest.raises(ValueError, match=r"whose shares may change.*; tune a rule on rows of the new kind"):
        by_groups.rule.shifted("balanced")
