"""Rules that may abstain: one decision more than classes, and a metric of the rows that are decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confmax.errors import InputError
from confmax.metrics import Metric
from confmax.metrics.decided import of_decided
from confmax.tables import Table
from confmax.tables.labels import plain

if TYPE_CHECKING:
    from confmax.constraints import Limits

# what a rule decides where it leaves a row, beside names and beside numbers
NAME = "abstain"
NUMBER = -1


def abstain_name(abstain: Any, classes: Sequence[Any], decisions: Sequence[Any] | None = None) -> Any:
    """Return what a rule decides where it abstains; None if it decides every row.

    ``abstain`` is what `maximize` is given: a name, True for ``"abstain"`` beside names and -1 beside integers, or
    False. A table of costs names all ``decisions``. Raise a ValueError if a class has this name, or it is no name.

    >>> abstain_name(True, ["no", "yes"]), abstain_name(True, [0, 1]), abstain_name("later", [0, 1])
    ('abstain', -1, 'later')
    """
    if abstain is False or abstain is None:
        return None
    names = [plain(name) for name in classes]
    if abstain is True:
        if decisions is not None and len(decisions) == len(names) + 1:
            return plain(decisions[-1])
        whole = all(isinstance(name, int) for name in names)
        name: Any = NUMBER if whole else NAME
    else:
        name = plain(abstain)
    if isinstance(name, bool) or not isinstance(name, (str, int, float)) or name == "":
        kind = "a name" if isinstance(abstain, str) else "True or a name"
        raise InputError(f"`abstain` is {kind} for the decision, such as 'abstain'; got {abstain!r:.60}")
    if str(name) in map(str, names):
        raise InputError(f"a class is called {name!r}", "give abstaining another name, such as `abstain='undecided'`")
    return name


def with_abstaining(metric: Metric, table: Table, limits: Limits | None, name: Any) -> Metric:
    """Return a metric, placed on a ``table``, of the rows that a rule with the ``limits`` decides.

    ``name`` is that of abstaining; None, and the metric stays as it is. Raise a ValueError if the best rule would
    abstain from nearly all rows, or the metric has no value for abstaining.
    """
    K = table.n_classes
    classes = tuple(table.classes)
    if name is None:
        if metric.formula.is_coverage:
            raise InputError(
                "coverage is the share of rows that are decided", "pass `abstain=True`, or maximise another metric"
            )
        return metric
    if metric.gain is not None:
        if metric.n_decisions(K) != K + 1:
            raise ValueError(
                f"the table of {metric.name} has {metric.n_decisions(K)} decisions and there are {K} classes; give it "
                f"one more column, what abstaining costs or gains"
            )
        given = metric.names and metric.names[1]
        if given and str(given[-1]) != str(name):
            raise InputError(
                f"the table of {metric.name} names its further decision {given[-1]!r}, and `abstain` is {name!r}",
                "use one name",
            )
        return replace(metric, names=(classes, (*classes, name)))
    from confmax.constraints import least_coverage

    least, of_classes = least_coverage(limits, K)
    if metric.formula.is_coverage:
        if limits is None:
            raise InputError(
                "coverage is largest if every row is decided",
                "limit what is decided, such as `constraints='accuracy >= 0.95'`",
            )
    elif not (least > 0.0 or any(of_classes)):
        raise InputError(
            f"the {metric.title} of what is decided is largest if next to nothing is decided",
            f"set a floor, such as `constraints='coverage >= 0.8'`, or maximise coverage with a floor on {metric.name}",
        )
    found = of_decided(metric.finite(table.n_rows), K, least, of_classes)
    return replace(found, names=(None, (*classes, name)), binary=False)
