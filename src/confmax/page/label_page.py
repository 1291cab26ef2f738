"""The page of a rule of several labels: its figures in the template `labels.html.jinja`."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from confmax._version import __version__
from confmax.errors import InputError
from confmax.evaluate.label_figures import (
    LABEL_INTERVALS,
    LabelFigures,
    TunedLabels,
    label_figures,
)
from confmax.evaluate.label_scores import check_labelled, named_label_metric
from confmax.evaluate.palette import style_variables
from confmax.evaluate.scores import kept_or_missed
from confmax.evaluate.seen import seen_by_tuning
from confmax.evaluate.verdict import AS_GOOD, verdict_of
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.page import label_words
from confmax.page.template import POLICY, Settings, environment, resource
from confmax.places import write_whole
from confmax.rule.labels import LabelRule
from confmax.tables.columns import warn
from confmax.tables.several import labels_table


def write_labels(
    path: str | os.PathLike[str],
    rule: LabelRule,
    solution: TunedLabels | None,
    rows: tuple[Any, Any, Any],
    metric: Any,
    how: Settings,
) -> None:
    """Write the page of a ``rule`` on ``rows``, probabilities (n, L), labels, and weights (n,) or None, in any place.

    ``metric`` is None for the one that it was tuned for.
    """
    proba, y, weight = rows
    chosen = _metric_of(rule, solution, metric)
    table = labels_table(rule.decisions, proba, y, weight, rule.class_names, stated=False)
    check_labelled(table, "a report")
    chosen = label_metrics.sized(chosen, table.n_rows)
    figures = label_figures(table, chosen, rule, solution, **bootstrap_of(how))
    if figures.seen:
        warn(seen_by_tuning(table.n_rows))
    call = "confmax.report.write({!r}, rule, proba, y)" if solution is None else "solution.report({!r}, proba, y)"
    finish_labels(path, figures, how, [], call.format(os.fspath(path)))


def bootstrap_of(how: Settings) -> dict[str, Any]:
    """Return the settings of the bootstrap."""
    return {"n_replicates": int(how.n_replicates), "level": float(how.level), "seed": how.seed}


def finish_labels(
    path: str | os.PathLike[str], figures: LabelFigures, how: Settings, pairs: Sequence[tuple[str, str]], call: str
) -> None:
    """Write the page of ``figures``; ``pairs`` are further settings to show, and ``call`` makes the page again."""
    rule = figures.rule
    made = {
        "source": how.source,
        "version": __version__,
        "settings": [
            ("rule", f"tuned for {rule.metric or 'a metric it does not name'}, {rule.decisions}"),
            *pairs,
            ("bootstrap", f"{how.n_replicates:,} replicates of {figures.score.resampled}, level {how.level:g}"),
            ("seed", str(how.seed)),
            ("versions", f"Python {platform.python_version()}, NumPy {np.__version__}"),
        ],
        "again": how.again or call,
        "rule": rule.to_json(),
    }
    write_whole(Path(path), page(figures, made).encode())


def _metric_of(rule: LabelRule, solution: TunedLabels | None, given: Any) -> Metric:
    if given is not None:
        return label_metrics.resolve(given, None)
    # labels that the tuning rows lack may be here
    metric = named_label_metric(rule.metric) if solution is None else replace(solution.metric, classes=None)
    if metric is None:
        raise InputError(
            f"the rule was tuned for {rule.metric or 'a metric that it does not name'!r}, which has no name here",
            "pass `metric=`, what to evaluate it by",
        )
    return metric


def page(figures: LabelFigures, made: dict[str, Any]) -> str:
    """Return the document; the same figures give the same text. ``made`` says how, as for the page of one class."""
    from markupsafe import Markup

    values = {
        "figures": figures,
        "made": made,
        "words": label_words,
        "warnings": label_words.warnings_of(figures),
        "kept": kept_or_missed,
        "as_good": AS_GOOD,
        "verdict_of": verdict_of,
        "label_intervals": LABEL_INTERVALS,
        "policy": Markup(POLICY),
        "style": Markup(f"{style_variables()}\n{resource('page.css')}"),
        "script": Markup(resource("sort.js")),
    }
    return str(environment().from_string(resource("labels.html.jinja")).render(values))
