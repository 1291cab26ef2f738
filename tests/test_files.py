"""Tables in files: what is read is what was written, and what a column means is found or refused."""

import contextlib
import importlib
import zipfile

import numpy as np
import pytest

# the extra [cli] may not be installed
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("click")
pytest.importorskip("rich")
csvs = importlib.import_module("confmax.cli.csvs")
tables = importlib.import_module("confmax.cli.tables")
columns = importlib.import_module("confmax.cli.columns")
tune = importlib.import_module("confmax.cli.tune")

TableOptions, read_rows = columns.TableOptions, columns.read_rows
read_cells, read_frame, write_decisions = tables.read_cells, tables.read_frame, tables.write_decisions
as_names, read_costs = columns.as_names, tune.read_costs

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.25, 0.5, 0.25], [0.2, 0.3, 0.5]])


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text)
    return path


def table_text(names=("a", "b", "c"), extra=None):
    """CSV text of P under the given names, with further columns of text."""
    extra = extra or {}
    lines = [",".join([*names, *extra])]
    lines += [
        ",".join([*map(repr, map(float, row)), *(cells[k] for cells in extra.values())]) for k, row in enumerate(P)
    ]
    return "\n".join(lines) + "\n"


def read(folder, names=("a", "b", "c"), extra=None, known=(), **options):
    """Return the rows that are read from P under the given names, beside further columns."""
    return read_rows(read_frame(write(folder, table_text(names, extra))), TableOptions(**options), known)


# --- which column is what --------------------------------------------------------------------------------------------


# names of the columns of P, labels, options; the classes, their columns of P, if their order is known, what is said
MEANT = {
    "by the names of the labels": ("c,a,b", "a,b,c,a", {}, ("c", "a", "b"), [0, 1, 2], False, ""),
    # a class may be absent from the labels; --columns in another order than --classes changes nothing
    "by the names of --classes": ("c,a,b", "a,a,b,a", {"classes": tuple("abc")}, tuple("abc"), [1, 2, 0], True, ""),
    "of --columns too": (
        "c,a,b", "a,a,b,a", {"columns": tuple("bca"), "classes": tuple("abc")}, tuple("abc"), [1, 2, 0], True, "",
    ),
    "in file order": ("u,v,w", "0,1,2,0", {}, (0, 1, 2), [0, 1, 2], None, "in order (u = 0, v = 1, w = 2)"),
    "sorted names in column order": ("p2,p0,p1", "c,a,b,c", {}, tuple("abc"), [0, 1, 2], None, "p2 = a"),
    "numbered behind a prefix": ("p2,p0,p1", "0,1,2,0", {}, (0, 1, 2), [1, 2, 0], None, ""),
    # kappa's distances need 1, 2, 10, wherever the columns stand
    "in the order of numbers": ("10,2,1", "1,2,10,1", {}, (1, 2, 10), [2, 1, 0], True, ""),
    "without labels": ("a,b,c", None, {}, ("a", "b", "c"), [0, 1, 2], None, ""),
}  # fmt: skip


@pytest.mark.parametrize(
    ("names", "labels", "options", "classes", "order", "order_known", "said"), MEANT.values(), ids=MEANT
)
def test_which_column_is_which_class(tmp_path, names, labels, options, classes, order, order_known, said):
    # another column of numbers is no hindrance where names tell which are meant
    extra = {} if labels is None else {"y": labels.split(","), **({} if said else {"id": list("1234")})}
    rows = read(tmp_path, names.split(","), extra, label=None if labels is None else "y", **options)
    assert rows.classes == classes
    np.testing.assert_array_equal(rows.proba, P[:, order])
    assert rows.order_known == order_known or order_known is None
    assert said in "".join(rows.notes) and bool(rows.notes) == bool(said)
    assert (rows.labels is None) == (labels is None)


def test_labels_and_weights_are_no_probabilities(tmp_path):
    extra = {"y": list("0120"), "w": ["1", "2", "0.5", "1"]}
    rows = read(tmp_path, ("u", "v", "w2"), extra, label="y", weight="w")
    assert rows.columns == ("u", "v", "w2")
    assert rows.labels.tolist() == [0, 1, 2, 0]
    np.testing.assert_array_equal(rows.weight, [1, 2, 0.5, 1])


@pytest.mark.parametrize(("positive", "classes"), [("no", ("yes", "no")), ("yes", ("no", "yes"))])
def test_positive_comes_last_and_keeps_its_column(tmp_path, positive, classes):
    frame = read_frame(write(tmp_path, "no,yes,y\n0.9,0.1,no\n0.2,0.8,yes\n"))
    rows = read_rows(frame, TableOptions(label="y", positive=positive))
    assert rows.classes == rows.columns == classes
    np.testing.assert_array_equal(rows.proba[:, classes.index("yes")], [0.1, 0.8])


def test_npz_takes_the_block_that_fits_the_labels(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, P_tune=P, y_tune=np.array([0, 2, 1, 2], np.int16), P_test=P[:2], y_test=np.array([0, 2]))
    frame = read_frame(path)
    rows = read_rows(frame, TableOptions(label="y_test"))
    assert (rows.block, rows.classes) == ("P_test", (0, 1, 2))
    with pytest.raises(ValueError, match=r"P_tune \(4, 3\), P_test \(2, 3\)"):
        read_rows(frame, TableOptions())
    assert read_rows(frame, TableOptions(columns=("P_tune",))).proba.shape == (4, 3)
    with pytest.raises(ValueError, match="2 rows and the probabilities have 4"):
        read_rows(frame, TableOptions(label="y_test", columns=("P_tune",)))


def test_a_rule_needs_its_classes(tmp_path):
    """Names are never matched by position unless --columns says so; numbered classes are, leaving whole numbers out."""
    other = (tmp_path, ("p", "q", "r"), {"id": list("5678")})
    with pytest.raises(ValueError, match="has no columns of the rule's classes a, b, c"):
        read(*other, known=("a", "b", "c"))
    rows = read(*other, known=("a", "b", "c"), columns=("r", "q", "p"))
    np.testing.assert_array_equal(rows.proba, P[:, ::-1])
    assert read(*other, known=(0, 1, 2)).columns == ("p", "q", "r")
    with pytest.raises(ValueError, match="has no column 'c'"):
        read(tmp_path, ("a", "b", "see"), known=("a", "b", "c"))


def test_labels_match_as_they_are_written(tmp_path):
    """A rule tuned on integers scores a file whose labels are the same numbers as text."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"y": ["0", "1", "2", "0"], **{f"{k}": P[:, k] for k in range(3)}}), path)
    rows = read_rows(read_frame(path), TableOptions(label="y"), (0, 1, 2))
    assert rows.labels.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "0", "2"], "i", [1, 0, 2]),
        (["1.0", "0.0", "2.0"], "i", [1, 0, 2]),
        (["01", "1", "2"], "U", ["01", "1", "2"]),
        (["NA", "b", "true"], "U", ["NA", "b", "true"]),
    ],
)
def test_labels_of_text_keep_what_they_say(cells, kind, values):
    names = as_names(cells)
    assert names.dtype.kind == kind
    assert names.tolist() == values


def test_parquet_types_of_labels(tmp_path):
    """Dictionaries, whole floats and booleans are labels; dates are not."""
    path = tmp_path / "t.parquet"
    columns = {f"p{k}": P[:, k] for k in range(3)}
    kinds = {
        "d": pa.array(["x", "y", "x", "z"]).dictionary_encode(),
        "f": pa.array([0.0, 1.0, 2.0, 0.0], pa.float32()),
        "b": pa.array([True, False, True, True]),
        "t": pa.array([0, 1, 2, 3], pa.date32()),
    }
    pq.write_table(pa.table({**columns, **kinds}), path)
    frame = read_frame(path)
    assert frame.names_in("d", "column").tolist() == ["x", "y", "x", "z"]
    assert frame.names_in("f", "column").tolist() == [0, 1, 2, 0]
    assert frame.names_in("b", "column").tolist() == [True, False, True, True]
    with pytest.raises(ValueError, match="date32"):
        frame.names_in("t", "label column")


# --- writing ---------------------------------------------------------------------------------------------------------


def test_csv_cells_pass_through_as_they_came(tmp_path):
    """Leading zeros, quotes, line breaks and long fractions are the reader's, not ours to change."""
    text = 'id,a,b,note\n007,0.10000000000000001,0.9,"x, ""y"""\n010,.5,0.5000,"two\nlines"\n'
    frame = read_frame(write(tmp_path, text))
    out = tmp_path / "out.csv"
    write_decisions(out, frame, np.array(["b", "a"]))
    again = read_frame(out)
    for name in frame.columns:
        assert again.columns[name].to_pylist() == frame.columns[name].to_pylist()
    assert again.columns["decision"].to_pylist() == ["b", "a"]
    assert out.read_text().startswith("id,a,b,note,decision\n")


def test_text_becomes_typed_where_nothing_is_lost(tmp_path):
    frame = read_frame(write(tmp_path, "id,n,p,y\n007,3,0.5,no\n010,4,1,yes\n"))
    out = tmp_path / "out.parquet"
    write_decisions(out, frame, np.array([0, 1]))
    table = pq.ParquetFile(out).read()
    kinds = dict(zip(table.column_names, map(str, table.schema.types), strict=True))
    assert kinds == {"id": "string", "n": "int64", "p": "double", "y": "string", "decision": "int64"}
    out = tmp_path / "out.npz"
    write_decisions(out, frame, np.array([0, 1]))
    with np.load(out, allow_pickle=False) as arrays:
        assert {name: arrays[name].dtype.kind for name in arrays.files} == {
            "id": "U", "n": "i", "p": "f", "y": "U", "decision": "i",
        }  # fmt: skip


def test_npz_keeps_every_array_and_its_bytes(tmp_path):
    path, out = tmp_path / "t.npz", tmp_path / "out.npz"
    path.write_bytes(tables._npz_bytes({"P": P, "y": np.arange(4), "file": np.arange(2), "scalar": np.float32(3)}))
    write_decisions(out, read_frame(path), np.array(["a", "b", "a", "b"]))
    first = out.read_bytes()
    with np.load(out, allow_pickle=False) as arrays:
        assert set(arrays.files) == {"P", "y", "file", "scalar", "decision"}
        np.testing.assert_array_equal(arrays["P"], P)
    write_decisions(out, read_frame(path), np.array(["a", "b", "a", "b"]))
    assert out.read_bytes() == first


def test_npz_as_a_table_tells_what_does_not_fit(tmp_path):
    path, out = tmp_path / "t.npz", tmp_path / "out.parquet"
    np.savez(path, P=P, y=np.arange(4), short=np.arange(2), other=P[:, :2])
    left_out = write_decisions(out, read_frame(path), np.arange(4), block="P", block_names=["a", "b", "c"])
    assert left_out == ["short"]
    assert pq.ParquetFile(out).schema_arrow.names == ["a", "b", "c", "y", "other_0", "other_1", "decision"]


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    frame = read_frame(write(tmp_path, table_text()))
    before = sorted(tmp_path.iterdir())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("confmax.places.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_decisions(tmp_path / "out.csv", frame, np.arange(4))
    assert sorted(tmp_path.iterdir()) == before


def test_decision_is_not_overwritten(tmp_path):
    frame = read_frame(write(tmp_path, table_text(("a", "b", "decision"))))
    with pytest.raises(ValueError, match="already has a column 'decision'"):
        write_decisions(tmp_path / "out.csv", frame, np.arange(4))


# --- damage ----------------------------------------------------------------------------------------------------------


def test_damaged_archives_are_refused_with_a_sentence(tmp_path):
    """Whatever byte is wrong: a ValueError or a table, never another exception."""
    path = tmp_path / "t.npz"
    np.savez_compressed(path, P=P, y=np.arange(4))
    whole = path.read_bytes()
    draw = np.random.default_rng(0)
    for k in range(60):
        broken = bytearray(whole[: draw.integers(30, len(whole))] if k % 3 == 0 else whole)
        for at in draw.integers(4, len(broken), 3):
            broken[at] = draw.integers(256)
        path.write_bytes(bytes(broken))
        with contextlib.suppress(ValueError):
            read_frame(path)


def test_damaged_parquet_is_refused_with_a_sentence(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": P[:, 0], "y": list("abca")}), path)
    whole = path.read_bytes()
    for keep in range(8, len(whole), 7):
        path.write_bytes(whole[:keep])
        with pytest.raises(ValueError, match=r"t\.parquet"):
            read_frame(path)


def test_a_zip_without_arrays(tmp_path):
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sheet.xml", "<x/>")
    with pytest.raises(ValueError, match="holds no arrays"):
        read_frame(path)


# --- costs -----------------------------------------------------------------------------------------------------------

COSTS = [[0.0, 1.0, 2.0], [3.0, 0.0, 4.0], [5.0, 6.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("0,1,2\n3,0,4\n5,6,0\n", False),
        ("a,b,c\n0,1,2\n3,0,4\n5,6,0\n", True),
        ("c,a,b\n0,5,6\n2,0,1\n4,3,0\n", True),
        (",a,b,c\nc,5,6,0\na,0,1,2\nb,3,0,4\n", True),
        ("true,c,b,a\na,2,1,0\nb,4,0,3\nc,0,6,5\n", True),
        ("a,0,1,2\nb,3,0,4\nc,5,6,0\n", True),
    ],
)
def test_costs_are_matched_by_name(tmp_path, text, known):
    table, extra, by_name = read_costs(write(tmp_path, text), ("a", "b", "c"))
    assert (table, extra, by_name) == (COSTS, (), known)


def test_costs_of_numbered_classes_and_further_decisions(tmp_path):
    path = write(tmp_path, ",0,ask,1\n1,9,.5,0\n0,0,.5,1\n")
    assert read_costs(path, (0, 1)) == ([[0.0, 1.0, 0.5], [9.0, 0.0, 0.5]], ("ask",), True)
    path = write(tmp_path, "0,1\n0,1\n9,0\n")
    assert read_costs(path, (0, 1)) == ([[0.0, 1.0], [9.0, 0.0]], (), True)
    path = write(tmp_path, "0,1,0.5\n9,0,0.5\n")
    assert read_costs(path, ("n", "y")) == ([[0.0, 1.0, 0.5], [9.0, 0.0, 0.5]], (), False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n2,0\n", "has 2 rows and 2 columns for 3 classes"),
        ("a,b,d\n0,1,2\n3,0,4\n5,6,0\n", "first row .* names a, b, d"),
        (",a,b,c\na,0,1,2\nb,3,0,4\nb,5,6,0\n", "first column .* names a, b, b"),
        ("0,1,2\n3,0\n5,6,0\n", "row 1 .* has 2 costs, not 3"),
        ("0,1,2\n3,x,4\n5,6,0\n", "row 1 .* holds 'x'"),
    ],
)
def test_bad_costs(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_costs(write(tmp_path, text), ("a", "b", "c"))


def test_costs_are_csv(tmp_path):
    with pytest.raises(ValueError, match=r"does not end in \.csv"):
        read_cells(write(tmp_path, "0,1\n", "costs.npz"))


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "", "é", "long name", "名"]),
        np.array([], dtype="U3"),
        np.array([3, -1, 2**62]),
        np.arange(6, dtype=np.int32)[::2],
        np.array([0.1, np.nan, -np.inf]),
        np.array([1.5, 2.5], dtype=np.float32),
        np.array([True, False]),
    ],
)
def test_columns_and_arrays_are_converted_as_pyarrow_does(array):
    column = csvs.as_column(array)
    assert column.type == pa.array(array).type and repr(column.to_pylist()) == repr(array.tolist())
    column.validate(full=True)
    if array.dtype.kind in "if":
        parts = pa.chunked_array([column.slice(1), column.slice(0, 0), column])
        for part in (column, parts, parts.slice(1, 3), parts.slice(0, 0), pa.chunked_array([], column.type)):
            found = csvs.as_array(part)
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, part.to_numpy(zero_copy_only=False))


def test_an_empty_cell_of_a_typed_column_is_no_number():
    np.testing.assert_array_equal(csvs.as_array(pa.chunked_array([[1.5, None]])), [1.5, np.nan])
