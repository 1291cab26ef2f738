"""The expression of a rule in SQL: arithmetic and CASE over one column per class.

The largest score is found by halves, ``CASE WHEN GREATEST(upper half) >= GREATEST(lower half) THEN ... ELSE ...
END``, because engines expand ``CASE GREATEST(...) WHEN ...`` to K copies (100 classes in DuckDB: 1.1 s of planning
against .1 s): every score is written once per level of halves, about K log K in all, each row computes about 2 K of
them, and ties go to the upper half. Where scores share long parts (a row's sum in every score of a rule with offsets,
a softmax), writing them out would cost K^2 or K^3; then the parts get names in nested steps, which together are still
one scalar expression, of a length that is linear in K. A step is a select without tables. DuckDB turns such a select
into a join, which returns the rows in another order, so there a step is a list of one struct: ``[{...} FOR r IN
[...]]``. All versions of DuckDB read this comprehension; they do not agree on how a lambda function is written.
CASE keeps rows that are no probabilities out of these lists, so no part of a step is NULL.

The groups of a rule share the calibration, which is written once; CASE chooses their numbers (`by_group`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confmax.confusion import Array
from confmax.export.by_group import Groups, JointPlan
from confmax.export.plan import Plan
from confmax.tables.arrays import ROW_SUM_TOLERANCE

GROUP = 50  # arguments of GREATEST; SQLite takes 100
COMPARED = 8  # values at once where nothing gives the largest: SQLite before 3.46 reads 14 nested selects
DEEP = 64  # terms of a sum, each of which is one level of an expression; DuckDB 1.0 binds 128 levels
RANGE = 300.0  # nats by which the largest exponent of a softmax may vary between rows without a maximum per row


@dataclass(frozen=True)
class _Steps:
    """How a dialect writes steps, each of which names values that the one around it reads."""

    use: str
    define: str
    step: str
    result: str
    dot: str = ""  # the sum of products of two lists: in DuckDB's lists every operation that is written takes time
    skips: bool = False  # whether CASE around the steps keeps rows out of them


_SELECTS = _Steps("{name}", "{value} AS {name}", " FROM (SELECT {items}{before}) AS {row}", "(SELECT {value}{steps})")
# the planner would write a named part out again wherever it is used, were it not for the limit
_LIMITED = replace(_SELECTS, step=" FROM (SELECT {items}{before} LIMIT 1) AS {row}")
# without the brackets a table or a column of that name would be read in place of the step
_LISTS = _Steps(
    "({row}).{name}",
    "{name}: {value}",
    " FOR {row} IN [{{{items}}}{before}]",
    "[{value}{steps}][1]",
    "LIST_INNER_PRODUCT",
    skips=True,
)


@dataclass(frozen=True)
class Words:
    """How a dialect says things; functions that it lacks are empty and written with CASE."""

    number: str
    greatest: str
    least: str
    steps: _Steps


NATIVE = {
    "duckdb": Words("DOUBLE", "GREATEST", "LEAST", _LISTS),
    "sqlite": Words("REAL", "MAX", "MIN", _LIMITED),
    # what DuckDB, PostgreSQL and SQLite all read; they do not agree on the name of the largest of several numbers
    "standard": Words("DOUBLE PRECISION", "", "", _LIMITED),
}
# what sqlglot translates into other dialects, as an expression of DuckDB
TRANSLATED = replace(NATIVE["duckdb"], steps=_SELECTS)


class _TooLong(Exception):
    """An expression without selects would be too long."""


@dataclass(frozen=True)
class Frame:
    """What the expressions of all groups share."""

    words: Words
    prefix: str  # of the names of parts, in steps
    labels: Sequence[str]
    columns: list[str]

    def written(self, plans: Sequence[Plan], groups: Groups, most: int) -> tuple[str, bool]:
        """Return the expression of a plan for each of some groups, and whether it has steps: beyond ``most``."""
        joint = JointPlan.of(plans)
        try:
            return _Writer(self, None, groups, most)(joint), False
        except _TooLong:
            return _Writer(self, self.prefix, groups, most)(joint), True


class _Writer:
    """Writes one expression; named parts stand where they are used, or with a ``prefix`` in nested steps."""

    def __init__(self, frame: Frame, prefix: str | None, groups: Groups, most: int) -> None:
        self.words = frame.words
        self.labels = frame.labels
        self.columns = frame.columns
        self.prefix = prefix
        self.groups = groups
        self.most = most
        self.source = ""
        self.length = 0
        self.carried: list[str] = []  # carried through all steps

    def __call__(self, plan: JointPlan) -> str:
        """Return the expression; NULL for rows that are no probabilities."""
        given = [f"CAST({column} AS {self.words.number})" for column in self.columns]
        p = self.named("p", given)
        (total,) = self.named("sum", [sum_of(p)], carry=p)
        # division by one changes nothing, so that rows that sum to one within rounding stay as they are
        rounding = numeral(8 * float(np.finfo(np.float64).eps))
        by = f"CASE WHEN ABS({total} - 1e0) <= {rounding} THEN 1e0 ELSE {total} END"
        inside = self.prefix is not None
        skips = self.words.steps.skips
        valid = self.valid(p, total)
        if inside and skips:
            valid = self.valid(given, sum_of(given))
            (by,) = self.named("by", [by], carry=p)
        elif inside:
            # selects compute all rows: no logarithm of what is not positive, which is an error to some
            (by,) = self.carried = self.named("by", [f"CASE WHEN {valid} THEN {by} END"], carry=p)
            valid = f"{by} > 0e0"
        if plan.kept is not None:
            plan, p, by = self.beside(plan, p, by)
        if plan.first is not None:
            largest = self.two_steps(plan, plan.first, p, by)
        else:
            if plan.reads_sums:
                p = self.named("q", (f"{x} / {by}" for x in p))
            largest = self.largest(self.named("score", self.scores(plan, p)), self.labels)
        if inside and skips:
            largest = self.words.steps.result.format(value=largest, steps=self.source)
        decision = f"CASE WHEN {valid} THEN {largest} END"
        if inside and not skips:
            decision = self.words.steps.result.format(value=decision, steps=self.source)
        if not inside and len(decision) > self.most:
            raise _TooLong
        return decision

    def valid(self, p: Sequence[str], total: str) -> str:
        """Return the condition that a row with a sum holds probabilities."""
        least = [self.extreme(p, self.words.least)] if self.words.least else p
        near = f"ABS({total} - 1e0) <= {numeral(ROW_SUM_TOLERANCE)}"
        return " AND ".join([*(f"{x} >= 0e0" for x in least), near])

    def named(self, name: str, parts: Iterable[str], carry: Sequence[str] = ()) -> list[str]:
        """Return how to refer to the parts from here on; of those before, only what is carried can be."""
        if self.prefix is None:
            # parts are counted as they are made: all of them would fill the memory where each holds those before
            texts = []
            for part in parts:
                self.length += len(part)
                if self.length > 4 * self.most:
                    raise _TooLong
                texts.append(part)
            return texts
        row = f"{self.prefix}step"
        steps = self.words.steps
        values = {f"{self.prefix}{name}{k}": part for k, part in enumerate(parts)}
        carried = {use.rpartition(".")[2]: use for use in [*self.carried, *carry]}
        items = (
            new if new == value else steps.define.format(name=new, value=value)
            for new, value in (carried | values).items()
        )
        self.source = steps.step.format(items=", ".join(items), before=self.source, row=row)
        return [steps.use.format(name=new, row=row) for new in values]

    def scores(self, plan: JointPlan, p: list[str]) -> Iterable[str]:
        """Yield the scores (M,), of the steps and in the order of `DecisionRule.predict`."""
        total = ""
        if plan.scaling is not None:
            # not divided by their sum: it multiplies the offsets instead, where there are any
            p = self.exponentials(self.exponents(p, *plan.scaling), *plan.scaling)
            if plan.has_offsets:
                (total,) = self.named("norm", [sum_of(p)], carry=p)
        if plan.offsets is None:
            return self.combined(p, np.moveaxis(plan.gains, -1, 0))
        if plan.power:
            index = np.arange(len(p), dtype=np.float64)
            distance = np.abs(index[:, None] - index) ** plan.power
            carry = [total] if total else []
            p = self.named("far", self.combined(p, distance[:, None], carry), carry=carry)
        # a decision beyond the classes scores its offset
        further = plan.n_decisions - len(p)
        terms = [*p, *[""] * further]
        weights = np.pad(plan.gains, ((0, 0), (0, further)))
        return (self.affine(x, a, b, total) for x, a, b in zip(terms, weights.T, plan.offsets.T, strict=True))

    def two_steps(self, plan: JointPlan, k: int, p: list[str], by: str) -> str:
        """Return the label of what the probability of one class decides, else that of the best of the others.

        A row p is divided ``by`` a number where that changes a decision.
        """
        steps = plan.steps
        if steps and set(steps[0][1]) == {0.0}:
            return self.labels[steps[0][0]]
        total = ""
        if plan.scaling is not None:
            x, e = self.compared(plan, p, by)
            (total,) = self.named("norm", [sum_of(e)], carry=e)
            own = e[k]
        elif plan.has_offsets:
            x = self.named("q", (f"{x} / {by}" for x in p))
            own = x[k]
        else:
            # the order of the others is that of a row which is not divided
            x = p
            own = f"{p[k]} / {by}"
        gains, offsets = plan.gains, plan.offsets
        assert offsets is not None
        scores = [self.affine(x[j], gains[:, j], offsets[:, j], total) for j in plan.others]
        own, *scores = self.named("score", [own, *scores], carry=[total] if total else [])
        self.carry([own, total] if total else [own])
        best = self.largest(scores, [self.labels[j] for j in plan.others])
        least = f"{total} * " if plan.scaling is not None else ""
        # a comparison with NULL decides nothing: that of a group which never decides so
        cuts = [self.groups.choose([numeral(cut) if cut is not None else "" for cut in each]) for _, each in steps]
        pairs = zip(steps, cuts, strict=True)
        whens = [f"WHEN {own} >= {least}{cut} THEN {self.labels[decision]}" for (decision, _), cut in pairs]
        return f"CASE {' '.join(whens)} ELSE {best} END" if whens else best

    def beside(self, plan: JointPlan, p: list[str], by: str) -> tuple[JointPlan, list[str], str]:
        """Return the plan on a row that is calibrated but for one class, what orders it, and what divides it."""
        assert plan.scaling is not None and plan.kept is not None
        k = plan.kept
        p = self.named("q", (f"{x} / {by}" for x in p))
        self.carry([p[k]])
        row = self.exponents(p, *plan.scaling)
        if plan.first != k or not plan.others_alike:
            e = self.exponentials([x for j, x in enumerate(row) if j != k], *plan.scaling, every=True)
            (total,) = self.named("norm", [sum_of(e)], carry=e)
            # a row may sum to a little more than one
            rest = f"CASE WHEN {p[k]} < 1e0 THEN 1e0 - {p[k]} ELSE 0e0 END"
            row = self.named("c", (f"{x} * ({rest} / {total})" for x in e))
            row.insert(k, "")
        row[k] = p[k]
        return replace(plan, scaling=None, kept=None), row, "1e0"

    def compared(self, plan: JointPlan, p: list[str], by: str) -> tuple[list[str], list[str]]:
        """Return what the scores of the others are made of, as short as it can be, and the `exponentials`."""
        assert plan.scaling is not None
        powers, offsets, _ = plan.scaling
        keeps_order = powers.ndim == 1 and powers[0] > 0 and np.ptp(powers) == 0 and np.ptp(offsets) == 0
        if plan.others_alike and keeps_order:
            self.carry(p)
        z = self.exponents(self.named("q", (f"{x} / {by}" for x in p)), *plan.scaling)
        if not plan.others_alike:
            e = self.exponentials(z, *plan.scaling)
            return e, e
        if not keeps_order:
            self.carry(z)
        return p if keeps_order else z, self.exponentials(z, *plan.scaling)

    def carry(self, parts: Sequence[str]) -> None:
        """Carry parts through all steps from here on."""
        self.carried = [*self.carried, *parts]

    def exponents(self, p: list[str], powers: Array, offsets: Array, floor: float) -> list[str]:
        """Return ``z = powers log(p + floor) + offsets``."""
        logs = [f"LN({x} + {numeral(floor)})" for x in p]
        if powers.ndim == 1:
            scaled = zip(logs, powers[:, None], offsets[:, None], strict=True)
            return self.named("z", (self.affine(x, a, b, "") for x, a, b in scaled))
        logs = self.named("log", logs)
        rows = self.combined(logs, powers[:, None])
        one = np.ones(1)
        return self.named("z", (self.affine(row, one, b, "") for row, b in zip(rows, offsets[:, None], strict=True)))

    def exponentials(
        self, z: list[str], powers: Array, offsets: Array, floor: float, *, every: bool = False
    ) -> list[str]:
        """Return ``exp(z - c)`` of `exponents` z, which are as the softmax but for their sum; c is a number where that
        can neither overflow nor underflow, of ``every`` one where all may be small, else the largest z of the row."""
        top, least_top, least = _exponents(powers, offsets, floor)
        least_top = least if every else least_top
        if top - least_top <= RANGE and (self.words.greatest or top - least <= 2 * RANGE):
            shift = f"- {numeral(top)}" if top >= 0 else f"+ {numeral(-top)}"
            return self.named("e", (f"EXP({x} {shift})" for x in z))
        if self.words.greatest:
            (largest,) = self.named("top", [self.extreme(z, self.words.greatest)], carry=z)
            return self.named("e", (f"EXP({x} - ({largest}))" for x in z))
        largest, _ = self.rounds("top", z, ["0"] * len(z), carry=z)
        # to PostgreSQL an underflow is an error
        near = (f"WHEN {x} - {largest} > {numeral(-2 * RANGE)} THEN EXP({x} - {largest})" for x in z)
        return self.named("e", (f"CASE {when} ELSE 0e0 END" for when in near))

    def combined(self, p: list[str], rows: Array, carry: Sequence[str] = ()) -> Iterable[str]:
        """Return the sums of p, weighted by each of the rows (M, G, K) in the group of the row; G is 1 for all."""
        dot = self.words.steps.dot
        if self.prefix is None or not dot:
            return (self.weighted_sum(p, row) for row in rows)
        (values,) = self.named("list", [f"[{', '.join(p)}]"], carry=carry)
        lists = ([f"[{', '.join(map(numeral, row))}]" for row in each] for each in rows)
        return (f"{dot}({values}, {self.groups.choose(each)})" for each in lists)

    def weighted_sum(self, p: list[str], weights: Array) -> str:
        """Return the sum of p with the weights (G, K) of the row's group, or each term with it if that is shorter."""

        def summed(weights: Array) -> str:
            return sum_of([self.term(x, each) for x, each in zip(p, weights.T, strict=True) if each.any()])

        return min(self.groups.choose([summed(row) for row in weights[:, None]]), summed(weights), key=len)

    def term(self, x: str, weights: Array) -> str:
        """Return x times the weight (G,) of the row's group."""
        return x if (weights == 1.0).all() else f"{x} * {self.chosen(weights)}"

    def affine(self, x: str, weights: Array, offsets: Array, total: str) -> str:
        """Return ``weight * x + offset * total`` of the row's group, without what is zero or one in all groups."""
        scaled = self.term(x, weights) if weights.any() else ""
        shift = f"{self.chosen(offsets)}{f' * {total}' if total else ''}" if offsets.any() else ""
        return " + ".join(part for part in (scaled, shift) if part) or "0e0"

    def chosen(self, numbers: Array) -> str:
        """Return the number (G,) of the row's group."""
        return self.groups.choose([numeral(number) for number in numbers])

    def extreme(self, values: Sequence[str], function: str) -> str:
        """Return the largest or smallest of some values."""
        if len(values) == 1:
            return values[0]
        if len(values) <= GROUP:
            return f"{function}({', '.join(values)})"
        size = -(-len(values) // (-(-len(values) // GROUP)))
        groups = [self.extreme(values[k : k + size], function) for k in range(0, len(values), size)]
        return self.extreme(groups, function)

    def largest(self, scores: Sequence[str], labels: Sequence[str]) -> str:
        """Return the label of the largest score, the last of equal ones."""
        if not self.words.greatest:
            return self.rounds("won", scores, labels)[1] if self.prefix is not None else _largest(scores, labels)
        if len(scores) == 1:
            return labels[0]
        middle = len(scores) // 2
        upper, lower = (self.extreme(half, self.words.greatest) for half in (scores[middle:], scores[:middle]))
        right = self.largest(scores[middle:], labels[middle:])
        left = self.largest(scores[:middle], labels[:middle])
        return f"CASE WHEN {upper} >= {lower} THEN {right} ELSE {left} END"

    def rounds(
        self, name: str, values: Sequence[str], labels: Sequence[str], carry: Sequence[str] = ()
    ) -> tuple[str, str]:
        """Return the largest value and its label, found by comparing a few at a time, in rounds.

        Raise `_TooLong` where nothing has a name, so that each round would write out the one before many times.
        """
        if self.prefix is None:
            raise _TooLong
        values = list(values)
        labels = list(labels)
        count = 0
        while len(values) > 1:
            groups = [slice(k, k + COMPARED) for k in range(0, len(values), COMPARED)]
            best = [_largest(values[group], values[group]) for group in groups]
            which = [_largest(values[group], labels[group]) for group in groups]
            names = self.named(f"{name}{count}_", [*best, *which], carry=carry)
            values = names[: len(best)]
            labels = names[len(best) :]
            count = count + 1
        return values[0], labels[0]


def _exponents(powers: Array, offsets: Array, floor: float) -> tuple[float, float, float]:
    """Return bounds on the exponents of a softmax in any row: from above, and below on the largest and on the least."""
    own = powers if powers.ndim == 1 else np.diagonal(powers)
    logs = np.log(np.array([floor, 1.0 / len(own) + floor, 1.0 + floor]))
    ends = logs[:, None] * own
    most = ends.max(axis=0) + offsets
    least = ends.min(axis=0) + offsets
    # some p is at least 1 / K, so some exponent is at least the least of what it can then be
    least_top = ends[1:].min(axis=0) + offsets
    if powers.ndim > 1:
        others = logs[[0, 2], None, None] * (powers - np.diag(own))
        most += others.max(axis=0).sum(axis=1)
        least, least_top = (low + others.min(axis=0).sum(axis=1) for low in (least, least_top))
    return float(most.max()), float(least_top.min()), float(least.min())


def _largest(values: Sequence[str], results: Sequence[str]) -> str:
    """Return the result of the largest value, of the last of equal ones."""
    # the first, from the last on, that is not below any before it: those behind it are below one of these
    whens = [
        f"WHEN {' AND '.join(f'{values[k]} >= {values[j]}' for j in range(k))} THEN {results[k]}"
        for k in range(len(values) - 1, 0, -1)
    ]
    return f"CASE {' '.join(whens)} ELSE {results[0]} END" if whens else results[0]


def numeral(value: Any) -> str:
    """Return a number as a literal in double precision: with an exponent, and so that it is read back as it is."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def sum_of(terms: Sequence[str]) -> str:
    """Return the sum of terms, in brackets."""
    if len(terms) > DEEP:
        return sum_of([sum_of(terms[k : k + DEEP]) for k in range(0, len(terms), DEEP)])
    return f"({' + '.join(terms)})" if terms else "0e0"
