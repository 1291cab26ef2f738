"""Metrics of blocks (`confmax.confusion.blocks`): of one block, of the sum of all, or their mean over the blocks.

What is known of a metric of K classes holds for its view, too: the confusion of a block, or of all, is a linear
function of what a table stores. So the linear functions and the ratios of the metric are lifted, and nothing else
changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from confmax.confusion import Array, Blocks, Confusion, Gains, Labels, Layout
from confmax.metrics.curved import Climb
from confmax.metrics.first_order import FirstOrder, Formula, Side, safe_ratio
from confmax.metrics.metric import Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.scores import ClassScores
from confmax.metrics.shares import Share, ShareParts
from confmax.metrics.structure import AffineFunctions, affine

Over = Literal["total", "mean", "by size"]


class Fraction(NamedTuple):
    """A score ``hits t / (base r + decided q - less t)`` of a label, or of sums over labels.

    The label is true of ``r``, decided rightly for ``t`` and decided for ``q`` of all rows.
    """

    hits: float
    base: float
    decided: float
    less: float

    def below(self, r: Any, t: Any, q: Any) -> Any:
        """Return the denominator."""
        bottom = self.base * r + (q if self.decided == 1.0 else self.decided * q)
        return bottom - self.less * t if self.less else bottom

    def value(self, r: Any, t: Any, q: Any) -> Array:
        """Return the score, 0 where the denominator is 0."""
        return safe_ratio(self.hits * np.asarray(t), self.below(r, t, q))

    def worth(self, level: Any) -> tuple[Any, Any]:
        """Return what hits add to the numerator less ``level`` times the denominator, and what decisions take."""
        return self.hits + self.less * level, self.decided * level


@dataclass(frozen=True)
class View(Formula):
    """The formula of ``inner``, a metric placed among K classes, on ``blocks``.

    It is ``over`` all of them that of their "total"; the "mean" of the blocks of labels, or their mean weighted "by
    size", by how often a label is true; or that of one block, by its number.
    """

    inner: Metric
    blocks: Blocks
    over: Over | int = "total"

    # --- what it is a formula of ---

    @property
    def block(self) -> int | None:
        """The one block that it is of; None where it is of all."""
        return None if isinstance(self.over, str) else self.over

    @property
    def of_labels(self) -> bool:
        """Whether it sums up labels: of these, a table leaves out those that no row has."""
        return self.block is None and isinstance(self.blocks, Labels)

    @property
    def whole(self) -> bool:  # type: ignore[override]
        return not self.of_labels

    @property
    def takes_further(self) -> bool:  # type: ignore[override]
        return not isinstance(self.blocks, Labels)

    @property
    def is_separable(self) -> bool:  # type: ignore[override]
        return self.over in ("mean", "by size")

    @property
    def is_share(self) -> bool:
        return bool(self.inner.formula.is_share) and not self.of_labels

    @property
    def side(self) -> Side | None:
        return None if self.of_labels else self.inner.formula.side

    @property
    def rises_with_hits(self) -> int:
        return self.inner.formula.rises_with_hits

    @property
    def lift(self) -> View | None:
        return None if self.of_labels else self

    def decides(self, n_classes: int) -> int:
        """Return the number of decisions between ``n_classes`` of all blocks."""
        return self.blocks.decides(n_classes)

    # --- values ---

    def centre(self, rows: Array, n_decisions: int, *, matrix: bool) -> Confusion:
        if not self.of_labels:
            return super().centre(rows, n_decisions, matrix=matrix)
        # every label is decided for half of the rows
        return Confusion(rows, rows / 2.0, np.full(n_decisions, 0.5))

    def values(self, S: Confusion, **params: Any) -> Array:
        if self.is_separable:
            return np.asarray((self.shares(S.rows) * self.each(S, **params)).sum(-1))
        if isinstance(self.blocks, Labels):
            return _folded(self._inner(params), *self.blocks.numbers(S, self.block))
        return self._inner(params).values(self.seen(S))

    def each(self, S: Confusion, **params: Any) -> Array:
        """Return the value of every label (..., L)."""
        return _folded(self._inner(params), S.rows, S.diagonal, S.columns)

    def shares(self, rows: Array) -> Array:
        """Return the weight of every label (..., L) in a mean, by how often labels are true, ``rows`` (..., L)."""
        if self.over == "mean":
            return np.full(rows.shape, 1.0 / rows.shape[-1])
        return safe_ratio(rows, np.broadcast_to(rows.sum(-1, keepdims=True), rows.shape))

    def seen(self, S: Confusion) -> Confusion:
        """Return the confusion (..., K, M) of the block, or of all."""
        return self.blocks.total(S) if self.block is None else self.blocks.of_block(S, self.block)

    def among(self, S: Confusion) -> Array:
        """Return of which rows it is a share (...), as a share of all rows."""
        rows = self.inner.among(self.seen(S))
        return rows if self.block is None else rows * self.blocks.size(S.rows, self.block)

    def __call__(self, S: Confusion, **params: Any) -> FirstOrder:
        inner = self._inner(params)
        none = np.zeros_like(S.diagonal)
        if self.is_separable:
            value, *slopes = _first_order(inner, S.rows, S.diagonal, S.columns)
            w = self.shares(S.rows)
            by_hits, by_decisions = (w * part + 0.0 for part in slopes)
            return FirstOrder(np.asarray((w * value).sum(-1)), by_hits, by_decisions, none)
        if isinstance(self.blocks, Labels):
            value, *slopes = _first_order(inner, *self.blocks.numbers(S, self.block))
            place = self.blocks.place(self.block, S.rows.shape[-1])
            by_hits, by_decisions = (part[..., None] * place + 0.0 for part in slopes)
            return FirstOrder(value, by_hits, by_decisions, none)
        first = inner.at(self.seen(S))
        if first.matrix is not None:
            return FirstOrder(first.value, matrix=cast(Layout, self.blocks).matrices(first.matrix, self.block, S.rows))
        by_diagonal, by_columns, _ = self.blocks.vectors(first.diagonal, first.columns, self.block, S.rows)
        by_rows = self.blocks.vectors(first.rows, first.columns, self.block, S.rows)[0]
        return FirstOrder(first.value, by_diagonal, by_columns, by_rows)

    # --- what is known of it ---

    def functions(self, rows: Array) -> AffineFunctions | None:
        """Return `Metric.as_functions` at the row sums ``rows`` of the table."""
        found = self.inner.as_functions(self.blocks.row_sums(rows, self.block), self.blocks.n_decisions)
        if found is None:
            return None
        gains, constants = affine(found)
        lifted, beside = self.blocks.lift(gains, self.block, rows)
        return AffineFunctions(lifted, constants + beside)

    def ratios(self, rows: Array) -> Ratios | None:
        """Return `Metric.as_ratios` at the row sums ``rows`` of the table."""
        found = self.inner.as_ratios(self.blocks.row_sums(rows, self.block), self.blocks.n_decisions)
        if found is None:
            return None
        top, beside_top = self.blocks.lift(found.top, self.block, rows)
        bottom, beside_bottom = self.blocks.lift(found.bottom, self.block, rows)
        top_constant, bottom_constant = found.top_constant + beside_top, found.bottom_constant + beside_bottom
        return replace(found, top=top, bottom=bottom, top_constant=top_constant, bottom_constant=bottom_constant)

    def climb(self, rows: Array) -> Climb | None:
        """Return `Metric.as_climb` at the row sums ``rows`` of the table."""
        found = self.inner.as_climb(self.blocks.row_sums(rows, self.block), self.blocks.n_decisions)
        if found is None:
            return None
        gains, beside = self.blocks.lift(found.functions.gains, self.block, rows)
        constants = found.functions.constants
        return Climb(AffineFunctions(gains, beside if constants is None else constants + beside), found.of)

    def fraction(self, **params: Any) -> Fraction | None:
        """Return the fraction that the score of labels is; None for other scores."""
        return _fraction(self._inner(params)) if self.of_labels else None

    def fractions(self, rows: Array, **params: Any) -> Ratios:
        """Return the ratios of labels at how often they are true, ``rows`` (L,): of every label, or of their sum."""
        coefficients = self.fraction(**params)
        assert coefficients is not None
        hits, base, decided, less = coefficients
        unit, true, weights = np.ones((1, len(rows))), rows.sum(keepdims=True), np.ones(1)
        if self.is_separable:
            unit, true, weights = np.eye(len(rows)), rows, self.shares(rows)
        top, bottom = Gains.reduced(hits * unit), Gains.reduced(-less * unit, decided * unit)
        return Ratios(top, bottom, np.zeros(len(unit)), base * true, base * true, weights)

    # --- inside ---

    def _inner(self, params: dict[str, Any]) -> Metric:
        """Return the metric with those of the parameters that are its own."""
        known = dict(self.inner.params)
        given = {key: value for key, value in params.items() if key in known and known[key] != value}
        return self.inner.with_params(given) if given else self.inner


@dataclass(frozen=True)
class ViewParts:
    """Numerators and denominators of a view of labels."""

    view: View

    def __call__(self, rows: Array, **params: Any) -> Ratios:
        """Return the ratios at how often the labels are true, ``rows`` (L,)."""
        return self.view.fractions(rows, **params)


def _folded(metric: Metric, true: Array, hits: Array, decided: Array) -> Array:
    """Return the values (...) of a metric of a label by its numbers (...); very many are compared by ratios."""
    known = _fraction(metric)
    if known is None:
        return metric.folded(true, hits, decided)
    return known.value(true, hits, decided)


def _first_order(metric: Metric, true: Array, hits: Array, decided: Array) -> tuple[Array, Array, Array]:
    """Return the value of a metric of a label by its numbers (...), and its derivatives by hits and decisions."""
    known = _fraction(metric)
    if known is None:
        blocks = labels_of(metric)
        first = metric.at(blocks.unfolded(true, hits, decided))
        # a mean of recalls that a class without rows makes zero has no slope
        slopes = (np.where(np.isnan(part), 0.0, part) for part in blocks.folded(first.diagonal, first.columns))
        of_hits, of_decisions = slopes
        return first.value, of_hits, of_decisions
    value = known.value(true, hits, decided)
    gain, price = (safe_ratio(part, known.below(true, hits, decided)) for part in known.worth(value))
    return value, gain, -price


@cache
def _fraction(metric: Metric) -> Fraction | None:
    if metric.one_class != "alone" or not isinstance(metric.formula, (ClassScores, Share)):
        return None
    # a share of true rows is linear, and a ratio too
    parts: Any = ShareParts(metric.formula) if isinstance(metric.formula, Share) else metric.structure.fractions
    found = parts(np.ones(1), **dict(metric.params))
    (hits, above), (less, decided) = found.top.pair(), found.bottom.pair()
    if above.any() or found.top_constant.any():
        return None
    return Fraction(float(hits[0, 0]), float(found.bottom_constant[0]), float(decided[0, 0]), 0.0 - float(less[0, 0]))


def view(metric: Metric, layout: Layout | None, group: int | None = None) -> Metric:
    """Return a metric that is placed among K classes as one of groups side by side; as it is without a layout.

    The rows of one ``group`` count, or for None all rows.

    >>> import confmax, numpy as np
    >>> layout = Layout(2, 2)
    >>> C = np.zeros((4, 4))
    >>> C[:2, :2], C[2:, 2:] = [[0.25, 0], [0.125, 0.125]], [[0.25, 0], [0, 0.25]]
    >>> S = Confusion.from_matrix(C)
    >>> [float(view(confmax.metrics.get("accuracy"), layout, group).values(S)) for group in (None, 0, 1)]
    [0.875, 0.75, 1.0]
    """
    if layout is None:
        return metric
    places = metric.classes or tuple(range(layout.n_classes))
    formula = View(metric, layout, "total" if group is None else group)
    return replace(metric, formula=formula, classes=places, binary=False)


def labels_of(metric: Metric) -> Labels:
    """Return the blocks of labels that a metric of one class, or of two, reads."""
    return Labels(1 if metric.one_class == "alone" else 2)


def label_view(metric: Metric, label: int) -> Metric:
    """Return a metric of one class as that of a ``label``, by its number, and the rest.

    >>> import confmax, numpy as np
    >>> S = Confusion(*np.array([[0.5, 0.25], [0.375, 0.25], [0.5, 0.5]]))
    >>> [float(label_view(confmax.metrics.get(name), 1).values(S)) for name in ("precision", "specificity")]
    [0.5, 0.6666666666666667]
    """
    alone = metric.one_class == "alone"
    placed = replace(metric, classes=None).of_class(*((0, 1) if alone else (1, 2)))
    return replace(placed, formula=View(placed, labels_of(metric), label), classes=(label,), binary=False)


def without_view(metric: Metric) -> Metric:
    """Return the metric of K classes of which one is a view; others as they are."""
    return metric.formula.inner if isinstance(metric.formula, View) else metric
