"""Tables as people have them: rounded rows that do not sum to one, and one vector for two classes."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import confmax
from confmax.tables.normalize import normalized
from tests.cli_helpers import document, run

RNG = np.random.default_rng(0)
P = RNG.dirichlet([1.0, 1.0, 2.0], 300)
Y = (P.cumsum(axis=1) > RNG.random((300, 1))).argmax(axis=1)
ROUNDED = P.round(2)
DIVIDED = ROUNDED / ROUNDED.sum(axis=1, keepdims=True)


def test_rounded_rows_are_tuned_and_decided_as_if_they_were_divided():
    with pytest.warns(UserWarning, match="the rows of proba were divided by their sums; that of row .* is farthest"):
        solution = confmax.maximize("macro_f1", ROUNDED, Y, normalize=True)
    expected = confmax.maximize("macro_f1", DIVIDED, Y)
    assert solution.value == pytest.approx(expected.value, abs=1e-12)
    for decide in (solution.predict, solution.rule.predict, solution.rule.predict_index):
        with pytest.warns(UserWarning, match="divided by their sums"):
            np.testing.assert_array_equal(decide(ROUNDED, normalize=True), expected.rule.predict(DIVIDED))
    with pytest.warns(UserWarning, match="divided by their sums"):
        shares = solution.rule.decision_probabilities(ROUNDED, normalize=True)
    np.testing.assert_array_equal(shares.argmax(axis=1), expected.rule.predict(DIVIDED))


def test_the_refusal_offers_the_division():
    sentence = r"row \d+ of proba sums to .* divide each row by its sum, as normalize=True does"
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("macro_f1", ROUNDED, Y)
    with pytest.raises(ValueError, match=sentence):
        confmax.DecisionRule.from_weights([1, 1, 1]).predict(ROUNDED)


def test_rows_that_sum_to_one_are_not_spoken_of():
    divided, note = normalized(P)
    np.testing.assert_array_equal(divided, P)
    assert note == ""
    confmax.maximize("accuracy", P, Y, normalize=True)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"])
def test_frames_keep_their_names_and_index(frame):
    held = pd.DataFrame(ROUNDED[:, ::-1], columns=list("cba"))
    given = pl.from_pandas(held) if frame is pl.DataFrame else frame(held)
    found, note = normalized(given)
    assert type(found) is type(given) and "farthest from one" in note
    rule = confmax.DecisionRule.from_weights([2, 1, 1], classes=list("abc"))
    np.testing.assert_array_equal(rule.predict(found), rule.predict(DIVIDED))
    moved = held.set_index(np.arange(len(held))[::-1])
    assert normalized(moved)[0].index.equals(moved.index)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ([[0.5, 0.5], [0.0, 0.0]], "row 1 of proba sums to zero, so it cannot be divided; drop it"),
        ([[0.5, 0.5], [1.5, -0.5]], "row 1, column 1 of proba is negative"),
        ([[0.5, np.nan]], "row 0, column 1 of proba is not a finite number"),
    ],
)
def test_rows_that_cannot_be_divided_are_refused(table, sentence):
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("accuracy", table, normalize=True)


def test_rows_of_other_kinds_are_not_divided():
    sparse = pytest.importorskip("scipy.sparse").csr_array(ROUNDED)
    with pytest.raises(ValueError, match="normalize=True divides the rows of arrays and data frames; got csr_array"):
        confmax.maximize("accuracy", sparse, normalize=True)


# --- one vector -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [list, pd.Series, pl.Series], ids=str)
def test_a_vector_is_the_probability_of_the_second_class(given):
    p = RNG.random(200).round(4)
    y = np.where(RNG.random(200) < p, "yes", "no")
    one, two = given(p), np.column_stack([1 - np.asarray(given(p)), np.asarray(given(p))])
    solution = confmax.maximize("f1", one, y, classes=["no", "yes"])
    assert solution.rule == confmax.maximize("f1", two, y, classes=["no", "yes"]).rule
    rule = solution.rule
    np.testing.assert_array_equal(rule.predict(one), rule.predict(two))
    np.testing.assert_array_equal(rule.predict(one) == "yes", np.asarray(one) >= rule.threshold)
    np.testing.assert_array_equal(rule.decision_probabilities(one), rule.decision_probabilities(two))
    scored = [confmax.score("f1", table, y, rule, n_replicates=40) for table in (one, two)]
    assert repr(scored[0]) == repr(scored[1])


def test_a_vector_whose_index_has_another_order_is_refused():
    p = pd.Series([0.2, 0.7, 0.4], index=[5, 7, 6])
    with pytest.raises(ValueError, match="index of y holds the rows of proba in another order"):
        confmax.maximize("f1", p, pd.Series([1, 0, 0], index=[7, 5, 6]))


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def _table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(ROUNDED, columns=list("abc")).assign(y=np.array(list("abc"))[Y]).to_csv("t.csv", index=False)


@pytest.mark.usefixtures("_table")
def test_commands_divide_rows_with_an_option():
    tuned = ("tune", "t.csv", "--label", "y", "--metric", "macro_f1", "-o", "rule.json")
    assert "divide each row by its sum, as --normalize does" in run(*tuned, code=2)[1]
    found = document(*tuned, "--normalize")
    assert found["tuned"] == pytest.approx(confmax.maximize("macro_f1", DIVIDED, Y).value, abs=1e-12)
    said = "the rows of t.csv were divided by their sums; that of row"
    assert said in run("apply", "rule.json", "t.csv", "-o", "out.csv", "--normalize")[1]
    rule = confmax.DecisionRule.load("rule.json")
    assert pd.read_csv("out.csv")["decision"].tolist() == rule.predict(DIVIDED).tolist()
    label = ("--label", "y", "--normalize", "--metric", "macro_f1", "--replicates", "0")
    assert said in run("score", "t.csv", *label, "--rule", "rule.json")[1]
    assert said in run("compare", "t.csv", *label)[1]


@pytest.mark.usefixtures("_table")
def test_files_that_are_read_in_parts_are_not_divided():
    pd.read_csv("t.csv").to_parquet("t.parquet")
    arguments = ("tune", "t.parquet", "--label", "y", "--metric", "macro_f1", "--in-parts", "yes", "--normalize")
    assert "--normalize is for files that are read whole" in run(*arguments, code=2)[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["column 'amount' is no class", "sum to 1 without it", "--columns"]),
        (["--normalize"], ["column 'amount' is no class", "sum to 1 without it", "--columns"]),
        (
            ["--label", "y01"],
            ["no column is named 0 or 1, as the labels are", "column 'amount' is no class", "--columns"],
        ),
    ],
    ids=["rows", "divided", "d9"],
)
def test_commands_name_the_column_that_is_no_class(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    p = RNG.random(60).round(3)
    amount = np.exp(RNG.normal(7, 1, 60)).round(2)
    pd.DataFrame({"fraud": p, "ok": 1 - p, "amount": amount, "y": np.where(p > 0.5, "fraud", "ok")}).assign(
        **({"y01": (p > 0.5) * 1} if "y01" in options else {})
    ).to_csv("t.csv", index=False)
    said = run("tune", "t.csv", "--metric", "macro_f1", *options, code=2)[1]
    assert [word for word in words if word not in said] == [] and "divide each row" not in said
    assert document("tune", "t.csv", "--metric", "macro_f1", "--label", "y")["classes"] == ["fraud", "ok"]
