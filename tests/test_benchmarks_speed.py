"""The harness of the benchmarks: known answers, independent values, and that every part still runs."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

import confmax
from benchmarks import harness, multilabel, on_tables, speed
from benchmarks import speed_rivals as rivals
from benchmarks import timing as tools
from benchmarks.timing import Recipe

pytestmark = pytest.mark.slow

SMALL = Recipe(600, 4, imbalance=10.0, wrong=True)


def test_times_alternate_and_ratios_are_of_neighbours(monkeypatch):
    """A call that takes four times as long has ratio four; one round, and what prepares a call, are not counted."""
    clock, order = [0.0], []

    def call(name, seconds):
        order.append(name)
        clock[0] += seconds

    monkeypatch.setattr(tools.time, "perf_counter", lambda: clock[0])
    calls = {"slow": lambda _: call("slow", 4.0), "fast": lambda _: call("fast", 1.0)}
    times = tools.alternate(calls, 2, lambda: call("prepare", 100.0))
    assert times == {"slow": [4.0] * 2, "fast": [1.0] * 2}
    assert [name for name in order if name != "prepare"] == ["slow", "fast", "fast", "slow", "slow", "fast"]
    assert tools.ratio([2.0, 30.0, 4.0], [1.0, 10.0, 4.0]) == (2.0, 1.0, 3.0)
    assert [tools.verdict(value, 1.3) for value in (1.3, 1.31, np.nan)] == ["met", "**missed**", "**missed**"]
    assert [tools.verdict(value, 0.6, most=False) for value in (0.6, np.nan)] == ["met", "**missed**"]


@pytest.mark.parametrize("code", ["import time; time.sleep(60)", "raise SystemExit(3)"], ids=["too long", "fails"])
def test_a_method_that_takes_too_long_or_fails_says_so(code, monkeypatch):
    output = tools.child_output
    monkeypatch.setattr(rivals, "child_output", lambda *_, timeout: output("-c", code, timeout=timeout))
    expected = {"failed": True} if "exit" in code.lower() else {"seconds": [0.5], "stopped": True}
    assert rivals.measure_one("", "xcolumns", "macro_f1", 0.5 if "time" in code else 30.0) == expected


@pytest.mark.parametrize(
    "name", ["scan", "runs", "class-passes", "prediction", "multilabel-passes", "multilabel-speed"]
)
def test_quick_parts_run_and_write_nothing(name, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    monkeypatch.setattr(speed, "CERTIFIED", ("cohen_kappa",))
    monkeypatch.setattr(speed, "INFORMATION", ())
    monkeypatch.setattr(multilabel, "PASSES", multilabel.PASSES[:2])
    harness.run(name, quick=True)
    printed = capsys.readouterr().out
    assert printed.startswith("## ")
    assert name == "scan" or "met" in printed or "missed" in printed
    assert not harness.PATH.exists()


def test_quick_rivals(monkeypatch):
    monkeypatch.setattr(rivals, "METRICS", ("macro_f1",))
    rows = rivals.measure(quick=True, methods=["argmax"])
    assert [row["metric"] for row in rows] == list(rivals.METRICS)
    assert all(len(row["seconds"]) == len(row["ours"]) == 5 for row in rows)
    P, y = rivals.SIZES[0].draw()
    assert rows[0]["tuning"] == pytest.approx(f1_score(y, P.argmax(1), average="macro"))


def test_a_benchmark_on_a_folder_of_tables_writes_its_section(tmp_path, monkeypatch):
    """The passes that it reports are those of the calls that it names."""
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    monkeypatch.setattr(on_tables, "CERTIFIED", "cohen_kappa")
    P, y = SMALL.draw()
    np.savez(tmp_path / "one.npz", P_tune=P, y_tune=y, P_test=P, y_test=y)
    harness.run("passes", tmp_path)
    solution = confmax.maximize("cohen_kappa", P, confusion="model", calibration=None, randomized=True)
    assert f"| {solution.n_passes}.0 | {solution.n_passes} | {solution.gap:.1e}" in harness.PATH.read_text()
