"""Rows in groups: which groups a file holds, limits of groups on its labels, and values by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click
import numpy as np

from confmax.cli.columns import FileRows
from confmax.cli.matching import typed
from confmax.cli.show import Document, Page, between, key_of
from confmax.cli.texts import joined
from confmax.evaluate import Score
from confmax.rule import DecisionRule
from confmax.tables.groups import Groups


def check_group(rule: DecisionRule, path: str, group: str | None) -> None:
    """Refuse, for a rule that decides by groups, a command line without the column of these."""
    if not rule.groups_known:
        raise ValueError(
            f"{path} decides by the probabilities of groups, which no file holds; use predict of the library"
        )
    if rule.groups and group is None:
        known = joined([str(name) for name in rule.groups])
        raise click.UsageError(f"{path} decides by the groups {known}; give --group, the column of these")


def groups_of_file(rows: FileRows, rule: DecisionRule | None) -> Groups | None:
    """Return the groups of a file's rows, those that a rule decides by where it has some; None without a column.

    Raise a ValueError if the rule does not know the group of a row. Groups without a row in the file are left out.
    """
    if rows.group is None:
        return None
    if rule is None or not rule.groups:
        return Groups.of(rows.group, rows.n_rows)
    every = Groups.of(typed(rows.group, rule.groups), rows.n_rows, rule.groups)
    present, codes = np.unique(every.codes, return_inverse=True)
    return Groups(tuple(every.names[k] for k in present), codes.reshape(-1))


def values_in_groups(scores: Mapping[Any, Score], rule: str, metrics: Iterable[str]) -> Document:
    """Return a rule's values of ``metrics`` in every group."""
    found: Document = {}
    for name, part in scores.items():
        entries = part.to_dict()["metrics"]
        found[str(name)] = {metric: entries[metric][rule]["value"] for metric in metrics}
    return found


def limit_by_group(scores: Mapping[Any, Score], text: str, rule: str) -> Document:
    """Return what a limit of groups limits in every group, for a rule, with its interval if there are replicates."""
    found: Document = {}
    for name, part in scores.items():
        entry = part.to_dict()["metrics"][text][rule]
        interval = {"interval": [entry["low"], entry["high"]]} if part.n_replicates else {}
        found[str(name)] = {"value": entry["value"], **interval}
    return found


def values_by_group(scores: Mapping[Any, Score], left_out: Mapping[str, Any]) -> Document:
    """Return the metrics of every rule in every group, but those that are left out."""
    groups: Document = {}
    for name, part in scores.items():
        values = []
        for metric, rules in part.to_dict()["metrics"].items():
            if metric in left_out:
                continue
            entry: Document = {"metric": metric, **{key_of(rule): one["value"] for rule, one in rules.items()}}
            if part.n_replicates:
                entry["intervals"] = {key_of(rule): [one["low"], one["high"]] for rule, one in rules.items()}
            values.append(entry)
        groups[str(name)] = {"rows": part.n_rows, "values": values}
    return groups


def lines_by_group(by_group: Document) -> list[list[str]]:
    """Return the cells of a limit in every group: its name, and the value with its interval."""
    return [
        [f"  {name}", between(part["value"], *part.get("interval", (None, None)))] for name, part in by_group.items()
    ]


def show_groups(page: Page, groups: Document, rules: list[str]) -> None:
    """Print the values in every group, a table each."""
    for name, part in groups.items():
        page.say("", f"Group {name}, {part['rows']} rows", style="bold")
        keys = [key_of(rule) for rule in rules]
        body = [
            [row["metric"], *(between(row[key], *row.get("intervals", {}).get(key, (None, None))) for key in keys)]
            for row in part["values"]
        ]
        page.table(["metric", *rules], body, best=3)
