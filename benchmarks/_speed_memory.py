"""What a run adds to the memory of a process that holds the table: its maximum minus what was resident before.

    python -m benchmarks._speed_memory TABLE.npz METRIC MODE

runs one case in a process of its own and prints a line of JSON. The table is read from a file, so that nothing larger
than it was ever resident, and the compiled code was used on a tiny table before.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import confmax
from benchmarks._speed_scan import numpy_pass
from benchmarks._speed_tables import SEED, Recipe, tiny
from benchmarks._speed_tools import child_output, memory_floor, resident, two_threads, verdict

SIZE = (2_000_000, 20)
CASES = [(name, mode) for name in ("cohen_kappa", "g_mean") for mode in ("model", "labels")] + [("NumPy", "pass")]
BOUND = 1.3


def measure(quick=False):
    """Return one row per metric and confusion estimate, and one for NumPy's pass."""
    recipe, rows = Recipe(SIZE[0] // (100 if quick else 1), SIZE[1]), []
    with tempfile.TemporaryDirectory() as folder:
        P, y = recipe.draw()
        for name, part in (("P", P), ("y", y)):
            np.save(Path(folder) / f"{name}.npy", part)
        about = {"n": recipe.n, "K": recipe.K, "size": recipe.size, "bytes": P.nbytes}
        del P, y, part
        for name, mode in CASES[:2] if quick else CASES:
            output = child_output(["-m", "benchmarks._speed_memory", folder, name, mode])
            rows.append({**about, "metric": name, "mode": mode, **json.loads(output)})
    return {"seed": SEED, "rows": rows}


def call(name, mode, P, y):
    if name == "NumPy":
        numpy_pass(P, y, np.ones(P.shape[1], np.float32), np.zeros(P.shape[1], np.float32))
    else:
        confmax.maximize(name, P, y if mode == "labels" else None, confusion=mode, calibration=None, randomized=True)


def report(data):
    lines = [
        "`python -m benchmarks.speed memory`: resident maximum during a call minus what was resident with the table "
        "loaded (VmHWM restarted by `/proc/self/clear_refs`), over the bytes of the table, float32, each in a process "
        f"of its own; required at most {BOUND}.",
        "",
        "table | metric | confusion | table, MB | added, MB | in tables | target",
        "---|---|---|---:|---:|---:|---",
    ]
    for row in data["rows"]:
        share = row["added"] / row["bytes"]
        word = "" if row["metric"] == "NumPy" else verdict(share, BOUND)
        lines.append(
            f"{row['size']} | {row['metric']} | {row['mode']} | {row['bytes'] / 1e6:.0f} | {row['added'] / 1e6:.0f} | "
            f"{share:.2f} | {word}"
        )
    return "\n".join(lines)


def main(folder, name, mode):
    P, y = (np.load(Path(folder) / f"{part}.npy") for part in ("P", "y"))
    with two_threads():
        call(name, mode, *tiny(5))
        floor = memory_floor()
        call(name, mode, P, y)
        print(json.dumps({"floor": floor, "added": resident("VmHWM") - floor}))


if __name__ == "__main__":
    main(*sys.argv[1:])
