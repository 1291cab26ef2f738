"""At most so many rows of a batch get a class: the assignment of the largest sum of scores, whatever holds the rows."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import eye_array, kron

import confmax
from confmax import DecisionRule
from confmax.calibration import Temperature
from confmax.confusion import Gains
from confmax.rule import batch as assignment
from confmax.rule.batch import assigned
from tests.storages import IN_MEMORY, LAZY, OPENED, rows_of_all_kinds

RULE = DecisionRule.from_weights([1.0, 2.0, 3.0], [0.0, 0.1, 0.0], classes=["a", "b", "c"])
TINY = 150  # batches; 2000 take some seconds


def scores_by(rule, P):
    """Return the scores (n, M) of a rule of one gain, by its matrix."""
    return np.asarray(P, dtype=np.float64) @ rule.gains.matrices()[0]


def best_sum(scores, caps):
    """Return the largest sum of scores within caps (M,): every decision stands in as many columns as its cap."""
    columns = np.repeat(np.arange(scores.shape[1]), np.minimum(caps, len(scores)))
    rows, chosen = linear_sum_assignment(-scores[:, columns])
    return scores[rows, columns[chosen]].sum()


def batch(rng):
    """Return a tiny batch, with ties and copies in every second one: a rule, rows in 8ths, and caps with zeros."""
    n, K = rng.integers(1, 13), rng.integers(2, 5)
    M = K + rng.integers(0, 2)
    a, b = (rng.integers(0, 3, K), rng.integers(0, 2, M)) if rng.random() < 0.5 else (rng.random(K), rng.random(M))
    names = tuple("abcdefg"[:M])
    rule = DecisionRule(Gains.reduced(a, b), np.ones(1), names)
    P = rng.multinomial(8, np.ones(K) / K, n) / 8.0
    chosen = rng.random(M) < 0.7
    caps = {name: int(rng.integers(0, n + 1)) for name, is_chosen in zip(names, chosen, strict=True) if is_chosen}
    return rule, P, caps


# --- no better decisions exist ----------------------------------------------------------------------------------------


def test_no_assignment_of_tiny_batches_has_a_larger_sum():
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(TINY):
        rule, P, caps = batch(rng)
        n, M = len(P), rule.n_decisions
        limits = np.array([caps.get(name, n) for name in rule.class_names])
        if limits.sum() < n:
            with pytest.raises(ValueError, match="at_most limits every decision of the rule"):
                rule.predict_index(P, at_most=caps)
            refused += 1
            continue
        decided = rule.predict_index(P, at_most=caps)
        assert (np.bincount(decided, minlength=M) <= limits).all()
        scores = scores_by(rule, P)
        assert scores[np.arange(n), decided].sum() == pytest.approx(best_sum(scores, limits), abs=1e-12)
        free = rule.predict_index(P)
        if (np.bincount(free, minlength=M) <= limits).all():
            np.testing.assert_array_equal(decided, free)
    assert 0 < refused < TINY / 2


def test_the_witness_is_enumeration():
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores, caps = rng.random((5, 3)), rng.integers(1, 4, 3)
        if caps.sum() < 5:
            continue
        within = (d for d in product(range(3), repeat=5) if (np.bincount(d, minlength=3) <= caps).all())
        expected = max(scores[np.arange(5), list(d)].sum() for d in within)
        assert best_sum(scores, caps) == pytest.approx(expected)


def large(name, rng):
    """Return scores (M, n) and capacities (M,): rows of their own, copies, scores of any size, and little room."""
    n, M = 3000, 5
    scores = rng.random((M, n))
    if name == "equal":
        scores = np.ones((M, n))
    elif name == "copies":
        scores = scores[:, rng.integers(0, 7, n)]
    elif name == "some copies":
        scores[:, : n // 3] = scores[:, :1]
    elif name == "sizes":
        scores = np.exp(4.0 * rng.normal(size=(M, n))) * [[1.0], [-1.0], [1e3], [1.0], [1e-3]]
    tight = name in ("sizes", "no room")
    return scores, np.array([100, 200, 300, 400, 2000]) if tight else np.array([1, 30, 300, 400, n])


@pytest.mark.parametrize("near", [400, 1])
@pytest.mark.parametrize("name", ["random", "no room", "equal", "copies", "some copies", "sizes"])
def test_large_assignments_are_the_best(name, near, monkeypatch):
    """The linear program of all rows is the witness. Few rows at first, and poor prices, lead to the same sum."""
    scores, capacity = large(name, np.random.default_rng(2))
    monkeypatch.setattr(assignment, "NEAREST", near)
    if near == 1:
        monkeypatch.setattr(assignment, "SWEEPS", 0)
    where = assigned(scores, capacity)
    assert (np.bincount(where, minlength=5) <= capacity).all()
    assert scores[where, np.arange(3000)].sum() == pytest.approx(largest_sum(scores, capacity), rel=1e-9)


def largest_sum(scores, capacity):
    """Return the largest sum of scores (M, n) by a linear program in all rows and decisions."""
    (M, n) = scores.shape
    rows, decisions = kron(np.ones((1, M)), eye_array(n)), kron(eye_array(M), np.ones((1, n)))
    return -linprog(-scores.ravel(), decisions, capacity, rows, np.ones(n)).fun


def test_the_rows_with_the_largest_margins_keep_the_class():
    P = np.random.default_rng(3).dirichlet([1, 1, 1], 500)
    free, scores = RULE.predict_index(P), scores_by(RULE, P)
    mine = np.flatnonzero(free == 2)
    margin = scores[mine, 2] - scores[mine, :2].max(axis=1)
    for most in (0, 1, 17, len(mine) - 1, len(mine), 1000):
        found = RULE.predict_index(P, at_most={"c": most})
        keep = mine[np.argsort(-margin)[:most]]
        expected = np.where(free == 2, scores[:, :2].argmax(axis=1), free)
        expected[keep] = 2
        np.testing.assert_array_equal(found, expected)
    assert RULE.predict(P, at_most={"c": 3}).tolist() == [
        "abc"[k] for k in RULE.predict_index(P, at_most={"c": 3, "a": 10**12})
    ]
    solution = confmax.maximize("accuracy", P)
    assert (solution.predict(P, at_most={2: 4}) == 2).sum() == 4


# --- the same for whatever holds the rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("calibrator", [None, Temperature(1.4)])
@pytest.mark.parametrize("name", [*IN_MEMORY, *LAZY, *OPENED])
def test_all_kinds_of_tables_decide_alike(name, calibrator, tmp_path):
    if calibrator is not None and name == "sparse":
        calibrator = None  # a sparse table is calibrated as a dense one, without zeros left out
    rule = DecisionRule(RULE.gains, np.ones(1), RULE.class_names, calibrator=calibrator)
    P = rows_of_all_kinds()[0]
    # copies of each other, in several parts: the first of them keep the class
    P[[3, 5, 180, 300, 410, 599]] = [0.125, 0.25, 0.625]
    make = {**IN_MEMORY, **LAZY, **OPENED}[name]
    reference = P.astype(np.float32) if "float32" in name else P
    free, total = rule.predict_index(reference), int((rule.predict_index(reference) == 2).sum())
    given = make(P, *(None, None, None), tmp_path) if name in OPENED else make(P)
    tied = np.flatnonzero((reference == reference[3]).all(axis=1))
    places = []
    for most in (0, 1, 60, total - 1, total):
        found = np.asarray(rule.predict_index(given, at_most={"c": most}))
        np.testing.assert_array_equal(found, rule.predict_index(reference, at_most={"c": most}))
        places.append((found[tied] == 2).tolist())
        assert sorted(places[-1], reverse=True) == places[-1]
        assert (found == 2).sum() == min(most, total)
    np.testing.assert_array_equal(found, free)


@pytest.mark.parametrize("lengths", [[600], [100, 0, 500], [1] * 20 + [580]])
def test_copies_are_ordered_by_their_place_in_any_partition(lengths):
    from tests.dask_helpers import rows

    P = np.tile([[0.125, 0.25, 0.625]], (600, 1))
    P[::7] = [0.0, 0.25, 0.75]
    in_order = np.argsort(np.arange(600) % 7 > 0, kind="stable")  # the rows with the larger margin come first
    for most in (50, 86, 87, 300):
        expected = RULE.predict_index(P, at_most={"c": most})
        assert np.flatnonzero(expected == 2).tolist() == sorted(in_order[:most])
        np.testing.assert_array_equal(RULE.predict_index(rows(P, lengths), at_most={"c": most}), expected)


@pytest.mark.parametrize("where", ["array", "Dask array", "Dask frame", "a column"])
def test_keys_order_equal_rows(where):
    P = np.tile([[0.125, 0.25, 0.625]], (40, 1))
    keys = np.arange(40)
    if where == "array":
        given, beside = (lambda order: P), (lambda order: keys[order])
    else:
        dd = pytest.importorskip("dask.dataframe")

        def lazy(order):
            frame = pd.DataFrame(P, columns=list("abc")).assign(id=keys[order])
            return dd.from_pandas(frame, npartitions=3)

        def given(order):
            frame = lazy(order)
            if where == "Dask array":
                return frame[list("abc")].to_dask_array(lengths=True)
            return frame if where == "a column" else frame[list("abc")]

        def beside(order):
            return "id" if where == "a column" else lazy(order)["id"]

    def kept(order):
        decided = np.asarray(RULE.predict(given(order), keys=beside(order), at_most={"c": 10})) == "c"
        return set(keys[order][decided])

    first = kept(np.arange(40))
    assert len(first) == 10 and first != set(range(10))
    assert kept(np.random.default_rng(0).permutation(40)) == first


def test_names_and_decisions_of_dask_are_lazy():
    pytest.importorskip("dask")
    from tests.dask_helpers import dd, rows

    P, *_ = rows_of_all_kinds()
    found = RULE.predict(rows(P, [200, 400]), at_most={"c": 9})
    assert found.chunks == ((200, 400),)
    assert (found.compute() == "c").sum() == 9
    frame = dd.from_pandas(pd.DataFrame(P[:, ::-1], columns=list("cba")), npartitions=2)
    assert (RULE.predict(frame, at_most={"c": 9}).compute() == found.compute()).all()


def test_frames_are_matched_by_their_names():
    P, *_ = rows_of_all_kinds()
    frame = pd.DataFrame(P[:, ::-1], columns=["p_c", "p_b", "p_a"])
    for caps in ({"c": 7}, {"c": 7, "b": 50, "a": 543}):
        found = RULE.predict(frame, at_most=caps)
        np.testing.assert_array_equal(found, RULE.predict(P, at_most=caps))
    with pytest.warns(UserWarning, match="no column is named like a class") as caught:
        RULE.predict(pd.DataFrame(P, columns=["x", "y", "z"]), at_most={"c": 7})
    assert len(caught) == 1
    rounded = P * 1.01
    with pytest.warns(UserWarning, match="were divided by their sums"):
        assert (RULE.predict(rounded, at_most={"c": 7}, normalize=True) == "c").sum() == 7


def test_several_caps_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(4)
    P, order = rng.dirichlet([1, 1, 1], 300), rng.permutation(300)
    caps = {"a": 100, "b": 100, "c": 100}
    found = RULE.predict_index(P, at_most=caps)
    assert np.bincount(found).tolist() == [100, 100, 100]
    np.testing.assert_array_equal(RULE.predict_index(P[order], at_most=caps), found[order])
    for make in (np.ndarray.tolist, IN_MEMORY["sparse"]):
        np.testing.assert_array_equal(RULE.predict_index(make(P), at_most=caps), found)
    full = DecisionRule(Gains.from_matrix(RULE.gains.matrices()[0]), np.ones(1), RULE.class_names)
    np.testing.assert_array_equal(full.predict_index(P, at_most=caps), found)


def test_one_limit_that_is_passed_leaves_the_others_alone():
    P = np.random.default_rng(5).dirichlet([1, 1, 1], 100)
    np.testing.assert_array_equal(RULE.predict(P, at_most={"c": 20, "a": 100}), RULE.predict(P, at_most={"c": 20}))


def test_gains_that_float32_does_not_hold_are_compared_in_float64():
    rule = DecisionRule.from_weights([2.0**-110, 1.0], [0.0, -0.9])
    P = np.random.default_rng(6).dirichlet([1, 1], 50).astype(np.float32)
    P = np.concatenate([P, [[0.05, 0.95], [0.01, 0.99]]]).astype(np.float32)
    found = rule.predict_index(P, at_most={1: 1})
    assert np.flatnonzero(found == 1).tolist() == [P[:, 1].argmax()]


# --- groups, abstaining -----------------------------------------------------------------------------------------------

GROUPED = DecisionRule(
    Gains.reduced([1.0, 1.0, 1.0, 40.0], [0.0, 0.0, 0.0, -20.0]), np.ones(1), ("no", "yes"), groups=("men", "women")
)


def test_scores_of_groups_are_those_of_their_gains():
    """The gains of a group keep their unit, although each group is decided by coefficients that are scaled anew."""
    P = np.array([[0.1, 0.9], [0.45, 0.55], [0.2, 0.8], [0.4, 0.6]])
    group = np.array(["men", "women", "men", "women"])
    # margins .8, 1.55, .6, 3.6
    assert GROUPED.predict(P, group=group, at_most={"yes": 1}).tolist() == ["no", "no", "no", "yes"]
    assert GROUPED.predict(P, group=group, at_most={"yes": 3}).tolist() == ["yes", "yes", "no", "yes"]
    assert GROUPED.predict(P, group=group, at_most={"yes": 2, "no": 2}).tolist() == ["no", "yes", "no", "yes"]
    frame = pd.DataFrame(P, columns=["no", "yes"], index=[5, 6, 7, 8])
    series = pd.Series(group, index=frame.index)
    assert GROUPED.predict(frame, group=series, at_most={"yes": 1}).tolist() == ["no", "no", "no", "yes"]


@pytest.mark.parametrize("name", [*LAZY, *OPENED, "tensor"])
def test_groups_of_rows_in_parts(name, tmp_path):
    rng = np.random.default_rng(0)
    gains = Gains.reduced(rng.random(6) * 8)
    rule = DecisionRule(gains, np.ones(1), ("a", "b", "c"), groups=("men", "women"))
    P, y, weight, group = rows_of_all_kinds()
    beside = {"group": group}
    expected = rule.predict_index(P, group=group, at_most={"b": 31})
    if name in OPENED:
        given, beside = OPENED[name](P, y, weight, group, tmp_path), {}
    elif name == "tensor":
        given = IN_MEMORY[name](P)
    else:
        given = LAZY[name](P)
        if name == "Dask frame":
            dd = pytest.importorskip("dask.dataframe")
            beside = {"group": dd.from_pandas(pd.Series(group), npartitions=3)}
    found = np.asarray(rule.predict_index(given, **beside, at_most={"b": 31}))
    np.testing.assert_array_equal(found, expected)
    assert (found == 1).sum() == 31


def test_groups_by_their_probabilities():
    rule = DecisionRule(GROUPED.gains, np.ones(1), ("no", "yes"), groups=("men", "women"), groups_known=False)
    P = np.array([[0.1, 0.9], [0.45, 0.55], [0.2, 0.8], [0.4, 0.6]])
    shares = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.25, 0.75]])
    # margins .8, 1.55, 6.2, 2.75
    assert rule.predict(P, group_proba=shares, at_most={"yes": 2}).tolist() == ["no", "no", "yes", "yes"]
    assert rule.predict(P, group_proba=shares, at_most={"yes": 9}).tolist() == ["yes"] * 4


def test_abstaining_is_one_more_decision():
    gains = Gains.reduced([1.0, 1.0], [0.0, 0.0, 0.75])
    rule = DecisionRule(gains, np.ones(1), ("no", "yes", "ask"), abstain="ask")
    P = np.array([[0.1, 0.9], [0.2, 0.8], [0.4, 0.6], [0.5, 0.5], [0.9, 0.1]])
    assert rule.predict(P).tolist() == ["yes", "yes", "ask", "ask", "no"]
    assert rule.predict(P, at_most={"yes": 1}).tolist() == ["yes", "ask", "ask", "ask", "no"]
    assert rule.predict(P, at_most={"ask": 1}).tolist() == ["yes", "yes", "yes", "ask", "no"]
    assert rule.predict(P, at_most={"ask": 1, "yes": 2}).tolist() == ["yes", "yes", "ask", "no", "no"]


@pytest.mark.parametrize("classes", [[0, 1, 2], [3, 5, 9]])
def test_a_tensor_gives_a_tensor(classes):
    torch = pytest.importorskip("torch")
    rule = DecisionRule(RULE.gains, np.ones(1), tuple(classes))
    P = torch.as_tensor(np.random.default_rng(0).dirichlet([1, 1, 1], 50), dtype=torch.float32)
    for caps in ({classes[2]: 5}, {classes[2]: 5, classes[1]: 10}, {classes[2]: 50}):
        found = rule.predict(P, at_most=caps)
        assert found.dtype == torch.int64
        np.testing.assert_array_equal(found.numpy(), rule.predict(P.numpy(), at_most=caps))


# --- what is refused --------------------------------------------------------------------------------------------------

ROWS = np.random.default_rng(0).dirichlet([1, 1, 1], 30)


@pytest.mark.parametrize(
    ("caps", "sentence"),
    [
        ({"d": 1}, "at_most names 'd', and the rule decides a, b, c; name one of these"),
        ({"c": -1}, "at_most of 'c' is a whole number of rows from 0 on; got -1"),
        ({"c": 1.0}, "at_most of 'c' is a whole number of rows from 0 on; got 1.0"),
        ({"c": True}, "at_most of 'c' is a whole number of rows from 0 on; got True"),
        ({"c": None}, "at_most of 'c' is a whole number of rows from 0 on; got None"),
        (["c"], "at_most holds numbers of rows by class; got list; pass such as {'a': 100}"),
        (
            {"a": 9, "b": 20, "c": 0},
            "at_most limits every decision of the rule, to 29 rows together, and there are 30 rows; raise a limit, or "
            "leave one decision without",
        ),
    ],
)
def test_limits_that_mean_nothing(caps, sentence):
    with pytest.raises(ValueError) as error:
        RULE.predict(ROWS, at_most=caps)
    assert str(error.value) == sentence


def test_no_limits_are_none():
    np.testing.assert_array_equal(RULE.predict(ROWS, at_most={}), RULE.predict(ROWS))
    assert (RULE.predict(ROWS, at_most={"a": 30, "b": 0, "c": 0}) == "a").all()
    assert (RULE.predict(ROWS, at_most={"c": np.int32(2)}) == "c").sum() == 2


def test_rules_that_draw_and_rows_that_cannot_be_compared(tmp_path, monkeypatch):
    drawn = DecisionRule(Gains.reduced([[1.0, 2.0, 1.0], [2.0, 1.0, 1.0]]), np.array([0.5, 0.5]), ("a", "b", "c"))
    with pytest.raises(ValueError, match="this rule decides at random, and at_most needs the scores of one rule; tune"):
        drawn.predict(ROWS, at_most={"a": 1})
    opened = OPENED[next(iter(OPENED))](ROWS, None, None, None, tmp_path)
    with pytest.raises(ValueError, match="compares all rows in memory, and these are read in parts; limit one class"):
        RULE.predict(opened, at_most={"a": 10, "b": 10})
    with pytest.raises(ValueError, match="keys are not split into parts"):
        RULE.predict(opened, keys=np.arange(30), at_most={"a": 10})
    with pytest.raises(ValueError, match="this rule decides all groups alike; leave group out"):
        RULE.predict(ROWS, group=["x"] * 30, at_most={"a": 10})
    with pytest.raises(ValueError, match="this rule decides all groups alike; leave group_proba out"):
        RULE.predict(ROWS, group_proba=ROWS, at_most={"a": 10})
    with pytest.raises(ValueError, match="this rule decides by groups"):
        GROUPED.predict(ROWS[:, :2], at_most={"yes": 1})
    with pytest.raises(ValueError, match="proba has 2 columns and the rule has 3 classes"):
        RULE.predict(ROWS[:, :2], at_most={"a": 1})
    monkeypatch.setattr("confmax.rule.batch.MOST_CELLS", 50)
    with pytest.raises(ValueError, match="compares 3 scores of each of 30 rows, more than 50 together; pass fewer"):
        RULE.predict(ROWS, at_most={"a": 10, "b": 10, "c": 10})


def test_frames_of_spark_are_refused():
    # named as Spark names it: this needs no Java
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(ValueError, match="at_most compares all rows of a batch, which are read twice: pass them in"):
        RULE.predict(frame, at_most={"a": 1})


def test_dask_is_refused_as_without_a_limit():
    pytest.importorskip("dask")
    from tests.dask_helpers import dd, rows

    frame = dd.from_pandas(pd.DataFrame(ROWS, columns=list("abc")), npartitions=2)
    with pytest.raises(ValueError, match="keys beside a Dask DataFrame must be a Dask Series in the same partitions"):
        RULE.predict(frame, keys=np.arange(30), at_most={"a": 1})
    with pytest.raises(ValueError, match="this rule decides by groups"):
        GROUPED.predict(rows(ROWS[:, :2], [30]), at_most={"yes": 1})
    with pytest.raises(ValueError, match="partition 1: row 0 of proba"):
        RULE.predict(rows(np.vstack([ROWS, [[2.0, 0.0, 0.0]]]), [30, 1]), at_most={"a": 1})


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def table(inside):  # noqa: ARG001
    """A folder with a rule and a table, whose classes hold signs of equality; its frame."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("click")
    frame = pd.DataFrame(np.random.default_rng(0).dirichlet([1, 1, 1], 200).round(6), columns=["a", "b", "c=d"])
    frame.to_csv("t.csv", index=False)
    DecisionRule(RULE.gains, np.ones(1), ("a", "b", "c=d")).save("rule.json")
    return frame


def test_apply_writes_and_counts_what_the_limits_move(table):
    from tests.cli_helpers import document, run

    rule = DecisionRule.load("rule.json")
    for caps in ({"c=d": 20}, {"c=d": 20, "b": 60}):
        options = [part for name, most in caps.items() for part in ("--at-most", f"{name}={most}")]
        found = document("apply", "rule.json", "t.csv", "-o", "out.csv", *options)
        expected = rule.predict(table, at_most=caps)
        assert pd.read_csv("out.csv")["decision"].tolist() == expected.tolist()
        assert found["at_most"] == caps
        assert found["rows_moved"] == (expected != rule.predict(table)).sum() > 0
    printed, _ = run("apply", "rule.json", "t.csv", "-o", "out.csv", *options)
    assert f"{found['rows_moved']} rows to another decision; at most 20 c=d, 60 b" in printed
    piped, _ = run("apply", "rule.json", "-", "-o", "out.csv", "--at-most", "c=d=3", data=table.to_csv(index=False))
    assert "rows to another decision; at most 3 c=d" in piped


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--at-most", "b"), "'b' is not NAME=N with a number of rows, such as VF=100"),
        (("--at-most", "b=-1"), "'b=-1' is not NAME=N with a number of rows, such as VF=100"),
        (("--at-most", "b<=1"), "--at-most takes NAME=N; write --at-most b=1"),
        (("--at-most", "c=d <=2"), "--at-most takes NAME=N; write --at-most c=d=2"),
        (("--at-most", "b=1.5"), "'b=1.5' is not NAME=N with a number of rows, such as VF=100"),
        (("--at-most", "b=1", "--at-most", "b=2"), "b is given twice; give each class once"),
        (("--at-most", "c=1"), "--at-most names 'c', and the rule decides a, b, c=d; name one of these"),
    ],
)
def test_limits_that_the_command_line_cannot_read(table, options, sentence):  # noqa: ARG001
    from tests.cli_helpers import refusal

    assert sentence in refusal("apply", "rule.json", "t.csv", "-o", "out.csv", *options)


def test_a_rule_that_draws_is_pointed_to_the_option(table):  # noqa: ARG001
    from tests.cli_helpers import refusal

    DecisionRule(Gains.reduced([[1, 2, 1], [2, 1, 1]]), np.array([0.5, 0.5]), ("a", "b", "c=d")).save("rule.json")
    sentence = refusal("apply", "rule.json", "t.csv", "-o", "out.csv", "--at-most", "b=1")
    assert sentence == (
        "error: this rule decides at random, and --at-most needs the scores of one rule; tune it with --randomized no\n"
    )
