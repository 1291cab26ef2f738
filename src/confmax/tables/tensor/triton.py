"""The scan of a CUDA table by one kernel: each probability is read once, whatever the number of gains.

A program holds a few rows in registers, decides them by one gain after the other, looks the decided entry up again (it
is in the cache) and adds fixed-point integers to its slot; the slots are added afterwards. Integer sums do not depend
on the order of the atomic additions. Multiplication and addition must not be fused, or near-ties would fall otherwise
than on other backends: the compiler is told so, and `checked_fused` compares before the kernel is used.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from confmax.tables.tensor.rows import DeviceRows, Sums, Tensor

MOST_CLASSES = 4096
CELLS = 8192  # entries that a program holds, 32 per thread
WARPS = 8
SLOTS = 256  # copies of the sums, so that few programs add to the same place at once


@triton.jit(do_not_specialize=["n", "n_gains"])  # type: ignore[untyped-decorator]
def _scan(  # type: ignore[no-untyped-def]
    proba,
    scale,
    offset,
    weight,
    codes,
    columns,
    model,
    hits,
    n,
    n_gains,
    unit,
    K: tl.constexpr,
    M: tl.constexpr,
    STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    N_SLOTS: tl.constexpr,
    WIDE: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MODEL: tl.constexpr,
    LABELS: tl.constexpr,
):
    program = tl.program_id(0)
    row = program.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = row < n
    column = tl.arange(0, WIDTH)
    inside = column < K
    p = tl.load(proba + row[:, None] * STRIDE + column[None, :], mask=here[:, None] & inside[None, :], other=0.0)
    x = p.to(tl.float64) if WIDE else p.to(tl.float32)
    count = tl.full((ROWS,), 1, tl.int64)
    if WEIGHTED:
        w = tl.load(weight + row, mask=here, other=0.0)
        count = (w * unit + 0.5).to(tl.int64)
    if LABELS:
        label = tl.load(codes + row, mask=here, other=0)
    # programs that run at once add to different copies of the sums, or they would wait for each other
    slot = (program % N_SLOTS).to(tl.int64) * n_gains * M
    for g in range(n_gains):
        a = tl.load(scale + g * K + column, mask=inside, other=0.0)
        # a decision beyond the classes has no probability and no weight: its score is its offset
        b = tl.load(offset + g * M + column, mask=column < M, other=float("-inf"))
        score = x * a[None, :] + b[None, :]
        best = tl.max(score, axis=1)
        decision = tl.max(tl.where(score == best[:, None], column[None, :], -1), axis=1).to(tl.int64)
        place = slot + g * M + decision
        tl.atomic_add(columns + place, count, mask=here, sem="relaxed")
        if MODEL:
            # the row is in the cache still: picking the entry from registers would take a sum over all classes
            value = tl.load(proba + row * STRIDE + decision, mask=here & (decision < K), other=0.0).to(tl.float64)
            if WEIGHTED:
                value = value * w
            tl.atomic_add(model + place, (value * unit + 0.5).to(tl.int64), mask=here, sem="relaxed")
        if LABELS:
            tl.atomic_add(hits + place, count, mask=here & (decision == label), sem="relaxed")


def settings(K: int, M: int, stride: int, *, wide: bool, weighted: bool, share: float) -> dict[str, Any]:
    """Return what the kernel is compiled for."""
    width = max(2, triton.next_power_of_2(M))
    return {
        "K": K,
        "M": M,
        "STRIDE": stride,
        "WIDTH": width,
        "ROWS": max(1, CELLS // width),
        "N_SLOTS": SLOTS,
        "WIDE": wide,
        "WEIGHTED": weighted,
        "MODEL": share > 0.0,
        "LABELS": share < 1.0,
    }


def fused_scan(table: DeviceRows, share: float) -> Any:
    """Return the scan of a table for reduced gains, statistics only: of (a, b), (B, K) and (B, M), to sums."""
    P = table.proba
    n, K = P.shape
    if K > MOST_CLASSES:
        return None
    fixed = table.fixed
    kind = {"wide": P.dtype == torch.float64, "weighted": fixed.weight is not None, "share": share}
    weight = P if fixed.weight is None else fixed.weight
    codes = table.codes if share < 1.0 else P

    def scan(first: Tensor, second: Tensor) -> Sums:
        n_gains = len(first)
        M = second.shape[1]
        chosen = settings(K, M, P.stride(0), **kind)
        slots = torch.zeros((3, SLOTS, n_gains, M), dtype=torch.int64, device=P.device)
        grid = (triton.cdiv(n, chosen["ROWS"]),)
        with torch.cuda.device_of(P):
            _scan[grid](
                P,
                first.contiguous(),
                second.contiguous(),
                weight,
                codes,
                *slots,
                n,
                n_gains,
                fixed.unit,
                **chosen,
                num_warps=WARPS,
                enable_fp_fusion=False,
            )
        empty = torch.zeros((0, 0), dtype=torch.int64, device=P.device)
        decided, hit, right = slots.sum(dim=1)
        return Sums(decided, hit[:, :K], right[:, :K], empty, empty)

    return scan
