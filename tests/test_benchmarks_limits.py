"""Benchmarks of limits: known answers of their parts, and a sample of each."""

import numpy as np
import pytest

import confmax
from benchmarks import abstaining, class_shares, harness, limit_rivals, programs, single_rules
from benchmarks.harness import Data
from confmax import constraints as c


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


# --- class shares -----------------------------------------------------------------------------------------------------


def test_a_sample_of_class_shares(tmp_path, monkeypatch):
    """Every rule is certified and keeps its limits on the model; figures are those of counts by hand."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, 300, p=[0.6, 0.3, 0.1])
    np.savez(tmp_path / "small.npz", X=np.c_[y, y**2] + rng.normal(size=(300, 2)), y=y)
    monkeypatch.setattr(class_shares, "PUBLISHED", {"small": {"nobody": (0.0, 1.0), "nothing": (2.0, 0.0)}})
    few = {name: (class_shares.RUNS[name][0], [0.02]) for name in ("model", "labels")}
    monkeypatch.setattr(class_shares, "RUNS", few)
    text = "\n".join(class_shares.main(tmp_path, ["small"], splits=2))
    assert "nobody" in text and "| no |" in text and "| yes |" in text
    data = class_shares.split(tmp_path / "small.npz", 0)
    assert len(data.y) == 210 and len(data.z) == 90 and data.P.shape == (210, 3)
    value, off, _, tuning_off, gap = class_shares.tuned(data, 0.02, {"confusion": "model", "calibration": None})
    assert gap <= class_shares.CLOSED and tuning_off <= 0.02 + 1e-9
    rule = confmax.maximize("h_mean", data.P, data.y, classes=range(3), confusion="model", calibration=None,
                            randomized=True, constraints=class_shares.near_shares(data.y, 3, 0.02)).rule  # fmt: skip
    D, hit = rule.decision_probabilities(data.Q), []
    for k in range(3):
        hit.append(D[data.z == k, k].mean())
    assert value == pytest.approx(3 / (1 / np.array(hit)).sum())
    assert off == pytest.approx(np.abs(D.mean(axis=0) - np.bincount(data.z, minlength=3) / 90).max())


def test_a_column_is_reached_by_a_run_that_is_near_and_good():
    def run(limit, test, off):
        test = np.array(test)
        return class_shares.Run("model", limit, test, np.full(2, off), test, np.full(2, off), np.zeros(2))

    runs = [run(0.01, [0.5, 0.7], 0.02), run(0.02, [0.8, 0.9], 0.03)]
    assert runs[0].error == pytest.approx(0.1)
    assert class_shares.best(runs, 0.65, 0.02) == (runs[0], True)
    assert class_shares.best(runs, 0.75, 0.02) == (runs[0], False)
    assert class_shares.best(runs, 0.75, 0.04) == (runs[1], True)
    assert class_shares.best(runs, 0.0, 0.01) == (runs[0], False)


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
    monkeypatch.setattr(limit_rivals, "PACKAGES", dict.fromkeys(limit_rivals.PACKAGES, "no_such_package"))
    harness.run("limit-rivals", tmp_path)
    text = section.read_text()
    assert text.count("one | recall[1] >= 0.5 |") == 6 and "two classes | OxonFair" not in text


# --- single rules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_sample_of_tiny_populations(seed):
    """The program and the search find the same single rules; of two classes those are the best thresholds."""
    end, lack = single_rules.verdict(seed)
    assert end in ("the best", "none, as the program says") and lack == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_a_program_over_the_form_finds_the_best_threshold(seed):
    P = np.random.default_rng(seed).dirichlet([1.0, 1.0], 8)
    problem = single_rules.Problem(P, "accuracy", [c.recall(1) >= 0.7])
    free = np.stack(np.divmod(np.arange(16), 2), axis=1)
    found = single_rules.program(P, *problem.objective(0.0), problem.rows.limits, problem.rows.constants, free,
                                 np.zeros(8, dtype=int), base=np.zeros(4), box=np.ones(4))  # fmt: skip
    value, slack = problem.of(found.decisions)
    cuts = [problem.of((P[:, 1] >= cut).astype(int)) for cut in np.append(P[:, 1], 2.0)]
    assert slack >= 0.0 and value == pytest.approx(max(one for one, kept in cuts if kept >= 0.0))
    assert found.complete and found.bound == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("metric", ["accuracy", "min_recall", "cohen_kappa", "g_mean"])
def test_the_relaxation_is_the_best_mixture(metric):
    """Its prices tell what a decision loses, and the decisions of the best single rule lose no more than the rule."""
    P, _ = drawn(24, 3)
    problem = single_rules.Problem(P, metric, [c.recall(2) >= 0.6])
    settings = {"classes": range(3), "confusion": "model", "calibration": None, "constraints": c.recall(2) >= 0.6}
    mixed = confmax.maximize(metric, P, randomized=True, tol=1e-9, **settings)
    found, met = single_rules.single(metric, P, [c.recall(2) >= 0.6])
    assert met
    top, constant = problem.objective(mixed.value, mixed.statistics)
    best = single_rules.relaxed(problem, top, constant)
    assert best.value == pytest.approx(0.0 if metric == "cohen_kappa" else mixed.value, abs=1e-6)
    decisions = found.rule.predict_index(P)
    value, slack = problem.of(decisions)
    assert value == pytest.approx(found.value) and slack >= -1e-12
    lost = best.value - problem.height(found.statistics, mixed.value, mixed.statistics)
    assert best.losses[np.arange(24), decisions].sum() <= lost + 1e-6
    beside = single_rules.beside(metric, P, [c.recall(2) >= 0.6])
    assert beside.least <= beside.ours + 1e-6 and beside.proved


# --- abstaining -------------------------------------------------------------------------------------------------------


def test_a_sample_of_tiny_populations_with_abstaining():
    """The bound, the value and every proof agree with programs over the rows."""
    ends = {abstaining.verdict(seed)[0] for seed in range(24)}
    assert {"right", "infeasible, proved", "contradictory"} <= ends
    assert ends <= {"right", "right, on the edge", "on the edge", "infeasible, proved", "contradictory"}


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
