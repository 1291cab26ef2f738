"""
Ordered grades: quadratic kappa
===============================

The data are the progression of diabetes in 442 patients (from scikit-learn), divided into five ordered grades. The
metric is the quadratically weighted kappa: an error of two grades is four times as bad as an error of one grade.
``argmax`` decides the most probable grade and ignores how large an error would be.
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
# 442 rows are too few to set a third aside. Every fold is decided by a model *and a rule* that did not use its rows:
# ``MetricClassifierCV`` tunes on out-of-fold probabilities of its training rows only. The labels are numbers, so their
# order is known. If they were names, ``labels=`` would give the order.

model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
tuned = confmax.MetricClassifierCV(model, metric="quadratic_kappa", fold_rules=False)
folds = StratifiedKFold(5, shuffle=True, random_state=0)
decided = cross_val_predict(tuned, X, grade, cv=folds)
P = cross_val_predict(model, X, grade, cv=folds, method="predict_proba")

# %%
# ``score`` accepts decisions that were made elsewhere, here by five different rules. It computes ``argmax`` and
# ``p/prior`` from the model's out-of-fold probabilities. The fourth rule is an obvious alternative: round the expected
# grade.

expected = np.rint(P @ np.arange(5)).astype(int)
rules = {"tuned": decided, "rounded mean": expected}
result = confmax.score(["quadratic_kappa", "accuracy"], P, grade, rules=rules)
print(result)

# %%
# Tuning gains over ``argmax``. Accuracy is about four points lower, which may be chance: the interval reaches just
# above zero. The rounded mean minimises the expected squared error, but it gains nothing, because kappa also rewards
# using each grade as often as it occurs.

beyond = result.difference("tuned", "rounded mean", "quadratic_kappa")
print(
    f"tuned minus rounded mean: {beyond.value:+.3f}, interval {beyond.low:+.3f} to {beyond.high:+.3f}"
)

# %%
# Where the decisions went
# ------------------------
# ``argmax`` never decides grade 4 and rarely grade 2. The rounded mean avoids both ends. The tuned rule does not weight
# single probabilities: its score for a grade is the expected squared distance to that grade, times a factor, plus an
# offset. It can decide grade 2 for a patient with probability on grades 1 and 3, and it also uses grade 4.

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
# The intervals above account for the choice of patients, but not for the division into folds or the limits of the
# grades. With 442 patients, these matter too. Grades of equal width have few patients at both ends, where ``argmax``
# fails. With five grades of equal size, there is less to gain:


def gain(grade, seed):
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    decided = cross_val_predict(tuned, X, grade, cv=folds)
    P = cross_val_predict(model, X, grade, cv=folds, method="predict_proba")
    result = confmax.score("quadratic_kappa", P, grade, decided).difference("rule", "argmax")
    return f"{result.value:+.3f}, interval {result.low:+.3f} to {result.high:+.3f}"


for seed in (1, 2, 3):
    print(f"equal width, folds {seed}: tuned minus argmax {gain(grade, seed)}")
fifths = np.digitize(progression, np.quantile(progression, [0.2, 0.4, 0.6, 0.8]))
for seed in (0, 1, 2, 3):
    print(f"equal size, folds {seed}: tuned minus argmax {gain(fifths, seed)}")
