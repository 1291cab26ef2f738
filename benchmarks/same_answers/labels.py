"""Several labels for every row, any number of them, exactly k and at most k: what is asked on every table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import confmax
from benchmarks.harness import Data
from benchmarks.same_answers.answers import Answer, Calls, document
from benchmarks.same_answers.asked import adapted, batched, path, scored, solved, written
from benchmarks.same_answers.classes import WIDE
from benchmarks.same_answers.tables import names, weights
from confmax.metrics import labels as label_metrics

DECISIONS: dict[str, Any] = {"any": "any", "k": 2, "at most k": ("at_most", 2)}
ESTIMATES: dict[str, dict[str, Any]] = {
    "default": {},
    "model": {"confusion": "model", "calibration": None},
    "labels": {"confusion": "labels"},
    "blend": {"confusion": "blend", "shrinkage": False},
}
FEW = ("macro_f1", "micro_f1", "hamming", "g_mean", "macro_precision")  # on other kinds of tables
SETTINGS: dict[str, dict[str, Any]] = {
    "shrinkage yes": {"shrinkage": True},
    "shrinkage 3": {"shrinkage": 3.0, "confusion": "labels"},
    "given": {"calibration": None},
    "labels given": {"calibration": None, "confusion": "labels"},
    "draws": {"randomized": True},
    "single": {"randomized": False},
}
# every kind of limit
LIMITS = (
    ("recall[c0] >= 0.8",),
    ("precision[c1] >= 0.6",),
    ("f1[c1] >= 0.5",),
    ("f_beta[c1](beta=2) >= 0.5",),
    ("jaccard[c0] >= 0.3",),
    ("specificity[c0] >= 0.8",),
    ("fpr[c2] <= 0.1",),
    ("npv[c1] >= 0.8",),
    ("rate[c0] <= 0.2",),
    ("rate[c0] >= 0.4",),
    ("labels_per_row <= 0.9",),
    ("labels_per_row >= 1.2",),
    ("rate[c0] + 2 rate[c1] <= 0.6",),
    ("min_recall >= 0.3",),
    ("recall[c0] >= 0.7", "rate[c1] <= 0.2"),
    ("precision[c0] >= 0.5", "precision[c1] >= 0.5", "recall[c2] >= 0.3", "labels_per_row <= 1.1"),
    ("labels_per_row <= 1.1", "rate[c0] + rate[c1] <= 0.5", "min_recall >= 0.2"),
    # no rule keeps these
    ("recall[c0] >= 0.95", "rate[c0] <= 0.1"),
    ("min_recall >= 0.99", "labels_per_row <= 0.3"),
)
WITHIN = ("macro_f1", "micro_f1", "hamming")  # within all of them
ALL_WITHIN = (LIMITS[0], LIMITS[10])  # of all metrics
PATHS = (
    ("macro_f1", "rate[c0] <="),
    ("micro_f1", "recall[c1] >="),
    ("macro_recall", "labels_per_row <="),
    ("hamming", "precision[c0] >="),
)
REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("macro_f1", {"constraints": "recall[nobody] >= 0.5"}),
    ("macro_f1", {"constraints": "recall >= 0.5"}),
    ("macro_f1", {"constraints": "accuracy >= 0.5"}),
    ("macro_f1", {"constraints": "labels_per_row <= 100"}),
    ("macro_f1", {"constraints": "difference(recall[c0] | group) <= 0.1"}),
    ("macro_f1", {"constraints": ["recall[c0] >= 0.95", "rate[c0] <= 0.01"], "on_infeasible": "raise"}),
    ("micro_f1", {"constraints": ["min_recall >= 0.99", "labels_per_row <= 0.3"], "on_infeasible": "raise"}),
    ("macro_f1", {"constraints": "coverage[c0] >= 0.5"}),
    ("macro_f1", {"confidence": 0.9, "constraints": "recall[c0] >= 0.5"}),
    ("macro_f1", {"abstain": "person"}),
    ("accuracy", {}),
    ("f1_samples", {}),
    ("nothing", {}),
    ("recall[c0]", {}),
    ("macro_f1", {"shrinkage": -1}),
    ("micro_f1", {"shrinkage": 5}),
    ("macro_f1", {"calibration": "matrix"}),
)


def own_mean(r: Any, t: Any, q: Any) -> Any:
    """Return a function of the three vectors that can be traced."""
    return (2.0 * t / (r + q)).mean()


def own_least(r: Any, t: Any, q: Any) -> float:
    """Return one that cannot."""
    return float(np.min(np.asarray(t) / np.asarray(r)) + 0.1 * np.sum(t) / (0.1 + np.sum(q)))


def of_decisions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every kind of decisions, with its name."""
    for name, decisions in DECISIONS.items():
        yield name, {"decisions": decisions}


def label_metric(data: Data, _: Path) -> Calls:
    """All metrics without limits."""
    for kind, decisions in of_decisions():
        for metric in label_metrics.names(None):
            for name, settings in ESTIMATES.items():
                # searches for rules with a number of labels take their time
                searched = name in ("default", "labels") if data.K < WIDE else name == "default" and metric in FEW
                if kind == "any" or searched:
                    yield f"{metric} {kind} {name}", partial(solved, data, metric, **decisions, **settings)
        for metric in (label_metrics.get("macro_f_beta", beta=2.0), label_metrics.get("micro_f_beta", beta=0.5)):
            yield f"{metric!r} {kind}", partial(solved, data, metric, **decisions)
        for own in (own_mean, own_least) if data.K < WIDE else (own_mean,):
            yield f"{own.__name__} {kind}", partial(solved, data, own, **decisions)


def label_setting(data: Data, _: Path) -> Calls:
    """Shrinkage, calibration and draws; rows with weights."""
    weight = weights(len(data.y))
    for kind, decisions in of_decisions():
        for metric in FEW if kind == "any" else FEW[:2]:
            for name, settings in SETTINGS.items():
                yield f"{metric} {kind} {name}", partial(solved, data, metric, **decisions, **settings)
            for name in ("default", "labels"):
                settings = {"sample_weight": weight, **ESTIMATES[name], **decisions}
                yield f"{metric} {kind} weights {name}", partial(solved, data, metric, **settings)


def label_stored(data: Data, _: Path) -> Calls:
    """Tables of other kinds."""
    for kind, decisions in of_decisions():
        for metric in FEW[:3]:
            for place in ("sparse", "tensor", "float32", "frame") if metric == FEW[0] else ("sparse",):
                yield f"{metric} {kind} {place}", partial(solved, data, metric, place=place, **decisions)
            settings = {"place": "sparse", "constraints": LIMITS[0], **decisions}
            yield f"{metric} {kind} sparse within", partial(solved, data, metric, **settings)


def label_limit(data: Data, _: Path) -> Calls:
    """Every kind of limit."""
    for kind, decisions in of_decisions():
        for limits in LIMITS:
            for metric in WITHIN if kind == "any" or data.K < WIDE else WITHIN[:1]:
                for name in ("default", "model", "labels") if kind == "any" else ("default",):
                    settings = {"constraints": limits, **ESTIMATES[name], **decisions}
                    yield f"{metric} {limits} {kind} {name}", partial(solved, data, metric, **settings)


def label_within(data: Data, _: Path) -> Calls:
    """All metrics within a limit on one label, and on a sum; rows with weights."""
    weight = weights(len(data.y))
    for kind, decisions in of_decisions():
        for limits in ALL_WITHIN:
            for metric in sorted({*label_metrics.names(None)} - {*WITHIN}):
                if kind == "any" or (data.K < WIDE and limits == ALL_WITHIN[0]):
                    yield f"{metric} {limits} {kind}", partial(solved, data, metric, constraints=limits, **decisions)
            for metric in WITHIN:
                settings = {"constraints": limits, "sample_weight": weight, **decisions}
                yield f"{metric} {limits} {kind} weights", partial(solved, data, metric, **settings)


def label_parts(data: Data, folder: Path) -> Calls:
    """Rows in parts, of which the sample holds all, or a few."""
    for kind, decisions in of_decisions():
        for metric in FEW if kind == "any" else FEW[:2]:
            for place, small in (("files", False), ("files", True), ("stream", True)):
                where = {"place": place, "folder": folder, "small": small, **decisions}
                for name in ESTIMATES if kind == "any" and small else ("default",):
                    call = partial(solved, data, metric, **where, **ESTIMATES[name])
                    yield f"{metric} {kind} {place} {'small' if small else 'whole'} {name}", call
        where = {"place": "files", "folder": folder, "small": True, **decisions}
        for limits in (LIMITS[0], LIMITS[1], LIMITS[10], LIMITS[14]):
            for metric in WITHIN if kind == "any" else WITHIN[:1]:
                yield f"{metric} {limits} {kind}", partial(solved, data, metric, constraints=limits, **where)
        yield f"own {kind}", partial(solved, data, own_mean, **where)


def label_path(data: Data, folder: Path) -> Calls:
    """Frontiers."""
    for kind, decisions in of_decisions():
        for metric, limit in PATHS if kind == "any" or data.K < WIDE else PATHS[:1]:
            for name in ("default", "model") if kind == "any" else ("default",):
                settings = {"levels": 3, **decisions, **ESTIMATES[name]}
                yield f"{metric} {limit} {kind} {name}", partial(path, data, metric, limit, **settings)
        where = {"place": "files", "folder": folder, "small": True, "levels": 3, **decisions}
        yield f"files {kind}", partial(path, data, "macro_f1", "rate[c0] <=", **where)


def label_moved(data: Data, folder: Path) -> Calls:
    """Rules for rows of other shares, known and unknown."""
    for kind, decisions in of_decisions():
        for metric, limits in (("macro_f1", ()), ("hamming", ()), ("g_mean", ()), ("micro_f1", LIMITS[0])):
            tuned = {"constraints": limits, **decisions}
            for what, how in (("known", {"priors": {"c0": 0.3}}), ("unknown", {}), ("skewed", {"skewed": True})):
                yield f"{metric} {kind} {what}", partial(adapted, data, metric, tuned=tuned, **how)
            where = {"place": "files", "folder": folder, "small": True, "priors": {"c0": 0.3}}
            yield f"{metric} {kind} files", partial(adapted, data, metric, tuned=tuned, **where)


def label_judged(data: Data, folder: Path) -> Calls:
    """Scores, texts of rules, batches, and the estimator."""
    for kind, decisions in of_decisions():
        for limits in ((), LIMITS[0]):
            tuned = {"constraints": limits, **decisions}
            metrics = ["macro_f1", "micro_f1", "hamming"]
            yield f"score {limits} {kind}", partial(scored, data, metrics, tuned, metric="macro_f1")
            yield f"written {limits} {kind}", partial(written, data, tuned, metric="macro_f1")
        for place in ("array", "files", "stream"):
            yield (
                f"batch {kind} {place}",
                partial(batched, data, "macro_f1", {}, place=place, folder=folder, **decisions),
            )
        capped = partial(batched, data, "macro_f1", {"c0": 20}, place="files", folder=folder, **decisions)
        yield f"batch {kind} capped", capped
        yield f"estimator {kind}", partial(estimated, data, decisions["decisions"])


def label_refused(data: Data, _: Path) -> Calls:
    """What cannot be asked, or kept: the sentences."""
    for kind, decisions in of_decisions():
        for metric, settings in REFUSED:
            yield f"{metric} {settings} {kind}", partial(solved, data, metric, **decisions, **settings)


FAMILIES = (
    *(label_metric, label_setting, label_stored, label_limit, label_within, label_parts, label_path, label_moved),
    *(label_judged, label_refused),
)


def estimated(data: Data, decisions: Any) -> Answer:
    """Return what an estimator decides whose features are the logarithms of some probabilities."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    X, new = (np.log(np.asarray(P, dtype=np.float64) + 1e-2) for P in (data.P[:300], data.Q[:200]))
    model = OneVsRestClassifier(LogisticRegression(max_iter=200))
    cv = confmax.MetricMultilabelCV(model, metric="macro_f1", decisions=decisions, cv=3, random_state=0)
    cv.fit(X[:, : data.K], data.y[:300])
    return document({"value": cv.solution_.value, "all": cv.predict(new), "names": names(data.K)}, repr(cv.solution_))
