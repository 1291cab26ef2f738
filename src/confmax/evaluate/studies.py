"""What a report studies of a rule beside its values: its limits, what it leaves undecided, and what other rules reach.

The best rules without limits, within other limits and at other coverages are tuned on the calibrated probabilities of
the evaluated rows alone. Their labels have no part in it, so the labels can judge these rules, too.

A study says first which metrics and rules it needs; one bootstrap of all of them then makes the `Score` from which it
reads its figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from confmax import optimize
from confmax.calibration.words import describe
from confmax.confusion import Array
from confmax.confusion.ties import with_ties_broken
from confmax.constraints import Constraint, Limits, least_coverage
from confmax.constraints.binding import judged
from confmax.constraints.outcomes import outcomes
from confmax.evaluate.confusion_change import ConfusionChange
from confmax.evaluate.curves import CoverageFigures, Curve, Undecided, chow_curve, coverage_curve
from confmax.evaluate.decided import Decided
from confmax.evaluate.evidence import Evidence
from confmax.evaluate.judging import plain_rules
from confmax.evaluate.limits import (
    MISSED,
    GroupLimit,
    LimitCurve,
    LimitFigures,
    LimitRow,
    confusion_of,
    judged_limits,
    limit_scores,
    side_by_side,
)
from confmax.evaluate.rivals import CHOW, on_as_many
from confmax.evaluate.scores import Score
from confmax.evaluate.verdict import Estimate, LimitScore
from confmax.metrics import Metric, get
from confmax.metrics.decided import COVERAGE, COVERAGE_OF_CLASS, as_written, of_decided
from confmax.optimize.abstaining import first_rules
from confmax.optimize.along import along
from confmax.optimize.column_generation import refused_within_limits
from confmax.oracle import CountingOracle, make_oracle
from confmax.rule import DecisionRule
from confmax.tables import Table, make_table
from confmax.tables.precision import held

PASSES = 60  # of a search
TOLERANCE = 1e-5
UNMET = 1e-6  # a limit that is missed by more is not met
LIMIT_LEVELS = 24  # of the limit, along its curve
MOST_WRITTEN = 12  # classes of a rule that is written out
RULES = ("rule", "argmax", "p/prior")  # whose values stand in a row of limits
FREE = "without limits"  # the name of that rule in a score
# of the best rules and of Chow's, from LEAST or the coverage of the rule to one
COVERAGE_LEVELS = 11
POINTS = 41
LEAST = 0.5
MOST_CLASSES = 20  # that have intervals of their own


class BestRules:
    """The best rules on the rows of some evidence, as their calibrated probabilities expect."""

    def __init__(self, evidence: Evidence) -> None:
        self.abstains = evidence.decided.abstains
        self.n_decisions = evidence.decided.n_decisions
        table = evidence.table
        # shares of float32 rows do not sum to the coverage 1
        proba = evidence.proba.astype(np.float64) if self.abstains else evidence.proba
        self.table: Table = make_table(proba, None, table.weight, table.classes)

    @cached_property
    def _oracle(self) -> Any:
        return make_oracle(self.table, "model")

    def metric_within(self, metric: Metric, limits: Limits | None) -> Metric:
        """Return a metric as the rule is tuned for it: of what is decided, if the rule abstains."""
        K = self.table.n_classes
        metric = metric.finite(self.table.n_rows)
        return of_decided(metric, K, *least_coverage(limits, K)) if self.abstains else metric

    def within(
        self, metric: Metric, limits: Limits | None, *starts: optimize.Mixture, certify: bool
    ) -> optimize.Outcome:
        """Return the best rules within limits; ``certify`` spends passes on a bound that may prove that none exist."""
        problem = self._problem(metric, limits, *starts, certify=certify)
        return optimize.run(self._method(problem.metric, limits is not None), problem)

    def _method(self, metric: Metric, limited: bool) -> optimize.Solver:
        return optimize.choose("auto", metric, self.table.n_classes, self.n_decisions, exact=True, limited=limited)

    def _problem(
        self, metric: Metric, limits: Limits | None, *starts: optimize.Mixture, certify: bool
    ) -> optimize.Problem:
        metric = self.metric_within(metric, limits)
        matrix = "matrix" in (metric.statistics, limits and limits.statistics)
        oracle = CountingOracle(self._oracle)
        M = self.n_decisions
        mean = self.table.mean_probability()
        plain = optimize.baselines(oracle, [mean], M, matrix=matrix, more=first_rules(metric, mean))
        return optimize.Problem(metric, oracle, M, (*plain, *starts), PASSES, TOLERANCE, None, limits, certify=certify)

    def along(
        self,
        metric: Metric,
        constraints: Sequence[Constraint],
        k: int,
        levels: Sequence[float],
        *starts: optimize.Mixture,
        certify: bool,
    ) -> Iterator[tuple[float, optimize.Outcome | None]]:
        """Yield each level of constraint ``k`` with the best rules there, None where the search meets not all limits.

        Every search starts at ``starts`` and at the rules of the level before.
        """

        def problem_at(level: float, rules: Sequence[optimize.Mixture]) -> optimize.Problem:
            limits = Limits((*constraints[:k], replace(constraints[k], limit=level), *constraints[k + 1 :]))
            return self._problem(metric, limits, *starts, *rules, certify=certify)

        path = along(problem_at, levels, lambda problem: optimize.run(self._method(problem.metric, True), problem))
        for level, (problem, outcome) in zip(levels, path, strict=True):
            limits = problem.limits
            assert isinstance(limits, Limits)
            yield level, outcome if met(outcome, limits) else None

    def decided(self, rule: optimize.Mixture) -> Decided:
        """Return what a rule decides for the rows."""
        gains, weights = rule.gathered()
        lines = self.table.head.decide(with_ties_broken(gains), None)
        return Decided(lines, weights, self.n_decisions, self.abstains)


def met(outcome: optimize.Outcome, limits: Limits) -> bool:
    """Return whether rules keep the limits."""
    return bool(limits.slacks(outcome.mixture.confusion).min() >= -UNMET)


# --- limits -----------------------------------------------------------------------------------------------------------


class LimitStudy:
    """Limits on the rows of some evidence, before anything is counted on labels."""

    def __init__(self, evidence: Evidence, limits: Limits | None, absent: tuple[str, ...]) -> None:
        self.evidence = evidence
        self.limits = limits
        self.absent = absent
        self.best = BestRules(evidence)
        # limits of groups lie on groups side by side, and the search for other rules is one over all rows
        within = None if limits is None or limits.speak_of_groups else limits
        self.metric = self.best.metric_within(evidence.metric, within)
        self.can_solve = within is not None and refused_within_limits(self.metric) is None
        wanted = () if limits is None else limits.constraints
        # what is limited on all rows, and in every group, by the texts of the limits
        self.metrics = {str(limit): limit.metric for limit in wanted if not limit.of_groups}
        self.metrics_of_groups = {str(limit): limit.metric for limit in wanted if limit.of_groups}

    @cached_property
    def free(self) -> optimize.Outcome | None:
        """The best rules without limits."""
        # without limits, what is decided is best if next to nothing is decided
        alone = self.can_solve and not (self.metric.formula.is_coverage or self.metric.formula.is_of_decided)
        return self.best.within(self.evidence.metric, None, certify=False) if alone else None

    @cached_property
    def within(self) -> optimize.Outcome | None:
        """The best rules within the limits."""
        return self.best.within(self.evidence.metric, self.limits, certify=True) if self.can_solve else None

    @cached_property
    def reached(self) -> bool | None:
        """Whether some rule keeps all limits, None where it is not known."""
        return None if self.within is None or self.limits is None else met(self.within, self.limits)

    @cached_property
    def rules(self) -> dict[str, Decided]:
        """What the best single rule without limits decides, by its name."""
        return {} if self.free is None else {FREE: self.best.decided(self.free.single)}

    def figures(self, score: Score, of_rules: Score) -> LimitFigures:
        """Return the figures, given the ``score`` of `metrics`, and the one of `rules`, which may be of a sample."""
        rows = self._rows(score)
        free = self.rules.get(FREE)
        evidence = self.evidence
        if free is None:
            return LimitFigures(rows, self.absent, self.reached)
        name = repr(evidence.metric)
        moved = evidence.decided.shares @ (evidence.decided.decisions != free.decisions)
        return LimitFigures(
            rows,
            self.absent,
            self.reached,
            self._curve(rows) if self.reached else None,
            of_rules.estimate(FREE, name),
            of_rules.difference("rule", FREE, name),
            float(np.average(moved, weights=evidence.weight)),
            ConfusionChange(evidence.counts(free), evidence.counts(evidence.decided)),
        )

    def scored(self, score: Score) -> tuple[LimitScore, ...]:
        """Return what the rule makes of the limits, given the ``score`` of `metrics`."""
        if self.limits is None:
            return ()
        evidence = self.evidence
        return limit_scores(self.limits, score, "rule", evidence.judged["rule"], evidence.counted)

    def _rows(self, score: Score) -> tuple[LimitRow, ...]:
        if self.limits is None:
            return ()
        evidence = self.evidence
        tuned = () if evidence.solution is None else evidence.solution.constraints
        outcome_of = {outcome.text: outcome for outcome in tuned}
        prices: Sequence[float | None] = [None] * len(self.limits)
        if self.reached and self.within is not None:
            at = self.within.mixture.confusion
            priced = outcomes(self.limits, at, self.within.prices, at, rounding=MISSED)
            prices = [outcome.price for outcome in priced]
        M = evidence.decided.n_decisions
        rules = {name: evidence.judged[name]._replace(n_decisions=M) for name in RULES}
        by_rule = [judged_limits(self.limits, score, name, rules[name], evidence.counted) for name in RULES]
        limits, S = side_by_side(self.limits, evidence.decided, evidence.table, evidence.proba)
        rows = []
        judged_values = zip(limits.constraints, limits.values(S), *by_rule, prices, strict=True)
        for limit, expected, rule, argmax, prior, price in judged_values:
            outcome = outcome_of.get(str(limit))
            members = limits.members(limit) if limit.of_groups else ()
            parts = (one.by_group.values() for one in (rule, argmax, prior))
            # of a group of which the rule decides none nothing is expected
            decided = (not np.isnan(part.value) for part in rule.by_group.values())
            pairs = zip(members, decided, strict=True)
            values = (float(metric.values(S)) if some else float("nan") for metric, some in pairs)
            by_group = [GroupLimit(str(name), *part) for name, *part in zip(rule.by_group, values, *parts, strict=True)]
            rows.append(
                LimitRow(
                    limit,
                    float(expected),
                    rule.estimate,
                    rule.kept,
                    rule.unsure,
                    argmax.estimate,
                    prior.estimate,
                    # the price of the tuning is that of the rule, and other rows have another one
                    price if outcome is None else outcome.price,
                    rule.vacuous,
                    outcome,
                    tuple(by_group),
                )
            )
        return tuple(rows)

    def _curve(self, rows: tuple[LimitRow, ...]) -> LimitCurve | None:
        """Return the curve of the dearest limit."""
        assert self.limits is not None and self.free is not None and self.within is not None
        slack = self.limits.slacks(self.within.mixture.confusion)
        k = max(range(len(rows)), key=lambda k: (rows[k].price or 0.0, -slack[k]))
        limit = self.limits.constraints[k]
        free = self.free.mixture.confusion
        loose = float(self.limits.values(free)[k])
        low, high = limit.metric.range
        end = high if limit.is_floor else low
        if not np.isfinite(end):
            end = limit.limit + 2.0 * (limit.limit - loose)
        start = min(loose, limit.limit) if limit.is_floor else max(loose, limit.limit)
        # at the end itself most metrics are next to nothing, and would flatten the rest of the line
        levels = np.append(np.linspace(start, end, LIMIT_LEVELS + 1)[:-1], limit.limit)
        levels = np.unique(levels) if limit.is_floor else np.unique(levels)[::-1]
        path = self.best.along(
            self.evidence.metric, self.limits.constraints, k, levels.tolist(), self.within.mixture, certify=True
        )
        points = []
        texts = []
        M = self.evidence.decided.n_decisions
        for level, outcome in path:
            if outcome is None:
                # tighter limits would be missed, too
                break
            bound = np.nan if outcome.upper_bound is None else outcome.upper_bound
            points.append((level, float(self.metric.values(outcome.mixture.confusion)), bound))
            texts.append(self._written(outcome.single))
        met_levels, values, bounds = np.array(points).reshape(-1, 3).T
        evidence = self.evidence
        marks = {"best rule without limits": (loose, float(self.metric.values(free)))}
        plain = {name: rule._replace(n_decisions=M) for name, rule in plain_rules(evidence.table).items()}
        for name, decided in {**plain, "tuned rule": evidence.decided}.items():
            S = confusion_of(decided, evidence.table, evidence.proba)
            marks[name] = float(self.limits.values(S)[k]), float(self.metric.values(S))
        return LimitCurve(limit, met_levels, values, bounds, marks, tuple(texts))

    def _written(self, rule: optimize.Mixture) -> str:
        """Return a single rule in words."""
        table = self.best.table
        M = self.best.n_decisions
        names = (*table.classes, *(("abstain",) if table.n_classes < M else ()))
        if table.n_classes > MOST_WRITTEN or len(rule.atoms) > 1:
            return ""
        gains = held(with_ties_broken(rule.atoms[0]))
        calibrator = getattr(self.evidence.rule, "calibrator", None)
        positive = getattr(self.evidence.rule, "positive", 1)
        metric = repr(self.evidence.metric)
        return describe(DecisionRule(gains, np.ones(1), names, metric, calibrator=calibrator, positive=positive))


# --- what is left undecided -------------------------------------------------------------------------------------------


class CoverageStudy:
    """A rule that abstains on the rows of some evidence, before anything is counted on labels."""

    def __init__(self, evidence: Evidence, limits: Limits | None) -> None:
        self.evidence = evidence
        self.limits = limits
        table = evidence.table
        # what speaks of all rows has no loss of what is decided: then the accuracy has one
        speaks_of_decided = of_decided(evidence.metric, table.n_classes).formula.is_of_decided
        self.metric: Metric = evidence.metric if speaks_of_decided else get("accuracy")
        self.loss_of = of_decided(self.metric, table.n_classes)
        counts = evidence.counts(evidence.decided)
        self.coverage = float(counts[:, : table.n_classes].sum() / counts.sum())
        self.rules = on_as_many("rule", evidence.decided, table, evidence.proba)
        K = table.n_classes if table.n_classes <= MOST_CLASSES else 0
        self.of_classes = {
            f"coverage of class {k}": of_decided(replace(COVERAGE_OF_CLASS, label=k, classes=(k,)), table.n_classes)
            for k in range(K)
        }
        # limits of groups have no value on all rows
        given = () if limits is None else limits.constraints
        self._limits = tuple(limit for limit in given if not limit.of_groups)

    @property
    def metrics(self) -> dict[str, Metric]:
        """What is read of all rules, by name."""
        return {repr(self.metric): self.metric, "coverage": COVERAGE, **self.of_classes}

    def figures(self, score: Score, names: list[str], label: str) -> CoverageFigures:
        """Return the figures, given the ``score`` of `metrics` and `rules`, names of classes and of the metric."""
        name = repr(self.metric)
        return CoverageFigures(
            label,
            self._shares(score, names),
            score.estimate("argmax", name),
            score.estimate(CHOW, name),
            score.estimate("rule", name),
            score.difference("rule", CHOW, name),
            self.chow_curve,
            self.path,
            self._over,
        )

    def _shares(self, score: Score, names: list[str]) -> tuple[Undecided, ...]:
        lines = [Undecided("all rows", *(_rest(score.estimate(rule, "coverage")) for rule in ("rule", CHOW)))]
        both = [self._undecided(self.evidence.decided), self._undecided(self.rules[CHOW])]
        for k, class_name in enumerate(names[: self.evidence.table.n_classes]):
            text = f"coverage of class {k}"
            estimates = [Estimate(float(shares[k]), None, None) for shares in both]
            if text in self.of_classes:
                estimates = [_rest(score.estimate(rule, text)) for rule in ("rule", CHOW)]
            lines.append(Undecided(class_name, *estimates))
        return tuple(lines)

    def _undecided(self, decided: Decided) -> Array:
        """Return the share of each class (K,) that is left undecided, NaN for one without rows."""
        counts = self.evidence.counts(decided)
        total = counts.sum(axis=1)
        return np.divide(counts[:, -1], total, out=np.full(len(total), np.nan), where=total > 0)

    # --- the curves ---

    @property
    def _levels(self) -> tuple[float, float]:
        """The lowest coverage of the curves, and the highest."""
        return min(LEAST, max(0.05, np.floor(20.0 * self.coverage) / 20.0)), 1.0

    @property
    def point(self) -> tuple[float, float]:
        """Coverage and loss of the rule."""
        counts = self.evidence.counts(self.evidence.decided)
        return self.coverage, 1.0 - float(coverage_curve(self.loss_of, np.array([self.coverage]), [counts]).values[0])

    @cached_property
    def chow_curve(self) -> Curve:
        """The curve of Chow's rule."""
        evidence = self.evidence
        return chow_curve(self.loss_of, evidence.proba, evidence.table, np.linspace(*self._levels, POINTS))

    @cached_property
    def path(self) -> Curve | None:
        """The curve of the best rules within the limits at each coverage, None where fewer than two are known."""
        if self.limits is not None and self.limits.speak_of_groups:
            return None
        best = BestRules(self.evidence)
        if refused_within_limits(best.metric_within(self.metric, None)) is not None:
            return None
        # all limits but for those on the coverage of all rows and on the metric of the curve
        drawn = (repr(COVERAGE), repr(self.metric))
        others = [limit for limit in self._limits if repr(as_written(limit.metric)) not in drawn]
        constraints = (*others, Constraint(COVERAGE, ">=", 1.0))
        levels = np.linspace(*self._levels, COVERAGE_LEVELS)[::-1].tolist()
        path = best.along(self.metric, constraints, len(constraints) - 1, levels, certify=False)
        # from the lowest level to the highest, as Chow's curve
        found = [(level, self.evidence.counts(best.decided(one.mixture))) for level, one in path if one is not None]
        reached, confusions = zip(*found[::-1], strict=True) if found else ((), ())
        return coverage_curve(self.loss_of, np.array(reached), confusions) if len(found) > 1 else None

    @property
    def areas(self) -> dict[str, Any]:
        """The mean losses over coverages, ``from`` one ``to`` another: of Chow's rule, and of the best rules.

        The latter is None where no best rules are known. ``metric`` is the one whose loss it is.
        """
        low, high = self._over
        return {
            "metric": repr(self.metric),
            "from": low,
            "to": high,
            "chow": 1.0 - self.chow_curve.area(low, high),
            "best": None if self.path is None else 1.0 - self.path.area(low, high),
        }

    @property
    def _over(self) -> tuple[float, float]:
        """The coverages that both areas are taken over."""
        levels = (self.path or self.chow_curve).levels
        return float(levels[0]), float(levels[-1])


def _rest(share: Estimate) -> Estimate:
    """Return one minus a share, with its interval."""
    low, high = (None if end is None else 1.0 - end for end in (share.high, share.low))
    return Estimate(1.0 - share.value, low, high)


# --- both ------------------------------------------------------------------------------------------------------------


def studies(evidence: Evidence) -> tuple[LimitStudy | None, CoverageStudy | None]:
    """Return the studies of the limits of a rule and of what it leaves undecided, None where there is nothing."""
    texts = evidence.rule.constraints
    table = evidence.table
    abstains = evidence.decided.abstains
    limits, absent = judged(texts, Table.of(table), abstains=abstains) if texts else (None, ())
    undecided = CoverageStudy(evidence, limits) if abstains else None
    # without a decided row there is neither a loss nor a curve
    if undecided is not None and not undecided.coverage > 0.0:
        undecided = None
    return LimitStudy(evidence, limits, absent) if texts else None, undecided
