"""Single rules within limits, against mixed-integer programs: what the search misses, and what no rule can reach.

    python -m benchmarks single-rules FOLDER_OF_NPZ [N_POPULATIONS]

Tiny populations have 5 to 10 rows, 2 or 3 classes and 1 to 3 random limits. A program over the weights and offsets of a
rule and the decisions of all rows looks for a single rule that is better than the returned one, or for any if none was
returned; its scores differ by 1e-4 or more on every row.

On the tables of `benchmarks.constraints` with 1000 rows or more and at most 12000 probabilities, the linear program
over all rows has the value of the best mixture. Its prices say what every other decision of a row loses, so only rows
that lose less than the single rule of confmax can be decided otherwise by a better one. Over these rows one program
looks for the best decisions of any kind, without drawing, and another for the best ones of the form
``argmax(a_j p_j + b_j)`` with coefficients near those of the prices. A concave objective is replaced by its tangent at
the best mixture, which lies above it, and a ratio N/D by N - value D. The figures are written to the section
"constraints: single rules" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import coo_array, csr_array, hstack, vstack

import confmax
from benchmarks.constraints import OBJECTIVES, Rows, cases, random_limit
from benchmarks.harness import benchmark, load, markdown
from confmax import constraints as c
from confmax.confusion import Confusion, Gains
from confmax.metrics.alignment import fit_metric
from confmax.metrics.structure import Concave, Ratio
from confmax.optimize.loop import MISSED
from confmax.oracle import make_table

LEAST, CELLS = 1000, 12_000  # rows of a table, and its probabilities: larger programs take minutes
APART, SURE = 1e-4, 1e-7  # how far scores differ on tiny populations; by how much limits are kept in a program
BOX, NEARER = 0.1, 1e-6  # of the coefficients, relative to their size, and how far scores differ, on tables
FIRST = 300  # rows beside the free ones whose decisions a program keeps at first
FARTHEST = 3e-3  # loss up to which a rule is looked for where none was returned
SECONDS, TIMES = 10.0, 4
CLOSE = 1e-9
ROUGH, SAME = 2e-6, 0.02  # how far losses differ that count as one: the programs end 1e-6 from their bounds


# --- tiny populations -------------------------------------------------------------------------------------------------


def tiny(seed):
    """Return probabilities (n, K), an objective and limits."""
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(2, 4)), int(rng.integers(5, 11))
    P = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 3.0])), n)
    return P, str(rng.choice(OBJECTIVES)), [random_limit(rng, P.mean(axis=0)) for _ in range(int(rng.integers(1, 4)))]


def by_form(P, free, base, box, apart):
    """Return rows (R, f + 2K) and their least values: a decision needs the best score.

    The variables are the ``free`` pairs of row and decision (f, 2), zero or one, and weights and offsets, which lie
    within ``box`` (2K,) of ``base`` (2K,).
    """
    K, f = P.shape[1], len(free)
    i, j = np.repeat(free, K - 1, axis=0).T
    k = np.concatenate([np.delete(np.arange(K), each) for each in free[:, 1]])
    place, e = np.repeat(np.arange(f), K - 1), np.arange(len(i))
    parts = [(j, P[i, j]), (k, -P[i, k]), (K + j, np.ones(len(i))), (K + k, -np.ones(len(i)))]
    scores = coo_array((np.concatenate([v for _, v in parts]), (np.tile(e, 4), np.concatenate([p for p, _ in parts]))),
                       (len(i), 2 * K)).tocsr()  # fmt: skip
    # the least difference of two scores in the box: what a decision that is not made must allow
    most = np.maximum(apart - (scores @ base - abs(scores) @ box), 0.0) + apart
    made = coo_array((-most, (e, place)), (len(i), f)).tocsr()
    return hstack([made, scores]).tocsr(), apart - most


def decided(P, gains):
    """Return the decisions (n,) of weights and offsets (2K,)."""
    K = P.shape[1]
    return (P * gains[:K] + gains[K:]).argmax(axis=1)


class Ends(NamedTuple):
    """What a program found: decisions (n,) or None, what no others exceed, and whether the search was complete."""

    decisions: np.ndarray | None
    bound: float
    complete: bool


def program(P, top, constant, slack, room, free, fixed, *, base=None, box=None, apart=APART, kept=()):
    """Return the best decisions of the ``free`` pairs (f, 2) of row and decision; ``fixed`` (n,) are all others.

    The smallest of ``top`` (u, nK) and ``constant`` (u,) is largest while ``slack`` and ``room`` stay above zero. With
    a ``base`` (2K,) the decisions are those of weights and offsets near it, also on the rows ``kept``.
    """
    n, K = P.shape
    f, cell = len(free), free[:, 0] * K + free[:, 1]
    others = np.setdiff1d(np.arange(n), free[:, 0])
    still = others * K + fixed[others]
    constant, room = constant + top[:, still].sum(axis=1), room + slack[:, still].sum(axis=1)
    extra = 0 if base is None else 2 * K
    rows, place = np.unique(free[:, 0], return_inverse=True)
    pad = csr_array((len(top), extra))
    parts = [(hstack([csr_array(top[:, cell]), pad, -np.ones((len(top), 1))]), -constant, np.inf)]
    if len(slack):
        parts.append((hstack([csr_array(slack[:, cell]), csr_array((len(slack), extra + 1))]), SURE - room, np.inf))
    ones = coo_array((np.ones(f), (place, np.arange(f))), (len(rows), f + extra + 1))
    parts.append((ones, 1.0, 1.0))
    if base is not None:
        form, least = by_form(P, free, base, box, apart)
        parts.append((hstack([form, csr_array((form.shape[0], 1))]), least, np.inf))
        if len(kept):
            pairs = np.stack([kept, fixed[kept]], axis=1)
            scores = by_form(P, pairs, base, box, apart)[0][:, len(pairs) :]
            parts.append(
                (hstack([csr_array((scores.shape[0], f)), scores, csr_array((scores.shape[0], 1))]), apart, np.inf)
            )
    A = vstack([part for part, _, _ in parts]).tocsr()
    low, high = (np.concatenate([np.broadcast_to(one[side], one[0].shape[0]) for one in parts]) for side in (1, 2))
    least, most = np.zeros(f), np.ones(f)
    if base is not None:
        least, most = np.append(least, base - box), np.append(most, base + box)
    found = milp(np.append(np.zeros(f + extra), -1.0), integrality=np.r_[np.ones(f), np.zeros(extra + 1)],
                 bounds=Bounds(np.append(least, -np.inf), np.append(most, np.inf)),
                 constraints=LinearConstraint(A, low, high),
                 options={"time_limit": SECONDS, "mip_rel_gap": 0.0})  # fmt: skip
    bound = np.inf if found.mip_dual_bound is None else -float(found.mip_dual_bound)
    if found.x is None:
        return Ends(None, -np.inf if found.status == 2 else bound, found.status == 2)
    decisions = fixed.copy()
    if base is None:
        chosen = found.x[:f] > 0.5
        decisions[free[chosen, 0]] = free[chosen, 1]
    else:
        decisions = decided(P, found.x[f:-1])
    return Ends(decisions, bound, found.status == 0)


class Problem:
    """An objective and limits on a population as linear functions of the decisions of all rows."""

    def __init__(self, P, metric, given):
        self.P, (self.n, self.K) = P, P.shape
        self.table = make_table(P)
        self.limits = c.bind(given, self.table, explicit=True)
        self.metric = fit_metric(confmax.metrics.get(metric), self.table, explicit=True)
        self.rows = Rows(P, self.limits)

    def functions(self, value, at=None):
        """Return linear functions (u) as gains with constants (u,), whose smallest is the program's objective.

        Of a ratio N/D it is N - ``value`` D, of a concave metric the tangent at a confusion ``at``.
        """
        functions, structure = self.metric.as_functions(self.P.mean(axis=0), self.K), self.metric.structure
        if isinstance(structure, Concave):
            slope = self.metric.gains(self.metric.at(at))
            return slope, np.array([value - float(slope.dot(at)[0])])
        constants = getattr(functions, "constants", np.zeros(len(functions)))
        gains = functions.combined(np.eye(len(functions)))
        if isinstance(structure, Ratio):
            (a, b), mix = gains.pair(), np.array([1.0, -value])
            return Gains.reduced((mix @ a)[None], (mix @ b)[None]), np.array([mix @ constants])
        return gains, constants

    def objective(self, value, at=None):
        """Return `functions` as coefficients (u, nK) of the decisions, with the constants (u,)."""
        gains, constants = self.functions(value, at)
        a, b = gains.pair()
        return np.array([((self.P * a[u] + b[u]) / self.n).ravel() for u in range(len(a))]), constants

    def height(self, S, value, at=None):
        """Return the program's objective at one confusion."""
        gains, constants = self.functions(value, at)
        return float((gains.dot(S) + constants).min())

    def of(self, decisions):
        """Return the value of decisions (n,), and the least slack of a limit."""
        C = np.zeros((self.K, self.K))
        np.add.at(C.T, decisions, self.P / self.n)
        S = Confusion.from_matrix(C)
        return float(self.metric.values(S)), float(self.limits.slacks(S).min())


def single(metric, P, given):
    """Return the solution without drawing, and whether it is a single rule that keeps all limits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = confmax.maximize(metric, P, constraints=given, classes=range(P.shape[1]), confusion="model",
                                 calibration=None, randomized=False, on_infeasible="closest")  # fmt: skip
    return found, found.feasible and len(found.rule.weights) == 1


def verdict(seed):
    """Return how a tiny population ended, and how much better the program's rule is."""
    P, metric, given = tiny(seed)
    n, K = P.shape
    try:
        problem = Problem(P, metric, given)
    except ValueError:
        return "contradictory", 0.0
    found, met = single(metric, P, given)
    ours = found.value if met else None
    free = np.stack(np.divmod(np.arange(n * K), K), axis=1)
    # of a ratio N / D: is there a rule with N - value D above zero, for the best value so far
    value, best = ours if met else -10.0, None
    for _ in range(TIMES):
        top, constant = problem.objective(value)
        ends = program(P, top, constant, problem.rows.limits, problem.rows.constants, free, np.zeros(n, dtype=int),
                       base=np.zeros(2 * K), box=np.ones(2 * K))  # fmt: skip
        if ends.decisions is None:
            break
        reached, least = problem.of(ends.decisions)
        if least < 0.0 or reached <= value + 1e-6:
            break
        value, best = reached, reached
    if not met:
        return ("none, as the program says" if best is None else "none, and there is one"), 0.0
    return ("the best" if best is None else "a better one exists"), 0.0 if best is None else best - ours


# --- tables -----------------------------------------------------------------------------------------------------------


class Relaxed(NamedTuple):
    """The linear program over all rows: its value, what other decisions lose (n, K), the gain of its prices (2K,)."""

    value: float
    losses: np.ndarray
    gain: np.ndarray


def relaxed(problem, top, constant):
    """Return the best of all rules, drawn ones included, with its prices; ``top`` as in `program`."""
    n, K = problem.n, problem.K
    slack, room = problem.rows.limits, problem.rows.constants
    A = vstack([hstack([csr_array(-top), np.ones((len(top), 1))]), csr_array(np.c_[-slack, np.zeros(len(slack))])])
    ones = coo_array((np.ones(n * K), (np.repeat(np.arange(n), K), np.arange(n * K))), (n, n * K + 1)).tocsr()
    found = linprog(np.append(np.zeros(n * K), -1.0), A_ub=A.tocsr(), b_ub=np.append(constant, room), A_eq=ones,
                    b_eq=np.ones(n), bounds=[(0, None)] * (n * K) + [(None, None)])  # fmt: skip
    prices = -found.ineqlin.marginals
    scores = (prices[: len(top)] @ top + prices[len(top) :] @ slack).reshape(n, K)
    losses = scores.max(axis=1, keepdims=True) - scores
    # the scores are those of weights and offsets
    P = problem.P
    gain = np.array([np.linalg.lstsq(np.c_[P[:, k], np.ones(n)], n * scores[:, k], rcond=None)[0] for k in range(K)])
    return Relaxed(-found.fun, losses, gain.T.ravel() / np.abs(gain).max())


class Beside(NamedTuple):
    """Losses to the best mixture: of confmax's single rule, the least of any decisions, and of a better rule found.

    Infinite where no single rule was returned, or no better one found. ``proved`` says whether the least is proved to
    be no lower; else it is a bound from below.
    """

    ours: float
    least: float
    proved: bool
    better: float
    n_free: int

    @property
    def is_best(self):
        return self.ours <= self.least * (1.0 + SAME) + ROUGH


def beside(metric, P, given):
    """Return confmax's single rule beside what programs find."""
    problem = Problem(P, metric, given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixed = confmax.maximize(metric, P, constraints=given, classes=range(P.shape[1]), confusion="model",
                                 calibration=None, randomized=True, tol=1e-8)  # fmt: skip
    found, met = single(metric, P, given)
    ratio = isinstance(problem.metric.structure, Ratio)
    level = found.value if ratio and met else mixed.value
    top, constant = problem.objective(level, mixed.statistics)
    best = relaxed(problem, top, constant)
    target = best.value - problem.height(found.statistics, level, mixed.statistics) if met else FARTHEST
    fixed, may = best.losses.argmin(axis=1), best.losses <= target + CLOSE
    loose = may.sum(axis=1) > 1
    free = np.argwhere(may & loose[:, None])
    ours = max(mixed.value - found.value, 0.0) if met else np.inf
    if not len(free):
        return Beside(ours, ours, True, np.inf, 0)
    given_rows = (P, top, constant, problem.rows.limits, problem.rows.constants, free, fixed)
    end = program(*given_rows)
    if ratio:
        gains = problem.metric.as_functions(P.mean(axis=0), problem.K)
        below = float(gains.values(Confusion.stack([mixed.statistics]))[0, 1])
        least = mixed.value - level - max(end.bound, 0.0) / below
    else:
        least = mixed.value - end.bound
    made = Beside(ours, max(least, 0.0), end.complete, np.inf, len(free))
    if made.is_best:
        return made
    search = _better if problem.K > 2 else _best_threshold
    better = mixed.value - search(problem, given_rows, best.gain, loose)
    return made._replace(better=better) if better < ours * (1.0 - SAME) - ROUGH else made


def _best_threshold(problem, *_):
    """Return the value of the best of all thresholds of two classes."""
    decisions = (problem.P[:, 1] >= cut for cut in np.append(problem.P[:, 1], 2.0))
    reached = [problem.of(one.astype(np.int64)) for one in decisions]
    return max((value for value, slack in reached if slack >= -MISSED), default=-np.inf)


def _better(problem, given_rows, base, loose):
    """Return the value of the best rule near the gain ``base`` that a program finds, -inf if it finds none in time."""
    P, fixed = given_rows[0], given_rows[-1]
    scores = np.sort(P * base[: problem.K] + base[problem.K :], axis=1)
    kept = np.flatnonzero(~loose)
    kept = kept[np.argsort(scores[kept, -1] - scores[kept, -2])[:FIRST]]
    for _ in range(TIMES):
        end = program(*given_rows, base=base, box=np.full(2 * problem.K, BOX), apart=NEARER, kept=kept)
        if end.decisions is None:
            break
        # rows that the program did not keep, and that its rule decides otherwise
        wrong = np.flatnonzero((end.decisions != fixed) & ~loose)
        if not len(wrong):
            reached, slack = problem.of(end.decisions)
            return reached if slack >= -MISSED else -np.inf
        kept = np.union1d(kept, wrong)
    return -np.inf


# --- the section ------------------------------------------------------------------------------------------------------


def of_tiny(count):
    ends, worst = Counter(), 0.0
    for seed in range(count):
        end, lack = verdict(seed)
        ends[end] += 1
        worst = max(worst, lack)
    return [*([end, number] for end, number in sorted(ends.items())), ["largest lack of value", f"{worst:.1e}"]]


def of_tables(folder):
    """Return the lines of two tables: by kind of problem, and every problem on every table."""
    found, every = defaultdict(list), []
    for data in load(folder):
        if len(data.P) < LEAST or data.P.size > CELLS:
            continue
        P = data.P.astype(np.float64)
        P /= P.sum(axis=1, keepdims=True)
        for kind, metric, given in cases(P):
            one = beside(metric, P, given)
            found[kind].append(one)
            verdict = "the best" if one.is_best else "proved" if one.proved else "a bound"
            better = f"{one.better:.1e}" if np.isfinite(one.better) else ""
            every.append([data.stem, kind, f"{one.ours:.1e}", f"{one.least:.1e}", verdict, better, one.n_free])
    lines = []
    for kind, runs in found.items():
        ours, least, known = (np.array([getattr(run, part) for run in runs]) for part in ("ours", "least", "better"))
        reached = np.minimum(ours, known)
        losses = (f"{np.median(part):.0e} / {part.max():.0e}" for part in (ours, least, reached))
        lines.append([kind, len(runs), *losses, sum(run.is_best for run in runs), sum(run.proved for run in runs)])
    return lines, every


@benchmark("single-rules", "FOLDER", "constraints: single rules")
def main(folder, count=1000):
    lines, every = of_tables(folder)
    return [
        f"{count} tiny populations, and tables of {LEAST} rows or more. "
        f"Loss to the best mixture, median and most: of confmax's single rule (inf: none returned), the least that any "
        f"decisions of the rows without drawing can have, by a mixed-integer program over the rows that tie, and of "
        f"the better of confmax's rule and one that a program finds (of two classes, of all thresholds); on how many "
        f"tables no decisions lose less than confmax's, and on how many the least is proved.",
        markdown(["tiny populations", "number"], of_tiny(int(count))),
        markdown(["problem", "tables", "confmax", "least of any", "best rule known", "the best", "proved"], lines),
        f'Every problem: "the best" if no decisions lose less by more than {ROUGH:g} and {SAME:.0%}; else whether '
        f"the least is proved, or bounded from below in {SECONDS:g} seconds; the loss of a better rule of this form, "
        f"if a program found one in that time; pairs of row and decision that are free.",
        markdown(["table", "problem", "confmax", "least", "", "better rule", "free"], every, words=2),
    ]
