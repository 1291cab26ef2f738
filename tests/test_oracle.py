"""Oracles: enumeration on tiny tables, equality of backends, ties, invariances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confmax.confusion import Gains
from confmax.oracle import BACKENDS, decide, make_oracle, make_table
from confmax.oracle.numpy import decide as reference_decide
from tests.helpers import STATISTICS, all_deterministic_confusions, confusion_of


@pytest.fixture(params=BACKENDS)
def backend(request):
    if request.param == "torch":
        pytest.importorskip("torch")
    return request.param


def simplex(rng, n, K, dtype=np.float64, digits=None):
    P = rng.dirichlet(np.ones(K), n)
    if digits is not None:
        P = np.round(P, digits) + 10.0 ** (-digits - 2)
        P /= P.sum(axis=1, keepdims=True)
    return P.astype(dtype)


def test_an_answer_is_the_best_of_all_deterministic_rules(backend):
    rng = np.random.default_rng(0)
    for K, n in ((2, 7), (3, 5)):
        P, weight = simplex(rng, n, K, digits=1), rng.random(n)
        everything = all_deterministic_confusions(P, weight)
        oracle = make_oracle(make_table(P, None, weight), backend=backend)
        for G in rng.normal(size=(20, K, K)):
            C = oracle.maximize(Gains.from_matrix(G), matrix=True).matrix[0]
            assert (C * G).sum() == pytest.approx((everything * G).sum((1, 2)).max(), abs=1e-12)
            assert np.abs(everything - C).max((1, 2)).min() < 1e-12


def test_labels_count_what_was_true(backend):
    rng = np.random.default_rng(1)
    P, y, weight = simplex(rng, 50, 3), rng.integers(0, 3, 50), rng.random(50)
    gains = Gains.reduced([1.0, 2.0, 0.5], [0.1, 0.0, 0.2])
    oracle = make_oracle(make_table(P, y, weight), "labels", backend=backend)
    C = oracle.maximize(gains, matrix=True)
    expected = confusion_of(np.eye(3)[y] * weight[:, None] / weight.sum(), (P * gains.a + gains.b).argmax(1), 3)
    np.testing.assert_allclose(C.matrix[0], expected, atol=1e-14)
    np.testing.assert_allclose(C.diagonal[0], np.diag(expected), atol=1e-14)
    np.testing.assert_allclose(C.columns[0], expected.sum(0), atol=1e-14)
    np.testing.assert_allclose(oracle.rows, expected.sum(1), atol=1e-14)


@pytest.mark.parametrize("decider", [decide, reference_decide])
def test_ties_go_to_the_largest_index(decider):
    P = np.array([[0.25, 0.25, 0.25, 0.25], [0.4, 0.4, 0.1, 0.1]])
    assert decider(P, Gains.reduced(np.ones(4)))[0].tolist() == [3, 1]
    assert decider(P, Gains.reduced(np.zeros(4)))[0].tolist() == [3, 3]
    assert decider(P, Gains.from_matrix(np.eye(4)))[0].tolist() == [3, 1]
    assert decider(P, Gains.from_matrix(np.zeros((4, 4))))[0].tolist() == [3, 3]


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 1100),
    K=st.integers(2, 9),
    digits=st.sampled_from([1, 2, None]),
    single=st.booleans(),
    form=st.sampled_from(["probabilities", "one class", "distances", "squared distances", "full"]),
)
def test_backends_decide_identically_even_on_ties(seed, n, K, digits, single, form):
    """Both multiply, then add, in the table's dtype, without fusing: no near-tie may fall differently."""
    rng = np.random.default_rng(seed)
    P = make_table(simplex(rng, n, K, np.float32 if single else np.float64, digits)).head.proba
    if form == "full":
        gains = Gains.from_matrix(np.round(rng.normal(size=(3, K, K)), 1))
    else:
        power = {"distances": 1, "squared distances": 2}.get(form, 0)
        only = np.eye(K)[rng.integers(0, K, 3)] if form == "one class" else 1.0
        a, b = np.round(rng.random((3, K)), 1), np.round(rng.normal(size=(3, K)), 1)
        gains = Gains.reduced(a * only, b * only, power=power)
    decisions = reference_decide(P, gains)
    np.testing.assert_array_equal(decide(P, gains), decisions)
    answers = make_oracle(make_table(P)).maximize(gains)
    counts = np.array([np.bincount(row, minlength=K) for row in decisions]) / n
    np.testing.assert_allclose(answers.columns, counts, atol=1e-15)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("K", [2, 3, 8])
def test_gains_of_distances_are_their_matrices(power, K):
    """The O(K) recurrences decide as the K x K matrix does, wherever no two scores nearly tie."""
    rng = np.random.default_rng(K)
    P = make_table(simplex(rng, 2000, K)).head.proba
    gains = Gains.reduced(-rng.random((5, K)), rng.normal(size=(5, K)), power=power)
    scores = np.sort(np.einsum("ni,bij->bnj", P, gains.matrices()), axis=2)
    clear = scores[:, :, -1] - scores[:, :, -2] > 1e-12
    assert clear.mean() > 0.99
    mine, full = reference_decide(P, gains), reference_decide(P, Gains.from_matrix(gains.matrices()))
    np.testing.assert_array_equal(mine[clear], full[clear])


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-200, 200))
def test_a_power_of_two_on_a_gain_changes_no_decision(seed, power):
    """Gains are scaled before they are rounded to float32, so even 2^200 neither overflows nor flips a row."""
    rng = np.random.default_rng(seed)
    P = simplex(rng, 60, 4, np.float32)
    P = make_table(P).head.proba
    a, b = rng.random(4), rng.normal(size=4)
    scaled = Gains.reduced(np.ldexp(a, power), np.ldexp(b, power))
    np.testing.assert_array_equal(decide(P, scaled), decide(P, Gains.reduced(a, b)))


def test_float32_statistics_are_summed_in_double(backend):
    rng = np.random.default_rng(2)
    P = make_table(simplex(rng, 200_000, 3, np.float32)).head.proba
    C = make_oracle(make_table(P), backend=backend).maximize(Gains.reduced(np.ones(3)))
    decision = reference_decide(P, Gains.reduced(np.ones(3)))[0]
    exact = [P[decision == k, k].astype(np.longdouble).sum() / len(P) for k in range(3)]
    np.testing.assert_allclose(C.diagonal[0], np.array(exact, float), rtol=1e-12)


def test_many_classes(backend):
    rng = np.random.default_rng(4)
    table = make_table(simplex(rng, 300, 400, np.float32))
    C = make_oracle(table, backend=backend).maximize(Gains.reduced(np.ones(400)), matrix=True)
    np.testing.assert_allclose(C.matrix[0].sum(1), C.rows, atol=1e-12)
    assert C.columns.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_blend_lies_between_model_and_labels(backend):
    """The blend's confusion of every rule is the average of the other two."""
    rng = np.random.default_rng(8)
    table = make_table(rng.dirichlet(np.ones(3), 700), rng.integers(0, 3, 700), rng.random(700))
    gains = Gains.reduced(rng.random((4, 3)), rng.normal(size=(4, 3)) * 0.1)
    model, labels = (make_oracle(table, mode, backend=backend).maximize(gains, matrix=True) for mode in MODES)
    blend = make_oracle(table, "blend", backend=backend, model_share=0.3)
    assert not blend.exact
    mixed = blend.maximize(gains, matrix=True)
    for name in STATISTICS:
        expected = 0.3 * getattr(model, name) + 0.7 * getattr(labels, name)
        np.testing.assert_allclose(getattr(mixed, name), expected, atol=1e-15)
    np.testing.assert_array_equal(blend.rows, mixed.rows)


MODES = ("model", "labels")


@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        (("truth",), {}, "confusion is 'model', 'labels' or 'blend'; got 'truth'"),
        ((), {"backend": "cuda"}, "backend is one of numpy, array, sparse, torch; got 'cuda'"),
        (("labels",), {}, "confusion='labels' needs y"),
        (("blend",), {"model_share": 1.5}, r"a blend needs model_share, a number from 0 to 1; got 1.5"),
    ],
)
def test_refusals(arguments, settings, sentence):
    table = make_table([[0.5, 0.5]], [0] if "blend" in arguments else None)
    with pytest.raises(ValueError, match=sentence):
        make_oracle(table, *arguments, **settings)
