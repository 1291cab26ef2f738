"""Benchmarks of limits: known answers of their parts, and a sample of each."""

import numpy as np
import pytest

from benchmarks import abstaining, harness, limit_rivals


@pytest.fixture
def section(tmp_path, monkeypatch):
    """The file that sections are written to."""
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    return harness.PATH


def drawn(n, K, seed=0):
    """Return probabilities (n, K) and labels (n,) drawn from them."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(1.5, 0.5, K), n)
    return P, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


# --- rivals -----------------------------------------------------------------------------------------------------------


def test_a_sample_of_rivals(tmp_path, section, monkeypatch):
    P, y = drawn(100, 2)
    np.savez(tmp_path / "one.npz", P_tune=P[:50], y_tune=y[:50], P_test=P[50:], y_test=y[50:])
    monkeypatch.setattr(limit_rivals, "FLOORS", {"one": 0.5})
    monkeypatch.setattr(limit_rivals, "CALLS", 50)
    monkeypatch.delitem(limit_rivals.TWO, "confmax, confidence")
    monkeypatch.setattr(limit_rivals, "is_installed", lambda name: "O" not in name and "P" not in name)
    harness.run("limit-rivals", tmp_path)
    text = section.read_text()
    assert text.count("two classes | ") == 3 and "two classes | OxonFair" not in text
    assert (tmp_path / "output" / "limits_rivals.md").read_text().count("one | 1 | ") == 6


# --- abstaining -------------------------------------------------------------------------------------------------------


def test_a_sample_of_tiny_populations_with_abstaining():
    """The bound, the value and every proof agree with programs over the rows."""
    ends = {abstaining.verdict(seed)[0] for seed in range(24)}
    assert {"right", "infeasible, proved", "infeasible, refused"} <= ends
    assert ends <= {"right", "right, on the edge", "on the edge", "infeasible, proved", "infeasible, refused"}
