"""Limits with a number of labels per row: what they cost, and whether they are kept on rows that were not tuned on.

The tables are those of `benchmarks.multilabel_quality`. Of each the rows are split into halves, and a rule is tuned on
one half without limits. Then it is tuned within a limit that this rule misses: at most three labels per row with fewer
labels per row, and exactly three with a higher recall of the rarest label that has enough rows.
"""

from __future__ import annotations

import time

import numpy as np

import confmax
from benchmarks.harness import benchmark, keep, markdown
from benchmarks.multilabel_quality import FEW, tables, value
from confmax.confusion import Confusion
from confmax.constraints import bind_labels
from confmax.metrics import labels as label_metrics

SPLITS = 3  # of small tables
METRICS = ("macro_f1", "g_mean")
LEAST = 20  # true rows of a label whose recall is limited
PART = 0.5  # of the way from the recall of the rule without limits to one
FEWER = 0.7  # of its labels per row


def problems(P, Y, metric):
    """Yield decisions, the rule without limits, and the text of a limit that it misses on these rows."""
    counts = Y.sum(axis=0)
    free = confmax.maximize(metric, P, Y, decisions=("at_most", 3))
    yield free, f"labels_per_row <= {FEWER * free.statistics.columns.sum():.3f}"
    free = confmax.maximize(metric, P, Y, decisions=3)
    rare = int(np.where(counts >= min(LEAST, counts.max()), counts, np.inf).argmin())
    S = free.statistics
    recall = S.diagonal[rare] / S.rows[rare]
    yield free, f"recall[{rare}] >= {recall + PART * (1.0 - recall):.3f}"


def kept_by(text, Y, chances):
    """Return by how much decisions, or their probabilities (n, L), keep a limit on labelled rows."""
    S = Confusion(Y.mean(axis=0), (Y * chances).mean(axis=0), chances.mean(axis=0))
    return float(bind_labels(text, range(Y.shape[1]), S.rows).slacks(S)[0])


def measured(metric, P, Y, P_test, Y_test):
    """Yield the kind of a limit, and figures: test values and slacks with and without it, seconds, and model gap."""
    for free, text in problems(P, Y, metric):
        given = {"decisions": free.rule.decisions.argument, "constraints": text, "on_infeasible": "closest"}
        start = time.perf_counter()
        within = confmax.maximize(metric, P, Y, **given)
        spent = time.perf_counter() - start
        model = confmax.maximize(metric, P, Y, confusion="model", **given)
        chances = [one.rule.decision_probabilities(P_test) for one in (free, within)]
        scored = label_metrics.resolve(metric, free.rule.decisions)
        values = [value(scored, Y_test, made) for made in chances]
        slacks = [kept_by(text, Y_test, made) for made in chances]
        gap = np.nan if model.upper_bound is None else model.gap
        yield text.partition(" ")[0].partition("[")[0], [*values, *slacks, within.feasible, slacks[1] >= 0, spent, gap]


def halves(seed, name, P_tune, Y_tune, P_test, Y_test):
    """Yield some halves of all rows of a table: P and Y to tune on, and P and Y to test on."""
    P, Y = np.concatenate([P_tune, P_test]), np.concatenate([Y_tune, Y_test])
    for split in range(FEW.get(name.rpartition("_")[0], SPLITS)):
        order = np.random.default_rng([seed, split]).permutation(len(P))
        first, second = np.array_split(order, 2)
        yield P[first], Y[first], P[second], Y[second]


@benchmark("multilabel-limits", "FOLDER SEED", section="several labels: limits with a number of labels")
def limits(folder, seed):
    """Compare rules within limits with those without, on other rows."""
    rows, every = [], {}
    for name, *parts in tables(folder):
        for metric in METRICS:
            found = {}
            for split in halves(seed, name, *parts):
                for kind, figures in measured(metric, *split):
                    found.setdefault(kind, []).append(figures)
            for kind, figures in found.items():
                rows.append([name, metric, kind, *_cells(figures)])
                every.setdefault((metric, kind), []).extend(figures)
    head = ["table", "metric", "limit on", *HEAD]
    keep("multilabel limits", head, rows, words=3)
    lines = [[*words, *_cells(figures)] for words, figures in every.items()]
    return [
        f"seed {seed}, by default, on halves of all rows, {SPLITS} times (tmc2007 twice). The limit on labels_per_row "
        f"is {FEWER} of what the rule without limits decides, of at most 3 labels per row. That on the recall of the "
        f"rarest label with {LEAST} rows lies {PART} of the way from this rule's to one, of exactly 3. Means of test "
        "values, and of by how much the limit is kept there; how many tunings keep it on the estimate, and on test "
        f"rows; median and largest seconds; and the gap on the model's estimate. By table for {METRICS[0]}:",
        markdown(head, [row for row in rows if row[1] == METRICS[0]], words=3),
        markdown(["all tables: metric", "limit on", *HEAD], lines, words=2),
    ]


HEAD = ["without", "within", "kept by, without", "kept by, within", "kept", "on test rows", "seconds", "most"]
HEAD += ["model gap", "largest"]


def _cells(figures):
    columns = np.array(figures, dtype=float).T
    means = columns[:4].mean(axis=1)
    n = len(figures)
    cells = [*(f"{mean:.4f}" for mean in means[:2]), *(f"{mean:+.3f}" for mean in means[2:])]
    cells += [f"{int(kept)} of {n}" for kept in columns[4:6].sum(axis=1)]
    gaps = columns[7][np.isfinite(columns[7])]
    ends = (f"{np.median(gaps):.1e}", f"{gaps.max():.1e}") if len(gaps) else ("-", "-")
    return [*cells, f"{np.median(columns[6]):.1f}", f"{columns[6].max():.1f}", *ends]
