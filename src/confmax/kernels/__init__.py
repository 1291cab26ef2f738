"""Compiled loops that know arrays only: blocks of rows on threads, vectors of the processor, exponentials.

`native` is a small C++ module, which is built when confmax is installed. Nothing is compiled later. Where there was no
compiler, or the environment sets ``CONFMAX_INSTRUCTIONS=numpy``, it is None. Every operation then takes its NumPy form,
which stands beside the call of the kernel. Its decisions and calibrated probabilities are the same bits, its statistics
the same up to rounding. On large tables it takes several times longer.
"""

import os
from typing import Any

INSTRUCTIONS = ("avx512", "avx2", "baseline", "numpy")


def _compiled() -> Any:
    given = os.environ.get("CONFMAX_INSTRUCTIONS", "")
    if given and given not in INSTRUCTIONS:
        raise ValueError(f"CONFMAX_INSTRUCTIONS is one of {', '.join(INSTRUCTIONS)}; got {given!r}")
    if given == "numpy":
        return None
    try:
        from confmax.kernels import native
    except ImportError:  # there was no compiler at the installation
        return None
    return native


native = _compiled()
