"""Applying a rule on a device: decisions, their probabilities, and draws, equal to those on arrays.

`confmax._draw` defines fingerprints and draws in unsigned 64-bit words; here they are signed ones of the same bits,
whose sums and products wrap alike.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.oracle._torch import decide_tensor
from confmax.oracle._torch_table import Tensor, chunks, scores_of


def decision_probabilities(proba: Tensor, gains: Gains, weights: Array) -> Tensor:
    """Return the exact probability of every decision (n, M), float64, on the device of checked ``proba`` (n, K)."""
    out = torch.zeros((len(proba), gains.n_decisions), dtype=torch.float64, device=proba.device)
    for k, weight in enumerate(weights):
        decision = decide_tensor(proba, gains[k])[0]
        out[torch.arange(len(proba), device=proba.device), decision] += float(weight)
    return out


def decide_drawn(proba: Tensor, gains: Gains, weights: Array, *, words: NDArray[np.uint64], keys: Tensor) -> Tensor:
    """Return the decision of every row (n,), int64, by the atom that its key draws.

    Parameters
    ----------
    proba : torch.Tensor (n, K)
        Checked probabilities.
    gains, weights
        The atoms and their probabilities (A,).
    words : ndarray (6,)
        The coefficients of the hash.
    keys : torch.Tensor (n,), int64
        The bits of the rows' keys.
    """
    edges = torch.as_tensor(np.cumsum(weights)[:-1], device=proba.device)
    atom = torch.searchsorted(edges, _uniform(keys, words), right=True)
    out = torch.empty(len(proba), dtype=torch.int64, device=proba.device)
    for k in range(len(gains)):
        rows = torch.nonzero(atom == k)[:, 0]
        for part in rows.split(max(1, _largest(proba))):
            out[part] = decide_tensor(proba[part], gains[k])[0]
    return out


def row_keys(proba: Tensor, factors: NDArray[np.uint64]) -> Tensor:
    """Return the bits of the fingerprint of every row (n,), int64."""
    factor = torch.as_tensor(factors.view(np.int64), device=proba.device)
    keys = torch.empty(len(proba), dtype=torch.int64, device=proba.device)
    for rows in chunks(proba):
        bits = (scores_of(proba[rows]).double() + 0.0).view(torch.int64)  # + 0.0: one zero, not two
        keys[rows] = _mix((((bits ^ _shifted(bits, 32)) & 0xFFFFFFFF) * factor).sum(dim=1))
    return keys


def row_words(proba: Tensor, factors: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return what is drawn from for every row (n,): that of the same array."""
    factor = torch.as_tensor(factors.astype(np.int64), device=proba.device)
    words = torch.empty(len(proba), dtype=torch.int64, device=proba.device)
    for rows in chunks(proba):
        x = scores_of(proba[rows])
        # without the sign, which zero may or may not have; 64 bits are folded
        bits = x.view(torch.int64) << 1 if x.dtype == torch.float64 else x.view(torch.int32).long() << 1
        bits = bits ^ _shifted(bits, 32) if x.dtype == torch.float64 else bits
        words[rows] = ((bits & 0xFFFFFFFF) * factor).sum(dim=1) & 0xFFFFFFFF
    return np.asarray(words.cpu().numpy().astype(np.uint32))


def as_words(keys: NDArray[np.uint64], proba: Tensor) -> Tensor:
    """Return keys in host memory as words on the device of ``proba``."""
    return torch.as_tensor(keys.view(np.int64), device=proba.device)


def _largest(proba: Tensor) -> int:
    """Return how many rows are gathered at a time."""
    return next(chunks(proba)).stop


def _shifted(z: Tensor, by: int) -> Tensor:
    """Return words shifted right, zeros coming in."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shifted(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ _shifted(z, 31)


def _uniform(keys: Tensor, words: NDArray[np.uint64]) -> Tensor:
    """Return one number in [0, 1), a multiple of 2^-53, per key (n,), float64."""
    low, half = keys & 0xFFFFFFFF, _shifted(keys, 32)
    a0, a1, b, c0, c1, d = (_signed(int(word)) for word in words)
    high, rest = _shifted(low * a0 + half * a1 + b, 32), _shifted(low * c0 + half * c1 + d, 32)
    return _shifted((high << 32) | rest, 11).double() * 2.0**-53
