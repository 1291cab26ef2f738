"""Tables larger than memory and engines: what a pass costs beside the plainest thing that the same engine can do.

    python -m benchmarks.scale [files dask spark wire parts] [--quick]

Every section runs by itself, is compared inside one run on the same data, and is written to RESULTS.md; every repeat
goes to benchmarks/scale.json (not in the repository).
"""

from __future__ import annotations

import importlib

from benchmarks._speed_tools import ROOT
from benchmarks.speed import command

SECTIONS = {
    "files": "_scale_files",
    "dask": "_scale_dask",
    "spark": "_scale_spark",
    "wire": "_scale_wire",
    "parts": "_scale_parts",
}


def part(name):
    """Return measure and report of a section, whose engine may not be installed for another."""
    module = importlib.import_module(f"benchmarks.{SECTIONS[name]}")
    return module.measure, module.report


main = command(SECTIONS, part, lambda name: f"scale: {name}", ROOT / "benchmarks" / "scale.json")

if __name__ == "__main__":
    main()
