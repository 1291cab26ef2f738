"""Lines of rows with several labels: the sums that answer what the rows would, and what a bootstrap draws of them.

A metric of several labels depends on a row through its labels, its weight and what the rules decide for it. So one pass
over the parts of a table, of which memory is one, turns the rows into *lines* of sums, and every answer is made of
these. There are three kinds of lines:

* Of at most `MOST_LINES` rows with at most `MOST_CELLS` sums, every row is a line, and the bootstrap draws rows.
* Of more rows, those that agree in all that is counted are one line, as long as there are no more such lines than lots.
  The bootstrap draws how many rows of each line are in a replicate, which is the bootstrap of rows.
* Where they are more, a hash of a row's probabilities, labels and weight says which of at most `LOTS` *lots* it belongs
  to, and a line has the sums of a lot. The bootstrap draws lots in the place of rows. A lot of m independent rows adds
  m times the variance of a row, so the variance of a replicate is that of the bootstrap of rows, up to chance: with G
  lots, the width of an interval is uncertain by about ``1 / sqrt(2 G)`` of itself, half a percent for 16,384 lots.

Equal rows are in one lot, which alone would make intervals too wide. A lot with far more rows than others holds one
content many times: how many of its rows are in a replicate is drawn by row, and the other lots give the other rows. If
rows stand d times on average, the sizes of lots vary d times as much as those of different rows; then each lot is drawn
as d parts, which has the variance of rows again.

Nothing of this depends on how a table is divided into parts, except for the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.evaluate.bootstrap import Cells, Index, replicates
from confmax.tables import Part, Table
from confmax.tables.fingerprints import column_factors, mixed, row_hashes
from confmax.tables.several import plain_matrix
from confmax.tables.weights import EQUAL

MOST_LINES = 1 << 17  # a thousand replicates of so many rows take about a minute
MOST_CELLS = 1 << 27  # sums of all rows, if none of them were zero: 1.5 GB
LOTS = 1 << 14
LOT_CELLS = 1 << 21  # sums of all lots, which every part returns: 16 MB
AT_ONCE = 1 << 22  # counts of lines of a chunk of replicates: 32 MB
MOST_PER_ROW = 5  # labels of a row, above which rows are counted together
MANY = 4  # times the usual number of rows of a lot, beyond which chance does not make lots
WHOLE = 1e-8  # a probability that is so near to 0 or 1 is no draw

LabelJudges = Callable[[Part], Mapping[str, Array]]
"""The probability (n, L) with which each rule, by its name, gives the labels to the rows of a part; can be pickled."""


@dataclass(frozen=True, eq=False)
class SumLines:
    """m lines, which differ in their ``key`` (m,), of R rules.

    The ``sums`` are a sparse matrix (m, (1 + 2 R) L): of the labels, and for each rule of those that are right, and of
    those that it gives; by the weights of the rows. ``weight`` (m,) is that of the rows of a line, ``count`` (m,) their
    number.
    """

    key: NDArray[np.uint64]
    sums: Any
    weight: Array
    count: Index

    def __len__(self) -> int:
        return len(self.key)

    def joined(self, key: NDArray[np.uint64]) -> SumLines:
        """Return the sums of the lines that have the same ``key`` (m,), in the order of the keys."""
        from scipy.sparse import csr_array

        keys, place = np.unique(key, return_inverse=True)
        place = place.reshape(-1)
        add = csr_array((np.ones(len(key)), (place, np.arange(len(key)))), shape=(len(keys), len(key)))
        count = np.bincount(place, self.count, len(keys)).astype(np.int64)
        weight = np.bincount(place, self.weight, len(keys)).astype(np.float64)
        return SumLines(keys, add @ self.sums, weight, count)


def _one_after_another(parts: Sequence[SumLines]) -> SumLines:
    from scipy.sparse import vstack

    key, weight, count = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("key", "weight", "count")
    )
    return SumLines(key, vstack([part.sums for part in parts], format="csr"), weight, count)


@dataclass(frozen=True, eq=False)
class PartLines:
    """What the rows of parts give: lines of each row, part by part, or where all rows are many, those of lots.

    Beside ``lots`` stand the lines of rows ``alike``, None if they are more than lots can be. ``per_row`` (R + 1, M)
    is the weight of the rows with 0, 1, ... labels, of the true ones and of each rule; NaN of a rule that draws.
    ``same`` (parts, R) is the first rule that decides as each rule does.
    """

    rules: tuple[str, ...]
    rows: tuple[SumLines, ...]
    alike: SumLines | None
    lots: SumLines | None
    per_row: Array
    same: Index

    def __add__(self, other: PartLines) -> PartLines:
        """Return the lines of both."""
        alike = _added(self.alike, other.alike)
        return PartLines(
            self.rules,
            self.rows + other.rows,
            None if alike is None or len(alike) > _most(alike.sums) else alike,
            _added(self.lots, other.lots),
            self.per_row + other.per_row,
            np.concatenate([self.same, other.same]),
        )


def lines_of_part(judges: LabelJudges, n_rows: int, part: Part) -> PartLines:
    """Return the lines of a labelled part of a table of ``n_rows``, by what ``judges`` decide; without weight, no row.

    The lines of all parts are of one kind, which the numbers of rows, labels and rules say.
    """
    from scipy.sparse import csr_array, hstack

    decided = dict(judges(part))
    kept = part.weighted
    truth = plain_matrix(part.labels)[kept]
    Y = truth.astype(np.float64)
    every = [H[kept] for H in decided.values()]
    weight = part.weights[kept]
    content = hstack([csr_array(one) for one in (Y, *(one for H in every for one in (Y * H, H)))], format="csr")
    sums = content.copy()
    sums.data *= np.repeat(weight, np.diff(sums.indptr))
    rows = SumLines(np.zeros(len(Y), np.uint64), sums, weight, np.ones(len(Y), np.int64))
    made = partial(PartLines, tuple(decided), per_row=_per_row([Y, *every], weight), same=_same(every)[None])
    if n_rows <= MOST_LINES and n_rows * content.shape[1] <= MOST_CELLS:
        return made((rows,), None, None)
    most = _most(sums)
    weighed = mixed(weight.view(np.uint64))
    alike = rows.joined(mixed(row_hashes(content) ^ weighed))
    words = part.row_hashes()[kept] + truth.astype(np.uint64) @ column_factors(truth.shape[1])
    return made((), alike if len(alike) <= most else None, rows.joined(mixed(words ^ weighed) % np.uint64(most)))


def _per_row(every: Sequence[Array], weight: Array) -> Array:
    """Return the weights of rows by their numbers of labels, of each of ``every`` decisions (n, L)."""
    out = np.full((len(every), MOST_PER_ROW + 1), np.nan)
    for line, H in zip(out, every, strict=True):
        if (np.abs(H - np.round(H)) <= WHOLE).all():
            top = np.minimum(H.sum(axis=1).round().astype(np.int64), MOST_PER_ROW)
            line[:] = np.bincount(top, weight, MOST_PER_ROW + 1)
    return out


def _same(every: Sequence[Array]) -> Index:
    """Return for each of ``every`` decisions (n, L) the place of the first that are equal."""
    totals = [H.sum(axis=0) for H in every]
    out = np.arange(len(every))
    for k, H in enumerate(every):
        alike = (j for j in range(k) if np.array_equal(totals[j], totals[k]) and np.array_equal(every[j], H))
        out[k] = next(alike, k)
    return out


@dataclass(frozen=True, eq=False)
class JudgedLabels:
    """A labelled table, the lines of its rows, and what was counted of R ``rules``.

    ``per_row`` (R + 1, M) and ``same`` (parts, R) are those of `PartLines`. ``resampled`` says what a replicate draws,
    "rows" or "lots of rows": of the lines ``by_row`` (m,) their rows, of all others the line, as so many ``parts``.
    """

    table: Table
    rules: tuple[str, ...]
    lines: SumLines
    by_row: NDArray[np.bool_]
    per_row: Array
    same: Index
    resampled: str = "rows"
    parts: int = 1

    @property
    def n_rows(self) -> int:
        """Number of rows with weight."""
        return int(self.lines.count.sum())

    @cached_property
    def whole(self) -> dict[str, Confusion]:
        """The statistics of every rule on all rows, a batch of one, by its name."""
        return dict(zip(self.rules, self.of(np.ones((1, len(self.lines)))), strict=True))

    @cached_property
    def _columns(self) -> Any:
        return self.lines.sums.T.tocsr()

    def of(self, counts: Array) -> list[Confusion]:
        """Return the statistics of every rule, as a batch, for counts (B, m) of the lines."""
        total = np.asarray(self._columns @ np.ascontiguousarray(counts.T)).T
        total = total / (counts * self.lines.weight).sum(axis=1, keepdims=True)
        rows, *each = np.split(total, 1 + 2 * len(self.rules), axis=1)
        return [Confusion(rows, hits, columns) for hits, columns in zip(each[::2], each[1::2], strict=True)]

    def replicates(self, n_replicates: int, seed: int) -> Iterator[Array]:
        """Yield how often every line is drawn (B, m), in chunks; of a line that is drawn by row, the share of these."""
        rng = np.random.default_rng(seed)
        count = self.lines.count
        by_row, others = count[self.by_row], count[~self.by_row]
        at_once = max(1, AT_ONCE // len(count))
        for start in range(0, n_replicates, at_once):
            B = min(at_once, n_replicates - start)
            out = np.empty((B, len(count)))
            left = np.full(B, float(others.sum()))
            if len(by_row):
                drawn = _drawn(np.append(by_row, others.sum()) if len(others) else by_row, B, rng)
                out[:, self.by_row] = drawn[:, : len(by_row)] / by_row
                left = drawn[:, -1]
            if len(others):
                lots = _drawn_alike(len(others), self.parts, B, rng)
                # the rows that are not of lines that are drawn by row
                out[:, ~self.by_row] = lots * (left / (lots @ others))[:, None]
            yield out

    def only(self, rules: Sequence[str]) -> JudgedLabels:
        """Return the lines with what some of the ``rules`` decide; the same lines are drawn."""
        L = self.table.n_classes
        places = [self.rules.index(name) for name in rules]
        blocks = [0, *(1 + 2 * place + k for place in places for k in (0, 1))]
        columns = np.concatenate([np.arange(L) + L * block for block in blocks])
        lines = replace(self.lines, sums=self.lines.sums[:, columns])
        per_row = self.per_row[[0, *(1 + place for place in places)]]
        return replace(self, rules=tuple(rules), lines=lines, per_row=per_row, same=self.same[:, places])

    def decide_alike(self, one: str, other: str) -> bool:
        """Return whether two rules decide all rows alike."""
        first, second = (self.same[:, self.rules.index(name)] for name in (one, other))
        return bool(np.array_equal(first, second))

    def labels_per_row(self, rule: str | None = None) -> float:
        """Return how many labels rows have on average, or get by a ``rule``."""
        (S,) = [next(iter(self.whole.values()))] if rule is None else [self.whole[rule]]
        return float((S.rows if rule is None else S.columns).sum())

    def shares_per_row(self, rule: str | None = None) -> tuple[float, ...]:
        """Return the shares of rows that have 0, 1, ... labels, or get them; the last is of more. None for draws."""
        found = self.per_row[0 if rule is None else 1 + self.rules.index(rule)]
        return () if np.isnan(found).any() else tuple((found / found.sum()).tolist())


def judge_labels(table: Table, judges: LabelJudges) -> JudgedLabels:
    """Return the lines of a labelled ``table``, with what ``judges`` decide, in one pass over its parts."""
    found = table.lines(partial(lines_of_part, judges, table.n_rows))
    every = (found.lots,) if found.rows == () else found.rows
    table.refuse_other_rows(float(sum(one.weight.sum() for one in every if one is not None)))
    made = partial(JudgedLabels, table, found.rules, per_row=found.per_row, same=found.same)
    if found.alike is not None:
        return made(found.alike, np.ones(len(found.alike), np.bool_))
    if found.lots is not None:
        many, times = _repeated(found.lots)
        return made(found.lots, many, resampled="lots of rows", parts=times)
    lines = _one_after_another(found.rows)
    return made(lines, np.zeros(len(lines), np.bool_))


def _repeated(lots: SumLines) -> tuple[NDArray[np.bool_], int]:
    """Return which of the lots (m,) hold one content many times, and how often rows stand in the others on average."""
    many = lots.count > MANY * np.median(lots.count)
    sizes = np.append(lots.count[~many], np.zeros(_most(lots.sums) - len(lots), np.int64))
    return many, max(1, round(float(sizes.var() / sizes.mean())))


def _drawn(count: Index, B: int, rng: np.random.Generator) -> Array:
    """Return how many rows of every line are drawn (B, m), of as many rows as these ``count`` (m,)."""
    m = len(count)
    cells = Cells(np.zeros(m, np.int64), np.empty((0, m), np.int64), np.arange(m), count, EQUAL, 1, ())
    return np.concatenate(list(replicates(cells, B, rng, stratified=False)))


def _drawn_alike(m: int, parts: int, B: int, rng: np.random.Generator) -> Array:
    """Return how often each of m lines is drawn (B, m), in as many parts."""
    if parts > 1:
        return _drawn(np.full(m, parts), B, rng) / parts
    rows = rng.integers(0, m, size=(B, m)) + m * np.arange(B)[:, None]
    return np.bincount(rows.ravel(), minlength=B * m).reshape(B, m).astype(np.float64)


def _most(sums: Any) -> int:
    """Return how many lots, and lines of rows that are alike, there are at most, of such ``sums`` (m, columns)."""
    return max(1, min(LOTS, LOT_CELLS // sums.shape[1]))


def _added(one: SumLines | None, other: SumLines | None) -> SumLines | None:
    """Return the lines of both, None if one of them is not known."""
    if one is None or other is None:
        return None
    both = _one_after_another([one, other])
    return both.joined(both.key)
