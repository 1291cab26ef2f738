"""Metrics as a user meets them: scikit-learn's values, names, parameters, refusals."""

import copy
import gzip
import json
import pickle
from dataclasses import replace
from decimal import Decimal, getcontext
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.metrics import get_scorer

from confmax import metrics
from confmax.confusion import Confusion
from confmax.metrics import labels as label_metrics
from confmax.metrics.decided import of_decided
from confmax.metrics.first_order import Function
from tests.helpers import labels_from_counts

CASES = json.loads(gzip.decompress((Path(__file__).parent / "data" / "golden.json.gz").read_bytes()))["matrices"]
SMALL = [case for case in CASES if case["total"] <= 5000]


def informedness(y, p, labels):
    return (len(labels) * sk.recall_score(y, p, labels=labels, average="macro", zero_division=0) - 1) / (
        len(labels) - 1
    )


def macro(function, **params):
    def score(y, p, labels):
        return function(y, p, labels=labels, average="macro", zero_division=0, **params)

    return score


SAME_CONVENTION = {
    ("accuracy", ()): lambda y, p, labels: sk.accuracy_score(y, p),
    ("balanced_accuracy", ()): macro(sk.recall_score),
    ("informedness", ()): informedness,
    ("macro_f1", ()): macro(sk.f1_score),
    ("macro_f_beta", (("beta", 2.0),)): macro(sk.fbeta_score, beta=2.0),
    ("macro_f_beta", (("beta", 0.5),)): macro(sk.fbeta_score, beta=0.5),
    ("macro_jaccard", ()): macro(sk.jaccard_score),
    ("macro_precision", ()): macro(sk.precision_score),
    ("weighted_f1", ()): lambda y, p, labels: sk.f1_score(y, p, labels=labels, average="weighted", zero_division=0),
    ("micro_f1", ()): lambda y, p, labels: sk.f1_score(y, p, labels=labels[1:], average="micro", zero_division=0),
    ("mcc", ()): lambda y, p, labels: sk.matthews_corrcoef(y, p),
    ("cohen_kappa", ()): lambda y, p, labels: sk.cohen_kappa_score(y, p, labels=labels),
    ("linear_kappa", ()): lambda y, p, labels: sk.cohen_kappa_score(y, p, labels=labels, weights="linear"),
    ("quadratic_kappa", ()): lambda y, p, labels: sk.cohen_kappa_score(y, p, labels=labels, weights="quadratic"),
}
BINARY = {
    ("f1", ()): lambda y, p, labels: sk.f1_score(y, p, pos_label=1, zero_division=0),
    ("f_beta", (("beta", 2.0),)): lambda y, p, labels: sk.fbeta_score(y, p, beta=2, pos_label=1, zero_division=0),
    ("jaccard", ()): lambda y, p, labels: sk.jaccard_score(y, p, pos_label=1, zero_division=0),
    ("fowlkes_mallows", ()): lambda y, p, labels: np.sqrt(
        sk.precision_score(y, p, zero_division=0) * sk.recall_score(y, p, zero_division=0)
    ),
}


@pytest.mark.filterwarnings("ignore")  # scikit-learn warns of 0/0 and of single labels
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case["id"])
def test_equal_to_scikit_learn_on_rebuilt_labels(case):
    y, p = labels_from_counts(case["counts"])
    labels = list(range(case["n"]))
    table = {**SAME_CONVENTION, **(BINARY if case["n"] == 2 else {})}
    for (name, params), reference in table.items():
        expected = reference(y, p, labels)
        metric = metrics.get(name, **dict(params))
        if np.isnan(expected) and "kappa" in name:
            expected = 0.0  # our convention at 0/0
        assert metric.value(case["C"]) == pytest.approx(expected, rel=1e-12, abs=1e-12), name
        assert metric.value(np.array(case["counts"])) == pytest.approx(expected, rel=1e-12, abs=1e-12), name


@pytest.mark.parametrize("alias", metrics.aliases())
def test_aliases_are_scikit_learns_scorers_and_mean_the_same(alias):
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 30, (3, 3))
    y, p = labels_from_counts(counts)
    score = get_scorer(alias)._score_func(y, p, **get_scorer(alias)._kwargs)
    assert metrics.get(alias).value(counts) == pytest.approx(score, rel=1e-12)


def test_equal_metrics_are_equal_and_survive_pickle_and_copy():
    metric = metrics.get("f_beta", beta=2)
    assert metric == metrics.get("f_beta", beta=2.0)
    assert metric != metrics.get("f_beta", beta=1)
    assert hash(metric) == hash(metrics.get("f_beta", beta=2))
    assert pickle.loads(pickle.dumps(metric)) == metric
    assert copy.deepcopy(metric) == metric
    with pytest.raises(AttributeError):
        metric.name = "other"


def test_cost_and_gain_are_opposite_signs():
    table = [[0.0, 1.0], [5.0, 0.0]]
    C = [[0.4, 0.1], [0.2, 0.3]]
    assert metrics.get("linear", cost=table).value(C) == pytest.approx(-1.1)
    assert metrics.get("linear", gain=table).value(C) == pytest.approx(1.1)


def test_ams_series_meets_the_formula():
    """s << b, where the printed formula cancels: compare with 40 digits."""
    getcontext().prec = 40
    for ratio in (1e-8, 1e-5, 1e-3, 9.99e-3, 1.01e-2, 0.3, 20.0):
        b = 0.5 / (1 + ratio)
        s = 0.5 - b
        S, B = Decimal(s), Decimal(b)
        exact = (2 * ((S + B) * (1 + S / B).ln() - S)).sqrt()
        C = [[0.5 - b, b], [0.5 - s, s]]
        s_seen, b_seen = s, (b + s) - s
        shift = abs(b_seen / b - 1) + abs(s_seen / s - 1)
        assert metrics.get("ams").value(C) == pytest.approx(float(exact), rel=1e-13 + 2 * shift)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: metrics.get("macro-f1"), "no metric 'macro-f1'; did you mean macro_f1"),
        (lambda: metrics.get("zzz"), r"confmax.metrics.names\(\) lists them"),
        (lambda: metrics.get(3), "a metric's name is a string; got int"),
        (lambda: metrics.get("f_beta", beta=0), "beta of f_beta must be finite and positive; got 0"),
        (lambda: metrics.get("f_beta", beta="2"), "beta of f_beta is a number; got '2'"),
        (lambda: metrics.get("f1", beta=2), "f1 has no parameter 'beta'; it takes label"),
        (lambda: metrics.get("g_mean", rho=-1), "rho of g_mean must be finite and zero or positive; got -1"),
        (lambda: metrics.get("g_mean", smoothing="joint"), "'relative' or 'additive'; got 'joint'"),
        (lambda: metrics.get("linear"), "linear needs its table"),
        (lambda: metrics.get("linear", cost=[[1, 2]]), "got shape"),
        (lambda: metrics.get("accuracy").value([[0.5, 0.5]]), "K >= 2 rows"),
        (lambda: metrics.get("accuracy").value([[5.0, 0.0], [0.0, 5.0]]), "sum to 10: divide by their sum"),
        (lambda: metrics.get("accuracy").value([["a", "b"], ["c", "d"]]), "holds numbers"),
        (lambda: metrics.get("accuracy").value([[0, 0], [0, 0]]), "positive sum"),
        (lambda: metrics.get("f1").value(np.eye(3) / 3), r"f1 is a metric of two classes and the table has 3; write"),
        (lambda: metrics.get("linear", cost=np.ones((3, 3))).value(np.eye(2) / 2), r"has shape \(3, 3\)"),
        (lambda: metrics.from_function(3), "is a name, a Metric or a function"),
        (lambda: metrics.from_function(np.trace, structure="convex"), "structure is one of linear"),
        (lambda: metrics.get("g_mean").over([0, 1]).over([0]), "already restricted"),
        (lambda: metrics.get("g_mean").over([1]), r"at least two different classes, as column numbers; got \(1,\)"),
        (lambda: metrics.get("g_mean").over([0, 5]).value(np.eye(3) / 3), "of a table of 3; number them from 0"),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@pytest.mark.parametrize(
    "name",
    [name for name in metrics.names() if name != "linear" and not isinstance(metrics.get(name).formula, Function)],
)
def test_values_are_those_beside_the_derivatives(name):
    """Line searches take the short way: the same bytes, with empty classes and over some classes too."""
    rng = np.random.default_rng(0)
    matrix = rng.random((6, 5, 4, 4))
    matrix[1, :, 2] = 0.0
    matrix[2, :, :, 1] = 0.0
    matrix[3, :, 3, :], matrix[3, :, :, 3] = 0.0, 0.0
    matrix /= matrix.sum(axis=(-1, -2), keepdims=True)
    S = Confusion.from_matrix(matrix)
    soft = [metrics.get(name, rho=0.03)] if "rho" in dict(metrics.get(name).params) else []
    for metric in (metrics.get(name), replace(metrics.get(name), classes=(0, 2, 3)), *soft):
        with np.errstate(all="ignore"):
            assert metric.values(S).tobytes() == np.asarray(metric.at(S).value).tobytes()


@pytest.mark.parametrize("seed", range(5))
def test_the_best_step_of_a_soft_minimum_is_that_of_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    K, rho = int(rng.integers(2, 7)), float(np.exp(rng.uniform(-5, 0)))
    first, last = (Confusion.from_matrix(rng.dirichlet(np.ones(K * K)).reshape(K, K)) for _ in range(2))
    rows = rng.dirichlet(np.ones(K))
    ends = [replace(S, rows=rows, diagonal=rows * rng.random(K)) for S in (first, last)]
    metric = metrics.get("min_recall").smoothed(rho)
    step = metric.best_step(*ends)
    at = np.linspace(0.0, 1.0, 4001)
    values = metric.values(ends[0].toward(ends[1], at))
    assert 0.0 <= step <= 1.0 and abs(step - at[values.argmax()]) < 2.6e-4
    assert float(metric.values(ends[0].toward(ends[1], np.array([step])))[0]) >= values.max() - 1e-12
    # the metric itself has corners, and its best step is searched
    assert metrics.get("min_recall").best_step(*ends) is None and metrics.get("g_mean").best_step(*ends) is None


def test_accuracy_is_known_after_a_trip_through_a_process():
    """What is known of a metric hangs on its formula, and objects that were pickled are others."""
    metric = pickle.loads(pickle.dumps(metrics.get("accuracy")))
    decided = of_decided(metric, 3)
    assert decided == of_decided(metrics.get("accuracy"), 3) and decided.statistics == "columns"
    S = Confusion.from_matrix(np.random.default_rng(0).random((5, 3, 4)))
    np.testing.assert_array_equal(decided.values(S), decided.at(S).value)
    for name in ("macro_f1", "g_mean", "balanced_accuracy", "cohen_kappa"):
        one = of_decided(metrics.get(name), 3)
        np.testing.assert_array_equal(one.values(S), one.at(S).value)


def test_smoothing_tends_to_the_metric():
    C = np.array(CASES[0]["C"])
    for name in ("h_mean", "q_mean", "g_mean"):
        for kind in ("relative", "additive"):
            distance = [
                abs(metrics.get(name, rho=rho, smoothing=kind).value(C) - metrics.get(name).value(C))
                for rho in (1e-2, 1e-4, 1e-6)
            ]
            assert distance[0] > distance[1] > distance[2]
            assert distance[2] < 1e-4
    assert metrics.get("min_recall", rho=1e-9).value(C) == pytest.approx(metrics.get("min_recall").value(C), abs=1e-8)


def test_confusions_of_equal_class_sizes_share_them():
    """Metrics of what is decided, in groups, read a batch with one array of sizes some ten times as fast."""
    rows = np.array([0.25, 0.75])
    one, other = (Confusion(sizes, sizes / 2, sizes[::-1]) for sizes in (rows, rows.copy()))
    assert Confusion.stack([one, other]).rows is rows
    half = Confusion(rows / 2, rows / 4, rows / 2)
    assert Confusion.stack([one, half]).rows.tolist() == [[0.25, 0.75], [0.125, 0.375]]


NAMED_ELSEWHERE = {
    # the name here
    "tpr": "did you mean recall?", "sensitivity": "recall?", "hit rate": "recall?", "ppv": "precision?",
    "tnr": "specificity?", "true_positive_rate": "recall?", "f1_score": "did you mean f1?", "f1_binary": "mean f1?",
    "accuracy_score": "mean accuracy?", "kappa": "cohen_kappa?", "qwk": "quadratic_kappa?", "gmean": "mean g_mean?",
    "iou": "mean jaccard?", "dice": "mean f1?", "youden_j": "informedness?", "macro_recall": "balanced_accuracy?",
    "f2": "f_beta with beta=2", "macro_f0.5": "macro_f_beta with beta=0.5",
    # one less a metric
    "fnr": "is 1 - recall; use recall", "miss_rate": "is 1 - recall", "fdr": "is 1 - precision; use precision",
    "false_omission_rate": "is 1 - npv", "hamming_loss": "is 1 - accuracy", "zero_one_loss": "is 1 - accuracy",
    # limited
    "fpr": "'fpr[NAME] <= 0.1'", "fall_out": "is fpr[NAME], is limited", "selection_rate": "is rate[NAME], is limited",
    "coverage": "'coverage >= 0.8'", "recall_at_precision": "recall within a limit, such as precision[NAME] >= 0.9",
    "demographic_parity_difference": "difference(rate[NAME] | group)",
    # no function of decisions, or of a confusion matrix
    **dict.fromkeys(("roc_auc", "neg_log_loss", "average_precision", "ece", "ks", "ndcg"), "from probabilities"),
    **dict.fromkeys(("f1_samples", "samples_f1", "recall_samples"), "a mean over rows of several labels"),
    **dict.fromkeys(("mse", "r2"), "it is of numbers"),
    **dict.fromkeys(("cost", "profit"), "linear with its table, cost="),
    # a function of the matrix that is not here
    "precision_weighted": "there is macro_precision; another mean is a function", "markedness": "precision + npv - 1",
}  # fmt: skip


def test_d14_names_of_other_libraries_get_a_true_hint():
    for name, hint in NAMED_ELSEWHERE.items():
        with pytest.raises(ValueError) as caught:
            metrics.get(name)
        assert hint in str(caught.value), name
    with pytest.raises(ValueError, match=r"use recall\[fraud\]"):
        metrics.get("fnr[fraud]")
    for name in ("f1_macro", "f1_weighted", "f1_micro", "precision_macro", "recall_weighted", "matthews_corrcoef"):
        metrics.get(name)
    # of several labels the same names mean what there is for these
    hints = {
        "fnr": "use macro_recall or micro_recall", "hamming_loss": "is 1 - hamming", "roc_auc": "from probabilities",
        "tpr": "did you mean macro_recall or micro_recall?", "f1": "did you mean macro_f1", "f2": "f_beta with beta=2",
        "jaccard_samples": "average over rows", "iou": "macro_jaccard or micro_jaccard",
        "min_recall": "use one of balanced_accuracy",
    }  # fmt: skip
    for name, hint in hints.items():
        with pytest.raises(ValueError) as caught:
            label_metrics.get(name)
        assert hint in str(caught.value), name
    # sum(r t / r) / sum(r)
    assert label_metrics.get("recall_weighted").name == "micro_recall"
