"""Constraints as texts and objects, and their rows on a table against the values of the metrics."""

import ast
import operator
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import confmax
from confmax import constraints as c
from confmax import metrics
from confmax.checks import random_confusion
from confmax.confusion import Confusion
from confmax.metrics import shares
from confmax.metrics.limited import ratio_of
from confmax.metrics.structure import MinOfLinear
from confmax.oracle import make_table

FOLDER = Path(c.__file__).parent
EVIL = "__import__('os').environ.update(CONFMAX_EVALUATED='1')"
NAMES = ["VF", "F", "M", "L"]
COSTS = [[0.0, 1.0, 2.0, 9.0], [3.0, 0.0, 1.0, 1.0], [4.0, 1.0, 0.0, 2.0], [5.0, 6.0, 7.0, 0.0]]


def table_of(names=NAMES, labels=None, n=40):
    rng = np.random.default_rng(0)
    labels = np.arange(n) % len(names) if labels is None else labels
    return make_table(rng.dirichlet(np.ones(len(names)), n), np.asarray(names, dtype=object)[labels], classes=names)


def bound(constraints, names=NAMES, **more):
    return c.bind(constraints, table_of(names), explicit=True, **more)


def refusal(call, *args, **named):
    with pytest.raises(ValueError) as error:
        call(*args, **named)
    return str(error.value)


# --- texts and objects ------------------------------------------------------------------------------------------------

SAME = [
    (c.recall("VF") >= 0.8, "recall[VF] >= 0.8"),
    (c.fpr("VF") <= 0.05, "fpr[VF] <= 0.05"),
    (c.rate("L") <= 0.1, "rate[L] <= 0.1"),
    (c.f1("VF") >= 0.7, "f1[VF] >= 0.7"),
    (c.f_beta("VF", 2) >= 0.6, "f_beta[VF](beta=2) >= 0.6"),
    (c.f_beta("VF") >= 0.6, "f_beta[VF](beta=1) >= 0.6"),
    (c.accuracy() >= 0.9, "accuracy >= 0.9"),
    (c.balanced_accuracy() >= 1, "balanced_accuracy >= 1"),
    (c.quadratic_kappa() >= 5e-5, "quadratic_kappa >= 5e-05"),
    (c.min_recall() >= 0.5, "min_recall >= 0.5"),
    (c.quantity("micro_f1") >= 0.5, "micro_f1 >= 0.5"),
    (c.quantity("recall", 3) >= 0.5, "recall[3] >= 0.5"),
    (c.quantity(metrics.get("f1", label=1.0)) >= 0.5, "f1[1] >= 0.5"),
    (c.recall(np.int64(3)) >= 0.5, "recall[3] >= 0.5"),
    (c.recall() >= 0.5, "recall >= 0.5"),
    (c.at_least("f_beta", 0.6, label="VF", beta=2), "f_beta[VF](beta=2) >= 0.6"),
    (c.at_least(c.recall("VF"), 0.8), "recall[VF] >= 0.8"),
    (0.8 <= c.recall("VF"), "recall[VF] >= 0.8"),  # noqa: SIM300
    (np.float64(0.8) <= c.recall("VF"), "recall[VF] >= 0.8"),
    (np.int32(0) <= c.rate("VF"), "rate[VF] >= 0"),
    (c.recall("VF") >= -0.0, "recall[VF] >= 0"),
]


@pytest.mark.parametrize(("one", "text"), SAME, ids=[text for _, text in SAME])
def test_objects_and_texts_are_the_same(one, text):
    assert one.text == str(one) == text
    assert c.parse(text) == one
    assert hash(c.parse(text)) == hash(one)
    assert pickle.loads(pickle.dumps(one)) == one
    assert c.resolve(text) == c.resolve(one) == c.resolve([one]) == c.resolve(iter([text])) == (one,)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("recall[VF]>=.8", "recall[VF] >= 0.8"), ("  recall [VF]\t>= 8e-1 ", "recall[VF] >= 0.8"),
        ("recall[VF] >= 80%", "recall[VF] >= 0.8"), ("rate[L] <= 7 %", "rate[L] <= 0.07"),
        ("12.5 % >= rate[L]", "rate[L] <= 0.125"), ("0.8 <= recall[VF]", "recall[VF] >= 0.8"),
        ("recall[VF] ≥ 0.8", "recall[VF] >= 0.8"), ("rate[L] ≤ 1.", "rate[L] <= 1"),
        ("f1_micro >= 0.5", "accuracy >= 0.5"), ("0.6<=f_beta[VF] ( beta = 2 )", "f_beta[VF](beta=2) >= 0.6"),
        ("recall[a >= 0.5] >= 0.8", "recall[a >= 0.5] >= 0.8"), ("0.8 <= recall[a <= 0.5]", "recall[a <= 0.5] >= 0.8"),
        ("recall[a|b] >= 0.8", "recall[a|b] >= 0.8"), ("recall[x[0]] >= 0.8", "recall[x[0]] >= 0.8"),
        ("recall[(beta=2)] >= 0.8", "recall[(beta=2)] >= 0.8"), ("recall[a\nb] >= 0.8", "recall[a\nb] >= 0.8"),
    ],
)  # fmt: skip
def test_texts_are_read_in_several_forms(text, canonical):
    assert c.parse(text).text == canonical
    assert c.parse(canonical) == c.parse(text)


def test_any_name_of_a_class_is_read_back():
    rng = np.random.default_rng(0)
    pieces = [*"[]()<>=|%≤. ,\n'\"", "beta=2", ">= 0.5", "recall", "](", "é", "0.3"]
    for _ in range(60):
        label = "".join(rng.choice(pieces, rng.integers(1, 8)))
        for one in (c.recall(label) >= 0.8, c.rate(label) <= 0.25, c.f_beta(label, 0.5) >= 0.1):
            assert c.parse(one.text) == one, label


@pytest.mark.parametrize("text", ["recall\r[a] > 0.8", "accuracy[| a] >= accu\nracy[| b]", "a\u2028b >= 0.5"])
def test_a_text_with_line_breaks_is_refused_on_one_line(text):
    assert len(refusal(c.parse, text).splitlines()) == 1


def test_texts_are_never_evaluated():
    """`benchmarks.fuzz` reads random texts."""
    for text in (
        f"recall[x] >= {EVIL}",
        f"{EVIL} <= recall[x]",
        f"f_beta[x](beta={EVIL}) >= 0.5",
        EVIL,
        f"{EVIL} >= 0.5",
    ):
        assert refusal(c.parse, text)
    assert "CONFMAX_EVALUATED" not in os.environ
    calls = {
        node.id
        for path in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name)
    }
    assert not calls & {"eval", "exec", "compile", "literal_eval", "__import__"}
    for text in (
        "(" * 499,
        "[" * 499,
        " " * 499,
        "=" * 499,
        "> " * 249,
        "1" * 499,
        "a[" * 249,
        "0.5<=" * 99,
        "|" * 499,
    ):
        assert refusal(c.parse, text)


def test_a_constraint_has_no_truth_value():
    for chained in (lambda: 0.7 <= c.recall("x") <= 0.9, lambda: bool(c.recall("x") >= 0.7)):
        assert "write two constraints, such as [recall('x') >= 0.7, recall('x') <= 0.9]" in refusal(chained)


def test_quantities_are_compared_with_each_other_by_identity_only():
    assert c.recall("x") == c.recall("x") != c.recall("y")
    assert len({c.recall("x"), c.recall("x"), c.rate("x")}) == 2
    assert repr(c.rate("x")) == "Quantity('rate[x]')"
    assert c.recall("x") != "recall[x]"


TEXTS = [
    ("recall[x] > 0.5", "recall[x] > 0.5: a limit includes its end; write recall[x] >= 0.5"),
    ("0.5 > rate[x]", "rate[x] < 0.5: a limit includes its end; write rate[x] <= 0.5"),
    ("recall[x] => 0.5", "recall[x] => 0.5: the sign stands first; write recall[x] >= 0.5"),
    ("recall[x] == 0.5", "a limit is >= or <=; for a narrow range write two constraints, recall[x] >= LOW and"),
    ("0.7 <= recall[x] <= 0.9", "write two constraints, 'recall[x] >= 0.7' and 'recall[x] <= 0.9'"),
    ("min(recall[VF] | group) <= 0.7", "the smallest of the groups has a floor and the largest a ceiling"),
    ("mean(recall[VF] | group) >= 0.7", "limits of groups are min(... | group) >=, max(... | group) <=,"),
    ("min(recall[VF] | sex) >= 0.7", "the group of each row is passed as group="),
    ("difference(recall[VF] | group) >= 0.02", "a difference of groups has a ceiling; write difference(recall[VF] |"),
    ("ratio(rate[VF] | group) <= 0.8", "a ratio of groups has a floor; write ratio(rate[VF] | group) >= 0.8"),
    ("difference(precision[VF] | group) <= 0.1", "limit every group instead, such as min(precision[VF] | group) >="),
    ("difference(recall[VF] | group) <= 1.5", "lies between 0 and 1, and 1.5 does not"),
    ("recall[VF] | group >= 0.7", "written min(recall[yes] | group) >= NUMBER"),
    ("recall[x] >= high", "the limit is a number; got 'high'"),
    ("recall[x] >= 0,8", "the limit is a number; got '0,8'"),
    ("recall[x] >= 1e999", "the limit of recall[x] is a finite number; got inf"),
    ("recall[x]", "has no limit; write NAME >= NUMBER or NAME <= NUMBER, such as recall[yes] >= 0.8"),
    (">= 0.5", "has no quantity"),
    ("min(recall[yes | group]) >= 0.8", "is written min(recall[yes] | group) >= NUMBER"),
    ("recall[x](2) >= 0.5", "parameters are written once, with their names, such as f_beta[yes](beta=2)"),
    ("f_beta[x](beta=2, beta=3) >= 0.5", "parameters are written once"),
    ("f_beta[x](beta=two) >= 0.5", "beta of f_beta is a number; got 'two'"),
    ("recall[x](beta=2) >= 0.5", "recall has no parameter 'beta'; it takes label"),
    ("recall[] >= 0.5", "label of recall is the name of one class"),
    ("accuracy[x] >= 0.5", "accuracy is not a metric of one class, so it takes no class; those that do are f1, f_beta"),
    ("recal[x] >= 0.5", "there is no metric 'recal'; did you mean recall"),
    ("rate_x <= 0.5", "did you mean rate[x]?"),
    ("zzz >= 0.5", "confmax.metrics.names() lists them, and coverage, fpr"),
    ("roc_auc >= 0.5", "computed from probabilities"),
    ("recall[x] >= 80", "recall[x] lies between 0 and 1, and 80 does not; for 80 % write 0.8"),
    ("rate[x] <= -0.1", "rate[x] lies between 0 and 1"),
    ("macro_f1 >= 0.5", "macro_f1 is neither linear nor a ratio, so no limit on it can be proved; limit a"),
    ("mcc >= 0.5", "such as cohen_kappa >= 0.5, or f1[NAME] >= 0.5 of each class"),
    ("g_mean(rho=0.1) >= 0.5", "of the concave metrics only means of the recalls without smoothing can be limited"),
    ("min_recall(rho=0.1) >= 0.5", "limit g_mean, h_mean, q_mean or min_recall instead"),
    ("h_mean <= 0.5", "no ceiling can be set on a concave metric"),
    ("min_recall <= 0.5", "limit the recall of a class, such as recall[NAME] <= 0.5"),
    ("cost <= 4", "cost needs its table; pass confmax.constraints.cost(table) <= 4"),
    ("linear >= 4", "linear needs its table; pass confmax.constraints.quantity('linear', gain=table) >= 4"),
    ("recall[" + "x" * 500 + "] >= 0.5", "a constraint has at most 500 characters; 'recall[xxx"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), TEXTS, ids=[text[:40] for text, _ in TEXTS])
def test_texts_that_are_refused(text, sentence):
    said = refusal(c.parse, text)
    assert sentence in said
    assert "\n" not in said


OBJECTS = [
    (lambda: c.recall("x") > 0.5, "recall[x] > 0.5: a limit includes its end; write recall[x] >= 0.5"),
    (lambda: c.recall("x") < np.float64(0.5), "write recall[x] <= 0.5"),
    (lambda: c.recall("x") == 0.5, "a limit is >= or <="),
    (lambda: c.recall("x") >= "0.5", "the limit of recall[x] is one number; got '0.5'"),
    (lambda: c.recall("x") >= True, "the limit of recall[x] is one number; got True"),
    (lambda: c.recall("x") >= np.array([0.5, 0.6]), "is one number"),
    (lambda: c.recall("x") >= c.recall("y"), "is one number; got Quantity"),
    (lambda: c.recall("x") >= np.nan, "is a finite number; got nan"),
    (lambda: c.at_least("recall", 0.5, label="x" * 600), "at most 500 characters"),
    (lambda: c.at_least("macro_f1", 0.5), "neither linear nor a ratio"),
    (lambda: c.at_least(metrics.from_function(lambda C: C[0, 0] * C[1, 1]), 0.5), "neither linear nor a ratio"),
    (lambda: c.at_least(lambda C: C[0, 0], 0.5), "by confmax.metrics.from_function with its structure; got function"),
    (lambda: c.quantity(metrics.get("recall"), "x"), "label of recall cannot be changed here"),
    (
        lambda: c.at_least(metrics.from_function(lambda C: C[0, 0] / (1 + C[1, 1]), structure="ratio"), 0.5),
        "the numerator and the denominator of a function are not known",
    ),
    (lambda: c.cost([[0, 1]]) <= 1, "the cost matrix of linear is (K, M)"),
    (lambda: c.Constraint(metrics.get("accuracy"), ">", 0.5), "write accuracy >= 0.5"),
    (lambda: c.resolve({"recall[x]": 0.5}), "constraints is a text such as 'recall[yes] >= 0.8', an object of"),
    (lambda: c.resolve(b"recall[x] >= 0.5"), "or a list of these; got bytes"),
    (lambda: c.resolve([None]), "a constraint is a text or an object of confmax.constraints; got NoneType"),
    (lambda: c.resolve(c.recall("x")), "recall[x] has no limit; compare it with a number, such as recall[x] >= 0.8"),
    (lambda: c.resolve(["accuracy >= 0.5"] * 1001), "at most 1000 constraints"),
    (lambda: metrics.get("rate[x]"), "rate[x] is limited, not maximised; pass a constraint, such as 'rate[x] <= 0.1'"),
    (lambda: metrics.get("fpr", label="x"), "fpr[x] is limited, not maximised"),
    (lambda: confmax.maximize(c.recall("x"), [[0.5, 0.5]]), "a function of the confusion matrix; got Quantity"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentence"), OBJECTS, ids=[sentence[:40] for _, sentence in OBJECTS])
def test_objects_that_are_refused(call, sentence):
    assert sentence in refusal(call)


def test_no_constraints_are_none():
    assert c.resolve(()) == c.resolve(None) == c.resolve([]) == ()
    assert bound(()) is None
    assert len(c.resolve("accuracy >= 0.5" for _ in range(1000))) == 1000
    assert not {"rate", "fpr"} & set(metrics.names())


# --- on a table -------------------------------------------------------------------------------------------------------

EVERY = [
    "recall[VF] >= 0.6", "recall[F] <= 0.5", "precision[M] >= 0.4", "precision[L] <= 0.6", "specificity[F] >= 0.7",
    "specificity[F] <= 0.8", "fpr[M] <= 0.2", "fpr[M] >= 0.1", "rate[L] <= 0.25", "rate[VF] >= 0.2", "f1[VF] >= 0.5",
    "f_beta[F](beta=2) >= 0.5", "f_beta[F](beta=0.5) <= 0.6", "jaccard[M] >= 0.3", "accuracy >= 0.5", "accuracy <= 0.6",
    "balanced_accuracy >= 0.5", "informedness >= 0.3", "cohen_kappa >= 0.35", "cohen_kappa <= 0.4", "micro_f1 >= 0.5",
    "micro_f1_once >= 0.55", "linear_kappa >= 0.3", "quadratic_kappa >= 0.35", "quadratic_kappa <= 0.4",
    c.cost(COSTS) <= 1.5, c.cost(COSTS) >= 1.0, c.quantity("linear", gain=COSTS) >= 1.2, "min_recall >= 0.45",
]  # fmt: skip


def confusions(n=60, K=4, M=4, seed=0):
    """Random confusions of the same row sums, each with its matrix."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(K, 3.0)) * 0.8 + 0.2 / K
    return rows, Confusion.from_matrix([random_confusion(rng, rows, M) for _ in range(n)])


@pytest.mark.parametrize("one", EVERY, ids=str)
def test_rows_have_the_sign_of_the_slack(one):
    limits = bound(one)
    (placed,) = limits.constraints
    for seed in range(2):
        rows, S = confusions(seed=seed)
        values, slacks = limits.values(S), limits.slacks(S)
        sign = 1 if placed.sense == ">=" else -1
        np.testing.assert_allclose(slacks, sign * (values - placed.limit), rtol=0, atol=1e-14)
        np.testing.assert_allclose(values[:, 0], [placed.metric.value(C) for C in S.matrix], atol=1e-12)
        heights = limits.functions(rows, 4).values(S)
        least = heights.min(axis=1)
        clear = np.abs(slacks[:, 0]) > 1e-9
        assert (np.sign(least) == np.sign(slacks[:, 0]))[clear].all()
        assert heights.shape[1] == len(limits.owner(4))
        # one at a time, as in a batch
        np.testing.assert_allclose(limits.slacks(S[3]), slacks[3], rtol=0, atol=1e-15)
        np.testing.assert_allclose(limits.functions(rows, 4).values(S[3]), heights[3], rtol=0, atol=1e-15)
        if placed.metric.structure == "linear" or isinstance(placed.metric.structure, MinOfLinear):
            np.testing.assert_allclose(least, slacks[:, 0], rtol=0, atol=1e-12)


def test_all_together_are_as_one_by_one():
    rows, S = confusions()
    limits = bound(EVERY)
    together = limits.functions(rows, 4)
    alone = [bound(one).functions(rows, 4).values(S) for one in EVERY]
    np.testing.assert_allclose(together.values(S), np.concatenate(alone, axis=1), atol=1e-14)
    np.testing.assert_array_equal(limits.owner(4), [*range(len(EVERY) - 1), *[len(EVERY) - 1] * 4])
    assert limits.statistics == together.statistics == "matrix"
    reduced = bound([each for each in EVERY if "kappa" not in str(each)[:15] and isinstance(each, str)])
    assert reduced.statistics == reduced.functions(rows, 4).statistics == "columns"
    assert bound(["recall[F] >= 0.5", "min_recall >= 0.1"]).statistics == "diagonal"


def test_a_row_is_the_slack_times_the_denominator_in_units_of_the_rule_without_errors():
    rows, S = confusions()
    perfect = Confusion.from_matrix(np.diag(rows))
    for one in EVERY:
        limits = bound(one)
        least = limits.functions(rows, 4).values(perfect).min()
        assert least == pytest.approx(limits.slacks(perfect)[0], abs=1e-12)
    # N and D have no natural unit: 2 D / (pi + c) and D / (pi + c - D) are of one order
    heights = bound("f1[VF] >= 0.5").functions(rows, 4).values(S)[:, 0]
    hit, column = S.diagonal[:, 0], S.columns[:, 0]
    np.testing.assert_allclose(heights, (2 * hit - 0.5 * (rows[0] + column)) / (2 * rows[0]), atol=1e-12)


def test_further_decisions_are_no_hits():
    """Rules that abstain: decisions beyond the classes count in the row sums alone."""
    wide = [[*row, 0.5] for row in COSTS]
    texts = [each for each in EVERY if isinstance(each, str) and not each.startswith(("linear", "quadratic"))]
    limits = bound([*texts, c.cost(wide) <= 1.1])
    rows, S = confusions(M=5)
    heights, slacks = limits.functions(rows, 5).values(S), limits.slacks(S)
    owner = limits.owner(4)
    least = np.stack([heights[:, owner == k].min(axis=1) for k in range(len(limits))], axis=1)
    clear = np.abs(slacks) > 1e-9
    assert (np.sign(least) == np.sign(slacks))[clear].all()
    assert not bound(texts).vacuous(S).any()
    # without whole matrices as well
    narrow = bound(texts)
    np.testing.assert_allclose(
        narrow.functions(rows, 5).values(Confusion(S.rows, S.diagonal, S.columns)),
        heights[:, : -1], atol=1e-14,
    )  # fmt: skip
    assert "has shape (4, 5) and the table has 4 classes" in refusal(bound, [c.cost(wide) <= 1], n_decisions=4)
    assert "not defined for 5 decisions" in refusal(bound, "linear_kappa >= 0.5", n_decisions=5)
    assert "give every decision a column" in refusal(bound(c.cost(COSTS) <= 1).functions, rows, 5)


def test_a_precision_of_no_decision_is_kept():
    C = np.array([[0.0, 0.25, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.25]])
    limits = bound(
        ["precision[a] >= 0.9", "precision[a] <= 0.95", "precision[b] >= 0.9", "recall[a] >= 0.5"], list("abc")
    )
    rows, _ = C.sum(axis=1), None
    S = Confusion.from_matrix(C)
    assert limits.vacuous(S).tolist() == [True, True, False, False]
    np.testing.assert_allclose(limits.slacks(S), [0, 0, 2 / 3 - 0.9, -0.5])
    np.testing.assert_allclose(limits.functions(rows, 3).values(S)[:2], 0)
    batch = Confusion.stack([S, Confusion.from_matrix(np.diag([0.5, 0.25, 0.25])), S])
    assert limits.vacuous(batch)[:, 0].tolist() == [True, False, True]
    assert limits.slacks(batch).shape == (3, 4)


def test_costs_are_found_by_their_names():
    order = [2, 0, 3, 1]
    names = [NAMES[k] for k in order]
    frame = pd.DataFrame(np.array(COSTS)[np.ix_(order, order)], index=names, columns=names)
    rows, S = confusions()
    by_name, by_place = bound(c.cost(frame) <= 1.5), bound(c.cost(COSTS) <= 1.5)
    assert by_name.texts == by_place.texts == ("cost <= 1.5",)
    np.testing.assert_array_equal(by_name.values(S), by_place.values(S))
    np.testing.assert_allclose(by_name.values(S)[:, 0], (S.matrix * COSTS).sum(axis=(1, 2)))
    np.testing.assert_array_equal(by_name.functions(rows, 4).values(S), by_place.functions(rows, 4).values(S))
    assert by_name.constraints[0].metric.value(np.diag(rows)) == 0
    wrong = pd.DataFrame(np.array(COSTS), index=list("abcd"), columns=list("abcd"))
    assert "the constraint 'cost <= 1.5' cannot be used: " in refusal(bound, c.cost(wrong) <= 1.5)


def test_a_smallest_function_of_a_user():
    functions = MinOfLinear(lambda rows: metrics.structure.DiagonalFunctions(rows * 2))
    half = metrics.from_function(
        lambda C: np.min(np.diag(C) / C.sum(axis=1)) / 2, structure=functions, name="half", n_classes=4
    )
    rows, S = confusions()
    heights = bound(c.at_least(half, 0.2)).functions(rows, 4).values(S)
    np.testing.assert_allclose(heights, S.diagonal / rows / 2 - 0.2)
    mine = metrics.from_function(lambda C: C[0, 0] + 3 * C[2, 1], structure="linear", name="accuracy", n_classes=4)
    limits = bound(c.at_most(mine, 2.5))
    np.testing.assert_allclose(limits.functions(rows, 4).values(S), 2.5 - limits.values(S), atol=1e-6)


# --- classes ----------------------------------------------------------------------------------------------------------


def test_two_classes_have_a_positive_one():
    S = Confusion.from_matrix([[0.5, 0.1], [0.25, 0.15]])
    texts = ["recall >= 0.2", "rate <= 0.3", "fpr <= 0.2"]
    second = bound(texts, ["no", "yes"])
    first = bound(texts, ["no", "yes"], pos_label="no")
    assert second.texts == ("recall[yes] >= 0.2", "rate[yes] <= 0.3", "fpr[yes] <= 0.2")
    assert first.texts == ("recall[no] >= 0.2", "rate[no] <= 0.3", "fpr[no] <= 0.2")
    np.testing.assert_allclose(second.values(S), [0.15 / 0.4, 0.25, 0.1 / 0.6])
    np.testing.assert_allclose(first.values(S), [0.5 / 0.6, 0.75, 0.25 / 0.4])
    # read back from its text, a limit is of the same class, whichever class is the positive one
    again = bound(first.texts, ["no", "yes"], pos_label="yes")
    np.testing.assert_array_equal(again.values(S), first.values(S))
    assert again == first
    said = refusal(bound, "recall >= 0.5")
    assert (
        "the constraint 'recall >= 0.5' cannot be used: recall is a metric of two classes and the table has 4" in said
    )
    assert said.endswith("write recall[NAME] for the class NAME, or use balanced_accuracy")
    assert refusal(bound, "rate <= 0.5").endswith("has 4; write rate[NAME] for the class NAME")


def test_d8_limits_on_further_decisions_and_on_numbers_of_rows_name_what_there_is():
    P, y = np.random.default_rng(0).dirichlet([2.0, 1.0], 40), np.tile(["no", "yes"], 20)
    costs = pd.DataFrame({"no": [0.0, 5.0], "yes": [1.0, 0.0], "check": [0.5, 0.5]}, index=["no", "yes"])
    abstaining = {"metric": "accuracy", "abstain": "check"}
    for settings in (abstaining, {"metric": metrics.get("linear", cost=costs)}):
        for limit, way in (
            ("rate[check] <= 0.1", "coverage >= 0.9"), ("rate[check] >= 0.1", "coverage <= 0.9"),
            ("precision[check] >= 0.5", "coverage"), (c.rate("check") <= 0.1, "coverage >= 0.9"),
        ):  # fmt: skip
            said = refusal(confmax.maximize, proba=P, y=y, constraints=limit, **settings)
            assert "check is no class" in said and way in said and "its classes are" not in said
            assert ("abstain='check'" in said) == ("abstain" not in settings)
    assert "coverage" in refusal(confmax.frontier, "accuracy", "rate[check] <=", P, y, abstain="check")
    for text in ("count[yes] <= 200", "n[yes] <= 200", "max(count[yes] | group) <= 200", "rate[yes] <= 200"):
        said = refusal(confmax.maximize, "recall[yes]", P, y, constraints=text)
        assert "at_most={'yes': 200} to predict" in said and "--at-most yes=200" in said


def test_an_unknown_order_is_refused():
    table = table_of(["no", "yes"])
    for text in ("recall >= 0.5", "micro_f1 >= 0.5", "linear_kappa >= 0.5"):
        assert "depends on the order of the classes and y holds names" in refusal(c.bind, text, table, explicit=False)
    assert c.bind("recall[yes] >= 0.5", table, explicit=False).texts == ("recall[yes] >= 0.5",)


def test_classes_are_found_as_elsewhere():
    assert bound(["recall['VF'] >= 0.5", "recall[vf] >= 0.5"]).constraints[0].metric.classes == (0,)
    said = refusal(bound, "recall[VX] >= 0.8")
    assert "the constraint 'recall[VX] >= 0.8' cannot be used: recall[VX] names a class that the table does not" in said
    assert said.endswith("its classes are 'VF', 'F', 'M', 'L'; did you mean recall[VF]?")
    two = refusal(bound, "recall[VF] >= 0.8 and rate[VF] <= 0.5")
    assert two.endswith("write every constraint as a text of its own")
    for text in ("recall[VF] + rate[F] <= .1", "recall[VF]-recall[F] >= 0"):
        assert refusal(bound, text).endswith(
            "; rates can be added, such as rate[a] + rate[b] <= 0.1, and other quantities cannot: limit each in a text "
            "of its own"
        )
    numbers = bound("recall[2] >= 0.5", [0, 1, 2])
    assert numbers.constraints[0].metric.classes == (2,)


def test_classes_without_weight():
    table = table_of(["a", "b", "c"], labels=np.arange(40) % 2)
    for name in ("recall", "f1", "precision", "jaccard", "f_beta"):
        said = refusal(c.bind, f"{name}[c] >= 0.5", table, explicit=True)
        assert "y has no weight" in said or "of which y has no weight" in said
        assert "take rows that include this class" in said
    kept = c.bind(
        ["rate[c] <= 0.5", "fpr[c] <= 0.5", "specificity[c] >= 0.1", "recall[a] >= 0.5"], table, explicit=True
    )
    assert len(kept) == 4
    with pytest.warns(UserWarning, match="min_recall divides by class sizes and y has no weight in class c"):
        limits = c.bind("min_recall >= 0.5", table, explicit=True)
    S = Confusion.from_matrix([[0.5, 0.0, 0.0], [0.1, 0.3, 0.1], [0.0, 0.0, 0.0]])
    assert limits.owner(3).tolist() == [0, 0]
    np.testing.assert_allclose(limits.functions(S.rows, 3).values(S), [0.5, 0.1])
    np.testing.assert_allclose(limits.slacks(S), [0.1])


CONTRADICTIONS = [
    (["rate[VF] >= 0.3", "rate[VF] <= 0.2"], "rate[VF] >= 0.3 and rate[VF] <= 0.2 contradict each other"),
    (["specificity[F] >= 0.9", "fpr[F] >= 0.2"], "specificity[F] >= 0.9 and fpr[F] >= 0.2 contradict each other"),
    (["specificity[F] <= 0.7", "fpr[F] <= 0.2"], "contradict each other; loosen one of them"),
    (["f1[M] >= 0.5", "f_beta[M](beta=1) <= 0.4"], "f1[M] >= 0.5 and f_beta[M](beta=1) <= 0.4 contradict"),
    (["cohen_kappa >= 0.5", "accuracy >= 0.2", "cohen_kappa <= 0.4", "cohen_kappa <= 0.9"], "cohen_kappa <= 0.4"),
    ([c.cost(COSTS) <= 1, c.cost(COSTS) >= 2], "cost >= 2 and cost <= 1 contradict"),
    (["rate[VF] >= 0.5", "rate[F] >= 0.3", "rate[M] >= 0.3"], "add up to 1.1 (VF: 0.5, F: 0.3, M: 0.3), and every row"),
    ([f"rate[{name}] <= 0.2" for name in NAMES], "the rates of all 4 classes add up to 0.8, and every row is decided"),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "sentence"), CONTRADICTIONS, ids=[sentence for _, sentence in CONTRADICTIONS])
def test_contradictions_are_refused_at_once(texts, sentence):
    assert sentence in refusal(bound, texts)
    assert sentence in refusal(bound, tuple(texts[::-1])) or "add up" in sentence


def test_what_is_no_contradiction_is_taken():
    for k in range(1, 10):
        share = k / 10
        # at the same number, and through a complement that is rounded
        assert bound([f"specificity[F] <= {share}", f"fpr[F] <= {round(1 - share, 1)}"])
        assert bound([f"specificity[F] >= {share}", f"fpr[F] >= {round(1 - share, 1)}"])
    assert bound(["rate[VF] >= 0.3", "rate[VF] <= 0.3", "recall[VF] >= 0.9", "recall[F] <= 0.1"])
    assert bound([f"rate[{name}] >= 0.25" for name in NAMES])
    assert bound([f"rate[{name}] <= 0.25" for name in NAMES])
    assert bound([f"rate[{name}] <= 0.1" for name in NAMES], n_decisions=5)
    assert bound(["rate[VF] >= 0.9", "rate[VF] >= 0.8"])


def test_too_many_rows_are_refused():
    names = [f"class {k}" for k in range(2000)]
    table = make_table(np.full((2, 2000), 1 / 2000), classes=names)
    assert "leave out the metrics that read the whole matrix" in refusal(
        c.bind, ["min_recall >= 0.1", "linear_kappa >= 0.1"], table, explicit=True
    )
    assert len(c.bind("min_recall >= 0.1", table, explicit=True).owner(2000)) == 2000


@pytest.mark.parametrize("name", [metric.name for metric in shares.METRICS])
def test_shares_have_gradients_and_ratios(name):
    """Against differences, and the ratio against the formula."""
    metric = c.quantity(name, "M").metric
    metric = metric.of_class(2, 4)
    rows, S = confusions(20)
    for C in S.matrix:
        first = metric.gradient(C)
        step = np.random.default_rng(0).normal(size=C.shape) * 1e-7
        step -= step.mean(axis=1, keepdims=True)
        moved = operator.sub(*(float(metric.values(Confusion.from_matrix(C + t * step))) for t in (1, -1))) / 2
        assert moved == pytest.approx(float((first * step).sum()), rel=1e-5, abs=1e-14)
    parts = shares.ShareParts(metric.formula)(rows[list(metric.classes)]).placed(metric.classes, 4, 4)
    np.testing.assert_allclose([ratio_of(metric, rows, 4).values(one)[0] for one in S], metric.values(S))
    np.testing.assert_allclose([parts.values(one)[0] for one in S], metric.values(S))
    np.testing.assert_allclose(metric.among(S), [parts.denominators(one)[0] for one in S])
    assert all(parts.denominators(one)[0] >= parts.floor - 1e-12 for one in S)


def test_any_limit_is_read_back():
    rng = np.random.default_rng(0)
    for value in [*rng.random(300), *(10.0 ** rng.uniform(-300, 0, 300)), np.nextafter(1.0, 0.0), 5e-324]:
        one = c.recall("a") >= value
        assert one.limit == value
        assert c.parse(one.text) == one
    for percent in range(101):
        assert c.parse(f"recall[a] >= {percent} %").limit == percent / 100


def test_limits_bound_to_one_table_fit_another():
    here = bound("recall[VF] >= 0.5")
    there = bound(here.constraints, NAMES[::-1])
    assert there.constraints[0].metric.classes == (3,)
    assert there.texts == here.texts
