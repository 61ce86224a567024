"""Linearisation of arrays read through reshapes, on statements written by hand."""

import numpy as np
import pytest

from functrans import jit
from functrans.loop.nodes import INDEX, index, separated
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Call, For, Store, buffer, load
from functrans.lower.kernel.array_linearisation import linear_places
from functrans.lower.kernel.symbolic_sizes import parametrise
from functrans.lower.nest.bodies import Nest
from tests.loop.evaluate import Memory, evaluate
from tests.lower.by_hand import done_by

F8 = np.dtype(float)
ROWS = 60
COUNT = 9 * ROWS
X, Y, OTHER = buffer("x", F8, (ROWS, 3, 3)), buffer("y", F8, (COUNT,)), buffer("o", F8, (ROWS, 3))
K = index("k", COUNT)


def at(number, target=X):
    extents = [int(extent.attribute) for extent in target.shape]
    return tuple(map(Simplifier(), separated(number, extents)))


def loop(*body):
    return For(K, const(0, INDEX), const(COUNT, INDEX), body)


READ = loop(Store(Y, (K,), load(X, at(K)) * 2.0))


def test_it_does_what_the_statements_do():
    kernel, arguments, sizes = done_by(parametrise, Nest((READ,), ()), {}, {})
    assert [len(one.shape) for one in kernel.buffers] == [1, 1]
    a = np.arange(float(COUNT))
    memory = {X: Memory(a.reshape(ROWS, 3, 3), True), Y: Memory(np.zeros(COUNT), False)}
    assert evaluate(kernel, [memory[one] for one in arguments], sizes) == 0
    np.testing.assert_array_equal(memory[Y].array, a * 2)


def test_what_is_written_through_a_reshape():
    body = loop(Store(X, at(K), load(Y, (K,))), Store(X, (const(0, INDEX),) * 3, const(5.0, F8)))
    kernel, arguments, sizes = done_by(parametrise, Nest((body,), ()), {}, {})
    a = np.arange(float(COUNT))
    memory = {Y: Memory(a, True), X: Memory(np.zeros((ROWS, 3, 3)), False)}
    assert evaluate(kernel, [memory[one] for one in arguments], sizes) == 0
    np.testing.assert_array_equal(memory[X].array.ravel(), np.r_[5.0, a[1:]])


STAYS = {
    "nothing is divided": ([loop(Store(Y, (K,), load(Y, (K,))))], ()),
    "one access is divided for": (
        [loop(Store(Y, (K,), load(X, at(K)) + load(X, (at(K)[0], at(K)[2], at(K)[1]))))],
        (),
    ),
    "a library reads it": ([READ, Call("f", (), reads=(X,), writes=())], ()),
    "a row of an iteration": ([READ], (X,)),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name):
    body, scratch = STAYS[name]
    assert linear_places(body, {}, scratch) == {}


def test_buffers_that_are_one_are_looked_at_together():
    other = buffer("z", F8, (ROWS, 3, 3))
    twice = loop(Store(other, at(K), load(X, at(K)) * 2.0))
    assert set(linear_places([twice], {other: X}, ())) == {X}
    across = (at(K)[0], at(K)[2], at(K)[1])
    assert linear_places([loop(Store(other, across, load(X, at(K))))], {other: X}, ()) == {}


@pytest.mark.parametrize("shape", [(2, 3), (17, 3, 3), (300, 2, 5), (2600, 3), (30, 100, 64)])
def test_programs_read_through_reshapes(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    flat, rows = x.reshape(-1), x.reshape(shape[0], -1)
    np.testing.assert_allclose(jit(lambda x: x.reshape(-1) @ x.reshape(-1))(x), flat @ flat)
    np.testing.assert_allclose(
        jit(lambda x: np.sum(np.exp(x.reshape(shape[0], -1)), axis=1))(x), np.exp(rows).sum(1)
    )
    np.testing.assert_array_equal(jit(lambda x: x.reshape(-1)[::-1])(x), flat[::-1])
    np.testing.assert_array_equal(
        jit(lambda x, i: x.reshape(-1)[i])(x, [0, 5, -1]), flat[[0, 5, -1]]
    )
    assert jit(np.max)(x) == x.max()


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(17, 3, 3), (300, 2, 5)])
def test_numba_takes_arrays_with_one_axis(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    product = jit(lambda x: x.reshape(-1) @ x.reshape(-1), backend="numba")
    np.testing.assert_allclose(product(x), x.ravel() @ x.ravel())


def test_a_division_that_is_needed_anyhow_may_stay():
    """As in a stack of products, whose blocks of rows are numbered together with the stack."""
    block, k = index("block", 2 * ROWS), index("k", 9)
    row = Simplifier()(Scalar("idiv", (block, const(2, INDEX)), INDEX))
    inner = (const(0, INDEX), *at(k)[1:])
    read = For(k, const(0, INDEX), const(9, INDEX), (Store(Y, (k,), load(X, (row, *inner[1:]))),))
    body = For(block, const(0, INDEX), const(2 * ROWS, INDEX), (read,))
    (place,) = linear_places([body], {}, ())[X].values()
    assert place == Simplifier()(row * 9 + k)
