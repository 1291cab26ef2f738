"""A rule keeps which rows tuned it, and reports and scores on these rows say so."""

import json
from dataclasses import replace

import numpy as np
import pytest

import confmax
from confmax.tables import make_table
from confmax.tables.fingerprints import mixed, unordered_hashes
from tests.column_helpers import N, drawn

SEEN = f"these are the {N} rows that the rule was tuned on: figures on new rows are lower"


def test_the_fingerprint_is_what_its_module_says():
    P, y = drawn(3)
    places = np.array([1, 2, 0], dtype=np.uint64)[y]  # of b, c and a among the sorted names
    words = mixed(unordered_hashes(P) ^ mixed(places + np.uint64(1)))
    table = make_table(P, np.array(["b", "c", "a"])[y], classes=["b", "c", "a"])
    assert table.fingerprint() == (N, sum(words.tolist()) % 2**64)
    assert make_table(P).fingerprint() is None


def test_the_order_of_rows_and_columns_is_no_matter():
    P, y = drawn(4)
    names = np.array(["d", "b", "a", "c"])
    mark = confmax.maximize("macro_f1", P, names[y], classes=names).rule.tuned_on
    assert mark is not None and mark.n_rows == N
    order, columns = np.random.default_rng(0).permutation(N), [2, 0, 3, 1]
    for proba in (P, P.astype(np.float32)):
        again = make_table(proba[order][:, columns], names[y][order], classes=names[columns])
        assert again.fingerprint() == mark
    others = [make_table(P[:-1], names[y][:-1], classes=names), make_table(P, np.roll(names[y], 1), classes=names)]
    others.append(make_table(P[:, columns], names[y], classes=names))
    assert mark not in [other.fingerprint() for other in others[:2]]
    sparse = pytest.importorskip("scipy.sparse")
    assert make_table(sparse.csr_array(P), names[y], classes=names).fingerprint() == mark
    # names of another kind
    assert make_table(P, y).fingerprint() == make_table(P, y.astype(str)).fingerprint()


def test_who_keeps_it(tmp_path):
    P, y = drawn(3)
    rule = confmax.maximize("macro_f1", P, y).rule
    assert rule.tuned_on == make_table(P, y).fingerprint()
    assert rule.reordered([2, 0, 1]).tuned_on == rule.tuned_on
    assert confmax.maximize("macro_f1", P).rule.tuned_on is None
    assert confmax.maximize("accuracy", P, y, constraints="recall[2] >= 0.5", confidence=0.9).rule.tuned_on is not None
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "y.npy", y)
    opened = confmax.open_table(tmp_path / "p.npy", label=tmp_path / "y.npy")
    assert confmax.maximize("macro_f1", opened).rule.tuned_on == rule.tuned_on
    linear_model = pytest.importorskip("sklearn.linear_model")
    tuned = confmax.MetricClassifierCV(linear_model.LogisticRegression(), metric="macro_f1").fit(P, y)
    assert tuned.rule_.tuned_on is None


def test_files_hold_it_and_equality_does_not():
    P, y = drawn(3)
    rule = confmax.maximize("macro_f1", P, y).rule
    document = json.loads(rule.to_json())
    assert document["tuned_on"] == {"rows": N, "hash": f"{rule.tuned_on.content:016x}"}
    assert confmax.DecisionRule.from_json(rule.to_json()).tuned_on == rule.tuned_on
    bare = replace(rule, tuned_on=None, shares=None)
    assert bare == rule and hash(bare) == hash(rule)
    del document["tuned_on"], document["shares"]
    assert json.loads(bare.to_json()) == document


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        ({"rows": 5}, "its tuned_on does not hold rows and a hash, and nothing else"),
        ([5, "0" * 16], "its tuned_on does not hold rows and a hash, and nothing else"),
        ({"rows": 0, "hash": "0" * 16}, "the rows of its tuned_on are not a positive number"),
        ({"rows": True, "hash": "0" * 16}, "the rows of its tuned_on are not a positive number"),
        ({"rows": 5, "hash": "0" * 15}, "the hash of its tuned_on is not a text of 16 hexadecimal digits"),
        ({"rows": 5, "hash": 7}, "the hash of its tuned_on is not a text of 16 hexadecimal digits"),
    ],
    ids=str,
)
def test_what_a_file_may_not_hold(mark, sentence):
    document = json.loads(confmax.DecisionRule.from_weights([1.0, 2.0]).to_json())
    text = json.dumps({**document, "tuned_on": mark})
    with pytest.raises(ValueError, match=sentence):
        confmax.DecisionRule.from_json(text)


def test_reports_on_the_rows_that_tuned_warn(tmp_path):
    for package in ("jinja2", "vl_convert"):
        pytest.importorskip(package)
    P, y = drawn(3)
    found = confmax.maximize("macro_f1", P, y)
    order = np.random.default_rng(0).permutation(N)
    for write in (found.report, lambda path, *rows, **how: confmax.report.write(path, found.rule, *rows, **how)):
        with pytest.warns(UserWarning, match=f"^{SEEN}$"):
            write(tmp_path / "r.html", P[order], y[order], n_replicates=0)
        assert SEEN.removeprefix("t") in (tmp_path / "r.html").read_text()
        write(tmp_path / "r.html", *drawn(3, seed=1), n_replicates=0)  # warnings are errors
        assert SEEN.removeprefix("t") not in (tmp_path / "r.html").read_text()
    # rules that do not say so are known by their solution
    bare = replace(found, rule=replace(found.rule, tuned_on=None))
    with pytest.warns(UserWarning, match=f"^{SEEN}$"):
        bare.report(tmp_path / "r.html", P, y, n_replicates=0)


def test_scores_on_the_rows_that_tuned_warn(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from tests.cli_helpers import run

    monkeypatch.chdir(tmp_path)
    P, y = drawn(3)
    P_new, y_new = drawn(3, seed=1)
    np.savez("tune.npz", p=P[:, [2, 0, 1]], y=y)
    np.savez("new.npz", p=P_new, y=y_new)
    order = ("--classes", "2,0,1")
    run("tune", "tune.npz", "--label", "y", *order, "--metric", "macro_f1", "-o", "rule.json")
    fast = ("--rule", "rule.json", "--label", "y", "--replicates", "0", "--json")
    stdout, stderr = run("score", "tune.npz", *order, *fast)
    assert stderr.count(SEEN) == 1 and json.loads(stdout)["tuned_on_these_rows"] is True
    stdout, stderr = run("score", "new.npz", "--classes", "0,1,2", *fast)
    assert "tuned on" not in stderr and json.loads(stdout)["tuned_on_these_rows"] is False
    stdout, _ = run("score", "new.npz", "--label", "y", "--replicates", "0", "--json")
    assert json.loads(stdout)["tuned_on_these_rows"] is None


def test_d4_the_library_and_comparisons_warn_of_the_rows_that_tuned_too(tmp_path, monkeypatch):
    P, y = drawn(3)
    order = np.random.default_rng(0).permutation(N)
    found = confmax.maximize("macro_f1", P, y)
    other = confmax.maximize("g_mean", P, y).rule
    plain = confmax.DecisionRule.from_weights([1.0, 2.0, 1.0])
    L = np.random.default_rng(1).beta(0.6, 2.0, (N, 3))
    Y = np.random.default_rng(2).random((N, 3)) < L
    several = confmax.maximize("macro_f1", L, Y, decisions="any")
    for judged in ((P, y, found), (P[order], y[order], found.rule), (L, Y, several), (L, Y, several.rule)):
        with pytest.warns(UserWarning, match=f"^{SEEN}$"):
            confmax.score("macro_f1", *judged, n_replicates=0)
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "y.npy", y)
    for rows in ((P, y), (confmax.open_table(tmp_path / "p.npy", label=tmp_path / "y.npy"), None)):
        with pytest.warns(UserWarning, match=f"^these are the {N} rows that the rules a and b were tuned on: figures"):
            confmax.score("macro_f1", *rows, rules={"a": found, "new": plain, "b": other}, n_replicates=0)
    with pytest.warns(UserWarning, match="that the rule a was tuned on"):
        confmax.score("macro_f1", P, y, rules={"a": found, "new": plain}, n_replicates=0)
    # warnings are errors: of new rows, and of rules that do not say what tuned them, nothing is said
    confmax.score("macro_f1", *drawn(3, seed=1), found, n_replicates=0)
    confmax.score("macro_f1", P, y, replace(found.rule, tuned_on=None), n_replicates=0)
    pytest.importorskip("pyarrow")
    from tests.cli_helpers import run

    monkeypatch.chdir(tmp_path)
    np.savez("tune.npz", p=P, y=y)
    np.savez("new.npz", p=drawn(3, seed=1)[0], y=drawn(3, seed=1)[1])
    found.rule.save("a.json")
    plain.save("plain.json")
    fast = ("--label", "y", "--metric", "accuracy", "--replicates", "0", "--rule", "a.json", "--rule", "plain.json")
    assert "that the rule a.json was tuned on" in run("compare", "tune.npz", *fast)[1]
    assert "was tuned on" not in run("compare", "new.npz", *fast)[1]


def test_d4_pictures_of_the_rows_that_tuned_say_so():
    pytest.importorskip("matplotlib").use("Agg")
    from confmax import plotting

    P, y = drawn(3)
    found = confmax.maximize("macro_f1", P, y)
    two, z = P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), (y > 0).astype(int)
    of_two = confmax.maximize("mcc", two, z)
    left = confmax.maximize("accuracy", P, y, abstain=True, constraints="coverage >= 0.8")
    pictures = {
        "TradeOffDisplay": (found, P, y), "ConfusionChangeDisplay": (found, P, y), "ThresholdDisplay": (of_two, two, z),
        "RiskCoverageDisplay": (left, P, y),
    }  # fmt: skip
    for name, (solution, proba, labels) in pictures.items():
        draw = getattr(plotting, name).from_solution
        seen = draw(solution, proba, labels)
        new = draw(solution, proba[:-1], labels[:-1])
        assert (seen.rows, new.rows) == (f"labels of the {N} tuning rows", f"labels of the {N - 1} rows")
        assert any(seen.rows in text for ax in seen.figure_.axes for text in (ax.get_title(), ax.get_xlabel()))
