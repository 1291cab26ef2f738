"""User functions: exact gradients of plain NumPy, and everything that is checked before a solver relies on them."""

import copy
import itertools
import math
from functools import partial

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.checks import check_metric, random_confusion
from confmax.confusion import Confusion
from confmax.metrics import autodiff as _autodiff
from confmax.metrics.structure import STEPS, refutation
from confmax.optimize import FrankWolfe

P3 = np.random.default_rng(3).dirichlet([2, 1, 1], 300)


def recalls(C):
    return np.diag(C) / C.sum(axis=1)


def f_beta(C, beta=1.0):
    return (1 + beta**2) * np.diag(C) / (beta**2 * C.sum(axis=1) + C.sum(axis=0))


def jaccard(C):
    return np.diag(C) / (C.sum(axis=1) + C.sum(axis=0) - np.diag(C))


def kappa(C, power=None):
    chance = np.outer(C.sum(axis=1), C.sum(axis=0))
    if power is None:
        return (np.trace(C) - np.trace(chance)) / (C.sum() ** 2 - np.trace(chance))
    index = np.arange(len(C))
    cost = abs(index[:, None] - index) ** power
    return 1 - (cost * C).sum() / (cost * chance).sum()


def mcc(C):
    rows, columns, total = C.sum(1), C.sum(0), C.sum()
    return (C.trace() * total - rows @ columns) / np.sqrt((total**2 - rows @ rows) * (total**2 - columns.dot(columns)))


def ams(C):
    s, b = C[1, 1], C[0, 1]
    return np.sqrt(2 * ((s + b) * np.log1p(s / b) - s))


def micro_f1(C):
    right = C.trace() - C[0, 0]
    return 2 * right / (2 * C.sum() - C[0].sum() - C[:, 0].sum())


G = np.array([[1.0, 0.1, -1.0], [0.0, 2.0, 0.3], [-2.0, 0.0, 1.5]])

# the catalogue once more, as a user would write it
PLAIN = {
    metrics.get("accuracy"): lambda C: C.trace(),
    metrics.get("balanced_accuracy"): lambda C: np.mean(np.diag(C) / C.sum(axis=1)),
    metrics.get("informedness"): lambda C: (recalls(C).sum() - 1) / (len(C) - 1),
    metrics.get("linear", gain=G): lambda C: np.einsum("ij,ij->", C, G),
    metrics.get("f1"): lambda C: 2 * C[1, 1] / (2 * C[1, 1] + C[0, 1] + C[1, 0]),
    metrics.get("f_beta", beta=2): lambda C: f_beta(C, 2.0)[1],
    metrics.get("jaccard"): lambda C: C[1, 1] / (C.sum() - C[0, 0]),
    metrics.get("ams"): ams,
    metrics.get("fowlkes_mallows"): lambda C: C[1, 1] / np.sqrt(C[1].sum() * C[:, 1].sum()),
    metrics.get("micro_f1"): micro_f1,
    metrics.get("micro_f1_once"): lambda C: 2 * C.diagonal()[1:].sum() / (C.diagonal()[1:].sum() - C[0, 0] + C.sum()),
    metrics.get("macro_f1"): lambda C: f_beta(C).mean(),
    metrics.get("macro_f_beta", beta=0.5): lambda C: np.mean(f_beta(C, 0.5)),
    metrics.get("weighted_f1"): lambda C: np.dot(C.sum(1), f_beta(C)) / C.sum(),
    metrics.get("macro_jaccard"): lambda C: jaccard(C).mean(),
    metrics.get("macro_precision"): lambda C: np.mean(np.diagonal(C) / np.sum(C, axis=0)),
    metrics.get("h_mean"): lambda C: len(C) / np.sum(1 / recalls(C)),
    metrics.get("q_mean"): lambda C: 1 - np.sqrt(np.mean((1 - recalls(C)) ** 2)),
    metrics.get("g_mean"): lambda C: np.exp(np.log(recalls(C)).mean()),
    metrics.get("min_recall"): lambda C: np.min(recalls(C)),
    metrics.get("cohen_kappa"): kappa,
    metrics.get("linear_kappa"): partial(kappa, power=1),
    metrics.get("quadratic_kappa"): partial(kappa, power=2),
    metrics.get("mcc"): mcc,
    metrics.get("precision"): lambda C: C[1, 1] / C[:, 1].sum(),
    metrics.get("recall"): lambda C: C[1, 1] / C[1].sum(),
    metrics.get("specificity"): lambda C: C[0, 0] / C[0].sum(),
    metrics.get("npv"): lambda C: C[0, 0] / C[:, 0].sum(),
}


def centred(slope):
    return slope - slope[:, :1]


def sizes(metric):
    return (2,) if metric.binary else (3,) if metric.name == "linear" else (2, 3, 5)


def test_no_metric_of_the_catalogue_is_missing():
    assert {metric.name for metric in PLAIN} == set(metrics.names())


@pytest.mark.parametrize("metric", PLAIN, ids=repr)
def test_the_catalogue_in_plain_numpy_has_the_same_gradients(metric):
    """Automatic differentiation and the formulas by hand are each other's witness; a warning would be an error."""
    rng = np.random.default_rng(0)
    mine = metrics.from_function(PLAIN[metric], n_classes=sizes(metric)[0], structure=metric.structure)
    for K in sizes(metric):
        for _ in range(2):
            C = random_confusion(rng, rng.dirichlet(np.full(K, 3.0)), K)
            assert mine.value(C) == pytest.approx(metric.value(C), rel=1e-12)
            mine.gradient(C)
            expected = centred(metric.gradient(C))
            np.testing.assert_allclose(centred(mine.gradient(C)), expected, atol=1e-11 * max(1, np.abs(expected).max()))


# --- what is traced ---------------------------------------------------------------------------------------------------


def by_loop(C):
    total = 0.0
    for k in range(len(C)):
        total += C[k, k] / C[k].sum()
    return total / len(C)


def in_place(C):
    sizes = C.sum(axis=1)
    sizes += 1e-3
    sizes *= 2
    return (np.diag(C) / sizes).mean()


def log_determinant(C):
    sign, logarithm = np.linalg.slogdet(C + np.eye(len(C)))
    return sign * logarithm + np.linalg.eigh(C + C.T)[0].max()


def guarded(C):
    columns = C.sum(axis=0)
    return np.divide(np.diag(C), columns, out=np.zeros(len(C)), where=columns > 0).mean()


TRACED = {
    "loop": by_loop,
    "list": lambda C: np.mean([C[k, k] / C[k].sum() for k in range(len(C))]),
    "asarray": lambda C: np.sqrt(np.diag(np.asarray(C)) / np.asarray(C).sum(1)).mean(),
    "python min": lambda C: min(C[k, k] / C[k].sum() for k in range(len(C))),
    "python abs": lambda C: abs(C - C.T).sum(),
    "in place": in_place,
    "guarded division": guarded,
    "where": lambda C: np.where(C.sum(axis=0) > 0.3, np.diag(C), C.sum(axis=1)).sum(),
    "branch": lambda C: C.trace() if C[0, 0] > C[0, 1] else C[0, 1] ** 2,
    "mask": lambda C: (C[~np.eye(len(C), dtype=bool)] ** 2).sum(),
    "matmul": lambda C: np.trace(C @ C.T),
    "determinant": np.linalg.det,
    "sort": lambda C: np.sort(recalls(C))[:2].sum(),
    "lists": lambda C: np.dot(C[0, :2], [1.0, 2.0]) + np.sum(C[:2, :2] * [[1, 0], [3, 1]]) + np.reshape(C, [-1])[0],
    "constant": lambda C: 1.0,
    "reduce": lambda C: np.multiply.reduce(np.add.reduce(C)),
    "shapes": lambda C: (C.reshape(-1, 1) ** 2).sum() + C.reshape(9)[1] + np.prod(C.flatten()[:3]),
    "truth of a number": lambda C: C.trace() if C[0, 0] else 0.0,
    "array of entries": lambda C: np.array([C[k, k] / C[k].sum() for k in range(len(C))]) @ C.sum(axis=0),
    "several results": log_determinant,
    "places": lambda C: (C[np.nonzero(C)] ** 2).sum() / np.shape(C)[0],
}


@pytest.mark.parametrize("psi", TRACED.values(), ids=TRACED)
def test_plain_numpy_and_python_are_traced(psi):
    """No warning, and the differences agree at random matrices."""
    rng = np.random.default_rng(1)
    metric = metrics.from_function(psi)
    for _ in range(3):
        C = random_confusion(rng, np.array([0.3, 0.3, 0.4]), 3) * 0.8 + 0.2 / 9
        numeric = metric.formula._differences(C)
        np.testing.assert_allclose(metric.gradient(C), numeric, atol=1e-6 * max(1, np.abs(numeric).max()))
        np.testing.assert_array_equal(metric.gradient(C), _autodiff.gradient(psi, C))


def test_a_kink_gets_a_subgradient():
    C = np.array([[0.3, 0.2], [0.2, 0.3]])
    slope = metrics.from_function(lambda C: np.min(recalls(C)), structure="concave").gradient(C)
    for other in np.random.default_rng(0).dirichlet(np.ones(2), size=(50, 2)) * 0.5:
        assert np.min(recalls(other)) <= 0.6 + (slope * (other - C)).sum() + 1e-12


def test_no_gradient_at_a_guarded_zero_is_by_differences():
    """np.where hides 0/0 from the value and not from the derivative, which NumPy's gradient would make NaN."""

    def precision(C):
        columns = C.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.mean(np.where(columns > 0, np.diag(C) / columns, 0.0))

    C = np.array([[0.5, 0.0], [0.5, 0.0]])
    assert not np.isfinite(_autodiff.gradient(precision, C)).all()
    assert np.isfinite(metrics.from_function(precision).gradient(C)).all()


def test_the_function_cannot_change_the_matrix():
    def spoils(C):
        C /= C.sum(axis=1, keepdims=True)
        return np.diag(C).mean()

    metric = metrics.from_function(spoils)
    C = np.array([[0.4, 0.1], [0.2, 0.3]])
    S = Confusion.from_matrix(C.copy())
    np.testing.assert_allclose(centred(metric.at(S).matrix), centred(metrics.get("balanced_accuracy").gradient(C)))
    np.testing.assert_array_equal(S.matrix, C)


# --- what is not ------------------------------------------------------------------------------------------------------


def filled(C):
    out = np.zeros(len(C))
    for k in range(len(C)):
        out[k] = C[k, k] / C[k].sum()
    return out.mean()


def assigned(C):
    D = C.copy()
    D[0, 0] = 0.0
    return (D**2).sum()


UNTRACED = {
    "float": lambda C: float(C[0, 0]) * C[1, 1],
    "math": lambda C: math.sqrt(C[0, 0] * C[1, 1]),
    "filled": filled,
    "assigned": assigned,
    "item": lambda C: C[0, 0].item() ** 2,
    "no derivative in autograd": lambda C: np.median(recalls(C)),
    "another library": metrics.get("cohen_kappa").value,
    "type": lambda C: C.trace() if isinstance(C, np.ndarray) else 2 * C.trace(),
}


@pytest.mark.parametrize("psi", UNTRACED.values(), ids=UNTRACED)
def test_the_fallback_is_differences_and_says_so_once(psi):
    said = (
        r"mine cannot be differentiated automatically \(.*\); its gradient is taken by differences, .* pass gradient="
    )
    with pytest.warns(UserWarning, match=said) as caught:
        metric = metrics.from_function(psi, name="mine")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    C = np.full((3, 3), 1 / 9)
    assert np.isfinite(metric.gradient(C)).all()


@pytest.mark.parametrize(
    ("psi", "words"),
    [
        (lambda C: np.add(C, 1.0, out=np.empty((3, 3))).sum(), r"an array is filled by out="),
        (lambda C: np.add.accumulate(C).sum(), r"np\.add\.accumulate is not supported"),
        (lambda C: np.lib.stride_tricks.sliding_window_view(C, 2, axis=0).sum(), "sliding_window_view has no derivat"),
        (lambda C: C.sum(axis=0), "does not return one number"),
    ],
)
def test_what_cannot_be_traced_is_named(psi, words):
    with pytest.raises(_autodiff.NotTraceable, match=words):
        _autodiff.gradient(psi, np.full((3, 3), 1 / 9))


# --- checks -----------------------------------------------------------------------------------------------------------


def weighted(C):
    return np.dot(np.diag(C), [1.0, 2.0, 3.0, 4.0])


def squares(C):
    return np.sum(np.diag(C) ** 2)


REFUSED = [
    ((np.diag,), {}, "returns one number; got array"),
    ((lambda C: None,), {}, "returns one number; got None"),
    ((lambda C: C.trac(),), {"name": "mine"}, "mine cannot be computed on .* of 2 classes: AttributeError"),
    ((lambda C: np.log(-C[0, 0]),), {}, "user function is nan on .* of 2 classes whose entries are all positive"),
    ((lambda C: 1 / (C[0, 0] * 0),), {}, "user function is inf on"),
    ((weighted,), {"n_classes": 3}, "weighted cannot be computed on confusion matrices of 3 classes: ValueError"),
    ((np.trace,), {"n_classes": 1}, "n_classes is the number of classes that the function is meant for"),
    ((np.trace,), {"n_classes": "2"}, "n_classes is the number of classes that the function is meant for"),
    ((np.trace,), {"gradient": lambda C: -np.eye(len(C))}, r"gradient= of trace is wrong: .* -?1 by differences"),
    ((np.trace,), {"gradient": np.diag}, r"gradient= of trace returns .* shape \(2, 2\); got \(2,\)"),
    ((np.trace,), {"gradient": lambda C: C * np.nan}, "gradient= of trace is wrong: .* is nan"),
    ((np.trace,), {"gradient": lambda C: C.x}, "gradient= of trace fails at shape .2, 2.: AttributeError"),
    ((squares,), {"structure": "concave"}, "squares is declared 'concave' and is not: .* below the mean of the values"),
    ((squares,), {"structure": "linear"}, "is declared 'linear' and is not"),
    ((lambda C: abs(recalls(C)[0] - 0.7),), {"structure": "ratio"}, "declared 'ratio' .* below both ends"),
    ((lambda C: 1 - (recalls(C)[0] - 0.7) ** 2,), {"structure": "quasiconvex"}, "'quasiconvex' .* above both ends"),
]


@pytest.mark.parametrize(("args", "options", "sentence"), REFUSED)
def test_refusals_on_construction(args, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        metrics.from_function(*args, **options)


ODDS = {
    "infinite": (lambda C: C[1, 1] / C[1, 0], lambda true, hits, decided: hits[1] / (true[1] - hits[1])),
    "infinite by a logarithm": (lambda C: -np.log(C[1, 0]), lambda true, hits, decided: -np.log(true[1] - hits[1])),
    "raises": (
        lambda C: float(C[1, 1]) / float(C[1, 0]),
        lambda true, hits, decided: float(hits[1]) / float(true[1] - hits[1]),
    ),
    "raises by a logarithm": (
        lambda C: -math.log(C[1, 0]),
        lambda true, hits, decided: -math.log(true[1] - hits[1]),
    ),
    "NaN": (lambda C: C[1, 1] / C[1, 0] * C[0, 1], lambda true, hits, decided: np.nan),
}


@pytest.mark.parametrize(
    ("kind", "confusion"), [*((kind, "blend") for kind in ODDS), ("infinite", "model"), ("NaN", "labels")]
)
@pytest.mark.filterwarnings("ignore:.* cannot be differentiated:UserWarning", "ignore::RuntimeWarning")
def test_a_metric_without_a_finite_optimum_is_refused(kind, confusion):
    """One sentence for classes and labels, on rows that a rule separates."""
    p = np.repeat([0.1, 0.2, 0.7, 0.8], 5)
    y = (p > 0.5).astype(int)
    of_classes, of_labels = ODDS[kind]
    what = (
        "cannot be computed for a rule that the search met: .*Error"
        if "raises" in kind
        else "is (inf|nan) for the best"
    )
    sentence = f"user function {what}.*; return a finite number for every rule.* divides by"
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(metrics.from_function(of_classes), np.c_[1 - p, p], y, confusion=confusion)
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(of_labels, np.c_[1 - p, p], np.c_[1 - y, y], confusion=confusion, decisions="any")


@pytest.mark.parametrize("confusion", ["model", "labels", "blend"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_function_may_be_nan_for_some_rules(confusion):
    """As a precision is where its class is never decided: such a rule is none of the best."""
    p = np.repeat([0.1, 0.2, 0.7, 0.8], 5)
    precision = metrics.from_function(lambda C: C[1, 1] / (C[0, 1] + C[1, 1]) + 0.1 * C[1, 1])
    found = confmax.maximize(precision, np.c_[1 - p, p], (p > 0.5).astype(int), confusion=confusion)
    assert 0.9 < found.value < 1.1


@pytest.mark.parametrize("metric", PLAIN, ids=repr)
def test_right_structures_are_accepted_and_wrong_ones_refuted(metric):
    """A concave metric that is neither linear nor a ratio is refused as either, and so on."""
    K = sizes(metric)[-1]
    wrong = {"linear": (), "ratio": ("linear", "concave"), "concave": ("linear", "ratio"), "quasiconvex": ("linear",),
             "general": ("linear", "ratio")}[metric.structure]  # fmt: skip
    if (
        metric.name == "micro_f1_once"
    ):  # linear in the rules: its denominator is fixed by the row sums ... unless C[0, 0]
        wrong = ("linear",)
    for structure in wrong:
        with pytest.raises(ValueError, match=f"declared '{structure}' and is not"):
            metrics.from_function(PLAIN[metric], structure=structure, n_classes=K)
    metrics.from_function(PLAIN[metric], structure=metric.structure, n_classes=K)


def test_refutation_by_definition():
    """Curves with one property each; noise of rounding refutes nothing."""
    noise = 1e-13 * np.random.default_rng(0).normal(size=len(STEPS))
    curves = {
        "line": (2 * STEPS, {"linear", "concave", "ratio", "quasiconvex"}),
        "bow": (STEPS * (1 - STEPS), {"concave"}),
        "bowl": ((STEPS - 0.5) ** 2, {"quasiconvex"}),
        "rise": (STEPS**2, {"ratio", "quasiconvex"}),
        "wave": (np.sin(9 * STEPS), set()),
    }
    for curve, held in curves.values():
        values = curve + 1
        for structure in ("linear", "concave", "ratio", "quasiconvex"):
            assert (refutation(values + noise, structure) is None) == (structure in held), structure
            assert refutation(values, "general") is None


def test_a_function_for_one_number_of_classes():
    """Unknown at construction: checked when a table comes, refused in words for another."""
    metric = metrics.from_function(weighted)
    P4 = np.random.default_rng(0).dirichlet(np.ones(4), 100)
    assert confmax.maximize(metric, P4, confusion="model").value > 0
    with pytest.raises(ValueError, match="weighted cannot be computed on confusion matrices of 3 classes: ValueError"):
        confmax.maximize(metric, P3, confusion="model")
    late = metrics.from_function(lambda C: np.dot(np.diag(C), [1.0, 2, 3, 4]) ** 2, structure="concave")
    with pytest.raises(ValueError, match=r"declared 'concave' and is not: .* of 4 classes"):
        confmax.maximize(late, P4, confusion="model")


def test_metrics_of_functions_are_values():
    metric = metrics.from_function(recalls_mean)
    again = copy.deepcopy(metric)
    assert again == metric == metrics.from_function(recalls_mean)
    assert hash(again) == hash(metric)
    assert metric != metrics.from_function(recalls_mean, structure="linear")
    check_metric(metric.over([2, 0]))


def recalls_mean(C):
    return recalls(C).mean()


def root_recalls(C):
    return np.sqrt(recalls(C)).mean()


def slope_of_roots(C):
    with np.errstate(divide="ignore"):
        return np.diag(0.5 / np.sqrt(np.diagonal(C) * C.sum(axis=1)) / len(C))


@pytest.mark.parametrize("by_group", [False, True])
def test_a_bound_holds_where_a_limit_leaves_no_slope(by_group):
    """Class 2 is never decided, and the root of its recall of zero has a slope without end."""
    P = np.random.default_rng(0).dirichlet(np.full(3, 0.7), 10)
    group = np.arange(10) % 2 if by_group else None
    limits = ["max(rate[2] | group) <= 0", "difference(rate[0] | group) <= 0.2"] if by_group else ["rate[2] <= 0"]
    metric = metrics.from_function(root_recalls, gradient=slope_of_roots, structure="concave")
    given = {"confusion": "model", "calibration": None, "randomized": True}
    found = confmax.maximize(metric, P, group=group, constraints=limits, **given)
    decided = found.rule.decision_probabilities(P, group=group) if by_group else found.rule.decision_probabilities(P)
    assert decided[:, 2].max() == 0.0
    assert found.value == pytest.approx(root_recalls(P.T @ decided / 10), abs=1e-12)
    # every decision of class 0 or 1
    first = np.array(list(itertools.product([False, True], repeat=10)))
    shares = np.array([first[:, 0::2].mean(axis=1), first[:, 1::2].mean(axis=1)])
    kept = first[np.ptp(shares, axis=0) <= 0.2 + 1e-12] if by_group else first
    hits = kept @ P[:, 0] / P[:, 0].sum(), ~kept @ P[:, 1] / P[:, 1].sum()
    best = (np.sqrt(hits[0]) + np.sqrt(hits[1])).max() / 3
    assert found.value + found.gap >= best


# --- the cost of a value ----------------------------------------------------------------------------------------------


def test_line_searches_ask_for_values_only():
    """One call of psi per matrix and no gradient, whoever asks for values."""
    calls = {"psi": 0, "gradient": 0}

    def psi(C):
        calls["psi"] += 1
        return np.sqrt(np.prod(recalls(C)))

    def gradient(C):
        calls["gradient"] += 1
        return _autodiff.gradient(lambda D: np.sqrt(np.prod(recalls(D))), C)

    metric = metrics.from_function(psi, gradient=gradient, n_classes=3)
    C = Confusion.from_matrix(np.full((3, 3), 1 / 9))
    V = Confusion.from_matrix(np.eye(3) / 3)
    calls.update(psi=0, gradient=0)
    line = metric.values(C.toward(V, np.linspace(0, 1, 65)))
    assert (line.shape, calls) == ((65,), {"psi": 65, "gradient": 0})
    calls.update(psi=0)
    solution = confmax.maximize(metric, P3, confusion="model", solver=FrankWolfe(), max_passes=12)
    assert 0 < calls["gradient"] <= 2 * solution.n_passes
    assert calls["psi"] > 65
    assert solution.value == pytest.approx(
        confmax.maximize("g_mean", P3, confusion="model", randomized=True).value ** 1.5, abs=2e-2
    )


def test_a_gradient_of_ones_own_needs_no_tracing():
    metric = metrics.from_function(filled, gradient=metrics.get("balanced_accuracy").gradient, structure="linear")
    check_metric(metric)
