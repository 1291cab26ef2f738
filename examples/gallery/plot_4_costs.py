"""
A cost table, with a second opinion
===================================

A tumour is malignant or benign (scikit-learn's breast cancer data, 569 patients). Missing a malignant tumour costs 20,
and an unnecessary biopsy costs 3. There is a third decision: ask a second reader, which costs 1. If the probabilities
are right, the cheapest decision for each patient follows from them directly. But the probabilities may be wrong.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import confmax

X, benign = load_breast_cancer(return_X_y=True)
X = X[:, :10]  # the means of the measurements
y = np.where(benign, "benign", "malignant")
classes = ["benign", "malignant"]
X_fit, X, y_fit, y = train_test_split(X, y, train_size=0.4, stratify=y, random_state=0)
X_tune, X_test, y_tune, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)
model = GaussianNB().fit(X_fit, y_fit)
P_tune, P_test = model.predict_proba(X_tune), model.predict_proba(X_test)

# %%
# The cost table has one row per true class and one column per decision. The third column is not a class.

cost = [
    #  benign  malignant  second reader
    [0, 3, 1],  # truly benign
    [20, 0, 1],  # truly malignant
]
metric = confmax.metrics.get("linear", cost=cost)
solution = confmax.maximize(metric, P_tune, y_tune, classes=classes)
print(solution)

# %%
# What it costs per patient
# -------------------------
# What is printed is the mean cost of a row; values in Python are minus the cost. ``expected`` is the textbook rule: it
# takes the cheapest decision under the raw probabilities. Naive Bayes treats ten correlated measurements as
# independent, so it is overconfident.

raw = confmax.maximize(metric, P_tune, classes=classes, confusion="model")
result = confmax.score(
    metric, P_test, y_test, rules={"expected": raw, "calibrated": solution}, classes=classes
)
print(result)
less = result.difference("calibrated", "expected")
print(
    f"calibrated costs {less.value:.3f} less per patient, interval {less.low:+.3f} to {less.high:+.3f}"
)

# %%
# The mean cost falls by a third. On the test rows, one malignant tumour is called benign instead of four, and 28
# patients see a second reader instead of ten. The interval of the difference still contains zero: the difference is
# due to three patients at a cost of 20 each, and 171 rows hold too few such patients to prove a gain.
#
# Who is sent where
# -----------------

import matplotlib.pyplot as plt

names = [*classes, "second reader"]
figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
for axis, (title, rule) in zip(
    axes, {"expected": raw.rule, "calibrated": solution.rule}.items(), strict=True
):
    decided = rule.predict_index(P_test)
    counts = np.array([np.bincount(decided[y_test == name], minlength=3) for name in classes])
    axis.imshow(counts, cmap="Blues")
    for i, j in np.ndindex(counts.shape):
        axis.text(
            j, i, counts[i, j], ha="center", color="white" if counts[i, j] > 60 else "black"
        )
    axis.set(
        title=title,
        xticks=range(3),
        xticklabels=names,
        yticks=range(2),
        yticklabels=classes,
        xlabel="decided",
    )

# %%
# Other prices need no new data. Call ``maximize`` with another cost table and the same probabilities.

for price in (0.2, 1, 3):
    table = confmax.metrics.get("linear", cost=[[0, 3, price], [20, 0, price]])
    rule = confmax.maximize(table, P_tune, y_tune, classes=classes).rule
    decided = rule.predict_index(P_test)
    print(f"second reader for {price}: {np.mean(decided == 2):.0%} of the patients")
