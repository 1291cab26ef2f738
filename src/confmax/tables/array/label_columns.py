"""The columns of a table of several labels per row: what one label is in all rows lies together.

A table of probabilities (n, L) lies row by row, and searches of thresholds read it label by label, several times. They
read `LabelColumns.of`, which turns a few labels at a time, and keeps them where the table is not large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.kernels.blocks import run_parts
from confmax.kernels.label_bins import turned

SQUARE = 8  # labels that the kernel turns together: a cache line of each row
TOGETHER = 32  # labels that are turned one behind the other, while a row's are near,
TURNED = 1 << 22  # of so many entries at most
BYTE = 255
MOST_KEPT = 1 << 24  # entries of a table whose columns are kept


def label_counts(labels: Any) -> NDArray[np.int64]:
    """Return how many rows have each label (L,), of a matrix (n, L) of 0 and 1 in bytes, sparse or not."""
    if not isinstance(labels, np.ndarray):
        return np.asarray(labels.sum(axis=0, dtype=np.int64)).ravel()
    # a byte counts 255 rows, and sums of bytes take vectors
    whole = len(labels) // BYTE * BYTE
    parts = labels[:whole].reshape(-1, BYTE, labels.shape[1]).sum(axis=1, dtype=np.uint8)
    return np.asarray(parts.sum(axis=0, dtype=np.int64) + labels[whole:].sum(axis=0, dtype=np.int64))


class LabelColumns:
    """The numbers of labels (see `confmax.kernels.label_bins`), of probabilities (n, L) and labels (n, L) or None."""

    def __init__(self, proba: NDArray[Any], labels: NDArray[np.uint8] | None) -> None:
        self.proba = np.ascontiguousarray(proba)
        self.labels = None if labels is None else np.ascontiguousarray(labels)
        self.kept: dict[int, NDArray[Any]] = {}
        # a power of two, so that groups end where those of `TOGETHER` labels do
        fits = TURNED // (SQUARE * max(1, len(proba)))
        self.size = min(TOGETHER, SQUARE << max(0, fits.bit_length() - 1))

    def of(self, group: int) -> NDArray[Any]:
        """Return the numbers (m, n) of the labels of one ``group``."""
        found = self.kept.get(group)
        if found is None:
            first = group * self.size
            found = turned(self.proba, self.labels, first, min(self.size, self.proba.shape[1] - first))
            if self.proba.size <= MOST_KEPT:
                self.kept[group] = found
        return found

    def of_label(self, label: int) -> NDArray[Any]:
        """Return the numbers (n,) of one ``label``."""
        numbers: NDArray[Any] = self.of(label // self.size)[label % self.size]
        return numbers

    def each(self, work: Callable[[int, NDArray[Any]], Any], first: int, last: int) -> list[Any]:
        """Return what ``work(label, numbers)`` makes of the labels from ``first`` to before ``last``, on threads."""
        groups = range(first // self.size, -(-last // self.size))

        def of_group(part: int) -> list[Any]:
            start = groups[part] * self.size
            labels = range(max(first, start), min(last, start + self.size))
            numbers = self.of(groups[part])
            return [work(label, numbers[label - start]) for label in labels]

        return [made for part in run_parts(of_group, len(groups)) for made in part]
