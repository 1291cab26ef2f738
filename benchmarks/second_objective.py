"""What metric and limits leave open is decided for accuracy: against linear programs, and on real tables.

    python -m benchmarks second-objective FOLDER_OF_NPZ [N_POPULATIONS]

Tiny populations (model confusion, no calibration, mixtures): a linear program over the decisions of all rows finds the
largest value of the metric within the limits, and another one the largest accuracy among the rules of this value. The
table counts the populations in which `maximize` is below the first by more than ``tol``, or below the second by more
than 1e-5. The metrics are linear, ratios and the smallest recall, some of them with groups or abstaining.

Real tables of three classes and more (defaults): how much accuracy on the estimate is lost against the rule that makes
the same decisions of the class, and decides all other rows as the most probable other class.

The figures are written to the section "second objective" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

import confmax
from benchmarks.harness import benchmark, load, markdown
from confmax.tables import apply_calibrator

TOL, LOST = 1e-6, 1e-5
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


# --- tiny populations -------------------------------------------------------------------------------------------------


class Tiny(NamedTuple):
    """A population: probabilities (n, K), weights (n,) that sum to one, groups (n,), and whether a rule may abstain."""

    P: np.ndarray
    weight: np.ndarray
    group: np.ndarray | None
    abstains: bool

    @property
    def cells(self):
        """The confusion (n, K, M) of each decision of each row."""
        n, K = self.P.shape
        M = K + self.abstains
        return np.repeat((self.P * self.weight[:, None])[:, :, None], M, axis=2), n, K, M


def tiny(seed):
    """Return a population of 4 to 12 rows and 3 or 4 classes, some with round numbers, groups, or abstaining."""
    rng = np.random.default_rng([7, seed])
    n, K = int(rng.integers(4, 13)), int(rng.integers(3, 5))
    P = rng.dirichlet(np.full(K, rng.choice([0.4, 1.0, 3.0])), n)
    if rng.random() < 0.3:
        P = np.round(P * 4) + 0.25
        P /= P.sum(axis=1, keepdims=True)
    weight = rng.integers(1, 4, n).astype(float) if rng.random() < 0.5 else np.ones(n)
    kind = seed % 4
    group = np.arange(n) % 2 if kind == 2 else None
    return Tiny(P, weight / weight.sum(), group, kind == 3), rng


def parts(name, k, C, decided):
    """Return numerator and denominator (n, K, M) of a quantity as sums over the cells ``C`` (n, K, M)."""
    K, M = C.shape[1:]
    seen = np.zeros((K, M))
    seen[:, : K if decided else M] = 1.0
    hit, row, column = np.zeros((3, K, M))
    if k is not None:
        hit[k, k], row[k], column[:, k] = 1.0, seen[k], 1.0
    right = np.eye(K, M)
    whole = np.ones((K, M))
    top, bottom = {
        "recall": lambda: (hit, row),
        "precision": lambda: (hit, column),
        "rate": lambda: (column, whole),
        "fpr": lambda: (column - hit, seen - row),
        "specificity": lambda: (seen - row - column + hit, seen - row),
        "f1": lambda: (2 * hit, row + column),
        "jaccard": lambda: (hit, row + column - hit),
        "accuracy": lambda: (right, seen),
        "coverage": lambda: (np.eye(1, M, M)[0] + (np.arange(M) < K) * np.ones((K, 1)), whole),
    }[name]()
    return C * top, C * bottom


def kappa_parts(C):
    """Return numerator and denominator of Cohen's kappa at the class sizes of the population."""
    sizes = C.sum(axis=0)[:, 0]
    expected = np.repeat(sizes[None, :], len(sizes), axis=0)
    return C * (np.eye(len(sizes)) - expected), C * (1.0 - expected)


class Program:
    """The decisions (n, M) of all rows that keep limits, as a linear program."""

    def __init__(self, population):
        self.population = population
        self.C, self.n, self.K, self.M = population.cells
        self.above = []  # each: coefficients (n M,) that must not sum to less than zero

    def limit(self, name, k, sense, limit, over=None):
        """Add a limit on a quantity, of all rows, or of every group, or on the difference of two groups."""
        group = self.population.group
        inside = [np.ones(self.n)] if over is None else [(group == g).astype(float) for g in np.unique(group)]
        both = [parts(name, k, self.C * part[:, None, None], self.population.abstains) for part in inside]
        sign = 1.0 if sense == ">=" else -1.0
        if over != "difference":
            self.above += [self.flat(sign * (top - limit * bottom)) for top, bottom in both]
            return
        # denominators are those of the population, whatever is decided
        scaled = [self.flat(top) / self.flat(bottom).reshape(self.n, -1)[:, 0].sum() for top, bottom in both]
        room = limit * np.repeat(self.population.weight, self.M)
        self.above += [room - (scaled[0] - scaled[1]), room - (scaled[1] - scaled[0])]

    def flat(self, cells):
        """Return what each decision of each row adds (n M,)."""
        return cells.sum(axis=1).reshape(-1)

    def best(self, objective, more=()):
        """Return the largest sum of an ``objective`` (n M,) and the decisions (n M,); None if no rule keeps all."""
        above = np.array([*self.above, *more]).reshape(-1, self.n * self.M)
        found = linprog(
            -objective, A_ub=-above if len(above) else None, b_ub=np.full(len(above), 1e-12) if len(above) else None,
            A_eq=np.kron(np.eye(self.n), np.ones(self.M)), b_eq=np.ones(self.n), bounds=(0, 1), options=EXACT,
        )  # fmt: skip
        return None if found.x is None else (-found.fun, found.x)

    def best_ratio(self, top, bottom):
        """Return the largest ratio of two sums, by Dinkelbach's method."""
        level = 0.0
        for _ in range(60):
            found = self.best(top - level * bottom)
            if found is None:
                return None
            below = found[1] @ bottom
            if below <= 1e-12 or found[0] <= 1e-13:
                return level
            level = (found[1] @ top) / below
        return level

    def best_minimum(self):
        """Return the largest smallest recall: of a linear program with one variable more."""
        recalls = []
        for k in range(self.K):
            top, bottom = (self.flat(part) for part in parts("recall", k, self.C, False))
            recalls.append(top / bottom.reshape(self.n, -1)[:, 0].sum())
        above = np.array(self.above).reshape(-1, self.n * self.M)
        system = np.vstack([
            np.hstack([-np.array(recalls), np.ones((self.K, 1))]), np.hstack([-above, np.zeros((len(above), 1))])
        ])  # fmt: skip
        found = linprog(
            np.append(np.zeros(self.n * self.M), -1.0), A_ub=system, b_ub=np.full(len(system), 1e-12),
            A_eq=np.hstack([np.kron(np.eye(self.n), np.ones(self.M)), np.zeros((self.n, 1))]), b_eq=np.ones(self.n),
            bounds=[(0, 1)] * (self.n * self.M + 1), options=EXACT,
        )  # fmt: skip
        return None if found.x is None else (-found.fun, recalls)

    def right(self):
        """Return what each decision adds to the accuracy of all rows (n M,)."""
        return self.flat(self.C * np.eye(self.K, self.M))


METRICS = ("recall", "recall", "precision", "f1", "jaccard", "specificity", "accuracy", "min_recall", "cohen_kappa")


def drawn(population, rng):
    """Return a metric, as a name and a class, and limits (name, class, sense, number, over) drawn at random."""
    K = population.P.shape[1]
    metrics = [m for m in METRICS if not (population.abstains and m in ("min_recall", "cohen_kappa"))]
    metric, k = str(rng.choice(metrics)), int(rng.integers(K))
    limits = []
    if population.abstains:
        limits.append(("coverage", None, ">=", float(rng.choice([0.5, 0.75, 0.9])), None))
    for _ in range(int(rng.integers(0 if population.group is None and not population.abstains else 1, 3))):
        over = None if population.group is None else str(rng.choice(["each", "difference"]))
        choices = ["rate"] if over == "difference" else ["rate", "recall", "precision", "fpr"]
        name, j = str(rng.choice(choices)), int(rng.integers(K))
        if over == "difference":
            limits.append((name, j, "<=", float(rng.choice([0.02, 0.1, 0.3])), over))
        elif name in ("rate", "fpr"):
            limits.append((name, j, "<=", float(rng.choice([0.1, 0.2, 0.35])), over))
        else:
            limits.append((name, j, ">=", float(rng.choice([0.2, 0.4, 0.6])), over))
    if metric == "specificity":
        # a rule that never decides the class is no answer to a question about it
        limits = [one for one in limits if one[:2] != ("precision", k)]
    if (metric, k, ">=") in [one[:3] for one in limits]:
        limits = [one for one in limits if one[:2] != (metric, k)]
    return metric, k, limits


def text(name, k, sense, number, over):
    """Return a limit as `confmax.constraints` reads it."""
    quantity = name if k is None else f"{name}[{k}]"
    if over == "each":
        quantity = f"{'min' if sense == '>=' else 'max'}({quantity} | group)"
    if over == "difference":
        quantity = f"difference({quantity} | group)"
    return f"{quantity} {sense} {number}"


def programs(population, metric, k, limits, found=None):
    """Return the best value, and the largest accuracy of the rules that reach it; None if no rule keeps the limits.

    A precision may be one of sums that are both as small as one likes. So where a metric may be 0/0, the rules are
    those that are as good as the rule ``found``, a value and decision probabilities (n, M), and that have no smaller
    denominator.
    """
    program = Program(population)
    for one in limits:
        program.limit(*one)
    if metric == "min_recall":
        found = program.best_minimum()
        if found is None:
            return None
        value, recalls = found
        # the program's last digits
        floors = [recall - (value - 1e-11) * np.repeat(population.weight, program.M) for recall in recalls]
    else:
        C = program.C
        both = kappa_parts(C) if metric == "cohen_kappa" else parts(metric, k, C, population.abstains)
        top, bottom = (program.flat(part) for part in both)
        value = program.best_ratio(top, bottom)
        if value is None:
            return None
        floors = [top - (value - 1e-11) * bottom]
        if found is not None and (metric == "precision" or (population.abstains and metric != "accuracy")):
            below = float(bottom @ found[1].reshape(-1))
            floors = [
                top - (found[0] - 1e-11) * bottom,
                bottom - (below - 1e-11) * np.repeat(population.weight, program.M),
            ]
    best = program.best(program.right(), floors)
    return None if best is None else (value, best[0])


def solved(population, metric, k, limits, **settings):
    """Return the solution of `maximize`, and its accuracy over all rows."""
    K = population.P.shape[1]
    name = metric if metric in ("accuracy", "min_recall", "cohen_kappa") else f"{metric}[{k}]"
    texts = [text(*one) for one in limits]
    if population.group is not None and not any(one[4] for one in limits):
        population = population._replace(group=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = confmax.maximize(
            name, population.P, sample_weight=population.weight, constraints=texts, group=population.group,
            abstain=population.abstains, confusion="model", calibration=None, randomized=True, tol=TOL, **settings,
        )  # fmt: skip
    groups = {} if population.group is None else {"group": population.group}
    chances = found.rule.decision_probabilities(population.P, **groups)
    return found, chances, float((population.weight[:, None] * population.P * chances[:, :K]).sum())


def on_tiny(seed):
    """Return by how much `maximize` is below both programs on a population; None if no rule keeps the limits."""
    population, rng = tiny(seed)
    metric, k, limits = drawn(population, rng)
    best = programs(population, metric, k, limits)
    if best is None:
        return None
    try:
        found, chances, accuracy = solved(population, metric, k, limits)
    except confmax.Infeasible as error:
        # a question about one class is not answered by a rule that never decides it, which the program takes
        never = best[0] <= TOL or str(error).startswith("no threshold on")
        return None if never else (metric, np.inf, np.inf, 0)
    best = programs(population, metric, k, limits, (found.value, chances))[1], best[0]
    best = best[::-1]
    return metric, best[0] - found.value, best[1] - accuracy, found.n_passes


# --- real tables ------------------------------------------------------------------------------------------------------


QUESTIONS = {
    "recall, precision floor": ("recall[{c}]", ["precision[{c}] >= 0.7"]),
    "recall, rate ceiling": ("recall[{c}]", ["rate[{c}] <= 0.1"]),
    "recall, rate ceiling of another": ("recall[{c}]", ["precision[{c}] >= 0.5", "rate[{d}] <= 0.1"]),
    "precision, recall floor": ("precision[{c}]", ["recall[{c}] >= 0.3"]),
    "F1": ("f1[{c}]", []),
    "F1, rate ceiling": ("f1[{c}]", ["rate[{c}] <= 0.1"]),
    "F1, recall floor of another": ("f1[{c}]", ["recall[{d}] >= 0.5"]),
    "accuracy, recall floor": ("accuracy", ["recall[{c}] >= 0.7"]),
}


def classes_of(data):
    """Return three classes of a table: the rarest of at least ten rows, the largest, and one between."""
    sizes = np.bincount(data.y, minlength=data.K)
    order = [k for k in np.argsort(sizes).tolist() if sizes[k] >= 10]
    return sorted({order[0], order[len(order) // 2], order[-1]})


def lost(data, question, c, d, **settings):
    """Return how much accuracy on the estimate a rule loses by what it decides beside the class; None if infeasible."""
    metric, limits = QUESTIONS[question]
    P = data.P.astype(np.float64)
    P /= P.sum(axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = confmax.maximize(
                metric.format(c=c), P, data.y, classes=range(data.K), **settings,
                constraints=[limit.format(c=c, d=d) for limit in limits],
            )  # fmt: skip
        except confmax.Infeasible:
            return None
    p = np.asarray(apply_calibrator(found.rule.calibrator, P))
    truth = found.model_share * p + (1.0 - found.model_share) * np.eye(data.K)[data.y]
    chances = found.rule.decision_probabilities(P)
    others = np.where(np.arange(data.K) == c, -1.0, p).argmax(axis=1)
    plain = (1.0 - chances[:, [c]]) * np.eye(data.K)[others]
    plain[:, c] = chances[:, c]
    C = truth.T @ plain / len(P)
    recall, rate = C[d, d] / C[d].sum(), C[:, d].sum()
    if any(
        (one.startswith("rate[{d}]") and rate > 0.1) or (one.startswith("recall[{d}]") and recall < 0.5)
        for one in limits
    ):
        # that rule does not keep a limit on another class
        return None
    return float(((plain - chances) * truth).sum(axis=1).mean()), found.value, found.n_passes


# --- the section ------------------------------------------------------------------------------------------------------


def of_populations(count):
    """Return rows of text, one for each kind of population."""
    found = [(seed % 4, *each) for seed in range(count) if (each := on_tiny(seed)) is not None]
    rows = []
    for name, kinds in (("all rows", (0, 1)), ("groups", (2,)), ("abstaining", (3,)), ("together", range(4))):
        mine = np.array([each[2:] for each in found if each[0] in kinds], dtype=float)
        below = [(mine[:, 0] > TOL).sum(), (mine[:, 1] > LOST).sum()]
        most = [f"{x:.1e}" for x in mine[:, :2].max(axis=0)]
        rows.append([name, len(mine), *below, *most, f"{mine[:, 2].mean():.1f}"])
    return rows


def of_tables(tables):
    """Return rows of text, one for each question."""
    rows = []
    for question, (metric, limits) in QUESTIONS.items():
        found = []
        for data in tables:
            some = classes_of(data)
            for i, c in enumerate(some):
                each = lost(data, question, c, some[(i + 1) % len(some)])
                if each is not None:
                    found.append(each[0])
        text = ", ".join([metric, *limits]).format(c="c", d="d")
        loss = np.array(found)
        rows.append([question, text, len(loss), (loss > 0.005).sum(), f"{loss.max():.4f}", f"{loss.mean():.4f}"])
    return rows


@benchmark("second-objective", "FOLDER", "second objective")
def main(folder, count=2000):
    tables = load(folder, least=3)
    return [
        f"{count} tiny populations, each by its seed: one of "
        f"{len(set(METRICS))} metrics and up to two limits are drawn, and a floor on the coverage where a rule may "
        f"abstain. How many solutions are below the program's value by more than {TOL:g}, or below its accuracy by "
        f"more than {LOST:g}, the most of both, and passes. Populations without a rule that keeps the limits are left "
        f"out.",
        markdown(["", "populations", "value below", "accuracy below", "value, most", "accuracy, most", "passes"],
                 of_populations(int(count))),
        f"{len(tables)} tables of three classes and more, defaults, three classes c of each (the rarest of ten rows or "
        "more, the largest and one between; d is the next of them): accuracy that is lost on the estimate against the "
        "same decisions of c with all other rows decided as the most probable other class. Problems where this rule "
        "misses a limit on d are left out.",
        markdown(["question", "problem", "solved", "above .005", "most", "mean"], of_tables(tables), 2),
    ]  # fmt: skip
