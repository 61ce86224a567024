"""Neighbouring elements are found, and aligned ones among them."""

import numpy as np
import pytest

from functrans.emit.cuda.superwords import are_apart, groups
from functrans.loop.nodes import index
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Store, buffer, load, size

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


def test_values_come_before_stores_only_where_these_do_not_meet():
    simplify = Simplifier()
    first = Store(X, (K * 2,), load(X, (K * 2,)))
    second = Store(X, (simplify(K * 2 + 1),), load(X, (simplify(K * 2 + 1),)))
    reads_it = Store(Y, (K,), load(X, (K * 2,)))
    elsewhere = Store(Y, (K,), load(X, (J,)))
    assert are_apart([first, second], simplify)
    assert not are_apart([first, reads_it], simplify)
    assert not are_apart([first, elsewhere], simplify)
    assert are_apart([elsewhere, first], simplify)
