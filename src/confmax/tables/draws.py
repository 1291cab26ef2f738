"""Draws and folds that are a function of (seed, key) alone: a row gets the same ones in any batch or process.

A 64-bit key is first scrambled, one to one, by a fixed mixer (`confmax.tables.fingerprints.mixed`). The hash is then
multiply-shift on the two 32-bit halves x0, x1 of the scrambled key (Dietzfelbinger, Universal hashing and k-wise
independent random variables via integer arithmetic without primes, STACS 1996, Theorem 3; Thorup, High speed hashing
for integers and strings, section 3.5)::

    h(x) = (a0 x0 + a1 x1 + b mod 2^64) div 2^32

taken twice with separate coefficients, 32 bits each, of which the draw is the 53 leading bits. For two distinct keys
and six independent uniform 64-bit coefficients, the pair of draws is *exactly* uniform on the pairs of multiples of
2^-53 in [0, 1): the draws of any two rows with distinct keys are independent. The mixer keeps distinct keys distinct,
so this holds with it as without it. A seed selects the coefficients through BLAKE2b, so over seeds this holds as far as
BLAKE2b's output is as good as uniform. The edges between atoms are rounded to that grid: an atom's probability differs
from its weight by less than 2^-52.

The theorem is about pairs, over seeds. Under one seed multiply-shift maps an arithmetic progression of keys, such as
row numbers, to an arithmetic progression of draws; the mixer is there to break the progressions up.
`tests/test_draw.py` tests what is left.

Without keys, the key is the hash of the row's float32 values as they were given (`fingerprints.py`). Each row is
decided only by the atom that it drew, with the kernels of a deterministic rule: the cost does not grow with the atoms.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array
from confmax.tables.fingerprints import mixed
from confmax.tables.kinds import host_array
from confmax.tables.labels import refuse_masked
from confmax.tables.part import Part

RandomState = int | np.random.RandomState | np.random.Generator | None
# what coefficients are for
DRAWS = b"confmax draw"
FOLDS = b"confmax fold"
DIGITS = 9  # of sums of wanted rows that are compared
Some = TypeVar("Some")
Fitted = TypeVar("Fitted")


def as_seed(random_state: Any) -> int:
    """Return the seed, from 0 to 2**64 - 1, that ``random_state`` stands for: it is what a rule stores and repeats.

    An integer is its own seed. A RandomState or Generator gives its next draw. None gives 63 bits of the operating
    system, so that NumPy's global state is neither read nor moved. ValueError for anything else.
    """
    if random_state is None:
        return int.from_bytes(os.urandom(8), "little") >> 1
    if isinstance(random_state, np.random.RandomState):
        # a RandomState draws no more than 31 bits on every platform
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if not is_whole(random_state, 0, (1 << 64) - 1):
        raise ValueError(
            f"random_state must be an integer from 0 to 2**64 - 1, a RandomState, a Generator or None; "
            f"got {random_state!r}"
        )
    return int(random_state)


def is_whole(value: Any, least: int, most: float = np.inf) -> bool:
    """Return whether an argument is a whole number from ``least`` to ``most``."""
    # True is an integer to Python, and nobody means the seed 1 by it
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and bool(least <= value <= most)


def given_keys(keys: ArrayLike, n: int) -> NDArray[np.uint64]:
    """Return the caller's keys (n,), integers or strings, as 64-bit words; a ValueError for others."""
    refuse_masked(keys, "keys")
    values = host_array(keys)
    if values.shape != (n,):
        raise ValueError(f"keys must hold one key per row of proba: {n}; got shape {values.shape}")
    if values.dtype.kind in "iu":
        # a negative integer is the key of the same 64 bits, whichever integer type it comes in
        return values.view(np.uint64) if values.dtype == np.int64 else values.astype(np.uint64)
    words = [_word(value) for value in values.tolist()]
    return np.array(words, dtype=np.uint64)


def _word(value: Any) -> int:
    if isinstance(value, int):
        return value % (1 << 64)
    if isinstance(value, str):
        try:
            text = value.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"keys must be valid Unicode, and {value!a:.40} is not; pass integers, or strings that UTF-8 holds"
            ) from None
        # Python salts its own hash of a string, so that would differ from process to process
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    raise ValueError(f"keys must be integers or strings; got {type(value).__name__}: pass an identifier of each row")


def coefficients(seed: int, purpose: bytes = DRAWS) -> NDArray[np.uint64]:
    """Return the six coefficients of a seed's hash: ``a0, a1, b`` twice; other ones for another purpose."""
    # seeds such as 0, 1, 2 are close to each other: used as coefficients themselves they would give related draws
    digest = hashlib.blake2b((seed % (1 << 64)).to_bytes(8, "little"), digest_size=48, person=purpose).digest()
    return np.frombuffer(digest, dtype="<u8").astype(np.uint64)


def multiply_shift(keys: NDArray[np.uint64], a0: int, a1: int, b: int, *, bits: int = 64) -> NDArray[np.uint64]:
    """Return h(x), ``bits / 2`` bits long, of keys of ``bits`` bits; shorter ones than 64 are for enumeration."""
    half = np.uint64(bits // 2)
    modulus = np.uint64((1 << bits) - 1)
    low = keys & np.uint64((1 << (bits // 2)) - 1)
    return ((np.uint64(a0) * low + np.uint64(a1) * (keys >> half) + np.uint64(b)) & modulus) >> half


def uniform(seed: int, keys: NDArray[np.uint64], purpose: bytes = DRAWS) -> Array:
    """Return one number in [0, 1), a multiple of 2^-53, per key: the definition, in NumPy.

    Draws of one seed for two purposes, such as a rule's decisions and its folds, are independent.
    """
    words = [int(word) for word in coefficients(seed, purpose)]
    x = mixed(keys)
    high = multiply_shift(x, *words[:3])
    rest = multiply_shift(x, *words[3:])
    # float64 holds 53 bits below one: more would round up to 1.0 at times
    return (((high << np.uint64(32)) | rest) >> np.uint64(11)).astype(np.float64) * 2.0**-53


# --- folds, which depend on the content of the rows and a seed, never on their order or partitioning ------------------


def row_draws(hashes: NDArray[np.uint64], seed: int) -> Array:
    """Return one number in [0, 1) per unordered hash (n,), independent of what a rule of the same seed draws."""
    return uniform(seed, hashes, FOLDS)


def dealt(labels: NDArray[np.int64], draws: Array, n_classes: int, n_folds: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,), stratified by label; rows of a class that are equal share their fold.

    A row's draw says which fold it goes to, so that a row that is changed, added or left out moves no other row of a
    large class. A fold that has its share of a class, and a twentieth of the class more, is full: what is left over
    goes to the next fold with room. Fewer than 20 rows of a class are divided evenly.
    """
    fold = np.empty(len(labels), dtype=np.int64)
    for k in range(n_classes):
        mine = labels == k
        # equal rows must share a fold: a rule would else be judged on copies of rows that it was tuned on
        distinct, where = np.unique(draws[mine], return_inverse=True)
        fold[mine] = _spread(distinct, n_folds)[where.reshape(-1)]
    return fold


def _spread(draws: Array, n_folds: int) -> NDArray[np.int64]:
    """Return the folds of the different rows of one class."""
    wanted = (draws * n_folds).astype(np.int64)
    most = -(-len(draws) // n_folds) + len(draws) // 20
    if np.bincount(wanted, minlength=n_folds).max() <= most:
        return wanted
    room = np.full(n_folds, most)
    # the order does not depend on the fold that is wanted, so that one row less moves few others
    for row in np.argsort(draws * n_folds - wanted, kind="stable"):
        while room[wanted[row]] == 0:
            wanted[row] = (wanted[row] + 1) % n_folds
        room[wanted[row]] -= 1
    return wanted


def stratified_folds(table: Part, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,) of a labelled table."""
    assert table.labels is not None
    # without the order of the columns: naming classes differently must not move rows to other folds
    return dealt(table.labels, row_draws(table.unordered_hashes(), seed), table.n_classes, n_folds)


def dealt_labels(Y: NDArray[Any], shares: Array, order: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the fold (n,) of every row of labels (n, L), for folds that get ``shares`` (F,) of rows and labels.

    The rows are dealt out in an ``order`` (n,), by iterative stratification (Sechidis, Tsoumakas, Vlahavas: On the
    stratification of multi-label data, ECML PKDD 2011): the rows of the label that has fewest rows left, each to the
    fold that wants most rows of this label. Here, of a label that most rows have, the rows without it count; and of
    folds that want as many, the one gets a row that wants its other labels too, where the paper takes the fold with
    most room: that evens out common labels several times better.

    >>> Y = np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 0], [0, 0]])
    >>> dealt_labels(Y, np.array([0.5, 0.5]), np.arange(6)).tolist()
    [1, 0, 0, 1, 0, 1]
    """
    n = len(Y)
    # the rarer value of every label
    rare = Y.astype(bool) ^ (Y.mean(axis=0) > 0.5)
    left = rare.sum(axis=0)
    wanted = np.outer(shares, left)
    room = shares * n
    fold = np.full(n, -1)
    while left.any():
        label = int(np.argmin(np.where(left > 0, left, n + 1)))
        for row in order[rare[order, label] & (fold[order] < 0)]:
            # of folds that want as many rows of the label, the one that wants most of the row's other labels; sums that
            # differ by rounding, which depends on the processor, are equal
            others = np.round(wanted @ rare[row], DIGITS)
            fold[row] = best = np.lexsort((-room, -others, -wanted[:, label]))[0]
            wanted[best] -= rare[row]
            room[best] -= 1.0
            left -= rare[row]
    for row in order[fold[order] < 0]:
        fold[row] = best = int(np.argmax(room))
        room[best] -= 1.0
    return fold


def label_folds_to_judge(table: Part, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold (n,) of every row of several labels, stratified by all labels; ValueError if few rows differ.

    Rows of equal probabilities share a fold, which their order does not change.
    """
    assert table.labels is not None
    distinct, where = np.unique(table.unordered_hashes(), return_inverse=True)
    if len(distinct) < n_folds:
        raise ValueError(
            f"cross-fitting in {n_folds} folds needs rows that differ, and {len(distinct)} of them do; evaluate the "
            f"rule on other rows"
        )
    where = where.reshape(-1)
    Y = np.zeros((len(distinct), table.n_classes), dtype=np.uint8)
    np.maximum.at(Y, where, table.labels)
    order = np.argsort(row_draws(distinct, seed), kind="stable")
    return dealt_labels(Y, np.full(n_folds, 1.0 / n_folds), order)[where].astype(np.int64)


def row_keys(table: Part, groups: NDArray[np.integer] | None = None) -> NDArray[np.uint64]:
    """Return a key of every row (n,), other ones for equal rows, that do not depend on the order of the rows.

    Of rows whose ``groups`` (n,) count, those of equal content and label differ by their group, too.
    """
    assert table.labels is not None
    content = table.row_hashes()
    order = np.lexsort((table.labels, content) if groups is None else (groups, table.labels, content))
    starts = np.append(True, content[order][1:] != content[order][:-1])
    place = np.arange(len(order))
    number = np.empty(len(order), dtype=np.uint64)
    number[order] = (place - np.maximum.accumulate(np.where(starts, place, 0))).astype(np.uint64)
    return content ^ mixed(number)


def stratified_halves(table: Part, seed: int) -> NDArray[np.int64]:
    """Return the half, 0 or 1, of every row (n,) of a labelled table; rows that are equal may be in either."""
    assert table.labels is not None
    return dealt(table.labels, uniform(seed, row_keys(table), FOLDS), table.n_classes, 2)


def folds_to_judge(table: Part, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,), numbered from 0; ValueError if few rows differ and one fold holds all."""
    # a fold that no row fell into is left out, and the others are numbered without a gap
    names, fold = np.unique(stratified_folds(table, n_folds, seed), return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            "cross-fitting needs rows that differ, but all rows of a class hold the same probabilities, in some order; "
            "evaluate the rule on other rows"
        )
    return fold.reshape(-1).astype(np.int64)


def folds_by_content(table: Part, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,) by its content alone: that of a part of a table, too, is the one of the table.

    The classes are spread over the folds by chance, as the rows are.
    """
    words = mixed(table.unordered_hashes() ^ np.uint64(seed % (1 << 64)))
    return (words % np.uint64(n_folds)).astype(np.int64)


def cross_fit(fit: Callable[[Some], Fitted], parts: Iterable[Some]) -> Iterator[tuple[Some, Fitted]]:
    """Yield every part of the rows, such as `masks` of folds, with what ``fit`` of this part makes of the others."""
    for part in parts:
        yield part, fit(part)


def quietly(tune: Callable[[Some], Fitted]) -> Callable[[Some], Fitted]:
    """Return ``tune`` without its warnings of classes that the rows lack, and of constraints.

    A warning about all rows is given where the rule of all rows is tuned. What only the other rows of a part lack shows
    in the rule that is tuned on them.
    """

    def tuned(part: Some) -> Fitted:
        with warnings.catch_warnings():
            absent = (".* divides by class sizes", "no row of y has the (class|label)")
            about = (*absent, "the log loss of the probabilities", "not assured with confidence")
            warnings.filterwarnings("ignore", "|".join(about), UserWarning)
            return tune(part)

    return tuned


def masks(fold: NDArray[np.integer]) -> list[NDArray[np.bool_]]:
    """Return the rows of every fold, as masks (n,), from the folds (n,) of the rows."""
    return [fold == k for k in np.flatnonzero(np.bincount(fold))]
