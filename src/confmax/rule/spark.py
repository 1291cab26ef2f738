"""Rules as the thresholds of Spark ML's classifiers."""

from __future__ import annotations

import numpy as np

from confmax.confusion import Gains


def thresholds(gains: Gains, *, calibrated: bool, cut: float | None) -> list[float]:
    """Return t (K,) such that ``argmax p_k / t_k`` decides like the gains, the largest t one.

    ``cut`` is the rule's threshold on the raw probability of the second of two classes, if it has one.

    Raises
    ------
    ValueError
        If no thresholds do.
    """
    way_out = "use rule.transform(df)"
    if len(gains) > 1:
        raise ValueError(f"Spark's thresholds cannot express a rule that decides at random; {way_out}")
    weights_only = gains.full is None and not gains.power and not gains.has_further and not calibrated
    a, b = (part[0] for part in gains.coefficients()) if weights_only else (np.zeros(0), np.zeros(0))
    if cut is not None and not (weights_only and b[0] == b[1]):
        if not 0 < cut < 1:
            raise ValueError(f"Spark's thresholds cannot express a rule that always decides one class; {way_out}")
        largest = max(cut, 1.0 - cut)
        return [(1.0 - cut) / largest, cut / largest]
    if calibrated:
        raise ValueError(f"Spark's thresholds cannot express a rule that calibrates the probabilities first; {way_out}")
    if not weights_only:
        raise ValueError(f"Spark's thresholds cannot express a rule with more than one weight per class; {way_out}")
    if (b != b[0]).any():
        raise ValueError(f"Spark's thresholds cannot express a rule with offsets; {way_out}")
    if (a <= 0).any():
        raise ValueError(f"Spark's thresholds cannot express a rule with weights that are not positive; {way_out}")
    return [float(each) for each in a.min() / a]  # no rule's weights differ by more than a float holds
