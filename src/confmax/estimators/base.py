"""What the estimators share: they leave the wrapped model's probabilities as they are and decide behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from confmax.confusion import Array
from confmax.errors import InputError
from confmax.estimators.steps import checked_labels, with_abstain
from confmax.evaluate.thresholds import class_thresholds
from confmax.rule import DecisionRule
from confmax.solution import Solution
from confmax.solution.tuning import solution_of_rule
from confmax.tables import make_table
from confmax.tables.frames import stated_order
from confmax.tables.kinds import here, host_array, named
from confmax.tables.labels import refuse_masked
from confmax.tables.weights import Weights

NEXT_TO_ZERO = float(np.finfo(np.float32).tiny)  # of scores: float32 holds it
# arguments of `Solution.adapt`, which takes probabilities, as the estimators call them
_FEATURES = {"new_proba": "X_new", "(proba, y)": "(X, y)", "(proba, y, sample_weight)": "(X, y, sample_weight)"}


def if_wrapped_has(name: str) -> Callable[[Any], Any]:
    """Return a decorator: the method is there where the wrapped estimator has one of this name."""
    # where it has not, getattr's AttributeError is the message
    return available_if(lambda self: callable(getattr(getattr(self, "estimator_", self.estimator), name)))


def _has_scores(self: RuleClassifier) -> bool:
    """Whether rows have a `decision_function`; of an estimator that is not fitted, whether those of two classes may."""
    if not hasattr(self, "rule_"):
        return hasattr(self.estimator, "predict_proba")
    if self.rule_.n_classes == 2:
        return self.rule_.n_decisions == 2 and not self.rule_.groups
    return callable(self.estimator_.decision_function)


_if_scored: Callable[[Any], Any] = available_if(_has_scores)


def _in_memory(values: Any) -> Any:
    """Return values as an array in host memory, lazy ones as they are."""
    found = here(host_array, values)
    return values if found is None else found


def _of_features(_argument: str, words: str) -> str:
    """Return what `RuleClassifier.adapt` calls an argument of `Solution.adapt`, for which that says ``words``."""
    for name, here_called in _FEATURES.items():
        words = words.replace(name, here_called)
    return f"`{words}`"


# the mixins stand left of BaseEstimator, whose tags theirs override
class BehindModel(ClassifierMixin, MetaEstimatorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A classifier that decides by the probabilities of another."""

    estimator: Any
    estimator_: Any
    # what CalibratedClassifierCV makes probabilities of
    _unsure: ClassVar[str] = "it"

    def _fit_checked(self, X: Any, y: Any, sample_weight: Any, group: Any, params: Mapping[str, Any]) -> None:
        """Check what `fit` is given, and fit."""
        name = type(self).__name__
        wrapped = type(self.estimator).__name__
        if not hasattr(self.estimator, "fit") or not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"estimator must have the methods fit and predict_proba, but this {wrapped} does not have both; pass a "
                f"classifier that returns probabilities, or wrap {self._unsure} in CalibratedClassifierCV"
            )
        if params and not get_config()["enable_metadata_routing"]:
            raise ValueError(
                f"{name}.fit passes {', '.join(sorted(params))} on only by metadata routing; call "
                f"sklearn.set_config(enable_metadata_routing=True) and have the estimator or splitter request it"
            )
        # scikit-learn's own checks look for the words of the message
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None; pass the true classes")
        if self._is_prefit and here(lambda *_: True, X, y) is None:
            # rows and labels stay where they are, and are checked there
            labels = here(self._labels, y)
            self._fit(X, y if labels is None else labels, Weights.given(sample_weight), group, params)
            return
        if sample_weight is not None:
            refuse_masked(sample_weight, "sample_weight")
        # lists and the like become what splits can index; lengths are compared before anything is fitted
        X, labels = indexable(X, self._labels(y))
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        self._fit(X, labels, Weights.given(weight), group, params)

    @abstractmethod
    def _labels(self, y: Any) -> NDArray[Any]:
        """Return the labels as an array, with a row for each row of X; a ValueError if they are none."""

    @abstractmethod
    def _fit(self, X: Any, y: Any, weight: Weights, group: Any, params: Mapping[str, Any]) -> None:
        """Set ``estimator_``, ``rule_`` and what else is learned."""

    @property
    def _is_prefit(self) -> bool:
        """Whether the estimator is used as it is, fitted by its owner."""
        return False

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing: all metadata goes to the wrapped estimator's ``fit``."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=type(self).__name__).add(estimator=self.estimator, method_mapping=mapping)

    def _routed(self, weight: Weights, group: Any, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return ``{consumer: {method: parameters}}`` for the wrapped estimator and the splitter."""
        # without routing only weights are passed on, and no splitter takes them
        given = {**({} if weight.is_equal else {"sample_weight": weight.values}), **params}
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", **given, **({} if group is None else {"group": group}))
        return {"estimator": {"fit": given}, "splitter": {"split": {}}}

    @property
    def n_features_in_(self) -> int:
        """Number of features d, if the wrapped estimator counts them."""
        # an estimator that does not count its features raises AttributeError here, and so has no attribute here either
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Feature names (d,), if the wrapped estimator keeps them."""
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        wrapped = get_tags(self.estimator)
        # what X may be, and how well it does, depend on the wrapped estimator alone; what it is does not
        tags.input_tags = wrapped.input_tags
        tags.non_deterministic = wrapped.non_deterministic
        tags.no_validation = wrapped.no_validation
        if wrapped.classifier_tags is not None:
            tags.classifier_tags.multi_class = wrapped.classifier_tags.multi_class
            tags.classifier_tags.poor_score = wrapped.classifier_tags.poor_score
        return tags


class RuleClassifier(BehindModel):
    """A classifier that puts a decision rule behind another classifier's probabilities."""

    rule_: DecisionRule
    _order: tuple[Any, ...] | None = None

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        group: ArrayLike | None = None,
        **params: Any,
    ) -> Any:
        """Fit the wrapped estimator and set the rule.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n, d)
            Features, in any form that the wrapped estimator accepts.
        y : array-like (n,)
            True classes: strings, integers or booleans.
        sample_weight : array-like (n,) or None
            Non-negative weights. The notes of the class say how they are used.
        group : array-like (n,) or None
            The group of each row, if the rule is tuned within constraints that speak of groups. A splitter's groups are
            another thing: they are called ``groups`` and are among the ``params``.
        **params : dict
            Further metadata for the estimator's ``fit`` and the splitter's ``split``, with metadata routing enabled.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid. The message says what is wrong, where, and how to correct it.
        """
        # what `adapt` has set is of the model from before
        for name in ("solution_", "shift_"):
            self.__dict__.pop(name, None)
        # of an ordered categorical, which scikit-learn turns into an array
        self._order = None if y is None else stated_order(y)
        self._fit_checked(X, y, sample_weight, group, params)
        return self

    def _labels(self, y: Any) -> NDArray[Any]:
        return checked_labels(y)

    def adapt(
        self,
        X_new: Any = None,
        y: ArrayLike | None = None,
        *,
        priors: Any = None,
        tuned_on: Sequence[Any] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Set the rule for rows whose class shares differ from those that it was tuned on.

        The wrapped model stays as it is. ``rule_`` and ``solution_`` become those for the new class shares, and
        ``shift_`` says what the rows have shown (`confmax.shift.PriorShift`; None for known shares). Nothing is kept of
        the rows. A further call goes on from the rule that this one has set. What `MetricClassifierCV` says of the
        folds is of the old rule: ``fold_rules_`` is then empty.

        Parameters
        ----------
        X_new : array-like, sparse matrix or data frame (n, d), or None
            Features of new rows, from which the class shares are estimated. With ``priors`` they may be left out where
            ``tuned_on`` is given, or the metric needs no rows.
        y : array-like (n,) or None
            True classes of new rows where they are known; None, NaN or -1 where they are not.
        priors : mapping or Series of class names, array (K,) in the order of ``classes_``, "balanced", or None
            The new class shares, if they are known.
        tuned_on : (X, y) or (X, y, sample_weight), or None
            Labelled rows that the model was not fitted on. The rule is then tuned on them, each class weighted by its
            new share. This keeps what labels have shown, where probabilities are wrong for some rows. Without them it
            is tuned on the new rows, on the confusion matrix that the probabilities lead to.
        sample_weight : array-like (n,) or None
            Non-negative weights of the new rows.

        Returns
        -------
        self
            The classifier, with another rule.

        Raises
        ------
        ValueError
            As `confmax.Solution.adapt` does.

        Warns
        -----
        UserWarning
            As `confmax.Solution.adapt` does.

        Examples
        --------
        >>> import confmax
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = [[k / 50] for k in range(100)], ["no"] * 45 + ["no", "yes"] * 10 + ["yes"] * 35
        >>> model = confmax.MetricClassifierCV(LogisticRegression(), metric="accuracy").fit(X, y)
        >>> model.predict([[0.9]]), model.adapt(priors={"no": 0.1, "yes": 0.9}).predict([[0.9]])
        (array(['no'], dtype='<U3'), array(['yes'], dtype='<U3'))
        """
        check_is_fitted(self, "estimator_")
        solution: Solution = getattr(self, "solution_", None) or solution_of_rule(self.rule_)
        proba = None if X_new is None else self.estimator_.predict_proba(X_new)
        rows = None
        if tuned_on is not None:
            if not (isinstance(tuned_on, (tuple, list)) and len(tuned_on) in (2, 3)):
                raise InputError(
                    "`tuned_on` is (X, y) or (X, y, sample_weight), labelled rows that the model was not fitted on"
                )
            rows = (self.estimator_.predict_proba(tuned_on[0]), *tuned_on[1:])
        try:
            found = solution.adapt(proba, priors=priors, tuned_on=rows, y=y, sample_weight=sample_weight)
        except InputError as error:
            if type(error) is not InputError:  # one that holds the closest rule
                raise
            problem, remedy = (part.said(_of_features) for part in (error.problem, error.remedy))
            raise InputError(problem, remedy, _FEATURES.get(error.argument or "", error.argument)) from None
        changed = found.rule != self.rule_
        self.rule_ = found.rule
        self.solution_ = found
        self.shift_ = found.shift if priors is None else None
        if changed:
            of_rows = proba if rows is None or proba is not None else rows[0]
            known = found.rule.shares
            assert known is not None
            self._rule_has_changed(known.meant if of_rows is None else make_table(of_rows, None).mean_probability())
        return self

    def _rule_has_changed(self, mean: Array) -> None:
        """Set what else is known of the rule; ``mean`` (K,) are mean probabilities of rows that it is for."""

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels (K,), the columns of `predict_proba`."""
        return np.asarray(self.estimator_.classes_)

    @property
    def _decisions(self) -> NDArray[Any]:
        """What `predict` returns (M,): the classes, and the name of abstaining if the rule may."""
        name = self.rule_.abstain
        return self.classes_ if name is None else with_abstain(self.classes_, name)

    def predict(self, X: Any, group: ArrayLike | None = None) -> NDArray[Any]:
        """Return the class (n,) that the rule decides for every row of X (n, d); lazy for Dask probabilities.

        A randomised rule computes its draw from the row's probabilities, so equal rows get equal classes in any batch.
        For rows that a rule leaves undecided, this is the name of abstaining, ``rule_.abstain``. A rule of groups needs
        the ``group`` (n,) of every row. Raise a ValueError if a row has none, or one that ``rule_`` does not know, and
        for groups that the rule does not use.
        """
        check_is_fitted(self, "estimator_")
        decisions = self.rule_.predict_index(self.estimator_.predict_proba(X), group=group)
        # class names need not be numbers, which is all that a tensor holds
        return named(self._decisions, _in_memory(decisions))

    def decision_probabilities(self, X: Any, group: ArrayLike | None = None) -> NDArray[Any]:
        """Return the exact probability (n, M) of every decision for the rows of X (n, d), before any draw.

        The columns have the order of ``rule_.classes``: M is K, or K + 1 for a rule that abstains. All entries are 0
        or 1 if the rule is deterministic. The result is lazy for Dask probabilities. The ``group`` (n,) of the rows and
        its errors are those of `predict`.
        """
        check_is_fitted(self, "estimator_")
        return self.rule_.decision_probabilities(self.estimator_.predict_proba(X), group=group)

    @if_wrapped_has("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the wrapped estimator's probabilities (n, K), columns in the order of ``classes_``."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_proba(X)

    @if_wrapped_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the wrapped estimator's log-probabilities (n, K)."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_log_proba(X)

    @_if_scored
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return scores of the rows of X (n, d): of two classes the rule's (n,), else those of the wrapped estimator.

        Of two classes a score is above zero exactly where `predict` returns the second one, and it rises with the
        probability of this class: it is how far that lies from the rule's threshold, as a share of the way to 0 (at -1)
        or to 1. One against the rest, which decides by the sign, then keeps the rule, and the area under the ROC curve
        is that of the probabilities. Where the rule decides a row against the order of the probabilities, because it
        draws or its calibration turns the order, the score is next to zero. Rules that abstain or need groups have no
        such scores, and the method is absent. The scores of more classes are the wrapped estimator's, if it has some;
        the rule does not use them.
        """
        check_is_fitted(self, "estimator_")
        if self.rule_.n_classes > 2:
            return self.estimator_.decision_function(X)
        proba = self.estimator_.predict_proba(X)
        decided = _in_memory(self.rule_.predict_index(proba)) == 1
        # where no number describes the rule, that from which it decides the class at least half of the time
        cut = min(float(class_thresholds([self.rule_], np.full(2, 0.5))[0, 1]), 1.0)
        p = _in_memory(proba)[:, 1].astype(np.float64)
        score = (p - cut) / np.where(p < cut, max(cut, NEXT_TO_ZERO), max(1.0 - cut, NEXT_TO_ZERO))
        return np.where(decided, np.maximum(score, NEXT_TO_ZERO), np.minimum(score, -NEXT_TO_ZERO))
