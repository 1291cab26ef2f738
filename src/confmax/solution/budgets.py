"""Several labels per row by gains: budgets of k labels, and metrics that are no sum over labels.

The labels of a row compete for its budget, so thresholds that are found label by label are no answer. The problem is
that of one class for every row, on the same solvers, with another set of decisions. Rows are decided by the calibrated
probabilities, and counted by the estimate of what is true.

A search starts from the k largest p and p / prior, and from the gradient at the labels' separate optima. Each of them
leads to the best value on some tables. The slope of a user's function may say nothing where it is low, as that of a
smallest F1 does. So its search starts from the best rules of named metrics too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from confmax import optimize
from confmax.confusion import ABSENT, Array, Gains
from confmax.constraints.outcomes import outcomes, prices_of
from confmax.metrics import labels as label_metrics
from confmax.metrics.labels import OfVectors, is_mean
from confmax.metrics.limited import negative
from confmax.optimize import Mixture, Outcome, Problem, Progress, Status
from confmax.optimize.cuts import shortest
from confmax.optimize.estimate import Estimate
from confmax.optimize.given import GivenRule
from confmax.optimize.label_thresholds import best_of_labels
from confmax.optimize.path_query import first_gains
from confmax.optimize.rounding import LITTLE
from confmax.oracle import CountingOracle
from confmax.rule.labels import LabelRule
from confmax.solution.label_task import LabelTask
from confmax.solution.out_of_reach import best_of_closest, infeasibility
from confmax.solution.plan import is_auto
from confmax.solution.second_objective import worth_drawing, worth_of_single
from confmax.tables import Part, Table
from confmax.tables.decisions import ANY, Decisions

ABOVE = 2.0**-10  # how far above zero the lowest score is, in the unit of weights
NEAR = ("macro_f1", "g_mean")  # metrics whose best rules a search for a user's function starts from


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found beside its rule.

    ``most`` is a bound on the estimate used, and ``model_most`` one on the model's estimate; None for none. ``drawn``
    is the value of the best rule that draws, None where draws were not searched, and ``alone`` (L,) are the thresholds
    that are best for each label. Within limits, ``prices`` (n,) are theirs, NaN where none is known, and the
    ``infeasibility`` says why no rule keeps them.
    """

    most: float | None
    model_most: float | None
    drawn: float | None = None
    alone: Array | None = None
    status: Status = Status.OPTIMAL
    n_passes: int = 1
    history: tuple[Progress, ...] = ()
    prices: Array | None = None
    infeasibility: str | None = None


@dataclass(eq=False)
class Met:
    """What searches at other levels of a limit have met, from which the next one starts, too.

    ``free`` are rules that are found without limits, and their bound on the model's estimate; None where none were
    searched. ``before`` are the rules of the level before, where these were searched on the model's estimate: on labels
    such starts save no time, and some values were lower.
    """

    free: tuple[list[Gains], float | None] | None = None
    before: list[Gains] = field(default_factory=list)


def best_gains(task: LabelTask, met: Met) -> tuple[LabelRule, Found]:
    """Return the best rule of gains that is found on the estimate of a ``task``, and keep what is ``met``."""
    plan = task.plan
    table = task.calibrated
    if met.free is None:
        met.free = _without_limits(task, table, _on_sample(task))
    known, model_most = met.free
    known = [*known, *met.before]
    problem, outcome, most = _searched(task, table, task.estimate, known)
    model_most = most if task.mode == "model" else model_most
    value = problem.value(outcome.mixture.confusion)
    if task.mode == "model":
        met.before = [*outcome.mixture.atoms, *outcome.single.atoms]
    best, prices, why = _chosen(task, problem, outcome)
    gains, weights = best.gathered()
    gains = problem.oracle.allowed(gains)
    rule = LabelRule(gains, weights, decisions=plan.decisions, calibrator=task.maps, **_named(task))
    # what a sparse table does not store has no place beside a threshold
    if plan.decisions.most is None and not table.is_truncated and not (gains.pair()[0] < 0.0).any():
        rule = LabelRule.from_thresholds(_on_given(rule, task), **task.settings)
    passes = problem.oracle.n_passes
    found = Found(most, model_most, value, status=outcome.status, n_passes=passes, history=outcome.history)
    return rule, replace(found, prices=prices, infeasibility=why)


def _without_limits(task: LabelTask, table: Table, known: Sequence[Gains]) -> tuple[list[Gains], float | None]:
    """Return ``known`` rules with the best ones without limits, and a bound of these on the model's estimate."""
    plan = task.plan
    known = [*known]
    model_most = None
    free = replace(task, limits=None)
    if plan.decisions.positive and plan.decisions.most is not None and not _is_proved(task):
        known += _of_exactly(free, min(plan.decisions.most, table.n_classes - len(plan.absent or ())))
    if isinstance(task.metric.formula, OfVectors):
        known += _of_named(task, table)
    elif task.mode != "model":
        # what bounds the metric holds on the model's estimate alone, within limits too; its rules are starts
        _, first, model_most = _searched(free, table, task.estimate.with_share(1.0), known)
        known += (first.mixture if task.metric.structure.is_concave else first.single).atoms
    return known, model_most


def _chosen(task: LabelTask, problem: Problem, outcome: Outcome) -> tuple[Mixture, Array | None, str | None]:
    """Return the rule to return, the prices (n,) of the limits, and why no rule keeps them; None if this one does."""
    drawn, single = outcome.mixture, outcome.single
    randomized = task.plan.randomized
    loss = problem.value(drawn.confusion) - problem.value(single.confusion)
    limits = task.limits
    if limits is None:
        return (drawn if randomized is True and loss > 0.0 else single), None, None
    wanted = loss > (worth_drawing(problem) if is_auto(randomized) else 0.0)
    if problem.shortfall(single.confusion) > problem.shortfall(drawn.confusion):
        # a rule that draws is no answer to a question for a single one
        wanted = True
    best = drawn if wanted and randomized is not False else single
    if problem.shortfall(best.confusion) == 0.0:
        prices = outcome.prices
        return best, None if prices is None else prices_of(limits, prices, drawn.confusion), None
    kept = outcomes(limits, best.confusion, None, best.confusion, rounding=problem.rounding)
    met = problem.shortfall(drawn.confusion) == 0.0
    return best, None, infeasibility(problem, outcome.status, kept, drawn=met)


def farthest(task: LabelTask, j: int, end: float) -> float:
    """Return the best value that the quantity of limit ``j`` reaches beside the other limits of a ``task``.

    It is the ``end`` of its range where the search does not know, as of the smallest precision.
    """
    limits = task.limits
    assert limits is not None
    is_floor = limits.constraints[j].is_floor
    quantity = limits.constraints[j].metric
    metric = quantity if is_floor else negative(quantity)
    if metric is None:
        return end
    problem, outcome, _ = _searched(
        replace(task, metric=metric, limits=limits.without(j)), task.calibrated, task.estimate
    )
    value = problem.value(outcome.mixture.confusion)
    return value if is_floor else -value


def _is_proved(task: LabelTask) -> bool:
    """Return whether a search ends at the best rule of all, wherever it starts."""
    return task.mode == "model" and task.metric.structure.is_concave


def _of_exactly(task: LabelTask, most: int) -> list[Gains]:
    """Return the best rules that are found for exactly so many labels, as rules for at ``most`` so many.

    A search that is not sure to end at the best rule would otherwise end below rules that decide more.
    """
    exactly = Decisions(most)
    table = task.table.deciding(exactly)
    plan = replace(task.plan, decisions=exactly, callback=None)
    rule, _ = best_gains(replace(task, plan=plan, table=table, estimate=task.estimate.deciding(exactly)), Met())
    a, b = rule.gains.pair()
    # scores that are all above zero decide as many as there may be
    lowest = np.minimum(b, a + b).min(axis=1, keepdims=True)
    every = Gains.reduced(a, b + np.maximum(0.0, ABOVE * np.abs(a).max(axis=1, keepdims=True) - lowest))
    return [every[k] for k in range(len(every))]


def plain_rules(task: LabelTask) -> dict[str, LabelRule]:
    """Return the rules that people use without confmax, by name, on the probabilities as they are given."""
    table = task.table
    k = task.plan.decisions.most
    if k is None:
        half = task.estimate.allowed(np.full(table.n_classes, 0.5))
        return {"p > 0.5": LabelRule.from_thresholds(half, **task.settings)}
    prior = table.label_weight() if table.has_labels else table.mean_probability()
    return {
        name: LabelRule(_allowed(task, scale), np.ones(1), decisions=task.plan.decisions, **_named(task))
        for name, scale in ((f"top-{k}", np.ones(len(prior))), (f"top-{k} of p/prior", _one_over(prior)))
    }


def _allowed(task: LabelTask, weights: Array) -> Gains:
    """Return the gain of ``weights`` (L,) that decides no label that no row has."""
    gains = Gains.reduced(weights)
    return gains if task.estimate.barred is None else gains.without(task.estimate.barred, several=True)


def _on_sample(task: LabelTask) -> Sequence[Gains]:
    """Return the rules that the search finds on a sample of rows that lie in parts; none where all rows are here."""

    def rules(sample: Table) -> Sequence[Gains]:
        rows = sample.calibrated(None)
        estimate = task.estimate
        small = replace(task, table=rows, estimate=Estimate(rows, estimate.share, estimate.maps, estimate.barred))
        _, found, _ = _searched(small, small.calibrated, small.estimate)
        return found.single.atoms if task.plan.randomized is not True else found.mixture.atoms

    return task.table.on_sample(rules, ())


def _named(task: LabelTask) -> dict[str, Any]:
    """Return `LabelTask.settings` by the names of the attributes of a rule."""
    settings = task.settings
    return {"class_names": settings.pop("classes"), **settings}


def _searched(
    task: LabelTask, table: Table, estimate: Any, known: Sequence[Gains] = ()
) -> tuple[Problem, Outcome, float | None]:
    """Return the problem of a calibrated ``table`` and an ``estimate``, its outcome, and a bound.

    The search starts from ``known`` rules too.
    """
    plan = task.plan
    metric = task.metric
    limits = task.limits
    oracle = CountingOracle(table.oracle(estimate.share), barred=estimate.barred)
    L = table.n_classes
    exact = oracle.exact
    starts = [_plain_gains(oracle.rows, plan.decisions.most)]
    # of rules that decide all L labels there is one, where metrics may have no gradient
    is_alone = plan.decisions.most == L and not plan.decisions.positive
    method: Any = GivenRule(starts[0][0])
    if not is_alone:
        blended = task.mode == "blend"
        method = optimize.choose(
            "auto", metric, L, L, exact=exact, blended=blended, sorts=False, limited=limits is not None
        )
    bound = None
    if is_mean(metric) and not metric.structure.is_linear:
        separate = best_of_labels(metric, estimate.deciding(ANY))
        compromise = metric.gains(metric.at(separate.statistics))
        if compromise.is_finite:
            starts.append(compromise)
        # a draw does not raise the largest value of a ratio, which may be that of every label at once
        if exact and metric.structure.fractions is not None:
            bound = separate.most
    # limits may bind anywhere
    around = first_gains(table.n_rows, L, L) if limits is not None and exact else None
    gains = Gains.concatenate([*starts, *known, *([] if around is None else [around])])
    answers = oracle.maximize(gains)
    rules = tuple(Mixture.single(gains[k], answers[k]) for k in range(len(gains)))
    allowed = optimize.passes_allowed(method, table.n_rows) if plan.max_passes is None else plan.max_passes
    # single rules that are better by less on the tuning rows are no better on others
    problem = Problem(
        metric, oracle, L, rules, allowed, plan.tol, limits=limits, certify=exact or is_alone, small_loss=LITTLE
    )
    if limits is not None and plan.randomized is not True:
        problem = replace(problem, wants_single=True, worth=worth_of_single(problem, plan.randomized))
    outcome = optimize.run(method, problem, plan.callback)
    if is_alone and problem.shortfall(outcome.single.confusion) > 0.0:
        outcome = replace(outcome, status=Status.INFEASIBLE)
    elif limits is not None:
        outcome = best_of_closest(problem, outcome, method)
    if exact and is_alone:
        bound = problem.value(outcome.single.confusion)
    bounds = [number for number in (bound, outcome.upper_bound) if number is not None]
    return problem, outcome, min(bounds, default=None) if exact else None


def _of_named(task: LabelTask, table: Table) -> list[Gains]:
    """Return the best rules (one each) of the metrics `NEAR`, on the calibrated ``table``."""
    found = []
    for name in NEAR:
        near = replace(task, metric=replace(label_metrics.get(name), classes=task.metric.classes))
        if task.plan.decisions.most is None:
            thresholds = best_of_labels(near.metric, near.estimate).values
            if task.maps is not None:
                inside = np.isfinite(thresholds)
                calibrated = task.maps.transform(np.where(inside, thresholds, 0.5))
                thresholds = np.where(inside, calibrated, thresholds)
            found.append(Gains.above(thresholds))
        else:
            found += _searched(near, table, near.estimate)[1].single.atoms
    return found


def _plain_gains(rows: Array, most: int | None) -> Gains:
    """Return p and p / prior; without a budget those above one half, and above the prior."""
    scales = np.stack([np.ones(len(rows)), _one_over(rows)])
    return Gains.reduced(scales, None if most else np.array([[-0.5], [-1.0]]))


def _one_over(rows: Array) -> Array:
    return np.divide(1.0, rows, out=np.zeros(len(rows)), where=rows > ABSENT)


def _on_given(rule: LabelRule, task: LabelTask) -> Array:
    """Return thresholds (L,) on given probabilities that decide the rows of a task as a ``rule`` without draws does."""
    thresholds = rule.thresholds
    assert thresholds is not None
    dtype = task.table.dtype
    low, high = task.table.over_parts(partial(_beside, rule), _nearest)
    for label, t in enumerate(thresholds.tolist()):
        # the inverse of the calibration may lie on the other side of a probability by rounding
        if not low[label] <= dtype.type(t) < high[label]:
            thresholds[label] = float(shortest(float(low[label]), float(high[label]), dtype, closed=False))
    return thresholds


def _beside(rule: LabelRule, rows: Part) -> tuple[Array, Array]:
    """Return the largest probability (L,) of a row that does not get a label, and the smallest of one that does."""
    p = rows.proba
    chosen = rule.predict(p).astype(np.bool_)
    return np.where(chosen, -np.inf, p).max(axis=0), np.where(chosen, p, np.inf).min(axis=0)


def _nearest(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.maximum(one[0], other[0]), np.minimum(one[1], other[1])
