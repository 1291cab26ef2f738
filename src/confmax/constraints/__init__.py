"""Constraints: quantities of the confusion matrix, and limits on them, as texts and as objects."""

from confmax.constraints.grammar import parse, resolve
from confmax.constraints.limits import Limits, bind, least_coverage
from confmax.constraints.outcomes import ConstraintOutcome, GroupValue
from confmax.constraints.quantities import (
    accuracy,
    at_least,
    at_most,
    balanced_accuracy,
    cohen_kappa,
    cost,
    coverage,
    f1,
    f_beta,
    fpr,
    jaccard,
    linear_kappa,
    min_recall,
    precision,
    quadratic_kappa,
    quantity,
    rate,
    recall,
    specificity,
)
from confmax.constraints.words import Constraint, Quantity

__all__ = [
    "Constraint",
    "ConstraintOutcome",
    "GroupValue",
    "Limits",
    "Quantity",
    "accuracy",
    "at_least",
    "at_most",
    "balanced_accuracy",
    "bind",
    "cohen_kappa",
    "cost",
    "coverage",
    "f1",
    "f_beta",
    "fpr",
    "jaccard",
    "least_coverage",
    "linear_kappa",
    "min_recall",
    "parse",
    "precision",
    "quadratic_kappa",
    "quantity",
    "rate",
    "recall",
    "resolve",
    "specificity",
]
