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


def test_every_reference_metric_has_a_name():
    """43 matrices; no reference metric is skipped."""
    assert len(MATRICES) == 43
    assert {key for case in MATRICES for key in case["metrics"]} == set(NAMES)


def relative_to_first(G):
    """Gradients are compared up to a constant in each row."""
    return G - G[:, :1]


def agree(found, expected, rtol, atol):
    """Whether gradients agree but for a constant in each row."""
    return np.allclose(relative_to_first(found), relative_to_first(expected), rtol=rtol, atol=atol)


def faults(metric, C, expected):
    """Yield what differs from the reference on one matrix (K, K): the value, the gradient, the reduced gain."""
    value = metric.value(C)
    if expected["value"] is None:
        if not np.isinf(value):
            yield f"value {value}, but the reference has none"
    elif value != pytest.approx(expected["value"], rel=1e-12, abs=1e-12):
        yield f"value {value}, not {expected['value']}"
    if expected["gradient"] is None:
        return
    gradient = np.array(expected["gradient"])
    if not agree(metric.gradient(C), gradient, 1e-9, 1e-12):
        yield "gradient"
    reduced = metric.reduced_gain(C)
    if reduced is not None and expected.get("a") is not None:
        a, b = reduced
        if not agree(np.diag(a) + b, gradient, 1e-9, 1e-12):
            yield "reduced gain"


@pytest.mark.parametrize("key", NAMES)
def test_golden(key):
    name, params = NAMES[key]
    metric = metrics.get(name, **params)
    wrong = [
        f"matrix {case['id']}: {fault}"
        for case in MATRICES
        if key in case["metrics"]
        for fault in faults(metric, np.array(case["C"]), case["metrics"][key])
    ]
    assert wrong == []
