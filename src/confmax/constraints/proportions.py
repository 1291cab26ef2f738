"""Limits on proportions: how many rows a quantity is a share of, and what exact binomial intervals and tests say.

A recall is a share of the rows of its class, a precision of the rows that are decided as its class. If a rule was not
tuned on some rows, drawn independently, the number of them that count is binomial. The interval is that of Clopper and
Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika 26 (1934).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from confmax.confusion import Array, Confusion
from confmax.metrics import Metric
from confmax.tables import Table

LEVEL = 0.95  # of the intervals of label values
REFUTED = 0.05  # chance that labels refute a limit, by an exact one-sided test, which is just kept in truth
CHANCE = 0.1  # of so many hits on labels, for a share that does not keep the limit
WHOLE = 1e-9  # a count that is this close to a whole number is one
MOST_ROWS = 10**9  # that are worth naming: a share that needs more just meets its limit


def rows_for_floor(limit: float) -> int:
    """Return how many rows must be decided before a precision of ``limit`` on labels counts.

    So many rows of a class whose true share is the limit are all right in one sample of ten.

    >>> rows_for_floor(0.9), rows_for_floor(0.7), rows_for_floor(0.0)
    (22, 7, 1)
    """
    if not 0.0 < limit < 1.0:
        return 1
    return int(np.ceil(np.log(CHANCE) / np.log(limit) - WHOLE))


def trials(metric: Metric, S: Confusion, n_rows: float) -> float:
    """Return how many of ``n_rows`` rows, which have the confusion ``S``, a proportion is a share of."""
    return float(np.round(metric.among(S) * n_rows, 6))


def counted_rows(table: Table) -> int | None:
    """Return how many rows of a labelled table count; None if their weights are not equal."""
    least, most = table.known.weight_ends
    return table.n_weighted if most - least <= WHOLE * most else None


def interval(share: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact two-sided interval of a proportion, observed as ``share`` of ``n`` rows.

    The expected count of a rule that draws need not be whole: it is then rounded outward.

    >>> [round(end, 4) for end in interval(0.8, 10)]
    [0.4439, 0.9748]
    """
    # scipy takes longer to import than confmax
    from scipy.special import betaincinv

    met = share * n
    tail = (1.0 - level) / 2.0
    low = np.floor(met + WHOLE)
    high = np.ceil(met - WHOLE)
    lower = float(betaincinv(low, n - low + 1.0, tail)) if low > 0 else 0.0
    upper = float(betaincinv(high + 1.0, n - high, 1.0 - tail)) if high < n else 1.0
    return lower, upper


def kept_on_new_rows(share: float, n: float, limit: float, *, is_floor: bool, confidence: float) -> bool:
    """Whether a proportion, observed as ``share`` of ``n`` rows, keeps a limit in truth with this ``confidence``.

    This is the exact one-sided binomial test of the level ``1 - confidence``. Limits that every proportion keeps pass.

    >>> [kept_on_new_rows(met / 20, 20, 0.8, is_floor=True, confidence=0.9) for met in (18, 19)]
    [False, True]
    """
    return bool(chances_of_shares(np.asarray(share), np.asarray(n), limit, is_floor=is_floor) <= 1.0 - confidence)


def refutes(share: float, n: float, limit: float, *, is_floor: bool) -> bool:
    """Whether labels refute a limit on a proportion, observed as ``share`` of ``n`` rows.

    A proportion that just keeps the limit would be observed so far beyond it in less than one sample of twenty.

    >>> [refutes(hits / 20, 20, 0.8, is_floor=True) for hits in (12, 13)]
    [True, False]
    """
    if share >= limit if is_floor else share <= limit:
        return False
    # the expected count of a rule that draws need not be whole: it is then rounded toward the limit
    count = np.ceil(share * n - WHOLE) if is_floor else np.floor(share * n + WHOLE)
    return bool(chances_of_counts(count, round(n), limit, is_floor=not is_floor) < REFUTED)


def chances_of_shares(shares: Array, n: Array, limit: float, *, is_floor: bool) -> Array:
    """Return `chances_of_counts` of proportions, observed as ``shares`` (...) of ``n`` (...) rows, rounded outward."""
    met = shares * n
    counts = np.floor(met + WHOLE) if is_floor else np.ceil(met - WHOLE)
    return chances_of_counts(counts, np.round(n), limit, is_floor=is_floor)


def chances_of_counts(counts: Any, n: Any, limit: float, *, is_floor: bool) -> Array:
    """Return exact one-sided p-values: the chance of a count at least as good, if the proportion just misses a limit.

    ``counts`` of ``n`` rows, arrays of whole numbers, count; of a floor, more are better.

    >>> chances_of_counts([18, 19], 20, 0.8, is_floor=True).round(4)
    array([0.2061, 0.0692])
    """
    # scipy takes longer to import than confmax
    from scipy.special import bdtr, bdtrc

    counts, n = np.broadcast_arrays(np.asarray(counts, dtype=np.float64), np.asarray(n, dtype=np.int64))
    if limit <= 0.0 if is_floor else limit >= 1.0:
        return np.zeros(counts.shape)
    if not is_floor:
        return np.where(n > 0, bdtr(counts, np.maximum(n, 1), limit), 1.0)
    # of a share that is one only a share of one is kept
    return np.where(counts > 0, bdtrc(np.maximum(counts - 1.0, 0.0), np.maximum(n, 1), limit), 1.0)


def rows_needed(share: float, limit: float, *, is_floor: bool, confidence: float) -> int | None:
    """Return about how many rows show a proportion of this ``share`` to keep a limit.

    This is ``z^2 f (1 - f) / margin^2``, with the normal quantile z of the confidence and the limit f, and a few more
    for the exact test. It is None if the share does not keep the limit, or so narrowly that more than `MOST_ROWS` rows
    would be needed.

    >>> rows_needed(0.85, 0.8, is_floor=True, confidence=0.9)
    126
    """
    from scipy.special import ndtri

    margin = share - limit if is_floor else limit - share
    if margin <= 0.0:
        return None
    enough = np.ceil(float(ndtri(confidence)) ** 2 * limit * (1.0 - limit) / margin**2)
    if enough > MOST_ROWS:
        return None
    n = int(enough)
    while not kept_on_new_rows(share, n, limit, is_floor=is_floor, confidence=confidence):
        n += 1 + n // 100
    return n
