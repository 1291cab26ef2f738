"""A rule in words and numbers that a person can read.

Each phrase stands here once; `repr`, notebooks, `confmax explain` and reports put them together. They read a rule's
gains, weights, calibrator and names, so that packages below the rule can use them too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from confmax.calibration import MatrixScaling, Scaling, Temperature
from confmax.calibration.calibrators import kept_class
from confmax.calibration.pairs import pulls
from confmax.calibration.shown import UNSEEN, coefficients, least_weights
from confmax.calibration.thresholds import ClassFirst, abstaining_class_cuts, abstaining_cuts, class_first, cuts
from confmax.confusion import Array, Gains

SAME_TABLE = 1e-9  # relative difference of gains that are those of a table but for rounding
SHOWN = 4  # constraints, groups, or rules that are drawn, of a rule
LONG = 80  # characters of a limit or of the name of a group
MISSES = " (misses a constraint)"  # behind the value of a plain rule


def printable(text: str, most: int = 40) -> str:
    """Return a name of a file from anywhere as one short line without control characters."""
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[: most + 1])
    return shown if len(text) <= most else shown[:most] + "..."


def listed(names: Sequence[Any], most: int = 8) -> str:
    """Return the first names for a message."""
    return ", ".join(map(str, names[:most])) + (", ..." if len(names) > most else "")


def with_names(text: str, names: Sequence[Any]) -> str:
    """Return a metric's text with the ``names`` of the classes that it is computed over for their numbers."""

    def named(found: re.Match[str]) -> str:
        places = [int(k) for k in re.findall(r"\d+", found[1])]
        if max(places, default=0) >= len(names):
            return found[0]
        return f"classes=({', '.join(str(names[k]) for k in places)})"

    return re.sub(r"classes=\(([\d, ]+)\)", named, text)


def tuned_for(rule: Any) -> str:
    """Return what a rule was tuned for as people read it: "costs" or "gains", else the text of its metric."""
    return with_names(rule.metric, rule.class_names) if rule.cost_table is None else str(rule.cost_table.of)


def by_its_table(rule: Any) -> bool:
    """Whether the gains of a rule that does not draw are those of its table of costs, without prices of limits."""
    if rule.cost_table is None or rule.is_randomized or rule.groups or rule.gains.full is None:
        return False
    table = np.array(rule.cost_table.rows) * (-1.0 if rule.cost_table.of == "costs" else 1.0)
    # a constant within a row changes no decision
    given, own = (G - G[:, :1] for G in (rule.gains.full[0], table))
    return bool(np.allclose(given, own, rtol=SAME_TABLE, atol=SAME_TABLE * np.abs(own).max()))


def with_columns_moved(text: str, place: Mapping[int, int]) -> str:
    """Return a metric's text with the new ``place`` of each class that it is computed over."""

    def moved(found: re.Match[str]) -> str:
        return f"classes=({', '.join(str(place.get(int(k), int(k))) for k in re.findall(r'[0-9]+', found[1]))})"

    return re.sub(r"classes=\(([\d, ]+)\)", moved, text)


def headline(rule: Any) -> list[str]:
    """Return what a rule is, in one line, the constraints it was tuned within, its calibration, and its groups."""
    kind = f"draws between {len(rule.weights)} rules" if rule.is_randomized else "deterministic"
    tuned = f" for {printable(tuned_for(rule))}" if rule.metric else ""
    lines = [f"DecisionRule{tuned}: {rule.n_classes} classes, {kind}"]
    if rule.constraints:
        lines.append(f"  tuned within {_first(rule.constraints)}")
    if (shares := rule.shares) is not None and shares.shifted_to is not None:
        lines.append(f"  for other class shares than those of its tuning rows: {_moved_shares(rule)}")
    if rule.calibrator is not None:
        known = isinstance(rule.calibrator, Scaling)
        kept = kept_class(rule.calibrator)
        but = "" if kept is None else f", but not p({printable(str(rule.class_names[kept]))})"
        shown = rule.calibrator if known else printable(type(rule.calibrator).__name__)
        lines.append(f"  calibrates p first{but}: {shown}")
    return [*lines, f"  {how(rule)}: {_first(rule.groups)}"] if rule.groups else lines


def _moved_shares(rule: Any) -> str:
    """Return the class shares of the tuning rows, and those that a rule was adapted to, the most different first."""
    pairs = list(zip(rule.class_names, rule.shares.classes, rule.shares.shifted_to, strict=False))
    if len(pairs) > SHOWN:
        pairs.sort(key=lambda pair: -abs(pair[2] - pair[1]))
    return _first([f"{name} {old:.3g} -> {new:.3g}" for name, old, new in pairs])


def _first(names: Sequence[Any]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(printable(str(name), LONG) for name in names[:SHOWN])}{more}"


def sections(rule: Any, most_classes: int) -> list[tuple[str, Numbers | None]]:
    """Return how a rule, or each of its first groups, decides: a line, and numbers where the line leaves these out."""
    if len(rule.weights) > SHOWN:
        # the rules that are drawn most often are those that are shown
        order = np.argsort(-rule.weights, kind="stable")
        rule = replace(rule, gains=rule.gains[order], weights=rule.weights[order])
    if not rule.groups:
        return _drawn_in_words(rule, most_classes) or [(_decides(rule), numbers(rule, most_classes))]
    found = [(f"group {name}: {line}", table) for name, line, table in of_groups(rule, most_classes, SHOWN)]
    left = len(rule.groups) - len(found)
    return [*found, *([(f"... {left} more group{'s' * (left > 1)}", None)] if left else [])]


def of_groups(rule: Any, most_classes: int, most_groups: int) -> list[tuple[str, str, Numbers | None]]:
    """Return the names of the first groups, and how each is decided, as `sections` do.

    Of a rule that decides by the probabilities of groups, the numbers of all groups have one scale, because scores are
    added.
    """
    scale = None if rule.groups_known or rule.gains.full is not None else least_weights(rule.gains)
    found = []
    for name, part in zip(rule.groups, _parts(rule)[:most_groups], strict=False):
        if rule.groups_known:
            line = _decides(part)
            table = numbers(part, most_classes)
        elif scale is None:
            line = _scores(part)
            table = None
        else:
            line = f"score {_scores(part)}"
            table = _numbers(part, most_classes, scale=scale)
        found.append((printable(str(name)), line, table))
    return found


def _drawn_in_words(rule: Any, most_classes: int) -> list[tuple[str, Numbers | None]]:
    """Return `sections` of each of the rules that a rule draws, where each of these has a sentence; else nothing."""
    if not rule.is_randomized or in_words(rule) is not None:
        return []
    drawn = [replace(rule, gains=rule.gains[s], weights=np.ones(1)) for s in range(len(rule.weights))]
    if not all(in_words(part) or one_class_first(part) for part in drawn):
        return []
    found: list[tuple[str, Numbers | None]] = [
        (f"with probability {share:.1%} {_decides(part)}", numbers(part, most_classes))
        for share, part in zip(rule.weights[:SHOWN], drawn, strict=False)
    ]
    left = len(drawn) - len(found)
    return [*found, *([(f"... {left} more rules in the mixture", None)] if left else [])]


def _parts(rule: Any) -> list[Any]:
    """Return the rules whose gains stand side by side in a rule with groups, else the rule alone."""
    known = replace(rule, groups_known=True) if rule.groups else rule
    return [known.of_group(name) for name in rule.groups] or [rule]


def _decides(rule: Any) -> str:
    """Return how a rule decides, in a line that may leave out its numbers."""
    return (
        in_words(rule)
        or one_class_first(rule)
        or _least_cost(rule)
        or f"decides the largest of {'' if rule.gains.full is not None else ' '}{_scores(rule)}"
    )


def _least_cost(rule: Any) -> str | None:
    """Return the sentence of a rule that decides by its table of costs or gains; None for others."""
    if not by_its_table(rule):
        return None
    K, M = rule.n_classes, rule.n_decisions
    what = "cost least" if rule.cost_table.of == "costs" else "gain most"
    further = [printable(str(name)) for name in rule.class_names[K:]]
    if rule.abstain is not None:
        more = f"; {_decision(rule, M - 1)} is one of its decisions"
    else:
        more = f"; {_first(further)} {'is no class' if len(further) == 1 else 'are no classes'}" if further else ""
    p = "p" if rule.calibrator is None else "calibrated p"
    return f"decides what {p} and the table of {rule.cost_table.of} ({K} x {M}) expect to {what}{more}"


def _scores(rule: Any) -> str:
    """Return what the scores of a rule are, and what the one of abstaining is."""
    if rule.gains.full is not None:
        scores = f"{rule.n_decisions} scores p @ G, G ({rule.n_classes}, {rule.n_decisions})"
        last = "the last"
    else:
        scores = score_of_class(rule)
        last = "an offset alone"
    return scores + ("" if rule.abstain is None else f"; {_decision(rule, rule.n_decisions - 1)} has {last}")


def score_of_class(rule: Any) -> str:
    """Return what the score of a class is made of, for a rule that has no table of gains."""
    feature = ("p", "mean distance of the true class", "mean squared distance of the true class")[rule.gains.power]
    offsets = any(coefficients(part.gains)[1].any() for part in _parts(rule))
    return f"weight * {feature}" + (" + offset" if offsets else "")


def how(rule: Any) -> str:
    """Return how a rule decides, as a sentence that may leave out its numbers."""
    if rule.groups and rule.groups_known:
        return "decides each group by a rule of its own"
    if rule.groups:
        return "decides all groups alike, by the largest sum over the groups of p(group) * score"
    if rule.gains.full is not None:
        each = "each decision" if rule.abstain is None else "each decision, abstaining too,"
        rest = f"decides the largest expected gain; {each} has a gain for each true class"
    elif rule.gains.power:
        rest = "decides by the expected distance between the true class and the decided one on their ordered scale"
    else:
        offset = ", adds an offset" if coefficients(rule.gains)[1].any() else ""
        rest = f"multiplies each probability by a weight{offset} and decides the class with the largest result"
        rest += "" if rule.abstain is None else ", or abstains if no result is above one number"
    return in_words(rule) or one_class_first(rule) or _least_cost(rule) or rest


def which_labels(rule: Any) -> str:
    """Return which labels a rule of several labels gives to a row, and what the score of a label is, if it has one."""
    if rule.thresholds is not None:
        return "every label whose probability is above the threshold of the label"
    most = rule.decisions.most
    positive = rule.decisions.positive
    if most is None:
        which = "every label whose score is above zero"
    elif most == 1:
        which = f"the label with the largest score{', if this is above zero' if positive else ''}"
    else:
        which = f"the {most} labels with the largest scores{', of those with a score above zero' if positive else ''}"
    p = "probability" if rule.calibrator is None else "calibrated probability"
    return f"{which}; the score of a label is its weight times its {p} plus its offset"


def weights_alone(rule: Any) -> Array | None:
    """Return the weights (K,) of a deterministic rule that has one per class and nothing else, None for others.

    Rules with groups have weights in each group.
    """
    others = rule.is_randomized or rule.gains.full is not None or rule.gains.power or rule.gains.has_further
    if others or rule.groups:
        return None
    a, b = coefficients(rule.gains)
    return None if b.any() else a[0]


def in_words(rule: Any) -> str | None:
    """Return how a rule decides as a sentence, where one says all of it, and None for rules that need more.

    Rules of two classes have one on the raw probability of the class that was asked about, the second where nobody
    asked, or two where they draw between two. Rules
    for a metric of one class have one on the probability of this class. With more classes, equal weights are argmax.
    Rules that abstain have one on the same probabilities, and one on the largest if they treat all classes alike.
    Rules with groups have none: the rule of each group may have one.
    """
    if len(rule.weights) > 2 or rule.groups:
        return None
    if rule.abstain is not None:
        return _between(rule) or _above_one(rule)
    if rule.n_decisions > rule.n_classes and (sentence := _between(rule)):
        return sentence
    if rule.n_classes > 2:
        return _of_several(rule)
    k = rule.positive
    thresholds = [cut for cut in cuts(rule.gains, rule.calibrator, k) if cut is not None]
    if len(thresholds) < len(rule.weights):
        return None
    no, yes = _no_and_yes(rule, k)
    # a rule that draws between two thresholds differs between them only, so one sentence says all of it
    order = np.argsort(thresholds, kind="stable")
    low = thresholds[order[0]]
    high = thresholds[order[-1]]
    share = f"{rule.weights[order[0]]:.4g}"
    if low == high and low in (0.0, np.inf):
        return f"always decides {no if low else yes}"
    if low == 0.0 and high == np.inf:
        return f"decides {yes} with probability {share}, whatever its p"
    if low == high:
        sentence = f"decides {yes} if {_from(k, yes, low)}, else {no}"
    elif low == 0.0:
        sentence = f"decides {yes} if {_from(k, yes, high)}, below that {yes} with probability {share}"
    elif high == np.inf:
        sentence = f"decides {no} if {_below(k, yes, low)}, from there {yes} with probability {share}"
    else:
        sentence = (
            f"decides {yes} if {_from(k, yes, high)}, {no} if {_below(k, yes, low)}, and between them {yes} with "
            f"probability {share}"
        )
    return sentence if rule.calibrator is None else f"{sentence}; this is p before calibration"


def _no_and_yes(rule: Any, k: int) -> tuple[str, str]:
    """Return the names of the other class, and of class k of two."""
    names = [printable(str(name)) for name in rule.class_names]
    return names[1 - k], names[k]


# Ties go to the second class: the first is decided above a number, which is the float before the first that decides it.


def _from(k: int, name: str, cut: float, p: str = "p") -> str:
    """Return that class k of two, of this name, has at least a probability."""
    return f"{p}({name}) >= {probability(cut)}" if k else f"{p}({name}) > {probability(float(np.nextafter(cut, 0.0)))}"


def _below(k: int, name: str, cut: float) -> str:
    """Return the opposite of `_from`."""
    return f"p({name}) < {probability(cut)}" if k else f"p({name}) <= {probability(float(np.nextafter(cut, 0.0)))}"


def _between(rule: Any) -> str | None:
    """Return the sentence for a rule that takes a further decision, such as abstaining, between two probabilities: of
    the class of two that was asked about, or of one class against the most probable other."""
    if rule.is_randomized:
        return None
    names = [printable(str(name)) for name in rule.class_names[: rule.n_classes]]
    p = "p"
    note = ""
    k = rule.positive
    two = abstaining_cuts(rule.gains, rule.calibrator, k)
    one = abstaining_class_cuts(rule.gains)
    if two is not None:
        (no, yes) = _no_and_yes(rule, k)
        (low, high) = two
        note = "" if rule.calibrator is None else "; this is p before calibration"
    elif one is not None:
        k = 1
        no, yes, low, high = "the most probable other class", names[one[0]], *one[1:]
        p = "calibrated p" if is_calibrated(rule, one[0]) else "p"
        no += " by calibrated p" * (rule.calibrator is not None and p == "p")
    else:
        return None
    if low == np.inf or high == 0.0:
        return f"always decides {no if high else yes}"
    if low == 0.0 and high == np.inf:
        return f"always {'decides ' * (rule.abstain is None)}{_abstains(rule)}"
    parts = [f"{yes} if {_from(k, yes, high, p)}"] * (high < np.inf)
    # of equal scores abstaining, the last decision, is taken
    parts += [f"{no} if {p}({yes}) < {probability(low)}"] * (low > 0.0)
    rest = f"{no}, and never {_abstains(rule)}" if low == high else _abstains(rule)
    return f"decides {', '.join(parts[:1] if low == high else parts)}, else {rest}{note}"


def _above_one(rule: Any) -> str | None:
    """Return the sentence for a rule that decides like argmax if the largest probability is above a number."""
    found = [_least_decided(rule.gains[s]) for s in range(len(rule.gains))]
    known = [cut for cut in found if cut is not None]
    if len(known) < len(found):
        return None
    like = "decides like argmax" + ("" if rule.calibrator is None else " of the calibrated probabilities")
    low = min(known)
    high = max(known)
    least = 1.0 / rule.n_classes
    if low >= 1.0:
        return f"always {_abstains(rule)}"
    # the largest probability of a row is no smaller
    if high < least:
        return f"{like}, and never {_abstains(rule)}"
    if low == high:
        return f"{like} if the largest p is above {probability(high)}, else {_abstains(rule)}"
    if low < least or high >= 1.0:
        return None
    return (
        f"{like} if the largest p is above {probability(high)}, {_abstains(rule)} if it is not above "
        f"{probability(low)}, and between them decides with probability {rule.weights[known.index(low)]:.4g}"
    )


def _least_decided(gain: Gains) -> float | None:
    """Return above which largest p a gain decides, like argmax, and else abstains; None for other gains."""
    if gain.full is not None or gain.power or gain.n_decisions != gain.n_classes + 1:
        return None
    a, b = (part[0] for part in gain.pair())
    if a[0] <= 0.0 or (a != a[0]).any() or (b[:-1] != b[0]).any():
        return None
    return float((b[-1] - b[0]) / a[0])


def _abstains(rule: Any) -> str:
    """Return that a rule abstains, as a verb, with what it then returns; of another decision beyond the classes, it."""
    name = printable(str(rule.class_names[-1]))
    if rule.abstain is None:
        return name
    return "abstains" if name == "abstain" else f"abstains ({name})"


def _decision(rule: Any, k: int) -> str:
    """Return the name of a decision; of abstaining, with this word."""
    name = printable(str(rule.class_names[k]))
    is_abstaining = rule.abstain is not None and k == rule.n_decisions - 1
    return f"{name} (abstain)" if is_abstaining and name != "abstain" else name


def one_class(rule: Any) -> ClassFirst | None:
    """Return the one of several classes that a rule decides by its probability alone, its cut after calibration, and
    how the others are decided; None for other rules."""
    return None if rule.is_randomized or rule.groups or rule.n_classes < 3 else class_first(rule.gains)


def others_of(one: ClassFirst) -> Gains | None:
    """Return the gains of the other classes where these have numbers of their own that are used, else None."""
    used = one.others is not None and one.cut > UNSEEN and one.others.pair()[0].any()
    return one.others if used else None


def is_calibrated(rule: Any, k: int) -> bool:
    """Whether a rule may change the probability of class ``k`` before it decides."""
    return rule.calibrator is not None and kept_class(rule.calibrator) != k


def one_class_first(rule: Any) -> str | None:
    """Return the sentence of a rule that decides one class by its probability alone, maybe without other numbers."""
    one = one_class(rule)
    if one is None:
        return None
    name = printable(str(rule.class_names[one.k]))
    if one.cut <= UNSEEN:
        return f"always decides {name}"
    rest = rest_of_one(one, rule.class_names)
    if one.cut > 1.0:
        return f"always decides {rest}"
    p = "calibrated p" if is_calibrated(rule, one.k) else "p"
    # the sentence says once that p is calibrated
    rest += " by calibrated p" * (rule.calibrator is not None and p == "p")
    return f"decides {name} if {p}({name}) >= {probability(one.cut)}, else {rest}"


def rest_of_one(one: ClassFirst, names: Sequence[Any]) -> str:
    """Return what a gain that compares one class first decides below the cut."""
    never = one.cut > 1.0
    name = printable(str(names[one.k]))
    if one.others is None:
        return f"the most probable class other than {name}" if never else "the most probable other class"
    a, b = (part[0] for part in one.others.pair())
    if a.any():
        where = f"the classes other than {name}" if never else "the others"
        return f"the largest of weight * p{' + offset' if b.any() else ''} among {where}"
    # of equal scores the last one is decided
    last = [k for k, offset in enumerate(b) if k != one.k and offset == 0.0][-1]
    return printable(str(names[last]))


def _of_several(rule: Any) -> str | None:
    """Return the sentence for more than two classes: equal weights, or one class against the most probable other."""
    weights = weights_alone(rule)
    one = one_class(rule)
    if weights is not None and weights[0] > 0 and (weights == weights[0]).all():
        return "decides like argmax" + ("" if rule.calibrator is None else " of the calibrated probabilities")
    return None if one is None or others_of(one) is not None else one_class_first(rule)


def plain_words(rule: Any) -> str | None:
    """Return when argmax decides the class that the rule's sentence names, None where there is no such sentence."""
    if in_words(rule) is None and one_class_first(rule) is None:
        return None
    if rule.n_classes == 2:
        k = rule.positive
        yes = printable(str(rule.class_names[k]))
        return f"argmax: {yes} if p({yes}) {'>=' if k else '>'} 0.5"
    one = one_class(rule)
    if one is None:
        return None
    # a temperature keeps the order of the classes, other calibrations may change it
    raw = "" if rule.calibrator is None or isinstance(rule.calibrator, Temperature) else " before calibration"
    return f"argmax: {printable(str(rule.class_names[one.k]))} if it is the most probable class{raw}"


def pulled(rule: Any) -> list[str]:
    """Return which classes a calibration by a matrix moves by the probability of another, a sentence each."""
    # the odds are those of all classes together
    if not isinstance(rule.calibrator, MatrixScaling) or rule.calibrator.kept is not None:
        return []
    names = [printable(str(name)) for name in rule.class_names[: rule.n_classes]]
    said = []
    for given, moved, power in pulls(rule.calibrator.W):
        rest = [name for k, name in enumerate(names) if k not in (given, moved)]
        against = rest[0] if len(rest) == 1 else "the other classes"
        said.append(
            f"the calibration takes p({names[given]}) as evidence {'for' if power > 0 else 'against'} {names[moved]}: "
            f"ten times as much multiplies the odds of {names[moved]} against {against} by {10**power:.3g}"
        )
    return said


def probability(p: float) -> str:
    """Return a probability with four digits, and with more where those would say 0 or 1."""
    # a sure threshold and one that is nearly sure decide differently
    shown = [f"{p:.{digits}g}" for digits in range(4, 18)]
    return next((text for text in shown if float(text) not in (0.0, 1.0)), shown[0])


class Numbers(NamedTuple):
    """Weights and offsets of a rule as text, for tables.

    ``shares`` are the probabilities of the rules that are shown, where there are several; ``heads`` are "weight", and
    "offset" where there are any, for each of them. ``cells`` are the numbers of the classes of these ``names``, and
    ``left_out`` says what is not shown.
    """

    shares: list[str]
    heads: list[str]
    names: list[str]
    cells: list[list[str]]
    left_out: list[str]


def numbers(rule: Any, most_classes: int) -> Numbers | None:
    """Return the numbers of the first classes and rules, None where a line says all, and for rules with groups."""
    if rule.groups or rule.gains.full is not None or in_words(rule) is not None:
        return None
    one = one_class(rule)
    if one is not None:
        # a line says all about the class, and the table is of the others
        return _numbers(replace(rule, gains=others_of(one)), most_classes, besides=one.k)
    return _numbers(rule, most_classes)


def _numbers(rule: Any, most_classes: int, *, scale: Array | None = None, besides: int | None = None) -> Numbers:
    """Return the numbers of the first classes ``besides`` one, and of the first rules, divided by a ``scale`` (A,)."""
    a, b = coefficients(rule.gains, scale)
    shown = [a, b] if b.any() else [a]
    n_rules = min(len(rule.weights), SHOWN)
    columns = [k for k in range(rule.n_decisions) if k != besides]
    n_columns = len(columns)
    columns = columns[:most_classes]
    if rule.abstain is not None:
        # abstaining is shown beside any number of classes
        columns = [*range(min(most_classes, rule.n_classes)), rule.n_decisions - 1]
    names = [_decision(rule, k) for k in columns]
    more = [(n_columns - len(names), "classes"), (len(rule.weights) - n_rules, "rules in the mixture")]
    return Numbers(
        [f"{share:.1%}" for share in rule.weights[:n_rules]] if rule.is_randomized else [],
        ["weight", "offset"][: len(shown)] * n_rules,
        names,
        [
            [
                "-" if part is a and k >= rule.n_classes else f"{part[s, k]:.4g}"
                for s in range(n_rules)
                for part in shown
            ]
            for k in columns
        ],
        [f"{number} more {what}" for number, what in more if number > 0],
    )


def describe(rule: Any, most_classes: int = 12) -> str:
    """Return a rule in words, or a table of its weights and offsets, that a person can read."""
    lines = headline(rule)
    for line, table in sections(rule, most_classes):
        lines += [f"  {line}", *([] if table is None else _table_lines(table))]
    return "\n".join(lines)


def _table_lines(table: Numbers) -> list[str]:
    """Return numbers as lines, aligned in columns."""
    lines = []
    first = max(8, *map(len, table.names)) + 2
    # at least two spaces between columns of numbers, which are aligned on the right
    widths = [
        max({"weight": 12, "offset": 10}[head], *(len(cell) + 2 for cell in column))
        for head, *column in zip(table.heads, *table.cells, strict=True)
    ]
    if table.shares:
        per_rule = len(widths) // len(table.shares)
        spans = [sum(widths[k : k + per_rule]) for k in range(0, len(widths), per_rule)]
        lines.append(" " * first + _aligned_right(table.shares, spans))
    for name, cells in zip(["class", *table.names], [table.heads, *table.cells], strict=True):
        lines.append(f"  {name:<{first - 2}}" + _aligned_right(cells, widths))
    return [*lines, *(f"  ... {text}" for text in table.left_out)]


def _aligned_right(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
