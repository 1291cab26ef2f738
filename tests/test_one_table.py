"""One table, wherever its rows lie: the same questions have the same answers."""

import numpy as np
import pytest

import confmax
from tests.parts_helpers import cut, labelled

N = 600
AT = (0, 150, 151, 400)
QUESTIONS = [
    ("macro_f1", (), 3),
    ("g_mean", (), 2),
    ("min_recall", (), 4),
    ("quadratic_kappa", (), 4),
    ("accuracy", ("recall[1] >= 0.5",), 2),
    ("macro_f1", ("rate[0] <= 0.4",), 3),
    ("g_mean", ("precision[2] >= 0.3",), 3),
    ("f1[1]", ("recall[1] <= 0.8",), 3),
]


def columns_of(P, y, g=None):
    """Return the columns of a table, and how `maximize` finds label and group among them."""
    labels = {"y": y} if y.ndim == 1 else {str(k): column for k, column in enumerate(y.T)}
    columns = {**{f"p{k}": column for k, column in enumerate(P.T)}, **labels}
    label = {"y": "y" if y.ndim == 1 else list(labels)}
    return (columns, label) if g is None else ({**columns, "g": g}, {**label, "group": "g"})


def written(folder, P, y, g=None):
    """Return the rows as a table of three Parquet files."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns, given = columns_of(P, y, g)
    for k, (low, high) in enumerate(((0, 100), (100, 350), (350, N))):
        pq.write_table(pa.table(columns).slice(low, high - low), folder / f"{k}.parquet")
    return confmax.open_table(folder, label=given.pop("y"), **given)


@pytest.mark.parametrize("confusion", ["model", "blend"])
@pytest.mark.parametrize(("metric", "limits", "K"), QUESTIONS, ids=lambda value: str(value))
def test_rows_that_a_sample_holds_are_answered_as_in_memory(tmp_path, confusion, metric, limits, K):
    P, y, _ = labelled(N, K, sharp=0.7)
    settings = {"constraints": limits, "confusion": confusion, "on_infeasible": "closest"}
    whole = confmax.maximize(metric, P, y, **settings)
    for rows in (cut(P, y, at=AT), written(tmp_path, P, y)):
        found = confmax.maximize(metric, rows, **settings)
        assert found.value == pytest.approx(whole.value, abs=1e-12)
        np.testing.assert_array_equal(found.rule.predict(P), whole.rule.predict(P))


# what is asked, of which rows: classes, or three labels per row
ASKED = {
    "classes": ("macro_f1", {}),
    "abstaining": ("macro_f1", {"abstain": True, "constraints": "coverage >= 0.8"}),
    "groups": ("accuracy", {"constraints": "min(recall[1] | group) >= 0.5"}),
    "one class": ("f1[2]", {}),
    "limited class": ("recall[2]", {"constraints": "precision[2] >= 0.5"}),
    "labels": ("macro_f1", {"decisions": "any"}),
    "limited labels": ("micro_f1", {"decisions": "any", "constraints": "recall[0] >= 0.6"}),
    "two labels": ("macro_f1", {"decisions": 2}),
    "at most two": ("macro_f1", {"decisions": ("at_most", 2)}),
}


def in_parts(_, P, y, g):
    return {"proba": cut(P, y, at=AT, group=g)}


def files(folder, P, y, g):
    return {"proba": written(folder, P, y, g)}


def chunks(_, P, y, g):
    columns, given = columns_of(P, y, g)

    def read():
        for low in range(0, N, 130):
            yield {name: column[low : low + 130] for name, column in columns.items()}

    return {"proba": read, **given}


def dask(_, P, y, g):
    lazy = pytest.importorskip("dask.array").from_array
    rows = {"proba": lazy(P, chunks=(170, -1)), "y": lazy(y, chunks=170 if y.ndim == 1 else (170, -1))}
    return {**rows, **({} if g is None else {"group": lazy(g, chunks=170)})}


def torch(_, P, y, g):
    return {"proba": pytest.importorskip("torch").from_numpy(P), "y": y, **({} if g is None else {"group": g})}


@pytest.mark.parametrize("place", [in_parts, files, chunks, dask, torch], ids=lambda place: place.__name__)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("small", [False, True], ids=["a sample", "more than a sample"])
def test_what_is_asked_of_the_model_has_one_answer_in_every_place(tmp_path, request, asked, place, small):
    """To 1e-12, and decides alike; also where a sample holds some rows only, but for searches that begin on it."""
    metric, settings = ASKED[asked]
    P, y, _ = labelled(N, 3)
    if "decisions" in settings:
        P = 0.95 * P
        y = (np.random.default_rng(1).random(P.shape) < P).astype(int)
    g = np.array(["a", "b"])[(np.arange(N) % 3 == 0).astype(int)] if asked == "groups" else None
    settings = {"confusion": "model", **settings}
    whole = confmax.maximize(metric, P, y, **settings, **({} if g is None else {"group": g}))
    if small:
        request.getfixturevalue("small_samples")
    found = confmax.maximize(metric, **place(tmp_path, P, y, g), **settings)
    assert found.value == pytest.approx(whole.value, abs=1e-12)
    beside = {} if g is None else {"group": g}
    np.testing.assert_array_equal(found.predict(P, **beside), whole.predict(P, **beside))
