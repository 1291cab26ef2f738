"""Scores: values by scikit-learn, draws by enumeration and by a bootstrap of rows, intervals by their coverage."""

import json
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as reference

import confmax
from confmax.confusion import Gains
from confmax.evaluate import bootstrap as _bootstrap
from confmax.oracle import make_oracle, make_table
from confmax.populations import continuous_example, population_confusion
from confmax.tables.weights import EQUAL

REFERENCE = {
    "accuracy": reference.accuracy_score,
    "macro_f1": lambda y, d, **kw: reference.f1_score(
        y, d, average="macro", labels=np.unique(y), zero_division=0, **kw
    ),
    "cohen_kappa": reference.cohen_kappa_score,
}


@pytest.fixture
def sample():
    """Rows of three classes, a rule, and the decisions of all rules by NumPy."""
    population = continuous_example()
    X, y = population.sample(240, 3)
    P = population.eta(X)
    weights = np.array([1.0, 1.7, 4.0])
    prior = np.bincount(y) / len(y)
    decided = {"argmax": P.argmax(1), "p/prior": (P / prior).argmax(1), "rule": (P * weights).argmax(1)}
    return P, y, confmax.DecisionRule.from_weights(weights), decided


def weights_of(kind, n):
    rng = np.random.default_rng(5)
    return {"none": None, "few": rng.integers(1, 4, n).astype(float), "many": rng.gamma(1.0, size=n) + 0.01}[kind]


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "few", "many"])
def test_values_are_scikit_learns(sample, kind):
    P, y, rule, decided = sample
    w = weights_of(kind, len(y))
    if w is not None:
        prior = np.bincount(y, weights=w) / w.sum()
        decided["p/prior"] = (P / prior).argmax(1)
    found = confmax.score(list(REFERENCE), P, y, rule, sample_weight=w, n_replicates=0)
    assert found.rules == ("argmax", "p/prior", "rule")
    for metric, judge in REFERENCE.items():
        for name, decisions in decided.items():
            value, low, high = found.estimate(name, metric)
            assert value == pytest.approx(judge(y, decisions, sample_weight=w), abs=1e-12)
            assert low is None and high is None


def test_every_kind_of_rule_has_its_exact_value(sample):
    """A randomised rule has its expectation, a calibrated one calibrates; the oracle is the witness."""
    P, y, _, _ = sample
    two = Gains.reduced([[1.0, 1.0, 3.0], [1.0, 2.0, 1.0]], [[0.0, 0.1, 0.0], [0.0, 0.0, 0.2]])
    rules = {
        "mixture": confmax.DecisionRule(two, np.array([0.3, 0.7]), (0, 1, 2)),
        "calibrated": confmax.maximize("g_mean", P, y, calibration="vector").rule,
        "full": confmax.DecisionRule(Gains.from_matrix(np.random.default_rng(0).random((3, 3))), np.ones(1), (0, 1, 2)),
        "kappa": confmax.maximize("quadratic_kappa", P, y).rule,
    }
    names = ["macro_f1", "g_mean", "quadratic_kappa", "mcc"]
    with pytest.warns(UserWarning, match="that the rules calibrated and kappa were tuned on"):
        found = confmax.score(names, P, y, rules=rules, n_replicates=100)
    oracle = make_oracle(make_table(P, y), "labels")
    for name, rule in rules.items():
        S = rule.evaluate(oracle, matrix=True)
        for metric in names:
            assert found.estimate(name, metric).value == pytest.approx(
                float(confmax.metrics.get(metric).values(S)), abs=1e-12
            )
    assert np.isfinite(found.replicates).all()


def test_decisions_made_elsewhere_are_judged_too(sample):
    P, y, rule, decided = sample
    names = np.array(["x", "y", "z"])
    found = confmax.score(
        "macro_f1", P, names[y], rules={"theirs": names[decided["rule"]], "ours": rule, "p/prior": names[y]},
        classes=names.tolist(),
    )  # fmt: skip
    assert found.rules == ("argmax", "p/prior", "theirs", "ours")
    assert found.difference("theirs", "ours") == (0.0, 0.0, 0.0, 0.0)
    assert found.estimate("p/prior") == (1.0, 1.0, 1.0), "a given rule takes the place of the plain one"


def test_columns_are_in_the_order_of_the_rule(sample):
    """The rule's names say which column is which; sorted labels would not."""
    P, y, _, decided = sample
    names = np.array(["mild", "grave", "dead"])
    rule = confmax.DecisionRule.from_weights([1.0, 1.7, 4.0], classes=names.tolist())
    expected = reference.f1_score(y, decided["rule"], average="macro")
    found = confmax.score("macro_f1", P, names[y], rule, n_replicates=0)
    assert found.estimate("rule").value == pytest.approx(expected, abs=1e-12)
    turned = confmax.score("macro_f1", P[:, [2, 0, 1]], names[y], rule, classes=["dead", "mild", "grave"])
    assert turned.estimate("rule").value == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match="different orders"):
        confmax.score("macro_f1", P, names[y], rules={"a": rule, "b": rule.reordered(["dead", "mild", "grave"])})


def test_more_decisions_than_classes():
    """An abstaining rule has its cost; what counts decisions of classes is not defined for it, which is said."""
    P = np.random.default_rng(0).dirichlet(np.ones(2), 200)
    y = (np.random.default_rng(1).random(200) < P[:, 1]).astype(int)
    cost = confmax.metrics.get("linear", cost=[[0.0, 1.0, 0.3], [1.0, 0.0, 0.3]])
    solution = confmax.maximize(cost, P, y)
    assert solution.rule.n_decisions == 3
    rule = replace(solution.rule, tuned_on=None)  # these rows tuned it, which is no matter here
    with pytest.warns(UserWarning, match="macro_f1 has no finite value for rule"):
        found = confmax.score([cost, "macro_f1", "balanced_accuracy"], P, y, rule)
    assert found.estimate("rule", "linear").value == pytest.approx(solution.label_value, abs=1e-12)
    assert found.estimate("argmax", "linear").value == pytest.approx(-np.mean(P.argmax(1) != y), abs=1e-12)
    assert np.isnan(found.estimate("rule", "macro_f1").value)
    assert np.isfinite(found.estimate("rule", "balanced_accuracy").low)


def test_tensors(sample):
    torch = pytest.importorskip("torch")
    P, y, rule, _ = sample
    host, tensor = (confmax.score("macro_f1", t, y, rule, n_replicates=60) for t in (P, torch.from_numpy(P)))
    np.testing.assert_array_equal(host.replicates, tensor.replicates)


# --- draws -----------------------------------------------------------------------------------------------------------

TINY = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 2, 0])


@pytest.mark.parametrize("few", [0, 8], ids=["by cells", "by rows"])
@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("weight", [None, [2.0, 2.0, 1.0, 2.0, 0.5]], ids=["plain", "weighted"])
def test_draws_have_the_distribution_of_all_draws(monkeypatch, few, stratified, weight):
    """Enumeration: of all n^n ways to draw n rows (within classes), each confusion has its share of the replicates."""
    monkeypatch.setattr(_bootstrap, "FEW_ROWS", few)
    y, d = TINY
    n, B = len(y), 5000
    w = np.ones(n) if weight is None else np.array(weight)
    choices = [np.flatnonzero(y == y[i]) if stratified else np.arange(n) for i in range(n)]
    values, counts = np.unique(
        [np.round(w[list(rows)] @ (y == d)[list(rows)] / w[list(rows)].sum(), 9) for rows in product(*choices)],
        return_counts=True,
    )
    P = np.full((n, 3), 1 / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = confmax.score("accuracy", P, y, d, sample_weight=weight, stratified=stratified, n_replicates=B)
    drawn, times = np.unique(np.round(found.replicates[0, 2], 9), return_counts=True)
    assert set(drawn) <= set(values)
    seen = np.zeros(len(values))
    seen[np.searchsorted(values, drawn)] = times
    share = counts / counts.sum()
    assert (np.abs(seen / B - share) < 4.5 * np.sqrt(share * (1 - share) / B)).all()


@pytest.mark.parametrize("kind, stratified", [("many", False), ("few", True)])
def test_replicates_are_those_of_a_bootstrap_of_rows(sample, kind, stratified):
    """An independent bootstrap, indices by NumPy and metrics by scikit-learn, has the same distributions."""
    P, y, rule, decided = sample
    w, B = weights_of(kind, len(y)), 60
    if w is not None:
        decided["p/prior"] = (P / (np.bincount(y, weights=w) / w.sum())).argmax(1)
    rng = np.random.default_rng(17)
    by_rows = np.empty((len(REFERENCE), 3, B))
    for b in range(B):
        rows = rng.integers(0, len(y), len(y))
        if stratified:
            rows = np.concatenate([rng.choice(np.flatnonzero(y == k), (y == k).sum()) for k in range(3)])
        for m, judge in enumerate(REFERENCE.values()):
            for r, decisions in enumerate(decided.values()):
                by_rows[m, r, b] = judge(y[rows], decisions[rows], sample_weight=None if w is None else w[rows])
    found = confmax.score(list(REFERENCE), P, y, rule, sample_weight=w, stratified=stratified, n_replicates=1000)
    for m in range(len(REFERENCE)):
        for r in range(3):
            assert stats.ks_2samp(found.replicates[m, r], by_rows[m, r]).pvalue > 1e-3
        paired = found.replicates[m, 2] - found.replicates[m, 0], by_rows[m, 2] - by_rows[m, 0]
        assert stats.ks_2samp(*paired).pvalue > 1e-3
        assert np.std(paired[0]) < 0.9 * np.hypot(np.std(found.replicates[m, 2]), np.std(found.replicates[m, 0]))


def test_replicates_do_not_depend_on_the_order_of_rows(sample):
    P, y, rule, _ = sample
    mixed = np.random.default_rng(0).permutation(len(y))
    one, other = (confmax.score("macro_f1", P[i], y[i], rule, n_replicates=80) for i in (slice(None), mixed))
    np.testing.assert_array_equal(one.replicates, other.replicates)
    assert (confmax.score("macro_f1", P, y, rule, random_state=1).replicates[:, :, :80] != one.replicates).any()


def test_rules_that_decide_alike_differ_by_exactly_nothing(sample):
    P, y, rule, _ = sample
    w = weights_of("many", len(y))
    names = [name for name in confmax.metrics.names() if name != "linear" and not confmax.metrics.get(name).binary]
    scaled = confmax.DecisionRule.from_weights(np.array([1.0, 1.7, 4.0]) * 8)
    found = confmax.score(names, P, y, rules={"a": rule, "b": scaled}, sample_weight=w, n_replicates=60)
    assert len(found.metrics) == len(names)
    for name in found.metrics:
        assert found.difference("a", "b", name) == (0.0, 0.0, 0.0, 0.0)
        d, e = found.difference("a", "argmax", name), found.difference("argmax", "a", name)
        assert (d.value, d.low, d.high) == (-e.value, -e.high, -e.low)


def test_rows_of_weight_zero_are_left_out(sample):
    P, y, rule, _ = sample
    w = weights_of("few", len(y))
    w[::3] = 0
    kept = w > 0
    with_zeros = confmax.score("macro_f1", P, y, rule, sample_weight=w, n_replicates=60)
    without = confmax.score("macro_f1", P[kept], y[kept], rule, sample_weight=w[kept], n_replicates=60)
    np.testing.assert_array_equal(with_zeros.replicates, without.replicates)
    assert with_zeros.n_rows == kept.sum()


def test_very_many_combinations_are_told_apart():
    """Keys of label and decisions are compressed before they overflow."""
    rng = np.random.default_rng(0)
    labels, decisions = rng.integers(0, 1000, 300), rng.integers(0, 1000, (12, 300))
    labels[200:], decisions[:, 200:] = labels[100:200], decisions[:, 100:200]
    cells = _bootstrap.tally(labels, decisions, EQUAL, (1000, [1000] * 12))
    found = {
        tuple(row): count for row, count in zip(np.vstack([cells.label, cells.decisions]).T, cells.count, strict=True)
    }
    rows, counts = np.unique(np.vstack([labels, decisions]).T, axis=0, return_counts=True)
    assert found == {tuple(row): count for row, count in zip(rows, counts, strict=True)}


# --- intervals -------------------------------------------------------------------------------------------------------


def test_intervals_cover_what_they_should():
    """On samples of a known population, 90 % intervals hold its values and differences about 90 times in 100."""
    population, rule = continuous_example(), confmax.DecisionRule.from_weights([1.0, 2.0, 4.0])
    names, samples = ["accuracy", "balanced_accuracy", "macro_f1"], 100
    plain = confmax.DecisionRule.from_weights(np.ones(3))
    truth = {
        r: population_confusion(population, lambda X, h=h: h.decision_probabilities(population.eta(X)))
        for r, h in (("argmax", plain), ("rule", rule))
    }
    hits = np.zeros((len(names), 2))
    for seed in range(samples):
        X, y = population.sample(400, seed)
        found = confmax.score(names, population.eta(X), y, rule, n_replicates=199, level=0.9, random_state=seed)
        for m, name in enumerate(names):
            metric = confmax.metrics.get(name)
            value, base = metric.value(truth["rule"]), metric.value(truth["argmax"])
            _, low, high = found.estimate("rule", name)
            d = found.difference("rule", "argmax", name)
            hits[m] += low <= value <= high, d.low <= value - base <= d.high
    error = 4 * np.sqrt(0.09 / samples)
    assert (np.abs(hits / samples - 0.9) < error).all(), hits / samples


def test_an_interval_is_two_order_statistics(sample):
    P, y, rule, _ = sample
    found = confmax.score("macro_f1", P, y, rule, n_replicates=999, level=0.9)
    ranked = np.sort(found.replicates[0, 2])
    assert found.estimate("rule")[1:] == (ranked[49], ranked[-50])
    d = found.replicates[0, 2] - found.replicates[0, 0]
    assert found.difference("rule") == (found.values[0, 2] - found.values[0, 0], *np.sort(d)[[49, -50]], np.mean(d > 0))


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")
def test_a_class_that_replicates_miss():
    """Where replicates lack a class, metrics of recalls are taken over the others, as on a table without it."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 80)
    y = np.r_[2, rng.integers(0, 2, 79)]
    with pytest.warns(UserWarning, match=r"3\d% of replicates have no row of class 2, which"):
        found = confmax.score(["balanced_accuracy", "g_mean", "macro_f1"], P, y, y, n_replicates=2000)
    # every label is decided: recalls are one wherever they exist, the F1 of an empty class is zero
    assert (found.replicates[:2, 2] == 1.0).all()
    missed = np.isclose(found.replicates[2, 2], 2 / 3)
    assert found.absent == {2: missed.mean()} and (found.replicates[2, 2][~missed] == 1.0).all()
    assert abs(found.absent[2] - (1 - 1 / 80) ** 80) < 4.5 * np.sqrt(0.24 / 2000)
    kept = confmax.score(["balanced_accuracy", "macro_f1"], P, y, y, stratified=True)
    assert kept.absent == {} and (kept.replicates[:, 2] == 1.0).all()


def test_replicates_without_a_value_are_left_out_and_told():
    """With one class of two there is no recall to compare; nothing becomes NaN in silence."""
    P = np.random.default_rng(0).dirichlet(np.ones(2), 40)
    y = np.r_[1, np.zeros(39, int)]
    with pytest.warns(UserWarning, match="no row of class 1"), pytest.warns(UserWarning, match="no finite value in 3"):
        found = confmax.score("informedness", P, y)
    lost = np.isnan(found.replicates[0, 0])
    assert 0.3 < lost.mean() < 0.45
    value, low, high = found.estimate("argmax")
    assert low <= value <= high
    assert 0 <= found.difference("p/prior").better <= 1


# --- how it is read --------------------------------------------------------------------------------------------------


def test_dict_frame_and_text(sample):
    P, y, rule, _ = sample
    found = confmax.score(["macro_f1", "accuracy"], P, y, rule, n_replicates=100)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    entry = told["metrics"]["accuracy"]["rule"]
    assert (entry["value"], entry["low"], entry["high"]) == found.estimate("rule", "accuracy")
    assert entry["minus"]["p/prior"] == found.difference("rule", "p/prior", "accuracy")._asdict()
    assert set(told["metrics"]["accuracy"]["argmax"]["minus"]) == {"p/prior"}
    assert "0.95 percentile intervals of 100 bootstrap replicates of rows" in told["method"]
    text = repr(found)
    for part in (
        "macro_f1",
        "accuracy",
        "minus argmax",
        f"{found.estimate('rule', 'accuracy').low:.4f}",
        "by macro_f1: ",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 120
    pandas = pytest.importorskip("pandas")
    frame = found.to_frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 6
    line = frame[(frame.metric == "macro_f1") & (frame.rule == "rule")].iloc[0]
    assert line["minus argmax, better"] == found.difference("rule", "argmax", "macro_f1").better


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"n_replicates": -1}, "n_replicates is a whole number from 0"),
        ({"n_replicates": 10.0}, "n_replicates is a whole number"),
        ({"n_replicates": 10}, "ask for at least 39"),
        ({"level": 95}, "between 0 and 1; got 95"),
        ({"stratified": "yes"}, "stratified is True or False; got 'yes'"),
        ({"random_state": 1.5}, "random_state must be an integer"),
        ({"metric": []}, "metric is a name, a Metric, a function, or a list"),
        ({"metric": ["accuracy", "f1_micro"]}, "two metrics are called accuracy"),
        ({"metric": "f1"}, "f1 is a metric of two classes"),
        ({"y": None}, "score counts labels; pass y=, the labels of every row"),
        ({"rule": {"a": 1}}, "as rules="),
        ({"rules": [1]}, "rules is a mapping"),
        ({"rules": {"rule": np.zeros(240, int)}, "rule": np.zeros(240, int)}, "the name of the argument rule"),
        ({"rule": np.full(240, 7)}, "decisions of 'rule' .* holds the label 7"),
        ({"rule": np.zeros(3, int)}, "decisions of 'rule'"),
        ({"rule": confmax.DecisionRule.from_weights(np.ones(4))}, "decides between .* and the table has the classes"),
    ],
)  # fmt: skip
def test_bad_input(sample, settings, sentence):
    P, y, _, _ = sample
    given = {"metric": "accuracy", "y": y, **settings}
    with pytest.raises(ValueError, match=sentence):
        confmax.score(given.pop("metric"), P, given.pop("y"), given.pop("rule", None), **given)


def test_unknown_names(sample):
    P, y, _, _ = sample
    found = confmax.score(["accuracy", "macro_f1"], P, y, n_replicates=0)
    with pytest.raises(ValueError, match="the rules are argmax, p/prior; got 'tuned'"):
        found.estimate("tuned", "accuracy")
    with pytest.raises(ValueError, match="metric is one of accuracy, macro_f1; got None"):
        found.estimate("argmax")


# --- on the command line ---------------------------------------------------------------------------------------------


def test_the_command_line_shows_intervals(tmp_path, monkeypatch):
    pytest.importorskip("click.testing")
    from tests.cli_helpers import document, run, small

    monkeypatch.chdir(tmp_path)
    path = small(tmp_path)
    names = ["a", "b", "c"]
    rows = [line.split(",") for line in path.read_text().splitlines()]
    columns = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    P, y = np.array([columns[name] for name in names], float).T, np.array(columns["y"])
    confmax.DecisionRule.from_weights([1.0, 1.5, 2.0], classes=names).save("rule.json")
    asked = ["score", path, "--label", "y", "--rule", "rule.json", "--columns", "a,b,c", "--metric", "macro_f1"]
    found = document(*asked, "--seed", "3", "--level", "0.9", "--stratified")
    rule = confmax.DecisionRule.load("rule.json")
    by_hand = confmax.score("macro_f1", P, y, rule, level=0.9, stratified=True, random_state=3)
    entry = found["values"][0]
    assert entry["intervals"]["rule"] == list(by_hand.estimate("rule")[1:])
    assert entry["differences"]["rule"]["p_prior"] == by_hand.difference("rule", "p/prior")._asdict()
    assert found["intervals"]["replicates"] == 1000 and found["intervals"]["stratified"]
    text, _ = run(*asked)
    assert "rule - argmax" in text and "0.95 percentile intervals of 1000 bootstrap replicates of rows" in text
    plain, _ = run(*asked, "--replicates", "0")
    assert "[" not in plain and "percentile" not in plain
    assert document(*asked, "--replicates", "0")["intervals"] is None
    for wrong, words in ((("--replicates", "5"), "ask for at least 39"), (("--level", "2"), "--level is the coverage")):
        stdout, stderr = run(*asked, *wrong, code=2)
        assert stdout == "" and words in stderr


class ByThreshold:
    """A rule of somebody else's: the second class from .3 on."""

    class_names, n_classes, metric = ("no", "yes"), 2, ""

    def decided(self, table):
        return (table.proba[:, 1:].T >= 0.3).astype(int), np.ones(1), 2

    def reordered(self, class_names):
        raise AssertionError(class_names)


class Found:
    rule, metric = ByThreshold(), confmax.metrics.get("balanced_accuracy")


@pytest.mark.parametrize("rule", [ByThreshold(), Found()], ids=["rule", "with its metric"])
def test_whatever_decides_is_scored(rule):
    P = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    score = confmax.score("accuracy", P, ["no", "no", "yes", "yes"], rule, n_replicates=0)
    assert score.estimate("rule").value == 1.0 and score.estimate("argmax").value == 0.5


def test_sparse_tables(sample):
    from scipy.sparse import csr_array

    P, y, rule, _ = sample
    P = np.where(P < 0.05, 0.0, P)
    P /= P.sum(1, keepdims=True)
    dense, sparse = (confmax.score("macro_f1", table, y, rule, n_replicates=60) for table in (P, csr_array(P)))
    np.testing.assert_array_equal(dense.replicates, sparse.replicates)


def test_equal_weights_are_none(sample):
    P, y, rule, _ = sample
    plain = confmax.score("macro_f1", P, y, rule, n_replicates=60)
    weighted = confmax.score("macro_f1", P, y, rule, sample_weight=np.full(len(y), 2.0), n_replicates=60)
    np.testing.assert_allclose(plain.replicates, weighted.replicates, atol=1e-14)


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")
def test_a_class_without_rows_is_left_out():
    P = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    y = np.arange(60) % 2
    with pytest.warns(UserWarning, match="no weight in class 2"):
        found = confmax.score("balanced_accuracy", P, y)
    assert found.absent == {}
    expected = np.mean([np.mean(P.argmax(1)[y == k] == k) for k in range(2)])
    assert found.estimate("argmax").value == pytest.approx(expected, abs=1e-12)


# --- limits that rules were tuned within ------------------------------------------------------------------------------


def test_limits_of_the_tuning_are_judged_on_the_rows():
    draw = np.random.default_rng(0)
    P = draw.dirichlet(np.ones(3), 400)
    y = (P.cumsum(1) < draw.random((400, 1))).sum(1)
    limits = ("recall[0] >= 0.8", "rate[1] <= 0.3", "precision[2] >= 0.99")
    rule = replace(confmax.DecisionRule.from_weights([3.0, 1.0, 1.0]), constraints=limits)
    found = confmax.score("macro_f1", P, y, rule, rules={"other": np.zeros(400, int)})
    decided = rule.predict(P)
    values = [np.mean(decided[y == 0] == 0), np.mean(decided == 1), np.mean(y[decided == 2] == 2)]
    slacks = [values[0] - 0.8, 0.3 - values[1], values[2] - 0.99]
    assert list(found.limits) == ["rule"] and found.metrics == ("macro_f1",)
    assert [one.text for one in found.limits["rule"]] == list(limits)
    assert [one.value for one in found.limits["rule"]] == pytest.approx(values)
    assert [one.slack for one in found.limits["rule"]] == pytest.approx(slacks)
    assert [one.kept for one in found.limits["rule"]] == [slack >= 0 for slack in slacks]
    assert all(one.low < one.value < one.high for one in found.limits["rule"])
    assert "precision[2] >= 0.99" in repr(found) and "no, missed by" in repr(found)
    # a class without rows, and groups that are not known
    rule = replace(rule, constraints=("recall[1] >= 0.5", "min(recall[0] | group) >= 0.5", "rate[0] <= 1"))
    some = y != 1
    alone = confmax.score("accuracy", P[some], y[some], rule, n_replicates=0, classes=[0, 1, 2]).limits["rule"]
    assert {one.text: one.kept for one in alone} == {
        "rate[0] <= 1": True,
        rule.constraints[1]: None,
        rule.constraints[0]: None,
    }
    group = np.arange(400) % 2
    (_, by_group, _) = confmax.score("accuracy", P, y, rule, group=group, n_replicates=0).limits["rule"]
    assert by_group.value == pytest.approx(min(np.mean(decided[(y == 0) & (group == g)] == 0) for g in (0, 1)))


OF_GROUPS = {
    "difference(rate[1] | group) <= 0.05": lambda values: np.ptp(values["rate"], axis=1),
    "ratio(rate[1] | group) >= 0.8": lambda values: values["rate"].min(axis=1) / values["rate"].max(axis=1),
    "min(recall[1] | group) >= 0.6": lambda values: values["recall"].min(axis=1),
    "max(rate[1] | group) <= 0.3": lambda values: values["rate"].max(axis=1),
    "min(precision[1] | group) >= 0.6": lambda values: values["precision"].min(axis=1),
    "recall[1 | 2] >= recall[1 | 0] - 0.05": lambda values: values["recall"][:, 2] - values["recall"][:, 0],
}


def test_limits_of_groups_have_the_intervals_of_a_bootstrap_of_rows():
    """The groups are drawn apart, and their draws are independent, although all begin with one seed."""
    draw = np.random.default_rng(0)
    n, B = 900, 1500
    p, group = draw.random(n), np.arange(n) % 3
    # two groups of the same decisions and labels, which one seed would draw alike
    p[group == 2] = p[group == 0]
    y = (draw.random(n) < p).astype(int)
    y[group == 2] = y[group == 0]
    rule = replace(confmax.DecisionRule.from_weights([1.0, 1.5]), constraints=tuple(OF_GROUPS))
    found = confmax.score("accuracy", np.c_[1 - p, p], y, rule, group=group)
    decided = rule.predict(np.c_[1 - p, p])
    rows = draw.integers(0, n, (B, n))

    def shares(hit, among):
        return np.stack(
            [(hit & among & (group == g))[rows].sum(1) / (among & (group == g))[rows].sum(1) for g in range(3)], 1
        )

    values = {
        "rate": shares(decided == 1, np.ones(n, bool)),
        "recall": shares(decided == 1, y == 1),
        "precision": shares(y == 1, decided == 1),
    }
    for one in found.limits["rule"]:
        low, high = np.quantile(OF_GROUPS[one.text](values), [0.025, 0.975])
        assert one.low <= one.value <= one.high
        assert abs(one.low - low) < 0.015 and abs(one.high - high) < 0.015, one
    none = confmax.score("accuracy", np.c_[1 - p, p], y, rule, group=group, n_replicates=0).limits["rule"]
    assert all(one.low is None and one.high is None for one in none)
