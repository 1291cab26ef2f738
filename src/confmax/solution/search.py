"""The search of a task: the problem, the run of a solver, and the solution.

The problem is made of calibration, confusion estimate with its oracle, solver and starting rules. The solution is what
the rule is worth once it is built.

A solution is never worse than the plain rules, ``argmax(p)`` and ``argmax(p / prior)`` on the raw probabilities, which
people use without confmax. Their decisions on raw rows are evaluated on the calibrated estimate. If one
of them is better than the solver's rule, it is returned without a calibrator.

What the model says of a rule that labels helped to tune: its value on the model alone, and the most of any rule.

Counts of labels are a sample, and prove nothing. On the model's estimate the oracle is exact, so a run there bounds the
metric of every rule. The returned rule is evaluated on the same estimate. If the probabilities are right, no other rule
is better by more than the difference between the two. The rule may come from any search: it need not be the best one
on the model, and what the labels moved is a part of the difference.

The run starts from the rules that the search met. It ends when it knows the best value to 1e-4, far below what the
probabilities are worth. So the bound may lie by as much above the least one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from confmax import optimize
from confmax.calibration import Calibration
from confmax.calibration import choose as choose_calibration
from confmax.calibration.blend import LEAST_SHARE, model_share, shares_of_groups
from confmax.calibration.choice import held_out
from confmax.calibration.families import LARGE
from confmax.confusion import Array, Confusion, Gains
from confmax.metrics import Metric
from confmax.optimize import Mixture, Outcome, Problem, Solver, Status
from confmax.optimize.abstaining import first_rules
from confmax.optimize.auto import class_of
from confmax.optimize.loop import MISSED, WarmStart, declared
from confmax.optimize.warm import with_rules_of_sample
from confmax.oracle import CountingOracle, make_oracle
from confmax.solution.plan import Task, is_auto, may_read_again
from confmax.solution.result import Solution, has_bound
from confmax.solution.returned import best_rule, evaluated, refitted, solution_of
from confmax.solution.second_objective import worth_of_single
from confmax.solution.side_by_side import as_solved
from confmax.tables import Part, Table

if TYPE_CHECKING:
    from confmax.constraints import Limits

# confusion="auto" where there are labels: benchmarks/RESULTS.md, sections confusion and limits: estimates
WITH_LABELS = "blend"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A task as its solver sees it, with all that does not depend on the numbers of its limits.

    ``fitted`` is the calibration, which the rows ``labelled`` have chosen. ``starts`` are the starting rules, of which
    ``plain`` are those that people use without confmax, and ``sample`` what a sample of the rows has shown.
    """

    task: Task
    method: Solver
    oracle: CountingOracle
    labelled: Table
    fitted: Calibration | None
    starts: tuple[Mixture, ...]
    plain: dict[str, Mixture]
    sample: WarmStart | None
    by_default: bool

    def within(self, limits: Limits | None, oracle: CountingOracle, rules: Sequence[Mixture] = ()) -> Prepared:
        """Return the same with other numbers in its ``limits``, and further starting ``rules``.

        The ``oracle`` counts the scans; it reads the same rows.
        """
        return replace(self, task=self.task.but(limits=limits), oracle=oracle, starts=(*self.starts, *rules))

    @property
    def limits(self) -> Limits:
        """The limits, of a task that has some."""
        limits = self.task.limits
        assert limits is not None
        return limits

    def sorting_once(self) -> Prepared:
        """Return the same for many searches: where thresholds are searched, the rows are sorted once for all."""
        from confmax.optimize.class_cuts import ClassThreshold

        method = self.method
        return replace(self, method=replace(method, known={})) if isinstance(method, ClassThreshold) else self

    def read(self, answers: Confusion) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Return the objectives of answers (B), and of every limit the slack and whether it is 0/0 and so kept by none.

        This is what `optimize.along.Record` reads, at the numbers of these limits.
        """
        values = np.nan_to_num(self.task.metric.values(answers), nan=-np.inf)
        limits = self.limits
        return values, limits.slacks(answers), limits.vacuous(answers) & limits.kept_by_none

    def search(self) -> Solution:
        """Return the solution."""
        problem = self.problem()
        return self.solution(problem, self.run(problem))

    def problem(self, *, wants_single: bool = True) -> Problem:
        """Return the problem for the solver; ``wants_single`` is that of `Problem`."""
        task = self.task
        plan = task.plan
        oracle = self.oracle
        table = oracle.table
        # the final evaluation is counted too, on labels once more where they are not the estimate
        reserved = 2 if oracle.reads_model and table.has_labels else 1
        allowed = plan.max_passes
        if allowed is None:
            allowed = optimize.passes_allowed(self.method, table.n_rows)
        on_model = plan.confusion == "model"
        problem = Problem(
            task.metric,
            oracle,
            task.n_decisions,
            self.starts,
            allowed - reserved,
            plan.tol,
            self.sample,
            task.limits,
            certify=on_model,
            wants_single=wants_single and task.limits is not None and (plan.randomized is not True or not on_model),
        )
        problem = replace(problem, worth=worth_of_single(problem, plan.randomized))
        return problem if task.limits is None else self._beside_thresholds(problem)

    def _beside_thresholds(self, problem: Problem) -> Problem:
        """Return a problem with limits that starts with thresholds on one class, too, where all limits are about it."""
        if self.task.one_class is not None or self.task.abstain is not None:
            return problem
        from confmax.optimize.class_cuts import with_thresholds

        return with_thresholds(problem)

    def run(self, problem: Problem) -> Outcome:
        """Return the outcome of the solver; where no rule keeps all limits, with the best of the closest rules."""
        return self.closest(problem, self.run_once(problem))

    def run_once(self, problem: Problem) -> Outcome:
        """Return the outcome of the solver alone."""
        return optimize.run(self.method, with_rules_of_sample(self.method, problem), self.task.plan.callback)

    def closest(self, problem: Problem, outcome: Outcome) -> Outcome:
        """Return an outcome of `run_once` as `run` does."""
        if problem.limits is None or self.task.one_class is not None:
            return outcome
        from confmax.solution.out_of_reach import best_of_closest

        return best_of_closest(problem, outcome, self.method)

    def missed_by(self, problem: Problem) -> tuple[str, ...]:
        """Return the rules to compare with that miss a limit on the estimate, whatever a test says of them."""
        if problem.limits is None:
            return ()
        problem = replace(problem, limits=problem.limits.untested)
        return tuple(name for name, rule in self.plain.items() if problem.shortfall(rule.confusion) > 0.0)

    def solution(self, problem: Problem, outcome: Outcome) -> Solution:
        """Return the solution of an ``outcome``."""
        task = self.task
        plan = task.plan
        best, base = best_rule(task, problem, outcome, self.plain)
        solution = solution_of(problem, outcome, best, base, plan.confusion, self.fitted)
        blended = self.by_default and plan.confusion == "blend"
        if blended and task.limits is not None and task.out_of_fold is None:
            solution = _as_labels_say(task, solution, problem, outcome, self.fitted, self.labelled)
        rule = replace(solution.rule, abstain=task.abstain, columns=plan.columns)
        solution = replace(solution, missed_by=self.missed_by(problem), rule=rule)
        if plan.prove:
            rules = (outcome.mixture, outcome.single)
            solution = with_model_bound(
                solution, task.metric, self.oracle, task.limits, rules=rules, max_passes=plan.max_passes
            )
        return solution if task.out_of_fold is None else refitted(solution, task.limits, task.out_of_fold)


def search(task: Task) -> Solution:
    """Return the solution of a task, without any test of a confidence; see `confmax.solution.tune`."""
    return prepare(task).search()


def prepare(task: Task) -> Prepared:
    """Return a task as its solver sees it: calibrated, with an estimate of the confusion and starting rules."""
    plan = task.plan
    prescribed = {} if isinstance(plan.solver, type) else getattr(plan.solver, "settings", {})
    # what the solver prescribes, where the plan leaves it open
    plan = plan.but(**{name: value for name, value in prescribed.items() if is_auto(getattr(plan, name))})
    is_default = is_auto(plan.confusion)
    if is_default:
        plan = plan.but(confusion=WITH_LABELS if task.raw.has_labels else "model")
    task = _of_one_class(task.but(plan=plan))
    labelled = (task.raw if task.out_of_fold is None else task.out_of_fold).sample
    fitted, share = _estimate(task, labelled)
    task, share = _believed(task, share)
    barred = np.isin(np.arange(task.raw.n_classes), task.absent)
    task, table = as_solved(task, fitted)
    # groups side by side have all classes each
    barred = np.tile(barred, table.n_classes // len(barred))
    oracle = CountingOracle(make_oracle(table, plan.confusion, model_share=share), barred=barred)
    method = _method(task, oracle, oracle.table)
    if is_auto(plan.randomized) and not declared(method, "draws"):
        plan = plan.but(randomized=False)
        task = task.but(plan=plan)
    method.check(task.metric, table.n_classes, table.n_rows, **({} if task.limits is None else {"limited": True}))
    starts, plain, sample = _starts(task, method, oracle)
    if task.one_class is not None:
        # neither thresholds on two classes nor rules for all classes are of use where thresholds on one are searched
        starts = starts[:1]
    return Prepared(task, method, oracle, labelled, fitted, tuple(starts), plain, sample, is_default)


# --- the problem ------------------------------------------------------------------------------------------------------


def _of_one_class(task: Task) -> Task:
    """Return the task with the class whose threshold answers it, if there is one."""
    limits = task.limits
    if not task.plan.takes_threshold:
        return task
    k = class_of(task.metric, limits, task.raw.n_classes)
    # without limits a search of rows in parts proves its result, and a threshold of a sample does not
    k = task.raw.sorting(lambda: k, None) if limits is None else k
    if k is None:
        return task
    # a rule that never decides the class is no answer
    return task.but(one_class=k, limits=None if limits is None else replace(limits, kept_by_none=False))


def _estimate(task: Task, labelled: Table) -> tuple[Calibration | None, Any]:
    """Return the calibration, and the share of the model in a blend, of groups a share for each (G,).

    Both are those of one class where the metric and the limits read one class alone. Else the share is the same for all
    metrics: a calibration that is used again for the same rows knows it.
    """
    raw = task.raw
    k = task.one_class
    is_blend = task.plan.confusion == "blend"
    calibration = task.plan.calibration
    seed = task.plan.random_state
    fitted = choose_calibration(labelled, calibration, seed=seed)
    changes = fitted is not None and fitted.calibrator is not None
    ordered = k is not None and changes and is_auto(calibration)
    if not labelled.has_labels or not (ordered or (is_blend and raw.has_labels)):
        return fitted, None
    # what is said of a limit, or of one class, may rest on few of the rows
    few = task.limits is None and k is None
    key = None
    if few and fitted is not None and labelled is raw and raw.n_rows < LARGE:
        key = _key_of(raw.head), seed
        if key in fitted.shares:
            return fitted, fitted.shares[key]
    # on probabilities that were calibrated on the same rows, the model would look better than it is
    honest: Any = labelled
    if fitted is not None:
        honest = held_out(labelled, fitted, seed=seed, given=calibration, few=few)
    if ordered and fitted is not None and k is not None:
        from confmax.solution.one_class import calibration_of_class

        fitted, honest = calibration_of_class(fitted, honest, k, labelled)
    if not is_blend:
        return fitted, None
    part = 1.0 if honest is raw else min(1.0, honest.n_weighted / raw.n_weighted)
    limits = task.limits
    if limits is not None and limits.speak_of_groups:
        from confmax.tables.groups import Groups

        if isinstance(honest.groups, Groups):
            return fitted, shares_of_groups(honest, part)
    if k is not None:
        from confmax.optimize.estimate import two_columns

        honest = Table.of(two_columns(honest.head, k))
    share = model_share(honest, part, levels=limits is not None)
    if key is not None and fitted is not None:
        fitted.shares[key] = share
    return fitted, share


def _key_of(rows: Part) -> bytes:
    """Return what tells labelled rows from all others: content, order and weights, columns, classes and precision."""
    about = f"{rows.dtype} {[str(name) for name in rows.classes]}".encode()
    each = (rows.row_hashes(), np.asarray(rows.labels), rows.weighing.for_kernels)
    return blake2b(about + b"".join(part.tobytes() for part in each)).digest()


def _believed(task: Task, share: Any) -> tuple[Task, Any]:
    """Return a task with limits, and the ``share`` of the model, which is zero where it is small.

    If that is a group of two classes, its labels alone must show by a test that its limits are kept, if some threshold
    passes. All rows together are tested where a confidence asks for it.
    """
    limits = task.limits
    by_cuts = task.one_class is not None or task.raw.n_classes == task.n_decisions == 2
    if share is None or limits is None or not by_cuts:
        return task, share
    counts = np.asarray(share) >= LEAST_SHARE
    tested = task.raw.sorting(lambda: _tested(limits, task.raw.head, counts), None) if counts.ndim else None
    return task if tested is None else task.but(limits=replace(limits, tested=tested)), share * counts


def _tested(limits: Limits, raw: Part, counts: NDArray[np.bool_]) -> tuple[float, ...]:
    """Return by how many rows each group (G,) is tested for ``limits``: zero where labels count or nothing passes."""
    from confmax.optimize.estimate import Estimate
    from confmax.optimize.threshold import Thresholds

    tested = []
    for g, part in enumerate(raw.groups_apart):
        size = part.weight_total / raw.weight_total
        rows = 0.0 if counts[g] or not size else part.n_weighted / size
        own = replace(limits, tested=(rows,) * len(counts)).of_group(g, size)
        if rows and len(own):
            cuts = Thresholds.of(Estimate.alike(Table.of(part), 0.0), matrix=own.statistics == "matrix")
            # where no threshold passes there is nothing to choose from
            rows = rows if own.passed(cuts.confusions).any() else 0.0
        tested.append(rows)
    return tuple(tested)


def _method(task: Task, oracle: CountingOracle, table: Table | None) -> Solver:
    """Return the solver of the task for the rows of a ``table``; None stands for rows that can be sorted."""
    # a solver that fits the estimate closely is not chosen for a blend
    return optimize.choose(
        task.plan.solver,
        task.metric,
        oracle.table.n_classes,
        task.n_decisions,
        exact=oracle.exact,
        blended=task.plan.confusion == "blend",
        table=table,
        limited=task.limits is not None,
        one_class=task.one_class is not None,
    )


def _starts(
    task: Task, method: Solver, oracle: CountingOracle
) -> tuple[list[Mixture], dict[str, Mixture], WarmStart | None]:
    """Return the starting rules, argmax and p / prior on the raw probabilities, and the result of a sample of rows."""
    table = oracle.table
    raw = task.raw
    metric = task.metric
    matrix = "matrix" in (metric.statistics, task.limits and task.limits.statistics)
    # within limits the best rules of a sample, and thresholds, say little
    limited = task.limits is not None and task.one_class is None
    n_decisions = task.n_decisions
    priors = _priors(table)
    sample = None if limited else optimize.warm_start(method, metric, oracle, n_decisions, task.plan.tol)
    more = first_rules(metric, priors[0]) if sample is None else sample.rules
    if limited and oracle.exact:
        from confmax.optimize.path_query import first_gains

        around = first_gains(table.n_rows, table.n_classes, n_decisions)
        if around is not None:
            more = around if more is None else Gains.concatenate([more, around])
    starts = optimize.baselines(oracle, priors, n_decisions, matrix=matrix, more=more)
    plain = starts[: 1 + len(priors)]
    if table is not raw:
        # what people decide without confmax; like the calibration, no scan by the oracle, and so not counted
        on_raw = oracle.decided_by(None)
        plain = optimize.baselines(on_raw, _priors(raw), n_decisions, matrix=matrix)
    automatic = is_auto(task.plan.solver) and task.one_class is None and not limited
    of_two = table.n_classes == n_decisions == 2 and method.name != "ThresholdSearch"
    if automatic and of_two and (metric.structure.may_draw or _method(task, oracle, None) != method):
        # of two classes the best single rule is a threshold, and the best mixture draws between two. It is searched
        # wherever rows in memory would be sorted
        starts[:0] = [rule for rule in optimize.best_cut(metric, oracle)[:2] if rule is not None]
    return starts, dict(zip(("argmax", "p/prior", "p/mean(p)"), plain, strict=False)), sample


def _priors(table: Table) -> list[Array]:
    """Return the class sizes to divide by: those of the labels, and the mean probabilities."""
    return [table.label_weight(), table.mean_probability()] if table.has_labels else [table.mean_probability()]


# --- the solution -----------------------------------------------------------------------------------------------------


def _as_labels_say(
    task: Task,
    solution: Solution,
    problem: Problem,
    outcome: Outcome,
    fitted: Calibration | None,
    labelled: Table,
) -> Solution:
    """Return the rule of one class that keeps the limits on the labels, where there is none on the blend."""
    from confmax.solution.one_class import expected_by_model, for_raw_order, kept_on_labels, uncalibrated

    found = kept_on_labels(problem, outcome, solution)
    if found is None:
        return solution
    k = task.one_class
    seed = task.plan.random_state
    table = found.problem.oracle.table
    if fitted is not None and table.calibrator is None:
        # the other classes are calibrated where the raw probability of this class is compared
        fitted = uncalibrated(fitted) if k is None else for_raw_order(fitted, labelled, k, seed)
        table = table.calibrated(None if fitted is None else fitted.calibrator)
    best = evaluated(found.problem, table, found.outcome.single, seed)
    again = solution_of(found.problem, found.outcome, best, solution.baselines, "labels", fitted)
    model = best.rule.evaluate(problem.oracle.second_estimate(1.0), matrix=problem.needs_matrix)
    return replace(again, doubt=expected_by_model(found.problem, model, again.constraints))


# --- what the model says of a rule that labels helped to tune ---------------------------------------------------------


TOLERANCE = 1e-4  # to which the best value on the model is found


def with_model_bound(
    solution: Solution,
    metric: Metric,
    searched: CountingOracle,
    limits: Limits | None = None,
    *,
    rules: Sequence[Mixture] = (),
    max_passes: int | None = None,
) -> Solution:
    """Return a ``solution`` with the value of its rule on the model, and a bound on that of every rule.

    The bound is left out if none is known for the metric, and if the rule misses a limit on the model: the bound holds
    for rules that keep all limits there. Both are left out if no passes are left, if the search was stopped, and for
    rows in parts, where every pass takes long. ``metric`` and the ``searched`` oracle are as the solver sees them. The
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
    table = searched.table
    left = None if max_passes is None else max_passes - solution.n_passes
    if solution.status is Status.STOPPED or not may_read_again(table, left):
        return solution
    limits = None if limits is None else limits.untested
    oracle = searched.anew(make_oracle(table, "model"))
    statistics = solution.rule.evaluate(oracle, matrix="matrix" in (metric.statistics, limits and limits.statistics))
    value = float(metric.values(statistics))
    if limits is not None:
        from confmax.constraints.outcomes import on_model

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
    one_class = K == M and table.layout is None and class_of(metric, limits, K) is not None
    method = optimize.choose("auto", metric, K, M, exact=True, table=table, limited=limited, one_class=one_class)
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
