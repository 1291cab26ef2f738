"""Every public object says what it takes, returns and refuses, where it comes from, and shows an example.

Public are the names of the modules below, with the public methods and properties that classes define themselves.

* Functions and classes have a summary; a section ``Parameters`` (of records ``Attributes``) that names exactly the
  parameters of the signature, each with a type, arrays with a shape such as ``(n, K)``; a section ``Returns``, or a
  summary that begins with what is returned; ``Raises``, or the word ``ValueError``, where `may_refuse` says that a bad
  argument is refused; an example of their own; and a source where they state or implement a result of mathematics.
* Records, enumerations and protocols are shown by what returns or takes them, so they need no example.
* Methods, and the `BLOCKS` that packages share with each other, may be brief: a sentence that names every parameter in
  double backticks does for ``Parameters``, and the class, or the function that uses them, has the example. What a
  protocol says of its methods is not said again by those who implement them.

`may_refuse` reads the source: a body with ``raise ValueError``, or a call of a function whose name begins with
"check", "checked" or "refuse", or of one in the same module that does either. It cannot see refusals further down.
"""

import ast
import enum
import importlib
import importlib.util
import inspect
import re
import runpy
import textwrap
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import confmax

docscrape = pytest.importorskip("numpydoc.docscrape")

MODULES = ["metrics", "constraints", "optimize", "theory", "populations", "checks", "calibration", "oracle",
           "tables", "estimators", "export", "rule", "solution", "evaluate", "confusion.statistics", "plotting",
           "frontiers", "report", "errors", "shift"]  # fmt: skip
# objects that state or implement results, and must say whose
RESULTS = ["metrics", "optimize", "theory", "populations", "calibration"]
PLAIN = {
    "metrics.names", "metrics.aliases", "metrics.get", "metrics.resolve", "metrics.from_function", "metrics.Metric",
    "optimize.Mixture", "optimize.Outcome", "optimize.Problem", "optimize.Progress", "optimize.Solver",
    "optimize.Status", "optimize.Step", "optimize.choose", "optimize.run", "calibration.Calibration",
    "calibration.check_calibration", "calibration.log_loss", "calibration.fit",
}  # fmt: skip
# what packages share with each other; people who extend confmax may meet them
BLOCKS = {
    "tables.Part", "tables.checked_probabilities", "tables.given_hashes", "confusion.statistics.difference",
    "confusion.statistics.sum_of_others", "confusion.statistics.given_matrix", "tables.here", "tables.host_array",
    "tables.refuse_elsewhere", "oracle.same_estimate",
    "tables.refuse_too_few_classes", "oracle.CountingOracle", "tables.apply_calibrator",
    "optimize.baselines", "optimize.warm_start", "optimize.best_cut", "optimize.Outcome",
    "optimize.Problem", "optimize.Step", "optimize.run", "optimize.choose", "optimize.passes_allowed",
    "evaluate.compare", "evaluate.doubts", "errors.Sentence", "errors.extended",
    "evaluate.plain_rules", "evaluate.check_bootstrap", "solution.Plan", "solution.aligned", "solution.fit_metric",
    "solution.tune", "solution.value_on_labels", "solution.warn_of_trivial",
    "calibration.check_calibration", "calibration.choose", "constraints.bind", "constraints.Limits",
}  # fmt: skip
PROTOCOLS = {"check", "init", "step", "maximize", "eta", "sample", "points", "table", "transform"}
SOURCE = re.compile(
    r"[Pp]aper|[Tt]heorem|[Ee]rrat|[Ll]emma|[Ss]ection|[Aa]lgorithm|Proposition|Corollary|Table \d|Appendix|et al|"
    r"\b(19|20)\d\d\b|RESULTS"
)
SHAPE = re.compile(r"\((\.\.\.|[a-zA-Z0-9]+)(,|\)| \+)|array-like of|shape")


def public_objects():
    """Yield name and object, each object once."""
    seen = set()
    for module_name in MODULES:
        if module_name == "plotting" and not importlib.util.find_spec("matplotlib"):
            continue
        module = importlib.import_module(f"confmax.{module_name}")
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]  # fmt: skip
        for name in names:
            value = getattr(module, name)
            if (callable(value) and inspect.getdoc(value)) or inspect.isclass(value):
                if id(value) in seen:
                    continue
                seen.add(id(value))
                yield f"{module_name}.{name}", value


def members(owner):
    """Yield the public methods and properties that a class defines itself."""
    for name, value in vars(owner).items():
        if name.startswith("_"):
            continue
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if inspect.isfunction(value) or isinstance(value, property):
            yield name, value


OBJECTS = dict(public_objects())
METHODS = {
    f"{name}.{each}": value
    for name, owner in OBJECTS.items()
    if inspect.isclass(owner) and not issubclass(owner, BaseException)
    for each, value in members(owner)
}


def is_shown_elsewhere(value):
    """Whether something is a record, an enumeration or a protocol."""
    if not inspect.isclass(value):
        return False
    record = is_dataclass(value) and "Attributes" in (inspect.getdoc(value) or "")
    return record or hasattr(value, "_fields") or issubclass(value, enum.Enum) or getattr(value, "_is_protocol", False)


def signature_of(value):
    """Return the parameters that a caller gives; of an enumeration or a record without them, none."""
    if is_shown_elsewhere(value) and not (is_dataclass(value) or hasattr(value, "_fields")):
        return {}
    found = dict(inspect.signature(value).parameters)
    found.pop("self", None)
    found.pop("cls", None)
    return found


def described(doc):
    """Return type by documented parameter; several may share a line."""
    found = {}
    for section in ("Parameters", "Other Parameters", "Attributes"):
        for entry in doc[section]:
            for name in entry.name.split(","):
                found[name.strip().lstrip("*")] = (entry.type, section, " ".join(entry.desc))
    return found


def may_refuse(value):
    """Whether the body, or a function of its module that it calls, refuses arguments; see the top of the module."""
    if inspect.isclass(value):
        return any(may_refuse(vars(value)[name]) for name in ("__init__", "__post_init__") if name in vars(value))
    value = getattr(value, "__wrapped__", value)
    module = inspect.getmodule(value)

    def refuses(function, depth):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, TypeError):
            return False
        for node in ast.walk(tree):
            call = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "ValueError":
                return True
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                name = node.func.id
                if re.match(r"_?(check|checked|refuse)(_|$)", name) and name != "check_rows":  # which only looks
                    return True
                inner = getattr(module, name, None)
                own = inspect.isfunction(inner) and inner.__module__ == module.__name__ and inner is not function
                if depth and own and refuses(inner, depth - 1):
                    return True
        return False

    return refuses(value, 1)


def is_array(annotation):
    return bool(re.search(r"\b(Array|ArrayLike|NDArray)\b", str(annotation)))


def faults(name, value, *, brief=False):
    """Return what the docstring of a function, a class or a property lacks; a brief one may be a sentence."""
    text = inspect.getdoc(value.fget if isinstance(value, property) else value) or ""
    doc = docscrape.NumpyDocString(text)
    summary = " ".join(doc["Summary"]).strip()
    wrong = [] if summary else ["has no summary"]
    if isinstance(value, property):
        shapeless = is_array(value.fget.__annotations__.get("return")) and not SHAPE.search(text)
        return wrong + ["gives its array no shape"] * shapeless
    wanted = signature_of(value)
    told = described(doc)
    spoken = re.findall(r"\w+", " ".join(re.findall(r"``(.+?)``", text))) if brief else []
    for each, parameter in wanted.items():
        kind, _, words = told.get(each, ("-", "", ""))
        if each not in told and each not in spoken:
            wrong.append(f"does not describe {each}")
        elif is_array(parameter.annotation) and not SHAPE.search(text if brief else f"{kind} {words}"):
            wrong.append(f"gives {each} no shape")
        elif not (kind or brief or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)):
            wrong.append(f"gives {each} no type")
    parameters = {each for each, (_, section, _) in told.items() if section != "Attributes"}
    wrong += [f"describes {each}, which is no parameter" for each in parameters - set(wanted)]
    returns = inspect.signature(value).return_annotation if inspect.isfunction(value) else None
    if returns not in (None, "None", inspect.Signature.empty):
        said = r"\b(Return|Yield|Draw|Read|Join|Whether)" if brief else r"^(Return|Yield|Whether|Bound)"
        if not (doc["Returns"] or doc["Yields"] or re.search(said, text if brief else summary)):
            wrong.append("does not say what it returns")
        of_returns = " ".join([summary, *(" ".join([e.type, *e.desc]) for e in doc["Returns"])])
        if is_array(returns) and not SHAPE.search(text if brief else of_returns):
            wrong.append("gives what it returns no shape")
    if may_refuse(value) and not doc["Raises"] and "ValueError" not in text:
        wrong.append("does not say what it refuses")
    if brief:
        return wrong
    if not is_shown_elsewhere(value) and ">>>" not in "\n".join(doc["Examples"]):
        wrong.append("has no example")
    if name.split(".")[0] in RESULTS and name not in PLAIN:
        # what a class implements may be said by its module
        told = text + (inspect.getmodule(value).__doc__ if inspect.isclass(value) else "")
        wrong += [] if SOURCE.search(told) else ["names no source"]
    return wrong


def faults_of_object(name):
    value = OBJECTS[name]
    if name in BLOCKS:
        return [] if inspect.isclass(value) else faults(name, value, brief=True)
    return faults(name, value)


def faults_of_method(name):
    owner, method = name.rsplit(".", 1)
    if method in PROTOCOLS and not getattr(OBJECTS[owner], "_is_protocol", False):
        return [] if inspect.getdoc(METHODS[name]) else ["has no docstring"]
    return faults(name, METHODS[name], brief=True)


def test_objects_and_methods():
    assert [f"{name} {fault}" for name in OBJECTS for fault in faults_of_object(name)] == []
    assert [f"{name} {fault}" for name in METHODS for fault in faults_of_method(name)] == []


def test_nothing_public_is_left_out():
    for value in (getattr(confmax, name) for name in confmax.__all__ if name != "__version__"):
        known = MODULES if inspect.ismodule(value) else OBJECTS.values()
        assert (value.__name__.removeprefix("confmax.") if inspect.ismodule(value) else value) in known, value
        assert inspect.getdoc(value)
    # and what is exempt exists
    assert not (BLOCKS | PLAIN) - set(OBJECTS)


def test_the_wheel_keeps_what_is_said_of_public_names(monkeypatch):
    pytest.importorskip("setuptools", minversion="77")
    monkeypatch.setenv("CONFMAX_KERNELS", "none")
    internal = runpy.run_path(str(Path(__file__).parents[1] / "setup.py"), run_name="settings")["INTERNAL"]
    for name, value in {**OBJECTS, **METHODS}.items():
        package, _, module = (value.fget if isinstance(value, property) else value).__module__.rpartition(".")
        assert package not in internal or module in internal[package], name


def test_faults_are_found():
    """The checks see what they are for."""

    def bad(P: "Array", most: int) -> "Array":  # noqa: ARG001, F821
        """Do something.

        Parameters
        ----------
        P : ndarray
            Numbers.
        least
            Not there.
        """
        raise ValueError("no")

    assert set(faults("theory.bad", bad)) == {
        "does not describe most", "describes least, which is no parameter", "gives P no shape", "has no example",
        "does not say what it returns", "gives what it returns no shape", "does not say what it refuses",
        "names no source",
    }  # fmt: skip
    assert "does not describe most" in faults("theory.bad", bad, brief=True)
