"""Independent witnesses: rules and confusions by enumeration, and labels rebuilt from counts."""

import itertools

import numpy as np


def labels_from_counts(counts):
    """Return y_true and y_pred whose confusion matrix is ``counts``."""
    pairs = [(i, j) for i, j in np.ndindex(*np.shape(counts)) for _ in range(counts[i][j])]
    true, decided = zip(*pairs, strict=True)
    return np.array(true), np.array(decided)


def confusion_of(truth, decisions, n_decisions):
    """Return C from per-row truth (n, K), already weighted, and decisions (n,): the definition, row by row."""
    C = np.zeros((truth.shape[1], n_decisions))
    for row, decision in zip(truth, decisions, strict=True):
        C[:, decision] += row
    return C


def all_deterministic_confusions(P, weight=None):
    """Return the confusions (M^n, K, K) of all deterministic rules on a population of n points."""
    n, K = P.shape
    w = np.full(n, 1 / n) if weight is None else np.asarray(weight) / np.sum(weight)
    truth = P * w[:, None]
    return np.array([confusion_of(truth, rule, K) for rule in itertools.product(range(K), repeat=n)])


def population(seed, n, K):
    """A small discrete population: n points with weights; every other one has exact ties."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), n)
    if seed % 2:
        P = np.round(P * 4) + 0.25
        P /= P.sum(1, keepdims=True)
    return P, rng.integers(1, 4, n).astype(float)
