"""
PyTorch logits
==============

A small network learns to read handwritten digits; it is trained until it is overconfident. The table of probabilities
stays a tensor: confmax scans it and makes the decisions on the tensor's device, a CPU or a GPU.

This example runs only if PyTorch is installed. Otherwise it is shown without its output.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import confmax

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
kept = (y % 2 == 0) | (np.random.default_rng(0).random(len(y)) <= 0.25)  # one odd digit in four
X, y = X[kept] / 16, y[kept]
X_fit, X, y_fit, y = train_test_split(X, y, train_size=300, stratify=y, random_state=0)
X_tune, X_test, y_tune, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)


def tensor(values):
    return torch.as_tensor(values, dtype=torch.float32)


# %%
# Train
# -----

network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(1000):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(network(tensor(X_fit)), torch.as_tensor(y_fit)).backward()
    optimizer.step()

# %%
# ``softmax`` turns logits into probabilities. If cross-validated log loss favours it, confmax fits a temperature on the
# tuning rows to correct the overconfidence. The rule then applies the temperature automatically.

with torch.no_grad():
    P_tune, P_test = network(tensor(X_tune)).softmax(1), network(tensor(X_test)).softmax(1)
solution = confmax.maximize("g_mean", P_tune, y_tune)
print(solution.calibration)

# %%
# Decide
# ------

decided = solution.predict(P_test)
print(decided.dtype, decided.device, decided[:10].tolist())
print(confmax.score(["g_mean", "accuracy"], P_test.numpy(), y_test, solution))

# %%
# When this was written (torch 2.13), the tuned rule made the same decisions on the test rows as ``p/prior``. Its G-mean
# was .016 above ``argmax``, with an interval that touches zero. This network ranks the digits so well that there is
# little to gain beyond correcting for the class sizes. Tuning adds a temperature here, and the evidence that nothing
# more can be gained.

import matplotlib.pyplot as plt

correction, shown = solution.rule.calibrator, {"softmax": P_test.numpy()}
if correction is not None:
    shown["calibrated"] = np.asarray(correction.transform(P_test.numpy()))
edges = np.linspace(0.1, 1, 10)
figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
axes.plot([0, 1], [0, 1], color="gray", linewidth=1)
for name, P in shown.items():
    top, right = P.max(axis=1), P.argmax(axis=1) == y_test
    place = np.digitize(top, edges[1:-1])
    used = [k for k in range(9) if (place == k).sum() >= 5]
    axes.plot(
        [top[place == k].mean() for k in used],
        [right[place == k].mean() for k in used],
        "o-",
        label=name,
    )
axes.set(
    xlabel="largest probability",
    ylabel="share that is right",
    xlim=(0.3, 1.02),
    ylim=(0.3, 1.02),
)
axes.legend()
