"""Scans of the table to a certified optimum, on real probability tables.

    python -m benchmarks.passes FOLDER_OF_NPZ

Model confusion, a randomised rule, tol 1e-6. The figures are written to the section "passes" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys

import numpy as np

import confmax
from benchmarks.harness import apply_to, load, markdown, report

METRICS = ["g_mean", "h_mean", "q_mean", "min_recall", "cohen_kappa", "linear_kappa", "quadratic_kappa", "micro_f1",
           "micro_f1_once", "f1", "jaccard"]  # fmt: skip


def main(folder):
    tables, rows = load(folder), []
    for name, metric, some in apply_to(tables, METRICS):
        found = [
            confmax.maximize(name, data.P, confusion="model", calibration=None, randomized=True, tol=1e-6)
            for data in some
        ]
        passes, K = [solution.n_passes for solution in found], 2 if metric.binary else 3
        method = confmax.optimize.choose("auto", metric, K, K, exact=True).name
        gap = max(solution.gap for solution in found)
        rows.append([name, method, f"{np.median(passes):.1f}", max(passes), f"{gap:.1e}"])
    report(
        "passes",
        f"`python -m benchmarks.passes FOLDER` on {len(tables)} tables: passes to a certified gap of 1e-6, starting "
        f"rules and final evaluation counted; two-class tables of ratio metrics take ThresholdSearch.",
        markdown(["metric", "solver", "passes, median", "passes, most", "largest gap"], rows, words=2),
    )


if __name__ == "__main__":
    main(sys.argv[1])
