"""Rows of labels in bins: the kernels against NumPy, and the best cuts against all cuts."""

import numpy as np
import pytest

from confmax.calibration.labels import LabelScaling
from confmax.confusion import Confusion, Gains
from confmax.kernels import label_bins
from confmax.kernels.label_bins import BUCKETS, GIVEN, LOGIT, MAPPED
from confmax.metrics import labels as label_metrics
from confmax.metrics.labels import each_of
from confmax.optimize import label_thresholds
from confmax.optimize.estimate import Estimate
from confmax.optimize.label_thresholds import best_for_all, best_per_label, thresholds_from
from confmax.tables.array import label_columns
from confmax.tables.decisions import ANY
from confmax.tables.several import labels_table
from tests.helpers import by_numpy, compiled


def rows(rng, n, L, dtype=np.float64, digits=None):
    P = rng.random((n, L)) ** 2
    P[rng.random((n, L)) < 0.1] = 0.0
    P[rng.random((n, L)) < 0.1] = 1.0
    P = (P if digits is None else P.round(digits)).astype(dtype)
    return P, (rng.random((n, L)) < P**1.3).astype(np.uint8)


def same_bits(one, other):
    assert one.shape == other.shape and one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


def results(P, Y, first, m, seed):
    """Return what the kernels make of a table."""
    rng = np.random.default_rng(seed)
    found = [label_bins.turned(P, Y, first, m), label_bins.turned(P, None, 0, P.shape[1])]
    x = found[0][-1]
    maps = [None, (np.array([1.3]), np.array([-0.2])), (rng.random(3) + 0.5, rng.normal(size=3))]
    found += [label_bins.mapped(np.abs(x), *one) for one in maps[1:]]
    for by in (GIVEN, MAPPED, LOGIT):
        wanted = rng.random(100 if by == LOGIT else BUCKETS) < 0.3
        for one in maps:
            for weight in (np.empty(0), rng.random(len(x))):
                sums = label_bins.binned(x, weight, by, len(wanted), one)
                found += sums
                if by == GIVEN:
                    found.append(label_bins.rows_in(wanted, int(sums.rows[wanted].sum()), x))
    return found


@compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 127, 128, 255, 256, 257, 600])
def test_kernels_are_numpy_bit_for_bit(n, dtype):
    rng = np.random.default_rng(n)
    for L in (1, 3, 7, 8, 9, 20):
        P, Y = rows(rng, n, L, dtype)
        P[0, 0], Y[0, 0] = -0.0, 0
        first = int(rng.integers(L))
        m = int(rng.integers(1, L - first + 1))
        found = results(P, Y, first, m, n)
        assert (np.signbit(found[0]) == (Y.T[first : first + m] == 1)).all()
        with by_numpy():
            for one, other in zip(found, results(P, Y, first, m, n), strict=True):
                same_bits(one, other)


def test_maps_are_their_formula():
    p = np.random.default_rng(0).random(1000)
    expected = 1.0 / (1.0 + np.exp(0.4 - 1.7 * np.log(p / (1.0 - p))))
    np.testing.assert_allclose(LabelScaling(np.array([1.7]), np.array([-0.4])).column(p, 0), expected, rtol=1e-14)
    # far from one half a map stays rising, and within zero and one
    steep = LabelScaling(np.array([90.0]), np.array([0.0])).column(np.linspace(0.0, 1.0, 101), 0)
    assert steep[0] == 0.0 and steep[-1] == 1.0 and (np.diff(steep) >= 0.0).all()


def all_cuts(p, made, weight):
    """Return the hits and decisions of every cut of one label, from none decided to all."""
    order = np.argsort(-p, kind="stable")
    last = np.append(p[order][1:] != p[order][:-1], True)
    return [np.append(0.0, np.cumsum((weight * part)[order])[last]) for part in (made, np.ones(len(p)))]


@pytest.mark.parametrize("name", ["macro_f1", "macro_jaccard", "g_mean", "balanced_accuracy", "cohen_kappa", "mcc"])
@pytest.mark.parametrize("few", [0, 1 << 12])
def test_the_best_cuts_are_the_best_of_all(name, few, monkeypatch):
    monkeypatch.setattr(label_thresholds, "FEW", few)
    rng = np.random.default_rng(4)
    for n, L, digits, share in ((1, 2, None, 0.5), (60, 11, 1, 0.0), (300, 9, None, 0.3), (300, 3, 2, 1.0)):
        P, Y = rows(rng, n, L, rng.choice([np.float32, np.float64]), digits)
        weight = rng.integers(0, 3, n).astype(float) + (np.arange(n) == 0)
        maps = LabelScaling(rng.random(L) + 0.5, rng.normal(size=L)) if share else None
        estimate = Estimate(labels_table(ANY, P, Y, weight), np.full(L, share), maps)
        metric = label_metrics.get(name)
        found = best_per_label(metric, estimate)
        w = weight / weight.sum()
        for label in range(L):
            p, y = estimate.table.head.proba[:, label], Y[:, label]
            made = share * (p if maps is None else maps.column(p, label)) + (1.0 - share) * y
            hits, decided = all_cuts(p, made, w)
            values = np.nan_to_num(each_of(metric, Confusion(np.array([w @ made]), hits, decided)), nan=-np.inf)
            one = found.statistics
            S = Confusion(one.rows[[label]], one.diagonal[[label]], one.columns[[label]])
            # near zero a root makes much of rounding
            assert each_of(metric, S)[0] == pytest.approx(values.max(), abs=1e-6 if name == "g_mean" else 1e-12)
            # the threshold decides as many rows as the statistics say
            assert w @ (p > p.dtype.type(found.values[label])) == pytest.approx(one.columns[label], abs=1e-12)


@pytest.mark.parametrize("batch", [8, None])
def test_one_threshold_of_all_is_the_best_of_all(batch, monkeypatch):
    if batch:
        # labels whose bins are not kept, and columns that are turned again
        monkeypatch.setattr("confmax.optimize.label_cuts.BATCH", batch)
        monkeypatch.setattr(label_columns, "MOST_KEPT", 0)
    monkeypatch.setattr(label_thresholds, "FEW", 0)
    rng = np.random.default_rng(1)
    P, Y = rows(rng, 80, 19, np.float32)
    maps = LabelScaling(rng.random(19) + 0.5, rng.normal(size=19))
    estimate = Estimate(labels_table(ANY, P, Y), np.linspace(0.0, 1.0, 19), maps)
    metric = label_metrics.get("micro_f1")
    found = best_for_all(metric, estimate)
    q = maps.transform(P)
    S = estimate.share * q + (1.0 - estimate.share) * Y
    best = max(2.0 * S[q >= t].sum() / (S.sum() + (q >= t).sum()) for t in np.unique(q))
    assert float(metric.values(found.statistics)) == pytest.approx(best, abs=1e-12)
    assert found.most >= best - 1e-12
    for high in (0.0, 1e-9, 0.3, 0.9, 1.0 - 1e-9, 1.0, np.inf, float(q[3, 3])):
        assert ((thresholds_from(estimate, -np.inf, high).astype(np.float32) < P) == (q >= high)).all()


def test_statistics_of_gains_are_sums_over_what_they_decide():
    rng = np.random.default_rng(2)
    P, Y = rows(rng, 200, 10, np.float32, digits=2)
    weight = rng.random(200)
    maps = LabelScaling(rng.random(10) + 0.5, rng.normal(size=10))
    estimate = Estimate(labels_table(ANY, P, Y, weight), np.full(10, 0.4), maps)
    thresholds = np.array([0.0, 0.5, 1.0, -0.1, 1.2, 1e-30, np.inf, -np.inf, 0.25, 1.0 - 2.0**-24])
    falling = Gains.reduced([[-1.0] * 10], [[0.3] * 10])
    for gains in (Gains.concatenate([Gains.above(thresholds), Gains.reduced([[3.0] * 10], [[-0.7] * 10])]), falling):
        found = estimate.counted(gains)
        S = 0.4 * maps.transform(P) + 0.6 * Y
        first, second = (part.astype(np.float32) for part in gains.pair())
        for g, (a, b) in enumerate(zip(first, second, strict=True)):
            chosen = (P * a + b > 0) * (weight / weight.sum())[:, None]
            np.testing.assert_allclose(found.columns[g], chosen.sum(axis=0), atol=1e-14)
            np.testing.assert_allclose(found.diagonal[g], (chosen * S).sum(axis=0), atol=1e-14)


def test_maps_of_labels_rise_and_are_taken_in_any_order():
    maps = LabelScaling([0.5, 2.0, 1.0], [0.1, -0.3, 0.0])
    p = np.linspace(0.01, 0.99, 9)
    moved = maps.reordered([2, 0])
    np.testing.assert_array_equal(moved.transform(np.stack([p, p], 1)), maps.transform(np.stack([p] * 3, 1))[:, [2, 0]])
    for slopes, offsets in (([0.0], [0.0]), ([1.0], [np.inf]), ([1.0, 2.0], [0.0])):
        with pytest.raises(ValueError, match="one positive slope and one finite offset for every label"):
            LabelScaling(slopes, offsets)
