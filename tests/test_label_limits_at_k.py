"""Limits where rows get a number of labels: beside enumeration of all decisions, a linear program, and other rows."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import confmax
from confmax import constraints as c
from confmax.confusion import Confusion, Gains
from confmax.metrics import labels as label_metrics
from confmax.optimize.breakpoints import Coordinate, breakpoints, moved, working_gain
from confmax.oracle import CountingOracle
from confmax.solution import budgets
from confmax.tables.decisions import decisions_of
from confmax.tables.several import labels_table
from tests.cli_helpers import document

L = 3
NAMES = ["a", "b", "c"]
PLAIN = {"calibration": None, "classes": NAMES}
# numerators and denominators as sums of t, q and a constant, by how often the label is true: apart from the library's
QUANTITIES = {
    "recall": lambda r: ((1.0, 0.0, 0.0), (0.0, 0.0, r)),
    "precision": lambda _: ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    "fpr": lambda r: ((-1.0, 1.0, 0.0), (0.0, 0.0, 1.0 - r)),
    "npv": lambda r: ((1.0, -1.0, 1.0 - r), (0.0, -1.0, 1.0)),
    "rate": lambda _: ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "f1": lambda r: ((2.0, 0.0, 0.0), (0.0, 1.0, r)),
}


class Tiny:
    """Six rows of three labels, random limits, and all decisions that give a row so many labels."""

    def __init__(self, seed, name=None):
        self.rng = rng = np.random.default_rng(seed)
        n = 6
        self.P = rng.beta(0.7, 1.5, (n, L)).round(int(rng.integers(1, 4)))
        self.P[0] = 0.5
        self.Y = (rng.random((n, L)) < self.P).astype(int)
        self.Y[:2] = [[1] * L, [0] * L]
        self.weight = rng.integers(1, 4, n).astype(float)
        self.on_model = bool(seed % 2)
        k = int(rng.integers(1, 3))
        self.decisions = ("at_most", k) if rng.integers(2) else k
        sizes = range(k + 1) if isinstance(self.decisions, tuple) else [k]
        sets = [chosen for size in sizes for chosen in itertools.combinations(range(L), size)]
        self.sets = np.array([[float(label in chosen) for label in range(L)] for chosen in sets])
        S = self.P if self.on_model else self.Y
        w = self.weight / self.weight.sum()
        self.rows = w @ S
        self.hits = w[:, None, None] * S[:, None] * self.sets
        self.decided = w[:, None, None] * np.broadcast_to(self.sets, (n, *self.sets.shape))
        self.least = w.min()
        known = ["macro_recall", "hamming", "macro_f1", "micro_f1", "g_mean", "h_mean", "macro_jaccard"]
        self.metric = label_metrics.get(name or str(rng.choice(known)))
        self.texts, self.limits = zip(*(self._limit() for _ in range(int(rng.integers(1, 4)))), strict=True)

    def _limit(self):
        name, k = str(self.rng.choice([*QUANTITIES, "sum"])), int(self.rng.integers(L))
        is_floor = bool(self.rng.integers(2)) or name in ("recall", "precision")
        number = round(float(self.rng.uniform(0.1, 0.7)), 2)
        top, bottom = np.zeros(2 * L + 1), np.zeros(2 * L + 1)
        if name == "sum":
            top[[L, L + 1]], bottom[-1] = (1.0, 2.0), 1.0
            return f"rate[a] + 2 rate[b] {'>=' if is_floor else '<='} {number}", (top, bottom, is_floor, number)
        top[[k, L + k, -1]], bottom[[k, L + k, -1]] = QUANTITIES[name](self.rows[k])
        text = f"{name}[{NAMES[k]}] {'>=' if is_floor else '<='} {number}"
        return text, (top, bottom, is_floor, number)

    def kept(self, t, q):
        z = np.hstack([t, q, np.ones((len(t), 1))])
        kept = np.ones(len(t), dtype=bool)
        for top, bottom, is_floor, number in self.limits:
            N, D = z @ top, z @ bottom
            value = np.divide(N, D, out=np.zeros(len(D)), where=D > 1e-12)
            kept &= (value >= number - 1e-9) if is_floor else (value <= number + 1e-9)
        return kept

    def best(self):
        """Return the largest value of all decisions that keep the limits; None if none does."""
        t = q = np.zeros((1, L))
        for hits, decided in zip(self.hits, self.decided, strict=True):
            t, q = ((so_far[:, None] + more).reshape(-1, L) for so_far, more in ((t, hits), (q, decided)))
        kept = self.kept(t, q)
        return self.metric.values(Confusion(self.rows, t, q))[kept].max() if kept.any() else None

    def best_drawn(self):
        """Return the largest value of a linear metric over what each row may draw; None if none keeps the limits."""
        centre = Confusion(self.rows, self.rows / 2, self.rows / 2)
        slope = self.metric.at(centre)
        hits, decided = self.hits.reshape(-1, L), self.decided.reshape(-1, L)
        constant = slope.value - slope.diagonal @ centre.diagonal - slope.columns @ centre.columns
        functions = []
        for top, bottom, is_floor, number in self.limits:
            functions.append((1.0 if is_floor else -1.0) * (top - number * bottom))
            if is_floor and bottom[L : 2 * L].any() and bottom[-1] in (0.0, 1.0):
                # of a share of rows with some decision there is at least one row
                functions.append(bottom - self.least * np.eye(2 * L + 1)[-1])
        F = np.array(functions)
        n = len(self.hits)
        found = linprog(
            -(hits @ slope.diagonal + decided @ slope.columns),
            A_ub=-(F[:, :L] @ hits.T + F[:, L : 2 * L] @ decided.T),
            b_ub=F[:, -1],
            A_eq=np.kron(np.eye(n), np.ones(len(self.sets))),
            b_eq=np.ones(n),
            bounds=(0, 1),
        )
        return constant - found.fun if found.status == 0 else None

    def maximize(self, **more):
        given = {"constraints": self.texts, "on_infeasible": "closest", "decisions": self.decisions, **PLAIN, **more}
        y = None if self.on_model else self.Y
        estimate = "model" if self.on_model else "labels"
        return confmax.maximize(self.metric, self.P, y, sample_weight=self.weight, confusion=estimate, **given)


@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("seed", [8, 11, 14, 17])
def test_no_decisions_within_the_limits_are_better_than_the_bound(seed, randomized):
    one = Tiny(seed)
    best, found = one.best(), one.maximize(randomized=randomized)
    S = found.statistics
    assert found.feasible == one.kept(S.diagonal[None], S.columns[None])[0]
    assert found.infeasibility is None or not found.feasible
    if best is not None and found.feasible:
        assert found.rule.is_randomized or found.value <= best + 1e-9
        assert found.upper_bound is None or found.upper_bound >= max(best, found.value) - 1e-9
    if best is not None and randomized and one.on_model:
        # what keeps the limits is met, and "(proved)" is never said of limits that some decisions keep
        assert found.feasible


@pytest.mark.parametrize("seed", range(1, 24, 2))
def test_a_linear_metric_reaches_the_linear_program_over_all_draws(seed):
    one = Tiny(seed, ["macro_recall", "hamming"][seed // 2 % 2])
    expected, found = one.best_drawn(), one.maximize(randomized=True)
    assert found.feasible == (expected is not None)
    if expected is None:
        assert found.status is confmax.optimize.Status.INFEASIBLE and "(proved)" in found.infeasibility
    else:
        assert found.value == pytest.approx(expected, abs=2e-6)
        assert expected - 1e-7 <= found.upper_bound <= expected + 2e-6


def table(n=400, labels=5, seed=0):
    rng = np.random.default_rng(seed)
    base = np.geomspace(0.4, 0.05, labels)
    P = 1 / (1 + np.exp(-(np.log(base / (1 - base)) + 1.5 * rng.normal(size=(n, labels)))))
    return P, (rng.random(P.shape) < P).astype(int)


@pytest.mark.parametrize(
    ("name", "decisions"),
    [
        *((name, 2) for name in ("macro_f1", "g_mean", "macro_recall")),
        *((name, ("at_most", 2)) for name in ("macro_f1", "micro_f1", "h_mean", "balanced_accuracy")),
    ],
)
def test_single_rules_of_a_model_come_near_the_bound(name, decisions):
    P, _ = table()
    limits = ["recall[3] >= 0.6", "precision[0] >= 0.55", "rate[1] <= 0.3"]
    found = confmax.maximize(name, P, decisions=decisions, constraints=limits, calibration=None)
    assert found.feasible and not found.rule.is_randomized
    assert 0.0 <= found.gap <= (0.005 if name == "macro_f1" else 1e-3)
    assert f"rule within the limits with {'no more' if decisions != 2 else 'as many'}" in found.guarantee
    D = found.predict(P)
    assert (D.sum(axis=1) == 2).all() if decisions == 2 else (D.sum(axis=1) <= 2).all()
    counted = [(P * D)[:, 3].sum() / P[:, 3].sum(), (P * D)[:, 0].sum() / D[:, 0].sum(), D[:, 1].mean()]
    assert [one.value for one in found.constraints] == pytest.approx(counted, abs=1e-9)
    # limits that all rules keep change nothing
    free = confmax.maximize(name, P, decisions=decisions, calibration=None)
    loose = confmax.maximize(name, P, decisions=decisions, calibration=None, constraints="rate[0] <= 1")
    assert free.value - 1e-4 <= loose.value <= free.upper_bound + 1e-9
    assert found.upper_bound <= loose.upper_bound + 1e-6


def test_hundreds_of_labels_have_a_close_bound():
    P, _ = table(120, 320)
    given = {"decisions": 3, "calibration": None, "randomized": True, "max_passes": 6}
    found = confmax.maximize("macro_f1", P, constraints="recall[3] >= 0.6", **given)
    assert found.feasible
    assert 0.0 <= found.gap <= 0.005


def test_the_price_is_what_a_looser_limit_is_worth():
    P, _ = table(4000)
    tight, loose = (
        confmax.maximize(
            "macro_f1", P, decisions=("at_most", 2), calibration=None, constraints=f"labels_per_row <= {most}"
        )
        for most in (0.8, 0.82)
    )
    (outcome,) = tight.constraints
    assert outcome.value == pytest.approx(0.8, abs=1e-3)
    assert outcome.price == pytest.approx((loose.value - tight.value) / 0.02, rel=0.1)


def test_every_value_of_one_coefficient_is_compared():
    """The statistics along a line, by sums, are those of the oracle at every place of it."""
    metric, compared = label_metrics.get("macro_f1"), 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, labels = int(rng.integers(3, 40)), int(rng.integers(2, 6))
        most = int(rng.integers(1, labels))
        P = rng.random((n, labels)).round(int(rng.integers(1, 3)))
        Y = (rng.random(P.shape) < P).astype(int)
        weight = rng.integers(1, 4, n).astype(float)
        decisions = decisions_of(("at_most", most + 1) if seed % 2 else most)
        oracle = CountingOracle(labels_table(decisions, P, Y, weight).oracle(rng.random(labels)))
        gain = Gains.reduced(rng.random(labels) + 0.1, 0.3 * rng.normal(size=labels))
        gain = working_gain(gain, P.dtype)
        for label, kind in itertools.product(range(labels), ("weight", "offset")):
            line = breakpoints(metric, oracle, gain, Coordinate(kind, label))
            if line is not None:
                values = line.best(-np.inf, 50)
                asked = metric.values(oracle.maximize(moved(gain, line.coordinate, values)))
                assert asked == pytest.approx(np.sort(line.values)[::-1][: len(values)], abs=1e-9)
                compared += len(values)
    assert compared > 1000


def test_what_no_rule_keeps_is_said_with_what_is_reached():
    P, Y = table(120)
    limits = ["recall[0] >= 0.8", "recall[1] >= 0.8"]
    with pytest.raises(confmax.Infeasible, match=r"\(proved\); loosen one of them") as raised:
        confmax.maximize("macro_f1", P, decisions=1, constraints=limits, calibration=None)
    most = 0.0
    for level in np.linspace(0.0, 1.0, 21):
        # the largest recall of label 0 beside the other limit: rows ordered by a mixture of both gains
        score = (1 - level) * P[:, 0] / P[:, 0].sum() - level * P[:, 1] / P[:, 1].sum()
        taken = np.append(0.0, np.cumsum(P[:, 0][np.argsort(-score)])) / P[:, 0].sum()
        left = 1 - np.append(0.0, np.cumsum(P[:, 1][np.argsort(-score)])) / P[:, 1].sum()
        most = max(most, taken[left >= 0.8].max())
    reached = float(str(raised.value).split("recall[0] reaches at most ")[1].split()[0])
    assert most - 1e-3 <= reached <= most + 0.02
    closest = raised.value.closest
    assert not closest.feasible and closest.upper_bound is None
    assert "misses the limits least" in closest.guarantee
    with pytest.raises(confmax.Infeasible, match=r"counts of labels prove nothing .* of the rules met, recall"):
        confmax.maximize("macro_f1", P, Y, decisions=1, constraints=limits)
    # of rules that decide all labels there is one
    with pytest.raises(confmax.Infeasible, match=r"rate\[0\] is at least 1 \(proved\)"):
        confmax.maximize("macro_f1", P[:, :2], Y[:, :2], decisions=2, constraints="rate[0] <= 0.5")


@pytest.mark.filterwarnings("ignore:no row of y has")
def test_a_limit_that_no_rule_moves_is_said_to_fail():
    given = {"decisions": 3, "confusion": "labels", "calibration": None}
    with pytest.raises(confmax.Infeasible, match=r"\[2\] reaches|npv\[2\] >= 0.17 at 0"):
        confmax.maximize(
            "micro_jaccard", [[0.1, 0.4, 0.2]] * 2, [[1, 1, 0], [0, 0, 1]], constraints="npv[2] >= 0.17", **given
        )


def test_no_single_rule_may_keep_what_a_draw_keeps():
    P = np.array([[0.9, 0.1], [0.9, 0.1]])
    given = {"decisions": 1, "constraints": "rate[0] <= 0.5", "calibration": None}
    drawn = confmax.maximize("hamming", P, **given)
    assert drawn.rule.is_randomized and drawn.constraints[0].value == pytest.approx(0.5)
    single = confmax.maximize("hamming", P, randomized=False, **given)
    assert single.feasible and not single.rule.is_randomized
    given["constraints"] = ["rate[0] <= 0.5", "rate[1] <= 0.5"]
    with pytest.raises(confmax.Infeasible, match=r"no single rule that keeps .* randomized=True"):
        confmax.maximize("hamming", P, randomized=False, **given)


def test_a_label_with_a_floor_on_its_precision_is_decided_for_one_row():
    P, _ = table(60, 3)
    free = confmax.maximize("hamming", P, decisions=1, calibration=None, constraints="rate[2] <= 0")
    assert free.feasible and free.statistics.columns[2] == 0.0
    limits = ["rate[2] <= 0.05", "precision[2] >= 0.1"]
    found = confmax.maximize("hamming", P, decisions=1, calibration=None, constraints=limits, randomized=False)
    assert found.feasible and 1 <= found.predict(P)[:, 2].sum() <= 3


def test_a_floor_holds_on_rows_that_did_not_tune_and_is_judged_there(tmp_path):
    X, Y = make_multilabel_classification(1600, 12, n_classes=5, n_labels=2, random_state=3)
    model = OneVsRestClassifier(LogisticRegression())
    P = model.fit(X[:400], Y[:400]).predict_proba(X)
    tuning, new = slice(400, 1000), slice(1000, None)
    limits = [c.recall(0) >= 0.85, c.rate(1) <= 0.4]
    found = confmax.maximize("macro_f1", P[tuning], Y[tuning], decisions=2, constraints=limits)
    assert found.feasible and found.upper_bound is None
    D = found.predict(P[new])
    assert D[:, 0][Y[new][:, 0] == 1].mean() == pytest.approx(0.85, abs=0.05)
    assert D[:, 1].mean() <= 0.44
    found.rule.save(tmp_path / "rule.json")
    rule = confmax.LabelRule.load(tmp_path / "rule.json")
    assert rule == found.rule and rule.constraints == ("recall[0] >= 0.85", "rate[1] <= 0.4")
    judged = confmax.score("macro_f1", P[new], Y[new], rule, n_replicates=0).limits["rule"]
    assert judged[0].value == pytest.approx(D[:, 0][Y[new][:, 0] == 1].mean())
    # the estimator and new shares of labels keep the same limits
    tuned = confmax.MetricMultilabelCV(model, metric="macro_f1", decisions=2, constraints=limits, cv=3).fit(X, Y)
    assert tuned.solution_.feasible and tuned.rule_.constraints == rule.constraints
    adapted = found.adapt(P[new], priors=[0.3, 0.2, 0.4, 0.5, 0.3])
    assert adapted.feasible and "within the limits" in adapted.guarantee


def test_sparse_rows_are_searched_as_they_are():
    P, Y = table(150)
    P = np.where(P > 0.1, P, 0.0)
    given = {"decisions": ("at_most", 2), "constraints": "recall[3] >= 0.6"}
    found = confmax.maximize("macro_f1", csr_array(P), Y, randomized=False, **given)
    D = found.predict(csr_array(P)).toarray()
    assert found.feasible
    assert found.constraints[0].label_value == pytest.approx((D * Y)[:, 3].sum() / Y[:, 3].sum())


def test_the_frontier_of_a_number_of_labels():
    P, Y = table(100, 3)
    path = confmax.frontier("hamming", "labels_per_row <=", P, Y, decisions=("at_most", 2), levels=[0.4, 0.2])
    assert path.levels.tolist() == [0.4, 0.2]
    assert (np.diff(path.values) <= 0.0).all()
    assert set(path.on_labels.marks) == {"top-2", "top-2 of p > 0.5"}
    ends = confmax.frontier("macro_recall", "recall[2] >=", P, decisions=1, levels=2, calibration=None)
    assert ends.levels[-1] == pytest.approx(1.0, abs=1e-3)
    high = confmax.frontier("macro_recall", "rate[2] <=", P, decisions=1, levels=2, calibration=None)
    assert high.levels[-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("estimate", ["model", "labels"])
def test_levels_share_what_is_found_without_limits(monkeypatch, estimate):
    searches = []
    found = budgets._without_limits
    monkeypatch.setattr(budgets, "_without_limits", lambda *given: searches.append(given) or found(*given))
    P, Y = table(40, 3)
    given = {"decisions": ("at_most", 2), "confusion": estimate, "calibration": None}
    levels = [0.8, 0.5]
    path = confmax.frontier("macro_f1", "labels_per_row <=", P, Y, levels=levels, **given)
    # the search for exactly two labels is one, too
    assert len(searches) == 2
    for level, value in zip(path.levels, path.values, strict=True):
        alone = confmax.maximize("macro_f1", P, Y, constraints=f"labels_per_row <= {level}", **given)
        # the best of tighter levels counts
        assert value >= alone.value - (1e-3 if estimate == "model" else 1e-12)
        assert path.at(level).upper_bound is None or path.at(level).upper_bound >= alone.value - 1e-9


@pytest.mark.usefixtures("inside")
def test_the_command_tunes_within_limits():
    P, Y = table(200, 3)
    names = ["sea", "sun", "rain"]
    lines = [",".join([*names, *(f"y_{name}" for name in names)])]
    lines += [",".join(map(str, [*p, *y])) for p, y in zip(P.round(6).tolist(), Y.tolist(), strict=True)]
    with open("table.csv", "w") as file:
        file.write("\n".join(lines))
    line = ("tune", "table.csv", "--labels", "y_sea,y_sun,y_rain", "--metric", "macro_f1", "--subject-to")
    found = document(*line, "recall[rain] >= 0.7", "--decisions", "1", "--randomized", "no", "-o", "rule.json")
    (limit,) = found["constraints"]
    assert limit["kept"] and limit["value"] >= 0.7 and limit["price"] >= 0.0
    assert found["rule"]["constraints"] == ["recall[rain] >= 0.7"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"constraints": "labels_per_row <= 1.5"},
            r"gives every row so many labels: labels_per_row cannot be limited; pass decisions=\('at_most', 2\)",
        ),
        ({"metric": lambda r, t, q: t.sum()}, "limits of several labels need a mean over labels"),
        ({"metric": "cohen_kappa"}, "cohen_kappa cannot be maximised with decisions=2"),
        ({"constraints": "accuracy >= 0.5"}, "accuracy is of no label"),
        ({"confidence": 0.9}, "confidence is of one class for every row"),
    ],
)
def test_what_cannot_be_limited_is_refused(change, sentence):
    P, Y = table(30, 3)
    given = {"metric": "macro_f1", "constraints": "recall[0] >= 0.5", "decisions": 2, **change}
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(given.pop("metric"), P, Y, **given)


@pytest.mark.parametrize("decisions", ["any", 2, ("at_most", 2)])
def test_a_floor_on_the_smallest_recall_is_one_on_every_label(decisions):
    P, Y = table(200, 4)
    Y[:, 2] = 0  # nobody can be asked for the recall of a label that no row has
    given = {"decisions": decisions, "classes": ["a", "b", "c", "d"], "on_infeasible": "closest"}
    with pytest.warns(UserWarning, match="no row of y has the label 'c'"):
        found = confmax.maximize("macro_f1", P, Y, constraints="min_recall >= 0.4", **given)
    assert found.feasible
    assert found.rule.constraints == ("recall[a] >= 0.4", "recall[b] >= 0.4", "recall[d] >= 0.4")
    assert min(one.value for one in found.constraints) >= 0.4
    with pytest.raises(ValueError, match="min_recall is a limit on every label, and a frontier moves one"):
        confmax.frontier("macro_f1", "min_recall >=", P, Y, decisions=decisions)
