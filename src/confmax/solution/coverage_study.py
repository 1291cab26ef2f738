"""What a rule leaves undecided on the rows of a report, beside Chow's rule and the best rules at other coverages.

The best rules at other coverages are tuned on the calibrated probabilities of these rows alone, as those of
`limit_study` are. Their labels have no part in it, so the labels can judge these rules, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from confmax.confusion import Array
from confmax.constraints import Constraint, Limits
from confmax.constraints.limits import judged
from confmax.evaluate.coverage_curves import CoverageFigures, RiskCoverage, Undecided, chow, chow_curve, curve_of
from confmax.evaluate.evidence import Evidence
from confmax.evaluate.limits import MISSED
from confmax.evaluate.scores import Estimate, Score
from confmax.evaluate.uncertainty import Decided, counts_of
from confmax.metrics import Metric, get
from confmax.metrics.decided import COVERAGE, COVERAGE_OF_CLASS, OfDecided, as_written, of_decided
from confmax.optimize import Mixture
from confmax.optimize.column_generation import refused_within_limits
from confmax.solution.limit_study import LimitStudy, Search, limit_study, met

CHOW = "Chow's rule"  # the name of that rule in a score
# of the best rules and of Chow's, from LEAST or the coverage of the rule to one
LEVELS = 11
POINTS = 41
LEAST = 0.5
MOST_CLASSES = 20  # that have intervals of their own


class CoverageStudy:
    """A rule that abstains on the rows of some evidence, before anything is counted on labels."""

    def __init__(self, evidence: Evidence, limits: Limits | None) -> None:
        self.evidence = evidence
        self.limits = limits
        table = evidence.table
        # what speaks of all rows has no loss of what is decided: then the accuracy has one
        speaks_of_decided = isinstance(of_decided(evidence.metric, table.n_classes).formula, OfDecided)
        self.metric: Metric = evidence.metric if speaks_of_decided else get("accuracy")
        counts = evidence.counts(evidence.decided)
        self.coverage = float(counts[:, : table.n_classes].sum() / counts.sum())
        self.rules = {CHOW: chow(evidence.proba, evidence.weight, self.coverage)}
        K = table.n_classes if table.n_classes <= MOST_CLASSES else 0
        self.of_classes = {
            f"coverage of class {k}": of_decided(replace(COVERAGE_OF_CLASS, label=k, classes=(k,)), table.n_classes)
            for k in range(K)
        }

    @property
    def _limits(self) -> tuple[Constraint, ...]:
        """The limits on all rows; those of groups have no value there."""
        return () if self.limits is None else tuple(one for one in self.limits.constraints if not one.of_groups)

    @property
    def metrics(self) -> dict[str, Metric]:
        """What is read of all rules, by name."""
        limited = {str(one): one.metric for one in self._limits}
        return {repr(self.metric): self.metric, "coverage": COVERAGE, **self.of_classes, **limited}

    def figures(self, score: Score, names: list[str], label: str) -> CoverageFigures:
        """Return the figures, given the ``score`` of `metrics` and `rules`, names of classes and of the metric."""
        name = repr(self.metric)
        curve = self.chow_curve
        path = self.path
        return CoverageFigures(
            label,
            self._shares(score, names),
            score.estimate("argmax", name),
            score.estimate(CHOW, name),
            score.estimate("rule", name),
            score.difference("rule", CHOW, name),
            curve,
            path,
            self._over,
            self._missed(score),
        )

    def _missed(self, score: Score) -> tuple[str, ...]:
        """Return the limits that the rule keeps on these rows and Chow's rule misses."""

        def kept(rule: str, one: Constraint) -> bool:
            value = score.estimate(rule, str(one)).value
            return (one.limit - value if one.is_floor else value - one.limit) <= MISSED

        return tuple(str(one) for one in self._limits if kept("rule", one) and not kept(CHOW, one))

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

    @cached_property
    def _levels(self) -> tuple[float, float]:
        """The lowest coverage of the curves, and the highest."""
        return min(LEAST, max(0.05, np.floor(20.0 * self.coverage) / 20.0)), 1.0

    @property
    def point(self) -> tuple[float, float]:
        """Coverage and loss of the rule."""
        decided = of_decided(self.metric, self.evidence.table.n_classes)
        return self.coverage, float(curve_of(decided, [self.evidence.counts(self.evidence.decided)]).losses[0])

    @cached_property
    def chow_curve(self) -> RiskCoverage:
        """The curve of Chow's rule."""
        evidence = self.evidence
        decided = of_decided(self.metric, evidence.table.n_classes)
        return chow_curve(decided, evidence.proba, evidence.table, np.linspace(*self._levels, POINTS))

    @cached_property
    def path(self) -> RiskCoverage | None:
        """The curve of the best rules within the limits at each coverage, None where fewer than two are known."""
        if self.limits is not None and self.limits.speak_of_groups:
            return None
        search = Search(self.evidence)
        kept = self._other_limits()
        if refused_within_limits(search.metric_within(self.metric, None)) is not None:
            return None
        confusions: list[Array] = []
        starts: list[Mixture] = []
        for level in np.linspace(*self._levels, LEVELS)[::-1].tolist():
            limits = Limits((*kept, Constraint(COVERAGE, ">=", level)))
            metric = search.metric_within(self.metric, limits)
            matrix = "matrix" in (metric.statistics, limits.statistics)
            found = search.best(metric, limits, *starts, matrix=matrix, certify=False)
            if met(found, limits):
                # rules at one coverage are near those at the next
                starts = [found.mixture]
                confusions.append(counts_of(search.decided(found.mixture), self.evidence.table))
        if len(confusions) < 2:
            return None
        curve = curve_of(of_decided(self.metric, search.table.n_classes), confusions)
        return curve if len(curve.coverages) > 1 else None

    @property
    def areas(self) -> dict[str, Any]:
        """The mean losses over coverages, ``from`` one ``to`` another: of Chow's rule, and of the best rules.

        The latter is None where no best rules are known. ``metric`` is the one whose loss it is.
        """
        low, high = self._over
        best = None if self.path is None else self.path.area(low, high)
        return {
            "metric": repr(self.metric),
            "from": low,
            "to": high,
            "chow": self.chow_curve.area(low, high),
            "best": best,
        }

    @property
    def _over(self) -> tuple[float, float]:
        """The coverages that both areas are taken over."""
        return self._levels[0], float((self.path or self.chow_curve).coverages[-1])

    def _other_limits(self) -> list[Constraint]:
        """Return the limits but for those on the coverage of all rows and on the metric of the curve."""
        own = (repr(COVERAGE), repr(self.metric))
        return [one for one in self._limits if repr(as_written(one.metric)) not in own]


def _rest(share: Estimate) -> Estimate:
    """Return one minus a share, with its interval."""
    low, high = (None if end is None else 1.0 - end for end in (share.high, share.low))
    return Estimate(1.0 - share.value, low, high)


def coverage_study(evidence: Evidence) -> CoverageStudy | None:
    """Return the study of a rule that abstains; None if it decides all rows, whatever they are."""
    if not evidence.decided.abstains:
        return None
    texts: tuple[str, ...] = getattr(evidence.rule, "constraints", ())
    limits = judged(texts, evidence.table, abstains=True, groups=evidence.groups)[0] if texts else None
    study = CoverageStudy(evidence, limits)
    # without a decided row there is neither a loss nor a curve
    return study if study.coverage > 0.0 else None


def studies(evidence: Evidence) -> tuple[LimitStudy | None, CoverageStudy | None]:
    """Return what a report studies of a rule beside its values: its limits, and what it leaves undecided."""
    return limit_study(evidence), coverage_study(evidence)
