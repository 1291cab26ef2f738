"""`confmax compare`: every rule is judged by every metric, on rows that it was not tuned on."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as reference

import confmax as library
from confmax.oracle import make_table
from confmax.tables.draws import stratified_folds
from tests.cli_helpers import CLASSES, HPC, document, invoked, refusal, run, small

pytest.importorskip("pyarrow")
compare = importlib.import_module("confmax.cli.compare")
pytestmark = pytest.mark.usefixtures("inside")
ROWS = ("--label", "y", "--replicates", "0")


@pytest.fixture(autouse=True, scope="module")
def folds():
    """Three folds, which are as good as five."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "N_FOLDS", 3)
        yield 3


@pytest.fixture(scope="module")
def hpc(tmp_path_factory):
    """Every fifth row of the bundled table, from the second one on: its file, probabilities and labels."""
    header, *lines = HPC.read_text().splitlines()
    path = tmp_path_factory.mktemp("hpc") / "hpc.csv"
    path.write_text("\n".join([header, *lines[1::5]]) + "\n")
    cells = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
    return path, cells[:, 1:5].astype(float), cells[:, 0]


@pytest.fixture(scope="module")
def compared(tmp_path_factory, hpc, folds):  # noqa: ARG001
    rule = tmp_path_factory.mktemp("compare") / "rule.json"
    library.DecisionRule.from_weights([1.0, 2.0, 7.0, 11.0], classes=CLASSES).save(rule)
    args = ("compare", hpc[0], "--label", "obs", "--metric", "f1_macro", "--metric", "g_mean", "--rule", rule)
    return document(*args, "--replicates", "100"), str(rule)


def by_reference(truth, decided):
    recalls = reference.recall_score(truth, decided, average=None, labels=CLASSES, zero_division=0)
    return {
        "macro_f1": reference.f1_score(truth, decided, average="macro", labels=CLASSES, zero_division=0),
        "g_mean": np.prod(recalls) ** 0.25,
        "accuracy": np.mean(truth == decided),
    }


@pytest.fixture(scope="module")
def decided(hpc, compared, folds):
    """Folds and tuning done again: the decisions of every rule but p/prior."""
    _, P, y = hpc
    fold_of = stratified_folds(make_table(P, y, classes=CLASSES).head, folds, 0)
    found = {"argmax": np.array(CLASSES)[3 - np.argmax(P[:, ::-1], axis=1)]}
    for metric in ("macro_f1", "g_mean"):
        mine = found[f"for {metric}"] = np.empty(len(y), dtype="U2")
        for fold in range(folds):
            rule = library.maximize(metric, P[fold_of != fold], y[fold_of != fold], classes=CLASSES).rule
            assert not rule.is_randomized
            mine[fold_of == fold] = rule.predict(P[fold_of == fold])
    weighted = P * [1.0, 2.0, 7.0, 11.0]
    return {**found, compared[1]: np.array(CLASSES)[3 - np.argmax(weighted[:, ::-1], axis=1)]}


def test_values_are_those_of_held_out_rows(hpc, compared, decided):
    """Counted by scikit-learn."""
    y = hpc[2]
    found, path = compared
    by_name = {each["rule"]: each for each in found["rules"]}
    assert list(by_name) == ["argmax", "p/prior", "for macro_f1", "for g_mean", path]
    for name, names in decided.items():
        assert by_name[name]["values"] == pytest.approx(by_reference(y, names), abs=1e-12)
    assert {name: each["cross_fitted"] for name, each in by_name.items()} == {
        "argmax": False, "p/prior": False, "for macro_f1": True, "for g_mean": True, path: False,
    }  # fmt: skip


def test_intervals_are_those_of_score(hpc, compared, decided):
    """The same rows are drawn as by confmax.score for the same decisions."""
    _, P, y = hpc
    found, _path = compared
    rules = {name: names for name, names in decided.items() if name != "argmax"}
    metrics = ["macro_f1", "g_mean", "accuracy"]
    scored = library.score(metrics, P, y, rules=rules, classes=CLASSES, n_replicates=100)
    for mine in found["rules"][2:]:
        for metric in metrics:
            minus = scored.difference(mine["rule"], "argmax", metric)
            assert mine["minus_argmax"][metric] == pytest.approx(minus._asdict())
            assert mine["intervals"][metric] == pytest.approx(list(scored.estimate(mine["rule"], metric)[1:]))


def test_the_best_of_each_column_is_marked(compared):
    found, _ = compared
    for metric, best in found["best"].items():
        top = max(each["values"][metric] for each in found["rules"])
        assert best == [each["rule"] for each in found["rules"] if each["values"][metric] == top]
    assert "argmax" in found["best"]["accuracy"]


def test_what_is_printed(tmp_path):
    path = small(tmp_path)
    library.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abc")).save("r.json")
    args = ("compare", path, "--label", "y", "--columns", "a,b,c", "--classes", "c,b,a", "--metric", "g_mean")
    stdout, stderr = run(*args, "--rule", "r.json")
    assert stderr == "" and stdout.isascii()
    rows = [line.split() for line in stdout.splitlines() if line.startswith(("argmax", "p/prior", "for ", "r.json"))]
    assert len(rows) == 4 + 3
    assert f"confmax tune {path} --label y --classes c,b,a --columns a,b,c --metric NAME -o rule.json" in stdout
    plain, _ = run(*args, "--replicates", "0")
    assert "Difference" not in plain and "[" not in plain


def test_defaults_suit_the_classes(tmp_path, monkeypatch):
    several, binary = compare.SEVERAL, compare.OF_TWO
    assert several == ("macro_f1", "balanced_accuracy", "g_mean", "min_recall", "cohen_kappa")
    monkeypatch.setattr(compare, "SEVERAL", several[1:2])
    monkeypatch.setattr(compare, "OF_TWO", (*several[1:2], "f1"))
    assert document("compare", small(tmp_path), *ROWS)["metrics"] == ["balanced_accuracy", "accuracy"]
    two = tmp_path / "two.csv"
    two.write_text("n,p,y\n" + "".join(f"{0.9 - k / 80},{0.1 + k / 80},{'np'[k % 3 == 0]}\n" for k in range(60)))
    assert "f1" in binary and document("compare", two, *ROWS)["metrics"] == ["balanced_accuracy", "accuracy"]
    of_two = document("compare", two, *ROWS, "--positive", "p")["metrics"]
    assert of_two == ["balanced_accuracy", "f1", "precision", "recall", "accuracy"]


def test_no_order_of_rows_changes_the_values(tmp_path):
    """Folds go by the content of the rows."""
    path = small(tmp_path)
    lines = path.read_text().splitlines()
    (tmp_path / "turned.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    one, other = (document("compare", name, *ROWS, "--metric", "macro_f1")["rules"] for name in (path, "turned.csv"))
    assert [each["values"] for each in one] == [pytest.approx(each["values"], abs=1e-12) for each in other]


def test_weights_count(tmp_path):
    """A row of weight two is a row that is there twice, as far as its fold's rule is the same."""
    path = small(tmp_path, w=["1", "3"] * 30)
    found = document("compare", path, *ROWS, "--weight", "w", "--metric", "macro_f1")
    P = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(1, 2, 3))
    y = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=5, dtype=str)
    names = np.array(list("abc"))[2 - np.argmax(P[:, ::-1], axis=1)]
    expected = reference.f1_score(y, names, average="macro", sample_weight=[1, 3] * 30)
    assert found["rules"][0]["values"]["macro_f1"] == pytest.approx(expected)


def test_rare_and_absent_classes_are_told(tmp_path):
    path = small(tmp_path, y=["a", "b"] * 28 + ["c"] * 4)
    _, stderr = run("compare", path, *ROWS, "--metric", "g_mean")
    assert "warning: few rows have the label c (4): rules tuned without one fold have seen hardly any of" in stderr
    path = small(tmp_path, y=["a", "b"] * 30)
    _, stderr = run("compare", path, *ROWS, "--metric", "g_mean", "--classes", "a,b,c", "--columns", "a,b,c")
    assert stderr.startswith("warning: no row has the label c: metrics that divide by class sizes leave it out")


def test_a_rule_with_a_further_decision_has_no_value(tmp_path):
    """And JSON has no infinity."""
    path = small(tmp_path)
    (tmp_path / "costs.csv").write_text("true,a,b,c,ask\na,0,1,1,.2\nb,1,0,1,.2\nc,1,1,0,.2\n")
    run("tune", path, "--label", "y", "--costs", "costs.csv", "-o", "ask.json")
    args = ("compare", path, *ROWS, "--metric", "macro_f1", "--rule", "ask.json")
    answer = json.loads(run(*args, "--json")[0], parse_constant=lambda name: pytest.fail(name))
    assert answer["rules"][-1]["values"]["macro_f1"] is None
    assert "-: not finite, or not defined for a rule of more decisions than classes." in run(*args)[0]


ERRORS = {
    "no label": ([], "Missing option '--label'"),
    "unknown metric": (["--label", "y", "--metric", "marco_f1"], "did you mean macro_f1"),
    "linear": (["--label", "y", "--metric", "linear"], "linear needs a table of costs or gains, which rules hold"),
    "twice": (["--label", "y", "--metric", "macro_f1", "--metric", "f1_macro"], "--metric names a metric twice"),
    "binary": (["--label", "y", "--metric", "f1"], "f1 is a metric of two classes and the table has 3; write f1[NAME]"),
    "order": (["--label", "y", "--metric", "quadratic_kappa"], "give the order with --classes"),
    "lone parameter": (["--label", "y", "--param", "beta=2"], "--param belongs to one --metric"),
    "column": (["--label", "yy"], "no column 'yy' (nearest: y); correct --label"),
    "no rule": (["--label", "y", "--rule", "no.json"], "there is no rule file no.json"),
    "rule twice": (["--label", "y", "--rule", "r.json", "--rule", "r.json"], "--rule names a file twice"),
    "other rule": (
        ["--label", "y", "--rule", "r.json", "--rule", "x.json"],
        "the rule x.json decides between a, b, x and the classes here are a, b, c; compare rules of the same classes",
    ),
    "replicates": (["--label", "y", "--replicates", "5"], "cannot tell intervals of level 0.95"),
}


@pytest.mark.parametrize("arguments, sentence", ERRORS.values(), ids=ERRORS)
def test_errors_are_one_sentence(arguments, sentence, tmp_path):
    library.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abc")).save("r.json")
    library.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abx")).save("x.json")
    assert sentence in refusal("compare", small(tmp_path), *arguments)


def test_of_rules_that_draw_the_expectation_is_taken(tmp_path, folds):
    """Many equal rows: mixtures are best there, and what they decide on the average is compared, not one draw."""
    rng, classes = np.random.default_rng(5), ["a", "b", "c"]
    P = rng.dirichlet([4, 2, 1], 20)[rng.integers(0, 20, 300)]
    y = (rng.random((300, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    names = np.array(classes)[y]
    lines = [",".join([*map(repr, row), name]) for row, name in zip(P.tolist(), names, strict=True)]
    (tmp_path / "atoms.csv").write_text("\n".join(["a,b,c,truth", *lines]))
    args = ("compare", "atoms.csv", "--label", "truth", "--metric", "h_mean", "--replicates", "0")
    found = {each["rule"]: each["values"] for each in document(*args)["rules"]}
    fold_of = stratified_folds(make_table(P, names, classes=classes).head, folds, 0)
    C, draws = np.zeros((3, 3)), 0
    for fold in range(folds):
        mine = fold_of == fold
        rule = library.maximize("h_mean", P[~mine], names[~mine], classes=classes).rule
        draws += rule.is_randomized
        np.add.at(C, y[mine], rule.decision_probabilities(P[mine]))
    assert draws > 0
    assert found["for h_mean"]["h_mean"] == pytest.approx(library.metrics.get("h_mean").value(C / 300), abs=1e-12)


def test_rows_that_cannot_be_cut_into_folds_are_refused(tmp_path):
    args = ("--label", "y", "--metric", "macro_f1")
    said = run("compare", small(tmp_path, a="0.5", b="0.3", c="0.2"), *args, code=2)[1]
    assert "cross-fitting needs rows that differ" in said
    path = small(tmp_path, y=["a"] * 59 + ["b"], a=[f"{1 - k / 100:.2f}" for k in range(60)],
                 b=[f"{k / 100:.2f}" for k in range(60)], c=None)  # fmt: skip
    sentence = "no rule for macro_f1 can be tuned without one of the folds (the label column has weight in one"
    assert sentence in run("compare", path, *args, code=2)[1]


N = 600


def _tables():
    """Two tables of fraud with groups; what was tuned on the first is judged on the second."""
    rng = np.random.default_rng(3)
    for name in ("val", "held"):
        p = rng.beta(0.4, 1.6, N).round(4)
        truth = np.where(rng.random(N) < p, "yes", "no")
        lines = zip((1 - p).round(4), p, truth, np.where(np.arange(N) % 3, "A", "B"), strict=True)
        text = "\n".join(",".join(map(str, line)) for line in lines)
        Path(f"{name}.csv").write_text(f"no,yes,truth,region\n{text}\n")
    Path("costs.csv").write_text("truth,no,yes,check\nno,0,60,15\nyes,200,0,15\n")


TUNED = {
    "a limit that argmax misses": ("--metric", "accuracy", "--subject-to", "recall[yes] >= 0.75"),
    "a limit of groups": ("--metric", "accuracy", "--group", "region", "--subject-to", "min(recall[yes]|group)>=0.7"),
    "another metric": ("--metric", "macro_f1"),
    "costs": ("--costs", "costs.csv"),
    "abstaining": ("--metric", "f1[yes]", "--abstain", "ask", "--subject-to", "coverage >= 0.8"),
}


@pytest.mark.parametrize("kind", TUNED)
def test_a_rule_of_a_file_is_judged_as_score_judges_it(kind):
    """By its own metric and its own limits, which are shown, and by the metric that was asked for, too."""
    _tables()
    run("tune", "val.csv", "--label", "truth", *TUNED[kind], "-o", "r.json")
    given = ("held.csv", "--label", "truth", "--rule", "r.json", "--metric", "accuracy", "--replicates", "60")
    given += ("--group", "region") if "--group" in TUNED[kind] else ()
    code = invoked("score", *given).exit_code
    scored = document("score", *given, code=code)
    compared = document("compare", *given)
    row = compared["rules"][-1]
    ours, theirs = row["verdict"], scored["verdict"]
    for key in ("metric", "unit", "value", "missed"):
        assert ours[key] == theirs[key]
    assert [(one["name"].replace(" (r.json)", ""), one["value"], one["missed"]) for one in ours["rivals"]] == [
        (one["name"], one["value"], one["missed"]) for one in theirs["rivals"]
    ]
    assert ours["metric"] in row["values"] and row["values"][ours["metric"]] == pytest.approx(ours["value"])
    assert ("own_constraints" in row) == ("constraints" in scored)
    for one, other in zip(row.get("own_constraints", ()), scored.get("constraints", ()), strict=True):
        assert {key: one[key] for key in ("text", "value", "kept")} == {k: other[k] for k in ("text", "value", "kept")}
    asked = [] if ours["metric"] == "accuracy" else ["accuracy"]
    for verdicts in (row.get("further_verdicts", ()), scored.get("further_verdicts", ())):
        assert [one["metric"] for one in verdicts] == asked
    for line in (run("compare", *given)[0], run("score", *given, code=code)[0]):
        assert "By linear" not in line
        for one in (ours, *row.get("further_verdicts", ())):
            assert f"By {one['unit'] or one['metric']}, " in line


def test_what_misses_a_limit_of_a_rule_is_never_as_good():
    """Argmax has the accuracy of the rule, or more, and misses its limit: compare called it as good."""
    _tables()
    run("tune", "val.csv", "--label", "truth", *TUNED["a limit that argmax misses"], "-o", "r.json")
    given = ("held.csv", "--label", "truth", "--rule", "r.json", "--metric", "accuracy", "--replicates", "60")
    verdict = document("compare", *given)["rules"][-1]["verdict"]
    assert {one["name"]: one["missed"] for one in verdict["rivals"]}["argmax"] == ["recall[yes] >= 0.75"]
    assert verdict["of"] != "argmax"
    for command in ("compare", "score"):
        said = next(line for line in run(command, *given)[0].splitlines() if line.startswith("By ") and "rule" in
                    line.replace("r.json", "rule"))  # fmt: skip
        assert "argmax misses recall[yes] >= 0.75" in said and "not compare" in said and "as good" not in said
    shown = run("compare", *given)[0].split("Limits that 'r.json' was tuned within")[1].split("\n\n")[0]
    assert "recall[yes] >= 0.75" in shown and "kept" in shown
    # limits that were given beside count for it, too, also where both contradict each other
    row = document("compare", *given, "--subject-to", "recall[yes] <= 0.5")["rules"][-1]
    assert [one["text"] for one in row["constraints"]] == ["recall[yes] <= 0.5"]
    assert [one["text"] for one in row["own_constraints"]] == ["recall[yes] >= 0.75"]
    assert row["verdict"]["missed"] == ["recall[yes] <= 0.5"]


def test_the_command_that_tunes_for_costs_names_their_table():
    _tables()
    run("tune", "val.csv", "--label", "truth", *TUNED["costs"], "-o", "r.json")
    given = ("compare", "held.csv", "--label", "truth", "--rule", "r.json", "--replicates", "0", "--metric", "linear")
    line = run(*given)[0].splitlines()[-1]
    assert line.endswith("--metric linear --costs FILE -o rule.json")
    words = line.partition("confmax ")[2].replace("FILE", "costs.csv").split()
    assert "Rule written" in run(*words)[0]
    both = run(*given, "--metric", "accuracy")[0].splitlines()[-2:]
    assert [("--costs" in line, "--metric NAME" in line) for line in both] == [(False, True), (True, False)]


@pytest.mark.parametrize("command", ["compare", "score"])
def test_a_limit_of_groups_cannot_be_judged_without_them(command):
    _tables()
    limits = ("min(recall[yes] | group) >= 0.2",)
    rule = library.DecisionRule.from_weights([1.0, 2.0], classes=["no", "yes"])
    replace(rule, constraints=limits).save("r.json")
    given = ("held.csv", "--label", "truth", "--metric", "accuracy", "--replicates", "0", "--rule", "r.json")
    stdout, stderr = run(command, *given)
    assert limits[0] in stderr and "--group" in stderr and "cannot be judged" in stdout


def test_the_positive_class_of_a_rule_is_its_own():
    """Whatever --positive says, and where nothing says which class is positive."""
    _tables()
    run("tune", "val.csv", "--label", "truth", "--metric", "f1", "--positive", "no", "-o", "r.json")
    given = ("held.csv", "--label", "truth", "--rule", "r.json", "--replicates", "0", "--metric")
    own = document("score", *given, "f1")["values"][0]["rule"]
    for more in (("f1", "--positive", "yes"), ("accuracy",), ("f1", "--positive", "no")):
        verdict = document("compare", *given, *more)["rules"][-1]["verdict"]
        assert verdict["metric"] == ("f1" if "no" in more else "f1[no]") and verdict["value"] == pytest.approx(own)
    assert document("score", *given, "f1", "--positive", "yes")["verdict"]["value"] == pytest.approx(own)
