"""Do two states of confmax give the same answers? For changes that must not change what is computed.

    python -m benchmarks.same_answers record FILE.json FOLDER_OF_NPZ
    python -m benchmarks.same_answers compare FILE.json FOLDER_OF_NPZ [--loss 2e-4]

``record`` writes the answers of the calls of `CASES` to a file, in the environment of the old state; ``compare`` runs
them in that of the new state, and exits with 1 if answers differ. Three tables are drawn at random; those of
FOLDER_OF_NPZ are added to them.

Values may differ by 1e-12 of their size, and decision probabilities by 1e-9. A text must be the same. Passes are listed
where they differ. With ``--loss`` a change may take another way to the optimum: a value may be lower by so much, on
average by none, bounds may be wider by so much, and decisions and texts may differ. A bound below the other state's
value, and a certificate that is lost, always count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import confmax
from benchmarks.harness import Data, load

EXACT, ALIKE = 1e-12, 1e-9  # of values, relative, and of decision probabilities
ROWS = 50  # whose decision probabilities are kept; of all rows a hash of the decisions is kept
COMPUTED = ("accuracy", "g_mean", "min_recall", "macro_f1", "cohen_kappa")  # on other kinds of tables
MORE = ("balanced_accuracy", "h_mean", "q_mean", "micro_f1", "quadratic_kappa", "mcc", "macro_jaccard")
METRICS = (*COMPUTED, *MORE, "macro_precision")
ESTIMATES: dict[str, dict[str, Any]] = {
    "default": {},
    "labels": {"confusion": "labels"},
    "mixture": {"confusion": "model", "calibration": None, "randomized": True},
    "single": {"confusion": "model", "calibration": None, "randomized": False},
}
# metrics within limits; {r} is the rarest class of ten rows or more, {m} the most frequent one
LIMITED = (
    ("accuracy", ("recall[{r}] >= 0.5",)),
    ("accuracy", ("min_recall >= 0.2",)),
    ("macro_f1", ("precision[{r}] >= 0.4",)),
    ("g_mean", ("rate[{m}] <= 0.3",)),
    ("min_recall", ("accuracy >= 0.4",)),
    ("cohen_kappa", ("recall[{r}] >= 0.4", "fpr[{m}] <= 0.4")),
    ("recall[{r}]", ("precision[{r}] >= 0.5",)),
    ("precision[{r}]", ("recall[{r}] >= 0.3",)),
    ("f1[{m}]", ("rate[{m}] <= 0.3",)),
    ("rate[{r}]", ("precision[{r}] >= 0.4",)),
)
GROUPED = (
    ("accuracy", ("difference(recall[{m}] | group) <= 0.05",)),
    ("accuracy", ("min(accuracy | group) >= 0.4",)),
    ("balanced_accuracy", ("ratio(rate[{m}] | group) >= 0.8",)),
    ("recall[{m}]", ("max(fpr[{m}] | group) <= 0.3",)),
)
UNDECIDED = (
    ("accuracy", ("coverage >= 0.7",)),
    ("coverage", ("accuracy >= 0.7",)),
    ("macro_f1", ("coverage >= 0.8", "coverage[{r}] >= 0.5")),
    ("f1[{r}]", ("coverage >= 0.8",)),
)
Calls = Iterator[tuple[str, Callable[[], Any]]]


def cases(tables: list[Data], folder: Path) -> Calls:
    """Yield the name of every call, and what makes it."""
    for data in tables:
        for family in CASES:
            for name, call in family(data, folder):
                yield f"{data.stem} {family.__name__} {name}", call


def plain(data: Data, _: Path) -> Calls:
    """Metrics without limits."""
    for metric in METRICS:
        for name, settings in ESTIMATES.items():
            yield f"{metric} {name}", partial(solved, data, metric, **settings)


def limited(data: Data, _: Path) -> Calls:
    """Metrics within limits, with confidence too."""
    for metric, limits in worded(data, LIMITED):
        for name, settings in (*ESTIMATES.items(), ("confidence", {"confidence": 0.9})):
            yield f"{metric} {limits} {name}", partial(solved, data, metric, constraints=limits, **settings)


def weighted(data: Data, _: Path) -> Calls:
    """Weights of rows, of which some are zero."""
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], len(data.y))
    for metric in COMPUTED:
        yield metric, partial(solved, data, metric, sample_weight=weight)
    for metric, limits in worded(data, LIMITED[:3]):
        yield f"{metric} {limits}", partial(solved, data, metric, constraints=limits, sample_weight=weight)


def grouped(data: Data, _: Path) -> Calls:
    """Limits on two groups of the rows, known, and by their probabilities."""
    rng = np.random.default_rng(1)
    group, new = (rng.choice(["men", "women"], len(y), p=[0.6, 0.4]) for y in (data.y, data.z))
    likely = rng.dirichlet([2.0, 1.0], len(data.y))
    by_chance = {"group_proba": likely, "decides": {"group_proba": likely[: len(data.z)]}}
    for metric, limits in worded(data, GROUPED):
        for name in ("default", "labels", "mixture"):
            settings = ESTIMATES[name] | {"group": group, "decides": {"group": new}}
            yield f"{metric} {limits} {name}", partial(solved, data, metric, constraints=limits, **settings)
        yield f"{metric} {limits} by probabilities", partial(solved, data, metric, constraints=limits, **by_chance)


def undecided(data: Data, _: Path) -> Calls:
    """Rules that abstain."""
    for metric, limits in worded(data, UNDECIDED):
        for name in ("default", "labels", "mixture"):
            settings = ESTIMATES[name] | {"abstain": "person", "constraints": limits}
            yield f"{metric} {limits} {name}", partial(solved, data, metric, **settings)


def stored(data: Data, folder: Path) -> Calls:
    """Sparse tables, tensors, and files that are read in parts."""
    P = np.where(np.asarray(data.P) >= 0.02, data.P, 0.0)
    sparse = data._replace(P=csr_array(P / P.sum(axis=1, keepdims=True)))
    for metric in COMPUTED:
        yield f"sparse {metric}", partial(solved, sparse, metric)
        yield f"tensor {metric}", partial(as_tensor, data, metric)
        yield f"float32 {metric}", partial(solved, data._replace(P=data.P.astype(np.float32)), metric)
        yield f"parts {metric}", partial(in_parts, data, metric, folder)


def fitted(data: Data, _: Path) -> Calls:
    """The estimator, whose features are the logarithms of some probabilities."""
    for metric in ("macro_f1", "min_recall"):
        yield metric, partial(estimated, data, metric)


def scored(data: Data, folder: Path) -> Calls:
    """`confmax tune`, `score` and `explain` with --json, and exported texts."""
    (metric, limits), *_ = worded(data, LIMITED[:1])
    for name, settings in (("macro_f1", ()), (metric, ("--subject-to", *limits))):
        yield name, partial(commanded, data, name, settings, folder)


CASES = (plain, limited, weighted, grouped, undecided, stored, fitted, scored)


def worded(data: Data, problems: Any) -> list[tuple[str, list[str]]]:
    """Return metrics and limits with the names of classes of a table in them."""
    n = np.bincount(data.y, minlength=data.K)
    words = {"r": int(np.argmin(np.where(n >= min(10, n.max()), n, n.max() + 1))), "m": int(np.argmax(n))}
    return [(metric.format(**words), [one.format(**words) for one in limits]) for metric, limits in problems]


def solved(data: Data, metric: str, *, decides: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """Return what `confmax.maximize` finds, as JSON can hold it."""
    found = confmax.maximize(
        metric, data.P, data.y, classes=range(data.K), random_state=0, on_infeasible="closest", **settings
    )
    return answer(found, data, decides or {})


def answer(found: Any, data: Data, decides: dict[str, Any]) -> dict[str, Any]:
    """Return a solution, and what its rule decides on new rows."""
    Q = np.asarray(data.Q, dtype=np.float64)
    Q = Q[: len(next(iter(decides.values())))] if decides else Q
    chances = np.asarray(found.rule.decision_probabilities(Q, **decides))
    return {
        "value": found.value,
        "gap": found.gap,
        "model_gap": found.model_gap,
        "passes": found.n_passes,
        "text": [found.status.name, bool(found.feasible), [[one.text, one.assured] for one in found.constraints]],
        "numbers": [one.value for one in found.constraints],
        "chances": chances[:ROWS].round(12).tolist(),
        "all": digest(chances.argmax(axis=1).astype("i4").tobytes()),
    }


def as_tensor(data: Data, metric: str) -> dict[str, Any]:
    """Return the answer on a tensor."""
    import torch

    return solved(data._replace(P=torch.from_numpy(np.array(data.P))), metric)


def in_parts(data: Data, metric: str, folder: Path) -> dict[str, Any]:
    """Return the answer on Parquet files of a thousand rows in a group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"c{k}" for k in range(data.K)]
    columns = {name: np.asarray(data.P)[:, k] for k, name in enumerate(names)}
    labels = np.array(names)[data.y]
    path = folder / f"{data.stem}.parquet"
    pq.write_table(pa.table({**columns, "truth": labels}), path, row_group_size=1000)
    table = confmax.open_table(str(path), label="truth", columns=names)
    return answer(confmax.maximize(metric, table, random_state=0), data, {})


def estimated(data: Data, metric: str) -> dict[str, Any]:
    """Return what an estimator decides that is fitted on a few hundred rows."""
    from sklearn.linear_model import LogisticRegression

    rows = np.random.default_rng(0).permutation(len(data.y))[:400]
    X, new = (np.log(np.asarray(P, dtype=np.float64) + 1e-6) for P in (data.P[rows], data.Q[:200]))
    model = confmax.MetricClassifierCV(LogisticRegression(max_iter=200), metric=metric, cv=3, random_state=0)
    model.fit(X, data.y[rows])
    return {"value": float(model.solution_.value), "all": digest(model.predict(new).astype("i4").tobytes())}


def commanded(data: Data, metric: str, settings: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Return the documents of the command line, without what names a file, and the texts of the rule."""
    from click.testing import CliRunner

    from confmax.cli.app import confmax as command

    def run(*args: Any) -> Any:
        result = CliRunner().invoke(command, [*map(str, args), "--json"])
        return json.loads(result.stdout) if result.exit_code in (0, 3) else result.exit_code

    names = [str(k) for k in range(data.K)]
    tune, new, rule = (folder / f"{data.stem}_{part}" for part in ("tune.csv", "new.csv", "rule.json"))
    for path, P, y in ((tune, data.P, data.y), (new, data.Q, data.z)):
        rows = [",".join([*(repr(float(p)) for p in row), str(label)]) for row, label in zip(P, y, strict=True)]
        path.write_text("\n".join([",".join([*names, "truth"]), *rows]))
    more = ["--label", "truth", "--metric", metric, *settings, "--seed", 0, "-o", rule]
    tuned = run("tune", tune, *more)
    if not rule.exists():
        return {"value": 0.0, "text": ["no rule"], "documents": flat(tuned)}
    documents = [tuned, run("score", new, "--label", "truth", "--rule", rule), run("explain", rule)]
    loaded, texts = confmax.DecisionRule.load(rule), []
    if not loaded.is_randomized:
        texts = [digest(loaded.to_python().encode())]
        for dialect in ("standard", "duckdb", "sqlite"):
            try:
                texts.append(digest(loaded.to_sql(dialect).encode()))
            except ValueError as error:
                texts.append(type(error).__name__)
    written = json.dumps(documents, sort_keys=True).replace(str(folder), "")
    return {"value": 0.0, "text": [*texts, str(loaded)], "documents": flat(json.loads(written))}


def flat(document: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of a JSON document by their paths."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    if not items:
        return {path: document}
    return {leaf: value for key, inner in items for leaf, value in flat(inner, f"{path}.{key}").items()}


def digest(content: bytes) -> str:
    """Return a short hash."""
    return hashlib.sha256(content).hexdigest()[:12]


def differences(old: dict[str, Any], new: dict[str, Any], loss: float | None) -> list[str]:
    """Return in words how two answers differ."""
    if "error" in old or "error" in new:
        return [] if old.get("error") == new.get("error") else [f"error {old.get('error')} -> {new.get('error')}"]
    said, was, now = [], old["value"], new["value"]
    if loss is None and not close(was, now):
        said.append(f"value {was!r} -> {now!r}")
    if loss is not None and now < was - loss:
        said.append(f"value lower by {was - now:.3g}")
    for name in ("gap", "model_gap"):
        one, other = old.get(name), new.get(name)
        if one is not None and other is None:
            said.append(f"{name} lost")
        elif one is not None and other is not None:
            if name == "gap" and (now + other < was - ALIKE or was + one < now - ALIKE):
                said.append("a bound below a value")
            if other > max(one, 1e-6) + (ALIKE if loss is None else loss):
                said.append(f"{name} {one:.3g} -> {other:.3g}")
    if loss is None:
        said += exact_differences(old, new)
    return said


def exact_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return in words what differs beside values and bounds."""
    said = [f"{key} {old.get(key)} -> {new.get(key)}" for key in ("text", "all") if old.get(key) != new.get(key)]
    if not all(map(close, old.get("numbers", []), new.get("numbers", []))):
        said.append(f"limits {old['numbers']} -> {new['numbers']}")
    one, other = (np.array(each.get("chances", [])) for each in (old, new))
    if one.shape != other.shape or (one.size and np.abs(one - other).max() > ALIKE):
        said.append("decision probabilities")
    one, other = (each.get("documents", {}) for each in (old, new))
    moved = [key for key in sorted({*one, *other}) if not close(one.get(key), other.get(key))]
    return said + [f"{key}: {one.get(key)!r} -> {other.get(key)!r}" for key in moved[:5]]


def close(one: Any, other: Any) -> bool:
    """Whether two leaves are equal, numbers within their last digits."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= EXACT * max(1.0, abs(one)) or (np.isnan(one) and np.isnan(other))
    return bool(one == other)


def run(call: Callable[[], Any]) -> dict[str, Any]:
    """Return the answer of a call, or the kind of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found: dict[str, Any] = json.loads(json.dumps(call()))
        except (ValueError, ImportError) as error:
            return {"error": type(error).__name__}
    return found


def compared(was: dict[str, Any], answers: Iterator[tuple[str, dict[str, Any]]], loss: float | None) -> int:
    """Print what differs; return how many calls do."""
    wrong = passes = total = 0
    drift = defaultdict(list)
    for name, new in answers:
        total += 1
        old = was.pop(name, {"error": "a call that was not recorded"})
        said = differences(old, new, loss)
        wrong += bool(said)
        if said:
            print(f"{name}: {'; '.join(said)}"[:400])
        elif old.get("passes") != new.get("passes"):
            passes += 1
            print(f"{name}: passes {old['passes']} -> {new['passes']}")
        if "value" in old and "value" in new:
            drift[name.split(" ", 1)[1]].append(new["value"] - old["value"])
    for name in was:
        print(f"{name}: not called any more")
    for name, moves in drift.items() if loss is not None else ():
        if np.mean(moves) < -EXACT:
            print(f"{name}: lower on average by {-np.mean(moves):.3g}")
            wrong += 1
    print(f"{total} calls: {wrong + len(was)} differ, {passes} with other passes")
    return wrong + len(was)


def drawn() -> list[Data]:
    """Return tables of two, three and eight classes whose models are too sure."""
    found = []
    for K, n in ((2, 500), (3, 800), (8, 1200)):
        rng = np.random.default_rng(K)
        P = rng.dirichlet(np.linspace(1.5, 0.3, K), 2 * n)
        y = (P.cumsum(axis=1) > rng.random((2 * n, 1))).argmax(axis=1)
        P = P**1.5 / (P**1.5).sum(axis=1, keepdims=True)
        found.append(Data(f"drawn{K}", P[:n], y[:n], P[n:], y[n:]))
    return found


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--loss", type=float)
    given = parser.parse_args()
    tables = drawn() + ([] if given.folder is None else load(given.folder))
    with tempfile.TemporaryDirectory() as folder:
        answers = ((name, run(call)) for name, call in cases(tables, Path(folder)))
        if given.action == "record":
            given.file.write_text(json.dumps(dict(answers)))
        else:
            sys.exit(compared(json.loads(given.file.read_text()), answers, given.loss) > 0)


if __name__ == "__main__":
    main()
