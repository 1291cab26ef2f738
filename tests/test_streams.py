"""Rows that stream as Arrow batches: the same rows give the same rule from wherever they come, or one sentence."""

import threading
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.oracle import make_oracle, make_table
from tests.helpers import assert_same_statistics
from tests.parts_helpers import labelled
from tests.stream_helpers import (
    GAINS,
    GROUP,
    NAMED,
    NAMES,
    RULE,
    SETTINGS,
    TABLE,
    TRUTH,
    WAYS,
    Capsule,
    P,
    W,
    Y,
    arrays,
    csv,
    ds,
    feather,
    lazy,
    opened,
    pa,
    pandas,
    polars,
    pq,
    relation,
    slices,
)

pytestmark = pytest.mark.usefixtures("inside", "small_parts")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("small_samples")
def test_the_same_rows_give_the_same_rule_wherever_they_come_from(way):
    source = opened(way)
    solution = confmax.maximize("macro_f1", source)
    expected = confmax.maximize("macro_f1", confmax.open_table(TABLE, **NAMED))
    for name, one in (("found", solution), ("expected", expected)):
        one.rule.save(f"{name}.json")
    assert Path("found.json").read_bytes() == Path("expected.json").read_bytes()
    assert solution.value == expected.value
    # decisions of the stream are those of the array, in its order
    np.testing.assert_array_equal(solution.predict(source), solution.predict(P))
    table = make_table(source)
    assert (source.n_rows, table.n_rows, table.held) == (1500, 1500, False)
    for share in (1.0, 0.0, 0.4):
        oracles = (make_oracle(one, "blend", model_share=share) for one in (table, make_table(P, TRUTH, W)))
        assert_same_statistics(*(oracle.maximize(GAINS, matrix=True) for oracle in oracles))


@pytest.mark.usefixtures("small_samples")
def test_row_groups_as_large_as_parts_give_the_same_rule_too():
    pq.write_table(TABLE, "t.parquet", row_group_size=400)
    for name, given in (("file", "t.parquet"), ("stream", TABLE)):
        confmax.maximize("macro_f1", confmax.open_table(given, **NAMED)).rule.save(f"{name}.json")
    assert Path("file.json").read_bytes() == Path("stream.json").read_bytes()


def test_a_table_below_the_sample_is_tuned_as_in_memory():
    found = confmax.maximize("macro_f1", confmax.open_table(arrays))
    assert found.value == pytest.approx(confmax.maximize("macro_f1", P, TRUTH, sample_weight=W).value, rel=1e-12)


def test_parts_are_of_one_size():
    reported = []
    sizes = list(opened("tiny batches", progress=lambda *told: reported.append(told)).run(lambda part: len(part.proba)))
    assert sizes == [400, 400, 400, 300]
    assert reported == [(400, 1500), (800, 1500), (1200, 1500), (1500, 1500)]
    part = next(opened("arrays").with_columns([2, 0, 1]).run(lambda part: (part.name, part.proba)))
    assert part[0] == "rows 0 to 399 of the function arrays"
    np.testing.assert_array_equal(part[1], P[:400, [2, 0, 1]])


def test_columns_that_are_passed_through():
    for way in ("lazy", "csv", "relation"):
        beside = pa.concat_tables(opened(way).keeping(["id", "truth"]).run(lambda part: part.beside))
        assert beside.column("id").to_pylist() == list(range(1500))
        assert beside.column_names == ["id", "truth"]


@pytest.mark.parametrize("library", ["polars", "dataset"])
def test_columns_that_are_not_needed_are_not_read(library):
    read = []
    if library == "polars":
        polars = pytest.importorskip("polars")
        given = lazy().with_columns(polars.col("id").map_batches(read.append, polars.Int64))
    else:

        class Spy:
            """A dataset that notes which columns are asked for."""

            schema = TABLE.schema
            scanner = None

            def to_batches(self, columns, **more):
                read.extend(set(columns) & {"id"})
                return ds.dataset(TABLE).to_batches(columns=columns, **more)

            def count_rows(self):
                return len(TABLE)

        given = Spy()
    assert confmax.maximize("macro_f1", confmax.open_table(given, **NAMED), **SETTINGS).value > 0.3
    assert not read


def test_lists_of_numbers_and_of_several_kinds():
    flat = pa.array(P.ravel().astype(np.float32))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(1501, dtype=np.int32) * 3), flat)
    expected = confmax.maximize("macro_f1", P.astype(np.float32), TRUTH, **SETTINGS).value
    for column in (lists, pa.FixedSizeListArray.from_arrays(flat, 3)):
        given = ds.dataset(pa.table({"probability": column, "truth": TRUTH}))
        assert confmax.maximize("macro_f1", given, "truth", **SETTINGS).value == pytest.approx(expected, rel=1e-12)
    # of two classes the probabilities of the second are enough, in chunks as in arrays
    vector = confmax.open_table(lambda: ((P[rows, 1], Y[rows] == 1) for rows in slices()))
    assert confmax.maximize("f1", vector).value == pytest.approx(
        confmax.maximize("f1", P[:, 1], Y == 1).value, rel=1e-12
    )
    # one chunk need not be yielded
    alone = confmax.maximize("macro_f1", confmax.open_table(lambda: (P, Y)), **SETTINGS)
    assert alone.value == pytest.approx(confmax.maximize("macro_f1", P, Y, **SETTINGS).value, rel=1e-12)


def test_partitions_and_filters_of_a_dataset():
    table = TABLE.append_column("sex", pa.array(GROUP))
    ds.write_dataset(table, "hive", format="parquet", partitioning=["sex", "truth"], partitioning_flavor="hive")
    rows = ds.dataset("hive", partitioning="hive").filter(ds.field("sex") == "f")
    mine = GROUP == "f"
    found = confmax.maximize("macro_f1", rows, y="truth", sample_weight="w", **SETTINGS)
    assert found.value == pytest.approx(
        confmax.maximize("macro_f1", P[mine], TRUTH[mine], sample_weight=W[mine], **SETTINGS).value, rel=1e-12
    )
    limit = {"constraints": "min(recall[bad] | group) >= 0.5", **SETTINGS}
    found = confmax.maximize("accuracy", ds.dataset("hive", partitioning="hive").replace_schema(
        pa.schema([*(table.schema.field(name) for name in NAMES), ("truth", pa.string()), ("sex", pa.string())])
    ), "truth", group="sex", **limit)  # fmt: skip
    assert found.value == pytest.approx(confmax.maximize("accuracy", P, TRUTH, group=GROUP, **limit).value, rel=1e-9)


# --- names of columns in the place of labels, weights and groups ------------------------------------------------------

DIRECT = {"pandas": pandas, "polars": polars, "arrow": lambda table: table}
STREAMED = {"lazy": lambda table: lazy(polars(table)), "relation": relation, "dataset": ds.dataset}


@pytest.mark.parametrize("kind", [*DIRECT, *STREAMED])
def test_labels_weights_and_groups_are_columns(kind):
    make = {**DIRECT, **STREAMED}[kind]
    table = TABLE.drop_columns(["id"])
    found = confmax.maximize("macro_f1", make(table), y="truth", sample_weight="w")
    expected = confmax.maximize("macro_f1", P, TRUTH, sample_weight=W)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    # frames in memory stay there
    if kind in DIRECT:
        assert found.rule == expected.rule
    np.testing.assert_array_equal(found.rule.predict(make(table.select(NAMES))), expected.predict(P))
    grouped = table.append_column("sex", pa.array(GROUP))
    limit = {"constraints": "min(recall[bad] | group) >= 0.5"}
    found = confmax.maximize("accuracy", make(grouped), "truth", sample_weight="w", group="sex", **limit)
    expected = confmax.maximize("accuracy", P, TRUTH, sample_weight=W, group=GROUP, **limit)
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    if kind in STREAMED:
        np.testing.assert_array_equal(found.predict(make(grouped), group="sex"), found.predict(P, group=GROUP))
        assert found.predict(make(grouped), group="sex", at_most={"bad": 7}).tolist().count("bad") == 7
        with pytest.raises(ValueError, match="this rule decides by groups; pass group=, the name of the column"):
            found.predict(make(grouped))


@pytest.mark.filterwarnings("ignore:no row of y has the class ugly")
@pytest.mark.parametrize("kind", DIRECT)
def test_a_list_of_labels_is_no_list_of_columns(kind):
    two = {"confusion": "labels", "calibration": None, "classes": NAMES}
    found = confmax.maximize("accuracy", DIRECT[kind](TABLE.select(NAMES).slice(0, 2)), ["bad", "good"], **two)
    assert found.value == confmax.maximize("accuracy", P[:2], ["bad", "good"], **two).value


def test_a_connection_is_free_after_a_run_that_failed():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        rows = connection.from_arrow(TABLE).project("bad, good, ugly * if(id = 900, 2, 1) as ugly, truth")
        with pytest.raises(ValueError, match="rows 800 to 1199 of the DuckDBPyRelation: row 100 of proba sums to"):
            confmax.maximize("macro_f1", rows, "truth")
        assert connection.sql("select 1").fetchall() == [(1,)]


@pytest.mark.parametrize("kind", [*DIRECT, *STREAMED])
def test_several_labels_per_row(kind):
    make = {**DIRECT, **STREAMED}[kind]
    L = np.random.default_rng(2).random((400, 2))
    T = (np.random.default_rng(3).random((400, 2)) < L).astype(int)
    expected = confmax.maximize("macro_f1", L, T, decisions="any", classes=["news", "sport"])
    proba = {"p_news": L[:, 0], "p_sport": L[:, 1]}
    columns = pa.table({**proba, "y_news": T[:, 0], "y_sport": T[:, 1]})
    found = confmax.maximize(
        "macro_f1", make(columns), ["y_news", "y_sport"], decisions="any", classes=["news", "sport"]
    )
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_array_equal(found.predict(make(columns.select(list(proba)))), expected.predict(L))
    lists = [[name for name, one in zip(["news", "sport"], row, strict=True) if one] for row in T]
    table = make(pa.table({**proba, "tags": lists}))
    found = confmax.maximize("macro_f1", table, "tags", decisions="any", classes=["news", "sport"])
    assert found.value == pytest.approx(expected.value, rel=1e-12)


@pytest.mark.usefixtures("small_samples")
def test_matrices_of_labels_in_chunks():
    L = np.random.default_rng(2).random((900, 2))
    T = (np.random.default_rng(3).random((900, 2)) < L).astype(int)
    found = confmax.maximize("macro_f1", confmax.open_table(lambda: [(L[:500], T[:500]), (L[500:], T[500:])]),
                             decisions="any", **SETTINGS)  # fmt: skip
    expected = confmax.maximize("macro_f1", L, T, decisions="any", **SETTINGS)
    assert found.value == pytest.approx(expected.value, rel=1e-3)
    assert found.rule.n_classes == 2


def test_shares_of_a_stream():
    solution = confmax.maximize("macro_f1", P, TRUTH)
    found = confmax.shift.estimate_priors(lazy(), solution, sample_weight="w")
    expected = confmax.shift.estimate_priors(P, solution, sample_weight=W)
    np.testing.assert_allclose(found.priors, expected.priors, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: confmax.maximize("macro_f1", lazy()), r"the LazyFrame has .*\('truth', 'id'\), and none is "
         r"named as the label; which column is the label\? name it: y='truth', or pass confusion='model' if none is"),
        (lambda: confmax.maximize("macro_f1", ds.dataset(TABLE), confusion="labels"), "which column is the label"),
        (lambda: confmax.maximize("macro_f1", confmax.open_table(TABLE, weight="w"), confusion="labels"),
         "the opened table has .*name it: label='truth', where you open it"),
        (lambda: confmax.maximize("macro_f1", TABLE), r"proba has columns that are no probabilities \('truth'\).* "
         "y='truth', and drop all others"),
        (lambda: confmax.maximize("macro_f1", pandas()), r"which column is the label\? name it: y='truth'"),
        (lambda: confmax.maximize("macro_f1", polars(), "lable"), "y names the column 'lable', and proba has the col"),
        (lambda: confmax.maximize("macro_f1", TABLE, "truth", sample_weight="v"), "sample_weight names the column 'v'"),
        (lambda: confmax.maximize("macro_f1", lazy(), "lable"), "the LazyFrame has no column 'lable'; its"),
        (lambda: confmax.maximize("macro_f1", ds.dataset(TABLE), TRUTH), "y must be the name of a column of the InMem"),
        (lambda: confmax.maximize("macro_f1", TABLE.to_reader(), "truth"), "the RecordBatchReader can be read only on"),
        (lambda: confmax.maximize("macro_f1", arrays()), "the generator can be read only once"),
        (lambda: confmax.DecisionRule.from_weights([1, 1, 1]).decision_probabilities(lazy()), "not an array; rule.pre"),
    ],
)  # fmt: skip
def test_what_is_not_named_or_not_there_is_asked_for(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


# --- what cannot be opened, or changes --------------------------------------------------------------------------------


def changing(first, later, *, after):
    """Return a function that yields some chunks the first times that it is called, and others later."""
    calls = []

    def rows():
        calls.append(0)
        yield from first if len(calls) <= after else later

    return rows


def shuffled(values):
    return np.random.default_rng(5).permutation(values)


SHORT = [(P[:-10], TRUTH[:-10], W[:-10])]


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize(
    ("later", "after", "sentence"),
    [
        (SHORT, 2, "the function rows gave 1,490 rows, and 1,500 before; a run reads the rows several times"),
        (SHORT, 3, "the function rows gave 1,490 rows, and 1,500 before"),
        ([], 2, "the function rows gave 0 rows, and 1,500 before"),
        ([(P[:, ::-1], TRUTH, W)], 3, r"gave other rows than before; .*with the same seed\), or pass spool=True"),
        ([(P, shuffled(TRUTH), W)], 3, "gave other rows than before"),
        ([(P, TRUTH, shuffled(W))], 3, "gave other rows than before"),
        ([(P, Y, W)], 3, "is none of the 3 classes"),
    ],
)
def test_rows_that_change_between_passes_are_refused(later, after, sentence):
    """The function is called for its first chunk, for the labels, for the check of all rows, and for further passes."""
    given = changing([(P, TRUTH, W)], later, after=after)
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("macro_f1", confmax.open_table(given), **SETTINGS)
    assert not [thread for thread in threading.enumerate() if "confmax-read" in thread.name]


@pytest.mark.usefixtures("small_samples")
def test_the_order_of_rows_may_change():
    order = np.random.default_rng(6).permutation(1500)
    given = changing([(P, TRUTH, W)], [(P[order], TRUTH[order], W[order])], after=3)
    found = confmax.maximize("macro_f1", confmax.open_table(given), **SETTINGS)
    assert found.value == pytest.approx(
        confmax.maximize("macro_f1", confmax.open_table(arrays), **SETTINGS).value, rel=1e-12
    )


WHOLE = TABLE.set_column(0, "bad", pa.array(np.zeros(1500, int)))


@pytest.mark.parametrize(
    ("chunks", "sentence"),
    [
        (lambda: iter(()), "the function <lambda> yields no rows; it must yield frames and tables"),
        (lambda: [TABLE.slice(0, 0)], "yields no rows"),
        (lambda: None, "the function <lambda> returned NoneType; it must yield frames and tables .*, dicts"),
        (lambda: "t.parquet", "the function <lambda> returned str"),
        (lambda: [1, 2], "chunk 0 of the function <lambda> is int; chunks are frames and tables"),
        (lambda more: [more], "is called without arguments, once for each pass: .*'more'; bind them first"),
        (lambda: [(P, Y, W, W)], "a tuple of 4 is none of"),
        (lambda: [(P, Y[1:])], "chunk 0 of the function <lambda> cannot be read: y has 1499 entries for 1500 rows"),
        (lambda: [P[:, :1]], r"chunk 0 .* proba must have shape \(n, K\) with K >= 2"),
        (lambda: [{"a": P[:, 0], "truth": TRUTH[1:]}], "chunk 0 of the function <lambda> cannot be read"),
        (lambda: [TABLE, TABLE.drop_columns(["good"])], "batch 1 of the function <lambda> has no column 'good'"),
        (lambda: [TABLE, WHOLE], "column 'bad' of .* holds int64 in batch 1 and double in the first one; give"),
        (lambda: [TABLE, 3], "chunk 1 of the function <lambda> is int"),
        (lambda: [TABLE.set_column(0, "bad", pa.array(np.full(1500, 7.0)))], "rows 0 to 399 of the function <lambda>"),
    ],
)  # fmt: skip
def test_functions_that_yield_something_else(chunks, sentence):
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("macro_f1", confmax.open_table(chunks, **NAMED))


def test_errors_of_a_function_are_its_own():
    def failing():
        yield from arrays()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        confmax.maximize("macro_f1", confmax.open_table(failing))


TWICE = pa.table([TABLE["bad"], TABLE["good"], TABLE["bad"]], names=["a", "b", "a"])


@pytest.mark.parametrize(
    ("given", "settings", "sentence"),
    [
        (TABLE, {"label": "lable"}, "the Table has no column 'lable'; its columns are bad, good"),
        (TABLE, {"columns": ["bad", "nice"]}, "the Table has no column 'nice'"),
        (TABLE, {"label": 3}, "label must be the name of a column of the Table; got int: add it as a column"),
        (TABLE, {"columns": ["bad", "truth"]}, "column 'truth' holds string, not numbers"),
        (TABLE.select(["bad", "id"]), {}, "the Table has 1 columns of floating-point numbers"),
        (TABLE.append_column("t", pa.array([{"a": 1}] * 1500)), {"label": "t"}, "label column 't' of the Table hol"),
        (TWICE, {}, "the Table has 2 columns 'a'; give each column its own name"),
        (TABLE.slice(0, 0), NAMED, "proba is empty: at least one row"),
        (TABLE.to_reader(), NAMED, "read only once, .*; pass a function .* iterator of chunks, .*or pass spool"),
        ("none.csv", {}, "there is no file none.csv"),
        ("nowhere://bucket/t.csv", {}, "nowhere"),
        (["t.csv", "t.feather"], {}, "give files of one format; got t.csv, t.feather"),
        (["t.csv", "other.csv"], {}, "other.csv has no column 'bad'"),
        ("broken.csv", {}, "broken.csv cannot be read: .*Expected 2 columns, got 1"),
        ("broken.feather", {}, "broken.feather cannot be read"),
        ("t.csv", {"columns": ["bad", "truth"]}, "rows 0 to 599 of t.csv: column 'truth' holds string, not numbers"),
        ("t.parquet", {"spool": True}, "spool=True is for rows that stream, and these files are read where they are"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_says_why(given, settings, sentence):
    csv.write_csv(TABLE, "t.csv")
    feather.write_feather(TABLE, "t.feather")
    pq.write_table(TABLE, "t.parquet")
    Path("other.csv").write_text("a,b\n0.5,0.5\n")
    Path("broken.csv").write_text("a,b\n0.5,0.5\n0.5\n")
    Path("broken.feather").write_text("nothing")
    # an address needs fsspec, which is not everywhere
    with pytest.raises((ValueError, ImportError), match=sentence):
        confmax.maximize("macro_f1", confmax.open_table(given, **settings))


def test_frames_of_libraries_that_cannot_be_read():
    polars = pytest.importorskip("polars")
    lazy()
    with pytest.raises(ValueError, match=r"the LazyFrame cannot be read: .*none\.parquet"):
        confmax.open_table(polars.scan_parquet("none.parquet"))
    mixed = pandas().assign(id=["a", 1] * 750)
    with pytest.raises(ValueError, match=r"the DataFrame cannot be read: .*column id"):
        confmax.open_table(mixed)


class Query:
    """Rows by no protocol that is known."""


@pytest.mark.parametrize(
    "call", [confmax.open_table, lambda one: confmax.maximize("macro_f1", one, "truth"), lambda one: RULE.predict(one)]
)
def test_what_does_not_stream_is_refused_with_the_way_out(call):
    with pytest.raises(ValueError, match=r"Query.* function .*that returns an iterator of chunks"):
        call(Query())


def test_a_stream_that_ends_with_the_first_pass_says_what_to_pass():
    passes = iter(range(1))

    class Once(Capsule):
        def __arrow_c_stream__(self, requested_schema=None):
            if next(passes, None) is None:
                raise OSError("there is no query result")
            return super().__arrow_c_stream__(requested_schema)

    with pytest.raises(ValueError, match=r"the Once cannot be read: there is no query result; pass a function without"):
        confmax.maximize("macro_f1", Once(), "truth")


@pytest.mark.filterwarnings("ignore:no row of y has the class ugly")
def test_a_class_without_rows_keeps_its_column(tmp_path):
    """Columns that are distributions are all classes, whatever the labels are."""
    pd = pytest.importorskip("pandas")
    P, y, _ = labelled(300, 3)
    seen = y < 2
    frame = pd.DataFrame(P[seen], columns=NAMES).assign(truth=np.array(NAMES)[y[seen]])
    frame.to_parquet(tmp_path / "t.parquet")
    for rows, given in ((frame, {"y": "truth"}), (confmax.open_table(tmp_path / "t.parquet", label="truth"), {})):
        found = confmax.maximize("accuracy", rows, confusion="labels", calibration=None, **given)
        assert found.rule.class_names == tuple(NAMES)
