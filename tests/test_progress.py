"""How far the work is: bars on terminals, lines elsewhere, and nothing where nobody wants it."""

import contextlib
import errno
import io
import re
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import confmax
from confmax import progress
from confmax.optimize import Progress
from tests.parts_helpers import labelled

P, Y, _ = labelled(300, 3)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that makes stderr a terminal; pytest exchanges stderr before a test begins."""
    pytest.importorskip("rich")

    def made(columns=120, kind="xterm"):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", kind)
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    return made


def shown(terminal):
    """Return the lines that a terminal shows in the end."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    return [line.rstrip("\r").split("\r")[-1] for line in text.split("\n")]


# --- what the bar counts ---------------------------------------------------------------------------------------------


@pytest.fixture
def bar(monkeypatch):
    """A bar which keeps what it is told to show instead."""
    bar = progress.Bar("tuning", "passes")
    bar.shown = []
    monkeypatch.setattr(bar, "update", lambda done, total, parts=(): bar.shown.append((done, total, bar.unit, *parts)))
    return bar


def test_rows_per_second_are_shown(bar):
    """The bar counts the rows of a pass and says which value the step before has reached."""
    bar.rows(100, 200)
    bar.rows(200, 200)
    bar.step(Progress(1, 0.5, 0.5, None, 0.5, 10))
    bar.rows(100, 200)
    assert [entry[:3] for entry in bar.shown] == [(100, 200, "rows"), (200, 200, "rows"), (100, 200, "rows")]
    assert all("rows/s" in parts[0] for _, _, _, *parts in bar.shown)
    assert bar.shown[-1][4:] == ("value 0.5000", "1 pass done")


def test_of_several_searches_the_bar_counts_them(bar):
    """Passes begin anew with each."""
    for search, n_passes in ((1, 3), (1, 9), (2, 2)):
        bar.step(Progress(n_passes, 0.5, 0.5, 0.6, 0.5, 10, search, 17))
    assert bar.shown == [(k, 17, "searches", "value 0.5000") for k in (1, 1, 2)]


def test_items_before_the_one_that_is_taken_are_done(bar):
    assert list(bar.each("ab", 3, "again")) == ["a", "b"]
    assert bar.shown == [(0, 3, "passes", "again"), (1, 3, "passes", "again"), (2, 3, "passes")]


@pytest.mark.parametrize("width", [30, 120])
def test_the_bar_counts_rows_and_fits(width, terminal):
    """On a terminal of a width, with all that it can say."""
    screen = terminal(width)
    with progress.Bar("tuning", "passes", after=-1.0) as bar:
        bar.rows(1_000_000, 100_000_000)
        bar.step(Progress(3, 0.5432, 0.1, 0.5533, 0.01, 100))
        bar.rows(40_000_000, 100_000_000)
        assert bar.live is not None
        bar.live.refresh()
    last = [line for line in screen.getvalue().replace("\r", "\n").split("\n") if "tuning" in line][-1]
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", last)
    assert "40.0M/100M rows" in last or width < 40
    assert len(last.rstrip()) <= width and "\u2026" not in last
    if width == 120:
        assert ", value 0.5432, 3 passes done, at most 0.5533" in last
    assert "tuning" not in shown(screen)[-1]  # wiped out


# --- where it is shown -----------------------------------------------------------------------------------------------

CALLS = {
    "passes": lambda **given: confmax.maximize("g_mean", P, Y, **given),
    "searches": lambda **given: confmax.maximize(
        "accuracy", P, Y, constraints=["recall[1] >= 0.1", "rate[2] <= 0.9"], confidence=0.6, **given
    ),
    "levels": lambda **given: confmax.frontier("accuracy", "rate[1] <=", P, Y, levels=4, **given),
    "folds": lambda **given: confmax.MetricClassifierCV(LogisticRegression(), metric="g_mean", **given).fit(P, Y),
}


@pytest.mark.parametrize("unit", CALLS)
def test_lines_where_nothing_can_move(unit, capsys):
    """One line at the end of short work, on stderr; without progress there is none, and the result is the same."""
    found = CALLS[unit](progress=True)
    out, lines = capsys.readouterr()
    assert out == ""
    done = rf"\d+/\d+ {unit}"
    if unit in ("passes", "searches"):
        # what the solution says
        done = (f"{found.n_passes} passes" if unit == "passes" else done) + f", value {found.value:.4f}"
    assert re.search(rf": done in \d+\.\d s, {done}", lines.splitlines()[-1])
    assert len(lines.splitlines()) == (3 if unit == "folds" else 1)
    plain = CALLS[unit]()
    assert capsys.readouterr() == ("", "")
    one, other = (each.rules if unit == "levels" else getattr(each, "rule_", each) for each in (found, plain))
    assert getattr(one, "rule", one) == getattr(other, "rule", other)


def test_an_estimator_says_what_it_fits_and_tunes(capsys):
    """Of five folds and the model of all rows."""
    classifier = clone(confmax.MetricClassifierCV(LogisticRegression(), metric="g_mean", progress=True))
    assert classifier.get_params()["progress"] is True
    classifier.fit(P, Y)
    fits, tuning, folds = capsys.readouterr().err.splitlines()
    assert fits.startswith("fitting LogisticRegression: done in") and fits.endswith("6/6 models")
    assert tuning.startswith("tuning for g_mean: ")
    assert folds.startswith("tuning the rules of the folds: ") and folds.endswith("5/5 folds")


def test_long_work_has_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", -1.0)
    confmax.frontier("accuracy", "rate[1] <=", P, levels=[0.1, 0.2, 0.3], confusion="model", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(", ")[0].split(": ")[1] for line in lines[:4]] == [f"{k}/3 levels" for k in range(4)]


def test_a_bar_stays_on_a_terminal(terminal):
    screen = terminal()
    before = sys.stdout, sys.stderr
    confmax.maximize("recall[1]", P, Y, constraints="precision[1] >= 0.4", progress=True)
    assert (sys.stdout, sys.stderr) == before
    last = [line for line in shown(screen) if line.strip()][-1]
    # the brackets are no style of rich's
    assert last.startswith("tuning for recall[1] ") and "done in " in last and " passes, value 0." in last


@pytest.mark.parametrize("without", ["rich", "a terminal that can move"])
def test_lines_on_a_terminal_without(without, terminal, monkeypatch):
    screen = terminal(kind="xterm" if without == "rich" else "dumb")
    if without == "rich":
        monkeypatch.setattr(progress, "find_spec", lambda name: None)
    confmax.maximize("g_mean", P, Y, progress=True)
    assert screen.getvalue().startswith("tuning for g_mean: done in ") and "\x1b" not in screen.getvalue()


def test_the_callback_goes_on_to_work(capsys):
    steps = []
    found = confmax.maximize("g_mean", P, Y, progress=True, callback=lambda step: steps.append(step) or True)
    assert len(steps) == 1 and found.status is confmax.optimize.Status.STOPPED
    assert "passes" in capsys.readouterr().err


def test_after_an_error_nothing_is_done(capsys):
    with pytest.raises(ZeroDivisionError):
        confmax.maximize("g_mean", P, Y, progress=True, callback=lambda step: 1 / 0)
    assert capsys.readouterr().err == ""


def test_a_closed_stderr_does_not_end_the_work(monkeypatch):
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        assert confmax.maximize("g_mean", P, Y, progress=True).value > 0.0


class Interrupted(Terminal):
    """A terminal in whose n-th write by the main thread an interruption comes."""

    def __init__(self, n):
        super().__init__()
        self.left = n

    def write(self, text):
        if threading.current_thread() is threading.main_thread():
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return super().write(text)


@pytest.mark.parametrize("n", range(1, 12))
def test_an_interruption_leaves_the_terminal_as_it_was(n, terminal, monkeypatch):
    """Also one that comes while the bar starts, or while it stops."""
    terminal()
    screen = Interrupted(n)
    monkeypatch.setattr(sys, "stderr", screen)
    before = sys.stdout
    with contextlib.suppress(KeyboardInterrupt), progress.Bar("tuning", "passes", after=0.0, stays=True) as bar:
        bar.update(1, 2)
        raise KeyboardInterrupt
    assert (sys.stdout, sys.stderr) == (before, screen)
    text = screen.getvalue()
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l") or "\x1b[?25l" not in text


def gone(_text):
    raise OSError(errno.EIO, "the terminal was closed")


@pytest.mark.parametrize(
    "stream",
    [SimpleNamespace(write=gone, isatty=lambda: True), SimpleNamespace(write=gone), SimpleNamespace(write=len)],
    ids=["a terminal that was closed", "a stream that is gone", "no more than a method"],
)
def test_a_stream_that_takes_no_text_does_not_end_the_work(stream, terminal, monkeypatch):
    terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    assert confmax.maximize("g_mean", P, Y, progress=True).value > 0.0


def test_a_terminal_that_has_no_such_letters(terminal, monkeypatch):
    terminal()
    screen = io.TextIOWrapper(io.BytesIO(), "ascii")
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    assert confmax.maximize("f1[\u00fc]", P, np.array(["a", "b", "\u00fc"])[Y], progress=True).value > 0.0


@pytest.mark.parametrize("bad", ["yes", 1, None, np.array(True)])
def test_other_words_are_refused(bad):
    with pytest.raises(ValueError, match="progress must be True or False; got"):
        confmax.maximize("g_mean", P, Y, progress=bad)
