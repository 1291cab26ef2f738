"""`adapt` of the estimators: the rule for other class shares, behind the same model."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

import confmax
from confmax.constraints import parse
from confmax.estimators import FixedRuleClassifier, MetricClassifierCV

NAMES = np.array(["a", "b", "c"])
NEW = np.array([0.15, 0.25, 0.6])


@pytest.fixture(scope="module")
def parts():
    """Return rows to fit, rows that no model sees, and a month with the shares `NEW`, each with classes."""
    X, codes = make_classification(
        6000, 8, n_informative=5, n_classes=3, weights=[0.6, 0.3], class_sep=0.8, flip_y=0.05, random_state=0
    )
    y = NAMES[codes]
    chance = NEW[codes[4000:]] / np.bincount(codes[4000:])[codes[4000:]]
    rows = 4000 + np.random.default_rng(0).choice(2000, 1000, p=chance / chance.sum())
    return (X[:2000], y[:2000]), (X[2000:4000], y[2000:4000]), (X[rows], y[rows])


def fitted(part, metric="macro_f1", **more):
    return MetricClassifierCV(LogisticRegression(), metric=metric, **more).fit(*part)


@pytest.mark.parametrize("with_rows", [False, True])
def test_the_rule_is_that_of_the_solution(parts, with_rows):
    first, apart, (X, y) = parts
    model = fitted(first)
    old, solution, thresholds = model.predict(X), model.solution_, model.thresholds_
    rows = apart if with_rows else None
    assert model.adapt(X, tuned_on=rows) is model
    proba = [(model.predict_proba(part[0]), part[1]) for part in ([apart] if with_rows else [])]
    wanted = solution.adapt(model.predict_proba(X), tuned_on=proba[0] if proba else None)
    assert model.rule_ == wanted.rule and model.solution_.value == wanted.value
    np.testing.assert_allclose(model.shift_.priors, wanted.shift.priors)
    assert np.abs(model.shift_.priors - NEW).sum() < 0.15
    assert f1_score(y, model.predict(X), average="macro") > f1_score(y, old, average="macro") + 0.01
    # what is said of the folds was of the old rule
    assert model.fold_rules_ == [] and model.fold_thresholds_.shape == (0, 3)
    assert model.thresholds_[2] < thresholds[2]


def test_rows_without_change_leave_everything(parts):
    model = fitted(parts[0])
    rule, folds = model.rule_, model.fold_rules_
    model.adapt(parts[1][0])
    assert model.rule_ is rule and model.fold_rules_ is folds and len(folds) == 5
    assert model.shift_.shrinkage == 0.0


def test_known_shares_with_and_without_rows(parts):
    first, apart, (X, _) = parts
    of = partial(fitted, first, fold_rules=False)
    shares = dict(zip(NAMES.tolist(), NEW.tolist(), strict=True))
    by_rows = of().adapt(priors=shares, tuned_on=apart)
    assert by_rows.shift_ is None and by_rows.rule_.shares.shifted_to == pytest.approx(NEW)
    linear = of("accuracy").adapt(priors=NEW)
    assert np.mean(linear.predict(X) == "c") > np.mean(of("accuracy").predict(X) == "c")
    recalls = of("g_mean")
    rule = recalls.rule_
    assert recalls.adapt(priors="balanced").rule_ is rule
    with pytest.raises(confmax.InputError, match=r"pass tuned_on=\(X, y\), labelled rows .* or X_new= of new rows"):
        of().adapt(priors=NEW)
    with pytest.raises(confmax.InputError, match="pass X_new= of new rows, or priors=") as nothing:
        recalls.adapt()
    assert nothing.value.argument == "X_new"
    limited = of(constraints="accuracy >= 0.5")
    limited.solution_ = replace(
        limited.solution_, plan=limited.solution_.plan.but(constraints=(parse("accuracy >= 0.99"),))
    )
    with pytest.raises(confmax.Infeasible) as missed:
        limited.adapt(priors=NEW, tuned_on=apart)
    assert missed.value.closest.constraints


def test_a_fixed_rule_is_adapted_too(parts, tmp_path):
    first, apart, (X, y) = parts
    fitted(first).rule_.save(tmp_path / "rule.json")
    model = FixedRuleClassifier(LogisticRegression(), tmp_path / "rule.json").fit(*first)
    old = model.predict(X)
    assert not hasattr(model, "solution_")
    model.adapt(X, tuned_on=(*apart, np.ones(len(apart[1]))))
    assert f1_score(y, model.predict(X), average="macro") > f1_score(y, old, average="macro") + 0.01
    assert model.rule_.shares.shifted_to == pytest.approx(model.shift_.priors)
    # a fit begins anew
    model.fit(*first)
    assert not hasattr(model, "solution_") and not hasattr(model, "shift_")
    np.testing.assert_array_equal(model.predict(X), old)


def test_classes_of_some_rows_count(parts):
    first, _, (X, y) = parts
    some = [name if k % 4 == 0 else None for k, name in enumerate(y)]
    model = fitted(first).adapt(X, some)
    assert model.shift_.labelled.sum() == 250


def test_what_cannot_be_adapted_is_refused_and_changes_nothing(parts):
    first, apart, (X, _) = parts
    model = fitted(first)
    rule = model.rule_
    for given, sentence in (
        ({}, "nothing says what has changed"),
        ({"X_new": X, "tuned_on": apart[0]}, r"tuned_on is \(X, y\) or"),
        ({"priors": [0.5, 0.5]}, r"priors have shape \(2,\)"),
        ({"X_new": X, "y": ["z"] * len(X)}, "row 0 of y has the class 'z'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            model.adapt(**given)
    assert model.rule_ is rule and not hasattr(model, "shift_")
    with pytest.raises(ValueError, match="does not name a metric"):
        FixedRuleClassifier(LogisticRegression(), "argmax").fit(*first).adapt(X, tuned_on=apart)
    with pytest.raises(ValueError, match="not fitted yet"):
        clone(model).adapt(X)


def test_detect_reads_a_fitted_estimator(parts):
    model = fitted(parts[0])
    assert confmax.shift.detect(model.predict_proba(parts[2][0]), model).changed


@pytest.mark.parametrize("look", [confmax.shift.detect, confmax.shift.estimate_priors])
def test_features_in_the_place_of_probabilities_are_explained(parts, look):
    first, _, (X, _) = parts
    model = fitted(first, "accuracy")
    with pytest.raises(
        confmax.InputError, match=r"is negative .*; of an estimator the new rows are estimator\.predict"
    ):
        look(X, model)
    with pytest.raises(confmax.InputError, match=r"is negative .* not scores or log-probabilities$"):
        look(X, model.rule_)
