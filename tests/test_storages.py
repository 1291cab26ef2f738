"""Every kind of table gives what the array gives: rules, values, decisions, samples; Spark in its own file."""

import importlib

import numpy as np
import pytest

import confmax
from confmax import DecisionRule
from confmax.calibration import MatrixScaling, Temperature
from confmax.confusion import Gains
from confmax.oracle import make_table
from tests.parts_helpers import cut, labelled
from tests.storages import (
    IN_MEMORY,
    IN_PARTS,
    KINDS,
    LAZY,
    NAMES,
    OPENED,
    N,
    every_kind,
    in_memory,
    laid_out,
    rows_of_all_kinds,
)
from tests.test_predict_labels import CLASSES as PLAIN

MODEL = {"confusion": "model", "calibration": None}
DRAWN = MODEL | {"randomized": True}
LABELS = {"confusion": "labels", "calibration": None}
# each with the metric, whether there are groups, and the settings
QUESTIONS = {
    "by the default": ("macro_f1", False, {}),
    "a certified mixture": ("g_mean", False, DRAWN),
    "the smallest recall": ("min_recall", False, DRAWN),
    "a bound by prices": ("macro_f1", False, DRAWN | {"max_passes": 24}),
    "on labels": ("cohen_kappa", False, LABELS),
    "limits": ("cohen_kappa", False, DRAWN | {"constraints": ["recall[b] >= 0.7", "rate[c] <= 0.4"]}),
    "one class": ("recall[c]", False, MODEL | {"constraints": "precision[c] >= 0.6"}),
    "one class on labels": (
        "recall[c]", False, LABELS | {"constraints": "precision[c] >= 0.5"},
    ),
    "what is open": ("recall[b]", False, DRAWN | {"constraints": ["precision[b] >= 0.5", "rate[c] <= 0.2"]}),
    "abstaining": ("accuracy", False, MODEL | {"abstain": True, "constraints": "coverage >= 0.8"}),
    "abstaining for macro F1": ("macro_f1", False, MODEL | {"abstain": True, "constraints": "coverage >= 0.8"}),
    "abstaining on labels": (
        "accuracy", False,
        LABELS | {"abstain": True, "constraints": "coverage >= 0.8"},
    ),
    "groups": ("accuracy", True, MODEL | {"constraints": "difference(recall[a] | group) <= 0.02"}),
    "groups on labels": (
        "accuracy", True,
        LABELS | {"constraints": "min(recall[a] | group) >= 0.6"},
    ),
}  # fmt: skip


# frames and narrow tensors are read as the others of their kind
@pytest.mark.parametrize(
    ("question", "kind"),
    [
        *((question, kind) for question in QUESTIONS for kind in ("sparse", "tensor", "parts")),
        *(
            (question, kind)
            for question in ("by the default", "groups")
            for kind in ("pandas", "Dask array", "Parquet")
        ),
        *(
            (question, kind)
            for question in ("a certified mixture", "groups on labels")
            for kind in ("float32", "mapped array")
        ),
    ],
)
def test_maximize_finds_the_rule_of_the_array(kind, question, tmp_path):
    metric, grouped, settings = QUESTIONS[question]
    P, y, weight, group = rows_of_all_kinds()
    by_group = {"group": group} if grouped else {}
    table, beside = laid_out(kind, P, y, weight, group if grouped else None, tmp_path)
    if kind == "sparse":
        settings = {"calibration": None} | settings
    whole = confmax.maximize(metric, P, y, sample_weight=weight, classes=NAMES, **by_group, **settings)
    found = confmax.maximize(metric, table, classes=NAMES, **beside, **settings)
    assert found.rule.class_names == whole.rule.class_names and found.rule.groups == whole.rule.groups
    # a search on labels is a local one, which starts elsewhere in parts; other digits lead to other rules as good
    exact = settings.get("confusion") == "model"
    close = 2e-6 if exact else 1e-6 if kind in IN_MEMORY else 0.03
    assert found.value == pytest.approx(whole.value, abs=1e-5 if "float32" in kind and exact else close)
    # in parts no single threshold has a bound
    if exact and kind != "sparse" and not (question == "one class" and kind in IN_PARTS):
        assert (found.upper_bound is None) == (whole.upper_bound is None)
        assert found.upper_bound is None or found.upper_bound == pytest.approx(whole.upper_bound, abs=1e-5)
    # the value is that of the returned rule, counted by hand
    D = found.rule.decision_probabilities(P, **by_group)
    if exact and not grouped:
        same = np.abs(D - whole.rule.decision_probabilities(P)).max(axis=1) < 1e-3
        assert same.mean() > 0.95
    decided = weight @ D[:, :3].sum(axis=1) / weight.sum()
    hit = weight @ D[np.arange(N), np.searchsorted(NAMES, y)] / weight.sum()
    if metric == "accuracy":
        assert found.label_value == pytest.approx(hit / decided, abs=1e-9)
    for one in found.constraints:
        assert one.kept and (one.text != "coverage >= 0.8" or one.value == pytest.approx(decided, abs=1e-9))


# --- what rules decide ------------------------------------------------------------------------------------------------

# eighths: every score of rows in 4096ths is exact, in float32 too
GAINS = {
    "weights": Gains.reduced([1, 0.5, 1.5]),
    "one cut": Gains.reduced([1, 1, 1], [0, 0, 0, 0.625]),
    "weights and offsets": Gains.reduced([1, 0.5, 1.5], [0, 0.5, 0.125, 0.75]),
    "full": Gains.from_matrix([[1, 0, -0.5, 0.5], [0, 1, 0, 0.625], [-1, 0, 1, 0.375]]),
}
ABSTAIN = {
    "names": ("a", "b", "c", "abstain"),
    "numbers": (0, 1, 2, -1),
    "mixed": (0, 1, 2, "ask"),
    "floats": (0.5, 1.0, 2.0, -1.0),
}


def rule_of(gains, names="names", *, weights=(1.0,), calibrator=None):
    called = ABSTAIN[names][: gains.n_decisions]
    abstain = called[-1] if gains.n_decisions > 3 else None
    return DecisionRule(gains, np.array(weights), called, "", 3, calibrator, (), abstain)


@every_kind
@pytest.mark.parametrize("gains", GAINS.values(), ids=GAINS)
def test_decisions_are_the_definition(kind, gains, tmp_path):
    """The last of the largest scores, from the matrix; ties between abstaining and a class are many."""
    P, y, weight, _ = rows_of_all_kinds()
    # a tie with the cut of the second gains
    P[:2] = [[0.625, 0.375, 0.0], [0.0, 0.375, 0.625]]
    scores = P @ gains.matrices()[0]
    expected = gains.n_decisions - 1 - scores[:, ::-1].argmax(axis=1)
    assert set(expected) == set(range(gains.n_decisions))
    rule, (table, _) = rule_of(gains), laid_out(kind, P, y, weight, folder=tmp_path)
    made = [(rule.predict_index(table), expected)]
    if kind not in OPENED:
        made.append((rule.decision_probabilities(table), np.eye(gains.n_decisions)[expected]))
    # a tensor holds no names
    if "tensor" not in kind:
        made.append((rule.predict(table), rule.classes[expected]))
    for found, each in made:
        assert hasattr(found, "compute") == (kind in LAZY)
        np.testing.assert_array_equal(in_memory(found), each)


@every_kind
@pytest.mark.parametrize("calibrator", [None, Temperature(1.6), MatrixScaling(np.eye(3) + 0.1, [0.0, 0.3, -0.2])])
def test_draws_and_calibrations_are_those_of_the_array(kind, calibrator, tmp_path):
    P, y, weight, _ = rows_of_all_kinds()
    gains = Gains.concatenate([GAINS["one cut"], GAINS["weights and offsets"]])
    rule = rule_of(gains, weights=(0.3, 0.7), calibrator=calibrator)
    table, _ = laid_out(kind, P, y, weight, folder=tmp_path)
    same, ids = P.astype(np.float32) if "float32" in kind else P, np.arange(N) * 7
    shares = rule.decision_probabilities(same)
    # some rows are left by one of the two
    assert ((shares[:, 3] > 0) & (shares[:, 3] < 1)).sum() > 20
    pairs = [(rule.predict_index(table), rule.predict_index(same))]
    if kind not in OPENED:
        keys = ids
        if kind == "Dask frame":
            keys = importlib.import_module("dask.dataframe").from_array(ids, chunksize=N // 3)
        keyed = rule.predict_index(same, keys=ids)
        pairs += [(rule.predict_index(table, keys=keys), keyed), (rule.decision_probabilities(table), shares)]
        pairs += [] if "tensor" in kind else [(rule.predict(table, keys=keys), rule.classes[keyed])]
    for found, expected in pairs:
        np.testing.assert_array_equal(in_memory(found), expected)


CLASSES = PLAIN | {
    "names beside abstaining": (ABSTAIN["names"], "<U7"),
    "numbers beside abstaining": (ABSTAIN["numbers"], "int64"),
    "mixed beside abstaining": (ABSTAIN["mixed"], "object"),
    "floats beside abstaining": (ABSTAIN["floats"], "float64"),
}


@pytest.mark.parametrize("kind", ["array", "sparse", "tensor", "Dask array", "Dask frame", "mapped array"])
@pytest.mark.parametrize(("names", "dtype"), CLASSES.values(), ids=CLASSES)
def test_labels_are_in_the_type_of_the_classes(kind, names, dtype, tmp_path):
    P = rows_of_all_kinds()[0]
    gains = GAINS["one cut"] if len(names) > 3 else GAINS["weights"]
    rule = DecisionRule(gains, np.ones(1), names, abstain=names[-1] if len(names) > 3 else None)
    table, _ = laid_out(kind, P, folder=tmp_path)
    if kind == "Dask frame":
        called = list(names[:3]) if all(isinstance(name, str) for name in names) else range(3)
        table = table.rename(columns=dict(zip("abc", called, strict=True)))
        shares = rule.decision_probabilities(table)
        assert list(shares.columns) == list(shares.compute().columns) == list(names)
    expected = [names[k] for k in rule.predict_index(P)]
    assert rule.classes.dtype == np.dtype(dtype)
    if kind == "tensor" and dtype not in ("int64", "float64"):
        with pytest.raises(ValueError, match=r"^a tensor cannot hold class names such as .*; use predict_index"):
            rule.predict(table)
        return
    found = rule.predict(table)
    made = found.compute(scheduler="synchronous") if kind in LAZY else found
    assert found.dtype == made.dtype
    if kind == "tensor":
        assert str(found.dtype) == f"torch.{dtype}" and found.device == table.device
    elif kind != "Dask frame":
        assert found.dtype == np.dtype(dtype)
    assert made.tolist() == expected
    assert [type(label) for label in made.tolist()] == [type(label) for label in expected]


def test_truth_values_of_tensors_are_labels():
    torch = pytest.importorskip("torch")
    rule = DecisionRule.from_weights([1.0, 3.0], classes=[True, False])
    found = rule.predict(torch.tensor([[0.7, 0.3], [0.8, 0.2]]))
    assert found.dtype == torch.bool and found.tolist() == [False, True]


# --- tables in parts --------------------------------------------------------------------------------------------------

BAD = {
    "a number": ({"p": [0.5, np.nan, 0.5]}, "row {}, column 1 of proba is not a finite number"),
    "a sign": ({"p": [1.5, -0.5, 0.0]}, "row {}, column 1 of proba is negative"),
    "a sum": ({"p": [0.5, 0.2, 0.2]}, "row {} of proba sums to 0.9"),
    "no label": ({"y": None}, "row {} of y has no label"),
    "a label": ({"y": "z"}, "row {} of y holds the label 'z'"),
    "a weight": ({"w": -1.0}, "row {} of sample_weight is -1.0"),
}
# of row 417 the part, as its errors call it, and the row there
PARTS = {
    "parts": ("part 3: ", 17),
    "Dask array": ("partition 3: ", 17),
    "Parquet": (r"row group 2 of .*rows\.parquet: ", 77),
    "mapped array": ("rows 0 to 599 of .*npy: ", 417),
}


@pytest.mark.parametrize("fault", BAD)
@pytest.mark.parametrize("kind", PARTS)
def test_a_bad_row_is_named_with_its_part(kind, fault, tmp_path):
    P, y, weight, _ = rows_of_all_kinds()
    what, sentence = BAD[fault]
    if kind == "mapped array" and fault == "no label":
        pytest.skip("arrays in files hold no objects")
    y = y.astype(object if fault == "no label" else str)
    P[417], y[417], weight[417] = what.get("p", P[417]), what.get("y", y[417]), what.get("w", weight[417])
    part, row = PARTS[kind]
    table, beside = laid_out(kind, P, y, weight, folder=tmp_path)
    with pytest.raises(ValueError, match=f"^{part}{sentence.format(row)}"):
        confmax.maximize("macro_f1", table, classes=NAMES, **beside)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("kind", IN_PARTS)
def test_samples_depend_on_content_not_on_parts(kind, tmp_path):
    P, y, weight = labelled(20_000, 3)
    P[[5, 1500]] *= 1 + 5e-4  # rows that are divided by their sums keep their hashes
    y, group = np.array(NAMES)[y], np.arange(20_000) % 2
    order = np.random.default_rng(0).permutation(len(P))
    table, beside = laid_out(kind, P, y, weight, group, tmp_path)
    # `make_table` calls them as `maximize` does, but for groups, which lie beside a table
    beside.pop("group", None)
    first = make_table(table, **beside, classes=NAMES).head
    other = make_table(cut(P[order], y[order], weight[order], at=(3333,), names=NAMES), classes=NAMES).head
    assert 500 < first.n_rows < 2500
    for name in ("proba", "labels", "weight"):
        np.testing.assert_array_equal(getattr(first, name), getattr(other, name))
    np.testing.assert_array_equal(first.unordered_hashes(), other.unordered_hashes())


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_nearly_sum_to_one_are_divided_by_their_sums(kind, tmp_path):
    P, y, weight, _ = rows_of_all_kinds()
    off = P * np.linspace(1 - 5e-4, 1 + 5e-4, N)[:, None]
    before = off.copy()
    table, beside = laid_out(kind, off, y, weight, folder=tmp_path)
    settings = {"classes": NAMES, "confusion": "model", "calibration": None}
    found, whole = (
        confmax.maximize("g_mean", given, **more, **settings)
        for given, more in ((table, beside), (off, {"y": y, "sample_weight": weight}))
    )
    assert found.value == pytest.approx(whole.value, abs=1e-6)
    np.testing.assert_array_equal(off, before)
