"""The sections on price and trust: trade-off, certificate, folds, calibration."""

from __future__ import annotations

from typing import Any

from confmax.evaluate.figures import Figures
from confmax.evaluate.names import metric_name
from confmax.page.format import capital, number, percent
from confmax.page.markup import Markup, details, join, table, tag
from confmax.page.parts import Charts, figure
from confmax.page.words import calibrated, certificate


def trade(figures: Figures, drawn: Charts) -> Markup:
    """Return what the tuned metric costs in the second one."""
    main, second = figures.main.label, metric_name(figures.second)
    way = figures.trade
    if not figures.changed:
        return tag("p", "The rule decides every row here as argmax does, so there is no trade-off to show.")
    if way is None:
        return tag("p", "This rule mixes the probabilities of too many classes, so the trade-off is not computed.")
    body = [[f"{t:.2f}", number(y), number(x)] for t, y, x in zip(way.steps, way.tuned, way.other, strict=True)]
    note = ""
    if figures.evidence.rule.calibrator is not None:
        note = " The line starts at argmax of the calibrated probabilities. The argmax point uses the given ones."
    if figures.evidence.rule.is_randomized:
        note += " The line follows the rule that is drawn most often, so the tuned rule may lie beside it."
    return join(
        tag(
            "p",
            f"Each point of the line is a rule. The line goes from argmax to the tuned rule and then half as far "
            f"beyond it. If both metrics matter to you, choose a rule between the two.{note}",
        ),
        tag(
            "p",
            "The line is counted on these rows and has no intervals. Where it rests on few changed decisions it is "
            "noisy, and its best point is optimistic.",
            cls="soft",
        ),
        figure(drawn, "trade", f"{capital(main)} against {second}; up and to the right is better."),
        details(
            "The line as a table",
            table("From argmax (0) to the tuned rule (1) and beyond", ["step", main, second], body),
        ),
    )


def trust(figures: Figures, drawn: Charts) -> Markup:
    """Return what is proved, how the search went, and what the folds say."""
    solution = figures.evidence.solution
    told: list[Any] = [tag("p", certificate(figures))]
    if solution is not None:
        told.append(
            tag("p", f"The search made {_scans(solution.n_passes)} of the table. {capital(solution.status.value)}.")
        )
    if figures.evidence.fold is not None:
        told.append(_folds(figures))
    told.append(
        figure(
            drawn,
            "convergence",
            "The best value after each scan of the tuning rows, by the estimate that was maximised.",
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
    """Return the values of the rules of the folds on their tuning rows and on held-out rows."""
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
        flatter = " The difference estimates how optimistic values on tuning rows are."
    return join(
        tag(
            "p",
            f"On its tuning rows (all rows), the rule that is kept reaches {number(seen)} in {main.label}. On held-out "
            f"rows, the rules of the folds reach {number(main.tuned.value)}.{flatter}",
        ),
        details(
            "The rules of the folds",
            table(
                f"{capital(main.label)} on the rows that each rule was tuned on",
                ["rule tuned", "tuning rows", "value on tuning rows", "held-out rows"],
                body,
            ),
        ),
    )


def calibration(figures: Figures, drawn: Charts) -> Markup:
    """Return how well the probabilities are calibrated, before and after the rule's own calibration."""
    raw, used = figures.raw, figures.calibrated
    both = [("as given", raw)] + ([] if used is raw else [("after calibration", used)])
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
    head = ["probabilities", "log loss", "Brier score", "calibration error", "expected if calibrated"]
    again = (
        " Each row is calibrated by the rule that was tuned without its fold."
        if figures.evidence.fold is not None
        else ""
    )
    return join(
        tag("p", calibrated(figures) + (again if used is not raw else "")),
        figure(
            drawn, "calibration",
            "Calibrated probabilities lie on the dashed line. Bars are two standard errors around a point.",
        ),
        table("Measures of calibration and accuracy (lower is better)", head, measures),
        details(
            "Bins and classes as tables",
            table("Bins of the most probable class, each with about the same number of rows",
                  ["probabilities", "stated", "observed", "rows"], bins),
            table("Share of each class: in the labels, and as mean probability",
                  ["class", "labels", *(name for name, _ in both)], sizes),
        ),
    )  # fmt: skip
