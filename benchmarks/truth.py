"""What confmax says of rules on new rows, beside a program in NumPy that knows neither `evaluate` nor `page`.

A seed makes a population, rows to tune on, new rows, and a rule of one of ten kinds: within limits of two and of three
classes, for costs, for costs with a check as a third decision, abstaining, within limits of groups, of any labels, of
at most k labels, of one class, and plain. The program takes decisions from `predict`, and does all else itself: what
the rule competes with, metrics, limits, a bootstrap of its own, and what follows. Its verdict must be that of the
record of `confmax.score`, that of the page, and that of `confmax score`.

Two bootstraps differ by chance. Where an end of an interval lies so near to an edge that chance may move it across, the
program knows several verdicts, and each of them is right; how often this was so is counted.
"""

from __future__ import annotations

import html
import itertools
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from click.testing import CliRunner

import confmax
from benchmarks.harness import benchmark, keep, markdown
from confmax.cli.app import confmax as command
from confmax.tables.decisions import ANY
from confmax.tables.draws import label_folds_to_judge
from confmax.tables.several import labels_table

KINDS = (
    "limits, two classes",
    "limits, three classes",
    "costs",
    "costs with a check",
    "abstaining",
    "groups",
    "any labels",
    "at most k labels",
    "one class",
    "no limits",
)
REPLICATES = 2000
LEVEL = 0.95
AS_GOOD = 0.005
# of the difference of two ends from 2000 replicates each, in standard deviations of the difference: .084 is one
# standard error, and an end that is farther than four of them from an edge is on the same side in both bootstraps
BAND = 0.34
SAME = 1e-12


class Case(NamedTuple):
    """A rule on new rows: what it decides, and what is needed to judge it."""

    kind: str
    solution: object
    rows: tuple  # P, y, and the group of each row or None
    metric: str
    limits: tuple  # of text, function of (truth, decided) and what a floor or a ceiling is compared with
    cost: np.ndarray | None
    decided: np.ndarray
    rivals: dict


# --- problems ---------------------------------------------------------------------------------------------------------


def population(rng, n, sizes, sharp):
    """Return probabilities (n, K), which a model states too sharply or too flatly, and classes drawn from them."""
    P = rng.dirichlet(sizes, n).clip(1e-6)
    P /= P.sum(axis=1, keepdims=True)
    y = (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, P.shape[1] - 1)
    stated = P**sharp
    return stated / stated.sum(axis=1, keepdims=True), y


def case(seed):
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    made = of_labels if "labels" in kind else of_classes
    return made(kind, rng, int(rng.integers(500, 1500)))


def of_classes(kind, rng, n):
    """Return a rule that decides one class for every row."""
    K = 2 if kind in ("limits, two classes", "costs with a check", "groups") else 3
    sizes = np.sort(rng.uniform(0.3, 2.5, K))[::-1]
    P, y = population(rng, 2 * n, sizes, rng.uniform(0.7, 1.5))
    group = rng.choice(["a", "b"], 2 * n) if kind == "groups" else None
    last = K - 1
    at = float(rng.uniform(0.3, 0.8))
    cost, limits, more, metric = None, (), {"calibration": None}, str(rng.choice(["macro_f1", "balanced_accuracy"]))
    if kind == "limits, two classes":
        metric = f"recall[{last}]"
        share = at * float(np.mean(y[:n] == last))
        limits = ((f"rate[{last}] <= {share:.3g}",), (f"precision[{last}] >= {at:.2g}",))[int(rng.integers(2))]
    elif kind == "limits, three classes":
        metric = str(rng.choice(["accuracy", "macro_f1"]))
        limits = (f"recall[{last}] >= {at:.2g}", f"rate[0] >= {0.5 * float(np.mean(y[:n] == 0)):.3g}")
    elif kind in ("costs", "costs with a check"):
        cost = rng.uniform(1.0, 30.0, (K, K)).round(1) * (1.0 - np.eye(K))
        cost[last, 0] *= 10.0
        metric = "linear"
        if kind == "costs with a check":
            cost = np.append(cost, np.full((K, 1), round(float(rng.uniform(0.5, 3.0)), 1)), axis=1)
            more |= {"abstain": True}
    elif kind == "abstaining":
        metric = str(rng.choice(["accuracy", "macro_f1"]))
        limits = (f"coverage >= {at:.2g}",)
        more |= {"abstain": True}
    elif kind == "groups":
        metric = "accuracy"
        limits = (f"min(recall[{last}] | group) >= {at:.2g}",)
    elif kind == "one class":
        metric = f"f1[{last}]"
    of = confmax.metrics.get("linear", cost=cost) if cost is not None else metric
    Q, z = P[n:], y[n:]
    beside = {} if group is None else {"group": group[:n]}
    solution = confmax.maximize(
        of,
        P[:n],
        y[:n],
        classes=range(K),
        constraints=limits,
        randomized=False,
        on_infeasible="closest",
        **beside,
        **more,
    )
    own = None if group is None else group[n:]
    where = {} if group is None else {"group": own}
    decided = solution.rule.predict_index(Q, **where)
    plain = {"argmax": last_argmax(Q), "p/prior": last_argmax(Q / np.bincount(z, minlength=K))}
    if "abstain" in more and cost is None:
        many = int((decided < K).sum())
        by_prior = Q / np.bincount(z, minlength=K)
        by_prior = by_prior / by_prior.sum(axis=1, keepdims=True)
        plain = {"Chow's rule": surest(Q, many), "p/prior on as many rows": surest(by_prior, many)}
    return Case(kind, solution, (Q, z, own), metric, tuple(limits), cost, decided, plain)


def last_argmax(scores):
    """Return the column with the largest score of every row, of equal ones the last."""
    return scores.shape[1] - 1 - scores[:, ::-1].argmax(axis=1)


def surest(scores, many):
    """Return the decisions of as many rows as those with the largest scores; the others are left, as column K."""
    out = np.full(len(scores), scores.shape[1])
    rows = np.argsort(-scores.max(axis=1), kind="stable")[:many]
    out[rows] = last_argmax(scores)[rows]
    return out


def of_labels(kind, rng, n):
    """Return a rule of several labels."""
    L = int(rng.integers(3, 7))
    true = rng.beta(rng.uniform(0.4, 1.5, L), rng.uniform(1.5, 4.0, L), (2 * n, L))
    Y = (rng.random(true.shape) < true).astype(int)
    P = true ** rng.uniform(0.8, 1.4)
    k = int(rng.integers(1, L - 1))
    argument = "any" if kind == "any labels" else ("at_most", k)
    metric = str(rng.choice(["macro_f1", "micro_f1"]))
    limits = ()
    if kind == "any labels" and rng.random() < 0.5:
        limits = (f"labels_per_row <= {0.8 * Y[:n].sum(axis=1).mean():.2g}",)
    solution = confmax.maximize(metric, P[:n], Y[:n], decisions=argument, constraints=limits, on_infeasible="closest")
    Q, Z = P[n:], Y[n:]
    alone = separate(Q, Z)
    rivals = {"p > 0.5": (Q > 0.5) * 1}
    if kind != "any labels":
        share = Z.mean(axis=0)
        rivals = {
            f"top-{k}": largest(Q, k),
            f"top-{k} of p > 0.5": largest(Q, k) * (Q > 0.5),
            f"top-{k} of p/prior": largest(Q / share, k),
            f"top-{k} of separate thresholds": largest(np.where(alone, Q, -1.0), k) * alone,
        }
    else:
        rivals["separate thresholds"] = alone * 1
    return Case(kind, solution, (Q, Z, None), metric, limits, None, solution.predict(Q), rivals)


def largest(scores, k):
    """Return 1 for the k largest scores of every row, of equal ones the last."""
    out = np.zeros(scores.shape, dtype=int)
    np.put_along_axis(out, np.argsort(scores, axis=1, kind="stable")[:, -k:], 1, axis=1)
    return out


def separate(Q, Z):
    """Return what thresholds decide that are best for the F1 of each label on the other folds."""
    fold = label_folds_to_judge(labels_table(ANY, Q, Z, None, None).head, 5, 0)
    above = np.zeros(Q.shape, dtype=bool)
    for k in range(5):
        there, here = fold != k, fold == k
        usual = {"decisions": "any", "confusion": "labels", "calibration": None, "shrinkage": False}
        cuts = confmax.maximize("macro_f1", Q[there], Z[there], **usual).rule.thresholds
        for j, cut in enumerate(cuts):
            order = np.argsort(-Q[there, j])
            hits = np.cumsum(Z[there, j][order])
            best = (2 * hits / (np.arange(1, len(order) + 1) + Z[there, j].sum())).max()
            made = Q[there, j] > cut
            # no cut is better, so that only the place between two rows is confmax's
            assert 2 * (made & (Z[there, j] == 1)).sum() / (made.sum() + Z[there, j].sum()) >= best - 1e-12
        above[here] = Q[here] > cuts
    return above


# --- the witness ------------------------------------------------------------------------------------------------------


def sums(one, decided, counts):
    """Return, for replicates (B, n) of the rows, what metrics read: matrices (B, K, K + 1), or (B, L) of labels."""
    _, y, _ = one.rows
    if y.ndim == 2:
        return tuple(counts @ part for part in (y * decided, y, decided)), counts.sum(axis=1)
    K = one.rows[0].shape[1]
    cell = np.zeros((len(y), K * (K + 1)))
    cell[np.arange(len(y)), y * (K + 1) + decided] = 1.0
    return (counts @ cell).reshape(len(counts), K, K + 1)


def values(one, decided, counts):
    """Return the metric (B,) that the rule was tuned for."""
    found = sums(one, decided, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        if one.rows[1].ndim == 2:
            (hits, true, made), _ = found
            if one.metric == "micro_f1":
                return 2 * hits.sum(axis=1) / (true.sum(axis=1) + made.sum(axis=1))
            return np.nan_to_num(2 * hits / (true + made)).mean(axis=1)
        if one.cost is not None:
            width = one.cost.shape[1]
            return -(found[:, :, :width] * one.cost).sum(axis=(1, 2)) / found.sum(axis=(1, 2))
        C = found[:, :, :-1]  # of what is decided
        hits, true, made = np.diagonal(C, axis1=1, axis2=2), C.sum(axis=2), C.sum(axis=1)
        if one.metric == "accuracy":
            return hits.sum(axis=1) / C.sum(axis=(1, 2))
        if one.metric == "balanced_accuracy":
            return np.nanmean(hits / true, axis=1)
        f1 = np.nan_to_num(2 * hits / (true + made))
        name = re.fullmatch(r"(\w+)\[(\d)\]", one.metric)
        if name is None:
            return f1.mean(axis=1)
        k = int(name[2])
        return hits[:, k] / true[:, k] if name[1] == "recall" else f1[:, k]


def limited(one, text, decided, counts):
    """Return what a limit limits (B,), and by how much it is kept."""
    of, sense, number = re.fullmatch(r"(.*) ([<>]=) ([\d.]+)", text).groups()
    _, y, group = one.rows
    if of == "labels_per_row":
        found = (counts @ decided).sum(axis=1) / counts.sum(axis=1)
    elif group is not None:
        k = int(of[of.index("[") + 1])
        parts = [(counts @ ((y == k) & (decided == k) & (group == g))) / (counts @ ((y == k) & (group == g)))
                 for g in np.unique(group)]  # fmt: skip
        found = np.min(parts, axis=0)
    else:
        C = sums(one, decided, counts)
        made = C[:, :, :-1]
        k = int(of[-2]) if "[" in of else -1
        found = {
            "rate": lambda: made[:, :, k].sum(axis=1) / C.sum(axis=(1, 2)),
            "recall": lambda: made[:, k, k] / made[:, k].sum(axis=1),
            "precision": lambda: made[:, k, k] / made[:, :, k].sum(axis=1),
            "coverage": lambda: made.sum(axis=(1, 2)) / C.sum(axis=(1, 2)),
        }[of.split("[")[0]]()
    return found, (found - float(number)) * (1 if sense == ">=" else -1)


def missed(one, decided):
    """Return the limits that decisions miss; a precision of nothing keeps every limit."""
    whole = np.ones((1, len(decided)))
    with np.errstate(invalid="ignore"):
        return tuple(text for text in one.limits if limited(one, text, decided, whole)[1][0] < -SAME)


def ends(drawn):
    """Return the percentile interval of values (B,)."""
    known = np.sort(drawn[np.isfinite(drawn)])
    rank = max(1, int(np.floor((len(known) + 1) * (1 - LEVEL) / 2 + 1e-9)))
    return known[rank - 1], known[-rank]


def witness(one, seed):
    """Return the verdicts that are right (pairs of kind and rival), the limits that are missed, and differences."""
    counts = np.random.default_rng(seed + 10_000).multinomial(
        len(one.decided), np.full(len(one.decided), 1 / len(one.decided)), REPLICATES
    )
    whole = np.ones((1, len(one.decided)))
    own, drawn = values(one, one.decided, whole)[0], values(one, one.decided, counts * 1.0)
    found = {}
    for name, decided in one.rivals.items():
        value, other = values(one, decided, whole)[0], values(one, decided, counts * 1.0)
        minus = drawn - other
        exact = bool(np.array_equal(decided, one.decided))
        found[name] = (own - value, *ends(minus), BAND * float(np.nanstd(minus)), value, missed(one, decided), exact)
    by = {name: (*rest[:1], *rest[4:]) for name, rest in found.items()}
    lost = missed(one, one.decided)
    known = set()
    for moves in itertools.product((-1, 0, 1), repeat=2 * len(found)) if len(found) < 4 else corners(len(found)):
        moved = {
            name: (d, low + moves[2 * k] * band, high + moves[2 * k + 1] * band, value, out, exact)
            for k, (name, (d, low, high, band, value, out, exact)) in enumerate(found.items())
        }
        known.add(concluded(moved, lost, one.cost is not None))
    return known, lost, by, own


def corners(n):
    """Yield moves of both ends of each of n rivals: one rival at a time."""
    yield (0,) * (2 * n)
    for k, pair in itertools.product(range(n), itertools.product((-1, 0, 1), repeat=2)):
        yield tuple(pair[j - 2 * k] if 2 * k <= j < 2 * k + 2 else 0 for j in range(2 * n))


def concluded(rivals, lost, relative):
    """Return the kind of a verdict, and the rival that decides it."""
    if lost:
        return "misses", None
    left = {name: it for name, it in rivals.items() if not it[4]}
    if not left:
        return "alone", None
    plain = next((name for name, it in rivals.items() if it[5]), None)
    if plain is not None:
        return "same", plain
    worse = [(d, name) for name, (d, low, high, *_) in left.items() if max(d, high) < -SAME]
    if worse:
        return "worse", min(worse)[1]
    good = [
        name
        for name, (d, low, high, value, *_) in left.items()
        if low <= SAME and high >= -SAME and (low + high) / 2 < AS_GOOD * (abs(value) if relative else 1.0)
    ]
    if good:
        return "as good", good[0]
    unclear = [name for name, (d, low, *_) in left.items() if not min(d, low) > SAME]
    if unclear:
        return "unclear", unclear[0]
    return "better", min((d, name) for name, (d, *_) in left.items())[1]


# --- what confmax says ------------------------------------------------------------------------------------------------

SAID = {
    "misses": "misses",
    "alone": "keeps its limits",
    "same": "nothing better than|decides as",
    "worse": "is worse than",
    "as good": "as good as the",
    "better": "is better than",
    "unclear": "too few rows",
}


def recorded(one):
    """Return the record of `confmax.score`."""
    Q, z, group = one.rows
    more = {} if group is None else {"group": group}
    # another metric than the one that the rule was tuned for
    metric = "accuracy" if z.ndim == 1 else "hamming"
    return confmax.score(metric, Q, z, one.solution.rule, n_replicates=REPLICATES, **more).verdicts["rule"]


def on_page(one, folder):
    """Return the heading of the page, what it recommends, and the colour of its verdict."""
    Q, z, group = one.rows
    more = {} if group is None else {"group": group}
    one.solution.report(folder / "page.html", Q, z, n_replicates=REPLICATES, **more)
    text = (folder / "page.html").read_text()
    head = html.unescape(re.search(r"<h1>(.*?)</h1>", text, re.DOTALL)[1])
    body = html.unescape(text[text.index("</h1>") : text.index('<main id="figures">')])
    use = re.findall(r"Use (.+?), which", body)
    return head, use, re.search(r'class="verdict (\w+)"', text)[1]


def in_command(one, folder):
    """Return the verdict of `confmax score`, costs as what is maximised."""
    Q, z, group = one.rows
    frame = pd.DataFrame(Q, columns=[f"p_{k}" for k in range(Q.shape[1])])
    names = ",".join(frame.columns)
    if z.ndim == 2:
        frame = frame.assign(**{f"y_{k}": z[:, k] for k in range(z.shape[1])})
        told = ["--labels", ",".join(f"y_{k}" for k in range(z.shape[1]))]
    else:
        frame = frame.assign(truth=z)
        told = ["--label", "truth"]
    if group is not None:
        frame = frame.assign(group=group)
        told += ["--group", "group"]
    frame.to_csv(folder / "new.csv", index=False)
    one.solution.rule.save(folder / "rule.json")
    line = ["score", str(folder / "new.csv"), "--rule", str(folder / "rule.json"), "--columns", names, *told]
    ran = CliRunner().invoke(command, [*line, "--replicates", str(REPLICATES), "--json"])
    return json.loads(ran.stdout)["verdict"]


def maximised(it, one):
    """Return a verdict, as documents show it, with costs as what is maximised: minus the cost of a row."""
    if one.cost is None:
        return it
    rivals = [{**rival, "minus": {"value": -rival["minus"]["value"]}} for rival in it["rivals"]]
    return {**it, "value": -it["value"], "rivals": rivals}


def judged(seed):
    """Return the case of a seed, the verdicts that are right, and the places that say something else."""
    one = case(seed)
    known, lost, by, own = witness(one, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record = recorded(one)
        head, use, side = on_page(one, folder)
        told = in_command(one, folder)
    wrong = []
    for place, it in (("record", record.to_dict()), ("command", told)):
        if not agrees(maximised(it, one), known, lost, by, own):
            wrong.append(place)
    kinds = [kind for kind, _ in known if re.search(SAID[kind], head)]
    recommended = {of if kind in ("same", "worse", "as good") else None for kind, of in known if kind in kinds}
    sides = {"misses": "worse unclear", "alone": "better unclear", "better": "better unclear", "worse": "worse"}
    colours = {colour for kind in kinds for colour in sides.get(kind, "unclear").split()}
    if not kinds or side not in colours or not (set(use) | (set() if use else {None})) <= recommended:
        wrong.append("page")
    return one, known, wrong


def agrees(it, known, lost, by, own):
    """Return whether a record says what the witness knows."""
    rivals = {rival["name"]: rival for rival in it["rivals"]}
    return (
        (it["kind"], it["of"]) in known
        and set(it["missed"]) == set(lost)
        and abs(it["value"] - own) < 1e-9
        and list(rivals) == list(by)
        and all(set(rivals[name]["missed"]) == set(out) for name, (_, _, out, _) in by.items())
        and all(abs(rivals[name]["minus"]["value"] - d) < 1e-9 for name, (d, *_) in by.items())
    )


@benchmark("truth-verdict", "[SEEDS]", "truth: verdict")
def verdict(seeds=60):
    """Judge the rules of many seeds."""
    lines, right, near = [], 0, 0
    kinds = Counter()
    for seed in range(seeds):
        one, known, wrong = judged(seed)
        right += not wrong
        near += len(known) > 1
        kinds[one.kind, not wrong] += 1
        said = " or ".join(sorted(f"{kind} {of or ''}".strip() for kind, of in known))
        lines.append([seed, one.kind, one.metric, ", ".join(one.limits), said, ", ".join(wrong) or "all agree"])
    keep("truth: verdict", ["seed", "kind", "metric", "limits", "verdict", "confmax"], lines, 6)
    table = markdown(
        ["rules", "seeds", "right in the record, on the page and in `score`"],
        [[kind, kinds[kind, True] + kinds[kind, False], kinds[kind, True]] for kind in KINDS if seeds],
    )
    return (
        f"{right} of {seeds} verdicts on new rows are those of a NumPy program that imports neither `evaluate` nor "
        f"`page` (module docstring): what the rule is judged by, values, differences, the limits that it and its "
        f"rivals miss, the kind, and what is recommended. In {near} of them an end of an interval lies so near to an "
        f"edge (four standard errors of two bootstraps of {REPLICATES:,} replicates) that chance may move it across, "
        f"and either verdict counts as right.",
        table,
    )
