"""What the sections of a report on limits, groups and the proof say, in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from confmax.constraints.outcomes import NONE_DECIDED
from confmax.evaluate.figures import Figures, GroupFigures, MetricRow, metric_name
from confmax.evaluate.limits import LimitRow
from confmax.evaluate.protocols import if_right, refuted
from confmax.evaluate.words import listed
from confmax.page.cautions import FEW
from confmax.page.words import capital, difference, interval, number, percent, rows

MOST_COUNTED = 3  # classes whose rows are counted in a sentence each


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
    if solution is not None and not solution.feasible_on_estimate:
        text += " No rule keeps all limits on the tuning rows; this one misses them least."
    elif solution is not None and (against := refuted(solution)) is not None:
        text += f" {capital(against)}."
    elif limits.reached is False:
        text += " As the probabilities of these rows expect, no rule keeps all limits here."
    return text


def outcome(row: LimitRow) -> str:
    """Return whether the rule keeps a limit, and whether chance could explain it."""
    if row.vacuous:
        return NONE_DECIDED
    if row.kept and row.outcome is not None and row.outcome.refuted_by:
        return "refuted by the tuning labels"
    return ("kept" if row.kept else "missed") + (", could be noise" if row.unsure else "")


def assured(row: LimitRow) -> str:
    """Return what the tests of the tuning say of a limit."""
    tested = row.outcome
    if tested is None or tested.assured is None:
        return "–"
    if tested.assured:
        return f"yes, on {tested.all_label_rows:,} rows"
    needs = (
        "loosen it or test more rows"
        if tested.rows_needed is None or tested.is_hardly_met
        else f"needs {tested.rows_needed:,}"
    )
    return f"no, on {tested.all_label_rows:,} rows; {needs}"


def given_up(figures: Figures) -> str:
    """Return how the rule differs from the best rule without limits."""
    limits = figures.limits
    main = figures.main
    if limits is None or limits.free is None or limits.given_up is None:
        return ""
    free = main.as_shown(limits.free)
    span = interval(free)
    apart = difference(main.as_shown(limits.given_up), "the rule without limits")
    return (
        f"The best rule without limits has {number(free.value)}{f' {span}' if span else ''} in {main.label} on "
        f"these rows, the tuned rule {number(main.as_shown(main.tuned.value))}: {apart}. The two rules decide "
        f"{percent(limits.moved)} of the rows differently."
    )


def counted(figures: Figures) -> list[str]:
    """Return how many rows are decided and right, of the class that the rule was tuned for, or of few classes."""
    counts = figures.score.counts["rule"]
    K = len(counts.classes)
    # as the page writes names elsewhere
    counts = replace(counts, classes=tuple(figures.names[:K]))
    place = figures.evidence.metric.class_place
    asked = counts.classes if K <= MOST_COUNTED else ()
    return [
        f"The tuned rule: {counts.words(name)}."
        for name in (asked if place is None else counts.classes[place : place + 1])
    ]


class ShareRow(NamedTuple):
    """A class: its share of the tuning rows, the one that the rule is for, what unlabelled rows showed, and here."""

    name: str
    source: float
    target: float
    shown: str
    here: float


def shares(figures: Figures) -> list[ShareRow]:
    """Return the class shares of a rule that was adapted to others; none of other rules."""
    evidence = figures.evidence
    rule = evidence.rule
    found = None if evidence.solution is None else evidence.solution.shift
    known = rule.shares
    if known is None or (known.shifted_to is None and found is None):
        return []
    here = evidence.counted.label_weight()
    ends = {} if found is None else dict(zip(found.classes, found.interval().tolist(), strict=True))
    seen = {} if found is None else dict(zip(found.classes, found.raw_priors.tolist(), strict=True))
    names = figures.names[: len(known.classes)]
    rows = []
    for k, (name, source, target) in enumerate(zip(names, known.classes, known.meant.tolist(), strict=True)):
        own = rule.class_names[k]
        shown = f"{number(seen[own])} [{number(ends[own][0])}, {number(ends[own][1])}]" if own in seen else "–"
        rows.append(ShareRow(name, source, target, shown, float(here[k])))
    return rows


def adapted(figures: Figures) -> str:
    """Return what the class shares of a rule are, where they come from, and what is assumed."""
    solution = figures.evidence.solution
    found = None if solution is None else solution.shift
    # a rule file does not say where its shares come from
    text = "The rule was adapted to other class shares" + (" that were given." if solution is not None else ".")
    if found is not None:
        believed = f"Of the difference {percent(found.shrinkage)} was believed, by the evidence for it."
        if found.shrinkage == 0.0:
            believed = "So the rule stayed as it was."
        doubts = "".join(f" {capital(sentence)}." for sentence in found.warnings)
        text = f"{capital(found.sentence)}. {believed} Brackets are 90 % intervals.{doubts}"
    return (
        f"{text} This assumes that rows of a class look as they did when the rule was tuned, and only the shares of "
        f"the classes have changed."
    )


def which(figures: Figures) -> str:
    """Return which groups there are, and whether the rule decides them differently."""
    named = [f"{group.name} ({rows(group.n_rows)})" for group in figures.groups]
    how = "decides each group by a rule of its own" if figures.decides_by_groups else "decides all groups alike"
    how_many = "is one group" if len(named) == 1 else f"are {len(named)} groups"
    return f"There {how_many}: {listed(named)}. The rule {how}."


def compared(figures: Figures) -> str:
    """Return in which groups the tuned rule is better or worse than argmax in the tuned metric.

    What misses a limit is no alternative in any group.
    """
    label = figures.main.label
    other = figures.plain[0]
    kept = any(one.name == other for one in figures.verdict.competing)
    said = []
    for verdict in ("worse", "better") if kept else ():
        names = [group.name for group in figures.groups if group.metrics[0].verdict == verdict]
        if names:
            said.append(
                f"In {label} the tuned rule is {verdict} than {other} for {listed(names)}, by more than chance "
                f"explains."
            )
    few = [f"{group.name} ({group.n_rows})" for group in figures.groups if group.n_rows < FEW]
    if few:
        said.append(f"Too few rows of {listed(few)}: their values depend on single rows.")
    return " ".join(said)


def side_by_side(figures: Figures) -> list[tuple[str, list[tuple[GroupFigures, MetricRow]]]]:
    """Return the label of the tuned metric and of the leading ones, each with every group and its values there."""
    names = [row.name for row in (figures.main, *figures.leading)]
    tables = []
    for name in names:
        lines = [(group, row) for group in figures.groups for row in group.metrics if row.name == name]
        if lines:
            tables.append((lines[0][1].label, lines))
    return tables


def spread(lines: list[tuple[GroupFigures, MetricRow]], plain: str) -> str:
    """Return by how much a metric of the tuned rule, and of the ``plain`` one, differs between the groups."""
    tuned, argmax = ([getattr(row, rule).value for _, row in lines] for rule in ("tuned", "argmax"))
    if len(lines) < 2:
        return ""
    before = max(argmax) - min(argmax)
    after = max(tuned) - min(tuned)
    return f"largest difference of groups: {plain} {number(before)}, tuned rule {number(after)}"


def certificate(figures: Figures) -> str:
    """Return what is proved of the rule, or why nothing is."""
    solution = figures.evidence.solution
    if solution is None:
        return (
            "A saved rule holds no proof: how far it is from the best one was known when it was tuned. The figures "
            "above are the evidence here."
        )
    if (why := solution.infeasibility or solution.contradiction) is not None:
        return f"{capital(why)}."
    # a proof is of the metric that the rule was tuned for, and the page may evaluate it by another one
    metric = solution.metric
    name = metric.shown_name if metric.cost_table else metric_name(repr(metric))
    beyond = "below" if metric.is_cost else "above"
    by_model = if_right(solution) if solution.mode == "blend" else None
    if by_model is not None:
        return f"On the tuning rows, for the {name} of the confusion matrix that the probabilities expect: {by_model}."
    if solution.gap is not None and solution.upper_bound is not None:
        within = " within the limits" if solution.constraints else ""
        bound, value = (number(metric.shown(one)) for one in (solution.upper_bound, solution.value))
        return (
            f"Proved: on the tuning rows no rule{within} reaches a {name} {beyond} {bound} of the confusion matrix "
            f"that the probabilities expect. This one has {value}, so at most {number(solution.gap)} is missing, if "
            f"the probabilities are right."
        )
    if solution.mode == "model" or (solution.mode == "blend" and solution.model_value is not None):
        return (
            f"Nothing is proved about how much better another rule could be: for {name} no bound is known, so the "
            f"search tries several starts and keeps the best."
        )
    source = "labels" if solution.mode == "labels" else "labels and probabilities together"
    evidence = "; here the evidence is what the rule does on rows that it was not tuned on"
    return (
        f"Nothing is proved about how much better another rule could be: the rule was tuned on {source}, and labels "
        f"are only a sample. Most metrics have a proof under confusion='model', which trusts the probabilities alone"
        f"{'' if figures.evidence.seen else evidence}."
    )
