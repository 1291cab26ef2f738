"""Modules whose doctests need what is not installed are left out."""

from importlib.util import find_spec

collect_ignore_glob = [
    pattern
    for module, pattern in (
        ("torch", "src/confmax/tables/tensor/*.py"),
        ("triton", "src/confmax/tables/tensor/triton.py"),
        ("dask", "src/confmax/tables/partitioned/dask.py"),
        ("matplotlib", "src/confmax/plotting/*.py"),
    )
    if find_spec(module) is None
]
