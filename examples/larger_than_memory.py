"""Tune on Parquet files without loading them into memory, and make decisions for new files part by part.

    python examples/larger_than_memory.py [ROWS]

This writes files of generated probabilities (default: 200 000 rows of five classes) to a temporary folder, tunes a rule
for macro F1 on them, and makes the decisions for a second set of files.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import confmax

NAMES = ("ham", "newsletter", "order", "phishing", "spam")
GROUP = 50_000  # rows of a row group; a million is better for real files


def write(path, rows, seed):
    """Write somewhat overconfident probabilities and the true classes, one row group at a time."""
    rng, writer = np.random.default_rng(seed), None
    for start in range(0, rows, GROUP):
        n = min(GROUP, rows - start)
        scores = np.log([0.6, 0.2, 0.15, 0.03, 0.02]) + 1.2 * rng.standard_normal((n, len(NAMES)))
        true = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        proba = np.exp(1.4 * scores) / np.exp(1.4 * scores).sum(axis=1, keepdims=True)
        label = np.array(NAMES)[(true.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)]
        columns = {name: proba[:, k].astype(np.float32) for k, name in enumerate(NAMES)}
        table = pa.table({**columns, "truth": label})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def main(rows):
    """Write, tune, decide."""
    with tempfile.TemporaryDirectory() as folder:
        for part in range(2):
            write(Path(folder) / f"validation-{part}.parquet", rows // 2, seed=part)
        write(Path(folder) / "new.parquet", rows // 4, seed=9)

        table = confmax.open_table(f"{folder}/validation-*.parquet", label="truth", columns=NAMES)
        solution = confmax.maximize("macro_f1", table, classes=NAMES)
        print(solution)

        decisions = solution.rule.predict_index(confmax.open_table(f"{folder}/new.parquet", columns=NAMES))
        for name, count in zip(NAMES, np.bincount(decisions, minlength=len(NAMES)), strict=True):
            print(f"{name:<12}{count:>8}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
