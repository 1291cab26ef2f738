"""Where a table comes from: a file, or bytes that can be read only once, as those of standard input and of pipes."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from confmax.places import is_stream

__all__ = ["STANDARD", "Source", "opened", "refuse_repeated", "short"]

STANDARD = Path("-")  # as an argument: standard input, or standard output


@dataclass(frozen=True, eq=False)
class Source:
    """A file, or the bytes of a stream.

    Attributes
    ----------
    path : Path
        What messages call it.
    data : bytes or None
        What the stream held; None for a file.
    """

    path: Path
    data: bytes | None = None

    def open(self) -> BinaryIO:
        """Return it as an open binary file, at its beginning."""
        return self.path.open("rb") if self.data is None else io.BytesIO(self.data)


def opened(path: Path) -> Source:
    """Return a file as it is, or a stream after reading it to its end.

    Parameters
    ----------
    path : Path
        ``-`` for standard input.

    Raises
    ------
    ValueError
        If standard input is closed.
    """
    if path == STANDARD:
        if sys.stdin is None:
            raise ValueError("standard input is closed; name a file instead of -")
        return Source(Path("standard input"), sys.stdin.buffer.read())
    return Source(path, path.read_bytes() if is_stream(path) else None)


def refuse_repeated(names: Sequence[str], path: Path) -> None:
    """Refuse two columns of one name."""
    repeated = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if repeated is not None:
        raise ValueError(f"{path} has two columns named {repeated!r}; give each column its own name")


def short(error: BaseException) -> str:
    """Return an error's first line, without its full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:300]
