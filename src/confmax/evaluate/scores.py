"""The record of values, replicates and intervals that `confmax.score` returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np

from confmax import metrics as catalogue
from confmax.confusion import Array
from confmax.rule.counts import Counts

Record = TypeVar("Record", "Estimate", "Difference")
PLAIN = ("argmax", "p/prior")  # what others are compared with
ROUNDING = 1e-12  # of sums over parts of a mixture: a smaller difference is none
AS_GOOD = 0.005  # where the interval of a difference contains zero: its middle, below which nothing is gained


class Estimate(NamedTuple):
    """The value of a metric, and the interval of its bootstrap.

    Attributes
    ----------
    value : float
        On all rows.
    low, high : float or None
        Ends of the interval; None without replicates.
    """

    value: float
    low: float | None
    high: float | None


class Difference(NamedTuple):
    """One rule's value minus another's on the same rows, its interval, and how often it is greater.

    Attributes
    ----------
    value : float
        On all rows.
    low, high : float or None
        Ends of the interval; None without replicates.
    better : float or None
        Share of replicates, from 0 to 1, in which the rule's value is strictly greater.
    """

    value: float
    low: float | None
    high: float | None
    better: float | None


class LimitScore(NamedTuple):
    """What a rule makes of a limit that it was tuned within.

    Attributes
    ----------
    text : str
        The limit, such as "recall[a] >= 0.8".
    value : float or None
        What is limited, on all rows; None where the rows cannot judge it.
    low, high : float or None
        Ends of its interval; None without replicates.
    slack : float or None
        By how much the limit is kept, in the unit of the value; negative if it is missed.
    kept : bool or None
        None where the rows cannot judge the limit: no row has its class or label, or no groups were given.
    """

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    slack: float | None = None
    kept: bool | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """Values of metrics for rules on the same rows, with their bootstrap replicates.

    Attributes
    ----------
    metrics : tuple of str
        The m metrics, in the given order.
    rules : tuple of str
        The r rules: "argmax", "p/prior" and the given ones.
    values : ndarray (m, r)
        Values on all rows.
    replicates : ndarray (m, r, B)
        Values in each of B replicates, the same rows for all metrics and rules; NaN where the value is not finite.
    level : float
        Nominal coverage of the intervals.
    stratified : bool
        Whether each class kept its number of rows.
    n_rows : int
        Rows whose weight is not zero.
    absent : dict
        Classes of which some replicates have no row, and the share of these replicates.
    by_group : dict
        By the name of each group, the score of its rows, where groups were given.
    plain : tuple of str
        The rules that others are compared with: "argmax" and "p/prior", or of several labels "p > 0.5".
    limits : dict
        By the name of each rule that was tuned within limits, a `LimitScore` for each of them.
    tables : dict
        By its name, "costs" or "gains" of a metric that is a table of these.
    counts : dict
        By the name of each rule its `confmax.rule.counts.Counts`: a confusion matrix in rows, or where weights differ
        in sums of weights. Of a rule that draws they are expected.

    Notes
    -----
    The value of a table of costs is minus the mean cost of a row, so that it is to be high. What is printed, `to_dict`
    and `to_frame` show the cost itself, and a difference of costs is negative where the rule costs less.

    Intervals are percentile intervals: their ends are the values of rank ``floor((B + 1) (1 - level) / 2)`` from below
    and from above. Replicates without a finite value are left out.
    """

    metrics: tuple[str, ...]
    rules: tuple[str, ...]
    values: Array
    replicates: Array
    level: float
    stratified: bool
    n_rows: int
    absent: dict[Any, float]
    by_group: dict[Any, Score] = field(default_factory=dict)
    plain: tuple[str, ...] = PLAIN
    limits: dict[str, tuple[LimitScore, ...]] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)

    @property
    def n_replicates(self) -> int:
        """Number of replicates B."""
        return self.replicates.shape[2]

    @property
    def method(self) -> str:
        """The kind of the intervals, in words."""
        rows = "rows of each class" if self.stratified else "rows"
        return f"{self.level:.4g} percentile intervals of {self.n_replicates} bootstrap replicates of {rows}"

    def estimate(self, rule: str, metric: str | None = None) -> Estimate:
        """Return the value of ``rule`` with its interval; ``metric`` may be left out where there is only one.

        Raises
        ------
        ValueError
            If there is no such rule or metric.
        """
        m = self._metric(metric)
        r = self._rule(rule)
        return Estimate(float(self.values[m, r]), *percentiles(self.replicates[m, r], self.level))

    def difference(self, rule: str, to: str | None = None, metric: str | None = None) -> Difference:
        """Return the value of ``rule`` minus that of ``to`` by ``metric``, paired: on the same rows of every replicate.

        By default ``to`` is the first of the plain rules: "argmax", or of several labels "p > 0.5".

        Raises
        ------
        ValueError
            If there is no such rule or metric.
        """
        m = self._metric(metric)
        r = self._rule(rule)
        base = self._rule(self.plain[0] if to is None else to)
        drawn = self.replicates[m, r] - self.replicates[m, base]
        # a difference of two infinite values, or of replicates that lack a class, says nothing of either rule
        known = drawn[np.isfinite(drawn)]
        better = float(np.mean(known > 0)) if len(known) else None
        value = float(self.values[m, r])
        other = float(self.values[m, base])
        value = value - other if math.isfinite(value) and math.isfinite(other) else math.nan
        return Difference(value, *percentiles(drawn, self.level), better)

    def unit_of(self, metric: str) -> str | None:
        """Return what people read in the place of a metric that is a table of costs or gains, None for others."""
        table = self.tables.get(metric)
        return table and f"{table.removesuffix('s')} of a row"

    def shown(self, record: Record, metric: str) -> Record:
        """Return an estimate or a difference of a ``metric`` as people read it: that of a table of costs is negated."""
        if self.tables.get(metric) != "costs":
            return record
        low, high = (None if end is None else 0.0 - end for end in (record.high, record.low))
        return record._replace(value=0.0 - record.value, low=low, high=high)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the replicates as plain values that JSON can hold; None for non-finite numbers."""
        by_metric: dict[str, Any] = {metric: {} for metric in self.metrics}
        for metric, rule in product(self.metrics, self.rules):
            minus = {
                base: _plain(self.shown(self.difference(rule, base, metric), metric))
                for base in self._references()
                if base != rule
            }
            by_metric[metric][rule] = {**_plain(self.shown(self.estimate(rule, metric), metric)), "minus": minus}
        groups = {str(name): part.to_dict() for name, part in self.by_group.items()}
        return {
            "method": self.method if self.n_replicates else None,
            "level": self.level,
            "n_replicates": self.n_replicates,
            "stratified": self.stratified,
            "n_rows": self.n_rows,
            "absent": {str(name): share for name, share in self.absent.items()},
            "metrics": by_metric,
            "counts": {rule: one.to_dict() for rule, one in self.counts.items()},
            **({"groups": groups} if groups else {}),
            **(
                {"limits": {rule: [_plain(one) for one in found] for rule, found in self.limits.items()}}
                if self.limits
                else {}
            ),
        }

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per metric and rule, and differences in columns such as "minus argmax".

        Raises
        ------
        ImportError
            Without pandas.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas; install it, or use to_dict()") from None
        parts = [({}, self), *(({"group": name}, part) for name, part in self.by_group.items())]
        lines = []
        for head, metric, rules in (
            (head, metric, rules) for head, part in parts for metric, rules in part.to_dict()["metrics"].items()
        ):
            for rule, record in rules.items():
                minus = {
                    f"minus {base}" + ("" if key == "value" else f", {key}"): number
                    for base, difference in record.pop("minus").items()
                    for key, number in difference.items()
                }
                lines.append({**head, "metric": metric, "rule": rule, **record, **minus})
        return pd.DataFrame(lines)

    def __repr__(self) -> str:
        method = self.method if self.n_replicates else "no replicates"
        lines = [f"Score on {self.n_rows} rows ({method})"]
        references = self._references()
        widths = [max(len(text) for text in ("rule", *self.rules)) + 4, 27, *(41 for _ in references)]
        for metric in self.metrics:
            table = [[self.unit_of(metric) or metric, "value", *(f"minus {base}" for base in references)]]
            for rule in self.rules:
                minus = [
                    "" if base == rule else _shown(self.shown(self.difference(rule, base, metric), metric))
                    for base in references
                ]
                table.append(["  " + rule, _shown(self.shown(self.estimate(rule, metric), metric)), *minus])
            widths[0] = max(widths[0], len(metric) + 2)
            for cells in table:
                line = "".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))
                lines.append("  " + line.rstrip())
        for rule, found in self.limits.items():
            lines += [f"  limits of {rule}", *(f"    {_of_limit(one)}" for one in found)]
        for name, part in self.by_group.items():
            lines += [f"Group {name}: {part.n_rows} rows", *repr(part).split("\n")[1:]]
        return "\n".join(lines)

    def _references(self) -> tuple[str, ...]:
        return tuple(name for name in self.plain if name in self.rules)

    def _metric(self, metric: str | None) -> int:
        if metric is None and len(self.metrics) == 1:
            return 0
        name = catalogue.aliases().get(metric or "", metric)
        if name not in self.metrics:
            raise ValueError(f"metric is one of {', '.join(self.metrics)}; got {metric!r}")
        return self.metrics.index(name)

    def _rule(self, rule: str) -> int:
        if rule not in self.rules:
            raise ValueError(f"the rules are {', '.join(self.rules)}; got {rule!r}")
        return self.rules.index(rule)


def lacking(result: Score) -> list[tuple[Any, float]]:
    """Return the classes that more replicates lack than lie beyond an end of an interval, with shares, rarest first."""
    rare = [item for item in result.absent.items() if item[1] > (1 - result.level) / 2]
    return sorted(rare, key=lambda item: -item[1])


def verdict_of(minus: Difference) -> str:
    """Return "better", "worse", "unclear" (chance could do it), "same" or "unknown".

    Replicates that lack a class take metrics of the recalls over the others, so that an interval may lie on one side of
    zero where the difference itself does not: then it says nothing about the difference.
    """
    value = minus.value
    low = minus.low
    high = minus.high
    if not np.isfinite(value) or low is None or high is None:
        return "unknown"
    if max(abs(value), abs(low), abs(high)) <= ROUNDING:
        return "same"
    if min(value, low) > ROUNDING:
        return "better"
    return "worse" if max(value, high) < -ROUNDING else "unclear"


def as_good(minus: Difference) -> str:
    """Return "as good", "at least as good" or "": what the other one is, by the difference of the rule and it.

    It is as good if the interval contains zero and its middle is below 0.005, at least as good if the middle is below
    -0.005. Then nothing speaks for the rule, which had to be tuned.
    """
    if minus.low is None or minus.high is None or not (np.isfinite(minus.value) and holds_zero(minus)):
        return ""
    middle = (minus.low + minus.high) / 2
    if middle < -AS_GOOD:
        return "at least as good"
    return "as good" if middle < AS_GOOD else ""


def holds_zero(minus: Difference) -> bool:
    """Return whether there is an interval of a difference and it contains zero, up to rounding."""
    return minus.low is not None and minus.high is not None and minus.low <= ROUNDING and minus.high >= -ROUNDING


def percentiles(drawn: Array, level: float) -> tuple[float | None, float | None]:
    """Return the percentile interval of values (B,), those that are not finite left out."""
    known = np.sort(drawn[np.isfinite(drawn)])
    if not len(known):
        return None, None
    # the product may miss a whole number by rounding
    rank = max(1, math.floor((len(known) + 1) * (1 - level) / 2 + 1e-9))
    return float(known[rank - 1]), float(known[-rank])


def _plain(record: Estimate | Difference | LimitScore) -> dict[str, Any]:
    return {
        key: None if isinstance(number, float) and not math.isfinite(number) else number
        for key, number in record._asdict().items()
    }


def _of_limit(one: LimitScore) -> str:
    """Return the line of a limit: its text, the value, and whether it is kept."""
    if one.value is None or one.slack is None:
        return f"{one.text}: cannot be judged on these rows"
    kept = kept_or_missed(one.kept, one.slack)
    return f"{one.text}: {_shown(Estimate(one.value, one.low, one.high))}; kept: {kept}"


def kept_or_missed(kept: bool | None, slack: float | None) -> str:
    """Return whether a limit is kept, and by how much it is missed if it is not, in words."""
    if kept is None or slack is None:
        return "cannot be judged"
    return "yes" if kept else f"no, missed by {-slack:.2g}"


def _shown(record: Estimate | Difference) -> str:
    sign = "+" if isinstance(record, Difference) else ""
    text = f"{record.value:{sign}.4f}"
    if record.low is not None:
        text += f" [{record.low:{sign}.4f}, {record.high:{sign}.4f}]"
    if isinstance(record, Difference) and record.better is not None:
        text += f" better {record.better:.0%}"
    return text
