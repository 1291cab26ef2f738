"""Mixtures of rules while they are being found: atoms, their weights, and the confusion of the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics import Metric

CONSTANT_CELLS = 1 << 24  # of all constant rules together
MATRICES_CELLS = 1 << 27  # of their matrices


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
    def uniform(cls, rows: Array, n_decisions: int, *, matrix: bool) -> Mixture:
        """Return the rule that draws every decision with the same probability.

        Its confusion matrix is an interior point, where every metric of the catalogue is smooth. ``rows`` (K,) are the
        row sums and ``n_decisions`` is the number of decisions. ``matrix`` says whether to compute the whole matrix.
        Raise a ValueError if that takes too many numbers.
        """
        _refuse_many_constants(len(rows), n_decisions, matrix=matrix)
        gains = Gains.constant(len(rows), range(n_decisions)) if n_decisions == len(rows) else None
        if gains is None:
            columns = np.zeros((n_decisions, len(rows), n_decisions))
            columns[np.arange(n_decisions), :, np.arange(n_decisions)] = 1.0
            gains = Gains.from_matrix(columns)
        atoms = tuple(gains[k] for k in range(n_decisions))
        whole = constant_rules(rows, n_decisions, matrix=matrix)
        parts = tuple(whole[k] for k in range(n_decisions))
        mean = Confusion.uniform(rows, n_decisions, matrix=matrix)
        return cls(atoms, np.full(n_decisions, 1 / n_decisions), mean, parts)

    def toward(self, gain: Gains, confusion: Confusion, step: float) -> Mixture:
        """Return ``(1 - step) * self + step * gain`` without empty atoms; ``confusion`` is that of the gain."""
        if step >= 1.0:
            return Mixture.single(gain, confusion)
        if step <= 0.0:
            return self
        mixed = self.confusion.toward(confusion, np.array([step]))[0]
        parts = None if self.parts is None else (*self.parts, confusion)
        return Mixture((*self.atoms, gain), np.append(self.weights * (1.0 - step), step), mixed, parts)

    def caratheodory(self, metric: Metric) -> Mixture:
        """Return a mixture of at most d of these atoms, where ``metric`` has d free statistics (Caratheodory).

        While more than d + 1 atoms have weight, the weights are moved along a vector that changes no statistic that the
        metric reads, until one weight is zero. A last step moves the statistics along the metric's gradient to the edge
        of the hull of the d + 1 atoms that remain. It is taken only if it does not lower the metric. An optimum lies on
        the boundary of the attainable set, where d atoms are enough.
        """
        if self.parts is None or len(self.atoms) == 1:
            return self
        # once, at the end of a run: solvers keep more atoms, which later passes may need
        vectors, slope, d = _free_statistics(metric, self)
        weights = self.weights / self.weights.sum()
        if len(self.atoms) > d + 1:
            weights = _sparser(vectors, weights, d + 1)
        used = np.flatnonzero(weights > 0)
        found = self._part(used, weights[used])
        if len(used) == d + 1:
            edge = _to_edge(vectors[used], weights[used], slope)
            if edge is not None:
                moved = self._part(used[edge > 0], edge[edge > 0])
                if float(metric.values(moved.confusion)) >= float(metric.values(found.confusion)):
                    return moved
        return found

    def _part(self, index: NDArray[np.intp], weights: Array) -> Mixture:
        """Return the mixture of the listed atoms with these weights."""
        assert self.parts is not None
        chosen = tuple(self.parts[int(k)] for k in index)
        share = weights / weights.sum()
        return Mixture(tuple(self.atoms[int(k)] for k in index), share, Confusion.stack(chosen).mix(share), chosen)

    def gathered(self) -> tuple[Gains, Array]:
        """Return the atoms as one batch and their weights (A,). Equal gains are merged, and negligible ones dropped."""
        gains = Gains.concatenate(self.atoms)
        parts = [part for part in (gains.a, gains.b, gains.full) if part is not None]
        totals: dict[bytes, tuple[int, float]] = {}
        for k, weight in enumerate(self.weights):
            key = b"".join((part[k] + 0.0).tobytes() for part in parts)  # + 0.0: one zero, not two
            first, before = totals.get(key, (k, 0.0))
            totals[key] = (first, before + float(weight))
        kept = [(k, weight) for k, weight in totals.values() if weight > 1e-12]
        chosen = Gains.concatenate([gains[k] for k, _ in kept])
        weights = np.array([weight for _, weight in kept])
        return chosen, weights / weights.sum()


def constant_rules(rows: Array, n_decisions: int, *, matrix: bool) -> Confusion:
    """Return the confusions (batch of M) of the rules that decide the same for every row, without a scan."""
    _refuse_many_constants(len(rows), n_decisions, matrix=matrix)
    diagonal = np.zeros((n_decisions, len(rows)))
    np.fill_diagonal(diagonal, rows)
    full = np.eye(n_decisions)[:, None, :] * rows[:, None] if matrix else None
    return Confusion(np.tile(rows, (n_decisions, 1)), diagonal, np.eye(n_decisions) * rows.sum(), full)


def _refuse_many_constants(K: int, n_decisions: int, *, matrix: bool) -> None:
    cells, most = (K * n_decisions**2, MATRICES_CELLS) if matrix else (K * n_decisions, CONSTANT_CELLS)
    if cells > most:
        way_out = "solver='frank_wolfe'" if matrix else "balanced_accuracy or h_mean"
        raise ValueError(
            f"the solver of this metric needs the {n_decisions} rules that decide the same class for all rows; their "
            f"confusions would take {cells:,} numbers, more than {most:,}; use {way_out}, or merge rare classes"
        )


def _free_statistics(metric: Metric, mixture: Mixture) -> tuple[Array, Array, int]:
    """Return what the metric reads of each atom (A, s), its gradient by that (s,), and the free dimensions d."""
    assert mixture.parts is not None
    parts = Confusion.stack(mixture.parts)
    first = metric.at(mixture.confusion)
    kept = np.array(metric.classes or range(parts.diagonal.shape[-1]))
    M = parts.columns.shape[-1]
    if metric.statistics == "matrix":
        assert parts.matrix is not None and first.matrix is not None
        inside = parts.matrix[:, kept] if metric.classes is None else parts.matrix[:, kept[:, None], kept]
        slope = first.matrix[kept] if metric.classes is None else first.matrix[kept[:, None], kept]
        free = inside[0].size - (len(kept) if inside.shape[-1] == M else 0)
        return inside.reshape(len(inside), -1), slope.reshape(-1), free
    if metric.statistics == "diagonal":
        return parts.diagonal[:, kept], first.diagonal[kept], len(kept)
    vectors = np.concatenate([parts.diagonal[:, kept], parts.columns[:, kept]], axis=1)
    slope = np.concatenate([first.diagonal[kept], first.columns[kept]])
    return vectors, slope, 2 * len(kept) - (1 if len(kept) == M else 0)


def _sparser(vectors: Array, weights: Array, limit: int) -> Array:
    """Return weights (A,) of the same mean of ``vectors`` (A, s), at most ``limit`` of them positive."""
    weights = weights.copy()
    while (used := np.flatnonzero(weights > 0)).size > limit:
        some = used[: vectors.shape[1] + 2]
        # more columns than rows can be independent: the last right singular vector is a null vector
        system = np.vstack([vectors[some].T, np.ones(len(some))])
        null = np.linalg.svd(system / np.linalg.norm(system, axis=0))[2][-1] / np.linalg.norm(system, axis=0)
        if null.max() <= 0:
            null = -null
        ratio = np.full(len(some), np.inf)
        ratio[null > 0] = weights[some][null > 0] / null[null > 0]
        leaving = int(np.argmin(ratio))
        weights[some] = np.maximum(weights[some] - ratio[leaving] * null, 0.0)
        weights[some[leaving]] = 0.0
    return weights


def _to_edge(vectors: Array, weights: Array, slope: Array) -> Array | None:
    """Return weights (A,) from where ``slope`` leaves the hull of ``vectors`` (A, s); None if it cannot be followed."""
    if not np.isfinite(slope).all():
        return None
    system = np.vstack([vectors.T, np.ones(len(vectors))])
    change = np.linalg.lstsq(system, np.append(slope, 0.0), rcond=None)[0]
    change -= change.mean()
    if not (change < 0).any():
        return None
    ratio = np.full(len(weights), np.inf)
    ratio[change < 0] = weights[change < 0] / -change[change < 0]
    leaving = int(np.argmin(ratio))
    moved = np.maximum(weights + ratio[leaving] * change, 0.0)
    moved[leaving] = 0.0
    return moved
