"""The paper's bounds on regret, and the constants in them."""

from confmax.theory.constants import Form, SmoothingConstants, ratio_factor, rho_schedule, smoothing_constants
from confmax.theory.regret import (
    Bound,
    bayes_cg_bound,
    brute_force_bound,
    confusion_radius,
    frank_wolfe_bound,
    linear_regret_bound,
    smoothed_bound,
    split_sizes,
)

__all__ = [
    "Bound",
    "Form",
    "SmoothingConstants",
    "bayes_cg_bound",
    "brute_force_bound",
    "confusion_radius",
    "frank_wolfe_bound",
    "linear_regret_bound",
    "ratio_factor",
    "rho_schedule",
    "smoothed_bound",
    "smoothing_constants",
    "split_sizes",
]
