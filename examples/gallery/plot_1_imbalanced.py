"""
Imbalanced classes: published predictions
=========================================

3467 jobs on a computing cluster are very fast (VF), fast (F), moderate (M) or long (L); one in seventeen is long. The
table of probabilities comes with confmax and holds the out-of-fold predictions of a published classifier. There is no
model to fit, so two parts of the data are enough: folds for tuning the rule, and folds for evaluating it.
"""

from importlib.resources import files

import numpy as np
import pandas as pd

import confmax

table = pd.read_csv(files("confmax") / "data" / "hpc_cv.csv")
classes = ["VF", "F", "M", "L"]
P, y = table[classes].to_numpy(), table["obs"].to_numpy()
test = table["fold"].isin(["Fold08", "Fold09", "Fold10"]).to_numpy()
print(table["obs"].value_counts().to_dict())

# %%
# Tune for the geometric mean of the recalls
# ------------------------------------------
# ``argmax`` finds nine in ten of the very fast jobs and one in five of the moderate ones. The G-mean penalises this
# imbalance: it is zero as soon as one recall is zero.

solution = confmax.maximize("g_mean", P[~test], y[~test], classes=classes)
print(solution)

# %%
# Evaluate the rule on the held-out folds, with intervals. ``p/prior`` divides every probability by the size of its
# class. It is a strong rule for this metric and needs no tuning, so the question is whether tuning improves on *it*.

result = confmax.score(["g_mean", "accuracy"], P[test], y[test], solution, classes=classes)
print(result)
beyond = result.difference("rule", "p/prior", "g_mean")
print(f"beyond p/prior: {beyond.value:+.3f}, interval {beyond.low:+.3f} to {beyond.high:+.3f}")

# %%
# The gain over ``argmax`` is significant: its interval lies above zero. It costs five points of accuracy. The last
# interval contains zero: 1040 rows are too few to distinguish the tuned rule from ``p/prior``.
#
# What moved
# ----------
# The rule finds more than twice as many moderate jobs: jobs that ``argmax`` called fast by mistake are now called
# moderate. The recall of the long jobs does not change. The recall of the very fast jobs is lower.

from confmax.plotting import ConfusionChangeDisplay

display = ConfusionChangeDisplay.from_solution(solution, P[test], y[test])
display.figure_.set_size_inches(11, 4)

# %%
# Another metric, and no gain
# ---------------------------
# Macro F1 counts false alarms as well as misses. Tuning for it gained nothing on this table: on the test folds, the
# rule tuned for macro F1 is slightly worse than ``argmax``, within the noise. Keep ``argmax`` here if you are evaluated
# on macro F1.

macro = confmax.maximize("macro_f1", P[~test], y[~test], classes=classes)
both = {"for g_mean": solution, "for macro_f1": macro}
print(confmax.score("macro_f1", P[test], y[test], rules=both, classes=classes))
print(
    "weights:",
    dict(zip(classes, np.round(macro.rule.gains.pair()[0][0], 2).tolist(), strict=True)),
)
