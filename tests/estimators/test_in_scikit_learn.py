"""Among scikit-learn's estimators: its own checks, weights and metadata, scores, pipelines, given rules."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, pairwise_distances, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import confmax
from confmax import DecisionRule
from confmax.calibration import MatrixScaling, VectorScaling
from confmax.confusion import Gains
from confmax.estimators import FixedRuleClassifier, MetricClassifierCV
from confmax.evaluate.thresholds import class_thresholds
from tests.estimators.helpers import NAMES, RANK, assert_invariant, by_hand


@parametrize_with_checks(
    [
        MetricClassifierCV(LogisticRegression(), cv=2, fold_rules=False),
        FixedRuleClassifier(LogisticRegression(), "argmax"),
    ]
)
@pytest.mark.filterwarnings("ignore:class .* has fewer rows:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- weights and metadata --------------------------------------------------------------------------------------------


def test_weights_reach_the_folds_and_the_table(three, weight):
    X, y, _ = three
    clf = MetricClassifierCV(GaussianNB(), metric="macro_f1", cv=4).fit(X, y, sample_weight=weight)
    splits = list(StratifiedKFold(4).split(X, y))
    assert clf.rule_ == by_hand(GaussianNB(), X, y, splits, weight=weight, fit_weight=weight).rule
    assert clf.rule_ != by_hand(GaussianNB(), X, y, splits, weight=weight).rule
    assert clf.rule_ != by_hand(GaussianNB(), X, y, splits, fit_weight=weight).rule
    np.testing.assert_array_equal(clf.estimator_.theta_, GaussianNB().fit(X, y, sample_weight=weight).theta_)


def test_an_estimator_without_weights_is_tuned_with_them(three, weight):
    X, y, _ = three
    clf = MetricClassifierCV(KNeighborsClassifier(20), metric="macro_f1", cv=4)
    with pytest.warns(UserWarning, match=r"KNeighborsClassifier\.fit has no parameter sample_weight") as w:
        clf.fit(X, y, sample_weight=weight)
    assert w[0].filename == __file__
    splits = list(StratifiedKFold(4).split(X, y))
    assert clf.rule_ == by_hand(KNeighborsClassifier(20), X, y, splits, weight=weight).rule
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    clf = MetricClassifierCV(frozen)
    assert clf.fit(X, y, sample_weight=weight).rule_ != clf.fit(X, y).rule_


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_weights(three, weight, bad):
    X, y, _ = three
    wrong = weight.copy()
    wrong[3] = bad
    model = GaussianNB().fit(X, y)
    with pytest.raises(ValueError, match=r"sample_weight|Negative"):
        MetricClassifierCV(model, cv="prefit", refit=False).fit(X, y, sample_weight=wrong)


@pytest.mark.parametrize("estimator", [MetricClassifierCV(GaussianNB()), FixedRuleClassifier(GaussianNB(), "argmax")])
def test_other_metadata_needs_routing(three, estimator):
    X, y, _ = three
    with pytest.raises(ValueError, match="passes groups on only by metadata routing; call"):
        estimator.fit(X, y, groups=y)


def test_routing_brings_groups_to_the_splitter(three):
    X, y, _ = three
    groups = np.random.default_rng(0).integers(0, 9, len(y))
    with config_context(enable_metadata_routing=True):
        clf = MetricClassifierCV(GaussianNB(), metric="macro_f1", cv=GroupKFold(3)).fit(X, y, groups=groups)
    splits = list(GroupKFold(3).split(X, y, groups))
    assert clf.rule_ == by_hand(GaussianNB(), X, y, splits).rule


def test_routing_decides_who_gets_weights(three, weight):
    X, y, _ = three
    splits = list(StratifiedKFold(4).split(X, y))
    both = by_hand(GaussianNB(), X, y, splits, weight=weight, fit_weight=weight).rule
    tuned = by_hand(GaussianNB(), X, y, splits, weight=weight).rule
    fitted = by_hand(GaussianNB(), X, y, splits, fit_weight=weight).rule
    assert len({both, tuned, fitted}) == 3
    with config_context(enable_metadata_routing=True):
        clf = MetricClassifierCV(GaussianNB().set_fit_request(sample_weight=True), metric="macro_f1", cv=4)
        assert clf.fit(X, y, sample_weight=weight).rule_ == both
        clf.estimator.set_fit_request(sample_weight=False)
        assert clf.fit(X, y, sample_weight=weight).rule_ == tuned
        clf.estimator.set_fit_request(sample_weight="w")
        assert clf.fit(X, y, w=weight).rule_ == fitted
        unset = MetricClassifierCV(GaussianNB())
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            unset.fit(X, y, sample_weight=weight)
        with pytest.raises(TypeError, match="unheard"):
            clf.fit(X, y, unheard=weight)
        prefit = MetricClassifierCV(GaussianNB().fit(X, y), cv="prefit", refit=False)
        assert prefit.fit(X, y, sample_weight=weight).rule_ != prefit.fit(X, y).rule_


def test_fixed_rules_pass_weights_on(three, weight):
    X, y, _ = three
    expected = GaussianNB().fit(X, y, sample_weight=weight).theta_
    clf = FixedRuleClassifier(GaussianNB(), "argmax").fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(clf.estimator_.theta_, expected)
    with config_context(enable_metadata_routing=True):
        clf = FixedRuleClassifier(GaussianNB().set_fit_request(sample_weight="w"), "argmax").fit(X, y, w=weight)
    np.testing.assert_array_equal(clf.estimator_.theta_, expected)


# --- score -----------------------------------------------------------------------------------------------------------


def test_score_is_the_tuned_metric(three, weight):
    X, y, _ = three
    clf = MetricClassifierCV(GaussianNB()).fit(X, y)
    expected = balanced_accuracy_score(y, clf.predict(X), sample_weight=weight)
    assert clf.score(X, y, sample_weight=weight) == pytest.approx(expected, abs=1e-12)
    assert clf.score(X, y) == pytest.approx(balanced_accuracy_score(y, clf.predict(X)), abs=1e-12)
    assert clf.score(X, y) != accuracy_score(y, clf.predict(X))


def test_score_of_a_randomised_rule_is_exact(three):
    X, y, _ = three
    clf = MetricClassifierCV(GaussianNB(), metric="g_mean").fit(X, y)
    clf.rule_ = replace(clf.rule_, gains=Gains.reduced([[1, 2, 3], [5, 1, 2]]), weights=np.array([0.6, 0.4]))
    C = np.eye(3)[np.searchsorted(NAMES, y)].T @ clf.rule_.decision_probabilities(clf.predict_proba(X)) / len(y)
    assert clf.score(X, y) == pytest.approx(clf.solution_.metric.value(C), abs=1e-12)
    assert_invariant(clf, X)
    np.testing.assert_array_equal(clf.predict(X)[50:60], clf.predict(X[50:60]))


def test_score_refuses_unknown_labels(three):
    X, y, _ = three
    clf = MetricClassifierCV(GaussianNB()).fit(X, y)
    with pytest.raises(ValueError, match="row 0 of y holds 'dead', which is not a class of the model"):
        clf.score(X[:2], ["dead", "mild"])


# --- as one of scikit-learn's estimators -----------------------------------------------------------------------------


def test_jobs_do_not_change_the_result(three, weight):
    X, y, _ = three
    one, more = (MetricClassifierCV(GaussianNB(), metric="macro_f1", n_jobs=jobs) for jobs in (1, 2))
    assert one.fit(X, y, sample_weight=weight).rule_ == more.fit(X, y, sample_weight=weight).rule_
    with pytest.raises(ValueError, match="n_jobs"):
        one.set_params(n_jobs=0).fit(X, y)


@pytest.mark.parametrize(
    ("frame", "series"), [(pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series), (pd.DataFrame, list)]
)
def test_frames(three, weight, frame, series):
    X, y, _ = three
    columns = [f"x{k}" for k in range(X.shape[1])]
    table = frame({name: X[:, k] for k, name in enumerate(columns)})
    plain = MetricClassifierCV(GaussianNB(), metric="macro_f1").fit(X, y, sample_weight=weight)
    clf = MetricClassifierCV(GaussianNB(), metric="macro_f1")
    clf.fit(table, series(y.tolist()), sample_weight=series(weight.tolist()))
    assert clf.rule_ == plain.rule_
    np.testing.assert_array_equal(clf.predict(table), plain.predict(X))
    assert clf.score(table, series(y.tolist())) == plain.score(X, y)
    assert clf.feature_names_in_.tolist() == columns
    assert clf.n_features_in_ == len(columns)
    assert not hasattr(plain, "feature_names_in_")


def test_categories_and_missing_labels(three):
    X, y, _ = three
    plain = MetricClassifierCV(GaussianNB(), metric="macro_f1").fit(X, y)
    coded = MetricClassifierCV(GaussianNB(), metric="macro_f1").fit(X, pd.Series(y, dtype="category"))
    assert coded.rule_ == plain.rule_
    with pytest.raises(ValueError, match=r"^row 1 of y has no label; drop such rows$"):
        MetricClassifierCV(GaussianNB()).fit(X, pd.Series(y).where(y != "mild"))
    for wrong, sentence in (
        (None, "^row 2 of y has no label; drop such rows$"),
        (7, "y has dtype object and 7 in row 2; give labels of one"),
    ):
        with pytest.raises(ValueError, match=sentence):
            MetricClassifierCV(GaussianNB()).fit(X, np.array([*y[:2], wrong, *y[3:]], dtype=object))


def test_input_is_the_wrapped_estimators(three):
    """Sparse matrices go through; a table of distances is cut along both axes."""
    X, y, _ = three
    clf = MetricClassifierCV(KNeighborsClassifier(20), metric="macro_f1").fit(X, y)
    sparse = MetricClassifierCV(KNeighborsClassifier(20), metric="macro_f1").fit(csr_matrix(X), y)
    assert sparse.rule_ == clf.rule_
    distances = MetricClassifierCV(KNeighborsClassifier(20, metric="precomputed"), metric="macro_f1")
    assert distances.fit(pairwise_distances(X), y).rule_ == clf.rule_
    assert distances.__sklearn_tags__().input_tags.pairwise
    assert not MetricClassifierCV(GaussianNB()).__sklearn_tags__().input_tags.sparse


def test_methods_are_those_of_the_wrapped_estimator(two):
    X, y, _ = two
    tuned = MetricClassifierCV(LogisticRegression()).fit(X, y)
    model = LogisticRegression().fit(X, y)
    for method in ("predict_proba", "predict_log_proba"):
        np.testing.assert_array_equal(getattr(tuned, method)(X), getattr(model, method)(X))
    assert not hasattr(MetricClassifierCV(LinearSVC()), "decision_function")
    assert not hasattr(MetricClassifierCV(LinearSVC()), "predict_proba")
    assert not hasattr(MetricClassifierCV(GaussianNB()), "classes_")


# --- the decision function ------------------------------------------------------------------------------------------


class Told(ClassifierMixin, BaseEstimator):
    """A model whose features are the probability of the second class."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.column_stack([1.0 - X[:, 0], X[:, 0]])


def rules_of_two():
    """Rules of two classes, with whether they are a threshold on the probability of the second."""
    two = DecisionRule.from_weights
    yield "argmax", True
    yield two([1.0, 7.0]), True
    yield two([1e-9, 1.0]), True
    yield two([1.0, 1.0], [1.0, 0.0]), True  # never
    yield two([1.0, 1.0], [0.0, 1.0]), True  # always
    yield replace(two([1.0, 1.0]), calibrator=VectorScaling(np.array([0.5, 2.0]), np.array([0.3, -0.2]))), True
    yield replace(two([1.0, 2.0]), calibrator=MatrixScaling(np.array([[1.2, 0.1], [0.0, 0.8]]), np.zeros(2))), True
    yield replace(two([1.0, 1.0]), calibrator=VectorScaling(np.array([-1.0, -1.0]), np.zeros(2))), False
    yield DecisionRule(Gains.reduced([[1.0, 1.0], [1.0, 4.0]]), np.array([0.3, 0.7]), (0, 1)), False


@pytest.mark.parametrize(("rule", "is_threshold"), list(rules_of_two()))
def test_of_two_classes_the_sign_is_the_decision(rule, is_threshold):
    clf = FixedRuleClassifier(Told(), rule).fit(np.zeros((4, 1)), [0, 1, 0, 1])
    cuts = class_thresholds([clf.rule_], np.full(2, 0.5))[0]
    cut = min(cuts[1], 1.0)
    near = np.clip([cut, np.nextafter(cut, 0), np.nextafter(cut, 1), cut - 1e-9, cut + 1e-9], 0, 1)
    p = np.unique([0.0, 5e-324, 1e-300, 1e-12, *near, 1 - 2**-53, 1.0, *np.random.default_rng(0).random(300)])
    score = clf.decision_function(p[:, None])
    assert score.shape == p.shape and np.isfinite(score).all() and (np.abs(score) <= 1).all()
    np.testing.assert_array_equal(score > 0, clf.predict(p[:, None]) == 1)
    np.testing.assert_array_equal(score.astype(np.float32) > 0, score > 0)
    assert (score != 0).all()
    if is_threshold:
        assert (np.diff(score) >= 0).all()
        # only probabilities that no rounding can hold apart get one score
        assert len(np.unique(score)) > 300
    # a class that is never or always decided leaves the order of the rows, too
    y = np.random.default_rng(1).random(len(p)) < p
    if is_threshold:
        assert roc_auc_score(y, score) == pytest.approx(roc_auc_score(y, p), abs=1e-3)


def test_float32_probabilities_on_the_threshold():
    rule = DecisionRule.from_weights([1.0, 9.0])
    p = np.nextafter(np.float32(0.1), np.float32([0, 0.1, 1]))
    clf = FixedRuleClassifier(Told(), rule).fit(np.zeros((2, 1)), [0, 1])
    np.testing.assert_array_equal(clf.decision_function(p[:, None]) > 0, clf.predict(p[:, None]) == 1)


@pytest.mark.parametrize(
    "model", [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(max_depth=3, random_state=0)]
)
def test_one_against_the_rest_keeps_the_rules(three, model):
    """Of a matrix of labels, and of classes where exactly one rule says yes; the ROC curve is the model's."""
    X, _, rank = three
    Y = np.eye(3, dtype=int)[rank]
    tuned = MetricClassifierCV(model, metric="f1", fold_rules=False)
    alone = np.column_stack([clone(tuned).fit(X, column).predict(X) for column in Y.T])
    plain = np.column_stack([clone(model).fit(X, column).predict_proba(X)[:, 1] for column in Y.T])
    of_labels = OneVsRestClassifier(tuned).fit(X, Y)
    np.testing.assert_array_equal(of_labels.predict(X), alone)
    assert (alone != (plain >= 0.5)).any()
    for k, score in enumerate(of_labels.decision_function(X).T):
        assert roc_auc_score(Y[:, k], score) == pytest.approx(roc_auc_score(Y[:, k], plain[:, k]), abs=1e-12)
    one = alone.sum(axis=1) == 1
    of_classes = OneVsRestClassifier(tuned).fit(X, rank)
    assert one.any()
    np.testing.assert_array_equal(of_classes.predict(X)[one], alone[one].argmax(axis=1))


@pytest.mark.filterwarnings("ignore:group .* with fewer than 30:UserWarning")
def test_where_there_is_no_decision_function(two, three):
    X, y, _ = two
    for settings in ({"abstain": True, "constraints": "coverage >= 0.8"}, {"constraints": "rate[bad] <= 0.5"}):
        clf = MetricClassifierCV(LogisticRegression(), metric="accuracy", **settings).fit(X, y)
        assert hasattr(clf, "decision_function") == ("abstain" not in settings)
    group = np.arange(len(y)) % 2
    limit = "min(recall[bad] | group) >= 0.1"
    clf = MetricClassifierCV(LogisticRegression(), metric="accuracy", constraints=limit).fit(X, y, group=group)
    assert not hasattr(clf, "decision_function")
    # of more classes it is the model's
    X, y, _ = three
    several = MetricClassifierCV(LogisticRegression(), metric="macro_f1").fit(X, y)
    np.testing.assert_array_equal(several.decision_function(X), LogisticRegression().fit(X, y).decision_function(X))
    assert hasattr(MetricClassifierCV(GaussianNB()), "decision_function")
    assert not hasattr(MetricClassifierCV(GaussianNB(), metric="macro_f1").fit(X, y), "decision_function")


@pytest.mark.parametrize(
    "estimator", [MetricClassifierCV(LogisticRegression()), FixedRuleClassifier(LogisticRegression(), "argmax")]
)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function", "score"])
def test_not_fitted(two, estimator, method):
    X, y, _ = two
    call = getattr(clone(estimator), method)
    with pytest.raises(NotFittedError):
        call(X, y) if method == "score" else call(X)


def test_nothing_of_the_training_data_is_kept():
    def size(n):
        X, y = make_classification(n, 6, random_state=0, flip_y=0.1)
        tuned = MetricClassifierCV(GaussianNB(), metric="f1").fit(X, y)
        fixed = FixedRuleClassifier(GaussianNB(), tuned.rule_).fit(X, y)
        loaded = pickle.loads(pickle.dumps(tuned))
        np.testing.assert_array_equal(loaded.predict(X), tuned.predict(X))
        return len(pickle.dumps(tuned)), len(pickle.dumps(fixed))

    small, large = size(200), size(4000)
    assert large[0] < small[0] + 500
    assert large[1] < small[1] + 100


@pytest.mark.parametrize("estimator", [MetricClassifierCV(GaussianNB()), FixedRuleClassifier(GaussianNB(), "argmax")])
def test_bad_labels(three, estimator):
    X, y, _ = three
    with pytest.raises(ValueError, match=r"y holds one class only \('fatal'\); at least two classes are needed"):
        estimator.fit(X[y == "fatal"], y[y == "fatal"])
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None; pass the true classes"):
        estimator.fit(X, None)


# --- a given rule ----------------------------------------------------------------------------------------------------


def test_fixed_rule_from_memory_and_from_a_file(three, tmp_path):
    X, y, _ = three
    tuned = MetricClassifierCV(GaussianNB(), metric="macro_f1").fit(X, y)
    tuned.rule_.save(tmp_path / "rule.json")
    for rule in (tuned.rule_, tmp_path / "rule.json", str(tmp_path / "rule.json")):
        clf = FixedRuleClassifier(GaussianNB(), rule).fit(X, y)
        assert clf.rule_ == tuned.rule_
        np.testing.assert_array_equal(clf.predict(X), tuned.predict(X))
        assert clf.score(X, y) == accuracy_score(y, clf.predict(X))
        assert_invariant(clf, X)
    assert FixedRuleClassifier(GaussianNB(), tuned.rule_).fit(pd.DataFrame(X), y).n_features_in_ == X.shape[1]


def test_a_rule_in_another_order_is_reordered(three):
    X, y, rank = three
    model = FrozenEstimator(GaussianNB().fit(X, y))
    rule = confmax.DecisionRule.from_weights([1.0, 2.0, 7.0], [0.0, 0.1, 0.0], classes=list(RANK))
    clf = FixedRuleClassifier(model, rule).fit(X, y)
    P = model.predict_proba(X)[:, [NAMES.index(name) for name in RANK]]
    np.testing.assert_array_equal(clf.predict(X), rule.predict(P))
    assert clf.rule_.class_names == tuple(NAMES)
    assert_invariant(clf, X)
    coded = confmax.DecisionRule.from_weights([7.0, 1.0, 2.0], [0.0, 0.0, 0.1], classes=[2, 0, 1])
    floats = FixedRuleClassifier(GaussianNB(), coded).fit(X, rank.astype(float))
    np.testing.assert_array_equal(floats.predict(X), np.array([RANK[name] for name in clf.predict(X)]))


def test_a_rule_of_positions_is_applied_by_position(three):
    X, y, _ = three
    rule = confmax.DecisionRule.from_weights([1.0, 2.0, 7.0])
    pairs = ", ".join(f"{k} = {name}" for k, name in enumerate(NAMES))
    with pytest.warns(UserWarning, match=rf"no class names, and was applied by position to .* \({pairs}\); name its"):
        clf = FixedRuleClassifier(GaussianNB(), rule).fit(X, y)
    P = GaussianNB().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(clf.predict(X), np.array(NAMES)[np.argmax(P * [1, 2, 7], axis=1)])
    assert clf.rule_.class_names == tuple(NAMES)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (confmax.DecisionRule.from_weights([1.0, 1.0]), r"the rule decides between \(0, 1\), but the est"),
        (confmax.DecisionRule.from_weights([1.0, 1.0, 1.0], classes=["fatal", "mild", "dead"]), "'dead'"),
        (confmax.DecisionRule.from_weights([1.0, 1.0, 1.0], classes=[1, 0, 2]), r"between \(1, 0, 2\)"),
        (np.ones(3), "rule must be a DecisionRule, the path of a saved one, or 'argmax'; got ndarray"),
        (None, "got NoneType"),
    ],
)
def test_bad_rules(three, rule, sentence):
    X, y, _ = three
    with pytest.raises(ValueError, match=sentence):
        FixedRuleClassifier(GaussianNB(), rule).fit(X, y)


def test_a_rule_that_abstains_is_no_classifier(two, three):
    X, _, rare = two
    P = GaussianNB().fit(X, rare).predict_proba(X)
    gain = confmax.metrics.get("linear", gain=[[1, 0, 0.4], [0, 1, 0.4]])
    rule = confmax.maximize(gain, P, rare).rule
    for y in (rare, three[1], three[2]):
        with pytest.raises(ValueError, match=r"the rule decides between \(0, 1, 2\)"):
            FixedRuleClassifier(GaussianNB(), rule).fit(X, y)


def test_a_missing_file(three):
    X, y, _ = three
    with pytest.raises(FileNotFoundError, match="no_such_rule"):
        FixedRuleClassifier(GaussianNB(), "no_such_rule.json").fit(X, y)


def test_weight_zero_is_a_dropped_row(three, weight):
    X, y, _ = three
    clf = MetricClassifierCV(GaussianNB().fit(X[::2], y[::2]), metric="macro_f1", cv="prefit", refit=False)
    kept = weight > 0
    dropped = clone(clf).set_params(estimator=clf.estimator).fit(X[kept], y[kept], sample_weight=weight[kept]).rule_
    rule = clf.fit(X, y, sample_weight=weight).rule_
    # sums over other blocks of rows differ in the last digit, and calibration ends within 1e-8 nats of its optimum
    for mine, theirs in zip(rule.gains.pair(), dropped.gains.pair(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    np.testing.assert_array_equal(rule.predict(clf.predict_proba(X)), dropped.predict(clf.predict_proba(X)))
    assert clf.fit(X, y).rule_ != dropped


def test_routing_through_a_pipeline(three, weight):
    """An outer pipeline passes weights on as this estimator requests them, an inner one receives them."""
    X, y, _ = three
    with config_context(enable_metadata_routing=True):
        scale = StandardScaler().set_fit_request(sample_weight=False)
        inner = make_pipeline(scale, GaussianNB().set_fit_request(sample_weight=True))
        clf = MetricClassifierCV(inner, metric="macro_f1").set_fit_request(sample_weight=True)
        outer = make_pipeline(scale, clf).fit(X, y, sample_weight=weight)
        alone = clone(clf).fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
        assert outer[-1].rule_ == alone.rule_
        outer[-1].set_fit_request(sample_weight=False)
        inner[-1].set_fit_request(sample_weight=False)
        unweighted = clone(clf).fit(StandardScaler().fit_transform(X), y)
        assert outer.fit(X, y).steps[-1][1].rule_ == unweighted.rule_ != alone.rule_


def test_in_a_search_and_in_pipelines(three):
    X, y, _ = three
    search = GridSearchCV(
        MetricClassifierCV(make_pipeline(StandardScaler(), GaussianNB())),
        {"metric": ["accuracy", confmax.metrics.get("balanced_accuracy")], "estimator__gaussiannb__priors": [None]},
        scoring="balanced_accuracy",
        cv=3,
    ).fit(X, y)
    assert search.best_params_["metric"] == confmax.metrics.get("balanced_accuracy")
    assert_invariant(search.best_estimator_, X)
    piped = make_pipeline(StandardScaler(), MetricClassifierCV(GaussianNB())).fit(X, y)
    assert piped.score(X, y) == piped[-1].score(StandardScaler().fit_transform(X), y)
