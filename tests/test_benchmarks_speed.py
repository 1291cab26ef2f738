"""The harness of the speed benchmarks: known answers, independent values, and that every part still runs."""

import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import cohen_kappa_score, confusion_matrix, f1_score, recall_score

import confmax
from benchmarks import _speed_methods as methods
from benchmarks import _speed_process as processes
from benchmarks import _speed_rivals as rivals
from benchmarks import _speed_scaling as scaling
from benchmarks import _speed_scan as scan
from benchmarks import _speed_tools as tools
from benchmarks import results, speed
from benchmarks._speed_tables import Recipe
from confmax.confusion import Gains
from confmax.oracle import make_table

pytestmark = pytest.mark.slow

SMALL = Recipe(600, 4, imbalance=10.0, wrong=True)


class Clock:
    """A clock that stands still unless it is moved."""

    now = 0.0

    def __call__(self):
        return self.now

    def takes(self, seconds):
        def call(*_arguments):
            self.now += seconds

        return call


# --- times and ratios -------------------------------------------------------------------------------------------------


def test_a_call_that_takes_four_times_as_long_has_ratio_four(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(tools.time, "perf_counter", clock)
    prepared = []

    def prepare():
        clock.now += 100.0  # not counted
        prepared.append(1)
        return 0

    times = tools.alternate({"slow": clock.takes(4.0), "fast": clock.takes(1.0)}, 5, prepare)
    assert times == {"slow": [4.0] * 5, "fast": [1.0] * 5}
    assert len(prepared) == 12  # one round is not counted
    assert tools.ratio(times["slow"], times["fast"]) == (4.0, 4.0, 4.0)


def test_every_call_goes_first_in_turn():
    order = []
    tools.alternate({"a": lambda _: order.append("a"), "b": lambda _: order.append("b")}, 2, lambda: None)
    assert order == ["a", "b", "b", "a", "a", "b"]


def test_ratio_is_of_neighbours_not_of_medians():
    assert tools.ratio([2.0, 30.0, 4.0], [1.0, 10.0, 4.0]) == (2.0, 1.0, 3.0)


def test_verdict_at_the_bound():
    assert tools.verdict(1.3, 1.3) == "met"
    assert tools.verdict(1.31, 1.3) == "**missed**"
    assert tools.verdict(0.6, 0.6, most=False) == "met"
    assert tools.verdict(float("nan"), 1.0) == tools.verdict(float("nan"), 1.0, most=False) == "**missed**"


def test_a_fresh_table_is_an_equal_copy():
    P = np.eye(3, dtype=np.float32)
    copy = tools.fresh(P)
    assert copy is not P and not np.shares_memory(copy, P) and (copy == P).all()


def test_memory_of_a_known_allocation():
    try:
        floor = tools.memory_floor()
    except OSError:
        pytest.skip("needs /proc/self/clear_refs")
    np.ones(8_000_000)  # 64 MB, gone again at once
    added = tools.resident("VmHWM") - floor
    assert 60e6 < added < 80e6
    assert tools.resident() - floor < 20e6


def test_stamp_names_no_host_and_no_path():
    stamp = tools.stamp()
    assert stamp["versions"]["confmax"] == confmax.__version__
    assert set(stamp["machine"]) == {"cpu", "cores", "memory_gib", "last_cache", "architecture"}
    assert not any("/" in str(value) for value in stamp["machine"].values())


# --- tables -----------------------------------------------------------------------------------------------------------


def test_tables_are_calibrated_posteriors():
    recipe = Recipe(40_000, 4, imbalance=10.0)
    P, y = recipe.draw()
    share = np.bincount(y, minlength=4) / len(y)
    error = np.sqrt(share * (1 - share) / len(y))
    assert (np.abs(P.mean(axis=0) - share) < 4 * error).all()
    # rows that say .6 to .7 for their first choice are right about as often
    sure, right = P.max(axis=1), P.argmax(axis=1) == y
    some = (sure > 0.6) & (sure < 0.7)
    assert abs(right[some].mean() - sure[some].mean()) < 4 * 0.5 / np.sqrt(some.sum())


def test_wrong_tables_are_wrong_and_parts_share_the_model():
    P, y = Recipe(40_000, 4, imbalance=10.0, wrong=True).draw()
    share = np.bincount(y, minlength=4) / len(y)
    assert np.abs(P.mean(axis=0) - share).max() > 0.02
    Q, _ = Recipe(40_000, 4, imbalance=10.0, wrong=True).draw(part=1)
    assert (P[:10] != Q[:10]).all() and np.abs(P.mean(axis=0) - Q.mean(axis=0)).max() < 0.01
    again, _ = Recipe(40_000, 4, imbalance=10.0, wrong=True).draw()
    assert np.array_equal(P, again)


def test_tables_are_accepted_as_they_are():
    P, _ = SMALL.draw()
    assert P.dtype == np.float32 and np.abs(P.sum(axis=1, dtype=np.float64) - 1).max() < 1e-6
    assert make_table(P).n_rows == 600


# --- values -----------------------------------------------------------------------------------------------------------


def test_numpy_pass_counts_what_scikit_learn_counts():
    P, y = SMALL.draw()
    a, b = np.array([1, 2, 3, 4], np.float32), np.array([0, 0.1, 0, 0], np.float32)
    expected = confusion_matrix(y, (P * a + b).argmax(1), labels=range(4))
    assert (scan.numpy_pass(P, y, a, b).reshape(4, 4) == expected).all()


def test_values_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    for lost in (None, 3):
        y, d = rng.integers(0, 5, 300), rng.integers(0, 5, 300)
        d[d == lost] = 0
        C = confusion_matrix(y, d, labels=range(5)).astype(float)
        assert methods.value("macro_f1", C) == pytest.approx(
            f1_score(y, d, average="macro", labels=range(5), zero_division=0)
        )
        assert methods.value("cohen_kappa", C) == pytest.approx(cohen_kappa_score(y, d))
        recalls = recall_score(y, d, average=None, labels=range(5))
        assert methods.value("g_mean", C) == pytest.approx(np.prod(recalls) ** (1 / 5))


def test_confusions_of_a_mixture_are_the_average_of_its_atoms():
    P, y = SMALL.draw()
    weights = np.array([0.25, 0.75])
    gains = Gains.reduced([[1.0, 1, 1, 1], [1.0, 2, 3, 9]])
    C = methods.by_rule(confmax.DecisionRule(gains, weights, tuple(range(4))))(P, y)
    parts = [confusion_matrix(y, (P * w).argmax(1)) for w in (np.ones(4), np.array([1.0, 2, 3, 9]))]
    assert np.abs(C - 0.25 * parts[0] - 0.75 * parts[1]).max() < 1e-9


@pytest.mark.parametrize(
    "method", [name for name in methods.METHODS if name.split(",")[0] not in ("xcolumns", "cutoffs")]
)
def test_methods_reach_what_they_say(method):
    recipe = Recipe(600, 2, imbalance=5.0) if method == "TunedThreshold" else SMALL
    P, y = recipe.draw()
    counts, told = methods.METHODS[method]("cohen_kappa", P, y)
    plain = methods.value("cohen_kappa", methods.by_weights(np.ones(recipe.K))(P, y))
    assert counts(P, y).sum() == pytest.approx(len(y))
    if method not in ("argmax", "p/prior", "confmax, model", "confmax, defaults"):
        assert methods.value("cohen_kappa", counts(P, y)) >= plain - 1e-12
    assert told.get("passes", 1) >= 1


def test_both_searches_of_nelder_mead_are_the_same_search():
    P, y = SMALL.draw()
    plain, compiled = (methods.METHODS[name]("macro_f1", P, y) for name in ("Nelder-Mead", "Nelder-Mead, compiled"))
    assert methods.value("macro_f1", plain[0](P, y)) == pytest.approx(
        methods.value("macro_f1", compiled[0](P, y)), abs=5e-3
    )


def test_xcolumns_is_counted_as_it_decides():
    pytest.importorskip("xcolumns")
    from xcolumns.confusion_matrix import calculate_confusion_matrix
    from xcolumns.weighted_prediction import predict_weighted_per_instance

    from benchmarks.rivals import frank_wolfe

    P, y = SMALL.draw()
    Y = np.eye(4, dtype=np.float32)[y]
    counts, _ = methods.METHODS["xcolumns, top"]("macro_f1", P, y)
    found, _ = frank_wolfe("macro_f1", P, Y, "top")
    parts = [predict_weighted_per_instance(P, 1, a=a, b=b) for a, b in zip(found.a, found.b, strict=True)]
    tp = sum(p * calculate_confusion_matrix(Y, D).tp for p, D in zip(found.p, parts, strict=True))
    assert np.diagonal(counts(P, y)) == pytest.approx(tp, abs=1e-3)


# --- a method in a process of its own ---------------------------------------------------------------------------------

START = 'print(\'{"event": "start", "metric": "m", "ours": [0.01], "floor": 0}\', flush=True);'


def started(code):
    return lambda _arguments: subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_search_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setattr(processes, "child", started(f"{START} import time; time.sleep(60)"))
    (record,) = rivals.measure_method("", "xcolumns", ["m"], 0.2)
    assert record["stopped"] and 0.2 <= record["seconds"][0] < 30 and record["peak"] > 0
    row = {"n": 9, "K": 3, "size": "9 x 3", "bytes": 1, "method": "xcolumns", **record}
    assert rivals.speedup(row) == pytest.approx(record["seconds"][0] / 0.01)


def test_a_method_that_fails_says_so(monkeypatch):
    monkeypatch.setattr(processes, "child", started(f"{START} raise SystemExit(3)"))
    assert list(rivals.measure_method("", "xcolumns", ["m", "n"], 5.0)) == [
        {"metric": "m", "failed": True},
        {"metric": "n", "failed": True},
    ]


def row_of(method, tuning, seconds, ours, **more):
    about = {"n": 200_000, "K": 20, "size": "200k x 20", "bytes": 100, "metric": "macro_f1", "peak": 50}
    return {**about, "method": method, "tuning": tuning, "test": 0.5, "seconds": seconds, "ours": ours, **more}


def test_targets_and_losses_of_known_rows():
    rows = [
        row_of("confmax, labels", 0.6, [0.1] * 5, []),
        row_of("confmax, labels, mixture", 0.61, [0.1] * 5, [0.1] * 5),
        row_of("xcolumns", 0.605, [4.0] * 5, [0.1] * 5),
        row_of("Nelder-Mead, compiled", 0.59, [7.0], [0.1] * 5),
        row_of("Nelder-Mead", 0.0, [12.0], [0.1], stopped=True),
        row_of("TunedThreshold", 0.5, [0.05] * 5, [0.1] * 5),
    ]
    del rows[4]["tuning"], rows[4]["test"]
    data = {"rows": rows}
    lines = rivals.targets(data).splitlines()[2:]
    assert lines == [
        "200k x 20 | macro_f1 | xcolumns | 40 | 50 | **missed** | -5.0e-03 (mixture +5.0e-03) | **missed**",
        "200k x 20 | macro_f1 | Nelder-Mead | > 120 | 100 | met | +1.0e-02 (mixture +2.0e-02) | met",
    ]
    said = rivals.losses(data)
    assert "tuning: xcolumns on 200k x 20 macro_f1 (+0.0050)" in said
    assert "test: none" in said and "time: TunedThreshold on 200k x 20 macro_f1 (0.50)" in said


# --- every part runs --------------------------------------------------------------------------------------------------


def unchanged():
    return [path.read_bytes() if path.exists() else None for path in (speed.PATH, results.PATH, scaling.PLOT)]


@pytest.mark.parametrize("name", ["scan", "runs", "scaling", "passes", "prediction"])
def test_quick_parts_run_and_write_nothing(name, monkeypatch):
    monkeypatch.setattr(scan, "CERTIFIED", ("cohen_kappa",))
    monkeypatch.setattr(scan, "INFORMATION", ())
    before = unchanged()
    found = CliRunner().invoke(speed.main, [name, "--quick"])
    assert found.exit_code == 0, found.output
    assert found.output.startswith(f"## {name}") and (
        "met" in found.output or "missed" in found.output or name == "scan"
    )
    assert unchanged() == before


def test_quick_rivals(monkeypatch):
    monkeypatch.setattr(rivals, "MANY", ("argmax",))
    rows = rivals.measure(quick=True)["rows"]
    assert [row["metric"] for row in rows] == list(rivals.METRICS)
    for row in rows:
        assert len(row["seconds"]) == len(row["ours"]) == 5 and row["peak"] >= 0
    P, y = rivals.replace(rivals.SIZES[0], n=1000, K=5).draw()
    assert rows[0]["tuning"] == pytest.approx(f1_score(y, P.argmax(1), average="macro"))


def test_a_part_is_kept_beside_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "PATH", tmp_path / "RESULTS.md")
    path = tmp_path / "speed.json"
    for name in ("passes", "scan", "passes"):
        speed.keep(name, {"rows": [name]}, f"text of {name}", path)
    assert set(speed.json.loads(path.read_text())) == {"passes", "scan"}
    assert results.PATH.read_text().count("text of passes") == 1


def test_plot(tmp_path):
    pytest.importorskip("matplotlib")
    row = {"growing": "rows", "cells": [10**6, 10**7], "seconds": [[0.001], [0.01]], "slope": 1.0}
    scaling.plot({"rows": [row]}, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 1000
