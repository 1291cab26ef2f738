"""What a rule is: weights per class, and regions of the probability triangle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array
from confmax.oracle import make_table
from confmax.plotting._shared import axes_of, fitted, names_of, pair_of
from confmax.rule import DecisionRule
from confmax.solution import Solution

MOST_POINTS = 2000  # rows that are drawn into regions


class WeightsDisplay:
    """What a class's probability is multiplied by, and how much that varies between folds.

    Parameters
    ----------
    weights, offsets : ndarray (1 + F, K)
        Of the rule, then of the rules without each fold; weights of geometric mean one, offsets of mean zero.
    names : list of str
        Names of the classes.
    metric : str
        What the rule was tuned for.

    Examples
    --------
    >>> from confmax import DecisionRule
    >>> from confmax.plotting import WeightsDisplay
    >>> WeightsDisplay.from_rule(DecisionRule.from_weights([1.0, 4.0])).weights
    array([[0.5, 2. ]])
    """

    def __init__(self, *, weights: Array, offsets: Array, names: Sequence[str], metric: str) -> None:
        self.weights, self.offsets, self.names, self.metric = weights, offsets, list(names), metric

    @classmethod
    def from_rule(cls, rule: DecisionRule, *, others: Sequence[DecisionRule] = (), ax: Any = None) -> WeightsDisplay:
        """Draw the weights of ``rule`` into ``ax``, with those of ``others``; of a mixture its most frequent rule.

        Raises
        ------
        ValueError
            If a rule is no set of weights on probabilities.
        """
        pairs = [pair_of(each) for each in (rule, *others)]
        weights, offsets = (np.array([pair[k] for pair in pairs]) for k in (0, 1))
        names = names_of(rule)[: rule.n_classes]
        return cls(weights=weights, offsets=offsets, names=names, metric=rule.metric).plot(ax=ax)

    @classmethod
    def from_solution(cls, solution: Solution, *, ax: Any = None) -> WeightsDisplay:
        """Draw the weights of the rule of ``solution`` into ``ax``."""
        return cls.from_rule(solution.rule, ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> WeightsDisplay:
        """Draw the weights of a fitted ``estimator`` into ``ax``, with those of its ``fold_rules_``, if any."""
        return cls.from_rule(fitted(estimator).rule, others=getattr(estimator, "fold_rules_", ()), ax=ax)

    def plot(self, ax: Any = None) -> WeightsDisplay:
        """Draw into axes ``ax``: weights on a log scale, offsets beside them if there are any."""
        used = bool(self.offsets.any())
        self.figure_, axes = axes_of(ax, 2) if used else axes_of(ax)
        panels = (
            [(axes[0], self.weights, "weight"), (axes[1], self.offsets, "offset")]
            if used
            else [(axes, self.weights, "weight")]
        )
        place = np.arange(len(self.names))
        for panel, values, what in panels:
            for fold in values[1:]:
                panel.plot(fold, place, "o", markersize=4, alpha=0.5, color="tab:gray")
            panel.plot(values[0], place, "D", color="tab:blue", label=what)
            panel.set_yticks(place, self.names)
            panel.invert_yaxis()
            panel.set_xlabel(f"{what} of the class's probability" if what == "weight" else what)
            panel.grid(axis="x", alpha=0.3)
        if (self.weights > 0).all():
            panels[0][0].set_xscale("log")
        if len(self.weights) > 1:
            panels[0][0].plot([], [], "o", markersize=4, color="tab:gray", label="without one fold")
        panels[0][0].legend()
        self.ax_ = axes
        return self


class DecisionRegionsDisplay:
    """Which class is decided where, for three classes, on the triangle of all probabilities.

    Parameters
    ----------
    points : ndarray (n, 3)
        Probabilities on a grid.
    decided : ndarray (n,)
        What is decided there, most often for a rule that draws.
    rows, labels : ndarray (m, 3), ndarray (m,) or None
        Rows to show, and their true classes as indices.
    names : list of str
        Names of the classes.

    Examples
    --------
    >>> from confmax import DecisionRule
    >>> from confmax.plotting import DecisionRegionsDisplay
    >>> display = DecisionRegionsDisplay.from_rule(DecisionRule.from_weights([1.0, 2.0, 4.0]))
    >>> display.decided[(display.points == [1.0, 0.0, 0.0]).all(axis=1)]
    array([0])
    """

    def __init__(
        self,
        *,
        points: Array,
        decided: NDArray[Any],
        names: Sequence[str],
        rows: Array | None = None,
        labels: NDArray[Any] | None = None,
    ) -> None:
        self.points, self.decided, self.names, self.rows, self.labels = points, decided, list(names), rows, labels

    @classmethod
    def from_rule(
        cls,
        rule: DecisionRule,
        proba: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        n: int = 150,
        ax: Any = None,
    ) -> DecisionRegionsDisplay:
        """Draw the regions of ``rule`` into ``ax`` by ``n`` points a side, with rows ``proba`` (n, 3) of ``y`` (n,).

        Raises
        ------
        ValueError
            If the rule is for another number of classes than three.
        """
        if rule.n_classes != 3:
            raise ValueError(f"decision regions are drawn for three classes and the rule has {rule.n_classes}")
        i, j = (each.reshape(-1) for each in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
        inside = i + j <= n
        points = np.column_stack([i[inside], j[inside], n - i[inside] - j[inside]]) / n
        decided = rule.decision_probabilities(points).argmax(axis=1)
        rows = labels = None
        if proba is not None:
            table = make_table(proba, y, None, rule.class_names[:3])
            chosen = np.random.default_rng(0).permutation(table.n_rows)[:MOST_POINTS]
            rows, labels = table.proba[chosen], None if table.labels is None else table.labels[chosen]
        return cls(points=points, decided=decided, names=names_of(rule), rows=rows, labels=labels).plot(ax=ax)

    @classmethod
    def from_solution(cls, solution: Solution, *args: Any, **settings: Any) -> DecisionRegionsDisplay:
        """Draw the regions of the rule of ``solution``; ``args`` and ``settings`` as in `from_rule`."""
        return cls.from_rule(solution.rule, *args, **settings)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: ArrayLike | None = None, **settings: Any
    ) -> DecisionRegionsDisplay:
        """Draw those of a fitted ``estimator``, rows ``X`` (n, d) of ``y`` (n,); ``settings`` as in `from_rule`."""
        proba = None if X is None else estimator.predict_proba(X)
        return cls.from_rule(fitted(estimator).rule, proba, y, **settings)

    def plot(self, ax: Any = None) -> DecisionRegionsDisplay:
        """Draw into axes ``ax``: corners are the sure rows."""
        from matplotlib import colormaps
        from matplotlib.colors import ListedColormap

        self.figure_, self.ax_ = axes_of(ax)
        colors = colormaps["tab10"](np.arange(max(3, len(self.names))) % 10)
        corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
        at = self.points @ corners
        top = {"vmin": 0, "vmax": len(colors) - 1}
        light = ListedColormap(0.65 + 0.35 * colors)  # half transparent triangles would show their edges
        self.ax_.tripcolor(*at.T, self.decided, cmap=light, shading="flat", **top)
        self.ax_.plot(*corners[[0, 1, 2, 0]].T, color="black", linewidth=1)
        for k, (name, corner) in enumerate(zip(self.names[:3], corners, strict=True)):
            below = corner[1] == 0
            self.ax_.annotate(name, corner, xytext=(0, -14 if below else 6), textcoords="offset points", ha="center")
            if self.rows is not None:
                mine = np.ones(len(self.rows), bool) if self.labels is None else self.labels == k
                color = "black" if self.labels is None else colors[k]
                if self.labels is not None or k == 0:
                    self.ax_.plot(*(self.rows[mine] @ corners).T, ".", markersize=3, color=color)
        handles = [self.ax_.plot([], [], "s", color=0.65 + 0.35 * color, label=f"decided {name}")[0]
                   for name, color in zip(self.names, colors, strict=False)]  # fmt: skip
        self.ax_.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.0, 1.0), frameon=False)
        self.ax_.set_aspect("equal")
        self.ax_.set_axis_off()
        return self
