"""`confmax tune` and `confmax apply` for rows with several labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confmax.calibration.words import MISSES
from confmax.cli import app
from confmax.cli.columns import TABLE_OPTIONS, FileRows, TableOptions, read_if_named
from confmax.cli.constraints import constraint_document, constraint_lines
from confmax.cli.counts import counts_document, few_classes, show_expected, taken_in_words
from confmax.cli.in_parts import label_rows_in_parts, refuse_several
from confmax.cli.label_columns import read_label_rows
from confmax.cli.label_options import label_source, labels_per_row, only_options, threshold
from confmax.cli.outputs import check_rule_output, one_result, save_rule, write_parts, writing
from confmax.cli.report import check_tune, write_label_page
from confmax.cli.show import Document, Page, finite, number, print_document, show_source, source_document
from confmax.cli.tables import DECISION, read_frame, write_decisions
from confmax.cli.texts import joined
from confmax.constraints.outcomes import price_note
from confmax.evaluate.label_figures import FEW
from confmax.evaluate.protocols import how_counted, refuted
from confmax.metrics import labels as label_metrics
from confmax.rule import LabelRule
from confmax.rule.applied import DecidedPart, decided_tables
from confmax.rule.counts import Sums
from confmax.rule.forms import OF_LABELS
from confmax.solution import Infeasible, LabelSolution
from confmax.solution.label_task import LabelPlan
from confmax.solution.plan import is_auto
from confmax.solution.several import tune_all_label_rows
from confmax.tables.decisions import decisions_of
from confmax.tables.several import labels_table

# options of both commands that read a table of several labels
_TABLE = ("file", "label", "label_columns", "separator", "weight", "columns", "classes", "sep", "as_json")
_TUNE = (
    *_TABLE,
    "decisions",
    "shrinkage",
    "metric",
    "params",
    "confusion",
    "calibration",
    "tol",
    "max_passes",
    "constraints",
    "randomized",
)
_ANSWERS = {"auto": "auto", "yes": True, "no": False}


# --- tune ------------------------------------------------------------------------------------------------------------


def tune_labels(file: Path, out: Path | None, *, force: bool, as_json: bool, report: Path | None, **more: Any) -> int:
    """Run `confmax tune` for several labels per row, and return its exit code: 3 if labels refute a limit."""
    only_options((*_TUNE, "random_state", "out", "force", "report"), "--decisions means")
    decisions = decisions_of(more["decisions"])
    if more["metric"] is None:
        known = ", ".join(label_metrics.names(decisions))
        raise click.UsageError(f"give --metric NAME; those of several labels are {known}")
    check_rule_output(out, force, file)
    one_result(as_json, out, report)
    labelled = more["label"] is not None or bool(more["label_columns"])
    check_tune(report, out, labelled, more["second"], [file], charts=False)
    settings = {key: more[key] for key in ("confusion", "tol", "max_passes", "random_state", "constraints")}
    settings["calibration"] = None if more["calibration"] == "none" else more["calibration"]
    settings |= {key: _ANSWERS[more[key]] for key in ("shrinkage", "randomized")}
    metric = label_metrics.get(more["metric"], None if more["constraints"] else decisions, **more["params"])
    plan = LabelPlan.checked(metric, decisions, **settings)
    names = (*(name for name in TABLE_OPTIONS if name != "normalize"), "label_columns", "separator")
    options = TableOptions(**{name: more[name] for name in names})
    if not labelled and not (is_auto(plan.confusion) or plan.confusion == "model"):
        raise click.UsageError(f"--confusion {plan.confusion} needs the true labels; give --labels")
    refuse_several(file, "confmax.maximize")
    rows = read_label_rows(read_frame(file, options.sep), options)
    app.warn(*rows.notes)
    try:
        table = labels_table(decisions, rows.proba, rows.labels, rows.weight, rows.classes)
        solution = tune_all_label_rows(replace(plan, columns=rows.columns_called_otherwise), table)
    except Infeasible as error:
        app.fail(error.sentence, 3)
    document = {**label_source(rows), **_solution_document(solution)}
    document["rule_file"] = save_rule(solution.rule, out, force)
    if report is not None:
        write_label_page(report, solution, rows, settings)
        document["report_file"] = str(report)
    print_document(document, as_json, partial(_show, solution=solution), out, report)
    return 3 if refuted(solution) else 0


def _solution_document(solution: LabelSolution) -> Document:
    """Return values, bounds, labels and status of a solution."""
    limits = [constraint_document(one) for one in solution.constraints]
    counts = solution.counts
    bounds = ("upper_bound", "gap", "model_value", "model_upper_bound", "model_gap")
    return {
        "metric": solution.rule.metric,
        "decisions": solution.rule.decisions.argument,
        "confusion": solution.mode,
        "model_share": solution.model_share,
        "baselines": {name: finite(value) for name, value in solution.baselines.items()},
        "tuned": finite(solution.value),
        "tuned_on_labels": finite(solution.label_value),
        "counts": None if counts is None else counts_document(counts, few_classes(solution.rule)),
        **{name: finite(getattr(solution, name)) for name in bounds},
        "status": solution.status.name.lower(),
        "guarantee": app.in_words_of_options(solution.guarantee),
        "passes": solution.n_passes,
        **({"constraints": limits, "missed_by": list(solution.missed_by)} if limits else {}),
        "calibrated": solution.calibration is not None,
        "labels_per_row": sum(one.rate for one in solution.labels),
        "true_labels_per_row": (None if solution.positives is None else sum(one.prior for one in solution.labels)),
        "labels": [
            {
                "label": one.name,
                "rows": one.positives,
                "share": finite(one.prior),
                "threshold": threshold(one.threshold),
                "threshold_alone": threshold(one.threshold_alone),
                **{name: finite(getattr(one, name)) for name in ("rate", "precision", "recall", "f1")},
            }
            for one in solution.labels
        ],
        "rule": json.loads(solution.rule.to_json()),
    }


def _show(page: Page, document: Document, solution: LabelSolution) -> None:
    """Print what `tune` found."""
    show_source(page, document)
    how = how_counted(document["confusion"], document["model_share"])
    page.say("", f"{document['metric']} on the tuning rows, {how}; {solution.rule.decisions}", style="bold")
    items = {
        **{
            name: number(value) + (MISSES if name in solution.missed_by else "")
            for name, value in document["baselines"].items()
        },
        "tuned": number(document["tuned"]),
    }
    if document["confusion"] != "labels" and document["tuned_on_labels"] is not None:
        items["on labels"] = number(document["tuned_on_labels"])
    items |= {} if document["counts"] is None else document["counts"]["told"]
    items |= labels_per_row(document)
    few = [f"{one['label']} ({one['rows']})" for one in document["labels"] if (one["rows"] or FEW) < FEW]
    if few:
        which = "this label scores" if len(few) == 1 else "these labels score"
        items["few rows"] = f"{joined(few, 20)}: with fewer than {FEW}, what {which} on new rows is hardly known"
    if limits := document.get("constraints"):
        page.items(items)
        page.say()
        heads = ["constraint", "value", "on labels", "price", "kept"]
        page.table(heads, [line for one in limits for line in constraint_lines(one, 0)])
        page.say(*filter(None, [price_note(document["metric"], [one["price"] for one in limits])]), "")
        items = {}
    page.items({**items, "guarantee": document["guarantee"]})
    page.say()
    page.block(str(solution.rule))
    out = document["rule_file"]
    written = "The rule is not saved; -o rule.json writes it to a file." if out is None else f"Rule written to {out}."
    page.say(
        "",
        f"{written} The values above are computed on the tuning rows, so they are optimistic: run 'confmax score' on "
        f"other rows.",
    )
    if "report_file" in document:
        page.say(f"Report written to {document['report_file']}; its figures are cross-fitted.")


# --- apply -----------------------------------------------------------------------------------------------------------


def apply_labels(
    rule: LabelRule,
    path: Path,
    file: Path,
    out: Path,
    progress: Callable[[int, int], None] | None,
    *,
    folder: bool,
    **more: Any,
) -> Document:
    """Run `confmax apply` for a rule of several labels, whose file is ``path``; return the document.

    Rows that are read in parts tell ``progress`` how many are read, and ``out`` may be a ``folder``.
    """
    taken = ("rule", "file", "out", "columns", "sep", "key", "separator", "in_parts", "as_json")
    only_options(taken, f"{path} decides")
    options = TableOptions(columns=more["columns"], sep=more["sep"], key=more["key"])
    separator = more["separator"]
    names = [str(name) for name in rule.class_names]
    inside = next((name for name in names if separator is not None and separator in name), None)
    if inside is not None:
        raise click.UsageError(f"--separator {separator!r} stands in the label {inside!r}; give another mark")
    if progress is None:
        rows = read_label_rows(read_frame(file, options.sep), options, rule.class_names)
    else:
        rows = label_rows_in_parts(file, options, rule.class_names, progress)
    app.warn(*rows.notes)
    return (
        _decide(rows, rule, out, separator) if progress is None else _decide_parts(rows, rule, out, separator, folder)
    )


def _decide(rows: FileRows, rule: LabelRule, out: Path, separator: str | None) -> Document:
    """Decide every row of a file and write its columns with the decisions."""
    frame, key = rows.frame, rows.options.key
    assert frame is not None
    keys = read_if_named(lambda name: frame.names_in(name, "key column"), key, frame, "--key")
    chosen = rule.predict(rows.proba, keys=keys)
    written: NDArray[Any] = chosen
    names = np.array([str(name) for name in rule.class_names], dtype=object)
    if separator is not None:
        written = np.array([separator.join(names[row]) for row in chosen.astype(bool)], dtype=str)
    with writing(out):
        left_out = write_decisions(
            out,
            frame,
            written,
            block=rows.block,
            block_names=rows.classes,
            labels=() if separator is not None else rule.class_names,
        )
    if left_out:
        app.warn(f"{joined(left_out)} of {frame.path} cannot be columns of {rows.n_rows} rows, and {out} lacks them")
    return _decided(rows, rule, out, Sums.of(rule, rows.proba, chosen), int((~chosen.any(axis=1)).sum()))


def _decide_parts(rows: FileRows, rule: LabelRule, out: Path, separator: str | None, folder: bool) -> Document:
    """Do what `_decide` does with rows that are read in parts."""
    without = []
    sums: Sums | None = None

    def columns(part: DecidedPart) -> dict[str, Any]:
        nonlocal sums
        without.append(int((~part.decided.any(axis=1)).sum()))
        found = Sums.of(rule, part.proba, part.decided)
        sums = found if sums is None else sums + found
        if separator is None:
            return OF_LABELS.columns(rule, DECISION, part.decided, names=False)
        (lists,) = OF_LABELS.columns(rule, DECISION, part.decided, names=True).values()
        return {DECISION: pc.binary_join(lists.cast(pa.list_(pa.string())), separator)}

    added = OF_LABELS.added(rule, DECISION, names=separator is not None)
    tables = decided_tables(rule, rows.proba, columns, added, keys=rows.options.key)
    write_parts(tables, out, rows.proba, added, folder=folder)
    assert sums is not None
    return _decided(rows, rule, out, sums, sum(without))


def _decided(rows: FileRows, rule: LabelRule, out: Path, sums: Sums, n_without: int) -> Document:
    """Return how many rows got each label, how many of these are right, and where these were written."""
    counts = sums.counts(rule)
    shares = (counts.decided / rows.n_rows).tolist()
    return {
        **source_document(rows),
        "out": str(out),
        "decisions": rule.decisions.argument,
        "decided": dict(zip(map(str, rule.class_names), shares, strict=True)),
        "counts": counts_document(counts, few_classes(rule)),
        "labels_per_row": float(counts.decided.sum() / rows.n_rows),
        "rows_without_label": n_without,
    }


def show_labels(page: Page, document: Document) -> None:
    """Print where the decisions went, and how often each label was decided."""
    show_source(page, document)
    per_row = f"{document['labels_per_row']:.3g} labels per row; {document['rows_without_label']} rows have none"
    told = document["counts"]["told"]
    page.items({"decided": taken_in_words(document), **told, "on average": per_row, "written": document["out"]})
    show_expected(page, document["counts"])
