"""Constraints on one table: their metrics placed among its classes, and the rows that a master problem reads.

At fixed row sums a limit on a ratio N / D is linear: a floor l is ``N - l D >= 0``, a ceiling ``l D - N >= 0``
(Dinkelbach's functions, as in `confmax.metrics.ratios`). A floor on a mean of the recalls is convex (`Limits.curves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.constraints.grammar import parse, resolve
from confmax.constraints.words import Constraint, metric_text, number_text
from confmax.metrics import Metric
from confmax.metrics.alignment import fit_metric, with_positive
from confmax.metrics.decided import Coverage, as_written, of_decided
from confmax.metrics.first_order import TINY
from confmax.metrics.metric import STATISTICS
from confmax.metrics.ratios import Ratios
from confmax.metrics.scores import false_positive_rate, rate, specificity
from confmax.metrics.structure import (
    AffineFunctions,
    Concave,
    Linear,
    MeanFloor,
    MinOfLinear,
    PowerMean,
    Ratio,
    Statistics,
)
from confmax.tables import Table, refuse_too_few_classes
from confmax.tables.labels import plain

MOST_ENTRIES = 1 << 27  # of all rows together: 1 GiB
ALIKE = 1e-12  # difference between limits that rounding explains


@dataclass(frozen=True)
class Limits:
    """Constraints whose metrics are placed among the classes of a table; `bind` makes them.

    Attributes
    ----------
    constraints : tuple of Constraint
        In the order that they were given in.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax import constraints as c
    >>> from confmax.confusion import Confusion
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.75, 0.25], [0.5, 0.5]], ["no", "yes"])
    >>> limits = c.bind(["recall[yes] >= 0.8", "rate <= 0.5"], table, explicit=True)
    >>> limits.texts
    ('recall[yes] >= 0.8', 'rate[yes] <= 0.5')
    >>> S = Confusion.from_matrix([[0.5, 0.125], [0.125, 0.25]])
    >>> limits.slacks(S).round(3)
    array([-0.133,  0.125])
    >>> limits.functions(S.rows, 2).values(S).round(3)
    array([-0.133,  0.125])
    """

    constraints: tuple[Constraint, ...]

    def __len__(self) -> int:
        return len(self.constraints)

    @property
    def texts(self) -> tuple[str, ...]:
        """The constraints as text. A limit of the positive one of two classes names this class."""
        return tuple(one.text for one in self.constraints)

    @property
    def stored(self) -> tuple[str, ...]:
        """The texts that say all.

        Those on tables of costs, on users' functions and on another order of the classes than the table's do not.
        """
        return tuple(one.text for one in self.constraints if _is_read_back(one))

    @property
    def statistics(self) -> Statistics:
        """What the metrics read besides the row sums: "diagonal", "columns" (and the diagonal) or "matrix"."""
        return max((one.metric.statistics for one in self.constraints), key=STATISTICS.index)

    def owner(self, n_classes: int) -> NDArray[np.intp]:
        """Return for each of the m rows of `functions` (m,) the index of its constraint, for ``n_classes`` K."""
        return np.repeat(np.arange(len(self)), [_n_rows(one.metric, n_classes) for one in self.constraints])

    def functions(self, rows: Array, n_decisions: int) -> AffineFunctions:
        """Return the m functions that must not fall below zero at row sums ``rows`` (K,), with ``n_decisions`` M.

        Each is ``(value - limit) D / D_0`` of a floor, and its negative of a ceiling: the slack in the unit of the
        metric times its denominator D, in units of D_0, the denominator of the rule without errors. So a factor of
        numerator and denominator changes nothing. D is one for what is linear. A floor on a smallest function is a
        floor on each of them. Of a floor on a mean of the recalls these are the recalls plus one, as `curves` says.

        Raises
        ------
        ValueError
            If a table of costs has not M columns.
        """
        parts = [_functions(one, np.asarray(rows, dtype=np.float64), n_decisions) for one in self.constraints]
        constants = [np.zeros(len(part)) if part.constants is None else part.constants for part in parts]
        gains = Gains.concatenate([part.gains for part in parts])
        apart = gains.full is not None and any(part.gains.full is None and not part.gains.power for part in parts)
        return AffineFunctions(gains, np.concatenate(constants), tuple(parts) if apart else ())

    def curves(self, n_classes: int) -> tuple[MeanFloor, ...]:
        """Return the floors on means of the recalls, with their rows among `functions`, for ``n_classes`` K."""
        ends = np.cumsum([0, *(_n_rows(one.metric, n_classes) for one in self.constraints)])
        return tuple(
            MeanFloor(slice(int(ends[k]), int(ends[k + 1])), mean, one.limit)
            for k, one in enumerate(self.constraints)
            if (mean := _mean_of(one.metric)) is not None
        )

    def values(self, S: Confusion) -> Array:
        """Return the values (..., n) of the n metrics at a confusion ``S``, or at each of a batch (...)."""
        return np.stack([np.asarray(one.metric.values(S)) for one in self.constraints], axis=-1)

    def slacks(self, S: Confusion) -> Array:
        """Return by how much each limit is kept (..., n) at ``S``, in the unit of its metric; negative: violated.

        It is zero where a ratio has no denominator (`vacuous`).
        """
        signs = np.array([1.0 if one.is_floor else -1.0 for one in self.constraints])
        limits = np.array([one.limit for one in self.constraints])
        return np.where(self.vacuous(S), 0.0, signs * (self.values(S) - limits))

    def scales(self, S: Confusion) -> Array:
        """Return by how much each of the m rows of `functions` (m,) changes with its metric, D / D_0, at ``S``.

        Prices of the recalls under a mean are those of the mean times its derivatives: they add up to its price.
        """
        K, M = len(S.rows), S.columns.shape[-1]
        parts = []
        for one in self.constraints:
            if isinstance(one.metric.structure, MinOfLinear):
                parts.append(np.ones(_n_rows(one.metric, K)))
                continue
            mean = _mean_of(one.metric)
            if mean is not None:
                functions = one.metric.as_functions(S.rows, M)
                assert functions is not None
                _, slopes = mean.tangent(functions.values(S))
                parts.append(np.full(len(slopes), 1.0 / slopes.sum()))
                continue
            ratio = _ratio(one.metric, S.rows, M)
            parts.append(ratio.denominators(S) / (_without_errors(ratio, S.rows) or 1.0))
        return np.concatenate(parts)

    def vacuous(self, S: Confusion) -> NDArray[np.bool_]:
        """Return which limits (..., n) are kept at ``S`` because their ratio is 0/0: precisions of no decision."""
        if S.rows.ndim > 1:
            # what a denominator is depends on the row sums
            shape = S.diagonal.shape[:-1]
            every = [self.vacuous(S[index]) for index in np.ndindex(*shape)]
            return np.array(every, dtype=bool).reshape(*shape, len(self))
        parts = [_without_denominator(one.metric, S) for one in self.constraints]
        return np.stack(parts, axis=-1)


def bind(
    constraints: Any, table: Table, *, explicit: bool, pos_label: Any = None, n_decisions: int | None = None,
    abstains: bool = False,
) -> Limits | None:  # fmt: skip
    """Return ``constraints``, as for `resolve`, placed among the classes of a ``table``; None if there are none.

    ``explicit`` says whether the order of the classes was given, ``pos_label`` which of two classes is the positive
    one, ``n_decisions`` between how many decisions rules choose (None: those of the tables of costs, or K).
    ``abstains`` says that the last of K + 1 decisions is to abstain: metrics are then those of what is decided.

    Raises
    ------
    ValueError
        If a constraint cannot be used on this table: it names an unknown class or one without weight, or depends on the
        order of the classes and that was not given. Also if two contradict each other, whatever the table; so do a
        floor and a lower ceiling of one precision, though a class that is never decided would keep both.
    """
    given = resolve(constraints)
    if not given:
        return None
    K = table.n_classes
    placed = tuple(_placed(one, table, explicit=explicit, pos_label=pos_label, abstains=abstains) for one in given)
    # decisions beyond the classes are those of a table of costs
    M = n_decisions or max(one.metric.n_decisions(K) for one in placed)
    for one in placed:
        with _naming(one):
            one.metric.check_table(K, M)
    limits = Limits(placed)
    m, whole = len(limits.owner(K)), limits.statistics == "matrix"
    if m * (K * M if whole else K + M) > MOST_ENTRIES:
        raise ValueError(
            f"these constraints are {m:,} linear functions of {K:,} classes, too many to hold; limit single classes "
            f"instead of min_recall, or leave out the metrics that read the whole matrix"
        )
    _refuse_contradictions(placed, [str(plain(name)) for name in table.classes], M)
    return limits


def judged(constraints: Any, table: Table, *, abstains: bool = False) -> tuple[Limits | None, tuple[str, ...]]:
    """Return the constraints that the labels of a ``table`` can judge, as `bind` does, and the texts of the others.

    The others are those of classes without rows, whose recall and precision are not defined. ``abstains`` is that of
    `bind`.

    Examples
    --------
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]], ["no", "yes"], classes=["no", "yes", "maybe"])
    >>> limits, absent = judged(["recall[yes] >= 0.8", "recall[maybe] >= 0.5"], table)
    >>> limits.texts, absent
    (('recall[yes] >= 0.8',), ('recall[maybe] >= 0.5',))
    """
    present = table.label_weight() > 0.0
    lacking = [str(plain(name)) for name, has in zip(table.classes, present, strict=True) if not has]
    kept, absent = [], []
    for one in resolve(constraints):
        try:
            _placed(one, table, explicit=True, pos_label=None, abstains=abstains)
        except ValueError:
            if one.metric.label not in lacking:
                raise
            absent.append(one.text)
        else:
            kept.append(one)
    return bind(kept, table, explicit=True, abstains=abstains), tuple(absent)


class _naming:
    """Names the constraint in the sentence of an error."""

    def __init__(self, one: Constraint) -> None:
        self.one = one

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValueError):
            raise ValueError(f"the constraint {self.one.text!r} cannot be used: {error}") from error


def _placed(one: Constraint, table: Table, *, explicit: bool, pos_label: Any, abstains: bool) -> Constraint:
    """Return a constraint whose metric is placed among the classes of a table."""
    # a constraint that was placed on another table is placed again by its name
    metric = as_written(one.metric)
    metric = metric if metric.label is None else replace(metric, classes=None)
    if isinstance(metric.formula, Coverage) and not abstains:
        with _naming(one):
            raise ValueError("coverage is the share of rows that are decided, and this rule decides all rows; pass "
                             "abstain=True (--abstain), or leave it out")  # fmt: skip
    # several constraints in one text read as a strange class
    label = str(metric.label)
    several = "" if not ("]" in label and "[" in label) else "; write every constraint as a text of its own"
    with _naming(one):
        try:
            metric = fit_metric(with_positive(metric, table.classes, pos_label), table, explicit=explicit)
        except ValueError as error:
            raise ValueError(f"{error}{several}") from error
        metric = _labelled(metric, table.classes)
        # fit_metric has refused the coverage of an absent class
        if metric.one_class is not None and not isinstance(metric.formula, Coverage) and not _scale(metric, table):
            source = "y" if table.has_labels else "proba"
            raise ValueError(
                f"{source} has no weight in class {metric.label}, so {metric_text(metric)} is 0 for every rule; take "
                f"rows that include this class, or leave this limit out"
            )
        return replace(one, metric=_of_decided(metric, table.n_classes) if abstains else metric)


def _of_decided(metric: Metric, n_classes: int) -> Metric:
    """Return a metric of what is decided, if it can be limited."""
    found = of_decided(metric, n_classes)
    if isinstance(found.structure, (Linear, Ratio)):
        return found
    raise ValueError(
        f"of the rows that are decided, {metric_text(metric)} is neither linear nor a ratio; beside abstain limit "
        f"accuracy, coverage, or the recall, precision, f1 or coverage of single classes"
    )


def _labelled(metric: Metric, classes: Sequence[Any]) -> Metric:
    """Return a metric of the positive one of two ``classes`` by the name of this class; others as they are."""
    if metric.one_class is None or metric.label is not None:
        return metric
    k = (metric.classes or (0, 1))[-1]
    name = str(plain(classes[k]))
    described = metric.described(name)
    named = replace(metric, label=name, binary=False, ordered=False, description=described, classes=None)
    return named.of_class(k, len(classes))


def _scale(metric: Metric, table: Table) -> float:
    """Return the denominator of the rule without errors where all classes with weight have the same."""
    present = refuse_too_few_classes(table)
    return _without_errors(_ratio(metric, present / present.sum(), table.n_classes), present / present.sum())


def _is_read_back(one: Constraint) -> bool:
    """Whether the text of a constraint names its metric, in the order of the columns."""
    metric = as_written(one.metric)
    places = metric.classes or ()
    if metric.label is None and list(places) != sorted(places):
        return False
    try:
        again = parse(one.text).metric.formula
        return again is metric.formula or (isinstance(again, Coverage) and isinstance(metric.formula, Coverage))
    except ValueError:
        return False


# --- contradictions ---------------------------------------------------------------------------------------------------


def _refuse_contradictions(placed: Sequence[Constraint], names: Sequence[str], n_decisions: int) -> None:
    """Refuse, by a ValueError, limits that no rule on any table keeps."""
    floors: dict[Any, tuple[float, Constraint]] = {}
    ceilings: dict[Any, tuple[float, Constraint]] = {}
    for one in placed:
        key, limit, is_floor = _as_limited(one)
        tightest = floors if is_floor else ceilings
        if key not in tightest or (limit > tightest[key][0]) == is_floor:
            tightest[key] = (limit, one)
    for key, (low, floor) in floors.items():
        high, ceiling = ceilings.get(key, (np.inf, floor))
        if low > high + ALIKE:
            raise ValueError(f"the constraints {floor} and {ceiling} contradict each other; loosen one of them")
    lows, highs = (
        {key[2][-1]: limit for key, (limit, _) in limits.items() if key[0] is rate} for limits in (floors, ceilings)
    )
    if sum(lows.values()) > 1 + ALIKE:
        shown = ", ".join(f"{names[k]}: {number_text(low)}" for k, low in list(lows.items())[:8])
        total = number_text(round(sum(lows.values()), 12))
        raise ValueError(
            f"the floors on rates add up to {total} ({shown}), and every row is decided once; lower one of them"
        )
    if len(highs) == len(names) == n_decisions and sum(highs.values()) < 1 - ALIKE:
        total = number_text(round(sum(highs.values()), 12))
        raise ValueError(
            f"the ceilings on the rates of all {len(names)} classes add up to {total}, and every row is decided as one "
            f"of them; raise one of them"
        )


def _as_limited(one: Constraint) -> tuple[Any, float, bool]:
    """Return what is limited, at which number, and whether from below; a false positive rate by its complement."""
    metric, limit, is_floor = one.metric, one.limit, one.is_floor
    formula = metric.formula
    if formula is false_positive_rate:
        formula, limit, is_floor = specificity, 1.0 - limit, not is_floor
    return (formula, metric.params, metric.classes, metric.gain), limit, is_floor


def least_coverage(limits: Limits | None, n_classes: int) -> tuple[float, tuple[float, ...]]:
    """Return the floors that limits set on the coverage: of all rows, and of each of ``n_classes`` (K)."""
    whole, of_classes, decided = 0.0, np.zeros(n_classes), np.zeros(n_classes)
    for one in () if limits is None else limits.constraints:
        if not one.is_floor:
            continue
        if isinstance(one.metric.formula, Coverage):
            place = one.metric.formula.place
            if place is None:
                whole = max(whole, one.limit)
            else:
                of_classes[place] = max(of_classes[place], one.limit)
        elif one.metric.formula is rate:
            place = (one.metric.classes or (0,))[-1]
            decided[place] = max(decided[place], one.limit)
    # a row that is decided as a class is decided
    return max(whole, float(decided.sum())), tuple(of_classes.tolist())


# --- rows -------------------------------------------------------------------------------------------------------------


def _mean_of(metric: Metric) -> PowerMean | None:
    """Return the mean of the recalls that a metric is, None for other metrics."""
    return metric.structure.recall_mean if isinstance(metric.structure, Concave) else None


def _n_rows(metric: Metric, n_classes: int) -> int:
    """Return how many linear functions a limit on a metric is."""
    if _mean_of(metric) is not None:
        return len(metric.classes or range(n_classes))
    if not isinstance(metric.structure, MinOfLinear):
        return 1
    return len(metric.linear_functions(np.full(n_classes, 1 / n_classes), n_classes))


def _functions(one: Constraint, rows: Array, n_decisions: int) -> AffineFunctions:
    """Return the functions that must not fall below zero, as `Limits.functions` says."""
    metric, limit = one.metric, one.limit
    if isinstance(metric.structure, MinOfLinear):
        functions = metric.linear_functions(rows, n_decisions)
        gains = functions.combined(np.eye(len(functions)))
        constants = getattr(functions, "constants", None)
        total = np.full(len(functions), -limit) if constants is None else constants - limit
        return AffineFunctions(_wide(gains, n_decisions), total)
    if _mean_of(metric) is not None:
        recalls = metric.as_functions(rows, n_decisions)
        assert recalls is not None
        gains = recalls.combined(np.eye(len(recalls)))
        return AffineFunctions(_wide(gains, n_decisions), np.ones(len(recalls)))
    parts = _ratio(metric, rows, n_decisions)
    scale = _without_errors(parts, rows) or 1.0
    factor = (1.0 if one.is_floor else -1.0) / scale
    gains = parts.gains(np.array([limit]))
    return AffineFunctions(_times(gains, factor), factor * (parts.top_constant - limit * parts.bottom_constant) + 0.0)


def _ratio(metric: Metric, rows: Array, n_decisions: int) -> Ratios:
    """Return numerator and denominator of a ratio, or of a linear metric over one, for all ``n_decisions``."""
    parts = metric.as_ratios(rows, n_decisions)
    if parts is None:
        linear = metric.as_functions(rows, n_decisions)
        assert isinstance(linear, AffineFunctions) and linear.constants is not None
        one, none = np.ones(1), Gains.reduced(np.zeros(len(rows)), np.zeros(n_decisions))
        parts = Ratios(linear.gains, none, linear.constants, one, one, one)
    return replace(parts, top=_wide(parts.top, n_decisions), bottom=_wide(parts.bottom, n_decisions))


def _without_errors(parts: Ratios, rows: Array) -> float:
    """Return the denominator of a single ratio where every row is decided as its class."""
    M = parts.bottom.n_decisions
    columns = np.concatenate([rows, np.zeros(M - len(rows))])
    whole = parts.bottom.full is not None or parts.bottom.power
    S = Confusion(rows, rows, columns, np.eye(len(rows), M) * rows[:, None] if whole else None)
    return max(0.0, float(parts.denominators(S)[0]))


def _without_denominator(metric: Metric, S: Confusion) -> NDArray[np.bool_]:
    """Return where a ratio is 0/0 (...) at a batch of confusions (...) of the same row sums."""
    shape = S.diagonal.shape[:-1]
    if not isinstance(metric.structure, Ratio):
        return np.zeros(shape, dtype=bool)
    D = _ratio(metric, S.rows, S.columns.shape[-1]).denominators(S)
    return np.asarray(D <= TINY).reshape(shape)


def _wide(gains: Gains, n_decisions: int) -> Gains:
    """Return gains with an offset for each of ``n_decisions``: those beyond the classes have none."""
    further = n_decisions - gains.n_decisions
    if further == 0:
        return gains
    if gains.full is not None:
        raise ValueError(
            f"a table of costs in a constraint has {gains.n_decisions} decisions and the rule chooses between "
            f"{n_decisions}; give every decision a column"
        )
    a, b = gains.coefficients()
    return Gains(a, np.pad(b, ((0, 0), (0, further))), power=gains.power)


def _times(gains: Gains, factor: float) -> Gains:
    """Return gains times a number; zeros are not negative."""
    if gains.full is not None:
        return Gains.from_matrix(factor * gains.full + 0.0)
    a, b = gains.coefficients()
    return Gains(factor * a + 0.0, factor * b + 0.0, power=gains.power)
