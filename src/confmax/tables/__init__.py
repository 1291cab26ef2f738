"""Tables of probabilities, checked once at this boundary: arrays, sparse matrices, tensors, files, Dask and Spark."""

from confmax.tables.deciding import decide, decide_given
from confmax.tables.kinds import is_dask, is_source, is_spark, is_tensor, on_host
from confmax.tables.opening import open_table
from confmax.tables.partitioned.table import distinct_labels
from confmax.tables.protocol import Oracle
from confmax.tables.sampling import rows_of, sampled
from confmax.tables.table import (
    Calibrator,
    Table,
    apply_calibrator,
    checked_probabilities,
    given_hashes,
    is_sparse,
    make_table,
    refuse_too_few_classes,
)

__all__ = [
    "Calibrator",
    "Oracle",
    "Table",
    "apply_calibrator",
    "checked_probabilities",
    "decide",
    "decide_given",
    "distinct_labels",
    "given_hashes",
    "is_dask",
    "is_source",
    "is_spark",
    "is_sparse",
    "is_tensor",
    "make_table",
    "on_host",
    "open_table",
    "refuse_too_few_classes",
    "rows_of",
    "sampled",
]
