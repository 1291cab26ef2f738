"""Where results go, and where rules come from: what is refused before any work is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from confmax.cli.texts import format_of
from confmax.places import (
    check_folder,
    check_place,
    is_stdout,
    is_stream,
    replaces,
    same_place,
    whole_file,
    write_whole,
)
from confmax.rule import DecisionRule, LabelRule
from confmax.rule.reading import read_rule
from confmax.tables.partitioned.writing import check_destination, write_tables


def one_result(as_json: bool, *outputs: Path | None) -> None:
    """Refuse two results on standard output."""
    count = as_json + sum(out is not None and is_stdout(out) for out in outputs)
    if count > 1:
        raise click.UsageError(
            "two results cannot both go to standard output; name a file for one, or leave --json out"
        )


def check_output(out: Path, as_json: bool, *given: Path) -> None:
    """Refuse, before any work is done, a place that cannot be written, and one of the files that are read."""
    check_place(out)
    one_result(as_json, out)
    refuse_same(out, *given)


def refuse_same(path: Path, *given: Path, option: str = "-o") -> None:
    """Refuse to write to one of the files that are read, under whatever name; ``option`` names the output."""
    if path.exists() and any(read.exists() and same_place(path, read) for read in given):
        raise ValueError(f"{option} {path} is the input file; choose another name for the output")


def check_parts_output(out: Path, as_json: bool, *given: Path) -> bool:
    """Check the place for a table that is read in parts, as `check_output`, and return whether it is a folder."""
    one_result(as_json, out)
    folder = out.is_dir() or not (out.suffix or is_stream(out))
    if folder:
        check_folder(out)
        return True
    if format_of(out) == ".npz":
        raise ValueError(
            f"{out} is an archive that is written at once, and the table is read in parts; name a folder, or a file "
            f"that ends in .parquet or .csv"
        )
    check_place(out)
    refuse_same(out, *given)
    return False


def write_parts(tables: Iterator[Any], out: Path, source: Any, added: Sequence[str], *, folder: bool) -> None:
    """Write the parts of a table that was opened, with columns that are ``added``, as Parquet or CSV."""
    check_destination(source, out, folder=folder)
    with writing(out):
        if folder or format_of(out) == ".parquet":
            write_tables(tables, out, source, folder=folder, added=added)
            return
        from confmax.cli.csvs import csv_bytes  # its library is loaded for tables only

        mark = "\t" if out.suffix.lower() == ".tsv" else ","
        with whole_file(out) as file:
            for number, table in enumerate(tables):
                file.write(csv_bytes(table, mark, header=number == 0))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one sentence why ``path`` could not be written."""
    try:
        yield
    except BrokenPipeError:  # whoever read it has enough
        raise
    except OSError as error:
        # an error of another file is not of this writing
        if error.filename != str(path):
            raise
        raise ValueError(f"{path} cannot be written ({error.strerror}); choose another place") from None


def write_file(path: Path, data: bytes) -> None:
    """Write a result to where an option says; a ValueError with the path if that fails."""
    with writing(path):
        write_whole(path, data)


# --- rules -----------------------------------------------------------------------------------------------------------


def load_rule(path: Path) -> DecisionRule:
    """Return the rule of a file, one class for every row; a rule of several labels is refused."""
    rule = load_any_rule(path)
    if isinstance(rule, LabelRule):
        raise ValueError(
            f"{path} decides several labels per row, and confmax compare compares rules of one class for every row; "
            f"give --decisions any, or a number of labels"
        )
    return rule


def load_any_rule(path: Path) -> DecisionRule | LabelRule:
    """Return the rule of a file; a missing one is refused with the way to make one."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a rule file, such as rule.json")
    if not path.exists():
        raise ValueError(f"there is no rule file {path}; 'confmax tune -o' writes one")
    return read_rule(path)


def check_rule_output(out: Path | None, force: bool, *given: Path) -> None:
    """Refuse a place that no rule can be written to, or where it would replace something else, such as what is read."""
    if out is None:
        if force:
            raise click.UsageError("--force says that -o may replace a file; give -o too")
        return
    refuse_same(out, *given)
    check_place(out)
    if force or not replaces(out):
        return
    try:
        read_rule(out)
    except (OSError, ValueError):
        raise ValueError(
            f"{out} is not a rule file, so it is not replaced; choose another name with -o, or replace it with --force"
        ) from None


def save_rule(rule: DecisionRule | LabelRule, out: Path | None, force: bool) -> str | None:
    """Write the rule if ``out`` says where; return that as documents hold it."""
    if out is None:
        return None
    check_rule_output(out, force)  # tuning may have taken hours
    write_file(out, rule.to_json().encode())
    return str(out)
