"""The progress bar: rows of a pass are counted as rows, passes as passes, on any width."""

import importlib
import io
import re
import sys

import pytest

import confmax as library

pytest.importorskip("rich")


def bar_lines(width, monkeypatch):
    """Return what the bar shows on a terminal of a width, with all that it can say."""
    show = importlib.import_module("confmax.cli.show")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    with show.Bar("tuning", "passes", after=-1.0) as bar:
        bar.rows(1_000_000, 100_000_000)
        bar.step(library.optimize.Progress(3, 0.5432, 0.1, 0.5533, 0.01, 100))
        bar.rows(40_000_000, 100_000_000)
        assert bar.live is not None
        bar.live.refresh()
    text = sys.stderr.getvalue()
    return [line for line in text.replace("\r", "\n").split("\n") if "tuning" in line]


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_the_bar_counts_rows_and_fits(width, monkeypatch):
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", bar_lines(width, monkeypatch)[-1])
    assert "40.0M/100M rows" in last or width < 40
    assert len(last.rstrip()) <= width and "\u2026" not in last
    assert "/100 passes" not in last and "M passes" not in last
    if width == 120:
        assert ", value 0.5432, 3 passes done, at most 0.5533" in last
