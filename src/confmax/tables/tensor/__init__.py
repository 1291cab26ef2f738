"""Tables in tensors, on any device of torch."""

from __future__ import annotations

from typing import Any

from confmax.tables.kinds import Kind, register


def _recognises(values: Any) -> bool:
    return any(kind.__name__ == "Tensor" and kind.__module__ == "torch" for kind in type(values).__mro__)


def _load() -> Kind:
    # torch is imported here
    from confmax.tables.tensor.kind import TENSORS

    return TENSORS


register("torch", _recognises, _load)
