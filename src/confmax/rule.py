"""The decision rule: what a solver found, as a small frozen record that can be applied, read and saved.

A rule is a distribution over gains. Each gain decides ``argmax_j score_j``, ties to the largest index; a rule of one
gain is deterministic. Scores are those of the probabilities that the rule's calibrator makes of the given ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax import _draw, _rule_file
from confmax._calibrators import Temperature, VectorScaling
from confmax._export_methods import Exports
from confmax.confusion import Array, Confusion, Gains
from confmax.oracle import (
    Calibrator,
    DecidingOn,
    Oracle,
    apply_calibrator,
    checked_probabilities,
    decide,
    decide_given,
    is_source,
    is_sparse,
    is_tensor,
    same_estimate,
)

MOST_CELLS = 100_000_000  # of the decision probabilities of a sparse table


@dataclass(frozen=True, eq=False, repr=False)
class DecisionRule(Exports):
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
        What the rule was tuned for.
    seed : int
        Seed of the draws of a randomised rule.
    calibrator : Temperature, VectorScaling, other object with ``transform``, or None
        Applied to the probabilities first, by every method here: pass them raw, as they were when the rule was tuned.

    Examples
    --------
    >>> import confmax
    >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
    >>> rule.classes[rule.predict([[0.7, 0.3], [0.8, 0.2]])].tolist()
    ['yes', 'no']
    """

    gains: Gains
    weights: Array
    class_names: tuple[Any, ...]
    metric: str = ""
    seed: int = 0
    calibrator: Calibrator | None = None

    def __post_init__(self) -> None:
        """Keep names as plain Python values, which a file can hold."""
        if isinstance(self.calibrator, VectorScaling) and self.calibrator.n_classes != self.n_classes:
            raise ValueError(
                f"the rule is for {self.n_classes} classes and its calibration for {self.calibrator.n_classes}; use "
                f"the one that belongs to it"
            )
        plain = tuple(name.item() if isinstance(name, np.generic) else name for name in self.class_names)
        object.__setattr__(self, "class_names", plain)

    @classmethod
    def from_weights(
        cls, weights: ArrayLike, offsets: ArrayLike | None = None, *, classes: Sequence[Any] | None = None
    ) -> DecisionRule:
        """Return the rule ``argmax_j weights_j p_j + offsets_j``; ``weights`` and ``offsets`` have shape (K,)."""
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
                f"classes names {len(names)} classes and there are {len(scale)} weights; give one name each"
            )
        return cls(Gains.reduced(scale, shift), np.ones(1), names)

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> NDArray[Any]:
        """Class names, indexed by decision (M,)."""
        names = np.array(self.class_names)
        if names.dtype.kind in "US" and not all(isinstance(name, str) for name in self.class_names):
            names = np.array(self.class_names, dtype=object)
        return names

    @property
    def n_classes(self) -> int:
        """Number of probability columns K."""
        return self.gains.n_classes

    @property
    def n_decisions(self) -> int:
        """Number of decisions M."""
        return self.gains.n_decisions

    @property
    def is_randomized(self) -> bool:
        """Whether the rule draws between several gains."""
        return len(self.weights) > 1

    # --- what it decides ----------------------------------------------------------------------------------------------

    def predict(self, proba: ArrayLike, *, keys: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the decided class index of every row.

        Parameters
        ----------
        proba : array-like, data frame, scipy.sparse matrix or torch tensor (n, K)
            Class probabilities, columns in the order of `classes` (a frame with such column names in any order).
        keys : array-like (n,) or None
            Identifiers, integers or strings, from which a randomised rule draws. Without them a row's own
            probabilities are its key, so that equal rows get equal decisions.

        Returns
        -------
        ndarray (n,) of int64
            ``rule.classes[index]`` is the name. For a tensor, a tensor of int64 on its device, like ``argmax`` gives.

        Raises
        ------
        ValueError
            If ``proba`` is not a table of probabilities of K columns.

        Warns
        -----
        UserWarning
            If a randomised rule draws without keys and many rows are duplicates of each other.
        """
        if is_source(proba):
            return self._predict_parts(proba, keys)
        if self.calibrator is None:
            names = self.class_names[: self.n_classes]
            if self.is_randomized:
                decisions = _draw.drawn_given(proba, self.gains, self.weights, self.seed, keys, names)
            else:
                decisions = decide_given(proba, self.gains, names)
            if decisions is not None:
                return decisions
        P = self._checked(proba)
        if not self.is_randomized:
            P = apply_calibrator(self.calibrator, P)
            if is_tensor(P):
                from confmax.oracle._torch import decide_tensor

                return decide_tensor(P, self.gains)[0]
            return decide(P, self.gains)[0].astype(np.int64, copy=False)
        return _draw.drawn_decisions(P, self.gains, self.weights, self.seed, keys, calibrator=self.calibrator)

    def _predict_parts(self, source: Any, keys: ArrayLike | None) -> NDArray[np.int64]:
        """Return the decisions (n,) of an opened table, read part by part."""
        if keys is not None:
            raise ValueError("keys are not split into parts; leave them out, or decide arrays part by part")
        names = [str(name) for name in self.class_names[: self.n_classes]]
        if source.names is not None and set(source.names) == set(names):
            source = source.with_columns([source.names.index(name) for name in names])
        return np.concatenate([np.empty(0, np.int64), *source.run(partial(_decide_part, self))])

    def decision_probabilities(self, proba: ArrayLike) -> Array:
        """Return the exact probability of every decision (n, M), before any draw; for a tensor, on its device."""
        P = apply_calibrator(self.calibrator, self._checked(proba))
        if is_tensor(P):
            from confmax.oracle._torch_predict import decision_probabilities

            return decision_probabilities(P, self.gains, self.weights)
        n = P.shape[0]
        if is_sparse(P) and n * self.n_decisions > MOST_CELLS:
            raise ValueError(
                f"the probabilities of {self.n_decisions} decisions on {n} rows are a dense table of more than "
                f"{MOST_CELLS:,} cells; pass fewer rows at a time"
            )
        out, rows = np.zeros((n, self.n_decisions)), np.arange(n)
        for weight, decision in zip(self.weights, decide(P, self.gains), strict=True):
            out[rows, decision] += weight
        return out

    def evaluate(self, oracle: Oracle, *, matrix: bool = False) -> Confusion:
        """Return the exact confusion of the rule on the oracle's table; one pass.

        Decisions are always those of `predict` on the raw probabilities. A raw table is calibrated as the rule says,
        for the truth of a model confusion too; on a table that is calibrated already, the truth stays as it is.
        """
        table, own = oracle.table, self.calibrator
        if not _same(own, table.calibrator):
            if table.calibrator is None:
                oracle = same_estimate(oracle, table.calibrated(own))
            else:
                oracle = DecidingOn(table.calibrated(own), oracle)
        return oracle.maximize(self.gains, matrix=matrix).mix(self.weights)

    def reordered(self, class_names: Sequence[Any]) -> DecisionRule:
        """Return the same rule for columns in another order of the same names.

        Raises
        ------
        ValueError
            If the names are others, or the calibrator is an object that has no ``reordered(index)``.
        """
        K = self.n_classes
        same = len(class_names) == len(self.class_names) and set(class_names) == set(self.class_names)
        if not same or tuple(class_names[K:]) != self.class_names[K:]:
            raise ValueError(
                f"the rule's classes are {list(self.class_names)}, of which the first {K} can be reordered; got "
                f"{list(class_names)}"
            )
        index = [self.class_names.index(name) for name in class_names[:K]]
        if self.gains.full is not None or (self.gains.power and index != list(range(K))):
            decisions = [*index, *range(K, self.n_decisions)]
            gains = Gains(full=np.ascontiguousarray(self.gains.matrices()[:, index][:, :, decisions]))
        else:
            a, b = self.gains.coefficients()
            gains = Gains.reduced(a[:, index], b[:, index], power=self.gains.power)
        calibrator: Any = self.calibrator
        if calibrator is not None and index != list(range(K)):
            if not callable(getattr(calibrator, "reordered", None)):
                raise ValueError(
                    f"the calibration {type(calibrator).__name__} of this rule has no reordered(index); pass the "
                    f"columns in the order {list(self.class_names[:K])}"
                )
            calibrator = calibrator.reordered(index)
        return DecisionRule(gains, self.weights, tuple(class_names), self.metric, self.seed, calibrator)

    def _checked(self, proba: ArrayLike) -> NDArray[Any]:
        P = checked_probabilities(proba, self.class_names[: self.n_classes])
        if P.shape[1] != self.n_classes:
            raise ValueError(
                f"the rule decides between {self.n_classes} classes and proba has {P.shape[1]} columns; pass the "
                f"columns of {list(self.class_names)[:8]} in this order"
            )
        return P

    # --- how it is kept -----------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the rule as versioned JSON.

        Raises
        ------
        ValueError
            If a class name is no string or number, or the calibrator an object that is not confmax's.
        """
        return self._written(self.calibrator)

    def _written(self, calibrator: Calibrator | None) -> str:
        return _rule_file.dump(self.gains, self.weights, self.class_names, self.metric, self.seed, calibrator)

    @classmethod
    def from_json(cls, text: str | bytes) -> DecisionRule:
        """Return the rule in a JSON text.

        Raises
        ------
        ValueError
            If the text is not a rule of a known version, or anything in it is out of bounds.
        """
        return cls(*_rule_file.parse(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rule to a JSON file; the file appears whole or not at all."""
        _rule_file.write_whole(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DecisionRule:
        """Read a rule that `save` wrote.

        Raises
        ------
        ValueError
            If the file is not a rule, with the reason.
        OSError
            If it cannot be read.
        """
        try:
            return cls.from_json(_rule_file.read(Path(path)))
        except ValueError as error:
            raise ValueError(f"{path} is not a rule that can be used: {error}") from None

    def __eq__(self, other: object) -> bool:
        """Rules are equal when they are written alike."""
        if not isinstance(other, DecisionRule) or not _same(self.calibrator, other.calibrator):
            return False
        return self._written(None) == other._written(None)

    def __hash__(self) -> int:
        return hash(self._written(None))

    def __repr__(self) -> str:
        return _describe(self)


def _decide_part(rule: DecisionRule, part: Any) -> NDArray[np.int64]:
    try:
        return rule.predict(part.proba)
    except ValueError as error:
        raise ValueError(f"{part.name}: {error}") from None


def _same(one: Calibrator | None, other: Calibrator | None) -> bool:
    """Whether two calibrators are one; objects that are not confmax's are only themselves."""
    return one is other or (isinstance(one, (Temperature, VectorScaling)) and one == other)


def _printable(text: str, most: int = 40) -> str:
    """Return a name of a file from anywhere as one short line without control characters."""
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[: most + 1])
    return shown if len(text) <= most else shown[:most] + "..."


def _describe(rule: DecisionRule, most: int = 12) -> str:
    """Return a table of weights and offsets that a person can read."""
    kind = f"draws between {len(rule.weights)} rules" if rule.is_randomized else "deterministic"
    tuned = f" for {_printable(rule.metric)}" if rule.metric else ""
    lines = [f"DecisionRule{tuned}: {rule.n_classes} classes, {kind}"]
    if rule.calibrator is not None:
        own = isinstance(rule.calibrator, (Temperature, VectorScaling))
        lines.append(f"  calibrates p first: {rule.calibrator if own else _printable(type(rule.calibrator).__name__)}")
    if rule.gains.full is not None:
        shape = f"({rule.n_classes}, {rule.n_decisions})"
        return "\n".join([*lines, f"  decides the largest of {rule.n_decisions} scores p @ G, G {shape}"])
    a, b = rule.gains.coefficients()
    # the decision is unchanged by a common factor and a common offset
    scale = np.array([float(row[row != 0].min()) if (row != 0).any() else 1.0 for row in np.abs(a)])
    a, b = a / scale[:, None], (b - b.max(axis=1, keepdims=True)) / scale[:, None]
    offsets = bool(b.any())
    feature = ("p", "mean distance to the class", "mean squared distance to the class")[rule.gains.power]
    lines.append(f"  decides the largest of  weight * {feature}" + (" + offset" if offsets else ""))
    shown = min(len(rule.weights), 4)
    names = [_printable(str(name)) for name in rule.class_names[:most]]
    width = max(8, *map(len, names)) + 2
    if rule.is_randomized:
        lines.append(" " * width + "".join(f"{f'{w:.1%}':>{22 if offsets else 12}}" for w in rule.weights[:shown]))
    header = f"{'weight':>12}" + (f"{'offset':>10}" if offsets else "")
    lines.append(f"  {'class':<{width - 2}}" + header * shown)
    for k, name in enumerate(names):
        cells = "".join(f"{a[s, k]:>12.4g}" + (f"{b[s, k]:>10.4g}" if offsets else "") for s in range(shown))
        lines.append(f"  {name:<{width - 2}}{cells}")
    if rule.n_classes > most:
        lines.append(f"  ... {rule.n_classes - most} more classes")
    if len(rule.weights) > shown:
        lines.append(f"  ... {len(rule.weights) - shown} more rules in the mixture")
    return "\n".join(lines)
