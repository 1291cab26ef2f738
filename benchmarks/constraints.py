"""Limits on rules: against row-level programs on tiny populations, and how many passes a certificate takes.

Tiny populations have 5 to 40 rows, 2 to 4 classes, rows that repeat and zeros, and 1 to 3 random limits. A linear
program over the decisions of all rows is the witness. On the tables, limits are set to bind: floors at .9 of the best
common recall, rates at most 1.2 of the class shares, the recall of the rarest class halfway from its value without
limits to one, the accuracy halfway between that of the best smallest recall and the best, means of the recalls halfway
between theirs without limits and their best. Macro F1 is maximised with a floor on a recall and one on a precision,
beside Nelder-Mead.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from scipy.optimize import linprog, minimize

import confmax
from benchmarks.harness import benchmark, load, markdown, shortest, spread
from benchmarks.programs import SETTINGS, TOL, ended, of_tiny, random_rows
from benchmarks.timing import Recipe
from confmax import constraints as c
from confmax.confusion import Gains
from confmax.metrics.alignment import fit_metric
from confmax.oracle import make_oracle, make_table

OBJECTIVES = ("accuracy", "balanced_accuracy", "cohen_kappa", "min_recall", "f1[0]")
BUDGET = 60
MODEL = {"confusion": "model", "calibration": None}


# --- tiny populations -------------------------------------------------------------------------------------------------


def tiny(seed):
    """Return probabilities (n, K), an objective and limits."""
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(2, 5)), int(rng.integers(5, 41))
    P = random_rows(rng, seed, n, K)
    P[0, P.sum(axis=0) == 0] = 0.1
    P /= P.sum(axis=1, keepdims=True)
    return P, str(rng.choice(OBJECTIVES)), [random_limit(rng, P.mean(axis=0)) for _ in range(int(rng.integers(1, 4)))]


def random_limit(rng, shares):
    """Return a limit of a random kind."""
    k, u = int(rng.integers(len(shares))), float(rng.random())
    return (
        c.recall(k) >= u,
        c.rate(k) <= min(1.0, 2 * u * shares[k]),
        c.rate(k) >= u * shares[k],
        c.precision(k) >= u,
        c.f1(k) >= 0.8 * u,
        c.accuracy() >= u,
        c.cohen_kappa() >= 0.8 * u,
        c.specificity(k) >= u,
        c.fpr(k) <= 0.5 * u,
        c.min_recall() >= 0.6 * u,
        c.balanced_accuracy() >= u,
    )[int(rng.integers(11))]


class Rows:
    """Linear programs over the decisions of all rows of a population, drawn ones included."""

    def __init__(self, P, limits):
        self.P, (self.n, self.K) = P, P.shape
        self.one_each = np.kron(np.eye(self.n), np.ones(self.K))
        self.limits, self.constants = self.linear(limits.functions(P.mean(axis=0), self.K))

    def linear(self, functions):
        """Return linear functions as coefficients (u, n K) of the decisions, and constants (u,)."""
        a, b = functions.combined(np.eye(len(functions))).pair()
        parts = np.array([((self.P * a[u] + b[u]) / self.n).ravel() for u in range(len(a))])
        constants = getattr(functions, "constants", None)
        return parts, np.zeros(len(a)) if constants is None else constants

    def room(self):
        """Return the largest slack that all limits can have at once."""
        return self._smallest(self.limits, self.constants, self.limits[:0], self.constants[:0])

    def best(self, metric):
        """Return the largest value within the limits, None if no decisions keep them."""
        functions = metric.as_functions(self.P.mean(axis=0), self.K)
        top, constant = self.linear(functions)
        if metric.structure != "ratio":
            return self._smallest(top, constant, self.limits, self.constants)
        # decisions times a positive number, such that the denominator is one
        equal = np.vstack([np.c_[self.one_each, -np.ones(self.n)], np.append(top[1], constant[1])])
        found = linprog(
            -np.append(top[0], constant[0]), A_ub=-np.c_[self.limits, self.constants], b_ub=np.zeros(len(self.limits)),
            A_eq=equal, b_eq=np.append(np.zeros(self.n), 1.0), bounds=(0, None),
        )  # fmt: skip
        return -found.fun if found.status == 0 else None

    def _smallest(self, top, constant, slack, room):
        rows = np.vstack([np.c_[-top, np.ones(len(top))], np.c_[-slack, np.zeros(len(slack))]])
        bounds = [(0, 1)] * (self.n * self.K) + [(None, None)]
        found = linprog(
            np.append(np.zeros(self.n * self.K), -1.0), A_ub=rows, b_ub=np.append(constant, room),
            A_eq=np.c_[self.one_each, np.zeros(self.n)], b_eq=np.ones(self.n), bounds=bounds,
        )  # fmt: skip
        return -found.fun if found.status == 0 else None


def verdict(seed):
    """Return what is wrong with the answer on a tiny population, "right" or a kind of its own; and passes, lack."""
    P, name, given = tiny(seed)
    table, classes = make_table(P), list(range(P.shape[1]))
    try:
        limits = c.bind(given, table, explicit=True)
    except ValueError:
        return "contradictory", 0, 0.0
    rows = Rows(P, limits)
    solution = confmax.maximize(name, P, classes=classes, constraints=given, **SETTINGS)
    room = rows.room()
    best = rows.best(fit_metric(confmax.metrics.get(name), table, explicit=True)) if room >= -TOL else None
    return ended(solution, room, best)


# --- tables -----------------------------------------------------------------------------------------------------------


def free(metric, P):
    """Return the best mixture without limits."""
    return confmax.maximize(metric, P, confusion="model", calibration=None, randomized=True)


def cases(P):
    """Yield the kind of problem, its objective and its limits, which bind, on probabilities P (n, K)."""
    shares, accuracy = P.mean(axis=0), free("accuracy", P)
    rare = int(np.argmin(shares))
    smallest = free("min_recall", P)
    reached = float(smallest.statistics.diagonal.sum())

    def halfway(solution):
        recall = solution.statistics.diagonal[rare] / shares[rare]
        return c.recall(rare) >= min(1.0, recall + 0.5 * (1.0 - recall))

    yield "accuracy, K floors", "accuracy", [c.min_recall() >= 0.9 * smallest.value]
    yield "G-mean, K rates", "g_mean", [c.rate(k) <= min(1.0, 1.2 * shares[k]) for k in range(len(shares))]
    yield "min recall, accuracy", "min_recall", [c.accuracy() >= reached + 0.5 * (accuracy.value - reached)]
    yield "kappa, recall", "cohen_kappa", [halfway(free("cohen_kappa", P))]
    yield "accuracy, recall", "accuracy", [halfway(accuracy)]
    balanced = free("balanced_accuracy", P).statistics.columns[rare]
    yield "balanced accuracy, rate", "balanced_accuracy", [c.rate(rare) <= 0.7 * balanced]
    f1 = free(f"f1[{rare}]", P).statistics
    found = f1.diagonal[rare] / f1.columns[rare] if f1.columns[rare] else 0.5
    yield "F1, precision", f"f1[{rare}]", [c.precision(rare) >= found + 0.5 * (1.0 - found)]


def mean_cases(P):
    """Yield the same with floors on means of the recalls, which are no linear functions."""
    for objective, mean in (("accuracy", "g_mean"), ("cohen_kappa", "h_mean"), ("accuracy", "q_mean")):
        values = [float(confmax.metrics.get(mean).values(free(one, P).statistics)) for one in (objective, mean)]
        yield f"{objective}, {mean}", objective, [c.at_least(mean, sum(values) / 2)]


def every_case(P):
    """Yield the cases of all limits."""
    yield from cases(P)
    yield from mean_cases(P)


def closing(history, tol):
    """Return the passes after which bound and value lie within ``tol``."""
    near = [step.n_passes for step in history if step.upper_bound is not None and step.upper_bound - step.value <= tol]
    return near[0] if near else BUDGET


def on_tables(folder, problems, groups):
    """Yield the kind of problem, the table, its rows, passes to 1e-4 and 1e-6, and the loss of the single rule.

    ``problems`` yields the problems of a table of probabilities, and ``groups``, if there are some, returns its groups.
    """
    for data in load(folder):
        name, P = data.stem, data.proba
        settings = MODEL | {"classes": list(range(P.shape[1]))}
        settings["group"] = None if groups is None else groups(P)
        for kind, metric, given in problems(P):
            try:
                mixed = confmax.maximize(metric, P, constraints=given, randomized=True, max_passes=BUDGET, **settings)
                single = confmax.maximize(metric, P, constraints=given, randomized="auto", **settings)
            except confmax.Infeasible:
                # a class with next to no probability that must be decided: the floor of another rule does not decide it
                continue
            drawn = single.rule.is_randomized
            kept = min(one.slack for one in single.constraints) >= 0.0 and mixed.feasible
            loss = np.inf if drawn else mixed.value - single.value
            yield kind, name, len(P), closing(mixed.history, 1e-4), closing(mixed.history, 1e-6), loss, kept


def of_tables(section, folder, problems=every_case, groups=None):
    """Return their number and a table of passes and losses by kind; see `on_tables`."""
    found, each, every = defaultdict(list), defaultdict(dict), []
    for kind, name, n, near, closed, loss, kept in on_tables(folder, problems, groups):
        found[kind].append((n, near, closed, loss, kept))
        every.append(found[kind][-1])
        each[name][kind] = f"{closed}"
    lines = []
    for kind, runs in [*found.items(), ("all of these", every)]:
        n, near, closed, loss, kept = (np.array(part) for part in zip(*runs, strict=True))
        texts = [f"{np.median(near):.1f} / {near.max()}", f"{np.median(closed):.1f} / {closed.max()}"]
        for part in (n >= 1000, n < 1000):
            single = np.isfinite(loss[part])
            most = f"{np.median(loss[part]):.0e} / {loss[part][single].max():.0e}" if single.any() else "inf"
            texts += [f"{single.sum()} of {part.sum()}", most]
        lines.append([kind, *texts, "yes" if kept.all() else "no"])
    single = ["n >= 1000: single", "loss", "n < 1000: single", "loss"]
    kinds = markdown(["problem", "passes to 1e-4", "to 1e-6", *single, "kept"], lines)
    spread(
        section, ["table", *found], [[name, *(closed.get(kind, "") for kind in found)] for name, closed in each.items()]
    )
    return len(each), kinds


# --- macro F1 ---------------------------------------------------------------------------------------------------------


def macro_case(P):
    """Return two limits that bind for macro F1: a recall of the rarest class, a precision of the largest."""
    shares = P.mean(axis=0)
    free = confmax.maximize("macro_f1", P, confusion="model", calibration=None, randomized=True).statistics
    rare, large = int(np.argmin(shares)), int(np.argmax(shares))
    recall, precision = free.diagonal[rare] / shares[rare], free.diagonal[large] / max(free.columns[large], 1e-300)
    return [c.recall(rare) >= recall + 0.5 * (1 - recall), c.precision(large) >= precision + 0.3 * (1 - precision)]


def by_nelder_mead(P, limits, starts=5, calls=2000):
    """Return the best macro F1 of single rules by class weights on a log scale that keep the limits, -inf if none."""
    rng, K, best = np.random.default_rng(0), P.shape[1], -np.inf
    oracle, metric = make_oracle(make_table(P)), confmax.metrics.get("macro_f1")

    def loss(x):
        nonlocal best
        S = oracle.maximize(Gains.reduced(np.exp(x[:K]), x[K:]))[0]
        value, missed = float(metric.values(S)), max(0.0, -float(limits.slacks(S).min()))
        if missed <= 1e-12:
            best = max(best, value)
        return 10.0 * missed - value

    origin = np.concatenate([-np.log(P.mean(axis=0)), np.zeros(K)])
    for k in range(starts):
        start = origin * [1.0, 0.5, 0.0][min(k, 2)] + (k > 2) * rng.normal(size=2 * K) * 0.3
        minimize(loss, start, method="Nelder-Mead", options={"maxfev": calls, "adaptive": True})
    return best


def of_macro_f1(folder):
    """Return a line for each table: macro F1 within two limits, its bound, and what Nelder-Mead reaches."""
    lines = []
    for data in load(folder):
        P = data.proba
        given, settings = macro_case(P), MODEL | {"classes": list(range(P.shape[1]))}
        mixed = confmax.maximize("macro_f1", P, constraints=given, randomized=True, max_passes=BUDGET, **settings)
        single = confmax.maximize("macro_f1", P, constraints=given, randomized=False, **settings)
        other = by_nelder_mead(P, c.bind(given, make_table(P), explicit=True))
        first = next(step.n_passes for step in mixed.history if step.value >= mixed.value - TOL and step.upper_bound)
        single_value = f"{single.value:.5f}" if single.feasible and len(single.rule.weights) == 1 else "none"
        lines.append([data.stem, f"{mixed.value:.5f}", f"{mixed.gap:.4f}", first, mixed.n_passes, single_value,
                      f"{other:.5f}" if np.isfinite(other) else "none"])  # fmt: skip
    return lines


# --- the sections -----------------------------------------------------------------------------------------------------


@benchmark("constraints", "FOLDER")
def constraints(folder, count=5000):
    """Compare limits with programs, and count passes."""
    number, kinds = of_tables("constraints", folder)
    return [
        f"{count} tiny populations against linear programs over all rows, and {number} tables: passes until bound and "
        f"value of the best mixture lie within 1e-4 and 1e-6, median and most; on how many tables a single rule was "
        f"returned, and how much less it is worth: median over all tables (inf: most of them have a mixture) and most "
        f"of those returned. Problems that no rule solves are left out: one class that must be decided, and is rare.",
        of_tiny(count, verdict),
        kinds,
    ]


@benchmark("macro-f1-limits", "FOLDER", "constraints: macro F1")
def macro_f1_limits(folder):
    """Compare macro F1 within limits with its bound and with Nelder-Mead."""
    lines = of_macro_f1(folder)
    beaten = sum("none" not in row[5:] and float(row[6]) > float(row[5]) for row in lines)
    head = ["table", "mixture", "gap", "passes", "of the whole run", "single rule", "Nelder-Mead"]
    return [
        f"macro F1 with a floor on the recall of the rarest class and on the precision of the largest: value and gap "
        f"of the best mixture, passes after which its value no longer changes by 1e-6 and those of the whole run, the "
        f"best single rule, and that of Nelder-Mead on class weights and offsets with a penalty (5 starts of 2000 "
        f"calls), which keeps both limits on {sum(row[6] != 'none' for row in lines)} of {len(lines)} tables and is "
        f"above the single rule on {beaten}.",
        spread("constraints: macro F1", head, lines),
    ]


@benchmark("limit-speed", section="constraints: speed")
def limit_speed():
    """Measure whole calls without limits and within them."""
    rows = []
    for recipe in (Recipe(2000, 5, imbalance=10.0), Recipe(200_000, 20), Recipe(1_000_000, 10)):
        P, _ = recipe.draw()
        K, settings = recipe.K, MODEL | {"randomized": True, "classes": list(range(recipe.K))}
        a, b = np.linspace(0.5, 2.0, K, dtype=np.float32), np.linspace(0.0, 0.1, K, dtype=np.float32)
        plain, _ = shortest(lambda P=P, a=a, b=b, K=K: np.bincount((P * a + b).argmax(axis=1), minlength=K))
        for kind, metric, given in every_case(P):
            free, _ = shortest(lambda P=P, m=metric, s=settings: confmax.maximize(m, P, **s))
            within, found = shortest(
                lambda P=P, m=metric, g=given, s=settings: confmax.maximize(m, P, constraints=g, **s)
            )
            texts = [f"{scale * each:.1f}" for each in (free, within) for scale in (1e3, 1 / plain)]
            rows.append([recipe.size, kind, f"{1e3 * plain:.2f}", *texts, f"{found.gap:.0e}", found.n_passes])
    head = ["table", "problem", "NumPy pass, ms", "without limits, ms", "in passes", "within, ms", "in passes"]
    return [
        "whole calls of `maximize` on generated tables without limits and within them, the mixture, the shortest of "
        "three runs, in milliseconds and in NumPy passes, `(P * a + b).argmax(1)` and a `bincount`: of ten problems "
        "the median (least, most).",
        spread("constraints: speed", [*head, "gap", "passes"], rows, 2, (0,)),
    ]
