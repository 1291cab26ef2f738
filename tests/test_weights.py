"""Weights are relative: their unit changes nothing, in `maximize`, `score` and the share of the model."""

import numpy as np
import pytest
import scipy.sparse

import confmax
from confmax.calibration.blend import model_share
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

UNITS = (1024.0, 2.5, 1e-3)


def tilted(n, K, seed=0, *, whole=False):
    """Labels that follow a tilted version of the probabilities, and weights."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), n)
    y = (rng.uniform(0.5, 1.5, K) * np.log(P) + rng.normal(size=K) + rng.gumbel(size=(n, K))).argmax(axis=1)
    return P, y, rng.integers(1, 5, n).astype(float) if whole else rng.uniform(0.2, 3.0, n)


@pytest.mark.parametrize(
    ("metric", "solver", "whole"),
    [("macro_f1", "coordinate_search", False), ("g_mean", "auto", True), ("min_recall", "auto", False)],
)
def test_the_unit_of_weights_changes_no_rule(metric, solver, whole):
    P, y, w = tilted(400, 3, whole=whole)
    one = confmax.maximize(metric, P, y, sample_weight=w, solver=solver)
    for unit in UNITS:
        other = confmax.maximize(metric, P, y, sample_weight=unit * w, solver=solver)
        assert other.calibration.kind == one.calibration.kind
        assert other.model_share == pytest.approx(one.model_share, rel=1e-9)
        # the linear programs of min recall end within the tolerance of the run
        assert other.value == pytest.approx(one.value, abs=1e-6 if metric == "min_recall" else 1e-9)
        np.testing.assert_allclose(other.rule.decision_probabilities(P), one.rule.decision_probabilities(P), atol=5e-7)
        if unit == 1024.0:
            assert other.rule.to_json() == one.rule.to_json()


@pytest.mark.parametrize("unit", [1.0, 1000.5])
def test_equal_weights_are_no_weights(unit):
    """1 and 1000.5 on all rows: one log loss, and the rule without weights."""
    P, y, _ = tilted(300, 3, seed=1)
    plain, found = (confmax.maximize("macro_f1", P, y, sample_weight=w) for w in (None, np.full(300, unit)))
    assert found.calibration.kind == plain.calibration.kind
    assert found.calibration.log_loss_after == pytest.approx(plain.calibration.log_loss_after, abs=1e-12)
    assert found.value == pytest.approx(plain.value, abs=1e-12)


def test_a_row_that_is_repeated_is_not_a_row_of_weight_two():
    """Twice the rows are twice as sure of their labels; twice the weight is not."""
    P, y, _ = tilted(150, 3, seed=2)
    share = {name: model_share(make_table(*rows)) for name, rows in {
        "once": (P, y), "weighted": (P, y, np.full(150, 2.0)), "twice": (np.repeat(P, 2, 0), np.repeat(y, 2)),
    }.items()}  # fmt: skip
    assert share["weighted"] == pytest.approx(share["once"], abs=1e-12) and share["twice"] < share["once"]


def test_intervals_do_not_depend_on_the_unit():
    P, y, w = tilted(200, 3, seed=3)
    one, other = (
        confmax.score(["macro_f1", "g_mean"], P, y, sample_weight=u * w, n_replicates=200) for u in (1.0, 2.5)
    )
    for rule, metric in (("argmax", "macro_f1"), ("p/prior", "g_mean")):
        assert tuple(other.estimate(rule, metric)) == pytest.approx(tuple(one.estimate(rule, metric)), abs=1e-9)


# --- weights of any size ----------------------------------------------------------------------------------------------

# powers of two: the smallest weights are subnormal, and the sum of the largest is no number
SIZES = (-1070, -700, 700, 1018)
LARGEST = np.ldexp(1.0, 1023)


def of_labels(n=120):
    """Probabilities (n, 3), labels, and weights that are whole numbers."""
    rng = np.random.default_rng(0)
    P = rng.beta(1, 3, (n, 3))
    return P, (rng.random((n, 3)) < P**0.5).astype(int), rng.integers(1, 5, n).astype(float)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("decisions", ["any", 2, ("at_most", 2)], ids=str)
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["array", "sparse"])
def test_the_size_of_weights_changes_no_label(form, decisions, size):
    P, Y, w = of_labels()
    plain, found = (
        confmax.maximize("macro_f1", form(P), Y, sample_weight=weight, decisions=decisions)
        for weight in (w, np.ldexp(w, size))
    )
    assert found.rule == plain.rule
    assert found.value == plain.value


@pytest.mark.filterwarnings("ignore:group . has .* rows of class")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"abstain": "none", "constraints": "coverage >= 0.8"},
        {"group": np.arange(150) % 2, "constraints": "min(recall[1] | group) >= 0.4"},
        {"constraints": "rate[2] <= 0.2"},
    ],
    ids=["one", "abstaining", "groups", "limits"],
)
def test_the_size_of_weights_changes_no_class(settings, size):
    P, y, w = tilted(150, 3, seed=4, whole=True)
    plain, found = (
        confmax.maximize("accuracy", P, y, sample_weight=weight, **settings) for weight in (w, np.ldexp(w, size))
    )
    assert found.rule == plain.rule
    assert found.value == plain.value
    one, other = (confmax.score("macro_f1", P, y, sample_weight=v, n_replicates=39) for v in (w, np.ldexp(w, size)))
    assert tuple(one.estimate("argmax", "macro_f1")) == tuple(other.estimate("argmax", "macro_f1"))


@pytest.mark.parametrize("decisions", ["any", 2, ("at_most", 2), "one"], ids=str)
def test_powers_of_ten_change_no_decision(decisions):
    P, y, w = of_labels()
    metric = "micro_f1"
    if decisions == "one":
        P, y, w = tilted(150, 3, seed=4, whole=True)
        metric = "macro_f1"
    made = [
        confmax.maximize(metric, P, y, sample_weight=w * by, decisions=decisions).predict(P)
        for by in (1.0, 1e-300, 1e-200, 1e160, 1e300)
    ]
    for other in made[1:]:
        np.testing.assert_array_equal(other, made[0])


def test_parts_find_a_unit_that_all_of_them_share():
    """No part knows the weights of the others: one has none, one small, one ordinary and one large ones."""
    da = pytest.importorskip("dask.array")
    P, y, w = tilted(400, 3, seed=5, whole=True)
    blocks = np.repeat(np.arange(4), 100)
    for sizes in ([-1070, -1060, -1070, -1071], [1000, 1018, 990, 1010], [-1000, 0, 5, 0], [0, 900, 0, 890]):
        weight = np.ldexp(np.where(blocks == 0, 0.0, w), np.array(sizes)[blocks])
        given = (da.from_array(each, chunks=(100, *each.shape[1:])) for each in (P, y, weight))
        whole, parts = make_table(P, y, weight), make_table(*given)
        np.testing.assert_allclose(parts.label_weight(), whole.label_weight(), rtol=1e-12)
        np.testing.assert_allclose(parts.mean_probability(), whole.mean_probability(), rtol=1e-12)
        assert parts.n_weighted == whole.n_weighted
        answers = [make_oracle(one, "labels").maximize(Gains.reduced([1.0, 2.0, 1.0])) for one in (whole, parts)]
        np.testing.assert_allclose(answers[1].columns, answers[0].columns, rtol=1e-12)
        np.testing.assert_array_equal(np.sort(parts.head.weight), np.sort(whole.head.weight))


def test_weights_must_be_numbers_that_are_held():
    P, y, w = tilted(20, 3)
    for wrong in (np.inf, np.nan, -1.0):
        w[3] = wrong
        with pytest.raises(ValueError, match=r"row 3 of sample_weight.*finite and not negative"):
            confmax.maximize("macro_f1", P, y, sample_weight=w)
    assert confmax.maximize("accuracy", P, y, sample_weight=np.full(20, LARGEST)).feasible
    with pytest.raises(ValueError, match="sums to zero"):
        confmax.maximize("macro_f1", P, y, sample_weight=np.zeros(20))


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("kept", [0.9, 0.02])
def test_rows_of_weight_zero_take_no_places_in_a_sample(kept, tmp_path):
    """Of rows in parts the sample is that of the rows that have weight, however few these are."""
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    P, y, w = tilted(5000, 3, seed=4)
    w = w * (np.random.default_rng(0).random(5000) < kept)
    columns = {**{f"p{k}": P[:, k] for k in range(3)}, "y": y, "w": w}
    found = {}
    for name, rows in {"all": slice(None), "some": w > 0.0}.items():
        (tmp_path / name).mkdir()
        for part in (0, 1):
            table = pa.table({key: column[rows][part::2] for key, column in columns.items()})
            pq.write_table(table, tmp_path / name / f"{part}.parquet")
        opened = confmax.open_table(tmp_path / name, columns=["p0", "p1", "p2"], label="y", weight="w")
        sample = make_table(opened).head
        assert sample.weight.all()
        found[name] = (sample.n_rows, confmax.maximize("macro_f1", opened))
    assert found["all"][0] == found["some"][0]
    one, other = (solution for _, solution in found.values())
    assert one.calibration.kind == other.calibration.kind
    assert one.value == pytest.approx(other.value, abs=1e-12)
    np.testing.assert_allclose(one.rule.decision_probabilities(P), other.rule.decision_probabilities(P), atol=1e-9)


def test_labels_of_rows_of_weight_zero_change_no_threshold():
    """Neither by the resamples of rare labels, nor by the bins of a calibration of some 2000 rows."""
    rng = np.random.default_rng(5)
    P = rng.beta(0.5, 2.0, (2500, 4)) * [1.0, 0.3, 0.2, 0.1]
    Y = (rng.random(P.shape) < P).astype(int)
    w = (rng.random(2500) < 0.75).astype(float)
    one = confmax.maximize("macro_f1", P, Y, sample_weight=w, decisions="any")
    other = confmax.maximize("macro_f1", P[w > 0], Y[w > 0], decisions="any")
    assert one.value == pytest.approx(other.value, abs=1e-9)
    np.testing.assert_allclose(one.rule.thresholds, other.rule.thresholds, rtol=2e-3)
    np.testing.assert_array_equal(one.rule.predict(P[w > 0]), other.rule.predict(P[w > 0]))
