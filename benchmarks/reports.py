"""What reports cost, how large they are, and whether Chromium draws them.

python -m benchmarks reports FOLDER [PAGES]

FOLDER holds the tables (NAME.npz with P_tune, y_tune, P_test, y_test), PAGES is where the pages stay, if anywhere.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import confmax
from benchmarks.harness import benchmark
from tests.browser import CHROMIUM, look

METRIC = "macro_f1"
MANY = ((5_000, 100), (20_000, 100))  # rows and classes of synthetic tables
VIEWS = ((400, False), (1400, True))  # width in pixels, dark


def synthetic(n, K, seed=0):
    """Return probabilities (n, K), float32, and labels drawn from them after a temperature of 1.3."""
    rng = np.random.default_rng(seed)
    L = 2.0 * rng.normal(size=(n, K)) + np.linspace(0, 2, K)
    P, Q = (np.exp(L / T) for T in (1.0, 1.3))
    P, Q = P / P.sum(1, keepdims=True), Q / Q.sum(1, keepdims=True)
    y = (Q.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, K - 1)
    return P.astype(np.float32), y


def one(path, pages):
    """Write both reports of a table and return seconds and bytes; run in a process of its own."""
    data = np.load(path)
    P, y, P_test, y_test = (data[name] for name in ("P_tune", "y_tune", "P_test", "y_test"))
    confmax.maximize(METRIC, P, y)  # imports
    began = time.process_time()
    found = confmax.maximize(METRIC, P, y)
    told = {"rows": len(y), "classes": P.shape[1], "tune": time.process_time() - began}
    for name in ("test", "folds"):
        began = time.process_time()
        page = Path(pages) / f"{Path(path).stem}.{name}.html"
        if name == "test":
            found.report(page, P_test, y_test, source=f"{Path(path).stem}, test rows", again="benchmarks.reports")
        else:
            confmax.report.write_cross_fitted(
                page, METRIC, P, y, solution=found, source=f"{Path(path).stem}, tuning rows", again="benchmarks.reports"
            )
        told[name] = {"seconds": time.process_time() - began, "bytes": page.stat().st_size}
    return told


def seen(page):
    """Return what Chromium says of a page: "drawn", or what is wrong."""
    if CHROMIUM is None:
        return "no Chromium"
    wrong, charts = [], 0
    for width, dark in VIEWS:
        found = look(page, width, dark)
        charts = found["charts"]
        if found["console"] or found["loaded"]:
            wrong.append(f"{width}: console or network")
        if found["drawn"] != found["charts"]:
            wrong.append(f"{width}: {found['charts'] - found['drawn']} not drawn")
        if found["inner"] != width or found["width"] > width or found["wider"]:
            wrong.append(f"{width}: wide {found['width']}")
    return ", ".join(wrong) or f"{charts} charts drawn"


def lines_of(files, pages):
    """Return the lines of the table."""
    lines = ["table | rows x classes | tuning, s | report, s | MB | cross-fitted, s | MB | Chromium",
             "---|---:|---:|---:|---:|---:|---:|---"]  # fmt: skip
    for path in files:
        ran = subprocess.run(
            [sys.executable, "-m", "benchmarks.reports", str(path), str(pages)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        told = json.loads(ran.stdout.splitlines()[-1])
        verdicts = {seen(pages / f"{path.stem}.{name}.html") for name in ("test", "folds")}
        cells = [f"{told[name][key] / unit:.2f}" for name in ("test", "folds")
                 for key, unit in (("seconds", 1), ("bytes", 1e6))]  # fmt: skip
        shape = f"{told['rows']:,} x {told['classes']}"
        lines.append(" | ".join([path.stem, shape, f"{told['tune']:.2f}", *cells, "; ".join(sorted(verdicts))]))
        print(lines[-1], flush=True)
    return lines


@benchmark("reports", "FOLDER [PAGES]")
def main(folder_of_tables, given_pages=None):
    """Write both reports of every table of a folder and of two generated ones."""
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(given_pages) if given_pages else Path(folder)
        files = sorted(Path(folder_of_tables).glob("*.npz"))
        for n, K in MANY:
            (P, y), (Q, z) = synthetic(n, K), synthetic(n, K, seed=1)
            files.append(Path(folder) / f"synthetic_{n}x{K}.npz")
            np.savez(files[-1], P_tune=P, y_tune=y, P_test=Q, y_test=z)
        lines = lines_of(files, pages)
    return [
        f"one thread, seconds of processor time. A process tunes {METRIC}, "
        f"writes the report of the rule on the test rows (with the bundling of the charts' script, about 1.5 s, once "
        f"per process), then the cross-fitted one on the tuning rows, in which five more rules are tuned: at 100 "
        f"classes that is most of its time. 1000 replicates. The last column is what headless Chromium says of both "
        f"pages, at 400 px in light and at 1400 px in dark colours: no word on the console, nothing loaded, every "
        f"chart drawn, neither page nor chart wider than its place. Required: under 5 s and "
        f"3 MB a report.\n\n" + "\n".join(lines),
    ]


if __name__ == "__main__":
    print(json.dumps(one(*sys.argv[1:])))
