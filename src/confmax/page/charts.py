"""The charts of a report: Vega-Lite specifications of the numbers that its tables hold, too.

A specification is a plain dictionary, drawn by the page's own copy of Vega, which vl-convert holds. Altair would write
the same dictionaries, at the cost of an import and a validation per chart. Colours are the page's CSS variables, so
that light, dark and print need no second drawing. Names of classes are data, never part of a field or an expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from confmax.confusion import Array
from confmax.evaluate.confusion_change import goodness, most_changed
from confmax.evaluate.curves import BEST, CoverageFigures
from confmax.evaluate.figures import Figures, labels, metric_name
from confmax.evaluate.limits import LimitCurve
from confmax.evaluate.palette import STEPS
from confmax.evaluate.protocols import Tuned, convergence
from confmax.evaluate.rivals import CHOW
from confmax.evaluate.thresholds import ThresholdCurve
from confmax.evaluate.trade_off import TradeOff
from confmax.page.words import capital

Spec = dict[str, Any]
MOST_BARS = 30  # classes of a chart by class
MOST_WRITTEN = 8  # decisions of a matrix with numbers in it
MOST_BESIDE = 12  # columns of matrices that stand three in a line
SHORT = 4  # letters of names that stand upright under their columns
# series differ by shape, too: colour alone is lost in print and to some eyes
MARKS = {"▲": "triangle-up", "●": "circle", "▼": "triangle-down", "◆": "diamond", "■": "square"}


@dataclass(frozen=True)
class Series:
    """A series of a chart: its name, the CSS variable of its colour, and the shape of its points."""

    name: str
    colour: str
    mark: str = "●"


@dataclass(frozen=True)
class Chart:
    """A chart: what it shows in words, its specification, and the key to its series."""

    description: str
    spec: Spec
    key: tuple[Series, ...] = ()


CHANGES = (Series("better", "good", "▲"), Series("could be noise", "quiet"), Series("worse", "bad", "▼"))
WITHOUT_INTERVALS = (Series("difference", "quiet"),)  # nothing is known about noise
RULES = (Series("argmax", "quiet"), Series("p/prior", "second", "■"), Series("tuned rule", "accent", "◆"))


def charts(figures: Figures) -> dict[str, Chart]:
    """Return the charts that the figures allow, by name."""
    made = {
        "changes": _changes(figures),
        "recalls": _recalls(figures),
        **_matrices(figures),
        "calibration": _calibration(figures),
    }
    # a rule that decides as argmax has a way of length zero
    if figures.trade is not None and figures.changed:
        made["trade"] = _trade(figures, figures.trade)
    solution = figures.evidence.solution
    # a search of one step has no line
    if solution is not None and len(solution.history) > 1:
        made["convergence"] = _convergence(solution)
    if figures.classes[0].folds is not None:
        made["thresholds"] = _thresholds(figures)
    if figures.limits is not None and figures.limits.curve is not None and len(figures.limits.curve.levels) > 2:
        made["limits"] = _limits(figures, figures.limits.curve)
    if figures.curve is not None:
        made["curve"] = _curve(figures, figures.curve)
    if figures.undecided is not None:
        made["coverage"] = _coverage(figures.undecided)
    return made


# --- the parts of a specification ------------------------------------------------------------------------------------


def _chart(description: str, layers: list[Spec], rows: list[Spec], height: int, key: tuple[Series, ...] = ()) -> Chart:
    """Return a chart as wide as its place."""
    # a chart is as wide as the page, which may be a phone or a sheet of paper
    size = {"width": "container", "height": height, "autosize": {"type": "fit", "contains": "padding"}}
    return Chart(description, {**size, **_values(rows), "layer": layers}, key)


def _values(rows: list[Spec]) -> Spec:
    """Return rows as a specification's data, numbers rounded to what a chart can show."""
    return {"data": {"values": [{key: _plain(value) for key, value in row.items()} for row in rows]}}


def _rows(**columns: Any) -> list[Spec]:
    """Return the rows of columns of one length."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    # JSON has no infinity, and six digits are finer than a pixel
    if isinstance(value, (float, np.floating)):
        return None if not np.isfinite(value) else float(f"{value:.6g}")
    return int(value) if isinstance(value, np.integer) else value


def _layer(kind: str, encoding: Spec, rows: list[Spec] | None = None, **mark: Any) -> Spec:
    """Return marks of a kind, of the chart's rows or of some of their own."""
    return {**({} if rows is None else _values(rows)), "mark": {"type": kind, **mark}, "encoding": encoding}


def _points(encoding: Spec, rows: list[Spec] | None = None, size: int = 80, **mark: Any) -> Spec:
    return _layer("point", encoding, rows, filled=True, size=size, opacity=1, **mark)


def _span(encoding: Spec, x: Spec, end: str, rows: list[Spec] | None = None, **mark: Any) -> Spec:
    """Return lines from ``x`` to the field ``end``."""
    return _layer("rule", {**encoding, "x": x, "x2": {"field": end}}, rows, **mark)


def _along(field: str, title: str | None, **scale: Any) -> Spec:
    """Return the encoding of a number along an axis."""
    # few ticks: the numbers stand in the tables
    axis = {"tickCount": 5, "labelOverlap": True}
    return {"field": field, "type": "quantitative", "title": title, "axis": axis, "scale": scale}


def _down(names: list[str]) -> Spec:
    """Return the encoding of names, one line each, in their order."""
    axis = {"labelLimit": 130, "ticks": False, "domain": False, "labelPadding": 6}
    return {"field": "name", "type": "nominal", "title": None, "sort": names, "axis": axis}


def _tall(n_lines: int, line: int = 22) -> int:
    """Return the height of a chart of so many lines above an axis with a title, in pixels."""
    return n_lines * line + 48


def _series(key: tuple[Series, ...], *channels: str) -> Spec:
    """Return series by "color", "shape" or both; the key stands in the page, not in the chart."""
    looks = {"color": [f"var(--{series.colour})" for series in key], "shape": [MARKS[series.mark] for series in key]}
    # both channels name all series, so that a series without points changes no colour
    scales = {channel: {"domain": [series.name for series in key], "range": looks[channel]} for channel in channels}
    return {channel: {"field": "what", "type": "nominal", "scale": scale} for channel, scale in scales.items()}


def _tips(fields: Mapping[str, str], form: str = ".4f") -> Spec:
    """Return what is shown of a mark when it is pointed at: titles by field, numbers in a format."""
    plain = ("name", "what", "true", "decided", "passes")
    return {
        "tooltip": [
            {"field": field, "title": title, **({} if field in plain else {"format": form})}
            for field, title in fields.items()
        ]
    }


# --- the charts ------------------------------------------------------------------------------------------------------


def _changes(figures: Figures) -> Chart:
    every = (figures.main, *figures.leading)
    # costs have a unit of their own, beside which other metrics would not be seen
    shown = [row for row in every if np.isfinite(row.difference.value) and not row.is_cost]
    names = [capital(name) for name in labels([row.label for row in shown])]
    key = CHANGES if figures.score.n_replicates else WITHOUT_INTERVALS
    rows = []
    for name, row in zip(names, shown, strict=True):
        minus = row.difference
        # without an interval the line has no length, and the point stands alone
        low, high = (minus.value if end is None else end for end in (minus.low, minus.high))
        what = row.verdict if row.verdict in ("better", "worse") else "could be noise"
        what = what if key is CHANGES else key[0].name
        rows.append({"name": name, "what": what, "value": minus.value, "low": low, "high": high})
    y = _down(names)
    x = f"tuned rule minus {figures.plain[0]}"
    tips = _tips({"name": "metric", "value": "change", "low": "from", "high": "to"})
    layers = [
        _layer("rule", {"x": {"datum": 0}}, color="var(--line-strong)"),
        _span(
            {"y": y, **_series(key, "color")}, _along("low", x), "high", strokeWidth=3, opacity=0.45, strokeCap="round"
        ),
        _points({"y": y, "x": _along("value", x), **_series(key, "color", "shape"), **tips}),
    ]
    spans = ", with intervals" if key is CHANGES else ""
    description = f"Change of {len(shown)} metrics from {figures.plain[0]} to the tuned rule{spans}."
    return _chart(description, layers, rows, _tall(len(names)), key)


def _recalls(figures: Figures) -> Chart:
    recalls = np.array([(row.before["recall"].value, row.after["recall"].value) for row in figures.classes])
    kept = most_changed(np.nan_to_num(np.abs(recalls[:, 1] - recalls[:, 0])), MOST_BARS)
    # a line from argmax to the rule needs both ends in one row, the points one row each
    lines = [{"name": figures.names[k], "before": recalls[k, 0], "after": recalls[k, 1]} for k in kept]
    key = (RULES[0], RULES[2])
    rows = [
        {"name": line["name"], "what": series.name, "value": line[end]}
        for line in lines
        for series, end in zip(key, ("before", "after"), strict=True)
    ]
    y = _down([figures.names[k] for k in kept])
    tips = _tips({"name": "class", "what": "rule", "value": "recall"})
    before, value = (_along(field, "recall", domain=[0, 1]) for field in ("before", "value"))
    layers = [
        _span({"y": y}, before, "after", lines, strokeWidth=3, color="var(--line)"),
        _points({"y": y, "x": value, **_series(key, "color", "shape"), **tips}),
    ]
    description = f"Recall of {len(kept)} classes, with argmax and with the tuned rule."
    return _chart(description, layers, rows, _tall(len(kept)), key)


def _matrices(figures: Figures) -> dict[str, Chart]:
    """Return the confusion matrices of both rules, and their difference, in which blue is better and orange worse."""
    before, after = figures.change.shares()
    # both matrices have one scale, so that the same colour is the same share
    share, change = figures.change.limits()
    return {
        "confusion-before": _matrix(figures, before, "argmax", share),
        "confusion-after": _matrix(figures, after, "tuned rule", share),
        "confusion-difference": _matrix(figures, after - before, "difference", change),
    }


def _matrix(figures: Figures, entries: Array, title: str, most: float) -> Chart:
    names = figures.names
    kept = figures.change.shown()
    columns = figures.change.columns(kept)
    down = [names[k] for k in kept]
    across = [names[k] for k in columns]
    signed = title == "difference"
    good = goodness(entries)
    rows = [
        {"true": names[i], "decided": names[j], "value": entries[i, j], **({"good": good[i, j]} if signed else {})}
        for i in kept
        for j in columns
        if np.isfinite(entries[i, j])
    ]
    # the difference is coloured by whether it is good, and labelled by its sign
    kind, field, plus = ("change", "good", "+") if signed else ("share", "value", "")
    steps = [f"var(--{kind}-{k})" for k in range(STEPS)]
    scale = {"type": "quantize", "domain": [-most if signed else 0.0, most], "range": steps}
    tips = _tips({"true": "true", "decided": "decided", "value": "share of the true class"}, f"{plus}.4f")
    place = {"x": _names_axis("decided", across), "y": _names_axis("true", down)}
    colour = {"color": {"field": field, "type": "quantitative", "scale": scale}}
    layers = [_layer("rect", {**place, **colour, **tips}, stroke="var(--card)", strokeWidth=1)]
    if len(columns) <= MOST_WRITTEN:
        # the upper steps of a scale are dark on light pages and light on dark ones: their text is turned
        strong = {"test": f"abs(datum.{field}) > {0.56 * most:.6g}", "value": "var(--on-strong)"}
        text = {"field": "value", "type": "quantitative", "format": f"{plus}.2f"}
        ink = {"text": text, "color": {"condition": strong, "value": "var(--on-weak)"}}
        layers.append(_layer("text", {**place, **ink}, fontSize=12, tooltip=None))
    description = f"Confusion matrix, {title}: shares of the rows of each true class, {len(down)} classes."
    height = _tall(len(down), 40 if len(down) <= MOST_WRITTEN else 15) + 4 * max(map(len, across))
    return _chart(description, layers, rows, height)


def _names_axis(field: str, names: list[str]) -> Spec:
    # names of any length: cut, turned or left out before they overlap
    axis = {"labelLimit": 80, "ticks": False, "domain": False, "labelPadding": 5}
    if field == "decided":
        few = len(names) <= MOST_WRITTEN
        axis |= {"labelAngle": -90 if not few else 0 if max(map(len, names)) <= SHORT else -45}
        axis["labelOverlap"] = len(names) > MOST_BESIDE
    return {"field": field, "type": "nominal", "sort": names, "title": field, "axis": axis, "scale": {"domain": names}}


def _calibration(figures: Figures) -> Chart:
    # probabilities that are not calibrated further are one series
    measured = [figures.raw] if figures.calibrated is figures.raw else [figures.raw, figures.calibrated]
    key = (Series("as given", "quiet"), Series("after calibration", "accent"))[: len(measured)]
    rows = []
    for series, bins in zip(key, measured, strict=True):
        low = np.maximum(0.0, bins.observed - 2 * bins.error)
        high = np.minimum(1.0, bins.observed + 2 * bins.error)
        names = [series.name] * len(low)
        rows += _rows(what=names, stated=bins.stated, observed=bins.observed, share=bins.share, low=low, high=high)
    colour = _series(key, "color")
    title = "observed frequency"
    x = _along("stated", "stated probability of the most probable class", domain=[0, 1])
    tips = _tips({"what": "probabilities", "stated": "stated", "observed": "observed", "share": "share of rows"})
    # the diagonal: stated and observed are equal
    ends = [{"stated": 0.0, "observed": 0.0}, {"stated": 1.0, "observed": 1.0}]
    layers = [
        _layer(
            "line",
            {"x": x, "y": _along("observed", title, domain=[0, 1])},
            ends,
            strokeDash=[4, 4],
            color="var(--line-strong)",
            strokeWidth=1.5,
        ),
        _layer("rule", {"x": x, "y": _along("low", title), "y2": {"field": "high"}, **colour}, opacity=0.5),
        _layer("line", {"x": x, "y": _along("observed", title), **colour, **tips}, point={"filled": True, "size": 50}),
    ]
    description = "Reliability: how often the most probable class was right, against its stated probability."
    return _chart(description, layers, rows, 320, key)


def _line(
    description: str,
    place: Spec,
    key: tuple[Series, ...],
    path: list[Spec],
    marks: list[Spec],
    tips: Spec,
    *,
    height: int = 300,
    order: Spec | None = None,
    below: tuple[Spec, ...] = (),
    numbers: Spec | None = None,
    **line: Any,
) -> Chart:
    """Return a line with the points of some rules on it, or beside it."""
    layers = [
        *below,
        _layer(
            "line", {**place, **(order or {}), **(numbers or {})}, color="var(--line-strong)", strokeWidth=2, **line
        ),
        _points({**place, **_series(key, "color", "shape"), **tips}, marks, size=140),
    ]
    return _chart(description, layers, path, height, key)


def _loose(field: str, title: str) -> Spec:
    """Return the encoding of a number along an axis that begins and ends a little beside the points."""
    return _along(field, title, zero=False, padding=14)


def _trade(figures: Figures, trade: TradeOff) -> Chart:
    main = figures.main
    second = figures.second
    marks = _rows(
        what=[rule.name for rule in RULES],
        x=[it.value for it in (second.argmax, second.prior, second.tuned)],
        y=[main.as_shown(it.value) for it in (main.argmax, main.prior, main.tuned)],
    )
    return _line(
        f"{main.label} against {second.label}, from argmax to the tuned rule and beyond.",
        {"x": _loose("x", second.label), "y": _loose("y", main.label)},
        RULES,
        _rows(t=trade.steps, x=trade.other, y=main.as_shown(trade.tuned)),
        marks,
        _tips({"what": "rule", "x": second.label, "y": main.label}),
        height=320,
        # the way may turn back in either metric: its points are joined by step, not from left to right
        order={"order": {"field": "t", "type": "quantitative"}},
    )


def _curve(figures: Figures, curve: ThresholdCurve) -> Chart:
    main = figures.main
    name = main.label
    title = f"threshold on the probability of {figures.names[figures.positive]}"
    return _line(
        f"{capital(name)} against the threshold, with argmax, p/prior and the tuned rule.",
        {"x": _along("t", title, domain=[0, 1]), "y": _loose("y", name)},
        RULES,
        _rows(t=curve.thresholds, y=main.as_shown(curve.values)),
        # a rule that draws has a point for every threshold that it draws
        [{"what": mark.name, "t": mark.threshold, "y": main.as_shown(mark.value)} for mark in curve.marks],
        _tips({"what": "rule", "t": "threshold", "y": name}),
    )


def _limits(figures: Figures, curve: LimitCurve) -> Chart:
    main = figures.main
    name = main.label
    beyond = "costs less" if main.is_cost else "is above"
    free = Series("best rule without limits", "quiet", "▲")
    key = (free, *RULES)
    limit = _layer("rule", {"x": {"datum": curve.constraint.limit}}, strokeDash=[4, 4], color="var(--line-strong)")
    place = {"x": _loose("x", f"{curve.name}, limit"), "y": _loose("y", f"{name}, expected")}
    # a click on a point shows the rule in words
    rows = _rows(x=curve.levels, y=main.as_shown(curve.values), bound=main.as_shown(curve.bounds), rule=curve.rules)
    above = {**place, "y": _loose("bound", f"{name}, expected")}
    known = np.isfinite(curve.bounds).any()
    bound = (_layer("line", above, color="var(--line)", strokeWidth=1),) if known else ()
    return _line(
        f"Best {name} against the limit of {curve.name}.",
        place,
        key,
        rows,
        [{"what": name, "x": x, "y": main.as_shown(y)} for name, (x, y) in curve.marks.items()],
        _tips({"what": "rule", "x": curve.name, "y": name}),
        below=(limit, *bound),
        point={"filled": True, "size": 30, "color": "var(--line-strong)", "cursor": "pointer"},
        numbers=_tips(
            {
                "x": f"{curve.name}, limit",
                "y": f"best {name}",
                "bound": f"no rule {beyond}",
            }
        ),
    )


def _coverage(undecided: CoverageFigures) -> Chart:
    looks = {CHOW: Series(CHOW, "quiet"), BEST: Series(BEST, "second", "■")}
    key = (*(looks[name] for name in undecided.curves), RULES[2])
    curves = undecided.curves.items()
    rows = [row for name, it in curves for row in _rows(what=[name] * len(it.levels), x=it.levels, y=1.0 - it.values)]
    x, y = undecided.point
    title = f"1 − {undecided.label} of what is decided"
    place = {"x": _loose("x", "coverage"), "y": _loose("y", title)}
    tips = _tips({"what": "rule", "x": "coverage", "y": title})
    # the rules of a path are a few, and Chow's curve has a point for nearly every row
    points = [row for row in rows if row["what"] != CHOW] + [{"what": RULES[2].name, "x": x, "y": y}]
    layers = [
        _layer("line", {**place, **_series(key, "color"), **tips}, strokeWidth=2),
        _points({**place, **_series(key, "color", "shape"), **tips}, points, size=70),
    ]
    return _chart("Risk-coverage curve: the loss of what is decided against its share.", layers, rows, 300, key)


def _convergence(solution: Tuned) -> Chart:
    best = Series("best rule so far", "accent")
    bound = Series("upper bound", "second")
    rows = [
        {"passes": n, "value": value, "what": series.name}
        for n, *values in zip(*convergence(solution), strict=True)
        for series, value in zip((best, bound), values, strict=True)
        if series is best or np.isfinite(value)
    ]
    key = (best, bound) if any(row["what"] == bound.name for row in rows) else (best,)
    x = _along("passes", "scans of the table", zero=False, nice=False)
    # scans are whole numbers
    x["axis"] = {"tickMinStep": 1, "format": "d", "tickCount": 5}
    y = _along("value", metric_name(repr(solution.metric)), zero=False)
    tips = _tips({"what": "what", "passes": "scans", "value": "value"})
    line = _layer(
        "line",
        {"x": x, "y": y, **_series(key, "color"), **tips},
        interpolate="step-after",
        point={"filled": True, "size": 40},
    )
    description = (
        "Convergence: the best rule's value and, where one is proved, the upper bound, after each step of the search."
    )
    return _chart(description, [line], rows, 220, key)


def _thresholds(figures: Figures) -> Chart:
    """Return what the rules of the folds are compared by: thresholds of two classes, else shares of rows."""
    what = "threshold" if len(figures.classes) == 2 else "share of rows"
    # the classes that vary most are those that a reader should see
    spread = np.array([row.spread for row in figures.classes])
    shown = [figures.classes[k] for k in most_changed(np.nan_to_num(spread, posinf=1e9), MOST_BARS)]
    rows = []
    for row in shown:
        assert row.folds is not None
        # a class that is never decided has an infinite threshold: it stands at the end of the axis
        low, high, tuned, plain = (min(value, 1.0) for value in (*row.folds, row.level, row.level_plain))
        rows.append({"name": row.name, "low": low, "high": high, "tuned": tuned, "plain": plain})
    y = _down([row.name for row in shown])
    x_plain, x_low, x_tuned = (_along(field, what, domain=[0, 1]) for field in ("plain", "low", "tuned"))
    tips = _tips({"name": "class", "tuned": what, "low": "lowest fold", "high": "highest fold", "plain": "argmax"})
    layers = [
        _points({"y": y, "x": x_plain}, size=60, color="var(--quiet)"),
        _span({"y": y}, x_low, "high", strokeWidth=6, opacity=0.35, color="var(--accent)", strokeCap="round"),
        _points({"y": y, "x": x_tuned, **tips}, color="var(--accent)", shape="diamond"),
    ]
    description = (
        f"{capital(what)} of {len(rows)} classes: of the rule, of argmax, and the range of the rules of the folds."
    )
    key = (RULES[0], RULES[2], Series("rules of the folds", "accent", "▬"))
    return _chart(description, layers, rows, _tall(len(shown)), key)
