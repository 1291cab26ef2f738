"""Algorithm 1: one threshold on the probability of class 1, compared at every distinct cut-off.

Each threshold is a point of two coordinates: how much of class 0 and of class 1 is decided as 1. Mixtures of thresholds
fill the convex hull of these points. A metric that does not fall when a recall rises is largest on the upper edges of
the hull, where a rule draws between two neighbouring thresholds. The lower edges are searched too, for metrics that
reward errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import over_rows
from confmax.metrics import Metric
from confmax.metrics.ratios import NEGLIGIBLE, Ratios
from confmax.optimize.conditional_gradient import line_searches
from confmax.optimize.cuts import EQUAL, Cuts
from confmax.optimize.estimate import Estimate
from confmax.optimize.loop import Problem, Solver, Status, Step
from confmax.optimize.masters.generic import Smooth
from confmax.optimize.mixture import Mixture
from confmax.optimize.points import Space
from confmax.optimize.rounding import LEAST_WEIGHT, SOLVED
from confmax.oracle import OTHER_SOLVER, CountingOracle, same_estimate
from confmax.tables import Table

MOST_JOINED = 50  # thresholds that join a mixture inside the hull
SLOPE = SOLVED  # a gradient that promises less than this promises nothing
MOST_EDGES = 256  # edges with the best ends, which are looked at inside
SEARCHED = 8  # edges that are searched to the last digit
INSIDE = 9  # points on each of the others
CHUNK = 1 << 14  # thresholds that are compared together: they stay in the cache
ROUNDS = 11  # of a grid of 65 points: the interval shrinks below 1e-16


@dataclass(frozen=True)
class ThresholdSearch(Solver):
    """Exact search over thresholds for two classes (paper, Algorithm 1), in O(n log n).

    It compares the rules that decide class 1 if its probability exceeds t, for every t strictly between adjacent
    distinct values, and the two constant rules. It accepts any metric of two classes. On the model confusion the result
    is a global optimum for linear, ratio and quasi-convex metrics, whose optima are deterministic. For the other
    metrics it also finds the best rule that draws between two thresholds; these are neighbours on the convex hull of
    the ROC points. For macro F1, macro F-beta, macro Jaccard, weighted F1 and macro precision it is the best of all
    rules on the model confusion: these scores do not fall when a recall rises, and along an edge of the hull their
    largest sum is known in closed form.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import ThresholdSearch
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]]
    >>> confmax.maximize("f1", P, [0, 0, 1, 1], solver=ThresholdSearch(), confusion="labels").value
    1.0
    """

    budget: ClassVar[int] = 10

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Refuse tables of more than two classes."""
        if n_classes != 2:
            raise ValueError(
                f"ThresholdSearch needs two classes, but the table has {n_classes}; use solver='auto' for {metric.name}"
            )

    def init(self, problem: Problem) -> None:
        """Nothing to prepare."""

    def step(self, problem: Problem, state: None) -> tuple[None, Step]:
        """Compare all cut-offs."""
        problem.oracle.table.gathered("ThresholdSearch", OTHER_SOLVER)
        rule, mixed, confusions = best_cut(problem.metric, problem.oracle)
        if problem.metric.structure.is_linear:
            # its best rule on the model stays where no threshold is better
            gains = problem.metric.gains(problem.metric.at(rule.confusion))
            known = Mixture.single(gains, problem.ask(gains)[0])
            rule = known if problem.value(known.confusion) >= problem.value(rule.confusion) - EQUAL else rule
        bound = None
        parts = problem.ratios()
        if problem.oracle.exact and not problem.metric.structure.may_draw:
            # such a metric is largest at a vertex of the attainable set: a threshold, or one turned round
            vertices = [confusions] if _rises(parts) else [confusions, _turned_round(confusions)]
            bound = max(problem.value(rule.confusion), *(_largest(problem.metric, terms) for terms in vertices))
        elif problem.oracle.exact and parts is not None:
            bound = max(best_drawn(parts, problem.metric, confusions)[3], problem.value(rule.confusion))
        return None, Step(rule, (rule,) if mixed is None else (rule, mixed), bound, Status.OPTIMAL)


def _largest(metric: Metric, confusions: Confusion) -> float:
    """Return the largest value of a batch, with what rounding may add where that is more than negligible."""
    return max(over_rows(lambda _, start, stop: _largest_of(metric, confusions[start:stop]), len(confusions), CHUNK))


def _largest_of(metric: Metric, confusions: Confusion) -> float:
    doubts = np.nan_to_num(metric.rounding(confusions), nan=0.0, posinf=np.inf)
    highest = metric.values(confusions) + np.where(doubts > NEGLIGIBLE, doubts, 0.0)
    # a value that is nothing but rounding bounds nothing
    return float(np.where(np.isnan(highest), -np.inf, np.where(doubts > 1.0, np.inf, highest)).max())


def best_cut(metric: Metric, oracle: CountingOracle) -> tuple[Mixture, Mixture | None, Confusion]:
    """Return the best threshold for a ``metric``, the best draw between two, and the confusions of all thresholds.

    The draw is None for metrics whose optima are deterministic. The ``oracle`` makes one pass. For a table in parts,
    the thresholds are chosen on the sample of rows in memory and evaluated on all rows.
    """
    known = oracle.table.sorting(lambda: _best_cut(metric, oracle), None)
    if known is not None:
        return known
    of_sample, mixed, confusions = _best_cut(metric, oracle.anew(same_estimate(oracle, oracle.table.sample)))
    gains = Gains.concatenate([*of_sample.atoms, *(() if mixed is None else mixed.atoms)])
    answers = oracle.maximize(gains, matrix=metric.statistics == "matrix")
    singles = [Mixture.single(gains[k], answers[k]) for k in range(len(gains))]
    if mixed is not None:
        mixed = singles[1] if len(singles) == 2 else _between(metric, singles[1], singles[2])
    return singles[0], mixed, confusions


def _best_cut(metric: Metric, oracle: CountingOracle) -> tuple[Mixture, Mixture | None, Confusion]:
    matrix = metric.statistics == "matrix"
    rows = oracle.read_rows("the search of a threshold")
    cuts = Thresholds.of(Estimate.alike(Table.of(rows), oracle.model_share), matrix=matrix)
    confusions = cuts.confusions
    values = np.nan_to_num(metric.values(confusions), nan=-np.inf, posinf=np.inf)
    best = int(np.argmax(values))
    mixed = None
    if metric.structure.may_draw:
        parts = metric.as_ratios(oracle.rows, 2) if oracle.exact else None
        # the model's sums of ratios are largest on an edge of the hull, and where is known without a search
        if parts is None:
            i, j, share = best_edge(metric, confusions, values)
        else:
            i, j, share, _ = best_drawn(parts, metric, confusions)
        # a concave metric of the recalls alone is largest on an edge of the hull; one of the columns may be inside
        mixed = cuts.drawn([i, j], np.array([1.0 - share, share]))
        if metric.structure.is_concave and metric.statistics != "diagonal":
            mixed = _inside(metric, cuts, [i, j], mixed)
    return cuts.drawn([best], np.ones(1)), mixed, confusions


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Cuts of two classes at ``values`` (T,) of the probability of class 1, or ``by`` minus that of class 0."""

    confusions: Confusion
    values: Array
    by: int

    @classmethod
    def of(cls, estimate: Estimate, *, matrix: bool) -> Thresholds:
        """Sort the rows of an ``estimate``."""
        # where class 0 is so rare that the other probability rounds to one, its own tells rows apart
        by = 0 if estimate.table.mean_probability()[0] < np.sqrt(np.finfo(estimate.table.dtype).eps) else 1
        cuts = Cuts.of(estimate.two_classes(by), matrix=matrix)
        return cls(cuts.confusions, cuts.middles.astype(np.float64), by)

    def __len__(self) -> int:
        return len(self.values)

    def among(self, some: NDArray[np.bool_]) -> Thresholds:
        """Return ``some`` of them, a mask (T,)."""
        return replace(self, confusions=self.confusions[np.flatnonzero(some)], values=self.values[some])

    def drawn(self, index: list[int], weights: Array) -> Mixture:
        """Return the rule that draws between the listed thresholds with ``weights``, without those of weight zero."""
        used = np.array(index)[weights > 0.0]
        return Mixture.drawn(self.gains(used), self.confusions[used], weights[weights > 0.0])

    def gains(self, index: NDArray[np.intp]) -> Gains:
        """Return the gains (B) that decide as the listed thresholds do."""
        cut = self.values[index]
        between = np.isfinite(cut)
        # class 1 is decided where p_1 >= cut, or by class 0 where -p_0 >= cut; at the ends one class for every row
        a, b = np.zeros((2, len(index), 2))
        a[:, self.by] = between
        b[:, 0], b[:, 1] = cut == np.inf, np.where(between, -cut, cut < 0.0)
        return Gains.reduced(a, b)


def _inside(metric: Metric, cuts: Thresholds, index: list[int], mixed: Mixture) -> Mixture:
    """Return the best mixture of all thresholds of a concave metric, whose optimum may lie inside the hull.

    ``mixed`` draws between the thresholds of ``index``. As long as the gradient rises toward another threshold, that
    one joins, and all of them are mixed anew.
    """
    space = Space(metric, cuts.confusions.rows, 2)
    x = space.vectors(cuts.confusions)
    value = float(metric.values(mixed.confusion))
    mix = None
    for _ in range(MOST_JOINED):
        gains = metric.gains(metric.at(mixed.confusion))
        if not gains.is_finite:
            break
        heights = gains.dot(cuts.confusions)
        k = int(np.argmax(heights))
        if k in index or heights[k] <= float(gains.dot(mixed.confusion)[0]) + SLOPE:
            break
        index = [*index, k]
        start = np.full(len(index), 1.0 / len(index)) if mix is None else np.append(mix, 0.0)
        mix = Smooth().solve(space, x[index], start).weights
        best_step = cuts.drawn(index, mix)
        reached = float(metric.values(best_step.confusion))
        if reached > value:
            mixed = best_step
            value = reached
    return mixed


def _between(metric: Metric, first_rule: Mixture, second_rule: Mixture) -> Mixture:
    """Return the best rule that draws between two single ones."""
    pair = Confusion.stack([first_rule.confusion, second_rule.confusion])
    _, _, share = best_edge(metric, pair, metric.values(pair))
    return first_rule.toward(second_rule, share)


def _rises(parts: Ratios | None) -> bool:
    """Whether a sum of ratios falls nowhere where more of the decided rows are right.

    Then no threshold turned round is better than the draw between two thresholds that decides as many rows.
    """
    if parts is None or not parts.is_reduced or (parts.weights < 0.0).any():
        return False
    (hits, decided), (below, _) = parts.top.pair(), parts.bottom.pair()
    # a smaller denominator makes a negative ratio smaller
    positive = (parts.top_constant >= 0.0) & (decided >= 0.0).all(axis=1)
    falls = np.where(positive, (below <= 0.0).all(axis=1), (below == 0.0).all(axis=1))
    return bool((hits >= 0.0).all() and falls.all())


def _turned_round(confusions: Confusion) -> Confusion:
    """Return the confusions of the opposite decisions, which only a metric that rewards errors prefers."""
    matrix = None if confusions.matrix is None else confusions.matrix[..., ::-1]
    missed = np.maximum(confusions.rows - confusions.diagonal, 0.0)
    return Confusion(confusions.rows, missed, confusions.columns[..., ::-1], matrix)


# --- mixtures of two thresholds ---------------------------------------------------------------------------------------


def best_edge(metric: Metric, confusions: Confusion, values: Array) -> tuple[int, int, float]:
    """Return the thresholds ``i`` and ``j`` (hull neighbours) and the weight of ``j`` of the best rule between them.

    Concave metrics are searched exactly. The others may have several maxima along an edge: a grid tells which one is
    searched, and each threshold keeps a weight of at least `LEAST_WEIGHT`, or none. The T thresholds fall, from never
    deciding class 1 to always; their ``values`` (T,) are finite or infinite.
    """
    upper, lower = hull_chains(confusions)
    edges = np.concatenate([[upper[:-1], upper[1:]], [lower[:-1], lower[1:]]], axis=1)
    # a concave metric rises along the upper edges to its maximum and falls after it: the best ends are beside it
    edges = edges[:, np.argsort(-values[edges].max(axis=0), kind="stable")[:MOST_EDGES]]
    steps = np.broadcast_to(np.linspace(0.0, 1.0, INSIDE), (edges.shape[1], INSIDE))
    inside = metric.values(confusions[edges[0]].along(confusions[edges[1]], steps))
    merit = np.nan_to_num(inside, nan=-np.inf).max(axis=1)
    edges = edges[:, np.argsort(-merit, kind="stable")[:SEARCHED]]
    low = confusions[edges[0]]
    high = confusions[edges[1]]
    least = 0.0 if metric.structure.is_concave else LEAST_WEIGHT
    best_step = line_searches(metric, low, high, rounds=ROUNDS, least=least)
    best_step = np.where(best_step >= least, best_step, 0.0)
    reached = metric.values(low.along(high, best_step[:, None]))[:, 0]
    k = int(np.argmax(np.nan_to_num(reached, nan=-np.inf)))
    return int(edges[0, k]), int(edges[1, k]), float(best_step[k])


def best_drawn(parts: Ratios, metric: Metric, confusions: Confusion) -> tuple[int, int, float, float]:
    """Return where a sum of ratios is largest on the upper hull: `best_edge` of it, and the largest sum.

    The slope of ``N / D`` along an edge is a constant over ``D^2``. Two of them cancel where the roots of these
    constants are to each other as the denominators, which happens at most once.

    The ``metric`` is the sum of one or two ratios. At 0/0 it is lower than beside it; there the largest sum is the
    limit, which rules approach. The T thresholds fall.
    """
    chain, _ = hull_chains(confusions)
    terms = range(len(parts.weights))
    N = np.stack([parts.top[b].dot(confusions[chain]) + parts.top_constant[b] for b in terms])
    D = np.stack([parts.bottom[b].dot(confusions[chain]) + parts.bottom_constant[b] for b in terms])
    n = N[:, :-1]
    d = D[:, :-1]
    rise = np.diff(N)
    growth = np.diff(D)
    bend = parts.weights[:, None] * (rise * d - n * growth)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt(-bend[0] / bend[-1])
        inside = (ratio * d[-1] - d[0]) / (growth[0] - ratio * growth[-1])
        shares = np.stack([np.zeros(len(inside)), np.clip(np.nan_to_num(inside), 0.0, 1.0), np.ones(len(inside))])
        scores = (n + shares[:, None] * rise) / (d + shares[:, None] * growth)
        # both vanish at an end of an edge only where they do so together
        scores = np.where(np.isfinite(scores), scores, np.nan_to_num(rise / growth))
    sums = (parts.weights[:, None] * scores).sum(axis=1)
    k = int(sums.max(axis=0).argmax())
    i = int(chain[k])
    j = int(chain[k + 1])
    middle = shares[sums[:, k].argmax(), k]
    steps = np.array([0.0, LEAST_WEIGHT, np.clip(middle, LEAST_WEIGHT, 1.0 - LEAST_WEIGHT), 1.0 - LEAST_WEIGHT, 1.0])
    values = metric.values(confusions[i].toward(confusions[j], steps))
    return i, j, float(steps[values.argmax()]), float(sums[:, k].max())


def hull_chains(confusions: Confusion) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which of T falling thresholds are corners of their upper hull, and of their lower one."""
    x = np.maximum(confusions.rows[..., 0] - confusions.diagonal[:, 0], 0.0)
    y = confusions.diagonal[:, 1]
    return upper_chain(x, y), upper_chain(x, -y)


def upper_chain(x: Array, y: Array) -> NDArray[np.int64]:
    """Return the corners of the upper hull of points (T,) whose x does not fall, in their order."""
    on_hull = np.empty(len(x), np.int64)
    if kernels.native is not None:
        return on_hull[: kernels.native.upper_chain(np.ascontiguousarray(x), np.ascontiguousarray(y), on_hull)]
    xs = x.tolist()
    ys = y.tolist()
    corners = list[int]()
    for t in range(len(xs)):
        # drop corners that lie on or below the line from the one before them to the new point
        while len(corners) >= 2:
            a = corners[-2]
            b = corners[-1]
            if (xs[b] - xs[a]) * (ys[t] - ys[a]) < (ys[b] - ys[a]) * (xs[t] - xs[a]):
                break
            corners.pop()
        corners.append(t)
    return np.array(corners, np.int64)
