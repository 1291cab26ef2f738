"""`confmax score`: a rule as it is, judged on the labels of a file, whose rows should not be those of the tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from confmax import metrics as catalogue
from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions
from confmax.cli.counts import asked_class, counts_document, show_matrix
from confmax.cli.in_parts import is_read_in_parts
from confmax.cli.judging import (
    AS_MANY,
    BESIDE,
    EVERY_ROW,
    OF_TWO,
    SEVERAL,
    aligned_metrics,
    bootstrap_document,
    each_of,
    in_each,
    judged_rows,
    limit_cells,
    limit_documents,
    metrics_and_bootstrap,
    of_what_is_decided,
    rows_undecided,
    say_verdicts,
    scores_of,
    undecided_words,
    verdict_documents,
)
from confmax.cli.label_options import refuse_label_options
from confmax.cli.label_scores import score_labels_of_file
from confmax.cli.matching import not_applicable, over, positive_of, rows_for, tuned_metric
from confmax.cli.outputs import load_any_rule
from confmax.cli.show import Document, Page, between, key_of, print_document, show_source, source_document
from confmax.cli.texts import joined
from confmax.constraints import Limits
from confmax.evaluate import Score
from confmax.evaluate.limits import limit_scores
from confmax.evaluate.rivals import CHOW, names_of
from confmax.evaluate.seen import seen_by_tuning, was_tuned_on
from confmax.evaluate.uncertainty import limits_within, verdict_on
from confmax.evaluate.verdict import Verdict
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned
from confmax.progress import Bar
from confmax.rule import DecisionRule, LabelRule
from confmax.tables import Table


def score(file: Path, rule: Path | None, as_json: bool, **more: Any) -> int:
    """Run `confmax score`, and return its exit code: 3 if the rule misses a constraint that it was tuned within.

    A constraint that the rows cannot judge is not missed.
    """
    loaded = None if rule is None else load_any_rule(rule)
    if isinstance(loaded, LabelRule):
        return score_labels_of_file(loaded, str(rule), file, as_json=as_json, **more)
    in_parts = more.pop("in_parts")
    refuse_label_options("a rule of several labels, which --rule names")
    if more["label"] is None:
        raise click.UsageError("Missing option '--label'")
    known = {} if loaded is None else {str(rule): loaded}
    chosen, settings = metrics_and_bootstrap(more, known)
    for name in ("label_columns", "separator"):
        del more[name]
    with Bar("scoring", "rows") as bar:
        rows = rows_for(known, file, TableOptions(**more), in_parts=is_read_in_parts(file, in_parts), progress=bar.rows)
        document = score_rows(rows, chosen, loaded, **settings)
    print_document(document, as_json, partial(_show, every=bool(chosen)))
    return 3 if any(one["kept"] is False for one in document.get("constraints", ())) else 0


def score_rows(rows: FileRows, wanted: Sequence[Metric], rule: DecisionRule | None, **settings: Any) -> Document:
    """Return the ``wanted`` metrics, else all that apply, of argmax, p/prior and a rule on a file's labels.

    ``settings`` are those of the bootstrap, as `confmax.evaluate.compare` takes them.
    """
    tuned_for = None
    if rule is not None:
        positive = positive_of(rule)
        if positive is not None and not rows.options.classes and not rows.options.positive:
            # metrics of two classes take the last one as the positive one
            rows = rows.in_order(tuple(sorted(rows.classes, key=lambda name: name == positive)))
        tuned_for = tuned_metric(rule, rows.classes)
        # who tuned a rule for a metric of ordered classes has said what the order is
        ordered = positive is not None or (tuned_for is not None and tuned_for.ordered)
        rows = replace(rows, order_known=rows.order_known or ordered)
    used = aligned_metrics(wanted, rows)
    asked_for = list(used)
    skipped = []
    if not wanted:
        every = _every_metric(tuned_for, rows.classes)
        skipped = [{"metric": metric.name, "why": why} for metric in every if (why := not_applicable(metric, rows))]
        used = {repr(metric): metric for metric in every if not not_applicable(metric, rows)}
    abstains = rule is not None and rule.abstain is not None
    rules = {} if rule is None else {"rule": over(rule, rows.classes)}
    judged, beside = judged_rows(rows, rules, abstains=abstains)
    table, decided = judged.rows, judged.decided
    as_many = beside.get("rule", {})
    document = {**source_document(rows), "tuned_for": None, "tuned_on_these_rows": None}
    limits: Limits | None = None
    absent: tuple[str, ...] = ()
    if rule is not None:
        seen = was_tuned_on(rule, judged.table)
        if seen:
            app.warn(seen_by_tuning(rows.n_rows))
        document |= {"tuned_for": rule.metric, "tuned_on_these_rows": seen}
        limits, absent = limits_within(rule, table, abstains=abstains)
    if rule is not None and abstains:
        used, more = of_what_is_decided(used, Table.of(table), rows)
        skipped += more
        document |= {"abstain": rule.abstain, "rows_undecided": rows_undecided(decided["rule"], table)}
    by = next((name for name in used if not abstains or name != "coverage"), None)
    judged_by = used
    if tuned_for is not None and not not_applicable(tuned_for, rows):
        own = {repr(tuned_for): tuned_for}
        if abstains:
            own, _ = of_what_is_decided(own, Table.of(table), rows)
        if repr(tuned_for) in own:
            by = repr(tuned_for)
            judged_by = {by: own[by], **used}
    scores = scores_of(table, judged_by, () if limits is None else limits.constraints, decided, settings)
    if abstains:
        K = table.n_classes
        beside_it = {name: names_of(one, K, abstains=True, as_many=as_many) for name, one in used.items()}
        scores = replace(scores, beside={"rule": beside_it})
    kept = limit_documents(scores, limits, decided["rule"], table, "rule", absent) if rule is not None else []
    if rule is not None and by is not None:
        made = () if limits is None else limit_scores(limits, scores, "rule", decided["rule"], table)
        within = () if limits is None else (limits,)

        def verdict(name: str, metric: Metric) -> Verdict:
            return verdict_on(scores, "rule", metric, decided, table, as_many, within, made, name)

        asked_for = [name for name in asked_for if name in used]
        document |= verdict_documents(verdict, by, judged_by, asked_for, scores.unit_of, "the rule")
    asked = [] if rule is None else asked_class(rule)

    def counted(of: Score) -> Document:
        return counts_document(of.counts["argmax" if rule is None else "rule"], asked)

    return {
        **document,
        **({"constraints": kept} if kept else {}),
        "values": _values(scores, used, differences=True),
        "counts": counted(scores),
        **in_each(
            scores, table, lambda part: {"rows": part.n_rows, "values": _values(part, used), "counts": counted(part)}
        ),
        "skipped": skipped,
        "intervals": bootstrap_document(scores),
    }


def _every_metric(tuned_for: Metric | None, classes: Sequence[Any]) -> list[Metric]:
    """Return the metrics of the catalogue for ``classes``, behind the one that a rule was tuned for."""
    # with their default beta f_beta and macro_f_beta are f1 and macro_f1
    every = [catalogue.get(name) for name in catalogue.names() if name not in ("linear", "f_beta", "macro_f_beta")]
    if tuned_for is None:
        return every
    same = (tuned_for.name, tuned_for.params, tuned_for.structure)
    # the tuned metric may name its class, and is the one of the catalogue if this is the last of two
    n_classes = len(classes)
    of_last = tuned_for.classes is None or (n_classes == 2 and tuned_for.classes[-1] == 1)
    others = [one for one in every if not (of_last and (one.name, one.params, one.structure) == same)]
    if tuned_for.one_class and tuned_for.label is not None and n_classes > 2:
        # of several classes, those of the one that the rule was tuned for
        both = (catalogue.get(name, label=tuned_for.label) for name in ("precision", "recall"))
        others = [*(aligned(one, classes) for one in both), *others]
    return [tuned_for, *others]


def _values(scores: Score, used: dict[str, Metric], *, differences: bool = False) -> list[Document]:
    """Return the values of every rule by the metrics ``used``; with replicates also intervals, and ``differences``."""
    every = scores.to_dict()["metrics"]
    documents = []
    for metric in used:
        by_rule = {key_of(rule): entry for rule, entry in every[metric].items()}
        unit = scores.unit_of(metric)
        document: Document = {
            "metric": metric,
            "unit": unit,
            **{rule: entry["value"] for rule, entry in by_rule.items()},
        }
        if scores.n_replicates:
            document["intervals"] = {rule: [entry["low"], entry["high"]] for rule, entry in by_rule.items()}
            if differences:
                document["differences"] = {
                    rule: {key_of(base): minus for base, minus in entry["minus"].items()}
                    for rule, entry in by_rule.items()
                }
        documents.append(document)
    return documents


# --- what is printed -------------------------------------------------------------------------------------------------


def _show(page: Page, document: Document, *, every: bool) -> None:
    """Print ``every`` metric of the rules that the document holds, or the usual ones."""
    show_source(page, document)
    shown = [row["metric"] for row in document["values"]]
    if not every:
        shown = _usual(shown, document)
    has_rule = document["tuned_for"] is not None
    if has_rule:
        judged = [*document["values"], *([document["verdict"]] if "verdict" in document else [])]
        units = {row["metric"]: row["unit"] for row in judged}
        what = units.get(document["tuned_for"]) or document["tuned_for"] or "an unnamed metric"
        page.items({"rule": f"tuned for {what}", **undecided_words(document), **document["counts"]["told"]})
    page.say()
    if "constraints" in document:
        page.table(
            ["constraint", "rule", "kept"], [line for one in document["constraints"] for line in limit_cells(one)]
        )
        page.say()
    as_many = [CHOW] if key_of(CHOW) in next(iter(document["values"]), {}) else []
    names = ["argmax", "p/prior", *as_many, *(["rule"] if has_rule else [])]
    to = as_many[0] if as_many else "argmax"
    rows = _in_order(document["values"], shown)
    body = _lines(rows, names)
    about = document["intervals"]
    heads = ["metric", *names]
    if about is not None:
        for line, row in zip(body, rows, strict=True):
            # of what is decided nothing compares on rows that are read in parts
            minus = row["differences"][key_of(names[-1])].get(key_of(to), {})
            line.append(between(minus.get("value"), minus.get("low"), minus.get("high"), sign="+"))
            line.append("-" if minus.get("better") is None else f"{minus['better']:.0%}")
        heads += [f"{names[-1]} - {to}", "better"]
    page.table(heads, body, best=heads.index("rule") if has_rule else 3)
    if more := len(document["values"]) - len(rows):
        page.say("", f"{more} more metrics: --metric NAME shows one of them, --json all.")
    say_verdicts(page, [document])
    show_matrix(page, document["counts"], "the rule" if has_rule else "argmax")
    for title, part in each_of(document):
        page.say("", f"{title}, {part['rows']} rows", style="bold")
        lines = _lines(_in_order(part["values"], shown), names)
        page.table(["metric", *names], lines, best=1 + names.index(names[-1]))
        show_matrix(page, part["counts"], "the rule" if has_rule else "argmax")
    page.say(
        "",
        *([EVERY_ROW] if "abstain" in document else []),
        *([AS_MANY] if as_many else []),
        "p/prior uses the class sizes of these rows.",
    )
    if about is not None:
        page.say(
            f"In brackets: {about['method']}, the same resamples for all rules.",
            "better: share of the replicates in which the rule is better.",
        )
    beyond = [name for name in document["counts"]["decisions"] if name not in document["counts"]["classes"]]
    if beyond and "abstain" not in document:
        page.say(f"Rows that get {joined(beyond)} count as wrong decisions, except in costs and gains.")
    if any("-" in row for row in body):
        page.say("-: not finite, or undefined for a rule with more decisions than classes.")
    reasons: dict[str, list[str]] = {}
    for entry in document["skipped"] if every else _in_order(document["skipped"], _known(document)):
        # reasons that differ in the metric's name only are one
        reasons.setdefault(entry["why"].replace(f"{entry['metric']}[", "["), []).append(entry["metric"])
    for why, left_out in reasons.items():
        page.say(f"Left out: {', '.join(left_out)} ({why.replace('[', f'{left_out[0]}[')}).")


# of two classes these are the same numbers by other names
_ALIKE = ({"cohen_kappa", "linear_kappa", "quadratic_kappa"}, {"f1", "micro_f1", "micro_f1_once"})


def _known(document: Document) -> list[str]:
    """Return the names of the metrics that most people know, for the classes of a document."""
    return [*OF_TWO, *BESIDE] if len(document["classes"]) == 2 else [*SEVERAL, "accuracy"]


def _usual(metrics: Sequence[str], document: Document) -> list[str]:
    """Return the metrics to show of those that a document holds: what a rule was tuned for, then the known ones."""
    tuned_for = document["tuned_for"] is not None
    others = [name for name in metrics if name != "coverage"] if tuned_for else []
    # of one class of several, its precision and its recall, too
    first = [*others[:1], *(name for name in others[1:3] if "[" in name)]
    alike = {name for part in _ALIKE if len(document["classes"]) == 2 and {*first} & part for name in part}
    usual = [name for name in _known(document) if name in metrics and name not in alike]
    return list(dict.fromkeys([*(name for name in metrics if name == "coverage"), *first, *usual]))


def _in_order(rows: Sequence[Document], metrics: Sequence[str]) -> list[Document]:
    """Return those of the ``rows`` that are of the ``metrics``, in their order."""
    known = {row["metric"]: row for row in rows}
    return [known[name] for name in metrics if name in known]


def _lines(values: Sequence[Document], names: Sequence[str]) -> list[list[str]]:
    """Return the cells of metrics: their names, and the values of rules with their intervals."""
    keys = [key_of(name) for name in names]
    none = dict.fromkeys(keys, (None, None))
    return [
        [row["unit"] or row["metric"], *(between(row[key], *row.get("intervals", none)[key]) for key in keys)]
        for row in values
    ]
