"""Decisions on any kind of checked probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Gains
from confmax.tables.array import oracle as array
from confmax.tables.arrays import ROW_SUM_TOLERANCE, as_array, rounding_of
from confmax.tables.kinds import is_tensor
from confmax.tables.precision import is_wide
from confmax.tables.table import checked_probabilities, is_sparse


def decide(proba: Any, gains: Gains) -> NDArray[Any]:
    """Return the decisions (B, n) of every gain on every row of ``proba`` (n, K); ties go to the largest index.

    Parameters
    ----------
    proba : ndarray, tensor or csr_array (n, K)
        Checked probabilities.
    gains : Gains
        B of them.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax.confusion import Gains
    >>> from confmax.oracle import decide
    >>> decide(np.array([[0.7, 0.3], [0.2, 0.8]]), Gains.reduced([[1.0, 1.0], [1.0, 3.0]])).tolist()
    [[0, 1], [1, 1]]
    """
    if is_tensor(proba):
        from confmax.tables.tensor import oracle as tensor

        return tensor.decide(proba, gains)
    if is_sparse(proba):
        from confmax.tables.sparse import table as sparse

        return sparse.decide(proba, gains)
    return array.decide(proba, gains)


def decide_given(proba: ArrayLike, gains: Gains, classes: Sequence[Any] | None = None) -> NDArray[np.int64] | None:
    """Return decisions (n,) of one of ``gains`` on unchecked ``proba`` (n, K), a frame by ``classes``.

    None where they are no array or not of the gain's number of classes: `checked_probabilities` says what they are.
    None too where the gain is decided in float64 on a table of float32.

    Raises
    ------
    ValueError
        As `checked_probabilities` does.
    """
    if is_sparse(proba) or is_tensor(proba):
        return None
    P = as_array(proba, classes)
    if P.shape[1] != gains.n_classes or is_wide(gains, P.dtype).any():
        return None
    rounding = rounding_of(P)
    decisions, broken = array.decide_unchecked(P, gains, (ROW_SUM_TOLERANCE, rounding))
    if broken.any():
        # rows are refused, or divided by their sums
        decisions = array.decide(checked_probabilities(P), gains)
    return decisions[0]
