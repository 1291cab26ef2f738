"""Tables in files that are read part by part: the answer of the table in memory, and faults by file and row group."""

import importlib
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table
from confmax.tables.array.kind import ARRAYS
from tests.helpers import assert_same_statistics
from tests.parts_helpers import labelled

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ("bad", "good", "ugly")
SETTINGS = {"confusion": "labels", "calibration": None}


def write(folder, P, y=None, w=None, *, size=100, files=1, name="t", **more):
    """Write probabilities, names as labels and weights to files of row groups of a size; return their pattern."""
    for k, rows in enumerate(np.array_split(np.arange(len(P)), files)):
        columns = {column: P[rows, j] for j, column in enumerate(NAMES)}
        if y is not None:
            columns["truth"] = np.array(NAMES)[y[rows]]
        if w is not None:
            columns["w"] = w[rows]
        pq.write_table(pa.table(columns), folder / f"{name}{k}.parquet", row_group_size=size, **more)
    return str(folder / f"{name}*.parquet")


def parts_of(monkeypatch, rows):
    """Let row groups of this table be read together if they begin in the same so many rows."""
    monkeypatch.setattr("confmax.tables.partitioned.files.PART_CELLS", 3 * rows)


@pytest.mark.parametrize(
    ("size", "files", "dtype", "together"),
    [(5, 1, np.float32, 64), (7, 1, np.float64, 64), (100, 3, np.float32, 1), (10_000, 2, np.float64, 1 << 20)],
)
def test_row_groups_of_any_size_give_the_same_statistics(tmp_path, monkeypatch, size, files, dtype, together):
    parts_of(monkeypatch, together)
    P, y, w = labelled(300, 3, dtype=dtype)
    gains = Gains.reduced(np.random.default_rng(0).random((2, 3)) + 0.5)
    opened = confmax.open_table(write(tmp_path, P, y, w, size=size, files=files), label="truth", weight="w")
    table = make_table(opened, classes=NAMES)
    assert (table.n_rows, table.dtype) == (300, dtype)
    for share in (1.0, 0.0, 0.4):
        oracles = (make_oracle(one, "blend", model_share=share) for one in (table, make_table(P, y, w)))
        assert_same_statistics(*(oracle.maximize(gains, matrix=True) for oracle in oracles))


def test_kinds_of_columns(tmp_path):
    """Lists of any kind, dictionaries, whole numbers as labels, 16-bit floats, other columns beside."""
    P, y, _ = labelled(200, 3, dtype=np.float32)
    whole = confmax.maximize("macro_f1", P, y, **SETTINGS)
    flat = pa.array(P.reshape(-1))
    offsets = np.arange(201, dtype=np.int32) * 3
    kinds = {
        "list": pa.ListArray.from_arrays(pa.array(offsets), flat),
        "large": pa.LargeListArray.from_arrays(pa.array(offsets.astype(np.int64)), flat),
        "fixed": pa.FixedSizeListArray.from_arrays(flat, 3),
    }
    for column in kinds.values():
        table = pa.table({"id": np.arange(200), "probability": column, "score": P[:, 0], "y": y.astype(np.int16)})
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=150, compression="ZSTD")
        opened = confmax.open_table(tmp_path / "t.parquet", label="y")
        assert confmax.maximize("macro_f1", opened, **SETTINGS).value == whole.value
    named = {f"p{k}": P[:, k].astype(np.float16) for k in range(3)}
    coded = pa.array(np.array(NAMES)[y]).dictionary_encode()
    pq.write_table(pa.table({**named, "y": coded}), tmp_path / "half.parquet", row_group_size=150)
    opened = confmax.open_table([tmp_path / "half.parquet"], label="y", columns=["p2", "p0", "p1"])
    half = confmax.maximize("macro_f1", opened, classes=["ugly", "bad", "good"], **SETTINGS)
    assert half.value == pytest.approx(whole.value, abs=5e-3)


def saved(folder, P, y, w):
    """Save the three arrays of a table and open them."""
    for name, array in (("p", P), ("y", y), ("w", w)):
        np.save(folder / f"{name}.npy", array)
    return confmax.open_table(folder / "p.npy", label=folder / "y.npy", weight=folder / "w.npy")


def test_mapped_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.opening.MAPPED_BYTES", 5000)
    P, y, w = labelled(600, 3)
    opened = saved(tmp_path, P, y, w)
    assert len(opened.pieces) == 3
    found, whole = confmax.maximize("g_mean", opened), confmax.maximize("g_mean", P, y, sample_weight=w)
    assert found.value == pytest.approx(whole.value, abs=1e-9)
    np.testing.assert_array_equal(whole.rule.predict(opened), whole.rule.predict(P))


def test_rows_are_told_while_they_are_read(tmp_path, monkeypatch):
    parts_of(monkeypatch, 100)
    heard = []
    P, y, _ = labelled(500, 3)
    opened = confmax.open_table(
        write(tmp_path, P, y), label="truth", progress=lambda done, all_rows: heard.append((done, all_rows))
    )
    confmax.maximize("g_mean", opened, **SETTINGS)
    assert heard[:5] == [(100, 500), (200, 500), (300, 500), (400, 500), (500, 500)]
    assert len(heard) % 5 == 0 and len(heard) > 5
    heard.clear()
    parts_of(monkeypatch, 200)
    _ = make_table(opened).known
    assert heard == [(200, 500), (400, 500), (500, 500)]


def test_small_row_groups_are_read_together(tmp_path, monkeypatch):
    """The number of reads follows from the rows, not from the row groups; a large row group is a part of its own."""
    P, y, _ = labelled(600, 3)
    opened = confmax.open_table(write(tmp_path, P, y, size=3, files=2), label="truth")
    assert len(opened.pieces) == 200
    oracle = make_oracle(make_table(opened), "labels")
    reads = []
    read = pq.ParquetFile.read_row_groups

    def counted(self, groups, **more):
        reads.append(len(groups))
        return read(self, groups, **more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
    gains = Gains.reduced(np.random.default_rng(0).random((2, 3)))
    expected = oracle.maximize(gains, matrix=True)
    assert reads == [100, 100]
    for rows, counts in ((121, [41, 40, 19] * 2), (2, [1] * 200)):
        parts_of(monkeypatch, rows)
        reads.clear()
        again = oracle.maximize(gains, matrix=True)
        assert reads == counts
        np.testing.assert_allclose(again.matrix, expected.matrix, rtol=1e-12, atol=1e-15)


def test_row_groups_of_other_dictionaries_are_read_together(tmp_path):
    P, y, _ = labelled(300, 3)
    parts = []
    for rows in np.split(np.arange(300), 6):
        # the dictionary of labels has the order in which they come
        labels = pa.array(np.array(NAMES)[y[rows]]).dictionary_encode()
        parts.append(pa.table({**dict(zip(NAMES, P[rows].T, strict=True)), "truth": labels}))
    with pq.ParquetWriter(tmp_path / "t.parquet", parts[0].schema) as writer:
        for part in parts:
            writer.write_table(part)
    opened = confmax.open_table(tmp_path / "t.parquet", label="truth")
    oracles = (make_oracle(table, "labels") for table in (make_table(opened), make_table(P, y)))
    assert_same_statistics(*(oracle.maximize(Gains.reduced([1.0, 2.0, 0.5])) for oracle in oracles))


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_truncated_file_is_refused_by_name(tmp_path):
    P, y, _ = labelled(300, 3)
    pattern = write(tmp_path, P, y, files=2)
    path = tmp_path / "t1.parquet"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"t1\.parquet is a damaged Parquet file"):
        confmax.open_table(pattern, label="truth")


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (None, r"row group 1 of .*t0\.parquet is damaged"),
        (500, r"row group 0 of .*t0\.parquet: row 500"),
        (2500, r"row group 1 of .*t0\.parquet is damaged"),
    ],
)
def test_damage_inside_a_file_is_refused_by_row_group(tmp_path, bad, sentence):
    """The footer is whole, a page is not; a bad row is named instead if it comes before the damage."""
    P, y, _ = labelled(3000, 3)
    if bad is not None:
        P[bad] = 7.0
    pattern = write(tmp_path, P, y, size=1000, compression="ZSTD")
    path = tmp_path / "t0.parquet"
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    half = column.total_compressed_size // 2
    data[column.data_page_offset : column.data_page_offset + half] = b"\xff" * half
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("g_mean", confmax.open_table(pattern, label="truth"))
    # no thread is left when a run ends early
    assert not [thread for thread in threading.enumerate() if "confmax-read" in thread.name]


def test_a_file_that_changes_between_passes_is_refused(tmp_path):
    """The rows were checked in the first pass only."""
    P, y, _ = labelled(500, 3)
    opened = confmax.open_table(write(tmp_path, P, y), label="truth")
    table = make_table(opened)
    os.utime(tmp_path / "t0.parquet", ns=(1, 1))
    with pytest.raises(ValueError, match=r"t0\.parquet has changed since it was opened"):
        make_oracle(table, "labels").maximize(Gains.reduced(np.ones(3)))
    (tmp_path / "t0.parquet").unlink()
    with pytest.raises(ValueError, match=r"t0\.parquet has changed since it was opened"):
        confmax.maximize("g_mean", opened)


@pytest.mark.parametrize("which", ["p", "y", "w", "g"])
def test_any_array_that_changes_after_opening_is_refused(tmp_path, which):
    """Probabilities, labels, weights and groups: each is a file of its own."""
    P, y, w = labelled(500, 3)
    saved(tmp_path, P, y, w)
    np.save(tmp_path / "g.npy", y % 2)
    paths = {key: tmp_path / f"{key[0]}.npy" for key in ("weight", "group")}
    opened = confmax.open_table(tmp_path / "p.npy", label=tmp_path / "y.npy", **paths)
    table = make_table(opened)
    np.save(tmp_path / f"{which}.npy", {"p": P[::-1], "y": (y + 1) % 3, "w": w + 1, "g": y}[which])
    os.utime(tmp_path / f"{which}.npy", ns=(1, 1))  # the clock of files may be coarser than this test is fast
    sentence = rf"{which}\.npy has changed since it was opened; keep files as they are during a run"
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("g_mean", opened, **SETTINGS)
    with pytest.raises(ValueError, match=sentence):
        make_oracle(table, "labels").maximize(Gains.reduced(np.ones(3)))


def test_a_footer_is_read_once_in_a_pass(tmp_path, monkeypatch):
    parts_of(monkeypatch, 100)
    P, y, _ = labelled(600, 3)
    opened = confmax.open_table(write(tmp_path, P, y, files=2), label="truth")
    table, given = make_table(opened), []
    real = pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda *a, **more: (given.append(more["metadata"]), real(*a, **more))[1])
    make_oracle(table).maximize(Gains.reduced(np.ones(3)))
    assert [each is None for each in given] == [True, False, False, True, False, False]


def test_a_pass_scans_each_row_once(tmp_path, monkeypatch):
    """The sums of the columns are known from the check: each part would add them up anew in every pass."""
    P, y, w = labelled(600, 3)
    opened = confmax.open_table(write(tmp_path, P, y, w, size=50), label="truth", weight="w", columns=NAMES)
    tables = (make_table(opened, classes=NAMES), make_table(P, y, w))
    shares = (1.0, 0.4, 0.0)
    in_parts, whole = ([make_oracle(table, "blend", model_share=share) for share in shares] for table in tables)
    gains = Gains.reduced(np.random.default_rng(0).random((2, 3)) + 0.5)
    expected = [oracle.maximize(gains) for oracle in whole]
    monkeypatch.setattr(type(ARRAYS), "column_sums", None)
    for oracle, found in zip(in_parts, expected, strict=True):
        assert_same_statistics(oracle.maximize(gains), found)


MEMORY = "name a file, pass a table in memory to maximize as proba, or pass a function"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "open_table was given no file; name at least one Parquet file, or one .npy file"),
        (None, f"got None: {MEMORY}"),
        ([None], f"got a sequence with None: {MEMORY}"),
        (b"t.parquet", f"got bytes: {MEMORY}"),
        (np.eye(2), f"got ndarray: {MEMORY}"),
        ([pa.table({"a": [0.5]})], f"got a sequence with Table: {MEMORY}"),
        ("file:///data/a%20b.parquet", "there is no file /data/a b.parquet"),
        ("none", "none is a directory without .parquet files; name a file, or another folder"),
    ],
)
def test_what_is_no_local_file_is_refused(inside, given, message):
    (inside / "none").mkdir()
    (inside / "none" / "_part.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=message):
        confmax.open_table(given)


# --- folders of folders -----------------------------------------------------------------------------------------------


def in_folders(n=400):
    """Write folders of days and names of places, with missing ones, and files beside that are no part of the table."""
    P, y, w = labelled(n, 3, dtype=np.float64)
    place = np.array(["a/b", "Zürich 1", None], dtype=object)[np.arange(n) % 3]
    columns = {**dict(zip(NAMES, P.T, strict=True)), "truth": np.array(NAMES)[y], "w": w}
    table = pa.table({**columns, "id": np.arange(n), "day": np.arange(n) % 2 + 5, "place": pa.array(place)})
    pq.write_to_dataset(table, "hive", partition_cols=["day", "place"], row_group_size=20)
    for name in ("_SUCCESS", ".a.parquet", "day=5/.part.crc"):
        Path("hive", name).write_bytes(b"no table")
    return P, y, w


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("pattern", ["hive", "hive/", "hive/*/*/*.parquet", "hi*", "hive/day=*", "hive/**/*.parquet"])
def test_folders_of_keys_are_columns(pattern):
    in_folders()
    if pattern == "hive":  # a pattern reads what it matches
        Path("hive/_b.parquet").write_bytes(b"no table")
    opened = confmax.open_table(pattern, label="place", weight="day", group="day").keeping(["id", "place", "day"])
    assert opened.names == (*NAMES, "w")  # all floats, and no key
    parts = list(opened.run(lambda part: part))
    whole = pa.concat_tables([part.beside for part in parts])
    read = importlib.import_module("pyarrow.dataset").dataset("hive", partitioning="hive", exclude_invalid_files=True)
    expected = read.to_table(["id", "place", "day"])
    assert whole.sort_by("id") == expected.sort_by("id").cast(whole.schema)
    assert whole.schema.types == expected.schema.types == [pa.int64(), pa.string(), pa.int32()]
    assert set(whole["place"].to_pylist()) == {"a/b", "Zürich 1", None}
    for part in parts:
        np.testing.assert_array_equal(part.weight, part.beside["day"])
        assert [part.labels.values[k] for k in part.labels.index] == part.beside["place"].to_pylist()
        np.testing.assert_array_equal(part.group, part.beside["day"])


@pytest.mark.usefixtures("inside")
def test_keys_are_groups_and_weights():
    P, y, w = in_folders()
    opened = confmax.open_table("hive", label="truth", weight="w", group="day")
    limits = {"constraints": "min(recall[bad] | group) >= 0.3", **SETTINGS}
    found = confmax.maximize("accuracy", opened, **limits)
    whole = confmax.maximize(
        "accuracy", P, np.array(NAMES)[y], sample_weight=w, group=np.arange(len(P)) % 2 + 5, classes=NAMES, **limits
    )
    assert found.value == pytest.approx(whole.value, abs=1e-9)
    with pytest.raises(ValueError, match=r"has no column 'day'"):
        confmax.open_table("hive", columns=["bad", "day"])
    with pytest.raises(ValueError, match=r"the label column has no label|y has no label|missing"):
        confmax.maximize("accuracy", confmax.open_table("hive", label="place"), **SETTINGS)


@pytest.mark.usefixtures("inside")
def test_other_folders_are_read_and_columns_of_files_come_first():
    table = pa.table({"a": [0.5, 0.25], "b": [0.5, 0.75], "day": ["x", "y"]})
    for name in ("deep/er/t.parquet", "deep/t.pq", "deep/day=3/t.parquet"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, name)
    opened = confmax.open_table("deep", label="day")
    assert opened.n_rows == 6
    assert [Path(piece.path.path).as_posix() for piece in opened.pieces] == [
        "deep/day=3/t.parquet", "deep/er/t.parquet", "deep/t.pq"
    ]  # fmt: skip
    assert confmax.oracle.make_table(opened, classes=("x", "y")).n_rows == 6
    assert confmax.open_table("deep/day=3/t.parquet").pieces[0].keys == {}
    assert confmax.open_table(f"file://{Path('deep/t.pq').resolve()}").n_rows == 2


@pytest.mark.usefixtures("inside")
def test_a_key_that_some_folders_lack_is_missing_there():
    for name in ("t/k=007/a.parquet", "t/a.parquet"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"a": [0.5], "b": [0.5]}), name)
    parts = confmax.open_table("t").keeping(["k"]).run(lambda part: part.beside["k"].to_pylist())
    assert sorted(parts, key=str) == [[7], [None]]


@pytest.mark.parametrize("name", ["t.parquet", Path("t.parquet")], ids=repr)
def test_the_name_of_a_file_is_no_table(name):
    sentence = r"proba is a name \('t.parquet'\), not a table of probabilities; pass confmax.open_table\(name\)"
    rule = confmax.DecisionRule.from_weights([1, 2])
    for call in (lambda: confmax.maximize("g_mean", name, "truth"), lambda: rule.decision_probabilities(name)):
        with pytest.raises(ValueError, match=sentence):
            call()


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory):
    """A folder of files that cannot be opened as they are, or not with every argument."""
    folder = tmp_path_factory.mktemp("unreadable")
    P, y, _ = labelled(50, 3)
    write(folder, P, y)
    other = pa.table({"a": P[:, 0], "b": P[:, 1]})
    pq.write_table(other, folder / "u0.parquet")
    pq.write_table(pa.table({"x": ["a"], "y": [1]}), folder / "words.parquet")
    pq.write_table(pa.table({"p": pa.array([[0.5, 0.5], [1.0]])}), folder / "ragged.parquet")
    pq.write_table(other.slice(0, 0), folder / "empty.parquet")
    pq.write_table(other.append_column("tags", pa.array([["a"]] * 50)), folder / "lists.parquet")
    for name, array in (("p", P), ("other", P[1:]), ("flat", y), ("bytes", y.astype("S1")), ("text", y.astype("U1"))):
        np.save(folder / f"{name}.npy", array)
    (folder / "text.txt").write_text("a,b\n")
    (folder / "broken.npy").write_bytes(b"\x93NUMPY")
    return folder


def tune(opened):
    return confmax.maximize("g_mean", opened)


def decide(opened, n_classes=2, **more):
    return confmax.DecisionRule.from_weights(np.ones(n_classes)).predict(opened, **more)


@pytest.mark.parametrize(
    ("path", "settings", "use", "sentence"),
    [
        ("none.parquet", {}, None, "there is no file"),
        ("none*.parquet", {}, None, "no file matches"),
        ("text.txt", {}, None, "text.txt is none of .parquet, .npy, .csv"),
        (["t0.parquet", "p.npy"], {}, None, "give Parquet files, or one .npy file"),
        ("t0.parquet", {"label": "lable"}, None, "t0.parquet has no column 'lable'"),
        (["t0.parquet", "u0.parquet"], {}, None, "u0.parquet has no column 'bad'"),
        ("words.parquet", {}, None, "0 columns of floating-point numbers"),
        ("ragged.parquet", {"columns": ["p"]}, None, "column 'p': row 1 of proba has 1 probabilities and row 0 has 2"),
        ("t0.parquet", {"columns": []}, None, "columns is empty"),
        ("p.npy", {"columns": ["a"]}, None, "columns= names columns of Parquet files"),
        ("p.npy", {"label": "p.npy"}, tune, r"y must hold one label per row, .*pass decisions='any'"),
        ("p.npy", {"label": "other.npy"}, None, "must hold one entry per row: 50"),
        ("p.npy", {"label": ["a", "b"]}, None, r"label names 2 columns, and an array has none; name a .npy file"),
        ("lists.parquet", {"label": "tags"}, tune, "y holds a list of labels for each row; pass decisions='any'"),
        ("p.npy", {"label": "y"}, None, "y is not a .npy file"),
        ("p.npy", {"label": "bytes.npy"}, None, r"bytes.npy holds \|S1; it must hold strings or"),
        ("p.npy", {"weight": "text.npy"}, None, "text.npy holds <U1; it must hold numbers"),
        ("flat.npy", {}, None, r"must hold an array \(n, K\)"),
        ("broken.npy", {}, None, "cannot be read as an array"),
        ("empty.parquet", {}, tune, "at least one row"),
        ("t0.parquet", {"columns": ["bad", "truth"]}, tune, "holds string, not numbers"),
        ("p.npy", {}, lambda opened: decide(opened, 3, keys=[1]), "keys are not split"),
        ("p.npy", {}, decide, r"rows 0 to 49 of .*: proba has 3 columns and the rule has 2 classes"),
    ],
)
def test_what_cannot_be_opened_or_used_says_why(unreadable, monkeypatch, path, settings, use, sentence):
    monkeypatch.chdir(unreadable)
    if use is not None:
        opened = confmax.open_table(path, **settings)
    with pytest.raises(ValueError, match=sentence):
        confmax.open_table(path, **settings) if use is None else use(opened)


def test_no_thread_is_left_when_a_run_ends_early(tmp_path):
    P, y, _ = labelled(500, 3)
    P[450] = 7.0
    with pytest.raises(ValueError, match="row group 4"):
        confmax.maximize("g_mean", confmax.open_table(write(tmp_path, P, y), label="truth"))
    assert not [thread for thread in threading.enumerate() if "confmax-read" in thread.name]


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "g_mean", "cohen_kappa"])
@pytest.mark.parametrize("confusion", ["labels", "model", "blend"])
def test_two_classes_have_the_same_rule_as_in_memory(tmp_path, metric, confusion):
    """Accuracy, whose rule is known, is not searched among thresholds in either place."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=300)
    P = np.column_stack([p, 1 - p])
    y = (rng.uniform(size=300) > p).astype(int)
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "y.npy", y)
    opened = confmax.open_table(tmp_path / "p.npy", label=tmp_path / "y.npy")
    found = confmax.maximize(metric, opened, **SETTINGS | {"confusion": confusion})
    expected = confmax.maximize(metric, P, y, **SETTINGS | {"confusion": confusion})
    assert found.value == pytest.approx(expected.value, abs=1e-12)
    np.testing.assert_array_equal(found.predict(P), expected.predict(P))
