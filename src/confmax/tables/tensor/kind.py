"""Tables in torch tensors, which stay on their device.

Several labels per row in tensors: their check, and which labels a gain chooses, on the device of the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.label_rows import OVER, checked_matrix
from confmax.tables.decisions import Decisions
from confmax.tables.draws import coefficients
from confmax.tables.memory import MemoryKind
from confmax.tables.part import Part
from confmax.tables.precision import gain_coefficients, is_wide
from confmax.tables.storage import Calibrator, Checked
from confmax.tables.tensor.oracle import decide_tensor, scan_part
from confmax.tables.tensor.rows import (
    FixedPoint,
    Tensor,
    as_columns,
    checked_tensor,
    chunks,
    from_host,
    on_host,
    refuse_elsewhere,
    row_hashes,
    score_dtype,
    scores_of,
    take,
    uniform,
    unordered_hashes,
)


@final
class Tensors(MemoryKind):
    """Rows in a tensor (n, K) of float16, bfloat16, float32 or float64.

    Each row of 32 or 64 bits sums to one up to rounding; rows of 16 bits are used as they are, in float32.
    """

    backend = "torch"

    def check(self, proba: Any, *, order: Any = None, hashed: bool = False) -> Checked:
        checked = checked_tensor(proba)
        given = as_columns(proba)
        # rows are hashed by what they become, unless that is another number: an integer, or divided by the row's sum
        changed = checked.is_floating_point() and not given.is_floating_point()
        changed = changed or (given.dtype == checked.dtype and given.data_ptr() != checked.data_ptr())
        if not hashed or not changed:
            return Checked(self, checked)
        return Checked(self, checked, None, self.hashes(given), self.hashes(given, ordered=False))

    def given_hashes(self, proba: Any) -> Tensor:
        return row_hashes(as_columns(proba))

    def host(self, values: Any) -> NDArray[Any]:
        return on_host(values)

    def beside(self, values: Any) -> NDArray[Any]:
        return on_host(values)

    def floats(self, values: Any) -> Tensor:
        return values

    def scaled(self, proba: Any, W: Array, b: Array, floor: float) -> Tensor:
        """Return ``softmax(W log(p + floor) + b)`` (n, K), computed in float64; W is a diagonal (K,) or (K, K)."""
        scale, offset = (from_host(part, proba.device) for part in (W, b))
        out = torch.empty(proba.shape, dtype=scores_of(proba[:0]).dtype, device=proba.device)
        for rows in chunks(proba):
            z = (proba[rows].double() + floor).log_()
            z = (z.mul_(scale) if scale.ndim == 1 else z @ scale.T).add_(offset)
            z = z.sub_(z.amax(dim=1, keepdim=True)).exp_()
            out[rows] = z.div_(z.sum(dim=1, keepdim=True)).to(out.dtype)
        return out

    def calibrated(self, calibrator: Calibrator, proba: Any) -> Checked:
        """Return what a calibrator makes of the rows; one that reads arrays gets them in host memory."""
        if getattr(calibrator, "reads_tensors", False):
            return self.transformed(calibrator, proba)
        out = ARRAYS.calibrated(calibrator, on_host(proba))
        return Checked(self, from_host(out.proba, proba.device))

    def dtype(self, proba: Any) -> np.dtype[Any]:
        """Return the type that scores are computed in: float32, or float64 for a table in float64."""
        return score_dtype(proba)

    def hashes(self, proba: Any, *, ordered: bool = True) -> NDArray[np.uint64]:
        words = row_hashes(proba) if ordered else unordered_hashes(proba)
        return np.asarray(words.cpu().numpy().view(np.uint64))

    def is_on_host(self, proba: Any) -> bool:
        return bool(proba.device.type == "cpu")

    def dense(self, proba: Any, what: str) -> Checked:
        return Checked(ARRAYS, on_host(proba))

    def column_sums(self, proba: Any, weight: Array | None, *, spread: bool) -> Array:
        fixed = FixedPoint.of(weight, len(proba), proba.device)
        total = torch.zeros(proba.shape[1], dtype=torch.int64, device=proba.device)
        for rows in chunks(proba):
            p = proba[rows].double()
            total += fixed.products(p * (1.0 - p) if spread else p, rows).sum(dim=0)
        return fixed.back(total)

    def probability_of(self, proba: Any, decision: NDArray[Any]) -> NDArray[Any]:
        return on_host(take(proba, torch.as_tensor(decision, device=proba.device).long()))

    def decide(self, proba: Any, gains: Gains) -> NDArray[np.int32]:
        return decide_tensor(proba, gains).to(torch.int32).cpu().numpy()

    def decide_one(self, proba: Any, gains: Gains) -> Tensor:
        return decide_tensor(proba, gains)[0]

    def drawn(self, proba: Any, gains: Gains, weights: Array, seed: int, keys: Any) -> Tensor:
        # the hashes of rows are on the device already, as words of the same bits
        words = torch.as_tensor(keys.view(np.int64), device=proba.device) if isinstance(keys, np.ndarray) else keys
        edges = torch.as_tensor(np.cumsum(weights)[:-1], device=proba.device)
        atom = torch.searchsorted(edges, uniform(words, coefficients(seed)), right=True)
        out = torch.empty(len(proba), dtype=torch.int64, device=proba.device)
        size = next(chunks(proba), slice(0, 1)).stop
        for k in range(len(gains)):
            # the rows of an atom are gathered, a chunk of them at a time
            for part in torch.nonzero(atom == k)[:, 0].split(size):
                out[part] = decide_tensor(proba[part], gains[k])[0]
        return out

    def probabilities(self, proba: Any, gains: Gains, weights: Array) -> Tensor:
        out = torch.zeros((len(proba), gains.n_decisions), dtype=torch.float64, device=proba.device)
        for k, weight in enumerate(weights):
            decision = decide_tensor(proba, gains[k])[0]
            out[torch.arange(len(proba), device=proba.device), decision] += float(weight)
        return out

    def held(self, part: Part, what: str) -> Part:
        """Return the rows as tensors; an array becomes one without a copy where NumPy allows that."""
        if part.storage is self:
            return part
        dense = part.dense(what)
        return dense.held_as(self, from_host(dense.proba, "cpu"))

    def scan(self, part: Part, gains: Gains, share: Any, *, matrix: bool, by: Part) -> Confusion:
        return scan_part(part, gains, share, matrix=matrix, decides_on=self.held(by, "a scan").proba)

    # --- several labels per row -----------------------------------------------------------------------------------

    def check_labels(self, proba: Any, *, order: Any = None) -> Checked:
        return Checked(self, checked_labels(proba))

    def with_entries(self, proba: Any, change: Any) -> Tensor:
        """Return other entries, computed in host memory, so that decisions are those on arrays."""
        return from_host(change(on_host(proba), slice(None)), proba.device)

    def decide_labels(self, proba: Any, gains: Gains, decisions: Decisions) -> Tensor:
        return decide_labels(proba, gains, decisions)

    def searched(self, checked: Checked) -> Checked:
        return self.dense(checked.proba, "several labels per row")

    def stacked(self, parts: Sequence[Any]) -> Tensor:
        return torch.cat(list(parts))

    def averaged(self, parts: Sequence[Any], weights: Array) -> Tensor:
        return sum(part.double() * float(weight) for part, weight in zip(parts, weights, strict=True))

    def named(self, names: NDArray[Any], decisions: Any) -> Tensor:
        """Return the names (n,) of decisions (n,), which must be numbers that a tensor holds."""
        if names.dtype not in (np.int64, np.bool_, np.float64):
            raise ValueError(
                f"a tensor cannot hold class names such as {str(names[0])!r}; use predict_index, which returns their "
                f"positions in classes"
            )
        return torch.from_numpy(names).to(decisions.device)[decisions]


TENSORS = Tensors()


# --- several labels per row in tensors --------------------------------------------------------------------------------


def checked_labels(proba: Tensor) -> Tensor:
    """Return a tensor (n, L) of floats in [0, 1] on its own device; right ones of 16, 32 or 64 bits are not copied.

    What is refused is refused in the words of arrays, and so are other layouts and devices.
    """
    refuse_elsewhere(proba)
    P = proba.detach()
    if P.ndim != 2 or P.shape[1] == 0 or P.is_complex():
        # the sentence depends on the shape and the type alone
        kind = np.complex64 if P.is_complex() else np.float32
        checked_matrix(np.broadcast_to(np.empty((), kind), tuple(P.shape)), None)
    if not P.is_floating_point():
        P = P.double()
    if not len(P):
        return P
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
