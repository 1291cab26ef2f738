"""Metrics of one named class on the command line."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import confmax
from confmax import metrics
from confmax.calibration import Temperature, VectorScaling
from confmax.cli.columns import FileRows, TableOptions
from confmax.cli.matching import check_applies, not_applicable, tuned_metric
from confmax.confusion import Gains
from confmax.metrics.alignment import aligned
from confmax.metrics.catalogue import metric_of, named
from confmax.page.words import how_it_decides
from confmax.rule.html import rule_table
from tests.cli_helpers import document, run, small
from tests.report_helpers import judge, sample
from tests.test_one_class import NAMES, ONE_CLASS, WITNESSES, table


@pytest.fixture
def file(inside):  # noqa: ARG001
    P, y = table(n=200)
    pd.DataFrame(P, columns=NAMES).assign(truth=y).to_csv("t.csv", index=False)
    P, y = table(n=200, K=2, names=["no", "yes"])
    pd.DataFrame(P, columns=["no", "yes"]).assign(truth=y).to_csv("two.csv", index=False)


@pytest.mark.usefixtures("file")
def test_the_command_line_takes_the_text():
    tuned = document("tune", "t.csv", "--label", "truth", "--metric", "f1[VF]", "-o", "r.json")
    assert tuned["metric"] == "f1[VF]" and tuned["rule"]["metric"] == "f1[VF]"
    again = document("tune", "t.csv", "--label", "truth", "--metric", "f1", "--param", "label=VF")
    assert again["tuned"] == tuned["tuned"]
    scored = document("score", "t.csv", "--label", "truth", "--rule", "r.json", "--metric", "precision[VF]",
                      "--replicates", "0")  # fmt: skip
    assert [entry["metric"] for entry in scored["values"]] == ["precision[VF]"]
    compared = document("compare", "t.csv", "--label", "truth", "--metric", "f1[VF]", "--replicates", "0")
    assert compared["metrics"] == ["f1[VF]", "accuracy"]
    assert (
        "recall[XX] names a class that the table does not have"
        in run("tune", "t.csv", "--label", "truth", "--metric", "recall[XX]", code=2)[1]
    )
    assert "write f1[NAME] for the class NAME" in run("tune", "t.csv", "--label", "truth", "--metric", "f1", code=2)[1]


@pytest.mark.usefixtures("file")
def test_default_lines_of_two_classes():
    """The positive class's precision and recall stand beside its F1; nothing is listed twice."""
    scored = document("score", "two.csv", "--label", "truth", "--positive", "yes", "--replicates", "0")
    found = {entry["metric"]: entry["argmax"] for entry in scored["values"]}
    data = pd.read_csv("two.csv")
    decided = np.where(data["yes"] >= 0.5, "yes", "no")
    for name in ("precision", "recall", "f1"):
        expected = WITNESSES[name](data["truth"], decided, pos_label="yes")
        assert found[name] == pytest.approx(expected, abs=1e-12)
    assert not any(name.startswith(("macro_f_beta", "f_beta")) for name in found)
    without = document("score", "two.csv", "--label", "truth", "--replicates", "0")
    assert "precision" not in {entry["metric"] for entry in without["values"]}
    compared = document("compare", "two.csv", "--label", "truth", "--positive", "yes", "--metric", "f1",
                        "--replicates", "0")  # fmt: skip
    assert compared["metrics"] == ["f1", "precision", "recall", "accuracy"]


def test_metrics_lists_them():
    entries = document("metrics")["metrics"]
    assert [entry["name"] for entry in entries if entry["one_class"]] == sorted(ONE_CLASS)


TINY = 2.0**-68


def one_class_rule(k=1, cut=0.1, calibrator=None):
    """A rule of four classes as `maximize` makes it for F1 of class k."""
    a, b = np.full(4, TINY), np.zeros(4)
    a[k], b[k] = (2.0, -2 * cut) if np.isfinite(cut) else (0.0, -np.sign(cut))
    return confmax.DecisionRule(Gains.reduced(a, b), np.ones(1), tuple(NAMES), f"f1[{NAMES[k]}]", 0, calibrator)


ROW = ("--proba", "0.4,0.2,0.1,0.3")
# where F is decided from, its words, the threshold, and the last line about the row
CUTS = [
    (0.1, "decides F if p(F) >= 0.1, else the most probable other", "0.1", "Decided: F, its probability reaches the"),
    (0.25, "decides F if p(F) >= 0.25, else", "0.25", "Decided: VF, the most probable other class"),
    (-np.inf, "always decides F (argmax", "always", "Decided: F, as in every row"),
    (np.inf, "always decides the most probable class other than F (argmax", "never", "Decided: VF, the most"),
]


@pytest.mark.parametrize(("cut", "words", "threshold", "last"), CUTS)
def test_explain_shows_the_threshold_of_one_class(inside, cut, words, threshold, last):  # noqa: ARG001
    one_class_rule(cut=cut).save("r.json")
    stdout, _ = run("explain", "r.json", *ROW)
    assert words in stdout and stdout.splitlines()[-1].startswith(last)
    assert "weight" not in stdout and "e+" not in stdout and "e-" not in stdout
    answer = document("explain", "r.json", *ROW)
    limits = {"always": 0.0, "never": None, "0.1": pytest.approx(0.1), "0.25": pytest.approx(0.25)}
    assert answer["one_class"] == {"class": "F", "threshold": limits[threshold]}
    assert max(map(abs, answer["example"]["parts"][0]["scores"])) <= 1.0


@pytest.mark.parametrize(
    ("calibrator", "words"),
    [
        (Temperature(0.5), "(argmax: F if it is the most probable class)"),
        (VectorScaling([1.0, 0.5, 0.8, 1.0], [0.3, 0.0, -0.2, 0.0], 0.01), "probable class before calibration)"),
    ],
)
def test_explain_compares_with_argmax_of_the_same_probabilities(inside, calibrator, words):  # noqa: ARG001
    one_class_rule(calibrator=calibrator).save("r.json")
    stdout, _ = run("explain", "r.json")
    assert "decides F if calibrated p(F) >= 0.1, else" in stdout and words in stdout


def test_explain_says_once_that_a_rule_is_argmax(inside):  # noqa: ARG001
    rule = confmax.DecisionRule.from_weights(np.ones(4), classes=NAMES)
    rule.save("r.json")
    stdout, _ = run("explain", "r.json")
    assert stdout.count("decides like argmax") == 1 and "0.500" not in stdout and "is decided" not in stdout
    calibrated = confmax.DecisionRule(rule.gains, np.ones(1), tuple(NAMES), "macro_f1", 0, Temperature(2.0))
    assert repr(calibrated).splitlines()[-1] == "  decides like argmax of the calibrated probabilities"
    assert "of the calibrated probabilities" in rule_table(calibrated) and "<table>" not in rule_table(calibrated)
    offset = confmax.DecisionRule.from_weights(np.ones(4), [0, 0, 0, 0.1], classes=NAMES)
    assert "argmax" not in repr(offset)


@pytest.mark.parametrize(
    ("metric", "positive", "words"),
    [
        ("precision[hiland]", None, "share of the rows decided as hiland that are hiland"),
        ("specificity[a]", None, "share of the rows of other classes that are not decided as a"),
        ("f1", "yes", "F1 of yes"),
        ("f1[a]", "b", "F1 of a"),
    ],
)
def test_descriptions_name_the_class(metric, positive, words):
    metric = metrics.get(metric)
    assert (metric.description if positive is None else metric.described(positive)) == words


@pytest.mark.parametrize("k", [0, 3])
def test_shown_weights_of_one_class_are_scaled_by_its_own(k):
    pytest.importorskip("matplotlib").use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    from confmax.plotting import WeightsDisplay

    display = WeightsDisplay.from_rule(one_class_rule(k, 0.25))
    np.testing.assert_array_equal(display.weights, np.eye(4)[[k]])
    np.testing.assert_array_equal(display.offsets, -0.25 * np.eye(4)[[k]])
    assert np.ptp(display.ax_[0].get_xlim()) < 2 and np.ptp(display.ax_[1].get_xlim()) < 1
    plt.close("all")


@pytest.mark.parametrize(
    ("rule", "metric", "words"),
    [
        (one_class_rule(), "f1[F]", "It decides F if p(F) >= 0.1, else the most probable other class."),
        (
            confmax.DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"]),
            "macro_f1",
            "It decides yes if p(yes) >=",
        ),
        (confmax.DecisionRule.from_weights([1.0, 2.0, 3.0], classes=list("abc")), "macro_f1", "multiplies"),
    ],
)
def test_the_report_has_the_sentence_of_the_rule(rule, metric, words):
    P, y = sample(300, rule.n_classes)
    classes = list(rule.classes)
    judged = judge(rule, P, np.array(classes)[y], aligned(metrics.get(metric), classes), replicates=0)
    sentences = how_it_decides(judged)
    assert any(words in one for one in sentences)
    assert words == "multiplies" or not any("multiplies" in one for one in sentences)


# --- rules that were tuned for a metric of one class -----------------------------------------------------------------


def values(*args):
    return {entry["metric"]: entry for entry in document(*args, "--replicates", "0")["values"]}


@pytest.mark.usefixtures("file")
def test_the_tuned_metric_comes_first_and_names_the_positive_class():
    """The class in brackets is the positive one of two, whichever column it has."""
    data = pd.read_csv("two.csv")
    for name in ("yes", "no"):
        run("tune", "two.csv", "--label", "truth", "--metric", f"f1[{name}]", "-o", "r.json")
        found = values("score", "two.csv", "--label", "truth", "--rule", "r.json")
        assert next(iter(found)) == f"f1[{name}]" and "f1" not in found
        decided = np.where(data["yes"] >= 0.5, "yes", "no")
        for metric in ("precision", "recall", f"f1[{name}]"):
            expected = WITNESSES[metric.partition("[")[0]](data["truth"], decided, pos_label=name)
            assert found[metric]["argmax"] == pytest.approx(expected, abs=1e-12)
        assert "Left out" not in run("score", "two.csv", "--label", "truth", "--rule", "r.json")[0]
    said = values("score", "two.csv", "--label", "truth", "--rule", "r.json", "--positive", "yes")
    assert said["f1[no]"]["argmax"] == found["f1[no]"]["argmax"] != said["f1"]["argmax"]


@pytest.mark.usefixtures("file")
def test_the_tuned_metric_comes_first_among_several_classes_and_with_parameters():
    run("tune", "t.csv", "--label", "truth", "--metric", "f_beta[VF]", "--param", "beta=2", "-o", "r.json")
    assert next(iter(values("score", "t.csv", "--label", "truth", "--rule", "r.json"))) == "f_beta[VF](beta=2.0)"
    run("tune", "t.csv", "--label", "truth", "--metric", "g_mean", "-o", "r.json")
    found = list(values("score", "t.csv", "--label", "truth", "--rule", "r.json"))
    assert found[0] == "g_mean" and found.count("g_mean") == 1


@pytest.mark.usefixtures("file")
def test_d13_score_prints_the_tuned_metric_first_and_few_others_each_once():
    def printed(*arguments):
        lines = run("score", *arguments, "--replicates", "0")[0].splitlines()
        start = next(k for k, line in enumerate(lines) if line.startswith("metric"))
        return [line.split()[0] for line in lines[start + 1 : lines.index("", start)]], "\n".join(lines)

    for data, metric, more in (
        ("two.csv", "f1[yes]", ["--positive", "yes"]), ("two.csv", "quadratic_kappa", ["--classes", "no,yes"]),
        ("two.csv", "micro_f1", ["--classes", "no,yes"]), ("two.csv", "mcc", []), ("t.csv", "f1[VF]", []),
        ("t.csv", "weighted_f1", []),
    ):  # fmt: skip
        run("tune", data, "--label", "truth", *more, "--metric", metric, "-o", "r.json")
        every = (data, "--label", "truth", "--rule", "r.json")
        names, text = printed(*every)
        assert names[0] == metric and len(names) <= 9 and len(names) == len(set(names)), (metric, names)
        found = values("score", *every)
        assert "more metrics: --metric NAME" in text and len(found) > len(names)
        # no two are the same numbers by another name
        numbers = {tuple(found[name][rule] for rule in ("argmax", "p_prior", "rule")) for name in names}
        assert len(numbers) == len(names), (metric, names)
        if metric == "f1[VF]":
            assert names[1:3] == ["precision[VF]", "recall[VF]"]
        assert printed(*every, "--metric", "npv[yes]" if data == "two.csv" else "h_mean")[0] in (
            ["npv[yes]"],
            ["h_mean"],
        )


@pytest.mark.usefixtures("file")
def test_what_is_left_out_is_told_in_few_lines():
    of_four = run("score", "t.csv", "--label", "truth", "--replicates", "0")[0].splitlines()
    # of those that are shown, none is
    assert not [line for line in of_four if line.startswith("Left out")]
    of_two = run("score", "two.csv", "--label", "truth", "--replicates", "0")[0]
    assert "give it with --classes, or name the positive class with --positive)" in of_two


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("command", ["tune", "compare"])
def test_an_unknown_order_offers_the_name_of_the_class(command):
    way_out = "(the negative first), or the positive one with --positive"
    told = run(command, "two.csv", "--label", "truth", "--metric", "f1", code=2)[1]
    assert told.endswith(f"{way_out}, or name the class, f1[no] or f1[yes]\n")
    assert run(command, "two.csv", "--label", "truth", "--metric", "ams", code=2)[1].endswith(f"{way_out}\n")


@pytest.mark.usefixtures("file")
def test_a_score_is_of_the_class_in_brackets():
    pd.DataFrame({"s": pd.read_csv("two.csv")["yes"]}).to_csv("s.csv", index=False)
    for name, certain in (("yes", "yes"), ("no", "no")):
        run("tune", "two.csv", "--label", "truth", "--metric", f"f1[{name}]", "--calibration", "none", "-o", "r.json")
        run("apply", "r.json", "s.csv", "--score", "s", "-o", "o.csv")
        decided = pd.read_csv("o.csv")
        assert decided["decision"][decided["s"].idxmax()] == certain


def test_parentheses_in_the_name_of_a_class():
    found = named("f_beta[a (b)](beta=2.0)")
    assert found is not None and found.label == "a (b)" and dict(found.params)["beta"] == 2.0
    assert repr(named("f1(classes=(1, 0))")) == "f1(classes=(1, 0))"
    assert named("linear") is None and named("a function") is None and named("f1[") is None


def test_a_limited_precision_says_how_many_rows_are_decided(tmp_path):
    """A floor can be kept by one row, which its value does not show; prices have a sentence of their own."""
    path = small(tmp_path, rows=400)
    more = ("--label", "y", "--metric", "recall[a]", "--confusion", "model", "--randomized", "no")
    for floor in (0.6, 0.9):
        given = ("tune", path, *more, "--subject-to", f"precision[a] >= {floor}")
        (limit,) = document(*given)["constraints"]
        n = round(400 * limit["decided"])
        stdout, _ = run(*given)
        assert f"\nprecision[a] >= {floor}: its class is decided for {n / 4:.3g}% of the rows, {n} of 400\n" in stdout
        rises = "price: by how much recall[a] rises per unit by which the limit is loosened, to first order; with "
        assert rises in stdout and limit["price"] > 0
        hits = round(limit["on_labels"] * n)
        assert f"; on the labels precision[a] is {hits} of {n} tuning rows, not assured on new rows" in stdout
    recall = document("tune", path, *more[:2], "--metric", "accuracy", "--subject-to", "recall[a] >= 0.2")
    assert recall["constraints"][0]["decided"] is None


LIMITS = {
    "tune": ("tune", ("--metric", "accuracy", "--subject-to")),
    "costs": ("tune", ("--costs", "costs.csv", "--subject-to")),
    "in parts": ("tune", ("--in-parts", "yes", "--metric", "accuracy", "--subject-to")),
    "compare": ("compare", ("--metric", "accuracy", "--replicates", "0", "--subject-to")),
    "frontier": ("frontier", ("--metric", "accuracy", "--over", "rate[no] >=", "--levels", "3", "--subject-to")),
    "moved": ("frontier", ("--metric", "accuracy", "--levels", "3", "--over")),
}  # fmt: skip
QUANTITIES = ("recall >= 0.6", "precision >= 0.5", "f1 >= 0.3", "fpr <= 0.6", "min(recall | group) >= 0.2")


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("place", LIMITS)
def test_limits_of_one_class_need_the_positive_one(place):
    """As metrics do, whatever the order of the columns; what says the order is taken."""
    command, options = LIMITS[place]
    pd.DataFrame([[0, 1], [5, 0]], index=["no", "yes"], columns=["no", "yes"]).to_csv("costs.csv")
    two = pd.read_csv("two.csv")
    for k, names in enumerate((["no", "yes"], ["yes", "no"])):
        two[[*names, "truth"]].assign(half=np.arange(len(two)) % 2).to_csv(f"two{k}.csv", index=False)
        for limit in QUANTITIES if place == "tune" else QUANTITIES[:1] if place != "moved" else ("recall >=",):
            group = ["--group", "half"] if "group" in limit else []
            said = run(command, f"two{k}.csv", "--label", "truth", *options, limit, *group, code=2)[1]
            quantity = limit.replace("min(", "").split()[0]
            for words in (limit, "order of", "no", "yes", f"{quantity}[yes]", "--positive", "--classes"):
                assert words in said
    for order in (["--positive", "yes"], ["--classes", "no,yes"]):
        limit = "recall >=" if place == "moved" else "recall >= 0.6"
        found = [
            document(command, "two1.csv", "--label", "truth", *options, text, *order)
            for text in (limit, limit.replace("recall", "recall[yes]"))
        ]
        by_order, by_name = (str(one).replace("recall[yes]", "recall") for one in found)
        assert by_order == by_name and "recall[no]" not in by_order


@pytest.mark.usefixtures("file")
def test_limits_of_one_class_of_numbers():
    """Their order is known: the limit is on 1."""
    two = pd.read_csv("two.csv")
    two["truth"] = two["truth"].map({"no": 0, "yes": 1})
    two.rename(columns={"no": 0, "yes": 1})[[1, 0, "truth"]].to_csv("n.csv", index=False)
    tuned = document("tune", "n.csv", "--label", "truth", "--metric", "accuracy", "--subject-to", "recall >= 0.6")
    assert tuned["constraints"][0]["text"] == "recall[1] >= 0.6"


@pytest.mark.parametrize(
    ("written", "classes", "meant"),
    [
        ("f1", "ab", "f1"),
        ("f1", "ba", "f1[b]"),
        ("f1(classes=(0, 1))", "ab", "f1"),
        ("f1[a]", "ba", "f1[a]"),
        ("ams", "ba", "ams(classes=(1, 0))"),
        ("macro_f1", "ba", "macro_f1"),
        # names and places that the rule does not have, of files that were edited
        ("f1[z]", "ab", None),
        ("f1(classes=(4, 5))", "ab", None),
        ("a function of mine", "ab", None),
    ],
)
def test_the_metric_of_a_rule_file_is_meant_for_its_classes(written, classes, meant):
    rule = replace(confmax.DecisionRule.from_weights([1.0, 2.0], classes=["a", "b"]), metric=written)
    found = tuned_metric(rule, tuple(classes))
    assert (found and repr(found)) == meant
    if found is not None:
        P = np.random.default_rng(0).random(40)
        y = np.where(np.arange(40) % 3 == 0, "b", "a")
        decided = np.where(P > 0.5, "b", "a")

        def counted(names):
            return np.array([[((y == true) & (decided == one)).sum() for one in names] for true in names]) / 40

        own = aligned(metric_of(rule), ["a", "b"])
        assert found.value(counted(classes)) == pytest.approx(own.value(counted("ab")))


def test_a_metric_of_a_whole_matrix_has_no_value_on_very_many_classes():
    many = FileRows(Path("t.csv"), TableOptions(), tuple(range(1001)), (), None, (), order_known=True)
    assert not_applicable(metrics.get("macro_f1"), many) == ""
    assert not_applicable(metrics.get("quadratic_kappa"), many) == "the confusion matrix of 1001 classes is too large"
    with pytest.raises(ValueError, match="quadratic_kappa does not apply: the confusion matrix of 1001"):
        check_applies(metrics.get("quadratic_kappa"), many)


@pytest.mark.usefixtures("file")
def test_a_frontier_names_the_levels_that_it_leaves_out():
    wanted = ("two.csv", "--label", "truth", "--metric", "recall[yes]", "--over", "precision[yes] >=", "--levels")
    _, said = run("frontier", *wanted, "0.3,0.999999")
    assert "0.999999" in said and "left out" in said
    assert "left out" not in run("frontier", *wanted, "0.2,0.3")[1]
