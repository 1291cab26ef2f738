"""The numbers by which a metric enters the regret bounds of `confmax.theory`.

Constants of the smoothed metrics of the paper's Table 2, ``metrics.get(name, rho=rho, smoothing="additive")``, exact
and as printed (errata E8-E11, E16), the schedule along which the smoothing may vanish, and the factor of ratio metrics
(E15). A metric with other constants can be given by hand.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Array

Form = Literal["tightened", "printed"]

MEANS = ("h_mean", "q_mean", "g_mean")


class SmoothingConstants(NamedTuple):
    """Constants of a smoothed metric psi_rho, in the l1 norm on confusion matrices.

    Attributes
    ----------
    theta : float
        ``sup |psi - psi_rho|`` over the confusion matrices of the given priors.
    lipschitz : float
        Lipschitz constant L of psi_rho: its largest partial derivative.
    smoothness : float
        Smoothness beta of psi_rho: the gradient's Lipschitz constant, l1 norm to max norm.
    plug_in : float or None
        Constant that may replace L in the cost of the class probabilities: half the largest difference within a row of
        the gradient, because only such differences affect decisions (remark after E11). None means L.
    curvature : float or None
        Bound on the curvature constant C_psi over the attainable matrices. None means ``4 beta`` (E16).
    false : tuple of str
        Names of the printed constants that are false for this ``rho`` and these priors: they are below the exact
        supremum.
    """

    theta: float
    lipschitz: float
    smoothness: float
    plug_in: float | None = None
    curvature: float | None = None
    false: tuple[str, ...] = ()


def checked_form(form: Form) -> bool:
    """Return whether the form is the tightened one; refuse other words."""
    if form not in ("tightened", "printed"):
        raise ValueError(f"form must be 'tightened' or 'printed'; got {form!r}")
    return form == "tightened"


def checked_priors(priors: ArrayLike) -> Array:
    """Return class priors as an array (K,); refuse what is no distribution over at least two classes."""
    pi = np.asarray(priors, dtype=np.float64)
    if pi.ndim != 1 or len(pi) < 2 or not np.isfinite(pi).all() or pi.min() < 0 or abs(pi.sum() - 1) > 1e-6:
        raise ValueError(f"priors must be K >= 2 non-negative numbers that sum to one; got {pi.tolist()}")
    return pi


def smoothing_constants(name: str, rho: float, priors: ArrayLike, *, form: Form = "tightened") -> SmoothingConstants:
    """Return theta, L and beta of the additively smoothed H-, Q- or G-mean.

    Parameters
    ----------
    name : {"h_mean", "q_mean", "g_mean"}
        The metric.
    rho : float
        Smoothing parameter, in (0, 1), a fraction of all weight.
    priors : array-like (K,)
        Class priors; they sum to one.
    form : {"tightened", "printed"}
        "tightened" gives the exact values of errata E8-E11, with the sharper ones for fixed rows. "printed" gives the
        paper's Table 2; for beta, the appendix prints other values. The printed L, and the printed beta of H and Q, are
        valid but loose. The printed theta of Q (E8), the printed theta of G (E9, if ``pi_min + rho < 2**-K``) and the
        printed beta of G (E10, for large rho) can be false. The field ``false`` names those that are.

    Returns
    -------
    SmoothingConstants
        The constants. These metrics lie in [0, 1], so a theta of 1 or more is uninformative.

    Raises
    ------
    ValueError
        If no constants are known for the metric, rho is outside (0, 1), or the priors are not a distribution.

    Notes
    -----
    ``plug_in`` holds for any row sums, because the gradient is evaluated at the row sums of the sample. ``curvature``
    holds for the row sums ``priors``.

    Examples
    --------
    >>> from confmax.theory import smoothing_constants
    >>> round(smoothing_constants("h_mean", 0.1, [0.5, 0.5]).smoothness, 6)
    50.0
    >>> smoothing_constants("q_mean", 0.01, [0.5, 0.5], form="printed").false
    ('theta',)
    """
    if name not in MEANS:
        raise ValueError(f"smoothing constants are known only for h_mean, q_mean and g_mean; got {name!r}")
    if not 0 < rho < 1:
        raise ValueError(f"rho must lie in (0, 1); got {rho!r}")
    tightened = checked_form(form)
    pi = checked_priors(priors)
    exact = _exact(name, rho, pi)
    if tightened:
        return exact
    printed = _printed(name, rho, pi)
    # an exact constant is a supremum: a printed one below it is no bound, unless it is below by rounding only
    false = [
        part
        for part in ("theta", "lipschitz", "smoothness")
        if getattr(printed, part) < getattr(exact, part) * (1 - 1e-12)
    ]
    return printed._replace(false=tuple(false))


def _exact(name: str, rho: float, pi: Array) -> SmoothingConstants:
    """Return the exact constants; plug_in and curvature from the remark after E11."""
    K = len(pi)
    floor = float(pi.min()) + rho
    root = math.sqrt(len(pi))
    if name == "h_mean":
        theta = K * rho / (float(pi.min()) + K * rho)
        # the largest derivatives lie in the diagonal for four classes and more, off it for fewer (E11)
        L = max(0.25, 1 / K) / rho
        beta = max(8 / 27, 1 / K) / rho**2
        return SmoothingConstants(theta, L, beta, K / (8 * (K - 1) * rho), min(4 * beta, 0.5 / rho**2))
    if name == "q_mean":
        # smoothing moves every entry by rho, not one of them, and a perfect classifier attains the supremum (E8)
        theta = float(np.sqrt(np.mean((rho / (pi + rho)) ** 2)))
        L = 1 / (root * rho)
        beta = 2 / (root * rho**2)
        return SmoothingConstants(theta, L, beta, L / 2, min(4 * beta, 2 / (3 * math.sqrt(3) * root * rho * floor)))
    # attained where the smallest class is never right and all others always are (E9)
    theta = (rho / floor) ** (1 / K)
    L = 1 / (K * rho)
    beta = (K + 1) / (K * K * rho**2)
    curved = max((K - 1) * theta, theta**2) / (K * K * rho**2)
    return SmoothingConstants(theta, L, beta, L / 2, min(4 * beta, curved))


def _printed(name: str, rho: float, pi: Array) -> SmoothingConstants:
    """Return Table 2 as it stands."""
    K = len(pi)
    smallest = float(pi.min())
    root = math.sqrt(len(pi))
    per_smallest = math.inf if smallest == 0 else rho / smallest
    up = 1 + 1 / rho
    if name == "h_mean":
        return SmoothingConstants(K * per_smallest, K / rho, 2 * K / rho**2)
    if name == "q_mean":
        return SmoothingConstants(per_smallest / root, 1 / (root * rho), 2 / (root * rho**2) * up)
    beta = up ** (1 - 2 / K) / (K * K * rho**3)
    return SmoothingConstants(2 * rho ** (1 / K), up ** (1 - 1 / K) / (K * rho), beta)


def ratio_factor(name: str, priors: ArrayLike) -> float:
    """Return the xi of Theorem 7 for a ratio of affine functions, corrected (E15).

    The factor satisfies ``psi(C*) - psi(C) <= xi <grad psi(C*), C* - C>`` at the optimum C*. The theorem needs this
    inequality only there, and it can hold only there. The printed values (``1 / pi_1`` for F1, ``1 / (1 - pi_1)`` for
    micro F1) are false, so confmax does not offer them.

    Parameters
    ----------
    name : {"f1", "jaccard", "micro_f1", "micro_f1_once"}
        The metric; its positive class is 1, its background class 0.
    priors : array-like (K,)
        Class priors.

    Raises
    ------
    ValueError
        If no factor is known for the metric, or the priors are not a distribution.

    Examples
    --------
    >>> from confmax.theory import ratio_factor
    >>> ratio_factor("f1", [0.5, 0.5])
    3.0
    """
    pi = checked_priors(priors)
    if name in ("f1", "jaccard"):
        part = float(pi[1])
        most = 1.0 + float(pi[1]) if name == "f1" else 1.0
    elif name in ("micro_f1", "micro_f1_once"):
        part = 1.0 - float(pi[0])
        most = 2.0 - float(pi[0])
    else:
        raise ValueError(f"xi is known only for f1, jaccard, micro_f1 and micro_f1_once; got {name!r}")
    # the largest denominator over the smallest one that a rule can reach (E15)
    return most / part if part > 0 else math.inf


def rho_schedule(name: str, m: float, n_classes: int, *, scale: float = 1.0) -> float:
    """Return a smoothing parameter rho(m) with which BayesCG is consistent (Corollary 13).

    Parameters
    ----------
    name : {"h_mean", "q_mean", "g_mean"}
        The metric.
    m : float
        Number of rows of the whole sample, at least 3.
    n_classes : int
        K.
    scale : float
        Any positive factor. Consistency does not depend on it, but the value for a given m does.

    Returns
    -------
    float
        ``scale (log m / m) ** q`` with ``q = 1/6`` for the H- and Q-mean and ``K / (4 K + 2)`` for the G-mean, at
        most 1/2.

    Raises
    ------
    ValueError
        If the metric is none of the three, or a number is out of range.

    Notes
    -----
    The paper only states that a schedule exists. Theorem 12 needs ``theta(rho)``, ``L(rho) E``, ``beta(rho) r(m)`` and
    ``beta(rho) / m`` to vanish, where E is the error of the class probabilities and ``r(m) ~ sqrt(log m / m)``. As beta
    is of order ``rho**-2`` and theta of order ``rho**p`` (p = 1; 1/K for the G-mean), ``rho = r ** (1 / (2 + p))``
    balances the two largest terms. Consistency also needs ``E = o(rho(m))``. This holds for well-specified parametric
    estimators (``m ** -1/2``); slower ones need a slower schedule. Here rho is a fraction of all weight: choose
    ``scale`` so that rho is well below the smallest prior, or the smoothing dominates.

    Examples
    --------
    >>> from confmax.theory import rho_schedule
    >>> round(rho_schedule("h_mean", 10_000, 3), 4)
    0.3119
    """
    if name not in MEANS:
        raise ValueError(f"the schedule of Corollary 13 is known only for h_mean, q_mean and g_mean; got {name!r}")
    if not (m >= 3 and n_classes >= 2 and 0 < scale < math.inf):
        raise ValueError(
            f"rho_schedule needs m >= 3, n_classes >= 2 and a positive scale; got {m!r}, {n_classes!r}, {scale!r}"
        )
    power = n_classes / (4 * n_classes + 2) if name == "g_mean" else 1 / 6
    return float(min(0.5, scale * (math.log(m) / m) ** power))
