"""Rules applied part by part: the decisions are those of the whole table, and files appear whole or not at all."""

import errno
import importlib
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains
from confmax.tables.decisions import decisions_of
from tests.cli_helpers import FEW_BYTES, document, refusal, run, run_process
from tests.parts_helpers import cut, labelled
from tests.test_signals import OBEY, SAID, SIGNALS

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("inside")

NAMES = ("low", "middle", "high")
N = 600
P = labelled(N, 3, dtype=np.float32)[0]
KEYS = [f"case {k % 550}" for k in range(N)]
GROUPS = np.array(["men", "women"])[np.arange(N) % 7 // 4]
PLAIN = confmax.DecisionRule.from_weights([1.0, 1.4, 2.0], classes=NAMES)
DRAWS = confmax.DecisionRule(Gains.reduced([[1.0, 1.0, 1.0], [1.0, 3.0, 5.0]]), np.array([0.3, 0.7]), NAMES, seed=3)
SCALE = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]])
GROUPED = confmax.DecisionRule(Gains.reduced(SCALE.reshape(1, -1)), np.ones(1), NAMES, groups=("men", "women"))
ABSTAINS = confmax.DecisionRule(
    Gains.from_matrix(np.hstack([np.eye(3), np.full((3, 1), 0.6)])[None]),
    np.ones(1),
    (*NAMES, "ask"),
    abstain="ask",
)
LABELS = replace(confmax.LabelRule.from_thresholds([0.3, 0.4, 0.5], classes=NAMES), decisions=decisions_of("any"))


def written(folder="scores", files=3, *, size=70, bad=None, codec="zstd"):
    """Write the rows to several files, with columns of many types beside the probabilities in another order."""
    Path(folder).mkdir()
    Q = P.copy()
    if bad is not None:
        Q[bad] = np.nan
    table = pa.table(
        {
            "case": KEYS,
            "high": Q[:, 2],
            "low": Q[:, 0],
            "middle": Q[:, 1],
            "group": pa.array(GROUPS.tolist()).dictionary_encode(),
            "when": pa.array(range(N), pa.timestamp("us")),
            "tags": [["a"] * (k % 3) for k in range(N)],
            "amount": pa.array([None if k % 5 == 0 else k for k in range(N)], pa.int16()),
        }
    ).replace_schema_metadata({"made": "by a test"})
    edges = np.linspace(0, N, files + 1).astype(int)
    for k, (low, high) in enumerate(pairwise(edges)):
        pq.write_table(table.slice(low, high - low), f"{folder}/{k}.parquet", row_group_size=size, compression=codec)
    return table


def opened(folder="scores", **more):
    return confmax.open_table(folder, columns=("low", "middle", "high"), **more)


def names(folder="."):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


def decided(path, name="decision"):
    return pq.read_table(path)[name].to_pylist()


# --- decisions -------------------------------------------------------------------------------------------------------

RULES = {
    "plain": (PLAIN, {}, {}),
    "draws by keys": (DRAWS, {"keys": "case"}, {"keys": KEYS}),
    "draws by rows": (DRAWS, {}, {}),
    "groups": (GROUPED, {}, {"group": GROUPS}),
    "abstains": (ABSTAINS, {}, {}),
    "labels": (LABELS, {}, {}),
}


@pytest.mark.parametrize("name", RULES)
def test_decisions_of_parts_are_those_of_the_whole_table(name, monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.files.PART_CELLS", 3 * 70)
    rule, in_parts, whole = RULES[name]
    written()
    table = opened(group="group" if rule.groups else None)
    parts = list(rule.predict_batches(table, **in_parts))
    assert len(parts) == 9
    expected = rule.predict(P, **whole)
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    counts = rule.write_parquet(table, "out.parquet", **in_parts)
    if rule is LABELS:
        assert decided("out.parquet") == rule.predict_lists(P)
        assert counts.tolist() == expected.sum(axis=0).tolist()
        rule.write_parquet(table, "out.parquet", names=False, output="has")
        found = [decided("out.parquet", f"has_{label}") for label in NAMES]
        np.testing.assert_array_equal(np.transpose(found), expected)
    else:
        assert decided("out.parquet") == expected.tolist()
        assert counts.tolist() == [int((expected == label).sum()) for label in rule.class_names]
        rule.write_parquet(table, "out.parquet", names=False, keep=(), **in_parts)
        indices = pq.read_table("out.parquet")
        assert indices.schema.types == [pa.int8()]
        assert indices["decision"].to_pylist() == rule.predict_index(P, **whole).tolist()


@pytest.mark.parametrize("most", [0, 1, 90, 200, N, 10 * N])
@pytest.mark.parametrize("rounded", [False, True], ids=["all margins differ", "margins are equal"])
def test_at_most_so_many_of_all_parts(most, rounded, monkeypatch):
    """Of equal margins as of different ones, with keys or without, also by groups."""
    monkeypatch.setattr("confmax.tables.partitioned.files.PART_CELLS", 3 * 70)
    Q = np.round(4 * P) / 4 + 0.01 if rounded else P
    Q = (Q / Q.sum(axis=1, keepdims=True)).astype(np.float32)
    monkeypatch.setitem(globals(), "P", Q)
    written()
    for rule, group in ((PLAIN, None), (GROUPED, GROUPS)):
        table = opened(group=None if group is None else "group")
        for keys in (None, KEYS):
            expected = rule.predict(Q, group=group, keys=keys, at_most={"high": most})
            named = None if keys is None else "case"
            found = rule.predict_batches(table, keys=named, at_most={"high": most})
            np.testing.assert_array_equal(np.concatenate(list(found)), expected)
            rule.write_parquet(table, "out.parquet", keys=named, at_most={"high": most})
            assert decided("out.parquet") == expected.tolist()


def test_arrays():
    np.save("p.npy", P)
    table = confmax.open_table("p.npy")
    PLAIN.write_parquet(table, "out.parquet")
    found = pq.read_table("out.parquet")
    assert found.column_names == [*NAMES, "decision"]
    np.testing.assert_array_equal(np.column_stack([found[name] for name in NAMES]), P)
    assert found["decision"].to_pylist() == PLAIN.predict(P).tolist()
    for source in (table, cut(P, at=[10])):
        with pytest.raises(
            ValueError, match="no column such as 'case' is read with these rows; leave keys out, or open"
        ):
            PLAIN.predict_batches(source, keys="case")


def test_numbers_of_classes_stay_numbers_and_other_sources_have_decisions_only():
    rule = confmax.DecisionRule.from_weights([1.0, 1.4, 2.0], classes=[3, 5, 9])
    source = cut(P, at=[10, 200])
    np.testing.assert_array_equal(np.concatenate(list(rule.predict_batches(source))), rule.predict(P))
    with pytest.raises(ValueError, match="only tables of files keep their columns"):
        rule.write_parquet(source, "out.parquet")
    np.save("p.npy", P)
    rule.write_parquet(confmax.open_table("p.npy"), "out.parquet", keep=["5"])
    assert pq.read_schema("out.parquet").field("decision").type == pa.int64()
    assert decided("out.parquet") == rule.predict(P).tolist()
    mixed = replace(ABSTAINS, class_names=(3, 5, 9, "ask"))
    mixed.write_parquet(confmax.open_table("p.npy"), "out.parquet")
    assert set(decided("out.parquet")) == {"3", "5", "9", "ask"}


# --- files -----------------------------------------------------------------------------------------------------------


def test_columns_are_written_as_they_were_read():
    table = written()
    PLAIN.write_parquet(opened(), "out.parquet", output="decided as")
    found = pq.read_table("out.parquet")
    assert found.drop_columns("decided as").equals(table)
    assert found.schema.metadata[b"made"] == b"by a test"
    # older versions of pyarrow read wider indices
    kind = found.schema.field("decided as").type
    assert pa.types.is_dictionary(kind)
    assert kind.value_type == pa.string()
    with pq.ParquetFile("out.parquet") as file:
        group = file.metadata.row_group(0)
        assert {group.column(k).compression for k in range(group.num_columns)} == {"ZSTD"}


@pytest.mark.parametrize("codec", ["none", "gzip", {"case": "gzip", "low": "snappy", "tags.list.element": "zstd"}])
def test_columns_are_compressed_as_they_were(codec):
    written(codec=codec)
    PLAIN.write_parquet(opened(), "out/")

    def codecs(path):
        with pq.ParquetFile(path) as file:
            group = file.metadata.row_group(0)
            return {group.column(k).path_in_schema: group.column(k).compression for k in range(group.num_columns)}

    new = codecs("out/part-00000.parquet")
    assert new.pop("decision") == codecs("scores/0.parquet")["case"]
    assert new == codecs("scores/0.parquet")


def test_frames_of_pandas_keep_their_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(dict(zip(NAMES, P.T, strict=True)), index=pandas.Index(KEYS, name="case"))
    frame.to_parquet("frame.parquet")
    PLAIN.write_parquet(confmax.open_table("frame.parquet"), "out.parquet")
    found = pandas.read_parquet("out.parquet")
    assert found.pop("decision").tolist() == PLAIN.predict(P).tolist()
    pandas.testing.assert_frame_equal(found, frame)


def test_a_folder_gets_a_file_for_each_that_is_read_or_for_so_many_rows():
    written(files=4)
    expected = PLAIN.predict(P).tolist()
    PLAIN.write_parquet(opened(), "out/")
    assert names("out") == [f"part-0000{k}.parquet" for k in range(4)]
    assert [pq.read_metadata(f"out/part-0000{k}.parquet").num_rows for k in range(4)] == [150] * 4
    assert decided("out") == expected
    # a folder that was written before is replaced
    PLAIN.write_parquet(opened(), Path("out"), rows_per_file=401, keep=["case"])
    assert [pq.read_metadata(f"out/{name}").num_rows for name in names("out")] == [401, 199]
    assert decided("out") == expected
    with pytest.raises(ValueError, match="rows_per_file is a whole number of at least 1; got 0"):
        PLAIN.write_parquet(opened(), "out/", rows_per_file=0)


def test_files_of_other_types_fit_into_one_or_go_to_a_folder():
    for k, kind in enumerate((pa.int16(), pa.int64())):
        columns = dict(zip(NAMES, P[:20].T, strict=True))
        pq.write_table(pa.table({**columns, "id": pa.array(range(20)).cast(kind)}), f"{k}.parquet")
    PLAIN.write_parquet(opened(["0.parquet", "1.parquet"]), "out.parquet")
    assert pq.read_schema("out.parquet").field("id").type == pa.int16()
    pq.write_table(pa.table({**columns, "id": ["x"] * 20}), "2.parquet")
    with pytest.raises(ValueError, match="column 'id' holds string in some files and int16 in the first; write to a "):
        PLAIN.write_parquet(opened(["0.parquet", "2.parquet"]), "new.parquet")
    PLAIN.write_parquet(opened(["0.parquet", "2.parquet"]), "out/")
    assert [pq.read_schema(f"out/part-0000{k}.parquet").field("id").type for k in range(2)] == [pa.int16(), pa.string()]
    assert not Path("new.parquet").exists()
    pq.write_table(pa.table({**columns, "id": ["x"] * 20, "new": range(20)}), "2.parquet")
    with pytest.raises(ValueError, match=r"2.parquet has the column 'new' and .*0.parquet has not; write files alike"):
        PLAIN.write_parquet(opened(["0.parquet", "2.parquet"]), "out/")


def test_only_the_columns_that_are_kept_are_those_of_all_files():
    columns = {**dict(zip(NAMES, P[:20].T, strict=True)), "id": range(20)}
    pq.write_table(pa.table(columns), "0.parquet")
    pq.write_table(pa.table({**columns, "new": range(20)}), "1.parquet")
    pq.write_table(pa.table({**columns, "new": range(20)}).drop_columns("id"), "2.parquet")
    for first, second in (("0", "1"), ("1", "0")):
        table = opened([f"{first}.parquet", f"{second}.parquet"])
        PLAIN.write_parquet(table, "out.parquet", keep=["id", "id"], keys="id")
        assert pq.read_table("out.parquet").column_names == ["id", "decision"]
        assert pq.read_table("out.parquet")["id"].to_pylist() == [*range(20), *range(20)]
        assert sum(map(len, DRAWS.predict_batches(table, keys="id"))) == 40
    with pytest.raises(ValueError, match=r"2\.parquet has no column 'id'"):
        PLAIN.write_parquet(opened(["1.parquet", "2.parquet"]), "new.parquet", keep=["id"])


def test_what_cannot_be_written_is_refused_before_any_row_is_read():
    table = written()
    read = []
    source = opened(progress=lambda *_: read.append(1))
    for path, said in (
        ("missing/out.parquet", "the folder missing does not exist"),
        ("missing/out/", "the folder missing does not exist"),
        ("scores/1.parquet", r"holds the table that is read \(.*1.parquet\); choose another name"),
        ("other/", "holds notes.txt, which is no part file, so it is not replaced; name a new folder"),
        ("file/", "file is a file, not a folder"),
    ):
        Path("other").mkdir(exist_ok=True)
        Path("other/notes.txt").touch()
        Path("file").touch()
        with pytest.raises(ValueError, match=said):
            PLAIN.write_parquet(source, path)
    for name in names("scores"):
        Path("scores", name).rename(Path("scores", f"part-0000{name}"))
    with pytest.raises(ValueError, match="scores holds the table that is read"):
        PLAIN.write_parquet(opened(), "scores/")
    with pytest.raises(ValueError, match="already has a column 'group'; rename or remove it, or call the decisions"):
        PLAIN.write_parquet(opened(), "out.parquet", output="group")
    with pytest.raises(ValueError, match="the table has no column 'id'; its columns are case, high"):
        PLAIN.write_parquet(opened(), "out.parquet", keep=["id"])
    for wrong, said in (
        ({"keep": None}, 'keep is "all", or a sequence of names of columns; got None'),
        ({"keep": [["case"]]}, "or a sequence of names"),
        ({"output": ""}, "output is the name of the column of decisions; got ''"),
        ({"names": "no"}, "names is True for names of classes, or False for their indices; got 'no'"),
        ({"rows_per_file": 1.5}, "rows_per_file is a whole number of at least 1; got 1.5"),
    ):
        with pytest.raises(ValueError, match=said):
            PLAIN.write_parquet(opened(), "out.parquet", **wrong)
    with pytest.raises(ValueError, match="the table has no column 'id'"):
        PLAIN.predict_batches(opened(), keys="id")
    with pytest.raises(ValueError, match=r"pass them to predict, or a table from confmax.open_table"):
        PLAIN.predict_batches(P)
    with pytest.raises(ValueError, match=r"is a name .* pass confmax.open_table"):
        PLAIN.write_parquet("scores", "out.parquet")
    with pytest.raises(ValueError, match=r"`?at_most`? with several classes compares all rows in memory"):
        PLAIN.predict_batches(opened(), at_most={"low": 1, "high": 1})
    with pytest.raises(ValueError, match="this rule decides at random"):
        DRAWS.predict_batches(opened(), at_most={"low": 1})
    with pytest.raises(ValueError, match="at_most holds numbers of rows by class; got 0"):
        PLAIN.write_parquet(opened(), "out.parquet", at_most=0)
    with pytest.raises(ValueError, match="this rule decides several labels per row; leave at_most out"):
        LABELS.predict_batches(opened(), at_most={"low": 1})
    with pytest.raises(ValueError, match="an opened table brings the group of each row"):
        GROUPED.predict_batches(opened())
    assert not read and table.num_rows == N


# --- whole or not at all ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["new.parquet", "old.parquet", "new/", "old/"])
def place(request):
    """Return a place beside the scores where nothing is, or what was written before."""
    written(bad=-1, size=20)
    Path("good").mkdir()
    pq.write_table(pa.table(dict(zip(NAMES, P[:5].T, strict=True))), "good/0.parquet")
    if request.param.startswith("old"):
        PLAIN.write_parquet(opened("good"), request.param)
    return request.param


def contents():
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def test_a_bad_row_in_the_last_part_leaves_everything_as_it_was(place, monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.files.PART_CELLS", 60)
    before = contents()
    with pytest.raises(ValueError, match=r"row group 9 of .*2.parquet: row 19, column 0 of proba is not"):
        PLAIN.write_parquet(opened(), place)
    assert contents() == before and not [name for name in names() if "confmax" in name]


def test_an_interruption_leaves_everything_as_it_was(place, monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.files.PART_CELLS", 60)
    before = contents()

    def progress(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PLAIN.write_parquet(opened(progress=progress), place)
    assert contents() == before and not [name for name in names() if "confmax" in name]


def test_a_full_disk_leaves_everything_as_it_was(place, monkeypatch):
    """Whichever step finds it full, in whichever thread."""
    before = contents()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    steps = ["pyarrow.parquet.ParquetWriter.write_table", "pyarrow.parquet.ParquetWriter.close"]
    if place.endswith("/"):
        steps += ["confmax.tables.partitioned.writing.open", "pathlib.Path.mkdir", "pathlib.Path.rename"]
    else:
        steps += ["confmax.places.os.open", "confmax.places.os.replace"]
    table = opened("good")
    for step in steps:
        with monkeypatch.context() as patched:
            patched.setattr(step, full, raising=False)
            with pytest.raises(OSError, match="No space left") as found:
                PLAIN.write_parquet(table, place)
        assert (found.value.errno, found.value.filename) == (errno.ENOSPC, place.rstrip("/")), step
        assert contents() == before and not [name for name in names() if "confmax" in name], step


# the signal comes at one of the moments when a folder takes the place of another
AT_RENAME = """
import os, signal, pathlib
rename, calls = os.rename, []
def renamed(*args):
    calls.append(args)
    if len(calls) == {}:
        signal.raise_signal({})
    rename(*args)
os.rename = renamed
from confmax.__main__ import main
main()
"""


@SIGNALS
@pytest.mark.parametrize("call", [1, 2])
def test_a_signal_leaves_the_old_folder(number, call):
    written()
    PLAIN.save("rule.json")
    run("apply", "rule.json", "scores", "-o", "out")
    before = contents()
    done = run_process("apply", "rule.json", "scores", "-o", "out", code=AT_RENAME.format(call, number), first=OBEY)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", SAID[number])
    assert contents() == before and not [name for name in names() if "confmax" in name]


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, options",
    [
        (PLAIN, ()),
        (PLAIN, ("--at-most", "high=90")),
        (PLAIN, ("--at-most", "high=90", "--key", "case")),
        (DRAWS, ("--key", "case")),
        (GROUPED, ("--group", "group")),
        (replace(GROUPED, groups=(0, 1)), ("--group", "code")),
        (ABSTAINS, ()),
        (LABELS, ()),
        (LABELS, ("--separator", "; ")),
    ],
)
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_the_command_writes_what_it_writes_of_a_whole_file(rule, options, form, monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.files.PART_CELLS", 3 * 70)
    table = written().drop_columns(["tags"]).append_column("code", pa.array((GROUPS == "women").astype(str) == "True"))
    code = pa.array([str(int(name == "women")) for name in GROUPS])
    table = table.drop_columns(["code"]).append_column("code", code)
    for k in range(3):
        pq.write_table(table.slice(200 * k, 200), f"scores/{k}.parquet", row_group_size=70)
    pq.write_table(table, "whole.parquet", row_group_size=70)
    rule.save("rule.json")
    whole = document("apply", "rule.json", "whole.parquet", "-o", f"whole_out.{form}", *options)
    for k, name in enumerate(("scores", "scores/*.parquet", "whole.parquet")):
        found = document("apply", "rule.json", name, "-o", f"{k}.{form}", *options, "--in-parts", "yes")
        same = {"file", "out"}
        assert {key: found[key] for key in found if key not in same} == {
            key: whole[key] for key in whole if key not in same
        }
        if form == "csv":
            assert Path(f"{k}.csv").read_text() == Path("whole_out.csv").read_text()
        else:
            mine, other = (pq.read_table(path) for path in (f"{k}.parquet", "whole_out.parquet"))
            assert mine.to_pylist() == other.to_pylist()


def test_the_command_writes_folders_and_to_standard_output():
    written()
    PLAIN.save("rule.json")
    text, _ = run("apply", "rule.json", "scores", "-o", "out/")
    assert "600 rows" in text and "written" in text
    assert names("out") == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert decided("out") == PLAIN.predict(P).tolist()
    np.save("p.npy", P)
    found = document("apply", "rule.json", "p.npy", "-o", "array.parquet")
    assert found["columns"] == ["[:, 0]", "[:, 1]", "[:, 2]"] and found["rows"] == N
    assert decided("array.parquet") == PLAIN.predict(P).tolist()
    run("apply", "rule.json", "p.npy", "-o", "array.csv")
    assert run_process("apply", "rule.json", "p.npy", "-o", "-").stdout == Path("array.csv").read_text()


def test_the_command_refuses_in_one_sentence():
    written(bad=-1)
    PLAIN.save("rule.json")
    confmax.DecisionRule.from_weights([1.0, 2.0, 3.0], classes=["a", "b", "c"]).save("other.json")
    before = contents()
    for args, said in (
        (("rule.json", "scores", "-o", "out.csv"), "cannot be written as CSV: "),
        (("rule.json", "scores", "-o", "out.npz"), "name a folder, or a file that ends in .parquet or .csv"),
        (("rule.json", "scores", "-o", "out"), "2.parquet: row 59, column 0 of the table of probabilities is not"),
        (("rule.json", "scores", "-o", "scores/0.parquet"), "holds the table that is read"),
        (("rule.json", "scores/0.parquet", "-o", "scores/0.parquet", "--in-parts", "yes"), "is the input file"),
        (("rule.json", "scores", "-o", "out", "--key", "id"), "has no column 'id'"),
        (("rule.json", "scores", "-o", "out", "--at-most", "new=3"), "--at-most names 'new', and the rule decides low"),
        (
            ("rule.json", "scores", "-o", "out", "--at-most", "low=3", "--at-most", "high=3"),
            "one file with --in-parts no",
        ),
        (("rule.json", "scores", "-o", "out", "--group", "group"), "decides all groups alike; leave --group out"),
        (("rule.json", "scores", "-o", "out", "--normalize"), "--normalize is for files that are read whole"),
        (("rule.json", "scores", "-o", "out", "--in-parts", "no"), "can only be read in parts"),
        (("other.json", "scores", "-o", "out"), "has no columns of the rule's classes a, b, c"),
    ):
        assert said in refusal("apply", *args)
    assert contents() == before


def test_a_file_that_cannot_grow_is_an_error_and_nothing_is_left(monkeypatch):
    pytest.importorskip("resource")
    # a process whose lines are counted would write a file of its own
    for name in ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"):
        monkeypatch.delenv(name, raising=False)
    written()
    np.save("p.npy", P)
    PLAIN.save("rule.json")
    before = contents()

    for name, out in (("scores", "out.parquet"), ("scores", "out"), ("p.npy", "out.csv")):
        done = run_process("apply", "rule.json", name, "-o", out, first=FEW_BYTES)
        sentence = f"error: {out} cannot be written ({os.strerror(errno.EFBIG)}); choose another place\n"
        assert (done.returncode, done.stderr) == (2, sentence)
    assert contents() == before and not [name for name in names() if "confmax" in name]


def test_a_large_file_is_read_in_parts_unless_an_option_needs_all_of_it(monkeypatch):
    table = written()
    pq.write_table(table, "whole.parquet")
    PLAIN.save("rule.json")
    monkeypatch.setattr("confmax.cli.in_parts._memory", lambda: 8)
    run("apply", "rule.json", "whole.parquet", "-o", "parts")
    assert decided("parts") == PLAIN.predict(P).tolist()
    run("apply", "rule.json", "whole.parquet", "-o", "out.parquet", "--normalize")
    assert decided("out.parquet") == PLAIN.predict(P).tolist()


@pytest.mark.parametrize("form", ["csv", "feather"])
def test_text_and_arrow_files_in_parts(form):
    """Identifiers with leading zeros are text, as in a file that is read whole."""
    ids = [f"{k:05d}" for k in range(N)]
    table = pa.table({"id": ids, **{name: P[:, k].astype(float) for k, name in enumerate(NAMES)}})
    if form == "csv":
        importlib.import_module("pyarrow.csv").write_csv(table, "rows.csv")
    else:
        importlib.import_module("pyarrow.feather").write_feather(table, "rows.feather")
    PLAIN.save("rule.json")
    for out in ("out.parquet", "out"):
        run("apply", "rule.json", f"rows.{form}", "-o", out, "--in-parts", "yes")
        found = pq.read_table(out)
        assert found["id"].to_pylist() == ids
        assert found["decision"].to_pylist() == PLAIN.predict(P.astype(float)).tolist()


def test_labels_and_groups_of_several_types_are_refused():
    for k, kind in enumerate((["low", "high"] * 10, [0, 2] * 10)):
        Path("mixed").mkdir(exist_ok=True)
        pq.write_table(
            pa.table({**dict(zip(NAMES, P[:20].T, strict=True)), "odd": kind, "label": ["low", "high"] * 10}),
            f"mixed/{k}.parquet",
        )
    PLAIN.save("rule.json")
    for args, what in (
        (("score", "mixed", "--rule", "rule.json", "--label", "odd"), "label"),
        (("tune", "mixed", "--metric", "accuracy", "--label", "odd"), "label"),
        (("compare", "mixed", "--label", "label", "--group", "odd"), "group"),
    ):
        said = f"{what} column 'odd' of mixed holds text in some files and numbers in others; write it as one type"
        assert said in refusal(*args)


@pytest.mark.parametrize("table", ["scores", "scores/*.parquet", "scores/*"])
def test_no_command_writes_over_a_file_of_the_table(table):
    """Nor to where its own output would be read the next time, as rows of the table."""
    written()
    Path("link").symlink_to("scores/1.parquet")
    os.link("scores/2.parquet", "hard.parquet")
    PLAIN.save("rule.json")
    before = contents()
    names_columns = ("--columns", "low,middle,high")
    for out in ("scores/0.parquet", "link", "hard.parquet"):
        for args in (
            ("tune", table, "--metric", "accuracy", "-o", out, "--force", *names_columns),
            ("report", "rule.json", table, "--label", "group", "-o", out),
            ("shift", "rule.json", table, "-o", out, "--force"),
            *([("apply", "rule.json", table, "-o", out)] if out != "link" else ()),
        ):
            assert f"{out} holds the table that is read (scores/" in refusal(*args)
    new = ["scores/new.parquet", *(["scores/new"] if table != "scores/*.parquet" else [])]
    for out in new:
        assert f"{out} would be read as part of {table} the next time" in refusal(
            "apply", "rule.json", table, "-o", out
        )
    assert contents() == before
    Path("other").symlink_to("scores")
    run("apply", "rule.json", "other", "-o", "scores/_new")
    assert "would be read as part of other" in refusal("apply", "rule.json", "other", "-o", "scores/new")


def test_nor_over_a_file_of_text():
    Path("texts").mkdir()
    for k in range(2):
        importlib.import_module("pyarrow.csv").write_csv(
            pa.table(dict(zip(NAMES, P[:9].T, strict=True))), f"texts/{k}.csv"
        )
    PLAIN.save("rule.json")
    before = contents()
    for table in ("texts", "texts/*.csv"):
        assert "holds the table" in refusal("tune", table, "--metric", "accuracy", "-o", "texts/0.csv", "--force")
        assert f"would be read as part of {table}" in refusal("apply", "rule.json", table, "-o", "texts/new.csv")
    # beside Parquet, text would not be read any more
    assert "would be read as part of texts" in refusal("apply", "rule.json", "texts", "-o", "texts/new.parquet")
    assert contents() == before
    run("apply", "rule.json", "texts/*.csv", "-o", "texts/new.parquet")
    assert len(decided("texts/new.parquet")) == 18


def test_arrays_beside_an_array_are_not_written_over():
    np.save("p.npy", P)
    np.save("y.npy", np.array(NAMES)[P.argmax(axis=1)])
    PLAIN.save("rule.json")
    before = contents()
    for args in (
        ("tune", "p.npy", "--label", "y.npy", "--metric", "accuracy", "-o", "y.npy", "--force"),
        ("report", "rule.json", "p.npy", "--label", "y.npy", "-o", "./y.npy"),
    ):
        assert "y.npy is the input file; choose another name" in refusal(*args)
    assert contents() == before


def test_keys_of_rows_are_there_and_whole_numbers_are_integers(tmp_path):
    gains = Gains.reduced([[1.0, 1.0, 1.0], [1.0, 3.0, 2.0]])
    rule = confmax.DecisionRule(gains, np.array([0.5, 0.5]), ("a", "b", "c"))
    P = np.random.default_rng(0).dirichlet(np.ones(3), 30)
    keys = np.arange(30.0)
    columns = {name: P[:, k] for k, name in enumerate(rule.class_names)}
    found = {}
    for name, key in {"floats": keys, "whole": keys.astype(int), "none": [*map(str, range(29)), " "]}.items():
        folder = tmp_path / name
        folder.mkdir()
        table = pa.table({**columns, "key": key})
        # a file without rows gives no part
        pq.write_table(table.slice(0, 0), folder / "a.parquet")
        pq.write_table(table, folder / "b.parquet")
        opened = confmax.open_table(folder, columns=list(map(str, rule.class_names)))
        found[name] = rule.predict_batches(opened, keys="key")
    first, second = (np.concatenate(list(found[name])) for name in ("floats", "whole"))
    np.testing.assert_array_equal(first, second)
    with pytest.raises(ValueError, match="row 29 of key column 'key' is empty"):
        list(found["none"])
