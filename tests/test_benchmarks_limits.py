"""Benchmarks of limits: known answers of their parts, and a sample of each."""

import numpy as np
import pytest

from benchmarks import abstaining, harness, limit_rivals, programs
from benchmarks.harness import Data


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


@pytest.mark.parametrize("K, k", [(2, 1), (3, None)])
def test_rules_on_labels_are_the_best_of_all_weights(K, k):
    """For two classes those are all thresholds; Nelder-Mead does not find better ones."""
    P, y = drawn(120, K)
    data = Data("drawn", P, y, *drawn(100, K, 1))
    floor = 0.6 if k else 0.35
    found = limit_rivals.beside(data, floor, k, limit_rivals.BOTH)
    value, missed, test, missed_there, _ = found["confmax, labels"]
    assert missed == 0.0
    rival = found["Nelder-Mead"]
    assert rival[1] > 0.0 or rival[0] <= value + 1e-12
    decide = limit_rivals.BOTH["confmax, labels"](P, y, floor, k)
    D = decide(data.Q).argmax(axis=1)
    recalls = np.array([(D[data.z == j] == j).mean() for j in range(K)])
    assert test == pytest.approx((data.z == D).mean())
    assert missed_there == pytest.approx(max(0.0, floor - (recalls[k] if k else recalls.min())))
    if K == 2:
        cuts = [P[:, 1] > cut for cut in np.append(-1.0, P[:, 1])]
        kept = [(one == y).mean() for one in cuts if one[y == 1].mean() >= floor]
        assert value == pytest.approx(max(kept))


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


def test_a_program_over_decisions_and_abstaining_is_chows_rule():
    """Of as many rows those with the largest probability are decided; and what is impossible is told."""
    P = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 20)
    wish = programs.Wish("coverage", "all", ">=", 0.6)
    case = programs.Tiny(P, np.zeros(20, dtype=int), "accuracy", [wish], True)
    assert programs.Program(case).best("accuracy") == pytest.approx(np.sort(P.max(axis=1))[8:].mean())
    assert programs.Program(case._replace(limits=[wish._replace(limit=1.5)])).room() == pytest.approx(-0.5)
    sure = case._replace(limits=[programs.Wish("accuracy", "all", ">=", 0.5)])
    assert 0.0 < programs.Program(sure).best("coverage") <= 1.0


def test_a_sample_of_areas_and_floors(tmp_path, section, monkeypatch):
    P, y = drawn(400, 3)
    parts = {"P_tune": P[:200], "y_tune": y[:200], "P_test": P[200:], "y_test": y[200:]}
    np.savez(tmp_path / "one.npz", **parts)
    np.savez(tmp_path / "two.npz", **{key: value[::-1] for key, value in parts.items()})
    monkeypatch.setattr(abstaining, "METRICS", ("accuracy",))
    monkeypatch.setattr(abstaining, "LEVELS", np.array([0.5, 0.8, 1.0]))
    harness.run("abstaining", tmp_path, 3)
    text = section.read_text()
    assert "accuracy, coverage | " in text and "accuracy | " in text
    data = Data("one", *parts.values())
    chow, best = abstaining.on_the_model("accuracy", data)
    assert best == pytest.approx(chow, abs=1e-6)
    # half of one class is left, and all of another is decided
    decided = np.eye(4)[np.where(np.arange(200) % 2, 3, data.z)]
    decided[data.z == 0] = np.eye(4)[0]
    whole, accuracy, each = abstaining.coverages(data, decided)
    assert accuracy == 1.0 and each[0] == 1.0 and whole == pytest.approx(decided[:, :3].sum() / 200)
