"""Tables x settings: what the benchmarks on a folder of real probability tables share.

A benchmark names its metrics and its methods or settings; this module loads the tables, scores rules on labels, and
writes a section. Each NPZ of the folder holds P_tune, y_tune, P_test, y_test.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

import confmax
from benchmarks.results import write_section


class Data(NamedTuple):
    """Rows to tune on, P (n, K) and y (n,), and rows to score on, Q and z."""

    stem: str
    P: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    z: np.ndarray

    @property
    def K(self):
        return self.P.shape[1]

    def turned(self):
        """Return the same rows, tuned on the test rows and scored on the tuning rows."""
        return Data(self.stem, self.Q, self.z, self.P, self.y)


def load(folder, least=2):
    """Return the tables of a folder that have ``least`` classes or more."""
    found = []
    for path in sorted(Path(folder).glob("*.npz")):
        with np.load(path) as data:
            found.append(Data(path.stem, *(data[key] for key in ("P_tune", "y_tune", "P_test", "y_test"))))
    return [data for data in found if least <= data.K]


def apply_to(tables, names):
    """Yield metrics by name with the tables that they apply to."""
    for name in names:
        metric = confmax.metrics.get(name)
        yield name, metric, [data for data in tables if data.K == 2 or not metric.binary]


# --- values on labels -------------------------------------------------------------------------------------------------


def counts(y, D):
    """Return the confusion counts (K, M) of decision probabilities D (n, M)."""
    truth = csr_array((np.ones(len(y)), y, np.arange(len(y) + 1)), shape=D.shape)
    return np.asarray(truth.T @ D)


def over_present(metric, y, K):
    """Return the metric over the classes that the labels hold, where it divides by their sizes."""
    present = np.bincount(y, minlength=K) > 0
    return metric if present.all() or not metric.divides_by_prior else metric.over(np.flatnonzero(present).tolist())


def value(name, y, D):
    """Return a metric of decision probabilities D (n, K) on labels; a mean of recalls is over classes with rows."""
    return float(over_present(confmax.metrics.get(name), y, D.shape[1]).value(counts(y, D) / len(y)))


# --- time -------------------------------------------------------------------------------------------------------------


def shortest(call, times=3):
    """Return the least seconds that a call takes, and its last result."""
    least = np.inf
    for _ in range(times):
        start = time.perf_counter()
        found = call()
        least = min(least, time.perf_counter() - start)
    return least, found


# --- text -------------------------------------------------------------------------------------------------------------


def markdown(head, rows, words=1):
    """Return a table whose first ``words`` columns hold words, the others figures."""
    lines = [head, ["---"] * words + ["---:"] * (len(head) - words), *rows]
    return "\n".join(" | ".join(map(str, line)) for line in lines)


def figures(values, form=".4f"):
    """Return numbers as text, NaN as nothing."""
    return ["" if np.isnan(number) else format(number, form) for number in values]


def paired(differences):
    """Return the mean of paired differences and its standard error."""
    d = np.array(differences)
    return d.mean(), d.std(ddof=1) / np.sqrt(len(d))


def report(section, *parts):
    """Write a section of RESULTS.md from its parts, and print it."""
    text = "\n\n".join(parts)
    write_section(section, text)
    print(text)
