"""The rule: decisions, draws, the file, and what a person reads."""

import datetime
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import confmax
from confmax import DecisionRule
from confmax import constraints as c
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.confusion import Confusion, Gains
from confmax.rule import LabelRule, file
from confmax.rule.reading import read_rule

RNG = np.random.default_rng(0)
P = RNG.dirichlet([1, 1, 1], 500)


def mixture(seed=0, classes=("a", "b", "c")):
    gains = Gains.reduced([[1, 1, 1], [1, 4, 1]], [[0, 0, 0], [0, 0, 0.3]])
    return DecisionRule(gains, np.array([0.25, 0.75]), tuple(classes), "g_mean", seed)


def test_predict_is_the_argmax_of_the_scores():
    rule = DecisionRule.from_weights([1, 2, 3], [0.1, 0, -0.2])
    np.testing.assert_array_equal(rule.predict(P), (P * [1, 2, 3] + [0.1, 0, -0.2]).argmax(1))
    assert rule.predict(P).dtype == np.int64
    assert rule.predict(P[:1]).shape == (1,)


def test_decision_probabilities_are_exact():
    first, second = (P * 1).argmax(1), (P * [1, 4, 1] + [0, 0, 0.3]).argmax(1)
    expected = 0.25 * np.eye(3)[first] + 0.75 * np.eye(3)[second]
    np.testing.assert_allclose(mixture().decision_probabilities(P), expected, atol=1e-15)


@pytest.mark.parametrize(
    "batch",
    [
        mixture().gains,
        Gains.reduced(np.ones((3, 2)), power=1),
        Gains.from_matrix(np.ones((4, 2, 3))),
        Confusion.from_matrix(np.full((3, 2, 2), 0.25)),
    ],
)
def test_a_batch_is_a_sequence(batch):
    """A loop over gains or confusions ends, and indices count from both ends."""
    n = len(batch)
    assert sum(1 for _ in itertools.islice(batch, n + 1)) == n
    for index in (n, -n - 1, np.int64(n)):
        with pytest.raises(IndexError):
            batch[index]
    last = batch[-1]
    for same in (batch[n - 1], batch[np.int64(n - 1)], list(batch)[-1]):
        if isinstance(batch, Gains):
            assert len(same) == 1
            np.testing.assert_array_equal(same.matrices(), last.matrices())
        else:
            np.testing.assert_array_equal(same.matrix, last.matrix)
    assert len(batch[1:]) == n - 1


def test_one_confusion_is_no_batch():
    single = Confusion.from_matrix([[0.5, 0.1], [0.2, 0.2]])
    for use in (list, lambda S: S[0]):
        with pytest.raises(TypeError, match=r"one confusion.*batch"):
            use(single)


def test_keys_are_checked():
    with pytest.raises(ValueError, match="one key per row of proba: 500"):
        mixture().predict(P, keys=[1, 2])
    with pytest.raises(ValueError, match="integers or strings; got float"):
        mixture().predict(P, keys=P[:, 0])


def test_reordered():
    rule = mixture()
    other = rule.reordered(["c", "a", "b"])
    order = [2, 0, 1]
    np.testing.assert_allclose(
        other.decision_probabilities(P[:, order]), rule.decision_probabilities(P)[:, order], atol=1e-15
    )
    with pytest.raises(ValueError, match="the rule's classes are"):
        rule.reordered(["a", "b", "x"])
    with pytest.raises(ValueError, match="the rule's classes are"):
        DecisionRule.from_weights([1, 2], classes=[0, 1]).reordered(["1", "0"])


# --- the file ---------------------------------------------------------------------------------------------------------


def lists_of(numbers):
    return st.lists(numbers, min_size=3, max_size=3)


PARAMETERS = st.floats(-1e6, 1e6)
CALIBRATORS = st.one_of(
    st.none(),
    st.builds(Temperature, st.floats(1e-6, 1e6), st.floats(1e-12, 1.0)),
    st.builds(VectorScaling, lists_of(PARAMETERS), lists_of(PARAMETERS), st.floats(1e-12, 1.0)),
    st.builds(MatrixScaling, lists_of(lists_of(PARAMETERS)), lists_of(PARAMETERS), st.floats(1e-12, 1.0)),
)


# a rule whose numbers span more than float64 scores hold, a factor of 1e301, is refused
NUMBERS = st.one_of(st.just(0.0), st.floats(1e-150, 1e150), st.floats(-1e150, -1e-150))


@settings(deadline=None, max_examples=12)
@given(
    constraints=st.lists(st.sampled_from(["rate", "recall", "f1"]), max_size=3),
    a=lists_of(NUMBERS),
    b=lists_of(NUMBERS),
    names=st.lists(st.text(max_size=5), min_size=3, max_size=3, unique=True),
    calibrator=CALIBRATORS,
)
def test_round_trip_keeps_every_bit(a, b, names, calibrator, constraints):
    rule = DecisionRule.from_weights(a, b, classes=names)
    texts = tuple(str(c.quantity(one, max(names)) >= 0.25) for one in constraints)
    rule = DecisionRule(rule.gains, rule.weights, rule.class_names, calibrator=calibrator, constraints=texts)
    again = DecisionRule.from_json(rule.to_json())
    # calibrators by arrays are equal where their bytes are
    assert again == rule
    assert again.gains.a.tobytes() == rule.gains.a.tobytes()
    assert again.class_names == tuple(names)
    assert again.constraints == texts


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "rule.json"
    mixture().save(path)
    before = path.read_bytes()
    bad = DecisionRule(mixture().gains, mixture().weights, ("a", "b", ("c",)))
    with pytest.raises(ValueError, match="strings or numbers; got tuple"):
        bad.save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def edited(**changes):
    document = json.loads(mixture().to_json())
    document.update(changes)
    return json.dumps({key: value for key, value in document.items() if value is not ...})


ATOM = {"weight": 1.0, "a": [1, 1, 1], "b": [0, 0, 0]}


def with_further(**changes):
    """A file of a rule with a decision beyond its three classes."""
    fields = {"classes": list("abcd"), "atoms": [{**ATOM, "b": [0] * 4}]}
    return edited(**{**fields, **changes})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        # a pickle that would run code is just text
        (b"cos\nsystem\n(S'touch pwned'\ntR.", "not JSON"),
        ('{"a": 1}', "not a rule"),
        (edited(version=2), "version is 2 and this confmax reads versions up to 1; update"),
        (edited(version=True), "version is True"),
        (edited(atoms=...), r"missing: 'atoms'; unknown: none"),
        (edited(extra=1), r"unknown: 'extra'"),
        (with_further(atoms=[{**ATOM, "a": [1] * 5, "b": [0] * 4}]), "a is not a list of 4 numbers"),
        (edited(abstain="c"), "it abstains, .* one decision more .* and has 3 decisions for 3 classes"),
        *[
            (with_further(classes=[*"abc", last], abstain=name), "its abstain is not the last of its classes")
            for last, name in (("d", "c"), ("d", None), ("d", ["d"]), (1, True), (1, 1.0))
        ],
        (with_further(classes=[*"abc", None], abstain=None), "class names that are strings or numbers; got NoneType"),
        (
            with_further(classes=list("abcde"), abstain="e", atoms=[{**ATOM, "b": [0] * 5}]),
            "it abstains, .* and has 5 decisions for 3 classes",
        ),
        (with_further(atoms=[ATOM]), "b is not a list of 4 numbers"),
        (edited(classes=list("ab"), atoms=[{**ATOM, "b": [0] * 2}]), "a is not a list of 2 numbers"),
        (
            with_further(atoms=[{**ATOM, "b": [0] * 4}, {**ATOM, "a": [1, 1], "b": [0] * 4}]),
            "a is not a list of 3 numbers",
        ),
        (edited(constraints="rate[a] <= 1"), "its constraints are not a list of texts"),
        (edited(constraints=["rate[a] < 1"]), "its constraints cannot be read: .* write rate.a. <= 1"),
        (
            edited(constraints=["__import__('os') >= 1"]),
            "its constraints cannot be read: .*parameters are written once",
        ),
        (edited(constraints=["rate[a] <= 1"] * 1001), "there may be at most 1000 constraints"),
        (edited(constraints=["rate[" + "a" * 500 + "] <= 1"]), "a constraint has at most 500 characters"),
        (edited(metric=3), "metric"),
        (edited(seed="x"), "seed"),
        (edited(seed=2**64), "seed"),
        (edited(classes="abc"), "list of 2 to"),
        (edited(classes=["a"]), "list of 2 to"),
        (edited(classes=["a", "a", "b"]), "distinct class names, and this rule names a class twice"),
        (edited(classes=["a", "b", None]), "strings or numbers; got NoneType"),
        (edited(classes=["a", "b", 9]).replace(" 9", " 1e999"), "finite numbers; got inf: rename this class"),
        (edited().replace('"weight"', '"weight": 1.0, "weight"'), "it names the field 'weight' twice in one object"),
        (edited(version="x" * 20_000), r"its version is 'x{39}\.\.\. and this confmax reads versions up to 1"),
        (edited(version=int("9" * 4000)), r"its version is 9{40}\.\.\. and this confmax reads"),
        (edited(**{"k\n" * 9000: 1}), r"\(missing: none; unknown: '(k\\n){13}\.\.\.\)"),
        (edited(atoms=[]), "list of 1 to"),
        (edited(atoms=[{**ATOM, "c": 1}]), "weight, a and b"),
        (edited(atoms=[{**ATOM, "a": [1] * 4}]), "a is not a list of 3 numbers"),
        (edited(atoms=[{**ATOM, "a": [1, 1, "x"]}]), "not a number"),
        (edited(atoms=[{**ATOM, "a": [1, 1, 10**400]}]), "too large"),
        (mixture().to_json().replace("0.3", "NaN"), "not JSON"),
        (mixture().to_json().replace("0.3", "1e999"), "not finite"),
        (edited(atoms=[{**ATOM, "weight": 0.5}]), "sum to one"),
        (edited(atoms=[{**ATOM, "weight": -1.0}, {**ATOM, "weight": 2.0}]), "positive"),
        (edited(atoms=[{"weight": 1.0, "gain": [[1, 2, 3]]}]), "one row per class"),
        (edited(atoms=[{"weight": 1.0, "gain": [[1, 2], [1, 2]]}]), "gain is not a list of 3 numbers"),
        *[(edited(columns=names), "its columns are not a list of 3 names") for names in ("abc", ["a"], [1, 2, 3])],
        *[(edited(cost_table=table), "cost_table does not hold rows, and of costs or gains") for table in ([], "x", 1)],
        (edited(cost_table={"of": ["costs"], "rows": []}), "cost_table does not hold rows, and of costs or gains"),
        (edited(cost_table={"of": "costs", "rows": [], "x": 1}), "cost_table does not hold rows"),
        (edited(cost_table={"of": "costs", "rows": [[0, 1, 2]] * 2}), "its cost_table is not a list of 3 rows"),
        (edited(cost_table={"of": "gains", "rows": [[0, 1]] * 3}), "its cost_table is not a list of 3 numbers"),
        (edited(cost_table={"of": "gains", "rows": [[0, 1, True]] * 3}), "not a number"),
    ],
)
def test_files_that_are_no_rules(text, reason, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=f"bad.json is not a rule that can be used: .*{reason}"):
        DecisionRule.load(path)


# --- what a person reads ----------------------------------------------------------------------------------------------


def test_repr_of_mixtures_offsets_matrices_and_many_classes():
    assert "draws between 2 rules" in repr(mixture())
    assert "25.0%" in repr(mixture())
    assert "offset" in repr(mixture())
    assert "p @ G" in repr(DecisionRule(Gains.from_matrix(np.eye(3)[None]), np.ones(1), (0, 1, 2)))
    assert "88 more classes" in repr(DecisionRule.from_weights(np.arange(1.0, 101.0)))


def test_names_from_a_file_print_on_one_line():
    rule = DecisionRule.from_weights([1, 2, 3], classes=["\x1b[31mred\n", "b" * 500, "c"])
    assert len(repr(rule).splitlines()) == 6
    assert "\x1b" not in repr(rule)
    assert max(map(len, repr(rule).splitlines())) < 100


def test_from_weights_refuses():
    for weights, offsets, classes in (
        ([1.0], None, None),
        ([1, 2], [1], None),
        ([1, np.inf], None, None),
        ([1, 2], None, "abc"),
    ):
        with pytest.raises(ValueError, match=r"weights|finite|names"):
            DecisionRule.from_weights(weights, offsets, classes=classes)


def test_files_hold_limits_further_decisions_and_abstaining():
    plain = DecisionRule.from_weights([1.0, 2.0])
    matrix = DecisionRule(plain.gains, plain.weights, (0, 1), calibrator=MatrixScaling(np.eye(2), [0.0, 1.0]))
    for rule in (plain, matrix):
        within = replace(rule, constraints=("rate[1]<=50%",))
        assert json.loads(within.to_json())["version"] == 1
        assert within.constraints == ("rate[1] <= 0.5",) and within != rule and hash(within) != hash(rule)
        assert within.reordered([1, 0]).constraints == within.constraints
    for gains in (Gains.from_matrix([[1, 0, 0.7], [0, 1, 0.7]]), Gains.reduced([1, 1], [0, 0, 0.7])):
        further = DecisionRule(gains, np.ones(1), (0, 1, -1))
        abstaining = replace(further, abstain=-1)
        assert json.loads(abstaining.to_json())["abstain"] == -1
        again = DecisionRule.from_json(abstaining.to_json())
        assert again == abstaining != further and hash(again) == hash(abstaining)
        assert again.abstain == -1 and type(again.abstain) is int
        assert again.reordered([1, 0, -1]).abstain == -1


# what a stored file of each kind decides of twelve rows; of several labels, the first counts 4, the second 2
STORED = {
    "plain": "122021122122",
    "abstaining": "022033123012",
    "distances": "111011110111",
    "groups": "122121112121",
    "group_proba": "122121110112",
    "labels": "231652234223",
    "at_most": "631652234633",
    "costs": "212222222222",
    "positive": "011001110010",
}
BESIDE = {"groups": {"group": ["men", "women"] * 6}, "group_proba": {"group_proba": np.tile([[0.25, 0.75]], (12, 1))}}


@pytest.mark.parametrize("kind", STORED)
def test_stored_files_of_every_version_are_read(kind):
    """What a file holds is read whole, written as it was, and decides as it did."""
    path = Path(__file__).parent / "data" / f"rule_1_{kind}.json"
    rule = read_rule(path)
    assert rule.to_json() == path.read_text()
    rows = np.random.default_rng(0).dirichlet([1, 1, 1], 12).round(3)
    rows[:, 2] = 1 - rows[:, 0] - rows[:, 1]
    rows = np.column_stack([rows[:, 0], 1 - rows[:, 0]]) if rule.n_classes == 2 else rows
    labels = rule.decisions.several
    decided = rule.predict(rows) @ [4, 2, 1] if labels else rule.predict_index(rows, **BESIDE.get(kind, {}))
    assert "".join(map(str, decided)) == STORED[kind]


def test_every_field_of_a_file_is_stored_once():
    folder = Path(__file__).parent / "data"
    fields = set().union(*(json.loads(path.read_text()) for path in folder.glob("rule_1_*.json")))
    assert fields == file._FIELDS | set(file._SINCE)
    assert {path.stem.removeprefix("rule_1_") for path in folder.glob("rule_*.json")} == set(STORED)


def test_files_from_before_the_first_release_are_refused_by_their_name(tmp_path):
    old = json.dumps({**json.loads(mixture().to_json()), "format": "confmax.rule", "version": 3})
    (tmp_path / "old.json").write_text(old)
    for read in (DecisionRule.load, LabelRule.load, read_rule):
        with pytest.raises(ValueError, match=r"old.json.*before the first release.*tune again"):
            read(tmp_path / "old.json")


TEXTS = st.one_of(
    st.text(max_size=40), st.text("recaltiond[]()=<>.%0123|-\x1b\n\u202e ", max_size=30), st.none(), st.integers(),
    st.sampled_from(["recall[a] >= 0.5", "rate[\x1b[31m] <= 1e-3", "f1[b]] >= 5 %", "f_beta[a](beta=1e999) >= 0"]),
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(constraints=st.one_of(st.none(), st.text(max_size=9), st.lists(TEXTS, max_size=4)))
def test_whatever_stands_for_constraints_is_read_or_refused(constraints):
    """Nothing but a ValueError comes out of a file, and what was read once is read again."""
    rule, sentence = None, ""
    try:
        rule = DecisionRule.from_json(edited(constraints=constraints))
    except ValueError as error:
        sentence = str(error)
    if rule is None:
        assert len(sentence.splitlines()) == 1 and len(sentence) < 2500
        return
    assert DecisionRule.from_json(rule.to_json()).constraints == rule.constraints
    assert len(rule.constraints) == len(constraints)
    assert len(repr(rule).splitlines()) == 4 + bool(constraints) + rule.n_decisions and "\x1b" not in repr(rule)


def test_a_rule_says_what_it_was_tuned_within():
    P = RNG.dirichlet([1, 1, 1], 500)
    given = ["recall[b] >= 80 %", c.rate("c") <= 0.3, c.cost([[0, 1, 1], [1, 0, 1], [1, 1, 0]]) <= 0.9]
    rule = confmax.maximize("accuracy", P, classes=list("abc"), constraints=given).rule
    assert "tuned within recall[b] >= 0.8, rate[c] <= 0.3\n" in repr(rule)
    # a table of costs has no text, so the rule does not name this limit
    assert rule.constraints == ("recall[b] >= 0.8", "rate[c] <= 0.3")
    assert "and 2 more" in repr(replace(rule, constraints=("rate[a] <= 1",) * 6))
    metric = confmax.metrics.from_function(lambda C: C[0, 0] + C[1, 1] + C[2, 2], structure="linear")
    assert confmax.maximize("accuracy", P, constraints=c.at_least(metric, 0.1)).rule.constraints == ()
    for wrong in ("recall[b]", 3, ["cost <= 1"]):
        with pytest.raises(ValueError, match=r"constraint|limit|cost needs its table"):
            replace(rule, constraints=wrong)


def test_draws_are_the_same_in_another_process():
    code = (
        "import numpy as np, confmax; P = np.random.default_rng(5).dirichlet([1, 1, 1], 200);"
        "print(confmax.DecisionRule.from_json(open(0).read()).predict_index(P).tolist())"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], input=mixture().to_json(), text=True, capture_output=True, check=True
    ).stdout
    assert json.loads(output) == mixture().predict_index(np.random.default_rng(5).dirichlet([1, 1, 1], 200)).tolist()


def test_save_and_load(tmp_path):
    path = tmp_path / "rule.json"
    mixture().save(path)
    assert DecisionRule.load(path) == mixture()
    np.testing.assert_array_equal(DecisionRule.load(path).predict(P), mixture().predict(P))
    assert [entry.name for entry in tmp_path.iterdir()] == ["rule.json"]


def test_full_gains_round_trip():
    rule = DecisionRule(Gains.from_matrix(RNG.normal(size=(1, 3, 4))), np.ones(1), (0, 1, 2, 3))
    again = DecisionRule.from_json(rule.to_json())
    assert again.n_decisions == 4
    np.testing.assert_array_equal(again.predict(P), rule.predict(P))


DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]


@pytest.mark.parametrize("names", [DAYS, [b"a", b"b"]], ids=["dates", "bytes"])
def test_names_that_no_file_holds_are_said_when_the_rule_is_tuned(names, tmp_path):
    """Before the work begins; the rule decides as any other."""
    Q = P[:40, :2] / P[:40, :2].sum(axis=1, keepdims=True)
    which = (Q[:, 1] > 0.5).astype(int)
    labels = np.empty(40, dtype=object)
    labels[:] = [names[k] for k in which]
    rows = {"classes": names, "calibration": None}
    sentence = f"cannot be saved: .* (class|group) names .* got {type(names[0]).__name__}; .* as strings"
    with pytest.warns(UserWarning, match=sentence):
        solution = confmax.maximize("accuracy", Q, labels, **rows)
    assert set(solution.predict(Q)) <= set(names)
    with pytest.raises(ValueError, match="strings or numbers"):
        solution.rule.save(tmp_path / "rule.json")
    with pytest.warns(UserWarning, match=sentence):
        confmax.maximize("macro_f1", Q, np.eye(2)[which], decisions="any", **rows)
    if names is DAYS:
        floor = "min(rate[1] | group) >= 0"
        with pytest.warns(UserWarning, match=sentence):
            confmax.maximize("accuracy", Q, which, group=labels, constraints=floor, calibration=None)
