"""Rules that abstain: against row-level programs on tiny populations, and beside Chow's rule on tables.

Tiny populations have 5 to 40 rows, 2 to 4 classes, rows that repeat and zeros, and 1 to 3 random limits. On the tables
the risk-coverage curve goes from a coverage of .5 to 1 in steps of .05. Chow's rule decides the most probable class of
the rows where its probability is largest.
"""

from __future__ import annotations

import numpy as np

import confmax
from benchmarks.constraints import closing
from benchmarks.harness import benchmark, load, markdown, over_present, paired, spread
from benchmarks.programs import SETTINGS, TOL, Program, Tiny, Wish, ended, of_tiny, random_rows
from confmax.evaluate.coverage_curves import chow
from confmax.tables import apply_calibrator

BUDGET = 60
METRICS = ("accuracy", "macro_f1", "balanced_accuracy")
LEVELS = np.linspace(0.5, 1.0, 11).round(2)
FLOOR = 0.6  # the least coverage of each class
WHOLE = 0.8  # that of all rows


# --- tiny populations -------------------------------------------------------------------------------------------------


def tiny(seed):
    """Return a random population."""
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(2, 5)), int(rng.integers(5, 41))
    P = random_rows(rng, seed, n, K)
    P[0, P.sum(axis=0) == 0] = 0.1
    P /= P.sum(axis=1, keepdims=True)
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
    """Return what is wrong with the answer on a tiny population, "right" or a kind of its own; and passes, lack."""
    one = tiny(seed)
    program = Program(one)
    room = program.room()
    metric = confmax.metrics.get("linear", cost=one.cost) if one.metric == "cost" else one.metric
    limits, classes = [wish.text for wish in one.limits], range(one.P.shape[1])
    try:
        solution = confmax.maximize(metric, one.P, classes=classes, constraints=limits, abstain=True, **SETTINGS)
    except ValueError:
        return "contradictory" if room < TOL else "wrongly refused", 0, 0.0
    return ended(solution, room, program.best(one.metric))


# --- tables -----------------------------------------------------------------------------------------------------------


def of_passes(tables):
    """Return rows of text: passes until bound and value lie within 1e-6, of two problems."""
    problems, closed = ("accuracy, coverage", "coverage, accuracy"), []
    for data in tables:
        P = data.proba
        halfway = 0.5 + 0.5 * float(P.max(axis=1).mean())
        settings = {"classes": list(range(data.K)), "confusion": "model", "calibration": None, "randomized": True}
        runs = [
            confmax.maximize(metric, P, constraints=limit, abstain=True, max_passes=BUDGET, **settings)
            for metric, limit in (("accuracy", "coverage >= 0.8"), ("coverage", f"accuracy >= {halfway!r}"))
        ]
        closed.append([closing(run.history, TOL) for run in runs])
    return [
        [name, f"{np.median(each):.1f}", max(each)]
        for name, each in zip(problems, zip(*closed, strict=True), strict=True)
    ]


def on_the_model(name, data):
    """Return the areas of Chow's rule and of the best rules, both expected by the tuning rows' probabilities."""
    P, classes = data.proba, list(range(data.K))
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
            rows.append((*on_the_model(name, data), *on_test_rows(name, data)))
            lines.append([data.stem, name, *(f"{area:.5f}" for area in rows[-1])])
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


@benchmark("abstaining", "FOLDER")
def abstaining(folder, count=2000):
    """Compare rules that abstain with programs and with Chow's rule."""
    tables = load(folder)
    lines, ends = of_areas(tables)
    floors, below = of_floors(tables)
    spread("abstaining: areas", ["table", "metric", "Chow, model", "best, model", "Chow, test", "best, test"], lines, 2)
    return [
        f"{count} tiny populations with limits on coverage, coverage of a class, accuracy, recall, precision and rate, "
        f"against linear programs over all rows: accuracy, coverage, F1 of a class and tables of costs are maximised.",
        of_tiny(count, verdict),
        f"Passes on {len(tables)} tables until bound and value of the best mixture lie within 1e-6: the accuracy of "
        f"what is decided with a coverage of .8, and the coverage with an accuracy halfway between argmax's, as the "
        f"probabilities expect, and 1.",
        markdown(["problem", "passes, median", "most"], of_passes(tables)),
        "The area under the risk-coverage curve over its length, from a coverage of .5 to 1: the mean of 1 - metric of "
        "what is decided, of the best rules at 11 coverages minus Chow's rule. On the model: expected on the tuning "
        "rows, best mixtures. On test rows: default settings with labels, and Chow's rule on the same calibrated "
        "probabilities. Chow's rule decides as argmax, whatever the metric: part of the difference in macro F1 and "
        "balanced accuracy is what tuning gains where all rows are decided.",
        markdown(["metric", "model: most", "mean", "test rows: lower on", "mean ± standard error", "most"], ends),
        f"Accuracy with a coverage of {WHOLE} and of {FLOOR} in every class, default settings with labels: the least "
        f"slack on the tuning rows, as the rule was tuned; on test rows the coverage, the least coverage of a class "
        f"with the rule and with Chow's rule at the same coverage, and the accuracy of what is decided. {below}",
        spread(
            "abstaining", ["table", "slack", "coverage", "least of a class", "Chow's", "accuracy", "Chow's"], floors
        ),
    ]
