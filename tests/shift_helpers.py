"""Rows whose probabilities are right, and rows of other class shares."""

import numpy as np


def rows(K, n, seed=0, sharp=0.5):
    """Return probabilities (n, K), and labels drawn from them, so that they are calibrated."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, sharp), n)
    return P, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def of_shares(P, y, q, n, seed=1):
    """Return n rows that are drawn from each class as often as ``q`` says, and their labels."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(q), n, p=q)
    at = np.array([rng.choice(np.flatnonzero(y == k)) for k in drawn])
    return P[at], y[at]
