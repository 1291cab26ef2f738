"""What rules decide for labelled rows, as both are given: rows in any place, rules in an order of columns of their own.

What is decided without tuning, argmax(p) and argmax(p / prior), stands beside the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Array, Gains
from confmax.errors import InputError
from confmax.evaluate.decided import Decided, decided_by
from confmax.evaluate.lines import GainsOf, Judged, Judges, judge
from confmax.evaluate.protocols import Decides
from confmax.evaluate.rivals import on_as_many
from confmax.evaluate.scores import PLAIN
from confmax.rule import DecisionRule
from confmax.rule.labels import LabelRule
from confmax.tables import Part, Table, apply_calibrator, decide, make_table, refuse_elsewhere
from confmax.tables.columns import find
from confmax.tables.kinds import apart
from confmax.tables.labels import encode_labels, plain, vector
from confmax.tables.partitioned import is_opened

LABELS = "the labels of every row, or the name of their column"


def labelled_rows(proba: Any, beside: Sequence[Any], classes: Sequence[Any] | None) -> tuple[Any, Sequence[Any]]:
    """Return given rows, and labels, weights and groups ``beside`` them in the place of columns' names.

    Rows that stream become an opened table. The columns of probabilities are those of the ``classes``, if known.
    """
    if is_opened(proba):
        return proba, beside
    proba, given = apart(proba, dict(zip(("y", "sample_weight", "group"), beside, strict=True)), classes, "labels")
    return proba, tuple(given.values())


def labelled_table(
    proba: Any, beside: Sequence[Any], classes: Sequence[Any] | None, *, stated: bool, what: str
) -> Table:
    """Return the table of rows, with labels, weights and groups ``beside`` them; InputError without labels.

    An opened table brings them, and ``what`` counts them.
    """
    y, sample_weight, group = beside
    if is_opened(proba):
        if any(given is not None for given in beside):
            raise ValueError(
                "an opened table brings its labels, weights and groups; pass label=, weight= and group= to open_table"
            )
        if not proba.has_labels:
            raise ValueError(f"{what} needs labels; pass label= to open_table, the column of true classes")
    elif y is None:
        raise InputError(f"{what} counts labels", f"pass `y=`, {LABELS}")
    return make_table(proba, y, sample_weight, classes, stated=stated, group=group)


def refuse_decisions(rules: Mapping[str, Any], proba: Any) -> None:
    """Refuse, by a ValueError, decisions among the ``rules`` for rows that are not in memory."""
    for name, one in rules.items():
        if not isinstance(one, (Decides, LabelRule)):
            refuse_elsewhere(
                proba,
                f"the decisions of {name!r} are of rows in memory, and a table in parts is decided part by part; pass "
                f"a rule",
            )


def judge_rules(
    table: Table,
    judges: Judges,
    by_gains: GainsOf | None,
    rules: Mapping[str, Any],
    placed: Callable[[Mapping[str, Decided]], dict[str, Decided]] = dict,
) -> tuple[Judged, dict[str, dict[str, Decided]]]:
    """Return the lines of a labelled table with what rules decide, and of those that abstain what competes with them.

    ``judges`` and ``by_gains`` are those of `judge`, and ``placed`` makes what rules decide comparable. What decides as
    many rows as one of the ``rules`` that abstains is found among all rows, so of rows in parts there is nothing.
    """
    abstaining = [name for name, one in rules.items() if getattr(one, "abstain", None) is not None]

    def with_rivals() -> tuple[Judged, dict[str, dict[str, Decided]]]:
        decided = placed(judges(table.head, table.label_weight()))
        beside = rivals_on_as_many(rules, decided, table.head)
        every = decided | {name: one for some in beside.values() for name, one in some.items()}
        judged = judge(table, lambda *_: every)
        return judged, {name: {one: judged.decided[one] for one in some} for name, some in beside.items()}

    beside_all = table.sorting(with_rivals, None) if abstaining else None
    if beside_all is not None:
        return beside_all
    judged = judge(table, judges, by_gains)
    return judged._replace(decided=placed(judged.decided)), {name: {} for name in abstaining}


def rivals_on_as_many(
    rules: Mapping[str, Any], decided: Mapping[str, Decided], table: Part
) -> dict[str, dict[str, Decided]]:
    """Return for each of the ``rules`` that abstains what competes with it on as many rows, by its name.

    Lines hold no probabilities, nor does a sparse table all of them, and there is none then.
    """
    found: dict[str, dict[str, Decided]] = {}
    for name, rule in rules.items():
        if isinstance(rule, DecisionRule) and rule.abstain is not None:
            found[name] = {}
            if isinstance(table.proba, np.ndarray) and table.proba.shape[1] == table.n_classes:
                calibrator = getattr(aligned_rule(name, rule, table.classes), "calibrator", None)
                found[name] = on_as_many(name, decided[name], table, apply_calibrator(calibrator, table.proba))
    return found


def rules_decide(rules: Mapping[str, Any], table: Part, prior: Array) -> dict[str, Decided]:
    """Return what plain and given ``rules`` for the columns of a part of a table decide, by their names.

    Rules may be decisions (n,) of rows that are all in memory.
    """
    return {**plain_rules(table, prior), **{name: decided_on(name, rule, table) for name, rule in rules.items()}}


def gains_of(rules: Mapping[str, Decides], prior: Array) -> dict[str, tuple[Gains, Array]] | None:
    """Return the gains, and the share of each, of plain and given ``rules``, by their names.

    None if one of them does not decide by gains of the raw probabilities alone, the same for every row.
    """
    found = {name: (one, np.ones(1)) for name, one in zip(PLAIN, _plain_gains(prior), strict=True)}
    for name, rule in rules.items():
        if not isinstance(rule, DecisionRule) or rule.groups or rule.calibrator is not None:
            return None
        found[name] = (rule.gains, rule.weights)
    return found if len({one.n_decisions for one, _ in found.values()}) == 1 else None


def plain_rules(table: Part, prior: Array | None = None) -> dict[str, Decided]:
    """Return what is decided without tuning: argmax(p), and argmax(p / ``prior``), by default the class sizes.

    The ``prior`` (K,) is of the classes of ``table``; None takes the shares of its labels.
    """
    prior = table.label_weight() if prior is None else prior
    decisions = decide(table.proba, Gains.concatenate(_plain_gains(prior)))
    return {name: Decided(line[None], np.ones(1), table.n_classes) for name, line in zip(PLAIN, decisions, strict=True)}


def _plain_gains(prior: Array) -> tuple[Gains, Gains]:
    return Gains.reduced(np.ones(len(prior))), by_prior(prior)


def by_prior(prior: Array) -> Gains:
    """Return the gain of p / ``prior`` (K,), which never decides a class without weight."""
    return Gains.reduced(np.divide(1.0, prior, out=np.zeros(len(prior)), where=prior > 0))


def decided_on(name: str, rule: Decides | Decided | ArrayLike, table: Part) -> Decided:
    """Return what a rule, or decisions by name, decide on raw probabilities."""
    if isinstance(rule, Decided):
        return rule
    if isinstance(rule, Decides):
        return decided_by(aligned_rule(name, rule, table.classes), table)
    try:
        codes = encode_labels(vector(rule, "the decisions", "one class"), table.classes, table.n_rows)
    except ValueError as error:
        raise ValueError(f"the decisions of {name!r} are not class labels: {error}") from None
    return Decided(codes[None], np.ones(1), table.n_classes)


def aligned_rule(name: str, rule: Decides, classes: tuple[Any, ...]) -> Decides:
    """Return a rule for the columns ``classes``."""
    K = len(classes)
    names = rule.class_names[: rule.n_classes]
    if rule.n_classes == K and (names == classes or names == tuple(range(K))):
        return rule
    match = find([str(plain(one)) for one in names], classes) if rule.n_classes == K else None
    if match is None or match.places is None:
        raise ValueError(
            f"the rule {name!r} decides between {list(names)[:8]} and the table has the classes {list(classes)[:8]}; "
            f"pass the columns that it was tuned on, or classes= with their names"
        )
    return rule.reordered((*(names[k] for k in match.places), *rule.class_names[K:]))


def column_order(rules: Sequence[Decides]) -> tuple[Any, ...] | None:
    """Return the order of the columns by the names that the rules have for them."""
    orders = {rule.class_names[: rule.n_classes] for rule in rules} - {tuple(range(rule.n_classes)) for rule in rules}
    if len(orders) > 1:
        raise ValueError(
            "the rules name their columns in different orders; pass classes= with the names in column order"
        )
    return orders.pop() if orders else None
