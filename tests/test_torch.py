"""Tensors: the oracle against the reference, every metric against arrays, the boundary, what stays on the device."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import confmax
from confmax import metrics
from confmax.calibration import Temperature, VectorScaling
from confmax.checks import check_oracle, check_solver
from confmax.confusion import Gains
from confmax.optimize import CoordinateSearch, Dinkelbach, choose
from confmax.oracle import DecidingOn, NumpyOracle, Table, decide, make_oracle, make_table
from confmax.oracle._numpy import decide as reference_decide

torch = pytest.importorskip("torch")

_torch = pytest.importorskip("confmax.oracle._torch")
_torch_table = pytest.importorskip("confmax.oracle._torch_table")

WIDE = {np.float32: torch.float32, np.float64: torch.float64}
NARROW = [torch.float16, torch.bfloat16]
FORMS = ["probabilities", "offsets", "distances", "squared distances", "full", "abstaining"]


def simplex(rng, n, K, dtype=np.float64, digits=None):
    P = rng.dirichlet(np.ones(K), n)
    if digits is not None:
        P = np.round(P, digits) + 10.0 ** (-digits - 2)
    return make_table((P / P.sum(axis=1, keepdims=True)).astype(dtype)).proba


def drawn_labels(rng, P):
    y = (rng.random(len(P))[:, None] > np.cumsum(P, axis=1)).sum(axis=1).clip(0, P.shape[1] - 1)
    y[: P.shape[1]] = np.arange(P.shape[1])
    return y


def random_gains(rng, K, form, digits=1):
    if form in ("full", "abstaining"):
        return Gains.from_matrix(np.round(rng.normal(size=(3, K, K + (form == "abstaining"))), digits))
    power = {"distances": 1, "squared distances": 2}.get(form, 0)
    b = None if form == "probabilities" else np.round(rng.normal(size=(3, K)), digits)
    return Gains.reduced(np.round(rng.random((3, K)), digits), b, power=power)


def small_chunks(monkeypatch, cells=64):
    monkeypatch.setattr(_torch_table, "CELLS", {"cpu": cells})


# --- decisions --------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 300),
    K=st.integers(2, 9),
    digits=st.sampled_from([1, 2, None]),
    dtype=st.sampled_from(list(WIDE)),
    form=st.sampled_from(FORMS),
)
def test_decisions_equal_the_reference(seed, n, K, digits, dtype, form):
    """Bit for bit where gains reduce, ties included; matrix products may differ where two scores are 8 ulp apart."""
    rng = np.random.default_rng(seed)
    P, gains = simplex(rng, n, K, dtype, digits), random_gains(rng, K, form)
    got, expected = decide(torch.from_numpy(P), gains), reference_decide(P, gains)
    assert got.dtype == np.int32
    if gains.full is None:
        np.testing.assert_array_equal(got, expected)
        return
    for g, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        scores = (P.astype(np.longdouble) @ gains.full[g]).astype(np.float64)
        ahead = np.abs(np.take_along_axis(scores, mine[:, None], 1) - np.take_along_axis(scores, theirs[:, None], 1))
        assert (ahead <= 8 * np.finfo(dtype).eps * np.abs(gains.full[g]).max()).all()


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("form", FORMS[:4])
def test_half_precision_is_scored_in_float32(dtype, form):
    rng = np.random.default_rng(3)
    P = torch.from_numpy(simplex(rng, 2000, 6)).to(dtype)
    gains = random_gains(rng, 6, form, digits=3)
    np.testing.assert_array_equal(decide(P, gains), reference_decide(P.float().numpy(), gains))


def test_ties_go_to_the_largest_index():
    P = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.4, 0.4, 0.1, 0.1]])
    assert decide(P, Gains.reduced(np.ones(4)))[0].tolist() == [3, 1]
    assert decide(P, Gains.reduced(np.zeros(4)))[0].tolist() == [3, 3]
    assert decide(P, Gains.from_matrix(np.eye(4)))[0].tolist() == [3, 1]
    assert decide(P, Gains.from_matrix(np.zeros((4, 5))))[0].tolist() == [4, 4]


# --- the oracle -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [1000, 1 << 18])
def test_the_oracle_passes_the_public_checks(monkeypatch, cells):
    small_chunks(monkeypatch, cells)
    check_oracle("torch", seed=2)
    check_oracle(lambda table, share: _torch.TorchOracle(_torch.as_torch(table), share), seed=3)


@pytest.mark.parametrize("dtype", [*WIDE.values(), *NARROW])
@pytest.mark.parametrize("mode, share", [("model", None), ("labels", None), ("blend", 0.3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_equal_the_reference(dtype, mode, share, weighted):
    rng = np.random.default_rng(4)
    P = torch.from_numpy(simplex(rng, 700, 5, np.float64, 2)).to(dtype)
    y, weight = rng.integers(0, 5, 700), rng.random(700) * 1e-5 if weighted else None
    oracle = make_oracle(make_table(P, torch.from_numpy(y), weight, range(5)), mode, model_share=share)
    held = (P.double() if dtype == torch.float64 else P.float()).numpy()
    reference = NumpyOracle(Table(held, y, weight, tuple(range(5))), oracle.model_share)
    assert isinstance(oracle, _torch.TorchOracle)
    np.testing.assert_allclose(oracle.rows, reference.rows, atol=1e-14)
    for form in FORMS:
        gains = random_gains(rng, 5, form, digits=6)
        expected = reference.maximize(gains, matrix=True)
        for matrix in (False, True):
            got = oracle.maximize(gains, matrix=matrix)
            assert (got.matrix is not None) == matrix
            for name in ("diagonal", "columns", "matrix")[: 2 + matrix]:
                np.testing.assert_allclose(getattr(got, name), getattr(expected, name), rtol=0, atol=1e-14)


def test_the_same_bytes_for_any_chunks_threads_and_order_of_rows(monkeypatch):
    rng = np.random.default_rng(5)
    P = simplex(rng, 3000, 4)
    y, weight = drawn_labels(rng, P), rng.random(3000)
    gains, order = random_gains(rng, 4, "offsets", digits=9), rng.permutation(3000)
    weight = np.round(weight * 1024) / 1024  # so that their own sum does not depend on the order either

    def answer(rows):
        oracle = make_oracle(make_table(torch.from_numpy(P[rows]), y[rows], weight[rows]), "blend", model_share=0.6)
        got = oracle.maximize(gains, matrix=True)
        return [oracle.rows.tobytes(), got.diagonal.tobytes(), got.columns.tobytes(), got.matrix.tobytes()]

    first = answer(slice(None))
    assert answer(slice(None)) == first
    assert answer(order) == first
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if threads > 1 else 2)
    try:
        small_chunks(monkeypatch, 1000)
        assert answer(slice(None)) == first
    finally:
        torch.set_num_threads(threads)


def test_a_constant_rule_has_a_recall_of_exactly_one():
    rng = np.random.default_rng(6)
    oracle = make_oracle(make_table(torch.from_numpy(simplex(rng, 1000, 3)), None, rng.random(1000)))
    got = oracle.maximize(Gains.constant(3, range(3)))
    np.testing.assert_array_equal(np.diagonal(got.diagonal), oracle.rows)


def test_no_temporary_is_as_large_as_the_table(monkeypatch):
    """Every tensor that a scan or a check makes is at most as large as a few chunks, or as the rows' weights."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        cells = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for each in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() != table_at:
                    self.cells = max(self.cells, each.numel())
            return out

    rng = np.random.default_rng(7)
    P = torch.from_numpy(simplex(rng, 4000, 50, np.float32)).half()
    table_at, y = P.untyped_storage().data_ptr(), rng.integers(0, 50, 4000)
    small_chunks(monkeypatch, 5000)
    with Largest() as seen:
        oracle = make_oracle(make_table(P, y, None, range(50)), "blend", model_share=0.5)
        for form in FORMS:
            oracle.maximize(random_gains(rng, 50, form), matrix=True)
        decide(P, random_gains(rng, 50, "offsets"))
    assert 5000 <= seen.cells <= 3 * 5000 < P.numel() / 10


def test_decisions_on_other_probabilities_of_the_same_rows():
    rng = np.random.default_rng(8)
    raw = simplex(rng, 400, 3)
    y, scaling = drawn_labels(rng, raw), VectorScaling([1.5, 0.8, 1.0], [0.1, 0.0, -0.3])
    gains, answers = random_gains(rng, 3, "offsets"), []
    for P in (raw, torch.from_numpy(raw)):
        table = make_table(P, y)
        oracle = make_oracle(table.calibrated(scaling), "blend", model_share=0.4)
        answers.append(DecidingOn(table, oracle).maximize(gains, matrix=True))
    np.testing.assert_allclose(answers[0].rows[0], answers[1].rows, atol=1e-13)
    for name in ("diagonal", "columns", "matrix"):
        np.testing.assert_allclose(getattr(answers[0], name), getattr(answers[1], name), atol=1e-13)


# --- a kernel that disagrees ------------------------------------------------------------------------------------------


def test_a_kernel_is_used_if_it_agrees_and_only_then(monkeypatch):
    rng = np.random.default_rng(9)
    table = make_table(torch.from_numpy(simplex(rng, 300, 4)))
    gains, used = random_gains(rng, 4, "offsets"), []

    def agreeing(part, share):
        return lambda first, second: used.append(1) or _torch.scan(part, share, first, second)

    monkeypatch.setattr(_torch, "fused_scan", agreeing)
    oracle = make_oracle(table)
    assert len(used) == 1
    oracle.maximize(gains)
    assert len(used) == 2
    oracle.maximize(gains, matrix=True)
    assert len(used) == 2

    def smallest_index(part, share):
        turned = _torch.TorchTable(part.proba.flip(1), None, None, part.classes)

        def scan(first, second):
            sums = _torch.scan(turned, share, first.flip(1), second.flip(1))
            return _torch.Sums(sums.columns.flip(1), sums.model.flip(1), sums.hits, sums.matrix, sums.counted)

        return scan

    def failing(*_):
        raise RuntimeError("no such architecture")

    tied = make_table(torch.full((5, 4), 0.25))
    for broken, reason in ((smallest_index, "decides rows differently"), (failing, "RuntimeError: no such arch")):
        monkeypatch.setattr(_torch, "fused_scan", broken)
        with pytest.warns(UserWarning, match=f"the CUDA kernel of the torch oracle is not used .*{reason}"):
            oracle = make_oracle(tied)
        assert oracle.maximize(Gains.reduced(np.ones(4))).columns[0].tolist() == [0, 0, 0, 1]


def test_there_is_no_kernel_for_tensors_in_host_memory():
    assert _torch.fused_scan(make_table(torch.full((5, 4), 0.25)), 1.0) is None


# --- the boundary -----------------------------------------------------------------------------------------------------


def test_right_tensors_are_read_in_place():
    for dtype in (*WIDE.values(), *NARROW):
        P = torch.full((6, 4), 0.25, dtype=dtype)
        assert make_table(P).proba.data_ptr() == P.data_ptr()
        assert make_table(P).proba.dtype == dtype
        rows = P[::2, :2] * 2
        assert make_table(rows).proba.data_ptr() == rows.data_ptr()


def test_every_layout_and_history_of_a_tensor():
    rng = np.random.default_rng(10)
    P = simplex(rng, 50, 4)
    y = drawn_labels(rng, P)
    expected = confmax.maximize("macro_f1", P, y)
    logits = torch.tensor(np.log(P), requires_grad=True)
    wide = torch.zeros(100, 6, dtype=torch.float64)
    wide[::2, 1:5] = torch.from_numpy(P)
    given = {
        "transposed": torch.from_numpy(np.ascontiguousarray(P.T)).T,
        "strided": wide[::2, 1:5],
        "parameter": torch.nn.Parameter(torch.from_numpy(P)),
        "graph": torch.softmax(logits, dim=1),
    }
    for name, tensor in given.items():
        for labels in (y, y.tolist(), torch.from_numpy(y), torch.from_numpy(y).to(torch.int16)[:, None]):
            found = confmax.maximize("macro_f1", tensor, labels)
            assert found.value == pytest.approx(expected.value, abs=1e-9), name
        assert not found.rule.predict(tensor).requires_grad
    whole = confmax.maximize("accuracy", torch.eye(3, dtype=torch.int64)[[0, 1, 2, 1]], confusion="model")
    assert whole.value == 1.0


def test_rows_that_nearly_sum_to_one_are_divided():
    P = torch.tensor([[0.5, 0.5], [0.3, 0.7004], [0.25, 0.75]])
    table = make_table(P)
    np.testing.assert_array_equal(table.proba.numpy(), make_table(P.numpy()).proba)
    assert P[1, 1] == np.float32(0.7004)
    np.testing.assert_array_equal(make_table(table.proba).proba.numpy(), table.proba.numpy())
    half = P.half()
    assert make_table(half).proba.data_ptr() == half.data_ptr()


def with_entry(value, dtype=torch.float32, row=70, column=1):
    P = torch.full((100, 3), 1 / 3, dtype=dtype)
    P[row, column] = value
    return P


@pytest.mark.parametrize(
    "P",
    [
        with_entry(np.nan),
        with_entry(np.inf, torch.float64),
        with_entry(-np.inf, row=0),
        with_entry(-0.25),
        with_entry(0.5),
        torch.full((4,), 0.25),
        torch.full((4, 1), 1.0),
        torch.zeros((0, 3)),
        torch.zeros((2, 3, 4)),
        torch.zeros((2, 3), dtype=torch.complex64),
    ],
    ids=["nan", "inf", "-inf", "negative", "sum", "vector", "column", "empty", "three axes", "complex"],
)
def test_bad_tensors_are_refused_in_the_words_for_arrays(monkeypatch, P):
    small_chunks(monkeypatch)
    with pytest.raises(ValueError) as of_array:
        make_table(P.numpy())
    with pytest.raises(ValueError) as of_tensor:
        make_table(P)
    assert str(of_tensor.value) == str(of_array.value)


def test_bad_half_precision_is_refused():
    with pytest.raises(ValueError, match=r"row 70, column 1 of proba is not a finite number \(nan\)"):
        make_table(with_entry(np.nan, torch.float16))
    with pytest.raises(ValueError, match=r"row 70 of proba sums to 1.1665, not to one \(tolerance 0.001\)"):
        make_table(with_entry(0.5, torch.float16))
    with pytest.raises(ValueError, match=r"row 70 of proba sums to 1.16797, not to one \(tolerance 0.0078125\)"):
        make_table(with_entry(0.5, torch.bfloat16))
    assert make_table(torch.tensor([[0.999, 0.005]], dtype=torch.bfloat16)).n_rows == 1


def test_unread_kinds_of_tensors_are_refused():
    with pytest.raises(ValueError, match=r"layout torch.sparse_coo; pass a dense one: proba.to_dense\(\)"):
        make_table(torch.eye(3).to_sparse())
    with pytest.raises(ValueError, match=r"device meta; tensors are read on cpu and cuda: pass proba.cpu\(\)"):
        make_table(torch.zeros((3, 3), device="meta"))
    with pytest.raises(ValueError, match="row 1 of y holds the label 7, which is none of the 4 classes"):
        make_table(torch.eye(4), torch.tensor([0, 7, 2, 0]))
    with pytest.raises(ValueError, match=r"row 2 of sample_weight is -1\.0"):
        make_table(torch.eye(3), None, torch.tensor([1.0, 1.0, -1.0], dtype=torch.bfloat16))


def test_arrays_take_labels_weights_and_keys_as_tensors():
    P, y = np.eye(3)[[0, 1, 2, 1]] * 0.4 + 0.2, torch.tensor([0, 1, 2, 2])
    weight = torch.tensor([1.0, 2.0, 1.0, 0.5], dtype=torch.bfloat16, requires_grad=True)
    table = make_table(P, y, weight)
    assert table.labels.tolist() == [0, 1, 2, 2] and table.weight.tolist() == [1.0, 2.0, 1.0, 0.5]


# --- all metrics ------------------------------------------------------------------------------------------------------


def metric_of(name, K):
    return metrics.get(name, **({"cost": np.abs(np.subtract.outer(range(K), range(K)))} if name == "linear" else {}))


@pytest.mark.parametrize("name", metrics.names())
def test_every_metric_as_on_arrays(name):
    """Value to 1e-9, decisions and draws equal, the same rule (for min recall, of a run cut short)."""
    rng = np.random.default_rng(11)
    K = 2 if metric_of(name, 2).binary else 3
    P = simplex(rng, 120, K)
    y, weight, metric = drawn_labels(rng, P), rng.random(120) + 0.5, metric_of(name, K)
    new = simplex(rng, 200, K)
    for dtype, mode, calibration in (
        (np.float64, "model", None),
        (np.float32, "labels", None),
        (np.float32, "blend", "auto"),
        (np.float64, "blend", None),
    ):
        settings = {"confusion": mode, "calibration": calibration, "randomized": True, "sample_weight": weight}
        Q = P.astype(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = confmax.maximize(metric, Q, y, **settings)
            found = confmax.maximize(metric, torch.from_numpy(Q), torch.from_numpy(y), **settings)
            given = torch.from_numpy(new.astype(dtype))
            decisions, again = found.rule.predict(given), expected.rule.predict(given)
            on_arrays = expected.rule.predict(new.astype(dtype))
        close = 1e-8 if name == "min_recall" else 1e-9
        assert found.value == pytest.approx(expected.value, abs=close)
        assert found.label_value == pytest.approx(expected.label_value, abs=close)
        assert (found.gap is None) == (expected.gap is None)
        assert decisions.dtype == torch.int64 and decisions.device == given.device
        np.testing.assert_array_equal(again.numpy(), on_arrays)
        np.testing.assert_array_equal(decisions.numpy(), on_arrays)
        assert found.model_share == pytest.approx(expected.model_share, abs=1e-12)
        ours, theirs = found.rule.gains, expected.rule.gains
        np.testing.assert_allclose(ours.matrices(), theirs.matrices(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", NARROW)
def test_half_precision_end_to_end(dtype):
    """Sixteen bits cost about what they round away; the certificate stays valid."""
    rng = np.random.default_rng(12)
    P = simplex(rng, 2000, 4)
    y, tensor = drawn_labels(rng, P), torch.from_numpy(P).to(dtype)
    for name in ("macro_f1", "g_mean", "quadratic_kappa"):
        found, wide = confmax.maximize(name, tensor, y), confmax.maximize(name, P, y)
        assert found.value == pytest.approx(wide.value, abs=5e-3)
    best = confmax.maximize("cohen_kappa", tensor)
    assert -1e-12 <= best.gap <= 1e-6


def test_metrics_with_more_decisions_than_classes():
    rng = np.random.default_rng(13)
    P = simplex(rng, 300, 3, np.float32)
    gain = np.hstack([np.eye(3), np.full((3, 1), 0.6)])
    metric = metrics.get("linear", gain=gain)
    found, expected = (confmax.maximize(metric, each, confusion="model") for each in (torch.from_numpy(P), P))
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    decisions = found.rule.predict(torch.from_numpy(P))
    assert (decisions == 3).any()
    np.testing.assert_array_equal(decisions.numpy(), expected.rule.predict(P))


@pytest.mark.parametrize("solver", [CoordinateSearch(), "polished"], ids=str)
def test_what_needs_the_whole_table_in_host_memory_copies_it(solver):
    rng = np.random.default_rng(14)
    P = simplex(rng, 150, 3, np.float32)
    y = drawn_labels(rng, P)
    found, expected = (
        confmax.maximize("macro_f1", each, y, solver=solver, confusion="labels", calibration=None)
        for each in (torch.from_numpy(P), P)
    )
    assert found.value == pytest.approx(expected.value, abs=1e-12)
    np.testing.assert_array_equal(found.rule.predict(torch.from_numpy(P)).numpy(), expected.rule.predict(P))


def test_a_model_certificate_copies_nothing(monkeypatch):
    """Three classes, model confusion: only statistics leave the device."""
    rng = np.random.default_rng(15)
    P = torch.from_numpy(simplex(rng, 500, 3))
    largest = []
    plain = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self, *args: largest.append(self.numel()) or plain(self, *args))
    for name in ("g_mean", "min_recall", "macro_f1", "quadratic_kappa"):
        confmax.maximize(name, P)
    assert largest and max(largest) < 500


# --- rules and calibrators --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibrator", [None, Temperature(1.7, 1e-4), VectorScaling([1.2, 0.9, 1.0], [0.3, 0, 0])])
@pytest.mark.parametrize("power", [0, 2])
def test_a_randomised_rule_draws_alike_on_tensors(calibrator, power, monkeypatch):
    rng = np.random.default_rng(16)
    small_chunks(monkeypatch, 100)
    gains = Gains.reduced(rng.random((4, 3)) * (-1 if power else 1), rng.normal(size=(4, 3)), power=power)
    rule = confmax.DecisionRule(gains, np.array([0.4, 0.3, 0.2, 0.1]), (0, 1, 2), seed=5, calibrator=calibrator)
    P = simplex(rng, 1000, 3)
    for Q in (P, P.astype(np.float32)):
        tensor = torch.from_numpy(Q)
        np.testing.assert_array_equal(rule.predict(tensor).numpy(), rule.predict(Q))
        for keys in (np.arange(1000) * 7, [f"row {k}" for k in range(1000)]):
            np.testing.assert_array_equal(rule.predict(tensor, keys=keys).numpy(), rule.predict(Q, keys=keys))
        shares = rule.decision_probabilities(tensor)
        assert shares.dtype == torch.float64
        np.testing.assert_allclose(shares.numpy(), rule.decision_probabilities(Q), atol=1e-15)
    keys = np.arange(1000) - 3
    np.testing.assert_array_equal(rule.predict(P, keys=torch.from_numpy(keys)), rule.predict(P, keys=keys))


def test_duplicates_are_warned_of():
    rule = confmax.DecisionRule(Gains.reduced(np.eye(2)), np.array([0.5, 0.5]), (0, 1))
    with pytest.warns(UserWarning, match="100% of the rows are duplicates"):
        rule.predict(torch.full((50, 2), 0.5))


@pytest.mark.parametrize("dtype", [*WIDE.values(), *NARROW])
def test_calibrators_work_on_the_device(dtype):
    P = torch.from_numpy(simplex(np.random.default_rng(17), 300, 4)).to(dtype)
    held = P.numpy() if dtype in WIDE.values() else P.float().numpy()
    for calibrator in (Temperature(0.6), Temperature(2.0, 1e-3), VectorScaling(np.arange(1, 5), np.zeros(4), 1e-6)):
        got = calibrator.transform(P)
        assert isinstance(got, torch.Tensor)
        assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        np.testing.assert_allclose(got.numpy(), calibrator.transform(held), rtol=4 * np.finfo(held.dtype).eps)
    assert Temperature(1.0).transform(P) is P


class Halfway:
    """A calibration of the caller's: toward the frequencies of the classes."""

    def fit(self, proba, y):
        assert isinstance(proba, np.ndarray)
        self.share = np.bincount(y, minlength=proba.shape[1]) / len(y)

    def transform(self, proba):
        assert isinstance(proba, np.ndarray)
        return 0.5 * proba + 0.5 * self.share


def test_a_calibration_of_the_callers_sees_arrays():
    rng = np.random.default_rng(18)
    P = simplex(rng, 200, 3, np.float32)
    y, tensor = drawn_labels(rng, P), torch.from_numpy(P)
    found, expected = (confmax.maximize("macro_f1", each, y, calibration=Halfway()) for each in (tensor, P))
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    np.testing.assert_array_equal(found.rule.predict(tensor).numpy(), expected.rule.predict(P))
    rule = confmax.DecisionRule.from_weights([1.0, 1.0])
    with pytest.raises(ValueError, match="the rule decides between 2 classes and proba has 3 columns"):
        rule.predict(tensor)


def test_a_solver_holds_its_promises_on_tensors():
    check_solver(Dinkelbach(), "cohen_kappa")
    metric = metrics.get("cohen_kappa")
    P = torch.from_numpy(simplex(np.random.default_rng(19), 80, 3))
    found = confmax.maximize(metric, P, solver=choose("auto", metric, 3, 3, exact=True, randomized=False))
    again = make_oracle(Table(P.numpy(), None, None, (0, 1, 2)), backend="numpy")
    assert found.value == pytest.approx(float(metric.values(found.rule.evaluate(again))), abs=1e-12)
    assert found.gap <= 1e-6
