"""Superword detection: accesses to adjacent elements, and which of them are aligned."""

import numpy as np
import pytest

from functrans.emit.cuda.kernel import emit
from functrans.emit.cuda.superwords import groups, in_any_order
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Kernel, Store, buffer, load, size
from functrans.lower.grid.target import CUDA
from tests.emit.cuda.emulator import emulate

K, J = index("i", 100), index("j", 100)
X, Y = buffer("x", np.float32, (1000,)), buffer("y", np.float32, (1000,))


def found(positions, one=X):
    simplify = Simplifier()
    loads = [load(one, (simplify(position),)) for position in positions]
    together = groups(loads, lambda node: (node.attribute, node.args[0]), simplify)
    return [len(group.members) for group in together]


@pytest.mark.parametrize(
    ("positions", "sizes"),
    [
        ([K * 4 + n for n in range(4)], [4]),
        ([K * 4 + n for n in (3, 1, 0, 2)], [4]),
        ([K * 4 + n for n in range(8)], [4, 4]),
        ([K * 4 + n for n in range(3)], [2]),
        ([K * 4 + n for n in range(1, 5)], [2]),
        ([K * 2 + n for n in range(4)], [2, 2]),
        ([K + n for n in range(4)], []),
        ([K * size(0) + J * 4 + n for n in range(4)], []),
        ([K * (size(0) * 4) + J * 4 + n for n in range(4)], [4]),
        ([K * 4, J * 4 + 1], []),
    ],
)
def test_neighbours_from_a_multiple_of_their_number_on(positions, sizes):
    assert found(positions) == sizes


def test_how_many_depends_on_their_size():
    assert found([K * 16 + n for n in range(16)], buffer("b", bool, (99,))) == [16]
    assert found([K * 16 + n for n in range(4)], buffer("d", np.float64, (99,))) == [2, 2]


def runs(*stores):
    return [len(run) for run in in_any_order(stores, Simplifier())]


def test_values_come_before_stores_only_where_these_do_not_meet():
    simplify = Simplifier()
    first = Store(X, (K * 2,), load(X, (K * 2,)))
    second = Store(X, (simplify(K * 2 + 1),), load(X, (simplify(K * 2 + 1),)))
    reads_it = Store(Y, (K,), load(X, (K * 2,)))
    elsewhere = Store(Y, (K,), load(X, (J,)))
    assert runs(first, second) == [2]
    assert runs(first, reads_it) == [1, 1]
    assert runs(first, elsewhere) == [1, 1]
    assert runs(elsewhere, first) == [2]


def test_of_two_stores_to_one_element_the_last_one_stays():
    simplify = Simplifier()
    here, there = (Store(X, (simplify(K * 2 + n),), load(Y, (K,))) for n in (0, 1))
    again, anywhere = (Store(X, (at,), load(Y, (J,))) for at in (there.indices[0], J))
    assert runs(here, there, again) == [2, 1]
    assert runs(here, anywhere, there) == [1, 1, 1]
    assert runs(here, Store(X, there.indices, load(Y, (K,)), op="add"), again) == [1, 1, 1]


def test_the_last_one_stays_in_a_kernel():
    """A store whose element is stored to again is not put off behind that."""
    ends = buffer("ends", np.float32, (2,))
    places = [const(n, INDEX) for n in (0, 1, 1)]
    body = [Store(ends, (at,), const(float(n), np.float32)) for n, at in enumerate(places)]
    i = index("i", 1)
    loop = For(i, ZERO, const(1, INDEX), tuple(body), parallel=True)
    memory = np.zeros(2, np.float32)
    emulate(
        emit(Kernel((ends,), 0, (loop,), team=1), CUDA.grid),
        [np.zeros(1, np.int64), memory],
        1,
        256,
    )
    np.testing.assert_array_equal(memory, [0, 2])
