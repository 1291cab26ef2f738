"""
Floors for every group, or equal recalls
========================================

Whose diabetes will progress within a year (scikit-learn's diabetes data, 442 patients)? Slim patients are often
missed, since the body mass index (BMI) is the best predictor. In this example, a floor on the recall of both groups,
slim and heavier patients, is compared with a limit on its difference.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import confmax

X, progression = load_diabetes(return_X_y=True, scaled=False)
y = np.where(progression >= 140, "yes", "no")  # about one half of the patients
group = np.where(X[:, 2] < 27, "slim", "heavier")

# every patient has the probability of a model that was fitted on others
model = make_pipeline(StandardScaler(), LogisticRegression())
P = cross_val_predict(model, X, y, cv=5, method="predict_proba")


def recalls(decided, rows):
    """Return accuracy, and the recall of yes among the heavier and the slim patients."""
    right = decided == y[rows]
    cells = [(group[rows] == name) & (y[rows] == "yes") for name in ("heavier", "slim")]
    return np.array([right.mean(), *(right[cell].mean() for cell in cells)])


every = np.arange(len(y))
accuracy, heavier, slim = recalls(np.array(["no", "yes"])[P.argmax(axis=1)], every)
print(f"argmax: accuracy {accuracy:.2f}, recall of heavier {heavier:.2f}, of slim {slim:.2f}")

# %%
# Two limits
# ----------
# A rule of groups has a threshold for each, and needs the group of every row to predict. ``solution.constraints`` has
# the values of the groups.

limits = {
    "floor for every group": "min(recall[yes] | group) >= 0.7",
    "equal recalls": "difference(recall[yes] | group) <= 0.02",
}
for name, limit in limits.items():
    solution = confmax.maximize(
        "accuracy", P, y, constraints=limit, group=group, randomized=False
    )
    parts = solution.constraints[0].by_group
    print(f"{name}:")
    for part in parts:
        threshold = solution.rule.of_group(part.group).threshold
        print(
            f"  {part.group}: yes if p(yes) >= {threshold:.2f}; recall {part.label_value:.2f}"
        )

# %%
# The floor raises the recall of the slim patients, and that of the heavier ones does not fall. A limit on the
# difference levels down: of the heavier patients, fewer are recognised than before.
#
# On other patients
# -----------------
# The rules are tuned on one half of the patients and evaluated on the other, thirty times.

found = {"argmax": [], **{name: [] for name in limits}}
for seed in range(30):
    tune, test = train_test_split(
        every,
        test_size=0.5,
        stratify=[f"{g} {k}" for g, k in zip(group, y, strict=True)],
        random_state=seed,
    )
    found["argmax"].append(recalls(np.array(["no", "yes"])[P[test].argmax(axis=1)], test))
    for name, limit in limits.items():
        rule = confmax.maximize(
            "accuracy", P[tune], y[tune], constraints=limit, group=group[tune]
        ).rule
        found[name].append(recalls(rule.predict(P[test], group=group[test]), test))

for name, values in found.items():
    accuracy, heavier, slim = np.mean(values, axis=0)
    print(
        f"{name}: accuracy {accuracy:.3f}, recall of heavier {heavier:.3f}, of slim {slim:.3f}"
    )

# %%
# On other patients too, the floor helps those whom argmax misses and takes nothing from the others. With equal recalls,
# about one in five of the heavier patients whom argmax recognises is missed, and the slim ones gain no more.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(5, 4.5), layout="constrained")
for marker, (name, values) in zip("os^", found.items(), strict=True):
    axes.plot(*np.array(values)[:, 1:].T, marker, alpha=0.6, label=name)
axes.plot([0.3, 1], [0.3, 1], color="gray", linewidth=1)
axes.axhline(0.7, color="black", linestyle="--")
axes.set(xlabel="recall of the heavier, test rows", ylabel="recall of the slim, test rows")
axes.legend()
