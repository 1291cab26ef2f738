"""
Decide 80 %, and leave the rest to a person
===========================================

A model reads handwritten digits (scikit-learn's digits, 1797 images). It is not good enough to read all of them. So it
shall decide four of five, and a person reads the others. Which ones should that be? Then: which digits are left to the
person, and what does it cost to leave no more than three of ten of any digit?
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import confmax

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
X = X + rng.normal(scale=4.0, size=X.shape)  # a bad scan
X_fit, X_rest, y_fit, y_rest = train_test_split(
    X, y, train_size=0.3, stratify=y, random_state=0
)
X_tune, X_test, y_tune, y_test = train_test_split(
    X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
)
model = GaussianNB().fit(X_fit, y_fit)
P_tune, P_test = model.predict_proba(X_tune), model.predict_proba(X_test)

# %%
# One threshold
# -------------
# The accuracy of what is decided is largest if the images with the largest probabilities are decided: then one
# threshold serves all digits (Chow's rule). Naive Bayes is far too sure of itself. confmax calibrates first.

settings = {"classes": list(range(10)), "abstain": "person"}
one = confmax.maximize("accuracy", P_tune, y_tune, constraints="coverage >= 0.8", **settings)
print(confmax.score(["accuracy", "coverage"], P_test, y_test, one))

# %%
# No digit is left out
# --------------------
# Some digits are left to the person far more often than others. Floors on the coverage of each digit say how much of
# that is too much.

floors = ["coverage >= 0.8", *(f"coverage[{digit}] >= 0.7" for digit in range(10))]
each = confmax.maximize("accuracy", P_tune, y_tune, constraints=floors, **settings)


def coverages(rule):
    """Return which share of every digit is decided on the test rows."""
    decided = rule.predict(P_test) != "person"
    return np.array([decided[y_test == digit].mean() for digit in range(10)])


result = confmax.score(
    ["accuracy", "coverage"], P_test, y_test, rules={"one threshold": one, "floors": each}
)
for name, rule in (("one threshold", one), ("floors", each)):
    print(
        f"{name}: accuracy {result.estimate(name, 'accuracy').value:.3f}, "
        f"coverage {result.estimate(name, 'coverage').value:.3f}, "
        f"of the digit that is left out most {coverages(rule).min():.2f}"
    )

# %%
# The floors cost no accuracy here. They hold on the tuning rows; each digit has only about 63 test images, so its
# coverage there also varies by chance.
#
# Other coverages
# ---------------
# The risk-coverage curve shows the loss of what is decided against the share that is decided, here for macro F1. The
# rules of the path are tuned for macro F1 at each coverage; Chow's rule has the same calibrated probabilities.

levels = np.linspace(0.5, 1.0, 11)
path = confmax.frontier("macro_f1", "coverage >=", P_tune, y_tune, levels=levels, **settings)
tuned = path.on(P_test, y_test)
for name, curve in (("Chow's rule", tuned.chow), ("tuned rules", tuned)):
    print(f"{name}: mean loss from 60 to 100 % {1 - curve.area(0.6, 1.0):.3f}")

# %%
# The ten digits are equally frequent, so macro F1 asks for nearly the same decisions as the accuracy. Tuning gains
# nothing: with few tuning rows, thresholds of each class follow the noise. Where some classes are rare it gains much,
# as the page on abstaining shows.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for offset, (name, rule) in zip(
    (-0.2, 0.2), (("one threshold", one), ("floors", each)), strict=True
):
    axes[0].bar(np.arange(10) + offset, coverages(rule), width=0.4, label=name)
axes[0].axhline(0.7, color="black", linestyle="--")
axes[0].set(xlabel="digit", ylabel="share that is decided", xticks=range(10))
axes[0].legend(loc="lower left")
path.plot(axes[1], on=tuned)
