"""The tables that `MetricClassifierCV` tunes on: out-of-fold probabilities, or those of the refitted model.

A model that is fitted again decides with other probabilities than those that its rule was tuned on. Where rows differ
from each other this adds noise. Where rows repeat (categorical features, trees) it is an error that no number of rows
removes: the fold models give one and the same row slightly different probabilities, a rule can tell them apart, and so
imitates a mixture that it loses with the refitted model, to which these rows are equal. There the rule is tuned on the
probabilities of the refitted model itself: on few distinct rows it can have learned little of single labels.

Calibration, the share of the model and all shown values stay out of fold (`solution.tune` takes both tables). Averages
and votes of fold models do not help there, because one deterministic model cannot imitate a draw
(`benchmarks/RESULTS.md`, section estimator).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.evaluate.uncertainty import Decided, compare
from confmax.metrics import Metric
from confmax.rule import DecisionRule
from confmax.solution.tuning import value_on_labels
from confmax.tables import MemoryTable, Table, host_array, make_table
from confmax.tables.kinds import given_hashes

ROWS_PER_DISTINCT = 20  # the refitted model's rows are tuned on where so many share their probabilities, on average
REPLICATES = 200  # of the bootstrap of a loss on few rows
LARGE, LOST_LARGE, LOST_SMALL = 1000, 0.01, 0.02  # rows from which on a loss above .01 is warned of, below .02


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What the fold models say of the rows that they were not fitted on.

    Attributes
    ----------
    proba : ndarray (N, K)
        Probabilities of all test rows of all splits.
    y : ndarray (N,)
        True classes.
    weight : ndarray (N,) or None
        Sample weights.
    rows : ndarray (N,)
        Which row of X each of them is.
    tests : tuple of ndarray
        The test rows of every split.
    """

    proba: NDArray[Any]
    y: NDArray[Any]
    weight: Array | None
    rows: NDArray[np.intp]
    tests: tuple[NDArray[np.intp], ...]

    def table(self, classes: Sequence[Any], kept: NDArray[np.bool_] | None = None) -> MemoryTable:
        """Return the labelled table of the rows to be ``kept`` (N,), all for None."""
        return table_of(self.proba, self.y, self.weight, classes, kept).in_memory()


def table_of(proba: Any, y: Any, weight: Any, classes: Sequence[Any], kept: NDArray[np.bool_] | None = None) -> Table:
    """Return the labelled table of the rows to be ``kept`` (N,), all for None."""
    if kept is not None:
        proba, y, weight = proba[kept], y[kept], None if weight is None else weight[kept]
    return make_table(proba, y, weight, classes)


def collapsed(proba: Any) -> tuple[NDArray[Any], int]:
    """Return probabilities (n, K) in which rows that agree in float32 are equal, and how many are distinct.

    A model may give copies of a row probabilities that differ in the last digit, by their place in a batch; no rule
    must tell them apart.
    """
    P = host_array(proba)
    _, first, place = np.unique(given_hashes(P), return_index=True, return_inverse=True)
    return P[first][place.reshape(-1)], len(first)


def is_repetitive(n_distinct: int, table: MemoryTable) -> bool:
    """Return whether so few distinct rows are in the table that a model's probabilities of its training rows will do.

    That is at most one in twenty rows, and no more than the rarest class has: where a model tells more rows apart than
    that, it can have learned single labels of this class.
    """
    labels = table.labels
    assert labels is not None
    kept = slice(None) if table.weight is None else table.weight > 0
    counts = np.bincount(labels[kept])
    return bool(n_distinct * ROWS_PER_DISTINCT <= counts.sum() and n_distinct <= counts[counts > 0].min())


def refit_loss(rule: DecisionRule, metric: Metric, out_of_fold: MemoryTable, refitted: MemoryTable) -> float:
    """Return the metric of a rule on labels with out-of-fold probabilities, minus that with the refitted model's.

    The probabilities of a model on its own training rows flatter it, so that this is negative where all is well. What
    a rule owes to differences between fold models it loses, and this is positive.

    Warns
    -----
    UserWarning
        If the loss is above .01 on 1000 rows or more, or above .02 on fewer rows with a 95 % interval above zero.
    """
    before, after = (value_on_labels(rule, metric, table) for table in (out_of_fold, refitted))
    large = refitted.n_rows >= LARGE
    if before - after > (LOST_LARGE if large else LOST_SMALL) and (
        large or _is_more_than_chance(rule, metric, out_of_fold, refitted)
    ):
        warnings.warn(
            f"{metric!r} of the rule is {before:.4g} on out-of-fold probabilities and {after:.4g} on those of the "
            f"final model: the rule does not suit that model; use one model for tuning and deciding: cv=0.25 with "
            f"refit=False, or cv='prefit' with rows that the model was not fitted on",
            UserWarning,
            stacklevel=5,
        )
    return before - after


def all_columns(proba: NDArray[Any], own: list[Any], classes: list[Any]) -> NDArray[Any]:
    """Return probabilities (m, K) of all ``classes``; those that a split's model was not fitted on get zero."""
    if not set(own) < set(classes):
        return proba  # all of them; other ones are refused with the final model
    full = np.zeros((len(proba), len(classes)), dtype=proba.dtype)
    full[:, [classes.index(name) for name in own]] = proba
    return full


def _is_more_than_chance(rule: DecisionRule, metric: Metric, out_of_fold: MemoryTable, refitted: MemoryTable) -> bool:
    """Return whether the bootstrap interval of the difference between two tables of the same rows is above zero."""

    def decided(table: MemoryTable) -> Decided:
        lines = table.decisions(rule.gains, rule.calibrator)
        return Decided(np.asarray(lines, dtype=np.int64), rule.weights, rule.n_decisions)

    rules = {"before": decided(out_of_fold), "after": decided(refitted)}
    found = compare(out_of_fold, {"metric": metric}, rules, n_replicates=REPLICATES, stratified=True)
    low = found.difference("before", "after").low
    return low is not None and low > 0.0


class MeanOfModels:
    """A classifier that averages the probabilities of the fold models.

    Parameters
    ----------
    models : sequence of estimators
        Fitted classifiers.
    classes : ndarray (K,)
        Class labels, sorted. A model that was not fitted on a class gives it probability zero.

    Attributes
    ----------
    estimators_ : list of estimators
        The models.
    classes_ : ndarray (K,)
        Class labels.
    """

    def __init__(self, models: Sequence[Any], classes: NDArray[Any]) -> None:
        self.estimators_, self.classes_ = list(models), classes

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the mean of the models' probabilities (n, K)."""
        names = self.classes_.tolist()
        parts = [all_columns(each.predict_proba(X), each.classes_.tolist(), names) for each in self.estimators_]
        return np.asarray(np.mean(parts, axis=0))

    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the logarithms of `predict_proba` (n, K)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        # what the models know of their features
        if name not in ("n_features_in_", "feature_names_in_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.__dict__["estimators_"][0], name)
