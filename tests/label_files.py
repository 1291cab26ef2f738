"""Rows with several labels in files, and a solution that was tuned on them."""

from pathlib import Path

import numpy as np
import pytest

import confmax

pytest.importorskip("pyarrow")  # which commands read files with

NAMES = ["sea", "sun", "rain"]
ANY = ("--decisions", "any")


def rows(n=120):
    """Return probabilities (n, 3) with four digits and labels (n, 3)."""
    draw = np.random.default_rng(0)
    P = draw.beta(1, 2, (n, 3)).round(4)
    return P, (draw.random(P.shape) < P**1.3).astype(int)


def table(name="t.csv", probabilities="p_{}", truth="{}", tags=True):
    """Write the rows as CSV, the columns of probabilities in another order than those of the labels."""
    P, Y = rows()
    columns = {"id": [f"k{k}" for k in range(len(P))]}
    columns |= {truth.format(one): Y[:, k].astype(str) for k, one in enumerate(NAMES)} if truth else {}
    columns |= {probabilities.format(NAMES[k]): [f"{p:.4f}" for p in P[:, k]] for k in (2, 0, 1)}
    if tags:
        columns["tags"] = ["|".join(np.array(NAMES)[row == 1]) for row in Y]
    lines = [",".join(columns), *(",".join(cells) for cells in zip(*columns.values(), strict=True))]
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def tuned():
    P, Y = rows()
    return confmax.maximize("macro_f1", P, Y, classes=NAMES, decisions="any")
