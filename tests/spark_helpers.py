"""Data frames of Spark that hold given rows in given partitions."""

import itertools

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")


def frame_of(spark, columns, *, at=()):
    """Return a frame of columns by name whose partitions end before the rows ``at``, in order."""
    table = pa.table(columns)
    edges = [0, *at, len(table)]
    parts = [table.slice(low, high - low) for low, high in itertools.pairwise(edges)]
    schema = spark.createDataFrame(table.slice(0, 1)).schema

    def place(batches):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from parts[number].combine_chunks().to_batches()

    frame = spark.range(0, len(parts), 1, len(parts)).mapInArrow(place, schema).cache()
    frame.count()  # Python is done with it: a frame that is read in part only costs a new interpreter
    return frame


def columns_of(P, y=None, w=None, *, form="array", names=None):
    """Return probabilities in one of the forms in which frames hold them, labels and weights."""
    if form == "array":
        kind = pa.float32() if P.dtype == np.float32 else pa.float64()
        flat = pa.array(np.ascontiguousarray(P).reshape(-1), kind)
        found = {"probability": pa.ListArray.from_arrays(np.arange(0, P.size + 1, P.shape[1], dtype=np.int32), flat)}
    else:
        found = {name: P[:, k] for k, name in enumerate(names or [f"p{k}" for k in range(P.shape[1])])}
    found |= {} if y is None else {"label": y}
    return found | ({} if w is None else {"weight": w})
