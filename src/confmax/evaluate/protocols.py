"""What evaluation reads of rules from elsewhere, a protocol, and of a solution, a record that `Solution` adds to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import Calibration
from confmax.calibration.words import with_names
from confmax.confusion import Array, Confusion, Gains
from confmax.constraints.proportions import refutes, trials
from confmax.errors import Sentence
from confmax.metrics import Metric
from confmax.optimize import Progress, Status
from confmax.rule import DecisionRule
from confmax.rule.counts import Counts
from confmax.tables import Part

if TYPE_CHECKING:
    from confmax.constraints import ConstraintOutcome


@runtime_checkable
class Decides(Protocol):
    """What `score` reads of a rule; `confmax.DecisionRule` is one, and so is any class with these members."""

    @property
    def class_names(self) -> tuple[Any, ...]:
        """Names of the K columns, in order, and of further decisions."""

    @property
    def n_classes(self) -> int:
        """K."""

    @property
    def metric(self) -> str:
        """The metric that the rule was tuned for, or an empty text."""

    def decided(self, table: Part) -> tuple[NDArray[np.int64], Array, int]:
        """Return the decisions (A, n) of its atoms on the raw probabilities of ``table``, their shares (A,), and M."""

    def reordered(self, class_names: Sequence[Any]) -> Decides:
        """Return the same rule for columns in the order ``class_names``."""


# the fields stand here, below `Solution`, because reports read them: a second list of them would have to agree with it
@dataclass(frozen=True, eq=False, repr=False)
class Tuned:
    """How a rule was found: the fields of `confmax.Solution`, which says what each of them is."""

    rule: DecisionRule
    value: float
    upper_bound: float | None
    randomization_loss: float | None
    status: Status
    n_passes: int
    history: tuple[Progress, ...]
    statistics: Confusion
    label_value: float | None
    baselines: dict[str, float]
    metric: Metric
    mode: str
    model_share: float
    calibration: Calibration | None = None
    tuned_on: str = "rows"
    multipliers: Array | None = None
    constraints: tuple[ConstraintOutcome, ...] = ()
    infeasibility: str | None = None
    confidence: float | None = None
    missed_by: tuple[str, ...] = ()
    missed_before: tuple[str, ...] = ()
    doubt: str | None = None
    tested_on: str = "other rows"
    model_value: float | None = None
    model_upper_bound: float | None = None
    shift: Any = None
    plan: Any = None
    tuned_by: Any = None
    counts: Counts | None = None
    group_shares: tuple[float, ...] = ()

    @property
    def feasible(self) -> bool:
        """Whether the rule keeps all constraints, and labels do not refute this."""
        return all(one.kept for one in self.constraints)

    @property
    def feasible_on_estimate(self) -> bool:
        """Whether the rule keeps all constraints on the estimate that tuned it, whatever the labels say."""
        return all(one.kept_on_estimate for one in self.constraints)

    @property
    def label_error(self) -> float:
        """Standard error of ``label_value``: that of the linear part of the metric (the delta method).

        It is taken at the counts of the labels and four rows more, spread over all cells, without which few rows have
        errors near zero. NaN where it is not known: where weights differ, and of a metric that has no slope there.
        """
        if self.counts is None or self.counts.matrix is None or self.counts.unit != "rows":
            return float("nan")
        matrix, n = self.counts.matrix, float(self.counts.true.sum())
        C = (matrix + MORE_ROWS / matrix.size) / (n + MORE_ROWS)
        slopes = self.metric.gradient(C)
        return float(np.sqrt(((C * slopes**2).sum() - (C * slopes).sum() ** 2) / n))

    @property
    def contradiction(self) -> str | None:
        """Why the bound on other rules is not said: `refuted` or `beyond_model`; None if labels do not refute it."""
        return refuted(self) or beyond_model(self)

    @property
    def gap(self) -> float | None:
        """``upper_bound - value``, or None without a bound."""
        return None if self.upper_bound is None else self.upper_bound - self.value

    @property
    def model_gap(self) -> float | None:
        """``model_upper_bound - model_value``, or None without a bound."""
        if self.model_upper_bound is None or self.model_value is None:
            return None
        return self.model_upper_bound - self.model_value


NO_LABEL = "no label was used, so this trusts the probabilities"
NOT_ASSURED = "not assured on new rows, unless you ask with a confidence"
NAMED = 5  # classes in a sentence
ERRORS = 2.0  # standard errors by which a value on labels lies above what the model allows, to refute it
MORE_ROWS = 4.0  # rows: Agresti and Coull, The American Statistician 52 (1998)
OWN_ROWS = "; these are the final model's probabilities of its own training rows"


def refuted(solution: Tuned) -> Sentence | None:
    """Return in a sentence which limits the labels refute that the estimate keeps, and the ways out; None if none.

    With a confidence the guarantee says which limits fail their test.
    """
    against = [one for one in solution.constraints if one.refutation]
    if not against or solution.confidence is not None:
        return None
    where = "on the estimate that tuned the rule"
    ways_out = [] if solution.mode == "labels" else ["`confusion='labels'` counts the labels alone"]
    if solution.tuned_on == "refit":
        where = "by the final model's probabilities of its own training rows"
    elif isinstance(solution.rule, DecisionRule):
        ways_out.append("`confidence=0.9` tests the limits on rows apart")
    ways_out.append(f"{'and ' if ways_out else ''}a stricter limit leaves room")
    said = "; ".join(f"{one.text} ({one.value:.4g} {where}, but {', '.join(one.refuted_by)})" for one in against)
    return Sentence(
        f"the labels refute {said}: do not rely on {'it' if len(against) == 1 else 'them'}; {', '.join(ways_out)}"
    )


def beyond_model(solution: Tuned) -> str | None:
    """Return in a sentence that a rule is better on the labels than the model says any rule can be; None if it is not.

    Labels show this of a share of rows by the exact test by which they refute a limit. Of other metrics the value on
    the labels must lie above the bound by two standard errors (``label_error``).
    """
    most, value, counts = solution.model_upper_bound, solution.label_value, solution.counts
    if most is None or value is None or value <= most or counts is None or counts.unit != "rows":
        return None
    metric = solution.metric
    if metric.formula.is_share and counts.matrix is not None:
        n = float(counts.true.sum())
        shown = refutes(value, trials(metric, Confusion.from_matrix(counts.matrix / n), n), most, is_floor=False)
    else:
        shown = value > most + ERRORS * solution.label_error
    if not shown:
        return None
    beyond = "less" if metric.is_cost else "more"
    other, name = "such rule", solution.rule.metric
    if isinstance(solution.rule, DecisionRule):
        other, name = compared_rule(solution), with_names(metric.shown_name, solution.rule.class_names)
    return (
        f"the labels say more than the model allows: {name} is {metric.shown(value):.4g} on them, {beyond} than any "
        f"{other} could have if the probabilities were right, so they are not right for these rows, and no bound on "
        f"other rules is given"
    )


def if_right(solution: Tuned) -> str | None:
    """Return in a sentence what the model says of a rule that labels helped to tune; None if it says nothing."""
    calibrated = solution.calibration is not None and solution.calibration.calibrator is not None
    right = f"if the {'calibrated ' * calibrated}probabilities are right"
    missed = [one for one in solution.constraints if (one.model_slack or 0.0) < 0.0]
    if missed:
        by = " and ".join(f"{one.text} by {-(one.model_slack or 0.0):.2g}" for one in missed)
        kept = f"{'this limit is' if len(missed) == 1 else 'these limits are'} kept on the estimate that tuned the rule"
        return (
            f"{right}, this rule misses {by}, so no bound on other rules is given; {kept}, "
            f"{of_blend(solution.model_share)}"
        )
    if solution.model_upper_bound is None or solution.model_value is None:
        return None
    rule = compared_rule(solution)
    end = OWN_ROWS if solution.tuned_on == "refit" else ""
    metric = solution.metric
    most = metric.shown(solution.model_upper_bound)
    value = metric.shown(solution.model_value)
    if metric.is_cost:
        return f"{right}, no {rule} costs less than {most:.4g} a row; this one costs {value:.4g}{end}"
    return f"{right}, no {rule} exceeds {most:.4g}; this one has {value:.4g}{end}"


def compared_rule(solution: Tuned) -> str:
    """Return which rules a bound is one of: those within the limits, which decide no class that no row has."""
    absent = () if solution.plan is None else solution.plan.absent or ()
    names = [str(solution.rule.class_names[k]) for k in absent]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    within = ["keeps the constraints"] if solution.constraints else []
    within += [f"never decides {', '.join(names[:NAMED])}{more}"] if names else []
    return f"rule that {' and '.join(within)}" if within else "rule"


def how_counted(confusion: str, share: float | None) -> str:
    """Return how values were found by the ``confusion`` of a tuning, in words; of a blend ``share`` is the model's."""
    if confusion == "blend":
        return of_blend(share)
    return "counted on the labels" if confusion == "labels" else "expected from the probabilities themselves"


def of_blend(share: float | None) -> str:
    """Return what the confusion matrix of a blend is, of which ``share`` is the model's, in words."""
    percent = round(100 * (share or 0.0))
    if percent in (0, 100):
        expected = "expected from the probabilities (the labels agree, over all rows)"
        return expected if percent else "counted on the labels"
    return f"{percent}% expected from the probabilities, the rest counted on the labels"


def not_assured(solution: Tuned) -> str:
    """Return how many of the tuning rows the limited quantities are on the labels, and that this assures nothing."""
    counts = []
    for one in solution.constraints:
        if one.label_value is not None and one.label_rows:
            quantity, _sign, _number = one.text.rsplit(" ", 2)
            counts.append(f"{quantity} is {round(one.label_value * one.label_rows)} of {one.label_rows} tuning rows")
    return f"on the labels {', '.join(counts)}, {NOT_ASSURED}" if counts else NOT_ASSURED


def frequent_gain(rule: DecisionRule) -> Gains:
    """Return the gain that a rule draws most often."""
    return rule.gains[int(np.argmax(rule.weights))]


def with_gain(rule: DecisionRule, gain: Gains) -> DecisionRule:
    """Return the deterministic rule of one ``gain`` that is like ``rule`` otherwise."""
    return replace(rule, gains=gain, weights=np.ones(1))


def plain_rule(rule: DecisionRule) -> DecisionRule:
    """Return argmax of the raw probabilities for the classes of ``rule``."""
    return DecisionRule.from_weights(np.ones(rule.n_classes), classes=rule.class_names[: rule.n_classes])


def convergence(solution: Tuned) -> tuple[NDArray[np.int64], Array, Array]:
    """Return the scans of the table (S,) after each step, the best value, and the lowest upper bound, NaN for none."""
    # where labels take part a run may have had bounds, which prove nothing of the solution
    proved = solution.upper_bound is not None
    bounds = [step.upper_bound if proved and step.upper_bound is not None else np.nan for step in solution.history]
    passes, values = zip(*((step.n_passes, step.value) for step in solution.history), strict=True)
    return np.array(passes), np.array(values), np.array(bounds)
