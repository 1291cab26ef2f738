"""Compare two builds of the kernels: how long each operation takes on one thread, and whether the results are the same.

``python packaging/compare_kernels.py FIRST.so SECOND.so [NAME]`` runs every operation, or those whose names hold NAME,
with both in turn. It prints the median time with the first build and the ratio of the second one to it, and ends with
an exit code of 1 where results differ in any bit. ``CONFMAX_INSTRUCTIONS=avx2`` narrows the instruction sets.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

import numpy as np

from confmax import DecisionRule, calibration, kernels
from confmax.confusion import Gains
from confmax.kernels.order import stable_order
from confmax.kernels.products import times
from confmax.kernels.softmax import scaled_rows
from confmax.oracle import make_oracle, make_table

SECONDS = 0.5  # of each operation and build
LEAST, MOST = 5, 200  # repeats

Operation = Callable[[], Any]


def loaded(path: str) -> Any:
    """Return the compiled module of a file."""
    spec = spec_from_loader("confmax.kernels.native", ExtensionFileLoader("confmax.kernels.native", path))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scans() -> Iterator[tuple[str, Operation]]:
    """Yield scans of tables of several widths, types and estimates."""
    for n, K, dtype in (
        (400_000, 2, "float32"),
        (300_000, 3, "float32"),
        (100_000, 10, "float32"),
        (100_000, 10, "float64"),
        (40_000, 20, "float32"),
        (10_000, 100, "float32"),
        (10_000, 100, "float64"),
        (2_000, 1000, "float32"),
    ):
        rng = np.random.default_rng(K)
        P = rng.dirichlet(np.ones(K), n).astype(dtype)
        y, weight = rng.integers(0, K, n), rng.random(n)
        one = Gains.reduced(1 + rng.random((1, K)), rng.random((1, K)) / 10)
        eight = Gains.reduced(1 + rng.random((8, K)), rng.random((8, K)) / 10)
        plain, weighted = make_table(P, y, None, range(K)), make_table(P, y, weight, range(K))
        model, labels = make_oracle(plain), make_oracle(plain, "labels")
        name = f"{n} x {K} {dtype}"
        yield f"check, {name}", lambda P=P: make_table(P).n_rows
        yield f"scan, {name}", lambda o=model, g=one: o.maximize(g)
        yield f"scan by labels, {name}", lambda o=labels, g=one: o.maximize(g)
        yield f"scan by eight gains, {name}", lambda o=model, g=eight: o.maximize(g)
        blend = make_oracle(weighted, "blend", model_share=0.5)
        yield f"scan of a blend with weights, {name}", lambda o=blend, g=one: o.maximize(g)
        if K <= 100:
            full = Gains.from_matrix(rng.random((1, K, min(K, 20))))
            yield f"scan by full gains, {name}", lambda o=model, g=full: o.maximize(g)
            yield f"scan for the matrix, {name}", lambda o=model, g=eight: o.maximize(g, matrix=True)
            far = Gains.reduced(-np.ones((1, K)), np.zeros((1, K)), power=1)
            yield f"scan by distances, {name}", lambda o=model, g=far: o.maximize(g)


def others() -> Iterator[tuple[str, Operation]]:
    """Yield what is no scan: decisions, draws, calibration, sorting, products."""
    for n, K in ((40_000, 10), (4_000, 100)):
        rng = np.random.default_rng(K)
        P = rng.dirichlet(np.ones(K), n).astype(np.float32)
        y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        rule = DecisionRule.from_weights(1 + rng.random(K))
        W, b = np.eye(K) + rng.random((K, K)) / 10, rng.random(K)
        name = f"{n} x {K}"
        yield f"predict, {name}", lambda r=rule, P=P: r.predict(P)
        yield f"scale by a vector, {name}", lambda P=P, W=W, b=b: scaled_rows(P, W[0].copy(), b, 1e-9)
        yield f"scale by a matrix, {name}", lambda P=P, W=W, b=b: scaled_rows(P, W, b, 1e-9)
        table, vectors = make_table(P, y, None, range(K)), P.astype(float)
        yield f"fit a temperature, {name}", lambda t=table: calibration.fit(t, "temperature")
        yield f"fit a vector, {name}", lambda t=table: calibration.fit(t, "vector")
        yield f"times, {name}", lambda P=vectors, W=W: times(P, W)
    keys = np.random.default_rng(0).random(200_000)
    yield "sort 200000", lambda: stable_order(keys)


def bits(result: Any) -> bytes:
    """Return the bits of the arrays in a result."""
    if hasattr(result, "tobytes"):
        return bytes(result.tobytes())
    held = vars(result) if hasattr(result, "__dict__") else None
    return repr(result).encode() if held is None else b"".join(bits(held[name]) for name in sorted(held))


def main() -> int:
    """Run the operations with both builds; return 1 where results differ."""
    os.environ.setdefault("CONFMAX_NUM_THREADS", "1")
    builds, chosen = [loaded(path) for path in sys.argv[1:3]], "".join(sys.argv[3:])
    print(f"instructions: {', '.join(build.instructions for build in builds)}; ms, second / first")
    ratios, differ = [], []
    for name, operation in (*scans(), *others()):
        if chosen not in name:
            continue
        taken: list[list[float]] = [[], []]
        results = []
        began = time.perf_counter()
        while len(taken[0]) < LEAST or (time.perf_counter() - began < 2 * SECONDS and len(taken[0]) < MOST):
            results = []
            # the memory of the last result is taken by the first, so that both builds are the first in turn
            for build, times_of in list(zip(builds, taken, strict=True))[:: 1 if len(taken[0]) % 2 else -1]:
                kernels.native = build
                start = time.perf_counter()
                results.append(operation())
                times_of.append(time.perf_counter() - start)
        first, second = (float(np.median(one)) for one in taken)
        ratios.append(second / first)
        same = bits(results[0]) == bits(results[1])
        differ += [] if same else [name]
        print(f"{1000 * first:9.3f} {second / first:6.2f}  {name}{'' if same else ': RESULTS DIFFER'}", flush=True)
    print(f"largest ratio {max(ratios):.2f}, median {np.median(ratios):.2f}; {len(differ)} results differ")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
