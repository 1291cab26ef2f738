"""confmax beside other libraries, on tables that everybody can build: ``python -m confmax_bench > benchmark.md``.

``pip install 'confmax[bench]'`` installs the other libraries; those that are missing are left out. The tables come from
data sets of scikit-learn and from its generator, with fixed seeds: nothing is downloaded, and two runs with the same
versions print the same, but for the seconds. It stands beside the package, because nobody needs it to use confmax.
"""

from __future__ import annotations

import platform
import textwrap
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import distributions
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn import datasets
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import confmax
from confmax.confusion import Confusion

METRICS = ("macro_f1", "g_mean", "min_recall", "cohen_kappa", "mcc")
FLOOR, NEAR, CONFIDENCE = 0.9, 0.02, 0.9
REPLICATES = 1000
EPSILON = 1e-9  # what counts as a difference, and what xcolumns needs where nothing is decided
Decide = Callable[[np.ndarray], np.ndarray]  # decision probabilities (n, K) of probabilities (n, K)


class Table(NamedTuple):
    """Probabilities, labels and groups (0 or 1) of rows to tune on and of held-out rows."""

    name: str
    P: np.ndarray
    y: np.ndarray
    group: np.ndarray
    Q: np.ndarray
    z: np.ndarray
    other: np.ndarray


def tables() -> Iterator[Table]:
    """Yield tables: a third of the rows fits a model, a third tunes, a third is held out."""
    digits = datasets.load_digits(return_X_y=True)
    rare = np.random.default_rng(0).random(len(digits[1])) < 0.75 ** digits[1]
    sets = {
        "breast_cancer": tuple(part[:, :4] if part.ndim > 1 else 1 - part for part in _loaded("load_breast_cancer")),
        "digits": (digits[0][rare][:, 18:30], digits[1][rare]),
        "wine": tuple(part[:, :3] if part.ndim > 1 else part for part in _loaded("load_wine")),
    }
    for seed, (K, n) in enumerate(((2, 3000), (2, 9000), (3, 3000), (4, 9000), (6, 9000))):
        shares = 0.45 ** np.arange(K)
        shape = {"n_features": 12, "n_informative": 6, "class_sep": 0.7, "flip_y": 0.05, "n_clusters_per_class": 2}
        given = {"n_classes": K, "weights": list(shares / shares.sum()), "random_state": seed, **shape}
        sets[f"generated, {K} classes, {n} rows"] = datasets.make_classification(n, **given)
    for name, (X, y) in sets.items():
        X, rest, y, of_rest = train_test_split(X, y, test_size=2 / 3, random_state=0, stratify=y)
        A, B, a, b = train_test_split(rest, of_rest, test_size=0.5, random_state=0, stratify=of_rest)
        middle = np.median(X[:, 0])
        for kind, model in (("logistic", LogisticRegression(max_iter=2000)), ("naive Bayes", GaussianNB())):
            fitted = make_pipeline(StandardScaler(), model).fit(X, y)
            P, Q = fitted.predict_proba(A), fitted.predict_proba(B)
            yield Table(f"{name}, {kind}", P, a, (A[:, 0] > middle) * 1, Q, b, (B[:, 0] > middle) * 1)


def _loaded(name: str):
    return getattr(datasets, name)(return_X_y=True)


# --- methods: functions of a metric and a table, which return how they decide, and passes or "" --------------------


def one_hot(decisions: np.ndarray, K: int) -> np.ndarray:
    """Return decisions (n,) as decision probabilities (n, K)."""
    return np.eye(K)[np.asarray(decisions, dtype=int)]


def by_weights(weights: np.ndarray) -> Decide:
    """Return the rule that decides the largest of weights (K,) times probabilities."""
    return lambda Q: one_hot((Q * weights).argmax(axis=1), Q.shape[1])


def prior(table: Table) -> np.ndarray:
    """Return the shares of the classes (K,) among the labels."""
    return np.bincount(table.y, minlength=table.P.shape[1]) / len(table.y)


def ours(**settings):
    """Return confmax with some settings."""

    def tune(metric, table):
        solution = confmax.maximize(metric, table.P, table.y, classes=range(table.P.shape[1]), **settings)
        return solution.rule.decision_probabilities, solution.n_passes

    return tune


def nelder_mead(metric, table):
    """Search class weights on the labels, from 1 / prior."""
    K = table.P.shape[1]
    start = -np.log(prior(table))

    def loss(x):
        return -value(metric, table.y, by_weights(np.exp(x))(table.P))

    found = minimize(loss, start, method="Nelder-Mead", options={"maxfev": 200 * K})
    return by_weights(np.exp(found.x)), found.nfev


def xcolumns(metric, table):
    """Search by Frank-Wolfe, one decision per row."""
    import autograd.numpy as anp
    from xcolumns.frank_wolfe import find_classifier_using_fw

    def recalls(tp, fn):
        return tp / (tp + fn + EPSILON)

    def kappa(tp, fp, fn, _tn):
        chance = anp.sum((tp + fp) * (tp + fn))
        return (anp.sum(tp) - chance) / (1.0 - chance)

    function = {
        "macro_f1": lambda tp, fp, fn, _tn: anp.mean(2 * tp / (2 * tp + fp + fn + EPSILON)),
        "g_mean": lambda tp, _fp, fn, _tn: anp.exp(anp.mean(anp.log(recalls(tp, fn) + EPSILON))),
        "min_recall": lambda tp, _fp, fn, _tn: anp.min(recalls(tp, fn)),
        "cohen_kappa": kappa,
    }[metric]
    Y = one_hot(table.y, table.P.shape[1])
    found, meta = find_classifier_using_fw(Y, table.P, function, k=1, seed=0, return_meta=True)

    # they add up to one but for rounding in single precision
    shares = np.asarray(found.p, dtype=float) / np.sum(found.p, dtype=float)

    def decide(Q):
        return sum(p * one_hot((Q * a + b).argmax(1), len(a)) for p, a, b in zip(shares, found.a, found.b, strict=True))

    return decide, meta["iters"] + 2


def cutoffs(metric, table):
    """Search thresholds of all classes by coordinate ascent."""
    from optimal_cutoffs import get_optimal_threshold

    if table.P.shape[1] == 2 or metric != "macro_f1":
        raise KeyError(metric)
    found = get_optimal_threshold(table.y, table.P, metric="f1", average="macro", method="coord_ascent")
    return lambda Q: one_hot(found.predict(Q), Q.shape[1]), ""


class Columns(ClassifierMixin, BaseEstimator):
    """A fitted model whose features are its probabilities."""

    def fit(self, _X, y):
        """Take the classes."""
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        """Return the features."""
        return np.asarray(X)

    def predict(self, X):
        """Return the most probable class."""
        return np.asarray(X).argmax(axis=1)


def tuned_threshold(metric, table):
    """Choose the best of 100 thresholds, with scikit-learn."""
    if table.P.shape[1] > 2:
        raise KeyError(metric)
    score = make_scorer(lambda y, decided: value(metric, y, np.eye(2)[decided]))
    model = FrozenEstimator(Columns().fit(None, [0, 1]))
    found = TunedThresholdClassifierCV(model, scoring=score, cv="prefit", refit=False).fit(table.P, table.y)
    return lambda Q: one_hot(found.predict(Q), 2), 100


def mapie(_metric, table):
    """Return the threshold of MAPIE whose recall is at least `FLOOR` with `CONFIDENCE`."""
    from mapie.risk_control import BinaryClassificationController

    given = {"target_level": FLOOR, "confidence_level": CONFIDENCE, "best_predict_param_choice": "accuracy"}
    found = BinaryClassificationController(lambda Q: Q, risk="recall", fwer_method="fixed_sequence", **given)
    found.calibrate(table.P, table.y)
    return lambda Q: one_hot(found.predict(Q), 2), ""


def oxonfair(_metric, table):
    """Maximise the accuracy within a floor on the recall, with OxonFair."""
    from oxonfair import FairPredictor, group_metrics

    found = FairPredictor(None, {"data": table.P, "target": table.y})
    found.fit(group_metrics.accuracy, group_metrics.recall, FLOOR)
    return lambda Q: one_hot(found.predict({"data": Q, "target": np.zeros(len(Q), int)}), 2), ""


def fairlearn(_metric, table):
    """Maximise the accuracy at rates of groups that differ by at most `NEAR`, with fairlearn."""
    from fairlearn.postprocessing import ThresholdOptimizer

    given = {"objective": "accuracy_score", "prefit": True, "predict_method": "predict_proba", "tol": NEAR}
    found = ThresholdOptimizer(estimator=Columns().fit(None, table.y), constraints="demographic_parity", **given)
    found.fit(table.P, table.y, sensitive_features=table.group)
    return lambda Q, group: found._pmf_predict(Q, sensitive_features=group), ""


def ours_in_groups(_metric, table):
    """Maximise the accuracy at rates of groups that differ by at most `NEAR`, with confmax."""
    settings = {"confusion": "labels", "calibration": None, "constraints": f"difference(rate[1] | group) <= {NEAR}"}
    found = confmax.maximize("accuracy", table.P, table.y, group=table.group, **settings)
    return lambda Q, group: found.rule.decision_probabilities(Q, group=group), found.n_passes


# --- what is measured ----------------------------------------------------------------------------------------------


def value(metric: str, y: np.ndarray, D: np.ndarray) -> float:
    """Return a metric of decision probabilities D (n, K) on labels."""
    return float(confmax.metrics.get(metric).value(one_hot(y, D.shape[1]).T @ D / len(y)))


def difference(metric: str, y: np.ndarray, D: np.ndarray, E: np.ndarray) -> tuple[float, float, float]:
    """Return the value of D minus that of E (n, K), and the ends of its 95 % interval: rows are drawn again."""
    n, K = D.shape
    weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), REPLICATES) / n
    ends = []
    for part in (D, E):
        cells = (one_hot(y, K)[:, :, None] * part[:, None, :]).reshape(n, -1)
        drawn = Confusion.from_matrix((weights @ cells).reshape(-1, K, K))
        ends.append(confmax.metrics.get(metric).values(drawn))
    low, high = np.nanquantile(ends[0] - ends[1], [0.025, 0.975])
    return value(metric, y, D) - value(metric, y, E), float(low), float(high)


def run(methods, metric, table):
    """Return (decide, passes, seconds) of every method that is installed and knows the metric."""
    found = {}
    for name, tune in methods.items():
        begun = time.perf_counter()
        try:
            found[name] = (*tune(metric, table), time.perf_counter() - begun)
        except (KeyError, ModuleNotFoundError):
            continue
    return found


def rows_of(lines: list) -> str:
    """Return a Markdown table of lines, of which the first is the head."""
    lines = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def quality(every: list[Table]) -> str:
    """Compare the methods by every metric on held-out rows."""
    methods = {
        "confmax": ours(),
        "confmax, labels": ours(confusion="labels", calibration=None),
        "argmax": lambda _metric, table: (by_weights(np.ones(table.P.shape[1])), ""),
        "p / prior": lambda _metric, table: (by_weights(1 / prior(table)), ""),
        "Nelder-Mead": nelder_mead,
        "xcolumns": xcolumns,
        "optimal-classification-cutoffs": cutoffs,
        "TunedThresholdClassifierCV": tuned_threshold,
    }
    runs, losses = defaultdict(list), []
    for table in every:
        for metric in METRICS:
            found = run(methods, metric, table)
            ours_there = found["confmax"][0](table.Q)
            for name, (decide, passes, seconds) in found.items():
                gap, low, high = difference(metric, table.z, ours_there, decide(table.Q))
                runs[name].append((gap, low > EPSILON, high < -EPSILON, passes or 0, seconds))
                if high < -EPSILON:
                    losses.append(f"* {name}, {metric} on {table.name}: {gap:+.4f} [{low:+.4f}, {high:+.4f}]")
    lines = [["method", "problems", "confmax minus it, mean", "confmax ahead", "behind", "passes", "seconds"]]
    for name, some in runs.items():
        gap, ahead, behind, passes, seconds = map(np.array, zip(*some, strict=True))
        middle = f"{np.median(passes):.0f}" if passes.any() else ""
        lines.append([name, len(some), f"{gap.mean():+.4f}", ahead.sum(), behind.sum(), middle, f"{seconds.sum():.2f}"])
    return rows_of(lines) + "\n\nWhere confmax is behind, beyond the interval:\n\n" + "\n".join(losses or ["* nowhere"])


def limits(every: list[Table]) -> str:
    """Compare accuracies within a floor on the recall, and at rates of groups that are nearly equal."""
    floor = {"constraints": f"recall[1] >= {FLOOR}", "on_infeasible": "closest"}
    recall = {
        "confmax, labels": lambda _, table: ours(confusion="labels", calibration=None, **floor)("accuracy", table),
        "confmax, confidence": lambda _, table: ours(confidence=CONFIDENCE, **floor)("accuracy", table),
        "OxonFair": oxonfair,
        "MAPIE": mapie,
    }
    equal = {"confmax, labels": ours_in_groups, "fairlearn": fairlearn}
    lines = [["limit", "method", "tables", "accuracy, tuning", "missed", "accuracy, held out", "missed", "seconds"]]
    for words, methods in ((f"recall >= {FLOOR}", recall), (f"rates within {NEAR}", equal)):
        runs = defaultdict(list)
        for table in every:
            for name, (decide, _, seconds) in run(methods, "accuracy", table).items():
                ends = []
                for P, y, group in ((table.P, table.y, table.group), (table.Q, table.z, table.other)):
                    D = decide(P, group) if methods is equal else decide(P)
                    rates = [D[group == g, 1].mean() for g in (0, 1)]
                    short = abs(rates[0] - rates[1]) - NEAR if methods is equal else FLOOR - D[y == 1, 1].mean()
                    ends += [value("accuracy", y, D), short > EPSILON]
                runs[name].append((*ends, seconds))
        for name, some in runs.items():
            tuned, missed, held, short, seconds = np.transpose(some)
            there = [f"{tuned.mean():.4f}", int(missed.sum()), f"{held.mean():.4f}", int(short.sum())]
            lines.append([words, name, len(some), *there, f"{seconds.sum():.2f}"])
    return rows_of(lines)


def main() -> None:
    """Print the page."""
    names = "numpy scipy scikit-learn xcolumns optimal-classification-cutoffs mapie oxonfair fairlearn".split()
    known = {found.name.lower(): found.version for found in distributions()}
    versions = [f"confmax {confmax.__version__}"]
    versions += [f"{name} {known[name]}" if name in known else f"no {name}" for name in names]
    with warnings.catch_warnings():
        # of classes without rows in a sample, and of the other libraries: the figures show what comes of them
        warnings.simplefilter("ignore")
        every = list(tables())
        two = [table for table in every if table.P.shape[1] == 2]
        words = {"tables": len(every), "versions": ", ".join(versions), "python": platform.python_version()}
        words |= {"metrics": ", ".join(METRICS), "near": NEAR, "confidence": CONFIDENCE, "replicates": REPLICATES}
        page = PAGE.format(**words, quality=quality(every), limits=limits(two))
    # tables and lists have lines of their own
    fill = partial(textwrap.fill, width=118, break_long_words=False, break_on_hyphens=False)
    print("\n\n".join(part if part.startswith(("|", "*")) else fill(part) for part in page.split("\n\n")))


PAGE = """# Benchmark

`pip install 'confmax[bench]'` and `python -m confmax_bench > benchmark.md` make this page, the same one but for the
seconds. Python {python}, {versions}.

There are {tables} tables: data sets of scikit-learn and of its generator, each with a logistic model and naive Bayes.
A third of the rows fits the model, a third tunes the decisions, a third is held out. All methods get the same
probabilities. [Results](results.md) has larger tables, and all that is measured beside this.

## Metrics

{metrics}, each on every table, on held-out rows. confmax is ahead or behind where the 95 % interval of the
difference (paired, {replicates} bootstrap samples of the rows) lies on one side of zero. Passes are the median number
of passes over the tuning rows, seconds those of all problems.

{quality}

## Limits

The accuracy of two classes with a floor on the recall, and with rates of two groups that differ by at most {near}. How
often the limit is missed is counted on the tuning rows and on held-out rows. confmax with `confidence={confidence}` and
MAPIE promise the floor for new rows with this probability. The groups are the halves of the first feature. fairlearn
draws decisions at random; confmax returns a rule that does not where that costs less than a row.

{limits}"""


if __name__ == "__main__":
    main()
