"""What the pages of one class and of several labels share: settings, the environment of templates, and files."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from confmax.calibration.words import printable
from confmax.page import words

# nothing may be fetched, whatever the page holds; Vega compiles expressions, so it needs eval
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data:"
MOST_TEXT = 10_000  # characters of a line


@dataclass(frozen=True)
class Settings:
    """What a page shows beside rows and rule, and how: keywords of `confmax.report.write`, with a seed."""

    n_replicates: int = 1000
    level: float = 0.95
    seed: int = 0
    source: str = "rows given"
    again: str | None = None
    order_known: bool | None = None


def environment() -> Any:
    """Return the environment of the template: values are escaped, and control characters in them are shown."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        # lines may break; any other control character, those of writing direction included, could disguise a name
        return (
            value
            if isinstance(value, Markup)
            else "\n".join(printable(line, MOST_TEXT) for line in str(value).split("\n"))
        )

    # a name that is missing is an error, not an empty place on the page
    made = Environment(
        autoescape=True,
        finalize=shown,
        loader=FunctionLoader(resource),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    # JSON cannot hold what is not finite: better no page than one that does not draw
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    filters = ("capital", "count", "interval", "number", "percent", "rows", "threshold")
    made.filters |= {name: getattr(words, name) for name in filters}
    return made


def resource(name: str) -> str:
    """Return the text of a file of this package."""
    return (files("confmax") / "page" / name).read_text(encoding="utf-8")
