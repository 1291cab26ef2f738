"""Names that people import stay: the list of an earlier state."""

import importlib

import pytest

NAMES = {
    "confmax": (
        "DecisionRule FixedRuleClassifier MetricClassifierCV Score Solution __version__ calibration "
        "checks maximize metrics open_table optimize plotting populations report score theory"
    ),
    "confmax.calibration": (
        "Calibration MatrixScaling Scaling Temperature VectorScaling check_calibration choose fit log_loss"
    ),
    "confmax.checks": "check_metric check_oracle check_solver random_confusion random_table",
    "confmax.metrics": "Metric aliases from_function get names resolve",
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
    "confmax.report": "write write_cross_fitted",
    "confmax.theory": (
        "Bound Form SmoothingConstants bayes_cg_bound brute_force_bound confusion_radius "
        "frank_wolfe_bound linear_regret_bound ratio_factor rho_schedule smoothed_bound "
        "smoothing_constants split_sizes"
    ),
    "confmax.oracle": "BACKENDS CountingOracle Oracle Table decide make_oracle make_table same_estimate",
    "confmax.confusion": "Confusion CostTable Gains sum_of_others",
    "confmax.solution": "Solution aligned fit_metric maximize tune value_on_labels warn_of_trivial",
    "confmax.estimators": "FixedRuleClassifier MetricClassifierCV",
    "confmax.rule": "DecisionRule",
}


@pytest.mark.parametrize("module", NAMES)
def test_public_names_stay(module):
    if module == "confmax.plotting":
        pytest.importorskip("matplotlib")
    found = importlib.import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []
