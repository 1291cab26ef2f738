"""Rules with groups decide Dask collections as they decide arrays: lazily, and a bad group is named with its part."""

from dataclasses import replace

import numpy as np
import pytest

import confmax
from confmax.calibration import Temperature
from confmax.confusion import Gains
from tests.dask_helpers import LENGTHS, da, dask, dd, frame_of, labelled, pd, rows

GAINS = Gains.reduced(
    [[1, 1, 1, 1, 1, 3, 1, 1], [2, 1, 1, 2, 1, 1, 2, 1]], [[0] * 8 + [0.4, 0.5], [0] * 8 + [0.5, 0.6]]
)
CLASSES = (*"abcd", "ask")


def rule_of(groups=("men", "women"), *, drawing=False):
    gains, weights = (GAINS, [0.4, 0.6]) if drawing else (GAINS[0], [1.0])
    return confmax.DecisionRule(
        gains, np.array(weights), CLASSES, seed=5, calibrator=Temperature(1.3), abstain="ask", groups=groups
    )


def given(groups=("men", "women")):
    P, y, weight = labelled()
    group = np.array(groups)[np.random.default_rng(3).integers(0, 2, len(P))]
    return P, group, *frame_of(P, y, weight)


def refuse(*_, **__):
    raise AssertionError("something was computed")


@pytest.mark.parametrize("groups", [("men", "women"), (7, -1), (False, True)])
@pytest.mark.parametrize("drawing", [False, True])
def test_decisions_are_lazy_and_those_of_the_array(groups, drawing):
    P, group, _, lazy = given(groups)
    rule, keys = rule_of(groups, drawing=drawing), np.arange(3000)
    beside = lazy[list("dabc")].map_partitions(lambda part: part.assign(sex=group[part.index], id=part.index))
    with dask.config.set(scheduler=refuse):
        found = {
            "array": rule.predict_index(rows(P), group=rows(group)),
            "in memory beside": rule.predict_index(rows(P), group=group),
            "other chunks": rule.predict_index(rows(P).rechunk((1000, 3)), group=da.from_array(group, chunks=999)),
            "a series beside": rule.predict_index(rows(P), group=beside["sex"]),
            "frame": rule.predict_index(beside[[*"dabc", "sex"]], group="sex"),
            "a series beside a frame": rule.predict_index(beside[list("abcd")], group=beside["sex"]),
        }
        keyed = [
            rule.predict_index(rows(P), group=rows(group), keys=rows(keys)),
            rule.predict_index(beside, group="sex", keys="id"),
        ]
        names = rule.predict(rows(P), group=rows(group))
        shares = rule.decision_probabilities(rows(P), group=rows(group))
        shares_of_frame = rule.decision_probabilities(beside[[*"dabc", "sex"]], group="sex")
    expected = rule.predict_index(P, group=group)
    assert found["array"].chunks == (LENGTHS,) and shares.shape == (3000, 5)
    # another group is decided differently, and all decisions are made
    assert (expected != rule.predict_index(P, group=group[::-1])).any() and len(np.unique(expected)) == 5
    for name, each in found.items():
        np.testing.assert_array_equal(each.compute(), expected, err_msg=name)
    for each in keyed:
        np.testing.assert_array_equal(each.compute(), rule.predict_index(P, group=group, keys=keys))
    np.testing.assert_array_equal(names.compute(), rule.predict(P, group=group))
    np.testing.assert_array_equal(shares.compute(), rule.decision_probabilities(P, group=group))
    np.testing.assert_array_equal(shares_of_frame.compute(), rule.decision_probabilities(P, group=group))
    assert list(shares_of_frame.columns) == list(CLASSES)


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (None, "row 16 of group is missing"),
        ("children", "row 16 has the group 'children', which the rule does not know"),
    ],
)
def test_a_bad_group_is_named_with_its_partition(cell, sentence):
    P, group, _, lazy = given()
    group = group.astype(object)
    group[717] = cell
    found = [rule_of().predict(rows(P), group=rows(group)), rule_of().predict(rows(P), group=group)]
    frame = lazy[list("abcd")].map_partitions(lambda part: part.assign(sex=group[part.index]))
    found.append(rule_of().predict(frame, group="sex"))
    for each in found:
        with pytest.raises(ValueError, match=f"^partition 3: {sentence}"):
            each.compute()


def test_groups_that_do_not_fit_are_refused():
    P, group, _, lazy = given()
    rule, frame = rule_of(), lazy[list("abcd")]
    unknown = dd.from_dask_array(rows(P)).to_dask_array()
    for call, sentence in [
        (lambda: rule.predict(rows(P)), "pass group=, the group of every row"),
        (lambda: rule.predict(rows(P), group=group[:7]), "group must hold one group per row of proba: 3000"),
        (lambda: rule.predict(rows(P), group=rows(group[:-1], [*LENGTHS[:-1], 999])), "must hold one group per row"),
        (lambda: rule.predict(unknown, group=group), "pass group as a Dask array in the same chunks"),
        (lambda: rule.predict(frame, group=group), "group beside a Dask DataFrame must be a Dask Series"),
        (lambda: rule.predict(frame, group="sex"), "the Dask DataFrame has no column 'sex'; its columns are a, b, c"),
        (lambda: rule.of_group("men").predict(rows(P), group=group), "leave group out"),
        (
            lambda: replace(rule, groups_known=False).predict(rows(P), group_proba=np.full((3000, 2), 0.5)),
            "rules by the probabilities of groups decide rows in memory; pass them part by part",
        ),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_opened_tables_bring_their_groups(tmp_path):
    pytest.importorskip("pyarrow")
    P, group, frame, _ = given()
    frame = frame[list("abcd")].assign(sex=group)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    opened, named = (confmax.open_table(tmp_path / "rows.parquet", group=name) for name in (None, "sex"))
    np.testing.assert_array_equal(rule_of().predict(named), rule_of().predict(P, group=group))
    np.testing.assert_array_equal(rule_of().of_group("men").predict(named), rule_of().of_group("men").predict(P))
    for call in (
        lambda: rule_of().predict(opened),
        lambda: rule_of().predict(opened, group=group),
        lambda: rule_of().predict(named, group=group),
    ):
        with pytest.raises(ValueError, match=r"groups \('men', 'women'\).*pass group= to open_table"):
            call()
    with pytest.raises(ValueError, match="leave group out"):
        rule_of().of_group("men").predict(named, group=group)
    with pytest.raises(ValueError, match="an opened table is not an array of rows"):
        rule_of().decision_probabilities(named)
    with pytest.raises(ValueError, match="part by part"):
        replace(rule_of(), groups_known=False).predict(opened, group_proba=np.full((3000, 2), 0.5))
    frame.assign(sex=np.where(np.arange(3000) == 2100, "children", group)).to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match=r"bad.parquet: row 2100 has the group 'children', which the rule does not"):
        rule_of().predict(confmax.open_table(tmp_path / "bad.parquet", group="sex"))


def test_missing_groups_of_pandas_in_every_partition():
    """Strings of pandas have a missing value of their own."""
    P, group, _, _ = given()
    series = pd.Series(group, dtype="string")
    series[5] = pd.NA
    beside = dd.from_pandas(series, npartitions=3)
    frame = dd.from_pandas(pd.DataFrame(P, columns=list("abcd")), npartitions=3)
    thirds = da.from_array(P, chunks=((1000, 1000, 1000), 4))
    for found in (rule_of().predict(frame, group=beside), rule_of().predict(thirds, group=beside)):
        with pytest.raises(ValueError, match=r"^partition 0: row 5 of group is missing"):
            found.compute()
