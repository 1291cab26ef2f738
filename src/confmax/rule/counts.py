"""How many rows are decided as each class, and how many of these are right: counted on labels, or expected.

Without labels nobody knows how many rows are right. If the probabilities are, the truth of every row is a draw of its
own, and the number of right rows is a sum of independent draws: it has a Poisson-binomial distribution. Its mean,
variance and third moment are sums over rows, so that rows may lie in parts. Of few rows the distribution is computed.
Of many, an interval is the normal one, corrected for the skewness: Cornish and Fisher, "Moments and cumulants in the
specification of distributions", Revue de l'Institut International de Statistique 5 (1938).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.errors import InputError
from confmax.tables.kinds import host_rows, refuse_elsewhere
from confmax.tables.normalize import rows_to_decide
from confmax.tables.partitioned import is_opened, is_stream

EXACT_ROWS = 256  # up to which the distribution is computed: benchmarks/RESULTS.md, section "truth: counts"
EXACT_CELLS = 1 << 18  # rows times classes, up to which it is
BLOCK_CELLS = 1 << 18  # probabilities that are added up together
ROUNDING = 1e-9  # of sums; the ends of an interval are whole
SHOWN = 12  # classes that are printed
LEVEL = 0.95
COUNTS = ("true", "right", "missed")
FURTHER = "further"


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """How many rows each class has, how many are decided as it, and how many of these are right.

    Attributes
    ----------
    classes : tuple
        Names of the K classes, or of the labels of rows that have several.
    decisions : tuple
        Names of the M decisions, the classes first.
    decided : ndarray (M,)
        Rows that get each decision.
    true, right, further : ndarray (K,)
        Rows of each class, those of them that are decided as it, and those that get a decision beyond the classes, such
        as to abstain: by labels or, without these, as the calibrated probabilities expect. Of labelled rows of more
        than 1000 classes nobody counts the last, and they are NaN.
    unit : {"rows", "weight"}
        What is counted: rows, or the sum of their weights where these differ. Weights of 2^64 and more, or below 2^-64,
        are times a power of two.
    matrix : ndarray (K, M) or None
        By true class and decision; None without labels, for several labels per row, and of more than 1000 classes.
    intervals : dict
        Without labels: the ends (K, 2) of intervals of ``true``, ``right``, ``missed`` and, where there are such
        decisions, ``further``, by these names. If the calibrated probabilities are right, the number of rows lies
        between them, both included, with the probability ``level`` at least; of more than 256 rows, about. Empty for
        counts of labels.
    level : float or None
        None for counts of labels.

    Examples
    --------
    >>> import confmax
    >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["ok", "fraud"])
    >>> counts = rule.expected_counts([[0.7, 0.3], [0.2, 0.8], [0.9, 0.1]] * 100)
    >>> counts.decided.tolist(), counts.intervals["right"].tolist()
    ([100, 200], [[84, 96], [98, 122]])
    """

    classes: tuple[Any, ...]
    decisions: tuple[Any, ...]
    decided: NDArray[Any]
    true: Array
    right: Array
    further: Array
    unit: str
    matrix: Array | None
    intervals: dict[str, NDArray[np.int64]]
    level: float | None

    @property
    def missed(self) -> Array:
        """Rows (K,) of each class that are decided as another one; of several labels, that do not get it."""
        missed = self.true - self.right - np.nan_to_num(self.further)
        return _rounded(np.maximum(missed, 0.0), 6 if self.unit == "rows" else None)

    @property
    def counted(self) -> tuple[str, ...]:
        """What is counted of each class."""
        return _counted(len(self.classes), len(self.decisions))

    @classmethod
    def of_labels(
        cls, S: Confusion, total: float, unit: str, classes: Sequence[Any], decisions: Sequence[Any]
    ) -> Counts:
        """Return the counts of labelled rows, whose statistics ``S`` are shares of a ``total`` in this ``unit``."""
        # rows are whole unless a rule draws, but for the rounding of their shares; weights may have any size
        decimals = 6 if unit == "rows" else None
        parts = [
            None if shares is None else _rounded(np.asarray(shares) * total, decimals)
            for shares in (S.columns, np.broadcast_to(S.rows, S.diagonal.shape), S.diagonal, S.matrix)
        ]
        decided, true, right, matrix = parts
        assert decided is not None and true is not None and right is not None
        K = len(classes)
        further = np.zeros(K) if len(decisions) == K else np.full(K, np.nan)
        if matrix is not None:
            further = matrix[:, K:].sum(axis=1)
        return cls(tuple(classes), tuple(decisions), decided, true, right, further, unit, matrix, {}, None)

    def words(self, name: Any) -> str:
        """Return how many rows are decided as the class ``name``, are right, and are missed, in words.

        A ValueError if there is no such class.
        """
        if name not in self.classes:
            known = ", ".join(map(str, self.classes[:8]))
            raise InputError(f"`name` is a class, and {name!r} is none", f"name one of {known}")
        k = self.classes.index(name)
        decided, true, right, missed, further = (
            rows_in_words(each[k]) for each in (self.decided, self.true, self.right, self.missed, self.further)
        )
        # what is decided later is not missed
        beyond = self.decisions[len(self.classes) :]
        later = beyond[0] if len(beyond) == 1 else "a decision that is no class"
        if self.level is None:
            wrong = rows_in_words(self.decided[k] - self.right[k])
            are, get, others = ("are", "get", "others") if self.unit == "rows" else ("is", "gets", "of others")
            counted = f" and {missed} missed"
            if np.isnan(self.further[k]):
                counted = f" and {missed} {are} not"
            elif beyond:
                counted = f", {missed} {are} missed and {further} {get} {later}"
            whole = f"of {true} {name} rows" if self.unit == "rows" else f"of the weight {true} of {name}"
            return f"{whole} {right} {are} decided {name}{counted}; {wrong} {others} {are} decided {name}"
        ends = {what: "[{:,}, {:,}]".format(*self.intervals[what][k]) for what in self.counted}
        share = f"{self.right[k] / self.true[k]:.0%} of " if self.true[k] > 0.0 else "of "
        rest = f", and about {further} get {later} {ends[FURTHER]}" if beyond else ""
        return (
            f"about {right} of the {decided} are {name} {ends['right']}, {share}about {true} in all {ends['true']}; "
            f"about {missed} are missed {ends['missed']}{rest}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values that JSON can hold."""
        parts: dict[str, list[Any]] = {"decided": self.decided[: len(self.classes)].tolist()}
        for what in self.counted:
            parts[what] = [None if np.isnan(one) else one for one in getattr(self, what).tolist()]
            if self.level is not None:
                parts[f"{what}_interval"] = self.intervals[what].tolist()
        lines = zip(self.classes, *parts.values(), strict=True)
        return {
            "unit": self.unit,
            "level": self.level,
            "classes": {str(name): dict(zip(parts, line, strict=True)) for name, *line in lines},
            "decisions": dict(zip(map(str, self.decisions), self.decided.tolist(), strict=True)),
            "matrix": None if self.matrix is None else self.matrix.tolist(),
        }

    def __repr__(self) -> str:
        how = "by the labels"
        if self.level is not None:
            how = f"expected; {self.level:.4g} intervals, if the calibrated probabilities are right"
        lines = [f"Counts of {self.unit} ({how})", *(f"  {self.words(name)}" for name in self.classes[:SHOWN])]
        more = len(self.classes) - SHOWN
        return "\n".join([*lines, *([f"  ... {more} more classes: to_dict() has all"] if more > 0 else [])])


def _counted(n_classes: int, n_decisions: int) -> tuple[str, ...]:
    return COUNTS if n_decisions == n_classes else (*COUNTS, FURTHER)


def _rounded(numbers: Array, decimals: int | None) -> Array:
    return numbers if decimals is None else numbers.round(decimals) + 0.0


def rows_in_words(number: float) -> str:
    """Return a number of rows, with a decimal where it is small and not whole."""
    if 0.0 < number < 0.05:
        return f"{number:.2g}"
    return f"{number:,.1f}" if number < 10.0 and abs(number - round(number)) > 0.05 else f"{number:,.0f}"


# --- rows without labels ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sums:
    """What rows add up to: how many get each decision (M,), and moments (3, K) of those that `Counts` speaks of.

    The moments are mean, variance and third central moment. Of few rows, ``rows`` are the probabilities (3, n, K) of
    all classes, those of the class that is decided, and those of rows that get a further decision.
    """

    n_rows: int
    decided: NDArray[np.int64]
    true: Array
    right: Array
    further: Array
    rows: Array | None

    @classmethod
    def of(cls, rule: Any, proba: Any, decided: Any) -> Sums:
        """Return the sums of rows ``proba`` (n, K) in memory that a ``rule`` has ``decided``.

        Decisions are indices (n,), or of a `LabelRule` 0 and 1 (n, L).
        """
        form = rule.form
        # thresholds on given probabilities need no calibration, and counts do
        P = host_rows(form.calibrated(rule, rule.checked(proba)))
        n, K = P.shape
        decided = host_rows(decided)
        row, col = form.cells(decided, K)
        p = np.asarray(P[row, col], dtype=np.float64)
        right = _by_class(col, p, K)
        left = form.undecided(decided, K)
        counts = form.counted(rule, decided)
        rows = None
        if n <= EXACT_ROWS and n * K <= EXACT_CELLS:
            rows = np.zeros((3, n, K))
            rows[0] = P if isinstance(P, np.ndarray) else P.toarray()
            rows[1, row, col] = p
            rows[2, left] = rows[0, left]
        return cls(n, counts, _of_all(P), right, _of_all(P[left]), rows)

    def __add__(self, other: Sums) -> Sums:
        n = self.n_rows + other.n_rows
        rows = None
        if self.rows is not None and other.rows is not None and n <= EXACT_ROWS:
            rows = np.concatenate([self.rows, other.rows], axis=1)
        true, right, further = self.true + other.true, self.right + other.right, self.further + other.further
        return Sums(n, self.decided + other.decided, true, right, further, rows)

    def counts(self, rule: Any, level: float = LEVEL) -> Counts:
        """Return the expected counts under a ``rule``, with intervals of this ``level``."""
        K = self.true.shape[1]
        n_decided = self.decided[:K]
        # rows that are decided and those that are missed have moments, and most rows, of their own
        n_further = int(self.decided[K:].sum())
        missed = self.true - self.right - self.further
        moments = {"true": self.true, "right": self.right, "missed": missed, FURTHER: self.further}
        most = {
            "true": self.n_rows,
            "right": n_decided,
            "missed": self.n_rows - n_decided - n_further,
            FURTHER: n_further,
        }
        names = rule.class_names
        counted = _counted(K, len(names))
        if self.rows is None:
            intervals = {what: _corrected(moments[what], most[what], level) for what in counted}
        else:
            every, decided, later = self.rows
            rows = {"true": every, "right": decided, "missed": every - decided - later, FURTHER: later}
            intervals = {what: _exact(rows[what], level) for what in counted}
        true, right, further = (part[0].round(6) for part in (self.true, self.right, self.further))
        return Counts(names[:K], names, self.decided, true, right, further, "rows", None, intervals, level)


def expected_counts(rule: Any, proba: Any, *, level: float = LEVEL, **how: Any) -> Counts:
    """Return how many rows get each decision and how many of these are right, as the calibrated probabilities expect.

    Parameters
    ----------
    rule : DecisionRule or LabelRule
        The rule, which the method passes itself.
    proba : array-like (n, K), opened table, or rows that stream
        As for `predict`, in memory, or as for `predict_batches`.
    level : float
        That of the intervals, in (0, 1).
    **how
        What ``predict`` takes beside the probabilities, such as ``keys``, ``group`` and ``at_most``; of an opened table
        what `predict_batches` takes. The counts are those of the decisions that you then get: a rule that draws is
        counted as drawn.

    Returns
    -------
    confmax.rule.counts.Counts
        With intervals. They hold if the calibrated probabilities are right, and say nothing of a model that is not.

    Raises
    ------
    ValueError
        As for ``predict``, and for a level that is none.

    Examples
    --------
    >>> import confmax
    >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["ok", "fraud"])
    >>> rule.expected_counts([[0.7, 0.3], [0.2, 0.8], [0.9, 0.1]] * 100, at_most={"fraud": 150})
    Counts of rows (expected; 0.95 intervals, if the calibrated probabilities are right)
      about 125 of the 150 are ok [116, 133], 69% of about 180 in all [167, 193]; about 55 are missed [45, 65]
      about 95 of the 150 are fraud [85, 105], 79% of about 120 in all [107, 133]; about 25 are missed [17, 34]
    """
    from confmax.rule.applied import decided_parts
    from confmax.tables.partitioned.opening import opened_rows

    if not (isinstance(level, (int, float, np.number)) and 0.0 < level < 1.0):
        raise InputError(f"`level` is the coverage of the intervals, between 0 and 1; got {level!r}")
    if is_opened(proba) or is_stream(proba):
        parts = decided_parts(rule, opened_rows(proba), **how)
        return reduce(add, (Sums.of(rule, part.proba, part.decided) for part in parts)).counts(rule, level)
    refuse_elsewhere(proba, "counts are of rows in memory or in parts; pass an array, or a table from open_table")
    # the rows that ``predict`` reads
    proba = rows_to_decide(proba, rule.class_names[: rule.n_classes], normalize=how.pop("normalize", False))
    decided = rule.form.work(rule)(proba, **how)
    with warnings.catch_warnings():
        # what the names of columns say was said when the rows were decided
        warnings.simplefilter("ignore", UserWarning)
        return Sums.of(rule, proba, decided).counts(rule, level)


def _moments(p: NDArray[Any]) -> Array:
    """Return mean, variance and third central moment (3, ...) of draws with the probabilities ``p`` (...)."""
    p = np.clip(p, 0.0, 1.0, dtype=np.float64)
    variance = p * (1.0 - p)
    return np.stack([p, variance, variance * (1.0 - 2.0 * p)])


def _of_all(P: Any) -> Array:
    """Return the sums (3, K) of the moments of draws with the probabilities ``P`` (n, K)."""
    n, K = P.shape
    if not isinstance(P, np.ndarray):
        stored = P.tocoo()
        return _by_class(stored.col, stored.data, K)
    size = max(1, BLOCK_CELLS // K)
    sums = np.zeros((3, K))
    for low in range(0, n, size):
        part = _moments(P[low : low + size])
        # as a product, since a sum over the first axis of few columns is slow
        sums += np.ones(part.shape[1]) @ part
    return sums


def _by_class(col: NDArray[Any], p: Array, K: int) -> Array:
    """Return the sums (3, K) of the moments of draws by their class."""
    return np.stack([np.bincount(col, each, K) for each in _moments(p)])


def _corrected(moments: Array, most: Any, level: float) -> NDArray[np.int64]:
    """Return the ends (K, 2) of intervals of numbers of rows, at the ``most`` so many, by their ``moments`` (3, K)."""
    from statistics import NormalDist

    mean, variance, third = moments
    variance = np.maximum(variance, 0.0)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    skewed = np.divide(third, variance, out=np.zeros_like(third), where=variance > 0.0)
    middle = mean + np.clip(skewed, -1.0, 1.0) * (z**2 - 1.0) / 6.0 - 0.5 - ROUNDING
    width = z * np.sqrt(variance)
    nearest = np.round(mean)
    # far from the normal distribution, of rows that are all but certain, the correction may pass over the mean
    low, high = np.minimum(np.ceil(middle - width), nearest), np.maximum(np.ceil(middle + width), nearest)
    ends = np.stack([low, high], axis=-1)
    return np.clip(ends, 0, np.broadcast_to(most, mean.shape)[:, None]).astype(np.int64)


def _exact(rows: Array, level: float) -> NDArray[np.int64]:
    """Return the ends (K, 2) of intervals of the number of true rows, by the probabilities ``rows`` (n, K)."""
    n, K = rows.shape
    chances = np.zeros((n + 1, K))
    chances[0] = 1.0
    for p in np.clip(rows, 0.0, 1.0):
        chances[1:] += p * (chances[:-1] - chances[1:])
        chances[0] *= 1.0 - p
    below = chances.cumsum(axis=0)
    tail = (1.0 - level) / 2
    low = (below <= tail + ROUNDING).sum(axis=0)
    high = (below < 1.0 - tail - ROUNDING).sum(axis=0)
    return np.stack([low, high], axis=-1)
