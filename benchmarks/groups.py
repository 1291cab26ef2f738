"""Limits of groups: against row-level programs on tiny populations, and how many passes a certificate takes.

    python -m benchmarks.groups FOLDER_OF_NPZ [N_POPULATIONS]
    python -m benchmarks.groups

Tiny populations have 5 to 40 rows, 2 to 4 classes and 2 to 4 groups, rows that repeat and zeros, and 1 to 3 random
limits of groups or of all rows; in two of five of them rules may abstain. The witness is a linear program over the
decisions of all rows, in Charnes and Cooper's variables, which is written from the definitions of the quantities and
shares no code with confmax. A population is on the edge if its limits can be kept with less than 1e-6 to spare, or
are missed by less. The second command solves 500 populations whose groups are equal, or differ by at most .001 or .02,
and looks at the decisions of the rule itself.

The tables have no groups. Groups are drawn from the score: a row is in group "b" with a chance that rises from .2 to
.8 with the rank of its probability of the largest class, else in "a". The class of equal opportunity is the one whose
recalls in both groups differ most without limits. Floors are at .9 of the smallest recall that every class reaches in
every group. The figures are written to the sections "groups", "groups: levelling down" and "groups: equal" of
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import warnings
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, kron

import confmax
from benchmarks.constraints import EXACT, TOL, ended, free, of_tables, of_tiny, random_rows
from benchmarks.harness import load, markdown, report

OBJECTIVES = ("accuracy", "balanced_accuracy", "cohen_kappa", "min_recall", "f1[0]")
OF_DECIDED = ("accuracy", "coverage", "f1[0]")
OF_EQUAL = (*OBJECTIVES, "recall[1]")
LEVELLED = ("default_credit__logreg", "compas__logreg", "hpc__logreg", "diamonds_cut__logreg")
NEAR = 0.02  # the largest difference of the groups on the tables


def drawn_groups(P, seed=0):
    """Return groups (n,) "a" and "b" that are drawn from the score, of probabilities (n, K)."""
    score = P[:, P.mean(axis=0).argmax()]
    rank = score.argsort(kind="stable").argsort() / (len(P) - 1)
    return np.where(np.random.default_rng(seed).random(len(P)) < 0.2 + 0.6 * rank, "b", "a")


# --- tiny populations -------------------------------------------------------------------------------------------------


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
    """Probabilities (n, K), the groups (n,) of rows, an objective, limits, and whether rules may abstain."""

    P: np.ndarray
    group: np.ndarray
    metric: str
    limits: list
    abstain: bool


def tiny(seed):
    """Return a population."""
    rng = np.random.default_rng(seed)
    P, group = rows_in_groups(rng, seed)
    K = P.shape[1]
    abstain = seed % 5 < 2
    objective = str(rng.choice(OF_DECIDED if abstain else OBJECTIVES))
    limits = [of_groups(rng, K, abstain)]
    for _ in range(int(rng.integers(3))):
        limits.append(of_all_rows(rng, K, abstain) if rng.random() < 0.4 else of_groups(rng, K, abstain))
    if abstain and objective != "coverage":
        # without a floor next to nothing is decided
        limits.append(Wish("coverage", str(rng.choice(["all", "min"])), ">=", number(rng, 0.9)))
    return Tiny(P, group, objective, limits, abstain)


def equal_tiny(seed):
    """Return a population with limits that keep the values of groups equal, or nearly."""
    rng = np.random.default_rng([seed, 1])
    P, group = rows_in_groups(rng, seed)
    K, limits = P.shape[1], {}
    for _ in range(int(rng.integers(1, 3))):
        name = str(rng.choice(["rate[{}]", "recall[{}]", "fpr[{}]", "accuracy"])).format(rng.integers(K))
        apart = float(rng.choice([0.0, 0.0, 0.001, 0.02]))
        compared = Wish(name, "difference", "<=", apart), Wish(name, "ratio", ">=", 1.0 - apart)
        limits[name] = compared[int(rng.random() < 0.2)]
    further = (
        Wish(f"rate[{rng.integers(K)}]", "all", "<=", number(rng, 1.0)),
        Wish("recall[0]", "min", ">=", number(rng, 0.7)),
    )
    more = [one for one in further if rng.random() < 0.25]
    return Tiny(P, group, str(rng.choice(OF_EQUAL)), [*limits.values(), *more], False)


def rows_in_groups(rng, seed):
    """Return probabilities (n, K) and groups (n,)."""
    K, G, n = int(rng.integers(2, 5)), int(rng.integers(2, 5)), int(rng.integers(5, 41))
    P = random_rows(rng, seed, n, K)
    group = np.append(np.arange(G), rng.integers(0, G, n - G))
    for g in range(G):
        # every class has a chance in every group
        P[g, P[group == g].sum(axis=0) == 0] = 0.1
    return P / P.sum(axis=1, keepdims=True), group


def number(rng, most):
    """Return a random limit."""
    return round(float(most * rng.uniform(0.02, 1.0)), 4)


def of_groups(rng, K, abstain):
    """Return a limit of groups; differences and ratios need denominators that do not depend on the rule."""
    k = int(rng.integers(K))
    compared = str(
        rng.choice(["rate[{}]", "coverage"] if abstain else ["recall[{}]", "fpr[{}]", "rate[{}]", "accuracy"])
    )
    return (
        Wish(f"recall[{k}]", "min", ">=", number(rng, 0.8)),
        Wish(f"precision[{k}]", "min", ">=", number(rng, 0.7)),
        Wish(f"f1[{k}]", "min", ">=", number(rng, 0.6)),
        Wish("accuracy", "min", ">=", number(rng, 0.8)),
        Wish(f"fpr[{k}]", "max", "<=", number(rng, 0.6)),
        Wish(f"rate[{k}]", "max", "<=", number(rng, 1.0)),
        Wish(compared.format(k), "difference", "<=", number(rng, 0.3)),
        Wish(compared.format(k), "ratio", ">=", number(rng, 1.0)),
    )[int(rng.integers(8))]


def of_all_rows(rng, K, abstain):
    """Return a limit of all rows."""
    k = int(rng.integers(K))
    return (
        Wish(f"recall[{k}]", "all", ">=", number(rng, 0.9)),
        Wish(f"rate[{k}]", "all", "<=", number(rng, 1.0)),
        Wish("coverage", "all", "<=", number(rng, 1.0))
        if abstain
        else Wish("min_recall", "all", ">=", number(rng, 0.5)),
    )[int(rng.integers(3))]


class Program:
    """Linear programs over the decisions of all rows of a population, drawn ones included.

    The decisions are h (n, M), the share of row i that is decided as j times a positive number t that all rows share.
    A quantity is a ratio of two linear functions of h, of which this number is no part.
    """

    def __init__(self, one):
        self.P, self.group = one.P, one.group
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
                "rate": (column, np.repeat(w, self.M, axis=1)),
                "precision": (p * column, column),
                "f1": (2 * p * column, column + p * decided),
            }[name]
        if name == "cohen_kappa":
            chance = decided * np.pad((P * w).sum(axis=0), (0, self.M - self.K))
            return hits - chance, decided - chance
        if name == "balanced_accuracy":
            return hits / np.pad((P * w).sum(axis=0), (0, self.M - self.K), constant_values=1) / self.K, decided
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


def verdict(seed):
    """Return what is wrong with the answer on a tiny population, "right" or a kind of its own; and passes, lack."""
    one = tiny(seed)
    program = Program(one)
    room, best = program.room(), program.best(one.metric)
    settings = {"confusion": "model", "randomized": True, "tol": TOL, "on_infeasible": "closest"}
    try:
        solution = confmax.maximize(one.metric, one.P, constraints=[wish.text for wish in one.limits], group=one.group,
                                    classes=range(one.P.shape[1]), abstain=one.abstain, **settings)  # fmt: skip
    except ValueError:
        return ("infeasible, refused" if room < -TOL else "wrongly refused"), 0, 0.0
    return ended(solution, room, best)


def verdict_on_equal(seed):
    """Return what `verdict` returns, of a population whose groups are equal or nearly; nothing is on the edge.

    The limits are measured at the decisions of the rule: they are kept if none is missed by more than 1e-9.
    """
    one = equal_tiny(seed)
    program = Program(one)
    best = program.best(one.metric)
    limits = [wish.text for wish in one.limits]
    settings = {"confusion": "model", "randomized": True, "tol": TOL, "on_infeasible": "closest"}
    settings |= {"group": one.group, "classes": range(one.P.shape[1])}
    solution = confmax.maximize(one.metric, one.P, constraints=limits, **settings)
    if best is None or solution.infeasibility is not None:
        right = best is None and solution.infeasibility is not None
        proved = solution.infeasibility is not None and "(proved)" in solution.infeasibility
        kind = "infeasible, proved" if proved else "infeasible, not proved"
        return (kind if right else "wrongly infeasible or not"), solution.n_passes, 0.0
    D = solution.rule.decision_probabilities(one.P, group=one.group)
    if (program.limits * D).sum(axis=(1, 2)).min() < -EXACT:
        return "limit missed", solution.n_passes, best - solution.value
    return ended(solution, 1.0, best)


# --- tables -----------------------------------------------------------------------------------------------------------


def recalls(P, group, D):
    """Return the recalls (G, K) of decision probabilities D (n, K) in every group, under probabilities (n, K)."""
    return np.array([(P * D)[group == g].sum(axis=0) / P[group == g].sum(axis=0) for g in np.unique(group)])


def differing(P, group):
    """Return the class whose recalls in the groups differ most without limits."""
    return int(np.ptp(recalls(P, group, np.eye(P.shape[1])[P.argmax(axis=1)]), axis=0).argmax())


def equal(P, *names):
    """Return limits on the differences of quantities of all classes."""
    return [f"difference({name}[{j}] | group) <= {NEAR}" for name in names for j in range(P.shape[1])]


def cases(P):
    """Yield the kind of problem, its objective and its limits, which bind, on probabilities P (n, K)."""
    group = drawn_groups(P)
    yield "equal opportunity", "accuracy", [f"difference(recall[{differing(P, group)}] | group) <= {NEAR}"]
    yield "equal recalls", "accuracy", equal(P, "recall")
    yield "equalised odds", "accuracy", equal(P, "recall", "fpr")
    least = 0.9 * min(free("min_recall", P[group == g]).value for g in np.unique(group))
    yield "K floors per group", "accuracy", [f"min(recall[{j}] | group) >= {least!r}" for j in range(P.shape[1])]


def levelled(folder):
    """Return a line for each table and limit: accuracy, a class's recall in both groups, and the share of rows drawn.

    The floor is what the smaller recall is under the difference, so the rule within the difference keeps it too.
    """
    lines = []
    for data in load(folder):
        if data.stem not in LEVELLED:
            continue
        P = data.P.astype(np.float64)
        P /= P.sum(axis=1, keepdims=True)
        group = drawn_groups(P)
        k, floor = differing(P, group), 0.0
        for kind in ("no limit", "difference", "floor", "equal recalls", "equalised odds"):
            limits = {
                "no limit": "max(rate[0] | group) <= 1",
                "difference": f"difference(recall[{k}] | group) <= {NEAR}",
                "floor": f"min(recall[{k}] | group) >= {floor!r}",
                "equal recalls": equal(P, "recall"),
                "equalised odds": equal(P, "recall", "fpr"),
            }[kind]
            found = confmax.maximize("accuracy", P, constraints=limits, group=group, classes=range(P.shape[1]),
                                     confusion="model", calibration=None, randomized=True)  # fmt: skip
            D = found.rule.decision_probabilities(P, group=group)
            both = recalls(P, group, D)[:, k]
            floor = float(both.min()) if kind == "difference" else floor
            drawn = (D.max(axis=1) < 1 - 1e-9).mean()
            lines.append([data.stem, kind, f"{found.value:.4f}", *(f"{one:.4f}" for one in both), f"{drawn:.1%}"])
    return lines


# --- the section ------------------------------------------------------------------------------------------------------


def of_equal(count=500):
    """Write the section of equal groups."""
    report(
        "groups: equal",
        f"`python -m benchmarks.groups`: {count} tiny populations with two to four groups against linear programs over "
        f"all rows. The values of the groups are equal, or differ by at most .001 or .02, and 44 % of the populations "
        f"have further limits. Limits are measured at the decisions of the rules: kept to 1e-9.",
        of_tiny(count, verdict_on_equal),
    )


def main(folder=None, count=2000):
    if folder is None:
        with warnings.catch_warnings():
            # that equal recalls level down
            warnings.filterwarnings("ignore", "equal recalls of several classes", UserWarning)
            of_equal()
        return
    with warnings.catch_warnings():
        # that equal recalls level down, which the floors beside them show
        warnings.filterwarnings("ignore", "equal recalls of several classes", UserWarning)
        number, kinds, each = of_tables(folder, cases, drawn_groups)
        lines = levelled(folder)
    report(
        "groups",
        f"`python -m benchmarks.groups FOLDER`: {count} tiny populations against linear programs over all rows, and "
        f"{number} tables with groups that are drawn from the score: passes until bound and value of the best "
        f"mixture lie within 1e-4 and 1e-6, median and most; on how many tables a single rule was returned, and how "
        f"much less it is worth: median over all tables (inf: most of them have a mixture) and most of those returned. "
        f"Equal recalls are those of all classes; equalised odds limit their false positive rates too.",
        of_tiny(int(count), verdict),
        kinds,
        "Passes to 1e-6 on every table.",
        each,
    )

    report(
        "groups: levelling down",
        "`python -m benchmarks.groups FOLDER`: the best accuracy within limits, the recalls in both groups of the "
        "class whose recalls differ most without limits, and the share of the rows that are drawn. The difference of "
        "these recalls is at most .02; the floor for both is what the smaller one is then; equal recalls are those of "
        "all classes, equalised odds limit their false positive rates too.",
        markdown(["table", "limit", "accuracy", "recall in a", "recall in b", "drawn"], lines, words=2),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
