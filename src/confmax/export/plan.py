"""What an export writes down: a deterministic rule as plain numbers, and the Python function that it becomes.

An export repeats what `DecisionRule.predict` does to one row of float64 numbers, step by step: divide a row by its sum
where that is not one, calibrate, scores, largest score, ties to the largest index. The numbers are those that the
oracles use, rounded once. `confmax.export.sql` and `confmax.export.onnx` write the same steps in their languages.
"""

from __future__ import annotations

import builtins
import keyword
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import Temperature, VectorScaling
from confmax.calibration.scaling import FLOOR
from confmax.confusion import Array, Gains
from confmax.tables import Calibrator
from confmax.tables.arrays import ROW_SUM_TOLERANCE
from confmax.tables.precision import gain_coefficients, is_wide


@dataclass(frozen=True)
class Plan:
    """A deterministic rule as an export needs it.

    Attributes
    ----------
    weights, offsets : ndarray (K,) or None
        Of reduced gains: scores ``weights_j x_j + offsets_j``.
    full : ndarray (K, M) or None
        Of full gains: scores ``sum_i full[i, j] p_i``.
    power : int
        ``x_j`` is ``p_j`` for 0, else the expected distance of the classes to this power.
    scaling : tuple of ndarray (K,), ndarray (K,), float, or None
        Powers, offsets and floor of the calibration ``softmax(power_k log(p_k + floor) + offset_k)``.
    names : tuple
        Names of the K classes, then of further decisions.
    metric : str
        What the rule was tuned for.
    labels : list (M,) or None
        What the export returns for each decision; None for its index.
    """

    weights: NDArray[Any] | None
    offsets: NDArray[Any] | None
    full: NDArray[Any] | None
    power: int
    scaling: tuple[Array, Array, float] | None
    names: tuple[Any, ...]
    metric: str
    labels: list[Any] | None = None

    @property
    def n_classes(self) -> int:
        """Number of probabilities K."""
        return len(self.full if self.full is not None else self.coefficients()[0])

    @property
    def n_decisions(self) -> int:
        """Number of decisions M."""
        return self.n_classes if self.full is None else self.full.shape[1]

    @property
    def reads_sums(self) -> bool:
        """Whether a row must be divided by its sum: a common factor changes no decision of weights or of full gains."""
        return self.scaling is not None or (self.full is None and bool(self.coefficients()[1].any()))

    def coefficients(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return weights and offsets (K,) of reduced gains."""
        assert self.weights is not None and self.offsets is not None
        return self.weights, self.offsets


def plan(
    gains: Gains,
    calibrator: Calibrator | None,
    names: Sequence[Any],
    metric: str,
    *,
    what: str,
    dtype: str = "float64",
    labels: bool = False,
) -> Plan:
    """Return the rule's numbers in a dtype, in float64 where that does not hold them.

    With ``labels`` also the labels, as ``what`` can hold them.

    Raises
    ------
    ValueError
        If the rule draws between several gains, decisions beyond the classes have no weight, its calibrator is an object that is not confmax's, or a class name
        cannot be written as a label.
    """
    if not isinstance(labels, (bool, np.bool_)):
        raise ValueError(f"labels is True for labels or False for the index; got {labels!r}")
    if len(gains) > 1:
        raise ValueError(
            f"{what} writes deterministic rules, and this randomised rule draws between {len(gains)}; tune with "
            f"randomized=False"
        )
    if calibrator is not None and not isinstance(calibrator, (Temperature, VectorScaling)):
        raise ValueError(
            f"{what} cannot write the calibration {type(calibrator).__name__}, an object that is not confmax's; tune "
            f"with calibration='auto', or apply that object yourself before and tune with calibration=None"
        )
    if gains.full is None and gains.has_further:
        raise ValueError(
            f"{what} writes one weight and one offset per decision, and a decision beyond the classes has no weight; "
            f"export the rule of the gains as matrices, Gains.from_matrix(gains.matrices())"
        )
    # numbers that span more than float32 are written, and multiplied, in float64
    kind = np.dtype(np.float64 if is_wide(gains, dtype).any() else dtype)
    first, second = gain_coefficients(gains, kind)
    scaling = None if calibrator is None else _scaling(calibrator, gains.n_classes)
    written = None
    if labels:
        written = [_plain(name) for name in names[: gains.n_decisions]]
        written = written if what == "to_python" else _of_one_type(written)
    if second is None:
        return Plan(None, None, first[0], 0, scaling, tuple(names), metric, written)
    return Plan(first[0], second[0], None, gains.power, scaling, tuple(names), metric, written)


def _plain(name: Any) -> Any:
    """Return a class name as exactly a str, bool, int or float, whose repr is a literal."""
    for kind in (bool, int, float):
        if isinstance(name, kind) and (kind is not float or math.isfinite(name)):
            return kind(name)
    if isinstance(name, str):
        return str.__str__(name)
    raise ValueError(f"labels=True writes strings and finite numbers, and a class is {name!r}; export the index")


def _of_one_type(labels: list[Any]) -> list[Any]:
    """Return labels of one type: truth values, integers of 64 bits, floats, else strings, as `str` writes them."""
    if all(isinstance(label, bool) for label in labels):
        return labels
    if not any(isinstance(label, str) for label in labels):
        whole = all(isinstance(label, int) for label in labels)
        if any(isinstance(label, int) and abs(label) >= 1 << 63 for label in labels):
            raise ValueError("labels=True writes integers of 64 bits, and a class is larger; export the index")
        return [int(label) if whole else float(label) for label in labels]
    texts = list(map(str, labels))
    if len(set(texts)) < len(texts):
        raise ValueError(f"labels=True writes {labels[:8]!r} as strings, of which two are equal; export the index")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"labels=True writes valid Unicode, and a class is not ({error}); export the index") from None
    return texts


def _scaling(calibrator: Temperature | VectorScaling, K: int) -> tuple[Array, Array, float] | None:
    """Return powers, offsets and floor; None where the calibrator returns probabilities as they are."""
    if isinstance(calibrator, Temperature):
        powers, offsets = np.full(K, 1.0 / calibrator.temperature), np.zeros(K)
    else:
        powers, offsets = calibrator.a, calibrator.b
    if (powers == 1.0).all() and (offsets == offsets[0]).all() and calibrator.floor == FLOOR:
        return None
    return powers, offsets, calibrator.floor


# --- Python -----------------------------------------------------------------------------------------------------------


def python_source(plan: Plan, name: str) -> str:
    """Return the source text of a function ``name(proba)`` without dependencies.

    Raises
    ------
    ValueError
        If ``name`` is no name of a Python function.
    """
    plain = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
    if not plain or hasattr(builtins, name) or name == "math":
        raise ValueError(f"{name!r} cannot name a Python function; give a name such as 'decide'")
    K, M = plan.n_classes, plan.n_decisions
    tolerance, rounding = ROW_SUM_TOLERANCE, 8 * float(np.finfo(np.float64).eps)
    # ascii() leaves no line break in a name, so that no name of a stranger's rule can leave its comment
    tuned = f"Tuned for {ascii(plan.metric)[1:-1]}; decisions" if plan.metric else "Decisions"
    returned = f"decided index, 0 to {M - 1}," if plan.labels is None else "label of the decided class"
    lines = [
        *(["import math", "", ""] if plan.scaling else []),
        f"# {tuned}, by index: {list(plan.names[:M])!a}",
        f"def {name}(proba):",
        f'    """Return the {returned} from a sequence of {K} probabilities."""',
        "    p = [float(value) for value in proba]",
        f"    if len(p) != {K}:",
        f'        raise ValueError(f"this rule decides on {K} probabilities; got {{len(p)}}")',
        "    total = 0.0",
        "    for value in p:",
        "        total += value",
        f"    if not (min(p) >= 0.0 and abs(total - 1.0) <= {tolerance!r}):",
        '        raise ValueError(f"pass finite probabilities that sum to one, none negative; these sum to {total}")',
        f"    if abs(total - 1.0) > {rounding!r}:",
        "        p = [value / total for value in p]",
        *(_python_calibration(*plan.scaling) if plan.scaling else []),
        *(_python_scores(plan)),
        "    best = 0",
        f"    for j in range(1, {M}):",
        "        if scores[j] >= scores[best]:  # ties go to the largest index",
        "            best = j",
        "    return best" if plan.labels is None else f"    return {plan.labels!a}[best]",
    ]
    return "\n".join(lines) + "\n"


def _python_calibration(powers: Array, offsets: Array, floor: float) -> list[str]:
    return [
        f"    powers = {powers.tolist()}",
        f"    offsets = {offsets.tolist()}",
        f"    z = [a * math.log(value + {floor!r}) + b for a, value, b in zip(powers, p, offsets)]",
        "    top = max(z)",
        "    p = [math.exp(value - top) for value in z]",
        "    total = 0.0",
        "    for value in p:",
        "        total += value",
        "    p = [value / total for value in p]",
    ]


def _python_scores(plan: Plan) -> list[str]:
    if plan.full is not None:
        rows = [f"        {row}," for row in plan.full.tolist()]
        return [
            "    gains = [",
            *rows,
            "    ]",
            f"    scores = [0.0] * {plan.n_decisions}",
            "    for value, row in zip(p, gains):",
            "        scores = [score + value * gain for score, gain in zip(scores, row)]",
        ]
    a, b = plan.coefficients()
    scores = f"    scores = [value * a + b for value, a, b in zip(p, {a.tolist()}, {b.tolist()})]"
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
