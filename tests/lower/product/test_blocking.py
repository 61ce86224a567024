"""Blocking of products."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functrans import config, jit
from functrans.loop.nodes import index
from functrans.loop.scalar import const
from functrans.loop.statements import buffer, load
from functrans.loop.target import CPU
from functrans.lower.product.blocking import blocks_by_rows, blocks_of, reads_columns_in_place
from functrans.lower.product.limits import Blocking
from functrans.lower.product.tiles import height_of
from functrans.lower.select.root import Contraction

AVX2 = replace(CPU, vector_bytes=32, registers=16)


def product(rows, columns, terms, dtype=np.float32):
    row, column = index("i", rows), index("j", columns)
    one = const(1, dtype)
    return Contraction(
        buffer("t", dtype, (rows, columns)), (row, column), (0, 1), (),
        sides=((), (row,), (column,)), counter=index("k", terms), factors=(one, one),
    )  # fmt: skip


@pytest.mark.parametrize(("rows", "height"), [(256, 8), (300, 12), (2600, 8), (257, 12), (90, 6)])
def test_tiles_of_a_block_of_rows_end_with_the_last_row(rows, height):
    assert blocks_by_rows(product(rows, 64, 64), CPU, 48, False, False).height == height


@pytest.mark.parametrize("target", [CPU, AVX2], ids=["AVX-512", "AVX2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_sums_of_a_tile_fit_the_registers(target, dtype):
    found = blocks_of(product(1000, 1000, 1000, dtype), target, False)
    vectors = found.width * np.dtype(dtype).itemsize // target.vector_bytes
    # vectors of the right operand, and one of an element of the left one, are there besides
    assert found.height * vectors + vectors + 1 <= target.registers
    assert found.height * vectors >= target.registers // 3


def of_loads(rows, terms, columns, transposed=False):
    """A product of arrays: constants are neither packed nor read in place."""
    k, one = index("k", terms), product(rows, columns, terms)
    row, column = one.sides[1][0], one.sides[2][0]
    left = buffer("x", np.float32, (terms, rows) if transposed else (rows, terms))
    place = (k, row) if transposed else (row, k)
    right = buffer("y", np.float32, (terms, columns))
    return replace(one, counter=k, factors=(load(left, place), load(right, (k, column))))


def packs(*size, target=CPU):
    return blocks_of(of_loads(*size), target, False).packs


def test_blocks_pack_what_few_rows_read():
    assert packs(128, 128, 512) and packs(500, 512, 512)
    assert not packs(128, 128, 128)  # read in place
    assert not packs(1000, 200, 200) and not packs(500, 512, 2000)


def test_large_results_of_few_terms_are_written_along_rows():
    found = blocks_of(of_loads(700, 24, 2000), CPU, False)
    assert not found.packs and found.tiles == 1 and found.panels * found.width >= 2000
    assert blocks_of(of_loads(700, 200, 2000), CPU, False).tiles > 1  # which the cache cannot hold


def test_without_avx512_few_rows_fit_the_cache():
    assert packs(200, 200, 512, target=AVX2) and not packs(300, 200, 512, target=AVX2)
    assert packs(300, 512, 512, target=AVX2) and not packs(601, 512, 800, target=AVX2)


def test_a_strided_operand_is_packed_once_for_blocks_of_few_rows():
    assert packs(34, 1089, 486, True, target=AVX2) and packs(34, 1089, 486, True)
    # with AVX-512 the copy takes too long for few terms, and for more rows
    assert packs(190, 40, 1977, True, target=AVX2) and not packs(190, 40, 1977, True)
    assert packs(360, 500, 1977, True, target=AVX2) and not packs(360, 500, 1977, True)


@pytest.mark.parametrize(
    ("rows", "terms", "columns", "in_place"),
    [
        (90, 64, 64, True),
        (64, 128, 64, True),
        (64, 500, 100, True),
        (64, 300, 256, False),  # a page has four rows, whose lines do not fit the nearest cache
        (24, 300, 256, True),  # few tiles
        (24, 512, 512, False),  # nor the second-level cache
        (12, 512, 512, True),
        (64, 500, 500, False),  # a megabyte
        (24, 500, 500, True),
    ],
)
def test_without_avx512_rows_that_share_sets_of_a_cache_are_packed(rows, terms, columns, in_place):
    tiles = -(-rows // 6)
    assert reads_columns_in_place(of_loads(rows, terms, columns), AVX2, tiles) is in_place


def parts(count, rows, terms, columns, target=AVX2):
    """The blocking of the parts of a long sum with a left operand in columns."""
    one, part = of_loads(rows, terms, columns), index("part", count)
    (row,), (column,), k = one.sides[1], one.sides[2], one.counter
    left = load(buffer("x", np.float32, (count, terms, rows)), (part, k, row))
    right = load(buffer("y", np.float32, (count, terms, columns)), (part, k, column))
    stack = replace(one, sides=((part,), (row,), (column,)), factors=(left, right))
    return blocks_of(stack, target, False, is_alone=True)


def test_without_avx512_parts_of_long_sums_add_many_terms_to_large_results():
    found = parts(8, 400, 1000, 400)
    assert found.packs and found.in_arena and 100 <= found.depth <= 128
    assert found.panels * found.width >= 400 and found.tiles * found.height >= 400
    assert not parts(8, 100, 1000, 100).in_arena  # the stack has room
    assert not parts(100, 400, 1000, 400).in_arena  # a hundred times as much memory
    assert not parts(8, 400, 1000, 400, CPU).in_arena


@pytest.mark.parametrize(
    ("rows", "most", "height"), [(86, 4, 4), (84, 4, 4), (6, 4, 3), (130, 6, 5)]
)
def test_tiles_divide_the_rows_only_if_these_are_as_fast(rows, most, height):
    # 43 tiles of two rows, of three vectors each, would have too few sums to hide latencies
    vectors = 12 // most
    assert height_of(rows, most, vectors, Blocking(), divides=True) == height


def test_a_tile_leaves_no_rest_where_it_can():
    assert blocks_of(product(100, 64, 64), CPU, False).height == 10
    assert blocks_of(product(2048, 64, 64), CPU, False).height == 8


@pytest.mark.parametrize("target", [CPU, AVX2], ids=["AVX-512", "AVX2"])
def test_tiles_of_a_few_columns_have_no_rows_beyond_the_last(target):
    for rows in (1, 2, 3):
        found = blocks_of(product(rows, 2, 3000), target, False)
        assert found.by_terms and (found.height, found.tiles) == (rows, 1)
    assert blocks_of(product(11, 2, 3000), CPU, False).height == 6  # not 10, twice


@pytest.mark.parametrize(
    ("columns", "terms", "dtype", "target", "by_terms"),
    [
        (2, 17, np.float32, CPU, True), (4, 17, np.float32, CPU, False),
        (4, 53, np.float32, CPU, True), (5, 53, np.float32, CPU, False),
        (10, 198, np.float32, CPU, True), (10, 53, np.float32, CPU, False),
        (11, 2500, np.float32, CPU, False), (7, 198, np.float64, CPU, True),
        (8, 2500, np.float64, CPU, False), (5, 53, np.float32, AVX2, True),
        (6, 2500, np.float32, AVX2, False), (4, 2500, np.float64, AVX2, False),
    ],
)  # fmt: skip
def test_vectors_of_few_columns_go_along_terms_where_adding_up_their_lanes_takes_less(
    columns, terms, dtype, target, by_terms
):
    """Measured: the faster form of each."""
    found = blocks_of(product(300, columns, terms, dtype), target, False)
    assert found.by_terms == by_terms
    assert not by_terms or 2 * columns <= found.height * columns <= 2 * target.registers // 3


@pytest.mark.parametrize(("target", "height"), [(CPU, 8), (AVX2, 6)], ids=["AVX-512", "AVX2"])
def test_rows_that_are_packed_fill_vectors_and_are_enough_sums(target, height):
    assert blocks_of(product(8, 64, 64), AVX2, False, in_vectors=True).height == 4
    for rows in (100, 1000):
        assert blocks_of(product(rows, 64, 64), target, False, in_vectors=True).height == height


def test_a_few_columns_are_one_vector():
    assert blocks_of(product(100, 12, 64), CPU, False).width == 16
    assert blocks_of(product(100, 64, 64), CPU, False).width == 32


EXTENT = st.one_of(st.integers(1, 40), st.sampled_from([300, 512, 2600, 50_000]))


@given(EXTENT, EXTENT, EXTENT, st.booleans())
def test_blocks_cover_the_product(rows, columns, terms, whole_rows):
    found = blocks_of(product(rows, columns, terms), CPU, whole_rows)
    assert (found.stretches - 1) * found.depth < terms <= found.stretches * found.depth
    # vectors of terms are done a second time where they are not full, and the last stretch has one
    last = terms - (found.stretches - 1) * found.depth
    assert found.stretches == 1 or 2 * last >= found.depth
    assert not whole_rows or found.panels * found.width >= columns
    limits = CPU[Blocking]
    most = limits.thin_rows if found.by_terms else limits.rows
    if found.packs:
        # a block has all rows, and its memory is bounded
        assert (found.tiles - 1) * found.height < rows <= found.tiles * found.height
        itemsize, width = 4, found.panels * found.width
        own = (found.depth + found.tiles * found.height) * width * itemsize
        assert own <= 4 * limits.block_bytes / 3 or found.panels == 1
    else:
        assert found.tiles * found.height <= 4 * most / 3 + found.height


def test_results_of_few_terms_are_written_by_whole_rows():
    for rows, terms in ((2000, 100), (200, 3)):
        found = blocks_of(product(rows, 1000, terms), CPU, False)
        assert (found.tiles, found.panels) == (1, -(-1000 // found.width))
    assert blocks_of(product(200, 1000, 30), CPU, False).tiles > 1  # it stays in the cache
    assert blocks_of(product(2000, 1000, 300), CPU, False).tiles > 1  # the right operand does not
    assert blocks_of(product(16, 32_000, 2), CPU, False).panels < 1000  # threads share columns


def test_sums_of_a_left_operand_that_is_packed_once_are_long():
    """A strided one: if each block packs its part, that must fit its scratch memory."""
    row, column, term = index("i", 1000), index("j", 1000), index("k", 1000)
    x, y = (buffer(name, np.float32, (1000, 1000)) for name in "xy")
    root = replace(
        product(1000, 1000, 1000), loops=(row, column), sides=((), (row,), (column,)),
        counter=term, factors=(load(x, (term, row)), load(y, (term, column))),
    )  # fmt: skip
    assert blocks_of(root, CPU, False).stretches == 1
    assert blocks_of(root, CPU, True).stretches > 1  # blocks of whole rows: none reads it again
    assert blocks_of(root, AVX2, False).stretches > 1


def test_three_vectors_of_columns_are_one_tile():
    """Where they are read in place, and there are registers for enough rows."""
    row, column, term = index("i", 100), index("j", 22), index("k", 64)
    x, y = buffer("x", np.float64, (100, 64)), buffer("y", np.float64, (64, 22))
    root = replace(
        product(100, 22, 64, np.float64), loops=(row, column), sides=((), (row,), (column,)),
        counter=term, factors=(load(x, (row, term)), load(y, (term, column))),
    )  # fmt: skip
    found = blocks_of(root, CPU, False)
    assert (found.width, found.panels) == (24, 1) and found.height * 3 + 3 + 1 <= CPU.registers
    assert blocks_of(root, AVX2, False).width == 8


def stored(rows, columns, terms):
    """A product of arrays in memory, in float32."""
    row, column, term = index("i", rows), index("j", columns), index("k", terms)
    x, y = buffer("x", np.float32, (rows, terms)), buffer("y", np.float32, (terms, columns))
    return replace(
        product(rows, columns, terms), loops=(row, column), sides=((), (row,), (column,)),
        counter=term, factors=(load(x, (row, term)), load(y, (term, column))),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "width"),
    [(17, 20), (20, 20), (24, 24), (25, 32), (36, 36), (40, 40), (100, 52), (200, 40), (96, 32)],
)
def test_the_last_vector_of_a_tile_may_be_narrower(columns, width):
    """A half, or a quarter; as few lanes as possible are beyond the last column."""
    found = blocks_of(stored(100, columns, 64), CPU, False)
    assert found.width == width
    vectors = -(-width // 16)
    assert found.height * vectors + vectors + 1 <= CPU.registers
    assert blocks_of(stored(100, columns, 64), AVX2, False).width % 8 == 0


def test_tiles_of_short_sums_begin_where_rows_of_cache_lines_do():
    """Of five terms, storing takes most of the time; rows of 100 columns are at any place."""
    assert blocks_of(stored(100, 200, 5), CPU, False).width % 16 == 0
    assert blocks_of(stored(100, 100, 5), CPU, False).width == 52


def test_a_right_operand_whose_rows_are_near_is_read_in_place():
    """A page has many of them; with 20 columns, a copy in panels would have 24."""
    row = index("i", 200)

    def read_in_place(columns, terms=700):
        column, term = index("j", columns), index("k", terms)
        y = buffer("y", np.float64, (terms, columns))
        root = replace(
            product(200, columns, terms, np.float64), sides=((), (row,), (column,)), counter=term,
            factors=(const(1, np.float64), load(y, (term, column))),
        )  # fmt: skip
        return reads_columns_in_place(root, CPU, 25)

    assert read_in_place(20) and read_in_place(64)
    assert not read_in_place(65)  # 96 KB and more
    assert not read_in_place(64, 2600)  # more than the cache


@pytest.mark.parametrize(
    ("rows", "columns", "terms", "in_place"),
    [(20, 400, 700, True), (21, 400, 700, False), (20, 400, 900, False), (20, 700, 400, False)],
)
def test_few_rows_read_an_operand_a_little_larger_than_the_cache_in_place(
    rows, columns, terms, in_place
):
    assert reads_columns_in_place(stored(rows, columns, terms), CPU, 4) is in_place


@pytest.mark.parametrize("in_vectors", [False, True])
@pytest.mark.parametrize("rows", [2, 3, 5, 7])
def test_a_tile_has_no_more_rows_than_the_product(rows, in_vectors):
    found = blocks_of(product(rows, 12, 300), CPU, False, in_vectors)
    assert found.height == rows + rows % 2 * in_vectors


def test_rows_have_an_address_each():
    assert blocks_of(product(1000, 8, 64), AVX2, False).height == 10


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_small_products_of_long_sums_have_tiles(dtype, monkeypatch):
    rng = np.random.default_rng(2)
    for rows, terms, columns, is_blocked in (
        (100, 20, 6, True),
        (30, 30, 3, True),
        (6, 100, 6, True),
        (7, 300, 2, True),
        # short sums, whose results are stored anyway
        (40, 4, 50, True),
        # too few
        (5, 20, 3, False),
    ):
        x = rng.normal(size=(rows, terms)).astype(dtype)
        y = rng.normal(size=(terms, columns)).astype(dtype)

        def f(x, y):
            return x @ y, np.exp(-((x @ y) ** 2)).sum(0)

        assert ("tiles of" in jit(f).lower(x, y).schedule()) == is_blocked, (rows, terms, columns)
        exact = [
            [sum(float(x[i, k]) * float(y[k, j]) for k in range(terms)) for j in range(columns)]
            for i in range(rows)
        ]
        found = []
        for threads in (1, 2, 5):
            monkeypatch.setattr(config, "threads", threads)
            found.append(jit(f)(x, y))
        tolerance = 2000 * np.finfo(dtype).eps
        np.testing.assert_allclose(found[0][0], exact, rtol=0, atol=tolerance)
        total = np.exp(-(np.array(exact) ** 2)).sum(0)
        np.testing.assert_allclose(found[0][1], total, rtol=0, atol=tolerance)
        for other in found[1:]:
            for one, another in zip(found[0], other, strict=True):
                np.testing.assert_array_equal(one, another)
