"""Rules, solutions and other tables as a notebook shows them: every text escaped, and nothing loaded or run.

No colour is set: text and lines have those of the notebook, light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from confmax.calibration.words import (
    MISSES,
    Numbers,
    by_its_table,
    headline,
    of_groups,
    printable,
    sections,
    with_names,
)

MOST = 30  # rows of a table: classes, groups
WIDE = 12  # columns of classes, in the table of a group or of gains
LONGEST = 2000  # characters of a sentence
STYLE = (
    ".confmax table{border-collapse:collapse;margin:.5em 0}"
    ".confmax th,.confmax td{padding:.15em .7em;text-align:right;border:0;font-weight:normal}"
    ".confmax th:first-child,.confmax .words{text-align:left}"
    ".confmax thead th{font-weight:bold;border-bottom:1px solid}"
    ".confmax tr.tuned th,.confmax tr.tuned td,.confmax p.head{font-weight:bold}"
    ".confmax p{margin:.4em 0}"
    ".confmax p.note{opacity:.75}"
)
TUNED = "tuned rule"


def rule_table(rule: Any) -> str:
    """Return a rule in words, and the first of its weights, offsets or gains, as HTML; of groups a row for each."""
    return _form(_rule(rule))


def solution_table(solution: Any) -> str:
    """Return a solution's value beside the plain rules, its limits, what is proved of it, and its rule, as HTML."""
    names = solution.rule.class_names
    metric = with_names(solution.metric.shown_name, names)
    stated = with_names(solution.metric.stated(solution.value), names)
    mode = f"blend, {solution.model_share:.0%} model" if solution.mode == "blend" else solution.mode
    notes = [f"estimate of the confusion matrix: {mode}; {solution.n_passes} scans of the table"]
    if solution.calibration is not None:
        notes.append(str(solution.calibration))
    return _form(
        _paragraph(f"Solution: {stated}", "head")
        + _table(["", f"{metric} on the tuning rows"], _values(solution), bold=TUNED)
        + _limits(solution.constraints, metric, falls=solution.metric.is_cost)
        + _paragraph(solution.guarantee)
        + "".join(_paragraph(note, "note") for note in notes)
        + _rule(solution.rule)
    )


def titled_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Return a table of texts with its ``title`` above, and ``notes`` below, as HTML."""
    return _form(_paragraph(title, "head") + _table(heads, rows) + "".join(_paragraph(note, "note") for note in notes))


# --- a solution -------------------------------------------------------------------------------------------------------


def _values(solution: Any) -> list[list[str]]:
    """Return the value of the plain rules and of the tuned one, and the bound, where there is one."""
    shown = solution.metric.shown
    rows = [
        [name, f"{shown(value):.6g}", *([MISSES] if name in solution.missed_by else [])]
        for name, value in solution.baselines.items()
    ]
    rows.append([TUNED, f"{shown(solution.value):.6g}"])
    if solution.upper_bound is not None and solution.contradiction is None:
        within = "rule that keeps the constraints" if solution.constraints else "rule"
        most = "costs less than" if solution.metric.is_cost else "exceeds"
        rows.append([f"no {within} {most}", f"{shown(solution.upper_bound):.6g}"])
    if solution.label_value is not None:
        rows.append([f"{TUNED}, on the labels", f"{shown(solution.label_value):.6g}"])
    return rows


def _limits(kept: Sequence[Any], metric: str, *, falls: bool) -> str:
    """Return the table of the constraints, with what became of each; of groups, the value in each."""
    if not kept:
        return ""
    # a rule, whose forms are here too, is read and applied without the constraints
    from confmax.constraints.outcomes import price_note

    by_group = any(one.by_group for one in kept)
    of_decided = any(one.decided is not None for one in kept)
    rows = []
    for one in kept:
        row = [one.text, f"{one.value:.6g}", _is_kept(one), f"{one.slack:.4g}"]
        row.append("-" if one.price is None else f"{one.price:.4g}")
        if of_decided:
            row.append("-" if one.decided is None else f"{100.0 * one.decided:.3g}% of the rows")
        if by_group:
            each = [f"{printable(str(part.group))} {part.shown}" for part in one.by_group[:MOST]]
            left = len(one.by_group) - len(each)
            row.append(", ".join(each) + (f" and {left} more" if left else ""))
        rows.append(row)
    heads = ["constraint", "value", "kept", "slack", "price", *["decided"] * of_decided, *["by group"] * by_group]
    note = price_note(metric, [one.price for one in kept], falls=falls)
    return _table(heads, rows) + (_paragraph(note, "note") if note else "")


def _is_kept(one: Any) -> str:
    if not one.kept:
        return one.refutation or "no"
    if one.vacuous:
        return "yes, as 0/0"
    return "yes" if one.assured is None else "yes, assured" if one.assured else "here, not assured"


# --- a rule -----------------------------------------------------------------------------------------------------------


def _rule(rule: Any) -> str:
    first, *lines = headline(rule)
    shown = _paragraph(first, "head") + "".join(_paragraph(line) for line in lines)
    if rule.groups:
        return shown + _groups(rule)
    for line, table in sections(rule, MOST):
        shown += _paragraph(line) + ("" if table is None else _numbers(table))
    is_matrix = rule.gains.full is not None and not rule.is_randomized
    return shown + (_gains(rule) if is_matrix else "")


def _numbers(table: Numbers) -> str:
    """Return the numbers of classes, with the chance of each rule that is drawn."""
    per_rule = len(table.heads) // max(1, len(table.shares))
    heads = [
        f"{head} ({table.shares[k // per_rule]})" if table.shares and head == "weight" else head
        for k, head in enumerate(table.heads)
    ]
    rows = [[name, *cells] for name, cells in zip(table.names, table.cells, strict=True)]
    return _table(["class", *heads], rows) + _left_out(table.left_out)


def _gains(rule: Any) -> str:
    """Return the table of gains or costs: a row for each true class, a column for each decision."""
    names = [printable(str(name)) for name in rule.class_names]
    K, M = rule.n_classes, rule.n_decisions
    # adding zero makes 0 of -0
    G = np.array(rule.cost_table.rows) if by_its_table(rule) else rule.gains.matrices()[0] + 0.0
    rows = [[names[k], *(f"{gain:.4g}" for gain in G[k, :WIDE])] for k in range(min(K, MOST))]
    left = [f"{more} more {what}" for more, what in ((K - MOST, "classes"), (M - WIDE, "decisions")) if more > 0]
    return _table(["true class", *names[:WIDE]], rows) + _left_out(left)


def _groups(rule: Any) -> str:
    """Return a row for each group: how it is decided, and its numbers by class where these are needed."""
    found = of_groups(rule, rule.n_decisions, MOST)
    tables = [table for _, _, table in found if table is not None]
    # where one class is decided first, the numbers are those of the others, and not of the same ones in every group
    classes = list(dict.fromkeys(name for table in tables for name in table.names))
    what = "" if not tables else ", ".join(dict.fromkeys(head for table in tables for head in table.heads))
    rows = []
    for name, line, table in found:
        cells = {} if table is None else dict(zip(table.names, map(" | ".join, _by_rule(table)), strict=True))
        rows.append([name, line.strip(), *(cells.get(one, "-") for one in classes[:WIDE])])
    more = ((len(rule.groups) - len(found), "groups"), (len(classes) - WIDE, "classes"))
    note = f"in the columns of classes: {what}" if tables else ""
    shown = _table(["group", "decision", *classes[:WIDE]], rows, words=1)
    return shown + (_paragraph(note, "note") if note else "") + _left_out([f"{n} more {of}" for n, of in more if n > 0])


def _by_rule(table: Numbers) -> list[list[str]]:
    """Return for each class the numbers of each rule that is drawn, with its chance."""
    n_rules = max(1, len(table.shares))
    size = len(table.heads) // n_rules
    chances = [f"{share}: " for share in table.shares] or [""]
    return [[chances[s] + ", ".join(cells[s * size : (s + 1) * size]) for s in range(n_rules)] for cells in table.cells]


# --- parts of a page --------------------------------------------------------------------------------------------------


def _form(content: str) -> str:
    return f'<div class="confmax"><style>{STYLE}</style>{content}</div>'


def _left_out(texts: Sequence[str]) -> str:
    return _paragraph(f"and {', '.join(texts)}", "note") if texts else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = -1, bold: str | None = None) -> str:
    """Return a table of texts. The column ``words`` holds sentences, and the row that begins with ``bold`` is so."""
    lines = []
    for row in rows:
        cells = [_tag("td", cell, "words" * (k == words)) for k, cell in enumerate(row[1:], 1)]
        kind = ' class="tuned"' * (row[0] == bold)
        lines.append(f"<tr{kind}>{_tag('th', row[0])}{''.join(cells)}</tr>")
    first = "".join(_tag("th", cell, "words" * (k == words)) for k, cell in enumerate(heads))
    return f"<table><thead><tr>{first}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _paragraph(line: str, kind: str = "") -> str:
    return _tag("p", line, kind)


def _tag(name: str, text: str, kind: str = "") -> str:
    """Return a text as it is, without tags and signs that change the order of others, in an element."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<{name}{attribute}>{escape(printable(text.strip(), LONGEST))}</{name}>"
