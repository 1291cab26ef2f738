"""Confusion matrices of argmax and of the rule, and their difference, as charts.

In the difference blue is better and orange is worse: more of a class on the diagonal, fewer of it beside the diagonal.
Decisions that are no classes are neither.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array
from confmax.evaluate.figures import Figures
from confmax.evaluate.palette import STEPS
from confmax.page.spec import Chart, Spec, most_changed, spec, tall

MOST_CELLS, MOST_WRITTEN = 30, 8  # classes of a matrix, of one with numbers in it
MOST_BESIDE = 12  # columns of matrices that stand three in a line
SHORT = 4  # letters of names that stand upright under their columns


def shown_classes(figures: Figures) -> list[int]:
    """Return the classes whose rows and columns the matrices show: those with the most rows decided otherwise."""
    K = len(figures.classes)
    change = np.abs(figures.after - figures.before)
    # of equal ones those that have rows
    here = 1e-9 * (figures.before.sum(axis=1) > 0)
    return most_changed(change.sum(axis=1) + change[:, :K].sum(axis=0) + here, MOST_CELLS)


def row_shares(C: Array) -> Array:
    """Return counts (K, M) as shares of each row; NaN for a class without rows."""
    total = C.sum(axis=1, keepdims=True)
    return np.divide(C, total, out=np.full_like(C, np.nan), where=total > 0)


def limits(figures: Figures) -> tuple[float, float]:
    """Return the largest share, of both rules, and its largest change among the classes that are shown."""
    kept = shown_classes(figures)
    columns = [*kept, *range(len(figures.classes), figures.after.shape[1])]
    before, after = (row_shares(C)[np.ix_(kept, columns)] for C in (figures.before, figures.after))
    found = (np.stack([before, after]), np.abs(after - before))
    share, change = (float(np.nan_to_num(each).max()) for each in found)  # no class that is shown may have rows
    return max(share, 1e-9), max(change, 1e-9)


def matrices(figures: Figures) -> list[Chart]:
    """Return the three charts."""
    before, after = row_shares(figures.before), row_shares(figures.after)
    panels = (
        ("before", before, "argmax"),
        ("after", after, "tuned rule"),
        ("difference", after - before, "difference"),
    )
    return [_matrix(figures, name, shares, title) for name, shares, title in panels]


def goodness(change: Array, i: int, j: int) -> float:
    """Return a change (K, M) of row i and column j with the sign that is positive where it is an improvement."""
    return 0.0 if j >= len(change) else float(change[i, j]) * (1.0 if i == j else -1.0)


def _matrix(figures: Figures, name: str, shares: Array, title: str) -> Chart:
    kept, names = shown_classes(figures), figures.names
    columns = [*kept, *range(len(figures.classes), shares.shape[1])]
    down, across = [names[k] for k in kept], [names[k] for k in columns]
    signed = name == "difference"
    data: list[Spec] = [
        {"true": names[i], "decided": names[j], "value": shares[i, j],
         **({"good": goodness(shares, i, j)} if signed else {})}
        for i in kept
        for j in columns
        if np.isfinite(shares[i, j])
    ]  # fmt: skip
    most = limits(figures)[int(signed)]
    scale = {
        "type": "quantize",
        "domain": [-most if signed else 0.0, most],
        "range": [f"var(--{'change' if signed else 'share'}-{k})" for k in range(STEPS)],
    }
    tip = [
        {"field": "true", "title": "true"},
        {"field": "decided", "title": "decided"},
        {"field": "value", "title": "share of the true class", "format": "+.4f" if signed else ".4f"},
    ]
    place = {"x": _axis("decided", across), "y": _axis("true", down)}
    colour = {"field": "good" if signed else "value", "type": "quantitative", "scale": scale}
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "stroke": "var(--card)", "strokeWidth": 1},
            "encoding": {**place, "color": colour, "tooltip": tip},
        }
    ]
    if len(columns) <= MOST_WRITTEN:
        strong = f"abs(datum.{colour['field']}) > {0.56 * most:.6g}"
        ink = {"condition": {"test": strong, "value": "var(--on-strong)"}, "value": "var(--on-weak)"}
        text = {"field": "value", "type": "quantitative", "format": "+.2f" if signed else ".2f"}
        mark = {"type": "text", "fontSize": 12, "tooltip": None}
        layers.append({"mark": mark, "encoding": {**place, "text": text, "color": ink}})
    description = f"Confusion matrix, {title}: shares of the rows of each true class, {len(down)} classes."
    height = tall(len(down), 40 if len(down) <= MOST_WRITTEN else 15) + 4 * max(map(len, across))
    return Chart(f"confusion-{name}", description, spec(layers, data, height))


def _axis(field: str, names: list[str]) -> Spec:
    axis = {"labelLimit": 80, "ticks": False, "domain": False, "labelPadding": 5}
    if field == "decided":
        few = len(names) <= MOST_WRITTEN
        axis |= {"labelAngle": -90 if not few else 0 if max(map(len, names)) <= SHORT else -45}
        axis["labelOverlap"] = len(names) > MOST_BESIDE
    return {"field": field, "type": "nominal", "sort": names, "title": field, "axis": axis, "scale": {"domain": names}}
