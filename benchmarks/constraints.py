"""Limits on rules: against row-level programs on tiny populations, and on tables.

Tiny populations have 5 to 40 rows, 2 to 4 classes, rows that repeat and zeros, and 1 to 3 random limits. On the tables,
limits are set to bind: floors at .9 of the best common recall, rates at most 1.2 of the class shares, the recall of the
rarest class halfway from its value without limits to one, the accuracy halfway between that of the best smallest recall
and the best, means of the recalls halfway between theirs without limits and their best.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

import confmax
from benchmarks.frontier import pass_of
from benchmarks.harness import MODEL, benchmark, counts, keep, load, markdown, over_present, paired, shortest, solve
from benchmarks.harness import value as value_of
from benchmarks.programs import TOL, Tiny, Wish, judged, of_tiny, random_table
from confmax import constraints as c
from confmax.calibration import choose
from confmax.oracle import make_table

OBJECTIVES = ("accuracy", "balanced_accuracy", "cohen_kappa", "min_recall", "f1[0]")
MIXED = MODEL | {"randomized": True}
BUDGET = 60


def tiny(seed):
    """Return a population."""
    rng = np.random.default_rng(seed)
    P = random_table(rng, seed)
    metric = str(rng.choice(OBJECTIVES))
    limits = [random_limit(rng, P.mean(axis=0)) for _ in range(int(rng.integers(1, 4)))]
    return Tiny(P, np.zeros(len(P), dtype=int), metric, limits)


def random_limit(rng, shares):
    """Return a limit of a random kind."""
    k, u = int(rng.integers(len(shares))), float(rng.random())
    share = float(shares[k])
    name, sense, limit = (
        (f"recall[{k}]", ">=", u),
        (f"rate[{k}]", "<=", min(1.0, 2 * u * share)),
        (f"rate[{k}]", ">=", u * share),
        (f"precision[{k}]", ">=", u),
        (f"f1[{k}]", ">=", 0.8 * u),
        ("accuracy", ">=", u),
        ("cohen_kappa", ">=", 0.8 * u),
        (f"specificity[{k}]", ">=", u),
        (f"fpr[{k}]", "<=", 0.5 * u),
        ("min_recall", ">=", 0.6 * u),
        ("balanced_accuracy", ">=", u),
    )[int(rng.integers(11))]
    return Wish(name, "all", sense, limit)


def verdict(seed):
    """Return how the answer on a tiny population ended, passes, and the lack of value."""
    return judged(tiny(seed))


def free(metric, P):
    """Return the best mixture without limits."""
    return confmax.maximize(metric, P, **MIXED)


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
    for objective, mean in (("accuracy", "g_mean"), ("cohen_kappa", "h_mean"), ("accuracy", "q_mean")):
        values = [float(confmax.metrics.get(mean).values(free(one, P).statistics)) for one in (objective, mean)]
        yield f"{objective}, {mean}", objective, [c.at_least(mean, sum(values) / 2)]
    f1 = free(f"f1[{rare}]", P).statistics
    precision = f1.diagonal[rare] / f1.columns[rare] if f1.columns[rare] else 0.5
    yield "F1, precision", f"f1[{rare}]", [c.precision(rare) >= precision + 0.5 * (1.0 - precision)]
    S, large = free("macro_f1", P).statistics, int(np.argmax(shares))
    recall, precision = S.diagonal[rare] / shares[rare], S.diagonal[large] / max(S.columns[large], 1e-300)
    both = [c.recall(rare) >= recall + 0.5 * (1 - recall), c.precision(large) >= precision + 0.3 * (1 - precision)]
    yield "macro F1, recall and precision", "macro_f1", both


def closing(history, tol):
    """Return the passes after which bound and value lie within ``tol``."""
    near = [step.n_passes for step in history if step.upper_bound is not None and step.upper_bound - step.value <= tol]
    return near[0] if near else BUDGET


def outcome(P, metric, given, group=None):
    """Return passes to 1e-4 and 1e-6, the gap, the loss of the single rule, and whether the limits are kept.

    None stands for limits that no rule keeps: a class with next to no probability must be decided, which the floor of
    another rule does not do.
    """
    settings = {"constraints": given, "classes": range(P.shape[1]), "group": group, **MODEL}
    try:
        mixed = solve(metric, P, randomized=True, max_passes=BUDGET, **settings)
        single = solve(metric, P, randomized="auto", **settings)
    except confmax.Infeasible:
        return None
    kept = min(one.slack for one in single.constraints) >= 0.0 and mixed.feasible
    loss = np.inf if single.rule.is_randomized else mixed.value - single.value
    return closing(mixed.history, 1e-4), closing(mixed.history, TOL), mixed.gap, loss, kept


def of_tables(section, folder, problems=cases, groups=None):
    """Return the number of tables and a table of passes and losses by kind of problem.

    ``problems`` yields the problems of a table of probabilities, and ``groups``, if there are some, returns its groups.
    """
    runs, every = defaultdict(list), []
    for data in load(folder):
        P = data.proba
        for kind, metric, given in problems(P):
            ended = outcome(P, metric, given, None if groups is None else groups(P))
            if ended is not None:
                runs[kind].append((len(P), *ended))
                every.append([data.stem, kind, len(P), *ended])
    head = ["passes to 1e-4", "to 1e-6", "gap, most"]
    keep(section, ["table", "problem", "rows", *head, "loss of the single rule", "kept"], every, 2)
    lines = []
    for kind, some in runs.items():
        n, near, closed, gap, loss, kept = (np.array(part) for part in zip(*some, strict=True))
        texts = [
            f"{np.median(near):.1f} / {near.max()}",
            f"{np.median(closed):.1f} / {closed.max()}",
            f"{gap.max():.0e}",
        ]
        for part in (n >= 1000, n < 1000):
            single = np.isfinite(loss[part])
            most = f"{np.median(loss[part]):.0e} / {loss[part][single].max():.0e}" if single.any() else "inf"
            texts += [f"{single.sum()} of {part.sum()}", most]
        lines.append([kind, *texts, "yes" if kept.all() else "no"])
    single = ["n >= 1000: single", "loss", "n < 1000: single", "loss"]
    return len({row[0] for row in every}), markdown(["problem", *head, *single, "kept"], lines)


@benchmark("constraints", "FOLDER [POPULATIONS]")
def constraints(folder, count=2000):
    """Compare limits with programs, and count passes."""
    number, kinds = of_tables("constraints", folder)
    return [
        f"tiny populations against linear programs over all rows, and {number} tables: passes until bound and value of "
        f"the best mixture lie within 1e-4 and 1e-6, median and most; on how many tables a single rule was returned, "
        f"and how much less it is worth: median over all tables (inf: most of them have a mixture) and most of those "
        f"returned. Problems that no rule solves are left out: one class that must be decided, and is rare.",
        of_tiny([("any limits", count, verdict)]),
        kinds,
    ]


LARGE = ((200_000, 20), (1_000_000, 10))
DEFAULT = "kr_vs_k__hgb"


def large_cases(P):
    """Yield the problems of a large table, whose limits bind."""
    shares = P.mean(axis=0)
    smallest, kappa = free("min_recall", P).value, free("cohen_kappa", P).statistics
    rare = int(np.argmin(shares))
    recall = kappa.diagonal[rare] / shares[rare]
    yield "accuracy, K floors", "accuracy", [c.recall(k) >= 0.9 * smallest for k in range(len(shares))]
    yield "G-mean, K rates", "g_mean", [c.rate(k) <= min(1.0, 1.2 * float(shares[k])) for k in range(len(shares))]
    yield "kappa, recall", "cohen_kappa", [c.recall(rare) >= recall + 0.5 * (1.0 - recall)]


def default_cases(data):
    """Yield problems of the default call, with further settings; limits follow from what argmax decides."""
    shares, decided = data.sizes / len(data.y), data.P.argmax(axis=1)
    rare, large = int(np.argmin(shares)), int(np.bincount(decided).argmax())
    recall, accuracy = np.mean(decided[data.y == rare] == rare), np.mean(decided == data.y)
    even = solve("min_recall", data.P, data.y, classes=data.classes).predict(data.P)
    yield "accuracy, recall", "accuracy", [c.recall(rare) >= recall + 0.5 * (1.0 - recall)], {}
    yield "G-mean, K rates", "g_mean", [c.rate(k) <= min(1.0, 1.2 * shares[k]) for k in data.classes], {}
    yield "macro F1, rate", "macro_f1", [c.rate(large) <= 0.9 * np.mean(decided == large)], {}
    yield "min recall, accuracy", "min_recall", [c.accuracy() >= (accuracy + np.mean(even == data.y)) / 2], {}
    some = np.flatnonzero(data.sizes >= 150)[:2]
    floors = [c.recall(int(k)) >= np.mean(decided[data.y == k] == k) + 0.05 for k in some]
    for metric in ("accuracy", "macro_f1"):
        yield f"{metric}, two recalls, confidence .9", metric, floors, {"confidence": 0.9, "on_infeasible": "closest"}


@benchmark("limit-speed", "FOLDER", "constraints: speed")
def limit_speed(folder):
    """Time searches within limits, on large tables beside a NumPy pass and on a real one by default."""
    large = []
    for n, K in LARGE:
        rng = np.random.default_rng(0)
        P = rng.dirichlet(np.linspace(1.0, 0.15, K), n).astype(np.float32)
        P /= P.sum(axis=1, keepdims=True)
        unit = pass_of(P)
        for kind, metric, given in large_cases(P):
            seconds, found = shortest(lambda P=P, m=metric, g=given: solve(m, P, constraints=g, **MIXED))
            large.append([f"{n} x {K}", kind, f"{seconds / unit:.1f}", found.n_passes, f"{found.gap:.0e}"])
    data = next(one for one in load(folder) if one.stem == DEFAULT)
    chosen = choose(make_table(data.P, data.y))
    rows = []
    for kind, metric, given, more in default_cases(data):
        settings = {"constraints": given, "classes": data.classes, "calibration": chosen, **more}
        seconds, found = shortest(lambda m=metric, s=settings: solve(m, data.P, data.y, **s))
        drawn = "yes" if found.rule.is_randomized else "no"
        rows.append([kind, f"{seconds:.2f}", found.n_passes, f"{found.value:.6f}", drawn])
    return [
        "on the model, on drawn tables: seconds over those of a NumPy pass that decides and counts, passes, and gap.",
        markdown(["table", "problem", "NumPy passes", "passes", "gap"], large, 2),
        f"By default on {DEFAULT}, {len(data.y)} x {data.K}, calibrated before: seconds, the least of three calls.",
        markdown(["problem", "seconds", "passes", "value", "draws"], rows),
    ]


MODES = ("model", "blend", "labels", "blend, raw")
LEAST_ROWS, HARDER = 20, 0.4  # rows of a class, and how far a floor lies from what argmax does to one


def label_problems(data):
    """Yield kind, objective and limit of the problems of a table, from what argmax and p / prior do on its labels."""
    sizes = data.sizes
    present = np.flatnonzero(sizes)
    rare = int(min((k for k in present if sizes[k] >= LEAST_ROWS), key=lambda k: sizes[k]))
    plain = counts(data.y, np.eye(data.K)[data.P.argmax(axis=1)])
    even = counts(data.y, np.eye(data.K)[(data.P / np.maximum(sizes, 1)).argmax(axis=1)])
    recall = plain[rare, rare] / sizes[rare]
    precision = plain[rare, rare] / max(plain[:, rare].sum(), 1)
    yield "accuracy, a recall", "accuracy", c.recall(rare) >= recall + HARDER * (1 - recall)
    yield "F1, its precision", f"f1[{rare}]", c.precision(rare) >= precision + HARDER * (1 - precision)
    yield "kappa, a rate", "cohen_kappa", c.rate(rare) <= 1.2 * sizes[rare] / len(data.y)
    smallest = (np.diag(even)[present] / sizes[present]).min()
    if len(present) == data.K and smallest > 0.05:
        yield "accuracy, all recalls", "accuracy", c.min_recall() >= 0.8 * smallest


def on_other_rows(data, metric, limit, mode):
    """Return the value on the other rows, and by how much the limit is missed there."""
    estimate, _, raw = mode.partition(", ")
    settings = {"confusion": estimate, "calibration": None if raw else "auto", "on_infeasible": "closest"}
    solution = solve(metric, data.P, data.y, classes=data.classes, constraints=limit, **settings)
    D = solution.rule.decision_probabilities(data.Q)
    C = counts(data.z, D) / len(data.z)
    placed = limit.metric.numbered(data.K)
    there = float((placed if placed.one_class else over_present(placed, data.z, data.K)).value(C))
    if placed.title == "precision" and C[:, placed.classes[-1]].sum() == 0:
        # nothing is decided as the class
        there = 1.0
    return value_of(metric, data.z, D), max(0.0, limit.limit - there if limit.is_floor else there - limit.limit)


@benchmark("limit-estimates", "FOLDER", "limits: estimates")
def limit_estimates(folder):
    """Compare the estimates by what limits are on the rows that were not tuned on."""
    runs = defaultdict(list)
    for data in load(folder):
        for half in (data, data.turned()):
            if half.sizes.max() >= LEAST_ROWS:
                for kind, metric, limit in label_problems(half):
                    runs[kind].append([on_other_rows(half, metric, limit, mode) for mode in MODES])
    lines = []
    for kind, some in runs.items():
        values, missed = np.moveaxis(some, 2, 0)
        for place, mode in enumerate(MODES):
            cells = []
            for figures in (values, missed):
                change, error = paired(figures[:, place] - figures[:, 0])
                cells.append(f"{figures[:, place].mean():.4f}, {change:+.4f} ({error:.4f})")
            lines.append([kind, mode, len(some), *cells, f"{(missed[:, place] > 0).mean():.0%}"])
    return [
        "tuned on each half of a table and scored on the other: a recall, or a precision, of the rarest class of 20 "
        "rows or more, 40 % of the way from argmax to one; its rate, at most 1.2 of its share; all recalls, .8 of the "
        "smallest one of p / prior. The mean of the value, and of what the limit is missed by, on the other rows, with "
        "the difference to the model (standard error), and how often it is missed. Raw: without calibration.",
        markdown(["problem", "estimate", "runs", "value, to model", "missed by, to model", "missed"], lines, 2),
    ]
