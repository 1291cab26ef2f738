"""The record of values, replicates and intervals that `confmax.score` returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from confmax import metrics as catalogue
from confmax.confusion import Array
from confmax.evaluate.verdict import Difference, Estimate, LimitScore, Record, Verdict, negated, plain_values, verdict
from confmax.evaluate.words import in_words
from confmax.metrics import Metric
from confmax.rule.counts import Counts

PLAIN = ("argmax", "p/prior")  # what others are compared with


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
    verdicts : dict
        By the name of each given rule, what these rows say of it beside what it competes with (`Verdict`).
    beside : dict
        By the name of a rule that abstains, and by metric, the rules that others than ``plain`` it is compared with:
        on as many rows as it decides.
    resampled : str
        What a replicate draws: "rows", or of very many rows with several labels "lots of rows", into which a hash of
        their content divides them (`confmax.evaluate.label_lines`).

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
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    beside: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    resampled: str = "rows"

    @property
    def n_replicates(self) -> int:
        """Number of replicates B."""
        return self.replicates.shape[2]

    @property
    def method(self) -> str:
        """The kind of the intervals, in words."""
        rows = "rows of each class" if self.stratified else self.resampled
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
        return Estimate(float(self.values[m, r]), *percentiles(self.drawn(rule, metric), self.level))

    def drawn(self, rule: str, metric: str | None = None) -> Array:
        """Return the replicates (B,) of ``rule`` by ``metric``; both, and the ValueError, are those of `estimate`."""
        return self.replicates[self._metric(metric), self._rule(rule)]

    def difference(self, rule: str, to: str | None = None, metric: str | None = None) -> Difference:
        """Return the value of ``rule`` minus that of ``to`` by ``metric``, paired: on the same rows of every replicate.

        By default ``to`` is the first of those that the rule is compared with: "argmax", of a rule that abstains
        "Chow's rule", or of several labels "p > 0.5".

        Raises
        ------
        ValueError
            If there is no such rule or metric.
        """
        m = self._metric(metric)
        r = self._rule(rule)
        base = self._rule(self.references(rule, self.metrics[m])[0] if to is None else to)
        drawn = self.replicates[m, r] - self.replicates[m, base]
        # a difference of two infinite values, or of replicates that lack a class, says nothing of either rule
        known = drawn[np.isfinite(drawn)]
        better = float(np.mean(known > 0)) if len(known) else None
        value = float(self.values[m, r])
        other = float(self.values[m, base])
        value = value - other if math.isfinite(value) and math.isfinite(other) else math.nan
        return Difference(value, *percentiles(drawn, self.level), better)

    def unit_of(self, metric: str) -> str | None:
        """Return what people read in the place of a ``metric`` that is a table of costs or gains, None for others."""
        table = self.tables.get(metric)
        return table and f"{table.removesuffix('s')} of a row"

    def shown(self, record: Record, metric: str) -> Record:
        """Return a ``record`` of a ``metric``, an estimate or a difference, as people read it: negated of costs."""
        return negated(record) if self.tables.get(metric) == "costs" else record

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the replicates as plain values that JSON can hold; None for non-finite numbers."""
        by_metric: dict[str, Any] = {metric: {} for metric in self.metrics}
        for metric, rule in product(self.metrics, self.rules):
            minus = {
                base: plain_values(self.shown(self.difference(rule, base, metric), metric))
                for base in self.references(rule, metric)
                if base != rule
            }
            by_metric[metric][rule] = {
                **plain_values(self.shown(self.estimate(rule, metric), metric)),
                "minus": minus,
            }
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
                {"limits": {rule: [plain_values(one) for one in found] for rule, found in self.limits.items()}}
                if self.limits
                else {}
            ),
            **({"verdicts": {rule: one.to_dict() for rule, one in self.verdicts.items()}} if self.verdicts else {}),
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
        every = [self.references(rule, metric) for rule in self.rules for metric in self.metrics]
        references = list(dict.fromkeys(name for some in every for name in some))
        widths = [max(len(text) for text in ("rule", *self.rules)) + 4, 27, *(41 for _ in references)]
        for metric in self.metrics:
            table = [[self.unit_of(metric) or metric, "value", *(f"minus {base}" for base in references)]]
            for rule in self.rules:
                known = set(self.references(rule, metric)) - {rule}
                minus = [
                    _shown(self.shown(self.difference(rule, base, metric), metric)) if base in known else ""
                    for base in references
                ]
                table.append(["  " + rule, _shown(self.shown(self.estimate(rule, metric), metric)), *minus])
            widths[0] = max(widths[0], len(metric) + 2)
            for cells in table:
                line = "".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))
                lines.append("  " + line.rstrip())
        for rule, found in self.limits.items():
            lines += [f"  limits of {rule}", *(f"    {_of_limit(one)}" for one in found)]
        for rule, one in self.verdicts.items():
            of = self.unit_of(one.metric) or one.metric
            lines.append(f"  by {of}: {in_words(one, rule) or 'nothing can be said without intervals'}")
        for name, part in self.by_group.items():
            lines += [f"Group {name}: {part.n_rows} rows", *repr(part).split("\n")[1:]]
        return "\n".join(lines)

    def references(self, rule: str, metric: str) -> tuple[str, ...]:
        """Return the names of what a ``rule`` is compared with by a ``metric``, the simplest first."""
        plain = tuple(name for name in self.plain if name in self.rules)
        return self.beside.get(rule, {}).get(metric, plain)

    def verdict(
        self,
        rule: str,
        metric: Metric,
        rivals: Mapping[str, tuple[str, ...]],
        limits: Sequence[LimitScore] = (),
        same: str | None = None,
        key: str | None = None,
    ) -> Verdict:
        """Return the verdict on a rule of this score.

        `verdicts` holds those of the given rules.

        Parameters
        ----------
        rule : str
            Its name.
        metric : Metric
            What it was tuned for.
        rivals : mapping
            By the name of each rule that it competes with, the limits of the rule that this one misses.
        limits : sequence of LimitScore
            What the rule makes of its limits.
        same : str or None
            The rival that decides as the rule does, if one does.
        key : str or None
            The name of the metric in this score, by default its text.

        Raises
        ------
        ValueError
            If there is no such rule or metric.
        """
        name = repr(metric) if key is None else key
        found = [
            (one, self.estimate(one, name), self.difference(rule, one, name), missed) for one, missed in rivals.items()
        ]
        costs = metric.is_cost
        relative = metric.gain is not None
        return verdict(name, self.estimate(rule, name), found, limits, same=same, relative=relative, costs=costs)

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


def percentiles(drawn: Array, level: float) -> tuple[float | None, float | None]:
    """Return the percentile interval of values (B,), those that are not finite left out."""
    known = np.sort(drawn[np.isfinite(drawn)])
    if not len(known):
        return None, None
    # the product may miss a whole number by rounding
    rank = max(1, math.floor((len(known) + 1) * (1 - level) / 2 + 1e-9))
    return float(known[rank - 1]), float(known[-rank])


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
        # how often, which is no verdict
        text += f" above {record.better:.0%}"
    return text
