"""The scan on a device: the table stays there, gains go to it, statistics come back.

A chunk of rows at a time is multiplied, added to and compared, in the type of the scores and in separate operations, so
that reduced gains decide as the reference does, bit for bit; the scores of the whole table never exist. Full gains are
matrix products in float64, rounded to the type of the scores: rows whose two best scores are as close as rounding may
be decided differently.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from confmax.confusion import Array, Confusion, Gains
from confmax.tables.part import Part
from confmax.tables.precision import answered, decided, distances, gain_coefficients
from confmax.tables.tensor.rows import DeviceRows, FixedPoint, Sums, Tensor, chunks, score_dtype, scores_of, take


def device_gains(gains: Gains, proba: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return ``(a, b)``, in the type of the scores, or ``(full, None)``, in float64, on the device of ``proba``."""
    first, second = gain_coefficients(gains, score_dtype(proba))
    device = proba.device
    if second is None:
        return torch.as_tensor(first.astype(np.float64), device=device), None
    return torch.as_tensor(first, device=device), torch.as_tensor(second, device=device)


def decisions(x: Tensor, first: Tensor, second: Tensor | None, power: int) -> Iterator[Tensor]:
    """Yield the decisions (R,) of every gain on probabilities ``x`` (R, K); ties go to the largest index."""
    K = x.shape[1]
    wide = x.double() if second is None else x
    if power:
        # a column at a time is read fastest where columns lie together
        columns = x.t().contiguous()
        x = torch.empty_like(columns).t()
        for j, distance in enumerate(distances(columns, power)):
            x[:, j] = distance
    for g in range(len(first)):
        if second is None:
            scores = (wide @ first[g]).to(x.dtype)
        else:
            # two operations: one that multiplies and adds at once would round differently
            scores = x * first[g]
            scores += second[g, :K]
            if second.shape[1] > K:
                # decisions beyond the classes have an offset alone
                scores = torch.cat([scores, second[g, K:].expand(len(x), -1)], dim=1)
        # argmax takes the first of equal scores
        yield (scores.shape[1] - 1) - scores.flip(1).argmax(dim=1)


def decide_tensor(proba: Tensor, gains: Gains) -> Tensor:
    """Return the decisions (B, n) of every gain on every row of a checked tensor, int64 on its device."""
    # numpy.concatenate would move the decisions off their device
    return decided(gains, proba, _decide_tensor, join=torch.cat, dtype=score_dtype(proba), double=torch.Tensor.double)


def _decide_tensor(proba: Tensor, gains: Gains) -> Tensor:
    first, second = device_gains(gains, proba)
    out = torch.empty((len(gains), len(proba)), dtype=torch.int64, device=proba.device)
    for rows in chunks(proba):
        for g, decision in enumerate(decisions(scores_of(proba[rows]), first, second, gains.power)):
            out[g, rows] = decision
    return out


def scan_part(part: Part, gains: Gains, share: float, *, matrix: bool, decides_on: Tensor) -> Confusion:
    """Return `Storage.scan` of rows on a device, which are decided by the probabilities ``decides_on`` (n, K)."""
    if "device" not in part.kept:
        part.kept["device"] = DeviceRows(part.proba, part.labels, part.weight)
    rows: DeviceRows = part.kept["device"]

    def by(source: Tensor, some: Gains) -> Confusion:
        how = {"power": some.power, "matrix": matrix, "decides_on": source}
        return _confusion(rows.fixed, scan(rows, share, *device_gains(some, source), **how), share, some.n_decisions)

    return answered(gains, decides_on, by, dtype=score_dtype(decides_on), double=torch.Tensor.double)


def _confusion(fixed: FixedPoint, sums: Sums, share: float, M: int) -> Confusion:
    """Return sums of integers as a confusion, times the weight of the rows."""
    columns = fixed.back_counts(sums.columns)
    diagonal = _blend(fixed, sums.model, sums.hits, share)
    full = None
    if len(sums.matrix):
        full = _blend(fixed, sums.matrix, sums.counted, share).reshape(-1, M, diagonal.shape[1])
        full = np.ascontiguousarray(full.transpose(0, 2, 1))
    return Confusion(np.zeros(diagonal.shape[1]), diagonal, columns, full)


def _blend(fixed: FixedPoint, model: Tensor, labels: Tensor, share: float) -> Array:
    out = np.zeros(model.shape)
    if share > 0.0:
        out += share * fixed.back(model)
    if share < 1.0:
        out += (1.0 - share) * fixed.back_counts(labels)
    return out


def scan(
    table: DeviceRows,
    share: float,
    first: Tensor,
    second: Tensor | None,
    *,
    power: int = 0,
    matrix: bool = False,
    decides_on: Tensor | None = None,
) -> Sums:
    """Return the sums of every gain's decisions over all rows of the table."""
    P = table.proba
    fixed = table.fixed
    K = table.proba.shape[1]
    source = P if decides_on is None else decides_on
    sums = Sums.zeros(len(first), K, (first if second is None else second).shape[-1], matrix=matrix, device=P.device)
    classes = torch.arange(K, device=P.device)
    for rows in chunks(P):
        p = scores_of(P[rows])
        counts = fixed.counts(rows, P.device)
        x = p if source is P else scores_of(source[rows])
        codes = table.codes[rows] if share < 1.0 else None
        products = fixed.products(p, rows).reshape(-1) if matrix and share > 0.0 else None
        for g, decision in enumerate(decisions(x, first, second, power)):
            sums.columns[g].index_add_(0, decision, counts)
            if share > 0.0:
                # the probability of a decision beyond the classes is zero, wherever it is added
                sums.model[g].index_add_(0, decision.clamp(max=K - 1), fixed.products(take(p, decision), rows))
            if codes is not None:
                sums.hits[g].index_add_(0, codes, counts * (codes == decision))
            # decision j of a matrix takes the K places from j K on
            if products is not None:
                sums.matrix[g].index_add_(0, (decision[:, None] * K + classes).reshape(-1), products)
            if matrix and codes is not None:
                sums.counted[g].index_add_(0, decision * K + codes, counts)
    return sums
