"""What people get: the gain on the table that ships with confmax, and SQL in DuckDB.

The gain: a rule is tuned by default settings on nine of the table's ten folds and decides the rows of the tenth.
`confmax.score` then evaluates these decisions, argmax and p / prior on all rows. The picture for the README goes into
docs/_static/gain.svg.

SQL: a table of random rows is read on four threads, and `SELECT {expression} FROM scores` names no order. Its decisions
are compared with `DecisionRule.predict_index`, place by place, for rules of every kind that SQL holds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import confmax
from benchmarks.harness import benchmark, markdown, shortest, spread
from confmax import DecisionRule
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.cli import demo
from confmax.confusion import Gains, Layout
from confmax.optimize.class_cuts import class_gains
from confmax.tables.draws import cross_fit, masks

PICTURE = Path(__file__).parents[1] / "docs" / "_static" / "gain.svg"
# name in the score: name in the picture and its colour
RULES = {
    "argmax": ("argmax(p)", "#9a9a9a"),
    "p/prior": ("argmax(p / prior)", "#d9a441"),
    "rule": ("confmax", "#2f6fb0"),
}


def scored(metric, proba, labels, folds):
    """Return the score of the decisions that rules tuned without each fold make for its rows."""
    decided = np.empty_like(labels)

    def fit(held_out):
        return confmax.maximize(metric, proba[~held_out], labels[~held_out], classes=demo.CLASSES).rule

    for held_out, rule in cross_fit(fit, masks(folds)):
        decided[held_out] = rule.predict(proba[held_out])
    return confmax.score(metric, proba, labels, decided, classes=demo.CLASSES)


def draw(scores):
    """Draw a bar for each metric and rule, with its interval, into the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "gain", "font.size": 9})
    figure, axes = plt.subplots(figsize=(6.8, 2.7), layout="constrained")
    for k, (rule, (name, colour)) in enumerate(RULES.items()):
        estimates = [score.estimate(rule) for score in scores.values()]
        values = np.array([estimate.value for estimate in estimates])
        ends = np.array([[estimate.low, estimate.high] for estimate in estimates]).T
        place = np.arange(len(scores)) + 0.27 * (k - 1)
        axes.bar(place, values, 0.25, label=name, color=colour)
        axes.errorbar(place, values, abs(ends - values), fmt="none", ecolor="#333333", elinewidth=1, capsize=2)
    axes.set_xticks(range(len(scores)), scores)
    axes.set(ylabel="value on held-out rows", ylim=(0, 0.75))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", ncols=3, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})


@benchmark("gain")
def gain():
    """Measure what tuning gains on held-out rows, and draw the picture."""
    proba, labels, folds = demo.load()
    scores, rows = {metric: scored(metric, proba, labels, folds) for metric in demo.METRICS}, []
    for metric, score in scores.items():
        gains = [score.difference("rule", to) for to in ("argmax", "p/prior")]
        intervals = [f"{one.value:+.4f} [{one.low:+.4f}, {one.high:+.4f}]" for one in gains]
        rows.append([metric, *(f"{score.estimate(rule).value:.4f}" for rule in RULES), *intervals])
    draw(scores)
    head = ["metric", *(name for name, _ in RULES.values()), "confmax - argmax", "confmax - p/prior"]
    return [
        f"the {len(labels)} rows of `confmax/data/hpc_cv.csv`: each row is decided by a rule that was tuned, with "
        f"default settings, on the nine folds without it; p / prior uses the class sizes of all rows. Most rules for "
        f"the smallest recall decide at random and are drawn once; the demo takes the expectation over draws. In "
        f"brackets: 95 % percentile intervals of 1000 bootstrap replicates of rows, paired.",
        markdown(head, rows),
    ]


THREADS = 4
CLASSES = (7, 26)
GROUPS = ("a", "b", "c")
DIALECTS = ("duckdb", "standard")
TIE = 1e-12  # scores so near, relative to the largest gain, may go either way


def rules(K):
    """Return a rule of each kind for K classes, by name."""
    rng = np.random.default_rng(K)
    a, b = rng.uniform(0.3, 3.0, K), rng.uniform(0.0, 1.0 / K, K)
    weights, offsets = Gains.reduced(a), Gains.reduced(a, b)
    # an offset that a good part of the rows does not reach
    abstaining = Gains.reduced(a, [*b, 0.7 * a.mean()])
    vector = VectorScaling(rng.uniform(0.5, 1.5, K), rng.normal(0.0, 0.5, K))
    matrix = MatrixScaling(np.diag(vector.a) + rng.normal(0.0, 0.6 / K, (K, K)), vector.b)
    groups = Layout(len(GROUPS), K, 0).beside([Gains.reduced(rng.uniform(0.3, 3.0, K), b) for _ in GROUPS])
    kinds = {
        "weights": (weights, None),
        "offsets": (offsets, None),
        "offsets, temperature": (offsets, Temperature(1.7)),
        "weights, vector": (weights, vector),
        "offsets, vector": (offsets, vector),
        "weights, matrix": (weights, matrix),
        "offsets, matrix": (offsets, matrix),
        "abstaining": (abstaining, None),
        "abstaining, matrix": (abstaining, matrix),
        "linear kappa": (Gains.reduced(-a / K, b, power=1), None),
        "quadratic kappa": (Gains.reduced(-a / K, b, power=2), None),
        "full gains": (Gains.from_matrix(rng.normal(size=(K, K))), None),
        "full gains, matrix": (Gains.from_matrix(rng.normal(size=(K, K))), matrix),
        "one class first, others by a matrix": (class_gains(np.array([0.5]), 0, K), matrix.keeping(0)),
        "groups": (groups, None),
        "groups, matrix": (groups, matrix),
    }
    made = {}
    for name, (gains, calibrator) in kinds.items():
        grouped, abstain = name.startswith("groups"), "abstain" if name.startswith("abstain") else None
        names = (*(f"p{k}" for k in range(K)), *([abstain] if abstain else []))
        settings = {"calibrator": calibrator, "abstain": abstain, "groups": GROUPS if grouped else ()}
        made[name] = DecisionRule(gains, np.ones(1), names, **settings)
    return made


def elsewhere(rule, P, group, decided):
    """Return how many rows have another decision than the rule's, and how many of these are ties within rounding."""
    expected = rule.predict_index(P, group=group if rule.groups else None)
    rows = np.flatnonzero(decided != expected)
    p = P[rows] if rule.calibrator is None else rule.calibrator.transform(P[rows])
    ties = 0
    for name in rule.groups or [None]:
        gains = (rule if name is None else rule.of_group(name)).gains.matrices()[0]
        chosen = np.arange(len(rows)) if name is None else np.flatnonzero(group[rows] == name)
        scores, at = p[chosen] @ gains, np.arange(len(chosen))
        apart = np.abs(scores[at, decided[rows][chosen]] - scores[at, expected[rows][chosen]])
        ties += int((apart <= TIE * np.abs(gains).max()).sum())
    return len(rows), ties


@benchmark("exports", "[ROWS]")
def exports(n=1_000_000, quick=False):
    """Compare the decisions of exported SQL with those of the rules."""
    import duckdb
    import pyarrow as pa

    n, rows = 10_000 if quick else n, []
    for K in CLASSES:
        rng = np.random.default_rng(K)
        P, group = rng.dirichlet(np.full(K, 0.5), n), rng.choice(GROUPS, n)
        given = pa.table({**{f"p{k}": P[:, k] for k in range(K)}, "group": group})
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {THREADS}")
            connection.register("given", given)
            connection.execute("CREATE TABLE scores AS SELECT * FROM given")
            for name, rule in rules(K).items():
                for dialect in DIALECTS:
                    query = f"SELECT {rule.to_sql(dialect)} AS decision FROM scores"
                    seconds, decided = shortest(lambda q=query, c=connection: c.execute(q).fetchnumpy()["decision"], 2)
                    differing, ties = elsewhere(rule, P, group, np.asarray(decided))
                    form = "sub-query" if "(SELECT" in query else "lists" if " FOR " in query else "one expression"
                    rows.append([dialect, form, name, K, differing - ties, ties, f"{seconds:.2f}"])
    head = ["dialect", "form", "rule", "classes", "elsewhere", "ties", "seconds"]
    return [
        f"SQL in DuckDB {duckdb.__version__} on {n:,} random rows, {THREADS} threads, no ORDER BY, rules of "
        f"{len(rules(7))} kinds for {CLASSES[0]} and {CLASSES[1]} classes. Elsewhere: rows whose decision is not that "
        f"of `predict_index` at the same place, ties within {TIE:g} aside, which are counted beside them. Seconds are "
        f"the shorter of two runs, planning included. Median (least, most):",
        spread("exports", head, rows, 4, (0, 1)),
    ]
