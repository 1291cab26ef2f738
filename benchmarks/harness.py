"""One way for every benchmark: registered by name, run by `python -m benchmarks NAME`, written to a section.

A benchmark is a function that takes the words of the command line and returns the paragraphs and tables of its section
of RESULTS.md; the first paragraph follows the command. `load` reads a folder of tables, each an NPZ that holds P_tune,
y_tune, P_test and y_test. Sections summarise: `keep` and `spread` write all rows to the folder output, which is not in
the repository.
"""

from __future__ import annotations

import inspect
import platform
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy
import sklearn
from scipy.sparse import csr_array

import confmax

PATH = Path(__file__).parent / "RESULTS.md"
MODEL = {"confusion": "model", "calibration": None}
LABELS = {"confusion": "labels", "calibration": None}


class Benchmark(NamedTuple):
    """What the command line knows: a name, the words that follow it, the section, and the function."""

    name: str
    parameters: str
    section: str
    measure: Callable

    @property
    def has_small_sizes(self):
        return "quick" in inspect.signature(self.measure).parameters


REGISTERED: dict[str, Benchmark] = {}


def benchmark(name, parameters="", section=None):
    """Register a function under a name; its section of RESULTS.md has the same name unless another is given."""

    def register(measure):
        REGISTERED[name] = Benchmark(name, parameters, section or name, measure)
        return measure

    return register


def run(name, *words, quick=False):
    """Measure a benchmark, print its section, and write it unless it is ``quick``."""
    chosen = REGISTERED[name]
    given = [int(word) if str(word).isdigit() else word for word in words]
    with warnings.catch_warnings():
        # of classes without rows, of rivals, and of limits that level down: the figures show what comes of them
        warnings.simplefilter("ignore")
        first, *others = chosen.measure(*given, **({"quick": True} if quick else {}))
    command = f"`python -m benchmarks {name} {chosen.parameters}".rstrip() + "`"
    text = "\n\n".join([f"{command}: {first} _{stamp()}_", *others])
    print(f"## {chosen.section}\n\n{text}")
    if not quick:
        write_section(chosen.section, text)


def stamp():
    """Return when and with what was measured."""
    versions = ", ".join(f"{module.__name__} {module.__version__}" for module in (confmax, np, scipy, sklearn))
    return f"Measured {date.today()}, Python {platform.python_version()}, {versions}, {platform.machine()}."


def write_section(name, text):
    """Replace the section ``name``, or add it at the end."""
    old = PATH.read_text() if PATH.exists() else "# Results\n\nEvery figure names the command that makes it.\n"
    sections = {part.partition("\n")[0]: part.rstrip() for part in re.split(r"(?m)^(?=## )", old)}
    sections[f"## {name}"] = f"## {name}\n\n{text}"
    PATH.write_text("\n\n".join(sections.values()) + "\n")


def markdown(head, rows, words=1):
    """Return a table whose first ``words`` columns hold words, the others figures."""
    lines = [head, ["---"] * words + ["---:"] * (len(head) - words), *rows]
    return "\n".join(" | ".join(map(str, line)) for line in lines)


def keep(section, head, rows, words=1):
    """Write all rows of a table to a file of the folder output beside RESULTS.md."""
    file = PATH.parent / "output" / f"{section.replace(': ', '_').replace(' ', '_')}.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(markdown(head, rows, words) + "\n")


def spread(section, head, rows, words=1, by=()):
    """Return median, least and most of every column of figures, for the rows that share the columns ``by``.

    The first number of a cell counts. All rows are kept as `keep` does.
    """
    keep(section, head, rows, words)
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in by), []).append(row)
    lines = []
    for key, some in groups.items():
        lines.append([*key, len(some), *(_middle([row[k] for row in some]) for k in range(words, len(head)))])
    return markdown([*(head[k] for k in by), "rows", *head[words:]], lines, len(by))


NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def _middle(cells):
    """Return "median (least, most)" with the digits of the cells, and of words how often each occurs."""
    numbers = [match.group().replace(",", "") for match in map(NUMBER.match, map(str, cells)) if match]
    if not numbers:
        words = Counter(str(cell) for cell in cells if cell)
        return ", ".join(word if count == len(cells) else f"{count} {word}" for word, count in words.items())
    digits = max(len(text.partition("e")[0].partition(".")[2]) for text in numbers)
    form = f".{digits}{'e' if any('e' in text for text in numbers) else 'f'}"
    values = np.array(numbers, dtype=float)
    middle, least, most = (format(float(value), form) for value in (np.median(values), values.min(), values.max()))
    return f"{middle} ({least}, {most})"


def figures(values, form=".4f"):
    """Return numbers as text, NaN as nothing."""
    return ["" if np.isnan(number) else format(number, form) for number in values]


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

    @property
    def classes(self):
        return range(self.K)

    @property
    def sizes(self):
        """How many rows of every class tune (K,)."""
        return np.bincount(self.y, minlength=self.K)

    @property
    def proba(self):
        """The probabilities to tune on in double precision, their rows summing to one."""
        P = self.P.astype(np.float64)
        return P / P.sum(axis=1, keepdims=True)

    @property
    def whole(self):
        """All rows: probabilities (N, K) and labels (N,)."""
        return np.concatenate([self.P, self.Q]), np.concatenate([self.y, self.z])

    def turned(self):
        """Return the same rows, tuned on the test rows and scored on the tuning rows."""
        return Data(self.stem, self.Q, self.z, self.P, self.y)


def load(folder, least=2):
    """Return the tables of a folder that have ``least`` classes or more."""
    tables = []
    for path in sorted(Path(folder).glob("*.npz")):
        with np.load(path) as data:
            tables.append(Data(path.stem, *(data[key] for key in ("P_tune", "y_tune", "P_test", "y_test"))))
    return [data for data in tables if least <= data.K]


def solve(*arguments, call=None, **settings):
    """Return what `confmax.maximize` finds, or another ``call``, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (call or confmax.maximize)(*arguments, **settings)


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


def paired(differences):
    """Return the mean of paired differences and its standard error."""
    d = np.array(differences)
    return d.mean(), d.std(ddof=1) / np.sqrt(len(d))


def shortest(call, times=3):
    """Return the least seconds that a call takes, and its last result."""
    least = np.inf
    for _ in range(times):
        start = time.perf_counter()
        result = call()
        least = min(least, time.perf_counter() - start)
    return least, result
