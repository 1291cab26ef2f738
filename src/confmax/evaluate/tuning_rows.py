"""Whether a table holds the rows that a solution was found on."""

from __future__ import annotations

import numpy as np

from confmax.evaluate.protocols import Tuned
from confmax.oracle import make_oracle
from confmax.tables import Table

EQUAL = 1e-9  # statistics of the same rows agree better than this


def tuned_on(solution: Tuned, table: Table) -> bool:
    """Return whether a table holds the rows that a solution was found on: the statistics of its rule are the same."""
    # a blend or a label estimate cannot be computed again without labels
    if not table.has_labels and solution.mode != "model":
        return False
    calibration = solution.calibration
    calibrated = table if calibration is None else table.calibrated(calibration.calibrator)
    # the oracle of the tuning, on these rows: equal rows give equal statistics
    share = solution.model_share if solution.mode == "blend" else None
    oracle = make_oracle(calibrated, solution.mode, model_share=share)
    here, there = solution.rule.evaluate(oracle), solution.statistics
    return all(
        one.shape == other.shape and np.allclose(one, other, rtol=0.0, atol=EQUAL)
        for one, other in (
            (here.rows, there.rows),
            (here.diagonal, there.diagonal),
            (here.columns, there.columns),
        )
    )
