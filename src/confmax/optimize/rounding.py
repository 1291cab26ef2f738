"""The numbers that several solvers share: what counts as zero, and how long a method iterates that converges.

A double has 53 binary or nearly 16 decimal digits, and a sum or a system of equations loses some of them. A number that
is meant to be zero is compared with what may be left of it: by a sum (`NEGLIGIBLE`), by the solution of a system
(`SINGULAR`), by a master (`LEFT_OVER`), or by a search that moves prices (`BINDS`).
"""

from __future__ import annotations

import numpy as np

TINIEST = float(np.finfo(np.float64).tiny)  # in the place of a zero that something is divided by
NEGLIGIBLE = 1e-12  # what sums leave of a weight, a price or a difference, relative to the largest
DIGITS = 12  # of values or statistics that are the same: those above `NEGLIGIBLE`
SINGULAR = 1e-13  # what systems of equations leave of a curvature, a residual or a price, relative to the largest
LEFT_OVER = 1e-9  # what masters leave of a weight, a slack, a price or a recall
BINDS = 1e-6  # a smaller price, relative to the largest, or a larger slack belongs to a limit that does not bind
# of a rule in a draw: macro precision rewards deciding a class with a probability that vanishes
LEAST_WEIGHT = 1e-6
DEAREST = 1e6  # a price, or slope, relative to others: of a larger one nothing is left but rounding
NEWTON_STEPS = 60  # of methods that converge in about 20
HALVINGS = 60  # of an interval: more than a double has digits
