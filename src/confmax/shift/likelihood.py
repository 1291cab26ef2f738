"""The class shares under which the probabilities of unlabelled rows are the most likely.

Where only the class shares change, from ``pi`` to q, a row has the density ``sum_k q_k p_k / pi_k`` times a factor of
its own (Saerens, Latinne and Decaestecker 2002). Its logarithm, summed over rows, is concave in q, and so is what
labelled rows and pseudo-counts ``a`` add, ``sum_k a_k log q_k``. At any q no other shares are better by more than::

    (n + sum a) (max_k g_k - 1),   g_k = (n D_k + a_k / q_k) / (n + sum a),   D_k = mean_i (p_ik / pi_k) / f_i

with ``f_i = sum_k q_k p_ik / pi_k`` (Lindsay 1983 for ``a = 0``; a tangent bounds a concave function). The search stops
where this is at most ``tol``. A step goes to the maximum of the quadratic model on the simplex, which is a problem of
nonnegative least squares; with very many classes it is a step of expectation maximisation, extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.scaling import in_parts
from confmax.confusion import Array
from confmax.errors import InputError
from confmax.tables import Part, Table
from confmax.tables.weights import Weights

FLOOR = 1e-12  # added to every probability
LEAST_SHARE = 1e-9  # of a class, below which its share stays as it is
TOL = 0.01  # of the logarithm of the likelihood
MOST_PASSES = 500
BY_NEWTON = 200  # classes, above which no second derivatives are computed
CACHED = 1 << 22  # probabilities of a table in memory that are kept in float64
ROWS = 1 << 12  # rows that are read at a time
SAMPLE = 20_000  # rows that a search begins with, where there are many more
HALVINGS = 30


class Sums(NamedTuple):
    """The likelihood's logarithm at some shares, and its first and second derivatives: (), (K,), (K, K) or None."""

    value: float
    slopes: Array
    bends: Array | None

    def plus(self, other: Sums) -> Sums:
        """Return the sums of two parts of the rows."""
        bends = None if self.bends is None or other.bends is None else self.bends + other.bends
        return Sums(self.value + other.value, self.slopes + other.slopes, bends)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The logarithm of the likelihood of class shares q (K,) on a calibrated table, beside that of ``source``.

    ``read`` returns the sums (`Sums`) of all rows for multiples ``q / source`` (K,), and whether second derivatives are
    wanted; ``n`` is what all weights together count. ``counts`` (K,) are labelled rows, or pseudo-counts.
    """

    read: Callable[[Array, bool], Sums]
    n: float
    source: Array
    counts: Array

    @classmethod
    def of(cls, table: Table, source: Array) -> Likelihood:
        """Return the likelihood of the rows of a calibrated ``table``, each of which counts as its weight.

        Weights are rescaled to as many rows as they are worth, ``(sum w)^2 / sum w^2``.
        """
        known = source >= LEAST_SHARE
        scale = np.divide(1.0, source, out=np.zeros_like(source), where=known)
        n, factor = worth(table)
        # blocks of rows in memory are made once, and those of parts in every pass
        blocks = table.sorting(lambda: _Blocks.of(table.head), None)

        def read(q: Array, bends: bool) -> Sums:
            if blocks is not None:
                found = blocks.sums(q * scale, bends)
            else:
                found = table.over_parts(partial(_sums_of_part, multiples=q * scale, bends=bends), Sums.plus)
            return _scaled(found, scale, factor)

        return cls(read, n, source, 0 * source)

    def with_counts(self, counts: Array) -> Likelihood:
        """Return the likelihood with ``counts`` (K,) more rows of known classes; those without a share have none."""
        known = self.source >= LEAST_SHARE
        return Likelihood(self.read, self.n, self.source, self.counts + np.where(known, counts, 0.0))

    @property
    def total(self) -> float:
        """What all rows together count."""
        return self.n + float(self.counts.sum())

    def at(self, q: Array, *, bends: bool) -> Sums:
        """Return the sums at shares ``q`` (K,)."""
        found = self.read(q, bends)
        if not self.counts.any():
            return found
        some = self.counts > 0.0
        at = np.where(some, q, 1.0)
        second = None if found.bends is None else found.bends + np.diag(self.counts / at**2)
        return Sums(found.value + float(self.counts @ np.log(at)), found.slopes + self.counts / at, second)


class Estimate(NamedTuple):
    """Class shares (K,), the logarithm of their likelihood, by how much others may be better, and the passes."""

    shares: Array
    value: float
    gap: float
    n_passes: int


def most_likely(likelihood: Likelihood, start: Array | None = None, *, tol: float = TOL) -> Estimate:
    """Return the most likely class shares, to ``tol`` in the logarithm of their likelihood.

    The search begins at ``start`` (K,), by default the shares of the source. A class without a share in the source
    keeps none.

    >>> from confmax.tables import make_table
    >>> table = make_table([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.3, 0.7]])
    >>> found = most_likely(Likelihood.of(table, np.array([0.5, 0.5])))
    >>> found.shares.round(2), found.gap <= 0.01
    (array([0.24, 0.76]), True)
    """
    known = likelihood.source >= LEAST_SHARE
    q = np.where(known, likelihood.source if start is None else np.maximum(start, 0.0), 0.0)
    q = q / q.sum()
    newton = len(q) <= BY_NEWTON
    step = _newton if newton else _accelerated
    here = likelihood.at(q, bends=newton)
    passes = 1
    N = likelihood.total
    while (gap := N * (float(here.slopes.max() / N) - 1.0)) > tol and passes < MOST_PASSES:
        q, here, more = step(likelihood, q, here)
        passes += more
    return Estimate(q, here.value, max(gap, 0.0), passes)


def from_sample(table: Table, source: Array) -> Array | None:
    """Return shares (K,) from which a search on the rows of a large calibrated ``table`` begins; None for few rows."""
    if table.n_rows < 2 * SAMPLE:
        return None
    rows = table.head
    step = max(rows.n_rows // SAMPLE, 1)
    return most_likely(Likelihood.of(Table.of(rows.at(slice(None, None, step))), source)).shares


def intervals(shares: Array, stderr: Array, level: float) -> Array:
    """Return intervals (K, 2) of ``shares`` (K,) with these standard errors (K,), each right with this probability."""
    # scipy takes longer to import than confmax
    from scipy.special import ndtri

    if not 0.0 < level < 1.0:
        raise InputError(f"`level` lies between 0 and 1; got {level!r}")
    half = ndtri(0.5 + level / 2.0) * stderr
    return np.clip(np.stack([shares - half, shares + half], axis=1), 0.0, 1.0)


def worth(table: Table) -> tuple[float, float]:
    """Return as how many rows those of a table count, ``(sum w)^2 / sum w^2``, and by what their weights are scaled."""
    total = table.weight_total
    # a power of two, which rounds nothing: weights may be too large, or too small, to be squared
    unit = float(np.ldexp(1.0, np.frexp(total)[1] - 1))
    squares = table.over_parts(partial(_squares, unit=unit))
    return (total / unit) ** 2 / squares, total / unit / squares / unit


def _squares(part: Part, unit: float) -> float:
    weight = part.weights / unit
    return float(weight @ weight)


def _scaled(sums: Sums, scale: Array, factor: float) -> Sums:
    """Return sums over probabilities as those over ``p / source``, with weights that are scaled by a ``factor``."""
    bends = None if sums.bends is None else factor * sums.bends * np.outer(scale, scale)
    return Sums(factor * sums.value, factor * sums.slopes * scale, bends)


# --- steps ------------------------------------------------------------------------------------------------------------


def _newton(likelihood: Likelihood, q: Array, here: Sums) -> tuple[Array, Sums, int]:
    """Return better shares, the sums there, and the passes, by the quadratic model of the likelihood at ``q``."""
    N = likelihood.total
    target = _of_model(here, N)
    if target is not None:
        pulled = (likelihood.counts > 0.0) & (target <= 0.0)
        # no class with counts has the share zero
        target = np.where(pulled, 0.01 * q, target)
        way = target / target.sum() - q
        slope = float(here.slopes @ way)
        length = 1.0
        for tried in range(1, HALVINGS) if slope > 0.0 else ():
            new = np.maximum(q + length * way, 0.0)
            there = likelihood.at(new, bends=True)
            if there.value >= here.value + 1e-4 * length * slope:
                return new, there, tried
            length /= 2.0
    new = q * here.slopes / N
    return new, likelihood.at(new, bends=True), 1


def _of_model(here: Sums, N: float) -> Array | None:
    """Return the nonnegative shares, not yet divided by their sum, with the largest value of the quadratic model.

    As ``H q`` are the slopes at q, the model is ``2 g'x - x'H x / 2`` but for a constant. None where it has no maximum.
    """
    # scipy takes longer to import than confmax
    from scipy.optimize import nnls

    assert here.bends is not None
    H = here.bends / N
    K = len(H)
    H = H + 1e-10 * np.trace(H) / K * np.eye(K)
    try:
        lower = np.linalg.cholesky(H)
        left = np.linalg.solve(lower, 2.0 * here.slopes / N)
        # a heavy line makes the shares sum to one
        found, _ = nnls(np.vstack([lower.T, np.full(K, 1e3)]), np.append(left, 1e3))
    except (np.linalg.LinAlgError, RuntimeError):
        return None
    return found if np.isfinite(found).all() and found.sum() > 0.0 else None


def _accelerated(likelihood: Likelihood, q: Array, here: Sums) -> tuple[Array, Sums, int]:
    """Return better shares, the sums there, and the passes: two steps of EM, extrapolated (Varadhan, Roland 2008)."""
    N = likelihood.total

    def after(q: Array, sums: Sums) -> Array:
        return np.asarray(q * sums.slopes / N)

    one = after(q, here)
    at_one = likelihood.at(one, bends=False)
    two = after(one, at_one)
    r, v = one - q, (two - one) - (one - q)
    size = float(np.sqrt(v @ v))
    length = max(float(np.sqrt(r @ r)) / size, 1.0) if size > 0.0 else 1.0
    new = q + 2.0 * length * r + length**2 * v
    if length > 1.0 and (new >= np.where(likelihood.counts > 0.0, 1e-3 * two, 0.0)).all():
        there = likelihood.at(new / new.sum(), bends=False)
        if there.value >= at_one.value:
            return new / new.sum(), there, 2
        return two, likelihood.at(two, bends=False), 3
    return two, likelihood.at(two, bends=False), 2


# --- sums over rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The probabilities of a table in memory: a dense matrix over the `FLOOR`, or a sparse one, and weights (n,)."""

    proba: Any
    weight: Weights
    is_sparse: bool

    @classmethod
    def of(cls, table: Part) -> _Blocks:
        if table.storage.is_truncated:
            return cls(table.proba, table.weighing, True)
        P = table.dense("an estimate of class shares").proba
        if P.size <= CACHED:
            P = P.astype(np.float64) + FLOOR
        return cls(P, table.weighing, False)

    def sums(self, multiples: Array, bends: bool) -> Sums:
        """Return the sums of all rows, for ``multiples`` (K,) of their probabilities."""
        n, K = self.proba.shape
        if self.is_sparse:
            return _of_sparse(self.proba, self.weight, multiples, bends)
        if n <= ROWS and self.proba.dtype == np.float64:
            return _of_rows(self.proba, self.weight, multiples, bends)

        def work(start: int, stop: int) -> Sums:
            total = Sums(0.0, np.zeros(K), np.zeros((K, K)) if bends else None)
            for low in range(start, stop, ROWS):
                rows = slice(low, min(low + ROWS, stop))
                P = self.proba[rows]
                P = P if self.proba.size <= CACHED else P.astype(np.float64) + FLOOR
                total = total.plus(_of_rows(P, self.weight.of(rows), multiples, bends))
            return total

        first, *rest = in_parts(n, work)
        for one in rest:
            first = first.plus(one)
        return first


def _sums_of_part(part: Part, *, multiples: Array, bends: bool) -> Sums:
    return _Blocks.of(part).sums(multiples, bends)


def _of_rows(P: NDArray[Any], weight: Weights, multiples: Array, bends: bool) -> Sums:
    """Return the sums of rows ``P`` (n, K) in float64."""
    f = P @ multiples
    inverse = 1.0 / f
    value, slopes = weight.sum(np.log(f)), weight.times(inverse) @ P
    if not bends:
        return Sums(value, slopes, None)
    S = P * weight.roots().times(inverse)[:, None]
    return Sums(value, slopes, S.T @ S)


def _of_sparse(csr: Any, weight: Weights, multiples: Array, bends: bool) -> Sums:
    """Return the sums of the rows of a sparse matrix (n, K); what is not stored is the `FLOOR`."""
    f = csr.astype(np.float64) @ multiples + FLOOR * multiples.sum()
    w = weight.array(len(f))
    inverse = w / f
    slopes = np.asarray(csr.T @ inverse) + FLOOR * inverse.sum()
    if not bends:
        return Sums(float(w @ np.log(f)), slopes, None)
    S = csr.multiply((np.sqrt(w) / f)[:, None]).tocsr()
    return Sums(float(w @ np.log(f)), slopes, (S.T @ S).toarray())
