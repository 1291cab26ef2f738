"""Names that people import: the list of an earlier state, and which of them are gone and why."""

import importlib
import importlib.util

import pytest

NAMES = {
    "confmax": (
        "DecisionRule FixedRuleClassifier MetricClassifierCV Score Solution __version__ calibration "
        "checks maximize metrics open_table optimize plotting populations report score theory"
    ),
    "confmax.calibration": (
        "Calibration MatrixScaling Scaling Temperature VectorScaling check_calibration choose fit log_loss"
    ),
    "confmax.checks": ("check_metric check_oracle check_solver random_confusion random_table"),
    "confmax.metrics": ("Metric aliases from_function get names resolve"),
    "confmax.optimize": (
        "BayesCG Bisection BruteForce CoordinateSearch Dinkelbach FrankWolfe FullyCorrective MaxMin "
        "Mixture Outcome Problem Progress SOLVERS Solver Stationary Status Step ThresholdSearch "
        "baselines best_cut choose passes_allowed run warm_start"
    ),
    "confmax.plotting": (
        "ConfusionChangeDisplay ConvergenceDisplay DecisionRegionsDisplay RiskCoverageDisplay ThresholdDisplay "
        "TradeOffDisplay WeightsDisplay"
    ),
    "confmax.populations": (
        "FinitePopulation GaussianMixture Population atoms_example coin continuous_example eta_error "
        "population_confusion"
    ),
    "confmax.report": ("write write_cross_fitted"),
    "confmax.theory": (
        "Bound Form SmoothingConstants bayes_cg_bound brute_force_bound confusion_radius "
        "frank_wolfe_bound linear_regret_bound ratio_factor rho_schedule smoothed_bound "
        "smoothing_constants split_sizes"
    ),
    "confmax.oracle": (
        "BACKENDS Calibrator CountingOracle DecidingOn Oracle Table apply_calibrator "
        "checked_probabilities decide decide_given distinct_labels given_hashes is_dask is_source "
        "is_spark is_sparse is_tensor make_oracle make_table on_host open_table "
        "refuse_too_few_classes rows_of same_estimate sampled"
    ),
    "confmax.confusion": ("Confusion Gains sum_of_others"),
    "confmax.solution": ("Solution aligned check_settings fit_metric maximize tune value_on_labels warn_of_trivial"),
    "confmax.estimators": ("FixedRuleClassifier MetricClassifierCV"),
    "confmax.rule": ("DecisionRule"),
    "confmax.uncertainty": ("Decided Difference Estimate Score check_bootstrap compare doubts plain_rules score"),
}
BOUNDARY = "a helper of the boundary, which is `confmax.tables`"
GONE = {
    "confmax.uncertainty": {"*": "the functions of `confmax.evaluate`, under the same names"},
    "confmax.oracle": dict.fromkeys(
        "Calibrator DecidingOn apply_calibrator checked_probabilities decide_given distinct_labels given_hashes "
        "is_dask is_source is_spark is_sparse is_tensor on_host open_table refuse_too_few_classes rows_of "
        "sampled".split(),
        BOUNDARY,
    ),
    "confmax.solution": {"check_settings": "`Plan.checked`, which checks all settings"},
}


@pytest.mark.parametrize("module", NAMES)
def test_public_names_stay(module):
    if module == "confmax.plotting":
        pytest.importorskip("matplotlib")
    gone = GONE.get(module, {})
    if "*" in gone:
        assert importlib.util.find_spec(module) is None
        return
    found = importlib.import_module(module)
    names = set(NAMES[module].split())
    assert gone.keys() <= names
    missing = {name for name in names - gone.keys() if not hasattr(found, name)}
    assert not missing
    back = {name for name in gone if hasattr(found, name)}
    assert not back, "these are here after all"
