"""Populations whose truth is known: regret of rules and of the estimator, intervals, draws, mixtures of two classes.

A rule or a fitted estimator is evaluated on the population itself, and compared with the certified optimum there.
"""

from __future__ import annotations

import itertools
import time
import warnings
from functools import partial

import numpy as np
from scipy import fft, stats
from scipy.optimize import linprog, minimize_scalar
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.tree import DecisionTreeClassifier

import confmax
from benchmarks.harness import benchmark, markdown
from confmax import DecisionRule, MetricClassifierCV
from confmax.optimize import BayesCG, BruteForce
from confmax.populations import FinitePopulation, atoms_example, continuous_example, population_confusion
from confmax.tables.draws import given_keys, uniform
from confmax.theory import rho_schedule, split_sizes

# --- consistency: regret against the size of the sample ---------------------------------------------------------------

SIZES = (100, 300, 1000, 3000, 10_000, 30_000)
SEEDS = range(10)
MEANS = ("g_mean", "h_mean", "q_mean")
CONTINUOUS = (*MEANS, "min_recall", "micro_f1")
ALPHA, KAPPA, SCALE = 0.5, 0.04, 0.05


def bayes_cg(name, m):
    """Return Algorithm 4 with the rounds and the smoothing that go with m."""
    rho = rho_schedule(name if name in MEANS else "h_mean", m, 3, scale=SCALE)
    return BayesCG(alpha=ALPHA, kappa=KAPPA, rho=rho, smoothing="additive")


def regrets(population, name, optimum, m, parts, methods):
    """Return the regret of every method, tuned on the held-out half, on the population."""
    model, P, y = parts
    metric = confmax.metrics.get(name)
    found = {}
    for method in methods:
        settings = {}
        if method == "BayesCG":
            settings = {"solver": bayes_cg(name, m), "confusion": "labels", "max_passes": m + 10, "randomized": True}
        elif method == "brute force":
            settings = {"solver": BruteForce(resolution=12), "confusion": "labels"}
        if method == "argmax":
            rule = confmax.DecisionRule.from_weights(np.ones(P.shape[1]))
        else:
            rule = confmax.maximize(name, P, y, **settings).rule
        C = population_confusion(population, lambda X, rule=rule: rule.decision_probabilities(predict(model, X)))
        found[method] = optimum - metric.value(C)
    return found


def predict(model, X):
    """Return probabilities for all three classes, also when the fitting half lacked one."""
    P = np.zeros((len(X), 3))
    P[:, model.classes_] = model.predict_proba(X)
    return P


def measure(population, names, methods):
    """Return the regrets {(metric, method): array (sizes, seeds)}."""
    table = population.table()
    optima = {}
    for name in names:
        best = confmax.maximize(name, table.proba, sample_weight=table.weight, randomized=True, max_passes=1000)
        assert best.gap <= 1e-6, (name, best.gap)
        optima[name] = best.value
    out = {(name, method): np.empty((len(SIZES), len(SEEDS))) for name in names for method in methods}
    for i, m in enumerate(SIZES):
        for seed in SEEDS:
            X, y = population.sample(m, np.random.default_rng([m, seed]))
            fit, _ = split_sizes(m, ALPHA)
            model = LogisticRegression(max_iter=1000).fit(X[:fit], y[:fit])
            parts = (model, predict(model, X[fit:]), y[fit:])
            for name in names:
                for method, regret in regrets(population, name, optima[name], m, parts, methods).items():
                    out[name, method][i, seed] = regret
    return out, optima


def table_of(title, found, optima):
    """Return a table of median regrets with the 10-90 % range at the largest size."""
    rows = []
    for (name, method), values in found.items():
        low, high = np.quantile(values[-1], [0.1, 0.9])
        middle = (f"{value:.4f}" for value in np.median(values, axis=1))
        rows.append([name, f"{optima[name]:.4f}", method, *middle, f"{low:.4f} to {high:.4f}"])
    head = [title, "optimum", "method", *(f"m = {m}" for m in SIZES), "10 to 90 %, largest m"]
    return markdown(head, rows, 3)


@benchmark("consistency")
def consistency():
    """Fit on one half of a sample, tune on the other, and measure the regret on the population."""
    continuous, optima = measure(continuous_example(), CONTINUOUS, ("argmax", "BayesCG", "default"))
    atoms, atom_optima = measure(atoms_example(), MEANS, ("brute force", "BayesCG", "default"))
    return [
        f"psi-regret on the population (certified optimum minus the rule's value), median of {len(SEEDS)} samples of m "
        f"rows, half for logistic regression, half for the rule. BayesCG: {KAPPA:g} m rounds, additive smoothing "
        f"rho(m) of Corollary 13 with scale {SCALE:g}; default: `maximize(metric, P, y)`; brute force: "
        f"`BruteForce(resolution=12)`. For the smallest recall and micro F1 the paper proves no rate, for the others "
        f"its bounds are vacuous at these sizes. With atoms (Assumption A fails) no single rule is optimal.",
        table_of("continuous", continuous, optima),
        table_of("three atoms", atoms, atom_optima),
    ]


# --- the estimator ----------------------------------------------------------------------------------------------------

SAMPLES, N_CELLS, POPULATIONS, PER_POPULATION = 10, 6, 12, 3
ATOM_METRICS, CELL_METRICS = ("g_mean", "macro_f1"), ("g_mean", "macro_f1", "min_recall")


def optimum(population, metric):
    """Return the largest value of any rule on the population: certified, or the best value that many passes find."""
    table = population.table()
    return confmax.maximize(metric, table.proba, sample_weight=table.weight, randomized=True, max_passes=500).value


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


@benchmark("estimator")
def estimator():
    """Measure the regret of `MetricClassifierCV` with defaults where rows repeat."""
    rows = []
    models = {"logistic": LogisticRegression(), "tree": DecisionTreeClassifier(max_depth=2, random_state=0)}
    for m, (name, model), metric in itertools.product((1000, 5000), models.items(), ATOM_METRICS):
        found = regrets_of(atoms_example(), model, metric, m, range(SAMPLES))
        rows.append([f"three atoms, {name}", metric, m, f"{np.mean(found):.4f}", f"{np.max(found):.4f}"])
    for metric in CELL_METRICS:
        found = [
            each
            for number in range(POPULATIONS)
            for each in regrets_of(
                cells(number),
                LogisticRegression(C=100),
                metric,
                1000,
                [(number, k) for k in range(PER_POPULATION)],
            )
        ]
        rows.append([f"{N_CELLS} cells, logistic", metric, 1000, f"{np.mean(found):.4f}", f"{np.max(found):.4f}"])
    return [
        f"`MetricClassifierCV` with defaults on populations of three atoms ({SAMPLES} samples) and on {POPULATIONS} of "
        f"categorical cells: the exact regret of `decision_probabilities` against the best of all rules.",
        markdown(["population, model", "metric", "rows", "mean regret", "largest"], rows, 2),
    ]


def g_mean(y, decided):
    return np.sqrt(np.prod(recall_score(y, decided, average=None, zero_division=0)))


@benchmark("two-class-estimator", section="estimator: two classes")
def two_class_estimator():
    """Compare the regret against the best single rule with that of scikit-learn's search of a threshold."""
    rows = []
    scores = {"g_mean": g_mean, "macro_f1": partial(f1_score, average="macro")}
    for n_cells, (metric, score) in itertools.product((3, 6), scores.items()):
        lost = [[], []]
        for number in range(POPULATIONS):
            population = cells(number, 2, n_cells)
            table = population.table()
            best = confmax.maximize(metric, table.proba, sample_weight=table.weight, randomized=False).value
            X, y = population.sample(1000, np.random.default_rng([1000, number]))
            model = LogisticRegression(C=100)
            theirs = TunedThresholdClassifierCV(model, scoring=make_scorer(score), random_state=0).fit(X, y)
            C = population_confusion(population, lambda X, theirs=theirs: np.eye(2)[theirs.predict(X)])
            lost[0].append(best - confmax.metrics.get(metric).value(C))
            lost[1].append(regret(population, best, metric, tuned(model, metric, X, y)))
        rows.append([f"{n_cells}, {metric}", *(f"{of(each):.4f}" for each in lost for of in (np.mean, np.max))])
    head = ["cells, metric", "TunedThresholdClassifierCV, mean", "largest", "MetricClassifierCV, mean", "largest"]
    return [
        "regret against the best single rule on populations of two classes and categorical cells, 1000 rows each.",
        markdown(head, rows),
    ]


@benchmark("alarms", section="estimator: warnings")
def alarms():
    """Count how often a loss by the new fit is warned of, where rules are tuned out of fold though rows repeat."""
    from confmax.estimators import steps

    kept, steps.is_repetitive = steps.is_repetitive, lambda *_: False
    lost = warned = false = quiet = 0
    for number in range(POPULATIONS):
        for each, metric in itertools.product((cells(number), atoms_example()), CELL_METRICS):
            best = optimum(each, metric)
            for seed in range(PER_POPULATION):
                sample = each.sample(1000, np.random.default_rng([1000, number, seed]))
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    fitted = tuned(LogisticRegression(C=100), metric, *sample)
                warns = any("does not suit that model" in str(one.message) for one in caught)
                true = best - regret(each, best, metric, fitted)
                if fitted.solution_.label_value - true > 0.02:
                    lost += 1
                    warned += warns
                else:
                    quiet += 1
                    false += warns
    steps.is_repetitive = kept
    return [
        f"rules tuned out of fold on populations of {N_CELLS} cells and three atoms, 1000 rows each. {warned} of "
        f"{lost} losses above .02 are warned of; {false} warnings in {quiet} other fits."
    ]


# --- uncertainty: what intervals cost and whether they cover ----------------------------------------------------------

TABLES = ((10_000, 5), (100_000, 20), (10_000, 100), (1_000_000, 10))
SCORED = ["macro_f1", "g_mean", "mcc"]
BY_ROWS = 5  # replicates of the bootstrap of rows, of which 1000 are too slow
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


def by_rows(y, decisions, K, replicates):
    """Draw rows and count the matrices of all rules: the plain bootstrap, without the metrics."""
    rng, cells = np.random.default_rng(0), [y * K + d for d in decisions]
    for _ in range(replicates):
        rows = rng.integers(0, len(y), len(y))
        for cell in cells:
            np.bincount(cell[rows], minlength=K * K)


def costs():
    """Return lines of times of `score`."""
    lines = []
    for n, K in TABLES:
        rng = np.random.default_rng(0)
        P = rng.dirichlet(np.full(K, 0.3), n)
        y = (P.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, K - 1)
        rules = {name: DecisionRule.from_weights(rng.random(K) + 0.5) for name in ("one", "two")}
        decisions = [P.argmax(1)] * 2 + [rule.predict(P) for rule in rules.values()]
        run = partial(confmax.score, SCORED, P, y, rules=rules)
        few, many = np.random.default_rng(1).integers(1, 4, n), rng.gamma(1.0, size=n) + 0.01
        seconds = [
            median_of(run),
            median_of(partial(run, stratified=True)),
            median_of(partial(run, sample_weight=few)),
            np.nan if n >= 1_000_000 else median_of(partial(run, sample_weight=many), 1),
            median_of(partial(by_rows, y, decisions, K, BY_ROWS), 1) * 1000 / BY_ROWS,
        ]
        lines.append([f"{n:,} x {K}", *("-" if np.isnan(s) else f"{s:.2f}" for s in seconds)])
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
            found = confmax.score(COVERED, population.eta(X), y, rule, random_state=seed)
            for m, name in enumerate(COVERED):
                value, base = (confmax.metrics.get(name).value(C) for C in truth)
                e, d = found.estimate("rule", name), found.difference("rule", "argmax", name)
                hits[m] += e.low <= value <= e.high, d.low <= value - base <= d.high
        for name, hit in zip(COVERED, hits, strict=True):
            shares[name] += [f"{share:.1%}" for share in hit / samples]
    return [[name, *found] for name, found in shares.items()]


@benchmark("uncertainty")
def uncertainty():
    """Measure what intervals cost, and whether they cover."""
    kinds = ["no weights, s", "stratified, s", "three distinct weights, s", "all weights distinct, s"]
    columns = [text for n in (100, 300, 1000) for text in (f"{n} rows, value", "difference")]
    return [
        f"one thread, seconds of processor time. `confmax.score` with 1000 replicates, {', '.join(SCORED)} and four "
        f"rules, checks and decisions included, median of 3 calls; probabilities Dirichlet(0.3). Required: under 2 s "
        f"at 100,000 x 20. Beside it the plain bootstrap, which draws row numbers and counts four matrices with NumPy "
        f"and has no metrics yet ({BY_ROWS} replicates times {1000 // BY_ROWS}).",
        markdown(["rows x classes", *kinds, "bootstrap of rows, s"], costs()),
        "Coverage of 95 % intervals: of 400 samples of three Gaussian classes (priors .6, .3, .1), the share whose "
        "interval holds the population's value of a fixed rule, and of its difference to argmax (standard error 1.1 "
        "points).",
        markdown(["metric", *columns], coverage()),
    ]


# --- draws: are those of consecutive keys serially independent? -------------------------------------------------------

N = 1_000_000
LAGS = 64
LEVEL = 1e-6
KINDS = {
    "0 ... n": np.arange(N),
    "n from 2^40": np.arange(N) + 2**40,
    "steps of 2": 2 * np.arange(N),
    "steps of 1000": 1000 * np.arange(N),
    "steps of 2^20": 2**20 * np.arange(N),
    "steps of 2^32": 2**32 * np.arange(N),
    "steps of 2^43": 2**43 * np.arange(N),
}


def serial_failures(values, lags=LAGS, level=LEVEL):
    """Return how many of the serial correlations of values (n,) at lags 1 to ``lags`` differ from zero at a level."""
    n = len(values)
    x = values - np.mean(values)
    if not x.any():
        return lags
    size = fft.next_fast_len(n + lags)
    power = np.abs(fft.rfft(x, size)) ** 2
    correlation = fft.irfft(power, size)[1 : lags + 1] / float(x @ x)
    # the sum over n - lag pairs of products of independent numbers; its mean is -1 / n
    z = (correlation + 1.0 / n) * n / np.sqrt(n - np.arange(1, lags + 1))
    return int((np.abs(z) > stats.norm.isf(level / 2)).sum())


@benchmark("draws", "[SEEDS [OTHER_SEEDS]]")
def draws(n_seeds=1000, other_seeds=50):
    """Test the serial correlation of the draws of keys, and of the decisions of a coin with p = 1/2."""
    strings = given_keys([str(k) for k in range(N)], N)
    kinds, rows = {**{name: keys.astype(np.uint64) for name, keys in KINDS.items()}, "strings": strings}, []
    for place, (name, keys) in enumerate(kinds.items()):
        seeds, rejected = other_seeds if place else n_seeds, np.zeros(2, int)
        for seed in range(seeds):
            drawn = uniform(seed, keys)
            rejected += serial_failures(drawn), serial_failures(drawn >= 0.5)
        rows.append([name, seeds, f"{seeds * LAGS * LEVEL:.3f}", *rejected])
    return [
        f"tests of serial correlation of {N} draws at lags 1 to {LAGS} that reject at the level {LEVEL:g}.",
        markdown(["keys", "seeds", "expected", "rejected, draws", "rejected, coin"], rows),
    ]


# --- the best mixture of two classes against an optimum over all mixtures of thresholds -------------------------------

METRICS = ["min_recall", "g_mean", "h_mean", "q_mean"]
MODES = {"labels": 0.0, "blend": None, "model": 1.0}


def small_table(seed):
    """Return P (n, 2), y and weights of 3 to 8 rows: ties in two of three tables, sure rows in some."""
    rng = np.random.default_rng([13, seed])
    n = int(rng.integers(3, 9))
    p = rng.random(n)
    if seed % 3:
        p = np.round(p * 4) / 4
    y = (rng.random(n) < 0.5).astype(int)
    y[:2] = 0, 1
    if 0.0 < p.sum() < n:
        return np.column_stack([1 - p, p]), y, rng.integers(1, 4, n).astype(float)
    return small_table(seed + 10**6)


def value_of(name, recalls):
    """Return a metric at two recalls, by its definition."""
    low, high = min(recalls), max(recalls)
    if name == "min_recall":
        return low
    if name == "g_mean":
        return np.sqrt(max(low, 0.0) * high)
    if name == "h_mean":
        return 2 * low * high / (low + high) if low > 0 else 0.0
    return 1 - np.sqrt(((1 - low) ** 2 + (1 - high) ** 2) / 2)


def recalls_of(P, y, weight, share, *, all_rules):
    """Return the recalls (A, 2) of all thresholds on p, or of all rules that decide equal rows alike."""
    truth = (share * P + (1 - share) * np.eye(2)[y]) * (weight / weight.sum())[:, None]
    levels, which = np.unique(P[:, 1], return_inverse=True)
    if all_rules:
        rules = itertools.product([0, 1], repeat=len(levels))
        decisions = [np.array(rule)[which] for rule in rules]
    else:
        decisions = [(P[:, 1] >= level).astype(int) for level in [*levels, np.inf]]
    return np.array([[truth[d == k, k].sum() for k in (0, 1)] for d in decisions]) / truth.sum(axis=0)


def corners_of(recalls):
    """Return the points that no other point dominates: between two of them lies the best mixture."""
    kept = [a for a in recalls if not any((b >= a).all() and (b > a).any() for b in recalls)]
    return np.unique(np.round(kept, 15), axis=0)


def best_by_definition(name, P, y, weight, share, *, all_rules=False):
    """Return the largest value of a metric over all mixtures."""
    recalls = recalls_of(P, y, weight, share, all_rules=all_rules)
    if name == "min_recall":
        n = len(recalls)
        result = linprog(
            np.append(np.zeros(n), -1.0), A_ub=np.hstack([-recalls.T, np.ones((2, 1))]), b_ub=np.zeros(2),
            A_eq=[np.append(np.ones(n), 0.0)], b_eq=[1.0], bounds=[(0, None)] * n + [(None, None)],
        )  # fmt: skip
        return -result.fun
    corners = corners_of(recalls)
    best = max(value_of(name, corner) for corner in corners)
    for a, b in itertools.combinations(corners, 2):
        found = minimize_scalar(
            lambda t, a=a, b=b: -value_of(name, (1 - t) * a + t * b), bounds=(0, 1), method="bounded",
            options={"xatol": 1e-12},
        )  # fmt: skip
        best = max(best, -found.fun)
    return best


@benchmark("two-classes", "[TABLES]", "two classes")
def two_classes(n_tables=1000):
    """Compare mixtures of two classes on small tables with independent optima."""
    rows = []
    for name in METRICS:
        worst = dict.fromkeys((*MODES, "all rules"), 0.0)
        for seed, (mode, share) in itertools.product(range(n_tables), MODES.items()):
            P, y, weight = small_table(seed)
            settings = {"confusion": mode, "calibration": None, "randomized": True}
            solution = confmax.maximize(name, P, y, sample_weight=weight, **settings)
            used = solution.model_share if share is None else share
            best = best_by_definition(name, P, y, weight, used)
            worst[mode] = max(worst[mode], abs(solution.value - best))
            if mode == "model":
                best = best_by_definition(name, P, y, weight, used, all_rules=True)
                worst["all rules"] = max(worst["all rules"], abs(solution.value - best))
        rows.append([name, *(f"{each:.1e}" for each in worst.values())])
    return [
        f"the best mixture of two classes, largest |value - optimum| over {n_tables} small tables, with ties and sure "
        f"rows: over all mixtures of thresholds, and on the model of all rules that decide equal rows alike.",
        markdown(["metric", *MODES, "model, all rules"], rows),
    ]
