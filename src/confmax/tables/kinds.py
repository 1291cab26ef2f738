"""The registry of kinds: what values belong to which kind, and the verbs that every kind answers in its own way.

A kind is one file or one folder, which registers how its values are recognised and how its code is loaded. Nothing
optional is imported to recognise a value: torch, dask and pyspark are known by the names of their types, and their code
is loaded with the first value of that kind.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Gains, Layout
from confmax.errors import InputError
from confmax.tables.decisions import Decisions
from confmax.tables.storage import Calibrator, Checked, Storage
from confmax.tables.table import T, Table

EMPTY = "`proba` is empty: at least one row of probabilities is needed"
Beside = Mapping[str, Any]  # what lies beside rows, (n,) or None, by its name as an argument


class Rule(Protocol):
    """What tables and exports read of a decision rule; `confmax.DecisionRule` stands above them and fits.

    Its atoms are ``gains`` with ``weights`` (A,), drawn by the ``seed``. ``class_names`` are those of the K classes and
    of further decisions; ``groups`` are empty if the rule does not decide by groups, and ``layout`` says where the
    gains of every group stand. ``metric`` names the metric that it was tuned for.
    """

    @property
    def gains(self) -> Gains: ...
    @property
    def weights(self) -> Array: ...
    @property
    def seed(self) -> int: ...
    @property
    def calibrator(self) -> Calibrator | None: ...
    @property
    def class_names(self) -> tuple[Any, ...]: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def metric(self) -> str: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def n_decisions(self) -> int: ...
    @property
    def is_randomized(self) -> bool: ...
    @property
    def groups(self) -> tuple[Any, ...]: ...
    @property
    def groups_known(self) -> bool: ...
    @property
    def layout(self) -> Layout | None: ...
    def of_group(self, name: Any) -> Rule: ...

    def checked(self, proba: Any) -> Any:
        """Return probabilities (n, K) in the order of the rule's classes, checked."""

    def predict_index(self, proba: Any, *, keys: Any = None, group: Any = None) -> Any:
        """Return the decisions (n,)."""

    def decision_probabilities(self, proba: Any, *, group: Any = None) -> Any:
        """Return the probability of every decision (n, M)."""


class LabelledRule(Protocol):
    """What exports read of a rule of several labels; `confmax.LabelRule` stands above them and fits."""

    @property
    def gains(self) -> Gains: ...
    @property
    def weights(self) -> Array: ...
    @property
    def class_names(self) -> tuple[Any, ...]: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def decisions(self) -> Decisions: ...
    @property
    def metric(self) -> str: ...
    @property
    def calibrator(self) -> Any: ...
    @property
    def thresholds(self) -> Array | None: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def is_randomized(self) -> bool: ...

    def checked(self, proba: Any) -> Any:
        """Return probabilities (n, L) in the order of the rule's labels, checked."""

    def calibrated(self, proba: Any) -> Any:
        """Return checked probabilities as the scores read them."""

    def predict(self, proba: Any, *, keys: Any = None) -> Any:
        """Return which labels every row gets (n, L), 0 or 1."""

    def decision_probabilities(self, proba: Any) -> Any:
        """Return the probability with which every row gets each label (n, L)."""


class Batch(Protocol):
    """A limit on how many rows of a batch get one decision; `confmax.rule.batch` stands above tables and fits.

    What a part of the rows gives is `ranked`. The ``cut`` of all parts says which of the rows keep the decision.
    """

    @property
    def rule(self) -> Rule: ...

    def ranked(self, proba: Any, **beside: Any) -> Any:
        """Return the decisions of the rows of a part, and its rows that may keep the limited one."""

    def candidates(self, proba: Any, **beside: Any) -> Any:
        """Return the same without the decisions."""

    def cut(self, parts: Mapping[int, Any]) -> Any:
        """Return which rows keep the limited decision, from the candidates of all ``parts``, by their numbers."""

    def decided(self, part: Any, cut: Any, number: int) -> NDArray[np.int64]:
        """Return the decisions (n,) of the rows of a part with this ``number``, of which it gave what is `ranked`."""


class Kind(ABC):
    """What is done with values of one kind as they are given, before they are a table."""

    in_memory: ClassVar[bool]
    brings_groups: ClassVar[bool] = False  # whether values hold the group of each row, where they have groups

    @property
    @abstractmethod
    def storage(self) -> Storage:
        """How checked rows of this kind are held; ValueError for what is read in parts only."""

    @abstractmethod
    def check(self, proba: Any, *, order: Sequence[int] | None = None, hashed: bool = False) -> Checked:
        """Return given probabilities (n, K) as checked rows, hashed if asked, the columns of a frame in ``order``.

        ValueError, with the first row that is no distribution.
        """

    @abstractmethod
    def given_hashes(self, proba: Any) -> Any:
        """Return the hashes of given rows (n,), which need not sum to one, where the rows are."""

    @abstractmethod
    def host(self, values: Any) -> NDArray[Any]:
        """Return values of this kind as an array in host memory."""

    def beside(self, values: Any) -> Any:
        """Return what lies beside rows in memory, several labels or weights, as NumPy reads it."""
        return values

    def apart(
        self, proba: Any, beside: Beside, classes: Sequence[Any] | None, confusion: str
    ) -> tuple[Any, dict[str, Any]]:
        """Return probabilities and what is ``beside`` them, where columns of one table may be named: see `apart`."""
        return proba, dict(beside)

    def floats(self, values: Any) -> Any:
        """Return given probabilities as float32 or float64, dense: a calibrator knows no zeros that are left out."""
        P = self.host(values)
        return P if P.dtype in (np.float32, np.float64) else P.astype(np.float64)

    @abstractmethod
    def table(self, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        """Return `make_table`; ``beside`` the rows are y, sample_weight and group."""

    @abstractmethod
    def predict_index(self, rule: Rule, proba: Any, beside: Beside) -> Any:
        """Return the decisions (n,) of a rule, where the rows are, and lazily where they are lazy.

        ``beside`` the rows are their keys. Where they are not in memory, a rule may decide by their groups too.
        """

    def predict_batch(self, batch: Batch, proba: Any, beside: Beside) -> Any:
        """Return the decisions (n,) of a rule under the limit of a ``batch``, of rows that are not in memory.

        What is ``beside`` the rows is the same as for `predict_index`.
        """
        raise ValueError(
            "at_most compares all rows of a batch, which are read twice: pass them in memory, as a Dask collection, or "
            "as a table from open_table"
        )

    @abstractmethod
    def decision_probabilities(self, rule: Rule, proba: Any, beside: Beside) -> Any:
        """Return the probability of every decision of a rule (n, M), in the same place."""

    @abstractmethod
    def named(self, names: NDArray[Any], decisions: Any) -> Any:
        """Return the names (n,) of decisions (n,) from `predict_index`, in the dtype of ``names`` (M,)."""

    # --- several labels per row -----------------------------------------------------------------------------------

    @abstractmethod
    def check_labels(self, proba: Any, *, order: Sequence[int] | None = None) -> Checked:
        """Return given probabilities of labels (n, L) as checked rows, which need not sum to one; as `check`."""

    def label_table(
        self, decisions: Decisions, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool
    ) -> Table:
        """Return `labels_table` of rows that are not in memory, with y and sample_weight ``beside`` them."""
        raise ValueError("several labels per row are read from arrays, frames, opened tables, Dask and Spark")

    @abstractmethod
    def predict_labels(self, rule: LabelledRule, proba: Any, beside: Beside) -> Any:
        """Return which labels a rule gives each row (n, L), 0 or 1, where the rows are, and lazily for lazy rows.

        ``beside`` the rows are their keys.
        """

    @abstractmethod
    def label_probabilities(self, rule: LabelledRule, proba: Any) -> Any:
        """Return the probability with which a rule gives each row each label (n, L), in the same place."""


@final
@dataclass(frozen=True)
class Converted:
    """A kind whose values ``convert`` makes probabilities (n, K) of a kind that is known, such as counts of votes.

    ``apart`` takes what is named ``beside`` the values out of them, where they have columns.

    >>> from dataclasses import dataclass
    >>> import confmax, numpy
    >>> from confmax.tables.kinds import REGISTRY, Converted, register
    >>> @dataclass
    ... class Votes:
    ...     counts: numpy.ndarray
    >>> shares = Converted(lambda votes: votes.counts / votes.counts.sum(axis=1, keepdims=True))
    >>> register("votes", lambda values: isinstance(values, Votes), lambda: shares)
    >>> votes = Votes(numpy.array([[3, 1], [1, 4], [2, 2]]))
    >>> confmax.maximize("balanced_accuracy", votes).rule.predict(votes).tolist()
    [0, 1, 0]
    >>> del REGISTRY[0]
    """

    convert: Callable[[Any], Any]
    apart: Callable[[Any, Beside], tuple[Any, dict[str, Any]]] = lambda values, beside: (values, dict(beside))
    in_memory = True


@dataclass(frozen=True)
class Entry:
    """A kind in the registry."""

    name: str
    recognises: Callable[[Any], bool]
    load: Callable[[], Kind | Converted]


REGISTRY: list[Entry] = []


def register(name: str, recognises: Callable[[Any], bool], load: Callable[[], Kind | Converted]) -> None:
    """Add a kind of values, or replace the one of this ``name``; kinds that are registered later are tried first.

    ``recognises`` tells whether a value is of this kind: it imports nothing, and takes no time. ``load`` returns the
    kind, with imports that only its values need.
    """
    # changed in place, because other modules hold this list
    REGISTRY[:] = [Entry(name, recognises, load), *(entry for entry in REGISTRY if entry.name != name)]


def kind_for(values: Any) -> Kind | Converted:
    """Return the kind of ``values``: arrays, which are registered first, take whatever nobody else recognises."""
    return next(entry for entry in REGISTRY if entry.recognises(values)).load()


def known(values: Any) -> tuple[Kind, Any]:
    """Return a kind that acts on ``values`` itself, and these: converted, where their own kind does no more."""
    kind = kind_for(values)
    # a conversion may give values of any kind, which are looked up in turn
    return known(kind.convert(values)) if isinstance(kind, Converted) else (kind, values)


def storage_named(name: str) -> Storage:
    """Return how the rows of the kind that was registered under this ``name`` are held."""
    kind = next(entry for entry in REGISTRY if entry.name == name).load()
    assert not isinstance(kind, Converted)
    return kind.storage


def make_table(
    proba: ArrayLike,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    *,
    stated: bool = True,
    group: Any = None,
) -> Table:
    """Check probabilities, labels and weights and return them as one table.

    Parameters
    ----------
    proba : array-like, data frame, scipy.sparse matrix, torch tensor, opened table, Dask or Spark collection (n, K)
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
    group : Dask array or Series, array-like (n,), str or None
        The group of each row.

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
    >>> table.classes, table.head.labels.tolist()
    (('no', 'yes'), [0, 1])
    """
    refuse_name(proba)
    kind, rows = known(proba)
    beside = {"y": y, "sample_weight": sample_weight}
    return kind.table(rows, {**beside, "group": group}, classes, stated=stated)


def apart(proba: Any, beside: Beside, classes: Sequence[Any] | None, confusion: str) -> tuple[Any, dict[str, Any]]:
    """Return probabilities, and labels, weights and groups ``beside`` them, which may be named as columns of a frame.

    The columns are taken out of a frame in memory. Rows that stream become an opened table, which brings all of them.
    ValueError if there is no such column, or if the ``confusion`` of `maximize` counts labels, nobody names them and
    other columns than those of probabilities may hold them.
    """
    kind = kind_for(proba)
    if isinstance(kind, Converted):
        return kind.apart(proba, beside)
    if kind.in_memory:
        refuse_name(proba)
        refuse_no_table(proba)
    return kind.apart(proba, beside, classes, confusion)


def given_hashes(proba: Any) -> Any:
    """Return the hash of every row (n,) of probabilities that are no table yet: what a rule draws from without keys.

    Columns of ``proba`` (n, K) are in the order of the classes; rows need not sum to one. Of a tensor, the same bits
    are a tensor of int64 on its device.
    """
    kind, rows = known(proba)
    return kind.given_hashes(rows)


def calibrated_rows(calibrator: Calibrator | None, proba: Any) -> Checked:
    """Return what a calibrator makes of checked ``proba`` (n, K), and how it is held."""
    storage = known(proba)[0].storage
    # a calibrator may give rows of another kind, such as dense ones of sparse ones
    return Checked(storage, proba) if calibrator is None else storage.calibrated(calibrator, proba)


def apply_calibrator(calibrator: Calibrator | None, proba: Any) -> Any:
    """Return what ``calibrator`` makes of checked ``proba`` (n, K), checked in turn, in the same dtype.

    ValueError if these are not (n, K) probabilities.
    """
    return proba if calibrator is None else calibrated_rows(calibrator, proba).proba


def decide(proba: Any, gains: Gains) -> NDArray[Any]:
    """Return the decisions (B, n) of every gain on every row of ``proba`` (n, K); ties go to the largest index.

    Parameters
    ----------
    proba : ndarray, tensor or csr_array (n, K)
        Checked probabilities.
    gains : Gains
        B of them.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax.confusion import Gains
    >>> from confmax.oracle import decide
    >>> decide(np.array([[0.7, 0.3], [0.2, 0.8]]), Gains.reduced([[1.0, 1.0], [1.0, 3.0]])).tolist()
    [[0, 1], [1, 1]]
    """
    return known(proba)[0].storage.decide(proba, gains)


def scaled(
    proba: Any, parameters: Callable[[int], tuple[Array, Array]], floor: float, *, identity: bool, kept: int | None
) -> Any:
    """Return ``softmax(W log(p + floor) + b)`` of unchecked ``proba`` (n, K), in their dtype, where they are.

    ``parameters`` takes K and returns W, a diagonal (K,) or (K, K), and b (K,), or refuses it. With ``identity`` the
    numbers stay as they are. The class ``kept`` keeps its probability, and the softmax of the others shares the rest.
    """
    kind, rows = known(proba)
    P = kind.floats(rows)
    W, b = parameters(P.shape[1])
    # dense rows of a sparse matrix are an array's
    if identity:
        return P
    if kept is None:
        return known(P)[0].storage.scaled(P, W, b, floor)
    # an offset of minus infinity leaves a class out
    out = known(P)[0].storage.scaled(P, W, np.where(np.arange(len(b)) == kept, -np.inf, b), floor)
    sharing_rest(out, P[:, kept], kept)
    return out


def sharing_rest(rows: Any, own: Any, k: int) -> None:
    """Write ``own`` (n,) as the probabilities of class ``k`` to ``rows`` (n, K), whose others then share the rest.

    The others sum to one in each row before; array or tensor.
    """
    # in the type of the rows, which may be wider than that of the probabilities
    rows[:, k] = own
    # a row may sum to a little more than one
    rest = (1.0 - rows[:, k]).clip(min=0.0)
    rows *= rest[:, None]
    rows[:, k] = own


def predict_index(rule: Rule, proba: Any, keys: Any) -> Any:
    """Return the decisions (n,) of a ``rule`` on unchecked ``proba`` (n, K), where these are; lazy for lazy ones.

    A randomised rule draws from ``keys`` (n,), or from the rows where there are none.
    """
    kind, rows = known(proba)
    return kind.predict_index(rule, rows, {"keys": keys})


def decision_probabilities(rule: Rule, proba: Any) -> Any:
    """Return the probability of every decision (n, M) of a ``rule`` on ``proba`` (n, K), where `predict_index` does."""
    kind, rows = known(proba)
    return kind.decision_probabilities(rule, rows, {})


def predict_labels(rule: LabelledRule, proba: Any, keys: Any) -> Any:
    """Return which labels a ``rule`` gives every row of unchecked ``proba`` (n, L), 0 or 1, where these are.

    Lazy for lazy ones. A randomised rule draws from ``keys`` (n,), or from the rows where there are none.
    """
    kind, rows = known(proba)
    return kind.predict_labels(rule, rows, {"keys": keys})


def label_probabilities(rule: LabelledRule, proba: Any) -> Any:
    """Return the probability of every label (n, L) under a ``rule`` on ``proba`` (n, L), as `predict_labels` does."""
    kind, rows = known(proba)
    return kind.label_probabilities(rule, rows)


def named(names: NDArray[Any], decisions: Any) -> Any:
    """Return the ``names`` (M,) of ``decisions`` (n,), in their dtype: lazy for lazy ones, tensors for tensors.

    ValueError if the decisions are a tensor and the names are not numbers that a tensor holds.
    """
    if names.dtype == np.int64 and np.array_equal(names, np.arange(len(names))):
        # every name is its own index: there is nothing to look up, and no second array to fill
        return decisions
    kind, decided = known(decisions)
    return kind.named(names, decided)


def host_array(values: Any) -> NDArray[Any]:
    """Return ``values`` (n,) or (n, K) of any kind as an array in host memory, a tensor's half precision as float32."""
    kind, held = known(values)
    return kind.host(held)


def host_rows(values: Any) -> Any:
    """Return ``values`` (n,) or (n, K) of any kind in host memory: a sparse matrix as it is, others as an array."""
    return values if hasattr(values, "tocoo") else host_array(values)


def here(work: Callable[..., T], *values: Any) -> T | None:
    """Return ``work(*values)`` if all ``values`` are in memory, else None: the others are looked at where they lie."""
    return work(*values) if all(kind_for(each).in_memory for each in values) else None


def n_rows(rows: Any) -> int:
    """Return the number of rows of probabilities (n, K) in memory, as they are given."""
    shape = getattr(rows, "shape", None)
    return len(rows) if shape is None else int(shape[0])


def rows_of(values: Any, index: NDArray[np.intp]) -> Any:
    """Return some rows of probabilities, or of keys, in memory, as they are given."""
    if hasattr(values, "iloc"):
        return values.iloc[index]
    if hasattr(values, "column_names"):
        return values.take(index)
    return (values if hasattr(values, "shape") else np.asarray(values))[index]


def refuse_elsewhere(proba: Any, sentence: str) -> None:
    """Refuse ``proba`` (n, K) whose rows are not in memory, by a ValueError with the ``sentence``."""
    if not kind_for(proba).in_memory:
        raise ValueError(sentence)


def refuse_empty(proba: Any) -> None:
    """Refuse, by a ValueError, given probabilities in memory without rows: a rule decides none, but is not tuned."""
    shape = getattr(proba, "shape", None)
    if shape[0] == 0 if shape else hasattr(proba, "__len__") and len(proba) == 0:
        raise InputError(EMPTY)


def refuse_name(proba: Any) -> None:
    """Refuse, by a ValueError, the name of a file in the place of probabilities ``proba``."""
    # labels and weights are columns of the same file, and only `open_table` has names for them
    if isinstance(proba, (str, os.PathLike)):
        from confmax.places import shown

        raise ValueError(
            f"proba is a name ({shown(os.fspath(proba))!r:.80}), not a table of probabilities; pass "
            f"confmax.open_table(name), with label= and weight= instead of y and sample_weight"
        )


def refuse_no_table(proba: Any) -> None:
    """Refuse, by a ValueError, what stands in the place of probabilities and has no rows in memory, such as a query."""
    if not any(hasattr(proba, name) for name in ("shape", "__len__", "__array__")):
        raise InputError(
            f"`proba` is of the type {type(proba).__name__}, which is no table in memory and does not stream",
            "pass an array, a data frame, or a function that returns an iterator of chunks",
        )
