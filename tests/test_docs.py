"""The pages tell the truth: their Python runs and prints what they say, every public name has its place in the API."""

import contextlib
import importlib
import io
import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.version import Version

import confmax
from confmax.constraints import quantities
from docs import decision_picture

DOCS = Path(__file__).parents[1] / "docs"
# the walk of first-steps.md and the command line have tests of their own
PAGES = sorted(path.name for path in DOCS.glob("*.md") if path.name not in ("first-steps.md", "README.md"))
BLOCK = re.compile(
    r"(?:<!-- (not run|with [\w .,]+) -->\n)?^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
MODULES = ("calibration", "checks", "constraints", "metrics", "optimize", "plotting", "report", "shift", "theory")


def is_there(library):
    """Whether a library that a page names, such as "polars 1.34", is installed, and not older."""
    name, _, least = library.partition(" ")
    return find_spec(name) is not None and (not least or Version(version(name)) >= Version(least))


@pytest.mark.parametrize("name", PAGES)
def test_the_python_of_a_page_prints_what_the_page_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / name).read_text()
    assert text.count("```python\n") == len(BLOCK.findall(text))
    namespace: dict = {}
    for mark, code, expected in BLOCK.findall(text):
        printed = io.StringIO()
        if mark and not (mark.startswith("with ") and all(map(is_there, mark[5:].split(", ")))):
            compile(code, name, "exec")
            continue
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), namespace)
        assert [line.rstrip() for line in printed.getvalue().splitlines()] == expected.splitlines(), code


@pytest.mark.parametrize("name", ["choosing-a-mode.md", "comparison.md", "groups.md", "solvers.md"])
def test_figures_that_are_cited_stand_in_the_results(name):
    """Those of four decimals or more: shorter ones are rounded. Measuring again must not leave old figures behind."""
    results = (DOCS.parent / "benchmarks" / "RESULTS.md").read_text()
    prose = BLOCK.sub("", (DOCS / name).read_text())
    cited = re.findall(r"(?<![\w.])0?(\.\d{4,})(?!\w)", prose)
    assert cited
    assert [figure for figure in cited if "0" + figure not in results] == []


def test_the_picture_of_the_front_page_shows_the_rule_of_today():
    assert decision_picture.PICTURE.read_text() == decision_picture.draw()


def listed(page):
    """Names in the tables of an API page."""
    text = (DOCS / "api" / f"{page}.md").read_text()
    return set(re.findall(r"^   (\w+)$", text, re.MULTILINE))


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_of_a_module_is_in_its_page(module):
    names = set(importlib.import_module(f"confmax.{module}").__all__)
    if module == "constraints":
        # the functions of the catalogue's quantities are listed when the page is built
        assert "@QUANTITIES@\n" in (DOCS / "api" / "constraints.md").read_text()
        names -= set(quantities.FUNCTIONS)
    names -= {"SOLVERS", "Form"}  # a table, which solvers.md tells in words, and the type of two words
    assert names <= listed(module)


def test_every_public_name_is_in_the_reference():
    pages = {path.stem for path in (DOCS / "api").glob("*.md")}
    assert set(confmax.__all__) - {"__version__"} <= listed("confmax") | pages
    module = importlib.import_module("confmax.populations")
    own = {n for n, o in vars(module).items() if getattr(o, "__module__", "") == module.__name__ and n[0].islower()}
    assert {name for name in own if not name.startswith("_")} <= listed("populations")


def test_no_page_of_the_site_is_forgotten():
    """Every page stands in a table of contents, which the strict build checks too where Sphinx is installed."""
    text = (DOCS / "index.md").read_text() + (DOCS / "api" / "index.md").read_text()
    for path in [*DOCS.glob("*.md"), *(DOCS / "api").glob("*.md")]:
        if path.name not in ("index.md", "README.md"):
            assert re.search(rf"^{re.escape(path.stem)}$", text.replace("api/", ""), re.MULTILINE), path
