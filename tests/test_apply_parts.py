"""Rules applied part by part: the decisions are those of the whole table, and files keep what was read."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains
from tests.apply_helpers import (
    ABSTAINS,
    DRAWS,
    GROUPED,
    GROUPS,
    KEYS,
    LABELS,
    NAMES,
    PLAIN,
    N,
    P,
    decided,
    names,
    opened,
    written,
)
from tests.parts_helpers import cut

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("inside")

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
    written(proba=Q)
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
