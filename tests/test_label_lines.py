"""Rules of several labels judged in parts: the answers of rows in memory, of any division, and of NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score

import confmax
from confmax.confusion import Gains
from confmax.evaluate import label_lines
from confmax.evaluate import label_rivals as label_rivals_module
from confmax.evaluate.label_figures import TUNED, label_figures
from confmax.evaluate.label_lines import judge_labels
from confmax.evaluate.label_rivals import Folds, label_rivals
from confmax.metrics import labels as label_metrics
from confmax.page import label_words
from confmax.tables.decisions import ANY, decisions_of
from confmax.tables.several import labels_table
from tests.parts_helpers import ListSource, cut

NAMES = ("sea", "sun", "rain", "fog")
METRICS = ["macro_f1", "micro_f1", "hamming"]
CUTS = ([0, 300, 301, 900], [50, 1000])


def rows(n=1200, seed=0):
    draw = np.random.default_rng(seed)
    P = draw.beta(1, 2, (n, 4))
    return P, (draw.random(P.shape) < P**1.3).astype(np.uint8), draw.integers(0, 4, n) / 2.0


def rule_of(decisions, *, draws=False, **more):
    gains = Gains.reduced([[1.0, 2.0, 1.0, 1.5]] * (1 + draws), [[-0.3, -0.9, -0.2, -0.4], [-0.5] * 4][: 1 + draws])
    weights = np.array([0.25, 0.75] if draws else [1.0])
    return confmax.LabelRule(gains, weights, NAMES, decisions_of(decisions), "macro_f1", **more)


def many(monkeypatch, *, lots, most=100):
    """As if so few rows were many."""
    monkeypatch.setattr(label_lines, "MOST_LINES", most)
    monkeypatch.setattr(label_lines, "LOTS", lots)


# --- tables in parts --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decisions", ["any", 2, ("at_most", 2)])
def test_the_score_of_parts_is_that_of_rows_in_memory(decisions, weighted, draws):
    P, Y, weight = rows()
    weight = weight if weighted else None
    limits = () if decisions == 2 else ("recall[sea] >= 0.9", "labels_per_row <= 2")
    given = {"r": rule_of(decisions, draws=draws, constraints=limits), "other": rule_of(decisions)}
    whole = confmax.score(METRICS, P, Y, rules=given, sample_weight=weight, n_replicates=60)
    found = confmax.score(METRICS, cut(P, Y, weight, at=CUTS[0]), rules=given, n_replicates=60)
    assert found.rules == whole.rules and found.n_rows == whole.n_rows and found.method == whole.method
    # thresholds are found on the sample
    same = [k for k, name in enumerate(whole.rules) if "separate" not in name]
    np.testing.assert_allclose(found.values[:, same], whole.values[:, same], atol=1e-12)
    np.testing.assert_allclose(found.replicates[:, same], whole.replicates[:, same], atol=1e-12)
    assert [one.value for one in found.limits.get("r", ())] == pytest.approx(
        [one.value for one in whole.limits.get("r", ())], abs=1e-12
    )
    for name in ("r", "other"):
        np.testing.assert_allclose(found.counts[name].right, whole.counts[name].right, atol=1e-6)
        assert found.verdicts[name].value == pytest.approx(whole.verdicts[name].value, abs=1e-12)
    again = confmax.score(METRICS, cut(P, Y, weight, at=CUTS[1]), rules=given, n_replicates=60)
    np.testing.assert_allclose(again.replicates, found.replicates, atol=1e-12)


@pytest.mark.usefixtures("small_samples")
def test_rows_in_parts_are_read_twice(monkeypatch, tmp_path):
    """Once to check them, and once to judge them; once more for a sample, where rows of weight zero take no place."""
    pytest.importorskip("jinja2")
    P, Y, weight = rows()
    some = weight + 0.5
    passes = []
    run = ListSource.run

    def counted(self, work, **more):
        passes.append(self)
        return run(self, work, **more)

    monkeypatch.setattr(ListSource, "run", counted)
    confmax.score(METRICS, cut(P, Y, some, at=CUTS[0]), rules={"r": rule_of("any")}, n_replicates=0)
    assert len(passes) == 2
    path = tmp_path / "page.html"
    confmax.report.write(path, rule_of("any"), cut(P, Y, some, at=CUTS[0]), n_replicates=0)
    assert len(passes) == 4
    confmax.score(METRICS, cut(P, Y, weight, at=CUTS[0]), rules={"r": rule_of("any")}, n_replicates=0)
    assert len(passes) == 7


@pytest.mark.usefixtures("small_samples")
def test_no_row_of_a_table_in_parts_is_decided_by_thresholds_that_it_helped_to_find():
    P, Y, _ = rows()
    P[600:] = P[:600]
    table = labels_table(ANY, cut(P, Y, at=CUTS[0]), None, None, NAMES)
    sample = table.head
    assert 300 < sample.n_rows < len(P)
    rivals = label_rivals(table, [ANY], 3)
    judged = judge_labels(table, rivals)
    memory = labels_table(ANY, P, Y, None, NAMES)
    fold = rivals.folds(memory.head)
    # what is equal shares a fold, and all folds are used beyond the sample
    assert (fold[600:] == fold[:600]).all()
    there = np.isin(memory.head.unordered_hashes(), sample.unordered_hashes())
    assert set(fold[~there]) == set(range(5)) == set(fold[there])
    expected = np.zeros(P.shape)
    in_sample = rivals.folds(sample)
    for k in range(5):
        others = sample.take(in_sample != k)
        for label in range(4):
            p, y = others.proba[:, label], others.labels[:, label]
            cuts = np.append(np.unique(p), 1.0)
            values = [2 * y[p > c].sum() / max(1, y.sum() + (p > c).sum()) for c in cuts]
            mine = P[fold == k, label] > rivals.cuts[k, label]
            expected[fold == k, label] = mine
            best = 2 * y[p > rivals.cuts[k, label]].sum() / (y.sum() + (p > rivals.cuts[k, label]).sum())
            assert best == pytest.approx(max(values), abs=1e-12)
    S = judged.whole["separate thresholds"][0]
    np.testing.assert_allclose(S.columns, expected.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(S.diagonal, (expected * Y).mean(axis=0), atol=1e-12)


@pytest.mark.usefixtures("small_samples")
def test_thresholds_are_found_on_part_of_a_large_sample(monkeypatch):
    P, Y, _ = rows()
    monkeypatch.setattr(label_rivals_module, "FOUND_ON", 200)
    found = label_rivals(labels_table(ANY, cut(P, Y, at=CUTS[0]), None, None, NAMES), [ANY], 3)
    assert 150 < found.n_found_on < 250 < len(P)
    # rows in memory are all read
    assert label_rivals(labels_table(ANY, P, Y, None, NAMES), [ANY], 3).n_found_on == len(P)


def test_folds_are_those_that_rows_were_dealt_out_to():
    P, Y, _ = rows(200)
    table = labels_table(ANY, P, Y, None, NAMES).head
    fold = np.arange(200) % 3
    folds = Folds.of(table, fold, 0)
    assert (folds(table) == fold).all() and (folds(table.take(np.flip(np.arange(200)).copy())) == fold[::-1]).all()
    others = labels_table(ANY, *rows(3000, seed=9)[:2], None, NAMES).head
    assert np.bincount(folds(others)).min() > 900


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_lots_leave_the_values_and_the_width_of_intervals(monkeypatch, weighted):
    P, Y, weight = rows(6000, seed=4)
    weight = weight if weighted else None
    given = {"r": rule_of("any"), "draws": rule_of("any", draws=True)}
    how = {"rules": given, "sample_weight": weight, "n_replicates": 800}
    whole = confmax.score(METRICS, P, Y, **how)
    many(monkeypatch, lots=1000)
    found = confmax.score(METRICS, P, Y, **how)
    assert "replicates of lots of rows" in found.method and "replicates of rows" in whole.method
    assert found.n_rows == whole.n_rows
    np.testing.assert_allclose(found.values, whole.values, atol=1e-12)
    # 800 replicates and 1000 lots: both widths are known to about 2.5 %
    ratio = found.replicates.std(axis=2) / whole.replicates.std(axis=2)
    assert ratio.ravel() == pytest.approx(np.ones(ratio.size), abs=0.12) and ratio.mean() == pytest.approx(
        1.0, abs=0.05
    )


def test_lots_have_the_variance_of_rows(monkeypatch):
    """Of a mean over rows, both variances are known exactly: no replicate is drawn."""
    P, Y, _ = rows(40_000, seed=5)
    table = labels_table(ANY, P, Y, None, NAMES)
    many(monkeypatch, lots=4000)
    # a rule that draws tells nearly all rows apart
    judged = judge_labels(table, lambda part: {"p": part.proba})
    assert judged.resampled == "lots of rows" and 3900 < len(judged.lines) <= 4000
    sums = judged.lines.sums.toarray()
    assert judged.lines.count.sum() == len(P) and sums[:, :4].sum() == Y.sum()
    n = len(P)
    for column, by_row in ((0, Y[:, 0]), (8, P[:, 0]), (4, P[:, 0] * Y[:, 0])):
        mean = by_row.mean()
        assert sums[:, column].sum() / n == pytest.approx(mean, abs=1e-12)
        of_lots = ((sums[:, column] - mean * judged.lines.count) ** 2).sum() / n**2
        assert of_lots == pytest.approx(by_row.var() / n, rel=3.5 * (2 / 4000) ** 0.5)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("draws", [False, True])
def test_lines_do_not_depend_on_the_division_into_parts(monkeypatch, weighted, draws):
    P, Y, weight = rows()
    weight = weight if weighted else None
    many(monkeypatch, lots=150)
    given = {"r": rule_of(2, draws=draws)}
    scores = [confmax.score(METRICS, P, Y, rules=given, sample_weight=weight, n_replicates=60)]
    scores += [confmax.score(METRICS, cut(P, Y, weight, at=at), rules=given, n_replicates=60) for at in CUTS]
    for one in scores[1:]:
        np.testing.assert_allclose(one.values, scores[0].values, atol=1e-12)
        np.testing.assert_allclose(one.replicates, scores[0].replicates, atol=1e-12)
        assert one.method == scores[0].method


def test_rows_that_agree_in_all_that_is_counted_are_one_line(monkeypatch):
    """Many rows with few different probabilities: lots of them would be too wide, lines are the bootstrap of rows."""
    draw = np.random.default_rng(2)
    P = np.array([[0.2, 0.7], [0.6, 0.4], [0.55, 0.9]])[draw.integers(0, 3, 5000)]
    Y = (draw.random(P.shape) < P).astype(np.uint8)
    rule = confmax.LabelRule.from_thresholds([0.58, 0.5])
    whole = confmax.score("macro_f1", P, Y, rule, n_replicates=1500)
    many(monkeypatch, lots=200)
    found = confmax.score("macro_f1", P, Y, rule, n_replicates=1500)
    judged = judge_labels(labels_table(ANY, P, Y), lambda part: {"rule": rule.predict(part.proba) * 1.0})
    assert len(judged.lines) <= 12 and judged.by_row.all() and judged.n_rows == 5000
    assert "replicates of rows" in found.method
    np.testing.assert_allclose(found.values, whole.values, atol=1e-12)
    np.testing.assert_allclose(found.replicates.std(axis=2), whole.replicates.std(axis=2), rtol=0.08)
    np.testing.assert_allclose(found.replicates.mean(axis=2), whole.replicates.mean(axis=2), atol=1e-3)


@pytest.mark.parametrize("which", ["one content", "every row", "both"])
def test_equal_rows_leave_the_width_of_intervals(monkeypatch, which):
    """The variance of a mean over rows that are drawn is known."""
    P, Y, _ = rows(12_000, seed=6)
    if which != "one content":
        P, Y = (np.tile(one[:1000], (12, 1)) for one in (P, Y))
    if which != "every row":
        # a third of all rows is certain, and decided rightly
        P[:4000], Y[:4000] = [0.99, 0.01, 0.99, 0.01], [1, 0, 1, 0]
    many(monkeypatch, lots=600)
    judged = judge_labels(labels_table(ANY, P, Y), lambda part: {"p": part.proba})
    assert judged.resampled == "lots of rows" and judged.by_row.sum() == (which != "every row")
    assert judged.parts == 1 if which == "one content" else 6 < judged.parts < 20
    (S,) = zip(*(judged.of(counts) for counts in judged.replicates(1500, 0)), strict=True)
    for name, by_row in (("rows", Y), ("columns", P), ("diagonal", P * Y)):
        drawn = np.concatenate([getattr(one, name) for one in S])
        np.testing.assert_allclose(drawn.mean(axis=0), by_row.mean(axis=0), atol=4 * by_row.std() / 12_000**0.5)
        ratio = drawn.std(axis=0) / (by_row.std(axis=0) / 12_000**0.5)
        assert ratio == pytest.approx(np.ones(4), abs=0.16) and ratio.mean() == pytest.approx(1.0, abs=0.08)


def test_the_number_of_lots_keeps_their_sums_small(monkeypatch):
    monkeypatch.setattr(label_lines, "LOT_CELLS", 12 * 30)
    P, Y, _ = rows(500)
    many(monkeypatch, lots=1 << 14)
    judged = judge_labels(labels_table(ANY, P, Y), lambda part: {"p": part.proba})
    assert len(judged.lines) == 30


def test_one_rule_apart_has_the_replicates_that_it_has_beside_others():
    P, Y, weight = rows(400)
    table = labels_table(ANY, P, Y, weight, NAMES)
    judged = judge_labels(table, lambda part: {"a": part.proba, "b": (part.proba > 0.3) * 1.0, "c": part.proba})
    (counts,) = judged.replicates(20, 3)
    one = judged.only(("c", "b"))
    for S, whole in zip(one.of(counts), [judged.of(counts)[k] for k in (2, 1)], strict=True):
        np.testing.assert_array_equal(S.columns, whole.columns)
        np.testing.assert_array_equal(S.diagonal, whole.diagonal)
    assert judged.decide_alike("a", "c") and not judged.decide_alike("a", "b") and not one.decide_alike("c", "b")
    shares = np.bincount((P > 0.3).sum(axis=1), weight, 6) / weight.sum()
    assert judged.shares_per_row("b") == pytest.approx(shares, abs=1e-12) and judged.shares_per_row("a") == ()
    assert judged.labels_per_row("b") == pytest.approx(np.average((P > 0.3).sum(axis=1), weights=weight))


# --- places -----------------------------------------------------------------------------------------------------------


def placed(place, P, Y, group=None):
    """Return rows in a place, and their labels and groups as arguments."""
    at = range(0, len(P), 500)
    if place == "stream":
        pytest.importorskip("pyarrow")
        return (lambda: ((P[k : k + 500], Y[k : k + 500]) for k in at)), None, {}
    da = pytest.importorskip("dask.array")
    arrays = [da.from_array(one, chunks=(500, *one.shape[1:])) for one in (P, Y)]
    return *arrays, {} if group is None else {"group": da.from_array(group, chunks=500)}


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("place", ["stream", "dask"])
def test_rows_of_any_place_are_scored_and_have_a_page(place, tmp_path):
    pytest.importorskip("jinja2")
    P, Y, _ = rows()
    proba, y, _ = placed(place, P, Y)
    rule = rule_of("any")
    found = confmax.score("macro_f1", proba, y, rule, n_replicates=60)
    whole = confmax.score("macro_f1", P, Y, rule, n_replicates=60)
    assert found.estimate("rule") == pytest.approx(whole.estimate("rule"), abs=1e-12)
    assert found.estimate("rule").value == pytest.approx(f1_score(Y, rule.predict(P), average="macro"))
    confmax.report.write(tmp_path / "page.html", rule, proba, y, n_replicates=60)
    text = " ".join((tmp_path / "page.html").read_text().split())
    assert "were found on a sample of" in text and f"{whole.estimate('rule').value:.3f}" in text
    with pytest.raises(ValueError, match="the decisions of 'other' are of rows in memory"):
        confmax.score("macro_f1", proba, y, rule, rules={"other": Y})


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("place", ["stream", "dask"])
def test_rows_of_one_class_in_any_place_are_scored_and_have_a_page(place, tmp_path):
    pytest.importorskip("vl_convert")
    P, Y, _ = rows()
    P = (P + 0.01) / (P + 0.01).sum(axis=1, keepdims=True)
    y = (P + 0.3 * Y).argmax(axis=1)
    group = np.arange(len(P)) % 2
    given, truth, more = placed(place, P, y, group)
    rule = confmax.maximize("macro_f1", P[::2], y[::2]).rule
    found = confmax.score(METRICS[:1], given, truth, rule, n_replicates=60, **more)
    whole = confmax.score(METRICS[:1], P, y, rule, n_replicates=60, **({"group": group} if more else {}))
    np.testing.assert_allclose(found.replicates, whole.replicates, atol=1e-12)
    for name, part in whole.by_group.items():
        np.testing.assert_allclose(found.by_group[name].values, part.values, atol=1e-12)
    confmax.report.write(tmp_path / "page.html", rule, given, truth, n_replicates=60, **more)
    text = " ".join((tmp_path / "page.html").read_text().split())
    assert "which were read in parts" in text and f"{whole.estimate('rule').value:.3f}" in text
    with pytest.raises(ValueError, match="the decisions of 'rule' are of rows in memory"):
        confmax.score("macro_f1", given, truth, y, **more)


@pytest.mark.usefixtures("small_samples")
def test_columns_of_a_lazy_frame_go_by_name():
    frames = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    P, Y, weight = rows()
    columns = {f"p_{name}": P[:, k] for k, name in enumerate(NAMES)} | {"w": weight}
    columns |= {f"y_{name}": Y[:, k] for k, name in enumerate(NAMES)}
    frame = frames.from_pandas(pd.DataFrame(columns), npartitions=4)
    given = ["y_sun", "y_sea", "y_fog", "y_rain"]
    found = confmax.score(METRICS, frame, given, rule_of(2), sample_weight="w", n_replicates=0)
    whole = confmax.score(METRICS, P, Y, rule_of(2), sample_weight=weight, n_replicates=0)
    np.testing.assert_allclose(found.values, whole.values, atol=1e-12)


def test_rows_without_labels_are_refused(tmp_path):
    P, Y, _ = rows(60)
    rule, single = rule_of("any"), confmax.DecisionRule.from_weights(np.ones(4))
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(P, chunks=(20, 4))
    for given in (P, lazy, lambda: iter([P]), cut(P, at=[20])):
        with pytest.raises(ValueError, match=r"(score|a report) (counts|needs) labels; pass (y=|label=)"):
            confmax.score("hamming", given, None, rule)
        with pytest.raises(ValueError, match="a report counts labels; pass y="):
            confmax.report.write(tmp_path / "page.html", rule, given, None, metric="hamming")
        with pytest.raises(ValueError, match=r"score (counts|needs) labels; pass (y=|label=)"):
            confmax.score("accuracy", given, None, single)
    with pytest.raises(ValueError, match="an opened table brings its labels and weights"):
        confmax.score("hamming", cut(P, Y, at=[20]), Y, rule)


@pytest.mark.usefixtures("small_samples")
def test_the_page_says_what_was_found_on_a_sample_and_what_is_drawn(monkeypatch):
    P, Y, weight = rows(2000)
    metric = label_metrics.get("macro_f1")
    for given, sample in (((P, Y, weight), False), ((cut(P, Y, weight, at=CUTS[0]), None, None), True)):
        table = labels_table(ANY, *given, NAMES)
        found = label_figures(table, metric, rule_of("any"), n_replicates=50)
        said = label_words.counted_on(found)
        assert [f"on a sample of {table.head.n_weighted:,} rows" in one for one in said] == [True] * sample
        assert found.total_weight == pytest.approx(weight.sum())
        assert [one.n_rows for one in found.labels] == Y[weight > 0].sum(axis=0).tolist()
        assert [one.rate for one in found.labels] == pytest.approx(
            np.average(rule_of("any").predict(P), axis=0, weights=weight).tolist(), abs=1e-12
        )
        assert found.score.estimate(TUNED, "macro_f1").value == pytest.approx(
            f1_score(Y, rule_of("any").predict(P), average="macro", sample_weight=weight)
        )
    many(monkeypatch, lots=150)
    found = label_figures(labels_table(ANY, P, Y, weight, NAMES), metric, rule_of("any", draws=True), n_replicates=50)
    assert "A lot holds all rows with one hash of their content" in " ".join(label_words.counted_on(found))


def test_sparse_rows_have_the_lines_of_what_predict_decides(monkeypatch):
    P, Y, _ = rows(300)
    P[P < 0.25] = 0.0
    many(monkeypatch, lots=40)
    scores = [
        confmax.score(METRICS, form(P), Y, rule_of("any"), n_replicates=50) for form in (np.asarray, sp.csr_array)
    ]
    np.testing.assert_allclose(scores[1].replicates, scores[0].replicates, atol=1e-12)
    assert scores[0].method == scores[1].method and "lots" in scores[0].method
