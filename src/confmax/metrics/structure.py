"""Declared structure held against numbers: on a random segment of confusion matrices with the same row sums.

A segment cannot prove a structure. It refutes a wrong one quickly: the structures are statements about segments.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array

STRUCTURES = ("linear", "ratio", "concave", "quasiconvex", "general")
STEPS = np.linspace(0.0, 1.0, 33)


def random_rows(rng: np.random.Generator, n_classes: int) -> Array:
    """Return random row sums (K,) that sum to one, none of them tiny."""
    return rng.dirichlet(np.full(n_classes, 2.0)) * 0.9 + 0.1 / n_classes


def random_confusion(rng: np.random.Generator, rows: Array, n_decisions: int) -> Array:
    """Return a random confusion matrix (K, M) with the given row sums, better than chance on average.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the numbers come from.
    rows : ndarray (K,)
        Row sums.
    n_decisions : int
        M.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax.checks import random_confusion
    >>> random_confusion(np.random.default_rng(0), np.array([0.7, 0.3]), 2).sum(axis=1).round(12).tolist()
    [0.7, 0.3]
    """
    K = len(rows)
    spread = rng.dirichlet(np.ones(n_decisions), size=K)
    return (0.6 * spread + 0.4 * np.eye(K, n_decisions)) * rows[:, None]


def refutation(values: Array, structure: str) -> str | None:
    """Return in words how the values at `STEPS` along a segment contradict the structure, None where they do not.

    Parameters
    ----------
    values : ndarray (33,)
        The metric at ``(1 - t) A + t B`` for t in `STEPS`; A and B have the same row sums.
    structure : str
        What is declared over all such matrices.

    Examples
    --------
    >>> from confmax.metrics.structure import STEPS, refutation
    >>> refutation(STEPS**2, "ratio") is None
    True
    >>> refutation(STEPS**2, "concave")
    'at 3% of the way it is 0.000976562, below the mean of the values beside it, 0.00195312'
    """
    low, high = min(values[0], values[-1]), max(values[0], values[-1])
    slack = 1e-10 * max(1.0, float(np.abs(values).max()))
    middle = (values[:-2] + values[2:]) / 2
    inner = values[1:-1]

    def told(excess: Array, side: str, limits: Array, what: str) -> str | None:
        if not excess.max() > slack:
            return None
        # the first place where the contradiction is plain, so that rounding decides nothing in the sentence
        k = int(np.argmax(excess >= 0.5 * excess.max()))
        return f"at {STEPS[k + 1]:.0%} of the way it is {inner[k]:.6g}, {side} {what}, {limits[k]:.6g}"

    above = told(inner - high, "above", np.full(len(inner), high), "both ends")
    below = told(low - inner, "below", np.full(len(inner), low), "both ends")
    convex = told(2 * (middle - inner), "below", middle, "the mean of the values beside it")
    if structure == "linear":
        return convex or told(2 * (inner - middle), "above", middle, "the mean of the values beside it")
    if structure == "concave":
        return convex
    if structure == "ratio":
        return above or below
    if structure == "quasiconvex" and low >= 0:
        return above
    return None
