"""Tensors: the boundary, every metric against arrays, rules and calibrators; the oracle is in test_torch_oracle."""

import warnings

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.checks import check_solver
from confmax.confusion import Gains
from confmax.optimize import Dinkelbach, choose
from confmax.oracle import make_oracle, make_table
from confmax.tables.fingerprints import row_hashes
from tests.torch_helpers import NARROW, WIDE, drawn_labels, simplex, small_chunks


def metric_of(name, K):
    return metrics.get(name, **({"cost": np.abs(np.subtract.outer(range(K), range(K)))} if name == "linear" else {}))


torch = pytest.importorskip("torch")

# --- the boundary -----------------------------------------------------------------------------------------------------


def test_right_tensors_are_read_in_place():
    for dtype in (*WIDE.values(), *NARROW):
        P = torch.full((6, 4), 0.25, dtype=dtype)
        assert make_table(P).head.proba.data_ptr() == P.data_ptr()
        assert make_table(P).head.proba.dtype == dtype
        rows = P[::2, :2] * 2
        assert make_table(rows).head.proba.data_ptr() == rows.data_ptr()


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
    np.testing.assert_array_equal(table.head.proba.numpy(), make_table(P.numpy()).head.proba)
    assert P[1, 1] == np.float32(0.7004)
    np.testing.assert_array_equal(make_table(table.head.proba).head.proba.numpy(), table.head.proba.numpy())
    half = P.half()
    assert make_table(half).head.proba.data_ptr() == half.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_a_vector_is_the_second_of_two_classes(dtype):
    p = torch.tensor([0, 1, 1, 0]) if dtype is torch.int64 else torch.tensor([0.0, 0.25, 0.75, 1.0], dtype=dtype)
    table = make_table(p, [0, 0, 1, 1])
    assert (table.n_rows, table.n_classes) == (4, 2)
    np.testing.assert_array_equal(table.head.proba.double().numpy(), make_table(p.double().numpy()).head.proba)


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
        torch.full((4,), 1.25),
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
    with pytest.raises(ValueError, match=r"device meta, and only cpu and cuda are supported; pass proba.cpu\(\)"):
        make_table(torch.zeros((3, 3), device="meta"))
    with pytest.raises(ValueError, match="row 1 of y holds the label 7, which is none of the 4 classes"):
        make_table(torch.eye(4), torch.tensor([0, 7, 2, 0]))
    with pytest.raises(ValueError, match=r"row 2 of sample_weight is -1\.0"):
        make_table(torch.eye(3), None, torch.tensor([1.0, 1.0, -1.0], dtype=torch.bfloat16))


def test_arrays_take_labels_weights_and_keys_as_tensors():
    P, y = np.eye(3)[[0, 1, 2, 1]] * 0.4 + 0.2, torch.tensor([0, 1, 2, 2])
    weight = torch.tensor([1.0, 2.0, 1.0, 0.5], dtype=torch.bfloat16, requires_grad=True)
    table = make_table(P, y, weight)
    assert table.head.labels.tolist() == [0, 1, 2, 2] and table.head.weight.tolist() == [1.0, 2.0, 1.0, 0.5]
    rule = confmax.DecisionRule(Gains.reduced(np.eye(3)), np.full(3, 1 / 3), (0, 1, 2))
    np.testing.assert_array_equal(rule.predict(P, keys=torch.arange(4) - 3), rule.predict(P, keys=np.arange(4) - 3))


# --- all metrics ------------------------------------------------------------------------------------------------------


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


def test_a_model_certificate_copies_nothing(monkeypatch):
    """Three classes, model confusion: only statistics leave a device that is not the host."""
    monkeypatch.setattr("confmax.tables.tensor.kind.Tensors.is_on_host", lambda *_: False)
    rng = np.random.default_rng(15)
    P = torch.from_numpy(simplex(rng, 500, 3))
    largest = []
    plain = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self, *args: largest.append(self.numel()) or plain(self, *args))
    for name in ("g_mean", "min_recall", "quadratic_kappa"):
        confmax.maximize(name, P)
    assert largest and max(largest) < 500
    # the bound of macro F1 chooses its knots on some rows and reads all rows once, in parts, on the host
    largest.clear()
    confmax.maximize("macro_f1", P)
    assert [size for size in largest if size >= 500] == [P.numel()] * 2


# --- rules and calibrators --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*WIDE.values(), *NARROW])
def test_calibrators_work_on_the_device(dtype):
    P = torch.from_numpy(simplex(np.random.default_rng(17), 300, 4)).to(dtype)
    held = P.numpy() if dtype in WIDE.values() else P.float().numpy()
    for calibrator in (
        Temperature(0.6),
        Temperature(2.0, 1e-3),
        VectorScaling(np.arange(1, 5), np.zeros(4), 1e-6),
        VectorScaling(np.arange(1, 5), np.zeros(4), 1e-6, kept=2),
        MatrixScaling(np.diag(np.arange(1, 5)) - 0.1, np.arange(4), 1e-6),
    ):
        got = calibrator.transform(P)
        assert isinstance(got, torch.Tensor)
        assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        # scores are as large as 4 log(1e-6): so often does the last digit of a logarithm count
        rtol = 4 * np.finfo(held.dtype).eps + 60 * np.finfo(float).eps
        np.testing.assert_allclose(got.numpy(), calibrator.transform(held), rtol=rtol)
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
    with pytest.raises(ValueError, match="proba has 3 columns and the rule has 2 classes"):
        rule.predict(tensor)


def test_a_sample_takes_the_rows_that_it_takes_of_an_array():
    P = simplex(np.random.default_rng(20), 3000, 4)
    for dtype in WIDE:
        table, tensors = (make_table(each).head for each in (P.astype(dtype), torch.from_numpy(P.astype(dtype))))
        taken = tensors.sampled(0.2)
        assert taken.storage.backend == "torch" and 300 < taken.n_rows < 900
        np.testing.assert_array_equal(taken.proba.numpy(), table.sampled(0.2).proba)
        loose = make_table(torch.from_numpy(P.astype(dtype) * dtype(1.0004))).head
        given = make_table(P.astype(dtype) * dtype(1.0004)).head
        for mine, theirs in ((tensors, table), (loose, given)):
            np.testing.assert_array_equal(mine.row_hashes(), theirs.row_hashes())
            np.testing.assert_array_equal(mine.unordered_hashes(), theirs.unordered_hashes())
    halves = make_table(torch.from_numpy(P).half())
    np.testing.assert_array_equal(halves.head.row_hashes(), row_hashes(torch.from_numpy(P).half().float().numpy()))
    assert 300 < halves.sampled(0.2).n_rows < 900


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
        # tensors add up in fixed point; the last digits grow where a run ends by its budget
        close = 1e-8 if name == "min_recall" else 1e-9
        assert found.value == pytest.approx(expected.value, abs=close)
        assert found.label_value == pytest.approx(expected.label_value, abs=close)
        assert (found.gap is None) == (expected.gap is None)
        assert decisions.dtype == torch.int64 and decisions.device == given.device
        np.testing.assert_array_equal(again.numpy(), on_arrays)
        np.testing.assert_array_equal(decisions.numpy(), on_arrays)
        assert found.model_share == pytest.approx(expected.model_share, abs=1e-12)
        ours, theirs = found.rule.gains, expected.rule.gains
        if len(ours) == len(theirs):  # a second atom may be there by rounding
            np.testing.assert_allclose(ours.matrices(), theirs.matrices(), rtol=1e-6, atol=1e-9)


def test_a_solver_holds_its_promises_on_tensors():
    check_solver(Dinkelbach(), "cohen_kappa")
    metric = metrics.get("cohen_kappa")
    P = torch.from_numpy(simplex(np.random.default_rng(19), 80, 3))
    found = confmax.maximize(metric, P, solver=choose("auto", metric, 3, 3, exact=True))
    again = make_oracle(make_table(P.numpy(), classes=(0, 1, 2)), backend="numpy")
    assert found.value == pytest.approx(float(metric.values(found.rule.evaluate(again))), abs=1e-12)
    assert found.gap <= 1e-6
