"""What the class shares of other rows are held against: those of the rows that a rule was tuned on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from confmax.calibration.shifted import before_shift
from confmax.confusion import Array
from confmax.errors import InputError
from confmax.rule import DecisionRule
from confmax.rule.shares import SourceShares
from confmax.shift.likelihood import worth
from confmax.tables import Table, make_table

if TYPE_CHECKING:
    from confmax.rule.labels import LabelRule

PROBABILITIES = "of an estimator the new rows are estimator.predict_proba(X), and not the features X"


class Source(NamedTuple):
    """What class shares are held against: names of the classes, the calibrator, and the shares of the tuning rows.

    ``rows`` are the tuning rows with labels, calibrated, where they are given. ``of_estimator`` says that an estimator
    was given, whose users have features at hand.
    """

    classes: tuple[Any, ...]
    calibrator: Any
    shares: SourceShares
    rows: Table | None
    of_estimator: bool = False

    def raw(self, proba: Any, sample_weight: Any = None) -> Table:
        """Return the table of new rows ``proba`` (n, K) as they come."""
        try:
            return make_table(proba, None, sample_weight, self.classes, stated=True)
        except InputError as error:
            if not self.of_estimator or error.argument not in ("proba", None):
                raise
            remedy = f"{error.remedy.marked}; " if error.remedy else ""
            raise InputError(error.problem.marked, remedy + PROBABILITIES, error.argument) from None

    def table(self, proba: Any, sample_weight: Any = None) -> Table:
        """Return the calibrated table of new rows ``proba`` (n, K)."""
        return self.raw(proba, sample_weight).calibrated(self.calibrator)


def label_rule_of(source: Any) -> LabelRule | None:
    """Return the rule of several labels per row of a solution, a rule or a fitted estimator; None if it is none."""
    from confmax.rule.labels import LabelRule

    rule = getattr(source, "rule", getattr(source, "rule_", source))
    return rule if isinstance(rule, LabelRule) else None


def source_of(source: Any, tuned_on: Sequence[Any] | None = None, *, of_groups: bool = False) -> Source:
    """Return what shares are held against, of a solution, a rule or a fitted estimator; a ValueError if it is none.

    Rules that decide by groups are refused, unless ``of_groups`` says that the shares of all rows are meant.
    """
    from confmax.rule.labels import LabelRule

    rule = getattr(source, "rule", getattr(source, "rule_", source))
    if not isinstance(rule, DecisionRule):
        raise InputError(
            f"`source` is a solution, a rule for one class per row, or a fitted estimator; got {type(source).__name__}",
            "use estimate_priors for a rule of several labels" if isinstance(rule, LabelRule) else "",
        )
    if rule.groups and not of_groups:
        raise InputError(
            "the rule decides by groups, whose shares may change each by itself", "tune a rule on rows of the new kind"
        )
    names = rule.class_names[: rule.n_classes]
    calibrator = before_shift(rule.calibrator)
    rows = None
    shares = rule.shares
    if tuned_on is not None:
        raw = tuning_table(tuned_on, names)
        rows = raw.calibrated(calibrator)
        if shares is None:
            shares = SourceShares(tuple(rows.mean_probability()), worth(raw)[0])
    if shares is None:
        raise InputError(
            "the rule does not know the class shares of its tuning rows (rules that were made by hand do not)",
            "pass `tuned_on=(proba, y)`, or tune it again",
        )
    return Source(names, calibrator, shares, rows, getattr(source, "rule_", None) is rule)


def tuning_table(tuned_on: Sequence[Any], names: Sequence[Any]) -> Table:
    """Return the checked table of the tuning rows (proba, y) or (proba, y, sample_weight)."""
    if not (isinstance(tuned_on, (tuple, list)) and len(tuned_on) in (2, 3)):
        raise InputError("`tuned_on` is (proba, y) or (proba, y, sample_weight), the rows that the rule was tuned on")
    proba, y, weight = (*tuned_on, None)[:3]
    table = make_table(proba, y, weight, tuple(names), stated=True)
    if not table.has_labels:
        raise InputError("`tuned_on` needs the true classes of its rows", "pass (proba, y)")
    return table.sample


def shares_of(calibrator: Any, raw: Table, decided: Array, known: Array | None = None) -> SourceShares:
    """Return the record of tuning rows, a table of ``raw`` probabilities, and of what is ``decided`` there (M,).

    ``known`` are the mean calibrated probabilities (K,), where they are. Of rows in parts the sample is read.
    """
    rows = raw.sample
    if known is None:
        known = rows.calibrated(before_shift(calibrator)).mean_probability()
    return SourceShares(_as_shares(known), worth(rows)[0] * raw.n_rows / rows.n_rows, _as_shares(decided))


def _as_shares(values: Array) -> tuple[float, ...]:
    shares = np.maximum(values, 0.0)
    return tuple((shares / shares.sum()).tolist())
