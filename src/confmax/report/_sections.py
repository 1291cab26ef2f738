"""The sections of a report, in the order in which a newcomer asks: what changed, at what price, and why trust it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from confmax.report._figures import CLASS_INTERVALS, ClassRow, Figures
from confmax.report._format import capital, count, interval, labels, metric_name, number, percent
from confmax.report._markup import Markup, details, join, table, tag
from confmax.report._matrices import MOST_BESIDE, limits, shown_classes
from confmax.report._parts import Charts, colour_scale, figure
from confmax.report._trust_sections import calibration, trade, trust
from confmax.report._words import (
    basis,
    class_sentence,
    fold_range,
    how_it_decides,
    intervals,
    threshold_text,
    weight_note,
)
from confmax.uncertainty import Estimate

MOST_SENTENCES = 12  # classes up to which the sentences are not folded away


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
        ("What it costs", trade(figures, drawn)),
        ("Why trust it", trust(figures, drawn)),
        ("Do the probabilities mean what they say?", calibration(figures, drawn)),
        ("How this was made", _made(figures, made)),
    ]
    return [
        (name, tag("section", tag("h2", name, id=f"head-{k}"), body, id=f"part-{k}", aria_labelledby=f"head-{k}"))
        for k, (name, body) in enumerate(parts)
    ]


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
                _estimate(row.tuned),
                (change, cls),
                (told.get(row.verdict, "–"), cls),
                _estimate(row.prior),
            ]
        )
        marks.append("tuned-for" if row is figures.main else "")
    head = ["metric", "argmax", "tuned rule", "tuned minus argmax", "beyond chance?", "p/prior"]
    caption = f"Metrics of {len(figures.classes)} classes, {basis(figures).split(':')[0]}"
    dashes = ""
    if not all(np.isfinite(each.value) for row in figures.metrics for each in (row.argmax, row.tuned, row.prior)):
        dashes = " A dash stands where a metric is not finite, or not defined for more decisions than classes."
    bars = "; bars are intervals of the paired difference" if figures.score.n_replicates else ""
    return join(
        tag("p", "A rule tuned for one metric moves the others, too. Right of zero is better than argmax."),
        figure(drawn, "changes", f"Tuned rule minus argmax{bars}."),
        table(caption, head, rows, marks),
        tag("p", intervals(figures) + dashes, cls="soft"),
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
        [
            name,
            threshold_text(row.threshold),
            threshold_text(row.threshold_plain),
            *([fold_range(row)] if folds else []),
        ]
        for name, row in zip(names, figures.classes, strict=True)
    ]
    more, ranged = None, any(row.between is not None for row in figures.classes)
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
        figure(
            drawn,
            "thresholds",
            "Threshold of each class (diamond), of the rules tuned without each fold (bar), and of argmax (dot).",
        ),
        None if ranged else details("Thresholds as a table", table("Thresholds by class", head, rows)),
    )


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
    note = ""
    if not with_spans and figures.score.n_replicates:
        note = f" With more than {CLASS_INTERVALS} classes the single ones have no intervals here."
    return join(
        tag(
            "p",
            "Recall is the share of a class's rows that are found; precision the share of its decisions that are "
            f"right; F1 joins both.{note}",
        ),
        figure(drawn, "recalls", f"Recall of each class, argmax against the tuned rule{shown}."),
        grid if len(names) <= 40 else details(f"All {len(names)} classes as a table", grid),
    )


def _pair(row: ClassRow, part: str) -> Markup:
    before, after = row.before[part], row.after[part]
    span = interval(after.low, after.high)
    return join(f"{number(before.value)} → {number(after.value)}", tag("small", span) if span else None)


def _confusions(figures: Figures, drawn: Charts) -> Markup:
    kept, K = shown_classes(figures), len(figures.classes)
    M = figures.after.shape[1]
    names = figures.names
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
    top, most = limits(figures)
    share = colour_scale("share", "0", number(top))
    change = colour_scale("change", f"−{number(most)}", f"+{number(most)}")
    if not figures.changed:
        change = tag("p", "No row is decided otherwise.", cls="key")
    chart = (("before", "Argmax", share), ("after", "Tuned rule", share), ("difference", "Difference", change))
    pictures = [figure(drawn, f"confusion-{name}", caption, scale) for name, caption, scale in chart]
    return join(
        tag(
            "p",
            "Each line is a true class, each column a decision; a cell is the share of the class's rows. On the "
            "diagonal, blue in the difference is good; elsewhere it is a mistake made more often.",
        ),
        more,
        tag("div", pictures, cls="three" if len(columns) <= MOST_BESIDE else "two"),
        parts,
    )


def _cell(value: float, sign: bool) -> str:
    whole = float(round(value, 6))
    if not sign:
        return count(whole)
    return "0" if whole == 0 else f"{'+' if whole > 0 else '−'}{count(abs(whole))}"


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
