"""The page: nothing loaded, nothing obeyed that a stranger wrote, the same bytes again, every number twice."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from sklearn import metrics as reference

import confmax
from confmax.page.words import number
from confmax.page.writing import environment
from confmax.rule import DecisionRule
from tests.report_helpers import sample

pytest.importorskip("vl_convert")
Markup = pytest.importorskip("markupsafe").Markup
UndefinedError = pytest.importorskip("jinja2").UndefinedError

EVIL = ("</script><img src=x onerror=alert(1)>", '"><b onmouseover=alert(2)>', "\u202eevil\n& <!-- ")


class Page(HTMLParser):
    """Elements with their attributes, and the text outside of scripts and styles."""

    VOID = ("meta", "img", "link", "br", "input", "base")

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.text = [], [], []
        self.feed(text)
        assert self.open == [], "every element is closed"

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in self.VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.text.append(data)

    def of(self, name):
        return [attributes for each, attributes in self.elements if each == name]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page of a solution on other rows, its text and the solution."""
    folder = tmp_path_factory.mktemp("page")
    P, y = sample(797, sharp=1.5, sizes=[3, 1, 0.6])
    found = confmax.maximize("macro_f1", P[:400], y[:400])
    found.report(folder / "page.html", P[400:], y[400:], n_replicates=199)
    return (folder / "page.html").read_text(), found, P[400:], y[400:]


def specs(text):
    return json.loads(re.search(r'<script type="application/json" id="specs">(.*?)</script>', text, re.S)[1])


def test_nothing_is_loaded(written):
    text = written[0]
    assert len(text.encode()) < 3e6
    page = Page(text)
    for name, attributes in page.elements:
        assert "src" not in attributes and name not in ("link", "iframe", "img", "object", "base")
        assert not attributes.get("href", "#").startswith(("http", "//"))
    assert "@import" not in text and not re.search(r"url\(\s*['\"]?(http|//)", text)
    policy = next(each for each in page.of("meta") if each.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none'") and "http" not in policy["content"]
    assert not any("url" in str(spec.get("data", {})) for spec in specs(text).values())


def test_the_same_input_gives_the_same_bytes(written, tmp_path):
    np.savez(tmp_path / "rows.npz", P=written[2], y=written[3])
    written[1].rule.save(tmp_path / "rule.json")
    code = """
import sys, numpy as np, confmax
rows = np.load("rows.npz")
rule = confmax.DecisionRule.load("rule.json")
confmax.report.write(sys.argv[1], rule, rows["P"], rows["y"], n_replicates=99, again="x")
"""
    subprocess.run(
        [sys.executable, "-c", code, "one.html"], cwd=tmp_path, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    confmax.report.write(tmp_path / "other.html", written[1].rule, written[2], written[3], n_replicates=99, again="x")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "other.html").read_bytes()


def test_landmarks_headings_tables_and_text_for_charts(written):
    page = Page(written[0])
    assert page.of("html")[0]["lang"] == "en" and len(page.of("title")) == 1
    for name in ("header", "main", "nav", "footer", "h1"):
        assert len(page.of(name)) == 1
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch(r"h[1-6]", name)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for link in page.of("a"):
        assert not link["href"].startswith("#") or link["href"][1:] in ids
    assert page.of("a")[0]["class"] == "skip"
    assert len(page.of("caption")) == len(page.of("table")) > 5
    assert all(each.get("scope") in ("row", "col") for each in page.of("th"))
    boxes = [each for each in page.of("div") if each.get("class") == "box"]
    assert len(boxes) == len(page.of("table"))
    assert all(each["tabindex"] == "0" and each["aria-label"] for each in boxes)
    charts = [each for each in page.of("div") if each.get("class") == "chart"]
    assert {each["data-chart"] for each in charts} == set(specs(written[0])) and len(charts) >= 6
    assert all(each["role"] == "img" and len(each["aria-label"]) > 20 for each in charts)


def test_numbers_of_the_page_are_those_of_score(written):
    text, found, P, y = written
    told = " ".join(Page(text).text)
    scored = confmax.score(["macro_f1", "accuracy"], P, y, found, n_replicates=199)
    for metric in ("macro_f1", "accuracy"):
        estimate = scored.estimate("rule", metric)
        assert f"{estimate.value:.3f}" in told and f"[{estimate.low:.3f}, {estimate.high:.3f}]" in told
    minus = scored.difference("rule", "argmax", "macro_f1")
    assert f"{abs(minus.value):.3f}" in told


def header_of(text):
    return " ".join(re.sub(r"<[^>]+>", " ", re.search(r"<header>(.*?)</header>", text, re.S)[1]).split())


def test_two_classes_have_the_positive_class_and_a_curve(tmp_path):
    P, y = sample(600, 2, seed=3)
    names = np.array(["no", "yes"])
    found = confmax.maximize("f1", P[:300], names[y[:300]], classes=["no", "yes"])
    found.report(tmp_path / "page.html", P[300:], names[y[300:]], n_replicates=99)
    text = (tmp_path / "page.html").read_text()
    first = re.search(r"<table>.*?</table>", text, re.S)[0]
    decided, truth = found.predict(P[300:]), names[y[300:]]
    for name, value in (("Precision of yes", reference.precision_score(truth, decided, pos_label="yes")),
                        ("Recall of yes", reference.recall_score(truth, decided, pos_label="yes"))):  # fmt: skip
        assert re.search(rf"{name}</th>.*?{value:.3f}", first)
    chart = specs(text)["curve"]
    marks = {row["what"]: row for row in chart["layer"][1]["data"]["values"]}
    assert marks["argmax"]["t"] == 0.5 and marks["p/prior"]["t"] == pytest.approx(np.mean(truth == "yes"), abs=1e-5)
    assert marks["tuned rule"]["y"] == pytest.approx(reference.f1_score(truth, decided, pos_label="yes"), abs=1e-5)
    assert "counted on the labels of the 300 rows of this report" in text and "optimistic" not in header_of(text)
    confmax.report.write_cross_fitted(tmp_path / "page.html", "f1", P, names[y], classes=["no", "yes"], n_replicates=99)
    told = (tmp_path / "page.html").read_text()
    assert "so its point on the line is optimistic" in told and "curve" in specs(told)


def test_the_positive_class_of_two_may_stand_in_brackets(tmp_path):
    P, y = sample(600, 2, seed=3)
    names = np.array(["no", "yes"])
    own = "no"
    found = confmax.maximize(f"f1[{own}]", P[:300], names[y[:300]])
    decided, truth = found.predict(P[300:]), names[y[300:]]
    page = tmp_path / "page.html"
    for rule in (found, found.rule):
        confmax.report.write(page, rule, P[300:], truth, n_replicates=99)
        leading, everything = re.findall(r"<table>.*?</table>", page.read_text(), re.S)[:2]
        for name, metric in (("Precision", reference.precision_score), ("Recall", reference.recall_score)):
            value = metric(truth, decided, pos_label=own)
            assert re.search(rf"{name} of {own}</th>.*?</td>.*?{value:.3f}", leading, re.S)
        # the same metrics as with the order of the classes, each once and of this class
        assert all(f"{name}[{own}]" in everything.casefold() for name in ("f1", "jaccard"))
        assert everything.count(f"1[{own}]") == 1 and "Fowlkes-Mallows" in everything and "AMS" in everything
        assert f"{own} is decided when its probability exceeds" in page.read_text()
    value = reference.jaccard_score(truth, decided, pos_label=own)
    assert re.search(rf"jaccard\[{own}\].*?</td>.*?{value:.3f}", everything, re.S | re.I)


@pytest.mark.parametrize("name", ["recall[no]", "precision[no]"])
def test_precision_or_recall_that_was_tuned_for_is_shown_once(name, tmp_path):
    P, y = sample(300, 2, seed=3)
    truth = np.array(["no", "yes"])[y]
    rule = confmax.DecisionRule.from_weights([2.0, 1.0], classes=["no", "yes"])
    confmax.report.write(tmp_path / "page.html", rule, P, truth, metric=name, second="f1[no]", n_replicates=39)
    everything = re.findall(r"<table>.*?</table>", (tmp_path / "page.html").read_text(), re.S)[1]
    part, other = ("Recall", "Precision") if name.startswith("recall") else ("Precision", "Recall")
    assert f"{other} of no" in everything and f"{part} of no" not in everything


def test_warnings_point_to_the_line_that_asks_for_the_report(tmp_path):
    pd = pytest.importorskip("pandas")
    P, y = sample(300)
    found = confmax.maximize("macro_f1", P, np.array(["a", "b", "c"])[y])
    P, y = sample(300, seed=5)
    names = np.array(["a", "b", "c"])[y]
    frame = pd.DataFrame(P, columns=["u", "v", "w"])
    calls = (
        lambda: found.report(tmp_path / "page.html", frame, names, n_replicates=39),
        lambda: confmax.report.write(tmp_path / "page.html", found.rule, frame, names, n_replicates=39),
        lambda: confmax.report.write_cross_fitted(tmp_path / "page.html", "macro_f1", frame, names, n_replicates=39),
        lambda: found.rule.predict(frame),
        lambda: confmax.score("macro_f1", frame, names, n_replicates=39),
    )
    for call in calls:
        with pytest.warns(UserWarning, match="in their order") as caught:
            call()
        assert [each.filename for each in caught] == [__file__]


def test_blue_is_better_in_the_difference(written):
    for row in specs(written[0])["confusion-difference"]["data"]["values"]:
        assert row["good"] == (row["value"] if row["true"] == row["decided"] else -row["value"])


def test_every_number_of_a_chart_stands_in_a_table(written):
    text = written[0]
    told = " ".join(Page(text).text)
    for name, key in (("changes", "value"), ("calibration", "observed"), ("trade", "y"), ("convergence", "value")):
        for row in specs(text)[name]["data"]["values"]:
            assert number(abs(row[key])) in told, (name, row)


@pytest.mark.parametrize("K", [2, 3])
def test_names_of_strangers_are_text(tmp_path, K):
    P, y = sample(300, K)
    names = EVIL[:K]
    rule = DecisionRule.from_weights(np.arange(1.0, K + 1), classes=names)
    confmax.report.write(
        tmp_path / "page.html", rule, P, np.array(names)[y], metric="macro_f1", n_replicates=99,
        source="<script>alert(3)</script>.csv", again="<b>again</b>",
    )  # fmt: skip
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    assert not page.of("img") and not page.of("b")
    assert len(page.of("script")) == 3 and not any("onerror" in each for _, each in page.elements)
    assert "\u202e" not in text and "alert(3)" in " ".join(page.text)
    shown = [row["name"] for row in specs(text)["recalls"]["data"]["values"]]
    assert any("img src=x" in name for name in shown)


def filled(text, **values):
    return environment().from_string(text).render(values)


def test_the_template_escapes_all_but_markup():
    shown = filled('<p title="{{ a }}">{{ b }}{{ c }}<b>{{ d }}</b>{{ e }}</p>', a='"', b="a < b & c", c=Markup("<i>"),
                   d="\u202ex", e=1)  # fmt: skip
    assert shown == '<p title="&#34;">a &lt; b &amp; c<i><b>\\u202ex</b>1</p>'
    assert filled("{{ a }}", a="x\ny\x07") == "x\ny\\x07"
    specs = {"a": "</script>\u2028<!-- &"}
    assert "<" not in filled("{{ a|tojson }}", a=specs) and json.loads(filled("{{ a|tojson }}", a=specs)) == specs
    with pytest.raises(ValueError, match="JSON"):
        filled("{{ a|tojson }}", a=np.nan)
    with pytest.raises(UndefinedError):
        filled("{{ a }}")


def test_names_that_differ_only_in_what_is_not_shown_stay_apart(tmp_path):
    P, y = sample(300)
    names = np.array(["x" * 50 + end for end in "abc"])
    rule = DecisionRule.from_weights([1.0, 2.0, 3.0], classes=names)
    confmax.report.write(tmp_path / "page.html", rule, P, names[y], metric="macro_f1", n_replicates=99)
    rows = specs((tmp_path / "page.html").read_text())["recalls"]["data"]["values"]
    assert len({row["name"] for row in rows}) == 3


def test_an_abstaining_rule_has_a_page(tmp_path):
    P, y = sample(400)
    cost = [[0, 1, 1, 0.3], [1, 0, 1, 0.3], [1, 1, 0, 0.3]]
    found = confmax.maximize(confmax.metrics.get("linear", cost=cost), P, y)
    found.report(tmp_path / "page.html", *sample(400, seed=4), n_replicates=99)
    assert "3" in {
        row["decided"] for row in specs((tmp_path / "page.html").read_text())["confusion-after"]["data"]["values"]
    }


def test_a_function_as_metric_and_absent_classes(tmp_path):
    P, y = sample(400)
    found = confmax.maximize(lambda C: C.diagonal().sum() ** 2, P, y)
    found.report(tmp_path / "page.html", *sample(300, seed=4), n_replicates=99)
    P, y = sample(300, seed=5)
    found.report(tmp_path / "page.html", P, np.where(y == 2, 0, y), n_replicates=99, second="g_mean")
    assert "No row has the label 2" in " ".join(Page((tmp_path / "page.html").read_text()).text)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"y": None}, "a report counts labels; pass y"),
        ({"y": [0] * 300}, "y has weight in one class only"),
        ({"n_replicates": 3}, "3 replicates cannot tell intervals"),
        ({"second": "f1"}, "f1 is a metric of two classes"),
        ({"metric": "nothing"}, "metric"),
        ({"metric": None}, "pass metric=, what to evaluate it by"),
    ],
)
def test_what_cannot_be_reported_is_refused(tmp_path, change, message):
    P, y = sample(300)
    given = {"path": tmp_path / "page.html", "rule": DecisionRule.from_weights([1, 2, 3]), "proba": P, "y": y,
             "metric": "macro_f1", **change}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        confmax.report.write(**given)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")
def test_folds_that_cannot_be_tuned_are_told(tmp_path):
    P, y = sample(300)
    with pytest.raises(ValueError, match="folds is a whole number from 2 to 100; got 1"):
        confmax.report.write_cross_fitted(tmp_path / "page.html", "g_mean", P, y, folds=1)
    lonely = np.zeros(300, int)
    lonely[0] = 1
    with pytest.raises(ValueError, match=r"no rule can be tuned without fold \d of 5"):
        confmax.report.write_cross_fitted(tmp_path / "page.html", "g_mean", P[:, :2] / P[:, :2].sum(1)[:, None], lonely)


@pytest.mark.parametrize("package", ["vl_convert", "jinja2"])
def test_without_the_extra_one_sentence_tells_how_to_get_it(tmp_path, package):
    code = f"""
import sys
sys.modules[{package!r}] = None
import numpy as np, confmax
P = np.array([[0.9, 0.1], [0.2, 0.8]] * 20)
try:
    confmax.maximize("g_mean", P, [0, 1] * 20).report("page.html", P, [0, 1] * 20)
except ImportError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert ran.stdout.count("\n") == 1 and "pip install 'confmax[report]'" in ran.stdout


@pytest.mark.parametrize(
    "value, shown",
    [(0.12345, "0.123"), (-0.5, "−0.500"), (0.00034, "0.0003"), (7.6e-6, "0.000008"), (0.0, "0.000"), (1e-17, "0.000"),
     (-1e-17, "0.000"), (float("nan"), "–"), (None, "–"), (float("inf"), "–")],
)  # fmt: skip
def test_numbers_as_people_read_them(value, shown):
    assert number(value) == shown
