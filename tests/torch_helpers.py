"""Random tables, labels and gains for the tests of tensors."""

import numpy as np
import pytest

from confmax.confusion import Gains
from confmax.oracle import make_table
from tests.helpers import labels_drawn

torch = pytest.importorskip("torch")
WIDE = {np.float32: torch.float32, np.float64: torch.float64}
NARROW = [torch.float16, torch.bfloat16]
FORMS = ["probabilities", "offsets", "distances", "squared distances", "full", "abstaining"]


def small_chunks(monkeypatch, cells=64):
    monkeypatch.setattr("confmax.tables.tensor.rows.CELLS", {"cpu": cells})


def simplex(rng, n, K, dtype=np.float64, digits=None):
    P = rng.dirichlet(np.ones(K), n)
    if digits is not None:
        P = np.round(P, digits) + 10.0 ** (-digits - 2)
    return make_table((P / P.sum(axis=1, keepdims=True)).astype(dtype)).head.proba


def drawn_labels(rng, P):
    y = labels_drawn(P, rng)
    y[: P.shape[1]] = np.arange(P.shape[1])
    return y


def random_gains(rng, K, form, digits=1):
    if form in ("full", "abstaining"):
        return Gains.from_matrix(np.round(rng.normal(size=(3, K, K + (form == "abstaining"))), digits))
    power = {"distances": 1, "squared distances": 2}.get(form, 0)
    b = None if form == "probabilities" else np.round(rng.normal(size=(3, K)), digits)
    return Gains.reduced(np.round(rng.random((3, K)), digits), b, power=power)
