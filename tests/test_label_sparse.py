"""Several labels per row on sparse tables: they equal the dense tables that they stand for."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score

import confmax
from confmax.calibration.labels import LabelScaling, fit
from confmax.confusion import Gains
from confmax.evaluate.label_figures import decided_beside
from confmax.evaluate.label_rivals import Rivals
from confmax.tables.decisions import ANY, decisions_of
from confmax.tables.several import decide_labels, labels_table
from tests.helpers import by_numpy

FORMS = ["any", 1, 2, ("at_most", 2), 5]
STATISTICS = ("rows", "diagonal", "columns")


def rows_of(seed, n, L, *, digits=2, share=0.4):
    """Probabilities of which a share is stored, with ties, and labels that are true where they are."""
    rng = np.random.default_rng(seed)
    P = np.round(rng.random((n, L)), digits) * (rng.random((n, L)) < share)
    Y = (rng.random((n, L)) < P).astype(np.uint8)
    Y[0, P[0] > 0] = 1
    return P, Y


def gains_on(rng, L, form):
    """Gains whose scores tie; of any labels what is not stored is not decided on the dense table either."""
    a = rng.integers(0 if form == "any" else -1, 3, (3, L))
    b = rng.integers(-2, 2, (3, L)) / 4
    return Gains.reduced(a, -np.abs(b) if form == "any" else b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_decisions_and_statistics_are_those_of_the_dense_table(seed, form, dtype):
    rng = np.random.default_rng(seed)
    n, L = int(rng.integers(1, 50)), int(rng.integers(5, 14))
    P, _ = rows_of(seed, n, L, digits=1)
    # rows also have labels that they do not store
    Y = (rng.random((n, L)) < 0.3).astype(np.uint8)
    weight = rng.random(n) + 0.1 if seed % 2 else None
    decisions = decisions_of(form)
    P = P.astype(dtype)
    dense = labels_table(decisions, P, Y, weight)
    sparse = labels_table(decisions, sp.csc_matrix(P), sp.coo_array(Y) if seed % 3 else Y, weight)
    assert sparse.head.proba.dtype == dtype and sparse.fingerprint() == dense.fingerprint()
    gains = gains_on(rng, L, form)
    for g in range(len(gains)):
        chosen = decide_labels(sparse.head.proba, gains[g], decisions)
        with by_numpy():
            assert (decide_labels(sparse.head.proba, gains[g], decisions) != chosen).nnz == 0
        assert chosen.dtype == np.uint8 and chosen.has_sorted_indices
        np.testing.assert_array_equal(chosen.toarray(), decide_labels(dense.head.proba, gains[g], decisions))
    for share in (1.0, 0.0, rng.random(L)):
        one, other = (table.oracle(share).maximize(gains) for table in (dense, sparse))
        for name in STATISTICS:
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-14)


CASES = [
    *((name, "any") for name in ("macro_f1", "micro_f1", "g_mean", "macro_jaccard")),
    *((name, k) for name in ("macro_f1", "micro_f1", "macro_recall", "micro_precision", "coverage") for k in (1, 3)),
    ("macro_f1", ("at_most", 2)),
]


@pytest.mark.parametrize(
    ("name", "form", "confusion"),
    [
        *((*case, confusion) for case in CASES for confusion in ("model", "labels")),
        *((*case, "blend") for case in CASES if case[0] == "macro_f1"),
    ],
    ids=str,
)
def test_maximize_equals_the_dense_table(name, form, confusion):
    P, Y = rows_of(1, 60, 5, digits=4)
    settings = {"decisions": form, "confusion": confusion, "calibration": None}
    one = confmax.maximize(name, P, Y, **settings)
    other = confmax.maximize(name, sp.csr_array(P), sp.csr_array(Y), **settings)
    # A search by gains ends within its tolerance of the bound. Which of the single rules that near it comes out depends
    # on how a sum is rounded, and so on the processor.
    by_gains = form != "any" and one.upper_bound is not None
    assert other.value == pytest.approx(one.value, abs=1e-6 if by_gains else 1e-12)
    assert (other.upper_bound is None) == (one.upper_bound is None)
    if one.upper_bound is not None:
        # the search for prices of rows ends elsewhere if a sum is rounded otherwise; each bound is valid for both
        assert other.upper_bound == pytest.approx(one.upper_bound, abs=2e-3)
        assert min(one.upper_bound, other.upper_bound) >= max(one.value, other.value) - 1e-12
    found = other.rule if by_gains else one.rule
    np.testing.assert_array_equal(other.predict(sp.csr_array(P)).toarray(), found.predict(P))


@pytest.mark.parametrize("form", ["any", 2])
def test_calibration_leaves_what_is_not_stored_at_zero(form):
    P, Y = rows_of(2, 400, 5, digits=4)
    table = labels_table(ANY, sp.csr_array(P**2), Y)
    maps = fit(table)
    after = maps.transform(table.head.proba)
    assert after.nnz == table.head.proba.nnz
    true = Y[P > 0]
    loss = [-(np.log(np.where(true == 1, p, 1 - p))).mean() for p in (table.head.proba.data, after.data)]
    assert loss[1] < loss[0] - 0.02
    solution = confmax.maximize("macro_f1", table.head.proba, Y, decisions=form)
    made = solution.predict(table.head.proba)
    # the value is that of the blend, and on labels that of the decisions
    hits, decided = made.multiply(Y).sum(axis=0), made.sum(axis=0)
    assert solution.label_value == pytest.approx(np.mean(2 * hits / (Y.sum(axis=0) + decided)))
    again = confmax.maximize("macro_f1", table.head.proba, Y, decisions=form, calibration=maps)
    assert again.value == solution.value


def test_maps_of_stored_entries_are_those_of_an_array_that_stores_all():
    P, Y = rows_of(3, 50, 4, digits=4, share=2.0)
    P = np.maximum(P, 1e-3)
    Y = (np.random.default_rng(0).random(P.shape) < P).astype(int)
    one, other = fit(labels_table(ANY, P, Y)), fit(labels_table(ANY, sp.csr_array(P), Y))
    np.testing.assert_allclose(other.a, one.a, rtol=1e-6)
    np.testing.assert_allclose(other.c, one.c, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(LabelScaling(one.a, one.c).transform(sp.csr_array(P)).toarray(), one.transform(P))


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_rules_return_the_container_that_they_are_given(form):
    P, Y = rows_of(4, 30, 5)
    solution = confmax.maximize("macro_f1", form(P), form(Y), decisions=2, classes=list("abcde"), calibration=None)
    made = solution.predict(form(P))
    assert type(made) is type(form(P).tocsr()) and made.dtype == np.uint8
    names = [[name for name, one in zip("abcde", row, strict=True) if one] for row in made.toarray()]
    assert solution.predict_lists(form(P)) == names == solution.predict_lists(P)
    drawn = confmax.maximize("coverage", P, Y, decisions=1, confusion="model", calibration=None, randomized=True).rule
    assert drawn.is_randomized
    np.testing.assert_array_equal(drawn.predict(form(P)).toarray(), drawn.predict(P))
    shares = drawn.decision_probabilities(form(P))
    np.testing.assert_allclose(shares.toarray(), drawn.decision_probabilities(P))


def test_limits_need_a_dense_table():
    P, Y = rows_of(5, 60, 5, digits=4)
    settings = {"decisions": "any", "confusion": "labels", "calibration": None, "constraints": ["recall[0] >= 0.9"]}
    settings["constraints"] = ["rate[0] <= 0.1"]
    one = confmax.maximize("macro_f1", P, Y, **settings)
    other = confmax.maximize("macro_f1", sp.csr_array(P), sp.csr_array(Y), **settings)
    assert one.rule == other.rule and one.value == pytest.approx(other.value, abs=1e-12)
    decided = other.predict(sp.csr_array(P)).toarray()
    assert other.constraints[0].value == pytest.approx(decided[:, 0].mean()) and other.constraints[0].kept
    assert other.value == pytest.approx(f1_score(Y, decided, average="macro"))
    wide = sp.csr_array((sp.csr_array(P).data, sp.csr_array(P).nonzero()), shape=(60, 1_000_000))
    with pytest.raises(ValueError, match="a limit on several labels needs a dense table, and this sparse one would"):
        confmax.maximize("macro_f1", wide, **{**settings, "confusion": "model"})


@pytest.mark.parametrize(("quantity", "level"), [("recall[0] >=", 0.99), ("labels_per_row >=", 4)])
def test_no_limit_is_kept_by_labels_that_are_not_stored(quantity, level):
    P, Y = rows_of(5, 60, 5)
    Y[:5, 0] = 1
    settings = {"decisions": "any", "confusion": "labels", "calibration": None}
    limit = f"{quantity} {level}"
    sentence = r"within the limits give every row the label .* pass proba as an array"
    assert confmax.maximize("hamming", P, Y, constraints=limit, **settings).feasible
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("hamming", sp.csr_array(P), Y, constraints=limit, **settings)
    with pytest.raises(ValueError, match=sentence):
        confmax.frontier("hamming", quantity, sp.csr_array(P), Y, levels=[0.1, level], **settings)


def test_a_frontier_is_that_of_the_dense_table():
    P, Y = rows_of(5, 60, 5)
    settings = {"decisions": "any", "confusion": "labels", "calibration": None, "levels": [0.5, 0.2]}
    paths = [confmax.frontier("hamming", "labels_per_row <=", form, Y, **settings) for form in (P, sp.csr_array(P))]
    assert paths[0].rules == paths[1].rules and paths[0].on_labels.values.tolist() == paths[1].on_labels.values.tolist()


@pytest.mark.parametrize("calibration", ["auto", None])
@pytest.mark.parametrize("decisions", ["any", 2, ("at_most", 4)])
def test_scores_and_pages_are_of_what_predict_decides(decisions, calibration):
    P, Y = rows_of(7, 80, 5, share=0.3)
    Y[:, 4] = 1  # is decided wherever it is stored
    tuned = confmax.maximize("macro_f1", sp.csr_array(P), Y, decisions=decisions, calibration=calibration)
    decided = tuned.predict(sp.csr_array(P)).toarray()
    assert decisions != "any" or not decided[P == 0].any()
    expected = f1_score(Y, decided, average="macro")
    assert confmax.score("macro_f1", sp.csr_array(P), Y, tuned).estimate("rule").value == pytest.approx(expected)
    table = labels_table(decisions_of(decisions), sp.csr_array(P), Y)
    beside = decided_beside(Rivals(()), tuned.rule, None, table.head)
    np.testing.assert_array_equal(beside["tuned rule"], decided)


def test_a_frontier_judges_sparse_rows_by_what_predict_decides():
    P, Y = rows_of(8, 80, 5, share=0.3)
    settings = {"decisions": "any", "confusion": "labels", "calibration": None, "levels": [2, 4]}
    path = confmax.frontier("macro_f1", "labels_per_row >=", P, Y, **settings)
    expected = [rule.predict(sp.csr_array(P)).sum() / len(P) for rule in path.rules]
    np.testing.assert_allclose(path.on(sp.csr_array(P), Y, n_replicates=0).reached, expected)


def test_lists_of_names_are_labels():
    P = sp.csr_array([[0.8, 0.0], [0.3, 0.9]])
    table = labels_table(ANY, P, [["b", "b"], []], classes=["a", "b"])
    assert table.head.labels.toarray().tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize(
    ("P", "Y", "sentence"),
    [
        ([[0.5, 0.0], [0.0, 1.5]], None, "row 1, column 1 of proba is 1.5, and a probability is at most 1"),
        ([[0.5, 0.0], [-0.5, 0.5]], None, "row 1, column 0 of proba is negative"),
        ([[0.5, 0.0], [0.0, 0.5]], sp.csr_array([[1, 0], [0, 2]]), "row 1, column 1 of y is 2, and labels are 0"),
        ([[0.5, 0.0], [0.0, 0.5]], sp.csr_array([[1, 0]]), "for 2 rows and 2 labels; got shape"),
    ],
)
def test_bad_sparse_tables_are_refused(P, Y, sentence):
    with pytest.raises(ValueError, match=sentence):
        labels_table(ANY, sp.csr_array(P), Y)


def test_very_many_labels_take_no_dense_table():
    rng = np.random.default_rng(0)
    n, L, stored = 300, 60_000, 20
    rows, labels = np.repeat(np.arange(n), stored), rng.integers(0, L, n * stored)
    labels[::2] %= 50
    P = sp.csr_array((rng.random(n * stored) / 2, (rows, labels)), shape=(n, L))
    P.data = np.minimum(P.data, 1.0)
    Y = P.copy()
    Y.data = (rng.random(P.nnz) < P.data).astype(np.uint8)
    given = {"decisions": 5, "confusion": "labels", "calibration": None, "max_passes": 20}
    with pytest.warns(UserWarning, match="no row of y has the labels"):
        solution = confmax.maximize("macro_f1", P, Y, **given)
    assert solution.value > max(solution.baselines.values())
    made = solution.predict(P)
    assert (made.sum(axis=1) == 5).all()


def test_one_label_is_taken_as_of_arrays():
    P, Y = np.array([[0.3], [0.8], [0.1], [0.6]]), np.array([[0], [1], [0], [1]])
    dense = confmax.maximize("macro_f1", P, Y, decisions="any")
    sparse = confmax.maximize("macro_f1", sp.csr_matrix(P), sp.csr_matrix(Y), decisions="any")
    assert sparse.rule == dense.rule
    np.testing.assert_array_equal(sparse.predict(sp.csr_matrix(P)).toarray(), dense.predict(P))
    with pytest.raises(ValueError, match=r"proba must have shape \(n, L\); got shape \(4, 0\)"):
        confmax.maximize("macro_f1", sp.csr_matrix((4, 0)), decisions="any")


def test_zeros_that_are_stored_say_no_more_than_absent_entries():
    P, Y = rows_of(0, 40, 6)
    full = sp.csr_array((P.ravel(), np.tile(np.arange(6), 40), np.arange(0, 241, 6)), shape=P.shape)
    table = labels_table(ANY, full, Y)
    assert (full.nnz, table.head.proba.nnz) == (240, np.count_nonzero(P))
    assert table.fingerprint() == labels_table(ANY, P, Y).fingerprint()


def test_rows_without_a_true_label_have_no_hits():
    P, _ = rows_of(0, 40, 6)
    gains = Gains.reduced(np.ones((1, 6)), np.full((1, 6), -0.3))
    for form in FORMS:
        table = labels_table(decisions_of(form), sp.csr_array(P), sp.csr_array(P.shape, dtype=np.uint8))
        counted = table.oracle(0.0).maximize(gains)
        assert not counted.rows.any() and not counted.diagonal.any()
        np.testing.assert_allclose(counted.columns, table.oracle(1.0).maximize(gains).columns)


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array])
def test_an_oracle_says_what_it_lacks(stored):
    P, _ = rows_of(0, 40, 6)
    table = labels_table(ANY, stored(P), None)
    np.testing.assert_allclose(table.oracle(1.0).rows, P.mean(axis=0))
    with pytest.raises(ValueError, match="a share of the model below 1 counts labels, and this table has none; pass"):
        table.oracle(0.5)
    with pytest.raises(ValueError, match="several labels per row have no confusion matrix; ask without"):
        table.oracle(1.0).maximize(Gains.reduced(np.ones(6), -0.3), matrix=True)


def test_decisions_are_those_of_their_argument():
    for form, said in (
        ("one", "one class for every row"),
        ("any", "any labels"),
        (1, "exactly 1 label for every row"),
        (2, "exactly 2 labels for every row"),
        (("at_most", 1), "at most 1 label for every row"),
    ):
        found = decisions_of(form)
        assert (found.argument, str(found)) == (form, said)
        assert decisions_of(found.argument) == decisions_of(found) == found


@pytest.mark.parametrize("name", ["hamming", "macro_f1", "g_mean"])
def test_of_equal_thresholds_sparse_and_dense_tables_get_the_same(name):
    for seed in range(30):
        P = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], (16, 2))
        dense, sparse = (
            confmax.maximize(name, rows, decisions="any", calibration=None) for rows in (P, sp.csr_array(P))
        )
        np.testing.assert_array_equal(dense.rule.predict(P), sparse.rule.predict(P))


@pytest.mark.parametrize("name", ["micro_f1", "micro_jaccard"])
def test_one_calibrated_threshold_of_sparse_rows_is_the_best_of_all(name):
    rng = np.random.default_rng(8)
    P = np.where(rng.random((300, 5)) < 0.4, rng.random((300, 5)).round(3), 0.0)
    Y = (rng.random(P.shape) < 0.8 * P**1.5).astype(int)
    maps = LabelScaling([0.5, 1.0, 2.0, 1.0, 0.7], [0.5, 0.0, -1.0, 1.0, 0.2])
    found = confmax.maximize(name, sp.csr_array(P), Y, decisions="any", calibration=maps)
    q = np.where(P > 0.0, maps.transform(P), 0.0)
    share = 20.0 / (20.0 + Y.sum(axis=0))
    S = share * q + (1.0 - share) * Y
    less = float(name == "micro_jaccard")
    best = max(
        (2.0 - less) * (S * D).sum() / (S.sum() + D.sum() - less * (S * D).sum())
        for D in (q >= t for t in np.unique(q[q > 0.0]))
    )
    assert found.value == pytest.approx(max(best, found.baselines["p > 0.5"]), abs=1e-12)
    assert found.upper_bound >= found.value
