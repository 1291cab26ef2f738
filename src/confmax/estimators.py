"""scikit-learn estimators: tune a decision rule on out-of-fold probabilities, or apply a rule that is already known.

Both classes leave the wrapped model's probabilities as they are and decide behind them, so that
``classes_[rule_.predict(predict_proba(X))]`` is what `predict` returns. ``classes_`` stays sorted, as scikit-learn
requires; a metric that depends on the order of the classes gets that order itself (`Metric.classes`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedShuffleSplit, check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from confmax._estimator_steps import (
    all_columns,
    as_seed,
    checked_labels,
    fit_params_for,
    fit_split,
    in_order,
    known_classes,
    refuse_other_classes,
    refuse_unknown,
    rule_for,
)
from confmax._lazy import taken
from confmax._metric import Metric
from confmax.confusion import Array
from confmax.metrics import resolve
from confmax.oracle import is_dask, make_oracle, make_table
from confmax.rule import DecisionRule
from confmax.solution import check_settings, maximize

__all__ = ["FixedRuleClassifier", "MetricClassifierCV"]


def _if_wrapped_has(name: str) -> Callable[[Any], Any]:
    """Return a decorator: the method is there where the wrapped estimator has one of this name."""
    # where it has not, getattr's AttributeError is the message
    return available_if(lambda self: callable(getattr(getattr(self, "estimator_", self.estimator), name)))


class _RuleClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A classifier that puts a decision rule behind another classifier's probabilities."""

    estimator: Any
    estimator_: Any
    rule_: DecisionRule

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any) -> Any:
        """Fit the wrapped estimator and set the rule.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n, d)
            Whatever the wrapped estimator takes.
        y : array-like (n,)
            True classes: strings, integers or booleans.
        sample_weight : array-like (n,) or None
            Non-negative weights; the class's notes say what they are used for.
        **params : dict
            Further metadata for the estimator's ``fit`` and the splitter's ``split``, with metadata routing enabled.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            For bad parameters or data, in one sentence: what, where, and the way out.
        """
        name, wrapped = type(self).__name__, type(self.estimator).__name__
        if not hasattr(self.estimator, "fit") or not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"estimator needs the methods fit and predict_proba and this {wrapped} does not have both; pass a "
                f"classifier that gives probabilities, or wrap it in CalibratedClassifierCV"
            )
        if params and not get_config()["enable_metadata_routing"]:
            raise ValueError(
                f"{name}.fit passes on {', '.join(sorted(params))} by metadata routing only; call "
                f"sklearn.set_config(enable_metadata_routing=True) and have the estimator or splitter request it"
            )
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None; pass the true classes")
        if self._is_prefit and (is_dask(X) or is_dask(y)):
            # rows and labels stay where they are, and are checked there
            self._fit(X, y if is_dask(y) else checked_labels(y), sample_weight, params)
            return self
        X, labels = indexable(X, checked_labels(y))
        self._fit(X, labels, None if sample_weight is None else _check_sample_weight(sample_weight, X), params)
        return self

    @abstractmethod
    def _fit(self, X: Any, y: Any, weight: Any, params: Mapping[str, Any]) -> None:
        """Set ``estimator_``, ``rule_`` and what else is learned."""

    @property
    @abstractmethod
    def _is_prefit(self) -> bool:
        """Whether the estimator is used as it is, fitted by its owner."""

    def _routed(self, weight: Array | None, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return ``{consumer: {method: parameters}}`` for the wrapped estimator and the splitter."""
        given = dict(params) if weight is None else {"sample_weight": weight, **params}
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", **given)
        return {"estimator": {"fit": given}, "splitter": {"split": {}}}

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels (K,), the columns of `predict_proba`."""
        return np.asarray(self.estimator_.classes_)

    @property
    def n_features_in_(self) -> int:
        """Number of features d, where the wrapped estimator counts them."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Feature names (d,), where the wrapped estimator keeps them."""
        return self.estimator_.feature_names_in_

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class (n,) that the rule decides for every row of X (n, d); lazily for Dask probabilities.

        A randomised rule draws from the row's probabilities, so that equal rows get equal classes in any batch.
        """
        check_is_fitted(self, "estimator_")
        return taken(self.classes_, self.rule_.predict(self.estimator_.predict_proba(X)))

    @_if_wrapped_has("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the wrapped estimator's probabilities (n, K), columns in the order of ``classes_``."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_proba(X)

    @_if_wrapped_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the wrapped estimator's log-probabilities (n, K)."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_log_proba(X)

    @_if_wrapped_has("decision_function")
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the wrapped estimator's decision values, which the rule does not look at."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags, wrapped = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags = wrapped.input_tags
        tags.non_deterministic, tags.no_validation = wrapped.non_deterministic, wrapped.no_validation
        if wrapped.classifier_tags is not None:
            tags.classifier_tags.multi_class = wrapped.classifier_tags.multi_class
            tags.classifier_tags.poor_score = wrapped.classifier_tags.poor_score
        return tags


class MetricClassifierCV(_RuleClassifier):
    """Classifier whose decision rule is tuned for a metric on out-of-fold probabilities.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba``.
    metric : str, Metric or callable
        A name from ``confmax.metrics.names()``, a metric, or a function of the confusion matrix (K, K).
    cv : None, int, float, splitter, iterable of splits or "prefit"
        None or an integer: that many stratified folds, five by default. A number in (0, 1): one stratified hold-out of
        that share. A splitter or iterable may leave rows out or repeat them; every test row of every split is a row
        of the table that the rule is tuned on. "prefit": the estimator is fitted, and all rows given are for tuning;
        they may be Dask collections if its ``predict_proba`` gives one for them.
    refit : bool
        Whether to fit the estimator again, on all rows. False keeps the model of the only split; "prefit" needs it.
    calibration, confusion, randomized
        As for `confmax.maximize`.
    labels : sequence or None
        All class labels in the order that a metric such as ``quadratic_kappa`` counts them in; needed where such a
        metric meets string labels.
    pos_label : label or None
        The positive class of a metric of two classes, such as ``f1``; the same as ``labels=[other, pos_label]``.
    n_jobs : int or None
        Splits that are fitted at the same time, as in joblib.
    random_state : int, RandomState or None
        Seed of a randomised rule's draws, and of the hold-out when ``cv`` is a number.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model that probabilities come from.
    rule_ : DecisionRule
        The tuned rule; its columns are ``classes_``.
    solution_ : Solution
        What the tuning found.
    classes_ : ndarray (K,)
        Class labels, sorted.
    n_features_in_, feature_names_in_
        Those of the wrapped model, where it has them.

    Notes
    -----
    A class without rows in the training part of a split has probability zero on the test part.

    ``sample_weight`` weighs the rows of the tuning table and is passed to the estimator's ``fit``. An estimator whose
    ``fit`` names no such parameter (a `Pipeline`, nearest neighbours) is fitted without weights, with a `UserWarning`.
    ``cv="prefit"`` fits nothing, so the weights are for tuning only. With metadata routing the tuning still uses
    ``sample_weight`` and the estimator gets what it requests: ``set_fit_request(sample_weight=False)`` tunes only,
    ``set_fit_request(sample_weight="w")`` with ``fit(X, y, w=...)`` fits only. ``groups`` reach a splitter by routing.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from confmax.estimators import MetricClassifierCV
    >>> X, y = make_classification(400, weights=[0.9], flip_y=0.1, random_state=0)
    >>> tuned = MetricClassifierCV(LogisticRegression(), metric="f1").fit(X[::2], y[::2])
    >>> plain = LogisticRegression().fit(X[::2], y[::2])
    >>> bool(sum(tuned.predict(X[1::2])) > sum(plain.predict(X[1::2])))
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        metric: str | Metric | Callable[[Array], float] = "balanced_accuracy",
        cv: Any = None,
        refit: bool = True,
        calibration: Any = "auto",
        confusion: str = "auto",
        randomized: bool | str = "auto",
        labels: Sequence[Any] | None = None,
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.estimator, self.metric, self.cv, self.refit = estimator, metric, cv, refit
        self.calibration, self.confusion, self.randomized = calibration, confusion, randomized
        self.labels, self.pos_label = labels, pos_label
        self.n_jobs, self.random_state = n_jobs, random_state

    def _fit(self, X: Any, y: Any, weight: Any, params: Mapping[str, Any]) -> None:
        # before anything is fitted
        seed = as_seed(self.random_state)
        check_settings(self.confusion, self.calibration, self.randomized, seed)
        model = self._model()
        classes = known_classes(model, y)
        metric = in_order(resolve(self.metric), classes, self.labels, self.pos_label)
        routed = self._routed(weight, params)
        if self._is_prefit:
            proba = model.predict_proba(X)
        else:
            splits = self._splits(X, y, routed["splitter"]["split"])
            fit_params = fit_params_for(self.estimator, routed["estimator"]["fit"])
            found = Parallel(n_jobs=self.n_jobs)(
                delayed(fit_split)(clone(model), X, y, split, fit_params, keep=not self.refit) for split in splits
            )
            model = model.fit(X, y, **fit_params) if self.refit else found[0][2]
            rows = np.concatenate([np.arange(len(y))[test] for _, test in splits])
            y, weight = y[rows], None if weight is None else weight[rows]
            proba = np.concatenate([all_columns(part, own, classes) for part, own, _ in found])
        refuse_other_classes(model, classes)
        self.solution_ = maximize(
            metric,
            proba,
            y,
            sample_weight=weight,
            classes=classes,
            confusion=self.confusion,
            calibration=self.calibration,
            randomized=self.randomized,
            random_state=seed,
        )
        self.estimator_, self.rule_ = model, self.solution_.rule

    @property
    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "prefit"

    def _model(self) -> Any:
        """Return the estimator to work with: the fitted one itself, or a clone."""
        if not isinstance(self.refit, (bool, np.bool_)):
            raise ValueError(f"refit is True or False; got {self.refit!r}")
        if not self._is_prefit:
            return clone(self.estimator)
        if self.refit:
            raise ValueError("cv='prefit' uses the estimator as it is, so refit cannot be True; pass refit=False")
        if not hasattr(self.estimator, "classes_"):
            raise NotFittedError("cv='prefit' needs a fitted estimator; fit it first, on other rows than these")
        return self.estimator

    def _splits(self, X: Any, y: NDArray[Any], params: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        """Return the splits; the splitter or iterable is asked once, as it may be random or a generator."""
        cv: Any = self.cv
        if isinstance(cv, Real) and not isinstance(cv, Integral):
            if not 0 < float(cv) < 1:
                raise ValueError(f"cv as a number is the share of a hold-out, between 0 and 1; got {cv!r}")
            cv = StratifiedShuffleSplit(1, test_size=float(cv), random_state=self.random_state)
        splits = list(check_cv(cv, y=y, classifier=True).split(X, y, **params))
        if not splits:
            raise ValueError("cv gave no splits; a generator of splits can be used once only: pass a list of them")
        if len(splits) > 1 and not self.refit:
            raise ValueError(f"cv gave {len(splits)} splits, so refit cannot be False; pass refit=True, or one split")
        return splits

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the tuned metric on rows X (n, d) with true classes y (n,); greater is better.

        It is ``solution_.metric`` of the confusion matrix with these labels, weighted by ``sample_weight`` (n,); of
        the expected matrix, without any draw, if the rule is randomised.
        """
        check_is_fitted(self, "estimator_")
        metric, classes, labels = self.solution_.metric, self.classes_.tolist(), y
        if not is_dask(y):
            labels = checked_labels(y)
            refuse_unknown(labels, classes)
        table = make_table(self.estimator_.predict_proba(X), labels, sample_weight, classes)
        confusion = self.rule_.evaluate(make_oracle(table, "labels"), matrix=metric.statistics == "matrix")
        return float(metric.values(confusion))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who gets which metadata: this estimator (tuning), the wrapped one's ``fit``, the splitter."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        if not self._is_prefit:
            router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        return router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))


class FixedRuleClassifier(_RuleClassifier):
    """Classifier that applies a decision rule that is already known.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba``; it gets the ``sample_weight`` of `fit`.
    rule : DecisionRule, path or "argmax"
        The rule, or the file that ``rule.save`` wrote. A rule with the class labels in another order is reordered; one
        that names its classes 0..K-1 is applied by position in ``classes_``. "argmax" decides the most probable
        class, ties to the last.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model that probabilities come from.
    rule_ : DecisionRule
        The rule for the columns ``classes_``.
    classes_ : ndarray (K,)
        Class labels, sorted.
    n_features_in_, feature_names_in_
        Those of the wrapped model, where it has them.

    Examples
    --------
    >>> import confmax
    >>> from sklearn.linear_model import LogisticRegression
    >>> from confmax.estimators import FixedRuleClassifier
    >>> rule = confmax.DecisionRule.from_weights([1.0, 10.0], classes=["ham", "spam"])
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["ham", "ham", "spam", "spam"]
    >>> FixedRuleClassifier(LogisticRegression(), rule).fit(X, y).predict([[0.5]]).tolist()
    ['spam']
    >>> FixedRuleClassifier(LogisticRegression(), "argmax").fit(X, y).predict([[0.5]]).tolist()
    ['ham']
    """

    def __init__(self, estimator: Any, rule: DecisionRule | str | os.PathLike[str]) -> None:
        self.estimator, self.rule = estimator, rule

    def _fit(self, X: Any, y: Any, weight: Any, params: Mapping[str, Any]) -> None:
        model = clone(self.estimator)
        classes = known_classes(model, y)
        rule = rule_for(self.rule, classes)
        model.fit(X, y, **self._routed(weight, params)["estimator"]["fit"])
        refuse_other_classes(model, classes)
        self.estimator_, self.rule_ = model, rule

    @property
    def _is_prefit(self) -> bool:
        return False

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who gets which metadata: the wrapped estimator's ``fit`` gets all."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=type(self).__name__).add(estimator=self.estimator, method_mapping=mapping)
