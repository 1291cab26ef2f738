"""The shape of the code base: imports go one way; `test_imports` says that importing is light."""

import ast
from pathlib import Path

import confmax

ROOT = Path(confmax.__file__).parent
# what stands further right may import what stands further left, and nothing else
ORDER = (
    "_version lazily places errors confusion kernels theory tables metrics constraints oracle calibration optimize "
    "progress export rule shift evaluate page populations solution checks report estimators plotting frontiers cli "
    "__main__ __init__"
).split()
MOST_MODULES = 8
FILES = sorted(ROOT.rglob("*.py"))
MODULES = {
    ".".join(("confmax", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__") for path in FILES
}


def place(module):
    """Return the file or folder at the top of the package that a module is, or lies in."""
    return module.split(".")[1] if "." in module else "__init__"


def name_of(path):
    name = ".".join(("confmax", *path.relative_to(ROOT).with_suffix("").parts))
    return name.removesuffix(".__init__")


def imported(tree):
    """Yield the modules of confmax that a file imports, wherever and however the import stands.

    A call of `import_module` or `__import__` counts with each text in the file that it may put together.
    """
    dynamic = False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if (node.module or "").split(".")[0] == "confmax":
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    yield whole if whole in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "confmax")
        elif isinstance(node, ast.Name) and node.id in ("import_module", "__import__"):
            dynamic = True
    if dynamic:
        texts = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        yield from (name for text in texts for name in (text, f"confmax.{text}") if name in MODULES - {"confmax"})


def arrows():
    """Return which module imports which, as pairs."""
    return {
        (name_of(path), other)
        for path in FILES
        for other in imported(ast.parse(path.read_text()))
        if other != name_of(path)
    }


def circles(pairs):
    """Return the sets of names that import each other in a circle."""
    names = {name for pair in pairs for name in pair}
    reached = {name: {other for one, other in pairs if one == name} for name in names}
    for middle in names:
        for name in names:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    return {frozenset(other for other in reached[name] if name in reached[other]) for name in names} - {frozenset()}


def test_imports_go_one_way():
    rank = {name: k for k, name in enumerate(ORDER)}
    assert set(rank) == {place(module) for module in MODULES}
    pairs = {(place(one), place(other)) for one, other in arrows()}
    assert {(one, other) for one, other in pairs if rank[other] > rank[one]} == set()


def test_no_files_import_each_other_in_a_circle():
    # a package's own face imports its files, and files take names from the faces of other packages
    assert not circles(arrows())


def test_the_top_holds_packages_and_few_modules():
    modules = [path for path in ROOT.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES
    assert {path.stem for path in modules if path.stem.startswith("_")} == {"__main__", "_version"}
    for folder in (path.parent for path in FILES if path.name == "__init__.py"):
        sentence = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
        assert sentence and sentence.split("\n\n")[0].endswith("."), folder


METRICS = {
    "metric",
    "chosen",
    "fitted",
    "second",
    "surrogate",
    "tuned",
    "tuned_for",
}  # what variables of metrics are called


def is_metric(node):
    """Return whether an expression is a variable or an attribute that holds a metric, by what it is called."""
    called = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return called in METRICS


def is_field(node, field):
    return isinstance(node, ast.Attribute) and node.attr == field and is_metric(node.value)


def looks_inside(node):
    """Return whether an expression decides by the name of a metric, or looks one of its parameters up."""
    if isinstance(node, ast.Compare):
        return any(is_field(side, "name") for side in (node.left, *node.comparators))
    if isinstance(node, ast.Subscript):
        return is_field(node.slice, "name") or is_field(node.value, "params")
    if isinstance(node, ast.Call):
        looked_up = isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        if looked_up and (is_field(node.func.value, "params") or any(is_field(key, "name") for key in node.args)):
            return True
        return (
            isinstance(node.func, ast.Name)
            and node.func.id == "dict"
            and any(is_field(part, "params") for part in node.args)
        )
    return isinstance(node, ast.Match) and is_field(node.subject, "name")


def test_nobody_decides_by_the_name_or_the_parameters_of_a_metric():
    """What a metric is and needs, its structure says: outside metrics/ no metric is known by its name."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] != "metrics"
        for node in ast.walk(ast.parse(path.read_text()))
        if looks_inside(node)
    ]
    assert found == []
    seen = [
        'metric.name == "min_recall"', 'self.metric.name not in TRIVIAL', 'OWN[metric.name]', 'OWN.get(chosen.name)',
        'dict(metric.params).get("gain")', 'params = dict(chosen.params)', 'problem.metric.params["rho"]',
    ]  # fmt: skip
    for text in seen:
        assert any(looks_inside(node) for node in ast.walk(ast.parse(text))), text


def test_every_public_name_is_there():
    """What takes long waits for the first use."""
    names = {}
    exec("from confmax import *", names)
    assert set(confmax.__all__) <= set(names)
