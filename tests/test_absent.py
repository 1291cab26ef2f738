"""Classes and labels that no row has: they are never decided, in any metric, estimate, decisions or kind of table."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import confmax
from confmax.confusion import Gains
from confmax.metrics import labels as label_metrics
from confmax.tables.decisions import decisions_of

N, ABSENT = 200, 2
DRAW = np.random.default_rng(3)
P = DRAW.dirichlet([3, 2, 2, 1], N)
Y = np.array([0, 1, 3])[
    (DRAW.random((N, 1)) > np.cumsum(P[:, [0, 1, 3]], axis=1) / P[:, [0, 1, 3]].sum(1)[:, None]).sum(1)
]
GROUP = np.where(DRAW.random(N) < 0.5, "a", "b")
Q = DRAW.beta(1, 3, (N, 4))
T = (DRAW.random((N, 4)) < Q**0.7).astype(int)
T[:, ABSENT] = 0
OF_CLASS = pytest.mark.filterwarnings(
    "ignore:no row of y has:UserWarning", "ignore:.*divides by class sizes:UserWarning"
)
pytestmark = [
    OF_CLASS,
    pytest.mark.filterwarnings("ignore:the log loss of the probabilities", "ignore:the rule never decides"),
]
FEW = ("macro_f1", "g_mean", "mcc", "accuracy", "cohen_kappa", "min_recall")


def tuned(metric="macro_f1", proba=P, y=Y, **settings):
    """Return the solution for classes, of which no row has one."""
    return confmax.maximize(metric, proba, y, **{"classes": range(4), **settings})


def of_labels(metric="macro_f1", proba=Q, y=T, **settings):
    """Return the solution for labels, of which no row has one."""
    return confmax.maximize(metric, proba, y, **{"decisions": "any", **settings})


@pytest.mark.parametrize("confusion", ["labels", "blend", "model"])
@pytest.mark.parametrize("metric", FEW)
def test_a_class_is_never_decided(metric, confusion):
    solution = tuned(metric, confusion=confusion)
    assert not solution.rule.decision_probabilities(P)[:, ABSENT].any()
    # the bound is one of the rules that never decide it
    assert solution.gap is None or solution.gap > -1e-9
    assert confusion != "model" or solution.gap is None or solution.gap < 1e-3


@pytest.mark.parametrize(
    "settings",
    [
        {"constraints": "recall[3] >= 0.3"},
        {"constraints": ["rate[0] <= 0.5", "precision[1] >= 0.3"], "confusion": "labels"},
        {"abstain": "none", "constraints": "coverage >= 0.8"},
        {"metric": "f1[1]"},
        {"metric": "recall[1]", "constraints": "rate[1] <= 0.4"},
        {"metric": "accuracy", "constraints": "recall[1] >= 0.2", "confidence": 0.9},
        {"randomized": True, "constraints": "min_recall >= 0.3"},
    ],
    ids=str,
)
def test_nor_is_it_within_limits_and_with_abstaining(settings):
    assert not tuned(**settings, on_infeasible="closest").rule.decision_probabilities(P)[:, ABSENT].any()


@pytest.mark.parametrize("of", ["group", "group_proba"])
def test_nor_is_it_in_groups(of):
    groups = {"group": GROUP, "group_proba": np.column_stack([P[:, 0], 1.0 - P[:, 0]])}
    solution = tuned("accuracy", constraints="min(rate[1] | group) >= 0.3", **{of: groups[of]})
    assert not solution.rule.decision_probabilities(P, **{of: groups[of]})[:, ABSENT].any()


@pytest.mark.parametrize("kind", ["sparse", "Dask"])
def test_nor_is_it_in_tables_of_other_kinds(kind):
    made, beside = csr_array, np.asarray
    if kind == "Dask":
        da = pytest.importorskip("dask.array")
        made = beside = lambda rows: da.from_array(rows, chunks=(50, *rows.shape[1:]))
    assert not tuned(proba=made(P), y=beside(Y)).rule.decision_probabilities(P)[:, ABSENT].any()
    for decisions in ("any", 2):
        made_of = of_labels(proba=made(Q), y=beside(T), decisions=decisions).rule.predict(Q)
        assert not made_of[:, ABSENT].any()


@pytest.mark.parametrize("confusion", ["labels", "blend"])
@pytest.mark.parametrize("decisions", ["any", 2, ("at_most", 3)], ids=str)
def test_a_label_is_never_decided(decisions, confusion):
    for metric in label_metrics.names(decisions_of(decisions)):
        if metric == "coverage" or (metric not in ("macro_f1", "micro_f1", "g_mean", "mcc") and decisions != "any"):
            continue
        solution = of_labels(metric, decisions=decisions, confusion=confusion)
        assert not solution.predict(Q)[:, ABSENT].any(), metric
        assert solution.labels[ABSENT].rate == 0.0


def test_a_probability_of_zero_or_nearly_so_changes_nothing():
    for last in (0.0, 0.001):
        probable = Q.copy()
        probable[:, ABSENT] = last
        for metric in ("g_mean", "macro_f1", "mcc", "hamming"):
            assert not of_labels(metric, probable).predict(probable)[:, ABSENT].any()


@pytest.mark.parametrize("limit", ["labels_per_row >= 1.5", "rate[0] + rate[2] >= 0.6", "rate[2] <= 0.2"])
@pytest.mark.parametrize("decisions", ["any", ("at_most", 3)], ids=str)
def test_limits_on_sums_of_labels_are_kept_by_the_others(decisions, limit):
    for metric in ("macro_f1", "micro_f1"):
        solution = of_labels(metric, decisions=decisions, constraints=limit)
        assert solution.feasible
        assert not solution.predict(Q)[:, ABSENT].any()


@pytest.mark.parametrize("limit", ["rate[2] >= 0.1", "fpr[2] >= 0.1", "recall[2] >= 0.5", "precision[2] >= 0.5"])
def test_a_limit_on_what_is_never_decided_is_refused(limit):
    for ask in (tuned, of_labels):
        with pytest.raises(ValueError, match=r"no row|no weight") as refused:
            ask(constraints=limit)
        for word in (limit[:-7], "take", "limit out|another metric".split("|")["divides" in str(refused.value)]):
            assert word in str(refused.value)


def test_a_metric_of_an_absent_class_is_refused():
    for metric in ("f1[2]", "recall[2]", "precision[2]"):
        with pytest.raises(ValueError, match=r"2.*take rows that include this class"):
            tuned(metric)


def test_more_labels_than_rows_have_are_refused():
    with pytest.raises(ValueError, match=r"decisions=4.*only 3 of 4.*no row.*at_most"):
        of_labels(decisions=4)
    assert (of_labels(decisions=3).predict(Q) == [1, 1, 0, 1]).all()
    assert not of_labels(decisions=("at_most", 4)).predict(Q)[:, ABSENT].any()
    with pytest.raises(confmax.Infeasible, match="labels_per_row is at most 3"):
        of_labels(constraints="labels_per_row >= 3.5")


def test_d3_one_warning_names_the_class_and_says_what_becomes_of_it():
    for metric, words in (
        ("macro_f1", "no row of y has the class 2.*never decides.*as 0"),
        ("g_mean", "2.*never decides 2"),
    ):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            tuned(metric)
        about = [str(one.message) for one in said if "class 2" in str(one.message)]
        assert len(about) == 1
        with pytest.raises(AssertionError, match=words):
            raise AssertionError(about[0])
    with pytest.warns(UserWarning, match="no row of y has the label 2.*leaves such labels out.*never decides"):
        of_labels()


def test_without_labels_nothing_is_absent():
    assert tuned("g_mean", y=None).rule.decision_probabilities(P)[:, ABSENT].any()
    assert of_labels("g_mean", y=None).predict(Q)[:, ABSENT].any()


def test_rows_without_weight_do_not_count():
    y, t = Y.copy(), T.copy()
    y[:5], t[:5, ABSENT] = ABSENT, 1
    weight = np.where(np.arange(N) < 5, 0.0, 1.0)
    assert not tuned(y=y, sample_weight=weight).rule.decision_probabilities(P)[:, ABSENT].any()
    assert not of_labels(y=t, sample_weight=weight).predict(Q)[:, ABSENT].any()


def test_a_class_of_another_fold_is_not_absent():
    y = Y.copy()
    y[-3:] = ABSENT
    fold = np.arange(N) >= N - 3
    plan = confmax.solution.plan.Plan.checked("g_mean")
    table = confmax.oracle.make_table(P, y, None, range(4))
    solution = confmax.solution.tuning.on_some_rows(plan, table)(~fold, {})
    assert solution.plan.absent == ()


@pytest.mark.parametrize("metric", ["macro_f1", "balanced_accuracy"])
def test_a_share_brings_a_class_and_a_label_back(metric):
    solution = tuned(metric)
    assert solution.plan.absent == (ABSENT,)
    shares = np.array([0.3, 0.3, 0.2, 0.2])
    assert (solution.adapt(P, priors=shares).predict(P) == ABSENT).any()
    none = np.array([0.5, 0.3, 0.0, 0.2])
    assert not (solution.adapt(P, priors=none).predict(P) == ABSENT).any()
    of_several = of_labels(metric)
    assert of_several.adapt(Q, priors={ABSENT: 0.4}).predict(Q)[:, ABSENT].any()
    assert not of_several.adapt(Q, priors={0: 0.2}).predict(Q)[:, ABSENT].any()


def test_frontiers_never_decide_it():
    path = confmax.frontier("macro_f1", "recall[1] >=", P, Y, classes=range(4), levels=[0.3, 0.6])
    assert not any(rule.decision_probabilities(P)[:, ABSENT].any() for rule in path.rules)
    labels = confmax.frontier("macro_f1", "labels_per_row <=", Q, T, decisions="any", levels=[0.4, 0.8])
    assert not any(rule.predict(Q)[:, ABSENT].any() for rule in labels.rules)


def test_estimators_never_decide_it():
    X = DRAW.normal(size=(N, 3))
    labelled = confmax.MetricMultilabelCV(OneVsRestClassifier(LogisticRegression()), metric="g_mean", cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not labelled.fit(X, T).predict(X)[:, ABSENT].any()


def test_files_and_programs_decide_the_same():
    for rule in (tuned().rule, tuned("f1[1]").rule):
        assert confmax.DecisionRule.from_json(rule.to_json()) == rule
        program = {}
        exec(rule.to_python(), program)
        assert [program["decide"](row) for row in P.tolist()] == rule.predict_index(P).tolist()
    for rule in (of_labels().rule, of_labels(decisions=2).rule):
        assert (confmax.solution.labels.LabelRule.from_json(rule.to_json()).predict(Q) == rule.predict(Q)).all()


@pytest.mark.parametrize("several", [False, True])
def test_gains_without_some_classes_are_those_of_the_others(several):
    rng = np.random.default_rng(0)
    barred = np.array([False, True, False, True])
    some = np.flatnonzero(~barred)
    b = rng.normal(size=(20, 4)) * rng.choice([0.0, 1.0, 1e3], (20, 1))
    gains = [Gains.reduced(rng.normal(size=(20, 4)), b), Gains.from_matrix(rng.normal(size=(20, 4, 4)))]
    gains += [Gains.reduced(rng.normal(size=(20, 4)), b, power=2), Gains.reduced(np.zeros((1, 4)))]
    for part in gains:
        scores = np.einsum("nk,bkm->bnm", P, part.matrices())
        kept = np.einsum("nk,bkm->bnm", P, part.without(barred, several=several).matrices())
        assert np.allclose(kept[..., some], scores[..., some])
        others = kept[..., some]
        assert (kept[..., barred].max(-1) < (others.min(-1) if several else others.max(-1))).all()
