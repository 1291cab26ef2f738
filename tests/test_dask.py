"""Dask collections give what arrays in memory give, whatever the workers and however the rows are divided."""

import gc
import time
from contextlib import nullcontext

import numpy as np
import pytest

pytest.importorskip("dask", reason="dask is not installed")
pytest.importorskip("distributed", reason="distributed is not installed")

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from sklearn.linear_model import LogisticRegression

import confmax
from confmax.confusion import Gains
from confmax.kernels.blocks import n_threads
from confmax.oracle import make_oracle, make_table
from confmax.rule import DecisionRule, file
from confmax.tables.partitioned import dask as _dask
from tests.helpers import assert_same_statistics

from .dask_helpers import LENGTHS, Deadly, all_gains, frame_of, labelled, rows, workers

TOL = 1e-6
APART, SOME, ALL = -100, 5200, 1 << 21  # cells that blocks of LENGTHS and four columns have together: 6, 3, 1 parts
SHIFTED = ((600, 100, 1, 1299, 0, 1000),)


@pytest.fixture(autouse=True)
def part_cells(request, monkeypatch):
    """As if some of these blocks were small, and some not, unless a test says something else."""
    cells = getattr(request, "param", SOME)
    monkeypatch.setattr(_dask, "PART_CELLS", cells)
    return cells


def divided(*cells):
    """Run a test with blocks put together up to so many cells."""
    return pytest.mark.parametrize("part_cells", cells, indirect=True, ids="{} cells".format)


@pytest.fixture(scope="module")
def cluster(request):
    """Workers of a cluster in this process; none: the scheduler of threads."""
    if request.param == 0:
        yield None
        return
    with workers(request.param) as client:
        yield client


def on(*numbers):
    """Run a test on so many workers."""
    each = pytest.mark.parametrize("cluster", numbers, indirect=True, ids="{} workers".format)
    return lambda test: each(pytest.mark.usefixtures("cluster")(test))


def everywhere(test):
    return on(0, 3)(test)


def of_unknown_chunks(array):
    return array.map_blocks(np.copy, chunks=((np.nan,) * array.numblocks[0], *array.chunks[1:]))


# --- the same answer -------------------------------------------------------------------------------------------------


@everywhere
@divided(APART, SOME)
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_are_those_of_the_array(weighted):
    P, y, weight = labelled()
    w = weight if weighted else None
    held = make_table(rows(P), rows(y), None if w is None else rows(w))
    table = make_table(P, y, w)
    np.testing.assert_allclose(held.label_weight(), table.label_weight(), rtol=1e-13)
    for confusion, share in (("model", None), ("labels", None), ("blend", 0.3)):
        parts, whole = (make_oracle(each, confusion, model_share=share) for each in (held, table))
        for gains in all_gains(4).values():
            assert_same_statistics(parts.maximize(gains, matrix=True), whole.maximize(gains, matrix=True))
    assert_same_statistics(
        parts.maximize(gains), make_oracle(table, "blend", backend="numpy", model_share=share).maximize(gains)
    )


RULES = {}


@everywhere
def test_the_same_partitions_give_the_same_bytes():
    """On any number of workers, and twice."""
    P, y, weight = labelled()
    for _ in range(2):
        solution = confmax.maximize("h_mean", rows(P), rows(y), sample_weight=rows(weight), randomized=True)
        assert RULES.setdefault("h_mean", solution.rule.to_json()) == solution.rule.to_json()


# --- what is given ---------------------------------------------------------------------------------------------------


@on(0, 3)
def test_frames_labels_and_weights_in_every_form():
    P, y, weight = labelled()
    frame, lazy = frame_of(P, y, weight)
    whole = make_oracle(make_table(P, np.array(list("abcd"))[y], weight), "labels")
    forms = {
        "columns": make_table(lazy, "truth", "w"),
        "series": make_table(lazy[list("abcd")], lazy["truth"], lazy["w"]),
        "memory": make_table(lazy[list("abcd")], frame["truth"], weight),
        "mixed": make_table(lazy[list("abcd")].to_dask_array(), lazy["truth"], rows(weight)),
        "unknown": make_table(of_unknown_chunks(rows(P)), lazy["truth"], weight),
        "columns in chunks": make_table(rows(P).rechunk((1000, 3)), frame["truth"].to_numpy(), rows(weight)),
        "opened": make_table(confmax.open_table(lazy, label="truth", weight="w")),
    }
    gains = all_gains(4)["offsets"]
    for name, table in forms.items():
        assert table.classes == tuple("abcd"), name
        assert_same_statistics(make_oracle(table, "labels").maximize(gains), whole.maximize(gains))


@on(3)
def test_columns_follow_the_classes_by_name():
    P, y, weight = labelled()
    lazy = frame_of(P, y, weight)[1]
    table = make_table(confmax.open_table(lazy, label="truth", columns=list("dbca")), classes=list("abcd"))
    assert table.classes == tuple("abcd")
    np.testing.assert_allclose(table.mean_probability(), P.mean(axis=0), rtol=1e-12)
    assert make_table(confmax.open_table(lazy, label="truth", columns=list("dbca"))).classes == tuple("dbca")


@on(3)
def test_rules_know_what_the_columns_are_called():
    P, y, weight = labelled()
    lazy = frame_of(P, y, weight)[1].rename(columns={name: f"p_{name}" for name in "abcd"})
    columns = [f"p_{name}" for name in "abcd"]
    solution = confmax.maximize("accuracy", lazy[columns], lazy["truth"], confusion="model")
    assert solution.rule.class_names == tuple("abcd") and solution.rule.columns == tuple(columns)


@on(3)
def test_progress_is_told_after_a_pass():
    P, y, weight = labelled()
    heard = []
    lazy = frame_of(P, y, weight)[1]
    oracle = make_oracle(
        make_table(confmax.open_table(lazy, label="truth", weight="w", progress=lambda *a: heard.append(a)))
    )
    _ = oracle.table.known
    before = len(heard)
    oracle.maximize(all_gains(4)["weights"])
    assert heard[before:] == [(3000, 3000)]


@on(0, 3)
@divided(APART)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row": 717, "value": np.nan}, r"^partition 3: row 16, column 2 of proba is not a finite number"),
        ({"row": 700, "value": -0.5}, r"^partition 2: row 0, column 2 of proba is negative"),
        ({"row": 2999, "value": 3.0}, r"^partition 5: row 999 of proba sums to"),
        ({"label": 1500}, r"^partition 3: row 799 of y holds the label 9, which is none of the 4 classes"),
        ({"weight": 2000}, r"^partition 5: row 0 of sample_weight is nan"),
    ],
)
def test_errors_name_the_partition(change, message):
    P, y, weight = labelled()
    if "row" in change:
        P[change["row"], 2] = change["value"]
    y[change.get("label", 0)] = 9 if "label" in change else y[0]
    weight[change.get("weight", 0)] = np.nan if "weight" in change else 1.0
    with pytest.raises(ValueError, match=message):
        confmax.maximize("macro_f1", rows(P), rows(y), sample_weight=rows(weight), classes=range(4))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda P, y: (P[:, 0], y), "a Dask DataFrame of K columns; got an array of shape"),
        (lambda P, y: (P, "truth"), "a Dask array has no column names"),
        (lambda P, y: (P, y[:-1]), "y must hold one label per row of proba: 3000; got shape"),
        (lambda P, y: (P, np.zeros(5)), "y must hold one label per row of proba: 3000; got shape"),
        (lambda P, y: (of_unknown_chunks(P), of_unknown_chunks(y.rechunk(1000))), "y has 3 partitions and proba has 6"),
        (lambda P, y: (of_unknown_chunks(P), of_unknown_chunks(y.rechunk(SHIFTED))), "partition 0: y must have"),
        (lambda P, y: (P[:0], y[:0]), "proba is empty"),
        (lambda P, y: (dask.delayed(1), y), "got Delayed"),
        (
            lambda P, y: (P.rechunk((-1, 2)).map_blocks(np.copy, chunks=((3000,), (np.nan, np.nan))), y),
            "the chunks of proba have unknown sizes",
        ),
    ],
)
def test_what_does_not_fit_is_refused(given, message):
    P, y, _ = labelled()
    with pytest.raises(ValueError, match=message):
        _ = make_table(*given(rows(P), rows(y))).known


def test_frames_without_such_columns_are_refused():
    _, lazy = frame_of(*labelled())
    with pytest.raises(ValueError, match=r"has no column 'label'; its columns are a, b, c, d, truth, w"):
        make_table(lazy, "label")
    with pytest.raises(ValueError, match=r"K >= 2 classes; got the columns \['a'\]"):
        confmax.open_table(lazy, label="truth", columns=["a"])
    with pytest.raises(ValueError, match="opened table brings its labels"):
        make_table(confmax.open_table(lazy, label="truth", weight="w"), lazy["truth"])


# --- decisions -------------------------------------------------------------------------------------------------------


def drawing(K=4):
    rng = np.random.default_rng(5)
    gains = Gains.reduced(rng.random((3, K)), rng.random((3, K)) / 3)
    return DecisionRule(gains, np.array([0.2, 0.3, 0.5]), tuple("abcd"), seed=7)


RULES_OF = {
    "plain": lambda: DecisionRule.from_weights([1.0, 2.0, 0.5, 3.0], classes=list("abcd")),
    "drawn": drawing,
    "calibrated": lambda: DecisionRule(drawing().gains, drawing().weights, tuple("abcd"), calibrator=Deadly(None)),
}


@on(0, 3)
@pytest.mark.parametrize("kind", RULES_OF)
def test_decisions_are_lazy_and_those_of_the_array(kind):
    P, y, weight = labelled()
    P[5] *= 1 + 5e-4  # this row is divided by its sum
    rule, keys = RULES_OF[kind](), np.arange(3000)
    lazy = frame_of(P, y, weight)[1][list("dabc")]
    with dask.config.set(scheduler=_refuse), pytest.MonkeyPatch.context() as patch:
        patch.setattr("distributed.Client.get", _refuse)
        found = {
            "array": rule.predict_index(rows(P)),
            "columns in chunks": rule.predict_index(rows(P).rechunk((1000, 3))),
            "unknown": rule.predict_index(of_unknown_chunks(rows(P))),
            "frame": rule.predict_index(lazy),
        }
        keyed = [
            rule.predict_index(rows(P), keys=da.from_array(keys, chunks=999)),
            rule.predict_index(rows(P), keys=keys),
            rule.predict_index(of_unknown_chunks(rows(P)), keys=rows(keys)),
        ]
        shares = rule.decision_probabilities(rows(P))
    assert found["array"].chunks == (LENGTHS,)
    assert found["array"].dtype == found["frame"].dtype == np.int64
    for name, each in found.items():
        np.testing.assert_array_equal(each.compute(), rule.predict_index(P), err_msg=name)
    for each in keyed:
        np.testing.assert_array_equal(each.compute(), rule.predict_index(P, keys=keys))
    np.testing.assert_array_equal(found["frame"].compute().index, lazy.index.compute())
    np.testing.assert_array_equal(shares.compute(), rule.decision_probabilities(P))


def _refuse(*_, **__):
    raise AssertionError("something was computed")


@on(3)
def test_keys_and_probabilities_of_frames():
    P, y, weight = labelled()
    frame, lazy = frame_of(P, y, weight)
    lazy = lazy.map_partitions(lambda part: part.assign(id=3 * part.index.to_numpy()))
    rule = drawing()
    expected = rule.predict(P, keys=3 * np.arange(3000))
    probabilities = lazy[list("abcd")]
    np.testing.assert_array_equal(rule.predict(lazy[[*"abcd", "id"]], keys="id").compute(), expected)
    np.testing.assert_array_equal(rule.predict(probabilities, keys=lazy["id"]).compute(), expected)
    np.testing.assert_array_equal(rule.predict(probabilities.to_dask_array(), keys=lazy["id"]).compute(), expected)
    known = dd.from_pandas(pd.Series(3 * np.arange(3000)), npartitions=3)
    thirds = dd.from_pandas(frame[list("abcd")], npartitions=3).clear_divisions()
    np.testing.assert_array_equal(rule.predict(thirds, keys=known).compute(), expected)
    shares = rule.decision_probabilities(probabilities).compute()
    assert list(shares.columns) == list("abcd")
    np.testing.assert_array_equal(shares, rule.decision_probabilities(P))
    np.testing.assert_array_equal(shares.index, frame.index)


@on(3)
def test_an_opened_frame_is_decided_at_once():
    P, y, weight = labelled()
    opened = confmax.open_table(frame_of(P, y, weight)[1], label="truth", weight="w")
    rule = drawing()
    np.testing.assert_array_equal(rule.predict(opened), rule.predict(P))


@on(3)
def test_decisions_name_the_partition_of_a_bad_row():
    P, y, weight = labelled()
    P[717, 2] = np.nan
    rule = drawing()
    for proba in (rows(P), frame_of(P, y, weight)[1][list("abcd")]):
        with pytest.raises(ValueError, match=r"^partition 3: row 16, column 2 of proba is not a finite number"):
            rule.predict(proba).compute()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda x, k: (x, k[:-1]), "keys must hold one key per row of proba: 3000"),
        (lambda x, k: (x, np.arange(7)), "keys must hold one key per row of proba: 3000"),
        (lambda x, k: (of_unknown_chunks(x), np.arange(3000)), "pass keys as a Dask array in the same chunks"),
        (lambda x, k: (of_unknown_chunks(x), k.rechunk(1500)), "keys has 2 partitions and proba has 6"),
        (lambda x, k: (x.to_dask_dataframe(), k), "keys beside a Dask DataFrame must be a Dask Series"),
        (lambda x, k: (x[:, 0], k), "got an array of shape"),
    ],
)
def test_keys_that_do_not_fit_are_refused(given, message):
    proba, keys = given(rows(labelled()[0]), rows(np.arange(3000)))
    with pytest.raises(ValueError, match=message):
        drawing().predict(proba, keys=keys)


# --- a fitted estimator ----------------------------------------------------------------------------------------------


class Lazy(LogisticRegression):
    """A model whose probabilities of a Dask array are lazy."""

    def predict_proba(self, X):
        if not isinstance(X, da.Array):
            return super().predict_proba(X)
        K = len(self.classes_)
        model = super().predict_proba
        return X.map_blocks(
            lambda block: model(block) if len(block) else np.empty((0, K)), chunks=(X.chunks[0], (K,)), dtype=float
        )


@on(0, 3)
@pytest.mark.parametrize("names", [None, ["x", "y", "z", "zz"]])
def test_a_fitted_estimator_is_tuned_where_the_rows_lie(names):
    rng = np.random.default_rng(3)
    _, y, weight = labelled()
    y = y if names is None else np.array(names)[y]
    X = rng.normal(size=(3000, 5)) + (np.unique(y, return_inverse=True)[1])[:, None] * 0.7
    model = Lazy().fit(X, y)
    tuner = confmax.MetricClassifierCV(model, metric="macro_f1", cv="prefit", refit=False)
    tuned = tuner.fit(rows(X), rows(y), sample_weight=rows(weight))
    proba = model.predict_proba(X)
    expected = confmax.maximize("macro_f1", proba, y, sample_weight=weight)
    assert tuned.solution_.value == pytest.approx(expected.value, abs=1e-5)
    found = tuned.predict(rows(X))
    assert isinstance(found, da.Array)
    assert found.chunks == (LENGTHS,)
    np.testing.assert_array_equal(found.compute(), tuned.predict(X))
    assert tuned.score(rows(X), rows(y), rows(weight)) == pytest.approx(tuned.score(X, y, weight), rel=1e-12)
    again = tuner.fit(rows(X), y)
    assert again.solution_.label_value == pytest.approx(confmax.maximize("macro_f1", proba, y).label_value, abs=1e-3)


@on(3)
def test_labels_that_the_estimator_does_not_know():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    y = rows((X[:, 0] > 0).astype(int))
    model = Lazy().fit(X, y.compute())
    tuner = confmax.MetricClassifierCV(model, cv="prefit", refit=False)
    with pytest.raises(ValueError, match=r"^partition 0: row \d+ of y holds the label 2"):
        tuner.fit(rows(X), y * 2)


# --- what it costs ---------------------------------------------------------------------------------------------------


def sent_and_returned(n, partitions, gains):
    """Return the bytes that one pass over ``n`` rows sends and gets back, per part."""
    P, y, _ = labelled(n, K=10)
    oracle = make_oracle(make_table(rows(P, (n // partitions,) * partitions), y), "blend", model_share=0.5)
    _ = oracle.table.known
    source, moved = oracle.table.parts.held, []
    run = type(source).run

    def measured(self, work, **options):
        results = list(run(self, work, **options))
        tasks = self._tasks(work)
        moved.append([len(cloudpickle.dumps(work)), *(len(cloudpickle.dumps(each)) for each in results)])
        assert len(tasks) == len(results) == partitions
        yield from results

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(source), "run", measured)
        oracle.maximize(gains, matrix=True)
    assert len(moved) == 1, "all gains share one pass"
    return moved[0]


@on(3)
@divided(APART)
def test_what_a_pass_moves_does_not_depend_on_rows():
    """Per part: the gains there, the statistics back; both are functions of K and the number of gains."""
    gains = all_gains(10)["offsets"]
    few, many = sent_and_returned(1000, 4, gains), sent_and_returned(20_000, 4, gains)
    assert few == many
    assert max(many) < 8 * 5 * 10 * (10 + 4) + 2000


@on(3)
@pytest.mark.parametrize("kind", ["numbers", "names", "objects"])
def test_labels_in_memory_are_sent_in_small_messages(monkeypatch, kind):
    """Pieces of a part are joined by a worker; empty parts stay empty. Dask warns of no large graph."""
    P, y, weight = labelled()
    y = y if kind == "numbers" else np.array(["a", "b", "c", "d"], object if kind == "objects" else str)[y]
    expected = make_oracle(make_table(P, y, weight), "labels").maximize(all_gains(4)["offsets"], matrix=True)
    monkeypatch.setattr(_dask, "MESSAGE_BYTES", 1500)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "5kB"}):
        divided = _dask._divided(y, list(LENGTHS))
    for part, piece in zip(divided, np.split(y, np.cumsum(LENGTHS)[:-1]), strict=True):
        np.testing.assert_array_equal(part.compute(), piece)
    assert_same_statistics(
        make_oracle(make_table(rows(P), y, weight), "labels").maximize(all_gains(4)["offsets"], matrix=True), expected
    )


@on(3)
@divided(APART, SOME)
def test_raw_rows_are_let_go(cluster, part_cells):
    """What is held after the check are the checked parts and nothing else."""
    P, y, weight = labelled(seed=17)
    gc.collect()
    before = {key for keys in cluster.has_what().values() for key in keys}
    oracle = make_oracle(make_table(rows(P), rows(y), weight))
    oracle.maximize(all_gains(4)["weights"])
    expected = len(LENGTHS) if part_cells == APART else 3
    for _ in range(100):  # what was let go goes a moment later
        held = {key for keys in cluster.has_what().values() for key in keys} - before
        if len(held) == expected:
            break
        time.sleep(0.05)
    assert len(held) == expected
    del oracle


@pytest.mark.parametrize(
    ("worker", "threads", "expected"), [(None, 3, 3), ((4, 1), 9, 4), ((4, 2), 9, 2), ((4, 8), 9, 1), ((1, 0), 9, 1)]
)
def test_a_task_takes_its_share_of_the_threads(monkeypatch, worker, threads, expected):
    class Worker:
        class state:
            nthreads, executing_count = worker or (0, 0)

    # outside of a task dask.distributed refuses by itself
    if worker is not None:
        monkeypatch.setattr("distributed.get_worker", lambda: Worker)
    monkeypatch.setattr("confmax.kernels.blocks.most_threads", lambda: 16)
    assert _dask.limited(n_threads, threads) == expected
    assert n_threads() == 16


# --- small blocks ----------------------------------------------------------------------------------------------------


def tasks_of(source):
    """Return how many tasks every `dask.compute` has in a check and a scan, the oracle, and what the scan finds."""
    asked, compute = [], dask.compute
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask, "compute", lambda *tasks: (asked.append(len(tasks)), compute(*tasks))[1])
        oracle = make_oracle(make_table(*source), "labels")
        return asked, oracle, oracle.maximize(all_gains(4)["offsets"], matrix=True)


@divided(ALL)
@pytest.mark.parametrize("engine", [nullcontext, lambda: workers(3)], ids=["threads", "workers"])
def test_many_small_blocks_are_one_task(engine):
    """In the pass over the labels, the check and the scan, however labels and weights are given."""
    P, y, weight = labelled()
    lengths, names = (200,) * 15, np.array(list("abcd"))[y]
    whole = make_oracle(make_table(P, y, weight), "labels").maximize(all_gains(4)["offsets"], matrix=True)
    with engine():
        for source, before in (
            ((rows(P, lengths), rows(y, lengths), rows(weight, lengths)), []),
            ((rows(P, lengths), names, weight), []),
            # the sizes of partitions that a frame does not know are asked one by one
            ((frame_of(P, y, weight, lengths)[1], "truth", "w"), [15]),
        ):
            asked, oracle, found = tasks_of(source)
            assert asked == [*before, 1, 1, 1]
            assert len(oracle.table.parts.held.held) == 1
            assert_same_statistics(found, whole)


@divided(4 * 1000)
def test_large_blocks_stay_parts_of_their_own():
    P, y, weight = labelled()
    asked, _, _ = tasks_of((rows(P, (10, 20, 1500, 470, 500, 500)), y, weight))
    assert asked == [4, 4, 4]


def test_a_worker_that_dies_in_a_pass_changes_nothing(tmp_path):
    """Real processes; the rows that the dead one held are made anew from their graph."""
    P, y, weight = labelled()
    flag = tmp_path / "killed"

    def tuned(calibration):
        found = confmax.maximize(
            "macro_f1", rows(P), rows(y), sample_weight=weight, calibration=calibration, randomized=True
        )
        return found.value, found.label_value, file.dump(found.rule, None)

    expected = tuned(Deadly(None))
    with workers(2, processes=True) as client:
        before = set(client.scheduler_info()["workers"])
        assert tuned(Deadly(str(flag))) == expected
        assert flag.exists()
        assert not before <= set(client.scheduler_info()["workers"])


@on(3)
@divided(APART, SOME, ALL)
@pytest.mark.parametrize("lengths", [(3000,), (1, 2998, 1), (1000, 1000, 1000)])
def test_samples_do_not_know_the_partitions(monkeypatch, lengths):
    monkeypatch.setattr("confmax.tables.partitioned.table.SAMPLE_CELLS", 2000)
    monkeypatch.setattr("confmax.tables.partitioned.table.SAMPLE_ROWS", 500)
    P, y, weight = labelled()
    P[[5, 1500]] *= 1 + 5e-4  # rows that are divided by their sums keep their hashes
    mixed = np.random.default_rng(0).permutation(len(P))
    first = make_table(rows(P), rows(y), rows(weight)).head
    other = make_table(*(rows(each[mixed], lengths) for each in (P, y, weight))).head
    assert 350 < first.n_rows < 650
    for name in ("proba", "labels", "weight"):
        np.testing.assert_array_equal(getattr(first, name), getattr(other, name))
    np.testing.assert_array_equal(first.unordered_hashes(), other.unordered_hashes())
    whole = make_table(P, y, weight).head
    kept = np.isin(whole.row_hashes(), first.row_hashes())
    np.testing.assert_array_equal(np.sort(whole.unordered_hashes()[kept]), np.sort(first.unordered_hashes()))
