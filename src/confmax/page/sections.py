"""The sections of a report, in the order in which a newcomer asks: what changed, at what price, and why trust it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from confmax.evaluate.figures import AS_GOOD, CLASS_INTERVALS, ClassRow, Figures, MetricRow
from confmax.evaluate.names import labels
from confmax.evaluate.threshold_curve import positive_class
from confmax.evaluate.uncertainty import Estimate
from confmax.page.format import capital, count, interval, number, percent
from confmax.page.format import rows as rows_of
from confmax.page.markup import Markup, details, join, table, tag
from confmax.page.matrices import MOST_BESIDE, limits, shown_classes
from confmax.page.parts import Charts, colour_scale, figure
from confmax.page.trust_sections import calibration, trade, trust
from confmax.page.words import (
    class_sentence,
    curve_basis,
    fold_range,
    how_it_decides,
    intervals,
    outside_folds,
    threshold_text,
    weight_note,
)

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
        ("Other metrics", _metrics(figures, drawn)),
        ("What the rule does", _rule(figures, drawn)),
        ("Class by class", _classes(figures, drawn)),
        ("Confusion matrices", _confusions(figures, drawn)),
        ("Trade-off", trade(figures, drawn)),
        ("How far to trust it", trust(figures, drawn)),
        ("Calibration of the probabilities", calibration(figures, drawn)),
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

HEAD = ("metric", "argmax", "tuned rule", "tuned minus argmax", "significant?", "p/prior")
SIGNIFICANT = {"better": "better", "worse": "worse", "unclear": "could be noise", "same": "no change"}


def _metrics(figures: Figures, drawn: Charts) -> Markup:
    classes = f"{len(figures.classes)} classes, {rows_of(figures.score.n_rows)}"
    dashes = ""
    if not all(np.isfinite(each.value) for row in figures.metrics for each in (row.argmax, row.tuned, row.prior)):
        dashes = " A dash means that the metric is not finite, or not defined for more decisions than classes."
    bars = " Bars are intervals of the paired difference." if figures.score.n_replicates else ""
    return join(
        tag("p", f"Tuning for {figures.main.label} moves other metrics, too."),
        _metric_table(f"Other metrics: {classes}", figures.leading, figures),
        figure(drawn, "changes", f"Tuned rule minus argmax; right of zero is better.{bars}"),
        details("All metrics", _metric_table(f"All metrics: {classes}", figures.metrics, figures)),
        tag("p", intervals(figures) + dashes, cls="soft"),
    )


def _metric_table(caption: str, shown: Sequence[MetricRow], figures: Figures) -> Markup:
    rows, marks = [], []
    for row in shown:
        minus = row.difference
        span = tag("small", interval(minus.low, minus.high, True)) if minus.low is not None else None
        cls = row.verdict if row.verdict in ("better", "worse") else None
        rows.append(
            [
                join(capital(row.label), tag("small", row.description) if row.description else None),
                _estimate(row.argmax),
                _estimate(row.tuned),
                (join(number(minus.value, True), span), cls),
                (SIGNIFICANT.get(row.verdict, "–"), cls),
                _estimate(row.prior),
            ]
        )
        marks.append("tuned-for" if row is figures.main else "")
    return table(caption, HEAD, rows, marks)


# --- the rule --------------------------------------------------------------------------------------------------------


def _rule(figures: Figures, drawn: Charts) -> Markup:
    kept = range(len(figures.classes))
    if figures.curve is not None:  # of two classes the other one follows
        kept = range(k := positive_class(figures.evidence.metric), k + 1)
    told = [tag("li", class_sentence(figures, k)) for k in kept]
    folds = figures.classes[0].folds is not None
    listing = tag("ul", told)
    if len(told) > MOST_SENTENCES:
        listing = details(f"When each of the {len(told)} classes is decided", listing)
    names = labels([row.name for row in figures.classes])
    head = ["class", "tuned rule", "argmax", *(["rules of the folds"] if folds else [])]
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
            "A threshold is the smallest probability at which the class is decided if the other classes share the "
            "rest in proportion to their mean probabilities. If they share it differently, the threshold differs.",
            cls="soft",
        )
    return join(
        tag("p", " ".join(how_it_decides(figures))),
        listing,
        more,
        figure(
            drawn,
            "thresholds",
            "Threshold of each class: tuned rule (diamond), the range of the folds' rules (bar), argmax (dot).",
        ),
        tag("p", outside_folds(figures), cls="soft") if folds else None,
        _curve(figures, drawn),
        None if ranged else details("Thresholds as a table", table("Thresholds by class", head, rows)),
    )


def _curve(figures: Figures, drawn: Charts) -> Markup | None:
    """Return, for two classes, the metric against the threshold."""
    curve = figures.curve
    if curve is None:
        return None
    positive = labels([curve.positive])[0]
    marks = [
        [mark.name if mark.share == 1 else f"{mark.name} ({percent(mark.share)})", threshold_text(mark.threshold),
         number(mark.value)]
        for mark in curve.marks
    ]  # fmt: skip
    line = [[f"{t:.2f}", number(float(np.interp(t, curve.thresholds, curve.values)))] for t in np.linspace(0, 1, 21)]
    return join(
        figure(drawn, "curve", f"{capital(figures.main.label)} for each threshold on the probability of {positive}."),
        tag("p", curve_basis(figures), cls="soft"),
        details(
            "The points and the line as tables",
            table("Thresholds of the rules", ["rule", "threshold", figures.main.label], marks),
            table("The line", ["threshold", figures.main.label], line),
        ),
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
    caption = "Argmax → tuned rule" + (", with the interval of the tuned rule below" if with_spans else "")
    grid = table(caption, head, rows)
    shown = f", the {len(shown_classes(figures))} most changed" if len(names) > 30 else ""
    note = ""
    if not with_spans and figures.score.n_replicates:
        note = f" With more than {CLASS_INTERVALS} classes, the page shows no intervals for single classes."
    return join(
        tag(
            "p",
            "Recall is the share of a class's rows that are decided correctly. Precision is the share of the decisions "
            f"for a class that are correct. F1 is their harmonic mean.{note}",
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
            f"The pictures and counts show the {len(kept)} of {K} classes whose decisions change most. Decisions for "
            f"the other classes are left out.",
        )
    top, most = limits(figures)
    share = colour_scale("share", "0", number(top))
    change, difference = colour_scale("change", "worse", "better"), f"Difference, at most {number(most)}"
    if not figures.changed_by_folds:
        change, difference = tag("p", "No decision changes.", cls="key"), "Difference"
    chart = (
        ("before", "Argmax", share),
        ("after", "Tuned rule", share),
        ("difference", difference, change),
    )
    pictures = [figure(drawn, f"confusion-{name}", caption, scale) for name, caption, scale in chart]
    return join(
        tag(
            "p",
            "Each row is a true class and each column a decision. A cell is the share of the true class's rows. In the "
            "difference, blue is better and orange is worse: more correct decisions, or fewer mistakes, are better.",
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
    ("argmax", "Decides the most probable class. This is what most classifiers do by default."),
    ("p/prior", "Divides each probability by the size of its class, then takes the largest."),
    ("tuned rule", "The decision rule that confmax tuned for the metric: a few numbers per class."),
    ("as good", "The interval of the difference (tuned rule minus the other rule, paired bootstrap) contains zero, and "
     f"its middle is below {AS_GOOD:g}. At least as good: its middle is below −{AS_GOOD:g}."),
    ("cross-fitted", "Each row is decided by a rule that was tuned on other rows."),
    ("interval", "A range of plausible values of the metric on new rows of the same kind, by the bootstrap."),
    ("paired difference", "Both rules are evaluated on the same rows, so variation that they share cancels."),
    ("threshold", "The smallest probability at which a class is decided."),
    ("calibration error", "How far stated probabilities are from observed frequencies, averaged over bins of rows."),
    ("gap", "An upper limit of how much better any rule could be, where confmax can prove one."),
)  # fmt: skip


def _made(figures: Figures, made: Made) -> Markup:
    pairs = [("rows", f"{made.source}: {weight_note(figures)}"), ("confmax", made.version), *made.settings]
    body = [part for name, value in pairs for part in (tag("dt", name), tag("dd", value))]
    return join(
        tag("dl", body, cls="made"),
        tag("p", "To make this page again:"),
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
