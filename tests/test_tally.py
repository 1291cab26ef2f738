"""Rows counted from their columns: the numbers of the passes that check and decide the rows, to the last bit."""

import importlib

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains
from confmax.kernels.blocks import MANY, block_rows
from confmax.oracle import decide
from confmax.tables.array import tally as counted
from confmax.tables.array.kind import ARRAYS
from confmax.tables.fingerprints import chosen_by_hash
from confmax.tables.partitioned import checking
from confmax.tables.partitioned import table as in_parts
from tests.helpers import by_numpy
from tests.parts_helpers import labelled

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
forms = pytest.mark.parametrize("numpy_form", [False, True])


def tallied(P, y, gains, numpy_form, fraction=0.1):
    columns = [np.ascontiguousarray(column) for column in P.T]
    if not numpy_form:
        return counted.tally(columns, y, gains, fraction, P.dtype)
    with by_numpy():
        return counted.tally(columns, y, gains, fraction, P.dtype)


@forms
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("K", "n_gains"), [(2, 1), (2, 3), (3, 2), (9, 3), (17, 2), (MANY, 1)])
def test_all_numbers_are_those_of_the_rows(K, n_gains, dtype, numpy_form, monkeypatch):
    # one, some and many rows beyond a block, and several steps of a chunk
    monkeypatch.setattr(counted, "STEP_CELLS", 2 * block_rows(K) * K)
    rng = np.random.default_rng([K, n_gains])
    gains = Gains.reduced(0.5 + rng.random((n_gains, K)), rng.integers(0, 2, (n_gains, K)) / 8)
    for n in (1, block_rows(K) + 1, 5 * block_rows(K) - 3):
        # many equal probabilities, so that ties are common
        P = 0.5 * np.eye(K)[rng.integers(0, K, n)] + 0.5 * np.eye(K)[rng.integers(0, K, n)]
        P = P.astype(dtype)
        y = rng.integers(0, K, n)
        found = tallied(P, y, gains, numpy_form)
        checked = ARRAYS.check(P, hashed=True)
        np.testing.assert_array_equal(found.totals, checked.totals)
        places = chosen_by_hash(checked.hashes, 0.1)
        np.testing.assert_array_equal(found.places, places)
        np.testing.assert_array_equal(found.rows, P[places])
        np.testing.assert_array_equal(found.hashes, checked.hashes[places])
        counts = np.zeros((K,) * (n_gains + 1), np.int64)
        np.add.at(counts, (y, *decide(P, gains)), 1)
        np.testing.assert_array_equal(found.counts, counts)


@forms
@pytest.mark.parametrize("entry", [np.nan, np.inf, -0.25, 0.75, 0.501])
def test_a_bad_row_ends_it(entry, numpy_form):
    P = np.full((700, 2), 0.5)
    assert tallied(P, np.zeros(700, np.int64), Gains.reduced([1.0, 2.0]), numpy_form) is not None
    P[600, 1] = entry
    assert tallied(P, np.zeros(700, np.int64), Gains.reduced([1.0, 2.0]), numpy_form) is None


@pytest.mark.parametrize(
    "gains",
    [
        Gains.from_matrix(np.eye(3)),
        Gains.reduced(np.ones(3), power=1),
        Gains.reduced(np.ones(3), np.zeros(4)),
        Gains.reduced([1.0, 1e-40, 1.0]),
        Gains.reduced(np.ones((12, 3))),
        Gains.reduced(np.ones(MANY + 1)),
    ],
)
def test_other_gains_are_not_tallied(gains):
    assert not counted.is_tallied(gains, np.dtype(np.float32))


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes rows in row groups, and count the parts that are counted at once."""
    for name in ("SAMPLE_CELLS", "SAMPLE_ROWS", "ROWS_PER_CLASS"):
        monkeypatch.setattr(in_parts, name, 100)
    files = importlib.import_module("confmax.tables.partitioned.files")
    monkeypatch.setattr(files, "PART_CELLS", 1)
    seen = []
    tally = checking.tally
    monkeypatch.setattr(checking, "tally", lambda *given: seen.append(tally(*given)) or seen[-1])

    def write(P, y):
        columns = {f"p{k}": P[:, k] for k in range(P.shape[1])}
        pq.write_table(pa.table({**columns, "label": y}), tmp_path / "t.parquet", row_group_size=900)
        return confmax.open_table(tmp_path / "t.parquet", label="label")

    return write, seen


def rules_of(K):
    drawn = confmax.DecisionRule(Gains.reduced(1.0 + np.eye(K)[:2]), np.array([0.25, 0.75]), tuple(range(K)))
    return {"drawn": drawn, "plain": confmax.DecisionRule.from_weights(1.0 + np.arange(K))}


def scored(table, rules, monkeypatch, *, whole):
    if whole:
        monkeypatch.setattr(checking, "is_tallied", lambda *_: False)
    return confmax.score(["macro_f1", "mcc"], table, rules=rules, n_replicates=40)


@pytest.mark.parametrize("names", [False, True])
def test_scores_of_files_are_the_same_as_of_their_rows(names, written, monkeypatch):
    write, seen = written
    P, y, _ = labelled(3000, 4, sharp=0.7)
    table = write(P.astype(np.float32), np.array(["p0", "p1", "p2", "p3"])[y] if names else y)
    rules = {} if names else rules_of(4)
    found = scored(table, rules, monkeypatch, whole=False)
    assert len(seen) == 4 and None not in seen
    expected = scored(table, rules, monkeypatch, whole=True)
    assert len(seen) == 4
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.replicates, expected.replicates)
    assert found.rules == expected.rules and found.n_rows == expected.n_rows == 3000


def test_rows_to_be_divided_are_judged_as_in_other_passes(written, monkeypatch):
    write, seen = written
    P, y, _ = labelled(3000, 3)
    P[1000] *= 1.0005
    table = write(P, y)
    found = scored(table, rules_of(3), monkeypatch, whole=False)
    # the parts behind it are not tried
    assert len(seen) == 2 and seen[0] is not None and seen[1] is None
    np.testing.assert_array_equal(found.replicates, scored(table, rules_of(3), monkeypatch, whole=True).replicates)


def test_a_bad_row_is_named_by_its_row_group(written, monkeypatch):
    write, _ = written
    P, y, _ = labelled(3000, 3)
    P[1000, 1] = np.nan
    with pytest.raises(ValueError, match=r"row group 1 of .*: row 100, column 1 of proba is not a finite number"):
        scored(write(P, y), {}, monkeypatch, whole=False)


def test_calibrated_rules_decide_rows(written, monkeypatch):
    write, seen = written
    P, y, _ = labelled(3000, 3, sharp=0.5)
    rule = confmax.maximize("g_mean", P, y, calibration="vector").rule
    assert rule.calibrator is not None
    scored(write(P, y), {"rule": rule}, monkeypatch, whole=False)
    assert not seen


def test_a_label_that_is_no_class_is_named_behind_bad_probabilities(written):
    write, seen = written
    P, y, _ = labelled(3000, 3)
    names = np.array(["a", "b", "c"])[y]
    names[1000] = "z"

    def score():
        return confmax.score("macro_f1", write(P, names), classes=["a", "b", "c"], n_replicates=0)

    with pytest.raises(
        ValueError, match=r"row group 1 of .*: row 100 of y holds the label 'z', which is none of the 3"
    ):
        score()
    assert len(seen) == 1
    P[1001, 1] = np.nan
    with pytest.raises(ValueError, match=r"row group 1 of .*: row 101, column 1 of proba is not a finite number"):
        score()


def test_row_groups_without_rows_count_nothing(written, monkeypatch, tmp_path):
    write, seen = written
    P, y, _ = labelled(2000, 3)
    write(P, y)
    rows = pq.read_table(tmp_path / "t.parquet")
    with pq.ParquetWriter(tmp_path / "t.parquet", rows.schema) as file:
        for part in (rows[:0], rows[:900], rows[:0], rows[900:], rows[:0]):
            file.write_table(part)
    found = scored(confmax.open_table(tmp_path / "t.parquet", label="label"), rules_of(3), monkeypatch, whole=False)
    assert len(seen) == 2 and None not in seen and found.n_rows == 2000
    np.testing.assert_array_equal(found.values, confmax.score(["macro_f1", "mcc"], P, y, rules=rules_of(3)).values)


def test_lists_of_probabilities_are_checked_and_not_counted(written, monkeypatch, tmp_path):
    _, seen = written
    P, y, _ = labelled(2000, 3)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(P.ravel()), 3)
    pq.write_table(pa.table({"probability": lists, "label": y}), tmp_path / "l.parquet", row_group_size=900)
    table = confmax.open_table(tmp_path / "l.parquet", label="label", columns=["probability"])
    found = scored(table, rules_of(3), monkeypatch, whole=False)
    assert not seen and found.n_rows == 2000
    np.testing.assert_array_equal(found.values, confmax.score(["macro_f1", "mcc"], P, y, rules=rules_of(3)).values)
