"""Benchmarks on folders of tables: known answers of their parts, and a sample of each."""

import numpy as np
import pytest

from benchmarks import calibration, harness
from benchmarks.harness import load
from confmax.calibration import fit
from confmax.oracle import make_table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one table of 3 classes; sections are written beside it."""
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.8, 0.3, 0.1], 160).astype(np.float32)
    y = (np.log(P + 0.01) + rng.gumbel(size=P.shape)).argmax(axis=1)
    np.savez(tmp_path / "one.npz", P_tune=P[:80], y_tune=y[:80], P_test=P[80:], y_test=y[80:])
    return tmp_path


def test_one_floor_is_taken_by_all_calibrations(folder):
    (data,) = load(folder)
    table = make_table(data.P, data.y, None, range(3))
    before = fit(table, "vector")
    for floor in (1e-6, 0.1):
        with calibration.fixed(floor):
            assert {fit(table, kind).floor for kind in ("temperature", "vector")} == {floor}
    assert fit(table, "vector") == before


def test_a_sample_of_calibration(folder):
    harness.run("calibration", folder)
    text = harness.PATH.read_text()
    assert "of 1 tables are changed" in text and "vector | " in text
