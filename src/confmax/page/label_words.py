"""What the figures of a rule of several labels mean, in sentences."""

from __future__ import annotations

from confmax.calibration.words import which_labels
from confmax.evaluate.label_figures import FEW, TUNED, LabelFigures
from confmax.evaluate.label_rivals import SEPARATE
from confmax.evaluate.scores import lacking
from confmax.evaluate.seen import seen_by_tuning
from confmax.evaluate.verdict import Difference
from confmax.evaluate.words import listed
from confmax.page.words import capital, number, of_others, of_verdict, percent, rows, sentences
from confmax.page.words import threshold as probability

PROPER = {
    "f1": "F1",
    "f beta": "F-beta",
    "cohen kappa": "Cohen's kappa",
    "mcc": "MCC",
    "jaccard": "Jaccard",
    "g mean": "G-mean",
    "h mean": "H-mean",
}
SIGNIFICANT = {"better": "better", "worse": "worse", "unclear": "could be noise", "same": "no change"}


def label_of(metric: str) -> str:
    """Return the name of a metric as people read it.

    >>> label_of("macro_f1"), label_of("cohen_kappa")
    ('macro F1', "Cohen's kappa")
    """
    text = metric.replace("_", " ")
    for name, shown in PROPER.items():
        text = text.replace(name, shown)
    return text


def minus(figures: LabelFigures, to: str, metric: str | None = None) -> Difference:
    """Return the value of the tuned rule minus that of another, by the tuned metric or another one."""
    return figures.score.difference(TUNED, to, figures.metric if metric is None else metric)


def headline(figures: LabelFigures) -> str:
    """Return what to make of the rule, without a number."""
    return of_verdict(figures.verdict, capital(label_of(figures.metric)))


def verdict(figures: LabelFigures) -> tuple[str, str]:
    """Return "better", "worse" or "unclear", and sentences on the tuned rule and the rival that decides the verdict."""
    found = figures.verdict
    return found.side, " ".join(sentences(found, TUNED in figures.score.limits))


def against(figures: LabelFigures) -> list[str]:
    """Return sentences on the tuned rule and its other rivals."""
    return of_others(figures.verdict)


def basis(figures: LabelFigures) -> str:
    """Return which rows the figures describe, as the end of a sentence."""
    n = rows(figures.score.n_rows)
    if figures.n_folds is not None:
        return (
            f"on {n}, cross-fitted in {figures.n_folds} folds: each row is decided by a rule that was tuned on the "
            f"other folds (the rule that is kept is tuned on all rows)"
        )
    if figures.seen:
        return f"on the {n} that the rule was tuned on"
    # a hash of all tuning rows does not tell whether some of them are here
    return f"on the {n} given. " + (
        "Make sure that the rule was not tuned on them"
        if figures.rule.tuned_on is None
        else "A hash in the rule tells that they are not the rows of its tuning; make sure that none is among those"
    )


def counted_on(figures: LabelFigures) -> list[str]:
    """Return which figures are not made of all rows, one by one; nothing where all are."""
    score = figures.score
    said = []
    if 0 < figures.n_found_on < score.n_rows:
        said.append(
            f"All figures are counted on all rows. Only the thresholds of {SEPARATE} were found on a sample of "
            f"{rows(figures.n_found_on)}, chosen by what is in them; no row is decided by a threshold that it helped "
            f"to find."
        )
    if score.n_replicates and score.resampled != "rows":
        said.append(
            "A lot holds all rows with one hash of their content. Drawing lots in the place of rows gives intervals of "
            "the same width, up to a few percent."
        )
    return said


def warnings_of(figures: LabelFigures) -> list[str]:
    """Return what to know before the figures are trusted."""
    said = []
    if figures.seen:
        said.append(f"{capital(seen_by_tuning(figures.score.n_rows))}.")
    absent = [one.name for one in figures.labels if not one.n_rows]
    if absent:
        said.append(f"No row has the label {listed(absent)}: metrics leave such labels out.")
    few = [f"{one.name} ({one.n_rows})" for one in figures.labels if 0 < one.n_rows < FEW]
    if few:
        which = "this label scores" if len(few) == 1 else "these labels score"
        said.append(f"Fewer than {FEW} rows have the label {listed(few)}: what {which} on new rows is hardly known.")
    rare = [f"{name} ({percent(share)})" for name, share in lacking(figures.score)]
    if rare:
        said.append(f"Some replicates have no row with {listed(rare)}, so that intervals are too narrow.")
    never = [one.name for one in figures.labels if one.n_rows and not one.rate]
    if never:
        said.append(f"The rule never decides {listed(never)} on these rows.")
    unjudged = [one.text for one in figures.score.limits.get(TUNED, ()) if one.kept is None]
    if unjudged:
        said.append(f"These rows cannot judge {listed(unjudged)}: no row has the label.")
    return said


def certificate(figures: LabelFigures) -> str:
    """Return what is proved of the rule."""
    if figures.proof is None:
        return (
            "A saved rule holds no proof: how far it is from the best one was known when it was tuned. The figures "
            "above are the evidence here."
        )
    text = f"On the tuning rows, {figures.proof}."
    if figures.on_tuning is None:
        return text
    held = figures.score.estimate(TUNED, figures.metric).value
    lower = " The difference estimates how optimistic values on tuning rows are." if figures.on_tuning > held else ""
    return (
        f"{text} On the labels of its tuning rows (all rows), the rule that is kept reaches "
        f"{number(figures.on_tuning)} in {label_of(figures.metric)}. On held-out rows, the rules of the folds reach "
        f"{number(held)}.{lower}"
    )


def how_it_decides(figures: LabelFigures) -> str:
    """Return how the rule decides a row."""
    rule = figures.rule
    drawn = " It draws between several rules by chance." if rule.is_randomized else ""
    return f"A row gets {which_labels(rule)}.{drawn}"


def threshold(value: float) -> str:
    """Return from which probability a label is decided."""
    return "always" if value < 0.0 else probability(value)


def glossary(figures: LabelFigures) -> list[tuple[str, str]]:
    """Return the words of the page and what they mean."""
    most = figures.rule.decisions.most
    words = {
        "p > 0.5": "Decides every label whose probability is above one half.",
        f"top-{most}": f"Decides the {most} most probable labels of a row.",
        f"top-{most} of p > 0.5": f"Decides the {most} most probable labels of a row, of those above one half.",
        f"top-{most} of p/prior": "Divides each probability by how often its label is true, then takes the largest.",
        SEPARATE: "For each label alone the threshold with the largest F1 on the labels of other rows.",
        f"top-{most} of {SEPARATE}": f"Decides the {most} most probable labels of a row, of those above thresholds of "
        "their own: for each label alone the one with the largest F1 on the labels of other rows.",
        TUNED: "The decision rule that confmax tuned for the metric.",
    }
    shown = [(name, words[name]) for name in figures.score.rules if name in words]
    crossed = ("cross-fitted", "Each row is decided by a rule that was tuned on other rows.")
    return shown if figures.n_folds is None else [*shown, crossed]
