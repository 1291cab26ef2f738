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
    K, rest = len(mean), _shares_of_others(mean)

    def decided(rule: Rule, odds: Array) -> NDArray[np.bool_]:
        # bisection of log odds finds thresholds near 0 and 1 as exactly as those in the middle
        t = expit(odds)
        P = rest * expit(-odds)[:, None]
        P[np.arange(K), np.arange(K)] = t
        # a rule that draws decides a class where it does so at least half of the time
        return np.asarray(np.diagonal(rule.decision_probabilities(P)) >= 0.5)

    thresholds = np.empty((len(rules), K))
    for rule, line in zip(rules, thresholds, strict=True):
        cut = rule.threshold
        # of two classes the rule knows its threshold to the float
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
    return thresholds


def _shares_of_others(mean: Array) -> Array:
    """Return how the others share what class k leaves, line k of (K, K), by their ``mean`` probabilities (K,)."""
    rest = np.tile(mean, (len(mean), 1))
    np.fill_diagonal(rest, 0.0)
    rest[rest.sum(axis=1) == 0] = 1.0  # no other class was ever seen: all alike
    np.fill_diagonal(rest, 0.0)
    return np.asarray(rest / rest.sum(axis=1, keepdims=True))


def decided_between(rule: Rule, mean: Array, k: int) -> tuple[float, float] | None:
    """Return between which probabilities class k is decided, None where it is from some probability on, or never.

    The other classes share the rest in proportion to their ``mean`` probabilities (K,). Weights and offsets of
    probabilities favour a class the more, the more probable it is; other rules are asked at every thousandth.
    """
    if rule.gains.full is None and not rule.gains.power:
        return None
    p = np.linspace(0.0, 1.0, 1001)
    P = _shares_of_others(mean)[k] * (1.0 - p[:, None])
    P[:, k] = p
    # as for thresholds, a rule that draws decides the class where it does so half of the time
    hit = rule.decision_probabilities(P)[:, k] >= 0.5
    if not hit.any() or hit[int(np.argmax(hit)) :].all():
        return None
    return float(p[hit].min()), float(p[hit].max())


def spread_of(thresholds: Array) -> Array:
    """Return the standard deviation over folds (K,) of the log odds of thresholds (F, K)."""
    if len(thresholds) < 2:
        return np.full(thresholds.shape[1], np.nan)
    # a fold that never or always decides the class has infinite log odds
    inside = (thresholds > 0) & (thresholds < 1)
    spread = np.std(logit(np.where(inside, thresholds, 0.5)), axis=0, ddof=1)
    return np.where(inside.all(axis=0), spread, np.where(inside.any(axis=0), np.inf, np.nan))
