"""The class shares of unlabelled rows: how many rows of each class they hold, how sure that is, and what to believe.

The estimate is the most likely one (`likelihood.py`) beside ``K / 2 (1 + n / n_source)`` rows with the shares of the
source, which keep what the rows say little about where it was. It is drawn back to the shares of the source by the
evidence that anything has changed. Twice the logarithm of the likelihood ratio has the distribution of chi squared
with K - 1 degrees of freedom, times ``v = 1 + n / n_source`` because the tuning rows are a sample too. Of a shift whose
ratio is LR, the part ``s = max(0, 1 - v chi2_{.95} / LR)`` is believed, so that nothing changes where nothing is shown.

How sure class shares are: the new rows are a sample, the tuning rows are one, and the calibration may be wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array
from confmax.errors import InputError
from confmax.shift.labels import LabelShift, label_shift, shares_of_rule
from confmax.shift.likelihood import (
    BY_NEWTON,
    LEAST_SHARE,
    Estimate,
    Likelihood,
    from_sample,
    intervals,
    most_likely,
    worth,
)
from confmax.shift.source import Source, label_rule_of, source_of
from confmax.tables import Part, Table
from confmax.tables.columns import warn
from confmax.tables.labels import is_missing, refuse_masked
from confmax.tables.several import labels_table
from confmax.tables.weights import Weights

BELIEVED = 0.95  # level of the test whose quantile draws the estimate back
LEVEL = 0.05
FEW_ROWS = 50
FEW_PER_CLASS = 5
UNLIKE = 0.01  # level of the test that the shares alone have changed
OTHERWISE = (
    "these rows do not look like the tuning rows with other class shares: the rows have changed in another way too, or "
    "the probabilities are not calibrated for some of them, so that the shares may be wrong"
)
UNSURE = 0.1  # standard error of a share, from which the rows do not say it
FLAT = 1e-3  # smallest information of a row about a direction of the shares


@dataclass(frozen=True, eq=False)
class PriorShift:
    """Class shares of rows without labels, and what they are worth: the result of `estimate_priors`.

    Attributes
    ----------
    classes : tuple
        Names of the K classes.
    priors : ndarray (K,)
        The shares to go by: those of the source, moved towards ``raw_priors`` by ``shrinkage``.
    raw_priors : ndarray (K,)
        The shares that the rows show: the most likely ones beside a few rows with the shares of the source.
    source : ndarray (K,)
        Shares of the rows that the rule was tuned on: their mean calibrated probabilities.
    shrinkage : float
        Which part of the difference between both is believed; 0 where the rows show no change.
    stderr : ndarray (K,)
        Standard errors of ``raw_priors``.
    statistic, p_value : float
        Twice the logarithm of the likelihood ratio of the most likely shares over those of the source, divided by
        ``1 + n / n_source``; and how likely one as large is if no share has changed.
    gap : float
        By how much, in the logarithm of the likelihood, other shares may be better than those found, at most.
    n_passes : int
        Number of passes over the rows.
    n_rows : float
        As how many rows those without a label count.
    labelled : ndarray (K,)
        Number of rows of each class whose label is known.
    misfit : float or None
        How likely rows that look so different would be if the tuning rows had other class shares and nothing else had
        changed; None without the tuning rows.
    warnings : tuple of str
        What the estimate may lack, in sentences.

    Examples
    --------
    >>> import confmax
    >>> solution = confmax.maximize("macro_f1", [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]] * 50, confusion="model")
    >>> shift = confmax.shift.estimate_priors([[0.9, 0.1], [0.3, 0.7], [0.3, 0.7]] * 50, solution)
    >>> shift.source.round(2).tolist(), shift.detected
    ([0.67, 0.33], True)
    """

    classes: tuple[Any, ...]
    priors: Array
    raw_priors: Array
    source: Array
    shrinkage: float
    stderr: Array
    statistic: float
    p_value: float
    gap: float
    n_passes: int
    n_rows: float
    labelled: Array
    misfit: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def detected(self) -> bool:
        """Whether the shares differ from those of the source, by a test at 5 %."""
        return self.p_value < LEVEL

    def interval(self, level: float = 0.9) -> Array:
        """Return intervals (K, 2) of the shares, each of which is right with probability ``level``."""
        return intervals(self.raw_priors, self.stderr, level)

    def moved(self, level: float = LEVEL) -> list[int]:
        """Return the classes whose shares have moved, at this ``level`` for all together; none without a shift."""
        if self.p_value >= level:
            return []
        ends = self.interval(1.0 - level / len(self.classes))
        outside = (self.source < ends[:, 0]) | (self.source > ends[:, 1])
        return np.flatnonzero(outside & (self.source >= LEAST_SHARE)).tolist()

    def __str__(self) -> str:
        ends = self.interval()
        lines = [self.sentence]
        for k, name in enumerate(self.classes):
            low, high = ends[k]
            shown = f"shown {self.raw_priors[k]:.4g}, 90% {low:.3g} to {high:.3g}"
            lines.append(f"  {name}: {self.source[k]:.4g} -> {self.priors[k]:.4g} ({shown})")
        return "\n".join([*lines, *self.warnings])

    __repr__ = __str__

    @property
    def sentence(self) -> str:
        """Whether the shares have moved, and which, in a sentence."""
        p = f"p = {self.p_value:.2g}"
        if self.detected:
            said, sign, which = self.what_moved.partition(": ")
            return f"{said} ({p}){sign}{which}"
        same = f"the class shares of these {self._counted} are those of the tuning rows, as far as they show"
        return f"{same} ({p})"

    @property
    def what_moved(self) -> str:
        """That the shares have moved, and which, in a sentence."""
        moved = [
            f"{self.classes[k]} from {self.source[k]:.3g} to {self.raw_priors[k]:.3g}"
            for k in sorted(self.moved(), key=lambda k: -abs(self.raw_priors[k] - self.source[k]))
        ]
        which = ", ".join(moved[:5]) + (f", and {len(moved) - 5} more" if len(moved) > 5 else "")
        return f"the class shares of these {self._counted} have moved{': ' if moved else ''}{which}"

    @property
    def _counted(self) -> str:
        return f"{self.n_rows + self.labelled.sum():.0f} rows"


def estimate_priors(
    new_proba: ArrayLike,
    source: Any,
    *,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    shrink: Any = "auto",
    tuned_on: Sequence[Any] | None = None,
) -> PriorShift | LabelShift:
    """Return the class shares of rows without labels, held against those that a rule was tuned on.

    Parameters
    ----------
    new_proba : array-like, data frame, torch tensor, scipy.sparse matrix, Dask collection or opened table (n, K)
        Raw class probabilities of the new rows, from the same model. For two classes also a vector (n,).
    source : Solution, DecisionRule, or fitted estimator
        What the shares are held against. Its rule knows the mean calibrated probabilities of its tuning rows.
    y : array-like (n,) or None
        True classes where they are known; None, NaN or -1 where they are not. A row whose class is known counts as one
        row of it, and its probabilities are not read.
    sample_weight : array-like (n,) or None
        Non-negative weights of the new rows.
    shrink : {"auto"}, None or float
        How much of the shift is believed: by the evidence, all of it for None, or a part from 0 to 1.
    tuned_on : (proba, y) or (proba, y, sample_weight), or None
        The tuning rows with raw probabilities. Intervals then take into account how far the calibration is right. Rules
        that were made by hand need it, as they do not know the shares.

    Returns
    -------
    PriorShift, or LabelShift for rules of several labels per row
        The shares with intervals and a test.

    Raises
    ------
    ValueError
        If the input is invalid; if the source knows no shares.

    Warns
    -----
    UserWarning
        If there are fewer than 50 rows, or 5 for a class, or if the rows do not say some share; with ``tuned_on`` also
        if they do not look like the tuning rows with other class shares.

    Notes
    -----
    The estimate holds where the classes look as before and only their shares have changed.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]] * 50
    >>> solution = confmax.maximize("macro_f1", P, [0, 0, 0, 1] * 50)
    >>> shift = confmax.shift.estimate_priors([[0.4, 0.6], [0.3, 0.7], [0.9, 0.1]] * 50, solution)
    >>> shift.detected
    True
    """
    part = _checked_part(shrink)
    of_labels = label_rule_of(source)
    found: Any
    if of_labels is not None:
        if y is not None or tuned_on is not None:
            raise InputError(
                "of several labels per row, shares are estimated without `y` and `tuned_on`", "leave both out"
            )
        table = labels_table(of_labels.decisions, new_proba, None, sample_weight, of_labels.class_names)
        found = label_shift(table, of_labels.class_names, shares_of_rule(of_labels), part)
        for sentence in found.warnings:
            warn(sentence)
        return found
    held = source_of(source, tuned_on)
    found = shift_of(*rows_and_counts(new_proba, y, sample_weight, held), part)
    for sentence in found.warnings:
        warn(sentence)
    return found


def shift_of(table: Table, held: Source, counts: Array, part: float | None) -> PriorShift:
    """Return the shift of the rows of a calibrated ``table``, beside ``counts`` (K,) of other rows with known classes.

    ``part`` is how much of it is believed; None is by the evidence.
    """
    # scipy takes longer to import than confmax
    from scipy.special import chdtrc, chdtri

    pi = held.shares.meant
    K = len(pi)
    n, n_source = worth(table)[0], held.shares.n_rows
    likelihood = Likelihood.of(table, pi)
    seen = likelihood.with_counts(counts)
    start = from_sample(table, pi)
    plain = most_likely(seen, start)
    v = 1.0 + (n + counts.sum()) / n_source
    drawn = seen.with_counts(K / 2.0 * v * pi)
    # the pseudo-counts move the estimate by little
    tempered = most_likely(drawn, 0.99 * plain.shares + 0.01 * pi)
    known = pi >= LEAST_SHARE
    # a row sums to one, but for classes without a share, which no shares explain
    at_source = float(counts @ np.log(pi)) if known.all() else seen.at(np.where(known, pi, 0.0), bends=False).value
    ratio = max(2.0 * (plain.value - at_source), 0.0)
    free = int(known.sum()) - 1
    if part is None:
        quantile = float(chdtri(free, 1.0 - BELIEVED))
        part = max(0.0, 1.0 - quantile * v / ratio) if ratio > 0.0 else 0.0
    priors = pi + part * (tempered.shares - pi)
    counted = information(table, pi, tempered.shares, drawn.counts)
    errors = spread(counted, held, tempered.shares, n, v)
    unlike = misfit(table, held, tempered.shares)
    return PriorShift(
        held.classes,
        priors / priors.sum() if part > 0.0 else pi,
        tempered.shares,
        pi,
        part,
        errors,
        ratio / v,
        float(chdtrc(free, ratio / v)),
        max(plain.gap, tempered.gap),
        plain.n_passes + tempered.n_passes,
        n,
        counts,
        unlike,
        (
            *_doubts(n + counts.sum(), K, counted.least / n, errors, tempered, held.classes),
            *([OTHERWISE] if unlike is not None and unlike < UNLIKE else []),
        ),
    )


def _doubts(n: float, K: int, least: float, errors: Array, found: Estimate, names: Sequence[Any]) -> list[str]:
    """Return in sentences what an estimate from n rows may lack."""
    doubts = []
    if n < max(FEW_ROWS, FEW_PER_CLASS * K):
        least_rows = max(FEW_ROWS, FEW_PER_CLASS * K)
        doubts.append(f"{n:.0f} rows are few for the shares of {K} classes; have at least {least_rows}")
    unsure = np.flatnonzero(errors > np.maximum(UNSURE, found.shares))
    if len(unsure) or least < FLAT:
        shown = ", ".join(str(names[k]) for k in unsure[:5])
        of = f" of {shown}" if shown else ""
        doubts.append(
            f"these rows hardly say the shares{of}: the probabilities do not tell some classes apart; labels of some "
            f"new rows would"
        )
    return doubts


def _checked_part(shrink: Any) -> float | None:
    if isinstance(shrink, str) and shrink == "auto":
        return None
    if shrink is None:
        return 1.0
    if isinstance(shrink, (int, float, np.number)) and 0.0 <= shrink <= 1.0:
        return float(shrink)
    raise InputError(f"`shrink` is 'auto', None, or a part from 0 to 1; got {shrink!r}")


def rows_and_counts(proba: Any, y: Any, sample_weight: Any, held: Source) -> tuple[Table, Source, Array]:
    """Return the calibrated table of the rows whose class is not known, ``held``, and the counts (K,) of the others.

    The others are in the table too, with the weight zero, wherever it lies.
    """
    table = held.table(proba, sample_weight)
    if y is None:
        return table, held, np.zeros(len(held.classes))
    codes = _codes(y, held.classes, table.n_rows)
    known = codes >= 0
    if known.all():
        raise InputError(
            "every row of `y` has a class, so no share is to be estimated",
            "pass their shares as `priors=`, or tune a rule on these rows",
        )
    if known.any():
        table = held.table(proba, np.where(known, 0.0, Weights.given(sample_weight).array(len(known))))
    counts = np.bincount(codes[known], minlength=len(held.classes)).astype(np.float64)
    new = np.flatnonzero((counts > 0.0) & (held.shares.meant < LEAST_SHARE))
    if len(new):
        raise InputError(
            f"`y` has rows of {held.classes[new[0]]!r}, and the tuning rows had none",
            "tune a rule on labelled rows of the new kind",
        )
    return table, held, counts


def _codes(y: Any, names: Sequence[Any], n_rows: int) -> NDArray[np.intp]:
    """Return the place (n,) of the class of every row, -1 where it is not known."""
    refuse_masked(y, "y")
    given: NDArray[Any] = np.asarray(y, dtype=object)
    if given.shape != (n_rows,):
        raise InputError(f"`y` has shape {given.shape}, and there are {n_rows} rows", "pass one entry per row")
    place = {name: k for k, name in enumerate(names)}
    codes = np.full(n_rows, -1)
    for row, label in enumerate(given):
        if is_missing(label):
            continue
        if not isinstance(label, Hashable):
            raise InputError(f"row {row} of `y` is {label!r:.80}, and a class is a name, a number or a truth value")
        if label in place:
            codes[row] = place[label]
        elif label != -1:
            raise InputError(f"row {row} of `y` has the class {label!r}, which is none of the rule's")
    return codes


# --- how sure class shares are ----------------------------------------------------------------------------------------


PRESENT = 1e-6  # share from which a class has an error
READ = 200_000  # rows that are read
FEW = 10  # tuning rows of a class, and new rows beside one for each function, with fewer of which means are not known
LEFT_OUT = 0.01  # share of such classes together, above which nothing is tested
SMALL = 1e-8  # smallest eigenvalue of a covariance that counts, as a part of the largest


class Information(NamedTuple):
    """The inverse of the information about the shares of the ``live`` classes (k, k), and its smallest eigenvalue."""

    live: NDArray[np.intp]
    inverse: Array
    least: float


def information(table: Table, pi: Array, q: Array, counts: Array) -> Information:
    """Return what the rows of a calibrated ``table`` say about shares near ``q`` (K,), beside ``counts`` (K,)."""
    live = np.flatnonzero((q > PRESENT) & (pi > 0.0))
    K = len(live)
    if len(q) > BY_NEWTON:
        # each class by itself: a matrix of very many classes is not computed
        D = Likelihood.of(table, pi).at(q, bends=False).slopes[live]
        return Information(live, np.diag(q[live] / np.maximum(D, 1e-300)), np.inf)
    bends = Likelihood.of(table, pi).at(q, bends=True).bends
    assert bends is not None
    H = bends[np.ix_(live, live)]
    basis = np.linalg.qr(np.eye(K) - 1.0 / K)[0][:, : K - 1]
    least = float(np.linalg.eigvalsh(basis.T @ H @ basis).min()) if K > 1 else np.inf
    H = H + np.diag(counts[live] / q[live] ** 2)
    return Information(live, basis @ np.linalg.pinv(basis.T @ H @ basis) @ basis.T, least)


def spread(counted: Information, held: Source, q: Array, n: float, v: float) -> Array:
    """Return the standard errors (K,) of shares ``q`` (K,) that n rows have shown.

    With the tuning rows: that of the new rows, that of the tuning rows (sandwich), and how far the estimate on the
    tuning rows, weighted to have these shares, lies from them. Else the first times ``v``.
    """
    live, V, _ = counted
    errors = np.zeros(len(q))
    if held.rows is None or len(q) > BY_NEWTON:
        errors[live] = np.sqrt(np.maximum(np.diagonal(V) * v, 0.0))
        return errors
    S, labels = _scores(held.rows.head, held.shares.meant, q)
    S = S[:, live]
    B = n * V
    K = len(live)
    noise = np.zeros((K, K))
    off = np.full(K, -1.0)
    for k in range(len(q)):
        rows = S[labels == k]
        if not len(rows):
            continue
        off += q[k] * rows.mean(axis=0)
        if len(rows) > 1:
            noise += q[k] ** 2 * np.cov(rows.T).reshape(K, K) / len(rows)
    errors[live] = np.sqrt(np.maximum(np.diagonal(V + B @ noise @ B), 0.0) + (B @ off) ** 2)
    return errors


def _scores(rows: Part, pi: Array, q: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the derivatives (m, K) of the logarithms of likelihood of tuning rows, and their labels (m,)."""
    step = max(1, rows.n_rows // READ)
    some = rows.at(slice(None, None, step)).dense("the errors of class shares")
    assert some.labels is not None
    P = some.proba.astype(np.float64) + 1e-12
    R = P * np.divide(1.0, pi, out=np.zeros_like(pi), where=pi > 0.0)
    return R / (R @ q)[:, None], some.labels


def misfit(table: Table, held: Source, q: Array) -> float | None:
    """Return the p-value of a test that new rows are the tuning rows with class shares near ``q`` (K,).

    Where only class shares change, the mean of any function g of the rows of a calibrated ``table`` is
    ``sum_k q_k E[g | k]``, with the means of the tuning rows by their labels. The functions are the probabilities and
    their squares: more than there are shares, so that no shares may fit. The distance at those that fit best, in terms
    of how far the samples let the means vary, is chi squared (Hansen 1982). How far they do is known from few rows
    only, so F takes its place (Hotelling), with the degrees of freedom of all samples together (Welch 1947). None
    without the tuning rows, with few of a class, with few new rows for so many functions, and with very many classes.
    """
    # scipy takes longer to import than confmax
    from scipy.special import fdtrc

    if held.rows is None or len(q) > BY_NEWTON:
        return None
    rows = held.rows.head
    assert rows.labels is not None
    known = (np.bincount(rows.labels, minlength=len(q)) >= FEW) & (rows.label_weight() > 0.0)
    live = np.flatnonzero(known)
    if q[~known].sum() > LEFT_OUT or len(live) < 2:
        return None
    means, spread, n = _moments(table.head, live)
    if n < FEW + len(means):
        return None
    samples = [(spread, n)]
    D = np.empty((len(live), len(means)))
    for i, k in enumerate(live):
        D[i], spread, n = _moments(rows.at(rows.labels == k), live)
        samples.append((q[k] ** 2 * spread, n))
    values, vectors = np.linalg.eigh(np.sum([noise for noise, _ in samples], axis=0))
    kept = values > SMALL * values[-1]
    # to independent functions of variance one
    root = vectors[:, kept] / np.sqrt(values[kept])
    known_by = _degrees(root, samples)
    basis = np.linalg.qr(np.eye(len(live)) - 1.0 / len(live))[0][:, : len(live) - 1]
    A = root.T @ D.T @ basis
    z = root.T @ (means - D.T @ (q[live] / q[live].sum()))
    x, _, rank, _ = np.linalg.lstsq(A, z, rcond=None)
    free = int(kept.sum()) - int(rank)
    left = known_by + 1.0 - kept.sum()
    if free < 1 or left <= 0.0:
        return None
    return float(fdtrc(free, left, ((z - A @ x) ** 2).sum() * left / (free * known_by)))


def _degrees(root: Array, samples: Sequence[tuple[Array, float]]) -> float:
    """Return the degrees of freedom of the sum of the covariances of ``samples``, each of which counts n rows."""
    parts = [(float(np.sum((noise @ root) * root)), n) for noise, n in samples]
    return sum(size for size, _ in parts) ** 2 / sum(size**2 / max(n - 1.0, SMALL) for size, n in parts)


def _moments(table: Part, live: NDArray[np.intp]) -> tuple[Array, Array, float]:
    """Return the means (m,) of the functions of the rows of a table, their covariance (m, m), and the rows' number."""
    some = table.at(slice(None, None, max(1, table.n_rows // READ))).dense("a test of class shares")
    P = some.proba[:, live].astype(np.float64)
    # the probabilities sum to one
    g = np.hstack([P[:, :-1], P**2])
    w = some.weights.astype(np.float64)
    w /= w.sum()
    mean = w @ g
    apart = (g - mean) * w[:, None]
    return mean, apart.T @ apart, 1.0 / float(w @ w)
