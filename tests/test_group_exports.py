"""Exports and words of rules that decide by groups: no group is decided by the numbers of another."""

import json
import re
import sqlite3

import numpy as np
import pytest

import confmax
from confmax.calibration import Temperature, VectorScaling
from confmax.confusion import Gains, Layout
from tests.test_groups import labelled

GROUPS = ("it's", "b", 'c"d')


def rows(n, K, seed=0):
    """Random rows, rows with zeros and ties, and rows whose sums are off by rounding."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.5), n)
    P[::3] = np.round(P[::3] * 4) + 0.25
    P[1::7] = np.eye(K)[rng.integers(0, K, len(P[1::7]))]
    P /= P.sum(axis=1, keepdims=True)
    P[2::11] *= 1.0005
    return P, rng.integers(0, len(GROUPS), n)


def rule_of(K, further=0, calibrator=None, full=False, seed=1):
    rng = np.random.default_rng(seed)
    parts = [
        Gains.from_matrix(rng.normal(size=(1, K, K + further))) if full
        else Gains(rng.uniform(0.5, 3.0, (1, K)), np.round(rng.uniform(-0.3, 0.3, (1, K + further)), 2))
        for _ in GROUPS
    ]  # fmt: skip
    gains = Layout(len(GROUPS), K, further).beside(parts)
    names = ("no", "yes", "maybe", "never")[:K] + ("ask",) * further
    abstain = "ask" if further else None
    return confmax.DecisionRule(gains, np.ones(1), names, "accuracy", 0, calibrator, (), abstain, GROUPS)


RULES = {
    "weights": rule_of(3),
    "two classes": rule_of(2),
    "abstaining": rule_of(3, 1),
    "full": rule_of(3, 1, full=True),
    "calibrated": rule_of(4, 1, VectorScaling([1.2, 0.8, 1.0, 1.1], [0.1, 0.0, -0.2, 0.0], 0.01)),
    "temperature": rule_of(3, 0, Temperature(1.7)),
}


@pytest.mark.parametrize("name", RULES)
def test_python_decides_every_row_by_its_group(name):
    rule = RULES[name]
    P, group = rows(600, rule.n_classes)
    names = [GROUPS[g] for g in group]
    space = {}
    exec(rule.to_python(), space)
    decided = [space["decide"](p, g) for p, g in zip(P.tolist(), names, strict=True)]
    np.testing.assert_array_equal(decided, rule.predict_index(P, group=names))
    exec(rule.to_python("choose", labels=True), space)
    assert space["choose"](P[0].tolist(), names[0]) == rule.predict(P[:1], group=names[:1])[0]
    with pytest.raises(ValueError, match="does not know the group 'x'"):
        space["decide"](P[0].tolist(), "x")


def in_sqlite(rule, P, names, **settings):
    base = sqlite3.connect(":memory:")
    columns = ", ".join(f'"{name}" REAL' for name in rule.class_names[: rule.n_classes])
    base.execute(f'CREATE TABLE scores (place INTEGER, "the group" TEXT, {columns})')
    marks = ", ".join("?" * (P.shape[1] + 2))
    base.executemany(
        f"INSERT INTO scores VALUES ({marks})",
        [(k, name, *row) for k, (name, row) in enumerate(zip(names, P.tolist(), strict=True))],
    )
    expression = rule.to_sql("sqlite", group="the group", **settings)
    return [one for _, one in base.execute(f"SELECT place, {expression} FROM scores ORDER BY place").fetchall()]


@pytest.mark.parametrize("name", ["weights", "two classes", "abstaining", "full"])
def test_sql_decides_every_row_by_its_group(name):
    rule = RULES[name]
    P, group = rows(600, rule.n_classes)
    names = [GROUPS[g] for g in group]
    decided = in_sqlite(rule, P, [*names[:-2], None, "x"])
    np.testing.assert_array_equal(decided[:-2], rule.predict_index(P, group=names)[:-2])
    # a row without a group, and one of a group that is not known
    assert decided[-2:] == [None, None]
    labels = in_sqlite(rule, P[:50], names[:50], labels=True)
    assert labels == rule.predict(P[:50], group=names[:50]).tolist()


@pytest.mark.parametrize("name", ["weights", "abstaining", "calibrated", "temperature"])
def test_duckdb_decides_every_row_by_its_group(name):
    duckdb = pytest.importorskip("duckdb")
    rule = RULES[name]
    P, group = rows(600, rule.n_classes)
    names = [GROUPS[g] for g in group]
    base = duckdb.connect()
    columns = ", ".join(f'"{name}" DOUBLE' for name in rule.class_names[: rule.n_classes])
    base.execute(f'CREATE TABLE scores (place INTEGER, "group" TEXT, {columns})')
    marks = ", ".join("?" * (P.shape[1] + 2))
    base.executemany(f"INSERT INTO scores VALUES ({marks})",
                     [(k, one, *row) for k, (one, row) in enumerate(zip(names, P.tolist(), strict=True))])  # fmt: skip
    found = base.execute(f"SELECT {rule.to_sql('duckdb')} FROM scores ORDER BY place").fetchall()
    np.testing.assert_array_equal([one for (one,) in found], rule.predict_index(P, group=names))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RULES)
def test_onnx_decides_every_row_by_its_group(name, dtype):
    runtime = pytest.importorskip("onnxruntime")
    rule = RULES[name]
    P, group = rows(600, rule.n_classes)
    P = P.astype(dtype)
    model = rule.to_onnx(dtype)
    held = {one.key: one.value for one in model.metadata_props}
    assert json.loads(held["groups"]) == list(GROUPS)
    session = runtime.InferenceSession(model.SerializeToString())
    place = group.astype(np.int64)
    (decided,) = session.run(["decision"], {"proba": P, "group": place})
    expected = rule.predict_index(P, group=[GROUPS[g] for g in group])
    # a calibration in another order of sums may exchange equal scores
    assert (decided != expected).mean() <= (0.005 if rule.calibrator is not None else 0.0)
    (none,) = session.run(["decision"], {"proba": P[:3], "group": np.array([-1, 3, 99])})
    assert none.tolist() == [-1, -1, -1]


def test_what_no_export_writes():
    P, _, _ = labelled(200, 2)
    Q = np.full((200, 2), 0.5)
    blind = confmax.maximize("accuracy", P, constraints="min(recall[1] | group) >= 0.5", group_proba=Q,
                             randomized=False).rule  # fmt: skip
    for write in (blind.to_sql, blind.to_python, blind.to_onnx):
        with pytest.raises(ValueError, match="decides by those of groups too"):
            write()
    with pytest.raises(ValueError, match="one threshold for all groups"):
        RULES["weights"].to_spark_thresholds()
    assert RULES["two classes"].threshold is None


def test_words_show_every_group():
    text = repr(RULES["abstaining"])
    assert "3 classes, 3 groups, deterministic" in text
    assert "decides each group by a rule of its own" in text
    for name in GROUPS:
        assert f"group {name}:" in text
    # every group has a table of its own numbers
    assert len(re.findall(r"^ +ask ", text, re.MULTILINE)) == 3
    html = RULES["abstaining"]._repr_html_()
    assert html.count("<table>") == 3 and "it&#x27;s" in html
    many = confmax.DecisionRule(Gains.reduced(np.ones(12)), np.ones(1), ("a", "b"), groups=tuple(range(6)))
    assert "... 2 more groups" in repr(many) and "2 more groups" in many._repr_html_()


def test_rule_files_hold_every_group(tmp_path):
    for name, rule in RULES.items():
        rule.save(tmp_path / "rule.json")
        again = confmax.DecisionRule.load(tmp_path / "rule.json")
        assert again == rule and again.groups == GROUPS and again.groups_known, name
        P, group = rows(100, rule.n_classes)
        names = [GROUPS[g] for g in group]
        np.testing.assert_array_equal(again.predict(P, group=names), rule.predict(P, group=names))
        assert json.loads(rule.to_json())["version"] == 6


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 5}, "unknown: 'groups'"),
        ({"groups": []}, "its groups are not a list of 1 to 100"),
        ({"groups": [{"name": "a"}]}, "do not all hold a name and gains"),
        ({"groups": [{"name": "a", "gains": []}]}, "not one for every atom"),
        ({"groups": [{"name": "a", "gains": [{"a": [1, 2, 3], "b": [0, 0, 0]}]}] * 2}, "names a group twice"),
        ({"groups": [{"name": ["a"], "gains": [{"a": [1, 2, 3], "b": [0, 0, 0]}]}]}, "strings or numbers"),
        ({"groups": [{"name": "a", "gains": [{"a": [1, 2, 3, 4], "b": [0, 0, 0]}]}]}, "a is not a list of 3 numbers"),
        ({"groups": [{"name": "a", "gains": [{"a": [1, 2, 3], "b": [0, 0, 0], "power": 1}]}]}, "distances"),
        ({"groups_known": 1}, "groups_known is neither true nor false"),
        ({"atoms": [{"weight": 1.0, "a": [1, 2, 3], "b": [0, 0, 0]}]}, "hold more than a weight"),
    ],
)  # fmt: skip
def test_files_of_strangers_are_refused(change, sentence):
    document = json.loads(RULES["weights"].to_json()) | change
    with pytest.raises(ValueError, match=re.escape(sentence)):
        confmax.DecisionRule.from_json(json.dumps(document))


def test_rules_by_probabilities_of_groups_are_stored():
    P, _, _ = labelled(200, 2)
    Q = np.random.default_rng(0).dirichlet(np.ones(2), 200)
    rule = confmax.maximize("accuracy", P, constraints="difference(rate[1] | group) <= 0.01", group_proba=Q).rule
    again = confmax.DecisionRule.from_json(rule.to_json())
    assert again == rule and not again.groups_known
    np.testing.assert_array_equal(again.predict(P, group_proba=Q), rule.predict(P, group_proba=Q))
    assert "each times the probability of the group" in repr(again)
