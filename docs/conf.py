"""Sphinx settings of the documentation; `docs/README.md` has the command.

Nothing is loaded from the network: not at build, and not by the pages (no web fonts, no scripts of others).
"""

import os
from importlib.util import find_spec

# set before compiled libraries are loaded: boosting with as many threads as a busy machine has cores is slow
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

import warnings

import confmax
from confmax.constraints import quantities as constraints

project = "confmax"
author = "the confmax developers"
copyright = "the confmax developers, BSD-3-Clause"
version = release = confmax.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "README.md",
    "sg_execution_times.rst",
    "gallery/**/*.ipynb",
    "gallery/*.py",
    "gallery/*.zip",
]
default_role = "py:obj"

# unresolved links of the pages are errors; docstrings put parameters and words into single backticks too
nitpicky = True
nitpick_ignore_regex = [("py:obj", r".*")]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# the names of code in front of headings of RESULTS.md are comments of the tool that writes the file
suppress_warnings = ["config.cache"]

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say types and shapes, in words
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False
numpydoc_validation_checks = set()

html_theme = "furo"
html_title = f"confmax {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

# an example is run where its library is installed, and shown without its output where it is not
_NEEDS = {"plot_5_lightgbm": "lightgbm", "plot_6_torch_logits": "torch", "plot_8_export": "duckdb"}
_NOT_RUN = [name for name, module in _NEEDS.items() if find_spec(module) is None]

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": rf"[/\\]plot_(?!{'|'.join(name[5:] for name in _NOT_RUN) or '$'})",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 3600,
    "remove_config_comments": True,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "copyfile_regex": "",
    "show_signature": False,
    "capture_repr": (),  # what is worth showing is printed
    "write_computation_times": False,  # its pages load scripts from the network
}
# matplotlib's own note that a backend without windows cannot show one
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def _with_quantities(_app, _page, source):
    """Put the functions of the catalogue's quantities where a page lists them."""
    listed = "\n".join(f".. autofunction:: {name}" for name in sorted(constraints.FUNCTIONS))
    source[0] = source[0].replace("@QUANTITIES@", f".. currentmodule:: confmax.constraints\n\n{listed}")


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", _with_quantities)
