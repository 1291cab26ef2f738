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
from confmax.constraints import Limits
from confmax.constraints.limits import judged
from confmax.constraints.outcomes import outcomes
from confmax.constraints.words import metric_text
from confmax.evaluate.confusion_change import ConfusionChange
from confmax.evaluate.evidence import Evidence
from confmax.evaluate.limits import MISSED, LimitCurve, LimitFigures, LimitRow
from confmax.evaluate.scores import Score
from confmax.evaluate.uncertainty import Decided
from confmax.metrics import Metric
from confmax.metrics.catalogue import range_of
from confmax.optimize.column_generation import refused_within_limits
from confmax.oracle import CountingOracle, make_oracle
from confmax.tables import Table, make_table

LEVELS = 9  # of the limit, along the curve
PASSES = 60  # of the search for each
TOLERANCE = 1e-5
UNMET = 1e-6  # a limit that is missed by more is not met
FREE = "without limits"  # the name of that rule in a score


class LimitStudy:
    """Limits on the rows of some evidence, before anything is counted on labels."""

    def __init__(self, evidence: Evidence, limits: Limits | None, absent: tuple[str, ...]) -> None:
        self.evidence, self.limits, self.absent = evidence, limits, absent
        table = evidence.table
        self.table: Table = make_table(evidence.proba, None, table.weight, table.classes)
        self.metric = evidence.metric.finite(table.n_rows)
        self.n_decisions = evidence.decided.n_decisions
        can_solve = limits is not None and refused_within_limits(self.metric) is None
        self.free = self._solved(None) if can_solve else None
        self.within = None if self.free is None else self._solved(limits)

    @property
    def metrics(self) -> dict[str, Metric]:
        """What is limited, by the texts of the limits."""
        return {} if self.limits is None else {str(one): one.metric for one in self.limits.constraints}

    @cached_property
    def rules(self) -> dict[str, Decided]:
        """What the best single rule without limits decides, by its name."""
        if self.free is None:
            return {}
        gains, _ = self.free.single.gathered()
        lines = self.table.in_memory().decisions(self.metric.with_ties_broken(gains), None)
        return {FREE: Decided(lines, np.ones(1), self.n_decisions)}

    def figures(self, score: Score) -> LimitFigures:
        """Return the figures, given the ``score`` of `metrics` and `rules`."""
        rows, free, evidence = self._rows(score), self.rules.get(FREE), self.evidence
        if free is None:
            return LimitFigures(rows, self.absent)
        assert self.within is not None
        met = self._met(self.within, self.limits)
        name = repr(evidence.metric)
        moved = evidence.decided.shares @ (evidence.decided.decisions != free.decisions)
        return LimitFigures(
            rows, self.absent, met, self._curve(rows) if met else None, score.estimate(FREE, name),
            score.difference("rule", FREE, name), float(np.average(moved, weights=evidence.weight)),
            ConfusionChange(evidence.counts(free), evidence.counts(evidence.decided)),
        )  # fmt: skip

    # --- the searches ---

    @cached_property
    def _oracle(self) -> Any:
        return make_oracle(self.table, "model")

    def _solved(self, limits: Limits | None, *starts: optimize.Mixture) -> optimize.Outcome:
        """Return the best rules within limits, as the probabilities expect."""
        oracle, M, K = CountingOracle(self._oracle), self.n_decisions, self.table.n_classes
        method = optimize.choose("auto", self.metric, K, M, exact=True, limited=limits is not None)
        matrix = "matrix" in (self.metric.statistics, self.limits and self.limits.statistics)
        plain = optimize.baselines(oracle, [self.table.mean_probability()], M, matrix=matrix)
        problem = optimize.Problem(
            self.metric, oracle, M, (*plain, *starts), PASSES, TOLERANCE, None, limits, certify=limits is not None
        )
        return optimize.run(method, problem)

    @staticmethod
    def _met(outcome: optimize.Outcome, limits: Limits | None) -> bool:
        return limits is None or bool(limits.slacks(outcome.mixture.confusion).min() >= -UNMET)

    # --- what they say ---

    @cached_property
    def _expected(self) -> Confusion:
        """What the probabilities expect of the decisions of the tuned rule."""
        decided, P, weight = self.evidence.decided, self.evidence.proba, self.evidence.weight
        C = np.zeros((self.table.n_classes, decided.n_decisions))
        for line, share in zip(decided.decisions, decided.shares, strict=True):
            for k, row in enumerate(C):
                row += share * np.bincount(line, weights=weight * P[:, k], minlength=decided.n_decisions)
        return Confusion.from_matrix(C / weight.sum())

    def _rows(self, score: Score) -> tuple[LimitRow, ...]:
        if self.limits is None:
            return ()
        solution, S = self.evidence.solution, self._expected
        told = {} if solution is None else {one.text: one for one in solution.constraints}
        prices: Sequence[float | None] = [None] * len(self.limits)
        if self.within is not None and self._met(self.within, self.limits):
            at, found = self.within.mixture.confusion, self.within.prices
            prices = [one.price for one in outcomes(self.limits, at, None, found, at, rounding=MISSED)]
        labelled = self.evidence.counts(self.evidence.decided)
        vacuous = self.limits.vacuous(Confusion.from_matrix(labelled / labelled.sum()))
        rows = []
        for k, (one, value) in enumerate(zip(self.limits.constraints, self.limits.values(S), strict=True)):
            text, own = str(one), told.get(str(one))
            rule, argmax, prior = (score.estimate(rule, text) for rule in ("rule", "argmax", "p/prior"))
            # the price of the tuning is that of the rule, and other rows have another one
            price = prices[k] if own is None else own.price
            rows.append(
                LimitRow(text, one.limit, one.is_floor, float(value), rule, argmax, prior, price, bool(vacuous[k]), own)
            )
        return tuple(rows)

    def _curve(self, rows: tuple[LimitRow, ...]) -> LimitCurve | None:
        """Return the curve of the dearest limit."""
        assert self.limits is not None and self.free is not None and self.within is not None
        slack = self.limits.slacks(self.within.mixture.confusion)
        k = max(range(len(rows)), key=lambda k: (rows[k].price or 0.0, -slack[k]))
        one, free = self.limits.constraints[k], self.free.mixture.confusion
        loose = float(self.limits.values(free)[k])
        low, high = range_of(one.metric)
        end = high if one.is_floor else low
        if not np.isfinite(end):
            end = one.limit + 2.0 * (one.limit - loose)
        start = min(loose, one.limit) if one.is_floor else max(loose, one.limit)
        # at the end itself most metrics are next to nothing, and would flatten the rest of the line
        levels = np.append(np.linspace(start, end, LEVELS + 1)[:-1], one.limit)
        levels = np.unique(levels) if one.is_floor else np.unique(levels)[::-1]
        kept, values, last = [], [], self.within
        for level in levels.tolist():
            others = list(self.limits.constraints)
            others[k] = replace(one, limit=level)
            limits = Limits(tuple(others))
            last = self._solved(limits, self.within.mixture, last.mixture)
            if not self._met(last, limits):
                break
            kept.append(level)
            values.append(float(self.metric.values(last.mixture.confusion)))
        S = self._expected
        rule = (float(self.limits.values(S)[k]), float(self.metric.values(S)))
        return LimitCurve(
            metric_text(one.metric), one.limit, one.is_floor, np.array(kept), np.array(values), rule,
            (loose, float(self.metric.values(free))),
        )  # fmt: skip


def limit_study(evidence: Evidence) -> LimitStudy | None:
    """Return the limits of the rule of some ``evidence``, placed on its rows; None if it has none."""
    texts: tuple[str, ...] = getattr(evidence.rule, "constraints", ())
    if not texts:
        return None
    return LimitStudy(evidence, *judged(texts, evidence.table))
