"""The same rows in every form in which they may stream."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains
from tests.parts_helpers import labelled

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")

NAMES = ("bad", "good", "ugly")
NAMED = {"label": "truth", "weight": "w"}
P, Y, W = labelled(1500, 3)
TRUTH = np.array(NAMES)[Y]
GROUP = np.array(["f", "m"])[np.arange(1500) % 2]
COLUMNS = {**{name: P[:, k] for k, name in enumerate(NAMES)}, "truth": TRUTH, "w": W, "id": np.arange(1500)}
TABLE = pa.table(COLUMNS)
GAINS = Gains.reduced(np.random.default_rng(0).random((2, 3)) + 0.5)
SETTINGS = {"confusion": "labels", "calibration": None}
RULE = confmax.DecisionRule.from_weights([1.0, 1.0, 1.0], classes=NAMES)


def slices(rows=140):
    return [slice(low, low + rows) for low in range(0, len(P), rows)]


def arrays():
    for rows in slices():
        yield P[rows], TRUTH[rows], W[rows]


def dicts():
    for rows in slices(333):
        yield {"probability": P[rows], "truth": TRUTH[rows].tolist(), "w": W[rows]}


def frames(library):
    return lambda: (library(TABLE.slice(rows.start, 60)) for rows in slices(60))


def in_file(write, name):
    write(TABLE, name)
    return name


def compressed(table, name):
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    Path(name).write_bytes(gzip.compress(sink.getvalue()))


def tabs(table, name):
    csv.write_csv(table, name, csv.WriteOptions(delimiter="\t"))


def pandas(table=TABLE):
    pytest.importorskip("pandas")
    return table.to_pandas()


def categories():
    return pandas().astype({"truth": "category"}).set_index("id")


def polars(table=TABLE):
    return pytest.importorskip("polars").from_arrow(table)


def lazy(frame=None):
    frame = (polars() if frame is None else frame).lazy()
    if not hasattr(frame, "collect_batches"):
        pytest.skip("this Polars gives no batches")
    return frame


def relation(table=TABLE):
    return pytest.importorskip("duckdb").from_arrow(table)


def dataset():
    pq.write_table(TABLE, "d.parquet", row_group_size=70)
    return ds.dataset("d.parquet")


class Capsule:
    """What can be read again as Arrow batches, and is no table."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.Table.from_batches(TABLE.to_batches(37)).__arrow_c_stream__(requested_schema)


WAYS = {
    "one batch": lambda: TABLE,
    "tiny batches": lambda: pa.Table.from_batches(TABLE.to_batches(7)),
    "capsule": Capsule,
    "pandas": pandas,
    "categories": categories,
    "polars": polars,
    "lazy": lazy,
    "relation": relation,
    "dataset": dataset,
    "dataset in memory": lambda: ds.dataset(TABLE),
    "csv": lambda: in_file(csv.write_csv, "t.csv"),
    "csv.gz": lambda: in_file(compressed, "t.csv.gz"),
    "tsv": lambda: in_file(tabs, "t.TSV"),
    "feather": lambda: in_file(feather.write_feather, "t.feather"),
    "arrow": lambda: in_file(feather.write_feather, "t.arrow"),
    "dicts": lambda: dicts,
    "pandas frames": lambda: frames(pandas),
    "polars frames": lambda: frames(polars),
    "readers": lambda: lambda: TABLE.to_reader(max_chunksize=11),
    "arrays": lambda: arrays,
}


def opened(way, **more):
    """Return a way to have the rows, opened; arrays bring their labels and weights without names."""
    return confmax.open_table(WAYS[way](), **({} if way == "arrays" else NAMED), **more)
