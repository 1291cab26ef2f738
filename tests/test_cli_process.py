"""The command line as a process: help, completion, exit codes, pipes, terminals, interruption."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import click
import pytest

import confmax as library
from tests.cli_helpers import HPC, SOURCE, cli, refusal, run, run_process, shell, small

pytest.importorskip("pyarrow")
COMMANDS = sorted(cli.confmax.commands)
pytestmark = pytest.mark.usefixtures("inside")


# --- help ------------------------------------------------------------------------------------------------------------


def examples(name):
    block = run(*([name] if name else []), "--help")[0].split("Example:\n")[1].split("\n\n")[0]
    return [shlex.split(line.split(" > ")[0]) for line in block.splitlines()]


def parsed(words):
    """Parse a command line with the real options; nothing runs."""
    assert words[0] == "confmax"
    command = cli.confmax.commands[words[1]]
    with click.Context(cli.confmax, info_name="confmax") as parent:
        return command.make_context(words[1], list(words[2:]), parent=parent).params


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_the_help_is_valid(name):
    found = examples(name)
    assert found
    for words in found:
        assert words[1] == name
        parsed(words)


def test_examples_of_the_group():
    assert {words[1] for words in examples("")} <= set(COMMANDS)
    for words in examples(""):
        parsed(words)


def test_an_example_that_is_not_valid_would_be_found():
    with pytest.raises(click.UsageError):
        parsed(["confmax", "tune", "a.csv", "--lable", "y"])


@pytest.mark.parametrize(
    "typed, near", [("tuna", "tune"), ("aply", "apply"), ("explian", "explain"), ("compair", "compare")]
)
def test_a_misspelt_command_is_told_the_nearest(typed, near):
    said = refusal(typed)
    assert said == f"error: no such command {typed!r} (did you mean {near}?); 'confmax --help' tells more\n"


def test_a_command_like_none_is_told_all():
    assert f"there are {', '.join(COMMANDS)}" in refusal("zzz")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in refusal("completion", "tcsh")


# --- completion ------------------------------------------------------------------------------------------------------


def completed(line, shell="bash"):
    words = line.split(" ")
    env = {"_CONFMAX_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    stdout, stderr = run(env=env)
    assert stderr == ""
    return [completion.split(",", 1)[1] for completion in stdout.splitlines() if completion]


def test_completion_of_commands_options_and_values(tmp_path):
    """Click's own protocol, as a shell speaks it."""
    library.DecisionRule.from_weights([1.0, 2.0]).save("my rule.json")
    library.DecisionRule.from_weights([1.0, 2.0]).save("my.json")
    small(tmp_path)
    assert completed("confmax ex") == ["explain", "export"]
    assert completed("confmax tune --met") == ["--metric"]
    assert completed("confmax tune t.csv --metric macro_") == [
        "macro_f1", "macro_f_beta", "macro_jaccard", "macro_precision",
    ]  # fmt: skip
    assert completed("confmax compare t.csv --metric f1_m") == ["f1_macro", "f1_micro"]
    assert completed("confmax tune t.csv --solver d") == ["dinkelbach"]
    assert completed("confmax explain m") == ["my rule.json", "my.json"]
    assert completed("confmax score small.csv --rule my.") == ["my.json"]
    assert completed("confmax score small.csv --label ") == ["id", "a", "b", "c", "w", "y"]
    assert completed("confmax score none.csv --label ") == []
    assert completed("confmax tune small.csv --label y --subject-to re") == ["recall[a]", "recall[b]", "recall[c]"]
    assert completed("confmax tune small.csv --label y --subject-to 'fpr[b") == ["fpr[b]"]
    assert completed("confmax tune small.csv --classes u,v --subject-to rate") == ["rate[u]", "rate[v]"]
    assert completed("confmax tune none.csv --label y --subject-to r") == ["rate[", "recall["]
    assert completed("confmax tune none.csv --subject-to min") == ["min_recall"]


def test_completion_where_there_is_no_rule_leaves_files_to_the_shell():
    env = {"_CONFMAX_COMPLETE": "bash_complete", "COMP_WORDS": "confmax explain x", "COMP_CWORD": "2"}
    assert run_process(env=env).stdout == "file,x\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script(shell, tmp_path):
    script, stderr = run("completion", shell)
    assert stderr == "" and "_CONFMAX_COMPLETE" in script and "confmax" in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        flag = "--no-execute" if shell == "fish" else "-n"
        assert subprocess.run([shell, flag, "script"], check=False).returncode == 0


# --- exit codes ------------------------------------------------------------------------------------------------------


def test_python_m_is_the_same_command():
    shown, _ = shell("COLUMNS=80 {} tune --help")
    assert shown == run_process("tune", "--help").stdout
    assert shown.startswith("Usage: confmax tune ")


def test_exit_codes():
    """0 done, 1 a bug, 2 a mistake of the user's."""
    assert run_process("metrics").returncode == 0
    assert run_process("metric").returncode == 2
    code = "import confmax.cli.metrics as t; t.every_metric = lambda: 1 / 0; from confmax.__main__ import main; main()"
    done = run_process("metrics", code=code)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


def test_no_command_waits_for_what_only_reports_need():
    """The work of all commands together does without libraries that only pages, or estimators, load."""
    late = ("scipy.stats", "sklearn", "pandas", "jinja2", "vl_convert", "matplotlib")
    work = "from confmax.cli import apply, demo, explain, export, metrics, report, score, tune"
    done = run_process(code=f"import sys; {work}; print([name for name in {late} if name in sys.modules])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("args", [("metrics",), ("metrics", "--json"), ("tune", "--help")])
def test_a_reader_that_stops_ends_the_command_quietly(args):
    """As in `confmax metrics | head -0`: nothing on stderr, exit code 1."""
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-m", "confmax", *args], stdout=write, stderr=subprocess.PIPE, text=True,
                          env=env, check=False)  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_output_that_cannot_be_written_is_an_error():
    sentence = "error: standard output cannot be written (No space left on device); redirect it to another place\n"
    assert shell("{} metrics --json >/dev/full", 2) == ("", sentence)


def test_an_interruption_is_130_and_leaves_no_file(tmp_path):
    """Ctrl-C while the file is read."""
    # a shell starts what runs in its background with interruptions ignored, and processes inherit that
    obey = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    os.mkfifo("slow.csv")
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.Popen([sys.executable, "-m", "confmax", "tune", "slow.csv", "--metric", "macro_f1"], env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=obey)  # fmt: skip
    # opening a pipe to write returns when the command has opened it to read
    with open("slow.csv", "w"):
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr.strip()) == (130, "", "interrupted")
    assert [path.name for path in tmp_path.iterdir()] == ["slow.csv"]


# --- terminals -------------------------------------------------------------------------------------------------------


# several commands in one process, a line of its own between what they print
MARK = "--- next command ---"
SEVERAL = f"""
import contextlib, json, sys
from confmax.__main__ import main
for args in json.loads(sys.argv[1]):
    sys.argv[1:] = args
    with contextlib.suppress(SystemExit):
        main()
    print({MARK!r}, flush=True)
"""


def on_terminal(width, *commands, **env):
    """Run commands on a terminal of some width, in one process; return what each printed."""
    pty = pytest.importorskip("pty")
    fcntl, termios, struct = (pytest.importorskip(name) for name in ("fcntl", "termios", "struct"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    without = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    env = {**without, "PYTHONPATH": str(SOURCE), "TERM": "xterm", **env}
    process = subprocess.Popen(
        [sys.executable, "-c", SEVERAL, json.dumps(commands)], stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    found = b""
    with contextlib.suppress(OSError):  # the end, on Linux
        while chunk := os.read(ours, 65536):
            found += chunk
    assert process.wait(60) == 0
    os.close(ours)
    *shown, rest = found.decode().replace("\r\n", "\n").split(MARK + "\n")
    assert (len(shown), rest) == (len(commands), "")
    return shown


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


@pytest.mark.parametrize("width", [40, 80])
def test_no_number_is_cut_on_a_narrow_terminal(width, tmp_path):
    library.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abc")).save("r.json")
    path = small(tmp_path, rows=90)
    commands = [
        ["metrics"],
        ["explain", "r.json", "--proba", "0.2,0.5,0.3"],
        ["score", path.name, "--label", "y", "--rule", "r.json", "--metric", "g_mean"],
        ["compare", path.name, "--label", "y", "--metric", "g_mean"],
    ]
    for args, shown in zip(commands, map(plain, on_terminal(width, *commands)), strict=True):
        wide, _ = run(*args)
        assert "\u2026" not in shown, args  # rich's mark of what it cut
        screen = [line.split("\r")[-1] for line in shown.splitlines()]  # without the progress bar
        assert all(len(line) <= width for line in screen), args
        numbers = re.findall(r"[+-]?\d\.\d{3,4}", wide)
        assert sorted(numbers) == sorted(re.findall(r"[+-]?\d\.\d{3,4}", shown)), args


def test_no_color_means_no_colour():
    library.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abc")).save("r.json")
    (shown,) = on_terminal(80, ["explain", "r.json"], NO_COLOR="1")
    codes = set(re.findall(r"\x1b\[([0-9;]*)m", shown))
    assert codes <= {"0", "1"}  # bold, and its end
    assert "\x1b" not in on_terminal(80, ["explain", "r.json"], TERM="dumb")[0]


def test_piped_output_is_plain_ascii_in_the_c_locale(tmp_path):
    path = small(tmp_path, rows=90)
    env = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    commands = json.dumps([["metrics"], ["compare", str(path), "--label", "y", "--metric", "g_mean"]])
    done = run_process(commands, code=SEVERAL, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(MARK) == 2 and "macro_f1" in done.stdout and "argmax" in done.stdout
    assert done.stdout.isascii() and "\x1b" not in done.stdout
    assert not any(line != line.rstrip() for line in done.stdout.splitlines())
    # the width of the pipe is the same wherever it is made
    assert run_process(commands, code=SEVERAL, env={**env, "COLUMNS": "30"}).stdout == done.stdout


def test_lines_can_be_found_by_their_first_word():
    done = run_process("score", HPC, "--label", "obs", "--replicates", "0")
    lines = [line for line in done.stdout.splitlines() if line.startswith("g_mean ")]
    assert len(lines) == 1 and lines[0].split()[1:] == ["0.4870", "0.5614"]


def test_stacked_lines_keep_their_headings():
    """Where a table does not fit, every cell says which column it is of; empty ones are left out."""
    lines = plain(*on_terminal(60, ["metrics"])).splitlines()
    at = lines.index("recall")
    assert [line.strip() for line in lines[at + 1 : at + 3]] == ["structure  linear", "needs  two classes, or [NAME]"]
    assert lines[at + 3].startswith("    what it is  share of the rows")
    at = lines.index("accuracy")
    assert lines[at + 2].startswith("    what it is  ")
