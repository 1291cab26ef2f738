"""The second derivative of the support function by rows that nearly tie, and the dual descent that it serves."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, kron

import confmax
from confmax import constraints as c
from confmax import kernels, metrics
from confmax.confusion import Gains
from confmax.metrics.alignment import fit_metric
from confmax.optimize.column_generation import _space
from confmax.optimize.descent import descended, free_prices, log_step, roots, slope_of_answers
from confmax.optimize.loop import Problem, baselines
from confmax.optimize.points import Form
from confmax.oracle import CountingOracle, make_oracle, make_table
from confmax.tables import Part
from confmax.tables.groups import Groups
from confmax.tables.ties import MOST_ROWS
from tests.helpers import compiled


def rows(n, K, seed=0, dtype=np.float64, concentration=0.5):
    P = np.random.default_rng(seed).dirichlet(np.full(K, concentration) / np.arange(1, K + 1), n) + 1e-9
    return np.ascontiguousarray(P / P.sum(axis=1, keepdims=True), dtype=dtype)


def functions(K, M, d, seed=1):
    rng = np.random.default_rng(seed)
    return Gains.reduced(rng.random((d, K)), 0.2 * rng.random((d, M))), rng.random(d)


@compiled
@pytest.mark.parametrize(
    ("n", "K", "M", "dtype"),
    [(5000, 3, 3, np.float64), (700, 20, 22, np.float32), (400, 150, 150, np.float32), (900, 2, 3, float)],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_agrees_with_numpy(monkeypatch, n, K, M, dtype, weighted):
    weight = np.random.default_rng(2).integers(0, 3, n).astype(float) + (np.arange(n) == 0) if weighted else None
    table = make_table(rows(n, K, dtype=dtype), sample_weight=weight, classes=list(range(K)))
    asked, prices = functions(K, M, 5)
    compiled = table.density_of_ties(asked, prices)
    monkeypatch.setattr(kernels, "native", None)
    by_numpy = table.density_of_ties(asked, prices)
    assert np.allclose(compiled, by_numpy, rtol=1e-12, atol=1e-15 * np.abs(by_numpy).max())
    assert np.abs(by_numpy).max() > 0.0


def test_density_is_the_change_of_answers():
    # an independent witness: differences of what the oracle answers
    table = make_table(rows(150_000, 4), classes=list(range(4)))
    oracle, (asked, prices) = make_oracle(table), functions(4, 4, 3)
    B = table.density_of_ties(asked, prices)

    a, b = asked.pair()
    for k in range(3):
        sides = []
        for sign in (1.0, -1.0):
            moved = prices.copy()
            moved[k] += sign * 0.02 * prices[k]
            C = oracle.maximize(Gains.reduced(moved @ a, moved @ b))[0]
            sides.append(a @ C.diagonal + b @ C.columns)
        change = (sides[0] - sides[1]) / (0.04 * prices[k])
        assert np.allclose(change, B[k], rtol=0.1, atol=0.03 * np.abs(B).max())
    # homogeneous of degree one: along the prices nothing changes
    assert np.abs(B @ prices).max() < 0.05 * np.abs(B * prices).max()
    assert np.linalg.eigvalsh(B).min() > -1e-12


def test_a_large_table_is_read_in_part():
    P = rows(40_000, 3)
    many = make_table(np.tile(P, (2 * MOST_ROWS // len(P), 1)), classes=list(range(3)))
    asked, prices = functions(3, 3, 4)
    B, whole = (table.density_of_ties(asked, prices) for table in (many, make_table(P, classes=list(range(3)))))
    assert np.allclose(B, whole, rtol=0.1, atol=0.02 * np.abs(whole).max())


def test_weights_are_repeated_rows():
    P, asked, prices = rows(300, 3), *functions(3, 4, 4)
    times = np.random.default_rng(0).integers(0, 4, 300)
    weighted = make_table(P, sample_weight=times.astype(float), classes=list(range(3)))
    repeated = make_table(np.repeat(P, times, axis=0), classes=list(range(3)))
    assert np.allclose(*(table.density_of_ties(asked, prices) for table in (weighted, repeated)))


def test_groups_are_decided_apart():
    P, group = rows(900, 3), np.arange(900) % 2
    table = make_table(P, classes=list(range(3)))
    beside = table.with_groups(Groups.of(group, 900)).side_by_side()
    asked, prices = functions(6, 6, 4)
    B = beside.density_of_ties(asked, prices)
    parts = [make_table(P[group == g], classes=list(range(3))) for g in range(2)]
    each = [part.density_of_ties(beside.layout.gains_of(asked, g), prices) for g, part in enumerate(parts)]
    assert np.allclose(B, 0.5 * (each[0] + each[1]))


def test_other_kinds_of_tables_are_read_as_arrays(monkeypatch):
    P, (asked, prices) = rows(4000, 3), functions(3, 3, 2)
    tables = [make_table(each, classes=list(range(3))) for each in (P, csr_array(P))]
    whole = [table.density_of_ties(asked, prices) for table in tables]
    assert (whole[0] == whole[1]).all()
    monkeypatch.setattr("confmax.tables.ties.MOST_ROWS", 1024)
    part = make_table(csr_array(P), classes=list(range(3))).density_of_ties(asked, prices)
    assert (part != whole[0]).any() and np.allclose(part, whole[0], atol=0.3 * np.abs(whole[0]).max())
    assert np.allclose(part, tables[0].density_of_ties(asked, prices))


def test_unknown_for_other_gains():
    P, (asked, prices) = rows(50, 3), functions(3, 3, 2)
    table = make_table(P, classes=list(range(3)))
    assert table.density_of_ties(Gains.from_matrix(np.ones((2, 3, 3))), prices) is None
    assert table.density_of_ties(asked, np.zeros(2)) is None


# --- descent ----------------------------------------------------------------------------------------------------------


def bounds(form, gains, z):
    """Return what answers prove: of a ratio the root, else Hoelder's inequality or the mean of prices."""
    if form.ratio:
        return roots(form, gains, z)
    tops, heights = gains[:, : form.n_tops], (gains * z).sum(axis=1)
    return heights / tops.sum(axis=1) if form.mean is None else form.mean.bound(tops, heights)


def space_of(metric, P, limits):
    table = make_table(P, classes=list(range(P.shape[1])))
    oracle = CountingOracle(make_oracle(table))
    bound = c.bind(limits, table, explicit=True)
    metric = fit_metric(metrics.get(metric), table, explicit=True)
    starts = tuple(baselines(oracle, [oracle.rows], P.shape[1], matrix=False))
    problem = Problem(metric, oracle, P.shape[1], starts, 100, 1e-6, limits=bound)
    return _space(problem, oracle.rows), oracle, bound.statistics == "matrix"


LIMITS = [c.recall(3) >= 0.5, c.rate(0) <= 0.3]


@pytest.mark.parametrize("metric", ["accuracy", "g_mean", "h_mean", "q_mean", "min_recall", "cohen_kappa", "f1[1]"])
def test_descent_ends_at_the_certified_optimum(metric):
    P = rows(20_000, 4, concentration=1.0)
    space, oracle, matrix = space_of(metric, P, LIMITS)
    g, z = descended(space, oracle, matrix=matrix)
    best = confmax.maximize(metric, P, constraints=LIMITS, confusion="model", calibration=None, randomized=True,
                            classes=list(range(4)))  # fmt: skip
    assert abs(bounds(space.form, g[None], z[None])[0] - best.value) < 1e-4
    assert oracle.n_passes < 20


def test_descent_without_a_compiled_density_takes_differences(monkeypatch):
    P = rows(20_000, 4, concentration=1.0)
    space, oracle, matrix = space_of("accuracy", P, LIMITS)
    g, _ = descended(space, oracle, matrix=matrix)
    known = slope_of_answers(space, oracle, g, matrix=matrix)
    monkeypatch.setattr(Part, "density_of_ties", lambda *_: None)
    by_answers = slope_of_answers(space, oracle, g, matrix=matrix)
    assert np.allclose(by_answers, known, rtol=0.3, atol=0.1 * np.abs(known).max())
    other, _ = descended(space, oracle, matrix=matrix)
    assert np.allclose(other, g, rtol=0.1, atol=1e-3 * g.max())


def test_descent_says_where_limits_cannot_be_kept():
    P = rows(5000, 4)
    for metric in ("accuracy", "g_mean", "min_recall"):
        space, oracle, matrix = space_of(metric, P, [c.recall(3) >= 0.9, c.rate(3) <= 0.001])
        assert descended(space, oracle, matrix=matrix) is None


@pytest.mark.parametrize("name", [None, "g_mean", "h_mean", "q_mean"])
def test_steps_follow_the_slope_of_the_bound(name):
    # where the support function is <g, z>, the slope of the bound is known, and a step goes down it
    rng = np.random.default_rng(3)
    mean = None if name is None else metrics.get(name).structure.recall_mean
    form = Form(3, 2, mean=mean)
    for _ in range(20):
        g, z = rng.uniform(0.2, 2.0, 5), np.append(rng.uniform(0.2, 0.8, 3), rng.uniform(-0.1, 0.1, 2))
        moved = g * np.exp(1e-6 * np.eye(5))
        slope = (bounds(form, moved, np.tile(z, (5, 1))) - bounds(form, g[None], z[None])) / 1e-6
        assert free_prices(form, 5).all()
        assert slope @ log_step(form, g, z, np.diag(rng.random(5))) < 0.0


# --- large tables, and single rules -----------------------------------------------------------------------------------

MODEL = {"confusion": "model", "calibration": None}


@pytest.mark.parametrize(
    ("metric", "limits"),
    [
        ("g_mean", [c.rate(k) <= 0.3 for k in range(5)]),
        # no constant rule and none of the first ones keeps this limit
        ("cohen_kappa", [c.precision(4) >= 0.5, c.recall(4) >= 0.3]),
    ],
)
def test_large_tables_take_few_passes(monkeypatch, metric, limits):
    P, settings = rows(105_000, 5, concentration=1.5), {"randomized": True, "classes": list(range(5)), **MODEL}
    found = confmax.maximize(metric, P, constraints=limits, **settings)
    assert found.gap < 1e-6 and found.n_passes <= 9
    # without the sample the optimum is the same
    monkeypatch.setattr("confmax.optimize.warm.LARGE", 10**9)
    other = confmax.maximize(metric, P, constraints=limits, **settings)
    assert other.n_passes > found.n_passes
    assert abs(found.value - other.value) < 2e-6


@pytest.mark.parametrize("metric", ["accuracy", "min_recall"])
@pytest.mark.parametrize(
    "limits",
    [
        {"rate": (1, 0.1), "recall": (0, 0.6)},
        # nearly all that this share of the rows can reach: the first rules do not keep both
        {"rate": (0, 0.1), "recall": (0, 0.4326)},
    ],
)
def test_a_small_sample_misleads_nobody(monkeypatch, metric, limits):
    """Against a linear program over the decisions of all rows, whatever hundred of them show."""
    monkeypatch.setattr("confmax.optimize.warm.SAMPLE_ROWS", 100)
    monkeypatch.setattr("confmax.optimize.warm.ROWS_PER_CLASS", 10)
    P = np.random.default_rng(0).dirichlet([0.3, 0.75, 1.2], 1000)
    (j, most), (k, least) = limits["rate"], limits["recall"]
    texts = [f"rate[{j}] <= {most}", f"recall[{k}] >= {least}"]
    found = confmax.maximize(metric, P, constraints=texts, randomized=True, **MODEL)
    n, K = P.shape
    of_class = [(P * (np.arange(K) == i) / P[:, i].sum()).ravel() for i in range(K)]
    rate = np.tile(np.arange(K) == j, n) / n
    # the last variable is the smallest recall, which only the second objective counts
    smallest = metric == "min_recall"
    objective = np.append(np.zeros(n * K) if smallest else -P.ravel() / n, -1.0 if smallest else 0.0)
    A = np.array(
        [*(np.append(-recall, 1.0) for recall in of_class), np.append(rate, 0.0), np.append(-of_class[k], 0.0)]
    )
    whole = hstack([kron(eye_array(n), np.ones((1, K))), csr_array((n, 1))])
    program = linprog(objective, csr_array(A), [0.0] * K + [most, -least], whole, np.ones(n))
    assert found.gap <= 1e-6 and found.value == pytest.approx(-program.fun, abs=2e-6)
    chances = found.rule.decision_probabilities(P).ravel()
    assert rate @ chances <= most + 1e-9 and of_class[k] @ chances >= least - 1e-9


def test_a_large_table_of_few_different_rows_is_solved():
    few = rows(40, 4)
    P = few[np.random.default_rng(0).integers(0, 40, 105_000)]
    limits = [c.recall(k) >= 0.4 for k in range(4)]
    whole = confmax.maximize("accuracy", P, constraints=limits, randomized=True, classes=list(range(4)), **MODEL)
    counts = np.unique(P, axis=0, return_counts=True)
    alone = confmax.maximize("accuracy", counts[0], constraints=limits, sample_weight=counts[1].astype(float),
                             randomized=True, classes=list(range(4)), **MODEL)  # fmt: skip
    assert whole.gap < 1e-6 and abs(whole.value - alone.value) < 2e-6
