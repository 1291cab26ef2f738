"""Calibrators: frozen maps from probabilities to better ones, small enough to be read and kept in a rule file.

Every one is a `Scaling`, ``softmax(W log(p + floor) + b)``. Its matrix W is a multiple of the identity (`Temperature`),
diagonal (`VectorScaling`) or full (`MatrixScaling`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.calibration.matrix import monotone_margins
from confmax.calibration.scaling import FLOOR
from confmax.confusion import Array
from confmax.tables.draws import is_whole
from confmax.tables.kinds import scaled

LARGEST = 1e6  # of any parameter


class Scaling(ABC):
    """A map ``softmax(W log(p + floor) + b)`` of probabilities; its numbers say all of it.

    Source: Guo et al. (2017), as for `Temperature`.

    Attributes
    ----------
    kind : str
        Its name as ``calibration=`` and in rule files.
    numbers : tuple of str
        The attributes that a rule file holds.
    n_classes : int or None
        Number of classes K; None for a map of any number.
    floor : float
        Number between 1e-12 and 1 that is added to every probability.
    kept : int or None
        Column of a class that keeps its probability; the other classes share the rest by their own softmax.

    Examples
    --------
    >>> isinstance(Temperature(2.0), Scaling), Temperature(2.0).kind
    (True, 'temperature')
    """

    kind: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]]
    reads_tensors: ClassVar[bool] = True
    floor: float
    kept: int | None = None

    @property
    def n_classes(self) -> int | None:
        """Number of classes K, None for any."""
        return None

    @abstractmethod
    def parameters(self, K: int) -> tuple[Array, Array]:
        """Return W and b (K,) for ``K`` classes; W is the diagonal (K,) where it has no other entries, else (K, K)."""

    @property
    @abstractmethod
    def is_identity(self) -> bool:
        """Whether the result is the input: probabilities that nothing changes are not copied, whatever their size."""

    @property
    @abstractmethod
    def is_monotone(self) -> bool:
        """Whether no class ever becomes less likely as its own probability grows in proportion to all others."""

    @abstractmethod
    def reordered(self, index: Sequence[int]) -> Scaling:
        """Return the calibrator for the columns in the order ``index`` (K,)."""

    def keeping(self, k: int | None) -> Scaling:
        """Return the calibrator under which class ``k`` keeps its probability, none for None.

        A temperature is returned as it is: it does not change the order of the other classes.
        """
        return self

    def transform(self, proba: ArrayLike) -> NDArray[Any]:
        """Return the calibrated probabilities (n, K), in the dtype of ``proba``; a tensor stays on its device.

        A calibrator that changes nothing returns ``proba`` itself. Raise a ValueError if the calibrator is for another
        number of columns than K.
        """
        return scaled(proba, self._parameters_for, self.floor, identity=self.is_identity, kept=self.kept)

    def _parameters_for(self, K: int) -> tuple[Array, Array]:
        if self.n_classes not in (None, K):
            raise ValueError(f"this calibration is for {self.n_classes} classes, but proba has {K} columns")
        return self.parameters(K)


@dataclass(frozen=True)
class Temperature(Scaling):
    """Temperature scaling: ``softmax(log(p + floor) / T)``.

    A T above 1 flattens the probabilities, and a T below 1 sharpens them. Neither changes which class is the most
    probable.

    Source: Guo, Pleiss, Sun and Weinberger, *On Calibration of Modern Neural Networks* (2017). The floor is an addition
    of confmax.

    Attributes
    ----------
    temperature : float
        T, between 1e-6 and 1e6.
    floor : float
        Number between 1e-12 and 1 that is added to every probability; it limits how certain the model can be.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> Temperature(2.0).transform([[0.8, 0.2]])
    array([[0.66666667, 0.33333333]])
    """

    kind: ClassVar[str] = "temperature"
    numbers: ClassVar[tuple[str, ...]] = ("temperature", "floor")

    temperature: float
    floor: float = FLOOR

    def __post_init__(self) -> None:
        if not (np.isfinite(self.temperature) and 1 / LARGEST <= self.temperature <= LARGEST):
            raise ValueError(f"temperature must lie between {1 / LARGEST:g} and {LARGEST:g}; got {self.temperature!r}")
        object.__setattr__(self, "temperature", float(self.temperature))
        object.__setattr__(self, "floor", _checked_floor(self.floor))

    @property
    def is_identity(self) -> bool:
        """Whether T is one, over the lowest floor."""
        return self.temperature == 1.0 and self.floor == FLOOR

    @property
    def is_monotone(self) -> bool:
        """True: T is positive."""
        return True

    def parameters(self, K: int) -> tuple[Array, Array]:
        """Return the power ``1 / T`` and the offset zero of each of ``K`` classes, (K,) both."""
        return np.full(K, 1.0 / self.temperature), np.zeros(K)

    def reordered(self, index: Sequence[int]) -> Temperature:
        """Return the calibrator for the columns in the order ``index`` (K,): the same one."""
        return self

    def __str__(self) -> str:
        return f"temperature {self.temperature:.4g}{_shown_floor(self.floor)}"


class _OfArrays(Scaling):
    """A scaling with powers (K,) or (K, K) and offsets (K,) in a frozen dataclass, compared and hashed by their bytes.

    ``numbers`` begin with the powers, of ``n_axes``; ``needs`` says what a wrong shape lacks.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    n_axes: ClassVar[int]
    needs: ClassVar[str]
    b: Array
    kept: int | None

    def __post_init__(self) -> None:
        names = (self.numbers[0], "b")
        powers, b = (np.array(getattr(self, name), dtype=np.float64) for name in names)
        fits = b.ndim == 1 and len(b) >= 2 and powers.shape == b.shape * self.n_axes
        if not (fits and (np.abs(powers) <= LARGEST).all() and (np.abs(b) <= LARGEST).all()):
            raise ValueError(
                f"{self.kind} scaling needs {self.needs}, K >= 2, with numbers of at most {LARGEST:g} in absolute "
                f"value; got shapes {powers.shape}, {b.shape}"
            )
        for name, part in zip(names, (powers, b), strict=True):
            # a rule that is frozen must not change through an array that its maker still holds
            part.flags.writeable = False
            object.__setattr__(self, name, part)
        object.__setattr__(self, "floor", _checked_floor(self.floor))
        if self.kept is not None:
            if not is_whole(self.kept, 0, self.n_classes - 1):
                raise ValueError(f"kept is a column of {self.n_classes} classes; got {self.kept!r}")
            object.__setattr__(self, "kept", int(self.kept))

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.b)

    @property
    def is_identity(self) -> bool:
        """Whether powers are those of the identity and offsets equal, which cancel, over the lowest floor."""
        powers, b = self.parameters(self.n_classes)
        identity = np.ones(len(b)) if self.n_axes == 1 else np.eye(len(b))
        return bool(np.array_equal(powers, identity) and (b == b[0]).all() and self.floor == FLOOR)

    def parameters(self, K: int) -> tuple[Array, Array]:
        """Return powers (K,) or (K, K), and offsets (K,); ``K`` is not read."""
        return getattr(self, self.numbers[0]), self.b

    def keeping(self, k: int | None) -> Self:
        """Return the calibrator under which class ``k`` keeps its probability, none for None."""
        return self if k == self.kept else replace(self, kept=k)

    def reordered(self, index: Sequence[int]) -> Self:
        """Return the calibrator for the columns in the order ``index`` (K,)."""
        order = list(index)
        powers, b = self.parameters(len(order))
        kept = None if self.kept is None else order.index(self.kept)
        return replace(self, **{self.numbers[0]: powers[np.ix_(*[order] * self.n_axes)]}, b=b[order], kept=kept)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.kept, *(np.asarray(getattr(self, name)).tobytes() for name in self.numbers))

    def __repr__(self) -> str:
        shown = (f"{name}={np.asarray(getattr(self, name)).tolist()!r}" for name in self.numbers)
        kept = "" if self.kept is None else f", kept={self.kept}"
        return f"{type(self).__name__}({', '.join(shown)}{kept})"


@dataclass(frozen=True, eq=False, repr=False)
class VectorScaling(_OfArrays):
    """Vector scaling: ``softmax(a_k log(p_k + floor) + b_k)``, a power and an offset per class.

    Source: Guo et al. (2017), as for `Temperature`, on logarithms of probabilities.

    Attributes
    ----------
    a, b : ndarray (K,)
        Powers, and offsets in nats; at most 1e6 in absolute value.
    floor : float
        Number between 1e-12 and 1 that is added to every probability; it limits how certain the model can be.
    kept : int or None
        Column of a class that keeps its probability; the other classes share the rest by their own softmax.

    Raises
    ------
    ValueError
        If ``a`` and ``b`` are not K such numbers each, with K at least 2, or the floor is out of range.

    Examples
    --------
    >>> VectorScaling([1.0, 1.0], [0.0, np.log(4.0)]).transform([[0.8, 0.2]])
    array([[0.5, 0.5]])
    """

    kind: ClassVar[str] = "vector"
    numbers: ClassVar[tuple[str, ...]] = ("a", "b", "floor")
    n_axes: ClassVar[int] = 1
    needs: ClassVar[str] = "a and b of shape (K,)"

    a: Array
    b: Array
    floor: float = FLOOR
    kept: int | None = None

    @property
    def is_monotone(self) -> bool:
        """Whether no power is negative."""
        return bool((self.a >= 0).all())

    def __str__(self) -> str:
        # where all powers are alike, the offsets are what it does
        offsets = f", offsets {_span(self.b)}" if _span(self.a).startswith("all") else ""
        return f"vector scaling, powers {_span(self.a)}{offsets}{_shown_floor(self.floor)}"


@dataclass(frozen=True, eq=False, repr=False)
class MatrixScaling(_OfArrays):
    """Matrix scaling: ``softmax(W log(p + floor) + b)``, a power of each class for each class, and an offset.

    It mends models that confuse particular pairs of classes. ``W[j, k]`` is what the logarithm of p_k adds to the score
    of class j.

    Source: Guo et al. (2017), as for `Temperature`, on logarithms of probabilities; the penalty of the fit is that of
    Kull et al., *Beyond temperature scaling* (2019), with another one on the diagonal (`confmax.calibration.fit`).

    Attributes
    ----------
    W : ndarray (K, K)
        Powers; at most 1e6 in absolute value, as all numbers here.
    b : ndarray (K,)
        Offsets in nats.
    floor : float
        Number between 1e-12 and 1 that is added to every probability; it limits how certain the model can be.
    kept : int or None
        Column of a class that keeps its probability; the other classes share the rest by their own softmax.

    Raises
    ------
    ValueError
        If ``W`` and ``b`` are not such numbers for K classes, with K at least 2, or the floor is out of range.

    Examples
    --------
    >>> MatrixScaling([[1.0, 0.5], [0.0, 1.0]], [0.0, 0.0]).transform([[0.75, 0.25]])
    array([[0.6, 0.4]])
    """

    kind: ClassVar[str] = "matrix"
    numbers: ClassVar[tuple[str, ...]] = ("W", "b", "floor")
    n_axes: ClassVar[int] = 2
    needs: ClassVar[str] = "W of shape (K, K) and b of shape (K,)"

    W: Array
    b: Array
    floor: float = FLOOR
    kept: int | None = None

    @property
    def is_monotone(self) -> bool:
        """Whether the margins of W are not negative (`monotone_margins`)."""
        return all(bool((margins >= 0.0).all()) for margins in monotone_margins(self.W))

    def __str__(self) -> str:
        off = self.W[~np.eye(len(self.b), dtype=np.bool_)]
        a = np.diagonal(self.W)
        return f"matrix scaling, powers {_span(a)}, of other classes {_span(off)}{_shown_floor(self.floor)}"


SCALINGS: dict[str, type[Scaling]] = {each.kind: each for each in (Temperature, VectorScaling, MatrixScaling)}


def kept_class(calibrator: Any) -> int | None:
    """Return the class whose probability a calibrator leaves as it is; None for objects that are not confmax's."""
    return calibrator.kept if isinstance(calibrator, Scaling) else None


def _span(values: Array) -> str:
    """Return the smallest and the largest of ``values``, or the one number that all show as.

    >>> _span(np.array([0.5, 2.0])), _span(np.ones(2))
    ('0.5 to 2', 'all 1')
    """
    low, high = f"{values.min():.3g}", f"{values.max():.3g}"
    return f"all {low}" if low == high else f"{low} to {high}"


def _checked_floor(floor: float) -> float:
    if not FLOOR <= floor <= 1.0:
        raise ValueError(f"the floor of a calibration must lie between {FLOOR:g} and 1; got {floor!r}")
    return float(floor)


def _shown_floor(floor: float) -> str:
    return "" if floor == FLOOR else f", floor {floor:g}"
