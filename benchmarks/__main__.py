"""Run benchmarks: `python -m benchmarks NAME [FOLDER ...] [--quick]`; without a name, list them.

NAME is that of a benchmark, of a module, or what several of these begin with, such as ``truth``; then all of them are
run. ``--quick`` takes small sizes, where a benchmark has some, and writes nothing.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks import harness


def main():
    """Read the command line and run what it names."""
    reader = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    reader.add_argument("name", nargs="?", metavar="NAME")
    reader.add_argument("words", nargs="*", metavar="FOLDER")
    reader.add_argument("--quick", action="store_true", help="small sizes, nothing is written")
    given = reader.parse_args()
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"benchmarks.{path.stem}")
    known = harness.REGISTERED
    if given.name is None:
        print("\n".join(f"{name} {one.parameters}".rstrip() for name, one in known.items()))
        return
    name = given.name.replace("_", "-")
    module = f"benchmarks.{given.name.replace('-', '_')}"
    chosen = [one for one, of in known.items() if of.measure.__module__ == module or one.startswith(f"{name}-")]
    chosen = [name] if name in known else chosen
    if not chosen:
        reader.error(f"no benchmark {given.name}: leave the name out for a list")
    for one in chosen:
        if given.quick and not known[one].has_small_sizes:
            reader.error(f"{one} has no small sizes: leave --quick out")
        harness.run(one, *given.words, quick=given.quick)


if __name__ == "__main__":
    main()
