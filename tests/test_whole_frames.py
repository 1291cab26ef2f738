"""Frames and files are used as they are: of their columns, those that are named like the classes are probabilities."""

import json

import numpy as np
import pytest

import confmax

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")

NAMES = ["ok", "slow", "broken"]


@pytest.fixture(scope="module")
def frame():
    """Probabilities beside identifiers, a weight, further numbers, and the label."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([4.0, 1.0, 0.5], 600)
    drawn = (rng.random((600, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(max=2)
    columns = {"case": [f"{k:04d}" for k in range(600)], **dict(zip(NAMES, P.T, strict=True))}
    columns |= {"w": rng.integers(1, 4, 600) / 2, "day": np.arange(600) // 100, "outcome": np.array(NAMES)[drawn]}
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def rule(frame):
    return confmax.maximize("macro_f1", frame[NAMES], frame["outcome"]).rule


@pytest.fixture(scope="module")
def file(frame, tmp_path_factory):
    name = tmp_path_factory.mktemp("scores") / "scores.parquet"
    frame.to_parquet(name, index=False)
    return name


def assert_same_numbers(found, rule):
    """Assert that two rules have the same numbers; rows in another order are added up in another order."""
    ((one,), (other,)) = (json.loads(each.to_json())["atoms"] for each in (found, rule))
    assert one.keys() == other.keys()
    for name, numbers in one.items():
        assert numbers == pytest.approx(other[name], rel=1e-12)


TABLES = {
    "pandas": lambda frame, _: frame,
    "polars": lambda frame, _: pl.from_pandas(frame),
    "arrow": lambda frame, _: pa.Table.from_pandas(frame),
    "dataset": lambda _, file: ds.dataset(file),
}
STREAMS = ["dataset"]
if hasattr(pl.LazyFrame, "collect_batches"):
    TABLES["lazy"] = lambda frame, _: pl.from_pandas(frame).lazy()
    STREAMS.append("lazy")


@pytest.mark.parametrize("kind", TABLES)
def test_a_label_that_is_named_tells_the_columns_of_probabilities(kind, frame, file, rule):
    found = confmax.maximize("macro_f1", TABLES[kind](frame, file), "outcome").rule
    assert found.class_names == tuple(NAMES)
    assert_same_numbers(found, rule)


def test_a_label_of_an_opened_file_tells_them_too(file, rule):
    found = confmax.maximize("macro_f1", confmax.open_table(file, label="outcome")).rule
    assert_same_numbers(found, rule)


@pytest.mark.parametrize("kind", TABLES)
def test_a_rule_finds_its_columns_among_others(kind, frame, file, rule):
    assert np.array_equal(rule.predict(TABLES[kind](frame, file)), rule.predict(frame[NAMES].to_numpy()))


def test_a_rule_finds_its_columns_in_opened_files(frame, file, rule, tmp_path):
    expected = rule.predict(frame[NAMES].to_numpy())
    table = confmax.open_table(file)
    assert np.array_equal(rule.predict(table), expected)
    assert np.array_equal(np.concatenate(list(rule.predict_batches(table))), expected)
    rule.write_parquet(table, tmp_path / "decided.parquet")
    assert pd.read_parquet(tmp_path / "decided.parquet")["decision"].tolist() == expected.tolist()
    labelled = confmax.open_table(file, label="outcome")
    plain = confmax.score("macro_f1", frame[NAMES], frame["outcome"], rule, n_replicates=0)
    assert np.allclose(confmax.score("macro_f1", labelled, rule=rule, n_replicates=0).values, plain.values)


def test_a_rule_within_the_limit_of_a_batch_finds_its_columns(frame, rule):
    decided = rule.predict(frame, at_most={"broken": 5})
    assert np.array_equal(decided, rule.predict(frame[NAMES], at_most={"broken": 5}))


def test_a_rule_of_several_labels_finds_its_columns(frame):
    truth = (frame[["slow", "broken"]].to_numpy() > 0.3).astype(int)
    found = confmax.maximize("macro_f1", frame[["slow", "broken"]], truth, decisions="any", classes=["slow", "broken"])
    assert np.array_equal(found.predict(frame), found.predict(frame[["slow", "broken"]]))


@pytest.mark.filterwarnings("ignore:no row of y has the class:UserWarning")
@pytest.mark.parametrize("opened", [False, True])
def test_a_class_without_a_labelled_row_keeps_its_column(opened, frame, tmp_path):
    # the columns that labels name do not sum to one alone
    known = frame[frame["outcome"] != "broken"][[*NAMES, "outcome"]]
    known.to_parquet(tmp_path / "known.parquet", index=False)
    table = confmax.open_table(tmp_path / "known.parquet", label="outcome") if opened else known
    found = confmax.maximize("accuracy", table, None if opened else "outcome")
    assert found.rule.class_names == tuple(NAMES)


def test_columns_that_are_stated_are_used(file):
    table = confmax.open_table(file, label="outcome", columns=[*NAMES, "w"])
    with pytest.raises(ValueError, match="column 3 of proba is no class: rows sum to 1 without it"):
        confmax.maximize("macro_f1", table)


@pytest.mark.parametrize("kind", TABLES)
def test_a_rule_is_scored_on_a_table_whose_label_and_weight_are_named(kind, frame, file, rule):
    weight = frame["w"].to_numpy()
    plain = confmax.score("macro_f1", frame[NAMES], frame["outcome"], rule, sample_weight=weight, n_replicates=40)
    table = TABLES[kind](frame, file)
    found = confmax.score("macro_f1", table, "outcome", rule, sample_weight="w", n_replicates=40)
    assert np.allclose(found.values, plain.values)
    assert found.difference("rule").low == pytest.approx(plain.difference("rule").low)


@pytest.mark.parametrize("kind", STREAMS)
def test_rows_that_stream_are_decided_without_opening_them(kind, frame, file, rule, tmp_path):
    table = TABLES[kind](frame, file)
    expected = rule.predict(frame[NAMES]).tolist()
    assert np.concatenate(list(rule.predict_batches(table))).tolist() == expected
    counts = rule.write_parquet(table, tmp_path / "decided.parquet", keep=["case"])
    assert pd.read_parquet(tmp_path / "decided.parquet").to_dict("list") == {
        "case": frame["case"].tolist(),
        "decision": expected,
    }
    assert counts.sum() == len(frame)


def test_rows_without_parts_are_refused_by_what_writes_parts(frame, rule, tmp_path):
    with pytest.raises(ValueError, match="these rows are no parts of a table; pass them to predict"):
        rule.write_parquet(frame[NAMES].to_numpy(), tmp_path / "decided.parquet")


def test_several_labels_are_scored_by_the_names_of_their_columns(frame):
    known = frame.assign(y_slow=frame["slow"].gt(0.3).astype(int), y_broken=frame["broken"].gt(0.3).astype(int))
    truth = known[["y_slow", "y_broken"]]
    classes = ["slow", "broken"]
    found = confmax.maximize("macro_f1", frame[classes], truth.to_numpy(), decisions="any", classes=classes)
    given = {"rule": found, "n_replicates": 0}
    plain = confmax.score("macro_f1", frame[classes], truth.to_numpy(), **given)
    assert np.allclose(confmax.score("macro_f1", known, ["y_slow", "y_broken"], **given).values, plain.values)


def test_further_columns_without_names_of_classes_have_a_way_out(frame):
    renamed = frame.rename(columns=dict(zip(NAMES, ["a", "b", "c"], strict=True)))
    message = r"4 columns of floating-point numbers \('a', 'b', 'c', 'w'\) for 3 classes.* columns= of open_table"
    for classes in (None, NAMES):
        with pytest.raises(ValueError, match=message):
            confmax.maximize("macro_f1", confmax.open_table(renamed, label="outcome"), classes=classes)
    table = confmax.open_table(renamed, label="outcome", columns=["a", "b", "c"])
    assert confmax.maximize("macro_f1", table, classes=NAMES).rule.class_names == tuple(NAMES)
