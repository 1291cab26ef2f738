"""Modules whose doctests need what is not installed are left out; how the processes of the tests share the machine."""

import os
import sys
from importlib.util import find_spec

# The tests run in as many processes as there are cores. Threads of OpenMP and BLAS wait for each other in busy loops,
# which takes the cores from the other processes. NumPy and scikit-learn read these variables when they are loaded.
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")
# The tests start some hundred processes. Without bytecode each of them would compile confmax anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

NEEDED = {
    "src/confmax/tables/tensor/*.py": "torch",
    "src/confmax/tables/partitioned/dask.py": "dask",
    "src/confmax/plotting/*.py": "matplotlib",
}
collect_ignore_glob = [pattern for pattern, module in NEEDED.items() if find_spec(module) is None]
