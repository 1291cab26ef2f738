"""Where rows repeat, the rule suits the model that decides: regrets on populations that are known exactly."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import confmax
from confmax import MetricClassifierCV, metrics
from confmax.estimators.steps import collapsed, is_repetitive
from confmax.oracle import make_oracle, make_table
from confmax.populations import FinitePopulation, atoms_example, population_confusion

ATOMS = atoms_example()
MODELS = {"logistic": LogisticRegression(), "tree": DecisionTreeClassifier(max_depth=2, random_state=0)}


@cache
def optimum(population, metric):
    table = population.table()
    return confmax.maximize(metric, table.head.proba, sample_weight=table.head.weight, randomized=True).value


def regret(population, metric, clf):
    return optimum(population, metric) - metrics.get(metric).value(
        population_confusion(population, clf.decision_probabilities)
    )


def tuned(model, metric, sample, **more):
    return MetricClassifierCV(model, metric=metric, **{"fold_rules": False, **more}).fit(*sample)


@pytest.mark.parametrize("metric", ["g_mean", "macro_f1"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("m", "most"), [(1000, 0.01), (5000, 0.003)])
def test_the_estimator_is_consistent_on_three_atoms(model, metric, m, most):
    for seed in range(1):
        clf = tuned(MODELS[model], metric, ATOMS.sample(m, seed))
        assert clf.tuned_on_ == "refit"
        assert regret(ATOMS, metric, clf) <= most, seed


@cache
def cells(number, n_cells=6):
    rng = np.random.default_rng(number)
    proba = rng.dirichlet(np.ones(3), n_cells)
    return FinitePopulation(proba, rng.dirichlet(np.full(n_cells, 3.0)), np.eye(n_cells))


@pytest.mark.parametrize(("metric", "most"), [("g_mean", 0.006), ("min_recall", 0.04)])
def test_the_estimator_is_consistent_on_categorical_cells(metric, most):
    """Six populations; `benchmarks.estimator` has three samples of each."""
    found = [
        regret(cells(number), metric, tuned(LogisticRegression(C=100), metric, cells(number).sample(1000, number)))
        for number in range(6)
    ]
    assert np.mean(found) <= most


@pytest.mark.parametrize("kind", ["randomized", "model"])
def test_other_settings_are_consistent_too(kind):
    settings = {"randomized": {"randomized": True}, "model": {"confusion": "model"}}[kind]
    population = atoms_example()
    clf = tuned(LogisticRegression(), "h_mean", population.sample(5000, 0), **settings)
    assert regret(population, "h_mean", clf) <= 0.005


@pytest.mark.parametrize("metric", ["balanced_accuracy", "mcc"])
def test_a_metric_that_no_draw_improves_is_tuned_out_of_fold(metric):
    clf = tuned(LogisticRegression(), metric, ATOMS.sample(1000, 0))
    assert clf.tuned_on_ == "folds" and regret(ATOMS, metric, clf) <= 0.005


def test_what_is_shown_of_a_rule_tuned_on_training_rows_is_out_of_fold():
    """The label value is that of the out-of-fold rows, the calibration and the share were chosen there."""
    X, y = atoms_example().sample(1000, 3)
    clf = tuned(DecisionTreeClassifier(max_depth=2, random_state=0), "macro_f1", (X, y), fold_rules=True)
    assert clf.solution_.tuned_on == "refit"
    out = np.empty((len(y), 3))
    for train, test in StratifiedKFold(5).split(X, y):
        out[test] = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X[train], y[train]).predict_proba(X[test])
    table = make_table(out, y, None, range(3))
    C = clf.rule_.evaluate(make_oracle(table, "labels"), matrix=True).matrix
    np.testing.assert_allclose(clf.solution_.label_value, metrics.get("macro_f1").value(C), atol=1e-12)
    found = confmax.calibration.choose(table)
    assert (clf.solution_.calibration.kind, clf.solution_.calibration.log_loss_before) == (
        found.kind,
        pytest.approx(found.log_loss_before),
    )
    own = make_table(clf.predict_proba(X), y, None, range(3))
    refitted = clf.rule_.evaluate(make_oracle(own, "labels"), matrix=True).matrix
    loss = clf.solution_.label_value - metrics.get("macro_f1").value(refitted)
    np.testing.assert_allclose(clf.refit_loss_, loss, atol=1e-12)
    assert len(clf.fold_rules_) == 5


def test_where_rows_differ_the_rule_is_tuned_out_of_fold(three):
    X, _, y = three
    clf = tuned(GaussianNB(), "macro_f1", (X, y))
    assert clf.tuned_on_ == "folds" and clf.solution_.tuned_on == "rows"
    assert clf.refit_loss_ < 0.05


@pytest.mark.parametrize("d, n, rarest, expected", [
    (3, 60, 20, True), (3, 59, 20, False), (20, 400, 20, True), (21, 420, 20, False),
])  # fmt: skip
def test_which_rows_are_repetitive(d, n, rarest, expected):
    y = np.where(np.arange(n) < rarest, 1, 0)
    proba = np.full((n, 2), 0.5)
    assert is_repetitive(d, make_table(proba, y).head) == expected
    # rows without weight are no rows
    more = np.concatenate([y, np.full(1000, 2)])
    weight = np.r_[np.ones(n), np.zeros(1000)]
    assert is_repetitive(d, make_table(np.full((n + 1000, 3), 1 / 3), more, weight).head) == expected


def test_copies_of_a_row_with_another_last_digit_are_one():
    P = np.array([[0.1, 0.9], [0.1 + 1e-16, 0.9 - 1e-16], [0.3, 0.7]])
    found, d = collapsed(P)
    assert d == 2 and (found[0] == found[1]).all() and found.dtype == np.float64


def test_a_rule_that_does_not_suit_the_final_model_is_warned_of(monkeypatch):
    """The rule as it was tuned before: on out-of-fold probabilities, though rows repeat."""
    monkeypatch.setattr("confmax.estimators.steps.is_repetitive", lambda *_: False)
    population, lost = atoms_example(), []
    for seed in range(4):
        clf = MetricClassifierCV(LogisticRegression(), metric="g_mean", fold_rules=False)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            clf.fit(*population.sample(1000, seed))
        said = any("the rule does not suit that model" in str(each.message) for each in told)
        if regret(population, "g_mean", clf) > 0.2:
            lost.append(said)
            assert said == (clf.refit_loss_ > 0.01) and told[0].filename == __file__
    assert lost and all(lost)


class TestEnsemble:
    def test_decides_by_mean_probabilities(self, three):
        X, y, _ = three
        clf = MetricClassifierCV(RandomForestClassifier(10, random_state=0), metric="macro_f1", ensemble=True).fit(X, y)
        models = clf.estimator_.estimators_
        assert len(models) == 5
        mean = np.mean([each.predict_proba(X) for each in models], axis=0)
        np.testing.assert_array_equal(clf.predict_proba(X), mean)
        np.testing.assert_array_equal(clf.decision_probabilities(X), clf.rule_.decision_probabilities(mean))
        np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), mean)
        assert clf.n_features_in_ == X.shape[1] and clf.classes_.tolist() == sorted(set(y))
        assert not hasattr(clf, "decision_function") and not hasattr(clf, "feature_names_in_")

    @pytest.mark.filterwarnings("ignore:.* the rule does not suit that model")
    def test_a_fold_model_without_a_class_gives_it_nothing(self, three):
        X, y, rank = three
        without = np.flatnonzero((rank < 2) & (np.arange(300) % 2 == 0))
        splits = [(without, np.setdiff1d(np.arange(300), without)), (np.arange(0, 300, 2), np.arange(1, 300, 2))]
        clf = MetricClassifierCV(GaussianNB(), metric="macro_f1", cv=splits, ensemble=True).fit(X, y)
        one, other = (each.predict_proba(X) for each in clf.estimator_.estimators_)
        missing = clf.classes_.tolist().index("fatal")
        np.testing.assert_allclose(clf.predict_proba(X)[:, missing], other[:, missing] / 2)
        assert one.shape[1] == 2

    @pytest.mark.parametrize("cv", [0.3, "prefit"])
    def test_needs_several_splits(self, three, cv):
        X, y, _ = three
        model = GaussianNB().fit(X, y)
        with pytest.raises(ValueError, match=r"ensemble=True averages .* pass cv=5, or ensemble=False"):
            MetricClassifierCV(model, cv=cv, ensemble=True, refit=False).fit(X, y)
