"""The page: one HTML document that holds its own style, script, charts and numbers, and loads nothing.

The template `page.html.jinja` holds the structure and the sentences that are always true. `words` and `warnings` write
the sentences that depend on the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from confmax.calibration.words import printable
from confmax.evaluate.figures import AS_GOOD, CLASS_INTERVALS, Figures
from confmax.evaluate.palette import style_variables
from confmax.page import format as form
from confmax.page import words
from confmax.page.charts import charts
from confmax.page.warnings import warnings_of

# nothing may be fetched, whatever the page holds; Vega compiles expressions, so it needs eval
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data:"
MOST_TEXT = 10_000  # characters of a line
NEEDED = {
    "vl_convert": "vl-convert-python, which holds the charts' library",
    "jinja2": "jinja2, which fills in the page's template",
}


@dataclass(frozen=True)
class Made:
    """How a report was made.

    Attributes
    ----------
    source : str
        What the rows are, such as the name of a file.
    version : str
        Of confmax.
    settings : list of (name, value)
        Everything else that the figures depend on.
    again : str
        The command or call that makes it again.
    rule : str
        The rule as JSON.
    """

    source: str
    version: str
    settings: list[tuple[str, str]]
    again: str
    rule: str


def check_installed() -> None:
    """Refuse, by an ImportError, to write a page without the packages of the extra ``confmax[report]``."""
    for name, what in NEEDED.items():
        if find_spec(name) is None:
            raise ImportError(f"a report needs {what}; install it with: pip install 'confmax[report]'")


def page(figures: Figures, made: Made) -> str:
    """Return the document; the same figures give the same text."""
    from markupsafe import Markup

    drawn, shown = charts(figures), figures.change.shown()
    columns = figures.change.columns(shown)
    share, change = figures.change.limits()
    # what the template may use; only the texts of this package are Markup, all else is escaped
    values = {
        "figures": figures, "made": made, "words": words, "warnings": warnings_of(figures), "charts": drawn,
        "shown": shown, "columns": columns, "column_names": [figures.names[k] for k in columns],
        "largest_share": share, "largest_change": change, "class_intervals": CLASS_INTERVALS, "as_good": AS_GOOD,
        "policy": Markup(POLICY), "style": Markup(f"{style_variables()}\n{_resource('page.css')}"),
        "specs": {name: chart.spec for name, chart in drawn.items()}, "bundle": Markup(bundle()),
        "script": Markup(_resource("page.js")),
    }  # fmt: skip
    text: str = environment().from_string(_resource("page.html.jinja")).render(values)
    return text


def environment() -> Any:
    """Return the environment of the template: values are escaped, and control characters in them are shown."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        # lines may break; any other control character, those of writing direction included, could disguise a name
        return value if isinstance(value, Markup) else "\n".join(
            printable(line, MOST_TEXT) for line in str(value).split("\n")
        )  # fmt: skip

    # a name that is missing is an error, not an empty place on the page
    made = Environment(
        autoescape=True, finalize=shown, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    # JSON cannot hold what is not finite: better no page than one that does not draw
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.filters |= {
        name: getattr(form, name) for name in ("capital", "count", "number", "percent", "rows", "threshold")
    }
    # estimates and differences alike
    made.filters["interval"] = lambda it, sign=False: form.interval(it.low, it.high, sign)
    return made


@cache
def bundle() -> str:
    """Return Vega, Vega-Lite and their embedding as one script."""
    import vl_convert

    # a script element ends at the first of these, wherever it stands
    text: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _resource(name: str) -> str:
    return (files("confmax") / "page" / name).read_text(encoding="utf-8")
