"""Rows and decisions with a capacity: the assignment of the largest total score, exactly.

This is a transportation problem: every row takes one decision j, and at most ``capacity_j`` rows take it. Its dual has
one price per decision, at which every row takes the decision with the largest score less price. Sweeps of prices, each
set so that the demand for its decision meets the capacity, come close to the best ones. What is then left over is moved
along shortest paths of decisions (successive shortest paths; Ahuja, Magnanti and Orlin, Network Flows, 1993, section
9.7). A path may lead a row from A to B and another one from B to C. The paths have no more nodes than there are
decisions, so a step takes no time that depends on the rows.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array

SWEEPS = 40  # of prices, at most
LEFT = 200  # rows over the capacities for which one more sweep is not worth its time: a path takes about 0.1 ms
ROUND = 4096  # paths after which the lists of rows that may move are made anew, so that they stay short


def assigned(scores: Array, capacity: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the decision of every row (n,) whose total score is the largest, within the ``capacity`` (M,).

    Parameters
    ----------
    scores : ndarray (M, n)
        Finite numbers, a line per decision.
    capacity : ndarray (M,) of int64
        At how many rows each decision may be made, at least 1. The sum is at least n.

    Examples
    --------
    >>> assigned(np.array([[5.0, 4.0, 1.0], [1.0, 2.0, 0.0]]), np.array([1, 2])).tolist()
    [0, 1, 1]
    """
    prices, where = _priced(scores, capacity)
    _Moves(scores, capacity, prices, where).settle()
    return where


def _priced(scores: Array, capacity: NDArray[np.int64]) -> tuple[Array, NDArray[np.intp]]:
    """Return prices (M,), and the decision of every row (n,) that is best at these prices."""
    (M, n) = scores.shape
    prices = np.zeros(M)
    limited = np.flatnonzero(capacity < n)
    net = scores.copy()
    where = net.argmax(axis=0)
    for _ in range(SWEEPS):
        if _left_over(where, prices, capacity) <= LEFT:
            break
        before = prices.copy()
        for j in limited:
            net[j] = -np.inf
            prices[j] = _price_of(scores[j] - net.max(axis=0), int(capacity[j]))
            net[j] = scores[j] - prices[j]
        where = net.argmax(axis=0)
        if np.array_equal(prices, before):
            break
    return prices, where


def _price_of(margin: Array, capacity: int) -> float:
    """Return the price from which ``capacity`` rows, or fewer, want a decision that leads by ``margin`` (n,)."""
    place = len(margin) - capacity
    low, high = np.partition(margin, [place - 1, place])[place - 1 : place + 1]
    # any number between the two does; the middle one leaves room for the prices that change next
    return float(low + (high - low) / 2.0) if low > 0.0 else 0.0


def _left_over(where: NDArray[np.intp], prices: Array, capacity: NDArray[np.int64]) -> int:
    """Return how many rows are to be moved: over a capacity, or missing at a decision that has a price."""
    load = np.bincount(where, minlength=len(capacity))
    excess = load - np.where(prices > 0.0, capacity, np.minimum(load, capacity))
    return int(max(excess[excess > 0].sum(), -excess[excess < 0].sum()))


class _Moves:
    """The decisions ``where`` (n,) of all rows, which `settle` changes until they are within the capacities.

    The nodes of the network are the M decisions, and a sink in the place M that takes a unit for every row. ``used``
    (M,) is the flow from each decision to the sink. ``excess`` (M + 1,) is what flows into a node and not out of it.
    ``prices`` (M + 1,) are potentials: at these no arc of the residual network has a negative length, so that the flow
    is the best one among those with the same excess.
    """

    def __init__(self, scores: Array, capacity: NDArray[np.int64], prices: Array, where: NDArray[np.intp]) -> None:
        self.scores = scores
        self.capacity = capacity
        self.where = where
        load = np.bincount(where, minlength=len(capacity))
        self.used = np.where(prices > 0.0, capacity, np.minimum(load, capacity))
        self.excess = np.append(load - self.used, self.used.sum() - len(where))
        self.prices = np.append(prices, 0.0)

    def settle(self) -> None:
        """Send every excess along the shortest path to the next node that lacks a unit."""
        while (left := int(self.excess[self.excess > 0].sum())) > 0:
            steps = min(left, ROUND)
            # each step takes at most one row from a decision: more than these never move
            self._list_rows(steps + 1)
            for _ in range(steps):
                self._step()

    def _list_rows(self, most: int) -> None:
        """List, for every pair of decisions, the ``most`` rows for which the move from one to the other costs least."""
        M = len(self.capacity)
        self.rows: list[list[list[tuple[float, int]]]] = []
        self.length = np.full((M + 1, M + 1), np.inf)
        for j in range(M):
            mine = np.flatnonzero(self.where == j)
            self.rows.append([self._cheapest(mine, j, k, most) if k != j else [] for k in range(M)])
            self._measure(j)

    def _cheapest(self, mine: NDArray[np.intp], j: int, k: int, most: int) -> list[tuple[float, int]]:
        cost = self.scores[j, mine] - self.scores[k, mine]
        if len(mine) > most:
            chosen = np.argpartition(cost, most)[:most]
            mine, cost = mine[chosen], cost[chosen]
        order = np.lexsort((mine, cost))
        return list(zip(cost[order].tolist(), mine[order].tolist(), strict=True))

    def _measure(self, j: int) -> None:
        """Write the cheapest moves out of a decision to ``length``."""
        for k, heap in enumerate(self.rows[j]):
            # a row that has moved on stays in the lists of where it was until it comes up
            while heap and self.where[heap[0][1]] != j:
                heappop(heap)
            self.length[j, k] = heap[0][0] if heap else np.inf

    def _step(self) -> None:
        """Send one unit along the shortest path."""
        M = len(self.capacity)
        self.length[:M, M] = np.where(self.used < self.capacity, 0.0, np.inf)
        self.length[M, :M] = np.where(self.used > 0, 0.0, np.inf)
        # not negative but for rounding, which must not lead in circles
        reduced = np.maximum(self.length - self.prices[:, None] + self.prices, 0.0)
        path = self._shortest(reduced)
        moves = [(j, k, self.rows[j][k][0][1]) for j, k in pairwise(path) if M not in (j, k)]
        for j, k in pairwise(path):
            if k == M:
                self.used[j] += 1
            elif j == M:
                self.used[k] -= 1
        for _, k, row in moves:
            self.where[row] = k
            for other, heap in enumerate(self.rows[k]):
                if other != k:
                    heappush(heap, (float(self.scores[k, row] - self.scores[other, row]), row))
        for j in {j for j in path if j != M}:
            self._measure(j)
        self.excess[path[0]] -= 1
        self.excess[path[-1]] += 1

    def _shortest(self, length: Array) -> list[int]:
        """Return the shortest path from an excess to a lack (Dijkstra), and change the prices by the distances."""
        size = len(length)
        distance = np.where(self.excess > 0, 0.0, np.inf)
        before = np.full(size, -1)
        is_open = np.ones(size, dtype=np.bool_)
        while True:
            i = int(np.where(is_open, distance, np.inf).argmin())
            is_open[i] = False
            if self.excess[i] < 0:
                break
            through = distance[i] + length[i]
            nearer = is_open & (through < distance)
            distance[nearer] = through[nearer]
            before[nearer] = i
        self.prices -= np.minimum(distance, distance[i])
        path = [i]
        while before[path[0]] >= 0:
            path.insert(0, int(before[path[0]]))
        return path
