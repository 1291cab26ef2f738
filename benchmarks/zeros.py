"""Probabilities of exactly zero: what they mean, and the floor that is added to them.

    python -m benchmarks zeros FOLDER_OF_NPZ

The tables: those of the folder, as they are and rounded to 2 and 3 decimals and divided by their row sums, and those
of models that count (forests, neighbours, trees) or multiply many densities (naive Bayes), on scikit-learn's own data.
A model is fitted on half of the rows and tuned on its out-of-fold probabilities of these; its probabilities of the
other half are scored. Every table counts once, as the mean over both halves. The kind of calibration is chosen as by
default, under every choice of the floor. Tables of one data set are not independent: standard errors are over data
sets. The figures are written to the section "zeros" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from unittest.mock import patch

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import confmax
from benchmarks.harness import Data, benchmark, figures, load, markdown, value
from confmax.calibration import choice, choose, log_loss, scaling
from confmax.oracle import make_table

METRICS = ["macro_f1", "g_mean", "h_mean", "q_mean", "min_recall", "cohen_kappa", "micro_f1"]
DECIMALS = (2, 3)
MODELS = {
    "forest": RandomForestClassifier(50, random_state=0),
    "extra trees": ExtraTreesClassifier(100, random_state=0),
    "neighbours": KNeighborsClassifier(10),
    "naive Bayes": GaussianNB(),
    "tree, leaves of 5": DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    "tree, pure leaves": DecisionTreeClassifier(random_state=0),
}
LOW = 0.1  # probabilities above zero that zeros are compared with
TENTH, THIRD = (3e-2, 1e-1), (3e-2, 1e-1, 3e-1)  # longer lists of floors
SEVEN = (1e-12, 1e-6, 1e-4, 1e-3, 1e-2, *TENTH)
FINER = tuple(10.0 ** np.linspace(-12, -1, 23))


# --- tables with zeros ------------------------------------------------------------------------------------------------


def rounded(data, decimals):
    """Return a table as a CSV with a few decimals holds it."""
    P, Q = (np.round(part.astype(np.float64), decimals) for part in (data.P, data.Q))
    return data._replace(P=P / P.sum(axis=1, keepdims=True), Q=Q / Q.sum(axis=1, keepdims=True))


def data_sets():
    """Yield features and labels by name."""
    for name, read in (("digits", load_digits), ("wine", load_wine), ("breast cancer", load_breast_cancer)):
        yield name, *read(return_X_y=True)
    settings = {
        "4 classes": (3000, 4, {"weights": [0.6, 0.25, 0.1, 0.05]}),
        "8 classes": (4000, 8, {"class_sep": 0.8}),
        "3 classes, noise": (2000, 3, {"flip_y": 0.1}),
        "12 classes": (1500, 12, {"class_sep": 1.5}),
    }
    for name, (n, K, more) in settings.items():
        X, y = make_classification(n, 20, n_informative=8, n_classes=K, n_clusters_per_class=1, random_state=0, **more)
        yield name, X, y


def both_halves(name, model, X, y):
    """Return the tables of a model: tuned on each half by out-of-fold probabilities, and scored on the other."""
    made = []
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for half, other in StratifiedKFold(2, shuffle=True, random_state=0).split(X, y):
        P = cross_val_predict(model, X[half], y[half], cv=folds, method="predict_proba")
        Q = model.fit(X[half], y[half]).predict_proba(X[other])
        made.append(Data(name, P, y[half], Q, y[other]))
    return made


def sources(tables):
    """Yield the kind of source and the two directions of every table."""
    for data in tables:
        yield "as they are", [data, data.turned()]
    for decimals in DECIMALS:
        for data in tables:
            made = rounded(data, decimals)
            yield f"{decimals} decimals", [made, made.turned()]
    for name, X, y in data_sets():
        for kind, model in MODELS.items():
            yield kind, both_halves(f"{name}, {kind}", model, X, y)


# --- what a zero is replaced by ---------------------------------------------------------------------------------------


def settings_of(floors, worth=scaling.FLOOR_WORTH):
    """Return the floors that calibrations choose from, and how many nats a higher one must save."""
    return patch.multiple(scaling, FLOORS=tuple(floors), FLOOR_WORTH=worth)


def any_kind():
    """Let raw probabilities count as a kind where a true class has zero, as in confmax before this was measured."""
    return patch.object(choice, "refutes_zeros", lambda _: False)


def fixed(floor):
    return settings_of([floor], -np.inf)


def filled(P, by):
    """Return P with zeros replaced by a number or by one of each class (K,)."""
    P = np.where(P > 0, P, by)
    return P / P.sum(axis=1, keepdims=True)


def sample_of(P, y, floor=scaling.FLOOR):
    return scaling.Sample(scaling.log_table(P, floor), y.astype(np.int64), np.ones(len(y)))


def of_vector(data, floors):
    """Return the floor with which powers and offsets fit best; the lowest unless that saves 2 nats."""
    losses = []
    for floor in floors:
        rows = sample_of(data.P, data.y, floor)
        theta = scaling.fit_vector(rows, scaling.one_power(scaling.fit_power(rows), data.K))
        losses.append(scaling.derivatives(rows, theta, scaling.NO_SECOND)[0])
    best = int(np.argmin(losses))
    return floors[best if losses[0] - losses[best] > scaling.FLOOR_WORTH else 0]


def of_zeros(data):
    """Return what zeros alone are replaced by, where a temperature then fits best."""

    def loss(by):
        rows = sample_of(filled(data.P, by), data.y)
        power = scaling.fit_power(rows)
        return scaling.derivatives(rows, scaling.one_power(power, data.K), scaling.NO_SECOND)[0]

    return min(FINER, key=loss)


def of_zeros_by_class(data):
    """Return what the zeros of each class (K,) are replaced by: a power, an offset and one for zeros, fitted together.

    The penalty is that of confmax, with the same on the offset of zeros.
    """
    zero, by = data.P == 0, of_zeros(data)
    z, K, n = np.log(np.where(zero, by, data.P)), data.K, len(data.y)
    hot = np.zeros((n, K))
    hot[np.arange(n), data.y] = 1.0

    def loss(theta):
        a, b, c = theta.reshape(3, K)
        s = a * z + b + c * zero
        s -= s.max(axis=1, keepdims=True)
        q = np.exp(s)
        total = q.sum(axis=1, keepdims=True)
        off = q / total - hot
        away = theta - np.repeat([1.0, 0.0, 0.0], K)
        slope = np.concatenate([(off * z).sum(axis=0), off.sum(axis=0), (off * zero).sum(axis=0)])
        return float(np.log(total).sum() - (s * hot).sum() + 0.5 * away @ away), slope + away

    start = np.repeat([1.0, 0.0, 0.0], K)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.05, None)] * K + [(None, None)] * (2 * K))
    a, _, c = found.x.reshape(3, K)
    return np.clip(by * np.exp(c / a), 1e-12, 1.0)


def zeros_replaced(by, floors=(scaling.FLOOR,)):
    """Return the variant that replaces zeros before the calibration, which chooses from ``floors``."""

    def apply(data):
        there = by(data)
        return data._replace(P=filled(data.P, there), Q=filled(data.Q, there)), settings_of(floors)

    return apply


TODAY = "list to 0.01"
LIST = (1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
NOW = "list to 0.1, never none at a zero"
ALWAYS = ", never none at a zero"  # raw probabilities do not count as a kind where a true class has zero
FIXED = {f"{floor:g} always": (lambda data, floor=floor: (data, fixed(floor))) for floor in (*LIST, *TENTH)}
ALTERNATIVES = {
    "list to 0.1": lambda data: (data, settings_of(LIST + TENTH)),
    "seven to 0.1": lambda data: (data, settings_of(SEVEN)),
    "list to 0.3": lambda data: (data, settings_of(LIST + THIRD)),
    "half decades to 0.1": lambda data: (data, settings_of(FINER)),
    "half the smallest": lambda data: (data, fixed(max(data.P[data.P > 0].min() / 2, 1e-12))),
    "best for the vector": lambda data: (data, fixed(of_vector(data, LIST))),
    "to 0.1, best for the vector": lambda data: (data, fixed(of_vector(data, LIST + TENTH))),
    TODAY + ALWAYS: lambda data: (data, settings_of(LIST)),
    "list to 0.1" + ALWAYS: lambda data: (data, settings_of(LIST + TENTH)),
    "seven to 0.1" + ALWAYS: lambda data: (data, settings_of(SEVEN)),
    "zeros alone": zeros_replaced(of_zeros),
    "zeros alone, then list": zeros_replaced(of_zeros, LIST),
    "zeros by class": zeros_replaced(of_zeros_by_class),
}
VARIANTS = {
    TODAY: lambda data: (data, settings_of(LIST)),
    "no calibration": lambda data: (data, settings_of(LIST)),
    **FIXED,
    **ALTERNATIVES,
}


# --- measuring --------------------------------------------------------------------------------------------------------


def measured(name, raw, known):
    """Return log loss and metrics on the rows to score, and the floor of the calibration; NaN without one.

    ``known`` holds the metrics of calibrations of the same rows.
    """
    data, settings = VARIANTS[name](raw)
    # the fourth kind is left out: it takes most of the time, and stands on the floor of the vector
    three = patch.object(choice, "TRIED_CLASSES", range(0))
    with settings, three, nullcontext() if name.endswith(ALWAYS) else any_kind():
        tune, test = (make_table(P, y, None, range(data.K)) for P, y in ((data.P, data.y), (data.Q, data.z)))
        found = choose(tune, None if name == "no calibration" else "auto")
        calibrator = None if found is None else found.calibrator
        # the kind is chosen once for all metrics
        kind = None if calibrator is None else found.kind
        key = calibrator if data is raw else (name, calibrator)
        if key not in known:
            known[key] = [by_metric(metric, data, kind) for metric in METRICS]
    return [log_loss(test.calibrated(calibrator)), *known[key]], np.nan if calibrator is None else calibrator.floor


def by_metric(metric, data, kind):
    rule = confmax.maximize(metric, data.P, data.y, classes=range(data.K), calibration=kind).rule
    return value(metric, data.z, rule.decision_probabilities(data.Q))


def meaning(parts):
    """Return what zeros are on all rows of a table, which its first direction holds."""
    P, y = np.vstack([parts[0].P, parts[0].Q]), np.concatenate([parts[0].y, parts[0].z])
    hit = np.zeros(P.shape, dtype=bool)
    hit[np.arange(len(y)), y] = True
    zero = P == 0
    low = ~zero & (P <= LOW)
    means = [part.mean() if part.size else np.nan for part in (hit[zero], P[low], hit[low])]
    return [zero.mean(), hit[zero].sum() / len(y), *means]


def line_of(change, sets):
    """Return the mean of differences (tables,) and its standard error, tables of a data set counting together."""
    mean = change.mean()
    off = np.bincount(sets, weights=change - mean)[np.unique(sets)]
    error = np.sqrt((off**2).sum() * len(off) / max(len(off) - 1, 1)) / len(change)
    return f"{mean:+.4f} ({error:.4f})"


def counted(change):
    """Return how many tables are better and worse by more than .002 nats, and the worst."""
    return f"{(change < -0.002).sum()} / {(change > 0.002).sum()}, {change.max():+.3f}"


def of_sources(kinds, facts, floors, losses):
    """Return for every kind of source what zeros are, which floors are chosen, and which is the best in hindsight."""
    rows = []
    for kind in dict.fromkeys(kinds):
        here = kinds == kind
        shares = np.nanmedian(facts[here], axis=0)
        chosen = floors[here].reshape(-1)
        told = ", ".join(f"{(chosen == f).sum()} x {f:g}" for f in LIST if (chosen == f).any())
        best = list(FIXED)[int(np.argmin(losses[here].mean(axis=0)))].split()[0]
        rows.append([kind, here.sum(), *figures(shares), told or "none", best])
    head = ["source", "tables", "entries that are zero", "rows whose class has zero", "frequency at zero",
            f"above zero up to {LOW:g}: mean p", "their frequency", "floors chosen", "best for all"]  # fmt: skip
    return markdown(head, rows)


@benchmark("zeros", "FOLDER")
def main(folder):
    warnings.simplefilter("ignore")
    kinds, names, facts, floors, every = [], [], [], [], []
    for kind, parts in sources(load(folder)):
        known = [{} for _ in parts]
        found = [[measured(name, *part) for part in zip(parts, known, strict=True)] for name in VARIANTS]
        kinds.append(kind)
        names.append(parts[0].stem.split("__")[0].split(", ")[0])
        facts.append(meaning(parts))
        floors.append([floor for _, floor in found[0]])
        every.append([np.mean([values for values, _ in both], axis=0) for both in found])
    sets = np.unique(names, return_inverse=True)[1]
    parts = text_of(np.array(kinds), sets, np.array(facts), np.array(floors), np.array(every))
    return [f"{parts[0]}", *parts[1:]]


def text_of(kinds, sets, facts, floors, every):
    """Return the parts of the section; ``every`` (tables, variants, 1 + metrics) holds the values."""
    groups = list(dict.fromkeys(kinds))
    change = every - every[:, :1]
    rows = [[TODAY, *figures(every[:, 0].mean(axis=0)), ""]]
    by_kind = [[TODAY, *figures(every[kinds == kind, 0, 0].mean() for kind in groups)]]
    for v, name in enumerate(VARIANTS):
        if v > 0:
            cells = [line_of(change[:, v, m], sets) for m in range(change.shape[2])]
            rows.append([name, *cells, counted(change[:, v, 0])])
            here = [kinds == kind for kind in groups]
            by_kind.append([name, *(line_of(change[part, v, 0], sets[part]) for part in here)])
    first = list(VARIANTS).index(next(iter(FIXED)))
    return [
        f"{len(kinds)} tables of {len(np.unique(sets))} data sets, each tuned on one half and scored on the other, "
        f"both ways; kinds none, temperature and vector.",
        "What the zeros are, median over the tables of a source; the floors that the chosen calibrations of both "
        "directions have; and the one floor that is best for all on the rows scored:",
        of_sources(kinds, facts, floors, every[:, first : first + len(FIXED), 0]),
        f"{TODAY} is what confmax did before: one of seven floors, the lowest or the one with which a temperature fits "
        f"best if that saves 2 nats. {NOW} is what it does now. Below the first line stand mean paired differences to "
        f"it over all tables, with standard errors; log loss in nats, and on how many tables it is lower and higher by "
        f"more than .002, and the worst.",
        "Half the smallest: half of the smallest probability above zero is the floor. Best for the vector: the floor "
        "is chosen by fits of powers and offsets. Never none at a zero: raw probabilities are no candidate where the "
        "class of a tuning row has probability zero. Zeros alone: zeros are replaced by one number, chosen by a "
        "temperature, and nothing is added to the others, or then a floor from the list. Zeros by class: the number "
        "depends on the class, from an offset for zeros that is fitted for every class.",
        markdown(["floor", "log loss", *METRICS, "log loss, lower / higher, worst"], rows),
        "Log loss, the same for each source:",
        markdown(["floor", *groups], by_kind),
    ]
