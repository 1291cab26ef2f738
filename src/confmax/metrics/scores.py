"""Metrics of more than the recalls: scores of classes and their means, other ratios, tables of gains, roots of ratios.

Ratios of affine functions of C at fixed row sums, and means of them, have their formula and, beside it, their numerator
and denominator (``..._parts``), by which Dinkelbach's method and the bounds work (`confmax.metrics.ratios`). A metric
is added by these and a row of `METRICS`; a score of classes by its row alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from confmax.confusion import UNIT, Array, Confusion, Gains, difference, sum_of_others
from confmax.metrics.first_order import TINY, FirstOrder, Formula, Function, reciprocal, safe_ratio
from confmax.metrics.metric import ZERO_TO_ONE, Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import General, Linear, Quasiconvex, Ratio

# --- one score per class, and means of it -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassScores(Formula):
    """The scores ``h D_k / (rows beta^2 r_k + columns c_k - diagonal D_k)``, 0 at 0/0, and one number of them.

    ``h`` makes the score of a class without errors one; ``columns`` and ``diagonal`` are 0 or 1. The number is,
    ``over`` the classes, the mean of the scores, their sum weighted by the row sums ("sizes"), or the score of the last
    class: the positive one of two (erratum E3), or the one that a label names.
    """

    rows: float
    columns: int = 1
    diagonal: int = 0
    over: Literal["mean", "sizes", "last"] = "mean"

    def __call__(self, S: Confusion, *, beta: float = 1.0, **_: Any) -> FirstOrder:
        """Return value and derivatives; the weights, too, are differentiated."""
        score, unit = self._scores(S, beta)
        K = S.diagonal.shape[-1]
        # the weight of a score goes into the unit once: a batch takes one product instead of three
        unit = unit * {"mean": 1.0 / K, "sizes": S.rows, "last": last(K)}[self.over]
        fall = score * unit
        # a difference from zero and not a negative: a rule file would hold offsets of -0.0
        by_rows = 0.0 - self.rows * beta * beta * fall
        # the weights are the row sums themselves, so the scores are a part of the derivative
        if self.over == "sizes":
            by_rows += score
        by_diagonal = (self.hits(beta) + self.diagonal * score) * unit
        return FirstOrder(self._number(score, S), by_diagonal, 0.0 - self.columns * fall, by_rows)

    def values(self, S: Confusion, *, beta: float = 1.0, **_: Any) -> Array:
        return self._number(self._scores(S, beta)[0], S)

    @property
    def reads_rows(self) -> bool:
        return self.rows != 0.0 or self.over == "sizes"

    def hits(self, beta: float) -> float:
        """Return the coefficient of the numerator."""
        return self.rows * beta * beta + self.columns - self.diagonal

    def _scores(self, S: Confusion, beta: float) -> tuple[Array, Array]:
        """Return the scores (..., K), or the last one (..., 1), and one over their denominators."""
        of = slice(-1, None) if self.over == "last" else slice(None)
        D = S.diagonal[..., of]
        r = S.rows[..., of]
        c = S.columns[..., of]
        bottom = self.rows * beta * beta * r
        # line searches call this thousands of times: no passes over batches for coefficients of zero and one
        bottom = bottom + c if self.columns else bottom
        unit = reciprocal(bottom - D if self.diagonal else bottom)
        hits = self.hits(beta)
        return D * unit if hits == 1.0 else hits * D * unit, unit

    def _number(self, score: Array, S: Confusion) -> Array:
        if self.over == "last":
            return score[..., -1]
        return np.asarray((S.rows * score).sum(-1) if self.over == "sizes" else score.mean(-1))


@dataclass(frozen=True)
class ClassParts:
    """Numerators and denominators of `ClassScores`: those of the scores, or of the last one."""

    scores: ClassScores

    def __call__(self, rows: Array, *, beta: float = 1.0) -> Ratios:
        """Return the ratios at row sums ``rows`` (K,)."""
        of = self.scores
        K = len(rows)
        # one class takes no K x K matrix
        unit = last(K)[None] if of.over == "last" else np.eye(K)
        weights = {"mean": np.full(K, 1 / K), "sizes": rows, "last": np.ones(1)}[of.over]
        # c_k >= D_k: the denominator is at least its share of the row sum, which is nothing for a precision
        floor = of.rows * beta * beta * rows[-len(unit) :]
        top = Gains.reduced(of.hits(beta) * unit)
        bottom = Gains.reduced(-of.diagonal * unit, of.columns * unit)
        return Ratios(top, bottom, np.zeros(len(unit)), floor, floor, weights)


def last(K: int) -> Array:
    """Return the unit vector of the class that a metric of one class is of: the last, the positive one of two."""
    return np.eye(1, K, K - 1)[0]


def _one(top: Gains, bottom: Gains, constant: float, floor: float) -> Ratios:
    """Return the single ratio ``<top, C> / (<bottom, C> + constant)``."""
    return Ratios(top, bottom, np.zeros(1), np.array([constant]), np.array([floor]), np.ones(1))


# --- sums over the classes but the background -------------------------------------------------------------------------


def _micro_terms(K: int, *, once: bool) -> tuple[Array, Array, Array, Array]:
    """Return numerator (by the diagonal) and denominator (by diagonal, columns and rows) as vectors (K,)."""
    front = np.ones(K)
    front[0] = 0.0
    # the errors are all rows but the hits, those of the background too: sum r - sum D
    if once:
        return 2.0 * front, 2.0 * front - 1.0, np.zeros(K), np.ones(K)
    return 2.0 * front, np.zeros(K), front, front


def micro_f1(S: Confusion, *, once: bool = False) -> FirstOrder:
    """Micro F1 over classes 1..K-1, ``2 TP / (2 - r_0 - c_0)``: an error between two of them counts twice.

    ``once`` counts each error once, as the paper's Table 1: ``2 TP / (2 TP + errors)`` (erratum E4).
    """
    top, diagonal, columns, rows = _micro_terms(S.diagonal.shape[-1], once=once)
    total = S.diagonal @ diagonal + S.columns @ columns + S.rows @ rows
    value = safe_ratio(S.diagonal @ top, total)
    unit = reciprocal(total)[..., None]
    fall = value[..., None] * unit
    return FirstOrder(value, unit * top - fall * diagonal, -fall * columns, -fall * rows)


def micro_f1_parts(rows: Array, *, once: bool = False) -> Ratios:
    """``2 TP / (2 - pi_0 - c_0)``, or ``once`` ``2 TP / (1 + TP - C_00)``; denominators of at least ``1 - pi_0``."""
    top, diagonal, columns, by_rows = _micro_terms(len(rows), once=once)
    return _one(Gains.reduced(top), Gains.reduced(diagonal, columns), float(rows @ by_rows), float(rows @ top) / 2.0)


# --- agreement beyond chance ------------------------------------------------------------------------------------------


def disagreement(S: Confusion) -> tuple[Array, Array]:
    """Return ``1 - po`` and ``1 - pe``: how often truth and decision differ, observed and expected by chance.

    Where one class has nearly all weight both are tiny: they are sums of what differs, not differences from one.
    """
    total = S.rows.sum(-1)
    decided = S.columns.sum(-1)
    # sums that are one up to the rounding of a table are one; metrics over some of the classes have smaller ones
    rest = np.where(np.abs(1.0 - total) < UNIT, 0.0, 1.0 - total)
    missing = np.where(np.abs(1.0 - total * decided) < UNIT, 0.0, 1.0 - total * decided)
    if S.rows.shape[-1] == 2 == S.columns.shape[-1]:
        # of two classes the smaller one tells all errors
        rows = np.broadcast_to(S.rows, S.diagonal.shape)
        missed = np.maximum(rows - S.diagonal, 0.0)
        false = np.maximum(S.columns - S.diagonal, 0.0)
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
    # 1 - (1 - po) / (1 - pe), because po - pe cancels where one class has nearly all weight
    value = np.where(chance > 0.0, 1.0 - observed * unit[..., 0], 0.0)
    fall = observed[..., None] * unit * unit
    return FirstOrder(value, np.broadcast_to(unit, S.diagonal.shape), -S.rows * fall, -S.columns * fall)


def kappa_of_two(true: Array, hits: Array, decided: Array) -> Array:
    """``2 (t - r q) / (r (1 - q) + q (1 - r))``: `cohen_kappa` of two classes by the numbers of the second."""
    chance = true * difference(1.0 - decided) + decided * difference(1.0 - true)
    return safe_ratio(2.0 * (hits - true * decided), chance)


def cohen_kappa_parts(rows: Array) -> Ratios:
    """``(sum D - sum pi c) / (1 - sum pi c)``; the denominator is at least ``1 - max pi``."""
    K = len(rows)
    rest = 1.0 - float(rows.sum())
    # agreement by chance is likeliest where all rows are decided as the largest class
    floor = float(sum_of_others(rows).min()) + (rest if abs(rest) > UNIT else 0.0)
    return _one(Gains.reduced(np.ones(K), -rows), Gains.reduced(np.zeros(K), -rows), 1.0, max(0.0, floor))


def _distances(K: int, power: int) -> tuple[Array, float]:
    """Return ``|i - j|^power`` (K, K) as shares of the largest one, and this one, or one of a single class."""
    index = np.arange(K, dtype=np.float64)
    scale = max(index[-1] ** power, 1.0)
    return np.abs(index[:, None] - index) ** power / scale, scale


def weighted_kappa(S: Confusion, *, power: int) -> FirstOrder:
    """``1 - sum w C / sum w r c^T`` with ``w_ij = |i - j|^power``; 0 at 0/0, where scikit-learn returns NaN."""
    assert S.matrix is not None
    w, _ = _distances(S.rows.shape[-1], power)
    observed = (S.matrix * w).sum((-2, -1))[..., None, None]
    by_rows = S.columns @ w
    by_columns = S.rows @ w
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
    w, scale = _distances(len(rows), power)
    chance = rows @ w
    # gains of distances: a scan computes all expected distances of a row in O(K), so no matrix is needed
    top = Gains.reduced(np.full(len(rows), -1.0 / scale), chance, power=power)
    return _one(top, Gains.reduced(np.zeros(len(rows)), chance, power=power), 0.0, float(chance.min()))


# --- tables of gains --------------------------------------------------------------------------------------------------


def linear(S: Confusion, *, gain: tuple[tuple[float, ...], ...]) -> FirstOrder:
    """``<gain, C>`` for any gain matrix (K, M); a cost matrix is its negative."""
    assert S.matrix is not None
    G = np.array(gain)
    # a view: the gradients of a batch are all the same table
    return FirstOrder((S.matrix * G).sum((-2, -1)), matrix=np.broadcast_to(G, S.matrix.shape))


def linear_parts(_rows: Array, *, gain: tuple[tuple[float, ...], ...]) -> Ratios:
    """``<gain, C> / 1``."""
    G = np.array(gain)
    one = np.ones(1)
    return Ratios(Gains.from_matrix(G), Gains.from_matrix(np.zeros_like(G)), np.zeros(1), one, one, one, np.inf)


# --- roots ------------------------------------------------------------------------------------------------------------


def _spread(x: Array) -> Array:
    """Return ``1 - sum x^2`` (..., 1) of shares, exactly zero where one of them is all."""
    total = x.sum(-1, keepdims=True)
    missing = np.where(np.abs(1.0 - total) < UNIT, 0.0, 1.0 - total * total)
    return missing + (x * sum_of_others(x)).sum(-1, keepdims=True)


def mcc(S: Confusion) -> FirstOrder:
    """Multi-class Matthews correlation; 0 with a NaN gradient where truth or decisions are constant."""
    observed, chance = disagreement(S)
    total, decided = (part.sum(-1, keepdims=True) for part in (S.rows, S.columns))
    # where all classes count, what is decided as none of them is one more decision
    further = np.where((np.abs(1.0 - total) < UNIT) & (np.abs(1.0 - decided) >= UNIT), 1.0 - decided, 0.0)
    spread_c = _spread(S.columns) - further**2
    spread_r = _spread(S.rows)
    # there the correlation is 0/0: its value is scikit-learn's, and it has no derivative
    flat = np.minimum(spread_c, spread_r) <= TINY
    # the product of the two could underflow before its root is taken
    scale = np.where(flat, 1.0, np.sqrt(spread_c) * np.sqrt(spread_r))
    value = np.where(flat, 0.0, (chance - observed)[..., None] / scale)
    by_columns = -S.rows / scale + value * (S.columns - further) / np.where(flat, 1.0, spread_c)
    by_rows = -S.columns / scale + value * S.rows / np.where(flat, 1.0, spread_r)
    parts = (np.broadcast_to(1.0 / scale, S.diagonal.shape), by_columns, by_rows)
    return FirstOrder(value[..., 0], *(np.where(flat, np.nan, part) for part in parts))


def mcc_of_two(true: Array, hits: Array, decided: Array) -> Array:
    """``(t - r q) / sqrt(r (1 - r) q (1 - q))``: `mcc` of two classes by the numbers of the second."""
    spread = np.sqrt(true * difference(1.0 - true) * (decided * difference(1.0 - decided)))
    return safe_ratio(hits - true * decided, spread)


_AMS_VALUE = [1 / 56, -1 / 42, 1 / 30, -1 / 20, 1 / 12, -1 / 6, 1 / 2]
_AMS_SLOPE = [-1 / 8, 1 / 7, -1 / 6, 1 / 5, -1 / 4, 1 / 3, -1 / 2]


def ams(S: Confusion, *, b_reg: float = 0.0, b_min: float = 0.0) -> FirstOrder:
    """Approximate median significance ``sqrt(2 ((s + b) log(1 + s / b) - s))``, s = C_11, b = max(C_01, b_min) + b_reg.

    Infinite, with a NaN gradient, where no negative is accepted and ``b_reg = 0``; 0 with a NaN gradient at s = 0.
    """
    s = S.diagonal[..., 1]
    b = S.columns[..., 1] - s
    floored = b <= max(b_min, 1e-15)
    b = np.where(floored, b_min, b) + b_reg
    inside = (s > TINY) & (b > TINY)
    b_in = np.where(inside, b, 1.0)
    x = np.where(inside, s, 1.0) / np.where(inside, b, 1.0)
    log = np.log1p(x)
    # both differences cancel for small x: there their series, to x^8
    small = np.minimum(x, 0.01)
    half_square = np.where(x < 0.01, small**2 * np.polyval(_AMS_VALUE, small), (1.0 + x) * log - x)
    log_minus_x = np.where(x < 0.01, small**2 * np.polyval(_AMS_SLOPE, small), log - x)
    value = np.where(inside, np.sqrt(2.0 * b_in * half_square), np.where(s > TINY, np.inf, 0.0))
    safe = np.where(inside, value, np.nan)
    by_s = log / safe
    by_b = np.where(floored & (b_min > 0.0), 0.0, log_minus_x / safe)
    positive = np.array([0.0, 1.0])
    none = np.zeros_like(S.rows)
    return FirstOrder(value, (by_s - by_b)[..., None] * positive, by_b[..., None] * positive, none)


def fowlkes_mallows(S: Confusion) -> FirstOrder:
    """Geometric mean of precision and recall of class 1 (not scikit-learn's clustering score of that name)."""
    hit, row, column = (part[..., 1:] for part in (S.diagonal, S.rows, S.columns))
    unit = reciprocal(np.sqrt(row * column))
    value = hit * unit
    positive = last(2)
    by_column = -safe_ratio(value, 2.0 * column) * positive
    by_row = -safe_ratio(value, 2.0 * row) * positive
    return FirstOrder(value[..., 0], unit * positive, by_column, by_row)


# --- the catalogue ----------------------------------------------------------------------------------------------------

ONE_CLASS: dict[str, Any] = {"binary": True, "ordered": True, "one_class": "alone"}
_BETA: dict[str, Any] = {"params": (("beta", 1.0),)}


def _of_classes(name: str, scores: ClassScores, description: str, **more: Any) -> Metric:
    """Return the metric of scores of classes: a ratio for one class, a sum of ratios for several."""
    shape, kind = (Ratio, ONE_CLASS) if scores.over == "last" else (General, {})
    structure = shape(fractions=ClassParts(scores))
    return Metric(name, scores, structure, "columns", description=description, range=ZERO_TO_ONE, **kind, **more)


METRICS = (
    _of_classes(
        "f1",
        ClassScores(1.0, over="last"),
        "F1 of one class",
        **_BETA,
        fixed=("beta",),
        title="F1",
        of_many="macro_f1",
        synonyms=("dice", "dice_coefficient", "f_measure", "f_score", "f"),
    ),
    _of_classes(
        "f_beta",
        ClassScores(1.0, over="last"),
        "F-beta of one class",
        **_BETA,
        title="F-beta",
        of_many="macro_f_beta",
        synonyms=("fbeta",),
    ),
    _of_classes(
        "jaccard",
        ClassScores(1.0, diagonal=1, over="last"),
        "Jaccard score of one class",
        title="Jaccard",
        of_many="macro_jaccard",
        synonyms=("iou", "jaccard_index", "csi", "threat", "critical_success_index"),
    ),
    Metric(
        "micro_f1",
        Function(micro_f1),
        Ratio(fractions=micro_f1_parts),
        "columns",
        ordered=True,
        title="micro F1",
        range=ZERO_TO_ONE,
        description="micro F1, background class 0 left out",
    ),
    Metric(
        "micro_f1_once",
        Function(micro_f1),
        Ratio(fractions=micro_f1_parts),
        "diagonal",
        (("once", True),),
        ordered=True,
        fixed=("once",),
        title="micro F1 (once)",
        range=ZERO_TO_ONE,
        description="micro F1 counting each error once",
    ),
    _of_classes(
        "macro_f1",
        ClassScores(1.0),
        "mean of the per-class F1 scores",
        **_BETA,
        fixed=("beta",),
        title="macro F1",
        aliases=("f1_macro",),
    ),
    _of_classes("macro_f_beta", ClassScores(1.0), "mean of the per-class F-beta scores", **_BETA, title="macro F-beta"),
    _of_classes(
        "weighted_f1",
        ClassScores(1.0, over="sizes"),
        "per-class F1 scores averaged by class size",
        title="weighted F1",
        aliases=("f1_weighted",),
    ),
    _of_classes(
        "macro_jaccard",
        ClassScores(1.0, diagonal=1),
        "mean of the per-class Jaccard scores",
        title="macro Jaccard",
        aliases=("jaccard_macro",),
        synonyms=("miou", "mean_iou"),
    ),
    _of_classes("macro_precision", ClassScores(0.0), "mean of the per-class precisions", aliases=("precision_macro",)),
    Metric(
        "cohen_kappa",
        Function(cohen_kappa, kappa_of_two),
        Ratio(fractions=cohen_kappa_parts),
        "columns",
        equal_weights=True,
        title="Cohen's kappa",
        range=(-1.0, 1.0),
        description="agreement beyond chance",
        synonyms=("kappa", "cohens_kappa"),
    ),
    Metric(
        "linear_kappa",
        Function(weighted_kappa),
        Ratio(fractions=weighted_kappa_parts),
        "matrix",
        (("power", 1),),
        ordered=True,
        fixed=("power",),
        range=(-1.0, 1.0),
        description="kappa with weights |i - j|",
        synonyms=("linear_weighted_kappa",),
    ),
    Metric(
        "quadratic_kappa",
        Function(weighted_kappa),
        Ratio(fractions=weighted_kappa_parts),
        "matrix",
        (("power", 2),),
        ordered=True,
        fixed=("power",),
        range=(-1.0, 1.0),
        description="kappa with weights (i - j)^2",
        synonyms=("qwk", "quadratic_weighted_kappa"),
    ),
    Metric(
        "linear",
        Function(linear),
        Linear(fractions=linear_parts),
        "matrix",
        ordered=True,
        title="mean gain",
        of_all_rows=True,
        description="any table of gains or costs per (true class, decision)",
    ),
    Metric(
        "ams",
        Function(ams),
        Quasiconvex(floor="b_min", smoother="b_reg"),
        "columns",
        (("b_reg", 0.0), ("b_min", 0.0)),
        binary=True,
        ordered=True,
        title="AMS",
        range=ZERO_TO_ONE,
        description="approximate median significance of class 1",
    ),
    Metric(
        "fowlkes_mallows",
        Function(fowlkes_mallows),
        Quasiconvex(),
        "columns",
        binary=True,
        ordered=True,
        title="Fowlkes-Mallows",
        range=ZERO_TO_ONE,
        description="geometric mean of precision and recall of class 1",
        synonyms=("fmi", "fowlkes_mallows_index"),
    ),
    Metric(
        "mcc",
        Function(mcc, mcc_of_two),
        Quasiconvex(),
        "columns",
        equal_weights=True,
        title="MCC",
        range=ZERO_TO_ONE,
        aliases=("matthews_corrcoef",),
        synonyms=("matthews", "matthews_correlation", "phi", "phi_coefficient"),
        description="Matthews correlation coefficient",
    ),
)
