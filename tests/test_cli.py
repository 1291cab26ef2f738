"""The command line: what it computes and what it writes."""

import copy
import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as reference

import confmax as library
from confmax import kernels
from tests.cli_helpers import CLASSES, HPC, demonstrated, document, run, run_process, small

pa = pytest.importorskip("pyarrow")
pacsv = pytest.importorskip("pyarrow.csv")
pq = pytest.importorskip("pyarrow.parquet")
demo = importlib.import_module("confmax.cli.demo")
# what a command writes without being told where lies in a folder of its own
pytestmark = pytest.mark.usefixtures("inside")
RULE = library.DecisionRule.from_weights([1.0, 2.0, 7.0, 11.0], classes=CLASSES)


@pytest.fixture(scope="module")
def hpc():
    """Probabilities (n, 4), labels and folds of the bundled table, read with nothing of the command line's."""
    cells = np.genfromtxt(HPC, delimiter=",", dtype=str, skip_header=1)
    assert len(cells) == 3467
    return cells[:, 1:5].astype(float), cells[:, 0], cells[:, 5]


def by_reference(metric, truth, decided):
    if metric == "macro_f1":
        return reference.f1_score(truth, decided, average="macro", labels=CLASSES, zero_division=0)
    if metric == "cohen_kappa":
        return reference.cohen_kappa_score(truth, decided)
    recalls = reference.recall_score(truth, decided, average=None, labels=CLASSES, zero_division=0)
    return recalls.min() if metric == "min_recall" else np.prod(recalls) ** 0.25


def largest(scores):
    """Return the names of the largest scores (n, 4); ties go to the largest index."""
    return np.array(CLASSES)[len(CLASSES) - 1 - np.argmax(scores[:, ::-1], axis=1)]


# --- demo ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def answer(monkeypatch):
    """What `confmax demo` says; its rule is written to rule.json."""
    known = demonstrated()
    monkeypatch.setattr(demo, "demonstrate", lambda _progress: copy.deepcopy(known))
    return document("demo", "-o", "rule.json")


def test_demo_is_the_independent_computation(hpc, answer):
    """Each fold is decided by what the other folds say."""
    P, y, folds = hpc
    assert answer["rows"] == 3467
    assert answer["classes"] == {name: int((y == name).sum()) for name in CLASSES}
    by_prior = np.empty_like(y)
    tuned = np.zeros((len(y), 4))
    for fold in np.unique(folds):
        held = folds == fold
        by_prior[held] = largest(P[held] / np.array([np.mean(y[~held] == name) for name in CLASSES]))
        solution = library.maximize("g_mean", P[~held], y[~held], classes=CLASSES)
        tuned[held] = solution.rule.decision_probabilities(P[held])
    assert [row["metric"] for row in answer["results"]] == ["g_mean", "macro_f1", "min_recall", "cohen_kappa"]
    for row in answer["results"]:
        assert row["argmax"] == pytest.approx(by_reference(row["metric"], y, largest(P)), abs=1e-12)
        assert row["p_prior"] == pytest.approx(by_reference(row["metric"], y, by_prior), abs=1e-12)
    recalls = [tuned[y == name, k].mean() for k, name in enumerate(CLASSES)]
    assert answer["results"][0]["tuned"] == pytest.approx(np.prod(recalls) ** 0.25, abs=1e-12)


def test_demo_writes_the_rule_of_all_rows_and_what_is_known_of_it(hpc, answer):
    rule = library.DecisionRule.load("rule.json")
    expected = library.maximize("g_mean", hpc[0], hpc[1], classes=CLASSES, randomized=False)
    assert rule == expected.rule and json.loads(rule.to_json()) == answer["rule"]
    row = answer["results"][0]
    assert row["guarantee"] == expected.guarantee
    assert (row["model_value"], row["model_upper_bound"]) == (expected.model_value, expected.model_upper_bound)
    stdout, stderr = run("demo", "-o", "rule.json")
    assert stderr == "" and str(rule) in stdout
    for row in answer["results"]:
        line = next(line for line in stdout.splitlines() if line.startswith(row["metric"])).split()
        assert line[1:4] == [f"{row[key]:.4f}" for key in ("argmax", "p_prior", "tuned")]


# --- tune ------------------------------------------------------------------------------------------------------------


def test_tune_is_maximize(hpc):
    answer = document("tune", HPC, "--label", "obs", "--metric", "g_mean", "--confusion", "model", "-o", "r.json")
    expected = library.maximize("g_mean", hpc[0], hpc[1], classes=CLASSES, confusion="model")
    assert library.DecisionRule.load("r.json") == expected.rule
    assert (answer["tuned"], answer["gap"]) == (expected.value, expected.gap)
    assert (answer["argmax"], answer["tuned_on_labels"]) == (expected.baselines["argmax"], expected.label_value)
    assert answer["status"] == "converged"


@pytest.mark.parametrize(
    ("more", "guarantee"),
    [
        ((), "if the probabilities are right, no rule exceeds "),
        (("--confusion", "model"), "proved: no rule"),
    ],
)
def test_tune_says_what_it_is(inside, more, guarantee):
    stdout, stderr = run("tune", small(inside), "--label", "y", "--metric", "g_mean", *more, "-o", "rule.json")
    assert stderr == ""
    for words in (guarantee, "DecisionRule for g_mean", "to rule.json"):
        assert words in stdout


def test_without_labels_the_model_is_used(tmp_path):
    answer = document("tune", small(tmp_path, y=None), "--metric", "h_mean", "--columns", "a,b,c")
    assert (answer["label"], answer["confusion"], answer["classes"]) == (None, "model", ["a", "b", "c"])


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")
def test_parameters_positive_class_weights_and_settings(tmp_path):
    path = small(tmp_path, c=None, a=[f"{k / 60:.3f}" for k in range(60)], b=[f"{1 - k / 60:.3f}" for k in range(60)])
    path.write_text(path.read_text().replace(",c\n", ",a\n"))
    frame = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
    P, y = frame[:, [2, 1]].astype(float), frame[:, 4]
    beta = ("--label", "y", "--metric", "f_beta", "--param", "beta=2", "--solver", "threshold_search", "--seed", "5")
    settings = ("--weight", "w", "--tol", "0.01", "--max-passes", "9", "--randomized", "no", "-o", "rule.json")
    answer = document("tune", path, *beta, "--positive", "a", *settings)
    metric = library.metrics.get("f_beta", beta=2)
    expected = library.maximize(metric, P, y, classes=["b", "a"], solver="threshold_search", random_state=5)
    assert answer["classes"] == ["b", "a"]
    assert answer["tuned"] == pytest.approx(expected.value, rel=1e-14)
    assert library.DecisionRule.load("rule.json") == expected.rule
    again = document("tune", path, *beta, "--classes", "b,a")["rule"]
    # sums of weighted rows are rounded otherwise
    assert again.pop("shares")["classes"] == pytest.approx(answer["rule"].pop("shares")["classes"])
    assert again == answer["rule"]


def test_costs(hpc):
    Path("costs.csv").write_text(",L,F,M,VF,ask\nVF,3,1,2,0,.4\nF,2,0,1,1,.4\nL,0,4,2,9,.4\nM,1,2,0,4,.4\n")
    answer = document("tune", HPC, "--label", "obs", "--costs", "costs.csv", "-o", "rule.json")
    costs = [[0, 1, 2, 3, 0.4], [1, 0, 1, 2, 0.4], [4, 2, 0, 1, 0.4], [9, 4, 2, 0, 0.4]]
    expected = library.maximize(library.metrics.get("linear", cost=costs), hpc[0], hpc[1], classes=CLASSES)
    assert answer["tuned"] == expected.cost
    rule = library.DecisionRule.load("rule.json")
    assert list(rule.classes) == [*CLASSES, "ask"]
    run("apply", "rule.json", HPC, "-o", "decided.csv")
    decided = decisions(Path("decided.csv"))
    assert decided == rule.predict(hpc[0]).tolist() and "ask" in decided
    # the mean cost, from the decisions in the file
    position = {name: k for k, name in enumerate(rule.classes)}
    paid = [costs[CLASSES.index(true)][position[name]] for true, name in zip(hpc[1], decided, strict=True)]
    assert answer["tuned_on_labels"] == pytest.approx(np.mean(paid), abs=1e-12)
    arguments = ("score", HPC, "--label", "obs", "--rule", "rule.json", "--replicates", "0")
    assert "undefined for a rule with more decisions than classes" in run(*arguments)[0]


def test_an_array_is_chosen_by_its_rows():
    draw = np.random.default_rng(1)
    P = draw.dirichlet([1, 1, 1], 90).astype(np.float32)
    y = (P.cumsum(axis=1) > draw.random((90, 1))).argmax(axis=1).astype(np.int16)
    np.savez("real.npz", P_tune=P[:50], y_tune=y[:50], P_test=P[50:], y_test=y[50:])
    answer = document("tune", "real.npz", "--label", "y_tune", "--metric", "macro_f1", "-o", "rule.json")
    assert (answer["rows"], answer["classes"]) == (50, [0, 1, 2])
    expected = library.maximize("macro_f1", P[:50], y[:50])
    assert answer["tuned"] == expected.value
    run("apply", "rule.json", "real.npz", "-o", "out.npz", "--columns", "P_test")
    with np.load("out.npz", allow_pickle=False) as arrays:
        assert set(arrays.files) == {"P_tune", "y_tune", "P_test", "y_test", "decision"}
        np.testing.assert_array_equal(arrays["decision"], expected.rule.predict(P[50:]))


def test_warnings_are_lines_and_names_in_a_file_are_only_text(tmp_path):
    """An absent class is told; a control code in a name never reaches the terminal."""
    path = small(tmp_path, y=["a", "b"] * 30)
    _, stderr = run("tune", path, "--label", "y", "--metric", "g_mean", "--classes", "a,b,c", "--columns", "a,b,c")
    assert stderr.startswith("warning: g_mean divides by class sizes and the label column has no weight in class c")
    assert all(line.startswith("warning: ") for line in stderr.splitlines())
    path.write_text(path.read_text().replace("a,b,c", "\x1b[31m,b,c").replace(",a\n", ",\x1b[31m\n"))
    stdout, _ = run("tune", path, "--metric", "h_mean", "--columns", "\x1b[31m,b,c")
    assert "\x1b[31m," not in stdout.split("DecisionRule")[0]
    assert "\\x1b[31m" in stdout


# --- apply -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copies(tmp_path_factory, hpc):
    """Some rows of the bundled table in every format, with a key; the folder and their probabilities."""
    folder = tmp_path_factory.mktemp("copies")
    P, y, folds = (column[::10] for column in hpc)
    columns = {"id": np.arange(len(y)), "obs": y, **{name: P[:, k] for k, name in enumerate(CLASSES)}, "fold": folds}
    np.savez(folder / "t.npz", **columns)
    pq.write_table(pa.table(columns), folder / "t.parquet")
    pacsv.write_csv(pa.table(columns), folder / "t.csv")
    return folder, P


def decisions(path):
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["decision"].tolist()
    table = pq.ParquetFile(path).read() if path.suffix == ".parquet" else pacsv.read_csv(path)
    return table["decision"].to_pylist()


@pytest.mark.parametrize("source", ["csv", "parquet", "npz"])
def test_apply_is_predict_in_every_format(tmp_path, copies, source):
    """The same decisions, names and draws, whatever is read and written."""
    folder, P = copies
    gains = type(RULE.gains).concatenate([RULE.gains, library.DecisionRule.from_weights(np.ones(4)).gains])
    matrix = library.calibration.MatrixScaling(np.eye(4) + 0.1, np.arange(4.0))
    drawn = library.DecisionRule(gains, np.array([0.6, 0.4]), tuple(CLASSES), "two", 7, matrix)
    for rule in (RULE, drawn):
        rule.save("rule.json")
        expected = rule.predict(P, keys=np.arange(len(P))).tolist()
        for target in ("csv", "parquet", "npz"):
            out = tmp_path / f"out.{target}"
            assert run("apply", "rule.json", folder / f"t.{source}", "-o", out, "--key", "id")[1] == ""
            assert decisions(out) == expected


@pytest.mark.parametrize(
    ("names", "more"),
    [("L VF M F", ()), ("L VF M F", ("--columns", "M,L,F,VF")), ("p3 p0 p2 p1", ("--columns", "p0,p1,p2,p3"))],
)
def test_apply_matches_columns_by_name(copies, names, more):
    """Columns in another order are found; --columns wins where the names differ."""
    P = copies[1]
    RULE.save("rule.json")
    pacsv.write_csv(pa.table(dict(zip(names.split(), P[:, [3, 0, 2, 1]].T, strict=True))), "t.csv")
    run("apply", "rule.json", "t.csv", "-o", "o.csv", *more)
    assert decisions(Path("o.csv")) == RULE.predict(P).tolist()


# --- score, metrics --------------------------------------------------------------------------------------------------


def test_score_is_the_reference(hpc):
    P, y, _ = hpc
    RULE.save("rule.json")
    answer = document("score", HPC, "--label", "obs", "--rule", "rule.json", "--replicates", "0")
    prior = np.array([np.mean(y == name) for name in CLASSES])
    values = {row["metric"]: row for row in answer["values"]}
    for column, scores in {"argmax": P, "p_prior": P / prior, "rule": P * [1.0, 2.0, 7.0, 11.0]}.items():
        names = largest(scores)
        assert values["accuracy"][column] == pytest.approx(np.mean(names == y), abs=1e-12)
        for metric in demo.METRICS:
            assert values[metric][column] == pytest.approx(by_reference(metric, y, names), abs=1e-12)
    left_out = {entry["metric"]: entry["why"] for entry in answer["skipped"]}
    assert "two classes" in left_out["f1"] and "--classes" in left_out["quadratic_kappa"]
    assert set(values) & set(left_out) == set()


def test_score_with_an_order_scores_ordered_metrics(hpc):
    P, y, _ = hpc
    arguments = ("score", HPC, "--label", "obs", "--replicates", "0")
    answer = document(*arguments, "--classes", "VF,F,M,L", "--metric", "quadratic_kappa")
    code = np.array([CLASSES.index(name) for name in y])
    expected = reference.cohen_kappa_score(code, 3 - np.argmax(P[:, ::-1], axis=1), weights="quadratic")
    assert [row["metric"] for row in answer["values"]] == ["quadratic_kappa"]
    assert answer["values"][0]["argmax"] == pytest.approx(expected, abs=1e-12)
    # a rule that was tuned for such a metric knows its order
    run("tune", HPC, "--label", "obs", "--classes", "L,M,F,VF", "--metric", "quadratic_kappa", "-o", "rule.json")
    scored = document(*arguments, "--rule", "rule.json")
    assert scored["classes"] == ["L", "M", "F", "VF"]
    assert "quadratic_kappa" in {row["metric"] for row in scored["values"]}
    assert "quadratic_kappa" in run(*arguments, "--rule", "rule.json", "--classes", "VF,F,M,L")[0]


def test_score_with_an_absent_class_and_infinite_values(tmp_path):
    """JSON has no infinity: it is null; the absent class is told."""
    path = small(tmp_path, y=["a", "b"] * 30)
    stdout, stderr = run("score", path, "--label", "y", "--classes", "a,b,c", "--columns", "a,b,c", "--json")
    assert "no row has the label c" in stderr and json.loads(stdout)["values"]
    Path("two.csv").write_text("n,p,y\n" + "0.9,0.1,n\n0.1,0.9,p\n" * 5)
    answer = document("score", "two.csv", "--label", "y", "--positive", "p")
    values = {row["metric"]: row["argmax"] for row in answer["values"]}
    assert (values["f1"], values["ams"]) == (1.0, None)
    assert "not finite" in run("score", "two.csv", "--label", "y", "--positive", "p", "--metric", "ams")[0]


def test_metrics_lists_the_catalogue():
    entries = {entry["name"]: entry for entry in document("metrics")["metrics"]}
    assert sorted(entries) == library.metrics.names()
    assert entries["macro_f1"]["aliases"] == ["f1_macro"]
    assert entries["f_beta"]["parameters"] == {"beta": 1.0}
    assert entries["g_mean"]["structure"] == "concave" and entries["quadratic_kappa"]["needs_order"]
    stdout, _ = run("metrics")
    assert all(name in stdout and entry["description"] in stdout for name, entry in entries.items())


# --- processes -------------------------------------------------------------------------------------------------------


def test_help_and_version():
    assert "Commands:" in run()[0]
    used = kernels.native.instructions if kernels.native else "none, NumPy decides"
    assert run("--version")[0] == f"confmax, version {library.__version__}\nkernels: {used}\n"


def test_the_process_itself(tmp_path):
    """The same with a real stdout and stderr, warnings as errors; a name that the encoding lacks is escaped."""
    path = small(tmp_path)
    path.write_text(path.read_text().replace("id,a,", "id,é,").replace(",a\n", ",é\n"), encoding="utf-8")
    arguments = ("tune", path, "--label", "y", "--metric", "macro_f1")
    done = run_process(*arguments, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xe9" in done.stdout and "\x1b" not in done.stdout


@pytest.mark.parametrize("missing", ["click", "rich", "pyarrow"])
def test_without_the_extra(missing):
    """One sentence with the way out; the library needs none of it."""
    code = f"import sys; sys.modules[{missing!r}] = None; import confmax.__main__ as it; import confmax; it.main()"
    done = run_process("demo", code=code)
    assert done.returncode == 2
    assert done.stderr == f"error: the command line needs {missing}; install it with: pip install 'confmax[cli]'\n"


def test_import_confmax_needs_none_of_it():
    code = "import sys, confmax; print(sorted({'click', 'rich', 'pyarrow'} & set(sys.modules)))"
    assert run_process(code=code).stdout == "[]\n"


def test_a_terminal_without_the_letters(tmp_path):
    """A name that the encoding lacks is escaped, not a crash."""
    path = small(tmp_path)
    path.write_text(path.read_text().replace("id,a,", "id,é,").replace(",a\n", ",é\n"), encoding="utf-8")
    done = run_process(
        "tune", path, "--label", "y", "--metric", "macro_f1", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xe9" in done.stdout


@pytest.mark.parametrize("in_parts", ["yes", "no"])
def test_a_rule_whose_classes_have_names_of_several_types(tmp_path, monkeypatch, in_parts):
    monkeypatch.chdir(tmp_path)
    rule = library.DecisionRule.from_weights([1.0, 2.0, 0.5], classes=[0, "a", 2])
    rule.save("rule.json")
    P = np.random.default_rng(0).dirichlet(np.ones(3), 30).round(6)
    P[:, 2] = 1.0 - P[:, 0] - P[:, 1]
    table = pa.table({"2": P[:, 2], "0": P[:, 0], "a": P[:, 1]})
    pq.write_table(table, "t.parquet")
    run("apply", "rule.json", "t.parquet", "-o", "out.parquet", "--in-parts", in_parts)
    assert pq.read_table("out.parquet").column("decision").to_pylist() == [str(name) for name in rule.predict(P)]
