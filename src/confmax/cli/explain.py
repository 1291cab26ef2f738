"""`confmax explain`: what a rule does, in words, as a table, and step by step on one row.

A rule is a few numbers per class. People ask three things of them: from which probability on a class is decided, what
one class counts for against another, and why a particular row was decided as it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import Scaling, words
from confmax.calibration.scaling import FLOOR
from confmax.calibration.shown import UNSEEN, coefficients
from confmax.calibration.thresholds import ClassFirst, class_first
from confmax.cli.explain_labels import explain_labels
from confmax.cli.outputs import load_any_rule
from confmax.cli.show import Document, Page, finite, number, print_document
from confmax.cli.texts import joined
from confmax.confusion import Array
from confmax.evaluate.thresholds import class_thresholds
from confmax.rule import DecisionRule, LabelRule
from confmax.tables import apply_calibrator
from confmax.tables.arrays import ROW_SUM_TOLERANCE

FEATURES = ("probability", "mean distance", "mean squared distance")
SHOWN = 20  # classes in words and tables
RIVALS = 4  # of a class, in words
SHOWN_PARTS = 4  # of a rule that draws
SHOWN_GROUPS = 4  # of a rule with groups
MOST_LIMITS = 8  # of probabilities, in a sentence
WIDEST = 12  # a table of gains
KEYS = {"a": "powers", "W": "matrix", "b": "offsets"}  # of the numbers of calibrations


def explain(rule: Path, proba: list[float] | None, group: str | None, as_json: bool) -> None:
    """Run `confmax explain`."""
    loaded = load_any_rule(rule)
    if isinstance(loaded, LabelRule):
        explain_labels(loaded, rule, proba, group, as_json)
        return
    if loaded.groups and group is None:
        parts = {str(name): loaded.of_group(name) for name in loaded.groups}
        document = {
            "rule_file": str(rule),
            "groups": {name: explanation(part, proba, str(rule)) for name, part in parts.items()},
        }
        print_document(document, as_json, partial(_show_groups, rules=parts))
        return
    if group is not None:
        # imported here: it reads files, which takes pyarrow
        from confmax.cli.matching import typed

        loaded = loaded.of_group(typed([group], loaded.groups)[0])
    print_document(explanation(loaded, proba, str(rule)), as_json, partial(_show, rule=loaded))


# --- what it does ----------------------------------------------------------------------------------------------------


def explanation(rule: DecisionRule, proba: Sequence[float] | None, path: str) -> Document:
    """Return what a rule does, as a document that JSON can hold, for one row of probabilities (K,) also its steps."""
    names = [str(name) for name in rule.class_names]
    one = words.one_class(rule)
    thresholds = _thresholds(rule)
    decided_from = None
    if thresholds is not None:
        decided_from = {
            name: {other: finite(row[k]) for k, other in enumerate(names) if other != name}
            for name, row in zip(names, thresholds, strict=True)
        }
    return {
        "rule_file": path,
        "tuned_for": rule.metric,
        "cost_table": None if rule.cost_table is None else {"of": rule.cost_table.of, "rows": rule.cost_table.rows},
        "constraints": list(rule.constraints),
        "classes": list(rule.class_names[: rule.n_classes]),
        "decisions": list(rule.class_names),
        "abstain": rule.abstain,
        "randomized": rule.is_randomized,
        "seed": rule.seed,
        "calibration": _calibration(rule),
        "score_of": "gain table" if rule.gains.full is not None else FEATURES[rule.gains.power],
        "parts": _parts(rule),
        # 0: always, None: never
        "one_class": one and {"class": names[one.k], "threshold": None if one.cut > 1.0 else max(one.cut, 0.0)},
        "decided_from": decided_from,
        "words": _words(rule, thresholds),
        "example": None if proba is None else _example(rule, proba),
    }


def _thresholds(rule: DecisionRule) -> Array | None:
    """Return the smallest probability (K, K) at which each class is decided if only one other class has the rest.

    Rows are classes, columns the other one; the diagonal means nothing. None for many classes, for rules with more
    decisions than classes, and where decisions depend on distances between classes or a class may become less likely
    by its calibration: there it may be decided at any probability.
    """
    K = rule.n_classes
    if not getattr(rule.calibrator, "is_monotone", True) or rule.gains.power or rule.n_decisions != K or K > SHOWN:
        return None
    return np.column_stack([class_thresholds([rule], np.eye(K)[other])[0] for other in range(K)])


def _calibration(rule: DecisionRule) -> Document | None:
    calibrator = rule.calibrator
    if not isinstance(calibrator, Scaling):
        return None
    numbers = {KEYS.get(name, name): np.asarray(getattr(calibrator, name)).tolist() for name in calibrator.numbers}
    kept = {} if calibrator.kept is None else {"kept": rule.class_names[calibrator.kept]}
    return {"kind": calibrator.kind, **numbers, **kept}


def _undecided_of_two(gains: Array) -> list[float]:
    """Return the limits of both classes for a table of gains (2, 3), which leaves an interval undecided, or nothing."""
    low = 0.0
    high = 1.0
    for k in range(2):
        # by how much abstaining is above class k where the second class is impossible, and where it is certain
        first, second = (gains[:, 2] - gains[:, k]).tolist()
        if first == second and first < 0:
            return [-math.inf, -math.inf]
        if second > first:
            low = max(low, first / (first - second))
        elif second < first:
            high = min(high, first / (first - second))
    return [1.0 - low, high] if low <= high else [-math.inf, -math.inf]


def _parts(rule: DecisionRule) -> list[Document]:
    """Return what is drawn with which share: weights and offsets, or the table of gains."""
    shares = rule.weights.tolist()
    if rule.gains.full is not None:
        tables = zip(shares, rule.gains.full, strict=True)
        parts = [{"share": share, "gains": table.tolist()} for share, table in tables]
    else:
        a, b = (numbers.tolist() for numbers in coefficients(rule.gains))
        parts = [{"share": share, "weights": w, "offsets": o} for share, w, o in zip(shares, a, b, strict=True)]
    cuts = _undecided(rule)
    if cuts is None:
        return parts
    names = [str(name) for name in rule.class_names[: rule.n_classes]]
    # below zero even a class without probability is decided rather than nothing
    limits = [
        {name: None if cut < 0 else min(cut, 1.0) for name, cut in zip(names, part, strict=True)} for part in cuts
    ]
    return [{**part, "undecided_up_to": limit} for part, limit in zip(parts, limits, strict=True)]


def _undecided(rule: DecisionRule) -> list[list[float]] | None:
    """Return for every part and class the probability up to which the part abstains rather than decides the class.

    A part abstains where no class is above its own. None for rules that decide every row, and where abstaining does not
    depend on the probabilities one by one.
    """
    if rule.abstain is not None and rule.n_classes == 2:
        return [_undecided_of_two(table) for table in rule.gains.matrices()]
    if rule.abstain is None or rule.gains.full is not None or rule.gains.power:
        return None
    a, b = rule.gains.coefficients()
    if (a < 0).any():
        return None
    room = b[:, rule.n_classes :] - b[:, : rule.n_classes]
    # of equal scores the last decision is taken, which is to abstain
    never = np.where(room < 0, -np.inf, np.inf)
    cuts: list[list[float]] = np.divide(room, a, out=never, where=a > 0).tolist()
    return cuts


def _words(rule: DecisionRule, thresholds: Array | None) -> list[str]:
    """Return what the rule does with each class, a sentence each."""
    names = [str(name) for name in rule.class_names[: rule.n_classes]]
    K = rule.n_classes
    sentence = words.in_words(rule) or words.one_class_first(rule)
    plain = words.plain_words(rule)
    said = []
    if sentence is not None:
        said.append(sentence if plain is None else f"{sentence} ({plain})")
    elif thresholds is not None:
        said = [_when(k, names, row) for k, row in enumerate(thresholds)]
        if K > 2:
            said.append(
                "(threshold in a two-way contest: p needed when all remaining probability is on the other class; "
                "argmax: 0.500)"
            )
    elif rule.gains.power or rule.gains.full is not None:
        said.append(words.how(rule))
    w = words.weights_alone(rule)
    # where a sentence says all about several classes, the ratio of two weights would only repeat it
    if w is not None and (K == 2 or sentence is None):
        low = int(np.argmin(w))
        high = int(np.argmax(w))
        if w[low] > 0 and w[high] > w[low]:
            calibrated = "" if rule.calibrator is None else "calibrated "
            said.append(
                f"{names[high]} is favoured most: its {calibrated}probability counts {w[high] / w[low]:.3g} times that "
                f"of {names[low]}"
            )
    said += words.pulled(rule)
    if rule.abstain is not None:
        said += _abstains(rule, names)
    if rule.is_randomized:
        said.append(f"the rule decides at random: for each row it draws one of {len(rule.weights)} parts")
    return said


def _when(k: int, names: Sequence[str], thresholds: Array) -> str:
    """Return when class k is decided, against the classes that it wins against most easily first."""
    name = names[k]
    others = [j for j in np.argsort(thresholds, kind="stable").tolist() if j != k]
    if len(names) == 2:
        return f"{name} is decided {_from(thresholds[others[0]])} (argmax: 0.500)"
    against = [f"{_from(thresholds[j])} against {names[j]}" for j in others[:RIVALS]]
    more = f", ... {len(others) - RIVALS} more" if len(others) > RIVALS else ""
    return f"{name} is decided {', '.join(against)}{more}"


def _abstains(rule: DecisionRule, names: Sequence[str]) -> list[str]:
    """Return which rows a rule leaves undecided, a sentence for each part that is shown."""
    cuts = _undecided(rule)
    name = str(rule.abstain)
    if cuts is None:
        return [f"a row is left undecided ({name}) if that has the largest expected gain"]
    p = "p" if rule.calibrator is None else "calibrated p"
    said = []
    for share, part in zip(rule.weights.tolist(), cuts[:SHOWN_PARTS], strict=False):
        drawn = f"drawn with probability {share:.1%}: " if rule.is_randomized else ""
        # the probabilities of a row sum to one: some class is above its limit if the limits sum to less
        if min(part) < 0 or sum(part) < 1:
            said.append(f"{drawn}no row is left undecided ({name})")
            continue
        if len(names) == 2:
            k = rule.positive
            when = f"{max(1 - part[1 - k], 0.0):.3f} <= {p}({names[k]}) <= {min(part[k], 1.0):.3f}"
        else:
            limits = [f"{p}({one}) <= {cut:.3f}" for one, cut in zip(names, part, strict=True) if cut < 1]
            when = " and ".join(limits[:MOST_LIMITS]) + " and so on" * (len(limits) > MOST_LIMITS)
        said.append(f"{drawn}a row is left undecided ({name}) " + (f"if {when}" if when else "always"))
    return said


def _from(threshold: float) -> str:
    if not math.isfinite(threshold):
        return "never"
    return "always" if threshold == 0 else f"from {threshold:.3f}"


# --- one row ---------------------------------------------------------------------------------------------------------


def _example(rule: DecisionRule, proba: Sequence[float]) -> Document:
    """Return the steps of a decision: calibrated probabilities, what scores are made of, scores, decision."""
    row = np.array([proba], dtype=np.float64)
    if row.shape[1] != rule.n_classes:
        raise ValueError(
            f"--proba gives {row.shape[1]} probabilities and the rule has {rule.n_classes} classes "
            f"({joined(rule.class_names[: rule.n_classes])}); give one for each, in this order"
        )
    if not (row >= 0).all() or not abs(row.sum() - 1) <= ROW_SUM_TOLERANCE:
        raise ValueError(
            f"--proba gives numbers that sum to {row.sum():.6g}; give probabilities, none negative, that sum to 1"
        )
    checked = rule.checked(row)
    P = np.asarray(apply_calibrator(rule.calibrator, checked))
    x, scores = _scores(rule, P[0])
    # the row as it was given is decided by the rule itself; the scores above only explain that
    decided = rule.decision_probabilities(row)[0]
    names = [str(name) for name in rule.class_names]
    return {
        "proba": checked[0].tolist(),
        "calibrated": None if rule.calibrator is None else P[0].tolist(),
        "scored": x.tolist(),
        "parts": [
            {"share": float(share), "scores": part.tolist(), "decision": names[_last_largest(part)]}
            for share, part in zip(rule.weights, scores, strict=True)
        ],
        "decision_probabilities": dict(zip(names, decided.tolist(), strict=True)),
        "decision": names[int(rule.predict_index(row)[0])],
    }


def _scores(rule: DecisionRule, p: Array) -> tuple[Array, Array]:
    """Return what scores are made of (K,), and the scores (A, M) by the coefficients that the table shows."""
    if rule.gains.full is not None:
        return p, np.einsum("i,aij->aj", p, rule.gains.full)
    distance = np.abs(np.subtract.outer(np.arange(len(p)), np.arange(len(p))))
    x = p @ distance**rule.gains.power if rule.gains.power else p
    a, b = coefficients(rule.gains)
    # decisions beyond the classes have an offset alone
    return x, a * np.pad(x, (0, rule.n_decisions - len(x))) + b


def _last_largest(scores: NDArray[Any]) -> int:
    return len(scores) - 1 - int(np.argmax(scores[::-1]))


# --- what is printed -------------------------------------------------------------------------------------------------


def _show(page: Page, document: Document, rule: DecisionRule) -> None:
    """Print what a rule is for, and how it decides."""
    _show_about(page, document)
    page.say()
    _show_way(page, document, rule)


def _show_groups(page: Page, document: Document, rules: dict[str, DecisionRule]) -> None:
    """Print how the rows of each of the first groups are decided."""
    every = document["groups"]
    _show_about(page, next(iter(every.values())), groups=joined(list(every), SHOWN))
    for name, part in list(every.items())[:SHOWN_GROUPS]:
        page.say("", f"Group {name}", style="bold")
        _show_way(page, part, rules[name])
    if len(every) > SHOWN_GROUPS:
        page.say("", f"... {len(every) - SHOWN_GROUPS} more groups; --group NAME shows one of them, --json shows all.")


def _show_about(page: Page, document: Document, **more: str) -> None:
    """Print the file of a rule, its classes and ``more`` about it."""
    classes, names = (list(map(str, document[key])) for key in ("classes", "decisions"))
    items = {"rule": document["rule_file"], "classes": joined(classes, SHOWN)}
    if document["abstain"] is not None:
        items["also"] = f"leaves rows undecided, as {document['abstain']}"
    elif len(names) > len(classes):
        items["also"] = f"decides {joined(names[len(classes) :], SHOWN)}"
    if document["randomized"]:
        items["draws"] = f"between {len(document['parts'])} parts, by seed {document['seed']} and row"
    page.items(items | more)


def _show_way(page: Page, document: Document, rule: DecisionRule) -> None:
    """Print a rule as `repr` does, what it does with each class, and the steps of its decision on a row."""
    classes, names = (list(map(str, document[key])) for key in ("classes", "decisions"))
    described = words.describe(rule, SHOWN)
    page.block(described)
    _show_calibration(page, document["calibration"], classes)
    if words.by_its_table(rule):
        page.say("", f"Table of {document['cost_table']['of']}", style="bold")
        _show_table(page, document["cost_table"]["rows"], classes, names, document["cost_table"]["of"])
    elif rule.gains.full is not None:
        _show_gains(page, document["parts"], classes, names)
    said = [sentence for sentence in document["words"] if sentence not in described]
    if said:
        page.say("", "In words", style="bold")
        page.say(*said)
    if document["example"] is not None:
        _show_example(page, document, rule)


def _show_calibration(page: Page, calibration: Document | None, classes: Sequence[str]) -> None:
    """Print what a calibration makes of each probability."""
    if calibration is None:
        return
    more = "" if calibration["floor"] == FLOOR else f" plus {calibration['floor']:g}"
    if calibration["kind"] == "temperature":
        power = f"1/{calibration['temperature']:.4g}"
        page.say("", f"Calibrated: each probability{more} to the power {power}, then divided by their sum.")
        return
    # beyond 700 a factor would overflow
    factors = [math.exp(min(offset, 700.0)) for offset in calibration["offsets"]]
    powers = calibration.get("powers") or np.diagonal(calibration["matrix"]).tolist()
    rows = zip(classes, powers, factors, strict=True)
    cells = [[name, f"{power:.4g}", f"{factor:.4g}"] for name, power, factor in rows]
    page.say("", f"Calibrated: each probability{more} to its power, times its factor, then divided by their sum.")
    if "kept" in calibration:
        cells[classes.index(str(calibration["kept"]))][1:] = ["", ""]
        page.say(f"{calibration['kept']} keeps its probability, and the others share the rest.")
    if calibration["kind"] == "matrix":
        page.say("Before the division, powers of the other probabilities multiply it, which --json shows.")
    page.table(["class", "power", "factor"], cells[:SHOWN])
    if len(cells) > SHOWN:
        page.say(f"... {len(cells) - SHOWN} more classes; --json shows all.")


def _show_gains(page: Page, parts: Sequence[Document], classes: Sequence[str], names: Sequence[str]) -> None:
    """Print the tables of gains that a rule has, or draws."""
    for part in parts[:SHOWN_PARTS]:
        page.say("" if len(parts) == 1 else f"Drawn with probability {part['share']:.1%}", style="bold")
        _show_table(page, part["gains"], classes, names, "gains")
    if len(parts) > SHOWN_PARTS:
        page.say(f"... {len(parts) - SHOWN_PARTS} more parts; --json shows all.")


def _show_table(
    page: Page, table: Sequence[Sequence[float]], classes: Sequence[str], names: Sequence[str], of: str
) -> None:
    """Print a table ``of`` costs or gains."""
    if len(names) > WIDEST:
        page.say(f"A table of {len(classes)} x {len(names)} {of}; --json shows it.")
        return
    # adding zero makes 0 of -0
    rows = ([f"{number + 0.0:.4g}" for number in row] for row in table)
    page.table(["true class", *names], [[name, *row] for name, row in zip(classes, rows, strict=True)])


def _show_example(page: Page, document: Document, rule: DecisionRule) -> None:
    """Print the steps of the decision on one row."""
    example = document["example"]
    names = list(map(str, rule.class_names))
    page.say("", f"The row {','.join(f'{p:.4g}' for p in example['proba'])}, step by step", style="bold")
    values = {"probability": example["proba"]}
    if rule.calibrator is not None:
        values["calibrated"] = example["calibrated"]
    if document["score_of"] not in ("probability", "gain table"):
        values["distance"] = example["scored"]
    columns = {"class": names, **{head: list(map(number, column)) for head, column in values.items()}}
    firsts = [None if rule.n_decisions < 3 else class_first(rule.gains[k]) for k in range(len(rule.weights))]
    for k, part in enumerate(example["parts"][:SHOWN_PARTS]):
        shown = _shown_scores(part["scores"], firsts[k], document["parts"][k], example["scored"])
        columns[f"score {k + 1}" if rule.is_randomized else "score"] = [
            score + ("*" if name == part["decision"] else " ") for name, score in zip(names, shown, strict=True)
        ]
    decided = f"{example['decision']}, {_reason(rule, firsts[0], example['decision'])} (*)"
    if rule.is_randomized:
        shares = [f"{name} {share:.1%}" for name, share in example["decision_probabilities"].items() if share]
        decided = f"{', '.join(shares)}; drawn by the probabilities of this row: {example['decision']}"
    # a rule may have more decisions than classes: those have a score and no probability
    page.table(list(columns), list(zip_longest(*columns.values(), fillvalue="")))
    if any(first is not None and math.isfinite(first.cut) for first in firsts[:SHOWN_PARTS]):
        page.say("A score with a sign is by how much the probability exceeds the threshold of the class.")
    page.say("", f"Decided: {decided}")


def _reason(rule: DecisionRule, first: ClassFirst | None, decision: str) -> str:
    """Return why a rule decides so that does not draw; ``first`` is how it compares one class, if it does."""
    if first is None:
        return "the largest score"
    if decision != str(rule.class_names[first.k]):
        return "the most probable other class" if words.others_of(first) is None else "the largest score of the others"
    if first.cut <= UNSEEN:
        return "as in every row"
    calibrated = "calibrated " if words.is_calibrated(rule, first.k) else ""
    return f"its {calibrated}probability reaches the threshold"


def _shown_scores(
    scores: Sequence[float], first: ClassFirst | None, part: Document, scored: Sequence[float]
) -> list[str]:
    """Return the scores of a ``part``; of one that compares one class first, by how much this exceeds its threshold."""
    if first is None or not math.isfinite(first.cut):
        return list(map(number, scores))
    # the scores of the others only order them, and are far below the digits that are shown
    others = words.others_of(first)
    cells = ["" for _ in scores]
    if others is not None:
        a, b = (numbers[0] for numbers in coefficients(others))
        cells = list(map(number, (a * np.array(scored) + b).tolist()))
    cells[first.k] = f"{scores[first.k] / part['weights'][first.k]:+.4f}"
    return cells
