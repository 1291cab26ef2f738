"""Metrics of several labels per row: means of one score per label, and ratios of sums over all labels.

Their statistics are three vectors, as those of classes: how often a label is true (rows), how often it is decided and
true (diagonal), and how often it is decided (columns), as fractions of all rows. None of them sums to one. A score of
one label is a function of its three numbers r, t and q, and is declared with its derivatives by t and q. Names mean
what they mean to scikit-learn with labels: the mean over labels, or over all entries (micro).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.errors import InputError
from confmax.metrics import autodiff, catalogue, elsewhere
from confmax.metrics.first_order import FirstOrder, Formula, safe_ratio
from confmax.metrics.metric import ZERO_TO_ONE, Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import Concave, General, Linear, Ratio, Structure
from confmax.metrics.user import at_reached, number_of
from confmax.tables.decisions import Decisions

# value and derivatives by t and q (...) of the score of a label, from r, t and q (...)
Score = Callable[..., tuple[Array, Array, Array]]
STEP = 1e-6  # of differences where a function cannot be traced


def f_beta(r: Array, t: Array, q: Array, *, beta: float = 1.0) -> tuple[Array, Array, Array]:
    """``(1 + beta^2) t / (beta^2 r + q)``."""
    bottom = beta * beta * r + q
    hits = 1.0 + beta * beta
    value = safe_ratio(hits * t, bottom)
    return value, safe_ratio(hits + 0.0 * bottom, bottom), -safe_ratio(value, bottom)


def jaccard(r: Array, t: Array, q: Array) -> tuple[Array, Array, Array]:
    """``t / (r + q - t)``."""
    bottom = r + q - t
    value = safe_ratio(t, bottom)
    return value, safe_ratio(1.0 + value, bottom), -safe_ratio(value, bottom)


def precision(_: Array, t: Array, q: Array) -> tuple[Array, Array, Array]:
    """``t / q``."""
    value = safe_ratio(t, q)
    return value, safe_ratio(1.0 + 0.0 * value, q), -safe_ratio(value, q)


def recall(r: Array, t: Array, _: Array) -> tuple[Array, Array, Array]:
    """``t / r``."""
    unit = safe_ratio(1.0 + 0.0 * t, r + 0.0 * t)
    return t * unit, unit, 0.0 * t


def _without(share: Array) -> Array:
    """Return ``1 - share``, zero where it is rounding: sums of weights that make up one may lie beside it."""
    left = np.maximum(1.0 - share, 0.0)
    return np.where(left > 1e-15, left, 0.0)


def both_recalls(r: Array, t: Array, q: Array) -> tuple[Array, Array, Array, Array]:
    """Return the shares of rows with and without a label that are decided rightly, and one over these rows."""
    without = _without(r) + 0.0 * t
    unit = safe_ratio(1.0 + 0.0 * t, r + 0.0 * t)
    other = safe_ratio(1.0 + 0.0 * t, without)
    return np.clip(t * unit, 0.0, 1.0), np.clip((without - q + t) * other, 0.0, 1.0), unit, other


def balanced(r: Array, t: Array, q: Array) -> tuple[Array, Array, Array]:
    """The mean of the recalls of rows with and without the label."""
    with_it, without, unit, other = both_recalls(r, t, q)
    return (with_it + without) / 2.0, (unit + other) / 2.0, -other / 2.0


def g_mean(r: Array, t: Array, q: Array) -> tuple[Array, Array, Array]:
    """The geometric mean of the recalls of rows with and without the label."""
    with_it, without, unit, other = both_recalls(r, t, q)
    value = np.sqrt(with_it * without)
    half = safe_ratio(0.5 + 0.0 * value, value)
    # where a recall is zero that need not be, the slope is infinite
    half = np.where((value == 0.0) & (unit > 0.0) & (other > 0.0), np.nan, half)
    return value, half * (without * unit + with_it * other), -half * with_it * other


def h_mean(r: Array, t: Array, q: Array) -> tuple[Array, Array, Array]:
    """The harmonic mean of the recalls of rows with and without the label."""
    with_it, without, unit, other = both_recalls(r, t, q)
    both = with_it + without
    # where both are zero it lies below their mean
    share = np.where(both > 0.0, safe_ratio(with_it, both), 0.5)
    by_with = 2.0 * (1.0 - share) ** 2
    by_without = 2.0 * share**2
    return safe_ratio(2.0 * with_it * without, both), by_with * unit + by_without * other, -by_without * other


def right(r: Array, t: Array, q: Array) -> tuple[Array, Array, Array]:
    """The share of rows for which the label is decided rightly, ``1 - r - q + 2 t``."""
    return 1.0 - r - q + 2.0 * t, 2.0 + 0.0 * t, -1.0 + 0.0 * t


def coverage(_: Array, t: Array, q: Array, *, n: float | None = None) -> tuple[Array, Array, Array]:
    """``1 - exp(-n t)``: the probability that any of ``n`` rows gets the label rightly, if such rows are few."""
    if n is None:
        raise ValueError("coverage needs n, the number of rows to be decided")
    missed = np.exp(-n * t)
    return 1.0 - missed, n * missed, 0.0 * q


def kappa(r: Array, t: Array, q: Array) -> tuple[Array, Array, Array]:
    """Cohen's kappa of the label, ``2 (t - r q) / (r + q - 2 r q)``."""
    bottom = r * _without(q) + q * _without(r)
    value = safe_ratio(2.0 * (t - r * q), bottom)
    unit = safe_ratio(1.0 + 0.0 * bottom, bottom)
    return value, 2.0 * unit, -(2.0 * r + value * (1.0 - 2.0 * r)) * unit


def mcc(r: Array, t: Array, q: Array) -> tuple[Array, Array, Array]:
    """The correlation of truth and decision."""
    spread = q * _without(q)
    scale = np.sqrt(r * _without(r) * spread)
    value = safe_ratio(t - r * q, scale)
    by_q = -safe_ratio(r + 0.0 * t, scale) - value * safe_ratio(1.0 - 2.0 * q, 2.0 * spread)
    return value, safe_ratio(1.0 + 0.0 * t, scale), by_q


@dataclass(frozen=True)
class LabelMean(Formula):
    """The mean of the scores of labels, or their mean ``by_size``, weighted by how often they are true."""

    score: Score
    by_size: bool = False
    takes_further: ClassVar[bool] = False
    is_separable: ClassVar[bool] = True

    def each(self, S: Confusion, **params: Any) -> Array:
        """Return the score of every label (..., L)."""
        known = _RATIOS.get(self.score)
        if known is not None:
            # a search asks for very many values, and needs no derivatives
            hits, base, less = known(params.get("beta", 1.0) ** 2)
            below = base * S.rows + S.columns
            return safe_ratio(hits * S.diagonal, below - less * S.diagonal if less else below)
        return self.score(S.rows, S.diagonal, S.columns, **params)[0]

    def ratio(self, *, beta: float = 1.0, **_: Any) -> tuple[float, float, float] | None:
        """Return (hits, base, less) of a score ``hits t / (base r + q - less t)``; None for other scores."""
        known = _RATIOS.get(self.score)
        return None if known is None else known(beta * beta)

    def shares(self, rows: Array) -> Array:
        """Return the weight of every label (..., L) in the mean."""
        if not self.by_size:
            return np.full(rows.shape, 1.0 / rows.shape[-1])
        return safe_ratio(rows, np.broadcast_to(rows.sum(-1, keepdims=True), rows.shape))

    def __call__(self, S: Confusion, **params: Any) -> FirstOrder:
        value, by_hits, by_decisions = self.score(S.rows, S.diagonal, S.columns, **params)
        w = self.shares(S.rows)
        # zero has one sign, since rule files hold offsets
        parts = (w * by_hits, w * by_decisions + 0.0, np.zeros_like(S.diagonal))
        return FirstOrder(np.asarray((w * value).sum(-1)), *parts)

    def values(self, S: Confusion, **params: Any) -> Array:
        return np.asarray((self.shares(S.rows) * self.each(S, **params)).sum(-1))


# scores that are ratios: coefficients of hits above, true labels below, and hits below, by the square of beta
_RATIOS: dict[Score, Callable[[float], tuple[float, float, float]]] = {
    f_beta: lambda square: (1.0 + square, square, 0.0),
    jaccard: lambda _: (1.0, 1.0, 1.0),
    precision: lambda _: (1.0, 0.0, 0.0),
}


@dataclass(frozen=True)
class MeanParts:
    """Numerators and denominators of a `LabelMean` whose scores are ``hits t / (base r + q - less t)``."""

    formula: LabelMean

    def __call__(self, rows: Array, *, beta: float = 1.0) -> Ratios:
        """Return the ratios at how often the labels are true, ``rows`` (L,)."""
        L = len(rows)
        coefficients = self.formula.ratio(beta=beta)
        assert coefficients is not None
        hits, base, less = coefficients
        top = Gains.reduced(hits * np.eye(L))
        bottom = Gains.reduced(-less * np.eye(L), np.eye(L))
        return Ratios(top, bottom, np.zeros(L), base * rows, base * rows, self.formula.shares(rows))


@dataclass(frozen=True)
class Micro(Formula):
    """The ratio ``hits T / (base R + decided Q - less T)`` of the sums R, T and Q over all labels, 0 at 0/0.

    With ``of_beta`` the numbers are those of F-beta.
    """

    hits: float
    base: float
    decided: float
    less: float = 0.0
    of_beta: bool = False
    takes_further: ClassVar[bool] = False

    def terms(self, beta: float) -> tuple[float, float, float, float]:
        """Return the coefficients of hits, true labels, decided labels and hits below."""
        if self.of_beta:
            return 1.0 + beta * beta, beta * beta, 1.0, 0.0
        return self.hits, self.base, self.decided, self.less

    def ratio(self, *, beta: float = 1.0) -> tuple[float, float, float] | None:
        """Return (hits, base, less) of a ratio ``hits T / (base R + Q - less T)``; None for other ratios."""
        hits, base, decided, less = self.terms(beta)
        return (hits, base, less) if decided == 1.0 and base > 0.0 else None

    def __call__(self, S: Confusion, *, beta: float = 1.0, **_: Any) -> FirstOrder:
        hits, base, decided, less = self.terms(beta)
        R, T, Q = (np.asarray(part.sum(-1)) for part in (S.rows, S.diagonal, S.columns))
        bottom = base * R + decided * Q - less * T
        value = safe_ratio(hits * T, bottom)
        unit = safe_ratio(np.ones(bottom.shape), bottom)
        ones = np.ones_like(S.diagonal)
        by_hits = ((hits + less * value) * unit)[..., None] * ones
        return FirstOrder(value, by_hits, (0.0 - decided * value * unit)[..., None] * ones, np.zeros_like(ones))

    def values(self, S: Confusion, *, beta: float = 1.0, **_: Any) -> Array:
        return self(S, beta=beta).value


@dataclass(frozen=True)
class MicroParts:
    """Numerator and denominator of `Micro`."""

    formula: Micro

    def __call__(self, rows: Array, *, beta: float = 1.0) -> Ratios:
        """Return the ratio at how often the labels are true, ``rows`` (L,)."""
        hits, base, decided, less = self.formula.terms(beta)
        ones = np.ones(len(rows))
        constant = np.array([base * rows.sum()])
        top, bottom = Gains.reduced(hits * ones), Gains.reduced(-less * ones, decided * ones)
        return Ratios(top, bottom, np.zeros(1), constant, constant, np.ones(1))


@dataclass(frozen=True)
class OfVectors(Formula):
    """A user's function of the three vectors, ``psi(rows, diagonal, columns)``."""

    psi: Callable[[Array, Array, Array], float]
    name: str
    takes_further: ClassVar[bool] = False

    def values(self, S: Confusion, **_: Any) -> Array:
        stacked = self._stacked(S)
        flat = stacked.reshape(-1, *stacked.shape[-2:])
        return np.array([at_reached(self.name, self._number, part) for part in flat]).reshape(stacked.shape[:-2])

    def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
        stacked = self._stacked(S)
        flat = stacked.reshape(-1, *stacked.shape[-2:])
        slopes = np.array([at_reached(self.name, self._slope, part) for part in flat]).reshape(stacked.shape)
        return FirstOrder(self.values(S), slopes[..., 1, :], slopes[..., 2, :] + 0.0, np.zeros_like(S.diagonal))

    def _stacked(self, S: Confusion) -> Array:
        return np.stack([np.broadcast_to(S.rows, S.diagonal.shape), S.diagonal, S.columns], axis=-2)

    def _number(self, vectors: Array) -> float:
        return number_of(self.psi, *vectors.copy())

    def _slope(self, vectors: Array) -> Array:
        """Return the derivatives (3, L), exact where the function can be traced, else by differences."""
        # a function that cannot be traced raises what it likes
        with suppress(Exception):
            traced = autodiff.gradient(lambda parts: self.psi(parts[0], parts[1], parts[2]), vectors)
            if np.isfinite(traced).all():
                return np.asarray(traced)
        slope = np.zeros_like(vectors)
        for place in np.ndindex(*vectors.shape):
            if place[0]:
                ends = []
                for step in (-STEP, STEP):
                    moved = vectors.copy()
                    moved[place] += step
                    ends.append(self._number(moved))
                slope[place] = (ends[1] - ends[0]) / (2.0 * STEP)
        return slope


# --- the catalogue ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A metric of labels: for which decisions it is of use, and what to say where it is of none."""

    metric: Metric
    refused_any: str = ""
    refused_most: str = ""
    aliases: tuple[str, ...] = ()


def _mean(name: str, score: Score, structure: Structure, what: str, *, by_size: bool = False, **more: Any) -> Metric:
    formula = LabelMean(score, by_size)
    if score in _RATIOS:
        structure = General(fractions=MeanParts(formula))
    return Metric(name, formula, structure, "columns", description=what, range=ZERO_TO_ONE, **more)


def _micro(name: str, formula: Micro, what: str, **more: Any) -> Metric:
    structure = Ratio(fractions=MicroParts(formula))
    return Metric(name, formula, structure, "columns", description=what, range=ZERO_TO_ONE, **more)


_BETA: dict[str, Any] = {"params": (("beta", 1.0),)}
_F1: dict[str, Any] = {**_BETA, "fixed": ("beta",)}
_PRIOR: dict[str, Any] = {"divides_by_prior": True}
_NONE = "it is largest if only the surest rows get a label"
_ALL = "it is largest if every row gets every label"
_OF_SIZE = "its labels are compared one by one, and with a budget they are not"

ROWS = (
    Row(_mean("macro_f1", f_beta, General(), "mean over labels of F1", **_F1), aliases=("f1_macro",)),
    Row(_mean("macro_f_beta", f_beta, General(), "mean over labels of F-beta", **_BETA)),
    Row(
        _mean(
            "weighted_f1", f_beta, General(), "mean of F1, weighted by how often labels are true", by_size=True, **_F1
        ),
        aliases=("f1_weighted",),
    ),
    Row(
        _mean("macro_jaccard", jaccard, General(), "mean over labels of the Jaccard index"),
        aliases=("jaccard_macro",),
    ),
    Row(
        _mean("macro_precision", precision, General(), "mean over labels of the precision"),
        refused_any=_NONE,
        aliases=("precision_macro",),
    ),
    Row(
        _mean("macro_recall", recall, Linear(), "mean over labels of the recall", **_PRIOR),
        refused_any=_ALL,
        aliases=("recall_macro",),
    ),
    Row(_mean("balanced_accuracy", balanced, Linear(), "mean over labels of the balanced accuracy", **_PRIOR)),
    Row(_mean("g_mean", g_mean, Concave(), "mean over labels of the G-mean of both recalls", **_PRIOR)),
    Row(_mean("h_mean", h_mean, Concave(), "mean over labels of the H-mean of both recalls", **_PRIOR)),
    Row(
        _mean(
            "coverage",
            coverage,
            Concave(),
            "share of labels that are decided rightly at least once in n rows",
            params=(("n", None),),
        ),
        refused_any=_ALL,
    ),
    Row(_mean("hamming", right, Linear(), "share of entries that are right, 1 - the Hamming loss")),
    Row(_mean("cohen_kappa", kappa, General(), "mean over labels of Cohen's kappa"), refused_most=_OF_SIZE),
    Row(_mean("mcc", mcc, General(), "mean over labels of the Matthews correlation"), refused_most=_OF_SIZE),
    Row(_micro("micro_f1", Micro(2.0, 1.0, 1.0), "F1 of all entries"), aliases=("f1_micro",)),
    Row(_micro("micro_f_beta", Micro(2.0, 1.0, 1.0, of_beta=True), "F-beta of all entries", **_BETA)),
    Row(_micro("micro_jaccard", Micro(1.0, 1.0, 1.0, 1.0), "Jaccard index of all entries"), aliases=("jaccard_micro",)),
    Row(
        _micro("micro_precision", Micro(1.0, 0.0, 1.0), "precision of all entries"),
        refused_any=_NONE,
        aliases=("precision_micro",),
    ),
    Row(
        _micro("micro_recall", Micro(1.0, 1.0, 0.0), "recall of all entries"),
        refused_any=_ALL,
        # weighted by how often labels are true, recalls are those of all entries
        aliases=("recall_micro", "recall_weighted"),
    ),
)
CATALOGUE = {row.metric.name: row for row in ROWS}
_ALIASES = {alias: row.metric.name for row in ROWS for alias in row.aliases}
# averages over rows, and what is right in every label of a row at once: no functions of the three vectors
_OF_ROWS = ("samples", "subset_accuracy", "exact_match", "zero_one_loss")


def names(decisions: Decisions | None) -> list[str]:
    """Return the names of the metrics that ``decisions`` can maximise, sorted; all of them for None.

    >>> from confmax.tables.decisions import ANY
    >>> "micro_f1" in names(ANY), "macro_recall" in names(ANY)
    (True, False)
    """
    return sorted(name for name, row in CATALOGUE.items() if not _refusal(row, decisions))


def resolve(metric: Any, decisions: Decisions | None) -> Metric:
    """Return the metric of several labels that a name, a metric of this module or a function means.

    Parameters
    ----------
    metric : str, Metric or callable
        A name of `names`, or scikit-learn's scorer name for it; or a function of three vectors (L,): how often every
        label is true, decided and true, and decided, as fractions of all rows.
    decisions : Decisions or None
        What is decided for a row, if the metric is to be maximised; None to evaluate it alone.

    Raises
    ------
    ValueError
        If it is none of these, or of no use for these decisions.

    Examples
    --------
    >>> from confmax.tables.decisions import ANY
    >>> resolve("f1_macro", ANY)
    macro_f1
    """
    if isinstance(metric, Metric):
        known = CATALOGUE.get(metric.name)
        if isinstance(metric.formula, (LabelMean, Micro, OfVectors)):
            # that of a solution is over the labels that its rows had, and other rows may have others
            return _useful(CATALOGUE.get(metric.name), replace(metric, classes=None), decisions)
        if known is None or metric.label is not None:
            raise InputError(f"{metric!r} is a metric of one class for every row", _ways_out(decisions))
        params = {key: value for key, value in metric.params if key == "beta"}
        wanted = known.metric.with_params(params)
        if metric.classes is not None or repr(metric) != repr(wanted):
            raise InputError(
                f"{metric!r} is a metric of one class for every row; that of several labels is over all labels that "
                f"some row has, and takes no parameter but beta",
                f"pass {repr(wanted)!r}",
            )
        return _useful(known, wanted, decisions)
    if callable(metric):
        return from_vectors(metric)
    if not isinstance(metric, str):
        raise ValueError(f"metric is a name such as 'macro_f1', or a function; got {type(metric).__name__}")
    row = CATALOGUE.get(_ALIASES.get(metric, metric))
    if row is None:
        raise _unknown(metric, decisions)
    return _useful(row, row.metric, decisions)


def without_parameters() -> list[Metric]:
    """Return the metrics of the catalogue that need no parameter, nor have one that they are not fixed to, by name.

    >>> [metric.name for metric in without_parameters()][:3]
    ['balanced_accuracy', 'cohen_kappa', 'g_mean']
    """
    every = (row.metric for row in CATALOGUE.values())
    plain = (metric for metric in every if all(key in metric.fixed for key, _ in metric.params))
    return sorted(plain, key=lambda metric: metric.name)


def get(name: str, decisions: Decisions | None = None, **params: float) -> Metric:
    """Return the metric called ``name``, as `resolve` does, with the parameters ``beta`` or ``n``; else a ValueError.

    >>> get("macro_f_beta", beta=2.0), get("coverage", n=1000)
    (macro_f_beta(beta=2.0), coverage(n=1000))
    """
    metric = resolve(name, decisions)
    known = [key for key, _ in metric.params if key not in metric.fixed]
    for key, value in params.items():
        if key not in known:
            raise InputError(f"{metric.name} has no parameter {key} (its parameters: {', '.join(known) or 'none'})")
        if not (isinstance(value, (int, float, np.number)) and np.isfinite(value) and value > 0):
            raise InputError(f"{key} of {metric.name} is positive and finite; got {value!r}")
    return metric.with_params(params) if params else metric


def from_vectors(psi: Callable[[Array, Array, Array], float]) -> Metric:
    """Return the metric of a function ``psi(rows, diagonal, columns)`` of three vectors (L,), as `resolve` does."""
    label = str(getattr(psi, "__name__", type(psi).__name__))
    formula = OfVectors(psi, "user function" if label == "<lambda>" else label)
    return Metric(formula.name, formula, General(), "columns")


def sized(metric: Metric, n_rows: int) -> Metric:
    """Return a ``metric`` that counts rows, and was given no number of them, for a table of ``n_rows``; else itself."""
    return metric.with_params({"n": float(n_rows)}) if dict(metric.params).get("n", n_rows) is None else metric


def ratio_of(metric: Metric) -> tuple[float, float, float] | None:
    """Return (hits, base, less) of a ``metric`` whose score is ``hits t / (base r + q - less t)``, else None.

    The score is that of every label, or of the sums over labels.
    """
    formula = metric.formula
    return formula.ratio(**dict(metric.params)) if isinstance(formula, (LabelMean, Micro)) else None


def each_of(metric: Metric, S: Confusion) -> Array:
    """Return the score of every label (..., L) in a ``metric`` that is their mean, at statistics ``S``."""
    assert isinstance(metric.formula, LabelMean)
    return metric.formula.each(S, **dict(metric.params))


def shares_of(metric: Metric, rows: Array) -> Array:
    """Return the weight (L,) of every label in a mean of scores, by how often labels are true, ``rows`` (L,)."""
    assert isinstance(metric.formula, LabelMean)
    index = np.arange(len(rows)) if metric.classes is None else np.array(metric.classes)
    out = np.zeros(len(rows))
    out[index] = metric.formula.shares(rows[index])
    return out


def is_f_like(metric: Metric) -> bool:
    """Whether it is a mean of scores, such as F1, whose best threshold is half of the best score."""
    return isinstance(metric.formula, LabelMean) and metric.structure.fractions is not None


def _refusal(row: Row, decisions: Decisions | None) -> str:
    """Return why a metric is of no use for ``decisions``; empty where it is of use."""
    if decisions is None:
        return ""
    # where the number of labels is not bounded, nothing is lost by deciding none, or all
    return row.refused_any if decisions.most is None else row.refused_most


def _useful(row: Row | None, metric: Metric, decisions: Decisions | None) -> Metric:
    """Return a ``metric``, that of the catalogue's ``row`` if it has one, or refuse what is of no use."""
    if row is not None and decisions is not None and (why := _refusal(row, decisions)):
        raise InputError(f"{metric.name} cannot be maximised with decisions={decisions.argument!r}: {why}")
    return metric


def _ways_out(decisions: Decisions | None) -> str:
    return f"use one of {', '.join(names(decisions))}, or a function of rows, diagonal and columns"


def _unknown(name: str, decisions: Decisions | None) -> InputError:
    if any(word in name for word in _OF_ROWS):
        return InputError(
            f"{name} is an average over rows, and no function of how often labels are true, decided, and both",
            "use the mean over labels (macro) or over entries (micro)",
        )
    if name == "accuracy":
        return InputError(
            "accuracy of several labels is the share of rows that are right in all of them, and no function of how "
            "often labels are true, decided, and both",
            "use hamming, the share of entries that are right",
        )
    known = elsewhere.refused(name, CATALOGUE)
    if known is not None:
        return InputError(*known, "metric")
    word = catalogue.in_our_words(name)
    near = elsewhere.with_base(word, CATALOGUE)
    # what there is for one class of every row is not misspelt
    if not near and word not in catalogue.names():
        near = difflib.get_close_matches(word, [*CATALOGUE, *_ALIASES], 3)
    hint = f"did you mean {' or '.join(near)}?" if near else _ways_out(decisions)
    return InputError(f"there is no metric {name!r} of several labels", hint, "metric")
