"""CSV files of very many columns and of very long lines: read in blocks that hold them."""

import os
import threading

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("pyarrow")

from confmax.cli import cells
from confmax.cli.columns import TableOptions, read_rows
from confmax.cli.tables import read_frame
from confmax.estimators.steps import all_columns
from tests.cli_helpers import run, small


def test_names_may_take_more_than_the_csv_reader_s_limit_of_a_field(tmp_path):
    """Looking for semicolons in names between commas finds one field of all names."""
    K = 20_000
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(f"p{k}" for k in range(K)), *[",".join(["1", *"0" * (K - 1)])] * 40]) + "\n")
    frame = read_frame(path)
    # blocks of few rows would make of every column as many arrays as the file has megabytes
    assert {column.num_chunks for column in frame.columns.values()} == {1}
    assert read_rows(frame, TableOptions()).proba.shape == (40, K)


@pytest.mark.parametrize("length", [200_000, 3_000_000])
def test_a_line_may_be_longer_than_a_block(tmp_path, length):
    path = small(tmp_path, id={30: "x" * length})
    run("tune", path, "--label", "y", "--metric", "accuracy", "--columns", "a,b,c", "-o", tmp_path / "rule.json")
    run("apply", tmp_path / "rule.json", path, "-o", tmp_path / "out.csv")
    cells = read_frame(path).columns["id"].to_pylist()
    assert read_frame(tmp_path / "out.csv").columns["id"].to_pylist() == cells
    assert len(cells[30]) == length


class Name(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def test_places_of_many_classes_take_no_search_for_each(tmp_path):
    K = 200
    names = [Name(f"c{k}") for k in range(K)]
    proba = np.arange(K - 1.0)[None]
    full = all_columns(proba, [Name(name) for name in names[:0:-1]], names)
    np.testing.assert_array_equal(full[0], [0, *range(K - 2, -1, -1)])
    rows = read_rows(read_frame(small(tmp_path)), TableOptions(columns=("a", "b", "c")))
    assert rows.in_order(("c", "a", "b")).columns == ("c", "a", "b")
    assert Name.compared < 10 * K


@pytest.mark.parametrize("command", ["tune", "apply"])
def test_a_named_pipe_is_read_as_the_file_is(tmp_path, command):
    """More bytes than a pipe holds at once."""
    path = small(tmp_path, rows=5000)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    run("tune", path, "--label", "y", "--metric", "macro_f1", "-o", tmp_path / "rule.json")
    said = []
    for source, name in ((path, "one.csv"), (pipe, "other.csv")):
        writer = threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
        if source == pipe:
            writer.start()
        before, after = (["rule.json"], []) if command == "apply" else ([], ["--label", "y", "--metric", "macro_f1"])
        run(command, *(tmp_path / each for each in before), source, *after, "-o", tmp_path / name)
        said.append((tmp_path / name).read_bytes())
    writer.join()
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("a,b\n" * 30, True),
        ("a" * 100 + "\n", False),
        ("a\n" * 20 + "b" * 64, False),
        ('"' + "a\n" * 40 + '"\n', False),
        ('"a""\n"\n' * 20, True),
        ("a,b\r" * 30, False),
        ("a", True),
    ],
)
def test_long_rows_are_seen_before_they_are_read(text, short, tmp_path):
    """Threads of pyarrow may wait for ever where a block holds no end of a row; who says so wrongly reads slowly."""
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    assert cells.check_quotes(cells.Source(path), 32) == short
    # so it is for the blocks that pyarrow makes
    parity = np.cumsum([letter == '"' for letter in text]) % 2
    ends = [k for k, letter in enumerate(text) if letter == "\n" and not parity[k]]
    for first in range(32):
        blocks = range(first, len(text) - 31, 32)
        assert not short or all(any(low <= end < low + 32 for end in ends) for low in blocks)
