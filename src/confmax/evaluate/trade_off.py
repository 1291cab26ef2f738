"""What the tuned metric costs in another one, on the way from argmax to the rule and beyond, on the evaluated rows.

Every point is one rule (of cross-fitted figures: one per fold, each on the rows of its fold, their counts added up).
Weights on probabilities follow `reduced_path`; other gains are averaged with argmax's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from confmax.calibration.thresholds import BEYOND, class_cut, cuts
from confmax.confusion import Array, Confusion, Gains
from confmax.evaluate.protocols import frequent_gain
from confmax.evaluate.uncertainty import values_at
from confmax.metrics import Metric
from confmax.oracle import make_oracle
from confmax.rule import DecisionRule
from confmax.tables import Part, Table

STEPS = 31  # from t = 0 over 1 to 1.5
MOST_CELLS = 4_000_000  # of full gains: rows would be multiplied by larger ones for minutes


@dataclass(frozen=True, eq=False)
class TradeOff:
    """Values (S,) of the tuned metric and of the other one at the steps ``t``."""

    steps: Array
    tuned: Array
    other: Array


def trade_off(
    parts: Sequence[tuple[DecisionRule, Part]],
    metrics: tuple[Metric, Metric],
    *,
    n_steps: int = STEPS,
    mode: str = "labels",
) -> TradeOff | None:
    """Return the way from argmax to the rule, None where the rule has no such way that is cheap.

    ``parts`` are rules with the raw rows that they decide, of cross-fitted figures one per fold; ``metrics`` are the
    tuned one and the other. In ``mode`` "labels" rows are counted, in "model" expected by their calibrated
    probabilities.
    """
    t = np.linspace(0.0, 1.5, n_steps)
    matrix = any(metric.statistics == "matrix" for metric in metrics)
    shares = []
    confusions = []
    for rule, table in parts:
        gains = way(rule, t)
        if gains is None:
            return None
        shares.append(table.weight_total)
        confusions.append(make_oracle(Table.of(table.calibrated(rule.calibrator)), mode).maximize(gains, matrix=matrix))
    # the confusion of a part is a fraction of its weight: parts add up by their share of all weight
    total = [share / sum(shares) for share in shares]

    def mean(name: str) -> Array:
        return np.asarray(sum(share * getattr(S, name) for share, S in zip(total, confusions, strict=True)))

    rows = np.broadcast_to(mean("rows"), (n_steps, parts[0][1].n_classes))
    S = Confusion(rows, mean("diagonal"), mean("columns"), mean("matrix") if matrix else None)
    tuned, other = (np.broadcast_to(values_at(metric, S), n_steps) for metric in metrics)
    return TradeOff(t, tuned, other)


def way(rule: DecisionRule, t: Array) -> Gains | None:
    """Return the gains at the steps t (S,): argmax at 0, at 1 the rule, of several the most frequent one."""
    gain = frequent_gain(rule)
    if gain.full is None and not gain.power:
        return reduced_path(gain, t)
    G = gain.matrices()[0]
    if len(t) * G.size > MOST_CELLS:
        return None
    G = G - G.mean(axis=1, keepdims=True)  # row constants decide nothing
    # argmax and the rule get gains of one size, else one of them would rule the way between
    spread = float(np.abs(G).mean())
    plain = np.eye(*G.shape) - 1.0 / G.shape[1]
    scale = spread / float(np.abs(plain).mean()) if spread else 1.0
    return Gains.from_matrix((1.0 - t)[:, None, None] * plain * scale + t[:, None, None] * G)


def reduced_path(gain: Gains, t: Array) -> Gains:
    """Return a gain at the steps ``t`` (S,), not negative: argmax at 0, the gain itself at 1, both to the bit.

    The logarithms of weights and the offsets are ``t`` times those of the gain; weights that are not all positive are
    scaled linearly. A gain that decides one class by its probability alone has weights of which the logarithms mean
    nothing: its scores go linearly from argmax's to its own, and beyond that the log odds of its cut are ``t`` times
    its own.

    >>> reduced_path(Gains.reduced([1.0, 16.0]), np.array([0.0, 0.5, 1.0])).a
    array([[1.  , 1.  ],
           [0.5 , 2.  ],
           [0.25, 4.  ]])
    """
    a, b = (part[0] for part in gain.pair())
    at = t[:, None]
    of_class = class_cut(gain)
    if of_class is None and gain.n_classes == gain.n_decisions == 2 and a.max() > BEYOND * a.min():
        # a threshold of one class, whose scores are compared with hardly anything
        k = int(a.argmax())
        (cut,) = cuts(gain, None, k)
        of_class = None if cut is None else (k, cut)
    if of_class is not None:
        return _one_class_path(a, b, of_class, at)
    # powers of two: products with them are exact, so that ties at 0 and at 1 are those of argmax and of the gain
    scale = _power_of_two(float(np.log2(a[a > 0]).mean())) if (a > 0).any() else 1.0
    a = a / scale
    b = b / scale
    return Gains.reduced(a**at if (a > 0).all() else (1.0 - at) + at * a, at * b)


def _one_class_path(a: Array, b: Array, of_class: tuple[int, float], at: Array) -> Gains:
    k, cut = of_class
    before = np.clip(1.0 - at, 0.0, None)
    plain = _power_of_two(float(np.log2(a[k] if a[k] > 0 else np.abs(b).max())))
    until = np.minimum(at, 1.0)
    weights = before * plain + until * a
    offsets = until * b
    beyond = at[:, 0] > 1.0
    if 0.0 < cut < 1.0:
        odds = (cut / (1.0 - cut)) ** at[beyond, 0]
        offsets[beyond, k] = b[k - 1] - a[k] * odds / (1.0 + odds)
    return Gains.reduced(weights, offsets)


def _power_of_two(log: float) -> float:
    return float(np.ldexp(1.0, round(log)))
