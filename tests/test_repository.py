"""The files that describe the project to others agree with each other: citation, hooks, workflow, pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

import confmax

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(path):
    return yaml.safe_load((ROOT / path).read_text())


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


def test_the_workflow_runs_ci_and_may_only_read():
    workflow = read(".github/workflows/ci.yml")
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert "permissions" not in job
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    settings = {key: value for step in job["steps"] for key, value in step.get("with", {}).items()}
    assert f">={settings['python-version']}" == PROJECT["requires-python"]
    assert settings["java-version"] == "17"
    assert "secrets" not in (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def test_ci_builds_the_wheel_and_tries_it():
    script = (ROOT / ".ci" / "run").read_text()
    for step in ("pip wheel", "[cli]", "confmax demo", "confmax.maximize", 'comm -23 "$work/expected"'):
        assert step in script, step
    assert not re.search(r"https?://", script)
