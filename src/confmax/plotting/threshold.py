"""Two classes: a metric against the threshold on the probability of the positive one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from confmax.confusion import Array
from confmax.evaluate.evidence import tuned_on
from confmax.evaluate.thresholds import Mark, threshold_curve
from confmax.metrics import Metric, resolve
from confmax.metrics.alignment import aligned
from confmax.plotting.shared import RULES, OfRows, axes_of, palette
from confmax.rule import DecisionRule
from confmax.solution import Solution
from confmax.tables import Table, make_table


class ThresholdDisplay(OfRows):
    """A metric against the threshold on the positive class's probability, with the points of three rules.

    The positive class is the second column, or the one that the metric is of. Thresholds are on the raw
    probabilities: the calibration of the rule is undone. argmax has its point at .5, ``argmax(p / prior)`` at the share
    of the positive class.

    Parameters
    ----------
    thresholds, values : ndarray (T,)
        The metric if the positive class is decided where its probability is at least the threshold. At the last
        threshold, 1, it is never decided.
    marks : sequence of Mark
        ``name``, ``threshold``, ``value`` and ``share`` of argmax, p/prior and the rule; a rule that decides at random
        has one for each threshold that it draws.
    positive : str
        Name of the positive class.
    metric : str
        Name of the metric.
    rows : str
        Which rows the line is estimated on, and from what: the title of the picture.

    Examples
    --------
    >>> import confmax
    >>> from confmax.plotting import ThresholdDisplay
    >>> P, y = [[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8]] * 10, [0, 0, 1, 1] * 10
    >>> solution = confmax.maximize("f1", P, y, confusion="labels", calibration=None)
    >>> display = ThresholdDisplay.from_solution(solution, P, y)
    >>> {mark.name: round(mark.value, 3) for mark in display.marks}
    {'argmax': 0.667, 'p/prior': 0.667, 'tuned rule': 1.0}
    >>> display.rows
    'labels of the 40 tuning rows'
    """

    def __init__(
        self, *, thresholds: Array, values: Array, marks: Sequence[Mark], positive: str, metric: str, rows: str
    ) -> None:
        self.thresholds, self.values, self.marks = thresholds, values, tuple(marks)
        self.positive, self.metric, self.rows = positive, metric, rows

    @classmethod
    def from_rule(
        cls,
        rule: DecisionRule,
        proba: ArrayLike,
        y: ArrayLike | None = None,
        *,
        metric: str | Metric | Callable[[Array], float] | None = None,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
    ) -> ThresholdDisplay:
        """Draw the curve on ``proba`` (n, 2) with the points of ``rule`` into ``ax``.

        With labels ``y`` (n,) the line counts them, weighted by ``sample_weight`` (n,); without labels it is the
        expectation by the probabilities, calibrated as the rule calibrates them. Pass rows that the rule was not tuned
        on: on its tuning rows its point is optimistic. ``metric`` is by default what the rule was tuned for.

        Raises
        ------
        ValueError
            If there are more than two classes or decisions, if the rule does not decide the positive class from some
            probability on, or if it names no metric of the catalogue and ``metric`` is None.
        """
        name = rule.metric if metric is None else metric
        try:
            chosen = resolve(name)
        except ValueError as error:
            raise ValueError(f"{error}; pass metric=, what the curve is of") from None
        table = make_table(proba, y, sample_weight, rule.class_names[: rule.n_classes])
        return cls._of(rule, table, chosen, "").plot(ax=ax)

    @classmethod
    def from_solution(
        cls,
        solution: Solution,
        proba: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
    ) -> ThresholdDisplay:
        """Draw the curve of the metric of ``solution`` on ``proba`` (n, 2) into ``ax``, as `from_rule` does.

        If ``proba`` and ``y`` (n,), weighted by ``sample_weight`` (n,), are the rows that the solution was found on,
        ``rows`` and the title say so.
        """
        rule = solution.rule
        table = make_table(proba, y, sample_weight, rule.class_names[: rule.n_classes])
        return cls._of(rule, table, solution.metric, "tuning " if tuned_on(solution, table) else "").plot(ax=ax)

    @classmethod
    def _of(cls, rule: DecisionRule, table: Table, metric: Metric, which: str) -> ThresholdDisplay:
        curve = None
        if table.n_classes == rule.n_decisions == 2:
            metric = aligned(metric, table.classes)
            metric.check_table(2, 2)
            curve = threshold_curve(rule, table.dense("a plot"), metric)
        if curve is None:
            raise ValueError(
                f"a curve of thresholds needs two classes, and a rule that decides the positive one from some "
                f"probability on; this rule has {rule.n_classes} classes and {rule.n_decisions} decisions"
            )
        # a value on tuning rows is optimistic: the title says which rows these are
        source = "labels of" if table.has_labels else "probabilities of"
        rows = f"{source} the {table.n_rows:,} {which}rows"
        return cls(thresholds=curve.thresholds, values=curve.values, marks=curve.marks, positive=curve.positive,
                   metric=repr(metric), rows=rows)  # fmt: skip

    def plot(self, ax: Any = None) -> ThresholdDisplay:
        """Draw the line and the points into axes ``ax``, new ones by default."""
        self.figure_, self.ax_ = axes_of(ax)
        colours = palette(self.ax_)
        self.ax_.plot(self.thresholds, self.values, color=colours["line-strong"], zorder=1)
        for mark in self.marks:
            shape, colour = RULES[mark.name]
            share = "" if mark.share == 1 else f", {mark.share:.0%} of decisions"
            label = f"{mark.name}, from {mark.threshold:.3g}{share}"
            self.ax_.plot(mark.threshold, mark.value, shape, color=colours[colour], label=label, linestyle="none")
        self.ax_.set(
            xlabel=f"threshold on the probability of {self.positive}", ylabel=self.metric, title=f"On the {self.rows}"
        )
        self.ax_.set_xlim(-0.02, 1.02)
        self.ax_.legend()
        return self
