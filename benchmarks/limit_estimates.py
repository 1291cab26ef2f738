"""Which confusion estimate keeps limits on other rows: the model, the labels, or a blend of both.

    python -m benchmarks limit-estimates FOLDER_OF_NPZ

Every table is tuned on its tuning rows and scored on its test rows, and the other way round. Limits are set from what
argmax and p / prior do on the labels of the tuning rows: a recall, or a precision, of the rarest class with 20 rows or
more lies 40 % of the way from that of argmax to one; the recalls of all classes are at least .8 of the smallest one of
p / prior; the rate of that class is at most 1.2 of its share. Missed: by how much the limit is missed on the labels of
the other rows, in its own unit. "Raw": without calibration. The figures are written to the section "limits: estimates"
of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np

import confmax
from benchmarks.harness import benchmark, counts, load, markdown, over_present, paired, value
from confmax import constraints as c

MODES = ("model", "blend", "labels", "model, raw", "blend, raw")
LEAST_ROWS, HARDER = 20, 0.4


def problems(data):
    """Yield kind, objective and limit of the problems of a table."""
    sizes = np.bincount(data.y, minlength=data.K)
    present = np.flatnonzero(sizes)
    rare = int(min((k for k in present if sizes[k] >= LEAST_ROWS), key=lambda k: sizes[k]))
    plain = counts(data.y, np.eye(data.K)[data.P.argmax(axis=1)])
    even = counts(data.y, np.eye(data.K)[(data.P / np.maximum(sizes, 1)).argmax(axis=1)])
    recall = plain[rare, rare] / sizes[rare]
    precision = plain[rare, rare] / max(plain[:, rare].sum(), 1)
    yield "accuracy, a recall", "accuracy", c.recall(rare) >= recall + HARDER * (1 - recall)
    yield "F1, its precision", f"f1[{rare}]", c.precision(rare) >= precision + HARDER * (1 - precision)
    yield "kappa, a rate", "cohen_kappa", c.rate(rare) <= 1.2 * sizes[rare] / len(data.y)
    smallest = (np.diag(even)[present] / sizes[present]).min()
    if len(present) == data.K and smallest > 0.05:
        yield "accuracy, all recalls", "accuracy", c.min_recall() >= 0.8 * smallest


def outcome(data, metric, limit, mode):
    """Return the value on the other rows, by how much the limit is missed there, and whether it was kept on these."""
    estimate, _, raw = mode.partition(", ")
    found = confmax.maximize(metric, data.P, data.y, classes=range(data.K), constraints=limit, confusion=estimate,
                             calibration=None if raw else "auto", on_infeasible="closest")  # fmt: skip
    D = found.rule.decision_probabilities(data.Q)
    C = counts(data.z, D) / len(data.z)
    placed = limit.metric.numbered(data.K)
    there = float((placed if placed.one_class else over_present(placed, data.z, data.K)).value(C))
    if C[:, placed.classes[-1] if placed.classes else 0].sum() == 0 and placed.title == "precision":
        # nothing is decided as the class
        there = 1.0
    return value(metric, data.z, D), max(0.0, limit.limit - there if limit.is_floor else there - limit.limit), found


@benchmark("limit-estimates", "FOLDER", "limits: estimates")
def main(folder):
    lines, runs = [], defaultdict(list)
    for data in load(folder):
        for half in (data, data.turned()):
            if min(np.bincount(half.y, minlength=half.K).max(), len(half.y)) < LEAST_ROWS:
                continue
            for kind, metric, limit in problems(half):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    runs[kind].append([outcome(half, metric, limit, mode) for mode in MODES])
    for kind, each in runs.items():
        for place, mode in enumerate(MODES):
            values, missed, met = zip(*(run[place] for run in each), strict=True)
            gain, error = paired([run[place][0] - run[0][0] for run in each])
            less, off = paired([run[place][1] - run[0][1] for run in each])
            lines.append([
                kind, mode, len(each), f"{np.mean(values):.4f}", f"{gain:+.4f} ({error:.4f})",
                f"{np.mean(missed):.4f}", f"{less:+.4f} ({off:.4f})", f"{np.mean(np.array(missed) > 0):.0%}",
                f"{np.mean([not found.feasible for found in met]):.0%}",
            ])  # fmt: skip
    head = ["problem", "estimate", "runs", "value", "to model (s.e.)", "missed by", "to model (s.e.)", "missed",
            "not kept in tuning"]  # fmt: skip
    return ["tuning half against test half.", markdown(head, lines, words=2)]
