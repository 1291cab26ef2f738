"""The probability table, checked once at the boundary: nothing deeper validates again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import ABSENT, Array
from confmax.tables.arrays import as_array, checked_array, checked_weight, refuse_name
from confmax.tables.check import check_rows, weighted_totals
from confmax.tables.columns import arranged, column_names, warn
from confmax.tables.fingerprints import row_hashes, unordered_hashes
from confmax.tables.kinds import is_dask, is_source, is_spark, is_tensor
from confmax.tables.labels import encode_labels, plain, refuse_other_rows, resolve_classes, vector


class Calibrator(Protocol):
    """A map of probabilities (n, K) to probabilities (n, K), row by row."""

    def transform(self, proba: NDArray[Any]) -> ArrayLike:
        """Return the calibrated probabilities (n, K) of ``proba`` (n, K)."""


@dataclass(frozen=True, eq=False)
class Table:
    """A checked table of class probabilities.

    Attributes
    ----------
    proba : ndarray (n, K), float32 or float64
        Each row sums to one up to rounding.
    labels : ndarray (n,) of int or None
        True classes as column numbers.
    weight : ndarray (n,) of float64 or None
        Sample weights, any unit; None means equal weights.
    classes : tuple
        Names of the columns; 0..K-1 when nothing else is known.
    calibrator : Calibrator or None
        What made ``proba`` from the probabilities of ``raw``; None for that table itself.
    raw : Table or None
        The table as it was given, where this one is calibrated.
    totals : ndarray (K,) or None
        The sum of each column, where the check has told it.
    hashes : ndarray (n,) of uint64 or None
        A hash of each row's probabilities as they were given, where the check has computed it: see `row_hashes`.
    unordered : ndarray (n,) of uint64 or None
        The same of `unordered_hashes`, where rows were divided by their sums.
    """

    backend: ClassVar[str] = "numba"

    proba: NDArray[Any]
    labels: NDArray[np.int64] | None
    weight: Array | None
    classes: tuple[Any, ...]
    calibrator: Calibrator | None = None
    raw: Table | None = None
    totals: Array | None = None
    hashes: NDArray[np.uint64] | None = None
    unordered: NDArray[np.uint64] | None = None

    def calibrated(self, calibrator: Calibrator | None) -> Table:
        """Return the table of the raw probabilities under ``calibrator``, or None; ValueError if these are none."""
        raw = self if self.raw is None else self.raw
        if calibrator is None:
            return raw
        P, totals = _calibrated(calibrator, raw.proba)
        return replace(raw, proba=P, calibrator=calibrator, raw=raw, totals=totals)

    def dense(self, what: str) -> Table:
        """Return the table with ``proba`` as an array in host memory, which ``what`` needs: itself."""
        return self

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that scores are computed in."""
        return self.proba.dtype

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.proba.shape[0]

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return self.proba.shape[1]

    @property
    def has_labels(self) -> bool:
        """Whether there are true classes."""
        return self.labels is not None

    @property
    def weight_total(self) -> float:
        """Sum of the weights; the number of rows where all are equal."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    @property
    def n_weighted(self) -> int:
        """Number of rows whose weight is not zero."""
        return self.n_rows if self.weight is None else int(np.count_nonzero(self.weight))

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return the hash of every row (n,), of which samples are made: that of the row as it was given.

        Neither a calibrator nor the division of rows by their sums changes it; float64 counts as float32.
        """
        return self._row_hashes

    @cached_property
    def _row_hashes(self) -> NDArray[np.uint64]:
        if self.hashes is not None:
            return self.hashes
        return _hashes_of(self.proba) if self.raw is None else self.raw.row_hashes()

    def unordered_hashes(self) -> NDArray[np.uint64]:
        """Return the hash of the entries of every row (n,), of which folds are made: the order of columns is no matter.

        As `row_hashes` in all else.
        """
        if self.unordered is not None:
            return self.unordered
        return _hashes_of(self.proba, ordered=False) if self.raw is None else self.raw.unordered_hashes()

    def at_hand(self) -> Table:
        """Return the rows that are in one place: all of them."""
        return self

    def label_weight(self) -> Array:
        """Return the weight of each true class (K,), fractions of all weight; needs labels."""
        return self._label_weight

    def mean_probability(self) -> Array:
        """Return the weighted mean of each column (K,), float64."""
        return self._mean_probability

    @cached_property
    def _label_weight(self) -> Array:
        assert self.labels is not None
        counts = np.bincount(self.labels, weights=self.weight, minlength=self.n_classes)
        return counts / counts.sum()

    @cached_property
    def _mean_probability(self) -> Array:
        if self.weight is None and self.totals is not None:
            return self.totals / self.n_rows
        return self.column_sums(self.weight) / self.weight_total

    def column_sums(self, weight: Array | None, *, spread: bool = False) -> Array:
        """Return the sums of ``p`` by class (K,), with ``spread`` of ``p (1 - p)``, by ``weight`` (n,), in float64."""
        P = self.proba.astype(np.float64) * (1.0 - self.proba) if spread else self.proba
        return check_rows(P, np.inf, np.inf)[0] if weight is None else weighted_totals(P, weight)

    def probability_of(self, decision: NDArray[Any]) -> NDArray[Any]:
        """Return each row's probability of its ``decision`` (n,), zero for one that is no class."""
        own = decision < self.n_classes
        hit = self.proba[np.arange(self.n_rows), np.where(own, decision, 0)]
        return np.where(own, hit, hit.dtype.type(0))


def make_table(
    proba: ArrayLike,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    *,
    stated: bool = True,
) -> Table:
    """Check probabilities, labels and weights and return them as one table.

    Parameters
    ----------
    proba : array-like, data frame, scipy.sparse matrix or torch tensor (n, K)
        Class probabilities; rows that sum to one within 1e-3 are renormalised. A frame's columns are matched to the
        classes by their names (`confmax.tables.columns`). What a sparse matrix does not store is zero. A tensor stays
        on its device; its rows of 16 bits are used as they are.
    y : array-like (n,) or None
        True classes: names, or column numbers.
    sample_weight : array-like (n,) or None
        Non-negative weights.
    classes : sequence or None
        Class names in column order. Default: those that a frame's columns name, else the sorted labels when there are
        K of them, else 0..K-1.
    stated : bool
        Whether ``classes`` state the order of the columns, so that names which fit no class need no warning.

    Returns
    -------
    Table
        In memory as it came where possible.

    Raises
    ------
    ValueError
        For anything that is not such a table; the sentence names the first offending row.

    Warns
    -----
    UserWarning
        If no column of a frame is named like a class, with the class that each column was taken for.

    Examples
    --------
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.8, 0.2], [0.4, 0.6]], ["no", "yes"])
    >>> table.classes, table.labels.tolist()
    (('no', 'yes'), [0, 1])
    """
    source = as_source(proba, y, sample_weight, classes)
    if source is not None:
        from confmax.tables.partitioned.table import parted_table

        return parted_table(source, classes, stated=stated)
    for values, name in ((y, "y"), (sample_weight, "sample_weight")):
        refuse_other_rows(proba, values, name)
    labels = None if y is None else vector(y, "y", "one label")
    found = arranged(column_names(proba), classes, labels, stated=stated)
    P, totals, hashes, unordered = _checked_and_hashed(proba, found.order)
    n, K = P.shape
    resolved = resolve_classes(found.classes, labels, K)
    coded = None if labels is None else encode_labels(labels, resolved, n)
    warn(found.note)
    kind = Table
    if is_sparse(P):
        from confmax.tables.sparse.table import SparseTable as kind
    elif is_tensor(P):
        from confmax.tables.tensor.table import TorchTable as kind
    return kind(
        P,
        coded,
        None if sample_weight is None else checked_weight(sample_weight, n),
        resolved,
        totals=totals,
        hashes=hashes,
        unordered=unordered,
    )


def as_source(proba: Any, y: Any, sample_weight: Any, classes: Sequence[Any] | None = None) -> Any:
    """Return where the rows of a collection lie, None for what is in memory; engines are imported for their own only.

    Raises
    ------
    ValueError
        If labels or weights do not lie beside the probabilities.
    """
    refuse_name(proba)
    if is_source(proba):
        if y is not None or sample_weight is not None:
            raise ValueError("an opened table brings its labels and weights; pass label= and weight= to open_table")
        return proba
    if is_dask(proba):
        from confmax.tables.partitioned.dask import dask_source

        return dask_source(proba, y, sample_weight)
    if is_spark(proba):
        from confmax.tables.partitioned.spark import frame_source

        return frame_source(proba, y, sample_weight, classes=classes)
    return None


def checked_probabilities(proba: ArrayLike, classes: Sequence[Any] | None = None) -> NDArray[Any]:
    """Return probabilities as a float32 or float64 array (n, K) whose rows sum to one up to rounding.

    A frame's columns are put in the order of ``classes`` by their names. A scipy.sparse matrix becomes
    a csr_array, a torch tensor stays one.

    Parameters
    ----------
    proba : array-like, data frame, scipy.sparse matrix or torch tensor (n, K)
        The table to check.
    classes : sequence or None
        Names of the columns of a frame, in the order that you want.

    Raises
    ------
    ValueError
        For a wrong shape, entries that are not numbers, NaN, infinite or negative, or a row that sums to something
        else than one.

    Examples
    --------
    >>> from confmax.tables import checked_probabilities
    >>> checked_probabilities([[1, 0], [0.5, 0.5]])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    return _checked(proba, classes)[0]


def _checked(proba: ArrayLike, classes: Sequence[Any] | None = None) -> tuple[NDArray[Any], Array | None]:
    """Return checked probabilities (n, K) and their column sums (K,), which only arrays come with."""
    if is_sparse(proba):
        from confmax.tables.sparse.table import checked_sparse

        return checked_sparse(proba), None
    if is_tensor(proba):
        from confmax.tables.tensor.table import checked_tensor

        return checked_tensor(proba), None
    return checked_array(as_array(proba, classes), hashed=False)[:2]


def _checked_and_hashed(
    proba: Any, order: Sequence[int] | None
) -> tuple[NDArray[Any], Array | None, NDArray[np.uint64] | None, NDArray[np.uint64] | None]:
    """Return `_checked` of columns in this ``order``, and the hashes (n,) of rows, by order of columns and without.

    Rows are hashed as they were given: an array in the pass of its check, all else later, unless rows are divided by
    their sums.
    """
    if is_sparse(proba):
        from confmax.tables.sparse.table import canonical, divided

        given = canonical(proba)
        checked = divided(given)
        changed = checked is not given
    elif is_tensor(proba):
        from confmax.tables.tensor.table import checked_tensor

        given, checked = proba.detach(), checked_tensor(proba)
        changed = checked.is_floating_point() and not given.is_floating_point()
        changed = changed or (given.dtype == checked.dtype and given.data_ptr() != checked.data_ptr())
    else:
        given = as_array(proba, order=order)
        checked, totals, hashes = checked_array(given, hashed=True)
        return checked, totals, hashes, None if checked is given else unordered_hashes(given)
    if not changed:
        return checked, None, None, None
    return checked, None, _hashes_of(given), _hashes_of(given, ordered=False)


def given_hashes(proba: Any) -> Any:
    """Return the hash of every row (n,) of probabilities that are no table yet: what a rule draws from without keys.

    Parameters
    ----------
    proba : array-like, scipy.sparse matrix or torch tensor (n, K)
        Probabilities, columns in the order of the classes; rows need not sum to one.

    Returns
    -------
    ndarray (n,) of uint64
        For a tensor the same bits as a tensor of int64 on its device.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax.tables import given_hashes
    >>> bool((given_hashes([[0.25, 0.75]]) == given_hashes(np.array([[0.25, 0.75]], np.float32))).all())
    True
    """
    if is_sparse(proba):
        from confmax.tables.sparse.table import canonical

        return row_hashes(canonical(proba))
    if is_tensor(proba):
        from confmax.tables.tensor.table import row_hashes as on_device

        return on_device(proba.detach())
    return _hashes_of(as_array(proba))


def _hashes_of(proba: Any, *, ordered: bool = True) -> NDArray[np.uint64]:
    """Return the hash of every row (n,) of an array, a canonical csr_array or a tensor."""
    if is_tensor(proba):
        from confmax.tables.tensor import table as device

        words = device.row_hashes(proba) if ordered else device.unordered_hashes(proba)
        return np.asarray(words.cpu().numpy().view(np.uint64))
    if not ordered:
        return unordered_hashes(proba)
    if is_sparse(proba):
        return row_hashes(proba)
    hashes = np.empty(len(proba), dtype=np.uint64)
    check_rows(proba, np.inf, np.inf, hashes)
    return hashes


def apply_calibrator(calibrator: Calibrator | None, proba: NDArray[Any]) -> NDArray[Any]:
    """Return what ``calibrator`` makes of checked ``proba`` (n, K), checked in turn, in the same dtype.

    Raises
    ------
    ValueError
        If these are not (n, K) probabilities.
    """
    return proba if calibrator is None else _calibrated(calibrator, proba)[0]


def _calibrated(calibrator: Calibrator, proba: NDArray[Any]) -> tuple[NDArray[Any], Array | None]:
    """Return calibrated probabilities (n, K), checked, with their column sums."""
    if is_sparse(proba):
        from confmax.tables.sparse.table import densified

        # p = 0 is not nothing to a calibrator: the dense table is what the rule was tuned for
        proba = densified(proba, "the calibration of this rule")
    if is_tensor(proba) and not getattr(calibrator, "reads_tensors", False):
        from confmax.tables.tensor.table import calibrated_on_host

        return calibrated_on_host(calibrator, proba), None
    name = type(calibrator).__name__
    try:
        out, totals = _checked(calibrator.transform(proba))
    except ValueError as error:
        raise ValueError(f"the calibration {name} does not give probabilities: {error}") from None
    if out.shape != proba.shape:
        raise ValueError(
            f"the calibration {name} gave shape {out.shape} for proba of shape {proba.shape}; return the same shape"
        )
    if is_tensor(out) or out.dtype == proba.dtype:
        return out, totals
    out = out.astype(proba.dtype)
    return out, check_rows(out, np.inf, np.inf)[0]


def is_sparse(proba: Any) -> bool:
    """Whether ``proba`` is of scipy.sparse, found out without importing it."""
    return any(kind.__module__.startswith("scipy.sparse") for kind in type(proba).__mro__)


def refuse_too_few_classes(table: Table) -> NDArray[np.bool_]:
    """Return which classes of ``table`` carry weight (K,), by labels if there are any; at least two must.

    Raises
    ------
    ValueError
        If all weight lies in one class.
    """
    share = table.label_weight() if table.has_labels else table.mean_probability()
    present = share > ABSENT
    if present.sum() < 2:
        only = table.classes[int(np.argmax(present))]
        source = "y" if table.has_labels else "proba"
        raise ValueError(
            f"{source} has weight in one class only ({plain(only)!r}); at least two classes are needed to tune a rule"
        )
    return present
