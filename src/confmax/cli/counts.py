"""How many rows are decided and right, as commands print it beside the shares of these rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confmax.cli.matching import positive_of, tuned_metric
from confmax.cli.show import Document, Page
from confmax.cli.texts import joined
from confmax.rule import DecisionRule, LabelRule
from confmax.rule.counts import FURTHER, Counts, rows_in_words

FEW = 3  # classes that have a sentence each; more are a table
MOST = 20  # classes that are printed


def asked_class(rule: DecisionRule) -> list[Any]:
    """Return the class that a rule was tuned for, or the positive one of two; nothing for one of all classes."""
    names = rule.class_names[: rule.n_classes]
    metric = tuned_metric(rule, names)
    place = None if metric is None else metric.class_place
    positive = positive_of(rule)
    if positive is not None:
        return [positive]
    return [] if place is None or place >= len(names) else [names[place]]


def few_classes(rule: DecisionRule | LabelRule) -> Sequence[Any]:
    """Return the classes or labels of a rule that has few, nothing of one that has many."""
    names = rule.class_names[: rule.n_classes]
    return names if len(names) <= FEW else ()


def counts_document(counts: Counts, asked: Sequence[Any]) -> Document:
    """Return how many rows are decided and right, with a sentence for each class that was ``asked`` about."""
    return {**counts.to_dict(), "told": {str(name): counts.words(name) for name in asked}}


def taken_in_words(document: Document) -> str:
    """Return how many rows get each decision, and which share of all rows these are."""
    counts = document["counts"]["decisions"]
    taken = [f"{counts[name]:,} {name} ({share:.1%})" for name, share in document["decided"].items()]
    return joined(taken, MOST)


def show_expected(page: Page, counts: Document) -> None:
    """Print how many rows of each class are right, as the probabilities expect, where sentences did not say it."""
    if not counts["told"]:
        lines = []
        heads = {"true": "rows in all, expected", "right": "right", "missed": "missed", FURTHER: "not decided"}
        heads = {what: head for what, head in heads.items() if what in next(iter(counts["classes"].values()))}
        for name, one in list(counts["classes"].items())[:MOST]:
            cells = ("{} [{:,}, {:,}]".format(rows_in_words(one[what]), *one[f"{what}_interval"]) for what in heads)
            lines.append([name, f"{one['decided']:,}", *cells])
        page.say()
        page.table(["class", "decided", *heads.values()], lines)
        more = len(counts["classes"]) - MOST
        page.say(*([f"... {more} more classes; --json shows all."] if more > 0 else []), "")
    page.say(f"In brackets: {counts['level']:.4g} intervals of the calibrated probabilities, if these are right.")


def show_matrix(page: Page, counts: Document, by: str = "the rule") -> None:
    """Print a confusion matrix in rows, or in sums of weights, of what is decided ``by`` a rule, unless it is large."""
    matrix = counts["matrix"]
    if matrix is None or len(matrix) > MOST:
        return
    head = f"{counts['unit']} of, by {by}"
    page.say()
    names = list(counts["classes"])
    page.table(
        [head, *(f"decided {name}" for name in counts["decisions"])],
        [[name, *map(rows_in_words, line)] for name, line in zip(names, matrix, strict=True)],
    )
