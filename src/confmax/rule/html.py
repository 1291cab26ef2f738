"""Rules and solutions as a notebook shows them: plain tables, every name escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from confmax.calibration.words import MISSES, Numbers, headline, sections, with_names

MOST_CLASSES = 20


def rule_table(rule: Any) -> str:
    """Return a rule in words, or the first of its weights and offsets, as HTML."""
    found = sections(rule, MOST_CLASSES)
    parts = (_paragraphs([line]) + ("" if table is None else _numbers_table(table)) for line, table in found)
    return _paragraphs(headline(rule)) + "".join(parts)


def _numbers_table(table: Numbers) -> str:
    per_rule = len(table.heads) // max(1, len(table.shares))
    heads = [
        f"{head} ({table.shares[k // per_rule]})" if table.shares and head == "weight" else head
        for k, head in enumerate(table.heads)
    ]
    rows = [[name, *cells] for name, cells in zip(table.names, table.cells, strict=True)]
    return _table(["class", *heads], rows) + _paragraphs(table.left_out)


def solution_table(solution: Any) -> str:
    """Return a solution's value beside the plain rules, what is proved of it, and its rule, as HTML."""
    values = [
        (name, f"{value:.6g}{MISSES if name in solution.missed_by else ''}")
        for name, value in solution.baselines.items()
    ]
    values.append(("tuned rule", f"{solution.value:.6g}"))
    notes = [solution.guarantee, f"{solution.n_passes} scans of the table"]
    if solution.calibration is not None:
        notes.append(str(solution.calibration))
    caption = f"{with_names(repr(solution.metric), solution.rule.class_names)} on the tuning rows, by {solution.mode}"
    kept = [
        (one.text, f"{one.value:.6g}", f"{one.slack:.4g}", "-" if one.price is None else f"{one.price:.4g}")
        for one in solution.constraints
    ]
    limits = _table(["constraint", "value", "slack", "price"], kept) if kept else ""
    return _table(["", caption], values) + limits + _paragraphs(notes) + rule_table(solution.rule)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"


def _paragraphs(lines: Sequence[str]) -> str:
    return "".join(f"<p>{escape(line.strip())}</p>" for line in lines)
