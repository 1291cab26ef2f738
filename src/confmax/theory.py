"""The paper's constants and bounds, corrected (errata E8-E11, E16).

They hold for the additively smoothed metrics of the paper's Table 2, ``metrics.get(name, rho=rho,
smoothing="additive")``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class SmoothingConstants(NamedTuple):
    """Constants of a smoothed metric, l1 norm on confusion matrices.

    Attributes
    ----------
    theta : float
        ``sup |psi - psi_rho|`` over the confusion matrices of the given priors.
    lipschitz : float
        Lipschitz constant L of psi_rho.
    smoothness : float
        Smoothness beta of psi_rho: the gradient's Lipschitz constant, l1 norm to max norm.
    """

    theta: float
    lipschitz: float
    smoothness: float


def smoothing_constants(name: str, rho: float, priors: ArrayLike) -> SmoothingConstants:
    """Return theta, L and beta of the additively smoothed H-, Q- or G-mean.

    Parameters
    ----------
    name : {"h_mean", "q_mean", "g_mean"}
        The metric.
    rho : float
        Smoothing parameter, in (0, 1).
    priors : array-like (K,)
        Class priors; they sum to one.

    Returns
    -------
    SmoothingConstants
        The exact values of errata E8-E11, where the printed Table 2 is wrong or loose.

    Raises
    ------
    ValueError
        If the metric has no such constants, or rho is outside (0, 1).

    Examples
    --------
    >>> from confmax.theory import smoothing_constants
    >>> round(smoothing_constants("h_mean", 0.1, [0.5, 0.5]).smoothness, 6)
    50.0
    """
    if not 0 < rho < 1:
        raise ValueError(f"rho must lie in (0, 1); got {rho!r}")
    pi = np.asarray(priors, dtype=np.float64)
    K, smallest = len(pi), float(pi.min())
    if name == "h_mean":
        theta = K * rho / (smallest + K * rho)
        return SmoothingConstants(theta, max(0.25, 1 / K) / rho, max(8 / 27, 1 / K) / rho**2)
    if name == "q_mean":
        theta = float(np.sqrt(np.mean((rho / (pi + rho)) ** 2)))
        return SmoothingConstants(theta, 1 / (np.sqrt(K) * rho), 2 / (np.sqrt(K) * rho**2))
    if name == "g_mean":
        theta = (rho / (smallest + rho)) ** (1 / K)
        return SmoothingConstants(theta, 1 / (K * rho), (K + 1) / (K * K * rho**2))
    raise ValueError(f"smoothing constants are known for h_mean, q_mean and g_mean; got {name!r}")


def frank_wolfe_bound(smoothness: float, rounds: int, oracle_error: float = 0.0) -> float:
    """Return Theorem 9's bound on the regret after T rounds with step ``2 / (j + 1)``: ``8 beta / (T + 2) + eps``.

    Parameters
    ----------
    smoothness : float
        beta of a concave metric.
    rounds : int
        T, the number of rounds made.
    oracle_error : float
        eps: by how much the linear step may miss its maximum. Printed with a factor 2, which is not needed (E18).

    Examples
    --------
    >>> from confmax.theory import frank_wolfe_bound
    >>> frank_wolfe_bound(50.0, 98)
    4.0
    """
    return 8.0 * smoothness / (rounds + 2.0) + oracle_error
