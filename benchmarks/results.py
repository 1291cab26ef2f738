"""Sections of RESULTS.md, each written by the command that measures it."""

import platform
import sys
from datetime import date
from pathlib import Path

import numpy
import scipy
import sklearn

import confmax

PATH = Path(__file__).parent / "RESULTS.md"


def write_section(name, text):
    """Replace the section ``name``, or add it at the end."""
    versions = ", ".join(f"{module.__name__} {module.__version__}" for module in (confmax, numpy, scipy, sklearn))
    python = ".".join(map(str, sys.version_info[:3]))
    stamp = f"_Measured {date.today()}, Python {python}, {versions}, {platform.machine()}._"
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    section = f"{begin}\n## {name}\n\n{stamp}\n\n{text}\n{end}\n"
    old = PATH.read_text() if PATH.exists() else "# Results\n\nEvery figure names the command that makes it.\n\n"
    if begin in old:
        old = old[: old.index(begin)] + section + old[old.index(end) + len(end) + 1 :]
    else:
        old += section
    PATH.write_text(old)
