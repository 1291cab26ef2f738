"""`confmax score`: metrics of argmax, p/prior and a rule on the labels of a file, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from confmax import metrics
from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions
from confmax.cli.metrics import (
    check_applies,
    judged_table,
    not_applicable,
    over,
    positive_of,
    rows_for,
    tuned_metric,
)
from confmax.cli.show import Document, Page, between, key_of, number, print_document, show_source, source_document
from confmax.evaluate import Score
from confmax.evaluate.uncertainty import compare, doubts, plain_rules
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned
from confmax.rule import DecisionRule


@app.confmax.command()
@click.argument("file", type=app.PATH)
@app.LABEL
@click.option("--rule", type=app.PATH, metavar="RULE", shell_complete=app.rule_files,
              help="A rule file to score beside argmax and p/prior.")  # fmt: skip
@click.option("--metric", "names", multiple=True, metavar="NAME", shell_complete=app.metric_names,
              help="Only this metric; may be repeated.")  # fmt: skip
@app.PARAM
@app.table_options
@app.bootstrap_options
@app.AS_JSON
def score(file: Path, rule: Path | None, as_json: bool, **more: Any) -> None:
    """Score argmax, p/prior and a rule on the labels of FILE.

    Without --metric, by every metric that applies. The intervals show how uncertain the values are for the population
    that the rows come from; intervals of differences compare rules on the same rows. FILE should hold rows that the
    rule was not tuned on.

    \b
    Example:
      confmax score held_out.csv --label truth --rule rule.json
      confmax score held_out.csv --label truth --rule rule.json --metric g_mean --replicates 10000
    """
    chosen, settings = app.metrics_and_bootstrap(more)
    loaded = None if rule is None else app.load_rule(rule)
    rows = rows_for(loaded, file, TableOptions(**more))
    print_document(score_rows(rows, chosen, loaded, **settings), as_json, _show)


# --- the work --------------------------------------------------------------------------------------------------------


def score_rows(rows: FileRows, named: Sequence[Metric], rule: DecisionRule | None, **settings: Any) -> Document:
    """Return the ``named`` metrics, else all that apply, of argmax, p/prior and a rule on a file's labels.

    ``settings`` are those of the bootstrap, as `uncertainty.compare` takes them.
    """
    rules, tuned_for = {}, None
    if rule is not None:
        positive = positive_of(rule)
        if positive is not None and not rows.options.classes and not rows.options.positive:
            # metrics of two classes take the last one as the positive one
            rows = rows.in_order(tuple(sorted(rows.classes, key=lambda name: name == positive)))
        tuned_for = tuned_metric(rule, rows.classes)
        # who tuned a rule for a metric of ordered classes has said what the order is
        ordered = positive is not None or (tuned_for is not None and tuned_for.ordered)
        rows = replace(rows, order_known=rows.order_known or ordered)
        rules["rule"] = over(rule, rows.classes)
    used = {repr(metric): metric for metric in (aligned(metric, rows.classes) for metric in named)}
    for metric in used.values():
        check_applies(metric, rows)
    skipped = []
    if not named:
        # with their default beta f_beta and macro_f_beta are f1 and macro_f1
        every = [metrics.get(name) for name in metrics.names() if name not in ("linear", "f_beta", "macro_f_beta")]
        if tuned_for is not None:
            every = [tuned_for, *(metric for metric in every if not is_same(metric, tuned_for, len(rows.classes)))]
        skipped = [{"metric": metric.name, "why": why} for metric in every if (why := not_applicable(metric, rows))]
        used = {repr(metric): metric for metric in every if not not_applicable(metric, rows)}
    table = judged_table(rows)
    scores = compare(table, used, {**plain_rules(table), **rules}, **settings)
    for sentence in doubts(scores, used, undefined=False):
        app.warn(sentence)
    return {
        **source_document(rows),
        "tuned_for": rule and rule.metric,
        "values": [_scored(scores, name) for name in scores.metrics],
        "skipped": skipped,
        "intervals": bootstrap_document(scores),
    }


def is_same(metric: Metric, tuned_for: Metric, n_classes: int) -> bool:
    """Return whether a metric of the catalogue is the one that a rule was tuned for, which may name its class."""
    of_last = tuned_for.classes is None or (n_classes == 2 and tuned_for.classes[-1] == 1)
    same = (metric.name, metric.params, metric.structure) == (tuned_for.name, tuned_for.params, tuned_for.structure)
    return same and of_last


def _scored(scores: Score, metric: str) -> Document:
    """Return a metric's value for every rule; with replicates also intervals, and differences between rules."""
    document: Document = {"metric": metric}
    intervals, differences = {}, {}
    for name, entry in scores.to_dict()["metrics"][metric].items():
        document[key_of(name)] = entry["value"]
        intervals[key_of(name)] = [entry["low"], entry["high"]]
        differences[key_of(name)] = {key_of(base): minus for base, minus in entry["minus"].items()}
    return {**document, "intervals": intervals, "differences": differences} if scores.n_replicates else document


def bootstrap_document(scores: Score) -> Document | None:
    """Return what the intervals are."""
    if not scores.n_replicates:
        return None
    return {
        "method": scores.method,
        "level": scores.level,
        "replicates": scores.n_replicates,
        "stratified": scores.stratified,
        "absent": {str(name): share for name, share in scores.absent.items()},
    }


# --- what is printed -------------------------------------------------------------------------------------------------


def _show(page: Page, document: Document) -> None:
    """Print the metrics of every rule."""
    show_source(page, document)
    if document["tuned_for"] is not None:
        page.items({"rule": f"tuned for {document['tuned_for'] or 'an unnamed metric'}"})
    page.say()
    names = ["argmax", "p/prior", *(["rule"] if document["tuned_for"] is not None else [])]
    keys = [key_of(name) for name in names]
    body = [[row["metric"], *(number(row[key]) for key in keys)] for row in document["values"]]
    about = document["intervals"]
    heads = ["metric", *names]
    if about is not None:
        for line, row in zip(body, document["values"], strict=True):
            line[1:] = [between(row[key], *row["intervals"][key]) for key in keys]
            minus = row["differences"][keys[-1]]["argmax"]
            line.append(between(minus["value"], minus["low"], minus["high"], sign="+"))
            line.append("-" if minus["better"] is None else f"{minus['better']:.0%}")
        heads += [f"{names[-1]} - argmax", "better"]
    page.table(heads, body, best=3)
    page.say()
    page.say("p/prior uses the class sizes of these rows.")
    if about is not None:
        page.say(f"In brackets: {about['method']}, the same resamples for all rules.")
        page.say("better: share of the replicates in which the difference is positive.")
    if any("-" in row for row in body):
        page.say("-: not finite, or undefined for a rule with more decisions than classes.")
    reasons: dict[str, list[str]] = {}
    for entry in document["skipped"]:
        # reasons that differ in the metric's name only are one
        reasons.setdefault(entry["why"].replace(f"{entry['metric']}[", "["), []).append(entry["metric"])
    for why, left_out in reasons.items():
        page.say(f"Left out: {', '.join(left_out)} ({why.replace('[', f'{left_out[0]}[')}).")
