"""The best rules at a grid of coverages, under the name that they had before `confmax.frontier`."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from confmax.constraints import quantity, resolve
from confmax.evaluate.coverage_curves import checked_coverages
from confmax.evaluate.uncertainty import AnyMetric
from confmax.frontiers.path import frontier
from confmax.metrics import resolve as resolve_metric
from confmax.solution.result import Solution
from confmax.solution.tuning import maximize
from confmax.tables.columns import deprecated

GRID = tuple(np.linspace(0.5, 1.0, 11).round(2).tolist())


def coverage_path(
    metric: AnyMetric,
    proba: ArrayLike,
    y: ArrayLike | None = None,
    *,
    coverages: ArrayLike = GRID,
    constraints: Any = (),
    abstain: bool | str | int = True,
    calibration: Any = "auto",
    **settings: Any,
) -> tuple[Solution, ...]:
    """Return the best rules that decide at least given shares of the rows.

    .. deprecated:: 0.1
        Use `confmax.frontier` with ``"coverage >="``.

    Parameters
    ----------
    metric : str, Metric or callable
        A metric of the rows that are decided, as for `maximize`.
    proba : array-like (n, K)
        Raw class probabilities of the tuning rows.
    y : array-like (n,) or None
        True classes.
    coverages : array-like (S,)
        The floors on the coverage, in (0, 1]; by default .5, .55, ..., 1.
    constraints : str, Constraint or a sequence of these
        Further limits, as for `maximize`, that every rule keeps.
    abstain : True, str or int
        The name of abstaining, as for `maximize`.
    calibration : str, Calibration, Calibrator or None
        As for `maximize`. What is fitted for the first rule serves all of them.
    **settings
        Further keywords of `maximize`.

    Returns
    -------
    tuple of Solution
        From the highest coverage to the lowest. Where no rule keeps the limits and decides so many rows, there is none.
        The rule at a coverage of 1 cannot abstain: it decides new rows, too, whatever they are.

    Raises
    ------
    ValueError
        For bad input.
    confmax.Infeasible
        If no rule keeps the limits at the lowest coverage.

    Examples
    --------
    >>> import confmax, warnings
    >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]] * 25, [0, 0, 1, 1] * 25
    >>> with warnings.catch_warnings(action="ignore"):
    ...     path = confmax.coverage_path("accuracy", P, y, coverages=[0.75, 1.0], confusion="model")
    >>> [round(one.value, 3) for one in path]
    [0.75, 0.8]
    """
    deprecated("coverage_path", "confmax.frontier(metric, 'coverage >=', ..., abstain=True).solutions")
    if abstain is False or abstain is None:
        raise ValueError("a path of coverages has rules that abstain; pass abstain=True or a name")
    chosen = resolve_metric(metric)
    if chosen.gain is not None or chosen.formula.is_coverage:
        raise ValueError(f"{chosen!r} speaks of all rows; take a metric of what is decided, such as accuracy")
    levels = checked_coverages(coverages)
    arguments = {"abstain": abstain, "calibration": calibration, **settings}
    if len(levels) == 1:
        # a frontier has two levels at least
        limits = [*resolve(constraints), quantity("coverage") >= float(levels[0])]
        return (cast(Solution, maximize(chosen, proba, y, constraints=limits, **arguments)),)
    arguments = {"tol": 1e-6, **arguments}
    found = frontier(chosen, "coverage >=", proba, y, levels=levels, constraints=constraints, **arguments)
    return cast("tuple[Solution, ...]", found.solutions[::-1])
