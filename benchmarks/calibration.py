"""Calibration: the log loss before and after on real tables, and what its floor changes.

The kind is chosen and fitted on the tuning rows; its log loss is that of held-out rows of these, and of the test rows.
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from benchmarks.harness import benchmark, figures, keep, load, markdown
from confmax.calibration import choose, fit, log_loss, scaling
from confmax.oracle import make_table

KINDS = ("temperature", "vector", "matrix")


def both(data):
    """Return the table to tune on and the one to score on."""
    return [make_table(P, y, None, data.classes) for P, y in ((data.P, data.y), (data.Q, data.z))]


def losses_of_rows(table):
    """Return minus the log loss of every row (n,)."""
    rows = table.head
    return np.log(np.maximum(rows.proba[np.arange(rows.n_rows), rows.labels].astype(float), 1e-12))


def real_tables(tables):
    """Return a paragraph on the log loss before and after."""
    rows, changes, counted = [], [], np.zeros(4, dtype=int)
    for data in tables:
        tune, test = both(data)
        chosen = choose(tune)
        after = {kind: log_loss(test.calibrated(choose(tune, kind).calibrator)) for kind in KINDS}
        after["none"] = log_loss(test)
        difference = losses_of_rows(test) - losses_of_rows(test.calibrated(chosen.calibrator))
        error = difference.std() / np.sqrt(len(difference))
        change = after[chosen.kind] - after["none"]
        changes.append(change)
        is_best = after[chosen.kind] <= min(after.values())
        counted += [chosen.kind != "none", change > 0, change > 2 * error, is_best]
        tuning = figures([chosen.cv_log_loss_before, chosen.cv_log_loss_after])
        rows.append([data.stem, chosen.kind, *tuning, *figures(after.values()), f"{change:+.4f} ({error:.4f})"])
    head = ["table", "kind", "tuning, before", "after, held out", *(f"test, {kind}" for kind in (*KINDS, "none"))]
    keep("calibration", [*head, "change on test (standard error)"], rows, 2)
    changed, worse, clearly, best = counted
    return (
        f"{changed} of {len(changes)} tables are changed; on test rows the log loss is worse than without calibration "
        f"on {worse}, by more than two standard errors on {clearly}; mean change {np.mean(changes):+.4f}, median "
        f"{np.median(changes):+.4f}; the kind chosen is the best of the four on test on {best}."
    )


def fixed(floor):
    """Let calibrations take one floor."""
    return patch.multiple(scaling, FLOORS=(floor,), FLOOR_WORTH=-np.inf)


def floors(tables):
    """Return a table, and a sentence, on what the floor changes on the rows not fitted on, both ways round."""
    lines, largest = [], (0.0, "")
    for kind in ("temperature", "vector"):
        rows = []
        for data in (part for table in tables for part in (table, table.turned())):
            half, other = both(data)
            with fixed(scaling.FLOOR):
                lowest = fit(half, kind)
            made = [other, other.calibrated(lowest), other.calibrated(fit(half, kind))]
            raw, low, fitted = (float((table.head.proba.argmax(axis=1) == table.head.labels).mean()) for table in made)
            rows.append([*(log_loss(table) for table in made[1:]), low, fitted])
            sentence = (
                f"{data.stem}, {kind}: {raw:.4f} raw, {low:.4f} with the lowest floor, {fitted:.4f} with the fitted one"
            )
            largest = max(largest, (raw - low, sentence))
        lines.append([kind, *figures(np.mean(rows, axis=0))])
    head = ["kind", "log loss, lowest floor", "fitted floor", "accuracy, lowest floor", "fitted floor"]
    return markdown(head, lines), f"Largest loss of accuracy without it: {largest[1]}."


@benchmark("calibration", "FOLDER")
def calibration(folder):
    """Measure the log loss before and after, and what the floor changes."""
    tables = load(folder)
    table, sentence = floors(tables)
    return [
        "`calibration='auto'`, log loss in nats.",
        real_tables(tables),
        "What the floor changes, mean over both halves of every table, each scored on the half it was not fitted on.",
        table,
        sentence,
    ]
