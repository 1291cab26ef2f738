"""The decision rule: what a solver found, as a small frozen record that can be applied, read and saved.

A rule is a distribution over gains. Each gain decides ``argmax_j score_j``, ties to the largest index; a rule of one
gain is deterministic. Scores are those of the probabilities that the rule's calibrator makes of the given ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.calibration import Scaling
from confmax.calibration.thresholds import cuts
from confmax.calibration.words import describe, listed
from confmax.confusion import Array, CostTable, Gains, Layout
from confmax.lazily import MethodOf
from confmax.rule import file
from confmax.rule.counts import expected_counts
from confmax.rule.forms import OF_ONE_CLASS, Form
from confmax.rule.on_tables import decided, evaluate, same_calibrator
from confmax.rule.order import reordered
from confmax.rule.parts import answer, in_groups, mixed, refuse_other_groups
from confmax.rule.shares import SourceShares
from confmax.tables import Calibrator, checked_probabilities
from confmax.tables.decisions import ONE, Decisions
from confmax.tables.fingerprints import Fingerprint
from confmax.tables.frames import narrowed, width
from confmax.tables.kinds import named
from confmax.tables.normalize import rows_to_decide
from confmax.tables.precision import refuse_unheld

if TYPE_CHECKING:
    from confmax.export.onnx import to_onnx
    from confmax.export.python import to_python
    from confmax.export.sql import to_sql
    from confmax.rule.applied import predict_batches, write_parquet
    from confmax.rule.shifted import shifted_rule


@dataclass(frozen=True, eq=False, repr=False)
class DecisionRule:
    """A rule that turns class probabilities into decisions.

    Attributes
    ----------
    gains : Gains
        One gain per atom.
    weights : ndarray (A,)
        Probability of each atom; they sum to one.
    class_names : tuple
        Names of the K columns, in order (and of further decisions, when there are more decisions than classes).
    metric : str
        The metric that the rule was tuned for.
    seed : int
        Seed of the draws of a randomised rule.
    calibrator : Temperature, VectorScaling, MatrixScaling, other object with ``transform``, or None
        Every method applies it to the probabilities first, so pass raw probabilities, as when the rule was tuned. A
        calibrator for another number of classes is a ValueError.
    constraints : tuple of str
        The constraints that the rule was tuned under, as texts such as "recall[VF] >= 0.8". They do not change what it
        decides; ``confmax score`` evaluates them on labels. `maximize` leaves out limits on tables of costs and on
        functions, which no text can hold; a text that cannot be read is a ValueError.
    abstain : str, int, float or None
        The last of the class names, if the rule leaves a row undecided by this decision; None if it decides every row.
        Its index is K, in exports too.
    groups : tuple
        Names of the G groups, if the rule decides each by gains of its own, which then stand side by side in ``gains``
        (`confmax.confusion.Layout`). Pass the group of every row to `predict`.
    groups_known : bool
        Whether it does. Else it decides all groups alike, by their probabilities: pass ``group_proba`` to `predict`.
    tuned_on : Fingerprint or None
        Number of the labelled rows that `confmax.maximize` tuned the rule on, and a hash of their content that does not
        depend on their order. Reports and ``confmax score`` warn on the same rows. None if these are not known: for
        rules of `MetricClassifierCV`, of rows in parts, and without labels. Rules that differ by it alone are equal.
    shares : confmax.rule.shares.SourceShares or None
        The class shares of the tuning rows, against which `confmax.shift` holds those of other rows, and what the rule
        decided there. Rules that differ by them alone are equal.
    cost_table : confmax.confusion.CostTable or None
        The table of costs or of gains that the rule was tuned for, over its classes and decisions, by which
        `confmax.score` and reports know what it costs; None for other metrics.
    positive : int
        Of two classes, the column of the one that `threshold` and the printed sentence speak of: ``pos_label``, the
        class of a metric such as "f1[fraud]", or the second. It does not change what is decided.
    columns : tuple of str
        What the columns of the tuning rows were called, in class order, which `to_sql` reads; () where these are the
        names of the classes, or are not known. Rules that differ by them alone are equal.

    Examples
    --------
    >>> import confmax
    >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
    >>> rule.predict([[0.7, 0.3], [0.8, 0.2]]).tolist()
    ['yes', 'no']
    >>> rule.predict_index([[0.7, 0.3], [0.8, 0.2]])
    array([1, 0])
    """

    gains: Gains
    weights: Array
    class_names: tuple[Any, ...]
    metric: str = ""
    seed: int = 0
    calibrator: Calibrator | None = None
    constraints: tuple[str, ...] = ()
    abstain: Any = None
    groups: tuple[Any, ...] = ()
    groups_known: bool = True
    tuned_on: Fingerprint | None = None
    shares: SourceShares | None = None
    cost_table: CostTable | None = None
    positive: int = 1
    columns: tuple[str, ...] = ()
    decisions: ClassVar[Decisions] = ONE
    form: ClassVar[Form] = OF_ONE_CLASS

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be applied, and keep names as plain Python values, which a file can hold."""
        if isinstance(self.calibrator, Scaling) and self.calibrator.n_classes not in (None, self.n_classes):
            raise ValueError(
                f"the rule is for {self.n_classes} classes and its calibration for {self.calibrator.n_classes}; pass "
                f"the calibration that the rule was tuned with"
            )
        if len(self.groups) == 1 and not self.groups_known:
            raise ValueError(
                f"a rule that decides by the probabilities of groups has at least two; got {listed(self.groups)}"
            )
        refuse_unheld(self.gains)
        plain = tuple(name.item() if isinstance(name, np.generic) else name for name in self.class_names)
        object.__setattr__(self, "class_names", plain)
        object.__setattr__(self, "constraints", file.canonical(self.constraints))
        if self.abstain is not None and (self.n_decisions != self.n_classes + 1 or plain[-1] != self.abstain):
            raise ValueError(
                f"abstain is the last name of a rule with one decision more than classes; got {self.abstain!r} with "
                f"the names {listed(plain)}"
            )
        object.__setattr__(self, "abstain", None if self.abstain is None else plain[-1])
        if self.positive != 1 and (self.positive != 0 or self.n_classes != 2):
            raise ValueError(f"positive is 0 or 1, the column of one of two classes; got {self.positive!r}")

    @classmethod
    def from_weights(
        cls, weights: ArrayLike, offsets: ArrayLike | None = None, *, classes: Sequence[Any] | None = None
    ) -> DecisionRule:
        """Return the rule that decides the largest of ``weights`` * p + ``offsets``, for ``classes``, each (K,).

        A ValueError if they do not hold one finite number and one name per class.
        """
        # `Gains.reduced` lets a number stand for all classes, which here would hide that one was forgotten
        scale = np.asarray(weights, dtype=np.float64)
        shift = np.zeros(scale.shape) if offsets is None else np.asarray(offsets, dtype=np.float64)
        if scale.ndim != 1 or len(scale) < 2 or shift.shape != scale.shape:
            raise ValueError(
                f"weights and offsets hold one number per class, shape (K,), K >= 2; got {scale.shape}, {shift.shape}"
            )
        if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
            raise ValueError("weights and offsets must be finite numbers")
        names = tuple(range(len(scale))) if classes is None else tuple(classes)
        if len(names) != len(scale):
            raise ValueError(
                f"classes names {len(names)} classes and there are {len(scale)} weights; give one name per weight"
            )
        return cls(Gains.reduced(scale, shift), np.ones(1), names)

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> NDArray[Any]:
        """Class names, indexed by decision (M,)."""
        names = np.array(self.class_names)
        # one dtype may change a name: 0 beside "abstain", an integer beyond 64 bits, a NUL at the end of a string
        kept = names.tolist() == list(self.class_names)
        return names if kept else np.array(self.class_names, dtype=object)

    @property
    def n_classes(self) -> int:
        """Number of probability columns K."""
        return self.gains.n_classes // max(1, len(self.groups))

    @property
    def n_decisions(self) -> int:
        """Number of decisions M."""
        return self.gains.n_decisions // max(1, len(self.groups))

    @property
    def layout(self) -> Layout | None:
        """Where the gains of the groups stand; None for a rule without groups."""
        if not self.groups:
            return None
        further = self.n_decisions - self.n_classes
        return Layout(len(self.groups), self.n_classes, further, shared=not self.groups_known)

    def of_group(self, name: Any) -> DecisionRule:
        """Return the rule by which the rows of the group ``name`` are decided.

        Raises
        ------
        ValueError
            If the rule does not know the group.

        Examples
        --------
        >>> import confmax, numpy as np
        >>> from confmax.confusion import Gains
        >>> gains = Gains.reduced([1.0, 1.0, 1.0, 3.0])
        >>> rule = confmax.DecisionRule(gains, np.ones(1), ("no", "yes"), groups=("men", "women"))
        >>> rule.of_group("women").predict([[0.7, 0.3]]).tolist()
        ['yes']
        >>> rule.predict([[0.7, 0.3], [0.7, 0.3]], group=["women", "men"]).tolist()
        ['yes', 'no']
        """
        layout = self.layout
        if not self.groups_known:
            raise ValueError("this rule decides all groups alike, by their probabilities; no group has its own rule")
        if layout is None or name not in self.groups:
            raise ValueError(f"the rule has no group {name!r}; its groups are {listed(self.groups) or 'none'}")
        part = layout.gains_of(self.gains, self.groups.index(name))
        return replace(self, gains=part, groups=())

    @property
    def is_randomized(self) -> bool:
        """Whether the rule draws between several gains."""
        return len(self.weights) > 1

    @property
    def threshold(self) -> float | None:
        """The raw probability of a class from which a rule of two classes decides it: of the column `positive`.

        `predict` decides the class exactly where its float64 probability p is at least the threshold, the other one
        being 1 - p. The calibration is undone: p is what your model outputs. Rows whose two scores differ by rounding
        only may fall on either side, in float32 those within its precision. Equal scores decide the second class, so a
        threshold of the first is the float behind the number at which the scores are equal; the rule prints that number
        behind a ``>``.

        0.0 if the rule always decides the class, ``inf`` if it never does. None if no such number describes the rule:
        more than two classes or decisions, groups, a rule that decides at random, one that decides the class *below* a
        probability, and a calibration that is not known to be monotone (an object of your own, a negative power).

        A rule for a metric of one class among several, such as "f1[VF]", prints from which probability it decides this
        class. Its `threshold` is None, because it refers to no second class.

        Examples
        --------
        >>> import confmax
        >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
        >>> rule.threshold
        0.25
        >>> rule
        DecisionRule: 2 classes, deterministic
          decides yes if p(yes) >= 0.25, else no
        """
        return None if self.is_randomized or self.groups else cuts(self.gains, self.calibrator, self.positive)[0]

    # --- what it decides ----------------------------------------------------------------------------------------------

    def predict(
        self,
        proba: ArrayLike,
        *,
        keys: ArrayLike | None = None,
        group: ArrayLike | None = None,
        group_proba: ArrayLike | None = None,
        normalize: bool = False,
        at_most: Mapping[Any, int] | None = None,
    ) -> NDArray[Any]:
        """Return the label of the decided class of every row.

        Parameters
        ----------
        proba : array-like, data frame, scipy.sparse matrix, torch tensor, opened table or Dask collection (n, K)
            Class probabilities, columns in the order of `classes` (a frame with such column names in any order). For
            two classes also a vector (n,): the probabilities of the second. A pandas Series that is indexed by the
            classes is one row.
        keys : array-like, Dask collection (n,) or None
            Identifiers, integers or strings. A randomised rule draws the decision of a row from its identifier.
            Without them it draws from the probabilities of the row, so that equal rows get equal decisions.
        group : array-like, Dask collection (n,) or None
            The group of each row, for a rule with `groups`. Of a Dask DataFrame also the name of a column that is no
            probability.
        group_proba : array-like or data frame (n, G), or None
            The probability of each group, for a rule with `groups` that does not know them.
        normalize : bool
            Whether to divide every row of an array or a data frame by its sum first. Without it a row whose sum is more
            than 1e-3 from one is refused.
        at_most : mapping of class names to int, or None
            How many rows of this batch are decided as these classes at most, such as ``{"VF": 100}``. Of all decisions
            within these limits, you get those with the largest sum of the rule's scores (`confmax.rule.batch`). Several
            classes need rows in memory. Of a Dask collection, a pass is computed when you call this.

        Returns
        -------
        ndarray (n,)
            ``classes[predict_index(proba)]``, in the dtype of `classes`; int64 for the classes 0..K-1. A tensor of
            probabilities gives a tensor on its device. A Dask array gives a lazy array with the same chunks, a Dask
            DataFrame a lazy Series with its index; neither warns of duplicates.

        Raises
        ------
        ValueError
            If ``proba`` is not a table of probabilities with K columns. If a row has no group, or one that the rule
            does not know. If ``proba`` is a tensor and the classes are names, which tensors cannot hold; use
            `predict_index` then. If ``at_most`` is not such a mapping, allows fewer decisions than there are rows,
            limits several classes of rows in parts, or is given to a rule that decides at random.

        Warns
        -----
        UserWarning
            If a randomised rule draws without keys and many rows are duplicates of each other. If ``normalize`` divides
            rows whose sums are more than 1e-3 from one; the message shows the farthest. If a vector of two sums to one:
            it is read as two rows, and may be meant as one.

        Examples
        --------
        >>> rule = DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
        >>> rule.predict([[0.7, 0.3], [0.4, 0.6], [0.6, 0.4]], at_most={"yes": 2}).tolist()
        ['no', 'yes', 'yes']
        """
        given = {"keys": keys, "group": group, "group_proba": group_proba}
        return named(self.classes, self.predict_index(proba, **given, normalize=normalize, at_most=at_most))

    def predict_index(
        self,
        proba: ArrayLike,
        *,
        keys: ArrayLike | None = None,
        group: ArrayLike | None = None,
        group_proba: ArrayLike | None = None,
        normalize: bool = False,
        at_most: Mapping[Any, int] | None = None,
    ) -> NDArray[np.int64]:
        """Return the decided class of every row as its index in `classes`, 0..M-1.

        ``proba``, ``keys``, ``group``, ``group_proba``, ``normalize``, ``at_most``, ValueError and UserWarning are
        those of `predict`. Tensors work for any classes.

        Returns
        -------
        ndarray (n,) of int64
            For a tensor, a tensor of int64 on its device, as from ``argmax``; lazy for Dask collections.
        """
        if at_most is not None:
            from confmax.rule.batch import caps_of, decide_batch

            if caps := caps_of(self, at_most):
                refuse_other_groups(self, group, group_proba)
                beside = {"keys": keys, "group": group, "group_proba": group_proba}
                found: NDArray[np.int64] = decide_batch(self, self._rows(proba, normalize), caps, beside)
                return found
        decisions: NDArray[np.int64] = self._answered("predict_index", proba, keys, group, group_proba, normalize)
        return decisions

    def decision_probabilities(
        self,
        proba: ArrayLike,
        *,
        group: ArrayLike | None = None,
        group_proba: ArrayLike | None = None,
        normalize: bool = False,
    ) -> Array:
        """Return the exact probability of every decision (n, M), before any draw.

        ``proba``, ``group``, ``group_proba``, ``normalize`` and ValueError are those of `predict`. A tensor
        gives a tensor on its device, a Dask array or DataFrame a lazy one.
        """
        shares: Array = self._answered("decision_probabilities", proba, None, group, group_proba, normalize)
        return shares

    def _answered(self, what: str, proba: Any, keys: Any, group: Any, group_proba: Any, normalize: bool) -> Any:
        """Return what the method ``what`` answers for given rows, by their groups where the rule reads these."""
        proba = self._rows(proba, normalize)
        refuse_other_groups(self, group, group_proba)
        if not self.groups_known:
            return mixed(self, what, proba, group_proba, keys)
        if self.groups or group is not None:
            return in_groups(self, proba, group, keys, what)
        return answer(self, what, proba, keys)

    def _rows(self, proba: Any, normalize: bool) -> Any:
        return rows_to_decide(proba, self.class_names[: self.n_classes], normalize=normalize)

    def transform(
        self,
        frame: Any,
        output: str = "decision",
        *,
        columns: Sequence[str] | None = None,
        keys: str | None = None,
        group: str | None = None,
    ) -> Any:
        """Return a Spark DataFrame with a column of decisions, computed by its executors when the column is used.

        Parameters
        ----------
        frame : pyspark.sql.DataFrame
            With probabilities in the column ``probability``, as Spark ML writes it, or in columns named like `classes`.
        output : str
            Name of the new column. It holds class names; numbers become doubles, as in Spark ML's ``prediction``.
        columns : sequence of str or None
            The columns of probabilities in the order of `classes`, or one column that holds vectors of them.
        keys : str or None
            Column of identifiers from which a randomised rule draws, see `predict`.
        group : str or None
            Column of groups, for a rule with `groups`.

        Raises
        ------
        ValueError
            If columns are missing. Rows that are not probabilities, or whose group the rule does not know, are refused
            when the column is computed.
        """
        from confmax.tables.partitioned.spark_rules import with_decisions

        return with_decisions(self, frame, output, columns=columns, keys=keys, group=group)

    def to_spark_thresholds(self) -> list[float]:
        """Return the ``thresholds`` (K,) with which a classifier of Spark ML decides like this rule, except for ties.

        Raises
        ------
        ValueError
            If the rule is neither one positive weight per class, nor a threshold inside (0, 1) for two classes.

        Examples
        --------
        >>> import confmax
        >>> confmax.DecisionRule.from_weights([1.0, 4.0, 2.0]).to_spark_thresholds()
        [1.0, 0.25, 0.5]
        """
        from confmax.rule import spark

        if self.groups:
            raise spark.inexpressible("with groups, of which each is decided in its own way")
        cut = None if self.is_randomized else cuts(self.gains, self.calibrator)[0]
        return spark.thresholds(self.gains, calibrated=self.calibrator is not None, cut=cut)

    def checked(self, proba: ArrayLike) -> NDArray[Any]:
        """Return ``proba`` (n, K) as `predict` reads it: columns in the order of `classes`, rows that sum to one.

        Raises
        ------
        ValueError
            If they are not a table of probabilities with K columns.
        """
        proba = narrowed(proba, self.class_names[: self.n_classes])
        # first: rows of other columns sum to one only by chance
        n_columns = width(proba)
        if n_columns not in (None, self.n_classes):
            if np.shape(proba) == (self.n_classes,):
                raise ValueError(
                    f"proba is a list of {self.n_classes} numbers, which is one row; pass [row], a list of rows"
                )
            raise ValueError(
                f"proba has {n_columns} columns and the rule has {self.n_classes} classes; pass one column per class, "
                f"in the order {listed(self.class_names[: self.n_classes])}"
            )
        return checked_probabilities(proba, self.class_names[: self.n_classes])

    # --- how it is kept -----------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the rule as versioned JSON.

        Raises
        ------
        ValueError
            If a class name is neither a string nor a finite number, if two classes have the same name, or if the
            calibrator is an object that confmax does not provide.
        """
        return file.dump(self, self.calibrator)

    @classmethod
    def from_json(cls, text: str | bytes) -> DecisionRule:
        """Return the rule in a JSON ``text``.

        Raises
        ------
        ValueError
            If the text is not a rule of a known version, or anything in it is out of bounds.
        """
        parts = file.parse(text)
        if "decisions" in parts:
            raise ValueError("it decides several labels per row; read it with LabelRule.load")
        return cls(**parts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rule to the JSON file ``path``, completely or not at all.

        Symbolic links are followed. A device or a pipe receives the JSON in place.

        Raises
        ------
        ValueError
            As for `to_json`, and if nothing can be written at the path, with the reason.
        OSError
            If writing fails.
        """
        from pathlib import Path

        from confmax.places import write_whole

        write_whole(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DecisionRule:
        """Read a rule that `save` wrote to ``path``.

        Raises
        ------
        ValueError
            If the file is not a rule, with the reason.
        OSError
            If it cannot be read.
        """
        return file.load(path, cls.from_json)

    # functions of a rule as methods, so that each signature and its long docstring stand once
    expected_counts = expected_counts
    evaluate = evaluate
    decided = decided
    reordered = reordered
    if TYPE_CHECKING:
        to_sql = to_sql
        to_onnx = to_onnx
        to_python = to_python
        shifted = shifted_rule
        predict_batches = predict_batches
        write_parquet = write_parquet
    else:
        to_sql = MethodOf("confmax.export.sql", "to_sql")
        to_onnx = MethodOf("confmax.export.onnx", "to_onnx")
        to_python = MethodOf("confmax.export.python", "to_python")
        shifted = MethodOf("confmax.rule.shifted", "shifted_rule")
        predict_batches = MethodOf("confmax.rule.applied", "predict_batches")
        write_parquet = MethodOf("confmax.rule.applied", "write_parquet")

    def __eq__(self, other: object) -> bool:
        """Rules are equal if their files are, but for what these say of the rows of the tuning."""
        if not isinstance(other, DecisionRule) or not same_calibrator(self.calibrator, other.calibrator):
            return False
        return self._text() == other._text()

    def __hash__(self) -> int:
        return hash(self._text())

    def _text(self) -> str:
        """Return what the file of an equal rule holds beside the calibrator, which may be an object."""
        return file.dump(replace(self, tuned_on=None, shares=None, columns=()), None)

    def __repr__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        from confmax.rule import html

        return html.rule_table(self)
