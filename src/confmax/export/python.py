"""A rule as the source text of a Python function, which needs nothing but Python."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.export.plan import FirstSteps, Plan, group_literals, plans_of
from confmax.tables.arrays import ROW_SUM_TOLERANCE
from confmax.tables.kinds import Rule

# in a loop: `sum` of Python compensates for rounding since 3.12, and `predict` does not
_TOTAL = ["    total = 0.0", "    for value in p:", "        total += value"]


def to_python(rule: Rule, name: str = "decide", *, labels: bool = False) -> str:
    """Return the rule as the source text of a Python function that needs nothing but Python.

    Parameters
    ----------
    rule : DecisionRule
        The rule to write. `DecisionRule.to_python` passes itself.
    name : str
        Name of the function. It takes a sequence of K probabilities in class order and returns the decided index.
        Of a rule with groups, it takes the group of the row as its second argument. Like `predict`, it raises
        `ValueError` if they are not probabilities, or the rule does not know the group.
    labels : bool
        Whether the function returns the class's name instead of its index.

    Raises
    ------
    ValueError
        If the rule is randomised, decides by the probabilities of groups, its calibration is an object that confmax
        does not provide, ``name`` cannot name a function, or a class or group cannot be written.

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
    plans = plans_of(rule, "to_python", labels=labels)
    groups = group_literals(rule, "to_python")
    plan = plans[0]
    check_name(name)
    K = plan.n_classes
    M = plan.n_decisions
    tolerance = ROW_SUM_TOLERANCE
    rounding = 8 * float(np.finfo(np.float64).eps)
    # ascii() leaves no line break in a name, so that no name of a stranger's rule can leave its comment
    tuned = f"Tuned for {ascii(plan.metric)[1:-1]}; decisions" if plan.metric else "Decisions"
    returned = f"decided index, 0 to {M - 1}," if plan.labels is None else "label of the decided class"
    takes, a_group = ("proba, group", " and the group of their row") if groups else ("proba", "")
    lines = [
        *(["import math", "", ""] if plan.scaling else []),
        f"# {tuned}, by index: {list(plan.names[:M])!a}",
        f"def {name}({takes}):",
        f'    """Return the {returned} from a sequence of {K} probabilities{a_group}."""',
        "    p = [float(value) for value in proba]",
        f"    if len(p) != {K}:",
        f'        raise ValueError(f"this rule decides on {K} probabilities; got {{len(p)}}")',
        *_TOTAL,
        f"    if not (min(p) >= 0.0 and abs(total - 1.0) <= {tolerance!r}):",
        '        raise ValueError(f"pass finite probabilities that sum to one, none negative; these sum to {total}")',
        f"    if abs(total - 1.0) > {rounding!r}:",
        "        p = [value / total for value in p]",
        *(_python_calibration(*plan.scaling, plan.kept) if plan.scaling else []),
        *(_python_by_group(plans, groups) if groups else _python_scores(plan)),
        "    best = 0",
        f"    for j in range(1, {M}):",
        "        if scores[j] >= scores[best]:  # ties go to the largest index",
        "            best = j",
        "    return best" if plan.labels is None else f"    return {plan.labels!a}[best]",
    ]
    return "\n".join(lines) + "\n"


def check_name(name: Any) -> None:
    """Refuse what cannot name the function."""
    plain = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
    if not plain or hasattr(builtins, name) or name == "math":
        raise ValueError(f"{name!r} cannot name a Python function; give a name such as 'decide'")


def _python_calibration(powers: Array, offsets: Array, floor: float, kept: int | None) -> list[str]:
    """Return the lines that calibrate a row; a class that is ``kept`` has no part in the softmax of the others."""
    if powers.ndim == 1:
        z = [
            f"    powers = {powers.tolist()}",
            f"    offsets = {offsets.tolist()}",
            f"    z = [a * math.log(value + {floor!r}) + b for a, value, b in zip(powers, p, offsets)]",
        ]
    else:
        z = [
            f"    logs = [math.log(value + {floor!r}) for value in p]",
            *_python_product("logs", "powers", powers.T, "z"),
            f"    offsets = {offsets.tolist()}",
            "    z = [score + b for score, b in zip(z, offsets)]",
        ]
    own = [] if kept is None else [f"    own, z[{kept}] = p[{kept}], -math.inf"]
    rest = [] if kept is None else ["    p = [value * max(1.0 - own, 0.0) for value in p]", f"    p[{kept}] = own"]
    return [
        *z,
        *own,
        "    top = max(z)",
        "    p = [math.exp(value - top) for value in z]",
        *_TOTAL,
        "    p = [value / total for value in p]",
        *rest,
    ]


def _python_product(row: str, name: str, matrix: NDArray[Any], out: str) -> list[str]:
    """Return the lines that multiply a row by a matrix; the terms of a sum are added in their order."""
    return [
        f"    {name} = [",
        *(f"        {line}," for line in matrix.tolist()),
        "    ]",
        f"    {out} = [0.0] * {matrix.shape[1]}",
        f"    for value, row in zip({row}, {name}):",
        f"        {out} = [score + value * {name[:-1]} for score, {name[:-1]} in zip({out}, row)]",
    ]


def _python_by_group(plans: Sequence[Plan], groups: Sequence[Any]) -> list[str]:
    """Return the lines that compute the scores by the gains of the row's group."""
    lines = []
    for k, (plan, group) in enumerate(zip(plans, groups, strict=True)):
        lines += [f"    {'elif' if k else 'if'} group == {group!a}:", *(f"    {line}" for line in _python_scores(plan))]
    return [
        *lines,
        "    else:",
        f"        known = {list(groups)!a}",
        '        raise ValueError(f"this rule decides the groups {known}; got {group!r}")',
    ]


def _python_scores(plan: Plan) -> list[str]:
    if plan.offsets is None:
        return _python_product("p", "gains", plan.gains, "scores")
    if plan.first is not None:
        return _python_two_steps(plan, plan.first)
    return _python_reduced(plan)


def _python_two_steps(plan: Plan, first: FirstSteps) -> list[str]:
    """Return the lines that decide by the probability of one class, and compute the scores of the others."""
    lines = []
    for decision, cut in first.steps:
        returned = decision if plan.labels is None else plan.labels[decision]
        lines += [f"    if p[{first.k}] >= {cut!r}:", f"        return {returned!a}"]
    further = plan.n_decisions - plan.n_classes
    alike = "list(p)" if not further else f"p + {[0.0] * further}"
    return [
        *lines,
        *([f"    scores = {alike}"] if plan.others_alike else _python_reduced(plan)),
        # neither the class nor further decisions are compared with the others
        *(f'    scores[{j}] = -float("inf")' for j in range(plan.n_decisions) if j not in plan.others),
    ]


def _python_reduced(plan: Plan) -> list[str]:
    """Return the lines that compute the scores of reduced gains."""
    assert plan.offsets is not None
    K = plan.n_classes
    a = plan.gains.tolist()
    b = plan.offsets.tolist()
    # a decision beyond the classes scores its offset
    beyond = f" + {b[K:]}" if b[K:] else ""
    scores = f"    scores = [value * a + b for value, a, b in zip(p, {a}, {b[:K]})]{beyond}"
    return [*_python_distances(plan.power), scores]


def _python_distances(power: int) -> list[str]:
    """Return the lines that put the expected distances of the classes, as `features` of the oracles, in place of p."""
    if power == 0:
        return []
    sums = [
        "    total, mean, square = p[0], 0.0, 0.0",
        "    for i in range(1, len(p)):",
        "        total, mean, square = total + p[i], mean + p[i] * i, square + p[i] * (i * i)",
    ]
    if power == 2:
        return [*sums, "    p = [(square + total * (j * j)) - mean * (2 * j) for j in range(len(p))]"]
    return [
        *sums,
        "    below, distances = 0.0, []",
        "    for value in p:",
        "        distances.append(mean)",
        "        below += value",
        "        mean += below + below - total",
        "    p = distances",
    ]
