"""The one reading of ``random_state``: whatever is given becomes the seed that is stored and repeated."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

RandomState = int | np.random.RandomState | np.random.Generator | None


def as_seed(random_state: Any) -> int:
    """Return the seed, from 0 to 2**64 - 1, that ``random_state`` stands for.

    An integer is its own seed. A RandomState or Generator gives its next draw. None gives 63 bits of the operating
    system, so that NumPy's global state is neither read nor moved.

    Raises
    ------
    ValueError
        If ``random_state`` is something else, or an integer out of range.
    """
    if random_state is None:
        return int.from_bytes(os.urandom(8), "little") >> 1
    if isinstance(random_state, np.random.RandomState):
        # a RandomState draws no more than 31 bits on every platform
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    # True is an integer to Python, and nobody means the seed 1 by it
    whole = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not (whole and 0 <= random_state < 1 << 64):
        raise ValueError(
            f"random_state must be an integer from 0 to 2**64 - 1, a RandomState, a Generator or None; "
            f"got {random_state!r}"
        )
    return int(random_state)
