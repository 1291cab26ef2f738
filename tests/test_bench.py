"""The benchmark in the wheel: its page on two small tables, its intervals, and rivals that are not installed."""

import numpy as np
import pytest

import confmax_bench as bench
from tests.helpers import labels_drawn


@pytest.fixture
def tables():
    draw = np.random.default_rng(0)
    found = []
    for K in (2, 3):
        P, Q = draw.dirichlet(np.ones(K) / 2, (2, 150))
        group, other = draw.integers(0, 2, (2, 150))
        found.append(bench.Table(f"table of {K}", P, labels_drawn(P, draw), group, Q, labels_drawn(Q, draw), other))
    return found


def test_the_page(tables, monkeypatch, capsys):
    monkeypatch.setattr(bench, "tables", lambda: tables)
    monkeypatch.setattr(bench, "REPLICATES", 50)
    monkeypatch.setattr(bench, "METRICS", ("macro_f1", "g_mean"))
    monkeypatch.setattr(bench, "nelder_mead", lambda metric, table: (bench.by_weights(1 / bench.prior(table)), 7))
    bench.main()
    page = capsys.readouterr().out
    assert "There are 2 tables" in page and "macro_f1, g_mean, each on every table" in page and "{" not in page
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    assert ["confmax", "4", "+0.0000", "0", "0"] in [line[:5] for line in lines]
    nelder, prior = (next(line for line in lines if line[0] == name) for name in ("Nelder-Mead", "p / prior"))
    assert nelder[2:6] == [*prior[2:5], "7"]
    kept = next(line for line in lines if line[:2] == ["rates within 0.02", "confmax, labels"])
    assert kept[2] == "1" and kept[4] == "0"


def test_an_interval_of_paired_differences():
    draw = np.random.default_rng(1)
    y = draw.integers(0, 2, 400)
    right = np.where(draw.random(400) < 0.8, y, 1 - y)
    D, E = bench.one_hot(right, 2), bench.one_hot(1 - right, 2)
    gap, low, high = bench.difference("accuracy", y, D, E)
    share = (right == y).mean()
    assert gap == pytest.approx(2 * share - 1)
    # of a share: 1.96 standard errors, twice
    assert (high - low) / 2 == pytest.approx(2 * 1.96 * np.sqrt(share * (1 - share) / 400), rel=0.1)
    assert bench.difference("accuracy", y, D, D) == (0.0, 0.0, 0.0)


def test_what_is_missing_is_left_out(tables):
    def missing(_metric, _table):
        raise ModuleNotFoundError("no such package")

    found = bench.run({"none": missing, "argmax": lambda *_: (bench.by_weights(np.ones(2)), "")}, "accuracy", tables[0])
    assert list(found) == ["argmax"]


@pytest.mark.slow
def test_tables_are_those_of_the_seeds():
    one, other = (list(bench.tables()) for _ in range(2))
    assert len(one) == 16 and len({table.name for table in one}) == 16
    for first, second in zip(one, other, strict=True):
        assert first.P.tobytes() == second.P.tobytes() and first.z.tolist() == second.z.tolist()
