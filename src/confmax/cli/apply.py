"""`confmax apply`: every row of a file, decided by a rule."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions, existing
from confmax.cli.label_options import refuse_label_options
from confmax.cli.labels import apply_labels
from confmax.cli.matching import rows_for
from confmax.cli.outputs import check_output, load_any_rule, writing
from confmax.cli.show import Document, Page, print_document, show_source, source_document
from confmax.cli.tables import write_decisions
from confmax.cli.texts import format_of, joined
from confmax.rule import DecisionRule, LabelRule


def apply(rule: Path, file: Path, out: Path, as_json: bool, at_most: dict[str, int], **more: Any) -> None:
    """Run `confmax apply`."""
    format_of(out)
    check_output(out, as_json, file, rule)
    loaded = load_any_rule(rule)
    if isinstance(loaded, LabelRule):
        apply_labels(loaded, rule, file, out, as_json=as_json, **more)
        return
    refuse_label_options("a rule of several labels")
    del more["separator"]
    rows = rows_for({str(rule): loaded}, file, TableOptions(**more))
    print_document(decide_rows(rows, loaded, out, at_most), as_json, _show, out)


def decide_rows(rows: FileRows, rule: DecisionRule, out: Path, at_most: Mapping[str, int]) -> Document:
    """Decide every row of a file and write its columns with the decisions, ``at_most`` so many rows by decision."""
    # --positive says here whose probability a score is; the rule keeps its order, and with it its ties
    rows = rows.in_order(rule.class_names[: rule.n_classes])
    frame = rows.frame
    key = rows.options.key
    assert frame is not None
    keys = None if key is None else frame.names_in(existing(key, frame, "--key"), "key column")
    # a column of a file has one type: a rule with classes 0, 1 and a decision "abstain" writes text
    names = rule.classes if rule.classes.dtype != object else rule.classes.astype(str)
    as_known = {str(name): name for name in rule.class_names}
    for name, most in at_most.items():
        # people write "A<=20", as limits are written
        if name not in as_known and (meant := name.rstrip("<= ")) in as_known:
            raise click.UsageError(f"--at-most takes NAME=N; write --at-most {shlex.quote(f'{meant}={most}')}")
    caps = {as_known.get(name, name): most for name, most in at_most.items()}
    decisions = rows.decided_by(rule, keys, caps)
    with writing(out):
        left_out = write_decisions(out, frame, names[decisions], block=rows.block, block_names=rows.classes)
    if left_out:
        app.warn(
            f"{joined(left_out)} of {frame.path} cannot be columns of {rows.n_rows} rows and were left out of {out}"
        )
    counts = np.bincount(decisions, minlength=len(names))
    shares = {str(name): float(count / rows.n_rows) for name, count in zip(names.tolist(), counts, strict=True)}
    undecided = {} if rule.abstain is None else {"abstain": rule.abstain, "rows_undecided": int(counts[-1])}
    moved = {}
    if at_most:
        n_moved = int(np.count_nonzero(decisions != rows.decided_by(rule, keys)))
        moved = {"at_most": dict(at_most), "rows_moved": n_moved}
    return {**source_document(rows), "out": str(out), "decided": shares, **undecided, **moved}


def _show(page: Page, document: Document) -> None:
    """Print where the decisions went, and how often each was taken."""
    show_source(page, document)
    taken = [f"{name} {share:.1%}" for name, share in document["decided"].items()]
    items = {"decided": joined(taken, 20)}
    if "abstain" in document:
        items["undecided"] = f"{document['rows_undecided']} of {document['rows']} rows, as {document['abstain']}"
    if "at_most" in document:
        limits = joined([f"{most} {name}" for name, most in document["at_most"].items()])
        items["moved"] = f"{document['rows_moved']} rows to another decision; at most {limits}"
    page.items({**items, "written": document["out"]})
