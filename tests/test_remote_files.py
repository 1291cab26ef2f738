"""Tables on filesystems of pyarrow and fsspec: the same answers, few requests, and no password in a sentence."""

import json
import re
import socket
import sys
import warnings
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table
from confmax.places import Address, path_of, shown, shown_in
from confmax.tables.partitioned.parts import distinct_labels
from tests.cli_helpers import document, refusal
from tests.parts_helpers import labelled

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
fs = pytest.importorskip("pyarrow.fs")

NAMES = ("bad", "good", "ugly")
SETTINGS = {"confusion": "labels", "calibration": None}
SECRET = "s3cr3t"


@pytest.fixture
def memory():
    """A filesystem of fsspec, and its address."""
    filesystem = pytest.importorskip("fsspec").filesystem("memory")
    yield SimpleNamespace(filesystem=filesystem, arrow=fs.PyFileSystem(fs.FSSpecHandler(filesystem)),
                          root="memory://bucket", query="", folder="/bucket")  # fmt: skip
    filesystem.rm("/", recursive=True)


@pytest.fixture(scope="module")
def server():
    """A server of S3 on this machine."""
    moto = pytest.importorskip("moto.server")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        running.start()
        yield "{}:{}".format(*running.get_host_and_port())
        running.stop()


@pytest.fixture
def s3(server):
    more = {"endpoint_override": server, "scheme": "http", "region": "us-east-1", "allow_bucket_creation": True}
    filesystem = fs.S3FileSystem(access_key="key", secret_key=SECRET, allow_bucket_deletion=True, **more)
    filesystem.create_dir("bucket")
    query = f"?endpoint_override={server}&scheme=http&region=us-east-1"
    yield SimpleNamespace(filesystem=filesystem, arrow=filesystem, root=f"s3://key:{SECRET}@bucket", query=query,
                          folder="bucket")  # fmt: skip
    filesystem.delete_dir("bucket")


@pytest.fixture(params=["memory", "s3"])
def store(request):
    return request.getfixturevalue(request.param)


def write(store, n=300, *, size=40):
    """Write two files and folders of days with the same rows, and arrays; return the rows."""
    P, y, w = labelled(n, 3)
    columns = {**dict(zip(NAMES, P.T, strict=True)), "truth": np.array(NAMES)[y], "w": w, "day": np.arange(n) % 2}
    table = pa.table(columns)
    store.arrow.create_dir(f"{store.folder}/two")
    for k, rows in enumerate(np.array_split(np.arange(n), 2)):
        path = f"{store.folder}/two/part {k}.parquet"
        pq.write_table(table.take(rows), path, row_group_size=size, filesystem=store.arrow)
    pq.write_to_dataset(table, f"{store.folder}/hive", partition_cols=["day"], filesystem=store.arrow)
    for name, array in (("p", P), ("y", y), ("w", w)):
        with store.arrow.open_output_stream(f"{store.folder}/{name}.npy") as out:
            np.save(out, array)
    return P, y, w


def test_names_patterns_and_folders_give_the_answer_of_the_table_in_memory(store):
    P, y, w = write(store)
    whole = confmax.maximize("macro_f1", P, np.array(NAMES)[y], sample_weight=w, classes=NAMES, **SETTINGS)
    columns = {"label": "truth", "weight": "w", "columns": NAMES}
    for name in ("two", "two/", "two/part *.parquet", "t*/part [01].parquet", "**/part*.parquet", "hive", "hive/day=*"):
        for path, how in (
            (f"{store.root}/{name}{store.query}", {}),
            (f"{store.folder}/{name}", {"filesystem": store.filesystem}),
        ):
            opened = confmax.open_table(path, **columns, **how)
            found = make_table(opened, classes=NAMES)
            assert found.n_rows == len(P)
            np.testing.assert_allclose(found.mean_probability(), (w / w.sum()) @ P, rtol=1e-6)
    both = [f"{store.root}/two/part {k}.parquet{store.query}" for k in (0, 1)]
    opened = confmax.open_table(both, **columns)
    assert confmax.maximize("macro_f1", opened, **SETTINGS).value == pytest.approx(whole.value, abs=1e-12)
    np.testing.assert_array_equal(whole.rule.predict(opened), whole.rule.predict(P))
    place = store.root.replace(f"key:{SECRET}@", "")
    assert str(opened.pieces[-1]) == f"row group 3 of {place}/two/part 1.parquet"
    by_day = confmax.open_table(f"{store.root}/hive{store.query}", label="day", columns=NAMES)
    assert distinct_labels(by_day).tolist() == [0, 1]


def test_arrays_are_read_by_rows(store, monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.opening.MAPPED_BYTES", 3000)
    P, y, w = write(store)
    names = [f"{store.root}/{name}.npy{store.query}" for name in "pyw"]
    opened = confmax.open_table(names[0], label=names[1], weight=names[2])
    assert len(opened.pieces) > 2
    found = confmax.maximize("macro_f1", opened, **SETTINGS)
    whole = confmax.maximize("macro_f1", P, y, sample_weight=w, **SETTINGS)
    assert found.value == pytest.approx(whole.value, abs=1e-12)
    for array, why in ((np.asfortranarray(P), "column after column"), (None, "magic string")):
        with store.arrow.open_output_stream(f"{store.folder}/p.npy") as out:
            out.write(b"no array at all") if array is None else np.save(out, array)
        with pytest.raises(ValueError, match=rf"bucket/p\.npy cannot be read as an array: .*{why}"):
            confmax.open_table(names[0])


@pytest.mark.parametrize("which", ["two/part 1.parquet", "y.npy"])
def test_files_that_change_are_refused(store, which):
    write(store)
    paths = {"label": f"{store.root}/y.npy{store.query}"} if which == "y.npy" else {"label": "truth", "columns": NAMES}
    opened = confmax.open_table(f"{store.root}/{'p.npy' if which == 'y.npy' else 'two'}{store.query}", **paths)
    table = make_table(opened)
    path = f"{store.folder}/{which}"
    data = bytearray(store.arrow.open_input_file(path).readall())
    data[-40] ^= 1  # of the same size, within the same second
    with store.arrow.open_output_stream(path) as out:
        out.write(bytes(data))
    sentence = re.escape(f"{which} has changed since it was opened; keep files as they are during a run")
    for run in (lambda: make_oracle(table, "labels").maximize(Gains.reduced(np.ones(3))), lambda: make_table(opened)):
        with pytest.raises(ValueError, match=sentence):
            run()
    store.arrow.delete_file(path)
    with pytest.raises(ValueError, match=sentence):
        make_table(opened)


def test_the_command_line_takes_addresses(store, inside):
    P, y, w = write(store)
    options = ("--label", "truth", "--weight", "w", "--metric", "macro_f1", "--columns", ",".join(NAMES),
               "--calibration", "none", "--confusion", "labels")  # fmt: skip
    whole = confmax.maximize("macro_f1", P, np.array(NAMES)[y], sample_weight=w, classes=NAMES, **SETTINGS)
    told = document("tune", f"{store.root}/two/*.parquet{store.query}", *options, "-o", "rule.json")
    assert told["tuned"] == pytest.approx(whole.value, abs=1e-9)
    assert told["file"] == store.root.replace(f"key:{SECRET}@", "") + "/two/*.parquet"
    by_day = document("tune", f"{store.root}/hive{store.query}", "--label", "day", "--classes", "0,1,2", *options[4:])
    assert by_day["label"] == "day" and by_day["rows"] == len(P)
    assert SECRET not in json.dumps([told, by_day]) + (inside / "rule.json").read_text()
    arrays = document("tune", f"{store.root}/p.npy{store.query}", "--label", f"{store.root}/y.npy{store.query}",
                      "--metric", "macro_f1")  # fmt: skip
    assert SECRET not in json.dumps(arrays)
    assert arrays["label"].endswith("bucket/y.npy")
    for arguments in (
        ("tune", f"{store.root}/none/*.parquet{store.query}", "--metric", "accuracy"),
        ("tune", f"{store.root}/none.parquet{store.query}", "--metric", "accuracy"),
        ("tune", f"{store.root}/two{store.query}", "--metric", "accuracy", "--in-parts", "no"),
        ("tune", f"{store.root}/two{store.query}", "--metric", "accuracy", "--label", "lable"),
        ("tune", "t.csv", "--metric", "accuracy", "-o", f"{store.root}/rule.json{store.query}"),
    ):
        sentence = refusal(*arguments)
        assert SECRET not in sentence
        assert re.search(r"(s3|memory)://bucket", sentence)


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_addresses_are_shown_without_secrets():
    for url, expected in {
        f"s3://key:{SECRET}@bucket/a b/x?region={SECRET}": "s3://bucket/a b/x",
        f"s3://key:{SECRET}/x@bucket/a.parquet": "s3://bucket/a.parquet",
        f"abfs://box:{SECRET}@account.dfs.core.windows.net/x": "abfs://box@account.dfs.core.windows.net/x",
        f"abfs://:{SECRET}@account.blob.core.windows.net/box/x": "abfs://account.blob.core.windows.net/box/x",
        "hdfs://host:8020/a@b": "hdfs://host:8020/a@b",
        f"https://me:{SECRET}@host/x.parquet?sig={SECRET}": "https://host/x.parquet",
        "a/b.parquet": "a/b.parquet",
    }.items():
        assert shown(url) == str(path_of(url)) == expected
    assert isinstance(path_of("s3:/bucket/x"), Address) and str(path_of("s3:/bucket/x")) == "s3://bucket/x"
    text = f"Cannot parse 's3://k:{SECRET}@b/x?a={SECRET}' or https://h/?{SECRET}"
    assert shown_in(text) == "Cannot parse 's3://b/x' or https://h/"


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nowhere://bucket/x.parquet", "nowhere://bucket/x.parquet cannot be read: neither pyarrow nor fsspec knows"),
        (f"s3://key:{SECRET}@bucket/x.parquet?sig={SECRET}", "s3://bucket/x.parquet cannot be read: Unexpected query"),
        ("memory://bucket/none.parquet", "there is no file memory://bucket/none.parquet; check the names of the file"),
        ("memory://bucket/*.parquet", "no file matches memory://bucket/"),
    ],
)
def test_addresses_that_lead_nowhere_are_one_sentence(url, sentence):
    pytest.importorskip("fsspec")
    with pytest.raises(ValueError, match=re.escape(sentence)) as found:
        confmax.open_table(url)
    assert SECRET not in str(found.value)
    with pytest.raises(ValueError, match=r"proba is a name \('.*://bucket/") as found:
        confmax.maximize("accuracy", url)
    assert SECRET not in str(found.value)


def test_packages_that_are_missing_are_named(monkeypatch):
    pytest.importorskip("fsspec")
    if find_spec("aiohttp") is None:
        with pytest.raises(ImportError, match=re.escape("install it with: pip install 'fsspec[http]'")):
            confmax.open_table(f"https://me:{SECRET}@host/x.parquet")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=re.escape("memory:// needs fsspec; install it with: pip install 'fsspec")):
        confmax.open_table("memory://bucket/x.parquet")


def test_filesystems_are_of_pyarrow_or_fsspec():
    with pytest.raises(
        ValueError, match=r"filesystem= takes a pyarrow\.fs.FileSystem or a filesystem of fsspec; got str"
    ):
        confmax.open_table("x.parquet", filesystem="s3")
    with pytest.raises(ValueError, match=r"there is no file x\.parquet"):
        confmax.open_table("x.parquet", filesystem=fs.LocalFileSystem())


def test_a_host_that_does_not_answer_is_refused_soon(monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.locations.HASTE", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(
            ValueError, match=r"^s3://b/x.parquet cannot be read: .*; check the host and the connection$"
        ):
            confmax.open_table(f"s3://k:{SECRET}@b/x.parquet?region=us-east-1&endpoint_override={host}&scheme=http")


def test_errors_of_clients_have_an_address_and_a_way_out(memory, monkeypatch):
    write(memory)
    opened = confmax.open_table("memory://bucket/two", label="truth", columns=NAMES)

    class ClientError(Exception):
        """As that of botocore, which is none of the operating system."""

    def refused(*_arguments, **_more):
        raise ClientError(f"Access Denied for https://me:{SECRET}@host/x?sig={SECRET}")

    kind = type(memory.filesystem)
    monkeypatch.setattr(kind, "_open", refused)
    sentence = r"part 0\.parquet cannot be read: Access Denied for https://host/x; check its credentials$"
    for run in (lambda: make_table(opened), lambda: confmax.open_table("memory://bucket/two")):
        with pytest.raises(ValueError, match=sentence):
            run()
    monkeypatch.setattr(kind, "info", refused)
    with pytest.raises(
        ValueError, match=r"memory://bucket/two cannot be read: Access Denied .*; check its credentials$"
    ):
        confmax.open_table("memory://bucket/two")


def test_a_damaged_file_is_refused_by_name(memory):
    write(memory)
    memory.filesystem.pipe("/bucket/two/part 1.parquet", b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"memory://bucket/two/part 1\.parquet is a damaged Parquet file"):
        confmax.open_table("memory://bucket/two")


def test_a_bucket_that_is_not_there(s3):
    for name in ("none/x.parquet", "none", "none/*.parquet"):
        with pytest.raises(ValueError, match=r"there is no file s3://none|no file matches s3://none") as found:
            confmax.open_table(f"s3://key:{SECRET}@{name}{s3.query}")
        assert SECRET not in str(found.value)


def test_a_pass_opens_each_part_once(memory, monkeypatch):
    write(memory, size=10)
    opened = confmax.open_table("memory://bucket/two", label="truth", columns=NAMES)
    table = make_table(opened)
    reads = []
    real = type(memory.filesystem)._open
    monkeypatch.setattr(type(memory.filesystem), "_open", lambda *a, **m: (reads.append(a[1]), real(*a, **m))[1])
    make_oracle(table).maximize(Gains.reduced(np.ones(3)))
    assert reads == [f"/bucket/two/part {k}.parquet" for k in (0, 1)]


def test_files_of_the_web(s3, server):
    pytest.importorskip("aiohttp")
    P, _, w = write(s3)
    opened = confmax.open_table(
        [f"http://{server}/bucket/two/part%20{k}.parquet?sig={SECRET}" for k in (0, 1)], weight="w", columns=NAMES
    )
    table = make_table(opened, classes=NAMES)
    np.testing.assert_allclose(table.mean_probability(), (w / w.sum()) @ P, rtol=1e-6)
    assert str(opened.pieces[0]) == f"row group 0 of http://{server}/bucket/two/part%200.parquet"
    np.testing.assert_array_equal(
        next(confmax.open_table(f"http://{server}/bucket/p.npy").run(lambda part: part)).proba, P
    )
    for url, why in (
        (f"http://{server}/bucket/none.parquet?sig={SECRET}", r"\(404"),
        (f"http://me:{SECRET}@127.0.0.1:9/x.parquet?sig={SECRET}", r"\(Cannot connect to host 127\.0\.0\.1:9"),
    ):
        with pytest.raises(ValueError, match=rf"there is no file http://127.*\.parquet {why}.*\); check") as found:
            confmax.open_table(url)
        assert SECRET not in str(found.value)
