"""The smallest recall on labels: confmax beside direct searches over the class weights.

    python -m benchmarks.worst_recall FOLDER_OF_NPZ

For every table of five classes or more, in both directions (tuned on the tuning rows and scored on the test rows, and
the other way round): the smallest recall on the labels that were tuned on, and on those held out. Rules that draw are
scored by their exact probabilities. `benchmarks.methods` describes the searches; Nelder-Mead has at most 200 K
evaluations. The figures are written to the section "worst recall" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

from benchmarks import methods
from benchmarks.harness import load, markdown, report, value

OURS = {
    "confmax": {},
    "confmax, raw": {"calibration": None},
    "confmax, single": {"randomized": False},
    "confmax, raw, single": {"calibration": None, "randomized": False},
}
RIVALS = {
    "Nelder-Mead": methods.nelder_mead(methods.in_numpy, most=sys.maxsize),
    "Nelder-Mead, wide": methods.nelder_mead(methods.in_numpy, wide=True, most=sys.maxsize),
    "random": methods.at_random,
}
METHODS = {name: methods.ours(confusion="labels", **settings) for name, settings in OURS.items()} | RIVALS


def one_table(data):
    """Return tuning value, held-out value and seconds (methods, 3)."""
    rows = []
    for tune in METHODS.values():
        start = time.perf_counter()
        decide = tune("min_recall", data.P, data.y).decide
        seconds = time.perf_counter() - start
        rows.append([*(value("min_recall", y, decide(P)) for P, y in ((data.P, data.y), (data.Q, data.z))), seconds])
    return np.array(rows)


def verdict(results, tables, rivals):
    """Return in words on how many tables each way to call confmax reaches the best of the named direct searches."""
    best = results[:, [list(METHODS).index(rival) for rival in rivals], 0].max(axis=1)
    parts = []
    for m, method in enumerate(OURS):
        missed = [
            f"{data.stem} ({reached:.4f} against {most:.4f})"
            for data, reached, most in zip(tables, results[:, m, 0], best, strict=True)
            if reached < most - 1e-9
        ]
        parts.append(f"{method} {len(results) - len(missed)}" + (f" (not {', '.join(missed)})" if missed else ""))
    return "; ".join(parts)


def table_of(results, tables):
    rows = [
        [data.stem, *(f"{tuning:.3f} / {held:.3f}" for tuning, held, _ in found)]
        for data, found in zip(tables, results, strict=True)
    ]
    mean, most = results.mean(axis=0), results[:, :, 2].max(axis=0)
    rows.append(["mean", *(f"{tuning:.4f} / {held:.4f}" for tuning, held, _ in mean)])
    rows.append(["seconds, mean / most", *(f"{m:.1f} / {w:.1f}" for m, w in zip(mean[:, 2], most, strict=True))])
    return markdown(["table", *METHODS], rows)


def main(folder):
    warnings.simplefilter("ignore")
    tables = load(folder, least=5)
    forward = np.array([one_table(data) for data in tables])
    back = np.array([one_table(data.turned()) for data in tables])
    narrow = [name for name in RIVALS if "wide" not in name]
    report(
        "worst recall",
        f"`python -m benchmarks.worst_recall FOLDER` on the {len(tables)} tables of five classes or more: the "
        f"smallest recall on the labels tuned on / held out. `confusion='labels'`; raw: `calibration=None`; "
        f"single: `randomized=False`. Nelder-Mead and the random search weigh the raw probabilities.",
        "Tuned on the tuning rows:",
        table_of(forward, tables),
        "Tuned on the test rows, held out the tuning rows:",
        table_of(back, tables),
        f"At least the best direct search on the labels tuned on, of {len(tables)} tables: "
        f"{verdict(forward, tables, RIVALS)}. The other way round: {verdict(back, tables, RIVALS)}.",
        f"Without the wide simplex: {verdict(forward, tables, narrow)}. The other way round: "
        f"{verdict(back, tables, narrow)}.",
    )


if __name__ == "__main__":
    main(sys.argv[1])
