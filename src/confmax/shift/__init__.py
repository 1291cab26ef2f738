"""A world whose class shares change: what unlabelled rows say of their class shares.

>>> import confmax
>>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]] * 50
>>> solution = confmax.maximize("macro_f1", P, [0, 0, 0, 1] * 50)
>>> confmax.shift.estimate_priors(P, solution).shrinkage
0.0
"""

from typing import TYPE_CHECKING

from confmax.lazily import names_of

if TYPE_CHECKING:
    from confmax.shift.detection import Detection, Promise, detect
    from confmax.shift.labels import LabelShift
    from confmax.shift.priors import PriorShift, estimate_priors

__all__ = ["Detection", "LabelShift", "PriorShift", "Promise", "detect", "estimate_priors"]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "detection": "Detection Promise detect",
        "labels": "LabelShift",
        "priors": "PriorShift estimate_priors",
    },
)
