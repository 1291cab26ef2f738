"""Which column is which class: the same names through frames, files, Dask, rules, cost tables and the command line."""

import functools
import re

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.confusion import Gains
from confmax.oracle import make_table
from confmax.tables.columns import find
from tests.column_helpers import N, decided, drawn

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TURNED = {2: [1, 0], 3: [2, 0, 1]}

# labels in the order of the columns of P, and the names of these columns
CASES = {
    "exact": (["b", "c", "a"], ["b", "c", "a"]),
    "prefix": (["yes", "undecided", "no"], ["p_yes", "p_undecided", "p_no"]),
    "suffix": (["yes", "undecided", "no"], ["yes_score", "undecided_score", "no_score"]),
    "both": (["yes", "undecided", "no"], ["prob(yes)", "prob(undecided)", "prob(no)"]),
    "case": (["Yes", "maybe", "NO"], ["YES", "Maybe", "no"]),
    "prefix and case": (["Yes", "maybe", "NO"], ["P_yes", "P_maybe", "P_no"]),
    "spaces": (["yes", "maybe", "no"], ["yes ", " maybe", " no"]),
    "a name within a name": (["nothing", "no", "not"], ["p_nothing", "p_no", "p_not"]),
    "a prefix of the classes too": (["class_b", "class_a", "class_c"], ["p_class_b", "p_class_a", "p_class_c"]),
    "integers": ([3, 1, 2], ["3", "1", "2"]),
    "whole floats": ([3, 1, 2], ["3.0", "1.0", "2.0"]),
    "numbered from 0": ([2, 0, 1], ["proba_2", "proba_0", "proba_1"]),
    "numbered with a float": ([2, 0, 1], ["proba_2.0", "proba_0.0", "proba_1.0"]),
    "more than nine": ([10, 1, 0], ["p10", "p1", "p0"]),
    "booleans": ([True, False], ["true", "false"]),
    "booleans in capitals": ([True, False], ["TRUE", "FALSE"]),
    "booleans with a prefix": ([True, False], ["p_True", "p_False"]),
    "booleans as numbers": ([True, False], ["1", "0"]),
    "numbers as booleans": ([1, 0], ["True", "False"]),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def given(case):
    """Return probabilities, their columns' names and labels."""
    values, names = case
    P, y = drawn(len(values))
    return P, names, np.array(values)[y]


def as_pandas(P, names):
    return pd.DataFrame(P, columns=names)


def as_polars(P, names):
    return pytest.importorskip("polars").DataFrame({name: P[:, k] for k, name in enumerate(names)})


def as_arrow(P, names):
    return pa.table({name: P[:, k] for k, name in enumerate(names)})


def expected(case):
    """Return the solution on the array, whose columns are named by hand."""
    return tuned(*case[0])


@functools.lru_cache(typed=True)
def tuned(*names):
    P, y = drawn(len(names))
    return confmax.maximize("macro_f1", P, np.array(names)[y], classes=list(names))


# --- the same answer, whatever the order of the columns --------------------------------------------------------------


@every_case
@pytest.mark.parametrize(
    ("frame", "turned"), [(as_pandas, False), (as_pandas, True), (as_polars, True), (as_arrow, True)]
)
def test_frames(case, frame, turned):
    P, names, y = given(case)
    order = TURNED[len(names)] if turned else list(range(len(names)))
    table = frame(P[:, order], [names[k] for k in order])
    solution, truth = confmax.maximize("macro_f1", table, y), expected(case)
    assert set(solution.rule.class_names) == set(case[0])
    assert solution.label_value == pytest.approx(truth.label_value, abs=1e-12)
    assert (decided(solution.rule, table) == decided(truth.rule, P)).all()
    # a rule finds the columns of its classes too
    assert (decided(truth.rule, table) == decided(truth.rule, P)).all()
    np.testing.assert_array_equal(truth.rule.predict(table), truth.rule.predict(P))


@every_case
def test_opened_files(case, tmp_path):
    P, names, y = given(case)
    table = pa.table({**dict(zip(names, P.T, strict=True)), "label": y})  # not in the order of sorted labels
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=150)
    opened = confmax.open_table(tmp_path / "a.parquet", label="label")
    solution, truth = confmax.maximize("macro_f1", opened, calibration=None), expected(case)
    plain = confmax.maximize("macro_f1", *given(case)[::2], classes=case[0], calibration=None)
    assert set(solution.rule.class_names) == set(case[0])
    assert solution.label_value == pytest.approx(plain.label_value, abs=0.02)
    np.testing.assert_array_equal(truth.rule.predict(opened), truth.rule.predict(P))


@pytest.mark.parametrize("name", ["spaces", "whole floats", "booleans"])
@pytest.mark.parametrize(("kind", "in_parts"), [("csv", "no"), ("parquet", "no"), ("parquet", "yes")])
@pytest.mark.usefixtures("inside")
def test_command_line(name, kind, in_parts, tmp_path):
    from tests.cli_helpers import document, run

    case = CASES[name]
    P, names, y = given(case)
    columns = {**dict(zip(names, P.T, strict=True)), "label": y}  # not in the order of sorted labels
    path = tmp_path / f"table.{kind}"
    if kind == "csv":
        pd.DataFrame(columns).to_csv(path, index=False)
    else:
        pq.write_table(pa.table(columns), path)
    found = document(
        "tune", path, "--label", "label", "--metric", "macro_f1", "-o", "rule.json", "--in-parts", in_parts
    )
    truth = expected(case)
    assert set(map(str, found["classes"])) == set(map(str, case[0]))
    shown = [name.strip() if kind == "csv" else name for name in names]  # spaces around names of CSV are left out
    assert found["columns"] == [shown[[str(v) for v in case[0]].index(str(name))] for name in found["classes"]]
    if in_parts == "no":
        assert found["tuned_on_labels"] == pytest.approx(truth.label_value, abs=1e-9)
        run("apply", "rule.json", path, "-o", "out.parquet")
        made = pq.read_table("out.parquet").column("decision").to_pylist()
        rule = confmax.DecisionRule.load("rule.json")
        assert list(map(str, made)) == list(map(str, decided(rule, as_pandas(P, names))))


def test_dask_frames_that_fit_in_part_or_not_at_all():
    pytest.importorskip("distributed")
    import dask.array as da
    import dask.dataframe as dd

    P, y = drawn(3)
    rule = confmax.DecisionRule.from_weights([1, 2, 3], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="no class like the column 'z'"):
        rule.predict(dd.from_pandas(pd.DataFrame(P, columns=["a", "b", "z"]), npartitions=2))
    frame = dd.from_pandas(pd.DataFrame(P, columns=["u", "v", "w"]), npartitions=2)
    with pytest.warns(UserWarning, match=r"taken in their order \(u = a, v = b, w = c\)") as caught:
        np.testing.assert_array_equal(rule.predict(frame).compute(), rule.predict(P))
    assert len(caught) == 1  # not one for every partition
    hidden = da.from_array(np.ma.masked_array(P, P.max() - 1e-9 < P), chunks=(200, 3))
    with pytest.raises(ValueError, match=r"partition \d: row \d+ of proba is masked"):
        confmax.maximize("g_mean", hidden, y)


@pytest.mark.parametrize(("K", "seed"), [(2, 0), (3, 1), (7, 2)])
def test_permuted_columns_decide_alike(K, seed):
    """Names say which column is which, so no order of the columns changes a decision, of tuning or of applying."""
    rng = np.random.default_rng(seed)
    P, y = drawn(K, seed)
    values = np.array([f"class {k}" for k in rng.permutation(K)])
    frame = pd.DataFrame(P, columns=[f"p({name})" for name in values])
    settings = {"confusion": "model", "randomized": True, "calibration": None}
    first = confmax.maximize("g_mean", frame, values[y], **settings)
    order = rng.permutation(K)
    other = confmax.maximize("g_mean", frame.iloc[:, order], values[y], **settings)
    # each is the optimum within its certificate
    assert first.value == pytest.approx(other.value, abs=3e-6)
    assert (decided(first.rule, frame) == decided(other.rule, frame)).mean() > 0.97
    assert (decided(first.rule, frame) == decided(first.rule, frame.iloc[:, order])).all()


def test_numbers_count_in_their_own_order():
    """Numbers have an order; that of the columns does not replace it: class 1 is the positive one of 0 and 1."""
    P, y = drawn(2)
    frame = pd.DataFrame(P[:, ::-1], columns=["p1", "p0"])
    found, truth = confmax.maximize("f1", frame, y), confmax.maximize("f1", P, y)
    assert found.rule.class_names == (0, 1)
    assert found.value == pytest.approx(truth.value)
    P, y = drawn(4)
    frame = pd.DataFrame(P[:, [3, 0, 2, 1]], columns=["3", "0", "2", "1"])
    found, truth = confmax.maximize("quadratic_kappa", frame, y), confmax.maximize("quadratic_kappa", P, y)
    assert found.value == pytest.approx(truth.value)


# --- classes without rows, tables without labels ---------------------------------------------------------------------


def test_a_class_without_rows_is_named_by_its_column():
    P, y = drawn(3)
    kept = y != 2
    values = np.array(["b", "a", "c"])
    for names in (["b", "a", "c"], ["p_b", "p_a", "p_c"]):
        table = make_table(pd.DataFrame(P[kept], columns=names), values[y[kept]])
        assert table.classes == ("b", "a", "c")
    table = make_table(pd.DataFrame(P[kept], columns=["p_5", "p_1", "p_7"]), np.array([5, 1, 7])[y[kept]])
    assert table.classes == (1, 5, 7)
    np.testing.assert_array_equal(table.head.proba[:, 0], P[kept][:, 1])
    with pytest.raises(ValueError, match="column 'other' of proba matches no label and the labels are numbers"):
        make_table(pd.DataFrame(P[kept], columns=["0", "1", "other"]), y[kept])


def test_without_labels_the_columns_name_the_classes():
    P, _ = drawn(3)
    rule = confmax.maximize("g_mean", pd.DataFrame(P, columns=["b", "c", "a"])).rule
    assert rule.class_names == ("b", "c", "a")
    assert confmax.maximize("g_mean", pd.DataFrame(P)).rule.class_names == (0, 1, 2)
    found = make_table(pd.DataFrame(P, columns=[7, 5, 6]))
    assert found.classes == (5, 6, 7)
    np.testing.assert_array_equal(found.head.proba, P[:, [1, 2, 0]])


# --- names that fit no class, or only some ---------------------------------------------------------------------------


def test_names_like_no_class_warn_with_the_assignment():
    P, y = drawn(3)
    values = np.array(["x", "y", "z"])
    frame = pd.DataFrame(P, columns=["b", "c", "a"])
    told = r"no column is named like a class: the columns were taken in their order \(b = {}, c = {}, a = {}\); pass"
    with pytest.warns(UserWarning, match=told.format("x", "y", "z")):
        assert make_table(frame, values[y]).classes == ("x", "y", "z")
    with pytest.warns(UserWarning, match=told.format(0, 1, 2)):
        assert make_table(frame, y).classes == (0, 1, 2)
    rule = confmax.maximize("macro_f1", P, values[y]).rule
    with pytest.warns(UserWarning, match=told.format("x", "y", "z")):
        np.testing.assert_array_equal(rule.predict(frame), rule.predict(P))
    rule = confmax.maximize("macro_f1", P, y).rule
    with pytest.warns(UserWarning, match=told.format(0, 1, 2)):
        np.testing.assert_array_equal(rule.predict(frame), rule.predict(P))
    # the order is stated: nothing was assumed
    assert make_table(frame, values[y], classes=["x", "y", "z"]).classes == ("x", "y", "z")


@pytest.mark.parametrize("names", [range(3), ["column_0", "column_1", "column_2"]])
def test_names_that_only_count_are_none(names):
    P, y = drawn(3)
    frame = pd.DataFrame(P, columns=names)
    assert make_table(frame, np.array(["x", "y", "z"])[y]).classes == ("x", "y", "z")
    assert make_table(frame, y + 1).classes == (1, 2, 3)
    rule = confmax.DecisionRule.from_weights([1, 2, 3], classes=["x", "y", "z"])
    np.testing.assert_array_equal(rule.predict(frame), rule.predict(P))


REFUSED = {
    "one renamed": (["a", "b", "z"], "some columns of proba are named like classes and some are not: no column is "
                    "named like the class 'c', and no class like the column 'z'; "),
    "one renamed, with a prefix": (["p_a", "p_b", "p_z"], "no column is named like the class 'c', and no class like "
                                   "the column 'p_z'; "),
    "one class twice": (["a", "a", "c"], "two columns of proba are named like the class 'a' ('a' and 'a'); drop"),
    "twice but for case": (["A", "a ", "c"], "two columns of proba are named like the class 'a' ('A' and 'a '); drop"),
}  # fmt: skip


@pytest.mark.parametrize(("names", "sentence"), REFUSED.values(), ids=REFUSED)
def test_names_that_fit_in_part_are_refused(names, sentence, tmp_path):
    P, y = drawn(3)
    values = np.array(["a", "b", "c"])
    frame = pd.DataFrame(P, columns=names)
    rule = confmax.DecisionRule.from_weights([1, 2, 3], classes=list(values))
    calls = [
        lambda: confmax.maximize("macro_f1", frame, values[y]),
        lambda: confmax.score("macro_f1", frame, values[y], rule),
        lambda: rule.predict(frame),
        lambda: rule.decision_probabilities(frame),
    ]
    if len(set(names)) == 3:
        pq.write_table(pa.table({**{n: P[:, k] for k, n in enumerate(names)}, "y": values[y]}), tmp_path / "a.parquet")
        opened = confmax.open_table(tmp_path / "a.parquet", label="y")
        calls += [lambda: confmax.maximize("macro_f1", opened), lambda: rule.predict(opened)]
    for call in calls:
        with pytest.raises(ValueError, match=re.escape(sentence)):
            call()


def test_an_order_that_is_stated_must_not_contradict_the_names():
    P, y = drawn(3)
    values = np.array(["a", "b", "c"])
    frame = pd.DataFrame(P, columns=["a", "b", "z"])
    np.testing.assert_array_equal(make_table(frame, values[y], classes=["a", "b", "c"]).head.proba, P)
    with pytest.raises(ValueError, match="no class like the column 'z'"):
        make_table(frame, values[y], classes=["b", "a", "c"])


def test_one_spelling_or_two():
    """The exact name wins; two prefixes around the same classes do not tell which columns are meant."""
    assert find(["Yes", "yes", "no"], ["yes", "no"]).places == (1, 2)
    assert find(["1", "1.0", "2"], [1, 2]).places == (0, 2)
    assert find(["a", "A"], ["A", "a"]).places == (1, 0)
    assert find(["p_yes", "p_no", "q_yes", "q_no"], ["no", "yes"], whole=False).twice == ("no", "p_no", "q_no")
    assert find(["id", "p_yes", "p_no", "age"], ["no", "yes"], whole=False).places == (2, 1)
    assert find(["maybe", "p_yes", "p_no"], ["no", "yes"]).places is None  # the third column has another name
    assert find(["happiness", "yes_p"], ["yes", "no"]).places is None
    with pytest.raises(ValueError, match="two columns of proba are named like the class 1"):
        make_table(pd.DataFrame(drawn(3)[0], columns=["1", "1.0", "2"]), np.r_[1, np.full(N - 1, 2)])


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("inside")
def test_command_line_refuses_and_warns():
    from tests.cli_helpers import refusal, run

    P, y = drawn(3)
    values = np.array(["a", "b", "c"])

    def write(names, labels):
        pd.DataFrame({**{n: P[:, k] for k, n in enumerate(names)}, "y": labels}).to_csv("t.csv", index=False)
        return ["tune", "t.csv", "--label", "y", "--metric", "macro_f1", "-o", "rule.json"]

    for names, labels, sentence in (
        (["a", "b", "z"], values[y], "t.csv has no column 'c'"),
        (["p_a", "p_b", "p_z"], values[y], "no column is named like the class 'c', and no class like the column 'p_z'"),
        (["1.0", "1.00", "3"], y + 1, "two columns of t.csv are named like the class 1 ('1.0' and '1.00'); name the"),
    ):
        assert sentence in refusal(*write(names, labels))
    _, stderr = run(*write(["u", "v", "w"], y))
    assert (
        "no column is named like a class: sorted labels were assigned to the columns in order (u = 0, v = 1, w = 2)"
        in stderr
    )
    _, stderr = run("apply", "rule.json", "t.csv", "--columns", "u,v,w", "-o", "out.csv")
    assert stderr.count("no column is named") == 0
    pd.DataFrame(P, columns=["u", "v", "w"]).to_csv("new.csv", index=False)
    _, stderr = run("apply", "rule.json", "new.csv", "-o", "out2.csv")
    assert "the rule's classes were assigned to the columns in order (u = 0, v = 1, w = 2); --columns sets it" in stderr
    # a stated order needs no names
    _, stderr = run(*write(["a", "b", "z"], values[y]), "--columns", "a,b,z", "--classes", "a,b,c")
    assert stderr.count("warning") == 0


@pytest.mark.parametrize("in_parts", ["yes", "no"])
@pytest.mark.usefixtures("inside")
def test_command_line_takes_classes_as_they_are_written(in_parts):
    from tests.cli_helpers import document

    P, y = drawn(2)
    pq.write_table(pa.table({"true": P[:, 1], "false": P[:, 0], "y": y == 1}), "t.parquet")
    found = document("tune", "t.parquet", "--label", "y", "--metric", "f1", "-o", "rule.json", "--in-parts", in_parts,
                     "--classes", "false,true")  # fmt: skip
    assert (found["classes"], found["columns"]) == ([False, True], ["false", "true"])
    if in_parts == "no":
        assert found["tuned_on_labels"] == pytest.approx(confmax.maximize("f1", P, y).label_value)
        other = document(
            "tune", "t.parquet", "--label", "y", "--metric", "f1", "-o", "other.json", "--positive", "false"
        )
        assert other["classes"] == [True, False]


@pytest.mark.parametrize(
    ("own", "labels"),
    [
        (["1", "2", "0"], [1, 2, 0]),
        (["1.0", "2.0", "0.0"], [1, 2, 0]),
        (["true", "false"], [True, False]),
        (["Yes", "No", "maybe"], ["yes", "no", "maybe"]),
        (list(np.array(["b", "a", "c"])), ["b", "a", "c"]),
    ],
)
def test_estimators_find_the_classes_of_a_rule(own, labels):
    from sklearn.linear_model import LogisticRegression

    from confmax.estimators import FixedRuleClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.array(labels)[np.arange(300) % len(labels)]
    weights = np.arange(1, len(own) + 1)
    fitted = FixedRuleClassifier(LogisticRegression(), confmax.DecisionRule.from_weights(weights, classes=own)).fit(
        X, y
    )
    weight_of = dict(zip(labels, weights, strict=True))
    scores = fitted.predict_proba(X) * [weight_of[name] for name in fitted.classes_.tolist()]
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[scores.argmax(axis=1)])
    assert fitted.rule_.class_names == tuple(fitted.classes_.tolist())


# --- masks -----------------------------------------------------------------------------------------------------------


def test_masked_entries_are_refused():
    P, y = drawn(3)
    weight = np.ones(N)
    hidden = np.arange(N) == 5
    rule = confmax.DecisionRule.from_weights([1, 2, 3])
    mixed = confmax.DecisionRule(Gains.reduced([[1, 2, 3], [3, 1, 1]]), np.array([0.5, 0.5]), (0, 1, 2))
    masked_P = np.ma.masked_array(P, np.tile(hidden[:, None], 3))
    calls = {
        "proba": [lambda: confmax.maximize("g_mean", masked_P, y), lambda: rule.predict(masked_P)],
        "y": [lambda: confmax.maximize("g_mean", P, np.ma.masked_array(y, hidden))],
        "sample_weight": [lambda: confmax.maximize("g_mean", P, y, sample_weight=np.ma.masked_array(weight, hidden))],
        "keys": [lambda: mixed.predict(P, keys=np.ma.masked_array(np.arange(N), hidden))],
    }
    for name, each in calls.items():
        for call in each:
            with pytest.raises(ValueError, match=f"row 5 of {name} is masked, and masked values are not used; drop"):
                call()
    with pytest.raises(ValueError, match="finite"):
        metrics.get("linear", cost=np.ma.masked_array(np.eye(2), np.eye(2)))
    # nothing is hidden by a mask without entries
    found = confmax.maximize("g_mean", np.ma.masked_array(P), np.ma.masked_array(y), sample_weight=np.ma.array(weight))
    assert found.value == confmax.maximize("g_mean", P, y, sample_weight=weight).value


def test_estimators_refuse_masks():
    from sklearn.linear_model import LogisticRegression

    X, y = np.random.default_rng(0).normal(size=(90, 2)), np.arange(90) % 3
    model = confmax.MetricClassifierCV(LogisticRegression())
    hidden = np.arange(90) == 7
    with pytest.raises(ValueError, match="row 7 of y is masked"):
        model.fit(X, np.ma.masked_array(y, hidden))
    with pytest.raises(ValueError, match="row 7 of sample_weight is masked"):
        model.fit(X, y, sample_weight=np.ma.masked_array(np.ones(90), hidden))
