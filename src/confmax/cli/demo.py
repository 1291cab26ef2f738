"""`confmax demo`: four metrics on published predictions, each rule evaluated on rows that it was not tuned on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import metrics
from confmax.cli.columns import TableOptions, read_rows
from confmax.cli.outputs import check_rule_output, one_result, save_rule
from confmax.cli.show import Document, Page, number, print_document
from confmax.cli.tables import read_frame
from confmax.evaluate.decided import counts_of
from confmax.evaluate.evidence import pooled
from confmax.progress import Bar
from confmax.rule import DecisionRule
from confmax.solution import Plan
from confmax.solution.tuning import on_some_rows
from confmax.tables import make_table
from confmax.tables.draws import masks

METRICS = ("g_mean", "macro_f1", "min_recall", "cohen_kappa")
CLASSES = ("VF", "F", "M", "L")


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


def demonstrate(progress: Callable[[int, int], Any] | None = None) -> tuple[DecisionRule, dict[str, Any]]:
    """Return the G-mean rule of all rows, and the comparison as a document that JSON can hold.

    A value is that of the confusion matrix which is pooled over the folds, each decided by the rule of the others.
    ``progress`` is called with the number of steps done and in all.
    """
    proba, labels, folds = load()
    table = make_table(proba, labels, classes=CLASSES)
    fold = np.unique(folds, return_inverse=True)[1].reshape(-1)
    # None are all rows
    parts = [*(~held for held in masks(fold)), None]
    shares = [[np.mean(labels[rows] == name) for name in CLASSES] for rows in parts[:-1]]
    weights = {"argmax": np.ones((len(shares), len(CLASSES))), "p_prior": 1.0 / np.array(shares)}
    plain = {key: [DecisionRule.from_weights(one, classes=CLASSES) for one in of] for key, of in weights.items()}
    # what calibrates the rows for the first metric does so for all
    calibrations: list[Any] = ["auto"] * len(parts)
    results = []
    solutions = {}
    steps = itertools.count(1)
    for metric in METRICS:
        solve = on_some_rows(Plan.checked(metric), table)
        found = []
        for k, rows in enumerate(parts):
            # of all rows a single rule, which any export can write
            single = {"randomized": False} if rows is None else {}
            found.append(solve(rows, {"calibration": calibrations[k], **single}))
            calibrations[k] = found[-1].calibration
            if progress is not None:
                progress(next(steps), len(METRICS) * len(parts))
        best = solutions[metric] = found.pop()
        rules = {**plain, "tuned": [one.rule for one in found]}
        counts = {key: counts_of(pooled(each, table.head, fold), table.head) for key, each in rules.items()}
        known = ("model_value", "model_upper_bound", "model_gap", "guarantee")
        results.append(
            {
                "metric": metric,
                **{key: metrics.get(metric).value(C / C.sum()) for key, C in counts.items()},
                **{name: getattr(best, name) for name in known},
            }
        )
    best = solutions["g_mean"]
    return best.rule, {
        "data": "hpc_cv (R package modeldata, MIT licence): out-of-fold predictions of a classifier of computing jobs",
        "rows": len(labels),
        "folds": len(parts) - 1,
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
