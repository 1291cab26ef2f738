"""The method `report`, which `Solution` inherits."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from numpy.typing import ArrayLike


class Reports:
    """A class with a method that writes a report."""

    def report(
        self,
        path: str | os.PathLike[str],
        proba: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **settings: Any,
    ) -> None:
        """Write one HTML page that says what the rule gains, what it costs, and whether to trust it.

        The page needs no network. Its first line says whether the rule is better than argmax and than p/prior on these
        rows. Below that it shows the metrics with bootstrap intervals and paired differences, the rule in words,
        confusion matrices, the trade-off with another metric, gap and calibration, and warnings.

        Parameters
        ----------
        path : path
            Where to write the page. It is written whole or not at all.
        proba : array-like (n, K)
            Raw class probabilities of rows that the rule was not tuned on. The page warns if these are the tuning rows.
            If you have no other rows, use `confmax.report.write_cross_fitted`.
        y : array-like (n,)
            True classes: names or column numbers.
        sample_weight : array-like (n,) or None
            Non-negative weights.
        **settings
            Further keywords of `confmax.report.write`: ``second``, the metric of the trade-off ("accuracy"),
            ``metric``, ``n_replicates``, ``level``, ``random_state``, ``source``.

        Raises
        ------
        ValueError
            For bad input, in one sentence.
        ImportError
            If vl-convert-python (extra ``confmax[report]``) is not installed.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import confmax
        >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 25, [0, 0, 1, 1] * 25
        >>> solution = confmax.maximize("g_mean", P[::2], y[::2])
        >>> solution.report("report.html", P[1::2], y[1::2])  # doctest: +SKIP
        """
        # reports import solutions, so solutions import reports only when one is written
        import_module("confmax.report").write(path, self, proba, y, sample_weight, **settings)
