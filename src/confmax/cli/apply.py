"""`confmax apply`: every row of a file, decided by a rule."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions, read_if_named
from confmax.cli.counts import asked_class, counts_document, few_classes, show_expected, taken_in_words
from confmax.cli.in_parts import is_read_in_parts
from confmax.cli.label_options import refuse_label_options
from confmax.cli.labels import apply_labels, show_labels
from confmax.cli.matching import rows_for
from confmax.cli.outputs import check_output, check_parts_output, load_any_rule, write_parts, writing
from confmax.cli.show import Document, Page, print_document, show_source, source_document
from confmax.cli.tables import DECISION, write_decisions
from confmax.cli.texts import format_of, joined
from confmax.progress import Bar
from confmax.rule import DecisionRule, LabelRule
from confmax.rule.applied import DecidedPart, decided_tables
from confmax.rule.counts import Sums
from confmax.rule.forms import OF_ONE_CLASS
from confmax.rule.parts import groups_given


def apply(
    rule: Path, file: Path, out: Path, as_json: bool, at_most: dict[str, int], in_parts: str, **more: Any
) -> None:
    """Run `confmax apply`."""
    if in_parts == "auto" and file.suffix.lower() == ".parquet" and file.is_file():
        # only what is read whole has a single score, or is divided by its sums
        in_parts = "no" if more["score"] is not None or more["normalize"] else "auto"
    parted = is_read_in_parts(file, in_parts)
    folder = parted and check_parts_output(out, as_json, file, rule)
    if not parted:
        format_of(out)
        check_output(out, as_json, file, rule)
    loaded = load_any_rule(rule)
    with Bar("deciding", "rows") as bar:
        progress = bar.rows if parted else None
        if isinstance(loaded, LabelRule):
            document = apply_labels(loaded, rule, file, out, progress, folder=folder, **more)
        else:
            refuse_label_options("a rule of several labels")
            del more["separator"]
            rows = rows_for({str(rule): loaded}, file, TableOptions(**more), in_parts=parted, progress=progress)
            document = (partial(decide_parts, folder=folder) if parted else decide_rows)(rows, loaded, out, at_most)
    print_document(document, as_json, show_labels if isinstance(loaded, LabelRule) else _show, out)


def decide_rows(rows: FileRows, rule: DecisionRule, out: Path, at_most: Mapping[str, int]) -> Document:
    """Decide every row of a file and write its columns with the decisions, ``at_most`` so many rows by decision."""
    # --positive says here whose probability a score is; the rule keeps its order, and with it its ties
    rows = rows.in_order(rule.class_names[: rule.n_classes])
    frame = rows.frame
    key = rows.options.key
    assert frame is not None
    keys = read_if_named(lambda name: frame.names_in(name, "key column"), key, frame, "--key")
    # a column of a file has one type: a rule with classes 0, 1 and a decision "abstain" writes text
    names = rule.classes if rule.classes.dtype != object else rule.classes.astype(str)
    decisions = rows.decided_by(rule, keys, _caps(rule, at_most))
    with writing(out):
        left_out = write_decisions(out, frame, names[decisions], block=rows.block, block_names=rows.classes)
    if left_out:
        app.warn(
            f"{joined(left_out)} of {frame.path} cannot be columns of {rows.n_rows} rows and were left out of {out}"
        )
    n_moved = int(np.count_nonzero(decisions != rows.decided_by(rule, keys))) if at_most else 0
    return _document(rows, rule, out, Sums.of(rule, rows.proba, decisions), at_most, n_moved)


def decide_parts(
    rows: FileRows, rule: DecisionRule, out: Path, at_most: Mapping[str, int], *, folder: bool
) -> Document:
    """Do what `decide_rows` does with rows that are read in parts; ``out`` may be a ``folder`` then."""
    if rows.options.group is not None:
        groups_given(rule, rows.options.group)
    if len(at_most) > 1:
        raise ValueError(
            f"--at-most with several classes compares all rows in memory, and {rows.path} is read in parts; limit one "
            f"class, or name one file with --in-parts no"
        )
    rows = rows.in_order(rule.class_names[: rule.n_classes])
    moved = []
    sums: Sums | None = None

    def columns(part: DecidedPart) -> dict[str, Any]:
        nonlocal sums
        moved.append(part.n_moved)
        found = Sums.of(rule, part.proba, part.decided)
        sums = found if sums is None else sums + found
        return OF_ONE_CLASS.columns(rule, DECISION, part.decided, names=True)

    tables = decided_tables(
        rule, rows.proba, columns, [DECISION], keys=rows.options.key, at_most=_caps(rule, at_most) or None
    )
    write_parts(tables, out, rows.proba, [DECISION], folder=folder)
    assert sums is not None
    return _document(rows, rule, out, sums, at_most, sum(moved))


def _caps(rule: DecisionRule, at_most: Mapping[str, int]) -> dict[Any, int]:
    """Return how many rows get a decision at most, by the names that the rule has."""
    as_known = {str(name): name for name in rule.class_names}
    for name, most in at_most.items():
        # people write "A<=20", as limits are written
        if name not in as_known and (meant := name.rstrip("<= ")) in as_known:
            raise click.UsageError(f"--at-most takes NAME=N; write --at-most {shlex.quote(f'{meant}={most}')}")
    return {as_known.get(name, name): most for name, most in at_most.items()}


def _document(
    rows: FileRows,
    rule: DecisionRule,
    out: Path,
    sums: Sums,
    at_most: Mapping[str, int],
    n_moved: int,
) -> Document:
    """Return how many rows got each decision, how many of these are right, and where decisions were written."""
    counts = sums.counts(rule)
    named = zip(rule.class_names, counts.decided, strict=True)
    shares = {str(name): float(count / rows.n_rows) for name, count in named}
    undecided = {} if rule.abstain is None else {"abstain": rule.abstain, "rows_undecided": int(counts.decided[-1])}
    moved = {"at_most": dict(at_most), "rows_moved": n_moved} if at_most else {}
    limited = [name for name in counts.classes if str(name) in at_most]
    asked = limited or asked_class(rule) or few_classes(rule)
    return {
        **source_document(rows),
        "out": str(out),
        "decided": shares,
        "counts": counts_document(counts, asked),
        **undecided,
        **moved,
    }


def _show(page: Page, document: Document) -> None:
    """Print where the decisions went, and how often each was taken."""
    show_source(page, document)
    items = {"decided": taken_in_words(document), **document["counts"]["told"]}
    if "abstain" in document:
        items["undecided"] = f"{document['rows_undecided']} of {document['rows']} rows, as {document['abstain']}"
    if "at_most" in document:
        limits = joined([f"{most} {name}" for name, most in document["at_most"].items()])
        items["moved"] = f"{document['rows_moved']} rows to another decision; at most {limits}"
    page.items({**items, "written": document["out"]})
    show_expected(page, document["counts"])
