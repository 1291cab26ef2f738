"""The boundary: what is accepted, how class order is found, and one sentence for everything else."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import confmax
from confmax.calibration.words import with_names
from confmax.oracle import make_table
from tests.helpers import labels_drawn

GOOD = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]


def broken(row, column, value):
    P = np.array(GOOD)
    P[row, column] = value
    return P


@pytest.mark.parametrize(
    ("proba", "sentence"),
    [
        ([0.3, 1.7, -1], r"row 1 of proba is 1.7, and a vector \(n,\) holds the probabilities of the second of two"),
        ([0.3, np.nan], "row 1 of proba is nan, and a vector"),
        (["a", "b"], r"proba must hold numbers; got dtype .* and shape \(2,\): pass one column per class"),
        (np.zeros((2, 2, 2)), r"shape \(n, K\) with K >= 2 classes; got shape \(2, 2, 2\)"),
        (np.zeros((0, 3)), "proba is empty"),
        (broken(1, 2, np.nan), "row 1, column 2 of proba is not a finite number"),
        (broken(2, 0, np.inf), "row 2, column 0 of proba is not a finite number"),
        ([[1.2, -0.2, 0.0], *GOOD], r"row 0, column 1 of proba is negative \(-0.2\)"),
        (broken(1, 1, 0.81), "row 1 of proba sums to 1.01, not to one"),
        ([["a", "b"], ["c", "d"]], r"row 0, column 0 of proba is not a number \(.*'a'"),
        (pd.DataFrame({"a": [0.5, pd.NA], "b": [0.5, 0.5]}, dtype="Float64"), "row 1, column 'a' of proba is not a"),
        (np.array(GOOD) + 0j, "complex"),
    ],
)
def test_bad_probabilities(proba, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_table(proba)
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("accuracy", proba)


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"y": [0, 1]}, r"one label per row of proba: 3 labels; got shape \(2,\)"),
        ({"y": [[0, 1], [1, 0], [0, 0]]}, "y must hold one label per row"),
        ({"y": [0, 7, 7]}, r"row 1 of y holds the label 7, which is none of the 3 classes \(0, 1, 2\); pass classes="),
        ({"y": [0, 1, -1], "classes": [0, 1, 2]}, "row 2 of y holds the label -1"),
        ({"y": ["a", "b", "a"]}, "2 distinct labels and proba has 3 columns"),
        ({"y": ["a", "b", "x"], "classes": ["a", "b", "c"]}, "row 2 of y holds the label 'x'"),
        ({"y": ["a", None, "b"]}, "row 1 of y has no label"),
        ({"y": ["a", np.nan, "b"]}, "row 1 of y has no label"),
        ({"y": ("a", 1, 2)}, "mixes strings and numbers"),
        ({"y": pd.Series(["a", pd.NA, "b"], dtype="string")}, "row 1 of y has no label"),
        ({"y": np.array(["a", 1, 2], dtype=object)}, "mixes strings and numbers"),
        ({"classes": ["a", "b"]}, "names 2 classes and proba has 3 columns"),
        ({"classes": ["a", "a", "b"]}, "names a class twice"),
        ({"sample_weight": [1, 2]}, "one weight per row of proba: 3"),
        ({"sample_weight": [1, -2, 1]}, "row 1 of sample_weight is -2.0"),
        ({"sample_weight": [1, np.nan, 1]}, "row 1 of sample_weight is nan"),
        ({"sample_weight": [0, 0, 0]}, "sums to zero"),
        ({"sample_weight": ["a", "b", "c"]}, "sample_weight must hold numbers"),
    ],
)
def test_bad_labels_and_weights(kwargs, sentence):
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("accuracy", GOOD, **kwargs)


def test_one_class_only():
    with pytest.raises(ValueError, match="y has weight in one class only \\(1\\); at least two"):
        confmax.maximize("accuracy", GOOD, [1, 1, 1])
    with pytest.raises(ValueError, match="y has weight in one class only \\(0\\)"):
        confmax.maximize("accuracy", GOOD, [0, 1, 1], sample_weight=[1, 0, 0])
    with pytest.raises(ValueError, match="proba has weight in one class only"):
        confmax.maximize("accuracy", [[1.0, 0.0], [1.0, 0.0]])


def test_rows_are_renormalised_once():
    P = np.array(GOOD) * 1.0005
    once = make_table(P).head.proba
    np.testing.assert_allclose(once.sum(1), 1, atol=1e-15)
    assert make_table(once).head.proba.tobytes() == once.tobytes()
    exact = np.array(GOOD)
    assert make_table(exact).head.proba is exact  # nothing to do, nothing copied


@pytest.mark.parametrize(
    ("dtype", "kept"), [("f4", "f4"), ("f8", "f8"), ("f2", "f4"), ("i8", "f8"), ("?", "f8"), (object, "f8")]
)
def test_dtypes(dtype, kept):
    P = np.array([[1, 0], [0, 1]]).astype(dtype)
    assert make_table(P).head.proba.dtype == np.dtype(kept)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["b", "c", "a"], ("a", "b", "c")),
        ([3, 1, 2], (1, 2, 3)),
        (np.array([2, 1, 0], dtype=np.uint8), (0, 1, 2)),
        (pd.Series(["b", "c", "a"]), ("a", "b", "c")),
        (pd.Series(["b", "c", "a"], dtype="category"), ("a", "b", "c")),
        (pl.Series(["b", "c", "a"]), ("a", "b", "c")),
        ([["b"], ["c"], ["a"]], ("a", "b", "c")),
    ],
)
def test_default_class_order(y, classes):
    assert make_table(GOOD, y).classes == classes


@pytest.mark.parametrize("call", [confmax.maximize, confmax.score])
@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame])
def test_arguments_in_another_order_get_a_sentence(call, table):
    with pytest.raises(ValueError, match=r"the metric comes (first, then proba, then y|before them)$"):
        call(table([[0.5, 0.5], [0.2, 0.8]]), [0, 1], "macro_f1")


def test_a_metric_over_some_classes_is_shown_with_their_names():
    P = np.tile([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]], (15, 1))
    with pytest.warns(UserWarning, match="no weight in class c"):
        solution = confmax.maximize("min_recall", P, ["a", "b"] * 15, classes=list("abc"))
    for shown in (repr(solution), repr(solution.rule), solution._repr_html_()):
        assert "min_recall(classes=(a, b))" in shown
    # a file keeps numbers, which are read again
    assert solution.rule.metric == "min_recall(classes=(0, 1))"
    assert with_names("f1[x](classes=(7,))", ["a"]) == "f1[x](classes=(7,))"


def test_columns_without_a_name_are_spoken_of():
    frame = pd.DataFrame([[0.2, 0.3, 0.5]] * 3, columns=["a", "b", ""])
    with pytest.raises(ValueError, match=r"and no class like the column '' \(without a name\); rename the columns"):
        confmax.maximize("accuracy", frame, ["a", "b", "c"])
    with pytest.raises(ValueError, match="no column is named like the class 'c'; rename the columns"):
        confmax.maximize("accuracy", frame[["a", "b"]] * 2, ["a", "b", "c"])


# --- numbers whose bytes come in the other order ----------------------------------------------------------------------


def numbers(seed=0, n=300, K=4):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.6), n)
    return P, labels_drawn(P, rng), rng.integers(1, 5, n).astype(float)


def swapped(values):
    return values.astype(values.dtype.newbyteorder(">"))


@pytest.mark.parametrize(
    ("kind", "dtype"), [(np.asarray, np.float16), (np.asarray, np.float64), (scipy.sparse.csr_array, np.float32)]
)
def test_the_same_rule_byte_for_byte(kind, dtype):
    P, y, weight = numbers()
    P = P.astype(dtype).astype(np.float32 if kind is not np.asarray and dtype == np.float16 else dtype)
    given = kind(P)
    other = given.copy()
    if kind is np.asarray:
        other = swapped(P)
    else:
        other.data = swapped(other.data)
    assert make_table(other).head.proba.dtype == make_table(given).head.proba.dtype
    settings = {"sample_weight": weight, "confusion": "labels", "calibration": None, "randomized": True}
    one = confmax.maximize("g_mean", given, y, **settings)
    two = confmax.maximize("g_mean", other, y, **settings)
    three = confmax.maximize("g_mean", other, swapped(y), **{**settings, "sample_weight": swapped(weight)})
    assert one.rule.to_json() == two.rule.to_json() == three.rule.to_json()
    keys = np.arange(len(y))
    for rule in (one.rule, confmax.DecisionRule.from_weights([1, 2, 3, 4.0])):
        expected = rule.predict(given, keys=keys)
        np.testing.assert_array_equal(rule.predict(other, keys=swapped(keys)), expected)
        np.testing.assert_array_equal(rule.decision_probabilities(other), rule.decision_probabilities(given))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_of_such_numbers(tmp_path, dtype):
    P, y, _ = numbers()
    found = []
    for name, turn in (("native", np.asarray), ("other", swapped)):
        np.save(tmp_path / f"{name}.npy", turn(P.astype(dtype)))
        np.save(tmp_path / f"{name}_y.npy", turn(y))
        opened = confmax.open_table(tmp_path / f"{name}.npy", label=tmp_path / f"{name}_y.npy")
        found.append(confmax.maximize("macro_f1", opened, calibration=None))
    assert found[0].rule.to_json() == found[1].rule.to_json()
    assert found[0].value == found[1].value


def test_boolean_labels():
    table = make_table([[0.4, 0.6], [0.7, 0.3]], [True, False])
    assert table.classes == (False, True)
    assert table.head.labels.tolist() == [1, 0]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_read_by_column_name(frame):
    y = ["VF", "L", "M"]
    table = frame({"VF": [0.7, 0.1, 0.2], "M": [0.2, 0.8, 0.2], "L": [0.1, 0.1, 0.6]})
    by_name = make_table(table, y)
    assert by_name.classes == ("VF", "M", "L")  # the frame's order, not the sorted one
    assert by_name.head.labels.tolist() == [0, 2, 1]
    chosen = make_table(table, y, classes=["L", "M", "VF"])
    np.testing.assert_array_equal(chosen.head.proba, by_name.head.proba[:, ::-1])
