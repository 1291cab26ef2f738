"""Everything a report says in numbers, as one frozen record; words, charts and page only show it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.evaluate import Score
from confmax.evaluate.applicable import PARTS, applicable, has_positive, of_class
from confmax.evaluate.confusion_change import ConfusionChange
from confmax.evaluate.convergence import Convergence, convergence
from confmax.evaluate.evidence import Evidence
from confmax.evaluate.names import labels, metric_name
from confmax.evaluate.protocols import plain_rule
from confmax.evaluate.reliability import Reliability, reliability
from confmax.evaluate.scores import Difference, Estimate
from confmax.evaluate.threshold_curve import ThresholdCurve, positive_class, threshold_curve
from confmax.evaluate.thresholds import class_thresholds, decided_between, spread_of
from confmax.evaluate.trade_off import TradeOff, trade_off
from confmax.evaluate.uncertainty import Decided, compare, plain_rules
from confmax.metrics import Metric, get

CLASS_INTERVALS = 20  # classes up to which every one has its own intervals
ROUNDING = 1e-12  # of sums over parts of a mixture: a smaller difference is none
AS_GOOD = 0.005  # where the interval of a difference contains zero: its middle, below which nothing is gained
MOST_LEADING = 4  # metrics beside the tuned one that are not folded away
LEADING = ("accuracy", "balanced_accuracy", "macro_f1", "min_recall", "cohen_kappa", "weighted_f1")


@dataclass(frozen=True)
class MetricRow:
    """A metric of argmax, p/prior and the tuned rule, with paired differences; ``label`` is its name in prose."""

    name: str
    label: str
    description: str
    argmax: Estimate
    prior: Estimate
    tuned: Estimate
    difference: Difference
    to_prior: Difference

    @property
    def verdict(self) -> str:
        """What the difference to argmax says, see `verdict_of`."""
        return verdict_of(self.difference)


def verdict_of(minus: Difference) -> str:
    """Return "better", "worse", "unclear" (chance could do it), "same" or "unknown".

    Replicates that lack a class take metrics of the recalls over the others, so that an interval may lie on one side of
    zero where the difference itself does not: then it says nothing about the difference.
    """
    value, low, high = minus.value, minus.low, minus.high
    if not np.isfinite(value) or low is None or high is None:
        return "unknown"
    if max(abs(value), abs(low), abs(high)) <= ROUNDING:
        return "same"
    if min(value, low) > ROUNDING:
        return "better"
    return "worse" if max(value, high) < -ROUNDING else "unclear"


def middle(minus: Difference) -> float:
    """Return the middle of a difference's interval, NaN without one."""
    return np.nan if minus.low is None or minus.high is None else (minus.low + minus.high) / 2


def is_as_good(minus: Difference) -> bool:
    """Return whether the other one is as good as the rule, by the difference of the rule and it.

    The interval contains zero and its middle is below 0.005. Then nothing speaks for the rule, which had to be tuned.
    """
    return verdict_of(minus) in ("unclear", "same") and middle(minus) < AS_GOOD and _holds_zero(minus)


def _holds_zero(minus: Difference) -> bool:
    low, high = minus.low, minus.high
    return low is not None and high is not None and low <= ROUNDING and high >= -ROUNDING


@dataclass(frozen=True)
class ClassRow:
    """A class: how many rows, what is decided, how well, before and after; estimates have intervals up to 20 classes.

    ``threshold`` is the probability from which the class is decided, ``folds`` the smallest and largest of the folds.
    Where a class is decided only up to some probability, ``between`` tells from and to where, and no class has
    thresholds of folds: rules by distances between classes, or by costs, may decide otherwise than what is certain.
    """

    name: str
    n_rows: int
    share: float
    decided_before: float
    decided_after: float
    before: dict[str, Estimate]
    after: dict[str, Estimate]
    threshold: float
    threshold_plain: float
    folds: tuple[float, float] | None
    spread: float
    between: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Figures:
    """All numbers of a report.

    Attributes
    ----------
    evidence : Evidence
        The rows, the rule, and what is decided for them.
    metrics : tuple of MetricRow
        The tuned metric first, then the second one.
    classes : tuple of ClassRow
        In column order.
    before, after : ndarray (K, M)
        Weights of rows by true class and decision, of argmax and of the tuned rule.
    raw, calibrated : Reliability
        Of the probabilities as given, and as the rule uses them.
    trade : TradeOff or None
        The way from argmax to the rule.
    curve : ThresholdCurve or None
        Of two classes: the tuned metric against the threshold, counted on these rows.
    score : Score
        All replicates.
    single : Difference or None
        Of a randomised rule: what its draws add to its most frequent rule alone, in the tuned metric.
    second : str
        Name of the metric of the trade-off.
    names : list of str
        Names of the classes, then of further decisions, as they are shown.
    """

    evidence: Evidence
    metrics: tuple[MetricRow, ...]
    classes: tuple[ClassRow, ...]
    before: Array
    after: Array
    raw: Reliability
    calibrated: Reliability
    trade: TradeOff | None
    curve: ThresholdCurve | None
    score: Score
    single: Difference | None
    second: str
    names: list[str]

    @property
    def main(self) -> MetricRow:
        """The tuned metric."""
        return self.metrics[0]

    @property
    def leading(self) -> tuple[MetricRow, ...]:
        """The four metrics beside the tuned one that most readers ask for first; for two classes, of the positive."""
        # repr(metric) is a name with parameters or a class in brackets behind it; the name alone is compared
        heads = [re.split(r"[\[(]", row.name)[0] for row in self.metrics]
        positive = [name for name in heads if name.startswith(("precision of class", "recall of class"))]
        # of two classes, readers look for the precision and recall of the positive one
        first = ("f1", *positive) if positive else ()
        wanted = (*first, re.split(r"[\[(]", self.second)[0], *LEADING)
        places = [heads.index(name) for name in dict.fromkeys(wanted) if name in heads]
        rows = [self.metrics[k] for k in places if k > 0 and np.isfinite(self.metrics[k].tuned.value)]
        return tuple(rows[:MOST_LEADING])

    @property
    def is_finite(self) -> bool:
        """Whether every metric has a finite value for all three rules."""
        return all(np.isfinite(it.value) for row in self.metrics for it in (row.argmax, row.tuned, row.prior))

    @property
    def change(self) -> ConfusionChange:
        """Both confusion matrices."""
        return ConfusionChange(self.before, self.after)

    @property
    def shown(self) -> list[int]:
        """The classes whose rows and columns the confusion matrices show."""
        return self.change.shown()

    @property
    def convergence(self) -> Convergence | None:
        """How the search for the rule converged, None where that is not known, or was one step."""
        solution = self.evidence.solution
        return None if solution is None or len(solution.history) < 2 else convergence(solution)

    @property
    def second_label(self) -> str:
        """Name of the metric of the trade-off, in prose."""
        return metric_name(self.second)

    @property
    def positive(self) -> int:
        """Column of the positive one of two classes."""
        return positive_class(self.evidence.metric)

    @property
    def has_ranges(self) -> bool:
        """Whether some class is decided only up to some probability, so that thresholds do not say it all."""
        return any(row.between is not None for row in self.classes)

    @property
    def changed(self) -> float:
        """Share of the weight for which the rule decides another class than argmax does."""
        return _changed(self.evidence, self.evidence.kept)

    @property
    def changed_by_folds(self) -> float:
        """That share for the rules that decide the rows, which are those of the folds in cross-fitted figures."""
        return _changed(self.evidence, self.evidence.decided)


def _changed(evidence: Evidence, decided: Decided) -> float:
    other = decided.decisions != argmax_decisions(evidence)[None]
    return float(np.average(decided.shares @ other, weights=evidence.weight))


def argmax_decisions(evidence: Evidence) -> NDArray[np.int64]:
    """Return the most probable class (n,), ties to the largest index."""
    P = evidence.table.proba
    return np.asarray(P.shape[1] - 1 - P[:, ::-1].argmax(axis=1), dtype=np.int64)


def figures(
    evidence: Evidence, second: Metric, *, order_known: bool, n_replicates: int, level: float, seed: int
) -> Figures:
    """Compute all figures; one bootstrap serves every interval, so that all differences are paired."""
    table = evidence.table
    shown = applicable(table, evidence.metric, second, order_known=order_known)
    K = table.n_classes
    parts = [(part, k) for k in range(K) for part in PARTS]
    # three metrics per class: of many classes they would cost more than the rest of the bootstrap
    by_class = {f"{part} of class {k}": of_class(part, k) for part, k in parts} if K <= CLASS_INTERVALS else {}
    rules: dict[str, Any] = {**plain_rules(table), "rule": evidence.decided}
    if evidence.single is not None:
        # what drawing adds is measured against the rule that is drawn most often, on the same replicates
        rules["single"] = evidence.single
    score = compare(table, {**shown, **by_class}, rules, n_replicates=n_replicates, level=level, seed=seed)
    k = positive_class(evidence.metric)
    # a decision beyond the classes may be called like a class: all labels are told apart together
    names = labels([str(name) for name in (*table.classes, *evidence.rule.class_names[K:])])
    positive = names[k]
    rows = [_metric_row(score, name, metric_name(name), metric.described(positive)) for name, metric in shown.items()]
    # of two classes in a known order the second one is positive
    if has_positive(evidence.metric, K) or (K == 2 and any(metric.binary for metric in shown.values())):
        for part in ("precision", "recall"):
            if evidence.metric.formula is not get(part).formula:
                rows.append(_metric_row(score, f"{part} of class {k}", f"{part} of {positive}", ""))
    # argmax decides classes only, and both matrices have a column for every decision of the rule
    plain = Decided(argmax_decisions(evidence)[None], np.ones(1), evidence.decided.n_decisions)
    before, after = evidence.counts(plain), evidence.counts(evidence.decided)
    raw = reliability(table.proba, evidence.labels, evidence.weight)
    # a rule that calibrates nothing has one reliability, and the page then shows it once
    same = evidence.proba is table.proba or np.array_equal(evidence.proba, table.proba)
    calibrated = raw if same else reliability(evidence.proba, evidence.labels, evidence.weight)
    single = None if evidence.single is None else score.difference("rule", "single", rows[0].name)
    trade = trade_off(evidence.parts, (evidence.metric, second))
    curve = threshold_curve(evidence.rule, table, evidence.metric)
    classes = _class_rows(evidence, score if by_class else None, before, after, names)
    return Figures(
        evidence, tuple(rows), classes, before, after, raw, calibrated, trade, curve, score, single, repr(second), names
    )


def _metric_row(score: Score, name: str, label: str, description: str) -> MetricRow:
    argmax, prior, tuned = (score.estimate(rule, name) for rule in ("argmax", "p/prior", "rule"))
    minus = [score.difference("rule", base, name) for base in ("argmax", "p/prior")]
    # "smallest recall: smallest recall" would say nothing
    description = "" if description.casefold() == label.casefold() else description
    return MetricRow(name, label, description, argmax, prior, tuned, *minus)


def _class_rows(
    evidence: Evidence, score: Score | None, before: Array, after: Array, names: Sequence[str]
) -> tuple[ClassRow, ...]:
    """Return the rows of the classes; without ``score`` their figures have no intervals."""
    table = evidence.table
    K, total = table.n_classes, evidence.weight.sum()
    n_rows = np.bincount(evidence.labels[evidence.weight > 0], minlength=K)
    mean = table.mean_probability()
    folds = evidence.rules if evidence.fold is not None else ()
    between = [decided_between(evidence.rule, mean, k) for k in range(K)]
    # a class that is decided only up to some probability has no threshold, and so no range of thresholds
    if any(between) or any(decided_between(rule, mean, k) for rule in folds for k in range(K)):
        folds = ()
    thresholds = class_thresholds([evidence.rule, plain_rule(evidence.rule), *folds], mean)
    spread = spread_of(thresholds[2:])

    def estimate(rule: str, C: Array, part: str, k: int) -> Estimate:
        if score is not None:
            return score.estimate(rule, f"{part} of class {k}")
        return Estimate(float(of_class(part, k).values(Confusion.from_matrix(C))), None, None)

    rows = []
    for k in range(K):
        argmax, tuned = (
            {part: estimate(rule, C, part, k) for part in PARTS} for rule, C in (("argmax", before), ("rule", after))
        )
        # lines 0 and 1 are the rule and argmax, the others the rules of the folds
        low_high = (float(thresholds[2:, k].min()), float(thresholds[2:, k].max())) if len(folds) else None
        share, decided_before, decided_after = (float(C.sum() / total) for C in (before[k], before[:, k], after[:, k]))
        cut, plain_cut = thresholds[:2, k].tolist()
        row = ClassRow(
            names[k],
            int(n_rows[k]),
            share,
            decided_before,
            decided_after,
            argmax,
            tuned,
            cut,
            plain_cut,
            low_high,
            float(spread[k]),
            between[k],
        )
        rows.append(row)
    return tuple(rows)
