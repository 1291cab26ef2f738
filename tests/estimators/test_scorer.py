"""The scorer: against halves that are tuned by hand, and inside scikit-learn."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import confmax
from confmax.tables import make_table
from confmax.tables.draws import stratified_halves


class Given:
    """A classifier whose probabilities are the rows."""

    def __init__(self, classes):
        self.classes_ = np.array(classes)

    def predict_proba(self, X):
        return X


def drawn(n, K, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(1.5, 0.5, K), n)
    return P, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


@pytest.mark.parametrize(
    ("metric", "limit"), [("recall[1]", "precision[1] >= 0.6"), ("macro_f1", "rate[2] <= 0.1"), ("accuracy", ())]
)
def test_the_score_is_that_of_both_halves(metric, limit):
    P, y = drawn(600, 3)
    fold = stratified_halves(make_table(P, y).head, 0)
    decided = np.empty(600, dtype=int)
    for k in range(2):
        solution = confmax.maximize(
            metric, P[fold != k], y[fold != k], constraints=limit, randomized=False, classes=range(3)
        )
        decided[fold == k] = solution.predict(P[fold == k])
    C = np.zeros((3, 3))
    np.add.at(C, (y, decided), 1 / 600)
    scorer = confmax.make_scorer(metric, constraints=limit)
    # a rule that draws is valued by its shares
    assert scorer(Given(range(3)), P, y) == pytest.approx(confmax.metrics.get(metric).value(C), abs=0.004)
    assert pickle.loads(pickle.dumps(scorer))(Given(range(3)), P, y) == scorer(Given(range(3)), P, y)


def test_a_model_with_better_probabilities_scores_more_in_scikit_learn():
    X, y = make_classification(1500, n_informative=6, weights=[0.85], flip_y=0.02, random_state=0)
    names = np.array(["no", "yes"])[y]
    scorer = confmax.make_scorer("recall[yes]", constraints="precision[yes] >= 0.8")
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [5, 700]}, scoring={"it": scorer}, refit="it", cv=3)
    found = search.fit(X, names)
    assert found.best_params_ == {"n_neighbors": 5} and np.isfinite(found.cv_results_["mean_test_it"]).all()
    scores = cross_val_score(KNeighborsClassifier(5), X, names, scoring=scorer, cv=3)
    assert scores.mean() == pytest.approx(found.best_score_) and scores.min() > 0.3


def test_limits_out_of_reach_and_classes_that_a_half_lacks_are_no_nan():
    P, y = drawn(200, 3)
    out_of_reach = confmax.make_scorer("recall[1]", constraints="precision[1] >= 0.9999")
    assert 0.0 <= out_of_reach(Given(range(3)), P, y) <= 1.0
    y[y == 2] = 0
    y[:1] = 2
    lacking = confmax.make_scorer("recall[2]", constraints="precision[2] >= 0.5")
    assert 0.0 <= lacking(Given(range(3)), P, y) <= 1.0
    abstaining = confmax.make_scorer("accuracy", constraints="coverage >= 0.7", abstain=True)
    assert abstaining(Given(range(3)), P, y) > confmax.make_scorer("accuracy")(Given(range(3)), P, y)


@pytest.mark.parametrize(
    ("metric", "settings", "sentence"),
    [
        ("recall[1]", {"constraints": "precision[one] >= 0.9"}, "names a class that the table does not have"),
        ("mcc", {"constraints": "rate[1] <= 0.1"}, "cannot be maximised under constraints"),
        ("accuracy", {"constraints": "min(recall[1] | group) >= .9"}, "speaks of groups, and there are none"),
        ("accuracy", {"constraints": "coverage >= .5"}, "this rule decides all rows"),
        ("accuracy", {"abstain": True}, "largest if next to nothing is decided"),
    ],
)
def test_mistakes_are_no_scores(metric, settings, sentence):
    P, y = drawn(100, 3)
    with pytest.raises(ValueError, match=sentence):
        confmax.make_scorer(metric, **settings)(Given(range(3)), P, y)


def test_folds_of_one_class_and_of_one_row_have_a_score():
    P, y = drawn(60, 2)
    for rows in (np.flatnonzero(y == 0), np.array([0])):
        for scorer in (confmax.make_scorer("recall[1]"), confmax.make_scorer("macro_f1", constraints="rate[1] <= .1")):
            assert 0.0 <= scorer(Given(range(2)), P[rows], y[rows]) <= 1.0


def test_bad_settings_are_refused_at_once():
    with pytest.raises(ValueError, match="there is no metric 'recal'"):
        confmax.make_scorer("recal[1]")
    with pytest.raises(ValueError, match="has no limit"):
        confmax.make_scorer("recall[1]", constraints="precision[1]")
