"""Modules whose doctests need what is not installed are left out."""

from importlib.util import find_spec

collect_ignore_glob = [
    pattern
    for module, pattern in (
        ("torch", "src/confmax/oracle/_torch*.py"),
        ("triton", "src/confmax/oracle/_triton.py"),
        ("dask", "src/confmax/oracle/_dask.py"),
        ("matplotlib", "src/confmax/plotting/*.py"),
    )
    if find_spec(module) is None
]
