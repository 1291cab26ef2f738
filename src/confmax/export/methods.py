"""The methods by which a rule is written down for elsewhere; `DecisionRule` inherits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from confmax.export.plan import Plan, plan, python_source

if TYPE_CHECKING:
    from confmax.confusion import Gains
    from confmax.tables import Calibrator


class Exports:
    """Exports of a rule that decide like its `predict`: the same steps on the same numbers.

    Exports apply the calibration, divide by its sum each row that `predict` divides, and give ties to the last class.
    Where two scores differ by rounding only (8 units in the last place; 1e-12 in SQL), either may win.
    """

    if TYPE_CHECKING:

        @property
        def gains(self) -> Gains:
            """Gains of the atoms."""

        @property
        def calibrator(self) -> Calibrator | None:
            """What calibrates the probabilities."""

        @property
        def class_names(self) -> tuple[Any, ...]:
            """Names of the decisions."""

        @property
        def metric(self) -> str:
            """The metric tuned for."""

    def to_sql(self, dialect: str = "standard", columns: Sequence[str] | None = None, *, labels: bool = False) -> str:
        """Return the rule as one scalar SQL expression, the decided index or its label.

        The expression uses arithmetic and CASE in double precision, whatever type the columns have. It is NULL for rows
        that `predict` refuses: rows with a NULL, a negative number, or a sum that is not one within 1e-3. An expression
        that would be longer than 65536 characters (offsets from 17 classes on, a calibration with offsets from 7,
        weights alone from about 150) becomes a scalar sub-query without tables, whose length is linear in K.

        Parameters
        ----------
        dialect : str
            ``"standard"``, which DuckDB, PostgreSQL and SQLite read; ``"duckdb"`` or ``"sqlite"``, shorter for many
            classes; or with the extra ``confmax[sql]`` what sqlglot translates to, such as ``"mysql"``. confmax's
            tests do not run the translations, whose engine must have LEAST and GREATEST. For calibrations SQLite needs
            its functions EXP and LN, which builds may leave out.
        columns : sequence of str (K,) or None
            Names of the columns of probabilities, in class order; by default the class names.
        labels : bool
            Whether the expression gives the class's name instead of its index. Names of one type keep it (strings,
            numbers or truth values); names of several types become strings.

        Returns
        -------
        str
            Use it in any query on the table, such as ``f"SELECT *, {expression} AS decision FROM scores"``. Some
            engines (DuckDB) return the rows of a query with sub-queries in another order, so select a key as well.

        Raises
        ------
        ValueError
            If the rule is randomised, its calibration is an object that confmax does not provide, the columns are not K
            different names, the dialect is unknown, or a name cannot be written as a label.
        ImportError
            If the dialect needs sqlglot and sqlglot is not installed.

        Examples
        --------
        >>> import sqlite3, confmax
        >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
        >>> table = "(SELECT 0.7 AS no, 0.3 AS yes UNION SELECT 0.8, 0.2)"
        >>> sqlite3.connect(":memory:").execute(f"SELECT {rule.to_sql('sqlite')} FROM {table}").fetchall()
        [(1,), (0,)]
        >>> expression = rule.to_sql("sqlite", labels=True)
        >>> sqlite3.connect(":memory:").execute(f"SELECT {expression} FROM {table}").fetchall()
        [('yes',), ('no',)]
        """
        from confmax.export.sql import sql_expression

        return sql_expression(self._plan("to_sql", labels=labels), dialect, columns)

    def to_onnx(self, dtype: Any = "float32", *, opset: int = 18, labels: bool = False) -> Any:
        """Return the rule as an ONNX model.

        Parameters
        ----------
        dtype : {"float32", "float64"}
            Type of the probabilities. The model decides like `predict` on a table of this dtype.
        opset : int
            Version of the operator set, 13 or newer. To join the model to another one with
            `onnx.compose.merge_models`, give the version of that model; of a model from skl2onnx (without its ZipMap),
            connect ``probabilities`` to ``proba``.
        labels : bool
            Whether ``decision`` holds the classes' names instead of their indices.

        Returns
        -------
        onnx.ModelProto
            Input ``proba`` (n, K), output ``decision`` (n,) of int64: the decided index, or -1 in rows that `predict`
            refuses. Its metadata hold the class names as a JSON list under ``classes``. With labels, ``decision`` is a
            tensor of int64, double, bool or strings (also for names of several types), and a second output ``index``
            (n,) holds the index; where the index is -1, the label is -1, NaN, false or "".

        Raises
        ------
        ValueError
            If the rule is randomised, its calibration is an object that confmax does not provide, an argument is none
            of the above, or a name cannot be written as a label.
        ImportError
            If onnx (extra ``confmax[onnx]``) is not installed.

        Examples
        --------
        >>> import confmax
        >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
        >>> model = rule.to_onnx()  # doctest: +SKIP
        >>> model.SerializeToString()  # doctest: +SKIP
        """
        from confmax.export.onnx import check_settings, onnx_model

        self._plan("to_onnx")
        name = check_settings(dtype, opset)
        return onnx_model(self._plan("to_onnx", name, labels=labels), name, opset)

    def to_python(self, name: str = "decide", *, labels: bool = False) -> str:
        """Return the rule as the source text of a Python function that needs nothing but Python.

        Parameters
        ----------
        name : str
            Name of the function. It takes a sequence of K probabilities in class order and returns the decided index.
            Like `predict`, it raises `ValueError` if they are not probabilities.
        labels : bool
            Whether the function returns the class's name instead of its index.

        Raises
        ------
        ValueError
            If the rule is randomised, its calibration is an object that confmax does not provide, ``name`` cannot name
            a function, or a class name cannot be written as a label.

        Examples
        --------
        >>> import confmax
        >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
        >>> exec(rule.to_python())
        >>> decide([0.7, 0.3]), decide([0.8, 0.2])
        (1, 0)
        >>> exec(rule.to_python(labels=True))
        >>> decide([0.7, 0.3]), decide([0.8, 0.2])
        ('yes', 'no')
        """
        return python_source(self._plan("to_python", labels=labels), name)

    def _plan(self, what: str, dtype: str = "float64", *, labels: bool = False) -> Plan:
        return plan(self.gains, self.calibrator, self.class_names, self.metric, what=what, dtype=dtype, labels=labels)
