"""The value of rules of several labels on labelled rows, with bootstrap intervals.

Rows may be in memory or in parts: every answer is made of `confmax.evaluate.label_lines`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.constraints import Constraint, resolve
from confmax.constraints.labels import judged_labels, place_of
from confmax.constraints.limits import Limits
from confmax.constraints.outcomes import rounded
from confmax.errors import InputError
from confmax.evaluate.decided import in_rows
from confmax.evaluate.label_lines import JudgedLabels, judge_labels
from confmax.evaluate.label_rivals import Folds, Rivals, label_rivals
from confmax.evaluate.scores import Score, percentiles
from confmax.evaluate.seen import doubt_of_rows
from confmax.evaluate.verdict import ROUNDING, LimitScore, Verdict
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.metrics.labels import each_of, is_mean
from confmax.rule.labels import LabelRule
from confmax.tables import Part, Table
from confmax.tables.columns import find, warn
from confmax.tables.several import encoded, labels_table, plain_matrix

NAMED = 5  # labels that a warning names


def score_labels(
    metric: Any,
    proba: Any,
    y: Any,
    judged: Mapping[str, Any],
    *,
    sample_weight: Any = None,
    classes: Sequence[Any] | None = None,
    **settings: Any,
) -> Score:
    """Return metrics of rules of several labels, and of what is decided without a rule.

    ``metric`` is one or a list, as `confmax.metrics.labels.resolve` takes them; ``judged`` are `LabelRule`s, and
    decisions of 0 and 1 (n, L), by name. ``settings`` are the bootstrap's: ``n_replicates``, ``level`` and ``seed``.
    """
    rules = [rule for rule in judged.values() if isinstance(rule, LabelRule)]
    table = labels_table(
        rules[0].decisions,
        proba,
        y,
        sample_weight,
        rules[0].class_names if classes is None else classes,
        stated=classes is not None,
    )
    check_labelled(table, "score")
    several = not (isinstance(metric, (str, Metric)) or callable(metric))
    wanted = [label_metrics.resolve(one, None) for one in (metric if several else [metric])]
    rivals = label_rivals(table, [rule.decisions for rule in rules], settings["seed"])
    found = judge_labels(table, partial(labels_decided, rivals, judged))
    warn(absent_labels(table))
    warn(doubt_of_rows({name: one for name, one in judged.items() if isinstance(one, LabelRule)}, table))
    limits = {name: limits_of(rule, table) for name, rule in judged.items() if getattr(rule, "constraints", ())}
    used = {repr(one): label_metrics.sized(one, table.n_rows) for one in wanted}
    by = {name: judged_by(rule, table) or next(iter(used.values())) for name, rule in judged.items()}
    every = {**used, **{repr(one): one for one in by.values()}}
    score = compare_labels(found, every, plain=rivals.names_on(table), limits=limits, **settings)
    verdicts = {name: label_verdict(score, name, metric, found, limits.get(name)) for name, metric in by.items()}
    m = len(used)
    return replace(
        score, metrics=tuple(used), values=score.values[:m], replicates=score.replicates[:m], verdicts=verdicts
    )


def judged_by(rule: Any, table: Table) -> Metric | None:
    """Return the metric that a rule was tuned for, on the rows of a ``table``; None where there is none."""
    metric = named_label_metric(getattr(rule, "metric", ""))
    return metric and label_metrics.sized(metric, table.n_rows)


def named_label_metric(text: str) -> Metric | None:
    """Return the metric that the file of a rule of several labels names; None for functions, and what is not known."""
    name, _, rest = text.partition("(")
    params = dict(part.split("=", 1) for part in rest.rstrip(")").split(", ") if "=" in part)
    try:
        return label_metrics.get(name, None, **{key: float(value) for key, value in params.items()})
    except ValueError:
        return None


def label_verdict(
    score: Score,
    rule: str,
    metric: Metric,
    judged: JudgedLabels,
    limits: Judgeable | None = None,
    key: str | None = None,
) -> Verdict:
    """Return the verdict on a ``rule`` of the ``score`` of what was ``judged``, by a ``metric``.

    Its rivals are judged by its ``limits``, too. The score has the metric by its text, or by the ``key``.
    """
    within = None if limits is None else limits.limits
    missed: dict[str, tuple[str, ...]] = dict.fromkeys(score.plain, ())
    if within is not None:
        for name in score.plain:
            slacks = rounded(within.slacks(judged.whole[name][0]), ROUNDING)
            missed[name] = tuple(text for text, slack in zip(within.texts, slacks, strict=True) if slack < 0.0)
    same = next((one for one in score.plain if judged.decide_alike(one, rule)), None)
    return score.verdict(rule, metric, missed, score.limits.get(rule, ()), same, key)


@dataclass(frozen=True, eq=False)
class Judgeable:
    """Limits that labelled rows can judge, None if there are none, and the texts of those that they cannot."""

    limits: Limits | None
    absent: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of all limits."""
        return (*(() if self.limits is None else self.limits.texts), *self.absent)

    def values(self, S: Confusion) -> Array:
        """Return what is limited (..., n) at statistics ``S``; NaN where no row has a label."""
        assert self.limits is not None
        values = self.limits.values(S)
        for j, one in enumerate(self.limits.constraints):
            if (place := place_of(one)) is not None and one.metric.divides_by_prior:
                values[..., j] = np.where(S.rows[..., place] > 0.0, values[..., j], np.nan)
        return values

    def scores(self, S: Confusion, drawn: Array, level: float) -> tuple[LimitScore, ...]:
        """Return what became of the limits at statistics ``S``, with intervals of replicates ``drawn`` (n, B)."""
        absent = tuple(map(LimitScore, self.absent))
        if self.limits is None:
            return absent
        found = zip(
            self.limits.texts,
            self.limits.values(S).tolist(),
            drawn,
            rounded(self.limits.slacks(S), ROUNDING).tolist(),
            strict=True,
        )
        return (
            tuple(
                _limit_score(text, value, percentiles(each, level), slack, one.limit)
                for (text, value, each, slack), one in zip(found, self.limits.constraints, strict=True)
            )
            + absent
        )


def _limit_score(
    text: str, value: float, ends: tuple[float | None, float | None], slack: float, limit: float
) -> LimitScore:
    low, high = ends
    unsure = low is not None and high is not None and low <= limit <= high
    return LimitScore(text, value, low, high, slack, slack >= 0.0, unsure)


def limits_of(rule: LabelRule, table: Table, further: Sequence[Constraint] = ()) -> Judgeable:
    """Return the limits that a rule was tuned within, behind ``further`` ones, on the labels of a ``table``."""
    known = [one.text for one in further]
    own = [one for one in resolve(rule.constraints) if one.text not in known]
    return limits_on((*further, *own), rule.class_names, table)


def limits_on(constraints: Any, names: tuple[Any, ...], table: Table) -> Judgeable:
    """Return limits of a rule whose labels have these ``names``, on the labels of a ``table``."""
    # labels of a rule without names are numbers
    known = names if names == tuple(range(table.n_classes)) else table.classes
    return Judgeable(*judged_labels(constraints, known, table.label_weight()))


def check_labelled(table: Table, what: str) -> None:
    """Refuse, by a ValueError, a table of several labels without these, which ``what`` counts."""
    if not table.has_labels:
        raise InputError(f"{what} counts labels", "pass `y=`, the labels of every row, or open the table with `label=`")


def absent_labels(table: Table) -> str:
    """Return a warning of labels that no row of a ``table`` has; empty if there are none."""
    absent = [repr(table.classes[k]) for k in np.flatnonzero(table.label_weight() == 0.0)]
    if not absent:
        return ""
    more = f" and {len(absent) - NAMED} more" if len(absent) > NAMED else ""
    return f"no row has the label {', '.join(absent[:NAMED])}{more}: metrics leave such labels out"


def labels_decided(
    rivals: Rivals, rules: Mapping[str, Any], part: Part, *, called: str | None = None
) -> dict[str, Array]:
    """Return what ``rules`` decide for the rows of a ``part``, behind their ``rivals``, by name (n, L).

    Errors say how the rules are ``called``, by default by their names.
    """
    return {**rivals(part), **{name: decided_labels(called or name, rule, part) for name, rule in rules.items()}}


def decided_labels(name: str, rule: Any, part: Part) -> Array:
    """Return the probability (n, L) with which a rule gives each label, in the order of the columns of a ``part``.

    On sparse rows rules decide as `predict` does.
    """
    L = part.n_classes
    if not isinstance(rule, LabelRule):
        if getattr(rule, "class_names", None) is not None:
            raise InputError(f"the rule {name!r} decides one class for every row, and another one several labels")
        return encoded(rule, part.classes, part.n_rows).astype(np.float64)
    places: Sequence[int] | None = range(L)
    if rule.class_names not in (part.classes, tuple(range(L))):
        places = find([str(one) for one in part.classes], rule.class_names).places
    if places is None or rule.n_classes != L:
        raise InputError(
            f"the rule {name!r} decides the labels {list(rule.class_names)[:8]} and the table has "
            f"{list(part.classes)[:8]}",
            "pass the columns that it was tuned on, or `classes=` with their names",
        )
    out = np.empty(part.proba.shape)
    out[:, list(places)] = plain_matrix(rule.decision_probabilities(part.proba[:, list(places)]))
    return out


def decided_by_folds(rules: Sequence[LabelRule], folds: Folds, part: Part) -> Array:
    """Return the probability (n, L) with which ``rules[k]`` gives each label to the rows of fold k of a ``part``."""
    out = np.empty(part.proba.shape)
    fold = folds(part)
    for k, rule in enumerate(rules):
        out[fold == k] = decided_labels(f"without fold {k + 1}", rule, part.take(fold == k))
    return out


def compare_labels(
    judged: JudgedLabels,
    metrics: Mapping[str, Metric],
    *,
    plain: tuple[str, ...],
    limits: Mapping[str, Judgeable] | None = None,
    n_replicates: int,
    level: float = 0.95,
    seed: int = 0,
) -> Score:
    """Return the score of rules that were ``judged`` on a labelled table, by ``metrics``; both by name.

    The rules ``plain`` are those that others are compared with, and ``limits`` those of some rules, by their names.
    """
    table = judged.table
    present = table.label_weight() > 0.0
    if not present.any():
        raise InputError("no row has any label in `y`", "add rows that have labels")
    counted = tuple(np.flatnonzero(present).tolist())
    placed = [one if one.classes is not None else replace(one, classes=counted) for one in metrics.values()]
    whole = judged.whole
    values = np.array([[_values(one, S)[0] for S in whole.values()] for one in placed])
    rules = judged.rules
    drawn = np.empty((len(placed), len(rules), n_replicates))
    kept = {name: one for name, one in (limits or {}).items() if one.limits is not None}
    reached = {name: np.empty((len(one.limits), n_replicates)) for name, one in kept.items() if one.limits}
    absent = np.zeros(table.n_classes)
    start = 0
    for counts in judged.replicates(n_replicates, seed):
        every = judged.of(counts)
        stop = start + len(counts)
        drawn[:, :, start:stop] = [[_values(one, S) for S in every] for one in placed]
        for name, one in kept.items():
            reached[name][:, start:stop] = one.values(every[rules.index(name)]).T
        absent += (every[0].rows == 0.0).sum(axis=0)
        start = stop
    drawn[~np.isfinite(drawn)] = np.nan
    lost = {table.classes[k]: float(absent[k] / n_replicates) for k in np.flatnonzero(present & (absent > 0))}
    none = np.empty((0, n_replicates))
    found = {name: one.scores(whole[name][0], reached.get(name, none), level) for name, one in (limits or {}).items()}
    counted_rows = {name: in_rows(S[0], table, table.classes, table.classes) for name, S in whole.items()}
    return Score(
        *(tuple(metrics), rules, values, drawn, level, False, judged.n_rows, lost),
        plain=plain,
        limits=found,
        counts=counted_rows,
        resampled=judged.resampled,
    )


def _values(metric: Metric, S: Confusion) -> NDArray[Any]:
    """Return the values (B,) at a batch; of a mean that divides by how often labels are true, over those with rows."""
    if not metric.divides_by_prior or not is_mean(metric):
        return metric.values(S)
    S = S.select(np.array(metric.classes))
    present = S.rows > 0.0
    each = np.where(present, each_of(metric, S), 0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(each.sum(axis=-1) / present.sum(axis=-1))
