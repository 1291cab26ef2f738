"""Everything a report says in numbers, as one frozen record; words, charts and page only show it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from confmax.calibration.scaling import FLOOR
from confmax.calibration.words import one_class, printable
from confmax.confusion import Array, Confusion
from confmax.evaluate.applicable import PARTS, applicable, of_class
from confmax.evaluate.confusion_change import ConfusionChange
from confmax.evaluate.curves import CoverageFigures
from confmax.evaluate.decided import Decided, counts_of, decided_by, rows_by_class
from confmax.evaluate.evidence import KEPT, Evidence
from confmax.evaluate.judging import plain_rules
from confmax.evaluate.limits import LimitFigures
from confmax.evaluate.protocols import plain_rule
from confmax.evaluate.rivals import CHOW, PRIOR_ON_AS_MANY, decide_alike, missed_by_each, names_of
from confmax.evaluate.scores import PLAIN, Score
from confmax.evaluate.studies import studies
from confmax.evaluate.thresholds import (
    ClassRange,
    ThresholdCurve,
    class_ranges,
    class_thresholds,
    decided_between,
    favours,
    spread_of,
    threshold_curve,
)
from confmax.evaluate.trade_off import TradeOff, trade_off
from confmax.evaluate.uncertainty import compare, in_groups, values_at
from confmax.evaluate.verdict import Difference, Estimate, Verdict, negated, verdict_of
from confmax.metrics import Metric, get
from confmax.metrics.alignment import positive_class
from confmax.metrics.catalogue import title_of
from confmax.rule import DecisionRule
from confmax.tables import Part

BINS = 10
# calibration error that is worth a word, if chance is less likely than this
MISCALIBRATED = 0.02
BEYOND_CHANCE = 1e-3
CLASS_INTERVALS = 20  # classes up to which every one has its own intervals
MOST_LEADING = 4  # metrics beside the tuned one that are not folded away
LEADING = ("accuracy", "balanced_accuracy", "macro_f1", "min_recall", "cohen_kappa", "weighted_f1")


@dataclass(frozen=True)
class MetricRow:
    """A metric of argmax, p/prior and the tuned rule, with paired differences; ``label`` is its name in prose.

    Beside a rule that abstains the two decide as many rows as it does: argmax is then Chow's rule (`Figures.plain`).
    """

    name: str
    label: str
    description: str
    argmax: Estimate
    prior: Estimate
    tuned: Estimate
    difference: Difference
    to_prior: Difference
    is_cost: bool = False

    def as_shown(self, given: Any) -> Any:
        """Return a value, values, an estimate or a difference as people read it: a cost without its minus."""
        if not self.is_cost or given is None:
            return given
        return negated(given) if isinstance(given, (Estimate, Difference)) else 0.0 - given

    @property
    def verdict(self) -> str:
        """What the difference to argmax says, see `verdict_of`."""
        return verdict_of(self.difference)


@dataclass(frozen=True)
class ClassRow:
    """A class: how many rows, what is decided, how well, before and after; estimates have intervals up to 20 classes.

    ``threshold`` is the probability from which the class is decided: of two classes the raw one, of several the one
    after calibration, and None where the rule is no threshold on it. Where one of two classes is decided only up to
    some probability, ``between`` holds its ends, and no class has thresholds of folds: rules by costs may
    decide otherwise than what is certain. ``rows`` are those that the rule decides as the class, and ``favour`` is the
    weight and the offset of its probability (`favours`).

    ``level`` is what rules are compared by: of two classes the threshold, else the share of rows that are decided as
    the class. ``level_plain`` is that of argmax, ``folds`` the smallest and largest of the folds, and ``spread`` the
    standard deviation of their log odds.
    """

    name: str
    n_rows: int
    share: float
    decided_before: float
    decided_after: float
    before: dict[str, Estimate]
    after: dict[str, Estimate]
    threshold: float | None
    between: tuple[float, float] | None
    rows: ClassRange
    favour: tuple[float, float] | None
    level: float
    level_plain: float
    folds: tuple[float, float] | None
    spread: float


@dataclass(frozen=True, eq=False)
class Reliability:
    """Reliability of the most probable class, in B bins, and of all."""

    # mean probability of the most probable class in each bin (B,), and how often it was the true one
    stated: Array
    observed: Array
    share: Array  # (B,), of all weight
    error: Array  # (B,), standard error of `observed` if the probabilities were right
    log_loss: float  # in nats, entries below 1e-12 counting as 1e-12
    brier: float  # mean squared distance to the true class's indicator, from 0 to 2
    ece: float  # expected calibration error of the most probable class: mean of |stated - observed|
    ece_by_chance: float  # what it would be on average, with so few rows, if the probabilities were right
    p_value: float  # chance of bins as far off as these if the probabilities were right (chi-squared over the bins)
    mean: Array  # (K,), mean probability of every class

    @property
    def is_off(self) -> bool:
        """Whether the probabilities are off by what matters, and by more than chance."""
        return self.ece > MISCALIBRATED and self.p_value < BEYOND_CHANCE


def reliability(proba: NDArray[Any], labels: NDArray[np.int64], weight: Array) -> Reliability:
    """Return the reliability of probabilities (n, K); bins of the largest one hold about equal numbers of rows."""
    kept = weight > 0
    P = proba[kept].astype(np.float64)
    labels = labels[kept]
    weight = weight[kept]
    top = P.argmax(axis=1)
    sure = P[np.arange(len(P)), top]
    hit = (top == labels).astype(np.float64)
    edges = np.unique(np.quantile(sure, np.arange(1, BINS) / BINS))
    place = np.searchsorted(edges, sure, side="right")  # equal probabilities share a bin
    _, place = np.unique(place, return_inverse=True)
    total = np.bincount(place, weights=weight)
    stated = np.bincount(place, weights=weight * sure) / total
    observed = np.bincount(place, weights=weight * hit) / total
    error = np.sqrt(np.bincount(place, weights=weight**2 * sure * (1 - sure))) / total
    share = total / total.sum()
    off = np.abs(stated - observed)
    # a bin of near certainties may have one miss: the size of a row is no evidence
    z = off / np.hypot(error, np.bincount(place, weights=weight**2) / total**2)
    truth = P[np.arange(len(P)), labels]
    squares = (P**2).sum(axis=1) - 2 * truth + 1
    return Reliability(
        stated,
        observed,
        share,
        error,
        log_loss=float(np.average(-np.log(np.maximum(truth, FLOOR)), weights=weight)),
        brier=float(np.average(squares, weights=weight)),
        ece=float(share @ off),
        # the mean size of a normal deviation
        ece_by_chance=float(share @ error) * float(np.sqrt(2 / np.pi)),
        # what `scipy.stats.chi2.sf` returns, whose import takes longer than a page
        p_value=float(chdtrc(len(z), (z**2).sum())),
        mean=np.average(P, axis=0, weights=weight),
    )


@dataclass(frozen=True, eq=False)
class GroupFigures:
    """The numbers of a report about the rows of one group."""

    name: str
    n_rows: int
    share: float  # of all weight
    changed: float  # share of its weight for which another class than argmax's is decided
    metrics: tuple[MetricRow, ...]  # in the order of `Figures.metrics`
    own: Figures | None = None  # the report's, with the rule of this group in the place of one that decides by groups


@dataclass(frozen=True, eq=False)
class Figures:
    """All numbers of a report."""

    evidence: Evidence
    metrics: tuple[MetricRow, ...]  # the tuned one first, then the second one
    second: MetricRow  # the metric of the trade-off
    classes: tuple[ClassRow, ...]  # in column order
    change: ConfusionChange  # weights of rows, of argmax and of the tuned rule
    # share of the weight for which another class than argmax's is decided, by the rule that is kept, and by the rules
    # that decide the rows: those of the folds in cross-fitted figures
    changed: float
    changed_by_folds: float
    # the probabilities as given, and as the rule uses them
    raw: Reliability
    calibrated: Reliability
    trade: TradeOff | None  # the way from argmax to the rule
    curve: ThresholdCurve | None  # of two classes
    score: Score
    single: Difference | None  # what the draws of a randomised rule add to its most frequent rule, in the tuned metric
    names: list[str]  # of the classes, then of further decisions, as they are shown
    verdict: Verdict  # on the rule, by the tuned metric
    plain: tuple[str, str]  # what is called argmax and p/prior in `metrics`
    limits: LimitFigures | None = None  # of a rule that was tuned within limits
    undecided: CoverageFigures | None = None  # of a rule that leaves rows undecided
    groups: tuple[GroupFigures, ...] = ()  # of rows whose groups are known

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
        wanted = (*first, re.split(r"[\[(]", self.second.name)[0], *LEADING)
        places = [heads.index(name) for name in dict.fromkeys(wanted) if name in heads]
        rows = [self.metrics[k] for k in places if k > 0 and np.isfinite(self.metrics[k].tuned.value)]
        return tuple(rows[:MOST_LEADING])

    @property
    def decides_by_groups(self) -> bool:
        """Whether the rule decides each group by gains of its own, so that it has no thresholds for all rows."""
        return any(group.own is not None for group in self.groups)

    @property
    def is_finite(self) -> bool:
        """Whether every metric has a finite value for all three rules."""
        return all(np.isfinite(it.value) for row in self.metrics for it in (row.argmax, row.tuned, row.prior))

    @property
    def positive(self) -> int:
        """Column of the positive one of two classes."""
        return positive_class(self.evidence.metric)


def figures(
    evidence: Evidence,
    second: Metric,
    *,
    order_known: bool,
    n_replicates: int,
    level: float,
    seed: int,
) -> Figures:
    """Compute all figures; one bootstrap serves every interval, so that all differences are paired."""
    study, undecided = studies(evidence)
    table = evidence.table
    shown = applicable(table, evidence.metric, second, order_known=order_known)
    K = table.n_classes
    # three metrics per class: of many classes they would cost more than the rest of the bootstrap
    parts = [(part, k) for k in range(K) for part in PARTS] if K <= CLASS_INTERVALS else []
    by_class = {f"{part} of class {k}": of_class(part, k) for part, k in parts}
    studied: dict[str, Metric] = {}
    further: dict[str, Decided] = {}
    for beside in (study, undecided):
        if beside is not None:
            studied |= beside.metrics
            further |= beside.rules
    bootstrap: dict[str, Any] = {"n_replicates": n_replicates, "level": level, "seed": seed}
    # what drawing adds is measured against the rule that is drawn most often, on the same replicates
    _, counted, every = evidence.lines_with(further)
    rules = {name: one for name, one in every.items() if name != KEPT}
    score = compare(counted, {**shown, **by_class, **studied}, rules, **bootstrap)
    beside_it = score
    here = {**plain_rules(table), "rule": evidence.decided, **further}
    if evidence.is_sample and further:
        # rules that are made of the rows of a sample are compared on it
        beside_it = compare(table, {**shown, **studied}, here, **bootstrap)
    # a decision beyond the classes may have the name of a class: all labels are made different together
    names = labels([str(name) for name in (*table.classes, *evidence.rule.class_names[K:])])
    # like is compared with like: on as many rows
    plain = (CHOW, PRIOR_ON_AS_MANY) if undecided is not None else PLAIN
    rows = _metric_rows((score, beside_it), evidence.metric, shown, names, K, plain)
    of_groups = {row.name: {**shown, **by_class}[row.name] for row in rows}
    of_groups |= {} if study is None else study.metrics_of_groups
    apart = undecided is not None and evidence.is_sample
    counts, judged = (table, here) if apart else (counted, rules)
    shown_rules = {name: judged[name] for name in dict.fromkeys((*PLAIN, *plain, "rule"))}
    score = replace(score, by_group=in_groups(counts, of_groups, shown_rules, **bootstrap))
    # argmax decides classes only, and both matrices have a column for every decision of the rule
    argmax = rules["argmax"]._replace(n_decisions=evidence.decided.n_decisions)
    change = ConfusionChange(counts_of(argmax, counted), counts_of(rules["rule"], counted))
    changed, by_folds = (
        float(np.average(decided.shares @ (decided.decisions != argmax.decisions), weights=counted.weight))
        for decided in (every.get(KEPT, rules["rule"]), rules["rule"])
    )
    raw = reliability(table.proba, evidence.labels, evidence.weight)
    # without calibration there is one reliability, which the page shows once
    same = evidence.proba is table.proba or np.array_equal(evidence.proba, table.proba)
    calibrated = raw if same else reliability(evidence.proba, evidence.labels, evidence.weight)
    single = None if evidence.single is None else score.difference("rule", "single", rows[0].name)
    # between argmax, which decides all rows, and a rule that abstains the rules do not decide the same rows
    trade = None if evidence.decided.abstains else trade_off(evidence.parts, (evidence.metric, second))
    # a rule that decides by groups has thresholds in each of them
    curve = None if evidence.rule.groups else threshold_curve(evidence.rule, table, evidence.metric)
    classes = _class_rows(evidence, score if by_class else None, change, names)
    limits = None if study is None else study.limits
    rivals = names_of(
        evidence.metric, K, abstains=evidence.decided.abstains, as_many=plain if undecided is not None else ()
    )
    verdict = (beside_it if apart else score).verdict(
        "rule",
        evidence.metric,
        missed_by_each(rivals, judged, () if limits is None else (limits,), counts, evidence.decided.n_decisions),
        () if study is None else study.scored(score),
        next((one for one in rivals if decide_alike(judged["rule"], judged[one])), None) if changed else "argmax",
    )
    other = next(row for row in rows if row.name == repr(second))
    result = Figures(
        evidence,
        tuple(rows),
        other,
        classes,
        change,
        changed,
        by_folds,
        raw,
        calibrated,
        trade,
        curve,
        score,
        single,
        names,
        verdict,
        plain,
        None if study is None else study.figures(score, beside_it),
        None if undecided is None else undecided.figures(beside_it, names, metric_name(repr(undecided.metric))),
    )
    return replace(result, groups=_groups(result, counted, rules["rule"], argmax))


def _groups(figures: Figures, counted: Part, rule: Decided, argmax: Decided) -> tuple[GroupFigures, ...]:
    """Return the figures of every group with a row, given what the ``rule`` and ``argmax`` decide ``counted`` rows."""
    evidence = figures.evidence
    moved = rule.shares @ (rule.decisions != argmax.decisions)
    every = counted.weights
    total = every.sum()
    found = []
    for name, score in figures.score.by_group.items():
        g = counted.groups.names.index(name)
        mine = counted.groups.codes == g
        weight = every[mine]
        rows = [
            _metric_row((score, score), row.name, row.label, row.description, figures.plain) for row in figures.metrics
        ]
        found.append(
            GroupFigures(
                printable(str(name)),
                score.n_rows,
                float(weight.sum() / total),
                float(weight @ moved[mine] / weight.sum()),
                tuple(rows),
                _with_rule_of(figures, name, evidence.table.groups.codes == g) if evidence.rule.groups else None,
            )
        )
    return tuple(found)


def _with_rule_of(figures: Figures, name: Any, mine: NDArray[np.bool_]) -> Figures:
    """Return the figures with the rule of a group, whose rows are ``mine`` (n,), in the place of the rule."""
    evidence = figures.evidence
    rule = evidence.rule.of_group(name)
    table = evidence.table.take(mine)
    kept = evidence.kept._replace(decisions=evidence.kept.decisions[:, mine])
    classes = [replace(row, **way) for row, way in zip(figures.classes, _ways(rule, kept, table), strict=True)]
    curve = threshold_curve(rule, table, evidence.metric)
    return replace(figures, evidence=replace(evidence, rule=rule), classes=tuple(classes), curve=curve)


def _metric_rows(
    scores: tuple[Score, Score],
    tuned: Metric,
    shown: Mapping[str, Metric],
    names: Sequence[str],
    n_classes: int,
    plain: tuple[str, str],
) -> list[MetricRow]:
    """Return the rows of the metrics that are ``shown``, of two classes also of precision and recall of one."""
    k = positive_class(tuned)
    rows = [
        _metric_row(scores, name, _label_of(metric, name), metric.described(names[k]), plain)
        for name, metric in shown.items()
    ]
    # a metric may name the positive one of two classes; in a known order it is the second
    if n_classes == 2 and (tuned.label is not None or any(metric.binary for metric in shown.values())):
        for part in ("precision", "recall"):
            if tuned.formula is not get(part).formula:
                rows.append(_metric_row(scores, f"{part} of class {k}", f"{part} of {names[k]}", "", plain))
    return rows


def _metric_row(
    scores: tuple[Score, Score], name: str, label: str, description: str, plain: tuple[str, str]
) -> MetricRow:
    """Return the row of a metric: all rows are in the first score, and the second may be that of a sample."""
    score, beside = scores if plain != PLAIN else (scores[0], scores[0])
    argmax, prior = (beside.estimate(rule, name) for rule in plain)
    minus = [beside.difference("rule", base, name) for base in plain]
    tuned = score.estimate("rule", name)
    # "smallest recall: smallest recall" would say nothing
    description = "" if description.casefold() == label.casefold() else description
    is_cost = score.tables.get(name) == "costs"
    return MetricRow(name, label, description, argmax, prior, tuned, minus[0], minus[1], is_cost)


def _label_of(metric: Metric, name: str) -> str:
    """Return what a metric is called in prose: of a table of costs or gains its unit."""
    return f"{metric.shown_name} of a row" if metric.cost_table else metric_name(name)


def _class_rows(
    evidence: Evidence, score: Score | None, change: ConfusionChange, names: Sequence[str]
) -> tuple[ClassRow, ...]:
    """Return the rows of the classes; without ``score`` their figures have no intervals."""
    table = evidence.table
    K = table.n_classes
    total = change.before.sum()
    n_rows = rows_by_class(evidence.counted)
    ways = _ways(evidence.rule, evidence.kept, table)
    folds = _levels_of_folds(evidence)
    spread = spread_of(folds)

    def estimates(rule: str, C: Array, k: int) -> dict[str, Estimate]:
        if score is not None:
            return {part: score.estimate(rule, f"{part} of class {k}") for part in PARTS}
        counts = Confusion.from_matrix(C[None])
        return {part: Estimate(float(values_at(of_class(part, k), counts)[0]), None, None) for part in PARTS}

    rows = []
    for k in range(K):
        sums = (change.before[k], change.before[:, k], change.after[:, k])
        share, decided_before, decided_after = (float(C.sum() / total) for C in sums)
        row = ClassRow(
            names[k],
            int(n_rows[k]),
            share,
            decided_before,
            decided_after,
            estimates("argmax", change.before, k),
            estimates("rule", change.after, k),
            folds=(float(folds[:, k].min()), float(folds[:, k].max())) if len(folds) else None,
            spread=float(spread[k]),
            **ways[k],
        )
        rows.append(row if K == 2 else replace(row, level_plain=decided_before))
    return tuple(rows)


def _ways(rule: DecisionRule, kept: Decided, table: Part) -> list[dict[str, Any]]:
    """Return what a `ClassRow` says of how each class is decided, given what the rule decides for the rows."""
    favoured = [None] * table.n_classes if rule.groups else favours(rule)
    pairs = zip(class_ranges(kept, table), favoured, strict=True)
    unknown = {"threshold": None, "between": None, "level_plain": np.nan}
    ways = [{**unknown, "rows": rows, "favour": favour, "level": rows.share} for rows, favour in pairs]
    of_class = one_class(rule)
    if of_class is not None:
        ways[of_class.k]["threshold"] = np.inf if of_class.cut > 1.0 else max(of_class.cut, 0.0)
    if table.n_classes == 2 and not rule.groups:
        thresholds = class_thresholds([rule, plain_rule(rule)], np.full(2, 0.5))
        for k, (cut, plain) in enumerate(thresholds.T.tolist()):
            ways[k] |= {"threshold": cut, "between": decided_between(rule, k), "level": cut, "level_plain": plain}
    return ways


def _levels_of_folds(evidence: Evidence) -> Array:
    """Return what the rules of the folds are compared by (F, K): thresholds of two classes, else shares of rows.

    There are none if a rule decides by groups, or one of two classes only up to some probability.
    """
    rules = [solution.rule for solution in evidence.solutions]
    K = evidence.table.n_classes
    if evidence.rule.groups or not rules:
        return np.empty((0, K))
    if K > 2:
        decided = [decided_by(rule, evidence.table) for rule in rules]
        return np.array([[rows.share for rows in class_ranges(fold, evidence.table)] for fold in decided])
    if any(decided_between(rule, k) for rule in (evidence.rule, *rules) for k in range(2)):
        return np.empty((0, K))
    return class_thresholds(rules, np.full(2, 0.5))


# --- names ------------------------------------------------------------------------------------------------------------


def metric_name(name: str) -> str:
    """Return a metric's name as it is written in prose, its parameters behind it."""
    head, sign, inside = name.partition("(")
    # column numbers mean nothing to a reader who knows the classes by name
    inside = re.sub(r"classes=\(([^)]*)\)", lambda match: f"{len(match[1].split(', '))} classes", inside)
    return f"{title_of(head) or printable(head)}{' (' + printable(inside) if sign else ''}"


def labels(names: Sequence[str], most: int = 40) -> list[str]:
    """Return class names on one line each, without control characters, still different from each other."""
    # two names may differ only beyond what is shown: their places tell them apart
    shown = [printable(name, most) or "(empty)" for name in names]
    often = Counter(shown)
    return [name if often[name] == 1 else f"{name} #{k}" for k, name in enumerate(shown)]
