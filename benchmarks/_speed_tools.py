"""What the speed benchmarks share: cold alternating timings, ratios, child processes, and where it all ran.

Two calls are compared in one process, in turn, so that a busy machine is unfair to neither. Before each call its table
is copied afresh and a buffer larger than the last-level cache is overwritten, so that neither finds its data there.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import platform
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from confmax.kernels.blocks import n_threads, on_threads

ROOT = Path(__file__).resolve().parent.parent
THREADS = 2
MOST_PASSES = 6  # of a certified run on rows that are elsewhere
SCRATCH_BYTES = 1 << 26
PACKAGES = (
    "confmax",
    "numpy",
    "scipy",
    "scikit-learn",
    "xcolumns",
    "autograd",
    "optimal-classification-cutoffs",
)


# --- time -------------------------------------------------------------------------------------------------------------


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


# --- certified runs ---------------------------------------------------------------------------------------------------


def certify(table):
    """Return what runs to a certified gap of 1e-5 take on a table that an engine holds."""
    import confmax

    runs = []
    for metric in ("g_mean", "cohen_kappa"):
        seconds, found = seconds_of(lambda metric=metric: confmax.maximize(metric, table, tol=1e-5, randomized=True))
        runs.append({"metric": metric, "seconds": seconds, "passes": found.n_passes, "gap": found.gap})
    return runs


def certified(runs, what=""):
    """Return the lines that report them."""
    lines = [f"Certified runs to a gap of 1e-5 (at most {MOST_PASSES} passes){what}:", ""]
    lines += ["metric | passes | target | gap | seconds", "---|---:|---|---:|---:"]
    for run in runs:
        target = verdict(run["passes"], MOST_PASSES)
        lines.append(f"{run['metric']} | {run['passes']} | {target} | {run['gap']:.1e} | {run['seconds']:.1f}")
    return lines


# --- memory -----------------------------------------------------------------------------------------------------------


def resident(field="VmRSS", pid="self"):
    """Return the resident bytes (VmRSS) or their maximum (VmHWM) of a process, as Linux counts them."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {field} in /proc/{pid}/status")


def memory_floor():
    """Give freed memory back, restart the maximum, and return what is resident.

    Writing 5 to clear_refs sets VmHWM to VmRSS (Linux, proc(5)). Memory that the allocator kept after a free would hide
    the same amount of later use, so it is trimmed first.
    """
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return resident()


# --- processes --------------------------------------------------------------------------------------------------------


def child_environment():
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    threads = dict.fromkeys(("CONFMAX_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(THREADS))
    return {**os.environ, **threads, "PYTHONPATH": path}


def child(arguments, **settings):
    """Start ``python arguments`` with two threads and the library of this checkout."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True, **settings)


def child_output(arguments):
    """Return the standard output of ``python arguments``; an error of the child is one here."""
    process = child(arguments)
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"python {' '.join(map(str, arguments))[:200]} ended with {process.returncode}")
    return output


@contextmanager
def two_threads():
    """Hold scans and the linear algebra at two threads, or at one on a machine that has no two."""
    with on_threads(THREADS), threadpool_limits(THREADS):
        yield n_threads()


# --- where ------------------------------------------------------------------------------------------------------------


def _line_of(path, start):
    for line in Path(path).read_text().splitlines() if Path(path).exists() else ():
        if line.startswith(start):
            return line.split(":", 1)[1].strip()
    return "unknown"


def _text(path):
    return Path(path).read_text().strip() if Path(path).exists() else "unknown"


def stamp():
    """Return versions, machine and date; no names of hosts, no paths."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = sys.modules["confmax"].__version__ if package == "confmax" else None
    memory = _line_of("/proc/meminfo", "MemTotal").split()[0]
    machine = {
        "cpu": _line_of("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory) / 2**20, 1) if memory.isdigit() else None,
        "last_cache": _text("/sys/devices/system/cpu/cpu0/cache/index3/size"),
        "architecture": platform.machine(),
    }
    return {"date": str(date.today()), "versions": versions, "machine": machine, "threads": n_threads()}
