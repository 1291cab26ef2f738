"""What rules of several labels compete with: plain rules, and for each label its own threshold, found elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.metrics import labels as label_metrics
from confmax.optimize.estimate import Estimate
from confmax.optimize.label_thresholds import best_of_labels
from confmax.tables import Part, Table
from confmax.tables.decisions import Decisions, decisions_of
from confmax.tables.draws import folds_by_content, label_folds_to_judge
from confmax.tables.several import dense_table, dense_within

SEPARATE = "separate thresholds"
N_FOLDS = 5  # in which each label's own threshold is found
FOUND_ON = 1 << 17  # rows of a sample on which thresholds are found: ten seconds
WHAT = "the score of several labels"  # needs dense rows


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold of every row of a table, by its content.

    Rows that were dealt out have the ``fold`` (m,) of their ``hashes`` (m,), sorted. Where these are those of a sample,
    other rows have one by chance: nothing was found on them, and so they belong to any.
    """

    hashes: NDArray[np.uint64]
    fold: NDArray[np.int64]
    seed: int

    @classmethod
    def of(cls, rows: Part, fold: NDArray[np.int64], seed: int) -> Folds:
        """Return the folds of a table of which some ``rows``, or all of them, were dealt out to a ``fold`` (n,)."""
        hashes, first = np.unique(rows.unordered_hashes(), return_index=True)
        return cls(hashes, fold[first], seed)

    @property
    def n_folds(self) -> int:
        """How many there are."""
        return int(self.fold.max()) + 1

    def __call__(self, part: Part) -> NDArray[np.int64]:
        """Return the fold (n,) of every row of a ``part``."""
        words = part.unordered_hashes()
        place = np.minimum(np.searchsorted(self.hashes, words), len(self.hashes) - 1)
        others = folds_by_content(part, self.n_folds, self.seed)
        return np.where(self.hashes[place] == words, self.fold[place], others)


@dataclass(frozen=True, eq=False)
class Rivals:
    """Decides the rows of a part as they are decided without a rule for them, for ``kinds`` of decisions.

    ``prior`` (L,) is how often each label is true, None where nothing is divided by it. A row of fold k is decided by
    the thresholds ``cuts[k]`` (L,) too; None are none. ``n_found_on`` is the number of rows on which they were found.
    """

    kinds: tuple[Decisions, ...]
    prior: Array | None = None
    folds: Folds | None = None
    cuts: Array | None = None
    n_found_on: int = 0

    def __call__(self, part: Part) -> dict[str, Array]:
        """Return what competes (n, L), by name: plain rules, then thresholds."""
        found = plain_decisions(part, self.kinds, self.prior)
        if self.folds is None or self.cuts is None:
            return found
        P = dense_within(part.proba, WHAT)
        above = np.where(self.cuts[self.folds(part)] < P, P, 0.0)
        for one in self.kinds:
            if one.positive:
                name = SEPARATE if one.most is None else f"top-{one.most} of {SEPARATE}"
                found[name] = one.chosen(above).astype(np.float64)
        return found

    def names_on(self, table: Table) -> tuple[str, ...]:
        """Return the names of what competes on a ``table``, in order."""
        return tuple(self(table.head.take(np.arange(1))))


def label_rivals(table: Table, every: Sequence[Decisions], seed: int, folds: Folds | None = None) -> Rivals:
    """Return what competes with rules of ``every`` kind of decisions on a labelled ``table``.

    The usual way to tune finds of each label the threshold with the largest F1 on the labels, and of at most k labels
    takes the k most probable ones above theirs. Each row is decided by the thresholds of the other ``folds``, by
    default those of the rows' content and a ``seed``. There are none for exactly k labels, and where few rows differ.
    The thresholds of a table in parts are found on its sample: no row is decided by those that it helped to find.
    """
    plain = Rivals(tuple(every), table.label_weight())
    if not any(one.positive for one in every):
        return plain
    rows = dense_table(table.sample, WHAT).head
    if rows.n_rows < table.n_rows:
        # a sample, of which so many rows are enough, and dealing out more takes long
        rows = rows.sampled(min(1.0, FOUND_ON / table.n_rows))
    # rows of weight zero are as if they were not there
    rows = rows.of_weight()
    try:
        found = Folds.of(rows, label_folds_to_judge(rows, N_FOLDS, seed), seed) if folds is None else folds
    except ValueError:
        return plain
    cuts = _cuts(rows, found(rows), found.n_folds)
    return replace(plain, folds=found, cuts=cuts, n_found_on=rows.n_rows)


def _cuts(table: Part, fold: NDArray[np.int64], n_folds: int) -> Array:
    """Return the threshold (F, L) of every label with the largest F1 on the rows of the other folds, for every fold."""
    out = np.full((n_folds, table.n_classes), np.inf)
    for k, cuts in enumerate(out):
        others = table.take(fold != k)
        present = others.label_weight() > 0.0
        if present.any():
            f1 = replace(label_metrics.get("macro_f1"), classes=tuple(np.flatnonzero(present).tolist()))
            found = best_of_labels(f1, Estimate(Table.of(others), np.where(present, 0.0, 1.0)))
            cuts[:] = np.where(present, found.values, np.inf)
    return out


def plain_decisions(part: Part, every: Sequence[Decisions], prior: Array | None = None) -> dict[str, Array]:
    """Return what is decided (n, L) without tuning, by name, for ``every`` kind of decisions that rules make.

    Of any labels it is p > 0.5. Of k labels, or at most k, it is those with the largest p, and with a ``prior`` (L,),
    how often each label is true, also those with the largest p divided by it; of at most k also those with p > 0.5 of
    the largest.
    """
    P = dense_within(part.proba, WHAT).astype(np.float64)
    found: dict[str, Array] = {}
    for one in every:
        # rows of at most k labels may get all k, as the baselines of the tuning do
        exact = one if one.most is None else decisions_of(one.most)
        found[plain_name(exact)] = exact.chosen(P - 0.5 if exact.positive else P).astype(np.float64)
        if one != exact:
            found[plain_name(one)] = one.chosen(P - 0.5).astype(np.float64)
        if prior is not None and one.most is not None:
            scores = np.divide(P, prior, out=np.zeros(P.shape), where=prior > 0.0)
            found[f"{plain_name(exact)} of p/prior"] = exact.chosen(scores).astype(np.float64)
    return found


def plain_name(decisions: Decisions) -> str:
    """Return what the decisions without tuning are called.

    >>> from confmax.tables.decisions import ANY, decisions_of
    >>> plain_name(ANY), plain_name(decisions_of(3)), plain_name(decisions_of(("at_most", 3)))
    ('p > 0.5', 'top-3', 'top-3 of p > 0.5')
    """
    if decisions.most is None:
        return "p > 0.5"
    return f"top-{decisions.most}" + (" of p > 0.5" if decisions.positive else "")
