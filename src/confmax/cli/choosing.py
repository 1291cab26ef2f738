"""The question for a metric: `confmax tune` asks it in a terminal where no metric is given."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax import metrics
from confmax.cli import app
from confmax.cli.columns import FileRows
from confmax.cli.matching import check_applies, not_applicable
from confmax.cli.texts import STANDARD, clean, shortened
from confmax.constraints import Constraint, at_least, at_most
from confmax.errors import InputError
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned
from confmax.metrics.decided import of_decided
from confmax.optimize.column_generation import refused_within_limits

# what people ask for first, and when it is the one; docs/choosing-a-metric.md has the others
FIRST = {
    "accuracy": "every error costs the same",
    "balanced_accuracy": "all classes count equally, whatever their size",
    "g_mean": "no class may be given up",
    "min_recall": "only the worst class counts",
    "macro_f1": "hits and false alarms of every class, all classes weighted equally",
    "f1": "hits and false alarms of one class",
    "cohen_kappa": "agreement with a rater, beyond chance",
    "quadratic_kappa": "ordered classes, where far errors are worse",
}
LONGEST = 40  # characters of a name in the list


def can_ask(file: Path) -> bool:
    """Return whether somebody sits at a terminal and can answer, beside the ``file`` that is read."""
    streams = (sys.stdin, sys.stderr)
    return file != STANDARD and all(stream is not None and stream.isatty() for stream in streams)


def ask_for_metric(
    rows: FileRows, named: Callable[[str], Metric], wanted: Sequence[Constraint], *, abstains: bool
) -> Metric:
    """Return the metric that the user chooses for the rows of a file, within the limits that are ``wanted``.

    ``named`` returns a metric by its name, or raises a ValueError. The question goes to stderr, because results go to
    stdout.
    """
    sentences = suited(rows, wanted, abstains=abstains)
    names = list(sentences)
    shown = [shortened(clean(name), LONGEST) for name in names]
    width = max(map(len, shown), default=0)
    click.echo("No --metric is given. What should the rule be best at?", err=True)
    for place, (name, sentence) in enumerate(zip(shown, sentences.values(), strict=True), 1):
        click.echo(f"  {place}  {name:<{width}}  {sentence}", err=True)
    click.echo("Errors of different costs: --costs FILE.csv. Any other metric: 'confmax metrics' lists them.", err=True)
    if not wanted:
        click.echo(_about_limits(_rarest(rows)), err=True)

    def chosen(text: str) -> tuple[str, Metric]:
        text = text.strip()
        number = int(text) if text.isascii() and text.isdigit() else 0
        name = names[number - 1] if 1 <= number <= len(names) else text
        try:
            metric = named(name)
            check_applies(metric, rows)
        except ValueError as error:
            sentence = error.sentence if isinstance(error, InputError) else str(error)
            raise click.UsageError(app.in_words_of_options(sentence)) from None
        return name, metric

    # older versions of click write a part of the prompt to stdout
    with redirect_stdout(sys.stderr):
        name, metric = click.prompt("Number or name", value_proc=chosen, err=True)
    again = f"{app.command_line(click.get_current_context())} --metric {shlex.quote(name)}"
    click.echo(f"note: the same without the question: {clean(again)}", err=True)
    return metric


def suited(rows: FileRows, wanted: Sequence[Constraint], *, abstains: bool) -> Mapping[str, str]:
    """Return the first metrics that can be maximised on the rows of a file, with when each is the one."""
    K = len(rows.classes)
    found = {}
    for name, sentence in FIRST.items():
        metric = metrics.get(name)
        if metric.one_class and not_applicable(metric, rows):
            if set("[]") & set(str(_rarest(rows))):
                # the name of a metric has one pair of brackets
                continue
            # of one class by its name no order is needed
            name = f"{name}[{_rarest(rows)}]"
            metric = metrics.get(name)
            sentence += f", here of {shortened(clean(str(_rarest(rows))), LONGEST)}"
        if not_applicable(metric, rows):
            continue
        metric = aligned(metric, rows.classes)
        if not (wanted and refused_within_limits(of_decided(metric, K) if abstains else metric)):
            found[name] = sentence
    return found


def _about_limits(name: Any) -> str:
    """Return how limits are added to the command, by the example of a class."""
    if len(str(name)) > LONGEST:
        name = "NAME"
    right = at_least("precision", 0.9, label=name)
    few = at_most("rate", 0.05, label=name)
    return (
        f"Limits are options beside the metric: --subject-to {_quoted(right)} (right nine times of ten), --subject-to "
        f"{_quoted(few)} (at most 5 % of the rows)."
    )


def _quoted(limit: Constraint) -> str:
    return shlex.quote(clean(limit.text))


def _rarest(rows: FileRows) -> Any:
    """Return the class with the fewest labels, or the last one where they are not read yet."""
    if rows.labels is None:
        return rows.classes[-1]
    names, counts = np.unique(rows.labels, return_counts=True)
    return names.tolist()[int(np.argmin(counts))]
