"""Data for the tests of the estimators."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

from tests.estimators.helpers import RANK


@pytest.fixture(autouse=True)
def _one_thread():
    """On tiny data the threads of a linear algebra library only wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def three():
    """Three unbalanced classes that overlap, as names and as ranks."""
    X, rank = make_classification(
        300, 6, n_informative=4, n_classes=3, weights=[0.6, 0.3], flip_y=0.1, class_sep=0.7, random_state=0
    )
    return X, np.array(list(RANK))[rank], rank


@pytest.fixture(scope="module")
def two():
    """Two unbalanced classes whose rare one comes first in the alphabet."""
    X, rare = make_classification(300, 6, weights=[0.8], flip_y=0.15, class_sep=0.6, random_state=1)
    return X, np.where(rare == 1, "bad", "good"), rare


@pytest.fixture(scope="module")
def weight():
    return np.random.default_rng(5).integers(0, 4, 300).astype(float)
