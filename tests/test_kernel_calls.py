"""The compiled kernels refuse arguments that they would read past the end of, or write to though they must not."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import confmax
from confmax import kernels
from confmax.optimize import CoordinateSearch
from tests.helpers import compiled

pytestmark = compiled


class Recorder:
    """The compiled module, which keeps the first call of every kernel."""

    def __init__(self):
        self.calls = {}

    def __getattr__(self, name):
        kernel = getattr(REAL, name)

        def called(*args):
            if any(isinstance(one, np.ndarray) and one.size for one in args):
                copies = [one.copy() if isinstance(one, np.ndarray) else one for one in args]
                known = self.calls.get(name, [])
                # the call with the most arrays that hold something says most
                if sum(np.size(one) > 0 for one in copies) > sum(np.size(one) > 0 for one in known):
                    self.calls[name] = copies
            return kernel(*args)

        return called


REAL = kernels.native


def public_calls():
    """Call what a user calls, so that every kernel runs."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([2.0, 1.0, 0.5], 700)
    y = (P.cumsum(axis=1) > rng.random((700, 1))).argmax(axis=1)
    weight = rng.random(700)
    for metric in ("macro_f1", "min_recall", "h_mean", "g_mean"):
        confmax.maximize(metric, P, y, sample_weight=weight, calibration="matrix")
        confmax.maximize(metric, P, y, confusion="labels", calibration="vector")
        confmax.maximize(metric, P, randomized=True, confusion="model").predict(P, keys=np.arange(700))
    confmax.maximize("g_mean", P, y, confusion="model", constraints=["accuracy >= 0.4", "recall[2] >= 0.3"])
    confmax.maximize("recall[2]", P, y, constraints="precision[2] >= 0.4")
    confmax.maximize("mcc", P, y, solver=CoordinateSearch(), confusion="labels")
    sparse = csr_array(np.where(P > 0.2, P, 0.0) / np.where(P > 0.2, P, 0.0).sum(axis=1, keepdims=True))
    confmax.maximize("macro_f1", sparse, y)
    confmax.maximize("mcc", sparse, y, confusion="labels")


def rare_calls():
    """Return right calls of kernels that the calls above leave out, since they serve few tables."""
    rng = np.random.default_rng(0)
    P, y, n = rng.dirichlet([2.0, 1.0, 0.5], 90), rng.integers(0, 3, 90), 90
    one, entries = np.ones(3), csr_array(P)
    return {
        "scan_labels": [
            P, 0, n, np.ones((1, 3)), -P[:1], 2, 1, np.ones((n, 3), np.uint8), np.ones(n), 1, np.zeros((1, 3, 3)),
            np.zeros((n, 3), np.uint8),
        ],
        "turn": [P, np.zeros((3, n))],
        "tally": [
            np.vstack([P, np.zeros((512 - n, 3))]).T.copy(), y, 512, np.ones(2), np.ones(3, np.uint64), np.zeros(3),
            np.zeros(4, bool), np.zeros(n, np.uint64), np.ones((2, 1, 3)), np.zeros((2, 3)), np.zeros(27, np.int64),
        ],
        "turn_labels": [P, np.ones((n, 3), np.uint8), 1, np.zeros((2, n))],
        "bin_labels": [
            P[:, 0].copy(), np.ones(n), np.ones(2), np.zeros(2), 1, np.zeros((50, 4)), np.ones(50, bool),
            np.zeros(n, np.int64), np.zeros(n),
        ],
        "times": [P, 0, n, np.eye(3)[:, :2].copy(), np.zeros((n, 2))],
        "stable_order": [P[:, 0].copy(), np.zeros(n, np.int64)],
        "gather": [P, np.arange(5), 0, 5, np.zeros((5, 3))],
        "normalise": [P, 0, n, 512, 1e-9, np.zeros((n, 3))],
        "row_losses": [np.log(P), y, np.ones(n, bool), 0, n, one, one, np.zeros(n)],
        "sparse_alone": [
            entries.data, entries.indices, entries.indptr, 0, n, np.array([0, 1, 2, 3]), np.arange(3), one, one,
            np.zeros(3, bool), np.array([2, 2, 1]), 0.5, y, np.ones(n), np.zeros((3, 3)),
        ],
        "sparse_best": [
            entries.data, entries.indices, entries.indptr, 0, n, np.ones((3, 2)), np.arange(3), 0,
            np.zeros((n, 2), np.int64), np.zeros((n, 2), np.int64),
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def calls():
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "native", recorder)
        public_calls()
    rare = rare_calls()
    for name, args in rare.items():
        getattr(REAL, name)(*args)
    return rare | recorder.calls


def signature(name):
    """Return the words of what a kernel takes, as its error says it."""
    with pytest.raises(TypeError, match="this kernel takes ") as error:
        getattr(REAL, name)(0)
    return str(error.value).partition("this kernel takes ")[2].split(" ")


def is_array(word):
    return "[" in word


def unaligned(x):
    held = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    held[...] = x
    return held


def dimensions(word):
    """Return the dimensions of a word with one shape."""
    return [] if "|" in word else word.partition("[")[2].partition("]")[0].split(",")


def wrong_arrays(x, word, used):
    """Yield arrays that a word does not allow in the place of x, and the error.

    ``used`` are the names of dimensions, as often as arrays that hold something have them.
    """
    yield np.zeros(x.shape, np.int16), TypeError
    yield 1.5, TypeError
    if x.size == 0:
        return
    if x.itemsize > 1:
        yield np.zeros(x.shape, x.dtype.newbyteorder()), TypeError
        if "!" in word:
            yield unaligned(x), ValueError
    yield x[..., None], ValueError
    for axis, dimension in enumerate(dimensions(word)):
        name = dimension.strip("0123456789+-")
        if dimension != "*" and (dimension.isdigit() or used.count(name) > 1):
            yield np.concatenate([x, x.take([0], axis=axis)], axis=axis), ValueError
    if "!" in word:
        fixed = x.copy()
        fixed.flags.writeable = False
        yield fixed, ValueError


KERNELS = sorted(name for name in dir(REAL) if name not in ("sources", "instructions") and not name.startswith("_"))


@pytest.mark.parametrize("name", KERNELS)
def test_wrong_calls_are_refused(name, calls):
    args, words, kernel = calls[name], signature(name), getattr(REAL, name)
    assert len(args) == len(words)
    for given in (args[:-1], [*args, 0]):
        with pytest.raises(TypeError, match=r"is missing|is one too many"):
            kernel(*given)
    used = [
        dimension.strip("0123456789+-")
        for one, word in zip(args, words, strict=True) if np.size(one)
        for dimension in dimensions(word)
    ]  # fmt: skip
    for place, (one, word) in enumerate(zip(args, words, strict=True)):
        if not is_array(word):
            for wrong in (np.zeros(3), *(["0"] if word == "f" else [0.5])):
                with pytest.raises(TypeError):
                    kernel(*args[:place], wrong, *args[place + 1 :])
            if word[1:2] == ":":
                with pytest.raises(ValueError, match="is out of range"):
                    kernel(*args[:place], 10**9, *args[place + 1 :])
            continue
        for wrong, error in wrong_arrays(one, word, used):
            with pytest.raises(error):
                kernel(*args[:place], wrong, *args[place + 1 :])


def test_every_kernel_is_called(calls):
    assert sorted(calls) == KERNELS


def test_what_is_read_need_not_be_aligned():
    """Memory that another process has sent is copied."""
    P, chosen, out = np.random.default_rng(0).random((5, 3)), np.arange(4)[::-1].copy(), np.zeros((4, 3))
    REAL.gather(unaligned(P), unaligned(chosen), 0, 4, out)
    np.testing.assert_array_equal(out, P[:4][::-1])


def test_the_error_names_the_argument_and_what_is_taken():
    P = np.full((3, 2), 0.5)
    with pytest.raises(TypeError, match=r"^argument 2 has another type; this kernel takes T\[n,K\] l\[m\] i:m"):
        REAL.gather(P, np.zeros(3, np.int32), 0, 3, P.copy())
    with pytest.raises(ValueError, match=r"^argument 5 has another shape; this kernel takes "):
        REAL.gather(P, np.zeros(3, np.int64), 0, 3, np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"^arguments do not fit together; this kernel takes "):
        REAL.turn(P, np.zeros((2, 2)))


@pytest.mark.parametrize(("place", "wrong"), [(0, np.zeros((3, 511))), (10, np.zeros(26, np.int64))])
def test_a_tally_needs_whole_blocks_and_a_count_of_every_combination(place, wrong):
    args = rare_calls()["tally"]
    with pytest.raises(ValueError, match=r"^arguments do not fit together"):
        REAL.tally(*args[:place], wrong, *args[place + 1 :])
