"""Rows on threads: how many rows a block in the cache has, how many a partial sum is over, and who computes which."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

MANY = 128  # classes beyond which a row is read along itself: turning it would not stay in the inner cache
LANES = 16  # of the sums along a row
PARTS = 16  # partial sums of a table,
# each over at least and at most so many entries
LEAST_CELLS = 1 << 18
MOST_CELLS = 1 << 20

_pool: ThreadPoolExecutor | None = None
_limit = local()


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    # threads do not survive a fork: a child starts its own
    os.register_at_fork(after_in_child=_forget_pool)


def most_threads() -> int:
    """Return how many threads this process may use: ``CONFMAX_NUM_THREADS``, or the processors that it may run on."""
    given = os.environ.get("CONFMAX_NUM_THREADS", "")
    if given:
        if not given.isdecimal() or int(given) < 1:
            raise ValueError(f"CONFMAX_NUM_THREADS is a whole number of at least one; got {given!r}")
        return int(given)
    # a container may run on some of the machine's processors only
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_threads() -> int:
    """Return how many threads the scans of this thread use."""
    return getattr(_limit, "threads", None) or most_threads()


@contextmanager
def on_threads(wanted: int) -> Iterator[None]:
    """Give scans of this thread so many threads, as far as there are; other threads are not changed."""
    before = getattr(_limit, "threads", None)
    _limit.threads = max(1, min(wanted, most_threads()))
    try:
        yield
    finally:
        _limit.threads = before


def run_parts(work: Callable[[int], Any], n_parts: int) -> list[Any]:
    """Return what ``work(part)`` makes of every part; each thread takes the next part that nobody has taken."""
    global _pool
    threads = min(n_threads(), n_parts)
    parts = iter(range(n_parts))  # its next() is atomic
    made: list[Any] = [None] * n_parts

    def take() -> None:
        for part in parts:
            made[part] = work(part)

    if threads <= 1:
        take()
        return made
    if _pool is None:
        # a table of one part needs none
        from concurrent.futures import ThreadPoolExecutor

        _pool = ThreadPoolExecutor(most_threads(), thread_name_prefix="confmax")
    helpers = [_pool.submit(take) for _ in range(threads - 1)]
    take()
    for helper in helpers:
        helper.result()
    return made


def over_rows(work: Callable[[int, int, int], Any], n_rows: int, chunk: int) -> list[Any]:
    """Return what ``work(part, start, stop)`` gives for all rows, ``chunk`` of them at a time, in their order."""
    starts = range(0, n_rows, chunk)
    return run_parts(lambda k: work(k, starts[k], min(starts[k] + chunk, n_rows)), len(starts))


def block_rows(n_classes: int) -> int:
    """Return how many rows a block has: what the inner caches hold, and whole vectors of either type."""
    # up to 128 classes a block of float64 takes at most 131 kB, which the inner caches hold beside a scan's sums
    if n_classes <= 24:
        return 512
    return 256 if n_classes <= 64 else (128 if n_classes <= 256 else 64)


def chunk_rows(n_classes: int, n_rows: int) -> int:
    """Return how many rows a partial sum is over: whole blocks, the same for any number of threads.

    A sixteenth of the table, within limits: small tables must occupy several threads, too.
    """
    rows = block_rows(n_classes)
    cells = min(max(n_rows * n_classes // PARTS, LEAST_CELLS), MOST_CELLS)
    return rows * max(1, cells // (rows * n_classes))
