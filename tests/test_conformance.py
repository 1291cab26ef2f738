"""Every registered metric, oracle and solver passes the public checks; broken ones do not."""

from dataclasses import replace

import numpy as np
import pytest

from confmax import metrics
from confmax.checks import check_metric, check_oracle, check_solver
from confmax.confusion import Confusion
from confmax.optimize import (
    BayesCG,
    Bisection,
    BruteForce,
    CoordinateSearch,
    Dinkelbach,
    FrankWolfe,
    FullyCorrective,
    MaxMin,
    Stationary,
    ThresholdSearch,
)
from confmax.oracle import BACKENDS, NumpyOracle, make_oracle

COSTS = [[0, 1, 4], [2, 0, 1], [9, 3, 0]]


def every_metric(n_classes):
    for name in metrics.names():
        params = {"cost": np.array(COSTS)[:n_classes, :n_classes]} if name == "linear" else {}
        metric = metrics.get(name, **params)
        if n_classes == 2 or not metric.binary:
            yield metric


VARIANTS = [
    metrics.get("f_beta", beta=2),
    metrics.get("macro_f_beta", beta=0.5),
    metrics.get("ams", b_reg=0.01),
    metrics.get("min_recall", rho=0.1),
    *(
        metrics.get(name, rho=0.05, smoothing=kind)
        for name in ("g_mean", "h_mean", "q_mean")
        for kind in ("relative", "additive")
    ),
]


@pytest.mark.parametrize("metric", [*every_metric(2), *VARIANTS], ids=repr)
def test_metrics_of_two_classes(metric):
    check_metric(metric, n_classes=2)


@pytest.mark.parametrize("metric", [*every_metric(3), *(m for m in VARIANTS if not m.binary)], ids=repr)
def test_metrics_of_more_classes(metric):
    check_metric(metric, n_classes=3)
    if metric.name != "linear":
        check_metric(metric, n_classes=6, seed=1)


def test_a_gain_matrix_with_more_decisions_than_classes():
    check_metric(metrics.get("linear", gain=[[1, 0, 0.4], [0, 1, 0.4]]), n_classes=2, n_decisions=3)


def test_metrics_over_chosen_classes():
    """A restriction to some classes, or another order of them, keeps gradients right."""
    check_metric(metrics.get("g_mean").over([0, 2]), n_classes=3)
    check_metric(metrics.get("quadratic_kappa").over([2, 0, 1]), n_classes=3)
    check_metric(metrics.get("quadratic_kappa").over([3, 0]), n_classes=4)
    check_metric(metrics.get("ams", b_reg=0.1).over([2, 0]), n_classes=3)
    check_metric(metrics.get("f1").over([1, 0]), n_classes=2)


def test_a_user_function():
    psi = metrics.from_function(lambda C: np.sqrt(C[0, 0] * C[1, 1]) + C[2, 2] ** 2, name="mine")
    check_metric(psi)


PARTS = ["diagonal", "columns", "rows", "matrix"]


def mutants():
    """Every part of every metric's gradient that is not zero, in whole or at one class, with the wrong sign."""
    for metric in [*every_metric(3), *(m for m in every_metric(2) if m.binary), *VARIANTS]:
        K = 2 if metric.binary else 3
        first = metric.at(Confusion.from_matrix(np.full((K, K), 0.05) + np.diag(np.arange(1, K + 1)) / 20))
        for part in PARTS:
            value = getattr(first, part)
            if value is None or not np.size(value) or not np.any(value):
                continue
            # a row's derivative is a constant of its row and decides nothing; beside a matrix both are parts of it
            if part == "matrix" or (part != "rows" and first.matrix is None):
                yield pytest.param(metric, part, None, id=f"{metric!r}-{part}")
                k = int(np.flatnonzero(np.reshape(value, (-1, K)).any(axis=0))[-1])
                yield pytest.param(metric, part, k, id=f"{metric!r}-{part}-{k}")


@pytest.mark.parametrize(("metric", "part", "only"), list(mutants()))
def test_a_flipped_gradient_is_caught(metric, part, only):
    """Mutation: the sign of a part of the gradient, everywhere or at one class."""

    def broken(S: Confusion, **params):
        first = metric.formula(S, **params)
        value = np.array(getattr(first, part))
        sign = -1.0 if only is None else np.where(np.arange(value.shape[-1]) == only, -1.0, 1.0)
        return first._replace(**{part: value * sign})

    with pytest.raises(AssertionError, match="differs from its differences"):
        check_metric(replace(metric, formula=broken))


@pytest.mark.parametrize("structure", ["linear", "concave", "ratio"])
def test_a_wrong_structure_is_caught(structure):
    with pytest.raises(AssertionError, match="refutes"):
        check_metric(replace(metrics.get("macro_precision"), structure=structure))


@pytest.mark.parametrize("name", BACKENDS)
def test_oracles(name):
    if name == "torch":
        pytest.importorskip("torch")
    check_oracle(lambda table, share: make_oracle(table, "blend", backend=name, model_share=share))
    check_oracle(name, seed=1)


def test_an_oracle_with_the_other_tie_rule_is_caught():
    """numpy's argmax takes the smallest index of a tie."""

    class SmallestIndex(NumpyOracle):
        def maximize(self, gains, *, matrix=False):
            lower = None if gains.b is None else gains.b - 1e-13 * np.arange(gains.n_classes)
            return super().maximize(replace(gains, b=lower), matrix=matrix)

    with pytest.raises(AssertionError, match="differs"):
        check_oracle(SmallestIndex)


MEANS = ["g_mean", "h_mean", "q_mean"]
SOLVERS = [FrankWolfe(), FrankWolfe("open_loop", rho=0.05), BayesCG(), BruteForce(resolution=3), CoordinateSearch()]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("metric", [*every_metric(3)], ids=repr)
def test_solvers_of_three_classes(solver, metric):
    check_solver(solver, metric)


@pytest.mark.parametrize("solver", [FrankWolfe(), ThresholdSearch()], ids=repr)
@pytest.mark.parametrize("metric", [m for m in every_metric(2) if m.name != "ams"] + [VARIANTS[2]], ids=repr)
def test_solvers_of_two_classes(solver, metric):
    check_solver(solver, metric, n_classes=2)


RATIOS = [metric for metric in every_metric(3) if metric.structure == "ratio"]
OF_TWO = [metric for metric in every_metric(2) if metric.structure == "ratio" and metric.binary]
SUMS = [metric for metric in every_metric(3) if metric.structure == "general"]


@pytest.mark.parametrize("solver", [Dinkelbach(), Bisection()], ids=repr)
@pytest.mark.parametrize("metric", RATIOS + OF_TWO, ids=repr)
def test_methods_for_ratios(solver, metric):
    check_solver(solver, metric, n_classes=2 if metric.binary else 3)


@pytest.mark.parametrize("metric", [*RATIOS, *SUMS, metrics.get("f1", label=1)], ids=repr)
def test_stationary(metric):
    check_solver(Stationary(), metric)
    check_solver(Stationary(), metric, n_classes=2, seed=1)


@pytest.mark.parametrize(("name", "n_classes"), list(zip(MEANS, [2, 3, 5], strict=True)))
def test_fully_corrective(name, n_classes):
    check_solver(FullyCorrective(), name, n_classes=n_classes)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_max_min(n_classes):
    check_solver(MaxMin(), "min_recall", n_classes=n_classes)
