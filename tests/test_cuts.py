"""One engine of cuts: the best cut of each block, and numbers in few digits that cut between two others."""

import numpy as np
import pytest

from confmax.optimize.cuts import best_of_each, shortest


@pytest.mark.parametrize("seed", range(20))
def test_the_best_cut_of_each_block_is_the_first_that_is_right_most_often(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, 5)
    starts = np.append(0, np.cumsum(sizes)[:-1])
    values = rng.integers(0, 3, sizes.sum()) / 2.0
    values[rng.random(len(values)) < 0.2] = -np.inf
    right = rng.integers(0, 3, sizes.sum()) / 2.0
    noise = 1e-15 * rng.normal(size=(2, len(values)))
    found = best_of_each(values + noise[0], right + noise[1], starts)
    for first, size, place in zip(starts, sizes, found, strict=True):
        own = range(first, first + size)
        assert place == min(own, key=lambda k: (-values[k], -right[k], k))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("closed", [True, False])
def test_a_number_between_two_others_is_the_first_of_their_middle_that_cuts(dtype, closed):
    rng = np.random.default_rng(3)
    x = rng.random(2000) ** rng.choice([1, 4, 30], 2000)
    x[::3] = x[::3].round(3)
    x[1::4] = -x[1::4]
    x = np.unique(x.astype(dtype))
    # neighbouring floats, numbers far apart, and a tie between decimals
    low = np.concatenate([x[:-1], x[:-40:4], x[::9], [0.0, 0.25]]).astype(np.float64)
    high = np.concatenate([x[1:], x[40::4][: len(x[:-40:4])], np.nextafter(x[::9], dtype(2)), [0.25, 0.5]])
    high = high.astype(np.float64)
    found = shortest(low, high, np.dtype(dtype), closed=closed)

    def cuts(number, a, b):
        return all(a < dtype(y) <= b if closed else a <= dtype(y) < b for y in (number, float(dtype(number))))

    for number, a, b in zip(found.tolist(), low.tolist(), high.tolist(), strict=True):
        middle = a + (b - a) / 2.0
        tried = [float(f"{middle:.{digits - 1}e}") for digits in range(2, 17)]
        inside = [one for one in tried if (a < one <= b if closed else a <= one < b) and cuts(one, a, b)]
        assert number == [*inside, b if closed else a][0]


def test_never_and_always_are_infinite():
    ends = shortest([0.2, -np.inf, -np.inf], [np.inf, 0.3, np.inf], np.dtype(np.float64), closed=False)
    np.testing.assert_array_equal(ends, [np.inf, -np.inf, np.inf])
