"""The value of rules on labelled rows, and how certain it is."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from confmax.evaluate.scores import Difference, Estimate, Score

if TYPE_CHECKING:
    from confmax.evaluate.uncertainty import Decided, check_bootstrap, compare, doubts, plain_rules, score

__all__ = ["Decided", "Difference", "Estimate", "Score", "check_bootstrap", "compare", "doubts", "plain_rules", "score"]


def __getattr__(name: str) -> Any:
    # tuning reads protocols of this package, and does not wait for the bootstrap's sparse matrices
    if name not in __all__:
        raise AttributeError(f"module 'confmax.evaluate' has no attribute {name!r}")
    return getattr(import_module("confmax.evaluate.uncertainty"), name)
