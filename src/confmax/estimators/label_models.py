"""One model of all labels: whatever scikit-learn's classifiers make of several labels becomes a matrix (n, L)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from confmax.errors import InputError
from confmax.tables.several import plain_matrix


class LabelModel(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of several labels, whose ``predict_proba`` is the matrix (n, L) of the labels' probabilities.

    A label on which all of its rows agree is not fitted, since many classifiers refuse such a label or say 0 or 1. Its
    probability is the share of the rows that have it, with half a row more that has it and half a row that has not
    (Jeffreys' estimate), so that it is neither 0 nor 1. ``estimator`` is fitted in place.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: NDArray[Any], **params: Any) -> LabelModel:
        """Fit the labels (n, L) on which the rows differ; further ``params`` are those of the estimator's ``fit``."""
        n, n_labels = y.shape
        # a frozen model has been fitted on other rows, and on all labels
        differ = np.full(n_labels, isinstance(self.estimator, FrozenEstimator)) | (y != y[:1]).any(axis=0)
        self.fitted_ = np.flatnonzero(differ)
        self.share_ = (y.sum(axis=0) + 0.5) / (n + 1.0)
        if len(self.fitted_):
            wanted = y if differ.all() and n_labels > 1 else y[:, self._outputs]
            try:
                self.estimator.fit(X, wanted, **params)
            except ValueError as error:
                # what scikit-learn says where it wants one class per row
                if "1d array" not in str(error):
                    raise
                raise InputError(
                    f"{type(self.estimator).__name__} does not take several labels per row: {error}",
                    "wrap it, as in OneVsRestClassifier(LogisticRegression())",
                ) from error
        return self

    @classmethod
    def prefit(cls, estimator: Any, n_labels: int) -> LabelModel:
        """Return the model of an ``estimator`` that has been fitted on all labels."""
        model = cls(FrozenEstimator(estimator))
        model.fitted_ = np.arange(n_labels)
        model.share_ = np.full(n_labels, np.nan)
        return model

    @property
    def _outputs(self) -> NDArray[np.intp]:
        """The label of every output of the estimator."""
        alone = len(self.fitted_) == 1 and not isinstance(self.estimator, FrozenEstimator)
        # some classifiers take one column for a vector of classes, others refuse the vector: two columns are labels
        return np.repeat(self.fitted_, 2) if alone else self.fitted_

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Numbers of the labels (L,), the columns of `predict_proba`."""
        return np.arange(len(self.share_))

    @property
    def n_features_in_(self) -> int:
        """Number of features, if the estimator counts them."""
        return self.estimator.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Feature names, if the estimator keeps them."""
        return self.estimator.feature_names_in_

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability (n, L) of every label."""
        if not len(self.fitted_):
            return np.tile(self.share_, (_num_samples(X), 1))
        outputs = self._outputs
        P = label_matrix(self.estimator, self.estimator.predict_proba(X), len(outputs))
        if len(outputs) == len(self.fitted_) == len(self.share_):
            return P
        full = np.tile(self.share_.astype(P.dtype), (len(P), 1))
        full[:, self.fitted_] = P[:, : len(self.fitted_)]
        return full

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # which rows and columns of X a split cuts
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def label_matrix(model: Any, proba: Any, n_labels: int) -> NDArray[Any]:
    """Return what a classifier's ``predict_proba`` gives for several labels as one matrix (n, L).

    It gives that matrix (OneVsRestClassifier, ClassifierChain, MLPClassifier), or for each label one with a column for
    each of the classes 0 and 1 that it has seen (MultiOutputClassifier, forests, trees, nearest neighbours). A
    ValueError for anything else, and for another number of labels.
    """
    name = type(model.estimator if isinstance(model, FrozenEstimator) else model).__name__
    known = getattr(model, "classes_", None)
    if isinstance(proba, (list, tuple)):
        if len(proba) != n_labels:
            raise _of_other_labels(name, len(proba), n_labels)
        by_label = isinstance(known, (list, tuple)) and len(known) == n_labels
        seen = known if by_label else [None] * n_labels
        parts = [_present(name, k, *pair) for k, pair in enumerate(zip(proba, seen, strict=True))]  # type: ignore[arg-type]
        return np.column_stack(parts)
    P = plain_matrix(proba)
    if P.ndim == 2 and P.shape[1] == 2 and n_labels == 1:
        # of one label many classifiers make two classes
        return _present(name, 0, P, known)[:, None]
    if P.ndim != 2 or P.shape[1] != n_labels:
        raise _of_other_labels(name, P.shape[1] if P.ndim == 2 else 1, n_labels)
    return P


def _of_other_labels(name: str, found: int, n_labels: int) -> InputError:
    return InputError(
        f"{name} gives probabilities of {found} label{'s' if found > 1 else ''}, and `y` has {n_labels}",
        "pass a classifier of several labels, such as OneVsRestClassifier, fitted on all columns of y",
    )


def _present(name: str, label: int, part: Any, seen: Sequence[Any] | None) -> NDArray[Any]:
    """Return the probability (n,) that a label is present, of the classes (n, 1 or 2) that a model has ``seen``."""
    P = np.asarray(part)
    classes: list[Any] = [0, 1] if seen is None else np.asarray(seen).tolist()
    if P.ndim != 2 or P.shape[1] != len(classes) or not set(classes) <= {0, 1}:
        raise InputError(
            f"{name} has the classes {', '.join(map(repr, classes[:6]))} of label {label}, in probabilities of shape "
            f"{P.shape}, and labels are absent (0) or present (1)",
            "pass a classifier that was fitted on a matrix of 0 and 1",
        )
    return P[:, classes.index(1)] if 1 in classes else np.zeros(len(P), dtype=P.dtype)
