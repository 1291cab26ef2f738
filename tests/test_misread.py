"""Rows that could be misread: each call that must be refused stands beside the valid one that looks most like it.

A pair is a bad call, words of its sentence (what is wrong, where, and the way out), and a valid call with its answer.
"""

import functools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import confmax
from confmax.confusion import Gains
from confmax.rule.labels import LabelRule

maximize = functools.partial(confmax.maximize, calibration=None)
rng = np.random.default_rng(0)
p = 1 / (1 + np.exp(-rng.normal(-1.5, 2, 400)))
ARRAY = np.column_stack([p, 1 - p])
P = pd.DataFrame(ARRAY, columns=["fraud", "ok"])
Y = np.where(rng.random(400) < p, "fraud", "ok")
RULE = confmax.DecisionRule.from_weights([3.0, 1.0], classes=["fraud", "ok"])
DRAWS = confmax.DecisionRule(Gains.reduced([[3.0, 1.0], [1.0, 1.0]]), np.array([0.5, 0.5]), ("fraud", "ok"))
AMOUNT = np.exp(rng.normal(7, 1, 400)).round(2)
VOTES = rng.multinomial(9, [0.2, 0.3, 0.5], 400)
OF_THREE = confmax.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=["a", "b", "c"])
THREE = pd.DataFrame([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]], columns=["a", "b", "c"])
TAGS = LabelRule.from_thresholds([0.5, 0.5], classes=["x", "y"])
L = np.array([[0.6, 0.1], [0.2, 0.9], [0.7, 0.8]])
NO_TAGS = [[], [], []]
SOME_TAGS = [[], ["y"], ["x", "y"]]
MOVED = np.arange(400)[::-1]
NAMED = P.set_axis([f"row {k}" for k in range(400)])
in_groups = functools.partial(maximize, "accuracy", constraints="min(rate[ok] | group) >= 0")

tag = functools.partial(confmax.maximize, "macro_f1", decisions="any", classes=["x", "y"])


def weigh(weight):
    """Return the solution of weighted rows."""
    return maximize("accuracy", P, Y, sample_weight=weight)


def arrow(names, *columns):
    """Return a table of Arrow, in which a name may stand twice."""
    return pa.Table.from_arrays([pa.array(column) for column in columns], names)


def lists(kind, **changes):
    """Return a frame of a library whose probabilities are lists in one column."""
    columns = {"probability": ARRAY.tolist(), "truth": Y.tolist(), **changes}
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind](columns)


def in_files(folder, *parts):
    """Write tags, of which every part is a file, to a folder, and return it as an opened table."""
    for k, part in enumerate(parts):
        columns = {"x": L[:, 0], "y": L[:, 1], "tags": part}
        pq.write_table(pa.table(columns), folder / f"{k}.parquet")
    return confmax.open_table(folder, label="tags", columns=["x", "y"])


# what is called with the temporary folder of the test is a function of it
PAIRS = {
    "no rows are tuned on": (
        lambda: maximize("macro_f1", P[:0], Y[:0]),
        ["proba is empty", "at least one row"],
        lambda: RULE.predict(P[:0]).tolist() == [],
    ),
    "no rows are scored": (
        lambda: confmax.score("macro_f1", ARRAY[:0], Y[:0], RULE),
        ["proba is empty", "at least one row"],
        lambda: RULE.decision_probabilities(ARRAY[:0]).shape == (0, 2),
    ),
    "no sparse rows": (
        lambda: maximize("accuracy", sp.csr_array(ARRAY[:0])),
        ["proba is empty", "at least one row"],
        lambda: DRAWS.predict_index(sp.csr_array(ARRAY[:0])).tolist() == [],
    ),
    "no rows of a lazy frame": (
        lambda: maximize("accuracy", pl.from_pandas(P)[:0].lazy()),
        ["proba is empty", "at least one row"],
        lambda: RULE.predict(pl.from_pandas(P)[:0].lazy()).tolist() == [],
    ),
    "no rows of several labels": (
        lambda: tag(L[:0], NO_TAGS[:0]),
        ["proba is empty", "at least one row"],
        lambda: TAGS.predict_lists(sp.csr_array(L[:0])) == TAGS.predict_lists(L[:0]) == [],
    ),
    "a name twice, as the label": (
        lambda: maximize("accuracy", arrow(["fraud", "ok", "t", "t"], *ARRAY.T, Y, Y), "t"),
        ["y names the column 't'", "two of this name", "rename"],
        lambda: maximize("accuracy", arrow(["fraud", "ok", "t", "n", "n"], *ARRAY.T, Y, p, p), "t").label_value > 0.5,
    ),
    "a name twice, as a class": (
        lambda: maximize("accuracy", arrow(["fraud", "ok", "t", "ok"], *ARRAY.T, Y, p), "t"),
        ["two columns of proba are named like the class 'ok'", "rename"],
        lambda: RULE.predict(arrow(["n", "fraud", "ok", "n"], p, *ARRAY.T, p)).tolist() == RULE.predict(P).tolist(),
    ),
    "a name twice, in pandas": (
        lambda: maximize("accuracy", P.assign(t=Y).rename(columns={"ok": "t"}), "t"),
        ["y names the column 't'", "two of this name", "rename"],
        lambda: (
            maximize(
                "accuracy", pd.DataFrame(np.c_[ARRAY, p + 9, p + 9], columns=["fraud", "ok", "n", "n"]).assign(t=Y), "t"
            ).label_value
            > 0.5
        ),
    ),
    **{
        f"lists of {kind}": (
            lambda kind=kind: maximize("accuracy", lists(kind, probability=[[0.5, 0.5], [0.5]] * 200), "truth"),
            ["row 1 of proba", "row 0 has 2", "one per class"],
            lambda kind=kind: (
                maximize("accuracy", lists(kind), "truth").rule.predict(lists(kind)).tolist()
                == maximize("accuracy", ARRAY, Y).rule.predict(ARRAY).tolist()
            ),
        )
        for kind in ("pandas", "polars", "arrow")
    },
    "an amount is no class": (
        lambda: maximize("macro_f1", P.assign(amount=AMOUNT), normalize=True),
        ["column 'amount' of proba is no class", "sum to 1 without it", "classes alone"],
        lambda: maximize("macro_f1", P.round(2), normalize=True).rule.class_names == ("fraud", "ok"),
    ),
    "an amount beside percentages": (
        lambda: maximize("macro_f1", (100 * P).round().assign(amount=AMOUNT), normalize=True),
        ["column 'amount' of proba is no class", "sum to 100 without it", "classes alone"],
        lambda: maximize("macro_f1", (100 * P).round(), normalize=True).rule.class_names == ("fraud", "ok"),
    ),
    "an amount beside votes": (
        lambda: maximize("macro_f1", np.c_[VOTES, AMOUNT], normalize=True),
        ["column 3 of proba is no class", "sum to 9 without it", "classes alone"],
        lambda: maximize("macro_f1", VOTES, normalize=True).rule.n_classes == 3,
    ),
    "an amount and an age": (
        lambda: maximize("macro_f1", P.assign(amount=AMOUNT, age=AMOUNT // 7), normalize=True),
        ["'amount'", "'age'", "are no classes", "without them"],
        lambda: maximize("macro_f1", VOTES[:, :2] + [[1, 0]], normalize=True).rule.n_classes == 2,
    ),
    "a share is no class": (
        lambda: maximize("macro_f1", P.assign(share=AMOUNT % 1), normalize=True),
        ["column 'share' of proba is no class", "sum to 1 without it"],
        lambda: maximize("macro_f1", rng.gamma(1, 1, (300, 3)), normalize=True).rule.n_classes == 3,
    ),
    "no hint at normalize for an amount": (
        lambda: maximize("macro_f1", np.c_[ARRAY, AMOUNT]),
        ["column 2 of proba is no class", "classes alone"],
        lambda: maximize("macro_f1", P.assign(amount=AMOUNT, t=Y), "t").rule.class_names == ("fraud", "ok"),
    ),
    "votes of one row": (
        lambda: RULE.predict(pd.Series({"fraud": 3, "ok": 7})),
        ["row 0 of proba sums to 10", "normalize=True"],
        lambda: RULE.predict(pd.Series({"fraud": 3, "ok": 7, "amount": 90}), normalize=True).tolist() == ["fraud"],
    ),
    "few votes": (
        lambda: maximize("macro_f1", [[3, 1, 0], [0, 4, 1], [2, 2, 1]]),
        ["row 0 of proba sums to 4", "normalize=True"],
        lambda: maximize("macro_f1", [[3, 1, 0], [0, 4, 1], [2, 2, 1]], normalize=True).rule.n_classes == 3,
    ),
    "labels 0 and 1 beside named columns": (
        lambda: maximize("macro_f1", P.assign(amount=AMOUNT, t=(Y == "ok") * 1), "t"),
        ["no column is named 0 or 1", "'amount'"],
        lambda: maximize("macro_f1", P.assign(t=(Y == "ok") * 1), "t").rule.class_names == (0, 1),
    ),
    "one row of three classes": (
        lambda: OF_THREE.predict(THREE.to_numpy()[0]),
        ["3 numbers", "one row", "pass [row]"],
        lambda: OF_THREE.predict(THREE.iloc[0]).tolist() == ["b"],
    ),
    "one row of numbered classes": (
        lambda: confmax.DecisionRule.from_weights([1.0, 2.0, 1.0]).predict([0.2, 0.3, 0.5]),
        ["3 numbers", "one row", "pass [row]"],
        lambda: confmax.DecisionRule.from_weights([1, 2, 1]).predict(pd.Series([0.2, 0.3, 0.5])).tolist() == [1],
    ),
    "a row of other classes": (
        lambda: RULE.predict(pd.Series({"fraud": 0.2, "okay": 0.8, "unknown": 3.0})),
        ["row 2 of proba is 3", "second of two classes"],
        lambda: RULE.decision_probabilities(P.iloc[0]).shape == (1, 2),
    ),
    "one row of tags": (
        lambda: TAGS.predict(L[0]),
        ["one column per label", "(2,)"],
        lambda: TAGS.predict_lists(pd.Series({"y": 0.1, "x": 0.6})) == [["x"]],
    ),
    "probabilities in another order than their index": (
        lambda: maximize("f1[fraud]", P.iloc[MOVED], pd.Series(Y)),
        ["index of y", "row 0 is 399 in proba and 0 in y", "log loss", "y.loc[proba.index]", "y.to_numpy()"],
        lambda: maximize("f1[fraud]", P, pd.Series(Y, index=MOVED)).rule == maximize("f1[fraud]", P, Y).rule,
    ),
    "labels in another order than their index": (
        lambda: maximize("f1[fraud]", P, pd.Series(Y)[MOVED]),
        ["index of y", "log loss", "y.loc[proba.index]", "y.to_numpy()"],
        lambda: maximize("f1[fraud]", P.set_axis(MOVED), pd.Series(Y)).rule == maximize("f1[fraud]", P, Y).rule,
    ),
    "indexes of names in another order": (
        lambda: maximize("f1[fraud]", NAMED.iloc[MOVED], pd.Series(Y, index=NAMED.index)),
        ["index of y", "'row 399' in proba", "log loss", "y.loc[proba.index]", "y.to_numpy()"],
        lambda: maximize("f1[fraud]", NAMED, pd.Series(Y, index=NAMED.index[MOVED])).value > 0,
    ),
    "a vector in another order": (
        lambda: maximize("f1[fraud]", 1 - P["fraud"].iloc[MOVED], pd.Series(Y), classes=["fraud", "ok"]),
        ["index of y", "log loss", "y.loc[proba.index]"],
        lambda: maximize("f1[fraud]", 1 - P["fraud"], pd.Series(Y, index=MOVED), classes=["fraud", "ok"]).value > 0,
    ),
    "labels of a score in another order": (
        lambda: confmax.score("accuracy", P.iloc[MOVED], pd.Series(Y), RULE),
        ["index of y", "log loss", "y.loc[proba.index]"],
        lambda: confmax.score("accuracy", P, pd.Series(Y, index=MOVED), RULE, n_replicates=0) is not None,
    ),
    "tags in another order": (
        lambda: tag(pd.DataFrame(L).iloc[::-1], pd.Series(SOME_TAGS)),
        ["index of y", "log loss", "y.loc[proba.index]"],
        lambda: tag(pd.DataFrame(L), pd.Series(SOME_TAGS, index=[2, 1, 0])).value == tag(L, SOME_TAGS).value,
    ),
    "weights in another order": (
        lambda: maximize("accuracy", NAMED, Y, sample_weight=pd.Series(p, index=NAMED.index)[::-1]),
        ["index of sample_weight", "sample_weight.loc[proba.index]", "sample_weight.to_numpy()"],
        lambda: weigh(pd.Series(p, index=MOVED)).value == weigh(p).value,
    ),
    "groups in another order": (
        lambda: in_groups(NAMED, Y, group=pd.Series(np.arange(400) % 2, index=NAMED.index)[::-1]),
        ["index of group", "group.loc[proba.index]", "group.to_numpy()"],
        lambda: in_groups(P, Y, group=pd.Series(np.arange(400) % 2, index=MOVED)).rule.groups == (0, 1),
    ),
    "complex labels": (
        lambda: maximize("accuracy", P, np.where(Y == "ok", 1j, 2j)),
        ["y holds values that have no order", "complex", "string or a number"],
        lambda: maximize("accuracy", ARRAY, np.where(Y == "ok", 1.0, 0.0)).rule.class_names == (0, 1),
    ),
    "complex groups": (
        lambda: in_groups(P, Y, group=np.where(Y == "ok", 1j, 2j)),
        ["group holds values that have no order", "string or a number"],
        lambda: in_groups(P, Y, group=np.arange(400) % 2).rule.groups == (0, 1),
    ),
    "labels that are dicts": (
        lambda: maximize("accuracy", P, np.array([{}] * 400)),
        ["y holds values that have no order", "dict", "string or a number"],
        lambda: maximize("accuracy", P, np.array(Y, dtype=object)).rule.class_names == ("fraud", "ok"),
    ),
    "rows without tags": (
        lambda: tag(L, NO_TAGS),
        ["no row has any label in y", "add rows"],
        lambda: tag(L, SOME_TAGS).rule.class_names == ("x", "y"),
    ),
    "a matrix without columns": (
        lambda: tag(L, np.zeros((3, 0))),
        ["3 rows and 2 labels", "(3, 0)"],
        lambda: tag(L, np.array(SOME_TAGS, dtype=object)).rule.class_names == ("x", "y"),
    ),
    "tags of Arrow": (
        lambda: tag(L, pa.array(NO_TAGS, pa.list_(pa.float64()))),
        ["no row has any label in y", "add rows"],
        lambda: tag(L, pa.array(SOME_TAGS)).value == tag(L, SOME_TAGS).value,
    ),
    "a file without tags": (
        lambda folder: tag(in_files(folder, pa.array(NO_TAGS))),
        ["no row has any label in y", "add rows"],
        lambda folder: tag(in_files(folder, pa.array(NO_TAGS), SOME_TAGS)).rule.class_names == ("x", "y"),
    ),
    "files of empty lists of numbers": (
        lambda folder: tag(in_files(folder, pa.array(NO_TAGS, pa.list_(pa.float64())), [[1.0], [], []])),
        ["1.parquet", "row 0 of y has the label 1", "which is none of the 2", "classes="],
        lambda folder: tag(in_files(folder, pa.array(NO_TAGS, pa.list_(pa.float64())), SOME_TAGS)).value > 0,
    ),
}


def call(function, folder):
    """Return what a function of the folder, or of nothing, returns."""
    return function(folder) if function.__code__.co_varnames[:1] == ("folder",) else function()


@pytest.mark.parametrize("pair", PAIRS)
def test_the_bad_one_is_refused_and_its_twin_is_answered(pair, tmp_path):
    bad, words, valid = PAIRS[pair]
    if "lazy" in pair and not hasattr(pl.LazyFrame, "collect_batches"):
        pytest.skip("this Polars reads no lazy frame in batches")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(ValueError) as caught:
            call(bad, tmp_path)
        missing = [word for word in words if word not in str(caught.value)]
        assert not missing, f"{caught.value} does not say {missing}"
        assert call(valid, tmp_path)


@pytest.mark.parametrize("give", [list, np.array, pd.Series, pl.Series], ids=str)
def test_a_vector_of_two_that_sums_to_one_may_be_one_row(give):
    with pytest.warns(UserWarning, match=r"two rows.*probability of 'ok'.*pass \[proba\].*column_stack") as caught:
        assert RULE.predict(give([0.01, 0.99])).tolist() == ["fraud", "ok"]
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert RULE.predict([give([0.01, 0.99])]).tolist() == ["ok"]
        assert len(RULE.predict(give([0.01, 0.98]))) == 2


@pytest.mark.parametrize("answer", ["predict", "predict_index", "decision_probabilities"])
def test_a_series_that_is_indexed_by_the_classes_is_one_row(answer):
    row = P.assign(amount=7.0).iloc[0, ::-1]
    found = getattr(RULE, answer)(row)
    np.testing.assert_array_equal(found, getattr(RULE, answer)(P[:1]))
    if answer != "decision_probabilities":
        np.testing.assert_array_equal(found, getattr(RULE, answer)(row, at_most={"fraud": 1}))
    # the index of a column holds the numbers of rows
    assert len(getattr(confmax.DecisionRule.from_weights([1, 2]), answer)(P["ok"][[1, 0, 2]])) == 3
