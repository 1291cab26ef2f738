"""Build the sdist and, from it, the wheel, and check both: ``python packaging/check_wheel.py [FOLDER]``.

It needs ``pip install -e '.[release]'``. What was built goes to FOLDER, ``dist`` if it is left out. The first check
that fails ends the script with an exit code of 1:

* the sdist has every file that git tracks; the wheel every file of the package but the kernels' sources;
* the wheel is for every Python from 3.11 on, on Linux with glibc 2.28 or older, and at most `MOST_BYTES` large;
* auditwheel, abi3audit, check-wheel-contents and twine find nothing;
* a build whose kernels do not compile is a pure wheel, and fails where they are required;
* the wheel, installed in a new environment where no compiler is found, has its kernels and tunes a rule.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 1_200_000
GLIBC = 28  # of the oldest system: 2.28
TRY = """
import confmax
from confmax import kernels
assert kernels.native is not None, "the wheel has no kernels"
print("kernels:", kernels.native.instructions)
print(confmax.maximize("cohen_kappa", [[0.8, 0.2], [0.4, 0.6]] * 9).rule)
"""


def check(holds: object, sentence: str) -> None:
    """End the script with a sentence unless something holds."""
    if not holds:
        sys.exit(f"error: {sentence}")


def run(*words: str | Path, **environment: str) -> str:
    """Run a command in the folder of the project, print its last line, and return what it printed; end if it fails."""
    command = [str(word) for word in words]
    kept = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=kept, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"{done.stdout}\nerror: {' '.join(command)} failed")
    print("ok:", " ".join(command[:5]), "|", (done.stdout.strip() or "nothing said").splitlines()[-1], flush=True)
    return done.stdout


def tool(name: str, *words: str | Path, **environment: str) -> str:
    """Run a tool of this environment."""
    return run(sys.executable, "-m", name, *words, **environment)


def built(folder: Path, *options: str, kernels: str, **environment: str) -> Path:
    """Build in a folder, and return the wheel."""
    tool("build", *options, "--outdir", folder, ROOT, CONFMAX_KERNELS=kernels, **environment)
    (wheel,) = folder.glob("*.whl")
    if kernels == "required":
        run(sys.executable, ROOT / "packaging" / "shrink_wheel.py", folder)
    return wheel


def check_files(sdist: Path, wheel: Path) -> None:
    """Check what the archives hold."""
    tracked = set(run("git", "ls-files").split()) if (ROOT / ".git").exists() else set()
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    check(not tracked - packed, f"not in the sdist: {sorted(tracked - packed)}; name them in MANIFEST.in")
    sources = {name for name in tracked if Path(name).suffix in (".h", ".cpp")}
    package = {name.removeprefix("src/") for name in tracked - sources if name.startswith("src/")}
    held = set(zipfile.ZipFile(wheel).namelist())
    check(not package - held, f"not in the wheel: {sorted(package - held)}; name them in the package-data")
    check(not [name for name in held if name.endswith((".h", ".cpp"))], "the wheel has sources of kernels")
    check("confmax/kernels/native.abi3.so" in held, "the wheel has no kernels")


def check_wheel(wheel: Path) -> None:
    """Check the name and the size of a wheel, and what tools say of it."""
    size = wheel.stat().st_size
    check("-cp311-abi3-" in wheel.name, f"{wheel.name} is not for every Python from 3.11 on")
    check(size <= MOST_BYTES, f"{wheel.name} has {size} bytes, more than {MOST_BYTES}")
    if sys.platform == "linux":
        glibc = re.search(r'"manylinux_2_(\d+)_', tool("auditwheel", "show", wheel))
        check(glibc and int(glibc[1]) <= GLIBC, f"{wheel.name} needs another system than manylinux_2_{GLIBC}")
        print(f"ok: {wheel.name} may be called {glibc[0][1:-1]}; {size} bytes" if glibc else "")
    tool("abi3audit", "--strict", wheel)
    tool("check_wheel_contents", wheel)


def check_without_compiler(folder: Path) -> None:
    """Check that a build whose kernels do not compile is pure, or fails if they are required."""
    nothing = {"CC": "false", "CXX": "false"}
    pure = built(folder, "--wheel", kernels="", **nothing)
    check(pure.name.endswith("-py3-none-any.whl"), f"a build without a compiler made {pure.name}")
    check(not [n for n in zipfile.ZipFile(pure).namelist() if n.endswith(".so")], "a pure wheel has a compiled module")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "none"), str(ROOT)]
    required = {**os.environ, **nothing, "CONFMAX_KERNELS": "required"}
    failed = subprocess.run(command, env=required, capture_output=True, check=False).returncode
    check(failed, "a build without the kernels that it requires does not fail")


def check_installed(wheel: Path, folder: Path) -> None:
    """Check a wheel in a new environment, with no command to be found."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, PATH="")
    done = subprocess.run(
        [python, "-c", TRY], cwd=folder, env={"PATH": ""}, capture_output=True, text=True, check=False
    )
    check(done.returncode == 0, f"the wheel does not work: {done.stderr}")
    print(done.stdout, end="")


def main() -> None:
    """Run all checks."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    wheel = built(folder, kernels="required")
    (sdist,) = folder.glob("*.tar.gz")
    check_files(sdist, wheel)
    check_wheel(wheel)
    tool("twine", "check", "--strict", sdist, wheel)
    with tempfile.TemporaryDirectory() as place:
        check_without_compiler(Path(place) / "pure")
        check_installed(wheel, Path(place) / "environment")


if __name__ == "__main__":
    main()
