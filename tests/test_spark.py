"""Tables in Spark data frames: the same answer as in memory, whatever the partitions; bad rows are one sentence."""

import shutil
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table
from confmax.tables.decisions import decisions_of
from confmax.tables.partitioned import spark as _spark
from confmax.tables.partitioned.spark import BATCH_ROWS
from tests.helpers import assert_same_statistics
from tests.parts_helpers import GAINS, cut, labelled
from tests.spark_helpers import columns_of, frame_of

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    # of Spark, about itself
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark():
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            patch.setenv(name, sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        from pyspark.sql import SparkSession

        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.python.worker.faulthandler.enabled": "false",
            "spark.log.level": "OFF",
        }
        build = SparkSession.builder.master("local[2,4]").appName("confmax")
        for name, value in settings.items():
            build = build.config(name, value)
        session = build.getOrCreate()
        yield session
        session.stop()


def test_statistics_are_those_in_memory(spark):
    P, y, w = labelled(2000, 5)
    # the first partition with rows lacks most classes
    order = np.argsort(y, kind="stable")
    P, y, w = P[order], y[order], w[order]
    df = frame_of(spark, columns_of(P, y, w), at=(0, 700, 1999))
    for mode, share, weighted in (("model", None, False), ("labels", None, True), ("blend", 0.3, True)):
        here = make_table(P, y, w if weighted else None)
        there = make_table(df, "label", "weight" if weighted else None, range(5))
        assert there.n_rows == 2000
        assert there.n_weighted == here.n_weighted
        one, other = (make_oracle(table, mode, model_share=share) for table in (here, there))
        for make in GAINS.values():
            gains = make(5, np.random.default_rng(1))
            whole, found = (oracle.maximize(gains, matrix=True) for oracle in (one, other))
            assert_same_statistics(found, whole)


def test_the_same_rule_as_in_memory(spark):
    """On model and labels; the same partitions give the same bytes, as parts in memory do."""
    P, y, w = labelled(1000, 4, sharp=0.7)
    at = (0, 300, 999)
    df = frame_of(spark, columns_of(P, y, w), at=at)
    found = [
        confmax.maximize("macro_f1", df, y="label", sample_weight="weight", classes=range(4)).rule for _ in range(2)
    ]
    parts = confmax.maximize("macro_f1", cut(P, y, w, at=at)).rule
    assert found[0].to_json() == found[1].to_json() == parts.to_json()
    judged = confmax.score("macro_f1", df, "label", parts, sample_weight="weight", classes=range(4), n_replicates=0)
    here = confmax.score("macro_f1", P, y, parts, sample_weight=w, n_replicates=0)
    np.testing.assert_allclose(judged.values, here.values, atol=1e-12)
    certified = confmax.maximize("g_mean", df.drop("label"), sample_weight="weight")
    whole = confmax.maximize("g_mean", P, sample_weight=w)
    assert certified.value == pytest.approx(whole.value, abs=2e-6)
    assert (certified.gap is None) == (whole.gap is None)


@pytest.mark.parametrize("given", [None, "123"])
def test_batches_do_not_matter_and_settings_of_the_session_stay(spark, monkeypatch, given):
    """A setting that was there is put back; one that was not there is taken away again."""
    P, y, _ = labelled(600, 3, dtype=np.float32)
    df = frame_of(spark, columns_of(P, y), at=(200,))
    if given is not None:
        spark.conf.set(BATCH_ROWS, given)
    before = dict(spark.conf.getAll)
    gains, answers = Gains.reduced([1.0, 2.0, 3.0]), []
    for rows in (7, 10_000):
        monkeypatch.setattr(_spark, "MOST_BATCH_ROWS", rows)
        answers.append(make_oracle(make_table(df, "label")).maximize(gains))
        assert dict(spark.conf.getAll) == before
        assert spark.conf.get(BATCH_ROWS, None) == given
    spark.conf.unset(BATCH_ROWS)
    assert answers[0].diagonal.tobytes() == answers[1].diagonal.tobytes()


@pytest.mark.usefixtures("small_samples")
def test_samples_depend_on_content_only(spark):
    P, y, w = labelled(20_000, 4)
    here = make_table(cut(P, y, w, at=(123,))).head
    there = make_table(frame_of(spark, columns_of(P, y, w), at=(9000, 9000, 15_000)), "label", "weight").head
    assert 500 < len(here.proba) < 1500
    for name in ("proba", "labels", "weight"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))


def test_forms_of_probabilities(spark):
    """Arrays of floats stay floats; vectors of Spark ML, columns named like classes, and any other columns."""
    P, y, _ = labelled(500, 3)
    names = np.array(["b", "c", "a"])[y]
    gains = Gains.reduced([1.0, 2.0, 3.0])
    single = make_table(frame_of(spark, columns_of(P.astype(np.float32), y)), "label")
    assert single.dtype == np.float32
    assert (
        make_oracle(single).maximize(gains).columns.tobytes()
        == make_oracle(make_table(P.astype(np.float32))).maximize(gains).columns.tobytes()
    )
    from pyspark.ml.functions import array_to_vector

    df = frame_of(spark, columns_of(P, names), at=(100,))
    vectors = df.withColumn("probability", array_to_vector("probability"))
    wide = frame_of(
        spark, columns_of(P, names, form="columns", names=["b", "c", "a"]) | {"age": P[:, 0]}, at=(100, 200)
    )
    found = [
        confmax.maximize("macro_f1", vectors, y="label", classes=["b", "c", "a"]),
        confmax.maximize("macro_f1", wide, y="label"),
        confmax.maximize("macro_f1", wide, y="label", classes=["a", "b", "c"]),
        confmax.maximize("macro_f1", confmax.open_table(wide, label="label", columns=["a", "b", "c"])),
    ]
    whole = confmax.maximize("macro_f1", P, names, classes=["b", "c", "a"])
    for each in found:
        assert each.value == pytest.approx(whole.value, abs=1e-9)
        assert set(each.rule.classes) == {"a", "b", "c"}
    assert found[2].rule.classes.tolist() == ["a", "b", "c"]
    odd = frame_of(spark, columns_of(P, form="columns", names=["p.0", "p`1", "p 2"]))
    assert confmax.maximize("g_mean", odd).value == pytest.approx(confmax.maximize("g_mean", P).value, abs=1e-9)


def with_row(columns, name, row, value):
    cells = pa.array(columns[name]).to_pylist()
    cells[row] = value
    return columns | {name: cells}


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("probability", [0.5, float("nan"), 0.5], "^partition 2: row 3, column 1 of proba is not a finite number"),
        ("probability", [0.5, None, 0.5], "^partition 2: row 3, column 1 of proba is not a finite number"),
        ("probability", None, "^partition 2: row 3 of proba has no probabilities"),
        ("probability", [0.5, 0.5], "^partition 2: row 3 of proba has 2 probabilities and row 0 has 3"),
        ("probability", [0.5, 0.1, 0.1], "^partition 2: row 3 of proba sums to 0.7, not to one"),
        ("label", None, "^partition 2: row 3 of y has no label"),
        ("label", 7, "^partition 2: row 3 of y holds the label 7, which is none of the 3 classes"),
        ("weight", None, "^partition 2: row 3 of sample_weight is nan"),
        ("weight", -1.0, "^partition 2: row 3 of sample_weight is -1.0"),
    ],
)
def test_a_bad_row_is_one_sentence(spark, tmp_path, column, value, sentence):
    P, y, w = labelled(60, 3)
    df = frame_of(spark, with_row(columns_of(P, y, w), column, 33, value), at=(20, 30))
    with pytest.raises(ValueError, match=sentence) as caught:
        confmax.maximize("g_mean", df, y="label", sample_weight="weight").rule.save(tmp_path / "rule.json")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert not list(tmp_path.iterdir())


def test_a_missing_vector_is_one_sentence(spark):
    """`maximize` names partition and row, and so does what `transform` adds, when it is computed."""
    from pyspark.errors import PySparkException
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    P, y, _ = labelled(60, 3)
    df = frame_of(spark, columns_of(P, y) | {"id": np.arange(60)}, at=(20, 30))
    vectors = df.withColumn("probability", F.when(F.col("id") != 33, array_to_vector("probability")))
    with pytest.raises(ValueError, match=r"^partition 2: row 3 of proba has no probabilities; drop such rows$"):
        confmax.maximize("g_mean", vectors, y="label")
    out = confmax.DecisionRule.from_weights([1, 2, 3]).transform(vectors)
    with pytest.raises(PySparkException, match="partition 2, rows counted from its row 0: row 3 of proba has no"):
        out.collect()


def threads_seen(_):
    """Return the threads of compiled scans that a task finds in its process, and those that confmax gives to it."""
    import os

    from confmax.kernels.blocks import n_threads
    from confmax.tables.partitioned.spark import cores_of_task

    os.environ["CONFMAX_NUM_THREADS"] = "8"
    before = n_threads()
    with cores_of_task():
        inside = n_threads()
    return before, inside, n_threads()


def test_a_task_scans_with_its_cores_and_leaves_the_process_as_it_was(spark):
    """Processes of Python serve one task after another, also those of other people."""
    for before, inside, after in spark.sparkContext.parallelize(range(2), 2).map(threads_seen).collect():
        assert inside == 1  # spark.task.cpus
        assert (before, after) == (8, 8)


def test_what_is_no_table_is_refused(spark):
    P, y, w = labelled(20, 3)
    df = frame_of(spark, columns_of(P, y, w))
    for call, sentence in (
        (lambda: make_table(df, y), "y must be the name of a column; got ndarray"),
        (lambda: make_table(df, "label", w), "sample_weight must be the name of a column; got ndarray"),
        (lambda: make_table(df, "labels"), "has no column 'labels'; its columns are probability, label, weight"),
        (lambda: make_table(df, "probability"), r"column 'probability' holds array<double>; labels are"),
        (lambda: make_table(df, None, "probability"), "column 'probability' holds array<double>, not numbers"),
        (lambda: make_table(df.where("label > 5")), "has no row with probabilities"),
        (lambda: make_table(df.drop("probability"), "label"), "has no column 'probability' of arrays or vectors, and"),
        (lambda: confmax.open_table(df, columns=["p"]), "has no column 'p'"),
        (lambda: confmax.open_table(df, columns=[]), "columns is empty"),
        (lambda: confmax.open_table(df, columns=["probability", "label"]), "column 'probability' holds array<double>"),
        (lambda: make_table(df, "label", None, ["a", "b"]), "classes names 2 classes and proba has 3 columns"),
        (lambda: make_table(spark.readStream.format("rate").load()), "a streaming DataFrame cannot be tuned on"),
        (lambda: confmax.DecisionRule.from_weights([1, 2, 3]).predict(df), r"use rule.transform\(df\)"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


class FailsOnce:
    """A calibration that changes nothing; the first attempt at one partition's task dies, and leaves a file."""

    def __init__(self, trace):
        self.trace = trace

    def fit(self, proba, y):
        return self

    def transform(self, proba):
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is not None and task.partitionId() == 1 and task.attemptNumber() == 0:
            self.trace.touch()
            raise RuntimeError("this attempt is lost")
        return proba


def test_a_task_that_fails_once_changes_nothing(spark, tmp_path):
    P, y, _ = labelled(2000, 3)
    settings = {"calibration": FailsOnce(tmp_path / "failed"), "confusion": "model"}
    df = frame_of(spark, columns_of(P, y), at=(500, 1200))
    found = confmax.maximize("g_mean", df, y="label", **settings)
    whole = confmax.maximize("g_mean", cut(P, y, at=(500, 1200)), **settings)
    assert (tmp_path / "failed").exists()
    assert found.n_passes > 1
    assert found.value == whole.value
    assert found.rule.gains.a.tobytes() == whole.rule.gains.a.tobytes()


def test_what_is_held_is_let_go(spark):
    P, _, _ = labelled(100, 3)
    df = frame_of(spark, columns_of(P))
    # What earlier tests held may be let go at any moment, by Java's garbage collection: only what is new is counted.
    before = held_by(spark)
    table = make_table(df)
    _ = table.known
    assert len(held_by(spark) - before) == 1
    del table
    assert not held_by(spark) - before


def held_by(spark):
    """The numbers of the data sets that Spark holds now."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


# --- rules on frames -------------------------------------------------------------------------------------------------


def decided(df, name="decision"):
    return np.array([row[name] for row in df.select(name).collect()])


def test_transform_adds_what_predict_decides(spark):
    P, y, _ = labelled(3000, 3)
    names = ["b", "c", "a"]
    offsets = confmax.DecisionRule.from_weights([1, 2, 3], [0.1, 0, 0.05], classes=names)
    full = confmax.DecisionRule(Gains.from_matrix(np.random.default_rng(0).random((3, 3))), np.ones(1), (0, 1, 2))
    drawn = confmax.DecisionRule(Gains.reduced([[1, 2, 3], [3, 2, 1.0]]), np.array([0.4, 0.6]), tuple(names), seed=3)
    df = frame_of(spark, columns_of(P, y) | {"id": [f"row {k}" for k in range(3000)]}, at=(0, 1100))
    np.testing.assert_array_equal(decided(offsets.transform(df)), offsets.predict(P))
    out = full.transform(df, "prediction")
    assert dict(out.dtypes)["prediction"] == "double"
    np.testing.assert_array_equal(decided(out, "prediction"), full.predict(P))
    keys = np.array([f"row {k}" for k in range(3000)])
    np.testing.assert_array_equal(decided(drawn.transform(df, keys="id")), drawn.predict(P, keys=keys))
    wide = frame_of(spark, columns_of(P[:, [2, 0, 1]], y, form="columns", names=["a", "b", "c"]), at=(7,))
    np.testing.assert_array_equal(decided(offsets.transform(wide)), offsets.predict(P))
    tuned = confmax.maximize("macro_f1", df, y="label", calibration="vector")
    np.testing.assert_array_equal(decided(tuned.rule.transform(df)), tuned.rule.predict(P))
    matrix = confmax.calibration.MatrixScaling(np.eye(3) + np.diag([0.2, -0.1], 1), [0.0, 0.3, 0.0])
    by_matrix = confmax.DecisionRule(offsets.gains, offsets.weights, tuple(names), calibrator=matrix)
    np.testing.assert_array_equal(decided(by_matrix.transform(df)), by_matrix.predict(P))


@pytest.mark.parametrize("decisions", ["any", 2, ("at_most", 2)])
def test_transform_adds_the_labels_that_predict_gives(spark, decisions):
    """Several labels are an array of 0 and 1 for each row, or of names, where numbers are doubles."""
    rng = np.random.default_rng(0)
    P = rng.integers(0, 9, (500, 3)) / 8.0
    gains = Gains.reduced(rng.random((2, 3)).round(1), -rng.random((2, 3)).round(1))
    names = ("b", "c", "a")
    one = confmax.LabelRule(gains[0], np.ones(1), names, decisions_of(decisions))
    drawn = confmax.LabelRule(gains, np.array([0.4, 0.6]), names, decisions_of(decisions), seed=3)
    df = frame_of(spark, columns_of(P) | {"id": np.arange(500)}, at=(0, 110))
    out = one.transform(df)
    assert dict(out.dtypes)["decision"] == "array<int>"
    np.testing.assert_array_equal(decided(out), one.predict(P))
    np.testing.assert_array_equal(decided(drawn.transform(df, keys="id")), drawn.predict(P, keys=np.arange(500)))
    wide = frame_of(spark, columns_of(P[:, [2, 0, 1]], form="columns", names=["a", "b", "c"]), at=(7,))
    np.testing.assert_array_equal(decided(one.transform(wide, "labels"), "labels"), one.predict(P))
    named = one.transform(df, names=True)
    assert [list(row.decision) for row in named.select("decision").collect()] == one.predict_lists(P)
    numbered = confmax.LabelRule(gains[0], np.ones(1), (0, 1, 2), decisions_of(decisions)).transform(df, names=True)
    assert dict(numbered.dtypes)["decision"] == "array<double>"
    assert [list(row.decision) for row in numbered.select("decision").collect()] == [
        [float(k) for k in np.flatnonzero(row)] for row in one.predict(P)
    ]
    with pytest.raises(ValueError, match=r"use rule.transform\(df\)"):
        one.predict(df)
    with pytest.raises(ValueError, match=r"already has a column 'id'"):
        one.transform(df, "id")


def several_labels(n, seed=0):
    """Return probabilities (n, 3), labels that they are a little too large for, and weights."""
    rng = np.random.default_rng(seed)
    P = rng.random((n, 3)) ** 2
    return P, (rng.random(P.shape) < P).astype(int), rng.integers(1, 4, n).astype(float)


@pytest.mark.parametrize("small", [False, True])
def test_several_labels_are_tuned_as_in_memory(spark, monkeypatch, small):
    """Labels are columns of 0 and 1 or one of arrays of names; a table like a sample is brought into memory."""
    if small:
        for name, most in (("SAMPLE_CELLS", 900), ("SAMPLE_CELLS_UNLABELLED", 900), ("SAMPLE_ROWS", 100)):
            monkeypatch.setattr(f"confmax.tables.partitioned.table.{name}", most)
    P, Y, weight = several_labels(3000)
    names = ["a", "b", "c"]
    columns = columns_of(P) | {f"y_{name}": Y[:, k] for k, name in enumerate(names)} | {"weight": weight}
    df = frame_of(spark, columns | {"tags": [[names[k] for k in np.flatnonzero(row)] for row in Y]}, at=(0, 1100, 2000))
    given = {"sample_weight": "weight", "classes": names}
    for decisions in ("any", ("at_most", 2)):
        here = confmax.maximize("macro_f1", P, Y, sample_weight=weight, decisions=decisions)
        for y in (["y_c", "y_a", "y_b"], "tags") if decisions == "any" else ("tags",):
            there = confmax.maximize("macro_f1", df, y, decisions=decisions, **given)
            assert there.value == pytest.approx(here.value, abs=1e-4 if small and decisions != "any" else 1e-9)
            assert there.rule.class_names == ("a", "b", "c")
            found = confmax.score("macro_f1", P, Y, there, sample_weight=weight, n_replicates=0)
            assert found.estimate("rule").value == pytest.approx(there.label_value, abs=1e-12)
            judged = confmax.score("macro_f1", df, y, there, n_replicates=0, **given)
            assert judged.estimate("rule").value == pytest.approx(there.label_value, abs=1e-12)
            np.testing.assert_array_equal(decided(there.rule.transform(df)), there.predict(P))
        of_model = confmax.maximize("macro_f1", df, decisions=decisions, **given)
        alone = confmax.maximize("macro_f1", P, sample_weight=weight, decisions=decisions)
        assert of_model.value == pytest.approx(alone.value, abs=1e-4)


def test_what_is_no_label_of_several_is_named(spark):
    P, Y, _ = several_labels(200)
    wide = {name: P[:, k] for k, name in enumerate(["p_a", "p_b", "p_c"])}
    labels = {f"y_{name}": Y[:, k] + (k == 1) * (np.arange(200) == 150) for k, name in enumerate("abc")}
    df = frame_of(spark, wide | labels | {"tags": [["a"]] * 199 + [["z"]]}, at=(100,))
    cases = [
        (["y_a", "y_z"], r"has no column 'y_z'"),
        (["y_a", "y_b", "y_c"], r"partition 1: row 50, column 1 of y is 2(.0)?, and labels are 0 or 1"),
        ("tags", r"partition 1: row 99 of y has the label 'z', which is none of the 3 \('a', 'b', 'c'\)"),
        (np.zeros((200, 3)), r"y must be the name of a column"),
    ]
    for y, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            confmax.maximize("macro_f1", df, y, decisions="any", classes=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"column 'tags' holds array<string>; labels are strings, numbers or booleans"):
        confmax.maximize("macro_f1", df, "tags", classes=["a", "b", "c"])
    of_lists = confmax.open_table(df, label="tags", columns=["p_a", "p_b", "p_c"])
    with pytest.raises(ValueError, match=r"y holds a list of labels for each row; pass decisions='any'"):
        confmax.maximize("macro_f1", of_lists, classes=["a", "b", "c"])


@pytest.mark.parametrize(("names", "kind"), [(("a", "b", "c", "abstain"), "string"), ((0, 1, 2, -1), "double")])
def test_rules_that_abstain(spark, names, kind):
    """Names are strings, numbers are doubles, and names beside numbers strings; rules draw and calibrate as others."""
    P, y, _ = labelled(1500, 3, sharp=0.7)
    df = frame_of(spark, columns_of(P, y) | {"id": np.arange(1500)}, at=(0, 700))
    gains = Gains.reduced([[1, 1, 1], [1, 0.5, 1.5]], [[0, 0, 0, 0.6], [0, 0.4, 0.1, 0.7]])
    calibrator = confmax.calibration.Temperature(1.5)
    drawn = confmax.DecisionRule(gains, np.array([0.4, 0.6]), names, seed=3, calibrator=calibrator, abstain=names[-1])
    one = confmax.DecisionRule(gains[1], np.ones(1), names, abstain=names[-1])
    mixed = confmax.DecisionRule(gains[0], np.ones(1), (0, 1, 2, "ask"), abstain="ask")
    out = one.transform(df)
    assert dict(out.dtypes)["decision"] == kind
    assert names[-1] in one.predict(P)
    np.testing.assert_array_equal(decided(out), one.predict(P))
    np.testing.assert_array_equal(decided(drawn.transform(df, keys="id")), drawn.predict(P, keys=np.arange(1500)))
    np.testing.assert_array_equal(decided(mixed.transform(df)), mixed.predict(P).astype(str))


@pytest.mark.parametrize("names", [("men", "women"), (0, 1)])
def test_rules_with_groups(spark, names):
    """The column of groups may be of strings or numbers; a group that is not known is an error in its partition."""
    P, y, _ = labelled(1500, 3, sharp=0.7)
    codes = np.arange(1500) % 7 % 2
    group = np.array(names)[codes]
    df = frame_of(spark, columns_of(P, y) | {"sex": group, "id": np.arange(1500)}, at=(0, 700))
    gains = Gains.reduced([[1, 1, 1, 1, 2, 1], [1, 0.5, 1.5, 3, 1, 1]], [[0] * 6 + [0.6, 0.5], [0] * 6 + [0.4, 0.9]])
    drawn = confmax.DecisionRule(
        gains, np.array([0.4, 0.6]), ("a", "b", "c", "ask"), seed=3, groups=names, abstain="ask"
    )
    one = confmax.DecisionRule(gains[1], np.ones(1), drawn.class_names, groups=names, abstain="ask")
    expected = one.predict(P, group=group)
    assert (expected != one.predict(P, group=group[::-1])).any()
    np.testing.assert_array_equal(decided(one.transform(df, group="sex")), expected)
    keyed = drawn.transform(df, keys="id", group="sex")
    np.testing.assert_array_equal(decided(keyed), drawn.predict(P, keys=np.arange(1500), group=group))
    from pyspark.sql import functions as F

    strange = "children" if isinstance(names[0], str) else 9
    for cell, sentence in (
        (None, "row 0 of group is missing"),
        (strange, "row 0 has the group .*, which the rule does"),
    ):
        other = df.withColumn("sex", F.when(F.col("id") == 700, F.lit(cell)).otherwise(F.col("sex")))
        with pytest.raises(Exception, match=f"partition 2, rows counted from its row 0: {sentence}"):
            one.transform(other, group="sex").collect()
    shared = replace(one, groups_known=False)
    for call, sentence in (
        (lambda: one.transform(df), r"decides by groups \(.*pass group=, the name of the column of groups"),
        (lambda: one.transform(df, group="gender"), "has no column 'gender'"),
        (lambda: one.of_group(names[0]).transform(df, group="sex"), "leave group out"),
        (lambda: shared.transform(df), "reads no probabilities of groups"),
        (lambda: one.predict(df, group=group), "use rule.transform"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


def test_maximize_with_groups(spark):
    names = ("men", "women")
    P, y, w = labelled(1500, 3, sharp=0.7)
    group = np.array(names)[np.arange(1500) % 7 % 2]
    truth = np.array(list("abc"))[y]
    df = frame_of(spark, columns_of(P, truth, w) | {"sex": group}, at=(0, 700))
    more = {"constraints": "difference(recall[a] | group) <= 0.02", "confusion": "model", "calibration": None}
    memory = confmax.maximize("accuracy", P, truth, sample_weight=w, group=group, **more)
    for found in (
        confmax.maximize("accuracy", df, "label", sample_weight="weight", group="sex", **more),
        confmax.maximize("accuracy", confmax.open_table(df, label="label", weight="weight", group="sex"), **more),
    ):
        assert found.rule.groups == names and found.value == pytest.approx(memory.value, abs=2e-6)
        assert found.gap < 1e-6 and found.constraints[0].kept
    for given, sentence in (
        ({"group": group}, "group must be the name of a column; got ndarray"),
        ({"group": "gender"}, "has no column 'gender'"),
        ({}, "speaks of groups, and there are none"),
    ):
        with pytest.raises(ValueError, match=sentence):
            confmax.maximize("accuracy", df, "label", sample_weight="weight", **given, **more)


def test_class_shares_of_other_rows(spark):
    P, y, _ = labelled(1500, 3, sharp=0.7)
    solution = confmax.maximize("macro_f1", P[:900], y[:900])
    other = P[900:][np.argsort(P[900:, 0])[:400]]
    df = frame_of(spark, columns_of(other, form="columns", names=["0", "1", "2"]), at=(150,))
    found, wanted = (confmax.shift.detect(rows, solution) for rows in (df, other))
    np.testing.assert_allclose(found.shares.raw_priors, wanted.shares.raw_priors, atol=1e-9)
    np.testing.assert_allclose(found.decided, wanted.decided, atol=1e-12)
    assert found.changed and solution.adapt(df).value == pytest.approx(solution.adapt(other).value, abs=1e-5)


def test_maximize_with_abstaining(spark):
    P, y, w = labelled(1500, 3, sharp=0.7)
    df = frame_of(spark, columns_of(P, y, w), at=(0, 700))
    given = {"abstain": True, "constraints": "coverage >= 0.8", "confusion": "model"}
    found = confmax.maximize("accuracy", df, y="label", sample_weight="weight", **given)
    whole = confmax.maximize("accuracy", P, y, sample_weight=w, **given)
    assert found.value == pytest.approx(whole.value, abs=1e-9)
    np.testing.assert_array_equal(found.predict(P), whole.predict(P))
    assert found.rule.abstain == -1 and -1 in found.predict(P)
    np.testing.assert_array_equal(decided(found.rule.transform(df)), whole.predict(P))


@pytest.mark.parametrize(
    ("values", "names"), [([3, 1, 2], ["score 3.0", "score 1.0", "score 2.0"]), ([True, False], ["TRUE", "false"])]
)
def test_columns_are_matched_to_classes(spark, values, names):
    """By the same rules as those of frames in memory (`tests/test_columns.py`), beside columns that are none."""
    P, y, _ = labelled(400, len(values))
    labels, order = np.array(values)[y], list(range(len(values)))[::-1]
    columns = columns_of(P[:, order], labels, form="columns", names=[names[k] for k in order]) | {"age": 90 * P[:, 0]}
    df = frame_of(spark, columns, at=(100,))
    table = make_table(df, "label")
    assert dict(zip(table.classes, table.mean_probability(), strict=True)) == pytest.approx(
        dict(zip(values, P.mean(axis=0), strict=True))
    )
    rule = confmax.DecisionRule.from_weights(np.arange(len(values)) + 1.0, classes=values)
    made = [row["decision"] for row in rule.transform(df).select("decision").collect()]
    assert made == rule.classes[(P * (np.arange(len(values)) + 1)).argmax(axis=1)].tolist()


def test_columns_that_fit_in_part_are_refused(spark):
    P, y, _ = labelled(40, 3)
    df = frame_of(spark, columns_of(P, np.array(["a", "b", "c"])[y], form="columns", names=["p_a", "p_b", "p_z"]))
    rule = confmax.DecisionRule.from_weights([1, 2, 3], classes=["a", "b", "c"])
    for call in (lambda: make_table(df, "label"), lambda: rule.transform(df)):
        with pytest.raises(ValueError, match="no column is named like the class 'c', and no class like the column"):
            call()
    numbered = confmax.DecisionRule.from_weights([1, 2, 3])
    other = frame_of(spark, columns_of(P, form="columns", names=["u", "v", "w"]))
    with pytest.warns(UserWarning, match=r"taken in their order \(u = 0, v = 1, w = 2\)"):
        numbered.transform(other)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_thresholds_make_spark_ml_decide_alike(spark, n_classes):
    """Spark predicts argmax p_k / t_k, for two classes of logistic regression p_1 > t_1 / (t_0 + t_1)."""
    from pyspark.ml.classification import LogisticRegression, RandomForestClassifier
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    rng = np.random.default_rng(n_classes)
    y = rng.choice(n_classes, 400, p=[0.7, 0.2, 0.1] if n_classes == 3 else [0.8, 0.2])
    X = rng.normal(size=(400, 3)) + y[:, None] * 0.7
    df = frame_of(spark, {"x": list(X), "label": y.astype(float)}, at=(150,))
    df = df.select(array_to_vector("x").alias("features"), "label").cache()
    for learner in (LogisticRegression(maxIter=5), RandomForestClassifier(numTrees=7, seed=1)):
        model = learner.fit(df)
        scored = model.transform(df).drop("prediction").cache()
        rules = [confmax.maximize("g_mean", scored, y="label", calibration=None, randomized=False).rule]
        if n_classes == 2:
            rules.append(confmax.maximize("f1", scored, y="label", calibration=None, randomized=False).rule)
        for rule in rules:
            found = rule.to_spark_thresholds()
            assert all(0 < each <= 1 for each in found) and max(found) == 1
            both = rule.transform(model.copy().setThresholds(found).transform(df)).collect()
            P = np.array([row.probability.toArray() for row in both])
            scores = np.sort(P / found, axis=1)
            # rules of confmax end on a row's own probabilities; ties go to the last class here, to the first in Spark
            clear = scores[:, -1] > scores[:, -2] * (1 + 1e-12)
            assert clear.sum() > 300
            one, other = (np.array([row[name] for row in both]) for name in ("prediction", "decision"))
            np.testing.assert_array_equal(one[clear], other[clear])
            assert (other != P.argmax(axis=1)).any()
        assert isinstance(scored.agg(F.count("label")).head()[0], int)
        scored.unpersist()
    df.unpersist()


def test_chosen_rows_are_held_and_tested_with_confidence(spark):
    P, y, _ = labelled(600, 3)
    names = np.array(["a", "b", "c"])[y]
    df = frame_of(spark, columns_of(P) | {"truth": names}, at=(0, 250))
    mask = np.arange(600) % 3 > 0
    chosen = make_table(df, "truth", classes=["a", "b", "c"]).rows_where(mask)
    here = make_table(P[mask], names[mask], classes=["a", "b", "c"])
    gains = GAINS["offsets"](3, np.random.default_rng(1))
    assert_same_statistics(*(make_oracle(table, "labels").maximize(gains) for table in (chosen, here)))
    settings = {"constraints": "recall[b] >= 0.5", "confidence": 0.9, "classes": ["a", "b", "c"], "calibration": None}
    there = confmax.maximize("recall[b]", df, "truth", **settings)
    assert there.constraints[0].assured
    np.testing.assert_array_equal(there.predict(P), confmax.maximize("recall[b]", P, names, **settings).predict(P))
