"""Metrics that are a ratio of affine functions of C at fixed row sums, or a mean of one ratio per class.

Each has its formula and, beside it, its numerator and denominator (``..._parts``), by which Dinkelbach's method and the
bounds work (`confmax.metrics.ratios`). A metric is added by both and a row of `METRICS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confmax.confusion import UNIT, Array, Confusion, Gains, sum_of_others
from confmax.metrics.first_order import FirstOrder, Formula, reciprocal, safe_ratio
from confmax.metrics.metric import Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import General, Ratio

# --- one score per class, and means of it -----------------------------------------------------------------------------

# by the class's own diagonal entry, column sum and row sum
Slopes = tuple[Array, Array, Array]
# the scores (..., K) of a batch of statistics, and a call that computes their derivatives
Scores = tuple[Array, Callable[[], Slopes]]


def f_beta_scores(S: Confusion, *, beta: float = 1.0) -> Scores:
    """Return ``F_k = (1 + beta^2) D_k / (beta^2 r_k + c_k)``; 0 at 0/0."""
    square = beta * beta
    per_unit = reciprocal(square * S.rows + S.columns)
    score = (1.0 + square) * S.diagonal * per_unit
    return score, lambda: ((1.0 + square) * per_unit, -score * per_unit, -square * score * per_unit)


def macro_f_beta_parts(rows: Array, *, beta: float = 1.0) -> Ratios:
    """The mean over k of ``(1 + beta^2) D_k / (beta^2 pi_k + c_k)``."""
    eye, zero, floor = np.eye(len(rows)), np.zeros((len(rows),) * 2), beta * beta * rows
    top = Gains.reduced((1.0 + beta * beta) * eye, zero)
    return Ratios(top, Gains.reduced(zero, eye), np.zeros(len(rows)), floor, floor, np.full(len(rows), 1 / len(rows)))


def weighted_f1_parts(rows: Array) -> Ratios:
    """The F1 of each class weighted by ``pi_k``."""
    return replace(macro_f_beta_parts(rows), weights=rows)


def jaccard_scores(S: Confusion) -> Scores:
    """Return ``J_k = D_k / (r_k + c_k - D_k)``; 0 at 0/0."""
    per_unit = reciprocal(S.rows + S.columns - S.diagonal)
    score = S.diagonal * per_unit
    return score, lambda: ((1.0 + score) * per_unit, -score * per_unit, -score * per_unit)


def macro_jaccard_parts(rows: Array) -> Ratios:
    """The mean over k of ``D_k / (pi_k + c_k - D_k)``."""
    eye, zero, K = np.eye(len(rows)), np.zeros((len(rows),) * 2), len(rows)
    return Ratios(Gains.reduced(eye, zero), Gains.reduced(-eye, eye), np.zeros(K), rows, rows, np.full(K, 1 / K))


def precision_scores(S: Confusion) -> Scores:
    """Return ``P_k = D_k / c_k``; a class that is never decided has score and derivatives 0."""
    per_unit = reciprocal(S.columns)
    score = S.diagonal * per_unit
    return score, lambda: (per_unit + 0.0, -score * per_unit, np.zeros_like(score))


def macro_precision_parts(rows: Array) -> Ratios:
    """The mean over k of ``D_k / c_k``; no denominator is bounded away from zero."""
    eye, zero, K = np.eye(len(rows)), np.zeros((len(rows),) * 2), len(rows)
    none = np.zeros(K)
    return Ratios(Gains.reduced(eye, zero), Gains.reduced(zero, eye), none, none, none, np.full(K, 1 / K))


@dataclass(frozen=True)
class ClassMean(Formula):
    """The mean of one score per class, or the sum weighted by the row sums."""

    scores: Callable[..., Scores]
    by_size: bool = False

    def __call__(self, S: Confusion, **params: Any) -> FirstOrder:
        """Return value and derivatives; the weights, too, are differentiated."""
        score, slopes = self.scores(S, **params)
        diagonal, columns, rows = slopes()
        if self.by_size:
            return FirstOrder((S.rows * score).sum(-1), S.rows * diagonal, S.rows * columns, score + S.rows * rows)
        K = score.shape[-1]
        return FirstOrder(score.mean(-1), diagonal / K, columns / K, rows / K)

    def values(self, S: Confusion, **params: Any) -> Array:
        """Return the values alone."""
        score, _ = self.scores(S, **params)
        return np.asarray((S.rows * score).sum(-1) if self.by_size else score.mean(-1))


# --- the score of one class, the last: the positive one of two, or the one that a label names -------------------------


def last(K: int) -> Array:
    """Return the unit vector of the class that a metric of one class is of: the last, the positive one of two."""
    one = np.zeros(K)
    one[-1] = 1.0
    return one


def last_class(scores: Scores) -> FirstOrder:
    """Return the score of one class: metrics of one class have it as their last, the positive one of two."""
    score, slopes = scores
    one = last(score.shape[-1])
    return FirstOrder(score[..., -1], *(slope * one for slope in slopes()))


def _one(top: tuple[Array, Array], bottom: tuple[Array, Array], *, const: tuple[float, float], floor: float) -> Ratios:
    """Return a single ratio from reduced coefficients ``(a, b)`` of its parts."""
    over, under, least, one = (np.array([value]) for value in (*const, floor, 1.0))
    return Ratios(Gains.reduced(*top), Gains.reduced(*bottom), over, under, least, one)


def f_beta(S: Confusion, *, beta: float = 1.0) -> FirstOrder:
    """F-beta of one class, the last (erratum E3: the positive class is the second)."""
    return last_class(f_beta_scores(S, beta=beta))


def f_beta_parts(rows: Array, *, beta: float = 1.0) -> Ratios:
    """``(1 + beta^2) D / (beta^2 pi + c)`` of the last class."""
    unit, zero, floor = last(len(rows)), np.zeros(len(rows)), beta * beta * float(rows[-1])
    return _one(((1.0 + beta * beta) * unit, zero), (zero, unit), const=(0.0, floor), floor=floor)


def jaccard(S: Confusion) -> FirstOrder:
    """Jaccard score of one class, the last."""
    return last_class(jaccard_scores(S))


def jaccard_parts(rows: Array) -> Ratios:
    """``D / (pi + c - D)`` of the last class; the denominator is at least pi."""
    unit, zero, floor = last(len(rows)), np.zeros(len(rows)), float(rows[-1])
    return _one((unit, zero), (-unit, unit), const=(0.0, floor), floor=floor)


def precision(S: Confusion) -> FirstOrder:
    """Precision of one class, the last, ``D / c``; 0 where it is never decided."""
    return last_class(precision_scores(S))


def precision_parts(rows: Array) -> Ratios:
    """``D / c`` of the last class; the denominator is not bounded away from zero."""
    unit, zero = last(len(rows)), np.zeros(len(rows))
    return _one((unit, zero), (zero, unit), const=(0.0, 0.0), floor=0.0)


# --- sums over the classes but the background -------------------------------------------------------------------------


def _front(rows: Array) -> Array:
    front = np.ones(len(rows))
    front[0] = 0.0
    return front


def micro_f1(S: Confusion) -> FirstOrder:
    """Micro F1 over classes 1..K-1, ``2 TP / (2 - r_0 - c_0)``: an error between two of them counts twice."""
    front = np.ones(S.diagonal.shape[-1])
    front[0] = 0.0
    total = S.rows @ front + S.columns @ front
    value = safe_ratio(2.0 * S.diagonal @ front, total)
    unit = reciprocal(total)[..., None]
    share = -(value[..., None] * unit) * front
    return FirstOrder(value, 2.0 * unit * front, share, share)


def micro_f1_parts(rows: Array) -> Ratios:
    """``2 TP / (2 - pi_0 - c_0)``; the denominator is at least ``1 - pi_0``."""
    front, zero = _front(rows), np.zeros(len(rows))
    floor = float(rows @ front)
    return _one((2.0 * front, zero), (zero, front), const=(0.0, floor), floor=floor)


def micro_f1_once(S: Confusion) -> FirstOrder:
    """Micro F1 of the paper's Table 1, each error counted once: ``2 TP / (2 TP + errors)`` (erratum E4)."""
    front = np.ones(S.diagonal.shape[-1])
    front[0] = 0.0
    hits = S.diagonal @ front
    total = 2.0 * hits + S.rows.sum(-1) - S.diagonal.sum(-1)
    value = safe_ratio(2.0 * hits, total)[..., None]
    unit = reciprocal(total)[..., None]
    diagonal = unit * (2.0 * front - value * (2.0 * front - 1.0))
    return FirstOrder(value[..., 0], diagonal, np.zeros_like(S.columns), np.broadcast_to(-value * unit, diagonal.shape))


def micro_f1_once_parts(rows: Array) -> Ratios:
    """``2 TP / (1 + TP - C_00)``; the denominator is at least ``1 - pi_0``."""
    front, zero = _front(rows), np.zeros(len(rows))
    const = (0.0, float(rows.sum()))
    return _one((2.0 * front, zero), (2.0 * front - 1.0, zero), const=const, floor=float(rows @ front))


# --- agreement beyond chance ------------------------------------------------------------------------------------------


def disagreement(S: Confusion) -> tuple[Array, Array]:
    """Return ``1 - po`` and ``1 - pe``: how often truth and decision differ, observed and expected by chance.

    Where one class has nearly all weight both are tiny: they are sums of what differs, not differences from one.
    """
    total, decided = S.rows.sum(-1), S.columns.sum(-1)
    # sums that are one up to the rounding of a table are one; metrics over some of the classes have smaller ones
    rest = np.where(np.abs(1.0 - total) < UNIT, 0.0, 1.0 - total)
    missing = np.where(np.abs(1.0 - total * decided) < UNIT, 0.0, 1.0 - total * decided)
    if S.rows.shape[-1] == 2 == S.columns.shape[-1]:
        # of two classes the smaller one tells all errors
        rows = np.broadcast_to(S.rows, S.diagonal.shape)
        missed, false = np.maximum(rows - S.diagonal, 0.0), np.maximum(S.columns - S.diagonal, 0.0)
        smaller = np.where(rows[..., 0] <= rows[..., 1], (missed + false)[..., 0], (missed + false)[..., 1])
        # unless some rows are not decided as either class
        both = (rest == 0.0) & (np.abs(1.0 - decided) < UNIT)
        observed = np.where(both, smaller, 1.0 - S.diagonal.sum(-1))
    else:
        observed = rest + (S.rows - S.diagonal).sum(-1)
    return observed, missing + (S.rows * sum_of_others(S.columns)).sum(-1)


def cohen_kappa(S: Confusion) -> FirstOrder:
    """``(po - pe) / (1 - pe)``; 0 at 0/0, where scikit-learn returns NaN."""
    observed, chance = disagreement(S)
    unit = reciprocal(chance)[..., None]
    value = np.where(chance > 0.0, 1.0 - observed * unit[..., 0], 0.0)
    fall = observed[..., None] * unit * unit
    return FirstOrder(value, np.broadcast_to(unit, S.diagonal.shape), -S.rows * fall, -S.columns * fall)


def cohen_kappa_parts(rows: Array) -> Ratios:
    """``(sum D - sum pi c) / (1 - sum pi c)``; the denominator is at least ``1 - max pi``."""
    K, rest = len(rows), 1.0 - float(rows.sum())
    floor = float(sum_of_others(rows).min()) + (rest if abs(rest) > UNIT else 0.0)
    return _one((np.ones(K), -rows), (np.zeros(K), -rows), const=(0.0, 1.0), floor=max(0.0, floor))


def weighted_kappa(S: Confusion, *, power: int) -> FirstOrder:
    """``1 - sum w C / sum w r c^T`` with ``w_ij = |i - j|^power``; 0 at 0/0, where scikit-learn returns NaN."""
    assert S.matrix is not None
    index = np.arange(S.rows.shape[-1], dtype=np.float64)
    w = np.abs(index[:, None] - index) ** power / max(index[-1] ** power, 1.0)
    observed = (S.matrix * w).sum((-2, -1))[..., None, None]
    by_rows, by_columns = S.columns @ w, S.rows @ w
    expected = (by_rows * S.rows).sum(-1)[..., None, None]
    unit = reciprocal(expected)
    # the value is 0, not 1, at 0/0
    value = np.where(expected[..., 0, 0] > 0.0, 1.0 - (observed * unit)[..., 0, 0], 0.0)
    pull = by_rows[..., :, None] + by_columns[..., None, :]
    share = observed * unit * unit
    parts = {"columns": share[..., 0] * by_columns, "rows": share[..., 0] * by_rows}
    return FirstOrder(value, matrix=-w * unit + share * pull, **parts)


def weighted_kappa_parts(rows: Array, *, power: int) -> Ratios:
    """``(E - O) / E``, ``E = sum_j c_j f_j`` with ``f_j = sum_i pi_i w_ij``; E is at least ``min f``."""
    index = np.arange(len(rows), dtype=np.float64)
    w = np.abs(index[:, None] - index) ** power / max(index[-1] ** power, 1.0)
    chance, scale = rows @ w, max(index[-1] ** power, 1.0)
    zero, one = np.zeros(1), np.ones(1)
    top = Gains.reduced(np.full(len(rows), -1.0 / scale), chance, power=power)
    bottom = Gains.reduced(np.zeros(len(rows)), chance, power=power)
    return Ratios(top, bottom, zero, zero, one * chance.min(), one)


# --- the catalogue ----------------------------------------------------------------------------------------------------

ONE_CLASS: dict[str, Any] = {"binary": True, "ordered": True, "one_class": "alone"}
_BETA: dict[str, Any] = {"params": (("beta", 1.0),)}

METRICS = (
    Metric("f1", f_beta, Ratio(f_beta_parts), "columns", **_BETA, fixed=("beta",), **ONE_CLASS, title="F1",
           description="F1 of one class"),
    Metric("f_beta", f_beta, Ratio(f_beta_parts), "columns", **_BETA, **ONE_CLASS, title="F-beta",
           description="F-beta of one class"),
    Metric("jaccard", jaccard, Ratio(jaccard_parts), "columns", **ONE_CLASS, title="Jaccard",
           description="Jaccard score of one class"),
    Metric("precision", precision, Ratio(precision_parts), "columns", **ONE_CLASS,
           description="share of the rows decided as one class that are of this class"),
    Metric("micro_f1", micro_f1, Ratio(micro_f1_parts), "columns", ordered=True, title="micro F1",
           description="micro F1, background class 0 left out"),
    Metric("micro_f1_once", micro_f1_once, Ratio(micro_f1_once_parts), "diagonal", ordered=True,
           title="micro F1 (once)", description="micro F1 counting each error once"),
    Metric("macro_f1", ClassMean(f_beta_scores), General(macro_f_beta_parts), "columns", **_BETA, fixed=("beta",),
           title="macro F1", description="mean of the per-class F1 scores"),
    Metric("macro_f_beta", ClassMean(f_beta_scores), General(macro_f_beta_parts), "columns", **_BETA,
           title="macro F-beta", description="mean of the per-class F-beta scores"),
    Metric("weighted_f1", ClassMean(f_beta_scores, by_size=True), General(weighted_f1_parts), "columns",
           title="weighted F1", description="per-class F1 scores averaged by class size"),
    Metric("macro_jaccard", ClassMean(jaccard_scores), General(macro_jaccard_parts), "columns", title="macro Jaccard",
           description="mean of the per-class Jaccard scores"),
    Metric("macro_precision", ClassMean(precision_scores), General(macro_precision_parts), "columns",
           description="mean of the per-class precisions"),
    Metric("cohen_kappa", cohen_kappa, Ratio(cohen_kappa_parts), "columns", equal_weights=True,
           title="Cohen's kappa", description="agreement beyond chance"),
    Metric("linear_kappa", weighted_kappa, Ratio(weighted_kappa_parts), "matrix", (("power", 1),), ordered=True,
           fixed=("power",), description="kappa with weights |i - j|"),
    Metric("quadratic_kappa", weighted_kappa, Ratio(weighted_kappa_parts), "matrix", (("power", 2),), ordered=True,
           fixed=("power",), description="kappa with weights (i - j)^2"),
)  # fmt: skip
