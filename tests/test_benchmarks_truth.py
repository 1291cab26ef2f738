"""Small samples of what the benchmarks of the truth count."""

import numpy as np
import pytest

from benchmarks import truth_absent, truth_counts


def test_intervals_of_counts_hold_the_rows_of_drawn_labels(monkeypatch):
    for name, size in (("SIZES", (10, 300)), ("TABLES", 3), ("BATCHES", 6), ("DRAWS", 5)):
        monkeypatch.setattr(truth_counts, name, size)
    few, many = truth_counts.against_convolution(np.random.default_rng(0))
    assert few[1:3] == ["100%", "0"] and float(few[3]) >= 0.95 and float(many[3]) >= 0.94
    lines = truth_counts.against_labels(np.random.default_rng(1))
    assert [what for what, *_ in lines] == ["true", "right", "missed", "further"]
    assert all(float(inside.rstrip("%")) >= 85.0 for _, _, inside in lines)


@pytest.mark.filterwarnings("ignore:no row of y has:UserWarning")
def test_what_no_row_has_is_decided_by_no_kind_of_rule():
    classes = truth_absent.of_classes(0, ["labels"], ["accuracy"])
    labels = truth_absent.of_labels(0, ["labels"], ["micro_f1"])
    found = [*classes, *labels]
    assert len({kind for kind, *_ in found}) == len(truth_absent.OF_CLASSES) + len(truth_absent.LABELS)
    assert all(decided == 0 for _, decided, _ in found)
