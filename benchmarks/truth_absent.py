"""Counted sweeps over what must hold for every metric, estimate and kind of decisions.

``absent``: tables where no row has one class, or one label, though the model gives it a probability; in some it is the
first one, and in some the probability is zero. Counted are calls whose rule decides it for some row, and calls whose
bound lies below the value. A metric that a kind of decisions does not take is no case.

``weights``: the same rows with weights times powers of ten, from 1e-300 to 1e300. Counted are calls whose decisions
differ from those of the same digits near one, and from those of the weights before they were multiplied: a product with
a power of ten is rounded, and where a search ends may hang on the last digit of a sum.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np

import confmax
from benchmarks.harness import benchmark, markdown
from confmax.metrics import labels as label_metrics
from confmax.tables.decisions import decisions_of

N, K = 240, 4
LABELS = ("any", 2, ("at_most", 2))
ESTIMATES = ("labels", "blend")
OF_CLASSES = {
    "one": {},
    "one, within limits": {"constraints": ["recall[{0}] >= 0.2", "rate[{1}] <= 0.6"]},
    "one, abstaining": {"abstain": "none", "constraints": ["coverage >= 0.8"]},
    "one, by groups": {"constraints": ["min(rate[{0}] | group) >= 0.1"]},
}
METRICS_OF_LIMITS = ("accuracy", "macro_f1", "g_mean")  # for all but "one"


def classes(seed):
    """Return probabilities (n, K), classes of which one has no row, that one, and groups (n,)."""
    rng = np.random.default_rng(seed)
    absent = int(rng.integers(K))
    P = rng.dirichlet(rng.uniform(0.5, 3.0, K), N)
    P[:, absent] *= rng.choice([0.0, 0.01, 1.0])
    P /= P.sum(axis=1, keepdims=True)
    seen = np.delete(P, absent, axis=1) ** rng.uniform(0.5, 2.0)
    y = (np.cumsum(seen / seen.sum(axis=1, keepdims=True), axis=1) < rng.random((N, 1))).sum(axis=1)
    y = np.minimum(y, K - 2)
    return P, np.delete(np.arange(K), absent)[y], absent, rng.integers(2, size=N)


def labels(seed):
    """Return probabilities (n, L), labels of which one is in no row, and that one."""
    rng = np.random.default_rng(seed)
    absent = int(rng.integers(K))
    P = rng.beta(1, 3, (N, K))
    Y = (rng.random((N, K)) < P ** rng.uniform(0.5, 1.5)).astype(int)
    P[:, absent] *= rng.choice([0.0, 0.01, 1.0])
    Y[:, absent] = 0
    return P, Y, absent


def solved(*arguments, **settings):
    """Return a solution; None for a metric or limits that the decisions do not take."""
    try:
        return confmax.maximize(*arguments, **settings)
    except ValueError:
        return None


def of_classes(seed, estimates=ESTIMATES, metrics=None):
    """Yield kinds of decisions with the number of rows that are decided as the absent class, and the solution."""
    P, y, absent, group = classes(seed)
    names = np.delete(np.arange(K), absent)
    for (kind, settings), estimate in product(OF_CLASSES.items(), estimates):
        every = metrics or (confmax.metrics.names() if kind == "one" else METRICS_OF_LIMITS)
        settings = {**settings, "constraints": [text.format(*names) for text in settings.get("constraints", ())]}
        beside = {"group": group} if kind == "one, by groups" else {}
        for metric in every:
            given = {"classes": range(K), "confusion": estimate, **settings}
            solution = solved(metric, P, y, **given, **beside, on_infeasible="closest")
            if solution is not None:
                made = solution.rule.decision_probabilities(P, **beside)[:, absent]
                yield f"{kind}, {estimate}", int((made > 0.0).sum()), solution


def of_labels(seed, estimates=ESTIMATES, metrics=None):
    """Yield what `of_classes` does, of several labels per row."""
    P, Y, absent = labels(seed)
    for decisions, estimate in product(LABELS, estimates):
        for metric in metrics or label_metrics.names(decisions_of(decisions)):
            solution = solved(metric, P, Y, decisions=decisions, confusion=estimate)
            if solution is not None:
                yield f"{decisions}, {estimate}", int(solution.predict(P)[:, absent].sum()), solution


@benchmark("truth-absent", "SEEDS", section="truth: classes and labels that no row has")
def absent(seeds=3):
    """Count decisions for classes and labels that no row has."""
    calls, wrong, below = Counter(), Counter(), Counter()
    for seed in range(seeds):
        for kind, decided, solution in (*of_classes(seed), *of_labels(seed)):
            calls[kind] += 1
            wrong[kind] += decided > 0
            below[kind] += solution.gap is not None and solution.gap < 0.0
    table = [[kind, calls[kind], wrong[kind], below[kind]] for kind in calls]
    first = f"seeds 0 to {seeds - 1}: {sum(calls.values())} calls, {sum(wrong.values())} of them decide what no row has"
    return f"{first}.", markdown(["decisions, estimate", "calls", "decide it", "bound below the value"], table)


# --- weights ----------------------------------------------------------------------------------------------------------


def weighted(seed):
    """Return functions of weights (n,), by kind: the decisions of the rule that is tuned with them."""
    P, y, _, group = classes(seed)
    Q, Y, _ = labels(seed)
    found = {}
    for kind, settings in OF_CLASSES.items():
        names = [k for k in range(K) if (y == k).any()]
        settings = {**settings, "constraints": [text.format(*names) for text in settings.get("constraints", ())]}
        beside = {"group": group} if kind == "one, by groups" else {}

        def of_class(w, settings=settings, beside=beside):
            solution = confmax.maximize("macro_f1", P, y, sample_weight=w, classes=range(K), **settings, **beside)
            return solution.rule.decision_probabilities(P, **beside)

        found[kind] = of_class
    for decisions, metric in product(LABELS, ("macro_f1", "micro_f1")):

        def of_label(w, decisions=decisions, metric=metric):
            return confmax.maximize(metric, Q, Y, sample_weight=w, decisions=decisions).predict(Q)

        found[f"{decisions}, {metric}"] = of_label
    return found


@benchmark("truth-weights", "SEEDS STEP", section="truth: weights of any size")
def weights(seeds=1, step=50):
    """Count decisions that change with the size of the weights."""
    calls, digits, sizes = Counter(), Counter(), Counter()
    for seed in range(seeds):
        w = np.random.default_rng(seed).integers(1, 6, N).astype(float)
        for kind, decide in weighted(seed).items():
            plain = decide(w)
            for k in range(-300, 301, step):
                given = w * float(f"1e{k}")
                made = decide(given)
                near_one = np.ldexp(given, -int(np.frexp(given.max())[1]))
                calls[kind] += 1
                digits[kind] += not np.array_equal(made, decide(near_one))
                sizes[kind] += not np.array_equal(made, plain)
    table = [[kind, calls[kind], digits[kind], sizes[kind]] for kind in calls]
    first = f"seeds 0 to {seeds - 1}, powers -300 to 300 in steps of {step}: {sum(calls.values())} calls"
    counts = (
        f"{sum(digits.values())} differ from the same digits near one, {sum(sizes.values())} from the weights alone"
    )
    return f"{first}, {counts}.", markdown(["decisions", "calls", "same digits", "before"], table)
