"""How sure class shares are: the new rows are a sample, the tuning rows are one, and the calibration may be wrong."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.shift.likelihood import BY_NEWTON, Likelihood
from confmax.shift.source import Source
from confmax.tables import MemoryTable, Table

PRESENT = 1e-6  # share from which a class has an error
READ = 200_000  # tuning rows that are read


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
    """Return the p-value of a test that new rows are the tuning rows with class shares ``q`` (K,), as the model says.

    Compared are the means of probabilities and of their squares on the rows of a calibrated ``table`` with those on the
    tuning rows, each weighted by ``sum_k q_k p_k / pi_k``; what other shares would explain is left out. None where the
    tuning rows are not known, or there are very many classes.
    """
    # scipy takes longer to import than confmax
    from scipy.special import chdtrc

    pi = held.shares.meant
    if held.rows is None or len(pi) > BY_NEWTON:
        return None
    (P, w), (T, u) = (_some(rows) for rows in (table.in_memory(), held.rows))
    ratios = T * np.divide(1.0, pi, out=np.zeros_like(pi), where=pi > 0.0)
    f = ratios @ q
    f /= u @ f
    new, tuning = (np.hstack([part[:, :-1], part**2]) for part in (P, T))
    difference = w @ new - (u * f) @ tuning
    noise = _noise(new, w) + _noise(f[:, None] * tuning, u)
    basis = np.linalg.qr(np.eye(len(pi)) - 1.0 / len(pi))[0][:, :-1]
    explained = (u[:, None] * tuning).T @ ratios @ basis
    size, ways = np.linalg.eigh(noise)
    kept = size > 1e-8 * max(float(size.max()), 0.0)
    if not kept.any():
        return None
    scale = ways[:, kept] / np.sqrt(size[kept])
    left, values, _ = np.linalg.svd(scale.T @ explained, full_matrices=False)
    left = left[:, values > 1e-6 * values.max(initial=0.0)]
    rest = scale.T @ difference
    rest = rest - left @ (left.T @ rest)
    free = len(rest) - left.shape[1]
    return float(chdtrc(free, rest @ rest)) if free > 0 else None


def _some(rows: MemoryTable) -> tuple[Array, Array]:
    """Return probabilities (m, K) in float64, and weights (m,) that sum to one, of at most about `READ` rows."""
    some = rows.at(slice(None, None, max(1, rows.n_rows // READ))).dense("a test of class shares")
    weight = np.ones(some.n_rows) if some.weight is None else some.weight
    return some.proba.astype(np.float64), weight / weight.sum()


def _noise(values: Array, weight: Array) -> Array:
    """Return the covariance (d, d) of the mean of ``values`` (m, d) with weights (m,) that sum to one."""
    apart = values - weight @ values
    return np.asarray((apart * weight[:, None] ** 2).T @ apart)
