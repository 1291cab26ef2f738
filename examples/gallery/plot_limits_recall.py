"""
A recall floor that holds on new patients
=========================================

A tumour is malignant or benign (scikit-learn's breast cancer data, 569 patients). At least nine of ten malignant
tumours must be recognised, and then as many patients as possible shall be called right. In this example, a floor that
is kept on the tuning rows is compared with one that is tested.
"""

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import confmax

X, benign = load_breast_cancer(return_X_y=True)
X = X[:, :10]  # the means of the measurements
y = np.where(benign, "benign", "malignant")
settings = {"classes": ["benign", "malignant"], "constraints": "recall[malignant] >= 0.9"}


def split(seed):
    """Return probabilities and labels for tuning and for testing; the model is fitted on the other rows."""
    X_fit, X_rest, y_fit, y_rest = train_test_split(
        X, y, train_size=0.2, stratify=y, random_state=seed
    )
    X_tune, X_test, y_tune, y_test = train_test_split(
        X_rest, y_rest, train_size=0.6, stratify=y_rest, random_state=seed
    )
    model = GaussianNB().fit(X_fit, y_fit)
    return model.predict_proba(X_tune), y_tune, model.predict_proba(X_test), y_test


# %%
# One split
# ---------

P_tune, y_tune, P_test, y_test = split(0)
solution = confmax.maximize("accuracy", P_tune, y_tune, **settings)
limit = solution.constraints[0]
low, high = limit.label_interval
print(
    f"{limit.text}: {limit.label_value:.3f} on {limit.label_rows} tuning rows, interval {low:.3f} to {high:.3f}"
)
print(confmax.score(["recall[malignant]", "accuracy"], P_test, y_test, solution))

# %%
# With labels, the floor is kept on a blend of the labels and what the probabilities expect; on the labels alone the
# recall is slightly lower here. Its interval shows how little these rows say about the floor. So the next rule is tuned
# with ``confidence=0.9``: it is one threshold, which passes an exact test of the floor on all tuning rows.

with warnings.catch_warnings(record=True):
    warnings.simplefilter("always")
    tested = confmax.maximize("accuracy", P_tune, y_tune, confidence=0.9, **settings)
print(tested.guarantee)

# %%
# Forty splits
# ------------
# How often is the floor missed on the test rows? Those are about 70 malignant tumours, so the share on the test rows
# also varies by chance around the true recall.


def recalls(confidence, n_splits=40):
    """Return recall and accuracy on the test rows of every split, and whether the floor was assured."""
    found = []
    for seed in range(n_splits):
        P_tune, y_tune, P_test, y_test = split(seed)
        with warnings.catch_warnings():
            # where the rows are too few, a warning says how many are needed
            warnings.filterwarnings("ignore", "not assured", UserWarning)
            rule = confmax.maximize(
                "accuracy", P_tune, y_tune, confidence=confidence, **settings
            )
        right = rule.predict(P_test) == y_test
        found.append(
            (right[y_test == "malignant"].mean(), right.mean(), rule.constraints[0].assured)
        )
    return np.array(found, dtype=float)


results = {"floor kept on the tuning rows": recalls(None), "floor tested": recalls(0.9)}
for name, found in results.items():
    missed = (found[:, 0] < 0.9).mean()
    print(
        f"{name}: missed in {missed:.0%} of the splits, mean accuracy {found[:, 1].mean():.3f}"
    )
print(f"assured in {results['floor tested'][:, 2].mean():.0%} of the splits")

# %%
# A floor that is just kept on the tuning rows is missed on other rows about half of the time. The tested rule misses it
# in about one split of ten, and pays for that with less than one point of accuracy. If no rule passes the test, a
# warning says how many rows are needed.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for marker, (name, found) in zip("os", results.items(), strict=True):
    axes.plot(found[:, 0], found[:, 1], marker, alpha=0.6, label=name)
axes.axvline(0.9, color="black", linestyle="--")
axes.set(xlabel="recall of malignant on the test rows", ylabel="accuracy on the test rows")
axes.legend()
