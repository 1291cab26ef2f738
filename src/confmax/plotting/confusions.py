"""What a rule changes in the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Array
from confmax.evaluate.confusion_change import ConfusionChange, goodness, limits_of
from confmax.evaluate.palette import scale
from confmax.evaluate.protocols import plain_rule
from confmax.oracle import make_oracle
from confmax.plotting.shared import OfRows, axes_of, rows_for, rows_in_words
from confmax.solution import Solution

MOST_WRITTEN = 12  # classes up to which numbers are written into a matrix


@dataclass(kw_only=True, eq=False, repr=False)
class ConfusionChangeDisplay(OfRows):
    """Confusion matrices of argmax and of a rule, and their difference; rows are true classes.

    In the difference blue is better and orange is worse: more correct decisions, or fewer mistakes, are better.

    Attributes
    ----------
    before, after : ndarray (K, M)
        Confusion matrices, fractions of all weight.
    names : list of str
        Names of the classes, then of further decisions.
    normalize : {"true", "all"}
        Whether rows sum to one, or all entries.
    rows : str
        Which rows are counted, and from what: it stands under the matrix of the rule.

    Raises
    ------
    ValueError
        If ``normalize`` is neither.

    Examples
    --------
    >>> import confmax
    >>> from confmax.plotting import ConfusionChangeDisplay
    >>> P, y = [[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], [0, 0, 1, 1]
    >>> solution = confmax.maximize("g_mean", P, y, calibration=None)
    >>> ConfusionChangeDisplay.from_solution(solution, P, y).before
    array([[0.5 , 0.  ],
           [0.25, 0.25]])
    """

    before: Array
    after: Array
    names: Sequence[str]
    normalize: str = "true"
    rows: str = ""

    def __post_init__(self) -> None:
        """Refuse a ``normalize`` that is neither word."""
        if self.normalize not in ("true", "all"):
            raise ValueError(f"normalize is 'true' (rows sum to one) or 'all'; got {self.normalize!r}")

    @classmethod
    def from_solution(
        cls,
        solution: Solution,
        proba: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        normalize: str = "true",
        ax: Any = None,
    ) -> ConfusionChangeDisplay:
        """Draw the confusion matrices of ``solution`` on ``proba`` (n, K).

        They are counted on the labels ``y`` (n,), or expected by the probabilities without them. ``sample_weight``
        (n,) weighs the rows. ``normalize`` is described above. ``ax`` are three axes, or None for new ones.

        Raises
        ------
        ValueError
            For bad input.
        """
        rule = solution.rule
        table, mode = rows_for(rule, proba, y, sample_weight)
        oracle = make_oracle(table, mode)
        before, after = (shown.evaluate(oracle, matrix=True).matrix for shown in (plain_rule(rule), rule))
        assert before is not None and after is not None
        # argmax decides classes only, the rule may have further decisions
        before = np.pad(before, ((0, 0), (0, after.shape[1] - before.shape[1])))
        names = [str(name) for name in rule.class_names]
        rows = rows_in_words(rule, table, solution)
        return cls(before=before, after=after, names=names, normalize=normalize, rows=rows).plot(ax=ax)

    def plot(self, ax: Any = None) -> ConfusionChangeDisplay:
        """Draw three matrices into three axes ``ax``."""
        from matplotlib.colors import ListedColormap

        self.figure_, self.ax_, colours = axes_of(ax, 3)
        shares, changes = (ListedColormap(scale(colours, kind)) for kind in ("share", "change"))
        before = self.before
        after = self.after
        # a class without rows has no shares, and matplotlib no colour for NaN: its cells are those of zero
        if self.normalize == "true":
            before, after = map(np.nan_to_num, ConfusionChange(before, after).shares())
        (K, M) = before.shape
        change = after - before
        good = goodness(change)
        (top, most) = limits_of(before, after)
        for panel, values, shown, title, limits in (
            (self.ax_[0], before, before, "argmax", {"cmap": shares, "vmin": 0.0, "vmax": top}),
            (self.ax_[1], after, after, "tuned rule", {"cmap": shares, "vmin": 0.0, "vmax": top}),
            (self.ax_[2], change, good, "difference", {"cmap": changes, "vmin": -most, "vmax": most}),
        ):
            panel.imshow(shown, **limits)
            panel.set(title=title, xlabel="decided")
            if K <= MOST_WRITTEN:
                panel.set_xticks(range(M), self.names[:M], rotation=45, ha="right")
                panel.set_yticks(range(K), self.names[:K])
                # text on the upper steps of the scale is turned, as on the page of a report
                strong = 0.56 * (most if title == "difference" else top)
                for i, j in np.ndindex(K, M):
                    text = f"{values[i, j]:+.2f}" if title == "difference" else f"{values[i, j]:.2f}"
                    color = colours["on-strong" if abs(shown[i, j]) > strong else "on-weak"]
                    panel.text(j, i, text, ha="center", va="center", color=color, fontsize=8)
        self.ax_[0].set_ylabel("true")
        if self.rows:
            self.ax_[1].set_xlabel(f"decided\non the {self.rows}")
        return self
