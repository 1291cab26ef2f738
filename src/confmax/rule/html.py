"""Rules and solutions as a notebook shows them: plain tables, every name escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from confmax.calibration.words import coefficients, has_table, headline, printable

MOST_CLASSES, MOST_ATOMS = 20, 4


def rule_table(rule: Any) -> str:
    """Return a rule in words, or its weights and offsets, as HTML: at most 20 classes and four rules of a mixture."""
    lines = headline(rule)
    if not has_table(rule):
        return _paragraphs(lines)
    a, b = coefficients(rule.gains)
    names = [printable(str(name)) for name in rule.class_names[:MOST_CLASSES]]
    shown, offsets = min(len(rule.weights), MOST_ATOMS), bool(b.any())
    head = ["class"]
    for share in rule.weights[:shown]:
        drawn = f" ({share:.1%})" if rule.is_randomized else ""
        head += [f"weight{drawn}", *(["offset"] if offsets else [])]
    rows = []
    for k, name in enumerate(names):
        cells = [name]
        for s in range(shown):
            cells += [f"{a[s, k]:.4g}", *([f"{b[s, k]:.4g}"] if offsets else [])]
        rows.append(cells)
    rest = []
    if rule.n_classes > MOST_CLASSES:
        rest.append(f"{rule.n_classes - MOST_CLASSES} more classes")
    if len(rule.weights) > shown:
        rest.append(f"{len(rule.weights) - shown} more rules in the mixture")
    return _paragraphs(lines) + _table(head, rows) + _paragraphs(rest)


def solution_table(solution: Any) -> str:
    """Return a solution's value beside the plain rules, what is proved of it, and its rule, as HTML."""
    values = [(name, f"{value:.6g}") for name, value in solution.baselines.items()]
    values.append(("tuned rule", f"{solution.value:.6g}"))
    notes = [solution.guarantee, f"{solution.n_passes} scans of the table"]
    if solution.calibration is not None:
        notes.append(str(solution.calibration))
    caption = f"{solution.metric!r} on the tuning rows, by {solution.mode}"
    return _table(["", caption], values) + _paragraphs(notes) + rule_table(solution.rule)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"


def _paragraphs(lines: Sequence[str]) -> str:
    return "".join(f"<p>{escape(line.strip())}</p>" for line in lines)
