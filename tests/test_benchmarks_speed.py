"""The harness of the benchmarks: known answers, independent values, and that every part still runs."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, confusion_matrix, f1_score, recall_score

import confmax
from benchmarks import harness, methods, on_tables, speed
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


def test_tables_are_calibrated_or_wrong_and_parts_share_the_model():
    P, y = Recipe(40_000, 4, imbalance=10.0).draw()
    share = np.bincount(y, minlength=4) / len(y)
    assert (np.abs(P.mean(axis=0) - share) < 4 * np.sqrt(share * (1 - share) / len(y))).all()
    wrong = Recipe(40_000, 4, imbalance=10.0, wrong=True)
    (P, y), (Q, _) = wrong.draw(), wrong.draw(part=1)
    assert np.abs(P.mean(axis=0) - np.bincount(y, minlength=4) / len(y)).max() > 0.02
    assert (P[:10] != Q[:10]).all() and np.abs(P.mean(axis=0) - Q.mean(axis=0)).max() < 0.01
    assert np.array_equal(P, wrong.draw()[0])


def test_values_and_counts_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    for lost in (None, 3):
        y, d = rng.integers(0, 5, 300), rng.integers(0, 5, 300)
        d[d == lost] = 0
        D = np.eye(5)[d]
        assert (harness.counts(y, D) == confusion_matrix(y, d, labels=range(5))).all()
        macro_f1 = f1_score(y, d, average="macro", labels=range(5), zero_division=0)
        assert harness.value("macro_f1", y, D) == pytest.approx(macro_f1)
        assert harness.value("cohen_kappa", y, D) == pytest.approx(cohen_kappa_score(y, d))
        recalls = recall_score(y, d, average=None, labels=range(5))
        assert harness.value("g_mean", y, D) == pytest.approx(np.prod(recalls) ** (1 / 5))
    P, y = SMALL.draw()
    a, b = np.array([1, 2, 3, 4], np.float32), np.array([0, 0.1, 0, 0], np.float32)
    expected = confusion_matrix(y, (P * a + b).argmax(1), labels=range(4))
    assert (tools.numpy_pass(P, y, a, b).reshape(4, 4) == expected).all()


@pytest.mark.parametrize(
    "method", [name for name in rivals.METHODS if name.split(",")[0] not in ("xcolumns", "cutoffs")]
)
def test_methods_reach_what_they_say(method):
    recipe = Recipe(600, 2, imbalance=5.0) if method == "TunedThreshold" else SMALL
    P, y = recipe.draw()
    tuned = rivals.METHODS[method]("cohen_kappa", P, y)
    D = tuned.decide(P)
    np.testing.assert_allclose(D.sum(axis=1), 1.0)
    if method not in ("argmax", "p/prior", "confmax, model", "confmax, defaults"):
        plain = harness.value("cohen_kappa", y, methods.argmax("", P, y).decide(P))
        assert harness.value("cohen_kappa", y, D) >= plain - 1e-12
    assert tuned.about.get("passes", 1) >= 1


def test_both_searches_of_nelder_mead_are_the_same_search():
    P, y = SMALL.draw()
    found = [rivals.METHODS[name]("macro_f1", P, y).decide(P) for name in ("Nelder-Mead", "Nelder-Mead, compiled")]
    assert harness.value("macro_f1", y, found[0]) == pytest.approx(harness.value("macro_f1", y, found[1]), abs=5e-3)


def test_xcolumns_is_counted_as_it_decides():
    pytest.importorskip("xcolumns")
    from xcolumns.weighted_prediction import predict_weighted_per_instance

    P, y = SMALL.draw()
    D = methods.xcolumns("top")("macro_f1", P, y).decide(P)
    found, _ = methods.frank_wolfe("macro_f1", P, np.eye(4, dtype=np.float32)[y], "top")
    atoms = zip(found.p, found.a, found.b, strict=True)
    expected = sum(p * predict_weighted_per_instance(P, 1, a=a, b=b) for p, a, b in atoms)
    assert np.abs(harness.counts(y, D) - harness.counts(y, expected)).max() < 1e-3


@pytest.mark.parametrize("code", ["import time; time.sleep(60)", "raise SystemExit(3)"], ids=["too long", "fails"])
def test_a_method_that_takes_too_long_or_fails_says_so(code, monkeypatch):
    output = tools.child_output
    monkeypatch.setattr(rivals, "child_output", lambda *_, timeout: output("-c", code, timeout=timeout))
    expected = {"failed": True} if "exit" in code.lower() else {"seconds": [0.5], "stopped": True}
    assert rivals.measure_one("", "xcolumns", "macro_f1", 0.5 if "time" in code else 30.0) == expected


def test_targets_and_losses_of_known_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")

    def row(method, tuning, seconds, ours, **more):
        about = {"K": 20, "size": "200k x 20", "metric": "macro_f1"}
        return {**about, "method": method, "tuning": tuning, "test": 0.5, "seconds": seconds, "ours": ours, **more}

    rows = [
        row("confmax, labels", 0.6, [0.1] * 5, [0.1] * 5),
        row("xcolumns", 0.605, [4.0] * 5, [0.1] * 5),
        row("Nelder-Mead, compiled", 0.59, [7.0], [0.1] * 5),
        row("Nelder-Mead", 0.0, [12.0], [0.1], stopped=True),
        row("TunedThreshold", 0.5, [0.05] * 5, [0.1] * 5),
    ]
    del rows[3]["tuning"], rows[3]["test"], rows[3]["ours"]
    assert rivals.targets(rows).splitlines()[2:] == [
        "200k x 20 | xcolumns, 50 times | 1 | 40 (40, 40) | **missed** | -0.0050 (-0.0050, -0.0050) | **missed**",
        "200k x 20 | Nelder-Mead, 100 times | 1 | 120 (120, 120) | met | 0.0100 (0.0100, 0.0100) | met",
    ]
    sentences = rivals.losses(rows)
    assert "tuning: xcolumns on 200k x 20 macro_f1 (+0.0050)" in sentences
    assert "test: none" in sentences and "time: TunedThreshold on 200k x 20 macro_f1 (0.50)" in sentences


@pytest.mark.parametrize("name", ["scan", "runs", "class-passes", "prediction"])
def test_quick_parts_run_and_write_nothing(name, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    monkeypatch.setattr(speed, "CERTIFIED", ("cohen_kappa",))
    monkeypatch.setattr(speed, "INFORMATION", ())
    harness.run(name, quick=True)
    printed = capsys.readouterr().out
    assert printed.startswith("## ")
    assert name == "scan" or "met" in printed or "missed" in printed
    assert not harness.PATH.exists()


def test_quick_rivals():
    rows = rivals.measure(quick=True, methods=["argmax"])
    assert [row["metric"] for row in rows] == list(rivals.METRICS)
    assert all(len(row["seconds"]) == len(row["ours"]) == 5 for row in rows)
    P, y = rivals.SIZES[0].draw()
    assert rows[0]["tuning"] == pytest.approx(f1_score(y, P.argmax(1), average="macro"))


def test_sections_are_kept_beside_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    for name in ("passes", "scan", "passes"):
        harness.write_section(f"speed: {name}", f"text of {name}")
    text = harness.PATH.read_text()
    assert text.count("text of passes") == 1 and text.endswith("## speed: scan\n\ntext of scan\n")


def test_many_rows_become_a_summary_and_are_kept_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    rows = [["one", "a", "0.10 (0.02)", ""], ["two", "a", "0.40 (0.01)", ""], ["three", "b", "none", "2e-03"]]
    text = harness.spread("some: thing", ["table", "kind", "loss", "gap"], rows, 2, (1,))
    assert text.splitlines()[2:] == ["a | 2 | 0.25 (0.10, 0.40) | ", "b | 1 | none | 2e-03 (2e-03, 2e-03)"]
    assert (tmp_path / "output" / "some_thing.md").read_text().count("\n") == 5


def test_the_place_names_no_host_and_no_path():
    assert "/" not in tools.machine() and "threads" in tools.machine()


def test_a_benchmark_on_a_folder_of_tables_writes_its_section(tmp_path, monkeypatch):
    """The passes that it reports are those of the calls that it names."""
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    monkeypatch.setattr(on_tables, "CERTIFIED", "cohen_kappa")
    P, y = SMALL.draw()
    np.savez(tmp_path / "one.npz", P_tune=P, y_tune=y, P_test=P, y_test=y)
    harness.run("passes", tmp_path)
    solution = confmax.maximize("cohen_kappa", P, confusion="model", calibration=None, randomized=True)
    assert f"| {solution.n_passes}.0 | {solution.n_passes} | {solution.gap:.1e}" in harness.PATH.read_text()
