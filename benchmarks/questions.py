"""Questions to rows in files, of which a sample does not hold all, beside the same questions to the rows in memory."""

from __future__ import annotations

import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import confmax
from benchmarks import timing
from benchmarks.harness import benchmark, markdown
from confmax.evaluate import label_lines

FILES = 10
JUDGED = 1_000_000, 8  # rows and labels that are scored
DRAWN = 300_000, 12  # of which lots and rows are drawn
REPLICATES = 1000


class Question(NamedTuple):
    """What is asked of a table of so many rows: a metric, limits, and further arguments of maximize."""

    metric: str
    limits: tuple[str, ...]
    size: tuple[int, int]
    more: dict


ANY = {"decisions": "any"}
QUESTIONS = (
    Question("macro_f1", ("recall[p0] >= 0.6",), (500_000, 20), ANY),
    Question("macro_f1", ("labels_per_row <= 3",), (500_000, 20), ANY),
    Question("micro_f1", ("labels_per_row <= 3",), (500_000, 20), ANY),
    Question("accuracy", ("recall[p0] >= 0.7", "rate[p1] <= 0.3"), (600_000, 4), {"confidence": 0.9}),
    Question("recall[p0]", ("precision[p0] >= 0.7",), (600_000, 4), {"confidence": 0.9}),
    Question("recall[p0]", ("precision[p0] >= 0.7",), (600_000, 4), {}),
)


def rows_of(n, K, several):
    """Return probabilities (n, K) and what is true, which they are a little wrong about."""
    rng = np.random.default_rng([n, K])
    if several:
        P = rng.beta(0.4, 3.0, (n, K)).astype(np.float32)
        return P, (rng.random(P.shape, dtype=np.float32) < P**1.1).astype(np.uint8)
    P = rng.dirichlet(np.ones(K), n)
    true = P**1.2 / (P**1.2).sum(axis=1, keepdims=True)
    y = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)
    return P.astype(np.float32), np.array([f"p{k}" for k in range(K)])[y]


def opened(folder, P, y):
    """Return the rows as a table of `FILES` Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"p{k}" for k in range(P.shape[1])]
    labels = {"truth": y} if y.ndim == 1 else {f"y{k}": column for k, column in enumerate(y.T)}
    for number, part in enumerate(np.array_split(np.arange(len(P)), FILES)):
        columns = {**dict(zip(names, P[part].T, strict=True)), **{one: each[part] for one, each in labels.items()}}
        pq.write_table(pa.table(columns), Path(folder) / f"{number}.parquet")
    return partial(confmax.open_table, folder, label="truth" if y.ndim == 1 else list(labels), columns=names)


def timed(call):
    """Return what a call returns, and the seconds that it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = call()
    return found, time.perf_counter() - start


def answered(question, *, quick):
    """Return the line of a question: asked to rows in files, and to those in memory."""
    metric, limits, (n, K), more = question
    P, y = rows_of(n // 100 if quick else n, K, "decisions" in more)
    names = [f"p{k}" for k in range(K)]
    ask = partial(confmax.maximize, metric, constraints=limits, on_infeasible="closest", **more)
    with tempfile.TemporaryDirectory() as folder:
        table = opened(folder, P, y)
        there, seconds = timed(lambda: ask(table(), **({"classes": names} if y.ndim > 1 else {})))
    here, whole = timed(lambda: ask(P, y, classes=names))
    some = P[: 1 << 16]
    alike = (there.predict(some) == here.predict(some)).mean()
    what = f"{metric}, {', '.join(limits)}" + (", confidence .9" if "confidence" in more else "")
    figures = [there.n_passes, f"{seconds:.1f}", f"{whole:.1f}", f"{abs(there.value - here.value):.1e}"]
    return [what, f"{timing.short(len(P))} x {K}", *figures, f"{alike:.5f}"]


@benchmark("questions-in-parts", section="scale: questions in parts")
def questions(quick=False):
    """Compare limits of labels and a confidence on rows in files with those in memory."""
    rows = [answered(one, quick=quick) for one in QUESTIONS]
    return [
        f"maximize on float32 in {FILES} Parquet files and in memory: passes, seconds, by how much the values differ, "
        f"and which part of the decisions on 65,536 rows is the same. {timing.machine()}",
        markdown(["question", "rows", "passes", "s, files", "s, memory", "values", "same"], rows, words=2),
    ]


@benchmark("lots", section="scale: scores of labels")
def lots(quick=False):
    """Compare intervals that draw lots with those that draw rows, and time the score of many rows."""
    rule = confmax.LabelRule.from_thresholds([0.3] * DRAWN[1])
    n = 140_000 if quick else DRAWN[0]
    P, Y = rows_of(n, DRAWN[1], several=True)
    ask = partial(confmax.score, ["macro_f1", "micro_f1", "hamming"], n_replicates=REPLICATES)
    by_lots, seconds = timed(lambda: ask(P, Y, rules={"r": rule}))
    most = label_lines.MOST_LINES
    try:
        label_lines.MOST_LINES = n
        by_rows, whole = timed(lambda: ask(P, Y, rules={"r": rule}))
    finally:
        label_lines.MOST_LINES = most
    off = abs(by_lots.values - by_rows.values).max()
    width = by_lots.replicates.std(axis=2) / by_rows.replicates.std(axis=2)
    m, L = (140_000, 4) if quick else JUDGED
    P, Y = rows_of(m, L, several=True)
    with tempfile.TemporaryDirectory() as folder:
        table = opened(folder, P, Y)
        many = confmax.LabelRule.from_thresholds([0.3] * L, classes=[f"p{k}" for k in range(L)])
        _, long = timed(lambda: ask(table(), rules={"r": many}))
    return [
        f"{REPLICATES} replicates of three metrics, of a rule and its rivals. On {timing.short(n)} x {DRAWN[1]} rows "
        f"in memory, {by_lots.resampled} against rows: values differ by {off:.0e}, "
        f"standard deviations of replicates are {np.median(width):.3f} ({width.min():.3f}-{width.max():.3f}) of those "
        f"of rows, each known to {1 / np.sqrt(REPLICATES):.1%}; {seconds:.1f} s and {whole:.1f} s. On "
        f"{timing.short(m)} x {L} in {FILES} Parquet files {long:.1f} s. {timing.machine()}"
    ]
