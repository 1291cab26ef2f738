"""Tables that store only some probabilities of each row: matrices of ``scipy.sparse``."""

from __future__ import annotations

from typing import Any

from confmax.tables.kinds import Kind, register


def _recognises(values: Any) -> bool:
    return any(kind.__module__.startswith("scipy.sparse") for kind in type(values).__mro__)


def _load() -> Kind:
    # only who passes a sparse table waits for scipy.sparse
    from confmax.tables.sparse.kind import SPARSE

    return SPARSE


register("sparse", _recognises, _load)
