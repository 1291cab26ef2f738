"""`confmax explain` for a rule of several labels: its thresholds, and the steps of its decision on a row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax.calibration.words import which_labels
from confmax.cli.show import Document, Page, finite, number, print_document
from confmax.cli.texts import joined
from confmax.confusion import Array
from confmax.rule import LabelRule

SHOWN = 20  # labels in tables
SHOWN_PARTS = 4  # of a rule that draws


def explain_labels(
    rule: LabelRule, path: Path, proba: Sequence[float] | None, group: str | None, as_json: bool
) -> None:
    """Run `confmax explain` for a ``rule`` in the file ``path``."""
    if group is not None:
        raise click.UsageError(f"{path} decides several labels per row, which --group is not for; leave it out")
    document = explanation(rule, proba, str(path))
    print_document(document, as_json, partial(_show, rule=rule))


def explanation(rule: LabelRule, proba: Sequence[float] | None, path: str) -> Document:
    """Return what a rule does, as a document that JSON can hold, for one row of probabilities (L,) also its steps."""
    a, b = rule.gains.pair()
    maps = rule.calibrator
    return {
        "rule_file": path,
        "tuned_for": rule.metric,
        "labels": list(rule.class_names),
        "decisions": rule.decisions.argument,
        "randomized": rule.is_randomized,
        "seed": rule.seed,
        "calibration": None if maps is None else {"slopes": maps.a.tolist(), "offsets": maps.c.tolist()},
        "parts": [
            {"share": float(share), "weights": weights.tolist(), "offsets": offsets.tolist()}
            for share, weights, offsets in zip(rule.weights, a, b, strict=True)
        ],
        "thresholds": _thresholds(rule.thresholds),
        "words": words(rule),
        "example": None if proba is None else _example(rule, proba),
    }


def _thresholds(values: Array | None) -> list[float | str] | None:
    """Return thresholds as JSON can hold them: numbers, or "never" and "always"."""
    if values is None:
        return None
    return [t if np.isfinite(t) else "never" if t > 0 else "always" for t in values.tolist()]


def words(rule: LabelRule) -> list[str]:
    """Return how a rule decides, a sentence each."""
    said = [f"a row gets {which_labels(rule)}"]
    if rule.decisions.most is not None:
        said.append("of equal scores that of the later label counts as larger")
    if rule.is_randomized:
        said.append(f"the rule decides at random: for each row it draws one of {len(rule.weights)} parts")
    return said


def _example(rule: LabelRule, proba: Sequence[float]) -> Document:
    """Return the steps of a decision: calibrated probabilities, scores, labels."""
    if len(proba) != rule.n_classes:
        raise ValueError(
            f"--proba gives {len(proba)} probabilities and the rule has {rule.n_classes} labels "
            f"({joined(rule.class_names)}); give one for each, in this order"
        )
    row = np.array([proba], dtype=np.float64)
    if not ((row >= 0.0) & (row <= 1.0)).all():
        raise ValueError("--proba gives a number outside 0 to 1; give the probability of every label")
    P = rule.calibrated(rule.checked(row))
    a, b = rule.gains.pair()
    shares = rule.decision_probabilities(row)[0]
    return {
        "proba": row[0].tolist(),
        "calibrated": None if rule.calibrator is None else P[0].tolist(),
        "scores": [[finite(score) for score in part] for part in (a * P[0] + b).tolist()],
        "decision_probabilities": shares.tolist(),
        "decision": rule.predict_lists(row)[0],
    }


def _show(page: Page, document: Document, rule: LabelRule) -> None:
    """Print what a rule is for, and how it decides."""
    names = [str(name) for name in rule.class_names]
    items = {"rule": document["rule_file"], "labels": joined(names, SHOWN)}
    if document["randomized"]:
        items["draws"] = f"between {len(document['parts'])} parts, by seed {document['seed']} and row"
    page.items(items)
    page.say()
    page.block(str(rule))
    page.say("", "In words", style="bold")
    page.say(*document["words"])
    maps = document["calibration"]
    if maps is not None:
        page.say("", "Calibrated: the log-odds of each probability times its slope, plus its offset.")
        rows = [
            [name, f"{a:.4g}", f"{c:.4g}"] for name, a, c in zip(names, maps["slopes"], maps["offsets"], strict=True)
        ]
        page.table(["label", "slope", "offset"], rows[:SHOWN])
        if len(rows) > SHOWN:
            page.say(f"... {len(rows) - SHOWN} more labels; --json shows all.")
    if document["example"] is not None:
        _show_example(page, document["example"], names)


def _show_example(page: Page, example: Document, names: Sequence[str]) -> None:
    """Print the steps of the decision on one row."""
    page.say("", f"The row {','.join(f'{p:.4g}' for p in example['proba'])}, step by step", style="bold")
    columns: dict[str, Sequence[Any]] = {"label": names, "probability": list(map(number, example["proba"]))}
    if example["calibrated"] is not None:
        columns["calibrated"] = list(map(number, example["calibrated"]))
    for k, scores in enumerate(example["scores"][:SHOWN_PARTS]):
        columns["score" if len(example["scores"]) == 1 else f"score {k + 1}"] = list(map(number, scores))
    columns["decided"] = [f"{share:.0%}" if 0 < share < 1 else "yes" if share else "no" for share in _shares(example)]
    page.table(list(columns), [list(row) for row in zip(*columns.values(), strict=True)][:SHOWN])
    page.say("", f"Decided: {joined(example['decision'], SHOWN) or 'no label'}")


def _shares(example: Document) -> list[float]:
    shares: list[float] = example["decision_probabilities"]
    return shares
