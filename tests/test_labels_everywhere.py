"""Rules of several labels where rows are no arrays: tensors, opened tables, Dask; on arrays they decide the same."""

import numpy as np
import pytest

import confmax
from confmax.calibration.labels import LabelScaling
from confmax.confusion import Gains
from confmax.rule.labels import LabelRule
from confmax.tables.decisions import decisions_of

NAMES = ("a", "b", "c", "d")
EVERY = ["any", 2, ("at_most", 2)]


def random_rule(seed, decisions, n_gains=1, *, calibrated=False):
    """Return a rule with coarse gains, so that scores tie."""
    rng = np.random.default_rng(seed)
    a, b = np.round(rng.normal(size=(2, n_gains, 4)), 1)
    maps = LabelScaling(np.full(4, 1.3), np.full(4, 0.2)) if calibrated else None
    weights = rng.dirichlet(np.ones(n_gains))
    return LabelRule(Gains.reduced(a, b), weights, NAMES, decisions_of(decisions), seed=3, calibrator=maps)


def coarse(n=60, seed=0, dtype=np.float64):
    return (np.random.default_rng(seed).integers(0, 9, (n, 4)) / 8.0).astype(dtype)


each_rule = pytest.mark.parametrize(
    ("decisions", "n_gains", "calibrated"),
    [(one, many, maps) for one in EVERY for many in (1, 3) for maps in (False, True)],
)


@each_rule
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_get_the_labels_that_arrays_get(decisions, n_gains, calibrated, dtype, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("confmax.tables.tensor.rows.CELLS", {"cpu": 40})
    for seed in range(5):
        P = coarse(seed=seed, dtype=dtype)
        rule = random_rule(seed, decisions, n_gains, calibrated=calibrated)
        found = rule.predict(torch.from_numpy(P))
        assert found.dtype == torch.uint8
        assert np.array_equal(found.numpy(), rule.predict(P))
        shares = rule.decision_probabilities(torch.from_numpy(P))
        assert shares.dtype == torch.float64
        assert np.array_equal(shares.numpy(), rule.decision_probabilities(P))
        keys = np.arange(len(P))
        assert np.array_equal(rule.predict(torch.from_numpy(P), keys=keys).numpy(), rule.predict(P, keys=keys))
        assert rule.predict_lists(torch.from_numpy(P)) == rule.predict_lists(P)


def test_tensors_of_16_bits_decide_as_their_values_in_float32():
    torch = pytest.importorskip("torch")
    P = torch.from_numpy(np.random.default_rng(0).random((50, 4)))
    for kind in (torch.float16, torch.bfloat16):
        rule = random_rule(1, "any")
        assert np.array_equal(rule.predict(P.to(kind)).numpy(), rule.predict(P.to(kind).float().numpy()))
    learned = P.clone().requires_grad_()
    assert np.array_equal(rule.predict(learned).numpy(), rule.predict(P.numpy()))
    # a coefficient that float32 does not hold is not rounded
    fine = LabelRule.from_thresholds(np.full(4, 0.5 + 2.0**-40))
    assert np.array_equal(fine.predict(P.float()).numpy(), fine.predict(P.float().numpy()))


@pytest.mark.parametrize(
    "bad",
    [
        [[0.2, np.nan, 0.1, 0.1]], [[0.2, -1.0, 0.1, 0.1]], [[0.2, 0.3, 0.1, 0.1], [0.1, 1.2, 0.1, 0.1]],
        np.zeros(3), np.zeros((2, 5)), np.zeros((2, 4), complex),
    ],
)  # fmt: skip
def test_tensors_are_refused_in_the_words_of_arrays(bad):
    torch = pytest.importorskip("torch")
    rule = random_rule(0, "any")
    with pytest.raises(ValueError) as on_array:
        rule.predict(np.array(bad))
    with pytest.raises(ValueError) as on_tensor:
        rule.predict(torch.from_numpy(np.array(bad)))
    assert str(on_tensor.value) == str(on_array.value)
    with pytest.raises(ValueError, match=r"layout torch.sparse_coo; pass a dense one"):
        rule.predict(torch.zeros((2, 4)).to_sparse())


@each_rule
def test_dask_collections_get_lazy_labels(decisions, n_gains, calibrated):
    pytest.importorskip("dask.dataframe")
    import dask

    from tests.dask_helpers import dd, pd, rows

    P = coarse()
    rule = random_rule(1, decisions, n_gains, calibrated=calibrated)
    with dask.config.set(scheduler="synchronous"):
        array = rows(P, (20, 0, 1, 39)).rechunk({1: 2})
        found = rule.predict(array)
        assert found.dtype == np.uint8
        assert found.chunks == ((20, 0, 1, 39), (4,))
        assert np.array_equal(found.compute(), rule.predict(P))
        assert np.array_equal(rule.decision_probabilities(array).compute(), rule.decision_probabilities(P))
        keys = np.arange(60)
        assert np.array_equal(rule.predict(array, keys=keys).compute(), rule.predict(P, keys=keys))
        assert rule.predict_lists(array) == rule.predict_lists(P)
        frame = pd.DataFrame(P, columns=list(NAMES), index=np.arange(100, 160))
        lazy = rule.predict(dd.from_pandas(frame[list("dbac")], npartitions=3))
        assert list(lazy.columns) == list(NAMES)
        assert (lazy.dtypes == np.uint8).all()
        whole = lazy.compute()
        assert np.array_equal(whole.to_numpy(), rule.predict(P))
        assert whole.index.equals(frame.index)


@pytest.mark.parametrize("decisions", EVERY)
def test_opened_tables_are_decided_part_by_part(decisions, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    P = coarse(seed=2)
    rule = random_rule(2, decisions, 2)
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({name: P[:, k] for k, name in reversed(list(enumerate(NAMES)))}), path, row_group_size=7)
    np.save(tmp_path / "rows.npy", P)
    for opened in (confmax.open_table(path), confmax.open_table(tmp_path / "rows.npy")):
        assert np.array_equal(rule.predict(opened), rule.predict(P))
        assert rule.predict_lists(opened) == rule.predict_lists(P)
    with pytest.raises(ValueError, match=r"keys are not split into parts"):
        rule.predict(opened, keys=np.arange(60))
    with pytest.raises(ValueError, match=r"rule.predict\(table\) decides it, everything else needs its rows"):
        rule.decision_probabilities(opened)
    np.save(tmp_path / "bad.npy", np.where(np.arange(60)[:, None] == 3, 2.0, P))
    with pytest.raises(ValueError, match=r"bad.npy: row 3, column 0 of proba is 2, and a probability is at most 1"):
        rule.predict(confmax.open_table(tmp_path / "bad.npy"))


def test_a_solution_predicts_where_rows_are():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    P = rng.random((300, 4))
    Y = (rng.random(P.shape) < P).astype(int)
    for decisions in EVERY:
        solution = confmax.maximize("macro_f1", P, Y, decisions=decisions)
        assert np.array_equal(solution.predict(torch.from_numpy(P)).numpy(), solution.predict(P))
