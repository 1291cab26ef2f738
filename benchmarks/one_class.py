"""Questions about one class: what the other classes pay, what new rows say, what is promised, and how long it takes.

    python -m benchmarks one-class FOLDER_OF_NPZ [N_SAMPLES [N_POPULATIONS]]

Every table of the folder with three classes or more asks about three of its classes: the rarest, the middle and the
most frequent of those with four rows or more. The questions are `QUESTIONS`, and "recall" with a floor of .7 and .9 on
the precision is asked with and without ``confidence=0.9``. The cost in accuracy is that against the same decisions of
the class with all other rows decided by argmax of the raw probabilities, on the estimate that tuned the rule. With
confidence, classes with fewer than twenty rows can hardly be assured: the others have a line of their own.

Three known populations, from which samples are drawn with seeds 0, 1, ...: a limit that is called assured and is missed
on the population is violated, and the power is that of the exact test at the best threshold of the population whose
limit is tightened by .05. On two more populations no threshold keeps a precision of .9: the best has .6 and .8. How
often labels answer there shows what they promise by chance.

On tiny populations the value is compared with all thresholds, and with the best mixtures of two and three of them. The
figures are written to the section "one class" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter, defaultdict
from typing import NamedTuple
from unittest import mock

import numpy as np
from scipy.optimize import linprog
from scipy.stats import binom

import confmax
from benchmarks.harness import benchmark, load, markdown, shortest
from confmax.calibration import choose
from confmax.oracle import make_table
from confmax.solution.class_confidence import _Tests as Tests

LEAST_ROWS, TESTABLE = 4, 20  # of a class that is asked about, and that confidence can be expected for
FLOORS = (0.7, 0.9)
QUESTIONS = (
    ("recall, precision >= .7", "recall[{k}]", ("precision[{k}] >= 0.7",)),
    ("recall, precision >= .9", "recall[{k}]", ("precision[{k}] >= 0.9",)),
    ("recall, rate <= share / 2", "recall[{k}]", ("rate[{k}] <= {half}",)),
    ("precision, recall >= .5", "precision[{k}]", ("recall[{k}] >= 0.5",)),
    ("f1", "f1[{k}]", ()),
    ("f1, rate <= share / 2", "f1[{k}]", ("rate[{k}] <= {half}",)),
    ("accuracy, recall >= .8", "accuracy", ("recall[{k}] >= 0.8",)),
)
MOST_LOST = 0.005
CONFIDENCE = 0.9
SIZES = (300, 2000)
GRID = 20_000  # points of a population: rows of a sample hardly ever share one
ROOM = 0.05  # by which a limit is tightened where the power is that of the best threshold
TIES = 1e-12


def quietly(*arguments, **settings):
    """Return the solution of `confmax.maximize` without warnings; None if no rule keeps the limits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return confmax.maximize(*arguments, **settings)
        except confmax.Infeasible:
            return None


# --- tables -----------------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """A table, a class of it, and its share of the tuning rows."""

    data: object
    k: int
    share: float

    def asked(self, metric, limits):
        """Return metric and limits for this class."""
        words = {"k": self.k, "half": repr(float(self.share) / 2)}
        return metric.format(**words), [one.format(**words) for one in limits]


def questions(tables):
    """Return three classes of every table."""
    found = []
    for data in tables:
        n, there = np.bincount(data.y, minlength=data.K), np.bincount(data.z, minlength=data.K)
        order = [k for k in np.argsort(n, kind="stable").tolist() if n[k] >= LEAST_ROWS and there[k] > 0]
        if len(order) >= 3:
            chosen = (order[0], order[len(order) // 2], order[-1])
            found += [Question(data, k, n[k] / n.sum()) for k in chosen]
    return found


def truths(solution, P, y):
    """Return how much of every decision of every row is right (n, K), by the estimate that tuned the rule."""
    calibrator = None if solution.calibration is None else solution.calibration.calibrator
    model = P if calibrator is None else np.asarray(calibrator.transform(P))
    return solution.model_share * model + (1.0 - solution.model_share) * np.eye(P.shape[1])[y]


def accuracy_lost(solution, P, y, k):
    """Return by how much the rule is right less often than with all rows but those of class k decided by argmax."""
    truth = truths(solution, P, y)
    D = solution.rule.decision_probabilities(P)
    own = (D * truth).sum(axis=1).mean()
    others = P.copy()
    others[:, k] = -1.0
    right = truth[np.arange(len(y)), others.argmax(axis=1)]
    best = (D[:, k] * truth[:, k] + (1.0 - D[:, k]) * right).mean()
    return float(best - own)


def on_tables(asked):
    """Return rows of figures for `QUESTIONS`, by default and on labels, and the failures among them."""
    rows = []
    for (name, metric, limits), mode in itertools.product(QUESTIONS, ("auto", "labels")):
        lost, draws, answered, total = [], 0, 0, 0
        for one in asked:
            data = one.data
            wanted, within = one.asked(metric, limits)
            found = quietly(wanted, data.P, data.y, classes=range(data.K), constraints=within, confusion=mode)
            total += 1
            if found is None:
                continue
            answered += 1
            draws += found.rule.is_randomized
            lost.append(accuracy_lost(found, np.asarray(data.P, dtype=np.float64), data.y, one.k))
        shown = "default" if mode == "auto" else mode
        more = sum(loss > MOST_LOST for loss in lost)
        rows.append([name, shown, f"{answered} of {total}", f"{max(lost):.4f}", more, draws])
    return rows


def held_out(asked, **settings):
    """Return mean test recall and shortfall of the precision for every floor; a rule that is not assured has recall 0.

    The last two numbers are how many rules are assured and the share of these below the floor on the test rows.
    """
    found = {}
    for floor in FLOORS:
        recalls, short, answered, below, assured = [], [], 0, 0, 0
        for one in asked:
            data, k = one.data, one.k
            solution = quietly(f"recall[{k}]", data.P, data.y, classes=range(data.K),
                               constraints=f"precision[{k}] >= {floor}", **settings)  # fmt: skip
            recall, missing = 0.0, 0.0
            if solution is not None:
                decided = solution.rule.predict_index(data.Q) == k
                hits = (decided & (data.z == k)).sum()
                recall = hits / (data.z == k).sum()
                missing = max(0.0, floor - hits / decided.sum()) if decided.any() else 0.0
                answered += bool(decided.any())
                if "confidence" in settings:
                    holds = all(one.assured for one in solution.constraints)
                    assured += holds
                    below += holds and missing > 0.0
                    recall *= holds
            recalls.append(recall)
            short.append(missing)
        found[floor] = np.mean(recalls), np.mean(short), answered, assured, below / max(assured, 1)
    return found


def by_starts(tables):
    """Return rows of figures of `held_out` with confidence, by where the sequences of tests start.

    These are all classes of `TESTABLE` rows, of all tables; half and a quarter of the sum of the probabilities are
    compared with what confmax takes in the place of the quarter.
    """
    asked = [Question(data, k, 0.0) for data in tables for k in range(data.K)
             if np.count_nonzero(data.y == k) >= TESTABLE and (data.z == k).any()]  # fmt: skip

    def parts(tests, _):
        return [max(1, round(part * tests.expected)) for part in (1.0, 0.5, 0.25)]

    rows = []
    for words, starts in (("confmax", Tests.starts), ("sum, half, quarter", parts)):
        with mock.patch.object(Tests, "starts", starts):
            for floor, (recall, _, _, assured, below) in held_out(asked, confidence=CONFIDENCE).items():
                rows.append([words, floor, f"{recall:.4f}", f"{assured} of {len(asked)}", f"{below:.3f}"])
    return rows


def beside(tables):
    """Return rows of figures: the accuracy on test rows of a rule, and with other decisions of the other classes.

    The question is the recall of every class of `TESTABLE` rows with a precision of .7.
    """
    found = defaultdict(list)
    for data in tables:
        fitted = choose(make_table(data.P, data.y, None, range(data.K)))
        Q = np.asarray(data.Q, dtype=np.float64)
        calibrated = Q if fitted.calibrator is None else np.asarray(fitted.calibrator.transform(Q))
        for k in np.flatnonzero(np.bincount(data.y, minlength=data.K) >= TESTABLE).tolist():
            solution = quietly(f"recall[{k}]", data.P, data.y, classes=range(data.K),
                               constraints=f"precision[{k}] >= 0.7")  # fmt: skip
            if solution is None or fitted.calibrator is None:
                continue
            decided, used = solution.rule.predict_index(data.Q), solution.rule.calibrator
            kept = getattr(used, "kept", None) == k
            word = "class raw, others calibrated" if kept else "raw" if used is None else "calibrated"
            others = [np.where(np.arange(data.K) == k, -1.0, P).argmax(axis=1) for P in (Q, calibrated)]
            ways = [decided, *(np.where(decided == k, k, other) for other in others)]
            found[word].append([(way == data.z).mean() for way in ways])
    return [[word, len(rows), *(f"{mean:.4f}" for mean in np.mean(rows, axis=0))] for word, rows in found.items()]


# --- known populations ------------------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A population of scores: grid points with their weight, the chance of the class, and what the model says."""

    name: str
    weight: np.ndarray
    chance: np.ndarray
    says: np.ndarray

    def sample(self, n, seed):
        """Return probabilities (n, 3) and labels (n,): the class is the last one, the first two share the rest."""
        rng = np.random.default_rng(seed)
        rows = rng.choice(len(self.weight), n, p=self.weight)
        p = self.says[rows]
        y = np.where(rng.random(n) < self.chance[rows], 2, rng.integers(0, 2, n))
        part = rng.uniform(0.3, 0.7, n)
        return np.c_[(1 - p) * part, (1 - p) * (1 - part), p], y

    def values(self, cut):
        """Return recall, precision, rate and false positive rate of deciding the class from ``cut`` on."""
        decided = self.says >= cut
        mass, hit = self.weight[decided].sum(), (self.weight * self.chance)[decided].sum()
        prior = (self.weight * self.chance).sum()
        return {"recall": hit / prior, "precision": hit / mass if mass else 1.0, "rate": mass,
                "fpr": (mass - hit) / (1 - prior)}  # fmt: skip


def curves():
    """Return three populations: calibrated, twice as sure as it should be, and with a dip of precision at the top."""
    x = (np.arange(GRID) + 0.5) / GRID
    rare = (1 - x) ** 2 * x**0.3
    rare /= rare.sum()
    odds = (x / (1 - x)) ** 2
    dip = np.where(x > 0.93, 0.75, x)
    return (Curve("calibrated", rare, x, x), Curve("too sure", rare, x, odds / (1 + odds)),
            Curve("dip at the top", rare, dip, x))  # fmt: skip


LIMITS = {
    "precision": ("recall[2]", "precision[2] >= {limit}", True, (0.7, 0.6, 0.6)),
    "recall": ("precision[2]", "recall[2] >= {limit}", True, (0.8, 0.8, 0.8)),
    "rate": ("recall[2]", "rate[2] <= {limit}", False, (0.15, 0.15, 0.15)),
    "fpr": ("recall[2]", "fpr[2] <= {limit}", False, (0.1, 0.1, 0.1)),
}


def power(curve, name, limit, n, is_floor):
    """Return the power of the exact test at the best threshold whose limit is tightened by `ROOM`."""
    tight = limit + ROOM if is_floor else limit - ROOM
    best = None
    for cut in curve.says[:: GRID // 500]:
        values = curve.values(cut)
        if (values[name] >= tight) if is_floor else (values[name] <= tight):
            worth = values["precision"] if name == "recall" else values["recall"]
            if best is None or worth > best[0]:
                best = worth, values
    if best is None:
        return 0.0
    values = best[1]
    prior = float((curve.weight * curve.chance).sum())
    among = {"precision": values["rate"], "recall": prior, "rate": 1.0, "fpr": 1.0 - prior}[name]
    m = round(n * among)
    counts = np.arange(m + 1)
    passes = binom.sf(counts - 1, m, limit) <= 0.1 if is_floor else binom.cdf(counts, m, limit) <= 0.1
    return float(binom.pmf(counts, m, values[name])[passes].sum())


def on_populations(n_samples):
    """Return rows of figures: violated and assured shares of samples for every population, limit and size."""
    rows = []
    for place, curve in enumerate(curves()):
        for (name, (metric, text, is_floor, limits)), n in itertools.product(LIMITS.items(), SIZES):
            limit, counted = limits[place], Counter()
            for seed in range(n_samples):
                P, y = curve.sample(n, seed)
                found = quietly(metric, P, y, classes=range(3), constraints=text.format(limit=limit),
                                confidence=CONFIDENCE, on_infeasible="closest")  # fmt: skip
                if not found.constraints[0].assured:
                    continue
                counted["assured"] += 1
                value = curve.values(threshold_of(found.rule))[name]
                counted["violated"] += value < limit - TIES if is_floor else value > limit + TIES
            rows.append([curve.name, f"{name} {'>=' if is_floor else '<='} {limit}", n,
                         f"{counted['violated'] / n_samples:.3f}", f"{counted['assured'] / n_samples:.2f}",
                         f"{power(curve, name, limit, n, is_floor):.2f}"])  # fmt: skip
    return rows


def threshold_of(rule):
    """Return the raw probability of class 2 from which a rule decides it."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        decides = rule.predict_index([[(1 - middle) / 2, (1 - middle) / 2, middle]])[0] == 2
        low, high = (low, middle) if decides else (middle, high)
    return high


def by_chance(n_samples=500):
    """Return rows of figures: how often labels keep a floor of .9 where no threshold keeps it in truth."""
    rows = []
    for best, n in itertools.product((0.6, 0.8), SIZES):
        answers = 0
        for seed in range(n_samples):
            rng = np.random.default_rng(seed)
            s = rng.beta(0.6, 3.0, n)
            y = np.where(rng.random(n) < best * s**0.2 * (s > 0.05), 2, rng.integers(0, 2, n))
            # what the model says is the truth, so that it never promises .9
            p = np.clip(best * s**0.2 * (s > 0.05) + 1e-6 * s, 1e-9, 1 - 1e-9)
            P = np.c_[(1 - p) / 2, (1 - p) / 2, p]
            found = quietly("recall[2]", P, y, classes=range(3), constraints="precision[2] >= 0.9")
            answers += found is not None
        rows.append([best, n, f"{answers / n_samples:.3f}"])
    return rows


# --- tiny populations -------------------------------------------------------------------------------------------------

TINY_METRICS = (
    "recall[{k}]",
    "precision[{k}]",
    "f1[{k}]",
    "specificity[{k}]",
    "jaccard[{k}]",
    "f_beta[{k}]",
    "rate[{k}]",
)
TINY_LIMITS = ("precision[{k}] >= {v}", "recall[{k}] >= {v}", "rate[{k}] <= {v}", "fpr[{k}] <= {v}", "f1[{k}] >= {v}",
               "rate[{k}] >= {v}", "specificity[{k}] >= {v}")  # fmt: skip


def tiny(seed):
    """Return probabilities (n, K), labels or None, a class, a metric, limits, and whether a rule may draw."""
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(3, 5)), int(rng.integers(4, 16))
    P = rng.dirichlet(np.full(K, rng.choice([0.4, 1.0, 3.0])), n)
    if seed % 3 == 0:
        P = np.round(P * 4)
        P[P.sum(axis=1) == 0] = 1.0
        P /= P.sum(axis=1, keepdims=True)
    y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1) if seed % 2 else None
    k = int(rng.integers(K))
    limits = [str(rng.choice(TINY_LIMITS)).format(k=k, v=round(float(rng.uniform(0.1, 0.9)), 2))
              for _ in range(int(rng.integers(1, 3)))]  # fmt: skip
    return P, y, k, str(rng.choice(TINY_METRICS)).format(k=k), limits


def points(P, y, k):
    """Return hits, decided shares and the size of class k for all thresholds on p of k, from never to always."""
    p, truth = P[:, k], P[:, k] if y is None else (y == k).astype(float)
    found = [(0.0, 0.0)]
    found += [(truth[p >= cut].mean() * (p >= cut).mean(), (p >= cut).mean()) for cut in np.unique(p)[::-1]]
    return np.array(found), truth.mean()


def read(metric, hits, decided, prior):
    """Return a quantity as numerator and denominator."""
    f1 = (2 * hits, decided + prior)
    return {
        "recall": (hits, prior),
        "precision": (hits, decided),
        "f1": f1,
        "f_beta": f1,
        "jaccard": (hits, decided + prior - hits),
        "rate": (decided, 1.0),
        "fpr": (decided - hits, 1 - prior),
        "specificity": (1 - prior - decided + hits, 1 - prior),
    }[metric.split("[")[0]]


def slack(limit, hits, decided, prior):
    """Return by how much a limit is kept; a precision of no row is zero."""
    text, sense, number = limit.rsplit(" ", 2)
    N, D = read(text, hits, decided, prior)
    value = np.where(D > TIES, N / np.where(D > TIES, D, 1.0), 0.0)
    return (value - float(number)) * (1 if sense == ">=" else -1)


def best_threshold(metric, limits, corners, prior):
    """Return the best value of all thresholds that keep the limits, minus infinity if none does."""
    hits, decided = corners.T
    kept = np.all([slack(limit, hits, decided, prior) >= -TIES for limit in limits], axis=0)
    N, D = read(metric, hits, decided, prior)
    value = np.where(D > TIES, N / np.where(D > TIES, D, 1.0), 0.0)
    return float(np.where(kept, value, -np.inf).max())


def best_mixture(metric, limits, corners, prior):
    """Return the best value of all mixtures of thresholds, by a program for a ratio (Charnes and Cooper)."""
    hits, decided = corners.T
    N, D = read(metric, hits, decided, prior)
    N, D = np.broadcast_to(N, hits.shape), np.broadcast_to(D, hits.shape)
    rows = []
    for limit in limits:
        text, sense, number = limit.rsplit(" ", 2)
        top, bottom = (np.broadcast_to(part, hits.shape) for part in read(text, hits, decided, prior))
        rows.append((float(number) * bottom - top) * (1 if sense == ">=" else -1))
    found = linprog(-N, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=D[None], b_eq=[1.0], method="highs")
    return -found.fun if found.status == 0 else -np.inf


def judged(seed):
    """Return how `confmax` answers a tiny question: "right", "infeasible", "refused", or what is wrong."""
    P, y, k, metric, limits = tiny(seed)
    K = P.shape[1]
    settings = {"confusion": "model" if y is None else "labels", "calibration": None, "classes": range(K)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = confmax.maximize(metric, P, y, constraints=limits, on_infeasible="closest", **settings)
    except ValueError:
        return "refused"
    corners, prior = points(P, y, k)
    best = best_threshold(metric, limits, corners, prior)
    if not found.feasible:
        return "infeasible" if not np.isfinite(best) else f"no rule was met, best threshold {best}"
    decided = found.rule.predict_index(P) == k
    own = np.array([[(decided * (P[:, k] if y is None else y == k)).mean(), decided.mean()]])
    value = best_threshold(metric, limits, own, prior)
    # argmax may keep limits that no threshold keeps
    if value < best - 1e-9 or abs(value - found.value) > 1e-9:
        return f"value {found.value}, counted {value}, best threshold {best}"
    drawn = best_mixture(metric, limits, corners, prior)
    if y is None and not -1e-9 <= found.upper_bound - drawn <= 1e-6:
        return f"bound {found.upper_bound}, best mixture {drawn}"
    return "right"


# --- time -------------------------------------------------------------------------------------------------------------


def times():
    """Return rows of figures: seconds of a question beyond the calibration."""
    rows = []
    for n, K in ((5611, 18), (100_000, 4)):
        rng = np.random.default_rng(0)
        P = rng.dirichlet(np.linspace(1.0, 0.2, K), n)
        y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        given = choose(make_table(P, y, None, range(K)))
        given = {"calibration": given}
        both = (("", given), (f"confidence={CONFIDENCE}", {**given, "confidence": CONFIDENCE}))
        for what, settings in both:
            seconds, _ = shortest(
                lambda P=P, y=y, K=K, settings=settings: quietly(
                    "recall[1]",
                    P,
                    y,
                    classes=range(K),
                    constraints="precision[1] >= 0.7",
                    **settings,
                )
            )
            rows.append([f"{n:,} x {K}", what, f"{seconds:.3f}"])
    return rows


@benchmark("one-class", "FOLDER", "one class")
def main(folder, n_samples=300, n_populations=2000):
    asked = questions(load(folder, 3))
    parts = [f"{len(asked)} classes of {len({one.data.stem for one in asked})} tables; `{MOST_LOST}` is the most that "
             f"may be lost."]  # fmt: skip
    parts.append(markdown(["question", "estimate", "answered", "most accuracy lost", f"more than {MOST_LOST}", "draws"],
                          on_tables(asked), 3))  # fmt: skip
    rows = []
    sure = {"confidence": CONFIDENCE}
    large = [one for one in asked if np.count_nonzero(one.data.y == one.k) >= TESTABLE]
    runs = (("default", asked, {}), (f"confidence={CONFIDENCE}", asked, sure),
            (f"confidence={CONFIDENCE}, {TESTABLE} rows or more", large, sure))  # fmt: skip
    for words, some, settings in runs:
        for floor, (recall, short, answered, assured, below) in held_out(some, **settings).items():
            more = [assured, f"{below:.3f}"] if settings else ["", ""]
            rows.append([words, floor, f"{recall:.4f}", f"{short:.4f}", answered, *more])
    parts.append("Recall with a floor on the precision, on test rows; with confidence, a rule that is not assured "
                 "counts as a recall of zero.")  # fmt: skip
    parts.append(markdown(["", "floor", "test recall", "shortfall of precision", "decide the class", "assured",
                           "of these below the floor"], rows))  # fmt: skip
    parts.append(f"All classes of {TESTABLE} rows or more with confidence={CONFIDENCE}, by the counts at which tests "
                 f"start.")  # fmt: skip
    parts.append(markdown(["starts", "floor", "test recall", "assured", "of these below the floor"],
                          by_starts(load(folder)), 2))  # fmt: skip
    parts.append("Accuracy on test rows of the rule for `recall[c]` with `precision[c] >= 0.7`, and with all rows but "
                 "those of c decided by the raw or the calibrated probabilities.")  # fmt: skip
    parts.append(markdown(["what the rule reads", "classes", "rule", "others raw", "others calibrated"],
                          beside(load(folder, 3)), 1))  # fmt: skip
    parts.append(f"Known populations, {n_samples} samples each.")
    parts.append(
        markdown(["population", "limit", "rows", "violated", "assured", "power"], on_populations(n_samples), 2)
    )
    parts.append("No threshold keeps a precision of .9, 500 samples each: how often labels answer.")
    parts.append(markdown(["best true precision", "rows", "answered"], by_chance(), 0))
    verdicts = Counter(judged(seed) if n_populations else "" for seed in range(n_populations))
    shown = defaultdict(int)
    for verdict, n in verdicts.items():
        shown[verdict if verdict in ("right", "infeasible", "refused") else "wrong"] += n
    parts.append(f"{n_populations} tiny populations: " + ", ".join(f"{n} {word}" for word, n in sorted(shown.items())))
    for verdict in list(verdicts)[:20]:
        if verdict not in ("right", "infeasible", "refused"):
            print(verdict)
    parts.append(markdown(["table", "", "seconds beyond the calibration"], times(), 2))
    return parts
