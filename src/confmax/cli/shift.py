"""`confmax shift`: whether anything has changed since a rule was tuned, and the rule for other class shares."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax.calibration.shifted import Reweighted
from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions, existing, read_rows
from confmax.cli.in_parts import is_read_in_parts
from confmax.cli.matching import positive_of, rows_for
from confmax.cli.outputs import arrays_beside, check_rule_output, load_any_rule, one_result, save_rule
from confmax.cli.show import Document, Page, between, finite, number, print_document, show_source, source_document
from confmax.cli.tables import read_frame
from confmax.cli.texts import format_of, joined
from confmax.confusion import Array
from confmax.progress import Bar
from confmax.rule import DecisionRule, LabelRule
from confmax.rule.shifted import reads_recalls_alone, shares_from
from confmax.shift import Detection, PriorShift, detect
from confmax.shift.priors import LEVEL
from confmax.shift.source import source_of
from confmax.solution import Infeasible, Solution
from confmax.solution.adapted import OLD
from confmax.solution.tuning import solution_of_rule
from confmax.tables import make_table
from confmax.tables.partitioned.parts import RawPart

INTERVALS = 0.9
LITTLE = 0.002  # gain of a metric that one can leave
SAME_ROWS = 1e-6  # distance of mean probabilities, within which as many rows are taken for the same
# what is wrong where FILE holds the rows of the tuning
SHOWS_NOTHING = "which show no change"
NOT_WEIGHTED = (
    "whose classes have the shares of before; give this table as --tuned-on, with --tuned-label, in the place of FILE, "
    "and its classes are weighted to the new shares"
)
ASSUMED = (
    "This assumes that rows of a class look as before and only the shares of the classes have changed. Where the rows "
    "themselves look different, tune a rule on labelled rows of the new kind."
)
# options of one of the two ways to use the command, which the other refuses
ADAPTS = ("priors", "label", "out", "proba_shifted")


def shift(rule: Path, file: Path | None, check: bool, as_json: bool, **more: Any) -> int:
    """Run `confmax shift`, and return its exit code: 3 if a check finds that anything has changed."""
    own = ("out", "force", "priors", "tuned_on", "tuned_label", "tuned_weight", "proba_shifted", "false_alarms")
    given = {name: more.pop(name) for name in own}
    _check_options(check, {**given, "label": more["label"], "group": more["group"]})
    _check_file(file, check, given["priors"], more["weight"])
    read = [*(path for path in (rule, file, given["tuned_on"]) if path is not None), *arrays_beside(more)]
    check_rule_output(given["out"], given["force"], *read)
    one_result(as_json, given["out"])
    loaded = _loaded(rule, given["tuned_on"], check=check)
    names = loaded.class_names[: loaded.n_classes]
    given["priors"] = _by_name(given["priors"], names)
    if given["priors"] is not None:
        shares_from(given["priors"], names)
    in_parts = more.pop("in_parts")
    options = TableOptions(**more, some_labels=True)
    parted = file is not None and is_read_in_parts(file, in_parts)
    for option, name in (("--label", options.label), ("--group", options.group)):
        if parted and name is not None:
            raise ValueError(
                f"{file} is read in parts, and {option} needs its rows in memory; leave it out, or name one file with "
                f"--in-parts no"
            )
    with Bar("reading", "rows") as bar:
        rows = None
        if file is not None:
            rows = rows_for({str(rule): loaded}, file, options, in_parts=parted, progress=bar.rows).in_order(names)
        tuned_on = None
        if given["tuned_on"] is not None:
            tuned_on = _tuning_rows(given["tuned_on"], loaded, options, given["tuned_label"], given["tuned_weight"])
        if check and rows is not None:
            level = LEVEL if given["false_alarms"] is None else given["false_alarms"]
            beside = {"sample_weight": rows.weight, "group": rows.group}
            found = detect(rows.proba, loaded, **beside, level=level, tuned_on=tuned_on)
            _warn_of_same_rows(rows, loaded, str(rule), SHOWS_NOTHING)
        else:
            solution = _adapted(rows, loaded, tuned_on, given)
            document = _adapted_document(rows, loaded, solution, tuned_on, given, str(rule))
    if check and rows is not None:
        print_document(_checked(rows, loaded, found), as_json, _show_check)
        return 3 if found.changed else 0
    document["rule_file"] = save_rule(solution.rule, given["out"], given["force"])
    print_document(document, as_json, partial(_show_adapted, rule=solution.rule), given["out"])
    return 0


def _adapted_document(
    rows: FileRows | None, rule: DecisionRule, solution: Solution, tuned_on: Any, given: Mapping[str, Any], path: str
) -> Document:
    """Return what was estimated and the new rule, without the place where it is written; ``path`` is the old one's."""
    if rows is not None and (given["priors"] is None or tuned_on is None):
        _warn_of_same_rows(rows, rule, path, SHOWS_NOTHING if given["priors"] is None else NOT_WEIGHTED)
    return {
        **(_no_source(rule.class_names[: rule.n_classes]) if rows is None else source_document(rows)),
        "metric": rule.metric,
        "unit": None if rule.cost_table is None else f"{solution.metric.shown_name} of a row",
        "tuned_on": given["tuned_on"] and str(given["tuned_on"]),
        **_estimated(rule, solution, source_of(rule, tuned_on).shares.meant, given["priors"]),
        **_found(rows, rule, solution, tuned=tuned_on is not None),
    }


def _check_options(check: bool, given: Mapping[str, Any]) -> None:
    """Refuse options that do not go together."""
    if check and (wrong := [name for name in ADAPTS if given[name]]):
        raise click.UsageError(
            f"--check only tests, and --{wrong[0].replace('_', '-')} is of the new rule; leave one of them out"
        )
    if given["false_alarms"] is not None and not check:
        raise click.UsageError("--false-alarms is of --check; give both, or leave it out")
    if given["group"] is not None and not check:
        raise click.UsageError("--group is of --check, for rules that decide by groups; give both, or leave it out")
    if given["priors"] is not None and given["label"] is not None:
        raise click.UsageError("--priors says the class shares, so --label adds nothing; leave one of them out")
    if given["proba_shifted"] and given["priors"] is None:
        raise click.UsageError("--proba-shifted undoes a known shift; give --priors, the shares it was made for")
    if (given["tuned_on"] is None) != (given["tuned_label"] is None):
        raise click.UsageError("--tuned-on is a table with true classes, whose column --tuned-label names; give both")
    if given["tuned_weight"] is not None and given["tuned_on"] is None:
        raise click.UsageError("--tuned-weight is a column of --tuned-on; give both")


def _check_file(file: Path | None, check: bool, priors: Any, weight: str | None) -> None:
    """Refuse a command line that needs new rows and names no file of them."""
    if file is not None:
        return
    if check or priors is None:
        raise click.UsageError(
            "FILE is missing, the table of new rows; a rule is adapted without it only to shares that --priors says"
        )
    if weight is not None:
        raise click.UsageError("--weight is a column of FILE, which is missing; --tuned-weight is that of --tuned-on")


def _no_source(names: Sequence[Any]) -> Document:
    """Return `source_document` where no file of new rows is given."""
    empty = dict.fromkeys(("file", "rows", "label", "weight"))
    return {**empty, "classes": list(names), "columns": [], "table": None}


def _loaded(path: Path, tuned_on: Path | None, *, check: bool) -> DecisionRule:
    """Return the rule of a file; refuse those of several labels, or whose class shares are unknown.

    Those that decide by groups are only checked.
    """
    rule = load_any_rule(path)
    if isinstance(rule, LabelRule):
        raise ValueError(
            f"{path} decides several labels per row, and confmax shift is for rules of one class per row; in Python "
            f"LabelSolution.adapt(new_proba) adapts what confmax.maximize returned for labels"
        )
    if rule.groups and not check:
        raise ValueError(
            f"{path} decides by groups, whose class shares may change each by itself; tune a rule on rows of the new "
            f"kind, or give --check and --group"
        )
    if rule.shares is None and tuned_on is None:
        raise ValueError(
            f"{path} does not hold the class shares of its tuning rows (rules that were made by hand do not); give "
            f"--tuned-on and --tuned-label, the table that it was tuned on, or tune it again"
        )
    return rule


def _tuning_rows(
    path: Path, rule: DecisionRule, options: TableOptions, label: str, weight: str | None
) -> tuple[Any, Any, Any]:
    """Return probabilities, true classes and weights of the tuning table, whose columns are read as those of FILE."""
    names = rule.class_names[: rule.n_classes]
    sep = options.sep if not path.is_dir() and format_of(path) == ".csv" else None
    alike = {name: getattr(options, name) for name in ("columns", "classes", "positive", "score", "normalize")}
    frame = read_frame(path, sep)
    for name, option in ((label, "--tuned-label"), (weight, "--tuned-weight")):
        if name is not None:
            existing(name, frame, option)
    rows = read_rows(frame, TableOptions(label=label, weight=weight, **alike), names, positive_of(rule)).in_order(names)
    app.warn(*rows.notes)
    print_of = make_table(rows.proba, rows.labels, rows.weight, names, stated=True).fingerprint()
    if rule.tuned_on is not None and rule.tuned_on != print_of:
        app.warn(
            f"{path} holds other rows than the {rule.tuned_on.n_rows:,} that the rule was tuned on: the model must not "
            f"have been fitted on them"
        )
    return rows.proba, rows.labels, rows.weight


def _warn_of_same_rows(rows: FileRows, rule: DecisionRule, path: str, why: str) -> None:
    """Warn, and say why, if the rows of FILE seem to be those of the tuning: as many, with the same mean."""
    if rule.tuned_on is None or rule.tuned_on.n_rows != rows.n_rows:
        return
    if rule.shares is None or rule.shares.shifted_to is not None:
        return
    mean = source_of(rule, of_groups=True).table(rows.proba, rows.weight).mean_probability()
    if np.abs(mean - rule.shares.meant).max() < SAME_ROWS:
        app.warn(
            f"these are as many rows as {path} was tuned on, with the same mean probabilities: very likely the same "
            f"rows, {why}"
        )


# --- the check -------------------------------------------------------------------------------------------------------


def _checked(rows: FileRows, rule: DecisionRule, found: Detection) -> Document:
    """Return what the tests found."""
    adjusted = found.p_values
    before = found.decided_before if len(found.decided_before) else [None] * len(found.decided)
    return {
        **source_document(rows),
        "metric": rule.metric,
        "changed": found.changed,
        "sentence": found.sentence,
        "level": found.level,
        "p_values": adjusted,
        "shares": _shares(found.shares),
        "decisions": [
            {"decision": name, "before": finite(old), "now": float(new)}
            for name, old, new in zip(found.decisions, before, found.decided, strict=True)
        ],
        "limits": [
            {
                "text": one.text,
                "value": one.value,
                "interval": [float(end) for end in one.interval],
                "broken": bool(adjusted[one.text] < found.level),
            }
            for one in found.promises
        ],
    }


def _shares(found: PriorShift) -> list[Document]:
    """Return the shares of every class: of the tuning rows, and as these rows show them, with an interval."""
    ends = found.interval(INTERVALS)
    moved = set(found.moved())
    return [
        {
            "class": name,
            "source": float(found.source[k]),
            "target": float(found.priors[k]),
            "shown": float(found.raw_priors[k]),
            "interval": ends[k].tolist(),
            "moved": k in moved,
        }
        for k, name in enumerate(found.classes)
    ]


def _show_check(page: Page, document: Document) -> None:
    """Print what has changed."""
    show_source(page, document)
    page.say("", f"{_capital(document['sentence'])}.", style="bold")
    page.say()
    _share_table(page, document["shares"])
    page.say()
    page.table(
        ["decision", "tuning rows", "these rows"],
        [[str(one["decision"]), number(one["before"]), number(one["now"])] for one in document["decisions"]],
    )
    if document["limits"]:
        page.say()
        page.table(
            ["limit", "these rows", "broken"],
            [
                [one["text"], between(one["value"], *one["interval"]), "yes" if one["broken"] else "not shown"]
                for one in document["limits"]
            ],
        )
    tests = [f"{name} {value:.2g}" for name, value in document["p_values"].items()]
    page.say(
        "",
        f"p-values, adjusted for the number of tests: {joined(tests, 20)}. Something has changed if one of them is "
        f"below {document['level']:.2g}; this is said wrongly of {100.0 * document['level']:.2g} % of the tables in "
        f"which nothing has changed.",
        f"In brackets: {INTERVALS:.0%} intervals. Recalls, precisions and accuracy cannot be checked without labels.",
        ASSUMED,
    )


def _share_table(page: Page, shares: list[Document]) -> None:
    page.table(
        ["class", "tuning rows", "these rows", "moved"],
        [
            [
                str(one["class"]),
                number(one["source"]),
                between(one["shown"], *one["interval"]),
                "yes" if one["moved"] else "not shown",
            ]
            for one in shares
        ],
    )


# --- the new rule ----------------------------------------------------------------------------------------------------


def _adapted(rows: FileRows | None, rule: DecisionRule, tuned_on: Any, given: Mapping[str, Any]) -> Solution:
    """Return the solution for the class shares that are given, or that the rows show."""
    labels = None if rows is None else rows.labels
    if rows is not None and labels is not None and not any(label is None for label in labels):
        names = rule.class_names[: rule.n_classes]
        if make_table(rows.proba, labels.tolist(), None, names, stated=True).fingerprint() == rule.tuned_on:
            raise ValueError(f"{rows.path} holds the rows that the rule was tuned on, which show no change")
    try:
        solution = solution_of_rule(rule).adapt(
            None if rows is None else rows.proba,
            priors=given["priors"],
            tuned_on=tuned_on,
            y=labels,
            sample_weight=None if rows is None else rows.weight,
            proba_shifted=given["proba_shifted"],
        )
    except Infeasible as error:
        app.fail(error.sentence, 3)
    if isinstance(solution.rule.calibrator, Reweighted):
        raise ValueError(
            "no rule file holds what undoes the correction before this calibration, whose powers differ; give the "
            "probabilities of the model before its correction, without --proba-shifted"
        )
    return solution


def _by_name(priors: Any, names: Sequence[Any]) -> Any:
    """Return shares by the names of the classes, which a command line gives as text."""
    if not isinstance(priors, dict):
        return priors
    as_known = {str(name): name for name in names}
    return {as_known.get(name, name): share for name, share in priors.items()}


def _estimated(rule: DecisionRule, solution: Solution, source: Array, priors: Any) -> Document:
    """Return the class shares of the tuning rows and of these."""
    names = rule.class_names[: rule.n_classes]
    found: PriorShift | None = solution.shift
    if found is None:
        target = shares_from(priors, names)
        pairs = zip(names, source.tolist(), target.tolist(), strict=True)
        return {"shares": [{"class": name, "source": old, "target": new} for name, old, new in pairs]}
    return {
        "sentence": found.sentence,
        "p_value": found.p_value,
        "shrinkage": found.shrinkage,
        "misfit": finite(found.misfit),
        "labelled": int(found.labelled.sum()),
        "shares": _shares(found),
    }


def _found(rows: FileRows | None, rule: DecisionRule, solution: Solution, *, tuned: bool) -> Document:
    """Return the new rule, what it is worth beside the old one, and why the old one is kept if it is."""
    new = solution.rule
    same = new.to_json() == rule.to_json()
    shown = solution.metric.shown
    old = solution.baselines.get(OLD)
    known = finite(shown(solution.value))
    return {
        "why_kept": _why_kept(solution, rule) if same else None,
        "estimate": None if known is None else ("tuning rows" if tuned else "these rows"),
        "old": None if old is None else finite(shown(old)),
        "old_misses": bool(solution.missed_before),
        "missed_limits": list(solution.missed_before),
        "new": known,
        "rows_moved": None if rows is None else _moved(rows, rule, new),
        "rule": json.loads(new.to_json()),
    }


def _moved(rows: FileRows, rule: DecisionRule, new: DecisionRule) -> int:
    """Return how many rows the rules decide differently; those of rules that draw, by one draw for both."""
    with warnings.catch_warnings():
        # what equal rows draw changes no count by much, and nothing is written
        warnings.simplefilter("ignore", UserWarning)
        if rows.is_in_parts:
            return sum(rows.proba.run(partial(_moved_in, rule, new)))
        return int(np.count_nonzero(rows.decided_by(rule, None) != rows.decided_by(new, None)))


def _moved_in(rule: DecisionRule, new: DecisionRule, part: RawPart) -> int:
    """Return how many rows of a part the rules decide differently."""
    if len(part.proba) == 0:
        return 0
    return int(np.count_nonzero(rule.predict_index(part.proba) != new.predict_index(part.proba)))


def _why_kept(solution: Solution, rule: DecisionRule) -> str:
    """Return why the rule stays as it is, in a sentence."""
    found = solution.shift
    if found is not None and found.shrinkage == 0.0:
        return "the rows do not show that anything has changed"
    M = max(rule.n_decisions, rule.n_classes)
    if not rule.constraints and rule.abstain is None and reads_recalls_alone(solution.metric, rule.n_classes, M):
        return f"{rule.metric} depends on the recalls alone, and its best rule does not depend on the class shares"
    return "no other rule is better on the estimate"


def _show_adapted(page: Page, document: Document, rule: DecisionRule) -> None:
    """Print what was estimated, and the new rule."""
    if document["file"] is not None:
        show_source(page, document)
        page.say()
    shares = document["shares"]
    if "sentence" in document:
        page.say(f"{_capital(document['sentence'])}.", style="bold")
        page.say()
        page.table(
            ["class", "tuning rows", "these rows show", "taken"],
            [
                [
                    str(one["class"]),
                    number(one["source"]),
                    between(one["shown"], *one["interval"]),
                    number(one["target"]),
                ]
                for one in shares
            ],
        )
        believed = f"{document['shrinkage']:.0%} of the difference is believed"
        page.say("", f"{believed}, by the evidence for it. In brackets: {INTERVALS:.0%} intervals.")
        if document["labelled"]:
            page.say(f"The true classes of {document['labelled']} rows are known and count in full.")
    else:
        page.say("The class shares are those that you gave.", style="bold")
        page.say()
        page.table(
            ["class", "tuning rows", "taken"],
            [[str(one["class"]), number(one["source"]), number(one["target"])] for one in shares],
        )
    page.say()
    if document["why_kept"]:
        page.say(f"The rule stays as it is: {document['why_kept']}.")
    else:
        _show_gain(page, document)
        page.say()
        page.block(str(rule))
    out = document["rule_file"]
    written = "The rule is not saved; -o rule.json writes it to a file." if out is None else f"Rule written to {out}."
    page.say("", written, ASSUMED)


def _show_gain(page: Page, document: Document) -> None:
    """Print what both rules are worth, and how many rows they decide differently."""
    where = f"{document['tuned_on']}, its classes weighted to the new shares"
    if document["estimate"] == "these rows":
        where = "the confusion matrix that the probabilities of these rows lead to"
    items = {}
    if document["new"] is not None:
        page.say(f"{document['unit'] or document['metric']} on {where}", style="bold")
        items = {"old rule": number(document["old"]), "new rule": number(document["new"])}
        if document["old_misses"]:
            items["old rule"] += f", and misses {' and '.join(document['missed_limits'])} there"
    if document["rows_moved"] is not None:
        items["decides"] = f"{document['rows_moved']} of {document['rows']} rows otherwise"
    page.items(items)
    if _hardly(document):
        page.say("On this estimate the new rule is hardly better than the old one.")


def _hardly(document: Document) -> bool:
    """Whether the new rule gains so little that other rows may show none; of costs nobody knows what is little."""
    old, new = document["old"], document["new"]
    if old is None or new is None or document["old_misses"] or document["metric"].startswith("linear"):
        return False
    return bool(new - old < LITTLE)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
