"""A rule of several labels as SQL, ONNX or Python: a decision of 0 or 1 for every label.

Any labels are comparisons of one probability with one number each. The k best labels are those that fewer than k others
beat, where of equal scores that of the later label is the larger one. A calibration of labels is one rising map each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.labels import LabelScaling
from confmax.confusion import Array
from confmax.errors import InputError
from confmax.export.onnx import Graph, checked_dtype, finished, with_opset
from confmax.export.python import check_name
from confmax.export.sql import checked_columns, refuse_odd, translated
from confmax.export.sql_expression import NATIVE, numeral, sum_of
from confmax.kernels.label_bins import EDGE
from confmax.tables.array.label_rows import OVER
from confmax.tables.decisions import ANY, Decisions
from confmax.tables.kinds import LabelledRule
from confmax.tables.precision import gain_coefficients, is_wide

LONGEST = 900_000  # characters of SQL: SQLite takes a million by default
DECISION = "decision"  # what the columns of decisions begin with, as those of `confmax apply`


@dataclass(frozen=True)
class LabelPlan:
    """A deterministic rule as an export needs it."""

    # scores are ``weights x + offsets``, (L,) each, of the given or calibrated probabilities x
    weights: NDArray[Any]
    offsets: NDArray[Any]
    decisions: Decisions
    maps: LabelScaling | None
    names: tuple[Any, ...]
    metric: str

    @classmethod
    def of(cls, rule: LabelledRule, what: str, dtype: str = "float64") -> LabelPlan:
        """Return the numbers of ``rule``, in float64 where a dtype does not hold them."""
        if len(rule.weights) > 1:
            raise InputError(
                f"`{what}` writes deterministic rules, and this randomised rule draws between {len(rule.weights)}",
                "decide with predict of the library",
            )
        # calibrated probabilities are of float64, whatever is given
        wide = rule.calibrator is not None or is_wide(rule.gains, dtype).any()
        weights, offsets = gain_coefficients(rule.gains, np.dtype(np.float64 if wide else dtype))
        assert offsets is not None
        return cls(weights[0], offsets[0], rule.decisions, rule.calibrator, rule.class_names, rule.metric)

    @property
    def most(self) -> int | None:
        """How many labels a row has at most; None where the number is no limit."""
        most = self.decisions.most
        return None if most is None or most >= len(self.names) else most


# --- SQL --------------------------------------------------------------------------------------------------------------


def labels_to_sql(rule: LabelledRule, dialect: str = "standard", columns: Sequence[str] | None = None) -> str:
    """Return the rule as SQL expressions with commas between them: a column of 0 or 1 for each label.

    The columns are called "decision_NAME". Any labels are compared with their thresholds on the given probabilities;
    such a column is NULL where its own probability is NULL, negative or above one. Of k labels, all columns are NULL
    where some probability is, and the text grows with the square of the number of labels.

    Parameters
    ----------
    rule : LabelRule
        The rule to write. `LabelRule.to_sql` passes itself.
    dialect : str
        As for `DecisionRule.to_sql`: ``"standard"``, ``"duckdb"`` or ``"sqlite"``, or with the extra ``confmax[sql]``
        what sqlglot translates to.
    columns : sequence of str (L,) or None
        Names of the columns of probabilities, in the order of the labels; by default those that the rule was tuned on,
        if it knows them, or else the labels' names. Where columns of those names hold the true labels, 0 and 1, name
        the others: an expression reads any number from 0 to 1.

    Returns
    -------
    str
        Use it in a query such as ``f"SELECT *, {expressions} FROM scores"``.

    Raises
    ------
    ValueError
        If the rule is randomised, its text would be longer than 900 000 characters, the columns are not different
        names, the dialect is unknown, or a name cannot be written.
    ImportError
        If the dialect needs sqlglot and sqlglot is not installed.

    Examples
    --------
    >>> import sqlite3, confmax
    >>> rule = confmax.LabelRule.from_thresholds([0.5, 0.2], classes=["red", "round"])
    >>> query = f"SELECT {rule.to_sql()} FROM (SELECT 0.6 AS red, 0.1 AS round)"
    >>> base = sqlite3.connect(":memory:")
    >>> base.execute(query).fetchall()
    [(1, 0)]
    >>> base.close()
    """
    plan = LabelPlan.of(rule, "to_sql")
    names = checked_columns(plan.names, rule.columns or None if columns is None else columns)
    out = checked_columns(plan.names, [f"{DECISION}_{name}" for name in plan.names])
    if dialect not in NATIVE:
        what = "columns or labels hold {!r}, with a quote, bracket, backslash or control character"
        refuse_odd([*names, *out], '"`[]\\', what, "names")
    quoted, aliases = (['"' + name.replace('"', '""') + '"' for name in side] for side in (names, out))
    texts = _any_in_sql(plan, rule.thresholds, quoted) if plan.most is None else _most_in_sql(plan, quoted)
    text = ", ".join(f"{each} AS {alias}" for each, alias in zip(texts, aliases, strict=True))
    if dialect in NATIVE:
        return text
    return translated(f"SELECT {text}", dialect).removeprefix("SELECT ")


def _any_in_sql(plan: LabelPlan, thresholds: Array | None, columns: Sequence[str]) -> list[str]:
    """Return the decision of each label by its own probability."""
    texts = []
    for k, column in enumerate(columns):
        inside = f"{column} >= 0e0 AND {column} <= 1e0"
        if not plan.decisions.positive:
            # as many labels as there are, of every row
            chosen = "1"
        elif thresholds is None or plan.decisions != ANY:
            chosen = f"CASE WHEN {_score(plan, k, column)} > 0e0 THEN 1 ELSE 0 END"
        elif np.isfinite(thresholds[k]):
            chosen = f"CASE WHEN {column} > {numeral(thresholds[k])} THEN 1 ELSE 0 END"
        else:
            chosen = str(int(thresholds[k] < 0))
        texts.append(f"CASE WHEN {inside} THEN {chosen} END")
    return texts


def _most_in_sql(plan: LabelPlan, columns: Sequence[str]) -> list[str]:
    """Return the decision of each label by how many others beat it."""
    most = plan.most
    scores = [_score(plan, k, column) for k, column in enumerate(columns)]
    L = len(scores)
    needed = 2 * L * sum(map(len, scores)) + L * L * 40
    if needed > LONGEST:
        raise InputError(
            f"`to_sql` would write about {needed:,} characters for {most} of {L} labels, which grow with the square of "
            f"their number",
            "use `to_onnx` or `to_python`",
        )
    inside = " AND ".join(f"{column} >= 0e0 AND {column} <= 1e0" for column in columns)
    texts = []
    for k, own in enumerate(scores):
        beaten = [
            f"CASE WHEN {other} {'>' if j < k else '>='} {own} THEN 1 ELSE 0 END"
            for j, other in enumerate(scores)
            if j != k
        ]
        chosen = f"{sum_of(beaten)} < {most}" + (f" AND {own} > 0e0" if plan.decisions.positive else "")
        texts.append(f"CASE WHEN {inside} THEN CASE WHEN {chosen} THEN 1 ELSE 0 END END")
    return texts


def _score(plan: LabelPlan, k: int, column: str) -> str:
    """Return the score of a label."""
    x = f"CAST({column} AS DOUBLE PRECISION)"
    a, b = float(plan.weights[k]), float(plan.offsets[k])
    if plan.maps is not None:
        slope, shift = float(plan.maps.a[k]), float(plan.maps.c[k])
        low, high = (plan.maps.column(np.array([edge]), k)[0] for edge in (0.0, 1.0))
        inner = f"{numeral(slope)} * LN({x} / (1e0 - {x})) + {numeral(shift)}"
        x = (
            f"CASE WHEN {column} <= {numeral(EDGE)} THEN {numeral(low)} WHEN {column} >= {numeral(1 - EDGE)} THEN "
            f"{numeral(high)} ELSE 1e0 / (1e0 + EXP(-({inner}))) END"
        )
    scaled = x if a == 1.0 else f"{x} * {numeral(a)}"
    return f"({scaled} + {numeral(b)})" if b else f"({scaled})"


# --- Python -----------------------------------------------------------------------------------------------------------


def labels_to_python(rule: LabelledRule, name: str = "decide", *, labels: bool = False) -> str:
    """Return the rule as the source text of a Python function that needs nothing but Python.

    Parameters
    ----------
    rule : LabelRule
        The rule to write. `LabelRule.to_python` passes itself.
    name : str
        Name of the function. It takes a sequence of L probabilities in the order of the labels and returns a list of 0
        and 1. Like `predict`, it raises `ValueError` if they are not probabilities.
    labels : bool
        Whether the function returns the names of the decided labels instead.

    Raises
    ------
    ValueError
        If the rule is randomised, ``name`` cannot name a function, or a label is neither a string nor a number.

    Examples
    --------
    >>> import confmax
    >>> rule = confmax.LabelRule.from_thresholds([0.5, 0.2], classes=["red", "round"])
    >>> exec(rule.to_python())
    >>> decide([0.6, 0.1])
    [1, 0]
    >>> exec(rule.to_python(labels=True))
    >>> decide([0.6, 0.3])
    ['red', 'round']
    """
    plan = LabelPlan.of(rule, "to_python")
    check_name(name)
    names = [str(one) if isinstance(one, str) else one for one in plan.names]
    if labels and not all(isinstance(one, (str, int, float)) for one in names):
        raise InputError("`labels` writes strings and numbers, and a label is neither", "leave `labels` out")
    L = len(names)
    # ascii() leaves no line break in a name, so that no name of a stranger's rule can leave its comment
    tuned = f"Tuned for {ascii(plan.metric)[1:-1]}; labels" if plan.metric else "Labels"
    returned = "names of the decided labels" if labels else "decisions of all labels, 0 or 1,"
    lines = [
        *(["import math", "", ""] if plan.maps is not None else []),
        f"# {tuned}, in order: {names!a}",
        f"def {name}(proba):",
        f'    """Return the {returned} from a sequence of {L} probabilities."""',
        "    p = [float(value) for value in proba]",
        f"    if len(p) != {L}:",
        f'        raise ValueError(f"this rule decides on {L} probabilities; got {{len(p)}}")',
        f"    if not all(0.0 <= value <= {1.0 + OVER!r} for value in p):",
        '        raise ValueError(f"pass probabilities from 0 to 1; got {p}")',
        "    p = [min(value, 1.0) for value in p]",
        *_python_maps(plan.maps),
        f"    weights = {plan.weights.tolist()}",
        f"    offsets = {plan.offsets.tolist()}",
        "    scores = [value * a + b for value, a, b in zip(p, weights, offsets)]",
        *_python_chosen(plan),
        "    return chosen" if not labels else f"    return [name for name, one in zip({names!a}, chosen) if one]",
    ]
    return "\n".join(lines) + "\n"


def _python_maps(maps: LabelScaling | None) -> list[str]:
    """Return the lines that calibrate a row."""
    if maps is None:
        return []
    return [
        f"    slopes = {maps.a.tolist()}",
        f"    shifts = {maps.c.tolist()}",
        f"    p = [min(max(value, {EDGE!r}), {1.0 - EDGE!r}) for value in p]",
        "    z = [a * (math.log(value) - math.log1p(-value)) + c for value, a, c in zip(p, slopes, shifts)]",
        # the exponential of a large number is an error to Python
        "    p = [1.0 / (1.0 + math.exp(-value)) if value > -700.0 else math.exp(value) for value in z]",
    ]


def _python_chosen(plan: LabelPlan) -> list[str]:
    """Return the lines that choose labels by their scores."""
    positive = plan.decisions.positive
    if plan.most is None:
        return ["    chosen = [int(score > 0.0) for score in scores]" if positive else "    chosen = [1] * len(p)"]
    above = " if scores[j] > 0.0" if positive else ""
    return [
        # of equal scores the later label comes first
        f"    best = sorted(range(len(p)), key=lambda j: (scores[j], j))[-{plan.most}:]",
        f"    best = {{j for j in best{above}}}",
        "    chosen = [int(j in best) for j in range(len(p))]",
    ]


# --- ONNX -------------------------------------------------------------------------------------------------------------


def labels_to_onnx(rule: LabelledRule, dtype: Any = "float32", *, opset: int = 18) -> Any:
    """Return the rule as an ONNX model.

    Parameters
    ----------
    rule : LabelRule
        The rule to write. `LabelRule.to_onnx` passes itself.
    dtype : {"float32", "float64"}
        Type of the probabilities. The model decides like `predict` on a table of this dtype.
    opset : int
        Version of the operator set, 13 or newer; see `DecisionRule.to_onnx`.

    Returns
    -------
    onnx.ModelProto
        Input ``proba`` (n, L), output ``decision`` (n, L) of int64: 0 or 1, or -1 in rows that `predict` refuses. Its
        metadata hold the labels' names as a JSON list under ``classes``.

    Raises
    ------
    ValueError
        If the rule is randomised, or an argument is none of the above.
    ImportError
        If onnx (extra ``confmax[onnx]``) is not installed.

    Examples
    --------
    >>> import confmax
    >>> rule = confmax.LabelRule.from_thresholds([0.5, 0.2], classes=["red", "round"])
    >>> model = rule.to_onnx()  # doctest: +SKIP
    >>> model.SerializeToString()  # doctest: +SKIP
    """
    name = checked_dtype(dtype)
    plan = LabelPlan.of(rule, "to_onnx", name)
    onnx = with_opset(opset)
    graph = Graph(onnx.helper, onnx.numpy_helper, np.dtype(name))
    L = len(plan.names)
    valid, x = _valid(graph)
    if plan.maps is not None:
        x = _calibrated(graph, plan.maps, x)
    elif plan.weights.dtype != graph.dtype:
        x = graph.cast(x, plan.weights.dtype)
    scores = graph("Add", graph("Mul", x, graph.constant(plan.weights)), graph.constant(plan.offsets))
    chosen = _chosen(graph, plan, scores)
    graph("Where", valid, chosen, graph.constant(np.int64(-1)), output=DECISION)
    kind = onnx.helper.np_dtype_to_tensor_dtype(graph.dtype)
    values = [("proba", kind, ["n", L])], [(DECISION, onnx.TensorProto.INT64, ["n", L])]
    return finished(onnx, graph, values, opset, {"classes": plan.names, "metric": plan.metric})


def _valid(graph: Graph) -> tuple[str, str]:
    """Return which rows are probabilities (n, 1), and the rows, of which none is above one."""
    # comparisons with NaN are false
    low = graph("GreaterOrEqual", "proba", graph.number(0.0))
    high = graph("LessOrEqual", graph.cast("proba", np.float64), graph.constant(1.0 + OVER))
    outside = graph.cast(graph("Not", graph("And", low, high)), np.float32)
    # sums take their axes as an input in all these operator sets, which minima do not
    count = graph("ReduceSum", outside, graph.constant(np.array([1])), keepdims=1)
    return graph("Less", count, graph.constant(np.float32(0.5))), graph("Min", "proba", graph.number(1.0))


def _calibrated(graph: Graph, maps: LabelScaling, x: str) -> str:
    """Return calibrated rows, in float64."""
    low, high = graph.constant(EDGE), graph.constant(1.0 - EDGE)
    x = graph("Min", graph("Max", graph.cast(x, np.float64), low), high)
    odds = graph("Sub", graph("Log", x), graph("Log", graph("Sub", graph.constant(1.0), x)))
    z = graph("Add", graph("Mul", odds, graph.constant(maps.a)), graph.constant(maps.c))
    return graph("Sigmoid", z)


def _chosen(graph: Graph, plan: LabelPlan, scores: str) -> str:
    """Return which labels are chosen by their scores (n, L), as int64."""
    L = len(plan.names)
    zero = graph.constant(np.zeros((), plan.weights.dtype))
    above = graph.cast(graph("Greater", scores, zero), np.int64)
    none = graph("Mul", above, graph.constant(np.int64(0)))
    if plan.most is None:
        return above if plan.decisions.positive else graph("Add", none, graph.constant(np.int64(1)))
    # of equal scores TopK takes the first, and the last is meant
    back = graph("Gather", scores, graph.constant(np.arange(L)[::-1].copy()), axis=1)
    place = graph.top(back, plan.most)
    place = graph("Sub", graph.constant(np.int64(L - 1)), place)
    ones = graph("Add", graph("Mul", place, graph.constant(np.int64(0))), graph.constant(np.int64(1)))
    chosen = graph("ScatterElements", none, place, ones, axis=1)
    return graph("Mul", chosen, above) if plan.decisions.positive else chosen
