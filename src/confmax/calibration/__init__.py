"""Calibration: maps that make probabilities agree with labels, and how far to trust the labels themselves."""

from confmax.calibration.calibrators import MatrixScaling, Scaling, Temperature, VectorScaling
from confmax.calibration.choice import Calibration, check_calibration, choose, fit, log_loss

__all__ = [
    "Calibration",
    "MatrixScaling",
    "Scaling",
    "Temperature",
    "VectorScaling",
    "check_calibration",
    "choose",
    "fit",
    "log_loss",
]
