"""A process that has imported nothing: it runs a page's steps in order, and finds only the packages that it is left.

``python -W error fresh_process.py`` reads a JSON list of steps from stdin and writes what came of each to stdout. It
imports the standard library alone, so that the steps meet confmax as a user's first lines do. A step is an object with

* ``find``: packages that can be imported from now on; those of `OPTIONAL` that no step has named cannot,
* and one of ``code`` (Python, all in one namespace), ``script`` (a file) and ``command`` (the words after `confmax`).

What came of it is what was printed, the error's type and sentence (null without one), and a command's exit code.
"""

import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

# what the extras of pyproject.toml bring
OPTIONAL = ("click", "rich", "pyarrow", "matplotlib", "vl_convert", "torch", "dask", "distributed", "pyspark",
            "pandas", "polars", "sqlglot", "onnx", "onnxruntime", "skl2onnx", "duckdb", "lightgbm")  # fmt: skip
# warnings are errors, but for one of PySpark's about the versions that are installed
WARNINGS = ("-W", "error", "-W", "ignore:PySpark does not yet fully support pandas:FutureWarning")


class Without:
    """A finder of modules that finds those of no package in ``hidden``, as if they were not installed."""

    def __init__(self, finder, hidden):
        self.finder, self.hidden = finder, hidden

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.hidden else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


def run_step(step, namespace):
    """Run one step; return its exit code."""
    if "code" in step:
        exec(compile(step["code"], "<page>", "exec"), namespace)
    elif "script" in step:
        runpy.run_path(step["script"], run_name="__main__")
    else:
        from confmax.__main__ import main

        sys.argv = ["confmax", *step["command"]]
        try:
            main()
        except SystemExit as end:
            return end.code
    return 0


def main():
    hidden, namespace, found = set(OPTIONAL), {}, []
    sys.meta_path[:] = [Without(finder, hidden) for finder in sys.meta_path]
    sys.path[0] = ""  # the folder of the page's files, not this one
    for step in json.load(sys.stdin):
        hidden.difference_update(step.get("find", ()))
        printed, error, code = io.StringIO(), None, 0
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                code = run_step(step, namespace)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
        found.append({"printed": printed.getvalue(), "error": error, "code": code})
    json.dump(found, sys.stdout)


def run_fresh(steps, folder):
    """Run steps in a new process that works in ``folder``, every warning an error; return what came of each."""
    import confmax

    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR")}
    environment = {**kept, "PYTHONPATH": str(Path(confmax.__file__).parents[1]), "MPLBACKEND": "agg"}
    command = [sys.executable, *WARNINGS, __file__]
    done = subprocess.run(command, input=json.dumps(steps), capture_output=True, text=True, env=environment,
                          cwd=folder, timeout=300, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Warning" not in done.stderr, done.stderr[-2000:]  # raised where nothing could catch it
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
