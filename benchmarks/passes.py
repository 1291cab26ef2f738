"""Scans of the table to a certified optimum, on real probability tables.

    python -m benchmarks.passes FOLDER_OF_NPZ

Model confusion, a randomised rule, tol 1e-6. The figures are written to the section "passes" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import confmax
from benchmarks.results import write_section

METRICS = ["g_mean", "h_mean", "q_mean", "min_recall", "cohen_kappa", "linear_kappa", "quadratic_kappa", "micro_f1",
           "micro_f1_once", "f1", "jaccard"]  # fmt: skip


def main(folder):
    tables = [np.load(path)["P_tune"] for path in sorted(Path(folder).glob("*.npz"))]
    lines = ["metric | solver | passes, median | passes, most | largest gap", "---|---|---:|---:|---:|"]
    for name in METRICS:
        binary = confmax.metrics.get(name).binary
        found = [
            confmax.maximize(name, P, confusion="model", calibration=None, randomized=True, tol=1e-6)
            for P in tables
            if P.shape[1] == 2 or not binary
        ]
        passes = [solution.n_passes for solution in found]
        method = confmax.optimize.choose(
            "auto", confmax.metrics.get(name), 2 + (not binary), 2 + (not binary), exact=True
        ).name
        gap = max(solution.gap for solution in found)
        lines.append(f"{name} | {method} | {np.median(passes):.1f} | {max(passes)} | {gap:.1e}")
    text = (
        f"`python -m benchmarks.passes FOLDER` on {len(tables)} tables: passes to a certified gap of 1e-6, starting "
        f"rules and final evaluation counted; two-class tables of ratio metrics take ThresholdSearch.\n\n"
        + "\n".join(lines)
    )
    write_section("passes", text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1])
