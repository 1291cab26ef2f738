"""The numbers that several solvers share: what counts as zero, and how long a method iterates that converges.

A double has 53 binary or nearly 16 decimal digits, and a sum or a system of equations loses some of them. A number that
is meant to be zero is compared with what may be left of it: by a weighted mean (`EXACT`), by a system of equations
(`SINGULAR`), by a sum (`NEGLIGIBLE`), by Newton's method (`SOLVED`), by a master (`LEFT_OVER`), by tables in float32
(`SINGLE`), or by a search that moves prices (`BINDS`).
"""

from __future__ import annotations

import numpy as np

TINIEST = float(np.finfo(np.float64).tiny)  # in the place of a zero that something is divided by
EXACT = 1e-15  # what a mean of values of size one loses
SINGULAR = 1e-13  # what systems of equations leave of a curvature, a residual or a price, relative to the largest
NEGLIGIBLE = 1e-12  # what sums leave of a weight, a price or a difference, relative to the largest
DIGITS = 12  # of values or statistics that are the same: those above `NEGLIGIBLE`
SOLVED = 1e-10  # what Newton's method leaves of an equation, a weight or a slope
LEFT_OVER = 1e-9  # what masters leave of a weight, a slack, a price or a recall
HALF_DIGITS = 1e-8  # of a number whose square counts
SINGLE = 1e-7  # by how much sums of float32 differ
BINDS = 1e-6  # a smaller price, relative to the largest, or a larger slack belongs to a limit that does not bind
LEAST_WEIGHT = 1e-6  # of a rule in a draw: macro precision rewards deciding a class with a probability that vanishes
PROGRESS = 1e-5  # of a value: searches that bound nothing end where they gain less
MOVED = 0.1  # by what part weights and prices are moved where nothing says how far
LITTLE = 1e-3  # a part of the whole that decides nothing
OF_TOL = 0.1  # part of tol that counts as nothing
DEAREST = 1e6  # a price, or slope, relative to others: of a larger one nothing is left but rounding
NEWTON_STEPS = 60  # of methods that converge in about 20
HALVINGS = 60  # of an interval: more than a double has digits
ROUNDS = 10  # of what settles in two or three
BEST = 4  # rules, or values of a coefficient, with which a search goes on
PER_PASS = 64  # gains that share a pass, where there may be many
BATCH = 1 << 17  # numbers that are worked on at once: they stay in the cache
