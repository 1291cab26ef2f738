"""Rules with groups tuned on tables in parts are those of memory, whatever the parts and wherever they lie."""

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table
from confmax.tables.groups import Groups
from confmax.tables.partitioned import table as _parts
from tests.cli_helpers import document, run
from tests.helpers import assert_same_statistics
from tests.parts_helpers import cut, labelled

NAMES = ("a", "b", "c", "d")
AT = (700, 700, 701, 2000)
LIMITS = (
    ("difference(recall[a] | group) <= 0.02",),
    ("min(recall[a] | group) >= 0.8", "rate[b] <= 0.3"),
    ("ratio(rate[c] | group) >= 0.9",),
)


def grouped(n=3000, *, seed=1, names=("men", "women", "other"), absent=(701, 2000)):
    """Return probabilities, labels, weights, and groups of which the last has no row among those of ``absent``."""
    P, y, weight = labelled(n, 4, seed=seed, sharp=0.7)
    codes = np.random.default_rng(seed).integers(0, len(names), n)
    codes[slice(*absent)] %= max(1, len(names) - 1)
    return P, np.array(NAMES)[y], weight, np.array(names)[codes]


def beside(table, groups):
    return (table.with_groups(groups) if table.groups is None else table).side_by_side()


@pytest.mark.parametrize("share", ["model", "labels", "blend"])
@pytest.mark.parametrize("matrix", [False, True])
def test_the_statistics_are_those_of_memory(share, matrix):
    P, y, weight, group = grouped()
    a, b = np.random.default_rng(0).random((2, 5, 12))
    gains = Gains(a, b)
    tables = [make_table(P, y, weight), make_table(cut(P, y, weight, at=AT, group=group))]
    tables = [beside(one, Groups.of(group, len(P))) for one in tables]
    for name in ("label_weight", "mean_probability", "cells"):
        np.testing.assert_allclose(getattr(tables[1], name)(), getattr(tables[0], name)(), rtol=1e-12, err_msg=name)
    # cells are counted by hand, and a group without rows in a part changes nothing
    assert tables[1].cells()[2, 0] == ((group == tables[1].groups.names[2]) & (y == "a")).sum()
    found = [
        make_oracle(one, share, model_share=0.3 if share == "blend" else None).maximize(gains, matrix=matrix)
        for one in tables
    ]
    assert_same_statistics(found[1], found[0], rtol=1e-11)
    assert (found[1].matrix is not None) == matrix


@pytest.mark.parametrize(
    ("limits", "settings"),
    [*zip(LIMITS, [{"abstain": True}, {"calibration": "temperature"}, {"calibration": None}], strict=True)],
)
def test_certified_rules_are_those_of_memory(limits, settings):
    P, y, weight, group = grouped()
    if "abstain" in settings:
        # recalls of what is decided have no convex difference
        limits = (limits[0].replace("difference(recall", "difference(rate"), *limits[1:], "coverage >= 0.9")
    more = {"constraints": limits, "confusion": "model", **settings}
    memory = confmax.maximize("accuracy", P, y, sample_weight=weight, group=group, **more)
    source = cut(P, y, weight, at=AT, group=group)
    parts = confmax.maximize("accuracy", source, classes=NAMES, **more)
    assert parts.status == memory.status and parts.rule.groups == memory.rule.groups
    # both are certified to 1e-6: each value lies within the other's bounds
    assert max(parts.value, memory.value) <= min(parts.upper_bound, memory.upper_bound) + 1e-9
    assert abs(parts.value + (parts.randomization_loss or 0.0) - memory.value
               - (memory.randomization_loss or 0.0)) < 2e-6  # fmt: skip
    # on the labels of these rows, counted by the probability of each decision
    shares = parts.rule.decision_probabilities(P, group=group)[:, :4]
    hit = shares[np.arange(len(P)), np.searchsorted(NAMES, y)]
    assert parts.label_value == pytest.approx(weight @ hit / (weight @ shares.sum(axis=1)), abs=1e-12)
    for one, other in zip(parts.constraints, memory.constraints, strict=True):
        # what a single rule keeps to spare is that of this rule alone
        assert one.kept and one.value == pytest.approx(other.value, abs=5e-3)
        assert [part.group for part in one.by_group] == [part.group for part in other.by_group]


def test_large_tables_start_on_a_sample_with_groups(monkeypatch):
    """The sample keeps the group of each row, in an order that depends on nothing but the rows."""
    P, y, weight, group = grouped(20_000, absent=(0, 100))
    for name, value in (("SAMPLE_CELLS", 8000), ("SAMPLE_ROWS", 100), ("ROWS_PER_CLASS", 10)):
        monkeypatch.setattr(_parts, name, value)
    sources = [cut(P, y, weight, at=at, group=group) for at in ((5000, 12_000), (1,))]
    one, other = (make_table(source).head for source in sources)
    assert 1000 < one.n_rows < 3000
    np.testing.assert_array_equal(one.proba, other.proba)
    np.testing.assert_array_equal(one.groups.codes, other.groups.codes)
    # the group of every row of the sample is that of the row with these probabilities
    place = {row.tobytes(): name for row, name in zip(P, group.tolist(), strict=True)}
    assert [place[row.tobytes()] for row in one.proba] == [one.groups.names[k] for k in one.groups.codes]
    memory = confmax.maximize("accuracy", P, y, sample_weight=weight, group=group, constraints=LIMITS[0],
                              confusion="model", calibration=None)  # fmt: skip
    parts = confmax.maximize("accuracy", sources[0], constraints=LIMITS[0], confusion="model", calibration=None,
                             classes=NAMES)  # fmt: skip
    assert parts.value == pytest.approx(memory.value, abs=2e-6) and parts.gap < 1e-6


@pytest.mark.parametrize("limits", LIMITS[:1])
def test_rules_on_labels_are_searched_on_the_sample(limits, monkeypatch):
    """In parts no rows can be sorted. Those of the sample can, and its best rules are compared on all rows."""
    P, y, weight, group = grouped()
    source = cut(P, y, weight, at=AT, group=group)

    def tuned():
        return confmax.maximize("accuracy", source, classes=NAMES, constraints=limits, confusion="labels",
                                randomized=False)  # fmt: skip

    with_sample = tuned()
    memory = confmax.maximize("accuracy", P, y, sample_weight=weight, group=group, constraints=limits,
                              confusion="labels", randomized=False)  # fmt: skip
    monkeypatch.setattr("confmax.solution.search.with_rules_of_sample", lambda method, problem: problem)
    without = tuned()
    assert with_sample.value > max(memory.value - 0.002, without.value + 0.002)


# --- where parts lie --------------------------------------------------------------------------------------------------


def written(folder, frame, rows=800):
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.table(frame), folder / "rows.parquet", row_group_size=rows)
    return folder / "rows.parquet"


def columns_of(P, y, weight, group):
    return {**dict(zip(NAMES, P.T, strict=True)), "truth": y, "w": weight, "sex": group}


def test_command_line_reads_groups_in_parts(tmp_path):
    P, y, weight, group = grouped()
    path = written(tmp_path, columns_of(P, y, weight, group))
    told = []
    for in_parts in ("yes", "no"):
        out = tmp_path / f"{in_parts}.json"
        told.append(document(
            "tune", str(path), "--label", "truth", "--weight", "w", "--group", "sex", "--metric", "accuracy",
            "--subject-to", LIMITS[0][0], "--confusion", "model", "--calibration", "none", "--in-parts", in_parts,
            "-o", str(out),
        ))  # fmt: skip
        assert confmax.DecisionRule.load(out).groups == ("men", "other", "women")
    assert told[0]["tuned"] == pytest.approx(told[1]["tuned"], abs=2e-6)
    blank = np.where(np.arange(len(P)) == 2500, " ", group)
    path = written(tmp_path, columns_of(P, y, weight, blank))
    _, error = run("tune", str(path), "--label", "truth", "--group", "sex", "--metric", "accuracy", "--subject-to",
                   LIMITS[0][0], "--in-parts", "yes", code=2)  # fmt: skip
    assert "group column 'sex'" in error and "empty rows" in error


def test_dask():
    from tests.dask_helpers import frame_of, rows

    P, y, weight, group = grouped()
    _, lazy = frame_of(P, np.searchsorted(NAMES, y), weight)
    lazy = lazy.map_partitions(lambda part: part.assign(sex=group[part.index]))
    more = {"constraints": LIMITS[0], "confusion": "model", "calibration": None}
    memory = confmax.maximize("accuracy", P, y, sample_weight=weight, group=group, **more)
    runs = {
        "frame": lambda: confmax.maximize("accuracy", lazy, "truth", sample_weight="w", group="sex", **more),
        "opened": lambda: confmax.maximize(
            "accuracy", confmax.open_table(lazy, label="truth", weight="w", group="sex"), **more
        ),
        "arrays": lambda: confmax.maximize(
            "accuracy", rows(P), rows(y), sample_weight=rows(weight), group=rows(group), **more
        ),
        "in memory beside": lambda: confmax.maximize(
            "accuracy", rows(P), y, sample_weight=weight, group=group, **more
        ),
        "a series": lambda: confmax.maximize(
            "accuracy", lazy[list(NAMES)], lazy["truth"], sample_weight=lazy["w"], group=lazy["sex"], **more
        ),
    }  # fmt: skip
    for name, call in runs.items():
        found = call()
        assert found.value == pytest.approx(memory.value, abs=2e-6), name
        assert found.rule.groups == ("men", "other", "women"), name
    with pytest.raises(ValueError, match=r"^partition 3: row 299 of group is missing"):
        confmax.maximize("accuracy", rows(P), y, group=np.where(np.arange(3000) == 1000, None, group), **more)
    with pytest.raises(ValueError, match="group must hold one group per row of proba: 3000"):
        confmax.maximize("accuracy", rows(P), y, group=group[:9], **more)
    with pytest.raises(ValueError, match="pass y, sample_weight and group as arrays"):
        confmax.maximize("accuracy", rows(P), y, group="sex", **more)
    with pytest.raises(ValueError, match="has no column 'gender'"):
        confmax.maximize("accuracy", lazy, "truth", sample_weight="w", group="gender", **more)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_groups_that_cannot_be_used_are_refused():
    P, y, weight, group = grouped()
    source = cut(P, y, weight, at=AT, group=group)
    missing = cut(P, y, weight, at=AT, group=np.where(np.arange(len(P)) == 2100, None, group))
    many = cut(P, y, weight, at=AT, group=np.arange(len(P)))
    lacking = cut(P, y, weight, at=AT, group=np.where((y == "a") | (group != "other"), "men", "other"))
    idle = cut(P, y, np.where(group == "other", 0.0, weight), at=AT, group=group)
    for given, more, sentence in (
        (source, {}, "group changes the rule only through constraints that speak of groups"),
        (source, {"constraints": "recall[a] >= 0.5"}, "only through constraints that speak of groups"),
        (source, {"constraints": LIMITS[0], "group": group}, "brings the group of each row; pass group= to open_table"),
        (source, {"constraints": LIMITS[0], "confidence": 0.9}, "their weights are not equal"),
        (cut(P, y, weight, at=AT), {"constraints": LIMITS[0]}, "speaks of groups, and there are none"),
        (
            cut(P, y, weight, at=AT),
            {"constraints": LIMITS[0], "group_proba": np.full((len(P), 2), 0.5)},
            "group_proba= needs all rows in memory, and these lie in parts",
        ),
        (missing, {"constraints": LIMITS[0]}, "^part 4: row 100 of group is missing"),
        (many, {"constraints": LIMITS[0]}, "group has 3,000 different values and may have at most 100"),
        (lacking, {"constraints": LIMITS[0]}, "group 'other' has no row of class 'a'"),
        (idle, {"constraints": LIMITS[2]}, "group 'other' has no weight"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            confmax.maximize("accuracy", given, classes=NAMES, **more)


def test_small_cells_are_warned_of():
    P, y, weight, group = grouped()
    rare = np.where((group == "other") & (y == "a") & (np.cumsum(y == "a") > 60), "men", group)
    n = int(((rare == "other") & (y == "a")).sum())
    assert 0 < n < 30
    with pytest.warns(UserWarning, match=f"group 'other' has {n} rows of class 'a'"):
        confmax.maximize("accuracy", cut(P, y, weight, at=AT, group=rare), classes=NAMES, constraints=LIMITS[0],
                         confusion="model")  # fmt: skip


def test_parts_change_nothing_and_the_order_of_groups_nothing():
    P, y, weight, group = grouped()
    runs = []
    for at, names in ((AT, {}), ((1, 1500), {}), ((), {"men": "z", "women": "y", "other": "x"})):
        given = np.array([names.get(name, name) for name in group.tolist()])
        source = cut(P, y, weight, at=at, group=given)
        found = confmax.maximize("macro_f1", source, classes=NAMES, constraints=LIMITS[0], confusion="model")
        runs.append((found.value, found.rule, names))
    assert np.ptp([value for value, *_ in runs]) < 2e-6
    for name in ("men", "women", "other"):
        decided = [rule.of_group(names.get(name, name)).decision_probabilities(P) for _, rule, names in runs]
        assert all(np.mean(np.abs(decided[0] - one).max(axis=1) > 1e-3) < 0.01 for one in decided[1:])


@pytest.mark.usefixtures("gathers")
def test_an_array_of_groups_never_meets_rows_in_another_order(tmp_path):
    """Rows that were read in parts lie in the order of their hashes, also where all of them are in memory."""
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    P, group = rng.dirichlet(np.ones(3), 600), np.array(["a", "b"])[rng.integers(0, 2, 600)]
    y = (P.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    rule = confmax.maximize("accuracy", P, y, group=group, constraints="difference(rate[0] | group) <= 0.05").rule
    pq.write_table(pa.table({f"p{k}": P[:, k] for k in range(3)}), tmp_path / "t.parquet")
    opened = confmax.open_table(tmp_path / "t.parquet", columns=["p0", "p1", "p2"])
    with pytest.raises(
        ValueError, match="a rule that decides by groups needs all rows in memory, and these lie in parts"
    ):
        confmax.shift.detect(opened, rule, group=group)
    shares = np.column_stack([group == "a", group == "b"]).astype(float)
    with pytest.raises(ValueError, match="group_proba= needs all rows in memory, and these lie in parts"):
        confmax.maximize("accuracy", opened, group_proba=shares, constraints="difference(rate[0] | group) <= 0.05")
