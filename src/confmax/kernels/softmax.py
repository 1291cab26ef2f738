"""Exponentials, logarithms and softmax of whole blocks of rows, in vectors.

The library's exponential takes one number at a time, and a calibrated table needs one per entry and pass. Written as
plain arithmetic, without a branch, a table or a fused operation, both functions become vector instructions, and their
results are the same bits on every machine: each within 2 ulp of the exact value (`tests/test_softmax.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from confmax.kernels.blocks import over_rows

ROWS = 32  # of a block of scores, which stays in the inner cache
PART_ROWS = 1 << 14  # of one thread's task

_LOG2E = 1.4426950408889634
# the logarithm of 2 in two parts, the first with so few digits that its products with whole numbers are exact
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves a whole number in the last bits
_TINY = -708.0  # below it the exponential is taken as zero
_LARGE = 709.0
_WHOLE = 4503599627370496.0  # 2^52
_WHOLE_BITS = np.uint64(0x4330000000000000)  # its bits
_BIAS, _SHIFT = np.uint64(1023), np.uint64(52)
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # bits of the square root of 1/2
_EXP = tuple(float(1.0 / f) for f in np.cumprod(np.arange(1.0, 14.0)))  # 1 / k!
_LOG = tuple(2.0 / (2 * k + 1) for k in range(1, 12))  # of 2 artanh(s) / s - 2, in powers of s^2


@intrinsic
def _bits(typingctx, x):  # type: ignore[no-untyped-def]
    """Return the bits of a float64."""
    return types.uint64(types.float64), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic
def _real(typingctx, n):  # type: ignore[no-untyped-def]
    """Return the float64 that has these bits."""
    return types.float64(types.uint64), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.DoubleType())


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _exp(x):  # type: ignore[no-untyped-def]
    # exp(x) = 2^n exp(r) with r at most half a log 2; the bits of n are the last ones of shifted
    y = min(max(x, _TINY), _LARGE)
    shifted = y * _LOG2E + _ROUND
    n = shifted - _ROUND
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    # pairs of terms, then pairs of pairs: fewer products wait for each other than in Horner's scheme
    c, r2 = _EXP, r * r
    r4 = r2 * r2
    low = (c[1] + c[2] * r) + r2 * (c[3] + c[4] * r)
    middle = (c[5] + c[6] * r) + r2 * (c[7] + c[8] * r)
    high = (c[9] + c[10] * r) + r2 * (c[11] + c[12] * r)
    power = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)))
    scaled = power * _real((_bits(shifted) + _BIAS) << _SHIFT)  # type: ignore[call-arg]
    return 0.0 if x < _TINY else scaled


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _log(x):  # type: ignore[no-untyped-def]
    # x = m 2^k with m between the roots of 1/2 and 2; x is positive and not denormal
    exponent = (_bits(x) - _ROOT_HALF + (_BIAS << _SHIFT)) >> _SHIFT  # type: ignore[call-arg]
    k = _real(exponent | _WHOLE_BITS) - (_WHOLE + 1023.0)
    f = _real(_bits(x) - (exponent << _SHIFT) + (_BIAS << _SHIFT)) - 1.0
    s = f / (2.0 + f)
    t = s * s
    c, t2 = _LOG, t * t
    t4 = t2 * t2
    low = (c[0] + c[1] * t) + t2 * (c[2] + c[3] * t)
    middle = (c[4] + c[5] * t) + t2 * (c[6] + c[7] * t)
    high = (c[8] + c[9] * t) + t2 * c[10]
    rest = t * (low + t4 * (middle + t4 * high))
    # log m = f - s (f - rest): the first term is exact
    return k * _LN2_HIGH + (f - (s * (f - rest) - k * _LN2_LOW))


@njit(cache=True, nogil=True, error_model="numpy")
def exp_all(x):  # type: ignore[no-untyped-def]
    """Replace the numbers of x (N,) float64 by their exponentials; 0 below -708."""
    for i in range(x.shape[0]):
        x[i] = _exp(x[i])


@njit(cache=True, nogil=True, error_model="numpy")
def log_all(p, floor, out):  # type: ignore[no-untyped-def]
    """Write ``log(p + floor)`` to out (N,), for p (N,) that are not negative and a floor of at least 1e-300."""
    for i in range(p.shape[0]):
        out[i] = _log(np.float64(p[i]) + floor)


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_rows(z, rows, n, a, b, q, log_total):  # type: ignore[no-untyped-def]
    """Write ``softmax(a z + b)`` of the rows listed in rows (R,), the first n, to q (R, K), the logs of their
    normalisers to log_total (R,).

    Sums run over four interleaved parts, added in a fixed order.
    """
    K = z.shape[1]
    for r in range(n):
        row, out = z[rows[r]], q[r]
        t0 = t1 = t2 = t3 = -np.inf
        for k in range(K):
            out[k] = a[k] * row[k] + b[k]
        whole = K - K % 4
        for k in range(0, whole, 4):
            t0, t1 = max(t0, out[k]), max(t1, out[k + 1])
            t2, t3 = max(t2, out[k + 2]), max(t3, out[k + 3])
        for k in range(whole, K):
            t0 = max(t0, out[k])
        # the largest score is taken off first: no exponential exceeds one, and their sum is at least one
        top = max(max(t0, t1), max(t2, t3))
        log_total[r] = top
        for k in range(K):
            out[k] -= top
    # one loop over the entries of all rows: rows of few classes would leave most of a vector empty
    exp_all(q.reshape(-1)[: n * K])
    for r in range(n):
        out = q[r]
        # a compiler may not reorder a sum; four of them keep the processor busy, in one order on every machine
        s0 = s1 = s2 = s3 = 0.0
        whole = K - K % 4
        for k in range(0, whole, 4):
            s0 += out[k]
            s1 += out[k + 1]
            s2 += out[k + 2]
            s3 += out[k + 3]
        for k in range(whole, K):
            s0 += out[k]
        total = (s0 + s1) + (s2 + s3)
        log_total[r] += _log(total)
        for k in range(K):
            out[k] /= total


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_sum(q, z, centre, power):  # type: ignore[no-untyped-def]
    """Return the sum of ``q (z - centre)^power`` of vectors (K,), power 1 or 2, by four interleaved sums."""
    K = q.shape[0]
    s0 = s1 = s2 = s3 = 0.0
    whole = K - K % 4
    for k in range(0, whole, 4):
        x0, x1, x2, x3 = z[k] - centre, z[k + 1] - centre, z[k + 2] - centre, z[k + 3] - centre
        s0 += q[k] * (x0 * x0 if power == 2 else x0)
        s1 += q[k + 1] * (x1 * x1 if power == 2 else x1)
        s2 += q[k + 2] * (x2 * x2 if power == 2 else x2)
        s3 += q[k + 3] * (x3 * x3 if power == 2 else x3)
    for k in range(whole, K):
        x0 = z[k] - centre
        s0 += q[k] * (x0 * x0 if power == 2 else x0)
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True, error_model="numpy")
def _scale(proba, start, stop, a, b, floor, out):  # type: ignore[no-untyped-def]
    K = proba.shape[1]
    z, q, log_total, rows = np.empty((ROWS, K)), np.empty((ROWS, K)), np.empty(ROWS), np.arange(ROWS)
    for low in range(start, stop, ROWS):
        n = min(ROWS, stop - low)
        for r in range(n):
            log_all(proba[low + r], floor, z[r])
        softmax_rows(z, rows, n, a, b, q, log_total)
        for r in range(n):
            for k in range(K):
                out[low + r, k] = q[r, k]


def scaled_rows(proba: NDArray[Any], a: NDArray[Any], b: NDArray[Any], floor: float) -> NDArray[Any]:
    """Return ``softmax(a_k log(p_k + floor) + b_k)`` (n, K) in the table's dtype, each row by itself."""
    out = np.empty_like(proba)
    over_rows(lambda _, start, stop: _scale(proba, start, stop, a, b, floor, out), len(proba), PART_ROWS)
    return out
