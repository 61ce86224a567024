"""Products on cores that multiply two whole vectors of 64 bytes in each cycle."""

import numpy as np
import pytest

from functrans import config, jit
from functrans.loop.target import CPU
from functrans.lower.product.blocking import blocks_of
from functrans.lower.product.limits import WHOLE_VECTORS
from tests.lower.product.test_blocking import of_loads, parts
from tests.targets import take_host_for

WHOLE = CPU.having(WHOLE_VECTORS)
RNG = np.random.default_rng(0)


def tile(*size, target):
    found = blocks_of(of_loads(*size), target, False, is_alone=True)
    return found.height, found.width


def test_half_a_vector_takes_as_long_as_a_whole_one():
    assert tile(724, 1774, 1478, target=CPU) == (4, 40)
    assert tile(724, 1774, 1478, target=WHOLE) == (4, 48)


def test_sums_beyond_the_cache_are_added_to_less_often():
    found = parts(8, 600, 1000, 600, WHOLE)
    assert found.packs and found.in_arena and 128 <= found.depth <= 256
    assert not parts(8, 400, 1000, 400, WHOLE).in_arena


def test_parts_are_packed_in_the_arena_if_the_stack_has_no_room_for_them():
    assert parts(8, 302, 2500, 302, CPU).in_arena and parts(8, 302, 2500, 302, WHOLE).in_arena
    assert parts(8, 128, 2500, 302, CPU).packs and not parts(8, 128, 2500, 302, CPU).in_arena


@pytest.fixture
def whole(monkeypatch):
    take_host_for(monkeypatch, vector_bytes=64, registers=32, blocking=WHOLE_VECTORS._asdict())
    monkeypatch.setattr(config, "cache", False)


def lowered(rows, terms, columns, strided=False):
    left, right = np.ones((rows, terms), np.float32), np.ones((terms, columns), np.float32)
    if strided:
        return jit(lambda x, y: x.T @ y).lower(np.ascontiguousarray(left.T), right)
    return jit(lambda x, y: x @ y).lower(left, right)


def fetches(*size):
    return lowered(*size).llvm().count("call void @llvm.prefetch")


def test_a_panel_that_exceeds_the_nearest_cache_is_prefetched(whole):
    assert fetches(300, 700, 320) == 2  # lines of two vectors
    assert fetches(300, 100, 320) == 0


def test_the_packed_rows_of_a_tile_are_prefetched(whole):
    assert fetches(300, 700, 320, True) == 3  # the rows of a term, beside two vectors


def test_a_large_strided_operand_is_packed_for_a_single_panel(whole):
    assert "t0_0_left" in str(lowered(1000, 600, 32, True).schedule())
    assert "t0_0_left" not in str(lowered(1000, 500, 32, True).schedule())
    assert "t0_0_left" not in str(lowered(1000, 600, 10, True).schedule())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rows", "terms", "columns"),
    [
        (300, 700, 220),
        (29, 2000, 300),
        (37, 6, 676),
        (5, 900, 130),
        (300, 300, 20),
        (520, 4200, 400),
    ],
)
@pytest.mark.parametrize("sides", ["plain", "left", "right"])
def test_sums_are_exact(whole, dtype, rows, terms, columns, sides):
    """Small integers: each order of additions gives the same."""
    x = RNG.integers(-9, 9, (rows, terms)).astype(dtype)
    y = RNG.integers(-9, 9, (terms, columns)).astype(dtype)
    x = np.ascontiguousarray(x.T) if sides == "left" else x
    y = np.ascontiguousarray(y.T) if sides == "right" else y

    def product(x, y):
        return (x.T if sides == "left" else x) @ (y.T if sides == "right" else y)

    np.testing.assert_array_equal(jit(product)(x, y), product(x, y))
