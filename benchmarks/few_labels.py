"""Classes with few labels: the default, and its weights moved toward those of p / prior or of the model.

    python -m benchmarks few-labels FOLDER_OF_NPZ

Rows of a table are drawn to tune on, without replacement from both halves, and all others are scored. Every class with
fewer than 30 labels in the draw has its weight in the tuned rule moved by the share m / (n_k + m), in logarithms and
relative to the other classes, toward 1 / prior ("p/prior"; "smoothed" adds a row to every class) or toward its weight
in the rule that is tuned on the model's confusion matrix over the same calibration ("model"). The metrics are those
whose rules are weights alone. Values are over the classes that the draw holds: a recall depends on the rows of its own
class only. The figures are written to the section "few labels" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

import confmax
from benchmarks.harness import benchmark, load, markdown, paired, value
from confmax import DecisionRule
from confmax.confusion import Gains

METRICS = ["g_mean", "h_mean", "q_mean", "min_recall"]
SIZES, DRAWS = (100, 300, 1000), 20
FEW = 30  # labels of a class
STRENGTHS = (5, 10, 30)
TARGETS = ("p/prior", "smoothed", "model")
WHOLE = ("p/prior", "model")  # in the place of the rule: the weights of all classes
VARIANTS = [(target, m) for target in TARGETS for m in STRENGTHS] + [(target, None) for target in WHOLE]


def draws(data, n):
    """Yield draws of n rows: P, y, and P, y of the other rows whose class was drawn; none where few would be left."""
    P, y = np.vstack([data.P, data.Q]), np.concatenate([data.y, data.z])
    for seed in range(DRAWS if 2 * len(y) >= 3 * n else 0):
        order = np.random.default_rng(seed).permutation(len(y))
        some, rest = order[:n], order[n:]
        rest = rest[np.isin(y[rest], y[some])]
        yield P[some], y[some], P[rest], y[rest]


def of_weights(rule):
    """Return a rule of two classes as weights: a threshold t on p is the weights t and 1 - t; other rules as they are.

    A rule that always decides the same has no weights and stays as it is.
    """
    a, b = rule.gains.a, rule.gains.b
    if rule.n_classes != 2:
        return rule
    cut = np.divide(a[:, 0] + b[:, 0] - b[:, 1], a.sum(axis=1), out=np.zeros(len(a)), where=a.sum(axis=1) > 0)
    inside = ((cut > 0) & (cut < 1))[:, None]
    weights = np.stack([cut, 1.0 - cut], axis=1)
    return replace(rule, gains=Gains.reduced(np.where(inside, weights, a), np.where(inside, 0.0, b)))


def logs(rule, present):
    """Return the mean logarithm (K,) of the weights over the atoms that have one for every class; None without any."""
    a, b = rule.gains.a, rule.gains.b
    plain = (a[:, present] > 0).all(axis=1) & (b == 0).all(axis=1)
    if not plain.any():
        return None
    mean = np.zeros(a.shape[1])
    mean[present] = np.average(np.log(a[plain][:, present]), axis=0, weights=rule.weights[plain])
    return mean


def moved(rule, count, target, m):
    """Return the rule with the weights of classes with few labels moved toward ``target`` (K,), logarithms.

    The other classes are where both have the same mean, each class counting by its labels.
    """
    present = count > 0
    start = logs(rule, present)
    if start is None or target is None:
        return rule
    away = target - start
    away = np.where(present, away - np.average(away, weights=count), 0.0)
    share = 1.0 if m is None else np.where(count < FEW, m / (count + m), 0.0)
    # atoms that always decide the same have weights of zero, and keep them
    return replace(rule, gains=Gains.reduced(rule.gains.a * np.exp(share * away), rule.gains.b))


def one_draw(name, P, y, Q, z):
    """Return the values of the default and of the variants on the rows that were not drawn, and the model's share."""
    count = np.bincount(y, minlength=P.shape[1])
    settings = {"classes": range(P.shape[1])}
    found = confmax.maximize(name, P, y, **settings)
    rule = of_weights(found.rule)
    calibrator = None if found.calibration is None else found.calibration.calibrator
    model = of_weights(confmax.maximize(name, P, y, confusion="model", calibration=calibrator, **settings).rule)
    # where a rule on raw probabilities is the best on the tuning rows, the other's weights are not for it
    alike = model.calibrator == rule.calibrator
    with np.errstate(divide="ignore"):
        targets = {
            "p/prior": np.where(count > 0, -np.log(count), 0.0),
            "smoothed": -np.log(count + 1.0),
            "model": logs(model, count > 0) if alike else None,
        }
    rules = [rule, *(moved(rule, count, targets[target], m) for target, m in VARIANTS[: -len(WHOLE)])]
    rules += [plain(rule, targets["p/prior"]), model]
    return [value(name, z, each.decision_probabilities(Q)) for each in rules], found.model_share


def plain(rule, weights):
    """Return the rule of one set of weights, logarithms (K,), over the calibration of a ``rule``."""
    made = DecisionRule.from_weights(np.exp(weights - weights.max()), classes=rule.class_names)
    return replace(made, calibrator=rule.calibrator)


def one_size(tables, n):
    """Return the values (metrics, 1 + variants) of each table, the mean over its draws, and what was drawn."""
    values, shares, few = {}, [], []
    for data in tables:
        found = []
        for P, y, Q, z in draws(data, n):
            count = np.bincount(y, minlength=data.K)
            if (count >= FEW).all() or (count > 0).sum() < 2:
                continue
            rows, share = zip(*(one_draw(name, P, y, Q, z) for name in METRICS), strict=True)
            found.append(rows)
            shares.append(np.mean(share))
            few.append(((count < FEW) & (count > 0)).sum())
        if found:
            values[data.stem] = np.mean(found, axis=0)
    return values, np.mean(shares), np.mean(few)


def verdict(change):
    """Return whether differences (tables,) are enough to adopt what makes them."""
    mean, error = paired(change)
    return mean >= 2.0 * error and mean > 0 and change.min() >= -0.01


def table_of(values):
    every = np.array(list(values.values()))
    rows = [["default, value", "", *(f"{mean:.4f}" for mean in every[:, :, 0].mean(axis=0)), ""]]
    for v, (target, m) in enumerate(VARIANTS, 1):
        change = every[:, :, v] - every[:, :, 0]
        cells = ["{:+.4f} ({:.4f}), {:+.3f}".format(*paired(d), d.min()) for d in change.T]
        passed = [name for name, d in zip(METRICS, change.T, strict=True) if verdict(d)]
        rows.append([target, "all classes" if m is None else m, *cells, ", ".join(passed) or "none"])
    return markdown(["toward", "m", *METRICS, "gains enough on"], rows, words=2)


@benchmark("few-labels", "FOLDER", "few labels")
def main(folder):
    warnings.simplefilter("ignore")
    tables, parts = load(folder), []
    for n in SIZES:
        values, share, few = one_size(tables, n)
        parts += [
            f"{n} rows, {len(values)} tables, {few:.1f} classes with 1 to {FEW - 1} labels per draw, the model's mean "
            f"share in the default's blend {share:.2f}:",
            table_of(values),
        ]
    return [
        f"{DRAWS} draws of rows per "
        f"table, all other rows scored; draws without a class of 1 to {FEW - 1} labels are left out. Mean over tables "
        f"of the paired difference to the default, its standard error, and the worst table. A variant gains enough if "
        f"the mean is at least two standard errors above zero and no table loses more than .01.",
        *parts,
    ]
