"""Questions about one class are answered by one threshold: what people ask of it, and what is proved of it."""

import warnings
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

import confmax
from benchmarks import one_class as benchmark
from confmax import constraints as c
from confmax.calibration import Calibration, VectorScaling
from confmax.confusion import Confusion
from confmax.constraints.proportions import chances_of_counts, rows_for_floor
from confmax.optimize import Status
from confmax.optimize.class_cuts import ClassThreshold, Polygon, best_drawn_within, class_gains
from confmax.optimize.cuts import Cuts, shortest
from confmax.optimize.estimate import Estimate
from confmax.oracle import make_table
from confmax.solution.class_confidence import class_to_test
from confmax.solution.one_class import calibration_of_class
from confmax.tables import Table
from tests.parts_helpers import cut, labelled
from tests.witnesses import judged

NAMES = ["VF", "F", "M", "L"]


@pytest.fixture(scope="module")
def jobs():
    """Published predictions: even rows tune, odd rows are new."""
    frame = pd.read_csv(files("confmax") / "data" / "hpc_cv.csv")
    P = frame[NAMES].to_numpy()
    P, y = P / P.sum(axis=1, keepdims=True), frame["obs"].to_numpy()
    return P[::2], y[::2], P[1::2], y[1::2]


def on_new_rows(solution, jobs, name):
    """Return precision and recall of a class, and the accuracy, on new rows."""
    _, _, P, y = jobs
    decided = solution.predict(P)
    hits = ((decided == name) & (y == name)).sum()
    return hits / max((decided == name).sum(), 1), hits / (y == name).sum(), (decided == y).mean()


def accuracy_of_argmax_beside(solution, jobs, name):
    """Return the accuracy on new rows of the same decisions of a class, all other rows decided by argmax."""
    _, _, P, y = jobs
    others = P.copy()
    others[:, NAMES.index(name)] = -1.0
    decided = np.where(solution.predict(P) == name, name, np.array(NAMES)[others.argmax(axis=1)])
    return (decided == y).mean()


# --- what people ask --------------------------------------------------------------------------------------------------

# metric, limits, settings, the class, and precision and recall on new rows of one threshold that was found by hand
SENTENCES = [
    ("recall[L]", "precision[L] >= 0.9", {}, "L", 0.971, 0.320),
    ("recall[F]", "precision[F] >= 0.7", {}, "F", 0.69, 0.37),
    ("recall[VF]", "precision[VF] >= 0.9", {"confidence": 0.9}, "VF", 0.91, 0.59),
    ("accuracy", ["precision[L] >= 0.9", "recall[L] >= 0.3"], {}, "L", 0.970, 0.305),
    ("accuracy", "precision[L] >= 0.9", {}, "L", 0.970, 0.305),
    ("macro_f1", "precision[L] >= 0.9", {}, "L", 0.970, 0.305),
    ("recall[VF]", "precision[VF] >= 0.9", {}, "VF", 0.91, 0.59),
]


@pytest.mark.parametrize(("metric", "limits", "settings", "name", "precision", "recall"), SENTENCES)
def test_a_class_under_a_floor_is_decided_and_the_others_stay_right(
    jobs, metric, limits, settings, name, precision, recall
):
    P, y, _, _ = jobs
    solution = confmax.maximize(metric, P, y, classes=NAMES, constraints=limits, **settings)
    assert solution.feasible and not solution.rule.is_randomized
    found = on_new_rows(solution, jobs, name)
    # a metric of all classes takes the last rows that the floor allows: one more of 39 new rows is wrong
    assert found[0] >= precision - (0.05 if metric in ("accuracy", "macro_f1") else 0.04)
    assert found[1] >= recall - 0.04
    assert found[2] >= accuracy_of_argmax_beside(solution, jobs, name) - 0.01


def test_the_text_of_the_rule_is_one_comparison(jobs):
    P, y, _, _ = jobs
    solution = confmax.maximize("recall[VF]", P, y, classes=NAMES, constraints="precision[VF] >= 0.9")
    assert "decides VF if calibrated p(VF) >= 0.7" in repr(solution.rule)
    raw = confmax.maximize("recall[VF]", P, y, classes=NAMES, constraints="precision[VF] >= 0.9", confidence=0.9)
    assert repr(raw.rule).splitlines()[-1].startswith("  decides VF if p(VF) >= 0.8")
    assert raw.guarantee == (
        "every constraint holds on new rows with confidence 0.9: exact tests on all rows, which must be independent"
    )


def test_the_sentence_says_what_labels_show_and_the_model_expects(jobs):
    P, y, _, _ = jobs
    solution = confmax.maximize("recall[L]", P, y, classes=NAMES, constraints="precision[L] >= 0.9")
    assert solution.status is Status.ON_LABELS and solution.mode == "labels"
    outcome = solution.constraints[0]
    hits = round(outcome.label_value * outcome.label_rows)
    assert solution.guarantee == (
        f"precision[L] >= 0.9 is kept by {hits} of {outcome.label_rows} tuning rows, and the model expects 0.73; "
        f"not assured on new rows, unless you ask with a confidence"
    )
    assert outcome.label_rows >= rows_for_floor(0.9) == 22


def test_what_no_threshold_reaches_is_said_for_both_estimates(jobs):
    P, y, _, _ = jobs
    with pytest.raises(confmax.Infeasible) as caught:
        confmax.maximize("recall[M]", P, y, classes=NAMES, constraints="precision[M] >= 0.9")
    assert str(caught.value).startswith(
        "no threshold on p(M) keeps precision[M] >= 0.9: the model expects at most 0.777, and the labels show at most "
        "0.75 on 22 rows or more"
    )
    closest = confmax.maximize(
        "recall[M]", P, y, classes=NAMES, constraints="precision[M] >= 0.9", on_infeasible="closest"
    )
    assert not closest.feasible and closest.confusion[:, 2].sum() > 0.0


def test_flag_as_many_as_i_can(jobs):
    P, y, _, _ = jobs
    solution = confmax.maximize("rate[L]", P, y, classes=NAMES, constraints="precision[L] >= 0.7")
    flagged = on_new_rows(solution, jobs, "L")
    assert solution.feasible and flagged[0] >= 0.66
    with pytest.raises(ValueError, match=r"rate\[L\] is largest if every row is decided as L; limit it"):
        confmax.maximize("rate[L]", P, y, classes=NAMES)


def test_few_rows_of_a_class_are_no_reason_to_draw():
    """The class has eight rows: one of them moves its recall by more than the draw that keeps the floor exactly."""
    rng = np.random.default_rng(146)
    P = rng.dirichlet([0.25, 2, 2], 200)
    y = (P.cumsum(axis=1) > rng.random((200, 1))).argmax(axis=1)
    asked = {"constraints": "recall[0] >= 0.7", "calibration": None, "random_state": 0}
    found = confmax.maximize("accuracy", P, y, **asked)
    assert not found.rule.is_randomized and found.constraints[0].value == pytest.approx(0.7004, abs=1e-4)
    assert found.randomization_loss == pytest.approx(0.00921, abs=1e-5)
    # as many rows of 320 show that drawing gains; on labels alone they are taken as they are
    many = confmax.maximize("accuracy", np.tile(P, (40, 1)), np.tile(y, 40), **asked)
    assert many.rule.is_randomized and many.constraints[0].value == pytest.approx(0.7, abs=1e-6)
    assert confmax.maximize("accuracy", P, y, confusion="labels", **asked).rule.is_randomized


# --- against enumeration and programs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_tiny_populations(seed):
    """Against all thresholds and their mixtures."""
    assert judged(seed) in ("right", "infeasible", "refused")


@pytest.mark.parametrize("seed", range(0, 20, 4))
def test_the_polygon_is_that_of_a_linear_program(seed):
    """Limits that cut it, and the best corner, against a program over the weights of all thresholds."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([1.0, 0.7, 0.4], 30)
    table = make_table(P)
    cuts = Cuts.of(Estimate.alike(table, 1.0).one_class(2))
    limits = c.bind(["precision[2] >= 0.5", f"rate[2] <= {0.1 + 0.02 * seed}"], table, explicit=True).of_class(1, 2)
    functions = limits.functions(cuts.confusions.rows, 2)
    metric = confmax.metrics.get("recall[2]").numbered(3).of_class(1, 2)
    found = best_drawn_within(cuts.confusions, metric, functions)
    heights, values = functions.values(cuts.confusions), metric.values(cuts.confusions)
    program = linprog(-values, A_ub=-heights.T, b_ub=np.zeros(2), A_eq=np.ones((1, len(values))), b_eq=[1.0])
    assert found.value == pytest.approx(-program.fun, abs=1e-9)
    assert found.weights.sum() == pytest.approx(1.0) and len(found.weights) <= 3
    S = cuts.confusions[found.index].mix(found.weights)
    assert float(metric.values(S)) == pytest.approx(found.value, abs=1e-12)
    assert (functions.values(S) >= -1e-12).all()
    # a price is the change of the value by the limit's function
    shifted = Polygon.of(cuts.confusions).within(functions, np.array([1e-4, 0.0]))
    assert (shifted.best(metric).value - found.value) / 1e-4 == pytest.approx(found.prices[0], abs=1e-3)


def test_a_polygon_of_which_nothing_is_left():
    confusions = Confusion(np.array([0.5, 0.5]), np.array([[0.5, 0.0], [0.0, 0.5]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert Polygon.of(confusions).cut_off(np.array([-1.0, -1.0])) is None


def test_the_rows_below_the_threshold_are_decided_for_accuracy():
    """Of thresholds that are equally good for the metric, the one that is right most often is returned."""
    P = np.array([[0.5, 0.3, 0.2], [0.45, 0.35, 0.2], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.05, 0.05, 0.9]])
    y = [0, 0, 1, 2, 2]
    solution = confmax.maximize("recall[2]", P, y, confusion="labels", calibration=None, constraints="rate[2] <= 0.9")
    assert solution.value == 1.0
    # every threshold up to .7 has the recall 1
    assert (solution.predict(P) == y).all()


# --- one threshold everywhere -----------------------------------------------------------------------------------------


def sample(n=600, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([1.0, 0.8, 0.5], n)
    return P, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def test_a_draw_is_returned_only_where_it_is_asked_for():
    """Ten equal rows: at most .3 of them can be flagged by a draw alone."""
    P = [[0.3, 0.3, 0.4]] * 10
    settings = {"constraints": ["rate[2] <= 0.3", "rate[2] >= 0.2"], "confusion": "model"}
    with pytest.raises(confmax.Infeasible, match="randomized=True returns one that draws and keeps them"):
        confmax.maximize("recall[2]", P, **settings)
    drawn = confmax.maximize("recall[2]", P, randomized=True, **settings)
    assert drawn.rule.is_randomized and drawn.constraints[0].value == pytest.approx(0.3, abs=1e-9)
    assert drawn.gap == pytest.approx(0.0, abs=1e-9)


def test_the_solver_can_be_named_and_refuses_what_it_cannot_search():
    P, y = sample(100)
    named = confmax.maximize("f1[2]", P, y, solver="class_threshold")
    assert repr(named.rule) == repr(confmax.maximize("f1[2]", P, y, solver=ClassThreshold()).rule)
    with pytest.raises(ValueError, match="ClassThreshold searches a threshold for one class, and macro_f1 reads"):
        confmax.maximize("macro_f1", P, y, solver="class_threshold")
    with pytest.raises(ValueError, match=r"takes limits on the class of its metric recall\[2\] alone"):
        confmax.maximize("recall[2]", P, y, solver="class_threshold", constraints="recall[1] >= 0.2")


def test_a_threshold_is_a_short_number_between_two_probabilities():
    P, y = sample(300)
    cuts = Cuts.of(Estimate.alike(make_table(P, y), 0.0).one_class(2))
    for index in range(0, len(cuts), 25):
        number = shortest(*cuts.ends(index), np.dtype(np.float64), closed=True)
        assert ((P[:, 2] >= number).sum() if np.isfinite(number) else index and 300) == cuts.rows[index]
    assert len(repr(float(shortest(*cuts.ends(150), np.dtype(np.float64), closed=True)))) <= 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_class_is_decided_where_its_probability_is_the_threshold(dtype):
    P = np.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25], [0.0, 0.75, 0.25]], dtype=dtype)
    for k in range(3):
        rule = confmax.DecisionRule(class_gains(np.array([0.25]), k, 3), np.ones(1), (0, 1, 2))
        expected = np.where(P[:, k] >= 0.25, k, np.where(np.arange(3) == k, -1, P).argmax(axis=1))
        assert rule.predict_index(P).tolist() == expected.tolist()
    never, always = (
        confmax.DecisionRule(class_gains(np.array([v]), 1, 3), np.ones(1), (0, 1, 2)) for v in (np.inf, -np.inf)
    )
    assert (never.predict_index(P) != 1).all() and (always.predict_index(P) == 1).all()


# --- the order of the rows --------------------------------------------------------------------------------------------


def tilted(n, seed):
    """Return rows whose last class is right as it is, and of whose first two the model favours one four times."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([1.0, 1.0, 0.5], n)
    y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    rest = P[:, :2] * [4.0, 1.0]
    return np.c_[rest / rest.sum(axis=1, keepdims=True) * (1.0 - P[:, 2:]), P[:, 2:]], y


@pytest.mark.parametrize("settings", [{}, {"confidence": 0.9}, {"confusion": "labels"}, {"randomized": True}], ids=str)
def test_a_class_keeps_its_probability_and_the_others_are_calibrated(settings, tmp_path):
    P, y = tilted(3000, 0)
    new, truth = tilted(5000, 1)
    found = confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.6", **settings)
    calibrator = found.rule.calibrator
    assert calibrator.kept == 2 and (calibrator.transform(new)[:, 2] == new[:, 2]).all()
    decided = found.predict(new)
    raw = np.where(decided == 2, 2, new[:, :2].argmax(axis=1))
    assert (decided == truth).mean() > (raw == truth).mean() + 0.05
    cut = new[decided == 2, 2].min()
    assert settings.get("randomized") or cut > new[decided != 2, 2].max()
    assert found.calibration.log_loss_after < found.calibration.log_loss_before
    assert found.calibration.cv_log_loss_after == pytest.approx(found.calibration.log_loss_after, abs=0.01)
    again = confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.6", calibration=found.calibration)
    assert again.rule.calibrator == calibrator
    path = tmp_path / "rule.json"
    found.rule.save(path)
    assert (confmax.DecisionRule.load(path).predict_index(new) == found.rule.predict_index(new)).all()
    if not found.rule.is_randomized:
        assert "p(2) >=" in repr(found.rule) and "calibrated p(2)" not in repr(found.rule)
        assert "the most probable other class by calibrated p" in repr(found.rule)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kept_probability_of_one_and_rounding(dtype):
    """Rows may sum to a little more than one; nothing is left for the others then."""
    calibrator = VectorScaling([2.0, 0.5, 1.0], [0.3, 0.0, -0.2], kept=1)
    P = np.array([[0.0, 1.0 + 4 * np.finfo(dtype).eps, 0.0], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]], dtype)
    out = calibrator.transform(P)
    assert (out >= 0.0).all() and (out[:, 1] == P[:, 1]).all() and np.abs(out.sum(axis=1) - 1.0).max() < 1e-6
    rule = confmax.DecisionRule(class_gains(np.array([0.4]), 1, 3), np.ones(1), ("a", "b", "c"), calibrator=calibrator)
    assert rule.predict(P).tolist() == ["b", "b", "c"]


@pytest.mark.parametrize("kept", [3, -1, 1.5, True, "a"])
def test_a_kept_class_is_a_column(kept):
    with pytest.raises(ValueError, match="kept is a column of 3 classes; got "):
        VectorScaling(np.ones(3), np.zeros(3), kept=kept)


def test_the_calibration_of_another_class_is_compared_without_its_exception():
    P, y = tilted(1500, 0)
    asked = {"constraints": "precision[2] >= 0.6", "confidence": 0.9}
    fresh = confmax.maximize("recall[2]", P, y, **asked)
    other = replace(fresh.calibration, calibrator=replace(fresh.rule.calibrator, kept=0))
    again = confmax.maximize("recall[2]", P, y, calibration=other, **asked)
    assert again.rule == fresh.rule and again.calibration.cv_log_loss == fresh.calibration.cv_log_loss


# --- confidence -------------------------------------------------------------------------------------------------------


def test_an_order_statistic_is_exact():
    """The number of rows flagged under a ceiling is the largest that a binomial allows."""
    P, y = sample(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = confmax.maximize("recall[2]", P, y, constraints="rate[2] <= 0.2", confidence=0.9)
    n = max(n for n in range(301) if binom.cdf(n, 300, 0.2) <= 0.1)
    assert (found.predict(P) == 2).sum() == n
    assert found.constraints[0].assured and found.tested_on == "all rows"
    floor = confmax.maximize("precision[2]", P, y, constraints="recall[2] >= 0.5", confidence=0.9)
    n_class = (y == 2).sum()
    hits = ((floor.predict(P) == 2) & (y == 2)).sum()
    assert binom.sf(hits - 1, n_class, 0.5) <= 0.1 < binom.sf(hits - 2, n_class, 0.5)


def test_p_values_are_scipys():
    counts = np.arange(0, 21)
    np.testing.assert_allclose(chances_of_counts(counts, 20, 0.3, is_floor=True), binom.sf(counts - 1, 20, 0.3))
    np.testing.assert_allclose(chances_of_counts(counts, 20, 0.3, is_floor=False), binom.cdf(counts, 20, 0.3))
    assert chances_of_counts([0], [0], 0.3, is_floor=False) == 1.0
    assert chances_of_counts([3], [9], 1.0, is_floor=False) == 0.0


def test_the_nearest_rule_to_a_floor_beyond_reach_misses_it_by_least():
    """Few rows have the smallest p-value there, since they say least; they are not nearer to the floor."""
    P, y = sample(2000)
    settings = {"constraints": "precision[2] >= 0.99", "confidence": 0.9}
    with pytest.raises(confmax.Infeasible, match=r"no threshold on p\(2\) keeps precision\[2\] >= 0.99"):
        confmax.maximize("recall[2]", P, y, **settings)
    found = confmax.maximize("recall[2]", P, y, **settings, on_infeasible="closest")
    assert not found.constraints[0].assured and not found.feasible
    order = np.argsort(-P[:, 2])
    shares = np.cumsum(y[order] == 2) / np.arange(1, 2001)
    least = rows_for_floor(0.99)
    assert found.constraints[0].value == pytest.approx(shares[least - 1 :].max())
    assert found.constraints[0].label_rows >= least


def test_where_nothing_passes_the_nearest_rule_says_how_many_rows_are_needed():
    P, y = sample(200)
    with pytest.warns(
        UserWarning, match=r"precision\[2\] >= 0.7 \(kept by \d+ of \d+ rows; about [\d,]+ such rows are n"
    ):
        found = confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.7", confidence=0.99)
    assert not found.constraints[0].assured and (found.predict(P) == 2).any()
    with pytest.raises(confmax.Infeasible, match=r"no threshold on p\(2\) keeps precision\[2\] >= 0.85"):
        confmax.maximize("recall[2]", P[:60], y[:60], constraints="precision[2] >= 0.85", confidence=0.9)
    # the highest floor that is kept on 14 rows or more, and is just met there
    shares = np.cumsum(y[np.argsort(-P[:60, 2])] == 2) / np.arange(1, 61)
    limit = f"precision[2] >= {float(shares[13:].max())!r}"
    with pytest.warns(UserWarning, match="missed or just met there: loosen the limit"):
        confmax.maximize("recall[2]", P[:60], y[:60], constraints=limit, confidence=0.9)


def test_copies_of_rows_are_warned_of():
    P, y = sample(200)
    with pytest.warns(UserWarning, match="600 rows repeat the probabilities of another row"):
        confmax.maximize(
            "recall[2]", np.repeat(P, 4, axis=0), np.repeat(y, 4), constraints="rate[2] <= 0.2", confidence=0.9
        )


def test_what_is_tested_on_all_rows():
    table = make_table(*sample(100))
    precision, recall = (confmax.metrics.get(f"{name}[2]").numbered(3) for name in ("precision", "recall"))
    assert precision.formula.side == "decided" and recall.formula.side is None

    def tested(*limits):
        return class_to_test(recall, c.bind(limits, table, explicit=True), 3)

    assert tested("precision[2] >= 0.5", "rate[2] <= 0.1") == 2
    assert tested("precision[2] <= 0.5") is None
    assert tested("recall[1] >= 0.5") is None


@pytest.mark.parametrize(("seed", "floor"), [(0, 0.8), (1, 0.95), (2, 0.999)])
def test_a_floor_on_the_npv_is_one_on_the_precision_of_the_other_class(seed, floor):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.6, 0.9], 400)
    y = (rng.random(400) < P[:, 1]).astype(int)
    settings = {"confidence": 0.9, "calibration": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = confmax.maximize("specificity[1]", P, y, constraints=f"npv[1] >= {floor}", **settings)
        mirrored = confmax.maximize("recall[0]", P, y, constraints=f"precision[0] >= {floor}", **settings)
    (one,), (other,) = found.constraints, mirrored.constraints
    assert found.tested_on == "all rows" and found.value == pytest.approx(mirrored.value, abs=1e-12)
    assert (one.assured, one.label_rows, one.rows_needed) == (other.assured, other.label_rows, other.rows_needed)
    assert one.label_value == pytest.approx(other.label_value, abs=1e-12)


def test_a_population_keeps_what_is_assured():
    """A sample of the benchmark: violated in at most a tenth of the samples, and two standard errors."""
    curve = benchmark.curves()[1]
    violated = 0
    for seed in range(15):
        P, y = curve.sample(300, seed)
        found = benchmark.quietly("recall[2]", P, y, classes=range(3), constraints="rate[2] <= 0.15", confidence=0.9)
        violated += curve.values(benchmark.threshold_of(found.rule))["rate"] > 0.15
    assert violated <= 15 * (0.1 + 2 * np.sqrt(0.1 * 0.9 / 15))


# --- what is no question of a threshold from the top ------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:of the rows the rule decides")
@pytest.mark.parametrize(
    ("metric", "limit"),
    [
        ("f1[0]", "precision[0] <= 0.3"),
        ("rate[0]", "recall[0] <= 0.5"),
        ("recall[0]", "f1[0] <= 0.4"),
        ("f1[0]", "fpr[0] >= 0.2"),
    ],
)
def test_limits_that_small_probabilities_keep_have_a_valid_bound(metric, limit):
    """The most attainable is above what thresholds from the top reach; a program over all rows is the witness."""
    P = np.random.default_rng(1).dirichlet(np.ones(3), 40)
    found = confmax.maximize(metric, P, constraints=limit, confusion="model", randomized=True)
    other = confmax.maximize(metric, P, constraints=limit, confusion="model", randomized=True, solver="auto", tol=1e-9)
    p = P[:, 0]
    hits, prior = p / len(p), p.mean()
    top = {"f1": 2 * hits, "rate": np.full(40, 1 / 40), "recall": hits / prior}[metric.split("[")[0]]
    # the ratio 2 h / (c + prior) is a program in h and c by the change of variables of Charnes and Cooper
    limits = {
        "precision[0] <= 0.3": (hits - 0.3 / 40, 0.0),
        "recall[0] <= 0.5": (hits / prior, 0.5),
        "f1[0] <= 0.4": (2 * hits - 0.4 / 40, 0.4 * prior),
        "fpr[0] >= 0.2": (-(1 / 40 - hits) / (1 - prior), -0.2),
    }[limit]
    below = np.append(np.full(40, 1 / 40), prior) if metric == "f1[0]" else np.append(np.zeros(40), 1.0)
    program = linprog(
        -np.append(top, 0.0), A_ub=np.vstack([np.append(limits[0], -limits[1]), np.c_[np.eye(40), -np.ones(40)]]),
        b_ub=np.zeros(41), A_eq=below[None], b_eq=[1.0],
    )  # fmt: skip
    assert found.value == pytest.approx(-program.fun, abs=1e-6) and found.upper_bound >= -program.fun - 1e-9
    assert other.value == pytest.approx(found.value, abs=1e-6)


def test_labels_are_not_asked_beside_abstaining():
    P, y = sample(60)
    with pytest.raises(confmax.Infeasible):
        confmax.maximize("accuracy", P, y, constraints=["precision[1] >= 0.95", "rate[1] >= 0.3"], abstain=True)


def test_a_run_that_was_stopped_says_nothing_of_all_thresholds():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 300)
    y = np.array([rng.choice(3, p=p) for p in P])
    settings = {"constraints": "precision[2] >= 0.8", "calibration": None}
    assert confmax.maximize("recall[2]", P, y, **settings).feasible
    with pytest.raises(confmax.Infeasible, match=r"was met in \d passes"):
        confmax.maximize("recall[2]", P, y, **settings, callback=lambda progress: True)


@pytest.mark.parametrize("settings", [{"calibration": "temperature"}, {"confusion": "model"}, {"randomized": True}])
@pytest.mark.filterwarnings("ignore:not assured with confidence")
def test_settings_that_a_threshold_on_raw_probabilities_cannot_keep_split_the_rows(settings):
    P, y = sample(600)
    found = confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.5", confidence=0.9, **settings)
    assert found.tested_on == "other rows"


def test_a_rare_class_with_a_high_precision_is_assured():
    """The sum of the probabilities names more rows than keep the limit; a start at few rows finds those that do."""
    rng = np.random.default_rng(0)
    p = np.where(rng.random(20_000) < 0.02, rng.beta(60, 2, 20_000), rng.beta(1, 9, 20_000))
    y = (rng.random(20_000) < p).astype(int)
    found = confmax.maximize("recall[1]", np.c_[1 - p, p], y, constraints="precision[1] >= 0.9", confidence=0.9)
    assert found.constraints[0].assured and (found.predict(np.c_[1 - p, p]) == 1).sum() > 400


def test_on_the_model_the_best_draw_bounds_the_threshold():
    P, _ = sample(50)
    found = confmax.maximize("recall[2]", P, constraints="precision[2] >= 0.6", confusion="model")
    drawn = confmax.maximize("recall[2]", P, constraints="precision[2] >= 0.6", confusion="model", randomized=True)
    assert found.value <= drawn.value == pytest.approx(found.upper_bound, abs=1e-9)
    assert found.gap == pytest.approx(found.randomization_loss, abs=1e-9)
    loose, tight = (
        confmax.maximize("recall[2]", P, constraints=f"precision[2] >= {limit!r}", randomized=True).value
        for limit in (0.6 - 1e-4, 0.6 + 1e-4)
    )
    assert drawn.constraints[0].price == pytest.approx((loose - tight) / 2e-4, rel=0.05)


def test_the_order_is_that_of_the_smaller_left_out_loss():
    """A calibration that turns the order of a class round is left out for it, one that mends it is kept."""
    P, y = sample(800)
    table = make_table(P, y).head
    fitted = Calibration("vector", VectorScaling(np.ones(3), np.zeros(3)), 1.0, 1.0)
    worse = P.copy()
    worse[:, 2] = np.random.default_rng(0).permutation(worse[:, 2])
    worse /= worse.sum(axis=1, keepdims=True)
    left_out = Table.of(replace(table, proba=worse, raw=table))
    found, rows = calibration_of_class(fitted, left_out, 2, Table.of(table))
    assert found.calibrator is None and rows.head is table
    turned = Table.of(replace(table, proba=P, raw=replace(table, proba=worse)))
    assert calibration_of_class(fitted, turned, 2, Table.of(table)) == (fitted, turned)


def test_a_class_that_no_calibration_changes_is_left_alone():
    """Where the others are right as often without a calibration there is none."""
    P, y = sample(3000)
    found = confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.6")
    assert found.rule.calibrator is None


def test_a_draw_is_not_the_way_to_a_floor_that_few_rows_keep():
    """Three rows of three are right, which the model does not expect of a precision of .999."""
    P, y = sample(2000)
    with pytest.raises(confmax.Infeasible, match=r"no threshold on p\(2\) .* \(2,302 would be needed to show it\)"):
        confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.999")
    for randomized in (True, "auto"):
        with pytest.raises(confmax.Infeasible, match="the model expects at most"):
            confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.999", randomized=randomized)


def test_a_perfect_class_under_a_floor_that_few_rows_cannot_show():
    """No row is wrong at the natural threshold, and more rows of the class are not there."""
    y = np.arange(200) % 3
    P = np.full((200, 3), 0.05)
    P[np.arange(200), y] = 0.9
    P += np.random.default_rng(0).uniform(0.0, 0.02, P.shape)
    P /= P.sum(axis=1, keepdims=True)
    with pytest.warns(UserWarning, match=r"kept by 66 of 66 rows; about \d+ such rows are needed"):
        found = confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.99", confidence=0.9)
    assert (found.predict(P) == y).all()


def test_several_limits_must_all_pass():
    P, y = sample(2000)
    both = confmax.maximize("recall[2]", P, y, constraints=["precision[2] >= 0.5", "rate[2] <= 0.1"], confidence=0.9)
    assert [one.assured for one in both.constraints] == [True, True]
    assert (both.predict(P) == 2).mean() < 0.1


def test_a_floor_on_the_npv_is_tested_on_all_rows_of_several_classes():
    P, y = sample(600)
    limits = ["npv[2] >= 0.9", "rate[2] <= 0.5"]
    found = confmax.maximize("specificity[2]", P, y, constraints=limits, confidence=0.9)
    assert found.tested_on == "all rows" and [one.assured for one in found.constraints] == [True, True]
    assert found.constraints[0].label_rows == (found.predict(P) != 2).sum()


def test_what_labels_show_is_that_of_both_orders_of_the_rows():
    """The raw probability orders the rows better here than the calibrated one, and both are searched on labels."""
    rng = np.random.default_rng(11)
    Z = rng.normal(size=(500, 3))
    y = (Z + 1.2 * rng.gumbel(size=(500, 3)) + [1.0, 0.0, -1.2]).argmax(axis=1)
    P = np.exp(2.5 * Z)
    P /= P.sum(axis=1, keepdims=True)
    with pytest.raises(confmax.Infeasible) as told:
        confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.9")
    right = np.cumsum(y[np.argsort(-P[:, 2])] == 2) / np.arange(1, 501)
    assert f"the labels show at most {right[21:].max():.3g} on 22 rows or more" in str(told.value)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("confusion", ["blend", "labels"])
def test_rows_in_parts_are_counted_around_the_threshold_of_a_sample(confusion):
    P, y, _ = labelled(6000, 3, sharp=1.3)
    asked = {"constraints": "precision[1] >= 0.55", "confusion": confusion, "random_state": 0}
    here = confmax.maximize("recall[1]", P, y, **asked)
    there = confmax.maximize("recall[1]", cut(P, y, at=(1000, 3500)), **asked)
    assert here.feasible and there.feasible
    assert there.value == pytest.approx(here.value, abs=0.03)
    assert there.status is Status.FINISHED and there.n_passes <= 8
    rows = there.rule.predict_index(P) == 1
    assert (y[rows] == 1).mean() >= 0.55 - 0.02
