"""The result of `confmax.frontier`: a curve with a rule at every point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Array
from confmax.constraints import Constraint
from confmax.constraints.binding import judged
from confmax.constraints.labels import place_of
from confmax.errors import InputError
from confmax.evaluate.curves import ROUNDING, Curve, chow_curve, curve_through, in_columns, written
from confmax.evaluate.judging import gains_of, rules_decide
from confmax.evaluate.label_lines import MOST_LINES, judge_labels
from confmax.evaluate.label_rivals import Rivals
from confmax.evaluate.label_scores import compare_labels, labels_decided, limits_on
from confmax.evaluate.limits import judged_limits
from confmax.evaluate.lines import judge
from confmax.evaluate.seen import doubt_of_rows
from confmax.evaluate.uncertainty import check_bootstrap, compare, in_groups
from confmax.evaluate.verdict import Estimate
from confmax.metrics import Metric
from confmax.metrics.alignment import fit_metric
from confmax.metrics.decided import as_written, of_decided
from confmax.plotting import FrontierDisplay
from confmax.rule import DecisionRule
from confmax.rule.html import titled_table
from confmax.rule.labels import LabelRule
from confmax.solution.labels import LabelSolution
from confmax.solution.result import Solution
from confmax.tables import Part, Table, apply_calibrator, make_table
from confmax.tables.columns import warn
from confmax.tables.groups import Groups
from confmax.tables.kinds import refuse_elsewhere
from confmax.tables.several import labels_table

REPLICATES = 200  # of the bootstrap: the intervals are drawn
SHOWN = 25  # lines of a table
ENTRIES = 1 << 25  # of decisions (n, L) that are held at once: 256 MB
MARKS = ("argmax", "p/prior")
AnySolution = Solution | LabelSolution
Found = tuple[float, Solution] | tuple[float, LabelSolution]


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """The best attainable value of a metric at every level of a limit, with a rule for each.

    Attributes
    ----------
    metric : str
        What is maximised.
    limit : Constraint
        The quantity that is limited, and the direction; its number is the asked one, else the loosest level.
    levels : ndarray (S,)
        Numbers of the limit, from the loosest to the tightest that a rule keeps.
    solutions : tuple of Solution or LabelSolution
        The best rule at every level. One rule may be the best at several.
    asked : float or None
        The level that was asked for.
    on_labels : Curve or None
        What the rules are worth on the labels of the rows that tuned them, with intervals; None without labels. New
        rows say more: see `on`.

    Examples
    --------
    >>> import confmax, numpy as np
    >>> p = np.linspace(0.05, 0.95, 10)
    >>> found = confmax.frontier("accuracy", "rate[1] <=", np.column_stack([1 - p, p]), levels=[0.1, 0.3, 0.5])
    >>> print(found)
    the best accuracy at 3 levels of rate[1], model estimate
    rate[1] <=  accuracy  at most
           0.5      0.75     0.75
           0.3      0.71     0.71
           0.1      0.59     0.59
    """

    metric: str
    limit: Constraint
    levels: Array
    solutions: tuple[AnySolution, ...]
    asked: float | None = None
    on_labels: Curve | None = None

    @classmethod
    def of(
        cls, limit: Constraint, found: Sequence[tuple[float, AnySolution]], asked: float | None, raw: Any
    ) -> Frontier:
        """Return the frontier of a ``limit`` with the levels and solutions ``found``, tuned on the rows ``raw``.

        ``asked`` is the level that was asked for.
        """
        levels, solutions = zip(*found, strict=True)
        first = solutions[0]
        limit = replace(limit, limit=float(levels[0] if asked is None else asked))
        # rules of several labels are named by their metric without the numbers of the labels that it is over
        name = first.rule.metric if isinstance(first.rule, LabelRule) else repr(as_written(first.metric))
        made = cls(name, limit, np.array(levels), solutions, asked)
        if not raw.has_labels or not first.rule.groups_known:
            return made
        return replace(made, on_labels=made._curve(raw, REPLICATES))

    # --- as arrays ----------------------------------------------------------------------------------------------------

    @property
    def values(self) -> Array:
        """The metric of every rule on the estimate (S,)."""
        return np.array([one.value for one in self.solutions])

    @property
    def reached(self) -> Array:
        """The limited quantity of every rule on the estimate (S,)."""
        return np.array([self._reached(one) for one in self.solutions])

    @property
    def upper_bounds(self) -> Array:
        """What no rule exceeds at every level (S,); NaN where nothing is proved."""
        return np.array([np.nan if one.upper_bound is None else one.upper_bound for one in self.solutions])

    @property
    def rules(self) -> tuple[DecisionRule | LabelRule, ...]:
        """The rule of every level."""
        return tuple(one.rule for one in self.solutions)

    @property
    def is_of_labels(self) -> bool:
        """Whether the rules decide several labels per row; bounds are then those of thresholds."""
        return isinstance(self.solutions[0].rule, LabelRule)

    @property
    def quantity(self) -> str:
        """The quantity that is limited, as constraints write it."""
        return self.limit.across.text(self.limit.metric, self.limit.sense)

    def at(self, level: float) -> AnySolution:
        """Return the solution of the loosest level that is as tight as ``level``.

        Raises
        ------
        ValueError
            If no rule keeps so tight a limit.
        """
        sign = self.limit.stated.sign
        enough = np.flatnonzero(sign * self.levels >= sign * level - ROUNDING)
        if not len(enough):
            raise ValueError(
                f"no rule of this frontier keeps {self.quantity} {self.limit.sense} {level:.6g}; the tightest level is "
                f"{self.levels[-1]:.6g}"
            )
        return self.solutions[int(enough[0])]

    @property
    def marks(self) -> dict[str, tuple[float, float]]:
        """The limited quantity and the metric of argmax and of p/prior, as in ``on_labels``; empty without labels."""
        return {} if self.on_labels is None else self.on_labels.marks

    def value_at(self, level: float) -> float:
        """Return the value on the estimate at a ``level`` of the limit, on the line between two levels.

        Raises
        ------
        ValueError
            If the levels do not reach there.
        """
        return self._of_levels().value_at(level)

    def area(self, low: float | None = None, high: float | None = None) -> float:
        """Return the mean value over the levels from ``low`` to ``high``, by the trapezoid; None is the end.

        Raises
        ------
        ValueError
            If ``low`` is not below ``high``, or no level lies there.
        """
        return self._of_levels().area(low, high)

    def _of_levels(self) -> Curve:
        """Return the values on the estimate over the levels, as a curve."""
        return curve_through(self.metric, self.quantity, self.levels, self.values)

    # --- on other rows ------------------------------------------------------------------------------------------------

    def on(
        self,
        proba: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        group: ArrayLike | None = None,
        n_replicates: int = REPLICATES,
    ) -> Curve:
        """Return what the rules are worth on labelled rows that tuned nothing, beside argmax and p/prior.

        Parameters
        ----------
        proba : array-like, data frame (n, K)
            Raw class probabilities.
        y : array-like (n,)
            True classes.
        sample_weight : array-like (n,) or None
            Non-negative weights.
        group : array-like (n,) or None
            The group of each row, for rules that decide by groups.
        n_replicates : int
            Replicates of the bootstrap; 0 for no intervals.

        Raises
        ------
        ValueError
            If the input is bad.
        """
        check_bootstrap(n_replicates, 0.95)
        refuse_elsewhere(proba, "a frontier is read on labelled rows in memory; pass arrays proba (n, K) and y (n,)")
        if y is None:
            raise InputError("a frontier is read on labels", "pass `y`, the true class of every row")
        rule = self.solutions[0].rule
        if not rule.groups_known:
            raise ValueError("rules by the probabilities of groups are valued by maximize only")
        if isinstance(rule, LabelRule):
            if group is not None:
                raise InputError("`group` is of one class for every row, and these rules decide several labels")
            table = labels_table(rule.decisions, proba, y, sample_weight, rule.class_names)
            warn(doubt_of_rows({"rule": rule}, table))
            return self._curve(table, n_replicates)
        names = rule.class_names[: rule.n_classes]
        table = make_table(proba, y, sample_weight, names, stated=True)
        if group is not None:
            table = table.with_groups(Groups.of(group, table.n_rows, rule.groups or None, proba=proba))
        warn(doubt_of_rows({"rule": rule}, table))
        return self._curve(table, n_replicates)

    def _curve(self, table: Table, n_replicates: int) -> Curve:
        """Return the curve on a labelled table."""
        values, reached = (self._of_labels if self.is_of_labels else self._of_classes)(table, n_replicates)
        places = [f"{id(rule)}" for rule in self.rules]

        def ends(found: dict[str, Estimate]) -> Array:
            pairs = [found[name][1:] for name in places]
            return np.array([(np.nan, np.nan) if None in pair else pair for pair in pairs], dtype=np.float64)

        return Curve(
            self.metric,
            self.quantity,
            self.levels,
            np.array([reached[name].value for name in places]),
            np.array([values[name].value for name in places]),
            ends(reached),
            ends(values),
            {name: (reached[name].value, values[name].value) for name in values if name not in places},
            None if self.is_of_labels else self._chow(as_written(self.solutions[0].metric), table),
            self.solutions[0].metric.is_cost,
        )

    def _of_labels(self, table: Table, n_replicates: int) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
        """Return the values of rules of several labels, and what they make of the limited quantity, by name."""
        limits = limits_on(self.limit, self.rules[0].class_names, table)
        if limits.limits is None:
            raise ValueError(f"these rows cannot judge {self.quantity}: no row has its label")
        metrics = {"value": replace(self.solutions[0].metric, classes=None)}
        (place,) = map(place_of, limits.limits.constraints)
        of_decided = limits.limits.constraints[0].metric.formula.side == "decided"
        rules = {f"{id(rule)}": cast(LabelRule, rule) for rule in self.rules}
        values, reached = {}, {}
        # the decisions of all rules at once may be more than the memory holds; each part draws the same replicates
        at_once = max(1, ENTRIES // (min(table.n_rows, MOST_LINES) * table.n_classes))
        names = list(rules)
        for start in range(0, len(names) + 1, at_once):
            # what is decided without tuning comes first
            some = {name: rules[name] for name in names[max(0, start - 1) : start - 1 + at_once]}
            plain = Rivals((table.decisions,) if start == 0 else ())
            found = judge_labels(table, partial(labels_decided, plain, some, called=self.quantity))
            limited = dict.fromkeys(found.rules, limits)
            score = compare_labels(found, metrics, plain=(), limits=limited, n_replicates=n_replicates)
            for name, S in found.whole.items():
                values[name] = score.estimate(name, "value")
                ((_, value, low, high, *_),) = score.limits[name]
                # where no row gets the label, its precision has no value
                nothing = value is None or (of_decided and not S[0].columns[place].any())
                reached[name] = Estimate(np.nan, None, None) if nothing else Estimate(float(value or 0.0), low, high)
        return values, reached

    def _of_classes(self, table: Table, n_replicates: int) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
        """Return the values of rules of one class, and what they make of the limited quantity, by name."""
        metric = as_written(self.solutions[0].metric)
        limits, _ = judged(replace(self.limit, metric=as_written(self.limit.metric)), table, abstains=self._abstains)
        if limits is None:
            raise ValueError(
                f"these rows cannot judge {self.quantity}: they have no row of its class, or of one of the groups"
            )
        (limit,) = limits.constraints
        rules = {f"{id(rule)}": cast(DecisionRule, rule) for rule in self.rules}
        found = judge(table, partial(rules_decide, rules), partial(gains_of, rules))
        rows = found.rows
        decided = {name: one for name, one in found.decided.items() if name in rules or not self._abstains}
        metrics: dict[str, Metric] = {"value": metric}
        metrics |= {str(limit): as_written(limit.metric)}
        score = compare(rows, metrics, decided, n_replicates=n_replicates)
        if limit.of_groups:
            by_group = in_groups(rows, metrics, decided, n_replicates=0)
            score = replace(score, by_group=by_group)
        reached = {}
        for name, one in decided.items():
            if name in MARKS and limits.layout is not None:
                # limits of groups lie on groups side by side
                one = one._replace(n_decisions=table.n_classes)
            (judgement,) = judged_limits(limits, score, name, one, rows)
            # where no row is decided as its class, a precision has no value
            nothing = Estimate(np.nan, None, None)
            reached[name] = nothing if judgement.vacuous else judgement.estimate
        return {name: score.estimate(name, "value") for name in decided}, reached

    def _chow(self, metric: Metric, table: Table) -> Curve | None:
        """Return the curve of Chow's rule at the levels, if they are coverages of all rows."""
        of = as_written(self.limit.metric)
        placed = of_decided(fit_metric(metric, table, explicit=True), table.n_classes)
        if not of.formula.is_coverage or of.divides_by_prior or not placed.formula.is_of_decided:
            return None
        rule = self.solutions[0].rule
        return table.sorting(lambda: self._chow_of(placed, rule.calibrator, table.head), None)

    def _chow_of(self, metric: Metric, calibrator: Any, rows: Part) -> Curve:
        P = apply_calibrator(calibrator, rows.dense("a frontier").proba)
        return replace(chow_curve(metric, P, rows, np.sort(self.levels)), metric=self.metric)

    def _reached(self, solution: AnySolution) -> float:
        """Return the limited quantity of a rule; NaN where it is 0/0."""
        if self._is_coverage and solution.rule.abstain is None:
            # a rule that cannot abstain has no limit on its coverage
            return 1.0
        one = solution.constraints[-1]
        return np.nan if one.vacuous else one.value + 0.0

    @property
    def _name(self) -> str:
        """The metric as people read it: of a table of costs or gains its unit."""
        metric = self.solutions[0].metric
        return f"{metric.shown_name} of a row" if metric.cost_table else self.metric

    @property
    def _is_coverage(self) -> bool:
        return self.limit.metric.formula.is_coverage

    @property
    def _abstains(self) -> bool:
        return self._is_coverage or any(rule.abstain is not None for rule in self.rules)

    # --- what people see ----------------------------------------------------------------------------------------------

    def plot(self, ax: Any = None, *, on: Curve | None = None) -> Any:
        """Draw the frontier, with argmax and p/prior where labels were given, and return the display.

        Parameters
        ----------
        ax : matplotlib axes or None
            Where to draw; new axes for None.
        on : Curve or None
            What the rules are worth on other rows, drawn beside it.
        """
        return FrontierDisplay(self, on=on).plot(ax=ax)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain Python values, for JSON; what is not known is None."""
        on = self.on_labels
        shown = self.solutions[0].metric.shown
        points = []
        reached = self.reached
        for k, solution in enumerate(self.solutions):
            point: dict[str, Any] = {
                "level": float(self.levels[k]),
                "value": shown(solution.value),
                "upper_bound": None if solution.upper_bound is None else shown(solution.upper_bound),
                "reached": _plain(reached[k]),
                "deterministic": not solution.rule.is_randomized,
            }
            if on is not None:
                point |= {
                    "label_value": _plain(shown(on.values[k])),
                    "label_interval": _plain_interval(list(map(shown, on.intervals[k]))),
                    "label_reached": _plain(on.reached[k]),
                    "label_reached_interval": [_plain(end) for end in on.reached_intervals[k]],
                }
            points.append(point)
        marks = {} if on is None else {name: [_plain(x), _plain(shown(y))] for name, (x, y) in on.marks.items()}
        return {
            "metric": self.metric,
            "unit": None if self._name == self.metric else self._name,
            "limit": f"{self.quantity} {self.limit.sense}",
            "asked": self.asked,
            "confusion": self.solutions[0].mode,
            "points": points,
            "marks": marks,
        }

    def __str__(self) -> str:
        title, lines, left_out = self._shown()
        return "\n".join([title, *in_columns(lines), *left_out])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, lines, left_out = self._shown()
        return titled_table(title, lines[0], lines[1:], left_out)

    def _shown(self) -> tuple[str, list[list[str]], list[str]]:
        """Return the title, the heads and the lines of a table of some levels, and that there are others."""
        on = self.on_labels
        metric = self.solutions[0].metric
        heads = [f"{self.quantity} {self.limit.sense}", self._name, "at least" if metric.is_cost else "at most"]
        heads += [] if on is None else ["on the labels", "from", "to", self.quantity]
        lines = [heads]
        bounds = self.upper_bounds
        shown = np.linspace(0, len(self.levels) - 1, SHOWN).round().astype(int)
        shown = np.union1d(shown, np.flatnonzero(self.levels == self.asked))
        for k in shown.tolist():
            line = [self.levels[k], metric.shown(self.solutions[k].value), metric.shown(bounds[k])]
            if on is not None:
                line += [metric.shown(on.values[k]), *sorted(map(metric.shown, on.intervals[k])), on.reached[k]]
            lines.append([written(number) for number in line])
        if np.isnan(bounds).all():
            # nothing is proved: the column would be empty
            lines = [[*line[:2], *line[3:]] for line in lines]
        modes = " or ".join(sorted({one.mode for one in self.solutions}))
        title = f"the best {self._name} at {len(self.levels)} levels of {self.quantity}, {modes} estimate"
        left_out = [] if len(shown) == len(self.levels) else [f"({len(shown)} of {len(self.levels)} levels)"]
        return title, lines, left_out


def _plain_interval(ends: Sequence[float]) -> list[float | None]:
    """Return the ends of an interval, the lower one first, as plain values."""
    return [_plain(end) for end in sorted(ends)]


def _plain(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
