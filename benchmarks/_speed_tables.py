"""Tables for the speed benchmarks: posteriors of a Gaussian model, as a good and as a mediocre classifier give them.

Class k has prior ``imbalance ** (-k / (K - 1))``, up to scale, and features ``z ~ N(signal e_k, 1)`` in K dimensions;
its posterior is ``softmax(log prior + signal z)``, exactly. A large signal separates the classes, a small one lets them
overlap. A reported table may be mildly wrong: logits sharpened by 1.25 and moved by a fixed N(0, .3) per class. The
softmax is computed in float32, as a network does, so that row sums are off by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SEED = 20
CELLS = 1 << 22  # per chunk of generated rows
SHARPER, MOVED = 1.25, 0.3


@dataclass(frozen=True)
class Recipe:
    """How a table (n, K) is drawn."""

    n: int
    K: int
    signal: float = 1.5
    imbalance: float = 100.0
    wrong: bool = False
    seed: int = SEED

    @property
    def size(self):
        return f"{short(self.n)} x {self.K}"

    def priors(self):
        weights = self.imbalance ** (-np.arange(self.K) / (self.K - 1))
        return weights / weights.sum()

    def draw(self, part=0, n=None):
        """Return probabilities (n, K) float32 and labels (n,) int64; parts share the model, not the rows."""
        n = self.n if n is None else n
        rng, priors = np.random.default_rng([self.seed, part, self.n, self.K]), self.priors()
        moved = (
            np.random.default_rng([self.seed, self.K]).normal(0.0, MOVED, self.K) if self.wrong else np.zeros(self.K)
        )
        y = rng.choice(self.K, n, p=priors)
        P, step = np.empty((n, self.K), np.float32), max(1, CELLS // self.K)
        for lo in range(0, n, step):
            P[lo : lo + step] = self._rows(y[lo : lo + step], rng, moved, np.log(priors))
        return P, y

    def _rows(self, y, rng, moved, log_priors):
        z = rng.standard_normal((len(y), self.K), dtype=np.float32)
        z *= np.float32(self.signal)
        z[np.arange(len(y)), y] += np.float32(self.signal**2)
        z += log_priors.astype(np.float32)
        if self.wrong:
            z *= np.float32(SHARPER)
            z += moved.astype(np.float32)
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        return z


def short(n):
    """Return a count as people write it: 1M, 200k."""
    if n >= 1_000_000 and n % 1_000_000 == 0:
        return f"{n // 1_000_000}M"
    return f"{n // 1000}k" if n >= 1000 and n % 1000 == 0 else str(n)


def tiny(K):
    """Return a small table of K classes, on which calls compile what they need."""
    y = np.arange(40 * K) % K
    P = np.random.default_rng(0).dirichlet(np.ones(K), len(y)).astype(np.float32) / 2
    P[np.arange(len(y)), y] += 0.5
    return P, y
