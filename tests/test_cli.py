"""The command line: what it computes and what it writes."""

import copy
import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as reference

import confmax as library
from tests.cli_helpers import CLASSES, HPC, demonstrated, document, run, run_process, small

pa = pytest.importorskip("pyarrow")
pacsv = pytest.importorskip("pyarrow.csv")
pq = pytest.importorskip("pyarrow.parquet")
demo = importlib.import_module("confmax.cli.demo")


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    """What a command writes without being told where lies in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def hpc():
    """Probabilities (n, 4), labels and folds of the bundled table, read with nothing of the command line's."""
    cells = np.genfromtxt(HPC, delimiter=",", dtype=str, skip_header=1)
    assert len(cells) == 3467
    return cells[:, 1:5].astype(float), cells[:, 0], cells[:, 5]


# --- demo ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "rule.json"
    known = demonstrated()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "demonstrate", lambda _progress: copy.deepcopy(known))
        return document("demo", "-o", out), out


def by_reference(metric, truth, decided):
    if metric == "macro_f1":
        return reference.f1_score(truth, decided, average="macro", labels=CLASSES, zero_division=0)
    if metric == "cohen_kappa":
        return reference.cohen_kappa_score(truth, decided)
    recalls = reference.recall_score(truth, decided, average=None, labels=CLASSES, zero_division=0)
    return recalls.min() if metric == "min_recall" else np.prod(recalls) ** 0.25


def held_out(hpc, decide):
    """Decisions of the rows of each fold, by scores from the other folds; ties go to the largest index."""
    P, y, folds = hpc
    decided = np.empty(len(y), dtype=object)
    for fold in np.unique(folds):
        inside = folds == fold
        scores = decide(P[~inside], y[~inside], P[inside])
        decided[inside] = np.array(CLASSES)[len(CLASSES) - 1 - np.argmax(scores[:, ::-1], axis=1)]
    return decided.astype(str)


def test_demo_is_the_independent_computation(hpc, demonstration):
    found, _ = demonstration
    assert found["rows"] == 3467
    assert found["classes"] == {name: int((hpc[1] == name).sum()) for name in CLASSES}
    plain = held_out(hpc, lambda _P, _y, Q: Q)
    by_prior = held_out(hpc, lambda _P, y, Q: Q / np.array([np.mean(y == name) for name in CLASSES]))
    assert [row["metric"] for row in found["results"]] == ["g_mean", "macro_f1", "min_recall", "cohen_kappa"]
    for row in found["results"]:
        assert row["argmax"] == pytest.approx(by_reference(row["metric"], hpc[1], plain), abs=1e-12)
        assert row["p_prior"] == pytest.approx(by_reference(row["metric"], hpc[1], by_prior), abs=1e-12)


def test_demo_tuned_is_tuned_on_the_other_folds(hpc, demonstration):
    P, y, folds = hpc
    decided = np.zeros((len(y), 4))
    for fold in np.unique(folds):
        inside = folds == fold
        solution = library.maximize("g_mean", P[~inside], y[~inside], classes=CLASSES)
        decided[inside] = solution.rule.decision_probabilities(P[inside])
    recalls = [decided[y == name, k].mean() for k, name in enumerate(CLASSES)]
    row = demonstration[0]["results"][0]
    assert row["tuned"] == pytest.approx(np.prod(recalls) ** 0.25, abs=1e-12)
    assert row["tuned"] > max(row["argmax"], row["p_prior"])


def test_demo_says_what_the_model_knows_of_its_rules(hpc, demonstration):
    for row in demonstration[0]["results"]:
        found = library.maximize(row["metric"], hpc[0], hpc[1], classes=CLASSES)
        assert row["guarantee"] == found.guarantee and "no rule exceeds" in found.guarantee
        assert (row["model_value"], row["model_upper_bound"]) == (found.model_value, found.model_upper_bound)
        assert 0.0 <= row["model_gap"] < 0.05


def test_demo_writes_the_rule_of_all_rows(hpc, demonstration):
    found, out = demonstration
    rule = library.DecisionRule.load(out)
    assert json.loads(rule.to_json()) == found["rule"]
    assert list(rule.classes) == CLASSES
    expected = library.maximize("g_mean", hpc[0], hpc[1], classes=CLASSES).rule
    assert rule == expected


def test_demo_prints_what_it_used(tmp_path, monkeypatch, demonstration):
    """The same document, in words: rows, columns, what is known, rule and where it went."""
    rule = library.DecisionRule.load(demonstration[1])
    monkeypatch.setattr("confmax.cli.demo.demonstrate", lambda _progress: (rule, dict(demonstration[0])))
    stdout, stderr = run("demo", "-o", "rule.json")
    assert stderr == ""
    assert (tmp_path / "rule.json").exists()
    for words in ("3467 (VF 1769, F 1078, M 412, L 208)", "held-out", "tuned", "rule.json"):
        assert words in stdout
    for row in demonstration[0]["results"]:
        line = next(line for line in stdout.splitlines() if line.startswith(row["metric"])).split()
        assert line[1:4] == [f"{row[key]:.4f}" for key in ("argmax", "p_prior", "tuned")]
        assert any(line.split(maxsplit=1) == [row["metric"], row["guarantee"]] for line in stdout.splitlines() if line)
    assert str(rule) in stdout
    assert all(line == line.rstrip() for line in stdout.splitlines())


# --- tune ------------------------------------------------------------------------------------------------------------


def test_tune_is_maximize(hpc):
    found = document("tune", HPC, "--label", "obs", "--metric", "g_mean", "--confusion", "model", "-o", "r.json")
    expected = library.maximize("g_mean", hpc[0], hpc[1], classes=CLASSES, confusion="model")
    assert library.DecisionRule.load("r.json") == expected.rule
    assert (found["tuned"], found["gap"], found["argmax"]) == (
        expected.value,
        expected.gap,
        expected.baselines["argmax"],
    )
    assert found["tuned_on_labels"] == expected.label_value
    assert found["status"] == "converged"


def test_tune_says_what_it_is():
    stdout, stderr = run("tune", HPC, "--label", "obs", "--metric", "f1_macro", "-o", "rule.json")
    assert stderr == ""
    assert "% expected from the probabilities, the rest counted on the labels" in stdout
    assert "if the calibrated probabilities are right, no rule exceeds " in stdout
    for words in (
        "argmax",
        "p/prior",
        "tuned",
        "guarantee",
        "passes",
        "DecisionRule for macro_f1",
        "to rule.json",
        "score",
    ):
        assert words in stdout
    stdout, _ = run("tune", HPC, "--label", "obs", "--metric", "g_mean", "--confusion", "model")
    assert "proved: no rule has a higher g_mean of the confusion matrix expected from these probabilities" in stdout
    assert "on labels" in stdout


def test_without_labels_the_model_is_used(tmp_path):
    found = document("tune", small(tmp_path, y=None), "--metric", "h_mean", "--columns", "a,b,c")
    assert (found["label"], found["confusion"], found["classes"]) == (None, "model", ["a", "b", "c"])


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")
@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")
def test_parameters_positive_class_weights_and_settings(tmp_path):
    path = small(tmp_path, c=None, a=[f"{k / 60:.3f}" for k in range(60)], b=[f"{1 - k / 60:.3f}" for k in range(60)])
    path.write_text(path.read_text().replace(",c\n", ",a\n"))
    frame = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
    P, y = frame[:, [2, 1]].astype(float), frame[:, 4]
    found = document("tune", path, "--label", "y", "--metric", "f_beta", "--param", "beta=2", "--positive", "a",
                     "--weight", "w", "--tol", "0.01", "--max-passes", "9", "--seed", "5", "--randomized", "no",
                     "--solver", "threshold_search", "-o", "rule.json")  # fmt: skip
    metric = library.metrics.get("f_beta", beta=2)
    expected = library.maximize(metric, P, y, classes=["b", "a"], solver="threshold_search", random_state=5)
    assert found["classes"] == ["b", "a"]
    assert found["tuned"] == pytest.approx(expected.value, rel=1e-14)
    assert library.DecisionRule.load("rule.json") == expected.rule
    same = document("tune", path, "--label", "y", "--metric", "f_beta", "--param", "beta=2", "--classes", "b,a",
                    "--solver", "threshold_search", "--seed", "5")  # fmt: skip
    assert same["rule"] == found["rule"]


def test_costs(hpc):
    Path("costs.csv").write_text(",L,F,M,VF,ask\nVF,3,1,2,0,.4\nF,2,0,1,1,.4\nL,0,4,2,9,.4\nM,1,2,0,4,.4\n")
    found = document("tune", HPC, "--label", "obs", "--costs", "costs.csv", "-o", "rule.json")
    costs = [[0, 1, 2, 3, 0.4], [1, 0, 1, 2, 0.4], [4, 2, 0, 1, 0.4], [9, 4, 2, 0, 0.4]]
    expected = library.maximize(library.metrics.get("linear", cost=costs), hpc[0], hpc[1], classes=CLASSES)
    assert found["tuned"] == expected.value
    rule = library.DecisionRule.load("rule.json")
    assert list(rule.classes) == [*CLASSES, "ask"]
    run("apply", "rule.json", HPC, "-o", "decided.csv")
    decided = pacsv.read_csv("decided.csv")["decision"].to_pylist()
    assert decided == rule.predict(hpc[0]).tolist()
    assert "ask" in decided
    # minus the mean cost, from the decisions in the file
    position = {name: k for k, name in enumerate(rule.classes)}
    paid = [costs[CLASSES.index(true)][position[name]] for true, name in zip(hpc[1], decided, strict=True)]
    assert found["tuned_on_labels"] == pytest.approx(-np.mean(paid), abs=1e-12)
    stdout, _ = run("score", HPC, "--label", "obs", "--rule", "rule.json")
    assert "undefined for a rule with more decisions than classes" in stdout


def test_the_real_tables_work():
    """P_tune, y_tune, P_test, y_test: the array is chosen by its rows."""
    draw = np.random.default_rng(1)
    P = draw.dirichlet([1, 1, 1], 90).astype(np.float32)
    y = (P.cumsum(axis=1) > draw.random((90, 1))).argmax(axis=1).astype(np.int16)
    np.savez("real.npz", P_tune=P[:50], y_tune=y[:50], P_test=P[50:], y_test=y[50:])
    found = document("tune", "real.npz", "--label", "y_tune", "--metric", "macro_f1", "-o", "rule.json")
    assert (found["rows"], found["classes"]) == (50, [0, 1, 2])
    expected = library.maximize("macro_f1", P[:50], y[:50])
    assert found["tuned"] == expected.value
    run("apply", "rule.json", "real.npz", "-o", "out.npz", "--columns", "P_test")
    with np.load("out.npz", allow_pickle=False) as arrays:
        assert set(arrays.files) == {"P_tune", "y_tune", "P_test", "y_test", "decision"}
        np.testing.assert_array_equal(arrays["decision"], expected.rule.predict(P[50:]))


def test_warnings_are_lines_and_names_in_a_file_are_only_text(tmp_path):
    """An absent class is told; a control code in a name never reaches the terminal."""
    with (tmp_path / "rows.csv").open("w") as file:
        rows = [f"{p},{0.99 - p},0.01,{name}\n" for p, name in [(0.69, "a"), (0.3, "b")] * 30]
        file.writelines(["a,b,c,y\n", *rows])
    path = tmp_path / "rows.csv"
    _, stderr = run("tune", path, "--label", "y", "--metric", "g_mean", "--classes", "a,b,c", "--columns", "a,b,c")
    assert stderr.startswith("warning: g_mean divides by class sizes and the label column has no weight in class c")
    assert stderr.count("\n") == 1
    path.write_text(path.read_text().replace("a,b,c", "\x1b[31m,b,c").replace(",a\n", ",\x1b[31m\n"))
    stdout, _ = run("tune", path, "--metric", "h_mean", "--columns", "\x1b[31m,b,c")
    assert "\x1b[31m," not in stdout.split("DecisionRule")[0]
    assert "\\x1b[31m" in stdout


# --- apply -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copies(tmp_path_factory, hpc):
    """The bundled table in every format, with a key."""
    folder = tmp_path_factory.mktemp("copies")
    P, y, folds = hpc
    columns = {"id": np.arange(len(y)), "obs": y, **{name: P[:, k] for k, name in enumerate(CLASSES)}, "fold": folds}
    np.savez(folder / "t.npz", **columns)
    pq.write_table(pa.table(columns), folder / "t.parquet")
    pacsv.write_csv(pa.table(columns), folder / "t.csv")
    return folder


def decisions(path):
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["decision"].tolist()
    table = pq.ParquetFile(path).read() if path.suffix == ".parquet" else pacsv.read_csv(path)
    return table["decision"].to_pylist()


@pytest.mark.parametrize("source", ["csv", "parquet", "npz"])
@pytest.mark.parametrize("randomized", [False, True])
@pytest.mark.parametrize("calibrator", [None, library.calibration.MatrixScaling(np.eye(4) + 0.1, np.arange(4.0))])
def test_apply_is_predict_in_every_format(tmp_path, copies, hpc, source, randomized, calibrator):
    """The same decisions, names and draws, whatever is read and written."""
    rule = library.DecisionRule.from_weights([1.0, 2.0, 7.0, 11.0], classes=CLASSES)
    if randomized:
        gains = library.DecisionRule.from_weights([1.0, 1.0, 1.0, 1.0]).gains
        both = type(gains).concatenate([rule.gains, gains])
        rule = library.DecisionRule(both, np.array([0.6, 0.4]), tuple(CLASSES), "two", 7)
    rule = library.DecisionRule(rule.gains, rule.weights, rule.class_names, rule.metric, rule.seed, calibrator)
    rule.save("rule.json")
    expected = rule.predict(hpc[0], keys=np.arange(len(hpc[0]))).tolist()
    for target in ("csv", "parquet", "npz"):
        out = tmp_path / f"out.{target}"
        stdout, stderr = run("apply", "rule.json", copies / f"t.{source}", "-o", out, "--key", "id")
        assert stderr == ""
        assert out.name in stdout
        assert decisions(out) == expected


def test_apply_matches_columns_by_name(tmp_path, hpc):
    """Columns in another order are found; --columns wins where the names differ."""
    rule = library.DecisionRule.from_weights([1.0, 2.0, 7.0, 11.0], classes=CLASSES)
    rule.save("rule.json")
    expected = rule.predict(hpc[0]).tolist()
    pacsv.write_csv(pa.table({name: hpc[0][:, CLASSES.index(name)] for name in ("L", "VF", "M", "F")}), "swapped.csv")
    run("apply", "rule.json", "swapped.csv", "-o", "a.csv")
    run("apply", "rule.json", "swapped.csv", "-o", "b.csv", "--columns", "M,L,F,VF")
    pacsv.write_csv(pa.table({f"p{k}": hpc[0][:, k] for k in (3, 0, 2, 1)}), "renamed.csv")
    run("apply", "rule.json", "renamed.csv", "-o", "c.csv", "--columns", "p0,p1,p2,p3")
    assert decisions(tmp_path / "a.csv") == decisions(tmp_path / "b.csv") == decisions(tmp_path / "c.csv") == expected


# --- score, metrics --------------------------------------------------------------------------------------------------


def test_score_is_the_reference(hpc):
    P, y, _ = hpc
    rule = library.DecisionRule.from_weights([1.0, 2.0, 7.0, 11.0], classes=CLASSES)
    rule.save("rule.json")
    found = document("score", HPC, "--label", "obs", "--rule", "rule.json")
    prior = np.array([np.mean(y == name) for name in CLASSES])
    decided = {"argmax": P, "p_prior": P / prior, "rule": P * [1.0, 2.0, 7.0, 11.0]}
    values = {row["metric"]: row for row in found["values"]}
    for column, scores in decided.items():
        names = np.array(CLASSES)[3 - np.argmax(scores[:, ::-1], axis=1)]
        assert values["accuracy"][column] == pytest.approx(np.mean(names == y), abs=1e-12)
        for metric in demo.METRICS:
            assert values[metric][column] == pytest.approx(by_reference(metric, y, names), abs=1e-12)
    left_out = {entry["metric"]: entry["why"] for entry in found["skipped"]}
    assert "two classes" in left_out["f1"]
    assert "--classes" in left_out["quadratic_kappa"]
    assert set(values) & set(left_out) == set()


def test_score_with_an_order_scores_ordered_metrics(hpc):
    P, y, _ = hpc
    found = document("score", HPC, "--label", "obs", "--classes", "VF,F,M,L", "--metric", "quadratic_kappa")
    code = np.array([CLASSES.index(name) for name in y])
    expected = reference.cohen_kappa_score(code, 3 - np.argmax(P[:, ::-1], axis=1), weights="quadratic")
    assert [row["metric"] for row in found["values"]] == ["quadratic_kappa"]
    assert found["values"][0]["argmax"] == pytest.approx(expected, abs=1e-12)
    # a rule that was tuned for such a metric knows its order
    run("tune", HPC, "--label", "obs", "--classes", "L,M,F,VF", "--metric", "quadratic_kappa", "-o", "rule.json")
    scored = document("score", HPC, "--label", "obs", "--rule", "rule.json")
    assert scored["classes"] == ["L", "M", "F", "VF"]
    assert "quadratic_kappa" in {row["metric"] for row in scored["values"]}
    stdout, _ = run("score", HPC, "--label", "obs", "--rule", "rule.json", "--classes", "VF,F,M,L")
    assert "quadratic_kappa" in stdout


def test_score_with_an_absent_class_and_infinite_values(tmp_path):
    """JSON has no infinity: it is null; the absent class is told."""
    path = small(tmp_path, y=["a", "b"] * 30)
    stdout, stderr = run("score", path, "--label", "y", "--classes", "a,b,c", "--columns", "a,b,c", "--json")
    assert "no row has the label c" in stderr
    assert json.loads(stdout)["values"]
    Path("two.csv").write_text("n,p,y\n" + "0.9,0.1,n\n0.1,0.9,p\n" * 5)
    found = document("score", "two.csv", "--label", "y", "--positive", "p")
    assert {row["metric"]: row["argmax"] for row in found["values"]}["f1"] == 1.0
    assert {row["metric"]: row["argmax"] for row in found["values"]}["ams"] is None
    assert "not finite" in run("score", "two.csv", "--label", "y", "--positive", "p")[0]


def test_metrics_lists_the_catalogue():
    entries = {entry["name"]: entry for entry in document("metrics")["metrics"]}
    assert sorted(entries) == library.metrics.names()
    assert entries["macro_f1"]["aliases"] == ["f1_macro"]
    assert entries["f_beta"]["parameters"] == {"beta": 1.0}
    assert entries["g_mean"]["structure"] == "concave"
    assert entries["quadratic_kappa"]["needs_order"]
    stdout, _ = run("metrics")
    assert all(name in stdout and entry["description"] in stdout for name, entry in entries.items())


# --- processes -------------------------------------------------------------------------------------------------------


def test_help_and_version():
    stdout, _ = run()
    assert "Commands:" in stdout
    assert run("--version")[0] == f"confmax, version {library.__version__}\n"
    for command in ("demo", "tune", "apply", "score", "metrics"):
        stdout, stderr = run(command, "--help")
        assert f"confmax {command}" in stdout.split("Example:")[1]
        assert stderr == ""


def test_the_process_itself(tmp_path):
    """The same with a real stdout and stderr: exit codes, plain text, warnings as errors."""
    path = small(tmp_path)
    done = run_process("tune", path, "--label", "y", "--metric", "macro_f1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    done = run_process("tune", path, "--label", "why", "--metric", "macro_f1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_terminal_without_the_letters(tmp_path):
    """A name that the encoding lacks is escaped, not a crash."""
    path = small(tmp_path)
    path.write_text(path.read_text().replace("id,a,", "id,é,").replace(",a\n", ",é\n"), encoding="utf-8")
    done = run_process(
        "tune", path, "--label", "y", "--metric", "macro_f1", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xe9" in done.stdout


@pytest.mark.parametrize("missing", ["click", "rich", "pyarrow"])
def test_without_the_extra(missing):
    """One sentence with the way out; anything else that is missing is a traceback."""
    code = f"import sys; sys.modules[{missing!r}] = None; from confmax.__main__ import main; main()"
    done = run_process("demo", code=code)
    assert done.returncode == 2
    assert done.stderr == f"error: the command line needs {missing}; install it with: pip install 'confmax[cli]'\n"


def test_import_confmax_needs_none_of_it():
    code = "import sys, confmax; print(sorted({'click', 'rich', 'pyarrow'} & set(sys.modules)))"
    assert run_process(code=code).stdout == "[]\n"
