"""Reports: one HTML page that says what a rule gains, what it costs, and whether to trust it (extra ``report``).

`write` evaluates a finished rule on rows that it was not tuned on. `write_cross_fitted` tunes a rule on all rows and
evaluates, for each fold, a rule that was tuned on the other folds. A page needs no network, and the same input gives
the same page.
"""

from confmax.report.writing import write, write_cross_fitted

__all__ = ["write", "write_cross_fitted"]
