"""Calibrators: frozen maps from probabilities to better ones, small enough to be read and kept in a rule file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.calibration.scaling import FLOOR
from confmax.confusion import Array
from confmax.tables.kinds import scaled

LARGEST = 1e6  # of any parameter


@dataclass(frozen=True)
class Temperature:
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

    reads_tensors: ClassVar[bool] = True

    temperature: float
    floor: float = FLOOR

    def __post_init__(self) -> None:
        if not (np.isfinite(self.temperature) and 1 / LARGEST <= self.temperature <= LARGEST):
            raise ValueError(f"temperature must lie between {1 / LARGEST:g} and {LARGEST:g}; got {self.temperature!r}")
        object.__setattr__(self, "temperature", float(self.temperature))
        object.__setattr__(self, "floor", _checked_floor(self.floor))

    def transform(self, proba: ArrayLike) -> NDArray[Any]:
        """Return the calibrated probabilities (n, K), in the dtype of ``proba``; a tensor stays on its device.

        With T = 1 and the lowest floor, the result is ``proba`` itself.
        """
        # probabilities that nothing changes are not copied, whatever their size
        identity = self.temperature == 1.0 and self.floor == FLOOR
        return scaled(proba, self.parameters, self.floor, identity=identity)

    def parameters(self, K: int) -> tuple[Array, Array]:
        """Return the power and the offset of every class.

        Parameters
        ----------
        K : int
            Number of classes.

        Returns
        -------
        ndarray (K,), ndarray (K,)
            ``1 / T`` and zero.
        """
        return np.full(K, 1.0 / self.temperature), np.zeros(K)

    def reordered(self, index: Sequence[int]) -> Temperature:
        """Return the calibrator for the columns in the order ``index`` (K,): the same one."""
        return self

    def __str__(self) -> str:
        return f"temperature {self.temperature:.4g}{_shown_floor(self.floor)}"


@dataclass(frozen=True, eq=False, repr=False)
class VectorScaling:
    """Vector scaling: ``softmax(a_k log(p_k + floor) + b_k)``, a power and an offset per class.

    Source: Guo et al. (2017), as for `Temperature`, on logarithms of probabilities.

    Attributes
    ----------
    a, b : ndarray (K,)
        Powers, and offsets in nats; at most 1e6 in absolute value.
    floor : float
        Number between 1e-12 and 1 that is added to every probability; it limits how certain the model can be.

    Raises
    ------
    ValueError
        If ``a`` and ``b`` are not K such numbers each, with K at least 2, or the floor is out of range.

    Examples
    --------
    >>> VectorScaling([1.0, 1.0], [0.0, np.log(4.0)]).transform([[0.8, 0.2]])
    array([[0.5, 0.5]])
    """

    reads_tensors: ClassVar[bool] = True

    a: Array
    b: Array
    floor: float = FLOOR

    def __post_init__(self) -> None:
        a, b = (np.array(part, dtype=np.float64) for part in (self.a, self.b))
        fits = a.ndim == 1 and len(a) >= 2 and a.shape == b.shape
        if not (fits and (np.abs(a) <= LARGEST).all() and (np.abs(b) <= LARGEST).all()):
            raise ValueError(
                f"vector scaling needs a and b of shape (K,), K >= 2, with numbers of at most {LARGEST:g} in absolute "
                f"value; got shapes {a.shape}, {b.shape}"
            )
        for name, part in (("a", a), ("b", b)):
            # a rule that is frozen must not change through an array that its maker still holds
            part.flags.writeable = False
            object.__setattr__(self, name, part)
        object.__setattr__(self, "floor", _checked_floor(self.floor))

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.a)

    def transform(self, proba: ArrayLike) -> NDArray[Any]:
        """Return the calibrated probabilities (n, K), in the dtype of ``proba``; a tensor stays on its device.

        With a = 1, b = 0 and the lowest floor, the result is ``proba`` itself. Raise a ValueError if the number of
        columns is another one than K.
        """
        # equal offsets cancel in the softmax
        identity = (self.a == 1.0).all() and (self.b == self.b[0]).all() and self.floor == FLOOR
        return scaled(proba, self.parameters, self.floor, identity=bool(identity))

    def parameters(self, K: int) -> tuple[Array, Array]:
        """Return the power and the offset of every class.

        Parameters
        ----------
        K : int
            Number of classes.

        Returns
        -------
        ndarray (K,), ndarray (K,)
            ``a`` and ``b``.

        Raises
        ------
        ValueError
            If the calibration is for another number of classes.
        """
        if len(self.a) != K:
            raise ValueError(f"this calibration is for {len(self.a)} classes, but proba has {K} columns")
        return self.a, self.b

    def reordered(self, index: Sequence[int]) -> VectorScaling:
        """Return the calibrator for the columns in the order ``index`` (K,)."""
        return VectorScaling(self.a[list(index)], self.b[list(index)], self.floor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VectorScaling) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[bytes, bytes, float]:
        return self.a.tobytes(), self.b.tobytes(), self.floor

    def __repr__(self) -> str:
        return f"VectorScaling(a={self.a.tolist()}, b={self.b.tolist()}, floor={self.floor!r})"

    def __str__(self) -> str:
        return f"vector scaling, powers {self.a.min():.3g} to {self.a.max():.3g}{_shown_floor(self.floor)}"


def _checked_floor(floor: float) -> float:
    if not FLOOR <= floor <= 1.0:
        raise ValueError(f"the floor of a calibration must lie between {FLOOR:g} and 1; got {floor!r}")
    return float(floor)


def _shown_floor(floor: float) -> str:
    return "" if floor == FLOOR else f", floor {floor:g}"
