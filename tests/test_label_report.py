"""The page of a rule of several labels: its numbers, sentences and table, and what it refuses."""

import re
import warnings

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

import confmax
from confmax.evaluate.label_figures import TUNED, label_figures
from confmax.evaluate.label_scores import named_label_metric
from confmax.metrics import labels as label_metrics
from confmax.page import label_words
from confmax.tables.decisions import ANY, decisions_of
from confmax.tables.draws import label_folds_to_judge
from confmax.tables.several import labels_table
from tests.browser import CHROMIUM, look

pytest.importorskip("jinja2")
NAMES = ["<b>sea</b>", "sun", "rain", "fog"]


def rows(n=300, seed=0):
    draw = np.random.default_rng(seed)
    P = draw.beta(1, 2.5, (n, 4))
    return P, (draw.random(P.shape) < P**1.2).astype(int)


def solved(decisions="any", **more):
    return confmax.maximize("macro_f1", *rows(seed=1), classes=NAMES, decisions=decisions, **more)


def text_of(path):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", path.read_text().split("<body>")[1]))


def test_figures_are_those_of_scikit_learn():
    P, Y = rows()
    w = np.random.default_rng(3).integers(1, 4, len(P)).astype(float)
    solution = solved(constraints=["labels_per_row <= 1.6", "recall[sun] >= 0.7"])
    table = labels_table(ANY, P, Y, w, NAMES)
    found = label_figures(table, solution.metric, solution.rule, solution, n_replicates=50)
    H = solution.predict(P)
    assert found.score.rules == ("p > 0.5", "separate thresholds", "tuned rule")
    assert found.score.estimate(TUNED, "macro_f1").value == pytest.approx(
        f1_score(Y, H, average="macro", sample_weight=w)
    )
    alone = np.zeros(P.shape, int)
    fold = label_folds_to_judge(table.head, 5, 0)
    usual = {"decisions": "any", "confusion": "labels", "calibration": None, "shrinkage": False}
    for k in range(5):
        there = confmax.maximize("macro_f1", P[fold != k], Y[fold != k], sample_weight=w[fold != k], **usual)
        alone[fold == k] = there.predict(P[fold == k])
    assert found.score.estimate("separate thresholds", "micro_f1").value == pytest.approx(
        f1_score(Y, alone, average="micro", sample_weight=w)
    )
    parts = {"precision": precision_score, "recall": recall_score}
    for name, score in parts.items():
        expected = score(Y, H, average=None, sample_weight=w, zero_division=0)
        assert [getattr(one, name) for one in found.labels] == pytest.approx(expected.tolist())
    assert [one.f1.value for one in found.labels] == pytest.approx(f1_score(Y, H, average=None, sample_weight=w))
    assert [one.n_rows for one in found.labels] == Y.sum(axis=0).tolist()
    assert [one.rate for one in found.labels] == pytest.approx(np.average(H, axis=0, weights=w).tolist())
    tuned = found.per_row[-1]
    assert tuned.mean == pytest.approx(np.average(H.sum(axis=1), weights=w))
    assert tuned.shares[0] == pytest.approx(np.average(H.sum(axis=1) == 0, weights=w)) and sum(
        tuned.shares
    ) == pytest.approx(1.0)
    assert found.score.limits[TUNED][0].value == pytest.approx(tuned.mean)
    assert set(found.score.limits) == set(found.score.rules)


def test_the_page_says_what_the_figures_are(tmp_path):
    P, Y = rows()
    solution = solved(constraints=["labels_per_row <= 1.6", "recall[sun] >= 0.999"])
    path = tmp_path / "page.html"
    solution.report(path, P, Y, n_replicates=50, source="held out")
    page, text = path.read_text(), text_of(path)
    assert "<b>sea</b>" not in page and "&lt;b&gt;sea&lt;/b&gt;" in page
    # rows that get a label, and those that have it, too, beside the shares
    H = solution.predict(P)
    assert f"% {H[:, 1].sum()} {(H * Y)[:, 1].sum()} " in text and "Decided and right are rows" in text
    assert (
        "The rule misses recall[sun] &gt;= 0.999 on these rows" in text or "The rule was tuned within 2 limits" in text
    )
    values = confmax.score("macro_f1", P, Y, solution, n_replicates=0)
    for rule in ("p > 0.5", "rule"):
        assert f"{values.estimate(rule).value:.3f}" in text
    assert "On the tuning rows, proved: no thresholds, one for each label, within the limits" in text
    assert "confmax report · held out" in text and "labels_per_row" in text
    before = page
    solution.report(path, P, Y, n_replicates=50, source="held out")
    assert path.read_text() == before


def test_rules_with_a_number_of_labels_and_saved_rules_have_a_page(tmp_path):
    P, Y = rows()
    solution = solved(2)
    path = tmp_path / "page.html"
    confmax.report.write(path, solution.rule, P, Y, n_replicates=0)
    text = text_of(path)
    assert "top-2 of p/prior" in text and "A saved rule holds no proof" in text and "threshold" not in text.lower()
    plain = (P / Y.mean(axis=0)).argsort(axis=1)[:, -2:]
    H = np.zeros(P.shape)
    np.put_along_axis(H, plain, 1.0, axis=1)
    assert f"{f1_score(Y, H, average='macro'):.3f}" in text
    solved(("at_most", 2)).report(path, P, Y, n_replicates=0)
    assert "A row gets the 2 labels with the largest scores, of those with a score above zero;" in text_of(path)
    assert "top-2 of p &gt; 0.5" in text_of(path) and "top-2 of p/prior" in text_of(path)


@pytest.mark.parametrize("decisions", ["any", 2])
def test_cross_fitted_pages(tmp_path, decisions):
    P, Y = rows()
    Y[:, 3] = np.arange(300) < 12
    path = tmp_path / "page.html"
    given = {"classes": NAMES, "decisions": decisions, "confusion": "labels", "calibration": None}
    solution = confmax.report.write_cross_fitted(path, "macro_f1", P, Y, folds=3, n_replicates=0, **given)
    alone = confmax.maximize("macro_f1", P, Y, **given)
    assert solution.rule == alone.rule
    fold = label_folds_to_judge(labels_table(decisions_of(decisions), P, Y, None, NAMES).head, 3, 0)
    H, separate = np.zeros(P.shape), np.zeros(P.shape)
    for k in range(3):
        here = fold == k
        found = confmax.maximize("macro_f1", P[~here], Y[~here], **given)
        H[here] = found.predict(P[here])
        if decisions == "any":
            separate[here] = P[here] > found.alone
    text = text_of(path)
    held = f1_score(Y, H, average="macro")
    assert f"On held-out rows, the rules of the folds reach {held:.3f}." in text
    assert f"reaches {alone.label_value:.3f} in macro F1" in text
    assert "Evaluated on 300 rows, cross-fitted in 3 folds" in text and "3, stratified by all labels" in text
    assert (f"{f1_score(Y, separate, average='macro'):.3f}" in text) == (decisions == "any")
    assert "confmax.report.write_cross_fitted(" in text
    again = path.read_text()
    confmax.report.write_cross_fitted(path, "macro_f1", P, Y, folds=3, n_replicates=0, solution=solution, **given)
    assert path.read_text() == again


def test_folds_that_cannot_keep_limits_are_no_reason_for_no_page(tmp_path):
    P, Y = rows(80)
    path = tmp_path / "page.html"
    given = {"classes": NAMES, "decisions": "any", "constraints": "recall[sun] >= 0.9"}
    confmax.report.write_cross_fitted(path, "macro_f1", P, Y, folds=2, n_replicates=0, **given)
    assert "The rule was tuned within one limit." in text_of(path)
    with pytest.raises(ValueError, match="a report counts labels; pass y"):
        confmax.report.write_cross_fitted(path, "macro_f1", P, None, **given)
    with pytest.raises(ValueError, match="group is of one class for every row"):
        confmax.report.write_cross_fitted(path, "macro_f1", P, Y, group=Y[:, 0], **given)


def test_warnings_are_said(tmp_path):
    P, Y = rows()
    Y[:, 2] = 0
    Y[5:, 3] = 0
    solution = solved()
    solution.report(tmp_path / "page.html", P, Y, n_replicates=0)
    text = text_of(tmp_path / "page.html")
    assert "No row has the label rain: metrics leave such labels out." in text
    assert f"Fewer than 20 rows have the label fog ({Y[:, 3].sum()}): what this label scores" in text
    assert "A hash in the rule tells that they are not the rows of its tuning" in text
    unknown = confmax.LabelRule.from_thresholds([0.3] * 4, classes=NAMES, metric="macro_f1")
    confmax.report.write(tmp_path / "page.html", unknown, P, Y, n_replicates=0)
    assert "Make sure that the rule was not tuned on them." in text_of(tmp_path / "page.html")
    own = tmp_path / "own.html"
    with pytest.warns(UserWarning, match="rows that the rule was tuned on"):
        solution.report(own, *rows(seed=1), n_replicates=0)
    assert "Evaluated on the 300 rows that the rule was tuned on" in text_of(own)


def test_labels_of_one_row_and_of_none_are_not_judged_in_silence(tmp_path):
    P, Y = rows()
    Y[:, 2] = 0
    Y[:, 3] = np.arange(300) == 7
    solved(constraints="recall[rain] >= 0.5").report(tmp_path / "page.html", P, Y, n_replicates=400)
    text = text_of(tmp_path / "page.html")
    assert "These rows cannot judge recall[rain] &gt;= 0.5: no row has the label." in text
    said = re.search(r"Some replicates have no row with fog \(([0-9.]+)\s*%\), so that intervals are too narrow", text)
    # a row is in no replicate of 300 draws with probability (1 - 1 / 300)^300
    assert said and float(said[1]) / 100 == pytest.approx((1 - 1 / 300) ** 300, abs=0.08)


def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path):
    P, Y = rows()
    path = tmp_path / "page.html"
    rule = confmax.LabelRule.from_thresholds([0.5] * 4, classes=NAMES)
    cases = {
        "the rule was tuned for 'a metric that it does not name'": (rule, {}),
        "group is of one class for every row": (solved(), {"group": Y[:, 0]}),
        "there is no metric 'min_recall' of several labels": (solved(), {"metric": "min_recall"}),
        "n_replicates": (solved(), {"n_replicates": -1}),
    }
    for sentence, (given, more) in cases.items():
        with pytest.raises(ValueError, match=sentence):
            confmax.report.write(path, given, P, Y, **more)
    with pytest.raises(ValueError, match="a report counts labels; pass y"):
        confmax.report.write(path, solved(), P, None)
    assert not list(tmp_path.iterdir())


def test_the_metric_of_a_rule_file_is_read_back():
    for metric in (label_metrics.get("macro_f_beta", beta=2.0), label_metrics.get("micro_f1")):
        assert repr(named_label_metric(repr(metric))) == repr(metric)
    assert named_label_metric("worst") is None


def test_headlines_follow_the_figures():
    P, Y = rows()
    table = labels_table(ANY, P, Y, None, NAMES)
    same = confmax.LabelRule.from_thresholds([0.5] * 4, classes=NAMES, metric="macro_f1")
    metric = label_metrics.get("macro_f1")
    said = label_words.headline(label_figures(table, metric, same, n_replicates=50))
    assert said == "Macro F1: the tuned rule decides as p > 0.5 does"
    never = confmax.LabelRule.from_thresholds([np.inf, 0.7, np.inf, 0.7], classes=NAMES, metric="macro_f1")
    found = label_figures(table, metric, never, n_replicates=50)
    assert "Macro F1: the tuned rule is worse than p > 0.5" in label_words.headline(found)
    assert any("never decides <b>sea</b> and rain" in one for one in label_words.warnings_of(found))
    # of rules without tuning it names the best one
    limited = solved(("at_most", 2)).rule
    found = label_figures(table, metric, limited, n_replicates=50)
    assert found.score.plain == ("top-2", "top-2 of p > 0.5", "top-2 of p/prior", "top-2 of separate thresholds")
    best = max(found.score.plain, key=lambda name: found.score.estimate(name, "macro_f1").value)
    assert found.plain == best and best in label_words.headline(found)
    assert len(label_words.against(found)) == 3


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_the_page_fits_a_browser_and_sorts(tmp_path):
    path = tmp_path / "page.html"
    P, Y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solved().report(path, P, Y, n_replicates=40)
    click = (
        "<script>document.querySelectorAll('.sortable button')[1].click();document.documentElement.dataset.drawn = '0';"
        "document.title=Array.from(document.querySelectorAll('.sortable tbody tr')).map(e=>e.cells[1].dataset.value)"
        ".join(' ')</script></body>"
    )
    path.write_text(path.read_text().replace("</body>", click))
    for width in (400, 1200):
        found = look(path, width)
        assert found["width"] <= found["inner"] and not found["loaded"]
        assert found["title"] == " ".join(map(str, sorted(Y.sum(axis=0), reverse=True)))
