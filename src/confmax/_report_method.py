"""The method by which a solution writes a report; `Solution` inherits it."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from numpy.typing import ArrayLike


class Reports:
    """What writes a page about itself."""

    def report(
        self,
        path: str | os.PathLike[str],
        proba: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **settings: Any,
    ) -> None:
        """Write one HTML page that says what the rule gains, what it costs, and whether to trust it.

        The page needs no network. It holds every metric of argmax, p/prior and the rule with bootstrap intervals and
        paired differences, what the rule does in words, confusion matrices, gap, calibration, the trade-off with
        another metric, and warnings; that the rule is worse than argmax on these rows is said first.

        Parameters
        ----------
        path : path
            Where the page goes; it appears whole or not at all.
        proba : array-like (n, K)
            Raw class probabilities, on rows that the rule was not tuned on. If they are those rows, the page warns;
            `confmax.report.write_cross_fitted` takes the figures from rules that have not seen the row.
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
        # reports stand above solutions, so this one is asked for by name
        import_module("confmax.report").write(path, self, proba, y, sample_weight, **settings)
