"""Are the draws of consecutive keys serially independent? Lags 1 to 64 of 10^6 draws, under 1000 seeds.

    python -m benchmarks.draws [SEEDS [OTHER_SEEDS]]

For every kind of key and every seed, 10^6 draws are made of keys that follow each other, and their serial correlation
at each lag is compared with zero, twice: of the draws themselves, and of the decisions of a coin with p = 1/2. A test
rejects at the level 1e-6; how many rejections chance alone would make is printed beside those that were found.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import fft, stats

from benchmarks.results import write_section
from confmax.tables import draws as _draw

N, LAGS, LEVEL = 1_000_000, 64, 1e-6
KINDS = {
    "0 ... n": np.arange(N),
    "n from 2^40": np.arange(N) + 2**40,
    "steps of 2": 2 * np.arange(N),
    "steps of 1000": 1000 * np.arange(N),
    "steps of 2^20": 2**20 * np.arange(N),
    "steps of 2^32": 2**32 * np.arange(N),
    "steps of 2^43": 2**43 * np.arange(N),
}


def serial_failures(values, lags=LAGS, level=LEVEL):
    """Return how many of the serial correlations of values (n,) at lags 1 to ``lags`` differ from zero at a level."""
    n = len(values)
    x = values - np.mean(values)
    if not x.any():
        return lags
    size = fft.next_fast_len(n + lags)
    power = np.abs(fft.rfft(x, size)) ** 2
    correlation = fft.irfft(power, size)[1 : lags + 1] / float(x @ x)
    # the sum over n - lag pairs of products of independent numbers; its mean is -1 / n
    z = (correlation + 1.0 / n) * n / np.sqrt(n - np.arange(1, lags + 1))
    return int((np.abs(z) > stats.norm.isf(level / 2)).sum())


def main(n_seeds=1000, other_seeds=50):
    """Test row numbers under ``n_seeds`` seeds and other keys under ``other_seeds``; write the section "draws"."""
    strings = _draw.given_keys([str(k) for k in range(N)], N)
    lines = ["keys | seeds | expected | rejected, draws | rejected, coin", "---|---:|---:|---:|---:"]
    kinds = {**{name: keys.astype(np.uint64) for name, keys in KINDS.items()}, "strings": strings}
    for place, (name, keys) in enumerate(kinds.items()):
        seeds, found = other_seeds if place else n_seeds, np.zeros(2, int)
        for seed in range(seeds):
            draws = _draw.uniform(seed, keys)
            found += serial_failures(draws), serial_failures(draws >= 0.5)
        lines.append(f"{name} | {seeds} | {seeds * LAGS * LEVEL:.3f} | {found[0]} | {found[1]}")
        print(lines[-1], flush=True)
    write_section(
        "draws",
        f"`python -m benchmarks.draws {n_seeds} {other_seeds}`: tests of serial correlation of {N} draws at lags 1 to "
        f"{LAGS} that reject at the level {LEVEL:g}.\n\n" + "\n".join(lines),
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
