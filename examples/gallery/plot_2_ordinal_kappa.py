"""
Ordered grades: quadratic kappa
===============================

The progression of diabetes in 442 patients (scikit-learn's data), cut into five ordered grades as a doctor might.
Being two grades off is four times as bad as one: the quadratically weighted kappa. ``argmax`` decides the most
probable grade and never asks how far off it would be.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import confmax

X, progression = load_diabetes(return_X_y=True)
low, high = progression.min(), progression.max()
grade = np.digitize(
    progression, np.linspace(low, high, 6)[1:-1]
)  # five intervals of equal width
print("patients per grade:", np.bincount(grade).tolist())

# %%
# Few rows: cross-validation instead of a hold-out
# ------------------------------------------------
# 442 rows are too few to give a third away. Every fold is decided by a model *and a rule* that have not seen it:
# ``MetricClassifierCV`` tunes on out-of-fold probabilities of its training rows only. The labels are numbers, so their
# order is known; with names, ``labels=`` gives it.

model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
tuned = confmax.MetricClassifierCV(model, metric="quadratic_kappa", fold_rules=False)
folds = StratifiedKFold(5, shuffle=True, random_state=0)
decided = cross_val_predict(tuned, X, grade, cv=folds)
P = cross_val_predict(model, X, grade, cv=folds, method="predict_proba")

# %%
# ``score`` takes decisions that were made elsewhere, here those of five different rules. The probabilities are the
# model's own out-of-fold ones, for ``argmax`` and ``p/prior``. A fourth rule stands beside them that many would write
# first: round the expected grade.

expected = np.rint(P @ np.arange(5)).astype(int)
rules = {"tuned": decided, "rounded mean": expected}
judged = confmax.score(["quadratic_kappa", "accuracy"], P, grade, rules=rules)
print(judged)

# %%
# Tuning gains over ``argmax``. It costs about four points of accuracy here, which chance could explain: the interval
# reaches just above zero. The rounded mean, which minimises the expected squared error, gains nothing: kappa also asks
# that the grades be used as often as they occur.

beyond = judged.difference("tuned", "rounded mean", "quadratic_kappa")
print(
    f"tuned minus rounded mean: {beyond.value:+.3f}, interval {beyond.low:+.3f} to {beyond.high:+.3f}"
)

# %%
# Where the decisions went
# ------------------------
# ``argmax`` never decides grade 4 and seldom grade 2; the rounded mean avoids both ends. The rule does not weigh single
# probabilities. Its score of a grade is the expected squared distance to it, with a factor and an offset: a patient who
# is torn between grades 1 and 3 can get 2, and grade 4 is not forgotten.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
plain = P.argmax(axis=1)
ways = {"true": grade, "argmax": plain, "rounded mean": expected, "tuned": decided}
for k, (name, values) in enumerate(ways.items()):
    axes.bar(np.arange(5) + 0.2 * (k - 1.5), np.bincount(values, minlength=5), 0.2, label=name)
axes.set(xlabel="grade", ylabel="patients", xticks=range(5))
axes.legend()

# %%
# Other folds, other grades, other figures
# ----------------------------------------
# The intervals above are about patients, not about how they were divided, or where the grades were cut. With 442 of
# them that matters too. Grades of equal width are few at both ends, where ``argmax`` fails; with five grades of equal
# size there is less to gain:


def gain(grade, seed):
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    decided = cross_val_predict(tuned, X, grade, cv=folds)
    P = cross_val_predict(model, X, grade, cv=folds, method="predict_proba")
    found = confmax.score("quadratic_kappa", P, grade, decided).difference("rule", "argmax")
    return f"{found.value:+.3f}, interval {found.low:+.3f} to {found.high:+.3f}"


for seed in (1, 2, 3):
    print(f"equal width, folds {seed}: tuned minus argmax {gain(grade, seed)}")
fifths = np.digitize(progression, np.quantile(progression, [0.2, 0.4, 0.6, 0.8]))
for seed in (0, 1, 2, 3):
    print(f"equal size, folds {seed}: tuned minus argmax {gain(fifths, seed)}")
