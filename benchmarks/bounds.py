"""Upper bounds on metrics that are sums of one ratio per class, on real probability tables.

    python -m benchmarks.bounds FOLDER_OF_NPZ

Model confusion, a randomised rule: how far the bound, the weighted mean of the classes' separate maxima, lies above the
best value found. The figures are written to the section "bounds" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys

import numpy as np

import confmax
from benchmarks.harness import figures, load, markdown, report

METRICS = ["macro_f1", "weighted_f1", "macro_jaccard", "macro_precision"]


def main(folder):
    tables = load(folder)
    found = [
        [confmax.maximize(name, data.P, confusion="model", randomized=True, calibration=None) for name in METRICS]
        for data in tables
    ]
    gaps = np.array([[solution.upper_bound - solution.value for solution in row] for row in found])
    passes = np.array([[solution.n_passes for solution in row] for row in found])
    rows = [[data.stem, *figures(row)] for data, row in zip(tables, gaps, strict=True)]
    for what, summary in (("median", np.median), ("largest", np.max), ("smallest", np.min)):
        rows.append([what, *figures(summary(gaps, axis=0))])
    for what, summary in (("median", np.median), ("most", np.max)):
        rows.append([f"passes, {what}", *figures(summary(passes, axis=0), ".0f")])
    report(
        "bounds",
        f"`python -m benchmarks.bounds FOLDER`: upper bound minus value on {len(tables)} tables.",
        markdown(["table", *METRICS], rows),
    )


if __name__ == "__main__":
    main(sys.argv[1])
