"""Calibration: seconds for a large table, and log loss before and after on real ones.

    python -m benchmarks calibration FOLDER_OF_NPZ

Each NPZ holds P_tune, y_tune, P_test, y_test. The kind is chosen and fitted on the first two; its log loss is that of
held-out rows of these, and of the other two. What the fourth kind, the matrix, adds to the three others is measured
inside `confmax.maximize`, on the tables both ways round and on samples of 300 rows. The figures are written to the
section "calibration" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

import numpy as np

import confmax
from benchmarks.harness import Data, benchmark, figures, load, markdown, paired, value
from confmax.calibration import Temperature, VectorScaling, choice, choose, fit, log_loss, scaling
from confmax.calibration.scaling import FLOOR, Sample, fit_power, fit_vector, log_table, one_power
from confmax.oracle import make_table

KINDS = ("temperature", "vector", "matrix")
METRICS = ("q_mean", "micro_f1", "macro_f1", "g_mean", "h_mean", "min_recall")
FEW, SAMPLES, SEED = 300, 20, 17  # rows of a small table, and samples of every table


@contextmanager
def as_before():
    """Choose among three kinds and seven floors, and take raw probabilities even where a true class has zero."""
    with (
        mock.patch.object(choice, "TRIED_CLASSES", range(0)),
        mock.patch.object(choice, "refutes_zeros", return_value=False),
        mock.patch.object(scaling, "FLOORS", scaling.FLOORS[:7]),
    ):
        yield


def both(data):
    """Return the table to tune on and the one to score on."""
    return [make_table(P, y, None, range(data.K)) for P, y in ((data.P, data.y), (data.Q, data.z))]


def one_table(data):
    tune, test = both(data)
    found = choose(tune)
    after = {kind: log_loss(test.calibrated(choose(tune, kind).calibrator)) for kind in KINDS}
    after["none"] = log_loss(test)
    difference = np.log(own(test)) - np.log(own(test.calibrated(found.calibrator)))
    error = difference.std() / np.sqrt(len(difference))
    return found, after, error


def own(table):
    return np.maximum(table.proba[np.arange(table.n_rows), table.labels].astype(float), 1e-12)


def real_tables(tables):
    head = ["table", "kind", "tuning, before", "tuning, after (held out)", "test, before", "test, after",
            "change on test, standard error", "none, temperature, vector, matrix on test"]  # fmt: skip
    rows = []
    changed = worse = clearly = best = 0
    changes = []
    for data in tables:
        found, after, error = one_table(data)
        change = after[found.kind] - after["none"]
        changes.append(change)
        changed += found.kind != "none"
        worse += change > 0
        clearly += change > 2 * error
        best += after[found.kind] <= min(after.values())
        losses = [found.cv_log_loss_before, found.cv_log_loss_after, after["none"], after[found.kind]]
        every = figures(after[kind] for kind in ("none", *KINDS))
        rows.append([data.stem, found.kind, *figures(losses), f"{change:+.4f} ({error:.4f})", ", ".join(every)])
    told = (
        f"{changed} of {len(changes)} tables are changed; on test rows the log loss is worse than without calibration "
        f"on {worse}, by more than two standard errors on {clearly}; mean change {np.mean(changes):+.4f}, median "
        f"{np.median(changes):+.4f}; the kind chosen is the best of the four on test on {best}."
    )
    return told + "\n\n" + markdown(head, rows, words=2)


def fourth(data):
    """Return what differs from the default before there was a matrix, in log loss and six metrics on rows not tuned on.

    The second result names the kinds then and now, or is None where nothing differs.
    """
    tune, test = both(data)
    found, changes = choose(tune), np.zeros(1 + len(METRICS))
    with as_before():
        before = choose(tune)
        if before.calibrator == found.calibrator:
            return changes, None
        plain = [confmax.maximize(name, data.P, data.y, classes=range(data.K)) for name in METRICS]
    tuned = [confmax.maximize(name, data.P, data.y, classes=range(data.K)) for name in METRICS]
    losses = [log_loss(test if each.calibrator is None else test.calibrated(each.calibrator))
              for each in (found, before)]  # fmt: skip
    changes[0] = losses[0] - losses[1]
    for k, (name, one, other) in enumerate(zip(METRICS, tuned, plain, strict=True)):
        values = [value(name, data.z, each.rule.decision_probabilities(data.Q)) for each in (one, other)]
        changes[k + 1] = values[0] - values[1]
    return changes, f"{before.kind} -> {found.kind}"


def both_ways(tables):
    """Return the changes of all tables both ways round, with standard errors over the tables."""
    rows, changes = [], []
    for data in tables:
        for half, each in (("", data), (", turned", data.turned())):
            change, before = fourth(each)
            changes.append(change)
            if before is not None:
                rows.append([data.stem + half, before, len(each.y), *figures(change, "+.4f")])
    means = np.array(changes).reshape(len(tables), 2, -1).mean(axis=1)
    rows.append(["**mean (standard error)**", "", "", *(f"{m:+.4f} ({e:.4f})" for m, e in map(paired, means.T))])
    told = (
        f"What differs from the default before there was a matrix (three kinds, floors to .01), on rows not tuned on, "
        f"{len(tables)} tables both ways round: log loss, and values of `maximize` with its defaults. {len(rows) - 1} "
        f"of {len(changes)} halves differ; the means are over all halves, the standard errors over the tables."
    )
    return told + "\n\n" + markdown(["table", "kinds", "rows", "log loss", *METRICS], rows, words=2)


def small(tables):
    """Return the changes on samples of few rows, scored on all others."""
    means, chosen = [], 0
    for number, data in enumerate(tables):
        P, y = np.concatenate([data.P, data.Q]), np.concatenate([data.y, data.z])
        changes = []
        for k in range(SAMPLES):
            order = np.random.default_rng([SEED, number, k]).permutation(len(y))
            few, rest = order[:FEW], order[FEW:]
            change, before = fourth(Data(data.stem, P[few], y[few], P[rest], y[rest]))
            changes.append(change)
            chosen += before is not None and before.endswith("matrix")
        means.append(np.mean(changes, axis=0))
    means = np.array(means)
    rows = [
        ["mean (standard error)", *(f"{m:+.5f} ({e:.5f})" for m, e in map(paired, means.T))],
        ["worst table", *figures([means[:, 0].max(), *means[:, 1:].min(axis=0)], "+.4f")],
        ["best table", *figures([means[:, 0].min(), *means[:, 1:].max(axis=0)], "+.4f")],
    ]
    told = (
        f"The same on small tables: {SAMPLES} samples of {FEW} rows of every table, scored on the rest; the matrix is "
        f"chosen in {chosen} of {SAMPLES * len(tables)} (seed {SEED})."
    )
    return told + "\n\n" + markdown(["over tables", "log loss", *METRICS], rows)


def without_floor(table, kind):
    """Return the calibrator of a kind over the lowest floor, 1e-12, whatever would fit best."""
    rows = Sample(log_table(table.proba, FLOOR), table.labels, np.ones(table.n_rows))
    power = fit_power(rows)
    if kind == "temperature":
        return Temperature(1.0 / power)
    return VectorScaling(*fit_vector(rows, one_power(power, table.n_classes)))


def floors(tables):
    """Return what the floor changes on the rows not fitted on: both halves of every table, each fitted once."""
    head, lines = ["kind", "log loss, lowest floor", "fitted floor", "accuracy, lowest floor", "fitted floor"], []
    largest = (0.0, "")
    for kind in ("temperature", "vector"):
        rows = []
        for data in (part for each in tables for part in (each, each.turned())):
            half, other = both(data)
            made = [other.calibrated(c) for c in (without_floor(half, kind), fit(half, kind))]
            hits = [float((table.proba.argmax(axis=1) == table.labels).mean()) for table in made]
            rows.append([*(log_loss(table) for table in made), *hits])
            raw = float((other.proba.argmax(axis=1) == other.labels).mean())
            largest = max(largest, (raw - hits[0], f"{data.stem}, {kind}: {raw:.4f} raw, {hits[0]:.4f} with the "
                                                   f"lowest floor, {hits[1]:.4f} with the fitted one"))  # fmt: skip
        lines.append([kind, *figures(np.mean(rows, axis=0))])
    told = "What the floor changes, mean over both halves of every table, each scored on the half it was not fitted on."
    return "\n\n".join([told, markdown(head, lines), f"Largest loss of accuracy without it: {largest[1]}."])


@benchmark("calibration", "FOLDER")
def main(folder):
    tables = load(folder)
    return [
        "`calibration='auto'`, log loss in nats.",
        real_tables(tables),
        both_ways(tables),
        small(tables),
        floors(tables),
    ]
