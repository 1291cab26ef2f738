"""Names and texts that commands share with their help: formats of files, and names as messages show them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confmax.places import is_stream

STANDARD = Path("-")  # as an argument: standard input, or standard output
TEXT = (".csv", ".tsv", ".txt")  # all read and written as CSV
PARQUET = (".parquet", ".pq")
EXTENSIONS = (*TEXT, *PARQUET, ".npz")
SHARE = 0.25  # of the machine's memory: Parquet files that hold more, uncompressed, are read in parts
EXPORTS = ("sql", "onnx", "python")  # what a rule is exported to, by methods such as `DecisionRule.to_sql`
LONGEST_NAME = 100  # characters of a name in a list of names


def clean(text: str) -> str:
    """Return text that can only be read: no control codes, which names in a stranger's file could hold."""
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text)


def joined(names: Sequence[Any], most: int = 8) -> str:
    """Return names with commas; of long names the middle is left out, and of many names the later ones."""
    # a column of row numbers often has no name
    shown = [shortened(str(name), LONGEST_NAME) or "(without a name)" for name in names[:most]]
    return ", ".join(shown) + (f", ... ({len(names)})" if len(names) > most else "")


def shortened(text: str, most: int) -> str:
    """Return text of at most ``most`` characters, its middle left out where it is longer."""
    if len(text) <= most:
        return text
    end = (most - 5) // 2
    return f"{text[: most - 5 - end]} ... {text[len(text) - end :]}"


def format_of(path: Path) -> str:
    """Return the format that a name says, as an extension; streams whose names say none hold CSV."""
    extension = path.suffix.lower()
    if extension in EXTENSIONS:
        return ".csv" if extension in TEXT else ".parquet" if extension in PARQUET else extension
    if path == STANDARD or is_stream(path):
        return ".csv"
    if extension == ".gz":
        raise ValueError(f"{path} is named like a gzip archive, which commands neither read nor write; {piped(path)}")
    shown = f"the extension {path.suffix!r}" if path.suffix else "no extension"
    raise ValueError(f"{path} has {shown}; tables are read and written as {', '.join(EXTENSIONS)}")


def piped(path: Path) -> str:
    """Return how a compressed file can be used."""
    if not path.exists():
        return "write to standard output and compress that: confmax ... -o - | gzip > FILE"
    return f"unpack it, or pipe it: zcat {shlex.quote(str(path))} | confmax ... -"
