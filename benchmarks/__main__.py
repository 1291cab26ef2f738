"""Run one benchmark: `python -m benchmarks NAME [FOLDER ...] [--quick]`; without a name, list them.

``--quick`` runs small sizes of the benchmarks of speed and scale, and writes nothing.
"""

from __future__ import annotations

import argparse
import importlib

from benchmarks import harness

# the benchmarks of every module: only that of the chosen one is imported, since some need optional packages
MODULES = {
    "on_tables": ("quality", "passes", "confusion", "rivals", "worst-recall"),
    "populations": (
        "consistency",
        "estimator",
        "two-class-estimator",
        "alarms",
        "uncertainty",
        "draws",
        "two-classes",
    ),
    "bounds": ("bounds", "bound-speed"),
    "constraints": ("constraints", "macro-f1-limits", "limit-speed"),
    "confidence": ("confidence", "confidence-tables"),
    "groups": ("groups", "equal-groups", "levelling-down"),
    "speed": ("scan", "scaling", "runs", "memory", "class-passes", "cold", "latency", "prediction"),
    "scale": ("files", "dask", "spark", "wire", "parts", "parts-limits"),
    "calibration": ("calibration",),
    "zeros": ("zeros",),
    "few_labels": ("few-labels",),
    "model_bound": ("model-bound",),
    "single_rules": ("single-rules",),
    "limit_estimates": ("limit-estimates",),
    "limit_rivals": ("limit-rivals",),
    "class_shares": ("class-shares",),
    "equal_opportunity": ("equal-opportunity",),
    "group_rivals": ("group-rivals",),
    "abstaining": ("abstaining",),
    "one_class": ("one-class",),
    "second_objective": ("second-objective",),
    "speed_rivals": ("speed-rivals",),
    "sparse": ("sparse",),
    "gpu": ("gpu",),
    "reports": ("reports",),
    "exports": ("exports",),
    "gain": ("gain",),
}
QUICK = ("speed", "speed_rivals", "scale")  # modules with small sizes


def main():
    """Read the command line and run what it names."""
    reader = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = {name: module for module, some in MODULES.items() for name in some}
    reader.add_argument("name", nargs="?", choices=list(names), metavar="NAME")
    reader.add_argument("words", nargs="*", metavar="FOLDER")
    reader.add_argument("--quick", action="store_true", help="small sizes, nothing is written")
    given = reader.parse_args()
    if given.name is None:
        print("\n".join(names))
        return
    if given.quick and (names[given.name] not in QUICK or given.name == "parts-limits"):
        reader.error(f"{given.name} has no small sizes: leave --quick out")
    importlib.import_module(f"benchmarks.{names[given.name]}")
    harness.run(given.name, *given.words, quick=given.quick)


if __name__ == "__main__":
    main()
