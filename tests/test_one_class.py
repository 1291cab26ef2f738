"""Precision, recall, specificity, F1 and Jaccard of one named class: values, optima, names."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sklearn_metrics
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer

import confmax
from confmax import metrics
from confmax.checks import check_metric
from confmax.confusion import Confusion, Gains
from confmax.confusion.ties import with_ties_broken
from confmax.metrics.alignment import aligned
from confmax.oracle import decide
from tests.helpers import all_deterministic_confusions

NAMES = ["VF", "F", "M", "L"]
ONE_CLASS = [name for name in metrics.names() if name != "linear" and metrics.get(name).one_class]
WITNESSES = {
    "precision": sklearn_metrics.precision_score,
    "recall": sklearn_metrics.recall_score,
    "f1": sklearn_metrics.f1_score,
    "jaccard": sklearn_metrics.jaccard_score,
}


def table(n=400, K=4, seed=0, names=NAMES):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K) * 0.7, n)
    y = (rng.random(n)[:, None] > np.cumsum(P, axis=1)).sum(axis=1).clip(0, K - 1)
    return P, np.array(names[:K])[y]


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITNESSES)
@pytest.mark.parametrize("K", [2, 3, 5])
def test_values_are_scikit_learns(name, K):
    """Also where a class is never decided, or has no row: 0/0 is 0."""
    rng = np.random.default_rng(K)
    for k, trial in itertools.product(range(K), range(3)):
        counts = rng.integers(0, 9, (K, K))
        counts[:, trial % K] *= trial % 2
        counts[(trial + 1) % K] *= trial % 3 != 0
        true, decided = (index.reshape(-1) for index in np.indices((K, K)))
        y, d = np.repeat(true, counts.reshape(-1)), np.repeat(decided, counts.reshape(-1))
        expected = WITNESSES[name](y, d, labels=[k], average=None, zero_division=0)[0]
        assert metrics.get(f"{name}[{k}]").value(counts) == pytest.approx(expected, abs=1e-15)
        assert metrics.get(name, label=k).value(counts) == metrics.get(f"{name}[{k}]").value(counts)
        if K == 2 and k == 1:
            assert metrics.get(name).value(counts) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("k", range(3))
def test_specificity_is_the_recall_of_all_others_together(k):
    counts = np.random.default_rng(k).integers(1, 9, (3, 3))
    others = [j for j in range(3) if j != k]
    expected = counts[np.ix_(others, others)].sum() / counts[others].sum()
    assert metrics.get(f"specificity[{k}]").value(counts) == pytest.approx(expected, rel=1e-15)
    only = np.diag([0, 0, 5][k:] + [0, 0, 5][:k])
    assert metrics.get(f"specificity[{int(np.argmax(only.diagonal()))}]").value(only) == 0.0


@pytest.mark.parametrize("name", ONE_CLASS)
@pytest.mark.parametrize(("K", "k"), [(2, 0), (3, 1), (5, 3)])
def test_conformance(name, K, k):
    """Gradients against differences, batches, and the declared structure on random segments."""
    check_metric(metrics.get(name, label=k), n_classes=K)


@pytest.mark.parametrize(("name", "k"), [("precision", 0), ("f1", 1), ("jaccard", 2)])
def test_the_declared_ratio_is_the_metric(name, k):
    rng = np.random.default_rng(k)
    metric = metrics.get(name, label=k)
    for _ in range(20):
        C = rng.dirichlet(np.ones(9)).reshape(3, 3)
        S = Confusion.from_matrix(C)
        parts = metric.as_ratios(S.rows, 3)
        assert parts.values(S)[0] == pytest.approx(metric.value(C), rel=1e-12)
        assert parts.floor[0] <= parts.denominators(S)[0]


# --- optima -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE_CLASS)
@pytest.mark.parametrize("K", [2, 3])
def test_optima_are_those_of_enumeration(name, K):
    """On five rows every deterministic rule is tried; the best value is reached, and the gap is closed."""
    for seed, k in itertools.product(range(2), range(K)):
        rng = np.random.default_rng([seed, k])
        P = rng.dirichlet(np.ones(K), 5)
        if seed % 2:
            P = np.round(P * 4) + 0.25
            P /= P.sum(axis=1, keepdims=True)
        metric = metrics.get(name, label=k)
        best = metric.values(Confusion.from_matrix(all_deterministic_confusions(P, np.ones(5)))).max()
        solution = confmax.maximize(metric, P, confusion="model")
        assert solution.value == pytest.approx(best, abs=2e-6)
        assert solution.upper_bound >= best - 1e-12 and solution.gap <= 2e-6


@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_other_classes_are_decided_by_probability(k, dtype):
    """F1 of a class does not tell the others apart; the rule decides the most probable of them."""
    P, _ = table()
    P = P.astype(dtype)
    solution = confmax.maximize(f"f1[{NAMES[k]}]", P, classes=NAMES, confusion="model")
    cut = [line for line in repr(solution.rule).splitlines() if "else the most probable other class" in line]
    assert cut and f"decides {NAMES[k]} if p({NAMES[k]}) >= 0." in cut[0]
    decided = solution.rule.predict_index(P)
    others = np.where(np.arange(4) == k, -1.0, P).argmax(axis=1)
    np.testing.assert_array_equal(decided[decided != k], others[decided != k])
    assert (decided == k).any() and len(np.unique(decided)) == 4


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_are_found_in_the_table():
    P, y = table()
    order = [2, 0, 3, 1]
    frame = pd.DataFrame(P[:, order], columns=[f"p_{NAMES[k]}" for k in order])
    solution = confmax.maximize("f1[M]", frame, y)
    assert repr(solution.metric) == "f1[M]" == solution.rule.metric
    again = confmax.maximize(metrics.get("f1", label="M"), P, y, classes=NAMES)
    assert solution.value == pytest.approx(again.value, abs=1e-12)
    assert aligned(metrics.get("recall[ m ]"), NAMES).classes == (2,)
    assert aligned(metrics.get("recall", label=True), [False, True]).classes == (1,)
    assert aligned(metrics.get("recall[1]"), [1.0, 0.0]).classes == (0,)
    assert aligned(metrics.get("specificity[F]"), NAMES).classes == (0, 2, 3, 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("recall[XX]", r"recall\[XX\] names a class that the table does not have; its classes are 'VF', 'F', 'M', 'L'"),
        ("recall", r"recall is a metric of two classes and the table has 4; write recall\[NAME\] for the class NAME"),
        ("recall[VF", r"'recall\[VF' is not a metric of one class; write NAME\[CLASS\], such as recall\[yes\]"),
        ("recall[]", "is not a metric of one class"),
        ("recall[a[0]]", r"brackets; for a class whose name has .* metrics.get\('recall', label='a\[0\]'\)"),
        ("macro_f1[VF]", "macro_f1 is not a metric of one class, so it takes no class; those that do are f1, f_beta"),
        ("recal[VF]", "there is no metric 'recal'; did you mean recall"),
        ("roc_auc", "roc_auc is computed from probabilities, not from decisions, so no decision rule changes it"),
        ("average_precision", "no decision rule changes it"),
        ("neg_log_loss", "no decision rule changes it"),
        ("brier_score", "choose a metric of decisions, such as balanced_accuracy"),
        (make_scorer(sklearn_metrics.f1_score), "metric is a scikit-learn scorer of f1_score, not of a confusion"),
        (sklearn_metrics.f1_score, "metric is a function of labels, not of a confusion matrix; pass the name"),
    ],
)
def test_refusals(text, sentence):
    P, y = table()
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(text, P, y, classes=NAMES)


def test_further_refusals():
    P, y = table()
    for call, sentence in (
        (lambda: metrics.get("recall", label=[1, 2]), "label of recall is the name of one class"),
        (lambda: metrics.get("recall[1]", label=1), "names its class already; leave label= out"),
        (lambda: metrics.get("recall[VF]").value(np.eye(3) / 3), r"give the number of its row, as in recall\[2\]"),
        (lambda: metrics.get("recall[3]").value(np.eye(3) / 3), "has numbers only"),
        (
            lambda: confmax.maximize("recall[VF]", P[y != "VF"], y[y != "VF"], classes=NAMES),
            r"recall\[VF\] divides by the size of class VF, of which y has no weight; take rows that include this",
        ),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


# --- pos_label --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("positive", ["no", "yes"])
def test_pos_label_is_that_of_the_estimator(positive):
    P, y = table(K=2, names=["no", "yes"])
    solution = confmax.maximize("f1", P, y, pos_label=positive)
    expected = sklearn_metrics.f1_score(y, solution.predict(P), pos_label=positive)
    assert solution.label_value == pytest.approx(expected, abs=1e-12)
    assert solution.rule.class_names == ("no", "yes")
    found = confmax.score("f1", P, y, solution, pos_label=positive, n_replicates=0)
    assert found.estimate("rule").value == pytest.approx(expected, abs=1e-12)
    X = np.log(P)
    model = confmax.MetricClassifierCV(LogisticRegression(), metric="f1", pos_label=positive, cv=3).fit(X, y)
    assert model.solution_.metric.classes == solution.metric.classes
    named = confmax.maximize(f"f1[{positive}]", P, y)
    assert named.value == pytest.approx(solution.value, abs=1e-12)


def test_pos_label_refusals():
    P, y = table(K=2, names=["no", "yes"])
    with pytest.raises(ValueError, match=r"pos_label must be one of two classes; got 'maybe' with 2 classes"):
        confmax.maximize("f1", P, y, pos_label="maybe")
    P, y = table()
    with pytest.raises(ValueError, match=r"got 'VF' with 4 classes .* or a metric of one class, such as f1\[F\]"):
        confmax.score("macro_f1", P, y, pos_label="VF")
    way_out = r"pos_label= with the latter\), or name the class, f1\[\w+\] or f1\[\w+\]$"
    with pytest.raises(ValueError, match=rf"depends on the order of the classes .* or {way_out}"):
        confmax.maximize("f1", *table(K=2))
    with pytest.raises(ValueError, match=r"pos_label= with the latter\)$"):
        confmax.maximize("ams", *table(K=2))


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("recall_hiland", "did you mean recall[hiland]?"), ("f_beta_VF", "did you mean f_beta[VF]?"),
        ("f1_macr", "did you mean f1_macro"), ("recall_wieghted", "did you mean recall_weighted"),
    ],
)  # fmt: skip
def test_a_class_that_is_written_without_brackets(written, hint):
    with pytest.raises(ValueError, match=re.escape(hint)):
        confmax.metrics.get(written)


@pytest.mark.parametrize("text", ["recall['yes']", 'recall["yes"]'])
def test_quotes_around_a_class_are_left_out_unless_they_are_its_own(text):
    P, y = table(K=2, names=["no", "yes"])
    solution = confmax.maximize(text, P, y)
    assert repr(solution.metric) == "recall[yes]"
    assert solution.value == confmax.maximize("recall[yes]", P, y).value
    quoted = text[7:-1]
    P, y = table(K=2, names=["yes", quoted])
    assert confmax.maximize(text, P, y, classes=["yes", quoted]).metric.classes[-1] == 1
    with pytest.raises(ValueError, match="names a class that the table does not have"):
        confmax.maximize("recall['yes\"]", P, y)


# --- score and estimators ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("metric", "useless"),
    [
        ("recall[VF]", "every row is decided as it"),
        ("specificity[VF]", "no row is decided as it"),
        ("precision[VF]", "only its surest row is decided as it"),
    ],
)
def test_metrics_that_useless_rules_make_largest_are_warned_of(metric, useless):
    P, y = table()
    name = metric.partition("[")[0]
    sentence = rf"^{name} of one class alone is largest if {useless}; maximise f1\[VF\] or f_beta\[VF\]"
    with pytest.warns(UserWarning, match=sentence):
        confmax.maximize(metric, P, y, classes=NAMES)
    confmax.score(metric, P, y, classes=NAMES, n_replicates=0)  # warnings are errors
    confmax.maximize("f1[VF]", P, y, classes=NAMES)


@pytest.mark.parametrize("mode", ["labels", "blend"])
@pytest.mark.parametrize("name", ["f1", "precision"])
def test_labels_certify_nothing_and_beat_argmax(name, mode):
    P, y = table()
    solution = confmax.maximize(f"{name}[M]", P, y, classes=NAMES, confusion=mode)
    assert solution.gap is None and solution.value >= max(solution.baselines.values())
    expected = WITNESSES[name](y, solution.predict(P), labels=["M"], average=None)[0]
    assert solution.label_value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", range(3))
def test_breaking_ties_moves_no_row_to_or_from_the_class(k):
    rng = np.random.default_rng(k)
    P = np.round(rng.dirichlet(np.ones(3), 2000) * 8) / 8
    P /= P.sum(axis=1, keepdims=True)
    a, b = np.zeros((5, 3)), np.zeros((5, 3))
    a[:, k], b[:, k] = [2.0, 2.0, 1e-200, 0.0, 3e150], [-0.5, -1.0, -5e-201, 1.0, -1.5e150]
    gains = Gains.reduced(a, b + 0.25 * (np.arange(5) == 1)[:, None])
    broken = with_ties_broken(gains)
    np.testing.assert_array_equal(decide(P, broken) == k, decide(P, gains) == k)
    told = Gains.reduced([[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(with_ties_broken(told).a, told.a)


def test_equal_and_hashable():
    assert metrics.get("recall[VF]") == metrics.get("recall", label="VF") != metrics.get("recall[F]")
    assert hash(metrics.get("recall[VF]")) == hash(metrics.get("recall", label="VF"))
    assert replace(metrics.get("recall[VF]"), label=None).label is None
