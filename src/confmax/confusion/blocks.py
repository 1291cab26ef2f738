"""Blocks: confusions of K classes beside each other in one confusion, of the groups of the rows or of their labels.

If a rule knows the group of a row, it has gains for every group. G groups of K classes are then one table of G K
classes and as many decisions, in which a row of group g has the probabilities of its K classes and is decided as one of
these (`Layout`). Decisions beyond the classes, such as abstaining, follow the classes of all groups.

L labels are blocks of two classes on the same rows, the rest and the label (`Labels`). Only the numbers of the label
are stored: a table of labels has a column for each, and its statistics are vectors (L,).

A metric, a limit and a shift know confusions of K classes alone. `confmax.metrics.views.View` says of which block, or
of all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from confmax.confusion.statistics import Array, Confusion, Gains


class Blocks(ABC):
    """Where the confusions of blocks stand in that of a table."""

    @property
    @abstractmethod
    def n_decisions(self) -> int:
        """Number of decisions M of a block."""

    @abstractmethod
    def decides(self, n_classes: int) -> int:
        """Return the number of decisions of all blocks, of tables of ``n_classes`` columns."""

    @abstractmethod
    def total(self, S: Confusion) -> Confusion:
        """Return the sum (..., K, M) of the confusions of all blocks in ``S``."""

    @abstractmethod
    def of_block(self, S: Confusion, block: int) -> Confusion:
        """Return the confusion (..., K, M) of one ``block`` of ``S``, in fractions of the weight of its rows."""

    @abstractmethod
    def size(self, rows: Array, block: int) -> Array:
        """Return the weight of the rows of a ``block`` (...), as a fraction of all, by the row sums ``rows`` (...)."""

    @abstractmethod
    def row_sums(self, rows: Array, block: int | None) -> Array:
        """Return the row sums (K,) of a ``block``, or of the sum for None, by those of the table, ``rows``."""

    @abstractmethod
    def vectors(self, a: Array, b: Array, block: int | None, rows: Array) -> tuple[Array, Array, Array]:
        """Return a linear function of the confusion of a ``block``, or of the sum for None, as one of the table's.

        Its coefficients are ``a`` (..., K) of the diagonal and ``b`` (..., M) of the columns. What is returned are
        those of the table, and what the function has beside them at the row sums ``rows`` of the table.
        """

    def lift(self, gains: Gains, block: int | None, rows: Array) -> tuple[Gains, Array]:
        """Return linear functions ``gains`` (B) of a block, or the sum, as those of the table, and constants (B,)."""
        a, b, constants = self.vectors(*gains.pair(), block, rows)
        return Gains(a, b), constants


@dataclass(frozen=True)
class Layout(Blocks):
    """Groups of rows side by side: where the classes of each and its decisions stand, some of them beyond the classes.

    Groups are ``shared`` if every row belongs to all groups, by its probability of each, and gets one decision for all.

    >>> layout = Layout(2, 3, 1)
    >>> layout.decisions(1).tolist(), layout.all_classes, layout.all_decisions
    ([3, 4, 5, 7], 6, 8)
    """

    n_groups: int
    n_classes: int
    n_further: int = 0
    shared: bool = False

    @property
    def all_classes(self) -> int:
        """Number of classes of all groups together, G K."""
        return self.n_groups * self.n_classes

    @property
    def n_decisions(self) -> int:
        return self.n_classes + self.n_further

    def decides(self, n_classes: int) -> int:
        return self.all_decisions

    @property
    def all_decisions(self) -> int:
        """Number of decisions of all groups together, G (K + D)."""
        return self.n_groups * self.n_decisions

    def classes(self, group: int) -> slice:
        """Return where the classes of a ``group`` stand."""
        return slice(group * self.n_classes, (group + 1) * self.n_classes)

    def decisions(self, group: int) -> NDArray[np.intp]:
        """Return where the decisions of a ``group`` stand (K + D,)."""
        return self.places[group]

    def block(self, group: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the indices of the classes and decisions of a ``group`` in a matrix (G K, G (K + D))."""
        return np.arange(self.all_classes)[self.classes(group), None], self.decisions(group)

    def gains_of(self, gains: Gains, group: int) -> Gains:
        """Return the part of ``gains`` (B) that decides the rows of a ``group``."""
        place = self.decisions(group)
        if gains.full is not None:
            return Gains(full=np.ascontiguousarray(gains.full[:, self.classes(group)][:, :, place]))
        a, b = gains.pair()
        return Gains(np.ascontiguousarray(a[:, self.classes(group)]), np.ascontiguousarray(b[:, place]))

    @cached_property
    def places(self) -> list[NDArray[np.intp]]:
        """Where the decisions of every group stand, arrays (K + D,)."""
        K = self.n_classes
        D = self.n_further
        return [
            np.concatenate([np.arange(g * K, g * K + K), self.all_classes + g * D + np.arange(D)])
            for g in range(self.n_groups)
        ]

    def apart(self, gains: Gains) -> list[Gains]:
        """Return the parts of ``gains`` (B) that decide the rows of every group."""
        return [self.gains_of(gains, g) for g in range(self.n_groups)]

    def alike(self, gains: Gains) -> Gains:
        """Return gains that decide every group by the same ``gains`` (B)."""
        return self.beside([gains] * self.n_groups)

    def beside(self, parts: Sequence[Gains]) -> Gains:
        """Return the gains (B) whose parts for the groups are ``parts`` (G), batches of B."""
        B = len(parts[0])
        if all(part.full is None and not part.power for part in parts):
            a = np.zeros((B, self.all_classes))
            b = np.zeros((B, self.all_decisions))
            for g, part in enumerate(parts):
                a[:, self.classes(g)], b[:, self.decisions(g)] = part.pair()
            return Gains(a, b)
        full = np.zeros((B, self.all_classes, self.all_decisions))
        for g, part in enumerate(parts):
            full[(slice(None), *self.block(g))] = part.matrices()
        return Gains(full=full)

    def joined(self, parts: Sequence[Confusion], shares: Array) -> Confusion:
        """Return the confusions of all groups as one batch; ``parts`` (G) are of the groups, of ``shares`` (G,)."""
        B = len(parts[0])
        rows = np.concatenate([share * part.rows for share, part in zip(shares, parts, strict=True)])
        diagonal = np.zeros((B, self.all_classes))
        columns = np.zeros((B, self.all_decisions))
        matrix = None
        if all(part.matrix is not None for part in parts):
            matrix = np.zeros((B, self.all_classes, self.all_decisions))
        for g, (share, part) in enumerate(zip(shares, parts, strict=True)):
            diagonal[:, self.classes(g)] = share * part.diagonal
            columns[:, self.decisions(g)] = share * part.columns
            if matrix is not None and part.matrix is not None:
                matrix[(slice(None), *self.block(g))] = share * part.matrix
        return Confusion(rows, diagonal, columns, matrix)

    def priors(self, rows: Array) -> Array:
        """Return the class sizes of all rows (K,) from those of the groups, ``rows`` (G K,)."""
        return np.asarray(rows.reshape(self.n_groups, self.n_classes).sum(axis=0))

    def total(self, S: Confusion) -> Confusion:
        return self._sum(S, range(self.n_groups))

    def of_block(self, S: Confusion, block: int) -> Confusion:
        part = self._sum(S, [block])
        unit = 1.0 / np.maximum(part.rows.sum(-1), np.finfo(np.float64).tiny)
        over = np.asarray(unit)[..., None]
        alike = part.rows.ndim == 1
        matrix = None if part.matrix is None else part.matrix * (unit if alike else over[..., None])
        return Confusion(part.rows * over, part.diagonal * over, part.columns * over, matrix)

    def size(self, rows: Array, block: int) -> Array:
        return np.asarray(rows[..., self.classes(block)].sum(-1))

    def row_sums(self, rows: Array, block: int | None) -> Array:
        if block is None:
            return self.priors(rows)
        own = rows[self.classes(block)]
        return np.asarray(own / own.sum())

    def vectors(self, a: Array, b: Array, block: int | None, rows: Array) -> tuple[Array, Array, Array]:
        unit, blocks = self._of(block, rows)
        on_diagonal = np.zeros((*a.shape[:-1], self.all_classes))
        on_columns = np.zeros((*b.shape[:-1], self.all_decisions))
        for g in blocks:
            on_diagonal[..., self.classes(g)] = a * unit[..., None]
            on_columns[..., self.decisions(g)[: b.shape[-1]]] = b * unit[..., None]
        return on_diagonal, on_columns, np.zeros(a.shape[:-1])

    def matrices(self, full: Array, block: int | None, rows: Array) -> Array:
        """Return `vectors` of functions (..., K, K + D) of the matrix."""
        unit, blocks = self._of(block, rows)
        out = np.zeros((*full.shape[:-2], self.all_classes, self.all_decisions))
        for g in blocks:
            out[(..., *self.block(g))] = full * unit[..., None, None]
        return out

    def lift(self, gains: Gains, block: int | None, rows: Array) -> tuple[Gains, Array]:
        if gains.full is None and not gains.power:
            return super().lift(gains, block, rows)
        full = self.matrices(gains.padded(self.n_decisions).matrices(), block, rows)
        return Gains.from_matrix(full), np.zeros(len(full))

    def _of(self, block: int | None, rows: Array) -> tuple[Array, Sequence[int]]:
        """Return one over the weight of a group's rows (...), one for all groups, and the groups."""
        return (np.ones(()), range(self.n_groups)) if block is None else (1.0 / self.size(rows, block), [block])

    def _sum(self, S: Confusion, groups: Sequence[int]) -> Confusion:
        """Return the sum of some groups' statistics."""
        rows = sum(S.rows[..., self.classes(g)] for g in groups)
        diagonal = sum(S.diagonal[..., self.classes(g)] for g in groups)
        columns = sum(S.columns[..., self.decisions(g)] for g in groups)
        matrix = None
        if S.matrix is not None:
            matrix = sum(S.matrix[..., self.classes(g), :][..., self.decisions(g)] for g in groups)
        return Confusion(rows, diagonal, columns, matrix)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Labels(Blocks):
    """Labels as blocks of ``n_classes`` on the same rows: of two, the rest and the label, or of the label alone.

    What reads one class alone needs no numbers of the rest. A sum of L blocks has the weight L.

    >>> S = Confusion(*np.array([[0.5, 0.25], [0.375, 0.25], [0.5, 0.5]]))
    >>> Labels().of_block(S, 0).diagonal, Labels(1).of_block(S, 0).diagonal
    (array([0.375, 0.375]), array([0.375]))
    """

    n_classes: Literal[1, 2] = 2

    @property
    def n_decisions(self) -> int:
        return self.n_classes

    def decides(self, n_classes: int) -> int:
        return n_classes

    def total(self, S: Confusion) -> Confusion:
        return self.unfolded(*self.numbers(S, None), float(S.diagonal.shape[-1]))

    def of_block(self, S: Confusion, block: int) -> Confusion:
        return self.unfolded(*self.numbers(S, block))

    def numbers(self, S: Confusion, block: int | None) -> tuple[Array, Array, Array]:
        """Return how often a label is true, decided rightly and decided at all (...), or the sums over all for None."""
        parts = (S.rows, S.diagonal, S.columns)
        true, hits, decided = (part.sum(-1) if block is None else part[..., block] for part in parts)
        return true, hits, decided

    def size(self, rows: Array, block: int) -> Array:
        return np.ones(rows.shape[:-1])

    def row_sums(self, rows: Array, block: int | None) -> Array:
        S = Confusion(rows, rows, rows)
        return (self.total(S) if block is None else self.of_block(S, block)).rows

    def vectors(self, a: Array, b: Array, block: int | None, rows: Array) -> tuple[Array, Array, Array]:
        by_hits, by_decisions = self.folded(a, b)
        L = rows.shape[-1]
        place = self.place(block, L)
        constants = np.zeros(by_hits.shape)
        if self.n_classes == 2:
            r, weight = (rows.sum(-1), L) if block is None else (rows[..., block], 1.0)
            constants = a[..., 0] * (weight - r) + weight * b[..., 0]
        # zero has one sign, since rule files hold offsets
        return by_hits[..., None] * place, by_decisions[..., None] * place + 0.0, constants

    def place(self, block: int | None, n_labels: int) -> Array:
        """Return where a label stands (L,), or all of them for None, as ones."""
        return np.ones(n_labels) if block is None else np.eye(1, n_labels, block)[0]

    def folded(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Return coefficients (..., K) of the diagonal and the columns of a block as those of its label (...)."""
        if self.n_classes == 1:
            return a[..., 0], b[..., 0]
        # a row that gets the label and has it is no row of the rest; one that gets it and has it not is no hit there
        return a.sum(-1), b[..., 1] - b[..., 0] - a[..., 0]

    def unfolded(self, true: Array, hits: Array, decided: Array, weight: float = 1.0) -> Confusion:
        """Return the confusions (..., K) of labels by their numbers (...), of rows of this ``weight``."""
        if self.n_classes == 1:
            return Confusion(*(np.asarray(part)[..., None] for part in (true, hits, decided)))
        return Confusion.of_two(true, hits, decided, weight)
