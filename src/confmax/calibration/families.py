"""The families of calibrations: how each is fitted, and the losses of rows under the fit without them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import scaling
from confmax.calibration.calibrators import MatrixScaling, Scaling, Temperature, VectorScaling
from confmax.calibration.matrix import (
    MOST_CLASSES,
    NEWTON_CLASSES,
    SLOW,
    STRENGTHS,
    MatrixLoss,
    fit_matrix,
    matrix_losses,
)
from confmax.calibration.newton import FULL, NO_SECOND
from confmax.confusion import Array
from confmax.tables import Table, apply_calibrator
from confmax.tables.arrays import picked
from confmax.tables.draws import cross_fit, dealt, masks, row_draws
from confmax.tables.fingerprints import mixed, unordered_hashes

KINDS = ("temperature", "vector", "matrix")  # from the simplest on
TRIED_CLASSES = range(3, NEWTON_CLASSES + 1)  # for which "auto" tries a matrix
# Rows on which it does. Five folds of fewer rows tell too little: of 100 matrices that were chosen on samples of 4 to
# 99 rows of 17 tables, 91 raised the log loss of test rows, by .13 on average; of 112 on 100 to 1300 rows, 31 did, and
# the average fell by .026.
LEAST_ROWS = 100
ALL_TOL = 1e-5  # nats of the total loss before the last step, where a fit on a sample goes on with all rows,
ALL_SLOW = 0.9  # and keeps the second derivatives of the sample: those of all rows take as long as forty steps
FOLD_TOL = 1e-6  # nats, where fits leave out a fold,
CHOICE_TOL = 1e-2  # and where all that is read of them is whether a mean loss is within a standard error
FOLDS = 5
FEW_CELLS = 1 << 19  # floor and strength are chosen on a sample of at most this many entries of the table,
ROWS_PER_CLASS = 10  # but on at least this many rows per class
# From `LARGE` rows, or so many entries, on kinds are compared on a sample. To take the simpler of two kinds that differ
# by less than one standard error on m rows costs about 2 / m nats: a difference of g nats has about the standard error
# sqrt(2 g / m).
LARGE = 50_000
CHOICE_CELLS = 1 << 22
SAMPLE_CELLS = 200_000  # entries of the sample,
SAMPLE_ROWS = 10_000  # and its rows at least
COPIES_PARTS = 64  # of all hashes, of which one shows whether a real share of the rows have copies
CROWD_BITS = 16  # of a hash: where more rows agree in them
CROWD = 8.0  # standard deviations of chance, and this number, above the usual one, some row has many copies
WHOLE_CLASS = 300  # rows of a class that the sample takes all of; all classes together fill half of it so at most


@dataclass(frozen=True, eq=False)
class Rows(scaling.Sample):
    """Labelled rows that have weight, their weights in units of rows, and their folds.

    Weights are relative. They are scaled to sum to ``(sum w)^2 / sum w^2``, the number of equally weighted rows that
    say as much (Kish): the prior of the fit and the errors of the choice see that number of rows. ``place`` (n,) are
    their places in the table. ``part`` is how many rows these are of those that the chosen kind is fitted on.
    """

    proba: NDArray[Any]
    hashes: NDArray[np.uint64]
    place: NDArray[np.intp]
    seed: int
    floor: float
    part: float = 1.0

    def folds(self) -> NDArray[np.int64]:
        """Return the fold of every row."""
        return dealt(self.labels, row_draws(self.hashes, self.seed), self.proba.shape[1], FOLDS)

    def steady_folds(self) -> NDArray[np.int64]:
        """Return folds that depend on no seed, nor on the last digits of a probability: of its first eleven bits."""
        bits = np.ascontiguousarray(self.proba, np.float32).view(np.uint32)
        coarse = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
        return dealt(self.labels, row_draws(unordered_hashes(coarse), 0), self.proba.shape[1], FOLDS)

    def copies(self) -> NDArray[np.intp]:
        """Return which rows (n,) are left out together, numbered from 0: those of a class that are equal.

        Copies of a row say the same, so that one is no test of a fit that has seen the other.
        """
        keys = self.hashes ^ mixed(self.labels.astype(np.uint64) + np.uint64(1))
        return np.asarray(np.unique(keys, return_inverse=True)[1].reshape(-1))

    def take(self, n_rows: int) -> Rows:
        """Return about ``n_rows`` rows."""
        if n_rows >= len(self.labels):
            return self
        return self.only(_some(self.proba, self.labels, self.hashes, self.weight, n_rows))

    def only(self, kept: NDArray[Any]) -> Rows:
        """Return the rows of a mask (n,), or at places."""
        return replace(
            self,
            proba=self.proba[kept],
            labels=self.labels[kept],
            weight=self.weight[kept],
            hashes=self.hashes[kept],
            place=self.place[kept],
            z=self.z[kept],
        )

    def few(self) -> Rows:
        """Return the rows that floors and strengths are chosen on."""
        return self.take(most_rows(self.proba, FEW_CELLS))

    def at(self, floor: float) -> Rows:
        """Return the same rows with the logarithms over another floor."""
        return self if floor == self.floor else replace(self, z=scaling.log_table(self.proba, floor), floor=floor)


def labelled(
    table: Table, seed: int, floor: float | None = None, *, most: int | None = None, by_class: bool = False
) -> Rows:
    """Return the rows of a labelled table, with folds by a seed, over a floor or the one that suits a temperature.

    If there are more than ``most`` rows, these are a random sample of about so many. ``by_class``, small classes have
    more than their share of it, and every class weighs as much as in all rows.
    """
    rows = table.head.dense("the fit of a calibration")
    # hashes of the probabilities in any order: an order of the columns must not move a row to another fold
    labels = rows.labels
    hashes = rows.unordered_hashes()
    assert labels is not None
    P: Any = rows.proba
    K = P.shape[1]
    kept = rows.weighted
    place = np.arange(len(P))[kept]
    weight = rows.weights[kept]
    weight = _in_rows(weight / weight.max())  # no square overflows
    P, labels, hashes = P[kept], labels[kept], hashes[kept]
    part = 1.0
    if most is not None and most < len(P):
        total = weight.sum()
        of_class = _parts_of_classes(labels, K, most) if by_class else np.full(K, most / len(P))
        of_all = np.bincount(labels, weight, K)
        parts = of_class[labels]
        # rows of much weight are there, as they decide a fit
        mean = of_all / np.maximum(np.bincount(labels, minlength=K), 1)
        parts = np.minimum(parts * np.maximum(weight / mean[labels], 1.0), 1.0)
        chosen = _sampled(P, labels, hashes, weight, parts)
        P, labels, hashes, place = P[chosen], labels[chosen], hashes[chosen], place[chosen]
        weight = weight[chosen] / parts[chosen]
        if by_class:
            weight = weight * (of_all / np.maximum(np.bincount(labels, weight, K), scaling.TINY))[labels]
        weight = _in_rows(weight)
        part = min(1.0, float(weight.sum() / total))
    if floor is None:
        # the floor is chosen on a smaller sample than the kind, and by all folds together: it is one of nine numbers
        few = _some(P, labels, hashes, weight, most_rows(P, FEW_CELLS))
        floor = scaling.best_floor(P[few], labels[few], weight[few])
    return Rows(scaling.log_table(P, floor), labels, weight, P, hashes, place, seed, floor, part)


def _in_rows(weight: Array) -> Array:
    """Return weights (n,) in units of rows."""
    return weight * (weight.sum() / (weight * weight).sum())


def _parts_of_classes(labels: NDArray[np.int64], n_classes: int, most: int) -> Array:
    """Return the part (K,) of the rows of each class in a sample of about ``most`` rows; small classes are whole."""
    rows = np.maximum(np.bincount(labels, minlength=n_classes), 1)
    return np.minimum(np.maximum(min(WHOLE_CLASS, most // (2 * n_classes)) / rows, most / len(labels)), 1.0)


def _sampled(
    P: NDArray[Any], labels: NDArray[np.int64], hashes: NDArray[np.uint64], weight: Array, part: Array
) -> NDArray[np.intp]:
    """Return the places of a sample that holds a ``part`` (n,) of the rows that are like each row, copies included.

    The hash of a row decides, so that its place is no matter. Of its copies, as many are there as their part says: by
    hashes alone a sample would hold all of them or none.
    """
    # folds are drawn from hashes in another way, so that the sample says nothing of them
    draws = hashes * 2.0**-64
    chosen = part + draws >= 1.0
    some = _copies(hashes)
    if len(some):
        # rows whose entries are others in another order have the same hash, and what they say of their class differs
        keys = (weight[some], picked(P[some], labels[some]), hashes[some], labels[some])
        order = some[np.lexsort(keys)]
        ordered, of_class = hashes[order], labels[order]
        begins = np.append(True, (ordered[1:] != ordered[:-1]) | (of_class[1:] != of_class[:-1]))
        parts = part[order]
        until = np.cumsum(parts)
        # the parts of the copies before a row, and a number that its content draws
        before = until - parts - np.maximum.accumulate(np.where(begins, until - parts, 0.0)) + draws[order]
        chosen[order] = np.floor(before + parts) > np.floor(before)
    return np.flatnonzero(chosen)


def _copies(hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the places of rows that may have copies: all if a real share has, else those of very common content."""
    few = hashes[hashes < np.uint64((1 << 64) // COPIES_PARTS)]
    if len(np.unique(few)) < 0.98 * len(few):
        return np.arange(len(hashes))
    place = (hashes >> np.uint64(64 - CROWD_BITS)).astype(np.intp)
    usual = len(hashes) / (1 << CROWD_BITS)
    crowded = np.bincount(place, minlength=1 << CROWD_BITS) > usual + CROWD * (1.0 + math.sqrt(usual))
    return np.flatnonzero(crowded[place]) if crowded.any() else np.empty(0, np.intp)


def rows_to_compare(table: Table) -> int | None:
    """Return on about how many rows of a table kinds are compared; None if on all."""
    n, K = table.n_weighted, table.n_classes
    if n < LARGE and n * K <= CHOICE_CELLS:
        return None
    return max(rows_of(SAMPLE_CELLS, K), SAMPLE_ROWS)


def rows_of(cells: int, n_classes: int) -> int:
    """Return how many rows have so many entries, but enough rows per class."""
    return max(cells // n_classes, ROWS_PER_CLASS * n_classes)


def most_rows(P: NDArray[Any], cells: int) -> int:
    """Return on how many rows a choice is made."""
    return min(len(P), rows_of(cells, P.shape[1]))


def _some(
    P: NDArray[Any], labels: NDArray[np.int64], hashes: NDArray[np.uint64], weight: Array, n_rows: int
) -> NDArray[Any]:
    """Return the places, or a mask, of about ``n_rows``: the smallest hashes, or where rows have copies a sample."""
    if n_rows < len(hashes) and len(_copies(hashes)):
        return _sampled(P, labels, hashes, weight, np.full(len(hashes), n_rows / len(hashes)))
    return np.asarray(hashes <= np.partition(hashes, n_rows - 1)[n_rows - 1])


@dataclass(frozen=True, eq=False)
class Fit:
    """A family fitted on some rows, which are over the floor that suits it.

    ``theta`` holds powers and offsets (2, K); of a matrix its rows, each with the offset behind it (K, K + 1), and
    ``strength`` is the precision of the prior on its powers of other classes. ``losses`` (n,) are those of the rows
    under the fit without their fold, where they are known.
    """

    kind: str
    rows: Rows
    theta: Array
    strength: float = math.inf
    losses: Array | None = None

    @classmethod
    def of(cls, calibrator: Scaling, rows: Rows, strength: float) -> Fit:
        """Return what led to a calibrator that was fitted on all rows."""
        W, b = calibrator.parameters(rows.proba.shape[1])
        theta = np.c_[W, b] if W.ndim == 2 else np.array([W, b])
        return cls(calibrator.kind, rows.at(calibrator.floor), theta, strength)

    @property
    def calibrator(self) -> Scaling:
        """The result."""
        if self.kind == "temperature":
            return Temperature(1.0 / float(self.theta[0, 0]), self.rows.floor)
        if self.kind == "vector":
            return VectorScaling(self.theta[0], self.theta[1], self.rows.floor)
        return MatrixScaling(self.theta[:, :-1], self.theta[:, -1], self.rows.floor)

    def again(self, rows: Rows, *, tol: float = 1e-8, curvature: Array | None = None, slow: float = SLOW) -> Fit:
        """Return the fit on other rows over the same floor, beginning with this one."""
        K = rows.z.shape[1]
        if self.kind == "temperature":
            theta = scaling.one_power(scaling.fit_power(rows, float(self.theta[0, 0]), tol=tol), K)
        elif self.kind == "vector":
            near = None if curvature is None else curvature * rows.weight.sum() + scaling.prior(rows)
            theta = scaling.fit_vector(rows, self.theta, curvature=near, tol=tol)
        else:
            theta = fit_matrix(rows, self.strength, self.theta, curvature=curvature, tol=tol, slow=slow)
        return replace(self, rows=rows, theta=theta)

    @cached_property
    def curvature(self) -> Array | None:
        """What begins a fit on nearly the same rows: second derivatives of the mean loss without the prior.

        Those of a matrix are taken on a sample. None for a vector of too many classes.
        """
        K = self.rows.z.shape[1]
        if self.kind == "vector" and K <= scaling.NEWTON_CLASSES:
            of_rows = scaling.derivatives(self.rows, self.theta, FULL)[2] - scaling.prior(self.rows)
            return np.asarray(of_rows / self.rows.weight.sum())
        if self.kind == "matrix":
            return MatrixLoss(self.rows.few(), self.strength).curvature(self.theta)
        return None

    def on_others(
        self, curvature: Array | None = None, tol: float = FOLD_TOL
    ) -> Callable[[NDArray[np.bool_]], Scaling]:
        """Return what fits the family on the rows outside of a part, beginning with a ``curvature``."""
        # the Hessian of all rows is nearly that of four folds in five: every fold begins with it
        curvature = self.curvature if curvature is None else curvature

        def fitted(part: NDArray[np.bool_]) -> Scaling:
            others = replace(self.rows, weight=self.rows.weight * ~part)
            return self.again(others, tol=tol, curvature=curvature).calibrator

        return fitted

    def left_out(self, copies: NDArray[np.intp]) -> Array | None:
        """Return every row's loss (n,) under the fit without its copies; None where all rows are copies.

        One Newton step leads there from the fit on all rows, but for kinds with so many parameters that a row changes
        much: a matrix, and very many classes. Their losses are under the fits without one of five folds. Losses on a
        sample are those of `_of_all`.
        """
        if copies.max() == 0:
            return None
        if self.kind == "matrix":
            return self.of_steady_folds() if self.losses is None else self.losses
        losses = scaling.left_out_losses(self.rows, self.theta, copies, common=self.kind == "temperature")
        if losses is None:
            losses = of_folds(self.rows, self.on_others(), self.rows.folds())
        return self._of_all(losses)

    def of_steady_folds(self, curvature: Array | None = None) -> Array | None:
        """Return every row's loss (n,) under the fits without its fold; None where one fold holds all rows."""
        return self._of_all(of_folds(self.rows, self.on_others(curvature, CHOICE_TOL), self.rows.steady_folds()))

    def _of_all(self, losses: Array | None) -> Array | None:
        """Return what the ``losses`` (n,) of left-out rows are about under a fit on all rows, of which these are some.

        A fit of d parameters on m rows has a mean loss of about d / (2 m) nats more on other rows than the best
        parameters have, and as much less on its own rows. A fit on all n rows has d / (2 n) more.
        """
        part = self.rows.part
        if losses is None or part == 1.0:
            return losses
        inside = losses_under(self.rows, self.calibrator, np.ones(len(losses), dtype=np.bool_))
        return losses - 0.5 * (1.0 - part) * (losses - inside)


def first_fit(rows: Rows, kind: str, simpler: Fit | None = None) -> Fit:
    """Return the fit of a kind on the rows over the floor that suits it, from that of the ``simpler`` kind."""
    K = rows.z.shape[1]
    if kind == "temperature":
        return Fit(kind, rows, scaling.one_power(scaling.fit_power(rows), K))
    if kind == "vector":
        return _vector_fit(rows)
    if K > MOST_CLASSES:
        raise ValueError(
            f"calibration='matrix' has a power of every class for every class and is fitted for at most {MOST_CLASSES} "
            f"classes, and the table has {K}; use calibration='vector'"
        )
    vector = _vector_fit(rows) if simpler is None else simpler
    return _matrix_fit(vector)


def _matrix_fit(vector: Fit) -> Fit:
    """Return the matrix whose strength has the least loss on rows of other folds, from the fit of a vector."""
    rows = vector.rows
    few = vector.rows.few()
    theta = np.c_[np.diag(vector.theta[0]), vector.theta[1]]
    # the second derivatives of the rows' loss hardly depend on the strength
    curvature = Fit("matrix", few, theta).curvature
    best = None
    lowest = math.inf
    for strength in STRENGTHS:
        tried = Fit("matrix", few, theta, strength).again(few, tol=CHOICE_TOL, curvature=curvature)
        tried = replace(tried, losses=tried.of_steady_folds(curvature))
        mean = math.inf if tried.losses is None else float((few.weight * tried.losses).sum())
        if best is not None and mean >= lowest:
            # what a weaker prior lets in is noise from here on
            break
        best = tried
        lowest = mean
        theta = tried.theta
    assert best is not None
    if few is rows:
        return replace(best.again(rows, curvature=curvature), losses=best.losses)
    return replace(best, losses=None).again(rows, curvature=curvature)


def _vector_fit(rows: Rows) -> Fit:
    def fitted(rows: Rows) -> Fit:
        # the best temperature is near the best powers, and has one parameter to find
        common = scaling.one_power(scaling.fit_power(rows), rows.z.shape[1])
        return Fit("vector", rows, scaling.fit_vector(rows, common))

    found = fitted(rows)
    if rows.floor == scaling.FLOOR:
        return found
    # the floor was chosen for a temperature; powers and offsets of each class may do without it
    other = fitted(rows.at(scaling.FLOOR))
    lowest, chosen = (scaling.derivatives(one.rows, one.theta, NO_SECOND)[0] for one in (other, found))
    return found if lowest - chosen > scaling.FLOOR_WORTH else other


def of_folds(rows: Rows, fit: Callable[[NDArray[np.bool_]], Any], fold: NDArray[np.int64]) -> Array | None:
    """Return every row's loss (n,) under what was fitted on the other folds; None where one fold holds all rows."""
    if (fold == fold[0]).all():
        return None
    out = np.empty(len(fold))
    for part, calibrator in cross_fit(fit, masks(fold)):
        out[part] = losses_under(rows, calibrator, part)
    return out


def losses_under(rows: Rows, calibrator: Any, part: NDArray[np.bool_]) -> Array:
    """Return the log loss of the rows of a ``part`` under a calibrator, or of their raw probabilities."""
    if isinstance(calibrator, Scaling):
        W, b = calibrator.parameters(rows.z.shape[1])
        if W.ndim == 2:
            return matrix_losses(rows, np.c_[W, b], part)
        return scaling.row_losses(rows, np.array([W, b]), part)
    if calibrator is None:
        return scaling.losses_of(picked(rows.proba, rows.labels)[part])
    return scaling.losses_of(picked(apply_calibrator(calibrator, rows.proba[part]), rows.labels[part]))
