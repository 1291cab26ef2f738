"""A rule for columns in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from confmax.calibration.words import listed, with_columns_moved
from confmax.confusion import Gains

R = TypeVar("R", bound=Any)  # rules of one class


def reordered(rule: R, class_names: Sequence[Any]) -> R:
    """Return the ``rule`` for columns in the order ``class_names``, which holds the rule's names.

    Raises
    ------
    ValueError
        If the names differ from the rule's, or the calibrator is an object without a method ``reordered(index)``.
    """
    if rule.layout is not None:
        known = replace(rule, groups_known=True)
        each = [known.of_group(name).reordered(class_names) for name in rule.groups]
        gains = rule.layout.beside([one.gains for one in each])
        return replace(each[0], gains=gains, groups=rule.groups, groups_known=rule.groups_known)
    K = rule.n_classes
    same = len(class_names) == len(rule.class_names) and set(class_names) == set(rule.class_names)
    if not same or tuple(class_names[K:]) != rule.class_names[K:]:
        raise ValueError(
            f"the rule's classes are {listed(rule.class_names)}, of which the first {K} can be reordered; got "
            f"{listed(class_names)}"
        )
    # a dictionary, not a search of each name: that took minutes with 100 000 classes
    place = {name: k for k, name in enumerate(rule.class_names[:K])}
    index = [place[name] for name in class_names[:K]]
    decisions = [*index, *range(K, rule.n_decisions)]
    # distances of classes are distances of columns: in another order they are a whole matrix
    if rule.gains.full is not None or (rule.gains.power and index != list(range(K))):
        gains = Gains(full=np.ascontiguousarray(rule.gains.matrices()[:, index][:, :, decisions]))
    else:
        a, b = rule.gains.coefficients()
        gains = Gains.reduced(a[:, index], b[:, decisions], power=rule.gains.power)
    calibrator: Any = rule.calibrator
    if calibrator is not None and index != list(range(K)):
        if not callable(getattr(calibrator, "reordered", None)):
            raise ValueError(
                f"the calibration {type(calibrator).__name__} of this rule has no reordered(index); pass the "
                f"columns in the order {list(rule.class_names[:K])}"
            )
        calibrator = calibrator.reordered(index)
    return replace(
        rule,
        gains=gains,
        class_names=tuple(class_names),
        metric=with_columns_moved(rule.metric, {old: new for new, old in enumerate(index)}),
        calibrator=calibrator,
        groups_known=True,
        shares=None if rule.shares is None else rule.shares.reordered(index),
        cost_table=None if rule.cost_table is None else rule.cost_table.reordered(index),
        positive=index.index(rule.positive) if K == 2 else 1,
        columns=tuple(rule.columns[k] for k in index) if rule.columns else (),
    )
