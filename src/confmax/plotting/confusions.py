"""What a rule changes: confusion matrices, and what the tuned metric costs in another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Array
from confmax.evaluate.confusion_change import ConfusionChange, goodness, limits_of
from confmax.evaluate.palette import scale
from confmax.evaluate.protocols import plain_rule
from confmax.evaluate.trade_off import trade_off
from confmax.evaluate.uncertainty import by_prior
from confmax.metrics import Metric, resolve
from confmax.oracle import make_oracle
from confmax.plotting.shared import RULES, OfRows, axes_of, palette, weights_of
from confmax.solution import Solution
from confmax.tables import make_table

MOST_WRITTEN = 12  # classes up to which numbers are written into a matrix
STEPS = 61  # of a trade-off: every fortieth of the way from argmax to the rule, and half of it beyond


class ConfusionChangeDisplay(OfRows):
    """Confusion matrices of argmax and of a rule, and their difference; rows are true classes.

    In the difference blue is better and orange is worse: more correct decisions, or fewer mistakes, are better.

    Parameters
    ----------
    before, after : ndarray (K, M)
        Confusion matrices, fractions of all weight.
    names : list of str
        Names of the classes, then of further decisions.
    normalize : {"true", "all"}
        Whether rows sum to one, or all entries.

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

    def __init__(self, *, before: Array, after: Array, names: Sequence[str], normalize: str = "true") -> None:
        if normalize not in ("true", "all"):
            raise ValueError(f"normalize is 'true' (rows sum to one) or 'all'; got {normalize!r}")
        self.before, self.after, self.names, self.normalize = before, after, list(names), normalize

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
        """
        rule = solution.rule
        table = make_table(proba, y, sample_weight, rule.class_names[: rule.n_classes])
        oracle = make_oracle(table, "model" if y is None else "labels")
        before, after = (one.evaluate(oracle, matrix=True).matrix for one in (plain_rule(rule), rule))
        assert before is not None and after is not None
        # argmax decides classes only, the rule may have further decisions
        before = np.pad(before, ((0, 0), (0, after.shape[1] - before.shape[1])))
        names = [str(name) for name in rule.class_names]
        return cls(before=before, after=after, names=names, normalize=normalize).plot(ax=ax)

    def plot(self, ax: Any = None) -> ConfusionChangeDisplay:
        """Draw three matrices into three axes ``ax``."""
        from matplotlib.colors import ListedColormap

        self.figure_, self.ax_ = axes_of(ax, 3)
        colours = palette(self.ax_[0])
        shares, changes = (ListedColormap(scale(colours, kind)) for kind in ("share", "change"))
        before, after = self.before, self.after
        if self.normalize == "true":
            before, after = map(np.nan_to_num, ConfusionChange(before, after).shares())
        (K, M), change = before.shape, after - before
        good, (top, most) = goodness(change), limits_of(before, after)
        for panel, values, shown, title, limits in (
            (self.ax_[0], before, before, "argmax", {"cmap": shares, "vmin": 0.0, "vmax": top}),
            (self.ax_[1], after, after, "tuned rule", {"cmap": shares, "vmin": 0.0, "vmax": top}),
            (self.ax_[2], change, good, "difference", {"cmap": changes, "vmin": -most, "vmax": most}),
        ):
            panel.imshow(shown, **limits)
            panel.set_title(title)
            panel.set_xlabel("decided")
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
        return self


class TradeOffDisplay(OfRows):
    """The trade-off between the tuned metric and another one, for rules from argmax to the tuned one and beyond.

    Each point is one rule. The logarithms of its weights and its offsets are ``t`` times those of the tuned rule, where
    t goes from 0 (argmax) through 1 (the rule) to 1.5. Weights that are not all positive are scaled linearly instead.
    If the rule decides one of several classes by its probability alone, the scores go linearly from those of argmax to
    those of the rule, and beyond the rule the log odds of its threshold are ``t`` times as large.

    Parameters
    ----------
    steps, tuned, other : ndarray (S,)
        ``t``, the tuned metric and the other one.
    plain : tuple of float
        Both metrics of ``argmax(p / prior)``.
    labels : tuple of str
        Names of the metrics.

    Examples
    --------
    >>> import confmax
    >>> from confmax.plotting import TradeOffDisplay
    >>> P, y = [[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], [0, 0, 1, 1]
    >>> solution = confmax.maximize("g_mean", P, y, calibration=None)
    >>> float(TradeOffDisplay.from_solution(solution, P, y).other[0])
    0.75
    """

    def __init__(
        self, *, steps: Array, tuned: Array, other: Array, plain: tuple[float, float], labels: tuple[str, str]
    ) -> None:
        self.steps, self.tuned, self.other, self.plain, self.labels = steps, tuned, other, plain, labels

    @classmethod
    def from_solution(
        cls,
        solution: Solution,
        proba: ArrayLike,
        y: ArrayLike | None = None,
        *,
        other: str | Metric = "accuracy",
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
    ) -> TradeOffDisplay:
        """Draw the trade-off of ``solution`` on ``proba`` (n, K) into ``ax``, new axes by default.

        It is counted on the labels ``y`` (n,), or expected by the probabilities without them. ``other`` is the second
        metric, and ``sample_weight`` (n,) weighs the rows.

        Raises
        ------
        ValueError
            If the rule is no set of weights on probabilities.
        """
        rule, second = solution.rule, resolve(other)
        weights_of(rule)  # refuses other rules: the report draws their way by another path
        mode = "model" if y is None else "labels"
        table = make_table(proba, y, sample_weight, rule.class_names[: rule.n_classes])
        metrics = (solution.metric, second)
        way = trade_off([(rule, table.in_memory())], metrics, n_steps=STEPS, mode=mode)
        assert way is not None
        # p/prior stands on the probabilities that the way is drawn on
        calibrated = table.calibrated(rule.calibrator)
        prior = table.label_weight() if table.has_labels else calibrated.mean_probability()
        matrix = any(metric.statistics == "matrix" for metric in metrics)
        plain = make_oracle(calibrated, mode).maximize(by_prior(prior), matrix=matrix)
        at_plain = tuple(float(np.squeeze(metric.values(plain))) for metric in metrics)
        return cls(steps=way.steps, tuned=way.tuned, other=way.other, plain=(at_plain[0], at_plain[1]),
                   labels=(repr(metrics[0]), repr(second))).plot(ax=ax)  # fmt: skip

    def plot(self, ax: Any = None) -> TradeOffDisplay:
        """Draw into axes ``ax``, new ones by default."""
        self.figure_, self.ax_ = axes_of(ax)
        at = int(np.argmin(np.abs(self.steps - 1.0)))
        colours = palette(self.ax_)
        self.ax_.plot(self.other, self.tuned, "-", color=colours["line-strong"])
        points = ((self.other[0], self.tuned[0]), self.plain[::-1], (self.other[at], self.tuned[at]))
        for (name, (shape, colour)), point in zip(RULES.items(), points, strict=True):
            self.ax_.plot(*point, shape, color=colours[colour], label=name)
        self.ax_.set(xlabel=self.labels[1], ylabel=self.labels[0])
        self.ax_.legend()
        return self
