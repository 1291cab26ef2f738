"""Limits of groups: against row-level programs on tiny populations, and how many passes a certificate takes.

Tiny populations have 5 to 40 rows, 2 to 4 classes and 2 to 4 groups, rows that repeat and zeros, and 1 to 3 random
limits of groups or of all rows; in two of five of them rules may abstain. Others have groups that are equal, or differ
by at most .001 or .02; there the decisions of the rule itself are looked at.

The tables have no groups. Groups are drawn from the score: a row is in group "b" with a chance that rises from .2 to
.8 with the rank of its probability of the largest class, else in "a". The class of equal opportunity is the one whose
recalls in both groups differ most without limits. Floors are at .9 of the smallest recall that every class reaches in
every group.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.constraints import MIXED, OBJECTIVES, free, of_tables
from benchmarks.harness import benchmark, load, markdown, solve
from benchmarks.programs import EXACT, Program, Tiny, Wish, ended, judged, of_tiny, random_rows, solved

OF_DECIDED = ("accuracy", "coverage", "f1[0]")
OF_EQUAL = (*OBJECTIVES, "recall[1]")
LEVELLED = ("default_credit__logreg", "compas__logreg", "hpc__logreg", "diamonds_cut__logreg")
NEAR = 0.02  # the largest difference of the groups on the tables


def drawn_groups(P, seed=0):
    """Return groups (n,) "a" and "b" that are drawn from the score, of probabilities (n, K)."""
    score = P[:, P.mean(axis=0).argmax()]
    rank = score.argsort(kind="stable").argsort() / (len(P) - 1)
    return np.where(np.random.default_rng(seed).random(len(P)) < 0.2 + 0.6 * rank, "b", "a")


def tiny(seed):
    """Return a population."""
    rng = np.random.default_rng(seed)
    P, group = rows_in_groups(rng, seed)
    K = P.shape[1]
    abstain = seed % 5 < 2
    objective = str(rng.choice(OF_DECIDED if abstain else OBJECTIVES))
    limits = [of_groups(rng, K, abstain)]
    for _ in range(int(rng.integers(3))):
        limits.append(of_all_rows(rng, K, abstain) if rng.random() < 0.4 else of_groups(rng, K, abstain))
    if abstain and objective != "coverage":
        # without a floor next to nothing is decided
        limits.append(Wish("coverage", str(rng.choice(["all", "min"])), ">=", number(rng, 0.9)))
    return Tiny(P, group, objective, limits, abstain)


def equal_tiny(seed):
    """Return a population with limits that keep the values of groups equal, or nearly."""
    rng = np.random.default_rng([seed, 1])
    P, group = rows_in_groups(rng, seed)
    K, limits = P.shape[1], {}
    for _ in range(int(rng.integers(1, 3))):
        name = str(rng.choice(["rate[{}]", "recall[{}]", "fpr[{}]", "accuracy"])).format(rng.integers(K))
        apart = float(rng.choice([0.0, 0.0, 0.001, 0.02]))
        compared = Wish(name, "difference", "<=", apart), Wish(name, "ratio", ">=", 1.0 - apart)
        limits[name] = compared[int(rng.random() < 0.2)]
    further = (
        Wish(f"rate[{rng.integers(K)}]", "all", "<=", number(rng, 1.0)),
        Wish("recall[0]", "min", ">=", number(rng, 0.7)),
    )
    more = [one for one in further if rng.random() < 0.25]
    return Tiny(P, group, str(rng.choice(OF_EQUAL)), [*limits.values(), *more], False)


def rows_in_groups(rng, seed):
    """Return probabilities (n, K) and groups (n,)."""
    K, G, n = int(rng.integers(2, 5)), int(rng.integers(2, 5)), int(rng.integers(5, 41))
    P = random_rows(rng, seed, n, K)
    group = np.append(np.arange(G), rng.integers(0, G, n - G))
    for g in range(G):
        # every class has a chance in every group
        P[g, P[group == g].sum(axis=0) == 0] = 0.1
    return P / P.sum(axis=1, keepdims=True), group


def number(rng, most):
    """Return a random limit."""
    return round(float(most * rng.uniform(0.02, 1.0)), 4)


def of_groups(rng, K, abstain):
    """Return a limit of groups; differences and ratios need denominators that do not depend on the rule."""
    k = int(rng.integers(K))
    compared = str(
        rng.choice(["rate[{}]", "coverage"] if abstain else ["recall[{}]", "fpr[{}]", "rate[{}]", "accuracy"])
    )
    return (
        Wish(f"recall[{k}]", "min", ">=", number(rng, 0.8)),
        Wish(f"precision[{k}]", "min", ">=", number(rng, 0.7)),
        Wish(f"f1[{k}]", "min", ">=", number(rng, 0.6)),
        Wish("accuracy", "min", ">=", number(rng, 0.8)),
        Wish(f"fpr[{k}]", "max", "<=", number(rng, 0.6)),
        Wish(f"rate[{k}]", "max", "<=", number(rng, 1.0)),
        Wish(compared.format(k), "difference", "<=", number(rng, 0.3)),
        Wish(compared.format(k), "ratio", ">=", number(rng, 1.0)),
    )[int(rng.integers(8))]


def one_sided_tiny(seed):
    """Return a population with limits that compare two groups by name, on sums of rates too, some of them of zero."""
    rng = np.random.default_rng([seed, 2])
    P, group = rows_in_groups(rng, seed)
    K = P.shape[1]
    limits = {}
    for _ in range(int(rng.integers(1, 4))):
        k, other = rng.permutation(K)[:2]
        a, b = rng.permutation(np.unique(group))[:2]
        summed = f"rate[{k}] + {rng.choice([1.0, 0.5, 2.0])} rate[{other}]"
        name = str(rng.choice([f"rate[{k}]", f"recall[{k}]", f"fpr[{k}]", summed, f"rate[not {k}]"]))
        # of the same quantities and groups one limit at most, as two may leave no room between them
        limits[name, min(a, b)] = (
            Wish(name, f"{a} {b}", str(rng.choice([">=", "<="])), float(rng.choice([0.0, -0.02, 0.1]))),
            Wish(name, "all", "<=", number(rng, 0.8)),
            Wish(name, "max", "<=", number(rng, 0.8)),
            Wish(name, "difference", "<=", float(rng.choice([0.0, 0.05]))),
        )[int(rng.choice(4, p=[0.6, 0.2, 0.1, 0.1]))]
    return Tiny(P, group, str(rng.choice(OF_EQUAL)), list(limits.values()), False)


def of_all_rows(rng, K, abstain):
    """Return a limit of all rows."""
    k = int(rng.integers(K))
    return (
        Wish(f"recall[{k}]", "all", ">=", number(rng, 0.9)),
        Wish(f"rate[{k}]", "all", "<=", number(rng, 1.0)),
        Wish("coverage", "all", "<=", number(rng, 1.0))
        if abstain
        else Wish("min_recall", "all", ">=", number(rng, 0.5)),
    )[int(rng.integers(3))]


def verdict(seed):
    """Return how the answer on a tiny population ended, passes, and the lack of value."""
    return judged(tiny(seed))


def verdict_on_equal(seed, made=equal_tiny):
    """Return the same of a population whose groups are equal or nearly; nothing is on the edge.

    The limits are measured at the decisions of the rule: they are kept if none is missed by more than 1e-9.
    """
    one = made(seed)
    program, solution = Program(one), solved(one)
    best = program.best(one.metric)
    if best is None or solution.infeasibility is not None:
        right = best is None and solution.infeasibility is not None
        proved = solution.infeasibility is not None and "(proved)" in solution.infeasibility
        kind = "infeasible, proved" if proved else "infeasible, not proved"
        return (kind if right else "wrongly infeasible or not"), solution.n_passes, 0.0
    D = solution.rule.decision_probabilities(one.P, group=one.group if solution.rule.groups else None)
    if (program.limits * D).sum(axis=(1, 2)).min() < -EXACT:
        return "limit missed", solution.n_passes, best - solution.value
    return ended(solution, 1.0, best)


def recalls(P, group, D):
    """Return the recalls (G, K) of decision probabilities D (n, K) in every group, under probabilities (n, K)."""
    return np.array([(P * D)[group == g].sum(axis=0) / P[group == g].sum(axis=0) for g in np.unique(group)])


def differing(P, group):
    """Return the class whose recalls in the groups differ most without limits."""
    return int(np.ptp(recalls(P, group, np.eye(P.shape[1])[P.argmax(axis=1)]), axis=0).argmax())


def equal(P, *names):
    """Return limits on the differences of quantities of all classes."""
    return [f"difference({name}[{j}] | group) <= {NEAR}" for name in names for j in range(P.shape[1])]


def cases(P):
    """Yield the kind of problem, its objective and its limits, which bind, on probabilities P (n, K)."""
    group = drawn_groups(P)
    yield "equal opportunity", "accuracy", [f"difference(recall[{differing(P, group)}] | group) <= {NEAR}"]
    yield "equal recalls", "accuracy", equal(P, "recall")
    yield "equalised odds", "accuracy", equal(P, "recall", "fpr")
    least = 0.9 * min(free("min_recall", P[group == g]).value for g in np.unique(group))
    yield "K floors per group", "accuracy", [f"min(recall[{j}] | group) >= {least!r}" for j in range(P.shape[1])]


def levelled(folder):
    """Return a line for each table and limit: accuracy, a class's recall in both groups, and the share of rows drawn.

    The floor is what the smaller recall is under the difference, so the rule within the difference keeps it too.
    """
    lines = []
    for data in load(folder):
        if data.stem not in LEVELLED:
            continue
        P = data.proba
        group = drawn_groups(P)
        k, floor = differing(P, group), 0.0
        for kind in ("no limit", "difference", "floor", "equal recalls", "equalised odds"):
            limits = {
                "no limit": "max(rate[0] | group) <= 1",
                "difference": f"difference(recall[{k}] | group) <= {NEAR}",
                "floor": f"min(recall[{k}] | group) >= {floor!r}",
                "equal recalls": equal(P, "recall"),
                "equalised odds": equal(P, "recall", "fpr"),
            }[kind]
            solution = solve("accuracy", P, constraints=limits, group=group, classes=data.classes, **MIXED)
            D = solution.rule.decision_probabilities(P, group=group)
            both = recalls(P, group, D)[:, k]
            floor = float(both.min()) if kind == "difference" else floor
            drawn = (D.max(axis=1) < 1 - 1e-9).mean()
            texts = (f"{one:.4f}" for one in (solution.value, *both))
            lines.append([data.stem, kind, *texts, f"{drawn:.1%}"])
    return lines


@benchmark("groups", "FOLDER [POPULATIONS]")
def groups(folder, count=2000):
    """Compare limits of groups with programs, and count passes."""
    number, kinds = of_tables("groups", folder, cases, drawn_groups)
    return [
        f"tiny populations with two to four groups against linear programs over all rows, and {number} tables with "
        f"groups that are drawn from the score: the table is read as that of constraints. In the equal groups the "
        f"values are equal, or differ by at most .001 or .02, and 44 % of the populations have further limits; limits "
        f"are measured at the decisions of the rules, and kept to 1e-9. Equal recalls are those of all classes; "
        f"equalised odds limit their false positive rates too.",
        of_tiny(
            [
                ("limits of groups", count, verdict),
                ("equal groups", count // 4, verdict_on_equal),
                ("two groups by name, sums of rates", count // 2, partial(verdict_on_equal, made=one_sided_tiny)),
            ]
        ),
        kinds,
    ]


@benchmark("levelling-down", "FOLDER", "groups: levelling down")
def levelling_down(folder):
    """Compare the best accuracy within a difference of recalls with that within a floor."""
    return [
        "the best accuracy within limits, the recalls in both groups of the class whose recalls differ most without "
        "limits, and the share of the rows that are drawn. The difference of these recalls is at most .02; the floor "
        "for both is what the smaller one is then; equal recalls are those of all classes, equalised odds limit their "
        "false positive rates too.",
        markdown(["table", "limit", "accuracy", "recall in a", "recall in b", "drawn"], levelled(folder), 2),
    ]
