"""Rules judged on tables in parts: the values, limits and intervals of the rows in memory."""

import importlib
import json
import re

import numpy as np
import pytest

import confmax as library
from confmax.confusion import Gains
from confmax.evaluate import lines
from confmax.tables.partitioned import table as in_parts
from tests.cli_helpers import CLASSES, HPC, document, refusal, run
from tests.parts_helpers import cut, labelled

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = importlib.import_module("pyarrow.csv")


@pytest.fixture
def small_sample(monkeypatch):
    """Make tables of a few hundred rows larger than a sample."""
    for name in ("SAMPLE_CELLS", "SAMPLE_ROWS", "ROWS_PER_CLASS"):
        monkeypatch.setattr(in_parts, name, 100)


@pytest.fixture(scope="module")
def hpc(tmp_path_factory):
    """Write the labelled jobs as one file and as a folder of files, with weights and groups, and rules for them."""
    folder = tmp_path_factory.mktemp("hpc")
    table = csv.read_csv(HPC)
    n = table.num_rows
    table = table.append_column("w", pa.array(np.arange(n) % 3 * 0.5))
    table = table.append_column("g", pa.array(np.array(["x", "y"])[np.arange(n) // 7 % 2]))
    pq.write_table(table, folder / "whole.parquet")
    (folder / "parts").mkdir()
    for k in range(3):
        part = table.slice(k * 1200, 1200)
        pq.write_table(part, folder / "parts" / f"{k}.parquet", row_group_size=500)
    columns = [table.column(name).to_numpy() for name in CLASSES]
    P = np.column_stack(columns)
    y = table.column("obs").to_numpy(zero_copy_only=False)
    group = table.column("g").to_numpy(zero_copy_only=False)
    fit = slice(0, None, 2)
    rules = {
        "rule": library.maximize("macro_f1", P[fit], y[fit], classes=CLASSES),
        "limited": library.maximize(
            "accuracy", P[fit], y[fit], classes=CLASSES, constraints="recall[L] >= 0.7", confusion="labels"
        ),
        "missed": library.maximize("accuracy", P[:400], y[:400], classes=CLASSES, constraints="recall[M] >= 0.6"),
        "seen": library.maximize("g_mean", P, y, classes=CLASSES),
        "abstaining": library.maximize(
            "accuracy", P[fit], y[fit], classes=CLASSES, abstain="ask", constraints="coverage >= 0.8"
        ),
        "grouped": library.maximize(
            "accuracy", P[fit], y[fit], classes=CLASSES, group=group[fit], constraints="min(recall[L] | group) >= 0.4"
        ),
    }
    for name, solution in rules.items():
        solution.rule.save(folder / f"{name}.json")
    return folder


def same(one, other, away=1e-12):
    """Assert that two documents hold the same things, numbers up to rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key], away)
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right, away)
    elif isinstance(one, float):
        assert other == pytest.approx(one, abs=away)
    else:
        assert one == other


# --- the library -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("stratified", [False, True])
def test_in_parts_everything_is_as_in_memory(weighted, grouped, stratified):
    P, y, weight = labelled(3000, 4, sharp=0.7)
    weight = weight if weighted else None
    group = np.array(["a", "b", "c"])[np.arange(3000) % 3] if grouped else None
    limit = "min(recall[0] | group) >= 0.3" if grouped else "recall[0] >= 0.3"
    tuned = library.maximize("macro_f1", P, y, sample_weight=weight, group=group, constraints=limit)
    drawn = library.DecisionRule(
        Gains.reduced([[1.0, 2.0, 1.0, 1.0], [2.0, 1.0, 1.0, 3.0]]), np.array([0.25, 0.75]), (0, 1, 2, 3)
    )
    metrics = ["macro_f1", "mcc", "accuracy"]
    how = {"rules": {"tuned": tuned, "drawn": drawn}, "n_replicates": 50, "level": 0.9, "stratified": stratified}
    source = cut(P, y, weight, at=[0, 700, 701, 2500], group=group)
    expected = library.score(metrics, P, y, sample_weight=weight, group=group, **how)
    found = library.score(metrics, source, **how)
    same(expected.to_dict(), found.to_dict())
    np.testing.assert_allclose(found.replicates, expected.replicates, atol=1e-12)


def test_a_small_table_is_brought_into_memory():
    P, y, weight = labelled(500, 3)
    rule = library.maximize("g_mean", P, y, sample_weight=weight).rule
    expected = library.score("g_mean", P, y, rule, sample_weight=weight)
    same(expected.to_dict(), library.score("g_mean", cut(P, y, weight, at=[200]), rule=rule).to_dict())


@pytest.mark.usefixtures("small_sample")
def test_many_weights_and_many_combinations_leave_the_values(monkeypatch):
    n = 20_000
    P, y, _ = labelled(n, 6, sharp=0.7)
    weight = np.random.default_rng(0).gamma(2.0, size=n)
    rules = {name: library.maximize(name, P[:2000], y[:2000]).rule for name in ("macro_f1", "g_mean")}
    parts = list(range(1000, n, 1000))

    def widths(score):
        ends = [score.estimate(rule)[1:] for rule in score.rules]
        return np.array([high - low for low, high in ends])

    # weights alone are too many: the lines hold 16 binary digits of them or fewer
    monkeypatch.setattr(lines, "MOST_LINES", 8000)
    whole = library.score("macro_f1", P, y, rules=rules, sample_weight=weight)
    found = library.score("macro_f1", cut(P, y, weight, at=parts), rules=rules)
    np.testing.assert_allclose(found.values, whole.values, atol=1e-12)
    np.testing.assert_allclose(widths(found), widths(whole), rtol=0.1)
    # the combinations are too many: those of rare rows are kept for each rule
    monkeypatch.setattr(lines, "MOST_LINES", 200)
    whole = library.score("macro_f1", P, y, rules=rules)
    found = library.score("macro_f1", cut(P, y, at=parts), rules=rules)
    np.testing.assert_allclose(found.values, whole.values, atol=1e-12)
    np.testing.assert_allclose(widths(found), widths(whole), rtol=0.1)
    assert found.n_rows == n
    # both: weights of rare rows are rounded
    found = library.score("macro_f1", cut(P, y, weight, at=parts), rules=rules)
    np.testing.assert_allclose(
        found.values, library.score("macro_f1", P, y, rules=rules, sample_weight=weight).values, atol=1e-3
    )


def test_what_an_opened_table_does_not_take():
    P, y, _ = labelled(60, 3)
    source = cut(P, y, at=[30])
    for how, sentence in [
        ({"y": y}, "brings its labels, weights and groups"),
        ({"rule": y}, "the decisions of 'rule' are of rows in memory"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            library.score("accuracy", source, **how)
    with pytest.raises(ValueError, match="pass label= to open_table"):
        library.score("accuracy", cut(P, at=[30]))


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--rule", "rule.json"), 0),
        (("--rule", "limited.json", "--weight", "w"), 0),
        (("--rule", "missed.json"), 3),
        (("--rule", "seen.json", "--group", "g"), 0),
        (("--rule", "abstaining.json"), 0),
        (("--rule", "grouped.json", "--group", "g", "--weight", "w"), 0),
        (("--stratified", "--metric", "macro_f1"), 0),
    ],
)
def test_score_of_a_folder_is_that_of_the_file(hpc, options, code):
    options = [hpc / one if one.endswith(".json") else one for one in options]
    how = ("--label", "obs", "--replicates", "60", *options)
    whole, parts = (document("score", hpc / name, *how, code=code) for name in ("whole.parquet", "parts"))
    assert parts.pop("file") == str(hpc / "parts")
    del whole["file"]
    if "abstain" in whole:
        # nothing competes on as many rows without the probabilities of all
        assert parts.pop("verdict")["kind"] == "unknown" and whole.pop("verdict")["kind"] != "unknown"
        for row in whole["values"]:
            del row["chow"], row["p_prior_on_as_many_rows"]
        # which rules there are decides which rows are alike, and so the order of the draws
        for row in (*whole["values"], *parts["values"]):
            del row["intervals"], row["differences"]
        for one in (*whole["constraints"], *parts["constraints"]):
            del one["interval"]
    same(whole, parts)
    # the page is made of the document
    assert run("score", hpc / "parts", *how, code=code)[0].count("macro_f1")


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize(("names", "written"), [((0, 1, 2), str), (("0", "1", "2"), int), (("0", "1", "2"), float)])
def test_labels_and_groups_are_matched_as_they_are_written(tmp_path, names, written):
    P, y, _ = labelled(900, 3, sharp=0.7)
    group = np.arange(900) // 3 % 2
    given = {"classes": names, "group": [names[k] for k in group], "constraints": "min(recall[0] | group) >= 0.3"}
    solution = library.maximize("accuracy", P, [names[k] for k in y], **given)
    solution.rule.save(tmp_path / "r.json")
    columns = {str(k): P[:, k] for k in range(3)}
    table = pa.table({**columns, "y": pa.array([written(k) for k in y]), "g": pa.array([str(k) for k in group])})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=200)
    how = ("score", tmp_path / "t.parquet", "--rule", tmp_path / "r.json", "--label", "y", "--group", "g")
    same(*(document(*how, "--replicates", "60", "--in-parts", word) for word in ("no", "yes")))


def test_a_bad_row_of_the_last_part_is_named(hpc, tmp_path):
    for k in range(2):
        table = pq.read_table(hpc / "parts" / f"{k}.parquet")
        if k == 1:
            bad = table.column("VF").to_numpy().copy()
            bad[700] = np.nan
            table = table.set_column(table.schema.get_field_index("VF"), "VF", pa.array(bad, from_pandas=False))
        pq.write_table(table, tmp_path / f"{k}.parquet", row_group_size=500)
    told = refusal("score", tmp_path, "--label", "obs", "--rule", hpc / "rule.json")
    assert f"row group 1 of {tmp_path / '1.parquet'}" in told and "row 200" in told


@pytest.mark.usefixtures("small_sample")
def test_compare_judges_all_rows(hpc, monkeypatch):
    how = ("--label", "obs", "--metric", "macro_f1", "--rule", hpc / "rule.json", "--replicates", "60", "--group", "g")
    monkeypatch.setattr(in_parts, "SAMPLE_ROWS", 1500)
    whole, parts = (document("compare", hpc / name, *how) for name in ("whole.parquet", "parts"))
    assert 500 < parts["tuned_on_rows"] < 2500 and parts["rows"] == whole["rows"]
    by_rule = [{row["rule"]: row for row in found["rules"]} for found in (whole, parts)]
    for name in ("argmax", "p/prior", str(hpc / "rule.json")):
        same(by_rule[0][name]["values"], by_rule[1][name]["values"])
        same(by_rule[0][name]["groups"], by_rule[1][name]["groups"])
        # the rules beside it decide which rows are alike, and so what is drawn
        same(by_rule[0][name]["intervals"], by_rule[1][name]["intervals"], 0.03)
    # tuned on fewer rows
    tuned = [found["for macro_f1"]["values"]["macro_f1"] for found in by_rule]
    assert tuned[1] == pytest.approx(tuned[0], abs=0.03)
    assert by_rule[1]["for macro_f1"]["values"]["macro_f1"] > by_rule[1]["argmax"]["values"]["macro_f1"]
    assert "rows of a sample" in run("compare", hpc / "parts", *how)[0]


@pytest.mark.usefixtures("gathers")
def test_compare_of_a_small_folder_is_that_of_the_file(hpc):
    how = ("--label", "obs", "--metric", "macro_f1", "--replicates", "0")
    whole, parts = (document("compare", hpc / name, *how) for name in ("whole.parquet", "parts"))
    del whole["file"], parts["file"]
    same(whole, parts, 1e-9)


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("options", [("--check",), ()])
def test_shift_of_a_folder_is_that_of_the_file(hpc, options):
    found = []
    for name in ("whole.parquet", "parts"):
        stdout, _ = run("shift", hpc / "rule.json", hpc / name, *options, "--json", code=0)
        found.append(json.loads(stdout))
    whole, parts = found
    del whole["file"], parts["file"]
    same(whole, parts, 0.02)


def test_shift_needs_labels_in_memory(hpc):
    assert "--label needs its rows in memory" in refusal("shift", hpc / "rule.json", hpc / "parts", "--label", "obs")


# --- pages -----------------------------------------------------------------------------------------------------------


def numbers_of(figures):
    """Return what a report counts."""
    return {
        # beside a rule that abstains stand rules that are made of the rows of the sample
        "rows": [
            list(map(list, (row.tuned,) if figures.undecided else (row.argmax, row.prior, row.tuned, row.difference)))
            for row in figures.metrics
        ],
        "classes": [[row.n_rows, row.share, row.decided_after, *row.after.values()] for row in figures.classes],
        "change": figures.change.after.tolist(),
        "changed": figures.changed,
        "groups": [[group.n_rows, group.share, group.changed] for group in figures.groups],
        "limits": [] if figures.limits is None else [list(row.labels) for row in figures.limits.rows],
    }


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("rule", {}),
        ("limited", {"weight": "w"}),
        ("abstaining", {}),
        ("seen", {"group": "g"}),
        ("grouped", {"group": "g"}),
    ],
)
def test_a_page_counts_all_rows(hpc, tmp_path, monkeypatch, rule, options):
    pytest.importorskip("vl_convert")
    pytest.importorskip("jinja2")
    writing = importlib.import_module("confmax.page.writing")
    monkeypatch.setattr(in_parts, "SAMPLE_ROWS", 1500)
    seen = []
    whole_page = writing.page
    monkeypatch.setattr(writing, "page", lambda figures, made: seen.append(figures) or whole_page(figures, made))
    more = [text for name, value in options.items() for text in (f"--{name}", value)]
    # the rules of the study of limits or coverage are of a sample, and decide, too, which rows are alike when drawing
    replicates = 0 if rule in ("limited", "abstaining") else 60
    for name in ("whole.parquet", "parts"):
        out = tmp_path / f"{name}.html"
        run("report", hpc / f"{rule}.json", hpc / name, "--label", "obs", "--replicates", replicates, *more, "-o", out)
    whole, parts = map(numbers_of, seen)
    assert seen[1].evidence.table.n_rows < 3000 < seen[0].evidence.table.n_rows
    assert seen[1].evidence.seen == seen[0].evidence.seen == (rule == "seen")
    same(whole, parts)
    text = out.read_text()
    assert "which were read in parts" in text
    if "The line is counted on" in text:
        assert "The line is counted on the sample" in text and "The line is counted on these rows" not in text
    if "weight" in options:
        pattern = r"with a total weight of ([\d,.]+)<"
        totals = [re.search(pattern, path.read_text())[1] for path in (tmp_path / "whole.parquet.html", out)]
        assert totals[0] == totals[1]


# --- several labels per row -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tags(tmp_path_factory):
    """Write rows of three labels as a file and as a folder, labels as columns and as lists, and rules for them."""
    folder = tmp_path_factory.mktemp("tags")
    draw = np.random.default_rng(8)
    names = ["sea", "sun", "rain"]
    P = draw.beta(1, 2, (900, 3))
    Y = (draw.random(P.shape) < P**1.3).astype(int)
    columns = {f"p_{name}": P[:, k] for k, name in enumerate(names)}
    columns |= {f"y_{name}": Y[:, k] for k, name in reversed(list(enumerate(names)))}
    columns |= {"tags": [[names[k] for k in np.flatnonzero(row)] for row in Y], "w": np.arange(900) % 3 * 0.5}
    table = pa.table(columns)
    pq.write_table(table, folder / "whole.parquet")
    (folder / "parts").mkdir()
    for k in range(3):
        pq.write_table(table.slice(k * 300, 300), folder / "parts" / f"{k}.parquet", row_group_size=120)
    np.save(folder / "p.npy", P)
    np.save(folder / "y.npy", Y)
    for name, decisions in (("any", "any"), ("two", 2)):
        limit = None if decisions == 2 else "recall[sea] >= 0.5"
        library.maximize("macro_f1", P[::2], Y[::2], classes=names, decisions=decisions, constraints=limit).rule.save(
            folder / f"{name}.json"
        )
    return folder


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("labels", [("--labels", "y_sea,y_sun,y_rain"), ("--label", "tags")], ids=["columns", "lists"])
@pytest.mark.parametrize(("rule", "more"), [("any", ()), ("two", ("--weight", "w"))])
def test_labels_of_a_folder_are_judged_as_those_of_the_file(tags, labels, rule, more):
    how = ("--rule", tags / f"{rule}.json", *labels, *more, "--replicates", "60")
    whole, parts = (document("score", tags / name, *how) for name in ("whole.parquet", "parts"))
    assert parts.pop("file") == str(tags / "parts") and whole.pop("file")
    if rule == "any":
        # separate thresholds are found on the sample
        for one in (whole, parts):
            del one["verdict"]
            for row in one["values"]:
                del row["others"]["separate thresholds"]
    same(whole, parts)
    assert run("score", tags / "parts", *how)[0].count("macro_f1")


@pytest.mark.usefixtures("small_sample")
def test_a_page_of_labels_counts_all_rows_of_a_folder(tags, tmp_path):
    pytest.importorskip("jinja2")
    shown = []
    for name in ("whole.parquet", "parts"):
        out = tmp_path / f"{name}.html"
        line = ("report", tags / "two.json", tags / name, "--labels", "y_sea,y_sun,y_rain", "--weight", "w", "-o", out)
        run(*line, "--replicates", "60")
        text = re.sub(r"<dt>rows</dt>.*?</dd>|<pre.*?</pre>|<p class=.eyebrow.*?</p>", "", out.read_text(), flags=re.S)
        shown.append(text)
    assert shown[0] == shown[1] and "total weight of" in out.read_text()


def test_labels_beside_an_array_and_options_of_whole_files(tags):
    how = ("--rule", tags / "two.json", "--replicates", "0")
    whole = document("score", tags / "whole.parquet", *how, "--labels", "y_sea,y_sun,y_rain")
    found = document("score", tags / "p.npy", *how, "--label", tags / "y.npy")
    same(whole["values"], found["values"])
    same(whole["labels"], found["labels"])
    told = refusal("score", tags / "parts", *how, "--label", "tags", "--separator", ";")
    assert "--separator is for files that are read whole" in told and "columns of 0 and 1" in told
    assert "is an array without names" in refusal("score", tags / "p.npy", *how, "--labels", "y_sea,y_sun,y_rain")
