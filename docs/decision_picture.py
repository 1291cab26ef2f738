"""Draw one decision that a rule changes: ``python -m docs.decision_picture`` in the root of the repository.

It tunes a rule for the G-mean on half of the rows that come with confmax, takes a long job of the other half that
argmax decides as a fast one, and writes docs/_static/decision.svg. The front page holds the picture as a part of the
page, so that its colours are those of the page, light or dark; by itself it has colours that both can bear.
"""

from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

import confmax

PICTURE = Path(__file__).parent / "_static" / "decision.svg"
CLASSES = ("VF", "F", "M", "L")
ROW = 3449  # a long job; argmax decides F
HEIGHT = 34  # of a line
BAR = 130  # the longest
STYLE = """.decision { display: block; width: 100%; max-width: 34rem; margin: 1.5rem 0; font-size: 15px; }
.decision text { fill: var(--color-foreground-primary, #777); font-family: inherit, sans-serif; }
.decision .quiet { fill: var(--color-foreground-muted, #999); }
.decision .chosen { font-weight: 700; }
.decision rect { fill: var(--color-foreground-border, #999); }
.decision rect.chosen { fill: var(--color-brand-primary, #3a7bd5); }"""


def figures():
    """Return the probabilities of the row, the weights of the rule, and the true class."""
    frame = pd.read_csv(files("confmax") / "data" / "hpc_cv.csv")
    rows = frame[np.arange(len(frame)) % 2 == 0]
    rule = confmax.maximize("g_mean", rows[list(CLASSES)], rows["obs"], calibration=None).rule
    weights = rule.gains.a[0] / rule.gains.a[0].min()
    row = frame.loc[ROW, list(CLASSES)].to_numpy(dtype=float)
    assert rule.predict(row[None])[0] == frame.loc[ROW, "obs"]
    return row, weights, frame.loc[ROW, "obs"]


def bars(left, values):
    """Return a bar and a number for every class, the largest of them marked."""
    lines = []
    for k, value in enumerate(values):
        chosen = ' class="chosen"' if k == values.argmax() else ""
        width = BAR * value / values.max()
        y = HEIGHT * (k + 2)
        lines += [
            f'<rect x="{left}" y="{y - 16}" width="{width:.1f}" height="20" rx="2"{chosen}/>',
            f'<text x="{left + width + 6:.1f}" y="{y}"{chosen}>{value:.2f}</text>',
        ]
    return lines


def draw():
    """Return the picture as text."""
    proba, weights, truth = figures()
    scores = proba * weights
    said, decided = CLASSES[proba.argmax()], CLASSES[scores.argmax()]
    words = (
        f"The probabilities of a job of the class {truth}, for which argmax decides {said}. Each is multiplied by the "
        f"weight of its class, and then {decided} is the largest."
    )
    bottom = HEIGHT * 6 + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="decision" viewBox="0 0 480 {bottom + 14}" role="img">',
        f"<title>{words}</title>",
        f"<style>{STYLE}</style>",
        '<text x="34" y="24" class="quiet">probability</text>',
        '<text x="243" y="24" class="quiet" text-anchor="middle">weight</text>',
        '<text x="290" y="24" class="quiet">score</text>',
        *bars(34, proba),
        *bars(290, scores),
    ]
    for k, (name, weight) in enumerate(zip(CLASSES, weights, strict=True)):
        y = HEIGHT * (k + 2)
        lines += [
            f'<text x="0" y="{y}">{name}</text>',
            f'<text x="243" y="{y}" text-anchor="middle">× {weight:.2f}</text>',
        ]
    lines += [
        f'<text x="34" y="{bottom}" class="chosen">argmax decides {said}</text>',
        f'<text x="290" y="{bottom}" class="chosen">the rule decides {decided}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw())
    print(PICTURE)
