"""Arrays in host memory, and everything that NumPy turns into one: lists and frames of pandas, Polars and Arrow."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Confusion, Gains
from confmax.tables import arrays
from confmax.tables.array.oracle import decide, decide_drawn, decide_unchecked, scan
from confmax.tables.decisions import Decisions
from confmax.tables.draws import coefficients, given_keys
from confmax.tables.fingerprints import unordered_hashes
from confmax.tables.frames import column_names, holds_lists, in_class_order, rows_of_lists, without_columns
from confmax.tables.kinds import Beside, Converted, Rule, register
from confmax.tables.memory import MemoryKind, warn_of_duplicates
from confmax.tables.part import Part
from confmax.tables.precision import features, is_wide
from confmax.tables.storage import Calibrator, Checked


@final
class Arrays(MemoryKind):
    """Rows in a C-contiguous array of float32 or float64."""

    backend = "array"

    def check(self, proba: Any, *, order: Any = None, hashed: bool = False) -> Checked:
        """Return given probabilities as checked rows; hashes are computed in the pass of the check."""
        P = arrays.as_array(proba, order=order)
        limits = arrays.row_limits(P)
        hashes = np.empty(len(P), dtype=np.uint64) if hashed else None
        totals, broken = arrays.check_rows(P, limits, hashes)
        # the compiled pass says only that some row is bad; which one, and why, takes a slower look
        if broken[:3].any():
            arrays.refuse_rows(P)
        if not broken[3]:
            # rows that stay as they are get their unordered hashes when somebody needs them
            return Checked(self, P, totals, hashes)
        divided = arrays.normalised(P, limits[1])
        unordered = unordered_hashes(P) if hashed else None
        # division changes the sums of the columns; the hashes stay those of the rows as they were given
        return Checked(self, divided, arrays.check_rows(divided)[0], hashes, unordered)

    def given_hashes(self, proba: Any) -> NDArray[np.uint64]:
        return self.hashes(arrays.as_array(proba))

    def host(self, values: Any) -> NDArray[Any]:
        return np.asarray(values)

    def calibrated(self, calibrator: Calibrator, proba: NDArray[Any]) -> Checked:
        """Return what a calibrator makes of the rows, in the same dtype."""
        out = self.transformed(calibrator, proba)
        if out.proba.dtype == proba.dtype:
            return out
        P = out.proba.astype(proba.dtype)
        return Checked(self, P, arrays.check_rows(P)[0])

    def hashes(self, proba: NDArray[Any], *, ordered: bool = True) -> NDArray[np.uint64]:
        if not ordered:
            return unordered_hashes(proba)
        hashes = np.empty(len(proba), dtype=np.uint64)
        arrays.check_rows(proba, hashes=hashes)
        return hashes

    def rows(self, proba: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
        """Return the chosen rows; those that are named by their indices lie far apart."""
        far = isinstance(chosen, np.ndarray) and chosen.dtype == np.intp
        return arrays.gathered(proba, chosen) if far else proba[chosen]

    def dense(self, proba: NDArray[Any], what: str) -> Checked:
        return Checked(self, proba)

    def column_sums(self, proba: NDArray[Any], weight: Array | None, *, spread: bool) -> Array:
        P = proba.astype(np.float64) * (1.0 - proba) if spread else proba
        return arrays.check_rows(P)[0] if weight is None else arrays.weighted_totals(P, weight)

    def probability_of(self, proba: NDArray[Any], decision: NDArray[Any]) -> NDArray[Any]:
        return arrays.picked(proba, decision)

    def decide(self, proba: NDArray[Any], gains: Gains) -> NDArray[Any]:
        return decide(proba, gains)

    def drawn(self, proba: NDArray[Any], gains: Gains, weights: Array, seed: int, keys: Any) -> NDArray[np.int64]:
        if kernels.native is None or is_wide(gains, proba.dtype).any():
            return super().drawn(proba, gains, weights, seed, keys)
        return decide_drawn(features(proba, gains.power), gains, weights, words=coefficients(seed), keys=keys)[0]

    def check_labels(self, proba: Any, *, order: Any = None) -> Checked:
        from confmax.tables.array.label_rows import checked_matrix

        return Checked(self, *checked_matrix(proba, order))

    def with_entries(self, proba: Any, change: Any) -> NDArray[Any]:
        return np.asarray(change(np.asarray(proba), slice(None)))

    def decide_labels(self, proba: NDArray[Any], gains: Gains, decisions: Decisions) -> NDArray[np.uint8]:
        from confmax.tables.array.labels import decide_labels

        return decide_labels(proba, gains, decisions)

    def scan(self, part: Part, gains: Gains, share: Any, *, matrix: bool, by: Part) -> Confusion:
        if part.several:
            from confmax.tables.array.labels import scan_labels

            return scan_labels(part, gains, share, matrix=matrix, by=by)
        if by is not part or kernels.native is None:
            return self.counted(part, gains, share, matrix=matrix, by=by)
        return scan(part, gains, share, matrix=matrix)

    def predict_index(self, rule: Rule, proba: Any, beside: Beside) -> NDArray[np.int64]:
        """Return the decisions (n,) of a rule, from one scan that checks the rows too where that is possible."""
        names = column_names(proba)
        if names is not None:
            # names are matched, and warned of, once
            proba = in_class_order(proba, rule.class_names[: rule.n_classes])
        decisions = None if rule.calibrator is not None else _decided_at_once(self, rule, proba, beside["keys"])
        return super().predict_index(rule, proba, beside) if decisions is None else decisions


def _decided_at_once(kind: Arrays, rule: Rule, proba: Any, keys: Any) -> NDArray[np.int64] | None:
    """Return decisions (n,) on rows that are checked in the scan which decides them.

    None where the check must speak first (other columns, rows that do not sum to one), where one scan in the table's
    dtype cannot decide (`is_wide`, and powers under a draw), and without the kernels.
    """
    if kernels.native is None:
        return None
    P = arrays.as_array(proba)
    gains = rule.gains
    if P.shape[1] != gains.n_classes or is_wide(gains, P.dtype).any():
        return None
    limits = arrays.row_limits(P)
    if not rule.is_randomized:
        decisions, refused = decide_unchecked(P, gains, limits)
        return None if refused else decisions[0]
    if gains.power:
        return None
    given = None if keys is None else given_keys(keys, P.shape[0])
    drawn, used, refused = decide_drawn(
        P, gains, rule.weights, words=coefficients(rule.seed), keys=given, limits=limits
    )
    if refused:
        return None
    if keys is None:
        warn_of_duplicates(Checked(kind, P), gains, used)
    return drawn


ARRAYS = Arrays()
register("array", lambda _: True, lambda: ARRAYS)
register("lists", holds_lists, lambda: Converted(rows_of_lists, without_columns))
