"""Opened tables: where the parts of a table lie is known, and nothing is read before somebody decides or tunes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from confmax.tables.columns import order_of
from confmax.tables.kinds import Kind, Rule
from confmax.tables.partitioned.table import partitioned_table
from confmax.tables.table import Table


class ReadInParts(Kind):
    """A kind whose rows are never in one place, so that only a table or a rule can be asked about them."""

    in_memory = False
    refusal: ClassVar[str]

    @final
    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ValueError(self.refusal)

    storage = property(_refuse)
    check = given_hashes = host = floats = decision_probabilities = named = _refuse


@final
class Opened(ReadInParts):
    """A table from `open_table`, or whatever else is a `Source` and says so by ``is_confmax_source``."""

    refusal = (
        "an opened table is not an array of rows; rule.predict(table) decides it, everything else needs its rows "
        "in memory"
    )

    def table(self, proba: Any, y: Any, sample_weight: Any, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        """Return `make_table`; labels and weights are named where the table is opened."""
        if y is not None or sample_weight is not None:
            raise ValueError("an opened table brings its labels and weights; pass label= and weight= to open_table")
        return partitioned_table(proba, classes, stated=stated)

    def predict_index(self, rule: Rule, proba: Any, keys: Any) -> NDArray[np.int64]:
        """Return the decisions (n,) of a rule, read part by part."""
        if keys is not None:
            raise ValueError("keys are not split into parts; leave them out, or decide arrays part by part")
        order = order_of(proba.names, rule.class_names[: rule.n_classes])
        source = proba if order is None else proba.with_columns(order)
        return np.concatenate([np.empty(0, np.int64), *source.run(partial(_decide_part, rule))])


def _decide_part(rule: Rule, part: Any) -> NDArray[np.int64]:
    if len(part.proba) == 0:
        return np.empty(0, np.int64)
    try:
        return rule.predict_index(part.proba)
    except ValueError as error:
        raise ValueError(f"{part.name}: {error}") from None


OPENED = Opened()
