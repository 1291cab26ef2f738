"""A rule as an ONNX graph: probabilities in, decided indices or labels out.

Reduced and full gains are written as the operations of the reference oracle in its order (one product and one sum at a
time, never a matrix product), so that a runtime which computes them as they stand decides every row as `predict` does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax._version import __version__
from confmax.export.plan import Plan, plans_of
from confmax.tables.arrays import ROW_SUM_TOLERANCE
from confmax.tables.kinds import Rule

OLDEST = 13  # operator set: sums take their axes as an input since then
# by the type of labels, which is one: NumPy's type, and what stands in rows that are no probabilities
_LABELS: dict[type, tuple[Any, Any]] = {
    bool: (np.bool_, False),
    int: (np.int64, -1),
    float: (np.float64, np.nan),
    str: (object, ""),
}


def to_onnx(rule: Rule, dtype: Any = "float32", *, opset: int = 18, labels: bool = False) -> Any:
    """Return the rule as an ONNX model.

    Parameters
    ----------
    rule : DecisionRule
        The rule to write. `DecisionRule.to_onnx` passes itself.
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
        (n,) holds the index; where the index is -1, the label is -1, NaN, false or "". Beside integers this is also
        the label of abstaining: there the index tells rows that are refused.

        The model of a rule with groups has a second input, ``group`` (n,) of int64: the place of the row's group in
        the JSON list ``groups`` of the metadata, or -1 for none of them. Rows without a known group are decided -1.

    Raises
    ------
    ValueError
        If the rule is randomised, decides by the probabilities of groups, its calibration is an object that confmax
        does not provide, an argument is none of the above, or a name cannot be written as a label.
    ImportError
        If onnx (extra ``confmax[onnx]``) is not installed.

    Examples
    --------
    >>> import confmax
    >>> rule = confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
    >>> model = rule.to_onnx()  # doctest: +SKIP
    >>> model.SerializeToString()  # doctest: +SKIP
    """
    name = checked_dtype(dtype)
    # a rule that cannot be written is refused first, whether onnx is installed or not
    plans = plans_of(rule, "to_onnx", name, labels=labels)
    onnx = with_opset(opset)
    return _model(onnx, plans, rule.groups, np.dtype(name), opset)


def checked_dtype(dtype: Any) -> str:
    """Return the name of the type of the probabilities, or refuse another one."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = repr(dtype)
    # np.dtype(None) is float64, which a caller who passes None has not chosen
    if dtype is None or name not in ("float32", "float64"):
        raise ValueError(f"dtype is 'float32' or 'float64', that of the probabilities; got {dtype!r}")
    return name


def with_opset(opset: Any) -> Any:
    """Return the module onnx, or refuse a version of the operator set that it does not know."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ImportError(f"to_onnx needs {error.name}; install it with: pip install 'confmax[onnx]'") from None
    newest = onnx.defs.onnx_opset_version()
    if isinstance(opset, bool) or not isinstance(opset, int) or not OLDEST <= opset <= newest:
        raise ValueError(f"opset is a whole number from {OLDEST} to {newest}, what this onnx knows; got {opset!r}")
    return onnx


def _model(onnx: Any, plans: Sequence[Plan], groups: Sequence[Any], dtype: np.dtype[Any], opset: int) -> Any:
    """Return the model, checked: input ``proba`` (n, K) of the dtype, output ``decision`` (n,) of int64.

    With labels, ``decision`` holds these and a second output ``index`` the int64. With groups, there is a plan for
    each, and a second input ``group`` (n,) of int64.
    """
    plan = plans[0]
    helper = onnx.helper
    kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    graph = Graph(helper, onnx.numpy_helper, dtype)
    valid, x = _calibrated(graph, plan, divides=any(one.reads_sums for one in plans))
    refused_index = graph.constant(np.int64(-1))
    index = _by_group(graph, plans, x, refused_index) if groups else _decided(graph, plan, x)
    outputs = {"decision" if plan.labels is None else "index": onnx.TensorProto.INT64}
    index = graph("Where", valid, index, refused_index, output=next(iter(outputs)))
    if plan.labels is not None:
        dtype_of_label, refused = _LABELS[type(plan.labels[0])]
        # a refused row has the index -1, which takes the last label
        labels = graph.constant(np.array([*plan.labels, refused], dtype_of_label))
        graph("Gather", labels, index, axis=0, output="decision")
        outputs = {"decision": helper.np_dtype_to_tensor_dtype(np.dtype(dtype_of_label)), **outputs}
    named = {"classes": plan.names, **({"groups": groups} if groups else {})}
    inputs: list[Value] = [
        ("proba", kind, ["n", plan.n_classes]),
        *([("group", onnx.TensorProto.INT64, ["n"])] if groups else []),
    ]
    shapes: list[Value] = [(name, kind, ["n"]) for name, kind in outputs.items()]
    return finished(onnx, graph, (inputs, shapes), opset, {**named, "metric": plan.metric})


Value = tuple[str, Any, list[Any]]  # name, type and shape of an input or output


def finished(
    onnx: Any, graph: Graph, values: tuple[list[Value], list[Value]], opset: int, about: dict[str, Any]
) -> Any:
    """Return the checked model of a graph with inputs and outputs; what it is ``about`` goes to its metadata."""
    helper = onnx.helper
    inputs, outputs = ([helper.make_tensor_value_info(*value) for value in side] for side in values)
    # runtimes refuse a newer version of the format than they know, so it is the oldest that has the operators
    model = helper.make_model_gen_version(
        helper.make_graph(graph.nodes, "confmax_rule", inputs, outputs, initializer=graph.constants),
        opset_imports=[helper.make_opsetid("", opset)],
        producer_name="confmax",
        producer_version=__version__,
    )
    written = {
        what: told if isinstance(told, str) else json.dumps(list(told), default=str) for what, told in about.items()
    }
    helper.set_model_props(model, written)
    onnx.checker.check_model(model, full_check=True)
    return model


class Graph:
    """Collects nodes; every call adds one and returns the name of its output."""

    def __init__(self, helper: Any, numpy_helper: Any, dtype: np.dtype[Any]) -> None:
        self.helper = helper
        self.numpy_helper = numpy_helper
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, operation: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = output or f"rule_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operation, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        """Return the name of a constant, in the dtype that it has."""
        name = f"rule_constant_{len(self.constants)}"
        self.constants.append(self.numpy_helper.from_array(np.asarray(value), name))
        return name

    def number(self, value: Any) -> str:
        """Return the name of a constant in the dtype of the probabilities."""
        return self.constant(np.asarray(value, self.dtype))

    def cast(self, x: str, dtype: Any) -> str:
        """Return x in another dtype."""
        return self("Cast", x, to=self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def top(self, x: str, most: int) -> str:
        """Return the places (n, most) of the largest numbers of each row of x, the first of equal ones."""
        values, places = (f"rule_{len(self.nodes)}_{what}" for what in ("values", "places"))
        count = self.constant(np.array([most]))
        self.nodes.append(self.helper.make_node("TopK", [x, count], [values, places], axis=1))
        return places

    def columns(self, x: str, K: int) -> list[str]:
        """Return the K columns (n, 1) of x."""
        names = [f"rule_{len(self.nodes)}_{k}" for k in range(K)]
        sizes = self.constant(np.ones(K, np.int64))
        self.nodes.append(self.helper.make_node("Split", [x, sizes], names, axis=1))
        return names


def _calibrated(graph: Graph, plan: Plan, *, divides: bool) -> tuple[str, str]:
    """Return which rows are probabilities (n,), and the rows (n, K), calibrated, and divided by their sums before."""
    axis = graph.constant(np.array([1]))
    total = graph("ReduceSum", graph.cast("proba", np.float64), axis, keepdims=1)
    off = graph("Abs", graph("Sub", total, graph.constant(1.0)))
    below = graph.cast(graph("Less", "proba", graph.number(0.0)), np.float64)
    negative = graph("ReduceSum", below, axis, keepdims=0)
    near = graph("LessOrEqual", graph("Squeeze", off, axis), graph.constant(ROW_SUM_TOLERANCE))
    valid = graph("And", near, graph("Less", negative, graph.constant(0.5)))
    x = "proba"
    # rows that sum to one within rounding stay as they are, as in `predict`
    if divides:
        rounding = graph.constant(8 * float(np.finfo(graph.dtype).eps))
        divided = graph.cast(graph("Div", graph.cast(x, np.float64), total), graph.dtype)
        x = graph("Where", graph("Greater", off, rounding), divided, x)
    if plan.scaling is not None:
        powers, offsets, floor = plan.scaling
        # in float64, as the calibrators compute
        z = graph("Log", graph("Add", graph.cast(x, np.float64), graph.constant(floor)))
        z = graph("Mul", z, graph.constant(powers)) if powers.ndim == 1 else _product(graph, z, powers.T)
        # an offset of minus infinity leaves a class out of the softmax
        own = np.arange(plan.n_classes) == (-1 if plan.kept is None else plan.kept)
        z = graph("Add", z, graph.constant(np.where(own, -np.inf, offsets)))
        out = graph.cast(graph("Softmax", z, axis=1), graph.dtype)
        if plan.kept is not None:
            rest = graph("Sub", graph.number(1.0), graph("Gather", x, graph.constant(np.array([plan.kept])), axis=1))
            rest = graph("Relu", rest)
            out = graph("Where", graph.constant(own), x, graph("Mul", out, rest))
        x = out
    return valid, x


def _by_group(graph: Graph, plans: Sequence[Plan], x: str, refused: str) -> str:
    """Return the decided index (n,) by the gains of the row's group, ``refused`` where it is none of them."""
    index = refused
    for k, plan in enumerate(plans):
        here = graph("Equal", "group", graph.constant(np.int64(k)))
        index = graph("Where", here, _decided(graph, plan, x), index)
    return index


def _decided(graph: Graph, plan: Plan, x: str) -> str:
    """Return the decided index (n,) of calibrated rows (n, K), the last of equal scores."""
    if plan.first is None:
        return _largest(graph, _scores(graph, plan, x))
    others = graph.constant(np.array(plan.others))
    scores = x if plan.others_alike else _scores(graph, plan, x)
    index = graph("Gather", others, _largest(graph, graph("Gather", scores, others, axis=1)), axis=0)
    own = graph("Gather", x, graph.constant(np.int64(plan.first.k)), axis=1)
    for decision, cut in reversed(plan.first.steps):
        reached = graph("GreaterOrEqual", own, graph.number(cut))
        index = graph("Where", reached, graph.constant(np.int64(decision)), index)
    return index


def _largest(graph: Graph, scores: str) -> str:
    """Return the place (n,) of the largest score of each row, of the last of equal ones."""
    return graph("ArgMax", scores, axis=1, keepdims=0, select_last_index=1)


def _scores(graph: Graph, plan: Plan, x: str) -> str:
    """Return the scores (n, M) of calibrated rows (n, K)."""
    K = plan.n_classes
    kind = plan.gains.dtype
    if kind != graph.dtype:
        # the weights span more than the probabilities' type holds
        x = graph.cast(x, kind)
    if plan.offsets is None:
        return _product(graph, x, plan.gains)
    if plan.power:
        x = graph("Concat", *_distances(graph, graph.columns(x, K), plan.power, kind), axis=1)
    scores = graph("Mul", x, graph.constant(plan.gains))
    further = plan.n_decisions - K
    if further:
        # a decision beyond the classes scores its offset
        scores = graph("Pad", scores, graph.constant(np.array([0, 0, 0, further])))
    return graph("Add", scores, graph.constant(plan.offsets))


def _product(graph: Graph, x: str, matrix: NDArray[Any]) -> str:
    """Return x (n, K) times a matrix (K, M) of its dtype, whose terms are added in their order."""
    # one product and one sum at a time: runtimes add up a matrix product in an order of their own
    total = ""
    for column, row in zip(graph.columns(x, len(matrix)), matrix, strict=True):
        term = graph("Mul", column, graph.constant(row))
        total = graph("Add", total, term) if total else term
    return total


def _distances(graph: Graph, p: Sequence[str], power: int, kind: np.dtype[Any]) -> list[str]:
    """Return the expected distances (n, 1) of each class, by the operations of the oracles' `features`."""

    def number(value: float) -> str:
        return graph.constant(np.asarray(value, kind))

    zero = graph("Mul", p[0], number(0.0))
    total = p[0]
    mean = zero
    square = zero
    for i, column in enumerate(p[1:], start=1):
        total = graph("Add", total, column)
        mean = graph("Add", mean, graph("Mul", column, number(i)))
        square = graph("Add", square, graph("Mul", column, number(i * i)))
    if power == 2:
        # sum_i (i - j)^2 p_i, multiplied out: two moments of p serve all j
        far = [graph("Add", square, graph("Mul", total, number(j * j))) for j in range(len(p))]
        return [graph("Sub", each, graph("Mul", mean, number(2 * j))) for j, each in enumerate(far)]
    # from class j to j + 1 the distance to all classes up to j grows by one, and that to the others shrinks by one
    out = []
    below = zero
    distance = mean
    for column in p:
        out.append(distance)
        below = graph("Add", below, column)
        distance = graph("Add", distance, graph("Sub", graph("Add", below, below), total))
    return out
