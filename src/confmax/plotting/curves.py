"""Metrics along a line: a trade-off with another metric, a threshold, a coverage, and the scans of a run.

The picture of a frontier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array
from confmax.evaluate.curves import ROUNDING, Curve, named_curves
from confmax.evaluate.evidence import evidence_of
from confmax.evaluate.judging import by_prior
from confmax.evaluate.palette import CLASSES
from confmax.evaluate.protocols import convergence
from confmax.evaluate.studies import studies
from confmax.evaluate.thresholds import Mark, threshold_curve
from confmax.evaluate.trade_off import trade_off
from confmax.evaluate.uncertainty import AnyMetric
from confmax.metrics import Metric, resolve
from confmax.metrics.alignment import aligned
from confmax.oracle import make_oracle
from confmax.plotting.shared import OfRows, axes_of, fitted, rows_for, rows_in_words, weights_of
from confmax.rule import DecisionRule
from confmax.rule.parts import refuse_labels
from confmax.solution import Solution
from confmax.tables import Table

STEPS = 61  # of a trade-off: every fortieth of the way from argmax to the rule, and half of it beyond
# the shape and the colour of the points of each rule
RULES = {"argmax": ("o", "quiet"), "p/prior": ("s", "second"), "tuned rule": ("D", "accent")}


@dataclass(kw_only=True, eq=False, repr=False)
class TradeOffDisplay(OfRows):
    """The trade-off between the tuned metric and another one, for rules from argmax to the tuned one and beyond.

    Each point is one rule. The logarithms of its weights and its offsets are ``t`` times those of the tuned rule, where
    t goes from 0 (argmax) through 1 (the rule) to 1.5. Weights that are not all positive are scaled linearly instead.
    If the rule decides one of several classes by its probability alone, the scores go linearly from those of argmax to
    those of the rule, and beyond the rule the log odds of its threshold are ``t`` times as large.

    Attributes
    ----------
    steps, tuned, other : ndarray (S,)
        ``t``, the tuned metric and the other one.
    plain : tuple of float
        Both metrics of ``argmax(p / prior)``.
    labels : tuple of str
        Names of the metrics.
    rows : str
        Which rows the points are of, and from what: the title of the picture.

    Examples
    --------
    >>> import confmax
    >>> from confmax.plotting import TradeOffDisplay
    >>> P, y = [[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], [0, 0, 1, 1]
    >>> solution = confmax.maximize("g_mean", P, y, calibration=None)
    >>> float(TradeOffDisplay.from_solution(solution, P, y).other[0])
    0.75
    """

    steps: Array
    tuned: Array
    other: Array
    plain: tuple[float, float]
    labels: tuple[str, str]
    rows: str = ""

    @classmethod
    def from_solution(
        cls,
        solution: Solution,
        proba: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        other: AnyMetric = "accuracy",
        ax: Any = None,
    ) -> TradeOffDisplay:
        """Draw the trade-off of ``solution`` on ``proba`` (n, K) into ``ax``, new axes by default.

        It is counted on the labels ``y`` (n,), or expected by the probabilities without them. ``other`` is the second
        metric, and ``sample_weight`` (n,) weighs the rows.

        Raises
        ------
        ValueError
            For bad input, and if the rule is no set of weights on probabilities.
        """
        metrics = (solution.metric, resolve(other))
        weights_of(solution.rule)  # refuses other rules: the report draws their way by another path
        rule = solution.rule
        table, mode = rows_for(rule, proba, y, sample_weight)
        way = trade_off([(rule, table.head)], metrics, n_steps=STEPS, mode=mode)
        assert way is not None
        # p/prior stands on the probabilities that the way is drawn on
        calibrated = table.calibrated(rule.calibrator)
        prior = table.label_weight() if table.has_labels else calibrated.mean_probability()
        matrix = any(metric.statistics == "matrix" for metric in metrics)
        plain = make_oracle(calibrated, mode).maximize(by_prior(prior), matrix=matrix)
        at_plain = tuple(float(np.squeeze(metric.values(plain))) for metric in metrics)
        labels = (metrics[0].axis_name, metrics[1].axis_name)
        rows = rows_in_words(rule, table, solution)
        return cls(**vars(way), plain=(at_plain[0], at_plain[1]), labels=labels, rows=rows).plot(ax=ax)

    def plot(self, ax: Any = None) -> TradeOffDisplay:
        """Draw into axes ``ax``, new ones by default."""
        self.figure_, self.ax_, colours = axes_of(ax)
        # the rule itself is the step t = 1, which may be missed by rounding
        at = int(np.argmin(np.abs(self.steps - 1.0)))
        self.ax_.plot(self.other, self.tuned, "-", color=colours["line-strong"])
        points = ((self.other[0], self.tuned[0]), self.plain[::-1], (self.other[at], self.tuned[at]))
        for (name, (shape, colour)), point in zip(RULES.items(), points, strict=True):
            self.ax_.plot(*point, shape, color=colours[colour], label=name)
        self.ax_.set(xlabel=self.labels[1], ylabel=self.labels[0], title=self.rows and f"On the {self.rows}")
        self.ax_.legend()
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class ThresholdDisplay(OfRows):
    """A metric against the threshold on the positive class's probability, with the points of three rules.

    The positive class is the second column, or the one that the metric is of. Thresholds are on the raw
    probabilities: the calibration of the rule is undone. If the rows are those that the solution was found on, ``rows``
    and the title say so. argmax has its point at .5, ``argmax(p / prior)`` at the share of the positive class.

    Attributes
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

    thresholds: Array
    values: Array
    marks: Sequence[Mark]
    positive: str
    metric: str
    rows: str

    @classmethod
    def from_rule(
        cls,
        rule: DecisionRule,
        proba: ArrayLike,
        y: ArrayLike | None = None,
        *,
        metric: AnyMetric | None = None,
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
        refuse_labels(rule, "this figure")
        try:
            chosen = resolve(rule.metric if metric is None else metric)
        except ValueError as error:
            raise ValueError(f"{error}; pass metric=, what the curve is of") from None
        table, _ = rows_for(rule, proba, y, sample_weight)
        return cls._of(rule, table, chosen).plot(ax=ax)

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
        table, _ = rows_for(rule, proba, y, sample_weight)
        return cls._of(rule, table, solution.metric, solution).plot(ax=ax)

    @classmethod
    def _of(
        cls, rule: DecisionRule, table: Table, metric: Metric, solution: Solution | None = None
    ) -> ThresholdDisplay:
        curve = None
        if table.n_classes == rule.n_decisions == 2:
            metric = aligned(metric, table.classes)
            metric.check_table(2, 2)
            curve = threshold_curve(rule, table.gathered("a plot").dense("a plot"), metric)
        if curve is None:
            raise ValueError(
                f"a curve of thresholds needs two classes, and a rule that decides the positive one from some "
                f"probability on; this rule has {rule.n_classes} classes and {rule.n_decisions} decisions"
            )
        return cls(**vars(curve), metric=metric.axis_name, rows=rows_in_words(rule, table, solution))

    def plot(self, ax: Any = None) -> ThresholdDisplay:
        """Draw the line and the points into axes ``ax``, new ones by default."""
        self.figure_, self.ax_, colours = axes_of(ax)
        self.ax_.plot(self.thresholds, self.values, color=colours["line-strong"], zorder=1)
        for mark in self.marks:
            shape, colour = RULES[mark.name]
            share = "" if mark.share == 1 else f", {mark.share:.0%} of decisions"
            label = f"{mark.name}, from {mark.threshold:.3g}{share}"
            self.ax_.plot(mark.threshold, mark.value, shape, color=colours[colour], label=label, linestyle="none")
        self.ax_.set(
            xlabel=f"threshold on the probability of {self.positive}", ylabel=self.metric, title=f"On the {self.rows}"
        )
        # the points of rules that decide always or never lie at the ends, and are drawn whole
        self.ax_.set_xlim(-0.02, 1.02)
        self.ax_.legend()
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class RiskCoverageDisplay(OfRows):
    """The loss among the rows that are decided against their share, for Chow's rule and rules that abstain.

    Attributes
    ----------
    curves : mapping of str to Curve
        The metric at every coverage, by name, as `Frontier.on` returns it of a limit on the coverage; the loss is one
        minus the metric.
    points : mapping of str to (float, float), or None
        Coverage and loss of single rules, by name.
    over : tuple of two floats, or None
        The coverages that areas are taken over; by default those that all curves reach. ``areas`` then holds the mean
        loss of every curve over these coverages, by name.
    rows : str
        Which rows the curves are of, where this is known: the title of the picture.

    Examples
    --------
    >>> import confmax, numpy as np
    >>> from confmax.plotting import RiskCoverageDisplay
    >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]] * 25, [0, 0, 1, 1] * 25
    >>> path = confmax.frontier("accuracy", "coverage >=", P, y, levels=[0.5, 0.75, 1.0], abstain=True)
    >>> display = RiskCoverageDisplay(curves={"tuned": path.on_labels, "Chow's rule": path.on_labels.chow})
    >>> {name: round(area, 3) for name, area in display.areas.items()}
    {'tuned': 0.0, "Chow's rule": 0.062}
    """

    curves: Mapping[str, Curve]
    points: Mapping[str, tuple[float, float]] | None = None
    over: tuple[float, float] | None = None
    rows: str = ""

    def __post_init__(self) -> None:
        """Take areas over the coverages that all curves reach, where nothing else is said."""
        if self.over is None:
            ends = [curve.line()[0][[0, -1]] for curve in self.curves.values()]
            self.over = float(max(low for low, _ in ends)), float(min(high for _, high in ends))
        self.areas = {name: 1.0 - curve.area(*self.over) for name, curve in self.curves.items()}

    @classmethod
    def from_solution(
        cls,
        solution: Solution,
        proba: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
    ) -> RiskCoverageDisplay:
        """Draw the curves that a report shows of ``solution`` on ``proba`` (n, K) with labels ``y`` (n,) into ``ax``.

        These are Chow's rule and the best rules at a grid of coverages, which are tuned on the probabilities of these
        rows and read on their labels, with the rule itself as a point. ``sample_weight`` (n,) weighs the rows.

        Raises
        ------
        ValueError
            For bad input, and if the rule does not abstain.
        """
        rule = solution.rule
        table, _ = rows_for(rule, proba, y, sample_weight)
        study = None
        if table.has_labels:
            _, study = studies(evidence_of(table.gathered("a plot").dense("a plot"), solution.metric, rule, solution))
        if study is None:
            raise ValueError(
                "a risk-coverage curve needs labels y, and a rule that leaves rows undecided and decides some of these;"
                " tune it with abstain=True, or draw those of confmax.frontier"
            )
        curves = named_curves(study.chow_curve, study.path)
        rows = rows_in_words(rule, table, solution)
        return cls(curves=curves, points={"tuned rule": study.point}, rows=rows).plot(ax=ax)

    def plot(self, ax: Any = None) -> RiskCoverageDisplay:
        """Draw the curves where areas are taken, with the areas in the legend, and the points into axes ``ax``."""
        self.figure_, self.ax_, colours = axes_of(ax)
        assert self.over is not None
        low, high = self.over
        shown = [colours["quiet"], colours["second"], *CLASSES]
        for k, (name, curve) in enumerate(self.curves.items()):
            label = f"{name}, area {self.areas[name]:.3g}"
            # few rows decide little, and the loss of so few would flatten the rest of the line
            x, y = curve.line()
            inside = (x >= low - ROUNDING) & (x <= high + ROUNDING)
            self.ax_.plot(x[inside], 1.0 - y[inside], color=shown[k % len(shown)], label=label)
        for name, point in (self.points or {}).items():
            self.ax_.plot(*point, "D", color=colours["accent"], label=name)
        metrics = dict.fromkeys(curve.metric for curve in self.curves.values())
        title = self.rows and f"On the {self.rows}"
        self.ax_.set(xlabel="coverage", ylabel=f"1 - {', '.join(metrics)} of what is decided", title=title)
        self.ax_.legend()
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay:
    """The best value and the upper bound after each scan of the table.

    Attributes
    ----------
    passes : ndarray (S,)
        Number of scans of the table after each step.
    values : ndarray (S,)
        The best value so far.
    bounds : ndarray (S,)
        The lowest upper bound so far, NaN where there is none.
    metric : str
        Name of the metric that was maximised.

    Examples
    --------
    >>> import confmax
    >>> from confmax.plotting import ConvergenceDisplay
    >>> solution = confmax.maximize("g_mean", [[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    >>> ConvergenceDisplay.from_solution(solution).ax_.get_xlabel()
    'scans of the table'
    """

    passes: NDArray[Any]
    values: Array
    bounds: Array
    metric: str

    @classmethod
    def from_solution(cls, solution: Solution, *, ax: Any = None) -> ConvergenceDisplay:
        """Draw how the search for ``solution`` went into ``ax``.

        A ValueError for a solution of several labels per row.
        """
        refuse_labels(solution, "this figure")
        passes, values, bounds = convergence(solution)
        return cls(passes=passes, values=values, bounds=bounds, metric=solution.metric.axis_name).plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> ConvergenceDisplay:
        """Draw how the search of ``estimator``, a fitted `MetricClassifierCV`, went into ``ax``."""
        return cls.from_solution(fitted(estimator), ax=ax)

    def plot(self, ax: Any = None) -> ConvergenceDisplay:
        """Draw into axes ``ax``, new ones by default. The optimum lies in the band between value and bound."""
        self.figure_, self.ax_, colours = axes_of(ax)
        # the starting rules are known from the first pass on
        x = np.append(self.passes, self.passes[-1] + 0.5)
        value, bound = (np.append(line, line[-1]) for line in (self.values, self.bounds))
        self.ax_.step(x, value, where="post", color=colours["accent"], label="best rule so far")
        # on labels nothing is proved, and there is no bound to draw
        if np.isfinite(bound).any():
            self.ax_.step(x, bound, where="post", linestyle="--", color=colours["second"], label="upper bound")
            gap = f"gap ({bound[-1] - value[-1]:.1e} at the end)"
            self.ax_.fill_between(x, value, bound, step="post", alpha=0.15, color=colours["accent"], label=gap)
        self.ax_.set(xlabel="scans of the table", ylabel=self.metric)
        self.ax_.legend(loc="lower right")
        return self


# --- the picture of a frontier ----------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class FrontierDisplay:
    """The best value of a metric at every level of a limit, and what the rules are worth on labels.

    Attributes
    ----------
    frontier : Frontier
        What `confmax.frontier` has returned.
    on : Curve or None
        What its rules are worth on other rows (`Frontier.on`); None for the labels of the rows that tuned them.

    Examples
    --------
    >>> import confmax, numpy as np
    >>> from confmax.plotting import FrontierDisplay
    >>> p = np.linspace(0.05, 0.95, 10)
    >>> found = confmax.frontier("recall[1]", "precision[1] >=", np.column_stack([1 - p, p]), levels=5)
    >>> FrontierDisplay(found).plot().ax_.get_xlabel()
    'precision[1] >='
    """

    frontier: Any
    on: Any = None

    def plot(self, ax: Any = None) -> FrontierDisplay:
        """Draw the bound, the values, those on labels with their intervals, and argmax and p/prior into axes ``ax``."""
        self.figure_, self.ax_, colours = axes_of(ax)
        of = self.frontier
        bounds = of.upper_bounds
        if np.isfinite(bounds).any():
            what = "no thresholds are above" if of.is_of_labels else "no rule is expected above"
            self.ax_.plot(of.levels, bounds, color=colours["quiet"], lw=1, label=what)
        estimate = "expected by the model" if of.solutions[0].mode == "model" else "on the estimate used"
        self.ax_.plot(of.levels, of.values, ".-", color=colours["accent"], label=f"best rule, {estimate}")
        on = of.on_labels if self.on is None else self.on
        if on is not None:
            where = "on the tuning labels" if self.on is None else "on other rows"
            order = np.argsort(on.reached, kind="stable")
            x = on.reached[order]
            self.ax_.plot(x, on.values[order], color=colours["second"], label=f"the same rules, {where}")
            self.ax_.fill_between(x, *on.intervals[order].T, color=colours["second"], alpha=0.2, lw=0)
            if on.chow is not None:
                self.ax_.plot(on.chow.reached, on.chow.values, "--", color=colours["quiet"], label="Chow's rule")
            for marker, (name, point) in zip("sD", on.marks.items(), strict=False):
                self.ax_.plot(*point, marker, color=colours["quiet"], label=f"{name}, {where}")
        if of.asked is not None:
            self.ax_.axvline(of.asked, color=colours["quiet"], ls=":", label="the limit that was asked for")
        self.ax_.set(
            xlabel=f"{of.quantity} {of.limit.sense}",
            ylabel=of.solutions[0].metric.axis_name if of.solutions[0].metric.cost_table else of.metric,
        )
        self.ax_.legend()
        return self
