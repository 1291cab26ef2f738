"""What a report evaluates: labelled rows, and the decision for every row of a rule that was not tuned on it.

Either a finished rule is evaluated on rows other than those that it was tuned on, or every row is decided
by the rule that was tuned without its fold (cross-fitting). Of rules that draw, the expectation is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.errors import extended
from confmax.evaluate.decided import Decided, counts_of, decided_by
from confmax.evaluate.judging import gains_of, plain_rules, rules_decide
from confmax.evaluate.lines import Judged, judge, judge_rows
from confmax.evaluate.protocols import Tuned, frequent_gain, with_gain
from confmax.evaluate.seen import was_tuned_on
from confmax.metrics import Metric
from confmax.metrics.decided import as_written
from confmax.oracle import make_oracle
from confmax.rule import DecisionRule
from confmax.rule.parts import laid_out, parts_of
from confmax.tables import Part, Table, apply_calibrator
from confmax.tables.draws import cross_fit, folds_to_judge, masks, quietly

KEPT = "kept"  # what the kept rule is called beside the rules of a page
EQUAL = 1e-9  # statistics of the same rows agree better than this


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows and decisions."""

    table: Part  # raw probabilities (n, K) with labels
    metric: Metric  # what the rule was tuned for, or is evaluated by; of a rule that abstains, on the decided rows
    rule: DecisionRule  # the one that is reported on
    decided: Decided  # what is decided for the rows
    kept: Decided  # what `rule` decides, which differs from `decided` where the figures are cross-fitted
    single: Decided | None  # what the most frequent of a randomised rule's rules decides
    proba: NDArray[Any]  # (n, K), after the calibration that belongs to the rule that decides the row
    solution: Tuned | None = None  # how the rule was tuned
    fold: NDArray[np.int64] | None = None  # (n,), where the figures are cross-fitted
    solutions: tuple[Tuned, ...] = ()  # of the folds: tuned on all rows but those of the fold
    seen: bool = False  # whether the rule was tuned on these rows
    # of a table in parts, whose rows here are a sample: what is counted on all of them
    whole: Judged | None = None

    @property
    def is_sample(self) -> bool:
        """Whether the rows are a sample of those that are counted."""
        return self.whole is not None

    @cached_property
    def lines(self) -> Judged:
        """Lines for all rows, with what argmax, p/prior, the "rule" and its "single" one decide, by their names."""
        return self.lines_with({})

    def lines_with(self, further: Mapping[str, Decided]) -> Judged:
        """Return `lines` with what `further` rules decide for the rows, and the kept rule; of a sample `lines`."""
        if self.whole is not None:
            return self.whole
        single = {} if self.single is None else {"single": self.single}
        every = {**plain_rules(self.table), "rule": self.decided, **single, KEPT: self.kept, **further}
        return judge_rows(self.table, every)

    @property
    def counted(self) -> Part:
        """The lines as rows."""
        return self.lines.rows

    @property
    def judged(self) -> Mapping[str, Decided]:
        """What rules decide for the lines, by their names."""
        return self.lines.decided

    @property
    def labels(self) -> NDArray[np.int64]:
        """True classes as column numbers (n,)."""
        assert self.table.labels is not None
        return self.table.labels

    @property
    def weight(self) -> Array:
        """Weights of the rows (n,)."""
        return self.table.weights

    @property
    def total_weight(self) -> float:
        """The weight of all counted rows."""
        # a line has the weight of all its rows
        return self.counted.weight_total

    @property
    def parts(self) -> list[tuple[DecisionRule, Part]]:
        """The rules that decide the rows, each with its rows; rules without rows that have weight are left out."""
        if self.fold is None:
            return parts_of(self.rule, self.table)
        held = [(solution.rule, self.table.take(self.fold == k)) for k, solution in enumerate(self.solutions)]
        return [part for rule, table in held for part in parts_of(rule, table)]

    def counts(self, decided: Decided) -> Array:
        """Return the weights (K, M) of rows by true class and decision."""
        return counts_of(decided, self.table)


def judge_rule(table: Table, rule: DecisionRule) -> Judged:
    """Return what argmax, p/prior, a rule and the one that it draws most often decide on a labelled table."""
    single = {"single": with_gain(rule, frequent_gain(rule))} if rule.is_randomized else {}
    rules = {"rule": rule, **single}
    return judge(table, partial(rules_decide, rules), partial(gains_of, rules))


def evidence_of(
    table: Part,
    metric: Metric,
    rule: DecisionRule,
    solution: Tuned | None = None,
    whole: Judged | None = None,
) -> Evidence:
    """Return the evidence of a finished rule on the rows of a table; a ValueError as of `decided_by`.

    Of a table in parts ``table`` is its sample, and ``whole`` what is counted on all rows.
    """
    decided = decided_by(rule, table)
    single = decided_by(with_gain(rule, frequent_gain(rule)), table) if rule.is_randomized else None
    seen = is_of_tuning(rule, Table.of(table), solution, whole)
    proba = apply_calibrator(rule.calibrator, table.proba)
    return Evidence(table, as_written(metric), rule, decided, decided, single, proba, solution, seen=seen, whole=whole)


Tune = Callable[[NDArray[np.bool_], Mapping[str, Any]], Tuned]  # which rows (n,) to use, and settings of `maximize`


def solutions_of_folds(
    tune: Tune, fold: NDArray[np.int64], kind: Mapping[str, Any], *, fails: str, way_out: str
) -> tuple[Tuned, ...]:
    """Return what is tuned without each fold, with the settings ``kind``; ``fold`` (n,) is that of every row.

    If nothing can be tuned without one of them, a ValueError: ``fails``, the reason in brackets, and the ``way_out``.
    """
    solutions: list[Tuned] = []
    try:
        for _, one in cross_fit(quietly(lambda part: tune(~part, kind)), masks(fold)):
            solutions.append(one)
    except ValueError as error:
        raise extended(error, f"{fails.format(len(solutions) + 1, fold.max() + 1)} (", f"); {way_out}") from None
    return tuple(solutions)


def cross_fitted(table: Part, solution: Tuned, tune: Tune, *, n_folds: int, seed: int) -> Evidence:
    """Return the evidence in which every row of a labelled table is decided by the rule tuned without its fold.

    Folds are stratified and depend on the content of the rows and the seed, never on their order. The rules of the
    folds are of the kind of the rule of the ``solution`` on all rows, see `kind_of`. If every fold chose anew whether
    to draw and how to calibrate, the figures would be those of other rules than the one that is kept.
    """
    kept = decided_by(solution.rule, table)
    fold = folds_to_judge(table, n_folds, seed)
    fails = "no rule can be tuned without fold {} of {}"
    way_out = "evaluate the rule on other rows instead, or pass more rows"
    solutions = solutions_of_folds(tune, fold, kind_of(solution), fails=fails, way_out=way_out)
    found = of_folds([one.rule for one in solutions], table, solution.metric, fold)
    return replace(found, rule=solution.rule, kept=kept, solution=solution, solutions=solutions)


def of_folds(rules: Sequence[DecisionRule], table: Part, metric: Metric, fold: NDArray[np.int64]) -> Evidence:
    """Return the evidence in which rule ``fold[i]``, tuned for a ``metric``, decides row i."""
    # the single rules show what drawing adds: they are pooled over the same folds
    singles = [with_gain(rule, frequent_gain(rule)) for rule in rules]
    # every fold has a calibration of its own, which was fitted without its rows
    proba = np.empty_like(table.proba)
    for part, rule in zip(masks(fold), rules, strict=True):
        proba[part] = apply_calibrator(rule.calibrator, table.proba[part])
    decided = pooled(rules, table, fold)
    single = pooled(singles, table, fold) if any(rule.is_randomized for rule in rules) else None
    return Evidence(table, as_written(metric), rules[0], decided, decided, single, proba, fold=fold)


def pooled(rules: Sequence[DecisionRule], table: Part, which: NDArray[np.int64]) -> Decided:
    """Return what the rules decide, rule ``which[i]`` for row i, as one mixture of deterministic decisions.

    Rules that draw have other shares in other folds: the unit interval is cut where any of them changes, and in each
    piece every fold has one deterministic rule.
    """
    ends = [np.cumsum(rule.weights) / rule.weights.sum() for rule in rules]
    # shares that differ by rounding alone end at the same place
    edges = np.unique(np.concatenate(ends).round(12))
    shares = np.diff(np.concatenate([[0.0], edges[:-1], [1.0]]))
    middles = np.concatenate([[0.0], edges[:-1]]) + shares / 2
    out = np.empty((len(shares), table.n_rows), np.int64)
    for k, (rule, end) in enumerate(zip(rules, ends, strict=True)):
        part = which == k
        lines = decided_by(rule, table.take(part)).decisions
        # the middle of a piece lies inside one share of every rule
        atom = np.minimum(np.searchsorted(end, middles), len(lines) - 1)
        out[:, part] = lines[atom]
    return Decided(out, shares, max(rule.n_decisions for rule in rules), rules[0].abstain is not None)


def kind_of(solution: Tuned) -> dict[str, Any]:
    """Return the settings of `maximize` that make rules of a solution's kind: deterministic or not, and calibrated how.

    A calibrator that was given is not in them: the caller's own setting fits it again. A rule that draws allows the
    rules of the folds to draw; where that gains nothing there, they do not.
    """
    settings: dict[str, Any] = {"randomized": solution.rule.is_randomized}
    kind = None if solution.calibration is None else solution.calibration.kind
    return settings if kind == "given" else {**settings, "calibration": None if kind == "none" else kind}


def is_of_tuning(rule: DecisionRule, table: Table, solution: Tuned | None = None, whole: Judged | None = None) -> bool:
    """Return whether a table, or the ``whole`` of which it is a sample, holds the rows that a rule was tuned on.

    A rule that does not say which rows these are may be known by its ``solution``.
    """
    seen = was_tuned_on(rule, table if whole is None else whole.table)
    return (solution is not None and tuned_on(solution, table)) if seen is None else seen


def tuned_on(solution: Tuned, table: Table) -> bool:
    """Return whether a table holds the rows that a solution was tuned on: the statistics of its rule are the same."""
    # a blend or a label estimate cannot be computed again without labels
    if not table.has_labels and solution.mode != "model":
        return False
    rule = solution.rule
    same = laid_out(rule, table)
    if same is None:
        return False
    calibrator = None if solution.calibration is None else solution.calibration.calibrator
    # the oracle of the tuning, on these rows: equal rows give equal statistics
    share = np.array(solution.group_shares) if solution.group_shares else solution.model_share
    counted = rule.evaluate(make_oracle(same.calibrated(calibrator), solution.mode, model_share=share))
    # the statistics of a solution are those of all rows
    if rule.layout is not None:
        counted = rule.layout.total(counted)
    # one rule counted on two tables of its classes: the vectors have the same lengths
    here, there = (np.concatenate([S.rows, S.diagonal, S.columns]) for S in (counted, solution.statistics))
    return np.allclose(here, there, rtol=0.0, atol=EQUAL)
