"""What a report says of limits, in sentences."""

from __future__ import annotations

from confmax.evaluate.figures import Figures
from confmax.evaluate.limits import LimitRow
from confmax.page.words import difference, interval, listed, number, percent


def summary(figures: Figures) -> str:
    """Return the number of limits, and which of them cannot be judged or kept."""
    limits = figures.limits
    assert limits is not None
    n = len(limits.rows) + len(limits.absent)
    text = f"The rule was tuned within {'one limit' if n == 1 else f'{n} limits'}."
    if limits.absent:
        group = "" if figures.evidence.table.groups is None else " in a group"
        text += (
            f" These rows cannot judge {listed(limits.absent)}: no row has the class{group}, so its recall and "
            f"precision are not defined."
        )
    solution = figures.evidence.solution
    if solution is not None and not solution.feasible:
        text += " No rule keeps all limits on the tuning rows; this one misses them least."
    elif limits.reached is False:
        text += " As the probabilities of these rows expect, no rule keeps all limits here."
    return text


def outcome(row: LimitRow) -> str:
    """Return whether the rule keeps a limit, and whether chance could explain it."""
    if row.vacuous:
        return "no decision"
    return ("kept" if row.kept else "missed") + (", could be noise" if row.unsure else "")


def assured(row: LimitRow) -> str:
    """Return what the tests of the tuning say of a limit."""
    tested = row.outcome
    if tested is None or tested.assured is None:
        return "–"
    if tested.assured:
        return f"yes, on {tested.all_label_rows:,} rows"
    needs = "tighten or loosen it" if tested.rows_needed is None else f"needs {tested.rows_needed:,}"
    return f"no, on {tested.all_label_rows:,} rows; {needs}"


def given_up(figures: Figures) -> str:
    """Return how the rule differs from the best rule without limits."""
    limits = figures.limits
    main = figures.main
    if limits is None or limits.free is None or limits.given_up is None:
        return ""
    span = interval(limits.free)
    return (
        f"The best rule without limits has {number(limits.free.value)}{f' {span}' if span else ''} in {main.label} on "
        f"these rows, the tuned rule {number(main.tuned.value)}: "
        f"{difference(limits.given_up, 'the rule without limits')}. The two rules decide {percent(limits.moved)} of "
        f"the rows differently."
    )
