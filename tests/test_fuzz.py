"""Random input of every kind is read right or refused; runs are counted, go on where they stopped, and show faults."""

import json

import pytest

from benchmarks import fuzz

pytest.importorskip("click")
pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("kind", "trials"), [("rules", 150), ("limits", 20), ("exports", 25), ("kernels", 25), ("commands", 15)]
)
def test_a_sample_of_every_kind(kind, trials):
    if kind == "kernels" and fuzz.kernels.native is None:
        pytest.skip("without the compiled module")
    ended = {fuzz.trial(kind, seed) for seed in range(trials)}
    assert "right" in ended and ended <= {"right", "refused"}


def odd(seed):
    """Refuse nothing, and fail on the seed 12."""
    if seed == 12:
        raise TypeError("twelve\nis odd")
    return "right"


class Here:
    """A pool that works in this process."""

    def __init__(self, *_, **__):
        self.map = lambda call, seeds, chunksize: map(call, seeds)

    def shutdown(self, *, cancel_futures):
        assert cancel_futures


@pytest.fixture
def kinds(monkeypatch):
    kinds = {"odd": odd}
    monkeypatch.setattr(fuzz, "KINDS", kinds)
    monkeypatch.setattr(fuzz, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(fuzz, "BLOCK", 4)
    return kinds


def run(*words):
    with pytest.raises(SystemExit) as end:
        fuzz.main([*words])
    return end.value.code


@pytest.mark.usefixtures("kinds")
def test_counts_go_on_where_they_stopped(tmp_path, capsys):
    file = tmp_path / "counts.json"
    assert not run("--kinds", "odd", "--trials", "5", "--seed", "5", "--resume", str(file))
    assert json.loads(file.read_text()) == {"odd": {"first": 5, "next": 10, "right": 5, "refused": 0, "faults": []}}
    assert run("--kinds", "odd", "--trials", "9", "--resume", str(file)) == 1
    assert json.loads(file.read_text())["odd"] == {"first": 5, "next": 14, "right": 8, "refused": 0, "faults": [12]}
    told = capsys.readouterr().out
    assert "fault: TypeError: twelve is odd\n  python -m benchmarks.fuzz --kinds odd --seed 12 --trials 1\n" in told
    assert "odd | 9 | 8 | 0 | 1" in told and "odd | 9 | 8 | 0 | 1" in fuzz.fuzz(file)[1]
    with pytest.raises(TypeError, match="twelve"):
        fuzz.main(["--kinds", "odd", "--seed", "12", "--trials", "1"])


def test_an_interrupted_run_keeps_what_was_counted(kinds, tmp_path, capsys):
    def stopped(seed):
        if seed == 6:
            raise KeyboardInterrupt
        return "refused"

    kinds["stopped"] = stopped
    file = tmp_path / "counts.json"
    assert not run("--kinds", "stopped", "--trials", "20", "--resume", str(file))
    counts = json.loads(file.read_text())["stopped"]
    assert (counts["next"], counts["refused"], counts["faults"]) == (6, 6, [])
    assert "stopped; the same command with --resume goes on" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["counts.json"]


def test_what_is_no_sentence_of_confmax_is_a_fault(kinds):
    kinds["numpy"] = lambda seed: fuzz.refused(error_of(lambda: fuzz.np.zeros(3).reshape(2, 2)))
    kinds["ours"] = lambda seed: fuzz.refused(error_of(lambda: fuzz.parse("recall")))
    assert "not a sentence: cannot reshape" in fuzz.trial("numpy", 0)
    assert fuzz.trial("ours", 0) == "refused"


def error_of(call):
    with pytest.raises(ValueError) as caught:
        call()
    return caught.value
