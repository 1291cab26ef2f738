"""The paper's regret bounds, corrected, and whether they are informative.

Every bound is a sum of up to four terms: the costs of the error of the class probabilities, of measuring confusion
matrices on a sample, of stopping after finitely many rounds, and of smoothing. ``form`` chooses between two valid
versions:

* ``"printed"``: the paper's statement. False parts are repaired by the smallest change (E14's missing ``n^2``; E17's
  initial rule), and loose factors are kept;
* ``"tightened"``: the same argument without the loose factors (E18: ``eps`` for ``2 eps``, ``theta`` for
  ``2 theta``), with the sharper constants for fixed rows (E11), and with ``|C - C'|_1 <= 2``.

Bounds that use a false printed constant (E8-E10) are refused. The paper never gives the C of Lemma 6:
``constant="vapnik"`` uses an explicit radius that is proved, and a number is used as the value of C. At realistic
sample sizes the sampling term almost always makes the bounds vacuous. They describe rates; do not present them to a
user as a guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from confmax.theory.constants import Form, SmoothingConstants, checked_form

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
    M = float(n_rows)
    K = float(n_classes)
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


@dataclass(frozen=True)
class Bound:
    """An upper bound on a regret, with its terms, all in the unit of the metric.

    Attributes
    ----------
    estimation : float
        Cost of the error of the class probabilities or, in general, of the linear step.
    sampling : float
        Cost of measuring confusion matrices on a sample.
    optimization : float
        Cost of stopping after finitely many rounds.
    smoothing : float
        Cost of maximising a smoothed metric in place of the metric.
    limit : float
        The largest possible regret: 1 for metrics with values in [0, 1].
    """

    estimation: float = 0.0
    sampling: float = 0.0
    optimization: float = 0.0
    smoothing: float = 0.0
    limit: float = 1.0

    @property
    def value(self) -> float:
        """The bound: the sum of its terms."""
        return self.estimation + self.sampling + self.optimization + self.smoothing

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound is uninformative, because it is at least the largest possible regret."""
        return self.value >= self.limit


def linear_regret_bound(gain: ArrayLike, eta_error: float, *, form: Form = "tightened") -> Bound:
    """Bound the regret of a plug-in rule for a linear metric (Lemma 8): ``2 L E``.

    Parameters
    ----------
    gain : array-like (K, M) or float
        The gain matrix G, or a bound L on its entries' absolute values.
    eta_error : float
        ``E |eta_hat(X) - eta(X)|_1``, from 0 to 2.
    form : {"tightened", "printed"}
        Printed: L is the largest absolute entry. Tightened: L is half the largest difference within a row, because a
        constant added to a row changes no decision (remark after E11).

    Returns
    -------
    Bound
        The bound. It is vacuous for errors of 1 or more, because no rule loses more than the largest difference within
        a row.

    Raises
    ------
    ValueError
        If a number is out of range, or ``form`` unknown.

    Examples
    --------
    >>> from confmax.theory import linear_regret_bound
    >>> G = [[1, 0], [0, 1]]
    >>> linear_regret_bound(G, 0.1).value, linear_regret_bound(G, 0.1, form="printed").value
    (0.1, 0.2)
    """
    tightened = checked_form(form)
    error = _checked_error(eta_error)
    G = np.asarray(gain, dtype=np.float64)
    if G.ndim not in (0, 2) or not np.isfinite(G).all() or (G.ndim == 0 and G < 0):
        raise ValueError(
            f"gain must be a finite matrix (K, M), or a non-negative bound on its entries; got shape {G.shape}"
        )
    # a constant added to a row of G changes no decision (remark after E11)
    half_range = float(G) if G.ndim == 0 else float((G.max(axis=1) - G.min(axis=1)).max()) / 2
    L = half_range if tightened else float(np.abs(G).max())
    return Bound(estimation=2 * L * error, limit=2 * half_range)


def brute_force_bound(
    lipschitz: float,
    factor: float,
    eta_error: float,
    *,
    m: int,
    n_classes: int,
    alpha: float = 0.5,
    delta: float = 0.05,
    constant: Constant = "vapnik",
    form: Form = "tightened",
) -> Bound:
    """Bound the regret of Algorithm 2 on a continuous population (Theorem 7): ``2 L xi E + 2 L n^2 r``.

    Parameters
    ----------
    lipschitz : float
        Lipschitz constant L of the metric over the attainable matrices, in the l1 norm.
    factor : float
        xi, see `ratio_factor`; 1 for convex metrics.
    eta_error : float
        ``E |eta_hat(X) - eta(X)|_1``.
    m, n_classes : int
        Number of rows of the whole sample, and number of classes K (the paper's n).
    alpha : float
        Fraction of the sample on which confusion matrices are measured.
    delta : float
        Probability of failure, as in `confusion_radius`.
    constant : "vapnik" or float
        As in `confusion_radius`.
    form : {"tightened", "printed"}
        Printed: with the factor ``n^2`` that the statement needs and omits (E14). Tightened: also uses that no two
        confusion matrices are further apart than 2.

    Returns
    -------
    Bound
        The bound. It is vacuous at usual sizes with the explicit constant: even for two classes, ``n^2 r`` is above 1
        if S'' has fewer than about 24 000 rows.

    Raises
    ------
    ValueError
        If a number is out of range, or ``form`` unknown.

    Examples
    --------
    >>> from confmax.theory import brute_force_bound, ratio_factor
    >>> bound = brute_force_bound(2.0, ratio_factor("f1", [0.5, 0.5]), 0.01, m=10_000, n_classes=2)
    >>> round(bound.estimation, 6), bound.is_vacuous
    (0.12, True)
    """
    tightened = checked_form(form)
    error = _checked_error(eta_error)
    L = _positive("lipschitz", lipschitz)
    xi = _positive("factor", factor)
    distance = _distance(m, n_classes, alpha, delta, constant, tightened=tightened)
    return Bound(estimation=2 * L * xi * error, sampling=2 * L * distance)


def frank_wolfe_bound(
    smoothness: float,
    rounds: int,
    oracle_error: float = 0.0,
    *,
    curvature: float | None = None,
    form: Form = "tightened",
) -> Bound:
    """Bound the regret of Algorithm 3 after T rounds with step ``2 / (j + 1)`` (Theorem 9): ``8 beta / (T + 2) + eps``.

    Parameters
    ----------
    smoothness : float
        Smoothness constant beta of a concave metric.
    rounds : int
        Number of rounds T.
    oracle_error : float
        Error eps of the linear step: by how much it may miss its maximum. The printed bound multiplies it by 2, which
        is not needed (E18).
    curvature : float or None
        Bound on the curvature constant C_psi, if one below ``4 beta`` is known (E16 for its sign). Only the tightened
        form uses it.
    form : {"tightened", "printed"}
        As in the description of the module.

    Returns
    -------
    Bound
        The bound. For a metric in [0, 1] it is vacuous up to about ``T = 8 beta``.

    Raises
    ------
    ValueError
        If a number is out of range, or ``form`` unknown.

    Examples
    --------
    >>> from confmax.theory import frank_wolfe_bound
    >>> frank_wolfe_bound(50.0, 998).value
    0.4
    """
    tightened = checked_form(form)
    beta = _positive("smoothness", smoothness)
    if not (rounds >= 1 and oracle_error >= 0):
        raise ValueError(
            f"rounds must be at least 1 and oracle_error must not be negative; got {rounds!r}, {oracle_error!r}"
        )
    C = 4 * beta if curvature is None or not tightened else min(4 * beta, _positive("curvature", curvature))
    # an additive error of the linear step enters once, not twice (E18)
    return Bound(estimation=oracle_error * (1 if tightened else 2), optimization=2 * C / (rounds + 2.0))


def bayes_cg_bound(
    constants: SmoothingConstants,
    eta_error: float,
    *,
    m: int,
    n_classes: int,
    alpha: float = 0.5,
    kappa: float = 1.0,
    delta: float = 0.05,
    constant: Constant = "vapnik",
    form: Form = "tightened",
) -> Bound:
    """Bound the regret of BayesCG for a smooth concave metric (Theorem 10).

    The printed bound is ``4 L E + 4 beta n^2 r + 8 beta / (T + 2)`` with ``T = ceil(kappa m)``. In the tightened form
    (E18) the first two terms are halved, L and ``4 beta`` are replaced by ``plug_in`` and ``curvature`` if these are
    known (E11), and ``n^2 r`` is at most 2.

    Parameters
    ----------
    constants : SmoothingConstants
        L and beta; theta is not used. For other metrics pass ``SmoothingConstants(0.0, L, beta)``.
    eta_error : float
        ``E |eta_hat(X) - eta(X)|_1``, from 0 to 2.
    m, n_classes : int
        Number of rows of the whole sample, and number of classes K (the paper's n).
    alpha, kappa : float
        Split and rounds of the algorithm, as in `confmax.optimize.BayesCG`.
    delta : float
        Probability of failure, as in `confusion_radius`.
    constant : "vapnik" or float
        As in `confusion_radius`.
    form : {"tightened", "printed"}
        As in the description of the module.

    Returns
    -------
    Bound
        The bound for the last rule h^T of a run that starts at a plug-in rule (E17). It is vacuous in practice: with C
        = 1 and a useful rho, the sampling term alone exceeds 1 for fewer than about 10^9 rows.

    Raises
    ------
    ValueError
        If a number is out of range, or L or beta is a printed constant that is false.

    Examples
    --------
    >>> from confmax.theory import bayes_cg_bound, smoothing_constants
    >>> constants = smoothing_constants("h_mean", 0.1, [0.5, 0.5])
    >>> bound = bayes_cg_bound(constants, 0.01, m=10_000, n_classes=2)
    >>> round(bound.estimation, 6), round(bound.optimization, 6), bound.is_vacuous
    (0.05, 0.009998, True)
    """
    tightened = checked_form(form)
    error = _checked_error(eta_error)
    _refuse_false(constants, ("lipschitz", "smoothness"))
    if not (kappa > 0 and m >= 2):
        raise ValueError(f"BayesCG makes ceil(kappa m) rounds and needs kappa > 0 and m >= 2; got {kappa!r} and {m!r}")
    L = constants.lipschitz
    beta = constants.smoothness
    if tightened and constants.plug_in is not None:
        L = min(L, constants.plug_in)
    # Lemma 11: the linear step misses its maximum by at most 2 L E + 2 beta |conf(., S'') - conf(., D)|_1
    missed_by_eta = 2 * L * error
    missed_by_sample = 2 * beta * _distance(m, n_classes, alpha, delta, constant, tightened=tightened)
    rounds = math.ceil(round(kappa * m, 9))
    kept = frank_wolfe_bound(beta, rounds, curvature=constants.curvature, form=form)
    times = 1 if tightened else 2
    return Bound(times * missed_by_eta, times * missed_by_sample, kept.optimization)


def smoothed_bound(
    constants: SmoothingConstants,
    eta_error: float,
    *,
    m: int,
    n_classes: int,
    alpha: float = 0.5,
    kappa: float = 1.0,
    delta: float = 0.05,
    constant: Constant = "vapnik",
    form: Form = "tightened",
) -> Bound:
    """Bound the regret in the metric itself if BayesCG maximises its smoothed version (Theorem 12).

    This is the bound of Theorem 10 for the smoothed metric plus ``2 theta`` (printed) or ``theta`` (tightened). The
    tightened term is valid because the smoothed means differ from the means in one direction only (E18). For other
    metrics, whose difference has both signs, only the printed form holds.

    Parameters
    ----------
    constants : SmoothingConstants
        From `smoothing_constants`.
    eta_error, alpha, kappa, delta : float
        As in `bayes_cg_bound`.
    m, n_classes : int
        As in `bayes_cg_bound`.
    constant : "vapnik" or float
        As in `confusion_radius`.
    form : {"tightened", "printed"}
        As in the description of the module.

    Returns
    -------
    Bound
        The bound. It is vacuous in practice, like that of Theorem 10. A smaller rho lowers the smoothing term and
        raises all others.

    Raises
    ------
    ValueError
        If a number is out of range, or a constant is a printed one that is false.

    Examples
    --------
    >>> from confmax.theory import smoothed_bound, smoothing_constants
    >>> constants = smoothing_constants("h_mean", 0.1, [0.5, 0.5])
    >>> bound = smoothed_bound(constants, 0.01, m=10_000, n_classes=2, constant=1.0, form="printed")
    >>> [round(part, 2) for part in (bound.estimation, bound.sampling, bound.optimization, bound.smoothing)]
    [0.2, 59.86, 0.04, 0.57]
    """
    _refuse_false(constants, ("theta",))
    smooth = bayes_cg_bound(
        constants,
        eta_error,
        m=m,
        n_classes=n_classes,
        alpha=alpha,
        kappa=kappa,
        delta=delta,
        constant=constant,
        form=form,
    )
    # the smoothed means err in one direction only, so one theta is enough (E18)
    theta = constants.theta * (1 if checked_form(form) else 2)
    return Bound(smooth.estimation, smooth.sampling, smooth.optimization, theta)


def _distance(m: int, n_classes: int, alpha: float, delta: float, constant: Constant, *, tightened: bool) -> float:
    """Bound ``|conf(h, D) - conf(h, D_S'')|_1`` over all plug-in rules h."""
    # Lemma 6 bounds single entries, and the l1 norm adds up K^2 of them (E14)
    rows = split_sizes(m, alpha)[1]
    distance = n_classes**2 * confusion_radius(rows, n_classes, delta=delta, constant=constant)
    return min(2.0, distance) if tightened else distance


def _refuse_false(constants: SmoothingConstants, used: tuple[str, ...]) -> None:
    bad = [name for name in constants.false if name in used]
    if bad:
        raise ValueError(
            f"the printed {' and '.join(bad)} is below the true supremum for this rho and these priors (errata "
            f"E8-E10), so a bound that uses it would be false; use smoothing_constants(..., form='tightened')"
        )


def _checked_error(eta_error: float) -> float:
    if not 0 <= eta_error <= 2:
        raise ValueError(f"eta_error is an expected l1 distance and must lie between 0 and 2; got {eta_error!r}")
    return float(eta_error)


def _positive(name: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be positive and finite; got {value!r}")
    return float(value)
