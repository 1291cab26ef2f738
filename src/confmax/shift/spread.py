"""How sure class shares are: the new rows are a sample, the tuning rows are one, and the calibration may be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.shift.likelihood import BY_NEWTON, Likelihood
from confmax.shift.source import Source
from confmax.tables import MemoryTable, Table

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
    S, labels = _scores(held.rows, held.shares.meant, q)
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


def _scores(rows: MemoryTable, pi: Array, q: Array) -> tuple[Array, NDArray[np.int64]]:
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

    rows = held.rows
    if rows is None or len(q) > BY_NEWTON:
        return None
    assert rows.labels is not None
    known = (np.bincount(rows.labels, minlength=len(q)) >= FEW) & (rows.label_weight() > 0.0)
    live = np.flatnonzero(known)
    if q[~known].sum() > LEFT_OUT or len(live) < 2:
        return None
    means, spread, n = _moments(table.in_memory(), live)
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


def _moments(table: MemoryTable, live: NDArray[np.intp]) -> tuple[Array, Array, float]:
    """Return the means (m,) of the functions of the rows of a table, their covariance (m, m), and the rows' number."""
    some = table.at(slice(None, None, max(1, table.n_rows // READ))).dense("a test of class shares")
    P = some.proba[:, live].astype(np.float64)
    # the probabilities sum to one
    g = np.hstack([P[:, :-1], P**2])
    w = np.ones(len(g)) if some.weight is None else some.weight.astype(np.float64)
    w /= w.sum()
    mean = w @ g
    apart = (g - mean) * w[:, None]
    return mean, apart.T @ apart, 1.0 / float(w @ w)
