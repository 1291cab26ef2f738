"""Spark data frames: their partitions are the parts of a table, and a rule decides in a column of the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, final

from confmax.tables.columns import find, matched, warn
from confmax.tables.kinds import Rule
from confmax.tables.partitioned.spark import array_of_lists, cores_of_task, frame_source
from confmax.tables.partitioned.spark_columns import (
    chosen_columns,
    is_number,
    probabilities,
    quoted,
    refuse_stopped,
    shown,
)
from confmax.tables.partitioned.table import ReadInParts, partitioned_table
from confmax.tables.table import Table


@final
class SparkFrames(ReadInParts):
    """Data frames of Spark."""

    refusal = "a Spark DataFrame is decided by Spark: use rule.transform(df), which adds a column of decisions"

    def table(self, proba: Any, y: Any, sample_weight: Any, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        """Return `make_table`."""
        return partitioned_table(frame_source(proba, y, sample_weight, classes=classes), classes, stated=stated)

    def predict_index(self, rule: Rule, proba: Any, keys: Any) -> NoReturn:
        """Refuse: decisions are a column of the frame (`with_decisions`)."""
        self._refuse()


SPARK = SparkFrames()


def with_decisions(
    rule: Rule, names: Sequence[Any], frame: Any, output: str, *, columns: Sequence[str] | None, keys: str | None
) -> Any:
    """Return a Spark DataFrame with the column ``output`` of what a rule of K classes ``names`` decides.

    Raises
    ------
    ValueError
        If a column is missing or of another type, or no column can be told to hold the probabilities.
    """
    from pyspark.sql.pandas import functions

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


def _decider(rule: Rule, *, keyed: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what Spark runs on the Arrow arrays of one partition."""
    import pyarrow as pa

    kind = _kind(rule.class_names)

    def decide(batches: Iterator[Any]) -> Iterator[Any]:
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
