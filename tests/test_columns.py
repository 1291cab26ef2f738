"""Which column is which class: the same names through frames, files, Dask, rules, cost tables and the command line."""

import warnings

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.confusion import Gains
from confmax.oracle import make_table

try:
    from confmax.oracle._columns import find
except ImportError:
    find = None

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N = 400
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


def drawn(K, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(1.2, 0.5, K), N)
    return P, (P.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)


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


FRAMES = [as_pandas, as_polars, as_arrow]


def decided(rule, proba):
    """Return the names of decisions."""
    return np.asarray(rule.classes)[np.asarray(rule.decision_probabilities(proba)).argmax(axis=1)].astype(object)


def expected(case, metric="macro_f1"):
    """Return the solution on the array, whose columns are named by hand."""
    P, _, y = given(case)
    return confmax.maximize(metric, P, y, classes=case[0])


# --- the same answer, whatever the order of the columns --------------------------------------------------------------


@every_case
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("turned", [False, True])
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


@every_case
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("in_parts", ["yes", "no"])
def test_command_line(case, kind, in_parts, tmp_path, monkeypatch):
    from tests.cli_helpers import document, run

    if kind == "csv" and in_parts == "yes":
        pytest.skip("CSV is read whole")
    monkeypatch.chdir(tmp_path)
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
    assert found["columns"] == [names[[str(v) for v in case[0]].index(str(name))] for name in found["classes"]]
    if in_parts == "no":
        assert found["tuned_on_labels"] == pytest.approx(truth.label_value, abs=1e-9)
        run("apply", "rule.json", path, "-o", "out.parquet")
        made = pq.read_table("out.parquet").column("decision").to_pylist()
        rule = confmax.DecisionRule.load("rule.json")
        assert list(map(str, made)) == list(map(str, decided(rule, as_pandas(P, names))))


@pytest.mark.parametrize("name", ["prefix", "whole floats", "booleans"])
def test_dask_frames(name):
    pytest.importorskip("distributed")
    import dask.dataframe as dd

    case = CASES[name]
    P, names, y = given(case)
    order = TURNED[len(names)]
    frame = as_pandas(P[:, order], [names[k] for k in order])
    held = dd.from_pandas(frame.assign(label=y), npartitions=3)
    solution, truth = confmax.maximize("macro_f1", held, "label"), expected(case)
    assert set(solution.rule.class_names) == set(case[0])
    rows = dd.from_pandas(frame, npartitions=3)
    np.testing.assert_array_equal(truth.rule.predict(rows).compute(), truth.rule.predict(P))
    np.testing.assert_array_equal(
        truth.rule.decision_probabilities(rows).compute(), truth.rule.decision_probabilities(P)
    )


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


@pytest.mark.parametrize("K", [2, 3, 7])
@pytest.mark.parametrize("seed", range(5))
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
    np.testing.assert_array_equal(table.proba[:, 0], P[kept][:, 1])
    with pytest.raises(ValueError, match="column 'other' of proba is named like no label and the labels are numbers"):
        make_table(pd.DataFrame(P[kept], columns=["0", "1", "other"]), y[kept])


def test_without_labels_the_columns_name_the_classes():
    P, _ = drawn(3)
    rule = confmax.maximize("g_mean", pd.DataFrame(P, columns=["b", "c", "a"])).rule
    assert rule.class_names == ("b", "c", "a")
    assert confmax.maximize("g_mean", pd.DataFrame(P)).rule.class_names == (0, 1, 2)
    found = make_table(pd.DataFrame(P, columns=[7, 5, 6]))
    assert found.classes == (5, 6, 7)
    np.testing.assert_array_equal(found.proba, P[:, [1, 2, 0]])


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
    "one class twice": (["a", "a", "c"], "the class 'a' is named by two columns of proba ('a' and 'a'); drop one"),
    "twice but for case": (["A", "a ", "c"], "the class 'a' is named by two columns of proba ('A' and 'a '); drop one"),
}  # fmt: skip


@pytest.mark.parametrize(("names", "sentence"), REFUSED.values(), ids=REFUSED)
def test_names_that_fit_in_part_are_refused(names, sentence, tmp_path):
    P, y = drawn(3)
    values = np.array(["a", "b", "c"])
    frame = pd.DataFrame(P, columns=names)
    rule = confmax.DecisionRule.from_weights([1, 2, 3], classes=list(values))
    for call in (
        lambda: confmax.maximize("macro_f1", frame, values[y]),
        lambda: confmax.score("macro_f1", frame, values[y], rule),
        lambda: rule.predict(frame),
        lambda: rule.decision_probabilities(frame),
    ):
        with pytest.raises(ValueError) as error:
            call()
        assert sentence in str(error.value)
    if len(set(names)) == 3:
        pq.write_table(pa.table({**{n: P[:, k] for k, n in enumerate(names)}, "y": values[y]}), tmp_path / "a.parquet")
        opened = confmax.open_table(tmp_path / "a.parquet", label="y")
        for call in (lambda: confmax.maximize("macro_f1", opened), lambda: rule.predict(opened)):
            with pytest.raises(ValueError) as error:
                call()
            assert sentence in str(error.value)


def test_an_order_that_is_stated_must_not_contradict_the_names():
    P, y = drawn(3)
    values = np.array(["a", "b", "c"])
    frame = pd.DataFrame(P, columns=["a", "b", "z"])
    np.testing.assert_array_equal(make_table(frame, values[y], classes=["a", "b", "c"]).proba, P)
    with pytest.raises(ValueError, match="no class like the column 'z'"):
        make_table(frame, values[y], classes=["b", "a", "c"])


def test_numbers_partly_named_are_refused():
    """Columns that count from one, for classes that count from zero, or the other way round: nobody knows which."""
    P, y = drawn(3)
    for names in ([1, 2, 3], ["p1", "p2", "p3"]):
        with pytest.raises(
            ValueError, match=r"no column is named like the class 0, and no class like the column 'p?3'"
        ):
            make_table(pd.DataFrame(P, columns=names), y)


def test_one_spelling_or_two():
    """The exact name wins; two prefixes around the same classes do not tell which columns are meant."""
    find_ = find or pytest.fail
    assert find_(["Yes", "yes", "no"], ["yes", "no"]).places == (1, 2)
    assert find_(["1", "1.0", "2"], [1, 2]).places == (0, 2)
    assert find_(["a", "A"], ["A", "a"]).places == (1, 0)
    assert find_(["p_yes", "p_no", "q_yes", "q_no"], ["no", "yes"], whole=False).twice == ("no", "p_no", "q_no")
    assert find_(["id", "p_yes", "p_no", "age"], ["no", "yes"], whole=False).places == (2, 1)
    assert find_(["maybe", "p_yes", "p_no"], ["no", "yes"]).places is None  # the third column has another name
    assert find_(["happiness", "yes_p"], ["yes", "no"]).places is None
    with pytest.raises(ValueError, match="the class 1 is named by two columns of proba"):
        make_table(pd.DataFrame(drawn(3)[0], columns=["1", "1.0", "2"]), np.r_[1, np.full(N - 1, 2)])


# --- the command line ------------------------------------------------------------------------------------------------


def test_command_line_refuses_and_warns(tmp_path, monkeypatch):
    from tests.cli_helpers import run

    monkeypatch.chdir(tmp_path)
    P, y = drawn(3)
    values = np.array(["a", "b", "c"])

    def write(names, labels):
        pd.DataFrame({**{n: P[:, k] for k, n in enumerate(names)}, "y": labels}).to_csv("t.csv", index=False)
        return ["tune", "t.csv", "--label", "y", "--metric", "macro_f1", "-o", "rule.json"]

    _, stderr = run(*write(["a", "b", "z"], values[y]), code=2)
    assert "t.csv has no column 'c'" in stderr
    _, stderr = run(*write(["p_a", "p_b", "p_z"], values[y]), code=2)
    assert "some of the columns p_a, p_b, p_z are named like classes (a, b, c) and some are not" in stderr
    _, stderr = run(*write(["A", "a ", "c"], values[y]), code=2)
    assert "the class a is named by two columns of t.csv (A and a ); name the columns" in stderr
    _, stderr = run(*write(["u", "v", "w"], y))
    assert "no column is named like a class: sorted labels were taken in column order (u = 0, v = 1, w = 2)" in stderr
    _, stderr = run("apply", "rule.json", "t.csv", "--columns", "u,v,w", "-o", "out.csv")
    assert stderr.count("no column is named") == 0
    pd.DataFrame(P, columns=["u", "v", "w"]).to_csv("new.csv", index=False)
    _, stderr = run("apply", "rule.json", "new.csv", "-o", "out2.csv")
    assert "the rule's classes were taken in column order (u = 0, v = 1, w = 2); --columns sets it" in stderr
    # a stated order needs no names
    _, stderr = run(*write(["a", "b", "z"], values[y]), "--columns", "a,b,z", "--classes", "a,b,c")
    assert stderr.count("warning") == 0


@pytest.mark.parametrize("in_parts", ["yes", "no"])
def test_command_line_takes_classes_as_they_are_written(in_parts, tmp_path, monkeypatch):
    from tests.cli_helpers import document

    monkeypatch.chdir(tmp_path)
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


# --- estimators ------------------------------------------------------------------------------------------------------


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


# --- tables of costs -------------------------------------------------------------------------------------------------

STATES = ["low", "middle", "high"]
COSTS = pd.DataFrame([[0, 1, 9, 0.4], [2, 0, 1, 0.4], [7, 3, 0, 0.4]], index=STATES, columns=[*STATES, "ask"])


def forms_of_costs():
    square = COSTS[STATES]
    return {
        "reversed": COSTS.iloc[::-1, ::-1],
        "shuffled": COSTS.iloc[[1, 0, 2], [3, 2, 0, 1]],
        "columns only": COSTS.iloc[[2, 0, 1], [2, 0, 3, 1]].reset_index(drop=True),
        "rows only": pd.DataFrame(square.iloc[[2, 0, 1], [2, 0, 1]].to_numpy(), index=["high", "low", "middle"]),
        "in capitals": square.iloc[[1, 2, 0], [0, 2, 1]].rename(index=str.upper, columns=str.title).rename(
            columns=str.upper
        ),
    }  # fmt: skip


@pytest.mark.parametrize("form", forms_of_costs())
@pytest.mark.parametrize("key", ["cost", "gain"])
def test_named_costs_follow_their_names(form, key):
    P, y = drawn(3)
    table = forms_of_costs()[form]
    further = table.shape[1] == 4
    whole = (COSTS if further else COSTS[STATES]) * (1 if key == "cost" else -1)
    plain = metrics.get("linear", **{key: whole.to_numpy()})
    truth = confmax.maximize(plain, P, np.array(STATES)[y], classes=STATES)
    metric = metrics.get("linear", **{key: table * (1 if key == "cost" else -1)})
    order = np.argsort(STATES)
    # the table of probabilities is in the order of sorted names, of which nobody need be told
    found = confmax.maximize(metric, P[:, order], np.array(STATES)[y])
    assert found.label_value == pytest.approx(truth.label_value, abs=1e-9)
    assert found.rule.class_names == (*sorted(STATES), *(["ask"] if further else []))
    same = np.array([str(name).replace("decision 3", "ask") for name in decided(truth.rule, P)])
    np.testing.assert_array_equal(decided(found.rule, P[:, order]).astype(str), same)
    scored = confmax.score([metric, "accuracy"], P[:, order], np.array(STATES)[y], found, n_replicates=0)
    assert scored.estimate("rule", "linear").value == pytest.approx(truth.label_value, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        "high,low,middle\n0,7,3\n9,0,1\n1,2,0\n",
        "high,0,7,3\nlow,9,0,1\nmiddle,1,2,0\n",
        ",High,LOW,middle\nhigh,0,7,3\nlow,9,0,1\nMiddle,1,2,0\n",
    ],
)
def test_costs_in_a_file_follow_their_names(text, tmp_path):
    """With names along one axis alone, the other axis has their order, as in a data frame."""
    tasks = pytest.importorskip("confmax.cli.tasks")
    (tmp_path / "costs.csv").write_text(text)
    expected = COSTS.loc[STATES, STATES].to_numpy().tolist()
    assert tasks.read_costs(tmp_path / "costs.csv", STATES) == (expected, (), True)


def test_value_of_a_named_table_is_in_its_own_order():
    metric = metrics.get("linear", cost=COSTS.iloc[::-1, [0, 2, 1]])
    C = np.array([[5, 1, 0], [2, 4, 1], [0, 1, 6]])
    own = COSTS.loc[["high", "middle", "low"], ["high", "middle", "low"]].to_numpy()
    assert metric.value(C) == pytest.approx(-(own * C).sum() / C.sum())


def test_estimators_take_named_costs():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = rng.normal(size=(400, 2)) + y[:, None]
    names = np.array(STATES)
    square = COSTS[STATES]
    model = confmax.MetricClassifierCV(LogisticRegression(), metric=metrics.get("linear", cost=square.iloc[::-1, ::-1]))
    fitted = model.fit(X, names[y])
    made = fitted.predict(X)
    paid = -np.mean([square.loc[true, name] for true, name in zip(names[y], made, strict=True)])
    assert fitted.score(X, names[y]) == pytest.approx(paid)
    other = confmax.MetricClassifierCV(LogisticRegression(), metric=metrics.get("linear", cost=square.to_numpy()))
    np.testing.assert_array_equal(made, names[other.fit(X, y).predict(X)])


def test_named_costs_of_other_classes_are_refused():
    P, y = drawn(3)
    metric = metrics.get("linear", cost=COSTS.rename(columns={"high": "tall"}, index={"high": "tall"}))
    sentence = (
        "the header of the table of costs names low, middle, tall, ask; it must name each class once: high, low, middle"
    )
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(metric, P, np.array(STATES)[y])
    with pytest.raises(ValueError, match="has the rows low, middle, high and the columns low, middle, tall, ask; name"):
        metrics.get("linear", cost=COSTS.rename(columns={"high": "tall"}))
    with pytest.raises(ValueError, match="depends on the order of the classes"):
        confmax.maximize(metrics.get("linear", cost=COSTS[STATES].to_numpy()), P, np.array(STATES)[y])


def test_polars_costs_are_named_by_their_columns():
    pl = pytest.importorskip("polars")
    P, y = drawn(3)
    turned = COSTS[STATES].iloc[::-1, ::-1]
    metric = metrics.get("linear", cost=pl.DataFrame({name: turned[name].to_numpy() for name in turned}))
    truth = confmax.maximize(metrics.get("linear", cost=COSTS[STATES].to_numpy()), P, y)
    found = confmax.maximize(metric, P, np.array(STATES)[y], classes=STATES)
    assert found.label_value == pytest.approx(truth.label_value)


# --- functions of the matrix -----------------------------------------------------------------------------------------

BY_ORDER = {
    "a class": lambda C: C[2, 2] / C[2].sum(),
    "weights": lambda C: float(np.arange(3) @ np.diag(C)),
    "a neighbour": lambda C: -C[0, 1] - C[1, 0],
    "the last": lambda C: C[-1, -1],
}
BY_NONE = {
    "accuracy": lambda C: np.trace(C),
    "smallest recall": lambda C: np.min(np.diag(C) / C.sum(axis=1)),
    "entropy": lambda C: float((C * np.log(np.maximum(C, 1e-300))).sum()),
    "determinant": lambda C: np.linalg.det(C + np.eye(3)),
}


@pytest.mark.filterwarnings("ignore:.* cannot be differentiated automatically")
def test_functions_of_an_order_need_it():
    P, y = drawn(3)
    values = np.array(["a", "b", "c"])
    for psi in BY_ORDER.values():
        with pytest.raises(ValueError, match="depends on the order of the classes and y holds names"):
            confmax.maximize(psi, P, values[y])
        named = confmax.maximize(psi, P, values[y], classes=["a", "b", "c"])
        assert confmax.maximize(psi, P, y).value == pytest.approx(named.value)
    for psi in BY_NONE.values():
        assert np.isfinite(confmax.maximize(psi, P, values[y]).value)


def test_the_order_is_tried_at_the_number_of_classes():
    """The fourth class is special: no table of two or three tells, nor one of four where it is not read."""
    P, y = drawn(4)
    values = np.array(["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="depends on the order of the classes"):
        confmax.maximize(lambda C: C[3:, 3:].sum() + np.trace(C), P, values[y])
    W = 1 - np.eye(4)
    assert np.isfinite(confmax.maximize(lambda C: -(W * C).sum(), P, values[y]).value)


def test_estimators_refuse_functions_of_an_order():
    from sklearn.linear_model import LogisticRegression

    X, y = np.random.default_rng(0).normal(size=(90, 2)), np.array(["a", "b", "c"] * 30)
    model = confmax.MetricClassifierCV(LogisticRegression(), metric=BY_ORDER["a class"])
    with pytest.raises(ValueError, match="depends on the order of the classes and y holds names"):
        model.fit(X, y)
    model.set_params(labels=["c", "a", "b"]).fit(X, y)


# --- ordered categoricals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [pd.Categorical, lambda *a, **k: pd.Series(pd.Categorical(*a, **k))])
def test_an_ordered_categorical_states_the_order(form):
    P, y = drawn(3)
    names = np.array(STATES)[y]
    labels = form(names, categories=STATES, ordered=True)
    truth = confmax.maximize("quadratic_kappa", P, names, classes=STATES)
    assert confmax.maximize("quadratic_kappa", P, labels).value == pytest.approx(truth.value)
    order = np.argsort(STATES)
    frame = pd.DataFrame(P[:, order], columns=sorted(STATES))
    found = confmax.maximize("quadratic_kappa", frame, labels)
    assert (found.value, found.rule.class_names) == (pytest.approx(truth.value), tuple(STATES))
    scored = confmax.score("quadratic_kappa", P, labels, n_replicates=0)
    assert scored.estimate("argmax").value == confmax.score(
        "quadratic_kappa", P, names, classes=STATES, n_replicates=0
    ).estimate("argmax").value  # fmt: skip
    with pytest.raises(ValueError, match="depends on the order"):
        confmax.maximize("quadratic_kappa", P, form(names, categories=STATES))


def test_categories_without_rows_are_classes_where_they_have_columns():
    P, y = drawn(3)
    kept = y != 1
    labels = pd.Categorical(np.array(STATES)[y[kept]], categories=STATES, ordered=True)
    assert confmax.maximize("accuracy", P[kept], labels).rule.class_names == tuple(STATES)
    two = P[kept][:, [0, 2]] / P[kept][:, [0, 2]].sum(axis=1, keepdims=True)
    assert confmax.maximize("f1", two, labels).rule.class_names == ("low", "high")


def test_columns_in_the_order_of_sorted_names_beside_a_categorical():
    """scikit-learn sorts: what fits the labels better in that order was not in the order of the categories."""
    P, y = drawn(3)
    labels = pd.Categorical(np.array(STATES)[y], categories=STATES, ordered=True)
    with pytest.warns(
        UserWarning,
        match="taken in the order low, middle, high, and fit the labels better in the order high, low, middle",
    ):
        confmax.maximize("quadratic_kappa", P[:, np.argsort(STATES)], labels)


def test_estimators_take_the_order_of_a_categorical():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = rng.normal(size=(400, 2)) + y[:, None]
    names = np.array(STATES)[y]
    model = confmax.MetricClassifierCV(LogisticRegression(), metric="quadratic_kappa")
    truth = confmax.MetricClassifierCV(LogisticRegression(), metric="quadratic_kappa", labels=STATES).fit(X, names)
    found = model.fit(X, pd.Categorical(names, categories=[*STATES, "never"], ordered=True))
    assert found.solution_.value == pytest.approx(truth.solution_.value)
    np.testing.assert_array_equal(found.predict(X), truth.predict(X))
    with pytest.raises(ValueError, match="depends on the order"):
        model.fit(X, names)


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
            with pytest.raises(
                ValueError, match=f"row 5 of {name} is masked, and what is under a mask is not used; drop"
            ):
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


# --- what the labels say of the order --------------------------------------------------------------------------------


def test_columns_in_another_order_are_doubted():
    P, y = drawn(4)
    turned = P[:, [1, 2, 3, 0]]
    sentence = (
        r"the log loss of the probabilities is \d\.\d\d, that of the class shares alone \d\.\d\d: the columns are "
        r"probably in another order than the classes: as 1, 2, 3, 0 they have \d\.\d\d; name the columns"
    )
    weight = np.random.default_rng(1).random(N)
    for settings in ({}, {"calibration": None}, {"sample_weight": weight}, {"confusion": "labels"}):
        with pytest.warns(UserWarning, match=sentence):
            confmax.maximize("macro_f1", turned, y, **settings)
        confmax.maximize("macro_f1", P, y, **settings)  # warnings are errors
    confmax.maximize("macro_f1", turned)  # no labels, no doubt
    with pytest.warns(UserWarning, match=sentence):
        confmax.score("macro_f1", turned, y, n_replicates=0)


def test_every_kind_of_table_is_doubted(tmp_path):
    P, y = drawn(3)
    turned = P[:, [1, 2, 0]]
    np.save(tmp_path / "p.npy", turned)
    np.save(tmp_path / "y.npy", y)
    given = [(turned, y), (confmax.open_table(tmp_path / "p.npy", label=tmp_path / "y.npy"), None)]
    try:
        import torch
    except ImportError:
        pass
    else:
        given.append((torch.from_numpy(turned), torch.from_numpy(y)))
    for proba, labels in given:
        with pytest.warns(UserWarning, match="columns are probably in another order than the classes: as 1, 2, 0"):
            confmax.maximize("g_mean", proba, labels)
    sparse = pytest.importorskip("scipy.sparse")
    confmax.maximize("g_mean", sparse.csr_array(turned), y)


def test_an_overconfident_model_in_the_right_order_is_told_so():
    P, y = drawn(3)
    sure = np.eye(3)[P.argmax(axis=1)]
    with pytest.warns(UserWarning, match="no other order of the columns fits better, so the model is badly overconf"):
        confmax.maximize("macro_f1", sure, y, calibration=None)


def test_honest_probabilities_are_not_doubted():
    """Small samples of calibrated probabilities: a false alarm would be an error here. Columns are right throughout."""
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        P = rng.dirichlet(rng.uniform(0.5, 3.0, 3), 40)
        y = (P.cumsum(axis=1) > rng.random((40, 1))).argmax(axis=1)
        if len(np.unique(y)) == 3:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                confmax.maximize("accuracy", P, y, calibration=None, confusion="labels")
            alarms += any("log loss" in str(each.message) for each in caught)
    assert alarms <= 2


def test_estimators_doubt_once():
    from sklearn.linear_model import LogisticRegression

    class Turned(LogisticRegression):
        def predict_proba(self, X):
            return np.roll(super().predict_proba(X), 1, axis=1)

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 2)) + 2 * y[:, None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        confmax.MetricClassifierCV(Turned()).fit(X, y)
    assert sum("the columns are probably in another order" in str(each.message) for each in caught) == 1


def test_the_command_line_doubts(tmp_path, monkeypatch):
    from tests.cli_helpers import run

    monkeypatch.chdir(tmp_path)
    P, y = drawn(3)
    np.savez("t.npz", p=P[:, [1, 2, 0]], y=y)
    told = "the columns are probably in another order than the classes: as 1, 2, 0 they have"
    _, stderr = run("tune", "t.npz", "--label", "y", "--metric", "macro_f1", "-o", "rule.json")
    assert stderr.count(told) == 1
    assert "give --classes with the names in column order" in stderr
    _, stderr = run("score", "t.npz", "--label", "y", "--replicates", "0")
    assert stderr.count(told) == 1
    _, stderr = run("compare", "t.npz", "--label", "y", "--metric", "macro_f1", "--replicates", "0")
    assert stderr.count(told) == 1
