"""The cross-fitted page of several labels: every row is decided by a rule that was tuned without its fold."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from confmax.errors import InputError
from confmax.evaluate.evidence import solutions_of_folds
from confmax.evaluate.label_figures import LabelFolds, TunedLabels, label_figures
from confmax.evaluate.label_rivals import Folds
from confmax.page.label_page import bootstrap_of, finish_labels
from confmax.page.template import Settings
from confmax.solution.label_task import LabelPlan
from confmax.solution.labels import LabelSolution
from confmax.solution.several import on_some_label_rows
from confmax.tables.draws import label_folds_to_judge
from confmax.tables.several import dense_within, labels_table


def write_labels_cross_fitted(
    path: str | os.PathLike[str],
    plan: LabelPlan,
    rows: tuple[Any, Any, Any],
    classes: Sequence[Any] | None,
    n_folds: int,
    solution: Any,
    how: Settings,
    settings: Mapping[str, Any],
) -> LabelSolution:
    """Tune a ``plan`` on all ``rows`` and without each fold, write the page, and return the solution of all rows.

    ``rows`` are probabilities (n, L), labels and weights; ``solution`` is that of all rows, if it is known, and
    ``settings`` are those that the page shows.
    """
    proba, y, weight = rows
    if y is None:
        raise InputError("a report counts labels", "pass `y=`, the labels of every row")
    proba = dense_within(proba, "a report")
    table = labels_table(plan.decisions, proba, y, weight, classes, stated=classes is not None)
    solve = on_some_label_rows(plan, table)
    whole = cast(LabelSolution, solve(None, {}) if solution is None else solution)
    fold = label_folds_to_judge(table.head, n_folds, how.seed)

    def tune(part: Any, kind: Mapping[str, Any]) -> LabelSolution:
        # a fold that cannot keep the limits is no reason for no report
        return solve(part, {**kind, "on_infeasible": "closest", "progress": False})

    fails = "no rule can be tuned without fold {} of {}"
    way_out = "evaluate the rule on other rows instead, or pass more rows"
    found = solutions_of_folds(tune, fold, {}, fails=fails, way_out=way_out)
    folds = LabelFolds(Folds.of(table.head, fold, how.seed), cast("Sequence[TunedLabels]", found))
    metric = replace(whole.metric, classes=None)
    figures = label_figures(table, metric, whole.rule, whole, folds, **bootstrap_of(how))
    given = [(name, str(value)) for name, value in settings.items() if name not in ("callback", "progress")]
    pairs = [("folds", f"{len(found)}, stratified by all labels"), *given]
    named = f"{os.fspath(path)!r}, {repr(plan.metric)!r}, proba, y, decisions={plan.decisions.argument!r}"
    finish_labels(path, figures, how, pairs, f"confmax.report.write_cross_fitted({named})")
    return whole
