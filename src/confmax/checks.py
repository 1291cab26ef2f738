"""Conformance checks for metrics, oracles and solvers, both confmax's and yours.

Each check returns nothing, and raises `AssertionError` with one sentence if a promise is broken. The inputs are random
numbers from a seed, so a failure can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.confusion.ties import with_ties_broken
from confmax.metrics import Metric, resolve
from confmax.metrics.structure import STEPS, random_confusion, random_rows, refutation
from confmax.optimize import Mixture, Problem, Solver, baselines, run
from confmax.oracle import BACKENDS, CountingOracle, make_oracle
from confmax.tables import Oracle, Table, make_table

__all__ = ["check_metric", "check_oracle", "check_solver", "random_confusion", "random_table"]


def random_table(
    rng: np.random.Generator, n: int, n_classes: int, *, ties: bool = False, weights: bool = False
) -> Table:
    """Return a random table whose labels are drawn from its probabilities; ``ties`` rounds these to tenths.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the random numbers.
    n, n_classes : int
        Numbers of rows and of columns K.
    ties : bool
        Whether to round probabilities to tenths, so that many scores are equal.
    weights : bool
        Whether rows have weights.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax.checks import random_table
    >>> random_table(np.random.default_rng(0), 5, 3).n_rows
    5
    """
    P = rng.dirichlet(np.ones(n_classes), size=n)
    if ties:
        # a class whose probabilities round to zero stays possible
        P = np.round(P, 1) + 1e-3
        P /= P.sum(axis=1, keepdims=True)
    y = (rng.random(n)[:, None] > np.cumsum(P, axis=1)).sum(axis=1).clip(0, n_classes - 1)
    y[:n_classes] = np.arange(n_classes)  # every class is present
    weight = rng.random(n) + 0.1 if weights else None
    return make_table(P, y, weight, range(n_classes))


# --- metrics ----------------------------------------------------------------------------------------------------------


def check_metric(
    metric: str | Metric, *, n_classes: int | None = None, n_decisions: int | None = None, seed: int = 0
) -> None:
    """Check a metric's gradient, reduced gain and declared structure at random confusion matrices.

    Parameters
    ----------
    metric : str or Metric
        The metric.
    n_classes, n_decisions : int or None
        Shape of the matrices; by default that of a gain matrix, 2 for binary metrics, else 3.
    seed : int
        Seed of the random matrices.

    Raises
    ------
    AssertionError
        If the gradient differs from central differences, if the reduced gain differs from the gradient by more than a
        constant in each row, if a batch differs from its members, or if a random segment contradicts the structure.

    Examples
    --------
    >>> from confmax.checks import check_metric
    >>> check_metric("macro_f1")
    """
    metric = resolve(metric)
    rng = np.random.default_rng(seed)
    n_classes, M = _shape_for(metric, n_classes, n_decisions)
    for _ in range(20):
        rows = random_rows(rng, n_classes)
        A, B = (random_confusion(rng, rows, M) for _ in range(2))
        _check_gradient(metric, A)
        _check_reduced(metric, A)
        _check_segment(metric, A, B)


def _shape_for(metric: Metric, n_classes: int | None, n_decisions: int | None = None) -> tuple[int, int]:
    """Return the numbers of classes and decisions that the metric is checked at."""
    if metric.gain is not None:
        return len(metric.gain), len(metric.gain[0])
    least = 2 if metric.binary else 3
    K = n_classes or (least if metric.classes is None else max(least, *(k + 1 for k in metric.classes)))
    return K, n_decisions or K


def _check_gradient(metric: Metric, C: Array, step: float = 1e-6) -> None:
    """Compare the gradient with central differences in every entry, up to a constant in each row."""
    analytic = metric.gradient(C)
    numeric = np.empty_like(C)
    for index in np.ndindex(*C.shape):
        up = C.copy()
        down = C.copy()
        up[index] += step
        down[index] -= step
        numeric[index] = (metric.value(up) - metric.value(down)) / (2 * step)
    # row sums are fixed, so a constant in a row of the gradient changes no decision
    error = np.abs((analytic - analytic[:, :1]) - (numeric - numeric[:, :1])).max()
    scale = max(1.0, np.abs(numeric).max())
    assert error <= 1e-5 * scale, f"the gradient of {metric.name} differs from its differences by {error:.2g}"


def _check_reduced(metric: Metric, C: Array) -> None:
    reduced = metric.reduced_gain(C)
    if reduced is None:
        return
    difference = metric.gradient(C) - Gains.reduced(*reduced).matrices()[0]
    spread = np.ptp(difference, axis=1).max()
    scale = max(1.0, float(np.abs(difference).max()))
    assert spread <= 1e-9 * scale, f"the reduced gain of {metric.name} decides differently from its gradient"


def _check_segment(metric: Metric, A: Array, B: Array) -> None:
    """Refute the declared structure on the segment from A to B, which have the same row sums."""
    ends = [Confusion.from_matrix(C) for C in (A, B)]
    line = ends[0].toward(ends[1], STEPS)
    values = np.array([metric.value((1 - t) * A + t * B) for t in STEPS])
    for batch in (metric.values(line), metric.at(line).value):
        assert np.allclose(batch, values, rtol=1e-9, atol=1e-12), f"{metric.name} differs between batch and members"
    reason = refutation(values, metric.structure.name)
    assert reason is None, f"a random segment refutes that {metric.name} is {metric.structure}: {reason}"


# --- oracles ----------------------------------------------------------------------------------------------------------


def check_oracle(make: str | Callable[[Table, float], Oracle], *, seed: int = 0, rtol: float = 1e-12) -> None:
    """Check an oracle against the reference, and that order, batches and splits of rows do not matter.

    Parameters
    ----------
    make : str or callable
        Name of a backend, or ``make(table, model_share)`` that returns the oracle.
    seed : int
        Seed of the random tables.
    rtol : float
        Largest difference of a statistic that is allowed, as a fraction of all weight.

    Raises
    ------
    AssertionError
        If statistics differ from those of the reference, of the members of a batch, of a permuted or split table, or of
        repeated rows instead of integer weights; or if an exact oracle's answer is not a maximum.

    Examples
    --------
    >>> from confmax.checks import check_oracle
    >>> check_oracle("array")
    """
    if isinstance(make, str):
        if make not in BACKENDS:
            raise ValueError(f"backend is one of {', '.join(BACKENDS)}; got {make!r}")
        make = partial(_of_backend, make)
    rng = np.random.default_rng(seed)
    for n, K in ((1, 2), (37, 2), (600, 3), (1500, 7)):
        for weights in (False, True):
            table = random_table(rng, max(n, K), K, ties=True, weights=weights)
            for share in (1.0, 0.0, 0.3):
                _check_statistics(make, table, share, _random_gains(rng, K), rtol)
            _check_maximum(make(table, 1.0), rng, K)


def _of_backend(backend: str, table: Table, share: float) -> Oracle:
    confusion = {1.0: "model", 0.0: "labels"}.get(share, "blend")
    return make_oracle(table, confusion, backend=backend, model_share=share)


def _random_gains(rng: np.random.Generator, K: int) -> list[Gains]:
    return [
        Gains.reduced(np.ones(K)),
        Gains.reduced(rng.random((3, K)), rng.normal(size=(3, K)) * 0.2),
        Gains.constant(K, range(K)),
        Gains.from_matrix(rng.normal(size=(2, K, K))),
        Gains.from_matrix(rng.normal(size=(2, K, K + 1))),
    ]


def _check_statistics(
    make: Callable[[Table, float], Oracle], table: Table, share: float, batches: list[Gains], rtol: float
) -> None:
    oracle = make(table, share)
    reference = _of_backend("numpy", table, share)
    rows = table.head
    order = np.random.default_rng(0).permutation(table.n_rows)
    assert rows.labels is not None
    permuted = make(Table.of(rows.take(order)), share)
    assert np.allclose(oracle.rows, reference.rows, rtol=0, atol=rtol), "the oracle's rows are not the class priors"
    assert oracle.model_share == share, "the oracle's model_share is not what it was made with"
    assert oracle.exact == (share == 1.0), "an oracle is exact on the model confusion and only there"
    for gains in batches:
        expected = reference.maximize(gains, matrix=True)
        for matrix in (False, True):
            _compare(oracle.maximize(gains, matrix=matrix), expected, rtol, "the reference")
        _compare(permuted.maximize(gains, matrix=True), expected, rtol, "its answer on permuted rows")
        single = Confusion.stack([oracle.maximize(gains[k], matrix=True)[0] for k in range(len(gains))])
        _compare(single, expected, rtol, "its answer to each gain alone")
    if rows.weight is not None:
        counts = np.random.default_rng(1).integers(0, 3, table.n_rows)
        # the first rows hold one label of each class, and none may vanish
        counts[: table.n_classes] = 1
        weighted = make(Table.of(replace(rows, weight=counts.astype(float))), share)
        plain = replace(rows, weight=None)
        repeated = make(Table.of(plain.take(np.repeat(np.arange(table.n_rows), counts))), share)
        first, second = (each.maximize(batches[1], matrix=True) for each in (weighted, repeated))
        _compare(first, second, rtol, "rows repeated in place of integer weights")


def _compare(got: Confusion, expected: Confusion, rtol: float, what: str) -> None:
    for name in ("rows", "diagonal", "columns", "matrix"):
        mine = getattr(got, name)
        theirs = getattr(expected, name)
        if mine is None or theirs is None:
            continue
        mine, theirs = np.broadcast_arrays(mine, theirs)
        error = np.abs(mine - theirs).max()
        assert error <= rtol, f"{name} of the oracle differs by {error:.2g} from {what}"


def _check_maximum(oracle: Oracle, rng: np.random.Generator, K: int) -> None:
    """An exact answer is at least every constant rule's and every random rule's value of the same gain."""
    gain = Gains.from_matrix(rng.normal(size=(K, K)))
    best = gain.dot(oracle.maximize(gain, matrix=True)).item()
    rivals = Gains.concatenate([Gains.from_matrix(rng.normal(size=(20, K, K))), Gains.constant(K, range(K))])
    ahead = gain.dot(oracle.maximize(rivals, matrix=True)).max() - best
    assert ahead <= 1e-9, f"another rule exceeds the oracle's maximum of a gain by {ahead:.2g}"


# --- solvers ----------------------------------------------------------------------------------------------------------


def check_solver(
    solver: Solver, metric: str | Metric, *, n_classes: int | None = None, seed: int = 0, n_tables: int = 3
) -> None:
    """Check what a solver returns for a metric on random tables, in both modes.

    Parameters
    ----------
    solver : Solver
        The solver.
    metric : str or Metric
        A metric that the solver accepts.
    n_classes : int or None
        Columns of the random tables; by default that of a gain matrix, 2 for binary metrics, else 3.
    seed, n_tables : int
        Seed and number of random tables.

    Raises
    ------
    AssertionError
        If weights are negative or do not sum to one. If the value is not that of the rule, or is below that of argmax
        or p / prior. If a bound is below the value, or is given with labels. If the history is not monotone, or the
        budget of passes is exceeded.

    Examples
    --------
    >>> from confmax.checks import check_solver
    >>> from confmax.optimize import FrankWolfe
    >>> check_solver(FrankWolfe(), "h_mean")
    """
    metric = resolve(metric)
    rng = np.random.default_rng(seed)
    K, _ = _shape_for(metric, n_classes)
    for k in range(n_tables):
        table = random_table(rng, 40 if k else 8, K, ties=k % 2 == 1, weights=k == 2)
        for mode in ("model", "labels"):
            _check_run(solver, metric, table, mode)


def _check_run(solver: Solver, metric: Metric, table: Table, mode: str) -> None:
    K = table.n_classes
    matrix = metric.statistics == "matrix"
    solver.check(metric, K, table.n_rows)
    oracle = CountingOracle(make_oracle(table, mode))
    starts = baselines(oracle, [table.label_weight()], K, matrix=matrix)
    budget = min(solver.budget, 60)
    problem = Problem(metric, oracle, K, tuple(starts), budget)
    outcome = run(solver, problem)
    assert oracle.n_passes <= budget + 1, f"{solver.name} made {oracle.n_passes} passes of {budget}"
    reference = make_oracle(table, mode, backend="numpy")
    for found in (outcome.mixture, outcome.single):
        _check_rule(solver, metric, found, reference, matrix=matrix)
    best = problem.value(outcome.mixture.confusion)
    for start in starts:
        worse = problem.value(start.confusion) - best
        assert worse <= 1e-12, f"{solver.name} ended {worse:.2g} below a starting rule for {metric.name}"
    single = problem.value(outcome.single.confusion)
    assert len(outcome.single.atoms) == 1 and single <= best + 1e-12, "the best single rule is not a single rule"
    if mode == "labels":
        assert outcome.upper_bound is None, f"{solver.name} gave a bound on labels, where none is valid"
    if outcome.upper_bound is not None:
        assert outcome.upper_bound >= best - 1e-9, f"{solver.name} gave a bound below the value of {metric.name}"
    # the history records the best value so far, so it cannot fall
    values = [entry.value for entry in outcome.history]
    assert values == sorted(values), f"the best value of {solver.name} fell along its history"


def _check_rule(solver: Solver, metric: Metric, found: Mixture, reference: Oracle, *, matrix: bool) -> None:
    gains, weights = found.gathered()
    assert (weights > 0).all(), f"{solver.name} returned a weight that is not positive"
    assert abs(weights.sum() - 1) <= 1e-12, f"{solver.name} returned weights that do not sum to one"
    again = reference.maximize(with_ties_broken(gains), matrix=matrix).mix(weights)
    error = abs(float(metric.values(again)) - float(metric.values(found.confusion)))
    assert error <= 1e-7, f"the value that {solver.name} reports differs by {error:.2g} from that of its rule"
