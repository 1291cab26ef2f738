"""Charts as Vega-Lite specifications: plain dictionaries of the figures' numbers, drawn by the page's own copy of Vega.

Colours are the page's CSS variables, so that light, dark and print need no second drawing. Names of classes are data,
never part of a field or an expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from confmax.confusion import Array
from confmax.report._figures import Figures
from confmax.report._format import labels, metric_name
from confmax.report._reliability import Reliability

Spec = dict[str, Any]

MOST_BARS, MOST_CELLS, MOST_WRITTEN = 30, 30, 8  # classes of a chart by class, of a matrix, of one with numbers in it
STEPS = 9  # of the colours of a matrix
VERDICTS = {"better": "better", "unclear": "could be chance", "worse": "worse"}


@dataclass(frozen=True)
class Chart:
    """A chart: an identifier, what it shows in words, and its specification."""

    name: str
    told: str
    spec: Spec


def charts(figures: Figures) -> dict[str, Chart]:
    """Return the charts that the figures allow, by name."""
    made = [_changes(figures), _recalls(figures), *_matrices(figures), _calibration(figures)]
    if figures.trade is not None:
        made.append(_trade(figures))
    if _has_history(figures):
        made.append(_convergence(figures))
    if any(row.folds is not None for row in figures.classes):
        made.append(_thresholds(figures))
    return {chart.name: chart for chart in made if chart is not None}


def _has_history(figures: Figures) -> bool:
    solution = figures.evidence.solution
    return solution is not None and len(solution.history) > 1


def _spec(layers: list[Spec], data: list[Spec], height: Any, **more: Any) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": "container",
        "height": height,
        "autosize": {"type": "fit", "contains": "padding"},
        "data": {"values": [{key: _plain(value) for key, value in row.items()} for row in data]},
        "layer": layers,
        **more,
    }


def _plain(value: Any) -> Any:
    """Return a number as JSON holds it, rounded to what a chart can show."""
    if isinstance(value, (float, np.floating)):
        return None if not np.isfinite(value) else float(f"{value:.6g}")
    return int(value) if isinstance(value, np.integer) else value


def _across(field: str, title: str | None, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **more}


def _down(field: str, names: list[str]) -> Spec:
    return {"field": field, "type": "nominal", "title": None, "sort": names, "axis": {"labelLimit": 130}}


def _colours(field: str, colours: dict[str, str], **more: Any) -> Spec:
    scale = {"domain": list(colours), "range": [f"var(--{each})" for each in colours.values()]}
    legend = {"title": None, "orient": "top", "direction": "horizontal", "labelLimit": 200}
    return {"field": field, "type": "nominal", "scale": scale, "legend": legend, **more}


def _tips(**fields: str) -> list[Spec]:
    return [
        {
            "field": field,
            "title": title.replace("_", " "),
            **({"format": ".4f"} if field not in ("name", "what") else {}),
        }
        for title, field in fields.items()
    ]


def _changes(figures: Figures) -> Chart:
    shown = [row for row in figures.metrics if np.isfinite(row.difference.value)]
    names = labels([metric_name(row.name) for row in shown])
    data = [
        {
            "name": name,
            "what": VERDICTS.get(row.verdict, "could be chance"),
            "value": row.difference.value,
            "low": row.difference.low if row.difference.low is not None else row.difference.value,
            "high": row.difference.high if row.difference.high is not None else row.difference.value,
        }
        for name, row in zip(names, shown, strict=True)
    ]
    colour = _colours("what", {"better": "good", "could be chance": "quiet", "worse": "bad"})
    tips = _tips(metric="name", change="value", from_="low", to="high")
    x = "tuned rule minus argmax"
    layers = [
        {"mark": {"type": "rule", "color": "var(--line-strong)"}, "encoding": {"x": {"datum": 0}}},
        {
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.45, "strokeCap": "round"},
            "encoding": {"y": _down("name", names), "x": _across("low", x), "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {
                "y": _down("name", names),
                "x": _across("value", x),
                "color": colour,
                "shape": {
                    "field": "what",
                    "type": "nominal",
                    "scale": {"domain": list(VERDICTS.values()), "range": ["triangle-up", "circle", "triangle-down"]},
                    "legend": None,
                },
                "tooltip": tips,
            },
        },
    ]
    told = f"Change of {len(shown)} metrics from argmax to the tuned rule, with intervals."
    return Chart("changes", told, _spec(layers, data, {"step": 21}))


def _recalls(figures: Figures) -> Chart:
    names = labels([row.name for row in figures.classes])
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
    points = [
        {"name": line["name"], "what": what, "value": line[key]}
        for line in lines
        for what, key in (("argmax", "before"), ("tuned rule", "after"))
    ]
    y = _down("name", [names[k] for k in kept])
    scale = {"domain": [0, 1]}
    layers: list[Spec] = [
        {
            "data": {"values": [{key: _plain(value) for key, value in line.items()} for line in lines]},
            "mark": {"type": "rule", "strokeWidth": 3, "color": "var(--line-strong)"},
            "encoding": {"y": y, "x": _across("before", "recall", scale=scale), "x2": {"field": "after"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
            "encoding": {
                "y": y,
                "x": _across("value", "recall", scale=scale),
                "color": _colours("what", {"argmax": "quiet", "tuned rule": "accent"}),
                "shape": {
                    "field": "what",
                    "type": "nominal",
                    "scale": {"domain": ["argmax", "tuned rule"], "range": ["circle", "diamond"]},
                },
                "tooltip": [{"field": "name", "title": "class"}, *_tips(rule="what", recall="value")],
            },
        },
    ]
    told = f"Recall of {len(kept)} classes, with argmax and with the tuned rule."
    return Chart("recalls", told, _spec(layers, points, {"step": 21}))


def most_changed(change: Array, most: int) -> list[int]:
    """Return the positions of the largest changes, in their own order; all where there are few enough."""
    if len(change) <= most:
        return list(range(len(change)))
    return sorted(np.argsort(-change, kind="stable")[:most].tolist())


def shown_classes(figures: Figures) -> list[int]:
    """Return the classes whose rows and columns the matrices show: those with the most rows decided otherwise."""
    K = len(figures.classes)
    change = np.abs(figures.after - figures.before)
    return most_changed(change.sum(axis=1) + change[:, :K].sum(axis=0), MOST_CELLS)


def row_shares(C: Array) -> Array:
    """Return counts (K, M) as shares of each row; nothing for a class without rows."""
    total = C.sum(axis=1, keepdims=True)
    return np.divide(C, total, out=np.full_like(C, np.nan), where=total > 0)


def _matrices(figures: Figures) -> list[Chart]:
    kept = shown_classes(figures)
    K, M = figures.before.shape
    names = labels(
        [str(name) for name in figures.evidence.rule.class_names[:K]] + [f"decision {k}" for k in range(K, M)]
    )
    columns = [*kept, *range(K, M)]
    before, after = (row_shares(C)[np.ix_(kept, columns)] for C in (figures.before, figures.after))
    change = after - before
    most = max(float(np.nanmax(np.abs(change))), 1e-9)
    down, across = [names[k] for k in kept], [names[k] for k in columns]
    panels = (
        ("before", before, "argmax"),
        ("after", after, "tuned rule"),
        ("difference", change, "tuned minus argmax"),
    )
    made = []
    for name, values, title in panels:
        signed = name == "difference"
        data = [
            {"true": down[i], "decided": across[j], "value": values[i, j]}
            for i in range(len(down))
            for j in range(len(across))
        ]
        limits = [-most, most] if signed else [0, 1]
        colours = [f"var(--{'change' if signed else 'share'}-{k})" for k in range(STEPS)]
        axis = {"labelLimit": 70}
        base = {
            "x": {"field": "decided", "type": "nominal", "sort": across, "title": "decided",
                  "axis": {**axis, "labelAngle": -45, "orient": "bottom"}},
            "y": {"field": "true", "type": "nominal", "sort": down, "title": "true", "axis": axis},
        }  # fmt: skip
        form = "+.2f" if signed else ".2f"
        tip = [
            {"field": "true", "title": "true"},
            {"field": "decided", "title": "decided"},
            {"field": "value", "title": "share of the true class's rows", "format": form.replace(".2", ".4")},
        ]
        scale = {"type": "quantize", "domain": limits, "range": colours}
        legend = {"title": None, "orient": "top", "format": form, "gradientLength": 200, "direction": "horizontal"}
        layers: list[Spec] = [
            {
                "mark": {"type": "rect", "stroke": "var(--card)", "strokeWidth": 1},
                "encoding": {
                    **base,
                    "color": {"field": "value", "type": "quantitative", "scale": scale, "legend": None},
                    "tooltip": tip,
                },
            }
        ]
        del legend
        if len(columns) <= MOST_WRITTEN:
            strong = (f"abs(datum.value) > {0.62 * most:.6g}") if signed else "datum.value > 0.55"
            layers.append(
                {
                    "mark": {"type": "text", "fontSize": 11, "tooltip": None},
                    "encoding": {
                        **base,
                        "text": {"field": "value", "type": "quantitative", "format": form},
                        "color": {
                            "condition": {"test": strong, "value": "var(--on-strong)"},
                            "value": "var(--on-weak)",
                        },
                    },
                }
            )
        told = f"Confusion matrix, {title}: shares of the rows of each true class, {len(down)} classes."
        height = max(140, min(420, 36 * len(down) if len(down) <= 10 else 14 * len(down)))
        made.append(Chart(f"confusion-{name}", told, _spec(layers, data, height)))
    return made


def _points(found: Reliability, what: str) -> list[Spec]:
    return [
        {
            "what": what,
            "said": found.said[k],
            "seen": found.seen[k],
            "share": found.share[k],
            "low": max(0.0, found.seen[k] - 2 * found.error[k]),
            "high": min(1.0, found.seen[k] + 2 * found.error[k]),
        }
        for k in range(len(found.said))
    ]


def _calibration(figures: Figures) -> Chart:
    series = {"as given": "quiet"}
    data = _points(figures.raw, "as given")
    if figures.calibrated is not figures.raw:
        series["as the rule uses them"] = "accent"
        data += _points(figures.calibrated, "as the rule uses them")
    colour = _colours("what", series)
    x = _across("said", "stated probability of the most probable class", scale={"domain": [0, 1]})
    diagonal = [{"said": 0.0, "seen": 0.0}, {"said": 1.0, "seen": 1.0}]
    layers: list[Spec] = [
        {
            "data": {"values": diagonal},
            "mark": {"type": "line", "strokeDash": [4, 4], "color": "var(--line-strong)"},
            "encoding": {"x": x, "y": _across("seen", "how often it was right", scale={"domain": [0, 1]})},
        },
        {"mark": {"type": "rule", "opacity": 0.5},
         "encoding": {"x": x, "y": _across("low", "how often it was right"), "y2": {"field": "high"}, "color": colour}},
        {
            "mark": {"type": "line", "point": {"filled": True, "size": 50}},
            "encoding": {
                "x": x,
                "y": _across("seen", "how often it was right"),
                "color": colour,
                "tooltip": [{"field": "what", "title": "probabilities"},
                            *_tips(stated="said", right="seen", share_of_rows="share")],
            },
        },
    ]  # fmt: skip
    told = "Reliability: how often the most probable class was right, against its stated probability."
    return Chart("calibration", told, _spec(layers, data, 300))


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
    x, y = (
        _across(key, metric_name(name), scale={"zero": False, "nice": True, "padding": 12})
        for key, name in (("x", figures.second), ("y", main.name))
    )
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "color": "var(--line-strong)", "strokeWidth": 2},
            "encoding": {"x": x, "y": y, "order": {"field": "t", "type": "quantitative"}},
        },
        {
            "data": {"values": [{key: _plain(value) for key, value in row.items()} for row in marks]},
            "mark": {"type": "point", "filled": True, "size": 130, "opacity": 1},
            "encoding": {
                "x": x,
                "y": y,
                "color": _colours("what", {"argmax": "quiet", "p/prior": "second", "tuned rule": "accent"}),
                "shape": {
                    "field": "what",
                    "type": "nominal",
                    "scale": {"domain": ["argmax", "p/prior", "tuned rule"], "range": ["circle", "square", "diamond"]},
                },
                "tooltip": [{"field": "what", "title": "rule"}, {"field": "x", "title": metric_name(figures.second)},
                            {"field": "y", "title": metric_name(main.name)}],
            },
        },
    ]  # fmt: skip
    told = f"{metric_name(main.name)} against {metric_name(figures.second)}, from argmax to the tuned rule and beyond."
    return Chart("trade", told, _spec(layers, path, 300))


def _convergence(figures: Figures) -> Chart:
    solution = figures.evidence.solution
    assert solution is not None
    data = []
    for step in solution.history:
        data.append({"passes": step.n_passes, "value": step.value, "what": "best rule so far"})
        if solution.upper_bound is not None and step.upper_bound is not None:
            data.append({"passes": step.n_passes, "value": step.upper_bound, "what": "no rule exceeds"})
    series = {"best rule so far": "accent"}
    if solution.upper_bound is not None:
        series["no rule exceeds"] = "second"
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "interpolate": "step-after", "point": {"filled": True, "size": 40}},
            "encoding": {
                "x": _across("passes", "scans of the table", axis={"tickMinStep": 1}, scale={"zero": False}),
                "y": _across("value", metric_name(figures.main.name), scale={"zero": False}),
                "color": _colours("what", series),
                "tooltip": [
                    {"field": "what", "title": " "},
                    {"field": "passes", "title": "scans"},
                    *_tips(value="value"),
                ],
            },
        }
    ]
    told = (
        "Convergence: value of the best rule and, where one is proved, the upper bound, after each step of the search."
    )
    return Chart("convergence", told, _spec(layers, data, 220))


def _thresholds(figures: Figures) -> Chart:
    names = labels([row.name for row in figures.classes])
    spread = np.array([0.0 if row.folds is None else row.spread for row in figures.classes])
    kept = most_changed(np.nan_to_num(spread, posinf=1e9), MOST_BARS)
    data = []
    for k in kept:
        row = figures.classes[k]
        assert row.folds is not None
        low, high, own, plain = (min(each, 1.0) for each in (*row.folds, row.threshold, row.threshold_plain))
        data.append({"name": names[k], "low": low, "high": high, "own": own, "plain": plain})
    y, x = _down("name", [names[k] for k in kept]), {"scale": {"domain": [0, 1]}}
    title = "probability from which the class is decided"
    tips = _tips(threshold="own", lowest_fold="low", highest_fold="high", argmax="plain")
    layers: list[Spec] = [
        {
            "mark": {"type": "tick", "color": "var(--quiet)", "thickness": 2},
            "encoding": {"y": y, "x": _across("plain", title, **x)},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.4, "color": "var(--accent)", "strokeCap": "round"},
            "encoding": {"y": y, "x": _across("low", title, **x), "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "color": "var(--accent)"},
            "encoding": {
                "y": y, "x": _across("own", title, **x), "tooltip": [{"field": "name", "title": "class"}, *tips],
            },
        },
    ]  # fmt: skip
    told = f"Thresholds of {len(kept)} classes: of the rule, of argmax, and the range of the rules of the folds."
    return Chart("thresholds", told, _spec(layers, data, {"step": 21}))
