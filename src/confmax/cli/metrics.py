"""`confmax metrics`: the catalogue; and which metric applies to the classes of a file or a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from confmax import metrics as catalogue
from confmax.calibration.column_order import doubt_of_order
from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions, joined, read_rows
from confmax.cli.show import Document, Page, print_document
from confmax.cli.tables import read_frame
from confmax.confusion import MAX_MATRIX_CLASSES
from confmax.evaluate.applicable import named
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned, or_its_name
from confmax.rule import DecisionRule
from confmax.tables import MemoryTable, make_table


@app.confmax.command()
@app.AS_JSON
def metrics(as_json: bool) -> None:
    """List the metrics: names, structure, parameters.

    \b
    Example:
      confmax metrics
    """
    document = every_metric()
    print_document(document, as_json, _show)


def every_metric() -> Document:
    """Return the metrics with what there is to know of each."""
    entries = []
    for name in catalogue.names():
        metric = catalogue.get("linear", cost=np.zeros((2, 2))) if name == "linear" else catalogue.get(name)
        free = {key: value for key, value in metric.params if key not in metric.fixed}
        entries.append(
            {
                "name": name,
                "aliases": sorted(alias for alias, target in catalogue.aliases().items() if target == name),
                "structure": metric.structure.name,
                "parameters": free,
                "two_classes": metric.binary,
                "one_class": metric.one_class is not None,
                "needs_order": metric.ordered,
                "description": metric.description,
            }
        )
    return {"metrics": entries}


def _show(page: Page, document: Document) -> None:
    """Print the catalogue."""
    body = []
    for entry in document["metrics"]:
        description = entry["description"]
        if entry["parameters"]:
            description += "; takes " + ", ".join(f"{key}={value}" for key, value in entry["parameters"].items())
        if entry["aliases"]:
            description += "; also called " + ", ".join(entry["aliases"])
        needs = "two classes" if entry["two_classes"] else ("class order" if entry["needs_order"] else "")
        needs += ", or [NAME]" if entry["one_class"] else ""
        body.append([entry["name"], entry["structure"], needs, description])
    page.table(["name", "structure", "needs", "what it is"], body, right=False)
    page.say()
    page.say(
        "linear, ratio and concave metrics come with an optimality guarantee (confmax tune --confusion model). 'needs' "
        "shows what else to give: --positive or --classes. A metric of one class takes its name in brackets, as in "
        "'recall[yes]'. Set parameters with --param; linear takes --costs."
    )


# --- which metric applies --------------------------------------------------------------------------------------------


def not_applicable(metric: Metric, rows: FileRows) -> str:
    """Return why a metric has no value on these rows, nothing if it has."""
    K = len(rows.classes)
    if metric.binary and K != 2:
        of_one = f"; for one class write {metric.name}[NAME]" if metric.one_class else ""
        return f"for two classes; the file has {K}{of_one}"
    if metric.statistics == "matrix" and K > MAX_MATRIX_CLASSES:
        return f"the confusion matrix of {K} classes is too large"
    if rows.order_known or not metric.ordered:
        return ""
    positive = ", or name the positive class with --positive" if K == 2 else ""
    return f"the order of the classes is not known; give it with --classes{positive}"


def check_applies(metric: Metric, rows: FileRows) -> None:
    """Refuse a metric that was asked for by name and has no value on these rows."""
    K = len(rows.classes)
    if metric.binary:
        metric.check_table(K, K)  # with more classes no order helps
    why = not_applicable(metric, rows)
    if why and "order" in why:
        positive = " (the negative first), or the positive one with --positive" if K == 2 else ""
        raise ValueError(
            f"{metric.name} depends on the order of the classes, and the order of {joined(rows.classes)} is not known; "
            f"give the order with --classes{positive}{or_its_name(metric, rows.classes)}"
        )
    if why:
        raise ValueError(f"{metric.name} does not apply: {why}")


def rows_for(rule: DecisionRule | None, file: Path, options: TableOptions) -> FileRows:
    """Return the rows of a file, matched to the classes of a rule if there is one; the notes on them are printed."""
    # whose probability a single column of scores is may be known from what the rule was tuned for
    known = () if rule is None else (rule.class_names[: rule.n_classes], positive_of(rule))
    rows = read_rows(read_frame(file, options.sep), options, *known)
    for note in rows.notes:
        app.warn(note)
    return rows


def judged_table(rows: FileRows) -> MemoryTable:
    """Return labelled rows as a table; classes without rows, and columns that seem to be in another order, are told."""
    table = make_table(rows.proba, rows.labels, rows.weight, rows.classes).in_memory()
    absent = [name for name, weight in zip(rows.classes, table.label_weight(), strict=True) if not weight]
    if absent:
        app.warn(f"no row has the label {joined(absent)}: metrics that divide by class sizes leave it out")
    doubt = doubt_of_order(table, calibrated=0.0)
    if doubt:
        app.warn(doubt)
    return table


def over(rule: DecisionRule, classes: tuple[Any, ...]) -> DecisionRule:
    """Return the rule with its classes in this order, further decisions behind them."""
    return rule.reordered((*classes, *rule.class_names[rule.n_classes :]))


def positive_of(rule: DecisionRule) -> Any:
    """Return the positive class of a rule of two classes, None where its metric has none.

    Of a metric that names its class, such as ``f1[yes]``, it is this class.
    """
    own = rule.class_names[: rule.n_classes]
    metric = tuned_metric(rule, own)
    # without places the last of two classes is the positive one, as for scikit-learn
    if metric is None or len(own) != 2 or not (metric.binary or metric.one_class):
        return None
    return own[(metric.classes or (0, 1))[-1]]


def tuned_metric(rule: DecisionRule, classes: Sequence[Any]) -> Metric | None:
    """Return the metric that a rule was tuned for, over its classes in this order; None where its file does not say."""
    own = rule.class_names[: rule.n_classes]
    # a rule file holds its metric as text; one by a function of the user's own is not known here
    metric = named(rule.metric)
    try:
        metric = metric and aligned(metric, own)
    except ValueError:  # a rule whose classes were renamed
        return None
    if metric is None or metric.classes is None:
        return metric
    # text of a file may name places that the rule does not have
    if max(metric.classes) >= len(own):
        return None
    places = tuple(list(classes).index(own[k]) for k in metric.classes)
    in_order = metric.label is None and places == tuple(range(len(own)))
    return replace(metric, classes=None if in_order else places)
