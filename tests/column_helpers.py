"""Tables whose labels follow their probabilities, and what rules decide on them by name."""

import numpy as np

N = 400


def drawn(K, seed=0):
    """Return probabilities (N, K) and labels (N,) drawn from them."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(1.2, 0.5, K), N)
    return P, (P.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)


def decided(rule, proba):
    """Return the names of decisions."""
    return np.asarray(rule.classes)[np.asarray(rule.decision_probabilities(proba)).argmax(axis=1)].astype(object)
