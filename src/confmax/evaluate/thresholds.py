"""The probability from which a rule decides each class, and how much it varies between rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from confmax.confusion import Array
from confmax.evaluate.protocols import Rule

MOST_ODDS = 36.0  # log odds beyond which a float64 probability is 0 or 1
HALVINGS = 40


def class_thresholds(rules: Sequence[Rule], mean: Array) -> Array:
    """Return the smallest probability (len(rules), K) at which each class is decided, the others sharing the rest.

    For two classes they are ``rule.threshold`` and one minus it. Otherwise by bisection of the log odds, the others in
    proportion to their ``mean`` probabilities (K,). 0 where the class is always decided, infinite where it never is.
    """
    K = len(mean)
    rest = np.tile(mean, (K, 1))
    np.fill_diagonal(rest, 0.0)
    rest[rest.sum(axis=1) == 0] = 1.0  # no other class was ever seen: all alike
    np.fill_diagonal(rest, 0.0)
    rest /= rest.sum(axis=1, keepdims=True)

    def decided(rule: Rule, odds: Array) -> NDArray[np.bool_]:
        t = expit(odds)
        P = rest * expit(-odds)[:, None]
        P[np.arange(K), np.arange(K)] = t
        return np.asarray(np.diagonal(rule.decision_probabilities(P)) >= 0.5)

    found = np.empty((len(rules), K))
    for rule, line in zip(rules, found, strict=True):
        cut = rule.threshold
        if cut is not None:
            line[:] = {0.0: np.inf, np.inf: 0.0}.get(cut, 1.0 - cut), cut
            continue
        low, high = np.full(K, -MOST_ODDS), np.full(K, MOST_ODDS)
        always, never = decided(rule, low), ~decided(rule, high)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            hit = decided(rule, middle)
            low, high = np.where(hit, low, middle), np.where(hit, middle, high)
        line[:] = np.where(always, 0.0, np.where(never, np.inf, expit(high)))
    return found


def spread_of(thresholds: Array) -> Array:
    """Return the standard deviation over folds (K,) of the log odds of thresholds (F, K)."""
    if len(thresholds) < 2:
        return np.full(thresholds.shape[1], np.nan)
    inside = (thresholds > 0) & (thresholds < 1)
    spread = np.std(logit(np.where(inside, thresholds, 0.5)), axis=0, ddof=1)
    return np.where(inside.all(axis=0), spread, np.where(inside.any(axis=0), np.inf, np.nan))
