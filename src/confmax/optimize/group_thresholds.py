"""Two classes within limits, on any estimate: the best thresholds of every group, whose rows are sorted once.

On the model confusion the oracle's answer to a gain is its maximiser. On labels it is not, but thresholds of p sort the
rows all the same, and the best of all thresholds for a gain is known from their counts. Column generation with these
answers ends at the best rule that draws between thresholds. A single rule has one threshold for every group. The prices
of the best mixture say how much a better one can lack, and all combinations of thresholds that lack no more are
compared: then it is the best of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.optimize.columns import Columns
from confmax.optimize.estimate import Estimate
from confmax.optimize.loop import Problem
from confmax.optimize.mixture import Mixture
from confmax.optimize.rounding import BATCH, DIGITS, HALVINGS, LEFT_OVER
from confmax.optimize.threshold import Thresholds, hull_chains
from confmax.tables import Table

CELLS = 300_000  # rules that the search of a single one compares for each group
STAGES = (4_000, 40_000)  # combinations that are compared at most: a better rule leaves fewer


@dataclass(frozen=True, eq=False)
class GroupThresholds:
    """All thresholds of every group."""

    # those of each group (G), of all rows where there are no groups
    parts: tuple[Thresholds, ...]
    # which of them are at the corners of their hull, one of which is the best for any gain
    corners: tuple[NDArray[np.intp], ...]
    # (2 G,): class sizes
    rows: Array
    layout: Layout | None

    @classmethod
    def of(cls, problem: Problem) -> GroupThresholds | None:
        """Sort the rows of a ``problem``, in one pass; None where no threshold divides them."""
        oracle = problem.oracle
        if not oracle.table.decides_between_two(problem.n_decisions):
            return None
        return oracle.table.sorting(lambda: cls._of_sorted(problem), None, in_groups=True)

    @classmethod
    def _of_sorted(cls, problem: Problem) -> GroupThresholds:
        oracle = problem.oracle
        layout = oracle.table.layout
        parts = []
        shares = oracle.rows.reshape(-1, 2).sum(axis=1).tolist()
        for g, (part, rows) in enumerate(oracle.read_groups("the search of thresholds")):
            cuts = Thresholds.of(Estimate.alike(Table.of(rows), part.model_share), matrix=problem.needs_matrix)
            if problem.limits is not None and any(problem.limits.tested):
                own = problem.limits.of_group(g, shares[g])
                passed = own.passed(cuts.confusions) if len(own) else np.zeros(0, dtype=np.bool_)
                # where no threshold passes, the search says how near the limits come
                cuts = cuts.among(passed) if passed.any() else cuts
            parts.append(cuts)
        corners = (np.union1d(*hull_chains(part.confusions)) for part in parts)
        return cls(tuple(parts), tuple(corners), oracle.rows, layout)

    def answers(self, gains: Gains) -> tuple[Gains, Confusion]:
        """Return the best thresholds for ``gains`` (B), as gains, with their confusions."""
        places = []
        for g, (part, corners) in enumerate(zip(self.parts, self.corners, strict=True)):
            mine = gains if self.layout is None else self.layout.gains_of(gains, g)
            places.append(corners[mine.heights(part.confusions[corners]).argmax(axis=1)])
        return self._rules(places)

    def single(self, problem: Problem, columns: Columns, near: Sequence[Mixture]) -> tuple[Gains, Confusion, bool]:
        """Return the best single rule (1) that a search from rules ``near`` meets, and whether there is no better one.

        These are mixtures, of which the last is the best single rule so far.
        """
        places, rank, proved = self._nearest(problem, columns, near[-1])
        if not proved:
            further = self._by_groups(problem, near)
            again, values = problem.ranks(self._confusions(further))
            if places is None or (-float(again[0]), float(values[0])) > rank:
                places = further
        assert places is not None
        return *self._rules(places), proved

    def _nearest(
        self, problem: Problem, columns: Columns, best: Mixture
    ) -> tuple[list[NDArray[np.intp]] | None, tuple[float, float], bool]:
        """Return the best thresholds (1 of each group) of those that lack least, their rank, and whether it is proved.

        No rule that keeps the limits and is better than ``best`` lacks more than a known height at the prices of the
        mixture. What it lacks is the sum of what the thresholds of its groups lack: few combinations lack so little.
        """
        rank = (-problem.shortfall(best.confusion), problem.value(best.confusion))
        found = None
        if not np.isfinite(columns.optimum.gain).all():
            return found, rank, False
        for most in STAGES:
            lacks, room = self._lacks(columns, *rank)
            orders = [np.argsort(lack, kind="stable") for lack in lacks]
            places, every = _combined([lack[order] for lack, order in zip(lacks, orders, strict=True)], room, most)
            at = [order[place] for order, place in zip(orders, places, strict=True)]
            for some in np.array_split(np.arange(len(at[0])), -(-len(at[0]) // BATCH)):
                chosen = [place[some] for place in at]
                missed, values = problem.ranks(self._confusions(chosen))
                # rounding must not choose between rules of one value
                k = int(np.lexsort((values.round(DIGITS), -missed))[-1])
                if found is None or (-missed[k], values[k]) > rank:
                    found = [place[[k]] for place in chosen]
                    rank = max(rank, (-float(missed[k]), float(values[k])))
            if every:
                break
        return found, rank, every and columns.is_feasible and not columns.master.climbs

    def _by_groups(self, problem: Problem, near: Sequence[Mixture]) -> list[NDArray[np.intp]]:
        """Return the best thresholds (1 of each group) that a search of one group after another meets."""
        # from many thresholds of the group that has fewest, those of the others are searched, and its own at last
        first, *others = sorted(range(len(self.parts)), key=lambda g: len(self.parts[g]))
        at = self._starts(near, first, others)
        for g in (*others, first):
            at[:, g], missed, values = self._best_of_group(problem, at, g)
        k = int(np.where(missed == missed.min(), values, -np.inf).argmax())
        return list(at[[k]].T)

    def _lacks(self, columns: Columns, slack: float, value: float) -> tuple[list[Array], float]:
        """Return what every threshold of every group lacks of the best at the prices, and what a better rule may lack.

        Better rules than one of a ``slack`` and a ``value`` are those of more slack, or of a larger value.
        """
        points = columns.points
        space = points.space
        optimum = columns.optimum
        gain = optimum.gain.copy()
        objective, prices = space.split(gain)
        if not columns.is_feasible:
            least = slack * float(prices.sum())
        elif slack < 0.0:
            least = -np.inf
        elif space.ratio is not None:
            # the numerator of a better rule exceeds the value times its denominator
            gain[1] = -value * gain[0]
            least = 0.0
        elif space.minimum_of is not None and not space.form.has_slopes:
            least = value * float(objective.sum())
        else:
            least = float(objective @ space.split(optimum.point)[0]) + value - optimum.value
        priced = space.gains(gain[None])
        # functions have constants, which gains do not
        constant = float(points.z[0] @ gain - priced.dot(points.confusions[0])[0])
        heights = [
            share * (priced if self.layout is None else self.layout.gains_of(priced, g)).heights(part.confusions)[0]
            for g, (share, part) in enumerate(zip(self.shares, self.parts, strict=True))
        ]
        lacks = [height.max() - height for height in heights]
        room = constant + sum(float(height.max()) for height in heights) - least
        return lacks, float(np.clip(room, 0.0, sum(lack.max() for lack in lacks))) + LEFT_OVER

    def _starts(self, near: Sequence[Mixture], first: int, others: list[int]) -> NDArray[np.intp]:
        """Return thresholds (S, G) to start from: of the atoms of mixtures, with many of the ``first`` group."""
        atoms = Gains.concatenate([gain for rule in near for gain in rule.atoms])
        places = np.stack([self._place(part, atoms, g) for g, part in enumerate(self.parts)], axis=1)
        if not others:
            return places[:1]
        if len(others) == 1:
            # the search of the other group does not depend on where it starts
            places[:, others] = 0
        places = np.unique(places, axis=0)
        T = len(self.parts[first])
        n = max(1, CELLS // sum(len(self.parts[g]) for g in others) // len(places))
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

    def _place(self, part: Thresholds, atoms: Gains, g: int) -> NDArray[np.intp]:
        """Return which threshold of a group decides most like each of the ``atoms`` (B)."""
        a, b = (atoms if self.layout is None else self.layout.gains_of(atoms, g)).pair()
        with np.errstate(divide="ignore", invalid="ignore"):
            # class 1 is decided where a_1 p_1 + b_1 >= a_0 (1 - p_1) + b_0
            cut = (a[:, 0] + b[:, 0] - b[:, 1]) / (a[:, 0] + a[:, 1])
        cut = np.where(np.isnan(cut), np.where(b[:, 1] >= b[:, 0], -np.inf, np.inf), cut)
        falling = part.values if part.by == 1 else part.values + 1.0
        return np.minimum(np.searchsorted(-falling, -cut), len(falling) - 1)

    def _best_of_group(self, problem: Problem, at: NDArray[np.intp], g: int) -> tuple[NDArray[np.intp], Array, Array]:
        """Return the best thresholds (S,) of a group with those ``at`` (S, G) of the others, and what they rank by.

        These are by how much a limit is missed (S,), and values (S,).
        """
        T = len(self.parts[g])
        compared = [
            self._compared(problem, some, g, T) for some in np.array_split(at, min(len(at), -(-len(at) * T // BATCH)))
        ]
        best, missed, values = (np.concatenate(part) for part in zip(*compared, strict=True))
        return best, missed, values

    def _compared(
        self, problem: Problem, at: NDArray[np.intp], g: int, T: int
    ) -> tuple[NDArray[np.intp], Array, Array]:
        places = [np.tile(np.arange(T), len(at)) if h == g else np.repeat(at[:, h], T) for h in range(at.shape[1])]
        S = self._confusions(places)
        missed, values = (part.reshape(-1, T) for part in problem.ranks(S))
        # rounding must not choose between rules of one value
        values = values.round(DIGITS)
        least = missed.min(axis=1)
        best = np.where(missed == least[:, None], values, -np.inf).argmax(axis=1)
        return best, least, values[np.arange(len(at)), best]

    def _rules(self, places: list[NDArray[np.intp]]) -> tuple[Gains, Confusion]:
        """Return gains and confusions (B) of the thresholds at ``places`` (G lists of B)."""
        gains = [part.gains(index) for part, index in zip(self.parts, places, strict=True)]
        return gains[0] if self.layout is None else self.layout.beside(gains), self._confusions(places)

    @property
    def shares(self) -> Array:
        """The weight of every group (G,)."""
        return self.rows.reshape(len(self.parts), -1).sum(axis=1)

    def _confusions(self, places: list[NDArray[np.intp]]) -> Confusion:
        compared = [part.confusions[index] for part, index in zip(self.parts, places, strict=True)]
        if self.layout is None:
            return replace(compared[0], rows=self.rows)
        return replace(self.layout.joined(compared, self.shares), rows=self.rows)


def _combined(lacks: list[Array], room: float, most: int) -> tuple[list[NDArray[np.intp]], bool]:
    """Return places in rising lists whose sum is at most ``room``, and whether these are all of them.

    At most so many combinations are returned, those of the smallest sums.
    """
    first, *others = lacks
    places = [np.arange(min(most, int(np.searchsorted(first, room, side="right"))))]
    every = len(places[0]) == len(first) or len(places[0]) < most
    sums = first[places[0]]
    for further in others:
        rising = np.argsort(sums, kind="stable")
        limit = _limit(sums[rising], further, room, most)
        counts = np.searchsorted(further, limit - sums[rising], side="right")
        every = every and limit == room and int(counts.sum()) <= most
        i = np.repeat(rising, counts)[:most]
        j = (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))[:most]
        places = [*(place[i] for place in places), j]
        sums = sums[i] + further[j]
    return places, every


def _limit(first: Array, second: Array, room: float, most: int) -> float:
    """Return the largest sum, at most ``room``, that at most so many pairs of two rising lists do not exceed."""

    def n_pairs(limit: float) -> int:
        return int(np.searchsorted(second, limit - first, side="right").sum())

    if n_pairs(room) <= most:
        return room
    low, high = 0.0, room
    for _ in range(HALVINGS // 3):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if n_pairs(middle) <= most else (low, middle)
    return low
