"""The page: one HTML document that holds its own style, script, charts and numbers, and loads nothing."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from confmax.evaluate.figures import Figures
from confmax.evaluate.palette import style_variables
from confmax.page.charts import charts
from confmax.page.format import capital, interval, number, rows
from confmax.page.markup import Markup, join, script_json, tag
from confmax.page.sections import Made, sections
from confmax.page.warnings import warnings_of
from confmax.page.words import against_prior, basis, confidence, headline, price, verdict

# nothing may be fetched, whatever the page holds; Vega compiles expressions, so it needs eval
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data:"


def page(figures: Figures, made: Made) -> str:
    """Return the document; the same figures give the same text."""
    drawn = charts(figures)
    parts = sections(figures, made, drawn)
    title = made.title or f"{capital(figures.main.label)} of a tuned decision rule"
    body = [
        tag("a", "Skip to the figures", cls="skip", href="#figures"),
        tag("header", tag("p", f"confmax report · {made.source}", cls="eyebrow"), _top(figures)),
        tag("main", _warnings(figures), _contents(parts), [part for _, part in parts], id="figures"),
        tag("footer", tag("p", f"Made by confmax {made.version}. This page loads nothing from elsewhere.")),
    ]
    head = [
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="generator" content="confmax">'),
        tag("title", title),
        Markup(f"<style>{style_variables()}\n{_resource('page.css')}</style>"),
    ]
    specs = script_json({name: chart.spec for name, chart in drawn.items()})
    scripts = [
        Markup(f'<script type="application/json" id="specs">{specs}</script>'),
        Markup(f"<script>{bundle()}</script>"),
        Markup(f"<script>{_resource('page.js')}</script>"),
    ]
    document = tag("html", tag("head", head), tag("body", body, scripts), lang="en")
    return f"<!DOCTYPE html>\n{document}\n"


@cache
def bundle() -> str:
    """Return Vega, Vega-Lite and their embedding as one script.

    Raises
    ------
    ImportError
        If vl-convert-python (extra ``confmax[report]``) is not installed.
    """
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise ImportError(
            "reports need vl-convert-python, which holds the charts' library; install it with: pip install "
            "'confmax[report]'"
        ) from None
    # a script element ends at the first of these, wherever it stands
    text: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _resource(name: str) -> str:
    return (files("confmax") / "page" / name).read_text(encoding="utf-8")


def _top(figures: Figures) -> Markup:
    kind, told = verdict(figures)
    prior, lower = against_prior(figures), price(figures)
    return join(
        tag("h1", headline(figures)),
        _tiles(figures),
        tag("p", told, cls=f"verdict {kind}"),
        tag("p", prior) if prior else None,
        tag("p", lower) if lower else None,
        tag("p", f"Evaluated {basis(figures)}.", cls="soft"),
    )


def _tiles(figures: Figures) -> Markup:
    main = figures.main
    tiles: list[tuple[str, str, str, str]] = [
        (f"{main.label}, tuned rule", number(main.tuned.value), interval(main.tuned.low, main.tuned.high), "main"),
        ("argmax", number(main.argmax.value), interval(main.argmax.low, main.argmax.high), ""),
        ("p/prior", number(main.prior.value), interval(main.prior.low, main.prior.high), ""),
    ]
    shown: list[Any] = [
        tag("div", tag("dt", name), tag("dd", value, tag("small", span) if span else None), cls=cls or None)
        for name, value, span, cls in tiles
    ]
    n = figures.score.n_rows
    spans = f"{confidence(figures)} intervals" if figures.score.n_replicates else "no intervals"
    unit = rows(n).split()[1]
    shown.append(tag("div", tag("dt", "evaluated on"), tag("dd", f"{n:,}", tag("small", f"{unit}, {spans}"))))
    return tag("dl", shown, cls="tiles")


def _warnings(figures: Figures) -> Markup | None:
    found = warnings_of(figures)
    if not found:
        return None
    return tag(
        "aside",
        tag("h2", "Before you trust this", id="warnings"),
        tag("ul", [tag("li", sentence) for sentence in found]),
        cls="warnings",
        aria_labelledby="warnings",
    )


def _contents(parts: list[tuple[str, Markup]]) -> Markup:
    links = [tag("li", tag("a", name, href=f"#part-{k}")) for k, (name, _) in enumerate(parts)]
    return tag("nav", tag("ul", links), aria_label="Contents")
