"""Confusion matrices by their statistics, the gains that are maximised over them, and blocks of them."""

from confmax.confusion.blocks import Blocks, Labels, Layout
from confmax.confusion.statistics import (
    ABSENT,
    BELOW,
    MAX_MATRIX_CLASSES,
    ROUNDING,
    UNIT,
    Array,
    Confusion,
    CostTable,
    Gains,
    difference,
    given_matrix,
    sum_of_others,
)

__all__ = [
    "ABSENT",
    "BELOW",
    "MAX_MATRIX_CLASSES",
    "ROUNDING",
    "UNIT",
    "Array",
    "Blocks",
    "Confusion",
    "CostTable",
    "Gains",
    "Labels",
    "Layout",
    "difference",
    "given_matrix",
    "sum_of_others",
]
