"""The noun `Metric`: a function of a confusion matrix with its gradient and its declared structure.

A metric is a frozen instance, not a class of its own. What a solver may do with it follows from its declared
`structure` over the confusion matrices with fixed row sums, and from the `statistics` it reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Confusion, CostTable, Gains, given_matrix
from confmax.metrics.curved import Climb, OfLabels, SumOfRatios
from confmax.metrics.first_order import FirstOrder, Formula, Function
from confmax.metrics.ratios import ROUNDING, Ratios
from confmax.metrics.structure import (
    BY_WORD,
    AffineFunctions,
    Concave,
    DiagonalFunctions,
    General,
    Linear,
    LinearFunctions,
    MinOfLinear,
    Quasiconvex,
    Ratio,
    Statistics,
    Structure,
)

GainForm = Literal["weights", "offsets", "weights and offsets", "matrix"]

STATISTICS = ("diagonal", "columns", "matrix")
ZERO_TO_ONE = (0.0, 1.0)


@dataclass(frozen=True, repr=False)
class Metric:
    """A function of the confusion matrix that is to be maximised.

    Get one from the catalogue with `get`, or make one from a function with `from_function`.

    Attributes
    ----------
    name : str
        Name in the catalogue.
    formula : callable
        Maps a `Confusion` (and the parameters) to a `FirstOrder`: value and partial derivatives. A `Formula` also has
        values without derivatives, and checks.
    structure : Structure
        Shape over all confusion matrices with the same row sums, with what is known of it
        (`confmax.metrics.structure`). Its ``name`` is "linear", "ratio", "concave", "quasiconvex" or "general", and
        these words are accepted.
    statistics : {"diagonal", "columns", "matrix"}
        What the metric reads besides the row sums; "columns" includes the diagonal.
    params : tuple of (name, value)
        Parameters of the formula.
    binary, ordered, divides_by_prior : bool
        Whether the metric is defined for two classes only; whether it depends on the order of the classes or on one
        special class; whether it divides by the priors of the classes, so that absent classes must be left out.
    classes : tuple of int or None
        The classes that the metric is computed over, in the order that it counts them in (None: all, in the table's
        order).
    equal_weights : bool
        Whether all classes have the same coefficient in the reduced gain, so that only offsets matter.
    fixed : tuple of str
        Parameters that the name of the metric implies.
    one_class : {"alone", "with others"} or None
        Whether the metric is the score of one class: of ``label``, or without a label of the positive one of two
        classes. The class is the last of ``classes``. "alone": it reads the statistics of this class only. If
        ``divides_by_prior``, it divides by the prior of this class only.
    label : str, int, float, bool or None
        Name of that class. It is looked up among the classes of the table that the metric is used on.
    names : tuple of (tuple or None, tuple or None), or None
        Names of the true classes and of the decisions of a table of gains, by which it is aligned with the classes of
        the table of probabilities. None for an axis without names.
    description, title : str
        The metric in words, for lists, and its name in prose; by default the words of its name.
    of_many : str
        Name of the metric to use for more than two classes; empty where there is none.
    trivial_rule : str or None
        In words, what a rule without use decides that makes the metric of one class largest; None for others.
    range : tuple of float
        Between which numbers the values lie.
    use : {"maximised", "within limits", "limited"}
        Whether it is maximised, within limits only, or not at all: what a rule without use makes largest is limited.
    of_all_rows : bool
        Whether it speaks of all rows, those too that a rule leaves undecided.
    aliases, synonyms : tuple of str
        Scikit-learn's scorer names for it, and other words that people write, for which an error names the metric.
    """

    name: str
    formula: Formula
    structure: Structure
    statistics: Statistics
    params: tuple[tuple[str, Any], ...] = ()
    binary: bool = False
    ordered: bool = False
    divides_by_prior: bool = False
    equal_weights: bool = False
    fixed: tuple[str, ...] = ()
    one_class: Literal["alone", "with others"] | None = None
    label: Any = None
    names: tuple[tuple[Any, ...] | None, tuple[Any, ...] | None] | None = None
    classes: tuple[int, ...] | None = None
    description: str = field(default="", compare=False)
    title: str = field(default="", compare=False)
    of_many: str = field(default="mcc", compare=False)
    trivial_rule: str | None = field(default=None, compare=False)
    range: tuple[float, float] = field(default=(-np.inf, np.inf), compare=False)
    use: Literal["maximised", "within limits", "limited"] = field(default="maximised", compare=False)
    of_all_rows: bool = field(default=False, compare=False)
    aliases: tuple[str, ...] = field(default=(), compare=False)
    synonyms: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Take a function for a formula, a word for a structure that knows its shape alone, the name for a title."""
        if not isinstance(self.formula, Formula):
            object.__setattr__(self, "formula", Function(self.formula))
        if isinstance(self.structure, str):
            object.__setattr__(self, "structure", BY_WORD[self.structure])
        if not self.title:
            object.__setattr__(self, "title", self.name.replace("_", " "))

    # --- what users call ---------------------------------------------------------------------------------------------

    def value(self, C: ArrayLike) -> float:
        """Return the metric at a confusion matrix.

        Parameters
        ----------
        C : array-like (K, M)
            Rows true, columns decided. Either fractions that sum to one, or integer counts. Columns beyond the classes
            are further decisions, such as abstaining: they count in the row sums and are never right.

        Returns
        -------
        float
            0/0 is 0, as in scikit-learn with ``zero_division=0`` and all labels listed; so it is for kappa.

        Raises
        ------
        ValueError
            If C is not a matrix of the right shape, its entries do not sum to one, or the metric is not defined for
            further decisions.

        Examples
        --------
        >>> import confmax
        >>> confmax.metrics.get("macro_f1").value([[50, 0], [25, 25]])
        0.7333333333333334
        """
        return float(self.values(self._confusion(C)))

    def gradient(self, C: ArrayLike) -> Array:
        """Return the matrix of partial derivatives at a confusion matrix, by all entries independently.

        Parameters
        ----------
        C : array-like (K, M)
            As for `value`.

        Returns
        -------
        ndarray (K, M)
            Decisions depend on differences within a row only. NaN where the derivative does not exist (G-mean with a
            recall of zero); a supergradient at kinks of the other concave metrics.

        Examples
        --------
        >>> import confmax
        >>> confmax.metrics.get("accuracy").gradient([[0.5, 0.0], [0.25, 0.25]])
        array([[1., 0.],
               [0., 1.]])
        """
        first = self.at(self._confusion(C))
        full = np.array(self.gains(first).matrices()[0])
        return full if first.matrix is not None else full + first.rows[:, None]

    def reduced_gain(self, C: ArrayLike) -> tuple[Array, Array] | None:
        """Return ``(a, b)``, (K,) and (M,), such that ``a_j p_j + b_j`` decides as the full gradient does.

        ``C`` (K, M) holds fractions. None for metrics that read the whole matrix. The reduced gain leaves out constants
        within a row of the gradient: they add the same to all scores.
        """
        first = self.at(self._confusion(C))
        return None if first.matrix is not None else (first.diagonal, first.columns)

    @property
    def gain_form(self) -> GainForm:
        """How the metric's gradients reduce: what a search over gains has to range over."""
        if self.statistics == "matrix":
            return "matrix"
        if self.statistics == "diagonal":
            return "weights"
        return "offsets" if self.equal_weights else "weights and offsets"

    # --- what solvers call -------------------------------------------------------------------------------------------

    def at(self, S: Confusion) -> FirstOrder:
        """Return value and derivatives at the statistics ``S``, which may be a batch."""
        # a bare confusion matrix has no names: there the label of a class is its number
        if self._is_unplaced:
            return self.numbered(S.rows.shape[-1]).at(S)
        K = S.rows.shape[-1]
        n_decisions = S.columns.shape[-1]
        index = self._selected(K, n_decisions)
        if index is None:
            return self.formula(S, **self._arguments)
        first = self.formula(S.select(index), **self._arguments)
        if first.matrix is not None:
            full = np.zeros((*first.matrix.shape[:-2], K, n_decisions))
            # sums over whole columns and rows count the entries outside of the classes too
            if first.columns.size:
                full[..., :, index] += first.columns[..., None, :]
                full[..., index, :] += first.rows[..., :, None]
            full[..., index[:, None], index] = first.matrix
            return FirstOrder(first.value, matrix=full)
        parts = [np.zeros((*S.diagonal.shape[:-1], width)) for width in (K, n_decisions, K)]
        for part, values in zip(parts, first[1:4], strict=True):
            part[..., index] = values
        return FirstOrder(first.value, *parts)

    def values(self, S: Confusion) -> Array:
        """Return the values (B,) at a batch of statistics ``S``, one at a single one; without derivatives."""
        if self._is_unplaced:
            return self.numbered(S.rows.shape[-1]).values(S)
        index = self._selected(S.rows.shape[-1], S.columns.shape[-1])
        return self.formula.values(S if index is None else S.select(index), **self._arguments)

    def folded(self, true: Array, hits: Array, decided: Array) -> Array:
        """Return the values by the numbers of its class, or of the second of two classes.

        Parameters
        ----------
        true, hits, decided : ndarray (...)
            Of which share of all rows the class is true, is decided rightly, and is decided.
        """
        return self.formula.folded(true, hits, decided, **self._arguments)

    def on_segments(self, C: Confusion, V: Confusion) -> Callable[[Array], Array]:
        """Return the function of steps (B, G) that gives the values (B, G) between confusions ``C`` and ``V`` (B)."""
        if self._is_unplaced:
            return self.numbered(C.rows.shape[-1]).on_segments(C, V)
        index = self._selected(C.rows.shape[-1], C.columns.shape[-1])
        # what is selected is the same at every step
        first, last = (C, V) if index is None else (C.select(index), V.select(index))
        return lambda steps: self.formula.values(first.along(last, steps), **self._arguments)

    def best_step(self, C: Confusion, V: Confusion) -> float | None:
        """Return the step in [0, 1] from ``C`` toward ``V`` with the largest value; None if it is not known."""
        index = self._selected(C.rows.shape[-1], C.columns.shape[-1])
        ends = (C, V) if index is None else (C.select(index), V.select(index))
        return self.formula.best_step(*ends, **self._arguments)

    def gains(self, first: FirstOrder) -> Gains:
        """Return the gradient in ``first`` as one gain, reduced where the metric allows."""
        if first.matrix is not None:
            return Gains.from_matrix(first.matrix)
        return Gains.reduced(first.diagonal, first.columns)

    def slope(self, first: FirstOrder, direction: Confusion, origin: Confusion) -> float:
        """Return ``<gradient, direction - origin>``, the gradient in ``first``; both must have the same row sums."""
        if first.matrix is not None and direction.matrix is not None and origin.matrix is not None:
            return float((first.matrix * (direction.matrix - origin.matrix)).sum())
        # the part of the gradient that is constant within a row cancels: both have the same row sums
        along = first.diagonal @ (direction.diagonal - origin.diagonal)
        return float(along + first.columns @ (direction.columns - origin.columns))

    def upper_bound(self, first: FirstOrder, S: Confusion, V: Confusion) -> float | None:
        """Return a bound over all rules from an exact oracle's answer ``V`` to the gradient ``first`` at ``S``.

        None where the structure gives no bound from one answer.
        """
        structure = self.structure
        if self.bounds_any_gain:
            gain = self.gains(first)
            height = gain.dot(V)
            if isinstance(structure, MinOfLinear):
                return float(self.linear_functions(V.rows, V.columns.shape[-1]).bounds(gain, height)[0])
            assert isinstance(structure, Concave) and structure.recall_mean is not None
            kept = slice(None) if self.classes is None else self._index
            return float(structure.recall_mean.bound((gain.pair()[0] * V.rows)[:, kept], height)[0])
        # an exact answer has no negative slope but for rounding
        slope = max(0.0, self.slope(first, V, S))
        # a concave function lies below its tangents, and no rule rises further along this one
        if isinstance(structure, (Linear, Concave)):
            return float(first.value) + slope
        if not isinstance(structure, Ratio):
            return None
        parts = self.as_ratios(S.rows, S.columns.shape[-1])
        if parts is None:
            # a stationary point of a ratio is a global optimum; how much a positive slope may add is not known
            return float(first.value) if slope == 0.0 else None
        level = np.array([first.value])
        return float(parts.bounds(level, slope * parts.denominators(S), parts.doubts(level, V))[0])

    @property
    def bounds_any_gain(self) -> bool:
        """Whether an answer to any gain bounds it, not only one to its own gradient."""
        mean = self.structure.recall_mean if isinstance(self.structure, Concave) else None
        return mean is not None or isinstance(self.structure, MinOfLinear)

    def linear_functions(self, rows: Array, n_decisions: int) -> LinearFunctions:
        """Return the functions whose smallest one the metric is, at ``rows`` (K,) with ``n_decisions`` M."""
        assert isinstance(self.structure, MinOfLinear)
        return cast(LinearFunctions, self.as_functions(rows, n_decisions))

    def as_functions(self, rows: Array, n_decisions: int) -> LinearFunctions | None:
        """Return the linear functions of which the metric is a function, at ``rows`` (K,) with ``n_decisions`` M.

        Of a linear metric this is the metric itself, of a ratio its numerator and its denominator, of the smallest of
        linear functions these, and of a mean of the recalls the recalls. None for other metrics.
        """
        structure = self.structure
        K = len(rows)
        if self.formula.lift is not None:
            return cast("LinearFunctions | None", self.formula.lift.functions(rows))
        if isinstance(structure, MinOfLinear) and self.classes is None:
            return structure.at(rows)
        if isinstance(structure, MinOfLinear):
            return structure.at(rows[self._index]).placed(self.classes or (), K, n_decisions)
        if isinstance(structure, Linear):
            # its tangent at any point: what is constant within a row of the gradient adds the same to every rule
            centre = self.formula.centre(rows, n_decisions, matrix=self.statistics == "matrix")
            first = self.at(centre)
            gains = self.gains(first)
            return AffineFunctions(gains, first.value - gains.dot(centre))
        parts = self.as_ratios(rows, n_decisions) if isinstance(structure, Ratio) else None
        if parts is not None:
            both = Gains.concatenate([parts.top, parts.bottom])
            return AffineFunctions(both, np.append(parts.top_constant, parts.bottom_constant))
        if isinstance(structure, Concave) and structure.recall_mean is not None:
            index = np.array(self.classes or range(K))
            return DiagonalFunctions(rows[index], tuple(index.tolist()), K)
        return None

    def rounding(self, S: Confusion) -> Array:
        """Return by how much rounding of the statistics ``S`` may move the values (B,); NaN without a derivative."""
        first = self.at(S)
        if first.matrix is not None:
            size = np.abs(first.matrix)
            terms = (size * S.matrix).sum((-2, -1)) + size.max((-2, -1))
        else:
            terms = (np.abs(first.diagonal) * S.diagonal).sum(-1) + (np.abs(first.columns) * S.columns).sum(-1)
        return np.asarray(ROUNDING * terms)

    def as_ratios(self, rows: Array, n_decisions: int) -> Ratios | None:
        """Return the affine ratios that the metric sums at ``rows`` (K,), ``n_decisions`` M; None if none."""
        if self.formula.lift is not None:
            return cast("Ratios | None", self.formula.lift.ratios(rows))
        if self._is_unplaced:
            return self.numbered(len(rows)).as_ratios(rows, n_decisions)
        fractions = self.structure.fractions
        if fractions is None:
            return None
        if self.classes is None or self.formula.whole:
            return fractions(rows, **self._arguments)
        return fractions(rows[self._index], **self._arguments).placed(self.classes, len(rows), n_decisions)

    def as_climb(self, rows: Array, n_decisions: int) -> Climb | None:
        """Return the metric as a smooth function of linear ones at ``rows`` (K,), ``n_decisions`` M; None if none."""
        if self.formula.is_separable and self.structure.is_concave and not self.structure.is_linear:
            # that of several labels, which need not be a mean of the recalls
            every = np.eye(2 * len(rows))
            return Climb(AffineFunctions(Gains.reduced(*np.split(every, 2, axis=1))), OfLabels(self, rows))
        if self.structure.is_concave or self.structure.is_ratio:
            return None
        parts = self.as_ratios(rows, n_decisions)
        if parts is not None:
            constants = np.append(parts.top_constant, parts.bottom_constant)
            both = Gains.concatenate([parts.top, parts.bottom])
            return Climb(AffineFunctions(both, constants), SumOfRatios(parts.weights))
        if self.formula.lift is not None:
            return cast("Climb | None", self.formula.lift.climb(rows))
        return None if self.structure.climb is None else cast(Climb, self.structure.climb(rows))

    @property
    def gain(self) -> tuple[tuple[float, ...], ...] | None:
        """The matrix (K, M) of a metric that is a table of gains; None for others."""
        return self.structure.gain if isinstance(self.structure, Linear) else None

    @property
    def is_cost(self) -> bool:
        """Whether the value is minus a mean cost: it is maximised, and shown as the cost, which is to be low."""
        return isinstance(self.structure, Linear) and self.structure.is_cost

    @property
    def shown_name(self) -> str:
        """What people read in the place of the metric: "cost" or "gain" of a table, else its text."""
        return {"costs": "cost", "gains": "gain"}[self.cost_table.of] if self.cost_table else repr(self)

    @property
    def axis_name(self) -> str:
        """What stands along an axis of a figure, where values rise to the better: of costs with the word "minus"."""
        return f"minus the {self.shown_name} of a row" if self.is_cost else self.shown_name

    def shown(self, value: float) -> float:
        """Return a ``value``, or a bound, as people read it: a cost without its minus."""
        # zero is a cost, and minus zero none
        return 0.0 - value if self.is_cost else value

    def stated(self, value: float) -> str:
        """Return the metric and its ``value`` as people read them, such as "macro_f1 = 0.7" and "cost 4.13 a row"."""
        shown = f"{self.shown(value):.6g}"
        return f"{self.shown_name} {shown} a row" if self.cost_table else f"{self!r} = {shown}"

    @property
    def cost_table(self) -> CostTable | None:
        """The table of costs or of gains (K, M) of the metric, as it was given; None for other metrics."""
        if self.gain is None or not self.is_cost:
            return None if self.gain is None else CostTable(self.gain, "gains")
        # zero is a cost, and minus zero none
        return CostTable(tuple(tuple(0.0 - gain for gain in row) for row in self.gain), "costs")

    def n_decisions(self, n_classes: int) -> int:
        """Return the number of decisions M between which the metric chooses on a table of ``n_classes``."""
        if self.formula.whole:
            return self.formula.decides(n_classes)
        return len(self.gain[0]) if self.gain else n_classes

    def smoothed(self, rho: float, smoothing: str | None = None) -> Metric:
        """Return the differentiable stand-in with ``rho`` and ``smoothing`` (paper, Table 2); itself if it has none."""
        smoother = self.structure.smoother
        if smoother is None or rho == 0.0:
            return self
        change: dict[str, Any] = {smoother: rho}
        if smoothing is not None and "smoothing" in dict(self.params):
            change["smoothing"] = smoothing
        return self.with_params(change)

    def with_params(self, change: Mapping[str, Any]) -> Metric:
        """Return the metric with the ``change`` of some parameters; smoothed, it has another structure."""
        params = {**dict(self.params), **change}
        # at zero the parameter changes nothing, and what is known of the metric still holds
        smooth = self.structure.smoother is not None and params[self.structure.smoother] > 0.0
        structure = self.structure.smoothed() if smooth else self.structure
        return replace(self, params=tuple(params.items()), structure=structure)

    def finite(self, n_rows: int) -> Metric:
        """Return the metric with a floor of half a row of ``n_rows``, where it would be infinite; else as it is.

        AMS is infinite where no background is accepted. With the floor it is not quasi-convex; values elsewhere stay.
        """
        structure = self.structure
        params = dict(self.params)
        if not isinstance(structure, Quasiconvex) or structure.floor is None:
            return self
        if any(params[name] for name in (structure.floor, structure.smoother) if name is not None):
            return self
        params[structure.floor] = 0.5 / n_rows
        return replace(self, structure=General(smoother=structure.smoother), params=tuple(params.items()))

    def over(self, classes: Sequence[int]) -> Metric:
        """Return the same metric over ``classes``, in that order; a ValueError if it cannot leave any out."""
        if self.classes is not None:
            raise ValueError(f"{self.name} is already restricted to the classes {self.classes}")
        positions = tuple(int(k) for k in classes)
        if len(positions) < 2 or len(set(positions)) < len(positions) or min(positions) < 0:
            raise ValueError(f"{self.name} needs at least two different classes, as column numbers; got {positions}")
        return replace(self, classes=positions)

    def of_class(self, k: int, n_classes: int) -> Metric:
        """Return a metric of one class for a table of ``n_classes`` columns in which its class is column ``k``."""
        others = () if self.one_class == "alone" else tuple(j for j in range(n_classes) if j != k)
        return replace(self, classes=(*others, int(k)))

    def numbered(self, n_classes: int) -> Metric:
        """Return the metric for ``n_classes`` that are called 0, 1, ...; a ValueError if its label is no such number.

        Metrics that have no label, or have met their table, are returned as they are.
        """
        if not self._is_unplaced:
            return self
        called = [str(k) for k in range(n_classes)]
        if str(self.label) not in called:
            raise ValueError(
                f"{self!r} names a class, and a confusion matrix of {n_classes} classes has numbers only; give the "
                f"number of its row, as in {self.name}[{n_classes - 1}]"
            )
        return self.of_class(called.index(str(self.label)), n_classes)

    def described(self, name: str) -> str:
        """Return the description with the ``name`` of the positive class; as it is, where it names a class already."""
        if self.label is not None:
            return self.description
        words = "one class|of this class|this class|class 1" if self.one_class else "class 1"
        # a function, because a name may hold backslashes, which a replacement text would interpret
        return re.sub(words, lambda _: name, self.description)

    def divided_by(self, n_classes: int) -> tuple[int, ...]:
        """Return the classes of a table of ``n_classes`` by whose priors the metric divides."""
        if not self.divides_by_prior:
            return ()
        used = self.classes or tuple(range(n_classes))
        return used if self.one_class is None else used[-1:]

    @property
    def class_place(self) -> int | None:
        """The column of the class that a metric of one class is of, the second of two where it names none.

        None for metrics of several classes, and for those that get the whole table.
        """
        if self.one_class is None or self.formula.whole:
            return None
        return 1 if self.classes is None else self.classes[-1]

    def depends_on_order(self, n_classes: int) -> bool:
        """Whether the value depends on the order of ``n_classes`` classes, or on which of them is a special one."""
        return self.ordered or self.formula.reads_order(n_classes)

    def among(self, S: Confusion) -> Array:
        """Return of which rows it is a share (...) at confusions ``S`` (...), as a share of all rows."""
        index = self._selected(S.rows.shape[-1], S.columns.shape[-1])
        return self.formula.among(S if index is None else S.select(index))

    def check_table(self, n_classes: int, n_decisions: int) -> None:
        """Refuse, by a ValueError, ``n_classes`` columns or ``n_decisions`` that the metric is not defined for."""
        given = n_classes if self.classes is None else len(self.classes)
        if self.classes is not None and max(self.classes) >= n_classes:
            raise ValueError(
                f"{self.name} is taken over the columns {self.classes} of a table of {n_classes}; number them from 0"
            )
        if self.binary and given != 2:
            named = f"write {self.name}[NAME] for the class NAME" if self.one_class else ""
            ways_out = ", or ".join(filter(None, (named, self.of_many and f"use {self.of_many}")))
            raise ValueError(f"{self.name} is a metric of two classes and the table has {given}; {ways_out}")
        shape = (len(self.gain), len(self.gain[0])) if self.gain else None
        if shape is not None and shape != (n_classes, n_decisions):
            raise ValueError(
                f"the gain matrix of {self.name} has shape {shape} and the table has {n_classes} classes; give one row "
                f"per class and one column per decision"
            )
        of_classes = self.statistics == "matrix" and shape is None and not self.formula.takes_further
        if n_decisions > n_classes and of_classes:
            raise ValueError(
                f"{self.name} compares the classes with each other, and is not defined for {n_decisions} decisions "
                f"between {n_classes} classes; use a metric of the diagonal and the column sums, such as cohen_kappa"
            )
        if n_decisions > n_classes and self.formula.counts_others_decided:
            raise ValueError(
                f"{self.name} speaks of the rows that are decided as other classes, and is not defined for "
                f"{n_decisions} decisions between {n_classes} classes; pass abstain= if the last decision is to "
                f"abstain, or use recall or specificity"
            )
        self.formula.admit(given, n_decisions if self.classes is None else given)

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _is_unplaced(self) -> bool:
        """Whether the column of its class is not known yet."""
        return self.label is not None and self.classes is None

    @property
    def _arguments(self) -> dict[str, Any]:
        """The formula's parameters: those of the metric, and a table of gains."""
        return {**dict(self.params), **({"gain": self.gain} if self.gain else {})}

    def _selected(self, n_classes: int, n_decisions: int) -> NDArray[np.intp] | None:
        """Return the classes whose statistics the formula gets, None where it gets the statistics as they are."""
        if self.formula.whole:
            return None
        if self.classes is not None:
            return self._index
        # a decision beyond the classes, such as abstaining, is never a hit: it counts in the row sums alone
        return None if n_decisions == n_classes or self.statistics == "matrix" else np.arange(n_classes)

    @cached_property
    def _index(self) -> NDArray[np.intp]:
        """The classes as an array: there may be very many of them."""
        return np.array(self.classes, dtype=np.intp)

    def _confusion(self, C: ArrayLike) -> Confusion:
        raw = given_matrix(C, self.name)
        self.check_table(*raw.shape)
        return Confusion.from_matrix(raw)

    def __repr__(self) -> str:
        # the name alone says that nothing is smoothed, and that smoothing is relative to the class shares
        plain = (0.0, "relative")
        shown = [f"{key}={value}" for key, value in self.params if key not in self.fixed and value not in plain]
        name = self.name if self.label is None else f"{self.name}[{self.label}]"
        if self.classes is not None and self.label is None and not self.formula.whole:
            shown.append(f"classes={self.classes}")
        return f"{name}({', '.join(shown)})" if shown else name
