"""Numbers whose bytes come in the other order are the same numbers."""

import numpy as np
import pytest
import scipy.sparse

import confmax
from confmax.oracle import make_table


def numbers(seed=0, n=300, K=4):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.6), n)
    y = (rng.random(n)[:, None] > np.cumsum(P, axis=1)).sum(axis=1).clip(0, K - 1)
    return P, y, rng.integers(1, 5, n).astype(float)


def swapped(values):
    return values.astype(values.dtype.newbyteorder(">"))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_the_same_rule_byte_for_byte(kind, dtype):
    P, y, weight = numbers()
    P = P.astype(dtype).astype(np.float32 if kind is not np.asarray and dtype == np.float16 else dtype)
    given = kind(P)
    other = given.copy()
    if kind is np.asarray:
        other = swapped(P)
    else:
        other.data = swapped(other.data)
    assert make_table(other).proba.dtype == make_table(given).proba.dtype
    settings = {"sample_weight": weight, "confusion": "labels", "calibration": None, "randomized": True}
    one = confmax.maximize("g_mean", given, y, **settings)
    two = confmax.maximize("g_mean", other, y, **settings)
    three = confmax.maximize("g_mean", other, swapped(y), **{**settings, "sample_weight": swapped(weight)})
    assert one.rule.to_json() == two.rule.to_json() == three.rule.to_json()
    keys = np.arange(len(y))
    for rule in (one.rule, confmax.DecisionRule.from_weights([1, 2, 3, 4.0])):
        expected = rule.predict(given, keys=keys)
        np.testing.assert_array_equal(rule.predict(other, keys=swapped(keys)), expected)
        np.testing.assert_array_equal(rule.decision_probabilities(other), rule.decision_probabilities(given))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files(tmp_path, dtype):
    P, y, _ = numbers()
    found = []
    for name, turn in (("native", np.asarray), ("other", swapped)):
        np.save(tmp_path / f"{name}.npy", turn(P.astype(dtype)))
        np.save(tmp_path / f"{name}_y.npy", turn(y))
        opened = confmax.open_table(tmp_path / f"{name}.npy", label=tmp_path / f"{name}_y.npy")
        found.append(confmax.maximize("macro_f1", opened, calibration=None))
    assert found[0].rule.to_json() == found[1].rule.to_json()
    assert found[0].value == found[1].value


def test_a_frame_of_such_columns():
    pd = pytest.importorskip("pandas")
    P, y, _ = numbers()
    frame = pd.DataFrame({k: swapped(P[:, k].astype(np.float32)) for k in range(4)})
    assert make_table(frame).proba.dtype == np.float32
    assert confmax.maximize("g_mean", frame, y).value == confmax.maximize("g_mean", P.astype(np.float32), y).value
