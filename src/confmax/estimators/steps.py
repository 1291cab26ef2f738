"""Steps of the estimators' `fit`: one split, checks of labels, the tables to tune on, and the order of the classes.

A model that is fitted again decides with other probabilities than those that its rule was tuned on. Where rows differ
from each other this adds noise. Where rows repeat (categorical features, trees) it is an error that no number of rows
removes: the fold models give one and the same row slightly different probabilities, a rule can tell them apart, and so
imitates a mixture that it loses with the refitted model, to which these rows are equal. There the rule is tuned on the
probabilities of the refitted model itself: on few distinct rows it can have learned little of single labels.

Calibration, the share of the model and all shown values stay out of fold (`Plan.on` takes both tables). Averages
and votes of fold models do not help there, because one deterministic model cannot imitate a draw.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedShuffleSplit, check_cv
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_method_params, column_or_1d, has_fit_parameter

from confmax.evaluate.decided import decided_by
from confmax.evaluate.uncertainty import compare
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned, in_given_order, refuse_unstated_order, with_positive
from confmax.rule import DecisionRule
from confmax.rule.parts import refuse_labels
from confmax.solution import value_on_labels
from confmax.solution.abstaining import abstain_name
from confmax.tables import Part, Table, given_hashes, here, host_array
from confmax.tables.columns import assignment, find, warn
from confmax.tables.draws import RandomState, as_seed
from confmax.tables.labels import plain, refuse_masked, refuse_missing

ROWS_PER_DISTINCT = 20  # the refitted model's rows are tuned on where so many share their probabilities, on average
REPLICATES = 200  # of the bootstrap of a loss on few rows
# rows from which on a loss above .01 is warned of, below .02
LARGE = 1000
LOST_LARGE = 0.01
LOST_SMALL = 0.02


def fit_params_for(estimator: Any, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the wrapped estimator's ``fit`` gets: without routing, weights only where it names them."""
    # with routing the estimator says itself what it requests
    takes = has_fit_parameter(estimator, "sample_weight")
    if get_config()["enable_metadata_routing"] or "sample_weight" not in params or takes:
        return params
    if not isinstance(estimator, FrozenEstimator):  # which fits nothing
        warn(
            f"{type(estimator).__name__}.fit has no parameter sample_weight: it is fitted without weights, and they "
            f"are used for tuning only; metadata routing can pass them to an inner estimator"
        )
    return {}


def fit_split(
    model: Any, X: Any, y: NDArray[Any], split: tuple[Any, Any], params: Mapping[str, Any], *, keep: bool
) -> tuple[NDArray[Any], list[Any], Any]:
    """Fit on the training rows; return probabilities on the test rows, their classes, and the model to ``keep``."""
    train, test = split
    X_train, y_train = _safe_split(model, X, y, train)
    # of a precomputed kernel the test rows have one column per training row
    X_test, _ = _safe_split(model, X, y, test, train)
    model.fit(X_train, y_train, **_check_method_params(X, params, indices=train))
    return model.predict_proba(X_test), np.asarray(model.classes_).tolist(), model if keep else None


def all_columns(proba: NDArray[Any], own: list[Any], classes: list[Any]) -> NDArray[Any]:
    """Return probabilities (m, K) of all ``classes`` in their order; those that a split's model has not seen get zero.

    A model may have its classes in the order in which its own rows name them, which differs from split to split.
    """
    if own == classes or not set(own) <= set(classes):
        return proba  # other classes are refused with the final model
    full = np.zeros((len(proba), len(classes)), dtype=proba.dtype)
    place = {name: k for k, name in enumerate(classes)}
    full[:, [place[name] for name in own]] = proba
    return full


def hold_out(cv: Any) -> float:
    """Return the share of a hold-out, from a ``cv`` that is a number but no integer."""
    if not 0 < float(cv) < 1:
        raise ValueError(f"cv as a number is the share of a hold-out and must lie between 0 and 1; got {cv!r}")
    return float(cv)


def own_splits(folds: Any, X: Any, y: NDArray[Any], params: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the splits of a splitter."""
    splits = list(folds.split(X, y, **params))
    if not splits:
        raise ValueError("cv gave no splits; a generator of splits can be used only once, so pass a list of them")
    return splits


def splits_of(
    cv: Any, X: Any, y: NDArray[Any], params: Mapping[str, Any], random_state: RandomState
) -> list[tuple[Any, Any]]:
    """Return the splits that ``cv`` stands for, with ``random_state`` for a hold-out.

    The splitter or iterable is asked once, as it may be random or a generator. Warn if some class has fewer rows than
    there are folds.
    """
    if isinstance(cv, Real) and not isinstance(cv, Integral):
        share = hold_out(cv)
        if not isinstance(random_state, np.random.RandomState):
            # scikit-learn takes 32 bits, and would read None as its global state
            random_state = as_seed(random_state) % 2**32
        cv = StratifiedShuffleSplit(1, test_size=share, random_state=random_state)
    folds = check_cv(cv, y=y, classifier=True)
    if cv is not None and not isinstance(cv, Integral):
        # the folds of a splitter are its owner's, who may leave a class out on purpose
        return own_splits(folds, X, y, params)
    names, counts = np.unique(y, return_counts=True)
    few = int(np.argmin(counts))
    n_splits = folds.get_n_splits()
    if counts.max() < n_splits <= len(y):
        raise ValueError(
            f"no class has the {n_splits} rows that {n_splits} stratified folds need; pass cv={max(2, counts[few])}, "
            f"or more rows"
        )
    if counts[few] < n_splits <= len(y):
        warn(
            f"class {names[few]} has fewer rows ({counts[few]}) than there are folds ({n_splits}), so some folds have "
            f"none of them; pass a smaller cv, or more rows of this class"
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # which names no class
        return list(folds.split(X, y, **params))


def known_classes(model: Any, y: NDArray[Any]) -> list[Any]:
    """Return the class labels in column order; a frozen or prefit model knows them, and maybe more than y holds."""
    known = getattr(model, "classes_", None)
    names: list[Any] = np.asarray(unique_labels(y) if known is None else known).tolist()
    if len(names) < 2:
        raise ValueError(f"y holds one class only ({_shown(names)}); at least two classes are needed")
    here(partial(refuse_unknown, classes=names), y)  # others are checked where they lie
    return names


def refuse_unknown(y: NDArray[Any], classes: list[Any]) -> None:
    """Refuse labels that the model has no column for."""
    # sets of Python values: 1, 1.0 and True are one class, and 1 and '1' are two, which NumPy would not tell apart
    unknown = set(y.tolist()) - set(classes)
    if unknown:
        row = next(row for row, label in enumerate(y.tolist()) if label in unknown)
        raise ValueError(
            f"row {row} of y holds {y.tolist()[row]!r}, which is not a class of the model ({_shown(classes)}); "
            f"leave such rows out, or fit the model on rows of this class too"
        )


def refuse_other_classes(model: Any, classes: list[Any]) -> None:
    """Refuse a fitted model whose columns are not ``classes``."""
    own = np.asarray(model.classes_).tolist()
    if own != classes:
        raise ValueError(
            f"the fitted {type(model).__name__} has the classes ({_shown(own)}), but y has ({_shown(classes)}); fit it "
            f"on rows of every class, with sorted classes_"
        )


def checked_labels(y: ArrayLike) -> NDArray[Any]:
    """Return class labels (n,) as an array."""
    refuse_masked(y, "y")
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    refuse_missing(labels)
    assert_all_finite(labels, input_name="y")
    # labels of several types have no order, and the columns of a model are sorted
    if labels.dtype == object:
        for row, label in enumerate(labels.tolist()):
            if not isinstance(label, str):
                raise ValueError(
                    f"Unknown label type: y has dtype object and {label!r} in row {row}; give labels of one type"
                )
    check_classification_targets(labels)
    return labels


def _shown(names: Sequence[Any], most: int = 6) -> str:
    """Return the first names for a message."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


# --- the tables that are tuned on -------------------------------------------------------------------------------------


def collapsed(proba: Any) -> tuple[NDArray[Any], int]:
    """Return probabilities (n, K) in which rows that agree in float32 are equal, and how many are distinct.

    A model may give copies of a row probabilities that differ in the last digit, by their place in a batch; no rule
    must tell them apart.
    """
    P = host_array(proba)
    _, first, place = np.unique(given_hashes(P), return_index=True, return_inverse=True)
    return P[first][place.reshape(-1)], len(first)


def is_repetitive(n_distinct: int, table: Part) -> bool:
    """Return whether so few distinct rows are in the table that a model's probabilities of its training rows will do.

    That is at most one in twenty rows, and no more than the rarest class has: where a model tells more rows apart than
    that, it can have learned single labels of this class.
    """
    assert table.labels is not None
    # rows without weight are not counted: they must not make a class look larger
    counts = np.bincount(table.labels[table.weighted])
    return bool(n_distinct * ROWS_PER_DISTINCT <= counts.sum() and n_distinct <= counts[counts > 0].min())


def refuse_dependent(rows: NDArray[np.intp], *, few: bool) -> None:
    """Refuse tests of a confidence on ``rows`` that are not independent of those that tune the rule."""
    if few:
        raise ValueError(
            "confidence tests rows that neither model nor rule were fitted on, and few rows here are distinct, so the "
            "rule is tuned on the final model's own rows; pass cv=0.25 with refit=False, or cv='prefit' with other rows"
        )
    if len(np.unique(rows)) < len(rows):
        raise ValueError(
            "confidence counts every row once, and cv tests some rows several times; pass a cv without repetition"
        )


def refit_loss(rule: DecisionRule, metric: Metric, out_of_fold: Part, refitted: Part) -> float:
    """Return the metric of a rule on labels with out-of-fold probabilities, minus that with the refitted model's.

    Both tables have the same rows. The probabilities of a model on its own training rows flatter it, so that this is
    negative where all is well. What a rule owes to differences between fold models it loses, and this is positive. Warn
    if the loss is above .01 on 1000 rows or more, or above .02 on fewer rows with a 95 % interval above zero.
    """
    before, after = (value_on_labels(rule, metric, Table.of(table)) for table in (out_of_fold, refitted))
    large = refitted.n_rows >= LARGE
    doubtful = before - after > (LOST_LARGE if large else LOST_SMALL)
    if doubtful and not large:
        # on few rows chance alone loses as much: the same rows decide twice, so their difference is resampled
        tables = {"before": out_of_fold, "after": refitted}
        rules = {name: decided_by(rule, table) for name, table in tables.items()}
        found = compare(out_of_fold, {"metric": metric}, rules, n_replicates=REPLICATES, stratified=True)
        low = found.difference("before", "after").low
        doubtful = low is not None and low > 0.0
    if doubtful:
        warn(
            f"{metric.shown_name} of the rule is {metric.shown(before):.4g} on out-of-fold probabilities and "
            f"{metric.shown(after):.4g} on those of the "
            f"final model: the rule does not suit that model; use one model for tuning and deciding: cv=0.25 with "
            f"refit=False, or cv='prefit' with rows that the model was not fitted on"
        )
    return before - after


def rows_without(test: NDArray[np.intp] | None, table: Table, rows: NDArray[np.intp]) -> Table:
    """Return a table without the ``test`` rows of a split, None for all; ``rows`` (n,) of X are those that it holds."""
    # parts of checked tables are not checked again, and keep the hashes that folds and samples are made of
    return table if test is None else Table.of(table.head.take(~np.isin(rows, test)))


class MeanOfModels:
    """A classifier that averages the probabilities of the fold models, for all classes, sorted (K,).

    A model that was not fitted on a class gives it probability zero.
    """

    def __init__(self, models: Sequence[Any], classes: NDArray[Any]) -> None:
        self.estimators_ = list(models)
        self.classes_ = classes
        # what a model knows of its features; not every model counts or names them
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(models[0], name):
                setattr(self, name, getattr(models[0], name))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the mean of the models' probabilities (n, K)."""
        names = self.classes_.tolist()
        parts = [all_columns(each.predict_proba(X), each.classes_.tolist(), names) for each in self.estimators_]
        return np.asarray(np.mean(parts, axis=0))

    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the logarithms of `predict_proba` (n, K)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


# --- the order of the classes ----------------------------------------------------------------------------------------


def in_order(
    metric: Metric, classes: list[Any], labels: Sequence[Any] | None, pos_label: Any, *, abstains: bool = False
) -> Metric:
    """Return the metric over the columns ``classes``, counting them in the order that was asked for.

    ``abstains`` says that a table of gains may have one decision more than there are classes.
    """
    K = len(classes)
    order = list(range(K))
    metric = aligned(metric, classes)
    if labels is not None:
        names = list(labels) if np.iterable(labels) and not isinstance(labels, str) else [labels]
        order = [classes.index(name) for name in names if name in classes]
        if len(names) != K or sorted(order) != list(range(K)):
            raise ValueError(f"labels must hold each of the classes ({_shown(classes)}) once, in order; got {labels!r}")
    if pos_label is None:
        metric = in_given_order(metric, order)
    else:
        metric = with_positive(metric, classes, pos_label)
        if labels is not None and classes[order[-1]] != pos_label:
            raise ValueError(f"labels={labels!r} and pos_label={pos_label!r} name different positive classes; pass one")
    M = metric.n_decisions(K)
    if metric.gain is not None and len(metric.gain) == K < M and not (abstains and M == K + 1):
        raise ValueError(
            f"the gain matrix of {metric.name} has {M} decisions for {K} classes, and an estimator predicts classes, "
            f"or abstains; pass abstain=True if the last of {K + 1} decisions is to abstain, and for other decisions "
            f"pass the model's probabilities to confmax.maximize"
        )
    # the order is settled: what else the metric demands of a table can be told before a model is fitted
    metric.check_table(K, max(K, M))
    if labels is None and pos_label is None:
        way_out = "pass labels= with the names in order, or pos_label= with the positive one of two"
        refuse_unstated_order(metric, classes, way_out)
    return metric


def rule_for(rule: DecisionRule | str | os.PathLike[str], classes: list[Any]) -> DecisionRule:
    """Return the given rule for the columns ``classes``."""
    if isinstance(rule, str) and rule == "argmax":
        return DecisionRule.from_weights(np.ones(len(classes)), classes=classes)
    # read as a path, the text of a rule would be a file that is missing, or a name that is too long
    if isinstance(rule, str) and rule.lstrip().startswith("{"):
        raise ValueError(
            "rule is the JSON text of a rule and is read as a path; pass DecisionRule.from_json(text), or the path of "
            "a file that holds it"
        )
    if isinstance(rule, (str, os.PathLike)):
        rule = DecisionRule.load(rule)
    refuse_labels(rule, "FixedRuleClassifier")
    if not isinstance(rule, DecisionRule):
        raise ValueError(
            f"rule must be a DecisionRule, the path of a saved one, or 'argmax'; got {type(rule).__name__}"
        )
    K = rule.n_classes
    names = list(rule.class_names[:K])
    further = rule.class_names[K:]
    # of further decisions an estimator knows abstaining alone
    fits = len(classes) == K and (not further or rule.abstain is not None)
    # a rule that is applied by position may meet a class of this name
    abstain_name(rule.abstain, classes)
    found = find([str(plain(name)) for name in names], classes) if fits else None
    if found is not None and found.places is not None:
        # the classes keep the estimator's spelling: 1, 1.0, "1" and True are one class
        ordered = rule.reordered([*(names[k] for k in found.places), *further])
        return replace(ordered, class_names=(*classes, *further))
    if fits and names == list(range(len(classes))):
        warn(
            f"the rule has no class names, and was applied by position to the estimator's classes "
            f"({assignment(list(map(str, names)), list(map(plain, classes)))}); name its classes in their order, as in "
            f"dataclasses.replace(rule, class_names=(...))"
        )
        # the classes of its constraints have other names here
        return replace(rule, class_names=(*classes, *further), constraints=())
    raise ValueError(
        f"the rule decides between ({_shown(rule.class_names)}), but the estimator's classes are ({_shown(classes)}); "
        f"pass a rule for these classes, or a rule of classes 0..{len(classes) - 1} to apply by position"
    )


def with_abstain(classes: NDArray[Any], name: Any) -> NDArray[Any]:
    """Return the ``classes`` (K,) and the ``name`` of abstaining (K + 1,), in an array of the classes' kind.

    It holds objects where no number, or no string, is both a class and such a name.

    >>> with_abstain(np.array([0, 1]), -1).tolist(), with_abstain(np.array([0, 1]), "abstain").dtype
    ([0, 1, -1], dtype('O'))
    """
    names = [*classes.tolist(), name]
    found = np.array(names)
    kind = classes.dtype.kind
    # one dtype for all may change a name: 0 beside "abstain" becomes "0", and True beside -1 becomes 1
    if found.tolist() == names and found.dtype.kind == {"u": "i"}.get(kind, kind):
        return found
    return np.array(names, dtype=object)
