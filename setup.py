"""The compiled kernels, and what a build is without them (see `confmax.kernels`).

``CONFMAX_KERNELS`` in the environment says what a build wants:

* not set: kernels where they compile. Elsewhere the build warns and goes on without.
* ``required``: a build whose kernels do not compile fails. Releases set this. The module then has none for processors
  of x86 without AVX2, which came to market before 2013: NumPy decides there. The wheel leaves out comments of Python
  sources, and docstrings of what has no name for others: lines keep their numbers, and the sdist has all of them.
* ``none``: no kernels; no compiler is called.

A wheel without kernels runs everywhere, and its name says so: ``py3-none-any``. It is the wheel of Windows, whose usual
compiler lacks the vectors of GCC and Clang, and of Pythons without a global lock, which have no stable ABI of 3.11:
kernels are tried there only if they are required.
"""

import ast
import io
import os
import subprocess
import sys
import sysconfig
import tokenize
from hashlib import sha256
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SOURCES = sorted(path for path in (ROOT / "src/confmax/kernels").iterdir() if path.suffix in (".h", ".cpp"))
# a test compares this with the sources: an old build in a working tree must not pass for the new one
MACROS = [("SOURCES", f'"{sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()}"')]
FLAGS = [
    *("-O2", "-ftree-vectorize", "-std=c++17", "-g0", "-Wno-psabi", "-fvisibility=hidden", "-fno-math-errno"),
    # results must be the same bits with every instruction set: products and sums are never fused
    "-ffp-contract=off",
    *("-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables", "-ffunction-sections"),
    # many Pythons hand on the -fwrapv that they were built with: the code should not depend on which one builds it
    "-fno-wrapv",
    # where loops lie by chance, a scan takes up to a third longer
    "-falign-loops=32",
]
# GCC vectorises few loops at -O2 otherwise; -O3 makes the module half as large again, and no faster. Nor do functions
# that begin at multiples of 16 bytes, nor a second order of the instructions
GCC_FLAGS = ["-fvect-cost-model=dynamic", "-fno-align-jumps", "-fno-align-functions"]
GCC_FLAGS += ["-fno-schedule-insns2"]
# functions of more than 30 instructions are called: inlined wherever they are used, as at the 70 of GCC, they make the
# module a third larger and no scan faster; with 20, products take a quarter longer. What must be inlined all the same
# is named in the sources
GCC_FLAGS += ["--param=max-inline-insns-single=30"]
# nor is what a loop over vectors leaves over a loop over shorter ones, which makes a tenth of the module
GCC_FLAGS += ["--param=vect-epilogues-nomask=0"]
# these make the module a twentieth smaller, and no operation more than a fifth slower
GCC_FLAGS += ["-fira-region=one", "-fno-thread-jumps", "-fno-tree-pre", "-fno-code-hoisting"]

# packages without names for others, but for these modules: the declarations of commands are their help
INTERNAL = {
    "confmax.cli": ("app", "commands", "options"),
    "confmax.evaluate": ("curves", "decided", "judging", "scores", "uncertainty", "verdict"),
    "confmax.page": ("writing", "label_page"),
    "confmax.rule": ("applied", "counts", "decision_rule", "labels", "on_tables", "order", "spark"),
    "confmax.kernels": (),
    "confmax.optimize": (
        "auto",
        "column_generation",
        "conditional_gradient",
        "coordinate",
        "fractional",
        "loop",
        "mixture",
        "paper",
        "threshold",
        "warm",
    ),
    "confmax.optimize.masters": (),
    "confmax.tables": ("kinds", "memory", "part", "storage", "table"),
    "confmax.tables.array": (),
    "confmax.tables.partitioned": ("opening",),
    "confmax.tables.sparse": (),
    "confmax.tables.tensor": (),
}

wanted = os.environ.get("CONFMAX_KERNELS", "")
if wanted not in ("", "required", "none"):
    raise SystemExit(f"error: CONFMAX_KERNELS is required or none, or it is not set; got {wanted!r}")
stable_abi = not sysconfig.get_config_var("Py_GIL_DISABLED")
tried = wanted == "required" or (wanted == "" and os.name != "nt" and stable_abi)

if wanted == "required":
    MACROS.append(("ONLY_WIDE", None))

kernels = Extension(
    "confmax.kernels.native",
    ["src/confmax/kernels/native.cpp"],
    depends=[path.relative_to(ROOT).as_posix() for path in SOURCES],
    define_macros=MACROS,
    # without the names of what the module does not export, and without what it does not call
    extra_link_args=["-Wl,-s", "-Wl,--gc-sections"] if sys.platform == "linux" else [],
    py_limited_api=True,
    optional=wanted != "required",
)


def is_gcc(compiler):
    """Return whether a compiler is GCC itself, and not one that takes most of its flags."""
    try:
        command = [*compiler.compiler_so_cxx, "-dM", "-E", "-x", "c++", os.devnull]
        defined = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (AttributeError, OSError, subprocess.CalledProcessError):
        return False
    return "__GNUC__" in defined and "__clang__" not in defined


class Build(build_ext):
    """Build the kernels. If they do not compile, the package has no compiled part."""

    def build_extension(self, extension):
        """Build one module, or leave it out of the package."""
        extension.extra_compile_args = FLAGS + (GCC_FLAGS if is_gcc(self.compiler) else [])
        try:
            super().build_extension(extension)
        except Exception:
            # an earlier build may have left its own
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.distribution.ext_modules = []
            raise  # setuptools warns of what is optional, and fails otherwise


def private_docstrings(tree, is_private=False):
    """Yield the docstrings of private functions and classes and all in them, but for those with examples: tests."""
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        hidden = is_private or (named and node.name.startswith("_"))
        if named and hidden and isinstance(node.body[0], ast.Expr):
            constant = node.body[0].value
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str) and ">>>" not in constant.value:
                yield constant
        yield from private_docstrings(node, hidden)


def meaning(source, is_private):
    """Return what Python code means, without private docstrings."""
    tree = ast.parse(source)
    for constant in private_docstrings(tree, is_private):
        constant.value = ""
    return ast.dump(tree, include_attributes=False)


def without_comments(source, is_private=False):
    """Return Python code whose comments and private docstrings are empty.

    What it means, and the number of each line, stay the same.
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for constant in private_docstrings(ast.parse(source), is_private):
        first = lines[constant.lineno - 1][: constant.col_offset] + '""'
        lines[constant.lineno - 1 : constant.end_lineno] = [first] + [""] * (constant.end_lineno - constant.lineno)
    code = "\n".join(lines) + "\n"
    if meaning(code, is_private) != meaning(source, is_private):
        raise SystemExit("error: code without its comments would not be the same")
    return code


class Sources(build_py):
    """Copy the Python sources, those of a release without comments."""

    def build_module(self, module, module_file, package):
        """Copy one module."""
        target, copied = super().build_module(module, module_file, package)
        if wanted == "required":
            is_private = package in INTERNAL and module not in INTERNAL[package]
            Path(target).write_text(without_comments(Path(module_file).read_text("utf-8"), is_private), "utf-8")
        return target, copied


class Wheel(bdist_wheel):
    """Name the wheel by what was built."""

    def run(self):
        """Build, then see whether anything was compiled."""
        self.run_command("build")
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()


if __name__ == "__main__":
    setup(
        ext_modules=[kernels] if tried else [],
        cmdclass={"build_ext": Build, "build_py": Sources, "bdist_wheel": Wheel},
        # one wheel for all versions of Python
        options={"bdist_wheel": {"py_limited_api": "cp311"}} if tried else {},
    )
