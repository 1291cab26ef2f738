"""The files that describe the project agree with each other, and patterns in the settings of tools match files."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import confmax

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, TOOLS = SETTINGS["project"], SETTINGS["tool"]


def read(path):
    return pytest.importorskip("yaml").safe_load((ROOT / path).read_text())


def test_the_citation_says_what_the_package_says():
    citation = read("CITATION.cff")
    assert citation["title"] == PROJECT["name"]
    assert citation["version"] == confmax.__version__
    assert citation["abstract"] == PROJECT["description"]
    assert citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"]
    assert citation["authors"] == PROJECT["authors"]
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Ramaswamy", "Narasimhan", "Agarwal"]
    assert paper["title"] in " ".join((ROOT / "README.md").read_text().split())


def test_hooks_use_the_ruff_of_the_extra_lint():
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    (ruff,) = (need for need in PROJECT["optional-dependencies"]["lint"] if need.startswith("ruff"))
    assert [hook["entry"].split()[:2] for hook in repository["hooks"]] == [["ruff", "format"], ["ruff", "check"]]
    assert all(hook["additional_dependencies"] == [ruff] for hook in repository["hooks"])


WORKFLOWS = sorted(path.name for path in (ROOT / ".github" / "workflows").iterdir())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_call_the_scripts_that_ci_calls_and_may_only_read(name):
    text, workflow = (ROOT / ".github" / "workflows" / name).read_text(), read(f".github/workflows/{name}")
    assert workflow["permissions"] == {"contents": "read"}
    assert not re.search(r"secrets|https?://", text)
    called = re.findall(r"bash (\S+)", text)
    assert called and unmatched(called) == []
    needed = PROJECT["requires-python"].removeprefix(">=")
    for job in workflow["jobs"].values():
        assert job.get("permissions", {"id-token": "write"}) == {"id-token": "write"}
        for step in job["steps"]:
            version = str(step.get("with", {}).get("python-version", needed))
            assert version.startswith("$") or version >= needed


def test_only_the_job_that_publishes_may_identify_itself():
    jobs = read(".github/workflows/release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}


def test_ci_builds_the_wheel_and_tries_it():
    script = (ROOT / ".ci" / "run").read_text()
    for step in (".ci/wheel", "[cli]", "confmax --version", "confmax demo"):
        assert step in script, step
    assert not re.search(r"https?://", script)
    parts = {path.name for path in (ROOT / ".ci").iterdir()} - {"run"}
    assert {name for name in parts if f".ci/{name}" not in script} == set()


# --- patterns: one that matches nothing has no effect -----------------------------------------------------------------


def unmatched(patterns, folder=ROOT):
    """Return the patterns that match no file."""
    return [pattern for pattern in patterns if not any(path.is_file() for path in folder.glob(pattern))]


def test_patterns_of_pyproject_match_files():
    (data,) = TOOLS["setuptools"]["package-data"].values()
    assert unmatched(data, ROOT / "src" / "confmax") == []
    assert unmatched(TOOLS["ruff"]["lint"]["per-file-ignores"]) == []
    assert unmatched(f"{folder}/**/*.py" for folder in TOOLS["pytest"]["ini_options"]["testpaths"]) == []
    assert unmatched(f"{folder}/**/*.py" for folder in TOOLS["mypy"]["files"]) == []


def test_everything_that_is_no_python_is_in_a_pattern_of_the_package_data():
    """The wheel holds the files that the patterns match, and no sources of the kernels, which the sdist has."""
    package = ROOT / "src" / "confmax"
    (data,) = TOOLS["setuptools"]["package-data"].values()
    others = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    # what is built at installation is no file of the project
    others -= set(package.rglob("*.so"))
    others -= set(package.rglob("*.py"))
    others -= {path for path in (package / "kernels").iterdir() if path.suffix in (".h", ".cpp")}
    assert sorted(others - {path for pattern in data for path in package.glob(pattern)}) == []


def test_modules_left_out_of_the_doctests_exist():
    assert unmatched(runpy.run_path(str(ROOT / "conftest.py"))["NEEDED"]) == []


def test_files_that_ci_names_exist():
    script = "".join(path.read_text() for path in (ROOT / ".ci").iterdir())
    # with their folders; what follows a star is a pattern
    named = re.findall(r"(?<![\w*/.$-])[\w/-]+\.(?:md|txt|toml|py)\b", script.replace("$PWD/", ""))
    assert {"README.md", "constraints-oldest.txt", "packaging/check_wheel.py"} <= set(named)
    assert unmatched(set(named)) == []


def test_a_pattern_without_a_file_would_be_found():
    assert unmatched(["src/confmax/*.py", "src/confmax/none/*.py", "src"]) == ["src/confmax/none/*.py", "src"]


def test_tests_are_skipped_for_want_of_other_packages_only():
    """A module of confmax that cannot be imported is a failure, not a reason to skip."""
    texts = {path.name: path.read_text() for path in ROOT.glob("tests/**/*.py")}
    needed = {name: re.findall(r"importorskip\(\s*\"(\w+)", text) for name, text in texts.items()}
    assert "torch" in needed["test_torch.py"]
    assert [name for name, packages in needed.items() if "confmax" in packages] == []
