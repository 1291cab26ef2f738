"""The best attainable value of one quantity at every level of a limit on another."""

from confmax.frontiers.path import frontier
from confmax.frontiers.result import Frontier

__all__ = ["Frontier", "frontier"]
