"""What randomised prediction costs beside deterministic prediction: `python -m benchmarks.prediction`."""

import time

import numpy as np

from benchmarks.results import write_section
from confmax import DecisionRule
from confmax.confusion import Gains

SIZES = ((1_000_000, 10), (200_000, 50))
REPEATS = 9


def paired(first, second):
    """Return the shortest times of two calls, made in turn so that a busy machine is unfair to neither."""
    times = []
    for _ in range(REPEATS):
        pair = []
        for call in (first, second):
            start = time.perf_counter()
            call()
            pair.append(time.perf_counter() - start)
        times.append(pair)
    return np.min(times[1:], axis=0)


def main():
    rng = np.random.default_rng(0)
    lines = [
        "`rule.predict` of a mixture beside that of one of its atoms, shortest of "
        f"{REPEATS - 1} alternating calls, float32 probabilities, in milliseconds "
        "(`python -m benchmarks.prediction`). Required: a ratio of 2 at most.",
        "",
        "rows | classes | atoms | keys | deterministic | randomised | ratio",
        "---:|---:|---:|---|---:|---:|---:",
    ]
    for n, K in SIZES:
        P = rng.dirichlet(np.ones(K), n).astype(np.float32)
        for A in (2, 3, 5):
            gains = Gains.reduced(rng.random((A, K)) + 0.5, 0.1 * rng.random((A, K)))
            single = DecisionRule(gains[0], np.ones(1), tuple(range(K)))
            mixture = DecisionRule(gains, rng.dirichlet(np.ones(A)), tuple(range(K)))
            for name, keys in (("rows", None), ("given", np.arange(n))):
                base, drawn = paired(lambda: single.predict(P), lambda: mixture.predict(P, keys=keys))  # noqa: B023
                lines.append(f"{n} | {K} | {A} | {name} | {1e3 * base:.1f} | {1e3 * drawn:.1f} | {drawn / base:.2f}")
                print(lines[-1], flush=True)
    write_section("prediction", "\n".join(lines))


if __name__ == "__main__":
    main()
