"""A disk that is full while a result is written: one sentence, the old file stays, and no part of a new one is left."""

import errno
import json
import os
from dataclasses import replace
from importlib.util import find_spec

import pytest

import confmax
from tests.cli_helpers import FEW_BYTES, run_process, small

pytest.importorskip("pyarrow")
pytest.importorskip("resource")
pytestmark = pytest.mark.usefixtures("inside")
TUNE = ["tune", "small.csv", "--label", "y", "--metric", "g_mean"]
TUNED_ON = ["--tuned-on", "small.csv", "--tuned-label", "y"]
# every command that writes, by the file that it writes
WRITING = {
    "new.json": [*TUNE, "-o", "new.json"],
    "old.json": [*TUNE, "-o", "old.json"],
    **{f"out.{kind}": ["apply", "old.json", "small.csv", "-o", f"out.{kind}"] for kind in ("csv", "parquet", "npz")},
    "adapted.json": [
        "shift",
        "old.json",
        "small.csv",
        *TUNED_ON,
        "--priors",
        "balanced",
        "--force",
        "-o",
        "adapted.json",
    ],
    "rule.sql": ["export", "old.json", "--to", "sql", "-o", "rule.sql"],
    "rule.py": ["export", "old.json", "--to", "python", "-o", "rule.py"],
}
if find_spec("vl_convert") and find_spec("jinja2"):
    WRITING["report.html"] = ["report", "old.json", "small.csv", *TUNE[2:], "-o", "report.html"]
if find_spec("matplotlib"):
    frontier = ["frontier", *TUNE[1:], "--over", "rate[a] <=", "--levels", "2", "--plot", "plot.svg"]
    WRITING["plot.svg"] = frontier
# several commands in one process, what each said behind its exit code
SEVERAL = """
import contextlib, io, json, sys, warnings
from confmax.__main__ import main
warnings.simplefilter("ignore")
found = []
for args in json.loads(sys.argv[1]):
    sys.argv[1:] = args
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            found.append([end.code, said.getvalue().splitlines()])
print(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch):
    """Child processes do not count branches, which takes a file."""
    for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
        monkeypatch.delenv(name)


def test_every_command_says_so_and_leaves_the_old_file(tmp_path):
    small(tmp_path)
    plain = confmax.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abc"))
    replace(plain, metric="macro_f1").save("old.json")
    for name in WRITING:
        if name not in ("old.json", "new.json"):
            (tmp_path / name).write_text("old")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = run_process(json.dumps(list(WRITING.values())), code=SEVERAL, first=FEW_BYTES)
    assert done.returncode == 0, done.stderr
    for name, (code, said) in zip(WRITING, json.loads(done.stdout), strict=True):
        sentence = f"error: {name} cannot be written ({os.strerror(errno.EFBIG)}); choose another place"
        assert (code, said[-1]) == (2, sentence)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_stdout_on_a_full_disk_is_an_error(tmp_path):
    with open(tmp_path / "out.json", "wb") as out:
        done = run_process("metrics", "--json", first=FEW_BYTES, stdout=out)
    sentence = f"error: standard output cannot be written ({os.strerror(errno.EFBIG)}); redirect it to another place\n"
    assert (done.returncode, done.stderr) == (2, sentence)


@pytest.mark.parametrize("step", ["open", "chmod", "replace"])
def test_a_rule_is_saved_whole_or_not_at_all(tmp_path, monkeypatch, step):
    """Whichever step finds the disk full."""
    confmax.DecisionRule.from_weights([1.0, 2.0]).save("rule.json")
    before = (tmp_path / "rule.json").read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    other = confmax.DecisionRule.from_weights([2.0, 1.0])
    monkeypatch.setattr(f"confmax.places.os.{step}", full)
    with pytest.raises(OSError, match="No space left") as found:
        other.save("rule.json")
    monkeypatch.undo()
    assert (found.value.errno, found.value.filename) == (errno.ENOSPC, "rule.json")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"rule.json": before}
