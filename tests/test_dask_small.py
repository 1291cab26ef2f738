"""Small neighbouring blocks of Dask collections are one task in every pass."""

from contextlib import nullcontext

import numpy as np
import pytest

pytest.importorskip("dask", reason="dask is not installed")
pytest.importorskip("distributed", reason="distributed is not installed")

import dask
from hypothesis import given
from hypothesis import strategies as st

from confmax.oracle import make_oracle, make_table
from confmax.tables.partitioned import dask as _dask
from confmax.tables.partitioned.parts import together

from .dask_helpers import all_gains, frame_of, labelled, rows, same, workers


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(-1, 20))
def test_neighbours_are_together_up_to_a_size(sizes, most):
    places = together(sizes, most)
    assert [each for place in places for each in sizes[place]] == sizes
    sums = [sum(sizes[place]) for place in places]
    assert all(rows <= most or place.stop - place.start == 1 for place, rows in zip(places, sums, strict=True))
    assert all(rows + sizes[place.stop] > most for place, rows in zip(places[:-1], sums[:-1], strict=True))


def tasks_of(source):
    """Return how many tasks every `dask.compute` has in a check and a scan, the oracle, and what the scan finds."""
    asked, compute = [], dask.compute
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask, "compute", lambda *tasks: (asked.append(len(tasks)), compute(*tasks))[1])
        oracle = make_oracle(make_table(*source), "labels")
        return asked, oracle, oracle.maximize(all_gains(4)["offsets"], matrix=True)


@pytest.mark.parametrize("engine", [nullcontext, lambda: workers(3)], ids=["threads", "workers"])
def test_many_small_blocks_are_one_task(engine):
    """In the pass over the labels, the check and the scan, however labels and weights are given."""
    P, y, weight = labelled()
    lengths, names = (30,) * 100, np.array(list("abcd"))[y]
    whole = make_oracle(make_table(P, y, weight), "labels").maximize(all_gains(4)["offsets"], matrix=True)
    with engine():
        for source, before in (
            ((rows(P, lengths), rows(y, lengths), rows(weight, lengths)), []),
            ((rows(P, lengths), names, weight), []),
            # the sizes of partitions that a frame does not know are asked one by one
            ((frame_of(P, y, weight, lengths)[1], "truth", "w"), [100]),
        ):
            asked, oracle, found = tasks_of(source)
            assert asked == [*before, 1, 1, 1]
            assert len(oracle.table.source.held) == 1
            same(found, whole)


def test_large_blocks_stay_parts_of_their_own(monkeypatch):
    P, y, weight = labelled()
    monkeypatch.setattr(_dask, "PART_CELLS", 4 * 1000)
    asked, _, _ = tasks_of((rows(P, (10, 20, 1500, 470, 500, 500)), y, weight))
    assert asked == [4, 4, 4]
