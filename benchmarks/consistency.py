"""Consistency: the psi-regret on populations whose class probabilities are known, against the size of the sample.

    python -m benchmarks.consistency [OUTPUT.png]

A sample of m rows is split in two halves; logistic regression is fitted on one, the rule is tuned on the labels of the
other. The rule is then evaluated on the population itself, and compared with the certified optimum there. The figures
are written to the section "consistency" of benchmarks/RESULTS.md, the plot to benchmarks/figures/consistency.png.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.linear_model import LogisticRegression

import confmax
from benchmarks.harness import report
from confmax.optimize import BayesCG, BruteForce
from confmax.populations import atoms_example, continuous_example, population_confusion
from confmax.theory import rho_schedule, split_sizes

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PLOT = Path(__file__).parent / "figures" / "consistency.png"
SIZES = (100, 300, 1000, 3000, 10_000, 30_000)
SEEDS = range(10)
MEANS = ("g_mean", "h_mean", "q_mean")
CONTINUOUS = (*MEANS, "min_recall", "micro_f1")
ALPHA, KAPPA, SCALE = 0.5, 0.04, 0.05
STYLE = {"BayesCG": ("C0", "o"), "default": ("C1", "s"), "brute force": ("C3", "v"), "argmax": ("0.5", "x")}


def bayes_cg(name, m):
    """Return Algorithm 4 with the rounds and the smoothing that go with m."""
    rho = rho_schedule(name if name in MEANS else "h_mean", m, 3, scale=SCALE)
    return BayesCG(alpha=ALPHA, kappa=KAPPA, rho=rho, smoothing="additive")


def regrets(population, name, optimum, m, parts, methods):
    """Return the regret of every method, tuned on the held-out half, on the population."""
    model, P, y = parts
    metric = confmax.metrics.get(name)
    found = {}
    for method in methods:
        settings = {}
        if method == "BayesCG":
            settings = {"solver": bayes_cg(name, m), "confusion": "labels", "max_passes": m + 10, "randomized": True}
        elif method == "brute force":
            settings = {"solver": BruteForce(resolution=12), "confusion": "labels"}
        if method == "argmax":
            rule = confmax.DecisionRule.from_weights(np.ones(P.shape[1]))
        else:
            rule = confmax.maximize(name, P, y, **settings).rule
        C = population_confusion(population, lambda X, rule=rule: rule.decision_probabilities(predict(model, X)))
        found[method] = optimum - metric.value(C)
    return found


def predict(model, X):
    """Return probabilities for all three classes, also when the fitting half lacked one."""
    P = np.zeros((len(X), 3))
    P[:, model.classes_] = model.predict_proba(X)
    return P


def measure(population, names, methods):
    """Return the regrets {(metric, method): array (sizes, seeds)}."""
    table = population.table()
    optima = {}
    for name in names:
        best = confmax.maximize(name, table.proba, sample_weight=table.weight, randomized=True, max_passes=1000)
        assert best.gap <= 1e-6, (name, best.gap)
        optima[name] = best.value
    out = {(name, method): np.empty((len(SIZES), len(SEEDS))) for name in names for method in methods}
    for i, m in enumerate(SIZES):
        for seed in SEEDS:
            X, y = population.sample(m, np.random.default_rng([m, seed]))
            fit, _ = split_sizes(m, ALPHA)
            model = LogisticRegression(max_iter=1000).fit(X[:fit], y[:fit])
            parts = (model, predict(model, X[fit:]), y[fit:])
            for name in names:
                for method, regret in regrets(population, name, optima[name], m, parts, methods).items():
                    out[name, method][i, seed] = regret
    return out, optima


def draw(axis, title, curves):
    """Draw median and 10-90 % band of each method's regret."""
    for method, values in curves.items():
        colour, marker = STYLE[method]
        shown = np.maximum(values, 1e-6)
        low, middle, high = np.quantile(shown, [0.1, 0.5, 0.9], axis=1)
        axis.fill_between(SIZES, low, high, color=colour, alpha=0.15, linewidth=0)
        axis.plot(SIZES, middle, color=colour, marker=marker, markersize=4, linewidth=1.3, label=method)
    axis.set(title=title, xscale="log", yscale="log")
    axis.grid(alpha=0.3)


def plot(continuous, atoms, path):
    """Save one panel per metric: the continuous population above, the discontinuous one below."""
    figure, axes = plt.subplots(2, 5, figsize=(14, 6), sharex=True, sharey="row", layout="constrained")
    for axis, name in zip(axes[0], CONTINUOUS, strict=True):
        curves = {method: values for (other, method), values in continuous.items() if other == name}
        draw(axis, f"{name}, continuous", curves)
    for axis, name in zip(axes[1], MEANS, strict=False):
        curves = {method: values for (other, method), values in atoms.items() if other == name}
        draw(axis, f"{name}, three atoms", curves)
    for row in axes:
        row[0].set_ylabel("psi-regret (units of the metric)")
    axes[0, 0].set_ylim(3e-5, 1.0)
    axes[1, 0].set_ylim(1e-6, 1.0)
    for axis in axes[1, 3:]:
        axis.axis("off")
    for axis in [*axes[1, :3], *axes[0, 3:]]:
        axis.set_xlabel("m (rows of the sample)")
    for axis in axes[0, 3:]:
        axis.tick_params(labelbottom=True)
    handles = {h.get_label(): h for axis in (axes[0, 0], axes[1, 0]) for h in axis.get_lines()}
    axes[1, 3].legend(
        handles.values(), handles.keys(), loc="upper left", frameon=False, fontsize=11,
        title=f"median of {len(SEEDS)} samples,\nband: 10 % to 90 %",
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def table_of(title, found, optima):
    """Return a table of median regrets with the 10-90 % range at the largest size."""
    lines = [f"{title} | optimum | method | " + " | ".join(f"m = {m}" for m in SIZES) + " | 10 to 90 %, largest m"]
    lines.append("---|---:|---" + "|---:" * (len(SIZES) + 1) + "|")
    for (name, method), values in found.items():
        middle = " | ".join(f"{value:.4f}" for value in np.median(values, axis=1))
        low, high = np.quantile(values[-1], [0.1, 0.9])
        lines.append(f"{name} | {optima[name]:.4f} | {method} | {middle} | {low:.4f} to {high:.4f}")
    return "\n".join(lines)


def main(path):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # samples of 100 rows may lack a class
        continuous, optima = measure(continuous_example(), CONTINUOUS, ("argmax", "BayesCG", "default"))
        atoms, atom_optima = measure(atoms_example(), MEANS, ("brute force", "BayesCG", "default"))
    plot(continuous, atoms, path)
    seconds = time.process_time() - start
    report(
        "consistency",
        f"`python -m benchmarks.consistency` ({seconds:.0f} s of processor time): psi-regret on the population "
        f"(certified optimum minus the rule's value), median of {len(SEEDS)} samples of m rows, "
        f"half for logistic regression, half for the "
        f"rule. BayesCG: {KAPPA:g} m rounds, additive smoothing rho(m) of Corollary 13 with scale {SCALE:g}; default: "
        f"`maximize(metric, P, y)`; brute force: `BruteForce(resolution=12)`.",
        table_of("continuous", continuous, optima),
        table_of("three atoms", atoms, atom_optima),
        reading(continuous, atoms),
    )


def reading(continuous, atoms):
    """Return one paragraph on what the figures show."""
    found = {**{("continuous", *key): value for key, value in continuous.items()},
             **{("atoms", *key): value for key, value in atoms.items()}}  # fmt: skip
    last = {key: float(np.median(values[-1])) for key, values in found.items() if key[2] in ("BayesCG", "default")}
    fall = {
        method: min(np.median(continuous[name, method][0]) / last_of(continuous, name, method) for name in CONTINUOUS)
        for method in ("BayesCG", "default")
    }
    stuck = ", ".join(f"{name} {last_of(atoms, name, 'brute force'):.3f}" for name in MEANS)
    mixed = {method: max(last_of(atoms, name, method) for name in MEANS) for method in ("BayesCG", "default")}
    worst = max(last, key=last.get)
    return (
        f"On the continuous population the regret of both rules falls with m, from the smallest to the largest sample "
        f"by a factor of at least {fall['BayesCG']:.0f} (BayesCG) and {fall['default']:.0f} (default), that of argmax "
        f"does not. The largest regret left is {last[worst]:.4f} ({', '.join(worst)}). For the smallest recall "
        f"and micro F1 the paper proves no rate, for the others its bounds are vacuous at these sizes. With atoms "
        f"(Assumption A fails) brute force stays where it is ({stuck}), since no single rule is optimal there, while "
        f"the mixtures go on falling, to at most {mixed['BayesCG']:.4f} (BayesCG) and {mixed['default']:.4f} "
        f"(default)."
        + (
            " There the default is the slower one: with wrong probabilities and label confusions its line search can "
            "stop early, where the paper's fixed steps go on."
            if mixed["default"] > 3 * mixed["BayesCG"]
            else ""
        )
    )


def last_of(found, name, method):
    return float(np.median(found[name, method][-1]))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PLOT)
