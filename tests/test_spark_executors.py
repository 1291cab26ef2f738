"""What Spark's executors run on Arrow batches, called here, without Spark: numbers are those of arrays in memory."""

import importlib
import pickle
from itertools import chain

import numpy as np
import pytest

import confmax
from confmax.rule import LabelRule
from confmax.tables.partitioned import parts

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
spark = importlib.import_module("confmax.tables.partitioned.spark")
rules = importlib.import_module("confmax.tables.partitioned.spark_rules")

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), 40)
Y = RNG.integers(0, 3, 40)
WEIGHTS = RNG.random(40)
NAMES = np.array(["a", "b", "c"])


def lists(values):
    values = np.asarray(values)
    return pa.ListArray.from_arrays(pa.array(np.arange(0, values.size + 1, values.shape[1], np.int32)), values.ravel())


def batches(**columns):
    """Return the columns as two batches, and one without rows between them."""
    table = pa.table(columns)
    return [batch for part in (table[:15], table[:0], table[15:]) for batch in (part.to_batches() or [empty(table)])]


def empty(table):
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)


def made_by(work, given):
    (batch,) = spark._on_partition(work, iter(given))
    return pickle.loads(batch.column(0)[0].as_py())


def test_a_partition_is_a_part():
    beside = {spark.LABEL: NAMES[Y], spark.WEIGHT: WEIGHTS, spark.GROUP: NAMES[(Y + 1) % 3]}
    part, n = made_by(lambda part: part, batches(**{spark.PROBA: lists(P)}, **beside))
    assert n == 40
    np.testing.assert_array_equal(part.proba, P)
    np.testing.assert_array_equal(part.weight, WEIGHTS)
    for column, codes in ((part.labels, Y), (part.group, (Y + 1) % 3)):
        np.testing.assert_array_equal(np.asarray(column.values)[column.index], NAMES[codes])


def test_labels_alone_and_several_of_a_row():
    part, _ = made_by(lambda part: part, batches(**{spark.LABELS: lists(np.eye(3)[Y])}))
    assert part.proba is None
    np.testing.assert_array_equal(part.labels, np.eye(3)[Y])
    part, _ = made_by(lambda part: part, batches(**{spark.LABEL: [[str(NAMES[y])] for y in Y]}))
    assert part.labels == [[NAMES[y]] for y in Y]


def test_a_partition_without_rows_gives_nothing():
    assert list(spark._on_partition(len, iter([]))) == []
    assert list(spark._on_partition(len, iter([batches(**{spark.PROBA: lists(P)})[1]]))) == []


def test_what_is_too_large_to_move_is_refused(monkeypatch):
    monkeypatch.setattr(spark, "MOST_BYTES", 100)
    found = made_by(lambda part: part, batches(**{spark.PROBA: lists(P)}))
    assert isinstance(found, parts.Refused)
    with pytest.raises(ValueError, match=r"partition 0 holds 40 rows .* repartition the frame"):
        parts.refuse_first([found])


def test_what_is_held_is_worked_on():
    held = list(spark._on_partition(lambda part: part.proba, iter(batches(**{spark.PROBA: lists(P)}))))
    stepped = list(spark._on_held_rows(lambda proba: spark._as_made(np.log, proba), iter(held)))
    (sums,) = spark._on_held_rows(lambda proba: proba.sum(), iter(stepped))
    assert pickle.loads(sums.column(0)[0].as_py()) == pytest.approx(np.log(P).sum())
    # what was refused before stays refused
    refused = parts.Refused("no such rows")
    bad = pa.RecordBatch.from_arrays([pa.array([pickle.dumps(refused)], pa.binary())], ["made"])
    (found,) = spark._on_held_rows(len, iter([bad]))
    assert isinstance(pickle.loads(found.column(0)[0].as_py()), parts.Refused)


@pytest.mark.parametrize(("classes", "kind"), [(["no", "yes", "so"], "string"), ([1, 2, 3], "double")])
def test_decisions_of_one_class(classes, kind):
    rule = confmax.DecisionRule.from_weights([1.0, 2.0, 0.5], classes=classes)
    decide = rules._decider(rules._OneClass(rule, kind), ())
    found = [each.to_pylist() for each in decide(iter([lists(P[:15]), lists(P[:1])[:0], lists(P[15:])]))]
    assert list(map(len, found)) == [15, 0, 25]
    assert [*chain(*found)] == rule.predict(P).tolist()


@pytest.mark.parametrize("names", [False, True])
def test_decisions_of_labels(names):
    rule = LabelRule.from_thresholds([0.4, 0.3, 0.2], classes=list("abc"))
    decide = rules._decider(rules._Labels(rule, "string" if names else "int32", names), ())
    first, none, rest = (each.to_pylist() for each in decide(iter([lists(P[:15]), lists(P[:1])[:0], lists(P[15:])])))
    assert none == []
    assert first + rest == (rule.predict_lists(P) if names else rule.predict(P).tolist())


def test_keys_lie_beside_probabilities():
    rule = confmax.DecisionRule(
        confmax.confusion.Gains.reduced([[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]]), np.array([0.5, 0.5]), tuple("abc")
    )
    keys = np.arange(40)
    decide = rules._decider(rules._OneClass(rule, "string"), ("keys",))
    (found,) = decide(iter([(lists(P), pa.array(keys))]))
    assert found.to_pylist() == rule.predict(P, keys=keys).tolist()


def test_a_bad_row_is_named_with_its_partition():
    rule = confmax.DecisionRule.from_weights([1.0, 2.0, 0.5], classes=list("abc"))
    bad = P.copy()
    bad[3, 1] = 7.0
    decide = rules._decider(rules._OneClass(rule, "string"), ())
    with pytest.raises(ValueError, match=r"partition 0, rows counted from its row 40: row 3 "):
        list(decide(iter([lists(P), lists(bad)])))


def test_scans_take_the_cores_of_their_task(monkeypatch):
    import pyspark

    from confmax.kernels import blocks

    class Context:
        cpus = staticmethod(lambda: 1)
        partitionId = staticmethod(lambda: 7)

    monkeypatch.setattr(pyspark.TaskContext, "get", staticmethod(Context))
    before = blocks.n_threads()
    with spark.cores_of_task() as number:
        assert (number, blocks.n_threads()) == (7, 1)
    assert blocks.n_threads() == before
