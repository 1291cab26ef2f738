"""As fast as the memory? Every figure a ratio of two things that ran in one process, in turn, on two threads.

    python -m benchmarks.speed [SECTION ...] [--quick]

Sections: scan, runs, rivals, memory, scaling, passes, cold, latency, prediction; all of them by default. Each is
written to its own section of benchmarks/RESULTS.md, and with every single repeat, versions, machine and seed to
benchmarks/speed.json (not in the repository), the other sections staying as they are. ``--quick`` runs small sizes and
writes nothing. The rivals xcolumns, autograd and optimal-classification-cutoffs come from PyPI; where one is missing,
its rows say failed.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import click

from benchmarks import (
    _speed_cold,
    _speed_latency,
    _speed_memory,
    _speed_rivals,
    _speed_scaling,
    _speed_scan,
    prediction,
)
from benchmarks._speed_tools import stamp, two_threads
from benchmarks.results import write_section

PATH = Path(__file__).parent / "speed.json"
SECTIONS = {
    "scan": (_speed_scan.measure_scan, _speed_scan.report_scan),
    "runs": (_speed_scan.measure_runs, _speed_scan.report_runs),
    "rivals": (_speed_rivals.measure, _speed_rivals.report),
    "memory": (_speed_memory.measure, _speed_memory.report),
    "scaling": (_speed_scaling.measure_scaling, _speed_scaling.report_scaling),
    "passes": (_speed_scaling.measure_passes, _speed_scaling.report_passes),
    "cold": (_speed_cold.measure, _speed_cold.report),
    "latency": (_speed_latency.measure, _speed_latency.report),
    "prediction": (prediction.measure, prediction.report),
}


def heading(name):
    """Return the section of RESULTS.md that a part writes."""
    return name if name == "prediction" else f"speed: {name}"


def run(measure, report, *, quick=False):
    """Return what one part measures, with where and when, and its text."""
    with two_threads(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes without rows
        where, start = stamp(), time.perf_counter()
        data = measure(quick)
    data = {**where, "wall_seconds": round(time.perf_counter() - start, 1), **data}
    cores = f"{where['machine']['cpu']}, {where['machine']['cores']} cores, {where['threads']} threads"
    return data, f"{report(data)}\n\n{cores}."


def keep(name, section, data, text, path):
    """Write one part to the file of all repeats, beside the other parts, and to a section of RESULTS.md."""
    everything = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**everything, name: data}, indent=1) + "\n")
    write_section(section, text)


def command(names, part_of, section_of, path):
    """Return the command that measures parts by name, all by default; ``part_of`` gives measure and report of one."""

    @click.command()
    @click.argument("parts", nargs=-1, type=click.Choice(list(names)))
    @click.option("--quick", is_flag=True, help="Small sizes, nothing is written.")
    def main(parts, quick):
        """Measure PARTS, all by default."""
        for name in parts or names:
            data, text = run(*part_of(name), quick=quick)
            if not quick:
                keep(name, section_of(name), data, text, path)
                if name == "scaling":
                    _speed_scaling.plot(data)
            click.echo(f"## {name} ({data['wall_seconds']:.0f} s)\n\n{text}\n")

    return main


main = command(SECTIONS, SECTIONS.get, heading, PATH)

if __name__ == "__main__":
    main()
