"""Upper bounds on metrics that are sums of one ratio per class, on real probability tables.

    python -m benchmarks.bounds FOLDER_OF_NPZ

Model confusion, a randomised rule: how far the bound, the weighted mean of the classes' separate maxima, lies above the
best value found. The figures are written to the section "bounds" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import confmax
from benchmarks.results import write_section

METRICS = ["macro_f1", "weighted_f1", "macro_jaccard", "macro_precision"]


def main(folder):
    paths = sorted(Path(folder).glob("*.npz"))
    gaps, passes = {}, {}
    for name in METRICS:
        found = [
            confmax.maximize(name, np.load(path)["P_tune"], confusion="model", randomized=True, calibration=None)
            for path in paths
        ]
        gaps[name] = [solution.upper_bound - solution.value for solution in found]
        passes[name] = [solution.n_passes for solution in found]
    lines = ["table | " + " | ".join(METRICS), "---|" + "---:|" * len(METRICS)]
    for k, path in enumerate(paths):
        lines.append(f"{path.stem} | " + " | ".join(f"{gaps[name][k]:.4f}" for name in METRICS))
    for what, function in (("median", np.median), ("largest", np.max), ("smallest", np.min)):
        lines.append(f"{what} | " + " | ".join(f"{function(gaps[name]):.4f}" for name in METRICS))
    lines.append("passes, median | " + " | ".join(f"{np.median(passes[name]):.0f}" for name in METRICS))
    lines.append("passes, most | " + " | ".join(f"{max(passes[name])}" for name in METRICS))
    text = f"`python -m benchmarks.bounds FOLDER`: upper bound minus value on {len(paths)} tables.\n\n" + "\n".join(
        lines
    )
    write_section("bounds", text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1])
