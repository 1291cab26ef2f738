"""What to know before trusting the figures, in sentences for readers who know no optimisation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from confmax.evaluate.figures import Figures, labels
from confmax.evaluate.scores import lacking
from confmax.evaluate.seen import seen_by_tuning
from confmax.evaluate.words import listed
from confmax.optimize import Status
from confmax.page.words import capital, count, fold_range, number, percent, rows

FEW = 30  # rows of a class below which its figures are loose
MUCH = 0.5  # standard deviation over folds of a threshold's log odds: a factor of 1.6
LOST = 0.5  # share of the gain on the tuning rows that is not found on other rows
SMALL = 0.005  # a loss of the metric below this is not mentioned
COPIES = 0.1  # share of rows that have a twin
OF_COPIES = 0.25  # twins whose labels differ, as a part of those that would by chance: below this they are copies
ENOUGH = 10.0  # of those that would: fewer may be none by chance
DRAWS = 1e-3  # what drawing must gain to be worth it, as in maximize's randomized="auto"


def warnings_of(figures: Figures) -> tuple[str, ...]:
    """Return the sentences, the gravest first."""
    return tuple(sentence for check in CHECKS if (sentence := check(figures)))


def seen_rows(figures: Figures) -> str:
    """The rows are those of the tuning."""
    if not figures.evidence.seen:
        return ""
    return (
        f"{capital(seen_by_tuning(figures.score.n_rows))}. Evaluate it on other rows, or use 'confmax tune "
        f"--report', which cross-fits."
    )


def tuned_on_training_rows(figures: Figures) -> str:
    """The rule was tuned on the final model's probabilities of that model's training rows."""
    solution = figures.evidence.solution
    if solution is None or solution.tuned_on != "refit" or solution.label_value is None:
        return ""
    main = figures.main
    inside, outside = (number(main.as_shown(value)) for value in (solution.value, solution.label_value))
    return (
        f"Many training rows are alike, so the rule was tuned on the final model's probabilities of its training rows. "
        f"Its {main.label} there is {inside}, which is in-sample. With out-of-fold probabilities, on the labels, it is "
        f"{outside}."
    )


def folds_that_miss(figures: Figures) -> str:
    """Rules of folds that keep not all limits on the rows that tuned them."""
    evidence = figures.evidence
    missing = [f"{k + 1}" for k, solution in enumerate(evidence.solutions) if not solution.feasible_on_estimate]
    if not missing:
        return ""
    several = len(missing) > 1
    return (
        f"Without fold{'s' if several else ''} {listed(missing)} no rule was met that keeps all limits on the other "
        f"rows. The rule{'s' if several else ''} that miss{'' if several else 'es'} them least "
        f"{'decide' if several else 'decides'} the rows of {'these folds' if several else 'this fold'}."
    )


def absent(figures: Figures) -> str:
    """Classes without rows."""
    names = [row.name for row in figures.classes if row.n_rows == 0]
    if not names:
        return ""
    single = len(names) == 1
    return (
        f"No row has the label {listed(names)}. The page cannot say anything about "
        f"{'this class' if single else 'these classes'}, and metrics that divide by class sizes leave "
        f"{'it' if single else 'them'} out."
    )


def few_rows(figures: Figures) -> str:
    """Classes with few rows."""
    few = [f"{row.name} ({row.n_rows})" for row in figures.classes if 0 < row.n_rows < FEW]
    if not few:
        return ""
    return (
        f"Too few rows of {listed(few)}: with fewer than {FEW} rows of a class, its precision, recall and threshold "
        f"depend on single rows. So do metrics that weight all classes equally."
    )


def lost_classes(figures: Figures) -> str:
    """Classes that bootstrap replicates lack."""
    lost = lacking(figures.score)
    if not lost:
        return ""
    name, share = lost[0]
    return (
        f"Class {labels([str(name)])[0]} is so rare that {percent(share)} of the bootstrap replicates have no row of "
        f"it. In these replicates, means of recalls and the smallest recall leave the class out, and macro F1 and "
        f"similar metrics count it as zero. The intervals of these metrics are unreliable and may not contain the "
        f"value itself."
    )


def over_fitting(figures: Figures) -> str:
    """The gain on the tuning rows is not found on other rows."""
    solution = figures.evidence.solution
    main = figures.main
    # cross-fitted, both values are of the same rows, so that their difference is not one of samples
    # with a confidence, the value is that of rows that tuned nothing
    if (
        solution is None
        or solution.label_value is None
        or figures.evidence.fold is None
        or solution.confidence is not None
    ):
        return ""
    inside = solution.label_value - main.argmax.value
    outside = main.tuned.value - main.argmax.value
    drop = inside - outside
    if not math.isfinite(drop) or inside <= 0 or drop < SMALL or drop < LOST * inside:
        return ""
    reached, held_out = (number(main.as_shown(value)) for value in (solution.label_value, main.tuned.value))
    gained, kept = (number(main.as_shown(value), sign=True) for value in (inside, outside))
    return (
        f"Over-fitting: on its tuning rows the rule reaches {reached} in {main.label} ({gained} compared with argmax), "
        f"on held-out rows {held_out} ({kept}). Expect the value on held-out rows."
    )


def unstable(figures: Figures) -> str:
    """Thresholds, or the shares of rows that are decided as a class, differ between folds."""
    loose = [row for row in figures.classes if row.folds is not None and row.spread > MUCH]
    if not loose:
        return ""
    row = max(loose, key=lambda row: row.spread)
    what = "threshold" if len(figures.classes) == 2 else "share of rows that is decided as"
    others = {1: "", 2: "one more class"}.get(len(loose), f"{len(loose) - 1} more classes")
    return (
        f"The rule varies between folds: the {what}{' of' if what == 'threshold' else ''} {row.name} ranges from "
        f"{fold_range(figures, row)}"
        + (f", and those of {others} vary as much" if others else "")
        + ". More rows would make it stable, and so would a metric that depends less on rare classes."
    )


def miscalibrated(figures: Figures) -> str:
    """The probabilities that the rule uses are off."""
    used = figures.calibrated
    if not used.is_off:
        return ""
    after = "even after the rule's own calibration, " if used is not figures.raw else ""
    return (
        f"The probabilities are poorly calibrated: {after}the most probable class is correct "
        f"{100 * used.ece:.1f} percentage points more or less often than stated, on average (with calibrated "
        f"probabilities, about {100 * used.ece_by_chance:.1f}). A better calibrated model may improve the rule."
    )


def useless_draws(figures: Figures) -> str:
    """A randomised rule that gains nothing by its draws."""
    if figures.single is None:
        return ""
    gain = figures.single
    # without replicates the size of the gain decides alone
    if gain.value > DRAWS and (gain.low is None or gain.low > 0):
        return ""
    return (
        f"The rule decides at random with no clear benefit: {number(gain.value, sign=True)} compared with always "
        f"applying the rule that it draws most often. Tune with randomized=False (--randomized no)."
    )


def copies(figures: Figures) -> str:
    """Rows that are equal where that matters: to a rule that draws, and to intervals if they are copies of one case.

    Trees give many rows the same probabilities, and their labels then differ as these say. Those of copies agree.
    """
    evidence = figures.evidence
    _, first, inverse, often = np.unique(
        evidence.table.row_hashes(), return_index=True, return_inverse=True, return_counts=True
    )
    case = first[inverse.reshape(-1)]
    twins = float(np.mean(often[inverse.reshape(-1)] > 1))
    if twins <= COPIES:
        return ""
    alike = f"{percent(twins)} of rows have the same probabilities as another row ({rows(len(often))} are distinct)"
    if evidence.rule.is_randomized:
        return f"{alike}, and the rule draws once for all rows that are equal. Pass keys= to predict (--key to apply)."
    # how many rows have another label than the first one like them, and how many would
    differ = int((evidence.labels != evidence.labels[case]).sum())
    expected = float((1.0 - (evidence.proba.astype(np.float64) ** 2).sum(axis=1))[case != np.arange(len(case))].sum())
    if expected < ENOUGH or differ > OF_COPIES * expected:
        return ""
    return (
        f"{alike}, and their labels agree more than these probabilities say: {count(differ)} rows have another label "
        f"than the first one like them, and about {expected:,.0f} would. They seem to be copies of the same cases, "
        f"and then the intervals are too narrow."
    )


def unfinished(figures: Figures) -> str:
    """The search ended early."""
    solution = figures.evidence.solution
    early = (Status.TRUNCATED, Status.STOPPED)
    if solution is None:
        return ""
    # on labels there is no bound to reach, and a budget that is used up says nothing
    if solution.status not in early and (solution.status is not Status.MAX_PASSES or solution.mode != "model"):
        return ""
    return f"The search for the rule ended early, and a better rule may exist. {capital(solution.status.value)}."


CHECKS: tuple[Callable[[Figures], str], ...] = (
    seen_rows,
    tuned_on_training_rows,
    folds_that_miss,
    absent,
    over_fitting,
    few_rows,
    lost_classes,
    unstable,
    miscalibrated,
    useless_draws,
    copies,
    unfinished,
)
