"""Who states the order of the classes: named cost tables, functions that need it, ordered categoricals."""

import numpy as np
import pytest

import confmax
from confmax import metrics
from tests.column_helpers import decided, drawn

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

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


@pytest.mark.parametrize(("form", "key"), [*((form, "cost") for form in forms_of_costs()), ("shuffled", "gain")])
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
@pytest.mark.filterwarnings("ignore:of the rows")
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


@pytest.mark.filterwarnings("ignore:no row of y has the class:UserWarning")
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
    with pytest.warns(UserWarning, match="assumed to be in the order low, middle, high, but the order of"):
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
