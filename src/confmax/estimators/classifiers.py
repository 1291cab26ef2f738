"""scikit-learn estimators: tune a decision rule by cross-validation, or apply a rule that is already known.

Both classes leave the wrapped model's probabilities unchanged and apply a rule to them: `predict` returns
``rule_.predict(predict_proba(X))``. ``classes_`` is sorted, as scikit-learn requires. A metric that depends on the
order of the classes stores that order itself (`Metric.classes`).

The rules of the folds are tuned on the out-of-fold table without one split's test rows. They have almost as many rows
as the rule itself, no estimator is refitted, and the left-out rows are not used. They are compared by their thresholds,
the probability at which a class is decided against the mean of the others. Calibrators, weights and offsets of
different folds are not comparable. Thresholds are, and for two classes they are what scikit-learn tunes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from confmax.calibration.column_order import doubt_of_order
from confmax.confusion import Array
from confmax.estimators import steps
from confmax.estimators.base import RuleClassifier
from confmax.estimators.cross_fitting import CrossFitting
from confmax.evaluate.thresholds import class_thresholds, spread_of
from confmax.metrics import Metric
from confmax.progress import bar_for
from confmax.rule import DecisionRule
from confmax.rule.parts import to_decide
from confmax.solution import Plan, tune, value_on_labels, warn_of_trivial
from confmax.solution.confidence import UNEQUAL
from confmax.solution.infeasible import or_raise
from confmax.solution.plan import Task, absent_of
from confmax.solution.side_by_side import warn_of_groups, with_groups
from confmax.solution.surprises import warn_of_names, warn_of_surprises
from confmax.tables import Table, here, host_array, make_table
from confmax.tables.columns import warn
from confmax.tables.draws import RandomState, cross_fit, quietly
from confmax.tables.groups import Groups
from confmax.tables.weights import Weights

# parameters that are settings of a plan
SETTINGS = (
    "metric constraints on_infeasible confidence abstain pos_label confusion calibration solver randomized "
    "random_state progress"
).split()


class MetricClassifierCV(CrossFitting, RuleClassifier):
    """Classifier whose decision rule is tuned for a metric by cross-validation.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba``.
    metric : str, Metric or callable
        A name from ``confmax.metrics.names()``, a metric, or a function of the confusion matrix (K, K).
    cv : None, int, float, splitter, iterable of splits or "prefit"
        An integer: that many stratified folds. None: five of them. A number in (0, 1): one stratified hold-out of that
        share. A splitter or an iterable may leave rows out or repeat them; the rule is tuned on the test rows of all
        splits. "prefit": the estimator is already fitted, and all rows that you pass are for tuning; they may be Dask
        collections if its ``predict_proba`` returns one for them.
    refit : bool
        Whether to fit the estimator again on all rows. False keeps the model of the only split. With "prefit" nothing
        is fitted, and this parameter has no effect.
    ensemble : bool
        True keeps the models of all splits instead and decides by their mean probabilities; nothing is fitted again.
        This helps models that depend strongly on their training rows, such as trees and forests. It needs at least two
        splits, and multiplies the prediction time by their number.
    calibration, confusion, solver, randomized : str, bool or object
        As in `confmax.maximize`.
    constraints, on_infeasible : str, Constraint or sequence of these; {"raise", "closest"}
        As in `confmax.maximize`. They hold under the confusion estimate of the rows that the rule is tuned on
        (``tuned_on_``), not for the final model on new rows: read ``solution_``, and score the model on other rows. A
        rule of a fold that cannot keep them is left out of ``fold_rules_``. Constraints that speak of groups, such as
        ``"min(recall[VF] | group) >= 0.7"``, need ``fit(X, y, group=...)``. The rule then decides every group by gains
        of its own, and `predict`, `decision_probabilities` and `score` need the ``group`` of every row.
    confidence : float or None
        As in `confmax.maximize`: about half of the rows of the tuning table tune the rule, and the others test it. What
        is assured is assured for rows that the tested model decides. With ``refit=False`` or ``cv="prefit"`` this is
        the final model. Otherwise it is the models of the folds: their rules hold on out-of-fold rows, and nothing is
        promised for the final model (``solution_.guarantee`` says so). Each of the ``fold_rules_`` then takes as long
        as the rule itself.
    abstain : bool, str or int
        As in `confmax.maximize`: whether the rule may leave rows undecided, and what `predict` returns for them. True
        means "abstain" beside names and -1 beside integers. The metric, the constraints, `score`, ``refit_loss_`` and
        the rules of the folds are then about the rows that are decided, so a floor such as ``"coverage >= 0.8"`` is
        needed. ``classes_`` stays the K classes. A name that is not of the labels' kind, such as "abstain" beside
        integers, makes `predict` return an array of objects. scikit-learn's own metrics count a row that is left
        undecided as an error.
    labels : sequence or None
        All class labels in order. String labels need it if the metric depends on the order of the classes, as
        ``quadratic_kappa`` does. By default, the order is that of ``y`` if it is an ordered ``pandas.Categorical``.
    pos_label : label or None
        The positive class of a metric of two classes, such as ``f1``; the same as ``labels=[other, pos_label]``.
    fold_rules : bool
        Whether to tune the rule again without the test rows of each split, to show how much it varies. No estimator is
        fitted again; this takes about one more tuning per split.
    n_jobs : int or None
        Number of splits that are fitted in parallel, as in joblib.
    random_state : int, RandomState, Generator or None
        Seed of a randomised rule's draws, and of the hold-out if ``cv`` is a number. None takes seeds from the
        operating system; ``rule_`` stores that of the draws.
    progress : bool
        Whether `fit` shows on stderr how far it is: which models are fitted, the passes of the tuning, and the rules of
        the folds; see `confmax.maximize`. With ``n_jobs`` a model counts as soon as the next one begins.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model that computes the probabilities.
    rule_ : DecisionRule
        The tuned rule; its columns are ``classes_``.
    solution_ : Solution
        The result of the tuning.
    tuned_on_ : {"folds", "refit", "given"}
        The probabilities that the rule was tuned on: "folds" for the out-of-fold ones, "refit" for those of the final
        model on its own training rows (see the notes), "given" for those of the fitted model with ``cv="prefit"``.
    refit_loss_ : float or None
        The metric of the rule on the labels with out-of-fold probabilities, minus the metric with the final model's
        probabilities on the same rows. It is negative if all is well, because the final model was fitted on these rows.
        None if it was not fitted on them.
    thresholds_ : ndarray (K,)
        The smallest probability at which each class is decided if the other classes share the rest in proportion to
        their mean probabilities; with two classes, the threshold. With more it is a measure to compare rules by: few
        rows have such probabilities. 0 if the class is always decided, infinite if it never is. A randomised rule
        counts as deciding a class that it draws with probability 1/2 or more. A rule of groups has a line for each of
        ``rule_.groups``: the shape is (G, K), that of ``fold_thresholds_`` (F, G, K) and that of ``fold_spread_``
        (G, K).
    fold_rules_ : list of DecisionRule
        For each split, the rule tuned on all rows of the table except its test rows. A split is skipped if fewer than
        two classes, or not all groups, remain without its test rows. Empty with one split, with "prefit", and with
        ``fold_rules=False``.
    fold_thresholds_ : ndarray (F, K)
        ``thresholds_`` of the F rules in ``fold_rules_``.
    fold_spread_ : ndarray (K,)
        Standard deviation over the folds of ``log(t / (1 - t))``, where t are the thresholds. NaN with fewer than two
        folds. Infinite if some of the rules, but not all, never decide the class or always decide it.
    shift_ : confmax.shift.PriorShift or None
        What new rows have said of their class shares, once `adapt` was called.
    classes_ : ndarray (K,)
        Class labels, sorted.
    n_features_in_, feature_names_in_
        Those of the wrapped model, if it has them.

    Warns
    -----
    UserWarning
        If ``refit_loss_`` is above .01 or, with fewer than 1000 rows, above .02 and significantly positive. The rule
        then does not suit the final model. If the rule never decides a class that the metric or a constraint names, or
        decides less than half as many rows rightly as argmax, as in `confmax.maximize`.

    Notes
    -----
    If rows repeat (categorical features, trees), a rule must not be tuned on out-of-fold probabilities. Every fold
    model gives the same row a slightly different probability, so a rule can distinguish the fold models. It then
    imitates a draw between two rules, an effect that is lost with the final model. The rule is therefore tuned on the
    final model's probabilities of the n rows if two conditions hold. First, the metric can gain by drawing (its
    structure is concave or general). Second, these probabilities have at most n / 20 distinct rows, and no more than
    the rarest class has rows. Calibration and the share of the model in a blend are still chosen out of fold, and
    ``solution_.label_value`` is the out-of-fold value.

    A class without rows in the training part of a split has probability zero on its test part.

    Wrappers that use `predict`, or the sign of `decision_function`, keep the rule: ``MultiOutputClassifier``,
    ``ClassifierChain``, ``VotingClassifier`` with hard votes, ``OneVsOneClassifier``, and ``OneVsRestClassifier`` on a
    matrix of labels. On one column of classes the last two decide as the rules say where exactly one of them says yes
    (``OneVsRestClassifier``), or one class gets most votes. Wrappers that decide by probabilities of their own drop the
    rule: ``CalibratedClassifierCV``, ``VotingClassifier`` with soft votes, ``StackingClassifier``,
    ``BaggingClassifier``, ``TunedThresholdClassifierCV`` and ``FixedThresholdClassifier``. Wrap the model in these, and
    the result in this class.

    ``sample_weight`` weights the rows of the tuning table and is passed to the estimator's ``fit``. For the tuning,
    only the ratios of the weights matter: a weight of 2 does not mean that a row was seen twice; repeat the row to say
    that. An estimator whose ``fit`` has no such parameter (a `Pipeline`, nearest neighbours) is fitted without weights,
    with a `UserWarning`. With ``cv="prefit"`` nothing is fitted, so the weights are for tuning only. With metadata
    routing, the tuning still uses ``sample_weight`` and the estimator gets what it requests:
    ``set_fit_request(sample_weight=False)`` tunes only, ``set_fit_request(sample_weight="w")`` with
    ``fit(X, y, w=...)`` fits only. ``groups`` are passed to a splitter by routing. ``group`` is this estimator's own:
    pass it to its methods directly, or through a pipeline or a search with ``set_fit_request(group=True)``,
    ``set_predict_request(group=True)`` and ``set_score_request(group=True)``. The estimator gets it if it requests it.

    For two classes, and for rules with class weights only, ``fold_spread_`` is the standard deviation of the log of a
    class's weight relative to that of its strongest rival. The rules of the folds share most of their rows. By the
    jackknife, the standard error of the log odds of ``thresholds_`` is about ``(F - 1) / sqrt(F)`` times the spread.

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

    A classifier that leaves about a fifth of the rows undecided:

    >>> given = {"abstain": True, "constraints": "coverage >= 0.8", "randomized": False}
    >>> unsure = MetricClassifierCV(LogisticRegression(), metric="accuracy", **given).fit(X[::2], y[::2])
    >>> sorted(set(unsure.predict(X[1::2]).tolist()))
    [-1, 0, 1]
    >>> unsure.score(X[1::2], y[1::2]) > plain.score(X[1::2], y[1::2])
    True

    A classifier that knows the group of each row and finds four fifths of the rare class in each:

    >>> X, y = make_classification(400, flip_y=0.3, random_state=0)
    >>> group = ["old" if x > 0 else "young" for x in X[:, 0]]
    >>> given = {"constraints": "min(recall[1] | group) >= 0.8", "metric": "accuracy", "confusion": "labels"}
    >>> fair = MetricClassifierCV(LogisticRegression(), **given).fit(X, y, group=group)
    >>> fair.rule_.groups, fair.predict(X[:4], group=group[:4]).shape
    (('old', 'young'), (4,))
    >>> [part.label_value >= 0.8 for part in fair.solution_.constraints[0].by_group]
    [True, True]
    """

    def __init__(
        self,
        estimator: Any,
        *,
        metric: str | Metric | Callable[[Array], float] = "balanced_accuracy",
        cv: Any = None,
        refit: bool = True,
        ensemble: bool = False,
        calibration: Any = "auto",
        confusion: str = "auto",
        solver: Any = "auto",
        randomized: bool | str = "auto",
        constraints: Any = (),
        on_infeasible: str = "raise",
        confidence: float | None = None,
        abstain: bool | str | int = False,
        labels: Sequence[Any] | None = None,
        pos_label: Any = None,
        fold_rules: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
        progress: bool = False,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.cv = cv
        self.refit = refit
        self.ensemble = ensemble
        self.calibration = calibration
        self.confusion = confusion
        self.solver = solver
        self.randomized = randomized
        self.constraints = constraints
        self.on_infeasible = on_infeasible
        self.confidence = confidence
        self.abstain = abstain
        self.labels = labels
        self.pos_label = pos_label
        self.fold_rules = fold_rules
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def _fit(self, X: Any, y: Any, weight: Weights, group: Any, params: Mapping[str, Any]) -> None:
        # before anything is fitted
        plan = self._checked(weight)
        model = self._model()
        classes = steps.known_classes(model, y)
        plan = plan.but(metric=self._in_order(plan, classes))
        groups = self._groups_before_fits(plan, classes, y, group)
        if not plan.constraints:
            warn_of_trivial(plan.metric)
        routed = self._routed(weight, group, params)
        model, out, rows, tests = self._tables(model, X, y, weight, classes, routed)
        if self._is_prefit:
            out = with_groups(out, group, plan.constraints)
        else:
            out = out.with_groups(None if groups is None else _tested(groups.take(rows)))
        own, few = self._own_rows(model, X, y, weight, classes, groups)
        # where the best rule is deterministic there is no mixture that the fold models could imitate
        few = few and (plan.metric.structure.may_draw or bool(plan.constraints))
        if plan.confidence is not None:
            steps.refuse_dependent(rows, few=few)
        # a class that a fold lacks is one all the same
        plan = plan.but(absent=absent_of(out))
        self.tuned_on_ = "refit" if few else "given" if self._is_prefit else "folds"

        def task_without(test: NDArray[np.intp] | None) -> Task:
            # of the folds only the rules are kept
            wanted = plan if test is None else plan.but(prove=False, progress=False)
            raw = steps.rows_without(test, out, rows)
            if test is not None:
                _tested(raw.groups)
            if own is None or not few:
                return wanted.on(raw)
            own_rows = steps.rows_without(test, own, np.arange(len(y)))
            return wanted.on(own_rows, out_of_fold=raw)

        def rule_without(test: NDArray[np.intp]) -> DecisionRule | None:
            # the whole table was fine: what goes wrong without a split is that classes, or all weights, are absent
            with suppress(ValueError), np.errstate(invalid="ignore"):
                return or_raise(tune(task_without(test)), plan.on_infeasible).rule
            return None

        whole = task_without(None)
        warn_of_groups(whole)
        warn_of_names(classes, () if whole.raw.groups is None else whole.raw.groups.names)
        self.solution_ = or_raise(tune(whole), plan.on_infeasible)
        warn_of_surprises(self.solution_, whole)
        if plan.confidence is not None and own is not None:
            # the models that were tested are not the one that decides from now on
            self.solution_ = replace(self.solution_, tuned_on="folds")
        self.rule_ = self.solution_.rule
        self.refit_loss_ = None
        # with calibrated=0 an overconfident model raises no doubt: it states the order of its columns itself
        warn(doubt_of_order(out, calibrated=0.0, fitted=not self._is_prefit))
        if own is not None:
            self.refit_loss_ = steps.refit_loss(self.rule_, self.solution_.metric, out.head, own.head.take(rows))
        # without the rows of the only split none are left
        parts = tests if self.fold_rules and len(tests) > 1 else []
        with bar_for(self.progress and len(parts) > 0, "tuning the rules of the folds", "folds") as bar:
            counted = parts if bar is None else bar.each(parts, len(parts))
            self.fold_rules_ = [rule for _, rule in cross_fit(quietly(rule_without), counted) if rule is not None]
        self.estimator_ = model
        self._set_thresholds(out.mean_probability())

    def _own_rows(
        self, model: Any, X: Any, y: Any, weight: Weights, classes: list[Any], groups: Groups | None
    ) -> tuple[Table | None, bool]:
        """Return the rows that the final model was fitted on, with what it says of them, and whether few are distinct.

        None if it was fitted on other rows.
        """
        if self._is_prefit or not (self.refit or self.ensemble):
            return None, False
        proba, n_distinct = steps.collapsed(model.predict_proba(X))
        own = make_table(proba, y, weight.values, classes).with_groups(groups)
        return own, steps.is_repetitive(n_distinct, own.head)

    def _set_thresholds(self, mean: Array) -> None:
        """Set the thresholds of the rules, all at the same ``mean`` (K,), so that they differ only where rules do."""
        rules = [self.rule_, *self.fold_rules_]
        of_each = [class_thresholds([rule.of_group(name) for rule in rules], mean) for name in self.rule_.groups]
        thresholds = np.stack(of_each, axis=1) if of_each else class_thresholds(rules, mean)
        self.thresholds_ = thresholds[0]
        self.fold_thresholds_ = thresholds[1:]
        n_folds, *shape = self.fold_thresholds_.shape
        self.fold_spread_ = spread_of(self.fold_thresholds_.reshape(n_folds, int(np.prod(shape)))).reshape(shape)

    def _rule_has_changed(self, mean: Array) -> None:
        self.fold_rules_ = []
        self._set_thresholds(mean)

    def _checked(self, weight: Weights) -> Plan:
        """Return the plan; refuse settings that are no such, by a ValueError."""
        plan = Plan.checked(**{name: getattr(self, name) for name in SETTINGS})
        if plan.confidence is not None and not self._is_prefit and weight.differ:
            raise ValueError(UNEQUAL)
        self._refuse_no_switch("fold_rules", "ensemble", "refit")
        return plan

    def _in_order(self, plan: Plan, classes: list[Any]) -> Metric:
        """Return the metric in the order of the classes."""
        # an ordered categorical may name classes that no row has
        order = None if self._order is None else [name for name in self._order if name in classes]
        labels = order if self.labels is None and self.pos_label is None else self.labels
        return steps.in_order(plan.metric, classes, labels, self.pos_label, abstains=plan.abstains)

    def _groups_before_fits(self, plan: Plan, classes: list[Any], y: Any, group: Any) -> Groups | None:
        """Return the groups of the rows, None if there are none; refuse what cannot be tuned before anything is fitted.

        With "prefit" nothing is fitted, and the table itself is checked.
        """
        of_groups = group is not None or any(one.of_groups for one in plan.constraints)
        if self._is_prefit or not (of_groups or plan.abstains or plan.metric.formula.is_coverage):
            return None
        # which classes, and groups, have rows decides alone
        labels = np.unique(y) if group is None else y
        even = make_table(np.full((len(labels), len(classes)), 1.0 / len(classes)), labels, None, classes)
        even = with_groups(even, group, plan.constraints)
        plan.placed(plan.metric, even)
        return even.groups

    def _tables(
        self, model: Any, X: Any, y: Any, weight: Weights, classes: list[Any], routed: Mapping[str, Any]
    ) -> tuple[Any, Table, NDArray[np.intp], list[NDArray[np.intp]]]:
        """Return the final model, the table to tune on, the row of X of each of its rows, and each split's test rows.

        The table is out of fold; with a model that was fitted before, it holds all rows, and there are no splits.
        """
        if self._is_prefit:
            return model, make_table(model.predict_proba(X), y, weight.values, classes), np.empty(0, np.intp), []
        # the splitter is asked before the first fit, which may take long
        splits = steps.splits_of(self.cv, X, y, routed["splitter"]["split"], self.random_state)
        model, proba, tests = self._cross_fitted(model, X, y, splits, routed["estimator"]["fit"], classes)
        steps.refuse_other_classes(model, classes)
        rows = np.concatenate(tests)
        out = make_table(proba, y[rows], weight.of(rows).values, classes)
        return model, out, rows, tests

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> float:
        """Return the tuned metric on rows ``X`` (n, d) with true classes ``y`` (n,).

        This is ``solution_.metric`` of the confusion matrix with these labels, weighted by ``sample_weight`` (n,). For
        a randomised rule it is the metric of the expected matrix, without any draw. With ``abstain`` it is the metric
        of the rows that are decided, 0 if none is. A rule of groups needs the ``group`` (n,) of every row. Raise a
        ValueError for unknown classes, and for groups as `predict` does.
        """
        check_is_fitted(self, "estimator_")
        classes = self.classes_.tolist()
        # labels that lie elsewhere are checked there
        known = here(steps.checked_labels, y)
        if known is not None:
            steps.refuse_unknown(known, classes)
        table = make_table(self.estimator_.predict_proba(X), y if known is None else known, sample_weight, classes)
        table = to_decide(self.rule_, table, group)
        return value_on_labels(self.rule_, self.solution_.metric, table)


def _tested(groups: Groups | None) -> Groups | None:
    """Return the groups of rows that tune a rule, which has gains for each; refuse those of which no row is left."""
    if groups is not None:
        absent = np.flatnonzero(np.bincount(groups.codes, minlength=len(groups)) == 0)
        if len(absent):
            raise ValueError(
                f"cv tests no row of group {groups.names[absent[0]]!r}, and the rule is tuned on the rows that are "
                f"tested; pass a cv that tests rows of every group, or join groups"
            )
    return groups


class FixedRuleClassifier(RuleClassifier):
    """Classifier that applies a decision rule that is already known.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba``. Its ``fit`` gets the ``sample_weight`` of `fit`.
    rule : DecisionRule, path or "argmax"
        The rule, or the path of a file that ``rule.save`` wrote. A rule with the class labels in another order
        is reordered. A rule without class names, which has the classes 0..K-1, is applied by position in
        ``classes_``, and a warning says so if these are others. "argmax" decides the most probable class, and
        the last of tied ones. A rule that abstains returns its name of abstaining; other decisions beyond the
        classes are refused. For a rule of groups pass ``group`` to `predict` and `score`.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model that computes the probabilities.
    rule_ : DecisionRule
        The rule for the columns ``classes_``.
    solution_, shift_ : Solution, and confmax.shift.PriorShift or None
        The rule for other class shares, and what new rows have said of these, once `adapt` was called.
    classes_ : ndarray (K,)
        Class labels, sorted.
    n_features_in_, feature_names_in_
        Those of the wrapped model, if it has them.

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
        self.estimator = estimator
        self.rule = rule

    def _fit(self, X: Any, y: Any, weight: Weights, group: Any, params: Mapping[str, Any]) -> None:
        if group is not None and not get_config()["enable_metadata_routing"]:
            raise ValueError("FixedRuleClassifier.fit tunes no rule and needs no groups; pass group to predict")
        model = clone(self.estimator)
        classes = steps.known_classes(model, y)
        rule = steps.rule_for(self.rule, classes)
        if not rule.groups_known:
            raise ValueError(
                "the rule decides by the probabilities of groups, which an estimator does not take; pass what the "
                "model's predict_proba returns to rule.predict(proba, group_proba=...)"
            )
        model.fit(X, y, **self._routed(weight, group, params)["estimator"]["fit"])
        steps.refuse_other_classes(model, classes)
        self.estimator_ = model
        self.rule_ = rule

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> float:
        """Return the accuracy on rows ``X`` (n, d) with true classes ``y`` (n,), weighted by ``sample_weight`` (n,).

        For a rule that abstains it is the accuracy of the rows that are decided, 0 if none is. A rule of groups needs
        the ``group`` (n,) of every row. Raise a ValueError for rows that the estimator refuses, for lengths that
        differ, and for groups as `predict` does.
        """
        check_is_fitted(self, "estimator_")
        if self.rule_.abstain is None:
            return float(accuracy_score(y, self.predict(X, group), sample_weight=sample_weight))
        decided = host_array(self.rule_.predict_index(self.estimator_.predict_proba(X), group=group))
        kept = decided < self.rule_.n_classes
        weight = Weights.given(sample_weight).of(kept)
        if not weight.array(int(kept.sum())).any():
            return 0.0
        return float(accuracy_score(np.asarray(y)[kept], self.classes_[decided[kept]], sample_weight=weight.values))
