"""Small samples of what the benchmarks of the truth count."""

import numpy as np
import pytest

from benchmarks import truth_absent, truth_counts, truth_kept


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


def test_the_best_threshold_is_that_of_all():
    q, _, y = truth_kept.rows_of("beta(1, 3)", "one digit", 200, 0)
    for value in truth_kept.VALUES.values():
        cuts = [np.inf, *np.unique(q)]
        worth = [value((y * (q >= cut)).mean(), ((1 - y) * (q >= cut)).mean(), y.mean()) for cut in cuts]
        assert worth[cuts.index(truth_kept.best_threshold(value, q, y))] == pytest.approx(max(worth))


def test_a_limit_of_groups_is_judged_by_the_truth():
    new = truth_kept.grouped("half", truth_kept.SHARES[225], 20_000, 1)
    decided = new.q > 0.5
    far, _ = truth_kept.far_by("min(recall[1] | group) >= 0.7", new, decided)
    drawn = np.random.default_rng(0).random(len(new.p)) < new.p
    recalls = [decided[drawn & (new.group == g)].mean() for g in range(3)]
    assert far == pytest.approx(0.7 - min(recalls), abs=0.02)
