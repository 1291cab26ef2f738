"""A rule for other class shares, from the rule alone or with rows of the new kind: `DecisionRule.shifted`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from confmax.calibration.shifted import before_shift, raised, shifted
from confmax.confusion import Array, Confusion, Gains
from confmax.errors import InputError
from confmax.tables import make_table
from confmax.tables.labels import refuse_masked

if TYPE_CHECKING:
    from confmax.metrics import Metric

CLOSE = 1e-6  # by which shares may miss the sum of one
PERCENT = 100.0  # the sum of shares that were meant in percent
ALIKE = 1e-9  # difference of values that is rounding
TOL = 1e-6


def shares_from(priors: Any, names: Sequence[Any]) -> Array:
    """Return class shares (K,) that were given: by class name, in the order of ``names`` (K,), or "balanced".

    Of two classes one may be named alone: the other is the rest.

    A ValueError for shares that are negative, do not sum to one, or are of other classes.
    """
    K = len(names)
    if isinstance(priors, str):
        if priors != "balanced":
            raise InputError(f"`priors` are shares by class name, an array, or 'balanced'; got {priors!r}")
        return np.full(K, 1.0 / K)
    refuse_masked(priors, "priors")
    if hasattr(priors, "to_dict") and (set(priors.index) == set(names) or list(priors.index) != list(range(K))):
        # a Series of pandas, such as value_counts returns, names its classes in an order of its own
        priors = priors.to_dict()
    if isinstance(priors, Mapping):
        place = {name: k for k, name in enumerate(names)}
        other = [name for name in priors if name not in place]
        lacking = [name for name in names if name not in priors]
        if K == 2 and len(lacking) == 1 and not other:
            # of two classes the share of one is enough
            priors = {**priors, lacking[0]: 1.0 - _share(priors, names[1 - place[lacking[0]]])}
        elif other or lacking:
            wrong = f"{other[0]!r} is none of the classes" if other else f"the class {lacking[0]!r} has no share"
            raise InputError(f"`priors` name other classes than the rule: {wrong}", "pass one share for every class")
        priors = [priors[name] for name in names]
    try:
        shares = np.asarray(priors, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("`priors` are numbers, the share of every class") from None
    if shares.shape != (K,):
        raise InputError(f"`priors` have shape {shares.shape}, and the rule has {K} classes", "pass one share for each")
    if not (np.isfinite(shares).all() and (shares >= 0.0).all()):
        k = int(np.argmax(~(np.isfinite(shares) & (shares >= 0.0))))
        raise InputError(f"the share of {names[k]!r} in `priors` is {shares[k]:g}, and shares are not negative")
    if abs(shares.sum() - 1.0) > CLOSE:
        by = "100, for they are in percent" if abs(shares.sum() - PERCENT) <= PERCENT * CLOSE else "their sum"
        raise InputError(f"`priors` sum to {shares.sum():.8g}, and shares sum to one", f"divide them by {by}")
    return np.asarray(shares / shares.sum())


def _share(priors: Mapping[Any, Any], name: Any) -> float:
    """Return the share of one of two classes, the only one that ``priors`` name."""
    try:
        share = float(priors[name])
    except (TypeError, ValueError):
        raise InputError("`priors` are numbers, the share of every class") from None
    if not 0.0 <= share <= 1.0:
        raise InputError(
            f"the share of {name!r} in `priors` is {share:g}, and shares lie between 0 and 1",
            "divide it by 100, if it is in percent" if 1.0 < share <= PERCENT else "",
        )
    return share


def reads_recalls_alone(metric: Metric, n_classes: int, n_decisions: int) -> bool:
    """Whether a ``metric`` depends on the recalls alone, so that no class shares change its best rules.

    It is evaluated at some confusion matrices, and at those with the same recalls and other class shares.
    """
    rng = np.random.default_rng(0)
    for _ in range(3):
        C = rng.dirichlet(np.ones(n_decisions), n_classes) * rng.dirichlet(np.full(n_classes, 5.0))[:, None]
        other = C * rng.uniform(0.25, 4.0, n_classes)[:, None]
        one, two = (float(metric.values(Confusion.from_matrix(part / part.sum()))) for part in (C, other))
        if not abs(one - two) <= ALIKE * max(1.0, abs(one)):
            return False
    return True


def checked_source(rule: Any) -> Array:
    """Return the class shares (K,) that a rule's probabilities are meant for; a ValueError if they are not known."""
    if rule.groups:
        raise InputError(
            "the rule decides by groups, whose shares may change each by itself", "tune a rule on rows of the new kind"
        )
    if rule.shares is None:
        raise InputError(
            "the rule does not know the class shares of its tuning rows (rules that were made by hand do not)",
            "pass `tuned_on=(proba, y)` to Solution.adapt, or tune it again",
        )
    return rule.shares.meant


def corrected_upstream(rule: Any, target: Array, *, proba_shifted: bool) -> Any:
    """Return the rule for probabilities as they come: where they are corrected already, it undoes this first."""
    if not proba_shifted:
        return rule
    source = checked_source(rule)
    return replace(rule, calibrator=raised(rule.calibrator, source, target))


def shifted_rule(
    rule: Any,
    priors: Any,
    *,
    metric: Any = None,
    proba: Any = None,
    proba_shifted: bool = False,
) -> Any:
    """Return the rule for rows with other class shares.

    Parameters
    ----------
    rule : DecisionRule
        The rule, which knows the class shares of its tuning rows.
    priors : mapping or Series of class names, array (K,), or "balanced"
        The class shares of the new rows; they sum to one.
    metric : str, Metric or callable, or None
        What the new rule maximises; by default what the rule was tuned for.
    proba : array-like (n, K) or None
        Raw probabilities of the new rows, for metrics that are neither linear nor depend on the recalls alone. The rule
        is then tuned on them, on the confusion matrix expected from the probabilities under the new shares.
    proba_shifted : bool
        Whether the model that makes the probabilities was corrected for the new shares already.

    Returns
    -------
    DecisionRule
        For metrics of the recalls alone, such as the G-mean or balanced accuracy, the same rule: it stays the best. For
        a linear metric, such as accuracy or a table of costs, the exact one.

    Raises
    ------
    ValueError
        If the shares are not those of the classes; if the rule does not know its source shares; if it has groups or
        limits; if the metric needs ``proba``.

    Notes
    -----
    This holds where the classes look as before and only their shares have changed (Saerens, Latinne, Decaestecker
    2002). Rows with labels make `confmax.Solution.adapt` better.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]] * 25
    >>> rule = confmax.maximize("accuracy", P, [0, 0, 0, 1] * 25, calibration=None).rule
    >>> round(rule.threshold, 2), round(rule.shifted({0: 0.3, 1: 0.7}).threshold, 2)
    (0.5, 0.19)
    """
    # a rule that is applied loads no metrics
    from confmax.metrics import resolve
    from confmax.metrics.alignment import fit_metric
    from confmax.metrics.catalogue import metric_of

    names = rule.class_names[: rule.n_classes]
    target = shares_from(priors, names)
    source = checked_source(rule)
    wanted = metric_of(rule) if metric is None else resolve(metric)
    if wanted is None:
        raise InputError(
            f"the rule does not name a metric that it holds in full, but {rule.metric!r}", "pass `metric=`"
        )
    K, M = rule.n_classes, rule.n_decisions
    # a table of the classes, of which a metric reads names and shares
    sample = make_table(np.tile(np.maximum(target, ALIKE), (2, 1)), None, None, names)
    wanted = fit_metric(wanted, sample, explicit=True)
    new = corrected_upstream(rule, target, proba_shifted=proba_shifted)
    if rule.constraints or rule.abstain is not None:
        raise InputError(
            "the rule keeps limits, or leaves rows undecided, which depends on the rows",
            "use Solution.adapt, or tune a rule on rows of the new kind",
        )
    if repr(wanted) == rule.metric and reads_recalls_alone(wanted, K, M):
        return new
    shares = rule.shares
    assert shares is not None
    calibrator = shifted(before_shift(new.calibrator), source, target)
    moved = replace(new, calibrator=calibrator, shares=replace(shares.shifted(target), decided=None))
    moved = replace(moved, weights=np.ones(1), metric=repr(wanted), cost_table=wanted.cost_table)
    if wanted.structure.is_linear:
        functions: Any = wanted.as_functions(target, wanted.n_decisions(K))
        return replace(moved, gains=functions.gains)
    if proba is None:
        raise InputError(
            f"the best rule for {wanted!r} depends on the rows",
            "pass `proba=`, probabilities of rows of the new kind; or use Solution.adapt with `tuned_on=(proba, y)`",
        )
    gains = _best_on(wanted, make_table(proba, None, None, names, stated=True).calibrated(calibrator), M)
    return replace(moved, gains=gains)


def _best_on(metric: Metric, table: Any, n_decisions: int) -> Gains:
    """Return the gain of the best single rule on the model's confusion of a calibrated ``table``."""
    # a rule that is applied loads no solver
    from confmax import optimize
    from confmax.confusion.ties import with_ties_broken
    from confmax.oracle import CountingOracle, make_oracle

    oracle = CountingOracle(make_oracle(table))
    matrix = metric.statistics == "matrix"
    starts = optimize.baselines(oracle, [table.mean_probability()], n_decisions, matrix=matrix)
    method = optimize.choose("auto", metric, table.n_classes, n_decisions, exact=True, table=table)
    passes = optimize.passes_allowed(method, table.n_rows)
    outcome = optimize.run(method, optimize.Problem(metric, oracle, n_decisions, tuple(starts), passes, TOL))
    return with_ties_broken(outcome.single.gathered()[0])
