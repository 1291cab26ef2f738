"""Cross-fitting: rules judged on rows that they were not tuned on, because each decides the fold it was not given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.rule import DecisionRule

__all__ = ["cross_fitted", "held_out_decisions"]

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


def held_out_decisions(fit: Fit, folds: NDArray[Any], proba: NDArray[Any]) -> NDArray[Any]:
    """Return the decision (n,) on every row of probabilities (n, K), as a name, of the rule tuned without its fold.

    What a randomised rule decides is drawn from the row's number.
    """
    decided = np.empty(len(proba), dtype=object)
    rows = np.arange(len(proba))
    for held_out, rule in cross_fitted(fit, folds):
        decided[held_out] = rule.classes[rule.predict(proba[held_out], keys=rows[held_out])]
    return np.array(decided.tolist())
