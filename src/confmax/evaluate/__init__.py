"""The value of rules on labelled rows, and how certain it is."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from confmax.evaluate.scores import Difference, Estimate, Score

if TYPE_CHECKING:
    from confmax.evaluate.coverage_curves import RiskCoverage, risk_coverage
    from confmax.evaluate.uncertainty import Decided, check_bootstrap, compare, doubts, plain_rules, score

__all__ = [
    "Decided",
    "Difference",
    "Estimate",
    "RiskCoverage",
    "Score",
    "check_bootstrap",
    "compare",
    "doubts",
    "plain_rules",
    "risk_coverage",
    "score",
]


def __getattr__(name: str) -> Any:
    # tuning reads protocols of this package, and does not wait for the bootstrap's sparse matrices
    if name not in __all__:
        raise AttributeError(f"module 'confmax.evaluate' has no attribute {name!r}")
    file = "coverage_curves" if name in ("RiskCoverage", "risk_coverage") else "uncertainty"
    return getattr(import_module(f"confmax.evaluate.{file}"), name)
