"""What intervals cost and whether they cover; what the rules of the folds cost.

python -m benchmarks.uncertainty
"""

import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

import confmax
from benchmarks.results import write_section
from confmax import DecisionRule, MetricClassifierCV
from confmax.populations import continuous_example, population_confusion

TABLES = ((10_000, 5), (100_000, 20), (10_000, 100), (1_000_000, 10))
METRICS = ["macro_f1", "g_mean", "mcc"]
REPEATS = 3
BY_ROWS = 5  # replicates of the bootstrap of rows, of which 1000 are too slow
COVERED = ["accuracy", "balanced_accuracy", "macro_f1", "cohen_kappa", "g_mean", "min_recall"]
SAMPLES = 400
FITS = ((2_000, 3), (20_000, 5))


def table(n, K, seed=0):
    """Return probabilities (n, K) that sum to one, labels drawn from them, and two rules."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.3), n)
    y = (P.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, K - 1)
    return P, y, {name: DecisionRule.from_weights(rng.random(K) + 0.5) for name in ("one", "two")}


def median_of(call, repeats=REPEATS):
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
    lines = [
        "rows x classes | no weights, s | stratified, s | three distinct weights, s | all weights distinct, s | "
        "bootstrap of rows, s",
        "---|---:|---:|---:|---:|---:",
    ]
    for n, K in TABLES:
        P, y, rules = table(n, K)
        rng = np.random.default_rng(1)
        few, many = rng.integers(1, 4, n), rng.gamma(1.0, size=n) + 0.01
        decisions = [P.argmax(1)] * 2 + [rule.predict(P) for rule in rules.values()]

        def run(P=P, y=y, rules=rules, **more):
            return confmax.score(METRICS, P, y, rules=rules, **more)

        large = n >= 1_000_000
        seconds = [
            median_of(run),
            median_of(lambda run=run: run(stratified=True)),
            median_of(lambda run=run, w=few: run(sample_weight=w)),
            None if large else median_of(lambda run=run, w=many: run(sample_weight=w), 1),
            median_of(lambda y=y, d=decisions, K=K: by_rows(y, d, K, BY_ROWS), 1) * 1000 / BY_ROWS,
        ]
        lines.append(" | ".join([f"{n:,} x {K}", *("-" if s is None else f"{s:.2f}" for s in seconds)]))
    return lines


def coverage():
    """Return lines of the share of samples whose intervals hold the population's value."""
    population, rule = continuous_example(), DecisionRule.from_weights([1.0, 2.0, 4.0])
    plain = DecisionRule.from_weights(np.ones(3))
    truth = [
        population_confusion(population, lambda X, h=h: h.decision_probabilities(population.eta(X)))
        for h in (rule, plain)
    ]
    lines = ["metric | " + " | ".join(f"{n} rows, value | difference" for n in (100, 300, 1000)), "---" + "|---:" * 6]
    cells = {name: [] for name in COVERED}
    for n in (100, 300, 1000):
        hits = np.zeros((len(COVERED), 2))
        for seed in range(SAMPLES):
            X, y = population.sample(n, seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                found = confmax.score(COVERED, population.eta(X), y, rule, random_state=seed)
            for m, name in enumerate(COVERED):
                value, base = (confmax.metrics.get(name).value(C) for C in truth)
                e, d = found.estimate("rule", name), found.difference("rule", "argmax", name)
                hits[m] += e.low <= value <= e.high, d.low <= value - base <= d.high
        for name, hit in zip(COVERED, hits, strict=True):
            cells[name] += [f"{share:.1%}" for share in hit / SAMPLES]
    return lines + [" | ".join([name, *cells[name]]) for name in COVERED]


def folds():
    """Return lines of times of a fit with and without the rules of the folds."""
    lines = ["rows x classes | metric | fit, s | with the rules of five folds, s | added, s", "---|---|---:|---:|---:"]
    for n, K in FITS:
        rng = np.random.default_rng(0)
        means = rng.normal(size=(K, 5))
        y = rng.choice(K, n, p=np.arange(1, K + 1) / np.arange(1, K + 1).sum())
        X = means[y] + rng.normal(size=(n, 5))
        for metric in ("macro_f1", "g_mean"):
            t = [
                median_of(
                    lambda f=f, X=X, y=y, metric=metric: MetricClassifierCV(
                        LogisticRegression(), metric=metric, fold_rules=f
                    ).fit(X, y),
                    2,
                )
                for f in (False, True)
            ]
            lines.append(f"{n:,} x {K} | {metric} | {t[0]:.2f} | {t[1]:.2f} | {t[1] - t[0]:.2f}")
    return lines


def main():
    text = [
        f"`python -m benchmarks.uncertainty`, one thread, seconds of processor time. `confmax.score` with 1000 "
        f"replicates, {len(METRICS)} metrics ({', '.join(METRICS)}) and four rules, checks and decisions included, "
        f"median of {REPEATS} calls; probabilities Dirichlet(0.3). Required: under 2 s at 100,000 x 20. Beside it "
        f"the plain bootstrap, which draws row numbers and counts four matrices with NumPy and has no metrics yet "
        f"({BY_ROWS} replicates times {1000 // BY_ROWS}).",
        "",
        *costs(),
        "",
        f"Coverage of 95 % intervals: of {SAMPLES} samples of three Gaussian classes (priors .6, .3, .1), the share "
        "whose interval holds the population's value of a fixed rule, and of its difference to argmax (standard error "
        "1.1 points).",
        "",
        *coverage(),
        "",
        "The rules of the folds (`fold_rules_` of `MetricClassifierCV`, logistic regression, five folds), processor "
        "time, median of two fits.",
        "",
        *folds(),
    ]
    write_section("uncertainty", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
