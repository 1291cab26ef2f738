"""Tables that are odd: what they hold is read as it is, or refused by one sentence, and nothing is left out."""

import numpy as np
import pytest

import confmax
from confmax.tables.partitioned.parts import counted_beside
from tests.cli_helpers import refusal
from tests.parts_helpers import labelled

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ["bad", "good", "ugly"]
P, Y, W = labelled(600, 3)
TRUTH = np.array(NAMES)[Y]
TABLE = pa.table({**{name: P[:, k] for k, name in enumerate(NAMES)}, "truth": TRUTH})
SETTINGS = {"confusion": "labels", "calibration": None}

pytestmark = pytest.mark.usefixtures("inside")


def value(opened, **settings):
    return confmax.maximize("macro_f1", opened, **SETTINGS, **settings).value


# --- functions that yield chunks -------------------------------------------------------------------------------------


def as_tuple(rows, labels):
    return rows, labels


def as_dict(rows, labels):
    return {"probability": rows, "y": labels}


def as_pandas(rows, labels):
    return pytest.importorskip("pandas").DataFrame(rows, columns=NAMES, copy=False).assign(y=labels)


def as_polars(rows, labels):
    frame = pytest.importorskip("polars")
    return frame.DataFrame({**{name: rows.T[k] for k, name in enumerate(NAMES)}, "y": labels})


def as_arrow(rows, labels):
    return pa.table({**{name: rows.T[k] for k, name in enumerate(NAMES)}, "y": labels})


@pytest.mark.parametrize("made", [as_tuple, as_dict, as_pandas, as_polars, as_arrow])
def test_a_function_may_use_the_memory_of_a_chunk_again(made):
    """A chunk waits for the next ones until a part is full."""

    def chunks():
        rows = np.empty((3, 50)).T if made in (as_pandas, as_polars, as_arrow) else np.empty((50, 3))
        labels = np.empty(50, np.int64)
        for low in range(0, 600, 50):
            rows[:] = P[low : low + 50]
            labels[:] = Y[low : low + 50]
            yield made(rows, labels)

    label = None if made is as_tuple else "y"
    found = value(confmax.open_table(chunks, label=label), classes=[0, 1, 2])
    assert found == pytest.approx(value(confmax.open_table(lambda: [(P, Y)])), rel=1e-12)


@pytest.mark.parametrize(
    ("chunks", "name"),
    [
        ([(P[:300], Y[:300]), (P[300:], Y[300:], W[300:])], "sample_weight"),
        ([P[:300], (P[300:], Y[300:])], "y"),
        ([TABLE.drop_columns(["ugly"]), TABLE], "ugly"),
    ],
)
def test_what_only_later_chunks_have_is_not_left_out(chunks, name):
    sentence = f"^chunk 1 of the function <lambda> has '{name}', and the first chunk has not; give every chunk the same"
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize("macro_f1", confmax.open_table(lambda: chunks), decisions="any")


def test_labels_and_weights_of_chunks_may_be_columns():
    found = value(confmax.open_table(lambda: [(P, Y[:, None], W[:, None])]))
    assert found == pytest.approx(value(confmax.open_table(lambda: [(P, Y, W)])), rel=1e-12)


def test_an_object_of_a_script_is_called_by_its_name():
    strange = type("Strange", (), {"__module__": "__main__"})()
    with pytest.raises(ValueError, match="and functions; got Strange: name a file, pass a table"):
        confmax.open_table(strange)


def test_a_chunk_with_one_label_for_all_rows():
    with pytest.raises(ValueError, match="chunk 0 of the function <lambda> cannot be read: y is int; give one entry"):
        confmax.open_table(lambda: [(P, 3)])


# --- secrets ---------------------------------------------------------------------------------------------------------


def errors(error):
    """Return an error with those before it."""
    return [] if error is None else [error, *errors(error.__cause__), *errors(error.__context__)]


@pytest.mark.parametrize(
    "address",
    ["http://me:secret@host:xx/t.parquet", "http://me:a/secret@host:1/t.parquet?sig=secret", "zzz://me:secret@host/t"],
)
def test_no_error_of_an_address_holds_its_password(address):
    pytest.importorskip("fsspec")
    with pytest.raises(ValueError, match="://host") as found:
        confmax.open_table(address)
    assert "secret" not in "".join(map(repr, errors(found.value)))


def test_a_table_does_not_print_its_address():
    fsspec = pytest.importorskip("fsspec")

    memory = fsspec.filesystem("memory")
    with memory.open("/bucket/t.parquet?sig=secret", "wb") as file:
        pq.write_table(TABLE, file)
    opened = confmax.open_table("memory://bucket/t.parquet?sig=secret", label="truth")
    memory.store.clear()
    assert "memory://bucket/t.parquet" in repr(opened)
    assert "secret" not in repr(opened)


def test_arguments_that_a_command_does_not_know_are_told_without_passwords():
    said = refusal("score", "rule.json", "https://me:secret@host/t.parquet?sig=secret")
    assert "(https://host/t.parquet)" in said
    assert "secret" not in said


def test_what_a_stream_cannot_read_is_told_without_passwords():
    class Remote:
        def __arrow_c_stream__(self, schema=None):
            raise OSError("cannot reach https://me:secret@host/t?sig=secret")

    with pytest.raises(ValueError, match=r"^the Remote cannot be read: cannot reach https://host/t; pass a function"):
        confmax.open_table(Remote())


# --- files -----------------------------------------------------------------------------------------------------------


def text(name, table):
    pytest.importorskip("pyarrow.csv").write_csv(table, name)
    return name


def parquet(name, table):
    pq.write_table(table, name)
    return name


WRITTEN = {"text": (text, ".csv"), "Parquet": (parquet, ".parquet")}
WIDER = TABLE.append_column("worse", pa.array(P[:, 0]))


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_class_that_only_a_later_file_has_is_not_left_out(kind):
    write, end = WRITTEN[kind]
    names = [write(f"{k}{end}", table) for k, table in enumerate((TABLE, WIDER))]
    with pytest.raises(ValueError, match=f"^1{end} has the column 'worse' of floating-point numbers, and the first"):
        confmax.open_table(names, label="truth")
    assert confmax.open_table(names, label="truth", columns=NAMES).n_rows == 1200


@pytest.mark.parametrize("kind", WRITTEN)
def test_files_in_a_set_are_sorted(kind):
    write, end = WRITTEN[kind]
    names = {write(f"{k}{end}", TABLE.slice(k, 2)) for k in range(9)}
    found = confmax.DecisionRule.from_weights([1, 1, 1], classes=NAMES)
    expected = found.predict(confmax.open_table(f"*{end}")).tolist()
    assert found.predict(confmax.open_table(names)).tolist() == expected


def test_text_in_folders_of_folders_is_read(inside):
    for name in ("a", "b/c", "b/_d"):
        (inside / "t" / name).mkdir(parents=True)
        text(inside / "t" / name / "rows.csv", TABLE)
    assert confmax.open_table("t").n_rows == 1200
    assert confmax.open_table("t/**/*.csv").n_rows == 1800


def test_text_files_without_rows_take_the_types_of_others():
    text("0.csv", TABLE.slice(0, 0))
    text("1.csv", TABLE)
    assert value(confmax.open_table("?.csv", label="truth")) == value(confmax.open_table("1.csv", label="truth"))
    with pytest.raises(ValueError, match=r"^0.csv holds no rows; at least one row of probabilities is needed$"):
        confmax.open_table("0.csv", label="truth")


def test_leading_zeros_of_a_later_file_stay():
    labels = np.array(["1", "02", "10"])[Y]
    for name, rows in (("a", labels == "10"), ("b", labels != "10")):
        table = TABLE.set_column(3, "truth", pa.array(labels)).filter(pa.array(rows))
        pytest.importorskip("pandas")
        table.to_pandas().to_csv(f"{name}.csv", index=False)
    opened = confmax.open_table("?.csv", label="truth")
    assert confmax.maximize("macro_f1", opened, classes=["1", "02", "10"], **SETTINGS).rule.class_names[1] == "02"


@pytest.mark.parametrize("kind", WRITTEN)
def test_one_column_of_scores_is_no_table_of_two_classes(kind):
    write, end = WRITTEN[kind]
    opened = confmax.open_table(write(f"t{end}", TABLE), label="truth", columns=["bad"])
    with pytest.raises(ValueError, match="one column per class, K >= 2 of them; got one column p: for two"):
        confmax.maximize("macro_f1", opened)


@pytest.mark.parametrize("settings", [{"label": "truth"}, {"group": "truth"}, {}])
def test_files_without_rows_tune_nothing(settings):
    opened = confmax.open_table(parquet("t.parquet", TABLE.slice(0, 0)), columns=NAMES, **settings)
    with pytest.raises(ValueError, match=r"^proba is empty: at least one row of probabilities is needed$"):
        confmax.maximize("macro_f1", opened)


@pytest.mark.parametrize("first", [True, False])
def test_a_key_of_folders_that_some_files_hold_is_a_column_of_all(inside, first):
    for k, has in enumerate((first, not first)):
        (inside / f"t/truth={k}").mkdir(parents=True)
        parquet(inside / f"t/truth={k}/rows.parquet", TABLE if has else TABLE.drop_columns(["truth"]))
    with pytest.raises(ValueError, match=rf"truth={int(first)}.rows.parquet has no column 'truth'"):
        confmax.open_table("t", label="truth")


def test_a_dictionary_may_hold_a_label_twice():
    twice = pa.DictionaryArray.from_arrays(pa.array(np.where(np.arange(600) % 2, Y, 3 + Y)), pa.array([*NAMES, *NAMES]))
    opened = confmax.open_table(TABLE.set_column(3, "truth", twice), label="truth")
    assert counted_beside(opened)[0] == dict(zip(NAMES, np.bincount(Y).tolist(), strict=True))


# --- rows that change, and rows that are read once -------------------------------------------------------------------


def swapped(table):
    other = {"truth": "group", "group": "truth"}
    return table.rename_columns([other.get(name, name) for name in table.column_names])


def negative(table):
    """Labels -2 become -1, which Python gives the same hash."""
    return table.set_column(3, "truth", pa.array([-1.0, *table["truth"].to_pylist()[1:]]))


@pytest.mark.parametrize(("labels", "change"), [(Y, swapped), (Y - 2.0, negative)])
def test_columns_that_change_between_passes_are_seen(labels, change):
    calls = []
    table = TABLE.set_column(3, "truth", pa.array(labels)).append_column("group", pa.array(np.roll(labels, 1)))

    def chunks():
        calls.append(1)
        yield table if len(calls) < 4 else change(table).select(table.column_names)

    opened = confmax.open_table(chunks, label="truth", group="group", columns=NAMES)
    for _ in range(2):
        assert len(list(opened.run(str))) == 1
    with pytest.raises(ValueError, match="the function chunks gave other rows than before"):
        list(opened.run(str))


def test_a_column_that_a_temporary_file_cannot_hold(inside, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(inside))
    odd = TABLE.append_column("odd", pa.array([(1, 2, 3)] * 600, pa.month_day_nano_interval()))
    with pytest.raises(
        ValueError, match=r"^the Table cannot be written to Parquet: .*interval; leave this column out$"
    ):
        confmax.open_table(odd, label="truth", spool=True)
    assert not list(inside.iterdir())


def test_no_folder_for_a_temporary_file(inside, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(inside / "none"))
    with pytest.raises(ValueError, match=r"^the list_iterator cannot be written to .*none: .*No such file"):
        confmax.open_table(iter([(P, Y)]), spool=True)


def test_a_limit_on_rows_that_come_in_another_order():
    """Of equal rows those that come first keep a decision, which rows in another order would not be."""
    calls = []
    rows = np.repeat([[0.6, 0.3, 0.1], [0.1, 0.8, 0.1]], 300, axis=0)

    def chunks():
        calls.append(1)
        yield np.random.default_rng(len(calls)).permutation(rows)

    rule = confmax.DecisionRule.from_weights([1, 1, 1], classes=NAMES)
    with pytest.raises(
        ValueError, match=r"the rows came in another order than before, so [0-9]+ rows, not 50, got 'bad'"
    ):
        list(rule.predict_batches(confmax.open_table(chunks), at_most={"bad": 50}))
    ordered = rule.predict_batches(confmax.open_table(lambda: [rows]), at_most={"bad": 50})
    assert np.count_nonzero(np.concatenate(list(ordered)) == "bad") == 50


# --- tables that are written -----------------------------------------------------------------------------------------

RULE = confmax.DecisionRule.from_weights([1, 1, 1], classes=NAMES)


@pytest.mark.parametrize("kind", ["text", "Feather", "dataset"])
def test_files_that_stream_are_not_written_over(inside, kind):
    write = {"text": text, "Feather": pytest.importorskip("pyarrow.feather").write_feather}.get(kind, parquet)
    name = {"text": "t.csv", "Feather": "t.feather"}.get(kind, "t.parquet")
    write(*((TABLE, name) if kind == "Feather" else (name, TABLE)))
    before = (inside / name).read_bytes()
    opened = confmax.open_table(pytest.importorskip("pyarrow.dataset").dataset(name) if kind == "dataset" else name)
    with pytest.raises(ValueError, match=f"{name} holds the table that is read"):
        RULE.write_parquet(opened, name)
    assert (inside / name).read_bytes() == before


def test_columns_that_are_named_to_be_kept_suffice(inside):
    names = [parquet("0.parquet", TABLE), parquet("1.parquet", TABLE.append_column("id", TABLE["truth"]))]
    twice = TABLE.append_column("truth", TABLE["truth"])
    for given in (names, names[::-1], twice, parquet("2.parquet", twice)):
        opened = confmax.open_table(given, columns=NAMES)
        with pytest.raises(ValueError, match=r"column '(id|truth)'"):
            RULE.write_parquet(opened, "out.parquet")
        assert not (inside / "out.parquet").exists()
        RULE.write_parquet(opened, "out.parquet", keep=["bad"])
        assert pq.read_schema("out.parquet").names == ["bad", "decision"]
        (inside / "out.parquet").unlink()


def test_a_column_that_parquet_cannot_hold(inside):
    odd = TABLE.append_column("odd", pa.array([(1, 2, 3)] * 600, pa.month_day_nano_interval()))
    with pytest.raises(ValueError, match=r"^a column cannot be written to Parquet: .*interval; leave it out$"):
        RULE.write_parquet(confmax.open_table(odd), "out.parquet")
    assert not list(inside.iterdir())


def test_errors_of_reading_do_not_name_the_output(inside):
    def failing():
        yield TABLE
        raise OSError("the reader's disk")

    with pytest.raises(OSError, match=r"^the reader's disk$"):
        RULE.write_parquet(confmax.open_table(failing), "out.parquet")
    assert not list(inside.iterdir())
