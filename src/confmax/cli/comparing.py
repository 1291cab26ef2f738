"""What `confmax compare` says of rules of one class and of several labels: values, the best ones, and differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from confmax.cli.show import Document, Page, number
from confmax.evaluate import Score


def values_of(
    scores: Score, rule: str, metrics: Iterable[str], key: str = "argmax", further: Mapping[str, str] | None = None
) -> Document:
    """Return one rule's values by metric, with replicates also intervals, and differences to the first plain rule.

    The ``key`` is what that is called in the document. ``further`` are other plain rules by their keys.
    """
    references = {key: scores.plain[0], **(further or {})}
    every = scores.to_dict()["metrics"]
    entries = {metric: every[metric][rule] for metric in metrics}
    document: Document = {"values": {metric: entry["value"] for metric, entry in entries.items()}}
    if scores.n_replicates:
        document["intervals"] = {metric: [entry["low"], entry["high"]] for metric, entry in entries.items()}
    for name, base in references.items():
        if rule != base and all(base in entry["minus"] for entry in entries.values()):
            document[f"minus_{name}"] = {metric: entry["minus"][base] for metric, entry in entries.items()}
    return document


def best_of(scores: Score, metrics: Iterable[str], among: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the rules with the best value, by metric, ``among`` those that compare by it."""
    best = {}
    for metric in metrics:
        values = {rule: scores.estimate(rule, metric).value for rule in among[metric]}
        # nothing equals NaN: where no value is finite, no rule is the best
        top = max((value for value in values.values() if np.isfinite(value)), default=np.nan)
        best[metric] = [rule for rule, value in values.items() if value == top]
    return best


def among_kept(documents: Iterable[Document]) -> list[str]:
    """Return the rules that miss no limit on these rows."""
    return [row["rule"] for row in documents if all(one["kept"] is not False for one in row.get("constraints", ()))]


def show_table(page: Page, title: str, columns: Sequence[str], cells: Mapping[str, Sequence[str]]) -> None:
    """Print a table of rules, whose names are the first column."""
    page.say("", title, style="bold")
    page.table(["rule", *columns], [[rule, *line] for rule, line in cells.items()])


def show_values(page: Page, document: Document, more: tuple[str, Mapping[str, str]] | None = None) -> None:
    """Print the values of every rule, ``more`` of it in a column of this name, and what it makes of limits."""
    rules = document["rules"]

    def starred(value: float | None, *, star: bool) -> str:
        return number(value) + ("*" if star else " ")

    best = document["best"]
    cells = {
        row["rule"]: [starred(value, star=row["rule"] in best[name]) for name, value in row["values"].items()]
        for row in rules
    }
    heads = _heads(document)
    if more is not None:
        heads.append(more[0])
        cells = {rule: [*line, more[1][rule]] for rule, line in cells.items()}
    compared = " of those that keep the limits" if rules[0].get("constraints") else ""
    show_table(page, f"Values; * is the best of its column{compared}", heads, cells)
    limits = rules[0].get("constraints", ())
    if limits:
        kept = {row["rule"]: [starred(one["value"], star=one["kept"]) for one in row["constraints"]] for row in rules}
        show_table(page, "Limits; * is kept on these rows", [one["text"] for one in limits], kept)


def show_limits_of_files(
    page: Page, rules: Iterable[Document], cells: Callable[[Document], Sequence[Sequence[str]]]
) -> None:
    """Print what rules of files make of the limits that they were tuned within, of each limit its ``cells``."""
    for row in rules:
        if "own_constraints" in row:
            page.say("", f"Limits that '{row['rule']}' was tuned within", style="bold")
            page.table(["constraint", "rule", "kept"], [line for one in row["own_constraints"] for line in cells(one)])


def show_differences(page: Page, document: Document, plain: str, key: str = "argmax") -> None:
    """Print the differences of rules to the one that is called ``plain``, and by its ``key`` in the document."""
    if document["intervals"] is None or not any(f"minus_{key}" in row for row in document["rules"]):
        return
    minus = {row["rule"]: row[f"minus_{key}"].values() for row in document["rules"] if f"minus_{key}" in row}
    differences = {rule: list(map(_difference, each)) for rule, each in minus.items()}
    show_table(page, f"Difference to {plain}, with its interval", _heads(document), differences)


def _heads(document: Document) -> list[str]:
    """Return the metrics as heads of columns: a table of costs or gains by its unit."""
    return [document.get("units", {}).get(name, name) for name in document["metrics"]]


def _difference(minus: Document) -> str:
    if minus["value"] is None:
        return "-"
    return f"{minus['value']:+.3f} [{minus['low']:+.3f}, {minus['high']:+.3f}]"
