"""Cross-fitting: rules judged on rows that they were not tuned on, because each decides the fold it was not given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.rule import DecisionRule

__all__ = ["cross_fitted"]

Fit = Callable[[NDArray[np.bool_]], DecisionRule]


def cross_fitted(fit: Fit, folds: NDArray[Any]) -> Iterator[tuple[NDArray[np.bool_], DecisionRule]]:
    """Yield the rows (n,) of every fold, as a mask, with the rule that was tuned without them.

    Parameters
    ----------
    fit : callable
        Maps which rows to use, a mask (n,), to a rule.
    folds : ndarray (n,)
        The fold of every row.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax.rule import DecisionRule
    >>> halves = np.array([0, 0, 1])
    >>> found = cross_fitted(lambda kept: DecisionRule.from_weights([1.0, kept.sum()]), halves)
    >>> [(held_out.tolist(), float(rule.gains.a[0, 1])) for held_out, rule in found]
    [([True, True, False], 1.0), ([False, False, True], 2.0)]
    """
    for fold in np.unique(folds):
        held_out = folds == fold
        yield held_out, fit(~held_out)
