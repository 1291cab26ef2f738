"""Metrics of several labels per row: views of metrics of two classes, the mean over labels or that of their sum.

Their statistics are three vectors, as those of classes: how often a label is true (rows), how often it is decided and
true (diagonal), and how often it is decided (columns), as fractions of all rows. None of them sums to one. Names mean
what they mean to scikit-learn with labels: the mean over labels, or over all entries (micro).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeGuard, cast

import numpy as np

from confmax.confusion import Array, Confusion
from confmax.errors import InputError
from confmax.metrics import autodiff, catalogue, elsewhere, recalls, scores, shares
from confmax.metrics.first_order import FirstOrder, Formula, Function
from confmax.metrics.metric import ZERO_TO_ONE, Metric
from confmax.metrics.structure import Concave, General, Linear, Ratio, Structure
from confmax.metrics.user import at_reached, number_of
from confmax.metrics.views import Fraction, Over, View, ViewParts, labels_of
from confmax.tables.decisions import Decisions

STEP = 1e-6  # of differences where a function cannot be traced


def found_once(S: Confusion, *, n: float | None = None) -> FirstOrder:
    """``1 - exp(-n t)``: the probability that any of ``n`` rows gets the label rightly, if such rows are few."""
    value = found_once_of_label(S.rows, S.diagonal[..., -1], S.columns, n=n)
    none = np.zeros_like(S.diagonal)
    by_hits = none.copy()
    by_hits[..., -1] = float(n or 0.0) * (1.0 - value)
    return FirstOrder(value, by_hits, none, none)


def found_once_of_label(_true: Array, hits: Array, _decided: Array, *, n: float | None = None) -> Array:
    """Return `found_once` by the numbers of the label."""
    if n is None:
        raise ValueError("coverage needs n, the number of rows to be decided")
    return 1.0 - np.exp(-n * hits)


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


_OF_CLASSES = {metric.name: metric for module in (recalls, scores, shares) for metric in module.METRICS}
FOUND_ONCE = Metric(
    "coverage",
    Function(found_once, found_once_of_label),
    Concave(),
    "diagonal",
    (("n", None),),
    one_class="alone",
)


def _view(name: str, inner: Metric | str, what: str, over: Over = "mean", **more: Any) -> Metric:
    """Return the metric of labels that is the ``inner`` one of two classes ``over`` all labels."""
    one = _OF_CLASSES[inner] if isinstance(inner, str) else inner
    formula = View(one, labels_of(one), over)
    structure: Structure = Linear() if one.structure.is_linear else Concave() if one.structure.is_concave else General()
    if over == "total":
        structure = Ratio(fractions=ViewParts(formula))
    elif not one.structure.is_linear and formula.fraction() is not None:
        structure = General(fractions=ViewParts(formula))
    return Metric(name, formula, structure, "columns", description=what, range=ZERO_TO_ONE, **more)


_BETA: dict[str, Any] = {"params": (("beta", 1.0),)}
_F1: dict[str, Any] = {**_BETA, "fixed": ("beta",)}
_PRIOR: dict[str, Any] = {"divides_by_prior": True}
_NONE = "it is largest if only the surest rows get a label"
_ALL = "it is largest if every row gets every label"
_OF_SIZE = "its labels are compared one by one, and with a budget they are not"

ROWS = (
    Row(_view("macro_f1", "f1", "mean over labels of F1", **_F1), aliases=("f1_macro",)),
    Row(_view("macro_f_beta", "f_beta", "mean over labels of F-beta", **_BETA)),
    Row(
        _view("weighted_f1", "f1", "mean of F1, weighted by how often labels are true", "by size", **_F1),
        aliases=("f1_weighted",),
    ),
    Row(_view("macro_jaccard", "jaccard", "mean over labels of the Jaccard index"), aliases=("jaccard_macro",)),
    Row(
        _view("macro_precision", "precision", "mean over labels of the precision"),
        refused_any=_NONE,
        aliases=("precision_macro",),
    ),
    Row(
        _view("macro_recall", "recall", "mean over labels of the recall", **_PRIOR),
        refused_any=_ALL,
        aliases=("recall_macro",),
    ),
    Row(_view("balanced_accuracy", "balanced_accuracy", "mean over labels of the balanced accuracy", **_PRIOR)),
    Row(_view("g_mean", "g_mean", "mean over labels of the G-mean of both recalls", **_PRIOR)),
    Row(_view("h_mean", "h_mean", "mean over labels of the H-mean of both recalls", **_PRIOR)),
    Row(
        _view(
            "coverage",
            FOUND_ONCE,
            "share of labels that are decided rightly at least once in n rows",
            params=(("n", None),),
        ),
        refused_any=_ALL,
    ),
    Row(_view("hamming", "accuracy", "share of entries that are right, 1 - the Hamming loss")),
    Row(_view("cohen_kappa", "cohen_kappa", "mean over labels of Cohen's kappa"), refused_most=_OF_SIZE),
    Row(_view("mcc", "mcc", "mean over labels of the Matthews correlation"), refused_most=_OF_SIZE),
    Row(_view("micro_f1", "f1", "F1 of all entries", "total"), aliases=("f1_micro",)),
    Row(_view("micro_f_beta", "f_beta", "F-beta of all entries", "total", **_BETA)),
    Row(_view("micro_jaccard", "jaccard", "Jaccard index of all entries", "total"), aliases=("jaccard_micro",)),
    Row(
        _view("micro_precision", "precision", "precision of all entries", "total"),
        refused_any=_NONE,
        aliases=("precision_micro",),
    ),
    Row(
        _view("micro_recall", "recall", "recall of all entries", "total"),
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
        if isinstance(metric.formula, (View, OfVectors)):
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


def fraction_of(metric: Metric) -> Fraction | None:
    """Return the fraction that the score of every label is, or that of the sums over labels; else None."""
    return metric.formula.fraction(**dict(metric.params)) if isinstance(metric.formula, View) else None


def each_of(metric: Metric, S: Confusion) -> Array:
    """Return the score of every label (..., L) in a ``metric`` that is their mean, at statistics ``S``."""
    assert is_mean(metric)
    return cast(Array, metric.formula.each(S, **dict(metric.params)))


def shares_of(metric: Metric, rows: Array) -> Array:
    """Return the weight (L,) of every label in a mean of scores, by how often labels are true, ``rows`` (L,)."""
    assert is_mean(metric)
    index = np.arange(len(rows)) if metric.classes is None else np.array(metric.classes)
    out = np.zeros(len(rows))
    out[index] = metric.formula.shares(rows[index])
    return out


def is_mean(metric: Metric) -> TypeGuard[Any]:
    """Whether it is a mean of scores of labels."""
    return isinstance(metric.formula, View) and metric.formula.is_separable


def is_total(metric: Metric) -> bool:
    """Whether it is a ratio of sums over labels."""
    return isinstance(metric.formula, View) and metric.formula.of_labels and not metric.formula.is_separable


def is_f_like(metric: Metric) -> bool:
    """Whether it is a mean of scores, such as F1, whose best threshold is half of the best score."""
    return is_mean(metric) and metric.structure.fractions is not None


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
