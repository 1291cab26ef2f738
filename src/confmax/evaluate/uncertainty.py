"""How certain a metric's value is: bootstrap intervals of rules and of their paired differences.

A metric on n rows estimates its value on the population that the rows were drawn from. `score` estimates the error:
rows are drawn again with replacement, every rule is evaluated on the same draws, and the interval holds the middle of
the values. The rules are not tuned again, so evaluate them on other rows than those that they were tuned on.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax import metrics as catalogue
from confmax.calibration.column_order import doubt_of_order
from confmax.confusion import Array, Confusion
from confmax.constraints import Limits, resolve
from confmax.constraints.binding import judged as judgeable
from confmax.errors import InputError, Sentence
from confmax.evaluate.bootstrap import Counter, replicates, tally
from confmax.evaluate.decided import Decided, rows_decided
from confmax.evaluate.judging import (
    aligned_rule,
    column_order,
    decided_on,
    gains_of,
    judge_rules,
    labelled_rows,
    labelled_table,
    refuse_decisions,
    rules_decide,
)
from confmax.evaluate.label_scores import score_labels
from confmax.evaluate.limits import limit_scores
from confmax.evaluate.protocols import Decides, Tuned
from confmax.evaluate.rivals import decide_alike, missed_by_each, names_of
from confmax.evaluate.scores import PLAIN, Score, lacking
from confmax.evaluate.seen import doubt_of_rows
from confmax.evaluate.verdict import LimitScore, Verdict
from confmax.metrics import Metric
from confmax.metrics.alignment import fit_metric, with_positive
from confmax.metrics.catalogue import metric_of, quantity, refusing_parameters
from confmax.metrics.decided import as_written, of_decided
from confmax.rule import DecisionRule
from confmax.rule.labels import LabelRule
from confmax.tables import Part, Table
from confmax.tables.columns import warn
from confmax.tables.draws import RandomState, as_seed, is_whole
from confmax.tables.frames import stated_order
from confmax.tables.partitioned import is_opened
from confmax.tables.weights import EQUAL, Weights

MOST_REPLICATES = 1_000_000
DIGITS = 44  # binary digits of a weight that was divided again, as sums round

AnyMetric = str | Metric | Callable[[Array], float]


@refusing_parameters
def score(
    metric: AnyMetric | Sequence[AnyMetric],
    proba: Any,
    y: ArrayLike | None = None,
    rule: Decides | Tuned | ArrayLike | None = None,
    *,
    rules: Mapping[str, Decides | Tuned | ArrayLike] | None = None,
    sample_weight: ArrayLike | None = None,
    group: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
    n_replicates: int = 1000,
    level: float = 0.95,
    stratified: bool = False,
    random_state: RandomState = 0,
) -> Score:
    """Return metrics of argmax, p/prior and given rules on labelled rows, with bootstrap intervals.

    Parameters
    ----------
    metric : str, Metric or callable, or a sequence of these
        As for `confmax.maximize`.
    proba : array-like, data frame, torch tensor, scipy.sparse matrix (n, K), or rows in parts
        Raw class probabilities of rows that the rules were not tuned on. A table of `confmax.open_table` brings its
        labels, weights and groups: leave out ``y``, ``sample_weight`` and ``group``. So does a function whose chunks
        hold ``(proba, y)``. Rules decide rows in parts, such as files, a Polars LazyFrame or a Dask collection, in one
        pass over the rows, in two with weights.
    y : array-like (n,), or (n, L) for rules of several labels, or str
        True classes: names or column numbers. With several labels per row as for `confmax.maximize`. Of data frames
        and rows that stream, a column's name, as ``sample_weight`` and ``group`` may be.
    rule : DecisionRule, Solution, array-like (n,) or None
        What to evaluate, called "rule" in the result: a rule, or the labels that another method decided, or rules
        tuned on other folds. With a `LabelRule` or `LabelSolution` all are judged by metrics of several labels, beside
        "p > 0.5", or of k labels, or at most k, "top-k" and "top-k of p/prior"; decisions are then 0 and 1 (n, L).
    rules : mapping or None
        Further rules, solutions or decisions (n,), by name. One called "argmax" or "p/prior" replaces that rule.
    sample_weight : array-like (n,) or None
        Non-negative weights. Only their ratios matter.
    group : array-like (n,) or None
        The group of each row. The result then has all values for the rows of every group too (`Score.by_group`). Rules
        that decide by groups need it.
    classes : sequence or None
        Class names in column order. Default: the order of the rules' names, else as for `confmax.maximize`.
    pos_label : label or None
        The positive one of two classes, as for `confmax.maximize`.
    n_replicates : int
        Replicates of the bootstrap; 0 for values without intervals.
    level : float
        Nominal coverage of the intervals, in (0, 1).
    stratified : bool
        False: the rows are a sample of the population, so the class sizes vary by chance. True: the number of rows of
        each class was fixed beforehand, so rows are drawn within classes.
    random_state : int, RandomState, Generator or None
        Seed of the draws of rows; None takes one from the operating system.

    Returns
    -------
    Score
        Values, intervals, and paired differences between rules.

    Raises
    ------
    ValueError
        For bad input, in one sentence: what, where, and the way out.

    Warns
    -----
    UserWarning
        If a rule was tuned on exactly these rows, whatever their order. If a class has no weight in ``y`` and a metric
        divides by its prior. If a class is so rare that more replicates lack it than lie beyond an end of the interval.
        If replicates have no finite value. If the labels suggest that the columns are in another order than the
        classes.

    Notes
    -----
    A replicate draws n rows with replacement, the same rows for all rules and metrics. The cost grows with the number
    of different combinations of label, decisions and weight, not with the rows: 1000 replicates of 100 000 rows of 20
    classes take about a second (`benchmarks/RESULTS.md`, section uncertainty).

    Rows are drawn uniformly and keep their weights. This is right for weights that correct for how the rows were
    sampled. If weights count equal rows, n is too small; repeat such rows (``numpy.repeat``) instead, which costs
    little. Rows of weight zero are left out.

    Of more than 131 072 rows with several labels, lots of rows are drawn in the place of rows (`Score.resampled`): the
    guide to tables larger than memory says when, and what it changes.

    Rules are fixed: ``p/prior`` divides by the class sizes of all these rows in every replicate. The value of a
    randomised rule is the expectation over its draws. In a replicate without rows of some class, metrics that divide by
    class sizes are computed over the other classes, as on a table without that class, and the recall of that class
    alone has no value. All other metrics count the class as empty (its F1 is zero). With ``stratified=True`` no class
    is ever absent. A metric that is not defined for a rule with more decisions than classes is NaN.

    The metrics of a rule that abstains are those of the rows that it decides, except for "coverage", "rate" and tables
    of costs, which speak of all rows; argmax and p/prior decide all rows. Of equal probabilities they decide the last
    class, where ``predict`` of scikit-learn decides the first.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 25
    >>> rule = confmax.DecisionRule.from_weights([1.0, 2.5])
    >>> result = confmax.score("balanced_accuracy", P, [0, 0, 1, 1] * 25, rule)
    >>> result.estimate("rule").value, result.difference("rule", "argmax").better
    (1.0, 1.0)
    """
    judged = _by_name(rule, rules)
    of_labels = any(isinstance(one, LabelRule) for one in judged.values())
    chosen = {} if of_labels else _by_repr(metric)
    check_bootstrap(n_replicates, level)
    if not isinstance(stratified, (bool, np.bool_)):
        raise ValueError(f"stratified is True or False; got {stratified!r}")
    seed = as_seed(random_state)
    tuned_rules = [one for one in judged.values() if isinstance(one, Decides)]
    by_labels = next((one.class_names for one in judged.values() if isinstance(one, LabelRule)), None)
    names = column_order(tuned_rules) if by_labels is None else by_labels
    given_classes = names if classes is None else classes
    proba, (y, sample_weight, group) = labelled_rows(proba, (y, sample_weight, group), given_classes)
    refuse_decisions(judged, proba)
    if of_labels:
        for name, given in (("group", group), ("pos_label", pos_label), ("stratified", stratified or None)):
            if given is not None:
                raise InputError(f"`{name}` is of one class for every row, and a rule decides several labels")
        bootstrap = {"n_replicates": int(n_replicates), "level": float(level), "seed": seed}
        return score_labels(metric, proba, y, judged, sample_weight=sample_weight, classes=classes, **bootstrap)
    stated = None if is_opened(proba) else stated_order(y, proba)
    order = (names or stated) if classes is None else classes
    settings: dict[str, Any] = {
        "n_replicates": int(n_replicates),
        "level": float(level),
        "stratified": bool(stratified),
        "seed": seed,
    }
    beside = y, sample_weight, group
    whole = labelled_table(proba, beside, order, stated=classes is not None, what="score")
    aligned = {
        name: aligned_rule(name, one, whole.classes) if isinstance(one, Decides) else one
        for name, one in judged.items()
    }
    judges = partial(rules_decide, aligned)
    (_, table, decided), as_many = judge_rules(whole, judges, partial(gains_of, aligned), aligned)
    # who tuned a rule for a metric of ordered classes has said what the order is
    tuned_for = {name: metric_of(one) for name, one in judged.items() if isinstance(one, Decides)}
    given = {"rule": rule, **(rules or {})}
    tuned_for |= {str(name): one.metric for name, one in given.items() if _is_tuned(one)}
    explicit = classes is not None or pos_label is not None or (stated is not None and order == stated)
    explicit = explicit or any(m is not None and m.depends_on_order(table.n_classes) for m in tuned_for.values())
    for name, one in chosen.items():
        chosen[name] = fit_metric(with_positive(one, table.classes, pos_label), Table.of(table), explicit=explicit)
    first = next(iter(chosen.values()))
    by = {name: _judged_by(tuned_for.get(name), table, pos_label) or first for name in judged}
    # tables of costs have one name, and each rule may have a table of its own
    asked = dict(chosen)
    key_of = {
        name: repr(one) if asked.setdefault(repr(one), one).gain == one.gain else f"{one!r} of {name}"
        for name, one in by.items()
    }
    asked |= {key_of[name]: one for name, one in by.items()}
    every = compare(table, asked, decided, **settings)
    by_group = in_groups(table, chosen, decided, **settings)
    bound = [name for name, one in judged.items() if isinstance(one, DecisionRule) and one.constraints]
    within = {name: limits_within(judged[name], table, abstains=judged[name].abstain is not None) for name in bound}
    limits = {name: _limits_of(name, *one, decided[name], table, settings) for name, one in within.items()}
    n_metrics = len(chosen)
    result = replace(
        every,
        metrics=tuple(chosen),
        values=every.values[:n_metrics],
        replicates=every.replicates[:n_metrics],
        by_group=by_group,
        limits=limits,
        beside={
            name: {key: names_of(one, table.n_classes, abstains=True, as_many=some) for key, one in chosen.items()}
            for name, some in as_many.items()
        },
        verdicts={
            name: verdict_on(
                every,
                name,
                one,
                decided,
                table,
                as_many.get(name, ()),
                tuple(filter(None, within.get(name, ())[:1])),
                limits.get(name, ()),
                key_of[name],
            )
            for name, one in by.items()
            if name not in PLAIN
        },
    )
    # of probabilities that are overconfident nothing is said here
    by_rules = {name: one for name, one in judged.items() if isinstance(one, Decides)}
    of_rows = doubt_of_rows(by_rules, whole), doubt_of_order(whole.sample, calibrated=0.0)
    for sentence in (*of_rows, *doubts(result, chosen)):
        warn(sentence)
    return result


def verdict_on(
    score: Score,
    name: str,
    metric: Metric,
    decided: Mapping[str, Decided],
    table: Part,
    as_many: Iterable[str],
    within: Sequence[Limits],
    limits: Sequence[LimitScore],
    key: str | None = None,
) -> Verdict:
    """Return the verdict on the rule that is called ``name`` in a ``score``, by what all of them ``decided``.

    Its limits are ``within``, and ``limits`` what it makes of them. The score has the ``metric`` by its text, or by the
    ``key``.
    """
    own = decided[name]
    rivals = names_of(metric, table.n_classes, abstains=own.abstains, as_many=as_many)
    same = next((one for one in rivals if decide_alike(own, decided[one])), None)
    missed = missed_by_each(rivals, decided, within, table, own.n_decisions)
    return score.verdict(name, metric, missed, limits, same, key)


def _judged_by(metric: Metric | None, table: Part, pos_label: Any) -> Metric | None:
    """Return the metric that a rule was tuned for on a ``table``, None where there is none or it has no value there."""
    try:
        with warnings.catch_warnings():
            # which classes have no rows is said of the metrics that were asked for
            warnings.simplefilter("ignore", UserWarning)
            placed = metric and with_positive(metric, table.classes, pos_label)
            return placed and fit_metric(placed, Table.of(table), explicit=True)
    except ValueError:
        return None


def compare(
    table: Part,
    metrics: Mapping[str, Metric],
    rules: Mapping[str, Decides | Decided | ArrayLike],
    *,
    n_replicates: int,
    level: float = 0.95,
    stratified: bool = False,
    seed: int = 0,
) -> Score:
    """Return the score of ``rules`` for the columns of a labelled ``table``; `score` without its checks and warnings.

    ``metrics`` and ``rules`` (rules, or decisions (n,) as names) go by name; ``n_replicates``, ``level``,
    ``stratified`` and ``seed`` are the bootstrap's. Decisions that are no classes are a ValueError."""
    assert table.labels is not None
    # rows of weight zero are as if they were not there
    kept = table.weighted
    labels = table.labels[kept]
    decided = [decided_on(name, rule, table) for name, rule in rules.items()]
    decisions = np.concatenate([one.decisions for one in decided])[:, kept]
    sizes = [one.n_decisions for one in decided for _ in one.shares]
    copies = None if table.copies is None else table.copies[kept]
    weight = table.weighing.of(kept)
    if copies is not None:
        weight = _of_one(weight.array(len(copies)), copies)
    cells = tally(labels, decisions, weight, (table.n_classes, sizes), copies)
    abstains = [one.abstains for one in decided]
    forms = [_forms(metric, table.n_classes, set(abstains)) for metric in metrics.values()]
    whole = any(metric.statistics == "matrix" for both in forms for metric in both.values())
    counter = Counter(cells, [one.shares for one in decided], matrix=whole)
    values = _values(counter.confusions(cells.sums[None]), forms, abstains)[:, :, 0]
    drawn = np.full((*values.shape, n_replicates), np.nan)
    absent = np.zeros(table.n_classes)
    start = 0
    rng = np.random.default_rng(seed)
    for sums in replicates(cells, n_replicates, rng, stratified=stratified):
        for confusions in counter.chunks(sums):
            stop = start + len(confusions[0])
            drawn[:, :, start:stop] = _values(confusions, forms, abstains)
            absent += (confusions[0].rows == 0).sum(axis=0)
            start = stop
    drawn[~np.isfinite(drawn)] = np.nan
    present = np.bincount(labels, minlength=table.n_classes) > 0
    lost = {table.classes[k]: float(absent[k] / n_replicates) for k in np.flatnonzero(present & (absent > 0))}
    n_rows = len(labels) if copies is None else int(copies.sum())
    tables = {name: str(metric.cost_table.of) for name, metric in metrics.items() if metric.cost_table is not None}
    counts = {name: rows_decided(one, table) for name, one in zip(rules, decided, strict=True)}
    more: dict[str, Any] = {"tables": tables, "counts": counts}
    return Score(tuple(metrics), tuple(rules), values, drawn, level, stratified, n_rows, lost, **more)


def _of_one(weight: Array, copies: NDArray[np.int64]) -> Weights:
    """Return what one of the copies of each row weighs; weights that were equal before they were added up are."""
    if np.array_equal(weight, copies):
        return EQUAL
    digits, power = np.frexp(weight / copies)
    return Weights(np.ldexp(np.round(np.ldexp(digits, DIGITS)), power - DIGITS))


def in_groups(
    table: Part, metrics: Mapping[str, Metric], decided: Mapping[str, Decided], **settings: Any
) -> dict[Any, Score]:
    """Return the score of what rules ``decided`` on a ``table`` for the rows of each of its groups, by their names.

    ``metrics`` and ``settings`` are those of `compare`. Groups without a row are left out.
    """
    check_weights_of_groups(table)
    groups = table.groups
    found = {}
    for g, name in enumerate(() if groups is None else groups.names):
        rows = np.flatnonzero(groups.codes == g)
        if len(rows):
            mine = {rule: one._replace(decisions=one.decisions[:, rows]) for rule, one in decided.items()}
            found[name] = compare(table.take(rows), metrics, mine, **settings)
    return found


def check_weights_of_groups(table: Part) -> None:
    """Refuse, by a ValueError, a group whose rows all have the weight zero: it has no values."""
    groups = table.groups
    if groups is None:
        return
    n_rows = np.bincount(groups.codes)
    total = np.bincount(groups.codes, table.weights)
    empty = np.flatnonzero((n_rows > 0) & (total == 0.0))
    if len(empty):
        raise ValueError(
            f"all rows of group {groups.names[empty[0]]!r} have the weight zero, so nothing is known of it; leave "
            f"these rows out"
        )


# --- values ----------------------------------------------------------------------------------------------------------


def _forms(metric: Metric, n_classes: int, kinds: set[bool]) -> dict[bool, Metric]:
    """Return a metric for the ``kinds`` of rules that there are: True for those that abstain, False for the others."""
    placed = of_decided(metric, n_classes) if True in kinds or metric.formula.is_coverage else metric
    return {abstains: placed if abstains else as_written(placed) for abstains in kinds}


def _values(confusions: Sequence[Confusion], forms: Sequence[dict[bool, Metric]], abstains: Sequence[bool]) -> Array:
    """Return the values (m, r, B) of metrics at the confusions of r rules, batches of B."""
    rules = list(zip(abstains, confusions, strict=True))
    return np.array([[values_at(both[abstains], S) for abstains, S in rules] for both in forms])


def values_at(metric: Metric, S: Confusion) -> Array:
    """Return the values (B,) at a batch; over the classes that are present, where the metric divides by their size."""
    K = S.rows.shape[1]
    M = metric.n_decisions(K)
    spare = M - S.columns.shape[1]
    if spare > 0:
        # a rule of fewer decisions never takes the further ones
        matrix = None if S.matrix is None else np.pad(S.matrix, ((0, 0), (0, 0), (0, spare)))
        S = Confusion(S.rows, S.diagonal, np.pad(S.columns, ((0, 0), (0, spare))), matrix)
    # one class alone has its row, its column and its hits, whatever else is decided
    if not (metric.statistics == "diagonal" or metric.one_class == "alone") and S.columns.shape[1] != M:
        return np.full(len(S), np.nan)
    written = as_written(metric)
    used = np.array(written.divided_by(K), dtype=np.intp)
    present = S.rows[:, used] > 0
    if metric.formula.is_coverage:
        # a sum of shares: rounding would tell rules apart that decide all rows
        return np.where(present.all(axis=1), metric.values(S).round(12), np.nan)
    if present.all():
        return metric.values(S)
    if written.one_class:
        return np.where(present[:, 0], metric.values(S), np.nan)
    values = np.full(len(S), np.nan)
    patterns, which = np.unique(present, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        # of one class alone, a metric of the recalls is no mean: `Metric.over` wants two
        if pattern.sum() >= 2:
            same = np.flatnonzero(which.reshape(-1) == k)
            over = replace(written, classes=tuple(used[pattern].tolist()))
            values[same] = (over if written is metric else of_decided(over, K)).values(S[same])
    return values


# --- rules and checks ------------------------------------------------------------------------------------------------


def limits_within(rule: DecisionRule, table: Part, *, abstains: bool) -> tuple[Limits | None, tuple[str, ...]]:
    """Return the limits of a rule that the rows of a ``table`` can judge, and the texts of those that they cannot.

    ``abstains`` says whether some rule on these rows does.
    """
    known = [one for one in resolve(rule.constraints) if table.groups is not None or not one.of_groups]
    unknown = [one.text for one in resolve(rule.constraints) if one not in known]
    limits, absent = judgeable(known, Table.of(table), abstains=abstains)
    return limits, (*unknown, *absent)


def _limits_of(
    name: str,
    limits: Limits | None,
    unjudged: tuple[str, ...],
    decided: Decided,
    table: Part,
    settings: Mapping[str, Any],
) -> tuple[LimitScore, ...]:
    """Return what a rule makes of the limits that it was tuned within, by what it ``decided``."""
    lost = tuple(map(LimitScore, unjudged))
    if limits is None:
        return lost
    every = {str(one): one.metric for one in limits.constraints}
    score = compare(table, every, {name: decided}, **settings)
    if limits.speak_of_groups:
        score = replace(score, by_group=in_groups(table, every, {name: decided}, **settings))
    return (*limit_scores(limits, score, name, decided, table), *lost)


def _is_tuned(value: Any) -> TypeGuard[Tuned]:
    """Whether ``value`` has a rule; a frame or a series may have a column or a row that is called so."""
    return isinstance(getattr(value, "rule", None), Decides)


def _by_name(rule: Any, rules: Any) -> dict[str, Any]:
    """Return the rules and decisions to judge, by name."""
    if isinstance(rule, Mapping):
        raise ValueError("rule is one rule; pass a mapping of names to rules as rules=")
    if rules is not None and not isinstance(rules, Mapping):
        raise ValueError(f"rules is a mapping of names to rules; got {type(rules).__name__}")
    judged = {} if rule is None else {"rule": rule}
    if judged and rules and "rule" in rules:
        raise ValueError("rules has an entry 'rule', which is the name of the argument rule; give it another name")
    judged.update({str(name): one for name, one in (rules or {}).items()})
    return {name: one.rule if _is_tuned(one) or _is_of_labels(one) else one for name, one in judged.items()}


def _is_of_labels(value: Any) -> TypeGuard[Any]:
    """Whether ``value`` has a rule of several labels, as a `confmax.LabelSolution` does."""
    return isinstance(getattr(value, "rule", None), LabelRule)


def _by_repr(metric: Any) -> dict[str, Metric]:
    """Return one metric, or several, by the names that results have for them."""
    if isinstance(metric, (str, Metric)) or callable(metric):
        metric = [metric]
    if not isinstance(metric, Sequence) or not len(metric):
        what = "nothing in it" if isinstance(metric, Sequence) else type(metric).__name__
        raise ValueError(
            f"metric is a name, a Metric, a function, or a list of these; got {what}: the metric comes first, then "
            f"proba, then y"
        )
    chosen: dict[str, Metric] = {}
    # what is only limited can be read, too
    for one in [quantity(given) if isinstance(given, str) else catalogue.resolve(given) for given in metric]:
        if repr(one) in chosen:
            raise ValueError(f"two metrics are called {one!r}; drop one, or name it with from_function(name=)")
        chosen[repr(one)] = one
    return chosen


def check_bootstrap(n_replicates: Any, level: Any) -> None:
    """Refuse, by a ValueError, an ``n_replicates`` that is too small for intervals of a ``level``."""
    if not is_whole(n_replicates, 0, MOST_REPLICATES):
        raise ValueError(f"n_replicates is a whole number from 0 to {MOST_REPLICATES:,}; got {n_replicates!r}")
    if not (isinstance(level, (int, float, np.number)) and 0 < level < 1):
        raise InputError(f"`level` is the coverage of the intervals, between 0 and 1; got {level!r}")
    # the ends of an interval have the rank (B + 1) (1 - level) / 2 from either side, which is one at the least
    needed = math.ceil(2 / (1 - level) - 1e-9) - 1
    if 0 < n_replicates < needed:
        raise ValueError(
            f"{n_replicates} replicates cannot tell intervals of level {level}; ask for at least {needed}, or for 0"
        )


def doubts(result: Score, metrics: Mapping[str, Metric], *, undefined: bool = True) -> list[str]:
    """Return warnings about ``result`` for ``metrics``; with ``undefined`` also about values that do not exist."""
    sentences: list[str] = []
    rare = lacking(result)
    # a metric such as accuracy counts rows: a class that a replicate lacks changes nothing about the others
    if rare and any(not m.structure.is_linear or m.divides_by_prior for m in metrics.values()):
        name, share = rare[0]
        others = f", the rarest of {len(rare)} such classes" if len(rare) > 1 else ""
        what = f"{share:.0%} of replicates have no row of class {name}{others}, which distorts the intervals"
        sentences.append(Sentence(f"{what}; collect more rows, or pass `stratified=True`"))
    for metric, values, drawn in zip(result.metrics, result.values, result.replicates, strict=True):
        without = [rule for rule, value in zip(result.rules, values, strict=True) if not math.isfinite(value)]
        if undefined and without:
            sentences.append(f"{metric} has no finite value for {', '.join(without)}, so it has no interval there")
        lost = float(np.isnan(drawn[np.isfinite(values)]).mean()) if drawn.size and np.isfinite(values).any() else 0.0
        if lost:
            sentences.append(
                f"{metric} has no finite value in {lost:.1%} of its replicates; its intervals leave these out"
            )
    return sentences
