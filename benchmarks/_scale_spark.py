"""A pass on Spark beside the sums of every probability column of the same cached frame, and the ways not taken."""

from __future__ import annotations

import os
import sys

import numpy as np

from benchmarks._speed_tables import SEED, short
from benchmarks._speed_tools import alternate, certified, certify, ratio, seconds_of, shown, verdict

ROWS, K, PARTITIONS, REPEATS = 20_000_000, 10, 16, 5
BOUND = 2.0


def session():
    """Return a local session of two threads."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    build = SparkSession.builder.master("local[2]").config("spark.driver.memory", "10g")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
    for name, value in {**quiet, "spark.driver.host": "127.0.0.1"}.items():
        build = build.config(name, value)
    return build.getOrCreate()


def cached(spark, n, kind):
    """Return a cached frame of K columns of probabilities, made where it lies."""

    def make(batches):
        import pyarrow as pa

        for batch in batches:
            ids = batch.column(0).to_numpy()
            x = np.random.default_rng(int(ids[0])).exponential(size=(len(ids), K)) ** 2 * np.linspace(1, 0.1, K) + 0.01
            x /= x.sum(axis=1, keepdims=True)
            each = pa.float64() if kind == "double" else pa.float32()
            yield pa.RecordBatch.from_arrays([pa.array(x[:, k], each) for k in range(K)], [f"p{k}" for k in range(K)])

    frame = spark.range(0, n, 1, PARTITIONS).mapInArrow(make, ", ".join(f"p{k} {kind}" for k in range(K))).persist()
    frame.count()
    return frame


def by_expressions(frame, a, kind):
    """Return the statistics of weights by native column expressions, ties to the largest index."""
    from pyspark.sql import functions as F

    scores = [(F.col(f"p{k}") * F.lit(float(a[k])).cast(kind)).alias(f"s{k}") for k in range(K)]
    x = frame.select(*[f"p{k}" for k in range(K)], *scores)
    x = x.withColumn("best", F.greatest(*[F.col(f"s{k}") for k in range(K)]))
    which = None
    for k in reversed(range(K)):
        wins = F.col(f"s{k}") >= F.col("best")
        which = F.when(wins, k) if which is None else which.when(wins, k)
    x = x.withColumn("d", which)
    sums = [F.sum(F.when(F.col("d") == k, F.col(f"p{k}"))) for k in range(K)]
    return x.agg(*sums, *[F.count(F.when(F.col("d") == k, 1)) for k in range(K)]).collect()[0]


def measure(quick=False):
    """Return seconds per type of column, and what certified runs take."""
    from pyspark.sql import functions as F

    from confmax.confusion import Gains
    from confmax.oracle import make_oracle, make_table

    n, rows, a = (200_000 if quick else ROWS), [], np.linspace(0.5, 2.0, K)
    spark = session()
    for kind in ("float", "double"):
        frame = cached(spark, n, kind)
        survey, table = seconds_of(lambda frame=frame: make_table(frame))
        oracle = make_oracle(table)
        calls = {
            "sums": lambda frame=frame: frame.agg(*[F.sum(f"p{k}") for k in range(K)]).collect(),
            "pass": lambda oracle=oracle: oracle.maximize(Gains.reduced(a)),
            "expressions": lambda frame=frame, kind=kind: by_expressions(frame, a, kind),
        }
        rows.append({"kind": kind, "survey": survey, **alternate(calls, REPEATS)})
        found, plain = oracle.maximize(Gains.reduced(a)), np.array(by_expressions(frame, a, kind)[:K]) / n
        rows[-1]["difference"] = float(np.abs(found.diagonal[0] - plain).max())
        if kind == "float":
            runs = certify(frame)
        del table, oracle
        frame.unpersist()
    spark.stop()
    return {"seed": SEED, "n": n, "K": K, "rows": rows, "runs": runs}


def report(data):
    lines = [
        f"`python -m benchmarks.scale spark`: {short(data['n'])} x {data['K']}, one column per class, {PARTITIONS} "
        f"partitions, `local[2]`; in turn with `df.agg(sum of every column)` on the same cached frame, medians of "
        f"{REPEATS}, at most {BOUND}. Expressions: the statistics of weights by `greatest`, `when` and `sum` alone.",
        "",
        "columns | sums, s | pass, s | pass / sums | target | expressions / sums | check and sample, s",
        "---|---:|---:|---:|---|---:|---:",
    ]
    for row in data["rows"]:
        found = ratio(row["pass"], row["sums"])
        lines.append(
            f"{row['kind']} | {np.median(row['sums']):.3f} | {np.median(row['pass']):.3f} | {shown(found)} | "
            f"{verdict(found[0], BOUND)} | {shown(ratio(row['expressions'], row['sums']))} | {row['survey']:.1f}"
        )
    return "\n".join([*lines, "", *certified(data["runs"], ", float")])
