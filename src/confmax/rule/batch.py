"""A batch of rows of which at most so many get a decision, such as the cases that somebody can review in a day.

A rule decides the largest score. Under caps, the decisions are those with the largest sum of scores in which no
decision is made more often than its cap allows. Of one cap, this sum is largest if the rows with the largest margins
keep the decision: the margin of a row is its score less the best score of another decision. Equal margins are ordered
by the hash of the row or of its key, then by the place of the row, so that the answer does not depend on how rows are
divided into parts. Several caps are an assignment, at the end of this
file.

Rows and decisions with a capacity: the assignment of the largest total score, exactly.

This is a transportation problem: every row takes one decision j, and at most ``capacity_j`` rows take it. Its dual has
one price per decision, at which every row takes the decision with the largest score less price. Sweeps of prices, each
set so that the demand for its decision meets the capacity, come close to the best ones. Then a linear program decides
the rows that are nearest to another decision, and finds the prices. The other rows are right if they want no other
decision at these prices; if they do, they join the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.errors import InputError
from confmax.rule.parts import answer, by_group, groups_given, groups_of_rows, mixed_rows
from confmax.tables.array.oracle import last_of_largest, scores_of
from confmax.tables.draws import given_keys, is_whole
from confmax.tables.fingerprints import mixed
from confmax.tables.frames import column_names, in_class_order
from confmax.tables.kinds import Beside, Rule, calibrated_rows, given_hashes, host_array, known, n_rows
from confmax.tables.scans import decide_mixed, mixed_scores
from confmax.tables.storage import Checked

LONGEST = 60  # characters of what is none, in a message
BLOCK_CELLS = 1 << 20  # scores that are looked at together
MOST_CELLS = 50_000_000  # scores that several caps compare, rows times capped decisions: 400 MB, and up to five copies


def decide_batch(rule: Rule, proba: Any, caps: Mapping[int, int], beside: Beside) -> Any:
    """Return the decisions (n,) of a ``rule`` on ``proba`` (n, K), of which at most ``caps[j]`` are j.

    ``beside`` the rows are ``keys``, ``group`` and ``group_proba``, as for `DecisionRule.predict`. ValueError where
    this cannot be: see there.
    """
    kind, rows = known(proba)
    if kind.in_memory or not rule.groups_known:
        _refuse_draws(rule)
        return _in_memory(rule, proba, caps, beside)
    batch = one_cap(rule, caps)
    given = {"keys": beside["keys"], "group": beside["group"]}
    if given["group"] is not None or (rule.groups and not kind.brings_groups):
        groups_given(rule, given["group"])
    return kind.predict_batch(batch, rows, given)


def one_cap(rule: Rule, caps: Mapping[int, int]) -> OneCap:
    """Return the one cap of rows that are not in memory; a ValueError for several, and for a rule that draws."""
    _refuse_draws(rule)
    if len(caps) > 1:
        raise InputError(
            "`at_most` with several classes compares all rows in memory, and these are read in parts",
            "limit one class, or pass an array",
        )
    ((decision, most),) = caps.items()
    return OneCap(rule, decision, most)


def _refuse_draws(rule: Rule) -> None:
    if rule.is_randomized:
        raise InputError(
            "this rule decides at random, and `at_most` needs the scores of one rule",
            "tune it with `randomized=False`",
        )


def caps_of(rule: Rule, at_most: Any) -> dict[int, int]:
    """Return the caps by the indices of decisions, from names; a ValueError for what are none."""
    if not isinstance(at_most, Mapping):
        shown = repr(at_most)[:LONGEST] if isinstance(at_most, (str, int, float)) else type(at_most).__name__
        raise InputError(
            f"`at_most` holds numbers of rows by class; got {shown}", f"pass such as {{{rule.class_names[0]!r}: 100}}"
        )
    place = {name: k for k, name in enumerate(rule.class_names)}
    caps = {}
    for name, most in at_most.items():
        if name not in place:
            shown = ", ".join(map(str, rule.class_names[:8])) + (", ..." if len(rule.class_names) > 8 else "")
            raise InputError(f"`at_most` names {name!r}, and the rule decides {shown}", "name one of these")
        if not is_whole(most, 0):
            raise InputError(f"`at_most` of {name!r} is a whole number of rows from 0 on; got {most!r}")
        caps[place[name]] = int(most)
    return caps


# --- one cap, of rows that may lie in parts ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ranked:
    """The decisions (n,) of a part of the rows, and its rows that may keep the capped one.

    These are at most as many as the cap, (m,) each: their ``rows`` in the part, in any order, their next best
    decisions ``following``, their margins, and the words ``hashed`` that order equal margins. Further rows have their
    next best decision already: ``n_capped`` had the capped one.
    """

    decisions: NDArray[np.int64]
    rows: NDArray[np.intp]
    following: NDArray[np.int64]
    margin: Array
    hashed: NDArray[np.uint64]
    n_capped: int


@dataclass(frozen=True)
class Cut:
    """The last row that keeps the capped decision: its margin and hash, its part, and its place there."""

    margin: float
    hashed: int
    part: int
    row: int


@dataclass(frozen=True, eq=False)
class OneCap:
    """At most ``most`` rows are decided as ``decision`` by a ``rule``: what is done with each part of the rows."""

    rule: Rule
    decision: int
    most: int

    def ranked(self, proba: Any, **beside: Any) -> Ranked:
        """Return what a part gives, by its probabilities (n, K) and the keys and groups of its rows."""
        return self.ranked_rows(ScoredRows.of(self.rule, proba, **beside))

    def candidates(self, proba: Any, **beside: Any) -> Ranked:
        """Return what a part gives without its decisions, and without what is only needed for these."""
        none = np.empty(0, dtype=np.int64)
        return replace(self.ranked(proba, **beside), decisions=none, following=none)

    def ranked_rows(self, given: ScoredRows) -> Ranked:
        """Return the same of rows whose scores are known."""
        decisions = np.array(host_array(given.decisions), dtype=np.int64)
        rows = np.flatnonzero(decisions == self.decision)
        following, margin = _next_best(given, rows, self.decision)
        hashed = given.hashes()[rows] if len(rows) else np.empty(0, dtype=np.uint64)
        first = _foremost(self.most, margin, hashed, rows)
        # what more than the cap have passed in this part alone has no place among those of all parts
        leaves = np.ones(len(rows), dtype=np.bool_)
        leaves[first] = False
        decisions[rows[leaves]] = following[leaves]
        return Ranked(decisions, rows[first], following[first], margin[first], hashed[first], len(rows))

    def margins(self, proba: Any, keys: Any = None, **beside: Any) -> Array:
        """Return the margins (m,) of the rows of a part that have the capped decision, no more than may matter."""
        given = ScoredRows.of(self.rule, proba, **beside)
        margin = _next_best(given, np.flatnonzero(host_array(given.decisions) == self.decision), self.decision)[1]
        return _largest(self.most + 1, margin)

    def at_edge(self, edge: float, proba: Any, **beside: Any) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """Return the words that order the rows of a part with the margin ``edge``, and these rows."""
        given = ScoredRows.of(self.rule, proba, **beside)
        rows = np.flatnonzero(host_array(given.decisions) == self.decision)
        rows = rows[_next_best(given, rows, self.decision)[1] == edge]
        return (given.hashes()[rows] if len(rows) else np.empty(0, dtype=np.uint64)), rows

    def cut(self, parts: Mapping[int, Ranked]) -> Cut | None:
        """Return the last row that keeps the decision; None if no more rows than the cap have it."""
        each = list(parts.values())
        if self.most == 0 or sum(len(part.rows) for part in each) <= self.most:
            return None
        margin, hashed, rows = (
            np.concatenate([getattr(part, name) for part in each]) for name in ("margin", "hashed", "rows")
        )
        number = np.repeat(list(parts), [len(part.rows) for part in each])
        last = _foremost(self.most, margin, hashed, number, rows)[-1]
        return Cut(float(margin[last]), int(hashed[last]), int(number[last]), int(rows[last]))

    def decided(self, part: Ranked, cut: Cut | None, number: int) -> NDArray[np.int64]:
        """Return the decisions (n,) of the part of this ``number``."""
        if cut is None:
            return part.decisions
        same = part.margin == cut.margin
        keeps = part.margin > cut.margin
        word = np.uint64(cut.hashed)
        keeps |= same & (part.hashed < word)
        if number <= cut.part:
            in_place = (part.rows <= cut.row) | (number < cut.part)
            keeps |= same & (part.hashed == word) & in_place
        out = part.decisions.copy()
        out[part.rows[~keeps]] = part.following[~keeps]
        return out


def cut_in_parts(batch: OneCap, n: int, run: Callable[[Callable[..., Any]], Iterable[Any]]) -> Cut | None:
    """Return the last of n rows that keeps the decision, of rows that lie in parts and are read once or twice.

    ``run`` yields what a function of the probabilities, keys and groups of rows gives for each part, None of a part
    without rows. Of the rows, no more is held than twice as many margins as the cap allows.
    """
    if batch.most == 0 or n <= batch.most:
        return None
    # one more than the cap, so that it is known whether margins are equal at the limit
    wanted = batch.most + 1
    held = np.empty(min(2 * wanted, n))
    count = 0
    for margin in run(batch.margins):
        if margin is not None:
            if count + len(margin) > len(held):
                held[:wanted] = _largest(wanted, held[:count])
                count = wanted
            held[count : count + len(margin)] = margin
            count += len(margin)
    if count <= batch.most:
        return None
    largest = _largest(wanted, held[:count])
    largest.partition(1)
    edge = float(largest[1])
    if largest[0] < edge:
        return Cut(edge, (1 << 64) - 1, 1 << 62, 0)
    room = int(np.count_nonzero(largest[1:] == edge))
    hashed = np.empty(0, dtype=np.uint64)
    place = np.empty((2, 0), dtype=np.int64)
    for number, found in enumerate(run(partial(batch.at_edge, edge))):
        if found is not None:
            words, rows = found
            hashed = np.concatenate([hashed, words])
            place = np.concatenate([place, [np.full(len(rows), number), rows]], axis=1)
            order = np.lexsort((place[1], place[0], hashed))[:room]
            hashed = hashed[order]
            place = place[:, order]
    return Cut(edge, int(hashed[-1]), int(place[0, -1]), int(place[1, -1]))


def _largest(most: int, numbers: Array) -> Array:
    """Return the ``most`` largest of numbers, or all of them; these are put in another order."""
    if len(numbers) <= most:
        return numbers
    numbers.partition(len(numbers) - most)
    return numbers[len(numbers) - most :]


def _foremost(most: int, margin: Array, hashed: NDArray[np.uint64], *place: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices of the ``most`` rows with the largest margins (n,), the last of them at the end.

    Equal margins are ordered by ``hashed``, then by ``place``, the first of which counts first.
    """
    n = len(margin)
    if most == 0 or n <= most:
        return np.arange(min(n, most))
    edge = np.partition(margin, n - most)[n - most]
    above = np.flatnonzero(margin > edge)
    at_edge = np.flatnonzero(margin == edge)
    order = np.lexsort([part[at_edge] for part in (*place[::-1], hashed)])
    return np.concatenate([above, at_edge[order[: most - len(above)]]])


def _next_best(given: ScoredRows, rows: NDArray[np.intp], decision: int) -> tuple[NDArray[np.int64], Array]:
    """Return the best other decision (m,) of some rows, and by how much the score of ``decision`` leads it."""
    following = np.empty(len(rows), dtype=np.int64)
    margin = np.empty(len(rows))
    for place, scores in given.in_blocks(rows):
        own = scores[:, decision].copy()
        scores[:, decision] = -np.inf
        following[place] = last_of_largest(scores)
        margin[place] = own - scores[np.arange(len(scores)), following[place]]
    return following, margin


# --- rows in memory, and several caps ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows in memory that a rule decides: the ``decisions`` (n,) without a cap, where the rows are.

    ``scores`` of m rows, by their indices, are float64 numbers (m, M) in the unit of the rule's gains. ``hashes`` of
    all rows are words (n,).
    """

    decisions: Any
    n_decisions: int
    scores: Callable[[NDArray[np.intp]], Array]
    hashes: Callable[[], NDArray[np.uint64]]

    @classmethod
    def of(cls, rule: Rule, proba: Any, keys: Any = None, group: Any = None, group_proba: Any = None) -> ScoredRows:
        """Return the rows with the scores of a ``rule``; ValueError as for its `predict`."""
        _, given = known(proba)
        if not rule.groups_known:
            P, shares = mixed_rows(rule, given, group_proba)
            layout = rule.layout
            assert layout is not None
            by = (rule.gains, layout)
            decisions = decide_mixed(P, shares.proba, *by)
            hashes = partial(_words, given, keys)
            return cls(decisions, rule.n_decisions, lambda rows: mixed_scores(P[rows], shares.proba[rows], *by), hashes)
        codes = None
        if rule.groups or group is not None:
            codes = groups_of_rows(rule, group, n_rows(given), proba).codes
        names = column_names(given)
        if names is not None:
            # names are matched, and warned of, once
            given = in_class_order(given, rule.class_names[: rule.n_classes])
        found = calibrated_rows(rule.calibrator, rule.checked(given))
        if codes is None:
            decisions = answer(rule, "predict_index", given, None)
        else:
            decisions = by_group(rule, given, codes, None, "predict_index")
        return cls(decisions, rule.n_decisions, partial(_scores, rule, found, codes), partial(_words, given, keys))

    def in_blocks(self, rows: NDArray[np.intp]) -> Iterator[tuple[slice, Array]]:
        """Yield the places of some of the ``rows`` (m,), and their scores."""
        size = max(1, BLOCK_CELLS // self.n_decisions)
        for low in range(0, len(rows), size):
            place = slice(low, low + size)
            yield place, self.scores(rows[place])

    def decided(self, decisions: NDArray[np.int64]) -> Any:
        """Return decisions (n,) in host memory where those without a cap are."""
        return decisions if isinstance(self.decisions, np.ndarray) else self.decisions.new_tensor(decisions)


def _scores(rule: Rule, found: Checked, codes: NDArray[np.intp] | None, rows: NDArray[np.intp]) -> Array:
    """Return the scores (m, M) of some rows, of which ``codes`` (n,) say by which group's gains they are decided."""
    P = host_array(found.storage.rows(found.proba, rows))
    if codes is None:
        return scores_of(P, rule.gains)
    out = np.empty((len(rows), rule.n_decisions))
    for g in np.unique(codes[rows]):
        mine = codes[rows] == g
        out[mine] = scores_of(P[mine], rule.of_group(rule.groups[g]).gains)
    return out


def _words(given: Any, keys: Any) -> NDArray[np.uint64]:
    """Return the words (n,) that order rows of equal margins."""
    if keys is None:
        return host_array(given_hashes(given)).view(np.uint64)
    # scrambled as the hash of a row is: with consecutive keys the first rows would come first
    return mixed(given_keys(keys, n_rows(given)))


def _in_memory(rule: Rule, proba: Any, caps: Mapping[int, int], beside: Beside) -> Any:
    """Return `decide_batch` of rows in memory."""
    given = ScoredRows.of(rule, proba, **beside)
    decisions = host_array(given.decisions)
    n = len(decisions)
    total = sum(caps.values())
    if len(caps) == rule.n_decisions and total < n:
        raise InputError(
            f"`at_most` limits every decision of the rule, to {total} rows together, and there are {n} rows",
            "raise a limit, or leave one decision without",
        )
    if _kept(decisions, caps):
        return given.decisions
    over = [j for j, most in caps.items() if np.count_nonzero(decisions == j) > most]
    if len(over) == 1:
        # the best decisions under this cap alone are the best ones under all if they keep all
        one = OneCap(rule, over[0], caps[over[0]])
        found = one.ranked_rows(given).decisions
        if _kept(found, caps):
            return given.decided(found)
    return given.decided(_several(given, decisions, caps))


def _kept(decisions: NDArray[np.int64], caps: Mapping[int, int]) -> bool:
    return all(np.count_nonzero(decisions == j) <= most for j, most in caps.items())


def _several(given: ScoredRows, decisions: NDArray[np.int64], caps: Mapping[int, int]) -> NDArray[np.int64]:
    """Return the decisions (n,) with the largest sum of scores in which no decision is made more often than its cap."""
    n = len(decisions)
    free = np.array([j for j in range(given.n_decisions) if caps.get(j, n) >= n], dtype=np.intp)
    capped = np.array([j for j in caps if 0 < caps[j] < n], dtype=np.intp)
    lines = len(capped) + (len(free) > 0)
    # equal sums do not depend on the order of the rows, but for rows that are copies of each other
    order = np.argsort(given.hashes(), kind="stable")
    # a row whose decision has no cap keeps it
    order = order[~np.isin(decisions[order], free)]
    if lines * len(order) > MOST_CELLS:
        raise InputError(
            f"`at_most` with several classes compares {lines} scores of each of {len(order)} rows, more than "
            f"{MOST_CELLS:,} together",
            "pass fewer rows at a time, or limit fewer classes",
        )
    scores = np.empty((lines, len(order)))
    best_free = np.zeros(len(order), dtype=np.int64)
    for place, block in given.in_blocks(order):
        scores[: len(capped), place] = block[:, capped].T
        if len(free):
            # of the decisions without a cap, a row never takes another one than its best
            best = last_of_largest(block[:, free])
            best_free[place] = free[best]
            scores[-1, place] = block[np.arange(len(block)), best_free[place]]
    capacity = np.array([*(caps[j] for j in capped.tolist()), *[n][: len(free)]], dtype=np.int64)
    line = assigned(scores, capacity) if len(capped) else np.zeros(len(order), dtype=np.intp)
    out = np.array(decisions, dtype=np.int64)
    out[order] = np.where(line < len(capped), np.append(capped, 0)[line], best_free)
    return out


# --- rows and decisions with a capacity -------------------------------------------------------------------------------


SWEEPS = 40  # of prices, at most
OVER = 200  # rows over the capacities at which prices are near enough
NEAREST = 400  # rows of every decision in the first linear program
SOLVED = 1e-10  # of the largest score: by how much a linear program may miss its optimum
PROVED = 1e-12  # of the largest score: what a row may lack of its best decision at the prices


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
    scores = scores / (float(np.abs(scores).max()) or 1.0)
    prices = _priced(scores, capacity)
    # copies of a row are one row of the program, by a sum that nothing but copies share
    order = np.argsort((scores * np.random.default_rng(0).random((len(scores), 1))).sum(axis=0), kind="stable")
    scores = scores[:, order]
    first = np.append(0, 1 + np.flatnonzero((scores[:, 1:] != scores[:, :-1]).any(axis=0)))
    where = np.empty(len(order), dtype=np.intp)
    where[order] = _from_prices(scores[:, first], np.diff(first, append=len(order)), prices, capacity)
    return where


def _from_prices(
    scores: Array, copies: NDArray[np.intp], prices: Array, capacity: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Return the best decisions of all ``copies`` (n,) of rows, from ``prices`` (M,) that are near the best ones."""
    M, n = scores.shape
    net = scores - prices[:, None]
    row = np.arange(n)
    where = net.argmax(axis=0)
    best = net[where, row]
    net[where, row] = -np.inf
    following = net.argmax(axis=0)
    beside = net[following, row]
    net[where, row] = best
    # most rows have their decision at these prices; others may get several
    may = np.zeros((M, n), dtype=np.bool_)
    may[where, row] = True
    # very many copies of a row may get every decision: no two of them have room for all
    may[:, copies > NEAREST] = True
    near = NEAREST
    found = None
    while True:
        if found is None:
            for j in range(M):
                lead = np.abs(net[j] - np.where(where == j, beside, best))
                nearest = np.argpartition(lead, min(near, n) - 1)[:near]
                may[j, nearest] = may[following[nearest], nearest] = True
            near *= 2
        moves = may.sum(axis=0) > 1
        fixed = np.bincount(where[~moves], copies[~moves], M)
        found = _solved(scores[:, moves], copies[moves], may[:, moves], capacity - fixed)
        if found is not None:
            decisions, prices = found
            where[moves] = decisions[np.cumsum(copies[moves]) - 1]
            worth = scores - prices[:, None]
            wants = ~may & (worth > worth[where, row] + PROVED)
            if not wants.any():
                break
            # of all that want another decision, those that want it most move the prices
            gain = np.where(wants, worth - worth[where, row], 0.0)
            for j in range(M):
                most = np.argpartition(-gain[j], min(near, n) - 1)[:near]
                may[j, most] |= wants[j, most]
    out = np.repeat(where, copies)
    out[np.repeat(moves, copies)] = decisions
    return out


def _solved(
    scores: Array, copies: NDArray[np.intp], may: NDArray[np.bool_], room: NDArray[np.int64]
) -> tuple[NDArray[np.intp], Array] | None:
    """Return the best decisions of all ``copies`` (n,) of rows, and the prices (M,), by a linear program.

    A row gets what it ``may`` (M, n), and at most ``room`` (M,) rows get a decision. None if there is too little room.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    row, decision = np.nonzero(may.T)
    place = np.arange(len(row))
    ones = np.ones(len(row))
    each = csr_array((ones, (row, place)), (len(copies), len(row)))
    together = csr_array((ones, (decision, place)), (len(room), len(row)))
    close = {"primal_feasibility_tolerance": SOLVED, "dual_feasibility_tolerance": SOLVED}
    # the simplex method ends at a vertex, which has whole numbers
    found = linprog(-scores[decision, row], together, room, each, copies, method="highs-ds", options=close)
    if found.x is None:
        return None
    return np.repeat(decision, np.rint(found.x).astype(np.intp)), -found.ineqlin.marginals


def _priced(scores: Array, capacity: NDArray[np.int64]) -> Array:
    """Return prices (M,) at which about as many rows want a decision as may have it."""
    M, n = scores.shape
    prices = np.zeros(M)
    net = scores.copy()
    for _ in range(SWEEPS):
        over = np.bincount(net.argmax(axis=0), minlength=M) - capacity
        if max(over[over > 0].sum(), -over[(over < 0) & (prices > 0.0)].sum()) <= OVER:
            break
        before = prices.copy()
        for j in np.flatnonzero(capacity < n):
            net[j] = -np.inf
            margin = scores[j] - net.max(axis=0)
            place = n - int(capacity[j])
            # any number between the two does; the middle one leaves room for the prices that change next
            prices[j] = max(np.partition(margin, [place - 1, place])[place - 1 : place + 1].mean(), 0.0)
            net[j] = scores[j] - prices[j]
        if np.array_equal(prices, before):
            break
    return prices
