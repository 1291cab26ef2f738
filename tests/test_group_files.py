"""Files of rules that decide by groups: what is stored is read again, and files of strangers are checked."""

import json
import re

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


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rule_files_hold_every_group(rule, tmp_path):
    rule.save(tmp_path / "rule.json")
    again = confmax.DecisionRule.load(tmp_path / "rule.json")
    assert again == rule and again.groups == GROUPS and again.groups_known
    P, group = rows(100, rule.n_classes)
    names = [GROUPS[g] for g in group]
    np.testing.assert_array_equal(again.predict(P, group=names), rule.predict(P, group=names))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
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


def test_a_rule_by_the_probabilities_of_one_group_is_refused():
    """The probabilities of one group are all one: there is nothing to decide by, and no such table."""
    gains = Gains.reduced([1.0, 2.0, 1.0, 3.0])
    two = confmax.DecisionRule(gains, np.ones(1), (0, 1), groups=("a", "b"), groups_known=False)
    document = json.loads(two.to_json())
    document["groups"] = document["groups"][:1]
    with pytest.raises(ValueError, match="decides by the probabilities of groups has at least two; got a"):
        confmax.DecisionRule.from_json(json.dumps(document))
