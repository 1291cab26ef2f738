"""What a rule does that its user would not expect of the metric and the limits, in the words of a warning.

A metric says nothing about the rows that it does not count, and a limit may be kept by a rule that never decides its
class. So the best rule may be of no use, and its value does not show that. The warnings here name two such cases, and
what argmax does there. A third is a floor on a precision that the probabilities keep and the labels do not support.
They do not repeat another warning or an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from confmax.calibration.words import with_names
from confmax.confusion import Confusion, Gains
from confmax.constraints.proportions import rows_for_floor
from confmax.evaluate.protocols import Tuned, refuted
from confmax.metrics.decided import as_written
from confmax.metrics.rates import OR
from confmax.metrics.shares import ACCURACY
from confmax.oracle import make_oracle
from confmax.rule import DecisionRule
from confmax.rule.file import refuse_names
from confmax.solution.plan import Task, may_read_again
from confmax.solution.result import Solution
from confmax.solution.side_by_side import statistics_on_labels
from confmax.tables import Table
from confmax.tables.columns import warn
from confmax.tables.labels import plain

if TYPE_CHECKING:
    from confmax.constraints import Limits

FEWER = 0.5  # of the rows that argmax decides rightly: a rule of use seldom falls below
SURE = FEWER + 0.1  # of all rows, with room for the difference between the labels and the estimate that tuned the rule
FEW = 30  # rows: fewer are an example, and no share of them is worth a warning


def warn_of_names(classes: Sequence[Any], groups: Sequence[Any] = ()) -> None:
    """Warn of names of classes or groups, such as dates, that no rule file holds: the rule can be used, and not saved.

    The warning comes before the work, which may take hours.
    """
    for names, what in ((classes, "class"), (groups, "group")):
        try:
            refuse_names([plain(name) for name in names], what)
        except ValueError as error:
            warn(
                f"the rule can be used here and cannot be saved: {error}; if it should be, pass these names as strings"
            )


def warn_of_unwritten(solution: Tuned) -> None:
    """Warn of limits that the rule of a ``solution`` does not hold, as the name of a class reads as something else."""
    lost = [one.text for one in solution.constraints if "[" in one.text and one.text not in solution.rule.constraints]
    if lost:
        warn(
            f"{', '.join(lost)} cannot be read back from a text, because of a name in it: the rule keeps it here, but "
            f"does not hold it, and `confmax.score` does not judge it; rename the class if it should"
        )


def warn_of_refuted(solution: Tuned) -> None:
    """Warn of limits that the rule of a ``solution`` keeps on its estimate and that the labels refute."""
    warn(refuted(solution) or "")


def warn_of_draws(solution: Solution) -> None:
    """Warn of a rule that draws though nobody asked for that: the systems that exports are for cannot decide so."""
    if solution.feasible and solution.rule.is_randomized:
        warn(
            f"the rule draws between {len(solution.rule.weights)} rules by chance, and no export to SQL, ONNX or "
            f"Python can write such a rule; pass `randomized=False` for a single one"
        )


def warn_of_surprises(solution: Solution, task: Task) -> None:
    """Warn of limits that labels refute, of a rule that never decides a class that is named, and if argmax is better.

    The latter is so if it decides more than twice as many rows rightly.

    The labels of the rows are counted; without labels, what the calibrated probabilities expect. Of a rule that
    abstains the rows that it decides are compared. Tables in parts are not read again only to compare the two.
    """
    warn_of_refuted(solution)
    raw = task.raw
    limits = task.limits
    metric = as_written(solution.metric)
    trivial = limits is None and metric.trivial_rule is not None
    if trivial or not solution.feasible_on_estimate or raw.n_rows < FEW:
        return
    unused = _never_decided(solution, limits, [str(plain(name)) for name in raw.classes])
    # of classes that no row has, another warning has told
    unused = {k: text for k, text in unused.items() if k not in task.absent}
    for doubt in _unsupported(solution, limits):
        warn(doubt)
    # a table of costs says what a wrong decision costs, and the accuracy of argmax stands beside that of the rule
    compared = may_read_again(raw) and metric.gain is None and (metric.formula != ACCURACY or limits is not None)
    # a rule that is right more often than this is no surprise, whatever argmax reaches: no row is read
    compared &= _right(solution.statistics, raw.n_classes) < SURE
    if not (unused or compared):
        return
    argmax = _by_argmax(solution, raw)
    for k, text in unused.items():
        name = raw.classes[k]
        warn(
            f"the rule never decides {name}, which {text} names; argmax decides it for {argmax.columns[k]:.1%} of the "
            f"rows. Ask for rows of this class by a floor such as recall[{name}] >= 0.1, or loosen the limits"
        )
    if not compared:
        return
    right = _right(statistics_on_labels(solution, raw), raw.n_classes)
    of_argmax = _right(argmax, raw.n_classes)
    if right < FEWER * of_argmax:
        decided = "" if solution.rule.abstain is None else " that it decides"
        best = with_names(repr(metric), raw.classes) + (" within the limits" if limits is not None else "")
        remedy = f"Add a limit such as accuracy >= {0.9 * of_argmax:.2f}, or change the metric"
        if metric.formula == ACCURACY:
            remedy = "Loosen the limits"
        warn(
            f"of the rows{decided} the rule decides {right:.1%} rightly, and argmax {of_argmax:.1%}; it is the best "
            f"found for {best}. {remedy}"
        )


def _unsupported(solution: Solution, limits: Limits | None) -> list[str]:
    """Return of which floors on a precision, kept on the estimate, the labels of few rows say little.

    With confidence, and where labels decide in the place of the estimate, the guarantee says so.
    """
    apart = solution.rule.layout is not None
    if limits is None or apart or solution.confidence is not None or solution.mode == "labels":
        return []
    said = []
    for one, outcome in zip(limits.constraints, solution.constraints, strict=True):
        rows = outcome.label_rows
        share = outcome.label_value
        if not (one.is_floor and one.metric.formula.side == "decided") or not rows or share is None:
            continue
        least = rows_for_floor(one.limit)
        # what labels refute has a warning of its own
        if rows < least and share < one.limit and not outcome.refuted_by:
            right = f"{outcome.text}: {round(share * rows)} of {rows} tuning rows are right"
            said.append(f"{right}; {least} rows or more would be needed to tell whether a rule keeps it")
    return said


def _never_decided(solution: Solution, limits: Limits | None, names: Sequence[str]) -> dict[int, str]:
    """Return the classes that the rule never decides though the metric or a limit names them, with the text of it.

    ``names`` are those of the classes, by which a sum of rates finds its own.
    """
    own = as_written(solution.metric)
    # a ceiling of zero asks for such a rule
    about = () if limits is None else [one for one in limits.constraints if one.is_floor or one.limit > 0.0]
    found: dict[int, str] = {}
    for metric, text in [(own, repr(own)), *((one.metric, one.text) for one in about)]:
        own_class = () if metric.class_place is None else (metric.class_place,)
        parts = [part.strip() for name in metric.formula.class_names for part in (name, *name.split(OR))]
        for k in (*own_class, *(names.index(part) for part in parts if part in names)):
            if solution.statistics.columns[k] == 0.0:
                found.setdefault(k, text)
    return found


def _by_argmax(solution: Solution, raw: Table) -> Confusion:
    """Return the statistics of argmax on raw probabilities, by labels or by what the calibrated ones expect."""
    rule = DecisionRule(Gains.reduced(np.ones(raw.n_classes)), np.ones(1), raw.classes)
    if raw.has_labels:
        return rule.evaluate(make_oracle(raw, "labels"))
    return rule.evaluate(make_oracle(raw.calibrated(solution.rule.calibrator), "model"))


def _right(S: Confusion, n_classes: int) -> float:
    """Return the share of the rows that are decided rightly, among those that are decided; 1 if none is."""
    decided = float(S.columns[:n_classes].sum())
    return float(S.diagonal.sum()) / decided if decided else 1.0
