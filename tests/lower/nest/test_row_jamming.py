"""Rows that are reduced several at once, by hand and in whole programs."""

from dataclasses import replace

import numpy as np
import pytest

from functrans import jit
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const, postorder
from functrans.loop.statements import For, If, Reduce, Store, buffer, load, local
from functrans.lower.nest.row_jamming import several_rows
from tests.lower.by_hand import done_by, results
from tests.targets import take_host_for, target

F4 = np.dtype(np.float32)
AVX2 = target(vector_bytes=32, registers=16)
RNG = np.random.default_rng(0)


def products(rows, columns, dtype=np.float32, lanes=32, shared=True):
    """``y[i] = sum(x[i, k] * v[k] for k in range(columns))``, or of squares."""
    dtype = np.dtype(dtype)
    x, v = buffer("x", dtype, (rows, columns)), buffer("v", dtype, (columns,))
    y, i, k, total = (
        buffer("y", dtype, (rows,)),
        index("i", rows),
        index("k", columns),
        local(dtype),
    )
    value = load(x, (i, k)) * load(v if shared else x, (k,) if shared else (i, k))
    row = Reduce((total,), ("add",), (value,), ((k, ZERO, const(columns, INDEX)),), lanes=lanes)
    return For(i, ZERO, const(rows, INDEX), (row, Store(y, (i,), total))), x, v, y


@pytest.mark.parametrize("rows", [8, 9, 11, 40])
@pytest.mark.parametrize(("columns", "count", "lanes"), [(30, 4, 16), (512, 4, 16), (776, 2, 32)])
def test_four_rows_or_two_of_which_each_is_one_block(rows, columns, count, lanes):
    loop, x, v, y = products(rows, columns)
    made = done_by(several_rows, loop, target=AVX2)
    (first, *_) = made.body
    body = first.body if rows % count else made.body
    assert isinstance(first, If) is bool(rows % count)
    assert (len(body[0].targets), body[0].lanes, len(body)) == (count, lanes, 1 + count)
    loads = {node for node in postorder(body[0].values) if node.op == "load"}
    assert len(loads) == count + 1
    a, b = (
        RNG.standard_normal((rows, columns), np.float32),
        RNG.standard_normal(columns, np.float32),
    )
    a[-1] = a[0]
    (found,) = results((made,), {x: a, v: b}, [y])
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)
    assert found[-1] == found[0]


def test_what_stays():
    """Few or short rows, rows without a common factor from a cache, and short ones from memory.

    And sums that go through memory which all rows may share.
    """
    far = target(vector_bytes=32, registers=16, reductions={"from_memory": 1000})
    plain, *_ = products(40, 300)
    row, last = plain.body
    shared = buffer("s", F4, (1,))
    through = (Store(shared, (ZERO,), last.value), replace(last, value=load(shared, (ZERO,))))
    for loop, machine in (
        (replace(plain, body=(row, *through)), AVX2),
        (products(7, 300)[0], AVX2),
        (products(40, 20)[0], AVX2),
        (products(40, 300, shared=False)[0], AVX2),
        (plain, far),
    ):
        assert done_by(several_rows, loop, target=machine) is loop


def test_long_rows_from_memory():
    far = target(vector_bytes=32, registers=16, reductions={"from_memory": 1000})
    loop, x, v, y = products(9, 1600, shared=False)
    made = done_by(several_rows, loop, target=far)
    assert made is not loop
    a = RNG.standard_normal((9, 1600), np.float32)
    (found,) = results((made,), {x: a, v: a[0]}, [y])
    np.testing.assert_allclose(found, (a * a).sum(1), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 1, 2, 17, 300])
@pytest.mark.parametrize("columns", [0, 1, 2, 17, 300, 2600])
def test_in_programs(rows, columns, dtype, monkeypatch):
    """Equal rows have equal results, wherever they are."""
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    a, b = RNG.standard_normal((rows, columns)).astype(dtype), RNG.standard_normal(columns)
    b = b.astype(dtype)
    if rows:
        a[-1] = a[0]
    found, curved = jit(lambda a, b: (a @ b, np.tanh(a @ b * 0.1 + a.sum(1))))(a, b)
    rtol = 1e-3 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, a @ b, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(curved, np.tanh(a @ b * 0.1 + a.sum(1)), rtol=rtol, atol=rtol)
    if rows:
        assert found[0] == found[-1] and curved[0] == curved[-1]


@pytest.mark.parametrize(("columns", "is_jammed"), [(64, False), (300, True)])
def test_long_code_after_short_rows_is_not_repeated(columns, is_jammed):
    loop, *_ = products(40, columns)
    row, stored = loop.body
    value = stored.value
    for _ in range(50):
        value = value * value + 1.0
    loop = replace(loop, body=(row, replace(stored, value=value)))
    assert (done_by(several_rows, loop, target=AVX2) is not loop) is is_jammed
