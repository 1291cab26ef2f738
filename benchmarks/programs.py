"""Tiny populations and the largest values that any decisions of their rows have: linear programs, the witness.

Programs are in Charnes and Cooper's variables. They are written from the definitions of the quantities and share no
code with confmax.
A population is on the edge if its limits can be kept with less than 1e-6 to spare, or are missed by less.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, kron

from benchmarks.harness import markdown

TOL = 1e-6
EXACT = 1e-9
SETTINGS = {"confusion": "model", "randomized": True, "tol": TOL, "on_infeasible": "closest"}


class Wish(NamedTuple):
    """A limit: the quantity, "recall[1]" or "accuracy", what of the groups' values is limited, and the limit."""

    name: str
    over: str
    sense: str
    limit: float

    @property
    def text(self):
        what = self.name if self.over == "all" else f"{self.over}({self.name} | group)"
        return f"{what} {self.sense} {self.limit!r}"


class Tiny(NamedTuple):
    """Probabilities (n, K), groups (n,), an objective, limits, whether rules may abstain, and costs (K, M) or None."""

    P: np.ndarray
    group: np.ndarray
    metric: str
    limits: list
    abstain: bool
    cost: np.ndarray | None = None


def random_rows(rng, seed, n, K):
    """Return rows (n, K) that are not negative; with some seeds they hold zeros, or one of them twice."""
    P = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 3.0])), n)
    if seed % 3 == 0:
        P = np.round(P * 4)
        P[P.sum(axis=1) == 0] = 1.0
    if seed % 4 == 0:
        P[1] = P[0]
    return P


class Program:
    """Linear programs over the decisions of all rows of a population, drawn ones included.

    The decisions are h (n, M), the share of row i that is decided as j times a positive number t that all rows share.
    A quantity is a ratio of two linear functions of h, of which this number is no part.
    """

    def __init__(self, one):
        self.P, self.group, self.cost = one.P, one.group, one.cost
        self.n, self.K = one.P.shape
        self.M = self.K + one.abstain
        self.limits = np.array([row for wish in one.limits for row in self.kept(wish)])

    def quantity(self, name, rows):
        """Return numerator and denominator (n, M) of a quantity of the rows in a mask (n,)."""
        name, k = (name[:-3], int(name[-2])) if name.endswith("]") else (name, None)
        P, w = self.P, (rows / rows.sum())[:, None]
        decided, column = (np.arange(self.M) < self.K) * w, (np.arange(self.M) == k) * w
        hits = np.pad(P, ((0, 0), (0, self.M - self.K))) * w
        if k is not None:
            p = P[:, [k]]
            return {
                "recall": (p * column, p * decided),
                "fpr": ((1 - p) * column, (1 - p) * decided),
                "coverage": (p * decided, p * np.repeat(w, self.M, axis=1)),
                "rate": (column, np.repeat(w, self.M, axis=1)),
                "precision": (p * column, column),
                "f1": (2 * p * column, column + p * decided),
            }[name]
        if name == "cohen_kappa":
            chance = decided * np.pad((P * w).sum(axis=0), (0, self.M - self.K))
            return hits - chance, decided - chance
        if name == "balanced_accuracy":
            return hits / np.pad((P * w).sum(axis=0), (0, self.M - self.K), constant_values=1) / self.K, decided
        if name == "cost":
            return -P @ self.cost * w, np.repeat(w, self.M, axis=1)
        return {"accuracy": (hits, decided), "coverage": (decided, np.repeat(w, self.M, axis=1))}[name]

    def fixed(self, name, rows):
        """Return a quantity whose denominator does not depend on the rule, as a function (n, M) of the decisions."""
        top, bottom = self.quantity(name, rows)
        return top / bottom[:, 0].sum()

    def kept(self, wish):
        """Return the functions (n, M) that must not fall below zero."""
        ones, limit = np.full((self.n, self.M), 1 / self.n), wish.limit
        if wish.name == "min_recall":
            return [self.fixed(f"recall[{k}]", self.group >= 0) - limit * ones for k in range(self.K)]
        masks = [self.group >= 0] if wish.over == "all" else [self.group == g for g in np.unique(self.group)]
        if wish.over in ("difference", "ratio"):
            values = [self.fixed(wish.name, rows) for rows in masks]
            pairs = [(a, b) for a in values for b in values if a is not b]
            if wish.over == "ratio":
                return [a - limit * b for a, b in pairs]
            return [limit * ones - a + b for a, b in pairs]
        sign = 1 if wish.sense == ">=" else -1
        return [sign * (top - limit * bottom) for top, bottom in (self.quantity(wish.name, rows) for rows in masks)]

    def best(self, metric):
        """Return the largest value within the limits, None if no decisions keep them."""
        every = self.group >= 0
        if metric == "min_recall":
            return self._largest([self.fixed(f"recall[{k}]", every) for k in range(self.K)], self.limits)
        top, bottom = self.quantity(metric, every)
        return self._largest([top], self.limits, bottom)

    def room(self):
        """Return the largest slack that all limits can have at once."""
        return self._largest(self.limits, self.limits[:0])

    def _largest(self, functions, least, bottom=None):
        """Return the largest value of the smallest of functions over decisions whose ``bottom`` is one."""
        n, size = self.n, self.n * self.M
        bottom = np.full((n, self.M), 1 / n) if bottom is None else bottom
        rows = [np.append(-f.ravel(), [0.0, 1.0]) for f in functions] + [np.append(-f.ravel(), [0, 0]) for f in least]
        one_each = hstack([kron(eye_array(n), np.ones((1, self.M))), -np.ones((n, 1)), np.zeros((n, 1))])
        equal = np.vstack([one_each.toarray(), np.append(bottom.ravel(), [0.0, 0.0])])
        found = linprog(
            np.append(np.zeros(size + 1), -1.0), A_ub=csr_array(np.array(rows)), b_ub=np.zeros(len(rows)),
            A_eq=csr_array(equal), b_eq=np.append(np.zeros(n), 1.0), bounds=[(0, None)] * (size + 1) + [(None, None)],
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )  # fmt: skip
        if found.status != 0:
            return None
        # the program drops coefficients near zero: the value is that of its decisions
        decisions = found.x[:size].clip(0.0).reshape(n, self.M)
        decisions /= decisions.sum(axis=1, keepdims=True)
        below = float((bottom * decisions).sum())
        # these may miss a limit by the last digits, for which a steep price pays more than the bound's rounding
        missed = np.array([max(0.0, -float((f * decisions).sum()) / below) for f in least])
        paid = float(-found.ineqlin.marginals[len(functions) :] @ missed) if len(least) else 0.0
        return min(float((f * decisions).sum()) for f in functions) / below - paid


def ended(solution, room, best):
    """Return "right", what is wrong with a solution, or a kind of its own; and passes, and the lack of value.

    ``room`` is the largest slack that all limits can have, and ``best`` the largest value, None where there is none.
    """
    proved = solution.infeasibility is not None and "(proved)" in solution.infeasibility
    if room < -TOL:
        return ("infeasible, proved" if proved else "infeasible, not proved"), solution.n_passes, 0.0
    if abs(room) <= TOL and (best is None or solution.infeasibility is not None):
        return "on the edge", solution.n_passes, 0.0
    if solution.infeasibility is not None:
        return "wrongly infeasible", solution.n_passes, 0.0
    lack = best - solution.value
    if solution.upper_bound is not None and solution.upper_bound < best - EXACT:
        return "bound too low", solution.n_passes, lack
    if lack > TOL + EXACT:
        return "value too low", solution.n_passes, lack
    if solution.upper_bound is None:
        return "right, no bound", solution.n_passes, lack
    return ("right" if room > TOL else "right, on the edge"), solution.n_passes, lack


def of_tiny(count, verdict):
    """Return a table: how many populations ended how, by the ``verdict`` on a seed."""
    ends, passes, worst = Counter(), [], 0.0
    for seed in range(count):
        end, made, lack = verdict(seed)
        ends[end] += 1
        passes.append(made)
        worst = max(worst, lack)
    lines = [[end, f"{number}"] for end, number in sorted(ends.items())]
    lines += [["largest lack of value", f"{worst:.1e}"]]
    lines += [["passes, median and most", f"{np.median(passes):.0f}, {max(passes)}"]]
    return markdown(["tiny populations", "number"], lines)
