"""The rule of several labels per row: which labels a row gets, by their scores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.calibration.labels import LabelScaling
from confmax.calibration.words import printable, which_labels
from confmax.confusion import Array, Gains
from confmax.errors import InputError
from confmax.export.labels import labels_to_onnx, labels_to_python, labels_to_sql
from confmax.kernels.label_bins import EDGE
from confmax.places import write_whole
from confmax.rule import file
from confmax.rule.applied import predict_batches, write_parquet
from confmax.rule.counts import expected_counts
from confmax.rule.forms import OF_LABELS, Form
from confmax.rule.html import titled_table
from confmax.rule.shares import LabelShares
from confmax.tables import kinds
from confmax.tables.columns import order_of
from confmax.tables.decisions import ANY, Decisions
from confmax.tables.fingerprints import Fingerprint
from confmax.tables.frames import as_rows, column_names, narrowed
from confmax.tables.partitioned.spark_rules import with_labels
from confmax.tables.several import checked_labels_proba, chosen_columns

SHOWN = 12  # labels that are printed


@dataclass(frozen=True, eq=False, repr=False)
class LabelRule:
    """Which of several labels a row gets, by the scores ``a_l p_l + b_l`` of its labels.

    Attributes
    ----------
    gains : Gains
        The weights a and the offsets b, (A, L) each, of A rules.
    weights : ndarray (A,)
        The probability of each rule; one rule draws nothing.
    class_names : tuple
        Names of the L labels, in column order.
    decisions : Decisions
        Which labels are decided: all with a score above zero, the k best, or of the k best those above zero.
    metric : str
        The metric that the rule was tuned for, or an empty text.
    seed : int
        Seed of the draws.
    calibrator : LabelScaling or None
        What is done to the probabilities first.
    constraints : tuple of str
        The limits that it was tuned within.
    tuned_on : Fingerprint or None
        Number and hash of the labelled rows that it was tuned on.
    shares : confmax.rule.shares.LabelShares or None
        How often labels were true and decided on the tuning rows, against which `confmax.shift` holds other rows. Rules
        that differ by it alone are equal.
    columns : tuple of str
        What the columns of the tuning rows were called, as of a `DecisionRule`.

    Examples
    --------
    >>> rule = LabelRule.from_thresholds([0.5, 0.2], classes=["red", "round"])
    >>> rule.predict([[0.6, 0.1], [0.2, 0.3]]).tolist()
    [[1, 0], [0, 1]]
    >>> rule.predict_lists([[0.6, 0.1], [0.2, 0.1]])
    [['red'], []]
    """

    gains: Gains
    weights: Array
    class_names: tuple[Any, ...]
    decisions: Decisions = ANY
    metric: str = ""
    seed: int = 0
    calibrator: LabelScaling | None = None
    constraints: tuple[str, ...] = ()
    tuned_on: Fingerprint | None = None
    shares: LabelShares | None = None
    columns: tuple[str, ...] = ()
    form: ClassVar[Form] = OF_LABELS
    # what a rule of one class for every row may have beside this
    groups: ClassVar[tuple[Any, ...]] = ()
    abstain: ClassVar[None] = None
    cost_table: ClassVar[None] = None
    groups_known: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Keep names as plain Python values, which a file can hold."""
        plain = tuple(name.item() if isinstance(name, np.generic) else name for name in self.class_names)
        object.__setattr__(self, "class_names", plain)

    @classmethod
    def from_thresholds(
        cls, thresholds: ArrayLike, *, classes: Sequence[Any] | None = None, metric: str = "", **parts: Any
    ) -> LabelRule:
        """Return the rule that gives a row every label whose probability is above its one of ``thresholds`` (L,).

        Infinity stands for never, and minus infinity for always. A ValueError for what is no number, and for another
        number of ``classes``. The ``metric`` and further ``parts`` are attributes.
        """
        try:
            t = np.asarray(thresholds, dtype=np.float64)
        except (TypeError, ValueError):
            t = np.empty(0)
        if t.ndim != 1 or not len(t) or np.isnan(t).any():
            raise ValueError(f"thresholds is a list of numbers, one for each label; got {thresholds!r:.60}")
        names = tuple(range(len(t))) if classes is None else tuple(classes)
        if len(names) != len(t):
            raise ValueError(f"there are {len(t)} thresholds, and classes names {len(names)} labels; give one for each")
        return cls(Gains.above(t), np.ones(1), names, ANY, metric, **parts)

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> NDArray[Any]:
        """Names of the labels (L,), in column order."""
        names = np.array(self.class_names)
        return names if names.tolist() == list(self.class_names) else np.array(self.class_names, dtype=object)

    @property
    def n_classes(self) -> int:
        """Number of labels L."""
        return len(self.class_names)

    @property
    def is_randomized(self) -> bool:
        """Whether the rule draws between several gains."""
        return len(self.weights) > 1

    @property
    def thresholds(self) -> Array | None:
        """The given probability (L,) above which a label is decided; None for rules with a budget, and for draws.

        Infinity stands for never, minus infinity for always.
        """
        if self.decisions != ANY or self.is_randomized:
            return None
        (a,), (b,) = self.gains.pair()
        if (a < 0.0).any():
            return None
        ends = np.where(b > 0.0, -np.inf, np.inf)
        t = np.where(a > 0.0, -np.divide(b, a, out=np.zeros_like(b), where=a > 0.0), ends) + 0.0
        if self.calibrator is None:
            return t
        inside = (t >= 0.0) & (t < 1.0)
        raw = self.calibrator.raw(np.where(inside, t, 0.5))
        # the maps take probabilities beyond the edges for these
        raw = np.where(raw < EDGE, -np.inf, np.where(raw >= 1.0 - EDGE, np.inf, raw))
        return np.where(inside, raw, np.where(t < 0.0, -np.inf, np.inf))

    # --- what it decides ----------------------------------------------------------------------------------------------

    def predict(self, proba: Any, *, keys: ArrayLike | None = None) -> Any:
        """Return which labels every row gets, as 0 and 1.

        Parameters
        ----------
        proba : array-like, data frame, scipy.sparse matrix, torch tensor, opened table or Dask collection (n, L)
            Probabilities of the labels, in the order of `classes`; a frame with such column names in any order. Also
            a sequence of L arrays (n, 2). A pandas Series that is indexed by the labels is one row. What a sparse
            matrix does not store is zero. Of any number of labels it is never decided, and a calibration leaves it at
            zero.
        keys : array-like, Dask collection (n,) or None
            Identifiers, from which a rule that draws does so; else it draws from the probabilities of a row.

        Returns
        -------
        ndarray (n, L) of uint8, or sparse matrix or array in rows
            As scikit-learn's ``predict`` of several labels; sparse where ``proba`` is. A tensor gives a tensor of uint8
            on its device, a Dask array a lazy array with the same chunks of rows, and a Dask DataFrame a lazy one with
            its index and a column for each label. For a Spark DataFrame use `transform`.

        Raises
        ------
        ValueError
            If ``proba`` is no table of probabilities with L columns.
        """
        return kinds.predict_labels(self, as_rows(proba, self.class_names), keys)

    def predict_lists(self, proba: Any, *, keys: ArrayLike | None = None) -> list[list[Any]]:
        """Return the names of the labels that every row of ``proba`` (n, L) gets, n lists.

        ``keys`` (n,) and the ValueError are those of `predict`. Dask collections are computed.
        """
        chosen = self.predict(proba, keys=keys)
        return [[self.class_names[k] for k in row] for row in chosen_columns(chosen)]

    def decision_probabilities(self, proba: Any) -> Any:
        """Return the exact probability (n, L) with which rows of ``proba`` (n, L) get each label, before any draw.

        It is sparse where ``proba`` is, a tensor on the device of one, and lazy for Dask collections.
        """
        return kinds.label_probabilities(self, as_rows(proba, self.class_names))

    def transform(
        self,
        frame: Any,
        output: str = "decision",
        *,
        columns: Sequence[str] | None = None,
        keys: str | None = None,
        names: bool = False,
    ) -> Any:
        """Return a Spark DataFrame with a column of decisions, computed by its executors when the column is used.

        Parameters
        ----------
        frame : pyspark.sql.DataFrame
            With probabilities in the column ``probability``, or in columns named like `classes`.
        output : str
            Name of the new column. It holds an array of L integers, 0 or 1, in the order of `classes`.
        columns : sequence of str or None
            The columns of probabilities in the order of `classes`, or one column that holds arrays of them.
        keys : str or None
            Column of identifiers from which a rule that draws does so, see `predict`.
        names : bool
            Whether the column holds arrays of the names of the labels that a row gets instead; numbers become doubles.

        Raises
        ------
        ValueError
            If columns are missing. Rows that are no probabilities are refused when the column is computed.
        """
        return with_labels(self, frame, output, columns=columns, keys=keys, names=names)

    def checked(self, proba: Any) -> Any:
        """Return ``proba`` (n, L) as `predict` reads it; a ValueError if it is no such table."""
        names = column_names(proba)
        # columns that are named like labels may hold 0 and 1: those of the tuning rows are meant where they are there
        known = names is not None and self.columns and set(self.columns) <= set(names)
        called = self.columns if known else self.class_names
        proba = narrowed(proba, called)
        names = column_names(proba)
        if names is not None:
            self._refuse_width(len(names))
        P = checked_labels_proba(proba, order_of(names, called)).proba
        self._refuse_width(P.shape[1])
        return P

    def _refuse_width(self, n_columns: int) -> None:
        if n_columns != self.n_classes:
            raise InputError(f"`proba` has {n_columns} columns and the rule has {self.n_classes} labels")

    def calibrated(self, proba: Any) -> Any:
        """Return probabilities ``proba`` (n, L), which are `checked`, as the scores read them."""
        return proba if self.calibrator is None else self.calibrator.transform(proba)

    # --- how it is kept -----------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the rule as versioned JSON; a ValueError if a name is neither a string nor a number."""
        return file.dump(self, self.calibrator)

    @classmethod
    def from_json(cls, text: str | bytes) -> LabelRule:
        """Return the rule in a JSON ``text``; a ValueError if it is none of several labels."""
        parts = file.parse(text)
        if "decisions" not in parts:
            raise ValueError("it decides one class for every row; read it with DecisionRule")
        return cls(**parts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rule to the JSON file ``path``, completely or not at all, as `DecisionRule.save` does."""
        write_whole(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LabelRule:
        """Read a rule that `save` wrote to ``path``; a ValueError, with the reason, if the file is none."""
        return file.load(path, cls.from_json)

    # functions of a rule as methods, so that each signature and its long docstring stand once
    to_sql = labels_to_sql
    to_onnx = labels_to_onnx
    to_python = labels_to_python
    predict_batches = predict_batches
    write_parquet = write_parquet
    expected_counts = expected_counts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelRule) and self._text() == other._text()

    def __hash__(self) -> int:
        return hash(self._text())

    def _text(self) -> tuple[str, str]:
        return replace(self, shares=None, columns=()).to_json(), repr(self.tuned_on)

    def __repr__(self) -> str:
        lines = [self._headline(), *([f"  tuned within {', '.join(self.constraints)}"] if self.constraints else [])]
        lines += [] if self.thresholds is not None else [f"  a row gets {which_labels(self)}"]
        heads, rows, left = self._rows()
        wide = max(8, *(len(row[0]) for row in rows)) + 2
        cells = max(12, *(len(cell) + 2 for row in rows for cell in row[1:]))
        lines.append(f"  {heads[0]:<{wide}}" + "".join(f"{head:>{cells}}" for head in heads[1:]))
        lines += [f"  {row[0]:<{wide}}" + "".join(f"{cell:>{cells}}" for cell in row[1:]) for row in rows]
        return "\n".join(lines + ([f"  ... {left} more labels"] if left else []))

    def _repr_html_(self) -> str:
        heads, rows, left = self._rows()
        notes = [f"and {left} more labels"] if left else []
        notes += [] if self.thresholds is not None else [f"a row gets {which_labels(self)}"]
        return titled_table(self._headline(), heads, rows, notes)

    def _headline(self) -> str:
        tuned = f" for {self.metric}" if self.metric else ""
        drawn = f", drawn from {len(self.weights)} rules" if self.is_randomized else ""
        return f"LabelRule{tuned}: {self.n_classes} labels, {self.decisions}{drawn}"

    def _rows(self) -> tuple[list[str], list[list[str]], int]:
        """Return heads, and the numbers of the first labels as texts, and how many labels are left out."""
        some = range(min(self.n_classes, SHOWN))
        names = [printable(str(self.class_names[k])) for k in some]
        t = self.thresholds
        if t is not None:
            words = {np.inf: "never", -np.inf: "always"}
            cells = [[words.get(float(t[k]), f"p > {t[k]:.4g}")] for k in some]
            heads = ["label", "decided if"]
        else:
            a, b = self.gains.pair()
            cells = [[f"{number[k]:.5g}" for pair in zip(a, b, strict=True) for number in pair] for k in some]
            heads = ["label", *(["weight", "offset"] * len(a))]
        return heads, [[name, *cell] for name, cell in zip(names, cells, strict=True)], self.n_classes - len(some)
