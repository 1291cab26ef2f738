"""What the tests on Dask share: a table in uneven partitions, and a calibration that kills the process it runs in."""

import multiprocessing
import os
import signal
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from confmax.confusion import Gains

dask = pytest.importorskip("dask")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

LENGTHS = (700, 0, 1, 1299, 0, 1000)  # empty partitions, and one of a single row


def labelled(n=3000, K=4, seed=0, dtype=np.float64):
    """Return probabilities (n, K), labels drawn from them and weights; the first rows are of two classes only."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(0.4, 1.6, K), n)
    y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    y[: n // 4] = np.minimum(y[: n // 4], 1)
    P = P.astype(dtype)
    return P / P.sum(axis=1, keepdims=True), y, rng.random(n)


def rows(array, lengths=LENGTHS):
    """Return an array (n, ...) as a Dask array with these chunks of rows."""
    chunks = (tuple(lengths), *((size,) for size in array.shape[1:]))
    edges = np.cumsum([0, *lengths])
    blocks = [da.from_array(array[low:high], chunks=-1) for low, high in pairwise(edges)]
    return da.concatenate(blocks).rechunk(chunks)


def frame_of(P, y, weight, lengths=LENGTHS, names="abcd"):
    """Return a Dask DataFrame with columns of probabilities, label (as names) and weight, in uneven partitions."""
    frame = pd.DataFrame(P, columns=list(names))
    frame["truth"], frame["w"] = np.array(list(names))[y], weight
    edges = np.cumsum([0, *lengths])
    pieces = [frame.iloc[low:high] for low, high in pairwise(edges)]
    return frame, dd.from_delayed([dask.delayed(piece) for piece in pieces], meta=frame.iloc[:0])


def all_gains(K, seed=1):
    """Return gains of every kind: weights, offsets, matrices with a further decision, distances."""
    rng = np.random.default_rng(seed)
    return {
        "weights": Gains.reduced(rng.random((3, K))),
        "offsets": Gains.reduced(rng.random((5, K)), rng.normal(size=(5, K)) / 4),
        "full": Gains(full=rng.random((2, K, K + 1))),
        "power": Gains.reduced(-rng.random((2, K)), rng.random((2, K)), power=2),
    }


@contextmanager
def workers(n, **settings):
    """Start ``n`` workers with a client."""
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0", **settings}
    with LocalCluster(n_workers=n, **settings) as cluster, Client(cluster) as client:
        yield client


class Deadly:
    """A calibration that once kills the worker it runs on, in the middle of a pass."""

    def __init__(self, flag):
        self.flag = flag

    def fit(self, proba, y, sample_weight=None):
        return self

    def transform(self, proba):
        if multiprocessing.parent_process() is not None and self.flag is not None:
            try:
                Path(self.flag).open("x").close()
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        changed = np.asarray(proba, dtype=np.float64) ** 0.8
        return changed / changed.sum(axis=1, keepdims=True)
