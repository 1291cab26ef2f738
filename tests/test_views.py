"""Metrics of blocks: each against the metric of K classes at the confusion matrices of the blocks."""

import numpy as np
import pytest

import confmax
from confmax.confusion import Confusion, Layout
from confmax.metrics import labels as label_metrics
from confmax.metrics.catalogue import plain_names, quantity
from confmax.metrics.decided import of_decided
from confmax.metrics.labels import FOUND_ONCE, shares_of
from confmax.metrics.views import label_view, view

# metrics of labels, by what they are of two classes
SAME = {
    "macro_f1": "f1",
    "macro_f_beta": "f_beta",
    "weighted_f1": "f1",
    "macro_jaccard": "jaccard",
    "macro_precision": "precision",
    "macro_recall": "recall",
    "hamming": "accuracy",
}
OF_ONE = ("recall", "precision", "specificity", "fpr", "npv", "rate", "f1", "f_beta", "jaccard")


def drawn(seed, n_labels, size=()):
    """Return true and decided entries (..., n, L) of labels, with their statistics (..., L)."""
    rng = np.random.default_rng(seed)
    n = 40
    Y = rng.random((n, n_labels)) < rng.uniform(0.1, 0.9, n_labels)
    D = rng.random((*size, n, n_labels)) < np.where(Y, 0.7, 0.3)
    if not size:
        # one label that is never decided, one that always is
        D[:, 0], D[:, 1] = False, True
    return Y, D, Confusion(Y.mean(0), (Y & D).mean(-2), D.mean(-2))


def matrix(y, d):
    """Return the confusion matrix (2, 2) of true and decided entries (n,)."""
    return np.array([[np.sum((y == a) & (d == b)) for b in (0, 1)] for a in (0, 1)])


def of_block(metric, C):
    return metric.value(C) if metric is not FOUND_ONCE else float(metric.values(Confusion.from_matrix(C / C.sum())))


@pytest.mark.parametrize("name", sorted(label_metrics.CATALOGUE))
def test_metrics_of_labels_are_those_of_the_matrices_of_labels(name):
    more = {"n": 20} if name == "coverage" else {"beta": 1.5} if name.endswith("f_beta") else {}
    metric = label_metrics.get(name, **more)
    one = FOUND_ONCE if name == "coverage" else None
    if one is None and not name.startswith("micro"):
        one = confmax.metrics.get(SAME.get(name, name))
    if one is None:
        one = confmax.metrics.get(name.removeprefix("micro_"))
    one = one.with_params(more)
    for seed in range(5):
        Y, D, S = drawn(seed, 6)
        each = [matrix(y, d) for y, d in zip(Y.T, D.T, strict=True)]
        if name.startswith("micro"):
            wanted = one.value(sum(each))
        else:
            wanted = shares_of(metric, S.rows) @ [of_block(one, C) for C in each]
        assert float(metric.values(S)) == pytest.approx(wanted, abs=1e-12)
        assert float(metric.at(S).value) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("name", OF_ONE)
def test_a_quantity_of_one_label_is_that_of_its_matrix(name):
    one = quantity(name)
    for seed in range(5):
        Y, D, S = drawn(seed, 4, (3,))
        for k in range(4):
            metric = label_view(quantity(f"{name}[k]"), k)
            wanted = [one.value(matrix(Y[:, k], d[:, k])) for d in D]
            np.testing.assert_allclose(metric.values(S), wanted, atol=1e-12)
            np.testing.assert_allclose(metric.at(S).value, wanted, atol=1e-12)
            # what is known of it holds at every rule
            ratio = metric.as_ratios(S.rows, 4)
            if ratio is not None:
                found = [ratio.values(S[b])[0] for b in range(3)]
                np.testing.assert_allclose(found, wanted, atol=1e-12)
            elif metric.structure.is_linear:
                np.testing.assert_allclose(metric.as_functions(S.rows, 4).values(S)[:, 0], wanted, atol=1e-12)


@pytest.mark.parametrize("name", [*plain_names(), "recall[1]", "f1[2]", "precision[0]", "cost"])
def test_metrics_of_groups_are_those_of_their_matrices(name):
    rng = np.random.default_rng(3)
    G, K = 3, 3
    metric = confmax.metrics.get("linear", cost=rng.random((K, K))) if name == "cost" else None
    if metric is None:
        metric = confmax.metrics.get(name)
    if metric.binary:
        G, K = 3, 2
    if metric.label is not None:
        metric = metric.numbered(K)
    layout = Layout(G, K)
    counts = rng.integers(1, 30, (G, K, K))
    C = np.zeros((G * K, G * K))
    for g in range(G):
        C[layout.block(g)] = counts[g]
    S = Confusion.from_matrix(C / C.sum())
    assert float(view(metric, layout).values(S)) == pytest.approx(metric.value(counts.sum(axis=0)), abs=1e-12)
    for g in range(G):
        assert float(view(metric, layout, g).values(S)) == pytest.approx(metric.value(counts[g]), abs=1e-12)


@pytest.mark.parametrize("name", sorted(label_metrics.CATALOGUE))
def test_values_without_the_numbers_of_the_rest_are_those_with_them(name):
    metric = label_metrics.get(name, **({"n": 20} if name == "coverage" else {}))
    S = drawn(9, 5, (4,))[2]
    np.testing.assert_allclose(metric.values(S), metric.at(S).value, atol=1e-12)


@pytest.mark.parametrize("name", ["hamming", "balanced_accuracy"])
def test_linear_metrics_of_labels_are_their_linear_functions(name):
    rng = np.random.default_rng(4)
    metric = label_metrics.get(name)
    rows = np.array([0.9, 0.85, 0.4])
    hits = rows * rng.random((20, 3))
    S = Confusion(rows, hits, hits + (1.0 - rows) * rng.random((20, 3)))
    functions = metric.as_functions(rows, 3)
    np.testing.assert_allclose(functions.values(S)[:, 0], metric.values(S), atol=1e-12)


@pytest.mark.parametrize("name", ["g_mean", "h_mean", "mcc", "cohen_kappa", "balanced_accuracy"])
@pytest.mark.parametrize("share", [0.0, 1.0, 1.0 - 1e-15])
def test_labels_that_no_row_or_every_row_has_have_finite_slopes(name, share):
    first = label_metrics.get(name).at(
        Confusion(np.array([share, 0.4]), np.array([0.5 * share, 0.2]), np.array([0.5, 0.3]))
    )
    assert np.isfinite(first.diagonal).all() and np.isfinite(first.columns).all()


def test_what_is_known_of_a_metric_of_a_group_is_that_of_the_metric():
    layout = Layout(2, 3, 1)
    metric = of_decided(quantity("g_mean"), 3)
    seen = view(metric, layout, 1)
    assert seen.formula.whole and seen.formula.takes_further
    assert seen.formula.rises_with_hits == metric.formula.rises_with_hits
    assert seen.formula.decides(6) == layout.decides(6)
    rng = np.random.default_rng(5)
    blocks = rng.dirichlet(np.ones(24)).reshape(2, 3, 4)
    C = np.zeros((6, 8))
    for group, block in enumerate(blocks):
        C[3 * group : 3 * group + 3, layout.decisions(group)] = block
    S, own = Confusion.from_matrix(C), Confusion.from_matrix(blocks[1] / blocks[1].sum())
    found, alone = seen.as_climb(S.rows, 8), metric.as_climb(own.rows, 4)
    assert found is not None and alone is not None
    np.testing.assert_allclose(found.functions.values(S), alone.functions.values(own), atol=1e-12)
