"""Where results go, and where rules come from: what is refused before any work is done."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from confmax.cli.texts import format_of
from confmax.places import (
    PART,
    Address,
    check_folder,
    check_place,
    is_stdout,
    is_stream,
    path_of,
    replaces,
    same_place,
    whole_file,
    write_whole,
)
from confmax.rule import DecisionRule, LabelRule
from confmax.rule.reading import read_rule
from confmax.tables.partitioned.batches import format_of as streamed_format
from confmax.tables.partitioned.batches import named_files
from confmax.tables.partitioned.locations import files_of, is_several
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
    """Refuse to write to one of the files that are read, under whatever name; ``option`` names the output.

    The files of a folder or a pattern count, too.
    """
    if not path.exists():
        return
    if any(read.exists() and same_place(path, read) for read in given):
        raise ValueError(f"{option} {path} is the input file; choose another name for the output")
    for read in given:
        for file in _files_of(read):
            if same_place(path, file):
                raise ValueError(
                    f"{option} {path} holds the table that is read ({file}); choose another name for the output"
                )


def arrays_beside(options: Mapping[str, Any]) -> list[Path]:
    """Return the .npy files of labels, weights and groups that ``options`` name."""
    named = [options.get(name) for name in ("label", "weight", "group")]
    return [path_of(name) for name in named if name is not None and name.lower().endswith(".npy")]


def _files_of(read: Path) -> list[Path]:
    """Return the files on this machine that a folder or a pattern stands for; none where reading it will fail."""
    if not is_several(read) or isinstance(read, Address):
        return []
    try:
        return [Path(name) for name in named_files(read)] or [Path(file.path) for file in files_of([read])]
    except ValueError:
        return []


def _refuse_inside(out: Path, read: Path, *, folder: bool) -> None:
    """Refuse a place from which the decisions would be read as rows of the table, when it is read again."""
    place = Path(os.path.realpath(out / PART.format(0) if folder else out))
    files = _files_of(read)
    # text beside Parquet files is not read, but Parquet beside text is, in its place
    if not files or (streamed_format(place) is not None and not any(map(streamed_format, files))):
        return
    base = Path(os.path.realpath(read))
    if read.is_dir():
        below = place.parts[len(base.parts) :] if place.is_relative_to(base) and not same_place(out, read) else ()
        again = bool(below) and not any(name.startswith(("_", ".")) for name in below)
    else:
        again = any(each.match(str(base)) for each in (place, *place.parents)) and not out.exists()
    if again:
        raise ValueError(
            f"{out} would be read as part of {read} the next time; choose a place outside the table that is read"
        )


def check_parts_output(out: Path, as_json: bool, *given: Path) -> bool:
    """Check the place for a table that is read in parts, as `check_output`, and return whether it is a folder."""
    one_result(as_json, out)
    folder = out.is_dir() or not (out.suffix or is_stream(out))
    if folder:
        check_folder(out)
        _refuse_inside(out, given[0], folder=True)
        return True
    if format_of(out) == ".npz":
        raise ValueError(
            f"{out} is an archive that is written at once, and the table is read in parts; name a folder, or a file "
            f"that ends in .parquet or .csv"
        )
    check_place(out)
    refuse_same(out, *given)
    _refuse_inside(out, given[0], folder=False)
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
    if isinstance(path, Address):
        raise ValueError(f"{path} is not on this machine, where rule files are read; copy it here")
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
