"""
Several labels for every row
============================

Which emotions does a piece of music evoke? Most pieces have two of six, so no single class is decided: every label is
decided on its own. Usually that is done at p > 0.5, or at the threshold of each label that was best on some rows. In
this example, both are compared with the thresholds that confmax finds for macro F1, the mean of the labels' F1 scores.

The data are 356 pieces of the emotions data (Trohidis, Tsoumakas, Kalliris, Vlahavas: Multi-label classification of
music into emotions, ISMIR 2008; from the Mulan collection). For each piece and label, the file has the probability of a
logistic regression that was fitted on other pieces, and whether listeners named the emotion.
"""

from pathlib import Path

import numpy as np
from sklearn.metrics import f1_score

import confmax

table = np.load(Path(__file__).with_name("emotions.npz"))
P = np.concatenate([table["P_tune"], table["P_test"]])
Y = np.concatenate([table["Y_tune"], table["Y_test"]])
names = [name.replace("-", ", ") for name in table["labels"].tolist()]
print(f"{len(Y)} pieces, {Y.sum(axis=1).mean():.1f} labels per piece")
print(f"p > 0.5 finds {((P > 0.5) & (Y == 1)).sum() / Y.sum():.0%} of them")

# %%
# One threshold for each label
# ----------------------------
# For ``decisions="any"`` a row gets every label whose probability is above the label's threshold. The rows of the
# probabilities need not sum to one. The solution shows every label apart.

order = np.random.default_rng(0).permutation(len(Y))
tune, test = order[:178], order[178:]
solution = confmax.maximize("macro_f1", P[tune], Y[tune], classes=names, decisions="any")
print(solution)
print("the first test piece:", solution.predict_lists(P[test])[0])

# %%
# On other pieces
# ---------------
# A threshold that was best for a label on 178 pieces need not be so on others, least of all for labels that few pieces
# have. By default, confmax counts what the calibrated model expects beside the labels, and draws the thresholds of
# labels with few pieces towards one that all share. ``confusion="labels"`` without a calibration is the usual search,
# label by label. The pieces are split into halves fifty times: one half tunes, the other is decided.

ways = {
    "p > 0.5": None,
    "search per label": {"confusion": "labels", "calibration": None},
    "confmax": {},
}
f1 = {way: [] for way in ways}
thresholds = {way: [] for way in ways}
for seed in range(50):
    order = np.random.default_rng(seed).permutation(len(Y))
    tune, test = order[:178], order[178:]
    for way, settings in ways.items():
        rule = confmax.LabelRule.from_thresholds([0.5] * len(names))
        if settings is not None:
            rule = confmax.maximize(
                "macro_f1", P[tune], Y[tune], decisions="any", **settings
            ).rule
        f1[way].append(f1_score(Y[test], rule.predict(P[test]), average=None))
        thresholds[way].append(rule.thresholds)

macro = {way: np.mean(values, axis=1) for way, values in f1.items()}
for way, values in macro.items():
    print(f"{way}: macro F1 {values.mean():.3f}")
better = (macro["confmax"] > macro["search per label"]).mean()
print(f"confmax is above the search in {better:.0%} of the splits")

# %%
# Both tuned rules are far above p > 0.5, since a classifier that is right most often misses labels that few pieces
# have. Most of the gain is the search's; confmax adds a little to it, and its thresholds vary less from half to half.
#
# With a model at hand, `confmax.MetricMultilabelCV` does all this by cross-validation, for every classifier of several
# labels: ``MetricMultilabelCV(OneVsRestClassifier(model)).fit(X, Y).predict(X_new)``.

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
rows = np.arange(len(names))
for marker, way in zip("xos", ways, strict=True):
    left.plot(np.mean(f1[way], axis=0), rows, marker, label=way)
for shift, way in ((-0.15, "search per label"), (0.15, "confmax")):
    low, middle, high = np.quantile(thresholds[way], [0.1, 0.5, 0.9], axis=0)
    color = f"C{list(ways).index(way)}"
    right.hlines(rows + shift, low, high, color=color)
    right.plot(middle, rows + shift, "o", color=color, label=way)
left.set_yticks(rows, names)
left.set(xlabel="F1 on other pieces, mean of fifty splits")
right.set(xlabel="threshold: median, and 80 % of the splits")
left.legend()
right.legend(loc="center right")
