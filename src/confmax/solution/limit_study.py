"""Limits on the rows of a report: what a rule makes of them, what they cost, and what other limits would cost.

The best rules without limits, and within other ones, are tuned on the calibrated probabilities of these rows alone.
Their labels have no part in it, so the labels can judge these rules, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from confmax import optimize
from confmax.confusion import Confusion
from confmax.constraints import Limits, least_coverage
from confmax.constraints.limits import judged
from confmax.constraints.outcomes import outcomes
from confmax.constraints.texts import metric_text
from confmax.evaluate.by_group import confusion_of, side_by_side, values_of_members
from confmax.evaluate.confusion_change import ConfusionChange
from confmax.evaluate.evidence import Evidence
from confmax.evaluate.limits import MISSED, GroupLimit, LimitCurve, LimitFigures, LimitRow
from confmax.evaluate.scores import Estimate, Score
from confmax.evaluate.uncertainty import Decided, plain_rules
from confmax.metrics import Metric
from confmax.metrics.decided import Coverage, OfDecided, of_decided
from confmax.optimize.column_generation import refused_within_limits
from confmax.oracle import CountingOracle, make_oracle
from confmax.oracle.ties import with_ties_broken
from confmax.solution.abstaining import first_rules
from confmax.tables import Table, make_table

LEVELS = 9  # of the limit, along the curve
PASSES = 60  # of the search for each
TOLERANCE = 1e-5
UNMET = 1e-6  # a limit that is missed by more is not met
FREE = "without limits"  # the name of that rule in a score


class Search:
    """The best rules on the rows of some evidence, as their calibrated probabilities expect."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        table = evidence.table
        # shares of float32 rows do not sum to the coverage 1
        proba = evidence.proba.astype(np.float64) if evidence.decided.abstains else evidence.proba
        self.table: Table = make_table(proba, None, table.weight, table.classes)
        self.n_decisions = evidence.decided.n_decisions

    @cached_property
    def _oracle(self) -> Any:
        return make_oracle(self.table, "model")

    def metric_within(self, metric: Metric, limits: Limits | None) -> Metric:
        """Return a metric as the rule is tuned for it: of what is decided, if the rule abstains."""
        K = self.table.n_classes
        if self.evidence.decided.abstains:
            metric = of_decided(metric, K, *least_coverage(limits, K))
        return metric.finite(self.table.n_rows)

    def best(
        self, metric: Metric, limits: Limits | None, *starts: optimize.Mixture, matrix: bool, certify: bool
    ) -> optimize.Outcome:
        """Return the best rules within limits; confusions have the whole ``matrix`` if something reads it.

        With ``certify`` passes are spent on a bound, by which infeasible limits are proved.
        """
        oracle = CountingOracle(self._oracle)
        M = self.n_decisions
        K = self.table.n_classes
        method = optimize.choose("auto", metric, K, M, exact=True, limited=limits is not None)
        mean = self.table.mean_probability()
        plain = optimize.baselines(oracle, [mean], M, matrix=matrix, more=first_rules(metric, mean))
        problem = optimize.Problem(
            metric, oracle, M, (*plain, *starts), PASSES, TOLERANCE, None, limits, certify=certify
        )
        return optimize.run(method, problem)

    def decided(self, rule: optimize.Mixture) -> Decided:
        """Return what a rule decides for the rows."""
        gains, weights = rule.gathered()
        lines = self.table.in_memory().decisions(with_ties_broken(gains), None)
        return Decided(lines, weights, self.n_decisions, self.evidence.decided.abstains)


def met(outcome: optimize.Outcome, limits: Limits | None) -> bool:
    """Return whether the best rules found keep the limits."""
    return limits is None or bool(limits.slacks(outcome.mixture.confusion).min() >= -UNMET)


class LimitStudy:
    """Limits on the rows of some evidence, before anything is counted on labels."""

    def __init__(self, evidence: Evidence, limits: Limits | None, absent: tuple[str, ...]) -> None:
        self.evidence = evidence
        self.limits = limits
        self.absent = absent
        self.search = Search(evidence)
        # limits of groups lie on groups side by side, and the search for other rules is one over all rows
        self.of_groups = limits is not None and limits.speak_of_groups
        within = None if self.of_groups else limits
        self.metric = self.search.metric_within(evidence.metric, within)
        can_solve = within is not None and refused_within_limits(self.metric) is None
        # without limits, what is decided is best if next to nothing is decided
        alone = can_solve and not isinstance(self.metric.formula, (Coverage, OfDecided))
        self.free = self._solved(None) if alone else None
        self.within = self._solved(limits) if can_solve else None

    @property
    def metrics(self) -> dict[str, Metric]:
        """What is limited on all rows, by the texts of the limits."""
        wanted = () if self.limits is None else self.limits.constraints
        return {str(one): one.metric for one in wanted if not one.of_groups}

    @property
    def metrics_of_groups(self) -> dict[str, Metric]:
        """What is limited in every group, by the texts of the limits."""
        wanted = () if self.limits is None else self.limits.constraints
        return {str(one): one.metric for one in wanted if one.of_groups}

    @cached_property
    def rules(self) -> dict[str, Decided]:
        """What the best single rule without limits decides, by its name."""
        if self.free is None:
            return {}
        return {FREE: self.search.decided(self.free.single)}

    def figures(self, score: Score) -> LimitFigures:
        """Return the figures, given the ``score`` of `metrics` and `rules`."""
        rows = self._rows(score)
        free = self.rules.get(FREE)
        evidence = self.evidence
        kept = None if self.within is None else met(self.within, self.limits)
        if free is None:
            return LimitFigures(rows, self.absent, kept)
        name = repr(evidence.metric)
        moved = evidence.decided.shares @ (evidence.decided.decisions != free.decisions)
        return LimitFigures(
            rows,
            self.absent,
            kept,
            self._curve(rows) if kept else None,
            score.estimate(FREE, name),
            score.difference("rule", FREE, name),
            float(np.average(moved, weights=evidence.weight)),
            ConfusionChange(evidence.counts(free), evidence.counts(evidence.decided)),
        )

    def _solved(self, limits: Limits | None, *starts: optimize.Mixture) -> optimize.Outcome:
        """Return the best rules within limits, as the probabilities expect."""
        matrix = "matrix" in (self.metric.statistics, self.limits and self.limits.statistics)
        return self.search.best(self.metric, limits, *starts, matrix=matrix, certify=limits is not None)

    # --- what they say ---

    @cached_property
    def _expected(self) -> Confusion:
        """What the probabilities expect of the decisions of the tuned rule."""
        return confusion_of(self.evidence.decided, self.evidence.table, self.evidence.proba)

    def _rows(self, score: Score) -> tuple[LimitRow, ...]:
        if self.limits is None:
            return ()
        solution = self.evidence.solution
        told = {} if solution is None else {one.text: one for one in solution.constraints}
        prices: Sequence[float | None] = [None] * len(self.limits)
        if self.within is not None and met(self.within, self.limits):
            at = self.within.mixture.confusion
            found = self.within.prices
            prices = [one.price for one in outcomes(self.limits, at, None, found, at, rounding=MISSED)]
        evidence = self.evidence
        groups = self.evidence.groups
        limits, S = side_by_side(self.limits, evidence.decided, evidence.table, groups, evidence.proba)
        vacuous = limits.vacuous(self._labelled["rule"])
        rows = []
        for k, (one, value) in enumerate(zip(limits.constraints, limits.values(S), strict=True)):
            text = str(one)
            own = told.get(str(one))
            rule, argmax, prior = (self._estimate(score, name, k) for name in ("rule", "argmax", "p/prior"))
            # the price of the tuning is that of the rule, and other rows have another one
            price = prices[k] if own is None else own.price
            rows.append(
                LimitRow(
                    text,
                    one.limit,
                    one.is_floor,
                    float(value),
                    rule,
                    argmax,
                    prior,
                    price,
                    bool(vacuous[k]),
                    own,
                    _in_groups(score, text, values_of_members(limits, k, S)) if one.of_groups else (),
                    one.of_groups and not one.across.compares,
                )
            )
        return tuple(rows)

    @cached_property
    def _labelled(self) -> dict[str, Confusion]:
        """The confusions of the rules on the labels, where groups are limited with these side by side."""
        assert self.limits is not None
        evidence = self.evidence
        limits = self.limits
        M = evidence.decided.n_decisions
        every = {name: one._replace(n_decisions=M) for name, one in plain_rules(evidence.table).items()}
        every["rule"] = evidence.decided
        return {name: side_by_side(limits, one, evidence.table, evidence.groups)[1] for name, one in every.items()}

    def _estimate(self, score: Score, rule: str, k: int) -> Estimate:
        """Return the value of limit ``k`` for a rule on the labels: of all rows with its interval, else without."""
        assert self.limits is not None
        one = self.limits.constraints[k]
        if not one.of_groups:
            return score.estimate(rule, str(one))
        return Estimate(float(self.limits.values(self._labelled[rule])[k]), None, None)

    def _curve(self, rows: tuple[LimitRow, ...]) -> LimitCurve | None:
        """Return the curve of the dearest limit."""
        assert self.limits is not None and self.free is not None and self.within is not None
        slack = self.limits.slacks(self.within.mixture.confusion)
        k = max(range(len(rows)), key=lambda k: (rows[k].price or 0.0, -slack[k]))
        one = self.limits.constraints[k]
        free = self.free.mixture.confusion
        loose = float(self.limits.values(free)[k])
        low, high = one.metric.range
        end = high if one.is_floor else low
        if not np.isfinite(end):
            end = one.limit + 2.0 * (one.limit - loose)
        start = min(loose, one.limit) if one.is_floor else max(loose, one.limit)
        # at the end itself most metrics are next to nothing, and would flatten the rest of the line
        levels = np.append(np.linspace(start, end, LEVELS + 1)[:-1], one.limit)
        levels = np.unique(levels) if one.is_floor else np.unique(levels)[::-1]
        kept = []
        values = []
        last = self.within
        for level in levels.tolist():
            others = list(self.limits.constraints)
            others[k] = replace(one, limit=level)
            limits = Limits(tuple(others))
            last = self._solved(limits, self.within.mixture, last.mixture)
            if not met(last, limits):
                break
            kept.append(level)
            values.append(float(self.metric.values(last.mixture.confusion)))
        S = self._expected
        rule = (float(self.limits.values(S)[k]), float(self.metric.values(S)))
        return LimitCurve(
            metric_text(one.metric),
            one.limit,
            one.is_floor,
            np.array(kept),
            np.array(values),
            rule,
            (loose, float(self.metric.values(free))),
        )


def _in_groups(score: Score, text: str, expected: Sequence[float]) -> tuple[GroupLimit, ...]:
    """Return what a limit of groups limits in each of them."""
    rules = ("rule", "argmax", "p/prior")
    return tuple(
        GroupLimit(str(name), value, *(part.estimate(rule, text) for rule in rules))
        for (name, part), value in zip(score.by_group.items(), expected, strict=True)
    )


def limit_study(evidence: Evidence) -> LimitStudy | None:
    """Return the limits of the rule of some ``evidence``, placed on its rows; None if it has none."""
    texts: tuple[str, ...] = getattr(evidence.rule, "constraints", ())
    if not texts:
        return None
    return LimitStudy(
        evidence, *judged(texts, evidence.table, abstains=evidence.decided.abstains, groups=evidence.groups)
    )
