"""Labels that speak against the order of the columns: a warning that names a better order."""

import warnings

import numpy as np
import pytest

import confmax
from tests.column_helpers import N, drawn
from tests.helpers import labels_drawn

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def test_columns_in_another_order_are_doubted():
    P, y = drawn(4)
    turned = P[:, [1, 2, 3, 0]]
    sentence = (
        r"the log loss of the probabilities is \d\.\d\d, larger than that of the class shares, \d\.\d\d: the columns "
        r"are probably in another order than the classes \(in the order 1, 2, 3, 0 the log loss is \d\.\d\d\); name "
        r"the columns"
    )
    weight = np.random.default_rng(1).random(N)
    for settings in ({}, {"calibration": None}, {"sample_weight": weight}, {"confusion": "labels"}):
        with pytest.warns(UserWarning, match=sentence):
            confmax.maximize("macro_f1", turned, y, **settings)
        confmax.maximize("macro_f1", P, y, **settings)  # warnings are errors
    confmax.maximize("macro_f1", turned)  # no labels, no doubt
    with pytest.warns(UserWarning, match=sentence):
        confmax.score("macro_f1", turned, y, n_replicates=0)


@pytest.mark.parametrize("kind", ["array", "opened", "torch"])
def test_every_kind_of_table_is_doubted(kind, tmp_path):
    P, y = drawn(3)
    turned, labels = P[:, [1, 2, 0]], y
    if kind == "opened":
        np.save(tmp_path / "p.npy", turned)
        np.save(tmp_path / "y.npy", y)
        turned, labels = confmax.open_table(tmp_path / "p.npy", label=tmp_path / "y.npy"), None
    elif kind == "torch":
        torch = pytest.importorskip("torch")
        turned, labels = torch.from_numpy(turned), torch.from_numpy(y)
    sentence = r"columns are probably in another order than the classes \(in the order 1, 2, 0 the"
    with pytest.warns(UserWarning, match=sentence):
        confmax.maximize("g_mean", turned, labels)


def test_an_overconfident_model_in_the_right_order_is_told_so():
    P, y = drawn(3)
    sure = np.eye(3)[P.argmax(axis=1)]
    with pytest.warns(UserWarning, match="no other order of the columns fits better, so the model is badly overconf"):
        confmax.maximize("macro_f1", sure, y, calibration=None)


def warned(call):
    """Return what a call warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught]


def test_honest_probabilities_are_not_doubted():
    """Small samples of calibrated probabilities: a false alarm would be an error here. Columns are right throughout."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        P = rng.dirichlet(rng.uniform(0.5, 3.0, 3), 40)
        y = labels_drawn(P, rng)
        if len(np.unique(y)) == 3:
            said = warned(lambda P=P, y=y: confmax.maximize("accuracy", P, y, calibration=None, confusion="labels"))
            alarms += any("log loss" in each for each in said)
    assert alarms <= 1


@pytest.mark.parametrize(("K", "calibration"), [(2, "auto"), (3, "vector"), (5, "auto")])
def test_labels_of_other_rows_are_doubted(K, calibration):
    """Calibration learns the class shares, so that its log loss hides that the probabilities tell nothing."""
    P, y = drawn(K)
    other = np.random.default_rng(0).permutation(y)
    sentence = (
        r"^the log loss of the probabilities is \d\.\d\d, larger than that of the class shares, \d\.\d\d, and after "
        r"calibration the probabilities tell nothing about y: are the rows of y and proba in the same order\?$"
    )
    weight = np.random.default_rng(1).random(N)
    for settings in ({}, {"confusion": "labels"}, {"sample_weight": weight}):
        with pytest.warns(UserWarning, match=sentence):
            confmax.maximize("balanced_accuracy", P, other, calibration=calibration, **settings)
        confmax.maximize("balanced_accuracy", P, y, calibration=calibration, **settings)  # warnings are errors
    with pytest.warns(UserWarning, match=sentence):
        confmax.maximize("balanced_accuracy", pd.DataFrame(P), pd.Series(other), calibration=calibration)


@pytest.mark.parametrize("n", [60, 3000])
def test_weak_models_are_not_doubted(n):
    """Honest probabilities that are little better than the class shares."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        p = 1 / (1 + np.exp(-1 - 0.3 * rng.normal(size=n)))
        P, y = np.column_stack([1 - p, p]), (rng.random(n) < p).astype(int)
        said = warned(lambda P=P, y=y: confmax.maximize("accuracy", P, y, confusion="labels"))
        assert not any("tell nothing" in each for each in said)


@pytest.mark.usefixtures("inside")
def test_the_command_line_doubts():
    from tests.cli_helpers import run

    P, y = drawn(3)
    np.savez("t.npz", p=P[:, [1, 2, 0]], y=y)
    told = "the columns are probably in another order than the classes (in the order 1, 2, 0 the log loss is"
    for command in (
        ("tune", "--metric", "macro_f1", "-o", "rule.json"),
        ("score", "--replicates", "0"),
        ("compare", "--metric", "macro_f1", "--replicates", "0"),
    ):
        _, stderr = run(command[0], "t.npz", "--label", "y", *command[1:])
        assert stderr.count(told) == 1
        assert command[0] != "tune" or "pass --classes A,B,C with the names in column order" in stderr


# --- rows in another order --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "what"),
    [(np.arange(N)[::-1], "y"), ([f"case {k}" for k in range(N)], "sample_weight")],
    ids=["y", "weight"],
)
def test_rows_of_another_order_are_refused(index, what):
    """A pandas index names the rows; where it is no default one, another order of the same rows is a mistake."""
    P, y = drawn(3)
    frame = pd.DataFrame(P, index=index)
    given = {"y": pd.Series(y, index=index), "sample_weight": pd.Series(np.ones(N), index=index)}
    decided = confmax.maximize("macro_f1", frame, **given).predict(frame)
    np.testing.assert_array_equal(decided, confmax.maximize("macro_f1", P, y).predict(P))
    given[what] = given[what].iloc[np.roll(np.arange(N), 1)]
    sentence = (
        rf"^the index of {what} holds the rows of proba in another order: row 0 is .* in proba and .* in {what}.*; "
    )
    with pytest.raises(
        ValueError, match=sentence + rf"pass {what}.loc\[proba.index\] if .*, or {what}.to_numpy\(\) if"
    ):
        confmax.maximize("macro_f1", frame, **given)


def test_an_index_that_only_counts_says_nothing():
    """`cross_val_predict` on shuffled rows returns them in the order of the labels, without their index."""
    P, y = drawn(3)
    shuffled = np.random.default_rng(0).permutation(N)
    labels = pd.Series(y, index=shuffled)
    assert confmax.maximize("macro_f1", pd.DataFrame(P), labels).rule == confmax.maximize("macro_f1", P, y).rule
    with pytest.warns(UserWarning, match="the rows of y .*in another order than those of proba"):
        confmax.maximize("macro_f1", P * 0.999 + 0.001 / 3, y[shuffled], calibration=None)


def test_estimators_doubt_once():
    from sklearn.linear_model import LogisticRegression

    class Turned(LogisticRegression):
        def predict_proba(self, X):
            return np.roll(super().predict_proba(X), 1, axis=1)

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 2)) + 2 * y[:, None]
    said = warned(lambda: confmax.MetricClassifierCV(Turned()).fit(X, y))
    assert sum("the columns are probably in another order" in each for each in said) == 1
