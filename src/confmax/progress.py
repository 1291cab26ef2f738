"""How far the work is: a bar of rich on a terminal and in a notebook, lines of text elsewhere, all on stderr.

The commands show it on a terminal only, for work that takes long, and wipe it out. With ``progress=True`` the library
shows it from the beginning, and the last state stays. Then there are lines where rich is missing or nothing can move.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:  # work without a bar waits neither for rich nor for solvers
    from rich.console import Console
    from rich.progress import Progress

    from confmax.optimize import Progress as Step

UNREAD = (OSError, ValueError, AttributeError)  # of a stream that is closed, gone, or no more than a method to write
LEAST_BAR = 8  # columns of a bar
SHOW_AFTER = 0.5  # seconds: shorter work needs no bar
EVERY = 5.0  # seconds between two lines, so that a log stays short
_Item = TypeVar("_Item")


class _Lenient:
    """A ``stream`` whose errors do not end the work: of a terminal that was closed, or has no such letter."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with suppress(*UNREAD):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(*UNREAD):
            self.stream.flush()


class Bar(AbstractContextManager["Bar"]):
    """The progress of work called ``what``, of which more than ``after`` seconds are shown.

    It counts the units given to `update`, or the rows of a pass (`rows`), and says after how many passes (`step`)
    which value was reached. What does not fit into the width of the terminal is left out, the last things first.
    The last state stays where the bar ``stays``, and lines are printed where no bar can move.
    """

    def __init__(self, what: str, unit: str, *, after: float = SHOW_AFTER, stays: bool = False) -> None:
        self.what = what
        self.unit = unit
        self.after = after
        self.stays = stays
        self.began = time.monotonic()
        self.said = self.began
        self.console = _console()
        self.live: Progress | None = None
        self.streams: tuple[Any, Any] | None = None
        self.texts: list[str] = []
        self.reached: list[str] = []
        self.rows_before = 0
        self.pass_began = self.began

    def __enter__(self) -> Bar:
        if self.stays and self.console is not None:
            # rows may be calibrated for long before the first unit is done
            with ExitStack() as interrupted:
                interrupted.push(self)
                self._start()
                interrupted.pop_all()
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        try:
            if kind is None and self.stays:
                self._end()
        finally:
            if self.live is not None:
                self._stop(self.live)

    def update(self, done: int, total: int, parts: Sequence[str] = ()) -> None:
        """Show that ``done`` of ``total`` units are done, and further parts of the line while there is room."""
        self.texts = [f"{_counted(done)}/{_counted(total)} {self.unit}", *parts]
        now = time.monotonic()
        if now - self.began < self.after:
            return
        if self.console is not None:
            self._draw(done, total, self.texts)
        elif self.stays and now - self.said >= EVERY:
            self.said = now
            self._say(self.texts)

    def _end(self) -> None:
        """Show the last state. The search may have ended before all of its units."""
        texts = [f"done in {time.monotonic() - self.began:.1f} s", *self.texts]
        if self.live is not None:
            self._draw(1, 1, texts)
        else:
            self._say(texts)

    def _draw(self, done: int, total: int, texts: Sequence[str]) -> None:
        live = self.live or self._start()
        shown = self._fitting(texts, live.console.width)
        live.update(live.task_ids[0], completed=done, total=total, shown=shown)

    def _start(self) -> Progress:
        from rich.progress import BarColumn, Progress, TextColumn

        # stdout holds results only, so the bar goes to stderr. Warnings stand above it where stderr can be exchanged
        # meanwhile: threads would restore it in any order
        mine = threading.current_thread() is threading.main_thread()
        self.streams = (sys.stdout, sys.stderr) if mine else None
        # names of classes are printed as they are: rich would read [b] as a style
        what, shown = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[shown]"))
        live = Progress(
            what,
            BarColumn(None),
            shown,
            console=self.console,
            transient=not self.stays,
            expand=True,
            redirect_stdout=mine,
            redirect_stderr=mine,
        )
        # kept before it starts, so that an interruption finds what is to be stopped
        self.live = live
        live.add_task(self.what, total=None, shown="")
        live.start()
        return live

    def _stop(self, live: Progress) -> None:
        """Stop the bar. An interruption may have come while it started, or come now: the terminal is left as it was."""
        try:
            with suppress(IndexError):  # what had not started
                live.stop()
        finally:
            if self.streams is not None:
                sys.stdout, sys.stderr = self.streams
            live.console.show_cursor(True)

    def _say(self, texts: Sequence[str]) -> None:
        # a log that nobody reads any more must not end the work
        with suppress(*UNREAD):
            print(f"{self.what}: {', '.join(texts)}", file=sys.stderr, flush=True)

    def _fitting(self, parts: Sequence[str], width: int) -> str:
        room = width - len(self.what) - LEAST_BAR - 2  # a space on either side of the bar
        most = max((k for k in range(len(parts) + 1) if len(", ".join(parts[:k])) <= room), default=0)
        return ", ".join(parts[:most])

    def solved(self, n_passes: int, value: float) -> None:
        """Say at the end what a solution says: it has scanned the table once more, and may be better than the steps."""
        done = f"{n_passes} pass{'es' * (n_passes != 1)}" if self.unit == "passes" else self.texts[0]
        self.texts = [done, f"value {value:.4f}"]

    def step(self, progress: Step) -> None:
        """Show a step of `maximize`; returns nothing, so that the run goes on."""
        self.reached = [f"value {progress.value:.4f}"]
        if progress.n_searches > 1:
            # passes begin anew with every search, and its bound is one within tighter limits
            self.unit = "searches"
            self.update(progress.search, progress.n_searches, self.reached)
            return
        if progress.upper_bound is not None:
            self.reached.append(f"at most {progress.upper_bound:.4f}")
        if self.unit == "rows":
            self.reached.insert(1, f"{progress.n_passes} pass{'es' * (progress.n_passes != 1)} done")
        else:
            self.update(progress.n_passes, progress.max_passes, self.reached)

    def rows(self, done: int, total: int) -> None:
        """Show how many rows of a pass over a file are read, how fast, and what the step before has reached."""
        now = time.monotonic()
        # fewer rows than before begin another pass; the first one began with the work
        if self.unit != "rows" or done < self.rows_before:
            self.pass_began = now if self.unit == "rows" else self.began
            self.unit = "rows"
        self.rows_before = done
        seconds = max(now - self.pass_began, 1e-9)
        self.update(done, total, [f"{_counted(done / seconds)} rows/s", *self.reached])

    def each(self, items: Iterable[_Item], total: int, *parts: str) -> Iterator[_Item]:
        """Yield items, of which there are ``total`` or fewer; those before the one that is taken are done."""
        done = 0
        for item in items:
            self.update(done, total, parts)
            yield item
            done += 1
        self.update(done, total)


def bar_for(progress: bool | Bar, what: str, unit: str) -> AbstractContextManager[Bar | None]:
    """Return the bar that ``progress=True`` wants, or None; a bar is one that the caller shows already."""
    if isinstance(progress, Bar):
        return nullcontext(progress)
    return Bar(what, unit, after=0.0, stays=True) if progress else nullcontext()


def beside(bar: Bar, callback: Callable[[Step], Any] | None) -> Callable[[Step], Any]:
    """Return a callback of `maximize` that shows each step in a ``bar`` and answers what ``callback`` answers."""

    def step(progress: Step) -> Any:
        bar.step(progress)
        return None if callback is None else callback(progress)

    return step


def _console() -> Console | None:
    """Return where a bar of rich can move: a terminal, or a notebook that has what rich needs there; else None."""
    is_terminal = False
    with suppress(*UNREAD):
        is_terminal = sys.stderr.isatty()
    if not (is_terminal or "IPython" in sys.modules) or find_spec("rich") is None:
        return None
    from rich.console import Console

    console = Console(file=cast("IO[str]", _Lenient(sys.stderr)), markup=False)
    if console.is_jupyter:
        return console if find_spec("ipywidgets") else None
    return console if is_terminal and not console.is_dumb_terminal else None


def _counted(count: float) -> str:
    """Return a count in three or four digits, such as 1.23M, or as it is below ten thousand."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= max(size, 1e4):
            scaled = count / size
            return f"{scaled:.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f}{letter}"
    return f"{count:.0f}"
