"""Modules whose doctests need what is not installed are left out."""

from importlib.util import find_spec

NEEDED = {
    "src/confmax/tables/tensor/*.py": "torch",
    "src/confmax/tables/tensor/triton.py": "triton",
    "src/confmax/tables/partitioned/dask.py": "dask",
    "src/confmax/plotting/*.py": "matplotlib",
}
collect_ignore_glob = [pattern for pattern, module in NEEDED.items() if find_spec(module) is None]
