"""`confmax score` for a rule of several labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from confmax.calibration.words import which_labels
from confmax.cli import app
from confmax.cli.counts import counts_document, few_classes
from confmax.cli.judging import bootstrap_document, say_verdicts, verdict_documents, with_interval
from confmax.cli.label_options import label_source, labelled_rows, labels_per_row, only_options, threshold
from confmax.cli.show import Document, Page, between, finite, number, print_document, show_source
from confmax.evaluate import Score, check_bootstrap
from confmax.evaluate.label_figures import f1_of_labels, rows_of_labels
from confmax.evaluate.label_lines import JudgedLabels, judge_labels
from confmax.evaluate.label_rivals import label_rivals
from confmax.evaluate.label_scores import (
    absent_labels,
    compare_labels,
    judged_by,
    label_verdict,
    labels_decided,
    limits_of,
    named_label_metric,
)
from confmax.evaluate.scores import kept_or_missed
from confmax.evaluate.seen import seen_by_tuning, was_tuned_on
from confmax.evaluate.verdict import Verdict
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.progress import Bar
from confmax.rule import LabelRule
from confmax.tables import Table
from confmax.tables.several import labels_table

SHOWN = 20  # labels that are printed
# metrics that are printed where none is named, beside the one that the rule was tuned for
USUAL = ("macro_f1", "micro_f1", "macro_precision", "macro_recall", "micro_precision", "micro_recall", "hamming")
_TAKEN = (
    "file",
    "rule",
    "label",
    "label_columns",
    "separator",
    "weight",
    "columns",
    "sep",
    "names",
    "params",
    "in_parts",
    "as_json",
)
_BOOTSTRAP = ("n_replicates", "level", "seed")


def score_labels_of_file(rule: LabelRule, path: str, file: Path, *, as_json: bool, **more: Any) -> int:
    """Run `confmax score` for a rule of several labels, whose file is ``path``, and return its exit code."""
    only_options((*_TAKEN, *_BOOTSTRAP), f"{path} decides")
    settings = {key: more[key] for key in _BOOTSTRAP}
    check_bootstrap(settings["n_replicates"], settings["level"])
    if more["params"] and len(more["names"]) != 1:
        raise click.UsageError("--param belongs to one --metric; give exactly one")
    wanted = [label_metrics.get(name, None, **more["params"]) for name in more["names"]]
    with Bar("scoring", "rows") as bar:
        rows = labelled_rows(rule, file, more, bar.rows)
        table = labels_table(rule.decisions, rows.proba, rows.labels, rows.weight, rows.classes)
        app.warn(*filter(None, [absent_labels(table)]))
        document = {**label_source(rows), **_scored(rule, table, wanted, settings)}
    print_document(document, as_json, partial(_show, rule=rule, every=bool(wanted)))
    return 3 if any(one["kept"] is False for one in document.get("constraints", ())) else 0


def _scored(rule: LabelRule, table: Table, wanted: Sequence[Metric], settings: dict[str, Any]) -> Document:
    """Return the values of a rule and of what is decided without one, and those of every label."""
    every = wanted
    if not wanted:
        tuned_for = named_label_metric(rule.metric)
        every = [*([] if tuned_for is None else [tuned_for]), *label_metrics.without_parameters()]
    used = {repr(metric): label_metrics.sized(metric, table.n_rows) for metric in every}
    rivals = label_rivals(table, [rule.decisions], settings["seed"])
    judged = judge_labels(table, partial(labels_decided, rivals, {"rule": rule}))
    plain = judged.rules[:-1]
    own = judged_by(rule, table)
    by = next(iter(used)) if own is None else repr(own)
    asked = list(used) if wanted else []
    both = {**used, **({} if own is None else {by: own}), **f1_of_labels(table)}
    within = limits_of(rule, table) if rule.constraints else None
    limits = {} if within is None else {"rule": within}
    scores = compare_labels(judged, both, plain=plain, limits=limits, **settings)
    kept = limit_documents(scores, "rule")
    seen = was_tuned_on(rule, table)
    if seen:
        app.warn(seen_by_tuning(table.n_rows))

    def verdict(name: str, metric: Metric) -> Verdict:
        return label_verdict(scores, "rule", metric, judged, within, name)

    return {
        "tuned_for": rule.metric,
        "tuned_on_these_rows": seen,
        "decisions": rule.decisions.argument,
        "plain": plain[0],
        "labels_per_row": judged.labels_per_row("rule"),
        "true_labels_per_row": judged.labels_per_row(),
        **({"constraints": kept} if kept else {}),
        **verdict_documents(verdict, by, both, asked, scores.unit_of, "the rule"),
        "values": [_values(scores, name) for name in used],
        "counts": counts_document(scores.counts["rule"], few_classes(rule)),
        "labels": _labels(rule, judged, scores),
        "intervals": bootstrap_document(scores),
    }


def limit_documents(
    scores: Score, rule: str, texts: Sequence[str] | None = None, *, warned: bool = False
) -> list[Document]:
    """Return what a ``rule`` makes of limits, by default of all, or of those with the ``texts``.

    Warn of limits that cannot be judged, unless that was ``warned`` of.
    """
    documents = []
    every = scores.limits.get(rule, ())
    for one in every if texts is None else [one for one in every if one.text in texts]:
        if one.kept is None and not warned:
            app.warn(f"the limit {one.text} cannot be judged on this file: no row has the label")
        document = {"text": one.text, "value": finite(one.value), "slack": finite(one.slack), "kept": one.kept}
        judged = scores.n_replicates and one.kept is not None
        documents.append({**document, **({"interval": [one.low, one.high]} if judged else {})})
    return documents


def _values(scores: Score, metric: str) -> Document:
    """Return the values by a metric of the rule and of those without tuning.

    With replicates also intervals, and the difference to the first one without tuning.
    """
    plain, *others = scores.plain
    estimates = {"plain": scores.estimate(plain, metric), "rule": scores.estimate("rule", metric)}
    document: Document = {"metric": metric, **{name: finite(one.value) for name, one in estimates.items()}}
    document["others"] = {name: finite(scores.estimate(name, metric).value) for name in others}
    if scores.n_replicates:
        minus = scores.difference("rule", plain, metric)
        document["intervals"] = {name: [one.low, one.high] for name, one in estimates.items()}
        document["difference"] = {**minus._asdict(), "value": finite(minus.value)}
    return document


def _labels(rule: LabelRule, judged: JudgedLabels, scores: Score) -> list[Document]:
    """Return the scores of every label, its F1 with an interval."""
    return [
        {
            "label": name,
            "rows": one.n_rows,
            "threshold": threshold(one.threshold),
            "precision": finite(one.precision),
            "recall": finite(one.recall),
            "f1": finite(one.f1.value),
            "f1_plain": finite(one.f1_plain),
            **({"f1_interval": [one.f1.low, one.f1.high]} if scores.n_replicates else {}),
        }
        for name, one in zip(judged.table.classes, rows_of_labels(rule, judged, scores, "rule"), strict=True)
    ]


def _show(page: Page, document: Document, rule: LabelRule, *, every: bool) -> None:
    """Print ``every`` metric of the ``rule`` that the document holds, or the usual ones, and its labels."""
    show_source(page, document)
    how = {} if rule.thresholds is not None else {"a row gets": which_labels(rule)}
    tuned_for = f"tuned for {document['tuned_for'] or 'an unnamed metric'}"
    page.items({"rule": tuned_for, **how, **labels_per_row(document), **document["counts"]["told"]})
    page.say()
    if "constraints" in document:
        page.table(
            ["constraint", "rule", "kept"], [line for one in document["constraints"] for line in limit_cells(one)]
        )
        page.say()
    plain = document["plain"]
    heads = ["metric", plain, *document["values"][0]["others"], "rule"]
    body = []
    none = {"plain": (None, None), "rule": (None, None)}
    rows = document["values"]
    if not every:
        rows = [row for row in rows if row["metric"] in (rule.metric, *USUAL)]
    for row in rows:
        first, own = (between(row[one], *row.get("intervals", none)[one]) for one in ("plain", "rule"))
        cells = [row["metric"], first, *map(number, row["others"].values()), own]
        if "difference" in row:
            minus = row["difference"]
            cells.append(between(minus["value"], minus["low"], minus["high"], sign="+"))
            cells.append("-" if minus["better"] is None else f"{minus['better']:.0%}")
        body.append(cells)
    page.table(
        [*heads, *([f"rule - {plain}", "better"] if document["intervals"] else [])], body, best=heads.index("rule")
    )
    if more := len(document["values"]) - len(rows):
        page.say("", f"{more} more metrics: --metric NAME shows one of them, --json all.")
    say_verdicts(page, [document])
    page.say()
    labels = document["labels"]
    has_thresholds = rule.thresholds is not None
    cut = ["decided if"] if has_thresholds else []
    page.table(
        ["label", "rows", *cut, "precision", "recall", "F1", f"F1, {plain}"],
        [_line(one, has_thresholds) for one in labels[:SHOWN]],
    )
    if len(labels) > SHOWN:
        page.say(f"... {len(labels) - SHOWN} more labels; --json shows all.")
    if document["intervals"] is not None:
        page.say(
            "",
            f"In brackets: {document['intervals']['method']}, the same resamples for both.",
            "better: share of the replicates in which the difference is positive.",
        )


def limit_cells(one: Document) -> list[list[str]]:
    """Return the cells of a limit."""
    return [[one["text"], with_interval(one), kept_or_missed(one["kept"], one["slack"])]]


def _line(one: Document, has_threshold: bool) -> list[str]:
    """Return the cells of a label."""
    cut = one["threshold"]
    decided = [cut if isinstance(cut, str) else f"p > {cut:.4g}"] if has_threshold else []
    f1 = between(one["f1"], *one.get("f1_interval", (None, None)))
    return [str(one["label"]), str(one["rows"]), *decided, *map(number, (one["precision"], one["recall"])), f1,
            number(one["f1_plain"])]  # fmt: skip
