"""The shape of the code base: imports go one way, and importing is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import confmax

ROOT = Path(confmax.__file__).parent
LAYERS = [
    {"_version", "_softmax", "_seed", "_palette", "confusion", "places"},
    {"formulas", "bounds", "ratios", "_autodiff", "_structure", "_constants", "_sampling", "_bootstrap"},
    {"_metric", "_user_metric"},
    {"metrics"},
    {"oracle"},
    {"_calibration_fit", "_draw", "_score", "_order_check", "_aligned"},
    {"_calibrators", "_folds", "_lazy"},
    {"_calibration_rows", "_exports", "_threshold"},
    {"_export_sql", "_export_onnx"},
    {"_export_methods"},
    {"optimize", "calibration", "blend", "_rule_file", "_path", "_rule_text", "_spark_rule", "theory", "populations"},
    {"_html", "_report_method", "_guarantee"},
    {"rule", "_polish"},
    {"_solution"},
    {"solution"},
    {"checks", "_estimator_steps", "uncertainty"},
    {"_estimator_base", "_estimator_table", "_threshold_curve", "_tuning_rows"},
    {"estimators"},
    {"plotting", "report"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py" or path.parent != ROOT)


def place(path):
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def imported(path):
    """Yield the parts of confmax that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "confmax":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else (alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("confmax."))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    mine = place(path)
    for other in imported(path):
        if other == mine or other not in LEVEL:
            continue
        assert LEVEL[other] < LEVEL[mine], f"{mine} imports {other}, which stands above or beside it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 600
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            doc = node.body[0].end_lineno - node.body[0].lineno + 1 if ast.get_docstring(node) else 0
            assert node.end_lineno - node.lineno + 1 - doc <= 60, node.name


def test_import_is_light_and_needs_no_extra():
    """What takes long waits for the first use; every public name is there for all that."""
    others = ("click", "rich", "pyarrow", "pandas", "polars", "torch", "autograd", "numba", "scipy", "sklearn")
    code = f"import sys, confmax; print([name for name in {others} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
    code = "from confmax import *; import confmax; print(all(name in globals() for name in confmax.__all__))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "True"
