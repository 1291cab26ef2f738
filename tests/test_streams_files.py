"""Rows that stream from files of text and Arrow, and rows that are written to a file because they are read once."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.tables.partitioned import batches
from tests.cli_helpers import document
from tests.fresh_process import run_fresh
from tests.stream_helpers import (
    NAMED,
    NAMES,
    SETTINGS,
    TABLE,
    TRUTH,
    P,
    W,
    arrays,
    csv,
    feather,
    frames,
    lazy,
    polars,
    pq,
    slices,
)

pytestmark = pytest.mark.usefixtures("inside", "small_parts")


def test_folders_patterns_and_lists():
    Path("t").mkdir()
    for k, rows in enumerate(slices(500)):
        part = TABLE.slice(rows.start, 500)
        csv.write_csv(part, f"t/{k}.csv")
        feather.write_feather(part, f"t{k}.feather")
    expected = confmax.maximize("macro_f1", P, TRUTH, sample_weight=W, **SETTINGS).value
    csv.write_csv(TABLE, "a:b%20[1] *.csv")
    files = [f"t/{k}.csv" for k in range(3)]
    for given in ("t", "t/*.csv", files, "t?.feather", list(Path().glob("t?.feather")), "a:b%20[1] *.csv"):
        source = confmax.open_table(given, **NAMED)
        assert source.n_rows == 1500
        assert confmax.maximize("macro_f1", source, **SETTINGS).value == pytest.approx(expected, rel=1e-12)
    assert "t/0.csv and 2 more" in source_name("t")
    Path("t/_notes.csv").write_text("no table")
    assert "t/0.csv and 2 more" in source_name("t")
    # text beside Parquet is no part of a table
    pq.write_table(TABLE, "t/t.parquet")
    assert confmax.open_table("t", **NAMED).n_rows == 1500
    assert not hasattr(confmax.open_table("t", **NAMED), "stream")


def test_commands_read_text_in_parts():
    Path("t").mkdir()
    csv.write_csv(TABLE, "t/t.csv")
    arguments = ("--label", "truth", "--weight", "w", "--columns", "bad,good,ugly", "--metric", "macro_f1")
    expected = document("tune", "t/t.csv", *arguments)
    for given in (("t",), ("t/*.csv",), ("t/t.csv", "--in-parts", "yes")):
        told = document("tune", *given, *arguments)
        assert told["tuned"] == pytest.approx(expected["tuned"], rel=1e-9)
        assert (told["rows"], told["classes"]) == (1500, list(NAMES))


def source_name(given):
    return confmax.open_table(given, **NAMED).stream.what


def test_text_with_whole_numbers_and_empty_cells():
    Path("t.csv").write_text("a,b,y\n1,0,u\n0,1,v\n0.5,0.5,\n")
    with pytest.raises(ValueError, match=r"rows 0 to 2 of t.csv: row 2 of y has no label"):
        confmax.maximize("macro_f1", confmax.open_table("t.csv", label="y"))
    Path("t.csv").write_text("a,b,y\n1,0,u\n0,1,v\n")
    with pytest.raises(ValueError, match=r"0 columns of floating-point numbers .*columns="):
        confmax.open_table("t.csv", label="y")
    named = confmax.open_table("t.csv", label="y", columns=["a", "b"])
    assert next(named.run(lambda part: part.proba.dtype)) == np.float64


@pytest.fixture
def temporary(tmp_path_factory, monkeypatch):
    """A folder for temporary files of this test and of the processes that it starts; it returns what lies there."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return lambda: os.listdir(folder)


@pytest.mark.parametrize("way", ["reader", "arrays", "frames", "lazy"])
@pytest.mark.usefixtures("small_samples", "inside")
def test_what_can_be_read_once_is_written_to_a_temporary_file(temporary, monkeypatch, way):
    monkeypatch.setattr(batches, "SPOOLED_ROWS", 250)
    given = {"reader": TABLE.to_reader, "arrays": arrays, "frames": frames(polars), "lazy": lazy}[way]()
    source = confmax.open_table(given, spool=True, **({} if way == "arrays" else NAMED))
    assert len(temporary()) == 1
    for name, one in (("found", source), ("expected", confmax.open_table(TABLE, **NAMED))):
        confmax.maximize("macro_f1", one).rule.save(f"{name}.json")
    assert Path("found.json").read_bytes() == Path("expected.json").read_bytes()
    kept = source.with_columns([0, 1, 2])
    del source, one
    assert sum(kept.run(lambda part: len(part.proba))) == 1500
    del kept
    assert not temporary()


def test_a_temporary_file_is_removed_with_what_failed(temporary, monkeypatch):
    def failing():
        yield from arrays()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        confmax.open_table(failing(), spool=True)
    with pytest.raises(ValueError, match="holds no rows"):
        confmax.open_table(iter([TABLE.slice(0, 0)]), spool=True)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", _full)
    with pytest.raises(ValueError, match=r"the RecordBatchReader cannot be written to .*: No space left"):
        confmax.open_table(TABLE.to_reader(), spool=True)
    assert not temporary()


def _full(*_):
    raise OSError("No space left on device")


def test_a_fresh_process(inside, temporary):
    pytest.importorskip("polars")
    lazy()
    pq.write_table(TABLE.drop_columns(["id"]), "t.parquet")
    tune = "print(confmax.maximize('macro_f1', {}, 'truth', sample_weight='w').value)"
    steps = [
        {"code": "import confmax\ndef rows():\n    yield [[0.5, 0.5]], [0]\nconfmax.open_table(rows)"},
        {"find": ["pyarrow"], "code": "import pyarrow.dataset\n" + tune.format("pyarrow.dataset.dataset('t.parquet')")},
        {"find": ["polars"], "code": "import polars\n" + tune.format("polars.scan_parquet('t.parquet')")},
        {"code": "found = confmax.open_table(polars.scan_parquet('t.parquet').collect_batches(), spool=True, "
                 "label='truth', weight='w')\nprint(confmax.maximize('macro_f1', found).value)"},
    ]  # fmt: skip
    first, *others = run_fresh(steps, inside)
    assert first["error"] == "ImportError: rows that stream need pyarrow; install it with: pip install 'confmax[cli]'"
    assert [step["error"] for step in others] == [None] * 3
    (printed,) = {step["printed"] for step in others}
    assert float(printed) == pytest.approx(confmax.maximize("macro_f1", P, TRUTH, sample_weight=W).value, abs=1e-12)
    assert not temporary()
