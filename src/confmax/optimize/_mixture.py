"""Mixtures of rules while they are being found: atoms, their weights, and the confusion of the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confmax.confusion import Array, Confusion, Gains


@dataclass(frozen=True, eq=False)
class Mixture:
    """A distribution over gains with its confusion.

    Attributes
    ----------
    atoms : tuple of Gains
        One gain each.
    weights : ndarray (A,)
        Non-negative, sum one.
    confusion : Confusion
        Of the mixture, on the table it was found on.
    """

    atoms: tuple[Gains, ...]
    weights: Array
    confusion: Confusion

    @classmethod
    def single(cls, gain: Gains, confusion: Confusion) -> Mixture:
        """Return the deterministic rule of one gain."""
        return cls((gain,), np.ones(1), confusion)

    @classmethod
    def uniform(cls, rows: Array, n_decisions: int, *, matrix: bool) -> Mixture:
        """Return the rule that decides at random: an inner point, where every metric of the catalogue is smooth."""
        gains = Gains.constant(len(rows), range(n_decisions)) if n_decisions == len(rows) else None
        if gains is None:
            columns = np.zeros((n_decisions, len(rows), n_decisions))
            columns[np.arange(n_decisions), :, np.arange(n_decisions)] = 1.0
            gains = Gains.from_matrix(columns)
        atoms = tuple(gains[k] for k in range(n_decisions))
        return cls(atoms, np.full(n_decisions, 1 / n_decisions), Confusion.uniform(rows, n_decisions, matrix=matrix))

    def toward(self, gain: Gains, confusion: Confusion, step: float) -> Mixture:
        """Return ``(1 - step) * self + step * gain``; atoms without weight are dropped."""
        if step >= 1.0:
            return Mixture.single(gain, confusion)
        if step <= 0.0:
            return self
        mixed = self.confusion.toward(confusion, np.array([step]))[0]
        return Mixture((*self.atoms, gain), np.append(self.weights * (1.0 - step), step), mixed)

    def gathered(self) -> tuple[Gains, Array]:
        """Return the atoms as one batch with their weights, equal gains merged, weights of rounding size dropped."""
        gains = Gains.concatenate(self.atoms)
        parts = [part for part in (gains.a, gains.b, gains.full) if part is not None]
        flat = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
        _, first, inverse = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        totals = np.bincount(inverse.reshape(-1), weights=self.weights, minlength=len(first))
        order = [k for k in np.argsort(first) if totals[k] > 1e-12]
        kept, weights = first[order], totals[order]
        chosen = Gains.concatenate([gains[int(k)] for k in kept])
        return chosen, weights / weights.sum()
