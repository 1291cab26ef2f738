"""Every kind of table: functions that lay the same rows out as a user passes them, in memory, in files and in parts."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import confmax
from tests.parts_helpers import cut, labelled

N, NAMES, AT = 600, ("a", "b", "c"), (170, 171, 400)


def rows_of_all_kinds(n=N, seed=0):
    """Return rows (n, 3) in 4096ths, which float32 holds, some of them zero, labels by name, weights and groups."""
    P, y, weight = labelled(n, 3, seed=seed, sharp=0.7)
    rng = np.random.default_rng(seed)
    P = rng.multinomial(4096, P) / 4096.0
    return P, np.array(NAMES)[y], weight, np.where(rng.random(n) < 0.2 + 0.6 * P[:, 0], "men", "women")


def columns(P, **beside):
    return dict(zip(NAMES, P.T, strict=True)) | {name: value for name, value in beside.items() if value is not None}


def parquet(P, y, weight, group, folder):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = Path(folder) / "rows.parquet"
    pq.write_table(pa.table(columns(P, y=y, weight=weight, group=group)), path, row_group_size=170)
    given = {"label": y, "weight": weight, "group": group}
    named = {key: {"label": "y"}.get(key, key) for key, value in given.items() if value is not None}
    return confmax.open_table(path, columns=list(NAMES), **named)


def mapped(P, y, weight, group, folder):
    given = {"label": y, "weight": weight, "group": group}
    paths = {}
    for name, array in ({"proba": P} | given).items():
        if array is not None:
            paths[name] = Path(folder) / f"{name}.npy"
            np.save(paths[name], array)
    return confmax.open_table(paths.pop("proba"), **paths)


def dask_array(P, *_):
    pytest.importorskip("dask.array")
    from tests.dask_helpers import rows

    return rows(P, np.diff([0, *AT, len(P)]))


def dask_frame(P, *_):
    return pytest.importorskip("dask.dataframe").from_pandas(frame(P), npartitions=3)


def frame(P, *_):
    return pytest.importorskip("pandas").DataFrame(columns(P))


def polars_frame(P, *_):
    return pytest.importorskip("polars").DataFrame(columns(P))


def tensor(P, *_):
    return pytest.importorskip("torch").as_tensor(P)


IN_MEMORY = {
    "array": lambda P, *_: P,
    "float32": lambda P, *_: P.astype(np.float32),
    "pandas": frame,
    "polars": polars_frame,
    "sparse": lambda P, *_: scipy.sparse.csr_array(P),
    "tensor": tensor,
    "float32 tensor": lambda P, *_: tensor(P.astype(np.float32)),
}
LAZY = {"Dask array": dask_array, "Dask frame": dask_frame}
# what brings its labels, weights and groups
OPENED = {
    "parts": lambda P, y, weight, group, _: cut(P, y, weight, at=AT, names=NAMES, group=group),
    "Parquet": parquet,
    "mapped array": mapped,
}
KINDS = IN_MEMORY | LAZY | OPENED
IN_PARTS = LAZY | OPENED
every_kind = pytest.mark.parametrize("kind", KINDS)


def laid_out(kind, P, y=None, weight=None, group=None, folder=None):
    """Return a table of a kind, and what is passed beside it as `maximize` names it."""
    table = KINDS[kind](P, y, weight, group, folder)
    given = {} if kind in OPENED else {"y": y, "sample_weight": weight, "group": group}
    return table, {name: value for name, value in given.items() if value is not None}


def in_memory(found):
    """Return decisions of any kind as an array."""
    return np.asarray(found.compute() if hasattr(found, "compute") else found)
