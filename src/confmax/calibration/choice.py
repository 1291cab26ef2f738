"""Calibration: corrections of the probabilities, fitted on labels.

A rule is optimal for the probabilities that it is given, so calibrating them often gains more than any solver. Two
families are enough: a temperature, ``softmax(log p / T)``, and vector scaling, ``softmax(a_k log p_k + b_k)`` (Guo et
al., *On Calibration of Modern Neural Networks*, 2017). Both use ``p + floor``, which limits the effect of a confident
mistake. `choose` takes the simplest family whose log loss on held-out rows is within one standard error of the
smallest, and the rule stores the result.

The losses are those of left-out rows: one Newton step from the fit on all rows gives the fit without a row and its
copies (`left_out_losses`), so no folds are drawn. One row in another fold, or the last digit of a probability,
therefore cannot change the kind of calibration (`benchmarks.stability`). Five folds gave the same kind on 35 of 40 half
tables and no better values.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import scaling
from confmax.calibration.calibrators import Scaling, Temperature, VectorScaling
from confmax.calibration.newton import FULL, NO_SECOND
from confmax.confusion import Array
from confmax.tables import Calibrator, MemoryTable, Table, apply_calibrator
from confmax.tables.arrays import picked
from confmax.tables.draws import cross_fit, dealt, masks, row_draws
from confmax.tables.fingerprints import mixed

CHOICE_CELLS = 1 << 22  # what is cross-validated is a sample of at most this many entries of the table
KINDS = ("temperature", "vector")
FOLD_TOL = 1e-3  # nats of the total loss
FOLDS = 5
FLOOR_CELLS = 1 << 19  # the floor is chosen on a sample of at most this many entries of the table,
ROWS_PER_CLASS = 10  # but on at least this many rows per class


@dataclass(frozen=True)
class Calibration:
    """The result of `choose`.

    Attributes
    ----------
    kind : {"none", "temperature", "vector", "given"}
        "given" is a calibrator that you passed.
    calibrator : object or None
        The calibrator to apply; None if the probabilities stay unchanged.
    log_loss_before, log_loss_after : float or None
        Mean log loss in nats on all rows. The calibrator was fitted on these rows, so ``log_loss_after`` is optimistic.
    cv_log_loss : dict
        Log loss of each kind on rows that were left out of its fit; "none" stands for the raw probabilities. Empty if
        nothing was cross-validated: there were too few distinct rows, or you passed a fitted calibrator.
    """

    kind: str
    calibrator: Calibrator | None
    log_loss_before: float | None = None
    log_loss_after: float | None = None
    cv_log_loss: dict[str, float] = field(default_factory=dict)

    @property
    def cv_log_loss_before(self) -> float | None:
        """Log loss of the raw probabilities on the rows of the cross-validation."""
        return self.cv_log_loss.get("none")

    @property
    def cv_log_loss_after(self) -> float | None:
        """Log loss of the chosen kind on rows that were left out of its fit."""
        return self.cv_log_loss.get(self.kind)

    def __str__(self) -> str:
        if self.log_loss_before is None or self.log_loss_after is None:
            return f"calibration {self.kind}"
        text = f"calibration {self.kind}: log loss {self.log_loss_before:.4f}"
        if self.kind == "none":
            others = ", ".join(f"{kind} {loss:.4f}" for kind, loss in self.cv_log_loss.items() if kind != "none")
            return text + (f" (cross-validated: {others})" if others else "")
        text += f" -> {self.log_loss_after:.4f}"
        if self.cv_log_loss_after is None:
            return text
        return text + f" (cross-validated {self.cv_log_loss_before:.4f} -> {self.cv_log_loss_after:.4f})"


# --- fitting and choosing ---------------------------------------------------------------------------------------------


def fit(table: Table, kind: str) -> Temperature | VectorScaling:
    """Return the calibrator of a kind that minimises the penalised log loss on a labelled table.

    The penalty is a Gaussian prior of unit variance around the identity, on ``1 / T``, or on every ``a_k`` and ``b_k``.
    It counts as much as four rows at even odds. It keeps the fit finite for small samples, separable classes and
    classes without rows, and its effect fades with the number of rows. The floor is one of seven values from 1e-12 to
    0.01: the lowest, or the one with which a temperature fits best if that saves two nats. Weights are relative: they
    count as ``(sum w)^2 / sum w^2`` rows, whatever their unit.

    Parameters
    ----------
    table : Table
        From `make_table`, with labels.
    kind : {"temperature", "vector"}
        The family.

    Raises
    ------
    ValueError
        If the kind is unknown, or there are no labels.

    Examples
    --------
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]] * 50, [0, 1, 1] * 50)
    >>> fit(table, "temperature").temperature > 1.5  # one of three is wrong, where 13 % would be expected
    True
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    _need_labels(table.in_memory(), kind)
    rows, theta = _first_fit(labelled(table, 0), kind)
    return _calibrator(kind, theta, rows.floor)


def choose(table: Table, kind: Any = "auto", *, seed: int = 0) -> Calibration | None:
    """Return the calibration of a labelled table: of the kind asked for, or the simplest that is as good as any.

    "auto" compares no calibration, temperature and vector scaling by the log loss of held-out rows. Each row, with its
    copies of the same class, is evaluated by the fit without them, which one Newton step gives. "auto" takes the
    simplest kind whose mean loss exceeds the smallest by at most one standard error of the paired difference. No folds
    are drawn for this comparison, so it does not depend on a seed or on the last digit of a probability. With more than
    128 classes the fits leave out one of five folds instead; the folds are drawn from a hash of the rows' probabilities
    and the seed. With more than 4M entries the comparison uses a sample of rows, chosen by their hash. The chosen
    calibrator is always fitted on all rows.

    A sparse table is never calibrated. Its zeros are probabilities that were left out. A floor would turn them into a
    dense table of equal values, and the log loss of a row whose true class was left out has no meaning. Calibrate
    before you drop the small probabilities.

    Parameters
    ----------
    table : Table
        From `make_table`.
    kind : "auto", "temperature", "vector", object or None
        An object with ``fit(proba, y)`` and ``transform(proba)`` is copied and fitted. It gets column numbers as ``y``,
        and ``sample_weight`` if its ``fit`` has that parameter. A `Temperature` or `VectorScaling` is used without
        fitting.
    seed : int
        Seed of the folds.

    Returns
    -------
    Calibration or None
        The calibration, or None: if ``kind`` is None, and for "auto" without labels or on a sparse table.

    Raises
    ------
    ValueError
        If the kind is unknown, if it needs labels and there are none, or if its ``transform`` does not return
        probabilities.
    """
    check_calibration(kind)
    table, word = table.in_memory(), kind if isinstance(kind, str) else "given"
    if kind is None or (word == "auto" and (table.labels is None or table.is_truncated)):
        return None
    if table.is_truncated:
        raise ValueError(
            "a sparse table cannot be calibrated, because its zeros are probabilities that were left out; calibrate "
            "before you drop the small probabilities, or pass calibration=None"
        )
    before = log_loss(table)
    if isinstance(kind, Scaling):
        return Calibration("given", kind, before, log_loss(table.calibrated(kind)))
    _need_labels(table, kind)
    rows = labelled(table, seed)
    sample = rows.take(most_rows(rows.proba, CHOICE_CELLS))
    everything = np.ones(len(sample.labels), dtype=np.bool_)
    losses: dict[str, Array | None] = {"none": _losses(sample, None, everything)}
    starts: dict[str, tuple[Rows, Array]] = {}
    group = sample.copies()
    for name in KINDS if word == "auto" else (word,):
        if name == "given":
            losses[name] = _of_folds(sample, _on_others(sample, name, None, kind))
        else:
            starts[name] = _first_fit(sample, name)
            losses[name] = _left_out(*starts[name], name, group)
    known = {name: loss for name, loss in losses.items() if loss is not None}
    found = _simplest(known, sample, group) if word == "auto" else word
    # a single kind was compared with nothing, so its loss is not reported
    means = {name: float(np.average(loss, weights=sample.weight)) for name, loss in known.items() if len(known) > 1}
    if found == "none":
        return Calibration("none", None, before, before, means)
    if found == "given":
        calibrator: Any = _fit_object(kind, rows, slice(None))
    else:
        # only a sample leaves something to be done
        part, theta = starts[found]
        if sample is not rows:
            part = rows.at(part.floor)
            theta = _fitted(part, found, theta)
        calibrator = _calibrator(found, theta, part.floor)
    return Calibration(found, calibrator, before, log_loss(table.calibrated(calibrator)), means)


def held_out(table: Table, found: Calibration, *, seed: int = 0, given: Any = None) -> tuple[Table, NDArray[np.int64]]:
    """Return the rows that have weight, calibrated by fits on the other folds, and their folds (n,).

    With more than 4M entries, return a sample: the one on which `choose` compares the kinds.

    Parameters
    ----------
    table : Table
        The labelled table that `choose` got.
    found : Calibration
        The result of `choose`. Its kind is fitted again without each fold.
    seed : int
        Seed of the folds. The seed of `choose` gives the same folds.
    given : object or None
        The caller's calibration, if ``found.kind`` is "given".
    """
    rows = labelled(table, seed)
    rows = rows.take(most_rows(rows.proba, CHOICE_CELLS))
    rows = rows.at(getattr(found.calibrator, "floor", rows.floor)) if found.kind in KINDS else rows
    fold, out = rows.folds(), rows.proba.copy()
    start = None
    if isinstance(found.calibrator, Scaling):
        start = np.array(found.calibrator.parameters(out.shape[1]))
    refit = _on_others(rows, found.kind, start, given)
    # no fold changes a calibrator that was passed fitted
    is_fixed = found.kind == "none" or (found.kind == "given" and start is not None)

    # a fold that holds all rows leaves none to fit on
    def fitted(part: NDArray[np.bool_]) -> Any:
        return found.calibrator if is_fixed or part.all() else refit(part)

    for part, calibrator in cross_fit(fitted, masks(fold)):
        out[part] = apply_calibrator(calibrator, rows.proba[part])
    raw = table.dense("the fit of a calibration").with_rows(rows.proba, rows.labels, rows.weight)
    return replace(raw, proba=out, raw=raw), fold


def log_loss(table: Table) -> float | None:
    """Return the weighted mean log loss of a table in nats, or None if it has no labels.

    Probabilities below 1e-12 count as 1e-12.

    Parameters
    ----------
    table : Table
        From `confmax.oracle.make_table`.

    Examples
    --------
    >>> from confmax.calibration import log_loss
    >>> from confmax.oracle import make_table
    >>> round(log_loss(make_table([[0.5, 0.5], [0.5, 0.5]], [0, 1])), 6)
    0.693147
    """
    table = table.in_memory()
    if table.labels is None:
        return None
    return float(np.average(scaling.losses_of(table.probability_of(table.labels)), weights=table.weight))


def check_calibration(kind: Any) -> None:
    """Raise a ValueError unless ``kind`` is a known word, None, or an object with ``fit`` and ``transform``."""
    if kind is None or isinstance(kind, Scaling):
        return
    word = isinstance(kind, str) and kind in ("auto", *KINDS)
    methods = not isinstance(kind, (str, type)) and all(callable(getattr(kind, m, None)) for m in ("fit", "transform"))
    if not (word or methods):
        raise ValueError(
            f"calibration must be 'auto', None, 'temperature', 'vector' or an object with fit and transform; "
            f"got {kind!r}"
        )


# --- the rows that are fitted on --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rows(scaling.Sample):
    """Labelled rows that have weight, their weights in units of rows, and their folds.

    Weights are relative. They are scaled to sum to ``(sum w)^2 / sum w^2``, the number of equally weighted rows that
    say as much (Kish): the prior of the fit and the errors of the choice see that number of rows.
    """

    proba: NDArray[Any]
    hashes: NDArray[np.uint64]
    seed: int
    floor: float

    def folds(self) -> NDArray[np.int64]:
        """Return the fold of every row."""
        return dealt(self.labels, row_draws(self.hashes, self.seed), self.proba.shape[1], FOLDS)

    def copies(self) -> NDArray[np.intp]:
        """Return which rows (n,) are left out together, numbered from 0: those of a class that are equal.

        Copies of a row say the same, so that one is no test of a fit that has seen the other.
        """
        keys = self.hashes ^ mixed(self.labels.astype(np.uint64) + np.uint64(1))
        return np.asarray(np.unique(keys, return_inverse=True)[1].reshape(-1))

    def take(self, n_rows: int) -> Rows:
        """Return about ``n_rows`` rows: those with the smallest hashes."""
        if n_rows >= len(self.labels):
            return self
        kept = _smallest(self.hashes, n_rows)
        return replace(self, proba=self.proba[kept], labels=self.labels[kept], weight=self.weight[kept],
                       hashes=self.hashes[kept], z=self.z[kept])  # fmt: skip

    def at(self, floor: float) -> Rows:
        """Return the same rows with the logarithms over another floor."""
        return self if floor == self.floor else replace(self, z=scaling.log_table(self.proba, floor), floor=floor)


def labelled(table: Table, seed: int) -> Rows:
    """Return the rows of a labelled table, with folds by a seed."""
    table = table.dense("the fit of a calibration")
    # hashes of the probabilities in any order: an order of the columns must not move a row to another fold
    labels, hashes = table.labels, table.unordered_hashes()
    assert labels is not None
    P, weight = table.proba, np.ones(table.n_rows) if table.weight is None else table.weight
    if not weight.all():
        kept = weight > 0
        P, labels, weight, hashes = P[kept], labels[kept], weight[kept], hashes[kept]
    weight = weight / weight.max()  # no square overflows
    weight = weight * (weight.sum() / (weight * weight).sum())
    # the floor is chosen on a smaller sample than the kind, and by all folds together: it is one of seven numbers
    few = _smallest(hashes, most_rows(P, FLOOR_CELLS))
    floor = scaling.best_floor(P[few], labels[few], weight[few])
    return Rows(scaling.log_table(P, floor), labels, weight, P, hashes, seed, floor)


def most_rows(P: NDArray[Any], cells: int) -> int:
    """Return on how many rows a choice is made."""
    return min(len(P), max(cells // P.shape[1], ROWS_PER_CLASS * P.shape[1]))


def _smallest(hashes: NDArray[np.uint64], n_rows: int) -> NDArray[np.bool_]:
    """Return which rows (n,) have the smallest hashes: about ``n_rows``, equal rows all or none."""
    return np.asarray(hashes <= np.partition(hashes, n_rows - 1)[n_rows - 1])


# --- steps ------------------------------------------------------------------------------------------------------------


def _need_labels(table: MemoryTable, kind: Any) -> None:
    if table.labels is None:
        shown = repr(kind) if isinstance(kind, str) else type(kind).__name__
        raise ValueError(f"calibration={shown} is fitted on labels, but there are none; pass y, or calibration=None")


def _losses(rows: Rows, calibrator: Any, part: NDArray[np.bool_]) -> Array:
    """Return the log loss of the rows of a ``part`` under a calibrator, or of their raw probabilities."""
    if isinstance(calibrator, Scaling):
        return scaling.row_losses(rows, np.array(calibrator.parameters(rows.z.shape[1])), part)
    if calibrator is None:
        return scaling.losses_of(picked(rows.proba, rows.labels)[part])
    return scaling.losses_of(picked(apply_calibrator(calibrator, rows.proba[part]), rows.labels[part]))


def _fitted(
    rows: Rows, kind: str, start: Array | None = None, *, curvature: Array | None = None, tol: float = 1e-8
) -> Array:
    """Return the parameters (2, K) of a kind."""
    if kind == "vector" and start is not None:
        return scaling.fit_vector(rows, start, curvature=curvature, tol=tol)
    # the best temperature is near the best powers, and has one parameter to find
    power = scaling.fit_power(rows, 1.0 if start is None else float(start[0, 0]), tol=tol)
    common = scaling.one_power(power, rows.z.shape[1])
    return common if kind == "temperature" else scaling.fit_vector(rows, common)


def _first_fit(rows: Rows, kind: str) -> tuple[Rows, Array]:
    """Return the parameters (2, K) of a kind and the rows over the floor that suits it."""
    theta = _fitted(rows, kind)
    if kind == "temperature" or rows.floor == scaling.FLOOR:
        return rows, theta
    # the floor was chosen for a temperature; powers and offsets of each class may do without it
    low = rows.at(scaling.FLOOR)
    other = _fitted(low, kind)
    lowest = scaling.derivatives(low, other, NO_SECOND)[0]
    saved = lowest - scaling.derivatives(rows, theta, NO_SECOND)[0]
    return (rows, theta) if saved > scaling.FLOOR_WORTH else (low, other)


def _calibrator(kind: str, theta: Array, floor: float) -> Temperature | VectorScaling:
    if kind == "temperature":
        return Temperature(1.0 / float(theta[0, 0]), floor)
    return VectorScaling(theta[0], theta[1], floor)


def _on_others(rows: Rows, kind: str, start: Array | None, given: Any = None) -> Callable[[NDArray[np.bool_]], Any]:
    """Return what fits a calibrator on the rows outside of a part, from ``start`` (2, K), the fit on all rows."""
    if start is None:
        return lambda part: _fit_object(given, rows, ~part)
    # the Hessian of all rows is nearly that of four folds in five: every fold begins with it
    curvature = None
    if kind == "vector" and rows.z.shape[1] <= scaling.NEWTON_CLASSES:
        curvature = scaling.derivatives(rows, start, FULL)[2]

    def fitted(part: NDArray[np.bool_]) -> Temperature | VectorScaling:
        others = replace(rows, weight=rows.weight * ~part)
        return _calibrator(kind, _fitted(others, kind, start, curvature=curvature, tol=FOLD_TOL), rows.floor)

    return fitted


def _fit_object(given: Any, rows: Rows, use: NDArray[np.bool_] | slice) -> Any:
    """Fit a copy of the caller's object on the rows to ``use``."""
    own = copy.deepcopy(given)
    takes = "sample_weight" in inspect.signature(own.fit).parameters
    own.fit(rows.proba[use], rows.labels[use], **({"sample_weight": rows.weight[use]} if takes else {}))
    return own


def _of_folds(rows: Rows, fit: Callable[[NDArray[np.bool_]], Any]) -> Array | None:
    """Return every row's loss (n,) under what was fitted on the other folds; None where one fold holds all rows."""
    fold = rows.folds()
    if (fold == fold[0]).all():
        return None
    out = np.empty(len(fold))
    for part, calibrator in cross_fit(fit, masks(fold)):
        out[part] = _losses(rows, calibrator, part)
    return out


def _left_out(rows: Rows, theta: Array, kind: str, group: NDArray[np.intp]) -> Array | None:
    """Return every row's loss (n,) under the fit of a kind without its copies; None where all rows are copies.

    Of very many classes, whose fits have no Hessian, under the fits without one fold each."""
    if group.max() == 0:
        return None
    losses = scaling.left_out_losses(rows, theta, group, common=kind == "temperature")
    return losses if losses is not None else _of_folds(rows, _on_others(rows, kind, theta))


def _simplest(losses: dict[str, Array], rows: Rows, group: NDArray[np.intp]) -> str:
    """Return the first kind whose mean loss is within one standard error, of the paired difference, of the smallest.

    Rows of a ``group`` (n,) are copies and count together."""
    total = rows.weight.sum()
    means = {kind: float((rows.weight * loss).sum()) / total for kind, loss in losses.items()}
    best = min(means, key=lambda kind: means[kind])
    # `losses` lists the kinds from the simplest on: the first one that is as good as the best is chosen
    for kind in losses:
        worse = means[kind] - means[best]
        off = np.bincount(group, weights=rows.weight * (losses[kind] - losses[best] - worse))
        if worse <= np.sqrt(float((off * off).sum())) / total:
            return kind
    return best
