"""What all kinds in memory share: how a table is made of given values, and how a rule decides and draws on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import ABSENT, Array, Confusion, Gains
from confmax.errors import InputError
from confmax.kernels.softmax import scaled_rows
from confmax.tables.arrays import checked_weight
from confmax.tables.columns import arranged, in_names, order_of, warn, which_label
from confmax.tables.decisions import Decisions
from confmax.tables.draws import given_keys, uniform
from confmax.tables.frames import column_names, narrowed, text_columns, without_columns
from confmax.tables.kinds import Beside, Kind, LabelledRule, Rule, calibrated_rows, host_array, known, refuse_empty
from confmax.tables.labels import (
    distinct,
    encode_labels,
    log_loss,
    plain,
    refuse_better_order,
    refuse_other_rows,
    resolve_classes,
    vector,
)
from confmax.tables.part import Part
from confmax.tables.storage import Calibrator, Checked, Storage
from confmax.tables.table import Table

MOST_DECISIONS = 1 << 24  # that are in memory before they are counted
DUPLICATE_SHARE = 0.1
DUPLICATE_PARTS = 256  # a table of more rows than this squared is judged by the rows whose keys fall in one part


class MemoryKind(Kind, Storage):
    """A kind whose values are in memory: it is how its own rows are held."""

    in_memory = True

    @property
    @final
    def storage(self) -> Storage:
        return self

    @final
    def apart(
        self, proba: Any, beside: Beside, classes: Sequence[Any] | None, confusion: str
    ) -> tuple[Any, dict[str, Any]]:
        frame, given = without_columns(proba, beside)
        if classes is not None:
            return narrowed(frame, np.asarray(classes, dtype=object).reshape(-1).tolist()), given
        # who names the label has a table, of which other columns may be part
        if isinstance(beside["y"], str) and given["y"] is not beside["y"]:
            labels = np.asarray(given["y"])
            # probabilities of several labels, which are lists of names, do not sum to one
            if labels.ndim == 1 and not any(isinstance(one, (list, np.ndarray)) for one in labels[:1]):
                frame = narrowed(frame, distinct(labels), labels=True)
        return frame, given

    @final
    def table(self, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        refuse_empty(proba)
        y = beside["y"]
        sample_weight = beside["sample_weight"]
        # the index of a frame is lost once it is an array, so its order is compared first
        refuse_other_rows(proba, sample_weight, "sample_weight")
        labels = None if y is None else vector(y, "y", "one label")
        found = arranged(column_names(proba), classes, labels, stated=stated)
        # rows are hashed as they were given: a division by their sums changes neither samples nor folds
        try:
            checked = self.check(proba, order=found.order, hashed=True)
        except InputError as error:
            texts = [] if labels is not None else text_columns(proba)
            if texts:
                raise which_label("`proba`", texts, "and drop all others") from None
            # a note says that no column is named like a class
            unnamed = distinct(labels) if found.note and labels is not None else ()
            raise in_names(error, column_names(proba), unnamed, found.order) from None
        n, K = checked.proba.shape
        resolved = resolve_classes(found.classes, labels, K)
        coded = None if labels is None else encode_labels(labels, resolved, n)
        if coded is not None:
            held = checked.storage
            refuse_better_order(proba, y, lambda rows: log_loss(held.probability_of(checked.proba, coded[rows])))
        warn(found.note)
        weight = None if sample_weight is None else checked_weight(sample_weight, n)
        groups = None
        if beside.get("group") is not None:
            from confmax.tables.groups import Groups

            groups = Groups.of(beside["group"], n, proba=proba)
        return Table.of(Part(**vars(checked), labels=coded, weight=weight, classes=resolved, groups=groups))

    @final
    def decision_probabilities(self, rule: Rule, proba: Any, beside: Beside) -> Any:
        found = calibrated_rows(rule.calibrator, rule.checked(proba))
        return found.storage.probabilities(found.proba, rule.gains, rule.weights)

    def predict_index(self, rule: Rule, proba: Any, beside: Beside) -> Any:
        """Return the decisions (n,) of a rule on given probabilities, which are checked first, where the rows are.

        Without keys a row's hash is its key, and a warning says where many rows share theirs.
        """
        P = rule.checked(proba)
        keys = beside["keys"]
        used = None
        if rule.is_randomized:
            # rows without keys draw by what was given, before they were divided by their sums and calibrated
            used = self.given_hashes(proba) if keys is None else given_keys(keys, P.shape[0])
        found = calibrated_rows(rule.calibrator, P)
        if used is None:
            return found.storage.decide_one(found.proba, rule.gains)
        decisions = found.storage.drawn(found.proba, rule.gains, rule.weights, rule.seed, used)
        if keys is None:
            warn_of_duplicates(found, rule.gains, host_array(used).view(np.uint64))
        return decisions

    def check_labels(self, proba: Any, *, order: Sequence[int] | None = None) -> Checked:
        """Return given probabilities of labels as checked rows: those of an array, if a kind has no way of its own."""
        rows = self.host(proba)
        return known(rows)[0].check_labels(rows, order=order)

    def with_entries(self, proba: Any, change: Callable[[NDArray[Any], Any], NDArray[Any]]) -> Any:
        found = self.dense(proba, "several labels per row")
        return found.storage.with_entries(found.proba, change)

    def decide_labels(self, proba: Any, gains: Gains, decisions: Decisions) -> Any:
        found = self.dense(proba, "several labels per row")
        return found.storage.decide_labels(found.proba, gains, decisions)

    @final
    def predict_labels(self, rule: LabelledRule, proba: Any, beside: Beside) -> Any:
        """Return which labels a rule gives each row of given probabilities (n, L), which are checked first."""
        P = rule.checked(proba)
        held = known(P)[0].storage
        if not rule.is_randomized:
            return self.as_given(proba, held.decide_labels(rule.calibrated(P), rule.gains, rule.decisions))
        keys = beside["keys"]
        drawn_by = held.hashes(P) if keys is None else given_keys(keys, P.shape[0])
        atom = np.searchsorted(np.cumsum(rule.weights)[:-1], uniform(rule.seed, host_array(drawn_by)), "right")
        rows = [np.flatnonzero(atom == k) for k in range(len(rule.gains))]
        parts = [
            held.decide_labels(rule.calibrated(held.rows(P, some)), rule.gains[k], rule.decisions)
            for k, some in enumerate(rows)
            if len(some)
        ]
        order = np.argsort(np.concatenate(rows), kind="stable")
        return self.as_given(proba, held.stacked(parts)[order])

    @final
    def label_probabilities(self, rule: LabelledRule, proba: Any) -> Any:
        P = rule.calibrated(rule.checked(proba))
        held = known(P)[0].storage
        every = [held.decide_labels(P, rule.gains[k], rule.decisions) for k in range(len(rule.gains))]
        return self.as_given(proba, held.averaged(every, rule.weights))

    def scaled(self, proba: Any, W: Array, b: Array, floor: float) -> Any:
        return scaled_rows(proba, W, b, floor)

    def columns(self, proba: Any, classes: Sequence[int]) -> Iterator[tuple[NDArray[Any], Any]]:
        return ((host_array(proba[:, k]), slice(None)) for k in classes)

    def named(self, names: NDArray[Any], decisions: Any) -> Any:
        return names.take(decisions)

    def drawn(self, proba: Any, gains: Gains, weights: Array, seed: int, keys: Any) -> Any:
        """Return the decisions (n,) of rows that are gathered by their atoms: `confmax.tables.draws` defines these."""
        atom = np.searchsorted(np.cumsum(weights)[:-1], uniform(seed, keys), "right")
        out = np.empty(len(atom), dtype=np.int64)
        for k in range(len(gains)):
            rows = np.flatnonzero(atom == k)
            if len(rows):
                out[rows] = self.decide(self.rows(proba, rows), gains[k])[0]
        return out

    def probabilities(self, proba: Any, gains: Gains, weights: Array) -> Any:
        out = np.zeros((proba.shape[0], gains.n_decisions))
        rows = np.arange(proba.shape[0])
        for weight, decision in zip(weights, self.decide(proba, gains), strict=True):
            out[rows, decision] += weight
        return out

    def counted(self, part: Part, gains: Gains, share: float, *, matrix: bool, by: Part) -> Confusion:
        """Return `scan`, of decisions that are made first: of other probabilities, or without kernels."""
        answers = []
        most = max(1, MOST_DECISIONS // part.n_rows)
        for low in range(0, len(gains), most):
            decisions = by.decide(gains[low : low + most])
            answers += [_tally(part, share, decision, gains.n_decisions, matrix=matrix) for decision in decisions]
        return Confusion.stack(answers)

    @final
    def transformed(self, calibrator: Calibrator, proba: Any) -> Checked:
        """Return what a calibrator that reads this kind makes of checked rows, checked in turn."""
        name = type(calibrator).__name__
        try:
            # a calibrator may be any object of the user, so what it returns is checked like given rows
            out = self.check(calibrator.transform(proba))
        except ValueError as error:
            raise ValueError(f"the calibration {name} does not give probabilities: {error}") from None
        if out.proba.shape != proba.shape:
            raise ValueError(
                f"the calibration {name} gave shape {tuple(out.proba.shape)} for proba of shape "
                f"{tuple(proba.shape)}; return the same shape"
            )
        return out


def checked_probabilities(proba: ArrayLike, classes: Sequence[Any] | None = None) -> NDArray[Any]:
    """Return probabilities as a float32 or float64 array (n, K) whose rows sum to one up to rounding.

    The columns of a frame are put in the order of ``classes`` by their names. A scipy.sparse matrix ``proba`` becomes a
    csr_array, a torch tensor stays one. ValueError for what are no probabilities.
    """
    kind, rows = known(proba)
    rows = rows if classes is None else narrowed(rows, classes)
    order = None if classes is None else order_of(column_names(rows), classes)
    return kind.check(rows, order=order).proba


def warn_of_duplicates(found: Checked, gains: Gains, keys: NDArray[np.uint64]) -> None:
    """Warn where rows that share their key, and so their draw, are a real share of the table.

    The share is taken over the rows whose keys fall in one part of all keys, which holds either all copies of a row
    or none; over all rows where that part is not of the size that different rows would fill.
    """
    n = len(keys)
    part = np.arange(n)
    if n > DUPLICATE_PARTS**2:
        few = np.flatnonzero(keys < np.uint64((1 << 64) // DUPLICATE_PARTS))
        part = few if n / 2 <= len(few) * DUPLICATE_PARTS <= 2 * n else part
    _, first, counts = np.unique(keys[part], return_index=True, return_counts=True)
    repeated = counts > 1
    if counts[repeated].sum() <= DUPLICATE_SHARE * len(part):
        return
    rows = part[first[repeated]]
    decisions = found.storage.decide(found.storage.rows(found.proba, rows), gains)
    # copies that all atoms decide alike lose nothing by a common draw
    random = (decisions != decisions[0]).any(axis=0)
    shared = float(counts[repeated][random].sum() / len(part))
    if shared > DUPLICATE_SHARE:
        warn(
            f"{shared:.0%} of the rows are duplicates of each other and get one common draw of the randomised rule; "
            f"pass `keys=`, an identifier per row, to draw for each row"
        )


def _tally(part: Part, share: float, decision: NDArray[Any], n_decisions: int, *, matrix: bool) -> Confusion:
    """Return the confusion of given decisions (n,), times the weight of the rows."""
    weight = part.weight
    K = part.n_classes
    columns = np.bincount(decision, weight, n_decisions).astype(np.float64)
    diagonal = np.zeros(K)
    full = np.zeros((K, n_decisions)) if matrix else None
    if share > 0.0:
        hit = part.probability_of(decision)
        diagonal += share * np.bincount(decision, hit if weight is None else weight * hit, n_decisions)[:K]
        if full is not None:
            full += share * part.storage.sums_by_decision(part.proba, weight, decision, n_decisions)
    if share < 1.0:
        labels = part.labels
        assert labels is not None
        right = decision == labels
        met = np.bincount(labels[right], None if weight is None else weight[right], K)
        diagonal += (1.0 - share) * met
        if full is not None:
            # one number for each pair: adding to the cells of a matrix is many times slower
            pairs = np.bincount(labels * n_decisions + decision, weight, full.size)
            full += (1.0 - share) * pairs.reshape(full.shape)
    return Confusion(np.zeros(K), diagonal, columns, full)


def refuse_too_few_classes(table: Table) -> NDArray[np.bool_]:
    """Return which classes of ``table`` carry weight (K,), by labels if there are any; ValueError for one alone."""
    share = table.label_weight() if table.has_labels else table.mean_probability()
    present = share > ABSENT
    if present.sum() < 2:
        only = table.classes[int(np.argmax(present))]
        source = "`y`" if table.has_labels else "`proba`"
        raise InputError(
            f"{source} has weight in one class only ({plain(only)!r}); at least two classes are needed to tune a rule"
        )
    return present


@contextmanager
def calibrating_once(table: Table) -> Iterator[None]:
    """Keep the rows of a ``table`` in memory under the last calibrator that they are read with.

    A search and its report read them alike. They take as much memory as the table, and are kept no longer.
    """
    raw = table.head.calibrated(None)
    raw.__dict__["_last_calibrated"] = ()
    try:
        yield
    finally:
        raw.__dict__.pop("_last_calibrated", None)
