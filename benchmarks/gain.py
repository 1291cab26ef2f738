"""What tuning gains on the table that ships with confmax: every metric of the demo, on held-out rows, with intervals.

    python -m benchmarks gain

A rule is tuned by default settings on nine of the table's ten folds and decides the rows of the tenth. `confmax.score`
then evaluates these decisions, argmax and p / prior on all rows. The figures go into the section "gain" of
benchmarks/RESULTS.md, and the picture for the README into docs/_static/gain.svg.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

import confmax
from benchmarks.harness import benchmark
from confmax.cli.demo import CLASSES, METRICS, load
from confmax.tables.draws import cross_fit, masks

matplotlib.use("svg")
import matplotlib.pyplot as plt

PICTURE = Path(__file__).parents[1] / "docs" / "_static" / "gain.svg"
# name in the score: name in the picture and its colour
RULES = {
    "argmax": ("argmax(p)", "#9a9a9a"),
    "p/prior": ("argmax(p / prior)", "#d9a441"),
    "rule": ("confmax", "#2f6fb0"),
}


def measured(metric, proba, labels, folds):
    """Return the score of the decisions that rules tuned without each fold make for its rows."""
    decided = np.empty_like(labels)

    def fit(held_out):
        return confmax.maximize(metric, proba[~held_out], labels[~held_out], classes=CLASSES).rule

    for held_out, rule in cross_fit(fit, masks(folds)):
        decided[held_out] = rule.predict(proba[held_out])
    return confmax.score(metric, proba, labels, decided, classes=CLASSES)


def line(metric, found):
    """Return a metric's line of the table."""
    values = [f"{found.estimate(rule).value:.4f}" for rule in RULES]
    gains = [found.difference("rule", to) for to in ("argmax", "p/prior")]
    return " | ".join([metric, *values, *(f"{gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]" for gain in gains)])


def draw(found):
    """Draw a bar for each metric and rule, with its interval, into the picture."""
    plt.rcParams.update({"svg.hashsalt": "gain", "font.size": 9})
    figure, axes = plt.subplots(figsize=(6.8, 2.7), layout="constrained")
    for k, (rule, (name, colour)) in enumerate(RULES.items()):
        estimates = [score.estimate(rule) for score in found.values()]
        values = np.array([estimate.value for estimate in estimates])
        ends = np.array([[estimate.low, estimate.high] for estimate in estimates]).T
        place = np.arange(len(found)) + 0.27 * (k - 1)
        axes.bar(place, values, 0.25, label=name, color=colour)
        axes.errorbar(place, values, abs(ends - values), fmt="none", ecolor="#333333", elinewidth=1, capsize=2)
    axes.set_xticks(range(len(found)), found)
    axes.set(ylabel="value on held-out rows", ylim=(0, 0.75))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", ncols=3, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})


@benchmark("gain")
def main():
    """Measure, write the section and draw the picture."""
    proba, labels, folds = load()
    found = {metric: measured(metric, proba, labels, folds) for metric in METRICS}
    names = [name for name, _ in RULES.values()]
    head = " | ".join(["metric", *names, "confmax - argmax", "confmax - p/prior"])
    lines = [head, "---|---:|---:|---:|---:|---:", *(line(metric, score) for metric, score in found.items())]
    text = (
        f"the {len(labels)} rows of `confmax/data/hpc_cv.csv`: each row is decided by a "
        "rule that was tuned, with default settings, on the nine folds without it; p / prior uses the class sizes of "
        "all rows. Most rules for the smallest recall decide at random and are drawn once; the demo takes the "
        "expectation over draws. In brackets: 95 % percentile intervals of 1000 bootstrap replicates of rows, paired."
    )
    draw(found)
    return [text, "\n".join(lines)]
