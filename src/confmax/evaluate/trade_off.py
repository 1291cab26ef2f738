"""What the tuned metric costs in another one, on the way from argmax to the rule and beyond, on the judged rows.

Every point is one rule (of cross-fitted figures: one per fold, each on the rows of its fold, their counts added up).
Weights on probabilities follow `reduced_path`; other gains are averaged with argmax's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.evaluate.evidence import Evidence
from confmax.evaluate.path import reduced_path
from confmax.evaluate.protocols import Rule
from confmax.evaluate.uncertainty import values_at
from confmax.metrics import Metric
from confmax.oracle import make_oracle
from confmax.tables import MemoryTable

STEPS = 31  # from t = 0 over 1 to 1.5
MOST_CELLS = 4_000_000  # of full gains: rows would be multiplied by larger ones for minutes


@dataclass(frozen=True, eq=False)
class TradeOff:
    """Values (S,) of the tuned metric and of the other one at the steps ``t``."""

    steps: Array
    tuned: Array
    other: Array


def trade_off(evidence: Evidence, second: Metric) -> TradeOff | None:
    """Return the way from argmax to the rule, None where the rule has no such way that is cheap."""
    t = np.linspace(0.0, 1.5, STEPS)
    ways = [way(rule, t) for rule in evidence.rules]
    if any(each is None for each in ways):
        return None
    matrix = "matrix" in (evidence.metric.statistics, second.statistics)
    parts, shares = [], []
    for k, (rule, gains) in enumerate(zip(evidence.rules, ways, strict=True)):
        assert gains is not None
        part = _rows(evidence.table, evidence.which == k)
        shares.append(part.weight_total)
        if part.weight_total:
            parts.append(make_oracle(part.calibrated(rule.calibrator), "labels").maximize(gains, matrix=matrix))
    total = [share / sum(shares) for share in shares if share]

    def mean(name: str) -> Array:
        return np.asarray(sum(share * getattr(part, name) for share, part in zip(total, parts, strict=True)))

    rows = np.broadcast_to(mean("rows"), (STEPS, evidence.table.n_classes))
    S = Confusion(rows, mean("diagonal"), mean("columns"), mean("matrix") if matrix else None)
    values = [np.broadcast_to(values_at(metric, S), STEPS) for metric in (evidence.metric, second)]
    return TradeOff(t, *values)


def way(rule: Rule, t: Array) -> Gains | None:
    """Return the gains at the steps t (S,): argmax at 0, at 1 the rule, of several the most frequent one."""
    gain = rule.gains[int(np.argmax(rule.weights))]
    if gain.full is None and not gain.power:
        return reduced_path(gain, t)
    G = gain.matrices()[0]
    if len(t) * G.size > MOST_CELLS:
        return None
    G = G - G.mean(axis=1, keepdims=True)  # row constants decide nothing
    spread = float(np.abs(G).mean())
    plain = np.eye(*G.shape) - 1.0 / G.shape[1]
    scale = spread / float(np.abs(plain).mean()) if spread else 1.0
    return Gains.from_matrix((1.0 - t)[:, None, None] * plain * scale + t[:, None, None] * G)


def _rows(table: MemoryTable, mine: Array) -> MemoryTable:
    assert table.labels is not None
    weight = None if table.weight is None else table.weight[mine]
    return replace(
        table, proba=np.ascontiguousarray(table.proba[mine]), labels=table.labels[mine], weight=weight, totals=None,
        hashes=table.row_hashes()[mine], unordered=table.unordered_hashes()[mine],
    )  # fmt: skip
