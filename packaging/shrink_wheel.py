"""Compress the files of wheels as far as the format allows: python packaging/shrink_wheel.py FOLDER

The files stay as they are; only their compression takes more time (zopfli), and a few per cent fewer bytes.
"""

from __future__ import annotations

import copy
import sys
import zipfile
from pathlib import Path

from zopfli import ZipFile


def shrink(wheel: Path) -> None:
    """Replace a wheel by one with the same files."""
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as given, ZipFile(part, "w", zipfile.ZIP_DEFLATED) as out:
        for one in given.infolist():
            # writing changes the record of a file
            out.writestr(copy.copy(one), given.read(one))
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(part) as out:
        if [(one.filename, one.CRC) for one in given.infolist()] != [(one.filename, one.CRC) for one in out.infolist()]:
            sys.exit(f"error: the files of {wheel.name} changed")
        if (broken := out.testzip()) is not None:
            sys.exit(f"error: {broken} of {wheel.name} cannot be read back")
    before = wheel.stat().st_size
    part.replace(wheel)
    print(f"{wheel.name}: {before} -> {wheel.stat().st_size} bytes")


if __name__ == "__main__":
    for one in sorted(Path(sys.argv[1]).glob("*.whl")):
        shrink(one)
