"""Two classes within limits, on any estimate: the best thresholds of every group, whose rows are sorted once.

On the model confusion the oracle's answer to a gain is its maximiser. On labels it is not, but thresholds of p sort the
rows all the same, and the best of all thresholds for a gain is known from their counts. Column generation with these
answers ends at the best rule that draws between thresholds. A single rule has one threshold for every group: with all
others fixed, all thresholds of one group are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.optimize.loop import MISSED, Problem
from confmax.optimize.mixture import Mixture
from confmax.optimize.rounding import BATCH, DIGITS
from confmax.optimize.threshold import Cuts

CELLS = 300_000  # rules that the search of a single one compares for each group


@dataclass(frozen=True, eq=False)
class GroupThresholds:
    """All thresholds of every group."""

    # those of each group (G), of all rows where there are no groups
    parts: tuple[Cuts, ...]
    # those of them at the corners of their hull
    corners: tuple[Cuts, ...]
    # (2 G,): class sizes
    rows: Array
    layout: Layout | None

    @classmethod
    def of(cls, problem: Problem) -> GroupThresholds | None:
        """Sort the rows of a ``problem``, in one pass; None for more decisions, and for rows that are not in memory."""
        oracle = problem.oracle
        table = oracle.table
        layout = oracle.table.layout
        K = table.n_classes if layout is None else layout.n_classes
        M = problem.n_decisions if layout is None else layout.n_decisions
        if not K == M == 2 or not table.sorts_rows:
            return None
        groups = oracle.read_groups("the search of thresholds")
        parts = [Cuts.of(rows, part.model_share, matrix=problem.needs_matrix) for part, rows in groups]
        return cls(tuple(parts), tuple(part.corners() for part in parts), oracle.rows, layout)

    @property
    def compares_all(self) -> bool:
        """Whether `single` compares all single rules."""
        sizes = [len(part.values) for part in self.parts]
        return len(sizes) == 1 or (len(sizes) == 2 and sizes[0] * sizes[1] <= CELLS)

    def answers(self, gains: Gains) -> tuple[Gains, Confusion]:
        """Return the best thresholds for ``gains`` (B), as gains, with their confusions."""
        places = []
        for g, part in enumerate(self.corners):
            mine = gains if self.layout is None else self.layout.gains_of(gains, g)
            places.append(mine.heights(part.confusions).argmax(axis=1))
        return self._rules(self.corners, places)

    def single(self, problem: Problem, near: Iterable[Mixture]) -> tuple[Gains, Confusion]:
        """Return the best single rule (1) that a search from the rules of mixtures ``near`` meets."""
        # from many thresholds of the group that has fewest, those of the others are searched, and its own at last
        first, *others = sorted(range(len(self.parts)), key=lambda g: len(self.parts[g].values))
        at = self._starts(near, first, others)
        for g in (*others, first):
            at[:, g], missed, values = self._best_of_group(problem, at, g)
        k = int(np.where(missed == missed.min(), values, -np.inf).argmax())
        return self._rules(self.parts, list(at[[k]].T))

    def _starts(self, near: Iterable[Mixture], first: int, others: list[int]) -> NDArray[np.intp]:
        """Return thresholds (S, G) to start from: of the atoms of mixtures, with many of the ``first`` group."""
        atoms = Gains.concatenate([gain for rule in near for gain in rule.atoms])
        places = np.stack([self._place(part, atoms, g) for g, part in enumerate(self.parts)], axis=1)
        if not others:
            return places[:1]
        if len(others) == 1:
            # the search of the other group does not depend on where it starts
            places[:, others] = 0
        places = np.unique(places, axis=0)
        T = len(self.parts[first].values)
        n = max(1, CELLS // sum(len(self.parts[g].values) for g in others) // len(places))
        compared = []
        for place in places:
            every = np.arange(T)
            if n < T:
                # half of them near the atom, half of them far and wide
                nearest = np.argsort(np.abs(every - place[first]), kind="stable")[: n // 2 + 1]
                every = np.union1d(nearest, np.linspace(0, T - 1, n // 2 + 1).astype(np.intp))
            starts = np.repeat(place[None], len(every), axis=0)
            starts[:, first] = every
            compared.append(starts)
        return np.unique(np.concatenate(compared), axis=0)

    def _place(self, part: Cuts, atoms: Gains, g: int) -> NDArray[np.intp]:
        """Return which threshold of a group decides most like each of the ``atoms`` (B)."""
        a, b = (atoms if self.layout is None else self.layout.gains_of(atoms, g)).pair()
        with np.errstate(divide="ignore", invalid="ignore"):
            # class 1 is decided where a_1 p_1 + b_1 >= a_0 (1 - p_1) + b_0
            cut = (a[:, 0] + b[:, 0] - b[:, 1]) / (a[:, 0] + a[:, 1])
        cut = np.where(np.isnan(cut), np.where(b[:, 1] >= b[:, 0], -np.inf, np.inf), cut)
        falling = part.values.astype(np.float64) if part.by == 1 else part.values.astype(np.float64) + 1.0
        return np.minimum(np.searchsorted(-falling, -cut), len(falling) - 1)

    def _best_of_group(self, problem: Problem, at: NDArray[np.intp], g: int) -> tuple[NDArray[np.intp], Array, Array]:
        """Return the best thresholds (S,) of a group with those ``at`` (S, G) of the others, and what they rank by.

        These are by how much a limit is missed (S,), and values (S,).
        """
        T = len(self.parts[g].values)
        compared = [
            self._compared(problem, some, g, T) for some in np.array_split(at, min(len(at), -(-len(at) * T // BATCH)))
        ]
        best, missed, values = (np.concatenate(part) for part in zip(*compared, strict=True))
        return best, missed, values

    def _compared(
        self, problem: Problem, at: NDArray[np.intp], g: int, T: int
    ) -> tuple[NDArray[np.intp], Array, Array]:
        places = [np.tile(np.arange(T), len(at)) if h == g else np.repeat(at[:, h], T) for h in range(at.shape[1])]
        S = self._confusions(self.parts, places)
        assert problem.limits is not None
        missed = -problem.limits.slacks(S).min(axis=-1)
        missed = np.where(missed > MISSED, missed, 0.0).reshape(-1, T)
        # rounding must not choose between rules of one value
        values = np.nan_to_num(problem.metric.values(S).round(DIGITS), nan=-np.inf, posinf=np.inf).reshape(-1, T)
        least = missed.min(axis=1)
        best = np.where(missed == least[:, None], values, -np.inf).argmax(axis=1)
        return best, least, values[np.arange(len(at)), best]

    def _rules(self, parts: tuple[Cuts, ...], places: list[NDArray[np.intp]]) -> tuple[Gains, Confusion]:
        """Return gains and confusions (B) of the thresholds at ``places`` (G lists of B)."""
        gains = [part.gains(index) for part, index in zip(parts, places, strict=True)]
        return gains[0] if self.layout is None else self.layout.beside(gains), self._confusions(parts, places)

    def _confusions(self, parts: tuple[Cuts, ...], places: list[NDArray[np.intp]]) -> Confusion:
        compared = [part.confusions[index] for part, index in zip(parts, places, strict=True)]
        if self.layout is None:
            return replace(compared[0], rows=self.rows)
        shares = self.rows.reshape(self.layout.n_groups, -1).sum(axis=1)
        return replace(self.layout.joined(compared, shares), rows=self.rows)
