"""The best attainable value of one quantity at every level of a limit on another."""

from confmax.frontiers.coverage import coverage_path
from confmax.frontiers.path import frontier
from confmax.frontiers.result import Curve, Frontier

__all__ = ["Curve", "Frontier", "coverage_path", "frontier"]
