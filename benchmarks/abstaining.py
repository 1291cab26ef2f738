"""Rules that abstain: against row-level programs on tiny populations, and beside Chow's rule on tables.

    python -m benchmarks.abstaining FOLDER_OF_NPZ [N_POPULATIONS]

Tiny populations have 5 to 40 rows, 2 to 4 classes, rows that repeat and zeros, and 1 to 3 random limits. A linear
program over the decisions of all rows, abstaining included, is the witness: of a ratio by Charnes and Cooper's change
of variables. Its coefficients are written here from the definitions, and share nothing with those of confmax.

On the tables the risk-coverage curve goes from a coverage of .5 to 1 in steps of .05. Chow's rule decides the most
probable class of the rows where its probability is largest. The figures are written to the section "abstaining" of
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

import confmax
from benchmarks.constraints import closing
from benchmarks.harness import load, markdown, over_present, paired, report
from confmax.evaluate.coverage_curves import chow
from confmax.tables import apply_calibrator

TOL, EXACT = 1e-6, 1e-9
BUDGET = 60
METRICS = ("accuracy", "macro_f1", "balanced_accuracy")
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # of the witness
LEVELS = np.linspace(0.5, 1.0, 11).round(2)
FLOOR, WHOLE = 0.6, 0.8  # the least coverage of each class, and of all rows


# --- tiny populations -------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """Probabilities (n, K), the name of an objective, a table of costs (K, K + 1), and limits: name, sign, number."""

    P: np.ndarray
    objective: str
    cost: np.ndarray
    limits: list[tuple[str, int, float]]

    @property
    def texts(self):
        return [f"{name} {'>=' if sign > 0 else '<='} {limit!r}" for name, sign, limit in self.limits]


def tiny(seed):
    """Return a random case."""
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(2, 5)), int(rng.integers(5, 41))
    P = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 3.0])), n)
    if seed % 3 == 0:
        P = np.round(P * 4)
        P[P.sum(axis=1) == 0] = 1.0
    if seed % 4 == 0:
        P[1] = P[0]
    P[0, P.sum(axis=0) == 0] = 0.1
    P /= P.sum(axis=1, keepdims=True)
    objective = str(rng.choice(["accuracy", "coverage", f"f1[{rng.integers(K)}]", "cost"]))
    limits = [random_limit(rng, P.mean(axis=0)) for _ in range(int(rng.integers(1, 4)))]
    if objective == "accuracy" or objective.startswith("f1"):
        # without a floor the best rule decides next to nothing, and confmax refuses
        name = str(rng.choice(["coverage", f"coverage[{rng.integers(K)}]"]))
        limits.append((name, 1, float(rng.uniform(0.05, 1.0))))
    cost = np.hstack([1.0 - np.eye(K), rng.uniform(0.1, 0.6, (K, 1))])
    return Case(P, objective, cost, limits)


def random_limit(rng, shares):
    """Return a limit of a random kind."""
    k, u = int(rng.integers(len(shares))), float(rng.random())
    return (
        ("coverage", 1, u),
        ("coverage", -1, u),
        (f"coverage[{k}]", 1, u),
        (f"coverage[{k}]", -1, u),
        ("accuracy", 1, u),
        (f"recall[{k}]", 1, u),
        (f"precision[{k}]", 1, u),
        (f"rate[{k}]", 1, u * float(shares[k])),
        (f"rate[{k}]", -1, min(1.0, 2 * u * float(shares[k]))),
    )[int(rng.integers(9))]


def fraction(name, case):
    """Return numerator and denominator (n, K + 1) of a quantity, as coefficients of the decisions of all rows."""
    P, (n, K) = case.P, case.P.shape
    decided = np.tile(np.append(np.ones(K), 0.0), (n, 1)) / n
    every = np.ones((n, K + 1)) / n
    hits = np.hstack([P, np.zeros((n, 1))]) / n
    if name == "cost":
        return -P @ case.cost / n, every
    head, _, label = name.rstrip("]").partition("[")
    if not label:
        return {"coverage": (decided, every), "accuracy": (hits, decided)}[head]
    k = int(label)
    column, of_class = np.zeros((n, K + 1)), P[:, [k]]
    column[:, k] = 1.0 / n
    return {
        "coverage": (of_class * decided, of_class * every),
        "recall": (column * of_class, of_class * decided),
        "precision": (column * of_class, column),
        "rate": (column, every),
        "f1": (2 * column * of_class, column + of_class * decided),
    }[head]


class Program:
    """Linear programs over the decisions of all rows, drawn ones included."""

    def __init__(self, case):
        self.case, (n, K) = case, case.P.shape
        self.n, self.size = n, n * (K + 1)
        self.one_each = np.kron(np.eye(n), np.ones(K + 1))
        parts = [(sign, limit, *fraction(name, case)) for name, sign, limit in case.limits]
        self.rows = np.array([sign * (top - limit * bottom).ravel() for sign, limit, top, bottom in parts])

    def room(self):
        """Return the largest slack that all limits can have at once."""
        found = linprog(
            np.append(np.zeros(self.size), -1.0), A_ub=np.c_[-self.rows, np.ones(len(self.rows))],
            b_ub=np.zeros(len(self.rows)), A_eq=np.c_[self.one_each, np.zeros(self.n)], b_eq=np.ones(self.n),
            bounds=[(0, 1)] * self.size + [(None, None)],
            options=TIGHT,
        )  # fmt: skip
        return -found.fun

    def best(self):
        """Return the largest value of the objective within the limits, None if no decisions keep them."""
        top, bottom = fraction(self.case.objective, self.case)
        # decisions times a positive number, such that the denominator is one
        equal = np.vstack([np.c_[self.one_each, -np.ones(self.n)], np.append(bottom.ravel(), 0.0)])
        found = linprog(
            -np.append(top.ravel(), 0.0), A_ub=np.c_[-self.rows, np.zeros(len(self.rows))],
            b_ub=np.zeros(len(self.rows)), A_eq=equal, b_eq=np.append(np.zeros(self.n), 1.0), bounds=(0, None),
            options=TIGHT,
        )  # fmt: skip
        if found.status != 0:
            return None
        # the program keeps limits up to its tolerance: what a violation brings, to first order, is taken off again
        decisions = found.x[:-1].reshape(self.n, -1)
        decisions = decisions / decisions.sum(axis=1, keepdims=True)
        missed = np.maximum(0.0, -self.rows @ decisions.ravel()) * found.x[-1]
        return (top * decisions).sum() / (bottom * decisions).sum() + found.ineqlin.marginals @ missed


def verdict(seed):
    """Return what is wrong with the answer to a tiny case, "right" or a kind of its own; and passes, lack."""
    case = tiny(seed)
    program = Program(case)
    room = program.room()
    metric = confmax.metrics.get("linear", cost=case.cost) if case.objective == "cost" else case.objective
    settings = {"confusion": "model", "randomized": True, "tol": TOL, "on_infeasible": "closest"}
    try:
        solution = confmax.maximize(
            metric, case.P, classes=list(range(case.P.shape[1])), constraints=case.texts, abstain=True, **settings
        )
    except ValueError:
        return "contradictory" if room < TOL else "wrongly refused", 0, 0.0
    proved = solution.infeasibility is not None and "(proved)" in solution.infeasibility
    proved = proved and solution.status is confmax.optimize.Status.INFEASIBLE
    if room < -TOL:
        return ("infeasible, proved" if proved else "infeasible, not proved"), solution.n_passes, 0.0
    best = program.best()
    if abs(room) <= TOL and (best is None or solution.infeasibility is not None):
        return "on the edge", solution.n_passes, 0.0
    if solution.infeasibility is not None:
        return "wrongly infeasible", solution.n_passes, 0.0
    lack = best - solution.value
    if solution.upper_bound < best - EXACT:
        return "bound too low", solution.n_passes, lack
    if lack > TOL + EXACT:
        return "value too low", solution.n_passes, lack
    return ("right" if room > TOL else "right, on the edge"), solution.n_passes, lack


def of_tiny(count):
    """Return the lines of a table: how many populations ended how."""
    ends, passes, worst = Counter(), [], 0.0
    for seed in range(count):
        end, made, lack = verdict(seed)
        ends[end] += 1
        passes.append(made)
        worst = max(worst, lack)
    lines = [[end, f"{number}"] for end, number in sorted(ends.items())]
    return [*lines, ["largest lack of value", f"{worst:.1e}"], ["passes, median and most",
            f"{np.median(passes):.0f}, {max(passes)}"]]  # fmt: skip


# --- tables: passes ---------------------------------------------------------------------------------------------------


def normalised(data):
    P = data.P.astype(np.float64)
    return P / P.sum(axis=1, keepdims=True)


def of_passes(tables):
    """Return a line per table: passes until bound and value lie within 1e-6, of both problems; and of all tables."""
    lines, closed = [], []
    for data in tables:
        P = normalised(data)
        halfway = 0.5 + 0.5 * float(P.max(axis=1).mean())
        settings = {"classes": list(range(data.K)), "confusion": "model", "calibration": None, "randomized": True}
        runs = [
            confmax.maximize(metric, P, constraints=limit, abstain=True, max_passes=BUDGET, **settings)
            for metric, limit in (("accuracy", "coverage >= 0.8"), ("coverage", f"accuracy >= {halfway!r}"))
        ]
        closed.append([closing(run.history, TOL) for run in runs])
        lines.append([data.stem, *map(str, closed[-1])])
    both = np.array(closed)
    ends = [f"{np.median(both[:, k]):.1f}, {both[:, k].max()}" for k in range(2)]
    return [*lines, ["median, most", *ends]]


# --- tables: the risk-coverage curve ----------------------------------------------------------------------------------


def on_the_model(name, data):
    """Return the areas of Chow's rule and of the best rules, both expected by the tuning rows' probabilities."""
    P, classes = normalised(data), list(range(data.K))
    path = confmax.coverage_path(
        name, P, coverages=LEVELS, classes=classes, confusion="model", calibration=None, randomized=True
    )
    curves = [confmax.risk_coverage(name, P, rules=rules, coverages=LEVELS, classes=classes) for rules in (None, path)]
    return [curve.area(LEVELS[0], 1.0) for curve in curves]


def on_test_rows(name, data):
    """Return the same areas on the labels of the test rows, of rules that are tuned on the other labels."""
    classes = list(range(data.K))
    path = confmax.coverage_path(name, data.P, data.y, coverages=LEVELS, classes=classes)
    metric = over_present(confmax.metrics.get(name), data.z, data.K)
    ours = confmax.risk_coverage(metric, data.Q, data.z, path, classes=classes)
    calibrator = path[0].rule.calibrator
    theirs = confmax.risk_coverage(metric, data.Q, data.z, calibrator=calibrator, coverages=LEVELS, classes=classes)
    return theirs.area(LEVELS[0], 1.0), ours.area(LEVELS[0], 1.0)


def of_areas(tables):
    """Return a line per table and metric with all areas, and a line per metric of all tables."""
    lines, ends = [], []
    for name in METRICS:
        rows = []
        for data in tables:
            start = time.perf_counter()
            rows.append((*on_the_model(name, data), *on_test_rows(name, data)))
            lines.append([data.stem, name, *(f"{area:.5f}" for area in rows[-1])])
            print(lines[-1], f"{time.perf_counter() - start:.1f} s", flush=True)
        model, test = np.diff(np.array(rows)[:, :2])[:, 0], np.diff(np.array(rows)[:, 2:])[:, 0]
        mean, error = paired(test)
        ends.append([name, f"{model.max():+.1e}", f"{model.mean():+.4f}", f"{(test < 0).sum()} of {len(test)}",
                     f"{mean:+.4f} ± {error:.4f}", f"{test.max():+.4f}"])  # fmt: skip
    return lines, ends


# --- tables: a floor on the coverage of every class -------------------------------------------------------------------


def coverages(data, decided):
    """Return coverage, accuracy of what is decided, and the coverages (K,) of classes with rows, on test rows."""
    n, K = len(data.z), data.K
    hit = decided[np.arange(n), data.z].sum()
    covered = decided[:, :K].sum(axis=1)
    each = [covered[data.z == k].mean() for k in range(K) if (data.z == k).any()]
    return covered.mean(), hit / covered.sum(), np.array(each)


def of_floors(tables):
    """Return a line per table: the least slack on the tuning rows, and coverages and accuracies on test rows."""
    lines, missed, total = [], np.zeros(2, dtype=int), 0
    for data in tables:
        K = data.K
        limits = [f"coverage >= {WHOLE}", *(f"coverage[{k}] >= {FLOOR}" for k in np.unique(data.y))]
        found = confmax.maximize(
            "accuracy", data.P, data.y, classes=list(range(K)), abstain=True, constraints=limits,
            on_infeasible="closest",
        )  # fmt: skip
        slack = min(one.slack for one in found.constraints)
        whole, accuracy, each = coverages(data, found.rule.decision_probabilities(data.Q))
        other = chow(apply_calibrator(found.rule.calibrator, data.Q), np.ones(len(data.z)), whole)
        D = np.tensordot(other.shares, np.eye(K + 1)[other.decisions], 1)
        _, chow_accuracy, chow_each = coverages(data, D)
        missed += [(each < FLOOR).sum(), (chow_each < FLOOR).sum()]
        total += len(each)
        lines.append([data.stem, f"{slack:+.1e}", f"{whole:.3f}", f"{each.min():.2f}", f"{chow_each.min():.2f}",
                      f"{accuracy:.4f}", f"{chow_accuracy:.4f}"])  # fmt: skip
    return (
        lines,
        f"On test rows {missed[0]} of {total} classes are covered less with the rule, {missed[1]} with Chow's.",
    )


def main(folder, count=2000):
    tables = load(folder)
    lines, ends = of_areas(tables)
    floors, below = of_floors(tables)
    report(
        "abstaining",
        f"`python -m benchmarks.abstaining FOLDER`: {count} tiny populations with limits on coverage, coverage of a "
        f"class, accuracy, recall, precision and rate, against linear programs over all rows: accuracy, coverage, F1 "
        f"of a class and tables of costs are maximised.",
        markdown(["tiny populations", "number"], of_tiny(int(count))),
        "Passes until bound and value of the best mixture lie within 1e-6: the accuracy of what is decided with a "
        "coverage of .8, and the coverage with an accuracy halfway between argmax's, as the probabilities expect, "
        "and 1.",
        markdown(["table", "accuracy, coverage", "coverage, accuracy"], of_passes(tables)),
        "The area under the risk-coverage curve over its length, from a coverage of .5 to 1: the mean of 1 - metric of "
        "what is decided, of the best rules at 11 coverages minus Chow's rule. On the model: expected on the tuning "
        "rows, best mixtures. On test rows: default settings with labels, and Chow's rule on the same calibrated "
        "probabilities. Chow's rule decides as argmax, whatever the metric: part of the difference in macro F1 and "
        "balanced accuracy is what tuning gains where all rows are decided.",
        markdown(
            ["metric", "model: most", "mean", "test rows: lower on", "mean ± standard error", "most"], ends
        ),
        markdown(
            ["table", "metric", "Chow, model", "best, model", "Chow, test", "best, test"], lines, 2
        ),
        f"Accuracy with a coverage of {WHOLE} and of {FLOOR} in every class, default settings with labels: the least "
        f"slack on the tuning rows, as the rule was tuned; on test rows the coverage, the least coverage of a class "
        f"with the rule and with Chow's rule at the same coverage, and the accuracy of what is decided. {below}",
        markdown(
            ["table", "slack", "coverage", "least of a class", "Chow's", "accuracy", "Chow's"], floors
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
