"""Kinds of Arrow columns, as probabilities, labels, weights and groups: the arrays that NumPy makes of their values."""

from decimal import Decimal

import numpy as np
import pytest

import confmax
from tests.cli_helpers import document

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N = 60
P = np.round(np.random.default_rng(0).dirichlet(np.ones(3), N), 2)
P[:, 2] = 1 - P[:, 0] - P[:, 1]
WORDS = np.array(["a", "b", "ü"])[np.arange(N) % 3]
WHOLE = np.arange(N) % 3


def decimals(kind):
    return lambda values: pa.array([Decimal(f"{value:.2f}") for value in values], kind)


NUMBERS = {
    "decimal128": decimals(pa.decimal128(9, 2)),
    "decimal256": decimals(pa.decimal256(50, 2)),
    "float16": lambda values: pa.array(np.asarray(values, np.float16)),
    "float32": lambda values: pa.array(values, pa.float32()),
    "dictionary": lambda values: pa.array(values).dictionary_encode(),
}
NUMBERS |= {
    name: decimals(getattr(pa, name)(width, 2))
    for name, width in (("decimal32", 9), ("decimal64", 18))
    if hasattr(pa, name)
}
TOLERANCE = {"float16": 1e-3, "float32": 1e-7}


def read(table, /, **settings):
    """Write a table in row groups and return what is read of it, as one part."""
    pq.write_table(pa.table(table), "t.parquet", row_group_size=25)
    (part,) = confmax.open_table("t.parquet", **settings).run(lambda part: part)
    return part


def names_of(labels):
    return [labels.values[k] for k in labels.index] if hasattr(labels, "index") else np.asarray(labels).tolist()


pytestmark = pytest.mark.usefixtures("inside")


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers(kind):
    make = NUMBERS[kind]
    columns = {f"p{k}": make(P[:, k]) for k in range(3)} | {"n": make(WHOLE.astype(float))}
    part = read(columns, columns=["p0", "p1", "p2"], label="n", weight="n", group="n")
    np.testing.assert_allclose(part.proba, P, atol=TOLERANCE.get(kind, 1e-15))
    np.testing.assert_array_equal(part.weight, WHOLE)
    assert names_of(part.labels) == names_of(part.group) == WHOLE.tolist()


LISTS = {
    "list": lambda values, kind: pa.array([list(row) for row in values], pa.list_(kind)),
    "large list": lambda values, kind: pa.array([list(row) for row in values], pa.large_list(kind)),
    "fixed list": lambda values, kind: pa.array([list(row) for row in values], pa.list_(kind, 3)),
    "tensor": lambda values, kind: pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(kind, [3]), pa.array([list(row) for row in values], pa.list_(kind, 3))
    ),
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("inner", ["double", "float", "halffloat", "decimal"])
def test_lists(kind, inner):
    values = P
    type_ = {"double": pa.float64(), "float": pa.float32(), "halffloat": pa.float16(), "decimal": pa.decimal128(9, 2)}[
        inner
    ]
    if inner == "halffloat":
        values = P.astype(np.float16)
    if inner == "decimal":
        values = np.array([[Decimal(f"{one:.2f}") for one in row] for row in P])
    column = LISTS[kind](values, type_)
    part = read({"probability": column, "y": WORDS}, label="y")
    np.testing.assert_allclose(part.proba, P, atol=1e-3 if inner == "halffloat" else 1e-7)
    rule = confmax.DecisionRule.from_weights([1.0, 2.0, 1.5])
    np.testing.assert_array_equal(rule.predict(confmax.open_table("t.parquet")), rule.predict(np.asarray(part.proba)))


WORDED = {
    "string": lambda values: pa.array(values),
    "large string": lambda values: pa.array(values.tolist(), pa.large_string()),
    "dictionary": lambda values: pa.array(values).dictionary_encode(),
    "view": lambda values: pa.array(values, pa.string_view()),
}


@pytest.mark.parametrize("kind", [kind for kind in WORDED if kind != "view" or hasattr(pa, "string_view")])
def test_strings(kind):
    part = read({"a": P[:, 0], "b": 1 - P[:, 0], "y": WORDED[kind](WORDS)}, label="y", group="y", columns=["a", "b"])
    assert names_of(part.labels) == names_of(part.group) == WORDS.tolist()


def test_booleans_are_labels_weights_and_groups():
    truth = WHOLE > 0
    used = np.arange(N) % 5 > 1
    columns = {"used": used, "a": P[:, 0], "b": 1 - P[:, 0], "y": truth, "coded": pa.array(truth).dictionary_encode()}
    part = read(columns, label="y", weight="used", group="y", columns=["a", "b"])
    assert names_of(part.labels) == names_of(part.group) == truth.tolist()
    np.testing.assert_array_equal(part.weight, used)
    opened = confmax.open_table("t.parquet", label="y", weight="used", columns=["a", "b"])
    found = confmax.maximize("macro_f1", opened, classes=[False, True], confusion="labels", calibration=None)
    whole = confmax.maximize(
        "macro_f1", np.column_stack([columns["a"], columns["b"]]), truth, sample_weight=used.astype(float),
        classes=[False, True], confusion="labels", calibration=None,
    )  # fmt: skip
    assert found.value == whole.value
    assert names_of(read(columns, label="coded", columns=["a", "b"]).labels) == truth.tolist()


def test_columns_of_nothing_and_missing_numbers_are_refused_by_row():
    columns = {
        "a": P[:, 0],
        "b": 1 - P[:, 0],
        "none": pa.nulls(N),
        "half": [0.5] * N,
        "some": pa.array([0.5] * 30 + [None] * 30),
    }
    part = read(columns, label="none", weight="none", columns=["a", "none"])
    assert np.isnan(part.weight).all() and np.isnan(part.proba[:, 1]).all()
    for settings, sentence in (
        ({"columns": ["a", "none"]}, "row group 0 of t.parquet: row 0, column 1"),
        ({"columns": ["some", "half"]}, "row group 1 of t.parquet: row 5, column 0"),
        ({"columns": ["a", "b"], "label": "none"}, "row group 0 of t.parquet: row 0"),
        ({"columns": ["a", "b"], "weight": "some"}, "row group 1 of t.parquet: .*weight"),
    ):
        with pytest.raises(ValueError, match=sentence):
            confmax.maximize("accuracy", confmax.open_table("t.parquet", **settings), confusion="model")


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (r"timestamp\[us\]", pa.array([0] * N, pa.timestamp("us"))),
        ("binary", pa.array([b"a"] * N)),
        ("struct<x: int64>", pa.array([{"x": 1}] * N)),
        (r"map<string, int64.*>", pa.array([[("x", 1)]] * N, pa.map_(pa.string(), pa.int64()))),
        ("dictionary<values=string", pa.array(WORDS).dictionary_encode()),
        ("list<element: string>", pa.array([["a"]] * N)),
    ],
)
def test_what_is_no_number_is_refused_by_name_and_type(kind, column):
    pq.write_table(pa.table({"a": P[:, 0], "b": P[:, 1], "x": column}), "t.parquet")
    for use in ({"columns": ["a", "x"]}, {"columns": ["a", "b"], "weight": "x"}):
        with pytest.raises(ValueError, match=rf"row group 0 of t.parquet: column 'x' holds {kind}.*, not numbers"):
            confmax.oracle.make_table(confmax.open_table("t.parquet", **use))
    if "string" not in kind or "map" in kind:
        with pytest.raises(ValueError, match=rf"label column 'x' of t.parquet holds {kind}.*; it must hold strings or"):
            confmax.open_table("t.parquet", columns=["a", "b"], label="x")


def test_columns_that_only_memory_holds():
    """Runs of equal values, which Parquet has no type for: objects that stream may have them."""
    from confmax.tables.partitioned.arrow import part_of

    encode = pytest.importorskip("pyarrow.compute").run_end_encode
    runs = encode(pa.array(["a"] * 20 + ["b"] * (N - 20)))
    weights = encode(pa.array([0.5] * 20 + [2.0] * (N - 20)))
    source = confmax.tables.partitioned.files.FileSource(("p", "q"), "y", "w", 2, pieces=(), group="y")
    table = pa.table({"p": P[:, 0], "q": 1 - P[:, 0], "y": runs, "w": weights})
    part = part_of(source, table, "here", held={})
    assert names_of(part.labels) == names_of(part.group) == ["a"] * 20 + ["b"] * (N - 20)
    np.testing.assert_array_equal(part.weight, np.where(np.arange(N) < 20, 0.5, 2.0))


def test_files_may_end_in_pq(tmp_path):
    pq.write_table(pa.table({"a": P[:, 0], "b": 1 - P[:, 0], "y": np.array(["a", "b"])[WHOLE % 2]}), "t.pq")
    assert confmax.open_table(tmp_path).n_rows == N
    for in_parts in ("yes", "no"):
        options = ("--label", "y", "--metric", "accuracy", "--in-parts", in_parts, "-o", "rule.json", "--force")
        told = document("tune", "t.pq", *options)
        assert told["rows"] == N
    assert document("apply", "rule.json", "t.pq", "-o", "decided.pq")["rows"] == N
    assert "decision" in pq.read_table("decided.pq").column_names
