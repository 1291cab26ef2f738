"""Extreme classification: macro F1 at k on sparse tables of very many labels, and xCOLUMNs' Frank-Wolfe beside it.

Generated tables: each row stores about fifty float32 probabilities, at labels that Zipf's law chooses, and its true
labels are drawn from these. xCOLUMNs 0.0.2 is timed where it is installed.
"""

from __future__ import annotations

import resource
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp

import confmax
from benchmarks.harness import benchmark, markdown
from benchmarks.timing import seconds_of
from confmax.confusion import Gains
from confmax.kernels.blocks import n_threads
from confmax.tables.decisions import decisions_of
from confmax.tables.several import labels_table

STORED, K, REPEATS = 50, 5, 3
SIZES = ((10_000, 50_000), (100_000, 500_000))
THEIR_MOST = 20  # rounds of xCOLUMNs, each of which keeps two dense vectors of all labels


def table(n, L, seed=0):
    """Return probabilities and labels, csr_arrays (n, L)."""
    rng = np.random.default_rng(seed)
    # of labels by Zipf's law, frequent ones are drawn several times for a row and kept once
    label = np.minimum(np.exp(rng.random((n, STORED + 14)) * np.log(L)).astype(np.int64), L - 1)
    keys = np.unique((np.arange(n)[:, None] * L + label).ravel())
    p = np.minimum(rng.gamma(0.3, 0.4, len(keys)), 0.98).astype(np.float32) + np.float32(1e-4)
    P = sp.csr_array((p, (keys // L, (keys % L).astype(np.int32))), shape=(n, L))
    true = rng.random(len(p)) < p
    Y = sp.csr_array((np.ones(int(true.sum()), np.uint8), (keys[true] // L, (keys % L)[true])), shape=(n, L))
    return P, Y


def ours(P, Y):
    """Return cells of our runs: seconds of a pass, and of a run on the model and on labels, with passes and values."""
    rows, L = P.shape
    data = labels_table(decisions_of(K), P, Y)
    oracle = data.oracle(0.0)
    rng = np.random.default_rng(1)
    gains = Gains.reduced(1.0 + rng.random(L), -0.01 * rng.random(L))
    oracle.maximize(gains)
    a_pass = float(np.median([seconds_of(partial(oracle.maximize, gains))[0] for _ in range(REPEATS)]))
    found = []
    for confusion in ("model", "labels"):
        with warnings.catch_warnings():
            # of very many labels some are true of no row
            warnings.simplefilter("ignore")
            run = partial(confmax.maximize, "macro_f1", P, Y, decisions=K, confusion=confusion, calibration=None)
            seconds, solution = seconds_of(run)
        plain = [f"{value:.5f}" for value in solution.baselines.values()]
        bound = "" if solution.upper_bound is None else f"{solution.upper_bound:.5f}"
        cells = [f"{a_pass:.2f}", solution.n_passes, f"{seconds:.1f}", f"{solution.value:.5f}", *plain, bound]
        found.append([f"{rows:,} x {L:,}", f"confmax, {confusion}", *cells])
    return found


def theirs(P, Y):
    """Return a row of xCOLUMNs' Frank-Wolfe on labels, of the labels that a row has; none where it is not installed.

    With labels that no row has it stops at its start.
    """
    try:
        from xcolumns.frank_wolfe import find_classifier_using_fw
        from xcolumns.metrics import macro_f1_score_on_conf_matrix
    except ImportError:
        return []
    present = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1]))
    y, p = (sp.csr_matrix(part[:, present], dtype=np.float64) for part in (Y, P))
    settings = {"skip_tn": True, "seed": 0, "init_classifier": "top", "return_meta": True}
    find = partial(find_classifier_using_fw, max_iters=THEIR_MOST, **settings)
    seconds, (_, found) = seconds_of(partial(find, y, p, macro_f1_score_on_conf_matrix, K))
    passes = len(found["alphas"]) + 1
    size = f"{P.shape[0]:,} x {P.shape[1]:,}"
    return [[size, "xCOLUMNs, labels", "", passes, f"{seconds:.1f}", f"{found['utilities'][-1]:.5f}", "", "", ""]]


@benchmark("multilabel-extreme")
def multilabel_extreme(quick=False):
    """Measure macro F1 at 5 on very many labels."""
    rows = []
    for n, L in ((200, 1000),) if quick else ((1000, 10_000), *SIZES):
        P, Y = table(n, L)
        rows += ours(P, Y) + theirs(P, Y)
    heads = ["table", "method", "a pass, s", "passes", "run, s", "value", f"top-{K}", f"top-{K} of p/prior", "bound"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        f"macro F1 at {K} over the labels that a row has, about {STORED} stored float32 probabilities a row, "
        f"{n_threads()} threads; values are those of the estimate that is maximised, on the same rows. A run on labels "
        f"searches the model's estimate first, and passes are those of its second search. Peak memory {peak:.1f} GB:",
        markdown(heads, rows),
    ]
