"""Benchmarks of budgets of labels: a sample of each, and known answers of their parts."""

import numpy as np
import pytest

from benchmarks import harness, multilabel_extreme, multilabel_limits, multilabel_quality
from confmax.metrics import labels as label_metrics
from confmax.tables.decisions import decisions_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one table of 3 labels; sections are written beside it."""
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    monkeypatch.setattr(multilabel_quality, "RESPLITS", 1)
    monkeypatch.setattr(multilabel_quality, "TINY", 4)
    rng = np.random.default_rng(0)
    P = rng.beta(0.6, 1.2, (80, 4)).astype(np.float32)
    Y = (rng.random(P.shape) < P).astype(np.uint8)
    np.savez(tmp_path / "one.npz", P_tune=P[:40], Y_tune=Y[:40], P_test=P[40:], Y_test=Y[40:])
    return tmp_path


def test_a_sample_of_each(folder):
    harness.run("multilabel-any", folder)
    harness.run("multilabel-together", folder)
    harness.run("multilabel-quality", folder)
    harness.run("multilabel-bounds", folder)
    text = harness.PATH.read_text()
    assert "one | micro_f1 | " in text
    assert "each ahead" in text
    assert "one | macro_f1@3 | " in text
    assert "macro_f1@1 | " in text
    assert "enumerated: 0 bounds were below the best of them" in text


def test_limits_are_judged_on_other_rows(folder, monkeypatch):
    monkeypatch.setattr(multilabel_limits, "SPLITS", 1)
    monkeypatch.setattr(multilabel_limits, "METRICS", ("g_mean",))
    harness.run("multilabel-limits", folder, 3)
    text = harness.PATH.read_text()
    assert "seed 3, " in text
    lines = {line[2]: line for line in (line.split(" | ") for line in text.splitlines()) if line[0] == "one"}
    assert [line[7] for line in lines.values()] == ["1 of 1"] * 2
    without, within = map(float, lines["labels_per_row"][5:7])
    assert without < -0.4 < within
    assert lines["recall"][3] > lines["recall"][4]


def test_a_limit_is_kept_by_so_much():
    Y = np.array([[1, 0], [1, 1], [0, 1], [0, 0]])
    chances = np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 0.0], [0.0, 0.0]])
    assert multilabel_limits.kept_by("recall[0] >= 0.5", Y, chances) == pytest.approx(0.25)
    assert multilabel_limits.kept_by("labels_per_row <= 0.5", Y, chances) == pytest.approx(-0.125)


def test_extreme_classification_beats_plain_rules():
    model, labels = multilabel_extreme.ours(*multilabel_extreme.table(60, 300))
    for row in (model, labels):
        value, top, scaled = map(float, row[5:8])
        assert value > max(top, scaled)
    assert float(model[5]) <= float(model[8]) + 1e-5


def test_the_best_of_all_decisions():
    P = np.array([[0.9, 0.1], [0.2, 0.3]])
    w = np.full(2, 0.5)
    metric = label_metrics.resolve("hamming", decisions_of(1))
    # 0.9, 0.9, 0.8 and 0.3 of the entries are right
    assert multilabel_quality.best_of_all(metric, P, w, decisions_of(1)) == pytest.approx(0.725)
    # no label of the second row: 0.9, 0.9, 0.8 and 0.7
    assert multilabel_quality.best_of_all(metric, P, w, decisions_of(("at_most", 1))) == pytest.approx(0.825)
