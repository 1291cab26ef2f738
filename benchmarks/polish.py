"""Does a polish by coordinate search pay on rows that were not searched?

    python -m benchmarks.polish FOLDER_OF_NPZ

All defaults, deterministic rules. A rule is tuned by the default solver; polished by `CoordinateSearch`
always; or polished where five-fold cross-validation inside the tuning rows (`confmax.optimize.polish`) shows a gain of
more than one, or two, of its standard errors. Values on the test rows' labels are written to the section "polish" of
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import confmax
from benchmarks.quality import value_on_test
from benchmarks.results import write_section
from confmax.optimize import CoordinateSearch, Mixture, choose
from confmax.optimize.polish import polish, worth_polishing
from confmax.oracle import CountingOracle, make_oracle, make_table

METRICS = ["macro_f1", "g_mean", "q_mean", "cohen_kappa", "mcc", "min_recall", "weighted_f1"]
ERRORS = (1, 2)  # standard errors that the held-out gain must exceed


def one_pair(name, data):
    """Return tuning and test values {column: (tuning, test)} of one metric on one table, the verdict and passes."""
    P, y = data["P_tune"], data["y_tune"]
    K = P.shape[1]
    base = confmax.maximize(name, P, y, randomized=False)
    calibrator, share = base.rule.calibrator, base.model_share
    table = make_table(P, y, None, range(K)).calibrated(calibrator)
    oracle = CountingOracle(make_oracle(table, "blend", model_share=share))
    start = Mixture.single(base.rule.gains, base.rule.evaluate(oracle, matrix=base.metric.statistics == "matrix"))
    found = polish(base.metric, oracle, start, K, CoordinateSearch.budget)
    rule = confmax.DecisionRule(found.atoms[0], np.ones(1), tuple(range(K)), calibrator=calibrator)
    solver = choose("auto", base.metric, K, K, exact=False, blended=True)
    verdict = worth_polishing(base.metric, table, solver, model_share=share)
    before = base.value, value_on_test(base.metric, base.rule, data["P_test"], data["y_test"])
    after = (
        float(base.metric.at(found.confusion).value),
        value_on_test(base.metric, rule, data["P_test"], data["y_test"]),
    )
    values = {"default": before, "always": after}
    values |= {f"{k} errors": after if verdict.gain > max(0.0, k * verdict.error) else before for k in ERRORS}
    return values, verdict, (base.n_passes, oracle.n_passes, verdict.n_passes)


def line_of(name, results):
    columns = {column: np.array([values[column] for values, _, _ in results]) for column in results[0][0]}
    tuning = columns["always"][:, 0] - columns["default"][:, 0]
    cells = [f"{columns['default'][:, 1].mean():.4f}", f"{tuning.mean():+.4f}"]
    for column in list(columns)[1:]:
        d = columns[column][:, 1] - columns["default"][:, 1]
        better, worse = (d > 1e-9).sum(), (d < -1e-9).sum()
        cells.append(f"{d.mean():+.4f} ± {d.std(ddof=1) / np.sqrt(len(d)):.4f} ({better} / {worse})")
    passes = np.median([passes for _, _, passes in results], axis=0)
    return f"{name} | " + " | ".join([*cells, " / ".join(f"{p:.0f}" for p in passes)])


def main(folder):
    start = time.perf_counter()
    tables = [np.load(path) for path in sorted(Path(folder).glob("*.npz"))]
    tables = [data for data in tables if data["P_tune"].shape[1] > 2]
    lines = [
        "metric | default, test | polish always, tuning | polish always, test | held-out gain > 1 error, test "
        "| > 2 errors, test | median passes: default / polish / cross-validation",
        "---|---:|---:|---:|---:|---:|---:",
    ]
    every = []
    for name in METRICS:
        results = [one_pair(name, data) for data in tables]
        every += results
        lines.append(line_of(name, results))
        print(lines[-1], f"{time.perf_counter() - start:.0f} s", flush=True)
    lines.append(line_of("all", every))
    text = (
        f"`python -m benchmarks.polish FOLDER` on the {len(tables)} tables of more than two classes (of two, a "
        f"threshold is optimal on the tuning rows): defaults, deterministic rules. Differences to the "
        f"default solver, mean ± standard error over tables (tables better / worse).\n\n" + "\n".join(lines)
    )
    write_section("polish", text)
    print(lines[-1], f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1])
