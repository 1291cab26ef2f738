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
    assert re.search(r"<!-- test -->\n```sh\npython3 .*pytest -n 2 --dist worksteal\n```", README)
    assert re.search(r"<!-- demo -->\n```sh\npython3 .*confmax demo\n```", README)


def test_the_gain_and_the_picture_are_those_of_the_benchmark():
    """Figures of the README stand in the section that its command writes, and the picture beside it."""
    (gain,) = re.findall(r"## Does it help\?\n(.*?)\n## ", README, re.DOTALL)
    (section,) = re.findall(
        r"^## gain$(.*?)(?=^## |\Z)", (ROOT / "benchmarks" / "RESULTS.md").read_text(), re.DOTALL | re.MULTILINE
    )
    measured = [float(figure) for figure in re.findall(r"0\.\d{4}", section)]
    cited = re.findall(r"(?<![\w.])\.\d{3}\b", gain)
    assert len(cited) >= 5
    assert [figure for figure in cited if not any(abs(value - float(figure)) <= 5.1e-4 for value in measured)] == []
    (picture,) = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert "</svg>" in (ROOT / picture).read_text()


def test_five_bullets_say_what_is_in_it():
    (listed,) = re.findall(r"## What is in it\n(.*)", README, re.DOTALL)
    assert 1 <= len(re.findall(r"^\* ", listed, re.MULTILINE)) <= 5


def test_d16_the_front_page_of_the_documentation_is_linked_before_the_sections():
    before = README[: README.index("\n## ")]
    (page,) = re.findall(r"\[[^\]]*front page of the documentation\]\((.*?)\)", before)
    assert page == "docs/index.md" and (ROOT / page).read_text().startswith("# confmax")
