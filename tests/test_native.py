"""The compiled module: it is there, it is that of these sources, and it refuses what it cannot read."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from confmax import kernels
from tests.helpers import compiled

FOLDER = Path(kernels.__file__).parent
CODE = """
import sys, numpy as np, confmax
from confmax import kernels
rng = np.random.default_rng(0)
P = rng.dirichlet(np.ones(5) / 2, 700)
y = (P.cumsum(axis=1) > rng.random((700, 1))).argmax(axis=1)
rule = confmax.maximize("g_mean", P, y, randomized=True).rule
print(kernels.native and kernels.native.instructions, rule.predict(P).tolist(), rule.calibrator and rule.calibrator)
matrix = confmax.calibration.fit(confmax.oracle.make_table(P, y), "matrix")
print(matrix.W.round(9).tolist())
print(matrix.W.tobytes().hex(), file=sys.stderr)
"""


def test_it_is_built_where_a_compiler_is():
    if (shutil.which("g++") or os.environ.get("CONFMAX_KERNELS") == "required") and os.environ.get(
        "CONFMAX_INSTRUCTIONS"
    ) != "numpy":
        assert kernels.native is not None


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("CONFMAX_INSTRUCTIONS", "sse9", "CONFMAX_INSTRUCTIONS is one of avx512, avx2, baseline, numpy; got 'sse9'"),
        ("CONFMAX_NUM_THREADS", "0", "CONFMAX_NUM_THREADS is a whole number of at least one; got '0'"),
    ],
)
def test_settings_of_the_environment_that_mean_nothing_are_refused(name, value, sentence):
    code = "import confmax; confmax.DecisionRule.from_weights([1, 2]).predict([[0.5, 0.5]])"
    # the NumPy forms have no threads
    environment = {**os.environ, "CONFMAX_INSTRUCTIONS": "", name: value}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.rstrip().endswith(f"ValueError: {sentence}")


@compiled
def test_it_is_that_of_these_sources():
    if not (FOLDER / "native.cpp").exists():
        pytest.skip("a wheel has no sources")
    files = sorted(str(path) for path in FOLDER.iterdir() if path.suffix in (".h", ".cpp"))
    found = sha256(b"".join(Path(path).read_bytes() for path in files)).hexdigest()
    assert kernels.native.sources == found, "build it again: pip install -e ."


@compiled
def test_views_with_gaps_are_refused():
    """`test_kernel_calls` has every other wrong argument of every kernel."""
    with pytest.raises((BufferError, ValueError)):
        kernels.native.turn(np.ones((4, 6))[:, ::2], np.empty((3, 4)))


@compiled
def test_numbers_of_numpy_are_numbers():
    proba, out = np.full((3, 2), 0.5), {}
    for kind in (float, np.float64, np.float32):
        out[kind] = np.empty_like(proba)
        start, stop = (0, 3) if kind is float else (np.int64(0), np.int32(3))
        kernels.native.normalise(1.25 * proba, start, stop, 512, kind(0.5), out[kind])
        assert out[kind].tolist() == (1.25 * proba).tolist()
    kernels.native.normalise(1.25 * proba, 0, np.uint8(3), 512, np.float64(0.125), out[float])
    assert out[float].tolist() == proba.tolist()


@compiled
def test_every_instruction_set_gives_the_same_rule_and_decisions():
    answers, fits = {}, {}
    for instructions in ("avx512", "avx2", "baseline", "numpy"):
        run = subprocess.run(
            [sys.executable, "-c", CODE],
            env={**os.environ, "CONFMAX_INSTRUCTIONS": instructions},
            capture_output=True,
            text=True,
            check=True,
        )
        used, answers[instructions] = run.stdout.split(maxsplit=1)
        assert used == {"numpy": "None"}.get(instructions, used)
        if used != "None":
            fits[instructions] = run.stderr
    assert len(set(answers.values())) == 1
    # the sums of the NumPy form have another order, and its fits agree to fewer digits; so has the narrowest set of a
    # release, which on x86 is NumPy
    assert len(fits) >= 2 and len(set(fits.values())) == 1
