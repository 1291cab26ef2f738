"""Rules as the thresholds of Spark ML's classifiers."""

from __future__ import annotations

import numpy as np

from confmax.confusion import Gains


def thresholds(gains: Gains, *, calibrated: bool, cut: float | None) -> list[float]:
    """Return t (K,) such that ``argmax p_k / t_k`` decides like the gains, the largest t one.

    ``cut`` is the rule's threshold on the raw probability of the second of two classes, if it has one.
    """
    weights_only = gains.full is None and not gains.power and not gains.has_further and not calibrated
    a, b = (part[0] for part in gains.coefficients()) if weights_only else (np.zeros(0), np.zeros(0))
    # weights alone are thresholds already; a cut serves two classes with offsets, full gains or a calibration
    if cut is not None and 0 < cut < 1 and not (weights_only and b[0] == b[1]):
        largest = max(cut, 1.0 - cut)
        return [(1.0 - cut) / largest, cut / largest]
    for refused, what in (
        (len(gains) > 1, "that decides at random"),
        (cut is not None and not (weights_only and b[0] == b[1]), "that always decides one class"),
        (gains.has_further, "with a decision beyond its classes, such as abstaining"),
        (calibrated, "that calibrates the probabilities first"),
        (not weights_only, "with more than one weight per class"),
        ((b != b[:1]).any(), "with offsets"),
        ((a <= 0).any(), "with weights that are not positive"),
    ):
        if refused:
            raise inexpressible(what)
    return [float(each) for each in a.min() / a]  # no rule's weights differ by more than a float holds


def inexpressible(what: str) -> ValueError:
    """Return the error of a rule that Spark's thresholds cannot express."""
    return ValueError(f"Spark's thresholds cannot express a rule {what}; use rule.transform(df)")
