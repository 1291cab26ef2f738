"""Rules applied part by part, to tables that need not fit into memory: their decisions, and files with these."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.errors import InputError
from confmax.rule.batch import OneCap, cut_in_parts
from confmax.rule.parts import refuse_other_groups
from confmax.tables.draws import given_keys, is_whole
from confmax.tables.labels import Coded, is_missing
from confmax.tables.partitioned.arrow import labels_of
from confmax.tables.partitioned.opening import opened_rows
from confmax.tables.partitioned.parts import RawPart, naming, refuse_missing
from confmax.tables.partitioned.table import stored_columns, to_decide
from confmax.tables.partitioned.writing import check_destination, is_folder, write_tables

_NOTHING = {"keys": None, "group": None}


class DecidedPart(NamedTuple):
    """A part of the rows, and what is decided for it.

    Attributes
    ----------
    decided : ndarray (n,), or (n, L)
        Indices of decisions, or of several labels 0 and 1.
    beside : pyarrow.Table or tuple
        The columns that are kept, or of an array the names and the probabilities.
    n_moved : int
        How many rows a limit gave another decision.
    proba : array-like (n, K)
        Probabilities as they are given.
    """

    decided: NDArray[Any]
    beside: Any
    n_moved: int
    proba: Any


# what is written of a part: Arrow columns by their names
Columns = Callable[[DecidedPart], Mapping[str, Any]]


def predict_batches(
    rule: Any, table: Any, *, keys: str | None = None, at_most: Mapping[Any, int] | None = None
) -> Iterator[NDArray[Any]]:
    """Return an iterator over the decisions of the parts of an opened table, in its order; no more of them are held.

    Parameters
    ----------
    rule : DecisionRule or LabelRule
        The rule, which the method passes itself.
    table : opened table, or rows that stream
        From `confmax.open_table`, where it brings the group of each row for a rule with `groups`; or a Polars
        LazyFrame, an Arrow dataset, a DuckDB relation, a function that yields chunks.
    keys : str or None
        Column of identifiers from which a rule that draws does so; else it draws from the probabilities of a row. No
        warning says that rows are duplicates.
    at_most : mapping of one class name to int, or None
        How many rows of the table are decided as this class at most, as for `DecisionRule.predict`. The table is read
        twice, or three times where margins are equal at the limit.

    Yields
    ------
    ndarray (m,), or (m, L) of uint8 for a `LabelRule`
        What `predict` returns for the m rows of a part. Together they are ``predict(table)``.

    Raises
    ------
    ValueError
        If ``table`` is no opened table, and as for `predict`. Bad rows are refused when it is their turn.

    Examples
    --------
    >>> import confmax, numpy, tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "scores.npy"
    >>> numpy.save(file, [[0.7, 0.3], [0.8, 0.2]])
    >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
    >>> [part.tolist() for part in rule.predict_batches(confmax.open_table(file))]
    [['yes', 'no']]
    """
    form = rule.form
    return (
        form.named(rule, part.decided) for part in decided_parts(rule, opened_rows(table), keys=keys, at_most=at_most)
    )


def write_parquet(
    rule: Any,
    table: Any,
    path: str | os.PathLike[str],
    *,
    output: str = "decision",
    keep: str | Sequence[str] = "all",
    names: bool = True,
    keys: str | None = None,
    at_most: Mapping[Any, int] | None = None,
    rows_per_file: int | None = None,
) -> NDArray[np.int64]:
    """Write the columns of an opened table and the decision of each row to Parquet, part by part.

    Parameters
    ----------
    rule : DecisionRule or LabelRule
        The rule, which the method passes itself.
    table : opened table, or rows that stream
        As for `predict_batches`.
    path : str or path
        The file to write. A path that ends in a slash, or is a folder, gets files ``part-00000.parquet`` and so on,
        one for each file of the table. What is written appears whole or not at all, in the place of an older file, or
        of a folder with such files only.
    output : str
        Name of the column of decisions.
    keep : "all" or sequence of str
        The columns of the table that are written, too; () for none. Those of an array are named like `classes`.
    names : bool
        Whether class names are written, strings by a dictionary; else their indices in `classes`, as the smallest
        integers that hold them. A `LabelRule` writes a column of lists of names, or else for each label a column
        ``output_NAME`` of 0 and 1.
    keys, at_most
        As for `predict_batches`.
    rows_per_file : int or None
        How many rows each file of a folder has. Default: as many as the file that is read.

    Returns
    -------
    ndarray (M,) of int64
        How many rows got each decision.

    Raises
    ------
    ValueError
        If the path cannot be written to or holds the table itself, if the table has a column of the name ``output``,
        and as for `predict_batches`.
    OSError
        If writing fails.

    Notes
    -----
    Columns keep their types, compression and the metadata of their schema. One thread reads, one writes.

    Examples
    --------
    >>> import confmax, numpy, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> numpy.save(folder / "scores.npy", [[0.7, 0.3], [0.8, 0.2]])
    >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
    >>> rule.write_parquet(confmax.open_table(folder / "scores.npy"), folder / "decided.parquet")
    array([1, 1])
    """
    if rows_per_file is not None and not is_whole(rows_per_file, 1):
        raise ValueError(f"rows_per_file is a whole number of at least 1; got {rows_per_file!r}")
    if not (isinstance(output, str) and output):
        raise ValueError(f"output is the name of the column of decisions; got {output!r}")
    if not isinstance(names, bool):
        raise ValueError(f"names is True for names of classes, or False for their indices; got {names!r}")
    counts = np.zeros(len(rule.class_names), dtype=np.int64)
    form = rule.form
    added = form.added(rule, output, names=names)

    def columns(part: DecidedPart) -> Mapping[str, Any]:
        counts[:] += form.counted(rule, part.decided)
        return form.columns(rule, output, part.decided, names=names)

    folder = is_folder(path)
    table = opened_rows(table)
    tables = decided_tables(rule, table, columns, added, keep=keep, keys=keys, at_most=at_most)
    check_destination(table, Path(path), folder=folder)
    write_tables(tables, Path(path), table, folder=folder, rows_per_file=rows_per_file, added=added)
    return counts


def decided_tables(
    rule: Any,
    table: Any,
    columns: Columns,
    added: Sequence[str],
    *,
    keep: str | Sequence[str] = "all",
    keys: str | None = None,
    at_most: Mapping[Any, int] | None = None,
) -> Iterator[Any]:
    """Return an iterator over the parts of an opened table as Arrow tables, with ``columns`` of what is decided.

    ``added`` are the names of these. The other arguments are those of `write_parquet`.
    """
    every = isinstance(keep, str) and keep == "all"
    several = (keep,) if isinstance(keep, str) else tuple(keep) if isinstance(keep, Iterable) else (keep,)
    if not all(isinstance(name, str) for name in several):
        raise ValueError(f'keep is "all", or a sequence of names of columns; got {keep!r}')
    named_alone = tuple(dict.fromkeys(several))
    there = _stored(rule, table, None if every else named_alone)
    kept = tuple(there) if every else named_alone
    refuse_missing("the table", kept, there)
    taken = next((name for name in added if name in kept), None)
    if taken is not None:
        raise ValueError(
            f"the table already has a column {taken!r}; rename or remove it, or call the decisions otherwise"
        )
    found = decided_parts(rule, table, keys=keys, at_most=at_most, keep=kept)
    return (_beside(kept, part.beside, columns(part)) for part in found)


def _stored(rule: Any, table: Any, wanted: Sequence[str] | None) -> Sequence[str]:
    """Return the columns of an opened table, of which some are ``wanted``; those of an array are named like classes."""
    there = stored_columns(table, wanted)
    if there is None:
        raise ValueError("only tables of files keep their columns; use predict of the collection that you have")
    return there or tuple(map(str, rule.class_names[: rule.n_classes]))


def _beside(kept: Sequence[str], beside: Any, columns: Mapping[str, Any]) -> Any:
    """Return the columns that are kept of a part, an Arrow table or an array of probabilities, and further ones."""
    import pyarrow as pa

    if not kept:
        return pa.table(dict(columns))
    if isinstance(beside, tuple):
        names, P = beside
        beside = pa.table({name: np.ascontiguousarray(P[:, names.index(name)]) for name in kept})
    else:
        beside = beside.select(list(kept))
    for name, column in columns.items():
        beside = beside.append_column(name, column)
    return beside


def decided_parts(
    rule: Any,
    table: Any,
    *,
    keys: str | None = None,
    at_most: Mapping[Any, int] | None = None,
    keep: Sequence[str] = (),
) -> Iterator[DecidedPart]:
    """Return an iterator over the parts of an opened table with their decisions."""
    batch = None if at_most is None else rule.form.cap(rule, at_most)
    refuse_other_groups(rule, None, () if not rule.groups_known else None)
    if not rule.groups_known:
        raise ValueError(
            "rules by the probabilities of groups decide rows in memory; pass them part by part to predict"
        )
    source = to_decide(rule, table, _NOTHING)
    beside = tuple(dict.fromkeys([*keep, *([] if keys is None else [keys])]))
    there = stored_columns(table, beside) if beside else ()
    if there:
        refuse_missing("the table", beside, there)
        source = source.keeping(beside)
    elif keys is not None:
        raise InputError(
            f"no column such as {keys!r} is read with these rows", "leave `keys` out, or open Parquet files"
        )
    return _decided(rule, source, keys, batch)


def _decided(rule: Any, source: Any, keys: str | None, batch: OneCap | None) -> Iterator[DecidedPart]:
    """Yield what `decided_parts` returns, after the pass that finds who keeps a limited decision."""
    cut = None
    if batch is not None:
        cut = cut_in_parts(batch, source.n_rows, lambda work: source.run(partial(_on_part, work, rule, keys)))
    work = rule.form.work(rule) if batch is None else batch.ranked
    kept = 0
    for number, found in enumerate(source.run(partial(_with_columns, work, rule, keys))):
        if found is None:
            continue
        decided, *more = found
        if batch is None:
            yield DecidedPart(decided, more[0], 0, more[1])
        else:
            within = batch.decided(decided, cut, number)
            still = int(np.count_nonzero(within == batch.decision))
            kept += still
            yield DecidedPart(within, more[0], decided.n_capped - still, more[1])
    if batch is not None and cut is not None and kept != batch.most:
        # equal rows keep their decision by their places
        raise ValueError(
            f"the rows came in another order than before, so {kept} rows, not {batch.most}, got "
            f"{rule.class_names[batch.decision]!r}; sort the rows, or pass spool=True to open_table"
        )


def _on_part(work: Callable[..., Any], rule: Any, keys: str | None, part: RawPart) -> Any:
    """Return what ``work`` makes of the rows of a part, with their keys and groups; None without rows."""
    if len(part.proba) == 0:
        return None
    with naming(part.name):
        of_rows = rule.form.keys
        own = of_rows(rule, part.proba) if keys is None else keys_of(part.beside.column(keys), keys)
        given = {} if own is None else {"keys": own}
        if rule.groups:
            given["group"] = part.group
        return work(part.proba, **given)


def _with_columns(work: Callable[..., Any], rule: Any, keys: str | None, part: RawPart) -> tuple[Any, Any, Any] | None:
    """Return what ``work`` makes of the rows of a part, their columns, and their probabilities."""
    found = _on_part(work, rule, keys, part)
    names = list(map(str, rule.class_names[: rule.n_classes]))
    beside = (names, part.proba) if part.beside is None else part.beside
    return None if found is None else (found, beside, part.proba)


def keys_of(column: Any, name: str) -> NDArray[Any]:
    """Return a column of identifiers (n,) as `predict` takes keys: whole numbers of any type are integers."""
    found = labels_of(column)
    if not isinstance(found, Coded):
        return np.asarray(found)
    values = found.values.tolist()
    used = np.flatnonzero(np.bincount(found.index, minlength=len(values)))
    for k in used.tolist():
        value = values[k]
        if is_missing(value) or (isinstance(value, str) and not value.strip()):
            row = int(np.argmax(found.index == k))
            raise ValueError(f"row {row} of key column {name!r} is empty; drop such rows, or leave the option out")
        if isinstance(value, float) and abs(value) < 2**53 and value == int(value):
            values[k] = int(value)
    words = np.zeros(len(values), dtype=np.uint64)
    words[used] = given_keys(np.array([values[k] for k in used], dtype=object), len(used))
    return words[found.index]
