"""Names of metrics that other libraries use and this one has not: what they are in its terms, for errors.

A similar spelling would lead such names astray. Other words for a metric that is here are its `Metric.synonyms`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

# parts of the names of scores of probabilities, such as areas under curves, and whole names
RANKING = (
    *("auc", "roc", "average_precision", "log_loss", "logloss", "brier", "cross_entropy", "top_k", "ranking"),
    *("calibration_error", "log_likelihood", "coverage_error", "ndcg"),
)
_RANKING_ALONE = ("ap", "map", "lrap", "nll", "ece", "gini", "ks", "crps", "deviance", "perplexity")
_OF_NUMBERS = (
    *("mse", "rmse", "mae", "mape", "r2", "mean_squared_error", "root_mean_squared_error", "mean_absolute_error"),
    *("max_error", "explained_variance"),
)
_OF_COSTS = (
    *("cost", "costs", "expected_cost", "total_cost", "misclassification_cost", "profit", "expected_profit"),
    *("utility", "expected_utility", "savings"),
)
# what is one less a metric: the first one that there is
_ONE_LESS = {
    **dict.fromkeys(("fnr", "false_negative_rate", "miss_rate"), ("recall",)),
    **dict.fromkeys(("fdr", "false_discovery_rate"), ("precision",)),
    **dict.fromkeys(("for", "false_omission_rate"), ("npv",)),
    **dict.fromkeys(("error", "error_rate", "zero_one", "zero_one_loss"), ("accuracy",)),
    **dict.fromkeys(("misclassification", "misclassification_rate", "classification_error"), ("accuracy",)),
    **dict.fromkeys(("hamming_loss", "hamming_distance"), ("hamming", "accuracy")),
    **dict.fromkeys(("ber", "balanced_error_rate"), ("balanced_accuracy",)),
    **dict.fromkeys(("abstention_rate", "rejection_rate", "reject_rate"), ("coverage",)),
}
# of groups: the limit that is meant
_OF_GROUPS = {
    "demographic_parity": "difference(rate[NAME] | group) <= 0.05",
    "statistical_parity": "difference(rate[NAME] | group) <= 0.05",
    "disparate_impact": "ratio(rate[NAME] | group) >= 0.8",
    "equal_opportunity": "difference(recall[NAME] | group) <= 0.05",
    "equalized_odds": "difference(recall[NAME] | group) <= 0.05 and difference(fpr[NAME] | group) <= 0.05",
}
_FUNCTIONS = {
    "markedness": ("precision + npv - 1", "pass it as a function of the confusion matrix"),
    "lift": ("the precision of a class divided by its share", "use precision, which is largest for the same rule"),
}
_MEANS = "micro|macro|weighted|samples|binary"
_MEAN = re.compile(rf"(?P<mean>{_MEANS})_(?P<of>.+)|(?P<of_>.+)_(?P<mean_>{_MEANS})")


def plain_word(name: str) -> str:
    """Return a name without what only marks it as a score.

    >>> plain_word("Accuracy Score"), plain_word("neg_log_loss"), plain_word("G-mean")
    ('accuracy', 'log_loss', 'g_mean')
    """
    return re.sub(r"[\s-]+", "_", name.strip().lower()).removeprefix("neg_").removesuffix("_score")


def with_base(base: str, known: Collection[str], of_class: str = "") -> list[str]:
    """Return a metric of the ``known`` ones with its class behind it, else the means of which it is the base.

    >>> with_base("f1", ["macro_f1", "micro_f1", "mcc"])
    ['macro_f1', 'micro_f1']
    """
    return [base + of_class] if base in known else [one for one in known if one.endswith(f"_{base}")]


def refused(name: str, known: Collection[str], of_class: str = "") -> tuple[str, str] | None:
    """Return what a metric of another library is, and the way out by the ``known`` ones; None for unknown names.

    ``of_class`` is the class behind the name, in brackets.

    >>> refused("fnr", ["recall"], "[yes]")
    ("there is no metric 'fnr', which is 1 - recall", 'use recall[yes]: fnr <= 0.1 says recall >= 0.9')
    """
    word = plain_word(name)
    what = f"there is no metric {name!r}"
    if any(part in word for part in RANKING) or word in _RANKING_ALONE:
        problem = f"{name} is computed from probabilities, not from decisions, so no decision rule changes it"
        return problem, "choose a metric of decisions, such as balanced_accuracy"
    if word in _ONE_LESS:
        less = _ONE_LESS[word]
        base = next((one for one in less if one in known), less[-1])
        found = with_base(base, known, of_class) or [base]
        return f"{what}, which is 1 - {base}", f"use {' or '.join(found)}: {word} <= 0.1 says {base} >= 0.9"
    if word in _FUNCTIONS:
        is_it, remedy = _FUNCTIONS[word]
        return f"{what}, which is {is_it}", remedy
    if word in _OF_NUMBERS:
        return f"{what} of classes: it is of numbers", "of ordered classes use quadratic_kappa, or a table of costs"
    if word in _OF_COSTS:
        return f"{what}, which needs a table", "use the metric linear with its table, `cost=`"
    for fair, limit in _OF_GROUPS.items():
        if word.startswith(fair):
            return f"{what}: it compares groups", f"limit it, such as by {limit}"
    if beta := re.fullmatch(r"(macro_|micro_)?f_?(?!1$)(\d+(?:[._]\d+)?)", word):
        bases = with_base(f"{beta[1] or ''}f_beta", known, of_class)
        return what, f"use {' or '.join(bases)} with beta={beta[2].replace('_', '.')}"
    if (at := re.fullmatch(r"(\w+)_at_(?:fixed_)?([a-z]\w+)", word)) and set(at.groups()) <= set(known):
        return what, f"use {at[1]}{of_class} within a limit, such as {at[2]}{of_class or '[NAME]'} >= 0.9"
    mean = _MEAN.fullmatch(word)
    if mean is None:
        return None
    (kind, of) = (mean["mean"], mean["of"]) if mean["of"] else (mean["mean_"], mean["of_"])
    if kind == "samples":
        problem = f"{name} is a mean over rows of several labels, and no function of a confusion matrix"
        return problem, f"use a mean over classes, such as macro_{of}" if f"macro_{of}" in known else "use macro_f1"
    means = [one for one in known if re.fullmatch(rf"({_MEANS})_{re.escape(of)}", one)]
    if kind == "binary" and of in known:
        return what, f"did you mean {of}{of_class}?"
    if not means:
        return None
    return what, f"of this kind there is {' and '.join(means)}; another mean is a function of the confusion matrix"
