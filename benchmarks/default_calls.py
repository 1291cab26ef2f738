"""What the plain call costs, in passes of NumPy over the same table, and what it is worth on new rows.

Three tables have 12 features and classes of Zipf sizes. Their labels are drawn from a softmax of a linear model. The
first has its probabilities, the second is off by powers and offsets of classes, the third by a matrix.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

import numpy as np
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from benchmarks import timing
from benchmarks.harness import benchmark, markdown, solve, value
from confmax.calibration import log_loss
from confmax.kernels.blocks import on_threads
from confmax.oracle import make_table

FEATURES, NEW, REPEATS = 12, 200_000, 5
KINDS = ("calibrated", "vector", "matrix")
# passes that a default call may take, on one thread
MOST = {"g_mean": (20, 35, 120), "macro_f1": (40, 55, 140)}
OTHERS = ((1_000_000, 10, "g_mean"), (1_000_000, 2, "f1"), (866, 4, "macro_f1"), (5611, 18, "macro_f1"))


def tables(n, K, new=NEW):
    """Return for each kind its probabilities and labels of n rows, and of new ones."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, K + 1)
    share /= share.sum()
    X, W, b = rng.normal(size=(n + new, FEATURES)), rng.normal(size=(FEATURES, K)), np.log(share)
    some = X[:20_000] @ W
    for _ in range(200):
        b += np.log(share / softmax(some + b, axis=1).mean(axis=0))
    P = softmax(X @ W + b, axis=1)
    y = (P.cumsum(axis=1) < rng.random((n + new, 1))).sum(axis=1).clip(max=K - 1)
    z = np.log(P)
    vector = softmax(z * rng.uniform(0.6, 1.5, K) + rng.normal(0, 0.5, K), axis=1)
    matrix = softmax(z @ (np.eye(K) + rng.normal(0, 0.06, (K, K))) + rng.normal(0, 0.3, K), axis=1)
    every = (each.astype(np.float32) for each in (P, vector, matrix))
    return {kind: (Q[:n].copy(), y[:n], Q[n:].copy(), y[n:]) for kind, Q in zip(KINDS, every, strict=True)}


@contextmanager
def threads(number):
    with on_threads(number), threadpool_limits(number):
        yield


def timed(metric, P, y, repeats):
    """Return the seconds of NumPy passes, of tables, and of default calls, in turn, and the last solution."""
    K, last = P.shape[1], {}
    a, b = np.linspace(1, 2, K).astype(P.dtype), np.full(K, 0.01, P.dtype)
    calls = {
        "NumPy": lambda Q: timing.numpy_pass(Q, y, a, b),
        "table": lambda Q: make_table(Q, y),
        "call": lambda Q: last.update(solution=solve(metric, Q, y)),
    }
    return timing.alternate(calls, repeats, lambda: timing.fresh(P)), last["solution"]


def corners(quick):
    """Yield calls that took seconds once: micro F1 of many labels, coverage within a floor on the accuracy."""
    rng = np.random.default_rng(0)
    n, L = (500, 20) if quick else (20_000, 300)
    P = rng.beta(0.2, 12.0, (n, L))
    Y = (rng.random(P.shape) < P).astype(np.int8)
    yield f"micro F1, {n:,} x {L} labels", partial(solve, "micro_f1", P, Y, decisions="any")
    for K in (2, 8):
        P = rng.dirichlet(np.full(K, 0.3), 400)
        y = (P.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1).clip(max=K - 1)
        limit = {"abstain": True, "constraints": "accuracy >= 0.9"}
        yield f"coverage, accuracy >= 0.9, 400 x {K}", partial(solve, "coverage", P, y, **limit)


@benchmark("default-calls", section="speed: default calls")
def default_calls(quick=False):
    """Compare default calls with one pass of NumPy, on one thread, and say what they are worth on new rows."""
    n, repeats, rows, others = (4000, 1, [], []) if quick else (200_000, REPEATS, [], [])
    with threads(1):
        for place, (kind, (P, y, Q, z)) in enumerate(tables(n, 20, n).items()):
            for metric, most in MOST.items():
                times, solution = timed(metric, P, y, repeats)
                cost = timing.ratio(times["call"], times["NumPy"])
                worth = value(metric, z, solution.rule.decision_probabilities(Q))
                calibrated = make_table(Q, z).calibrated(solution.rule.calibrator)
                rows.append([kind, metric, timing.milliseconds(times["call"]), timing.shown(cost),
                             timing.verdict(cost[0], most[place]), solution.calibration.kind, f"{worth:.4f}",
                             f"{log_loss(calibrated):.5f}"])  # fmt: skip
    with threads(timing.THREADS):
        for many, K, metric in OTHERS:
            P, y, _, _ = tables(min(many, 2000) if quick else many, K, 0)["calibrated"]
            times, _ = timed(metric, P, y, repeats)
            beyond = 1e3 * (np.median(times["call"]) - np.median(times["table"]))
            cost = timing.ratio(times["call"], times["NumPy"])
            others.append([f"{timing.short(many)} x {K}", metric, f"{beyond:.3g}", timing.shown(cost)])
        slow = []
        for name, call in corners(quick):
            times = timing.alternate({"call": lambda _, call=call: call()}, repeats, lambda: None)["call"]
            slow.append([name, f"{np.median(times):.2f}"])
    head = ["table", "metric", "call, ms", "call / NumPy pass", "target", "calibration", "new rows", "log loss there"]
    return [
        f"`confmax.maximize(metric, P, y)` at 200k x 20, float32, one thread, over one NumPy pass `(P * a + b)."
        f"argmax(1)` with `bincount`: median (range) of {repeats} alternating repeats on fresh copies; value and log "
        f"loss on 200,000 new rows. Targets: {MOST}. Where two kinds of calibration are nearly as good, chance "
        f"decides which is taken. {timing.machine()}",
        markdown(head, rows, words=2),
        "On two threads, calibrated tables: milliseconds beyond `make_table`, and passes.",
        markdown(["table", "metric", "ms beyond the table", "call / NumPy pass"], others, words=2),
        "Seconds of other calls, on two threads.",
        markdown(["call", "seconds"], slow),
    ]
