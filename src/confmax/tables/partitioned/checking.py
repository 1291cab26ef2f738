"""The first pass over the parts of a source: it checks the rows, adds up what they are, and takes a sample of them.

It is made when somebody asks for the first time: for what the rows add up to, for the sample, or for other work on the
parts, which is then done in the same pass. Rows that were found good are not checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.errors import InputError
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.tally import is_tallied, tally
from confmax.tables.decisions import ONE, Decisions
from confmax.tables.kinds import EMPTY
from confmax.tables.labels import encode_labels
from confmax.tables.part import CheckedPart, Part
from confmax.tables.partitioned.arrow import Columns
from confmax.tables.partitioned.parts import RawPart, Summary, given_labels, ordered, summary_of
from confmax.tables.table import InColumns, Memory, Parts, T


@dataclass(eq=False)
class CheckedSource:
    """The parts of a ``source``, which are checked by the first pass over them.

    ``check`` makes a `CheckedPart` of a part, given the ``fraction`` of its rows to choose for the sample, or zero for
    a part that was found good. ``wanted`` is the number of rows of the sample. ``classes`` and ``decisions`` are those
    of the table, and ``sizes`` (K,) the number of rows of each class, where it is known before the pass.
    """

    source: Any
    check: Callable[..., CheckedPart]
    wanted: int
    classes: tuple[Any, ...]
    decisions: Decisions = ONE
    sizes: NDArray[np.int64] | None = None
    held: Any = field(default=None, init=False)
    summary: Summary | None = field(default=None, init=False)

    is_truncated = False

    def __post_init__(self) -> None:
        source = self.source
        self.n_rows = int(source.n_rows)
        self.names: tuple[str, ...] = tuple(getattr(source, "names", None) or ())
        self.has_labels = bool(source.has_labels)
        # whether the source holds what is made of its parts
        self.holds = bool(source.holds)
        # sources of somebody else do not say whether rows differ in weight
        self.may_have_weights = getattr(source, "weight", "") is not None

    @property
    def fits(self) -> bool:
        """Whether the sample has all rows."""
        return self.n_rows <= self.wanted

    @property
    def unit(self) -> int:
        """The power of two that all weights are times; without weights no pass is needed to know it."""
        return self.known.unit if self.may_have_weights else 0

    @property
    def label_sums(self) -> Array:
        """The weight of each true class (K,); without weights no pass over the probabilities is needed to know it."""
        if self.sizes is None or self.may_have_weights:
            return self.known.label_sums
        return self.sizes.astype(np.float64)

    @property
    def known(self) -> Summary:
        """What all rows add up to, with their sample; ValueError for bad rows, no rows, or no weight."""
        if self.summary is None:
            for _ in self.run(_nothing):
                pass
        assert self.summary is not None
        return self.summary

    @property
    def sample(self) -> Part:
        """Rows that are chosen by what is in them, in an order that depends on nothing else."""
        (rows,) = self.known.sample
        return rows

    def run(self, work: Callable[[CheckedPart], T], in_columns: InColumns[T] | None = None) -> Iterator[T]:
        """Yield what ``work`` returns for every part; ``in_columns`` may do so faster in the pass that checks."""
        if self.held is not None:
            yield from self.held.run(work)
            return
        known: Summary | None = None
        for one, result in self._first(work, in_columns):
            if one is not None:
                known = one if known is None else known + one
            yield result
        if known is None:
            raise InputError(EMPTY)
        if known.weight_total <= 0:
            raise ValueError("the weights sum to zero; give usable weights")
        # the source itself sees to it that rows do not change
        again = self.wanted_part if self.holds or known.renormalised else 0.0
        self.held = self.checked if self.holds else self.source.kept(partial(self.check, fraction=again))
        self.source = None  # rows that are held as they were given can be let go
        sample = known.sample
        if known.n_weighted < known.n_rows and not self.fits:
            # rows of weight zero are as if they were not there; how many have weight is known after the first pass
            part = min(1.0, self.wanted / known.n_weighted)
            found = self.held.run(partial(_of_weight, fraction=part, unit=known.unit))
            sample = tuple(rows for rows in found if rows is not None)
        self.summary = replace(known, sample=(ordered(sample),))

    @property
    def wanted_part(self) -> float:
        """The fraction of the rows that are chosen for the sample."""
        return min(1.0, self.wanted / max(1, self.n_rows))

    def _first(
        self, work: Callable[[CheckedPart], T], in_columns: InColumns[T] | None
    ) -> Iterator[tuple[Summary | None, T]]:
        """Yield the summary of every part, None without rows, and what ``work`` makes of it, while it is checked."""
        check = partial(self.check, fraction=self.wanted_part)
        if in_columns is not None and hasattr(self.source, "in_columns"):
            counts = partial(in_columns, classes=self.classes, fraction=self.wanted_part)
            return self.source.in_columns().run(_InColumns(check, work, counts))
        self.checked = self.source.kept(check)
        return self.checked.run(partial(_both, work))

    def kept(self, step: Callable[[CheckedPart], CheckedPart]) -> Any:
        """Return the source of what ``step`` makes of each checked part."""
        _ = self.known
        return self.held.kept(step)

    def rows_where(self, mask: NDArray[np.bool_], names: Sequence[tuple[bytes, int]]) -> Parts:
        """Return the parts of the rows that a ``mask`` (n,) chooses; of none they are in memory.

        ``names`` are the `Part.name` of all parts that have weight. An InputError if two parts hold the same rows in
        the same order, and not the same of them are chosen.
        """
        n = int(mask.sum())
        if n == 0:
            return Memory(self.sample.take(np.empty(0, np.intp)))
        digests, sizes = zip(*names, strict=True)
        masks: dict[bytes, NDArray[np.uint8]] = {}
        for digest, part in zip(digests, np.split(mask, np.cumsum(sizes)[:-1]), strict=True):
            bits = np.packbits(part)
            if not np.array_equal(masks.setdefault(digest, bits), bits):
                raise InputError(
                    "two parts of `proba` hold the same rows, and no split of the rows can tell them apart",
                    "leave copies out, or join small parts",
                )
        return CheckedSource(_Chosen(self, n), partial(_chosen, masks=masks), self.wanted, self.classes)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """A source of checked ``parts``, of which some rows are chosen, so many in all."""

    parts: CheckedSource
    n_rows: int
    has_labels = True

    @property
    def holds(self) -> bool:
        return self.parts.holds

    def kept(self, step: Callable[[CheckedPart], CheckedPart]) -> Any:
        return self.parts.kept(step)


def _chosen(checked: CheckedPart, *, masks: Mapping[bytes, NDArray[np.uint8]], fraction: float) -> CheckedPart:
    """Return some rows of a part that has weight, by the packed mask of its name; ``fraction`` is for a sample.

    A ValueError for rows that no mask is of.
    """
    rows = checked.rows
    if rows is None or (rows.weight is not None and not rows.weight.any()):
        return CheckedPart(None, fraction)
    name, n = rows.name()
    if name not in masks:
        raise InputError(
            "the rows of `proba` came in another order than in the pass before", "write them to a file, and open that"
        )
    mask = np.unpackbits(masks[name], count=n).astype(np.bool_)
    return replace(checked, rows=rows.take(mask) if mask.any() else None, fraction=fraction)


def _nothing(_: CheckedPart) -> None:
    return None


def _of_weight(checked: CheckedPart, *, fraction: float, unit: int) -> Part | None:
    """Return a ``fraction`` of the rows of a part that have weight, chosen by what is in them; None where none has."""
    rows = checked.in_unit(unit).rows
    return rows.of_weight().sampled(fraction) if rows is not None and rows.weight_total else None


def _both(work: Callable[[CheckedPart], T], checked: CheckedPart) -> tuple[Summary | None, T]:
    return summary_of(checked), work(checked)


@dataclass(eq=False)
class _InColumns:
    """What is run on parts that lie in columns: ``counts``, which checks and counts a part at once.

    Where it returns None, and for all parts that follow, parts become rows, which ``check`` looks at before ``work``.
    """

    check: Callable[[RawPart], CheckedPart]
    work: Callable[[CheckedPart], Any]
    counts: Callable[[RawPart], tuple[Summary, Any] | None]
    declined: bool = False

    def __call__(self, part: RawPart) -> tuple[Summary | None, Any]:
        found = None if self.declined else self.counts(part)
        if found is not None:
            return found
        # a row that is to be divided is rarely the only one
        self.declined = True
        rows = part.proba.rows() if isinstance(part.proba, Columns) else part.proba
        return _both(self.work, self.check(replace(part, proba=rows)))


def counted_in_columns(
    part: RawPart, *, classes: tuple[Any, ...], fraction: float, gains: Gains
) -> tuple[Summary, NDArray[np.int64]] | None:
    """Return what a labelled part without weights and groups adds up to, and the counts (K, K, ...) of `Tally`.

    None where `as_table` has to look at the rows, because some are bad, and for gains that are not `is_tallied`.
    """
    proba = part.proba
    if part.group is not None or not isinstance(proba, Columns) or len(proba.columns) != len(classes):
        return None
    if not is_tallied(gains, proba.dtype):
        return None
    try:
        labels = encode_labels(given_labels(part.labels), classes, len(proba))
    except ValueError:
        # bad probabilities are named before bad labels
        return None
    found = tally(proba.columns, labels, gains, fraction, proba.dtype)
    if found is None:
        return None
    chosen = labels[found.places]
    sample = Part(ARRAYS, found.rows, hashes=found.hashes, labels=chosen, weight=None, classes=classes)
    by_class = found.counts.reshape(len(classes), -1).sum(axis=1).astype(np.float64)
    n = len(labels)
    return Summary(n, n, float(n), (1.0, 1.0), found.totals, by_class, (sample,), 0, np.empty(0)), found.counts
