"""What is known of all rows of a table: of those of one part, or of the sum of several parts."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.tables.fingerprints import Fingerprint


class Known(Protocol):
    """What rows add up to; all weights are times two to the power ``unit``."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_weighted(self) -> int:
        """Number of rows whose weight is not zero."""

    @property
    def weight_total(self) -> float:
        """Sum of the weights; the number of rows where all are equal."""

    @property
    def weight_ends(self) -> tuple[float, float]:
        """The least and the largest weight of one row that has some."""

    @property
    def unit(self) -> int:
        """The power of two."""

    @property
    def several(self) -> bool:
        """Whether a row may have several labels."""

    @property
    def column_totals(self) -> Array:
        """The weighted sum of each column of probabilities (K,)."""

    @property
    def label_sums(self) -> Array:
        """The weight of each true class, or of the rows with each of several labels (K,); empty without labels."""

    @property
    def positive_rows(self) -> NDArray[np.int64]:
        """How many rows with weight have each of several labels (L,); empty for one class, and without labels."""

    @property
    def by_group(self) -> Array:
        """Of every group the rows of each true class, their weight, and sums of columns (3, G, K); empty without."""

    def fingerprint(self) -> Fingerprint | None:
        """Return what tells these labelled rows from others; None where it is not known."""


def label_weight(known: Known) -> Array:
    """Return the weight of each true class (K,), fractions of all weight; needs labels."""
    # several labels of a row are shares of all rows each, and do not share its weight
    whole = known.weight_total if known.several else known.label_sums.sum()
    return np.asarray(known.label_sums / whole)


def mean_probability(known: Known) -> Array:
    """Return the weighted mean of each column (K,), float64."""
    return np.asarray(known.column_totals / known.weight_total)
