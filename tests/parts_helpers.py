"""A table in parts that are arrays in this process: what engines do, without an engine."""

import itertools
import pickle
from dataclasses import dataclass, replace

import numpy as np

from confmax.confusion import Gains
from confmax.tables.partitioned.parts import RawPart

GAINS = {
    "weights": lambda K, rng: Gains.reduced(rng.random((2, K)) + 0.5),
    "offsets": lambda K, rng: Gains.reduced(rng.random((3, K)), 0.2 * rng.random((3, K))),
    "full": lambda K, rng: Gains.from_matrix(rng.normal(size=(2, K, K + 1))),
    "distance": lambda K, rng: Gains.reduced(-rng.random((1, K)), power=2),
}


@dataclass(frozen=True, eq=False)
class ListSource:
    """Parts from cutting arrays; whatever is run on them is pickled, as engines do."""

    parts: tuple
    n_classes: int
    has_labels: bool
    names: tuple | None = None
    holds: bool = False
    steps: tuple = ()
    has_groups: bool = False
    is_confmax_source = True

    @property
    def n_rows(self):
        return sum(len(part.proba) for part in self.parts)

    def with_columns(self, order):
        moved = [replace(part, proba=part.proba[:, list(order)]) for part in self.parts]
        return replace(self, parts=tuple(moved))

    def kept(self, step):
        return replace(self, steps=(*self.steps, step))

    def run(self, work, *, labels_only=False):
        work, steps = pickle.loads(pickle.dumps((work, self.steps)))
        for part in self.parts:
            found = replace(part, proba=None, weight=None) if labels_only else part
            for step in steps:
                found = step(found)
            yield pickle.loads(pickle.dumps(work(found)))


def cut(P, y=None, weight=None, *, at, names=None, group=None):
    """Return a table cut before the rows ``at``; equal or outer places make empty parts."""
    edges = [0, *at, len(P)]
    parts = []
    for k, (low, high) in enumerate(itertools.pairwise(edges)):
        labels, weights, groups = (None if each is None else each[low:high] for each in (y, weight, group))
        parts.append(RawPart(P[low:high], labels, weights, f"part {k}", groups))
    return ListSource(tuple(parts), P.shape[1], y is not None, names, has_groups=group is not None)


def labelled(n, K, *, seed=0, dtype=np.float64, sharp=1.0):
    """Return probabilities (n, K), labels that they are wrong about by a power, and weights."""
    rng = np.random.default_rng([seed, n, K])
    P = rng.dirichlet(np.linspace(1.0, 0.2, K), n)
    true = P**sharp / (P**sharp).sum(axis=1, keepdims=True)
    y = (true.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return P.astype(dtype), y, rng.integers(0, 4, n) / 2.0
