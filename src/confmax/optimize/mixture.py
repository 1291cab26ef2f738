"""Mixtures of rules while they are being found: atoms, their weights, and the confusion of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.metrics import Metric
from confmax.metrics.first_order import FirstOrder
from confmax.metrics.structure import AffineFunctions
from confmax.optimize.rounding import BINDS, EXACT, HALF_DIGITS, LEFT_OVER, NEGLIGIBLE, SINGULAR
from confmax.tables.decisions import ONE, Decisions

if TYPE_CHECKING:
    from confmax.constraints.limits import Limits

CONSTANT_CELLS = 1 << 24  # of all constant rules together
MATRICES_CELLS = 1 << 27  # of their matrices
NO_CLASS = np.zeros(0, dtype=np.bool_)  # is barred
# how far a slack may change
ROUNDED = SINGULAR
INTERIOR = HALF_DIGITS  # a weight that an interior point leaves behind
# rounding of a statistic, and what a smallest function may lose
SAME_MEAN = EXACT
SAME_MINIMUM = LEFT_OVER


@dataclass(frozen=True, eq=False)
class Mixture:
    """A probability distribution over gains, with its confusion matrix.

    Attributes
    ----------
    atoms : tuple of Gains
        The gains, one per atom.
    weights : ndarray (A,)
        Weight of each atom. The weights are not negative and sum to one.
    confusion : Confusion
        Confusion matrix of the mixture, on the table that it was tuned on.
    parts : tuple of Confusion or None
        Confusion matrix of each atom; None if they were not kept.
    """

    atoms: tuple[Gains, ...]
    weights: Array
    confusion: Confusion
    parts: tuple[Confusion, ...] | None = None

    @classmethod
    def single(cls, gain: Gains, confusion: Confusion) -> Mixture:
        """Return the deterministic rule of one ``gain`` with its ``confusion``."""
        return cls((gain,), np.ones(1), confusion, (confusion,))

    @classmethod
    def uniform(
        cls,
        rows: Array,
        n_decisions: int,
        *,
        matrix: bool,
        decisions: Decisions = ONE,
        barred: NDArray[np.bool_] = NO_CLASS,
    ) -> Mixture:
        """Return the rule that draws every decision with the same probability.

        Its confusion matrix is an interior point, where every metric of the catalogue is smooth. ``rows`` (K,) are the
        row sums and ``n_decisions`` is the number of decisions, of which ``decisions`` are made for a row. ``matrix``
        says whether to compute the whole matrix. Classes that are ``barred`` (K,) are left out. Raise a ValueError if
        that takes too many numbers.
        """
        gains, confusions, mean = _constants(rows, n_decisions, decisions, barred, matrix=matrix)
        if mean is None:
            return cls.drawn(gains, confusions, np.ones(len(gains)))
        return cls(_members(gains), np.full(n_decisions, 1 / n_decisions), mean, _members(confusions))

    @classmethod
    def drawn(cls, gains: Gains, confusions: Confusion, weights: Array) -> Mixture:
        """Return the rule that draws ``gains`` (A), of these ``confusions``, in proportion to ``weights`` (A,)."""
        share = weights / weights.sum()
        return cls(_members(gains), share, confusions.mix(share), _members(confusions))

    def toward(self, other: Mixture, step: float) -> Mixture:
        """Return ``(1 - step) * self + step * other`` without empty atoms."""
        if step >= 1.0:
            return other
        if step <= 0.0:
            return self
        mixed = self.confusion.toward(other.confusion, np.array([step]))[0]
        weights = np.append(self.weights * (1.0 - step), other.weights * step)
        parts = None if self.parts is None or other.parts is None else (*self.parts, *other.parts)
        return Mixture((*self.atoms, *other.atoms), weights, mixed, parts)

    def caratheodory(self, metric: Metric, limits: Limits | None = None, decisions: Decisions = ONE) -> Mixture:
        """Return a mixture of at most d of these atoms, where ``metric`` has d free statistics (Caratheodory).

        While more than d + 1 atoms have weight, the weights are moved along a vector that changes no statistic that the
        metric reads, until one weight is zero. A last step moves the statistics along the metric's gradient to the edge
        of the hull of the d + 1 atoms that remain. It is taken only if it does not lower the metric. An optimum lies on
        the boundary of the attainable set, where d atoms are enough. Within ``limits`` their functions count as
        statistics too. If a row may have fewer ``decisions`` than others, one statistic more is free.
        """
        # a solver from elsewhere need not keep the parts, and then its atoms stay as they are
        if self.parts is None or len(self.atoms) == 1:
            return self
        # once, at the end of a run: solvers keep more atoms, which later passes may need
        parts = Confusion.stack(self.parts)
        if limits is not None:
            return self._within(metric, limits, parts)
        vectors, slope, d = _free_statistics(metric, parts, metric.at(self.confusion))
        d = min(d + decisions.positive, vectors.shape[1])
        weights = _sparser(vectors, self.weights / self.weights.sum(), d + 1)
        used = np.flatnonzero(weights > 0)
        gains = Gains.concatenate([self.atoms[k] for k in used])
        parts = parts[used]
        sparser = Mixture.drawn(gains, parts, weights[used])
        if len(used) <= d:
            return sparser
        least = float(metric.values(sparser.confusion))
        if metric.structure.is_minimum:
            least -= SAME_MINIMUM
            edges = _both_edges(vectors[used], weights[used])
        else:
            edges = _to_edge(vectors[used], weights[used], slope)
        for edge in edges:
            left = np.flatnonzero(edge > 0)
            moved = Mixture.drawn(gains[left], parts[left], edge[left])
            if float(metric.values(moved.confusion)) >= least:
                return moved
        return sparser

    def _within(self, metric: Metric, limits: Limits, parts: Confusion) -> Mixture:
        """Return a mixture of few of these atoms that is worth no less and keeps the limits as well."""
        rows = self.confusion.rows
        M = self.confusion.columns.shape[-1]
        slack = limits.functions(rows, M).values(parts)
        functions = metric.as_functions(rows, M)
        ratios = None if functions is not None else metric.as_ratios(rows, M)
        if ratios is not None and metric.formula.whole:
            # numerators and denominators are all that a sum of ratios reads
            both = Gains.concatenate([ratios.top, ratios.bottom])
            objective = AffineFunctions(both).values(parts)
        elif functions is None:
            objective = _free_statistics(metric, parts, metric.at(self.confusion))[0]
        else:
            objective = functions.values(parts)
        shares = self._without_least(slack)
        # what binds is kept exactly, and so are the recalls under a mean; what does not bind is looked at again
        binding_rows = shares @ slack < BINDS
        for curve in limits.curves(len(rows)):
            binding_rows[curve.rows] = True
        for binding in (binding_rows, np.ones(slack.shape[1], dtype=bool)):
            vectors = np.hstack([objective, slack[:, binding]])
            weights = _sparser(vectors, shares / shares.sum(), vectors.shape[1] + 1)
            if (weights @ slack).min() >= min(0.0, float((shares @ slack).min())) - ROUNDED:
                break
        used = np.flatnonzero(weights > 0)
        return Mixture.drawn(Gains.concatenate([self.atoms[k] for k in used]), parts[used], weights[used])

    def _without_least(self, slack: Array) -> Array:
        """Return the weights (A,) with those as zeros that an interior point leaves behind, if the limits stay kept."""
        shares = self.weights / self.weights.sum()
        least = np.minimum(0.0, shares @ slack)
        few = np.where(shares < INTERIOR, 0.0, shares)
        few /= few.sum()
        short = least - few @ slack
        if (short > 0.0).any():
            # toward the rule by which all limits recover what they have lost soonest
            gain = (slack - few @ slack)[:, short > 0.0] / short[short > 0.0]
            rate = np.where(few > 0.0, gain.min(axis=1), -np.inf)
            step = 1.0 / max(float(rate.max()), 1.0)
            few = (1.0 - step) * few + step * (np.arange(len(few)) == np.argmax(rate))
        binding_rows = (few @ slack >= least - ROUNDED).all() and np.abs(few - shares).max() < BINDS
        return few if binding_rows else np.where(shares < NEGLIGIBLE, 0.0, shares)

    def gathered(self) -> tuple[Gains, Array]:
        """Return the atoms as one batch and their weights (A,). Equal gains are merged, and negligible ones dropped."""
        gains = Gains.concatenate(self.atoms)
        parts = [part.reshape(len(gains), -1) for part in (gains.a, gains.b, gains.full) if part is not None]
        first: dict[bytes, int] = {}
        # a zero may have a sign, which + 0.0 takes off: equal gains have equal bytes
        places = [first.setdefault(row.tobytes(), k) for k, row in enumerate(np.hstack(parts) + 0.0)]
        totals = np.bincount(places, weights=self.weights)
        binding_rows = np.flatnonzero(totals > NEGLIGIBLE)
        return gains[binding_rows], totals[binding_rows] / totals[binding_rows].sum()


def constant_rules(
    rows: Array,
    n_decisions: int,
    *,
    matrix: bool,
    layout: Layout | None = None,
    decisions: Decisions = ONE,
    barred: NDArray[np.bool_] = NO_CLASS,
) -> tuple[Gains, Confusion]:
    """Return gains and confusions (M) of the rules that decide the same for every row, without a scan.

    Of groups side by side, one group decides the same and the others make their last decision; of groups that get one
    decision for all, all of them decide the same. Of several labels, every row gets the same `_constant_labels`.
    Classes that are ``barred`` (K,) are decided by none. Raise a ValueError if they take too many numbers.
    """
    if layout is not None:
        return _constant_in_groups(rows, layout, barred, matrix=matrix)
    return _constants(rows, n_decisions, decisions, barred, matrix=matrix)[:2]


def _constants(
    rows: Array, n_decisions: int, decisions: Decisions, barred: NDArray[np.bool_], *, matrix: bool
) -> tuple[Gains, Confusion, Confusion | None]:
    """Return `constant_rules` without groups, and their mean; None where an average of the confusions is no worse."""
    K = len(rows)
    if decisions.several:
        return *_constant_labels(rows, decisions, np.delete(np.arange(K), np.flatnonzero(barred))), None
    cells, most = (K * n_decisions**2, MATRICES_CELLS) if matrix else (K * n_decisions, CONSTANT_CELLS)
    if cells > most:
        way_out = "solver='frank_wolfe'" if matrix else "balanced_accuracy or h_mean"
        raise ValueError(
            f"the solver of this metric needs the {n_decisions} rules that decide the same class for all rows; their "
            f"confusions would take {cells:,} numbers, more than {most:,}; use {way_out}, or merge rare classes"
        )
    decided = np.delete(np.eye(n_decisions), np.flatnonzero(barred), axis=0)
    full = decided[:, None, :] * rows[:, None] if matrix else None
    confusions = Confusion(rows, decided[:, :K] * rows, decided * rows.sum(), full)
    # an average would round it
    mean = None if barred.any() else Confusion.uniform(rows, n_decisions, matrix=matrix)
    return Gains.reduced(np.zeros((len(decided), K)), decided), confusions, mean


def _constant_labels(rows: Array, decisions: Decisions, present: NDArray[np.intp]) -> tuple[Gains, Confusion]:
    """Return rules that give every row the same labels: k that follow each other, or all, and none, where both may be.

    At a draw between them no label is always decided, or never, if it can be otherwise: there metrics have a gradient.
    These are labels that are ``present`` (L',).
    """
    L = len(present)
    if decisions.most is None or (decisions.positive and decisions.most >= L):
        decided = np.outer([1.0, 0.0], np.ones(L))
    else:
        k = min(decisions.most, L)
        if L * L > CONSTANT_CELLS:
            raise ValueError(
                f"the solver of this metric needs rules that decide the same labels for all rows, {L * L:,} numbers, "
                f"more than {CONSTANT_CELLS:,}; use balanced_accuracy, or leave rare labels out"
            )
        decided = ((np.arange(L) - np.arange(L)[:, None]) % L < k).astype(np.float64)
    every = np.zeros((len(decided), len(rows)))
    every[:, present] = decided
    # what is not decided has a score below zero
    return Gains.reduced(np.zeros_like(every), 2.0 * every - 1.0), Confusion(rows, every * rows, every)


def _constant_in_groups(
    rows: Array, layout: Layout, barred: NDArray[np.bool_], *, matrix: bool
) -> tuple[Gains, Confusion]:
    """Return `constant_rules` of groups side by side."""
    shares = rows.reshape(layout.n_groups, -1).sum(axis=1)
    M = layout.n_decisions
    *others, last = np.delete(np.arange(M), np.flatnonzero(barred[layout.classes(0)])).tolist()
    chosen = [[last] * layout.n_groups]
    if layout.shared:
        chosen += [[j] * layout.n_groups for j in others]
    for g in range(0 if layout.shared else layout.n_groups):
        chosen += [[j if h == g else last for h in range(layout.n_groups)] for j in others]
    every = np.array(chosen)
    gains = []
    confusions = []
    for g in range(layout.n_groups):
        decided = np.eye(M)[every[:, g]]
        inside = rows[layout.classes(g)] / shares[g]
        full = decided[:, None, :] * inside[:, None] if matrix else None
        gains.append(Gains(np.zeros((len(every), layout.n_classes)), decided))
        confusions.append(Confusion(inside, decided[:, : layout.n_classes] * inside, decided, full))
    return layout.beside(gains), layout.joined(confusions, shares)


def _members(batch: Any) -> tuple[Any, ...]:
    """Return the members of a batch of gains or confusions one by one."""
    return tuple(batch[k] for k in range(len(batch)))


def _free_statistics(metric: Metric, parts: Confusion, first: FirstOrder) -> tuple[Array, Array, int]:
    """Return what the metric reads of each part (A, s), its gradient by that (s,), and the free dimensions d."""
    binding_rows = np.array(metric.classes or range(parts.diagonal.shape[-1]))
    M = parts.columns.shape[-1]
    if metric.statistics == "matrix":
        assert parts.matrix is not None and first.matrix is not None
        place = np.ix_(binding_rows, np.arange(M) if metric.classes is None else binding_rows)
        inside = parts.matrix[:, place[0], place[1]]
        slope = first.matrix[place]
        # the entries of a row of C add up to its prior: one of each whole row is not free
        free = inside[0].size - (len(binding_rows) if inside.shape[-1] == M else 0)
        return inside.reshape(len(inside), -1), slope.reshape(-1), free
    if metric.statistics == "diagonal":
        return parts.diagonal[:, binding_rows], first.diagonal[binding_rows], len(binding_rows)
    # the column sums of all decisions add up to one: the last is not free
    vectors = np.concatenate([parts.diagonal[:, binding_rows], parts.columns[:, binding_rows]], axis=1)
    slope = np.concatenate([first.diagonal[binding_rows], first.columns[binding_rows]])
    return vectors, slope, 2 * len(binding_rows) - (1 if len(binding_rows) == M else 0)


def _sparser(vectors: Array, weights: Array, limit: int) -> Array:
    """Return weights (A,) of the same mean of ``vectors`` (A, s), at most ``limit`` of them positive."""
    weights = _on_largest(vectors, weights, limit)
    while (used := np.flatnonzero(weights > 0)).size > limit:
        some = used[: vectors.shape[1] + 2]
        # more columns than rows can be independent: the last right singular vector is a null vector
        system = np.vstack([vectors[some].T, np.ones(len(some))])
        null = np.linalg.svd(system / np.linalg.norm(system, axis=0))[2][-1] / np.linalg.norm(system, axis=0)
        weights[some] = _until_one_is_empty(weights[some], null if null.max() <= 0 else -null)
    return weights


def _on_largest(vectors: Array, weights: Array, limit: int) -> Array:
    """Return weights (A,) of the same mean of ``vectors`` (A, s) on the largest weights, where these can have it.

    An interior-point method leaves a trace of weight on every rule: it goes at once.
    """
    if np.count_nonzero(weights) <= limit:
        return weights
    largest = np.argsort(-weights, kind="stable")[:limit]
    system = np.vstack([vectors.T, np.ones(len(weights))])
    mean = system @ weights
    alone = np.linalg.lstsq(system[:, largest], mean, rcond=None)[0]
    if alone.min() < 0.0 or np.abs(system[:, largest] @ alone - mean).max() > SAME_MEAN:
        return weights
    out = np.zeros(len(weights))
    out[largest] = alone
    return out


def _until_one_is_empty(weights: Array, change: Array) -> Array:
    """Return ``weights + t change`` (A,), t such that one of them is zero and none negative; some change is."""
    ratio = np.divide(weights, -change, out=np.full(len(weights), np.inf), where=change < 0)
    leaving = int(np.argmin(ratio))
    moved = np.maximum(weights + ratio[leaving] * change, 0.0)
    # the step makes this weight zero; rounding could leave a remainder
    moved[leaving] = 0.0
    return moved


def _both_edges(vectors: Array, weights: Array) -> list[Array]:
    """Return weights (A,) from where the two ends of the line leave the hull that moves ``vectors`` (A, s) least.

    The rules of an optimal mixture of a smallest function lie on one hyperplane, so that some line moves nothing.
    """
    null = np.linalg.svd(np.vstack([vectors.T, np.ones(len(vectors))]))[2][-1]
    return [_until_one_is_empty(weights, change) for change in (null, -null) if (change < 0).any()]


def _to_edge(vectors: Array, weights: Array, slope: Array) -> list[Array]:
    """Return weights (A,) from where ``slope`` leaves the hull of ``vectors`` (A, s); none if it cannot be followed."""
    if not np.isfinite(slope).all():
        return []
    system = np.vstack([vectors.T, np.ones(len(vectors))])
    change = np.linalg.lstsq(system, np.append(slope, 0.0), rcond=None)[0]
    change -= change.mean()
    return [_until_one_is_empty(weights, change)] if (change < 0).any() else []
