"""The result of `maximize` for several labels per row: the rule, its value, what is proved, and every label apart."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.calibration.labels import LabelScaling
from confmax.calibration.words import MISSES, printable, which_labels
from confmax.confusion import Array, Confusion
from confmax.constraints import ConstraintOutcome
from confmax.errors import Sentence
from confmax.evaluate.protocols import NO_LABEL, Tuned, beyond_model, refuted
from confmax.metrics.first_order import safe_ratio
from confmax.metrics.labels import is_total
from confmax.rule.html import titled_table
from confmax.rule.labels import LabelRule

EXACT = 1e-12  # a gap of rounding size
SHOWN = 12  # labels that are printed
DRAWN = (
    "the thresholds of labels with few true rows are drawn towards ones that few rows cannot move, so that they hold "
    "on new rows: `shrinkage=False` switches this off"
)
BUDGET = {False: " with as many labels for every row", True: " with no more labels for a row"}
ESTIMATES = {"model": "the model's estimate", "labels": "these labels", "blend": "the blend of labels and model"}


@dataclass(frozen=True)
class LabelOutcome:
    """What became of one label.

    Attributes
    ----------
    name : str or number
        The label.
    prior : float
        The share of all rows that have it: by the labels, or without labels by the model.
    positives : int or None
        How many rows have it; None without labels.
    threshold : float or None
        The probability above which it is decided; None for rules with a budget.
    threshold_alone : float or None
        The best threshold of this label on the estimate used, before it is drawn towards that of all labels.
    rate, precision, recall, f1 : float
        How often it is decided, and the scores of its decisions: by the labels, or without labels by the model.
    """

    name: Any
    prior: float
    positives: int | None
    threshold: float | None
    threshold_alone: float | None
    rate: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, eq=False, repr=False)
class LabelSolution(Tuned):
    """The result of `confmax.maximize` for several labels per row.

    Attributes
    ----------
    rule : LabelRule
        The rule to apply; ``predict`` gives 0 and 1 for every row and label.
    value : float
        The metric of the rule on the table, under the estimate used, over the labels that some row has.
    upper_bound, gap : float or None
        For any number of labels per row, no rule with one threshold for each label has a higher metric on the estimate
        used, labels and blends included. For a budget of labels, no rule at all has, and the bound is one of the
        model's estimate alone. ``gap`` is the bound less the value.
    model_value, model_upper_bound, model_gap : float or None
        The same three numbers on the model's estimate alone: what is known if the calibrated probabilities are right.
    randomization_loss : float or None
        How much higher the value of the best rule that draws is; zero where the rule is one threshold a label.
    status : Status
        How the search ended.
    n_passes : int
        Number of scans of the table.
    history : tuple of Progress
        One entry per step of a search, none for thresholds.
    statistics : Confusion
        How often every label is true (``rows``), decided and true (``diagonal``), and decided (``columns``), (L,) each.
    label_value : float or None
        The metric of the rule on the labels, if there are any.
    baselines : dict
        The metric, under the same estimate, of simple rules on the raw probabilities, such as "p > 0.5".
    metric : Metric
        The metric that was maximised.
    mode : {"model", "labels", "blend"}
        The estimate used.
    model_share : float
        Mean weight of the model in the estimate over all labels: in a blend it is the larger the fewer rows have one.
    group_shares : tuple of float
        Empty: limits of groups are on rows that have one class.
    calibration : LabelScaling or None
        The maps of the probabilities of every label.
    counted : Confusion
        The statistics (L,) by the labels, or without labels by the model.
    positives : ndarray (L,) or None
        How many rows have each label; None without labels.
    alone : ndarray (L,) or None
        The best threshold of every label on the estimate used, before it is drawn towards others.
    constraints : tuple of confmax.constraints.ConstraintOutcome
        What became of each constraint: its text, limit, value and slack, its value on the labels, and its price: for
        any number of labels that of a limit on a sum of rates, for a budget that of every limit.
    feasible : bool
        Whether the rule keeps all constraints on the estimate that was used, and labels do not refute it, as in
        `confmax.Solution`. On the estimate alone that is ``feasible_on_estimate``, and then ``upper_bound`` holds for
        the rules that keep them;
        ``model_upper_bound`` of another estimate holds for all rules.
    infeasibility : str or None
        Why no rule keeps all constraints, in a sentence; None where the rule does.
    missed_by : tuple of str
        The ``baselines`` that miss a constraint, so that their values do not compare with that of the rule.
    tuned_on, confidence, doubt, tested_on, missed_before : as in `confmax.Solution`
        They have no use here, and neither has ``multipliers``.
    counts : confmax.rule.counts.Counts or None
        How many rows have each label, get it, and both, in rows or where weights differ in sums of weights; None
        without labels.
    shift : confmax.shift.LabelShift or None
        What rows without labels have said of the shares of labels, of a solution that `adapt` has made of them.
    plan, tuned_by : as in `confmax.Solution`
        The settings of the search, and the function that follows them.
    multipliers : ndarray (L,) or None
        None.
    shown_by : int
        How many rows must get a label for a blend of labels and model to count a floor on its precision, unless the
        model keeps it, too: labels of fewer rows keep it by chance. The bound is one for such thresholds. One where all
        thresholds count.
    labels : tuple of LabelOutcome
        Every label apart.

    Examples
    --------
    >>> import confmax
    >>> P, Y = [[0.9, 0.1], [0.4, 0.6], [0.3, 0.2], [0.6, 0.5]], [[1, 0], [1, 1], [0, 0], [1, 1]]
    >>> solution = confmax.maximize("macro_f1", P, Y, decisions="any", confusion="labels")
    >>> solution.value, [one.recall for one in solution.labels]
    (1.0, [1.0, 1.0])
    """

    rule: LabelRule  # type: ignore[assignment]
    calibration: LabelScaling | None = None  # type: ignore[assignment]
    counted: Confusion | None = None
    positives: NDArray[Any] | None = None
    alone: Array | None = None
    shown_by: int = 1

    @property
    def labels(self) -> tuple[LabelOutcome, ...]:
        """Every label apart, in the order of the columns."""
        return self._first(len(self.rule.class_names))

    def _first(self, many: int) -> tuple[LabelOutcome, ...]:
        """Return the first labels apart: of very many only those that are shown."""
        S = self.counted
        assert S is not None
        r, t, q = np.broadcast_to(S.rows, S.diagonal.shape), S.diagonal, S.columns
        scores = (safe_ratio(t, q), safe_ratio(t, r), safe_ratio(2.0 * t, r + q))
        used = self.rule.thresholds
        return tuple(
            LabelOutcome(
                name,
                float(r[k]),
                None if self.positives is None else int(self.positives[k]),
                None if used is None else float(used[k]),
                None if self.alone is None or used is None else float(self.alone[k]),
                float(q[k]),
                *(float(score[k]) for score in scores),
            )
            for k, name in enumerate(self.rule.class_names[:many])
        )

    @property
    def confusion(self) -> Array:
        """Fractions of all rows (L, 2, 2) for every label, as scikit-learn's multilabel_confusion_matrix."""
        S = self.statistics
        r, t, q = np.broadcast_to(S.rows, S.diagonal.shape), S.diagonal, S.columns
        return np.stack([np.stack([1.0 - r - q + t, q - t], -1), np.stack([r - t, t], -1)], -2)

    @property
    def label_error(self) -> float:
        """A bound on the standard error of ``label_value`` (the delta method); NaN where it is not known.

        Labels of a row may depend on each other in any way, so the errors of all labels are added up.
        """
        if self.counts is None or self.counts.unit != "rows" or self.counted is None or self.positives is None:
            return float("nan")
        S, first = self.counted, self.metric.at(self.counted)
        n = self.positives.sum() / S.rows.sum()
        by_hits, by_decisions = first.diagonal, first.columns
        right, wrong = S.diagonal * (by_hits + by_decisions) ** 2, (S.columns - S.diagonal) * by_decisions**2
        mean = by_hits * S.diagonal + by_decisions * S.columns
        return float(np.sqrt(np.maximum(right + wrong - mean**2, 0.0) / n).sum())

    @property
    def guarantee(self) -> str:
        """What is proved about the rule, or why nothing is proved, in a sentence."""
        if self.infeasibility is not None:
            return f"{self.infeasibility}; this rule misses the limits least"
        if (against := refuted(self)) is not None:
            return against
        # the bound of thresholds is one on the estimate, and of that of the model labels may show more
        on_model = self.mode == "model" or self.rule.thresholds is None
        proved = (on_model and beyond_model(self)) or self._proved
        if self.mode == "model" and self.label_value is None and self.calibration is None:
            words = proved.marked if isinstance(proved, Sentence) else proved
            return type(proved)(f"{words}; {NO_LABEL}")
        return proved

    @property
    def _proved(self) -> str:
        """What is proved about a rule that keeps its limits."""
        # the metric itself also lists the numbers of the labels that it is over, which may be thousands
        name = self.rule.metric
        estimate = ESTIMATES[self.mode]
        if self.gap is None or self.upper_bound is None:
            text = f"no optimality guarantee: no upper bound is known for {name} on {estimate}"
            if self.model_upper_bound is None:
                return text
            most = f"{self.model_upper_bound:.4g}"
            return f"{text}; on the model's, no rule exceeds {most}, and this one has {self.model_value:.4g}"
        if self.rule.thresholds is None:
            within = "" if self.gap <= EXACT else f" by more than {self.gap:.2g}"
            of = f"rule{' within the limits' if self.constraints else ''}{BUDGET[self.rule.decisions.positive]}"
            return f"proved: no {of} has a higher {name} on {estimate}{within}"
        if self.constraints:
            within = "" if self.gap <= EXACT else f" by more than {self.gap:.2g}"
            of = "thresholds, one for each label, within the limits"
            where = "" if self.shown_by <= 1 else f", where the model or {self.shown_by} rows show a precision,"
            text = f"proved: no {of}{where} have a higher {name} on {estimate}{within}"
            drawn = self.alone is not None and bool((self.rule.thresholds != self.alone).any())
            return Sentence(f"{text}; {DRAWN}") if within and drawn else text
        if self.gap <= EXACT:
            return f"proved: no thresholds, one for each label, have a higher {name} on {estimate}"
        most = f"no thresholds, one for each label, exceed {self.upper_bound:.4g} on {estimate}"
        if is_total(self.metric):
            return f"{most}; the rule has one threshold for the calibrated probabilities of all labels"
        return Sentence(f"{most}; {DRAWN}")

    def adapt(
        self, new_proba: Any = None, *, priors: Any = None, sample_weight: ArrayLike | None = None
    ) -> LabelSolution:
        """Return the solution for rows on which labels are more or less frequent than on the tuning rows.

        Parameters
        ----------
        new_proba : array-like (n, L) or what else `confmax.maximize` takes
            Raw probabilities of the new rows, from the same model; no labels are needed.
        priors : mapping of label names, array (L,), or None
            How often labels are true on the new rows, if it is known; labels that a mapping does not name keep their
            share. Without it the shares are estimated (`confmax.shift.estimate_priors`).
        sample_weight : array-like (n,) or None
            Non-negative weights of the new rows.

        Returns
        -------
        LabelSolution
            Tuned on the new rows, on what their probabilities lead to under the new shares. The rule stays the same
            object where no share has moved, and for means of scores that read recalls and false positive rates alone.
            In other means over labels, labels whose share has not moved keep their thresholds.

        Raises
        ------
        ValueError
            If there are no rows; if shares do not lie between zero and one, or are of other labels.

        Notes
        -----
        This holds where rows with a label look as before, and rows without it.

        Examples
        --------
        >>> import confmax
        >>> P, Y = [[0.9, 0.1], [0.4, 0.6], [0.3, 0.2], [0.6, 0.5]] * 50, [[1, 0], [0, 1], [0, 0], [1, 1]] * 50
        >>> solution = confmax.maximize("macro_f1", P, Y, decisions="any")
        >>> solution.adapt(P).rule is solution.rule
        True
        """
        from confmax.solution.label_shift import adapt

        return adapt(self, new_proba, priors=priors, sample_weight=sample_weight)

    def predict(self, proba: Any, *, keys: ArrayLike | None = None) -> Any:
        """Return which labels every row of ``proba`` (n, L) gets, as 0 and 1 (n, L), where and as ``proba`` lies.

        ``keys`` (n,) and the ValueError are those of `LabelRule.predict`.

        Examples
        --------
        >>> import confmax
        >>> P, Y = [[0.9, 0.1], [0.4, 0.6], [0.3, 0.2], [0.6, 0.5]], [[1, 0], [1, 1], [0, 0], [1, 1]]
        >>> confmax.maximize("macro_f1", P, Y, decisions="any", confusion="labels").predict(P).tolist()
        [[1, 0], [1, 1], [0, 0], [1, 1]]
        """
        return self.rule.predict(proba, keys=keys)

    def predict_lists(self, proba: Any, *, keys: ArrayLike | None = None) -> list[list[Any]]:
        """Return the names of the labels that every row of ``proba`` (n, L) gets, n lists.

        ``keys`` (n,) and the ValueError are those of `LabelRule.predict`.
        """
        return self.rule.predict_lists(proba, keys=keys)

    def report(
        self,
        path: str | os.PathLike[str],
        proba: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None = None,
        **settings: Any,
    ) -> None:
        """Write one HTML page on the rule: metrics beside other rules, limits, every label, and labels per row.

        Parameters
        ----------
        path : path
            Where to write the page. It is written whole or not at all.
        proba : array-like (n, L)
            Raw probabilities of rows that the rule was not tuned on. A warning says if these are the tuning rows.
        y : array-like (n, L) or sequence of n collections of names
            True labels, as for `confmax.maximize`.
        sample_weight : array-like (n,) or None
            Non-negative weights.
        **settings
            Further keywords of `confmax.report.write`: ``metric``, ``n_replicates``, ``level``, ``random_state``,
            ``source``.

        Raises
        ------
        ValueError
            For bad input, in one sentence.
        ImportError
            If jinja2 of the extra ``confmax[report]`` is not installed.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import confmax
        >>> P, Y = [[0.9, 0.1], [0.4, 0.6], [0.3, 0.2], [0.6, 0.5]], [[1, 0], [1, 1], [0, 0], [1, 1]]
        >>> solution = confmax.maximize("macro_f1", P, Y, decisions="any")
        >>> solution.report("report.html", P, Y)  # doctest: +SKIP
        """
        # which loads much that tuning does not need
        from confmax.page.writing import write

        write(path, self, proba, y, sample_weight, **settings)

    def __repr__(self) -> str:
        heads, rows, left = self._rows()
        wide = max(8, *(len(row[0]) for row in rows)) + 2
        first = max(10, *map(len, self.baselines))
        cells = max(11, *(len(cell) + 2 for row in rows for cell in row[1:]))
        lines = [
            self._headline(),
            *(f"  {text:<{first}} {value}" for text, value in self._baselines()),
            *(f"  {with_values(one)}" for one in self.constraints),
            f"  {self.guarantee}",
            *(f"  {text}" for text in self._how()),
            f"  {heads[0]:<{wide}}" + "".join(f"{head:>{cells}}" for head in heads[1:]),
            *(f"  {row[0]:<{wide}}" + "".join(f"{cell:>{cells}}" for cell in row[1:]) for row in rows),
        ]
        return "\n".join(lines + ([f"  ... {left} more labels: `labels` has all of them"] if left else []))

    def _repr_html_(self) -> str:
        heads, rows, left = self._rows()
        limits = [with_values(one) for one in self.constraints]
        notes = [*(f"{text}: {value}" for text, value in self._baselines()), *limits, self.guarantee, *self._how()]
        return titled_table(self._headline(), heads, rows, [*([f"and {left} more labels"] if left else []), *notes])

    def _baselines(self) -> list[tuple[str, str]]:
        """Return the names and values of the simple rules, with a mark of those that miss a limit."""
        return [
            (name, f"{value:.6g}{MISSES if name in self.missed_by else ''}") for name, value in self.baselines.items()
        ]

    def _headline(self) -> str:
        mode = f"blend, {self.model_share:.0%} model" if self.mode == "blend" else self.mode
        known = "no guarantee" if self.gap is None else f"gap {self.gap:.2g}"
        return f"LabelSolution: {self.metric.name} = {self.value:.6g} ({mode}; {known}; {self.rule.decisions})"

    def _how(self) -> list[str]:
        """Return how the rule decides, where the thresholds of its labels do not say it."""
        return [] if self.rule.thresholds is not None else [f"a row gets {which_labels(self.rule)}"]

    def _rows(self) -> tuple[list[str], list[list[str]], int]:
        """Return heads, the first labels as texts, and how many labels are left out."""
        has_thresholds = self.rule.thresholds is not None
        heads = ["label", "rows", *(["decided if"] if has_thresholds else []), "rate", "precision", "recall", "F1"]
        words: dict[float | None, str] = {np.inf: "never", -np.inf: "always"}
        rows = []
        for one in self._first(SHOWN):
            n = f"{one.prior:.4g}" if one.positives is None else str(one.positives)
            cut = [words.get(one.threshold) or f"p > {one.threshold:.4g}"] if has_thresholds else []
            scores = [f"{number:.3g}" for number in (one.rate, one.precision, one.recall, one.f1)]
            rows.append([printable(str(one.name)), n, *cut, *scores])
        return heads, rows, len(self.rule.class_names) - len(rows)


def with_values(one: ConstraintOutcome) -> str:
    """Return the line of a limit: its text, its values on the estimate and on labels, and its price."""
    more = [] if one.label_value is None else [f"{one.label_value:.6g} on the labels"]
    more += [] if one.price is None else [f"price {one.price:.4g}"]
    more += [one.refutation] if one.refutation else []
    found = ", ".join(more)
    return (
        f"{one.text:<24} {one.value:.6g}{'' if one.kept_on_estimate else ', missed'}{f'  ({found})' if found else ''}"
    )
