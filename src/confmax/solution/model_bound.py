"""What the model says of a rule that labels helped to tune: its value on the model alone, and the most of any rule.

Counts of labels are a sample, and prove nothing. On the model's estimate the oracle is exact, so a run there bounds the
metric of every rule. The returned rule is evaluated on the same estimate. If the probabilities are right, no other rule
is better by more than the difference between the two. The rule may come from any search: it need not be the best one
on the model, and what the labels moved is a part of the difference.

The run starts from the rules that the search met. It ends when it knows the best value to 1e-4, far below what the
probabilities are worth. So the bound may lie by as much above the least one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from confmax import optimize
from confmax.confusion import Gains
from confmax.constraints import Limits
from confmax.constraints.outcomes import on_model
from confmax.metrics import Metric
from confmax.optimize import Mixture, Problem, Status
from confmax.optimize.class_cuts import class_of
from confmax.optimize.loop import MISSED
from confmax.oracle import CountingOracle, make_oracle
from confmax.solution.result import Solution, has_bound
from confmax.tables import Table

TOLERANCE = 1e-4  # to which the best value on the model is found
LEAST_PASSES = 2  # for the value of the rule, and for those that the run starts from


def with_model_bound(
    solution: Solution,
    metric: Metric,
    table: Table,
    limits: Limits | None = None,
    *,
    rules: Sequence[Mixture] = (),
    max_passes: int | None = None,
) -> Solution:
    """Return a ``solution`` with the value of its rule on the model, and a bound on that of every rule.

    The bound is left out if none is known for the metric, and if the rule misses a limit on the model: the bound holds
    for rules that keep all limits there. Both are left out if no passes are left, if the search was stopped, and for
    rows in parts, where every pass takes long. ``metric`` and the calibrated ``table`` are as the solver sees them. The
    run starts from ``rules`` on the calibrated probabilities; ``max_passes`` includes the scans of the search.
    """
    if solution.mode == "model" or (solution.model_share == 1.0 and solution.upper_bound is not None):
        solution = replace(
            solution,
            model_value=solution.value,
            model_upper_bound=solution.upper_bound,
            constraints=tuple(replace(one, model_slack=one.slack) for one in solution.constraints),
        )
    gap = solution.gap
    loss = solution.randomization_loss or 0.0
    if solution.mode != "blend" or solution.infeasibility is not None or (gap is not None and gap - loss <= TOLERANCE):
        return solution
    in_parts = table.in_one_place() is not table
    left = None if max_passes is None else max_passes - solution.n_passes
    if solution.status is Status.STOPPED or in_parts or (left is not None and left < LEAST_PASSES):
        return solution
    oracle = CountingOracle(make_oracle(table, "model"))
    statistics = solution.rule.evaluate(oracle, matrix="matrix" in (metric.statistics, limits and limits.statistics))
    value = float(metric.values(statistics))
    if limits is not None:
        solution = replace(solution, constraints=on_model(solution.constraints, limits, statistics, rounding=MISSED))
    upper = None
    # of two classes the search of thresholds knows the best value of every metric whose best rule is a threshold
    known = has_bound(metric) or table.n_classes == 2
    if known and all((one.model_slack or 0.0) >= 0.0 for one in solution.constraints):
        upper = _most(metric, oracle, limits, rules, left)
    bounds = [each for each in (upper, solution.upper_bound) if each is not None]
    # the last digit of a closed gap is rounding
    upper = max(min(bounds), value) if bounds else None
    return replace(
        solution,
        model_value=value,
        model_upper_bound=upper,
        upper_bound=upper if solution.model_share == 1.0 else None,
        n_passes=solution.n_passes + oracle.n_passes,
    )


def _most(
    metric: Metric, oracle: CountingOracle, limits: Limits | None, rules: Sequence[Mixture], max_passes: int | None
) -> float | None:
    """Return an upper bound on a ``metric`` on the model, over all rules that keep the ``limits``; None without one."""
    table = oracle.table
    limited = limits is not None
    K = table.n_classes
    M = metric.n_decisions(table.n_classes)
    one_class = K == M and table.is_whole and class_of(metric, limits, K) is not None
    method = optimize.choose(
        "auto", metric, K, M, exact=True, in_parts=not table.is_whole, limited=limited, one_class=one_class
    )
    sample = None if limited else optimize.warm_start(method, metric, oracle, M, TOLERANCE)
    more = [gains for rule in rules for gains in rule.atoms] + ([] if sample is None else [sample.rules])
    starts = optimize.baselines(
        oracle,
        [table.mean_probability()],
        M,
        more=Gains.concatenate(more) if more else None,
        matrix="matrix" in (metric.statistics, limits and limits.statistics),
    )
    budget = oracle.n_passes + optimize.passes_allowed(method, table.n_rows) if max_passes is None else max_passes
    problem = Problem(metric, oracle, M, tuple(starts), budget, TOLERANCE, sample, limits)
    return optimize.run(method, problem).upper_bound
