"""Tune the decisions of a Spark ML classifier inside Spark, and put the rule into the model.

    python examples/spark_ml.py [ROWS]

This starts a local Spark session, fits a logistic regression on generated imbalanced rows, and tunes weights for the
G-mean on validation rows. It then decides the test rows in two ways: by the rule, and by the model's own thresholds.
"""

import os
import sys

from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import confmax


def made_up(spark, rows):
    """Return rows with two features and a label; nine tenths of the rows have label 0."""
    label = F.when(F.rand(1) < 0.9, 0).otherwise(1 + (F.rand(2) * 2).cast("int"))
    frame = spark.range(0, rows, 1, 4).withColumn("label", label)
    frame = frame.withColumn("x1", F.randn(3) + F.col("label")).withColumn(
        "x2", F.randn(4) + (F.col("label") == 2).cast("int")
    )
    return VectorAssembler(inputCols=["x1", "x2"], outputCol="features").transform(frame).cache()


def main(rows):
    """Fit, tune, decide."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    build = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    spark = build.config("spark.driver.host", "127.0.0.1").getOrCreate()
    train, validation, test = made_up(spark, rows).randomSplit([0.5, 0.25, 0.25], seed=0)
    model = LogisticRegression().fit(train)

    scored = model.transform(validation)  # a vector column "probability"
    solution = confmax.maximize("g_mean", scored, y="label", calibration=None, randomized=False)
    print(solution)

    decided = solution.rule.transform(model.transform(test))
    decided.groupBy("label", "decision").count().orderBy("label", "decision").show()

    model.setThresholds(solution.rule.to_spark_thresholds())
    own = model.transform(test).select("id", F.col("prediction").cast("int").alias("own"))
    same = decided.join(own, "id").where(F.col("decision") == F.col("own")).count()
    print(f"{same} of {test.count()} decisions are the same with the rule and with the thresholds")
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
