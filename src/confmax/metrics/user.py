"""A user's own function of the confusion matrix: its gradient, and what is checked before a solver relies on it.

The gradient is the user's, or exact by automatic differentiation (`confmax.metrics.autodiff`), or by differences, with
a warning, where a function cannot be traced. Line searches and the loop call `values`, so that a gradient is computed
only once per iterate. Which gradient it is, and whether the function keeps its promises, is tested once per shape
(K, M): at construction for two and three classes, or for the number that the user names, and for a table of another
shape when the metric is first used on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics import autodiff
from confmax.metrics.first_order import FirstOrder, Formula
from confmax.metrics.recalls import smallest
from confmax.metrics.structure import STEPS, MinOfLinear, random_confusion, random_rows, refutation
from confmax.tables.columns import warn

Slope = Callable[[Array], Array]
T = TypeVar("T")

EXCHANGED = 1e-9  # relative change of the value from which on the order of the classes matters
MATRICES = 4  # random matrices at which a gradient is compared with differences
ENTRIES = 40  # entries of each that are compared
SEGMENTS = 12  # random segments on which the structure is tested
TOLERANCE = 1e-4
AGREES = 1e-9  # relative difference between a function and the structure that determines it
MAKE_FINITE = "return a finite number for every rule, such as with a small number beside what the function divides by"


def _positive_matrices(rng: np.random.Generator, K: int, M: int) -> list[Array]:
    """Return the uniform confusion matrix and random ones halfway to it: no entry is too small for differences."""
    start = np.full((K, M), 1 / (K * M))
    return [start, *((random_confusion(rng, random_rows(rng, K), M) + start) / 2 for _ in range(MATRICES))]


class _NoNumber(ValueError):
    """The function returns something else."""


def number_of(psi: Callable[..., Any], *parts: Array) -> float:
    """Return the value of a user's function, which may write into its arguments; a ValueError if it is no number."""
    value = psi(*parts)
    if np.ndim(value) != 0 or not isinstance(value, (int, float, np.number, np.ndarray)):
        raise _NoNumber(f"a metric's function returns one number; got {value!r:.60}")
    return float(value)


def at_reached(name: str, work: Callable[[Array], T], at: Array) -> T:
    """Return what ``work`` makes of statistics that a search reached; where it raises, a ValueError with a way out."""
    try:
        return work(at)
    except _NoNumber:
        raise
    except Exception as error:
        raise ValueError(
            f"{name} cannot be computed for a rule that the search met: {type(error).__name__}: {error}; {MAKE_FINITE}"
        ) from error


def refuse_infinite(metric: Any, value: float) -> None:
    """Refuse, by a ValueError, a ``metric`` that is infinite or NaN for the best rule: it compares no others."""
    if not np.isfinite(value):
        raise ValueError(f"{metric!r} is {value} for the best rule that was found; {MAKE_FINITE}")


class _Unfit(Exception):
    """The function raised at a shape, or is not finite there: it may be meant for another number of classes."""


@dataclass(frozen=True)
class UserFormula(Formula):
    """A function ``psi`` of the matrix (K, M) as a formula, and its ``gradient`` (K, M), if the user gives one.

    ``name`` and ``structure`` are for messages and the check. ``smallest`` holds the linear functions whose smallest
    one it is declared to be: they then give its values and derivatives, and the function serves for checks.
    """

    psi: Callable[[Array], float]
    gradient: Slope | None
    name: str
    structure: str
    smallest: MinOfLinear | None = None
    _slopes: dict[tuple[int, ...], Slope] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, S: Confusion, *, rho: float = 0.0, **_: Any) -> FirstOrder:
        """Return value and gradient at ``S``, one matrix after another."""
        if self.smallest is not None:
            return _first_order(self.smallest, S, rho)
        assert S.matrix is not None
        shape = S.matrix.shape[-2:]
        self.admit(*shape)
        slope = self._slopes[shape]
        slopes = [at_reached(self.name, slope, C) for C in S.matrix.reshape(-1, *shape)]
        return FirstOrder(self.values(S), matrix=np.array(slopes).reshape(S.matrix.shape))

    def values(self, S: Confusion, *, rho: float = 0.0, **_: Any) -> Array:
        """Return the values alone: one call of the function per matrix of the batch."""
        if self.smallest is not None:
            parts = [smallest(self.smallest.at(part.rows).values(part), rho)[0] for part in _of_equal_rows(S)]
            return np.concatenate([np.reshape(part, -1) for part in parts]).reshape(S.diagonal.shape[:-1])
        assert S.matrix is not None
        flat = S.matrix.reshape(-1, *S.matrix.shape[-2:])
        return np.array([at_reached(self.name, self._number, C) for C in flat]).reshape(S.matrix.shape[:-2])

    def _number(self, C: Array) -> float:
        return number_of(self.psi, C.copy())

    # --- checks -------------------------------------------------------------------------------------------------------

    def probe(self, sizes: tuple[int, ...]) -> None:
        """Check at several numbers of classes, of which the function need accept only some.

        A function that raises at all of them is left to `admit`: it may be meant for a number that is not known yet.
        """
        refused = []
        for K in sizes:
            try:
                self._check(K, K)
            except _Unfit as error:
                refused.append(error)
        # these are what functions raise that are meant for another number of classes
        other_number = (LookupError, ValueError, AssertionError)
        faults = [error for error in refused if not isinstance(error.__cause__, other_number)]
        if len(refused) == len(sizes) and faults:
            raise ValueError(str(faults[0])) from faults[0].__cause__

    def admit(self, n_classes: int, n_decisions: int) -> None:
        """Check at one shape, once.

        A ValueError if the function raises there or is not finite, if the user's gradient disagrees with differences,
        or if a segment refutes the structure.
        """
        if (n_classes, n_decisions) not in self._slopes:
            try:
                self._check(n_classes, n_decisions)
            except _Unfit as error:
                raise ValueError(str(error)) from error.__cause__

    def _check(self, K: int, M: int) -> None:
        # the same matrices for every function and call: a check must not pass by luck the second time
        rng = np.random.default_rng([K, M])
        where = f"confusion matrices of {K} classes" + (f" and {M} decisions" if M != K else "")
        start, *inside = _positive_matrices(rng, K, M)
        with np.errstate(all="ignore"):
            try:
                found = [self._number(C) for C in (start, *inside)]
            except _NoNumber:
                raise
            except Exception as error:
                raise _Unfit(f"{self.name} cannot be computed on {where}: {type(error).__name__}: {error}") from error
            if not np.isfinite(found).all():
                bad = next(value for value in found if not np.isfinite(value))
                raise _Unfit(f"{self.name} is {bad} on {where} whose entries are all positive; it must be finite there")
            if self.smallest is not None:
                self._check_smallest(self.smallest, inside)
            slope = self._chosen_slope(inside, rng)
            self._check_structure(rng, K, M)
        self._slopes[K, M] = slope

    def _check_smallest(self, smallest: MinOfLinear, inside: list[Array]) -> None:
        for C in inside:
            S = Confusion.from_matrix(C)
            value = self._number(C)
            least = float(smallest.at(S.rows).values(S).min())
            if not abs(value - least) <= AGREES * max(1.0, abs(value)):
                raise ValueError(
                    f"{self.name} is declared the smallest of linear functions and is not: at a confusion matrix of "
                    f"{len(C)} classes it is {value:.6g}, and the smallest function {least:.6g}; correct one of them"
                )

    def _check_structure(self, rng: np.random.Generator, K: int, M: int) -> None:
        if self.structure == "general":
            return
        for _ in range(SEGMENTS):
            rows = random_rows(rng, K)
            A, B = (random_confusion(rng, rows, M) for _ in range(2))
            values = np.array([self._number((1 - t) * A + t * B) for t in STEPS])
            reason = refutation(values, self.structure)
            if reason is not None:
                raise ValueError(
                    f"{self.name} is declared {self.structure!r} and is not: on the segment between two confusion "
                    f"matrices of {K} classes with the same row sums, from {values[0]:.6g} to {values[-1]:.6g}, "
                    f"{reason}; declare structure='general', or name n_classes= if it is meant for another number"
                )

    def reads_order(self, n_classes: int) -> bool:
        """Whether the value changes when classes are exchanged: rows and columns of the matrix at the same time.

        Exchanging the first two classes and moving all by one make every order; a random order is tried beside them.
        What raises on such a matrix, or is not finite, is taken to depend on the order: it may have a place for each
        class.
        """
        K = n_classes
        rng = np.random.default_rng([K, K, 1])
        orders = [np.r_[1, 0, 2:K], np.roll(np.arange(K), 1), rng.permutation(K)]
        _, *inside = _positive_matrices(rng, K, K)
        with np.errstate(all="ignore"):
            try:
                own = np.array([self._number(C) for C in inside])
                moved = np.array([[self._number(C[np.ix_(order, order)]) for C in inside] for order in orders])
                # a NaN compares as false, and so counts as a dependence
                return not np.abs(moved - own).max() <= EXCHANGED * max(1.0, np.abs(own).max())
            except Exception:
                return True

    # --- gradients ----------------------------------------------------------------------------------------------------

    def _chosen_slope(self, inside: list[Array], rng: np.random.Generator) -> Slope:
        """Return the gradient to use at this shape: the user's, the traced one, or differences."""
        shape = inside[0].shape
        if self.gradient is not None:
            for C in inside:
                try:
                    slope = np.asarray(self.gradient(C.copy()), dtype=np.float64)
                except Exception as error:
                    reason = f"{type(error).__name__}: {error}"
                    raise _Unfit(f"gradient= of {self.name} fails at shape {shape}: {reason}") from error
                if slope.shape != shape:
                    raise _Unfit(
                        f"gradient= of {self.name} returns the partial derivatives, shape {shape}; got {slope.shape}"
                    )
                wrong = self._disagreement(C, slope, rng)
                if wrong is not None:
                    raise ValueError(f"gradient= of {self.name} is wrong: {wrong}; correct it, or leave gradient= out")
            return self.gradient
        try:
            for C in inside:
                wrong = self._disagreement(C, autodiff.gradient(self.psi, C), rng)
                if wrong is not None:
                    raise autodiff.NotTraceable(f"traced, {wrong}")
        except Exception as error:
            if self._differences not in self._slopes.values():  # once is enough
                reason = f"{type(error).__name__}: {error}"
                warn(
                    f"{self.name} cannot be differentiated automatically ({reason:.200}); its gradient is taken by "
                    f"differences, {2 * shape[0] * shape[1]} calls for {shape[0]} classes; pass gradient=, or write it "
                    f"in NumPy without float() and without assigning into arrays"
                )
            return self._differences
        return self._traced

    def _disagreement(self, C: Array, slope: Array, rng: np.random.Generator) -> str | None:
        """Return in words where ``slope`` differs from central differences, up to a constant in each row."""
        K, M = C.shape
        scale = max(1.0, float(np.abs(slope).max()))
        # differences of a wide matrix take two calls of the function per entry: some of them are enough
        for i in rng.permutation(K)[: max(1, ENTRIES // M)]:
            columns = np.sort(rng.permutation(M)[:ENTRIES])
            # at a kink within one step the shorter one decides
            step = np.minimum(1e-5, 0.01 * C[i])
            numeric = np.array([[self._central(C, (i, j), share * step[j]) for j in columns] for share in (1.0, 0.01)])
            analytic = slope[i, columns]
            error = np.abs((numeric - numeric[:, :1]) - (analytic - analytic[:1])).min(axis=0)
            j = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
            if not error[j] <= TOLERANCE * scale:
                return (
                    f"entry [{i}, {columns[j]}] less entry [{i}, {columns[0]}] is {analytic[j] - analytic[0]:.6g}, and "
                    f"{numeric[0, j] - numeric[0, 0]:.6g} by differences"
                )
        return None

    def _moved(self, C: Array, index: tuple[int, ...], by: float) -> float:
        """Return the value at a matrix whose entry at ``index`` is another."""
        moved = C.copy()
        moved[index] += by
        return self._number(moved)

    def _central(self, C: Array, index: tuple[int, ...], step: float) -> float:
        return (self._moved(C, index, step) - self._moved(C, index, -step)) / (2 * step)

    def _traced(self, C: Array) -> Array:
        """Return the exact gradient; by differences at matrices where it is not finite, as at 0/0 behind a guard."""
        try:
            slope = autodiff.gradient(self.psi, C)
        except Exception:  # a branch of the function that the check did not meet
            return self._differences(C)
        return slope if np.isfinite(slope).all() else self._differences(C)

    def _differences(self, C: Array, step: float = 1e-5) -> Array:
        """Return the gradient by three-point differences: central, forward where an entry is too small for that."""
        slope = np.empty_like(C)
        base = self._number(C)
        for index in np.ndindex(*C.shape):
            if C[index] >= step:
                slope[index] = self._central(C, index, step)
            else:
                # a forward difference over three points is as exact as a central one, up to a constant
                once = self._moved(C, index, step)
                twice = self._moved(C, index, 2 * step)
                slope[index] = (4 * once - 3 * base - twice) / (2 * step)
        return slope


# --- the smallest of linear functions, by the functions themselves: exact, and without the K x K matrix ---------------


def _first_order(smallest_of: MinOfLinear, S: Confusion, rho: float) -> FirstOrder:
    """Return value and derivatives, with ``rho > 0`` of the soft minimum; without those by the row sums."""
    values = []
    gains = []
    for part in _of_equal_rows(S):
        functions = smallest_of.at(part.rows)
        value, weights = smallest(functions.values(part), rho)
        values.append(np.reshape(value, -1))
        gains.append(functions.combined(weights.reshape(-1, weights.shape[-1])))
    value = np.concatenate(values).reshape(S.diagonal.shape[:-1])
    slope = Gains.concatenate(gains)
    if S.matrix is not None and slope.full is not None:
        return FirstOrder(value, matrix=slope.full.reshape(S.matrix.shape))
    a, b = (part.reshape(S.diagonal.shape) for part in slope.pair())
    return FirstOrder(value, a, b, np.zeros(S.diagonal.shape))


def _of_equal_rows(S: Confusion) -> list[Confusion]:
    """Return a batch as parts of the same row sums (K,), in order: the functions are those of one distribution."""
    first = S.rows.reshape(-1, S.rows.shape[-1])[0]
    if (S.rows == first).all():
        return [replace(S, rows=first)]
    S = replace(S, rows=np.broadcast_to(S.rows, S.diagonal.shape))
    return [S[k] for k in np.ndindex(*S.diagonal.shape[:-1])]
