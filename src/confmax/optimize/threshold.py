"""Algorithm 1: one threshold on the probability of class 1, compared at every distinct cut-off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from confmax._metric import Metric
from confmax.confusion import Confusion, Gains
from confmax.optimize._loop import Problem, Status, Step
from confmax.optimize._mixture import Mixture
from confmax.oracle import CountingOracle, Table, same_estimate


@dataclass(frozen=True)
class ThresholdSearch:
    """Exact search over thresholds for two classes (paper, Algorithm 1), in O(n log n).

    Decides class 1 where its probability exceeds t, for every t strictly between adjacent distinct values, and for
    the two constant rules. Any metric of two classes will do. In model mode the result is a global optimum for
    linear, ratio and quasi-convex metrics, whose optima are deterministic.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import ThresholdSearch
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]]
    >>> confmax.maximize("f1", P, [0, 0, 1, 1], solver=ThresholdSearch(), confusion="labels").value
    1.0
    """

    name: ClassVar[str] = "ThresholdSearch"
    budget: ClassVar[int] = 10

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Refuse tables of more than two classes."""
        if n_classes != 2:
            raise ValueError(
                f"ThresholdSearch needs two classes and the table has {n_classes}; use solver='auto' for {metric.name}"
            )

    def init(self, problem: Problem) -> None:
        """Nothing to prepare."""

    def step(self, problem: Problem, state: None) -> tuple[None, Step]:
        """Compare all cut-offs."""
        if problem.oracle.table.backend == "parts":
            problem.oracle.table.dense("ThresholdSearch")
        rule, confusions = best_cut(problem.metric, problem.oracle)
        bound = None
        if problem.oracle.exact and problem.metric.structure in ("linear", "ratio", "quasiconvex"):
            # such a metric is largest at a vertex of the attainable set: a threshold, or one turned round
            turned = problem.metric.values(_turned_round(confusions))
            bound = max(problem.value(rule.confusion), float(np.nan_to_num(turned, nan=-np.inf, posinf=np.inf).max()))
        return None, Step(rule, (rule,), bound, Status.OPTIMAL)


def best_cut(metric: Metric, oracle: CountingOracle) -> tuple[Mixture, Confusion]:
    """Return a ``metric``'s best rule of one threshold and the confusions of all (batch); a pass of the ``oracle``.

    Of a table in parts, the best on the rows at hand.
    """
    if oracle.table.backend == "parts":
        small = CountingOracle(same_estimate(oracle, oracle.table.at_hand()))
        found, confusions = best_cut(metric, small)
        gain = found.atoms[0]
        return Mixture.single(gain, oracle.maximize(gain, matrix=metric.statistics == "matrix")[0]), confusions
    cuts, confusions = all_cuts(oracle.table, oracle.model_share, matrix=metric.statistics == "matrix")
    oracle.n_passes += 1  # sorted, not scanned, but every row was read
    values = np.nan_to_num(metric.values(confusions), nan=-np.inf, posinf=np.inf)
    best = int(np.argmax(values))
    return Mixture.single(_cut_gain(cuts, best), confusions[best]), confusions


def all_cuts(table: Table, model_share: float, *, matrix: bool) -> tuple[np.ndarray, Confusion]:
    """Return every distinct cut-off and the confusions of deciding class 1 at or above it.

    Returns
    -------
    cuts : ndarray (T,)
        In the table's dtype, falling: ``inf`` (never class 1), then one value per step of the sorted probabilities,
        strictly above the next lower one, at last ``-inf`` (always class 1).
    confusions : Confusion
        Batch of T.
    """
    table = table.dense("the search of a threshold")
    p = table.proba[:, 1]
    order = np.argsort(-p, kind="stable")
    p = p[order]
    weight = np.ones(len(p)) if table.weight is None else table.weight[order]
    weight = weight / weight.sum()
    truth = model_share * table.proba[order].astype(np.float64)
    if table.labels is not None:
        truth += (1.0 - model_share) * (table.labels[order][:, None] == np.arange(2))
    truth *= weight[:, None]
    ends = np.append(np.flatnonzero(p[1:] != p[:-1]), len(p) - 1)
    above = np.vstack([np.zeros(2), np.cumsum(truth, axis=0)[ends]])
    taken = np.append(0.0, np.cumsum(weight)[ends])
    rows = truth.sum(axis=0)
    C = np.stack([np.maximum(rows - above, 0.0), above], axis=2)
    confusions = Confusion(
        np.broadcast_to(rows, above.shape),
        np.stack([C[:, 0, 0], C[:, 1, 1]], axis=1),
        np.stack([np.maximum(1.0 - taken, 0.0), taken], axis=1),
        C if matrix else None,
    )
    high, low = p[ends[:-1]], p[ends[:-1] + 1]
    middle = (low + (high - low) / p.dtype.type(2)).astype(p.dtype)
    # between neighbouring floats there is no middle: the upper one cuts just below itself
    cuts = np.where(middle > low, middle, high)
    return np.concatenate([[np.inf], cuts, [-np.inf]]), confusions


def _turned_round(confusions: Confusion) -> Confusion:
    """Return the confusions of the opposite decisions, which only a metric that rewards errors prefers."""
    matrix = None if confusions.matrix is None else confusions.matrix[..., ::-1]
    return Confusion(
        confusions.rows, np.maximum(confusions.rows - confusions.diagonal, 0.0), confusions.columns[..., ::-1], matrix
    )


def _cut_gain(cuts: np.ndarray, index: int) -> Gains:
    """Return the gain that decides class 1 where ``p_1 >= cut``."""
    if not np.isfinite(cuts[index]):
        return Gains.constant(2, [0 if index == 0 else 1])
    return Gains.reduced([0.0, 1.0], [0.0, -float(cuts[index])])
