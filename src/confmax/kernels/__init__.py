"""Compiled loops that know arrays only: blocks of rows on threads, vectors of the processor, exponentials.

`native` is a small C++ module, which is built before confmax is installed, or then. Nothing is compiled later. In an
installation without it, or where the environment sets ``CONFMAX_INSTRUCTIONS=numpy``, it is None. Every operation then
takes its NumPy form, which stands beside the call of the kernel. Its decisions and calibrated probabilities are the
same bits, its statistics the same up to rounding. On large tables it takes several times longer.
"""

import os
import threading
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
    except ImportError:  # a pure wheel, or there was no compiler at the installation
        return None
    return native


native = _compiled()
# nobody asked for NumPy
missing = native is None and os.environ.get("CONFMAX_INSTRUCTIONS", "") != "numpy"

MANY_ENTRIES = 5_000_000  # of a table that NumPy takes noticeably longer for
_warned = threading.Lock()  # taken by the first warning of the process, and kept


def in_words() -> str:
    """Return which instructions decide."""
    return "none, NumPy decides" if native is None else str(native.instructions)


def without_kernels(entries: int) -> str:
    """Return a warning of the first large table that NumPy scans because there are no kernels, otherwise nothing."""
    if not missing or entries <= MANY_ENTRIES or not _warned.acquire(blocking=False):
        return ""
    way_out = (
        "there are none for Windows: WSL or Linux has them"
        if os.name == "nt"
        else "with GCC or Clang, pip install --force-reinstall --no-deps --no-binary confmax confmax builds them"
    )
    return (
        f"this confmax has no compiled kernels, so NumPy scans a table of {entries:,} entries, which takes several "
        f"times longer; {way_out} (CONFMAX_INSTRUCTIONS=numpy keeps NumPy and ends this warning)"
    )
