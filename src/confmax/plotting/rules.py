"""What a rule is: weights per class, and regions of the probability triangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.calibration.shown import UNSEEN, coefficients
from confmax.calibration.thresholds import class_first
from confmax.confusion import Array, Gains
from confmax.evaluate.palette import CLASSES
from confmax.plotting.shared import axes_of, fitted, log_scale, weights_of
from confmax.rule import DecisionRule
from confmax.rule.parts import refuse_labels
from confmax.solution import Solution
from confmax.tables import make_table

MOST_POINTS = 2000  # rows that are drawn into regions


@dataclass(kw_only=True, eq=False, repr=False)
class WeightsDisplay:
    """Weights and offsets of a rule, and how much they vary between folds.

    The rule decides the largest of weight times probability plus offset. Weights and offsets are scaled as ``print``
    shows the rule: the smallest weight is one and the largest offset is zero. If the rule decides one of several
    classes by its probability alone, the weight of this class is one, and the other weights show as zero: they only
    order the other classes.

    Attributes
    ----------
    weights, offsets : ndarray (1 + F, K)
        Those of the rule, then those of the rules that were tuned without each fold.
    names : list of str
        Names of the classes.
    metric : str
        What the rule was tuned for.

    Examples
    --------
    >>> from confmax import DecisionRule
    >>> from confmax.plotting import WeightsDisplay
    >>> WeightsDisplay.from_rule(DecisionRule.from_weights([1.0, 4.0])).weights
    array([[1., 4.]])
    """

    weights: Array
    offsets: Array
    names: Sequence[str]
    metric: str

    @classmethod
    def from_rule(cls, rule: DecisionRule, *, others: Sequence[DecisionRule] = (), ax: Any = None) -> WeightsDisplay:
        """Draw the weights of ``rule`` into ``ax``, as `plot` does, with those of ``others``.

        Of a rule that decides at random it shows the one that is drawn most often.

        Raises
        ------
        ValueError
            If a rule is no set of weights on probabilities.
        """
        pairs = [_shown(weights_of(one)) for one in (rule, *others)]
        weights, offsets = map(np.concatenate, zip(*pairs, strict=True))
        names = [str(name) for name in rule.class_names[: rule.n_classes]]
        return cls(weights=weights, offsets=offsets, names=names, metric=rule.metric).plot(ax=ax)

    @classmethod
    def from_solution(cls, solution: Solution, *, ax: Any = None) -> WeightsDisplay:
        """Draw the weights of the rule of ``solution`` into ``ax``."""
        return cls.from_rule(solution.rule, ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> WeightsDisplay:
        """Draw the weights of a fitted ``estimator`` into ``ax``, with those of its ``fold_rules_`` if it has any."""
        return cls.from_rule(fitted(estimator).rule, others=getattr(estimator, "fold_rules_", ()), ax=ax)

    def plot(self, ax: Any = None) -> WeightsDisplay:
        """Draw into axes ``ax``, new ones by default: weights on a log scale and, if there are any, offsets.

        A rule with offsets has two panels. Pass two axes for them, or a single one, whose place both then share: it is
        emptied, and ``ax_`` holds the two axes inside it.
        """
        used = bool(self.offsets.any())
        given: Any = [] if ax is None else np.ravel(np.asarray(ax, dtype=object))
        if used and len(given) == 1:
            given[0].set_axis_off()
            ax = [given[0].inset_axes((left, 0.0, 0.47, 1.0)) for left in (0.0, 0.53)]
        self.figure_, self.ax_, colours = axes_of(ax, 1 + used)
        axes = np.atleast_1d(np.asarray(self.ax_, dtype=object))
        place = np.arange(len(self.names))
        # a rule without offsets has one panel: the offsets and their name are left over
        for panel, values, what in zip(axes, (self.weights, self.offsets), ("weight", "offset"), strict=False):
            # the folds first, so that the mark of the rule lies on top
            for fold in values[1:]:
                panel.plot(fold, place, "o", markersize=4, alpha=0.5, color=colours["quiet"])
            panel.plot(values[0], place, "D", color=colours["accent"], label=what)
            panel.set_yticks(place, self.names)
            # the first class stands on top, as in tables
            panel.invert_yaxis()
            panel.set_xlabel(what)
            panel.grid(axis="x", alpha=0.3)
        # a factor between weights is what decides, so equal factors have equal lengths
        if (self.weights > 0).all():
            log_scale(axes[0], float(self.weights.max() / self.weights.min()))
        if used:
            axes[1].set_yticklabels([])
        if len(self.weights) > 1:
            axes[0].plot([], [], "o", markersize=4, color=colours["quiet"], label="without one fold")
        axes[0].legend()
        return self


def _shown(gain: Gains) -> tuple[Array, Array]:
    """Return weights and offsets (1, K) of a gain; zeros for those that only break ties."""
    weights, offsets = coefficients(gain)
    if class_first(gain) is None:
        return weights, offsets
    return np.where(np.abs(weights) < UNSEEN, 0.0, weights), np.where(np.abs(offsets) < UNSEEN, 0.0, offsets)


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionRegionsDisplay:
    """The regions in which each of three classes is decided, in the triangle of all probabilities.

    Attributes
    ----------
    points : ndarray (n, 3)
        Probabilities on a grid.
    decided : ndarray (n,)
        The decision there; of a rule that decides at random, the most frequent one.
    rows, labels : ndarray (m, 3), ndarray (m,) or None
        Rows to show as points, and their true classes as indices.
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

    points: Array
    decided: NDArray[Any]
    names: Sequence[str]
    rows: Array | None = None
    labels: NDArray[Any] | None = None

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
        """Draw the regions of ``rule`` into ``ax``, computed on a grid of ``n`` points a side.

        Rows ``proba`` (m, 3) are shown as points, coloured by their classes ``y`` (m,).

        Raises
        ------
        ValueError
            If the rule does not have three classes.
        """
        refuse_labels(rule, "this figure")
        if rule.n_classes != 3:
            raise ValueError(f"decision regions need three classes and the rule has {rule.n_classes}")
        # whole numbers that sum to n: every point of the grid lies in the triangle
        points = np.array([(i, j, n - i - j) for j in range(n + 1) for i in range(n + 1 - j)]) / n
        decided = rule.decision_probabilities(points).argmax(axis=1)
        rows = labels = None
        if proba is not None:
            table = make_table(proba, y, None, rule.class_names[:3]).gathered("a plot").dense("a plot")
            # the same rows every time: a picture that is made again is the same picture
            chosen = np.random.default_rng(0).permutation(table.n_rows)[:MOST_POINTS]
            rows = table.proba[chosen]
            labels = None if table.labels is None else table.labels[chosen]
        return cls(
            points=points, decided=decided, names=[str(name) for name in rule.class_names], rows=rows, labels=labels
        ).plot(ax=ax)

    @classmethod
    def from_solution(cls, solution: Solution, *args: Any, **settings: Any) -> DecisionRegionsDisplay:
        """Draw the regions of the rule of ``solution``; ``args`` and ``settings`` are those of `from_rule`."""
        return cls.from_rule(solution.rule, *args, **settings)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: ArrayLike | None = None, **settings: Any
    ) -> DecisionRegionsDisplay:
        """Draw those of a fitted ``estimator``, with rows ``X`` (m, d) of classes ``y`` (m,).

        ``settings`` are those of `from_rule`.
        """
        proba = None if X is None else estimator.predict_proba(X)
        return cls.from_rule(fitted(estimator).rule, proba, y, **settings)

    def plot(self, ax: Any = None) -> DecisionRegionsDisplay:
        """Draw into axes ``ax``, new ones by default. A corner is a row whose class has probability one."""
        from matplotlib.colors import ListedColormap, to_rgb

        self.figure_, self.ax_, colours = axes_of(ax)
        colors = np.array([to_rgb(CLASSES[k % len(CLASSES)]) for k in range(max(3, len(self.names)))])
        # a row is the mean of the corners, weighted by its probabilities
        corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
        at = self.points @ corners
        top = {"vmin": 0, "vmax": len(colors) - 1}
        pale = 0.65 * np.array(to_rgb(colours["card"])) + 0.35 * colors
        light = ListedColormap(pale)  # half transparent triangles would show their edges
        self.ax_.tripcolor(*at.T, self.decided, cmap=light, shading="flat", **top)
        self.ax_.plot(*corners[[0, 1, 2, 0]].T, color=colours["ink"], linewidth=1)
        for k, (name, corner) in enumerate(zip(self.names[:3], corners, strict=True)):
            below = corner[1] == 0
            self.ax_.annotate(name, corner, xytext=(0, -14 if below else 6), textcoords="offset points", ha="center")
            if self.rows is not None and self.labels is not None:
                self.ax_.plot(*(self.rows[self.labels == k] @ corners).T, ".", markersize=3, color=colors[k])
        if self.rows is not None and self.labels is None:
            self.ax_.plot(*(self.rows @ corners).T, ".", markersize=3, color=colours["ink"])
        handles = [
            self.ax_.plot([], [], "s", color=color, label=f"decided {name}")[0]
            for name, color in zip(self.names, pale, strict=False)
        ]
        self.ax_.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.0, 1.0), frameon=False)
        self.ax_.set_aspect("equal")
        self.ax_.set_axis_off()
        return self
