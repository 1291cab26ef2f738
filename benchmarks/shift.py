"""Class shares that change: estimates, tests and adapted rules on real tables, and quapy beside them.

Rows of a shifted month are drawn from the test half of a table, class by class. Strong shifts are of five kinds: shares
drawn by Dirichlet(10), (1) and (.1), one class made more frequent, and all shares in reverse order. Classes with fewer
than 20 test or 10 tuning rows keep their share. Rules are judged on half of the test rows, weighted to the new shares,
and months are drawn from the others.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.harness import benchmark, figures, load, markdown, solve
from benchmarks.timing import seconds_of
from confmax.rule.shares import SourceShares
from confmax.shift.likelihood import Likelihood, from_sample, most_likely
from confmax.shift.priors import UNLIKE, shift_of
from confmax.shift.source import Source, source_of
from confmax.solution.adapted import for_shares
from confmax.solution.tuning import value_on_labels
from confmax.tables import Table, make_table

SIZES = (200, 1000, 5000)
METRICS = ("macro_f1", "cohen_kappa", "accuracy")
LOSES = 0.005
KINDS = ("Dirichlet(10)", "Dirichlet(1)", "Dirichlet(.1)", "one class", "reversed")
FEW_TEST, FEW_TUNING = 20, 10
LABELLED = 1000


class Case(NamedTuple):
    """A table: its tuning rows, its test rows, their class shares, and which classes are shifted (K,)."""

    name: str
    P: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    z: np.ndarray
    shares: np.ndarray
    free: np.ndarray

    @property
    def K(self):
        return self.P.shape[1]

    @property
    def tuning_shares(self):
        return np.bincount(self.y, minlength=self.K) / len(self.y)


def cases(folder):
    """Return the tables of a folder."""
    found = []
    for data in load(folder):
        of_test, of_tuning = (np.bincount(part, minlength=data.K) for part in (data.z, data.y))
        free = (of_test >= FEW_TEST) & (of_tuning >= FEW_TUNING)
        if free.sum() >= 2:
            found.append(Case(data.stem, data.P, data.y, data.Q, data.z, of_test / of_test.sum(), free))
    return found


def strong(case, rng):
    """Yield strong shifts of a case: the kind, and class shares (K,)."""
    pi, free = case.shares, case.free

    def placed(shares):
        out = np.where(free, shares, pi)
        out[free] *= (1.0 - pi[~free].sum()) / out[free].sum()
        return out

    for kind, c in zip(KINDS, (10.0, 1.0, 0.1), strict=False):
        yield kind, placed(rng.dirichlet(np.full(case.K, c)) + 1e-9)
    tweaked = pi.copy()
    k = rng.choice(np.flatnonzero(free))
    tweaked[k] = 5.0 * tweaked[k] + 0.1
    yield KINDS[3], placed(tweaked)
    turned = pi.copy()
    order = np.flatnonzero(free)[np.argsort(pi[free])]
    turned[order] = np.sort(pi[free])[::-1]
    yield KINDS[4], placed(turned)


def drawn(case, q, n, rng, *, fresh=False):
    """Return the test rows of a month of n rows with class shares ``q``; without replacement if ``fresh``."""
    counts = np.bincount(rng.choice(case.K, n, p=q), minlength=case.K)
    parts = []
    for k in np.flatnonzero(counts):
        rows = np.flatnonzero(case.z == k)
        if len(rows):
            parts.append(rng.choice(rows, min(counts[k], len(rows)) if fresh else counts[k], replace=not fresh))
    return np.concatenate(parts)


def held_of(case):
    """Return a rule for accuracy, what shares are held against, and the calibrated test rows."""
    solution = solve("accuracy", case.P, case.y, classes=list(range(case.K)), confusion="labels")
    if solution.calibration is not None and solution.rule.calibrator is None:
        # a plain rule is as good: the estimate takes the calibration all the same
        solution = solve(
            "accuracy", case.P, case.y, classes=list(range(case.K)), calibration=solution.calibration, confusion="model"
        )
    held = source_of(solution, (case.P, case.y))
    table = make_table(case.Q, None, None, tuple(range(case.K))).calibrated(held.calibrator)
    return solution, held, table


def by_em(P, pi, most=5000, gap=0.01):
    """Return the shares that plain EM finds, to a certificate ``gap`` or at most so many passes, and the passes."""
    R = np.maximum(P.astype(np.float64), 1e-12) / np.maximum(pi, 1e-9)
    q = pi.copy()
    passes = 0
    while passes < most:
        passes += 1
        D = (R / (R @ q)[:, None]).mean(axis=0)
        if len(R) * (D.max() - 1.0) <= gap:
            break
        q = q * D
    return q, passes


def errors(found, q, n):
    """Return the L1 distance of shares, and quapy's mean absolute and relative errors."""
    eps = 1.0 / (2.0 * n)
    smooth = [(part + eps) / (eps * len(q) + 1.0) for part in (found, q)]
    return [np.abs(found - q).sum(), np.abs(found - q).mean(), (np.abs(smooth[0] - smooth[1]) / smooth[1]).mean()]


@benchmark("shift-estimates", "FOLDER")
def estimates(folder, draws=2):
    """Measure the estimates of class shares beside plain EM, by three protocols."""
    rng = np.random.default_rng(0)
    found, passes, gaps = {}, [], []
    for case in cases(folder):
        _, held, table = held_of(case)
        pi = held.shares.meant
        for n in SIZES:
            for protocol, count in (("strong", draws), ("APP", 5 * draws), ("NPP", 5 * draws)):
                for _ in range(count):
                    shifts = {
                        "strong": [q for _, q in strong(case, rng)],
                        "APP": [next(q for kind, q in strong(case, rng) if kind == KINDS[1])],
                        "NPP": [case.shares],
                    }[protocol]
                    for q in shifts:
                        rows = drawn(case, q, n, rng)
                        part = Table.of(table.head.take(rows))
                        shift = shift_of(part, held, np.zeros(case.K), None)
                        alone = most_likely(Likelihood.of(part, pi))
                        passes.append(alone.n_passes)
                        gaps.append(max(alone.gap, shift.gap))
                        each = (
                            shift.raw_priors,
                            by_em(part.head.proba, pi)[0],
                            by_em(part.head.proba, case.tuning_shares)[0],
                            pi,
                            shift.priors,
                        )
                        found.setdefault((protocol, n), []).append([errors(one, q, n) for one in each])
    names = ("confmax (raw_priors)", "EM, mean p", "EM, label shares", "source", "confmax (priors)")
    rows = []
    for (protocol, n), values in found.items():
        middle = np.mean(values, axis=0)
        rows += [[protocol, n, name, *figures(middle[k])] for k, name in enumerate(names)]
    return [
        f"mean errors of class shares over the tables, {draws} draws of five strong shifts, and {5 * draws} of APP "
        f"(uniform on the simplex) and NPP (no shift); EM runs to a gap of .01 or 5000 passes. Passes of confmax to "
        f"that gap: median {np.median(passes):.0f}, most {max(passes)}; certified: "
        f"{np.mean(np.array(gaps) <= 0.01):.0%}:",
        markdown(["protocol", "n", "method", "L1", "MAE", "RAE"], rows, words=3),
    ]


def splits(case, held, table, draws, rng):
    """Yield what shares are held against, with the tuning rows, and new rows with their case, of splits of all rows.

    The calibration stays that of the tuning rows of the case.
    """
    P = np.concatenate([held.rows.head.proba, table.head.proba]).astype(np.float64)
    labels = np.concatenate([case.y, case.z])
    whole = make_table(P / P.sum(axis=1, keepdims=True), labels, None, held.classes).head
    for _ in range(draws):
        tuning, new = np.split(rng.permutation(len(P)), [len(case.y)])
        rows = Table.of(whole.take(tuning))
        shares = SourceShares(tuple(rows.mean_probability()), float(len(tuning)))
        yield Source(held.classes, None, shares, rows), Table.of(whole.take(new)), case._replace(z=labels[new])


def _alarms(case, held, table, draws, rng):
    """Return how often the test rejects at 5 % where nothing has changed, for each of `SIZES`."""
    found = {n: [] for n in SIZES}
    for against, new, _ in splits(case, held, table, draws, rng):
        for n in SIZES:
            if n <= new.n_rows:
                part = new.take(np.arange(n))
                found[n].append(shift_of(part, against._replace(rows=None), np.zeros(case.K), None).p_value < 0.05)
    return [np.mean(alarms) if alarms else np.nan for alarms in found.values()]


def _inside(case, held, table, draws, rng):
    """Return how often intervals of 90 % hold the shares under strong shifts, of the rule alone and with tuning rows.

    No row is drawn twice in a month.
    """
    hits = []
    for against, new, part in splits(case, held, table, draws, rng):
        for _, q in strong(case, rng):
            counts = np.bincount(part.z, minlength=case.K)
            most = min(counts[case.free] / q[case.free])
            rows = drawn(part, q, max(min(1000, int(0.85 * most)), 1), rng, fresh=True)
            if len(rows) >= 40:
                month = Table.of(new.head.take(rows))
                ends = [
                    shift_of(month, one, np.zeros(case.K), None).interval(0.9)
                    for one in (against._replace(rows=None), against)
                ]
                hits.append([((one[:, 0] <= q) & (q <= one[:, 1]))[case.free].mean() for one in ends])
    return np.mean(hits, axis=0)


@benchmark("shift-alarms", "FOLDER")
def alarms(folder, draws=60):
    """Measure false alarms and intervals on fresh rows, drawn without replacement."""
    rng = np.random.default_rng(0)
    lines = []
    for case in cases(folder):
        _, held, table = held_of(case)
        cells = (*_alarms(case, held, table, draws, rng), *_inside(case, held, table, draws // 2, rng))
        lines.append([case.name, *cells])
    numbers = np.array([line[1:] for line in lines], dtype=float)
    means = ", ".join(
        f"n = {n}: {np.nanmean(numbers[:, k]):.3f} ({np.nanmax(numbers[:, k]):.2f} at most)"
        for k, n in enumerate(SIZES)
    )
    said = []
    for inside in numbers[:, 3:].T:
        low, high = inside >= 0.85, inside <= 0.93
        of_tables = (
            f"between .85 and .93 on {np.mean(low & high):.0%} of the tables, at least .85 on {np.mean(low):.0%}"
        )
        said.append(f"{inside.mean():.3f}, {of_tables}")
    return [
        f"false alarms of the test at 5 %, {draws} splits of all rows: {means}. Intervals of 90 % under strong shifts, "
        f"up to 1000 fresh rows, {draws // 2} draws of each: with the rule alone {said[0]}; with the tuning rows "
        f"{said[1]}:",
        markdown(
            ["table", *(f"alarms, {n}" for n in SIZES), "intervals, rule alone", "with tuning rows"],
            [[name, *figures(cells, ".3f")] for name, *cells in lines],
        ),
    ]


def split(case, rng):
    """Return the case with half of its test rows, of which months are drawn, and the other rows, class by class."""
    order = rng.permutation(len(case.z))
    order = order[np.argsort(case.z[order], kind="stable")]
    one, other = order[::2], order[1::2]
    return case._replace(Q=case.Q[one], z=case.z[one]), (case.Q[other], case.z[other])


def _values(case, judges, solution, held, q, n, rng):
    """Return what rules are worth under shares ``q``: stale, adapted, known shares, and tuned on new labels.

    Months of n rows are drawn from the case, and rules are judged on other rows, ``judges``.
    """
    K = case.K
    rows = drawn(case, q, n, rng)
    Q, z = judges
    shares = np.bincount(z, minlength=K) / len(z)
    weight = np.where(shares > 0, q / np.maximum(shares, 1e-300), 0.0)[z]
    judged = make_table(Q, z, weight, tuple(range(K)))
    new = make_table(case.Q[rows], None, None, tuple(range(K)))
    shift = shift_of(new.calibrated(held.calibrator), held, np.zeros(K), None)
    rules = {"stale": solution.rule, "adapted": solution.rule, "known": solution.rule}
    if shift.shrinkage > 0.0:
        rules["adapted"] = for_shares(solution, held, shift.priors, new).rule
    rules["known"] = for_shares(solution, held, q, new).rule
    some = drawn(case, q, LABELLED, rng)
    if len(np.unique(case.z[some])) > 1:
        rules["labels"] = solve(repr(solution.metric), case.Q[some], case.z[some], classes=list(range(K))).rule
    else:
        rules["labels"] = solution.rule
    return [value_on_labels(rules[name], solution.metric, judged) for name in ("stale", "adapted", "known", "labels")]


@benchmark("shift-worth", "FOLDER")
def worth(folder, draws=2):
    """Measure what adapting gains and loses, without a shift and under strong shifts."""
    rng = np.random.default_rng(0)
    found, by_table = {}, []
    for case in cases(folder):
        cells = [case.name]
        for metric in METRICS:
            solution = solve(metric, case.P, case.y, classes=list(range(case.K)))
            held = source_of(solution, (case.P, case.y))
            strong_ones = []
            for _ in range(draws):
                half, judges = split(case, rng)
                args = (half, judges, solution, held)
                for n in (200, 1000):
                    for _ in range(3):
                        values = _values(*args, case.shares, n, rng)
                        found.setdefault(("none", n, metric), []).append(values)
                for _, q in strong(case, rng):
                    strong_ones.append(_values(*args, q, 1000, rng))
            found.setdefault(("strong", 1000, metric), []).extend(strong_ones)
            stale, adapted, known, _ = np.mean(strong_ones, axis=0)
            cells += [f"{adapted - stale:+.3f} / {known - stale:+.3f}"]
        by_table.append(cells)
    rows = []
    for (kind, n, metric), values in found.items():
        stale, adapted, known, labels = np.array(values).T
        gain, most = (adapted - stale).mean(), (known - stale).mean()
        part = f"{gain / most:.2f}" if kind == "strong" else ""
        losing = [f"{np.mean(one - stale < -LOSES):.3f}" for one in (adapted, known)]
        rows.append([kind, n, metric, f"{stale.mean():.3f}", f"{gain:+.4f}", f"{most:+.4f}", part, *losing,
                     f"{(known - labels).mean():+.4f}"])  # fmt: skip
    heads = ["shift", "n", "metric", "stale", "adapted", "known shares", "part of it", "adapted loses", "known loses",
             "known minus labels"]  # fmt: skip
    return [
        f"test values under the new shares, differences from the stale rule; *loses* is the part of the cases that "
        f"lose more than {LOSES}; *labels* is a rule that is tuned on {LABELLED} labelled rows of the new month:",
        markdown(heads, rows, words=1),
        markdown(["table, adapted / known shares", *METRICS], by_table),
    ]


@benchmark("shift-speed")
def speed(quick=False):
    """Measure the time of an estimate, beside a pass of NumPy and beside EM to the same gap."""
    rng = np.random.default_rng(0)
    rows = []
    for n, K in ((1000, 9), (20_000, 5)) if quick else ((1000, 9), (5000, 18), (1_000_000, 10)):
        P = rng.dirichlet(np.full(K, 0.3), n).astype(np.float32)
        pi = P.mean(axis=0, dtype=np.float64)
        q = rng.dirichlet(np.ones(K))
        at = rng.choice(n, n, p=(w := P / pi @ q) / w.sum())
        table = make_table(P[at])
        weight = rng.random(K).astype(np.float32)

        def ours(table=table, pi=pi):
            return most_likely(Likelihood.of(table, pi), from_sample(table, pi))

        repeats = 20 if n < 10_000 else 3
        time, found = min((seconds_of(ours) for _ in range(repeats)), key=lambda pair: pair[0])
        numpy = min(seconds_of(lambda P=table.head.proba, w=weight: (P * w).argmax(axis=1))[0] for _ in range(repeats))
        em, (_, passes) = min(
            (seconds_of(partial(by_em, table.head.proba, pi)) for _ in range(2)), key=lambda pair: pair[0]
        )
        rows.append([f"{n:,} x {K}", found.n_passes, f"{found.gap:.1g}", f"{1e3 * time:.2f}", f"{time / numpy:.1f}",
                     f"{1e3 * em:.1f}", passes])  # fmt: skip
    heads = ["table", "passes", "gap", "ms", "over a NumPy pass", "EM to the same gap, ms", "EM's passes"]
    return ["least times of an estimate from calibrated float32 rows:", markdown(heads, rows)]


def _gaussian(n, shares, rng):
    """Return points (n, 2) of three classes with normal densities, and the classes, drawn with ``shares``."""
    centres = np.array([[0.0, 0.0], [1.6, 0.0], [0.8, 1.4]])
    y = rng.choice(3, n, p=shares)
    return centres[y] + rng.normal(size=(n, 2)), y


def _posterior(X, shares):
    centres = np.array([[0.0, 0.0], [1.6, 0.0], [0.8, 1.4]])
    density = np.exp(-0.5 * ((X[:, None] - centres) ** 2).sum(axis=2)) * shares
    return density / density.sum(axis=1, keepdims=True)


@benchmark("shift-populations")
def known_populations(draws=20):
    """Measure what adapting does on populations with known probabilities: under label, covariate and no shift."""
    rng = np.random.default_rng(0)
    source = np.array([0.6, 0.3, 0.1])
    rows = []
    for kind, n in [(kind, n) for kind in ("none", "label shift", "covariate shift") for n in (200, 1000)]:
        for metric in METRICS:
            found = []
            for _ in range(draws):
                X, y = _gaussian(2000, source, rng)
                P = _posterior(X, source)
                solution = solve(metric, P, y, classes=[0, 1, 2])
                held = source_of(solution, (P, y))
                to = np.array([0.2, 0.3, 0.5]) if kind == "label shift" else source
                Z, z = _gaussian(40_000, to, rng)
                if kind == "covariate shift":
                    # points to the right are more frequent, and a point has its class as often as before
                    tilt = np.exp(0.8 * Z[:, 0])
                    some = rng.choice(len(Z), len(Z), p=tilt / tilt.sum())
                    Z, z = Z[some], z[some]
                Q = _posterior(Z, source)
                new = make_table(Q[:n], None, None, (0, 1, 2))
                judged = make_table(Q[n:], z[n:], None, [0, 1, 2])
                shares = np.bincount(z, minlength=3) / len(z)
                shift = shift_of(new.calibrated(held.calibrator), held, np.zeros(3), None)
                adapted = solution.rule
                if shift.shrinkage > 0.0:
                    adapted = for_shares(solution, held, shift.priors, new).rule
                right = (Q if kind == "covariate shift" else _posterior(Z, to))[n:]
                best = solve(metric, right, z[n:], classes=[0, 1, 2], confusion="labels", calibration=None).value
                stale, now = (value_on_labels(one, solution.metric, judged) for one in (solution.rule, adapted))
                found.append(
                    [stale, now - stale, best - stale, now - stale < -LOSES, shift.detected, shift.misfit < UNLIKE,
                     np.abs(shift.raw_priors - shares).sum(), np.abs(Q[:n].mean(axis=0) - shares).sum()]
                )  # fmt: skip
            stale, gain, most, loses, seen, unlike, ours, mean = np.mean(found, axis=0)
            rows.append([kind, n, metric, f"{stale:.3f}", f"{gain:+.4f}", f"{most:+.4f}", f"{loses:.2f}", f"{seen:.2f}",
                         f"{unlike:.2f}", f"{ours:.3f}", f"{mean:.3f}"])  # fmt: skip
    heads = ["shift", "n", "metric", "stale", "adapted", "best", "loses", "detected", "misfit warned",
             "L1 of raw_priors", "L1 of mean p"]  # fmt: skip
    return [
        f"three normal classes with exact probabilities, 2,000 tuning rows, {draws} draws; differences from the stale "
        f"rule on 39,000 rows and more, *best* being tuned on these rows with their exact probabilities:",
        markdown(heads, rows),
    ]
