"""Rows that stay on their device, as torch tensors: their check, their weights in fixed point, their hashes and draws.

Checks run on the device, a chunk of rows at a time; what is refused is refused in the words of NumPy arrays. Weights
and sums are fixed-point integers (`FixedPoint`): a sum of integers does not depend on the order of its terms, so that
every statistic is the same, bit for bit, on any device, with any number of threads, and for any order of the rows.

Products are rounded to ``2^-61`` of all weight, so atomic additions in any order give the same bytes on a CPU and on a
GPU. Rows of 16 bits are not divided by their sums, which differ from one by rounding: all statistics are linear in the
rows, so gains stay exact. `Table.dense` is the only way to host memory, for code that searches or fits rows:
calibration, thresholds, coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.tables.array.kind import ARRAYS
from confmax.tables.arrays import ROW_SUM_TOLERANCE
from confmax.tables.fingerprints import FIRST, GOLDEN, SECOND, column_factors

Tensor = Any
WIDE = (torch.float32, torch.float64)
NARROW = (torch.float16, torch.bfloat16)
CELLS = {"cpu": 1 << 18, "cuda": 1 << 24}  # entries of a chunk: in the cache, or enough to keep the device busy
BITS = 61  # of a sum in fixed point; two more are left for rows whose sum exceeds one, and for the sign


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Rows on a device, and their labels and weights in host memory, as scans read them.

    Each row of 32 or 64 bits sums to one up to rounding; rows of 16 bits are used as they are, in float32.
    """

    proba: Any
    labels: NDArray[np.int64] | None = None
    weight: Array | None = None

    @cached_property
    def fixed(self) -> FixedPoint:
        """The rows' weights as sums take them."""
        return FixedPoint.of(self.weight, len(self.proba), self.proba.device)

    @cached_property
    def codes(self) -> Tensor:
        """The labels (n,) on the device, int64."""
        assert self.labels is not None
        return from_host(self.labels, self.proba.device)


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Weights of rows (n,), and how products with them become integers.

    A row's weight is ``2^-shift`` times its weight as it was given, so that all together, ``total``, are between a half
    and one; None stands for equal weights. Products of weights and probabilities are rounded to multiples of ``2^-61``
    (an error of at most ``n 2^-62`` of all weight in a sum over n rows, and of about ``n^(1/2) 2^-62`` where errors are
    independent).
    """

    weight: Tensor
    total: float
    shift: int

    @classmethod
    def of(cls, weight: Array | None, n: int, device: Any) -> FixedPoint:
        """Return the record of given weights (n,)."""
        total = float(n) if weight is None else float(weight.sum())
        shift = math.frexp(total)[1]
        scaled = None if weight is None else torch.as_tensor(np.ldexp(weight, -shift), device=device)
        return cls(scaled, total, shift)

    @property
    def unit(self) -> float:
        """What a product is multiplied by before it is rounded."""
        return 2.0 ** (BITS - self.shift) if self.weight is None else 2.0**BITS

    def products(self, values: Tensor, rows: slice) -> Tensor:
        """Return values (R,) or (R, K), times the weights of their rows, as integers."""
        scaled = values.double()
        if self.weight is not None:
            weight = self.weight[rows]
            scaled = scaled * (weight if scaled.ndim == 1 else weight[:, None])
        # numbers are not negative: half added and the rest cut off is rounding, alike on every device
        return (scaled * self.unit).add_(0.5).to(torch.int64)

    def counts(self, rows: slice, device: Any) -> Tensor:
        """Return the weights of the rows (R,) as integers: ones where they are equal."""
        if self.weight is None:
            return torch.ones(rows.stop - rows.start, dtype=torch.int64, device=device)
        return (self.weight[rows] * self.unit).add_(0.5).to(torch.int64)

    def back(self, sums: Tensor) -> Array:
        """Return sums of products as numbers, in the unit of the weights."""
        return np.ldexp(sums.cpu().numpy().astype(np.float64), self.shift - BITS)

    def back_counts(self, sums: Tensor) -> Array:
        """Return sums of weights as numbers, in their unit."""
        return sums.cpu().numpy().astype(np.float64) if self.weight is None else self.back(sums)


def on_host(values: Tensor) -> NDArray[Any]:
    """Return a tensor as an array in host memory, half precision as float32."""
    plain = values.detach().cpu()
    narrow = plain.is_floating_point() and plain.element_size() < 4
    return (plain.float() if narrow else plain).resolve_conj().resolve_neg().numpy()


def chunks(proba: Tensor) -> Iterator[slice]:
    """Yield the rows of a tensor (n, K) in slices of bounded size: no temporary is larger than a few of them."""
    n, K = proba.shape
    size = max(1, CELLS.get(proba.device.type, CELLS["cpu"]) // K)
    for low in range(0, n, size):
        yield slice(low, min(low + size, n))


@dataclass(frozen=True, eq=False)
class Sums:
    """Integer sums over rows, on the device: what is decided (B, M), p of it and hits of labels (B, K), matrices.

    ``model`` and ``matrix`` are sums of products with p, ``hits`` and ``counted`` of weights (`FixedPoint`).
    """

    columns: Tensor
    model: Tensor
    hits: Tensor
    matrix: Tensor
    counted: Tensor

    @classmethod
    def zeros(cls, n_gains: int, K: int, M: int, *, matrix: bool, device: Any) -> Sums:
        """Return empty sums."""
        sizes = ((n_gains, M), (n_gains, K), (n_gains, K), *[(n_gains if matrix else 0, M * K)] * 2)
        return cls(*(torch.zeros(size, dtype=torch.int64, device=device) for size in sizes))


def score_dtype(proba: Tensor) -> np.dtype[Any]:
    """Return the type of scores as NumPy's."""
    return np.dtype(np.float64 if proba.dtype == torch.float64 else np.float32)


def scores_of(proba: Tensor) -> Tensor:
    """Return probabilities in the type that scores are computed in; 16 bits become float32, exactly."""
    return proba if proba.dtype in WIDE else proba.float()


def from_host(array: NDArray[Any], device: Any) -> Tensor:
    """Return an array as a tensor on a device; not copied for the host, unless NumPy protects it."""
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(device)


def take(proba: Tensor, decision: Tensor) -> Tensor:
    """Return each row's probability of its decision (R,), zero for a decision that is no class."""
    K = proba.shape[1]
    hit = proba.gather(1, decision.clamp(max=K - 1)[:, None])[:, 0]
    return torch.where(decision < K, hit, torch.zeros((), dtype=hit.dtype, device=hit.device))


def checked_tensor(proba: Tensor) -> Tensor:
    """Return a tensor of probabilities (n, K) on its own device, its rows summing to one up to rounding.

    A vector (n,) holds the probabilities of the second of two classes. float16 and bfloat16 stay; integers become
    float64. A row's sum may differ from one by 1e-3, or by the spacing of bfloat16 near one. The caller's tensor is
    never changed and, being right, not copied. What is refused is refused in the words of arrays, and so are other
    layouts and devices.
    """
    refuse_elsewhere(proba)
    P = as_columns(proba)
    if P.ndim != 2 or P.shape[1] < 2 or P.is_complex():
        # the sentence depends on the shape and the type alone
        ARRAYS.check(np.broadcast_to(np.empty((), np.complex64 if P.is_complex() else np.float32), P.shape))
    if P.dtype not in WIDE + NARROW:
        P = P.float() if P.is_floating_point() else P.double()
    if P.stride(1) != 1:
        P = P.contiguous()
    if not len(P):
        return P
    eps = torch.finfo(P.dtype).eps
    tolerance = max(ROW_SUM_TOLERANCE, eps) if P.dtype in NARROW else ROW_SUM_TOLERANCE
    # one number from the device decides for all rows; which row is bad is looked for only if one is
    ranges = torch.stack([_range(P[rows]) for rows in chunks(P)])
    least = ranges[:, 0].amin().item()
    most = ranges[:, 1].amax().item()
    if not (least >= 0.0 and most <= tolerance):  # NaN is neither
        _refuse(P, tolerance)
    return _divided(P, 8 * eps) if P.dtype in WIDE and most > 8 * eps else P


def refuse_elsewhere(proba: Tensor) -> None:
    """Refuse, by a ValueError, tensors of layouts and on devices that are not supported."""
    if proba.layout != torch.strided or proba.is_quantized:
        raise ValueError(f"proba is a tensor of layout {proba.layout}; pass a dense one: proba.to_dense()")
    if proba.device.type not in CELLS:
        raise ValueError(
            f"proba is on the device {proba.device}, and only cpu and cuda are supported; pass proba.cpu()"
        )


def as_columns(proba: Tensor) -> Tensor:
    """Return a tensor without its gradient; a vector (n,), the second of two classes, as two columns (n, 2)."""
    p = proba.detach()
    if p.ndim != 1 or p.is_complex():
        return p
    if not p.is_floating_point():
        p = p.double()
    if not ((p >= 0) & (p <= 1)).all():
        ARRAYS.check(on_host(p))  # raises, and names the row
    return torch.stack([1 - p, p], dim=1)


def _range(P: Tensor) -> Tensor:
    """Return the smallest entry and the largest distance of a row's sum from one (2,), NaN if there is one."""
    return torch.stack([P.amin().double(), _off(P).amax()])


def _off(P: Tensor) -> Tensor:
    return (P.double().sum(dim=1) - 1.0).abs_()


def _divided(P: Tensor, rounding: float) -> Tensor:
    """Return a copy whose rows are divided by their sums, but for those that sum to one within rounding."""
    out = torch.empty_like(P)
    for rows in chunks(P):
        wide = P[rows].double()
        sums = wide.sum(dim=1)
        loose = (sums - 1.0).abs_() > rounding
        out[rows] = torch.where(loose[:, None], wide / sums[:, None], wide).to(P.dtype)
    return out


def _refuse(P: Tensor, tolerance: float) -> None:
    """Raise what the first bad row, taken by itself as an array, raises: not finite before negative before the sum."""
    tests: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda p: ~p.isfinite().all(dim=1),
        lambda p: (p < 0).any(dim=1),
        lambda p: ~(_off(p) <= tolerance),
    )
    for bad in tests:
        for rows in chunks(P):
            found = bad(P[rows])
            if found.any():
                row = rows.start + int(found.long().argmax())
                try:
                    ARRAYS.check(on_host(P[row : row + 1]))
                except ValueError as error:
                    words = str(error).replace("row 0", f"row {row}", 1)
                    raise ValueError(words.replace(f"{ROW_SUM_TOLERANCE:g}", f"{tolerance:g}")) from None


# --- hashes and draws -------------------------------------------------------------------------------------------------

# Hashes are signed 64-bit words of the same bits as on arrays: torch has no sums of unsigned ones, and signed sums and
# products wrap alike. Only a shift to the right must be told to bring in zeros.


def row_hashes(proba: Tensor) -> Tensor:
    """Return the bits of the hash of every row (n,), int64, on the device of ``proba`` (n, K)."""
    factors = torch.as_tensor(column_factors(proba.shape[1]).view("int64"), device=proba.device)
    return _mixed(_summed(proba, lambda words: words * factors))


def unordered_hashes(proba: Tensor) -> Tensor:
    """Return the bits of the unordered hash of every row (n,), int64, on the device of ``proba`` (n, K)."""
    return _mixed(_summed(proba, _mixed))


def uniform(keys: Tensor, words: NDArray[np.uint64]) -> Tensor:
    """Return one number in [0, 1), a multiple of 2^-53, per key (n,), float64, as `confmax.tables.draws` defines it."""
    keys = _mixed(keys)
    low = keys & 0xFFFFFFFF
    half = _shifted(keys, 32)
    a0, a1, b, c0, c1, d = (_signed(int(word)) for word in words)
    high = _shifted(low * a0 + half * a1 + b, 32)
    rest = _shifted(low * c0 + half * c1 + d, 32)
    return _shifted((high << 32) | rest, 11).double() * 2.0**-53


def _summed(proba: Tensor, each: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the sum over every row (n,) of what ``each`` makes of its words."""
    sums = torch.empty(len(proba), dtype=torch.int64, device=proba.device)
    for part in chunks(proba):
        bits = (proba[part].float().contiguous().view(torch.int32).long() << 1) & 0xFFFFFFFF
        sums[part] = each(bits ^ (bits >> 16)).sum(dim=1)
    return sums


def _mixed(words: Tensor) -> Tensor:
    """Scramble words one to one, as on arrays."""
    z = words * _signed(GOLDEN)
    z = (z ^ _shifted(z, 30)) * _signed(FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(SECOND)
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """Return words shifted right, zeros coming in."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def _signed(word: int) -> int:
    """Return the signed word of the same bits."""
    return word - (1 << 64) if word >= 1 << 63 else word
