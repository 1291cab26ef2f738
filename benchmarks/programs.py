"""Tiny populations and the largest values that any decisions of their rows have: linear programs, the witness.

Programs are in Charnes and Cooper's variables. They are written from the definitions of the quantities and share no
code with confmax. A population is on the edge if its limits can be kept with less than 1e-6 to spare, or are missed by
less.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, kron

import confmax
from benchmarks.harness import MODEL, markdown, solve

TOL = 1e-6
EXACT = 1e-9
ROUNDING = 1e-11  # of the values of programs
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Wish(NamedTuple):
    """A limit: the quantity, "recall[1]" or "accuracy", what of the groups' values is limited, and the limit."""

    name: str
    over: str
    sense: str
    limit: float

    @property
    def text(self):
        what = self.name if self.over == "all" else f"{self.over}({self.name} | group)"
        if " " in self.over:
            # of two groups: the first minus the second
            first, second = (self.name.replace("]", f" | {g}]") for g in self.over.split())
            return f"{first} {self.sense} {second} {'-' if self.limit < 0 else '+'} {abs(self.limit)!r}"
        return f"{what} {self.sense} {self.limit!r}"


class Tiny(NamedTuple):
    """Probabilities (n, K), groups (n,), an objective, limits, whether to abstain, costs (K, M), and weights (n,)."""

    P: np.ndarray
    group: np.ndarray
    metric: str
    limits: list
    abstain: bool = False
    cost: np.ndarray | None = None
    weight: np.ndarray | None = None

    @property
    def share(self):
        """The weights (n,) as shares of their sum."""
        weight = np.ones(len(self.P)) if self.weight is None else self.weight
        return weight / weight.sum()


def random_rows(rng, seed, n, K):
    """Return rows (n, K) that are not negative; with some seeds they hold zeros, or one of them twice."""
    P = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 3.0])), n)
    if seed % 3 == 0:
        P = np.round(P * 4)
        P[P.sum(axis=1) == 0] = 1.0
    if seed % 4 == 0:
        P[1] = P[0]
    return P


def random_table(rng, seed):
    """Return probabilities (n, K) of 5 to 40 rows and 2 to 4 classes that all have a chance."""
    K, n = int(rng.integers(2, 5)), int(rng.integers(5, 41))
    P = random_rows(rng, seed, n, K)
    P[0, P.sum(axis=0) == 0] = 0.1
    return P / P.sum(axis=1, keepdims=True)


class Program:
    """Linear programs over the decisions of all rows of a population, drawn ones included.

    The decisions are h (n, M), the share of row i that is decided as j times a positive number t that all rows share.
    A quantity is a ratio of two linear functions of h, of which this number is no part.
    """

    def __init__(self, one):
        self.P, self.group, self.cost, self.share = one.P, one.group, one.cost, one.share
        self.n, self.K = one.P.shape
        self.M = self.K + one.abstain
        self.ones = np.full((self.n, self.M), 1 / self.n)
        self.every = np.ones(self.n, dtype=bool)
        self.limits = np.array([row for wish in one.limits for row in self.kept(wish)]).reshape(-1, self.n, self.M)

    def quantity(self, name, rows):
        """Return numerator and denominator (n, M) of a quantity of the rows in a mask (n,)."""
        if " rate" in name:
            weights = {int(k): float(weight or 1) for weight, k in re.findall(r"([\d.]* ?)rate\[(\d)\]", name)}
            parts = [(weight, *self.quantity(f"rate[{k}]", rows)) for k, weight in weights.items()]
            return sum(weight * top for weight, top, _ in parts), parts[0][2]
        if name.startswith("rate[not"):
            others = [f"rate[{k}]" for k in range(self.K) if k != int(name[-2])]
            return sum(self.quantity(other, rows)[0] for other in others), self.quantity(others[0], rows)[1]
        name, k = (name[:-3], int(name[-2])) if name.endswith("]") else (name, None)
        P, w = self.P, (self.share * rows / self.share[rows].sum())[:, None]
        decided, column = (np.arange(self.M) < self.K) * w, (np.arange(self.M) == k) * w
        hits, whole = np.pad(P, ((0, 0), (0, self.M - self.K))) * w, np.repeat(w, self.M, axis=1)
        if k is not None:
            p = P[:, [k]]
            return {
                "recall": (p * column, p * decided),
                "fpr": ((1 - p) * column, (1 - p) * decided),
                "specificity": ((1 - p) * (decided - column), (1 - p) * decided),
                "coverage": (p * decided, p * whole),
                "rate": (column, whole),
                "precision": (p * column, column),
                "f1": (2 * p * column, column + p * decided),
                "jaccard": (p * column, column + p * (decided - column)),
            }[name]
        if name == "cohen_kappa":
            chance = decided * np.pad((P * w).sum(axis=0), (0, self.M - self.K))
            return hits - chance, decided - chance
        if name == "balanced_accuracy":
            return hits / np.pad((P * w).sum(axis=0), (0, self.M - self.K), constant_values=1) / self.K, decided
        if name == "cost":
            return -P @ self.cost * w, whole
        return {"accuracy": (hits, decided), "coverage": (decided, whole)}[name]

    def fixed(self, name, rows):
        """Return a quantity whose denominator does not depend on the rule, as a function (n, M) of the decisions."""
        top, bottom = self.quantity(name, rows)
        return top / bottom[:, 0].sum()

    def kept(self, wish):
        """Return the functions (n, M) that must not fall below zero."""
        if wish.name == "min_recall":
            return [self.fixed(f"recall[{k}]", self.every) - wish.limit * self.ones for k in range(self.K)]
        sign = 1 if wish.sense == ">=" else -1
        if " " in wish.over:
            first, second = (self.fixed(wish.name, self.group == int(g)) for g in wish.over.split())
            return [sign * (first - second - wish.limit * self.ones)]
        masks = [self.every] if wish.over == "all" else [self.group == g for g in np.unique(self.group)]
        if wish.over in ("difference", "ratio"):
            values = [self.fixed(wish.name, rows) for rows in masks]
            pairs = [(a, b) for a in values for b in values if a is not b]
            if wish.over == "ratio":
                return [a - wish.limit * b for a, b in pairs]
            return [wish.limit * self.ones - a + b for a, b in pairs]
        return [sign * (top - wish.limit * bottom) for top, bottom in (self.quantity(wish.name, one) for one in masks)]

    def best(self, metric, more=()):
        """Return the largest value within the limits and ``more`` functions, None if no decisions keep them."""
        least = [*self.limits, *more]
        if metric == "min_recall":
            return self._largest([self.fixed(f"recall[{k}]", self.every) for k in range(self.K)], least)
        top, bottom = self.quantity(metric, self.every)
        return self._largest([top], least, bottom)

    def best_accuracy(self, metric, value, decisions=None):
        """Return the largest accuracy of all rows among the rules that reach a ``value``.

        With ``decisions`` (n, M) they also have no smaller denominator: a ratio may be one of sums as small as one
        likes.
        """
        if metric == "min_recall":
            floors = [self.fixed(f"recall[{k}]", self.every) - (value - ROUNDING) * self.ones for k in range(self.K)]
        else:
            top, bottom = self.quantity(metric, self.every)
            floors = [top - (value - ROUNDING) * bottom]
            if decisions is not None:
                floors.append(bottom - (float((bottom * decisions).sum()) - ROUNDING) * self.ones)
        right, _ = self.quantity("accuracy", self.every)
        return self._largest([right], [*self.limits, *floors])

    def room(self):
        """Return the largest slack that all limits can have at once."""
        return self._largest(self.limits, [])

    def _largest(self, functions, least, bottom=None):
        """Return the largest value of the smallest of functions over decisions whose ``bottom`` is one."""
        n, size = self.n, self.n * self.M
        bottom = self.ones if bottom is None else bottom
        rows = [np.append(-f.ravel(), [0.0, 1.0]) for f in functions] + [np.append(-f.ravel(), [0, 0]) for f in least]
        one_each = hstack([kron(eye_array(n), np.ones((1, self.M))), -np.ones((n, 1)), np.zeros((n, 1))])
        result = linprog(
            np.append(np.zeros(size + 1), -1.0),
            A_ub=csr_array(np.array(rows)),
            b_ub=np.zeros(len(rows)),
            A_eq=csr_array(np.vstack([one_each.toarray(), np.append(bottom.ravel(), [0.0, 0.0])])),
            b_eq=np.append(np.zeros(n), 1.0),
            bounds=[(0, None)] * (size + 1) + [(None, None)],
            options=TIGHT,
        )
        if result.status != 0:
            return None
        # the program drops coefficients near zero: the value is that of its decisions
        decisions = result.x[:size].clip(0.0).reshape(n, self.M)
        decisions /= decisions.sum(axis=1, keepdims=True)
        below = float((bottom * decisions).sum())
        # these may miss a limit by the last digits, for which a steep price pays more than the bound's rounding
        missed = np.array([max(0.0, -float((f * decisions).sum()) / below) for f in least])
        paid = float(-result.ineqlin.marginals[len(functions) :] @ missed) if len(least) else 0.0
        return min(float((f * decisions).sum()) for f in functions) / below - paid


def solved(one, **settings):
    """Return the solution of a population on the model: the best mixture."""
    metric = confmax.metrics.get("linear", cost=one.cost) if one.metric == "cost" else one.metric
    return solve(
        metric,
        one.P,
        sample_weight=one.weight,
        classes=range(one.P.shape[1]),
        constraints=[wish.text for wish in one.limits],
        group=one.group if any(wish.over != "all" for wish in one.limits) else None,
        abstain=one.abstain,
        randomized=True,
        tol=TOL,
        **(MODEL | {"on_infeasible": "closest"} | settings),
    )


def judged(one):
    """Return what is wrong with the answer on a population, "right" or a kind of its own; and passes, lack of value."""
    program = Program(one)
    room = program.room()
    try:
        solution = solved(one)
    except ValueError:
        return ("infeasible, refused" if room < TOL else "wrongly refused"), 0, 0.0
    return ended(solution, room, program.best(one.metric) if room >= -TOL else None)


def ended(solution, room, best):
    """Return what `judged` returns, of a solution.

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


def of_tiny(kinds):
    """Return a table of how populations ended: ``kinds`` are tuples of a name, a count, and the verdict on a seed."""
    rows = []
    for name, count, verdict in kinds:
        ends, passes, lacks = zip(*map(verdict, range(count)), strict=True)
        words = ", ".join(f"{number} {end}" for end, number in sorted(Counter(ends).items()))
        rows.append([name, words, f"{max(0.0, *lacks):.1e}", f"{np.median(passes):.0f}, {max(passes)}"])
    return markdown(["tiny populations", "how many ended how", "most lack of value", "passes, median, most"], rows, 2)
