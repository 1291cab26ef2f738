"""Names of a package that are imported when they are first asked for, so that a call brings only what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_of(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a ``package``: its ``modules``, and the names that each defines."""
    where = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in where:
            value = getattr(import_module(f"{package}.{where[name]}"), name)
        elif name in modules:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # the next access finds the name in the package and does not come here
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(sys.modules[package].__all__)


class MethodOf:
    """A method of a class that another module defines; it is imported when the method is first asked for."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.owner = owner
        self.attribute = attribute

    def __get__(self, instance: Any, owner: type) -> Any:
        function = getattr(import_module(self.module), self.name)
        # the next access finds the function in the class and does not come here
        setattr(self.owner, self.attribute, function)
        return function.__get__(instance, owner)
