"""Rules that may abstain on every kind of table: what they decide, and what `maximize` finds; Spark in its own file."""

import numpy as np
import pytest
import scipy.sparse

import confmax
from confmax import DecisionRule
from confmax.calibration import MatrixScaling, Temperature
from confmax.confusion import Gains
from tests.parts_helpers import cut, labelled

N, K, AT = 600, 3, (170, 171, 400)


def rows_and_labels():
    """Return probabilities in 4096ths, which float32 holds, some of them zero, and what else a table has."""
    P, y, weight = labelled(N, K, sharp=0.7)
    return np.random.default_rng(0).multinomial(4096, P) / 4096.0, y, weight


# --- kinds of tables: each a function of rows, labels by name, weights and a folder ---------------------------------


def opened(P, y, weight, folder):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {name: P[:, k] for k, name in enumerate("abc")} | {"truth": y, "w": weight}
    pq.write_table(pa.table(columns), folder / "table.parquet", row_group_size=170)
    return confmax.open_table(folder / "table.parquet", label="truth", weight="w", columns=list("abc"))


def mapped(P, y, weight, folder):
    for name, array in (("p", P), ("y", y), ("w", weight)):
        np.save(folder / f"{name}.npy", array)
    return confmax.open_table(folder / "p.npy", label=folder / "y.npy", weight=folder / "w.npy")


def dask_array(P, *_):
    pytest.importorskip("dask")
    from tests.dask_helpers import rows

    return rows(P, np.diff([0, *AT, N]))


def dask_frame(P, *_):
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_pandas(frame(P), npartitions=3)


def dd_keys(ids):
    """Return identifiers in the partitions of `dask_frame`."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    return dd.from_pandas(pd.Series(ids), npartitions=3)


def frame(P, *_):
    return pytest.importorskip("pandas").DataFrame(P, columns=list("abc"))


def polars_frame(P, *_):
    return pytest.importorskip("polars").DataFrame(P, schema=list("abc"))


def tensor(P, *_):
    return pytest.importorskip("torch").as_tensor(P)


IN_MEMORY = {
    "array": lambda P, *_: P,
    "float32": lambda P, *_: P.astype(np.float32),
    "pandas": frame,
    "polars": polars_frame,
    "sparse": lambda P, *_: scipy.sparse.csr_array(P),
    "tensor": tensor,
    "float32 tensor": lambda P, *_: tensor(P.astype(np.float32)),
}
LAZY = {"Dask array": dask_array, "Dask frame": dask_frame}
IN_PARTS = {
    "parts": lambda P, y, weight, _: cut(P, y, weight, at=AT),
    "Parquet": opened,
    "mapped array": mapped,
}

# --- what rules decide ------------------------------------------------------------------------------------------------

# eighths: every score of rows in 4096ths is exact, in float32 too
GAINS = {
    "one cut": Gains.reduced([1, 1, 1], [0, 0, 0, 0.625]),
    "weights and offsets": Gains.reduced([1, 0.5, 1.5], [0, 0.5, 0.125, 0.75]),
    "full": Gains.from_matrix([[1, 0, -0.5, 0.5], [0, 1, 0, 0.625], [-1, 0, 1, 0.375]]),
}
NAMES = {
    "names": ("a", "b", "c", "abstain"),
    "numbers": (0, 1, 2, -1),
    "mixed": (0, 1, 2, "ask"),
    "floats": (0.5, 1, 2, -1),
}


def rule_of(gains, names="names", *, weights=(1.0,), calibrator=None):
    return DecisionRule(gains, np.array(weights), NAMES[names], "", 3, calibrator, (), NAMES[names][-1])


@pytest.mark.parametrize("gains", GAINS.values(), ids=GAINS)
@pytest.mark.parametrize("kind", [*IN_MEMORY, *LAZY, *IN_PARTS])
def test_decisions_are_the_definition(kind, gains, tmp_path):
    """The last of the largest scores, from the matrix; ties between abstaining and a class are many."""
    P, y, weight = rows_and_labels()
    # a tie with the cut of the first gains
    P[:2] = [[0.625, 0.375, 0.0], [0.0, 0.375, 0.625]]
    scores = P @ gains.matrices()[0]
    expected = K - scores[:, ::-1].argmax(axis=1)
    assert set(expected) == {0, 1, 2, 3}
    rule = rule_of(gains)
    table = (IN_MEMORY | LAZY | IN_PARTS)[kind](P, np.array(list("abc"))[y], weight, tmp_path)
    for found, each in (
        (rule.predict_index(table), expected),
        # what is opened has decisions alone
        *([] if kind in IN_PARTS else [(rule.decision_probabilities(table), np.eye(4)[expected])]),
        # a tensor holds no names
        *([] if "tensor" in kind else [(rule.predict(table), rule.classes[expected])]),
    ):
        assert hasattr(found, "compute") == (kind in LAZY)
        np.testing.assert_array_equal(found.compute() if kind in LAZY else found, each)


@pytest.mark.parametrize("kind", [*IN_MEMORY, *LAZY, *IN_PARTS])
@pytest.mark.parametrize("calibrator", [None, Temperature(1.6), MatrixScaling(np.eye(3) + 0.1, [0.0, 0.3, -0.2])])
def test_draws_and_calibrations_are_those_of_the_array(kind, calibrator, tmp_path):
    P, y, weight = rows_and_labels()
    gains = Gains.concatenate([GAINS["one cut"], GAINS["weights and offsets"]])
    rule = rule_of(gains, weights=(0.3, 0.7), calibrator=calibrator)
    table = (IN_MEMORY | LAZY | IN_PARTS)[kind](P, np.array(list("abc"))[y], weight, tmp_path)
    same, ids = P.astype(np.float32) if "float32" in kind else P, np.arange(N) * 7
    shares = rule.decision_probabilities(same)
    # some rows are left by one of the two
    assert ((shares[:, 3] > 0) & (shares[:, 3] < 1)).sum() > 20
    pairs = [(rule.predict_index(table), rule.predict_index(same))]
    if kind not in IN_PARTS:
        keys = dd_keys(ids) if kind == "Dask frame" else ids
        keyed = rule.predict_index(same, keys=ids)
        pairs += [(rule.predict_index(table, keys=keys), keyed), (rule.decision_probabilities(table), shares)]
        pairs += [] if "tensor" in kind else [(rule.predict(table, keys=keys), rule.classes[keyed])]
    for found, expected in pairs:
        np.testing.assert_array_equal(found.compute() if kind in LAZY else found, expected)


@pytest.mark.parametrize("names", NAMES)
def test_what_abstaining_is_called(names):
    """Arrays, tensors and lazy collections hold the names in one type where they have one."""
    P = rows_and_labels()[0]
    rule = rule_of(GAINS["one cut"], names)
    kind = {"names": np.dtype("<U7"), "numbers": np.int64, "mixed": object, "floats": np.float64}[names]
    expected = [NAMES[names][k] for k in rule.predict_index(P)]
    assert rule.classes.dtype == kind and NAMES[names][-1] in expected
    found = rule.predict(P)
    assert found.dtype == kind and found.tolist() == expected
    assert rule.predict(scipy.sparse.csr_array(P)).tolist() == expected
    if names in ("numbers", "floats"):
        assert rule.predict(tensor(P)).tolist() == expected
    else:
        with pytest.raises(ValueError, match="use predict_index"):
            rule.predict(tensor(P))
    lazy = rule.predict(dask_array(P))
    assert lazy.dtype == kind and lazy.compute().dtype == kind and lazy.compute().tolist() == expected
    columns = rule.predict(dask_frame(P).rename(columns=dict(zip("abc", map(str, NAMES[names]), strict=False))))
    made = columns.compute()
    assert columns.dtype == made.dtype and made.tolist() == expected
    shares = rule.decision_probabilities(
        dask_frame(P).rename(columns=dict(zip("abc", map(str, NAMES[names]), strict=False)))
    )
    assert list(shares.columns) == list(shares.compute().columns) == list(NAMES[names])


# --- what maximize finds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
@pytest.mark.parametrize("kind", [*IN_MEMORY, *LAZY, *IN_PARTS])
def test_maximize_finds_the_same_rule(kind, metric, tmp_path):
    P, y, weight = rows_and_labels()
    labels = np.array(list("abc"))[y]
    table = (IN_MEMORY | LAZY | IN_PARTS)[kind](P, labels, weight, tmp_path)
    given = {"abstain": True, "constraints": "coverage >= 0.8", "calibration": None}
    beside = {} if kind in IN_PARTS else {"y": labels, "sample_weight": weight}
    for confusion in ("model", "labels"):
        whole = confmax.maximize(metric, P, labels, sample_weight=weight, confusion=confusion, **given)
        if confusion == "labels" and kind in LAZY | IN_PARTS:
            # the search on labels is a local one, which starts elsewhere in parts; other parts find what these find
            parts = confmax.maximize(metric, cut(P, labels, weight, at=AT), confusion=confusion, **given)
            assert parts.value == pytest.approx(whole.value, abs=0.005)
            whole = parts
        found = confmax.maximize(metric, table, confusion=confusion, **beside, **given)
        # other digits of a row may lead to another single rule that is as good as this one
        narrow = "float32" in kind
        assert found.value == pytest.approx(whole.value, abs=1e-5 if narrow else 1e-12)
        assert found.rule.abstain == "abstain" and found.rule.class_names == whole.rule.class_names
        same = found.rule.predict(P) == whole.rule.predict(P)
        assert same.mean() > 0.95 if narrow else same.all(), same.mean()
        # the coverage, counted by hand
        coverage = weight @ (1.0 - found.rule.decision_probabilities(P)[:, 3]) / weight.sum()
        assert found.constraints[0].value == pytest.approx(coverage, abs=1e-9) and coverage >= 0.8 - 1e-9
