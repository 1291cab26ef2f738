"""What rules compete with: what people decide by without tuning, on the same rows.

A rule that leaves rows undecided competes with Chow's rule and with p/prior on as many rows: those that each of them
is surest of. By a table of costs, which are those of all rows, also of the ones that it leaves, it competes with argmax
and p/prior at their costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.constraints import Limits
from confmax.evaluate.decided import Decided
from confmax.evaluate.limits import missed_by
from confmax.evaluate.scores import PLAIN
from confmax.metrics import Metric
from confmax.metrics.decided import of_decided
from confmax.tables import Part

CHOW = "Chow's rule"
PRIOR_ON_AS_MANY = "p/prior on as many rows"
SAME = 1e-12  # coverages that rounding explains are equal


def chow(proba: NDArray[Any], weight: Array, coverage: float) -> Decided:
    """Return what Chow's rule decides at a ``coverage``, exactly: of rows with equal probabilities a share.

    ``proba`` (n, K) are the calibrated probabilities, ``weight`` (n,) the weights of the rows.
    """
    K = proba.shape[1]
    # of classes that tie the last one is decided, as everywhere
    top = K - 1 - proba[:, ::-1].argmax(axis=1)
    sure = proba.max(axis=1).astype(np.float64)
    levels, place = np.unique(-sure, return_inverse=True)
    so_far = np.cumsum(np.bincount(place, weights=weight, minlength=len(levels)))
    wanted = coverage * so_far[-1]
    # the last level that is reached is decided in part
    last = min(int(np.searchsorted(so_far, wanted * (1.0 - SAME))), len(levels) - 1)
    before = so_far[last - 1] if last else 0.0
    there = so_far[last] - before
    share = min(1.0, (wanted - before) / there) if there else 0.0
    lines = np.stack([np.where(place <= last, top, K), np.where(place < last, top, K)]).astype(np.int64)
    return Decided(lines, np.array([share, 1.0 - share]), K + 1, True)


def on_as_many(rule: str, decided: Decided, table: Part, proba: NDArray[Any]) -> dict[str, Decided]:
    """Return Chow's rule and p/prior on as many rows as a ``rule`` that abstains ``decided``, by their names.

    ``proba`` (n, K) are the probabilities as the rule calibrates them. There are none for a rule that decides no row.
    """
    weight = table.weights
    left = decided.shares @ (decided.decisions == decided.n_decisions - 1)
    coverage = 1.0 - float(np.average(left, weights=weight))
    if not coverage > 0.0:
        return {}
    prior = table.label_weight()
    by_prior = np.divide(proba, prior, out=np.zeros(proba.shape), where=prior > 0.0)
    total = by_prior.sum(axis=1, keepdims=True)
    by_prior = np.divide(by_prior, total, out=by_prior, where=total > 0.0)
    beside = "" if rule == "rule" else f" ({rule})"
    return {
        f"{CHOW}{beside}": chow(proba, weight, coverage),
        f"{PRIOR_ON_AS_MANY}{beside}": chow(by_prior, weight, coverage),
    }


def names_of(metric: Metric, n_classes: int, *, abstains: bool, as_many: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of the rivals of a rule by a ``metric``, the simplest first."""
    if metric.gain is not None:
        return PLAIN
    # what is decided differs between rules that decide all rows and one that leaves some
    apart = abstains and of_decided(metric, n_classes).formula.is_of_decided
    return (*(() if apart else PLAIN), *as_many)


def missed_by_each(
    names: Iterable[str], decided: Mapping[str, Decided], limits: Sequence[Limits], table: Part, n_decisions: int
) -> dict[str, tuple[str, ...]]:
    """Return the limits of a rule between ``n_decisions`` that each of its rivals misses, by their names."""
    every = {name: decided[name]._replace(n_decisions=n_decisions) for name in names}
    return {
        name: tuple(dict.fromkeys(text for some in limits for text in missed_by(some, one, table)))
        for name, one in every.items()
    }


def decide_alike(one: Decided, other: Decided) -> bool:
    """Return whether two rules, which may draw, decide all rows alike."""
    alike = one.decisions[:, None] == other.decisions[None]
    return bool((np.einsum("a,abn,b->n", one.shares, alike, other.shares) >= 1.0 - SAME).all())
