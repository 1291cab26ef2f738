"""`confmax export`: a rule for systems without confmax."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import click

from confmax.cli.outputs import check_output, load_any_rule, write_file
from confmax.cli.show import print_document
from confmax.cli.texts import clean, joined
from confmax.rule import LabelRule
from confmax.tables.columns import find, refuse_part


def export(rule: Path, language: str, out: Path | None, as_json: bool, **given: Any) -> None:
    """Run `confmax export`."""
    settings = {key: value for key, value in given.items() if value not in (None, ())}
    loaded = load_any_rule(rule)
    several = isinstance(loaded, LabelRule)
    taken = signature(getattr(loaded, f"to_{language}")).parameters
    # an option that changes nothing is a mistake of the user's, and is not passed over
    for key in settings:
        if key not in taken:
            of = " for a rule of several labels" if several else ""
            raise click.UsageError(f"--{key} has no meaning with --to {language}{of}; leave it out")
    if out is not None:
        check_output(out, as_json, rule)
    elif language == "onnx" or as_json:
        raise click.UsageError("name the file to write with -o")
    classes = [str(name) for name in loaded.class_names]
    if "columns" in settings:
        settings["columns"] = in_class_order(settings["columns"], loaded.class_names[: loaded.n_classes])
    made = getattr(loaded, f"to_{language}")(**settings)
    # the database would only say that it knows no such column
    if language == "sql" and "columns" not in settings:
        known = loaded.columns
        read = joined(known or classes[: loaded.n_classes], 20)
        what = "expressions read" if several else "expression reads"
        grouped = f", and the group from {settings.get('group', 'group')}; --columns and --group name others"
        way_out = grouped if loaded.groups else "; --columns names others"
        unsure = several and not known
        truth = ", as where these hold the true labels" if unsure else ""
        click.echo(clean(f"note: the {what} the columns {read}{way_out}{truth}"), err=True)
        if unsure:
            # the names that hold the true labels in a wide table would be read as probabilities wherever the SQL goes
            told = (
                f"reads the columns {read} as probabilities; where these hold the true labels, --columns names others"
            )
            made = f"-- {clean(told)}\n{made}"
    if out is None:
        click.echo(made, nl=language == "sql")
        return
    data = made.SerializeToString() if language == "onnx" else made.rstrip("\n").encode() + b"\n"
    write_file(out, data)
    document = {"rule_file": str(rule), "to": language, "out": str(out), "bytes": len(data), "classes": classes}
    index = joined([f"{k} {name}" for k, name in enumerate(classes)], 20)
    print_document(document, as_json, lambda page, _: page.items({"index": index, "written": str(out)}), out)


def in_class_order(columns: Sequence[str], classes: Sequence[Any]) -> tuple[str, ...]:
    """Return columns in the order of the classes that they are named like; as they are where no name fits.

    So `confmax tune`, `apply` and `score` match --columns, and the same list means the same here.
    """
    if len(columns) != len(classes):  # which the export refuses, with the number that it takes
        return tuple(columns)
    found = find(columns, classes)
    if found.places is not None:
        return tuple(columns[k] for k in found.places)
    # some names that fit at their places do not contradict the order of the classes
    if found.twice is not None or any(k != place for k, place in found.own):
        way_out = "rename them, or use to_sql of the library, which takes columns in the order of the classes"
        refuse_part(found, columns, way_out, of="--columns", of_two=way_out)
    return tuple(columns)
