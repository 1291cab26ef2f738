"""The catalogue against the 43 reference matrices: values, full gradients, reduced gains."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from confmax import metrics

GOLDEN = json.loads(gzip.decompress((Path(__file__).parent / "data" / "golden.json.gz").read_bytes()))
MATRICES = GOLDEN["matrices"]

NAMES = {
    "accuracy": ("accuracy", {}),
    "am": ("balanced_accuracy", {}),
    "youden": ("informedness", {}),
    "f1_binary": ("f1", {}),
    "f2_binary": ("f_beta", {"beta": 2}),
    "jaccard_binary": ("jaccard", {}),
    "ams_binary": ("ams", {}),
    "micro_f1_paper": ("micro_f1_once", {}),
    "micro_f1_nonbackground": ("micro_f1", {}),
    "macro_f1": ("macro_f1", {}),
    "macro_f2": ("macro_f_beta", {"beta": 2}),
    "macro_f0.5": ("macro_f_beta", {"beta": 0.5}),
    "weighted_f1": ("weighted_f1", {}),
    "macro_jaccard": ("macro_jaccard", {}),
    "macro_precision": ("macro_precision", {}),
    "h_mean": ("h_mean", {}),
    "q_mean": ("q_mean", {}),
    "g_mean": ("g_mean", {}),
    "min_max": ("min_recall", {}),
    "cohen_kappa": ("cohen_kappa", {}),
    "quadratic_kappa": ("quadratic_kappa", {}),
    "mcc": ("mcc", {}),
    "fowlkes_mallows_binary": ("fowlkes_mallows", {}),
    **{
        f"{mean}_rho{rho}": (mean, {"rho": rho, "smoothing": "additive"})
        for mean in ("h_mean", "q_mean", "g_mean")
        for rho in (0.1, 0.01)
    },
}
CASES = [
    pytest.param(np.array(case["C"]), key, expected, id=f"{case['id']}-{key}")
    for case in MATRICES
    for key, expected in case["metrics"].items()
]


def test_every_reference_metric_has_a_name():
    """43 matrices; no reference metric is skipped."""
    assert len(MATRICES) == 43
    assert {key for case in MATRICES for key in case["metrics"]} == set(NAMES)


def relative_to_first(G):
    """Gradients are compared up to a constant in each row."""
    return G - G[:, :1]


@pytest.mark.parametrize(("C", "key", "expected"), CASES)
def test_golden(C, key, expected):
    name, params = NAMES[key]
    metric = metrics.get(name, **params)
    if expected["value"] is None:
        assert np.isinf(metric.value(C))
    else:
        assert metric.value(C) == pytest.approx(expected["value"], rel=1e-12, abs=1e-12)
    if expected["gradient"] is not None:
        gradient = np.array(expected["gradient"])
        np.testing.assert_allclose(
            relative_to_first(metric.gradient(C)), relative_to_first(gradient), rtol=1e-9, atol=1e-12
        )
        reduced = metric.reduced_gain(C)
        if reduced is not None and expected.get("a") is not None:
            a, b = reduced
            rebuilt = np.diag(a) + b
            np.testing.assert_allclose(relative_to_first(rebuilt), relative_to_first(gradient), rtol=1e-9, atol=1e-12)
