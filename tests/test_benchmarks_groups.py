"""Benchmarks of groups: known answers of their parts, and a sample of each."""

from itertools import product

import numpy as np
import pytest

import confmax
from benchmarks import groups, harness, limit_rivals, programs


@pytest.fixture
def section(tmp_path, monkeypatch):
    """The file that sections are written to."""
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    return harness.PATH


def drawn(n, K=2, seed=0):
    """Return probabilities (n, K), labels drawn from them, and groups of 0 and 1."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), n)
    y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return limit_rivals.Rows(P, y, (groups.drawn_groups(P) == "b").astype(int))


# --- programs over rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["accuracy", "cohen_kappa", "min_recall", "f1[0]"])
def test_a_program_is_never_below_rules_that_do_not_draw(metric):
    """It is their best where one limit of groups leaves them one."""
    rng = np.random.default_rng(1)
    P, group = rng.dirichlet(np.ones(2), 8), np.array([0, 1] * 4)
    wish = programs.Wish("rate[1]", "difference", "<=", 0.2)
    program = programs.Program(programs.Tiny(P, group, metric, [wish], False))
    best, value = -1.0, confmax.metrics.get("f1") if metric == "f1[0]" else confmax.metrics.get(metric)
    for decided in product([0, 1], repeat=8):
        chosen = np.array(decided)
        if abs(chosen[group == 0].mean() - chosen[group == 1].mean()) <= 0.2:
            C = P.T @ np.eye(2)[chosen] / 8
            best = max(best, value.value(C[::-1, ::-1] if metric == "f1[0]" else C))
    found = program.best(metric)
    assert best <= found + 1e-9 <= best + 0.15
    assert program.room() == pytest.approx(0.2)


@pytest.mark.parametrize("seed", range(4))
def test_a_sample_of_tiny_populations(seed):
    end, _, lack = groups.verdict(seed)
    assert end in ("right", "right, on the edge", "infeasible, proved", "infeasible, refused") and lack < 1e-6


def test_a_sample_of_groups_by_name_and_of_sums_of_rates():
    ends = {groups.verdict_on_equal(seed, groups.one_sided_tiny)[0] for seed in range(25)}
    assert ends == {"right", "infeasible, proved"}


def test_a_sample_of_the_section(tmp_path, section):
    for name, n in (("few", 40), ("many", 1000)):
        P, y, _ = drawn(n)
        np.savez(tmp_path / f"{name}.npz", P_tune=P, y_tune=y, P_test=P[:2], y_test=y[:2])
    harness.run("groups", tmp_path, 4)
    text = section.read_text()
    assert "limits of groups | " in text and "equal groups | " in text and "equalised odds | " in text


# --- rivals -----------------------------------------------------------------------------------------------------------


def test_accuracy_and_difference_are_those_of_counts():
    rows = limit_rivals.Rows(np.zeros((6, 2)), np.array([1, 1, 0, 1, 0, 0]), np.array([0, 0, 0, 1, 1, 1]))
    chance = np.array([1.0, 0.5, 0.0, 0.0, 1.0, 0.5])
    accuracy, off = limit_rivals.measured(rows, chance, ("recall",))
    assert accuracy == pytest.approx((1 + 0.5 + 1 + 0 + 0 + 0.5) / 6) and off == pytest.approx(0.75)
    assert limit_rivals.measured(rows, chance, ("recall", "fpr"))[1] == pytest.approx(0.75)
    assert limit_rivals.measured(rows, chance, ("fpr",))[1] == pytest.approx(0.75)
    assert limit_rivals.measured(rows, chance, ("rate",))[1] == pytest.approx(0.0)


def test_a_sample_of_rivals(section, monkeypatch):
    """A rival that is confmax itself has its figures, and is not ahead."""
    parts = [drawn(80, seed=seed) for seed in (0, 1)]
    monkeypatch.setattr(limit_rivals, "halves", lambda *_: [("small", *parts)])
    monkeypatch.setattr(limit_rivals, "RIVALS", {"itself": (limit_rivals.SINGLE_RULES,) * 2})
    harness.run("group-rivals", "", "")
    text = section.read_text()
    assert text.count("itself | 1 | ") == 3 and "than confmax there: none" in text
    ends = limit_rivals.judged(limit_rivals.SINGLE_RULES, *parts, "equal opportunity", 0.1)
    assert ends[1] <= 0.1 + 1e-9
