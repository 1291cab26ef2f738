"""
How certain is a gain? Intervals, folds and displays
====================================================

A gain on some rows is an estimate. This example examines a gain in three ways: bootstrap intervals, the rules of the
folds, and the cost in another metric. The data are breast cancer again (569 patients), with all 30 measurements. The
classifier is nearly perfect here, and in this case an apparent gain from tuning is most likely to be noise.
"""

from importlib.resources import files

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import confmax
from confmax.plotting import ConvergenceDisplay, TradeOffDisplay

X, benign = load_breast_cancer(return_X_y=True)
y = 1 - benign  # 1: malignant
X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
model = make_pipeline(StandardScaler(), LogisticRegression())
tuned = confmax.MetricClassifierCV(model, metric=confmax.metrics.get("f_beta", beta=2)).fit(
    X_fit, y_fit
)

# %%
# Intervals
# ---------
# ``score`` resamples the rows a thousand times. It uses the same rows for every rule, so the differences are paired.

P_test = tuned.predict_proba(X_test)
result = confmax.score([tuned.solution_.metric, "accuracy"], P_test, y_test, tuned.rule_)
print(result)

# %%
# Tuning gained nothing: F2 is .011 *below* that of ``argmax``, with an interval that contains zero. Accuracy is lower,
# and its interval excludes zero. Recall is two points higher, and precision is twelve points lower.
#
# Rules of the folds
# ------------------
# ``fold_rules_`` are tuned without each split's test rows. Their thresholds could have warned you.

print("threshold of the rule:", np.round(tuned.thresholds_[1], 3))
print("of the folds' rules: ", np.round(tuned.fold_thresholds_[:, 1], 3))
print("spread of the log odds:", np.round(tuned.fold_spread_[1], 2))

# %%
# The jackknife turns the spread into a standard error of the threshold's log odds: ``(F - 1) / sqrt(F)`` times the
# spread.

F = len(tuned.fold_rules_)
error = (F - 1) / np.sqrt(F) * tuned.fold_spread_[1]
odds = np.log(tuned.thresholds_[1] / (1 - tuned.thresholds_[1]))
low, high = (1 / (1 + np.exp(-(odds + sign * 2 * error))) for sign in (-1, 1))
print(f"threshold {tuned.thresholds_[1]:.2f}, two standard errors: {low:.2f} to {high:.2f}")

# %%
# The threshold may lie anywhere between a twelfth and two fifths, so it is practically unknown: too few of the 284 rows
# lie between these values. ``argmax``, or a threshold computed from the costs, is the safer choice.

# %%
# Trade-off
# ---------
# The figure shows both metrics on the way from ``argmax`` to the rule and beyond, on test rows.

TradeOffDisplay.from_estimator(tuned, X_test, y_test, other="accuracy").figure_.set_size_inches(
    6, 4
)

# %%
# The certificate
# ---------------
# The bootstrap measures the uncertainty from the choice of rows. The gap compares the rule with all other rules: if the
# model's probabilities are right, no rule has an expected confusion matrix with a value above the bound. The gap needs
# no labels, and it does not show whether the probabilities are right. Here it is for the smallest recall on the table
# of computing jobs that comes with confmax (four classes):

table = pd.read_csv(files("confmax") / "data" / "hpc_cv.csv")[["VF", "F", "M", "L"]].to_numpy()
certified = confmax.maximize("min_recall", table, confusion="model", randomized=True)
print(f"gap {certified.gap:.1e} after {certified.n_passes} passes")
ConvergenceDisplay.from_solution(certified).figure_.set_size_inches(6, 4)
