"""Tables larger than memory and engines: what a pass costs beside the plainest thing that the same engine can do.

    python -m benchmarks.scale [files dask spark wire] [--quick]

Every section runs by itself, is compared inside one run on the same data, and is written to RESULTS.md.
"""

from __future__ import annotations

import importlib
import json
import time
import warnings

import click

from benchmarks._speed_tools import ROOT, stamp, two_threads
from benchmarks.results import write_section

SECTIONS = {"files": "_scale_files", "dask": "_scale_dask", "spark": "_scale_spark", "wire": "_scale_wire"}
PATH = ROOT / "benchmarks" / "scale.json"


@click.command()
@click.argument("sections", nargs=-1, type=click.Choice(list(SECTIONS)))
@click.option("--quick", is_flag=True, help="Small sizes, nothing is written.")
def main(sections, quick):
    """Measure SECTIONS, all by default."""
    for name in sections or SECTIONS:
        module = importlib.import_module(f"benchmarks.{SECTIONS[name]}")
        with two_threads(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            where, start = stamp(), time.perf_counter()
            data = module.measure(quick)
        data = {**where, "wall_seconds": round(time.perf_counter() - start, 1), **data}
        text = module.report(data)
        if not quick:
            everything = json.loads(PATH.read_text()) if PATH.exists() else {}
            PATH.write_text(json.dumps({**everything, name: data}, indent=1) + "\n")
            machine = where["machine"]
            cores = f"{machine['cpu']}, {machine['cores']} cores, {where['threads']} threads"
            text += f"\n\n{cores}; every repeat is in `benchmarks/scale.json`."
            write_section(f"scale: {name}", text)
        click.echo(f"## {name} ({data['wall_seconds']:.0f} s)\n\n{text}\n")


if __name__ == "__main__":
    main()
