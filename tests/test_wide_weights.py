"""Weights that span more than float32 holds: decided in float64, alike in every backend and export."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import confmax
from confmax.confusion import Gains
from confmax.oracle import decide, make_oracle, make_table
from confmax.oracle import decide as decide_by_reference
from tests.export_helpers import in_duckdb, in_onnx, in_python, in_sqlite, rule
from tests.parts_helpers import cut

K, N = 4, 300


def table(seed=0, *, dtype=np.float32):
    """Rows of which many are sure of a class, so that the heaviest weights often multiply zeros."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.3), N) * (rng.random((N, K)) < 0.6)
    P[:, 0] += P.sum(axis=1) == 0
    return (P / P.sum(axis=1, keepdims=True)).astype(dtype)


def wide_gains(form, seed=0):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.permutation([-250.0, -60.0, -45.0, 0.0])
    a = scale * rng.uniform(1, 9, K)
    if form == "weights":
        return Gains.reduced(a)
    if form == "offsets":
        return Gains.reduced(np.ones(K), a / a.max() * 1e-40)
    if form == "power":
        return Gains.reduced(-a, power=1)
    return Gains.from_matrix(rng.uniform(1, 9, (K, K)) * scale)


def exact(P, gains):
    """The decisions in exact arithmetic; rows whose best score is not a millionth above the next are left out (-1)."""
    G = [[Fraction(float(g)) for g in row] for row in gains.matrices()[0]]
    out = []
    for row in P:
        p = [Fraction(float(x)) for x in row]
        scores = [sum(p[i] * G[i][j] for i in range(K)) for j in range(K)]
        best = max(range(K), key=lambda j: (scores[j], j))
        others = [scores[j] for j in range(K) if j != best]
        clear = all(abs(scores[best] - s) > abs(scores[best]) / 10**6 for s in others)
        out.append(best if clear else -1)
    return np.array(out)


FORMS = ["weights", "offsets", "power", "full"]


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("form", FORMS)
def test_no_class_of_a_lesser_score_is_decided(form, seed):
    P, gains = table(seed), wide_gains(form, seed)
    expected = exact(P, gains)
    found = decide(P, gains)[0]
    assert (expected >= 0).sum() > N / 3
    np.testing.assert_array_equal(found[expected >= 0], expected[expected >= 0])


@pytest.mark.parametrize("form", FORMS)
def test_backends_agree(form):
    P, gains = table(), wide_gains(form)
    plain = Gains.reduced(np.arange(1.0, K + 1), power=gains.power)
    both = Gains.concatenate([plain, gains, plain])
    expected = decide_by_reference(P, both)
    np.testing.assert_array_equal(decide_by_reference(P, gains)[0], expected[1])
    np.testing.assert_array_equal(decide(P, both), expected)
    np.testing.assert_array_equal(decide(scipy.sparse.csr_array(P), both), expected)
    rng = np.random.default_rng(1)
    y, weight = rng.integers(0, K, N), rng.integers(1, 4, N).astype(float)
    for mode in ("model", "labels"):
        reference = make_oracle(make_table(P, y, weight), mode, backend="numpy").maximize(both, matrix=True)
        tables = {
            "array": make_table(P, y, weight),
            "sparse": make_table(scipy.sparse.csr_array(P), y, weight),
            None: make_table(cut(P, y, weight, at=(N // 3, N // 2))),
        }
        for backend, rows in tables.items():
            answers = make_oracle(rows, mode, backend=backend).maximize(both, matrix=True)
            np.testing.assert_allclose(answers.columns, reference.columns, atol=1e-12)
            np.testing.assert_allclose(answers.diagonal, reference.diagonal, atol=1e-12)
            np.testing.assert_allclose(answers.matrix, reference.matrix, atol=1e-12)


@pytest.mark.parametrize("form", ["weights", "offsets", "power"])
def test_tensors_agree(form):
    torch = pytest.importorskip("torch")
    P, gains = table(), wide_gains(form)
    both = Gains.concatenate([Gains.reduced(np.arange(1.0, K + 1), power=gains.power), gains])
    np.testing.assert_array_equal(decide(torch.from_numpy(P), both), decide_by_reference(P, both))
    reference = make_oracle(make_table(P), backend="numpy").maximize(both)
    answers = make_oracle(make_table(torch.from_numpy(P))).maximize(both)
    np.testing.assert_allclose(answers.columns, reference.columns, atol=1e-12)
    np.testing.assert_allclose(answers.diagonal, reference.diagonal, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_rules_decide_and_draw_alike(form):
    P, gains = table(), wide_gains(form)
    plain = Gains.reduced(np.arange(1.0, K + 1), power=gains.power)
    both = Gains.concatenate([plain, gains])
    expected = decide_by_reference(P, both)
    single = confmax.DecisionRule(gains, np.ones(1), tuple(range(K)))
    np.testing.assert_array_equal(single.predict(P), expected[1])
    drawn = confmax.DecisionRule(both, np.array([0.4, 0.6]), tuple(range(K)))
    keys = np.arange(N)
    found = drawn.predict(P, keys=keys)
    assert ((found == expected[0]) | (found == expected[1])).all()
    np.testing.assert_array_equal(drawn.predict(scipy.sparse.csr_array(P), keys=keys), found)
    shares = drawn.decision_probabilities(P)
    np.testing.assert_allclose(shares[np.arange(N), expected[1]], 0.6 + 0.4 * (expected[0] == expected[1]), atol=1e-12)
    again = confmax.DecisionRule.from_json(drawn.to_json())
    np.testing.assert_array_equal(again.predict(P, keys=keys), found)


@pytest.mark.parametrize("engine", [in_python, in_sqlite, in_duckdb, in_onnx])
@pytest.mark.parametrize("form", FORMS)
def test_exports_decide_alike(form, engine):
    P, gains = table(), wide_gains(form)
    P[:, 0] += 1 - P.sum(axis=1, dtype=np.float64).astype(np.float32)  # rows that no export needs to divide
    P = np.maximum(P, 0)
    expected = exact(P, gains)
    found = np.asarray(engine(rule(gains), P))
    np.testing.assert_array_equal(found[expected >= 0], expected[expected >= 0])


@pytest.mark.parametrize("offsets", [None, [0.0, 0.0, 1e-300]])
def test_what_float64_cannot_hold_is_refused(offsets):
    weights = [1e300, 1.0, 1e-300] if offsets is None else [1e300, 1.0, 1.0]
    told = r"the weights and offsets of a rule range from 1e-300 to 1e\+300 in size, and scores in float64 allow"
    with pytest.raises(ValueError, match=told):
        confmax.DecisionRule.from_weights(weights, offsets)
    text = confmax.DecisionRule.from_weights([2.0, 3.0]).to_json().replace("2.0", "1e300").replace("3.0", "1e-300")
    with pytest.raises(ValueError, match="range from 1e-300"):
        confmax.DecisionRule.from_json(text)


def test_what_float64_holds_is_taken():
    held = confmax.DecisionRule.from_weights([1e150, 1.0, 1e-150])
    P = np.array([[0, 0, 1], [0, 0.5, 0.5], [1e-6, 0.5, 0.5]], dtype=np.float32)
    assert held.predict(P / P.sum(axis=1, keepdims=True)).tolist() == [2, 1, 0]


def test_rare_classes_in_float32():
    """One class has a share of 1e-44: its weight is 1e44 times that of the others."""
    P = np.full((200, 3), 1e-44, np.float32)
    P[:, 0] = np.linspace(0.1, 0.9, 200)
    P[:, 1] = 1 - P[:, 0]
    P[:20, 2] = 0
    for dtype in (np.float32, np.float64):
        solution = confmax.maximize("balanced_accuracy", P.astype(dtype))
        recalls = solution.statistics.diagonal / solution.statistics.rows
        assert solution.value == pytest.approx(recalls.mean(), rel=1e-12)
        wide = P.astype(np.float64)
        shares = wide.sum(axis=0)
        assert solution.value == pytest.approx((wide / shares).max(axis=1).sum() / 3, rel=1e-6)
        assert recalls[2] > 0.1
