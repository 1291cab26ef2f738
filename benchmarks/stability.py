"""Does the 16th digit of a probability, or one row in another fold, change the rule that one gets?

    python -m benchmarks.stability FOLDER_OF_NPZ [TABLE ...]
    python -m benchmarks.stability FOLDER_OF_NPZ beside FILE     beside the printed output of an earlier state

Each NPZ holds P_tune and y_tune. A table is cast to float64 and its rows divided by their sums. Its rule is compared
with those of 30 copies whose entries are multiplied by 1 + 1e-13 u, u standard normal, of the table rounded to
float32, and of 30 runs in which one random row was moved to another fold; settings are the defaults. Counted are the
runs with the same kind of calibration and the same kind of rule (drawing or not, calibrated or not). Under
perturbations the parameters of the calibration must agree too, to 1e-6, and the decision probabilities on all rows but
near-ties (at most one row in a thousand may differ).

Without names the tables are the ten below: one per data set with at most 3000 tuning rows, 2 to 19 classes. The
list was fixed before anything was measured. `others` takes all the other tables of the folder.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

import confmax
from benchmarks.results import write_section
from confmax.calibration import families as _families
from confmax.tables import draws as _folds

TABLES = (
    "abalone__logreg", "car__logreg", "communities_crime__hgb", "compas__logreg", "flare__logreg", "hpc__logreg",
    "nursery__logreg", "page_blocks__hgb", "winequality_white__logreg", "yeast__logreg",
)  # fmt: skip
METRICS = ("macro_f1", "g_mean", "min_recall", "h_mean")
RUNS, SIZE, SEED = 30, 1e-13, 0


def kind_of(solution):
    """Return what must not change: kind of calibration, drawing or not, calibrator applied or not."""
    return solution.calibration.kind, solution.rule.is_randomized, solution.rule.calibrator is not None


def parameters(calibrator):
    """Return the numbers of a calibrator as one array."""
    if calibrator is None:
        return np.zeros(0)
    return np.concatenate([np.ravel(getattr(calibrator, name)) for name in calibrator.numbers])


def same(one, other, P):
    """Whether two solutions are alike: kind, parameters, and decision probabilities on all but near-ties."""
    if kind_of(one) != kind_of(other):
        return False
    mine, theirs = parameters(one.calibration.calibrator), parameters(other.calibration.calibrator)
    if not np.allclose(mine, theirs, rtol=1e-6, atol=1e-6):
        return False
    off = np.abs(one.rule.decision_probabilities(P) - other.rule.decision_probabilities(P)).max(axis=1) > 1e-3
    return off.mean() <= 1e-3


class MovedRow:
    """While it is entered, the dealing of folds moves one row to another fold."""

    def __init__(self, seed):
        self.seed, self.plain = seed, _folds.dealt

    def __call__(self, labels, draws, n_classes, n_folds):
        """Return folds as `dealt` does, with one row moved; the same row whenever the same rows are dealt."""
        fold = self.plain(labels, draws, n_classes, n_folds)
        rng = np.random.default_rng(self.seed)
        row = np.argsort(draws, kind="stable")[rng.integers(len(fold))]
        fold[row] = (fold[row] + rng.integers(1, n_folds)) % n_folds
        return fold

    def __enter__(self):
        _folds.dealt = _families.dealt = self

    def __exit__(self, *_):
        _folds.dealt = _families.dealt = self.plain


def tuned(metric, P, y):
    """Return the solution by default settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return confmax.maximize(metric, P, y, classes=range(P.shape[1]))


def of_table(path):
    """Return a line per metric: how many runs of each sort were alike."""
    data = np.load(path)
    P, y = data["P_tune"].astype(np.float64), data["y_tune"]
    P /= P.sum(axis=1, keepdims=True)
    lines = []
    for metric in METRICS:
        plain, rng = tuned(metric, P, y), np.random.default_rng(SEED)
        perturbed = sum(
            same(plain, tuned(metric, P * (1 + SIZE * rng.normal(size=P.shape)), y), P) for _ in range(RUNS)
        )
        narrow = same(plain, tuned(metric, P.astype(np.float32), y), P)
        moved = 0
        for run in range(RUNS):
            with MovedRow(run):
                moved += kind_of(tuned(metric, P, y)) == kind_of(plain)
        shown = ", ".join(map(str, kind_of(plain)))
        lines.append((path.stem, len(P), P.shape[1], metric, shown, perturbed, narrow, moved))
        print("{} | {} | {} | {} | {} | {} of 30 | {} | {} of 30".format(*lines[-1]), flush=True)
    return lines


def beside(path, lines):
    """Write a section with the counts of this state beside those in the printed output of an earlier one."""
    printed = [line.strip().split(" | ") for line in Path(path).read_text().splitlines() if line.count(" | ") == 7]
    old = {(row[0], row[3]): row for row in printed}
    rows = ["table | rows | classes | metric | calibration, draws, calibrated | perturbed | before | float32 | "
            "before | row moved | before", "---|---:|---:|---|---|---:|---:|---|---|---:|---:"]  # fmt: skip
    for name, n, K, metric, shown, perturbed, narrow, moved in lines:
        was = old[name, metric]
        before = [was[5].split()[0], was[6], was[7].split()[0]]
        cells = [name, n, K, metric, shown, perturbed, before[0], narrow, before[1], moved, before[2]]
        rows.append(" | ".join(map(str, cells)))
    text = (
        f"`python -m benchmarks.stability FOLDER beside FILE`: of {RUNS} relative "
        f"perturbations of {SIZE:g}, of the table rounded to float32, and of {RUNS} runs with one row in another fold, "
        f"how many give the same rule as the table itself, now and on c70ce79.\n\n" + "\n".join(rows)
    )
    write_section("stability", text)


def main(folder, *names):
    print("table | rows | classes | metric | calibration, draws, calibrated | perturbed | float32 | one row moved")
    paths = sorted(Path(folder).glob("*.npz"))
    earlier = names[1] if names[:1] == ("beside",) else None
    wanted = TABLES if earlier else names or TABLES
    chosen = [path for path in paths if (path.stem not in TABLES if wanted == ("others",) else path.stem in wanted)]
    lines = [line for path in chosen for line in of_table(path)]
    whole = [sum(line[5] == RUNS for line in lines), sum(bool(line[6]) for line in lines),
             sum(line[7] == RUNS for line in lines)]  # fmt: skip
    print(f"of {len(lines)} runs: {whole[0]} with 30 of 30 perturbations alike, {whole[1]} with float32 alike, "
          f"{whole[2]} with 30 of 30 moved rows alike")  # fmt: skip
    if earlier:
        beside(earlier, lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
