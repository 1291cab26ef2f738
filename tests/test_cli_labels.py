"""Commands on rows with several labels: which columns are read, what is written, and what is refused."""

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

import confmax
from confmax.calibration.labels import LabelScaling
from confmax.confusion import Gains
from confmax.tables.decisions import decisions_of
from confmax.tables.draws import label_folds_to_judge
from confmax.tables.several import labels_table
from tests.cli_helpers import document, refusal, run
from tests.label_files import ANY, NAMES, rows, table, tuned
from tests.test_cli_docs import documented, walk

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("inside")
TWO = ["top-2", "top-2 of p > 0.5", "top-2 of p/prior"]


@pytest.mark.parametrize(
    ("probabilities", "truth"), [("p_{}", "{}"), ("{}_proba", "y_{}"), ("p_{}", "y_{}"), ("p({})", "is {}")]
)
def test_columns_of_labels_and_of_probabilities_are_matched_by_name(probabilities, truth):
    path = table(probabilities=probabilities, truth=truth)
    labels = ",".join(truth.format(name) for name in NAMES)
    found = document("tune", path, *ANY, "--labels", labels, "--metric", "macro_f1", "-o", "r.json")
    solution = tuned()
    assert confmax.LabelRule.load("r.json").thresholds.tolist() == solution.rule.thresholds.tolist()
    assert found["columns"] == [probabilities.format(name) for name in NAMES]
    assert found["tuned"] == pytest.approx(solution.value)
    decided, true = solution.predict(rows()[0]).sum(1).mean(), rows()[1].sum(1).mean()
    assert (found["labels_per_row"], found["true_labels_per_row"]) == pytest.approx((decided, true))
    printed = run("tune", path, *ANY, "--labels", labels, "--metric", "macro_f1")[0]
    how = f"{solution.model_share:.0%} expected from the probabilities, the rest counted on the labels; any labels"
    assert f"macro_f1 on the tuning rows, {how}\n" in printed
    run("apply", "r.json", path, "-o", "out.csv")
    lines = Path("out.csv").read_text().split("\n")
    assert [line.split(",")[-3:] for line in lines[1:-1]] == solution.predict(rows()[0]).astype(str).tolist()


def test_one_column_of_names_is_read_as_columns_of_0_and_1_are():
    path = table()
    joined = document("tune", path, *ANY, "--label", "tags", "--separator", "|", "--metric", "micro_f1")
    apart = document("tune", path, *ANY, "--labels", "rain,sea,sun", "--metric", "micro_f1")
    assert joined["classes"] == apart["classes"] == sorted(NAMES)
    assert joined["rule"]["atoms"] == apart["rule"]["atoms"] and joined["tuned"] == apart["tuned"]


def test_truth_beside_probabilities_is_not_taken_for_them():
    """A held-out file has the 0/1 columns of the labels, which are called exactly like the labels of the rule."""
    tuned().rule.save("r.json")
    found = document("apply", "r.json", table(), "-o", "out.csv", "--separator", "|")
    assert found["columns"] == [f"p_{name}" for name in NAMES]
    cells = [line.rpartition(",")[2] for line in Path("out.csv").read_text().split("\n")[1:-1]]
    assert cells == ["|".join(names) for names in tuned().predict_lists(rows()[0])]


def test_arrays_and_lists_are_read():
    P, Y = rows()
    np.savez("t.npz", P=P, Y=Y.astype(bool))
    found = document(
        "tune", "t.npz", *ANY, "--label", "Y", "--classes", ",".join(NAMES), "--metric", "macro_f1", "-o", "r.json"
    )
    assert (found["table"], found["tuned"]) == ("P", pytest.approx(tuned().value))
    run("apply", "r.json", "t.npz", "--columns", "P", "-o", "out.npz")
    assert (np.load("out.npz")["decision"] == tuned().predict(P)).all()
    lists = [list(np.array(NAMES)[row == 1]) for row in Y]
    pq.write_table(pa.table({**dict(zip(NAMES, P.T, strict=True)), "tags": lists}), "t.parquet")
    found = document("tune", "t.parquet", *ANY, "--label", "tags", "--metric", "macro_f1")
    assert found["tuned"] == pytest.approx(tuned().value)
    run("apply", "r.json", "t.parquet", "-o", "out.parquet")
    assert pq.read_table("out.parquet")["decision_sun"].to_pylist() == tuned().predict(P)[:, 1].tolist()


def test_without_labels_the_model_alone_tunes():
    found = document("tune", table(truth=None, tags=False), *ANY, "--metric", "macro_f1")
    assert found["true_labels_per_row"] is None and found["labels_per_row"] > 0
    assert (found["confusion"], found["classes"]) == ("model", ["rain", "sea", "sun"])
    assert all(one["rows"] is None for one in found["labels"])


def budgets():
    a, c = np.array([1.0, 1.5, 0.7]), np.array([-0.5, 0.3, 0.1])
    gains = Gains.reduced([[1.0, 2.0, 0.5]], [[-0.3, 0.1, 0.0]])
    for name, given in (("k", 2), ("m", ("at_most", 1))):
        maps = LabelScaling(a, c) if name == "k" else None
        confmax.LabelRule(gains, np.ones(1), tuple(NAMES), decisions_of(given), "macro_f1", calibrator=maps).save(
            f"{name}.json"
        )


def test_rules_with_a_number_of_labels_are_applied_scored_and_explained():
    path = table()
    budgets()
    for name, most in (("k", 2), ("m", 1)):
        found = document("apply", f"{name}.json", path, "-o", f"{name}.csv")
        assert found["labels_per_row"] <= most
        scored = document("score", path, "--labels", ",".join(NAMES), "--rule", f"{name}.json", "--replicates", "0")
        assert scored["plain"] == f"top-{most}" and scored["labels"][0]["threshold"] is None
        P, Y = rows()
        first = np.eye(3)[P.argmax(axis=1)]
        if name == "m":
            row = next(one for one in scored["values"] if one["metric"] == "macro_f1")
            assert row["plain"] == pytest.approx(f1_score(Y, first, average="macro"))
            assert list(row["others"]) == ["top-1 of p > 0.5", "top-1 of p/prior", "top-1 of separate thresholds"]
            best = np.eye(3)[(P / Y.mean(axis=0)).argmax(axis=1)]
            assert row["others"]["top-1 of p/prior"] == pytest.approx(f1_score(Y, best, average="macro"))
            assert "top-1 of p/prior" in run("score", path, "--labels", ",".join(NAMES), "--rule", "m.json")[0]
    text, _ = run("explain", "k.json", "--proba", "0.2,0.5,0.9")
    assert "a row gets the 2 labels with the largest scores" in text
    assert text.rstrip().endswith(", ".join(confmax.LabelRule.load("k.json").predict_lists([[0.2, 0.5, 0.9]])[0]))


def test_score_is_that_of_scikit_learn():
    from sklearn.metrics import hamming_loss

    path = table()
    P, Y = rows()
    rule = tuned().rule
    rule.save("r.json")
    with_intervals = document("score", path, "--labels", ",".join(NAMES), "--rule", "r.json", "--replicates", "200")
    values = {row["metric"]: row for row in with_intervals["values"]}
    H = rule.predict(P)
    assert values["macro_f1"]["rule"] == pytest.approx(f1_score(Y, H, average="macro"))
    assert values["micro_f1"]["plain"] == pytest.approx(f1_score(Y, P > 0.5, average="micro"))
    assert values["hamming"]["rule"] == pytest.approx(1 - hamming_loss(Y, H))
    low, high = values["macro_f1"]["intervals"]["rule"]
    assert low < values["macro_f1"]["rule"] < high
    per_row = (H.sum(1).mean(), Y.sum(1).mean())
    assert (with_intervals["labels_per_row"], with_intervals["true_labels_per_row"]) == pytest.approx(per_row)
    each = f1_score(Y, H, average=None)
    assert [one["f1"] for one in with_intervals["labels"]] == pytest.approx(each.tolist())
    text, stderr = run("score", path, "--label", "tags", "--separator", "|", "--rule", "r.json")
    said = r"^labels per row +{:.4f} decided, {:.4f} true$".format(*per_row)
    assert re.search(said, text, re.MULTILINE)
    assert re.search(said, run("tune", path, *ANY, "--label", "tags", "--separator", "|", "--metric", "macro_f1")[0], 8)
    assert re.search(r"^sun +\d+ +p > 0\.\d+", text, re.MULTILINE) and "the rule was tuned on" in stderr


def test_score_judges_the_limits_of_the_tuning():
    path = table()
    limits = ("recall[sea] >= 0.8", "precision[sun] >= 0.9")
    confmax.LabelRule.from_thresholds([0.2, 0.3, 0.2], classes=NAMES, constraints=limits).save("r.json")
    line = ("score", path, "--labels", ",".join(NAMES), "--rule", "r.json", "--replicates", "50")
    found = document(*line, code=3)["constraints"]
    expected = confmax.score("hamming", *rows(), confmax.LabelRule.load("r.json"), n_replicates=50).limits["rule"]
    assert [(one["text"], one["value"], one["slack"]) for one in found] == [
        (x.text, x.value, x.slack) for x in expected
    ]
    assert [one["kept"] for one in found] == [True, False] and found[0]["interval"] == list(expected[0][2:4])
    printed = run(*line, code=3)[0]
    assert re.search(r"precision\[sun\] >= 0.9 +0\.\d+ \[.*\] +no, missed by 0\.\d+", printed)
    lines = ["sea,sun,rain,p_sea,p_sun,p_rain", "0,1,1,0.3,0.4,0.5", "0,1,0,0.1,0.2,0.6"]
    Path("few.csv").write_text("\n".join(lines) + "\n")
    _, stderr = run("score", "few.csv", *line[2:], code=0)
    assert "the limit recall[sea] >= 0.8 cannot be judged on this file: no row has the label" in stderr


def test_report_writes_a_page():
    pytest.importorskip("jinja2")
    path = table()
    tuned().rule.save("r.json")
    line = ("report", "r.json", path, "--label", "tags", "--separator", "|", "--replicates", "40", "-o", "page.html")
    found = document(*line)
    assert found == {"rule_file": "r.json", "file": path, "rows": 120, "report_file": "page.html"}
    page = Path("page.html").read_text()
    assert "Few rows" not in page and "macro F1, tuned rule" in page
    assert "confmax report r.json t.csv --label tags --separator" in page
    run(*line, "--metric", "hamming")
    assert "Hamming" in Path("page.html").read_text().split("</h1>")[0]


@pytest.mark.parametrize("given", ["any", "1", "at-most:2"])
def test_compare_judges_rules_on_rows_that_are_new_to_them(given, monkeypatch):
    monkeypatch.setattr("confmax.cli.compare.N_FOLDS", 3)
    path = table()
    P, Y = rows()
    rule = tuned().rule
    rule.save("r.json")
    line = ("compare", path, "--decisions", given, "--labels", ",".join(NAMES), "--metric", "macro_f1")
    found = document(*line, "--metric", "micro_f1", "--rule", "r.json", "--replicates", "50")
    by_name = {one["rule"]: one for one in found["rules"]}
    plain = {"any": ["p > 0.5", "top-1"], "1": ["top-1", "top-1 of p/prior"], "at-most:2": TWO}[given]
    # the usual way to tune, of at most k labels cut to the k most probable ones
    usual = {"any": ["separate thresholds"], "at-most:2": ["top-2 of separate thresholds"]}.get(given, [])
    assert list(by_name) == [*plain, *usual, "for macro_f1", "for micro_f1", "r.json"]
    assert found["plain"] == plain[0] and "minus_plain" not in by_name[plain[0]]
    # the folds and the tuning again, apart from the command
    argument = {"any": "any", "1": 1, "at-most:2": ("at_most", 2)}[given]
    one = labels_table(decisions_of(argument), P, Y, None, NAMES)
    fold = label_folds_to_judge(one.head, 3, 0)
    ways = {"for macro_f1": {"metric": "macro_f1"}, "for micro_f1": {"metric": "micro_f1"}}
    if given == "any":
        ways["separate thresholds"] = {"metric": "macro_f1", "confusion": "labels", "calibration": None}
    for name, way in ways.items():
        H = np.zeros(P.shape)
        for k in range(3):
            here = fold == k
            solution = confmax.maximize(proba=P[~here], y=Y[~here], classes=NAMES, decisions=argument, **way)
            H[here] = solution.predict(P[here])
        assert by_name[name]["values"]["macro_f1"] == pytest.approx(f1_score(Y, H, average="macro"))
        assert by_name[name]["labels_per_row"] == pytest.approx(H.sum(axis=1).mean())
    H = rule.predict(P)
    assert by_name["r.json"]["values"]["micro_f1"] == pytest.approx(f1_score(Y, H, average="micro"))
    if given == "any":
        of_two = [by_name[one]["values"]["micro_f1"] for one in ("r.json", "separate thresholds")]
        minus = by_name["r.json"]["minus_separate"]["micro_f1"]
        assert minus["value"] == pytest.approx(of_two[0] - of_two[1]) and minus["low"] < minus["high"]
        assert "minus_separate" not in by_name["separate thresholds"]
        assert "Difference to separate thresholds, with its interval" in run(*line, "--replicates", "50")[0]
    assert ("minus_separate" in by_name["r.json"]) == bool(usual)
    assert by_name["for micro_f1"]["verdict"]["metric"] == "micro_f1"
    assert [one["name"] for one in by_name["r.json"]["verdict"]["rivals"]] == [*plain, *usual]
    minus = by_name["r.json"]["minus_plain"]["micro_f1"]["value"]
    assert minus == pytest.approx(f1_score(Y, H, average="micro") - by_name[plain[0]]["values"]["micro_f1"])
    printed = run(*line, "--replicates", "0")[0]
    assert found["true_labels_per_row"] == pytest.approx(Y.sum(axis=1).mean())
    shown = f"{by_name['for macro_f1']['labels_per_row']:.4f}"
    assert re.search(rf"labels per row\n(.*\n)*for macro_f1 .* {shown}\n", printed)
    assert f"Rows have {Y.sum(axis=1).mean():.4f} true labels on average." in printed
    assert (
        f"To tune a rule on all rows: confmax tune t.csv --decisions {given} --labels sea,sun,rain --metric" in printed
    )


def test_compare_judges_all_rules_by_limits(monkeypatch):
    monkeypatch.setattr("confmax.cli.compare.N_FOLDS", 2)
    path = table()
    line = ("compare", path, *ANY, "--label", "tags", "--separator", "|", "--metric", "hamming", "--replicates", "0")
    found = document(*line, "--subject-to", "recall[sun] >= 0.7", "--subject-to", "labels_per_row <= 2")
    for one in found["rules"]:
        recall, per_row = one["constraints"]
        assert per_row["value"] == pytest.approx(one["labels_per_row"]) and per_row["slack"] == 2 - per_row["value"]
        assert recall["kept"] == (recall["value"] >= 0.7)
    printed = run(*line, "--subject-to", "recall[sun] >= 0.7")[0]
    assert "Limits; * is kept on these rows" in printed


def test_folds_of_labels_depend_on_the_content_of_rows_alone():
    P, Y = rows()
    P[60:90], Y[60:90] = P[:30], Y[:30]
    fold = label_folds_to_judge(labels_table(decisions_of("any"), P, Y, None, NAMES).head, 4, 7)
    order = np.random.default_rng(1).permutation(len(P))
    moved = label_folds_to_judge(labels_table(decisions_of("any"), P[order], Y[order], None, NAMES).head, 4, 7)
    assert (moved == fold[order]).all() and (fold[60:90] == fold[:30]).all()
    for label in range(3):
        counts = np.bincount(fold[Y[:, label] == 1], minlength=4)
        assert counts.max() - counts.min() <= 10
    same = np.full((20, 3), 0.5)
    with pytest.raises(ValueError, match="cross-fitting in 4 folds needs rows that differ, and 1 of them do"):
        label_folds_to_judge(labels_table(decisions_of("any"), same, Y[:20], None, NAMES).head, 4, 0)


def test_tune_writes_a_cross_fitted_page():
    pytest.importorskip("jinja2")
    path = table()
    line = ("tune", path, *ANY, "--labels", ",".join(NAMES), "--metric", "macro_f1", "--subject-to", "rate[sea] <= 0.9")
    found = document(*line, "-o", "r.json", "--report", "page.html")
    assert (found["rule_file"], found["report_file"]) == ("r.json", "page.html")
    page = Path("page.html").read_text()
    assert "cross-fitted in 5 folds" in page and "--report page.html" in page
    confmax.report.write_cross_fitted(
        "own.html", "macro_f1", *rows(), classes=NAMES, decisions="any", constraints=["rate[sea] <= 0.9"]
    )
    values = [re.findall(r"<dd>(0\.\d+)<small>", Path(name).read_text()) for name in ("page.html", "own.html")]
    assert values[0] == values[1] and len(values[0]) == 3
    refused = {
        "--report counts labels; give --labels, or --label and --separator": (
            "tune",
            path,
            *ANY,
            "--metric",
            "macro_f1",
        ),
        "several labels per row, which --second is not for": (*line, "--second", "hamming"),
    }
    for sentence, args in refused.items():
        assert sentence in refusal(*args, "--report", "other.html")
    assert not Path("other.html").exists()


def test_export():
    tuned().rule.save("r.json")
    rule = confmax.LabelRule.load("r.json")
    sql, note = run("export", "r.json", "--to", "sql", "--columns", "p_rain,p_sea,p_sun")
    assert sql.strip() == rule.to_sql(columns=["p_sea", "p_sun", "p_rain"]) and note == ""
    sql, note = run("export", "r.json", "--to", "sql")
    assert "the expressions read the columns sea, sun, rain" in note
    comment, text = sql.split("\n", 1)
    assert comment.startswith(
        "-- reads the columns sea, sun, rain as probabilities; where these hold the true labels, --columns"
    )
    assert text == rule.to_sql() + "\n"
    # no name of a label leaves the comment
    confmax.LabelRule.from_thresholds([0.5, 0.2], classes=["a\nb", "c\u2028d"]).save("odd.json")
    run("export", "odd.json", "--to", "sql", "-o", "odd.sql")
    with closing(sqlite3.connect(":memory:")) as base:
        found = base.execute(f'SELECT {Path("odd.sql").read_text()} FROM (SELECT .6 AS "a\nb", .1 AS "c\u2028d")')
        assert found.fetchall() == [(1, 0)]
    run("export", "r.json", "--to", "python", "--labels", "-o", "r.py")
    assert Path("r.py").read_text() == rule.to_python(labels=True)


def test_d17_sql_reads_the_columns_that_the_rule_was_tuned_on():
    path = table(truth="y_{}")
    run("tune", path, *ANY, "--labels", ",".join(f"y_{name}" for name in NAMES), "--metric", "macro_f1", "-o", "r.json")
    sql, note = run("export", "r.json", "--to", "sql")
    assert "the expressions read the columns p_sea, p_sun, p_rain" in note and not sql.startswith("--")
    P, _ = rows()
    with closing(sqlite3.connect(":memory:")) as base:
        base.execute("CREATE TABLE t (p_rain, p_sea, p_sun)")
        base.executemany("INSERT INTO t VALUES (?, ?, ?)", P[:, [2, 0, 1]].tolist())
        found = base.execute(f"SELECT {sql} FROM t").fetchall()
    rule = confmax.LabelRule.load("r.json")
    assert found == list(map(tuple, rule.predict(P).tolist()))
    # other names are still taken, and the rule is that of a table without names
    assert rule.to_sql(columns=NAMES) == tuned().rule.to_sql() and rule == replace(tuned().rule, tuned_on=rule.tuned_on)


def test_a_number_of_labels_is_tuned():
    path = table()
    for given, argument in (("2", 2), ("at-most:2", ("at_most", 2))):
        found = document("tune", path, "--decisions", given, "--labels", ",".join(NAMES), "--metric", "macro_f1")
        P, Y = rows()
        solution = confmax.maximize("macro_f1", P, Y, classes=NAMES, decisions=argument)
        assert found["tuned"] == pytest.approx(solution.value)
        assert found["labels"][0]["threshold"] is None


def test_columns_that_are_named_may_be_in_any_order_and_a_bad_one_is_named_alone():
    path = table()
    given = ("tune", path, *ANY, "--label", "tags", "--separator", "|", "--columns", "p_sun,p_rain,p_sea")
    found = document(*given, "--metric", "macro_f1")
    assert (found["columns"], found["classes"]) == (["p_rain", "p_sea", "p_sun"], sorted(NAMES))
    assert found["tuned"] == pytest.approx(tuned().value)
    Path(path).write_text(Path(path).read_text().replace(",0.", ",2.", 1))
    said = refusal(*given, "--metric", "macro_f1")
    assert "column 'p_rain'" in said and "columns taken" not in said


def test_columns_of_labels_that_no_row_has_are_left_out_with_a_warning():
    P, _ = rows()
    columns = {**dict(zip(NAMES, P.T, strict=True)), "age": range(120), "code": ["0.7", *["none"] * 119]}
    pd.DataFrame({**columns, "tags": ["sea", "sea|sun"] * 60}).to_csv("t.csv", index=False)
    given = ("--label", "tags", "--separator", "|", "--metric", "macro_f1", "--json")
    stdout, stderr = run("tune", "t.csv", *ANY, *given)
    assert json.loads(stdout)["classes"] == ["sea", "sun"]
    said = "the columns rain are like those of the labels sea, sun and were left out, because no row has such a label"
    assert said in " ".join(stderr.split())


def test_without_labels_and_prefixes_all_columns_of_numbers_are_probabilities():
    P, _ = rows()
    pq.write_table(pa.table(dict(zip(NAMES, P.T, strict=True))), "t.parquet")
    found = document("tune", "t.parquet", *ANY, "--metric", "macro_f1")
    assert found["classes"] == found["columns"] == NAMES


def test_a_rule_that_draws_is_explained_part_by_part():
    gains = Gains.reduced([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], [[-0.5, -0.5, -0.5], [-0.1, -0.9, -0.5]])
    confmax.LabelRule(gains, np.array([0.75, 0.25]), tuple(NAMES), decisions_of("any"), "macro_f1", seed=7).save(
        "d.json"
    )
    text, _ = run("explain", "d.json", "--proba", "0.3,0.6,0.9")
    assert "between 2 parts, by seed 7 and row" in text
    assert "the rule decides at random: for each row it draws one of 2 parts" in text
    lines = [line.split() for line in text.splitlines() if line.split()[:1] in (["label"], *([name] for name in NAMES))]
    assert lines[-4:] == [
        ["label", "probability", "score", "1", "score", "2", "decided"],
        ["sea", "0.3000", "-0.2000", "0.2000", "25%"],
        ["sun", "0.6000", "0.1000", "-0.3000", "75%"],
        ["rain", "0.9000", "0.4000", "0.4000", "yes"],
    ]
    assert "step by step" not in run("explain", "d.json")[0]


def test_of_many_labels_the_first_are_shown():
    names = tuple(f"l{k}" for k in range(23))
    gains = Gains.reduced(np.ones((1, 23)), np.full((1, 23), -0.5))
    maps = LabelScaling(np.linspace(1.0, 2.0, 23), np.zeros(23))
    confmax.LabelRule(gains, np.ones(1), names, decisions_of("any"), "macro_f1", calibrator=maps).save("many.json")
    text, _ = run("explain", "many.json")
    assert "... 3 more labels; --json shows all." in text
    assert [line.split()[0] for line in text.splitlines() if re.match(r" *l\d+ +[\d.]+ +0$", line)] == list(names[:20])
    assert document("explain", "many.json")["calibration"]["slopes"] == maps.a.tolist()


def test_a_bad_probability_is_named_by_its_column():
    path = Path(table())
    path.write_text(path.read_text().replace(",0.", ",2.", 1))
    assert "column 'p_" in refusal("tune", path, *ANY, "--labels", ",".join(NAMES), "--metric", "macro_f1")


def test_a_rule_file_of_several_labels_is_replaced_and_nothing_else_is():
    path = table()
    tuned().rule.save("r.json")
    given = ("tune", path, *ANY, "--labels", ",".join(NAMES), "--metric", "macro_f1", "-o")
    run(*given, "r.json")
    Path("other.json").write_text(json.dumps({"a": 1}))
    assert "is not a rule file" in refusal(*given, "other.json")


def test_documented_keys_are_those_of_the_output():
    path = table()
    P, Y = rows()
    Y[:, 0] = np.arange(len(Y)) < 3
    np.savez("rare.npz", P=P, Y=Y)
    tuned().rule.save("r.json")
    budgets()
    two = Gains.reduced([[1.0, 1, 1], [1, 1, 1]], [[-0.5] * 3, [-0.2] * 3])
    confmax.LabelRule(two, np.array([0.5, 0.5]), tuple(NAMES)).save("d.json")
    confmax.LabelRule.from_thresholds([0.2] * 3, classes=NAMES, constraints=("rate[sea] <= 1",)).save("l.json")
    labels = ("--labels", ",".join(NAMES))
    runs = {
        "tune": [
            ("tune", path, *ANY, "--metric", "macro_f1", *more)
            for more in (
                *([(*labels, "--report", "page.html")] if find_spec("jinja2") else []),
                *(labels, ("--columns", "p_sea,p_sun"), (*labels, "--subject-to", "precision[sea] >= 0.1")),
            )
        ],
        "apply": [("apply", f"{name}.json", path, "-o", "out.csv") for name in "rkmd"],
        "score": [("score", path, *labels, "--rule", f"{name}.json") for name in "rkml"]
        + [("score", "rare.npz", "--label", "Y", "--columns", "P", "--rule", "r.json")]
        + [("score", path, *labels, "--rule", "d.json", "--replicates", "0")]
        + [("score", path, *labels, "--rule", "r.json", "--metric", "hamming")],
        "compare": [
            ("compare", path, *ANY, *labels, "--metric", "macro_f1", "--subject-to", "rate[sea] <= 0.9"),
            ("compare", path, *ANY, *labels, "--metric", "hamming", "--rule", "l.json", "--rule", "r.json"),
            ("compare", "rare.npz", *ANY, "--label", "Y", "--columns", "P", "--replicates", "50"),
        ],
        "explain": [("explain", f"{name}.json", "--proba", "0.2,0.5,0.9") for name in "rkmd"],
    }
    for name, lines in runs.items():
        own, seen = documented(f"labels {name}"), set()
        keys = own
        if name in ("tune", "apply", "score"):
            keys = {**documented("counts"), **keys}
        if name != "explain":
            keys = {**documented("source"), **(documented("labels source") if name != "apply" else {}), **keys}
        for line in lines:
            walk(document(*line), "", keys, seen)
        without = set() if find_spec("jinja2") else {"report_file"}
        # intervals are of rows without labels
        without |= set() if name == "apply" else {key for key in keys if key.endswith("_interval")} - {*own}
        # nothing but labels is decided
        without |= {"counts.classes{}.further", "counts.classes{}.further_interval"}
        assert set(keys) - seen <= without, name


def test_tune_names_labels_of_few_rows():
    path = table()
    lines = Path(path).read_text().splitlines()
    # all but four rows lose the second label, all but eleven the third
    kept = [lines[0], *(",".join([*line.split(",")[:2], "0", *line.split(",")[3:]]) for line in lines[1:])]
    ones = [k for k, line in enumerate(lines[1:], 1) if line.split(",")[2] == "1"][:4]
    kept = [lines[k] if k in ones else line for k, line in enumerate(kept)]
    third = [k for k, line in enumerate(kept[1:], 1) if line.split(",")[3] == "1"][11:]
    for k in third:
        cells = kept[k].split(",")
        kept[k] = ",".join([*cells[:3], "0", *cells[4:]])
    Path(path).write_text("\n".join(kept) + "\n")
    printed = run("tune", path, *ANY, "--labels", ",".join(NAMES), "--metric", "macro_f1")[0]
    assert re.search(r"few rows +sun \(4\), rain \(11\): with fewer than 20, what these", printed)


def test_compare_judges_a_rule_of_a_file_within_its_own_limits():
    """By the metric that it was tuned for, which is shown, and by the one that was asked for, as score does."""
    path = table()
    labels = ("--labels", ",".join(NAMES))
    run("tune", path, *ANY, *labels, "--metric", "micro_f1", "--subject-to", "rate[sea] <= 0.1", "-o", "r.json")
    given = (path, *labels, "--rule", "r.json", "--metric", "hamming", "--replicates", "40")
    scored = document("score", *given)
    row = document("compare", *given, *ANY)["rules"][-1]
    assert row["values"]["micro_f1"] == row["verdict"]["value"] == scored["verdict"]["value"]
    assert row["own_constraints"][0]["text"] == scored["constraints"][0]["text"] == "rate[sea] <= 0.1"
    assert row["own_constraints"][0]["value"] == scored["constraints"][0]["value"]
    missed = {one["name"]: one["missed"] for one in row["verdict"]["rivals"]}
    assert missed["p > 0.5"] == ["rate[sea] <= 0.1"]
    assert missed.items() >= {one["name"]: one["missed"] for one in scored["verdict"]["rivals"]}.items()
    assert [one["metric"] for one in row["further_verdicts"]] == ["hamming"]
    for command in (("compare", *given, *ANY), ("score", *given)):
        lines = [line for line in run(*command)[0].splitlines() if line.startswith("By ") and "for hamming" not in line]
        assert len(lines) == 2 and all("p > 0.5" in line and "rate[sea] <= 0.1" in line for line in lines)
    # beside limits that are given
    row = document("compare", *given, *ANY, "--subject-to", "rate[sun] >= 0.01")["rules"][-1]
    texts = [[one["text"] for one in row[key]] for key in ("constraints", "own_constraints")]
    assert texts == [["rate[sun] >= 0.01"], ["rate[sea] <= 0.1"]]
