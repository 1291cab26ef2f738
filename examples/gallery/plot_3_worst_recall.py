"""
No class left behind: the smallest recall
=========================================

A naive Bayes classifier reads 1797 handwritten digits (scikit-learn's data). It is right nine times out of ten, but not
for every digit. In this example, the metric is the recall of the worst digit.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import MultinomialNB

import confmax

X, y = load_digits(return_X_y=True)
X_fit, X, y_fit, y = train_test_split(X, y, train_size=500, stratify=y, random_state=0)
X_tune, X_test, y_tune, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)
model = MultinomialNB().fit(X_fit, y_fit)
P_tune, P_test = model.predict_proba(X_tune), model.predict_proba(X_test)

# %%
# Tune
# ----
# Naive Bayes is strongly overconfident, so confmax corrects the probabilities first; cross-validated log loss chooses
# the correction. ``randomized=False`` requests one fixed decision per row; the best rule for this metric may draw
# between several.

solution = confmax.maximize("min_recall", P_tune, y_tune, randomized=False)
print(solution.calibration)
print(confmax.score(["min_recall", "accuracy"], P_test, y_test, solution))

# %%
# The gain is as large as on the tuning rows, but its interval contains zero: the smallest of ten recalls, of about 65
# rows each, is a noisy quantity. Accuracy rises too. This is an effect of the calibration: the raw probabilities were
# so wrong that ``argmax`` was not the most accurate decision.

recalls = {
    "argmax": recall_score(y_test, P_test.argmax(axis=1), average=None),
    "tuned": recall_score(y_test, solution.predict(P_test), average=None),
}
print(
    "on tuning rows:",
    {name: round(value, 3) for name, value in solution.baselines.items()},
    round(solution.value, 3),
)

# %%
# Digit by digit
# --------------

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for k, (name, values) in enumerate(recalls.items()):
    axes.bar(
        np.arange(10) + 0.4 * (k - 0.5),
        values,
        0.4,
        label=f"{name}, smallest {values.min():.2f}",
    )
axes.set(xlabel="digit", ylabel="recall on test rows", xticks=range(10), ylim=(0, 1.12))
axes.legend(loc="upper right", ncols=2)

# %%
# What is the best there is?
# --------------------------
# How large could the smallest recall of the expected confusion matrix be *if the probabilities were right*? With
# ``confusion="model"``, confmax gives an answer with a proof. The gap bounds the distance to the best of all rules,
# mixtures included.

ideal = confmax.maximize(
    "min_recall", P_tune, y_tune, confusion="model", calibration="vector", randomized=True
)
print(
    f"{ideal.value:.4f}, and no rule exceeds {ideal.upper_bound:.4f} ({ideal.n_passes} passes)"
)
