"""The bootstrap of confusion matrices, without going through the rows again.

A confusion matrix depends on a row only through its label and what the rules decide for it. Rows that agree in these
form a *cell*, and drawing n rows with replacement draws the cells' counts from one multinomial distribution: exactly
the bootstrap of rows, at the cost of the cells. Cells of few rows are cheaper to draw row by row; the rest of the
multinomial is how many such rows there are. All rules are counted in the same draws, so their differences are paired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.tables.weights import Weights

Index = NDArray[np.int64]

FEW_ROWS = 8  # drawing the count of a cell takes about as long as drawing this many rows
AT_ONCE = 1 << 18  # numbers of a chunk of replicates: 2 MB


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows by label, decisions and weight: D cells, and L lots, the rows of one cell that have the same weight."""

    label: Index  # (D,), true class of each cell
    decisions: Index  # (A, D), what each of A deterministic rules decides there
    cell: Index  # (L,), the cell of each lot, sorted
    count: Index  # (L,), rows of each lot
    weight: Weights  # of each of the rows of a lot, (L,)
    n_classes: int
    n_decisions: tuple[int, ...]  # of each of the A rules

    @property
    def sums(self) -> Array:
        """Weight of each cell (D,)."""
        sums = np.bincount(self.cell, weights=self.weight.times(self.count), minlength=len(self.label))
        return np.asarray(sums, dtype=np.float64)


def tally(
    labels: NDArray[np.int64],
    decisions: NDArray[np.integer],
    weight: Weights,
    sizes: tuple[int, Sequence[int]],
    copies: Index | None = None,
) -> Cells:
    """Sort rows into cells.

    ``labels`` (n,) are true classes, ``decisions`` (A, n) those of A deterministic rules, both as column numbers;
    Every ``weight`` is positive. ``sizes`` are the number of classes K, and the number of decisions M of each rule.
    With ``copies`` (n,) each of these rows stands for so many.
    """
    K = sizes[0]
    Ms = tuple(map(int, sizes[1]))
    code, _ = code_of((labels, *decisions), (K, *Ms))
    _, first, cell = np.unique(code, return_index=True, return_inverse=True)
    cells = decisions[:, first].astype(np.int64)
    cell = cell.reshape(-1)
    rank, n_ranks = weight.ranks()
    place = cell
    if n_ranks > 1:
        # sums over the lots of a cell run over neighbours: lots come sorted by cell, then by weight
        lots, first_of_lot, place = np.unique(cell * n_ranks + rank, return_index=True, return_inverse=True)
        place = place.reshape(-1)
    else:
        lots, first_of_lot = np.arange(len(first)), first
    return Cells(labels[first], cells, lots // n_ranks, _counted(place, copies), weight.of(first_of_lot), K, Ms)


def code_of(columns: Iterable[NDArray[np.integer]], sizes: Iterable[int]) -> tuple[Index, int]:
    """Return a code (n,) of the rows of several columns, which are below their ``sizes``, and its least upper bound.

    Codes are in the order of the columns, the first one first.
    """
    code = np.zeros(1, np.int64)
    span = 1
    for column, size in zip(columns, sizes, strict=True):
        # many rules of many classes have more combinations than an integer has: those that occur are renumbered
        if span * size >= 1 << 62:
            code = np.unique(code, return_inverse=True)[1].reshape(-1)
            span = int(code.max()) + 1
        code = code * size + column
        span = span * size
    return code, span


def _counted(place: Index, copies: Index | None) -> Index:
    counts = np.bincount(place, weights=copies)
    # a float holds whole numbers up to 2^53
    return counts.astype(np.int64, copy=False)


# --- draws -----------------------------------------------------------------------------------------------------------


class _Stratum:
    """Lots from which a fixed number of rows is drawn."""

    def __init__(self, cells: Cells, lots: Index) -> None:
        count = cells.count[lots]
        many = lots[count > FEW_ROWS]
        few = lots[count <= FEW_ROWS]
        self.n_rows = int(count.sum())
        self.n_cells = len(cells.label)
        self.cell = cells.cell[many]
        self.starts = np.flatnonzero(np.diff(self.cell, prepend=-1))
        self.weight = cells.weight.of(many)
        self.row_cell = np.repeat(cells.cell[few], cells.count[few])
        self.row_weight = cells.weight.of(few).repeated(cells.count[few])
        # the last share is that of all rows that are drawn one by one
        rest = [len(self.row_cell)] if len(self.row_cell) else []
        self.share = np.concatenate([cells.count[many], rest]) / self.n_rows

    def draw(self, size: int, rng: np.random.Generator, out: Array) -> tuple[Index, Weights]:
        """Add what is drawn of large lots to ``out`` (size, D); return places and weights of the other rows."""
        counts = rng.multinomial(self.n_rows, self.share, size=size)
        n_many = len(self.cell)
        n_few = len(self.row_cell)
        drawn = self.weight.times(counts[:, :n_many])
        out[:, self.cell[self.starts]] += np.add.reduceat(drawn, self.starts, axis=1)
        if not n_few:
            return self.row_cell, self.row_weight
        rows = rng.integers(0, n_few, size=int(counts[:, -1].sum()))
        where = np.repeat(np.arange(size) * self.n_cells, counts[:, -1]) + self.row_cell[rows]
        return where, self.row_weight.of(rows)


def replicates(cells: Cells, n_replicates: int, rng: np.random.Generator, *, stratified: bool) -> Iterator[Array]:
    """Yield the weight of every cell (B, D) in chunks of replicates; stratified, each class keeps its number of rows.

    Rows are drawn uniformly and bring their weights: a weight is a property of the row that is drawn.
    """
    label = cells.label[cells.cell]
    parts = [np.flatnonzero(label == k) for k in np.unique(label)] if stratified else [np.arange(len(label))]
    strata = [_Stratum(cells, lots) for lots in parts]
    n_few = sum(len(stratum.row_cell) for stratum in strata)
    # the size of the chunks decides in which order random numbers are used: another size gives other replicates
    at_once = max(1, AT_ONCE // max(len(cells.label), n_few))
    for start in range(0, n_replicates, at_once):
        out = np.zeros((min(at_once, n_replicates - start), len(cells.label)))
        places, weights = zip(*(stratum.draw(len(out), rng, out) for stratum in strata), strict=True)
        if n_few:
            out += Weights.joined(weights).sums(np.concatenate(places), out.size).reshape(out.shape)
        yield out


# --- statistics ------------------------------------------------------------------------------------------------------


class Counter:
    """Turns weights of cells into the confusions of rules, each a mixture of some of the A deterministic ones.

    ``mixtures`` are for each rule the weights of its atoms, which are the next so many of the A decisions. ``matrix``
    says whether the matrices are needed.
    """

    def __init__(self, cells: Cells, mixtures: Sequence[Array], *, matrix: bool) -> None:
        from scipy.sparse import csr_array  # thresholds are found without the bootstrap, and do not wait for it

        self.cells = cells
        self.mixtures = mixtures
        self.matrix = matrix
        K = cells.n_classes
        D = len(cells.label)
        parts = [cells.label]
        columns = [np.arange(D)]
        height = K
        for decision, M in zip(cells.decisions, cells.n_decisions, strict=True):
            hit = np.flatnonzero(decision == cells.label)
            parts += [height + cells.label[hit], height + K + decision]
            columns += [hit, np.arange(D)]
            height += K + M
            if matrix:
                parts.append(height + cells.label * M + decision)
                columns.append(np.arange(D))
                height += K * M
        place = np.concatenate(parts), np.concatenate(columns)
        self.sums = csr_array((np.ones(len(place[0])), place), shape=(height, D))

    def chunks(self, weights: Array) -> Iterator[list[Confusion]]:
        """Yield the confusions of every rule, batch by batch, for weights of the cells (B, D)."""
        at_once = max(1, AT_ONCE // self.sums.shape[0])
        for start in range(0, len(weights), at_once):
            yield self.confusions(weights[start : start + at_once])

    def confusions(self, weights: Array) -> list[Confusion]:
        """Return the confusions of every rule, as a batch, for weights of the cells (B, D)."""
        K = self.cells.n_classes
        B = len(weights)
        sums = np.asarray((self.sums @ np.ascontiguousarray(weights.T)).T)
        # replicates of weighted rows differ in their total weight, and metrics read fractions of it
        sums = sums / sums[:, :K].sum(axis=1, keepdims=True)
        rows = sums[:, :K]
        place = K
        atom = 0
        confusions = []
        for mixture in self.mixtures:
            M = self.cells.n_decisions[atom]
            width = K + M + (K * M if self.matrix else 0)
            whole = np.zeros((B, width))
            for share in mixture:
                whole += share * sums[:, place : place + width]
                place = place + width
                atom = atom + 1
            C = whole[:, K + M :].reshape(B, K, M) if self.matrix else None
            confusions.append(Confusion(rows, whole[:, :K], whole[:, K : K + M], C))
        return confusions
