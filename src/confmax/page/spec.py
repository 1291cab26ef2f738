"""What all charts share: the frame of a Vega-Lite specification, axes, series and their keys.

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

Spec = dict[str, Any]

MARKS = {"▲": "triangle-up", "●": "circle", "▼": "triangle-down", "◆": "diamond", "■": "square"}


@dataclass(frozen=True)
class Series:
    """A series of a chart: its name, the CSS variable of its colour, and the shape of its points."""

    name: str
    colour: str
    mark: str = "●"


@dataclass(frozen=True)
class Chart:
    """A chart: an identifier, what it shows in words, its specification, and the key to its series."""

    name: str
    description: str
    spec: Spec
    key: tuple[Series, ...] = ()


def spec(layers: list[Spec], rows: list[Spec], height: int) -> Spec:
    """Return a specification as wide as its place."""
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit", "contains": "padding"},
        **values(rows),
        "layer": layers,
    }


def tall(n_lines: int, each: int = 22) -> int:
    """Return the height of a chart of so many lines above an axis with a title, in pixels."""
    return n_lines * each + 48


def values(rows: list[Spec]) -> Spec:
    """Return rows as a specification's data, numbers rounded to what a chart can show."""
    return {"data": {"values": [{key: _plain(value) for key, value in row.items()} for row in rows]}}


def _plain(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return None if not np.isfinite(value) else float(f"{value:.6g}")
    return int(value) if isinstance(value, np.integer) else value


def along(field: str, title: str | None, **scale: Any) -> Spec:
    """Return the encoding of a number along an axis."""
    axis = {"tickCount": 5, "labelOverlap": True}
    return {"field": field, "type": "quantitative", "title": title, "axis": axis, "scale": scale}


def down(field: str, names: list[str]) -> Spec:
    """Return the encoding of names, one line each, in their order."""
    axis = {"labelLimit": 130, "ticks": False, "domain": False, "labelPadding": 6}
    return {"field": field, "type": "nominal", "title": None, "sort": names, "axis": axis}


def colours(series: tuple[Series, ...]) -> Spec:
    """Return the encoding of series by colour; the key stands in the page, not in the chart."""
    scale = {"domain": [each.name for each in series], "range": [f"var(--{each.colour})" for each in series]}
    return {"field": "what", "type": "nominal", "scale": scale}


def shapes(series: tuple[Series, ...]) -> Spec:
    """Return the encoding of series by the shape of their points."""
    scale = {"domain": [each.name for each in series], "range": [MARKS[each.mark] for each in series]}
    return {"field": "what", "type": "nominal", "scale": scale}


def tips(fields: Mapping[str, str]) -> list[Spec]:
    """Return what is shown of a mark when it is pointed at: titles by field, numbers with four decimals."""
    return [
        {"field": field, "title": title, **({} if field in ("name", "what") else {"format": ".4f"})}
        for field, title in fields.items()
    ]


def most_changed(change: Array, most: int) -> list[int]:
    """Return the positions of the largest changes, in their own order; all where there are few enough."""
    if len(change) <= most:
        return list(range(len(change)))
    return sorted(np.argsort(-change, kind="stable")[:most].tolist())
