"""`confmax demo`: four metrics on published predictions, each rule evaluated on rows that it was not tuned on."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import metrics
from confmax.calibration import Calibration
from confmax.cli.columns import TableOptions, read_rows
from confmax.cli.outputs import check_rule_output, one_result, save_rule
from confmax.cli.show import Bar, Document, Page, number, print_document
from confmax.cli.tables import read_frame
from confmax.oracle import make_oracle
from confmax.rule import DecisionRule
from confmax.solution import Solution, maximize
from confmax.tables import make_table
from confmax.tables.draws import cross_fit, masks

METRICS = ("g_mean", "macro_f1", "min_recall", "cohen_kappa")
CLASSES = ("VF", "F", "M", "L")
Fit = Callable[[NDArray[np.bool_]], DecisionRule]


def demo(out: Path | None, force: bool, as_json: bool) -> None:
    """Run `confmax demo`."""
    one_result(as_json, out)
    check_rule_output(out, force)
    # each step tunes a rule for every fold, so that the bar has something to show from the start
    with Bar("tuning", "steps", after=0) as bar:
        rule, document = demonstrate(bar.update)
    document["rule_file"] = save_rule(rule, out, force)
    print_document(document, as_json, partial(_show, rule=rule), out)


# --- the work --------------------------------------------------------------------------------------------------------


def load() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return probabilities (n, 4), labels (n,) and folds (n,) of the bundled table."""
    with as_file(files("confmax") / "data" / "hpc_cv.csv") as path:
        frame = read_frame(path)
        rows = read_rows(frame, TableOptions(label="obs", columns=CLASSES, classes=CLASSES))
        assert rows.labels is not None
        return rows.proba, rows.labels, frame.names_in("fold", "column")


def held_out_value(metric: str, fit: Fit, table: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]) -> float:
    """Return a metric on held-out rows: a rule is fitted on all folds but one and decides that one; counts are pooled.

    Parameters
    ----------
    metric : str
        Name of the metric, evaluated once on the pooled confusion matrix.
    fit : callable
        Maps which rows to use (n,) to a rule.
    table : tuple
        From `load`.
    """
    proba, labels, folds = table
    pooled = np.zeros((len(CLASSES), len(CLASSES)))
    for part, rule in cross_fit(lambda part: fit(~part), masks(folds)):
        # the scan that tuning has compiled, rather than the rule's own; a rule that draws counts by its probabilities
        oracle = make_oracle(make_table(proba[part], labels[part], classes=CLASSES), "labels")
        matrix = rule.evaluate(oracle, matrix=True).matrix
        assert matrix is not None
        pooled += matrix * part.sum()
    return metrics.get(metric).value(pooled / pooled.sum())


class Tuner:
    """Tunes rules for several metrics on parts of one table, and calibrates each part once."""

    def __init__(self, proba: NDArray[Any], labels: NDArray[Any]) -> None:
        self.proba = proba
        self.labels = labels
        self.calibrations: dict[bytes, Calibration | None] = {}

    def solve(self, metric: str, rows: NDArray[np.bool_]) -> Solution:
        """Return the solution for a metric on some ``rows`` (n,)."""
        proba = self.proba[rows]
        labels = self.labels[rows]
        key = rows.tobytes()
        calibration = self.calibrations.get(key, "auto")
        found = maximize(metric, proba, labels, classes=CLASSES, calibration=calibration)
        self.calibrations[key] = found.calibration
        return found

    def rule(self, metric: str, rows: NDArray[np.bool_]) -> DecisionRule:
        """Return the rule of the solution."""
        return self.solve(metric, rows).rule

    def by_prior(self, rows: NDArray[np.bool_]) -> DecisionRule:
        """Return the rule that divides by the class shares."""
        return DecisionRule.from_weights(
            [1.0 / np.mean(self.labels[rows] == name) for name in CLASSES], classes=CLASSES
        )


def _argmax(_rows: NDArray[np.bool_]) -> DecisionRule:
    return DecisionRule.from_weights(np.ones(len(CLASSES)), classes=CLASSES)


def demonstrate(progress: Callable[[int, int], Any] | None = None) -> tuple[DecisionRule, dict[str, Any]]:
    """Return the G-mean rule of all rows, and the comparison as a document that JSON can hold.

    Parameters
    ----------
    progress : callable or None
        Called with the number of steps done and in all.
    """
    table = load()
    proba, labels, folds = table
    tuner = Tuner(proba, labels)
    every = np.ones(len(labels), dtype=bool)
    results = []
    solutions = {}
    for done, metric in enumerate(METRICS):
        fits: dict[str, Fit] = {"argmax": _argmax, "p_prior": tuner.by_prior, "tuned": partial(tuner.rule, metric)}
        row: dict[str, Any] = {"metric": metric}
        for step, (key, fit) in enumerate(fits.items()):
            if progress is not None:
                progress(done * 4 + step, len(METRICS) * 4)
            row[key] = held_out_value(metric, fit, table)
        if progress is not None:
            progress(done * 4 + 3, len(METRICS) * 4)
        found = solutions[metric] = tuner.solve(metric, every)
        results.append(
            row
            | {
                "model_value": found.model_value,
                "model_upper_bound": found.model_upper_bound,
                "model_gap": found.model_gap,
                "guarantee": found.guarantee,
            }
        )
    best = solutions["g_mean"]
    return best.rule, {
        "data": "hpc_cv (R package modeldata, MIT licence): out-of-fold predictions of a classifier of computing jobs",
        "rows": len(labels),
        "folds": len(np.unique(folds)),
        "classes": {name: int(np.sum(labels == name)) for name in CLASSES},
        "confusion": best.mode,
        "results": results,
        "rule": json.loads(best.rule.to_json()),
    }


# --- what is printed -------------------------------------------------------------------------------------------------


def _show(page: Page, document: Document, rule: DecisionRule) -> None:
    """Print the comparison on held-out rows, how to read it, and the rule."""
    sizes = ", ".join(f"{name} {count}" for name, count in document["classes"].items())
    page.items({"data": document["data"], "rows": f"{document['rows']} ({sizes})"})
    page.say()
    body = [
        [row["metric"], *(number(row[key]) for key in ("argmax", "p_prior", "tuned"))] for row in document["results"]
    ]
    page.table(["metric", "argmax", "p/prior", "tuned"], body, best=3)
    folds = document["folds"]
    page.say(
        "",
        f"The numbers are values on held-out rows: each rule was tuned on {folds - 1} folds and evaluated on the "
        f"remaining fold; counts are pooled over folds. The confusion matrix that 'tuned' maximises averages what the "
        f"calibrated probabilities expect and the observed counts.",
        "",
        f"What is known of the rules that are tuned on all {document['rows']} rows:",
    )
    page.items({row["metric"]: row["guarantee"] for row in document["results"]})
    page.say("", f"The rule for g_mean, tuned on all {document['rows']} rows:", style="bold")
    page.block(str(rule))
    out = document["rule_file"]
    written = f"Rule written to {out}. Next: confmax apply {out} YOUR_FILE.csv -o decided.csv"
    page.say("", "The rule is not saved; confmax demo -o rule.json writes it to a file." if out is None else written)
