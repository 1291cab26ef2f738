"""
Bounds and measured regrets
===========================

The paper bounds the regret of its algorithms. On a population whose class probabilities are known, regrets can be
measured, so you can see how far the bounds are from what happens.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import confmax
from confmax import metrics
from confmax.optimize import FrankWolfe, FullyCorrective
from confmax.populations import (
    atoms_example,
    continuous_example,
    eta_error,
    population_confusion,
)
from confmax.theory import frank_wolfe_bound, linear_regret_bound, smoothing_constants

population = continuous_example()
table, atoms = population.table(), atoms_example().table()

# %%
# Rounds: Theorem 9
# -----------------
# The metric is the H-mean, smoothed with rho = 0.1 so that its gradient is Lipschitz, as the theorem needs. The paper's
# step ``2 / (j + 1)`` is compared with its bound, ``2 C / (T + 2)`` with the exact curvature constant of erratum E11.
# The population has three points, so that the best rule must draw between rules.

metric = metrics.get("h_mean", rho=0.1, smoothing="additive")
settings = {"sample_weight": atoms.head.weight, "randomized": True}
best = confmax.maximize(metric, atoms.head.proba, **settings, tol=1e-9, max_passes=400)
runs = {
    "paper's step": confmax.maximize(
        metric,
        atoms.head.proba,
        solver=FrankWolfe("open_loop"),
        **settings,
        tol=1e-9,
        max_passes=200,
    ),
    "fully corrective": confmax.maximize(
        metric, atoms.head.proba, solver=FullyCorrective(), **settings, tol=1e-9
    ),
}
constants = smoothing_constants("h_mean", 0.1, atoms.mean_probability())
rounds = np.arange(1, 199)
bound = [
    frank_wolfe_bound(constants.smoothness, int(T), curvature=constants.curvature).value
    for T in rounds
]

# %%
# Probabilities: Lemma 8
# ----------------------
# A plug-in rule for a linear metric, here the accuracy, loses at most ``2 L E`` with E the error of the model's
# probabilities, which :func:`confmax.populations.eta_error` measures. The model is a logistic regression on m rows.

accuracy = metrics.get("accuracy")
optimum = confmax.maximize(accuracy, table.head.proba, sample_weight=table.head.weight).value
errors, losses = [], []
for m in (50, 100, 300, 1000, 3000, 10_000):
    for seed in range(4):
        X, y = population.sample(m, seed)
        if len(np.unique(y)) < 3:
            continue
        model = LogisticRegression(C=100.0).fit(X, y)
        C = population_confusion(
            population, lambda X, model=model: np.eye(3)[model.predict_proba(X).argmax(axis=1)]
        )
        errors.append(eta_error(population, model))
        losses.append(optimum - accuracy.value(C))
errors, losses = np.array(errors), np.array(losses)
limits = [linear_regret_bound(np.eye(3), error).value for error in errors]
print(f"regret of the plug-in rule: at most {np.max(losses / limits):.0%} of its bound")

# %%
# Both bounds hold, and both are loose: they say how fast the regret falls, not how large it is on your table. That is
# what the certificate is for (``solution.gap``).

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.loglog(rounds, bound, color="0.4", label="bound of Theorem 9")
for (name, run), style in zip(runs.items(), ("o-", "s-"), strict=True):
    regret = [(step.n_passes, best.value - step.iterate_value) for step in run.history]
    points = [(n_passes, loss) for n_passes, loss in regret if loss > 1e-9]
    left.loglog(*zip(*points, strict=True), style, markersize=3, label=name)
left.set(xlabel="passes over the table", ylabel="regret", title="smoothed H-mean, rounds")
left.legend(loc=(0.4, 0.55))
order = np.argsort(errors)
right.loglog(errors[order], np.array(limits)[order], color="0.4", label="bound of Lemma 8")
right.loglog(
    errors,
    np.maximum(losses, 1e-7),
    "o",
    markersize=4,
    label="logistic regression on 50 to 10,000 rows",
)
right.set(
    xlabel="error of the probabilities, E |p - eta|",
    ylabel="regret",
    title="accuracy, probabilities",
)
right.legend()
