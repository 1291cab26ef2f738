"""The README keeps its promises: short, and its example runs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_lengths():
    assert len(README.splitlines()) <= 90
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 60


def test_the_example_stands_in_the_first_35_lines_and_runs(capsys):
    block = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert README[: block.end()].count("\n") < 35
    exec(compile(block[1], "README.md", "exec"), {})
    assert "DecisionRule for g_mean" in capsys.readouterr().out


def test_the_test_command_is_the_one_that_ci_runs():
    assert re.search(r"<!-- test -->\n```sh\npython3 .*pytest\n```", README)
    assert re.search(r"<!-- demo -->\n```sh\npython3 .*confmax demo\n```", README)
