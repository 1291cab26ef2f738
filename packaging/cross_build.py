"""Build the compiled module for another platform: ``python packaging/cross_build.py TARGET [FOLDER]``.

TARGET is one of x86_64-glibc, x86_64-musl, aarch64-glibc and aarch64-musl. The module goes to ``FOLDER/TARGET``, FOLDER
is ``build/cross`` if it is left out. Clang and the libraries of all targets come with the package ``ziglang``, which
``pip install -e '.[release]'`` brings. The headers are those of the Python that runs this script: the stable ABI is the
same on all of these targets. Flags and sources are those of `setup.py`.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {
    "x86_64-glibc": "x86_64-linux-gnu.2.28",
    "x86_64-musl": "x86_64-linux-musl",
    "aarch64-glibc": "aarch64-linux-gnu.2.28",
    "aarch64-musl": "aarch64-linux-musl",
}


def build(target: str, folder: Path) -> Path:
    """Compile the module for a target; return its file."""
    settings = runpy.run_path(str(ROOT / "setup.py"), run_name="settings")
    made = folder / target / "native.abi3.so"
    made.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ziglang", "c++", "-target", TARGETS[target], "-shared", "-fPIC", "-Wl,-s"]
    macros = [f"-D{name}={value}" for name, value in settings["MACROS"]]
    headers = sysconfig.get_path("include")
    sources = [str(ROOT / path) for path in settings["kernels"].sources]
    subprocess.run([*command, *settings["FLAGS"], *macros, f"-I{headers}", *sources, "-o", str(made)], check=True)
    return made


def main() -> int:
    """Read the command line, build, and print what was built."""
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in TARGETS:
        print(f"usage: python packaging/cross_build.py {{{','.join(TARGETS)}}} [FOLDER]", file=sys.stderr)
        return 2
    made = build(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT / "build" / "cross")
    print(f"{made}: {made.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
