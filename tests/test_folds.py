"""Folds: they depend on the content of the rows and a seed, are stratified, and change little with a row."""

import numpy as np
import pytest

from confmax.checks import random_table
from confmax.oracle import make_table
from confmax.tables.draws import stratified_folds


def permuted(table, order):
    weight = None if table.weight is None else table.weight[order]
    return table.with_rows(table.proba[order], table.labels[order], weight)


@pytest.mark.parametrize("weights", [False, True])
def test_folds_do_not_depend_on_the_order_of_rows(weights):
    table = random_table(np.random.default_rng(0), 203, 4, ties=True, weights=weights).head
    order = np.random.default_rng(1).permutation(table.n_rows)
    folds, again = stratified_folds(table, 5, 3), stratified_folds(permuted(table, order), 5, 3)
    for k in range(5):
        mine, theirs = (
            sorted(map(tuple, np.column_stack([t.proba, t.labels])[f == k]))
            for t, f in ((table, folds), (permuted(table, order), again))
        )
        assert mine == theirs
    assert (stratified_folds(table, 5, 4) != folds).any()


def test_folds_are_stratified():
    """No fold has more than its share of a class and a twentieth; a class of few rows is spread evenly."""
    for n, seed in ((500, 2), (60, 3), (41, 4), (12, 5)):
        table = random_table(np.random.default_rng(seed), n, 3).head
        folds = stratified_folds(table, 5, 0)
        for k in range(3):
            size = int((table.labels == k).sum())
            counts = np.bincount(folds[table.labels == k], minlength=5)
            assert counts.max() <= -(-size // 5) + size // 20
            if size >= 2:
                assert counts.max() < size


@pytest.mark.parametrize("n", [30, 200, 3000])
def test_a_row_less_or_another_row_moves_few_others(n):
    """Leave out, or change, every one of some rows: of a large class no other row changes its fold."""
    rng = np.random.default_rng(n)
    P, y = rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n)
    folds, moved = stratified_folds(make_table(P, y).head, 5, 0), []
    for row in rng.choice(n, 30, replace=False):
        kept = np.arange(n) != row
        moved.append((stratified_folds(make_table(P[kept], y[kept]).head, 5, 0) != folds[kept]).sum())
        other = P.copy()
        other[row] = rng.dirichlet(np.ones(3))
        moved.append((stratified_folds(make_table(other, y).head, 5, 0) != folds)[kept].sum())
    assert np.mean(moved) <= (0 if n == 3000 else 3)
