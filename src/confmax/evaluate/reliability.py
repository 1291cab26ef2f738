"""Whether probabilities mean what they say: binned frequencies, log loss, calibration error, class by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from confmax.calibration.scaling import FLOOR
from confmax.confusion import Array

BINS = 10
MISCALIBRATED, BEYOND_CHANCE = 0.02, 1e-3  # calibration error that is worth a word, if chance is less likely than this


@dataclass(frozen=True, eq=False)
class Reliability:
    """Reliability of the most probable class, and of all.

    Attributes
    ----------
    stated, observed : ndarray (B,)
        Mean probability of the most probable class in each bin, and how often it was the true one.
    share : ndarray (B,)
        Fractions of all weight.
    error : ndarray (B,)
        Standard error of ``observed`` if the probabilities were right.
    log_loss : float
        Mean log loss in nats, entries below 1e-12 counting as 1e-12.
    brier : float
        Mean squared distance to the true class's indicator, from 0 to 2.
    ece : float
        Expected calibration error of the most probable class: mean of ``|stated - observed|`` over the bins.
    ece_by_chance : float
        What it would be on average, with so few rows, if the probabilities were right.
    p_value : float
        Chance of bins as far off as these if the probabilities were right (chi-squared over the bins).
    mean : ndarray (K,)
        Mean probability of every class.
    """

    stated: Array
    observed: Array
    share: Array
    error: Array
    log_loss: float
    brier: float
    ece: float
    ece_by_chance: float
    p_value: float
    mean: Array

    @property
    def is_off(self) -> bool:
        """Whether the probabilities are off by what matters, and by more than chance."""
        return self.ece > MISCALIBRATED and self.p_value < BEYOND_CHANCE


def reliability(proba: NDArray[Any], labels: NDArray[np.int64], weight: Array) -> Reliability:
    """Return the reliability of probabilities (n, K); bins of the largest one hold about equal numbers of rows."""
    kept = weight > 0
    P, labels, weight = proba[kept].astype(np.float64), labels[kept], weight[kept]
    top = P.argmax(axis=1)
    sure = P[np.arange(len(P)), top]
    hit = (top == labels).astype(np.float64)
    edges = np.unique(np.quantile(sure, np.arange(1, BINS) / BINS))
    place = np.searchsorted(edges, sure, side="right")  # equal probabilities share a bin
    _, place = np.unique(place, return_inverse=True)
    total = np.bincount(place, weights=weight)
    stated = np.bincount(place, weights=weight * sure) / total
    observed = np.bincount(place, weights=weight * hit) / total
    error = np.sqrt(np.bincount(place, weights=weight**2 * sure * (1 - sure))) / total
    share = total / total.sum()
    off = np.abs(stated - observed)
    # a bin of near certainties may have one miss: the size of a row is no evidence
    z = off / np.hypot(error, np.bincount(place, weights=weight**2) / total**2)
    truth = P[np.arange(len(P)), labels]
    squares = (P**2).sum(axis=1) - 2 * truth + 1
    return Reliability(
        stated, observed, share, error,
        log_loss=float(np.average(-np.log(np.maximum(truth, FLOOR)), weights=weight)),
        brier=float(np.average(squares, weights=weight)),
        ece=float(share @ off),
        # the mean size of a normal deviation
        ece_by_chance=float(share @ error) * float(np.sqrt(2 / np.pi)),
        p_value=float(chi2.sf((z**2).sum(), len(z))),
        mean=np.average(P, axis=0, weights=weight),
    )  # fmt: skip
