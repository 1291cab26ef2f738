"""The sections on price and trust: trade-off, certificate, folds, calibration."""

from __future__ import annotations

from typing import Any

from confmax.report._figures import Figures
from confmax.report._format import capital, metric_name, number, percent
from confmax.report._markup import Markup, details, join, table, tag
from confmax.report._parts import Charts, figure
from confmax.report._words import calibrated, certificate


def trade(figures: Figures, drawn: Charts) -> Markup:
    """Return what the tuned metric costs in the second one."""
    main, second = metric_name(figures.main.name), metric_name(figures.second)
    way = figures.trade
    if not figures.changed:
        return tag("p", "Nothing: the rule decides every row here as argmax does, so there is no way between the two.")
    if way is None:
        return tag(
            "p", "This rule mixes all probabilities of too many classes; the way from argmax to it is not drawn."
        )
    body = [[f"{t:.2f}", number(y), number(x)] for t, y, x in zip(way.steps, way.tuned, way.other, strict=True)]
    note = ""
    if figures.evidence.rule.calibrator is not None:
        note = " The line starts at argmax of the calibrated probabilities, the grey point is argmax of the given ones."
    if figures.evidence.rule.is_randomized:
        note += " The line follows the most frequent rule of the mixture, so the tuned rule may lie beside it."
    return join(
        tag(
            "p",
            f"Weights can be taken part of the way. The line shows what that gives: {main} upwards, {second} to the "
            f"right, from argmax through the tuned rule to half as far again.{note} If both matter, stop "
            f"part of the way.",
        ),
        tag(
            "p",
            "The line is counted on these rows and has no intervals: where few rows change, it wanders, and its best "
            "point would flatter itself.",
            cls="soft",
        ),
        figure(drawn, "trade", f"{capital(main)} against {second}; up and to the right is better."),
        details(
            "The way as a table",
            table("From argmax (0) to the tuned rule (1) and beyond", ["way", main, second], body),
        ),
    )


def trust(figures: Figures, drawn: Charts) -> Markup:
    """Return what is proved, how the search went, and what the folds say."""
    solution = figures.evidence.solution
    told: list[Any] = [tag("p", certificate(figures))]
    if solution is not None:
        told.append(
            tag("p", f"The search made {_scans(solution.n_passes)} of the table and ended: {solution.status.value}.")
        )
    if figures.evidence.fold is not None:
        told.append(_folds(figures))
    told.append(
        figure(
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


def _scans(n: int) -> str:
    return "one scan" if n == 1 else f"{n:,} scans"


def _folds(figures: Figures) -> Markup:
    """Return what the rules of the folds reach on their tuning rows and on the rows that they have not seen."""
    evidence, main = figures.evidence, figures.main
    solution = evidence.solution
    assert solution is not None and evidence.fold is not None
    body = []
    for k, each in enumerate(evidence.solutions):
        mine = evidence.fold == k
        body.append(
            [f"without fold {k + 1}", f"{int((~mine).sum()):,}", number(each.label_value), f"{int(mine.sum()):,}"]
        )
    body.append(["all rows", f"{len(evidence.fold):,}", number(solution.label_value), "–"])
    seen = solution.label_value
    flatter = ""
    if seen is not None and seen > main.tuned.value:
        flatter = " The difference is about how much values on tuning rows flatter."
    return join(
        tag(
            "p",
            f"On all rows, on which it was tuned, the rule that is kept has {metric_name(main.name)} {number(seen)}; "
            f"decided by rules that have not seen them, the same rows have {number(main.tuned.value)}.{flatter}",
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


def calibration(figures: Figures, drawn: Charts) -> Markup:
    """Return whether the probabilities mean what they say, before and after the rule's correction."""
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
    names = figures.names[: len(figures.classes)]
    sizes = [
        [name, percent(row.share), *(percent(float(found.mean[k])) for _, found in both)]
        for k, (name, row) in enumerate(zip(names, figures.classes, strict=True))
    ]
    head = ["probabilities", "log loss", "Brier score", "calibration error", "by chance alone"]
    again = (
        " Each row is corrected as the rule tuned without its fold does." if figures.evidence.fold is not None else ""
    )
    return join(
        tag("p", calibrated(figures) + (again if used is not raw else "")),
        figure(
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
