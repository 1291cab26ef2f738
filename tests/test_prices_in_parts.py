"""The bound by prices on tables in parts and on sparse tables: that of the table in memory, and valid if coarser."""

from unittest import mock

import numpy as np
import pytest

import confmax
from benchmarks.bounds import most_found, tiny
from confmax import metrics
from confmax.optimize import prices
from confmax.optimize.prices import Edges, Scores
from confmax.oracle import CountingOracle, make_oracle, make_table
from tests.parts_helpers import cut, labelled
from tests.test_prices import METRICS

SETTINGS = {"confusion": "model", "calibration": None, "randomized": True, "max_passes": 24}


def edges_of(table, flat=0.0):
    oracle = CountingOracle(make_oracle(table))
    edges = Edges.read(oracle, Scores.of(metrics.get("macro_f1").as_ratios(oracle.rows, table.n_classes)), flat)
    assert oracle.n_passes == 1
    return edges


def random_prices(P, count=8):
    rng = np.random.default_rng(count)
    return rng.normal(size=(count, 2, P.shape[1])) / P.mean(axis=0) / P.shape[1]


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_no_rule_and_no_mixture_exceeds_the_bound(metric):
    for seed in range(6):
        P, weight = tiny(seed)
        parts = cut(P, None, weight, at=(1, 1, len(P) - 1))
        solution = confmax.maximize(metric, parts, **SETTINGS)
        assert solution.upper_bound >= most_found(metric, P, weight, seed) - 1e-12
        assert solution.value <= solution.upper_bound
        whole = confmax.maximize(metric, P, sample_weight=weight, **SETTINGS)
        # rounding may lead linear programs to other prices, and in memory two classes need none
        assert solution.upper_bound == pytest.approx(whole.upper_bound, abs=1e-5)


def test_a_coin_needs_the_inside_of_the_edges():
    solution = confmax.maximize("macro_f1", cut(np.full((4, 2), 0.5), at=(1,)), **SETTINGS)
    assert solution.value == pytest.approx(0.5, abs=1e-6)
    assert 0.5 - 1e-12 <= solution.upper_bound <= 0.5 + 1e-5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("at", [(), (300,), (0, 1, 2, 500, 500, 999), tuple(range(10, 1000, 10))])
def test_hulls_do_not_depend_on_the_parts(at, weighted):
    P, _, weight = labelled(1000, 4)
    weight = weight if weighted else None
    whole, parts = edges_of(make_table(P, None, weight)), edges_of(make_table(cut(P, None, weight, at=at)))
    asked = random_prices(P)
    np.testing.assert_allclose(parts.largest(asked)[0], whole.largest(asked)[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("most", [17 * 4, 40 * 4, 400 * 4])
def test_few_corners_give_a_bound_that_is_higher_but_little(most):
    """Of many parts some are joined before others have come, and every time corners may move outwards."""
    P, _, weight = labelled(4000, 4)
    exact = edges_of(make_table(P, None, weight))
    with mock.patch.object(prices, "CORNERS", most), mock.patch.object(prices, "HELD", 2):
        coarse = edges_of(make_table(cut(P, None, weight, at=tuple(range(100, 4000, 100)))))
    assert coarse.sizes.max() <= 2 * most // 4
    asked = random_prices(P)
    above = coarse.largest(asked)[0] - exact.largest(asked)[0]
    scale = np.abs(asked).max()
    assert above.min() >= -1e-13 * scale
    assert above.max() <= scale / (most / 8) ** 2


def test_probabilities_that_are_not_stored_count_as_zeros():
    from scipy.sparse import csr_array

    P, _, weight = labelled(500, 6)
    P = np.where(np.sort(P, axis=1)[:, -2:-1] <= P, P, 0.0)
    P[:, 0] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    for w in (None, weight):
        dense, stored = edges_of(make_table(P, None, w)), edges_of(make_table(csr_array(P), None, w))
        asked = random_prices(P + 0.1)
        np.testing.assert_allclose(stored.largest(asked)[0], dense.largest(asked)[0], rtol=1e-12, atol=1e-13)
    # a sparse table that is too large for an array is bounded, too
    with (
        mock.patch("confmax.tables.sparse.kind.DENSE_CELLS", 0),
        mock.patch("confmax.tables.sparse.kind.DENSE_FACTOR", 0),
    ):
        sparse = confmax.maximize("macro_f1", csr_array(P), **SETTINGS)
    assert sparse.upper_bound == pytest.approx(confmax.maximize("macro_f1", P, **SETTINGS).upper_bound, abs=1e-9)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_passes_are_counted_and_the_bound_is_that_in_memory(metric):
    P, _, weight = labelled(1500, 4)
    scans = []
    source = cut(P, None, weight, at=(3, 700))
    table = make_table(source)
    with mock.patch.object(type(source), "run", autospec=True, side_effect=type(source).run) as run:
        solution = confmax.maximize(metric, source, **SETTINGS)
        scans = run.call_count
    whole = confmax.maximize(metric, P, sample_weight=weight, **SETTINGS)
    # one scan checks the rows
    assert scans == solution.n_passes + 1
    assert solution.n_passes == whole.n_passes <= 24
    assert solution.upper_bound == pytest.approx(whole.upper_bound, abs=1e-9)
    assert solution.value == pytest.approx(whole.value, abs=1e-9)
    assert table.n_rows == 1500


def test_a_table_in_files_has_the_bound(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    P, _, _ = labelled(2000, 5)
    pq.write_table(pa.table({f"c{k}": P[:, k] for k in range(5)}), tmp_path / "p.parquet", row_group_size=300)
    with mock.patch("confmax.tables.partitioned.files.PART_CELLS", 1500):
        opened = confmax.maximize("macro_f1", confmax.open_table(tmp_path / "p.parquet"), **SETTINGS)
    whole = confmax.maximize("macro_f1", P, **SETTINGS)
    assert opened.upper_bound == pytest.approx(whole.upper_bound, abs=1e-9)
    assert opened.guarantee == whole.guarantee


def test_a_dask_array_has_the_bound():
    da = pytest.importorskip("dask.array")
    P, _, weight = labelled(2000, 5)
    chunked = [da.from_array(each, chunks=(600, *each.shape[1:])) for each in (P, weight)]
    with mock.patch("confmax.tables.partitioned.dask.PART_CELLS", 3000):
        parts = confmax.maximize("macro_f1", chunked[0], sample_weight=chunked[1], **SETTINGS)
    whole = confmax.maximize("macro_f1", P, sample_weight=weight, **SETTINGS)
    assert parts.upper_bound == pytest.approx(whole.upper_bound, abs=1e-9)
    assert parts.value == pytest.approx(whole.value, abs=1e-9)
