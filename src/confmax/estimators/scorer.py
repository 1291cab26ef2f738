"""A scorer for scikit-learn: the value that the best rule within limits reaches with a model's probabilities.

Models are compared by what they are used for: recall at a precision of .9, macro F1 with at most 5 % flagged. The
rule is tuned on one half of the rows and valued on the other, both ways, so no row values a rule that it has tuned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Array, Gains
from confmax.evaluate.evidence import pooled
from confmax.evaluate.uncertainty import compare
from confmax.metrics import Metric
from confmax.metrics.alignment import fit_metric, with_positive
from confmax.metrics.decided import as_written
from confmax.optimize.column_generation import refused_within_limits
from confmax.rule import DecisionRule
from confmax.solution import Plan, tune
from confmax.tables import Part, Table, make_table
from confmax.tables.draws import RandomState, quietly, stratified_halves


@dataclass(frozen=True)
class RuleScorer:
    """What `make_scorer` returns: call it with a fitted classifier, rows and their classes, or pass it as ``scoring``.

    Attributes
    ----------
    metric : Metric
        What the rule maximises, and the score.
    constraints : tuple of str
        What the rule keeps.
    plan : Plan
        The settings of the tuning.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.datasets import make_classification
    >>> import confmax
    >>> X, y = make_classification(400, random_state=0)
    >>> scorer = confmax.make_scorer("recall[1]", constraints="precision[1] >= 0.9")
    >>> round(scorer(LogisticRegression().fit(X[:200], y[:200]), X[200:], y[200:]), 2)
    0.77
    """

    metric: Metric
    constraints: tuple[str, ...]
    plan: Plan = field(repr=False)

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the metric that the rules of both halves reach on the other half, which is better if it is larger.

        Parameters
        ----------
        estimator : classifier
            Fitted, with ``predict_proba`` and ``classes_``.
        X : array-like (n, d)
            Rows that it was not fitted on.
        y : array-like (n,)
            True classes.
        sample_weight : array-like (n,) or None
            Non-negative weights.

        Raises
        ------
        ValueError
            If the rows or the classes are no table, or the metric or a limit does not suit them.
        """
        proba = estimator.predict_proba(X)
        table = make_table(proba, y, sample_weight, list(estimator.classes_), stated=True).head
        metric = with_positive(self.metric, table.classes, self.plan.pos_label)
        plan = self.plan.but(metric=metric)
        # what no rows could make right is an error; by their probabilities all classes have weight
        task = plan.on(Table.of(replace(table, labels=None)))
        why = None if task.limits is None else refused_within_limits(task.metric)
        if why is not None:
            raise ValueError(why)
        fold = stratified_halves(table, plan.random_state)
        rules = [self._rule(plan, table.take(fold != k)) for k in range(2)]
        decided = {"rule": pooled(rules, table, fold)}
        place: Callable[[Table], Metric] = partial(fit_metric, metric, explicit=True)
        try:
            placed = quietly(place)(Table.of(table))
        except ValueError:
            # these rows lack classes that it divides by
            placed = as_written(task.metric)
        value = float(compare(table, {"score": placed}, decided, n_replicates=0).values[0, 0])
        return value if np.isfinite(value) else 0.0

    @staticmethod
    def _rule(plan: Plan, part: Part) -> DecisionRule:
        """Return the rule of one half; argmax, where nothing can be tuned on it, such as without a row of a class."""

        def tuned(rows: Part) -> DecisionRule:
            return tune(plan.on(Table.of(rows))).rule

        try:
            if part.n_rows:
                return quietly(tuned)(part)
            raise ValueError("there is no row")
        except ValueError:
            M = part.n_classes + plan.abstains
            names = (*part.classes, *(["abstain"] if plan.abstains else []))
            gains = Gains.reduced(np.ones(part.n_classes), -1.0 * (np.arange(M) >= part.n_classes))
            return DecisionRule(gains, np.ones(1), names, abstain="abstain" if plan.abstains else None)


def make_scorer(
    metric: str | Metric | Callable[[Array], float],
    *,
    constraints: Any = (),
    abstain: bool | str | int = False,
    pos_label: Any = None,
    confusion: str = "auto",
    calibration: Any = "auto",
    random_state: RandomState = 0,
) -> RuleScorer:
    """Return a scorer for `GridSearchCV` and `cross_val_score`: the value of the best rule within limits.

    Parameters
    ----------
    metric : str, Metric or callable
        What is maximised and returned, as for `maximize`: a name, a metric, or a function of the confusion (K, M).
    constraints : str, Constraint or sequence of these
        What the rule keeps, as for `maximize`. If no rule keeps it, the rule that misses it least is valued. The limits
        hold on the half that tunes; on the other one they are kept about half of the time.
    abstain : bool, str or int
        Whether the rule may abstain, as for `maximize`.
    pos_label : label or None
        The positive one of two classes.
    confusion, calibration : str
        As for `maximize`.
    random_state : int, RandomState, Generator or None
        Seed of the halves and of the folds that choose a calibration.

    Returns
    -------
    RuleScorer
        A function of a fitted classifier, rows and classes. It is never NaN: of a half that lacks a class, argmax is
        the rule.

    Raises
    ------
    ValueError
        If the metric or a limit is none.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> import confmax
    >>> X, y = make_classification(600, weights=[0.8], random_state=0)
    >>> scorer = confmax.make_scorer("recall[1]", constraints="precision[1] >= 0.9")
    >>> cross_val_score(LogisticRegression(), X, y, cv=3, scoring=scorer).round(2).tolist()
    [0.9, 0.9, 0.76]
    """
    plan = Plan.checked(
        metric,
        constraints=constraints,
        abstain=abstain,
        pos_label=pos_label,
        confusion=confusion,
        calibration=calibration,
        random_state=random_state,
    )
    plan = plan.but(on_infeasible="closest", prove=False)
    return RuleScorer(plan.metric, tuple(one.text for one in plan.constraints), plan)
