"""The tables that all calls are on, and the places where their rows may stand."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import confmax.tables
from benchmarks.harness import Data

PARTS = 4  # of a table in parts
SMALL = 25  # rows of a sample that must not hold all rows
LEAST = 0.02  # probabilities that a sparse table holds
_SIZES = ("SAMPLE_CELLS", "SAMPLE_CELLS_UNLABELLED", "SAMPLE_ROWS", "MOST_ROWS", "ROWS_PER_CLASS")


def drawn_classes() -> list[Data]:
    """Return tables of two, three and eight classes whose models are too sure."""
    found = []
    for K, n in ((2, 400), (3, 600), (8, 400)):
        rng = np.random.default_rng(K)
        P = rng.dirichlet(np.linspace(1.5, 0.3, K), 2 * n)
        y = (P.cumsum(axis=1) > rng.random((2 * n, 1))).argmax(axis=1)
        P = P**1.5 / (P**1.5).sum(axis=1, keepdims=True)
        found.append(Data(f"drawn{K}", P[:n], y[:n], P[n:], y[n:]))
    return found


def drawn_labels() -> list[Data]:
    """Return tables of four labels, and of twelve of which some are rare, and whose probabilities have ties."""
    found = []
    for L, n, rarest, digits in ((4, 400, 0.15, 12), (12, 600, 0.01, 2)):
        rng = np.random.default_rng(L)
        Y = rng.random((2 * n, L)) < np.geomspace(0.45, rarest, L)
        P = np.clip(0.6 * Y.mean(axis=0) + 0.4 * Y * rng.random(Y.shape) + 0.3 * rng.random(Y.shape) ** 2, 0.0, 1.0)
        P, Y = P.round(digits), Y.astype(int)
        found.append(Data(f"labels{L}", P[:n], Y[:n], P[n:], Y[n:]))
    return found


def weights(n: int, seed: int = 0) -> np.ndarray:
    """Return weights of rows, of which some are zero."""
    return np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], n)


def groups(data: Data, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups of the rows that tune, and of new ones."""
    rng = np.random.default_rng(seed)
    return tuple(rng.choice(["men", "women"], len(P), p=[0.6, 0.4]) for P in (data.P, data.Q))


def names(K: int) -> list[str]:
    """Return names of classes and labels, by which all places know them."""
    return [f"c{k}" for k in range(K)]


def truth(y: np.ndarray) -> np.ndarray | list[list[str]]:
    """Return the names of true classes, or of the labels of every row."""
    known = np.array(names(y.shape[1] if y.ndim == 2 else int(y.max()) + 1))
    return [known[row > 0].tolist() for row in y] if y.ndim == 2 else known[y]


def placed(
    place: str, data: Data, folder: Path, *, labelled: bool = True, group: Sequence[Any] | None = None
) -> tuple[Any, Any, dict[str, Any]]:
    """Return probabilities, truth and further arguments of `confmax.maximize`, of rows that stand in a ``place``.

    In "files" they have a column of groups where ``group`` is given; "stream" is a function of parts.
    """
    P, y, classes = data.P, data.y if labelled else None, {"classes": names(data.K)}
    if place == "files":
        return files(data, folder, labelled, group), None, {}
    if place == "stream":
        parts = np.array_split(np.arange(len(P)), PARTS)

        def chunks() -> Iterator[Any]:
            for part in parts:
                yield (P[part], data.y[part]) if labelled else P[part]

        return chunks, None, classes
    if place == "sparse":
        kept = np.where(np.asarray(P) >= LEAST, P, 0.0)
        P = csr_array(kept if data.y.ndim == 2 else kept / kept.sum(axis=1, keepdims=True))
    elif place == "tensor":
        import torch

        P = torch.from_numpy(np.array(P))
    elif place == "float32":
        P = np.asarray(P).astype(np.float32)
    elif place == "frame":
        import pandas as pd

        P = pd.DataFrame(np.asarray(P), columns=names(data.K))
        classes = {}
        y = None if y is None else truth(y)
    else:
        assert place == "array", place
    by_name = y is not None and data.y.ndim == 1 and place != "frame"
    return P, truth(y) if by_name else y, {**classes, **({} if group is None else {"group": group})}


def files(data: Data, folder: Path, labelled: bool = True, group: Sequence[Any] | None = None) -> Any:
    """Return the rows of a table as Parquet files that are read in parts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = folder / data.stem
    if not where.exists():
        where.mkdir()
        columns = {name: np.asarray(data.P)[:, k] for k, name in enumerate(names(data.K))}
        table = pa.table({**columns, "truth": truth(data.y), "group": groups(data)[0]})
        for number, part in enumerate(np.array_split(np.arange(len(data.P)), PARTS)):
            pq.write_table(table.take(part), where / f"{number}.parquet")
    named = {**({"label": "truth"} if labelled else {}), **({} if group is None else {"group": "group"})}
    return confmax.open_table(f"{where}/*.parquet", columns=names(data.K), **named)


@contextmanager
def small_samples() -> Iterator[None]:
    """Let the sample of a table in parts hold so few rows that it is not all of them.

    Raises
    ------
    AttributeError
        If no module of tables has such a number: then say here where the size of samples stands.
    """
    found = []
    for known in pkgutil.walk_packages(confmax.tables.__path__, "confmax.tables."):
        if not any(word in known.name for word in ("torch", "tensor", "spark", "dask")):
            module = importlib.import_module(known.name)
            if hasattr(module, "SAMPLE_ROWS"):
                found += [(module, name, getattr(module, name)) for name in _SIZES if hasattr(module, name)]
    if not found:
        raise AttributeError("no module of confmax.tables has SAMPLE_ROWS")
    try:
        for module, name, _ in found:
            setattr(module, name, SMALL)
        yield
    finally:
        for module, name, value in found:
            setattr(module, name, value)
