"""Tune on a Dask array whose blocks stay on the workers, and make its decisions lazily.

    python examples/dask_cluster.py [ROWS]

This starts a small cluster of two processes on this machine. To use your own cluster, pass its address to `Client`.
"""

import sys

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster

import confmax

CLASSES, BLOCK = 4, 50_000


def block_of_rows(block_info=None):
    """Return generated probabilities, with the true classes in the last column, for one block."""
    (low, high), _ = block_info[None]["array-location"]
    rng = np.random.default_rng(low)
    scores = np.log([0.7, 0.2, 0.07, 0.03]) + 1.3 * rng.standard_normal((high - low, CLASSES))
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    label = (proba.cumsum(axis=1) > rng.random((high - low, 1))).argmax(axis=1)
    return np.column_stack([proba, label])


def main(rows):
    """Make a table on the workers, tune, decide."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        blocks = da.core.normalize_chunks((BLOCK, CLASSES + 1), shape=(rows, CLASSES + 1))
        table = da.map_blocks(block_of_rows, chunks=blocks, dtype=float)
        proba, label = table[:, :CLASSES], table[:, CLASSES].astype(int)

        solution = confmax.maximize("g_mean", proba, label)
        print(solution)

        decisions = solution.predict(proba)  # lazy, one block at a time
        print(da.bincount(decisions, minlength=CLASSES).compute())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400_000)
