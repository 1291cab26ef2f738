"""How often labels are true on rows without labels, where rows have several: every label by itself, as two classes.

The estimate of a label is that of `confmax.shift.priors` with two classes. How far a label has moved is believed by a
test of all labels together, at a level of 5 % divided by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from confmax.confusion import Array
from confmax.errors import InputError
from confmax.rule.labels import LabelRule
from confmax.rule.shares import LabelShares
from confmax.shift.likelihood import LEAST_SHARE, TOL, intervals, worth
from confmax.tables import Part, Table

LEVEL = 0.05
EDGE = 1e-6  # shares are sought so far from zero and one
ROUNDS = 60
ROWS = 1 << 12  # rows that are read at a time
FEW_ROWS = 50
SHOWN = 5  # labels in a sentence


@dataclass(frozen=True, eq=False)
class LabelShift:
    """How often labels are true on rows without labels: the result of `estimate_priors` for rules of several labels.

    Attributes
    ----------
    classes : tuple
        Names of the L labels.
    priors, raw_priors, source : ndarray (L,)
        The shares to go by, those that the rows show, and those of the tuning rows.
    shrinkage : ndarray (L,)
        Which part of each difference is believed; 0 where the rows show no change.
    stderr : ndarray (L,)
        Standard errors of ``raw_priors``.
    p_values : ndarray (L,)
        How likely rows that differ so much would be if the share of the label had not changed, each by itself.
    gap : float
        By how much, in the logarithm of the likelihood, another share of a label may be better, at most.
    n_passes : int
        Number of passes over the rows.
    n_rows : float
        As how many rows these count.
    warnings : tuple of str
        What the estimates may lack, in sentences.
    """

    classes: tuple[Any, ...]
    priors: Array
    raw_priors: Array
    source: Array
    shrinkage: Array
    stderr: Array
    p_values: Array
    gap: float
    n_passes: int
    n_rows: float
    warnings: tuple[str, ...] = ()

    @property
    def detected(self) -> bool:
        """Whether the share of some label has changed, by a test of all labels together at 5 %."""
        return bool(self.moved())

    changed = detected

    def interval(self, level: float = 0.9) -> Array:
        """Return intervals (L, 2) of the shares, each of which is right with probability ``level``."""
        return intervals(self.raw_priors, self.stderr, level)

    def moved(self, level: float = LEVEL) -> list[int]:
        """Return the labels whose shares have moved, at this ``level`` for all together (Holm)."""
        order = np.argsort(self.p_values, kind="stable")
        allowed = level / np.arange(len(order), 0, -1)
        rejected = np.logical_and.accumulate(self.p_values[order] < allowed)
        return sorted(order[rejected].tolist())

    @property
    def sentence(self) -> str:
        """Whether the shares have moved, and which, in a sentence."""
        n = f"{self.n_rows:.0f} rows"
        moved = sorted(self.moved(), key=lambda k: self.p_values[k])
        if not moved:
            return f"labels are as frequent in these {n} as in the tuning rows, as far as they show"
        parts = [f"{self.classes[k]} from {self.source[k]:.3g} to {self.raw_priors[k]:.3g}" for k in moved[:SHOWN]]
        more = f", and {len(moved) - SHOWN} more" if len(moved) > SHOWN else ""
        return f"in these {n} the share has moved of {', '.join(parts)}{more}"

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self.warnings])

    __repr__ = __str__


def shares_of_rule(rule: LabelRule) -> LabelShares:
    """Return what a rule of several labels knows of its tuning rows; a ValueError if that is nothing."""
    if rule.shares is None:
        raise InputError(
            "the rule does not know how often labels were true on its tuning rows (one that was made by hand does not)",
            "tune it again",
        )
    return rule.shares


def label_shift(table: Table, names: Sequence[Any], shares: LabelShares, part: float | None = None) -> LabelShift:
    """Return the shift of the labels of a raw ``table`` against ``shares``; ``part`` of it is believed.

    None is by the evidence.
    """
    # scipy takes longer to import than confmax
    from scipy.special import chdtrc, chdtri

    pi = shares.meant
    calibrated = table if shares.maps is None else table.calibrated(shares.maps)
    n, factor = worth(table)
    v = 1.0 + n / shares.n_rows
    known = (pi >= LEAST_SHARE) & (pi <= 1.0 - LEAST_SHARE)
    inside = np.where(known, pi, 0.5)

    def read(q: Array) -> Sums:
        found = calibrated.over_parts(partial(_sums, q=q, pi=inside))
        return Sums(*(factor * np.where(known, each, 0.0) for each in found))

    plain = _most_likely(read, inside, np.zeros_like(pi), np.zeros_like(pi))
    tempered = _most_likely(read, plain.shares, v * inside, v * (1.0 - inside))
    ratio = np.maximum(2.0 * plain.value, 0.0)
    if part is None:
        quantile = float(chdtri(1, LEVEL / len(pi)))
        with np.errstate(divide="ignore"):
            shrinkage = np.where(ratio > 0.0, np.maximum(0.0, 1.0 - quantile * v / ratio), 0.0)
    else:
        shrinkage = np.full(len(pi), part)
    raw = np.where(known, tempered.shares, pi)
    few = (f"{n:.0f} rows are few for the shares of labels; have at least {FEW_ROWS}",) if n < FEW_ROWS else ()
    return LabelShift(
        tuple(names),
        np.where(shrinkage > 0.0, pi + shrinkage * (raw - pi), pi),
        raw,
        pi,
        shrinkage,
        np.where(known, np.sqrt(v / np.maximum(tempered.bends, 1e-300)), 0.0),
        np.where(known, chdtrc(1, ratio / v), 1.0),
        max(plain.gap, tempered.gap),
        plain.n_passes + tempered.n_passes,
        n,
        few,
    )


# --- the most likely shares -------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """The logarithms of the likelihoods of shares (L,), and minus its first and second derivatives, (L,) each."""

    value: Array
    slope: Array
    bend: Array


class Found(NamedTuple):
    """The most likely shares (L,), the logarithms of likelihood, minus second derivatives, and what is left open."""

    shares: Array
    value: Array
    bends: Array
    gap: float
    n_passes: int


def _most_likely(read: Callable[[Array], Sums], start: Array, true: Array, false: Array) -> Found:
    """Return the most likely shares beside pseudo-counts of rows that are ``true`` and ``false`` (L,).

    A concave function of one share lies below its tangent: no share is better by more than the larger of
    ``slope (1 - q)`` and ``-slope q``. Steps are Newton's, and halve the interval where they leave it.
    """
    low, high = np.full(len(start), EDGE), np.full(len(start), 1.0 - EDGE)
    q = np.clip(start, EDGE, 1.0 - EDGE)
    passes = 0
    while True:
        sums = read(q)
        passes += 1
        slope = sums.slope + true / q - false / (1.0 - q)
        bend = sums.bend + true / q**2 + false / (1.0 - q) ** 2
        gap = float(np.maximum(slope * (1.0 - q), -slope * q).max(initial=0.0))
        at_edge = ((q <= EDGE) & (slope < 0.0)) | ((q >= 1.0 - EDGE) & (slope > 0.0))
        if gap <= TOL or passes == ROUNDS or bool((at_edge | (np.abs(slope) <= 1e-12)).all()):
            return Found(q, sums.value, bend, gap, passes)
        low, high = np.where(slope > 0.0, q, low), np.where(slope < 0.0, q, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = q + slope / bend
        beyond = ~((step > low) & (step < high))
        # the ends themselves may be the best
        to_edge = np.where(slope > 0.0, np.minimum(high, 1.0 - EDGE), np.maximum(low, EDGE))
        q = np.where(beyond, np.where((step <= EDGE) | (step >= 1.0 - EDGE), to_edge, 0.5 * (low + high)), step)


def _sums(part: Part, *, q: Array, pi: Array) -> Array:
    """Return three sums (3, L) over the rows of a part, weights as they are given."""
    weight = part.weights
    if part.storage.is_truncated:
        return _of_stored(part.proba, weight, q, pi)
    P = part.dense("the shares of labels").proba
    total = np.zeros((3, P.shape[1]))
    for start in range(0, len(P), ROWS):
        rows = slice(start, start + ROWS)
        total += _of_rows(P[rows].astype(np.float64), weight[rows], q, pi)
    return total


def _of_rows(P: Array, weight: Array, q: Array, pi: Array) -> Array:
    apart = P / pi - (1.0 - P) / (1.0 - pi)
    f = (1.0 - P) / (1.0 - pi) + q * apart
    u = apart / f
    return np.stack([weight @ np.log(f), weight @ u, weight @ (u * u)])


def _of_stored(csr: Any, weight: Array, q: Array, pi: Array) -> Array:
    """Return the sums of what is stored, and of all other entries, whose probability is zero."""
    label = csr.indices
    w = np.repeat(weight, np.diff(csr.indptr))
    p = csr.data.astype(np.float64)
    apart = p / pi[label] - (1.0 - p) / (1.0 - pi[label])
    f = (1.0 - p) / (1.0 - pi[label]) + q[label] * apart
    u = apart / f
    L = csr.shape[1]
    rest = weight.sum() - np.bincount(label, w, L)
    sums = [np.bincount(label, w * each, L) for each in (np.log(f), u, u * u)]
    without = (np.log((1.0 - q) / (1.0 - pi)), -1.0 / (1.0 - q), 1.0 / (1.0 - q) ** 2)
    return np.stack([one + rest * other for one, other in zip(sums, without, strict=True)])
