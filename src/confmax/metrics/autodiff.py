"""Exact gradients of functions that are written in plain NumPy.

The package autograd differentiates functions written on its own copy of NumPy, ``autograd.numpy``. NumPy lets an
argument answer for itself (``__array_ufunc__``, ``__array_function__``), so an argument that hands every call on to
the function of the same name in ``autograd.numpy`` makes plain NumPy differentiable, without a second spelling of the
metric. What would lose the derivative without a word, such as ``float(C[0, 0])`` or an assignment into an array,
raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from confmax.confusion import Array

_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_IN_PLACE = {"sort", "partition", "put", "resize", "fill", "itemset", "setfield", "setflags"}


class NotTraceable(TypeError):
    """An operation through which no derivative can be followed."""


class Traced(NDArrayOperatorsMixin):
    """An array inside a function that is being differentiated; NumPy's functions and methods take it as an array.

    It has no ``__array__``: ``np.array`` of traced numbers is an array of objects, on which arithmetic works entry by
    entry, and `_plain` makes one traced array of it again. It has no ``dtype``: NumPy's mean would convert to it.
    """

    def __init__(self, box: Any) -> None:
        self.box = box

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", (None,))[0]
        where = kwargs.pop("where", None)
        if method == "__call__" and where is not None and out is not None:
            # entries left out keep the value in `out`; 1 stands in for their arguments, so that no 0/0 is met
            safe = [np.where(where, part, 1.0) for part in inputs]
            return np.where(where, _call(ufunc.__name__, "numpy", safe, kwargs), out)
        if out is not None and out is not inputs[0]:
            raise NotTraceable("an array is filled by out=")
        if out is self and method == "__call__":  # the array's +=, seen by all who hold it
            self.box = _plain(_call(ufunc.__name__, "numpy", inputs, kwargs))
            return self
        # a ufunc reduces the first axis by default, its function of NumPy all of them
        if method == "reduce" and ufunc.__name__ in _REDUCTIONS:
            kwargs.setdefault("axis", 0)
            return _call(_REDUCTIONS[ufunc.__name__], "numpy", inputs, kwargs)
        if method != "__call__":
            raise NotTraceable(f"np.{ufunc.__name__}.{method} is not supported")
        return _call(ufunc.__name__, "numpy", inputs, kwargs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        return _call(func.__name__, func.__module__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return NumPy's function of that name as a method; on numbers the functions too: see `Traced`."""
        if name in ("shape", "ndim", "size"):
            return getattr(self.box, name)
        function = getattr(np, name, None)
        if name.startswith("_") or name in _IN_PLACE or not callable(function) or isinstance(function, type):
            raise AttributeError(f"an array has no {name} that can be differentiated")
        return lambda *args, **kwargs: function(self, *args, **kwargs)

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """Reshape, on the tape."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, **kwargs)

    def transpose(self, *axes: Any) -> Any:
        """Transpose, on the tape."""
        return np.transpose(self, axes[0] if len(axes) == 1 else (axes or None))

    def flatten(self) -> Any:
        """Flatten, on the tape."""
        return np.ravel(self)

    def copy(self) -> Traced:
        """Return another name for the same node of the tape."""
        return Traced(self.box)

    def __getitem__(self, index: Any) -> Traced:
        return Traced(self.box[_plain(index)])

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise NotTraceable("an array is changed in place")

    def __iter__(self) -> Iterator[Traced]:
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a number")  # NumPy asks, and then takes it as a number
        return int(self.shape[0])

    def __bool__(self) -> bool:
        return bool(self.box._value if hasattr(self.box, "_value") else self.box)

    def __float__(self) -> NoReturn:
        raise NotTraceable("an entry is turned into a plain number, by float(), math or an assignment into an array")

    __int__ = __index__ = __complex__ = item = tolist = __float__

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()


def _call(name: str, module: str, args: Any, kwargs: Any) -> Any:
    """Call autograd's function of that name, on autograd's arrays."""
    from autograd import numpy as anp

    home = anp
    for part in module.split(".")[1:]:
        # the functions of NumPy's own private modules are those of the top level
        home = getattr(home, part, home) if part in ("linalg", "fft") else home
    args = _plain(args)
    if name == "diagonal" and len(args) == 1 and not kwargs and args[0].ndim == 2:
        name = "diag"  # which autograd differentiates on every axis order
    if name in ("absolute", "fabs"):  # the oldest autograd has NaN for its derivative at 0
        return _wrap(anp.where(args[0] >= 0, args[0], -args[0]))
    function = getattr(home, name, None)
    if function is None:
        raise NotTraceable(f"{module}.{name} has no derivative in autograd")
    return _wrap(function(*args, **_plain(kwargs)))


def _plain(value: Any) -> Any:
    """Replace traced arrays by autograd's, in containers too."""
    from autograd import numpy as anp

    if isinstance(value, Traced):
        return value.box
    if isinstance(value, (tuple, list)):
        parts = type(value)([_plain(part) for part in value])
        # numbers in a list are an array to NumPy, and only to NumPy
        return np.array(parts) if _is_list_of_numbers(parts) else parts
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return anp.reshape(anp.array([_plain(part) for part in value.ravel()]), value.shape)
    return value


def _is_list_of_numbers(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(part, (int, float, np.number, np.ndarray)) or _is_list_of_numbers(part) for part in value)


def _wrap(value: Any) -> Any:
    """Replace autograd's arrays by traced ones, and what holds several of them by a tuple of these."""
    from autograd.builtins import SequenceBox
    from autograd.extend import Box

    if isinstance(value, SequenceBox):
        return tuple(_wrap(value[k]) for k in range(len(value)))
    if isinstance(value, Box):
        return Traced(value)
    if type(value) in (tuple, list):
        return type(value)([_wrap(part) for part in value])
    return value


def gradient(psi: Callable[[Any], Any], C: Array) -> Array:
    """Return the partial derivatives (K, M) of ``psi`` at ``C`` (K, M), exact up to rounding.

    ``psi`` maps an array to a number, by NumPy's functions, Python's arithmetic and its branches. What it, NumPy or
    autograd raise where a derivative cannot be followed is raised.

    >>> gradient(lambda C: np.sqrt(C[0, 0] * C[1, 1]), np.array([[0.4, 0.1], [0.4, 0.1]]))
    array([[0.25, 0.  ],
           [0.  , 1.  ]])
    """
    from autograd.core import make_vjp

    def traced(box: Any) -> Any:
        # autograd warns of a function that does not use its argument: the empty term uses it
        return _plain(psi(Traced(box))) + 0.0 * box.sum()

    with np.errstate(all="ignore"):
        pull_back, value = make_vjp(traced, np.array(C, dtype=np.float64))
        if np.shape(value) != ():
            raise NotTraceable("the function does not return one number")
        return np.array(pull_back(np.ones(())), dtype=np.float64)
