"""What the benchmarks of speed and scale share: generated tables, cold alternating timings, memory and child processes.

Two calls are compared in one process, in turn, so that a busy machine is unfair to neither. Before each call its table
is copied afresh and a buffer larger than the last-level cache is overwritten, so that neither finds its data there.

Tables are posteriors of a Gaussian model, as a good and as a mediocre classifier give them. Class k has prior
``imbalance ** (-k / (K - 1))``, up to scale, and features ``z ~ N(signal e_k, 1)`` in K dimensions; its posterior is
``softmax(log prior + signal z)``, exactly. A large signal separates the classes, a small one lets them overlap. A
reported table may be mildly wrong: logits sharpened by 1.25 and moved by a fixed N(0, .3) per class. The softmax is
computed in float32, as a network does, so that row sums are off by rounding.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from confmax.kernels.blocks import n_threads, on_threads

ROOT = Path(__file__).resolve().parent.parent
THREADS = 2
SCRATCH_BYTES = 1 << 26
SEED = 20
CELLS = 1 << 22  # per chunk of generated rows
SHARPER, MOVED = 1.25, 0.3


@dataclass(frozen=True)
class Recipe:
    """How a table (n, K) is drawn."""

    n: int
    K: int
    signal: float = 1.5
    imbalance: float = 100.0
    wrong: bool = False
    seed: int = SEED

    @property
    def size(self):
        return f"{short(self.n)} x {self.K}"

    def priors(self):
        weights = self.imbalance ** (-np.arange(self.K) / (self.K - 1))
        return weights / weights.sum()

    def draw(self, part=0, n=None):
        """Return probabilities (n, K) float32 and labels (n,) int64; parts share the model, not the rows."""
        n = self.n if n is None else n
        rng, priors = np.random.default_rng([self.seed, part, self.n, self.K]), self.priors()
        moved = np.random.default_rng([self.seed, self.K]).normal(0.0, MOVED, self.K)
        y = rng.choice(self.K, n, p=priors)
        P, step = np.empty((n, self.K), np.float32), max(1, CELLS // self.K)
        for lo in range(0, n, step):
            P[lo : lo + step] = self._rows(y[lo : lo + step], rng, moved, np.log(priors))
        return P, y

    def _rows(self, y, rng, moved, log_priors):
        z = rng.standard_normal((len(y), self.K), dtype=np.float32)
        z *= np.float32(self.signal)
        z[np.arange(len(y)), y] += np.float32(self.signal**2)
        z += log_priors.astype(np.float32)
        if self.wrong:
            z *= np.float32(SHARPER)
            z += moved.astype(np.float32)
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        return z


def short(n):
    """Return a count as people write it: 1M, 200k."""
    if n >= 1_000_000 and n % 1_000_000 == 0:
        return f"{n // 1_000_000}M"
    return f"{n // 1000}k" if n >= 1000 and n % 1000 == 0 else str(n)


def numpy_pass(P, y, a, b):
    """Return the confusion counts (K * K,) of ``argmax(a p + b)``: what one pass costs in plain NumPy."""
    K = P.shape[1]
    return np.bincount(y * K + (P * a + b).argmax(1), minlength=K * K)


@functools.cache
def _scratch():
    return np.zeros(SCRATCH_BYTES, np.uint8)


def evict():
    """Overwrite a buffer larger than the last-level cache."""
    _scratch()[:] += 1


def fresh(P):
    """Return a copy that is not in the cache."""
    copy = P.copy()
    evict()
    return copy


def seconds_of(call, *arguments):
    """Return the wall time of one call and its result."""
    start = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - start, result


def alternate(calls, repeats, prepare=None):
    """Return {name: list of seconds}: all calls in turn, the first one changing, after one round that is not counted.

    ``prepare`` makes the argument of every call afresh, and its time is not counted; without it the cache is emptied.
    """
    names, times = list(calls), {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if prepare is None:
                evict()
            arguments = () if prepare is None else (prepare(),)
            seconds, _ = seconds_of(calls[name], *arguments)
            if turn:
                times[name].append(seconds)
    return times


def ratio(numerator, denominator):
    """Return the median, smallest and largest ratio of neighbouring calls."""
    ratios = np.array(numerator) / np.array(denominator)
    return float(np.median(ratios)), float(ratios.min()), float(ratios.max())


def shown(triple):
    """Return a ratio with its range as text."""
    middle, low, high = triple
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def verdict(value, bound, *, most=True):
    """Return the word for a target."""
    return "met" if (value <= bound if most else value >= bound) else "**missed**"


def milliseconds(times):
    return f"{1e3 * np.median(times):.3g}"


def resident(field="VmRSS", pid="self"):
    """Return the resident bytes (VmRSS) or their maximum (VmHWM) of a process, as Linux counts them."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {field} in /proc/{pid}/status")


def child_environment():
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    threads = dict.fromkeys(("CONFMAX_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(THREADS))
    return {**os.environ, **threads, "PYTHONPATH": path}


def child_output(*arguments, timeout=None, folder=None):
    """Return what ``python arguments`` prints, read as JSON, with two threads and the library of this checkout."""
    command = [sys.executable, *map(str, arguments)]
    settings = {"env": child_environment(), "cwd": folder, "timeout": timeout}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **settings).stdout or "0")


@contextmanager
def two_threads():
    """Hold scans and the linear algebra at two threads, or at one on a machine that has no two."""
    with on_threads(THREADS), threadpool_limits(THREADS):
        yield n_threads()


def machine():
    """Return processor, cores and threads as a paragraph; no names of hosts, no paths."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")
    return f"{name}, {os.cpu_count()} cores, {n_threads()} threads."
