"""Metrics of groups side by side (`confmax.confusion.Layout`): of the rows of all groups, or of one group's rows.

What is known of a metric's structure holds for it too: statistics of all groups, or of one, are linear functions of
those side by side. So its linear functions and its ratios are lifted, and nothing else changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.metrics.curved import Climb
from confmax.metrics.first_order import FirstOrder, FormulaOfRows
from confmax.metrics.metric import Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import AffineFunctions, affine


@dataclass(frozen=True)
class Seen(FormulaOfRows):
    """The formula of ``inner``, a metric placed among the K classes, on groups that lie side by side in a ``layout``.

    The rows of one ``group`` count, or for None all rows.
    """

    inner: Metric
    layout: Layout
    group: int | None = None

    @property
    def lift(self) -> Seen:
        return self

    def decides(self, n_classes: int) -> int:
        """Return the number of decisions between ``n_classes`` of all groups."""
        return self.layout.all_decisions

    def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
        first = self.inner.at(self.seen(S))
        layout = self.layout
        unit: Any = np.ones(1)
        if self.group is not None:
            unit = 1.0 / np.asarray(S.rows[..., layout.classes(self.group)].sum(-1))[..., None]
        groups = range(layout.n_groups) if self.group is None else (self.group,)
        if first.matrix is not None:
            matrix = np.zeros((*first.matrix.shape[:-2], layout.all_classes, layout.all_decisions))
            for g in groups:
                matrix[(..., *layout.block(g))] = first.matrix * np.asarray(unit)[..., None]
            return FirstOrder(first.value, matrix=matrix)
        shape = S.diagonal.shape[:-1]
        by_diagonal, by_rows = np.zeros((2, *shape, layout.all_classes))
        by_columns = np.zeros((*shape, layout.all_decisions))
        for g in groups:
            by_diagonal[..., layout.classes(g)] = first.diagonal * unit
            by_rows[..., layout.classes(g)] = first.rows * unit
            place = layout.decisions(g)[: first.columns.shape[-1]]
            by_columns[..., place] = first.columns * unit
        return FirstOrder(first.value, by_diagonal, by_columns, by_rows)

    def values(self, S: Confusion, **_: Any) -> Array:
        return self.inner.values(self.seen(S))

    def among(self, S: Confusion) -> Array:
        """Return those of all rows, or of the rows of the group."""
        found = self.inner.among(self.seen(S))
        return found if self.group is None else found * S.rows[..., self.layout.classes(self.group)].sum(-1)

    def seen(self, S: Confusion) -> Confusion:
        """Return the confusion (K, K + D) that the metric is one of."""
        return self.layout.total(S) if self.group is None else self.layout.of_group(S, self.group)

    def functions(self, rows: Array) -> AffineFunctions | None:
        """Return `Metric.as_functions` of groups at row sums ``rows`` (G K,)."""
        found = self.inner.as_functions(self._rows(rows), self.layout.n_decisions)
        if found is None:
            return None
        gains, constants = affine(found)
        return AffineFunctions(self._lifted(gains, rows), constants)

    def ratios(self, rows: Array) -> Ratios | None:
        """Return `Metric.as_ratios` of groups at row sums ``rows`` (G K,)."""
        found = self.inner.as_ratios(self._rows(rows), self.layout.n_decisions)
        if found is None:
            return None
        return replace(found, top=self._lifted(found.top, rows), bottom=self._lifted(found.bottom, rows))

    def climb(self, rows: Array) -> Climb | None:
        """Return `Metric.as_climb` of groups at row sums ``rows`` (G K,)."""
        found = self.inner.as_climb(self._rows(rows), self.layout.n_decisions)
        if found is None:
            return None
        functions = found.functions
        return Climb(AffineFunctions(self._lifted(functions.gains, rows), functions.constants), found.of)

    def _rows(self, rows: Array) -> Array:
        """Return the row sums (K,) that the metric sees."""
        blocks = rows.reshape(self.layout.n_groups, -1)
        if self.group is None:
            return np.asarray(blocks.sum(axis=0))
        return np.asarray(blocks[self.group] / blocks[self.group].sum())

    def _lifted(self, gains: Gains, rows: Array) -> Gains:
        """Return linear functions of what the metric sees as functions of groups side by side."""
        layout = self.layout
        gains = gains.padded(layout.n_decisions)
        if self.group is None:
            return layout.alike(gains)
        here = gains.times(1.0 / float(rows[layout.classes(self.group)].sum()))
        none = gains.times(0.0)
        return layout.beside([here if g == self.group else none for g in range(layout.n_groups)])


def seen(metric: Metric, layout: Layout | None, group: int | None = None) -> Metric:
    """Return a metric that is placed among K classes as one of groups side by side; as it is without a layout.

    The rows of one ``group`` count, or for None all rows.

    >>> import confmax, numpy as np
    >>> layout = Layout(2, 2)
    >>> C = np.zeros((4, 4))
    >>> C[:2, :2], C[2:, 2:] = [[0.25, 0], [0.125, 0.125]], [[0.25, 0], [0, 0.25]]
    >>> S = Confusion.from_matrix(C)
    >>> [float(seen(confmax.metrics.get("accuracy"), layout, group).values(S)) for group in (None, 0, 1)]
    [0.875, 0.75, 1.0]
    """
    if layout is None:
        return metric
    places = metric.classes or tuple(range(layout.n_classes))
    return replace(metric, formula=Seen(metric, layout, group), classes=places, binary=False)


def unseen(metric: Metric) -> Metric:
    """Return the metric of the rows themselves of which one is that of groups side by side; others as they are."""
    return metric.formula.inner if isinstance(metric.formula, Seen) else metric
