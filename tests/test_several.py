"""Several labels per row: tables, thresholds, and rules, beside enumeration and scikit-learn."""

import itertools
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import metrics as sk

import confmax
from confmax.confusion import Confusion
from confmax.metrics import labels as label_metrics
from confmax.tables.decisions import ANY, decisions_of
from confmax.tables.several import labels_table

NAMES = label_metrics.names(ANY)


def drawn(n=60, L=4, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    P = rng.beta(0.7, 1.5, (n, L))
    Y = (rng.random((n, L)) < P).astype(int)
    Y[:2] = [[1] * L, [0] * L]
    return (P if digits is None else P.round(digits)), Y


def statistics(S, chosen, weight=None):
    w = np.full(len(S), 1 / len(S)) if weight is None else weight / weight.sum()
    return Confusion(w @ S, w @ (S * chosen), w @ chosen)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("estimate", ["model", "labels"])
def test_thresholds_are_the_best_of_all(name, estimate):
    P, Y = drawn(7, 2, digits=1)
    metric = label_metrics.resolve(name, ANY)
    S = P if estimate == "model" else Y
    cuts = [np.r_[np.unique(column) - 0.01, 2.0] for column in P.T]
    best = max(float(metric.values(statistics(S, np.array(t) < P))) for t in itertools.product(*cuts))
    found = confmax.maximize(name, P, Y, decisions="any", confusion=estimate, calibration=None)
    # one threshold for all labels where the metric sums over them
    if name.startswith("micro"):
        every = np.r_[-0.01, np.unique(P)]
        common = max(float(metric.values(statistics(S, t < P))) for t in every)
        assert found.value == pytest.approx(common, abs=1e-12)
        assert estimate == "labels" or found.value == pytest.approx(best, abs=1e-12)
    else:
        assert found.value == pytest.approx(best, abs=1e-12)
    assert found.upper_bound == pytest.approx(best, abs=1e-12)
    again = float(metric.values(statistics(S, found.predict(P))))
    assert found.value == pytest.approx(again, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("f1_macro", lambda Y, D: sk.f1_score(Y, D, average="macro", zero_division=0)),
        ("f1_weighted", lambda Y, D: sk.f1_score(Y, D, average="weighted", zero_division=0)),
        ("f1_micro", lambda Y, D: sk.f1_score(Y, D, average="micro", zero_division=0)),
        ("jaccard_macro", lambda Y, D: sk.jaccard_score(Y, D, average="macro", zero_division=0)),
        ("jaccard_micro", lambda Y, D: sk.jaccard_score(Y, D, average="micro", zero_division=0)),
        ("hamming", lambda Y, D: 1 - sk.hamming_loss(Y, D)),
        (
            "balanced_accuracy",
            lambda Y, D: np.mean([sk.balanced_accuracy_score(y, d) for y, d in zip(Y.T, D.T, strict=True)]),
        ),
        ("cohen_kappa", lambda Y, D: np.mean([sk.cohen_kappa_score(y, d) for y, d in zip(Y.T, D.T, strict=True)])),
        ("mcc", lambda Y, D: np.mean([sk.matthews_corrcoef(y, d) for y, d in zip(Y.T, D.T, strict=True)])),
        ("macro_precision", lambda Y, D: sk.precision_score(Y, D, average="macro", zero_division=0)),
        ("macro_recall", lambda Y, D: sk.recall_score(Y, D, average="macro", zero_division=0)),
    ],
)
def test_values_are_those_of_scikit_learn(name, score):
    P, Y = drawn(80, 3, seed=1)
    D = (P > 0.4).astype(int)
    # with a budget precision and recall are of use, too
    of_budget = name in ("macro_precision", "macro_recall")
    metric = label_metrics.resolve(name, decisions_of(2) if of_budget else ANY)
    assert float(metric.values(statistics(Y, D))) == pytest.approx(score(Y, D), abs=1e-12)
    if not of_budget:
        found = confmax.maximize(name, P, Y, decisions="any")
        assert found.label_value == pytest.approx(score(Y, found.predict(P)), abs=1e-12)
        found = confmax.maximize(name, P, Y, decisions="any", confusion="labels")
        counts = sk.multilabel_confusion_matrix(Y, found.predict(P))
        np.testing.assert_allclose(found.confusion, counts / len(Y), atol=1e-12)


@pytest.mark.parametrize("name", sorted(label_metrics.CATALOGUE))
def test_derivatives_are_those_of_differences(name):
    metric = label_metrics.get(name, **({"n": 20} if name == "coverage" else {}))
    rng = np.random.default_rng(0)
    r, q = rng.uniform(0.1, 0.6, (2, 4))
    t = np.minimum(r, q) * rng.uniform(0.2, 0.9, 4)
    first = metric.at(Confusion(r, t, q))
    for k, step in enumerate(1e-6 * np.eye(4)):
        ends = [float(metric.values(Confusion(r, t + s * step, q))) for s in (-1, 1)]
        assert first.diagonal[k] == pytest.approx((ends[1] - ends[0]) / 2e-6, abs=1e-6)
        ends = [float(metric.values(Confusion(r, t, q + s * step))) for s in (-1, 1)]
        assert first.columns[k] == pytest.approx((ends[1] - ends[0]) / 2e-6, abs=1e-6)


def test_every_way_to_hand_over_probabilities_and_labels_is_the_same():
    P, Y = drawn(30, 3)
    names = ["a", "b", "c"]
    lists = [[names[k] for k in np.flatnonzero(row)] for row in Y]
    frame = pd.DataFrame(P, columns=names)
    plain = confmax.maximize("macro_f1", P, Y, classes=names, decisions="any")
    pairs = [np.column_stack([1 - p, p]) for p in P.T]
    for proba, y, classes in [
        (frame, pd.DataFrame(Y, columns=names), None),
        (frame[["c", "a", "b"]], pd.DataFrame(Y, columns=names), names),
        (frame, pd.DataFrame(Y, columns=names)[["b", "c", "a"]], None),
        (P, pd.DataFrame(Y, columns=names), None),
        (pairs, Y.astype(bool), names),
        (P, scipy.sparse.csr_array(Y), names),
        (P, lists, names),
        (P, pd.Series(lists), names),
        (P, Y.astype(float), names),
    ]:
        found = confmax.maximize("macro_f1", proba, y, classes=classes, decisions="any")
        assert found.rule == plain.rule
    assert plain.predict(frame[["b", "c", "a"]]).tolist() == plain.predict(P).tolist()
    assert plain.predict(pairs).tolist() == plain.predict(P).tolist()
    assert plain.predict_lists(P)[0] == [names[k] for k in np.flatnonzero(plain.predict(P)[0])]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"proba": [[0.5, 1.2], [0.1, 0.2]]}, "row 0, column 1 of proba is 1.2"),
        ({"proba": [[0.5, np.nan], [0.1, 0.2]]}, "row 0, column 1 of proba is not a finite number"),
        ({"proba": [0.1, 0.2]}, "one column per label"),
        ({"y": [[0, 2], [1, 0]]}, "row 0, column 1 of y is 2, and labels are 0 or 1"),
        ({"y": [[0, 0.5], [1, 0]]}, "row 0, column 1 of y is 0.5"),
        ({"y": [[0], [1]]}, r"for 2 rows and 2 labels; got shape \(2, 1\)"),
        ({"y": ["x", "y"]}, "row 0 of y is 'x', and rows have several labels"),
        ({"y": [["x"], []]}, "row 0 of y has the label 'x', which is none of the 2"),
        ({"y": [[0, 0], [0, 0]]}, "no row has any label in y"),
        ({"decisions": "all"}, "decisions is 'one', 'any', a number of labels k"),
        ({"decisions": True}, "decisions is 'one', 'any', a number of labels k"),
        ({"metric": "accuracy"}, "use hamming"),
        ({"metric": "f1_samples"}, "average over rows"),
        ({"metric": "macro_recall"}, "is largest if every row gets every label"),
        ({"metric": "macro_precision"}, "is largest if only the surest rows get a label"),
        ({"metric": "quadratic_kappa"}, "no metric 'quadratic_kappa' of several labels"),
        ({"pos_label": 1}, "pos_label is of one class for every row"),
        ({"abstain": True}, "abstain is of one class for every row"),
        ({"tol": -1}, "tol must be finite and not negative"),
        ({"max_passes": 0}, "max_passes is a positive integer"),
        ({"callback": 3}, "callback must be a function"),
        ({"shrinkage": -1}, "shrinkage is 'auto', False, or how many true rows"),
        (
            {"calibration": "matrix"},
            "calibration='matrix' is of one class for every row",
        ),
        ({"y": None, "confusion": "labels"}, "needs y, the true labels"),
        ({"decisions": 1, "shrinkage": True}, "shrinkage draws thresholds of single labels together, and decisions=1"),
        ({"metric": "micro_f1", "shrinkage": 5.0}, "those of micro_f1 are one for all labels; leave it out"),
        ({"metric": lambda r, t, q: t.sum(), "shrinkage": True}, "those of a function are searched together"),
        ({"callback": print}, "callback is called at the steps of a search, and the thresholds for macro_f1 are found"),
        ({"progress": 3}, "progress must be True or False; got 3"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, sentence):
    given = {"metric": "macro_f1", "proba": [[0.5, 0.2], [0.1, 0.2]], "y": [[0, 1], [1, 0]], "decisions": "any"}
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(**(given | change))


def test_progress_and_callbacks_of_searches(capsys):
    P, Y = drawn(60, 3, seed=2)
    for decisions in ("any", 2):
        found = confmax.maximize("macro_f1", P, Y, decisions=decisions, progress=True)
        lines = capsys.readouterr().err.splitlines()
        assert re.search(rf"done in .*{found.n_passes} pass(es)?, value {found.value:.4f}", lines[-1])
    steps = []
    confmax.maximize("macro_f1", P, Y, decisions=2, callback=steps.append)
    assert steps


def test_labels_that_no_row_has_are_named_and_left_out():
    P, Y = drawn(80, 3, seed=2)
    Y[:, 1] = 0
    with pytest.warns(UserWarning, match="the label 'b'"):
        found = confmax.maximize("macro_f1", P, Y, classes=["a", "b", "c"], decisions="any")
    D = found.predict(P)
    assert found.label_value == pytest.approx(sk.f1_score(Y[:, [0, 2]], D[:, [0, 2]], average="macro"), abs=1e-12)
    assert found.labels[1].positives == 0
    # it is never decided
    assert found.labels[1].threshold == np.inf and not D[:, 1].any()


def test_weights_count_rows():
    P, Y = drawn(40, 3, seed=3)
    weight = np.random.default_rng(0).integers(0, 3, 40).astype(float)
    many = np.repeat(np.arange(40), weight.astype(int))
    for name in ("macro_f1", "micro_f1", "g_mean"):
        given = {"decisions": "any", "confusion": "labels", "calibration": None}
        weighted = confmax.maximize(name, P, Y, sample_weight=weight, **given)
        repeated = confmax.maximize(name, P[many], Y[many], **given)
        assert weighted.value == pytest.approx(repeated.value, abs=1e-12)


def test_thresholds_of_rare_labels_are_drawn_together_by_default():
    P, Y = drawn(120, 5, seed=4)
    free = confmax.maximize("macro_f1", P, Y, decisions="any", shrinkage=False)
    found = confmax.maximize("macro_f1", P, Y, decisions="any")
    spread = [np.ptp(np.log([one.threshold for one in solution.labels])) for solution in (free, found)]
    assert spread[1] < spread[0]
    assert found.value <= free.value
    assert found.upper_bound == pytest.approx(free.value, abs=1e-12)
    assert "drawn towards ones that few rows cannot move" in found.guarantee
    assert free.gap == pytest.approx(0.0, abs=1e-12)
    strong = confmax.maximize("macro_f1", P, Y, decisions="any", shrinkage=1e9)
    assert np.ptp([one.threshold for one in strong.labels]) < 1e-6


def test_rules_are_kept_in_files(tmp_path):
    P, Y = drawn()
    found = confmax.maximize("macro_f1", P, Y, classes=list("abcd"), decisions="any")
    found.rule.save(tmp_path / "rule.json")
    again = confmax.LabelRule.load(tmp_path / "rule.json")
    assert again == found.rule
    assert again.predict(P).tolist() == found.predict(P).tolist()
    assert again.decision_probabilities(P).tolist() == found.predict(P).tolist()
    with pytest.raises(ValueError, match="read it with LabelRule"):
        confmax.DecisionRule.load(tmp_path / "rule.json")
    confmax.DecisionRule.from_weights([1.0, 2.0]).save(tmp_path / "one.json")
    with pytest.raises(ValueError, match="read it with DecisionRule"):
        confmax.LabelRule.load(tmp_path / "one.json")
    with pytest.raises(ValueError, match="proba has 3 columns and the rule has 4 labels"):
        again.predict(P[:, :3])


def test_a_function_of_three_vectors_is_a_metric():
    metric = label_metrics.resolve(lambda rows, diagonal, columns: (2 * diagonal / (rows + columns)).mean(), ANY)
    P, Y = drawn(40, 3, seed=5)
    S = statistics(Y, P > 0.5)
    same = label_metrics.resolve("macro_f1", ANY)
    assert float(metric.values(S)) == pytest.approx(float(same.values(S)))
    np.testing.assert_allclose(metric.at(S).diagonal, same.at(S).diagonal, rtol=1e-9)


def test_a_function_whose_slope_says_little_is_as_good_as_named_metrics():
    def least(true, hits, decided):
        return np.min(2 * hits / np.maximum(true + decided, 1e-9))

    P, Y = drawn(200, 4, seed=9)
    P[:, 3] /= 20
    for decisions in ("any", 2):
        given = {"decisions": decisions, "confusion": "labels"}
        S = confmax.maximize("macro_f1", P, Y, **given).statistics
        assert confmax.maximize(least, P, Y, **given).value >= least(S.rows, S.diagonal, S.columns) - 1e-12


def test_texts_keep_columns_apart():
    rule = confmax.LabelRule.from_thresholds([0.5, 1.2345e-5])
    assert "   p > 1.234e-05" in str(rule)
    P, Y = drawn(40, 2)
    found = confmax.maximize("macro_f1", P * [1, 1.2345e-5], Y, decisions="any")
    assert all("  p > " in line for line in str(found).splitlines()[-2:])


def test_tables_know_how_often_labels_are_true():
    P, Y = drawn(20, 3)
    table = labels_table(ANY, P, Y, np.arange(20.0))
    np.testing.assert_allclose(table.label_weight(), np.arange(20.0) @ Y / 190.0)


def test_neither_the_order_of_rows_nor_that_of_columns_changes_thresholds():
    P, Y = drawn(150, 4, seed=6, digits=2)
    Y[:, 2] &= (np.arange(150) < 40).astype(int)
    names = list("abcd")
    plain = confmax.maximize("macro_f1", P, Y, classes=names, decisions="any")
    rows, columns = np.random.default_rng(0).permutation(150), [2, 0, 3, 1]
    moved = confmax.maximize("macro_f1", P[rows], Y[rows], classes=names, decisions="any")
    np.testing.assert_allclose(moved.rule.thresholds, plain.rule.thresholds, rtol=1e-9)
    turned = confmax.maximize("macro_f1", P[:, columns], Y[:, columns], classes=list("cadb"), decisions="any")
    np.testing.assert_allclose(turned.rule.thresholds, plain.rule.thresholds[columns], rtol=1e-6)


def test_rounding_chooses_between_no_thresholds():
    # above 0.25 and above 0.5 are as good on the blend, but for the order in which rows are summed
    P, Y = np.array([[0.5], [1.0], [0.0], [1.0], [0.0], [0.5]]), np.array([[0], [1], [0], [1], [0], [1]])
    orders = [list(rows) for rows in itertools.permutations(range(6))][::9]
    found = [confmax.maximize("hamming", P[rows], Y[rows], decisions="any").predict(P).tolist() for rows in orders]
    assert found == found[:1] * len(found)


@pytest.mark.parametrize("name", ["macro_f1", "g_mean", "micro_f1", "mcc"])
@pytest.mark.parametrize("estimate", ["model", "labels"])
def test_buckets_lose_no_threshold(name, estimate, monkeypatch):
    P, Y = drawn(3000, 3, seed=7)
    P[:1000] = P[:1000].round(2)
    given = {"decisions": "any", "confusion": estimate, "calibration": None}
    sorted_ones = confmax.maximize(name, P, Y, **given)
    monkeypatch.setattr("confmax.optimize.label_thresholds.FEW", 0)
    counted = confmax.maximize(name, P, Y, **given)
    assert counted.value == pytest.approx(sorted_ones.value, abs=1e-12)
    assert counted.rule.predict(P).tolist() == sorted_ones.rule.predict(P).tolist()


def test_columns_of_labels_name_those_of_probabilities():
    P, Y = drawn(40, 3)
    plain = confmax.maximize("macro_f1", P, Y, classes=list("abc"), decisions="any")
    frame = pd.DataFrame(P[:, [1, 0, 2]], columns=["p_b", "p_a", "p_c"])
    for names in ("abc", "cab"):
        y = pd.DataFrame(Y, columns=list("abc"))[list(names)]
        found = confmax.maximize("macro_f1", frame, y, decisions="any")
        assert found.rule.class_names == tuple(names)
        assert dict(zip(names, found.rule.thresholds, strict=True)) == pytest.approx(
            dict(zip("abc", plain.rule.thresholds, strict=True)), rel=0.1
        )
        assert found.predict_lists(frame)[0] == [name for name in names if name in plain.predict_lists(P)[0]]
    with pytest.warns(UserWarning, match="columns"):
        confmax.maximize("macro_f1", frame, pd.DataFrame(Y, columns=list("xyz")), decisions="any")


def test_missing_labels_and_several_labels_without_decisions_are_refused():
    P, Y = drawn(20, 3)
    missing = pd.DataFrame(Y).astype("Int64").mask(Y == 0)
    with pytest.raises(ValueError, match="row 1, column 0 of y is nan"):
        confmax.maximize("macro_f1", P, missing, decisions="any")
    with pytest.raises(ValueError, match=r"got shape \(20, 3\); for several labels per row pass decisions='any'"):
        confmax.maximize("macro_f1", P / P.sum(axis=1, keepdims=True), Y)


def test_at_most_k_labels_are_no_worse_than_exactly_k():
    rng = np.random.default_rng(1)
    P = 1.0 / (1.0 + np.exp(3.0 - rng.normal(size=50)[None] - 1.5 * rng.normal(size=(50, 50))))
    Y = rng.random(P.shape) < P
    Y[0] = True  # every label has a row
    for confusion in ("labels", "model"):
        values = {}
        for decisions in (5, ("at_most", 5)):
            found = confmax.maximize("macro_precision", P, Y, decisions=decisions, confusion=confusion, max_passes=9)
            values[decisions] = found.value
        assert values["at_most", 5] >= values[5] - 1e-12


def test_coverage_of_given_probabilities_is_searched():
    P = np.random.default_rng(0).random((900, 6))
    found = confmax.maximize("coverage", P, decisions=2, confusion="model", calibration=None)
    assert found.gap < 1e-6


def test_columns_in_another_order_than_the_labels_are_warned_of():
    rng = np.random.default_rng(0)
    P = rng.beta(0.6, 1.2, (400, 6))
    Y = (rng.random(P.shape) < P).astype(int)
    names = list("abcdef")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        confmax.maximize("macro_f1", P, Y, classes=names, decisions="any")
        # labels that go together, and a model that is poor at some
        together = np.column_stack([P[:, 0], P[:, 0], 0.5 * P[:, 2] + 0.25])
        confmax.maximize("macro_f1", together, Y[:, [0, 0, 2]], decisions="any")
    with pytest.warns(UserWarning, match="probably in another order than the labels: 5 of 6 labels fit other columns"):
        confmax.maximize("macro_f1", P[:, [1, 0, 3, 4, 2, 5]], Y, classes=names, decisions="any")
    with pytest.warns(UserWarning, match="are the rows of y and proba in the same order"):
        confmax.maximize("macro_f1", P[rng.permutation(400)], Y, classes=names, decisions=2)


@pytest.mark.parametrize("decisions", ["any", 1, ("at_most", 2)], ids=str)
def test_d20_probabilities_that_are_next_to_zero_are_not_called_zero(decisions):
    P = np.random.default_rng(0).beta(0.6, 4.0, (40, 3))
    for scale in (1e-110, 1e-310, 5e-324, 0.0):
        with pytest.raises(ValueError, match="a mean probability above 1e-100; pass probabilities") as told:
            confmax.maximize("macro_f1", P * scale, decisions=decisions)
        assert "zero everywhere" not in str(told.value)
    # of one class for every row they are divided by their sums
    R = np.random.default_rng(0).dirichlet([2.0, 1.0], 40)
    y = (R[:, 1] > 0.4).astype(int)
    with pytest.warns(UserWarning, match="were divided by their sums"):
        found = confmax.maximize("macro_f1", R * 1e-310, y, normalize=True)
    assert found.value == pytest.approx(confmax.maximize("macro_f1", R, y).value)
