"""The picture of a frontier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from confmax.plotting.shared import axes_of


@dataclass(eq=False, repr=False)
class FrontierDisplay:
    """The best value of a metric at every level of a limit, and what the rules are worth on labels.

    Attributes
    ----------
    frontier : Frontier
        What `confmax.frontier` has returned.
    on : Curve or None
        What its rules are worth on other rows (`Frontier.on`); None for the labels of the rows that tuned them.

    Examples
    --------
    >>> import confmax, numpy as np
    >>> from confmax.plotting import FrontierDisplay
    >>> p = np.linspace(0.05, 0.95, 10)
    >>> found = confmax.frontier("recall[1]", "precision[1] >=", np.column_stack([1 - p, p]), levels=5)
    >>> FrontierDisplay(found).plot().ax_.get_xlabel()
    'precision[1] >='
    """

    frontier: Any
    on: Any = None

    def plot(self, ax: Any = None) -> FrontierDisplay:
        """Draw the bound, the values, those on labels with their intervals, and argmax and p/prior into axes ``ax``."""
        self.figure_, self.ax_, colours = axes_of(ax)
        of = self.frontier
        bounds = of.upper_bounds
        if np.isfinite(bounds).any():
            what = "no thresholds are above" if of.is_of_labels else "no rule is expected above"
            self.ax_.plot(of.levels, bounds, color=colours["quiet"], lw=1, label=what)
        estimate = "expected by the model" if of.solutions[0].mode == "model" else "on the estimate used"
        self.ax_.plot(of.levels, of.values, ".-", color=colours["accent"], label=f"best rule, {estimate}")
        on = of.on_labels if self.on is None else self.on
        if on is not None:
            where = "on the tuning labels" if self.on is None else "on other rows"
            order = np.argsort(on.reached, kind="stable")
            x = on.reached[order]
            self.ax_.plot(x, on.values[order], color=colours["second"], label=f"the same rules, {where}")
            self.ax_.fill_between(x, *on.intervals[order].T, color=colours["second"], alpha=0.2, lw=0)
            if on.chow is not None:
                self.ax_.plot(on.chow.reached, on.chow.values, "--", color=colours["quiet"], label="Chow's rule")
            for marker, (name, point) in zip("sD", on.marks.items(), strict=False):
                self.ax_.plot(*point, marker, color=colours["quiet"], label=f"{name}, {where}")
        if of.asked is not None:
            self.ax_.axvline(of.asked, color=colours["quiet"], ls=":", label="the limit that was asked for")
        self.ax_.set(xlabel=f"{of.quantity} {of.limit.sense}", ylabel=of.metric)
        self.ax_.legend()
        return self
