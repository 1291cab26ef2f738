"""One class for every row, also where rows may be left undecided: what is asked on every table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import confmax
from benchmarks.harness import Data
from benchmarks.same_answers.answers import Answer, Calls, document
from benchmarks.same_answers.asked import adapted, batched, path, scored, solved, written
from benchmarks.same_answers.tables import groups, names, weights

COMPUTED = ("accuracy", "g_mean", "min_recall", "macro_f1", "cohen_kappa")  # on other kinds of tables
MORE = ("balanced_accuracy", "h_mean", "q_mean", "micro_f1", "quadratic_kappa", "mcc", "macro_jaccard")
METRICS = (*COMPUTED, *MORE, "macro_precision")
ESTIMATES: dict[str, dict[str, Any]] = {
    "default": {},
    "labels": {"confusion": "labels"},
    "mixture": {"confusion": "model", "calibration": None, "randomized": True},
    "single": {"confusion": "model", "calibration": None, "randomized": False},
}
WIDE = 8  # classes, or labels, of tables on which fewer questions are asked: searches take their time
# metrics within limits; {r} is the rarest class of ten rows or more, {m} the most frequent one
LIMITED = (
    ("accuracy", ("recall[{r}] >= 0.5",)),
    ("accuracy", ("min_recall >= 0.2",)),
    ("macro_f1", ("precision[{r}] >= 0.4",)),
    ("g_mean", ("rate[{m}] <= 0.3",)),
    ("min_recall", ("accuracy >= 0.4",)),
    ("cohen_kappa", ("recall[{r}] >= 0.4", "fpr[{m}] <= 0.4")),
)
OF_ONE = (
    ("recall[{r}]", ("precision[{r}] >= 0.5",)),
    ("precision[{r}]", ("recall[{r}] >= 0.3",)),
    ("f1[{m}]", ("rate[{m}] <= 0.3",)),
    ("f1[{r}]", ()),
    ("f_beta[{m}](beta=2)", ("specificity[{m}] >= 0.5",)),
    ("jaccard[{r}]", ("rate[{r}] <= 0.2",)),
    ("rate[{r}]", ("precision[{r}] >= 0.4",)),
    ("npv[{r}]", ("rate[{r}] <= 0.2",)),
    ("specificity[{m}]", ("recall[{m}] >= 0.7",)),
    ("informedness[{r}]", ("precision[{r}] >= 0.3", "rate[{r}] <= 0.4")),
    ("mcc[{r}]", ()),
    ("ams[{r}]", ()),
)
# every other kind of quantity that can be limited
QUANTITIES = (
    ("accuracy", ("f1[{r}] >= 0.3",)),
    ("accuracy", ("f_beta[{r}](beta=2) >= 0.3",)),
    ("accuracy", ("jaccard[{m}] >= 0.3",)),
    ("accuracy", ("specificity[{m}] >= 0.7",)),
    ("accuracy", ("npv[{m}] >= 0.7",)),
    ("accuracy", ("informedness[{r}] >= 0.2",)),
    ("macro_f1", ("micro_f1 >= 0.4",)),
    ("macro_f1", ("micro_f1_once >= 0.3",)),
    ("accuracy", ("balanced_accuracy >= 0.45",)),
    ("accuracy", ("g_mean >= 0.3",)),
    ("accuracy", ("h_mean >= 0.3",)),
    ("accuracy", ("q_mean >= 0.4",)),
    ("macro_f1", ("cohen_kappa >= 0.3",)),
    ("macro_f1", ("quadratic_kappa >= 0.3",)),
    ("macro_f1", ("linear_kappa >= 0.3",)),
    ("macro_f1", ("rate[{r}] + 2 rate[{m}] <= 0.8",)),
    ("macro_f1", ("rate[not {m}] <= 0.6",)),
    ("micro_f1", ("rate[{m}] >= 0.2", "rate[{m}] <= 0.4")),
    ("accuracy", ("min_recall >= 0.25", "recall[{r}] >= 0.4", "rate[{r}] <= 0.3")),
    ("mcc", ("recall[{r}] >= 0.5",)),
    ("macro_jaccard", ("recall[{r}] >= 0.5",)),
    ("h_mean", ("precision[{m}] >= 0.6",)),
    # no rule keeps these
    ("accuracy", ("recall[{r}] >= 0.95", "recall[{m}] >= 0.95", "rate[{m}] <= 0.2")),
    ("macro_f1", ("min_recall >= 0.99",)),
)
GROUPED = (
    ("accuracy", ("difference(recall[{m}] | group) <= 0.05",)),
    ("accuracy", ("min(accuracy | group) >= 0.4",)),
    ("balanced_accuracy", ("ratio(rate[{m}] | group) >= 0.8",)),
    ("recall[{m}]", ("max(fpr[{m}] | group) <= 0.3",)),
    ("macro_f1", ("min(recall[{r}] | group) >= 0.5",)),
    ("macro_f1", ("min(f1[{m}] | group) >= 0.5",)),
    ("accuracy", ("min(precision[{m}] | group) >= 0.6", "recall[{r}] >= 0.3")),
    ("accuracy", ("recall[{m} | women] >= recall[{m} | men] - 0.02",)),
    ("f1[{m}]", ("difference(rate[{m}] | group) <= 0.02",)),
    ("g_mean", ("max(rate[{m}] | group) <= 0.4", "difference(accuracy | group) <= 0.1")),
    ("accuracy", ("min(min_recall | group) >= 0.2",)),
)
UNDECIDED = (
    ("accuracy", ("coverage >= 0.7",)),
    ("coverage", ("accuracy >= 0.7",)),
    ("macro_f1", ("coverage >= 0.8", "coverage[{r}] >= 0.5")),
    ("f1[{r}]", ("coverage >= 0.8",)),
    ("balanced_accuracy", ("coverage >= 0.8", "recall[{r}] >= 0.5", "rate[{m}] <= 0.5")),
)
ASSURED = (
    ("accuracy", ("recall[{m}] >= 0.5",)),
    ("macro_f1", ("rate[{m}] <= 0.6", "accuracy >= 0.4")),
    ("accuracy", ("min_recall >= 0.1",)),
    ("recall[{m}]", ("precision[{m}] >= 0.5",)),
    ("precision[{r}]", ("recall[{r}] >= 0.3",)),
    ("recall[{r}]", ("rate[{r}] <= 0.3", "specificity[{r}] >= 0.5")),
)
PATHS = (
    ("accuracy", "recall[{r}] >="),
    ("macro_f1", "rate[{m}] <="),
    ("g_mean", "accuracy >="),
    ("recall[{r}]", "precision[{r}] >="),
    ("f1[{m}]", "rate[{m}] <="),
)
# questions that are asked again of rows in parts
IN_PARTS = (
    *((metric, ()) for metric in (*COMPUTED, "micro_f1", "mcc", "recall[{m}]", "f1[{r}]")),
    *(LIMITED[0], LIMITED[2], LIMITED[3], LIMITED[5], OF_ONE[0], OF_ONE[2], QUANTITIES[15]),
)
REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("macro_f1", {"constraints": "recall[nobody] >= 0.5"}),
    ("macro_f1", {"constraints": "macro_f1 >= 0.5"}),
    ("macro_f1", {"constraints": "recall[c0] > 0.5"}),
    ("macro_f1", {"constraints": "recall[c0] >= 1.5"}),
    ("macro_f1", {"constraints": "labels_per_row <= 1"}),
    ("macro_f1", {"constraints": "difference(recall[c0] | group) <= 0.1"}),
    ("macro_f1", {"constraints": "recall[c0] >= 0.99", "confidence": 1.5}),
    ("accuracy", {"constraints": ["min_recall >= 0.999"], "on_infeasible": "raise"}),
    ("accuracy", {"constraints": ["recall[c0] >= 0.9", "rate[c0] <= 0.01"], "on_infeasible": "raise"}),
    ("accuracy", {"constraints": "coverage >= 0.5"}),
    ("accuracy", {"abstain": "person"}),
    ("recall[c0]", {}),
    ("hamming", {}),
    ("nothing", {}),
    ("macro_f1", {"confusion": "nothing"}),
    ("macro_f1", {"shrinkage": 3}),
)


def estimates_on(data: Data) -> dict[str, dict[str, Any]]:
    """Return the estimates that are asked for on a table: of a wide one two."""
    return ESTIMATES if data.K < WIDE else {name: ESTIMATES[name] for name in ("default", "mixture")}


def plain(data: Data, _: Path) -> Calls:
    """Metrics without limits."""
    for metric in METRICS:
        for name, settings in estimates_on(data).items():
            yield f"{metric} {name}", partial(solved, data, metric, **settings)
    for metric in sorted({*confmax.metrics.names()} - {*METRICS, "linear"}):
        yield f"{metric} default", partial(solved, data, metric)


def costs(data: Data, _: Path) -> Calls:
    """Tables of costs, also with a further decision, and functions of the confusion matrix."""
    cost = np.random.default_rng(2).integers(1, 6, (data.K, data.K)) * (1.0 - np.eye(data.K))
    asking = np.hstack([cost, np.full((data.K, 1), 0.7)])
    for name, settings in estimates_on(data).items():
        for what, table in (("costs", cost), ("asking", asking)):
            yield f"{what} {name}", partial(solved, data, confmax.metrics.get("linear", cost=table), **settings)
        yield f"own {name}", partial(solved, data, own_mean, **settings)
        limit = confmax.constraints.cost(cost) <= 1.5
        yield f"limit {name}", partial(solved, data, "macro_f1", constraints=limit, **settings)
    yield "own ratio", partial(solved, data, own_ratio)


def own_mean(C: Any) -> Any:
    """Return a function of the confusion matrix that can be traced."""
    return ((C.diagonal() / C.sum(1)) ** 0.5).mean()


def own_ratio(C: Any) -> float:
    """Return one that cannot."""
    return float(np.trace(C)) / (1.0 + float(np.max(C.sum(0))))


def limited(data: Data, _: Path) -> Calls:
    """Metrics within limits, with confidence too."""
    for metric, limits in worded(data, LIMITED):
        for name, settings in (*estimates_on(data).items(), ("confidence", {"confidence": 0.9})):
            yield f"{metric} {limits} {name}", partial(solved, data, metric, constraints=limits, **settings)


def one_class(data: Data, _: Path) -> Calls:
    """Questions about one class."""
    for metric, limits in worded(data, OF_ONE):
        for name, settings in estimates_on(data).items():
            yield f"{metric} {limits} {name}", partial(solved, data, metric, constraints=limits, **settings)


def quantities(data: Data, _: Path) -> Calls:
    """Every kind of quantity that can be limited, and limits that no rule keeps."""
    for metric, limits in worded(data, QUANTITIES if data.K < WIDE else QUANTITIES[::4]):
        for name in ("default", "labels", "mixture") if data.K == 3 else ("default",):
            yield f"{metric} {limits} {name}", partial(solved, data, metric, constraints=limits, **ESTIMATES[name])


def assured(data: Data, _: Path) -> Calls:
    """Limits with a confidence."""
    for metric, limits in worded(data, ASSURED if data.K < WIDE else ASSURED[3:]):
        yield f"{metric} {limits}", partial(solved, data, metric, constraints=limits, confidence=0.8)


def weighted(data: Data, _: Path) -> Calls:
    """Weights of rows, of which some are zero."""
    weight = weights(len(data.y))
    for metric in COMPUTED if data.K < WIDE else COMPUTED[:3]:
        yield metric, partial(solved, data, metric, sample_weight=weight)
    for metric, limits in worded(data, (*LIMITED[:3], *OF_ONE[:3])):
        yield f"{metric} {limits}", partial(solved, data, metric, constraints=limits, sample_weight=weight)


def grouped(data: Data, folder: Path) -> Calls:
    """Limits on two groups of the rows, known, and by their probabilities."""
    group, new = groups(data)
    likely = np.random.default_rng(1).dirichlet([2.0, 1.0], len(data.y))
    by_chance = {"group_proba": likely, "decides": {"group_proba": likely[: len(data.Q)]}}
    beside: dict[str, Any] = {"group": group, "decides": {"group": new}}
    for metric, limits in worded(data, GROUPED if data.K < WIDE else GROUPED[:4]):
        for name in ("default", "labels", "mixture") if data.K < WIDE else ("default",):
            settings = ESTIMATES[name] | beside
            yield f"{metric} {limits} {name}", partial(solved, data, metric, constraints=limits, **settings)
        yield f"{metric} {limits} by probabilities", partial(solved, data, metric, constraints=limits, **by_chance)
    for metric, limits in worded(data, (GROUPED[0], GROUPED[4], GROUPED[7])):
        settings = {"place": "files", "folder": folder, "small": True, "constraints": limits, **beside}
        yield f"{metric} {limits} files", partial(solved, data, metric, **settings)
    ((metric, limit),) = worded(data, [("accuracy", ("difference(recall[{m}] | group) <=",))])
    yield f"{metric} {limit} path", partial(path, data, metric, *limit, levels=3, **beside)


def undecided(data: Data, folder: Path) -> Calls:
    """Rules that abstain."""
    for metric, limits in worded(data, UNDECIDED):
        settings: dict[str, Any] = {"abstain": "person", "constraints": limits}
        for name in ("default", "labels", "mixture") if data.K < WIDE else ("default",):
            yield f"{metric} {limits} {name}", partial(solved, data, metric, **settings, **ESTIMATES[name])
        if data.K < WIDE:
            where = {"place": "files", "folder": folder, "small": True}
            yield f"{metric} {limits} files", partial(solved, data, metric, **settings, **where)
            yield f"{metric} {limits} assured", partial(solved, data, metric, **settings, confidence=0.8)
    yield "path", partial(path, data, "accuracy", "coverage >=", abstain="person")


def stored(data: Data, _: Path) -> Calls:
    """Tables of other kinds."""
    for metric in COMPUTED:
        for place in ("sparse", "tensor", "float32", "frame"):
            yield f"{metric} {place}", partial(solved, data, metric, place=place)
    for metric, limits in worded(data, (LIMITED[0], LIMITED[3], OF_ONE[0])):
        yield f"{metric} {limits} sparse", partial(solved, data, metric, constraints=limits, place="sparse")


def parts(data: Data, folder: Path) -> Calls:
    """Rows in parts, of which the sample holds all, or a few."""
    for metric, limits in worded(data, IN_PARTS):
        for place, small in (("files", True), ("files", False), ("stream", True))[: 3 if data.K < WIDE else 1]:
            where = {"place": place, "folder": folder, "small": small, "constraints": limits}
            for name in (
                ("default", "labels", "mixture") if place == "files" and small and data.K < WIDE else ("default",)
            ):
                call = partial(solved, data, metric, **where, **ESTIMATES[name])
                yield f"{metric} {limits} {place} {'small' if small else 'whole'} {name}", call


def paths(data: Data, folder: Path) -> Calls:
    """Frontiers."""
    for metric, (limit,) in worded(data, [(metric, (limit,)) for metric, limit in PATHS]):
        for name in ("default", "mixture"):
            settings = {key: value for key, value in ESTIMATES[name].items() if key != "on_infeasible"}
            yield f"{metric} {limit} {name}", partial(path, data, metric, limit, **settings)
        where = {"place": "files", "folder": folder, "small": True, "levels": 3}
        if data.K < WIDE:
            yield f"{metric} {limit} files", partial(path, data, metric, limit, **where)
            yield (
                f"{metric} {limit} within",
                partial(path, data, metric, limit, constraints="rate[c0] <= 0.6", levels=3),
            )


def moved(data: Data, folder: Path) -> Calls:
    """Rules for rows of other shares, known and unknown."""
    priors = dict(zip(names(data.K), np.linspace(2.0, 1.0, data.K) / np.linspace(2.0, 1.0, data.K).sum(), strict=True))
    problems = worded(data, (("accuracy", ()), ("macro_f1", ()), ("min_recall", ()), LIMITED[0], LIMITED[3], OF_ONE[0]))
    for metric, limits in problems:
        tuned = {"constraints": limits}
        for what, how in (("known", {"priors": priors}), ("unknown", {}), ("skewed", {"skewed": True})):
            yield f"{metric} {limits} {what}", partial(adapted, data, metric, tuned=tuned, **how)
        where = {"place": "files", "folder": folder, "small": True}
        yield f"{metric} {limits} files", partial(adapted, data, metric, tuned=tuned, priors=priors, **where)


def batches(data: Data, folder: Path) -> Calls:
    """Batches of rows of which at most so many get a decision."""
    few, many = len(data.y) // 20, len(data.y) // 5
    caps = {"none": {}, "one": {"c0": many}, "two": {"c0": many, f"c{data.K - 1}": few}}
    for metric in ("accuracy", "macro_f1"):
        for place in ("array", "files", "stream"):
            for what, cap in caps.items():
                call = partial(batched, data, metric, cap, place=place, folder=folder, randomized=False)
                yield f"{metric} {place} {what}", call


def fitted(data: Data, _: Path) -> Calls:
    """The estimator, whose features are the logarithms of some probabilities, and what is new of other rows."""
    for metric in ("macro_f1", "min_recall"):
        yield metric, partial(estimated, data, metric)
    yield "detect", partial(detected, data)


def judged(data: Data, _: Path) -> Calls:
    """Scores, and texts of rules."""
    for name, (metric, limits) in zip(("plain", "limited"), worded(data, (("macro_f1", ()), LIMITED[0])), strict=True):
        tuned = {"constraints": limits}
        yield f"score {name}", partial(scored, data, ["accuracy", "macro_f1", "min_recall"], tuned, metric=metric)
        yield f"written {name}", partial(written, data, tuned, metric=metric)
    weight = weights(len(data.z), 3)
    yield "score weighted", partial(scored, data, "g_mean", {}, metric="g_mean", sample_weight=weight)
    yield "score groups", partial(scored, data, "g_mean", {}, metric="g_mean", group=groups(data)[1])


def refused(data: Data, _: Path) -> Calls:
    """What cannot be asked, or kept: the sentences."""
    for metric, settings in REFUSED:
        yield f"{metric} {settings}", partial(solved, data, metric, **settings)


FAMILIES = (
    *(plain, costs, limited, one_class, quantities, assured, weighted, grouped, undecided, stored, parts, paths, moved),
    *(batches, fitted, judged, refused),
)


def worded(data: Data, problems: Any) -> list[tuple[str, list[str]]]:
    """Return metrics and limits with the names of classes of a table in them."""
    n = np.bincount(data.y, minlength=data.K)
    rarest = int(np.argmin(np.where(n >= min(10, n.max()), n, n.max() + 1)))
    words = {"r": f"c{rarest}", "m": f"c{int(np.argmax(n))}"}
    return [(metric.format(**words), [one.format(**words) for one in limits]) for metric, limits in problems]


def estimated(data: Data, metric: str) -> Answer:
    """Return what an estimator decides that is fitted on a few hundred rows."""
    from sklearn.linear_model import LogisticRegression

    rows = np.random.default_rng(0).permutation(len(data.y))[:400]
    X, new = (np.log(np.asarray(P, dtype=np.float64) + 1e-6) for P in (data.P[rows], data.Q[:200]))
    model = confmax.MetricClassifierCV(LogisticRegression(max_iter=200), metric=metric, cv=3, random_state=0)
    model.fit(X, data.y[rows])
    return document({"value": float(model.solution_.value), "all": model.predict(new)})


def detected(data: Data) -> Answer:
    """Return whether rows of which some are left out are found to have changed."""
    found = confmax.maximize("macro_f1", data.P, data.y, classes=range(data.K))
    new = confmax.shift.detect(np.asarray(data.Q)[data.z > 0], found)
    return document({"p": new.p_values, "changed": bool(new.changed)}, str(new.sentence))
