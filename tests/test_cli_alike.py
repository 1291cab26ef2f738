"""The command line answers alike whether a Parquet file is read whole or in parts, whatever its columns hold."""

import decimal
from pathlib import Path

import numpy as np
import pytest

import confmax as library
from tests.cli_helpers import document, run
from tests.parts_helpers import labelled

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ("high", "low", "middle")
PLAIN = ("--confusion", "labels", "--calibration", "none")


pytestmark = pytest.mark.usefixtures("inside")


def decimals(values, digits=6):
    """Return numbers as an Arrow array of decimals."""
    cells = [decimal.Decimal(f"{value:.{digits}f}") for value in np.asarray(values, float).tolist()]
    return pa.array(cells, pa.decimal128(12, digits))


def one_hot(P):
    return (P.max(axis=1, keepdims=True) == P).astype(np.int64)


def lists(P, kind):
    flat, (n, K) = pa.array(np.ascontiguousarray(P).reshape(-1)), P.shape
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, K)
    offsets = np.arange(0, n * K + 1, K)
    if kind == "large":
        return pa.LargeListArray.from_arrays(pa.array(offsets), flat)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat)


def columns_of(P, names):
    return dict(zip(names, P.T, strict=True))


PROBABILITIES = {
    "float64": columns_of,
    "float16": lambda P, names: columns_of(P.astype(np.float16), names),
    "decimal128": lambda P, names: {name: decimals(column) for name, column in columns_of(P, names).items()},
    "one-hot integers": lambda P, names: columns_of(one_hot(P), names),
    "list": lambda P, names: {"probability": lists(P, "list")},
    "large list": lambda P, names: {"probability": lists(P.astype(np.float32), "large")},
    "fixed_size_list": lambda P, names: {"probability": lists(P, "fixed")},
    "text": lambda P, names: columns_of(P.astype(str), names),
}
LABELS = {
    "string": lambda y: pa.array(np.array(NAMES)[y]),
    "large_string": lambda y: pa.array(np.array(NAMES)[y].tolist(), pa.large_string()),
    "string_view": lambda y: pa.array(np.array(NAMES)[y]).cast(pa.string_view()),
    "dictionary": lambda y: pa.array(np.array(NAMES)[y]).dictionary_encode(),
    "dictionary of large_string": lambda y: pa.array(
        np.array(NAMES)[y].tolist(), pa.large_string()
    ).dictionary_encode(),
    "dictionary of int": lambda y: pa.array(y).dictionary_encode(),
    "booleans": lambda y: pa.array(y.astype(bool)),
    "int8": lambda y: pa.array(y.astype(np.int8)),
    "whole floats": lambda y: pa.array(y.astype(float)),
    "decimal": lambda y: decimals(y, 0),
    "binary": lambda y: pa.array([NAMES[k].encode() for k in y]),
    "dates": lambda y: pa.array(y.astype(np.int32), pa.date32()),
    "empty rows": lambda y: pa.array([NAMES[k] if row else "" for row, k in enumerate(y)]),
    "missing": lambda y: pa.array([NAMES[k] if row else None for row, k in enumerate(y)]),
}


def outcome(in_parts, refused, *options):
    """Return the rule of a run, or the sentence of its refusal."""
    arguments = ("t.parquet", "--metric", "macro_f1", *PLAIN, *options, "--in-parts", in_parts)
    out = f"{in_parts}.json"
    Path(out).unlink(missing_ok=True)
    if refused is not None:
        _, told = run("tune", *arguments, "-o", out, code=2)
        assert len(told.splitlines()) == 1
        assert not Path(out).exists()
        return told
    assert document("tune", *arguments, "-o", out)["rows"] == 200
    return library.DecisionRule.load(out)


def assert_alike(P, *options, refused=None):
    whole, parts = outcome("no", refused, *options), outcome("yes", refused, *options)
    if refused is not None:
        assert refused in whole
        assert refused in parts
        return
    assert parts.classes.tolist() == whole.classes.tolist()
    assert parts.classes.dtype == whole.classes.dtype
    np.testing.assert_allclose(parts.gains.a, whole.gains.a, rtol=1e-9)
    np.testing.assert_array_equal(parts.predict(P), whole.predict(P))


def write(columns):
    pq.write_table(pa.table(columns), "t.parquet", row_group_size=150)


@pytest.mark.parametrize("kind", PROBABILITIES)
def test_probabilities_of_any_type(kind):
    P, y, _ = labelled(200, 3, sharp=0.6)
    refused = "choose" if kind == "text" else None
    write(PROBABILITIES[kind](P, NAMES) | {"truth": LABELS["string"](y)})
    by_hand = "probability" if "list" in kind else ",".join(NAMES)
    assert_alike(P, "--label", "truth", "--columns", by_hand, refused=refused)
    assert_alike(P, "--label", "truth", "--classes", "low,high,middle", refused=refused)


if not hasattr(pa, "string_view"):
    del LABELS["string_view"]  # before pyarrow 16
REFUSED = {
    "binary": "truth' of t.parquet holds binary; it must hold strings or numbers",
    "dates": "truth' of t.parquet holds date32[day]; it must hold strings or numbers",
    "empty rows": "empty",
    "missing": "row 0 of ",
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_type(kind):
    P, y, _ = labelled(200, 2 if kind == "booleans" else 3, sharp=0.6)
    numbered = kind in ("dictionary of int", "int8", "whole floats", "decimal")
    classes = {"booleans": [False, True]}.get(kind, [0, 1, 2] if numbered else list(NAMES))
    write(columns_of(P, map(str, classes)) | {"truth": LABELS[kind](y)})
    assert_alike(P, "--label", "truth", refused=REFUSED.get(kind))
    if kind not in REFUSED:
        assert library.DecisionRule.load("yes.json").classes.tolist() == classes


RAGGED = "column 'scores' of t.parquet: row 199 of the table of probabilities has 1 probabilities and row 0 has 2"


def test_a_list_column_of_another_name_must_be_named():
    """It may be anything, such as the features."""
    P, y, _ = labelled(200, 3, sharp=0.6)
    write({"scores": lists(P, "list"), "truth": y})
    assert_alike(P, "--label", "truth", "--columns", "scores")
    assert_alike(P, "--label", "truth", refused="column")
    write({"scores": pa.array([[0.5, 0.5]] * 199 + [[1.0]]), "truth": y})
    assert_alike(P, "--label", "truth", "--columns", "scores", refused=RAGGED)


def test_weights_of_decimals():
    P, y, weight = labelled(200, 3, sharp=0.6)
    write(columns_of(P, NAMES) | {"truth": LABELS["string"](y), "w": decimals(weight, 2)})
    assert_alike(P, "--label", "truth", "--weight", "w", "--columns", ",".join(NAMES))


def test_tables_that_are_refused_before_their_rows_are_read():
    P, y, _ = labelled(200, 3)
    columns = columns_of(P, NAMES) | {"truth": np.array(NAMES)[y]}
    write(columns)
    assert_alike(P, "--label", "truht", refused="t.parquet has no column 'truht' (nearest: truth); correct --label")
    write({name: cells[:0] for name, cells in columns.items()})
    assert_alike(P, "--label", "truth", refused="t.parquet has column names but no rows; give at least one row")


def test_binary_labels_are_refused_before_rows_are_read(monkeypatch):
    P, y, _ = labelled(200, 3)
    write(columns_of(P, NAMES) | {"truth": LABELS["binary"](y)})
    monkeypatch.setattr("confmax.tables.partitioned.files._row_groups", lambda *_, **__: pytest.fail("rows were read"))
    with pytest.raises(ValueError, match=r"label column 'truth' of t\.parquet holds binary; it must hold strings or"):
        library.open_table("t.parquet", label="truth")
