"""The value of rules of several labels on labelled rows, with bootstrap intervals.

A row counts through its labels and what the rules decide for it. Rows with several labels seldom agree in all of these,
so rows are drawn one by one, and the sums over the drawn rows are products with a sparse matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from confmax.evaluate.scores import Score, percentiles
from confmax.evaluate.seen import doubt_of_rows
from confmax.evaluate.verdict import ROUNDING, LimitScore, Verdict
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.metrics.labels import each_of, is_mean
from confmax.optimize.estimate import Estimate
from confmax.optimize.label_thresholds import best_of_labels
from confmax.rule.labels import LabelRule
from confmax.tables import MemoryTable
from confmax.tables.columns import find, warn
from confmax.tables.decisions import Decisions, decisions_of
from confmax.tables.draws import label_folds_to_judge
from confmax.tables.several import dense_table, encoded, labels_table, plain_matrix

AT_ONCE = 1 << 22  # counts of rows of a chunk of replicates: 32 MB
NAMED = 5  # labels that a warning names
SEPARATE = "separate thresholds"
N_FOLDS = 5  # in which each label's own threshold is found


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
    given = labels_table(
        rules[0].decisions,
        proba,
        y,
        sample_weight,
        rules[0].class_names if classes is None else classes,
        stated=classes is not None,
    )
    table = dense_table(given, "the score of several labels")
    several = not (isinstance(metric, (str, Metric)) or callable(metric))
    wanted = [label_metrics.resolve(one, None) for one in (metric if several else [metric])]
    plain = label_rivals(table, [rule.decisions for rule in rules], settings["seed"])
    decided = {**plain, **{name: decided_labels(name, rule, table, given.proba) for name, rule in judged.items()}}
    warn(absent_labels(table))
    warn(doubt_of_rows({name: one for name, one in judged.items() if isinstance(one, LabelRule)}, table))
    limits = {name: limits_of(rule, table) for name, rule in judged.items() if getattr(rule, "constraints", ())}
    used = {repr(one): label_metrics.sized(one, table.n_rows) for one in wanted}
    by = {name: judged_by(rule, table) or next(iter(used.values())) for name, rule in judged.items()}
    every = {**used, **{repr(one): one for one in by.values()}}
    score = compare_labels(table, every, decided, plain=tuple(plain), limits=limits, **settings)
    verdicts = {
        name: label_verdict(score, name, metric, decided, table, limits.get(name)) for name, metric in by.items()
    }
    m = len(used)
    return replace(
        score, metrics=tuple(used), values=score.values[:m], replicates=score.replicates[:m], verdicts=verdicts
    )


def judged_by(rule: Any, table: MemoryTable) -> Metric | None:
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
    decided: Mapping[str, Array],
    table: MemoryTable,
    limits: Judgeable | None = None,
    key: str | None = None,
) -> Verdict:
    """Return the verdict on a ``rule`` of a ``score`` by a ``metric``, within limits that its rivals are judged by.

    The score has the metric by its text, or by the ``key``.
    """
    within = None if limits is None else limits.limits
    missed: dict[str, tuple[str, ...]] = dict.fromkeys(score.plain, ())
    if within is not None:
        every = _Sums(table, [decided[name] for name in score.plain])
        for name, S in zip(score.plain, every(np.ones((1, every.n))), strict=True):
            slacks = rounded(within.slacks(S[0]), ROUNDING)
            missed[name] = tuple(text for text, slack in zip(within.texts, slacks, strict=True) if slack < 0.0)
    same = next((one for one in score.plain if np.array_equal(decided[one], decided[rule])), None)
    return score.verdict(rule, metric, missed, score.limits.get(rule, ()), same, key)


def label_rivals(
    table: MemoryTable, every: Sequence[Decisions], seed: int, fold: NDArray[np.int64] | None = None
) -> dict[str, Array]:
    """Return what competes (n, L) with rules of ``every`` kind of decisions, by name: plain rules, and thresholds.

    The usual way to tune finds of each label the threshold with the largest F1 on the labels, and of at most k labels
    takes the k most probable ones above theirs. Each row is decided by the thresholds of the other folds, of ``fold``
    (n,) or of the rows' content and a ``seed``. There are none for exactly k labels, and where few rows differ.
    """
    found = plain_decisions(table, every, by_prior=True)
    kinds = [one for one in every if one.positive]
    if not kinds:
        return found
    # rows of weight zero are as if they were not there
    kept = np.ones(table.n_rows, np.bool_) if table.weight is None else table.weight > 0.0
    rows = table.take(kept)
    try:
        parts = label_folds_to_judge(rows, N_FOLDS, seed) if fold is None else fold[kept]
    except ValueError:
        return found
    above = np.zeros(table.proba.shape, np.bool_)
    above[kept] = _above_their_own(rows, parts)
    for one in kinds:
        name = SEPARATE if one.most is None else f"top-{one.most} of {SEPARATE}"
        found[name] = one.chosen(np.where(above, table.proba, 0.0)).astype(np.float64)
    return found


def _above_their_own(table: MemoryTable, fold: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each probability (n, L) lies above the threshold of its label with the largest F1 elsewhere."""
    above = np.zeros(table.proba.shape, dtype=np.bool_)
    for k in range(fold.max() + 1):
        others = table.take(fold != k)
        present = others.label_weight() > 0.0
        if present.any():
            f1 = replace(label_metrics.get("macro_f1"), classes=tuple(np.flatnonzero(present).tolist()))
            found = best_of_labels(f1, Estimate(others, np.where(present, 0.0, 1.0)))
            above[fold == k] = table.proba[fold == k] > np.where(present, found.values, np.inf)
    return above


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


def limits_of(rule: LabelRule, table: MemoryTable, further: Sequence[Constraint] = ()) -> Judgeable:
    """Return the limits that a rule was tuned within, behind ``further`` ones, on the labels of a ``table``."""
    known = [one.text for one in further]
    own = [one for one in resolve(rule.constraints) if one.text not in known]
    return limits_on((*further, *own), rule.class_names, table)


def limits_on(constraints: Any, names: tuple[Any, ...], table: MemoryTable) -> Judgeable:
    """Return limits of a rule whose labels have these ``names``, on the labels of a ``table``."""
    # labels of a rule without names are numbers
    known = names if names == tuple(range(table.n_classes)) else table.classes
    return Judgeable(*judged_labels(constraints, known, table.label_weight()))


def absent_labels(table: MemoryTable) -> str:
    """Return a warning of labels that no row of a ``table`` has; empty if there are none."""
    absent = [repr(table.classes[k]) for k in np.flatnonzero(table.label_weight() == 0.0)]
    if not absent:
        return ""
    more = f" and {len(absent) - NAMED} more" if len(absent) > NAMED else ""
    return f"no row has the label {', '.join(absent[:NAMED])}{more}: metrics leave such labels out"


def plain_decisions(table: MemoryTable, every: Sequence[Decisions], *, by_prior: bool = False) -> dict[str, Array]:
    """Return what is decided (n, L) without tuning, by name, for ``every`` kind of decisions that rules make.

    Of any labels it is p > 0.5. Of k labels, or at most k, it is those with the largest p, and ``by_prior`` also those
    with the largest p divided by how often the label is true in the ``table``; of at most k also those with p > 0.5 of
    the largest.
    """
    P = table.proba.astype(np.float64)
    found: dict[str, Array] = {}
    for one in every:
        # rows of at most k labels may get all k, as the baselines of the tuning do
        exact = one if one.most is None else decisions_of(one.most)
        found[plain_name(exact)] = exact.chosen(P - 0.5 if exact.positive else P).astype(np.float64)
        if one != exact:
            found[plain_name(one)] = one.chosen(P - 0.5).astype(np.float64)
        if by_prior and one.most is not None:
            share = table.label_weight()
            scores = np.divide(P, share, out=np.zeros(P.shape), where=share > 0.0)
            found[f"{plain_name(exact)} of p/prior"] = exact.chosen(scores).astype(np.float64)
    return found


def plain_name(decisions: Decisions) -> str:
    """Return what the decisions without tuning are called.

    >>> from confmax.tables.decisions import ANY, decisions_of
    >>> plain_name(ANY), plain_name(decisions_of(3)), plain_name(decisions_of(("at_most", 3)))
    ('p > 0.5', 'top-3', 'top-3 of p > 0.5')
    """
    if decisions.most is None:
        return "p > 0.5"
    return f"top-{decisions.most}" + (" of p > 0.5" if decisions.positive else "")


def decided_labels(name: str, rule: Any, table: MemoryTable, rows: Any = None) -> Array:
    """Return the probability (n, L) with which a rule gives each label, in the order of the columns of ``table``.

    The ``rows`` are those of the table as they were given: on sparse ones rules decide as `predict` does.
    """
    L = table.n_classes
    if not isinstance(rule, LabelRule):
        if getattr(rule, "class_names", None) is not None:
            raise InputError(f"the rule {name!r} decides one class for every row, and another one several labels")
        return encoded(rule, table.classes, table.n_rows).astype(np.float64)
    places: Sequence[int] | None = range(L)
    if rule.class_names not in (table.classes, tuple(range(L))):
        places = find([str(one) for one in table.classes], rule.class_names).places
    if places is None or rule.n_classes != L:
        raise InputError(
            f"the rule {name!r} decides the labels {list(rule.class_names)[:8]} and the table has "
            f"{list(table.classes)[:8]}",
            "pass the columns that it was tuned on, or `classes=` with their names",
        )
    out = np.empty(table.proba.shape)
    P = table.proba if rows is None else rows
    out[:, list(places)] = plain_matrix(rule.decision_probabilities(P[:, list(places)]))
    return out


def decided_by_folds(rules: Sequence[LabelRule], table: MemoryTable, fold: NDArray[np.int64]) -> Array:
    """Return the probability (n, L) with which ``rules[fold[i]]`` gives each label to row i."""
    out = np.empty(table.proba.shape)
    for k, rule in enumerate(rules):
        out[fold == k] = decided_labels(f"without fold {k + 1}", rule, table.take(fold == k))
    return out


def compare_labels(
    table: MemoryTable,
    metrics: Mapping[str, Metric],
    decided: Mapping[str, Array],
    *,
    plain: tuple[str, ...],
    limits: Mapping[str, Judgeable] | None = None,
    n_replicates: int,
    level: float = 0.95,
    seed: int = 0,
) -> Score:
    """Return the score of what rules ``decided`` (n, L) on a labelled ``table``, by ``metrics``; both by name.

    The rules ``plain`` are those that others are compared with, and ``limits`` those of some rules, by their names.
    """
    present = table.label_weight() > 0.0
    if not present.any():
        raise InputError("no row has any label in `y`", "add rows that have labels")
    counted = tuple(np.flatnonzero(present).tolist())
    placed = [one if one.classes is not None else replace(one, classes=counted) for one in metrics.values()]
    sums = _Sums(table, list(decided.values()))
    whole = sums(np.ones((1, sums.n)))
    values = np.array([[_values(one, S)[0] for S in whole] for one in placed])
    drawn = np.empty((len(placed), len(decided), n_replicates))
    rules = list(decided)
    judged = {name: one for name, one in (limits or {}).items() if one.limits is not None}
    reached = {name: np.empty((len(one.limits), n_replicates)) for name, one in judged.items() if one.limits}
    absent = np.zeros(table.n_classes)
    start = 0
    for counts in _drawn(sums.n, n_replicates, np.random.default_rng(seed)):
        every = sums(counts)
        stop = start + len(counts)
        drawn[:, :, start:stop] = [[_values(one, S) for S in every] for one in placed]
        for name, one in judged.items():
            reached[name][:, start:stop] = one.values(every[rules.index(name)]).T
        absent += (every[0].rows == 0.0).sum(axis=0)
        start = stop
    drawn[~np.isfinite(drawn)] = np.nan
    lost = {table.classes[k]: float(absent[k] / n_replicates) for k in np.flatnonzero(present & (absent > 0))}
    none = np.empty((0, n_replicates))
    kept = {
        name: one.scores(whole[rules.index(name)][0], reached.get(name, none), level)
        for name, one in (limits or {}).items()
    }
    parts = (tuple(metrics), tuple(rules), values, drawn, level, False, sums.n, lost)
    rows = [in_rows(S[0], table, table.classes, table.classes) for S in whole]
    return Score(*parts, plain=plain, limits=kept, counts=dict(zip(rules, rows, strict=True)))


class _Sums:
    """Sums of labels and decisions over drawn rows; rows of weight zero are left out."""

    def __init__(self, table: MemoryTable, decided: Sequence[Array]) -> None:
        from scipy.sparse import csr_array, vstack  # rules of one class are scored without it

        kept = slice(None) if table.weight is None else table.weight > 0.0
        assert table.labels is not None
        Y = table.labels[kept].astype(np.float64)
        parts = [Y, *(part for H in decided for part in (Y * H[kept], H[kept]))]
        self.n = len(Y)
        self.weight = None if table.weight is None else table.weight[kept]
        self.L = Y.shape[1]
        self.matrix = vstack([csr_array(part.T) for part in parts], format="csr")

    def __call__(self, counts: Array) -> list[Confusion]:
        """Return the statistics of every rule, as a batch, for counts (B, n) of the rows."""
        weights = counts if self.weight is None else counts * self.weight
        total = np.asarray(self.matrix @ np.ascontiguousarray(weights.T)).T / weights.sum(axis=1, keepdims=True)
        rows, *each = np.split(total, total.shape[1] // self.L, axis=1)
        return [Confusion(rows, hits, columns) for hits, columns in zip(each[::2], each[1::2], strict=True)]


def _drawn(n: int, n_replicates: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield how often every row is drawn (B, n), in chunks of replicates."""
    at_once = max(1, AT_ONCE // n)
    for start in range(0, n_replicates, at_once):
        B = min(at_once, n_replicates - start)
        rows = rng.integers(0, n, size=(B, n)) + n * np.arange(B)[:, None]
        yield np.bincount(rows.ravel(), minlength=B * n).reshape(B, n).astype(np.float64)


def _values(metric: Metric, S: Confusion) -> NDArray[Any]:
    """Return the values (B,) at a batch; of a mean that divides by how often labels are true, over those with rows."""
    if not metric.divides_by_prior or not is_mean(metric):
        return metric.values(S)
    S = S.select(np.array(metric.classes))
    present = S.rows > 0.0
    each = np.where(present, each_of(metric, S), 0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(each.sum(axis=-1) / present.sum(axis=-1))
