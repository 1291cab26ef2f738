"""Tables that are odd: what they hold is read as it is, or refused by one sentence, and nothing is left out."""

import numpy as np
import pytest

import confmax
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


def test_what_a_stream_cannot_read_is_told_without_passwords():
    class Remote:
        def __arrow_c_stream__(self, schema=None):
            raise OSError("cannot reach https://me:secret@host/t?sig=secret")

    with pytest.raises(ValueError, match=r"^the Remote cannot be read: cannot reach https://host/t$"):
        confmax.open_table(Remote())
