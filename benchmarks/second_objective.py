"""What metric and limits leave open is decided for accuracy: against linear programs, and on real tables.

Tiny populations (model confusion, no calibration, mixtures): a linear program over the decisions of all rows finds the
largest value of the metric within the limits, and another one the largest accuracy among the rules of this value. The
metrics are linear, ratios and the smallest recall, some of them with groups or abstaining.
"""

from __future__ import annotations

import numpy as np

import confmax
from benchmarks.harness import benchmark, load, markdown, solve
from benchmarks.programs import TOL, Program, Tiny, Wish
from benchmarks.programs import solved as solved_on_model
from confmax.tables import apply_calibrator

LOST = 1e-5
METRICS = ("recall", "recall", "precision", "f1", "jaccard", "specificity", "accuracy", "min_recall", "cohen_kappa")
WHOLE = ("accuracy", "min_recall", "cohen_kappa")  # of all classes


def tiny(seed):
    """Return a population of 4 to 12 rows and 3 or 4 classes, some with round numbers, groups, or abstaining."""
    rng = np.random.default_rng([7, seed])
    n, K = int(rng.integers(4, 13)), int(rng.integers(3, 5))
    P = rng.dirichlet(np.full(K, rng.choice([0.4, 1.0, 3.0])), n)
    if rng.random() < 0.3:
        P = np.round(P * 4) + 0.25
        P /= P.sum(axis=1, keepdims=True)
    weight = rng.integers(1, 4, n).astype(float) if rng.random() < 0.5 else np.ones(n)
    grouped, abstains = seed % 4 == 2, seed % 4 == 3
    metric, limits = drawn(rng, K, grouped, abstains)
    return Tiny(P, np.arange(n) % 2, metric, limits, abstains, weight=weight / weight.sum())


def drawn(rng, K, grouped, abstains):
    """Return a metric and limits drawn at random."""
    metrics = [m for m in METRICS if not (abstains and m in ("min_recall", "cohen_kappa"))]
    name, k = str(rng.choice(metrics)), int(rng.integers(K))
    metric = name if name in WHOLE else f"{name}[{k}]"
    limits = [Wish("coverage", "all", ">=", float(rng.choice([0.5, 0.75, 0.9])))] if abstains else []
    for _ in range(int(rng.integers(1 if grouped or abstains else 0, 3))):
        over = str(rng.choice(["each", "difference"])) if grouped else "all"
        choices = ["rate"] if over == "difference" else ["rate", "recall", "precision", "fpr"]
        limited, j = str(rng.choice(choices)), int(rng.integers(K))
        ceilings = [0.02, 0.1, 0.3] if over == "difference" else [0.1, 0.2, 0.35]
        is_ceiling = limited in ("rate", "fpr")
        limit = float(rng.choice(ceilings if is_ceiling else [0.2, 0.4, 0.6]))
        over = ("max" if is_ceiling else "min") if over == "each" else over
        limits.append(Wish(f"{limited}[{j}]", over, "<=" if is_ceiling else ">=", limit))
    if name == "specificity":
        # a rule that never decides the class is no answer to a question about it
        limits = [one for one in limits if one.name != f"precision[{k}]"]
    if any(one.name == metric and one.sense == ">=" for one in limits):
        limits = [one for one in limits if one.name != metric]
    return metric, limits


def solved(one):
    """Return the solution of a population, its decision probabilities (n, M), and its accuracy over all rows."""
    solution = solved_on_model(one, on_infeasible="raise")
    grouped = {"group": one.group} if solution.rule.groups else {}
    chances = solution.rule.decision_probabilities(one.P, **grouped)
    return solution, chances, float((one.weight[:, None] * one.P * chances[:, : one.P.shape[1]]).sum())


def on_tiny(seed):
    """Return by how much `maximize` is below both programs on a population, and its passes.

    None stands for a population that no rule solves.
    """
    one = tiny(seed)
    program = Program(one)
    value = program.best(one.metric)
    if value is None:
        return None
    try:
        solution, chances, accuracy = solved(one)
    except confmax.Infeasible as error:
        # a question about one class is not answered by a rule that never decides it, which the program takes
        never = value <= TOL or str(error).startswith("no threshold on")
        return None if never else (np.inf, np.inf, 0)
    if one.metric.startswith("precision") or (one.abstain and one.metric != "accuracy"):
        best = program.best_accuracy(one.metric, solution.value, chances)
    else:
        best = program.best_accuracy(one.metric, value)
    return value - solution.value, best - accuracy, solution.n_passes


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
    order = [k for k in np.argsort(data.sizes).tolist() if data.sizes[k] >= 10]
    return sorted({order[0], order[len(order) // 2], order[-1]})


def lost(data, question, c, d, **settings):
    """Return how much accuracy on the estimate a rule loses by what it decides beside the class; None if infeasible."""
    metric, limits = QUESTIONS[question]
    P, given = data.proba, [limit.format(c=c, d=d) for limit in limits]
    try:
        solution = solve(metric.format(c=c), P, data.y, classes=data.classes, constraints=given, **settings)
    except confmax.Infeasible:
        return None
    p = np.asarray(apply_calibrator(solution.rule.calibrator, P))
    truth = solution.model_share * p + (1.0 - solution.model_share) * np.eye(data.K)[data.y]
    chances = solution.rule.decision_probabilities(P)
    others = np.where(np.arange(data.K) == c, -1.0, p).argmax(axis=1)
    plain = (1.0 - chances[:, [c]]) * np.eye(data.K)[others]
    plain[:, c] = chances[:, c]
    C = truth.T @ plain / len(P)
    # that rule may miss a limit on another class
    if "rate[{d}] <= 0.1" in limits and C[:, d].sum() > 0.1:
        return None
    if "recall[{d}] >= 0.5" in limits and C[d, d] / C[d].sum() < 0.5:
        return None
    return float(((plain - chances) * truth).sum(axis=1).mean())


def of_populations(count):
    """Return rows of text, one for each kind of population."""
    ends = [(seed % 4, *end) for seed in range(count) if (end := on_tiny(seed)) is not None]
    rows = []
    for name, kinds in (("all rows", (0, 1)), ("groups", (2,)), ("abstaining", (3,)), ("together", range(4))):
        mine = np.array([end[1:] for end in ends if end[0] in kinds], dtype=float).reshape(-1, 3)
        below = [(mine[:, 0] > TOL).sum(), (mine[:, 1] > LOST).sum()]
        most = [f"{x:.1e}" for x in mine[:, :2].max(axis=0, initial=-np.inf)]
        rows.append([name, len(mine), *below, *most, f"{mine[:, 2].mean():.1f}"])
    return rows


def of_tables(tables):
    """Return rows of text, one for each question."""
    rows = []
    for question, (metric, limits) in QUESTIONS.items():
        losses = []
        for data in tables:
            some = classes_of(data)
            pairs = zip(some, some[1:] + some[:1], strict=True)
            losses += [loss for c, d in pairs if (loss := lost(data, question, c, d)) is not None]
        loss, text = np.array(losses), ", ".join([metric, *limits]).format(c="c", d="d")
        rows.append([question, text, len(loss), (loss > 0.005).sum(), f"{loss.max():.4f}", f"{loss.mean():.4f}"])
    return rows


@benchmark("second-objective", "FOLDER [POPULATIONS]", "second objective")
def main(folder, count=2000):
    """Compare the accuracy of what metric and limits leave open with programs, and with argmax of the other classes."""
    tables = load(folder, least=3)
    head = ["", "populations", "value below", "accuracy below", "value, most", "accuracy, most", "passes"]
    return [
        f"{count} tiny populations, each by its seed: one of {len(set(METRICS))} metrics and up to two limits are "
        f"drawn, and a floor on the coverage where a rule may abstain. How many solutions are below the program's "
        f"value by more than {TOL:g}, or below its accuracy by more than {LOST:g}, the most of both, and passes. "
        f"Populations without a rule that keeps the limits are left out.",
        markdown(head, of_populations(count)),
        f"{len(tables)} tables of three classes and more, defaults, three classes c of each (the rarest of ten rows or "
        f"more, the largest and one between; d is the next of them): accuracy that is lost on the estimate against the "
        f"same decisions of c with all other rows decided as the most probable other class. Problems where this rule "
        f"misses a limit on d are left out.",
        markdown(["question", "problem", "solved", "above .005", "most", "mean"], of_tables(tables), 2),
    ]
