"""The result of `maximize`: the rule, its value, what is proved about it, and how it was tuned."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.calibration.words import MISSES, with_names
from confmax.confusion import Array
from confmax.errors import Sentence
from confmax.evaluate.protocols import (
    NO_LABEL,
    Tuned,
    beyond_model,
    compared_rule,
    if_right,
    not_assured,
    refuted,
)
from confmax.metrics import Metric
from confmax.optimize import Status

if TYPE_CHECKING:
    from confmax.constraints import ConstraintOutcome
    from confmax.constraints.outcomes import Blocking

EXACT = 1e-12  # a gap of rounding size
FOLDS_ONLY = "; this is about rows that the models of the folds decide, not about the final model"
SHOWN = 4  # classes and groups in a sentence
LOOSEN = "loosen the limit, or test more rows, which may show more"
NOTHING_SHOWN = "which show nothing: test more rows, or leave the limit out"
WORTH_SAYING = 1e-4  # what a mixture adds
ENDINGS = {
    Status.STOPPED: "the callback stopped the search",
    Status.TRUNCATED: "the search was cut short",
    Status.OPTIMAL: "the search compared all rules of its kind",
}


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Tuned):
    """The result of `confmax.maximize`: the rule, its value, what is proved about it, and how it was tuned.

    Attributes
    ----------
    rule : DecisionRule
        The rule to apply.
    value : float
        The metric of the rule on the table, under the confusion estimate used. It is what is maximised: of a table of
        costs minus the mean cost of a row, and so are all values below. ``cost`` and whatever is printed are positive.
    upper_bound, gap : float or None
        No rule, deterministic or randomised, has a higher metric of the expected confusion matrix than ``upper_bound``;
        ``gap = upper_bound - value``. The gap of a deterministic rule includes what a mixture would add
        (``randomization_loss``) and what is not proved. A class that no row has is never decided, and rules that decide
        it do not count. None if nothing is proved: where labels take part in the
        estimate, and for metrics whose structure gives no bound. A blend whose share of the model is one is the model.
    model_value, model_upper_bound, model_gap : float or None
        The same three numbers on the model's estimate alone, the confusion matrix expected from the calibrated
        probabilities. With "model" they are ``value``, ``upper_bound`` and ``gap``. A blend has them too: if the
        probabilities are right, no rule is better than the returned one by more than ``model_gap``. The bound is
        computed to 1e-4. With constraints there is one only if the rule keeps all of them on the model, and it is one
        on the rules that do. None with "labels" and ``confidence``, for tables in parts (use ``confusion="model"``
        there), if ``max_passes`` or the callback ended the search, and if no rule keeps all constraints; the bound is
        None for metrics whose structure gives none. With ``tuned_on="refit"`` the probabilities are those of the final
        model on its own training rows.
    randomization_loss : float or None
        How much lower the value of the returned rule, if it is deterministic, is than that of the best mixture found;
        part of the gap. Mixtures that the search did not find are not covered. None if a mixture may be better and the
        solver searched single rules only (`CoordinateSearch`, `BruteForce`).
    status : Status
        How the search ended. ``tol`` is compared with ``gap - randomization_loss``.
    guarantee : str
        What is proved about the rule, or why nothing is proved, in a sentence.
    n_passes : int
        Number of scans of the table, including the final evaluation and those of the model's bound.
    history : tuple of Progress
        One entry per step.
    confusion : ndarray (K, M) or None
        Confusion matrix of the rule, in fractions of all weight; None with more than 1000 classes.
    statistics : Confusion
        Its row sums, diagonal and column sums.
    label_value : float or None
        The metric of the rule on the labels, if there are any. With ``tuned_on="refit"`` it is computed on the
        out-of-fold probabilities of the rows, not on those that the rule was tuned on.
    baselines : dict
        The metric, under the same estimate, of simple rules on the raw probabilities: "argmax", "p/prior" (divided by
        the class shares of the labels, or without labels by the mean probabilities) and, beside labels, "p/mean(p)"
        (divided by the mean probabilities). A solution of `adapt` has "old rule" among them, the rule from before.
    metric : Metric
        The metric that was maximised. If it divides by class sizes, it covers the classes that some row has. AMS
        without a regulariser is infinite at a background of zero, so its background is at least half a row.
    mode : {"model", "labels", "blend"}
        The confusion estimate used.
    model_share : float
        Weight of the model in this estimate: 1 for the model, 0 for the labels; of groups its mean.
    group_shares : tuple of float
        Of limits of groups, in a blend: this weight in each group, which the rows of the group say.
    calibration : Calibration or None
        The calibration of the probabilities, with their log loss before and after.
    tuned_on : {"rows", "folds", "refit"}
        "refit": `MetricClassifierCV` tuned the rule on the refitted model's probabilities of its own training rows, so
        ``value`` is in-sample. "folds", with ``confidence`` only: it tuned and tested the rule on out-of-fold
        probabilities, so nothing is promised of the final model. "rows": the rule was tuned on the rows passed.
    multipliers : ndarray (K,) or None
        For the smallest recall, the class weights whose weighted recall bounds it. They sum to one and are zero for
        classes that are left out. If the gap is closed, they are the least favourable weights of erratum E19; on
        labels, they are those of the linear program that mixed the rules. None for other metrics, and for other solvers
        than `MaxMin`.
    constraints : tuple of confmax.constraints.ConstraintOutcome
        What became of each constraint: its text, limit, value and slack, its value on the labels, and its price.
    confidence : float or None
        How surely the constraints whose outcome is ``assured`` hold on new rows. Then ``value`` is that on the rows
        that tuned the rule, ``label_value`` that on the others, and there is no bound.
    feasible : bool
        Whether the rule keeps all constraints on the estimate that was used, and labels do not refute it (`refuted_by`
        of `constraints`). `maximize` returns a rule whose limits labels refute, with a warning. On the estimate alone
        that is ``feasible_on_estimate``, and then ``upper_bound`` holds for all rules that keep them.
    infeasibility : str or None
        Why no rule keeps all constraints, in a sentence; None where the rule does.
    missed_by : tuple of str
        The ``baselines`` that miss a constraint, so that their values do not compare with that of the rule.
    missed_before : tuple of str
        Of a solution that `adapt` returns: the limits that the rule from before misses on its estimate.
    tested_on : {"other rows", "all rows"}
        With ``confidence`` only: "all rows", if the rule is one threshold on the raw probability of a class, which
        needs no rows apart to be tested; ``value`` and ``label_value`` are then those of all rows.
    doubt : str or None
        Where a limit is kept on the labels alone: what the labels show and what the model expects, in a sentence.
    counts : confmax.rule.counts.Counts or None
        How many of the labelled rows that tuned the rule it decides as each class, and how many of these are right: a
        confusion matrix in rows, or where weights differ in sums of weights. With ``tuned_on="refit"`` those of the
        out-of-fold probabilities. None without labels.
    shift : confmax.shift.PriorShift or None
        What rows without labels have said of their class shares, of a solution that `adapt` has made of them.
    plan : Plan or None
        The settings of the search, which `adapt` follows again. No row is kept.
    tuned_by : callable or None
        The function that follows them.
    """

    # all fields are those of `Tuned`

    @property
    def guarantee(self) -> str:
        """What is proved about the rule, or why nothing is proved, in a sentence.

        The bound is one on the metric of the expected confusion matrix, psi(E C). The expected metric E psi(C) of a
        finite table is another number, which a rule can raise above the bound.
        """
        if self.infeasibility is not None:
            return self.infeasibility
        if self.doubt is not None:
            return self.doubt
        if self.confidence is not None:
            end = FOLDS_ONLY if self.tuned_on == "folds" else ""
            apart = self.tested_on == "other rows"
            return _assurance(self.confidence, self.constraints, apart=apart) + end
        if (against := refuted(self)) is not None:
            return against
        proved = beyond_model(self) or self._proved
        end = not_assured(self) if self.constraints and self.label_value is not None else ""
        if self.mode == "model" and self.label_value is None and self.calibration is None:
            end = NO_LABEL
        words = proved.marked if isinstance(proved, Sentence) else proved
        return type(proved)(f"{words}; {end}") if end else proved

    @property
    def _proved(self) -> str:
        """What is proved about a rule that was not tested."""
        name = self._metric_name
        gap = self.gap
        if self.mode == "blend" and (told := if_right(self)) is not None:
            return told
        ending = ENDINGS.get(self.status, "search finished")
        bounded = has_bound(self.metric)
        if gap is None and self.mode != "labels" and (self.model_value is not None or not bounded):
            return f"{ending}; no optimality guarantee, because no upper bound is known for {name}"
        if gap is None:
            estimate = " on labels" if self.mode == "labels" else ""
            way_out = ", `confusion='model'` gives one"
            return Sentence(f"{ending}; no optimality guarantee{estimate}{way_out if bounded else ''}")
        within = "" if gap <= EXACT else f" by more than {gap:.2g}"
        of = "of the confusion matrix expected from these probabilities"
        better = "lower" if self.metric.is_cost else "higher"
        proved = f"proved: no {compared_rule(self)} has a {better} {name} {of}{within}"
        loss = self.randomization_loss or 0.0
        # most of the gap is then the price of one rule in the place of a mixture, which the caller can have
        if loss > 0.5 * gap and loss >= WORTH_SAYING:
            mixture = f"a rule that decides at random reaches {self.metric.shown(self.value + loss):.6g}"
            return Sentence(f"{proved}; {mixture}, `randomized=True` returns it")
        if self.status is Status.MAX_PASSES:
            return Sentence(f"{proved}; the search used all its passes, a larger `max_passes` may narrow this")
        structure = self.metric.structure
        of_several = structure.fractions is not None and not structure.is_ratio
        if gap > EXACT and self.status is Status.STATIONARY and of_several:
            return f"{proved}; this bound combines what each class attains alone, which one rule need not reach"
        return proved

    @property
    def gain(self) -> Array | None:
        """The paper's G* (Theorem 2) at the returned rule: the gradient (K, M) of the metric at its confusion matrix.

        If the gap is closed, every optimal rule maximises ``<gain, C>``. The smallest recall has no gradient: the gain
        is then the sum of the recalls' gradients, weighted by ``multipliers`` (erratum E19). None without a confusion
        matrix, without these multipliers, and if an entry is not finite (a recall of zero under the G-mean).
        """
        if self.confusion is None:
            return None
        if self.metric.structure.is_minimum:
            if self.multipliers is None:
                return None
            # over all classes: those that are left out have the multiplier zero
            functions = replace(self.metric, classes=None).linear_functions(
                self.statistics.rows, len(self.statistics.columns)
            )
            return np.asarray(functions.combined(self.multipliers[None]).matrices()[0])
        # the gradient is infinite where a recall is zero under a root or a logarithm
        gain = np.asarray(self.metric.gradient(self.confusion))
        return gain if np.isfinite(gain).all() else None

    @property
    def confusion(self) -> Array | None:
        """Confusion matrix (K, M), or None with more than 1000 classes."""
        return self.statistics.matrix

    def predict(
        self,
        proba: ArrayLike,
        *,
        keys: ArrayLike | None = None,
        group: ArrayLike | None = None,
        group_proba: ArrayLike | None = None,
        normalize: bool = False,
        at_most: Mapping[Any, int] | None = None,
    ) -> NDArray[Any]:
        """Return the label (n,) that the rule decides for every row of ``proba`` (n, K); ``keys`` (n,) fix its draws.

        A rule of groups needs ``group`` (n,) or ``group_proba`` (n, G); ``normalize`` divides rows by their sums;
        ``at_most`` limits how many rows of this batch get a class.
        This calls `DecisionRule.predict` of ``rule``, which describes the arguments and the ValueError.

        Examples
        --------
        >>> import confmax
        >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]], ["no", "no", "yes", "yes"]
        >>> confmax.maximize("balanced_accuracy", P, y, confusion="labels").predict([[0.6, 0.4]]).tolist()
        ['yes']
        """
        given = {"keys": keys, "group": group, "group_proba": group_proba}
        return self.rule.predict(proba, **given, normalize=normalize, at_most=at_most)

    def adapt(
        self,
        new_proba: ArrayLike | None = None,
        *,
        priors: Any = None,
        tuned_on: Sequence[Any] | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        proba_shifted: bool = False,
    ) -> Solution:
        """Return the solution for rows whose class shares differ from those of the tuning rows.

        Parameters
        ----------
        new_proba : array-like (n, K) or None
            Raw class probabilities of the new rows, from the same model; no labels are needed. Without ``priors`` their
            shares are estimated (`confmax.shift.estimate_priors`), and where they show no change, the rule stays the
            same object.
        priors : mapping or Series of class names, array (K,), "balanced", or None
            The new class shares, if they are known: they are taken as they are. Of two classes one may be named alone.
        tuned_on : (proba, y) or (proba, y, sample_weight), or None
            The rows that the rule was tuned on, which a solution does not keep. The rule is then tuned on them again,
            each class weighted by its new share. This keeps what labels have shown, where probabilities are wrong for
            some rows. Without them it is tuned on the new rows, on the confusion matrix that the probabilities lead to.
        y : array-like (n,) or None
            True classes of new rows where they are known; None, NaN or -1 where they are not.
        sample_weight : array-like (n,) or None
            Non-negative weights of the new rows.
        proba_shifted : bool
            Whether the model that makes the new probabilities was corrected for ``priors`` already; ``tuned_on`` are
            those before. The solution then takes corrected ones, and so do its own `adapt` and the ``tuned_on`` there.

        Returns
        -------
        Solution
            Of the same metric within the same limits, for the new shares; ``shift`` says what was estimated. Metrics of
            the recalls alone, such as the G-mean and balanced accuracy, keep their rule: it stays the best. A linear
            metric needs no rows if the shares are known; ``value`` is then not known, NaN. With ``randomized="auto"``
            a rule that does not draw gives way to one that draws only if no other keeps the limits.

        Raises
        ------
        ValueError
            If neither rows nor shares are given; if the shares are not those of the classes; if the metric or limits
            need rows and there are none.

        Warns
        -----
        UserWarning
            If the rows are few or hardly say their shares; if they do not look like the tuning rows
            with other shares, which ``tuned_on`` shows; if the mean probabilities are ``priors`` already; if the new
            rule draws and the old one does not.

        Notes
        -----
        This holds where the classes look as before and only their shares have changed.

        Examples
        --------
        >>> import confmax
        >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]] * 25, [0, 0, 0, 1] * 25
        >>> solution = confmax.maximize("accuracy", P, y, calibration=None)
        >>> solution.predict([[0.6, 0.4]]), solution.adapt(priors={0: 0.3, 1: 0.7}).predict([[0.6, 0.4]])
        (array([0]), array([1]))
        """
        from confmax.solution.adapted import adapt

        given = {"priors": priors, "tuned_on": tuned_on, "y": y, "sample_weight": sample_weight}
        return adapt(self, new_proba, **given, proba_shifted=proba_shifted)

    def report(
        self,
        path: str | os.PathLike[str],
        proba: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **settings: Any,
    ) -> None:
        """Write one HTML page that says what the rule gains, what it costs, and whether to trust it.

        The page needs no network. Its first line says whether the rule is better than argmax and than p/prior on these
        rows. Below that it shows the metrics with bootstrap intervals and paired differences, the rule in words,
        confusion matrices, the trade-off with another metric, gap and calibration, and warnings.

        Parameters
        ----------
        path : path
            Where to write the page. It is written whole or not at all.
        proba : array-like (n, K), or a table of `confmax.open_table`
            Raw class probabilities of rows that the rule was not tuned on. A warning says if these are the tuning rows.
            If you have no other rows, use `confmax.report.write_cross_fitted`.
        y : array-like (n,) or None
            True classes: names or column numbers. None for an opened table, which brings its labels and weights.
        sample_weight : array-like (n,) or None
            Non-negative weights.
        **settings
            Further keywords of `confmax.report.write`: ``second``, the metric of the trade-off ("accuracy"),
            ``metric``, ``n_replicates``, ``level``, ``random_state``, ``source``.

        Raises
        ------
        ValueError
            For bad input, in one sentence.
        ImportError
            If the extra ``confmax[report]`` is not installed.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import confmax
        >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 25, [0, 0, 1, 1] * 25
        >>> solution = confmax.maximize("g_mean", P[::2], y[::2])
        >>> solution.report("report.html", P[1::2], y[1::2])  # doctest: +SKIP
        """
        # which loads much that tuning does not need
        from confmax.page.writing import write

        write(path, self, proba, y, sample_weight, **settings)

    @property
    def _metric_name(self) -> str:
        """The metric with the names of the classes that it is computed over."""
        return with_names(self.metric.shown_name, self.rule.class_names)

    @property
    def cost(self) -> float | None:
        """What the rule costs a row on average, in the unit of its table of costs: minus ``value``; None for others.

        Examples
        --------
        >>> import confmax
        >>> costs = confmax.metrics.get("linear", cost=[[0, 1], [5, 0]])
        >>> confmax.maximize(costs, [[0.9, 0.1], [0.6, 0.4]]).cost
        0.55
        """
        return self.metric.shown(self.value) if self.metric.is_cost else None

    def _repr_html_(self) -> str:
        from confmax.rule.html import solution_table

        return solution_table(self)

    def __repr__(self) -> str:
        known = "no guarantee" if self.model_gap is None else f"gap {self.model_gap:.2g} on the model"
        known = known if self.gap is None else f"gap {self.gap:.2g}"
        known = known if self.contradiction is None else "no guarantee"
        mode = f"blend, {self.model_share:.0%} model" if self.mode == "blend" else self.mode
        stated = with_names(self.metric.stated(self.value), self.rule.class_names)
        rows = [
            f"Solution: {stated} ({mode}; {known}; {self.n_passes} passes)",
            *(
                f"  {name:<10} {self.metric.shown(value):.6g}{MISSES if name in self.missed_by else ''}"
                for name, value in self.baselines.items()
            ),
            *([] if self.calibration is None else [f"  {self.calibration}"]),
            *map(_with_values, self.constraints),
            f"  {self.guarantee}",
            str(self.rule),
        ]
        return "\n".join(rows)


def _with_values(one: ConstraintOutcome) -> str:
    """Return the line of a limit: its text, its value, and the rows or groups that it speaks of."""
    more = ", ".join(f"{part.group}: {part.shown}" for part in one.by_group)
    if one.decided is not None:
        more = f"decided for {100.0 * one.decided:.3g}% of the rows"
    more = "; ".join(filter(None, [more, one.refutation]))
    # a difference of equal values is nothing but rounding
    return f"  {one.text:<24} {round(one.value, 12) + 0.0:.6g}{f'  ({more})' if more else ''}"


def has_bound(metric: Metric) -> bool:
    """Return whether an upper bound is known for a ``metric`` on the model."""
    structure = metric.structure
    return structure.fractions is not None or structure.is_concave or structure.is_ratio


def _assurance(confidence: float, kept: tuple[ConstraintOutcome, ...], *, apart: bool) -> str:
    """Return in a sentence which limits hold on new rows, and what the others need.

    ``apart`` says that the rows that test are others than those that tune.
    """
    failed = [one for one in kept if not one.assured]
    if not failed:
        how = "tested on rows that tuned nothing" if apart else "exact tests on all rows, which must be independent"
        return f"every constraint holds on new rows with confidence {confidence:g}: {how}"
    texts = []
    for one in failed:
        needed = f"it is missed or just met there: {LOOSEN}"
        if one.all_label_rows == 0:
            needed = NOTHING_SHOWN
        elif one.is_hardly_met:
            needed = "it is met so narrowly there that even a million rows would be too few: choose a looser limit"
        elif one.rows_needed is not None:
            needed = f"about {one.rows_needed:,} such rows are needed{', and as many more to tune on' * apart}"
            needed = needed.replace("such rows", "such rows of every group") if one.by_group else needed
        elif one.by_group and one.kept:
            needed = "more rows of every group are needed"
        elif one.kept and one.slack > 0.0:
            needed = "more rows or a looser limit are needed"
        rows = one.all_label_rows
        shown = f"its value is {one.label_value:.4g} on the {rows:,} rows that tuned nothing"
        if one.blocking:
            shown = f"its value is {one.label_value:.4g} on rows that tuned nothing"
            needed = _blocked(one.blocking, apart=apart)
        if one.all_label_rows == 0:
            shown = "it is a share of 0 rows there"
        if not apart and one.label_value is not None:
            shown = f"kept by {round(one.label_value * rows):,} of {rows:,} rows"
        texts.append(f"{one.text} ({shown}; {needed})")
    return f"not assured with confidence {confidence:g}: {'; '.join(texts)}"


def _blocked(blocking: Sequence[Blocking], *, apart: bool) -> str:
    """Return in words which classes and groups fail their tests, those first that need most rows."""
    from confmax.constraints.outcomes import MOST_ROWS

    known = sorted(blocking, key=lambda one: -(one.rows_needed or np.inf))
    each = []
    for one in known[:SHOWN]:
        needed = f"which miss it or just meet it: {LOOSEN}"
        if one.label_rows == 0:
            needed = NOTHING_SHOWN
        elif one.rows_needed is not None and one.rows_needed > MOST_ROWS:
            needed = "and even a million would be too few: choose a looser limit"
        elif one.rows_needed is not None:
            needed = f"and about {one.rows_needed:,} are needed{', and as many more to tune on' * apart}"
        each.append(f"{one.name}: {round(one.label_value * one.label_rows):,} of {one.label_rows:,} rows, {needed}")
    more = f", and {len(known) - SHOWN} more" * (len(known) > SHOWN)
    return f"{'; '.join(each)}{more}"
