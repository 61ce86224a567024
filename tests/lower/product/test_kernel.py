"""Our own kernels of matrix products: results, and fused epilogues."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import config, grad, jit, vmap
from functrans.loop.target import CPU
from functrans.lower.product.limits import Blocking
from functrans.ops.linalg.compiled.forms import Forms
from functrans.run.code import host
from tests.targets import take_host_for

RNG = np.random.default_rng(0)


def array(*shape, dtype=np.float64):
    return RNG.standard_normal(shape).astype(dtype)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def kernels(function, *args):
    """The names of what each kernel of a program writes to memory."""
    schedule = jit(function).lower(*args).stages().split("== kernel construction")[1]
    texts = schedule.split("\nkernel(")[1:]
    return [text for text in texts if not text.startswith("==")]


def check(function, *args, rtol=1e-9):
    compiled = jit(function)
    found, expected = compiled(*args), function(*args)
    for one, other in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


X, W, B = array(100, 70), array(70, 90), array(90)

FUSED = {
    "bias": (lambda x, w, b: x @ w + b, X, W, B),
    "activation": (lambda x, w, b: np.tanh(x @ w + b) * 2, X, W, B),
    "softmax of its rows": (lambda x, w: softmax(x @ w), X, W),
    "sums of its rows": (lambda x, w: np.tanh(x @ w).sum(-1), X, W),
    "rows along two axes": (lambda x, w, b: softmax(x @ w + b), array(5, 20, 70), W, B),
    "a stack": (lambda x, w: softmax(x @ w), array(5, 20, 70), array(5, 70, 90)),
    "kept, and used": (lambda x, w: (x @ w, np.tanh(x @ w)), X, W),
    "more columns than a block": (lambda x, w: np.tanh(x @ w), array(17, 40), array(40, 1100)),
    "whole rows of these": (lambda x, w: softmax(x @ w), array(17, 40), array(40, 1100)),
}

PACKED = {
    "transposed left": (lambda x, w: x.T @ w, array(70, 100), W),
    "transposed right": (lambda x, w: x @ w.T, X, array(90, 70)),
    "both": (lambda x, w: x.T @ w.T, array(70, 100), array(90, 70)),
    "a mask": (lambda x, w, z: ((z > 0) * x) @ w, X, W, array(100, 70)),
    "a mask, transposed": (lambda x, w, z: ((z > 0) * x).T @ w, X, array(100, 90), array(100, 70)),
    "a cast": (lambda x, w: x.astype(np.float64) @ w, array(100, 70, dtype=np.float32), W),
    "joined": (lambda x, w: np.concatenate([x, -x], 1) @ w, array(100, 40), array(80, 90)),
    "a slice": (lambda x, w: x[::2, 10:40] @ w[3:33], X, W),
    "broadcast": (lambda x, w: (x + x[:1]) @ (w * w[:, :1]), X, W),
    "rows from data": (lambda e, i, w: e[i] @ w, array(50, 70), RNG.integers(0, 50, 100), W),
    "terms along two axes": (
        lambda x, y: np.tensordot(np.abs(x), y > 0, ((0, 1), (0, 1))),
        array(5, 14, 100),
        array(5, 14, 90),
    ),
    "along three": (
        lambda x, y: np.tensordot(x, y * 2, ((1, 2, 3), (0, 1, 2))),
        array(40, 3, 1, 17),
        array(3, 1, 17, 90),
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_what_follows_reads_the_block(name):
    function, *args = FUSED[name]
    check(function, *args)
    *packs, product = kernels(function, *args)
    assert len(packs) <= 1 and "_block[" in product


@pytest.mark.parametrize("page", [1, 4096])
@pytest.mark.parametrize("name", PACKED)
def test_operands_are_computed_where_they_are_packed(name, page, monkeypatch):
    """The right one is not packed if its elements, in memory, are as well read where they are."""
    take_host_for(monkeypatch, blocking={"page": page, "fewest_tiles": 1})
    function, *args = PACKED[name]
    check(function, *args)
    *packs, product = kernels(function, *args)
    assert len(packs) == ("_right[" in product) and (packs or page > 1)


def test_right_operands_are_packed_if_their_rows_share_sets_of_a_cache():
    def is_packed(columns):
        *_, product = kernels(lambda x, w: x @ w, array(90, 64), array(64, columns))
        return "_right[" in product

    assert is_packed(1024) and not is_packed(1016)


def test_the_bits_do_not_depend_on_packing(monkeypatch):
    x, w = array(90, 150), array(150, 100)
    found = {jit(lambda x, w: x @ w)(x, w).tobytes()}
    take_host_for(monkeypatch, blocking={"page": 1, "fewest_tiles": 0})
    found.add(jit(lambda x, w: x @ w + 0)(x, w).tobytes())
    assert len(found) == 1


ELSEWHERE = {
    "sums of its columns": (lambda x, w: (x @ w).sum(0), X, W),
    "transposed": (lambda x, w: (x @ w).T + 1, X, W),
    "other rows": (lambda x, w: (x @ w)[::-1] + x @ w, X, W),
    "rows too long for the stack": (lambda x, w: softmax(x @ w), array(17, 20), array(20, 30_000)),
    "another shape": (lambda x, w: (x @ w).reshape(50, 180) * 2, X, W),
    "a product of it": (lambda x, w, v: np.tanh(x @ w) @ v, X, W, array(90, 50)),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_reads_it_otherwise_finds_it_in_memory(name):
    function, *args = ELSEWHERE[name]
    check(function, *args)


def test_single_rows_are_no_products():
    (one,) = kernels(lambda x, w: x @ w, array(1, 300), array(300, 90))
    assert "_right" not in one and "_left" not in one
    check(lambda x, w: x @ w, array(1, 300), array(300, 90))


@pytest.mark.parametrize("rows", [2, 3, 5, 40, 41])
@pytest.mark.parametrize("columns", [2, 8, 16, 33, 70, 130])
@pytest.mark.parametrize("terms", [2, 30, 300, 1000])
def test_nothing_beyond_the_result_is_written(rows, columns, terms):
    """Sums go to memory at once where nothing else is done of them."""
    for dtype, rtol in ((np.float32, 1e-3), (np.float64, 1e-9)):
        x, w = array(3, rows, terms, dtype=dtype), array(terms, columns, dtype=dtype)
        check(lambda x, w: (x @ w, np.tanh(x) @ w), x, w, rtol=rtol)


EXTENT = st.sampled_from([1, 2, 7, 17, 33, 64, 65, 130])


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("columns", [64, 240, 513, 1100])
def test_large_operands_are_packed_along_their_rows(batch, columns, monkeypatch):
    take_host_for(monkeypatch, blocking={"few_bytes": 0, "largest_in_place": 1 << 30})
    x, y = array(batch, 64, 20), array(batch, 20, columns)
    copy, _ = kernels(lambda x, y: x @ (2 * y), x, y)
    assert columns < 512 or copy.index("for k") < copy.index("for panel")
    check(lambda x, y: x @ (2 * y), x, y)
    check(lambda x, y: (2 * x).mT @ y, x.mT.copy(), y)


@pytest.mark.parametrize("registers", [0, 64])
@pytest.mark.parametrize("rows", [1, 17, 60, 65, 130])
@pytest.mark.parametrize("terms", [2, 90, 900])
def test_left_operands_that_are_packed_before(registers, rows, terms, monkeypatch):
    """With few registers and with many: each stretch has its tiles, the last of a few rows.

    The cache holds the result; otherwise, blocks have whole rows, and pack each row once.
    """
    blocking = {"few_bytes": 0, "few_registers": registers}
    take_host_for(monkeypatch, vector_bytes=64, registers=32, cache=1 << 30, blocking=blocking)
    for dtype, tolerance in ((np.float32, 1e-3), (np.float64, 1e-11)):
        x, y = array(3, terms, rows, dtype=dtype), array(3, terms, 1100, dtype=dtype)
        for one, other in ((x, y), (x[:, :, ::-1], y[:, ::-1])):
            found = jit(lambda x, y: (x.mT @ y, np.tanh(x).mT @ y + 1))(one, other)
            np.testing.assert_allclose(found[0], one.mT @ other, atol=tolerance)
            np.testing.assert_allclose(found[1], np.tanh(one).mT @ other + 1, atol=tolerance)
    if rows > 1 and terms > 2:
        before = [text for text in kernels(lambda x, y: x.mT @ y, x, y) if "_left[" in text][:-1]
        assert len(before) == 1, before


def test_rows_that_are_not_there_are_not_stored():
    """A tile's rows beyond the last one are zeros, and stand for it: it is stored after them."""
    for rows in (5, 16, 17, 64, 100):
        x, y = array(64, rows), np.full((64, 64), np.inf)
        x[:, -1] = 1
        assert np.array_equal(jit(lambda x, y: x.T @ y)(x, y)[-1], y[0])


@pytest.mark.parametrize("terms", [384, 540, 575, 600])
def test_blocks_whose_copies_of_rows_have_no_room_have_fewer_rows(terms):
    x, y = array(terms, 260), array(terms, 320)
    schedule = jit(lambda x, y: x.T @ y).lower(x, y).schedule()
    panels = [int(n) for n in re.findall(r"for panel in 0..(\d+)", schedule)]
    assert panels[-1] > 2, schedule
    check(lambda x, y: x.T @ y, x, y)


@pytest.mark.full
@settings(deadline=None, max_examples=40)
@given(EXTENT, EXTENT, EXTENT, st.sampled_from([1, 3]), st.booleans(), st.booleans(), st.data())
def test_any_sizes(rows, columns, terms, batch, left, right, data):
    """With small blocks, so that there are some of each kind; none of them decides a number."""
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    depth_bytes = data.draw(st.sampled_from([128, 512, 4096]))
    blocking = Blocking(
        depth_bytes=depth_bytes,
        deepest_bytes=depth_bytes,
        panel_bytes=1,
        page=data.draw(st.sampled_from([1, 4096])),
        rows=data.draw(st.sampled_from([8, 24, 48])),
        columns=data.draw(st.sampled_from([16, 64, 512])),
        fewest_blocks=data.draw(st.sampled_from([1, 8])),
    )
    x = array(batch, *((terms, rows) if left else (rows, terms)), dtype=dtype)
    y = array(batch, *((columns, terms) if right else (terms, columns)), dtype=dtype)

    def product(x, y):
        x = x.transpose(0, 2, 1) if left else x
        y = y.transpose(0, 2, 1) if right else y
        return np.maximum(x @ y, 0) + 1

    host.other = CPU.having(blocking, Forms(fewest_rows=1, least_work=1))
    try:
        found = jit(product)(x, y)
    finally:
        host.other = None
    tolerance = 2e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found, product(x, y), rtol=tolerance, atol=tolerance)


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    function = jit(lambda x, w, b: softmax(x @ w + b))
    results = set()
    for number in (1, 2, 5):
        monkeypatch.setattr(config, "threads", number)
        results.add(function(array(300, 70) * 0 + X[:1], W, B).tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("rows", [17, 29, 30, 31, 37, 41, 101])
@pytest.mark.parametrize("terms", [90, 900])
def test_rows_that_are_packed_and_leave_a_rest(rows, terms):
    for dtype, tolerance in ((np.float32, 1e-3), (np.float64, 1e-11)):
        x, w = array(terms, rows, dtype=dtype), array(terms, 200, dtype=dtype)
        np.testing.assert_allclose(jit(lambda x, w: x.T @ w)(x, w), x.T @ w, atol=tolerance)


SYMMETRIC = {
    "rows": lambda x, d: x @ x.T,
    "columns": lambda x, d: x.T @ x,
    "weighted": lambda x, d: x.T @ (d[:, None] * x),
    "read as it is": lambda x, d: np.tanh(x @ x.T) + 1,
    "read by rows": lambda x, d: softmax(x @ x.T),
    "read otherwise": lambda x, d: np.cumsum(x.T @ x, axis=0),
}


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("shape", [(64, 300), (65, 257), (300, 300), (517, 90), (200, 1100)])
def test_half_of_a_symmetric_product(name, shape):
    function = SYMMETRIC[name]
    for dtype, tolerance in ((np.float32, 1e-4), (np.float64, 1e-12)):
        x, d = array(*shape, dtype=dtype) / 8, array(shape[0], dtype=dtype)
        found, wanted = jit(function)(x, d), function(x.astype(float), d.astype(float))
        np.testing.assert_allclose(
            found, wanted, rtol=tolerance, atol=tolerance * abs(wanted).max()
        )
        if name in ("rows", "columns", "weighted"):
            np.testing.assert_array_equal(found, found.T)


def test_no_block_above_the_diagonal_is_computed():
    x = array(300, 300)
    (symmetric,) = [text for text in kernels(lambda x: x @ x.T, x) if "sum0" in text]
    assert "if (" in symmetric
    (whole,) = [text for text in kernels(lambda x, y: x @ y.T, x, x + 1) if "sum0" in text]
    assert "if (" not in whole


def test_several_columns_are_mirrored_at_once():
    x = array(300, 300)
    (symmetric,) = [text for text in kernels(lambda x: x @ x.T, x) if "sum0" in text]
    assert "for group in" in symmetric  # of columns, whose vectors are transposed in registers


@pytest.mark.parametrize("columns", [17, 20, 50, 52, 100])
def test_a_quarter_of_a_vector_adds_four_terms_at_once(columns):
    """Whichever terms are left, and whatever is beyond the last column of the right operand."""
    for dtype, rtol in ((np.float32, 1e-4), (np.float64, 1e-10)):
        for terms in (5, 50, 51):
            x, y = array(27, terms, dtype=dtype), array(terms, columns, dtype=dtype)
            check(lambda x, y: (x @ y, np.tanh(x) @ y, x @ (2 * y)), x, y, rtol=rtol)


@pytest.mark.parametrize("terms", [20, 60])
def test_a_matrix_times_its_transpose_is_symmetric_bit_by_bit(terms):
    for dtype in (np.float32, np.float64):
        found = jit(lambda x: x @ x.T)(array(100, terms, dtype=dtype))
        np.testing.assert_array_equal(found, found.T)


def test_bits_of_symmetric_products_do_not_depend_on_the_number_of_threads(monkeypatch):
    x = array(517, 300)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append(jit(lambda x: (x @ x.T, x.T @ x))(x))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


LONG = {
    "as it lies": lambda x, y: x @ y,
    "turned": lambda x, y: (2 * x.T).T @ y.T.copy().T,
    "computed": lambda x, y: np.tanh(x) @ (y + 1),
    "symmetric": lambda x, y: y.T @ y,
    "of columns": lambda x, y: y.T @ (np.abs(x[0])[:, None] * y),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize(
    ("terms", "columns"), [(40_000, 30), (39_983, 30), (40_002, 30), (1797, 64), (2602, 101)]
)
def test_parts_of_long_sums(name, terms, columns, monkeypatch):
    function = LONG[name]
    x, y = array(20, terms), array(terms, columns)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append(jit(function)(x, y))
    np.testing.assert_allclose(found[0], function(x, y), rtol=1e-10, atol=1e-8)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.dear
@pytest.mark.parametrize("terms", [40_000, 39_983])
@pytest.mark.parametrize("columns", [30, 96, 97])
def test_parts_of_any_length_are_a_kernel(terms, columns):
    x, y = array(20, terms), array(terms, columns)
    text = jit(lambda x, y: x @ y).lower(x, y).schedule()
    assert f"of 20 x {-(-terms // 8)} times" in text
    assert "dgemm" not in text


@pytest.mark.parametrize(("rows", "terms"), [(64, 30_000), (96, 4001), (48, 100_000), (300, 5000)])
def test_symmetric_sums_along_rows(rows, terms):
    x, d = array(rows, terms), array(terms)
    for function in (lambda x, d: x @ x.T, lambda x, d: (x * d) @ x.T):
        found, wanted = jit(function)(x, d), function(x, d)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * abs(wanted).max())
        np.testing.assert_array_equal(found, found.T)


def test_half_of_each_part_of_a_symmetric_sum():
    x, d, product = array(1797, 64), array(1797), jit(lambda x, d: x.T @ (d[:, None] * x))
    text, short = (product.lower(x[:n], d[:n]).schedule() for n in (1797, 900))
    assert "8 of 64 x 225 times 225 x 64" in text
    assert re.search(r"for tile in \?\.\.", text)  # from the diagonal on
    assert "64 x 900 times 900 x 64" in short


def test_parts_of_sums_along_two_axes():
    x, y = array(80, 50, 30), array(80, 50, 70)
    check(lambda x, y: np.tensordot(x, y, ((0, 1), (0, 1))), x, y)
    check(lambda x, y: np.tensordot(x, np.tanh(y), ((0, 1), (0, 1))), x, y)


def test_terms_along_axes_that_are_not_one():
    x, y = array(6, 40, 30), array(40, 6, 70)
    check(lambda x, y: np.tensordot(x, y, ((0, 1), (1, 0))), x, y)
    check(lambda x, y: np.tensordot(x, y, ((0, 2), (1, 0))), array(6, 20, 40), y)


def test_infinities_and_nans_of_other_rows_and_columns_stay_there():
    x, w = X.copy(), W.copy()
    x[99], w[:, 89] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        found, expected = jit(lambda x, w: x @ w)(x, w), x @ w
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found[:99, :89], expected[:99, :89], rtol=1e-9, atol=1e-12)


@pytest.mark.dear
def test_gradients():
    def loss(p, x, y):
        return np.mean((np.maximum(x @ p[0] + p[1], 0) @ p[2] - y) ** 2)

    p, y = (W, B, array(90, 30)), array(100, 30)
    for one, other in zip(jit(grad(loss))(p, X, y), grad(loss)(p, X, y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    per_sample = vmap(grad(loss), in_axes=(None, 0, 0))
    for one, other in zip(jit(per_sample)(p, X, y), per_sample(p, X, y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_a_single_tile_reads_a_large_right_operand_where_it_is(rows, monkeypatch):
    """It reads each element once; of a transposed one, columns are not neighbours."""
    take_host_for(monkeypatch, cache=64, blocking={"depth_bytes": 256, "panel_bytes": 1})
    x, w = array(rows, 300), array(300, 70)
    (product,) = kernels(lambda x, w: x @ w, x, w)
    assert "_right[" not in product
    check(lambda x, w: np.tanh(x @ w), x, w)
    turned = kernels(lambda x, w: x @ w.T, x, w.T.copy())
    assert "_right[" in turned[-1]
    check(lambda x, w: x @ w.T, x, w.T.copy())


@pytest.mark.dear
@pytest.mark.parametrize("shape", [(40, 70, 33), (41, 300, 64), (17, 30, 300), (240, 30, 9)])
def test_large_right_operands_are_packed_block_by_block(shape, monkeypatch):
    small = {"depth_bytes": 256, "deepest_bytes": 256, "panel_bytes": 1}
    take_host_for(monkeypatch, cache=64, blocking={**small, "page": 1, "fewest_tiles": 0})
    rows, terms, columns = shape
    x, w, b = array(rows, terms), array(terms, columns), array(columns)
    assert len(kernels(lambda x, w: x @ w, x, w)) == 1
    check(lambda x, w: x @ w, x, w)
    check(lambda x, w, b: np.tanh(x @ w.T + b), x, w.T.copy(), b)
    check(lambda x, w: softmax(x @ w), x, w)
    check(lambda x, w: (x @ w, np.tanh(x @ w)), array(2, rows, terms), w)
    check(grad(lambda x, w: np.sum(np.tanh(x @ w)), argnums=(0, 1)), x, w)


def test_the_cost_names_the_form():
    costs = jit(lambda x, w: x @ w).lower(array(402, 300), array(300, 70)).cost()
    *_, form = (nest.form for nest in costs.nests)
    assert re.fullmatch(
        r"402 x 300 times 300 x 70, tiles of \d+ x \d+, vectors along columns", form
    )


@pytest.mark.dear
def test_few_columns_are_sums_along_vectors():
    """The small operand is copied, so that its terms are neighbours."""
    for columns in (2, host.target().lanes(8) - 1):
        x, w = array(402, 300), array(300, columns)
        check(lambda x, w: x @ w, x, w)
        copy, product = kernels(lambda x, w: x @ w, x, w)
        (sums,) = (line for line in product.splitlines() if "fold k" in line)
        lanes = f"{host.target().lanes(8)} lanes"
        assert lanes in copy and lanes in sums
        check(lambda x, w: np.tanh(x @ w), x, w)
    check(lambda x, w: x @ w.T, array(402, 300), array(2, 300))
    check(lambda x, w: (x @ w)[..., 0], array(5, 80, 300), array(300, 2))


def test_few_rows_read_the_right_operand_where_it_is():
    (product,) = kernels(lambda x, w: x @ w, array(20, 300), array(300, 70))
    assert "_right[" not in product
    for columns in (64, 70, 10):
        check(lambda x, w: np.tanh(x @ w), array(20, 300), array(300, columns))


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "u8"])
def test_integers_wrap(dtype):
    top = np.iinfo(dtype).max
    x, w = (RNG.integers(0, top, shape, dtype=dtype) for shape in ((40, 70), (70, 33)))
    (found, expected) = jit(lambda x, w: x @ w)(x, w), x @ w
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    assert "fold k" in kernels(lambda x, w: x @ w, x, w)[-1]


def test_the_place_of_a_gathered_row_is_read_once():
    """It was read, and checked, for each term of the sum."""
    table, places = array(50, 16), np.append(RNG.integers(-50, 50, 299), 49)
    product = jit(lambda x, w, i: x[i] @ w).lower(table, array(16, 16), places).source()
    sums = product.split("for k in range(16):")[-1].split("t0_0[")[0]
    assert "fma" in sums and "checked" not in sums
    check(lambda x, w, i: x[i] @ w, table, array(16, 16), places)
    with pytest.raises(IndexError):
        jit(lambda x, w, i: x[i] @ w)(table, array(16, 16), places + 1)
