"""The breakpoints of one coefficient: where decisions change along it, and the metric between these places.

With all other coefficients fixed, class j wins a row as soon as its score reaches the best of the others. So each row
has one breakpoint in the weight or the offset of class j, and the rows change hands one after the other as it rises.
The sorted breakpoints give every value that the metric can take along the coefficient: the statistics follow by
increments, in compiled code, and the metric is evaluated on batches of them. The scores are the oracle's own, in the
table's dtype. Breakpoints closer than the dtype's rounding are treated as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import block_rows, over_rows
from confmax.kernels.order import stable_order
from confmax.metrics import Metric
from confmax.metrics.structure import Statistics
from confmax.optimize.rounding import BATCH, BEST, DIGITS, NEGLIGIBLE
from confmax.oracle import CountingOracle
from confmax.tables import Part
from confmax.tables.precision import gain_coefficients, is_wide

ROWS = 1 << 15  # rows per part of the scan
ROUNDING = NEGLIGIBLE  # values this close are one value
STRETCH = 32  # cuts of which a bound is computed at once
Kind = Literal["weight", "offset"]
BEYOND = 1e100  # stands for an infinite value, so that differences are numbers


class Coordinate(NamedTuple):
    """One coefficient of a gain: the weight or the offset of a decision."""

    kind: Kind
    decision: int


@dataclass(frozen=True, eq=False)
class Breakpoints:
    """The intervals between adjacent breakpoints of one coefficient, and the metric on each (T,).

    ``low`` is minus infinity (offsets) or zero (weights) for the first and ``high`` infinity for the last.
    """

    coordinate: Coordinate
    low: Array
    high: Array
    values: Array

    def best(self, above: float, most: int) -> Array:
        """Return up to ``most`` coefficients, best value first and, of equal values, the widest interval first.

        Adjacent intervals of the same value are one; only values greater than ``above`` count. Intervals without end
        come after all others of their value.
        """
        better = np.flatnonzero(self.values > above + ROUNDING)
        if not len(better):
            return np.empty(0)
        values = self.values[better]
        starts = np.append(0, np.flatnonzero((np.diff(better) > 1) | (np.abs(np.diff(values)) > ROUNDING)) + 1)
        value = values[starts]
        low = self.low[better[starts]]
        high = self.high[better[np.append(starts[1:], len(better)) - 1]]
        # weights matter by their ratios; the logarithm of the weight zero is no end
        with np.errstate(divide="ignore"):
            start, end = (np.log(low), np.log(high)) if self.coordinate.kind == "weight" else (low, high)
        bounded = np.isfinite(start) & np.isfinite(end)
        width = np.subtract(end, start, out=np.full(len(value), -1.0), where=bounded)
        order = np.lexsort((-width, -np.round(value, DIGITS)))[:most]
        return self._between(low[order], high[order])

    def _between(self, low: Array, high: Array) -> Array:
        """Return a coefficient inside each interval: the middle, on a log scale for weights."""
        # an interval without end goes on as far as all breakpoints reach (offsets), or by a factor of four (weights)
        start = np.where(np.isfinite(low) & (low > self.low[0]), low, np.nan)
        end = np.where(np.isfinite(high), high, np.nan)
        lowest = float(self.high[0])
        highest = float(self.low[-1])
        if self.coordinate.kind == "weight":
            upper = np.where(np.isnan(end), 4.0 * np.where(np.isnan(start), highest, start), end)
            lower = np.where(np.isnan(start), np.fmin(upper, lowest) / 4.0, start)
            return np.sqrt(lower) * np.sqrt(upper)
        span = (highest - lowest) or abs(highest) or 1.0
        upper = np.where(np.isnan(end), np.where(np.isnan(start), highest, start) + span, end)
        lower = np.where(np.isnan(start), np.fmin(upper, lowest) - span, start)
        return lower + (upper - lower) / 2.0


def better_values(
    metric: Metric, oracle: CountingOracle, gain: Gains, coordinate: Coordinate, above: float
) -> Gains | None:
    """Return ``gain`` with the best values of one coefficient, a batch; None if no value of the metric is ``above``."""
    line = breakpoints(metric, oracle, gain, coordinate)
    values = np.empty(0) if line is None else line.best(above, BEST)
    return moved(gain, coordinate, values) if len(values) else None


class Merit(Protocol):
    """What rules are compared by; a metric is one."""

    @property
    def statistics(self) -> Statistics:
        """What it reads."""

    def values(self, S: Confusion) -> Array:
        """Return the values (B,) of a batch."""


@dataclass(frozen=True, eq=False)
class Scored:
    """The rows of an oracle with their scores by one gain (a batch of one, as `working_gain` returns it)."""

    oracle: CountingOracle
    table: Part
    gain: Gains
    # scores are ``x_j a_j + b_j``
    x: NDArray[Any]
    a: NDArray[Any]
    b: NDArray[Any]

    @classmethod
    def of(cls, oracle: CountingOracle, table: Part, gain: Gains) -> Scored:
        """Score the rows of a ``table``, which are those of the oracle."""
        kind = ScoredLabels if table.decisions.several else Scored
        return kind(oracle, table, gain, *_score_parts(table, gain))

    def rivals(self, j: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the best score (n,) of every row without decision j, and whose it is; ties go to the largest index.

        Of several labels, it is the last of those that a row gets without j: minus one where j takes nothing away.
        """
        # weight and offset of a decision have the same rivals
        if j not in self._known:
            self._known[j] = self._rivals_of(j)
        return self._known[j]

    def _rivals_of(self, j: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
        return _rivals(self.x, self.a, self.b, j)

    def walk(self, way: Way, stops: NDArray[np.intp], *, matrix: bool) -> Iterator[Confusion]:
        """Yield, in batches, the confusions of deciding j on the rows ``order[:stop]``, the rival on the others."""
        oracle = self.oracle
        table = self.table
        labels = np.empty(0, np.int64) if table.labels is None else table.labels
        rows = (
            table.proba,
            oracle.model_share,
            labels,
            table.weighing.for_kernels,
            way.rival,
            way.j,
            table.weight_total,
        )
        K = table.n_classes
        M = self.gain.n_decisions
        shapes = ((K,), (M,), (K, M) if matrix else (0, 0))
        sums = tuple(np.zeros(shape) for shape in shapes)
        size = _at_once(K, M, matrix)
        done = -1
        for first in range(0, len(stops), size):
            here = stops[first : first + size]
            out = tuple(np.empty((len(here), *shape)) for shape in shapes)
            if kernels.native is None:
                _walk_by_numpy(rows, way.order, done, here, sums, out)
            else:
                kernels.native.walk(*rows, way.order, done, here, *sums, *out)
            done = int(here[-1])
            diagonal, columns, full = out
            yield Confusion(oracle.rows, diagonal, columns, full if matrix else None)

    @cached_property
    def scores(self) -> NDArray[Any]:
        """The scores (n, M) of all decisions."""
        return self.x * self.a + self.b

    @cached_property
    def _known(self) -> dict[int, tuple[NDArray[Any], NDArray[np.int32]]]:
        return {}


class ScoredLabels(Scored):
    """The rows of an oracle that get several labels, k or at most k of them, with their scores."""

    def _rivals_of(self, j: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
        decisions = self.table.decisions
        assert decisions.most is not None
        n = len(self.x)
        others = np.delete(np.arange(len(self.a)), j)
        nobody = np.full(n, 0.0 if decisions.positive else -np.inf, self.x.dtype), np.full(n, -1, np.int32)
        if decisions.most > len(others):
            return nobody
        offered = self.scores[:, others]
        # of equal scores a stable order has the largest index last
        last = np.argsort(offered, axis=1, kind="stable")[:, len(others) - decisions.most, None]
        best = np.take_along_axis(offered, last, axis=1)[:, 0]
        free = best <= 0.0 if decisions.positive else np.zeros(n, dtype=np.bool_)
        return np.where(free, nobody[0], best), np.where(free, -1, others[last[:, 0]]).astype(np.int32)

    def walk(self, way: Way, stops: NDArray[np.intp], *, matrix: bool) -> Iterator[Confusion]:
        """Yield `Scored.walk` where j takes the place of the rival, if there is one."""
        oracle = self.oracle
        table = self.table
        share = np.asarray(oracle.model_share, dtype=np.float64)
        true = share * table.proba
        if table.labels is not None:
            true = true + (1.0 - share) * table.labels
        w = table.weights / table.weight_total
        without = table.decisions.chosen(np.where(np.arange(len(self.a)) == way.j, -np.inf, self.scores))
        without[:, way.j] = False
        hits, decided = w @ (without * true), w @ without
        L = len(decided)
        size = max(1, BATCH // L)
        done = 0
        for first in range(0, len(stops), size):
            here = stops[first : first + size]
            r = way.order[done : here[-1]]
            stop = np.searchsorted(here, np.arange(done, here[-1]), side="right")
            ousts = way.rival[r] >= 0
            moves = np.zeros((2, len(here), L))
            for rows, to, label, sign in (
                (r, stop, np.full(len(r), way.j), 1.0),
                (r[ousts], stop[ousts], way.rival[r[ousts]], -1.0),
            ):
                _add(moves[0], to * L + label, sign * w[rows] * true[rows, label])
                _add(moves[1], to * L + label, sign * w[rows])
            by_hits, by_decided = np.cumsum(moves, axis=1)
            yield Confusion(oracle.rows, np.maximum(hits + by_hits, 0.0), np.maximum(decided + by_decided, 0.0))
            hits, decided, done = hits + by_hits[-1], decided + by_decided[-1], int(here[-1])


class Way(NamedTuple):
    """The way along one coefficient: rows go to decision j in their ``order`` (n,), from their ``rival`` (n,)."""

    j: int
    order: NDArray[np.intp]
    rival: NDArray[np.int32]


# upper bounds (B,) on what rules are compared by, where all statistics lie between two batches of confusions
Bound = Callable[[Confusion, Confusion], Array]


def breakpoints(metric: Merit, oracle: CountingOracle, gain: Gains, coordinate: Coordinate) -> Breakpoints | None:
    """Return every way to set one coefficient of a gain; None if it changes no decision. This counts as a pass.

    ``gain`` is a batch of one, as `working_gain` returns it; all else is as for `all_breakpoints`.
    """
    rows = oracle.read_rows("the search of one coefficient")
    return next(all_breakpoints(metric, Scored.of(oracle, rows, gain), [coordinate]), None)


def all_breakpoints(
    metric: Merit,
    scored: Scored,
    coordinates: Iterable[Coordinate],
    bound: Bound | None = None,
    above: float = -np.inf,
) -> Iterator[Breakpoints]:
    """Yield every way to set each coefficient, of those that change a decision, of the gain of ``scored`` rows.

    ``metric`` is evaluated on the labels or, for an exact oracle, on the model confusion. With a ``bound`` on it,
    intervals that cannot exceed ``above`` have the value ``-BEYOND``. As many coefficients as fit are valued together.

    O(n log n + n K) each for metrics of the statistics, n K^2 more for the matrix. Scores are those of the oracle, in
    the table's dtype; breakpoints that differ by rounding of that dtype are one. Weights are positive.
    """
    matrix = metric.statistics == "matrix"
    lines = [line for each in coordinates if (line := _Line.of(scored, each, matrix)) is not None]
    most = _at_once(len(scored.oracle.rows), scored.gain.n_decisions, matrix)
    begin = 0
    for end in range(1, len(lines) + 1):
        if end == len(lines) or sum(len(line.stops) for line in lines[begin : end + 1]) > most:
            yield from _valued(metric, lines[begin:end], bound, above)
            begin = end


@dataclass(frozen=True, eq=False)
class _Line:
    """The intervals of one coefficient: between ``low`` and ``high`` (T,) the rows before each of ``stops`` (T,) go."""

    coordinate: Coordinate
    low: Array
    high: Array
    stops: NDArray[np.intp]
    confusions: Callable[[NDArray[np.intp]], Iterator[Confusion]]

    @classmethod
    def of(cls, scored: Scored, coordinate: Coordinate, matrix: bool) -> _Line | None:
        """Return the intervals of one coefficient; None if it changes no decision."""
        j = coordinate.decision
        best, rival = scored.rivals(j)
        wins_ties = (j > rival) & (rival >= 0)
        points, slack = _row_breakpoints(coordinate.kind, scored.x[:, j], scored.a[j], scored.b[j], best, wins_ties)
        order = stable_order(points)
        points = points[order]
        slack = slack[order]
        always = int(np.searchsorted(points, -np.inf, side="right"))
        finite = int(np.searchsorted(points, np.inf, side="left"))
        # rows before `always` and from `finite` on are decided alike at every coefficient
        if finite == always:
            return None
        inner = points[always:finite]
        # between breakpoints that rounding may exchange there is no cut: the oracle could decide either row differently
        reach = np.maximum(slack[always : finite - 1], slack[always + 1 : finite])
        apart = np.flatnonzero(inner[1:] - inner[:-1] > reach)
        stops = np.concatenate([[always], always + apart + 1, [finite]])
        bottom = 0.0 if coordinate.kind == "weight" else -np.inf
        low = np.concatenate([[bottom], inner[apart], inner[-1:]])
        high = np.concatenate([inner[:1], inner[apart + 1], [np.inf]])
        walk = partial(scored.walk, Way(j, order, rival), matrix=matrix)
        return cls(coordinate, low, high, stops, walk)


def _valued(metric: Merit, lines: list[_Line], bound: Bound | None, above: float) -> Iterator[Breakpoints]:
    """Yield the breakpoints of ``lines``, with the values of the metric."""
    picked = [np.arange(len(line.stops)) for line in lines] if bound is None else _hopeful(lines, bound, above)
    parts = [S for line, index in zip(lines, picked, strict=True) for S in line.confusions(line.stops[index])]
    if len(lines) > 1 and parts:
        parts = [Confusion.concatenate(parts)]
    found = np.concatenate([np.zeros(0), *(np.broadcast_to(metric.values(S), len(S)) for S in parts)])
    found = np.nan_to_num(found, nan=-BEYOND, posinf=BEYOND, neginf=-BEYOND)
    ends = np.cumsum([len(index) for index in picked])
    for line, index, reached in zip(lines, picked, np.split(found, ends[:-1]), strict=True):
        values = np.full(len(line.stops), -BEYOND)
        values[index] = reached
        yield Breakpoints(line.coordinate, line.low, line.high, values)


def _hopeful(lines: list[_Line], bound: Bound, above: float) -> list[NDArray[np.intp]]:
    """Return which of the stops (T,) of each line may have a value ``above``.

    Along a coefficient every statistic rises or falls all the way, so between two stops it lies between theirs.
    """
    ends = [np.append(np.arange(0, len(line.stops) - 1, STRETCH), len(line.stops) - 1) for line in lines]
    low: list[Confusion] = []
    high: list[Confusion] = []
    for line, at in zip(lines, ends, strict=True):
        S = Confusion.concatenate(list(line.confusions(line.stops[at])))
        first, last = S[:-1], S[1:]
        for found, pick in ((low, np.minimum), (high, np.maximum)):
            found.append(Confusion(S.rows, pick(first.diagonal, last.diagonal), pick(first.columns, last.columns)))
    hopeful = bound(Confusion.concatenate(low), Confusion.concatenate(high)) >= above
    parts = np.split(hopeful, np.cumsum([len(at) - 1 for at in ends])[:-1])
    return [
        np.flatnonzero(np.append(np.repeat(part, np.diff(at)), part[-1])) for part, at in zip(parts, ends, strict=True)
    ]


def _at_once(n_classes: int, n_decisions: int, matrix: bool) -> int:
    """Return how many confusions are held at once."""
    return max(1, BATCH // (n_classes * n_decisions if matrix else n_classes + n_decisions))


def working_gain(gain: Gains, dtype: np.dtype[Any]) -> Gains:
    """Return the same gain (a batch of one) with the coefficients that the oracle uses: scaled, rounded to dtype."""
    # a score of distances is no product of one probability and one weight; a matrix has offsets to search
    if gain.power:
        gain = Gains.from_matrix(gain.matrices())
    first, second = gain_coefficients(gain, np.dtype(np.float64) if is_wide(gain, dtype).any() else dtype)
    return Gains.from_matrix(first) if second is None else Gains.reduced(first, second)


def moved(gain: Gains, coordinate: Coordinate, values: Array) -> Gains:
    """Return the batch of gains that have ``values`` (B,) in place of one coefficient.

    In a full gain, the value is added to the column.
    """
    j = coordinate.decision
    if gain.full is not None:
        full = np.repeat(gain.full, len(values), axis=0)
        full[:, :, j] += values[:, None]
        return Gains.from_matrix(full)
    a, b = (np.repeat(part, len(values), axis=0) for part in gain.pair())
    (a if coordinate.kind == "weight" else b)[:, j] = values
    return Gains.reduced(a, b)


# --- steps ---------------------------------------------------------------------------------------------------------


def _score_parts(table: Part, gain: Gains) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return (X, a, b) with scores ``X_j a_j + b_j``: X the table, or for a full gain the scores (n, M) themselves."""
    P = table.proba.astype(np.float64) if is_wide(gain, table.proba.dtype).any() else table.proba
    if gain.full is None:
        a, b = (part[0].astype(P.dtype) for part in gain.pair())
        further = len(b) - len(a)
        # decisions beyond the classes have an offset alone
        return np.pad(P, ((0, 0), (0, further))) if further else P, np.pad(a, (0, further)), b
    G = gain.full[0].astype(P.dtype)
    scores = P[:, :1] * G[0]
    for i in range(1, P.shape[1]):
        scores += P[:, i : i + 1] * G[i]
    return scores, np.ones(G.shape[1], P.dtype), np.zeros(G.shape[1], P.dtype)


def _row_breakpoints(
    kind: str, x: NDArray[Any], a: Any, b: Any, best: NDArray[Any], wins_ties: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Return where each row changes hands (n,), and how far rounding may move it.

    Minus infinity: class j wins for every (positive) coefficient; infinity: for none.
    """
    eps = float(np.finfo(x.dtype).eps)
    rival = best.astype(np.float64)
    if kind == "offset":
        alone = (x * a).astype(np.float64)
        return rival - alone, eps * (np.abs(rival) + np.abs(alone))
    needed = rival - float(b)
    p = x.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        points = needed / p
        slack = 2.0 * eps * (np.abs(rival) + abs(float(b))) / p
    # a probability of zero is worth nothing at any weight: the offset alone decides such a row
    nothing = p == 0
    loses = (needed > 0) | ((needed == 0) & ~wins_ties)
    points = np.where(nothing, np.where(loses, np.inf, -np.inf), points)
    slack = np.where(nothing, 0.0, slack)
    return np.where(points <= slack, -np.inf, points), slack


def _rivals(scores: NDArray[Any], a: NDArray[Any], b: NDArray[Any], j: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the best score (n,) of every row without decision j, and whose it is; ties go to the largest index."""
    n, M = scores.shape
    best = np.empty(n, scores.dtype)
    rival = np.empty(n, np.int32)
    others = np.delete(np.arange(M), j)[::-1]
    size = block_rows(M)

    def by_numpy(_: int, start: int, stop: int) -> None:
        offered = scores[start:stop, others] * a[others] + b[others]
        # numpy.argmax takes the first of equal scores
        first = offered.argmax(axis=1)
        rival[start:stop] = others[first]
        best[start:stop] = np.take_along_axis(offered, first[:, None], axis=1)[:, 0]

    def compiled(_: int, start: int, stop: int) -> None:
        kernels.native.rivals(scores, start, stop, size, a, b, j, best, rival)

    over_rows(by_numpy if kernels.native is None else compiled, n, ROWS)
    return best, rival


def _walk_by_numpy(rows: Any, order: NDArray[np.intp], done: int, stops: NDArray[np.intp], sums: Any, out: Any) -> None:
    """Write the shares at each of ``stops``, and carry on from ``done``; below zero nothing is decided yet."""
    proba, *_, rival, j, total = rows
    size = max(1, BATCH // proba.shape[1])
    if done < 0:
        done = 0
        for low in range(0, len(proba), size):
            r = np.arange(low, min(low + size, len(proba)))
            _give(rows, r, rival[r], 1.0, np.zeros_like(r), [part[None] for part in sums])
    for part in out:
        part[:] = 0.0
    for low in range(done, stops[-1], size):
        r = order[low : min(low + size, stops[-1])]
        stop = np.searchsorted(stops, np.arange(low, low + len(r)), side="right")
        _give(rows, r, rival[r], -1.0, stop, out)
        _give(rows, r, np.full(len(r), j), 1.0, stop, out)
    for part, before in zip(out, sums, strict=True):
        np.cumsum(part, axis=0, out=part)
        part += before
        before[:] = part[-1]
        # differences of sums may end a rounding below zero
        np.maximum(part / total, 0.0, out=part)


def _give(rows: Any, r: NDArray[np.intp], k: NDArray[Any], sign: float, stop: NDArray[np.intp], out: Any) -> None:
    """Add rows r, times ``sign``, to decisions k in the statistics at places ``stop``; all are as long as r."""
    proba, share, labels, weight, *_ = rows
    diagonal, columns, matrix = out
    K = diagonal.shape[1]
    M = columns.shape[1]
    w = np.full(len(r), sign) if weight.size == 0 else sign * weight[r]
    truth = share * proba[r].astype(np.float64)
    if share < 1.0:
        truth[np.arange(len(r)), labels[r]] += 1.0 - share
    truth *= w[:, None]
    _add(columns, stop * M + k, w)
    hit = np.flatnonzero(k < K)
    _add(diagonal, stop[hit] * K + k[hit], truth[hit, k[hit]])
    if matrix.size:
        _add(matrix, ((stop[:, None] * K + np.arange(K)) * M + k[:, None]).ravel(), truth.ravel())


def _add(to: Array, cell: NDArray[np.intp], values: Array) -> None:
    to += np.bincount(cell, values, to.size).reshape(to.shape)
