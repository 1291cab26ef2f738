"""What a report says of groups of rows, in sentences."""

from __future__ import annotations

from confmax.evaluate.figures import Figures, GroupFigures, MetricRow
from confmax.page.words import FEW, listed, number, rows

MOST_NAMED = 8


def which(figures: Figures) -> str:
    """Return which groups there are, and whether the rule decides them differently."""
    named = [f"{group.name} ({rows(group.n_rows)})" for group in figures.groups]
    how = "decides each group by a rule of its own" if figures.decides_by_groups else "decides all groups alike"
    how_many = "is one group" if len(named) == 1 else f"are {len(named)} groups"
    return f"There {how_many}: {listed(named, MOST_NAMED)}. The rule {how}."


def compared(figures: Figures) -> str:
    """Return in which groups the tuned rule is better or worse than argmax in the tuned metric."""
    label = figures.main.label
    said = []
    for verdict in ("worse", "better"):
        names = [group.name for group in figures.groups if group.metrics[0].verdict == verdict]
        if names:
            said.append(
                f"In {label} the tuned rule is {verdict} than argmax for {listed(names, MOST_NAMED)}, by more than "
                f"chance explains."
            )
    few = [f"{group.name} ({group.n_rows})" for group in figures.groups if group.n_rows < FEW]
    if few:
        said.append(f"Too few rows of {listed(few, MOST_NAMED)}: their values depend on single rows.")
    return " ".join(said)


def side_by_side(figures: Figures) -> list[tuple[str, list[tuple[GroupFigures, MetricRow]]]]:
    """Return the label of the tuned metric and of the leading ones, each with every group and its values there."""
    names = [row.name for row in (figures.main, *figures.leading)]
    tables = []
    for name in names:
        lines = [(group, row) for group in figures.groups for row in group.metrics if row.name == name]
        if lines:
            tables.append((lines[0][1].label, lines))
    return tables


def spread(lines: list[tuple[GroupFigures, MetricRow]]) -> str:
    """Return by how much a metric of the tuned rule, and of argmax, differs between the groups."""
    tuned, argmax = ([getattr(row, rule).value for _, row in lines] for rule in ("tuned", "argmax"))
    if len(lines) < 2:
        return ""
    before = max(argmax) - min(argmax)
    after = max(tuned) - min(tuned)
    return f"largest difference of groups: argmax {number(before)}, tuned rule {number(after)}"
