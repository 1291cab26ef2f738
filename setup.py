"""The compiled kernels: built where a C++ compiler is, left out where none is (see `confmax.kernels`)."""

from hashlib import sha256
from pathlib import Path

from setuptools import Extension, setup

SOURCES = sorted(str(path) for path in Path("src/confmax/kernels").iterdir() if path.suffix in (".h", ".cpp"))
# results must be the same bits with every instruction set: products and sums are never fused
FLAGS = "-O3 -std=c++17 -ffp-contract=off -fno-exceptions -fno-rtti -fno-math-errno -fvisibility=hidden -Wno-psabi -g0"

setup(
    ext_modules=[
        Extension(
            "confmax.kernels.native",
            ["src/confmax/kernels/native.cpp"],
            depends=SOURCES,
            # a test compares this with the sources: an old build in a working tree must not pass for the new one
            define_macros=[
                ("SOURCES", f'"{sha256(b"".join(Path(path).read_bytes() for path in SOURCES)).hexdigest()}"')
            ],
            extra_compile_args=FLAGS.split(),
            py_limited_api=True,
            optional=True,
        )
    ],
    # one wheel for all versions of Python
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
