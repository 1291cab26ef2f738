"""Tables of probabilities, checked once at this boundary: arrays, sparse matrices, tensors, files, Dask and Spark."""

# kinds enter the registry in this order: what is registered later is recognised first, and arrays are all the rest
import confmax.tables.array.kind
import confmax.tables.partitioned
import confmax.tables.sparse
import confmax.tables.tensor  # noqa: F401
from confmax.tables.kinds import (
    apply_calibrator,
    checked_probabilities,
    decide,
    decision_probabilities,
    given_hashes,
    here,
    host_array,
    make_table,
    named,
    predict_index,
    refuse_elsewhere,
    scaled,
)
from confmax.tables.memory import TransferredDecisions, refuse_too_few_classes
from confmax.tables.partitioned.opening import open_table
from confmax.tables.partitioned.table import distinct_labels
from confmax.tables.table import Calibrator, MemoryTable, Oracle, Table

__all__ = [
    "Calibrator",
    "MemoryTable",
    "Oracle",
    "Table",
    "TransferredDecisions",
    "apply_calibrator",
    "checked_probabilities",
    "decide",
    "decision_probabilities",
    "distinct_labels",
    "given_hashes",
    "here",
    "host_array",
    "make_table",
    "named",
    "open_table",
    "predict_index",
    "refuse_elsewhere",
    "refuse_too_few_classes",
    "scaled",
]
