"""Arena allocation: temporaries share memory only if their lifetimes are disjoint."""

from itertools import combinations

import numpy as np
import pytest

from functrans.loop.statements import Column, buffer
from functrans.loop.target import CPU
from functrans.lower.kernel.arena import allocate, size_in_arena

F8 = np.dtype(float)


def arrays(*counts):
    return [buffer(f"t{i}", F8, (count,)) for i, count in enumerate(counts)]


def placed(*used, elsewhere=()):
    """Where temporaries are, and how long the arena is, for what each step uses."""
    return allocate(used, set(elsewhere), {}, CPU)


def size_of(one):
    return size_in_arena(one, CPU)


def check(used, elsewhere=()):
    """Temporaries that are alive at the same time do not overlap, and all are in the arena."""
    offsets, arena = placed(*used, elsewhere=elsewhere)
    lives = {}
    for time, buffers in enumerate(used):
        for one in buffers:
            if one not in elsewhere:
                lives[one] = lives.get(one, (time, time))[0], time
    assert offsets.keys() == lives.keys()
    for one, other in combinations(lives, 2):
        if lives[one][0] <= lives[other][1] and lives[other][0] <= lives[one][1]:
            apart = (
                offsets[one] + size_of(one) <= offsets[other]
                or offsets[other] + size_of(other) <= offsets[one]
            )
            assert apart, (one, other)
    for one, offset in offsets.items():
        assert 0 <= offset <= offset + size_of(one) <= arena
        assert offset % min(size_of(one), 64) == 0
    return offsets, arena


@pytest.mark.parametrize("count", [1, 100, 1000])
def test_one_after_the_other_they_share(count):
    a, b, c, d = arrays(*[count] * 4)
    offsets, arena = check([[a, b], [b, c], [c, d]])
    assert offsets[a] == offsets[c] and offsets[b] == offsets[d]
    assert arena <= 2 * size_of(a) + 64


def test_all_at_once_they_do_not():
    buffers = arrays(1000, 500, 3, 1000)
    _, arena = check([buffers])
    assert arena >= sum(map(size_of, buffers))


def test_what_is_used_again_later_is_alive_meanwhile():
    a, b, c = arrays(1000, 1000, 1000)
    offsets, _ = check([[a], [b], [c], [a]])
    assert offsets[a] not in (offsets[b], offsets[c])


def test_small_ones_fit_into_what_large_ones_leave():
    large, small, other = arrays(2000, 1000, 1000)
    _, arena = check([[large], [small, other]])
    assert arena == size_of(large)


def test_inputs_and_outputs_are_elsewhere():
    a, b = arrays(100, 100)
    offsets, _ = check([[a, b]], elsewhere=(a,))
    assert offsets == {b: 0}
    assert placed([a], elsewhere=(a,)) == ({}, 0)


@pytest.mark.parametrize(
    ("shape", "dtype", "size"),
    [
        ((), "f8", 8),
        ((), "i1", 8),  # a word, at least
        ((3,), "f8", 32),
        ((4,), "f8", 32),
        ((5,), "f8", 64),  # whole lines of the cache from here on
        ((9,), "f8", 128),
        ((100,), "i1", 128),
        ((0,), "f8", 8),
    ],
)
def test_sizes(shape, dtype, size):
    assert size_of(buffer("x", np.dtype(dtype), shape)) == size


def test_many_at_random():
    rng = np.random.default_rng(0)
    buffers = arrays(*rng.choice([1, 3, 50, 128, 129, 1000, 5000], 60))
    check([[buffers[i] for i in sorted(set(rng.integers(0, 60, 6)))] for _ in range(40)])


def test_the_columns_of_a_record_lie_side_by_side():
    """A record lives as long as any of its columns; others are beside it."""
    x, y = (buffer(name, F8, (100, width)) for name, width in (("x", 3), ("y", 2)))
    early, late = arrays(500, 500)
    columns = {x: Column(0, 0, 5), y: Column(0, 3, 5)}
    used = [(x, early), (x,), (y, late)]
    offsets, arena = allocate(used, set(), columns, CPU)
    assert offsets[y] - offsets[x] == 3 * 8
    assert arena == 2 * 4032  # late is where early was
    assert offsets[early] == offsets[late]
    assert {offsets[x], offsets[early]} == {0, 4032}
