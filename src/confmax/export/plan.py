"""What an export writes down: a deterministic rule as plain numbers.

An export repeats what `DecisionRule.predict` does to one row of float64 numbers, step by step: divide a row by its sum
where that is not one, calibrate, scores, largest score, ties to the largest index. The numbers are those that the
oracles use, rounded once. `sql`, `onnx` and `python` write the same steps in their languages. Without logarithms,
decisions on rows that sum to one are those of `predict`, ties included; where two scores differ by rounding only (8
units in the last place; 1e-12 in SQL), either may win.

Gains that compare the probability of one class first are written in two steps: this comparison, with the numbers in
clear, then the best of the other classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import Scaling
from confmax.calibration.thresholds import abstaining_class_cuts, class_first, decided_from
from confmax.confusion import Array, Gains
from confmax.errors import InputError
from confmax.tables.kinds import Rule
from confmax.tables.precision import gain_coefficients, is_wide


class FirstSteps(NamedTuple):
    """Decisions by the probability of one class, k, before the others are compared.

    ``steps`` are decisions with the probability from which on each is made if none before it is; 0 for always.
    """

    k: int
    steps: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Plan:
    """A deterministic rule as an export needs it."""

    # reduced gains (K,): scores `gains_j x_j + offsets_j`; full gains (K, M): scores `sum_i gains[i, j] p_i`
    gains: NDArray[Any]
    offsets: NDArray[Any] | None  # (M,) of reduced gains; those beyond the classes are the scores of further decisions
    power: int  # x_j is p_j for 0, else the expected distance of the classes to this power
    # W, (K, K) or a diagonal (K,), b (K,) and floor of the calibration `softmax(W log(p + floor) + b)`
    scaling: tuple[Array, Array, float] | None
    names: tuple[Any, ...]  # of the K classes, then of further decisions
    metric: str  # what the rule was tuned for
    labels: list[Any] | None = None  # (M,), what the export returns for each decision; None for its index
    # decisions by one class: gains and offsets then decide between the others, and mean nothing in its place
    first: FirstSteps | None = None
    kept: int | None = None  # a class that keeps its probability; the others share the rest by their own softmax

    @property
    def n_classes(self) -> int:
        """Number of probabilities K."""
        return len(self.gains)

    @property
    def n_decisions(self) -> int:
        """Number of decisions M."""
        return self.gains.shape[-1] if self.offsets is None else len(self.offsets)

    @property
    def has_offsets(self) -> bool:
        """Whether some reduced gain has an offset that is not zero."""
        return self.offsets is not None and bool(self.offsets.any())

    @property
    def reads_sums(self) -> bool:
        """Whether a row must be divided by its sum: a common factor changes no decision of weights or of full gains."""
        return self.scaling is not None or self.has_offsets or self.first is not None

    @property
    def others(self) -> list[int]:
        """The classes beside the one that is compared first."""
        return [j for j in range(self.n_classes) if self.first is None or j != self.first.k]

    @property
    def others_alike(self) -> bool:
        """Whether the most probable class is decided, beside any that is compared first."""
        return self.power == 0 and not self.has_offsets and bool((self.gains == 1.0).all())


def plans_of(rule: Rule, what: str, dtype: str = "float64", *, labels: bool = False) -> list[Plan]:
    """Return the numbers of ``rule`` in a dtype, in float64 where that does not hold them: a plan for each group.

    A rule without groups has one plan. With ``labels`` also the labels, as ``what`` can hold them: "to_sql", "to_onnx"
    or "to_python".
    """
    if not isinstance(labels, (bool, np.bool_)):
        raise ValueError(f"labels is True for labels or False for the index; got {labels!r}")
    if not rule.groups_known:
        raise ValueError(
            f"{what} cannot write a rule that decides by the probabilities of groups; call predict with group_proba=, "
            f"or tune with group= in place of group_proba="
        )
    each = [rule.of_group(name) for name in rule.groups] or [rule]
    return [_plan_of(one, what, dtype, labels=labels) for one in each]


def _plan_of(rule: Rule, what: str, dtype: str, *, labels: bool) -> Plan:
    """Return the plan of a rule without groups."""
    gains = rule.gains
    calibrator = rule.calibrator
    if len(gains) > 1:
        raise InputError(
            f"`{what}` writes deterministic rules, and this randomised rule draws between {len(gains)}",
            "tune with `randomized=False`",
            "randomized",
        )
    if calibrator is not None and not isinstance(calibrator, Scaling):
        raise ValueError(
            f"{what} cannot write the calibration {type(calibrator).__name__}, an object that is not confmax's; tune "
            f"with calibration='auto', or apply that object yourself before and tune with calibration=None"
        )
    first = None
    alike = Gains.reduced(np.ones(gains.n_classes), np.zeros(gains.n_decisions))
    found = class_first(gains)
    abstains = abstaining_class_cuts(gains)
    if found is not None:
        first = _steps(found.k, (found.k, decided_from(gains, found.k, dtype)))
        gains = alike if found.others is None else found.others
    elif abstains is not None:
        k, low, high = abstains
        first = _steps(k, (k, high), (gains.n_classes, low))
        gains = alike
    # numbers that span more than float32 are written, and multiplied, in float64
    kind = np.dtype(np.float64 if is_wide(gains, dtype).any() else dtype)
    weights, offsets = gain_coefficients(gains, kind)
    if gains is alike:
        weights = np.ones_like(weights)
    scaling = None
    kept = None
    # probabilities that nothing changes have no logarithm, as in `predict`
    if calibrator is not None and not calibrator.is_identity:
        scaling = (*calibrator.parameters(gains.n_classes), calibrator.floor)
        kept = calibrator.kept
    written = None
    # Python alone holds labels of several types side by side
    if labels:
        written = [_plain(name) for name in rule.class_names[: gains.n_decisions]]
        written = written if what == "to_python" else _of_one_type(written)
    offsets = None if offsets is None else offsets[0]
    return Plan(weights[0], offsets, gains.power, scaling, tuple(rule.class_names), rule.metric, written, first, kept)


def _steps(k: int, *steps: tuple[int, float]) -> FirstSteps:
    """Return decisions by the probability of class k, without those that are never made."""
    return FirstSteps(k, tuple((decision, cut) for decision, cut in steps if math.isfinite(cut)))


def group_literals(rule: Rule, what: str) -> list[Any]:
    """Return the names of a rule's groups as exactly a str, bool, int or float each; for "to_sql" of one type."""
    names = [
        _plain(name, what + " writes groups that are strings or finite numbers, and one is {!r}; rename it")
        for name in rule.groups
    ]
    kinds = {float if type(name) is int else type(name) for name in names}
    if what == "to_sql" and len(kinds) > 1:
        raise ValueError(
            f"to_sql compares one column with the groups {names[:8]!r}, which are of several types; rename "
            f"them, or use to_python"
        )
    return names


def _plain(
    name: Any, refusal: str = "labels=True writes strings and finite numbers, and a class is {!r}; export the index"
) -> Any:
    """Return a name as exactly a str, bool, int or float, whose repr is a literal; anything else is refused."""
    for kind in (bool, int, float):
        if isinstance(name, kind) and (kind is not float or math.isfinite(name)):
            return kind(name)
    if isinstance(name, str):
        return str.__str__(name)
    raise ValueError(refusal.format(name))


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
