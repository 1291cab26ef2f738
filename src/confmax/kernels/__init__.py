"""Compiled loops that know arrays only: blocks of rows on threads, vectors of the processor, exponentials.

`native` is a small C++ module, which is built when confmax is installed. Nothing is compiled later. Where there was no
compiler, or the environment sets ``CONFMAX_INSTRUCTIONS=numpy``, it is None. Every operation then takes its NumPy form,
which stands beside the call of the kernel: the same decisions and calibrated probabilities bit for bit, statistics
up to rounding, several times slower on large tables.
"""

import os
from typing import Any


def _compiled() -> Any:
    if os.environ.get("CONFMAX_INSTRUCTIONS") == "numpy":
        return None
    try:
        from confmax.kernels import native
    except ImportError:  # there was no compiler at the installation
        return None
    return native


native = _compiled()
