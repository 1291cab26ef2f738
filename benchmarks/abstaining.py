"""Rules that abstain: against row-level programs on tiny populations, and beside Chow's rule on tables.

Tiny populations have 5 to 40 rows, 2 to 4 classes, rows that repeat and zeros, and 1 to 3 random limits. On the tables
the risk-coverage curve goes from a coverage of .5 to 1 in steps of .05. Chow's rule decides the most probable class of
the rows where its probability is largest.
"""

from __future__ import annotations

import numpy as np

import confmax
from benchmarks.constraints import BUDGET, MIXED, closing
from benchmarks.harness import benchmark, keep, load, markdown, paired, solve
from benchmarks.programs import TOL, Tiny, Wish, judged, of_tiny, random_table
from confmax.evaluate.curves import curve_through
from confmax.evaluate.rivals import chow
from confmax.metrics.decided import of_decided
from confmax.tables import apply_calibrator

METRICS = ("accuracy", "macro_f1", "balanced_accuracy")
LEVELS = np.linspace(0.5, 1.0, 11).round(2)
FLOOR = 0.6  # the least coverage of each class
WHOLE = 0.8  # that of all rows


def tiny(seed):
    """Return a random population."""
    rng = np.random.default_rng(seed)
    P = random_table(rng, seed)
    n, K = P.shape
    objective = str(rng.choice(["accuracy", "coverage", f"f1[{rng.integers(K)}]", "cost"]))
    limits = [random_limit(rng, P.mean(axis=0)) for _ in range(int(rng.integers(1, 4)))]
    if objective == "accuracy" or objective.startswith("f1"):
        # without a floor the best rule decides next to nothing, and confmax refuses
        name = str(rng.choice(["coverage", f"coverage[{rng.integers(K)}]"]))
        limits.append(Wish(name, "all", ">=", float(rng.uniform(0.05, 1.0))))
    cost = np.hstack([1.0 - np.eye(K), rng.uniform(0.1, 0.6, (K, 1))])
    return Tiny(P, np.zeros(n, dtype=int), objective, limits, True, cost)


def random_limit(rng, shares):
    """Return a limit of a random kind."""
    k, u = int(rng.integers(len(shares))), float(rng.random())
    name, sense, limit = (
        ("coverage", ">=", u),
        ("coverage", "<=", u),
        (f"coverage[{k}]", ">=", u),
        (f"coverage[{k}]", "<=", u),
        ("accuracy", ">=", u),
        (f"recall[{k}]", ">=", u),
        (f"precision[{k}]", ">=", u),
        (f"rate[{k}]", ">=", u * float(shares[k])),
        (f"rate[{k}]", "<=", min(1.0, 2 * u * float(shares[k]))),
    )[int(rng.integers(9))]
    return Wish(name, "all", sense, limit)


def verdict(seed):
    """Return how the answer on a tiny population ended, passes, and the lack of value."""
    return judged(tiny(seed))


def of_passes(tables):
    """Return rows of text: passes until bound and value lie within 1e-6, of two problems."""
    closed = []
    for data in tables:
        P, settings = data.proba, MIXED | {"classes": data.classes, "abstain": True, "max_passes": BUDGET}
        halfway = 0.5 + 0.5 * float(P.max(axis=1).mean())
        problems = (("accuracy", "coverage >= 0.8"), ("coverage", f"accuracy >= {halfway!r}"))
        runs = [solve(metric, P, constraints=limit, **settings) for metric, limit in problems]
        closed.append([closing(run.history, TOL) for run in runs])
    problems = ("accuracy, coverage", "coverage, accuracy")
    return [
        [name, f"{np.median(some):.1f}", max(some)] for name, some in zip(problems, np.transpose(closed), strict=True)
    ]


def on_the_model(name, data):
    """Return the mean losses of Chow's rule and of the best rules, both expected by the tuning rows' probabilities."""
    P, K = data.proba, data.K
    settings = {"classes": data.classes, "levels": LEVELS, "abstain": True, "tol": TOL, **MIXED}
    best = confmax.frontier(name, "coverage >=", P, **settings)
    metric = of_decided(confmax.metrics.get(name), K)
    decided = [chow(P, np.ones(len(P)), level) for level in LEVELS]
    shares = [np.tensordot(one.shares, np.eye(K + 1)[one.decisions], 1) for one in decided]
    values = np.array([metric.value(P.T @ D / len(P)) for D in shares])
    return 1.0 - curve_through(name, "coverage", LEVELS, values).area(), 1.0 - best.area(LEVELS[0], 1.0)


def on_test_rows(name, data):
    """Return the same on the labels of the test rows, of rules that are tuned on the other labels."""
    settings = {"classes": data.classes, "levels": LEVELS, "abstain": True, "tol": TOL}
    ours = confmax.frontier(name, "coverage >=", data.P, data.y, **settings).on(data.Q, data.z, n_replicates=0)
    # the rules may decide a little more of the test rows than of those that tuned them
    low = max(LEVELS[0], ours.line()[0][0])
    return 1.0 - ours.chow.area(low, 1.0), 1.0 - ours.area(low, 1.0)


def of_areas(tables):
    """Return a line per metric of all tables, and keep one per table and metric with all areas."""
    lines, ends = [], []
    for name in METRICS:
        areas = np.array([[*on_the_model(name, data), *on_test_rows(name, data)] for data in tables])
        lines += [[data.stem, name, *(f"{area:.5f}" for area in row)] for data, row in zip(tables, areas, strict=True)]
        model, test = areas[:, 1] - areas[:, 0], areas[:, 3] - areas[:, 2]
        texts = [f"{model.max():+.1e}", f"{model.mean():+.4f}", f"{(test < 0).sum()} of {len(test)}"]
        ends.append([name, *texts, "{:+.4f} ± {:.4f}".format(*paired(test)), f"{test.max():+.4f}"])
    keep("abstaining: areas", ["table", "metric", "Chow, model", "best, model", "Chow, test", "best, test"], lines, 2)
    return ends


def coverages(data, decided):
    """Return coverage, accuracy of what is decided, and the coverages (K,) of classes with rows, on test rows."""
    n, K = len(data.z), data.K
    hit = decided[np.arange(n), data.z].sum()
    covered = decided[:, :K].sum(axis=1)
    by_class = [covered[data.z == k].mean() for k in range(K) if (data.z == k).any()]
    return covered.mean(), hit / covered.sum(), np.array(by_class)


def of_floors(tables):
    """Return a sentence on accuracies with floors on the coverages, beside Chow's rule; keep a line per table."""
    lines, figures, missed, total = [], [], np.zeros(2, dtype=int), 0
    for data in tables:
        limits = [f"coverage >= {WHOLE}", *(f"coverage[{k}] >= {FLOOR}" for k in np.unique(data.y))]
        settings = {"classes": data.classes, "abstain": True, "constraints": limits, "on_infeasible": "closest"}
        solution = solve("accuracy", data.P, data.y, **settings)
        slack = min(one.slack for one in solution.constraints)
        whole, accuracy, ours = coverages(data, solution.rule.decision_probabilities(data.Q))
        other = chow(apply_calibrator(solution.rule.calibrator, data.Q), np.ones(len(data.z)), whole)
        _, chow_accuracy, theirs = coverages(data, np.tensordot(other.shares, np.eye(data.K + 1)[other.decisions], 1))
        missed += [(ours < FLOOR).sum(), (theirs < FLOOR).sum()]
        total += len(ours)
        figures.append([slack, chow_accuracy - accuracy])
        cells = f"{whole:.3f}", f"{ours.min():.2f}", f"{theirs.min():.2f}", f"{accuracy:.4f}", f"{chow_accuracy:.4f}"
        lines.append([data.stem, f"{slack:+.1e}", *cells])
    keep("abstaining", ["table", "slack", "coverage", "least of a class", "Chow's", "accuracy", "Chow's"], lines)
    slacks, lower = np.transpose(figures)
    return (
        f"Accuracy with a coverage of {WHOLE} and of {FLOOR} in every class, default settings with labels: on the "
        f"tuning rows the least slack of {len(tables)} tables is {slacks.min():.1e}. On test rows {missed[0]} of "
        f"{total} classes are covered less with the rule, {missed[1]} with Chow's at the same coverage; what is "
        f"decided is right less often than with Chow's rule by {np.median(lower):.4f} in the median and "
        f"{lower.max():.4f} at most."
    )


@benchmark("abstaining", "FOLDER [POPULATIONS]")
def abstaining(folder, count=2000):
    """Compare rules that abstain with programs and with Chow's rule."""
    tables = load(folder)
    return [
        "tiny populations with limits on coverage, coverage of a class, accuracy, recall, precision and rate, against "
        "linear programs over all rows: accuracy, coverage, F1 of a class and tables of costs are maximised.",
        of_tiny([("abstaining", count, verdict)]),
        f"Passes on {len(tables)} tables until bound and value of the best mixture lie within 1e-6: the accuracy of "
        f"what is decided with a coverage of .8, and the coverage with an accuracy halfway between argmax's, as the "
        f"probabilities expect, and 1.",
        markdown(["problem", "passes, median", "most"], of_passes(tables)),
        "The area under the risk-coverage curve over its length, from a coverage of .5 to 1: the mean of 1 - metric of "
        "what is decided, of the best rules at 11 coverages minus Chow's rule. On the model: expected on the tuning "
        "rows, best mixtures. On test rows: default settings with labels, and Chow's rule on the same calibrated "
        "probabilities, both from the least coverage of the rules there if that is above .5. Chow's rule decides as "
        "argmax, whatever the metric: part of the difference in macro F1 and balanced accuracy is what tuning gains "
        "where all rows are decided.",
        markdown(
            ["metric", "model: most", "mean", "test rows: lower on", "mean ± standard error", "most"], of_areas(tables)
        ),
        of_floors(tables),
    ]
