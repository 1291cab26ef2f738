"""Rules applied part by part by the command: what it writes is what it writes of a whole file, or nothing."""

import errno
import importlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import confmax
from tests.apply_helpers import (
    ABSTAINS,
    DRAWS,
    GROUPED,
    GROUPS,
    LABELS,
    NAMES,
    PLAIN,
    N,
    P,
    contents,
    decided,
    names,
    written,
)
from tests.cli_helpers import FEW_BYTES, document, refusal, run, run_process

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("inside")


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
