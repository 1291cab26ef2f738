"""Labels that are missing, in every form that has them: one sentence names the row, whatever reads them."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import confmax
from tests.cli_helpers import cli, refusal

N, ROW = 60, 7
DRAW = np.random.default_rng(0)
P = DRAW.dirichlet([2, 1, 1], N)
CODES = (P.cumsum(axis=1) > DRAW.random((N, 1))).argmax(axis=1)
NAMES = np.array(list("abc"))[CODES]
RULES = {
    names: confmax.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=names) for names in ((0, 1, 2), tuple("abc"))
}


def without(values, dtype, missing):
    """Return labels (n,) of which one is missing."""
    labels = pd.Series(values, dtype=dtype)
    labels.iloc[ROW] = missing
    return labels


MISSING = {
    "string": without(NAMES, "string", pd.NA),
    "Int64": without(CODES, "Int64", pd.NA),
    "Float64": without(CODES.astype(float), "Float64", pd.NA),
    "category": without(NAMES, "category", np.nan),
    "category of integers": without(CODES, "category", np.nan),
    "ordered category": without(NAMES, pd.CategoricalDtype(list("abc"), ordered=True), np.nan),
    "floats": without(CODES.astype(float), float, np.nan),
    **{f"objects, {value}": without(NAMES, object, value) for value in (None, np.nan, pd.NA, pd.NaT)},
    "a list": [None if row == ROW else label for row, label in enumerate(NAMES.tolist())],
    "a list of integers": [None if row == ROW else label for row, label in enumerate(CODES.tolist())],
}


def classes_of(labels):
    return tuple("abc") if isinstance(labels[0], str) else (0, 1, 2)


READERS = {
    "maximize": lambda y: confmax.maximize("macro_f1", P, y),
    "maximize, classes": lambda y: confmax.maximize("macro_f1", P, y, classes=classes_of(y)),
    "score": lambda y: confmax.score("macro_f1", P, y, RULES[classes_of(y)]),
    "frontier": lambda y: confmax.frontier("macro_f1", f"rate[{classes_of(y)[0]}] <=", P, y, levels=2),
    "cross-validated": lambda y: confmax.MetricClassifierCV(LogisticRegression()).fit(P, y),
    "fixed rule": lambda y: confmax.FixedRuleClassifier(LogisticRegression(), RULES[classes_of(y)]).fit(P, y),
}


@pytest.mark.parametrize("labels", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_the_row_is_named(read, labels):
    with pytest.raises(ValueError, match=rf"^row {ROW} of y has no label; drop such rows(, or leave y out)?$"):
        read(labels)


@pytest.mark.parametrize("dtype", ["boolean", object, "category"])
def test_truth_values_may_be_missing_too(dtype):
    labels = without(CODES > 0, dtype, pd.NA if dtype == "boolean" else None)
    two = np.column_stack([P[:, 0], 1.0 - P[:, 0]])
    for classes in (None, (False, True)):
        with pytest.raises(ValueError, match=f"^row {ROW} of y has no label"):
            confmax.maximize("f1", two, labels, classes=classes)
    with pytest.raises(ValueError, match=f"^row {ROW} of y has no label"):
        confmax.MetricClassifierCV(LogisticRegression()).fit(P, labels)


def test_a_frontier_refuses_them_on_other_rows():
    found = confmax.frontier("macro_f1", "rate[a] <=", P, NAMES, levels=2)
    with pytest.raises(ValueError, match=f"^row {ROW} of y has no label"):
        found.on(P, MISSING["string"])


@pytest.mark.parametrize("command", ["tune", "compare", "frontier", "score"])
@pytest.mark.parametrize("kind", ["string", "Int64", "category", "floats"])
def test_a_command_names_the_column_too(tmp_path, command, kind):
    pytest.importorskip("pyarrow")
    assert command in cli.confmax.commands
    path = tmp_path / "t.parquet"
    labels = MISSING[kind]
    classes = classes_of(labels)
    pd.DataFrame({**{str(name): P[:, k] for k, name in enumerate(classes)}, "y": labels}).to_parquet(path)
    rule = tmp_path / "rule.json"
    RULES[classes].save(rule)
    more = {"frontier": ["--over", f"rate[{classes[0]}] <="], "score": ["--rule", rule]}.get(command, [])
    said = refusal(command, path, "--label", "y", "--metric", "macro_f1", *more)
    assert re.search(rf"row {ROW} of label column 'y' of .* is empty; drop such rows", said)
