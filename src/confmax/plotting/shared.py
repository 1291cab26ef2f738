"""What the displays share: axes and their colours, the solution of an estimator, weights on one scale."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Gains
from confmax.evaluate.evidence import is_of_tuning
from confmax.evaluate.palette import DARK, LIGHT
from confmax.evaluate.protocols import frequent_gain
from confmax.rule import DecisionRule
from confmax.rule.parts import refuse_several
from confmax.solution import Solution
from confmax.tables import Table, make_table


class OfRows:
    """A display that `from_solution` draws of a solution on rows."""

    from_solution: Any

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike | None = None, **settings: Any) -> Self:
        """Draw that of a fitted ``estimator`` on rows ``X`` (n, d) of classes ``y`` (n,).

        ``settings`` are those of `from_solution`.
        """
        display: Self = cls.from_solution(fitted(estimator), estimator.predict_proba(X), y, **settings)
        return display


def rows_for(
    rule: DecisionRule, proba: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None
) -> tuple[Table, str]:
    """Return the table of the rows that ``rule`` is shown on, and "labels" or "model": what is counted by."""
    refuse_several(rule)
    table = make_table(proba, y, sample_weight, rule.class_names[: rule.n_classes])
    return table, "labels" if table.has_labels else "model"


def check_installed() -> None:
    """Refuse, by an ImportError, to draw if matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise ImportError("plots need matplotlib; install it with: pip install 'confmax[plot]'")


def rows_in_words(rule: DecisionRule, table: Table, solution: Solution | None = None) -> str:
    """Return which rows a picture of a ``rule``, or its ``solution``, is of, and what counts them.

    Values on tuning rows are optimistic, so a picture of these says so.
    """
    source = "labels of" if table.has_labels else "probabilities of"
    return f"{source} the {table.n_rows:,} {'tuning ' if is_of_tuning(rule, table, solution) else ''}rows"


def axes_of(ax: Any, n: int = 1) -> tuple[Any, Any, dict[str, str]]:
    """Return a figure, one axes or an array of n, new ones where none are given, and the colours for them."""
    # matplotlib is an extra: whoever draws needs it, and whoever imports this package does not
    check_installed()
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgba

    if ax is None:
        # one picture has matplotlib's size; several are a little smaller, so that three fit into a page
        size = (6.4, 4.8) if n == 1 else (4.2 * n, 4.0)
        ax = plt.subplots(1, n, figsize=size, layout="constrained")[1]
    axes = np.atleast_1d(np.asarray(ax, dtype=object))
    if len(axes) != n:
        raise ValueError(f"ax must hold {n} axes; got {len(axes)}: pass plt.subplots(1, {n})[1]")
    # an axes without a colour shows that of its figure
    red, green, blue, alpha = to_rgba(axes[0].get_facecolor())
    if alpha == 0:
        red, green, blue, _ = to_rgba(axes[0].figure.get_facecolor())
    # the luminance of sRGB, as eyes weigh the three
    colours = DARK if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5 else LIGHT
    return axes[0].figure, axes[0] if n == 1 else axes, colours


def log_scale(ax: Any, span: float) -> None:
    """Make the horizontal axis of an axes logarithmic; its largest value is ``span`` times the smallest."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    ax.set_xscale("log")
    # below one power of ten, powers of ten would be a single tick
    ax.xaxis.set_major_locator(MaxNLocator(4) if span < 10 else LogLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def fitted(estimator: Any) -> Solution:
    """Return the solution of a fitted estimator."""
    solution = getattr(estimator, "solution_", None)
    if not isinstance(solution, Solution):
        raise ValueError(
            f"{type(estimator).__name__} has no solution_; pass a fitted MetricClassifierCV, or use from_solution"
        )
    return solution


def weights_of(rule: DecisionRule) -> Gains:
    """Return the gain that a rule draws most often, weights and offsets of probabilities."""
    refuse_several(rule)
    gain = frequent_gain(rule)
    if gain.full is not None or gain.power:
        raise ValueError(
            "this rule is no set of weights on probabilities; use ConfusionChangeDisplay or DecisionRegionsDisplay"
        )
    return gain
