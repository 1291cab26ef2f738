"""Populations whose truth is known: regret of rules and of the estimator, and intervals.

A rule or a fitted estimator is evaluated on the population itself, and compared with the certified optimum there.
"""

from __future__ import annotations

import itertools
import time
from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.tree import DecisionTreeClassifier

import confmax
from benchmarks.harness import benchmark, figures, markdown, spread
from confmax import DecisionRule, MetricClassifierCV
from confmax.optimize import BayesCG, BruteForce
from confmax.populations import FinitePopulation, atoms_example, continuous_example, population_confusion
from confmax.theory import rho_schedule, split_sizes

SIZES = (100, 300, 1000, 3000, 10_000, 30_000)
SEEDS = range(10)
MEANS = ("g_mean", "h_mean", "q_mean")
CONTINUOUS = (*MEANS, "min_recall", "micro_f1")
ALPHA, KAPPA, SCALE = 0.5, 0.04, 0.05


def tuned_rule(method, name, m, P, y):
    """Return a rule that is tuned on P (n, K) and y; m is the size of the sample, whose half they are."""
    if method == "argmax":
        return DecisionRule.from_weights(np.ones(P.shape[1]))
    settings = {}
    if method == "BayesCG":
        # Algorithm 4 with the rounds and the smoothing that go with m
        rho = rho_schedule(name if name in MEANS else "h_mean", m, 3, scale=SCALE)
        solver = BayesCG(alpha=ALPHA, kappa=KAPPA, rho=rho, smoothing="additive")
        settings = {"solver": solver, "confusion": "labels", "max_passes": m + 10, "randomized": True}
    elif method == "brute force":
        settings = {"solver": BruteForce(resolution=12), "confusion": "labels"}
    return confmax.maximize(name, P, y, **settings).rule


def predict(model, X):
    """Return probabilities for all three classes, also when the fitting half lacked one."""
    P = np.zeros((len(X), 3))
    P[:, model.classes_] = model.predict_proba(X)
    return P


def measure(population, names, methods):
    """Return the regrets {(metric, method): array (sizes, seeds)}."""
    optima = {name: optimum(population, name) for name in names}
    regrets = {(name, method): np.empty((len(SIZES), len(SEEDS))) for name in names for method in methods}
    for (i, m), seed in itertools.product(enumerate(SIZES), SEEDS):
        X, y = population.sample(m, np.random.default_rng([m, seed]))
        half, _ = split_sizes(m, ALPHA)
        model = LogisticRegression(max_iter=1000).fit(X[:half], y[:half])
        P, y = predict(model, X[half:]), y[half:]
        for name, method in regrets:
            decide = tuned_rule(method, name, m, P, y).decision_probabilities
            C = population_confusion(population, lambda X, decide=decide, model=model: decide(predict(model, X)))
            regrets[name, method][i, seed] = optima[name] - confmax.metrics.get(name).value(C)
    return regrets


def rows_of(title, regrets):
    """Return a row of median regrets for each metric and method."""
    return [[title, name, method, *figures(np.median(values, axis=1))] for (name, method), values in regrets.items()]


@benchmark("consistency")
def consistency():
    """Fit on one half of a sample, tune on the other, and measure the regret on the population."""
    rows = rows_of("continuous", measure(continuous_example(), CONTINUOUS, ("argmax", "BayesCG", "default")))
    rows += rows_of("three atoms", measure(atoms_example(), MEANS, ("brute force", "BayesCG", "default")))
    return [
        f"psi-regret on the population (certified optimum minus the rule's value), median of {len(SEEDS)} samples of m "
        f"rows, half for logistic regression, half for the rule. BayesCG: {KAPPA:g} m rounds, additive smoothing "
        f"rho(m) of Corollary 13 with scale {SCALE:g}; default: `maximize(metric, P, y)`; brute force: "
        f"`BruteForce(resolution=12)`. For the smallest recall and micro F1 the paper proves no rate, for the others "
        f"its bounds are vacuous at these sizes. With atoms (Assumption A fails) no single rule is optimal.",
        "Median over the metrics (least, most):",
        spread("consistency", ["population", "metric", "method", *(f"m = {m}" for m in SIZES)], rows, 3, (0, 2)),
    ]


SAMPLES, N_CELLS, POPULATIONS, PER_POPULATION = 10, 6, 12, 3
ATOM_METRICS, CELL_METRICS = ("g_mean", "macro_f1"), ("g_mean", "macro_f1", "min_recall")


def optimum(population, metric, *, randomized=True):
    """Return the largest value of any rule on the population: certified, or the best value that many passes find."""
    table, settings = population.table(), {"randomized": randomized, "max_passes": 1000}
    return confmax.maximize(metric, table.head.proba, sample_weight=table.head.weight, **settings).value


def regret(population, best, metric, fitted):
    C = population_confusion(population, fitted.decision_probabilities)
    return best - confmax.metrics.get(metric).value(C)


def tuned(model, metric, X, y):
    return MetricClassifierCV(model, metric=metric, fold_rules=False).fit(X, y)


def cells(number, K=3, n_cells=N_CELLS):
    """Return a population of categorical cells."""
    rng = np.random.default_rng(number)
    proba = rng.dirichlet(np.ones(K), n_cells)
    return FinitePopulation(proba, rng.dirichlet(np.full(n_cells, 3.0)), np.eye(n_cells))


def regrets_of(population, model, metric, m, seeds):
    """Return the regrets of fits on samples of m rows."""
    best = optimum(population, metric)
    samples = (population.sample(m, np.random.default_rng([m, *np.atleast_1d(seed)])) for seed in seeds)
    return [regret(population, best, metric, tuned(model, metric, X, y)) for X, y in samples]


def of_two_classes():
    """Return rows of regrets against the best single rule, beside those of scikit-learn's search of a threshold."""
    rows = []
    scores = {"g_mean": g_mean, "macro_f1": partial(f1_score, average="macro")}
    for n_cells, (metric, score) in itertools.product((3, 6), scores.items()):
        lost = [[], []]
        for number in range(POPULATIONS):
            population = cells(number, 2, n_cells)
            best = optimum(population, metric, randomized=False)
            X, y = population.sample(1000, np.random.default_rng([1000, number]))
            model = LogisticRegression(C=100)
            theirs = TunedThresholdClassifierCV(model, scoring=make_scorer(score), random_state=0).fit(X, y)
            C = population_confusion(population, lambda X, theirs=theirs: np.eye(2)[theirs.predict(X)])
            lost[0].append(best - confmax.metrics.get(metric).value(C))
            lost[1].append(regret(population, best, metric, tuned(model, metric, X, y)))
        rows.append([n_cells, metric, *figures(of(some) for some in lost for of in (np.mean, np.max))])
    return rows


def g_mean(y, decided):
    return np.sqrt(np.prod(recall_score(y, decided, average=None, zero_division=0)))


@benchmark("estimator")
def estimator():
    """Measure the regret of `MetricClassifierCV` with defaults where rows repeat."""
    rows = []
    models = {"logistic": LogisticRegression(), "tree": DecisionTreeClassifier(max_depth=2, random_state=0)}
    for m, (name, model), metric in itertools.product((1000, 5000), models.items(), ATOM_METRICS):
        lost = regrets_of(atoms_example(), model, metric, m, range(SAMPLES))
        rows.append([f"three atoms, {name}", metric, m, *figures([np.mean(lost), np.max(lost)])])
    for metric in CELL_METRICS:
        lost = []
        for number in range(POPULATIONS):
            seeds = [(number, k) for k in range(PER_POPULATION)]
            lost += regrets_of(cells(number), LogisticRegression(C=100), metric, 1000, seeds)
        rows.append([f"{N_CELLS} cells, logistic", metric, 1000, *figures([np.mean(lost), np.max(lost)])])
    head = ["cells", "metric", "TunedThresholdClassifierCV, mean", "largest", "MetricClassifierCV, mean", "largest"]
    return [
        f"`MetricClassifierCV` with defaults on populations of three atoms ({SAMPLES} samples) and on {POPULATIONS} of "
        f"categorical cells: the exact regret of `decision_probabilities` against the best of all rules; over metrics "
        f"and numbers of rows, median (least, most).",
        spread("estimator", ["population, model", "metric", "rows", "mean regret", "largest"], rows, 3, (0,)),
        "Regret against the best single rule on populations of two classes and categorical cells, 1000 rows each.",
        markdown(head, of_two_classes(), 2),
    ]


TABLES = ((10_000, 5), (100_000, 20), (10_000, 100), (1_000_000, 10))
SCORED = ["macro_f1", "g_mean", "mcc"]
COVERED = ["accuracy", "balanced_accuracy", "macro_f1", "cohen_kappa", "g_mean", "min_recall"]


def median_of(call, repeats=3):
    """Return the median seconds of processor time of a call, after one that imports."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return float(np.median(times))


def costs():
    """Return lines of times of `score`."""
    lines = []
    for n, K in TABLES:
        rng = np.random.default_rng(0)
        P = rng.dirichlet(np.full(K, 0.3), n)
        y = (P.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, K - 1)
        rules = {name: DecisionRule.from_weights(rng.random(K) + 0.5) for name in ("one", "two")}
        run = partial(confmax.score, SCORED, P, y, rules=rules)
        few, many = np.random.default_rng(1).integers(1, 4, n), rng.gamma(1.0, size=n) + 0.01
        calls = [run, partial(run, stratified=True), partial(run, sample_weight=few)]
        seconds = [median_of(call) for call in calls]
        seconds.append(np.nan if n >= 1_000_000 else median_of(partial(run, sample_weight=many), 1))
        lines.append([f"{n:,} x {K}", *figures(seconds, ".2f")])
    return lines


def coverage(samples=400):
    """Return lines of the share of samples whose intervals hold the population's value."""
    population, rule = continuous_example(), DecisionRule.from_weights([1.0, 2.0, 4.0])
    truth = [
        population_confusion(population, lambda X, h=h: h.decision_probabilities(population.eta(X)))
        for h in (rule, DecisionRule.from_weights(np.ones(3)))
    ]
    shares = {name: [] for name in COVERED}
    for n in (100, 300, 1000):
        hits = np.zeros((len(COVERED), 2))
        for seed in range(samples):
            X, y = population.sample(n, seed)
            scored = confmax.score(COVERED, population.eta(X), y, rule, random_state=seed)
            for m, name in enumerate(COVERED):
                value, base = (confmax.metrics.get(name).value(C) for C in truth)
                e, d = scored.estimate("rule", name), scored.difference("rule", "argmax", name)
                hits[m] += e.low <= value <= e.high, d.low <= value - base <= d.high
        for name, hit in zip(COVERED, hits, strict=True):
            shares[name] += [f"{share:.1%}" for share in hit / samples]
    return [[name, *cells] for name, cells in shares.items()]


@benchmark("uncertainty")
def uncertainty():
    """Measure what intervals cost, and whether they cover."""
    kinds = ["no weights, s", "stratified, s", "three distinct weights, s", "all weights distinct, s"]
    columns = [text for n in (100, 300, 1000) for text in (f"{n} rows, value", "difference")]
    return [
        f"one thread, seconds of processor time. `confmax.score` with 1000 replicates, {', '.join(SCORED)} and four "
        f"rules, checks and decisions included, median of 3 calls; probabilities Dirichlet(0.3). Required: under 2 s "
        f"at 100,000 x 20.",
        markdown(["rows x classes", *kinds], costs()),
        "Coverage of 95 % intervals: of 400 samples of three Gaussian classes (priors .6, .3, .1), the share whose "
        "interval holds the population's value of a fixed rule, and of its difference to argmax (standard error 1.1 "
        "points).",
        markdown(["metric", *columns], coverage()),
    ]
