"""Calibration: maps that make probabilities agree with labels, and how far to trust the labels themselves."""

from confmax.calibration.calibrators import Temperature, VectorScaling
from confmax.calibration.choice import Calibration, check_calibration, choose, fit, log_loss

__all__ = ["Calibration", "Temperature", "VectorScaling", "check_calibration", "choose", "fit", "log_loss"]
