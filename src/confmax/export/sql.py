"""A rule as one scalar SQL expression: its columns, labels and groups, and the dialects that read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confmax.errors import InputError
from confmax.export.by_group import Groups, by_group
from confmax.export.plan import Plan, group_literals, plans_of
from confmax.export.sql_expression import NATIVE, TRANSLATED, Frame, numeral
from confmax.tables.kinds import Rule

MOST = 1 << 16  # characters that an expression without steps may have
WIDEST = 50  # classes of a calibration by a matrix, whose text is quadratic in them


def to_sql(
    rule: Rule,
    dialect: str = "standard",
    columns: Sequence[str] | None = None,
    *,
    labels: bool = False,
    group: str | None = None,
) -> str:
    """Return the rule as one scalar SQL expression, the decided index or its label.

    The expression uses arithmetic and CASE in double precision, whatever type the columns have. It is NULL for rows
    that `predict` refuses: rows with a NULL, a negative number, or a sum that is not one within 1e-3. An expression
    that would be longer than 65536 characters (offsets from 17 classes on, a calibration with offsets from 7, one by a
    matrix from 5, weights alone from about 150) is written in steps: as lists in DuckDB's dialect, as a scalar
    sub-query without tables in the others. Its length is linear in K, quadratic for a matrix. A rule that compares the
    probability of one class with a threshold first is written so, ``CASE WHEN "L" >= 0.87 THEN 3 ELSE ... END``, and
    without calibration the most probable other class is found by the probabilities as they are.

    A rule with groups holds its calibration once, and its weights, offsets and thresholds as ``CASE "group" WHEN
    'men' THEN 0.3 WHEN 'women' THEN 0.4 END``, where groups differ in them. Each further group adds its name and its
    number to each of these. It has steps where one group, by itself, would be longer than 65536 characters divided by
    the number of groups. Weights without a calibration, full gains without one, and groups that compare different
    classes first, are written for each group.

    Parameters
    ----------
    rule : DecisionRule
        The rule to write. `DecisionRule.to_sql` passes itself.
    dialect : str
        ``"standard"``, which DuckDB, PostgreSQL and SQLite read; ``"duckdb"``, which keeps the order of the rows
        there, or ``"sqlite"``, both shorter for many classes; or with the extra ``confmax[sql]`` what sqlglot
        translates to, such as ``"mysql"``. confmax's tests do not run the translations, whose engine must have LEAST
        and GREATEST. For calibrations SQLite needs its functions EXP and LN, which builds may leave out.
    columns : sequence of str (K,) or None
        Names of the columns of probabilities, in class order; by default those that the rule was tuned on, if it
        knows them, or else the class names.
    labels : bool
        Whether the expression gives the class's name instead of its index. Names of one type keep it (strings,
        numbers or truth values); names of several types become strings.
    group : str or None
        Name of the column of groups, "group" by default, for a rule with groups. The expression is NULL where the
        group is NULL or one that the rule does not know. The column has the type of the groups' names, and is compared
        as the engine compares: some take "A" for "a".

    Returns
    -------
    str
        Use it in any query on the table, such as ``f"SELECT *, {expression} AS decision FROM scores"``. In DuckDB
        use its own dialect: the rows keep their order. DuckDB makes a join of a sub-query, and the rows come in
        another order, so with the dialect "standard" select a key as well.

    Raises
    ------
    ValueError
        If the rule is randomised, decides by the probabilities of groups, its calibration is an object that confmax
        does not provide or a matrix of more than 50 classes, the columns are not different names, the dialect is
        unknown, or a name of a class or a group cannot be written.
    ImportError
        If the dialect needs sqlglot and sqlglot is not installed.

    Examples
    --------
    >>> import sqlite3, confmax
    >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
    >>> table = "(SELECT 0.7 AS no, 0.3 AS yes UNION SELECT 0.8, 0.2)"
    >>> base = sqlite3.connect(":memory:")
    >>> base.execute(f"SELECT {rule.to_sql('sqlite')} FROM {table}").fetchall()
    [(1,), (0,)]
    >>> expression = rule.to_sql("sqlite", labels=True)
    >>> base.execute(f"SELECT {expression} FROM {table}").fetchall()
    [('yes',), ('no',)]

    A rule with groups is NULL where it does not know the group:

    >>> import numpy as np
    >>> gains = confmax.confusion.Gains.reduced([1.0, 1.0, 1.0, 3.0])
    >>> rule = confmax.DecisionRule(gains, np.ones(1), ("no", "yes"), groups=("men", "women"))
    >>> rows = ("0.7 AS no, 0.3 AS yes, 'men' AS sex", "0.7, 0.3, 'women'", "0.7, 0.3, 'children'")
    >>> table = f"(SELECT {' UNION ALL SELECT '.join(rows)})"
    >>> base.execute(f"SELECT {rule.to_sql(group='sex')} FROM {table}").fetchall()
    [(0,), (1,), (None,)]
    >>> base.close()
    """
    plans = plans_of(rule, "to_sql", labels=labels)
    groups = group_literals(rule, "to_sql")
    if group is not None and not groups:
        raise InputError("this rule decides all groups alike", "leave `group` out")
    columns = rule.columns or None if columns is None else columns
    return _expression(plans, dialect, columns, groups, "group" if group is None else group)


def _expression(
    plans: Sequence[Plan], dialect: str, columns: Sequence[str] | None, groups: Sequence[Any], group: str
) -> str:
    """Return the expression of one plan, or of a plan for each of the ``groups`` in the column ``group``."""
    plan = plans[0]
    if plan.scaling is not None and plan.scaling[0].ndim > 1 and plan.n_classes > WIDEST:
        raise InputError(
            f"`to_sql` writes a calibration by a matrix for at most {WIDEST} classes, because its text grows with "
            f"their square, and this rule has {plan.n_classes}",
            "tune with `calibration='vector'`, or use `to_onnx` or `to_python`",
            "calibration",
        )
    names = checked_columns(plan.names[: plan.n_classes], columns, [group] if groups else [])
    words = NATIVE.get(dialect)
    # what the expression is for each decision: its label, or its index
    labels = [_literal(label) for label in (plan.labels or range(plan.n_decisions))]
    if words is None:
        given = "columns or group holds" if groups else "columns holds"
        refuse_odd(names, '"`[]\\', given + " {!r}, with a quote, bracket, backslash or control character", "names")
        texts = [label for label in plan.labels or () if isinstance(label, str)]
        refuse_odd(texts, "\\", "the label {!r} has a backslash or a control character", "labels")
        texts = [name for name in groups if isinstance(name, str)]
        refuse_odd(texts, "\\", "the group {!r} has a backslash or a control character", "groups")
        _refuse_alike(texts)
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    # the names of parts must not be those of columns, which SQL does not tell apart by case
    prefix = "r_"
    while any(name.lower().startswith(prefix) for name in names):
        prefix = "r" + prefix
    K = plan.n_classes
    frame = Frame(words or TRANSLATED, prefix, labels, quoted[:K])
    if groups:
        literals = [_literal(name, "group", "rename it") for name in groups]
        text = by_group(frame.written, plans, Groups(quoted[K], tuple(literals)), MOST)
    else:
        text = frame.written([plan], Groups(), MOST)[0]
    return text if words is not None else translated(text, dialect)


def checked_columns(classes: Sequence[Any], columns: Sequence[str] | None, further: Sequence[str] = ()) -> list[str]:
    """Return the names of the columns of the probabilities of ``classes`` (K,), and ``further`` ones behind them."""
    K = len(classes)
    names = [str(name) for name in classes] if columns is None else columns
    if isinstance(names, str) or len(names) != K or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"columns holds the names of {K} columns, one per class in the rule's order; got {names!r}")
    if not all(isinstance(name, str) and name for name in further):
        raise ValueError(f"group is the name of a column; got {further[0]!r}")
    names = [*names, *further]
    if len({name.lower() for name in names}) != len(names):
        what, each = ("columns and group name", "class, and the groups,") if further else ("columns names", "class")
        raise ValueError(f"{what} one column twice (SQL does not tell A from a): {names}; give each {each} its own")
    if any("\0" in name for name in names):
        raise ValueError("columns holds a name with a NUL character, which SQL cannot quote; rename that column")
    return names


def _literal(label: Any, what: str = "label", way_out: str = "export the index") -> str:
    if isinstance(label, bool):
        return "TRUE" if label else "FALSE"
    if isinstance(label, str):
        if "\0" in label:
            raise ValueError(f"the {what} {label!r} holds a NUL character, which SQL cannot quote; {way_out}")
        return "'" + label.replace("'", "''") + "'"
    return str(label) if isinstance(label, int) else numeral(label)


def refuse_odd(texts: Sequence[str], odd: str, holds: str, what: str) -> None:
    """Refuse what not every dialect quotes as the translation does: a name or a label must never end its quotes."""
    for text in texts:
        if any(letter in odd or not letter.isprintable() for letter in text):
            raise ValueError(
                f"{holds.format(text)}, which SQL dialects quote differently; only {', '.join(sorted(NATIVE))} take "
                f"such {what}"
            )


def _refuse_alike(groups: Sequence[str]) -> None:
    """Refuse groups that some dialects take for one: a row would be decided by the rule of another group."""
    seen: dict[str, str] = {}
    for name in groups:
        other = seen.setdefault(name.casefold().rstrip(), name)
        if other != name:
            raise ValueError(
                f"some SQL dialects do not tell the groups {other!r} and {name!r} apart; only "
                f"{', '.join(sorted(NATIVE))} take such groups"
            )


def translated(text: str, dialect: str) -> str:
    """Return an expression, or a query, of DuckDB in another dialect."""
    try:
        import sqlglot
        from sqlglot.dialects.dialect import Dialect
    except ModuleNotFoundError:
        raise ImportError(
            f"the SQL dialect {dialect!r} needs sqlglot; install it with: pip install 'confmax[sql]', or use "
            f"{', '.join(sorted(NATIVE))}"
        ) from None
    known = sorted({*NATIVE, *(name for name in Dialect.classes if name)})
    if dialect not in known:
        raise ValueError(f"{dialect!r} is not a known SQL dialect; the dialects are {', '.join(known)}")
    return str(sqlglot.transpile(text, read="duckdb", write=dialect)[0])
