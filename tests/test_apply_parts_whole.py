"""Rules applied part by part: files appear whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from tests.apply_helpers import NAMES, PLAIN, P, contents, names, opened, written
from tests.cli_helpers import run, run_process
from tests.test_signals import OBEY, SAID, SIGNALS

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("inside")


@pytest.fixture(params=["new.parquet", "old.parquet", "new/", "old/"])
def place(request):
    """Return a place beside the scores where nothing is, or what was written before."""
    written(bad=-1, size=20)
    Path("good").mkdir()
    pq.write_table(pa.table(dict(zip(NAMES, P[:5].T, strict=True))), "good/0.parquet")
    if request.param.startswith("old"):
        PLAIN.write_parquet(opened("good"), request.param)
    return request.param


def test_a_bad_row_in_the_last_part_leaves_everything_as_it_was(place, monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.files.PART_CELLS", 60)
    before = contents()
    with pytest.raises(ValueError, match=r"row group 9 of .*2.parquet: row 19, column 0 of proba is not"):
        PLAIN.write_parquet(opened(), place)
    assert contents() == before and not [name for name in names() if "confmax" in name]


def test_an_interruption_leaves_everything_as_it_was(place, monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.files.PART_CELLS", 60)
    before = contents()

    def progress(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PLAIN.write_parquet(opened(progress=progress), place)
    assert contents() == before and not [name for name in names() if "confmax" in name]


def test_a_full_disk_leaves_everything_as_it_was(place, monkeypatch):
    """Whichever step finds it full, in whichever thread."""
    before = contents()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    steps = ["pyarrow.parquet.ParquetWriter.write_table", "pyarrow.parquet.ParquetWriter.close"]
    if place.endswith("/"):
        steps += ["confmax.tables.partitioned.writing.open", "pathlib.Path.mkdir", "pathlib.Path.rename"]
    else:
        steps += ["confmax.places.os.open", "confmax.places.os.replace"]
    table = opened("good")
    for step in steps:
        with monkeypatch.context() as patched:
            patched.setattr(step, full, raising=False)
            with pytest.raises(OSError, match="No space left") as found:
                PLAIN.write_parquet(table, place)
        assert (found.value.errno, found.value.filename) == (errno.ENOSPC, place.rstrip("/")), step
        assert contents() == before and not [name for name in names() if "confmax" in name], step


# the signal comes at one of the moments when a folder takes the place of another
AT_RENAME = """
import os, signal, pathlib
rename, calls = os.rename, []
def renamed(*args):
    calls.append(args)
    if len(calls) == {}:
        signal.raise_signal({})
    rename(*args)
os.rename = renamed
from confmax.__main__ import main
main()
"""


@SIGNALS
@pytest.mark.parametrize("call", [1, 2])
def test_a_signal_leaves_the_old_folder(number, call):
    written()
    PLAIN.save("rule.json")
    run("apply", "rule.json", "scores", "-o", "out")
    before = contents()
    done = run_process("apply", "rule.json", "scores", "-o", "out", code=AT_RENAME.format(call, number), first=OBEY)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", SAID[number])
    assert contents() == before and not [name for name in names() if "confmax" in name]
