"""The plan: the checked settings of a tuning, and the task that they make of a table.

A plan is checked before any row is read. `Plan.on` then places its metric, its constraints and the name of abstaining
on a table, and `confmax.solution.tune` solves the task. Tuning on other rows, such as those without a fold,
is the same plan on another table; other settings are another plan (`Plan.but`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from confmax.calibration import check_calibration
from confmax.confusion import ABSENT, Array
from confmax.constraints.texts import metric_text, number_text
from confmax.errors import InputError
from confmax.metrics import Metric, resolve
from confmax.metrics.alignment import fit_metric
from confmax.metrics.catalogue import shares_of_rows
from confmax.metrics.shares import RATE
from confmax.optimize import Progress
from confmax.progress import Bar
from confmax.solution.abstaining import abstain_name, with_abstaining
from confmax.tables import Table
from confmax.tables.draws import RandomState, as_seed, is_whole

if TYPE_CHECKING:
    from confmax.constraints import Constraint, Limits

LEAST_PASSES = 2  # for the value of a rule, and for those that a run starts from
CONFUSIONS = ("auto", "model", "labels", "blend")


def is_auto(setting: Any) -> bool:
    """Whether a setting, which may be an array or any other object, is the word "auto"."""
    return isinstance(setting, str) and setting == "auto"


def check_search(tol: Any, max_passes: Any, callback: Any) -> None:
    """Refuse settings of a search that are no tolerance, no number of passes, or no function."""
    if not (isinstance(tol, (int, float, np.number)) and tol >= 0 and np.isfinite(tol)):
        raise InputError(f"`tol` must be finite and not negative; got {tol!r}")
    if max_passes is not None and not is_whole(max_passes, 1):
        raise InputError(f"`max_passes` is a positive integer, if it is given; got {max_passes!r}")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of the progress, or None; got {callback!r}")


def may_read_again(table: Table, left: int | None = None) -> bool:
    """Whether rows may be read again for what nobody asked for: a second figure, a reason or a comparison.

    ``left`` is the number of passes that are allowed, None for any. A pass over rows in parts takes long.
    """
    return table.held and (left is None or left >= LEAST_PASSES)


@dataclass(frozen=True, eq=False)
class Plan:
    """The settings of a tuning, by the names of `confmax.maximize`, which describes them.

    ``prove`` says whether to compute what the model says of a blend's rule: False where only the rule is of use.
    ``breaks_ties`` says whether single rows whose decisions tie are decided for accuracy. ``absent`` are the columns of
    classes that are never decided; None are those without weight in the labels of the table.

    >>> from confmax.solution import tune
    >>> from confmax.tables import make_table
    >>> table = make_table([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]], [0, 0, 1, 1])
    >>> plan = Plan.checked("balanced_accuracy", confusion="labels")
    >>> tune(plan.on(table)).value, tune(plan.but(metric=resolve("f1")).on(table)).value
    (1.0, 1.0)
    """

    metric: Metric
    constraints: tuple[Constraint, ...] = ()
    on_infeasible: str = "raise"
    confidence: float | None = None
    abstain: Any = False
    pos_label: Any = None
    confusion: str = "auto"
    calibration: Any = "auto"
    solver: Any = "auto"
    randomized: bool | str = "auto"
    tol: float = 1e-6
    max_passes: int | None = None
    random_state: int = 0
    callback: Callable[[Progress], Any] | None = None
    progress: bool | Bar = False
    prove: bool = True
    breaks_ties: bool = True
    absent: tuple[int, ...] | None = None
    columns: tuple[str, ...] = ()  # what the columns of probabilities are called, of rules that know it

    @classmethod
    def checked(
        cls,
        metric: str | Metric | Callable[[Array], float],
        *,
        constraints: Any = (),
        random_state: RandomState = 0,
        **settings: Any,
    ) -> Plan:
        """Return the plan of ``metric``, ``constraints``, ``random_state`` and other ``settings`` of `maximize`.

        A function as ``metric`` takes the confusion matrix (K, M). A ValueError for an unknown word, a number out of
        range, and for constraints that no table could make right.
        """
        plan = cls(resolve(metric), random_state=as_seed(random_state), **settings)
        plan._check_settings()
        wanted: tuple[Constraint, ...] = ()
        if constraints is not None and not (isinstance(constraints, tuple) and not constraints):
            from confmax.constraints import resolve as resolve_constraints

            wanted = resolve_constraints(constraints)
        if plan.on_infeasible not in ("raise", "closest"):
            raise ValueError(f"on_infeasible is 'raise' or 'closest'; got {plan.on_infeasible!r}")
        if plan.confidence is not None:
            check_confidence(plan.confidence, wanted)
        return plan.but(constraints=wanted) if wanted else plan

    def _check_settings(self) -> None:
        if self.confusion not in CONFUSIONS:
            raise ValueError(f"confusion must be one of {', '.join(CONFUSIONS)}; got {self.confusion!r}")
        check_calibration(self.calibration)
        drawn = self.randomized
        if not (isinstance(drawn, (bool, np.bool_)) or is_auto(drawn)):
            raise ValueError(f"randomized must be True, False or 'auto'; got {drawn!r}")
        check_search(self.tol, self.max_passes, self.callback)
        if not isinstance(self.progress, (bool, np.bool_, Bar)):
            raise ValueError(f"progress must be True or False; got {self.progress!r}")

    @property
    def abstains(self) -> bool:
        """Whether the rule may leave rows undecided."""
        return self.abstain is not False and self.abstain is not None

    @property
    def takes_threshold(self) -> bool:
        """Whether the solver may be that of thresholds on one class."""
        solver = self.solver
        if is_auto(solver) or isinstance(solver, str):
            return is_auto(solver) or solver == "class_threshold"
        from confmax.optimize.class_cuts import ClassThreshold

        return isinstance(solver, ClassThreshold)

    def but(self, **settings: Any) -> Plan:
        """Return the plan with other ``settings``, which are not checked again."""
        return replace(self, **settings)

    def _absent(self, table: Table) -> tuple[int, ...]:
        return absent_of(table) if self.absent is None else self.absent

    def on(self, table: Table, *, out_of_fold: Table | None = None, explicit: bool = True) -> Task:
        """Return the task of this plan on the rows of a checked ``table`` of raw probabilities (n, K).

        If these are a model's probabilities of its own training rows, ``out_of_fold`` holds the labelled out-of-fold
        probabilities of these rows. The calibration and the share of the model in a blend are then chosen on them, and
        the solution's ``label_value`` is computed on them. ``explicit`` says whether the order of the classes was
        given. Raise a ValueError if the metric or a constraint cannot be used on this table.
        """
        fitted = fit_metric(self.metric, table, explicit=explicit, barred=self._absent(table))
        return self.placed(fitted, table, out_of_fold=out_of_fold, explicit=explicit)

    def placed(self, metric: Metric, table: Table, *, out_of_fold: Table | None = None, explicit: bool = True) -> Task:
        """Return `on` for a ``metric`` that fits the ``table``; ``out_of_fold`` and ``explicit`` as there."""
        K = table.n_classes
        name = abstain_name(self.abstain, table.classes, metric.names and metric.names[1])
        self._refuse_further(() if name is None else (name,), ((metric.names and metric.names[1]) or ())[K:])
        limits = None
        if self.constraints:
            from confmax.constraints import bind

            limits = bind(
                self.constraints,
                table,
                explicit=explicit,
                pos_label=self.pos_label,
                n_decisions=metric.n_decisions(K) if name is None else K + 1,
                abstains=name is not None,
                barred=self._absent(table),
            )
        metric = with_abstaining(metric, table, limits, name)
        if limits is not None:
            # a rule that leaves every row undecided is no answer
            limits = replace(limits, needs_decisions=name is not None)
        return Task(self, metric, table, limits, name, out_of_fold)

    def _refuse_further(self, abstaining: Sequence[Any], further: Sequence[Any]) -> None:
        """Refuse a limit on a decision beside the classes: to abstain, or one ``further`` of a table of costs."""
        from confmax.constraints.across import ALL_ROWS

        for one in self.constraints:
            label = str(one.metric.label)
            if label in map(str, (*abstaining, *further)):
                is_rate = one.metric.formula == RATE and one.across == ALL_ROWS
                share = f"coverage {'<=' if one.is_floor else '>='} {number_text(round(1.0 - one.limit, 15))}"
                raise InputError(
                    f"{one.text}: {label} is no class, but a decision beside them",
                    ("" if abstaining else f"tune with `abstain={label!r}`, and ")
                    + f"limit the share of rows that are decided, {share if is_rate else 'coverage >= 0.9'}",
                )


@dataclass(frozen=True, eq=False)
class Task:
    """A plan on the rows of a table, with all that is placed there.

    Of a rule that may abstain, whose name of it is ``abstain``, the ``metric`` is that of the rows that it decides.
    ``raw`` holds raw probabilities (n, K). ``one_class`` is the class whose threshold answers the task, which
    `confmax.solution.tune` sets; the other parts are those of `Plan.on`.
    """

    plan: Plan
    metric: Metric
    raw: Table
    limits: Limits | None = None
    abstain: Any = None
    out_of_fold: Table | None = None
    one_class: int | None = None

    @property
    def n_decisions(self) -> int:
        """Between how many decisions its rules choose."""
        K = self.raw.n_classes
        # a metric of all rows, such as a rate, does not count that a rule may abstain
        return max(self.metric.n_decisions(K), K if self.abstain is None else K + 1)

    @property
    def absent(self) -> tuple[int, ...]:
        """The classes that its rules never decide: those that no row has, not even one of another fold."""
        return absent_of(self.raw) if self.plan.absent is None else self.plan.absent

    def but(self, **parts: Any) -> Task:
        """Return the task with other parts, such as ``limits`` or rows."""
        return replace(self, **parts)


def absent_of(table: Table) -> tuple[int, ...]:
    """Return the classes, or labels, without weight in the labels of a table; without labels none is known to be."""
    return tuple(np.flatnonzero(table.label_weight() <= ABSENT).tolist()) if table.has_labels else ()


def check_confidence(confidence: Any, wanted: Sequence[Constraint]) -> None:
    """Raise a ValueError for a ``confidence``, or constraints, that no rows can assure."""
    from confmax.constraints.smallest import is_tested

    if not (isinstance(confidence, (float, np.floating)) and 0.5 <= confidence < 1.0):
        raise InputError(f"`confidence` is a number from 0.5 to below 1, such as 0.9; got {confidence!r}")
    if not wanted:
        raise InputError(
            "`confidence` is how surely constraints hold on new rows", "pass `constraints=`, or leave it out"
        )
    others = [one for one in wanted if not is_tested(one.metric)]
    if others:
        *first, last = shares_of_rows()
        raise InputError(
            f"`confidence` tests shares of rows, and {metric_text(others[0].metric)} is none",
            f"limit {', '.join(first)} or {last}, or leave `confidence` out",
        )
