"""Pieces of the page that its sections share: charts with their captions and keys."""

from __future__ import annotations

from collections.abc import Mapping

from confmax.page.markup import Markup, join, tag
from confmax.page.spec import Chart

Charts = Mapping[str, Chart]


def figure(drawn: Charts, name: str, caption: str, scale: Markup | None = None) -> Markup | None:
    """Return a chart's place with caption and key, nothing where there is no such chart."""
    if name not in drawn:
        return None
    chart = drawn[name]
    key = [
        tag("span", tag("span", each.mark, style=f"color:var(--{each.colour})", aria_hidden="true"), f" {each.name}")
        for each in chart.key
    ]
    place = tag("div", cls="chart", data_chart=chart.name, role="img", aria_label=chart.told)
    return tag("figure", tag("figcaption", caption), tag("p", key, cls="key") if key else scale, place)


def colour_scale(kind: str, low: str, high: str, steps: int = 9) -> Markup:
    """Return the key to the colours of a matrix."""
    cells = [tag("span", style=f"background:var(--{kind}-{k})") for k in range(steps)]
    return tag("p", join(low, tag("span", cells, cls="scale", aria_hidden="true"), high), cls="key")
