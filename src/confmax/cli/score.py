"""`confmax score`: metrics of argmax, p/prior and a rule on the labels of a file, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from confmax import metrics
from confmax.calibration.column_order import doubt_of_order
from confmax.cli import app
from confmax.cli.columns import TableOptions, joined
from confmax.cli.metrics import not_applicable, order_needed, over, positive_of, rows_for, tuned_metric
from confmax.cli.show import Document, Page, between, number, print_document, show_source, source_document
from confmax.evaluate import Score
from confmax.evaluate.uncertainty import compare, doubts, plain_rules
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned
from confmax.rule import DecisionRule
from confmax.tables import make_table


@app.confmax.command()
@click.argument("file", type=app.PATH)
@click.option("--label", metavar="COL", required=True, shell_complete=app.column_names, help="Column of true classes.")
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
    names, params, settings = app.metrics_and_bootstrap(more)
    loaded = None if rule is None else app.load_rule(rule)
    options = TableOptions(**more)
    document = score_rows(file, options, names, params, loaded, **settings)
    print_document(document, as_json, _show)


# --- the work --------------------------------------------------------------------------------------------------------


def score_rows(
    file: Path,
    options: TableOptions,
    names: Sequence[str],
    params: Mapping[str, Any],
    rule: DecisionRule | None,
    **settings: Any,
) -> Document:
    """Return every applicable metric of argmax, p/prior and a rule on a file's labels; with ``names`` only those.

    ``settings`` are those of the bootstrap, as `uncertainty.compare` takes them.
    """
    rows = rows_for(rule, file, options)
    positive = None if rule is None else positive_of(rule)
    if positive is not None and not options.classes and not options.positive:
        # metrics of two classes take the last one as the positive one
        rows = rows.in_order(tuple(sorted(rows.classes, key=lambda name: name == positive)))
    tuned_for = None if rule is None else tuned_metric(rule, rows.classes)
    ordered = positive is not None or (tuned_for is not None and tuned_for.ordered)
    table = make_table(rows.proba, rows.labels, rows.weight, rows.classes).in_memory()
    has_rows = table.label_weight() > 0
    chosen = [aligned(metrics.get(name, **params), rows.classes) for name in names if name != "linear"]
    if "linear" in names:
        raise ValueError("score has no table of costs for linear; confmax tune --costs shows its values")
    if not names:
        # with their default beta f_beta and macro_f_beta are f1 and macro_f1
        chosen = [metrics.get(name) for name in metrics.names() if name not in ("linear", "f_beta", "macro_f_beta")]
        if tuned_for is not None:
            chosen = [tuned_for, *(metric for metric in chosen if not is_same(metric, tuned_for, len(rows.classes)))]
    used, skipped = {}, []
    for metric in chosen:
        why = not_applicable(metric, rows, order_known=rows.order_known or ordered)
        if why and names:
            raise ValueError(order_needed(metric, rows) if "order" in why else f"{metric.name} cannot be scored: {why}")
        if why:
            skipped.append({"metric": metric.name, "why": why})
            continue
        used[repr(metric)] = metric
    rules = plain_rules(table) | ({} if rule is None else {"rule": over(rule, rows.classes)})
    scores = compare(table, used, rules, **settings)
    if not has_rows.all():
        absent = joined([name for name, here in zip(rows.classes, has_rows, strict=True) if not here])
        app.warn(f"no row has the label {absent}: metrics that divide by class sizes are taken over the other classes")
    doubt = doubt_of_order(table, calibrated=0.0)
    for sentence in [*([doubt] if doubt else []), *doubts(scores, used, undefined=False)]:
        app.warn(sentence)
    values = [{"metric": name, **_scored(scores, name)} for name in scores.metrics]
    about = {**source_document(rows, options), "tuned_for": rule and rule.metric}
    return {**about, "values": values, "skipped": skipped, "intervals": bootstrap_document(scores)}


def is_same(metric: Metric, tuned_for: Metric, n_classes: int) -> bool:
    """Return whether a metric of the catalogue is the one that a rule was tuned for, which may name its class."""
    of_last = tuned_for.classes is None or (n_classes == 2 and tuned_for.classes[-1] == 1)
    same = (metric.name, metric.params, metric.structure) == (tuned_for.name, tuned_for.params, tuned_for.structure)
    return same and of_last


_COLUMNS = {"argmax": "argmax", "p/prior": "p_prior", "rule": "rule"}  # names of rules in documents


def _scored(scores: Score, metric: str) -> Document:
    """Return a metric's value for every rule; with replicates also intervals, and differences between rules."""
    rules = scores.to_dict()["metrics"][metric]
    document: Document = {_COLUMNS[name]: entry["value"] for name, entry in rules.items()}
    if scores.n_replicates:
        document["intervals"] = {_COLUMNS[name]: [entry["low"], entry["high"]] for name, entry in rules.items()}
        document["differences"] = {
            _COLUMNS[name]: {_COLUMNS[base]: minus for base, minus in entry["minus"].items()}
            for name, entry in rules.items()
        }
    return document


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
        page.items([("rule", f"tuned for {document['tuned_for'] or 'an unnamed metric'}")])
    page.say()
    names = {"argmax": "argmax", "p_prior": "p/prior", "rule": "rule"}
    shown = [name for name in names if any(name in row for row in document["values"])]
    body = [[row["metric"], *(number(row[name]) for name in shown)] for row in document["values"]]
    about = document["intervals"]
    heads = ["metric", *(names[name] for name in shown)]
    if about is not None:
        last = shown[-1]
        for line, row in zip(body, document["values"], strict=True):
            line[1:] = [between(row[name], *row["intervals"][name]) for name in shown]
            minus = row["differences"][last]["argmax"]
            line.append(between(minus["value"], minus["low"], minus["high"], sign="+"))
            line.append("-" if minus["better"] is None else f"{minus['better']:.0%}")
        heads += [f"{names[last]} - argmax", "better"]
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
