"""The first pass over labelled parts that checks the rows and counts what gains decide at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Gains
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.tally import is_tallied, tally
from confmax.tables.labels import encode_labels
from confmax.tables.partitioned.arrow import Columns
from confmax.tables.partitioned.parts import CheckedPart, Part, Summary, given_labels
from confmax.tables.table import MemoryTable, T


@dataclass(eq=False)
class AtOnce:
    """Parts of a ``source`` that has them in columns; a pass over them does something else on every part, too.

    ``counts`` makes the summary of a part and what ``also`` would make of its table, or None where it cannot. Then, and
    for all parts that follow, ``check`` does so as in a pass without it.
    """

    source: Any
    check: Callable[[Part], CheckedPart]
    also: Callable[[MemoryTable], Any]
    take: Any
    counts: Callable[[Part], tuple[Summary, Any] | None]
    declined: bool = False

    def run(self, work: Callable[[Any], T]) -> Iterator[T | Summary]:
        def on_part(part: Part) -> tuple[T | Summary, Any]:
            found = None if self.declined else self.counts(part)
            if found is not None:
                return found
            # a row that is to be divided is rarely the only one
            self.declined = True
            if isinstance(part.proba, Columns):
                part = replace(part, proba=part.proba.rows())
            checked = self.check(part)
            # a source that has columns has no part without rows
            assert checked.table is not None
            return work(checked), self.also(checked.table)

        for result, more in self.source.run(on_part):
            self.take(more)
            yield result


def counted_part(
    part: Part, *, classes: tuple[Any, ...], fraction: float, gains: Gains
) -> tuple[Summary, NDArray[np.int64]] | None:
    """Return what a labelled part without weights and groups adds up to, and the counts (K, K, ...) of `Tally`.

    None where `as_table` has to look at the rows, because some are bad, and for gains that are not `is_tallied`.
    """
    proba = part.proba
    if not isinstance(proba, Columns) or len(proba.columns) != len(classes):
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
    sample = MemoryTable(ARRAYS, found.rows, hashes=found.hashes, labels=chosen, weight=None, classes=classes)
    by_class = found.counts.reshape(len(classes), -1).sum(axis=1).astype(np.float64)
    n = len(labels)
    return Summary(n, n, float(n), found.totals, by_class, (sample,), 0, np.empty(0)), found.counts
