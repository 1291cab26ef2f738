"""Random input for what strangers and users hand to confmax: is it read right or refused in a sentence?

    python -m benchmarks.fuzz --trials 1000000 [--kinds rules,limits,exports,kernels,commands] [--resume FILE]

A kind is a function of a seed. It builds the input, calls confmax, and returns "right" or "refused"; whatever it raises
is a fault, which is printed with the command that runs this trial alone. A warning of NumPy's arithmetic is a fault,
and so is a trial that takes longer than `LONGEST` seconds. ``--trials`` counts the trials of each kind. With
``--resume`` the counts are kept in a small JSON file, and a later run goes on behind them; Ctrl-C ends a run in good
order. ``python -m benchmarks fuzz FILE`` writes the counts of such a file to RESULTS.md. The compiled kernels are those
of the processor, or of ``CONFMAX_INSTRUCTIONS``.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import signal
import sys
import tempfile
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import confmax
from benchmarks import abstaining, constraints, groups
from benchmarks.harness import benchmark, markdown
from benchmarks.programs import EXACT, Program, judged, solved
from confmax import DecisionRule, kernels, metrics
from confmax.confusion import Gains, Layout
from confmax.constraints import parse
from confmax.constraints.texts import SIGNS
from confmax.oracle import decide, make_oracle, make_table
from confmax.oracle.numpy import decide as reference

# Helpers of the tests are imported by the kinds that need them: listing the benchmarks does not need pytest.

LONGEST = 60  # seconds of a trial, beyond which it counts as a hang
BLOCK = 400  # trials of a kind before the next one has its turn, and before the counts are kept
FOLDER = str(Path(confmax.__file__).parent)


def refused(error):
    """Return "refused" if an error is one sentence that confmax itself raises."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = last.filename.startswith(FOLDER) and last.line.startswith("raise")
    text = str(error)
    assert isinstance(error, ValueError) and ours, f"{type(error).__name__} of {last.name}, not a sentence: {text}"
    assert len(text.splitlines()) == 1 and len(text.split()) >= 3 and len(text) < 5000, f"no sentence: {text!r}"
    return "refused"


def pick(rng, values):
    """Return one of some values, as it is."""
    return values[int(rng.integers(len(values)))]


# --- rule files -------------------------------------------------------------------------------------------------------

# numbers and words that a rule file does not expect, and pieces of text that JSON does not
ODD = [None, True, False, "", "a", "c 0", "\ud800", "\u202e\n", "x" * 300, "recall[c 1] >= 0.5", [], {}, [[]], 10**400]
ODD += [0, -1, 1, 2, 7, 1 << 63, 1 << 64, 1e308, -1e308, 1e-300, 5e-324, -0.0, 0.5, 1.0, float("nan"), float("inf")]
BYTES = [b'"', b"\xff", b"\xef\xbb\xbf", b"[" * 3000, b"0" * 5000, b'"weight": 1, ', b'"classes": [], ', b",", b":"]
BYTES += rb"{ } [ - . \u0000 \ud800 1e999 NaN null".split()


@cache
def documents():
    """Return valid rules of every kind as parsed JSON."""
    from tests.export_helpers import RULES, abstaining, drawn, matrix_scaling

    names = ("c 0", "c 1", "c 2")
    some = [one for one in RULES.values() if one.n_classes <= 12]
    mixture = Gains.concatenate([drawn(3, offsets=True), drawn(3, seed=1)])
    half = np.array([0.25, 0.75])
    limits = ("recall[c 1] >= 0.5", "min(rate[c 0] | group) >= 0.1", "rate[c 0] + 2 rate[c 1] <= 0.9")
    some.append(DecisionRule(mixture, half, names, "g_mean", 3, matrix_scaling(3), limits))
    some.append(DecisionRule(abstaining(3), np.ones(1), (*names, "ask"), "accuracy", abstain="ask"))
    for known in (True, False):
        side = Layout(2, 3, 0, shared=not known).beside([mixture, mixture[[1, 0]]])
        some.append(DecisionRule(side, half, names, "accuracy", groups=("a", "b"), groups_known=known))
    marked = confmax.maximize("macro_f1", np.eye(3)[[0, 1, 2, 0]], [*names, names[1]], classes=names, calibration=None)
    return [json.loads(one.to_json()) for one in (*some, marked.rule)]


def place(rng, node):
    """Return a random container in a document, and a key of it; most often one that lies deep."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    deeper = [key for key in keys if isinstance(node[key], (dict, list)) and node[key]]
    return place(rng, node[pick(rng, deeper)]) if deeper and rng.random() < 0.8 else (node, pick(rng, keys))


def changed(rng, document):
    """Change a document at one place."""
    node, key = place(rng, document)
    value = node[key]
    kind = int(rng.integers(7))
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, list):
        node.insert(key, copy.deepcopy(value))
    elif kind == 2 and isinstance(node, dict):
        node[str(pick(rng, ("extra", "kept", "power", "abstain", "groups", "weight", "")))] = node.pop(key)
    elif kind == 3 and isinstance(value, float):
        node[key] = value * 10.0 ** float(rng.integers(-300, 300)) if abs(value) < 1e5 else -value
    elif kind == 4:
        other, found = place(rng, document)
        node[key] = copy.deepcopy(other[found])
    elif kind == 5 and key != "version":
        node[key] = [value]
    else:
        node[key] = int(rng.integers(1, 9)) if key == "version" else copy.deepcopy(pick(rng, ODD))


def rules(seed):
    """Read a valid rule file after random changes: it decides and can be written again, or is refused."""
    from tests.export_helpers import edge_rows

    rng = np.random.default_rng(seed)
    document = copy.deepcopy(pick(rng, documents()))
    for _ in range(int(rng.integers(4))):
        if document:
            changed(rng, document)
    text = json.dumps(document, ensure_ascii=bool(rng.random() < 0.5)).encode(errors="surrogatepass")
    for _ in range(int(rng.integers(1, 4)) if rng.random() < 0.1 else 0):
        at, more = rng.integers(len(text) + 1), int(rng.integers(3))
        text = text[:at] + pick(rng, BYTES) * (more < 2) + text[at + int(rng.integers(20)) * (more > 0) :]
    try:
        rule = DecisionRule.from_json(text)
    except ValueError as error:
        return refused(error)
    P = edge_rows(rule.n_classes, 12, seed)
    given = {"keys": np.arange(len(P))}
    if rule.groups and rule.groups_known:
        given["group"] = [pick(rng, rule.groups) for _ in P]
    elif rule.groups:
        given["group_proba"] = rng.dirichlet(np.ones(len(rule.groups)), len(P))
    found = rule.predict_index(P, **given)
    assert ((found >= 0) & (found < rule.n_decisions)).all()
    again = DecisionRule.from_json(rule.to_json())
    assert again == rule and again.to_json() == rule.to_json()
    np.testing.assert_array_equal(again.predict_index(P, **given), found)
    assert len(repr(rule)) < 100_000 and rule._repr_html_() and (rule.threshold is None or rule.threshold >= 0.0)
    return "right"


# --- limits -----------------------------------------------------------------------------------------------------------

CLASSES = "VF|a b|not VF|[x]|a]|x/y|a >= 0.5|≥||1|1.0|é|rate[a]|A / B".split("|")
NUMBERS = "0.8|80 %|.5|1.|1e-3|-0.2|+.1|0|-0|1|1e400|5e-324|1e-3 %|0x1|١|nan|".split("|")
COMPARED = ">= <= ≥ ≤ > < => == >=>=".split()
PARAMETERS = "(beta=2) (beta=.5) (rho=0.1) () (beta) (label=1)".split()


def quantity(rng):
    """Return a text near a quantity."""
    name = str(pick(rng, (*metrics.names(), "rate", "fpr", "recall", "precision", "min_recall", "f_beta", "recal")))
    label = f"[{pick(rng, CLASSES)}]" if rng.random() < 0.7 else ""
    return name + label + (pick(rng, PARAMETERS) if rng.random() < 0.2 else "")


def limit_text(rng):
    """Return a text near the grammar of limits."""
    sense, number, what = pick(rng, COMPARED[: 4 if rng.random() < 0.8 else None]), pick(rng, NUMBERS), quantity(rng)
    one, other, word = pick(rng, CLASSES), pick(rng, CLASSES), pick(rng, ("min", "max", "difference", "ratio", "mean"))
    text = pick(rng, (
        f"{what} {sense} {number}", f"{number}{sense}{what}", f"{word}({what} | group) {sense} {number}",
        f"rate[{one}] + 2 rate[{other}] {sense} {number}", f".5*rate[{one}] - rate[{other}]{sense}{number}",
        f"recall[{one} | A] {sense} recall[{one} | B] - {number}", f"accuracy[| A] {sense} accuracy[| B]",
    ))  # fmt: skip
    for _ in range(int(rng.integers(1, 4)) if rng.random() < 0.4 else 0):
        at = int(rng.integers(len(text) + 1))
        text = text[:at] + pick(rng, (*SIGNS, *"[]()|,. %+-*e0\n\x00\u200b", "")) + text[at + int(rng.integers(2)) :]
    return text


def limits(seed):
    """Read a random limit, and once in ten keep limits on a tiny table, as a program over its rows does."""
    rng = np.random.default_rng(seed)
    if seed % 10 == 0:
        makers = (constraints.tiny, groups.tiny, groups.one_sided_tiny, abstaining.tiny)
        return kept(pick(rng, makers)(seed // 10))
    try:
        found = parse(limit_text(rng))
    except ValueError as error:
        return refused(error)
    again = parse(found.text)
    assert again == found and again.text == found.text, found.text
    return "right"


def kept(one):
    """Return how limits on a tiny table ended: the value is the program's, and the decisions keep all limits."""
    how, _, lack = judged(one)
    assert not how.startswith(("wrong", "value", "bound")), f"{how}, {lack}"
    if not how.startswith("right"):
        return "refused"
    solution = solved(one)
    group = one.group if solution.rule.groups else None
    D = solution.rule.decision_probabilities(one.P, group=group)
    slack = min(float((part * D).sum()) for part in Program(one).limits)
    assert slack >= -EXACT, f"a limit is missed by {-slack}"
    return "right"


# --- exports and kernels ----------------------------------------------------------------------------------------------


def random_gains(rng, K, n=1):
    """Return n random gains of K classes: weights, offsets, further decisions, distances, matrices, ties, extremes."""
    a = pick(rng, (rng.uniform(0.3, 3.0, (n, K)), rng.integers(-1, 3, (n, K)) / 1.0, np.ones((n, K))))
    if rng.random() < 0.2:
        a = a * np.exp2(rng.integers(-70, 70, (n, K)))
    if rng.random() < 0.2:
        return Gains.from_matrix(pick(rng, (rng.normal, rng.random))(size=(n, K, K + int(rng.integers(3)))).round(3))
    b = rng.uniform(0.0, 1.0 / K, (n, K)) * pick(rng, (0.0, 1.0, np.exp2(-rng.integers(0, 90, (n, K)))))
    b = pick(rng, (b, rng.integers(-2, 3, (n, K)) / 8))
    b = np.hstack([b, rng.integers(1, 8, (n, int(rng.integers(3)))) / 8])
    power = int(rng.integers(3)) if rng.random() < 0.3 else 0
    return Gains.reduced(-np.abs(a) if power else a, b, power=power)


def random_calibration(rng, K):
    """Return a random calibration, or none."""
    floor = float(pick(rng, (1e-12, 1e-4, 0.1)))
    a, b = rng.uniform(-0.5, 2.5, K), rng.normal(0.0, 2.0, K)
    kept = {} if rng.random() < 0.7 else {"kept": int(rng.integers(K))}
    kind = int(rng.integers(5))
    if kind < 2:
        return None
    if kind == 2:
        return confmax.calibration.Temperature(float(np.exp(rng.normal(0.0, 2.0))), floor)
    if kind == 3:
        return confmax.calibration.VectorScaling(a, b, floor, **kept)
    W = np.diag(a) + rng.normal(0.0, 1.0 / K, (K, K)) * pick(rng, (1.0, 9.0))
    return confmax.calibration.MatrixScaling(W, b, floor, **kept)


def random_rule(rng, K, names=tuple(f"c {k}" for k in range(200))):
    """Return a random deterministic rule of K classes with these names."""
    gains = random_gains(rng, K)
    return DecisionRule(gains, np.ones(1), tuple(names[: gains.n_decisions]), calibrator=random_calibration(rng, K))


def exports(seed):
    """Write a random rule as Python, SQL and JSON: each decides edge rows as the rule does."""
    from tests import export_helpers as helpers

    rng = np.random.default_rng(seed)
    exported = random_rule(rng, int(rng.integers(2, 9)))
    P = helpers.edge_rows(exported.n_classes, 40, seed)
    for engine in (helpers.in_python, helpers.in_sqlite):
        helpers.assert_same_decisions(exported, P, engine(exported, P), share=1.0)
    again = DecisionRule.from_json(exported.to_json())
    np.testing.assert_array_equal(again.predict_index(P), exported.predict_index(P))
    return "right"


def compiled(seed):
    """Compare the compiled kernels with their NumPy forms: decisions, statistics, calibrations, what is refused."""
    from tests.export_helpers import edge_rows
    from tests.helpers import assert_same_statistics, by_numpy

    assert kernels.native is not None, "there is no compiled module"
    rng = np.random.default_rng(seed)
    K, n = int(pick(rng, (2, 3, 4, 5, 8, 9, 17, 48, 65, 161))), int(rng.integers(1, 700))
    dtype = pick(rng, (np.float32, np.float64))
    P = pick(rng, (edge_rows(K, n, seed), rng.dirichlet(np.full(K, 0.3), n))).astype(dtype)
    gains, rule = random_gains(rng, K, int(rng.integers(1, 5))), random_rule(rng, K)
    exact = (P / P.sum(axis=1, keepdims=True)).astype(dtype)
    np.testing.assert_array_equal(decide(exact, gains), reference(exact, gains))
    table = make_table(P, rng.integers(0, K, n), pick(rng, (None, rng.random(n) + 0.01)), range(K))
    share = float(pick(rng, (1.0, 0.0, 0.3)))
    found, expected = (make_oracle(table, "blend", backend=one, model_share=share) for one in ("array", "numpy"))
    assert_same_statistics(*(each.maximize(gains, matrix=True) for each in (found, expected)))
    bad = P.copy()
    bad[rng.integers(n), rng.integers(K)] += pick(rng, (np.nan, np.inf, -np.inf, -1.5, 0.75, 1e-3, 1e-4))
    answers = []
    for form in (contextlib.nullcontext, by_numpy):
        with form(), np.errstate(invalid="ignore"):
            answers.append([rule.predict_index(P).tolist(), make_table(P).hashes.tolist()])
            try:
                answers[-1].append(rule.predict_index(bad).tolist())
            except ValueError as error:
                answers[-1].append(str(error))
    assert answers[0] == answers[1]
    return "right"


# --- commands ---------------------------------------------------------------------------------------------------------

# values of options and arguments that may be right, by their names
TABLES = "t.csv t.csv t.parquet t.npz odd.csv hurt.csv hurt.parquet hurt.npz none.csv r.json .".split()
WORDS = {
    name: words.split()
    for name, words in {
        "rule": "r.json r.json r.json r.json hurt.json t.csv",
        "costs": "costs.csv hurt.csv",
        "label": "y y y y a yy",
        "weight": "w w id a",
        "group": "g g y a",
        "key": "id y",
        "columns": "a,b,c a,b,c a,b c,b,a a,b,y",
        "classes": "a,b,c c,a,b a,b",
        "abstain": "ask a",
        "at_most": "a=3 b=0 c=999 z=1",
        "params": "beta=2 rho=0.1 beta=x label=a",
        "over": "recall[a]>= rate[b]<= precision[c]>=0.5 coverage>=",
        "levels": "3 0.2,0.5 0 x",
        "replicates": "20 20 1 0",
        "positive": "b a",
        "sep": ", comma ; tab",
        "level": "0.9 0.95 0.5 1",
        "confidence": "0.9 0.5 1",
        "proba": "0.2,0.5,0.3 1,0,0 0.5,0.5 x",
        "dialect": "standard duckdb sqlite mysql",
    }.items()
}
OUTPUTS = "o.csv o.csv o.json o.json o.parquet o.npz o.html o.tsv o.onnx o.svg t.csv none/o.csv o".split()
ANY = ["", "é", "x" * 300, "\x00", *"a 1 0.9 -1 1e9 nan auto none yes a,b --x y".split()]
ALWAYS = {
    "label": 0.95,
    "metric": 0.95,
    "over": 0.97,
    "language": 0.97,
    "out": 0.6,
    "subject_to": 0.3,
}  # how often an option is given
RARE = 0.07  # how often another option is given


def write_files(rng, folder):
    """Write tables, a rule and a table of costs, some of them odd or damaged."""
    import pyarrow.csv
    import pyarrow.parquet

    from tests.cli_helpers import small

    small(folder, "t.csv", g=["m", "n", "o"] * 20)
    column, row = str(pick(rng, list("abcwy"))), int(rng.integers(60))
    small(folder, "odd.csv", g=["m", "n", "o"] * 20, **{column: {row: str(pick(rng, (*ANY, "0.5", '"', ",", "\n")))}})
    table = pyarrow.csv.read_csv(folder / "t.csv")
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    np.savez(folder / "t.npz", P=np.column_stack([table[name] for name in "abc"]), y=table["y"].to_numpy().astype(str))
    (folder / "costs.csv").write_text("0,1,1\n1,0,1\n1,1,0\n")
    random_rule(rng, 3, "abcde").save(folder / "r.json")
    for name in ("t.csv", "t.parquet", "t.npz", "r.json"):
        content = bytearray((folder / name).read_bytes())
        for at in rng.integers(0, len(content), int(rng.integers(1, 4))):
            content[at] = rng.integers(256)
        keep = int(rng.integers(len(content))) if rng.random() < 0.3 else None
        (folder / f"hurt.{name.partition('.')[2]}").write_bytes(bytes(content[:keep]))


def value_of(rng, option):
    """Return a text for an option or argument, most often one that may be right."""
    import click

    if rng.random() < 0.03:
        return str(pick(rng, ANY))
    if isinstance(option.type, click.Choice) and option.name not in WORDS:
        return str(pick(rng, list(option.type.choices)))
    if option.name in ("out", "report", "plot"):
        return pick(rng, OUTPUTS)
    if option.name == "file":
        return pick(rng, TABLES[: None if rng.random() < 0.4 else 4])
    if option.name in ("metric", "second", "names", "names_given"):
        name = str(pick(rng, metrics.names()))
        return name if rng.random() < 0.8 else f"{name}[{pick(rng, 'abz')}]"
    if option.name == "subject_to":
        return pick(rng, (f"recall[a] >= {rng.random():.2f}", "rate[b] <= 0.3", "min_recall >= 0.2", limit_text(rng)))
    if option.name in WORDS:
        return pick(rng, WORDS[option.name])
    number = option.type.name in ("integer", "float", "integer range", "float range")
    return pick(rng, ("1", "2", "0.9", "0", "-1", "1e-3", "20")) if number else str(pick(rng, ANY))


def command_line(rng, group):
    """Return a random command line, and the files that it may write."""
    name = pick(rng, sorted(set(group.commands) - {"demo", "metrics", "completion"}))  # which read nothing
    words, outputs = [name], {"report.html": "out"} if name == "report" else {}
    for option in group.commands[name].params:
        if option.param_type_name == "argument":
            words.append(value_of(rng, option))
        elif rng.random() < ALWAYS.get(option.name, RARE):
            flag = pick(rng, option.opts)
            text = None if option.is_flag else value_of(rng, option)
            words += [flag] if text is None else [flag, text]
            outputs |= {text: option.name} if option.name in ("out", "report", "plot") else {}
    return words, outputs


def commands(seed):
    """Run a random command line on odd files: a documented exit code, one sentence, no file written by halves."""
    from tests.cli_helpers import cli, invoked
    from tests.test_cli_errors import everything

    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        write_files(rng, folder)
        words, outputs = command_line(rng, cli.confmax)
        before = everything(folder)
        result = invoked(*words)
        after = everything(folder)
        new = {path.relative_to(folder).as_posix() for path in after if after[path] != before.get(path)}
        said = f"{words}: code {result.exit_code}, {result.stderr!r}, wrote {sorted(new)}"
        assert set(before) <= set(after) and new <= set(outputs), said
        lines = result.stderr.splitlines()
        assert "Traceback" not in result.stderr and result.exit_code in (0, 2, 3), said
        if result.exit_code == 2:
            assert lines[-1].startswith("error: ") and not result.stdout and not new, said
            assert all(line.startswith("warning: ") for line in lines[:-1]), said
            return "refused"
        if "--json" in words and result.stdout and "-h" not in words and words[0] != "completion":
            json.loads(result.stdout)
        for name in new:
            read_back(words[0], outputs[name], folder / name)
    return "right"


def read_back(command, option, path):
    """Read what a command wrote to its end."""
    from confmax.cli.tables import read_frame

    if (command, option) == ("apply", "out"):
        assert "decision" in read_frame(path).columns
    elif (command, option) == ("tune", "out"):
        DecisionRule.load(path)
    elif (command, option) in (("report", "out"), ("tune", "report")):
        assert path.read_text().rstrip().endswith("</html>")
    assert path.stat().st_size > 0


# --- running ----------------------------------------------------------------------------------------------------------

KINDS = {"rules": rules, "limits": limits, "exports": exports, "kernels": compiled, "commands": commands}


def hangs(*_):
    """Raise what no ``except`` of a library catches by mistake."""
    raise SystemExit(f"no answer in {LONGEST} s")


def trial(kind, seed):
    """Return how a trial ended: "right", "refused", or what is wrong."""
    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(LONGEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            return KINDS[kind](seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever it is, it is a fault: also an exit, or a test's skip
        return f"{type(error).__name__}: {' '.join(str(error).split())[:1000]}"
    finally:
        signal.alarm(0)


def alone(kind, seed):
    """Return the command that runs one trial."""
    return f"python -m benchmarks.fuzz --kinds {kind} --seed {seed} --trials 1"


def run_block(pool, kind, count, trials):
    """Run trials of a kind and add how they ended to its counts; what was counted stands if it is interrupted."""
    seeds = range(count["next"], min(count["next"] + BLOCK, count["first"] + trials))
    for seed, ended in zip(seeds, pool.map(partial(trial, kind), seeds, chunksize=20), strict=True):
        if ended in ("right", "refused"):
            count[ended] += 1
        else:
            count["faults"].append(seed)
            print(f"fault: {ended}\n  {alone(kind, seed)}", flush=True)
        count["next"] = seed + 1


def store(path, counts):
    """Replace the file of counts as a whole."""
    if path is not None:
        part = path.with_name(f"{path.name}.part")
        part.write_text(json.dumps(counts, indent=1) + "\n")
        os.replace(part, path)


def table_of(counts):
    """Return how the trials of every kind ended."""
    rows = [
        [
            kind,
            sum((one["right"], one["refused"], len(one["faults"]))),
            one["right"],
            one["refused"],
            len(one["faults"]),
        ]
        for kind, one in counts.items()
    ]
    return markdown(["kind", "trials", "right", "refused", "faults"], rows)


@benchmark("fuzz", "FILE")
def fuzz(file):
    """Write the counts that `python -m benchmarks.fuzz --resume FILE` has kept."""
    counts = json.loads(Path(file).read_text())
    return [
        "random input, as counted by `python -m benchmarks.fuzz --trials N --resume FILE`: how many trials of a kind "
        "were answered right, how many were refused in one sentence, and how many were neither.",
        table_of(counts),
    ]


def main(words=None):
    """Read the command line and run the trials; exit code 1 if some end in a fault."""
    reader = argparse.ArgumentParser(prog="python -m benchmarks.fuzz")
    reader.add_argument("--trials", type=int, required=True, help="of each kind")
    reader.add_argument("--kinds", default=",".join(KINDS))
    reader.add_argument("--seed", type=int, default=0, help="the first one")
    reader.add_argument("--resume", type=Path, metavar="FILE", help="counts to go on from, and to keep")
    reader.add_argument("--processes", type=int, default=2)
    given = reader.parse_args(words)
    kinds = given.kinds.split(",")
    if not set(kinds) <= set(KINDS):
        reader.error(f"--kinds are some of {','.join(KINDS)}")
    if given.trials == 1 and given.resume is None:
        print(*(f"{kind}: {KINDS[kind](given.seed)}" for kind in kinds), sep="\n")  # with the traceback of a fault
        return
    counts = json.loads(given.resume.read_text()) if given.resume and given.resume.exists() else {}
    for kind in kinds:
        new = {"first": given.seed, "next": given.seed, "right": 0, "refused": 0, "faults": []}
        counts.setdefault(kind, new)
    # workers leave Ctrl-C to this process, which ends them
    ignore = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(given.processes, get_context("spawn"), initializer=ignore)
    try:
        while left := [kind for kind in kinds if counts[kind]["next"] < counts[kind]["first"] + given.trials]:
            for kind in left:
                run_block(pool, kind, counts[kind], given.trials)
                store(given.resume, counts)
    except KeyboardInterrupt:
        print("stopped; the same command with --resume goes on" if given.resume else "stopped")
    finally:
        pool.shutdown(cancel_futures=True)
        store(given.resume, counts)
        print(table_of(counts))
    sys.exit(any(one["faults"] for one in counts.values()))


if __name__ == "__main__":
    main()
