"""HTML from nested calls: text is escaped unless it is markup already, so nothing has to be remembered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from confmax.calibration.words import printable

MOST_NAME = 10_000  # control characters of any text are shown, never obeyed


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *parts: Any, **attributes: Any) -> Markup:
    """Return an element; ``cls`` is its class, underscores of attributes become hyphens, None leaves one out."""
    told = "".join(
        f' {"class" if key == "cls" else key.strip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{told}>{join(*parts)}</{name}>")


def join(*parts: Any) -> Markup:
    """Return parts side by side, lists flattened, text escaped."""
    told = []
    for part in parts:
        if isinstance(part, (list, tuple)):
            told.append(join(*part))
        elif isinstance(part, Markup):
            told.append(part)
        elif part is not None:
            told.append(Markup(escape(_safe(str(part)))))
    return Markup("".join(told))


def _safe(text: str) -> str:
    """Return text whose lines may break, but which holds no other control characters, bidirectional ones included."""
    return "\n".join(printable(line, MOST_NAME) for line in text.split("\n"))


def table(caption: str, head: Sequence[Any], rows: Sequence[Sequence[Any]], marks: Sequence[str] = ()) -> Markup:
    """Return a table in a box that scrolls by itself; the first cell of each row is its heading.

    A cell is text, markup, or (content, class). ``marks`` are classes of the rows.
    """
    columns = [tag("th", cell, scope="col") for cell in head]
    body = []
    for k, row in enumerate(rows):
        cells = [tag("th", row[0], scope="row")]
        for cell in row[1:]:
            content, cls = cell if isinstance(cell, tuple) else (cell, None)
            cells.append(tag("td", content, cls=cls))
        body.append(tag("tr", cells, cls=(marks[k] or None) if marks else None))
    grid = tag("table", tag("caption", tag("span", caption)), tag("thead", tag("tr", columns)), tag("tbody", body))
    return tag("div", grid, cls="box", tabindex="0", role="region", aria_label=caption)


def details(summary: str, *parts: Any) -> Markup:
    """Return what is folded away."""
    return tag("details", tag("summary", summary), parts)


def script_json(value: Any) -> str:
    """Return JSON that can stand in a script element, whatever names it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
