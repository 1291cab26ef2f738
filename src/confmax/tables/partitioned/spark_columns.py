"""Which columns of a Spark data frame hold the probabilities, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confmax.tables.columns import Found, find


def refuse_frames(frame: Any) -> None:
    """Refuse frames whose partitions cannot be reached."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise ValueError(
            "a frame of Spark Connect gives no access to its partitions; use a classic session, or write the frame to "
            "Parquet and pass it to open_table"
        )
    refuse_stopped(frame)
    if frame.isStreaming:
        raise ValueError("a streaming DataFrame cannot be tuned on; write its rows to a table and pass that")


def refuse_stopped(frame: Any) -> None:
    """Refuse frames of a session that was stopped, about which nothing can be asked."""
    context = getattr(frame.sparkSession, "_sc", None)  # a session of Spark Connect has none
    if context is not None and context._jsc is None:
        raise ValueError("the Spark session of this DataFrame was stopped; start a session and make the frame again")


def chosen_columns(
    kinds: dict[str, Any],
    columns: Sequence[str] | None,
    others: set[str | None],
    classes: Sequence[Any] | None,
    label_names: Callable[[], Sequence[Any]] = tuple,
) -> tuple[str, ...]:
    """Return the columns of probabilities, in order, or the one that holds all.

    Raises
    ------
    ValueError
        If they cannot be told, or are of another type.
    """
    if columns is not None:
        chosen = (columns,) if isinstance(columns, str) else tuple(columns)
        missing = [name for name in chosen if name not in kinds]
        if missing or not chosen:
            raise ValueError(
                f"the Spark DataFrame has no column {missing[0]!r}; its columns are {shown(kinds)}"
                if missing
                else "columns is empty; name at least one column of probabilities"
            )
    elif "probability" in kinds and is_list(kinds["probability"]):
        return ("probability",)
    else:
        wanted = list(label_names() if classes is None else classes)
        chosen = _named_like(kinds, others, wanted) or tuple(
            name for name, kind in kinds.items() if kind.typeName() in ("float", "double") and name not in others
        )
    bad = [name for name in chosen if not is_number(kinds[name]) and not (len(chosen) == 1 and is_list(kinds[name]))]
    if bad:
        raise ValueError(
            f"column {bad[0]!r} holds {kinds[bad[0]].simpleString()}, not probabilities; name columns of numbers, or "
            f"one of arrays or vectors"
        )
    if not chosen or (len(chosen) == 1 and is_number(kinds[chosen[0]])):
        raise ValueError(
            f"the Spark DataFrame has no column 'probability' of arrays or vectors, and {len(chosen)} columns of "
            f"floating-point numbers; name the columns of probabilities with open_table(df, columns=...)"
        )
    return chosen


def _named_like(kinds: dict[str, Any], others: set[str | None], classes: Sequence[Any]) -> tuple[str, ...]:
    """Return the columns of numbers that are named like the classes, one for each; none if they are not found."""
    numbers = [name for name, kind in kinds.items() if is_number(kind) and name not in others]
    found = find(numbers, classes, whole=False) if len(classes) >= 2 else Found(None, ())
    return () if found.places is None else tuple(numbers[k] for k in found.places)


def probabilities(frame: Any, columns: Sequence[str]) -> Any:
    """Return the column expression of all probabilities of a row, an array of floats or doubles."""
    from pyspark.sql import functions as F

    kinds = {each.name: each.dataType for each in frame.schema.fields}
    first = kinds[columns[0]]
    if len(columns) == 1 and first.typeName() == "array":
        each = first.elementType.typeName()
        whole = frame[quoted(columns[0])]
        return whole if each in ("float", "double") else whole.cast("array<double>")
    if len(columns) == 1:
        from pyspark.ml.functions import vector_to_array

        vectors = frame[quoted(columns[0])]
        # vector_to_array fails on a missing vector, without saying in which row
        return F.when(vectors.isNotNull(), vector_to_array(vectors))
    kind = "float" if all(kinds[name].typeName() == "float" for name in columns) else "double"
    return F.array(*[frame[quoted(name)].cast(kind) for name in columns])


def label_column(frame: Any, name: str) -> Any:
    """Return the column expression of labels."""
    column = frame[quoted(name)]
    return column.cast("double") if frame.schema[name].dataType.typeName() == "decimal" else column


def is_number(kind: Any) -> bool:
    """Whether a Spark type is one of numbers."""
    return kind.typeName() in ("byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint", "float",
                               "double") or kind.typeName().startswith("decimal")  # fmt: skip


def is_list(kind: Any) -> bool:
    """Whether a Spark type is an array of numbers or a vector of ``pyspark.ml``."""
    return type(kind).__name__ == "VectorUDT" or (kind.typeName() == "array" and is_number(kind.elementType))


def quoted(name: str) -> str:
    """Return a column's name as Spark takes it literally, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def shown(names: Iterable[str]) -> str:
    """Return the first names, for a person."""
    return ", ".join(list(names)[:12])
