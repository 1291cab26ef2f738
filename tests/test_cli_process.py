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
from contextlib import suppress

import click
import pytest

import confmax as library
from tests.cli_helpers import SOURCE, after, cli, refusal, run, run_process, small

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


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_example_of_the_help_is_valid(name):
    lines = examples(name)
    assert lines
    for words in lines:
        assert words[1] == name or (name == "" and words[1] in COMMANDS)
        parsed(words)


def test_an_example_that_is_not_valid_would_be_found():
    with pytest.raises(click.UsageError):
        parsed(["confmax", "tune", "a.csv", "--lable", "y"])


def test_a_misspelt_command_is_told_the_nearest():
    said = refusal("compair")
    assert said == "error: no such command 'compair' (did you mean compare?); 'confmax --help' tells more\n"
    assert f"there are {', '.join(COMMANDS)}" in refusal("zzz")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in refusal("completion", "tcsh")


# --- completion ------------------------------------------------------------------------------------------------------


COMPLETED = {
    "ex": ["explain", "export"],
    "tune --met": ["--metric"],
    "tune t.csv --metric macro_": ["macro_f1", "macro_f_beta", "macro_jaccard", "macro_precision"],
    "compare t.csv --metric f1_m": ["f1_macro", "f1_micro"],
    "tune t.csv --solver d": ["dinkelbach"],
    "tune t.csv --in-parts ": ["auto", "yes", "no"],
    "explain x": ["x"],  # the shell completes files
    "score small.csv --rule my.": ["my."],
}


@pytest.mark.parametrize("line", COMPLETED)
def test_completion_of_commands_options_and_values(line):
    """Click's own protocol, as a shell speaks it."""
    words = f"confmax {line}"
    place = str(words.count(" "))
    stdout, stderr = run(env={"_CONFMAX_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": place})
    assert stderr == ""
    assert [one.split(",", 1)[1] for one in stdout.splitlines() if one] == COMPLETED[line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script(shell, tmp_path):
    script, stderr = run("completion", shell)
    assert stderr == "" and "_CONFMAX_COMPLETE" in script and "confmax" in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        flag = "--no-execute" if shell == "fish" else "-n"
        assert subprocess.run([shell, flag, "script"], check=False).returncode == 0


# --- exit codes ------------------------------------------------------------------------------------------------------


def test_a_bug_is_exit_code_1():
    code = "import confmax.cli.metrics as t; t.every_metric = lambda: 1 / 0; from confmax.__main__ import main; main()"
    done = run_process("metrics", code=code)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


def test_no_command_waits_for_what_only_reports_need():
    """The work of all commands together does without libraries that only pages, or estimators, load."""
    late = ("scipy.stats", "sklearn", "pandas", "jinja2", "vl_convert", "matplotlib")
    work = "from confmax.cli import apply, demo, explain, export, metrics, report, score, tune"
    done = run_process(code=f"import sys; {work}; print([name for name in {late} if name in sys.modules])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("args", [("metrics",), ("tune", "--help")])
def test_a_reader_that_stops_ends_the_command_quietly(args):
    """As in `confmax metrics | head -0`: nothing on stderr, exit code 1."""
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-m", "confmax", *args], stdout=write, stderr=subprocess.PIPE, text=True,
                          env=env, check=False)  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_interruption_is_130_and_leaves_no_file(tmp_path):
    """Ctrl-C while the file is read."""
    # a shell starts what runs in its background with interruptions ignored, and processes inherit that
    obey = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)"
    os.mkfifo("slow.csv")
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = after(obey, [sys.executable, "-m", "confmax", "tune", "slow.csv", "--metric", "macro_f1"])
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # a pipe can be opened to write when the command has opened it to read
    writer = None
    while writer is None:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
        with suppress(OSError):
            writer = os.open("slow.csv", os.O_WRONLY | os.O_NONBLOCK)
    try:
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        os.close(writer)
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


def test_no_number_is_cut_on_a_narrow_terminal(tmp_path):
    width = 40
    library.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abc")).save("r.json")
    path = small(tmp_path)
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


@pytest.mark.parametrize(("env", "codes"), [({"NO_COLOR": "1"}, {"0", "1"}), ({"TERM": "dumb"}, set())])
def test_no_color_means_no_colour(env, codes):
    """Without colours there is bold, and its end."""
    library.DecisionRule.from_weights([1.0, 2.0, 1.0], classes=list("abc")).save("r.json")
    (shown,) = on_terminal(80, ["explain", "r.json"], **env)
    assert set(re.findall(r"\x1b\[([0-9;]*)m", shown)) <= codes


def test_piped_output_is_plain_ascii_in_the_c_locale(tmp_path):
    """The width of the pipe is the same wherever it is made, and lines can be searched by their first word."""
    path = small(tmp_path)
    env = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "30"}
    score = ["score", str(path), "--label", "y", "--replicates", "0"]
    done = run_process(json.dumps([["metrics"], score]), code=SEVERAL, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(MARK) == 2 and done.stdout.isascii() and "\x1b" not in done.stdout
    assert not any(line != line.rstrip() for line in done.stdout.splitlines())
    metrics, scored, _ = done.stdout.split(MARK)
    assert re.search("^recall +linear +two classes", metrics, re.MULTILINE)
    (line,) = (line for line in scored.splitlines() if line.startswith("g_mean "))
    assert len(line.split()) == 3


def test_stacked_lines_keep_their_headings():
    """Where a table does not fit, every cell says which column it is of; empty ones are left out."""
    lines = plain(*on_terminal(60, ["metrics"])).splitlines()
    at = lines.index("recall")
    assert [line.strip() for line in lines[at + 1 : at + 3]] == ["structure  linear", "needs  two classes, or [NAME]"]
    assert lines[lines.index("accuracy") + 2].startswith("    what it is  ")


@pytest.mark.parametrize("arguments", [("--version",), ("metrics",), ("tune", "--help")])
def test_a_variable_that_means_nothing_is_one_sentence(arguments):
    done = run_process(*arguments, env={"CONFMAX_INSTRUCTIONS": "sse9"})
    sentence = "error: CONFMAX_INSTRUCTIONS is one of avx512, avx2, baseline, numpy; got 'sse9'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)
