"""Several labels per row: every classifier of several labels, folds with all labels, and scikit-learn's ways."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import f1_score, get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

import confmax
from confmax import MetricMultilabelCV
from confmax.estimators.multilabel import label_splits, stratified

NB = MultiOutputClassifier(GaussianNB())
MODELS = [
    OneVsRestClassifier(GaussianNB()),
    NB,
    ClassifierChain(GaussianNB()),
    RandomForestClassifier(5, max_depth=4, random_state=0),
    ExtraTreesClassifier(5, max_depth=4, random_state=0),
    DecisionTreeClassifier(max_depth=4, random_state=0),
    KNeighborsClassifier(9),
    make_pipeline(StandardScaler(), MLPClassifier((3,), alpha=1.0, max_iter=500, solver="lbfgs", random_state=0)),
    make_pipeline(StandardScaler(), NB),
]
# scikit-learn skips its own checks for its own classifiers that take nothing but matrices of labels
FOREIGN = {
    **dict.fromkeys(["check_classifiers_classes", "check_classifiers_train"], "the check is of a vector of classes"),
    **dict.fromkeys(
        ["check_estimator_sparse_array", "check_estimator_sparse_matrix"],
        "the check expects two columns of probabilities for one label",
    ),
}


if parse_version(sklearn.__version__) < parse_version("1.7"):
    FOREIGN |= dict.fromkeys(
        [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
        "the check gives rows other labels if another row comes first",
    )


def present(y):
    """Return labels whose larger number is 1, if they are a matrix of numbers."""
    values = np.asarray(y)
    if values.ndim != 2 or values.dtype.kind not in "ifO" or not np.isfinite(values.astype(float)).all():
        return y
    return (values > values.min()).astype(int)


class Checked(MetricMultilabelCV):
    """The estimator, of the labels that scikit-learn's checks have: any two numbers."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, present(y), sample_weight)

    def score(self, X, y):
        return super().score(X, present(y))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # one check compares decisions with p > 1/2, which are not those of a tuned rule
        tags.classifier_tags.poor_score = True
        return tags


@pytest.fixture(scope="module")
def data():
    return make_multilabel_classification(160, 6, n_classes=4, n_labels=1, random_state=3)


@pytest.fixture(scope="module")
def weight():
    return np.random.default_rng(5).integers(0, 4, 160).astype(float)


def by_hand(model, X, Y, splits, metric="macro_f1", *, weight=None, fit_weight=None, **settings):
    """What the estimator promises: the test rows of all splits, stacked, go to `maximize`."""
    tables = []
    for train, test in splits:
        given = {} if fit_weight is None else {"sample_weight": fit_weight[train]}
        P = clone(model).fit(X[train], Y[train], **given).predict_proba(X[test])
        tables.append(np.column_stack([p[:, 1] for p in P]) if isinstance(P, list) else P)
    rows = np.concatenate([test for _, test in splits])
    weights = None if weight is None else weight[rows]
    return confmax.maximize(metric, np.concatenate(tables), Y[rows], sample_weight=weights, decisions="any", **settings)


@parametrize_with_checks(
    [Checked(MultiOutputClassifier(LogisticRegression()), cv=2)], expected_failed_checks=lambda _: FOREIGN
)
@pytest.mark.filterwarnings("ignore:for 2 folds, too few rows:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- every shape of probabilities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_classifier_of_several_labels(data, model):
    X, Y = data
    tuned = MetricMultilabelCV(model, cv=3).fit(X, Y)
    assert tuned.rule_ == by_hand(model, X, Y, label_splits(3, X, Y, {}, 0, range(4))).rule
    P = tuned.predict_proba(X)
    assert P.shape == Y.shape
    found = clone(model).fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(P, np.column_stack([p[:, 1] for p in found]) if isinstance(found, list) else found)
    D = tuned.predict(X)
    np.testing.assert_array_equal(D, tuned.rule_.predict(P))
    assert D.dtype == Y.dtype
    assert tuned.score(X, Y) == pytest.approx(f1_score(Y, D, average="macro", zero_division=0), abs=1e-12)


@pytest.mark.parametrize(
    "model", [MODELS[0], NB, ClassifierChain(GaussianNB()), DecisionTreeClassifier()], ids=lambda m: type(m).__name__
)
@pytest.mark.parametrize("n_labels", [1, 2])
def test_one_and_two_labels(data, model, n_labels):
    X, Y = data
    Y = Y[:, :n_labels]
    tuned = MetricMultilabelCV(model, cv=3).fit(X, Y)
    assert tuned.predict(X).shape == tuned.predict_proba(X).shape == Y.shape
    given = {"cv": "prefit", "confusion": "labels", "calibration": None}
    prefit = MetricMultilabelCV(clone(model).fit(X, Y), **given).fit(X, Y)
    np.testing.assert_allclose(prefit.predict_proba(X), tuned.predict_proba(X))


class Giving(ClassifierMixin, BaseEstimator):
    """A classifier that gives what it is told to."""

    def __init__(self, proba, classes):
        self.proba = proba
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = self.classes
        return self

    def predict_proba(self, X):
        return self.proba


@pytest.mark.parametrize(
    ("proba", "classes", "sentence"),
    [
        (np.full((4, 3), 0.5), np.arange(3), "Giving gives probabilities of 3 labels, and y has 2"),
        ([np.full((4, 2), 0.5)] * 3, [[0, 1]] * 3, "Giving gives probabilities of 3 labels, and y has 2"),
        ([np.full((4, 3), 0.3)] * 2, [[0, 1, 2]] * 2, r"has the classes 0, 1, 2 of label 0, .* shape \(4, 3\)"),
        ([np.full((4, 2), 0.5)] * 2, [["n", "y"]] * 2, "has the classes 'n', 'y' of label 0"),
        (np.full((4, 2), 1.5), np.arange(2), "row 0, column 0 of proba is 1.5"),
    ],
)
def test_other_probabilities_are_refused(proba, classes, sentence):
    model = Giving(proba, classes).fit(None, None)
    with pytest.raises(ValueError, match=sentence):
        MetricMultilabelCV(model, cv="prefit").fit(np.zeros((4, 1)), [[0, 1], [1, 0], [1, 1], [0, 0]])


def test_a_fitted_model_may_have_seen_one_class_of_a_label(data):
    X, Y = data
    Y = Y.copy()
    Y[:80, 0], Y[:80, 1] = 0, 1
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[:80], Y[:80])
    assert [p.shape[1] for p in model.predict_proba(X)] == [1, 1, 2, 2]
    for one in (MetricMultilabelCV(model, cv="prefit"), MetricMultilabelCV(FrozenEstimator(model), cv=2)):
        P = one.fit(X[80:], Y[80:]).predict_proba(X)
        assert (P[:, 0] == 0).all() and (P[:, 1] == 1).all() and 0 < P[:, 2].mean() < 1


def test_sparse_probabilities_are_read(data):
    X, Y = data
    P = NB.fit(X, Y).predict_proba(X)
    P = np.column_stack([p[:, 1] for p in P])
    given = [Giving(found, np.arange(4)).fit(X, Y) for found in (P, scipy.sparse.lil_matrix(P))]
    rules = [MetricMultilabelCV(model, cv="prefit").fit(X, Y).rule_ for model in given]
    assert rules[0] == rules[1]


@pytest.mark.parametrize("model", [OneVsRestClassifier(LinearSVC()), RidgeClassifier()])
def test_models_without_probabilities_are_refused(data, model):
    with pytest.raises(ValueError, match="or wrap the classifier of one label in CalibratedClassifierCV"):
        MetricMultilabelCV(model).fit(*data)
    assert not hasattr(MetricMultilabelCV(model), "predict_proba")


@pytest.mark.parametrize("decisions", [2, ("at_most", 2)])
def test_budgets_of_labels(data, decisions):
    X, Y = data
    tuned = MetricMultilabelCV(NB, decisions=decisions, cv=3).fit(X, Y)
    D = tuned.predict(X)
    made = set(D.sum(axis=1).tolist())
    assert made == {2} if decisions == 2 else max(made) == 2 > min(made)
    np.testing.assert_array_equal(D, tuned.rule_.predict(tuned.predict_proba(X)))
    expected = f1_score(Y, tuned.decision_probabilities(X) > 0.5, average="macro", zero_division=0)
    assert tuned.rule_.is_randomized or tuned.score(X, Y) == pytest.approx(expected, abs=1e-12)


# --- labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.lil_matrix])
def test_sparse_labels_give_sparse_decisions(data, form):
    X, Y = data
    plain = MetricMultilabelCV(NB).fit(X, Y)
    tuned = MetricMultilabelCV(NB).fit(X, form(Y))
    D = tuned.predict(X)
    assert D.format == "csr" and isinstance(D, scipy.sparse.sparray) == (form is scipy.sparse.csc_array)
    np.testing.assert_array_equal(D.toarray(), plain.predict(X))
    assert tuned.score(X, form(Y)) == plain.score(X, Y)
    assert GridSearchCV(tuned, {"metric": ["micro_f1"]}, scoring="f1_macro", cv=2).fit(X, form(Y)).best_score_ > 0.3


def test_every_way_to_hand_over_labels(data):
    X, Y = data
    names = list("abcd")
    plain = MetricMultilabelCV(NB).fit(X, Y)
    assert plain.classes_.tolist() == [[0, 1]] * 4
    assert plain.labels_.tolist() == [0, 1, 2, 3]
    for y, kind in (
        (Y.astype(bool), "b"),
        (Y.astype(np.float32), "f"),
        (Y.tolist(), "i"),
        (pd.DataFrame(Y, columns=names), "i"),
        (pd.DataFrame(Y, columns=names).astype({"a": bool}), "i"),
    ):
        tuned = MetricMultilabelCV(NB).fit(X, y)
        D = tuned.predict(X)
        assert D.dtype.kind == kind
        np.testing.assert_array_equal(D, plain.predict(X))
    assert tuned.labels_.tolist() == names == list(tuned.rule_.class_names)
    assert tuned.predict_lists(X)[0] == [names[k] for k in np.flatnonzero(D[0])]
    assert tuned.score(X, pd.DataFrame(Y, columns=names)[["b", "a", "d", "c"]]) == plain.score(X, Y)


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (None, "requires y to be passed"),
        ([0, 1, 1, 0], r"y has shape \(4,\) \(binary\); pass one column per label"),
        ([["a", "b"]] * 4, "Unknown label type: row 0, column 0 of y is 'a'"),
        ([["a"], ["b", "c"], [], ["a"]], r"y holds a collection of labels for every row, .*MultiLabelBinarizer"),
        ([[0, 2], [1, 0], [0, 1], [1, 1]], "row 0, column 1 of y is 2, and labels are 0 or 1"),
        ([[0, 0.5], [1, 0], [0, 1], [1, 1]], "row 0, column 1 of y is 0.5"),
        ([[0, np.nan], [1, 0], [0, 1], [1, 1]], "y contains NaN"),
        ([[0, 1], [1, 0]], "inconsistent numbers of samples"),
        ([[0, 1]] * 4, "all rows of y have the same labels"),
        (pd.DataFrame([[0, 1], [1, 0], [1, 1], [0, 0]], columns=["a", "a"]), "two columns 'a'"),
    ],
)
def test_bad_labels_are_refused_in_a_sentence(y, sentence):
    with pytest.raises(ValueError, match=sentence):
        MetricMultilabelCV(NB, cv=2).fit(np.arange(4.0)[:, None], y)


def test_a_classifier_of_one_class_is_refused_in_a_sentence(data):
    with pytest.raises(ValueError, match=r"^LogisticRegression does not take several labels per row: .*; wrap it, as"):
        MetricMultilabelCV(LogisticRegression()).fit(*data)


def test_a_fit_that_fails_leaves_the_one_before(data):
    X, Y = data
    tuned = MetricMultilabelCV(NB).fit(X, Y)
    before = tuned.predict(X)
    with pytest.raises(ValueError, match="use hamming"):
        tuned.set_params(metric="accuracy").fit(X, pd.DataFrame(Y[:, :2] == 1, columns=["a", "b"]))
    assert tuned.labels_.tolist() == [0, 1, 2, 3]
    assert tuned.predict(X).dtype == before.dtype
    np.testing.assert_array_equal(tuned.predict(X), before)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"metric": "accuracy"}, "use hamming"),
        ({"metric": "quadratic_kappa"}, "no metric 'quadratic_kappa' of several labels"),
        ({"decisions": 9}, "decisions asks for 9 labels of every row, and there are 4"),
        ({"decisions": "all"}, "decisions is 'one', 'any', a number of labels k"),
        ({"decisions": "one"}, "decisions is of several labels per row: 'any'"),
        ({"confusion": "guess"}, "confusion must be one of"),
        ({"shrinkage": -1}, "shrinkage is 'auto', False, or how many true rows"),
        ({"refit": "no"}, "refit must be True or False"),
        ({"refit": False}, "refit=False needs one split, but cv gave 5"),
        ({"ensemble": True, "cv": 0.3}, "averages several fold models, but cv gave one split"),
        ({"cv": 1.5}, "must lie between 0 and 1; got 1.5"),
        ({"cv": 0.001}, "cv=0.001 leaves no rows to fit or to test, of 160"),
        ({"cv": 200}, "cv=200 leaves no rows to fit or to test, of 160"),
        ({"cv": []}, "cv gave no splits"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_fitted(data, settings, sentence):
    class Never(DecisionTreeClassifier):
        def fit(self, *_args, **_more):
            raise AssertionError("fitted")

    with pytest.raises(ValueError, match=sentence):
        MetricMultilabelCV(Never(), **settings).fit(*data)


# --- folds and labels that few rows have -----------------------------------------------------------------------------


def test_every_fold_has_its_share_of_every_label():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Y = (rng.random((300, 12)) < rng.uniform(0.02, 0.98, 12)).astype(int)
        fold = stratified(Y, np.full(5, 0.2), seed)
        counts = np.array([Y[fold == k].sum(axis=0) for k in range(5)])
        absent = np.array([(1 - Y[fold == k]).sum(axis=0) for k in range(5)])
        # every label is in every fold, and so is its absence, where five rows have it
        assert (counts.min(axis=0) >= (Y.sum(axis=0) >= 5)).all()
        assert (absent.min(axis=0) >= ((1 - Y).sum(axis=0) >= 5)).all()
        assert np.ptp(np.bincount(fold)) <= 2
        assert np.abs(counts - Y.sum(axis=0) / 5).max() < 3
        by_number = [Y[test].sum(axis=0) for _, test in KFold(5).split(Y)]
        assert np.std(counts, axis=0).mean() < np.std(by_number, axis=0).mean() / 3
        np.testing.assert_array_equal(fold, stratified(Y, np.full(5, 0.2), seed))
        assert (fold != stratified(Y, np.full(5, 0.2), seed + 1)).any()


def test_a_hold_out_has_its_share_of_every_label(data):
    X, Y = data
    ((train, test),) = label_splits(0.25, X, Y, {}, 7, range(4))
    assert sorted([*train, *test]) == list(range(160)) and len(test) == 40
    assert np.abs(Y[test].mean(axis=0) - Y.mean(axis=0)).max() < 0.02
    tuned = MetricMultilabelCV(NB, cv=0.25, refit=False, random_state=7).fit(X, Y)
    assert tuned.rule_ == by_hand(NB, X, Y, [(train, test)], random_state=7).rule
    expected = clone(NB).fit(X[train], Y[train]).predict_proba(X)[0][:, 1]
    np.testing.assert_array_equal(tuned.predict_proba(X)[:, 0], expected)


@pytest.mark.parametrize(
    "model", [MultiOutputClassifier(LogisticRegression()), OneVsRestClassifier(GaussianNB()), MODELS[5]]
)
def test_a_label_of_one_row_is_fitted_where_it_can_be(data, model):
    X, Y = data
    Y = np.column_stack([Y, np.arange(160) == 3, np.arange(160) != 4]).astype(int)
    with pytest.warns(UserWarning, match=r"^for 5 folds, too few rows have or have not the labels 4 \(1 of") as w:
        tuned = MetricMultilabelCV(model).fit(X, Y)
    # scikit-learn's own warnings of constant labels are not among these
    assert len(w) == 1 and w[0].filename == __file__
    assert tuned.predict(X).shape == Y.shape
    assert np.ptp(tuned.predict_proba(X)[:, 4]) > 0


def test_a_label_on_which_all_rows_agree_has_their_share_as_its_probability(data):
    X, Y = data
    Y = np.column_stack([Y, np.zeros(160), np.ones(160)]).astype(int)
    model = MultiOutputClassifier(LogisticRegression())
    with pytest.warns(UserWarning, match="no row of y has the label 4: the metric leaves") as w:
        tuned = MetricMultilabelCV(model).fit(X, Y)
    assert len(w) == 1
    P = tuned.predict_proba(X)
    np.testing.assert_allclose(P[:, 4:], [[0.5 / 161, 160.5 / 161]] * 160)
    np.testing.assert_allclose(P[:, :4].T, [p[:, 1] for p in clone(model).fit(X, Y[:, :4]).predict_proba(X)])
    assert tuned.predict(X)[:, 5].all()
    # of a splitter's own folds, a label may be in one alone
    alone = np.flatnonzero(Y[:, 0])
    rest = np.setdiff1d(np.arange(160), alone)
    cv = [(rest, alone), (np.r_[alone, rest[::2]], rest[1::2])]
    with pytest.warns(UserWarning, match=r"^all training rows of a split agree on the label 0 \("):
        MetricMultilabelCV(model, cv=cv).fit(X, Y[:, :4])


# --- among scikit-learn's estimators ---------------------------------------------------------------------------------


def test_weights_reach_the_folds_and_the_table(data, weight):
    X, Y = data
    tuned = MetricMultilabelCV(NB).fit(X, Y, sample_weight=weight)
    splits = label_splits(5, X, Y, {}, 0, range(4))
    assert tuned.rule_ == by_hand(NB, X, Y, splits, weight=weight, fit_weight=weight).rule
    assert tuned.rule_ != by_hand(NB, X, Y, splits, weight=weight).rule
    D = tuned.predict(X)
    expected = f1_score(Y, D, average="macro", sample_weight=weight)
    assert tuned.score(X, Y, sample_weight=weight) == pytest.approx(expected, abs=1e-12)
    again = MetricMultilabelCV(NB).fit(X, Y, sample_weight=pd.Series(weight))
    assert again.rule_ == tuned.rule_
    for wrong in (weight[:-1], weight[:, None] * [1, 1], -weight):
        with pytest.raises(ValueError, match=r"sample_weight|Sample weights"):
            MetricMultilabelCV(NB).fit(X, Y, sample_weight=wrong)
    with pytest.warns(UserWarning, match=r"KNeighborsClassifier\.fit has no parameter sample_weight"):
        MetricMultilabelCV(KNeighborsClassifier()).fit(X, Y, sample_weight=weight)


def test_metadata_is_routed(data, weight):
    X, Y = data
    groups = np.random.default_rng(0).integers(0, 9, len(Y))
    with pytest.raises(ValueError, match="passes groups on only by metadata routing; call"):
        MetricMultilabelCV(NB).fit(X, Y, groups=groups)
    splits = list(GroupKFold(3).split(X, Y, groups))
    fitted, unweighted = (by_hand(NB, X, Y, splits, fit_weight=w).rule for w in (weight, None))
    scaled = StandardScaler().fit_transform(X)
    tuned_only = by_hand(NB, scaled, Y, label_splits(5, X, Y, {}, 0, range(4)), weight=weight).rule
    with config_context(enable_metadata_routing=True):
        model = MultiOutputClassifier(GaussianNB().set_fit_request(sample_weight="w"))
        tuned = MetricMultilabelCV(model, cv=GroupKFold(3)).fit(X, Y, groups=groups, w=weight)
        assert tuned.rule_ == fitted
        assert tuned.fit(X, Y, groups=groups).rule_ == unweighted
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            MetricMultilabelCV(MultiOutputClassifier(GaussianNB())).fit(X, Y, sample_weight=weight)
        # through a pipeline, to the tuning alone
        inner = MetricMultilabelCV(MultiOutputClassifier(GaussianNB().set_fit_request(sample_weight=False)))
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        piped = make_pipeline(scaler, inner.set_fit_request(sample_weight=True))
        assert piped.fit(X, Y, sample_weight=weight)[-1].rule_ == tuned_only


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_jobs_do_not_change_the_result(data, backend):
    X, Y = data
    with parallel_config(backend):
        assert MetricMultilabelCV(NB, n_jobs=2).fit(X, Y).rule_ == MetricMultilabelCV(NB).fit(X, Y).rule_


def test_an_ensemble_decides_by_the_mean(data):
    X, Y = data
    tuned = MetricMultilabelCV(NB, cv=3, ensemble=True).fit(X, Y)
    splits = label_splits(3, X, Y, {}, 0, range(4))
    parts = [[p[:, 1] for p in clone(NB).fit(X[train], Y[train]).predict_proba(X)] for train, _ in splits]
    np.testing.assert_allclose(tuned.predict_proba(X).T, np.mean(parts, axis=0))
    assert tuned.n_features_in_ == 6
    assert tuned.rule_ == by_hand(NB, X, Y, splits).rule


def test_frames_and_sparse_features(data):
    X, Y = data
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(6)])
    plain = MetricMultilabelCV(NB).fit(X, Y)
    tuned = MetricMultilabelCV(NB).fit(frame, Y)
    assert tuned.rule_ == plain.rule_ and tuned.n_features_in_ == 6
    assert not hasattr(plain, "feature_names_in_")
    trees = MetricMultilabelCV(DecisionTreeClassifier(max_depth=3, random_state=0))
    rules = [clone(trees).fit(form(X), Y).rule_ for form in (np.asarray, scipy.sparse.csr_matrix)]
    assert rules[0] == rules[1]
    assert clone(trees).fit(frame, Y).feature_names_in_.tolist() == list(frame.columns)


def test_in_searches_pipelines_and_scorers(data):
    X, Y = data
    search = GridSearchCV(
        MetricMultilabelCV(make_pipeline(StandardScaler(), NB), cv=3),
        {"metric": ["f1_macro", "f1_micro"], "estimator__multioutputclassifier__estimator__var_smoothing": [1e-9, 0.1]},
        scoring="f1_macro",
        cv=2,
    ).fit(X, Y)
    assert search.best_estimator_.predict(X).shape == Y.shape
    tuned = MetricMultilabelCV(NB, cv=3)
    assert cross_val_score(tuned, X, Y, cv=3, error_score="raise").min() > 0.3
    assert cross_val_predict(tuned, X, Y, cv=3, method="predict_proba").shape == Y.shape
    for n_labels in (2, 4):
        few = clone(tuned).fit(X, Y[:, :n_labels])
        plain = get_scorer("roc_auc")(clone(NB).fit(X, Y[:, :n_labels]), X, Y[:, :n_labels])
        assert get_scorer("roc_auc")(few, X, Y[:, :n_labels]) == pytest.approx(plain)
    piped = make_pipeline(StandardScaler(), tuned).fit(X, Y)
    assert piped.score(X, Y) == piped[-1].score(StandardScaler().fit_transform(X), Y)
    assert clone(tuned).set_params(metric="micro_f1").fit(X, Y).rule_.metric == "micro_f1"


def test_nothing_of_the_training_data_is_kept():
    def size(n):
        X, Y = make_multilabel_classification(n, 6, n_classes=4, random_state=0)
        tuned = MetricMultilabelCV(NB, cv=2).fit(X, Y)
        loaded = pickle.loads(pickle.dumps(tuned))
        np.testing.assert_array_equal(loaded.predict(X), tuned.predict(X))
        return len(pickle.dumps(tuned))

    assert size(4000) < size(200) + 500


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_lists", "decision_probabilities", "score"])
def test_not_fitted(data, method):
    call = getattr(MetricMultilabelCV(NB), method)
    with pytest.raises(NotFittedError):
        call(*data) if method == "score" else call(data[0])
    with pytest.raises(NotFittedError, match="needs a fitted estimator"):
        MetricMultilabelCV(GaussianNB(), cv="prefit").fit(*data)


@pytest.mark.parametrize("seed", [None, np.random.RandomState(0), np.random.default_rng(0)])
def test_random_states(data, seed):
    X, Y = data
    tuned = MetricMultilabelCV(NB, random_state=seed).fit(X, Y)
    assert tuned.rule_ == MetricMultilabelCV(NB, random_state=tuned.rule_.seed).fit(X, Y).rule_


@pytest.fixture(scope="module")
def samples():
    return [make_multilabel_classification(900, n_classes=5, n_labels=2, random_state=seed) for seed in range(3)]


@pytest.mark.parametrize("model", [MODELS[3], MODELS[6], MultiOutputClassifier(LogisticRegression(max_iter=500))])
def test_tuned_decisions_have_a_higher_f1_on_other_rows(samples, model):
    gains = []
    for X, Y in samples:
        plain = clone(model).fit(X[:300], Y[:300]).predict(X[300:])
        tuned = MetricMultilabelCV(model).fit(X[:300], Y[:300])
        gains.append(tuned.score(X[300:], Y[300:]) - f1_score(Y[300:], plain, average="macro", zero_division=0))
    assert np.mean(gains) > 0.01


def test_the_estimator_asks_for_a_matrix_alone():
    """It does not take lists of names, and does not propose them."""
    X, Y = make_multilabel_classification(40, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match=r"labels are 0 or 1; pass a matrix \(n, L\) of 0 and 1$"):
        MetricMultilabelCV(KNeighborsClassifier(3)).fit(X, 2 * Y)
