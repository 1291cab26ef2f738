"""Where commands write: nothing unless it was asked for, no file that is not theirs, links and pipes as they are."""

import json
import os
import stat
from pathlib import Path

import pytest

import confmax as library
from tests.cli_helpers import document, refusal, run, small
from tests.helpers import files_of_at_most

RULE = library.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abc"))
NOT_A_RULE = (
    "error: {0} is not a rule file, so it is not replaced; choose another name with -o, or replace it with --force\n"
)
SAME = "error: {0} is the input file; choose another name for the output\n"


@pytest.fixture(autouse=True)
def _table(inside):
    small(inside)


@pytest.fixture
def _no_demonstration(monkeypatch):
    monkeypatch.setattr("confmax.cli.demo.demonstrate", lambda _progress: (RULE, {**DEMO}))


DEMO = {"data": "d", "rows": 3, "folds": 2, "classes": {"a": 1}, "results": [], "rule": json.loads(RULE.to_json())}
TUNE = ("tune", "small.csv", "--label", "y", "--metric", "macro_f1")


def everything():
    """Names and contents of all that lies in the folder."""
    return {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}


# --- nothing without -o ----------------------------------------------------------------------------------------------


def test_tune_writes_nothing_and_prints_the_rule():
    before = everything()
    assert "DecisionRule for macro_f1: 3 classes" in run(*TUNE)[0]
    found = document(*TUNE)
    assert found["rule_file"] is None
    assert everything() == before
    assert document(*TUNE, "-o", "rule.json") == {**found, "rule_file": "rule.json"}
    assert json.loads(Path("rule.json").read_text()) == found["rule"]


@pytest.mark.usefixtures("_no_demonstration")
def test_demo_writes_nothing_and_prints_the_rule():
    before = everything()
    assert str(RULE) in run("demo")[0]
    assert document("demo")["rule_file"] is None
    assert everything() == before
    run("demo", "-o", "d.json")
    assert library.DecisionRule.load("d.json") == RULE


@pytest.mark.parametrize("command", [TUNE, ("demo",)])
def test_force_needs_a_file(command):
    said = refusal(*command, "--force")
    assert said.startswith("error: --force says that -o may replace a file; give -o too; ")


# --- what is replaced ------------------------------------------------------------------------------------------------


def rule_text(**changed):
    """The text of a rule file with some fields changed."""
    return json.dumps({**json.loads(RULE.to_json()), **changed})


@pytest.mark.usefixtures("_no_demonstration")
@pytest.mark.parametrize("command", [TUNE, ("demo",)])
def test_rule_files_are_replaced(command):
    Path("r.json").write_text(rule_text(seed=5))
    run(*command, "-o", "r.json")
    assert Path("r.json").read_text() == library.DecisionRule.load("r.json").to_json() != rule_text(seed=5)


@pytest.mark.parametrize("content", ["a,b\n1,2\n", rule_text(version=99), rule_text(atoms=[])])
@pytest.mark.parametrize("command", [TUNE, ("demo",)])
def test_other_files_are_replaced_by_force_only(monkeypatch, command, content):
    """The file is looked at before anything is tuned."""
    Path("kept.txt").write_text(content)
    before = everything()
    with monkeypatch.context() as patched:
        patched.setattr("confmax.cli.demo.demonstrate", lambda _progress: pytest.fail("the demonstration ran"))
        patched.setattr("confmax.cli.tune.read_frame", lambda _path: pytest.fail("the file was read"))
        assert refusal(*command, "-o", "kept.txt") == NOT_A_RULE.format("kept.txt")
    assert everything() == before
    monkeypatch.setattr("confmax.cli.demo.demonstrate", lambda _progress: (RULE, {**DEMO}))
    run(*command, "-o", "kept.txt", "--force")
    assert library.DecisionRule.load("kept.txt").n_classes == 3


def test_a_file_that_appears_meanwhile_is_not_replaced(monkeypatch):
    def demonstrate(_progress):
        Path("new.json").write_text("somebody else's")
        return RULE, {**DEMO}

    monkeypatch.setattr("confmax.cli.demo.demonstrate", demonstrate)
    assert refusal("demo", "-o", "new.json") == NOT_A_RULE.format("new.json")
    assert Path("new.json").read_text() == "somebody else's"


def test_the_target_of_a_link_is_what_is_replaced():
    Path("target.json").write_text("notes")
    Path("link.json").symlink_to("target.json")
    assert refusal(*TUNE, "-o", "link.json") == NOT_A_RULE.format("link.json")
    assert Path("target.json").read_text() == "notes"


# --- devices and pipes -----------------------------------------------------------------------------------------------


def outputs():
    """Return commands up to the name of what they write."""
    RULE.save("r.json")
    return {
        "tune": (*TUNE, "-o"),
        "export": ("export", "r.json", "--to", "python", "-o"),
        "apply": ("apply", "r.json", "small.csv", "-o"),
    }


@pytest.mark.parametrize("name, pipe", [("tune", "pipe"), ("export", "pipe"), ("apply", "pipe.csv")])
def test_a_pipe_is_written_to_in_place(name, pipe):
    command = outputs()[name]
    run(*command, "file.csv")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        run(*command, pipe)
        assert os.read(reader, 1 << 16) == Path("file.csv").read_bytes()
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(Path(pipe).stat().st_mode)


# --- refused ---------------------------------------------------------------------------------------------------------


def test_the_file_that_is_read_is_never_written():
    RULE.save("r.json")
    Path("again.csv").symlink_to("small.csv")
    Path("costs.csv").write_text("a,b,c\n0,1,1\n1,0,1\n1,1,0\n")
    before = everything()
    costs = ("tune", "small.csv", "--label", "y", "--costs", "costs.csv")
    for name, option, command in (
        ("again.csv", "-o", (*TUNE, "--force")),
        ("costs.csv", "-o", (*costs, "--force")),
        ("small.csv", "--report", TUNE),
        ("costs.csv", "--report", costs),
        ("small.csv", "-o", ("apply", "r.json", "small.csv")),
        ("again.csv", "-o", ("apply", "r.json", "small.csv")),
        ("again.csv", "-o", ("report", "r.json", "small.csv", "--label", "y")),
        ("r.json", "-o", ("export", "r.json", "--to", "python")),
    ):
        assert refusal(*command, option, name) == SAME.format(f"{option} {name}")
    assert everything() == before


def test_two_outputs_are_two_files(tmp_path):
    Path("page.html").symlink_to("new.json")
    said = refusal(*TUNE, "-o", "new.json", "--report", "page.html")
    assert said.startswith("error: --report and -o both name page.html; choose another name for one of them; ")
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize("name", ["tune", "export", "apply"])
def test_a_write_that_fails_is_one_sentence_with_the_path(name):
    command = outputs()[name]
    run(*command, "before.csv")
    before = everything()
    with files_of_at_most(10):
        said = refusal(*command, "out.csv")
    assert said == "error: out.csv cannot be written (File too large); choose another place\n"
    assert everything() == before


def test_a_file_that_is_named_like_a_folder_is_not_replaced():
    RULE.save("r.json")
    Path("kept.csv").write_text("mine\n")
    before = everything()
    said = refusal("apply", "r.json", "small.csv", "-o", "kept.csv/")
    assert "kept.csv/ is named like a folder, and kept.csv is a file; leave the / out" in said
    assert everything() == before
