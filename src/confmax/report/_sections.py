"""The sections of a report, in the order in which a newcomer asks: what changed, at what price, and why trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from confmax.report._charts import shown_classes
from confmax.report._figures import ClassRow, Figures
from confmax.report._format import capital, count, interval, labels, metric_name, number, percent
from confmax.report._markup import Markup, details, join, table, tag
from confmax.report._words import (
    basis,
    calibrated,
    certificate,
    class_sentence,
    fold_range,
    how_it_decides,
    intervals,
    weight_note,
)
from confmax.uncertainty import Estimate

MOST_SENTENCES = 12  # classes up to which the sentences are not folded away

Charts = Mapping[str, Markup]


@dataclass(frozen=True)
class Made:
    """How a report was made.

    Attributes
    ----------
    source : str
        What the rows are, such as the name of a file.
    version : str
        Of confmax.
    settings : tuple of (name, value)
        Everything else that the figures depend on.
    again : str
        The command or call that makes it again.
    rule : str
        The rule as JSON.
    title : str
        Of the document; empty for one that says the metric.
    """

    source: str
    version: str
    settings: tuple[tuple[str, str], ...]
    again: str
    rule: str
    title: str = ""


def sections(figures: Figures, made: Made, drawn: Charts) -> list[tuple[str, Markup]]:
    """Return the sections with their names."""
    parts = [
        ("What changes, metric by metric", _metrics(figures, drawn)),
        ("What the rule does", _rule(figures, drawn)),
        ("Class by class", _classes(figures, drawn)),
        ("Who is mistaken for whom", _confusions(figures, drawn)),
        ("What it costs", _trade(figures, drawn)),
        ("Why trust it", _trust(figures, drawn)),
        ("Do the probabilities mean what they say?", _calibration(figures, drawn)),
        ("How this was made", _made(figures, made)),
    ]
    return [
        (name, tag("section", tag("h2", name, id=f"head-{k}"), body, id=f"part-{k}", aria_labelledby=f"head-{k}"))
        for k, (name, body) in enumerate(parts)
    ]


def _figure(drawn: Charts, name: str, caption: str) -> Markup | None:
    if name not in drawn:
        return None
    return tag("figure", tag("figcaption", caption), drawn[name])


def _estimate(found: Estimate, sign: bool = False) -> Any:
    span = interval(found.low, found.high, sign)
    return join(number(found.value, sign), tag("small", span) if span else None)


# --- metrics ---------------------------------------------------------------------------------------------------------


def _metrics(figures: Figures, drawn: Charts) -> Markup:
    rows, marks = [], []
    for row in figures.metrics:
        minus = row.difference
        change = join(
            number(minus.value, True),
            tag("small", interval(minus.low, minus.high, True)) if minus.low is not None else None,
        )
        cls = row.verdict if row.verdict in ("better", "worse") else None
        told = {"better": "better", "worse": "worse", "unclear": "could be chance", "same": "no change"}
        rows.append(
            [
                join(capital(metric_name(row.name)), tag("small", row.description) if row.description else None),
                _estimate(row.argmax),
                _estimate(row.prior),
                _estimate(row.tuned),
                (change, cls),
                (told.get(row.verdict, "–"), cls),
            ]
        )
        marks.append("tuned-for" if row is figures.main else "")
    head = ["metric", "argmax", "p/prior", "tuned rule", "tuned minus argmax", "beyond chance?"]
    caption = f"Every metric that applies to {len(figures.classes)} classes, {basis(figures).split(':')[0]}"
    return join(
        tag("p", "A rule tuned for one metric moves the others, too. Right of zero is better than argmax."),
        _figure(drawn, "changes", "Tuned rule minus argmax; bars are intervals of the paired difference."),
        table(caption, head, rows, marks),
        tag("p", intervals(figures), cls="soft"),
    )


# --- the rule --------------------------------------------------------------------------------------------------------


def _rule(figures: Figures, drawn: Charts) -> Markup:
    told = [tag("li", class_sentence(figures, k)) for k in range(len(figures.classes))]
    folds = figures.classes[0].folds is not None
    listing = tag("ul", told)
    if len(told) > MOST_SENTENCES:
        listing = details(f"What decides each of the {len(told)} classes", listing)
    names = labels([row.name for row in figures.classes])
    head = ["class", "threshold", "of argmax", *(["in the folds"] if folds else [])]
    rows = [
        [name, _threshold(row.threshold), _threshold(row.threshold_plain), *([fold_range(row)] if folds else [])]
        for name, row in zip(names, figures.classes, strict=True)
    ]
    more = None
    if len(names) > 2:
        more = tag(
            "p",
            "A threshold is the smallest probability at which the class is decided when the other classes share the "
            "rest in proportion to their mean probabilities; with another mix of rivals it lies elsewhere.",
            cls="soft",
        )
    return join(
        tag("p", " ".join(how_it_decides(figures))),
        listing,
        more,
        _figure(
            drawn,
            "thresholds",
            "Threshold of each class (point), those of the rules tuned without each fold (bar), and argmax's (tick).",
        ),
        details("Thresholds as a table", table("Thresholds by class", head, rows)),
    )


def _threshold(value: float) -> str:
    return "never" if not np.isfinite(value) else ("always" if value == 0 else number(value))


# --- classes ---------------------------------------------------------------------------------------------------------


def _classes(figures: Figures, drawn: Charts) -> Markup:
    names = labels([row.name for row in figures.classes])
    head = ["class", "rows", "decided", "precision", "recall", "F1"]
    rows = [
        [
            name,
            join(f"{row.n_rows:,}", tag("small", percent(row.share))),
            f"{percent(row.said_before)} → {percent(row.said_after)}",
            *(_pair(row, part) for part in ("precision", "recall", "f1")),
        ]
        for name, row in zip(names, figures.classes, strict=True)
    ]
    with_spans = any(row.after["f1"].low is not None for row in figures.classes)
    caption = "Argmax → tuned rule, by true class" + (", intervals of the tuned rule below" if with_spans else "")
    grid = table(caption, head, rows)
    shown = f", the {len(shown_classes(figures))} most changed" if len(names) > 30 else ""
    note = "" if with_spans else " With more than 20 classes the single ones have no intervals here."
    return join(
        tag(
            "p",
            "Recall is the share of a class's rows that are found; precision the share of its decisions that are "
            f"right; F1 joins both.{note}",
        ),
        _figure(drawn, "recalls", f"Recall of each class, argmax against the tuned rule{shown}."),
        grid if len(names) <= 40 else details(f"All {len(names)} classes as a table", grid),
    )


def _pair(row: ClassRow, part: str) -> Markup:
    before, after = row.before[part], row.after[part]
    span = interval(after.low, after.high)
    return join(f"{number(before.value)} → {number(after.value)}", tag("small", span) if span else None)


def _confusions(figures: Figures, drawn: Charts) -> Markup:
    kept, K = shown_classes(figures), len(figures.classes)
    M = figures.after.shape[1]
    names = labels([row.name for row in figures.classes] + [f"decision {k}" for k in range(K, M)])
    columns = [*kept, *range(K, M)]
    parts: list[Any] = []
    for title, C, sign in (
        ("argmax", figures.before, False),
        ("tuned rule", figures.after, False),
        ("tuned rule minus argmax", figures.after - figures.before, True),
    ):
        body = [[names[k], *(_cell(C[k, j], sign) for j in columns)] for k in kept]
        caption = (
            f"Confusion matrix of {title}, {'weight of rows' if figures.evidence.table.weight is not None else 'rows'}"
        )
        parts.append(
            details(f"Counts: {title}", table(caption, ["true \\ decided", *(names[j] for j in columns)], body))
        )
    more = None
    if len(kept) < K:
        more = tag(
            "p",
            f"Of {K} classes these are the {len(kept)} with the most rows decided otherwise; decisions for the others "
            f"are left out of the pictures and the counts.",
        )
    chart = (("before", "Argmax"), ("after", "Tuned rule"), ("difference", "Difference: blue more, orange less"))
    pictures = [_figure(drawn, f"confusion-{name}", caption) for name, caption in chart]
    return join(
        tag(
            "p",
            "Each line is a true class, each column a decision; a cell is the share of the class's rows. On the "
            "diagonal, blue in the difference is good; elsewhere it is a mistake made more often.",
        ),
        more,
        tag("div", pictures, cls="three"),
        parts,
    )


def _cell(value: float, sign: bool) -> str:
    whole = float(round(value, 6))
    if not sign:
        return count(whole)
    return "0" if whole == 0 else f"{'+' if whole > 0 else '−'}{count(abs(whole))}"


# --- price and trust -------------------------------------------------------------------------------------------------


def _trade(figures: Figures, drawn: Charts) -> Markup:
    main, second = metric_name(figures.main.name), metric_name(figures.second)
    if figures.main.name == figures.second:
        row = "The tuned metric and the second one are the same; name another one to see what it costs."
        return tag("p", row)
    trade = figures.trade
    if trade is None:
        return tag(
            "p", "This rule mixes all probabilities of too many classes; the way from argmax to it is not drawn."
        )
    body = [[f"{t:.2f}", number(y), number(x)] for t, y, x in zip(trade.steps, trade.tuned, trade.other, strict=True)]
    note = ""
    if figures.evidence.rule.calibrator is not None:
        note = " The line starts at argmax of the calibrated probabilities, the grey point is argmax of the given ones."
    if figures.evidence.rule.is_randomized:
        note += " The line follows the most frequent rule of the mixture, so the tuned rule may lie beside it."
    return join(
        tag(
            "p",
            f"Weights can be taken part of the way. The line shows what that gives: {main} upwards, {second} to the "
            f"right, from argmax through the tuned rule to half as far again.{note} Who needs both can stop earlier.",
        ),
        _figure(drawn, "trade", f"{capital(main)} against {second}; up and to the right is better."),
        details(
            "The way as a table",
            table("From argmax (0) to the tuned rule (1) and beyond", ["way", main, second], body),
        ),
    )


def _trust(figures: Figures, drawn: Charts) -> Markup:
    solution = figures.evidence.solution
    told: list[Any] = [tag("p", certificate(figures))]
    if solution is not None:
        told.append(
            tag("p", f"The search made {solution.n_passes} scans of the table and ended: {solution.status.value}.")
        )
    if figures.evidence.fold is not None:
        told.append(_folds(figures))
    told.append(
        _figure(
            drawn, "convergence", "What the search had found after each scan, by its own estimate on the tuning rows."
        )
    )
    if solution is not None and "convergence" in drawn:
        body = [
            [
                str(k + 1),
                str(step.n_passes),
                number(step.value),
                number(step.upper_bound) if solution.upper_bound else "–",
            ]
            for k, step in enumerate(solution.history)
        ]
        head = ["step", "scans", "value", "upper bound"]
        told.append(details("The search as a table", table("Steps of the search", head, body)))
    return join(told)


def _folds(figures: Figures) -> Markup:
    """Return what the rules of the folds reach on their tuning rows and on the rows that they have not seen."""
    evidence, main = figures.evidence, figures.main
    solution = evidence.solution
    assert solution is not None and evidence.fold is not None
    metric, body = evidence.metric, []
    for k, each in enumerate(evidence.solutions):
        mine = evidence.fold == k
        body.append(
            [f"without fold {k + 1}", f"{int((~mine).sum()):,}", number(each.label_value), f"{int(mine.sum()):,}"]
        )
    body.append(["all rows", f"{len(evidence.fold):,}", number(solution.label_value), "–"])
    del metric
    seen = number(solution.label_value)
    return join(
        tag(
            "p",
            f"On the rows that it was tuned on, the saved rule has {metric_name(main.name)} {seen}; decided by rules "
            f"that have not seen them, the same rows have {number(main.tuned.value)}. By the difference, "
            f"values on tuning rows flatter.",
        ),
        details(
            "The rules of the folds",
            table(
                f"{capital(metric_name(main.name))} on the rows that each rule was tuned on",
                ["rule tuned", "rows", "value on them", "rows decided by it here"],
                body,
            ),
        ),
    )


def _calibration(figures: Figures, drawn: Charts) -> Markup:
    raw, used = figures.raw, figures.calibrated
    both = [("as given", raw)] + ([] if used is raw else [("as the rule uses them", used)])
    bins = [
        [name, f"{number(found.said[k])}", number(found.seen[k]), percent(float(found.share[k]))]
        for name, found in both
        for k in range(len(found.said))
    ]
    measures = [
        [name, number(found.log_loss), number(found.brier), number(found.ece), number(found.ece_by_chance)]
        for name, found in both
    ]
    names = labels([row.name for row in figures.classes])
    sizes = [
        [name, percent(row.share), *(percent(float(found.mean[k])) for _, found in both)]
        for k, (name, row) in enumerate(zip(names, figures.classes, strict=True))
    ]
    head = ["probabilities", "log loss", "Brier score", "calibration error", "of that, chance"]
    again = (
        " Each row is corrected as the rule tuned without its fold does." if figures.evidence.fold is not None else ""
    )
    return join(
        tag("p", calibrated(figures) + (again if used is not raw else "")),
        _figure(
            drawn, "calibration",
            "On the dashed line the probabilities are right; bars are two standard errors if they were.",
        ),
        table("Measures of the probabilities (lower is better)", head, measures),
        details(
            "Bins and classes as tables",
            table("Bins of the most probable class, about equally many rows each",
                  ["probabilities", "stated", "right", "rows"], bins),
            table("Share of each class: in the labels, and by the mean probability",
                  ["class", "labels", *(name for name, _ in both)], sizes),
        ),
    )  # fmt: skip


# --- how it was made -------------------------------------------------------------------------------------------------

GLOSSARY = (
    ("argmax", "Deciding the most probable class: what classifiers do unless they are told otherwise."),
    ("p/prior", "Dividing each probability by the size of its class before taking the largest."),
    ("tuned rule", "The decision rule that confmax found for the metric: a few numbers per class."),
    ("cross-fitted", "Every row is decided by a rule that was tuned without it, so none has seen the rows it decides."),
    ("interval", "Where the value may lie on the population, as far as chance in the drawing of rows is concerned."),
    ("paired difference", "Both rules are counted on the same drawn rows, so what is common to them cancels."),
    ("threshold", "The probability from which a class is decided."),
    ("calibration error", "How far stated probabilities are from frequencies, averaged over bins of rows."),
    ("gap", "How much better any rule could be at most, where that can be proved."),
)  # fmt: skip


def _made(figures: Figures, made: Made) -> Markup:
    pairs = [("rows", f"{made.source}: {weight_note(figures)}"), ("confmax", made.version), *made.settings]
    body = [part for name, value in pairs for part in (tag("dt", name), tag("dd", value))]
    return join(
        tag("dl", body, cls="made"),
        tag("p", "To make it again:"),
        tag("pre", tag("code", made.again), tabindex="0"),
        details(
            "The rule as JSON",
            tag("p", tag("a", "Download rule.json", href=_data_url(made.rule), download="rule.json")),
            tag("pre", tag("code", made.rule), tabindex="0"),
        ),
        details(
            "Words used here",
            tag("dl", [part for word, told in GLOSSARY for part in (tag("dt", word), tag("dd", told))], cls="glossary"),
        ),
    )


def _data_url(text: str) -> str:
    from urllib.parse import quote

    return "data:application/json;charset=utf-8," + quote(text)
