"""The newcomer's walk in docs/first-steps.md: `test_fresh_processes` runs every command and compares every line.

``python -m tests.test_first_steps`` writes what the commands print into the page, for those who change the output.
"""

import re
import shlex
import tempfile
from pathlib import Path

from tests.fresh_process import OPTIONAL, run_fresh

PAGE = Path(__file__).parents[1] / "docs" / "first-steps.md"
# what may differ from run to run, in the page and in what is printed: nothing else is forgiven
NORMALISED = ((r"version \d+\.\d+\.\d+\S*", "version X"), (r"\d+(\.\d+)? (s|ms)\b", "T s"))
REPORTED = "Report written to report.html; its figures are cross-fitted.\n"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
SCRIPT = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```", re.DOTALL)


def step_of(line):
    """Return a line of the transcript as a step of `tests.fresh_process`."""
    program, *words = shlex.split(line)
    if program == "confmax":
        return {"command": words}
    if program == "head":
        most = int(words[0].lstrip("-"))
        return {"code": f"with open({words[1]!r}) as file:\n    print(''.join(file.readlines()[:{most}]), end='')"}
    assert program == "python"
    return {"code": words[1]} if words[0] == "-c" else {"script": words[0]}


def walked(page, folder):
    """Return the page with what its commands print now, one after the other in one new process."""
    for name, text in SCRIPT.findall(page):
        (folder / name).write_text(text)
    lines = [line for block in BLOCK.findall(page) for line in block.splitlines() if line.startswith("$ ")]
    steps = [{"find": OPTIONAL, "code": ""}, *(step_of(line[2:]) for line in lines)]
    results = dict(zip(lines, run_fresh(steps, folder)[1:], strict=True))
    for line, result in results.items():
        assert (result["error"], result["code"]) == (None, 0), f"{line}\n{result}"

    def run(block):
        commands = [line for line in block[1].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"{line}\n{results[line]['printed']}" for line in commands) + "```"

    return BLOCK.sub(run, page)


def without_report(page):
    """Return the page where reports cannot be written: without the option, and without what it prints."""
    return page.replace(" --report report.html\n", "\n").replace(REPORTED, "")


def normalised(text):
    for pattern, replacement in NORMALISED:
        text = re.sub(pattern, replacement, text)
    return text


def printed_on(page):
    """Return what the page says that its commands print, by command."""
    return dict(re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(BLOCK.findall(page)), re.MULTILINE))


def test_a_wrong_number_would_be_found(tmp_path):
    page = "```console\n$ python -c 'print(0.5705)'\n0.5706\n```\n"
    assert normalised(walked(page, tmp_path)) != normalised(page)


def test_numbers_in_the_prose_are_those_of_the_transcript():
    """Every decimal fraction that the prose speaks of is printed somewhere, rounded."""
    page = PAGE.read_text()
    printed = [abs(float(number)) for block in BLOCK.findall(page) for number in re.findall(r"\d\.\d+", block)]
    prose = BLOCK.sub("", SCRIPT.sub("", page))
    for number in re.findall(r"(?<![\w.])\.\d+", prose):
        digits = len(number) - 1
        assert any(abs(each - float(number)) <= 0.501 * 10**-digits for each in printed), number


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        PAGE.write_text(walked(PAGE.read_text(), Path(place)))
