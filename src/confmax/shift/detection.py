"""Whether anything has changed: class shares, what a rule decides, and the limits that it promised, without a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Array, Confusion
from confmax.constraints import bind, parse
from confmax.constraints.proportions import interval
from confmax.errors import InputError
from confmax.metrics import Metric
from confmax.rule import DecisionRule
from confmax.shift.likelihood import worth
from confmax.shift.priors import LEVEL, OTHERWISE, UNLIKE, PriorShift, shift_of
from confmax.shift.source import source_of
from confmax.tables import Table
from confmax.tables.columns import warn

SMALL = 1e-9  # what rounding explains
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
        The limits of the rule on rates and the coverage.
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
    level : float
        Probability of a false alarm, of all tests together.
    tuned_on : (proba, y) or (proba, y, sample_weight), or None
        The tuning rows. It is then tested too whether rows of a class look as before. Rules that do not know their
        shares need them.

    Returns
    -------
    Detection
        A test of the class shares (a ratio of likelihoods), of how often the rule makes each decision (chi squared), of
        each limit on a rate or the coverage (binomial), and with ``tuned_on`` whether rows of a class look as before.

    Raises
    ------
    ValueError
        If the input is invalid; if the source knows no shares.

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
    held = source_of(source, tuned_on)
    raw = held.raw(new_proba, sample_weight)
    shares = shift_of(raw.calibrated(held.calibrator), held, np.zeros(len(held.classes)), None)
    for sentence in shares.warnings:
        if sentence != OTHERWISE:  # what is tested here, at the level of all tests
            warn(sentence)
    n = worth(raw)[0]
    # a scan counts what is decided, where the rows are
    decided = rule.evaluate(raw.oracle(1.0)).columns
    before = np.array(held.shares.decided or ())
    p_value = _same_shares(decided, n, before, held.shares.n_rows) if len(before) else 1.0
    promises = _promises(rule, raw, decided, n) if rule.constraints else ()
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
    # scipy takes longer to import than confmax
    from scipy.special import betainc, ndtr, ndtri

    K, M = rule.n_classes, rule.n_decisions
    wanted = [one for one in map(parse, rule.constraints) if not one.of_groups]
    limits = bind(wanted, raw, explicit=True, n_decisions=M, abstains=rule.abstain is not None)
    found = []
    for one in () if limits is None else limits.constraints:
        worth_of = _of_decisions(one.metric, K, M)
        if worth_of is None:
            continue
        value = float(worth_of @ decided)
        excess = (value - one.limit) * (-1.0 if one.is_floor else 1.0)
        if set(np.unique(worth_of)) <= {0.0, 1.0}:
            ends = interval(value, n, 0.9)
            beyond, at_limit = (1.0 - value, 1.0 - one.limit) if one.is_floor else (value, one.limit)
            # of n rows, as many or more would be beyond a limit that is just kept: a sum of binomial probabilities
            met = np.ceil(beyond * n - SMALL)
            p_value = float(betainc(met, max(n - met, 0.0) + 1.0, at_limit)) if met > 0.0 else 1.0
        else:
            error = float(np.sqrt(max(float(worth_of**2 @ decided) - value**2, SMALL) / n))
            ends = (value - ndtri(0.95) * error, value + ndtri(0.95) * error)
            p_value = float(ndtr(-excess / error))
        found.append(Promise(one.text, value, ends, p_value if excess > 0.0 else 1.0))
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
