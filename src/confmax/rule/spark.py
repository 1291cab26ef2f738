"""Decisions on Spark data frames: a column that the executors compute, and rules as Spark's own thresholds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from confmax.confusion import Gains


def with_decisions(
    rule: Any, names: Sequence[Any], frame: Any, output: str, *, columns: Sequence[str] | None, keys: str | None
) -> Any:
    """Return a Spark DataFrame with the column ``output`` of what a rule of K classes ``names`` decides.

    Raises
    ------
    ValueError
        If a column is missing or of another type, or no column can be told to hold the probabilities.
    """
    from pyspark.sql.pandas import functions

    from confmax.tables.columns import find, matched, warn
    from confmax.tables.partitioned.spark_columns import (
        chosen_columns,
        is_number,
        probabilities,
        quoted,
        refuse_stopped,
        shown,
    )

    refuse_stopped(frame)
    kinds = {each.name: each.dataType for each in frame.schema.fields}
    if keys is not None and keys not in kinds:
        raise ValueError(f"the Spark DataFrame has no column {keys!r}; its columns are {shown(kinds)}")
    if output in kinds:
        raise ValueError(f"the Spark DataFrame already has a column {output!r}; choose another output, or drop it")
    numbered = tuple(names) == tuple(range(len(names)))
    chosen = chosen_columns(kinds, columns, set() if keys is None else {keys}, names)
    stated = columns is not None or not is_number(kinds[chosen[0]])
    order, note = (None, "") if stated else matched(chosen, names)
    named = stated or (len(chosen) == len(names) and find(chosen, names).places is not None)
    if not named and (not numbered or len(chosen) != len(names)):
        raise ValueError(
            f"the Spark DataFrame has no column 'probability' of arrays or vectors, and no columns of the rule's "
            f"classes {', '.join(map(str, names[:8]))}; name them in this order with columns="
        )
    as_udf: Any = functions.arrow_udf  # the stubs know no untyped functions
    decide = as_udf(_decider(rule, keyed=keys is not None), _kind(rule.class_names))
    warn(note)
    chosen = chosen if order is None else tuple(chosen[k] for k in order)
    given = [probabilities(frame, chosen), *([] if keys is None else [frame[quoted(keys)]])]
    return frame.withColumn(output, decide(*given))


def _kind(names: Sequence[Any]) -> str:
    """Return Spark's type of class names; numbers are doubles, as in Spark ML's own column of predictions."""
    if all(isinstance(name, bool) for name in names):
        return "boolean"
    return "double" if all(isinstance(name, (int, float)) for name in names) else "string"


def _decider(rule: Any, *, keyed: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what Spark runs on the Arrow arrays of one partition."""
    import pyarrow as pa

    kind = _kind(rule.class_names)

    def decide(batches: Iterator[Any]) -> Iterator[Any]:
        from confmax.tables.partitioned.spark import array_of_lists, cores_of_task

        start = 0
        names = pa.array([str(name) if kind == "string" else name for name in rule.class_names], _arrow_type(kind))
        for batch in batches:
            lists, keys = batch if keyed else (batch, None)
            if len(lists) == 0:
                yield names.slice(0, 0)
                continue
            given = None if keys is None else keys.to_numpy(zero_copy_only=False)
            with cores_of_task() as number:
                try:
                    found = rule.predict_index(array_of_lists(lists), keys=given)
                except ValueError as error:
                    raise ValueError(f"partition {number}, rows counted from its row {start}: {error}") from None
            start += len(lists)
            yield names.take(pa.array(found))

    # Spark tells the kind of function by its types, and takes no strings
    given: Any = tuple[pa.Array, pa.Array] if keyed else pa.Array
    decide.__annotations__ = {"batches": Iterator[given], "return": Iterator[pa.Array]}
    return decide


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    return {"boolean": pa.bool_(), "double": pa.float64(), "string": pa.string()}[kind]


def thresholds(gains: Gains, *, calibrated: bool, cut: float | None) -> list[float]:
    """Return t (K,) such that ``argmax p_k / t_k`` decides like the gains, the largest t one.

    ``cut`` is the rule's threshold on the raw probability of the second of two classes, if it has one.

    Raises
    ------
    ValueError
        If no thresholds do.
    """
    way_out = "use rule.transform(df)"
    if len(gains) > 1:
        raise ValueError(f"Spark's thresholds cannot express a rule that decides at random; {way_out}")
    weights_only = gains.full is None and not gains.power and not gains.has_further and not calibrated
    a, b = (part[0] for part in gains.coefficients()) if weights_only else (np.zeros(0), np.zeros(0))
    if cut is not None and not (weights_only and b[0] == b[1]):
        if not 0 < cut < 1:
            raise ValueError(f"Spark's thresholds cannot express a rule that always decides one class; {way_out}")
        largest = max(cut, 1.0 - cut)
        return [(1.0 - cut) / largest, cut / largest]
    if calibrated:
        raise ValueError(f"Spark's thresholds cannot express a rule that calibrates the probabilities first; {way_out}")
    if not weights_only:
        raise ValueError(f"Spark's thresholds cannot express a rule with more than one weight per class; {way_out}")
    if (b != b[0]).any():
        raise ValueError(f"Spark's thresholds cannot express a rule with offsets; {way_out}")
    if (a <= 0).any():
        raise ValueError(f"Spark's thresholds cannot express a rule with weights that are not positive; {way_out}")
    return [float(each) for each in a.min() / a]  # no rule's weights differ by more than a float holds
