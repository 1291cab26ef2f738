"""Rules, and rows in several files that they are applied to."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains
from confmax.tables.decisions import decisions_of
from tests.parts_helpers import labelled

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ("low", "middle", "high")
N = 600
P = labelled(N, 3, dtype=np.float32)[0]
KEYS = [f"case {k % 550}" for k in range(N)]
GROUPS = np.array(["men", "women"])[np.arange(N) % 7 // 4]
PLAIN = confmax.DecisionRule.from_weights([1.0, 1.4, 2.0], classes=NAMES)
DRAWS = confmax.DecisionRule(Gains.reduced([[1.0, 1.0, 1.0], [1.0, 3.0, 5.0]]), np.array([0.3, 0.7]), NAMES, seed=3)
SCALE = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]])
GROUPED = confmax.DecisionRule(Gains.reduced(SCALE.reshape(1, -1)), np.ones(1), NAMES, groups=("men", "women"))
ABSTAINS = confmax.DecisionRule(
    Gains.from_matrix(np.hstack([np.eye(3), np.full((3, 1), 0.6)])[None]),
    np.ones(1),
    (*NAMES, "ask"),
    abstain="ask",
)
LABELS = replace(confmax.LabelRule.from_thresholds([0.3, 0.4, 0.5], classes=NAMES), decisions=decisions_of("any"))


def written(folder="scores", files=3, *, size=70, bad=None, codec="zstd", proba=P):
    """Write the rows to several files, with columns of many types beside the probabilities in another order."""
    Path(folder).mkdir()
    Q = proba.copy()
    if bad is not None:
        Q[bad] = np.nan
    table = pa.table(
        {
            "case": KEYS,
            "high": Q[:, 2],
            "low": Q[:, 0],
            "middle": Q[:, 1],
            "group": pa.array(GROUPS.tolist()).dictionary_encode(),
            "when": pa.array(range(N), pa.timestamp("us")),
            "tags": [["a"] * (k % 3) for k in range(N)],
            "amount": pa.array([None if k % 5 == 0 else k for k in range(N)], pa.int16()),
        }
    ).replace_schema_metadata({"made": "by a test"})
    edges = np.linspace(0, N, files + 1).astype(int)
    for k, (low, high) in enumerate(pairwise(edges)):
        pq.write_table(table.slice(low, high - low), f"{folder}/{k}.parquet", row_group_size=size, compression=codec)
    return table


def opened(folder="scores", **more):
    return confmax.open_table(folder, columns=("low", "middle", "high"), **more)


def names(folder="."):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


def decided(path, name="decision"):
    return pq.read_table(path)[name].to_pylist()


def contents():
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}
