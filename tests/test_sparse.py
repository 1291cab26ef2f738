"""Sparse tables: the dense table's answers bit for bit, from whatever scipy.sparse holds; sentences for what is not."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import confmax
from confmax import kernels
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.calibration.blend import model_share
from confmax.checks import check_oracle
from confmax.confusion import Gains
from confmax.oracle import decide, make_oracle, make_table
from confmax.oracle import decide as reference_decide
from confmax.tables import Table, checked_probabilities, memory
from confmax.tables.sparse import by_numpy
from confmax.tables.sparse import kind as sparse_oracle
from confmax.tables.sparse import rows as sparse_rows
from confmax.tables.sparse.kind import _edges
from confmax.tables.sparse.rows import largest_first
from tests.helpers import assert_same_statistics, compiled, labels_drawn

MODES = ["model", "labels", "blend"]


def top_k(seed, n, K, k, dtype=np.float64, digits=None):
    """Return a checked dense table (n, K) of at most k probabilities per row, labels, weights; ties with ``digits``."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.5), n) + 1e-9
    if digits is not None:
        P = np.round(P, digits) + 10.0 ** (-digits - 1)
    least = np.sort(P, axis=1)[:, -k, None]
    P[least > P] = 0.0
    P = checked_probabilities((P / P.sum(axis=1, keepdims=True)).astype(dtype))
    y = labels_drawn(P, rng)
    y[:K] = np.arange(K)[:n]
    return P, y, rng.random(n) + 0.1


def with_zeros(P, seed=0, index=np.int32):
    """Return P as a csr_array in which some zeros are stored, with indices of a type."""
    kept = (P > 0) | (np.random.default_rng(seed).random(P.shape) < 0.2)
    rows, columns = np.nonzero(kept)
    indptr = np.append(0, np.cumsum(kept.sum(axis=1)))
    csr = sp.csr_array((P[rows, columns], columns, indptr), shape=P.shape)
    csr.indices, csr.indptr = csr.indices.astype(index), csr.indptr.astype(index)
    return csr


def metric_of(name):
    if name != "linear":
        return confmax.metrics.get(name)
    return confmax.metrics.get("linear", gain=np.random.default_rng(0).normal(size=(6, 8)))


# --- the oracle ------------------------------------------------------------------------------------------------------


# the fixture changes nothing from one example to the next
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 1100),
    K=st.integers(2, 12),
    k=st.integers(1, 4),
    digits=st.sampled_from([1, None]),
    dtype=st.sampled_from([np.float32, np.float64]),
    index=st.sampled_from([np.int32, np.int64]),
    gain=st.sampled_from(["both signs", "weights", "one class", "constant", "power 1", "power 2", "full", "wide"]),
    weighted=st.booleans(),
    share=st.sampled_from([1.0, 0.0, 0.3]),
)
@pytest.mark.usefixtures("form")
def test_answers_are_those_of_the_reference_on_the_dense_table(
    seed, n, K, k, digits, dtype, index, gain, weighted, share
):
    """Whatever the gain, also where many scores tie or absent classes win: decisions alike, sums to 1e-12."""
    P, y, weight = top_k(seed, n, K, min(k, K), dtype, digits)
    rng = np.random.default_rng(seed)
    a, b = np.round(rng.normal(size=(4, K)), 1), np.round(rng.normal(size=(4, K)) * 0.3, 1)
    if gain in ("full", "wide"):
        gains = Gains.from_matrix(np.round(rng.normal(size=(4, K, K + (gain == "wide"))), 1))
    elif gain == "one class":
        only = np.eye(K)[rng.integers(0, K, 4)]
        gains = Gains.reduced(a * only, b * only)
    elif gain == "weights":
        gains = Gains.reduced(np.abs(a))
    elif gain == "constant":
        gains = Gains.constant(K, rng.integers(0, K, 4))
    else:
        gains = Gains.reduced(a, b, power=int(gain[-1]) if gain.startswith("power") else 0)
    csr = with_zeros(P, seed, index)
    given_weight = weight if weighted else None
    sparse = make_oracle(make_table(csr, y, given_weight, range(K)), "blend", model_share=share)
    assert sparse.table.head.storage.backend == "sparse"
    reference = make_oracle(make_table(P, y, given_weight, range(K)), "blend", backend="numpy", model_share=share)
    np.testing.assert_array_equal(decide(sparse.table.head.proba, gains), reference_decide(P, gains))
    expected = reference.maximize(gains, matrix=True)
    np.testing.assert_allclose(sparse.rows, expected.rows, rtol=0, atol=1e-12)
    for matrix in (False, True):
        found, wanted = (oracle.maximize(gains, matrix=matrix) for oracle in (sparse, reference))
        assert_same_statistics(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("form")
def test_the_oracle_passes_the_conformance_checks_on_tables_with_zeros():
    def make(table, share):
        rows = table.head
        return make_table(with_zeros(rows.proba), rows.labels, rows.weight, rows.classes).oracle(share)

    check_oracle(make)


def random_rows(seed, n, K, most, dtype):
    """Return a csr_array of rows that store 1 to ``most`` entries, some of them zero, sums a little off one."""
    rng = np.random.default_rng(seed)
    stored = rng.integers(1, most + 1, n)
    columns = np.concatenate([np.sort(rng.choice(K, size, replace=False)) for size in stored])
    p = np.concatenate([rng.dirichlet(np.ones(size)) * rng.uniform(0.9995, 1.0005) for size in stored])
    return sp.csr_array((p.astype(dtype), columns, np.append(0, np.cumsum(stored))), shape=(n, K))


def random_gains(seed, K):
    """Return batches of all kinds of gains: ties, absent classes that win, more decisions than classes, one class."""
    rng = np.random.default_rng(seed)
    a, b = np.round(rng.normal(size=(2, 3, K)), 1)
    only = np.eye(K)[rng.integers(0, K, 2 * K)]
    return [
        Gains.reduced(a, b),
        Gains.reduced(np.abs(a), 0.1 * rng.random(K + 2)),
        Gains.reduced(-np.abs(a), np.round(rng.random(K), 1)),
        Gains.from_matrix(np.round(rng.normal(size=(2, K, K + 1)), 1)),
        Gains.reduced(only * np.round(rng.normal(size=K), 1), only * np.round(rng.normal(size=K), 1)),
        Gains.reduced(a[:1] * np.where(np.arange(K) == 1, 1e-35, 1.0)),
    ]


@compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "n, K, most", [(1, 2, 2), (514, 3, 3), (700, 4, 4), (333, 17, 17), (600, 129, 90), (1500, 8, 5)]
)
def test_kernels_and_their_numpy_forms_agree(monkeypatch, n, K, most, dtype):
    """Checked probabilities and decisions are the same bits, statistics the same to 1e-12."""
    # small parts, so that every path has several
    monkeypatch.setattr(sparse_rows, "ROWS", 100)
    monkeypatch.setattr(sparse_oracle, "PART_ROWS", 100)
    monkeypatch.setattr(by_numpy, "PAIRS", 100)
    monkeypatch.setattr(memory, "MOST_DECISIONS", 2 * n)
    rng = np.random.default_rng(n)
    given_rows, y, weight = random_rows(n, n, K, most, dtype), rng.integers(0, K, n), rng.random(n)
    made, found = rng.integers(0, K + 1, n), {}
    for native in (kernels.native, None):
        monkeypatch.setattr(kernels, "native", native)
        table = make_table(given_rows, y, None, range(K))
        exact, close = [table.head.proba.data, table.head.probability_of(made)], []
        for gains in random_gains(n, K):
            exact += [decide(table.head.proba, gains)]
            for share, weights in ((1.0, None), (0.0, weight), (0.4, weight), (0.0, None)):
                oracle = make_oracle(Table.of(replace(table.head, weight=weights)), "blend", model_share=share)
                for matrix in (False, True)[: 1 + (K < 20)]:
                    answer = oracle.maximize(gains, matrix=matrix)
                    close += [answer.rows, answer.diagonal, answer.columns, *([answer.matrix] if matrix else [])]
        found[native] = exact, close
    (exact, close), (other_exact, other_close) = found.values()
    for one, other in zip(exact, other_exact, strict=True):
        np.testing.assert_array_equal(other, one)
    for one, other in zip(close, other_close, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-15)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), K=st.integers(1, 30), constant=st.booleans())
def test_largest_first_is_the_head_of_a_full_sort(seed, K, constant):
    rng = np.random.default_rng(seed)
    b = np.zeros(K) if constant else np.round(rng.normal(size=K), 0)
    order = np.lexsort((np.arange(K), b))[::-1]
    for most in range(1, K + 1):
        np.testing.assert_array_equal(largest_first(b, most), order[:most])


def test_statistics_do_not_depend_on_the_number_of_threads(threads):
    P, y, weight = top_k(3, 30_000, 6, 3)
    gains = Gains.concatenate([Gains.reduced(np.random.default_rng(0).random((3, 6))), Gains.reduced(np.eye(6))])
    answers = []
    for number in (1, 2, 8):
        threads(number)
        oracle = make_oracle(make_table(sp.csr_array(P), y, weight), "blend", model_share=0.4)
        parts = [oracle.maximize(gains, matrix=matrix) for matrix in (False, True)]
        answers.append([oracle.rows, parts[0].diagonal, parts[0].columns, parts[1].matrix])
    assert len(_edges(oracle.table.head, 12)) > 3  # or nothing was tested
    for other in answers[1:]:
        assert [part.tobytes() for part in other] == [part.tobytes() for part in answers[0]]


# --- maximize --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", confmax.metrics.names())
@pytest.mark.filterwarnings("ignore:of the rows", "ignore:.* are duplicates of each other")
def test_every_metric_finds_the_rule_of_the_dense_table(name, mode):
    metric = metric_of(name)
    K = 2 if metric.binary else 6
    close = 1e-7 if name == "min_recall" else 1e-9  # a linear program stops within its tolerance
    for dtype, seed in ((np.float64, 0), (np.float32, 1)):
        P, y, weight = top_k(seed, 60, K, min(3, K), dtype, digits=None if seed else 1)
        csr = with_zeros(P, seed)
        options = {"sample_weight": weight if seed else None, "confusion": mode, "max_passes": 12, "classes": range(K)}
        dense = confmax.maximize(metric, P, y, calibration=None, **options)
        sparse = confmax.maximize(metric, csr, y, **options)
        assert sparse.value == pytest.approx(dense.value, abs=close)
        if (name, mode) != ("min_recall", "model"):
            # several mixtures have the largest minimum on the model, and they differ on labels
            assert sparse.label_value == pytest.approx(dense.label_value, abs=close)
        assert (sparse.upper_bound is None) == (dense.upper_bound is None)
        assert sparse.calibration is None
        for rule in (sparse.rule, dense.rule):
            np.testing.assert_array_equal(rule.predict(csr), rule.predict(P))
            np.testing.assert_array_equal(rule.decision_probabilities(csr), rule.decision_probabilities(P))


@pytest.mark.parametrize("solver", ["coordinate_search", "max_min", "threshold_search"])
def test_solvers_that_read_the_table_itself(solver):
    K = 2 if solver == "threshold_search" else 4
    P, y, _ = top_k(7, 120, K, 2, digits=1)
    metric = "min_recall" if solver == "max_min" else "macro_f1"
    found = [
        confmax.maximize(
            metric, table, y, solver=solver, confusion="labels", calibration=None, max_passes=40, randomized=False
        )
        for table in (P, sp.csr_array(P))
    ]
    assert found[0].value == pytest.approx(found[1].value, abs=1e-12)
    np.testing.assert_array_equal(found[1].rule.predict(sp.csr_array(P)), found[0].rule.predict(P))


def test_share_of_the_model_is_that_of_the_dense_table():
    P, y, weight = top_k(11, 400, 5, 2)
    y = np.where(np.arange(400) % 8 == 0, (y + 1) % 5, y)
    for w in (None, weight):
        dense, sparse = make_table(P, y, w), make_table(with_zeros(P), y, w)
        share = model_share(dense)
        assert 0.01 < share < 0.99  # or nothing was compared
        assert model_share(sparse) == pytest.approx(share, abs=1e-12)


def test_duplicates_are_warned_of():
    rule = confmax.DecisionRule(Gains.constant(5, [0, 1]), np.array([0.5, 0.5]), tuple(range(5)))
    with pytest.warns(UserWarning, match="100% of the rows are duplicates"):
        rule.predict(sp.csr_array(np.tile(top_k(12, 1, 5, 3)[0], (50, 1))))


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
@pytest.mark.usefixtures("form")
def test_decisions_on_other_probabilities_are_counted(share):
    P, y, weight = top_k(14, 300, 4, 2)
    other, *_ = top_k(15, 300, 4, 3)
    gains = Gains.from_matrix(np.random.default_rng(0).normal(size=(2, 4, 5)))
    found = []
    for kind in (np.asarray, sp.csr_array):
        rows, by = (make_table(kind(each), y, weight).head for each in (P, other))
        found.append(rows.storage.scan(rows, gains, share, matrix=True, by=by))
    dense, sparse = found
    assert_same_statistics(sparse, dense, rtol=1e-7, atol=1e-12)


# --- what is accepted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dok", "lil", "bsr", "dia"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_format_is_read(form, kind):
    P, y, _ = top_k(20, 40, 5, 2)
    csr = getattr(sp, f"{form}_{kind}")(P)
    rows = make_table(csr, y).head
    np.testing.assert_array_equal(rows.proba.toarray(), P)
    assert type(rows.proba) is sp.csr_array
    assert rows.storage.backend == "sparse"


@pytest.mark.usefixtures("form")
def test_unsorted_and_double_entries_are_put_right_and_the_callers_table_left_alone():
    data, indices = np.array([0.3, 0.5, 0.2, 0.25, 0.5, 0.25]), np.array([2, 0, 1, 3, 1, 3])
    csr = sp.csr_array((data.copy(), indices.copy(), [0, 3, 6]), shape=(2, 4))
    csr.has_canonical_format = True  # what a table says of itself may be out of date
    checked = checked_probabilities(csr)
    np.testing.assert_array_equal(checked.toarray(), [[0.5, 0.2, 0.3, 0.0], [0.0, 0.5, 0.0, 0.5]])
    assert checked.indices.tolist() == [0, 1, 2, 1, 3]
    np.testing.assert_array_equal(csr.data, data)
    np.testing.assert_array_equal(csr.indices, indices)


@pytest.mark.usefixtures("form")
def test_entries_of_a_table_in_order_are_not_copied():
    P, *_ = top_k(21, 50, 5, 2)
    csr = sp.csr_matrix(P)
    checked = checked_probabilities(csr)
    assert np.shares_memory(checked.data, csr.data)
    # what the kernels take as indices is: another thread may change the table
    assert not np.shares_memory(checked.indices, csr.indices)
    assert checked_probabilities(checked).data is checked.data or np.shares_memory(checked.data, csr.data)


@pytest.mark.usefixtures("form")
def test_rows_are_renormalised_as_dense_ones():
    P, *_ = top_k(22, 200, 6, 3)
    off = P * np.linspace(0.9995, 1.0005, 200)[:, None]
    csr = sp.csr_array(off)
    before = csr.data.copy()
    checked = checked_probabilities(csr)
    np.testing.assert_allclose(checked.toarray(), checked_probabilities(off), rtol=1e-15)
    np.testing.assert_array_equal(csr.data, before)
    np.testing.assert_array_equal(checked_probabilities(checked).data, checked.data)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint8])
def test_whole_numbers_are_probabilities_too(dtype):
    table = make_table(sp.csr_array(np.eye(3, dtype=dtype)))
    assert table.head.proba.dtype == np.float64
    assert table.mean_probability().tolist() == [1 / 3] * 3


GOOD = np.array([[0.7, 0.3, 0.0], [0.0, 0.8, 0.2], [0.5, 0.0, 0.5]])


def broken(row, column, value):
    P = GOOD.copy()
    P[row, column] = value
    return P


@pytest.mark.parametrize(
    ("P", "sentence"),
    [
        (broken(1, 2, np.nan), "row 1, column 2 of proba is not a finite number"),
        (broken(2, 0, np.inf), "row 2, column 0 of proba is not a finite number"),
        (np.array([[1.2, -0.2, 0.0], *GOOD]), r"row 0, column 1 of proba is negative \(-0.2\)"),
        (broken(1, 2, 0.0), r"row 1 of proba sums to 0.8, not to one .* divide each row by its sum, or add a column"),
        (GOOD * [[1], [1], [0]], "row 2 of proba holds no probability; drop such rows, or add a column 'other'"),
        (GOOD[:, :1], r"shape \(n, K\) with K >= 2 classes; got shape \(3, 1\)"),
        (GOOD[:0], "proba is empty"),
        (GOOD + 0j, "complex"),
    ],
)
@pytest.mark.parametrize("make", [sp.csr_array, sp.coo_matrix])
@pytest.mark.usefixtures("form")
def test_bad_tables(P, sentence, make):
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("accuracy", make(P))


@pytest.mark.usefixtures("form")
def test_broken_tables():
    csr = sp.csr_array(GOOD)
    csr.indices = csr.indices.copy()
    csr.indices[3] = 7
    with pytest.raises(ValueError, match="row 1 of proba stores an entry in column 7 of 3"):
        make_table(csr)
    csr = sp.csr_array(GOOD)
    csr.indptr = np.array([0, 4, 2, 6], dtype=csr.indptr.dtype)
    with pytest.raises(ValueError, match="row pointers"):
        make_table(csr)


CALIBRATORS = [
    Temperature(2.0),
    VectorScaling(np.ones(4), np.arange(4.0)),
    MatrixScaling(np.eye(4) + 0.1, np.arange(4.0)),
]


@pytest.mark.parametrize("kind", ["temperature", "vector", *CALIBRATORS], ids=str)
def test_calibration_is_refused(kind):
    P, y, _ = top_k(24, 60, 4, 2)
    sentence = r"a sparse table cannot be calibrated, .* calibrate before you drop the small"
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("macro_f1", sp.csr_array(P), y, calibration=kind)


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
def test_a_calibrator_transforms_sparse_rows_as_dense_ones(calibrator):
    P, _, _ = top_k(25, 60, 4, 2)
    np.testing.assert_array_equal(calibrator.transform(with_zeros(P)), calibrator.transform(P))


# --- very many classes -----------------------------------------------------------------------------------------------


def wide(n, K, k=5, seed=0):
    """Return a csr_array of k entries per row (as the caller stores them) and labels; not all classes are present."""
    rng = np.random.default_rng(seed)
    columns = np.array([rng.choice(K, k, replace=False) for _ in range(n)])
    p = rng.dirichlet(np.ones(k), n).astype(np.float32)
    csr = sp.csr_array((p.reshape(-1), columns.reshape(-1), np.arange(n + 1) * k), shape=(n, K))
    return csr, columns[np.arange(n), p.argmax(axis=1)]


@pytest.mark.filterwarnings("ignore:no row of y has the classes")
@pytest.mark.parametrize(
    ("name", "mode"), [("accuracy", "model"), ("macro_f1", "labels"), ("h_mean", "blend"), ("cohen_kappa", "labels")]
)
def test_very_many_classes_take_memory_for_their_entries(name, mode):
    K = 20_000
    csr, y = wide(1000, K)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* divides by class sizes", category=UserWarning)
        tracemalloc.start()
        found = confmax.maximize(name, csr, y, confusion=mode, max_passes=4)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert found.confusion is None
    assert peak < 150 * 2**20  # K x K numbers are three thousand
    assert found.value >= max(found.baselines.values())
    rows = csr[:30]
    np.testing.assert_array_equal(found.rule.predict(rows), found.rule.predict(rows.toarray()))


@pytest.mark.filterwarnings("ignore:no row of y has the classes")
def test_what_is_dense_is_refused_where_it_would_be_large():
    K = 20_000
    csr, y = wide(2000, K)
    rule = confmax.DecisionRule.from_weights(np.ones(K))
    calibrated = confmax.DecisionRule(rule.gains, rule.weights, rule.class_names, calibrator=Temperature(2.0))
    large = r"the whole confusion matrix of 20000 classes has 400,000,000 entries"
    for call, sentence in (
        (lambda: confmax.maximize("quadratic_kappa", csr, y, classes=range(K)), large),
        (lambda: confmax.maximize("linear_kappa", csr, y, classes=range(K)), large),
        (
            lambda: confmax.maximize("macro_f1", csr, y, solver="coordinate_search", confusion="labels"),
            "the search of one coefficient needs a dense table, and this sparse one",
        ),
        (lambda: rule.decision_probabilities(sp.vstack([csr] * 3)), "20000 decisions on 6000 rows are a dense table"),
        (lambda: calibrated.predict(csr), "the calibration of this rule needs a dense table"),
        (lambda: make_oracle(make_table(csr), backend="array"), "backend='array' needs a dense table"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
    with (
        pytest.raises(ValueError, match="needs the 20000 rules that decide the same class for all rows"),
        pytest.warns(UserWarning, match="no weight in class .* more: the metric is computed over") as told,
    ):
        confmax.maximize("min_recall", csr, y, solver="max_min")
    assert len(str(told[0].message)) < 500


def test_two_classes_are_searched_by_threshold_however_many_rows(monkeypatch):
    """A table whose cells are at most four times its entries may be made dense at any size."""
    monkeypatch.setattr("confmax.tables.sparse.kind.DENSE_CELLS", 0)
    csr = sp.csr_array([[0.5, 0.5], [0.25, 0.75]])
    assert make_table(csr).head.dense("a test").proba.shape == (2, 2)


@pytest.mark.usefixtures("form")
def test_arrays_of_any_layout_are_read():
    csr = checked_probabilities(random_rows(1, 50, 9, 6, np.float64))
    other = csr.copy()
    other.data, other.indices = np.repeat(csr.data, 2)[::2], np.repeat(csr.indices.astype(np.uint16), 3)[::3]
    np.testing.assert_array_equal(checked_probabilities(other).toarray(), csr.toarray())


def test_a_rule_is_evaluated_on_a_sparse_table():
    P, y, weight = top_k(13, 500, 5, 3)
    tables = [make_table(each, y, weight) for each in (P, sp.csr_array(P))]
    rule = confmax.DecisionRule.from_weights([1, 2, 3, 1, 2], [0.1, 0, 0, 0.2, 0])
    calibrated = confmax.DecisionRule(rule.gains, rule.weights, rule.class_names, calibrator=Temperature(2.0))
    for each in (rule, calibrated):
        for mode in ("model", "labels"):
            dense, sparse = (each.evaluate(make_oracle(table, mode), matrix=True) for table in tables)
            np.testing.assert_allclose(sparse.matrix, dense.matrix, atol=1e-12)
    np.testing.assert_array_equal(calibrated.predict(sp.csr_array(P)), calibrated.predict(P))
