"""Calibration: corrections of the probabilities, fitted on labels.

A rule is optimal for the probabilities that it is given, so calibrating them often gains more than any solver. There
are three families: a temperature, ``softmax(log p / T)``, vector scaling, ``softmax(a_k log p_k + b_k)``, and matrix
scaling, ``softmax(W log p + b)`` (Guo et al., *On Calibration of Modern Neural Networks*, 2017). All use ``p + floor``,
which limits the effect of a confident mistake. `choose` takes the simplest family whose log loss on held-out rows is
within one standard error of the smallest, and the rule stores the result.

The losses are those of left-out rows (`choose`). In a matrix of small tables a row changes so much that one Newton step
is too optimistic: five folds compare it with the simpler kinds, and hardly depend on last digits (`Rows.steady_folds`).
"""

from __future__ import annotations

import copy
import inspect
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import families, scaling
from confmax.calibration.calibrators import Scaling
from confmax.calibration.families import Fit, Rows
from confmax.confusion import Array
from confmax.tables import Calibrator, Part, Table, apply_calibrator
from confmax.tables.draws import cross_fit, masks


@dataclass(frozen=True)
class Calibration:
    """The result of `choose`.

    Attributes
    ----------
    kind : {"none", "temperature", "vector", "matrix", "given"}
        "given" is a calibrator that you passed.
    calibrator : object or None
        The calibrator to apply; None if the probabilities stay unchanged.
    log_loss_before, log_loss_after : float or None
        Mean log loss in nats on all rows. The calibrator was fitted on these rows, so ``log_loss_after`` is optimistic.
    cv_log_loss : dict
        Log loss of each kind on rows that were left out of its fit; "none" stands for the raw probabilities. Empty if
        nothing was cross-validated: there were too few distinct rows, or you passed a fitted calibrator.
    strength : float or None
        Precision of the prior on powers of other classes, in 1 / nat^2, where the kind is "matrix".
    for_counts : object or None
        The calibrator that was fitted for all classes, where ``calibrator`` leaves a class its probability or is None,
        because a rule reads the order of the rows alone. What is true of rows is expected by it.
    shares : dict
        Shares of the model in blends that were measured with it, by what tells the rows from others, and the seed.
    """

    kind: str
    calibrator: Calibrator | None
    log_loss_before: float | None = None
    log_loss_after: float | None = None
    cv_log_loss: dict[str, float] = field(default_factory=dict)
    strength: float | None = None
    for_counts: Calibrator | None = None
    shares: dict[tuple[Any, int], float] = field(default_factory=dict, init=False, repr=False, compare=False)

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


def fit(table: Table, kind: str) -> Scaling:
    """Return the calibrator of a kind that minimises the penalised log loss on a labelled table.

    The penalty is a Gaussian prior of unit variance around the identity, on ``1 / T``, or on every ``a_k`` (the
    diagonal of W) and ``b_k``. It counts as much as four rows at even odds. It keeps the fit finite for small samples,
    separable classes and classes without rows, and its effect fades with the number of rows. The prior of the other
    entries of W has the precision 3, 30 or 300, whichever has the least log loss on five folds of a sample of at most
    2^19 entries. Of a class of n rows precisions are 1 + 10 / n times as large, and those of the other entries of W
    1 + 100 / n times, by the smaller of both classes. No class becomes less likely as its own probability grows: powers
    are not negative, the diagonal of W holds the largest entry of every column, and without the column of a class the
    row of this class has the least sum.

    The floor is one of nine values from 1e-12 to 0.1: the lowest, or the one with which a temperature fits best if
    that saves two nats. Weights are relative: they count as ``(sum w)^2 / sum w^2`` rows, whatever their unit.

    Parameters
    ----------
    table : Table
        From `make_table`, with labels.
    kind : {"temperature", "vector", "matrix"}
        The family; a matrix for at most 100 classes.

    Raises
    ------
    ValueError
        If the kind is unknown, there are no labels, or too many classes for a matrix.

    Examples
    --------
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]] * 50, [0, 1, 1] * 50)
    >>> fit(table, "temperature").temperature > 1.5  # one of three is wrong, where 13 % would be expected
    True
    """
    if kind not in families.KINDS:
        raise ValueError(f"kind must be one of {', '.join(families.KINDS)}; got {kind!r}")
    _need_labels(table.head, kind)
    return families.first_fit(families.labelled(table, 0), kind).calibrator


def choose(table: Table, kind: Any = "auto", *, seed: int = 0) -> Calibration | None:
    """Return the calibration of a labelled table: of the kind asked for, or the simplest that is as good as any.

    "auto" compares no calibration, temperature and vector scaling by the log loss of held-out rows. Each row, with its
    copies of the same class, is evaluated by the fit without them, which one Newton step gives. "auto" takes the
    simplest kind whose mean loss exceeds the smallest by at most one standard error of the paired difference. Raw
    probabilities are no candidate where the class of a row has the probability zero, as their loss is infinite. No
    folds are drawn for this comparison, so it does not depend on a seed or on the last digit of a probability. With
    more than 128 classes the fits leave out one of five folds instead; the folds are drawn from a hash of the rows'
    probabilities and the seed. With 3 to 20 classes, this kind is then compared with matrix scaling on five folds that
    depend on no seed, and kept unless its loss is larger by more than one standard error. A matrix is not tried on
    fewer than 100 rows, whose folds tell too little of so many numbers; weights count as ``(sum w)^2 / sum w^2`` rows.
    From 50,000 rows or 4M entries on, the comparison uses a sample of rows, chosen by their hash, with small classes
    whole. The chosen calibrator is always fitted on all rows, and losses are those that such a fit would have.

    A sparse table is never calibrated. Its zeros are probabilities that were left out. A floor would turn them into a
    dense table of equal values, and the log loss of a row whose true class was left out has no meaning. Calibrate
    before you drop the small probabilities.

    Parameters
    ----------
    table : Table
        From `make_table`.
    kind : "auto", "temperature", "vector", "matrix", object or None
        An object with ``fit(proba, y)`` and ``transform(proba)`` is copied and fitted. It gets column numbers as ``y``,
        and ``sample_weight`` if its ``fit`` has that parameter. A `Scaling` of confmax, such as a `Temperature`,
        is used without fitting. A `Calibration` that was chosen for the same rows before is returned as it is.
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
    if isinstance(kind, Calibration):
        return kind
    rows = table.head
    word = kind if isinstance(kind, str) else "given"
    if kind is None or (word == "auto" and (rows.labels is None or table.is_truncated)):
        return None
    if table.is_truncated:
        raise ValueError(
            "a sparse table cannot be calibrated, because its zeros are probabilities that were left out; calibrate "
            "before you drop the small probabilities, or pass calibration=None"
        )
    p = None if rows.labels is None else rows.probability_of(rows.labels)
    before = None if p is None else _mean_loss(rows, p)
    if isinstance(kind, Scaling):
        return Calibration("given", kind, before, log_loss(table.calibrated(kind)))
    _need_labels(rows, kind)
    compared = sample = families.labelled(table, seed, most=families.rows_to_compare(table), by_class=True)
    if word == "matrix" and table.n_classes not in families.TRIED_CLASSES:
        # nothing is compared: losses of the sample that the strength is chosen on are enough to report
        sample = compared.few()
    if word == "given":
        return _given(table, kind, sample, before)
    if word == "auto":
        assert p is not None
        # the loss of a class of probability zero is infinite; cut at 27.6 nats, few such rows would make its standard
        # error so large that raw probabilities pass
        zeros = bool(p[rows.weighted].min() == 0.0)
        found, fits, means = _compared(sample, zeros)
    else:
        found = word
        fits = {word: families.first_fit(sample, word)}
        losses = fits[word].left_out(sample.copies())
        means = {} if losses is None else _means({"none": _raw(sample), word: losses}, sample)
    if found == "none":
        return Calibration("none", None, before, before, means)
    best = fits[found]
    if compared.part < 1.0 or sample is not compared:
        # only a sample leaves something to be done
        every = families.labelled(table, seed, best.rows.floor)
        if found == "matrix":
            # second derivatives of more rows, and nearer to the end, spare those of all rows
            best = best.again(every.few(), tol=families.CHOICE_TOL, curvature=best.curvature)
        best = best.again(every, tol=families.ALL_TOL, curvature=best.curvature, slow=families.ALL_SLOW)
    calibrator = best.calibrator
    after = log_loss(table.calibrated(calibrator))
    return Calibration(found, calibrator, before, after, means, best.strength if found == "matrix" else None)


def held_out(table: Table, found: Calibration, *, seed: int = 0, given: Any = None, few: bool = False) -> Table:
    """Return the rows that have weight, calibrated by fits on the other folds.

    The kind that `choose` ``found`` on this table is fitted again without each fold; the seed of `choose` gives the
    same folds. With more than 4M entries, a random sample is returned. Where ``few`` rows are enough, one as large as
    that on which `choose` compares the kinds is, with 50,000 rows at least where nothing is calibrated. ``given`` is
    the caller's calibration, if ``found.kind`` is "given"; one that is ``found`` itself holds the object to fit.
    """
    scaled = found.calibrator if isinstance(found.calibrator, Scaling) else None
    floor = scaling.FLOOR if scaled is None else scaled.floor
    most = families.rows_to_compare(table) if few else None
    if most is not None and found.kind == "none":
        # without fits, rows cost little, and a share of few rows would be chance
        most = max(most, families.LARGE)
    rows = families.labelled(table, seed, floor, most=most or families.rows_of(families.CHOICE_CELLS, table.n_classes))
    again = None
    if found.kind in families.KINDS and scaled is not None:
        again = Fit.of(scaled, rows, found.strength or math.inf).on_others()

    def fitted(part: NDArray[np.bool_]) -> Any:
        # a fold that holds all rows leaves none to fit on
        if part.all():
            return found.calibrator
        if again is not None and scaled is not None:
            return again(part).keeping(scaled.kept)
        return _fit_object(found.calibrator if given is found else given, rows, ~part)

    if again is None and (found.kind == "none" or scaled is not None):
        # no fold changes what is not fitted
        out = np.ascontiguousarray(apply_calibrator(found.calibrator, rows.proba))
    else:
        out = rows.proba.copy()
        for part, calibrator in cross_fit(fitted, masks(rows.folds())):
            out[part] = apply_calibrator(calibrator, rows.proba[part])
    given_rows = table.head.dense("the fit of a calibration")
    raw = given_rows.with_rows(rows.proba, rows.labels, rows.weight)
    groups = None if given_rows.groups is None else given_rows.groups.take(rows.place)
    return Table.of(replace(raw, proba=out, raw=raw, groups=groups))


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
    rows = table.head
    return None if rows.labels is None else _mean_loss(rows, rows.probability_of(rows.labels))


def _mean_loss(rows: Part, p: NDArray[Any]) -> float:
    """Return the log loss of rows that give their classes the probabilities ``p`` (n,)."""
    return float(np.average(scaling.losses_of(p), weights=rows.weight))


def check_calibration(kind: Any) -> None:
    """Raise a ValueError unless ``kind`` is a known word, None, or an object with ``fit`` and ``transform``."""
    if kind is None or isinstance(kind, (Scaling, Calibration)):
        return
    word = isinstance(kind, str) and kind in ("auto", *families.KINDS)
    methods = not isinstance(kind, (str, type)) and all(callable(getattr(kind, m, None)) for m in ("fit", "transform"))
    if not (word or methods):
        raise ValueError(
            f"calibration must be 'auto', None, 'temperature', 'vector', 'matrix' or an object with fit and transform; "
            f"got {kind!r}"
        )


def _need_labels(rows: Part, kind: Any) -> None:
    if rows.labels is None:
        shown = repr(kind) if isinstance(kind, str) else type(kind).__name__
        raise ValueError(f"calibration={shown} is fitted on labels, but there are none; pass y, or calibration=None")


def _compared(sample: Rows, zeros: bool) -> tuple[str, dict[str, Fit], dict[str, float]]:
    """Return the kind that "auto" takes, the fits of all kinds and the means of their losses.

    ``zeros`` says whether some row gives its class the probability zero.
    """
    losses: dict[str, Array | None] = {"none": _raw(sample)}
    copies = sample.copies()
    fits = {}
    for kind in ("temperature", "vector"):
        fits[kind] = families.first_fit(sample, kind)
        losses[kind] = fits[kind].left_out(copies)
    known = {kind: loss for kind, loss in losses.items() if loss is not None}
    possible = {kind: loss for kind, loss in known.items() if kind != "none" or not zeros}
    found = _simplest(possible or known, sample, copies)
    if sample.proba.shape[1] in families.TRIED_CLASSES and float(sample.weight.sum()) >= families.LEAST_ROWS:
        fits["matrix"] = families.first_fit(sample, "matrix", fits["vector"])
        by_matrix = fits["matrix"].left_out(copies)
        # a row changes much in a fit of so many numbers: both kinds are compared by the same folds
        simpler = known["none"] if found == "none" else fits[found].of_steady_folds()
        if by_matrix is not None and simpler is not None:
            known["matrix"] = by_matrix
            found = _simplest({found: simpler, "matrix": by_matrix}, sample, copies)
    return found, fits, _means(known, sample)


def _raw(sample: Rows) -> Array:
    """Return the losses (n,) of the raw probabilities."""
    return families.losses_under(sample, None, np.ones(len(sample.labels), dtype=np.bool_))


def _means(losses: dict[str, Array], rows: Rows) -> dict[str, float]:
    """Return the mean losses; nothing of a single kind, which was compared with nothing."""
    return {name: float(np.average(loss, weights=rows.weight)) for name, loss in losses.items() if len(losses) > 1}


def _given(table: Table, given: Any, sample: Rows, before: float | None) -> Calibration:
    """Return the calibration by a copy of the caller's object, which is compared on a sample and fitted on all rows."""
    rows = sample if sample.part == 1.0 else families.labelled(table, sample.seed, sample.floor)
    losses = {
        "none": _raw(sample),
        "given": families.of_folds(sample, lambda part: _fit_object(given, sample, ~part), sample.folds()),
    }
    calibrator = _fit_object(given, rows, slice(None))
    known = {name: loss for name, loss in losses.items() if loss is not None}
    return Calibration("given", calibrator, before, log_loss(table.calibrated(calibrator)), _means(known, sample))


def _fit_object(given: Any, rows: Rows, use: NDArray[np.bool_] | slice) -> Any:
    """Fit a copy of the caller's object on the rows to ``use``."""
    own = copy.deepcopy(given)
    takes = "sample_weight" in inspect.signature(own.fit).parameters
    own.fit(rows.proba[use], rows.labels[use], **({"sample_weight": rows.weight[use]} if takes else {}))
    return own


def _simplest(losses: dict[str, Array], rows: Rows, copies: NDArray[np.intp]) -> str:
    """Return the first kind whose mean loss is within one standard error, of the paired difference, of the smallest.

    Rows of one number among ``copies`` (n,) count together."""
    total = rows.weight.sum()
    means = {kind: float((rows.weight * loss).sum()) / total for kind, loss in losses.items()}
    best = min(means, key=lambda kind: means[kind])
    # `losses` lists the kinds from the simplest on: the first one that is as good as the best is chosen
    for kind in losses:
        worse = means[kind] - means[best]
        off = np.bincount(copies, weights=rows.weight * (losses[kind] - losses[best] - worse))
        if worse <= np.sqrt(float((off * off).sum())) / total:
            return kind
    return best
