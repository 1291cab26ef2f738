"""How long a user waits: for the import, for the first answer of a new process, and for the next ones."""

from __future__ import annotations

import json
import sys

import numpy as np

from benchmarks._speed_tables import SEED, Recipe
from benchmarks._speed_tools import child_output, seconds_of, verdict

SIZE = (1000, 5)
METRICS = ("macro_f1", "g_mean", "h_mean", "q_mean", "min_recall", "cohen_kappa", "quadratic_kappa", "micro_f1", "mcc")
MODES = ("model", "labels", "blend")
FIRST_CALLS = ("model", "labels", "defaults")
REPEATS = 9
PROCESSES = 7
IMPORT, FIRST, NEXT = 0.5, 2.0, 0.02
IMPORTS = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
IMPORTED = ("import confmax", "from confmax import maximize", "import numpy", "import scipy.optimize")


def measure(quick=False):
    """Return seconds of imports and first calls in new processes, and of later calls."""
    processes = 1 if quick else PROCESSES
    imports = {statement: [] for statement in IMPORTED}
    first = {mode: [] for mode in FIRST_CALLS}
    for turn in range(processes + 1):  # the first process reads files from the disk
        for statement, times in imports.items():
            seconds = float(child_output(["-c", IMPORTS.format(statement)]))
            if turn:
                times.append(seconds)
        for mode, times in first.items():
            seconds = json.loads(child_output(["-m", "benchmarks._speed_latency", "first", mode]))
            if turn:
                times.append(seconds)
    later = json.loads(child_output(["-m", "benchmarks._speed_latency", "later", "2" if quick else str(REPEATS)]))
    return {"seed": SEED, "imports": imports, "first": first, "later": later}


def first_call(mode):
    """Return seconds of this process's first call, and of what it imports."""
    P, y = Recipe(*SIZE, imbalance=10.0).draw()
    settings = {} if mode == "defaults" else {"confusion": mode, "calibration": None}
    labels = None if mode == "model" else y

    def once():
        from confmax import maximize

        return maximize("macro_f1", P, labels, **settings)

    return seconds_of(once)[0]


def later_calls(repeats):
    """Return seconds of repeated calls per metric and confusion estimate, after one that is not counted."""
    import confmax

    P, y = Recipe(*SIZE, imbalance=10.0).draw()
    rows = []
    for name in METRICS:
        for mode in MODES:
            labels = None if mode == "model" else y

            def once(name=name, mode=mode, labels=labels):
                return confmax.maximize(name, P, labels, classes=range(5), confusion=mode, calibration=None)

            times = [seconds_of(once)[0] for _ in range(repeats + 1)]
            rows.append({"metric": name, "mode": mode, "seconds": times[1:], "passes": once().n_passes})
    return rows


def report(data):
    middle = {statement: np.median(times) for statement, times in data["imports"].items()}
    light = middle.pop(IMPORTED[0])
    lines = [
        f"`python -m benchmarks.speed latency`: medians of {len(data['first']['model'])} new processes; a table of "
        f"{SIZE[0]} x {SIZE[1]}.",
        "",
        "what | seconds | required | target",
        "---|---:|---:|---",
        f"`{IMPORTED[0]}`, which brings nothing until a name is used | {light:.3f} | {IMPORT} | "
        f"{verdict(light, IMPORT)}",
        *(f"`{statement}` | {seconds:.3f} | | " for statement, seconds in middle.items()),
        *(
            f"first call, macro F1, {mode}, imports included | {np.median(times):.3f} | {FIRST} | "
            f"{verdict(np.median(times), FIRST)}"
            for mode, times in data["first"].items()
        ),
        "",
        f"Next calls, milliseconds, median of {len(data['later'][0]['seconds'])} (passes), `calibration=None`, "
        f"required at most {1e3 * NEXT:.0f}:",
        "",
        "metric | " + " | ".join(MODES) + " | target",
        "---|" + "---:|" * len(MODES) + "---",
    ]
    for name in dict.fromkeys(row["metric"] for row in data["later"]):
        rows = [row for row in data["later"] if row["metric"] == name]
        worst = max(np.median(row["seconds"]) for row in rows)
        cells = " | ".join(f"{1e3 * np.median(row['seconds']):.1f} ({row['passes']})" for row in rows)
        lines.append(f"{name} | {cells} | {verdict(worst, NEXT)}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(first_call(sys.argv[2]) if sys.argv[1] == "first" else later_calls(int(sys.argv[2]))))
