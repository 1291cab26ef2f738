"""Exponentials, logarithms and softmax of rows: the same bits by the kernels, by NumPy, and on every machine.

Both functions are plain arithmetic, without a table or a fused operation, each within 2 ulp of the exact value
(`tests/test_softmax.py`); `softmax.h` has the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.kernels.blocks import over_rows
from confmax.kernels.products import in_order

PART_ROWS = 1 << 14  # of one thread's task
CELLS = 1 << 16  # of the table whose exponentials NumPy holds at a time

_LOG2E = 1.4426950408889634
# the logarithm of 2 in two parts, the first with so few digits that its products with whole numbers are exact
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves a whole number in the last bits
_TINY = -708.0  # below it the exponential is taken as zero
_LARGE = 709.0
_WHOLE = 4503599627370496.0  # 2^52
_WHOLE_BITS = np.uint64(0x4330000000000000)  # its bits
_BIAS = np.uint64(1023)
_SHIFT = np.uint64(52)
_ONE = _BIAS << _SHIFT  # the bits of 1.0
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # bits of the square root of 1/2
_EXP = tuple(float(1.0 / f) for f in np.cumprod(np.arange(1.0, 14.0)))  # 1 / k!
_LOG = tuple(2.0 / (2 * k + 1) for k in range(1, 12))  # of 2 artanh(s) / s - 2, in powers of s^2


def exponentials(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the exponentials of an array; 0 below -708."""
    # exp(x) = 2^n exp(r) with r at most half a log 2; the bits of n are the last ones of shifted
    y = np.clip(x, _TINY, _LARGE)
    shifted = y * _LOG2E + _ROUND
    n = shifted - _ROUND
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    # pairs of terms, then pairs of pairs: fewer products wait for each other than in Horner's scheme
    c = _EXP
    r2 = r * r
    r4 = r2 * r2
    low = (c[1] + c[2] * r) + r2 * (c[3] + c[4] * r)
    middle = (c[5] + c[6] * r) + r2 * (c[7] + c[8] * r)
    high = (c[9] + c[10] * r) + r2 * (c[11] + c[12] * r)
    power = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)))
    scaled = power * ((shifted.view(np.uint64) + _BIAS) << _SHIFT).view(np.float64)
    return np.where(x < _TINY, 0.0, scaled)


def logarithms(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of an array of numbers that are positive and not denormal."""
    # x = m 2^k with m between the roots of 1/2 and 2
    exponent = (x.view(np.uint64) - _ROOT_HALF + _ONE) >> _SHIFT
    k = (exponent | _WHOLE_BITS).view(np.float64) - (_WHOLE + 1023.0)
    f = (x.view(np.uint64) - (exponent << _SHIFT) + _ONE).view(np.float64) - 1.0
    s = f / (2.0 + f)
    t = s * s
    c = _LOG
    t2 = t * t
    t4 = t2 * t2
    low = (c[0] + c[1] * t) + t2 * (c[2] + c[3] * t)
    middle = (c[4] + c[5] * t) + t2 * (c[6] + c[7] * t)
    high = (c[8] + c[9] * t) + t2 * c[10]
    rest = t * (low + t4 * (middle + t4 * high))
    # log m = f - s (f - rest): the first term is exact
    return np.asarray(k * _LN2_HIGH + (f - (s * (f - rest) - k * _LN2_LOW)))


def in_turn(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of rows (n,) of x (n, K): four sums in turn, added in the order of the kernels."""
    K = x.shape[1]
    whole = K - K % 4
    four = np.zeros((len(x), 4))
    for k in range(0, whole, 4):
        four += x[:, k : k + 4]
    for k in range(whole, K):
        four[:, 0] += x[:, k]
    return np.asarray((four[:, 0] + four[:, 1]) + (four[:, 2] + four[:, 3]))


def softmax_rows(scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the softmax of rows (n, K), and the logarithms of their normalisers (n,)."""
    # the largest score is taken off first: no exponential exceeds one, and their sum is at least one
    top = scores.max(axis=1)
    q = exponentials(scores - top[:, None])
    total = in_turn(q)
    return q / total[:, None], top + logarithms(total)


def few_at_a_time(start: int, stop: int, width: int = 1) -> Iterator[slice]:
    """Yield slices of rows of a width, so many at a time as NumPy should hold temporary results of."""
    step = max(1, CELLS // width)
    return (slice(low, min(low + step, stop)) for low in range(start, stop, step))


def write_logs(p: NDArray[Any], floor: float, out: NDArray[Any]) -> None:
    """Write ``log(p + floor)`` to out (N,), for p (N,) that are not negative and a floor of at least 1e-300."""
    if kernels.native is not None:
        kernels.native.logs(p, floor, out)
        return
    for part in few_at_a_time(0, len(p)):
        out[part] = logarithms(p[part].astype(np.float64) + floor)


def scaled_rows(proba: NDArray[Any], W: NDArray[Any], b: NDArray[Any], floor: float) -> NDArray[Any]:
    """Return ``softmax(W log(p + floor) + b)`` (n, K) in the table's dtype, each row by itself.

    W is (K, K), or the diagonal (K,) of a matrix that has no other entries.
    """
    proba = np.ascontiguousarray(proba)
    out = np.empty_like(proba)

    def work(_: int, start: int, stop: int) -> None:
        if kernels.native is not None:
            kernels.native.scale(proba, start, stop, W, b, floor, out)
            return
        for part in few_at_a_time(start, stop, proba.shape[1]):
            x = logarithms(proba[part].astype(np.float64) + floor)
            out[part] = softmax_rows((W * x if W.ndim == 1 else in_order(x, W.T)) + b)[0]

    over_rows(work, len(proba), PART_ROWS)
    return out
