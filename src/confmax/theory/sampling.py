"""What a finite sample costs: its split, and how far confusion matrices measured on it are from the true ones."""

from __future__ import annotations

import math
from typing import Literal

Constant = float | Literal["vapnik"]


def split_sizes(m: int, alpha: float) -> tuple[int, int]:
    """Return the sizes of S' and S'': ``m2 = ceil(alpha m)`` and ``m1 = m - m2``, exactly (errata A).

    Parameters
    ----------
    m : int
        Number of rows of the whole sample.
    alpha : float
        Share of S'', in (0, 1).

    Raises
    ------
    ValueError
        If a number is out of range, or a part would have no rows.

    Examples
    --------
    >>> from confmax.theory import split_sizes
    >>> split_sizes(90, 0.3)
    (63, 27)
    """
    if not (m >= 2 and 0 < alpha < 1):
        raise ValueError(f"to split a sample, m must be at least 2 and alpha in (0, 1); got {m!r} and {alpha!r}")
    # 0.07 * 100 is above 7 in floating point: without rounding first, S'' would get one row more
    second = math.ceil(round(alpha * m, 9))
    return m - second, second


def confusion_radius(n_rows: int, n_classes: int, *, delta: float = 0.05, constant: Constant = "vapnik") -> float:
    """Bound ``sup_h |conf(h, D) - conf(h, D_S)|_inf`` over all plug-in rules with probability 1 - delta (Lemma 6).

    Parameters
    ----------
    n_rows : int
        Rows of the sample, at least 2.
    n_classes : int
        K.
    delta : float
        Probability of failure, in (0, 1).
    constant : "vapnik" or float
        A number is used as the lemma's unknown constant C. "vapnik" uses the explicit radius
        ``sqrt(8 (d ln(2 e M / d) + ln(4 K^2 / delta)) / M)`` with ``d = 2 K^2 log2(3 K)``, which holds for every entry
        (errata, end).

    Returns
    -------
    float
        The radius. The entries of a confusion matrix lie in [0, 1], so a radius of 1 or more is uninformative.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from confmax.theory import confusion_radius
    >>> round(confusion_radius(100_000, 2), 4), round(confusion_radius(100_000, 2, constant=1.0), 4)
    (0.1315, 0.0191)
    """
    if not (n_rows >= 2 and n_classes >= 2 and 0 < delta < 1):
        raise ValueError(
            f"the radius needs n_rows >= 2, n_classes >= 2 and delta in (0, 1); got {n_rows!r}, {n_classes!r} and "
            f"{delta!r}"
        )
    M, K = float(n_rows), float(n_classes)
    if constant == "vapnik":
        # the paper leaves C open; this is Vapnik's bound for rules of this dimension (errata, end)
        d = 2 * K * K * math.log2(3 * K)
        # fewer rows than d / 2 can be labelled in all ways; 2^(2M) always holds
        growth = 2 * M * math.log(2)
        if d <= 2 * M:
            growth = min(growth, d * math.log(2 * math.e * M / d))
        return math.sqrt(8 * (growth + math.log(4 * K * K / delta)) / M)
    if isinstance(constant, str) or not 0 < constant < math.inf:
        raise ValueError(f"constant must be 'vapnik' or a positive number; got {constant!r}")
    return constant * math.sqrt((K * K * math.log(K) * math.log(M) + math.log(K * K / delta)) / M)
