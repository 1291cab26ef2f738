"""Random input for what strangers and users hand to confmax: is it read right, or refused in a sentence?

    python -m benchmarks.fuzz --trials 1000000 [--kinds rules,limits,exports,kernels,commands] [--resume FILE]

A kind is a function of a seed. It builds the input, calls confmax, and returns "right" or "refused"; whatever it raises
is a fault, which is printed with the command that runs this trial alone. A warning of NumPy's arithmetic is a fault,
and so is a trial that takes longer than `LONGEST` seconds. ``--trials`` counts the trials of each kind. With
``--resume`` the counts are kept in a small JSON file, and a later run goes on behind them; Ctrl-C ends a run in good
order. ``python -m benchmarks fuzz FILE`` writes the counts of such a file to RESULTS.md. The compiled kernels are those
of the processor, or of ``CONFMAX_INSTRUCTIONS``.

Helpers of the tests are imported by the kinds that need them, so that listing the benchmarks does not need pytest.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import random
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
from confmax import DecisionRule, calibration, kernels, metrics
from confmax.confusion import Gains, Layout
from confmax.constraints import parse
from confmax.oracle import decide, make_oracle, make_table
from confmax.oracle.numpy import decide as reference

LONGEST = 60  # seconds of a trial, beyond which it counts as a hang
BLOCK = 400  # trials of a kind before the next one has its turn, and before the counts are kept


def refused(error):
    """Return "refused" if an error is one sentence that confmax itself raises."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = Path(confmax.__file__).parent in Path(last.filename).parents and last.line.startswith("raise")
    text = str(error)
    assert ours, f"{type(error).__name__} of {last.name}, not a sentence: {text}"
    assert len(text.splitlines()) == 1 and len(text.split()) >= 3 and len(text) < 5000, f"no sentence: {text!r}"
    return "refused"


# --- rule files -------------------------------------------------------------------------------------------------------

# what a rule file does not expect in a place, and pieces of text that are no JSON in theirs
ODD = [None, True, False, "", "a", "c 0", "\ud800", "\u202e\n", "x" * 300, "recall[c 1] >= 0.5", [], {}, [[]], 10**400]
ODD += [0, -1, 1, 2, 7, 1 << 63, 1 << 64, 1e308, -1e308, 1e-300, 5e-324, -0.0, 0.5, 1.0, float("nan"), float("inf")]
BYTES = [b"\xff", b"\xef\xbb\xbf", b"[" * 3000, b"0" * 5000, b'"weight": 1, ', b'"classes": [], ', b"\\ud800"]
BYTES += b'" { } [ , : - . 1e999 NaN null'.split()


@cache
def documents():
    """Return valid rules of every kind as parsed JSON."""
    from tests.export_helpers import RULES, abstaining, drawn, matrix_scaling

    names, half = ("c 0", "c 1", "c 2"), np.array([0.25, 0.75])
    some = [one for one in RULES.values() if one.n_classes <= 12]
    mixture = Gains.concatenate([drawn(3, offsets=True), drawn(3, seed=1)])
    limits = ("recall[c 1] >= 0.5", "min(rate[c 0] | group) >= 0.1", "rate[c 0] + 2 rate[c 1] <= 0.9")
    some.append(DecisionRule(mixture, half, names, "g_mean", 3, matrix_scaling(3), limits))
    some.append(DecisionRule(abstaining(3), np.ones(1), (*names, "ask"), "accuracy", abstain="ask"))
    for known in (True, False):
        side = Layout(2, 3, 0, shared=not known).beside([mixture, mixture[[1, 0]]])
        some.append(DecisionRule(side, half, names, "accuracy", groups=("a", "b"), groups_known=known))
    some.append(confmax.maximize("macro_f1", np.eye(3)[[0, 1, 2, 0]], [*names, "c 1"], calibration=None).rule)
    return [json.loads(one.to_json()) for one in some]


def place(rng, node):
    """Return a random container in a document, and a key of it; most often one that lies deep."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    deeper = [key for key in keys if isinstance(node[key], (dict, list)) and node[key]]
    return place(rng, node[rng.choice(deeper)]) if deeper and rng.random() < 0.8 else (node, rng.choice(keys))


def change(rng, document):
    """Change a document at one place."""
    node, key = place(rng, document)
    value, kind = copy.deepcopy(node[key]), rng.randrange(7)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, list):
        node.insert(key, value)
    elif kind == 2 and isinstance(node, dict):
        node[rng.choice(["extra", "kept", "power", "abstain", "groups", "weight", ""])] = node.pop(key)
    elif kind == 3 and isinstance(value, float):
        node[key] = value * 10.0 ** rng.randrange(-300, 300) if abs(value) < 1e5 else -value
    elif kind == 4:
        other, found = place(rng, document)
        node[key] = copy.deepcopy(other[found])
    elif kind == 5:
        node[key] = [value]
    else:
        node[key] = rng.randrange(3) if key == "version" else copy.deepcopy(rng.choice(ODD))


def rules(seed):
    """Read a valid rule file after random changes: it decides and can be written again, or is refused."""
    from tests.export_helpers import edge_rows

    rng = random.Random(seed)
    document = copy.deepcopy(rng.choice(documents()))
    for _ in range(rng.randrange(4)):
        if document:
            change(rng, document)
    text = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
    for _ in range(rng.randrange(1, 4) if rng.random() < 0.1 else 0):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice([*BYTES, b""]) + text[at + rng.choice([0, 1, 20]) :]
    try:
        rule = DecisionRule.from_json(text)
    except ValueError as error:
        return refused(error)
    P = edge_rows(rule.n_classes, 12, seed)
    given = {"keys": np.arange(12)}
    if rule.groups and rule.groups_known:
        given["group"] = rng.choices(rule.groups, k=12)
    elif rule.groups:
        given["group_proba"] = np.random.default_rng(seed).dirichlet(np.ones(len(rule.groups)), 12)
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
SENSES = ">= >= >= <= <= <= ≥ ≤ > < => == >=>=".split()
PARAMETERS = "(beta=2) (beta=.5) (rho=0.1) () (beta) (label=1)".split()
FORMS = """{what} {sense} {number}|{number}{sense}{what}|{word}({what} / group) {sense} {number}
rate[{a}] + 2 rate[{b}] {sense} {number}|.5*rate[{a}] - rate[{b}]{sense}{number}
recall[{a} / A] {sense} recall[{a} / B] - {number}|accuracy[/ A] {sense} accuracy[/ B]""".replace("\n", "|").split("|")


def limit_text(rng):
    """Return a text near the grammar of limits."""
    what = rng.choice([*metrics.names(), "rate", "fpr", "recall", "precision", "f_beta", "recal"])
    what += f"[{rng.choice(CLASSES)}]" * (rng.random() < 0.7) + rng.choice(PARAMETERS) * (rng.random() < 0.2)
    words = {"what": what, "sense": rng.choice(SENSES), "number": rng.choice(NUMBERS), "a": rng.choice(CLASSES)}
    words |= {"b": rng.choice(CLASSES), "word": rng.choice(["min", "max", "difference", "ratio", "mean"])}
    # a bar parts the forms here
    text = rng.choice(FORMS).replace("/", "|").format(**words)
    for _ in range(rng.randrange(1, 4) if rng.random() < 0.4 else 0):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice([*"<>=!≤≥[]()|,. %+-*e0\n\0\u200b", ""]) + text[at + rng.randrange(2) :]
    return text


def limits(seed):
    """Read a random limit, and once in ten keep limits on a tiny table, as a program over its rows does."""
    rng = random.Random(seed)
    if seed % 10 == 0:
        return kept(rng.choice([constraints, groups, abstaining]).tiny(seed // 10))
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
    rule = solved(one).rule
    D = rule.decision_probabilities(one.P, group=one.group if rule.groups else None)
    slack = min(float((part * D).sum()) for part in Program(one).limits)
    assert slack >= -EXACT, f"a limit is missed by {-slack}"
    return "right"


# --- exports and kernels ----------------------------------------------------------------------------------------------


def random_gains(rng, K, n=1):
    """Return n random gains of K classes: weights, offsets, further decisions, distances, matrices, ties, extremes."""
    draw, M = np.random.default_rng(rng.getrandbits(64)), K + rng.randrange(3)
    if rng.random() < 0.2:
        return Gains.from_matrix(rng.choice([draw.normal, draw.random])(size=(n, K, M)).round(3))
    a = rng.choice([draw.uniform(0.3, 3.0, (n, K)), draw.integers(-1, 3, (n, K)) / 1.0, np.ones((n, K))])
    b = rng.choice([draw.uniform(0.0, 1.0 / K, (n, M)), draw.integers(-2, 3, (n, M)) / 8])
    if rng.random() < 0.3:
        a, b = a * np.exp2(draw.integers(-70, 70, (n, K))), b * np.exp2(draw.integers(-90, 1, (n, M)))
    power = rng.choice([0, 0, 1, 2])
    return Gains.reduced(-np.abs(a) if power else a, b * rng.choice([0, 1, 1]), power=power)


def random_rule(rng, K, names=tuple(f"c {k}" for k in range(200))):
    """Return a random deterministic rule of K classes with these names."""
    gains, draw = random_gains(rng, K), np.random.default_rng(rng.getrandbits(64))
    floor = rng.choice([1e-12, 1e-4, 0.1])
    a, b, far = draw.uniform(-0.5, 2.5, K), draw.normal(0.0, 2.0, K), rng.choice([1.0, 9.0])
    kept = {"kept": rng.randrange(K)} if rng.random() < 0.3 else {}
    calibrator = rng.choice([
        None,
        calibration.Temperature(float(np.exp(2.0 * draw.normal())), floor),
        calibration.VectorScaling(a, b, floor, **kept),
        calibration.MatrixScaling(np.diag(a) + far * draw.normal(size=(K, K)) / K, b, floor, **kept),
    ])  # fmt: skip
    return DecisionRule(gains, np.ones(1), tuple(names[: gains.n_decisions]), calibrator=calibrator)


def exports(seed):
    """Write a random rule as Python, SQL and JSON: each decides edge rows as the rule does."""
    from tests import export_helpers as helpers

    rng = random.Random(seed)
    exported = random_rule(rng, rng.randrange(2, 9))
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
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    K, n = rng.choice([2, 3, 4, 5, 8, 9, 17, 48, 65, 161]), rng.randrange(1, 700)
    P = rng.choice([edge_rows(K, n, seed), draw.dirichlet(np.full(K, 0.3), n)]).astype(rng.choice(["f4", "f8"]))
    gains, rule = random_gains(rng, K, rng.randrange(1, 5)), random_rule(rng, K)
    exact = P / P.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(decide(exact, gains), reference(exact, gains))
    table = make_table(P, draw.integers(0, K, n), rng.choice([None, draw.random(n) + 0.01]), range(K))
    share = rng.choice([1.0, 0.0, 0.3])
    backends = [make_oracle(table, "blend", backend=one, model_share=share) for one in ("array", "numpy")]
    assert_same_statistics(*(each.maximize(gains, matrix=True) for each in backends))
    bad = P.copy()
    bad[rng.randrange(n), rng.randrange(K)] += rng.choice([np.nan, np.inf, -np.inf, -1.5, 0.75, 1e-3, 1e-4])
    answers = []
    for form in (contextlib.nullcontext, by_numpy):
        with form(), np.errstate(invalid="ignore"):
            answers.append([rule.predict_index(P).tolist(), make_table(P).head.hashes.tolist()])
            try:
                answers[-1].append(rule.predict_index(bad).tolist())
            except ValueError as error:
                answers[-1].append(str(error))
    assert answers[0] == answers[1]
    return "right"


# --- commands ---------------------------------------------------------------------------------------------------------

# values that may be right, by the names of options and arguments
LINES = """file: t.csv t.csv t.csv t.csv t.parquet t.npz odd.csv hurt.csv hurt.parquet hurt.npz none.csv r.json .
rule: r.json r.json r.json r.json hurt.json t.csv|costs: costs.csv hurt.csv|label: y y y y a yy|weight: w w id a
group: g g y a|key: id y|columns: a,b,c a,b,c a,b c,b,a a,b,y|classes: a,b,c c,a,b a,b|abstain: ask a
at_most: a=3 b=0 c=999 z=1|params: beta=2 rho=0.1 beta=x|over: recall[a]>= rate[b]<= precision[c]>=0.5 coverage>=
levels: 3 0.2,0.5 0 x|replicates: 20 20 1 0|positive: b a|proba: 0.2,0.5,0.3 1,0,0 0.5,0.5 x|level: 0.9 0.5 1
dialect: standard duckdb sqlite mysql|sep: , comma ; tab|confidence: 0.9 0.5 1|integer: 1 2 0 -1 20|float: 0.9 0 -1 1e-3
out: o.csv o.csv o.json o.json o.parquet o.npz o.html o.tsv o.onnx o.svg t.csv none/o.csv o
priors: a=0.2,b=0.3,c=0.5 balanced a=1,b=0,c=0 a=1 x=0.5,y=0.5|tuned_on: t.csv t.csv t.parquet odd.csv none.csv
tuned_label: y y y a yy|tuned_weight: w id|false_alarms: 0.05 0.5 1
report: o.html t.csv|plot: o.svg|text:  é 1 0.9 -1 nan auto none yes a,b --x y \0"""
VALUES = {name: words.split(" ") for name, words in (one.split(": ") for one in LINES.replace("\n", "|").split("|"))}
# the shares of lines with an option
SHARES = {"label": 0.97, "metric": 0.97, "over": 0.97, "language": 0.97, "out": 0.6, "subject_to": 0.3}
SHARES |= dict.fromkeys(("tuned_on", "tuned_label"), 0.9)
RARE = 0.05  # and with another one


def write_files(rng, folder):
    """Write tables, a rule and a table of costs, some of them odd or damaged."""
    import pyarrow.csv
    import pyarrow.parquet

    from tests.cli_helpers import small

    odd = {rng.choice("abcwy"): {rng.randrange(60): rng.choice([*VALUES["text"], "0.5", '"', ",", "\n"])}}
    small(folder, "odd.csv", g=["m", "n", "o"] * 20, **odd)
    table = pyarrow.csv.read_csv(small(folder, "t.csv", g=["m", "n", "o"] * 20))
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    np.savez(folder / "t.npz", P=np.column_stack([table[name] for name in "abc"]), y=table["y"].to_numpy().astype(str))
    (folder / "costs.csv").write_text("0,1,1\n1,0,1\n1,1,0\n")
    random_rule(rng, 3, "abcde").save(folder / "r.json")
    for name in ("t.csv", "t.parquet", "t.npz", "r.json"):
        content = bytearray((folder / name).read_bytes())
        for _ in range(rng.randrange(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        stop = rng.choice([None, None, rng.randrange(len(content))])
        (folder / f"hurt{Path(name).suffix}").write_bytes(content[:stop])


def value_of(rng, option):
    """Return a text for an option or an argument, most often one that may be right."""
    if rng.random() < 0.03:
        return rng.choice(VALUES["text"])
    if option.name in ("metric", "second", "names"):
        return rng.choice(metrics.names()) + rng.choice(["", "", "", "[a]", "[z]"])
    if option.name == "subject_to":
        return rng.choice([f"recall[a] >= {rng.random():.2f}", "rate[b] <= 0.3", "min_recall >= 0.2", limit_text(rng)])
    kind = option.type.name.removesuffix(" range")
    choices = list(getattr(option.type, "choices", ())) or VALUES.get(kind, VALUES["text"])
    return rng.choice(VALUES.get(option.name, choices))


def commands(seed):
    """Run a random command line on odd files: a documented exit code, one sentence, no file written by halves."""
    from tests.cli_helpers import cli, invoked
    from tests.test_cli_errors import everything

    rng = random.Random(seed)
    name = rng.choice(["apply", "compare", "explain", "export", "frontier", "report", "score", "shift", "tune", "tune"])
    words, outputs = [name], {"report.html": "out"} if name == "report" else {}
    for option in cli.confmax.commands[name].params:
        is_argument = option.param_type_name == "argument"
        # where every row has a label there is no share to estimate
        share = RARE if (name, option.name) == ("shift", "label") else SHARES.get(option.name, RARE)
        if is_argument or rng.random() < share:
            value = [] if getattr(option, "is_flag", False) else [value_of(rng, option)]
            words += [*([] if is_argument else [option.opts[-1]]), *value]
            outputs |= {text: option.name for text in value if option.name in ("out", "report", "plot")}
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        folder = Path(place)
        write_files(rng, folder)
        before = everything(folder)
        result = invoked(*words)
        after = everything(folder)
        new = {path.relative_to(folder).as_posix() for path in after if after[path] != before.get(path)}
        said = f"{words}: code {result.exit_code}, {result.stderr!r}, wrote {sorted(new)}"
        # rows in parts may be written to a folder
        tops = {path: path.partition("/")[0] for path in new}
        assert set(before) <= set(after) and set(tops.values()) <= set(outputs) and result.exit_code in (0, 2, 3), said
        if result.exit_code == 2:
            *first, last = result.stderr.splitlines()
            assert all(line.startswith("warning: ") for line in first) and last.startswith("error: "), said
            assert not result.stdout and not new, said
            return "refused"
        for path, top in tops.items():
            if (folder / path).is_file():
                read_back(name, outputs[top], folder / path)
        if "--json" in words and result.stdout:
            json.loads(result.stdout)
    return "right"


def read_back(command, option, path):
    """Read what a command wrote to its end."""
    from confmax.cli.tables import read_frame

    if (command, option) == ("apply", "out"):
        assert "decision" in read_frame(path).columns
    elif (command, option) in (("tune", "out"), ("shift", "out")):
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


def run_block(pool, kind, count, stop):
    """Run trials of a kind and add how they ended to its counts; what was counted stands if it is interrupted."""
    seeds = range(count["next"], min(count["next"] + BLOCK, stop))
    for seed, ended in zip(seeds, pool.map(partial(trial, kind), seeds, chunksize=20), strict=True):
        if ended in ("right", "refused"):
            count[ended] += 1
        else:
            count["faults"].append(seed)
            print(f"fault: {ended}\n  python -m benchmarks.fuzz --kinds {kind} --seed {seed} --trials 1", flush=True)
        count["next"] = seed + 1


def table_of(counts):
    """Return how the trials of every kind ended."""
    parts = {kind: [one["right"], one["refused"], len(one["faults"])] for kind, one in counts.items()}
    rows = [[kind, sum(some), *some] for kind, some in parts.items()]
    return markdown(["kind", "trials", "right", "refused", "faults"], rows)


@benchmark("fuzz", "FILE")
def fuzz(file):
    """Write the counts that `python -m benchmarks.fuzz --resume FILE` has kept."""
    counts = json.loads(Path(file).read_text())
    seeds = ", ".join(sorted({str(one["first"]) for one in counts.values()}))
    return [
        f"random input, as counted by `python -m benchmarks.fuzz --trials N --resume FILE` from the seed {seeds}: how "
        f"many trials of a kind were answered right, how many were refused in one sentence, and how many were neither.",
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
        counts.setdefault(kind, {"first": given.seed, "next": given.seed, "right": 0, "refused": 0, "faults": []})
    # workers leave Ctrl-C to this process, which ends them
    ignore = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(given.processes, get_context("spawn"), initializer=ignore)
    try:
        while left := [kind for kind in kinds if counts[kind]["next"] < counts[kind]["first"] + given.trials]:
            for kind in left:
                run_block(pool, kind, counts[kind], counts[kind]["first"] + given.trials)
                store(given.resume, counts)
    except KeyboardInterrupt:
        print("stopped; the same command with --resume goes on")
    finally:
        pool.shutdown(cancel_futures=True)
        store(given.resume, counts)
        print(table_of(counts))
    sys.exit(any(one["faults"] for one in counts.values()))


def store(path, counts):
    """Replace the file of counts as a whole."""
    if path is not None:
        part = path.with_name(f"{path.name}.part")
        part.write_text(json.dumps(counts, indent=1) + "\n")
        os.replace(part, path)


if __name__ == "__main__":
    main()
