"""The charts of a report: Vega-Lite specifications of the numbers that its tables hold, too."""

from __future__ import annotations

import numpy as np

from confmax.evaluate.figures import Figures
from confmax.evaluate.names import labels, metric_name
from confmax.evaluate.reliability import Reliability
from confmax.evaluate.threshold_curve import ThresholdCurve
from confmax.page.format import capital
from confmax.page.matrices import matrices
from confmax.page.spec import (
    Chart,
    Series,
    Spec,
    along,
    colours,
    down,
    most_changed,
    shapes,
    spec,
    tall,
    tips,
    values,
)

MOST_BARS = 30  # classes of a chart by class
CHANGES = (Series("better", "good", "▲"), Series("could be noise", "quiet"), Series("worse", "bad", "▼"))
UNJUDGED = (Series("difference", "quiet"),)  # without intervals nothing is known about noise
VERDICTS = {"better": "better", "worse": "worse"}
ARGMAX, PRIOR = Series("argmax", "quiet"), Series("p/prior", "second", "■")
TUNED = Series("tuned rule", "accent", "◆")


def charts(figures: Figures) -> dict[str, Chart]:
    """Return the charts that the figures allow, by name."""
    made = [_changes(figures), _recalls(figures), *matrices(figures), _calibration(figures)]
    if figures.trade is not None and figures.changed:
        made.append(_trade(figures))
    solution = figures.evidence.solution
    if solution is not None and len(solution.history) > 1:
        made.append(_convergence(figures))
    if any(row.folds is not None for row in figures.classes):
        made.append(_thresholds(figures))
    if figures.curve is not None:
        made.append(_curve(figures, figures.curve))
    return {chart.name: chart for chart in made}


def _points(encoding: Spec, size: int = 80) -> Spec:
    return {"mark": {"type": "point", "filled": True, "size": size, "opacity": 1}, "encoding": encoding}


def _changes(figures: Figures) -> Chart:
    shown = [row for row in (figures.main, *figures.leading) if np.isfinite(row.difference.value)]
    names = [capital(name) for name in labels([row.label for row in shown])]
    data = []
    for name, row in zip(names, shown, strict=True):
        minus = row.difference
        low, high = (minus.value if end is None else end for end in (minus.low, minus.high))
        what = VERDICTS.get(row.verdict, "could be noise")
        data.append({"name": name, "what": what, "value": minus.value, "low": low, "high": high})
    y, x = down("name", names), "tuned rule minus argmax"
    key = CHANGES if figures.score.n_replicates else UNJUDGED
    if key is UNJUDGED:
        data = [{**row, "what": key[0].name} for row in data]
    colour = colours(key)
    layers: list[Spec] = [
        {"mark": {"type": "rule", "color": "var(--line-strong)"}, "encoding": {"x": {"datum": 0}}},
        {
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.45, "strokeCap": "round"},
            "encoding": {"y": y, "x": along("low", x), "x2": {"field": "high"}, "color": colour},
        },
        _points(
            {
                "y": y,
                "x": along("value", x),
                "color": colour,
                "shape": shapes(key),
                "tooltip": tips({"name": "metric", "value": "change", "low": "from", "high": "to"}),
            }
        ),
    ]
    spans = "" if key is UNJUDGED else ", with intervals"
    description = f"Change of {len(shown)} metrics from argmax to the tuned rule{spans}."
    return Chart("changes", description, spec(layers, data, tall(len(names))), key)


def _recalls(figures: Figures) -> Chart:
    names = figures.names
    change = [row.after["recall"].value - row.before["recall"].value for row in figures.classes]
    kept = most_changed(np.nan_to_num(np.abs(change)), MOST_BARS)
    lines = [
        {
            "name": names[k],
            "before": figures.classes[k].before["recall"].value,
            "after": figures.classes[k].after["recall"].value,
        }
        for k in kept
    ]
    key = (ARGMAX, TUNED)
    data = [
        {"name": line["name"], "what": series.name, "value": line[end]}
        for line in lines
        for series, end in zip(key, ("before", "after"), strict=True)
    ]
    y = down("name", [names[k] for k in kept])
    layers: list[Spec] = [
        {
            **values(lines),
            "mark": {"type": "rule", "strokeWidth": 3, "color": "var(--line)"},
            "encoding": {"y": y, "x": along("before", "recall", domain=[0, 1]), "x2": {"field": "after"}},
        },
        _points(
            {
                "y": y,
                "x": along("value", "recall", domain=[0, 1]),
                "color": colours(key),
                "shape": shapes(key),
                "tooltip": tips({"name": "class", "what": "rule", "value": "recall"}),
            }
        ),
    ]
    description = f"Recall of {len(kept)} classes, with argmax and with the tuned rule."
    return Chart("recalls", description, spec(layers, data, tall(len(kept))), key)


def _bins(found: Reliability, what: str) -> list[Spec]:
    return [
        {
            "what": what,
            "said": said,
            "seen": seen,
            "share": share,
            "low": max(0.0, seen - 2 * error),
            "high": min(1.0, seen + 2 * error),
        }
        for said, seen, share, error in zip(found.said, found.seen, found.share, found.error, strict=True)
    ]


def _calibration(figures: Figures) -> Chart:
    key: tuple[Series, ...] = (Series("as given", "quiet"),)
    data = _bins(figures.raw, "as given")
    if figures.calibrated is not figures.raw:
        key = (*key, Series("after calibration", "accent"))
        data += _bins(figures.calibrated, "after calibration")
    colour, y = colours(key), "observed frequency"
    x = along("said", "stated probability of the most probable class", domain=[0, 1])
    layers: list[Spec] = [
        {
            **values([{"said": 0.0, "seen": 0.0}, {"said": 1.0, "seen": 1.0}]),
            "mark": {"type": "line", "strokeDash": [4, 4], "color": "var(--line-strong)", "strokeWidth": 1.5},
            "encoding": {"x": x, "y": along("seen", y, domain=[0, 1])},
        },
        {
            "mark": {"type": "rule", "opacity": 0.5},
            "encoding": {"x": x, "y": along("low", y), "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "line", "point": {"filled": True, "size": 50}},
            "encoding": {
                "x": x,
                "y": along("seen", y),
                "color": colour,
                "tooltip": tips(
                    {"what": "probabilities", "said": "stated", "seen": "observed", "share": "share of rows"}
                ),
            },
        },
    ]
    description = "Reliability: how often the most probable class was right, against its stated probability."
    return Chart("calibration", description, spec(layers, data, 320), key)


def _trade(figures: Figures) -> Chart:
    trade, main = figures.trade, figures.main
    assert trade is not None
    second = next(row for row in figures.metrics if row.name == figures.second)
    path = [{"t": t, "x": x, "y": y} for t, x, y in zip(trade.steps, trade.other, trade.tuned, strict=True)]
    marks = [
        {"what": "argmax", "x": second.argmax.value, "y": main.argmax.value},
        {"what": "p/prior", "x": second.prior.value, "y": main.prior.value},
        {"what": "tuned rule", "x": second.tuned.value, "y": main.tuned.value},
    ]
    key = (ARGMAX, PRIOR, TUNED)
    place = {
        "x": along("x", figures.second_label, zero=False, padding=14),
        "y": along("y", main.label, zero=False, padding=14),
    }
    tip = tips({"what": "rule", "x": figures.second_label, "y": main.label})
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "color": "var(--line-strong)", "strokeWidth": 2},
            "encoding": {**place, "order": {"field": "t", "type": "quantitative"}},
        },
        {**values(marks), **_points({**place, "color": colours(key), "shape": shapes(key), "tooltip": tip}, 140)},
    ]
    description = f"{main.label} against {figures.second_label}, from argmax to the tuned rule and beyond."
    return Chart("trade", description, spec(layers, path, 320), key)


def _convergence(figures: Figures) -> Chart:
    solution = figures.evidence.solution
    assert solution is not None
    key: tuple[Series, ...] = (Series("best rule so far", "accent"),)
    if solution.upper_bound is not None:
        key = (*key, Series("upper bound", "second"))
    data: list[Spec] = []
    for step in solution.history:
        data.append({"passes": step.n_passes, "value": step.value, "what": key[0].name})
        if solution.upper_bound is not None and step.upper_bound is not None:
            data.append({"passes": step.n_passes, "value": step.upper_bound, "what": key[1].name})
    x = along("passes", "scans of the table", zero=False, nice=False)
    x["axis"] = {"tickMinStep": 1, "format": "d", "tickCount": 5}
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "interpolate": "step-after", "point": {"filled": True, "size": 40}},
            "encoding": {
                "x": x,
                "y": along("value", metric_name(repr(solution.metric)), zero=False),
                "color": colours(key),
                "tooltip": [*tips({"what": "what"}), {"field": "passes", "title": "scans"}, *tips({"value": "value"})],
            },
        }
    ]
    description = (
        "Convergence: the best rule's value and, where one is proved, the upper bound, after each step of the search."
    )
    return Chart("convergence", description, spec(layers, data, 220), key)


def _thresholds(figures: Figures) -> Chart:
    names = figures.names
    spread = np.array([0.0 if row.folds is None else row.spread for row in figures.classes])
    kept = most_changed(np.nan_to_num(spread, posinf=1e9), MOST_BARS)
    data: list[Spec] = []
    for k in kept:
        row = figures.classes[k]
        assert row.folds is not None
        low, high, own, plain = (min(each, 1.0) for each in (*row.folds, row.threshold, row.threshold_plain))
        data.append({"name": names[k], "low": low, "high": high, "own": own, "plain": plain})
    y, title = down("name", [names[k] for k in kept]), "threshold"
    tip = {"name": "class", "own": "threshold", "low": "lowest fold", "high": "highest fold", "plain": "argmax"}
    layers: list[Spec] = [
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1, "color": "var(--quiet)"},
            "encoding": {"y": y, "x": along("plain", title, domain=[0, 1])},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 6, "opacity": 0.35, "color": "var(--accent)", "strokeCap": "round"},
            "encoding": {"y": y, "x": along("low", title, domain=[0, 1]), "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "color": "var(--accent)",
                     "shape": "diamond"},
            "encoding": {"y": y, "x": along("own", title, domain=[0, 1]), "tooltip": tips(tip)},
        },
    ]  # fmt: skip
    description = f"Thresholds of {len(kept)} classes: of the rule, of argmax, and the range of the rules of the folds."
    key = (Series("argmax", "quiet"), Series("tuned rule", "accent", "◆"), Series("rules of the folds", "accent", "▬"))
    return Chart("thresholds", description, spec(layers, data, tall(len(kept))), key)


def _curve(figures: Figures, curve: ThresholdCurve) -> Chart:
    key = (ARGMAX, PRIOR, TUNED)
    path = [{"t": t, "y": y} for t, y in zip(curve.thresholds, curve.values, strict=True)]
    marks = [{"what": mark.name, "t": mark.threshold, "y": mark.value} for mark in curve.marks]
    name = figures.main.label
    title = f"threshold on the probability of {figures.names[figures.positive]}"
    place = {"x": along("t", title, domain=[0, 1]), "y": along("y", name, zero=False, padding=14)}
    tip = tips({"what": "rule", "t": "threshold", "y": name})
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": "var(--line-strong)", "strokeWidth": 2}, "encoding": place},
        {**values(marks), **_points({**place, "color": colours(key), "shape": shapes(key), "tooltip": tip}, 140)},
    ]
    description = f"{capital(name)} against the threshold, with argmax, p/prior and the tuned rule."
    return Chart("curve", description, spec(layers, path, 300), key)
