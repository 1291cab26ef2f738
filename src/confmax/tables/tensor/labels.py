"""Several labels per row in tensors: their check, and which labels a gain chooses, on the device of the tensor."""

from __future__ import annotations

import numpy as np
import torch

from confmax.confusion import Gains
from confmax.tables.array.label_rows import OVER, checked_matrix
from confmax.tables.decisions import Decisions
from confmax.tables.precision import gain_coefficients, is_wide
from confmax.tables.tensor.rows import Tensor, chunks, on_host, refuse_elsewhere, score_dtype, scores_of


def checked_labels(proba: Tensor) -> Tensor:
    """Return a tensor (n, L) of floats in [0, 1] on its own device; right ones of 16, 32 or 64 bits are not copied.

    What is refused is refused in the words of arrays, and so are other layouts and devices.
    """
    refuse_elsewhere(proba)
    P = proba.detach()
    if P.ndim != 2 or 0 in P.shape or P.is_complex():
        # the sentence depends on the shape and the type alone
        kind = np.complex64 if P.is_complex() else np.float32
        checked_matrix(np.broadcast_to(np.empty((), kind), tuple(P.shape)), None)
    if not P.is_floating_point():
        P = P.double()
    least, most = P.amin().item(), P.amax().item()
    if not (least >= 0.0 and most <= 1.0 + OVER):  # NaN is neither
        checked_matrix(on_host(P), None)  # raises, and names the entry
    return P.clamp(max=1.0) if most > 1.0 else P


def decide_labels(proba: Tensor, gains: Gains, decisions: Decisions) -> Tensor:
    """Return which labels one gain chooses on every row of a checked tensor (n, L): uint8, on its device."""
    wide = is_wide(gains, score_dtype(proba)).any()
    first, second = gain_coefficients(gains, np.dtype(np.float64) if wide else score_dtype(proba))
    assert second is not None
    a, b = (torch.as_tensor(part[0], device=proba.device) for part in (first, second))
    out = torch.empty(proba.shape, dtype=torch.uint8, device=proba.device)
    for rows in chunks(proba):
        x = proba[rows].double() if wide else scores_of(proba[rows])
        # two operations: one that multiplies and adds at once would round differently
        scores = x * a
        scores += b
        out[rows] = chosen(scores, decisions)
    return out


def chosen(scores: Tensor, decisions: Decisions) -> Tensor:
    """Return which decisions (R, L) are made by their scores (R, L), as `Decisions.chosen`: bool."""
    L = scores.shape[1]
    every = scores > 0 if decisions.positive else torch.ones_like(scores, dtype=torch.bool)
    if decisions.most is None or decisions.most >= L:
        return every
    # of equal scores a stable order has the largest index last
    best = torch.argsort(scores, dim=1, stable=True)[:, L - decisions.most :]
    out = torch.zeros_like(every).scatter_(1, best, torch.ones_like(best, dtype=torch.bool))
    return out & every
