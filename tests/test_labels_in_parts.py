"""Several labels per row, tuned on rows in files, Dask collections and tensors: the answers are those of arrays.

A table that is no larger than a sample is brought into memory. Here samples are made small, so that all is added up
over parts.
"""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest

import confmax
from confmax.calibration.labels import fit
from confmax.confusion import Gains
from confmax.constraints.labels import bind_labels, of_label
from confmax.optimize import label_cuts
from confmax.optimize.block_cuts import BlockCuts
from confmax.optimize.cuts import Lumps
from confmax.optimize.estimate import Estimate
from confmax.solution.label_task import LabelPlan, task_of
from confmax.tables.decisions import ANY, decisions_of
from confmax.tables.several import labels_table

BASE = np.array([0.3, 0.1, 0.05, 0.01, 0.004])
NAMES = ("a", "b", "c", "d", "e")


def rows(seed, n=4000, dtype=np.float64, digits=None):
    """Return probabilities (n, 5) that are a little too large, labels of which some are rare, and weights."""
    rng = np.random.default_rng(seed)
    P = 1 / (1 + np.exp(-(np.log(BASE / (1 - BASE)) + 1.5 * rng.normal(size=(n, 5)))))
    Y = (rng.random(P.shape) < P**1.2).astype(int)
    Y[:5] |= np.eye(5, dtype=int)  # every label has a row
    P = P if digits is None else P.round(digits)
    return P.astype(dtype), Y, rng.integers(1, 4, n).astype(float)


@pytest.fixture
def small_samples(monkeypatch):
    for name in ("SAMPLE_CELLS", "SAMPLE_CELLS_UNLABELLED"):
        monkeypatch.setattr(f"confmax.tables.partitioned.table.{name}", 5 * 600)
    monkeypatch.setattr("confmax.tables.partitioned.table.SAMPLE_ROWS", 100)
    monkeypatch.setattr("confmax.tables.partitioned.opening.MAPPED_BYTES", 40_000)
    if importlib.util.find_spec("dask") is not None:
        monkeypatch.setattr("confmax.tables.partitioned.dask.PART_CELLS", 5 * 800)


def opened(folder, P, Y=None, weight=None):
    """Return rows as an opened array, in several parts."""
    given = {"label": Y, "weight": weight}
    paths = {name: folder / f"{name}.npy" for name, values in given.items() if values is not None}
    for name, path in paths.items():
        np.save(path, given[name])
    np.save(folder / "proba.npy", P)
    return confmax.open_table(folder / "proba.npy", **paths)


SETTINGS = [
    {}, {"metric": "g_mean"}, {"metric": "mcc"}, {"metric": "micro_f1"}, {"metric": "hamming"},
    {"confusion": "labels"}, {"confusion": "model"}, {"calibration": None}, {"shrinkage": False},
    {"metric": "micro_f1", "confusion": "labels", "calibration": None},
]  # fmt: skip


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, None), (np.float32, 2)])
def test_thresholds_are_those_of_arrays(settings, dtype, digits, tmp_path):
    P, Y, weight = rows(1, dtype=dtype, digits=digits)
    how = {"metric": "macro_f1", "decisions": "any"} | settings
    here = confmax.maximize(proba=P, y=Y, sample_weight=weight, **how)
    there = confmax.maximize(proba=opened(tmp_path, P, Y, weight), **how)
    assert np.array_equal(there.predict(P), here.predict(P))
    for name in ("value", "label_value", "model_value", "model_share", "upper_bound"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), abs=1e-12)
    assert there.baselines == pytest.approx(here.baselines, abs=1e-12)
    assert np.array_equal(there.positives, here.positives)
    # bins, rows of open bins, what a calibrated threshold is of each label, and the rows that are resampled
    assert there.n_passes <= (4 if here.metric.name != "micro_f1" else 12)
    found = confmax.score(how["metric"], P, Y, there, sample_weight=weight, n_replicates=0)
    assert found.estimate("rule").value == pytest.approx(there.label_value, abs=1e-9)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize(
    ("metric", "decisions"),
    [
        *(("macro_f1", decisions) for decisions in (1, 2, ("at_most", 2))),
        *(("macro_recall", 2), ("g_mean", 2), ("g_mean", ("at_most", 2)), ("micro_f1", 1)),
    ],
)
def test_budgets_are_counted_on_all_rows(decisions, metric, tmp_path):
    P, Y, weight = rows(2, n=2000)
    here = confmax.maximize(metric, P, sample_weight=weight, decisions=decisions)
    there = confmax.maximize(metric, opened(tmp_path, P, None, weight), decisions=decisions)
    assert there.value >= here.value - 1e-3
    # each bound holds for the other's rule
    if there.upper_bound is not None:
        assert there.upper_bound >= here.value - 1e-9
    rule = there.rule
    own = confmax.maximize(metric, P, sample_weight=weight, decisions=decisions, calibration=rule.calibrator)
    assert own.upper_bound is None or own.upper_bound >= there.value - 1e-9
    labelled = confmax.maximize(metric, opened(tmp_path, P, Y, weight), decisions=decisions)
    assert labelled.upper_bound is None
    found = confmax.score(metric, P, Y, labelled, sample_weight=weight, n_replicates=0)
    assert found.estimate("rule").value == pytest.approx(labelled.label_value, abs=1e-9)
    best = confmax.maximize(metric, P, Y, sample_weight=weight, decisions=decisions)
    assert labelled.value >= best.value - 5e-3


@pytest.mark.parametrize("seed", range(3))
def test_a_small_table_is_brought_into_memory(seed, tmp_path):
    P, Y, weight = rows(seed, n=300)
    for decisions in ("any", 2):
        here = confmax.maximize("macro_f1", P, Y, sample_weight=weight, decisions=decisions)
        there = confmax.maximize("macro_f1", opened(tmp_path, P, Y, weight), decisions=decisions)
        assert np.array_equal(there.predict(P), here.predict(P))
        assert there.rule.tuned_on == here.rule.tuned_on is not None
    within = {"decisions": "any", "constraints": "labels_per_row <= 0.4"}
    limited = confmax.maximize("hamming", opened(tmp_path, P, Y, weight), **within)
    assert limited.value == pytest.approx(confmax.maximize("hamming", P, Y, sample_weight=weight, **within).value)


def columns(P, Y, weight):
    of_labels = {f"y_{name}": Y[:, k] for k, name in reversed(list(enumerate(NAMES)))}
    names = [[NAMES[k] for k in np.flatnonzero(row)] for row in Y]
    return {name: P[:, k] for k, name in enumerate(NAMES)} | of_labels | {"tags": names, "weight": weight}


def each_form(P, Y, weight, folder):
    """Yield the arguments of `maximize` by which the same rows are given, and whether they name the labels."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    from tests.dask_helpers import rows as blocks

    path = folder / "rows.parquet"
    pq.write_table(pa.table(columns(P, Y, weight)), path, row_group_size=700)
    named = [f"y_{name}" for name in NAMES]
    how = {"columns": list(NAMES), "weight": "weight"}
    yield {"proba": confmax.open_table(path, label=named, **how), "classes": NAMES}
    yield {"proba": confmax.open_table(path, label=named[::-1], **how), "classes": NAMES}
    yield {"proba": confmax.open_table(path, label="tags", **how)}
    lengths = (700, 0, 1, len(P) - 701)
    beside = {"sample_weight": blocks(weight, lengths)}
    array = blocks(P, lengths).rechunk({1: 2})
    yield {"proba": array, "y": blocks(Y, lengths).rechunk({1: 3}), **beside}
    yield {"proba": array, "y": Y, "sample_weight": weight}
    yield {"proba": array, "y": [[NAMES[k] for k in np.flatnonzero(row)] for row in Y], "classes": NAMES, **beside}
    frame = pd.DataFrame(columns(P, Y, weight)).drop(columns="tags")
    lazy = dd.from_pandas(frame, npartitions=3)
    yield {"proba": lazy, "y": named[::-1], "sample_weight": "weight", "classes": NAMES}
    by_name = confmax.open_table(lazy, label=named, weight="weight", columns=list(NAMES))
    yield {"proba": by_name, "classes": NAMES}
    yield {"proba": confmax.open_table(array, label=blocks(Y, lengths), weight=beside["sample_weight"])}
    yield {"proba": lazy[list(NAMES)], "y": lazy[named], "sample_weight": lazy["weight"], "classes": NAMES}


@pytest.mark.parametrize("brought", [True, False])
def test_every_form_of_labels_is_the_same(brought, tmp_path, request):
    dask = pytest.importorskip("dask")
    if not brought:
        request.getfixturevalue("small_samples")
    P, Y, weight = rows(3, n=800 if brought else 3000)
    here = confmax.maximize("macro_f1", P, Y, sample_weight=weight, decisions="any")
    with dask.config.set(scheduler="synchronous"):
        for given in each_form(P, Y, weight, tmp_path):
            there = confmax.maximize("macro_f1", decisions="any", **given)
            assert np.array_equal(there.predict(P), here.predict(P))
            assert there.value == pytest.approx(here.value, abs=1e-9)
            assert there.rule.class_names in (NAMES, (0, 1, 2, 3, 4))
            assert "classes" not in given or there.rule.class_names == NAMES


def test_tensors_are_tuned_like_arrays():
    torch = pytest.importorskip("torch")
    P, Y, weight = rows(4, n=500)
    for decisions in ("any", 2, ("at_most", 2)):
        here = confmax.maximize("macro_f1", P, Y, sample_weight=weight, decisions=decisions)
        tensors = [torch.from_numpy(part) for part in (P, Y, weight)]
        there = confmax.maximize("macro_f1", *tensors[:2], sample_weight=tensors[2], decisions=decisions)
        assert there.rule == here.rule
        assert there.value == here.value
    half = confmax.maximize("macro_f1", tensors[0].half(), decisions="any")
    assert half.rule == confmax.maximize("macro_f1", tensors[0].half().float().numpy(), decisions="any").rule


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("metric", ["macro_f1", "micro_f1"])
def test_wider_bins_change_nothing(metric, tmp_path, monkeypatch):
    P, Y, weight = rows(11)
    here = confmax.maximize(metric, P, Y, sample_weight=weight, decisions="any", shrinkage=False)
    monkeypatch.setattr(label_cuts, "CELLS", 200)
    there = confmax.maximize(metric, opened(tmp_path, P, Y, weight), decisions="any", shrinkage=False)
    assert np.array_equal(there.predict(P), here.predict(P))
    assert there.value == pytest.approx(here.value, abs=1e-12)
    assert there.upper_bound == pytest.approx(here.upper_bound, abs=1e-12)


def test_what_comes_back_of_a_part_is_bounded():
    """Bins of very many labels are wider, and few enough in all."""
    for L in (1, 500, 600, 5000):
        table = SimpleNamespace(held=False, n_classes=L)
        bins = label_cuts.LabelBins(table, None)
        assert (bins.step == 1) == (L <= 511) and L * (len(bins.edges) - 1) <= label_cuts.CELLS + L
        assert len(list(bins.batches())) == 1


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("metric", ["macro_f1", "micro_f1"])
def test_few_values_are_told_apart_and_the_rest_is_bounded(metric, tmp_path, monkeypatch):
    """Where too many rows lie in open bins, near values are one: cuts stay exact, and the bound covers the others."""
    P, Y, weight = rows(5)
    exact = confmax.maximize(metric, P, Y, sample_weight=weight, decisions="any", shrinkage=False)
    monkeypatch.setattr(label_cuts, "MOST", 0)
    monkeypatch.setattr(label_cuts, "DIGITS", 16)
    rough = confmax.maximize(metric, opened(tmp_path, P, Y, weight), decisions="any", shrinkage=False)
    assert exact.value - 1e-2 < rough.value < exact.value
    assert exact.upper_bound <= rough.upper_bound <= rough.value + 1e-2
    found = confmax.score(metric, P, Y, rough, sample_weight=weight, n_replicates=0)
    assert found.estimate("rule").value == pytest.approx(rough.label_value, abs=1e-12)


def test_keys_that_differ_in_few_digits_are_counted_together():
    key = np.array([0.5000001, 0.5, 0.25, 0.5000002, 0.1])
    label = np.array([0, 0, 0, 1, 1])
    entries = label_cuts.Sorted(label, key, key, np.ones(5), np.array([1.0, 0.0, 1.0, 1.0, 0.0]), key, np.ones(5))
    found = entries.counted_together(8)
    assert found.label.tolist() == [0, 0, 1, 1] and found.key.tolist() == [0.5, 0.25, 0.5000002, 0.1]
    assert found.top.tolist() == [0.5000001, 0.25, 0.5000002, 0.1]
    assert found.weight.tolist() == [2.0, 1.0, 1.0, 1.0] and found.hits.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert found.rows.tolist() == [2.0, 1.0, 1.0, 1.0] and found.model == pytest.approx(
        [1.0000001, 0.25, 0.5000002, 0.1]
    )
    # parts bring what they have counted together, in any order
    split = [label_cuts.Sorted(*(each[part] for each in entries)).counted_together(8) for part in ([1, 3], [0, 2, 4])]
    for one, other in zip(label_cuts.Sorted.joined(split).counted_together(8), found, strict=True):
        assert one.tolist() == pytest.approx(other.tolist(), abs=1e-15)


@pytest.mark.usefixtures("small_samples")
def test_calibrations_are_fitted_on_all_parts(tmp_path):
    P, Y, weight = rows(6)
    table = labels_table(ANY, opened(tmp_path, P, Y, weight))
    assert not table.held
    here, there = fit(labels_table(ANY, P, Y, weight)), fit(table)
    np.testing.assert_allclose([there.a, there.c], [here.a, here.c], rtol=1e-9)


@pytest.mark.usefixtures("small_samples")
def test_targets_in_parts_count_as_one_in_memory(tmp_path):
    P, Y, weight = rows(7)
    plan = LabelPlan.checked("macro_f1", ANY)
    here, there = (task_of(plan, labels_table(ANY, *given)).estimate for given in
                   ((P, Y, weight), (opened(tmp_path, P, Y, weight),)))  # fmt: skip
    assert isinstance(here, Estimate) and not there.table.held
    gains = Gains.reduced(np.ones((3, 5)), -np.random.default_rng(0).random((3, 5)))
    for one, other in ((here, there), (here.with_share(0.0), there.with_share(0.0))):
        for name in ("rows", "diagonal", "columns"):
            np.testing.assert_allclose(
                getattr(other.counted(gains), name), getattr(one.counted(gains), name), atol=1e-12
            )
    for mine, theirs in zip(here.near({1: 50, 4: 9000}), there.near({1: 50, 4: 9000}), strict=True):
        assert mine[0] == theirs[0]
        for k in (2, 3, 4):
            np.testing.assert_allclose(np.sort(theirs[k]), np.sort(mine[k]), rtol=1e-12)


@pytest.mark.usefixtures("small_samples")
def test_what_is_not_possible_says_so(tmp_path):
    P, Y, weight = rows(8)
    table = opened(tmp_path, P, Y, weight)
    with pytest.raises(ValueError, match=r"opened table brings its labels and weights; pass label= and weight="):
        confmax.maximize("macro_f1", table, Y, decisions="any")
    with pytest.raises(ValueError, match=r"decisions asks for 6 labels of every row, and there are 5"):
        confmax.maximize("macro_f1", table, decisions=6)
    wrong = Y.copy()
    wrong[3500, 2] = 2
    with pytest.raises(
        ValueError, match=r"rows 3000 to 3999 of .*: row 500, column 2 of y is 2, and labels are 0 or 1"
    ):
        confmax.maximize("macro_f1", opened(tmp_path, P, wrong), decisions="any")
    P[3500] = 1.5
    with pytest.raises(ValueError, match=r"rows 3000 to 3999 of .*: row 500, column 0 of proba is 1.5"):
        confmax.maximize("macro_f1", opened(tmp_path, P), decisions="any")
    P[3500] = 0.5
    with pytest.raises(ValueError, match=r"y must be a matrix \(n, L\) of 0 and 1, .* 5 labels; got shape \(1000, 3\)"):
        confmax.maximize("macro_f1", opened(tmp_path, P, Y[:, :3]), decisions="any")


@pytest.mark.usefixtures("small_samples")
def test_a_label_that_no_row_has_follows_the_model(tmp_path):
    P, Y, weight = rows(12)
    Y[:, 2] = 0
    P[:, 3] = 0.01
    found = []
    for given in ((P, Y, weight), (opened(tmp_path, P, Y, weight),)):
        with pytest.warns(UserWarning, match="no row of y has the label 2: the metric leaves such labels out"):
            found.append(confmax.maximize("macro_f1", given[0], *given[1:2], decisions="any", **beside(given)))
    assert np.array_equal(found[1].predict(P), found[0].predict(P))
    assert found[1].value == pytest.approx(found[0].value, abs=1e-9)


def beside(given):
    return {"sample_weight": given[2]} if len(given) > 2 else {}


@pytest.mark.usefixtures("small_samples")
def test_metrics_of_vectors_are_searched_on_all_parts(tmp_path):
    def lowest(true, hits, decided):
        return np.sort(2 * hits / np.maximum(true + decided, 1e-9))[:2].mean()

    P, Y, weight = rows(9, n=2000)
    here = confmax.maximize(lowest, P, Y, sample_weight=weight, decisions="any")
    there = confmax.maximize(lowest, opened(tmp_path, P, Y, weight), decisions="any")
    assert there.value >= here.value - 1e-2
    found = confmax.score(lowest, P, Y, there, sample_weight=weight, n_replicates=0)
    assert found.estimate("rule").value == pytest.approx(there.label_value, abs=1e-9)


@pytest.mark.usefixtures("small_samples")
def test_sums_above_one_by_rounding_are_one(tmp_path):
    P, Y, _ = rows(10)
    P[0, 0] = 1.0 + 1e-9
    there = confmax.maximize("macro_f1", opened(tmp_path, P, Y), decisions=decisions_of("any"))
    assert there.value == pytest.approx(confmax.maximize("macro_f1", P, Y, decisions="any").value, abs=1e-9)


@pytest.mark.usefixtures("small_samples")
def test_parts_whose_rows_have_one_name_each(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    P, Y, _ = rows(3, n=2000)
    Y[1000:] = np.eye(5, dtype=int)[np.arange(1000) % 5]
    tags = [[name for name, one in zip(NAMES, row, strict=True) if one] for row in Y]
    for part in (slice(0, 1000), slice(1000, 2000)):
        columns = {f"p_{name}": P[part, k] for k, name in enumerate(NAMES)}
        columns |= {name: Y[part, k] for k, name in enumerate(NAMES)} | {"tags": tags[part]}
        pq.write_table(pa.table(columns), tmp_path / f"{part.start:04}.parquet")
    found = []
    for label in ("tags", list(NAMES)):
        table = confmax.open_table(tmp_path / "*.parquet", label=label, columns=[f"p_{name}" for name in NAMES])
        found.append(confmax.maximize("macro_f1", table, classes=NAMES, decisions="any"))
    assert found[0].rule == found[1].rule and found[0].value == found[1].value


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("name", ["macro_recall", "micro_f1"])
def test_limits_of_a_number_of_labels_are_searched_in_parts(tmp_path, name):
    P, Y, weight = rows(3)
    limits = {"decisions": 2, "constraints": ["recall[3] >= 0.5", "rate[0] <= 0.5"], "confusion": "model"}
    table = opened(tmp_path, P, Y, weight)
    found = confmax.maximize(name, table, calibration=None, **limits)
    here = confmax.maximize(name, P, Y, sample_weight=weight, calibration=None, **limits)
    assert found.feasible
    assert found.value == pytest.approx(here.value, abs=2e-3)
    # no rule in either form exceeds the bound of the other
    assert max(found.value, here.value) <= min(found.upper_bound, here.upper_bound) + 1e-6
    decided = confmax.LabelRule.from_json(found.rule.to_json()).decision_probabilities(P)
    assert np.average((P * decided)[:, 3], weights=weight) / np.average(P[:, 3], weights=weight) >= 0.5 - 1e-6


# --- limits -----------------------------------------------------------------------------------------------------------

PER_ROW = "labels_per_row <= 0.3"
WITHIN = [
    ("macro_f1", "recall[1] >= 0.8", {"confusion": "model"}),
    ("macro_f1", ["precision[0] >= 0.7", "rate[1] <= 0.1"], {}),
    ("macro_f1", PER_ROW, {"confusion": "model"}),
    ("macro_f1", PER_ROW, {"shrinkage": 10.0}),
    ("g_mean", ["f1[1] >= 0.3", PER_ROW], {"confusion": "labels"}),
    ("hamming", ["rate[0] + 2 rate[1] <= 0.3", "rate[0] - rate[1] >= 0.05"], {}),
    ("mcc", ["labels_per_row <= 0.4", "labels_per_row >= 0.35"], {"confusion": "labels"}),
    ("micro_f1", ["recall[0] >= 0.75", PER_ROW], {"confusion": "blend"}),
    ("micro_f1", PER_ROW, {}),
    ("macro_recall", ["recall[0] <= 0.4", "specificity[1] >= 0.9", "labels_per_row <= 0.9"], {"confusion": "labels"}),
    ("macro_f1", ["precision[2] >= 0.9", "recall[2] >= 0.9"], {}),
    ("hamming", ["labels_per_row <= 0.05", "recall[0] >= 0.9"], {"confusion": "model"}),
]


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("at_once", [40_000, 100_000])
@pytest.mark.parametrize(("metric", "limits", "more"), WITHIN, ids=str)
def test_within_limits_thresholds_are_those_of_arrays(metric, limits, more, at_once, tmp_path, monkeypatch):
    P, Y, weight = rows(20, n=3500)
    monkeypatch.setattr("confmax.tables.partitioned.opening.MAPPED_BYTES", at_once)
    how = {"constraints": limits, "decisions": "any", "calibration": None, "on_infeasible": "closest"} | more
    here = confmax.maximize(metric, P, Y, sample_weight=weight, **how)
    there = confmax.maximize(metric, opened(tmp_path, P, Y, weight), **how)
    assert np.array_equal(there.predict(P), here.predict(P))
    np.testing.assert_allclose(there.rule.thresholds, here.rule.thresholds, rtol=1e-12)
    for name in ("value", "label_value", "model_value", "upper_bound"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), abs=1e-12)
    assert there.infeasibility == here.infeasibility and there.feasible == here.feasible
    for one, other in zip(there.constraints, here.constraints, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-12) and one.price == pytest.approx(other.price, abs=1e-9)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize(
    ("seed", "metric", "limit"),
    [
        (20, "macro_f1", "rate[0] - rate[1] >= 0.2"),
        (23, "hamming", "labels_per_row >= 0.6"),
        (25, "macro_f1", "labels_per_row <= 0.25"),
        (26, "hamming", "rate[0] - rate[1] >= 0.2"),
    ],
)
def test_cuts_that_others_leave_room_for_are_those_of_arrays(seed, metric, limit, tmp_path):
    """Rows of no weight lie between others, and on labels many cuts leave little room."""
    P, Y, weight = rows(seed, n=2500)
    weight[np.argsort(-P[:, 1])[:40:2]] = 0.0
    how = {"constraints": limit, "decisions": "any", "calibration": None, "confusion": "labels"}
    here = confmax.maximize(metric, P, Y, sample_weight=weight, **how)
    there = confmax.maximize(metric, opened(tmp_path, P, Y, weight), **how)
    counts = weight > 0.0
    assert np.array_equal(there.predict(P)[counts], here.predict(P)[counts])
    assert there.value == pytest.approx(here.value, abs=1e-12)
    assert there.upper_bound == pytest.approx(here.upper_bound, abs=1e-12)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("seed", [22, 25])
def test_rows_that_show_a_precision_are_those_with_weight(seed, tmp_path):
    """Bins count rows of no weight, too; among the surest ones, every row is counted apart until they are enough."""
    P, Y, weight = rows(seed, n=2500)
    weight[np.argsort(-P[:, 0])[:60][np.arange(60) % 4 > 0]] = 0.0
    how = {"constraints": "precision[0] >= 0.94", "decisions": "any", "calibration": None, "confusion": "blend"}
    how["on_infeasible"] = "closest"
    here = confmax.maximize("macro_f1", P, Y, sample_weight=weight, **how)
    there = confmax.maximize("macro_f1", opened(tmp_path, P, Y, weight), **how)
    assert there.value == pytest.approx(here.value, abs=1e-12)
    assert there.infeasibility == here.infeasibility and there.shown_by == here.shown_by > 1


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("seed", [33, 35])
def test_corners_that_are_worth_nearly_the_same_are_chosen_alike(seed, tmp_path):
    """With prices that are right to 1e-7 only, the bound or the decisions depend on which corners the program has."""
    P, Y, weight = rows(seed, n=2500)
    limits = ["rate[0] + 2 rate[1] <= 0.3", "rate[0] - rate[1] >= 0.05"]
    how = {"constraints": limits, "decisions": "any", "calibration": None, "confusion": "model"}
    here = confmax.maximize("hamming", P, Y, sample_weight=weight, **how)
    there = confmax.maximize("hamming", opened(tmp_path, P, Y, weight), **how)
    assert np.array_equal(there.predict(P), here.predict(P))
    assert there.value == pytest.approx(here.value, abs=1e-12)
    assert there.upper_bound == pytest.approx(here.upper_bound, abs=1e-12)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, None), (np.float32, 2)])
def test_the_best_threshold_within_limits_is_that_of_all_cuts(dtype, digits, tmp_path):
    P, Y, weight = rows(21, dtype=dtype, digits=digits)
    w = weight / weight.sum()
    # every threshold of label 1, counted one by one
    cuts = [-1.0, *np.unique(P[:, 1])]
    D = P[:, 1] > np.array(cuts, P.dtype)[:, None]
    true, hits, decided = w @ Y[:, 1], D @ (w * Y[:, 1]), D @ w
    kept = (hits >= 0.5 * true - 1e-12) & (decided <= 0.2)
    expected = (2 * hits / (true + decided))[kept].max()
    table = opened(tmp_path, P, Y, weight)
    limits = ["recall[1] >= 0.5", "rate[1] <= 0.2"]
    how = {"decisions": "any", "calibration": None, "confusion": "labels"}
    found = confmax.maximize("macro_f1", table, constraints=limits, **how)
    assert found.labels[1].f1 == pytest.approx(expected, abs=1e-12)
    chosen = found.predict(P)[:, 1]
    assert w @ (chosen * Y[:, 1]) / true >= 0.5 - 1e-12 and w @ chosen <= 0.2
    # labels that no limit reads keep their thresholds
    free = confmax.maximize("macro_f1", table, **how)
    assert np.delete(found.rule.thresholds, 1).tolist() == np.delete(free.rule.thresholds, 1).tolist()


@pytest.mark.usefixtures("small_samples")
def test_few_rows_are_told_apart_for_limits(tmp_path, monkeypatch):
    P, Y, weight = rows(22, n=8000)
    read = []
    told_apart = label_cuts.LabelBins.told_apart

    def counting(bins, wanted, share, known=0.0):
        found = told_apart(bins, wanted, share, known)
        read.append(sum(len(one.key) for one in found))
        return found

    monkeypatch.setattr(label_cuts.LabelBins, "told_apart", counting)
    limits = {"constraints": ["recall[0] >= 0.7", "labels_per_row <= 0.5"], "confusion": "model", "calibration": None}
    found = confmax.maximize("macro_f1", opened(tmp_path, P, Y, weight), decisions="any", **limits)
    assert found.feasible and len(read) <= 8
    assert sum(read) < 0.15 * P.size


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("limits", ["recall[1] >= 0.8", ["recall[0] >= 0.5", PER_ROW]])
def test_within_limits_rows_that_are_not_told_apart_are_bounded(limits, tmp_path, monkeypatch):
    P, Y, weight = rows(23)
    how = {"constraints": limits, "decisions": "any", "confusion": "model", "calibration": None}
    exact = confmax.maximize("macro_f1", P, Y, sample_weight=weight, **how)
    monkeypatch.setattr(label_cuts, "MOST", 0)
    monkeypatch.setattr(label_cuts, "DIGITS", 16)
    rough = confmax.maximize("macro_f1", opened(tmp_path, P, Y, weight), **how)
    assert rough.feasible
    assert rough.value <= exact.value + 1e-12 <= rough.upper_bound + 2e-12
    assert exact.value - 1e-2 < rough.value and rough.upper_bound < exact.value + 2e-2


@pytest.mark.usefixtures("small_samples")
def test_within_limits_wider_bins_change_nothing(tmp_path, monkeypatch):
    P, Y, weight = rows(24)
    how = {"constraints": ["recall[1] >= 0.8", "labels_per_row <= 0.45"], "decisions": "any", "calibration": None}
    # the common threshold of protection is one between bins
    how["shrinkage"] = False
    here = confmax.maximize("macro_f1", P, Y, sample_weight=weight, **how)
    monkeypatch.setattr(label_cuts, "CELLS", 200)
    there = confmax.maximize("macro_f1", opened(tmp_path, P, Y, weight), **how)
    assert np.array_equal(there.predict(P), here.predict(P))
    assert there.value == pytest.approx(here.value, abs=1e-12)
    assert there.upper_bound == pytest.approx(here.upper_bound, abs=1e-12)


def test_cuts_in_lumps_lie_between_corners():
    """Limits and scores of a cut between rows that are counted together are no larger than at the best corner."""
    rng = np.random.default_rng(0)
    P, Y, weight = rows(25, n=400)
    cuts = BlockCuts(Estimate.alike(labels_table(ANY, P, Y, weight), 0.0)).of((1,))
    T = len(cuts)
    for _ in range(20):
        start = int(rng.integers(T - 40))
        stop = start + int(rng.integers(2, 40))
        ends = cuts.confusions[np.array([start, stop])]
        lump = Lumps.of(np.array([0]), np.array([7]), ends)
        for texts in (["recall[1] >= 0.5", "recall[1] <= 0.5"], ["precision[1] >= 0.3", "f1[1] <= 0.3"]):
            limits = of_label(bind_labels(texts, range(5), Y.mean(axis=0)), 1)
            inside = limits.slacks(cuts.confusions)[start : stop + 1]
            assert (inside.max(axis=0) <= limits.slacks(lump.corners).max(axis=0) + 1e-12).all()
        f1 = 2 * cuts.hits / (cuts.confusions.rows[1] + cuts.decided)
        assert f1[start : stop + 1].max() <= 2 * lump.hits / (cuts.confusions.rows[1] + lump.decided) + 1e-12
        assert lump.ends.ravel().tolist() == cuts.decided[[start, stop]].tolist()


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize(
    ("metric", "limit", "more"),
    [
        ("macro_f1", "recall[1] >=", {}),
        ("macro_f1", "labels_per_row <=", {"shrinkage": False}),
        ("micro_f1", "rate[0] + rate[1] <=", {"confusion": "labels"}),
        ("hamming", "precision[0] >=", {"constraints": "recall[0] >= 0.5"}),
    ],
)
def test_frontiers_are_those_of_arrays(metric, limit, more, tmp_path):
    P, Y, weight = rows(26)
    how = {"levels": 4, "decisions": "any", "calibration": None} | more
    here = confmax.frontier(metric, limit, P, Y, sample_weight=weight, **how)
    there = confmax.frontier(metric, limit, opened(tmp_path, P, Y, weight), **how)
    for name in ("levels", "values", "reached", "upper_bounds"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), atol=1e-12)
    for one, other in zip(there.rules, here.rules, strict=True):
        assert np.array_equal(one.predict(P), other.predict(P))
    # what they are worth on the labels is counted on all rows, which are drawn alike
    for name in ("values", "reached", "intervals"):
        np.testing.assert_allclose(getattr(there.on_labels, name), getattr(here.on_labels, name), atol=1e-12)
    assert there.marks.keys() == here.marks.keys()
    assert there.marks["p > 0.5"] == pytest.approx(here.marks["p > 0.5"], abs=1e-12)
    assert "on the labels" in str(there)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("decisions", [2, ("at_most", 2)])
def test_frontiers_of_a_number_of_labels_are_searched_in_parts(decisions, tmp_path):
    P, Y, weight = rows(27, n=2000)
    how = {"levels": [0.9, 0.5], "decisions": decisions, "confusion": "model", "calibration": None}
    here = confmax.frontier("macro_recall", "rate[0] <=", P, Y, sample_weight=weight, **how)
    there = confmax.frontier("macro_recall", "rate[0] <=", opened(tmp_path, P, Y, weight), **how)
    assert there.levels.tolist() == here.levels.tolist()
    # no rule in either form exceeds the bound of the other
    assert (np.maximum(there.values, here.values) <= np.minimum(there.upper_bounds, here.upper_bounds) + 1e-6).all()
    np.testing.assert_allclose(there.values, here.values, atol=2e-3)
    assert (there.reached <= there.levels + 1e-9).all()
    w = weight / weight.sum()
    for rule, rate in zip(there.rules, there.on_labels.reached, strict=True):
        assert w @ rule.decision_probabilities(P)[:, 0] == pytest.approx(rate, abs=1e-12)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_function_that_is_searched_by_gains_ends_in_thresholds_on_what_was_given(dtype, tmp_path):
    P, Y, _ = rows(29, n=2000, dtype=dtype)

    def least(sizes, diagonal, columns):
        return float((diagonal / sizes).min() - 0.2 * columns.sum())

    found = confmax.maximize(least, opened(tmp_path, P, Y), decisions="any", confusion="labels")
    t = found.rule.thresholds
    assert found.rule.calibrator is None and np.isfinite(t).all()
    chosen = t.astype(dtype) < P
    assert np.array_equal(found.predict(P), chosen)
    assert found.label_value == pytest.approx(least(Y.mean(axis=0), (Y * chosen).mean(axis=0), chosen.mean(axis=0)))
