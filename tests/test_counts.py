"""Rows that are decided and right: counted on labels, and expected of a batch without them."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import confusion_matrix

import confmax
from confmax.calibration import Temperature
from confmax.confusion import Gains
from confmax.rule.counts import COUNTS, Sums, _corrected, _exact, _moments
from tests.helpers import labels_drawn
from tests.parts_helpers import labelled

NAMES = ("ok", "fraud", "odd")
PLAIN = confmax.DecisionRule.from_weights([1.0, 3.0, 1.5], classes=NAMES)
ABSTAINS = confmax.DecisionRule(
    Gains.from_matrix(np.hstack([np.eye(3), np.full((3, 1), 0.6)])[None]), np.ones(1), (*NAMES, "ask"), abstain="ask"
)
DRAWS = confmax.DecisionRule(Gains.reduced([[1.0, 1.0, 1.0], [1.0, 3.0, 5.0]]), np.array([0.3, 0.7]), NAMES, seed=3)
GROUPED = confmax.DecisionRule(
    Gains.reduced([[1.0, 1.0, 1.0, 1.0, 2.0, 4.0]]), np.ones(1), NAMES, groups=("men", "women")
)
LABELS = confmax.LabelRule.from_thresholds([0.3, 0.4, 0.5], classes=NAMES)
P, Y = labelled(600, 3, sharp=1.0)[:2]
GROUP = np.array(["men", "women"])[np.arange(600) % 7 // 4]
TRUTH = np.array(NAMES)[Y]
WEIGHT = np.random.default_rng(1).uniform(0.5, 2.0, 600)


def poisson_binomial(p):
    """Return the distribution (n + 1,) of the number of rows that are true, one convolution a row."""
    chances = np.ones(1)
    for one in p:
        chances = np.convolve(chances, [1.0 - one, one])
    return chances


def ends_of(chances, level):
    """Return the smallest numbers below which, and up to which, the distribution has the tails of a level."""
    below = np.cumsum(chances)
    tail = (1.0 - level) / 2
    return [int(np.argmax(below > tail + 1e-9)), int(np.argmax(below >= 1.0 - tail - 1e-9))]


def columns_of_probabilities(n, seed):
    """Return probabilities (n, 12): near zero, near one, in the middle, of two kinds, and certain."""
    rng = np.random.default_rng(seed)
    shapes = product((0.02, 0.3, 5.0), (0.02, 0.3, 40.0))
    certain = np.r_[np.ones(n // 3), np.zeros(n - n // 3)]
    few = np.r_[rng.random(3), np.full(n - 3, 1e-5)]
    mixed = np.where(np.arange(n) % 2, 0.02, 0.9)
    return np.column_stack([*(rng.beta(a, b, n) for a, b in shapes), certain, few, mixed]).clip(0.0, 1.0)


def batch(rule):
    """Return what a rule decides for all rows, and what `predict` takes beside them."""
    more = {"group": GROUP} if rule.groups else {}
    return (rule.predict(P) if rule.decisions.several else rule.predict_index(P, **more)), more


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_few_rows_have_the_interval_of_the_exact_distribution(level):
    rows = columns_of_probabilities(40, 0)
    expected = [ends_of(poisson_binomial(p), level) for p in rows.T]
    assert _exact(rows, level).tolist() == expected


@pytest.mark.parametrize(("n", "level"), [(30, 0.95), (300, 0.95), (1500, 0.95), (300, 0.8)])
def test_many_rows_have_an_interval_that_is_at_most_a_row_wider(n, level):
    rows = columns_of_probabilities(n, n)
    found = _corrected(_moments(rows).sum(axis=1), n, level)
    for p, (low, high) in zip(rows.T, found.tolist(), strict=True):
        chances = poisson_binomial(p)
        exact = ends_of(chances, level)
        assert exact[0] - 1 <= low <= exact[0] and exact[1] <= high <= exact[1] + 1
        assert chances[low : high + 1].sum() >= level


@pytest.mark.parametrize("n", [60, 600])
def test_intervals_contain_the_rows_of_labels_that_are_drawn(n):
    """Labels are drawn from the probabilities; of 400 draws 95 % are 380, and fewer than 365 come by a bug alone."""
    rng = np.random.default_rng(n)
    counts = PLAIN.expected_counts(P[:n])
    decided = PLAIN.predict_index(P[:n])
    inside = np.zeros((3, 3))
    for _ in range(400):
        y = labels_drawn(P[:n], rng)
        true = np.bincount(y, minlength=3)
        right = np.bincount(y[y == decided], minlength=3)
        for k, drawn in enumerate((true, right, true - right)):
            low, high = counts.intervals[COUNTS[k]].T
            inside[k] += (low <= drawn) & (drawn <= high)
    assert inside.min() >= 365


@pytest.mark.parametrize("rule", [PLAIN, ABSTAINS, DRAWS, GROUPED, LABELS], ids=lambda rule: repr(rule)[:40])
def test_expected_rows_are_sums_of_probabilities_of_what_is_decided(rule):
    decided, more = batch(rule)
    counts = rule.expected_counts(P, **more)
    chosen = decided.astype(bool) if rule.decisions.several else decided[:, None] == np.arange(3)
    assert np.allclose(counts.right, (P * chosen).sum(axis=0)) and np.allclose(counts.true, P.sum(axis=0))
    beyond = np.zeros(len(P), bool) if rule.decisions.several else decided >= 3
    assert np.allclose(counts.missed, (P * ~chosen)[~beyond].sum(axis=0))
    assert np.allclose(counts.further, P[beyond].sum(axis=0))
    assert ("further" in counts.intervals) == (rule is ABSTAINS)
    every = decided.sum(axis=0) if rule.decisions.several else np.bincount(decided, minlength=rule.n_decisions)
    assert counts.decided.tolist() == every.tolist() and counts.decisions == rule.class_names
    assert counts.unit == "rows" and counts.level == 0.95 and counts.matrix is None
    # parts add up, few rows and many
    sums = [Sums.of(rule, P[part], decided[part]) for part in (slice(0, 100), slice(100, 150), slice(150, 600))]
    again = (sums[0] + sums[1] + sums[2]).counts(rule)
    assert same(again, counts)
    few = (sums[0] + sums[1]).counts(rule)
    assert few.intervals["true"].tolist() == [ends_of(poisson_binomial(p), 0.95) for p in P[:150].T]
    if beyond.any():
        left = P[:150][beyond[:150]]
        assert few.intervals["further"].tolist() == [ends_of(poisson_binomial(p), 0.95) for p in left.T]


def same(one, other):
    """Whether two counts are the same, but for rounding of sums."""
    ends = all((one.intervals[what] == other.intervals[what]).all() for what in one.intervals)
    means = ("decided", "true", "right", "further")
    return ends and all(np.allclose(getattr(one, name), getattr(other, name)) for name in means)


def test_what_is_left_to_a_further_decision_is_not_missed():
    """Of rules that abstain, and of costs with a check: on labels, and as the probabilities expect."""
    rng = np.random.default_rng(0)
    y = labels_drawn(P, rng)
    decided = ABSTAINS.predict_index(P)
    by_labels = confmax.score("accuracy", P, np.array(NAMES)[y], ABSTAINS, n_replicates=0).counts["rule"]
    assert by_labels.further.tolist() == [((y == k) & (decided == 3)).sum() for k in range(3)]
    assert by_labels.missed.tolist() == [((y == k) & (decided != k) & (decided != 3)).sum() for k in range(3)]
    name = ABSTAINS.class_names[1]
    text = by_labels.words(name)
    assert f"{by_labels.missed[1]:.0f} are missed and {by_labels.further[1]:.0f} get {ABSTAINS.abstain}" in text
    expected = ABSTAINS.expected_counts(P)
    assert "are missed [" in expected.words(name) and f" get {ABSTAINS.abstain} [" in expected.words(name)
    assert set(expected.to_dict()["classes"][str(name)]) >= {"further", "further_interval"}
    assert "further" not in PLAIN.expected_counts(P).to_dict()["classes"][str(PLAIN.class_names[1])]


def test_counts_are_of_the_rows_that_predict_reads():
    """One row of names, and votes beside a column that is no class."""
    one = pd.Series(P[0][::-1], index=NAMES[::-1])
    assert same(PLAIN.expected_counts(one), PLAIN.expected_counts(P[:1]))
    votes = pd.DataFrame(P * 7.0, columns=list(NAMES)).assign(amount=3.0, day="monday")
    with pytest.warns(UserWarning, match="divided by their sums"):
        assert same(PLAIN.expected_counts(votes, normalize=True), PLAIN.expected_counts(P))


def test_rows_of_any_kind_have_the_same_counts():
    for rule in (LABELS, PLAIN, ABSTAINS):
        assert same(rule.expected_counts(csr_array(P)), rule.expected_counts(P))
    with pytest.warns(UserWarning, match="divided by their sums"):
        assert same(PLAIN.expected_counts(7.0 * P, normalize=True), PLAIN.expected_counts(P))
    torch = pytest.importorskip("torch")
    for rule in (LABELS, PLAIN):
        assert same(rule.expected_counts(torch.tensor(P)), rule.expected_counts(P))


def test_a_limited_batch_counts_what_is_then_decided():
    counts = PLAIN.expected_counts(P, at_most={"fraud": 40})
    chosen = PLAIN.predict_index(P, at_most={"fraud": 40}) == 1
    assert counts.decided[1] == chosen.sum() == 40 and counts.right[1] == pytest.approx(P[chosen, 1].sum())
    assert counts.missed[1] == pytest.approx(P[~chosen, 1].sum())


def test_a_table_in_parts_has_the_counts_of_its_rows(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    for k, part in enumerate(np.array_split(P, 4)):
        pq.write_table(pa.table(dict(zip(NAMES, part.T, strict=True))), tmp_path / f"{k}.parquet")
    table = confmax.open_table(tmp_path)
    for more in ({}, {"at_most": {"fraud": 40}}):
        assert same(PLAIN.expected_counts(table, **more), PLAIN.expected_counts(P, **more))
    assert same(LABELS.expected_counts(table), LABELS.expected_counts(P))


def test_the_counts_are_in_words():
    words = PLAIN.expected_counts(P).words("fraud")
    for part in ("about", " of the ", " are fraud [", "% of about", " are missed ["):
        assert part in words
    labelled_words = confmax.score("accuracy", P, TRUTH, PLAIN).counts["rule"].words("fraud")
    assert "fraud rows" in labelled_words and "about" not in labelled_words and "[" not in labelled_words
    with pytest.raises(ValueError, match=r"class.*'theft'.*ok, fraud, odd"):
        PLAIN.expected_counts(P).words("theft")


def test_bad_levels_and_rows_elsewhere_are_refused():
    for level in (0, 1, 95, "0.9"):
        with pytest.raises(ValueError, match=r"level.*between 0 and 1"):
            PLAIN.expected_counts(P, level=level)
    array = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"in memory or in parts.*open_table"):
        PLAIN.expected_counts(array.from_array(P, chunks=(100, 3)))


# --- rules that decide by given probabilities -------------------------------------------------------------------------


def overconfident(n, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(-1.5, 1.5, n)
    p = 1.0 / (1.0 + np.exp(-z))
    y = (rng.random(n) < p).astype(int)
    q = 1.0 / (1.0 + np.exp(-2.5 * z))
    return np.column_stack([1.0 - q, q]), y


def test_a_threshold_on_given_probabilities_is_counted_by_the_calibration(tmp_path):
    Q, y = overconfident(4000, 0)
    solution = confmax.maximize("recall[1]", Q[:2000], y[:2000], constraints="precision[1] >= 0.6")
    assert solution.rule.calibrator is None and isinstance(solution.rule.shares.calibrator, Temperature)
    solution.rule.save(tmp_path / "rule.json")
    loaded = confmax.DecisionRule.load(tmp_path / "rule.json")
    assert loaded.shares == solution.rule.shares
    for rule in (loaded, solution.rule):
        counts = rule.expected_counts(Q[2000:])
        true = (y[2000:] == 1).sum()
        right = ((y[2000:] == 1) & (rule.predict_index(Q[2000:]) == 1)).sum()
        for what, number in (("true", true), ("right", right), ("missed", true - right)):
            low, high = counts.intervals[what][1]
            assert low <= number <= high
    swapped = loaded.reordered((1, 0)).expected_counts(Q[2000:, ::-1])
    assert swapped.words(1) == counts.words(1)
    assert replace(loaded, constraints=()).shifted([0.5, 0.5], metric="accuracy").shares.calibrator is None


def test_a_strange_calibration_of_counts_is_refused():
    Q, y = overconfident(500, 1)
    rule = confmax.maximize("recall[1]", Q, y, constraints="precision[1] >= 0.4").rule
    document = json.loads(rule.to_json())
    for strange in (None, [], {"kind": "matrix"}, {"kind": "temperature", "temperature": "x", "floor": 0.0}):
        document["shares"]["calibration"] = strange
        with pytest.raises(ValueError, match=r"calibration|temperature"):
            confmax.DecisionRule.from_json(json.dumps(document))


# --- rows with labels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, WEIGHT, np.full(600, 2.0)], ids=["rows", "weights", "equal weights"])
@pytest.mark.parametrize("rule", [PLAIN, ABSTAINS, GROUPED], ids=["plain", "abstains", "groups"])
def test_counts_of_labels_are_a_confusion_matrix(rule, weight):
    decided, more = batch(rule)
    counts = confmax.score("accuracy", P, TRUTH, rule, sample_weight=weight, n_replicates=0, **more).counts["rule"]
    differ = weight is WEIGHT
    expected = confusion_matrix(Y, decided, labels=range(rule.n_decisions), sample_weight=WEIGHT if differ else None)
    assert np.allclose(counts.matrix, expected[:3], atol=1e-6) and counts.unit == ("weight" if differ else "rows")
    assert np.allclose(counts.right, np.diag(expected)[:3], atol=1e-6)
    assert np.allclose(counts.true, expected[:3].sum(axis=1), atol=1e-5)
    assert np.allclose(counts.decided, expected.sum(axis=0), atol=1e-5) and counts.decisions == rule.class_names
    assert ("rows" in counts.words("fraud")) is not differ and ("weight" in counts.words("fraud")) is differ


def test_tiny_weights_are_counted():
    tiny = 1e-9 * WEIGHT
    found = confmax.score("accuracy", P, TRUTH, PLAIN, sample_weight=tiny, n_replicates=0).counts["rule"]
    expected = confusion_matrix(TRUTH, PLAIN.predict(P), labels=NAMES, sample_weight=tiny)
    assert np.allclose(found.matrix, expected, rtol=1e-9, atol=0.0) and "e-" in found.words("fraud")


def test_counts_of_a_rule_that_draws_are_expected_in_a_score():
    counts = confmax.score("accuracy", P, TRUTH, DRAWS, n_replicates=0).counts["rule"]
    chances = DRAWS.decision_probabilities(P)
    assert np.allclose(counts.matrix, [chances[k == Y].sum(axis=0) for k in range(3)], atol=1e-5)


def test_groups_and_parts_have_counts(tmp_path):
    whole = confmax.score("accuracy", P, TRUTH, PLAIN, group=GROUP, n_replicates=0)
    each = [part.counts["rule"].matrix for part in whole.by_group.values()]
    assert np.allclose(sum(each), whole.counts["rule"].matrix)
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    for name, weight in (("rows", np.ones(600)), ("weight", WEIGHT)):
        columns = {f"p{k}": P[:, k] for k in range(3)}
        pq.write_table(pa.table({**columns, "y": Y, "w": weight}), tmp_path / f"{name}.parquet", row_group_size=100)
        table = confmax.open_table(tmp_path / f"{name}.parquet", columns=list(columns), label="y", weight="w")
        rule = replace(PLAIN, class_names=(0, 1, 2))
        found = confmax.score("accuracy", table, rule=rule, n_replicates=0).counts["rule"]
        inside = confmax.score("accuracy", P, Y, rule, sample_weight=weight, n_replicates=0).counts["rule"]
        assert found.unit == inside.unit == name and np.allclose(found.matrix, inside.matrix, rtol=1e-6)


def test_counts_of_labels_of_rows_with_several():
    truth = (np.random.default_rng(2).random(P.shape) < P).astype(int)
    made = LABELS.predict(P)
    found = confmax.score("macro_f1", P, truth, LABELS, n_replicates=0).counts["rule"]
    solution = confmax.maximize("macro_f1", P, truth, decisions="any")
    tuned = solution.counts
    for counts, decided in ((found, made), (tuned, solution.predict(P))):
        assert np.allclose(counts.right, (truth * decided).sum(axis=0)) and np.allclose(counts.true, truth.sum(axis=0))
        assert np.allclose(counts.decided, decided.sum(axis=0)) and counts.matrix is None


@pytest.mark.parametrize("confusion", ["labels", "blend"])
def test_a_solution_counts_its_tuning_rows(confusion):
    for more in ({}, {"sample_weight": WEIGHT}, {"group": GROUP, "constraints": "min(recall[1] | group) >= 0.3"}):
        solution = confmax.maximize("accuracy", P, Y, confusion=confusion, randomized=False, **more)
        decided = solution.rule.predict_index(P, group=more.get("group"))
        expected = confusion_matrix(Y, decided, labels=range(3), sample_weight=more.get("sample_weight"))
        assert np.allclose(solution.counts.matrix, expected, atol=1e-5)
        assert solution.counts.unit == ("weight" if "sample_weight" in more else "rows")
    assert confmax.maximize("accuracy", P).counts is None


def test_a_refitted_model_counts_rows_out_of_fold():
    from sklearn.linear_model import LogisticRegression

    X = np.random.default_rng(0).normal(size=(300, 2))
    y = (X[:, 0] + np.random.default_rng(1).normal(size=300) > 0.5).astype(int)
    fitted = confmax.MetricClassifierCV(LogisticRegression(), metric="f1").fit(X, y)
    counts = fitted.solution_.counts
    assert counts.true.tolist() == np.bincount(y).tolist() and counts.unit == "rows"
    share = 2 * counts.right[1] / (counts.true[1] + counts.decided[1])
    assert share == pytest.approx(fitted.solution_.label_value)


def test_many_classes_have_counts_without_a_matrix():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(1100), 40)
    y = np.where(np.arange(40) < 30, proba.argmax(axis=1), 7)
    rule = confmax.DecisionRule.from_weights(np.ones(1100))
    counts = confmax.score("accuracy", proba, y, rule, n_replicates=0).counts["rule"]
    decided = rule.predict_index(proba)
    assert counts.matrix is None and counts.right.sum() == (decided == y).sum()
    assert counts.decided.tolist() == np.bincount(decided, minlength=1100).tolist()
    assert counts.true.tolist() == np.bincount(y, minlength=1100).tolist()


def test_pages_count_rows_beside_shares():
    pytest.importorskip("jinja2")
    from confmax.page import sections
    from tests.report_helpers import judge

    for metric, classes in (("f1[1]", ("fraud",)), ("macro_f1", NAMES)):
        figures = judge(PLAIN, P, TRUTH, metric, replicates=39)
        sentences = sections.counted(figures)
        assert len(sentences) == len(classes)
        decided = PLAIN.predict(P)
        for name, sentence in zip(classes, sentences, strict=True):
            right = ((decided == name) & (name == TRUTH)).sum()
            assert f"of {(name == TRUTH).sum()} {name} rows {right} are decided {name}" in sentence


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    """Return the paths of a file with 300 rows, as CSV and as Parquet."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(P[:300], columns=NAMES).assign(truth=TRUTH[:300], w=WEIGHT[:300])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    return tmp_path / "rows.csv", tmp_path / "rows.parquet"


def test_apply_says_how_many_are_right(files, tmp_path):
    helpers = pytest.importorskip("tests.cli_helpers")
    PLAIN.save(tmp_path / "rule.json")
    expected = PLAIN.expected_counts(P[:300], at_most={"fraud": 40})
    for path, more in ((files[0], ()), (files[1], ("--in-parts", "yes"))):
        out = tmp_path / f"out{path.suffix}"
        line = ("apply", tmp_path / "rule.json", path, "-o", out, "--at-most", "fraud=40", "--columns", ",".join(NAMES))
        found = helpers.document(*line, *more)["counts"]
        assert found["level"] == 0.95 and found["matrix"] is None and list(found["told"]) == ["fraud"]
        assert found["classes"] == expected.to_dict()["classes"]
        printed = helpers.run(*line, *more)[0]
        assert expected.words("fraud") in printed and "40 fraud (13.3%)" in printed
        assert "intervals" in printed and "if these are right" in printed


def test_apply_says_how_many_labels_are_right(files, tmp_path):
    helpers = pytest.importorskip("tests.cli_helpers")
    LABELS.save(tmp_path / "rule.json")
    for path, more in ((files[0], ()), (files[1], ("--in-parts", "yes"))):
        line = ("apply", tmp_path / "rule.json", path, "-o", tmp_path / f"out{path.suffix}", *more)
        printed = helpers.run(*line, "--columns", ",".join(NAMES))[0]
        assert all(LABELS.expected_counts(P[:300]).words(name) in printed for name in NAMES)


def test_tune_and_score_print_a_matrix_in_rows_or_weights(files, tmp_path):
    helpers = pytest.importorskip("tests.cli_helpers")
    for unit, more in (("rows", ()), ("weight", ("--weight", "w"))):
        line = (files[0], "--label", "truth", "--columns", ",".join(NAMES), *more)
        rule = tmp_path / f"{unit}.json"
        tuned = helpers.document("tune", *line, "--metric", "f1[fraud]", "-o", rule)["counts"]
        scored = helpers.document("score", *line, "--rule", rule, "--replicates", "0")["counts"]
        decided = confmax.DecisionRule.load(rule).predict(P[:300])
        weight = WEIGHT[:300] if more else None
        matrix = confusion_matrix(TRUTH[:300], decided, labels=NAMES, sample_weight=weight)
        for found in (tuned, scored):
            assert found["unit"] == unit and list(found["told"]) == ["fraud"] and found["level"] is None
            names = list(found["classes"])
            order = [NAMES.index(name) for name in names]
            assert np.allclose(found["matrix"], matrix[np.ix_(order, order)], atol=1e-5)
        for printed in (
            helpers.run("tune", *line, "--metric", "f1[fraud]")[0],
            helpers.run("score", *line, "--rule", rule, "--replicates", "0")[0],
        ):
            assert tuned["told"]["fraud"] in printed and f"{unit} of, by the rule" in printed
