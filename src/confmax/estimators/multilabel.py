"""scikit-learn estimator of several labels per row: tune which labels a row gets by cross-validation.

Splits of rows with several labels, in which every label has its share of every fold.

One model of all labels: whatever scikit-learn's classifiers make of several labels becomes a matrix (n, L).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import check_array, get_tags
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _num_samples, check_is_fitted

from confmax.confusion import Array, Confusion
from confmax.errors import InputError
from confmax.estimators import steps
from confmax.estimators.base import if_wrapped_has
from confmax.estimators.cross_fitting import CrossFitting
from confmax.metrics import Metric
from confmax.rule.labels import LabelRule
from confmax.solution.infeasible import or_raise
from confmax.solution.label_task import LabelPlan
from confmax.solution.labels import LabelSolution
from confmax.solution.several import tune
from confmax.solution.surprises import warn_of_refuted
from confmax.tables.columns import first_repeated, warn
from confmax.tables.decisions import several_of
from confmax.tables.draws import RandomState, dealt_labels
from confmax.tables.frames import column_names
from confmax.tables.labels import plain, refuse_masked
from confmax.tables.several import MATRIX_ALONE, encoded, kept_as_collections, labels_table, plain_matrix, sparse_form
from confmax.tables.weights import Weights


class Form(NamedTuple):
    """How labels were handed over: their names (L,), the type of a sparse matrix or None, and that of its numbers."""

    names: NDArray[Any]
    sparse: type[Any] | None
    dtype: np.dtype[Any]


SETTINGS = ("constraints", "on_infeasible", "confusion", "calibration", "shrinkage", "random_state")


class MetricMultilabelCV(CrossFitting):
    """Classifier of several labels per row, whose decisions are tuned for a metric by cross-validation.

    Parameters
    ----------
    estimator : estimator
        A classifier of several labels with ``predict_proba``, such as ``OneVsRestClassifier(LogisticRegression())``, a
        ``ClassifierChain``, a ``MultiOutputClassifier``, a forest, nearest neighbours, or an ``MLPClassifier``.
    metric : str, Metric or callable
        As in `confmax.maximize` for several labels: a mean over labels such as "macro_f1" (also by the name of
        scikit-learn's scorer, "f1_macro"), a micro average, or a function of three vectors (L,): how often labels are
        true, decided and true, and decided.
    decisions : "any", int k, or ("at_most", k)
        What is decided for a row: any labels, exactly the k best, or at most k.
    constraints, on_infeasible : str, Constraint or sequence of these; {"raise", "closest"}
        Limits that the rule must keep, such as "recall[chess] >= 0.8" and "labels_per_row <= 3", and what becomes of
        limits that no rule keeps, as in `confmax.maximize` for several labels.
    cv : None, int, float, splitter, iterable of splits or "prefit"
        An integer: that many folds, stratified by all labels. None: five of them. A number in (0, 1): one stratified
        hold-out of that share. A splitter or an iterable may leave rows out or repeat them; the rule is tuned on the
        test rows of all splits. "prefit": the estimator is already fitted, on all labels in the order of the columns of
        ``y``, and all rows that you pass are for tuning.
    refit : bool
        Whether to fit the estimator again on all rows. False keeps the model of the only split. With "prefit" nothing
        is fitted, and this parameter has no effect.
    ensemble : bool
        True keeps the models of all splits instead and decides by their mean probabilities; nothing is fitted again. It
        needs at least two splits, and multiplies the prediction time by their number.
    calibration, confusion, shrinkage : str, bool, float or object
        As in `confmax.maximize`.
    n_jobs : int or None
        Number of splits that are fitted in parallel, as in joblib.
    random_state : int, RandomState, Generator or None
        Seed of the folds or of the hold-out if ``cv`` is a number or None, and of a rule's draws. None takes a seed
        from the operating system; ``rule_.seed`` is that seed.
    progress : bool
        Whether `fit` shows on stderr which models are fitted.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model that computes the probabilities. It lacks labels that no row of ``y`` has, or all rows have.
    rule_ : LabelRule
        The tuned rule, which decides the columns of `predict_proba`.
    solution_ : LabelSolution
        The result of the tuning on the out-of-fold probabilities; ``solution_.labels`` shows every label apart.
    labels_ : ndarray (L,)
        Names of the labels: those of the columns of ``y``, else 0..L-1.
    classes_ : ndarray (L, 2)
        The classes of every label, absent and present: ``classes_[l]`` is that of scikit-learn's multi-output
        classifiers, whose list of arrays not all of its functions take beside one matrix of probabilities.
    n_features_in_, feature_names_in_
        Those of the wrapped model, if it has them.

    Warns
    -----
    UserWarning
        If fewer rows have, or have not, a label than there are folds, or if all training rows of a split agree on it.
        If no row has a label, as in `confmax.maximize`. The sentences name the labels.

    Notes
    -----
    ``rule_.predict(predict_proba(X))`` equals ``predict(X)``. The folds of a number are those of iterative
    stratification (Sechidis, Tsoumakas, Vlahavas, ECML PKDD 2011): each has its share of the rows of every label, as
    far as their number allows.

    A model is fitted on the labels on which its rows differ, since many classifiers refuse the others, or say 0 or 1.
    Where all of its rows agree on a label, its probability is the share of rows that have it, by Jeffreys' estimate
    ``(rows + 1/2) / (n + 1)``. A ``ClassifierChain`` with an ``order`` needs labels that differ in all folds.

    ``sample_weight`` weights the rows of the tuning table and is passed to the estimator's ``fit``; with metadata
    routing the estimator gets what it requests, and a splitter its ``groups``, as in `confmax.MetricClassifierCV`.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.metrics import f1_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from confmax import MetricMultilabelCV
    >>> X, Y = make_multilabel_classification(600, n_classes=6, n_labels=1, random_state=0)
    >>> plain = KNeighborsClassifier(15).fit(X[::2], Y[::2])
    >>> tuned = MetricMultilabelCV(KNeighborsClassifier(15), metric="macro_f1").fit(X[::2], Y[::2])
    >>> tuned.predict(X[1::2]).shape
    (300, 6)
    >>> bool(tuned.score(X[1::2], Y[1::2]) > f1_score(Y[1::2], plain.predict(X[1::2]), average="macro") + 0.05)
    True
    """

    rule_: LabelRule
    _unsure: ClassVar[str] = "the classifier of one label"

    def __init__(
        self,
        estimator: Any,
        *,
        metric: str | Metric | Callable[[Confusion], float] = "macro_f1",
        decisions: Any = "any",
        constraints: Any = (),
        on_infeasible: str = "raise",
        cv: Any = None,
        refit: bool = True,
        ensemble: bool = False,
        calibration: Any = "auto",
        confusion: str = "auto",
        shrinkage: Any = "auto",
        n_jobs: int | None = None,
        random_state: RandomState = 0,
        progress: bool = False,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.decisions = decisions
        self.constraints = constraints
        self.on_infeasible = on_infeasible
        self.cv = cv
        self.refit = refit
        self.ensemble = ensemble
        self.calibration = calibration
        self.confusion = confusion
        self.shrinkage = shrinkage
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **params: Any) -> MetricMultilabelCV:
        """Fit the wrapped estimator and tune the rule.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n, d)
            Features, in any form that the wrapped estimator accepts.
        y : array-like, data frame or scipy.sparse matrix (n, L)
            Which labels the rows have: 0 and 1, or booleans. Names of a frame's columns become the names of the labels.
            `predict` returns the same type of numbers, as an array, or as a CSR matrix if ``y`` is sparse.
        sample_weight : array-like (n,) or None
            Non-negative weights. The notes of the class say how they are used.
        **params : dict
            Metadata for the estimator's ``fit`` and the splitter's ``split``, with metadata routing enabled.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid. The message says what is wrong, where, and how to correct it.
        """
        self._fit_checked(X, y, sample_weight, None, params)
        return self

    def _labels(self, y: Any) -> NDArray[Any]:
        """Return the labels as a matrix of 0 and 1, and remember in which form they came."""
        refuse_masked(y, "y")
        names = column_names(y)
        if names is not None and (twice := first_repeated(names)) is not None:
            raise InputError(f"`y` has two columns {twice!r}; give each label its own name")
        if names is None and kept_as_collections(y):
            raise InputError(
                "`y` holds a collection of labels for every row, and a classifier is fitted on a matrix of 0 and 1",
                "pass sklearn.preprocessing.MultiLabelBinarizer().fit_transform(y)",
            )
        # also refuses complex numbers, infinite ones and missing labels
        given = check_array(y, accept_sparse="csr", ensure_2d=False, allow_nd=True, dtype=None, input_name="y")
        if given.ndim != 2:
            # scikit-learn's own checks look for the words of the message
            raise InputError(
                f"Only binary classification is supported, of every column of a matrix (n, L) of 0 and 1; `y` has "
                f"shape {given.shape} ({type_of_target(given)})",
                "pass one column per label, as sklearn.preprocessing.MultiLabelBinarizer gives it, or take "
                "MetricClassifierCV for one class per row",
            )
        n, n_labels = given.shape
        kind = sparse_form(y)
        number = given.dtype if given.dtype.kind in "biuf" else np.dtype(np.int64)
        # a fit that fails leaves the form of the one before, as it leaves the rule
        self._given = Form(np.arange(n_labels) if names is None else np.array(names), kind, number)
        if given.dtype.kind == "O":
            # frames of booleans and integers, among others
            with suppress(TypeError, ValueError):
                given = given.astype(np.float64)
        if given.dtype.kind not in "biuf":
            raise InputError(
                f"Unknown label type: row 0, column 0 of `y` is {plain(given[0, 0])!r}, and labels are 0 or 1",
                "pass a matrix (n, L), as sklearn.preprocessing.MultiLabelBinarizer gives it",
            )
        return encoded(given, tuple(self._given.names.tolist()), n, MATRIX_ALONE).astype(np.int64)

    def _fit(self, X: Any, y: Any, weight: Weights, group: Any, params: Mapping[str, Any]) -> None:
        names = self._given.names.tolist()
        n_labels = len(names)
        self._refuse_no_switch("refit", "ensemble")
        decisions = several_of(self.decisions, n_labels)
        plan = LabelPlan.checked(
            self.metric,
            decisions,
            **{name: getattr(self, name) for name in SETTINGS},
        )
        model = self._model()
        rows = np.arange(len(y))
        if self._is_prefit:
            model = LabelModel.prefit(model, n_labels)
            proba = model.predict_proba(X)
        else:
            if (y == y[:1]).all():
                raise InputError(
                    "all rows of `y` have the same labels (one class each): a classifier needs rows with a label and "
                    "rows without it",
                    "pass other rows",
                )
            routed = self._routed(weight, group, params)
            # the splitter is asked before the first fit, which may take long
            splits = label_splits(self.cv, X, y, routed["splitter"]["split"], plan.random_state, names)
            given = routed["estimator"]["fit"]
            model, proba, tests = self._cross_fitted(LabelModel(model), X, y, splits, given, list(range(n_labels)))
            rows = np.concatenate(tests)
        table = labels_table(plan.decisions, proba, y[rows], weight.of(rows).values, names)
        self.solution_: LabelSolution = or_raise(tune(plan, table), plan.on_infeasible)
        warn_of_refuted(self.solution_)
        self.rule_ = self.solution_.rule
        self._matrix_of = model
        if self._is_prefit:
            self.estimator_ = self.estimator
        else:
            self.estimator_ = model if self.ensemble else model.estimator
        self._form = self._given
        del self._given

    @property
    def labels_(self) -> NDArray[Any]:
        """Names of the labels (L,), the columns of `predict_proba`."""
        check_is_fitted(self, "estimator_")
        return self._form.names

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of every label (L, 2), absent and present."""
        return np.tile(np.array([0, 1], dtype=self._form.dtype), (len(self.labels_), 1))

    def predict(self, X: Any) -> Any:
        """Return which labels the rows of ``X`` (n, d) get: 0 and 1 (n, L), in the form of the ``y`` that was fitted.

        Raise a ValueError for what the wrapped estimator refuses.
        """
        check_is_fitted(self, "estimator_")
        chosen = self.rule_.predict(self._matrix_of.predict_proba(X)).astype(self._form.dtype)
        return chosen if self._form.sparse is None else self._form.sparse(chosen)

    def predict_lists(self, X: Any) -> list[list[Any]]:
        """Return the names of the labels that every row of ``X`` (n, d) gets; a ValueError as `predict`.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from confmax import MetricMultilabelCV
        >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]] * 5
        >>> tuned = MetricMultilabelCV(DecisionTreeClassifier()).fit(X, pd.DataFrame(X, columns=["red", "round"]))
        >>> tuned.predict_lists([[1, 0], [1, 1], [0, 0]])
        [['red'], ['red', 'round'], []]
        """
        check_is_fitted(self, "estimator_")
        return self.rule_.predict_lists(self._matrix_of.predict_proba(X))

    def decision_probabilities(self, X: Any) -> Array:
        """Return the exact probability (n, L) with which the rows of ``X`` (n, d) get every label, before any draw.

        Raise a ValueError for what the wrapped estimator refuses.
        """
        check_is_fitted(self, "estimator_")
        return self.rule_.decision_probabilities(self._matrix_of.predict_proba(X))

    @if_wrapped_has("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the model's probability (n, L) of every label for the rows of X (n, d), as one matrix."""
        check_is_fitted(self, "estimator_")
        return self._matrix_of.predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the tuned metric on rows ``X`` (n, d) with true labels ``y`` (n, L), weighted by ``sample_weight``.

        For a rule that draws it is the metric of what is expected. A label that no row had in `fit` is left out; one
        that none of these rows has counts as in scikit-learn with ``zero_division=0``. Raise a ValueError for labels
        that are no matrix of 0 and 1, as in `fit`.
        """
        check_is_fitted(self, "estimator_")
        proba = self._matrix_of.predict_proba(X)
        table = labels_table(self.rule_.decisions, proba, y, sample_weight, self.labels_.tolist())
        rows = table.head
        made = self.rule_.decision_probabilities(rows.proba)
        weights = rows.weights
        w = weights / weights.sum()
        assert rows.labels is not None
        return float(self.solution_.metric.values(Confusion(w @ rows.labels, w @ (rows.labels * made), w @ made)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # as MultiOutputClassifier and ClassifierChain: a matrix of labels, never a vector of classes
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        return tags


# --- splits of rows with several labels, in which every label has its share of every fold -----------------------------


NAMED = 5  # labels that a warning names
Splits = list[tuple[Any, Any]]


def label_splits(cv: Any, X: Any, Y: NDArray[Any], params: Any, seed: int, names: Sequence[Any]) -> Splits:
    """Return the splits that ``cv`` stands for: of a number, stratified by all labels (n, L) of 0 and 1.

    Warn, by name, of labels that cannot be in all folds, and of those on which the rows of a model agree.
    """
    n_folds = None
    if cv is None or isinstance(cv, Integral):
        n_folds = check_cv(cv).get_n_splits()
        shares, tested = np.full(n_folds, 1.0 / n_folds), range(n_folds)
    elif isinstance(cv, Real):
        # one split, which tests the second part
        shares, tested = np.array([1.0 - steps.hold_out(cv), steps.hold_out(cv)]), range(1, 2)
    else:
        splits = steps.own_splits(check_cv(cv), X, Y, params)
        _warn_of_rare(Y, splits, names)
        return splits
    fold = stratified(Y, shares, seed)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in tested]
    if not all(len(train) and len(test) for train, test in splits):
        raise ValueError(f"cv={cv!r} leaves no rows to fit or to test, of {len(Y)}; pass another cv, or more rows")
    _warn_of_rare(Y, splits, names, n_folds)
    return splits


def stratified(Y: NDArray[Any], shares: Array, seed: int) -> NDArray[np.intp]:
    """Return the fold (n,) of every row of labels (n, L), for folds that get ``shares`` (F,) of rows and labels.

    The rows are dealt out in an order that depends on the seed, so that sorted rows are spread over all folds.

    >>> stratified(np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 0], [0, 0]]), np.array([0.5, 0.5]), 0).tolist()
    [0, 1, 1, 0, 1, 0]
    """
    return dealt_labels(Y, shares, np.random.default_rng(seed).permutation(len(Y)))


def _warn_of_rare(Y: NDArray[Any], splits: Splits, names: Sequence[Any], n_folds: int | None = None) -> None:
    """Warn of labels on which too few rows differ for the splits; not of those on which none do."""
    rows = Y.sum(axis=0)
    fewer = np.minimum(rows, len(Y) - rows)
    if n_folds is None:
        alike = np.any([(Y[train] == Y[train][:1]).all(axis=0) for train, _ in splits], axis=0)
        why = "all training rows of a split agree on the"
    else:
        alike = fewer < n_folds
        why = f"for {n_folds} folds, too few rows have or have not the"
    found = np.flatnonzero(alike & (fewer > 0))
    if not len(found):
        return
    shown = ", ".join(f"{names[k]!r} ({rows[k]} of {len(Y)} rows)" for k in found[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    warn(
        f"{why} label{'s' if len(found) > 1 else ''} {shown}{more}; where all rows of a model agree on a label, its "
        f"probability is their share: pass a smaller cv, or more such rows"
    )


# --- one model of all labels ------------------------------------------------------------------------------------------


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
