"""What a report says of the proof that a rule is nearly the best one."""

from __future__ import annotations

from confmax.evaluate.figures import Figures, metric_name
from confmax.evaluate.protocols import if_right
from confmax.page.words import capital, number


def certificate(figures: Figures) -> str:
    """Return what is proved of the rule, or why nothing is."""
    solution = figures.evidence.solution
    if solution is None:
        return (
            "A saved rule holds no proof: how far it is from the best one was known when it was tuned. The figures "
            "above are the evidence here."
        )
    if solution.infeasibility is not None:
        return f"{capital(solution.infeasibility)}."
    # a proof is of the metric that the rule was tuned for, and the page may evaluate it by another one
    name = metric_name(repr(solution.metric))
    by_model = if_right(solution) if solution.mode == "blend" else None
    if by_model is not None:
        return f"On the tuning rows, for the {name} of the confusion matrix that the probabilities expect: {by_model}."
    if solution.gap is not None and solution.upper_bound is not None:
        within = " within the limits" if solution.constraints else ""
        return (
            f"Proved: on the tuning rows no rule{within} reaches a {name} above {number(solution.upper_bound)} of the "
            f"confusion matrix that the probabilities expect. This one has {number(solution.value)}, so at most "
            f"{number(solution.gap)} is missing, if the probabilities are right."
        )
    if solution.mode == "model" or (solution.mode == "blend" and solution.model_value is not None):
        return (
            f"Nothing is proved about how much better another rule could be: for {name} no bound is known, so the "
            f"search tries several starts and keeps the best."
        )
    source = "labels" if solution.mode == "labels" else "labels and probabilities together"
    evidence = "; here the evidence is what the rule does on rows that it was not tuned on"
    return (
        f"Nothing is proved about how much better another rule could be: the rule was tuned on {source}, and labels "
        f"are only a sample. Most metrics have a proof under confusion='model', which trusts the probabilities alone"
        f"{'' if figures.evidence.seen else evidence}."
    )
