"""Whether anything has changed: class shares, what a rule decides, and the limits that it promised, without a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Array, Confusion
from confmax.constraints import bind, parse
from confmax.constraints.across import Limit, Pairs
from confmax.constraints.proportions import interval
from confmax.errors import InputError
from confmax.metrics import Metric
from confmax.rule import DecisionRule
from confmax.rule.parts import to_decide
from confmax.shift.likelihood import worth
from confmax.shift.priors import LEVEL, OTHERWISE, UNLIKE, PriorShift, shift_of
from confmax.shift.source import source_of
from confmax.tables import Part, Table
from confmax.tables.columns import warn

SMALL = 1e-9  # what rounding explains
DRAWS = 4000  # of the values of groups, for the interval of what compares them
LEAST = 5.0  # expected rows of a decision, with fewer of which it is counted with the others

UNLIKE_SAID = (
    "rows of a class look otherwise than those of the tuning, so that the class shares may be wrong: judge the old "
    "rule and an adapted one on some labelled rows"
)


class Promise(NamedTuple):
    """A limit that needs no labels, on new rows.

    Attributes
    ----------
    text : str
        The limit.
    value : float
        What it limits, on these rows.
    interval : tuple of float
        A 90 % interval of this value for the population.
    p_value : float
        How likely so many rows, or more, would be beyond the limit if the rule just kept it.
    """

    text: str
    value: float
    interval: tuple[float, float]
    p_value: float


@dataclass(frozen=True, eq=False)
class Detection:
    """What unlabelled rows say of a rule: the result of `detect`.

    Attributes
    ----------
    shares : PriorShift
        The class shares, with intervals.
    decisions : tuple
        Names of the M decisions.
    decided, decided_before : ndarray (M,)
        Share of every decision on these rows and on the tuning rows; the latter is empty if it is not known.
    decided_p_value : float
        How likely shares so different would be if the rule decided as often as before; 1 if that is not known.
    promises : tuple of Promise
        The limits of the rule on rates and the coverage, of all rows, of groups and between groups.
    level : float
        Probability of a false alarm.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]] * 50
    >>> solution = confmax.maximize("macro_f1", P, [0, 0, 0, 1] * 50)
    >>> confmax.shift.detect(P, solution).changed, confmax.shift.detect(P[2:4] * 100, solution).changed
    (False, True)
    """

    shares: PriorShift
    decisions: tuple[Any, ...]
    decided: Array
    decided_before: Array
    decided_p_value: float
    promises: tuple[Promise, ...]
    level: float = LEVEL

    @property
    def p_value(self) -> float:
        """How likely class shares so different would be if none had changed."""
        return self.shares.p_value

    @property
    def p_values(self) -> dict[str, float]:
        """The p-value of every test, adjusted so that all together raise a false alarm as seldom as one.

        Of the level, a fifth is for the test whether rows of a class look as before, where it is known: .01 of .05, the
        level at which `confmax.Solution.adapt` warns. The other tests share the rest (Holm).
        """
        raw = {"class shares": self.p_value, **{one.text: one.p_value for one in self.promises}}
        if len(self.decided_before):
            raw["decisions"] = self.decided_p_value
        part = 0.0 if self.shares.misfit is None else UNLIKE / LEVEL
        adjusted: dict[str, float] = {}
        most = 0.0
        for rank, name in enumerate(sorted(raw, key=raw.__getitem__)):
            most = max(most, min(1.0, (len(raw) - rank) * raw[name] / (1.0 - part)))
            adjusted[name] = most
        if self.shares.misfit is not None:
            adjusted["rows of a class"] = min(1.0, self.shares.misfit / part)
        return adjusted

    @property
    def changed(self) -> bool:
        """Whether anything has changed: some test rejects at the level, all tests together."""
        return min(self.p_values.values()) < self.level

    @property
    def sentence(self) -> str:
        """What has changed, in a sentence."""
        found = self.p_values
        parts = []
        if found["class shares"] < self.level:
            parts.append(self.shares.what_moved)
        if found.get("decisions", 1.0) < self.level:
            k = int(np.argmax(np.abs(self.decided - self.decided_before)))
            parts.append(
                f"the rule decides {self.decisions[k]} for {self.decided[k]:.3g} of the rows, "
                f"{self.decided_before[k]:.3g} of the tuning rows"
            )
        if found.get("rows of a class", 1.0) < self.level:
            parts.append(UNLIKE_SAID)
        for one in self.promises:
            if found[one.text] < self.level:
                low, high = one.interval
                parts.append(f"the limit {one.text} is broken: {one.value:.3g} ({low:.3g} to {high:.3g}) of these rows")
        return "; ".join(parts) or f"nothing has changed that {self.shares.n_rows:.0f} rows without labels can show"

    def __str__(self) -> str:
        return f"{self.sentence}\n{self.shares}"

    __repr__ = __str__


def detect(
    new_proba: ArrayLike,
    source: Any,
    *,
    sample_weight: ArrayLike | None = None,
    group: ArrayLike | None = None,
    level: float = LEVEL,
    tuned_on: Sequence[Any] | None = None,
) -> Detection:
    """Return whether the rows have changed since a rule was tuned, as far as rows without labels say.

    Parameters
    ----------
    new_proba : array-like, data frame, torch tensor, scipy.sparse matrix, Dask collection or opened table (n, K)
        Raw class probabilities of new rows, from the same model: of an estimator ``estimator.predict_proba(X)``.
    source : Solution, DecisionRule, or fitted estimator
        The rule, which knows the class shares of its tuning rows.
    sample_weight : array-like (n,) or None
        Non-negative weights of the new rows.
    group : array-like (n,) or None
        The group of each row, of a rule with groups. The class shares and the decisions are tested on all rows
        together, the limits of groups in each.
    level : float
        Probability of a false alarm, of all tests together.
    tuned_on : (proba, y) or (proba, y, sample_weight), or None
        The tuning rows. It is then tested too whether rows of a class look as before. Rules that do not know their
        shares need them.

    Returns
    -------
    Detection
        A test of the class shares (a ratio of likelihoods), of how often the rule makes each decision (chi squared), of
        each limit on a rate or the coverage (binomial; between groups by the normal distribution), and with
        ``tuned_on`` whether rows of a class look as before.

    Raises
    ------
    ValueError
        If the input is invalid; if the source knows no shares; if a rule decides by groups, and ``group`` is missing,
        the rows lie in parts, or the rule does not know the groups.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]] * 50
    >>> solution = confmax.maximize("macro_f1", P, [0, 0, 0, 1] * 50)
    >>> print(confmax.shift.detect(P, solution).sentence)
    nothing has changed that 200 rows without labels can show
    """
    if not (isinstance(level, (int, float, np.number)) and 0.0 < level < 1.0):
        raise InputError(f"`level` lies between 0 and 1; got {level!r}")
    rule: DecisionRule = getattr(source, "rule", getattr(source, "rule_", source))
    held = source_of(source, tuned_on, of_groups=True)
    raw = held.raw(new_proba, sample_weight)
    table = _with_groups(rule, raw, group)
    shares = shift_of(raw.calibrated(held.calibrator), held, np.zeros(len(held.classes)), None)
    for sentence in shares.warnings:
        if sentence != OTHERWISE:  # what is tested here, at the level of all tests
            warn(sentence)
    n = worth(raw)[0]
    each = None
    if rule.groups:
        # such rows are in memory, or refused
        each = _decided_in_groups(rule, table.head)
        decided = each.weights @ each.decided
    else:
        # a scan counts what is decided, where the rows are
        decided = rule.evaluate(raw.oracle(1.0)).columns
    before = np.array(held.shares.decided or ())
    p_value = _same_shares(decided, n, before, held.shares.n_rows) if len(before) else 1.0
    promises = _promises(rule, raw, decided, n) if rule.constraints else ()
    if each is not None:
        promises += _promises_of_groups(rule, each)
    return Detection(shares, rule.class_names, decided, before, p_value, promises, level)


def _same_shares(one: Array, n: float, other: Array, m: float) -> float:
    """Return the p-value of a test that shares of n and of m rows are those of one population (chi squared)."""
    from scipy.special import chdtrc

    pooled = (n * one + m * other) / (n + m)
    expected = min(n, m) * pooled
    rare = expected < LEAST
    if rare.any():
        one, other, pooled = (np.append(part[~rare], part[rare].sum()) for part in (one, other, pooled))
    kept = pooled > 0.0
    free = int(kept.sum()) - 1
    if free < 1:
        return 1.0
    statistic = float(((one - other)[kept] ** 2 / pooled[kept]).sum() / (1.0 / n + 1.0 / m))
    return float(chdtrc(free, statistic))


def _promises(rule: DecisionRule, raw: Table, decided: Array, n: float) -> tuple[Promise, ...]:
    """Return the limits of a rule that speak of what is ``decided`` (M,) alone, on n rows."""
    K, M = rule.n_classes, rule.n_decisions
    wanted = [one for one in map(parse, rule.constraints) if not one.of_groups]
    limits = bind(wanted, raw, explicit=True, n_decisions=M, abstains=rule.abstain is not None)
    found = []
    for one in () if limits is None else limits.constraints:
        worth_of = _of_decisions(one.metric, K, M)
        if worth_of is None:
            continue
        found.append(Promise(one.text, *_against_limit(one.stated, worth_of, decided, n)))
    return tuple(found)


def _against_limit(limit: Limit, worth_of: Array, decided: Array, n: float) -> tuple[float, tuple[float, float], float]:
    """Return a value on n rows, of which ``decided`` (M,) bring ``worth_of`` (M,), its interval, and the p-value."""
    # scipy takes longer to import than confmax
    from scipy.special import betainc, ndtr, ndtri

    value = float(worth_of @ decided)
    excess = (limit.number - value) * limit.sign
    if set(np.unique(worth_of)) <= {0.0, 1.0}:
        ends = interval(value, n, 0.9)
        beyond, at_limit = (1.0 - value, 1.0 - limit.number) if limit.is_floor else (value, limit.number)
        # of n rows, as many or more would be beyond a limit that is just kept: a sum of binomial probabilities
        met = np.ceil(beyond * n - SMALL)
        p_value = float(betainc(met, max(n - met, 0.0) + 1.0, at_limit)) if met > 0.0 else 1.0
    else:
        error = float(np.sqrt(max(float(worth_of**2 @ decided) - value**2, SMALL) / n))
        ends = (value - ndtri(0.95) * error, value + ndtri(0.95) * error)
        p_value = float(ndtr(-excess / error))
    return value, ends, p_value if excess > 0.0 else 1.0


# --- rules that decide by groups --------------------------------------------------------------------------------------


class _Groups(NamedTuple):
    """What a rule decided in the G groups that have rows: their ``weights`` (G,), shares, and ``sizes`` (G,), rows."""

    table: Part
    decided: Array  # (G, M)
    weights: Array
    sizes: Array


def _with_groups(rule: DecisionRule, raw: Table, group: ArrayLike | None) -> Table:
    """Return new rows with their groups, if the rule decides by these; a ValueError where they are not known."""
    if not rule.groups_known:
        raise ValueError(
            "this rule decides by the probabilities of groups, and which rows are of which group is not known; check a "
            "rule that was tuned with group="
        )
    if rule.groups:
        raw.refuse_parts("a check of a rule that decides by groups")
    return to_decide(rule, raw, group)


def _decided_in_groups(rule: DecisionRule, table: Part) -> _Groups:
    """Return what a rule decided in every group that has rows with weight."""
    assert table.groups is not None
    codes = table.groups.codes
    weight = table.weights
    table = table.take(np.isin(codes, np.flatnonzero(np.bincount(codes, weight) > 0.0)))
    assert table.groups is not None
    decisions, shares, M = rule.decided(table)
    table = replace(table, groups=table.groups.present())
    codes = table.groups.codes
    weight = table.weights
    G = len(table.groups)
    counts = sum(
        share * np.bincount(codes * M + line, weight, G * M).reshape(G, M)
        for share, line in zip(shares, decisions, strict=True)
    )
    totals = np.bincount(codes, weight)
    return _Groups(table, counts / totals[:, None], totals / totals.sum(), totals**2 / np.bincount(codes, weight**2))


def _promises_of_groups(rule: DecisionRule, each: _Groups) -> tuple[Promise, ...]:
    """Return the limits of groups that speak of what is decided alone; those of groups without rows are left out."""
    from scipy.special import ndtr

    K, M = rule.n_classes, rule.n_decisions
    there = {str(name).strip() for name in each.table.groups.names}
    found = []
    for given in map(parse, rule.constraints):
        if not given.of_groups or not set(given.across.named) <= there or (given.across.compares and len(there) < 2):
            continue
        limits = bind([given], Table.of(each.table), explicit=True, n_decisions=M, abstains=rule.abstain is not None)
        assert limits is not None
        (one,) = limits.constraints
        worth_of = _of_decisions(one.metric, K, M)
        if worth_of is None:
            continue
        values = each.decided @ worth_of
        errors = np.sqrt(np.maximum(each.decided @ worth_of**2 - values**2, SMALL) / each.sizes)
        if isinstance(one.across, Pairs):
            w_a, w_b, constant = one.across.weights(one.stated)
            slacks = [(w_a * values[a] + w_b * values[b] + constant, a, b) for a, b in one.across.pairs(len(values))]
            tests = [
                float(ndtr(slack / np.hypot(w_a * errors[a], w_b * errors[b]))) for slack, a, b in slacks if slack < 0.0
            ]
            n_tests = len(slacks)
        else:
            parts = zip(each.decided, each.sizes, strict=True)
            tests = [_against_limit(one.stated, worth_of, decided, n)[2] for decided, n in parts]
            n_tests = len(tests)
        none = np.zeros(len(values), dtype=bool)
        draws = np.random.default_rng(0).normal(values, errors, (DRAWS, len(values)))
        low, high = np.quantile(one.across.value(draws, np.broadcast_to(none, draws.shape), one.stated), [0.05, 0.95])
        value = float(one.across.value(values, none, one.stated))
        found.append(Promise(one.text, value, (float(low), float(high)), min([1.0, *(n_tests * p for p in tests)])))
    return tuple(found)


def _of_decisions(metric: Metric, n_classes: int, n_decisions: int) -> Array | None:
    """Return what a row of every decision (M,) adds to a ``metric``; None if it reads more than the decisions."""
    rows = np.full(n_classes, 1.0 / n_classes)
    none = np.zeros(n_classes)
    each = []
    for j in range(n_decisions):
        made = np.eye(n_decisions)[j]
        right = rows * made[:n_classes]
        with np.errstate(all="ignore"):
            values = [float(metric.values(Confusion(rows, met, made, rows[:, None] * made))) for met in (right, none)]
        if not np.isfinite(values).all() or values[0] != values[1]:
            return None
        each.append(values[0])
    found = np.array(each)
    # the shares of all decisions together: what is linear in them, and no ratio
    even = Confusion.from_matrix(np.full((n_classes, n_decisions), 1.0 / (n_classes * n_decisions)))
    return found if abs(float(metric.values(even)) - found.mean()) <= SMALL else None
