"""Tables of probabilities, checked once at this boundary: arrays, sparse matrices, tensors, files, Dask and Spark."""

from typing import TYPE_CHECKING

# kinds enter the registry in this order: what is registered later is recognised first, and arrays are all the rest
import confmax.tables.array.kind
import confmax.tables.partitioned
import confmax.tables.sparse
import confmax.tables.tensor  # noqa: F401
from confmax.lazily import names_of
from confmax.tables.kinds import apply_calibrator, decide, given_hashes, here, host_array, make_table, refuse_elsewhere
from confmax.tables.memory import checked_probabilities, refuse_too_few_classes
from confmax.tables.part import Part
from confmax.tables.storage import Calibrator
from confmax.tables.table import Oracle, Table

if TYPE_CHECKING:
    from confmax.tables.partitioned.opening import open_table

__all__ = [
    "Calibrator",
    "Oracle",
    "Part",
    "Table",
    "apply_calibrator",
    "checked_probabilities",
    "decide",
    "given_hashes",
    "here",
    "host_array",
    "make_table",
    "open_table",
    "refuse_elsewhere",
    "refuse_too_few_classes",
]

# rows in memory do not wait for the code of files
__getattr__, __dir__ = names_of(__name__, {"partitioned.opening": "open_table"})
