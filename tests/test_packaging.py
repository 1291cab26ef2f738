"""What a build makes with kernels, without them, and where they are required."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("setuptools", minversion="77")

ROOT = Path(__file__).parents[1]


def settings(monkeypatch, wanted):
    """Return what setup.py defines where the environment wants these kernels."""
    monkeypatch.setenv("CONFMAX_KERNELS", wanted)
    return runpy.run_path(str(ROOT / "setup.py"), run_name="settings")


@pytest.mark.parametrize(
    ("wanted", "tried", "optional"), [("", True, True), ("required", True, False), ("none", False, True)]
)
def test_kernels_are_tried_unless_nobody_wants_them(monkeypatch, wanted, tried, optional):
    found = settings(monkeypatch, wanted)
    assert (found["tried"], found["kernels"].optional) == (tried, optional)


@pytest.mark.parametrize(("wanted", "tried"), [("", False), ("required", True)])
def test_pythons_without_a_stable_abi_have_no_kernels_unless_they_are_required(monkeypatch, wanted, tried):
    variable = sysconfig.get_config_var
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED" or variable(name))
    assert settings(monkeypatch, wanted)["tried"] is tried


def test_another_wish_is_refused(monkeypatch):
    sentence = "error: CONFMAX_KERNELS is required or none, or it is not set; got 'yes'"
    with pytest.raises(SystemExit, match=re.escape(sentence)):
        settings(monkeypatch, "yes")


def wheel_of(folder, **environment):
    """Build a small package with this setup.py; return the end of its build, and its wheels."""
    package = folder / "src" / "confmax" / "kernels"
    package.mkdir(parents=True)
    (package / "native.cpp").write_text("int nothing;")
    (package / "__init__.py").touch()
    shutil.copy(ROOT / "src" / "confmax" / "_version.py", package.parent)
    (package.parent / "__init__.py").touch()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    # what an earlier build has left
    old = folder / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "confmax" / "kernels"
    old.mkdir(parents=True)
    (old / "native.abi3.so").touch()
    os.utime(old / "native.abi3.so", (0, 0))
    command = [sys.executable, "setup.py", "-q", "bdist_wheel"]
    kept = {key: value for key, value in os.environ.items() if key != "CONFMAX_KERNELS"}
    done = subprocess.run(command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, check=False)
    return done, list(folder.glob("dist/*.whl"))


NO_COMPILER = {"CC": "false", "CXX": "false"}


def test_without_a_compiler_the_wheel_is_pure_and_says_so(tmp_path):
    done, (wheel,) = wheel_of(tmp_path, **NO_COMPILER)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert 'building extension "confmax.kernels.native" failed' in done.stderr
    held = zipfile.ZipFile(wheel)
    assert "confmax/kernels/__init__.py" in held.namelist()
    assert not [name for name in held.namelist() if name.endswith((".so", ".cpp", ".h"))]
    (about,) = (name for name in held.namelist() if name.endswith("/WHEEL"))
    assert "Root-Is-Purelib: true" in held.read(about).decode()


def test_without_a_compiler_a_build_that_requires_kernels_fails(tmp_path):
    done, wheels = wheel_of(tmp_path, CONFMAX_KERNELS="required", **NO_COMPILER)
    assert done.returncode != 0
    assert wheels == []


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
def test_with_a_compiler_one_wheel_is_for_all_versions(tmp_path):
    _, (wheel,) = wheel_of(tmp_path, CONFMAX_KERNELS="required")
    assert "-cp311-abi3-" in wheel.name
    held = [name for name in zipfile.ZipFile(wheel).namelist() if "native" in name]
    assert held == ["confmax/kernels/native.abi3.so"]


def test_releases_require_kernels_and_name_every_system():
    release = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert release["environment"] == {"CONFMAX_KERNELS": "required"}
    assert release["build"][0] == "cp311-*"
    tests = re.findall(r"\{project\}/(\S+)", release["test-command"])
    assert tests and all((ROOT / test).is_file() for test in tests)
    images = [f"{libc}linux-{arch}-image" for libc in ("many", "musl") for arch in ("x86_64", "aarch64")]
    assert set(images) <= set(release["linux"])


def test_what_the_scripts_name_is_there():
    targets = runpy.run_path(str(ROOT / "packaging" / "cross_build.py"))["TARGETS"]
    assert set(targets) == {f"{arch}-{libc}" for arch in ("x86_64", "aarch64") for libc in ("glibc", "musl")}
    done = subprocess.run(
        [sys.executable, ROOT / "packaging" / "cross_build.py", "sparc"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"usage: python packaging/cross_build.py {{{','.join(targets)}}} [FOLDER]\n"
