"""docs/command-line.md says what is there: commands, options, exit codes, and every key of every JSON document."""

import copy
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import confmax as library
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.confusion import CostTable, Gains
from tests.cli_helpers import cli, demonstrated, document, run, small

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("inside")
PAGE = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text()
KINDS = {
    "string": str, "boolean": bool, "integer": int, "number": (int, float), "list": list, "object": dict,
    "rule": dict, "null": type(None),
}  # fmt: skip


def documented(name):
    table = PAGE.split(f"<!-- keys: {name} -->\n")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", table, re.MULTILINE)
    assert len(rows) == table.strip().count("\n") - 1 == len(dict(rows))
    return dict(rows)


def fits(value, told):
    for kind in told.split(" or "):
        whole = kind in ("integer", "number") and isinstance(value, bool)
        if isinstance(value, KINDS[kind]) and not whole:
            return True
    return False


def walk(value, path, keys, seen):
    """Compare a document with the documented keys; add what was met to ``seen``."""
    if path:
        step = re.sub(r"\[\]$", "", path)
        if step == path and (path in keys or not path.endswith("{}")):
            assert path in keys, f"{path} is not documented"
            assert fits(value, keys[path]), f"{path} is {value!r}, not {keys[path]}"
            seen.add(path)
    if isinstance(value, dict) and keys.get(path) != "rule":
        named = any(key.startswith(f"{path}{{}}") for key in keys)
        for key, inner in value.items():
            walk(inner, f"{path}{{}}" if named else f"{path}.{key}".lstrip("."), keys, seen)
    elif isinstance(value, list) and any(key.startswith(f"{path}[].") for key in keys):
        for inner in value:
            walk(inner, f"{path}[]", keys, seen)


def rule(name, gains, metric="x", calibrator=None, weights=(1.0,), classes="abc", **more):
    settings = {"calibrator": calibrator, **more}
    made = library.DecisionRule(gains, np.array(weights), tuple(classes), metric, 0, **settings)
    made.save(f"{name}.json")


def rules():
    """Save a rule of every kind."""
    flat = Gains.reduced([1.0, 2.0, 1.0])
    table = Gains(full=np.eye(3)[None])
    matrix = MatrixScaling(np.eye(3) + 0.1, np.zeros(3))
    beside = MatrixScaling(np.eye(3) + 0.1, np.zeros(3), kept=1)
    rule("r", flat)
    rule("l", flat, constraints=("accuracy >= 0.0001",))
    rule("d", Gains.reduced([[1, 1, 1], [1, 2, 9]]), weights=(0.25, 0.75))
    rule("t", table, calibrator=Temperature(2.0))
    rule("m", table, calibrator=matrix)
    rule(
        "c",
        Gains(full=np.eye(3)[None] - 1.0),
        "linear",
        cost_table=CostTable(((0, 1, 1), (1, 0, 1), (1, 1, 0)), "costs"),
    )
    rule("v", flat, calibrator=VectorScaling([1.0, 0.5, 0.8], [0.3, 0.0, -0.2], 0.01))
    rule("o", Gains.reduced([2.0**-68, 2.0, 2.0**-68], [0.0, -0.5, 0.0]), "f1[b]", beside)
    asks = Gains.reduced([1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.5])
    rule("a", asks, "accuracy", classes=[*"abc", "ask"], abstain="ask")
    limits = ("min(rate[a] | group) >= 0.0001",)
    rule("g", Gains.reduced(np.ones(9)), "recall[a]", groups=tuple("abc"), constraints=limits)


def outputs():
    path = small(Path())
    rules()
    labelled = (path, "--label", "y", "--weight", "w")
    costs = Path("costs.csv")
    costs.write_text("true,a,b,c\na,0,1,1\nb,1,0,1\nc,1,1,0\n")
    run("tune", *labelled, "--metric", "accuracy", "--subject-to", "rate[a] <= 0.9", "-o", "s.json")
    pages = find_spec("vl_convert") is not None
    asks = ("--metric", "accuracy", "--abstain", "ask", "--subject-to", "coverage >= 0.5")
    more = ("tune", path, "--label", "y", "--metric", "macro_f1", "--report", "page.html")
    return {
        "demo": [("demo", "-o", "demo.json")],
        "report": [("report", "r.json", path, "--label", "y", "--metric", "g_mean")] if pages else [],
        "tune": [
            ("tune", *labelled, "--metric", "macro_f1", "-o", "new.json"),
            ("tune", path, "--metric", "g_mean", "--columns", "a,b,c"),
            ("tune", *labelled, "--metric", "f1[a]"),
            ("tune", *labelled, "--costs", costs),
            ("tune", *labelled, *asks),
            ("tune", *labelled, "--metric", "accuracy", "--subject-to", "accuracy >= 0.1"),
            ("tune", path, "--metric", "accuracy", "--columns", "a,b,c", "--subject-to", "accuracy >= 0.1"),
            ("tune", *labelled, "--metric", "accuracy", "--subject-to", "accuracy >= 0.1", "--confidence", "0.9"),
            ("tune", *labelled, "--metric", "mcc", "--confusion", "model"), *([more] if pages else []),
        ],
        "compare": [
            ("compare", *labelled, "--metric", "g_mean", "--rule", "r.json"),
            ("compare", *labelled, "--metric", "linear", "--rule", "c.json", "--replicates", "0"),
            ("compare", *labelled, "--metric", "accuracy", "--subject-to", "accuracy >= 0.1"),
            ("compare", *labelled, *asks),
            ("compare", *labelled, "--metric", "accuracy", "--group", "y", "--rule", "g.json"),
            ("compare", *labelled, "--metric", "accuracy", "--group", "y", "--subject-to",
             "max(rate[a] | group) <= 1"),
        ],
        "frontier": [("frontier", *labelled, "--metric", "accuracy", "--over", "recall[a] >= 0.5",
                      "--levels", "0.2,0.9",
                      *(("--plot", "f.png") if find_spec("matplotlib") else ()))],
        "shift": [
            ("shift", "s.json", path),
            ("shift", "s.json", path, "--priors", "balanced", "-o", "adapted.json"),
            ("shift", "s.json", path, "--check"),
        ],
        "apply": [("apply", f"{name}.json", path, "-o", "out.csv", "--at-most", "a=9") for name in "ra"],
        "score": [("score", *labelled, "--rule", "r.json"), ("score", *labelled, "--replicates", "0"),
                  ("score", *labelled, "--rule", "l.json"),
                  ("score", *labelled, "--rule", "c.json", "--metric", "accuracy"),
                  ("score", *labelled, "--rule", "a.json", "--group", "y"),
                  ("score", *labelled, "--rule", "g.json", "--group", "y")],
        "explain": [("explain", f"{name}.json") for name in "rdtvomac"]
        + [("explain", "d.json", "--proba", "0.2,0.5,0.3"), ("explain", "t.json", "--proba", "0.2,0.5,0.3")],
        "export": [("export", "r.json", "--to", "python", "-o", "r.py")],
        "metrics": [("metrics",)],
    }  # fmt: skip


def rare(name):
    """Keys that these runs cannot show."""
    without = {} if find_spec("vl_convert") else {"tune": {"report_file"}, "report": set(documented("report"))}
    without |= {} if find_spec("matplotlib") else {"frontier": {"plot_file"}}
    # tests/test_cli_groups.py shows those of groups, and tests/test_score_parts.py those of files in parts
    found = {
        "compare": {"intervals.absent{}", "tuned_on_rows"},
        "score": {"intervals.absent{}"},
        "tune": {"constraints[].by_group"},
    }
    return found.get(name, set()) | without.get(name, set())


def test_documented_keys_are_those_of_the_output(monkeypatch):
    known = demonstrated()
    monkeypatch.setattr("confmax.cli.compare.N_FOLDS", 2)
    monkeypatch.setattr("confmax.cli.demo.demonstrate", lambda _progress: copy.deepcopy(known))
    runs = outputs()
    assert {*runs, "completion"} == set(cli.confmax.commands)
    for name, lines in runs.items():
        keys, seen = documented(name), set()
        if name in ("tune", "apply", "score", "compare", "frontier", "shift"):
            keys = {**documented("source"), **keys}
        counts = documented("counts") if name in ("tune", "apply", "score") else {}
        keys |= counts
        if name == "score":
            keys |= {f"groups{{}}.{key}": kind for key, kind in counts.items()}
        for line in lines:
            walk(document(*line), "", keys, seen)
        expected_only = set() if name == "apply" else {key for key in keys if key.endswith("_interval")}
        assert set(keys) - seen <= rare(name) | expected_only, name


def test_a_key_that_is_not_documented_would_be_found():
    with pytest.raises(AssertionError, match="more is not documented"):
        walk({"more": 1}, "", {"less": "integer"}, set())
    with pytest.raises(AssertionError, match="not string"):
        walk({"less": 1}, "", {"less": "string"}, set())


def test_absent_classes_are_as_documented():
    lines = ["n,p,y", *(f"{0.9 - k / 80},{0.1 + k / 80},{'np'[k == 40]}" for k in range(60))]
    Path("two.csv").write_text("\n".join(lines) + "\n")
    found = document("score", "two.csv", "--label", "y", "--metric", "accuracy")
    assert 0 < found["intervals"]["absent"]["p"] < 1


def test_every_command_and_option_is_documented():
    for name, command in cli.confmax.commands.items():
        assert f"| `confmax {name}" in PAGE
        for option in command.params:
            for text in option.opts if option.param_type_name == "option" else ():
                assert f"`{text}`" in PAGE, f"{name} {text}"


def test_options_that_are_documented_exist():
    known = {text for command in cli.confmax.commands.values() for option in command.params for text in option.opts}
    section = PAGE.split("## Options")[1].split("## JSON")[0]
    assert set(re.findall(r"`(--?[a-z-]+)`", section)) <= known


def test_exit_codes_are_listed():
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == ["0", "1", "2", "3", "129", "130", "143"]
